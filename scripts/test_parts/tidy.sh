# shellcheck shell=bash
# Part tidy of scripts/test: clang-tidy with the checks of .clang-tidy on every file that g++ compiles. Sourced by scripts/test.

# tidy_flags FILE: prints its compiler flags, which depend on its instruction set; as in the Makefile and CMakeLists.txt.
tidy_flags() {
	local cuda=/usr/local/cuda/include

	printf '%s\n' -std=c++20 -D_GNU_SOURCE -DVECTORGPU_FAULTS=1 -DUSE_ASSERT_CHECKING=1 -I"$ROOT/src" -I"$ROOT/gpu" -I"$ROOT" -isystem "$TIDY_SERVER"
	case $1 in
		gpu/cuda/* | gpu/kernels/* | gpu/experiments/*) printf '%s\n' -DVECTORGPU_WITH_CUDA -isystem "$cuda" -isystem "$cuda/cccl" ;;
		*_avx2.cpp) printf '%s\n' -mavx2 -mfma -mf16c ;;
		*_avx512.cpp) printf '%s\n' -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c ;;
	esac
}

# tidy_file FILE: writes its findings to LOGS/tidy/FILE.log; true if there are none.
tidy_file() {
	local log=$LOGS/tidy/${1//\//_}.log flags

	mapfile -t flags < <(tidy_flags "$1")
	clang-tidy --quiet "$ROOT/$1" -- "${flags[@]}" >"$log.all" 2>"$log.errors"
	# A finding, its line with tabs expanded, and a caret below the place.
	awk '/(warning|error): .*\[[a-z0-9.,-]+\]$/ { if (finding != "" && n == 0) print finding; finding = $0; n = 0; next }
		finding != "" && ++n == 1 { source = $0; next }
		finding != "" {
			if (finding !~ /implicit-widening/ || (source !~ /constexpr/ && substr(source, index($0, "^")) !~ /^[0-9]+ \* [0-9]+/))
				printf "%s\n%s\n%s\n", finding, source, $0
			finding = ""
			next
		}
		{ print }
		END { if (finding != "") print finding }' "$log.all" >"$log"
	! grep -qE '(warning|error): ' "$log"
}

part_tidy() {
	local file files=() running=0 passed=0 failed=0

	say "clang-tidy"
	if ! command -v clang-tidy >/dev/null; then
		skip tidy "no clang-tidy on this machine"
		return
	fi
	pick_pg_config
	TIDY_SERVER=$("$PG_CONFIG" --includedir-server)
	rm -rf "$LOGS/tidy"
	mkdir -p "$LOGS/tidy"
	mapfile -t files < <(cd "$ROOT" && find src gpu -name '*.cpp' | grep -E "${FILES:-.}" | sort)
	MATCHED=$((MATCHED + ${#files[@]}))
	if [ ! -d /usr/local/cuda/include ]; then
		skip "tidy of gpu/cuda, gpu/kernels" "no CUDA headers on this machine"
		mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -vE '^(gpu/(cuda|kernels)/|$)')
	fi
	for file in "${files[@]}"; do
		if [ "$running" -ge "$JOBS" ]; then
			wait -n
			running=$((running - 1))
		fi
		(tidy_file "$file" && touch "$LOGS/tidy/${file//\//_}.ok") &
		running=$((running + 1))
	done
	wait
	for file in "${files[@]}"; do
		if [ -e "$LOGS/tidy/${file//\//_}.ok" ]; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			show "$LOGS/tidy/${file//\//_}.log" 20
		fi
	done
	count tidy "$passed" "$failed" 0
}
