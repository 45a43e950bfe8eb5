"""Memory that a backend keeps after many scans, and throughput with one and several clients (pgbench)."""
import glob
import os
import re
import subprocess

import datasets
import server

PIPELINE = 500


def private_bytes(pid):
    """Private anonymous memory of a process; unlike its resident size it has no shared buffers in it."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^RssAnon:\s+(\d+) kB", file.read(), re.M).group(1)) * 1024


def context_bytes(conn):
    return int(conn.execute("SELECT sum(total_bytes) FROM pg_backend_memory_contexts").fetchone()[0])


def scan_many(conn, texts, n_scans):
    """Runs n_scans prepared index scans, each a separate statement and transaction, sent in batches."""
    sql = "SELECT id FROM small ORDER BY v <-> %s::vector LIMIT 10"
    for start in range(0, n_scans, PIPELINE):
        with conn.pipeline():
            for number in range(start, min(n_scans, start + PIPELINE)):
                conn.execute(sql, (texts[number % len(texts)],), prepare=True)


def memory_row(bench, data):
    n_scans, texts = bench.options.memory_scans, [datasets.literal(row) for row in data.queries[:50]]
    rows = data.base[:1000]
    with bench.vectorgpu.connect(enable_seqscan="off") as conn:
        server.load_table(conn, "small", rows, datasets.copy_binary_blocks(rows))
        conn.execute("CREATE INDEX small_gpuflat ON small USING gpuflat (v vector_l2_ops)")
        server.expect_plan(conn, "SELECT id FROM small ORDER BY v <-> %s::vector LIMIT 10", texts[0],
                           "Index Scan using small_gpuflat")
        pid = conn.info.backend_pid
        scan_many(conn, texts, n_scans // 10)
        context_bytes(conn)
        before, contexts_before = private_bytes(pid), context_bytes(conn)
        scan_many(conn, texts, n_scans)
        after, contexts_after = private_bytes(pid), context_bytes(conn)
        conn.execute("DROP TABLE small")
    growth, contexts_growth = after - before, contexts_after - contexts_before
    bench.report.row("memory of a backend", data.name, f"growth over {n_scans} scans", growth / 1024, "KiB",
                     f"private memory {before // 1024} to {after // 1024} KiB, memory contexts {contexts_before // 1024} to "
                     f"{contexts_after // 1024} KiB", ratio=after / before, ratio_of=f"after {n_scans // 10} scans",
                     target="flat (within 256 KiB)", good=lambda x: growth <= 256 * 1024 and contexts_growth <= 256 * 1024,
                     detail={"private_before": before, "private_after": after, "contexts_before": contexts_before,
                             "contexts_after": contexts_after})


def load_queries(side, data):
    """Table q: the queries by number, for pgbench."""
    with side.connect() as conn:
        server.load_table(conn, "q", data.queries, datasets.copy_binary_blocks(data.queries))
        conn.execute("ALTER TABLE q ADD PRIMARY KEY (id)")


def pgbench(bench, side, n_queries, clients, settings):
    """(transactions per second, sorted latencies in ms) of prepared queries drawn at random."""
    script = os.path.join(bench.options.work, "pgbench.sql")
    with open(script, "w", encoding="ascii") as file:
        file.write(f"\\set i random(0, {n_queries - 1})\n"
                   "SELECT id FROM items ORDER BY v <-> (SELECT v FROM q WHERE id = :i) LIMIT 10;\n")
    prefix = os.path.join(bench.options.work, "pgbench_log")
    settings = {"max_parallel_workers_per_gather": 0, "plan_cache_mode": "force_generic_plan", **settings}
    environment = {**os.environ, "PGOPTIONS": " ".join(f"-c {name}={value}" for name, value in settings.items())}
    seconds = bench.options.pgbench_seconds
    done = subprocess.run([bench.programs["pgbench"], "-n", "-M", "prepared", "-c", str(clients), "-j",
                           str(min(clients, os.cpu_count() or 1)), "-T", str(seconds), "-f", script, "-l", f"--log-prefix={prefix}",
                           side.database], capture_output=True, text=True, env=environment, timeout=seconds + 120, check=False)
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.M)
    latencies = []
    for name in glob.glob(prefix + ".*"):
        with open(name, encoding="ascii") as file:
            latencies += [int(line.split()[2]) / 1e3 for line in file]
        os.unlink(name)
    if done.returncode != 0 or found is None or not latencies:
        raise server.BenchError(f"pgbench failed: {done.stderr.strip()[-200:]}")
    return float(found.group(1)), sorted(latencies)


def throughput_rows(bench, side, data, label, settings, recall=None):
    for clients in (1, 2 * (os.cpu_count() or 1)):
        with bench.attempt("throughput", data.name, f"{label}, {clients} clients"):
            rate, latencies = pgbench(bench, side, data.queries.shape[0], clients, settings)
            times = server.spread(latencies)
            p99 = latencies[min(len(latencies) - 1, int(0.99 * len(latencies)))]
            bench.report.row("throughput", data.name, f"{label}, {clients} client{'s' if clients > 1 else ''}", rate,
                             "queries/s", f"median {times['median']:.2f} ms, p99 {p99:.2f} ms", recall=recall,
                             detail={"latency_ms": {**times, "p99": p99}})
