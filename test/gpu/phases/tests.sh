# shellcheck shell=bash
# The phases of gpu_tests: tests, sanitize, networks. Sourced by test/gpu/run.

phase_tests() {
	local log=$logs/tests passed=1 shards=${VECTORGPU_TEST_SHARDS:-1} cards i

	IFS=, read -ra cards <<<"${CUDA_VISIBLE_DEVICES:-0}"
	rm -f "$log".*
	for ((i = 0; i < shards; i++)); do
		(
			export CUDA_VISIBLE_DEVICES=${cards[i % ${#cards[@]}]} GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i
			VECTORGPU_CHURN=10000 limited 900 "$build/cmake/test/gpu/gpu_tests" >"$log.$i" 2>&1
			echo "$?" >"$log.$i.status"
		) &
	done
	wait
	for ((i = 0; i < shards; i++)); do
		[ "$(cat "$log.$i.status" 2>/dev/null)" = 0 ] || passed=0
		cat "$log.$i"
	done >"$log"
	# Those of several GPUs are skipped above, where each process has one.
	if [ "$(count_gpus)" -gt 1 ]; then
		on_all_gpus limited 600 "$build/cmake/test/gpu/gpu_tests" --gtest_filter='Devices.*' >>"$log" 2>&1 || passed=0
	fi
	[ "$passed" = 1 ] || grep -E '^\[  FAILED|Failure$' -A 8 "$log" | head -n 60
	note tests "$passed" "test/gpu | $(summary_of "$log")"
}

# The sanitizers slow kernels down by a factor of tens: part of the suite, and all kernels by the engine's self-test. test/lint checks that each name of
# such an array, NAME_tests, is a test of this folder; so does list_of_tests.
sanitized_tests=(
	Changes.AllRowsDead Changes.TheFilterAnswersMostAndPassesOnFewRows Parity.NearTiesBelowTheErrorOfTheFilter SelectRows.Reduced
	PartialReduce.FewRowsAliveAreAllFound Lists.MoreCandidatesThanThereIsRoomFor Lists.QueriesReportTheirCoverage FewLists.DeadRows
	Graphs.AllRowsEqual Graphs.FewRows Graphs.Reduced GraphsAlone.AllRowsEqual BitGraphs.EqualRowsAndRowsWithoutABit KMeans.EmptyClustersMoveAsOnTheCpu KMeans.FewDifferentRows Match.Reduced
	MatchCopy.TheSelfTestPasses OnePass.Reduced Passing.Reduced PackedRows.Reduced Delta.ASmallBudgetHoldsWhatFits Devices.Reduced Codes.Reduced JoinParts.Reduced HostRows.Reduced
	RoundedLists.Reduced HashedAlone.Reduced ListBuilder.Reduced HashedAlone.segments_without_room_are_the_hosts GraphEdges.MayOverlapTheLists
	OwnRows.WithConditions GpuFault.ListsAreBuiltWithoutPinnedMemory RoundedGraphs.Reduced
)
# Answers of different lengths are copied with the longest length; the bytes after shorter ones are not read.
not_initialized_tests=(HashedAlone.Reduced HashedAlone.segments_without_room_are_the_hosts Codes.Reduced HostRows.Reduced)
network_tests=('SelectRows.*')

phase_sanitize() {
	local tool status passed=1 lines=() verdict tests=$build/cmake/test/gpu/gpu_tests filter left_out

	filter=$(list_of_tests "$tests" "${sanitized_tests[@]}" 2>"$logs/sanitize") || passed=0
	left_out=$(list_of_tests "$tests" "${not_initialized_tests[@]}" 2>>"$logs/sanitize") || passed=0
	if [ "$passed" = 0 ]; then
		cat "$logs/sanitize"
		lines+=("names of the reduced suite | $(sed 's/.* has no/no/' "$logs/sanitize" | sort -u | tr '\n' ';')")
	fi
	for tool in memcheck racecheck initcheck synccheck; do
		(
			status=0
			options=(--tool "$tool" --error-exitcode 9)
			without=''
			[ "$tool" != memcheck ] || options+=(--leak-check full)
			[ "$tool" != initcheck ] || without=-$left_out
			limited 400 compute-sanitizer "${options[@]}" "$tests" --gtest_filter="$filter$without" >"$logs/$tool" 2>&1 || status=$?
			echo "$status" >"$logs/$tool.status"
		) &
	done
	wait
	for tool in memcheck racecheck initcheck synccheck; do
		status=$(cat "$logs/$tool.status" 2>/dev/null || echo 1)
		[ "$status" = 0 ] || passed=0
		verdict="exit status $status$(grep -E '(LEAK|ERROR|RACECHECK) SUMMARY' "$logs/$tool" | sed 's/=========/;/' | tr -s ' ' | head -n 2 | tr -d '\n')"
		[ "$status" != 124 ] || verdict="not finished in its time"
		lines+=("compute-sanitizer $tool, reduced suite | $verdict")
	done
	note sanitize "$passed" "${lines[@]}"
}

phase_networks() {
	local log=$logs/networks passed=1 tests=$build/networks/test/gpu/gpu_tests filter

	{ configure "$build/networks" -DVECTORGPU_WARPSELECT=ON &&
		limited 600 ninja -C "$build/networks" -j "$jobs" gpu_tests gpu_select_bench &&
		filter=$(list_of_tests "$tests" "${network_tests[@]}") && limited 300 "$tests" --gtest_filter="$filter"; } >"$log" 2>&1 || passed=0
	limited 300 "$build/networks/test/bench/gpu/gpu_select_bench" >"$parts/networks.bench" 2>&1 || passed=0
	[ "$passed" = 1 ] || tail -n 30 "$log"
	note networks "$passed" "selection by WarpSelect and BlockSelect | $(summary_of "$log")"
}
