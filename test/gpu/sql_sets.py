"""The parts of sql_bench about sets of vectors: exact and approximate searches, searches beside inserts, and pgvector's on the same rows."""
import json
import statistics
import subprocess
import time

import numpy

import datasets
from sql_clients import BenchError, answered, content, line, pgbench, pgbench_command, psql, rate_of, wait_for_worker

CHECKED = 200  # queries whose answers are compared with the ground truth
FEWER_QUERIES = 4000  # queries kept with fewer rows than the set has, whose neighbours are found by brute force
GRAPH_ROWS = 500  # rows whose neighbours in the k-NN graph are compared with brute force
LOOKED_AT = 20  # queries that are checked for having looked at all rows
SCRIPTS = 100  # different queries of a run of pgbench, each a prepared statement
INSERT_RATE = 5000
APPROXIMATE = (("gpuivf", 0.98), ("gpugraph", 0.985))  # and their recall targets
APPROXIMATE_OF = {"fashion-mnist-784": (("gpuivf", 0.98), ("gpugraph", 0.995))}  # sets with other targets
LEAST_RECALL = {"gpuivf": 0.98}  # below this a higher target is used: builds draw samples, and meet targets on average
MOST_ASKED = 0.995
CLIENTS = (1, 16, 64)


def read_u8bin(folder, name):
    """[n, d] uint8: uint32 n, uint32 d, then the rows."""
    data = content(folder, name)
    n, d = (int(value) for value in numpy.frombuffer(data, "<u4", 2))
    return numpy.frombuffer(data, numpy.uint8, n * d, offset=8).reshape(n, d)


def read_truth(folder, name):
    """[n_queries, 100] rows, nearest first."""
    data = content(folder, name)
    n, k = (int(value) for value in numpy.frombuffer(data, "<u4", 2))
    return numpy.frombuffer(data, "<u4", n * k, offset=8).reshape(n, k)


def nearest(base, queries, k=10):
    """[n_queries, k] rows, nearest first, by float32 sums, which are exact for whole numbers below 2^24: bytes of up to 258 dimensions."""
    rows = base.astype(numpy.float32)
    norms = (rows * rows).sum(1)
    found = []
    for first in range(0, len(queries), 500):
        block = queries[first:first + 500].astype(numpy.float32)
        scores = norms - 2 * block @ rows.T
        best = numpy.argpartition(scores, k, axis=1)[:, :k]
        found.append(numpy.take_along_axis(best, numpy.argsort(numpy.take_along_axis(scores, best, axis=1), axis=1), axis=1))
    return numpy.concatenate(found)


def load(database, table, rows):
    psql(f"CREATE TABLE {table} (id int4, v vector({rows.shape[1]}))", database)
    copy = subprocess.Popen(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c",
                             f"COPY {table} FROM STDIN (FORMAT binary)"], stdin=subprocess.PIPE)
    for block in datasets.copy_binary_blocks(rows):
        copy.stdin.write(block)
    copy.stdin.close()
    if copy.wait() != 0:
        raise BenchError(f"COPY {table} failed")
    psql(f"VACUUM ANALYZE {table}", database)


def as_settings(settings):
    return "".join(f"SET {key} = '{value}'; " for key, value in settings.items())


def exhaustive_share(scripts, settings):
    """Share of the scans of these SELECTs that looked at all rows."""
    explained = psql(as_settings(settings) + " ".join(f"EXPLAIN (ANALYZE, FORMAT JSON) {script}" for script in scripts), "vg").strip()
    plans, at = [], 0
    while at < len(explained):
        plan, at = json.JSONDecoder().raw_decode(explained, at)
        plans.append(json.dumps(plan))
        while at < len(explained) and explained[at].isspace():
            at += 1
    return sum('"Exhaustive": 0' not in plan for plan in plans) / len(plans)


def plural(number, word="client"):
    return f"{number} {word}{'' if number == 1 else 's'}"


def spread(runs):
    """The slowest and the fastest of several runs, each a tuple of a rate and more."""
    return f"; {min(run[0] for run in runs):.0f} to {max(run[0] for run in runs):.0f}/s" if len(runs) > 1 else ""


class VectorSet:
    """base [n, d], queries [m, d] uint8, truth [m, 100] rows. Its table has as many indexes as parts have made; `allow` says which one the
    planner may take."""

    def __init__(self, options, name):
        self.options, self.name, self.table = options, name, "items_" + name.replace("-", "_")
        self.ops = "vector_l2_ops"
        self.keep = {"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}
        self.base = self.queries = self.truth = None

    def make(self):
        """Read the set and load it, at the first call."""
        if self.base is not None:
            return
        self.base, self.queries = (read_u8bin(self.options.data, f"{self.name}.{what}.u8bin") for what in ("base", "query"))
        if 0 < self.options.rows < len(self.base):
            self.base, self.queries = self.base[:self.options.rows], self.queries[:FEWER_QUERIES]
            self.truth = nearest(self.base, self.queries)
        else:
            self.truth = read_truth(self.options.data, f"{self.name}.gt100.bin")
        self.load("vg")

    def load(self, database):
        load(database, self.table, self.base)
        load(database, self.table + "_q", self.queries)
        psql(f"CREATE UNIQUE INDEX ON {self.table}_q (id)", database)

    def build(self, method):
        """Create the index, unless it exists, and wait for the worker's copy. The planner may use no other."""
        index = f"{self.table}_{method}"
        if psql(f"SELECT to_regclass('{index}') IS NULL", "vg") == "t":
            began = time.monotonic()
            psql(f"CREATE INDEX {index} ON {self.table} USING {method} (v {self.ops})", "vg")
            line(self.name, method, "CREATE INDEX", f"{time.monotonic() - began:.1f} s", "", "")
        self.allow(method)
        wait_for_worker(index)

    def allow(self, method):
        """Only for a throw-away cluster."""
        psql(f"SET allow_system_table_mods = on; UPDATE pg_index SET indisvalid = indexrelid = '{self.table}_{method}'::regclass "
             f"WHERE indrelid = '{self.table}'::regclass", "vg")

    def scripts(self):
        return [f"SELECT id FROM {self.table} ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10;\n" for query in self.queries[:SCRIPTS]]

    def squared(self, rows, query):
        """Squared distances of rows [n] to a query."""
        return ((self.base[rows].astype(numpy.int64) - query.astype(numpy.int64)) ** 2).sum(1)

    def hits(self, database, settings, checked=CHECKED):
        """How many of the 10 nearest each of the first queries finds, [checked]; a row as near as the 10th counts."""
        checked = min(checked, len(self.queries))
        found = psql(as_settings(settings) + "SELECT q.id, (SELECT array_agg(id) FROM "
                     f"(SELECT id FROM {self.table} ORDER BY v <-> q.v LIMIT 10) s) FROM (SELECT * FROM {self.table}_q WHERE id < {checked}) q", database)
        hits = numpy.zeros(checked)
        for row in found.splitlines():
            number, ids = row.split("|")
            query = self.queries[int(number)]
            kth = self.squared(self.truth[int(number)][:10], query).max()
            hits[int(number)] = (self.squared(numpy.array(sorted({int(x) for x in ids.strip("{}").split(",")})), query) <= kth).sum()
        return hits

    def recall(self, database, settings, checked=CHECKED):
        """recall@10 of the first queries."""
        return self.hits(database, settings, checked).mean() / 10

    def rates(self, label, settings):
        """Clients of the worker. A search of a graph may look at all rows: the note has the share of such scans."""
        found = self.recall("vg", {"enable_seqscan": "off", **settings})
        exhaustive = ""
        if label.startswith("gpugraph"):
            exhaustive = f"; {exhaustive_share(self.scripts()[:LOOKED_AT], {'enable_seqscan': 'off', **settings}):.0%} of the scans came to look at all rows"
        for clients in CLIENTS:
            before = answered()
            rate, latency = pgbench(self.options.work, "vg", "search", self.scripts(), clients, self.options.seconds, {**self.keep, **settings})
            share = (answered() - before) / max(rate * self.options.seconds, 1)
            line(self.name, label, plural(clients), f"{rate:.0f}/s", f"{latency * 1000:.0f} us", f"recall {found:.4f}; {min(share, 1):.0%} by the worker{exhaustive}")


def approximate_label(method, target):
    return f"{method}, recall_target {target}", {f"{method}.recall_target": target}


def exact(data, figures):
    """Exact searches with the server's own settings, and copies of the index."""
    data.build("gpuflat")
    data.rates("gpuflat", {})
    figures.copying(f"{data.table}_gpuflat", f", {data.name}", times=4)


def enough(data, method, target):
    """The target, or the least above it, in steps of 0.005, that reaches LEAST_RECALL."""
    while target < MOST_ASKED and data.recall("vg", {"enable_seqscan": "off", **approximate_label(method, target)[1]}) < LEAST_RECALL.get(method, 0):
        target = round(target + 0.005, 3)
    return target


def approximate(data):
    """The same searches by approximate access methods. Returns how many methods failed."""
    failed = 0
    for method, target in APPROXIMATE_OF.get(data.name, APPROXIMATE):
        try:
            data.build(method)
            data.rates(*approximate_label(method, enough(data, method, target)))
        except BenchError as error:
            failed += 1
            line(data.name, method, "failed", "", "", str(error).replace("\n", " "))
    return failed


def graph_recall(data, index, sets):
    """Share of the 10 nearest other rows that the graph has of the table's first GRAPH_ROWS rows, and how many these are; a row as near as the
    10th counts. Squared distances are whole numbers, which float32 holds exactly below 2^24."""
    edges = psql(f"{sets}SELECT s.id, t.id FROM (SELECT (g).* FROM (SELECT vectorgpu_knn_graph('{index}', 10) AS g OFFSET 0) x LIMIT {10 * GRAPH_ROWS}) e "
                 f"JOIN {data.table} s ON s.ctid = e.source JOIN {data.table} t ON t.ctid = e.target", "vg")
    targets = {}
    for edge in edges.splitlines():
        source, target = (int(part) for part in edge.split("|"))
        targets.setdefault(source, set()).add(target)
    chosen = numpy.array(sorted(targets))
    kind = numpy.float32 if data.base.shape[1] * 255 ** 2 < 1 << 24 else numpy.float64
    asked = data.base[chosen].astype(kind)
    norms = (asked ** 2).sum(1)[:, None]
    best = numpy.full((len(chosen), 10), numpy.inf, dtype=kind)
    for first in range(0, len(data.base), 20000):
        block = data.base[first:first + 20000].astype(kind)
        squared = norms + (block ** 2).sum(1)[None, :] - 2 * (asked @ block.T)
        own = numpy.flatnonzero((chosen >= first) & (chosen < first + len(block)))
        squared[own, chosen[own] - first] = numpy.inf
        best = numpy.partition(numpy.concatenate([best, squared], axis=1), 9, axis=1)[:, :10]
    hits = 0
    for row, kth in zip(chosen, best.max(axis=1)):
        found = data.base[numpy.array(sorted(targets[row]))].astype(numpy.int64) - data.base[row]
        hits += int(((found ** 2).sum(1) <= kth).sum())
    return hits / (10 * len(chosen)), len(chosen)


def neighbours(data):
    """The k-NN graph of the whole table, k = 10, by gpugraph."""
    data.build("gpugraph")
    index = f"{data.table}_gpugraph"
    sets = as_settings({"enable_seqscan": "off", **approximate_label(*APPROXIMATE[1])[1]})
    began = time.monotonic()
    try:
        edges = psql(f"{sets}SET statement_timeout = '40s'; SELECT count(*) FROM vectorgpu_knn_graph('{index}', 10)", "vg")
    except BenchError:
        line(data.name, "gpugraph", "k-NN graph of the table, k = 10", "", "", "not done within 40 s")
        return
    took = time.monotonic() - began
    found, judged = graph_recall(data, index, sets)
    line(data.name, "gpugraph", "k-NN graph of the table, k = 10", f"{took:.1f} s", "", f"{edges} edges; recall {found:.4f} of the first {judged} rows'")


def beside_inserts(data):
    """16 clients search exactly, alone and while others insert INSERT_RATE rows a second, in turn. Removes the index and the rows afterwards."""
    data.build("gpuflat")
    options, script = data.options, data.scripts()
    insert = (f"\\set i random(0, {min(len(data.queries), 10000) - 1})\n"
              f"INSERT INTO {data.table} SELECT -1, v FROM {data.table}_q WHERE id = :i;\n")
    alone, beside, rates = [], [], []
    for _ in range(2):
        alone.append(pgbench(options.work, "vg", "search", script, 16, options.seconds, data.keep)[0])
        command, environment = pgbench_command(options.work, "vg", "insert", insert, 4, options.seconds + 2, {}, "-R", str(INSERT_RATE))
        inserts = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        time.sleep(1)
        beside.append(pgbench(options.work, "vg", "search", script, 16, options.seconds, data.keep)[0])
        out, err = inserts.communicate()
        rates.append(rate_of(subprocess.CompletedProcess(command, inserts.returncode, out, err))[0])
    cost = 1 - statistics.median(b / a for a, b in zip(alone, beside))
    line(data.name, "gpuflat", f"16 clients beside {statistics.median(rates):.0f} inserts/s", f"{statistics.median(beside):.0f}/s", "",
         f"alone {statistics.median(alone):.0f}/s: {cost:.1%} less")
    psql(f"DROP INDEX {data.table}_gpuflat", "vg")
    psql(f"DELETE FROM {data.table} WHERE id = -1", "vg")
    psql(f"VACUUM {data.table}", "vg")


def peer(data, curves=None, search=100):
    """pgvector's hnsw (m 16, ef_construction 64), and the curves of pgvector's indexes, if requested."""
    data.load("pgv")
    began = time.monotonic()
    psql(f"CREATE INDEX ON {data.table} USING hnsw (v vector_l2_ops)", "pgv")
    line(data.name, "pgvector hnsw", "CREATE INDEX", f"{time.monotonic() - began:.1f} s", "", "")
    keep = {"enable_seqscan": "off", "hnsw.ef_search": search}
    found = data.recall("pgv", keep)
    for clients in CLIENTS:
        rate, latency = pgbench(data.options.work, "pgv", "peer", data.scripts(), clients, data.options.seconds, keep)
        line(data.name, f"pgvector hnsw, ef_search {search}", plural(clients), f"{rate:.0f}/s", f"{latency * 1000:.0f} us", f"recall {found:.4f}")
    if curves is not None:
        curves.hnsw()
        curves.ivfflat()
    psql(f"DROP TABLE {data.table}, {data.table}_q", "pgv")
