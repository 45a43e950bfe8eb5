"""Searches with conditions on key columns, under SQL: the rows that pass lie at random, near the queries or far from them. Rates, recall, and the
share of searches by the worker, beside the same index without a condition; tenants (sql_tenants), and pgvector's iterative scans. See sql_bench."""
import argparse
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import datasets
import embeddings
import sql_large
from sql_clients import BenchError, has_pgvector, line, pgbench, psql, wait_for_worker
from sql_embeddings import REAL, FileSet, device
from sql_sets import as_settings, plural, read_u8bin, spread
from sql_tenants import TENANTS, Peer, tenants

SIFT = "sift-bsds-128"
SETS = {"arxiv": REAL, "sift": SIFT, "sift10m": "sift-10m"}  # and their names in the tables
LARGE_ROWS = 10000000  # of the last: SIFT with noise, as sql_large makes it
LOADERS = min(16, os.cpu_count() or 1)
BUILD_SECONDS = 200
QUERIES = 40
JUDGED = 400        # queries for the recall of approximate ways: 40 that find .95 deviate by .016, these by .005
ANCHOR = 7          # rows are near or far by their distance from this one, and so are the queries of these conditions
SHARES = (0.0001, 0.001, 0.01, 0.1, 0.2, 0.5)
PLACES = ("random", "near", "far")
METHODS = ("gpuflat", "gpuivf")
CLIENTS = (1, 16)
FEW = 0.1           # up to this share the rows that pass are compared one by one
TURNS = 3           # of larger shares and of no condition: rates vary from second to second by a fifth
TURN_SECONDS = 0.4
PARTS = ("conditions", "tenants")
KEEP = {"enable_seqscan": "off", "enable_sort": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan"}
PEER = {"enable_seqscan": "off", "enable_sort": "off", "hnsw.iterative_scan": "strict_order", "hnsw.max_scan_tuples": 1000000}


class Vectors:
    """base [n, d], queries [m, d] of a set, uint8 or float32."""

    def __init__(self, options, name):
        self.name, self.table, self.ops = SETS[name], "items_" + SETS[name].replace("-", "_"), "vector_l2_ops"
        if name == "arxiv":
            self.base, self.queries = (FileSet(options, REAL).part(what) for what in ("base", "query"))
            return
        self.base, self.queries = (read_u8bin(options.data, f"{SIFT}.{what}.u8bin") for what in ("base", "query"))
        if name == "sift10m":
            self.base = large(self.base, options.rows or LARGE_ROWS)
        elif options.rows > 0:
            self.base = self.base[:options.rows]


def counts():
    """Answers, and the worker's searches and batches, 0 where it does not say."""
    return [int(number) for number in psql("SELECT answered, coalesce(searches, 0), coalesce(batches, 0) FROM vectorgpu_worker", "vg").split("|")]


def judged(share):
    """How many queries the recall of a condition is measured with; those of few rows are exact."""
    return QUERIES if share is not None and share <= FEW else JUDGED


def in_processes(work, parts):
    """work(*part) for each, in forked processes, which see this one's arrays."""
    with multiprocessing.get_context("fork").Pool(len(parts), signal.signal, (signal.SIGTERM, signal.SIG_DFL)) as pool:
        pool.starmap(work, parts)


def large(base, n_rows):
    """Rows of the set with noise, in memory that all processes share."""
    rows = numpy.frombuffer(mmap.mmap(-1, n_rows * base.shape[1]), numpy.uint8).reshape(n_rows, base.shape[1])
    global MAKING
    MAKING = base, rows
    in_processes(make_part, [(part,) for part in range(LOADERS)])
    return rows


def make_part(part):
    base, rows = MAKING
    for block in range(part, (len(rows) + sql_large.BLOCK - 1) // sql_large.BLOCK, LOADERS):
        made = sql_large.made(base, block, len(rows))
        rows[block * sql_large.BLOCK:block * sql_large.BLOCK + len(made)] = made


def load_part(database, part):
    """Rows of the part by COPY."""
    keyed = LOADING
    begin, end = (keyed.n * number // LOADERS for number in (part, part + 1))
    copy = subprocess.Popen(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c",
                             f"COPY {keyed.table} (id, v, r, side, tenant) FROM STDIN (FORMAT binary)"], stdin=subprocess.PIPE)
    columns = [column[begin:end] for column in (keyed.r, keyed.side, keyed.r % TENANTS)]
    for block in datasets.copy_binary_blocks(keyed.data.base[begin:end], begin, columns):
        copy.stdin.write(block)
    copy.stdin.close()
    if copy.wait() != 0:
        raise BenchError(f"COPY {keyed.table} failed")


class Keyed:
    """A set of vectors in a table with columns r (a random rank), side (the rank by distance from ANCHOR) and tenant."""

    def __init__(self, data, lib):
        self.data, self.lib, self.table = data, lib, data.table + "_keys"
        self.n = len(data.base)
        self.r = numpy.random.default_rng(3).permutation(self.n).astype(numpy.int32)
        anchor = data.base[ANCHOR].astype(numpy.float32)
        self.side = numpy.empty(self.n, numpy.int32)
        self.side[numpy.argsort(self.distances(data.base, anchor), kind="stable")] = numpy.arange(self.n)
        nearest = data.queries[numpy.argsort(self.distances(data.queries, anchor), kind="stable")[:JUDGED]]
        self.queries = {"random": data.queries[:JUDGED], "near": nearest, "far": nearest}
        self.turn = {}  # by clients: the transactions of each in a turn, the same for all that are compared
        self.kth = {}  # by condition: the squared distance of the last row that is to be found

    @staticmethod
    def distances(rows, query):
        found = numpy.empty(len(rows), numpy.float32)
        for first in range(0, len(rows), sql_large.BLOCK):
            wide = rows[first:first + sql_large.BLOCK].astype(numpy.float32)
            found[first:first + sql_large.BLOCK] = (wide * wide).sum(1) - 2 * wide @ query
        return found

    def make(self, database):
        """The table, by several sessions."""
        global LOADING
        began = time.monotonic()
        psql(f"CREATE TABLE {self.table} (id int4, v vector({self.data.base.shape[1]}), r int4, side int4, tenant int4)", database)
        LOADING = self
        in_processes(load_part, [(database, part) for part in range(LOADERS)])
        psql(f"{'VACUUM ' if self.n < LARGE_ROWS else ''}ANALYZE {self.table}", database)
        line(self.data.name, "", f"{self.n} rows loaded", f"{time.monotonic() - began:.1f} s", "", "")

    def build(self, method):
        self.turn.clear()
        began = time.monotonic()
        psql(f"CREATE INDEX {self.table}_i ON {self.table} USING {method} (v {self.data.ops}, r, side, tenant)", "vg", patience=BUILD_SECONDS)
        line(self.data.name, method, "CREATE INDEX, three key columns", f"{time.monotonic() - began:.1f} s", "", "")
        wait_for_worker(f"{self.table}_i")

    def condition(self, place, share):
        """(SQL, mask [n])"""
        if share is None:
            return "true", numpy.ones(self.n, dtype=bool)
        wanted = max(int(self.n * share), 1)  # a tenth is not more than that
        if place == "random":
            return f"r < {wanted}", self.r < wanted
        if place == "near":
            return f"side < {wanted}", self.side < wanted
        return f"side >= {self.n - wanted}", self.side >= self.n - wanted

    def scripts(self, place, where, n=QUERIES):
        return [f"SELECT id FROM {self.table} WHERE {where} ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10;\n" for query in self.queries[place][:n]]

    def recall(self, database, place, share, scripts, mask, settings):
        """recall@10; a row as near as the 10th counts."""
        k = min(10, int(mask.sum()))
        if (place, share) not in self.kth:
            self.kth[place, share] = self.lib.nearest(self.data.base[mask], self.queries[place][:judged(share)], k)[1][:, k - 1]
        kth = self.kth[place, share]
        found = psql(as_settings(settings) + " ".join(f"SELECT coalesce(array_agg(id), '{{}}') FROM ({script.rstrip().rstrip(';')}) s;" for script in scripts),
                     database).splitlines()
        return sum(self.hits(query, ids, most, mask) for query, ids, most in zip(self.queries[place], found, kth)) / (k * len(found))

    def hits(self, query, ids, most, mask):
        """How many of an array of ids, as text, are of rows no farther than the squared distance MOST."""
        ids = numpy.array([int(x) for x in ids.strip("{}").split(",") if x], dtype=int)
        if not mask[ids].all():
            raise BenchError("a row that fails the condition was returned")
        apart = self.data.base[ids].astype(numpy.float64) - query.astype(numpy.float64)
        return int(((apart * apart).sum(1) <= most * (1 + 1e-9) + 1e-9).sum())

    def ways(self, scripts):
        """The ways that EXPLAIN names, of some of the searches."""
        text = psql(as_settings(KEEP) + " ".join(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {script}" for script in scripts[:5]), "vg")
        return ", ".join(sorted({part.split("Filter Way: ")[1].split("  ")[0].strip() for part in text.splitlines() if "Filter Way: " in part}))

    def turns(self, options, place, shares, clients):
        """{share: runs}: all of them by turns, so that what the machine does meanwhile slows none alone. A run: rate, latency, searches
        that were made, of these by the worker, its searches, its batches."""
        runs = {share: [] for share in shares}
        scripts = {share: self.scripts(place, self.condition(place, share)[0]) for share in shares}
        if clients not in self.turn:
            self.turn[clients] = max(int(self.timed(options, scripts[shares[0]], clients)[0] * TURN_SECONDS / clients), QUERIES)
        made = self.turn[clients]
        for _ in range(TURNS):
            for share in shares:
                before = counts()
                rate, latency = pgbench(options.work, "vg", "keys", scripts[share], clients, None, KEEP, "-t", str(made))
                runs[share].append((rate, latency, made * clients, *(after - earlier for after, earlier in zip(counts(), before))))
        return runs

    def timed(self, options, scripts, clients):
        """One run by the clock, as in turns()."""
        before = counts()
        rate, latency = pgbench(options.work, "vg", "keys", scripts, clients, options.seconds, KEEP)
        return rate, latency, rate * options.seconds, *(after - earlier for after, earlier in zip(counts(), before))

    def measure(self, label, options, place):
        """For no condition and each share one row for each number of clients. Those of larger shares, and without a condition, are medians."""
        shares = [None, *options.shares]
        many = [share for share in shares if share is None or share > FEW]
        found = {}
        for share in shares:  # first, so that what is kept of a condition is there when it is timed
            where, mask = self.condition(place, share)
            found[share] = self.recall("vg", place, share, self.scripts(place, where, judged(share)), mask, KEEP)
        runs = {clients: self.turns(options, place, many, clients) for clients in CLIENTS}
        for share in shares:
            scripts = self.scripts(place, self.condition(place, share)[0])
            what = "no condition" if share is None else f"{100 * share:g} % pass, {place}"
            ways = "" if share is None else f"; {self.ways(scripts)}"
            for clients in CLIENTS:
                own = runs[clients][share] if share in many else [self.timed(options, scripts, clients)]
                rate, plain = (float(numpy.median([run[0] for run in of])) for of in (own, runs[clients][None]))
                made, n_answered, searches, batches = numpy.sum([run[2:] for run in own], axis=0)
                line(self.data.name, label, f"{what}, {plural(clients)}", f"{rate:.0f}/s", f"{numpy.median([run[1] for run in own]) * 1000:.0f} us",
                     f"recall {found[share]:.4f}; {rate / plain:.2f} x without; {min(n_answered / max(made, 1), 1):.0%} by the worker, "
                     f"batches of {searches / max(batches, 1):.1f}{ways}{spread(own)}")

    def build_peer(self):
        """The same rows in pgvector's database, under hnsw."""
        self.make("pgv")
        began = time.monotonic()
        psql(f"SET maintenance_work_mem = '4GB'; CREATE INDEX {self.table}_hnsw ON {self.table} USING hnsw (v {self.data.ops})", "pgv", patience=400)
        version = psql("SELECT extversion FROM pg_extension WHERE extname = 'vector'", "pgv")
        line(self.data.name, "pgvector hnsw", f"CREATE INDEX, pgvector {version}", f"{time.monotonic() - began:.1f} s", "", "")

    def peer(self, options):
        """pgvector's hnsw with iterative scans, on the same rows and conditions."""
        for place in PLACES:
            for share in options.shares:
                where, mask = self.condition(place, share)
                scripts = self.scripts(place, where)
                found = self.recall("pgv", place, share, scripts[:10], mask, PEER)
                rate, latency = pgbench(options.work, "pgv", "peer", scripts, 16, options.seconds, PEER)
                line(self.data.name, "pgvector hnsw, iterative", f"{100 * share:g} % pass, {place}, 16 clients", f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
                     f"recall {found:.4f} of 10 queries")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=0, help="the first N rows of sets of bytes, or N made ones; 0: all")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=["arxiv", "sift"], help=f"of {', '.join(SETS)}")
    parser.add_argument("--shares", type=lambda text: [float(share) for share in text.split(",")], default=list(SHARES))
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()

    has_peer = not options.no_peer and has_pgvector()
    for database, extension in (("vg", "vectorgpu"), ("pgv", "vector")):
        if database == "vg" or has_peer:
            psql(f"CREATE DATABASE {database}", "postgres")
            psql(f"CREATE EXTENSION {extension}", database)
    psql(f"ALTER SYSTEM SET vectorgpu.device = '{options.device}'", "vg")
    psql("SELECT pg_reload_conf()", "vg")
    line("data set", "index", "what", "rate", "latency", "note")
    line(*["---"] * 6)
    lib = embeddings.generator(embeddings.Law(dims=2, groups=1), device()).lib
    failed = 0
    for name in options.sets:
        began = time.monotonic()
        data = Vectors(options, name)
        keyed = Keyed(data, lib)
        line(data.name, "", "made", f"{time.monotonic() - began:.1f} s", "", "")
        keyed.make("vg")
        if has_peer:
            keyed.build_peer()
        peer = Peer(keyed) if has_peer and "tenants" in options.only else None
        for method in options.methods:
            try:
                keyed.build(method)
                for place in PLACES if "conditions" in options.only else ():
                    keyed.measure(method, options, place)
                if "tenants" in options.only:
                    tenants(keyed, method, options, KEEP, peer)
            except BenchError as error:
                failed += 1
                line(data.name, method, "failed", "", "", str(error).replace("\n", " "))
            psql(f"DROP INDEX IF EXISTS {keyed.table}_i", "vg")
        if has_peer and "conditions" in options.only:
            keyed.peer(options)
        psql(f"DROP TABLE {keyed.table}", "vg")
    worker = psql("SELECT engine || ', ' || device || '; ' || filters_made || ' sets of rows that pass made, found ' || filters_found FROM vectorgpu_worker", "vg")
    print(f"\nWorker: {worker}.")
    return 0 if failed == 0 and (options.device == "cpu" or worker.startswith("cuda")) else 1


if __name__ == "__main__":
    sys.exit(main())
