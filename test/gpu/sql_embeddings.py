"""Real-valued rows under SQL: rows like embeddings (test/bench/embeddings.py) and, where the data folder has it, arxiv-lsa-256.
gpuflat, also over the same rows as halfvec; gpugraph and gpuivf at the default target and at .9, .95, .98: recall of queries of the
same law that are not rows, the share of scans that looked at all rows, and searches a second. See sql_bench."""
import argparse
import os
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import embeddings
from sql_clients import BenchError, content, line, psql
from sql_sets import VectorSet

MADE = ((60000, 384, 300), (1000000, 768, 2000))  # rows, dimensions, groups
REAL = "arxiv-lsa-256"
METHODS = ("gpuflat", "gpugraph", "gpuivf")
TARGETS = (0, 0.9, 0.95, 0.98)  # 0: the default
QUERIES = 1000
CHECKED = 500


def device():
    """The device that torch makes rows on, or None: numpy does."""
    try:
        import torch
    except ImportError:
        return None
    return "cuda" if torch.cuda.is_available() else None


class RealSet(VectorSet):
    """base, queries float32 of length 1."""

    def make(self):
        if self.base is None:
            self.base, self.queries, self.truth = self.read()
            self.load("vg")

    def read(self):
        raise NotImplementedError

    def as_halves(self):
        """The same rows as halfvec, in a table of their own."""
        halves = VectorSet(self.options, self.name + ", halfvec")
        halves.table, halves.ops, halves.squared = self.table + "_half", "halfvec_l2_ops", self.squared
        halves.base, halves.queries, halves.truth = self.base, self.queries, self.truth
        for end in ("", "_q"):
            psql(f"CREATE TABLE {halves.table}{end} (id int4, v halfvec({self.base.shape[1]}))", "vg")
            psql(f"INSERT INTO {halves.table}{end} SELECT id, v FROM {self.table}{end}", "vg")
            psql(f"VACUUM ANALYZE {halves.table}{end}", "vg")
        return halves

    def squared(self, rows, query):
        difference = self.base[rows].astype(numpy.float64) - query.astype(numpy.float64)
        return numpy.round((difference * difference).sum(1), 6)


class MadeSet(RealSet):
    def __init__(self, options, rows, dims, groups):
        super().__init__(options, f"{rows}x{dims}-in-{groups}")
        self.n_rows, self.law = rows, embeddings.Law(dims=dims, groups=groups)

    def read(self):
        made = embeddings.generator(self.law, device())
        base = numpy.empty((self.n_rows, self.law.dims), numpy.float32)
        for first in range(0, self.n_rows, embeddings.BLOCK_ROWS):
            n = min(embeddings.BLOCK_ROWS, self.n_rows - first)
            base[first:first + n] = made.rows(first, n)
        queries = made.queries("same", QUERIES)
        return base, queries, made.lib.nearest(base, queries, embeddings.TRUTH)[0]


class FileSet(RealSet):
    """A .f16bin set of the data folder, its rows divided by their length."""

    def __init__(self, options, name):
        super().__init__(options, name)
        self.file = name

    def part(self, what):
        data = content(self.options.data, f"{self.file}.{what}.f16bin")
        n, d = (int(value) for value in numpy.frombuffer(data, "<u4", 2))
        rows = numpy.frombuffer(data, "<f2", n * d, offset=8).reshape(n, d).astype(numpy.float32)
        return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)

    def read(self):
        base, queries = self.part("base"), self.part("query")
        lib = embeddings.generator(embeddings.Law(dims=2, groups=1), device()).lib
        return base, queries, lib.nearest(base, queries, embeddings.TRUTH)[0]


def measure_exact(data):
    """Exact searches of the rows as float32 and as halfvec."""
    data.build("gpuflat")
    data.rates("gpuflat", {})
    halves = data.as_halves()
    try:
        halves.build("gpuflat")
        halves.rates("gpuflat", {})
    finally:
        psql(f"DROP TABLE {halves.table}, {halves.table}_q", "vg")


def measure(data, method):
    """Lines of one access method. Returns how many failed."""
    try:
        if method == "gpuflat":
            measure_exact(data)
            return 0
        data.build(method)
        size = int(psql(f"SELECT pg_relation_size('{data.table}_{method}')", "vg"))
        line(data.name, method, "size", f"{size / 1e6:.0f} MB", "", "")
        for target in data.options.targets:
            settings = {} if not target else {f"{method}.recall_target": target}
            label = f"{method}, {'default target' if not target else f'recall_target {target}'}"
            if data.options.rates or target in (0, 0.95):
                data.rates(label, settings)
            else:
                found = data.recall("vg", {"enable_seqscan": "off", **settings}, CHECKED)
                line(data.name, label, f"{CHECKED} queries", "", "", f"recall {found:.4f}")
    except BenchError as error:
        line(data.name, method, "failed", "", "", str(error).replace("\n", " "))
        return 1
    return 0


def begin(options):
    """The database, and the head of the table."""
    psql("CREATE DATABASE vg", "postgres")
    psql("CREATE EXTENSION vectorgpu", "vg")
    psql(f"ALTER SYSTEM SET vectorgpu.device = '{options.device}'", "vg")
    psql("SELECT pg_reload_conf()", "vg")
    line("data set", "index", "what", "rate", "latency", "note")
    line(*["---"] * 6)


def finish(options, failed):
    """The worker's line. Returns the exit status: a failure too if the worker did not compute on the device asked for."""
    worker = psql("SELECT engine || ', ' || device FROM vectorgpu_worker", "vg")
    print(f"\nWorker: {worker}.")
    return 0 if failed == 0 and (options.device == "cpu" or worker.startswith("cuda")) else 1


def measure_sets(options, sets, measure_set):
    """Make and measure each set; one that fails prints a line, and the others go on. Then the worker's line. Returns the exit status."""
    failed = 0
    for data in sets:
        try:
            data.make()
            measure_set(data)
        except BenchError as error:
            failed += 1
            line(data.name, "", "failed", "", "", str(error).replace("\n", " "))
    return finish(options, failed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=0, help="leave out made sets of more rows")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rates", action="store_true", help="searches a second at every target, not at .95 and the default alone")
    parser.add_argument("--targets", type=lambda text: [float(target) for target in text.split(",")], default=list(TARGETS))
    parser.add_argument("--label", default="")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    options = parser.parse_args()

    begin(options)
    sets = [MadeSet(options, *made) for made in MADE if options.rows == 0 or made[0] <= options.rows]
    if any(os.path.exists(os.path.join(options.data, f"{REAL}.base.f16bin{end}")) for end in ("", ".gz")):
        sets.insert(1, FileSet(options, REAL))
    failed = 0
    for data in sets:
        data.name += options.label and f", {options.label}"
        began = time.monotonic()
        data.make()
        line(data.name, "", "made and loaded", f"{time.monotonic() - began:.1f} s", "", "")
        for method in options.methods:
            failed += measure(data, method)
        psql(f"DROP TABLE {data.table}, {data.table}_q", "vg")
        data.base = None
    return finish(options, failed)


if __name__ == "__main__":
    sys.exit(main())
