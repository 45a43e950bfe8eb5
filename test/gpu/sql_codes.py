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
CHECKED = 500
BITS = (4, 2)  # of a dimension


def storages(dims):
    """Codes in pairs: RaBitQ, and the product quantiser whose parts of 8 bits have as many dimensions as such a byte."""
    for bits in BITS:
        yield f"storage = 'rabitq', bits = {bits}"
        yield f"storage = 'pq', pq_m = {dims * bits // 8}"
    yield f"storage = 'rabitq', bits = {BITS[0]}, refine = 'none'"


def answers(data, label, target):
    """Recall and rates at a target."""
    settings = {"gpuivf.recall_target": target, "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
    found = data.recall("vg", settings, CHECKED)
    for clients in CLIENTS:
        before = answered()
        runs = sorted(pgbench(data.options.work, "vg", "search", data.scripts(), clients, SECONDS, settings) for _ in range(data.options.runs))
        share = min((answered() - before) / max(sum(rate for rate, _ in runs) * SECONDS, 1), 1)
        rate, latency = runs[len(runs) // 2]
        line(data.name, f"{label}, recall_target {target}", plural(clients), f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
             f"recall {found:.4f}; {share:.0%} by the worker")


def warm(data):
    """A run that does not count: else the first figures were those of a GPU and of connections that have rested during the build."""
    for clients in (max(CLIENTS), min(CLIENTS)):
        pgbench(data.options.work, "vg", "search", data.scripts(), clients, SECONDS, {"enable_seqscan": "off"})


def codes(data):
    """Each storage in turn."""
    for storage in storages(data.base.shape[1]):
        index, label = f"{data.table}_codes", f"gpuivf, {storage}".replace("'", "")
        began = time.monotonic()
        psql(f"CREATE INDEX {index} ON {data.table} USING gpuivf (v {data.ops}) WITH ({storage})", "vg")
        took = time.monotonic() - began
        size = psql(f"SELECT pg_size_pretty(pg_relation_size('{index}'))", "vg")
        line(data.name, label, "CREATE INDEX", f"{took:.1f} s", "", size)
        data.allow("codes")
        wait_for_worker(index)
        warm(data)
        for target in TARGETS:
            answers(data, label, target)
        psql(f"DROP INDEX {index}", "vg")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=0, help="the first N rows of SIFT and of the made set; 0: all")
    parser.add_argument("--sets", default="sift,arxiv,made")
    parser.add_argument("--runs", type=int, default=1, help="of pgbench, whose median counts")
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()

    begin(options)
    rows, dims, groups = MADE
    sets = {"sift": lambda: VectorSet(options, SIFT), "arxiv": lambda: FileSet(options, REAL),
            "made": lambda: MadeSet(options, min(rows, options.rows or rows), dims, groups)}
    return measure_sets(options, (sets[name]() for name in options.sets.split(",")), codes)


if __name__ == "__main__":
    sys.exit(main())
