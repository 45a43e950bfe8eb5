# shellcheck shell=bash
# The phase before: another version of the sources beside these, on the same machine, in turns. Sourced by test/gpu/run.

# engines_of VERSION PROGRAMS: whole numbers by the benchmarks in a folder; a round of it. The tables go to the end of the version's logs.
engines_of() {
	local version=$1 programs=$2

	limited 60 "$programs/gpu_search_bench" "${files[@]}" --quick >>"$logs/$version-search" 2>&1 || passed=0
	limited 60 "$programs/gpu_ivf_bench" "${files[@]}" --lists 1024 --quick >>"$logs/$version-lists" 2>&1 || passed=0
	limited 90 "$programs/gpu_graph_bench" "${files[@]}" --steps 4 >>"$logs/$version-graph" 2>&1 || passed=0
}

# clients_of VERSION WORKER [ARGUMENT…]: gpuivf over arxiv-lsa-256 at the recall target .98 from SQL.
clients_of() {
	local version=$1 worker=$2

	shift 2
	# shellcheck disable=SC2086
	VECTORGPU_BUILT_WORKER=$worker VECTORGPU_MAKE="WERROR=0" limited 150 "$root/test/gpu/sql_bench" --data "$data" --out "$build/sql-$version" --embeddings --rows 1 \
		--methods gpuivf --targets .98 --rates --label "$version" --seconds 2 ${VECTORGPU_SQL_BENCH:-} "$@" >"$parts/before-$version.md" 2>"$logs/$version-sql" || passed=0
	[ "$passed" = 1 ] || tail -n 5 "$logs/$version-sql"
}

phase_before() {
	local passed=1 round other=${VECTORGPU_BEFORE:-} others=${VECTORGPU_BEFORE_BUILD:-} log

	[ -n "$other" ] && [ -n "$data" ] || return 0
	rm -f "$logs"/{before,now}-{search,lists,graph}
	clients_of before "$others/vectorgpu_worker" --sources "$other"
	clients_of now "$(built_worker)"
	if files_of sift-bsds-128; then
		for round in 1 2 3; do
			engines_of before "$others/test/bench/gpu"
			engines_of now "$build/cmake/test/bench/gpu"
		done
	fi
	: >"$parts/before.md"
	for log in before-{search,lists,graph,sql} now-{search,lists,graph,sql}; do
		printf '\n### %s\n\n```\n%s\n```\n' "$log" "$(cat "$logs/$log" 2>/dev/null)" >>"$parts/before.md"
	done
	note before "$passed" "beside $(sed -n "s/^default_version = '\(.*\)'/\1/p" "$other/vectorgpu.control") | $([ "$passed" = 1 ] && echo measured || echo failed)"
}
