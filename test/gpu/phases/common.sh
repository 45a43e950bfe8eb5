# shellcheck shell=bash
# What the phases share: limits of time, lines of the report's table, what is used of the build and of the data sets. Sourced by test/gpu/run,
# whose variables it uses.

# limited SECONDS COMMAND…: run with a time limit, scaled.
limited() {
	local seconds=$(($1 * ${VECTORGPU_TIME_SCALE:-1}))

	shift
	timeout --kill-after=30 "$seconds" "$@"
}

# note PHASE PASSED LINE…: the phase's lines of the report's table.
note() {
	local phase=$1 passed=$2

	shift 2
	printf '| %s |\n' "$@" >"$parts/$phase.table"
	printf '== %s: %s\n' "$phase" "$([ "$passed" = 1 ] && echo passed || echo FAILED)"
	printf '   %s\n' "$@"
	[ "$passed" = 1 ] || failed=1
}

# The number of GPUs for what needs several: those of VECTORGPU_ALL_GPUS, of CUDA_VISIBLE_DEVICES, or all of the machine.
count_gpus() {
	local named=${VECTORGPU_ALL_GPUS:-${CUDA_VISIBLE_DEVICES:-}}

	if [ -n "$named" ]; then
		tr ',' '\n' <<<"$named" | grep -c .
	else
		nvidia-smi -L 2>/dev/null | grep -c '^GPU'
	fi
}

# on_all_gpus COMMAND…: run with the GPUs that count_gpus counts.
on_all_gpus() {
	[ -z "${VECTORGPU_ALL_GPUS:-}" ] || local -x CUDA_VISIBLE_DEVICES=$VECTORGPU_ALL_GPUS
	"$@"
}

# gtest's last lines, added up over its shards.
summary_of() {
	awk '/^\[  (PASSED|FAILED|SKIPPED) +\] [0-9]+ test/ { n[$2] += $4 }
		END { for (i = split("PASSED FAILED SKIPPED", what, " "); i > 0; i--) if (n[what[4 - i]] > 0) printf "[  %s  ] %d tests ", what[4 - i], n[what[4 - i]] }' "$1"
}

# list_of_tests PROGRAM NAME…: the names joined by ":". Fails if a name matches no test: gtest would ignore it.
list_of_tests() {
	local program=$1 name listed missing=0

	shift
	for name in "$@"; do
		listed=$("$program" --gtest_list_tests --gtest_filter="$name" 2>/dev/null)
		[[ "$listed" == *$'\n  '* ]] || { echo "${program##*/} has no test $name" >&2; missing=1; }
	done
	(IFS=:; echo "$*")
	return "$missing"
}

# The worker that the phase build has made of the same sources, if it exists: kernels take minutes to compile. It has fault points, which the
# tests need; an unarmed one costs a look at an empty list.
built_worker() {
	[ ! -x "$build/cmake/vectorgpu_worker" ] || echo "$build/cmake/vectorgpu_worker"
}

# The benchmarks read unpacked files.
unpacked() {
	local name=$1

	if [ -f "$data/$name" ]; then
		echo "$data/$name"
	elif [ -f "$data/$name.gz" ]; then
		[ -f "$build/data/$name" ] || { mkdir -p "$build/data" && gzip -dc "$data/$name.gz" >"$build/data/$name"; }
		echo "$build/data/$name"
	fi
}
