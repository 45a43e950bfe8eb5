# shellcheck shell=bash
# Parts fuzz and corpora of scripts/test, sourced by it. fuzz runs the libFuzzer targets of test/fuzz one after the other, each for some
# seconds. New inputs go to build/fuzz-corpus, so that the folder in the tree stays small; the logs keep an input that crashes.

part_fuzz() {
	local seconds=$1 log=$LOGS/fuzz-build.log target corpus compiler inputs passed=0 failed=0

	say "fuzz targets, $seconds s each"
	for compiler in clang++ clang++-14 clang++-16 ''; do
		command -v "${compiler:-:}" >/dev/null && break
	done
	if [ -z "$compiler" ]; then
		skip fuzz "no clang on this machine"
		return
	fi
	if ! (
		cd "$ROOT" && cmake --fresh -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DVECTORGPU_FUZZ=ON \
			-DVECTORGPU_TESTS=OFF -DVECTORGPU_BENCHMARKS=OFF ${VECTORGPU_PG_CONFIG:+-DVECTORGPU_PG_CONFIG="$VECTORGPU_PG_CONFIG"} && cmake --build build/fuzz --target fuzz_targets -j "$JOBS"
	) >"$log" 2>&1; then
		show "$log"
		count fuzz 0 1 0
		return
	fi
	for target in "$ROOT"/test/fuzz/fuzz_*.cpp; do
		[[ $target =~ ${FILES:-.} ]] || continue
		MATCHED=$((MATCHED + 1))
		target=$(basename "$target" .cpp)
		corpus=$ROOT/build/fuzz-corpus/${target#fuzz_}
		log=$LOGS/$target.log
		if [ ! -x "$ROOT/build/fuzz/test/fuzz/$target" ]; then
			skip "$target" "it needs the server's headers: no pg_config"
			continue
		fi
		mkdir -p "$corpus"
		if "$ROOT/build/fuzz/test/fuzz/$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 \
			-artifact_prefix="$LOGS/$target-" "$corpus" "$ROOT/test/fuzz/corpus/${target#fuzz_}" >"$log" 2>&1; then
			inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
			echo "   $target: $inputs inputs"
			echo "inputs=$inputs" >>"$COUNTED"
			! [ -d "$LOGS/long" ] || echo "$target $seconds s: $inputs inputs" >>"$LOGS/long/.entries"
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			show "$log"
		fi
	done
	count fuzz "$passed" "$failed" 0
}

# part_corpora: runs each target over its committed inputs, without libFuzzer and clang: compiled by g++ and linked with the objects of
# the module under test, with assertions.
part_corpora() {
	local folder=$ROOT/build/corpora log=$LOGS/corpora.log source target shared=() passed=0 failed=0

	say "inputs of the fuzz targets"
	rm -rf "$folder"
	mkdir -p "$folder"
	if ! (
		cd "$ROOT/test/fuzz" && printf '%s\n' *.cpp | xargs -P "$JOBS" -I '{}' g++ -std=c++20 -O0 -Wall -Wextra -Wno-unused-parameter -Werror \
			-D_GNU_SOURCE -DUSE_ASSERT_CHECKING=1 -DFUZZ_PAGES="\"$ROOT/test/fuzz/pages\"" -I "$ROOT/src" \
			-isystem "$("$PG_CONFIG" --includedir-server)" -c '{}' -o "$folder/{}.o"
	) >"$log" 2>&1; then
		show "$log"
		count corpora 0 1 0
		return
	fi
	# The module does not link what four targets read.
	for source in engine/copies/lists engine/copies/segment_graph engine/copies/sparse_rows worker/keys/given_rows; do
		g++ -std=c++20 -O0 -I "$ROOT/src" -c "$ROOT/src/$source.cpp" -o "$folder/other_${source##*/}.o" >>"$log" 2>&1
	done
	ar qcs "$folder/module.a" "$folder"/other_*.o
	# q, not r: files of several folders have the same name.
	find "$ROOT/build/test/tree/src" -name '*.o' -exec ar qcs "$folder/module.a" {} +
	shared=("$folder"/{fake_*,replay,options_graph}.cpp.o)
	for target in "$ROOT"/test/fuzz/fuzz_*.cpp; do
		target=$(basename "$target" .cpp)
		# As in test/fuzz/CMakeLists.txt: server functions that the target does not reach stay unresolved; fake functions come first.
		if g++ -no-pie -o "$folder/$target" "$folder/$target.cpp.o" "${shared[@]}" \
			"$folder/module.a" -L "$("$PG_CONFIG" --pkglibdir)" -L "$("$PG_CONFIG" --libdir)" -l:libpgcommon.a -l:libpgport.a -lxxhash -lpthread \
			-Wl,--unresolved-symbols=ignore-all -Wl,-z,muldefs >"$LOGS/corpora-$target.log" 2>&1 &&
			timeout 300 "$folder/$target" "$ROOT/test/fuzz/corpus/${target#fuzz_}" >>"$LOGS/corpora-$target.log" 2>&1; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			show "$LOGS/corpora-$target.log" 10
		fi
	done
	count corpora "$passed" "$failed" 0
}
