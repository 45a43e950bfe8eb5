# shellcheck shell=bash
# The phase before: another version of the sources beside these, on the same machine, by turns. Sourced by test/gpu/run.

# engines_of VERSION BUILD: a round of whole numbers by the benchmarks of a build folder, at the end of the version's logs.
engines_of() {
	local version=$1 build=$2

	run_bench 60 "$version-search" gpu_search_bench "${files[@]}" --quick
	run_bench 60 "$version-lists" gpu_ivf_bench "${files[@]}" --lists 1024 --quick
	run_bench 90 "$version-graph" gpu_graph_bench "${files[@]}" --steps 4
}

# clients_of VERSION BUILD [ARGUMENT…]: gpuivf over arxiv-lsa-256 at the recall target .98 from SQL.
clients_of() {
	local version=$1 build=$2

	shift 2
	# shellcheck disable=SC2086
	sql_bench_phase "before-$version" 150 "SQL, gpuivf at .98, $version" --embeddings --rows 1 --methods gpuivf --targets .98 --rates \
		--label "$version" --seconds "${VECTORGPU_PGBENCH_SECONDS:-2}" ${VECTORGPU_SQL_BENCH:-} "$@"
}

phase_before() {
	local passed=1 other=${VECTORGPU_BEFORE:-} searches=$parts/before.md log files

	[ -n "$other" ] && [ -n "$data" ] || return 0
	clients_of before "$VECTORGPU_BEFORE_BUILD" --sources "$other"
	clients_of now "$build"
	rm -f "$logs"/{before,now}-{search,lists,graph}
	files_of sift-bsds-128 || return 0
	for _ in 1 2 3; do
		engines_of before "$VECTORGPU_BEFORE_BUILD"
		engines_of now "$build"
	done
	: >"$searches"
	for log in {before,now}-{search,lists,graph}; do
		show_log "$log" "$log"
	done
	note before "$passed" "whole numbers beside $(sed -n "s/^default_version = '\(.*\)'/\1/p" "$other/vectorgpu.control") | $([ "$passed" = 1 ] && echo measured || echo failed)"
}
