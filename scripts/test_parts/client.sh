# shellcheck shell=bash
# The part client of scripts/test: Python clients against the cluster in PGHOST, and with --long against pgvector with vectorgpu beside it. Sourced by
# scripts/test; uses its variables and functions.

# client_tests NAME FOLDER [PYTEST_ARGUMENT…]: runs the tests of a folder in test/client with the packages of its requirements.txt, and counts them.
client_tests() {
	local name=$1 folder=$ROOT/test/client/$2 log=$LOGS/${1//[ ,]/-}.log report=$LOGS/${1//[ ,]/-}.xml venv=$ROOT/build/venv${2:+-$2} pins figures

	shift 2
	pins=$(cat "$ROOT/test/client/requirements.txt" "$folder/requirements.txt")
	if [ "$pins" != "$(cat "$venv/pins" 2>/dev/null)" ]; then
		rm -rf "$venv"
		if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --disable-pip-version-check -r "$folder/requirements.txt" &&
			printf '%s\n' "$pins" >"$venv/pins"; } >"$log" 2>&1; then
			show "$log"
			count "$name" 0 1 0
			return
		fi
	fi
	rm -f "$report"
	(cd "$ROOT/test/client" && timeout 1800 "$venv/bin/python" -B -m pytest -p no:cacheprovider -ra --rootdir=. --confcutdir=. --junitxml="$report" "$@" "$folder") \
		>"$log" 2>&1 || show "$log"
	figures=$(python3 - "$report" <<'END' 2>>"$log"
import sys
import xml.etree.ElementTree
tests = failed = skipped = 0
for suite in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testsuite"):
    tests += int(suite.get("tests"))
    failed += int(suite.get("failures")) + int(suite.get("errors"))
    skipped += int(suite.get("skipped"))
print(tests - failed - skipped, failed, skipped)
END
	) || figures='0 1 0'
	[ "$figures" != '0 0 0' ] || figures='0 1 0'
	# shellcheck disable=SC2086
	count "$name" $figures
}

# all_client_tests [SUFFIX]: of all folders; SUFFIX: of the names of their counts.
all_client_tests() {
	client_tests "client$1" '' --ignore=drivers --ignore=frameworks
	client_tests "client drivers$1" drivers
	client_tests "client frameworks$1" frameworks
}

# clients_beside_pgvector: all of them on a server 18 of its own, for which a package of PyPI has pgvector. In a process of its own, whose variables it
# changes.
clients_beside_pgvector() {
	local status=0

	VECTORGPU_BUILT_WORKER=$WORK/pg$("$PG_CONFIG" --pkglibdir)/vectorgpu_worker
	VECTORGPU_BUILT_OBJECTS=$ROOT/build/test/tree
	KIND=-client
	PG_CONFIG=$("$ROOT/scripts/servers" 18 2>"$LOGS/servers$KIND.log") || status=$?
	if [ "$status" -ne 0 ]; then
		show "$LOGS/servers$KIND.log"
		case $status in
			3) skip "client beside pgvector" "its server could not be downloaded from PyPI" ;;
			*) count "client beside pgvector" 0 1 0 ;;
		esac
		return
	fi
	run_as mkdir "$WORK/client"
	WORK=$WORK/client LOGS=$LOGS/client
	mkdir -p "$LOGS"
	build_server PRECOMPILED=1 || return
	install_pgvector 18
	! grep -q vectorgpu "$WORK/pg$("$PG_CONFIG" --sharedir)/extension/vector.control" || return
	start_server || return
	all_client_tests ', pgvector'
	check_server_log
}

part_client() {
	say "Python clients"
	if [ "$LONG" -eq 0 ]; then
		client_tests client '' --ignore=drivers --ignore=frameworks
		return
	fi
	all_client_tests ''
	beside client clients_beside_pgvector
	wait
	counted_beside client
}
