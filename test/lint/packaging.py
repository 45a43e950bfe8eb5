"""Rules on what packages the tree: the steps of the Dockerfiles are those of the documentation, META.json tells what vectorgpu.control does."""
import json
import re

# The headings whose first ```sh block has the steps, in the order of a Dockerfile's first stage.
STEPS = {
    "packaging/docker/Dockerfile.cpu": [("README.md", "## Install")],
    "packaging/docker/Dockerfile.cuda": [("docs/install.md", "## With a GPU"), ("README.md", "## Install")],
}
META, CONTROLS = "META.json", ("vectorgpu.control", "vectorgpu_pgvector.control")
CMAKE = "CMakeLists.txt"


def documented_steps(tree, page, heading):
    """The commands of the first ```sh block below a heading, without comments; None if there is none."""
    section = f"\n{tree.text(page)}".partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    block = re.search(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    if not block:
        return None
    lines = [re.sub(r"(?:^|\s+)#.*", "", line).strip() for line in block.group(1).split("\n")]
    return [line for line in lines if line]


def docker_steps(text):
    """The commands of RUN in the first stage, in the words of the documentation: for version 15, and without what an image needs besides."""
    stage = re.split(r"^FROM .*\n", text, flags=re.MULTILINE)[1] if re.search(r"^FROM ", text, re.MULTILINE) else ""
    commands = []
    for run in re.findall(r"^RUN (.*)", stage.replace("\\\n", " "), re.MULTILINE):
        for command in re.split(r"\s*&&\s*", run):
            for image, page in (("${PG_MAJOR}", "15"), (" -y --no-install-recommends", ""), ('"', ""), (" CUDA=0", ""), (" DESTDIR=/stage", "")):
                command = command.replace(image, page)
            commands.append(" ".join(command.split()))
    return [command for command in commands if not command.startswith("rm -rf /var/lib/apt/lists/")]


def docker_steps_are_documented(tree):
    """The first stage runs the documented commands in their order; before them a container has to fetch apt's lists."""
    problems = []
    for path, pages in STEPS.items():
        if path not in tree.files:
            continue
        expected = ["apt-get update"]
        for page, heading in pages:
            steps = documented_steps(tree, page, heading)
            if steps is None:
                problems.append(f"{page}: no block of steps below \"{heading}\"")
            expected += steps or []
        steps = docker_steps(tree.text(path))
        problems += [f"{path}: no page has this step here: {step}" for step, other in zip(steps, expected) if step != other][:1]
        if len(steps) != len(expected):
            problems.append(f"{path}: {len(steps)} steps, the documentation has {len(expected)}")
    return problems


def setting_of(tree, path, name):
    match = re.search(rf"^{name} = '([^']*)'", tree.text(path), re.MULTILINE)
    return match.group(1) if match else None


def meta_is_true(tree):
    """META.json is what PGXN takes, with the version, and the extensions and comments, of the control files; CMake has the version as well."""
    if META not in tree.files:
        return []
    try:
        meta = json.loads(tree.text(META))
    except ValueError as error:
        return [f"{META}: {error}"]
    problems = [f"{META}: no \"{key}\"" for key in ("name", "abstract", "version", "maintainer", "license", "provides", "meta-spec") if key not in meta]
    version = setting_of(tree, CONTROLS[0], "default_version")
    if meta.get("version") != version:
        problems.append(f"{META}: version {meta.get('version')}, {CONTROLS[0]} has {version}")
    if not re.search(rf"^project\(vectorgpu VERSION {re.escape(version or '')} ", tree.text(CMAKE), re.MULTILINE):
        problems.append(f"{CMAKE}: another version than {CONTROLS[0]}, {version}")
    status = "unstable" if f"## {version}, not released" in tree.text("CHANGELOG.md") else "stable"
    if meta.get("release_status", "stable") != status:
        problems.append(f"{META}: release_status is not {status}, as CHANGELOG.md says")
    provides = meta.get("provides", {})
    if sorted(f"{name}.control" for name in provides) != sorted(CONTROLS):
        problems.append(f"{META}: provides {sorted(provides)}, there are {CONTROLS}")
    for name, extension in provides.items():
        problems += [f"{META}: no file {extension.get(key)}" for key in ("file", "docfile") if extension.get(key) not in tree.files]
        for key, setting in (("version", "default_version"), ("abstract", "comment")):
            if extension.get(key) != setting_of(tree, f"{name}.control", setting):
                problems.append(f"{META}: another {key} of {name} than {name}.control has")
    return problems
