"""gpuivf by RaBitQ beside product quantisers that take as many bits of a dimension: searches a second by the worker at equal recall targets, with
full vectors for the best candidates, and recall without them. See sql_bench --codes."""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
from sql_clients import answered, line, pgbench, psql, wait_for_worker
from sql_embeddings import REAL, FileSet, MadeSet, begin, measure_sets
from sql_sets import VectorSet, plural

SIFT = "sift-bsds-128"
MADE = (300000, 768, 2000)  # rows, dimensions, groups
TARGETS = (0.95, 0.99)
CLIENTS = (1, 16, 64)
SECONDS = 1  # of a run of pgbench
MORE_RUNS = 3  # times as many with most clients, where sessions are the bound and runs differ by a tenth
CHECKED = 500
BITS = (4, 2)  # of a dimension


def pairs(dims):
    """Storages that are measured in turns: RaBitQ, and the product quantiser whose parts of 8 bits have as many dimensions as such a byte."""
    for bits in BITS:
        yield f"storage = 'rabitq', bits = {bits}", f"storage = 'pq', pq_m = {dims * bits // 8}"
    yield (f"storage = 'rabitq', bits = {BITS[0]}, refine = 'none'",)


class Storage:
    """An index of these rows by one storage."""

    def __init__(self, data, number, storage):
        self.data, self.method, self.label = data, f"codes{number}", f"gpuivf, {storage}".replace("'", "")
        index = f"{data.table}_{self.method}"
        began = time.monotonic()
        psql(f"CREATE INDEX {index} ON {data.table} USING gpuivf (v {data.ops}) WITH ({storage})", "vg")
        took = time.monotonic() - began
        line(data.name, self.label, "CREATE INDEX", f"{took:.1f} s", "", psql(f"SELECT pg_size_pretty(pg_relation_size('{index}'))", "vg"))
        self.allow()
        wait_for_worker(index)

    def allow(self):
        self.data.allow(self.method)

    def warm(self):
        """A run that does not count: GPU and connections have rested during the builds."""
        for clients in (max(CLIENTS), min(CLIENTS)):
            self.rate(clients, {"enable_seqscan": "off"})

    def drop(self):
        psql(f"DROP INDEX {self.data.table}_{self.method}", "vg")

    def rate(self, clients, settings):
        """Searches a second, latency in ms, and the share that the worker answered."""
        self.allow()
        before = answered()
        rate, latency = pgbench(self.data.options.work, "vg", "search", self.data.scripts(), clients, SECONDS, settings)
        return rate, latency, min((answered() - before) / max(rate * SECONDS, 1), 1)


def answers(data, indexes, target):
    """Recall, then rates of the indexes in turns. Each turn begins with another index, so that none is always measured cold."""
    settings = {"gpuivf.recall_target": target, "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
    found = {}
    for index in indexes:
        index.allow()
        found[index] = data.recall("vg", settings, CHECKED)
    for clients in CLIENTS:
        runs = {index: [] for index in indexes}
        turns = data.options.runs * (1 if clients < max(CLIENTS) else MORE_RUNS)
        for turn in range(turns):
            for index in indexes if turn % 2 == 0 else reversed(indexes):
                runs[index].append(index.rate(clients, settings))
        for index in indexes:
            rate, latency, _ = sorted(runs[index])[turns // 2]
            least, most = min(runs[index])[0], max(runs[index])[0]
            share = min(run[2] for run in runs[index])
            line(data.name, f"{index.label}, recall_target {target}", plural(clients), f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
                 f"{least:.0f} to {most:.0f}; recall {found[index]:.4f}; {share:.0%} by the worker")


def codes(data):
    """Each pair in turn."""
    for pair in pairs(data.base.shape[1]):
        indexes = [Storage(data, number, storage) for number, storage in enumerate(pair)]
        for index in indexes:
            index.warm()
        for target in TARGETS:
            answers(data, indexes, target)
        for index in indexes:
            index.drop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=0, help="the first N rows of SIFT and of the made set; 0: all")
    parser.add_argument("--sets", default="sift,arxiv,made")
    parser.add_argument("--runs", type=int, default=1, help="of pgbench for each index, whose median counts")
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()

    begin(options)
    rows, dims, groups = MADE
    sets = {"sift": lambda: VectorSet(options, SIFT), "arxiv": lambda: FileSet(options, REAL),
            "made": lambda: MadeSet(options, min(rows, options.rows or rows), dims, groups)}
    return measure_sets(options, (sets[name]() for name in options.sets.split(",")), codes)


if __name__ == "__main__":
    sys.exit(main())
