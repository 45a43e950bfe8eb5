# shellcheck shell=bash
# Part package of scripts/test: the Debian packages of scripts/package, `make dist`. Sourced by scripts/test; uses its variables and functions.

# part_package: makes the packages, installs them into a clean root, searches with the server there, and removes them. The quick suite packs the build
# of the SQL parts, and the worker for the CPU in the package of CUDA's too; --long builds everything as for a release, CUDA where nvcc is.
part_package() {
	local log=$LOGS/package.log packages=$ROOT/build/test/package version built=()

	say "packages"
	if ! [[ $PG_CONFIG =~ ^/usr/lib/postgresql/(1[5-8])/bin/pg_config$ ]]; then
		skip package "the server is not Debian's"
		return
	fi
	version=${BASH_REMATCH[1]}
	if ! is_root; then
		skip package "dpkg --root needs root"
		return
	fi
	if [ -n "$(missing_packages debhelper dpkg-dev)" ]; then
		skip package "debhelper is not installed"
		return
	fi
	if [ "$LONG" -eq 0 ]; then
		local worker
		worker=$WORK/pg$("$PG_CONFIG" --pkglibdir)/vectorgpu_worker
		built=(VECTORGPU_BUILT_TREE="$ROOT/build/test/tree" VECTORGPU_BUILT_WORKER="$worker" VECTORGPU_BUILT_CUDA_WORKER="$worker")
	fi
	rm -f "$packages"/*.deb
	if ! env -u VECTORGPU_BUILT_WORKER "${built[@]}" VECTORGPU_CUDA_TARGETS="${VECTORGPU_CUDA_TARGETS:-arch=compute_90a,code=sm_90a}" \
		"$ROOT/scripts/package" --folder "$packages" ${built[0]:+--cuda} "$version" >"$log" 2>&1; then
		show "$log"
		count package 0 1 0
		return
	fi
	[ -z "$(missing_packages lintian)" ] || skip "package, lintian" "it is not installed"
	(packages_come_and_go "$packages" "$version") >"$LOGS/package-install.log" 2>&1
	if ls "$packages"/vectorgpu-worker-cuda_*.deb >/dev/null 2>&1; then
		count_checks package "$LOGS/package-install.log" 11
	else
		skip "package, CUDA" "no nvcc on this machine"
		count_checks package "$LOGS/package-install.log" 8
	fi
	(dist_is_complete "$WORK/dist") >"$LOGS/package-dist.log" 2>&1
	count_checks "make dist" "$LOGS/package-dist.log" 3
}

# check NAME COMMAND…: one line for count_checks.
check() {
	local name=$1

	shift
	if "$@"; then
		echo "ok - $name"
	else
		echo "not ok - $name"
	fi
}

# count_checks NAME LOG N: counts the checks in the log; those of the N that did not run have failed.
count_checks() {
	local passed

	passed=$(grep -c '^ok - ' "$2")
	[ "$passed" -eq "$3" ] || show "$2"
	count "$1" "$passed" $(($3 - passed)) 0
}

# clean_root ROOT VERSION: a root with the server alone. It has this machine's list of packages, so that dependencies have to be met, but not their files.
clean_root() {
	local root=$1 version=$2 list name

	(WORK=${root%/pg} copy_server) || return 1
	rm -f "$root/usr/lib/postgresql/$version/lib"/vector* "$root/usr/share/postgresql/$version/extension"/vector*
	mkdir -p "$root/var/lib/dpkg"/{info,updates,triggers,parts}
	cp /var/lib/dpkg/status "$root/var/lib/dpkg/status"
	cp /var/lib/dpkg/arch "$root/var/lib/dpkg/arch" 2>/dev/null
	for list in /var/lib/dpkg/info/*.list; do
		: >"$root/var/lib/dpkg/info/${list##*/}"
	done
	for name in "postgresql-$version-pgvector" "postgresql-$version-vectorgpu-compat" "postgresql-$version-vectorgpu" vectorgpu-worker-cuda; do
		[ -n "$(missing_packages "$name")" ] || dpkg --root="$root" --purge "$name" || return 1
	done
}

# files_of ROOT: all its files and folders but dpkg's own.
files_of() {
	(cd "$1" && find . -path ./var/lib/dpkg -prune -o -print | sort)
}

# refuses_pgvector ROOT VERSION: a package of pgvector's name cannot be installed beside the package compat.
refuses_pgvector() {
	local folder=$WORK/package/pgvector log=$WORK/package/conflict.log

	mkdir -p "$folder/DEBIAN"
	printf '%s\n' "Package: postgresql-$2-pgvector" 'Version: 0.8.0-1' 'Architecture: all' 'Maintainer: tests <tests@example.org>' 'Description: only a name' \
		>"$folder/DEBIAN/control"
	dpkg-deb --build --root-owner-group "$folder" "$folder.deb" >/dev/null || return 1
	! dpkg --root="$1" -i "$folder.deb" >"$log" 2>&1 && grep -q 'conflict' "$log"
}

# worker_program [PID]: the file that the worker runs, once there is one that is ready and another than PID.
worker_program() {
	local pid tries

	for ((tries = 0; tries < 600; tries++)); do
		pid=$(sql 'SELECT pid FROM vectorgpu_worker WHERE ready')
		if [ -n "$pid" ] && [ "$pid" != "${1:-}" ]; then
			readlink "/proc/$pid/exe"
			return
		fi
		sleep 0.1
	done
}

# next_worker_program: the same after a restart of the worker, as docs/install.md has it.
next_worker_program() {
	local pid

	pid=$(sql 'SELECT pid FROM vectorgpu_worker')
	sql 'SELECT pg_terminate_backend(supervisor_pid) FROM vectorgpu_worker' >/dev/null
	worker_program "$pid"
}

# searches DATABASE EXTENSION METHOD TYPE: whether the row at 2 is the nearest to 2.2 in a new table with a new index of METHOD.
searches() {
	local FLAP_DATABASE=$1

	[ "$(sql "CREATE EXTENSION $2" 'CREATE TABLE t (id int, v vector(2))' 'INSERT INTO t SELECT i, ARRAY[i, 1]::real[]::vector FROM generate_series(1, 500) i' \
		"CREATE INDEX t_v ON t USING $3 (v vector_l2_ops)" 'SET enable_seqscan = off' "SELECT vectorgpu_prewarm('t_v') IS NOT NULL" \
		"SELECT id FROM t ORDER BY v <-> '[2.2,1]' LIMIT 1" | tail -n 1)" = 2 ]
}

# packages_come_and_go FOLDER VERSION: in a process of its own, whose variables it changes.
packages_come_and_go() {
	local packages=$1 version=$2 root=$WORK/package/pg cluster=$WORK/cluster-package before own cuda

	clean_root "$root" "$version" || return
	SERVER_BIN=$root/usr/lib/postgresql/$version/bin
	own=$root/usr/lib/postgresql/$version/lib/vectorgpu_worker cuda=$root/usr/lib/vectorgpu/vectorgpu_worker
	before=$(files_of "$root")
	check "postgresql-$version-vectorgpu can be installed" dpkg --root="$root" -i "$packages/postgresql-$version-vectorgpu"_*.deb
	# A name of its own, which close_server finds.
	start_cluster "$cluster" 'fsync = off' 'vectorgpu.worker_min_size = 0' || return
	trap 'stop_cluster "$WORK/cluster-package"' EXIT
	check "it searches" searches postgres vectorgpu gpuflat
	check "its worker runs" test "$(worker_program)" = "$own"
	check "the worker has answered" test "$(sql 'SELECT answered > 0 FROM vectorgpu_worker')" = t
	if ls "$packages"/vectorgpu-worker-cuda_*.deb >/dev/null 2>&1; then
		check "vectorgpu-worker-cuda can be installed" dpkg --root="$root" -i "$packages"/vectorgpu-worker-cuda_*.deb
		check "the worker is that of CUDA's package" test "$(next_worker_program)" = "$cuda"
		dpkg --root="$root" --remove vectorgpu-worker-cuda
		check "and the server's package's again" test "$(next_worker_program)" = "$own"
	fi
	check "postgresql-$version-vectorgpu-compat can be installed" dpkg --root="$root" -i "$packages/postgresql-$version-vectorgpu-compat"_*.deb
	sql 'CREATE DATABASE other' && check "the extension vector searches" searches other vector hnsw
	check "pgvector's package is refused beside it" refuses_pgvector "$root" "$version"
	stop_cluster "$cluster"
	dpkg --root="$root" --purge "postgresql-$version-vectorgpu-compat" "postgresql-$version-vectorgpu"
	check "nothing is left" diff <(echo "$before") <(files_of "$root")
}

# dist_is_complete FOLDER: the archives of make dist have all files, also those made in an unpacked archive, which has no .git.
dist_is_complete() {
	local folder=$1 name tree

	mkdir -p "$folder"
	rm -f "$ROOT"/build/vectorgpu-*.tar.gz
	make -s -C "$ROOT" dist PG_CONFIG="$PG_CONFIG" || return
	name=$(basename "$ROOT"/build/vectorgpu-*.tar.gz .tar.gz)
	tar -C "$folder" -xzf "$ROOT/build/$name.tar.gz"
	tree=$folder/$name
	if git -C "$ROOT" rev-parse HEAD >/dev/null 2>&1; then
		check "all files of the commit" diff <(git -C "$ROOT" ls-tree -r --name-only HEAD | sort) <(cd "$tree" && find . -type f | sed 's,^\./,,' | sort)
	else
		check "META.json" test -s "$tree/META.json"
	fi
	make -s -C "$tree" dist PG_CONFIG="$PG_CONFIG" || return
	check "the same without git" diff <(tar -tzf "$ROOT/build/$name.tar.gz" | grep -v '/$' | sort) <(tar -tzf "$tree/build/$name.tar.gz" | grep -v '/$' | sort)
	check "as zip too" python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip() is not None)' "$tree/build/$name.zip"
}
