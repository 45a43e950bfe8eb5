# shellcheck shell=bash
# TAP files of scripts/test: which of them run, for which access methods, and how. Sourced by scripts/test; uses its variables and
# count, show, skip, run_as.

# tap_name FILE[@METHOD]: its name in logs.
tap_name() {
	local name=${1%@*}

	name=$(basename "$name" .pl)
	[ "${1%@*}" = "$1" ] || name+=-${1#*@}
	echo "$name"
}

# make_initdb: an initdb that copies one data folder for each of the hundred nodes of the TAP files, which ask for the same; others it makes as ever.
make_initdb() {
	run_as mkdir -p "$WORK/initdb"
	run_as env -u LC_ALL LC_MESSAGES=C "$SERVER_BIN/initdb" -D "$WORK/initdb/data" -A trust -N >"$LOGS/initdb.log" 2>&1 || return 1
	run_as tee "$WORK/initdb/initdb" >/dev/null <<-END
		#!/bin/sh
		if [ "\$# \$1 \$3 \$4 \$5" = '5 -D -A trust -N' ] && [ ! -e "\$2" ]; then
			exec cp -a "$WORK/initdb/data" "\$2"
		fi
		exec "$SERVER_BIN/initdb" "\$@"
	END
	run_as chmod +x "$WORK/initdb/initdb"
}

# tap_file FILE[@METHOD[.WAY|+SHARE]] SECONDS: one TAP file as RUN_USER, for an access method, with the worker as WAY says (VECTORGPU_WORKER); writes its
# verdict (ok, FAIL, skip reason) to LOGS/tap/NAME.verdict.
tap_file() {
	local file=${1%@*} limit=$2 method=gpuflat storage='' share='' way=() name log status=0 began=$SECONDS

	name=$(tap_name "$1")
	[ "$file" = "$1" ] || method=${1#*@}
	[ "${method%+*}" = "$method" ] || share=${method#*+} method=${method%+*}
	[ "${method%.*}" = "$method" ] || way=("VECTORGPU_WORKER=${method#*.}" VECTORGPU_PRELOAD=1) method=${method%.*}
	case $method in
		*-hash) storage="hash_bits = 64" ;;
		*-*) storage="storage = ${method#*-}, refine = none" ;;
	esac
	log=$LOGS/tap/$name.log
	run_as mkdir -p "$WORK/tap/$name"
	enter_memory_cgroup
	run_as env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE TESTDIR="$WORK/tap/$name" \
		top_builddir="$WORK" PATH="$WORK/initdb:$SERVER_BIN:$PATH" PG_REGRESS="$SERVER_PGXS/src/test/regress/pg_regress" \
		VECTORGPU_FAULT_LIST="$WORK/tree/test/faults.txt" VECTORGPU_ACCESS_METHOD="${method%-*}" VECTORGPU_STORAGE="$storage" VECTORGPU_SHARE="$share" "${way[@]}" "${TAP_ENVIRONMENT[@]}" \
		timeout --kill-after=30 "$limit" perl -I "$SERVER_PGXS/src/test/perl" -I "$WORK/tree/test/t/lib" ${TAP_MODULE:+"-M$TAP_MODULE"} "$WORK/tree/$file" \
		>"$log" 2>&1 || status=$?
	if [ "$status" -eq 0 ] && grep -q '^1\.\.0 # SKIP' "$log"; then
		sed -n 's/^1\.\.0 # SKIP */skip /p' "$log" | head -n 1 >"$LOGS/tap/$name.verdict"
	elif [ "$status" -eq 0 ] && grep -qE '^1\.\.[1-9]' "$log"; then
		echo ok >"$LOGS/tap/$name.verdict"
	else
		echo FAIL >"$LOGS/tap/$name.verdict"
		# What the nodes of this file logged goes with the other logs.
		tar -C "$WORK/tap/$name" -cf - tmp_check/log 2>/dev/null | tar -C "$LOGS/tap" -xf - --transform "s,^tmp_check/log,$name.servers," \
			--no-same-owner 2>/dev/null
	fi
	run_as rm -rf "$WORK/tap/$name"
	printf '   %-32s %s (%d s, at %d s)\n' "$name" "$(cat "$LOGS/tap/$name.verdict")" "$((SECONDS - began))" "$((SECONDS - TAP_START))"
}

# tap_entries FOLDER: what part_tap runs of it, FILE, FILE@METHOD, FILE@METHOD+SHARE or FILE@METHOD.WAY. Files about storage that is shared by all access methods run for
# each of them; those of test/long are about what the file of test/t is that they name. What the quick suite leaves to the long runs is there where it
# is asked for by FILES.
tap_entries() {
	local file named every_method=0

	[ "$LONG" -eq 0 ] && [ -z "$FILES$TAP_EXCEPT" ] || every_method=1

	cd "$ROOT" || return
	find "$1" -maxdepth 1 -name '*.pl' 2>/dev/null | grep -E "${TAP_ONLY:-.}" | grep -vE "${TAP_EXCEPT:-^$}" | sort | while read -r file; do
		named=$(sed -n 's,.*RealBin/\.\.\(/t/[0-9a-z_]*\.pl\)".*,test\1,p' "$file" | head -n 1)
		echo "$file"
		# shellcheck disable=SC2016
		! grep -q 'USING \$AM' "${named:-$file}" || [[ $file == test/t/060_* && $every_method -eq 0 ]] || printf '%s@gpuivf\n%s@gpugraph\n' "$file" "$file"
		[[ $file != test/t/254_worker_lists.pl ]] || printf '%s@gpugraph\n' "$file"
		# Of gpumatch the quick suite has a sample in 120_ to 122_ beside those of 200_ and 247_.
		case ${file#test/} in
			t/230_* | t/241_*) [ "$every_method" -eq 0 ] || echo "$file@gpumatch" ;;
			t/040_* | t/200_* | t/247_* | t/400_* | long/040_* | long/11[01]_* | long/200_* | long/210_* | long/230_* | long/241_* | long/247_* | long/400_*) echo "$file@gpumatch" ;;
		esac
		# Lists, and a graph, of codes: in the quick suite some of these.
		case ${file##*/} in
			021_* | 200_*_long.pl | 400_*_long.pl) echo "$file@gpuivf-sq8" ;;
			030_* | 200_* | 400_*) [ "$every_method" -eq 0 ] || echo "$file@gpuivf-sq8" ;;
			100_*) [ "$every_method" -eq 0 ] && echo "$file@gpugraph-hash" || printf '%s@gpuivf-pq\n%s@gpugraph-hash\n' "$file" "$file" ;;
			11[01]_*_long.pl | 210_*_long.pl) printf '%s@gpuivf-pq\n%s@gpugraph-hash\n' "$file" "$file" ;;
			110_*) [ "$every_method" -eq 0 ] && echo "$file@gpuivf-pq" || printf '%s@gpuivf-pq\n%s@gpugraph-hash\n' "$file" "$file" ;;
			210_*) [ "$every_method" -eq 0 ] && echo "$file@gpugraph-hash" || printf '%s@gpuivf-pq\n%s@gpugraph-hash\n' "$file" "$file" ;;
		esac
	done | tap_shares | tap_ways | grep -E "${FILES:-.}"
}

# tap_shares: the entries of stdin, those that take hours in shares that may run beside each other.
tap_shares() {
	local entry share shares

	while read -r entry; do
		case $entry in
			*/200_faults_long.pl*) shares=6 ;;
			*/251_worker_own_faults_long.pl) shares=8 ;;
			*/210_corruption_long.pl* | */300_recall_datasets_long.pl* | */301_gpuivf_filters_long.pl*) shares=4 ;;
			*)
				echo "$entry"
				continue
				;;
		esac
		[[ $entry = *@* ]] || entry+=@gpuflat
		for ((share = 1; share <= shares; share++)); do
			echo "$entry+${share}of$shares"
		done
	done
}

# tap_ways: the entries of stdin, soaks that make no settings of their own for the worker with it off, on and killed each second. Scans of all rows of lists of
# codes, which they make, are the pages' alone; graphs with codes are as those without.
tap_ways() {
	local entry way ways

	while read -r entry; do
		case $entry in
			*/110_crash_long.pl@gpuivf-* | */400_mixed_load_long.pl@gpuivf-*) ways=off ;;
			*/110_crash_long.pl@gpugraph-*) ways='off on' ;;
			*/110_crash_long.pl* | */400_mixed_load_long.pl*) ways='off on flapping' ;;
			*)
				echo "$entry"
				continue
				;;
		esac
		[[ $entry = *@* ]] || entry+=@gpuflat
		for way in $ways; do
			echo "$entry.$way"
		done
	done
}

# The test of a full disk needs a small file system, which only root can make, and not in every container.
make_small_file_system() {
	[ -z "${VECTORGPU_SMALL_FS:-}" ] && is_root || return 0
	mkdir -p "$WORK/small"
	if mount -t tmpfs -o "size=64m,uid=$(id -u "$RUN_USER"),mode=0700" tmpfs "$WORK/small" 2>/dev/null; then
		export VECTORGPU_SMALL_FS=$WORK/small
	fi
}

# part_tap PART FOLDER SECONDS: every TAP file of a folder, VECTORGPU_TAP_AT_ONCE at a time; default: five, they wait much of the time, or one for each four cores.
part_tap() {
	local part=$1 folder=$2 limit=$3 file name verdict passed=0 failed=0 skipped=0 running=0 files=() at_once=${VECTORGPU_TAP_AT_ONCE:-$((JOBS / 4))}

	[ "$at_once" -ge 5 ] || at_once=5

	say "$part"
	mapfile -t files < <(tap_entries "$folder")
	MATCHED=$((MATCHED + ${#files[@]}))
	if [ ${#files[@]} -eq 0 ]; then
		skip "$part" "no files in $folder${FILES:+ that match $FILES}"
		return
	fi
	rm -rf "$LOGS/tap"
	mkdir -p "$LOGS/tap"
	run_as mkdir -p "$WORK/portlock"
	make_small_file_system
	make_memory_cgroup
	[ -d "$WORK/initdb" ] || make_initdb
	TAP_START=$SECONDS
	for file in "${files[@]}"; do
		if [ "$running" -ge "$at_once" ]; then
			wait -n
			running=$((running - 1))
		fi
		tap_file "$file" "$limit" &
		running=$((running + 1))
	done
	wait
	for file in "${files[@]}"; do
		name=$(tap_name "$file")
		verdict=$(cat "$LOGS/tap/$name.verdict" 2>/dev/null)
		case $verdict in
			ok) passed=$((passed + 1)) ;;
			skip*) skipped=$((skipped + 1)) ;;
			*)
				failed=$((failed + 1))
				show "$LOGS/tap/$name.log"
				;;
		esac
	done
	count "$part" "$passed" "$failed" "$skipped"
	summarize_tap "$part" "${files[@]}"
}

# summarize_tap PART FILE…: what their logs count goes to the part's summary: `ok` lines as tests, and the figures of VectorgpuCount.
summarize_tap() {
	local part=$1 file name log

	[ "$COUNTED" != /dev/null ] || return 0
	shift
	for file in "$@"; do
		name=$(tap_name "$file")
		log=$LOGS/tap/$name.log
		echo "tests=$(grep -cE '^(not )?ok ' "$log")" >>"$COUNTED"
		sed -n 's/^# counted: //p' "$log" >>"$COUNTED"
		echo "$part: $name $(cat "$LOGS/tap/$name.verdict") $(sed -n 's/^# counted: //p' "$log")" >>"$LOGS/long/.entries"
	done
	rm -rf "$LOGS/long/${part//[^a-z0-9]/_}"
	cp -r "$LOGS/tap" "$LOGS/long/${part//[^a-z0-9]/_}"
}
