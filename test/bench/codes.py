"""gpuivf by its storages at equal recall, without a GPU: searches a second of one client by the worker's CPU engine and from the pages. All indexes
of a set stand beside each other over the same lists and are searched by turns; each looks at the fewest lists that find the recall."""
import contextlib
import os
import sys

import numpy

import builds
import datasets
import embeddings
import server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gpu"))
from sql_clients import answered, wait_for_worker

SETS = {"sift-bsds-128": 128, "arxiv-lsa-256": 256}
OPERATORS = {"sift-bsds-128": ("<->", "vector_l2_ops")}
COSINE = ("<=>", "vector_cosine_ops")
MOST_ROWS = 150000  # unless --rows asks for more: copies of all indexes are in memory at once
MADE_ROWS, MADE_GROUPS = 50000, 500
NEARLY = 1e-5       # relative: a row of real elements that is no farther counts as near as the 10th best
STORAGES = ("", "storage = 'sq8'", *(f"storage = 'rabitq', bits = {bits}" for bits in (1, 2, 3, 4, 6, 8)),
            "storage = 'sq8', refine = 'none'", "storage = 'rabitq', bits = 2, refine = 'none'", "storage = 'rabitq', bits = 4, refine = 'none'")
RECALLS = (0.95, 0.98)
WAYS = (("worker, CPU engine", "on"), ("pages", "off"))
FASTER = ("storage = 'rabitq', bits = 4", "storage = 'rabitq', bits = 4, refine = 'none'")  # than sq8 of the same refine, by the worker


def real(name, base, queries, synthetic):
    """A set of rows of length 1, whose order by cosine is that by distance."""
    base, queries = (rows / numpy.linalg.norm(rows, axis=1, keepdims=True) for rows in (base, queries))
    return datasets.DataSet(name, base, queries, datasets.kth_by_brute_force(base, queries) * (1 + NEARLY) + NEARLY * NEARLY, synthetic)


def load(folder, name, n_rows, n_queries):
    """The set of the folder; None if it has none."""
    rows = n_rows or MOST_ROWS
    if os.path.exists(os.path.join(folder, f"{name}.base.u8bin.gz")):
        return datasets.load(folder, name, rows, n_queries)
    if not os.path.exists(os.path.join(folder, f"{name}.base.f16bin.gz")):
        return None
    base, queries = (datasets.read_f16bin(os.path.join(folder, f"{name}.{what}.f16bin.gz")) for what in ("base", "query"))
    return real(name, base[:rows], queries[:n_queries], False)


def made(name, n_rows, n_queries):
    """Clusters of bytes in place of SIFT, rows like embeddings in place of others."""
    rows = min(n_rows or MADE_ROWS, MADE_ROWS)
    if name in OPERATORS:
        return datasets.synthetic(SETS[name], rows, n_queries)
    generator = embeddings.generator(embeddings.Law(dims=SETS[name], groups=MADE_GROUPS))
    return real(f"embeddings-{SETS[name]}", generator.rows(0, rows), generator.queries("same", n_queries), True)


class Index:
    """One of the indexes; the planner may take no other."""

    def __init__(self, conn, number, storage, ops):
        self.storage, self.name = storage, f"items_codes{number}"
        self.label = storage.replace("'", "") or "vectors"
        self.build_ms = builds.create_index(conn, f"codes{number}", f"USING gpuivf (v {ops})" + (f" WITH ({storage})" if storage else ""))
        self.bytes = builds.index_bytes(conn, f"codes{number}")
        self.probes = None
        server.prewarm(conn, self.name)

    def allow(self, conn):
        """Only for a throw-away cluster. Plans that the session keeps know nothing of such a change."""
        conn.execute(f"UPDATE pg_index SET indisvalid = indexrelid = '{self.name}'::regclass WHERE indrelid = 'items'::regclass")
        conn.execute("DISCARD PLANS")

    def look_at(self, conn, probes):
        conn.execute(f"SET gpuivf.probes = {probes}")


class Searches:
    """All indexes of a set, searched in one way."""

    def __init__(self, bench, data, operator, indexes):
        self.bench, self.data, self.indexes = bench, data, indexes
        self.sql = f"SELECT id FROM items ORDER BY v {operator} %s::vector LIMIT 10"
        self.texts = [datasets.literal(row) for row in data.queries]

    def recall(self, conn):
        with conn.cursor(binary=True) as cursor:
            return sum(datasets.recall(self.data, number, [row[0] for row in cursor.execute(self.sql, (text,), prepare=True).fetchall()])
                       for number, text in enumerate(self.texts)) / len(self.texts)

    def fewest(self, conn, index, wanted):
        """(probes, recall) of the fewest lists that find the recall; None if all of them do not."""
        least, most, found = 1, 4, None
        while True:
            index.look_at(conn, most)
            found = self.recall(conn)
            if found >= wanted:
                break
            if most > self.data.rows:
                return None
            least, most = most + 1, 2 * most
        best = most, found
        while least < best[0]:
            middle = (least + best[0]) // 2
            index.look_at(conn, middle)
            found = self.recall(conn)
            if found >= wanted:
                best = middle, found
            else:
                least = middle + 1
        return best

    def times(self, conn):
        """{index: milliseconds of each query, the shortest of all rounds}, for those whose probes are known."""
        shortest = {}
        chosen = [index for index in self.indexes if index.probes]
        for number in range(self.bench.options.code_rounds):
            for index in chosen if number % 2 == 0 else reversed(chosen):
                index.allow(conn)
                index.look_at(conn, index.probes[0])
                took = server.query_times(conn, self.sql, self.texts, len(self.texts))
                shortest[index] = numpy.minimum(took, shortest.get(index, numpy.inf))
        return shortest

    def measure(self, way, worker, wanted):
        """The rows of the table of one way and recall."""
        database = self.bench.vectorgpu.database
        with self.bench.vectorgpu.connect(enable_seqscan="off", allow_system_table_mods="on", **{"vectorgpu.worker": worker}) as conn:
            for index in self.indexes:
                index.allow(conn)
                if worker == "on":
                    wait_for_worker(index.name, database)
                server.expect_plan(conn, self.sql, self.texts[0], f"Index Scan using {index.name}")
                index.probes = self.fewest(conn, index, wanted)
                if index.probes is None:
                    self.bench.report.gap("codes", self.data.name, f"{index.label}, {way}, recall {wanted}", "all lists do not find it", False)
            before = answered(database)
            shortest = self.times(conn)
            share = (answered(database) - before) / (self.bench.options.code_rounds * (len(self.texts) + 1) * max(len(shortest), 1))
        if worker == "on" and share < 0.99:
            raise server.BenchError(f"the worker answered {share:.0%} of the scans")
        rates = {index.storage: 1000 / float(times.mean()) for index, times in shortest.items()}
        for index in shortest:
            beside = "storage = 'sq8'" + (", refine = 'none'" if "refine" in index.storage else "")
            target = "more than 1 x" if index.storage in FASTER and worker == "on" else None
            self.bench.report.row(f"codes, recall {wanted}", self.data.name, f"{index.label}: {way}", rates[index.storage], "queries/s",
                                  f"{index.probes[0]} lists", ratio=rates[index.storage] / rates[beside] if beside in rates else None,
                                  ratio_of=beside.replace("'", ""), recall=index.probes[1], target=target, good=lambda x: x is not None and x > 1)


@contextlib.contextmanager
def cpu_worker(conn):
    """A worker with the CPU engine, which the cluster of scripts/bench else has not. conn: a session that has loaded the extension."""
    settings = {"vectorgpu.device": "cpu", "vectorgpu.worker": "on", "vectorgpu.worker_min_size": "0", "vectorgpu.worker_memory": "16GB"}
    for name, value in settings.items():
        conn.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    conn.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        for name in settings:
            conn.execute(f"ALTER SYSTEM RESET {name}")
        conn.execute("SELECT pg_reload_conf()")


def rows(bench, data):
    """All figures of one set."""
    operator, ops = OPERATORS.get(data.name) or (OPERATORS["sift-bsds-128"] if data.base.dtype == numpy.uint8 else COSINE)
    with bench.attempt("codes", data.name, "loading"), bench.vectorgpu.connect() as conn:
        server.load_table(conn, "items", data.base, datasets.copy_binary_blocks(data.base))
        indexes = [Index(conn, number, storage, ops) for number, storage in enumerate(STORAGES)]
        for index in indexes:
            bench.report.row("codes", data.name, f"{index.label}: CREATE INDEX", index.build_ms / 1000, "s", f"{index.bytes / 1e6:.0f} MB")
        searches = Searches(bench, data, operator, indexes)
        with cpu_worker(conn):
            for way, worker in WAYS:
                for wanted in RECALLS:
                    with bench.attempt("codes", data.name, f"{way}, recall {wanted}"):
                        searches.measure(way, worker, wanted)
        conn.execute("DROP TABLE items")
