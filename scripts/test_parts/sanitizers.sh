# shellcheck shell=bash
# Part sanitizers of scripts/test: the unit tests, and a server whose module and worker are compiled by g++ with sanitizers. The server's own
# program is unchanged; the sanitizers' libraries are preloaded into it. Sourced by scripts/test; uses its variables and functions.

# The steps of the part; VECTORGPU_SANITIZERS overrides them.
SANITIZERS=${VECTORGPU_SANITIZERS:-unit-asan unit-tsan sql-asan tap-asan sql-tsan tap-tsan sql-asan18 tap-asan18}

# TAP files that run with the module and the worker under ASAN with UBSAN, and those with the worker under TSAN.
TAP_ASAN='/[0-4][0-9][0-9]_'
TAP_TSAN='/(400|25[4567]|26[012])_'

# On a server 18 with assertions: those that run for every access method, and the others for gpuflat.
TAP_ASAN18='/(010|030|060|067|100|259)_'

part_sanitizers() {
	local sanitizer

	for sanitizer in asan tsan; do
		[[ " $SANITIZERS " != *" unit-$sanitizer "* ]] || unit_preset "$sanitizer"
	done
	for sanitizer in asan tsan asan18; do
		[[ " $SANITIZERS " != *-"$sanitizer "* ]] || [[ ! " $SANITIZERS " =~ \ (sql|tap)-$sanitizer\  ]] || "sanitized_$sanitizer"
	done
}

# sanitized_asan: the SQL suites in the three ways and TAP files with both under ASAN with UBSAN.
sanitized_asan() {
	local KIND=-asan VECTORGPU_BUILT_WORKER='' VECTORGPU_MAKE=CUDA=0

	open_sanitized asan 'libasan.so libubsan.so libstdc++.so' 'heap overflow' SANITIZE=address,undefined || return 0
	[[ " $SANITIZERS " != *" sql-asan "* ]] || three_ways ''
	if [[ " $SANITIZERS " == *" tap-asan "* ]]; then
		TAP_ONLY=$TAP_ASAN
		part_tap "tap-asan" test/t 3600
		TAP_ONLY=''
	fi
	close_sanitized
}

# sanitized_asan18: the SQL suites with the worker off and on and TAP files with both under ASAN with UBSAN, on a server 18 with assertions.
sanitized_asan18() {
	local KIND=-asan18 VECTORGPU_BUILT_WORKER='' VECTORGPU_MAKE=CUDA=0 VECTORGPU_PG_CONFIG log=$LOGS/assert-server.log

	if ! VECTORGPU_PG_CONFIG=$("$ROOT/scripts/assert_server" 18 2>"$log" | tail -n 1); then
		show "$log"
		count "PostgreSQL 18 with assertions" 0 1 0
		return
	fi
	open_sanitized asan 'libasan.so libubsan.so libstdc++.so' 'heap overflow' SANITIZE=address,undefined || return 0
	if [[ " $SANITIZERS " == *" sql-asan18 "* ]]; then
		beside off sql_suites off "$KIND"
		beside on on_own_cluster on sql_suites on "-worker$KIND"
		wait
		counted_beside off on
	fi
	if [[ " $SANITIZERS " == *" tap-asan18 "* ]]; then
		TAP_ONLY=$TAP_ASAN18
		part_tap "tap-asan18" test/t 3600
		TAP_ONLY=$TAP_ASAN TAP_EXCEPT=$TAP_ASAN18 TAP_WITHOUT=@
		part_tap "tap-asan18, gpuflat" test/t 3600
		TAP_ONLY='' TAP_EXCEPT='' TAP_WITHOUT=''
	fi
	close_sanitized
}

# sanitized_tsan: the SQL suites and TAP files with the worker on, asked about indexes of every size, and under TSAN.
sanitized_tsan() {
	local KIND=-tsan VECTORGPU_BUILT_WORKER='' VECTORGPU_MAKE=CUDA=0

	open_sanitized tsan '' race WORKER_SANITIZE=thread || return 0
	[[ " $SANITIZERS " != *" sql-tsan "* ]] || sql_suites on -worker-tsan
	if [[ " $SANITIZERS " == *" tap-tsan "* ]]; then
		TAP_ENVIRONMENT=(VECTORGPU_WORKER=on) TAP_ONLY=$TAP_TSAN
		part_tap "tap-tsan" test/t 3600
		TAP_ENVIRONMENT=() TAP_ONLY=''
	fi
	close_sanitized
}

# open_sanitized asan|tsan LIBRARIES DEFECTS FLAG=…: builds and starts a sanitized server, and checks that it finds the canary's defects.
open_sanitized() {
	local sanitizer=$1 libraries=$2 defects=$3 reports

	shift 3
	pick_pg_config
	if ! build_server "$@"; then
		close_server
		return 1
	fi
	reports=$WORK/reports
	run_as mkdir "$reports"
	# A report ends its process by SIGABRT, which the server treats as a crash. The quarantine of freed memory is small, since backends are many
	# and short. The server measures stack depth by addresses, so ASAN must not move locals off the stack.
	export ASAN_OPTIONS="abort_on_error=1:detect_leaks=0:detect_stack_use_after_return=0:quarantine_size_mb=16:log_path=$reports/asan"
	# With ASAN, UBSAN has no report file: its reports, those of the worker too, are in the server's log.
	export UBSAN_OPTIONS="abort_on_error=1:print_stacktrace=1"
	export TSAN_OPTIONS="halt_on_error=0:second_deadlock_stack=1:log_path=$reports/tsan"
	# shellcheck disable=SC2086
	if ! { [ -z "$libraries" ] || preload_into_server $libraries; } || ! canary $defects || ! start_server; then
		close_server
		unset ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
		return 1
	fi
}

# close_sanitized: closes the server; fails if a process left a report.
close_sanitized() {
	check_server_log
	check_reports
	close_server
	unset ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
}

# preload_into_server LIBRARY…: preloads them into each server of the copy. ASAN has to be loaded first, with libstdc++, whose exceptions it
# intercepts. A library of our own is preloaded too, for two reasons:
# - ASAN initializes at the first intercepted call. If a library makes that call inside newlocale, both take the same lock of the C library: a
#   deadlock. So our library initializes ASAN before other libraries.
# - UBSAN reads the environment at its first report, when the server has overwritten it with its process title.
preload_into_server() {
	local name paths=() wake=$WORK/wake_sanitizers.so

	for name in "$@"; do
		paths+=("$(realpath "$(c++ -print-file-name="$name")")")
	done
	g++ -x c++ -shared -fPIC -Wl,-z,initfirst -o "$wake" - <<-END || return 1
		extern "C" void __asan_init();
		extern "C" const char *__ubsan_default_options() { return "$UBSAN_OPTIONS"; }
		[[gnu::constructor]] static void wake() { __asan_init(); }
	END
	chmod a+r "$wake"
	mv "$SERVER_BIN/postgres" "$SERVER_BIN/postgres.alone"
	cat >"$SERVER_BIN/postgres" <<-END
		#!/bin/bash
		export LD_PRELOAD='${paths[0]} $wake ${paths[*]:1}'
		exec -a "\$0" "\$0.alone" "\$@"
	END
	chmod 755 "$SERVER_BIN/postgres"
}

# canary DEFECT…: counts whether a defect in a backend's module, and in a program that the supervisor starts, is reported (test/long/canary.cpp),
# and whether the module and the worker under test are compiled with sanitizers at all.
canary() {
	local log=$LOGS/canary$KIND.log folder=$WORK/cluster-canary sanitize=address,undefined defect missed=''

	say "defects that the sanitizers have to find"
	[[ $KIND == -asan* ]] || sanitize=thread
	compile_canary "$sanitize" "$@" >"$log" 2>&1 &&
		start_cluster "$folder" "shared_preload_libraries = 'vectorgpu'" "vectorgpu.worker = off" "vectorgpu.worker_program = '$WORK/canary/worker'" >>"$log" 2>&1 ||
		missed=' start'
	if [ -z "$missed" ] && [[ $KIND == -asan* ]]; then
		calls vectorgpu.so __asan_report_load && calls vectorgpu.so __ubsan_handle || missed+=' module'
		sql "CREATE FUNCTION canary(text) RETURNS void LANGUAGE c AS '$WORK/canary/canary.so'" >>"$log" 2>&1
		for defect in "$@"; do
			for _ in {1..30}; do
				! sql "SELECT canary('$defect')" >>"$log" 2>&1 || missed+=" $defect in a backend"
				! reported "$defect" || break
				sleep 1
			done
			reported "$defect" || missed+=" $defect in a backend"
		done
		# The report precedes the server's notice of the crash. The server is stopped when it is back.
		for _ in {1..60}; do
			[ "$(grep -c 'was terminated by signal 6' "$folder/server.log")" -lt $# ] || ! sql 'SELECT' >>"$log" 2>&1 || break
			sleep 1
		done
		[ "$(grep -c 'was terminated by signal 6' "$folder/server.log")" -eq $# ] || missed+=' a crash for each'
		rm -f "$WORK"/reports/*
		cat "$folder/server.log" >>"$log"
		: >"$folder/server.log"
	fi
	if [ -z "$missed" ]; then
		calls vectorgpu_worker "__${KIND:1:4}_(report_load|read)" || missed+=' worker'
		for _ in {1..60}; do
			! sql "ALTER SYSTEM SET vectorgpu.worker = on" "SELECT pg_reload_conf()" >>"$log" 2>&1 || break
			sleep 1
		done
		for defect in "$@"; do
			for _ in {1..60}; do
				! reported "$defect" || break
				sleep 1
			done
			reported "$defect" || missed+=" $defect in a worker"
		done
	fi
	stop_cluster "$folder" >>"$log" 2>&1
	cat "$folder/server.log" >>"$log" 2>/dev/null
	rm -rf "$folder" "$WORK"/reports/*
	if [ -n "$missed" ]; then
		echo "not found:$missed" >>"$log"
		show "$log"
		count "canary$KIND" 0 1 0
		return 1
	fi
	count "canary$KIND" 1 0 0
}

# compile_canary SANITIZERS DEFECT…: builds WORK/canary/canary.so, and the program that WORK/canary/worker calls once for each defect.
compile_canary() {
	local flags=(-std=c++20 -O1 -g -Wall -Wextra -Werror "-fsanitize=$1" -fno-sanitize-recover=undefined "$ROOT/test/long/canary.cpp")

	shift
	mkdir "$WORK/canary"
	g++ "${flags[@]}" -pthread -o "$WORK/canary/canary" || return 1
	[[ $KIND != -asan* ]] ||
		g++ "${flags[@]}" -DCANARY_MODULE -fPIC -shared -isystem "$("$PG_CONFIG" --includedir-server)" -o "$WORK/canary/canary.so" || return 1
	printf '#!/bin/sh\nfor defect in %s; do\n\t"%s/canary" "$defect"\ndone\nexec sleep 60\n' "$*" "$WORK/canary" >"$WORK/canary/worker"
	chmod -R a+rX "$WORK/canary"
	chmod a+x "$WORK/canary/worker"
}

# calls FILE REGEX: true if a library of the server copy needs a matching function.
calls() {
	nm -D "$WORK/pg$("$PG_CONFIG" --pkglibdir)/$1" | grep -cE " U $2" >/dev/null
}

# reported DEFECT: true if there is a report of it.
reported() {
	local -A says=([heap]='heap-buffer-overflow' [overflow]='signed integer overflow' [race]='data race')

	grep -qs "${says[$1]}" "$WORK"/reports/* "$WORK/cluster-canary/server.log"
}

# check_reports: a report of a sanitizer by any process fails the part.
check_reports() {
	local folder=$LOGS/reports$KIND report n

	rm -rf "$folder"
	cp -r "$WORK/reports" "$folder"
	n=$(find "$folder" -type f | wc -l)
	if [ "$n" -eq 0 ]; then
		count "reports$KIND" 1 0 0
		return
	fi
	count "reports$KIND" 0 "$n" 0
	find "$folder" -type f | sort | head -n 10 | while read -r report; do
		show "$report" 60
	done
}
