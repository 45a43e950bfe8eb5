# shellcheck shell=bash
# A memory cgroup for 260_worker_memory_cgroup: made if root is allowed to, removed at the end. Sourced by scripts/test.

# make_memory_cgroup: sets and exports VECTORGPU_MEMORY_CGROUP to a new child of this process's own cgroup (version 2 with the
# memory controller, else version 1). RUN_USER may enter its children `inner` and `outer`, and set the limit of `inner`.
make_memory_cgroup() {
	local unified legacy folder file

	[ -z "${VECTORGPU_MEMORY_CGROUP:-}" ] && is_root || return 0
	unified=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
	legacy=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
	if grep -qw memory "$unified/cgroup.controllers" 2>/dev/null; then
		folder=$unified/vectorgpu-test-$$
		# Fails if the cgroup has processes: only the root cgroup, or one without processes, may enable controllers for children.
		mkdir "$folder" 2>/dev/null && { grep -qw memory "$unified/cgroup.subtree_control" ||
			echo +memory >"$unified/cgroup.subtree_control"; } 2>/dev/null &&
			echo +memory 2>/dev/null >"$folder/cgroup.subtree_control"
	elif [ -d "$legacy" ]; then
		folder=$legacy/vectorgpu-test-$$
		mkdir "$folder" 2>/dev/null
	else
		return 0
	fi
	MEMORY_CGROUP=$folder
	if ! mkdir "$folder/inner" "$folder/outer" 2>/dev/null; then
		remove_memory_cgroup
		return 0
	fi
	for file in "$folder"/cgroup.procs "$folder"/{inner,outer}/cgroup.procs "$folder"/inner/memory.{max,limit_in_bytes}; do
		[ ! -e "$file" ] || chown "$RUN_USER" "$file"
	done
	if [ -e "$folder/inner/memory.max" ] || [ -e "$folder/inner/memory.limit_in_bytes" ]; then
		export VECTORGPU_MEMORY_CGROUP=$folder
	fi
}

# enter_memory_cgroup: moves the calling subshell, with the processes it will start, into `outer`.
enter_memory_cgroup() {
	[ -z "${VECTORGPU_MEMORY_CGROUP:-}" ] || echo "$BASHPID" 2>/dev/null >"$VECTORGPU_MEMORY_CGROUP/outer/cgroup.procs" || true
}

remove_memory_cgroup() {
	[ -z "$MEMORY_CGROUP" ] || rmdir "$MEMORY_CGROUP/inner" "$MEMORY_CGROUP/outer" "$MEMORY_CGROUP" 2>/dev/null
	MEMORY_CGROUP=''
}

MEMORY_CGROUP=''
