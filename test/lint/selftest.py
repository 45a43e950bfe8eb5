"""Proof that each lint rule can fail: a small clean tree passes all of them, and each change below breaks one rule."""
import pathlib
import tempfile

import rules
import sizes
import tree

# Blocks longer than the limit that are no functions, and a function that is just short enough.
KERNEL = "template <class Shape>\n__global__ void __launch_bounds__(Shape::kThreads, 1)\none_kernel(const Args args,\n\tuint32_t n)\n{\n"
MANY = "\tint a;\n" * sizes.MAX_FUNCTION_LINES
HARMLESS = (f"namespace\n{{\n\n{MANY}\n}}\nstruct alignas(16) One\n{{\n{MANY}}};\ntemplate <int n>\nclass Two : public One,\n\tpublic Three\n{{\n{MANY}}};\n"
            + "void\nshort_one(int a)\n{\n" + "\ta++;\n" * (sizes.MAX_FUNCTION_LINES - 2) + "}\n")

DOCKER_STEPS = 'RUN apt-get update && \\\n    apt-get install -y --no-install-recommends a-${PG_MAJOR} && rm -rf /var/lib/apt/lists/*\nRUN make -j"$(nproc)" CUDA=0\n'
META = """{"name": "vectorgpu", "abstract": "search", "version": "0.3.0", "maintainer": ["x"], "license": "postgresql", "provides": {
"vectorgpu": {"file": "sql/install/vectorgpu--0.1.0.sql", "docfile": "README.md", "version": "0.3.0", "abstract": "search"},
"vectorgpu_pgvector": {"file": "sql/install/vectorgpu--0.1.0.sql", "docfile": "docs/install.md", "version": "0.3.0", "abstract": "indexes"}},
"meta-spec": {"version": "1.0.0"}}
"""

CLEAN = {
    "src/README.md": "map\n",
    "src/vectorgpu.cpp": '#include "postgres.h"\n#include "pg/postgres.hpp"\n#include "am/flat/flat.hpp"\n',
    "src/common/README.md": "common\n",
    "src/common/types.hpp": "#include <cstdint>\n" + HARMLESS,
    "gpu/kernels/README.md": "| " + "wide " * 30 + "|\n",
    "gpu/kernels/filter/one_pass.cu": KERNEL + "\t;\n" * (sizes.MAX_FUNCTION_LINES - 2) + "}\n",
    "src/pg/README.md": "pg\n",
    "src/pg/postgres.hpp": '#include "postgres.h"\n#if PG_VERSION_NUM >= 160000\n#endif\n#include "utils/rel.h"\n#include "common/types.hpp"\n',
    "src/engine/README.md": "engine\n",
    "src/engine/interface/engine.hpp": '#include "common/types.hpp"\n',
    "src/engine/cpu/cpu.cpp": '#include "engine/interface/engine.hpp"\n',
    "src/storage/README.md": "storage\n",
    "src/storage/store.hpp": '#include "pg/postgres.hpp"\n',
    "src/storage/store.cpp": '#include "storage/store.hpp"\n\tif (VG_FAULT("store_read"))\n',
    "src/am/build/README.md": "build\n",
    "src/am/build/build.hpp": '#include "storage/store.hpp"\n',
    "src/am/scan/README.md": "scan\n",
    "src/am/scan/scan.hpp": '#include "am/build/build.hpp"\n#include "storage/store.hpp"\n',
    "src/am/flat/README.md": "flat\n",
    "src/am/flat/flat.hpp": '#include "am/scan/scan.hpp"\n#include "engine/interface/engine.hpp"\n',
    "src/am/graph/README.md": "graph\n",
    "src/am/graph/graph.hpp": '#include "storage/store.hpp"\n',
    "README.md": "# vectorgpu\n\n[Settings](docs/settings.md#all-settings)\n\n## Install\n\nAs root:\n\n```sh\napt-get install a-15   # or 16\nmake -j$(nproc)\n```\n",
    "docs/install.md": "## With a GPU\n\n```sh\napt-get install nvcc\n```\n",
    "packaging/docker/Dockerfile.cpu": "FROM a AS build\n" + DOCKER_STEPS + "FROM a\nRUN apt-get install -y b\n",
    "packaging/docker/Dockerfile.cuda": "FROM a AS build\n" + DOCKER_STEPS.replace("apt-get install", "apt-get install -y --no-install-recommends nvcc && \\\n    apt-get install", 1),
    "vectorgpu.control": "comment = 'search'\ndefault_version = '0.3.0'\n",
    "vectorgpu_pgvector.control": "comment = 'indexes'\ndefault_version = '0.3.0'\n",
    "CMakeLists.txt": "project(vectorgpu VERSION 0.3.0 LANGUAGES CXX)\n",
    "META.json": META,
    "CHANGELOG.md": "# Changes\n\n## 0.3.0\n\n- Adds this.\n\n## 0.2.0\n\n### Types\n\n- Added that.\n\n## 0.1.0\n\n- The first,\n  of all.\n",
    "docs/settings.md": "## All settings\n\n| setting | what |\n|---|---|\n| `vectorgpu.simd` | level |\n",
    "docs/troubleshooting.md": "| reason | what |\n|---|---|\n| `gone` | dead |\n\n```\n" + "wide " * 30 + "code\n```\n",
    "src/bridge/README.md": "bridge\n",
    "src/bridge/shared_state.cpp": 'const char *\nfallback_name(Fallback reason)\n{\n\tkNames[] = {"gone"};\n}\n',
    "src/pg/guc.cpp": '\tdefine_bool("vectorgpu.simd",\n\tdefine_string(\n\t\t"vectorgpu.fault",\n',
    "sql/schedule": "test: first\ntest: second\n",
    "sql/first.sql": "\\i include/shared.sql\nSELECT 1;\n",
    "sql/include/shared.sql": "SELECT 0;\n",
    "sql/second.sql": "SELECT 2;\n",
    "sql/install/vectorgpu--0.1.0.sql": "-- install\n",
    "expected/first.out": "1  \n",
    "expected/second.out": "2\n",
    "expected/second_1.out": "2\n",
    "test/isolation/schedule": "test: two\n",
    "test/isolation/specs/two.spec": "session s1\n",
    "test/isolation/expected/two.out": "two\n",
    "test/t/001_start.pl": "'search:1:error'; check_faults_reached($node); done_testing();\n",
    "test/t/002_all.pl": "USING $AM\nmy $long = $ENV{VECTORGPU_LONG};\ndone_testing();\n",
    "test/long/list": "# runs\nsweeps 002_all_long t/002_all.pl gpuflat,gpuivf 2 VECTORGPU_LONG=1\nsoaks 003_more_long long/003_more_long.pl - -\n",
    "test/long/003_more_long.pl": "done_testing();\n",
    "test/README.md": "| row | rule | test |\n|---|---|---|\n| C1 | one | `001_start`, `002_all` AM |\n",
    "test/faults.txt": "# name  where\nstore_read  001_start:gpuflat,001_start?  reading a page\n",
    "test/worker_faults.txt": "search  t/001_start.pl  a search\n",
    "src/worker/worker.cpp": 'Status s = WORKER_FAULT("search") == Fault::kError ? a : b;\n',
    "src/worker/README.md": "worker\n",
    "scripts/test": "#!/bin/sh\n",
    "test/gpu/run": "sanitized_tests=(\n\tLists.All Kinds/Codes.few/0 Codes.none\n)\nrun --gtest_filter='Lists.*' --gtest_filter=\"$name\"\n",
    "test/gpu/lists_test.cpp": "TEST(Lists, All)\n{\n}\n\nTEST_F(Codes, none)\n{\n}\n\nINSTANTIATE_TEST_SUITE_P(Kinds, Codes, Values(1));\nTEST_P(Codes, few)\n",
}

# (rule, {path: new text; None deletes the file; "x+" + text appends})
BREAKS = [
    ("include-direction", {"src/engine/interface/engine.hpp": 'x+#include "pg/postgres.hpp"\n'}),
    ("include-direction", {"src/engine/interface/engine.hpp": 'x+#include "postgres.h"\n'}),
    ("include-direction", {"src/engine/interface/engine.hpp": 'x+#include <utils/rel.h>\n'}),
    ("include-direction", {"src/engine/cpu/cpu.cpp": 'x+#include "cpu/absent.hpp"\n'}),
    ("include-direction", {"src/am/flat/flat.hpp": "x+#include <cuda_runtime.h>\n"}),
    ("include-direction", {"src/am/flat/flat.hpp": 'x+#include "am/graph/graph.hpp"\n'}),
    ("include-direction", {"src/am/flat/flat.cpp": '#include "flat.hpp"\n'}),
    ("include-direction", {"src/am/scan/scan.hpp": 'x+#include "am/graph/graph.hpp"\n'}),
    ("include-direction", {"src/storage/store.cpp": 'x+#include "am/graph/graph.hpp"\n'}),
    ("include-direction", {"src/storage/store.cpp": 'x+#include "am/build/build.hpp"\n'}),
    ("include-direction", {"src/pg/postgres.hpp": 'x+#include "engine/interface/engine.hpp"\n'}),
    ("include-direction", {"src/common/kernel.cu": "\n#pragma once\n"}),
    ("include-direction", {"src/other/new.hpp": "#pragma once\n", "src/other/README.md": "new\n"}),
    ("include-direction", {"src/engine/cpu/fast.hpp": "\n", "src/engine/graph/graph.cpp": '#include "engine/cpu/fast.hpp"\n'}),
    ("include-direction", {"src/am/method/README.md": "method\n", "src/am/maintain/README.md": "maintain\n", "src/am/maintain/vacuum.hpp": "\n",
                           "src/am/method/access.cpp": '#include "am/maintain/vacuum.hpp"\n'}),
    ("include-direction", {"gpu/cuda/README.md": "cuda\n", "gpu/cuda/search/search.hpp": "\n", "gpu/cuda/device/arena.cpp": '#include "cuda/search/search.hpp"\n'}),
    ("include-direction", {"gpu/kernels/select/select.hpp": "\n", "gpu/kernels/select/select.cu": '#include "select.hpp"\n'}),
    ("include-cycles", {"src/common/types.hpp": '#include "common/more.hpp"\n',
                        "src/common/more.hpp": '#include "common/types.hpp"\n'}),
    ("tests-scheduled", {"sql/third.sql": "SELECT 3;\n", "expected/third.out": "3\n"}),
    ("tests-scheduled", {"sql/third.sql": "SELECT 3;\n", "sql/schedule": "x+test: third\n"}),
    ("tests-scheduled", {"sql/schedule": "x+test: gone\n"}),
    ("tests-scheduled", {"sql/schedule": "x+test: first\n"}),
    ("tests-scheduled", {"expected/gone.out": "0\n"}),
    ("tests-scheduled", {"test/isolation/specs/three.spec": "session s1\n", "test/isolation/expected/three.out": "3\n"}),
    ("tests-scheduled", {"test/isolation/two.spec": "session s1\n"}),
    ("tests-scheduled", {"test/t/start.pl": "done_testing();\n"}),
    ("tests-scheduled", {"test/t/more/002_more.pl": "done_testing();\n"}),
    ("tests-scheduled", {"test/t/003_more.pl": "ok(1);\n"}),
    ("tests-scheduled", {"sql/include/gone.sql": "SELECT 1;\n"}),
    ("tests-scheduled", {"test/unit/common/types.cpp": "TEST(types, sort)\n"}),
    ("tap-numbers", {"test/t/002_more.pl": "done_testing();\n"}),
    ("file-size", {"gpu/kernels/filter/one_pass.cu": "\t;\n" * (sizes.MAX_SOURCE_LINES + 1)}),
    ("file-size", {"src/common/types.hpp": "\t;\n" * (sizes.MAX_SOURCE_LINES + 1)}),
    ("file-size", {"test/t/lib/More.pm": "\t;\n" * (sizes.MAX_LINES + 1)}),
    ("function-size", {"gpu/kernels/filter/one_pass.cu": KERNEL + "\t;\n" * (sizes.MAX_FUNCTION_LINES - 1) + "}\n"}),
    ("function-size", {"src/common/types.hpp": "x+void\nlong_one(int a)\n{\n" + "\ta++;\n" * (sizes.MAX_FUNCTION_LINES - 1) + "}\n"}),
    ("function-size", {"src/common/types.hpp": "x+template <int n>\nclass Other : public One\n{\n\tint a;\n\n\tint long_one() const\n\t{\n"
                       + "\t\ta++;\n" * (sizes.MAX_FUNCTION_LINES - 1) + "\t}\n};\n"}),
    ("function-size", {"src/common/types.hpp": 'x+extern "C"\n{\nvoid\nlong_one(int a,\n\tint b)\n{\n' + "\ta++;\n" * (sizes.MAX_FUNCTION_LINES - 1) + "}\n}\n"}),
    ("folder-size", {f"test/unit/worker/more{number}_test.cpp": "\n" for number in range(sizes.MAX_FOLDER_FILES + 1)}),
    ("module-readmes", {"src/pg/README.md": "x+" + "w" * (sizes.PROSE_WIDTH + 1) + "\n"}),
    ("module-readmes", {"test/README.md": "x+\n```\n" + "w" * 200 + "\n```\n\n" + "w" * (sizes.PROSE_WIDTH + 1) + "\n"}),
    ("line-length", {"src/common/types.hpp": "x+//" + "\t" * 30 + "w\n"}),
    ("finished", {"src/common/types.hpp": "x+// TO" "DO: more\n"}),
    ("finished", {"src/README.md": "x+This is a st" "ub.\n"}),
    ("machine-paths", {"scripts/test": "x+cd /ho" "me/me/vectorgpu\n"}),
    ("machine-paths", {"src/README.md": "x+See /wo" "rk/notes.\n"}),
    ("portable-code", {"scripts/test": "x+make CXXFLAGS=-march=native\n"}),
    ("portable-code", {"Makefile": "CXXFLAGS += -O2 -ffast-math\n"}),
    ("versions", {"src/am/scan/scan.hpp": "x+#if PG_VERSION_NUM >= 160000\n#endif\n"}),
    ("versions", {"test/t/001_start.pl": "x+# PG_MAJORVERSION\n"}),
    ("white-space", {"src/common/types.hpp": "x+int a; \n"}),
    ("white-space", {"src/common/types.hpp": "x+    int a;\n"}),
    ("white-space", {"src/common/types.hpp": "int a;"}),
    ("white-space", {"src/common/types.hpp": "int a;\r\n"}),
    ("readmes", {"src/am/flat/README.md": None}),
    ("readmes", {"src/README.md": None}),
    ("faults", {"src/storage/store.cpp": 'x+\tif (VG_FAULT("store_write"))\n'}),
    ("faults", {"src/storage/store.cpp": 'x+\tif (VG_FAULT("store_read"))\n'}),
    ("faults", {"test/faults.txt": "x+store_gone  001_start  nowhere\n"}),
    ("faults-reached", {"test/faults.txt": "store_read  001_start?  reading a page\n"}),
    ("faults-reached", {"test/faults.txt": "store_read  reading\n"}),
    ("faults-reached", {"test/faults.txt": "store_read  002_gone  reading a page\n"}),
    ("faults-reached", {"test/faults.txt": "store_read  001_start:gpuother  reading a page\n"}),
    ("faults-reached", {"test/t/001_start.pl": "'search:1:error'; done_testing();\n"}),
    ("faults-reached", {"src/worker/worker.cpp": 'x+if (WORKER_FAULT_NO_THROW("reply") != Fault::kNone)\n'}),
    ("faults-reached", {"test/worker_faults.txt": "x+reply  t/001_start.pl  a reply\n"}),
    ("faults-reached", {"test/worker_faults.txt": "x+search  t/001_start.pl  a search\n"}),
    ("faults-reached", {"test/t/001_start.pl": "check_faults_reached($node); done_testing();\n"}),
    ("reasons", {"docs/troubleshooting.md": "x+\n| reason | what |\n|---|---|\n| `lost` | other |\n"}),
    ("reasons", {"docs/troubleshooting.md": "x+\n| reason | what |\n|---|---|\n| `gone` | again |\n"}),
    ("reasons", {"src/bridge/shared_state.cpp": 'fallback\n\nfallback_name(int i)\n{\n\tkNames[] = {"gone", "late"};\n}\n'}),
    ("settings", {"src/pg/guc.cpp": 'x+\tdefine_int(\n\t\t"vectorgpu.more",\n'}),
    ("settings", {"src/pg/guc.cpp": 'x+\tDefineCustomIntVariable(name,\n'}),
    ("settings", {"src/pg/postgres.hpp": 'x+constexpr PgvectorNumber kMore = {"hnsw.more", 1, 1, 2};\n'}),
    ("settings", {"docs/settings.md": "x+\n| setting | what |\n|---|---|\n| `vectorgpu.gone` | no more |\n"}),
    ("readme-size", {"README.md": "x+" + "\n" * rules.README_LINES + "end\n"}),
    ("readme-size", {"README.md": "x+" + "w" * (sizes.PROSE_WIDTH + 1) + "\n"}),
    ("readme-size", {"docs/settings.md": "x+" + "w" * (sizes.PROSE_WIDTH + 1) + "\n"}),
    ("links", {"README.md": "x+[More](docs/more.md)\n"}),
    ("links", {"README.md": "x+[More](docs/settings.md#more)\n"}),
    ("changes", {"CHANGELOG.md": "# Changes\n\n## 0.3.0\n\n- Adds " + "w" * sizes.PROSE_WIDTH + "\n"}),
    ("changes", {"CHANGELOG.md": "# Changes\n\n## 0.3.0\n\n- Adds this,\n  and that.\n"}),
    ("fault-list", {"test/README.md": "x+| F1, F2 | two | `003_gone` |\n"}),
    ("install-scripts", {"sql/install/vectorgpu--0.1.0.sql": "CREATE OR REPLACE VIEW vectorgpu_worker AS SELECT 1;\n"}),
    ("install-scripts", {"sql/install/vectorgpu--0.1.0--0.2.0.sql": "CREATE OR REPLACE FUNCTION vectorgpu_check() RETURNS int;\n"}),
    ("install-scripts", {"sql/install/vectorgpu--0.1.0.sql": "CREATE TABLE IF NOT EXISTS t (a int);\n"}),
    ("long-forms", {"test/t/001_start.pl": "x+my $long = $ENV{VECTORGPU_LONG};\n"}),
    ("long-forms", {"test/long/list": "sweeps 002_all_long t/002_all.pl - - VECTORGPU_FLIPS=1\nsoaks 003_more_long long/003_more_long.pl - -\n"}),
    ("long-forms", {"test/long/list": "x+soaks 004_gone_long t/004_gone.pl - -\n"}),
    ("long-forms", {"test/long/list": "x+stress 002_all_long t/002_all.pl - -\n"}),
    ("long-forms", {"test/long/004_other_long.pl": "done_testing();\n"}),
    ("fault-list", {"test/README.md": "x+| F1, F2 | two | `002_all`; long |\n"}),
    ("fault-list", {"test/README.md": "x+| G1 | two | `003_other_long` |\n"}),
    ("fault-list", {"test/README.md": "x+| G1 | two | `001_start` AM |\n"}),
    ("fault-list", {"test/README.md": "x+| F3 | three | `gone_test.cpp`: all |\n"}),
    ("fault-list", {"test/README.md": "x+| F3 | three | `fuzz_gone` |\n"}),
    ("gpu-tests", {"test/gpu/run": "x+more_tests=(Lists.Some)\n"}),
    ("gpu-tests", {"test/gpu/run": "x+run --gtest_filter='Lists.All:Graphs.*'\n"}),
    ("gpu-tests", {"test/gpu/phases/tests.sh": "more_tests=(Lists.Some)\n"}),
    ("gpu-tests", {"test/gpu/lists_test.cpp": "TEST(Lists, AllOfThem)\n{\n}\n"}),
    ("docker-steps", {"packaging/docker/Dockerfile.cpu": "FROM a AS build\nRUN apt-get update && apt-get install -y --no-install-recommends a-16 && make -j2\n"}),
    ("docker-steps", {"packaging/docker/Dockerfile.cpu": "FROM a AS build\n" + DOCKER_STEPS + "RUN make install\n"}),
    ("docker-steps", {"packaging/docker/Dockerfile.cuda": "FROM a AS build\n" + DOCKER_STEPS}),
    ("docker-steps", {"docs/install.md": "## With a GPU\n\nWith nvcc.\n"}),
    ("meta", {"META.json": META[1:]}),
    ("meta", {"META.json": META.replace('"version": "0.3.0", "maintainer"', '"version": "0.2.0", "maintainer"')}),
    ("meta", {"META.json": META.replace('"docfile": "README.md"', '"docfile": "GONE.md"')}),
    ("meta", {"META.json": META.replace('"abstract": "indexes"', '"abstract": "other"')}),
    ("meta", {"META.json": META.replace('"license": "postgresql", ', "")}),
    ("meta", {"META.json": META.replace('"vectorgpu_pgvector": {', '"more": {')}),
    ("meta", {"CMakeLists.txt": "project(vectorgpu VERSION 0.2.0 LANGUAGES CXX)\n"}),
    ("meta", {"CHANGELOG.md": "# Changes\n\n## 0.3.0, not released\n\n- Adds this.\n"}),
    ("executable", {"scripts/other": "#!/bin/sh\n"}),
]


def write(root, files):
    for name, text in files.items():
        path = root / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("x+"):
            text = path.read_text() + text[2:]
        path.write_bytes(text.encode())
        if name == "scripts/test":
            path.chmod(0o755)


def failing(root):
    source = tree.Tree(root)
    return {rule.name: problems for rule in rules.ALL if (problems := rule.find(source))}


def run():
    """Problems of the lint itself; the empty list when each rule passes the clean tree and fails on every break."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="vectorgpu-lint-") as folder:
        clean = pathlib.Path(folder) / "clean"
        write(clean, CLEAN)
        problems += [f"{rule} fails on the clean tree: {found[0]}" for rule, found in failing(clean).items()]
        for number, (rule, files) in enumerate(BREAKS):
            broken = pathlib.Path(folder) / f"broken{number}"
            write(broken, CLEAN)
            write(broken, files)
            found = set(failing(broken))
            if rule not in found:
                problems.append(f"{rule} passes a tree that breaks it: {sorted(files)}")
            elif found != {rule} and rule != "include-direction":
                problems.append(f"{sorted(found)} fail where only {rule} should: {sorted(files)}")
        covered = {rule for rule, _ in BREAKS}
        problems += [f"{rule.name} has no break that proves it" for rule in rules.ALL if rule.name not in covered]
        large = pathlib.Path(folder) / "large"
        write(large, {**CLEAN, "test/large.py": "pass\n" * (sizes.WARN_LINES + 1)})
        if not sizes.files_grow(tree.Tree(large)):
            problems.append(f"no warning for a file of {sizes.WARN_LINES + 1} lines")
    return problems
