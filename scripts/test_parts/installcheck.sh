# shellcheck shell=bash
# The part of scripts/test about `make installcheck`. Sourced by scripts/test; uses its variables and count, show, say.

# part_installcheck: `make installcheck`, as an administrator runs it after an installation, with a sample of its tests of each kind; the
# other parts run all of them. Its TAP files share one folder for logs and have no environment of scripts/test; the first of them makes
# processes crash.
part_installcheck() {
	local log=$LOGS/installcheck.log tree=$WORK/installcheck tap=1

	grep -qE '^enable_tap_tests\s*=\s*yes' "$SERVER_PGXS/src/Makefile.global" || tap=0
	say "make installcheck, a sample"
	run_as mkdir "$tree" && run_as cp -r "$WORK/tree/." "$tree"
	if run_as env PATH="$SERVER_BIN:$PATH" timeout --kill-after=30 1800 make -C "$tree" installcheck PG_CONFIG="$SERVER_BIN/pg_config" \
		REGRESS='vector_type gpuflat_basic gpumatch_sets' ISOLATION=vacuum_reuse PROVE_TESTS='test/t/248_worker_pid1.pl test/t/032_ivf_drift.pl test/t/001_library.pl' \
		>"$log" 2>&1 && grep -qE '^#? All 3 tests passed' "$log" && { [ "$tap" -eq 0 ] || grep -q '^Result: PASS' "$log"; }; then
		count installcheck $((2 + tap)) 0 0
		[ "$tap" -eq 1 ] || skip "installcheck, TAP" "the server was built without TAP tests"
	else
		show "$log"
		count installcheck 0 1 0
	fi
	run_as rm -rf "$tree"
}
