# shellcheck shell=bash
# The phases of the engine's benchmarks: exact, bench, graphs, inline, devices, large_engine. Sourced by test/gpu/run.

# figure_of LOG PATTERN: the median of the first line that begins with PATTERN, and its verdict on the answers.
figure_of() {
	sed -nE "s/^$2 .*: *median +([0-9.]+ ms).*; ([^;]+)\$/\1, \2/p" "$1" 2>/dev/null | head -n 1 | grep . || echo "not measured"
}

# search_reals NAME BASE QUERY: exact searches of real-valued rows, with and without the copy that the filter reads.
search_reals() {
	local form name

	for form in '' --tf32; do
		name=$logs/search-$1$form
		limited 200 "$build/cmake/test/bench/gpu/gpu_search_bench" "$2" "$3" - --metric cosine --quick $form >"$name" 2>&1 || passed=0
		! grep -q ' NO$' "$name" || passed=0
		n=$((n + 1))
		printf '\n### %s, cosine %s\n\n```\n%s\n```\n' "$1" "$form" "$(cat "$name")" >>"$searches"
	done
	[ -n "${VECTORGPU_PEERS:-}" ] || return 0
	name=$logs/peers-$1
	PYTHONPATH=$VECTORGPU_PEERS limited 200 python3 "$root/test/gpu/peers.py" "$2" "$3" --metric cosine --parts "${VECTORGPU_PEER_PARTS:-brute}" >"$name" 2>&1
	printf '\n### %s, cosine, cuVS beside\n\n```\n%s\n```\n' "$1" "$(cat "$name")" >>"$searches"
}

# Exact searches: whole numbers as bytes and as floats; real numbers, rows of length 1 and rows in groups as embedding models make them.
phase_exact() {
	local passed=1 set form name base searches=$parts/exact.md n=0

	: >"$searches"
	if [ -n "$data" ]; then
		for set in sift-bsds-128 fashion-mnist-784; do
			base=$(unpacked "$set.base.u8bin")
			[ -n "$base" ] || continue
			for form in '' --fp32 --recall=0.95; do
				name=$logs/search-$set$form
				limited 300 "$build/cmake/test/bench/gpu/gpu_search_bench" "$base" "$(unpacked "$set.query.u8bin")" \
					"$(unpacked "$set.gt100.bin")" --quick $form >"$name" 2>&1 || passed=0
				! grep -q ' NO$' "$name" || passed=0
				n=$((n + 1))
				printf '\n### %s %s\n\n```\n%s\n```\n' "$set" "${form:-, narrowest exact form}" "$(cat "$name")" >>"$searches"
			done
		done
	fi
	base=$(unpacked "arxiv-lsa-256.base.f16bin")
	[ -z "$base" ] || search_reals arxiv-lsa-256 "$base" "$(unpacked arxiv-lsa-256.query.f16bin)"
	base=$build/data/made
	if mkdir -p "$build/data" && limited 120 python3 "$root/test/bench/embeddings.py" --out "$base" --rows 1000000 --dims 768 --groups 2000 \
		--queries 10000 --device cuda >"$logs/made" 2>&1; then
		search_reals made-768 "$base.base.f32bin" "$base.query.f32bin"
		rm -f "$base".*
	fi
	note exact "$passed" "exact searches | $n"
}

phase_bench() {
	local passed=1 set form name base lists searches=$parts/bench.md n=0

	: >"$searches"
	if [ -n "$data" ]; then
		for set in sift-bsds-128 fashion-mnist-784; do
			base=$(unpacked "$set.base.u8bin")
			[ -n "$base" ] || continue
			limited 120 "$build/cmake/test/bench/gpu/gpu_append_bench" "$base" "$(unpacked "$set.query.u8bin")" --ms 200 >"$logs/append-$set" 2>&1 || passed=0
			limited 120 "$build/cmake/test/bench/gpu/gpu_append_bench" "$base" "$(unpacked "$set.query.u8bin")" --ms 200 --batch 1 --behind \
				--rows 0,1000,20000 >>"$logs/append-$set" 2>&1 || passed=0
			printf '\n### %s, batches beside appends to the delta\n\n```\n%s\n```\n' "$set" "$(cat "$logs/append-$set")" >>"$searches"
		done
	fi
	base=$(unpacked "sift-bsds-128.base.u8bin")
	if [ -n "$base" ]; then
		for lists in 1024 4096; do
			limited 300 "$build/cmake/test/bench/gpu/gpu_ivf_bench" "$base" "$(unpacked sift-bsds-128.query.u8bin)" \
				"$(unpacked sift-bsds-128.gt100.bin)" --lists "$lists" >"$logs/ivf-$lists" 2>&1 || passed=0
			! grep -q ' NO$' "$logs/ivf-$lists" || passed=0
			n=$((n + 1))
			printf '\n### sift-bsds-128, %s inverted lists\n\n```\n%s\n```\n' "$lists" "$(cat "$logs/ivf-$lists")" >>"$searches"
		done
		for codes in 'pq --pq-m 64' 'pq --pq-m 64 --lists 2048' 'pq --pq-m 64 --pq-bits 4' sq8; do
			# shellcheck disable=SC2086 # the words of a storage, which may name other lists
			limited 120 "$build/cmake/test/bench/gpu/gpu_ivf_bench" "$base" "$(unpacked sift-bsds-128.query.u8bin)" \
				"$(unpacked sift-bsds-128.gt100.bin)" --lists 1024 --quick --storage $codes >"$logs/codes-${codes// /}" 2>&1 || passed=0
			! grep -q ' NO$' "$logs/codes-${codes// /}" || passed=0
			n=$((n + 1))
			printf '\n### sift-bsds-128, inverted lists (1024 by default), --storage %s\n\n```\n%s\n```\n' "$codes" "$(cat "$logs/codes-${codes// /}")" >>"$searches"
		done
		limited 180 "$build/cmake/test/bench/gpu/gpu_ivf_large_bench" "$base" "$(unpacked sift-bsds-128.query.u8bin)" >"$logs/ivf-large" 2>&1 || passed=0
		n=$((n + 1))
		printf '\n### sift-bsds-128 by noise to 10 million rows, 16384 inverted lists\n\n```\n%s\n```\n' "$(cat "$logs/ivf-large")" >>"$searches"
		for form in '--steps 1' '--steps 4' --targets --ablation; do
			name=$logs/graph-${form// /}
			# shellcheck disable=SC2086
			limited 300 "$build/cmake/test/bench/gpu/gpu_graph_bench" "$base" "$(unpacked sift-bsds-128.query.u8bin)" \
				"$(unpacked sift-bsds-128.gt100.bin)" $form >"$name" 2>&1 || passed=0
			! grep -q ' NO$' "$name" || passed=0
			n=$((n + 1))
			printf '\n### sift-bsds-128, graph of degree 32, %s\n\n```\n%s\n```\n' "$form" "$(cat "$name")" >>"$searches"
		done
		limited 300 "$build/cmake/test/bench/gpu/gpu_kmeans_bench" "$base" >"$logs/kmeans" 2>&1 || passed=0
		printf '\n### sift-bsds-128, k-means, all rows\n\n```\n%s\n```\n' "$(cat "$logs/kmeans")" >>"$searches"
	fi
	base=$(unpacked "fashion-mnist-784.base.u8bin")
	if [ -n "$base" ]; then
		for form in --blocks-by-dims '--fp32 --blocks-by-dims' --hash; do
			name=$logs/graph-fashion-${form// /}
			# shellcheck disable=SC2086
			limited 120 "$build/cmake/test/bench/gpu/gpu_graph_bench" "$base" "$(unpacked fashion-mnist-784.query.u8bin)" \
				"$(unpacked fashion-mnist-784.gt100.bin)" $form >"$name" 2>&1 || passed=0
			! grep -q ' NO$' "$name" || passed=0
			n=$((n + 1))
			printf '\n### fashion-mnist-784, graph of degree 32, %s\n\n```\n%s\n```\n' "$form" "$(cat "$name")" >>"$searches"
		done
	fi
	local adult='' words=''

	if [ -n "$data" ]; then
		adult=$(unpacked adult.csv)
		words=$(unpacked words.txt)
	fi
	limited 300 "$build/cmake/test/bench/gpu/gpu_match_bench" ${adult:+--adult "$adult"} --documents 1000000 --lsh 10000000 --runs 3 >"$logs/match" 2>&1 || passed=0
	limited 120 "$build/cmake/test/bench/gpu/gpu_match_bench" ${adult:+--adult "$adult"} --documents 1000000 --lsh 1000000 --runs 3 --count-pq 12000 >>"$logs/match" 2>&1 || passed=0
	! grep -q 'WRONG' "$logs/match" || passed=0
	printf '\n### Match counts\n\n```\n%s\n```\n' "$(cat "$logs/match")" >>"$searches"
	if [ -n "$words" ]; then
		limited 120 "$build/cmake/test/bench/gpu/gpu_text_bench" "$words" "$(unpacked misspellings.queries.tsv)" >"$logs/texts" 2>&1 || passed=0
		! grep -q 'WRONG' "$logs/texts" || passed=0
		printf '\n### Word list, misspellings by edit distance\n\n```\n%s\n```\n' "$(cat "$logs/texts")" >>"$searches"
	fi
	limited 180 "$build/cmake/test/bench/gpu/gpu_sparse_bench" >"$logs/sparse" 2>&1 || passed=0
	printf '\n### Sparse vectors, made rows\n\n```\n%s\n```\n' "$(cat "$logs/sparse")" >>"$searches"
	limited 120 "$build/cmake/test/bench/gpu/gpu_codes_at_scale_bench" >"$logs/codes-at-scale" 2>&1 || passed=0
	! grep -q ' NO$' "$logs/codes-at-scale" || passed=0
	n=$((n + 1))
	printf '\n### 100 million rows of 96 dimensions, made on the device, by codes of 48 bytes\n\n```\n%s\n```\n' "$(cat "$logs/codes-at-scale")" >>"$searches"
	limited 120 "$build/cmake/test/bench/gpu/gpu_passing_bench" >"$logs/passing" 2>&1 || passed=0
	n=$((n + 1))
	printf '\n### Searches with conditions, made rows\n\n```\n%s\n```\n' "$(cat "$logs/passing")" >>"$searches"
	limited 300 "$build/cmake/test/bench/gpu/gpu_select_bench" >"$logs/select" 2>&1 || passed=0
	printf '\n### Selection alone\n\n```\n%s\n```\n' "$(cat "$logs/select")" >>"$searches"
	note bench "$passed" "benchmarks | $n searches, selection" \
		"word list, 1,024 misspellings, the nearest word by edit distance | $(figure_of "$logs/texts" 'cuda *batch *1024')" \
		"Adult x 20, ranges of ±50, 1,024 queries, k = 100 | $(figure_of "$logs/match" 'adult *batch *1024')" \
		"10 million rows x 237 hashes, 1,024 queries, k = 100 | $(figure_of "$logs/match" 'lsh *batch *1024')"
}

# graph_of NAME BASE QUERY TRUTH DEGREES PARTS: graphs over float32 rows, with parts of cuVS beside, its graphs of these degrees.
graph_of() {
	local log=$logs/graph-$1 degree

	limited 200 "$build/cmake/test/bench/gpu/gpu_graph_bench" "$2" "$3" "$4" --fp32 --batches >"$log" 2>&1 || passed=0
	! grep -q ' NO$' "$log" || passed=0
	printf '\n### %s as float32, graph of degree 32\n\n```\n%s\n```\n' "$1" "$(cat "$log")" >>"$searches"
	[ -n "${VECTORGPU_PEERS:-}" ] || return 0
	for degree in $5; do
		PYTHONPATH=$VECTORGPU_PEERS limited 200 python3 "$root/test/gpu/peers.py" "$2" "$3" --metric l2 --degree "$degree" --parts "$6" --seconds .5 \
			>"$logs/peers-graph-$1-$degree" 2>&1
		printf '\n### %s as float32, cuVS of degree %s beside\n\n```\n%s\n```\n' "$1" "$degree" "$(cat "$logs/peers-graph-$1-$degree")" >>"$searches"
	done
}

phase_graphs() {
	local passed=1 base searches=$parts/graphs.md

	: >"$searches"
	base=$(unpacked "sift-bsds-128.base.u8bin")
	if [ -n "$base" ]; then
		graph_of sift "$base" "$(unpacked sift-bsds-128.query.u8bin)" "$(unpacked sift-bsds-128.gt100.bin)" 32 cagra,kmeans
		limited 120 "$build/cmake/test/bench/gpu/gpu_ivf_bench" "$base" "$(unpacked sift-bsds-128.query.u8bin)" \
			"$(unpacked sift-bsds-128.gt100.bin)" --lists 1024 --quick --fp32 >"$logs/ivf-1024--fp32" 2>&1 || passed=0
		! grep -q ' NO$' "$logs/ivf-1024--fp32" || passed=0
		printf '\n### sift-bsds-128, 1024 inverted lists, --fp32\n\n```\n%s\n```\n' "$(cat "$logs/ivf-1024--fp32")" >>"$searches"
		limited 100 "$build/cmake/test/bench/gpu/gpu_kmeans_bench" "$base" >"$logs/kmeans" 2>&1 || passed=0
		printf '\n### sift-bsds-128, k-means, all rows\n\n```\n%s\n```\n' "$(cat "$logs/kmeans")" >>"$searches"
	fi
	base=$(unpacked "arxiv-lsa-256.base.f16bin")
	[ -z "$base" ] || graph_of arxiv "$base" "$(unpacked arxiv-lsa-256.query.f16bin)" - "32 64" cagra
	base=$build/data/made
	if mkdir -p "$build/data" && limited 120 python3 "$root/test/bench/embeddings.py" --out "$base" --rows 1000000 --dims 768 --groups 2000 \
		--queries 10000 --device cuda >"$logs/made" 2>&1; then
		graph_of made "$base.base.f32bin" "$base.query.f32bin" - 64 cagra
		rm -f "$base".*
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
