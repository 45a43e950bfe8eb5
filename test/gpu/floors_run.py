"""What a run of test/gpu/run has left: the numbers of its logs, and the lines of its tables of SQL clients. For floors.py. Standard library only."""
import glob
import os
import re


class Run:
    """The results of a run: rows of numbers from its logs, and the lines of its tables of SQL clients."""

    def __init__(self, logs, parts):
        self.logs = logs
        self.parts = parts
        self.devices = self.read(os.path.join(parts, "devices.bench"))
        self.clients = []
        named = [os.path.join(parts, name) for name in ("clients.md", "recalls.md", "joins.md", "join-devices.md", "large.md", "embeddings.md", "builds.md", "before-before.md", "before-now.md")]
        for name in named + [path for kind in ("conditions", "codes") for path in sorted(glob.glob(os.path.join(parts, kind + "*.md")))]:
            self.clients += [[cell.strip() for cell in line.strip().strip("|").split("|")]
                             for line in self.read(name) if line.startswith("| ")]

    @staticmethod
    def read(path):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def rows(self, log):
        """The lines of a benchmark's table, which begin with two whole numbers, as lists of words."""
        found = [line.split() for line in self.read(os.path.join(self.logs, log))]
        return [words for words in found if len(words) > 3 and words[0].isdigit() and words[1].isdigit()]

    def number(self, log, pattern, pick=max):
        """The numbers that a pattern's group finds in a log; by default the largest, so that a figure in ms is the worst of its runs."""
        found = [float(match.group(1)) for line in self.read(os.path.join(self.logs, log)) if (match := re.search(pattern, line))]
        return pick(found) if found else None

    def over_one(self, what):
        """How many times faster all GPUs are than one, of a line of devices_bench whose answers are the same."""
        found = (re.match(re.escape(what) + r" +[0-9.]+ +[0-9.]+ +([0-9.]+) same$", line) for line in self.devices)
        return next((float(match.group(1)) for match in found if match), None)

    def client(self, name, index, what, cell=3, name_has="", recall=0.0):
        """A cell of the first line of the clients' tables whose cells begin with these, as a number; RECALL: the least recall in its note."""
        for cells in self.clients:
            if len(cells) > cell and cells[0].startswith(name) and name_has in cells[0] and re.match(index, cells[1]) and re.match(what, cells[2]):
                number = re.match(r"[-+0-9.]+", cells[cell])
                found = re.search(r"recall ([0-9.]+)", cells[-1])
                if number and (not recall or found and float(found.group(1).rstrip(".")) >= recall):
                    return float(number.group(0))
        return None

    def most(self, name, index, what):
        """The largest number of all such lines."""
        found = [float(re.match(r"[0-9.]+", cells[3]).group(0)) for cells in self.clients
                 if len(cells) > 3 and cells[0].startswith(name) and re.match(index, cells[1]) and re.match(what, cells[2]) and re.match(r"[0-9.]+", cells[3])]
        return max(found, default=None)

    def note(self, name, index, what, pattern):
        """A number of the note of such a line."""
        for cells in self.clients:
            if len(cells) > 5 and cells[0].startswith(name) and re.match(index, cells[1]) and re.match(what, cells[2]):
                match = re.search(pattern, cells[5])
                if match:
                    return float(match.group(1))
        return None

    def notes(self, name, what, pattern):
        """The groups of a pattern in the notes of all such lines, as tuples of numbers."""
        return [tuple(float(group) for group in match.groups()) for cells in self.clients
                if len(cells) > 5 and cells[0].startswith(name) and re.search(what, cells[2]) and (match := re.search(pattern, cells[5]))]

    def search(self, log, batch, k):
        """Median ms of a batch of gpu_search_bench."""
        return next((float(words[2]) for words in self.rows(log) if words[:2] == [str(batch), str(k)]), None)

    def over_before(self, log, batch, second, column):
        """The median time of a batch over that of the other version, each the better of its runs. SECOND: k, lists or width."""
        times = [min((float(words[column]) for words in self.rows(f"{version}-{log}") if words[:2] == [str(batch), str(second)]), default=None)
                 for version in ("now", "before")]
        return round(times[0] / times[1], 3) if all(times) else None

    def fastest(self, logs, batch, rate, recall, least):
        """The most queries/s of a batch among the lines with at least this recall; columns RATE and RECALL."""
        found = [float(words[rate]) for log in logs for words in self.rows(log)
                 if len(words) > max(rate, recall) and words[0] == str(batch) and float(words[recall]) >= least]
        return max(found, default=None)
