# shellcheck shell=bash
# The phases of the engine's benchmarks: exact, bench, graphs, inline, devices, large_engine. Sourced by test/gpu/run.

# figure_of LOG PATTERN: the median of the first line that begins with PATTERN, and its verdict on the answers.
figure_of() {
	sed -nE "s/^$2 .*: *median +([0-9.]+ ms).*; ([^;]+)\$/\1, \2/p" "$1" 2>/dev/null | head -n 1 | grep . || echo "not measured"
}

# run_bench SECONDS LOG PROGRAM ARGUMENT…: run a benchmark of the build; its output goes to the end of the log. The phase fails with it, and if an
# answer is wrong.
run_bench() {
	local seconds=$1 log=$logs/$2 program=$build/cmake/test/bench/gpu/$3

	shift 3
	limited "$seconds" "$program" "$@" >>"$log" 2>&1 || passed=0
	! grep -qE ' NO$|WRONG' "$log" || passed=0
}

# show_log TITLE LOG: print a log in the phase's part of the report.
show_log() {
	printf '\n### %s\n\n```\n%s\n```\n' "$1" "$(cat "$logs/$2")" >>"$searches"
}

# bench TITLE SECONDS LOG PROGRAM ARGUMENT…: run a benchmark and print its log.
bench() {
	local title=$1

	shift
	: >"$logs/$2"
	run_bench "$@"
	show_log "$title" "$2"
}

# search_bench TITLE SECONDS LOG PROGRAM ARGUMENT…: the same of one that counts as a search.
search_bench() {
	bench "$@"
	n=$((n + 1))
}

# peers TITLE LOG ARGUMENT…: cuVS beside, if it is there.
peers() {
	local title=$1 log=$2

	shift 2
	[ -n "${VECTORGPU_PEERS:-}" ] || return 0
	PYTHONPATH=$VECTORGPU_PEERS limited 200 python3 "$root/test/gpu/peers.py" "$@" >"$logs/$log" 2>&1
	show_log "$title" "$log"
}

# files_of SET: set `files` to the names of its unpacked rows, queries and nearest rows. False if there is no such set.
files_of() {
	local base

	base=$(unpacked "$1.base.u8bin")
	[ -n "$base" ] || return 1
	files=("$base" "$(unpacked "$1.query.u8bin")" "$(unpacked "$1.gt100.bin")")
}

# Set `made` to the name of a million rows like those of embedding models, made by the GPU. False if they could not be made.
make_embeddings() {
	made=$build/data/made
	mkdir -p "$build/data" && limited 120 python3 "$root/test/bench/embeddings.py" --out "$made" --rows 1000000 --dims 768 --groups 2000 \
		--queries 10000 --device cuda >"$logs/made" 2>&1
}

# search_reals NAME BASE QUERY: exact searches of real-valued rows, with and without the copy that the filter reads.
search_reals() {
	local form

	for form in '' --tf32; do
		# shellcheck disable=SC2086 # none, or one word
		search_bench "$1, cosine $form" 200 "search-$1$form" gpu_search_bench "$2" "$3" - --metric cosine --quick $form
	done
	peers "$1, cosine, cuVS beside" "peers-$1" "$2" "$3" --metric cosine --parts "${VECTORGPU_PEER_PARTS:-brute}"
}

# Exact searches: whole numbers as bytes and as floats; real numbers, rows of length 1 and rows in groups as embedding models make them.
phase_exact() {
	local passed=1 set form base made files searches=$parts/exact.md n=0

	: >"$searches"
	for set in sift-bsds-128 fashion-mnist-784; do
		[ -n "$data" ] && files_of "$set" || continue
		for form in '' --fp32 --recall=0.95; do
			# shellcheck disable=SC2086
			search_bench "$set ${form:-, narrowest exact form}" 300 "search-$set$form" gpu_search_bench "${files[@]}" --quick $form
		done
	done
	base=$(unpacked "arxiv-lsa-256.base.f16bin")
	[ -z "$base" ] || search_reals arxiv-lsa-256 "$base" "$(unpacked arxiv-lsa-256.query.f16bin)"
	if make_embeddings; then
		search_reals made-768 "$made.base.f32bin" "$made.query.f32bin"
		rm -f "$made".*
	fi
	note exact "$passed" "exact searches | $n"
}

# Lists, codes and graphs over SIFT, and k-means.
bench_sift() {
	local lists codes form

	for lists in 1024 4096; do
		search_bench "sift-bsds-128, $lists inverted lists" 300 "ivf-$lists" gpu_ivf_bench "${files[@]}" --lists "$lists"
	done
	for codes in 'pq --pq-m 64' 'pq --pq-m 64 --lists 2048' 'pq --pq-m 64 --pq-bits 4' sq8; do
		# shellcheck disable=SC2086 # the words of a storage, which may name other lists
		search_bench "sift-bsds-128, inverted lists (1024 by default), --storage $codes" 120 "codes-${codes// /}" gpu_ivf_bench "${files[@]}" \
			--lists 1024 --quick --storage $codes
	done
	search_bench 'sift-bsds-128 by noise to 10 million rows, 16384 inverted lists' 180 ivf-large gpu_ivf_large_bench "${files[@]:0:2}"
	for form in '--steps 1' '--steps 4' --targets --ablation --hash; do
		# shellcheck disable=SC2086
		search_bench "sift-bsds-128, graph of degree 32, $form" 300 "graph-${form// /}" gpu_graph_bench "${files[@]}" $form
	done
	bench 'sift-bsds-128, k-means, all rows' 300 kmeans gpu_kmeans_bench "${files[0]}"
}

# Match counts, and texts by edit distance.
bench_matches() {
	local adult='' words=''

	if [ -n "$data" ]; then
		adult=$(unpacked adult.csv)
		words=$(unpacked words.txt)
	fi
	: >"$logs/match"
	run_bench 300 match gpu_match_bench ${adult:+--adult "$adult"} --documents 1000000 --lsh 10000000 --runs 3
	run_bench 120 match gpu_match_bench ${adult:+--adult "$adult"} --documents 1000000 --lsh 1000000 --runs 3 --count-pq 12000
	show_log 'Match counts' match
	[ -z "$words" ] || bench 'Word list, misspellings by edit distance' 120 texts gpu_text_bench "$words" "$(unpacked misspellings.queries.tsv)"
}

phase_bench() {
	local passed=1 set form files searches=$parts/bench.md n=0

	: >"$searches"
	for set in sift-bsds-128 fashion-mnist-784; do
		[ -n "$data" ] && files_of "$set" || continue
		: >"$logs/append-$set"
		run_bench 120 "append-$set" gpu_append_bench "${files[@]:0:2}" --ms 200
		run_bench 120 "append-$set" gpu_append_bench "${files[@]:0:2}" --ms 200 --batch 1 --behind --rows 0,1000,20000
		show_log "$set, batches beside appends to the delta" "append-$set"
	done
	! files_of sift-bsds-128 || bench_sift
	if files_of fashion-mnist-784; then
		for form in --blocks-by-dims '--fp32 --blocks-by-dims' --hash; do
			# shellcheck disable=SC2086
			search_bench "fashion-mnist-784, graph of degree 32, $form" 120 "graph-fashion-${form// /}" gpu_graph_bench "${files[@]}" $form
		done
	fi
	bench_matches
	bench 'Sparse vectors, made rows' 180 sparse gpu_sparse_bench
	search_bench '100 million rows of 96 dimensions, made on the device, by codes of 48 bytes' 120 codes-at-scale gpu_codes_at_scale_bench
	search_bench 'Searches with conditions, made rows' 120 passing gpu_passing_bench
	bench 'Selection alone' 300 select gpu_select_bench
	note bench "$passed" "benchmarks | $n searches, selection" \
		"word list, 1,024 misspellings, the nearest word by edit distance | $(figure_of "$logs/texts" 'cuda *batch *1024')" \
		"Adult x 20, ranges of ±50, 1,024 queries, k = 100 | $(figure_of "$logs/match" 'adult *batch *1024')" \
		"10 million rows x 237 hashes, 1,024 queries, k = 100 | $(figure_of "$logs/match" 'lsh *batch *1024')"
}

# graph_of NAME BASE QUERY TRUTH DEGREES PARTS: graphs over float32 rows, with parts of cuVS beside, its graphs of these degrees.
graph_of() {
	local degree

	bench "$1 as float32, graph of degree 32" 200 "graph-$1" gpu_graph_bench "$2" "$3" "$4" --fp32 --batches
	for degree in $5; do
		peers "$1 as float32, cuVS of degree $degree beside" "peers-graph-$1-$degree" "$2" "$3" --metric l2 --degree "$degree" --parts "$6" --seconds .5
	done
}

phase_graphs() {
	local passed=1 base made files searches=$parts/graphs.md

	: >"$searches"
	if files_of sift-bsds-128; then
		graph_of sift "${files[@]}" 32 cagra,kmeans
		bench 'sift-bsds-128, 1024 inverted lists, --fp32' 120 ivf-1024--fp32 gpu_ivf_bench "${files[@]}" --lists 1024 --quick --fp32
		bench 'sift-bsds-128, k-means, all rows' 100 kmeans gpu_kmeans_bench "${files[0]}"
	fi
	base=$(unpacked "arxiv-lsa-256.base.f16bin")
	[ -z "$base" ] || graph_of arxiv "$base" "$(unpacked arxiv-lsa-256.query.f16bin)" - "32 64" cagra
	if make_embeddings; then
		graph_of made "$made.base.f32bin" "$made.query.f32bin" - 64 cagra
		rm -f "$made".*
	fi
	note graphs "$passed" "graphs over float32 rows | $([ "$passed" = 1 ] && echo measured || echo failed)"
}

# An experiment about the layout of pages, not about the engine: a phase of its own.
phase_inline() {
	local passed=1

	limited 60 "$build/cmake/test/bench/gpu/gpu_inline_codes_bench" >"$parts/inline.bench" 2>"$logs/inline" || passed=0
	note inline "$passed" "codes of neighbours beside the edges | $([ "$passed" = 1 ] && echo measured || echo failed)"
}

# Compares answers bit by bit; rows are made.
phase_devices() {
	local passed=1 n

	n=$(count_gpus)
	if [ "$n" -lt 2 ]; then
		note devices 1 "several GPUs | skipped: there is $n GPU"
		return
	fi
	on_all_gpus limited 300 "$build/cmake/devices_bench" >"$parts/devices.bench" 2>"$logs/devices" || passed=0
	note devices "$passed" "several GPUs ($n) against one | $([ "$passed" = 1 ] && echo measured || echo failed)"
	on_all_gpus sql_bench_phase join-devices 240 'SQL, vectorgpu_join by several GPUs and by one' --join-devices
}

# Without PostgreSQL and without data sets. What is printed until a limit ends it is kept.
phase_large_engine() {
	local passed=1 log=$logs/large-engine

	# shellcheck disable=SC2086
	limited 600 "$build/cmake/test/bench/large/large_engine_bench" ${VECTORGPU_LARGE_ENGINE:-} >"$log" 2>&1 || passed=0
	[ "$passed" = 1 ] || tail -n 20 "$log"
	grep -v '^figure' "$log" >"$parts/large_engine.bench"
	note large_engine "$passed" "engine alone, $(sed -nE 's/^# .*; ([0-9]+ rows of [0-9]+ dimensions).*/\1/p' "$log" | head -n 1) | $([ "$passed" = 1 ] && echo measured || echo failed)"
}
