# shellcheck shell=bash
# Parts versions and matrix-versions of scripts/test: the module on later versions of PostgreSQL, with servers of scripts/servers. Sourced by
# scripts/test; uses its variables and functions. All versions have the worker of the main server, since a worker knows no PostgreSQL.

# VECTORGPU_VERSIONS names some of them.
VERSIONS=${VECTORGPU_VERSIONS:-16 17 18}

# The TAP files of the quick suite, for gpuflat, on the last version also for gpuivf; --files names others, for every access method. More would
# take too long.
VERSION_FILES='/(005|010|030|060|067|069|075|076|100|259)_'
VERSION_METHODS_LEFT_OUT='@gpugraph|@gpuivf-'

# The TAP files that need servers of several versions.
FROM_VERSION_FILES='/(068|077|078)_'

# part_versions [long]: the suites of each version, each in a process of its own; `long`: all TAP files and all ways. What keeps all cores busy
# (build, SQL suites) runs for one version at a time, the TAP files, which wait most of the time, beside that of the next version.
part_versions() {
	local version main suffixes=()

	[ -z "$FILES" ] || MATCHED=$((MATCHED + $(tap_entries test/t | wc -l)))
	unsupported_versions
	# Here, where finish removes them.
	make_small_file_system
	make_memory_cgroup
	main=$("$PG_CONFIG" --version)
	for version in $VERSIONS; do
		[[ $main != "PostgreSQL $version"[.b\ ]* ]] || continue
		beside "pg$version" version_suites "$version" "${1:-}"
		suffixes+=("pg$version")
		# One after the other takes less memory, and --long has time.
		[ -z "${1:-}" ] || wait
	done
	wait
	[ ${#suffixes[@]} -eq 0 ] || counted_beside "${suffixes[@]}"
	from_version_to_version
}

# versions_alone: the part, where no other one runs beside it.
versions_alone() {
	part_versions
	skips_have_reasons
}

# skips_have_reasons: what a TAP file skips on one version, and does not skip on all that it ran on, is in the table of test/README.md. A skip on all
# of them is named. After the part tap, if that is wanted too.
skips_have_reasons() {
	local version skipped ran file folders=() passed=0 failed=0

	! wanted tap || [ ! -d "$LOGS/tap" ] || folders+=("$LOGS/tap")
	for version in $VERSIONS; do
		[ ! -e "$WORK/pg$version/installation" ] || folders+=("$LOGS/pg$version/tap")
	done
	[ ${#folders[@]} -gt 1 ] || return 0
	while read -r skipped file; do
		ran=$(for version in "${folders[@]}"; do ls "$version" | grep -m 1 "^$file[-.]"; done | wc -l)
		if [ "$ran" -lt 2 ]; then
			continue
		elif [ "$skipped" -eq "$ran" ]; then
			skip "skips of $file" "it skips something on all $ran versions"
		elif sed -n '/^What is tested on some versions only/,/^## /p' "$ROOT/test/README.md" | grep -cF "\`$file\`" >/dev/null; then
			passed=$((passed + 1))
		else
			echo "   $file skips something on $skipped of $ran versions: test/README.md does not say why"
			failed=$((failed + 1))
		fi
	done < <(for version in "${folders[@]}"; do
		grep -lisE '^(ok .*|1\.\.0 )# skip ' "$version"/*.log | sed 's,.*/,,; s,[-.].*,,' | sort -u
	done | sort | uniq -c)
	count "skips with reasons" "$passed" "$failed" 0
}

# from_version_to_version: the TAP files that go from each version to the later ones, with the servers and modules of the suites above. 16 and 18 have
# pgvector, 15 and 17 the extension vector. The first server is from PyPI too, as old as the others: dumps of a newer minor release of an older version may
# use what they do not know.
from_version_to_version() {
	local version LOGS=$LOGS/versions installations=() TAP_ONLY=$FROM_VERSION_FILES TAP_ENVIRONMENT

	(cd "$ROOT" && ls test/t/*.pl) | grep -E "$FROM_VERSION_FILES" | grep -qE "${FILES:-.}" || return 0
	mkdir -p "$LOGS"
	version=$("$PG_CONFIG" --version)
	version=${version#PostgreSQL } version=${version%%[!0-9]*}
	! install_same_module "$version" >"$LOGS/first.log" 2>&1 || installations+=("$WORK/first")
	for version in $VERSIONS; do
		[ ! -e "$WORK/pg$version/installation" ] || installations+=("$(cat "$WORK/pg$version/installation")")
	done
	if [ ${#installations[@]} -lt 2 ]; then
		skip "from version to version" "no server of another version"
		return
	fi
	TAP_ENVIRONMENT=("VECTORGPU_INSTALLATIONS=${installations[*]}")
	part_tap tap-versions test/t 1800
}

# install_same_module VERSION: copies the server of PyPI to WORK/first, with the main server's module, which is of the same major version.
install_same_module() {
	local config extension

	config=$("$ROOT/scripts/servers" "$1") || return 1
	extension=$WORK/pg$("$PG_CONFIG" --sharedir)/extension
	cp -a "$(dirname "$(dirname "$config")")" "$WORK/first" &&
		cp "$WORK/pg$("$PG_CONFIG" --pkglibdir)"/vector* "$("$WORK/first/bin/pg_config" --pkglibdir)/" &&
		cp "$extension"/vector* "$("$WORK/first/bin/pg_config" --sharedir)/extension/" && chmod -R a+rX "$WORK/first"
}

# unsupported_versions: the header that every source includes refuses other versions and says why.
unsupported_versions() {
	local version log=$LOGS/unsupported.log passed=0

	for version in 14 19; do
		if ! c++ -E -DPG_VERSION_NUM="${version}0000" -I "$ROOT/src" "$ROOT/src/pg/compat.hpp" >/dev/null 2>"$log" &&
			grep -q 'error.*vectorgpu .*PostgreSQL 1[59] or later' "$log"; then
			passed=$((passed + 1))
		else
			show "$log"
		fi
	done
	count "unsupported versions" "$passed" $((2 - passed)) 0
}

# version_suites VERSION|PG_CONFIG [long]: in a process of its own, whose variables it changes: server, build, SQL suites and TAP files.
version_suites() {
	local version=$1 status=0 BRIEF=''

	# BRIEF: the quick suite runs all of this on the last version alone. The others have SQL suites with the worker, for gpuflat, and few TAP
	# files; matrix-versions runs all of them.
	[ "$version" = "${VERSIONS##* }" ] || [ -n "${2:-}$FILES" ] || BRIEF=1
	VECTORGPU_BUILT_WORKER=$WORK/pg$("$PG_CONFIG" --pkglibdir)/vectorgpu_worker
	VECTORGPU_BUILT_OBJECTS=$ROOT/build/test/tree
	[ -x "$VECTORGPU_BUILT_WORKER" ] || VECTORGPU_BUILT_WORKER=''
	case $version in
		/*) KIND=-assert PG_CONFIG=$version ;;
		*)
			KIND=-pg$version
			PG_CONFIG=$("$ROOT/scripts/servers" "$version" 2>"$LOGS/servers$KIND.log") || status=$?
			;;
	esac
	if [ "$status" -eq 3 ]; then
		skip "PostgreSQL $version" "its server could not be downloaded from PyPI"
		return
	fi
	if [ "$status" -ne 0 ]; then
		show "$LOGS/servers$KIND.log"
		count "PostgreSQL $version" 0 1 0
		return
	fi
	run_as mkdir "$WORK/${KIND#-}"
	WORK=$WORK/${KIND#-} LOGS=$LOGS/${KIND#-}
	mkdir -p "$LOGS"
	in_turn version_sql "$version" "${2:-}" || return
	version_tap "${2:-}"
	check_server_log
}

# install_pgvector VERSION: into the server, for 075; without it 076 runs.
install_pgvector() {
	local log=$LOGS/pgvector$KIND.log status=0

	"$ROOT/scripts/pgvector" "$1" "$WORK/pg$("$PG_CONFIG" --pkglibdir)" "$WORK/pg$("$PG_CONFIG" --sharedir)" >"$log" 2>&1 || status=$?
	case $status in
		0) ;;
		3) skip "pgvector$KIND" "it could not be downloaded from PyPI" ;;
		*)
			show "$log"
			count "pgvector$KIND" 0 1 0
			;;
	esac
}

# in_turn COMMAND…: runs it while no other version's does, since it keeps all cores busy.
in_turn() {
	local status

	exec 7>"${WORK%/*}/turn.lock"
	flock 7
	"$@" 7>&-
	status=$?
	exec 7>&-
	return "$status"
}

# version_sql VERSION|PG_CONFIG [long]: the build and the SQL suites.
version_sql() {
	if [ "$LONG" -eq 1 ]; then
		build_server || return
	else
		# The build for 15 finds a missing #include.
		build_server DEBUG_INFO=0 PRECOMPILED=1 || return
	fi
	case $1 in
		16 | 18) install_pgvector "$1" ;;
	esac
	echo "${SERVER_BIN%/bin}" >"$WORK/installation"
	if [ "${2:-}" = long ]; then
		start_server || return
		three_ways ''
	else
		count "build$KIND" 1 0 0
		[ -n "${BRIEF:-}" ] || beside off on_own_cluster off sql_suites off "$KIND"
		beside on on_own_cluster on sql_suites on "-worker$KIND"
		wait
		[ -n "${BRIEF:-}" ] || counted_beside off
		counted_beside on
	fi
}

# version_tap [long]: the TAP files.
version_tap() {
	if [ -z "$FILES${1:-}" ]; then
		# Not empty: 060 for gpuivf too.
		TAP_ONLY=$VERSION_FILES TAP_EXCEPT='^$' TAP_WITHOUT=$VERSION_METHODS_LEFT_OUT${BRIEF:+|@gpu}
		[ -z "${BRIEF:-}" ] || TAP_ONLY='/(010|067|075|076)_'
	fi
	part_tap "tap$KIND" test/t 1800
}

# part_matrix_versions: everything on each version, and on a server 18 with assertions, which sees what others let pass.
part_matrix_versions() {
	local log=$LOGS/assert-server.log config

	part_versions long
	skips_have_reasons
	if ! config=$("$ROOT/scripts/assert_server" 18 2>"$log" | tail -n 1); then
		show "$log"
		count "PostgreSQL 18 with assertions" 0 1 0
		return
	fi
	beside assert version_suites "$config" long
	wait
	counted_beside assert
}
