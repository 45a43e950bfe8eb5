"""Recall against throughput of 16 clients: ours by the worker, pgvector's on the same rows, and a picture of both. The throughput at a given
recall, and how far the measured recall is from a target."""
import os
import time

import svg
from sql_clients import line, pgbench, psql

CLIENTS = 16
SECONDS = 2
CHECKED = 1000  # queries that ours is judged by: a recall of .9 has a standard error of about .004
CHECKED_PEER = 300  # they take long
EXACT = 0.9995  # the end of a curve
TARGETS = (0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
FAR = 0.9  # targets from here on have to be met
OURS = (("gpuflat", None, (None,)), ("gpuivf", "gpuivf.recall_target", TARGETS), ("gpugraph", "gpugraph.recall_target", TARGETS))
HNSW = ("hnsw.ef_search", (20, 40, 80, 160, 320))
IVFFLAT = ("ivfflat.probes", (2, 4, 8, 16, 32, 64))


class Curves:
    """Of one set of vectors: {label: [(recall@10, queries/s), …]}."""

    def __init__(self, data):
        self.data = data
        self.found = {}

    def measure(self, label, database, parameter, values, checked):
        """[(value, recall@10)] in the order of the values, until nothing is missed."""
        reached = []
        checked = min(checked, len(self.data.queries))
        curve = self.found.setdefault(label, [])
        for value in values:
            settings = {"enable_seqscan": "off", **({parameter: value} if parameter else {})}
            recall = self.data.recall(database, settings, checked)
            rate, latency = pgbench(self.data.options.work, database, "curve", self.data.scripts(), CLIENTS, SECONDS,
                                    {**self.data.keep, **settings})
            what = f"{parameter.split('.')[1]} {value}" if parameter else "exact"
            line(self.data.name, f"{label}: curve", f"{what}, {CLIENTS} clients", f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
                 f"recall {recall:.4f} of {checked} queries")
            curve.append((recall, rate))
            reached.append((value, recall))
            if recall >= EXACT:
                break
        return reached

    def ours(self):
        for method, parameter, values in OURS:
            self.data.build(method)
            reached = self.measure(method, "vg", parameter, values, CHECKED)
            off = [abs(recall - target) for target, recall in reached if target in TARGETS and target >= FAR]
            if off and method == "gpuivf":  # the narrowest search of a graph, or one that looks at all rows, may find far more than the target
                line(self.data.name, method, f"recall targets from {FAR} on: largest difference", f"{max(off):.4f}", "", "of the recalls above")

    def hnsw(self):
        """pgvector's, whose index exists."""
        self.measure("pgvector hnsw", "pgv", *HNSW, CHECKED_PEER)

    def ivfflat(self):
        """pgvector's, in place of the existing indexes."""
        table, lists = self.data.table, max(10, len(self.data.base) // 1000)
        for index in psql(f"SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '{table}'::regclass", "pgv").splitlines():
            psql(f"DROP INDEX {index}", "pgv")
        began = time.monotonic()
        psql(f"CREATE INDEX ON {table} USING ivfflat (v vector_l2_ops) WITH (lists = {lists})", "pgv")
        line(self.data.name, "pgvector ivfflat", "CREATE INDEX", f"{time.monotonic() - began:.1f} s", "", f"{lists} lists")
        self.measure("pgvector ivfflat", "pgv", *IVFFLAT, CHECKED_PEER)

    def draw(self, engine):
        """Write the picture, curves-SET.svg in the folder of the run's files."""
        if not self.found:
            return
        peers = f"; pgvector: {os.cpu_count()} cores" if any(label.startswith("pgvector") for label in self.found) else ""
        title = f"{self.data.name}, {len(self.data.base):,} rows, {CLIENTS} clients, LIMIT 10; gpu…: {engine}{peers}"
        path = os.path.join(self.data.options.work, f"curves-{self.data.name}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(svg.chart(title, "recall@10", "queries/s", self.found))
