# shellcheck shell=bash
# Parts of scripts/test about the worker: the SQL suites in each of its modes, a worker that is killed each second. Sourced by
# scripts/test; uses its variables and count, show, skip, part_pg_regress.

FLAPPER=''

# sql COMMAND…: runs each command separately in database postgres of the cluster.
sql() {
	local command options=()

	for command in "$@"; do
		options+=(-c "$command")
	done
	"$SERVER_BIN/psql" -XqAt -v ON_ERROR_STOP=1 -d "${FLAP_DATABASE:-postgres}" "${options[@]}"
}

# flap: kills the worker of the cluster each second; WORK/kills counts. It spares a worker that is not ready for up to a minute: on a GPU with
# a dozen other users a start takes more than ten seconds.
flap() {
	local pid ready spared=0 kills=0

	while [ -d "$WORK" ]; do
		IFS='|' read -r pid ready < <(FLAP_DATABASE=flapping sql 'SELECT pid, ready FROM vectorgpu_worker' 2>/dev/null)
		if [ "$ready" != t ] && [ "$spared" -lt 60 ]; then
			spared=$((spared + 1))
		elif [[ "$pid" =~ ^[0-9]+$ ]] && kill -KILL "$pid" 2>/dev/null; then
			spared=0
			kills=$((kills + 1))
			echo "$kills" >"$WORK/kills"
		fi
		sleep 1
	done
}

# start_flapping: makes the worker restart at once, starts to count its answers, and runs flap.
start_flapping() {
	sql "LOAD 'vectorgpu'" "ALTER SYSTEM SET vectorgpu.worker_restart_delay_max = 0" 'SELECT pg_reload_conf()' \
		'DROP DATABASE IF EXISTS flapping' 'CREATE DATABASE flapping' >/dev/null || return 1
	FLAP_DATABASE=flapping sql 'CREATE EXTENSION vectorgpu' || return 1
	ANSWERED=$(FLAP_DATABASE=flapping sql 'SELECT answered FROM vectorgpu_worker')
	echo 0 >"$WORK/kills"
	flap &
	FLAPPER=$!
}

# stop_flapping PART: ends flap; the part fails if the worker did not die, or never answered.
stop_flapping() {
	local part=$1 kills answered waited

	if [ -z "$FLAPPER" ]; then
		return
	fi
	# If starts take long, the suites may end before the third death.
	for ((waited = 0; waited < 180 && 10#0$(cat "$WORK/kills") < 3; waited++)); do
		sleep 1
	done
	kill "$FLAPPER"
	wait "$FLAPPER" 2>/dev/null
	FLAPPER=''
	kills=$(cat "$WORK/kills")
	answered=$(FLAP_DATABASE=flapping sql 'SELECT answered FROM vectorgpu_worker')
	answered=$((${answered:-0} - ${ANSWERED:-0}))
	sql 'DROP DATABASE flapping' "LOAD 'vectorgpu'" 'ALTER SYSTEM RESET vectorgpu.worker_restart_delay_max' \
		'SELECT pg_reload_conf()' >/dev/null
	echo "   the worker was killed $kills times and answered $answered scans"
	echo "worker_deaths=$kills" >>"$COUNTED"
	if [ "$kills" -ge 3 ] && [ "$answered" -gt 0 ]; then
		count "$part" 1 0 0
	else
		count "$part" 0 1 0
	fi
}

# schedule_for WORKER SCHEDULE: copies it for the worker on or flapping, without tests marked as asking no worker; for a flapping worker also
# without tests that call the worker's functions or show what answered, since they need a worker that stays. Sets SMOKE to its path.
schedule_for() {
	local name without='^-- Asks no worker'

	[ "$1" = on ] || without+='|vectorgpu_(prewarm|evict|worker)|EXPLAIN \(ANALYZE'
	SMOKE=$2.$1
	for name in $(sed -n 's/^test: *//p' "$ROOT/$2"); do
		grep -qE "$without" "$ROOT/sql/$name.sql" || echo "test: $name"
	done >"$WORK/tree/$SMOKE"
}

# isolation_suites SUFFIX SCHEDULE WORKER: runs the isolation tests for gpuflat, and with the same answers for the other access methods of
# vectors, which then look at all rows, and for gpumatch (test/isolation/gpumatch.sed), except tests marked `Not of gpumatch`. With a
# worker that is killed each second, and on a version of BRIEF, they run for gpuflat only.
isolation_suites() {
	local suffix=$1 schedule=$2 method folder name

	part_pg_regress "isolation$suffix" src/test/isolation/pg_isolation_regress "$WORK/tree/test/isolation" isolation_regression "$schedule"
	[ "$3" != flapping ] && [ -z "${BRIEF:-}" ] || return 0
	for method in gpuivf gpugraph gpumatch; do
		folder=$WORK/tree/test/isolation-$method$suffix
		rm -rf "$folder"
		cp -r "$WORK/tree/test/isolation" "$folder"
		if [ "$method" = gpumatch ]; then
			sed -E -i -f "$ROOT/test/isolation/gpumatch.sed" "$folder"/specs/*.spec "$folder"/expected/*.out
			for name in $(cd "$folder/specs" && grep -l '^# Not of gpumatch:' ./*.spec); do
				sed -i "/^test: $(basename "$name" .spec)$/d" "$folder/schedule"
			done
		else
			sed -i "s/USING gpuflat/USING $method/" "$folder"/specs/*.spec "$folder"/expected/*.out
		fi
		chmod -R a+rX "$folder"
		PGOPTIONS="$PGOPTIONS -c gpuivf.probes=65536 -c gpugraph.search_width=1000000" part_pg_regress "isolation-$method$suffix" \
			src/test/isolation/pg_isolation_regress "$folder" isolation_regression "${folder#"$WORK/tree/"}/${schedule##*/}"
	done
}

# sql_suites WORKER SUFFIX [regress|isolation]: both suites or one with the worker off, on or flapping.
sql_suites() {
	local worker=$1 suffix=$2 what=${3:-} regress=sql/schedule isolation=test/isolation/schedule setting=$1

	if [ "$worker" != off ]; then
		schedule_for "$worker" "$regress"
		regress=$SMOKE
	fi
	if [ "$worker" = flapping ]; then
		setting=on
		if ! start_flapping; then
			count "flapping" 0 1 0
			return
		fi
	fi
	export PGOPTIONS="-c vectorgpu.worker=$setting -c vectorgpu.worker_min_size=0"
	[ "$what" = isolation ] || part_pg_regress "regress$suffix" src/test/regress/pg_regress "$WORK/tree" regression "$regress"
	[ "$what" = regress ] || isolation_suites "$suffix" "$isolation" "$worker"
	unset PGOPTIONS
	[[ "$worker$suffix$what" != on-worker?(regress) ]] || strangers "$WORK/cluster-on"
	stop_flapping "flapping$suffix"
}

# beside SUFFIX COMMAND…: runs it in a separate process, which writes its counts to WORK/counts-SUFFIX for counted_beside.
beside() {
	local counts=$WORK/counts-$1

	shift
	(
		count() { printf '%s\t%s\t%s\t%s\n' "$@" >>"$counts"; }
		"$@"
		echo ended >>"$counts"
	) &
}

# counted_beside SUFFIX…: adds their counts; a process that did not finish counts as failed.
counted_beside() {
	local suffix name passed failed skipped ended

	for suffix in "$@"; do
		ended=0
		while IFS=$'\t' read -r name passed failed skipped; do
			[ "$name" = ended ] && ended=1 || count "$name" "$passed" "$failed" "$skipped"
		done < <(cat "$WORK/counts-$suffix")
		[ "$ended" -eq 1 ] || count "$suffix: did not end" 0 1 0
		rm -f "$WORK/counts-$suffix"
	done
}

# on_own_cluster NAME COMMAND…: runs it with a cluster of its own.
on_own_cluster() {
	local name=$1

	shift
	if ! start_sql_cluster "$WORK/cluster-$name" >"$LOGS/cluster-$name.log" 2>&1; then
		show "$LOGS/cluster-$name.log"
		count "cluster $name" 0 1 0
		return
	fi
	"$@"
	stop_cluster "$WORK/cluster-$name"
}

# three_ways [regress|isolation]: the suites answered from the pages, by the worker, and by a worker that is killed each second. Each keeps one
# core busy most of the time, so they run beside each other, each on its own cluster.
three_ways() {
	beside off sql_suites off "$KIND" "$1"
	beside on on_own_cluster on sql_suites on "-worker$KIND" "$1"
	beside flapping on_own_cluster flapping sql_suites flapping "-flapping$KIND" "$1"
	wait
	counted_beside off on flapping
}

# in_parallel_workers: the SQL tests with the worker on; PostgreSQL runs each query that allows it in a parallel worker (C32).
in_parallel_workers() {
	local schedule=sql/schedule.parallel setting

	setting=$(sql "SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')")
	# Not explain: it shows counts of the scanning process, and those of parallel workers are not counted.
	grep -vxE 'test: (explain)' "$ROOT/sql/schedule" >"$WORK/tree/$schedule"
	export PGOPTIONS="-c vectorgpu.worker=on -c vectorgpu.worker_min_size=0 -c $setting=regress"
	part_pg_regress regress-parallel src/test/regress/pg_regress "$WORK/tree" regression "$schedule"
	unset PGOPTIONS
}

# part_matrix_sql: the SQL tests in parallel workers, and the SQL suites in the three ways again with the module preloaded.
part_matrix_sql() {
	local worker

	in_parallel_workers
	sql "ALTER SYSTEM SET shared_preload_libraries = 'vectorgpu'"
	stop_cluster "$WORK/cluster"
	run_as "$SERVER_BIN/pg_ctl" -D "$WORK/cluster/data" -l "$WORK/cluster/server.log" -w -t 180 -s start || return 1
	for worker in off on flapping; do
		sql_suites "$worker" "-preloaded-$worker"
	done
	sql 'ALTER SYSTEM RESET shared_preload_libraries'
	stop_cluster "$WORK/cluster"
	run_as "$SERVER_BIN/pg_ctl" -D "$WORK/cluster/data" -l "$WORK/cluster/server.log" -w -t 180 -s start
}
