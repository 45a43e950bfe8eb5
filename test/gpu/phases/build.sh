# shellcheck shell=bash
# The phase build, and what it keeps for the report. Sourced by test/gpu/run.

# The git trees of the build, kept with it: the report may be written by a later call.
write_trees() {
	if [ -z "$trees" ]; then
		trees=$(cd "$root" && git rev-parse HEAD:gpu HEAD:src/worker HEAD:src/wire HEAD:src/engine 2>/dev/null | tr '\n' ' ')
		(cd "$root" && git diff --quiet HEAD -- gpu src/worker src/wire src/engine 2>/dev/null) || trees="$trees(with uncommitted changes)"
	fi
	printf '%s\n' "$trees" >"$build/trees"
}

# The machine of the build, kept with it too.
write_machine() {
	{
		echo "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
		echo "$(nvcc --version | sed -n 's/.*release \([^,]*\),.*/CUDA \1/p'), $(c++ --version | head -n 1)"
		nproc
	} >"$build/machine"
}

configure() {
	local folder=$1

	shift
	# shellcheck disable=SC2086
	cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DVECTORGPU_CUDA=ON -DVECTORGPU_BENCHMARKS=OFF \
		-DVECTORGPU_WERROR=OFF "-DVECTORGPU_CUDA_TARGETS=${VECTORGPU_CUDA_TARGETS:-arch=compute_90a,code=sm_90a}" "$@" ${VECTORGPU_CMAKE:-}
}

phase_build() {
	local log=$logs/build passed=1

	write_trees
	write_machine
	{ configure "$build/cmake" -DVECTORGPU_FAULTS=ON &&
		limited 600 ninja -C "$build/cmake" -j "$jobs" gpu_tests devices_bench gpu_search_bench gpu_ivf_bench gpu_ivf_large_bench gpu_list_choice_bench gpu_match_bench gpu_text_bench gpu_sparse_bench gpu_one_pass_bench gpu_passing_bench gpu_select_bench gpu_kmeans_bench gpu_append_bench gpu_graph_bench gpu_codes_at_scale_bench gpu_inline_codes_bench gpu_code_curves_bench large_engine_bench vectorgpu_worker; } >"$log" 2>&1 || passed=0
	[ "$passed" = 1 ] || tail -n 30 "$log"
	note build "$passed" "build | $(grep -c 'warning' "$log") warnings, $([ "$passed" = 1 ] && echo done || echo failed)"
}
