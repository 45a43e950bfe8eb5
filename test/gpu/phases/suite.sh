# shellcheck shell=bash
# The phases that are parts of scripts/test with a worker on the GPU: sql, tap, faults, neighbour. Sourced by test/gpu/run.

# part_of_suite PHASE LIMIT PART…: parts of scripts/test with a worker on the GPU, which the log must show.
part_of_suite() {
	local phase=$1 limit=$2 log=$logs/$1 passed=1 part arguments=() summary engine

	shift 2
	for part in "$@"; do
		arguments+=(--only "$part")
	done
	# Another compiler than the project's may warn of more. The data sets are for bench and clients, which compare their answers too.
	VECTORGPU_DATA='' VECTORGPU_BUILT_WORKER=$(built_worker) VECTORGPU_MAKE="WERROR=0 CUDA=1 CUDA_TARGETS=${VECTORGPU_CUDA_TARGETS:-arch=compute_90a,code=sm_90a}" \
		limited "$limit" "$root/scripts/test" --no-install "${arguments[@]}" >"$log" 2>&1 || passed=0
	engine=$(grep -ohE 'ready, engine .*compute capability.*' "$root/build/test-logs/server.log" 2>/dev/null | head -n 1)
	if [ "$phase" = sql ] && [ -z "$engine" ]; then
		passed=0
		engine="the worker did not compute on the GPU"
	fi
	summary=$(tail -n 1 "$log")
	[ "$passed" = 1 ] || tail -n 60 "$log"
	rm -rf "$parts/$phase.logs"
	cp -r "$root/build/test-logs" "$parts/$phase.logs" 2>/dev/null
	grep -E ' passed +[0-9]+ failed' "$log" >"$parts/$phase.counts"
	note "$phase" "$passed" "$phase ($*) | $summary; $engine"
}

phase_sql() {
	part_of_suite sql 1800 regress isolation
}

phase_tap() {
	part_of_suite tap 3600 tap
}

phase_faults() {
	part_of_suite faults 1500 gpu
	grep -hE '# (device|back in service)' "$root"/build/test-logs/tap/*.log >"$parts/faults.notes" 2>/dev/null
}

phase_neighbour() {
	part_of_suite neighbour 600 gpu-alone
	grep -hE '# (taken|it computes)' "$root"/build/test-logs/tap/*.log >"$parts/neighbour.notes" 2>/dev/null
}
