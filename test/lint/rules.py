"""The lint rules. A rule is a name, a sentence, and a function from a Tree to problems (and, for sizes, warnings)."""
import collections
import fnmatch
import posixpath
import re

import includes
import packaging
import sizes

Rule = collections.namedtuple("Rule", "name what find warn", defaults=(None,))

# Spelled in parts, so that this file does not trip over its own list.
MARKS = ["TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK", "TB" "D"]
WORDS = ["st" "ubs?", "st" "ubbed", "place" "holders?", "work in pro" "gress"]
UNFINISHED = re.compile(rf"\b(?:{'|'.join(MARKS)}|(?i:{'|'.join(WORDS)}))\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}/])/(?:work|home|root|Users|opt/pg-\w*|tmp/house)(?:/|\b)")
ONE_MACHINE = re.compile(r"^[^#]*(-m(?:arch|tune|cpu)=native|-Ofast|-f(?:fast-math|unsafe-math-optimizations|associative-math)|use_fast_math)")
VERSION_QUESTION = re.compile(r"\b(?:PG_VERSION_NUM|PG_MAJORVERSION(?:_NUM)?|CATALOG_VERSION_NO)\b")
NOT_OF_SRC_PG = re.compile(r"^(?!src/pg/|test/lint/).*(?<!\.md)$")
BUILD_FILE = re.compile(r"(?:^|/)(?:Makefile|CMakeLists\.txt|CMakePresets\.json|[^/]+\.cmake)$|^scripts/|^test/gpu/(?:run$|phases/)")
FAULT = re.compile(r'\bVG_FAULT\(\s*"([^"]*)"\s*\)')
FAULT_LIST = "test/faults.txt"
WORKER_FAULT = re.compile(r'(?:\b(?:WORKER_FAULT(?:_NO_THROW)?|engine_call|fault|damage)\(\s*"|\{"(?=gpu_))([a-z]\w*)"(?=[,)])')
WORKER_FAULT_LIST = "test/worker_faults.txt"
FAULT_WHERE = re.compile(r"(\w+)\??(?::(?:gpu(?:flat|ivf|graph|match)(?:/codes)?\+?)+)?")
REASONS = "src/bridge/shared_state.cpp"
REASONS_TABLE, SETTINGS_TABLE = "docs/troubleshooting.md", "docs/settings.md"
README_LINES = 200
CHANGES_LINTED = 2  # the newest sections of CHANGELOG.md, whose entries are one line each
GPU_RUN = "test/gpu/run"
LONG_LIST = "test/long/list"
LONG_RUN = re.compile(r"(sweeps|soaks) \w+ (t|long)/\w+\.pl (-|gpu[\w,-]+) (-|\d+|(off|on|flapping)(,(off|on|flapping))*)( \w+=\w+)*")


def check(rule, tree):
    """(problems, warnings) of one rule."""
    return rule.find(tree), rule.warn(tree) if rule.warn else []


def schedule(tree, name):
    """Test names of a schedule file, in order (`test: a b`)."""
    names = []
    for _, line in tree.lines(name):
        if line.startswith("test:"):
            names += line[len("test:"):].split()
    return names


def listed_once(tree, kind, list_name, inputs, expected_of):
    """Every input is in the schedule once and has an expected file; the schedule and the expected files name nothing else."""
    problems = []
    names = schedule(tree, list_name)
    for name, path in sorted(inputs.items()):
        if names.count(name) != 1:
            problems.append(f"{path}: {kind} is in {list_name} {names.count(name)} times")
        if name not in expected_of:
            problems.append(f"{path}: {kind} has no expected output")
    problems += [f"{list_name}: names {name}, which does not exist" for name in sorted(set(names)) if name not in inputs]
    problems += [f"{path}: expected output without a {kind}" for name, path in sorted(expected_of.items())
                 if name not in inputs]
    return problems


def stems(paths, variants=False):
    """{file name without suffix: path}; with variants, NAME_1.out stands for NAME when NAME.out is there too."""
    found = {posixpath.splitext(posixpath.basename(path))[0]: path for path in paths}
    if variants:
        return {name: path for name, path in found.items() if re.sub(r"_[1-9]$", "", name) not in set(found) - {name}}
    return found


def tests_are_scheduled(tree):
    regress = [path for path in tree.matching("sql/", ".sql") if path.count("/") == 1]
    problems = listed_once(tree, "regression test", "sql/schedule", stems(regress),
                           stems(tree.matching("expected/", ".out"), variants=True))
    problems += listed_once(tree, "isolation test", "test/isolation/schedule",
                            stems(tree.matching("test/isolation/specs/", ".spec")),
                            stems(tree.matching("test/isolation/expected/", ".out"), variants=True))
    for path in tree.matching("sql/include/", ".sql"):
        if not any(path[len("sql/"):] in tree.text(test) for test in regress):
            problems.append(f"{path}: included by no test")
    for path in tree.matching("test/", ".spec"):
        if not re.fullmatch(r"test/isolation/specs/[^/]+", path):
            problems.append(f"{path}: an isolation test outside of test/isolation/specs is not run")
    for path in tree.matching("test/", ".pl"):
        if not re.fullmatch(r"test/(t|long|gpu/t|gpu/alone)/\d{3}_\w+\.pl", path):
            problems.append(f"{path}: scripts/test runs NNN_name.pl of test/t, test/long, test/gpu/t and test/gpu/alone only")
    for path in tree.matching("test/unit/", ".cpp"):
        if re.search(r"^(TEST|TEST_F|TEST_P|TYPED_TEST)\(", tree.text(path), re.MULTILINE) and not re.fullmatch(
                r"test/unit/\w+/\w+_test\.cpp", path):
            problems.append(f"{path}: CMake builds test/unit/MODULE/NAME_test.cpp only")
    for path in tree.matching("test/t/", ".pl") + tree.matching("test/long/", ".pl"):
        if "done_testing" not in tree.text(path) and "plan " not in tree.text(path):
            problems.append(f"{path}: neither done_testing nor a plan")
    return problems


def tap_numbers_are_unique(tree):
    """A number of a folder of TAP files names one file; 110_crash_long of test/long may share that of test/t/110_crash."""
    problems = []
    for folder in ("test/t/", "test/long/", "test/gpu/t/", "test/gpu/alone/"):
        names = collections.defaultdict(list)
        for path in tree.matching(folder, ".pl"):
            names[path[:len(folder) + 3]].append(path)
        problems += [f"{', '.join(paths)}: the same number" for paths in names.values() if len(paths) > 1]
    return problems


def matches(tree, pattern, message, paths=re.compile("")):
    problems = []
    for path in filter(paths.search, tree.files):
        for number, line in tree.lines(path):
            match = pattern.search(line)
            if match:
                problems.append(f"{path}:{number}: {message} \"{match.group(0)}\"")
    return problems


def nothing_is_unfinished(tree):
    return matches(tree, UNFINISHED, "mark of unfinished work")


def no_machine_paths(tree):
    return matches(tree, MACHINE_PATH, "path of one machine")


def code_is_portable(tree):
    return matches(tree, ONE_MACHINE, "of one machine, or of other arithmetic:", BUILD_FILE)


def versions_are_known_in_one_place(tree):
    return matches(tree, VERSION_QUESTION, "asks for the server's version outside of src/pg:", NOT_OF_SRC_PG)


def whitespace_is_clean(tree):
    problems = []
    for path in tree.files:
        if path.startswith(("expected/", "test/isolation/expected/")):
            continue
        text = tree.text(path)
        if "\r" in text:
            problems.append(f"{path}: carriage return")
        if text and not text.endswith("\n"):
            problems.append(f"{path}: no newline at the end")
        if text.endswith("\n\n"):
            problems.append(f"{path}: empty line at the end")
        problems += [f"{path}:{number}: trailing white space" for number, line in tree.lines(path)
                     if line.rstrip(" \t") != line]
    for path in tree.matching("src/", *includes.SOURCES) + tree.matching("gpu/", *includes.SOURCES):
        problems += [f"{path}:{number}: indented by spaces" for number, line in tree.lines(path)
                     if re.match(r"^ {4,}\S", line)]
    return problems


def folders_have_readmes(tree):
    """src, every folder below it with sources (a folder of an engine is described by its parent), every folder of gpu."""
    folders = {posixpath.dirname(path) for path in tree.files
               if path.startswith(("src/", "gpu/")) and path.endswith(includes.SOURCES)}
    files = set(tree.files)
    problems = []
    for folder in sorted(folders | {"src"}):
        parent = posixpath.dirname(folder) if folder.count("/") == 2 and not folder.startswith("src/am/") else folder
        if not {f"{folder}/README.md", f"{parent}/README.md"} & files:
            problems.append(f"{folder}: no README.md")
    return problems


def fault_lines(tree, path):
    """(line number, words) of the points of a list: name, where, what."""
    return [(number, line.split(None, 2)) for number, line in tree.lines(path) if line.strip() and not line.startswith("#")]


def faults_are_listed(tree):
    sites = collections.defaultdict(list)
    for path in tree.matching("src/", *includes.SOURCES):
        for number, line in tree.lines(path):
            if line.lstrip().startswith(("//", "#define")):
                continue
            for name in FAULT.findall(line):
                sites[name].append(f"{path}:{number}")
    listed = [words[0] for _, words in fault_lines(tree, FAULT_LIST)]
    problems = [f"{where[1]}: fault point \"{name}\" is at {where[0]} already" for name, where in sorted(sites.items())
                if len(where) > 1]
    problems += [f"{where[0]}: fault point \"{name}\" is not in {FAULT_LIST}" for name, where in sorted(sites.items())
                 if name not in listed]
    problems += [f"{FAULT_LIST}: \"{name}\" is nowhere in src/" for name in sorted(set(listed)) if name not in sites]
    return problems + listed_twice(FAULT_LIST, listed)


def gpu_tests(tree):
    """Full names of the tests of test/gpu, those with parameters with one of them."""
    names = []
    for path in tree.matching("test/gpu/", ".cpp"):
        text = tree.text(path)
        prefixes = {suite: prefix for prefix, suite in re.findall(r"\bINSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", text)}
        for macro, suite, name in re.findall(r"^(TEST(?:_[FP])?)\(\s*(\w+),\s*(\w+)\s*\)", text, re.MULTILINE):
            names.append(f"{prefixes.get(suite, '')}/{suite}.{name}/0" if macro == "TEST_P" else f"{suite}.{name}")
    return names


def gpu_run_names_tests(tree):
    """Each name in an array NAME_tests=(…), and in a filter that is written out, matches a test: gtest says nothing of those that do not."""
    existing, problems = gpu_tests(tree), []
    for path in [GPU_RUN, *tree.matching("test/gpu/phases/", ".sh")]:
        text = tree.text(path)
        for match in re.finditer(r"\b\w+_tests=\(([^)]*)\)|--gtest_filter=['\"]?([\w.*?:/-]+)", text):
            for pattern in re.split(r"[\s:]+", (match.group(1) or match.group(2)).replace("'", " ").strip()):
                if not fnmatch.filter(existing, pattern):
                    number = text.count("\n", 0, text.index(pattern, match.start())) + 1
                    problems.append(f"{path}:{number}: no test of test/gpu is called {pattern}")
    return problems


def listed_twice(path, names):
    return [f"{path}: \"{name}\" is listed twice" for name in sorted(set(names)) if names.count(name) > 1]


def faults_are_reached(tree):
    """Each point has a test that must reach it and says so; the lists are those of VectorgpuFaults.pm and of the worker."""
    problems = []
    for number, words in fault_lines(tree, FAULT_LIST):
        entries = words[1].split(",") if len(words) == 3 else []
        if not any("?" not in entry for entry in entries):
            problems.append(f"{FAULT_LIST}:{number}: no test has to reach \"{words[0]}\"")
        for entry in entries:
            match = FAULT_WHERE.fullmatch(entry)
            path = f"test/t/{match.group(1)}.pl" if match else ""
            if path not in tree.files:
                problems.append(f"{FAULT_LIST}:{number}: \"{entry}\" is no test of test/t")
            elif "check_faults_reached(" not in tree.text(path):
                problems.append(f"{path}: does not call check_faults_reached, as {FAULT_LIST} wants it to for \"{words[0]}\"")
    in_code = set()
    for path in tree.matching("src/worker/", *includes.SOURCES) + tree.matching("gpu/", *includes.SOURCES):
        in_code.update(WORKER_FAULT.findall(tree.text(path)))
    listed = [words[0] for _, words in fault_lines(tree, WORKER_FAULT_LIST)]
    problems += [f"worker: fault point \"{name}\" is not in {WORKER_FAULT_LIST}" for name in sorted(in_code - set(listed))]
    problems += [f"{WORKER_FAULT_LIST}: \"{name}\" is nowhere in src/worker and gpu" for name in sorted(set(listed) - in_code)]
    for number, words in fault_lines(tree, WORKER_FAULT_LIST):
        for test in words[1].split(",") if len(words) == 3 else ["none"]:
            path = f"test/{test}"
            if path not in tree.files or not re.search(rf"\b{words[0]}\b", tree.text(path)):
                problems.append(f"{WORKER_FAULT_LIST}:{number}: {path} does not name \"{words[0]}\"")
    return problems + listed_twice(WORKER_FAULT_LIST, listed)


def names_in_table(tree, path, title):
    """Names in back-quotes that begin the rows of the tables whose first column has this title."""
    names, inside = [], False
    for _, line in tree.lines(path):
        if line.lstrip().startswith(f"| {title} |"):
            inside = True
        elif not line.lstrip().startswith("|"):
            inside = False
        elif inside and (match := re.match(r"\s*\| `([^`]+)`", line)):
            names.append(match.group(1))
    return names


def same_names(what, in_code, code, in_table, table):
    problems = [f"{code}: {what} \"{name}\" is not in the table of {table}" for name in in_code if name not in in_table]
    problems += [f"{table}: {what} \"{name}\" is not in {code}" for name in in_table if name not in in_code]
    return problems + [f"{table}: {what} \"{name}\" is there twice" for name in sorted(set(in_table)) if in_table.count(name) > 1]


def reasons_are_documented(tree):
    array = re.search(r"\nfallback_name\(.*?\{([^{}]*)\};", tree.text(REASONS), re.DOTALL)
    names = re.findall(r'"(\w+)"', array.group(1)) if array else []
    return same_names("fallback reason", names, REASONS, names_in_table(tree, REASONS_TABLE, "reason"), REASONS_TABLE)


def settings_are_documented(tree):
    names = []
    problems = []
    for path in tree.matching("src/", ".cpp"):
        text = tree.text(path)
        names += [name for name in re.findall(r'\bdefine_(?:bool|int|real|enum|string)\(\s*"([\w.]+)"', text) if name != "vectorgpu.fault"]
        if path != "src/pg/define_setting.cpp" and re.search(r"\bDefineCustom\w+Variable\(", text):
            problems.append(f"{path}: a setting that is lost where the module is loaded in parallel mode: pg/define_setting.hpp")
    for path in tree.matching("src/", ".hpp"):
        names += re.findall(r'\bPgvectorNumber \w+ = \{"([\w.]+)"', tree.text(path))
    return problems + same_names("setting", names, "src", names_in_table(tree, SETTINGS_TABLE, "setting"), SETTINGS_TABLE)


def readme_is_short(tree):
    """README.md is a page; in docs/ prose has its width too, tables, images and blocks of code do not."""
    problems = sizes.too_wide("README.md", tree.lines("README.md"))
    if sizes.n_lines(tree, "README.md") > README_LINES:
        problems.append(f"README.md: {sizes.n_lines(tree, 'README.md')} lines, the limit is {README_LINES}")
    return problems + [problem for path in tree.matching("docs/", ".md") for problem in sizes.too_wide(path, sizes.prose_lines(tree, path))]


def links_lead_somewhere(tree):
    """Relative links of README.md, CONTRIBUTING.md and docs/ name a file of the tree, and a heading where they name one."""
    problems, files = [], set(tree.files)
    for path in [path for path in tree.files if path.endswith(".md") and (path.startswith("docs/") or "/" not in path)]:
        for number, line in tree.lines(path):
            for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", line):
                name = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
                if name not in files:
                    problems.append(f"{path}:{number}: no file {name}")
                elif anchor and anchor not in headings(tree, name):
                    problems.append(f"{path}:{number}: {name} has no heading #{anchor}")
    return problems


def headings(tree, path):
    """Headings of a page as anchors."""
    found = [re.sub(r"[^\w -]", "", line.lstrip("#").strip().lower()).replace(" ", "-") for _, line in tree.lines(path) if line.startswith("#")]
    return set(found)


def changes_are_lines(tree):
    """An entry of the newest sections of CHANGELOG.md is one line."""
    problems, section = [], 0
    for number, line in tree.lines("CHANGELOG.md"):
        section += line.startswith("## ")
        if section > CHANGES_LINTED:
            break
        problems += sizes.too_wide("CHANGELOG.md", [(number, line)])
        if line.startswith(" "):
            problems.append(f"CHANGELOG.md:{number}: an entry is one line")
    return problems


def fault_list_names_tests(tree):
    """The rows of test/README.md that say which test a rule has: the TAP files are there, and AM stands behind those that run for every access
    method; so are unit tests and fuzz targets."""
    folders = ("test/t/", "test/long/", "test/gpu/t/", "test/gpu/alone/")
    files = {posixpath.splitext(posixpath.basename(path))[0]: path for folder in folders for path in tree.matching(folder, ".pl")}
    files = {words[1]: "" for _, words in long_runs(tree) if len(words) > 1} | files
    programs = {posixpath.basename(path) for path in tree.matching("test/", ".cpp")}
    problems = []
    for number, line in tree.lines("test/README.md"):
        if not re.match(r"\| [CFG]\d", line):
            continue
        problems += [f"test/README.md:{number}: {name} is no test" for name in re.findall(r"`(\w+_test\.cpp)`", line) if name not in programs]
        problems += [f"test/README.md:{number}: {name} is no fuzz target" for name in re.findall(r"`(fuzz_\w+)`", line) if f"{name}.cpp" not in programs]
        for name, mark in re.findall(r"`(\d{3}_\w+)`( AM\b)?", line):
            where = f"test/README.md:{number}: {name}"
            if name not in files:
                problems.append(f"{where} is no test")
            elif ("USING $AM" in tree.text(files[name])) != bool(mark):
                problems.append(f"{where} " + ("runs for one access method only" if mark else "runs for every access method: AM"))
    return problems


def long_runs(tree):
    """(line number, words) of the runs in test/long/list: part, name, file, methods, split, environment."""
    return [(number, line.split(None, 5)) for number, line in tree.lines(LONG_LIST) if line.strip() and not line.startswith("#")]


def long_forms_are_run(tree):
    """A test that reads VECTORGPU_LONG has a run in test/long/list that sets it; the list is well formed and complete."""
    problems, long_forms, files = [], set(), set()
    for number, words in long_runs(tree):
        if not LONG_RUN.fullmatch(" ".join(words)):
            problems.append(f"{LONG_LIST}:{number}: not PART NAME FILE METHODS SPLIT ENVIRONMENT…")
            continue
        files.add(f"test/{words[2]}")
        if "VECTORGPU_LONG=1" in words[-1].split():
            long_forms.add(f"test/{words[2]}")
    problems += [f"{LONG_LIST}: no file {path}" for path in sorted(files - set(tree.files))]
    problems += [f"{path}: not in {LONG_LIST}" for path in tree.matching("test/long/", ".pl") if path not in files]
    return problems + [f"{path}: no run of {LONG_LIST} sets VECTORGPU_LONG for it" for path in tree.matching("test/t/", ".pl")
                       if "$ENV{VECTORGPU_LONG}" in tree.text(path) and path not in long_forms]


def installation_takes_nothing(tree):
    """What another owner has made under one of our names is neither replaced nor kept: CREATE OR REPLACE is for views of our own in an update."""
    return [f"{path}:{number}: OR REPLACE, IF NOT EXISTS" for path in tree.matching("sql/install/", ".sql")
            for number, line in tree.lines(path) if re.search(r"\bOR\s+REPLACE\b|\bIF\s+NOT\s+EXISTS\b", line, re.IGNORECASE)
            and not (path.count("--") == 2 and re.search(r"CREATE OR REPLACE VIEW vectorgpu_", line))]


def commands_are_executable(tree):
    return [f"{path}: not executable" for path in tree.files
            if (path in (".ci/run", "test/lint/run") or re.fullmatch(r"scripts/[\w-]+", path)) and not tree.executable(path)]


ALL = [
    Rule("include-direction", "includes follow the table of src/README.md; no server headers below, no CUDA in src/",
         includes.directions),
    Rule("include-cycles", "no circular includes", includes.cycles),
    Rule("tests-scheduled", "every test is run and every expected output has its test", tests_are_scheduled),
    Rule("tap-numbers", "the number of a TAP file names one file", tap_numbers_are_unique),
    Rule("file-size", f"no file has more than {sizes.MAX_LINES} lines, no C++ source more than {sizes.MAX_SOURCE_LINES}",
         sizes.files_are_short, sizes.files_grow),
    Rule("function-size", f"no function, kernels included, has more than {sizes.MAX_FUNCTION_LINES} lines", sizes.functions_are_short),
    Rule("folder-size", f"no folder of sources has more than {sizes.MAX_FOLDER_FILES} files", sizes.folders_are_small),
    Rule("line-length", f"lines of C++ sources have at most {sizes.PROSE_WIDTH} columns", sizes.lines_are_short),
    Rule("module-readmes", f"prose of READMEs of src/, gpu/ and test/ has at most {sizes.PROSE_WIDTH} characters a line",
         sizes.module_readmes_are_narrow),
    Rule("finished", "no marks of unfinished work", nothing_is_unfinished),
    Rule("machine-paths", "no paths of one machine", no_machine_paths),
    Rule("portable-code", "nothing is compiled for one machine, or with other arithmetic than its source says", code_is_portable),
    Rule("versions", "only src/pg knows how PostgreSQL's versions differ", versions_are_known_in_one_place),
    Rule("white-space", "no trailing white space, tabs indent C++", whitespace_is_clean),
    Rule("readmes", "every source folder has a README.md", folders_have_readmes),
    Rule("faults", f"every fault point has a name of its own and is in {FAULT_LIST}", faults_are_listed),
    Rule("faults-reached", f"each point of {FAULT_LIST} and {WORKER_FAULT_LIST} has a test that reaches it", faults_are_reached),
    Rule("reasons", f"{REASONS_TABLE} explains each reason of a fallback, and no other", reasons_are_documented),
    Rule("settings", f"{SETTINGS_TABLE} has each setting, and no other", settings_are_documented),
    Rule("readme-size", f"README.md has at most {README_LINES} lines; it and the prose of docs/ at most {sizes.PROSE_WIDTH} characters a line", readme_is_short),
    Rule("links", "links of README.md, CONTRIBUTING.md and docs/ lead to files and headings", links_lead_somewhere),
    Rule("changes", f"an entry of CHANGELOG.md is one line of at most {sizes.PROSE_WIDTH} characters", changes_are_lines),
    Rule("fault-list", "test/README.md tells truly which tests of the fault list run for every access method", fault_list_names_tests),
    Rule("long-forms", f"a test that reads VECTORGPU_LONG has a run in {LONG_LIST}, which names each file of test/long", long_forms_are_run),
    Rule("gpu-tests", f"the tests that {GPU_RUN} names exist", gpu_run_names_tests),
    Rule("install-scripts", "installation and updates take nothing over", installation_takes_nothing),
    Rule("docker-steps", "the Dockerfiles build by the steps of README.md and docs/install.md", packaging.docker_steps_are_documented),
    Rule("meta", f"{packaging.META} is true", packaging.meta_is_true),
    Rule("executable", "commands are executable", commands_are_executable),
]
