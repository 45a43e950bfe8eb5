# shellcheck shell=bash
# The phase report: REPORT.md from what the phases have left. Sourced by test/gpu/run.

# cut_off: the line of the phase tap that was ended before its own, from what its log has of each file.
cut_off() {
	awk '$2 ~ /^(ok|FAIL|skip)$/ { n[$2]++; if ($2 == "FAIL") failed = failed " " $1 }
		END { printf "| tap | cut off after %d passed, %d failed%s, %d skipped |\n", n["ok"], n["FAIL"], (failed != "" ? " (" substr(failed, 2) ")" : ""), n["skip"] }' "$logs/tap"
}

phase_report() {
	local gpu_tree worker_tree wire_tree engine_tree rest phase codes conditions figures

	[ -f "$build/trees" ] || write_trees
	[ -f "$build/machine" ] || write_machine
	read -r gpu_tree worker_tree wire_tree engine_tree rest <"$build/trees"
	{
		echo "# GPU report"
		echo
		echo "Written by \`test/gpu/run\`; not to be edited. Phases that did not run are missing."
		echo
		echo "| | |"
		echo "|---|---|"
		echo "| date | $(date -u +%Y-%m-%d) |"
		echo "| git trees | gpu \`$gpu_tree\`, src/worker \`$worker_tree\`, src/wire \`$wire_tree\`, src/engine \`$engine_tree\` $rest |"
		echo "| GPU, driver | $(sed -n 1p "$build/machine") |"
		echo "| compiler | $(sed -n 2p "$build/machine") |"
		for phase in build tests sanitize networks sql tap faults neighbour exact bench graphs inline devices join-devices clients recalls choice joins embeddings builds before before-before before-now code-curves large large_engine; do
			if [ -f "$parts/$phase.table" ]; then
				cat "$parts/$phase.table"
			elif [ "$phase" = tap ] && [ -s "$logs/tap" ]; then
				cut_off
			fi
		done
		cat "$parts"/conditions*.table "$parts"/codes*.table 2>/dev/null
		for phase in sql tap faults neighbour; do
			if [ -s "$parts/$phase.counts" ]; then
				printf '\n### %s\n\n```\n' "$phase"
				cat "$parts/$phase.counts" "$parts/$phase.notes" 2>/dev/null
				printf '```\n'
			fi
		done
		printf '\n### Floors\n\n'
		python3 "$root/test/gpu/floors.py" "$logs" "$parts" "$(dirname "$report")/figures.tsv" "$(sed -n 1p "$build/machine")" "$(cat "$build/trees")"
		if [ -f "$parts/exact.md" ] || [ -f "$parts/bench.md" ] || [ -f "$parts/graphs.md" ]; then
			echo
			echo "Milliseconds are wall-clock of \`Engine::search\`, copies of queries and results included, one caller. *x floor*: over the"
			echo "larger of one reading of the rows at 4.25 TB/s and the products at 790 TFLOP/s (bf16, measured). *rescored*: rows a query that"
			echo "the filter passed on (0: the direct way was taken). *exact*: every distance equals the ground truth's; with a recall target"
			echo "the recall stands there. Commands: \`gpu_search_bench BASE QUERY TRUTH --quick [--fp32] [--recall=R]\`, \`gpu_ivf_bench BASE QUERY TRUTH --lists N\`, \`gpu_codes_at_scale_bench\`, \`gpu_graph_bench BASE QUERY TRUTH [--steps N] [--targets] [--ablation]\`, \`gpu_match_bench --adult CSV --documents ROWS --lsh ROWS\`, \`gpu_text_bench WORDS QUERIES\`, \`gpu_sparse_bench\`, \`gpu_select_bench\`."
			cat "$parts/exact.md" "$parts/bench.md" "$parts/graphs.md" 2>/dev/null
		fi
		if [ -s "$parts/clients.md" ]; then
			echo
			echo "### SQL clients"
			echo
			echo "pgbench on the server's unix socket, prepared statements, each of 100 queries \`ORDER BY v <-> '…' LIMIT 10\`; $(sed -n 3p "$build/machine") cores for server,"
			echo "worker and clients. Settings are the defaults but for those named. Command: \`test/gpu/sql_bench --data DIR\`. The phase prints"
			echo "its lines as it knows them, so that one that was cut off has what came before. The worker is that of the phase build."
			echo
			cat "$parts/clients.md"
		fi
		if [ -s "$parts/recalls.md" ]; then
			echo
			echo "### SQL, codes, changes, k-means"
			echo
			echo "Command: \`test/gpu/sql_bench --data DIR --only ${recall_parts// /,}\`."
			echo
			cat "$parts/recalls.md"
		fi
		if [ -s "$parts/embeddings.md" ]; then
			echo
			echo "### SQL, rows like embeddings"
			echo
			echo "Command: \`test/gpu/sql_bench --data DIR --embeddings\`."
			echo
			cat "$parts/embeddings.md"
		fi
		if [ -s "$parts/builds.md" ]; then
			echo
			echo "### SQL, CREATE INDEX against a sequential read"
			echo
			echo "Command: \`test/gpu/sql_bench --data DIR --builds\`."
			echo
			cat "$parts/builds.md"
		fi
		if [ -s "$parts/code-curves.md" ]; then
			echo
			echo "### RaBitQ beside product quantisers"
			echo
			echo "Codes of as many bits of a dimension, full vectors for the best candidates. Commands: \`gpu_code_curves_bench BASE QUERY\`, and from"
			echo "SQL \`test/gpu/sql_bench --data DIR --codes\`: medians of runs in turns, their range in the note."
			cat "$parts/code-curves.md"
			for codes in "$parts"/codes*.md; do
				[ ! -s "$codes" ] || { echo; cat "$codes"; }
			done
		fi
		for conditions in "$parts"/conditions*.md; do
			[ -s "$conditions" ] || continue
			echo
			echo "### SQL, conditions on key columns: $(basename "$conditions" .md)"
			echo
			echo "Command: \`test/gpu/sql_bench --data DIR --keys --sets SET\`."
			echo
			cat "$conditions"
		done
		if [ -s "$parts/choice.md" ]; then
			echo
			echo "### SQL, the planner's choice"
			echo
			echo "Command: \`test/gpu/sql_bench --data DIR --only choice\`."
			echo
			cat "$parts/choice.md"
		fi
		if [ -s "$parts/joins.md" ]; then
			echo
			echo "### SQL, the k-NN join"
			echo
			echo "Command: \`test/gpu/sql_bench --data DIR --only joins\`. Times are those of EXPLAIN ANALYZE without timing of nodes."
			echo
			cat "$parts/joins.md"
		fi
		if [ -s "$parts/large.md" ]; then
			echo
			echo "### SQL, ten million rows"
			echo
			echo "SIFT with noise of whole numbers −8 … 8, loaded, indexed and searched as above; recall@10 of the 100 queries that the clients ask"
			echo "against brute force. Command: \`test/gpu/sql_bench --data DIR --large\`."
			echo
			cat "$parts/large.md"
		fi
		if [ -f "$parts/inline.bench" ]; then
			printf '\n### Codes of neighbours beside the edges, the steps of a graph search alone\n\n```\n%s\n```\n' "$(cat "$parts/inline.bench")"
		fi
		if [ -f "$parts/large_engine.bench" ]; then
			printf '\n### The engine alone over many rows\n\nCommand: `large_engine_bench %s`.\n\n```\n%s\n```\n' "${VECTORGPU_LARGE_ENGINE:-}" "$(cat "$parts/large_engine.bench")"
		fi
		for figures in "$parts"/large_engine*.figures; do
			[ -s "$figures" ] || continue
			printf '\n### The engine alone over many rows: %s\n\n' "$(basename "$figures" .figures)"
			printf 'Written by `large_engine_bench --figures`.\n\n| figure | value | recall |\n| --- | --- | --- |\n'
			awk -F '\t' 'NF == 4 { printf "| %s | %s %s | %s |\n", $1, $2, $3, $4 }' "$figures"
		done
		if [ -f "$parts/devices.bench" ]; then
			printf '\n### Several GPUs against one\n\n```\n%s\n```\n' "$(cat "$parts/devices.bench")"
		fi
		if [ -s "$parts/join-devices.md" ]; then
			printf '\n### SQL, vectorgpu_join by several GPUs and by one\n\nCommand: `test/gpu/sql_bench --data DIR --join-devices`.\n\n'
			cat "$parts/join-devices.md"
		fi
		if [ -s "$parts/before.md" ]; then
			printf '\n### Another version beside this one\n\n'
			cat "$parts/before.md" "$parts"/before-{before,now}.md 2>/dev/null
		fi
		if [ -f "$parts/networks.bench" ]; then
			printf '\n### Selection alone, WarpSelect and BlockSelect\n\n```\n%s\n```\n' "$(cat "$parts/networks.bench")"
		fi
	} | sed 's/[ \t]*$//' >"$report"
	echo "== report: $report"
}
