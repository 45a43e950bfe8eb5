"""Bounds of size: lines of a file, lines of a function, files of a folder, characters of a line."""
import collections
import posixpath
import re

import includes

CODE = (".cpp", ".hpp", ".h", ".cu", ".cuh", ".pl", ".pm", ".py", ".sql", ".spec", ".sh", ".cmake", ".md")
MAX_LINES, WARN_LINES = 800, 600
MAX_SOURCE_LINES = 600    # of C++
MAX_FUNCTION_LINES = 100  # from the brace that opens the body to the one that closes it
MAX_FOLDER_FILES = 45
PROSE_WIDTH = 120

SOURCE_FOLDERS = ("src/", "gpu/", "test/gpu/", "test/unit/")
# Heads of blocks that are none: types, whose names an alignas may precede, and what encloses functions.
NO_FUNCTION = re.compile(r'(template ?<.*> )?(typedef )?((class|struct|union|enum)\b( alignas\(\w+\))?[^()]*|namespace\b.*|extern "C")$')


def n_lines(tree, path):
    return tree.text(path).count("\n")


def counted_files(tree):
    # One install script per version is PostgreSQL's rule, expected output is as long as its test, and GPU reports are written by a script.
    return [path for path in tree.files if path.endswith(CODE) or path.startswith(("scripts/", "test/lint/"))
            if not path.startswith(("expected/", "test/isolation/expected/", "sql/install/", "test/gpu/REPORT"))]


def most_lines(path):
    return MAX_SOURCE_LINES if path.endswith(includes.SOURCES) else MAX_LINES


def files_are_short(tree):
    return [f"{path}: {n_lines(tree, path)} lines, the limit is {most_lines(path)}" for path in counted_files(tree)
            if n_lines(tree, path) > most_lines(path)]


def files_grow(tree):
    return [f"{path}: {n_lines(tree, path)} lines, split it before {MAX_LINES}" for path in counted_files(tree)
            if WARN_LINES < n_lines(tree, path) <= most_lines(path)]


def folders_are_small(tree):
    counts = collections.Counter(posixpath.dirname(path) for path in tree.files if path.startswith(SOURCE_FOLDERS))
    return [f"{folder}: {count} files, the limit is {MAX_FOLDER_FILES}" for folder, count in sorted(counts.items())
            if count > MAX_FOLDER_FILES]


def functions(lines):
    """(line number, lines) of each function of a source in the format of .clang-format: its body begins with a line that is a brace, in the
    first column or, of a member, after one tab, and ends with the next line that begins with the closing one there."""
    start, indent, head = 0, "", ""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if start and line.startswith(indent + "}"):
            yield start, number - start + 1
            start = 0
        elif not start and line in ("{", "\t{") and not NO_FUNCTION.match(head):
            start, indent = number, line[:-1]
        if not text or text.endswith((";", "{", "}", ":")):
            head = ""
        elif not text.startswith(("//", "#")):
            head = f"{head} {text}".lstrip()


def functions_are_short(tree):
    """Kernels too: a kernel is cut into functions of its block and its warps, which are inlined."""
    return [f"{path}:{number}: a function of {count} lines, the limit is {MAX_FUNCTION_LINES}"
            for path in tree.matching("", *includes.SOURCES)
            for number, count in functions(tree.text(path).split("\n")) if count > MAX_FUNCTION_LINES]


def lines_are_short(tree):
    """Lines of C++ sources; a tab has four columns."""
    return [f"{path}:{number}: {len(line.expandtabs(4))} columns, the limit is {PROSE_WIDTH}"
            for path in tree.matching("", *includes.SOURCES) for number, line in tree.lines(path)
            if len(line.expandtabs(4)) > PROSE_WIDTH]


def too_wide(path, lines):
    return [f"{path}:{number}: {len(line)} characters, the limit is {PROSE_WIDTH}" for number, line in lines if len(line) > PROSE_WIDTH]


def prose_lines(tree, path):
    """Numbered lines of a page without tables, images and blocks of code."""
    prose, code = [], False
    for number, line in tree.lines(path):
        code ^= line.lstrip().startswith("```")
        if not code and not line.lstrip().startswith(("|", "![")):
            prose.append((number, line))
    return prose


def module_readmes_are_narrow(tree):
    """Prose of the READMEs of src/, gpu/ and test/."""
    return [problem for path in tree.files if path.startswith(("src/", "gpu/", "test/")) and posixpath.basename(path) == "README.md"
            for problem in too_wide(path, prose_lines(tree, path))]
