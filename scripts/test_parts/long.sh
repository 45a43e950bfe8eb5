# shellcheck shell=bash
# The parts of scripts/test --long, each of which may run by itself, and their summaries. Sourced by scripts/test; uses its variables
# and count, show, skip, part_tap.

# Together they are the whole suite: LONG_PARTS run after the parts of the quick suite.
QUICK_PARTS='lint unit corpora regress isolation tap installcheck package client versions'
LONG_PARTS='tidy sanitizers matrix-sql matrix-tap matrix-versions sweeps soaks sqlsmith valgrind fuzz'

# The six ways of matrix-tap: mode of the worker, and whether the module is preloaded. VECTORGPU_MATRIX overrides them.
MATRIX=${VECTORGPU_MATRIX:-off-0 on-0 flapping-0 off-1 on-1 flapping-1}

# part_matrix_tap: the TAP tests with the worker off, on for indexes of every size, and killed each second, each with the module loaded by
# first use and preloaded. It leaves out files whose servers have their own settings of the worker, since all six runs would be alike,
# 220_, which fills a shared disk, and 300_, which takes an hour. Workers that are on have to answer.
part_matrix_tap() {
	local way answered

	for way in $MATRIX; do
		TAP_ENVIRONMENT=("VECTORGPU_WORKER=${way%-*}" "VECTORGPU_PRELOAD=${way#*-}")
		TAP_EXCEPT='/032_|/12[12]_|/2[456][0-9]_|/220_|/30[01]_|/311_'
		[ "${way%-*}" = off ] || TAP_MODULE=VectorgpuAnswered
		part_tap "tap, worker ${way%-*}, preload ${way#*-}" test/t 3600
		if [ -n "$TAP_MODULE" ]; then
			answered=$(cat "$LOGS"/tap/*.log | sed -n 's/^# counted: answered=\([0-9]*\)$/\1/p' | awk '{ sum += $1 } END { print sum + 0 }')
			echo "   workers answered $answered batches of rows, of $(grep -lE '^# counted: answered=[1-9][0-9]*$' "$LOGS"/tap/*.log | wc -l) files"
			[ "${way%-*}" != on ] || count "worker ${way%-*}, preload ${way#*-}: answered" $((answered > 0)) $((answered == 0)) 0
		fi
		TAP_ENVIRONMENT=() TAP_MODULE='' TAP_EXCEPT=''
	done
}

# part_sweeps: fault points at every call, 10,000 flipped bytes, whole data sets.
part_sweeps() {
	part_tap sweeps long:sweeps 14400
}

# part_soaks: many crashes of the worker and of the server, ten minutes of 100 clients, copies of a cluster.
part_soaks() {
	part_tap soaks long:soaks 14400
}

# part_program NAME SECONDS: runs an executable of test/long as RUN_USER, with the shared cluster in PGHOST etc.; status 77 is a skip.
part_program() {
	local name=$1 limit=$2 log=$LOGS/long-$1.log status=0

	say "long: $name"
	run_as env PATH="$SERVER_BIN:$PATH" timeout --kill-after=30 "$limit" "$WORK/tree/test/long/$name" >"$log" 2>&1 || status=$?
	sed -n 's/^# counted: //p' "$log" >>"$COUNTED"
	case $status in
		0) count "long: $name" 1 0 0 && tail -n 1 "$log" | sed 's/^/   /' ;;
		77) skip "long: $name" "$(tail -n 1 "$log")" ;;
		*)
			count "long: $name" 0 1 0
			show "$log"
			;;
	esac
}

# tree_state: prints the commit, and whether the tree has changes.
tree_state() {
	local commit

	if ! commit=$(git -C "$ROOT" rev-parse --short=10 HEAD 2>/dev/null); then
		echo "${VECTORGPU_COMMIT:-no commit}"
	elif [ -n "$(git -C "$ROOT" status --porcelain 2>/dev/null)" ]; then
		echo "$commit and changes"
	else
		echo "$commit"
	fi
}

# server_kind: prints the server's version, and whether it was built with assertions.
server_kind() {
	local version

	version=$("${PG_CONFIG:-false}" --version 2>/dev/null) || { echo none; return; }
	version=${version%% (*}
	! "$PG_CONFIG" --configure | grep -q -e --enable-cassert || version+=", assertions"
	echo "$version"
}

# begin_summary: starts the counts of a part. COUNTED: a file with a line `NAME=N …` for each test.
begin_summary() {
	COUNTED=$LOGS/long/.counted
	mkdir -p "$LOGS/long"
	: >"$COUNTED"
	rm -f "$LOGS/long/.entries"
	PART_START=$SECONDS PART_DATE=$(date -u '+%Y-%m-%d %H:%M') PART_TREE=$(tree_state) PART_RESULTS=("$PASSED" "$FAILED" "$SKIPPED" "${#SUMMARY[@]}")
}

# end_summary PART: writes LOGS/long/PART.summary, or PART@FILES.summary with --files.
end_summary() {
	local name=$1 file line

	[ -z "$FILES" ] || [[ " sqlsmith valgrind matrix-sql " == *" $1 "* ]] || name+="@${FILES//[^A-Za-z0-9_-]/_}"
	file=$LOGS/long/${name:0:120}.summary
	{
		printf 'part: %s\ncommit: %s\ndate: %s UTC\nserver: %s\nminutes: %d\n' "$name" "$PART_TREE" "$PART_DATE" "$(server_kind)" \
			$(((SECONDS - PART_START) / 60))
		printf 'passed: %d\nfailed: %d\nskipped: %d\n' $((PASSED - PART_RESULTS[0])) $((FAILED - PART_RESULTS[1])) $((SKIPPED - PART_RESULTS[2]))
		tr ' ' '\n' <"$COUNTED" | awk -F= 'NF == 2 { sum[$1] += $2 } END { for (name in sum) printf "%s: %d\n", name, sum[name] }' | sort
		for line in "${SUMMARY[@]:${PART_RESULTS[3]}}"; do
			echo "  $line"
		done
		[ ! -s "$LOGS/long/.entries" ] || sed 's/^/  /' "$LOGS/long/.entries"
	} >"$file"
	rm -f "$COUNTED" "$LOGS/long/.entries"
	COUNTED=/dev/null
	echo "   summary: ${file#"$ROOT/"}"
}

# summaries: prints the summaries in LOGS/long as one table. A column without a figure stays empty.
summaries() {
	python3 - "$LOGS/long" <<'END'
import pathlib
import sys

COLUMNS = [("part", "part"), ("commit", "commit"), ("date", "date"), ("server", "server"), ("minutes", "minutes"),
           ("results", "passed, failed, skipped"), ("tests", "single checks"), ("answers", "answers compared, wrong"),
           ("checks", "indexes and rows checked, lost"), ("deaths", "worker died, server process killed, server recovered"),
           ("queries", "random queries"), ("inputs", "fuzz inputs")]
TOGETHER = {"results": ("passed", "failed", "skipped"), "answers": ("answers", "wrong"), "checks": ("checks", "lost"),
            "deaths": ("worker_deaths", "processes_killed", "recoveries")}
rows = []
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.summary")):
    rows.append(dict(line.split(": ", 1) for line in path.read_text().splitlines() if ": " in line and not line.startswith(" ")))
if not rows:
    sys.exit("no summaries: run scripts/test --long first")
print("| " + " | ".join(title for _, title in COLUMNS) + " |")
print("|" + "---|" * len(COLUMNS))
for row in sorted(rows, key=lambda row: row["date"]):
    cells = (", ".join(row[part] for part in TOGETHER.get(key, (key,)) if part in row) for key, _ in COLUMNS)
    print("| " + " | ".join(cells) + " |")
END
}

COUNTED=/dev/null
