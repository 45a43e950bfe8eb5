"""The files that the lint rules look at: everything git does not ignore, or, without git, everything but build output."""
import pathlib
import shutil
import subprocess

SKIPPED_FOLDERS = {".git", "build", "results", "tmp_check", "tmp_check_iso", "output_iso", "log"}
SKIPPED_SUFFIXES = {".o", ".d", ".so", ".bc", ".pyc", ".diffs"}


class Tree:
    """Files under root, by path relative to it, in a fixed order; texts are read once."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self._texts = {}
        self.files = sorted(self._list())

    def _list(self):
        git = subprocess.run(
            ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=False) if shutil.which("git") and (self.root / ".git").exists() else None
        if git is not None and git.returncode == 0:
            names = {name for name in git.stdout.decode().split("\0") if name}
            return [name for name in names if (self.root / name).is_file()]
        found = []
        for path in self.root.rglob("*"):
            relative = path.relative_to(self.root)
            if path.is_file() and not self._skipped(relative) and path.suffix not in SKIPPED_SUFFIXES:
                found.append(relative.as_posix())
        return found

    @staticmethod
    def _skipped(relative):
        """As .gitignore: build output lies in the root, src/am/build is source."""
        return relative.parts[0] in SKIPPED_FOLDERS or "__pycache__" in relative.parts

    def matching(self, prefix, *suffixes):
        """Paths that start with prefix and, if suffixes are given, end in one of them."""
        return [name for name in self.files if name.startswith(prefix) and (not suffixes or name.endswith(suffixes))]

    def text(self, name):
        """Contents of a file; undecodable bytes are replaced. Empty for binary files and for absent ones."""
        if name not in self._texts:
            try:
                data = (self.root / name).read_bytes()
            except OSError:
                data = b""
            self._texts[name] = "" if b"\0" in data else data.decode("utf-8", "replace")
        return self._texts[name]

    def lines(self, name):
        """Numbered lines of a file, without their line ends."""
        return list(enumerate(self.text(name).split("\n"), start=1))

    def executable(self, name):
        """Whether the owner may execute the file."""
        return bool((self.root / name).stat().st_mode & 0o100)
