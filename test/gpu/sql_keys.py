"""Searches with conditions on key columns, under SQL: the rows that pass lie at random, near the queries or far from them. Rates, recall, and the
share of searches by the worker, beside the same index without a condition; tenants, and pgvector's iterative scans. See sql_bench."""
import argparse
import os
import subprocess
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import datasets
import embeddings
from sql_clients import BenchError, answered, has_pgvector, line, pgbench, psql, wait_for_worker
from sql_embeddings import REAL, FileSet, device
from sql_sets import VectorSet, as_settings, load, plural

SIFT = "sift-bsds-128"
QUERIES = 40
ANCHOR = 7          # rows are near or far by their distance from this one, and so are the queries of these conditions
SHARES = (0.0001, 0.001, 0.01, 0.1, 0.2, 0.5)
PLACES = ("random", "near", "far")
METHODS = ("gpuflat", "gpuivf")
CLIENTS = (1, 16)
TENANTS = 200       # of .5 % of the rows each
TENANT_CLIENTS = 64
KEEP = {"enable_seqscan": "off", "enable_sort": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan"}
PEER = {"enable_seqscan": "off", "enable_sort": "off", "hnsw.iterative_scan": "strict_order", "hnsw.max_scan_tuples": 1000000}


class Keyed:
    """A set of vectors in a table with columns r (a random rank), side (the rank by distance from ANCHOR) and tenant."""

    def __init__(self, data, lib):
        self.data, self.lib, self.table = data, lib, data.table + "_keys"
        self.n = len(data.base)
        self.real = data.base.dtype != numpy.uint8
        self.r = numpy.random.default_rng(3).permutation(self.n)
        anchor = data.base[ANCHOR:ANCHOR + 1].astype(numpy.float32)
        self.side = numpy.empty(self.n, numpy.int64)
        self.side[numpy.argsort(self.distances(data.base, anchor[0]), kind="stable")] = numpy.arange(self.n)
        nearest = numpy.argsort(self.distances(data.queries, anchor[0]), kind="stable")[:QUERIES]
        self.queries = {"random": data.queries[:QUERIES], "near": data.queries[nearest], "far": data.queries[nearest]}

    @staticmethod
    def distances(rows, query):
        wide = rows.astype(numpy.float32)
        return (wide * wide).sum(1) - 2 * wide @ query

    def make(self, database):
        """The table, from that of the set."""
        columns = subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c",
                                  f"CREATE TABLE {self.table}_of (id int4, r int4, side int4)", "-c", f"COPY {self.table}_of FROM STDIN"],
                                 input="".join(f"{i}\t{a}\t{b}\n" for i, (a, b) in enumerate(zip(self.r, self.side))).encode(), check=False)
        if columns.returncode != 0:
            raise BenchError("COPY of the columns failed")
        psql(f"CREATE TABLE {self.table} AS SELECT id, v, r, side, r % {TENANTS} AS tenant FROM {self.data.table} JOIN {self.table}_of USING (id) ORDER BY id; "
             f"DROP TABLE {self.table}_of", database)
        psql(f"VACUUM ANALYZE {self.table}", database)

    def build(self, method):
        began = time.monotonic()
        psql(f"CREATE INDEX {self.table}_i ON {self.table} USING {method} (v {self.data.ops}, r, side, tenant)", "vg")
        line(self.data.name, method, "CREATE INDEX, three key columns", f"{time.monotonic() - began:.1f} s", "", "")
        wait_for_worker(f"{self.table}_i")

    def condition(self, place, share):
        """(SQL, mask [n])"""
        wanted = max(round(self.n * share), 1)
        if place == "random":
            return f"r < {wanted}", self.r < wanted
        if place == "near":
            return f"side < {wanted}", self.side < wanted
        return f"side >= {self.n - wanted}", self.side >= self.n - wanted

    def scripts(self, place, where):
        return [f"SELECT id FROM {self.table} WHERE {where} ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10;\n" for query in self.queries[place]]

    def recall(self, database, place, scripts, mask, settings):
        """recall@10; a row as near as the 10th counts."""
        rows = numpy.flatnonzero(mask)
        k = min(10, len(rows))
        kth = self.lib.nearest(self.data.base[rows], self.queries[place], k)[1][:, k - 1]
        found = psql(as_settings(settings) + " ".join(f"SELECT coalesce(array_agg(id), '{{}}') FROM ({script.rstrip().rstrip(';')}) s;" for script in scripts),
                     database).splitlines()
        hits = 0
        for query, ids, most in zip(self.queries[place], found, kth):
            ids = numpy.array([int(x) for x in ids.strip("{}").split(",") if x], dtype=int)
            if not mask[ids].all():
                raise BenchError("a row that fails the condition was returned")
            apart = self.data.base[ids].astype(numpy.float64) - query.astype(numpy.float64)
            hits += int(((apart * apart).sum(1) <= most * (1 + 1e-9) + 1e-9).sum())
        return hits / (k * len(found))

    def ways(self, scripts):
        """The ways that EXPLAIN names, of some of the searches."""
        text = psql(as_settings(KEEP) + " ".join(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {script}" for script in scripts[:5]), "vg")
        return ", ".join(sorted({part.split("Filter Way: ")[1].split("  ")[0].strip() for part in text.splitlines() if "Filter Way: " in part}))

    def measure(self, label, options, place, share, plain):
        """One row for each number of clients. plain: the rates without a condition by clients, filled by share None."""
        where, mask = ("true", numpy.ones(self.n, dtype=bool)) if share is None else self.condition(place, share)
        what = "no condition" if share is None else f"{100 * share:g} % pass, {place}"
        scripts = self.scripts(place, where)
        found = self.recall("vg", place, scripts, mask, KEEP)
        ways = "" if share is None else f"; {self.ways(scripts)}"
        for clients in CLIENTS:
            before = answered()
            rate, latency = pgbench(options.work, "vg", "keys", scripts, clients, options.seconds, KEEP)
            by_worker = min((answered() - before) / max(rate * options.seconds, 1), 1)
            if share is None:
                plain[clients] = rate
            line(self.data.name, label, f"{what}, {plural(clients)}", f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
                 f"recall {found:.4f}; {rate / plain[clients]:.2f} x without; {by_worker:.0%} by the worker{ways}")

    def tenants(self, label, options):
        """Clients with a tenant each, in the same run."""
        scripts = [f"SELECT id FROM {self.table} WHERE tenant = :client_id ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10;\n" for query in self.queries["random"]]
        rate, latency = pgbench(options.work, "vg", "tenants", scripts, TENANT_CLIENTS, options.seconds, KEEP)
        line(self.data.name, label, f"{TENANT_CLIENTS} clients, a tenant of .5 % each", f"{rate:.0f}/s", f"{latency * 1000:.0f} us", "")

    def peer(self, options):
        """pgvector's hnsw with iterative scans, on the same rows and conditions."""
        load("pgv", self.data.table, self.data.base)
        self.make("pgv")
        psql(f"SET maintenance_work_mem = '4GB'; CREATE INDEX ON {self.table} USING hnsw (v {self.data.ops})", "pgv", patience=400)
        for place in PLACES:
            for share in SHARES:
                where, mask = self.condition(place, share)
                scripts = self.scripts(place, where)
                found = self.recall("pgv", place, scripts[:10], mask, PEER)
                rate, latency = pgbench(options.work, "pgv", "peer", scripts, 16, options.seconds, PEER)
                line(self.data.name, "pgvector hnsw, iterative", f"{100 * share:g} % pass, {place}, 16 clients", f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
                     f"recall {found:.4f} of 10 queries")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=0, help="the first N of each set of bytes; 0: all")
    parser.add_argument("--sets", default=f"{REAL},{SIFT}")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
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
    for name in options.sets.split(","):
        data = FileSet(options, name) if name == REAL else VectorSet(options, name)
        data.make()
        keyed = Keyed(data, lib)
        keyed.make("vg")
        for method in options.methods:
            try:
                keyed.build(method)
                for place in PLACES:
                    plain = {}
                    for share in (None, *SHARES):
                        keyed.measure(method, options, place, share, plain)
                keyed.tenants(method, options)
            except BenchError as error:
                failed += 1
                line(name, method, "failed", "", "", str(error).replace("\n", " "))
            psql(f"DROP INDEX IF EXISTS {keyed.table}_i", "vg")
        if has_peer:
            keyed.peer(options)
        psql(f"DROP TABLE {data.table}, {data.table}_q, {keyed.table}", "vg")
    worker = psql("SELECT engine || ', ' || device || '; ' || filters_made || ' sets of rows that pass made, found ' || filters_found FROM vectorgpu_worker", "vg")
    print(f"\nWorker: {worker}.")
    return 0 if failed == 0 and (options.device == "cpu" or worker.startswith("cuda")) else 1


if __name__ == "__main__":
    sys.exit(main())
