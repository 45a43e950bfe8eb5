"""Include rules: which folder may include which, what may never be included, and no cycles.

The table is that of src/README.md, "Include rules": a layer may include itself and the layers on its right. Within a layer a room may
include the others, except as MAY_NOT_INCLUDE says.
"""
import posixpath
import re

SOURCES = (".cpp", ".hpp", ".h", ".cu", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Folders of src/am that all access methods share: "src/am/room" in the table. The others there are one access method each.
ROOMS = {"method", "alias", "build", "keys", "maintain", "scan", "siblings", "filtered", "feed", "check", "recall", "functions", "sparse", "shards", "ahead"}

MAY_INCLUDE = {
    "src/am": {"src/am/room", "src/storage", "src/types", "src/bridge", "src/wire", "src/pg", "src/engine", "src/common"},
    "src/am/room": {"src/storage", "src/types", "src/bridge", "src/wire", "src/pg", "src/engine", "src/common"},
    "src/storage": {"src/pg", "src/engine", "src/common"},
    "src/bridge": {"src/pg", "src/wire", "src/engine", "src/common"},
    "src/types": {"src/pg", "src/engine", "src/common"},
    "src/vector_settings": {"src/pg"},
    "src/pg": {"src/common"},
    "src/engine": {"src/common"},
    "src/wire": {"src/common"},
    "src/common": set(),
    "src/worker": {"src/wire", "src/engine", "src/common"},
    "gpu/cuda": {"src/engine", "gpu/kernels", "src/common"},
    "gpu/kernels": {"src/common"},
    "gpu/experiments": {"gpu/kernels", "src/common"},
}
# vectorgpu.cpp holds _PG_init and starts every part of the server module.
MODULE_ENTRY = {"src/am", "src/am/room", "src/storage", "src/bridge", "src/types", "src/pg", "src/engine", "src/wire", "src/common"}
# Folders that may include the server's headers.
SERVER_SIDE = {"src", "src/am", "src/am/room", "src/storage", "src/bridge", "src/types", "src/pg", "src/vector_settings"}
# Rooms of one layer: (files of these, may not include files of those).
CALLED_BY_MODULE = tuple(f"src/engine/{room}/" for room in ("interface", "distance", "ivf", "graph", "match", "predicate", "recall"))
MAY_NOT_INCLUDE = (
    # The module links the former without the latter, which have threads and need OpenBLAS.
    (CALLED_BY_MODULE, ("src/engine/cpu/", "src/engine/filter/", "src/engine/copies/")),
    (("src/engine/distance/",), tuple(room for room in CALLED_BY_MODULE if room != "src/engine/distance/")),
    (("src/am/method/",), ("src/am/maintain/",)),
    (("gpu/cuda/device/",), ("gpu/cuda/resident/", "gpu/cuda/build/", "gpu/cuda/search/", "gpu/cuda/selftest/")),
    (("gpu/cuda/build/",), ("gpu/cuda/search/", "gpu/cuda/selftest/")),
)
# Rooms that a layer may include, beyond whole layers: kernels evaluate programs by the host's definition.
MAY_INCLUDE_ROOM = {"gpu/kernels": ("src/engine/predicate/", "src/engine/distance/sparse")}
CUDA_HEADER = re.compile(r"^(cuda|cublas|curand|cusparse|nvml|cub/|thrust/|cuda/|cooperative_groups)")
SERVER_HEADER = re.compile(
    r"^(postgres|postgres_ext|postgres_fe|c|fmgr|funcapi|miscadmin|pgstat|pg_config\w*|port|varatt)\.h$"
    r"|^(access|catalog|commands|common|executor|lib|libpq|nodes|optimizer|parser|port|postmaster|storage|utils)/\w+\.h$")


def layer_of(name):
    """The folder of the include table that a file belongs to, or None outside of src/ and gpu/."""
    parts = name.split("/")
    if parts[0] == "src":
        if len(parts) == 2:
            return "src"
        if parts[1] == "am":
            return "src/am/room" if len(parts) > 3 and parts[2] in ROOMS else "src/am"
        return f"src/{parts[1]}"
    if parts[0] == "gpu" and len(parts) > 2:
        return f"gpu/{parts[1]}"
    return None


def method_of(name):
    """The access method that a file under src/am belongs to."""
    parts = name.split("/")
    return parts[2] if name.startswith("src/am/") and len(parts) > 3 else None


def includes_of(tree, name):
    """(line number, '<' or '"', path) of every include of a file."""
    found = []
    for number, line in tree.lines(name):
        match = INCLUDE.match(line)
        if match:
            found.append((number, match.group(1), match.group(2)))
    return found


def resolve(tree, name, path):
    """The file of this tree that a quoted include of file `name` names, or None."""
    roots = ["src"] if name.startswith("src/") else ["src", "gpu"]
    for root in roots:
        candidate = posixpath.normpath(posixpath.join(root, path))
        if candidate in tree.file_set:
            return candidate
    return None


def source_files(tree):
    tree.file_set = set(tree.files)
    return [name for name in tree.files if name.startswith(("src/", "gpu/")) and name.endswith(SOURCES)]


def directions(tree):
    """Problems: an include against the table, a server or CUDA header where it must not be, a path not rooted at src/ or gpu/."""
    problems = []
    for name in source_files(tree):
        layer = layer_of(name)
        if layer not in MAY_INCLUDE and layer != "src":
            problems.append(f"{name}: folder {layer or posixpath.dirname(name)} is not in the include table")
            continue
        for number, quote, path in includes_of(tree, name):
            target = resolve(tree, name, path) if quote == '"' else None
            where = f"{name}:{number}"
            if target is not None:
                problems += direction_problem(where, name, layer, target)
            elif layer.startswith("src") and CUDA_HEADER.match(path):
                problems.append(f"{where}: CUDA header {path} under src/")
            elif SERVER_HEADER.match(path) and not (path.startswith(("common/", "port/")) and target):
                if layer not in SERVER_SIDE:
                    problems.append(f"{where}: server header {path} in {layer}")
            elif quote == '"' and layer not in SERVER_SIDE:
                problems.append(f"{where}: \"{path}\" is no file of this tree (paths are rooted at src/ or gpu/)")
            elif quote == '"' and "/" not in path and tree_has(tree, name, path):
                problems.append(f"{where}: write \"{path}\" with its folder, rooted at src/")
    for name in tree.matching("src/", ".cu", ".cuh"):
        problems.append(f"{name}: CUDA source under src/")
    return problems


def tree_has(tree, name, path):
    return posixpath.join(posixpath.dirname(name), path) in tree.file_set


def direction_problem(where, name, layer, target):
    goal = layer_of(target)
    if layer == "src":
        return [] if goal in MODULE_ENTRY else [f"{where}: the module's entry may not include {target}"]
    for sources, targets in MAY_NOT_INCLUDE:
        if name.startswith(sources) and target.startswith(targets):
            return [f"{where}: {posixpath.dirname(name)} may not include {target}"]
    if goal == layer:
        if layer == "src/am" and method_of(name) != method_of(target):
            return [f"{where}: access method {method_of(name)} includes {target} of another one"]
        return []
    if goal in MAY_INCLUDE[layer] or target.startswith(MAY_INCLUDE_ROOM.get(layer, ())):
        return []
    return [f"{where}: {layer} may not include {target}"]


def cycles(tree):
    """Problems: each circular chain of includes once, named by its members."""
    graph = {}
    for name in source_files(tree):
        targets = (resolve(tree, name, path) for _, quote, path in includes_of(tree, name) if quote == '"')
        graph[name] = sorted({target for target in targets if target is not None})
    done, problems = set(), []
    for start in sorted(graph):
        if start in done:
            continue
        chain, pending = [start], [iter(graph[start])]
        while pending:
            following = next(pending[-1], None)
            if following is None:
                done.add(chain.pop())
                pending.pop()
            elif following in chain:
                problems.append("circular include: " + " -> ".join(chain[chain.index(following):] + [following]))
            elif following not in done:
                chain.append(following)
                pending.append(iter(graph.get(following, [])))
    return problems
