# shellcheck shell=bash
# The phases of sql_bench: clients, recalls, choice, joins, embeddings, builds, codes, conditions, large. Sourced by test/gpu/run.

# sql_bench_phase PHASE LIMIT WHAT ARGUMENT…: a run of sql_bench with the worker of the phase build; its output is kept.
sql_bench_phase() {
	local phase=$1 limit=$2 what=$3 passed=1

	shift 3
	[ -n "$data" ] || return
	VECTORGPU_BUILT_WORKER=$(built_worker) VECTORGPU_MAKE="WERROR=0" limited "$limit" "$root/test/gpu/sql_bench" --data "$data" --out "${VECTORGPU_SQL_OUT:-$build/sql-bench}" "$@" >"$parts/$phase.md" 2>"$logs/$phase" ||
		passed=0
	[ "$passed" = 1 ] || { tail -n 20 "$logs/$phase"; tail -n 5 "$parts/$phase.md"; }
	note "$phase" "$passed" "$what | $(grep '^Worker: ' "$parts/$phase.md")"
}

phase_clients() {
	# shellcheck disable=SC2086
	sql_bench_phase clients 900 'SQL clients' --seconds "${VECTORGPU_PGBENCH_SECONDS:-4}" --without "choice,joins,${recall_parts// /,}" ${VECTORGPU_SQL_BENCH:-}
	cp "$build"/sql-bench/curves-*.svg "$parts/" 2>/dev/null
}

# Rows that come and go, codes, and clusters: recall matters more than speed there.
recall_parts='storages merge kmeans live'

phase_recalls() {
	# shellcheck disable=SC2086
	sql_bench_phase recalls 600 'SQL, recall of codes, after merges, after half of the rows' --seconds "${VECTORGPU_PGBENCH_SECONDS:-4}" --only "${recall_parts// /,}" ${VECTORGPU_SQL_BENCH:-}
}

phase_choice() {
	sql_bench_phase choice 300 "SQL, the planner's choice" --only choice --sets ''
}

phase_joins() {
	sql_bench_phase joins 200 'SQL, the k-NN join' --only joins --sets sift-bsds-128 --seconds 2
}

phase_embeddings() {
	sql_bench_phase embeddings 400 'SQL, rows like embeddings' --embeddings --seconds "${VECTORGPU_PGBENCH_SECONDS:-4}" ${VECTORGPU_SQL_BENCH:-}
}

phase_builds() {
	# shellcheck disable=SC2086
	sql_bench_phase builds 400 'SQL, CREATE INDEX' --builds --seconds 2 ${VECTORGPU_SQL_BENCH:-}
}

# curves_of NAME BASE QUERY PROBES STORAGES: codes over the same lists by the engine alone.
curves_of() {
	local log=$logs/curves-$1

	limited 150 "$build/cmake/test/bench/gpu/gpu_code_curves_bench" "$2" "$3" --probes "$4" --storages "$5" >"$log" 2>&1 || curves_passed=0
	! grep -q ' NO$' "$log" || curves_passed=0
	printf '\n### %s, codes over the same lists\n\n```\n%s\n```\n' "$1" "$(cat "$log")" >>"$parts/code-curves.md"
}

# The storages of a pair take as many bits of a dimension; floors.py compares them.
phase_codes() {
	local curves_passed=1 set

	rm -f "$parts"/codes*.md "$parts"/codes*.table "$parts/code-curves.md"
	curves_of sift-bsds-128 "$(unpacked sift-bsds-128.base.u8bin)" "$(unpacked sift-bsds-128.query.u8bin)" 16,24,32,48,64,96 rabitq1,pq16,rabitq2,pq32,rabitq4,pq64
	curves_of arxiv-lsa-256 "$(unpacked arxiv-lsa-256.base.f16bin)" "$(unpacked arxiv-lsa-256.query.f16bin)" 16,32,48,64,96,128 rabitq1,pq32,rabitq2,pq64,rabitq4,pq128
	curves_of made-768 made:300000x768 made:300000x768 16,32,64,128 rabitq1,pq96,rabitq2,pq192,rabitq4,pq384
	[ "$curves_passed" = 1 ] || note code-curves 0 "code curves | failed"
	for set in ${VECTORGPU_CODE_SETS:-sift arxiv made}; do
		sql_bench_phase "codes-$set" 240 "SQL, RaBitQ beside product quantisers, $set" --codes --sets "$set" --runs 3
	done
}

# A part of the report for each set, so that two runs may measure different ones beside each other (each then with another
# VECTORGPU_SQL_OUT).
phase_conditions() {
	local set

	for set in ${VECTORGPU_CONDITION_SETS:-arxiv sift}; do
		# shellcheck disable=SC2086
		sql_bench_phase "conditions-$set" 500 "SQL, conditions on key columns, $set" --keys --sets "$set" ${VECTORGPU_CONDITIONS:-}
	done
}

phase_large() {
	# shellcheck disable=SC2086
	sql_bench_phase large 240 'SQL, many rows' --large ${VECTORGPU_LARGE:-}
}
