"""Costs and gains of the worker process: latency and throughput through the null engine, batching in the CPU
engine, copying an index, and the scan after an insert. For scripts/bench and test/gpu/sql_bench, in a server of their own. Standard
library only: psql, pgbench and libpq, on the server's unix socket.
"""
import contextlib
import glob
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gpu"))
import libpq
from sql_clients import BenchError, answered, pgbench_command, psql, rate_of, wait_for_worker

CLIENTS = 64
DIMS = 128
PROBE_ROWS = 2000
SPIN_US = 50
KEEP_SETTINGS = {"vectorgpu.worker_min_size": "0", "enable_seqscan": "off", "plan_cache_mode": "force_generic_plan",
                 "max_parallel_workers_per_gather": "0"}
SCAN = "SELECT id FROM {} ORDER BY v <-> '[" + ",".join(["1"] * DIMS) + "]'::vector LIMIT 10;\n"


def cpu_seconds():
    """Busy time of the whole machine."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(value) for value in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Figures:
    """row: takes each figure as report.Report.row does behind the set's name. work: folder for scripts; programs: folder that the
    server can run programs from; seconds: of each pgbench run; rounds: of runs that are compared, in turn."""

    def __init__(self, row, database, work, programs, seconds, rounds):
        self.row, self.database, self.work, self.programs, self.seconds, self.rounds = row, database, work, programs, seconds, rounds

    def psql(self, sql):
        return psql(f"LOAD 'vectorgpu'; {sql}", self.database)

    def set(self, values):
        """Changes settings of the server that restart the worker; returns when a new one is ready, or none is wanted."""
        pid = "SELECT pid FROM vectorgpu_worker WHERE ready"
        old = psql(pid, self.database)
        for name, value in values.items():
            psql(f"ALTER SYSTEM SET {name} = '{value}'", self.database)
        psql("SELECT pg_reload_conf()", self.database)
        until = time.monotonic() + 60
        while psql(pid, self.database) == old:
            if self.psql("SHOW vectorgpu.worker") == "on":
                with contextlib.suppress(BenchError):
                    psql("SELECT vectorgpu_prewarm('probe_gpuflat'::regclass)", self.database)
            if time.monotonic() > until:
                raise BenchError(f"the worker is the same after {values}")
            time.sleep(0.1)

    @contextlib.contextmanager
    def worker(self, **values):
        """The server with a worker of such settings that is ready; afterwards as it was."""
        values = {"vectorgpu.worker": "on", **values}
        before = {name: self.psql(f"SHOW {name}") for name in values}
        if before != values:
            self.set(values)
        try:
            wait_for_worker("probe_gpuflat", self.database)
            yield
        finally:
            if before != values:
                self.set(before)

    def null_worker(self, arguments=""):
        """A worker with the null engine, started with more arguments: of two equal ones the last counts."""
        path = os.path.join(self.programs, f"null_worker_{time.monotonic_ns()}")  # another name, so that a worker starts
        program = psql("SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'", self.database) + "/vectorgpu_worker"
        with open(path, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec "{program}" "$@" --engine null {arguments}\n')
        os.chmod(path, 0o755)
        return self.worker(**{"vectorgpu.worker_program": path})

    def pgbench(self, script, clients, settings, log=False):
        """(queries/s, mean latency in us, busy seconds of the machine a query, sorted latencies in us if logged)."""
        prefix = os.path.join(self.work, "worker_log")
        more = ["-l", f"--log-prefix={prefix}"] if log else []
        command, environment = pgbench_command(self.work, self.database, "worker", script, clients, self.seconds,
                                               {**KEEP_SETTINGS, **settings}, *more)
        busy = cpu_seconds()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        busy = cpu_seconds() - busy
        rate, latency_ms = rate_of(done)
        latencies = []
        for name in glob.glob(prefix + ".*"):
            with open(name, encoding="ascii") as file:
                latencies += [int(line.split()[2]) for line in file]
            os.unlink(name)
        n = int(re.search(r"actually processed: ([0-9]+)", done.stdout).group(1))
        return rate, latency_ms * 1000, busy / max(n, 1), sorted(latencies), n

    def through_worker(self, *arguments, **named):
        """The same, and an error unless the worker has answered nearly all of it."""
        before = answered(self.database)
        figures = self.pgbench(*arguments, **named)
        share = (answered(self.database) - before) / figures[4]
        if share < 0.99:
            raise BenchError(f"the worker answered {share:.0%} of {figures[4]} scans")
        return figures

    def make_tables(self):
        """`probe` with some rows, `hollow` without any."""
        for table, rows in (("hollow", 0), ("probe", PROBE_ROWS)):
            psql(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int4, v vector({DIMS}))", self.database)
            psql(f"INSERT INTO {table} SELECT i, array_fill(i % 100, ARRAY[{DIMS}])::vector FROM generate_series(1, {rows}) i", self.database)
            psql(f"VACUUM ANALYZE {table}", self.database)
            psql(f"CREATE INDEX {table}_gpuflat ON {table} USING gpuflat (v vector_l2_ops)", self.database)

    def drop_tables(self):
        psql("DROP TABLE probe, hollow", self.database)

    def added_time(self):
        """The time that SQL adds to that of the null engine, one client: against a scan of an empty index, by medians, and by rates, since
        pgbench shows 0 us if the answer is there before it waits."""
        for label, spin_us, limit in (("with spinning", SPIN_US, 40), ("without spinning", 0, 80)):
            empty_rate, _, _, empty, _ = self.pgbench(SCAN.format("hollow"), 1, {"vectorgpu.worker": "off"}, log=True)
            rate, _, _, asked, _ = self.through_worker(SCAN.format("probe"), 1, {"vectorgpu.spin_time_us": spin_us}, log=True)
            base = statistics.median(empty)
            p50, p99 = statistics.median(asked) - base, percentile(asked, 0.99) - base
            self.row(f"time that SQL adds to the engine's, one client, {label}, p50", p50, "us",
                     f"null engine (its time: 0), 10 rows: p50 {statistics.median(asked):.0f} us, p99 {percentile(asked, 0.99)} us; empty "
                     f"index scan: p50 {base:.0f} us, p99 {percentile(empty, 0.99)} us; by rates {1e6 / rate - 1e6 / empty_rate:.1f} us "
                     f"are added to {1e6 / empty_rate:.1f} us", ratio=p50 / limit, ratio_of="the target", target=f"at most {limit} us",
                     good=lambda x: x <= 1)
            self.row(f"time that SQL adds, {label}, p99", p99, "us", ratio=p99 / max(p50, 1), ratio_of="p50", target="at most 4 x p50",
                     good=lambda x: x <= 4)

    def many_clients(self, tables=("hollow", "probe"), label=""):
        """Clients of the null engine beside as many scans of an empty index, in turn. hollow: the same scan through the worker; probe:
        one that gives 10 rows."""
        runs = {name: [] for name in ("empty", *tables)}
        for _ in range(self.rounds):
            runs["empty"].append(self.pgbench(SCAN.format("hollow"), CLIENTS, {"vectorgpu.worker": "off"}))
            for table in tables:
                runs[table].append(self.through_worker(SCAN.format(table), CLIENTS, {}))
        median = lambda name, at: statistics.median(run[at] for run in runs[name])
        for table in tables:
            ratio = statistics.median(run[0] / base[0] for run, base in zip(runs[table], runs["empty"]))
            self.row(f"null engine, {CLIENTS} clients, {'10 rows' if table == 'probe' else 'no rows'}{label}", median(table, 0), "queries/s",
                     f"empty index scan {median('empty', 0):.0f}/s; {median(table, 1):.0f} us; the machine was busy {median(table, 2) * 1e6:.0f} us "
                     f"a query, {median('empty', 2) * 1e6:.0f} us an empty scan (client included): "
                     f"{median('empty', 2) / median(table, 2):.2f} by busy time", ratio=ratio, ratio_of="empty index scan on the same cores",
                     target="at least 70 %", good=lambda x: x >= 0.7)

    def copying(self, index, label="", times=6):
        """vectorgpu_prewarm after vectorgpu_evict, one session, pages in shared buffers; the first time does not count."""
        took = []
        with libpq.Session(self.database) as session:
            for _ in range(times):
                session.execute(f"SELECT vectorgpu_evict('{index}'::regclass)")
                began = time.perf_counter()
                n_bytes = int(session.execute(f"SELECT vectorgpu_prewarm('{index}'::regclass)"))
                took.append(time.perf_counter() - began)
        speed = n_bytes / statistics.median(took[1:]) / 1e9
        self.row(f"copying an index to the worker{label}", speed, "GB/s", f"{n_bytes / 1e6:.0f} MB of vectors in "
                 f"{statistics.median(took[1:]) * 1e3:.0f} ms; median of {times - 1}", ratio=speed / 2, ratio_of="2 GB/s",
                 target="at least 2 GB/s", good=lambda x: x >= 1)

    def batching(self, script, rows):
        """Concurrent clients of the CPU engine beside single scans."""
        single, single_us, *_ = self.through_worker(script, 1, {})
        many, many_us, *_ = self.through_worker(script, CLIENTS, {})
        self.row(f"CPU engine, {CLIENTS} clients", many, "queries/s", f"one client {single:.0f}/s, {single_us / 1e3:.2f} ms; {CLIENTS} clients "
                 f"{many_us / 1e3:.2f} ms; {rows} rows", ratio=many / single, ratio_of="one client", target="at least 8 x",
                 good=lambda x: x >= 8)

    def after_insert(self, label="", scans=1000):
        """One session scans; another inserts a row before two of three scans, into the same table or, for comparison, into one beside it:
        a scan after another process has run is slower, too."""
        runs = {None: [], "beside": [], "probe": []}
        psql(f"CREATE TABLE one_row AS SELECT * FROM probe LIMIT 1; CREATE TABLE beside (LIKE probe); "
             "CREATE INDEX ON beside USING gpuflat (v vector_l2_ops)", self.database)
        with libpq.Session(self.database, **KEEP_SETTINGS) as reader, libpq.Session(self.database, synchronous_commit="off") as writer:
            reader.prepare("scan", SCAN.format("probe"))
            for table in ("beside", "probe"):
                writer.prepare(table, f"INSERT INTO {table} SELECT * FROM one_row")
            before = answered(self.database)
            for _ in range(scans):
                for table, times in runs.items():
                    if table is not None:
                        writer.run(table)
                    began = time.perf_counter()
                    reader.run("scan")
                    times.append(time.perf_counter() - began)
            share = (answered(self.database) - before) / (len(runs) * scans)
        psql("DROP TABLE one_row, beside", self.database)
        if share < 0.99:
            raise BenchError(f"the worker answered {share:.0%} of the scans beside inserts")
        back_to_back, without, fresh = (statistics.median(times) * 1e6 for times in runs.values())
        more = fresh - without
        first_quarter, _, last_quarter = (time * 1e6 for time in statistics.quantiles(runs["probe"]))
        self.row(f"extra time of a scan after one insert by another client{label}", more, "us",
                 f"{PROBE_ROWS} rows: medians {without:.0f} us after an insert into another table and {fresh:.0f} us after one into this (client's "
                 f"clock; half of these took {first_quarter:.0f} to {last_quarter:.0f}); {back_to_back:.0f} us, {fresh - back_to_back:.0f} less, where no other client did anything in between", ratio=more / 20,
                 ratio_of="20 us", target="at most 20 us", good=lambda x: x <= 1)


def rows(bench, data):
    """All figures of the worker on one set, for scripts/bench. Precondition: items with its index items_gpuflat, and q, are there."""
    figures = Figures(lambda *cells, **named: bench.report.row("worker", data.name, *cells, **named), bench.vectorgpu.database,
                      bench.options.work, bench.options.work, max(2, bench.options.pgbench_seconds), 3)
    attempt = lambda name: bench.attempt("worker", data.name, name)
    with attempt("all figures"):
        figures.make_tables()
        with figures.null_worker():
            with attempt("time that SQL adds"):
                figures.added_time()
            with attempt(f"null engine, {CLIENTS} clients"):
                figures.many_clients()
        with figures.worker():
            with attempt("copying an index"):
                figures.copying("items_gpuflat")
            with attempt(f"CPU engine, {CLIENTS} clients"):
                figures.batching(f"\\set i random(0, {data.queries.shape[0] - 1})\nSELECT id FROM items ORDER BY v <-> (SELECT v FROM q "
                                 "WHERE id = :i) LIMIT 10;\n", data.rows)
            with attempt("scan after an insert"):
                figures.after_insert(scans=40 if bench.options.quick else 1000)
        figures.drop_tables()
