# shellcheck shell=bash disable=SC2034
# Shared by the commands in this folder (bash): packages, the unprivileged user, a private copy of the server, builds
# outside of the checkout, throw-away clusters. The caller sets ROOT (the checkout) and WORK (a temporary folder that
# it removes itself). Nothing here writes into the system's PostgreSQL: the extension is installed into the copy.

PG_MAJOR=15
JOBS=$(nproc 2>/dev/null || echo 2)
[ "$JOBS" -le 16 ] || JOBS=16

say() {
	printf '== %s\n' "$*"
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

is_root() {
	[ "$(id -u)" -eq 0 ]
}

missing_packages() {
	local package

	for package in $(printf '%s\n' "$@" | sort -u); do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || printf '%s\n' "$package"
	done
}

# need_packages LOG PACKAGE…: installs missing packages by apt; keeps Debian from starting a cluster.
need_packages() {
	local log=$1 missing conf=/etc/postgresql-common/createcluster.d/vectorgpu-no-main.conf status=0

	shift
	missing=$(missing_packages "$@" | tr '\n' ' ')
	[ -n "$missing" ] || return 0
	is_root || die "these packages are missing: ${missing}(run as root, or: apt-get install $missing)"
	say "installing: $missing"
	export DEBIAN_FRONTEND=noninteractive
	if ! apt-get -o DPkg::Lock::Timeout=900 update >"$log" 2>&1; then
		tail -n 20 "$log"
		die "apt-get update failed, see $log"
	fi
	mkdir -p "${conf%/*}"
	echo "create_main_cluster = false" >"$conf"
	# shellcheck disable=SC2086
	apt-get -o DPkg::Lock::Timeout=900 -o Dpkg::Options::=--force-confold install -y --no-install-recommends \
		$missing >>"$log" 2>&1 || status=$?
	rm -f "$conf"
	rmdir --ignore-fail-on-non-empty "${conf%/*}" 2>/dev/null || true
	if [ "$status" -ne 0 ]; then
		tail -n 20 "$log"
		die "apt-get install failed, see $log"
	fi
}

# find_pg_config: prints the pg_config of an installed server that vectorgpu can be built for, the newest of Debian's after that in PATH; nothing if there
# is none.
find_pg_config() {
	local config

	for config in "$(command -v pg_config)" /usr/lib/postgresql/{18,17,16,15}/bin/pg_config; do
		if [[ "$("$config" --version 2>/dev/null)" =~ ^PostgreSQL\ 1[5-8] ]] && [ -x "$("$config" --bindir)/postgres" ] &&
			[ -e "$("$config" --includedir-server)/postgres.h" ]; then
			echo "$config"
			return
		fi
	done
}

# Sets PG_CONFIG from VECTORGPU_PG_CONFIG, or to Debian's PostgreSQL.
pick_pg_config() {
	PG_CONFIG=${VECTORGPU_PG_CONFIG:-/usr/lib/postgresql/$PG_MAJOR/bin/pg_config}
	[ -x "$PG_CONFIG" ] || die "no pg_config at $PG_CONFIG (set VECTORGPU_PG_CONFIG, or run without --no-install)"
}

# Sets RUN_USER: the calling user; for root postgres, or a new system user (initdb refuses root).
pick_run_user() {
	RUN_USER=$(id -un)
	if is_root; then
		RUN_USER=postgres
		if ! id "$RUN_USER" >/dev/null 2>&1; then
			RUN_USER=vectorgpu
			id "$RUN_USER" >/dev/null 2>&1 || useradd --system --no-create-home --shell /bin/sh "$RUN_USER"
		fi
	fi
}

# run_as COMMAND…: runs it as RUN_USER, in WORK and with HOME there, since RUN_USER may be unable to read the checkout.
run_as() {
	if is_root; then
		(cd "$WORK" && exec runuser -u "$RUN_USER" -- env HOME="$WORK" "$@")
	else
		(cd "$WORK" && exec "$@")
	fi
}

# make_work NAME: sets WORK to a new folder of RUN_USER. The path is short: it holds unix sockets (at most 107 bytes).
make_work() {
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/$1.XXXXXX")
	chmod 755 "$WORK"
	if is_root; then
		chown "$RUN_USER" "$WORK"
	fi
}

# copy_server: copies the server's programs, modules and share files to WORK/pg (PostgreSQL finds its files relative to
# the program) and sets SERVER_BIN, SERVER_PGXS. So two runs, and the system's own server, do not affect each other.
copy_server() {
	local folder

	for folder in --bindir --pkglibdir --sharedir; do
		folder=$("$PG_CONFIG" "$folder")
		[ -d "$folder" ] || die "$PG_CONFIG names no folder of a server"
		mkdir -p "$WORK/pg$folder"
		cp -a "$folder/." "$WORK/pg$folder/"
	done
	rm -rf "$WORK/pg$("$PG_CONFIG" --pkglibdir)/bitcode"
	SERVER_BIN=$WORK/pg$("$PG_CONFIG" --bindir)
	SERVER_PGXS=$WORK/pg$("$PG_CONFIG" --pkglibdir)/pgxs
	[ -x "$SERVER_BIN/postgres" ] || die "$PG_CONFIG belongs to a PostgreSQL without a server"
}

# mirror_tree FOLDER: brings FOLDER up to date with the checkout, with its times, and keeps build outputs there.
mirror_tree() {
	local tree=$1 name

	mkdir -p "$tree"
	(cd "$tree" && find . -path ./build -prune -o -type f ! -name '*.o' ! -name '*.d' ! -name '*.so' ! -name .flags -print) | while read -r name; do
		if [ ! -e "$ROOT/$name" ]; then
			rm -f "$tree/$name" "$tree"/*.so
		fi
	done
	tar -C "$ROOT" --exclude=./build --exclude=./.git --exclude='*.o' --exclude='*.d' --exclude='*.so' -cf - . |
		tar -C "$tree" --no-same-owner -xf -
}

# build_extension FOLDER LOG [FLAG=1 …]: builds a copy of the checkout in FOLDER with these make variables and installs
# it into the server copy. It first deletes objects built with other flags or for another server. It neither uses nor
# changes the checkout's own objects, so a test build is never mistaken for a release build. It leaves out kernels, which
# take minutes to compile, on a machine without a GPU, unless CUDA=1 is given. VECTORGPU_BUILT_WORKER: a worker program of
# the same sources and flags, which is installed instead of building one. VECTORGPU_BUILT_OBJECTS: a folder of a build with
# the same flags for another server, whose objects that know no server are taken over.
build_extension() {
	local tree=$1 log=$2 flags control

	shift 2
	if [[ " $* " != *" CUDA="* ]] && ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
		set -- "$@" CUDA=0
	fi
	flags="$* $PG_CONFIG $("$PG_CONFIG" --version) $(c++ -dumpfullversion 2>/dev/null)"
	mirror_tree "$tree"
	if [ "$(cat "$tree/.flags" 2>/dev/null)" != "$flags" ]; then
		find "$tree" \( -name '*.o' -o -name '*.d' -o -name '*.so' -o -name '*.gch' \) -delete
		printf '%s\n' "$flags" >"$tree/.flags"
	fi
	if [ -n "${VECTORGPU_BUILT_OBJECTS:-}" ]; then
		(cd "$VECTORGPU_BUILT_OBJECTS" && find src/common src/engine src/wire -name '*.[od]' -print0 | tar --null -T - -cf -) | tar -C "$tree" --no-same-owner -xf -
	fi
	[ -z "${VECTORGPU_BUILT_WORKER:-}" ] || set -- "$@" WORKER_TARGETS=
	make -C "$tree" -j "$JOBS" PG_CONFIG="$PG_CONFIG" "$@" >"$log" 2>&1 &&
		make -C "$tree" install DESTDIR="$WORK/pg" PG_CONFIG="$PG_CONFIG" "$@" >>"$log" 2>&1 || return 1
	# The extension vector too, unless the server has pgvector.
	control=$WORK/pg$("$PG_CONFIG" --sharedir)/extension/vector.control
	if grep -q '^install-vector:' "$tree/Makefile" && { [ ! -e "$control" ] || grep -q vectorgpu "$control"; }; then
		make -C "$tree" install-vector DESTDIR="$WORK/pg" PG_CONFIG="$PG_CONFIG" "$@" >>"$log" 2>&1 || return 1
	fi
	[ -z "${VECTORGPU_BUILT_WORKER:-}" ] ||
		install -m 755 "$VECTORGPU_BUILT_WORKER" "$WORK/pg$("$PG_CONFIG" --pkglibdir)/vectorgpu_worker" >>"$log" 2>&1
}

# start_cluster FOLDER [SETTING…]: makes and starts a cluster that listens on a unix socket in FOLDER only; sets PGHOST,
# PGPORT, PGUSER and PGDATABASE for the clients. Log: FOLDER/server.log.
start_cluster() {
	local folder=$1 setting

	shift
	run_as mkdir -p "$folder" || return 1
	run_as "$SERVER_BIN/initdb" -D "$folder/data" -U postgres -A trust --no-locale --encoding=UTF8 --no-sync \
		>/dev/null || return 1
	{
		printf "listen_addresses = ''\nunix_socket_directories = '%s'\n" "$folder"
		for setting in "$@"; do
			printf '%s\n' "$setting"
		done
	} | run_as tee -a "$folder/data/postgresql.conf" >/dev/null
	export PGHOST=$folder PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
	run_as "$SERVER_BIN/pg_ctl" -D "$folder/data" -l "$folder/server.log" -w -t 180 -s start
}

# stop_cluster FOLDER: stops it if it runs.
stop_cluster() {
	if [ -f "$1/data/postmaster.pid" ]; then
		run_as "$SERVER_BIN/pg_ctl" -D "$1/data" -m fast -w -t 120 -s stop ||
			run_as "$SERVER_BIN/pg_ctl" -D "$1/data" -m immediate -w -t 20 -s stop || true
	fi
}
