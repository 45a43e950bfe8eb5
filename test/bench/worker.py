"""What the worker process costs and brings: latency and throughput through an engine that answers in no time, batching in
the CPU engine, copying an index, and the scan after an insert. pgbench on the server's own unix socket is the client.

The parameter vectorgpu.worker is off for all other figures (scripts/bench); here it is switched on for the server.
"""
import contextlib
import glob
import os
import re
import stat
import statistics
import subprocess
import time

import psycopg

import datasets
import server

CLIENTS = 64
NULL_ROWS = 2000
SPIN_US = 50
ROUNDS = 3  # of runs that are compared, in turn
KEEP_SETTINGS = {"vectorgpu.worker_min_size": "0", "enable_seqscan": "off", "plan_cache_mode": "force_generic_plan",
                 "max_parallel_workers_per_gather": "0"}


def worker_path():
    """The worker's executable, which is installed beside the module."""
    with psycopg.connect(dbname="postgres", autocommit=True) as conn:
        folder = conn.execute("SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'").fetchone()[0]
    path = os.path.join(folder, "vectorgpu_worker")
    if not os.path.exists(path):
        raise server.BenchError("the worker is not installed (no CMake when this was built?)")
    return path


def null_program(bench):
    """A script that starts the worker with the null engine: of two --engine arguments the last one counts."""
    path = os.path.join(bench.options.work, "null_worker")
    with open(path, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\nexec "{worker_path()}" "$@" --engine null\n')
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


@contextlib.contextmanager
def worker(bench, **settings):
    """The server with a worker that is ready; afterwards without one."""
    values = {"vectorgpu.worker": "on", **settings}
    with psycopg.connect(dbname=bench.vectorgpu.database, autocommit=True) as conn:
        conn.execute("LOAD 'vectorgpu'")
        for name, value in values.items():
            conn.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        conn.execute("SELECT pg_reload_conf()")
    try:
        wait_for_worker(bench)
        yield
    finally:
        with psycopg.connect(dbname=bench.vectorgpu.database, autocommit=True) as conn:
            conn.execute("LOAD 'vectorgpu'")
            for name in values:
                conn.execute(f"ALTER SYSTEM RESET {name}")
            conn.execute("SELECT pg_reload_conf()")
        time.sleep(2)  # the supervisor ends the worker


def wait_for_worker(bench):
    until = time.monotonic() + 30
    while True:
        with psycopg.connect(dbname=bench.vectorgpu.database, autocommit=True) as conn:
            try:
                conn.execute("SELECT vectorgpu_prewarm('probe_gpuflat'::regclass)")
                return
            except psycopg.Error:
                if time.monotonic() > until:
                    raise
        time.sleep(0.5)


def answered(bench):
    """How many batches of rows the worker has answered."""
    with bench.vectorgpu.connect() as conn:
        return conn.execute("SELECT answered FROM vectorgpu_worker").fetchone()[0]


def cpu_seconds():
    """Busy time of the whole machine."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(value) for value in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def pgbench(bench, statements, clients, seconds, settings=None):
    """(transactions/s, sorted latencies in us, busy seconds of the machine per transaction) of a prepared script."""
    script, prefix = os.path.join(bench.options.work, "worker.sql"), os.path.join(bench.options.work, "worker_log")
    with open(script, "w", encoding="ascii") as file:
        file.write(statements)
    options = " ".join(f"-c {name}={value}" for name, value in {**KEEP_SETTINGS, **(settings or {})}.items())
    busy = cpu_seconds()
    done = subprocess.run([bench.programs["pgbench"], "-n", "-M", "prepared", "-c", str(clients), "-j",
                           str(min(clients, os.cpu_count() or 1)), "-T", str(seconds), "-f", script, "-l",
                           f"--log-prefix={prefix}", bench.vectorgpu.database], capture_output=True, text=True,
                          env={**os.environ, "PGOPTIONS": options}, timeout=seconds + 120, check=False)
    busy = cpu_seconds() - busy
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.M)
    latencies = []
    for name in glob.glob(prefix + ".*"):
        with open(name, encoding="ascii") as file:
            latencies += [int(line.split()[2]) for line in file]
        os.unlink(name)
    if done.returncode != 0 or found is None or not latencies:
        raise server.BenchError(f"pgbench failed: {done.stderr.strip()[-200:]}")
    return float(found.group(1)), sorted(latencies), busy / len(latencies)


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def through_worker(bench, *arguments, **named):
    """pgbench, and an error unless the worker has answered nearly all of it."""
    before = answered(bench)
    rate, latencies, busy = pgbench(bench, *arguments, **named)
    if answered(bench) - before < 0.99 * len(latencies):
        raise server.BenchError(f"the worker answered {answered(bench) - before} of {len(latencies)} scans")
    return rate, latencies, busy


def make_small_tables(bench, data):
    """Tables of the null engine's figures: `probe` with some rows, `hollow` without any."""
    with bench.vectorgpu.connect() as conn:
        for table, rows in (("probe", data.base[:NULL_ROWS]), ("hollow", data.base[:0])):
            server.load_table(conn, table, rows, datasets.copy_binary_blocks(rows))
            conn.execute(f"CREATE INDEX {table}_gpuflat ON {table} USING gpuflat (v vector_l2_ops)")


def null_engine_rows(bench, data):
    """Latency of one client and throughput of many through the null engine, beside an empty index scan."""
    query = datasets.literal(data.queries[0])
    scan = lambda table: f"SELECT id FROM {table} ORDER BY v <-> '{query}'::vector LIMIT 10;\n"
    seconds = bench.options.pgbench_seconds
    with worker(bench, **{"vectorgpu.worker_program": null_program(bench)}):
        for label, spin_us, limit in (("with spinning", SPIN_US, 40), ("without spinning", 0, 80)):
            spin = {"vectorgpu.spin_time_us": spin_us}
            with bench.attempt("worker", data.name, f"time added to the engine's, {label}"):
                empty_rate, empty, _ = pgbench(bench, scan("hollow"), 1, seconds, {"vectorgpu.worker": "off"})
                rate, asked, _ = through_worker(bench, scan("probe"), 1, seconds, spin)
                base = statistics.median(empty)
                p50, p99 = statistics.median(asked) - base, percentile(asked, 0.99) - base
                note = (f"null engine (its time: 0), 10 rows: p50 {statistics.median(asked):.0f} us, p99 "
                        f"{percentile(asked, 0.99)} us; empty index scan: p50 {base:.0f} us, p99 {percentile(empty, 0.99)} us; "
                        f"by rates {1e6 / rate - 1e6 / empty_rate:.1f} us are added to {1e6 / empty_rate:.1f} us")
                bench.report.row("worker", data.name, f"time that SQL adds to the engine's, one client, {label}, p50", p50, "us",
                                 note, ratio=p50 / limit, ratio_of="the target", target=f"at most {limit} us",
                                 good=lambda x: x <= 1)
                bench.report.row("worker", data.name, f"time that SQL adds, {label}, p99", p99, "us", ratio=p99 / p50, ratio_of="p50",
                                 target="at most 4 x p50", good=lambda x: x <= 4)
        with bench.attempt("worker", data.name, f"null engine, {CLIENTS} clients"):
            many_clients_rows(bench, data, scan)


def many_clients_rows(bench, data, scan):
    """The empty index scan, the same through the worker, and one that gives 10 rows through the worker, in turn."""
    seconds = bench.options.pgbench_seconds
    empty, same, ten = [], [], []
    for _ in range(ROUNDS):
        empty.append(pgbench(bench, scan("hollow"), CLIENTS, seconds, {"vectorgpu.worker": "off"}))
        same.append(through_worker(bench, scan("hollow"), CLIENTS, seconds))
        ten.append(through_worker(bench, scan("probe"), CLIENTS, seconds))
    median = lambda runs, at: statistics.median(run[at] for run in runs)
    for label, runs in (("no rows", same), ("10 rows", ten)):
        ratio = statistics.median(run[0] / base[0] for run, base in zip(runs, empty))
        latency = statistics.median(statistics.median(run[1]) for run in runs)
        bench.report.row("worker", data.name, f"null engine, {CLIENTS} clients, {label}", median(runs, 0), "queries/s",
                         f"empty index scan {median(empty, 0):.0f}/s; p50 {latency:.0f} us; the machine was busy "
                         f"{median(runs, 2) * 1e6:.0f} us per query, {median(empty, 2) * 1e6:.0f} us per empty scan (client "
                         f"included): {median(empty, 2) / median(runs, 2):.2f} by busy time",
                         ratio=ratio, ratio_of="empty index scan on the same cores", target="at least 70 %",
                         good=lambda x: x >= 0.7)


def copy_row(bench, data):
    """vectorgpu_prewarm after vectorgpu_evict, one session, pages in shared buffers."""
    times = []
    with bench.vectorgpu.connect(**{"vectorgpu.worker": "on"}) as conn:
        server.prewarm(conn, "items_gpuflat")
        for number in range(bench.options.rounds + 1):
            conn.execute("SELECT vectorgpu_evict('items_gpuflat'::regclass)")
            took_ms, n_bytes = server.timed(
                lambda: conn.execute("SELECT vectorgpu_prewarm('items_gpuflat'::regclass)").fetchone()[0])
            if number:
                times.append(took_ms)
    took = server.spread(times)
    speed = n_bytes / took["median"] / 1e6
    bench.report.row("worker", data.name, "copying an index to the worker", speed, "GB/s",
                     f"{n_bytes / 1e6:.0f} MB of vectors in {took['median']:.0f} ms", ratio=speed / 2, ratio_of="2 GB/s",
                     target="at least 2 GB/s", good=lambda x: x >= 1, detail={"times_ms": took})


def batch_row(bench, data, items):
    """Concurrent clients of the CPU engine beside single scans."""
    last = data.queries.shape[0] - 1
    script = f"\\set i random(0, {last})\nSELECT id FROM {items} ORDER BY v <-> (SELECT v FROM q WHERE id = :i) LIMIT 10;\n"
    seconds = max(2, bench.options.pgbench_seconds)
    before = answered(bench)
    single, single_times, _ = through_worker(bench, script, 1, seconds)
    many, many_times, _ = through_worker(bench, script, CLIENTS, seconds)
    bench.report.row("worker", data.name, f"CPU engine, {CLIENTS} clients", many, "queries/s",
                     f"one client {single:.0f}/s, p50 {statistics.median(single_times) / 1e3:.2f} ms; {CLIENTS} clients p50 "
                     f"{statistics.median(many_times) / 1e3:.2f} ms; {data.rows} rows, {answered(bench) - before} scans",
                     ratio=many / single, ratio_of="one client", target="at least 8 x", good=lambda x: x >= 8)


def insert_row(bench, data):
    """One session scans, another inserts a row before every second scan."""
    plain, fresh = [], []
    query = datasets.literal(data.queries[0])
    sql = "SELECT id FROM probe ORDER BY v <-> %s::vector LIMIT 10"
    with bench.vectorgpu.connect(**{**KEEP_SETTINGS, "vectorgpu.worker": "on"}) as scans, bench.vectorgpu.connect() as writes, \
            scans.cursor(binary=True) as cursor:
        writes.execute("SET synchronous_commit = off")
        for number in range(40 if bench.options.quick else 1000):
            for times in (plain, fresh):
                if times is fresh:
                    writes.execute("INSERT INTO probe VALUES (%s, %s::vector)", (number, query), prepare=True)
                took_ms, _ = server.timed(lambda: cursor.execute(sql, (query,), prepare=True).fetchall())
                times.append(took_ms * 1e3)
    more = statistics.median(fresh) - statistics.median(plain)
    bench.report.row("worker", data.name, "extra time of a scan after one insert by another client", more, "us",
                     f"CPU engine, {NULL_ROWS} rows: medians {statistics.median(plain):.0f} us and "
                     f"{statistics.median(fresh):.0f} us (client's clock)", ratio=more / 20, ratio_of="20 us",
                     target="at most 20 us", good=lambda x: x <= 1)


def rows(bench, data):
    """All figures of the worker on one set. Precondition: items with its index items_gpuflat, and q, are there."""
    with bench.attempt("worker", data.name, "all figures"):
        make_small_tables(bench, data)
        null_engine_rows(bench, data)
        with worker(bench):
            with bench.attempt("worker", data.name, "copying an index"):
                copy_row(bench, data)
            with bench.attempt("worker", data.name, f"CPU engine, {CLIENTS} clients"):
                batch_row(bench, data, "items")
            with bench.attempt("worker", data.name, "scan after an insert"):
                insert_row(bench, data)
        with bench.vectorgpu.connect() as conn:
            conn.execute("DROP TABLE probe, hollow")
