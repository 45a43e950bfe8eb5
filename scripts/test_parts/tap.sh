# shellcheck shell=bash
# TAP files of scripts/test: which of them run, for which access methods, and how. Sourced by scripts/test; uses its variables and
# count, show, skip, run_as.

# tap_name FILE[@METHOD]: prints its name in logs.
tap_name() {
	local name=${1%@*}

	name=$(basename "$name" .pl)
	[ "${1%@*}" = "$1" ] || name+=-${1#*@}
	echo "$name"
}

# tap_modules: prints the folder of PostgreSQL::Test. A server without it is driven by the modules of Debian's server, which know later versions.
tap_modules() {
	local own=$SERVER_PGXS/src/test/perl

	if [ -d "$own" ]; then echo "$own"; else echo "/usr/lib/postgresql/$PG_MAJOR/lib/pgxs/src/test/perl"; fi
}

# make_initdb: an initdb that copies one data folder for the hundred nodes of the TAP files with equal options; for other options it calls
# the server's initdb.
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

# tap_file ENTRY SECONDS: one TAP file as RUN_USER; writes its verdict (ok, FAIL, skip reason) to LOGS/tap/NAME.verdict.
# ENTRY: FILE, or test/long/NAME of a run in test/long/list; then @METHOD: access method; then .WAY: mode of the worker, or +SHARE.
tap_file() {
	local file=${1%@*} limit=$2 method=gpuflat storage='' share='' way=() environment=() name log status=0 began=$SECONDS setting

	name=$(tap_name "$1")
	[ "$file" = "$1" ] || method=${1#*@}
	[ "${method%+*}" = "$method" ] || share=${method#*+} method=${method%+*}
	[ "${method%.*}" = "$method" ] || way=("VECTORGPU_WORKER=${method#*.}" VECTORGPU_PRELOAD=1) method=${method%.*}
	case $method in
		*-hash) storage="hash_bits = 64" ;;
		*-*) storage="storage = ${method#*-}, refine = none" ;;
	esac
	if [[ $file == test/long/* ]]; then
		read -ra environment < <(long_entries | sed -n "s,^$(sed 's/[.+]/[&]/g' <<<"$1") ,,p")
		file=test/${environment[0]}
		unset 'environment[0]'
		for setting in "${!environment[@]}"; do
			! printenv "${environment[$setting]%%=*}" >/dev/null || unset "environment[$setting]"
		done
	fi
	log=$LOGS/tap/$name.log
	run_as mkdir -p "$WORK/tap/$name"
	enter_memory_cgroup
	run_as env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE TESTDIR="$WORK/tap/$name" TESTDATADIR="$WORK/tap/$name/tmp_check" TESTLOGDIR="$WORK/tap/$name/tmp_check/log" \
		top_builddir="$WORK" PATH="$WORK/initdb:$SERVER_BIN:$PATH" PG_REGRESS="$SERVER_PGXS/src/test/regress/pg_regress" \
		VECTORGPU_FAULT_LIST="$WORK/tree/test/faults.txt" VECTORGPU_ACCESS_METHOD="${method%-*}" VECTORGPU_STORAGE="$storage" VECTORGPU_SHARE="$share" "${way[@]}" "${environment[@]}" "${TAP_ENVIRONMENT[@]}" \
		timeout --kill-after=30 "$limit" perl -I "$(tap_modules)" -I "$WORK/tree/test/t/lib" ${TAP_MODULE:+"-M$TAP_MODULE"} "$WORK/tree/$file" \
		>"$log" 2>&1 || status=$?
	if [ "$status" -eq 0 ] && grep -q '^1\.\.0 # SKIP' "$log"; then
		sed -n 's/^1\.\.0 # SKIP */skip /p' "$log" | head -n 1 >"$LOGS/tap/$name.verdict"
	elif [ "$status" -eq 0 ] && grep -qE '^1\.\.[1-9]' "$log"; then
		echo ok >"$LOGS/tap/$name.verdict"
	else
		echo FAIL >"$LOGS/tap/$name.verdict"
		# Keep the logs of this file's nodes with the other logs.
		tar -C "$WORK/tap/$name" -cf - tmp_check/log 2>/dev/null | tar -C "$LOGS/tap" -xf - --transform "s,^tmp_check/log,$name.servers," \
			--no-same-owner 2>/dev/null
	fi
	run_as rm -rf "$WORK/tap/$name"
	printf '   %-32s %s (%d s, at %d s)\n' "$name" "$(cat "$LOGS/tap/$name.verdict")" "$((SECONDS - began))" "$((SECONDS - TAP_START))"
}

# long_entries [PART]: prints the runs of test/long/list, or those of a part, one a line: ENTRY FILE ENVIRONMENT…; tap_file explains ENTRY.
long_entries() {
	local part name file methods split environment method entry step

	grep -v '^#' "$ROOT/test/long/list" | while read -r part name file methods split environment; do
		[ -n "$name" ] && [ "$part" = "${1:-$part}" ] || continue
		for method in ${methods//,/ }; do
			entry=test/long/$name@$method
			case $split in
				-) echo "${entry%@-} $file $environment" | sed 's/@gpuflat / /' ;;
				[0-9]*) for ((step = 1; step <= split; step++)); do echo "$entry+${step}of$split $file $environment"; done ;;
				*) for step in ${split//,/ }; do echo "$entry.$step $file $environment"; done ;;
			esac
		done
	done
}

# tap_entries FOLDER|long:PART: the entries that part_tap runs. A folder's files that make their indexes with USING $AM run for each access
# method of vectors; the quick suite leaves some of that to the long runs, unless FILES asks for it: of files about pages, memory and crashes
# gpugraph, or codes in lists, show what lists would.
tap_entries() {
	local file every_method=0

	if [[ $1 == long:* ]]; then
		long_entries "${1#long:}" | cut -d ' ' -f 1 | grep -E "${FILES:-.}"
		return
	fi
	[ "$LONG" -eq 0 ] && [ -z "$FILES$TAP_EXCEPT" ] || every_method=1

	cd "$ROOT" || return
	# The last ones first: those of the worker take longest, and should not begin at the end.
	find "$1" -maxdepth 1 -name '*.pl' 2>/dev/null | grep -E "${TAP_ONLY:-.}" | grep -vE "${TAP_EXCEPT:-^$}" | sort -r | while read -r file; do
		# It needs servers of several versions: see versions.sh.
		[[ ! $file =~ $FROM_VERSION_FILES || "${TAP_ENVIRONMENT[*]}" == *VECTORGPU_INSTALLATIONS* ]] || continue
		echo "$file"
		# shellcheck disable=SC2016
		! grep -q 'USING \$AM' "$file" || [[ $file == test/t/060_* && $every_method -eq 0 ]] || printf '%s@gpuivf\n%s@gpugraph\n' "$file" "$file"
		[[ $file != test/t/254_worker_lists.pl ]] || printf '%s@gpugraph\n' "$file"
		# gpumatch: the quick suite has a sample in 120_ to 122_ beside those of 200_ and 247_.
		case $file in
			test/t/230_* | test/t/241_*) [ "$every_method" -eq 0 ] || echo "$file@gpumatch" ;;
			test/t/040_* | test/t/200_* | test/t/247_* | test/t/400_*) echo "$file@gpumatch" ;;
		esac
		# Lists, and a graph, of codes: the quick suite has some of these.
		case ${file##*/} in
			021_*) echo "$file@gpuivf-sq8" ;;
			030_* | 200_* | 400_*) [ "$every_method" -eq 0 ] || echo "$file@gpuivf-sq8" ;;
			100_*) [ "$every_method" -eq 0 ] || printf '%s@gpuivf-pq\n%s@gpugraph-hash\n' "$file" "$file" ;;
			110_*) [ "$every_method" -eq 0 ] && echo "$file@gpuivf-pq" || printf '%s@gpuivf-pq\n%s@gpugraph-hash\n' "$file" "$file" ;;
			210_*) [ "$every_method" -eq 0 ] && echo "$file@gpugraph-hash" || printf '%s@gpuivf-pq\n%s@gpugraph-hash\n' "$file" "$file" ;;
		esac
	done | if [ "$every_method" -eq 0 ]; then grep -vE '/((035|040|082|100|110|210|241|242|243|246|257)_[a-z_]*[.]pl@gpuivf|(035|040|110|230|254)_[a-z_]*[.]pl@gpugraph|110_.*@gpuivf-pq)$'; else cat; fi |
		grep -vE "${TAP_WITHOUT:-^$}" | grep -E "${FILES:-.}"
}

# make_small_file_system: for the test of a full disk; only root can mount one, and not in every container.
make_small_file_system() {
	[ -z "${VECTORGPU_SMALL_FS:-}" ] && is_root || return 0
	mkdir -p "$WORK/small"
	if mount -t tmpfs -o "size=64m,uid=$(id -u "$RUN_USER"),mode=0700" tmpfs "$WORK/small" 2>/dev/null; then
		export VECTORGPU_SMALL_FS=$WORK/small
	fi
}

# part_tap PART FOLDER|long:PART SECONDS: every TAP file of a folder, or the runs of a part in test/long/list, VECTORGPU_TAP_AT_ONCE at a time; default:
# five, since they wait most of the time, or one for each four cores.
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

# summarize_tap PART FILE…: adds the counts of their logs to the part's summary: `ok` lines as tests, and the figures of VectorgpuCount.
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
