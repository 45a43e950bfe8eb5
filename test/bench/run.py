"""Takes the measurements against the cluster that scripts/bench has started and prints the table. See README.md here."""
import argparse
import contextlib
import datetime
import os
import platform
import subprocess
import sys
import time

import psycopg

import backends
import builds
import codes
import curves
import datasets
import inserts
import paths
import report as reporting
import scans
import server
import worker

SETS = {"sift-bsds-128": 128, "fashion-mnist-784": 784}
SYNTHETIC_ROWS = {128: 100000, 784: 20000}
SETTINGS = ("shared_buffers", "maintenance_work_mem", "wal_level", "fsync", "synchronous_commit", "max_wal_size", "huge_pages",
            "autovacuum", "jit")


class Bench:
    """Shared by all measurements: the two sides, programs, options, and the report."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.programs = {name: os.path.join(options.programs, name) for name in ("stream_bandwidth", "page_write")}
        self.programs["pgbench"] = options.pgbench
        self.vectorgpu = server.Side("vectorgpu", "vectorgpu", "bench_vectorgpu", 600)
        self.peer = None
        self.deadline = time.monotonic() + options.minutes * 60

    @contextlib.contextmanager
    def attempt(self, section, data_set, name):
        """Turns an error inside into a named gap, so that a failing measurement does not lose the others."""
        try:
            if time.monotonic() > self.deadline:
                raise TimeoutError(f"the limit of {self.options.minutes} minutes is used up")
            yield
        except TimeoutError as error:
            self.report.gap(section, data_set, name, str(error), False)
        except (server.BenchError, worker.BenchError, psycopg.Error, subprocess.SubprocessError, OSError) as error:
            first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self.report.gap(section, data_set, name, first_line, True)


def parse_options():
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Ratios of speed and memory in one run on one machine.")
    parser.add_argument("--sets", help=f"data sets, comma separated (default: {','.join(SETS)}; of codes: {','.join(codes.SETS)})")
    parser.add_argument("--rows", type=int, default=0, help="only the first ROWS rows of each set")
    parser.add_argument("--quick", action="store_true", help="20,000 rows and few repetitions: shows that it works, not a measurement")
    parser.add_argument("--only", choices=["worker", "curves", "paths", "codes"],
                        help="only the figures of the worker process, on the first set; only recall against throughput; only k-NN graphs; only codes")
    parser.add_argument("--skip-peer", action="store_true", help="leave pgvector out even where it is available")
    parser.add_argument("--minutes", type=float, default=38, help="start no measurement after this time (default: %(default)s)")
    for name in ("--work", "--programs", "--pgbench", "--commit", "--json"):
        parser.add_argument(name, required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = codes.SETS if options.only == "codes" else SETS
    options.sets = list(known) if options.sets is None else [name for name in options.sets.split(",") if name]
    for name in options.sets:
        if name not in known:
            parser.error(f"unknown set {name} (known: {', '.join(known)})")
    quick = options.quick
    options.rows = options.rows or (20000 if quick else 0)
    options.rounds, options.runs_per_round = (2, 3) if quick else (6, 5)
    options.runs = 3 if quick else 20
    options.build_rounds = 2 if quick else 5
    options.n_queries, options.exact_recall_queries = (20, 10) if quick else (100, 50)
    options.insert_seed_rows, options.insert_rows, options.insert_rows_hnsw = (2000, 5000, 200) if quick else (100000, 20000, 1000)
    options.code_rounds = 2 if quick else 8
    options.memory_scans = 2000 if quick else 100000
    options.pgbench_seconds = 2 if quick else 10
    return options


def cpu_name():
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine_facts(options):
    with psycopg.connect(dbname="postgres", autocommit=True) as conn:
        version = "PostgreSQL " + conn.execute("SHOW server_version").fetchone()[0]
        settings = {name: conn.execute(f"SHOW {name}").fetchone()[0] for name in SETTINGS}
    load = os.getloadavg()[0]
    warnings = []
    if load > 0.5:
        warnings.append(f"the machine was not quiet when this began (load average {load:.1f})")
    if options.quick:
        warnings.append("--quick: few repetitions on few rows, which is a trial of the script and not a measurement")
    kind = subprocess.run(["stat", "-f", "-c", "%T", options.work], capture_output=True, text=True, check=False).stdout.strip()
    if kind == "tmpfs":
        warnings.append("the cluster is on a file system in memory: what is written and fsynced costs less than on a disk")
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "cpu": cpu_name(),
            "cores": os.cpu_count(), "kernel": platform.release(), "server": version, "file_system": kind,
            "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, "commit": options.commit,
            "load_average_at_start": load, "settings": settings, "warnings": warnings, "extensions": {}}


def data_sets(bench):
    """Yields the sets asked for, one at a time: real ones where VECTORGPU_DATA has them, else synthetic ones."""
    folder, options = os.environ.get("VECTORGPU_DATA"), bench.options
    for name in options.sets:
        if options.only == "codes":
            yield codes_set(bench, folder, name)
            continue
        dims = SETS[name]
        if folder and os.path.exists(os.path.join(folder, f"{name}.base.u8bin.gz")):
            bench.report.say(f"reading {name}")
            yield datasets.load(folder, name, options.rows, options.n_queries)
            continue
        reason = f"{folder} has no {name}.base.u8bin.gz" if folder else "VECTORGPU_DATA is not set"
        bench.report.gap("all figures", name, "the real data set", f"{reason}; a synthetic set stands in its place", False)
        rows = min(SYNTHETIC_ROWS[dims], options.rows or SYNTHETIC_ROWS[dims])
        bench.report.say(f"making synthetic-clusters-{dims}, {rows} rows")
        yield datasets.synthetic(dims, rows, options.n_queries)


def codes_set(bench, folder, name):
    """A set for codes: more queries than the other figures have, which recalls that lie near each other need."""
    options = bench.options
    n_queries = 50 if options.quick else 300
    if folder and (data := codes.load(folder, name, options.rows, n_queries)):
        return data
    reason = f"{folder} has no {name}.base.*bin.gz" if folder else "VECTORGPU_DATA is not set"
    bench.report.gap("codes", name, "the real data set", f"{reason}; a made set stands in its place", False)
    return codes.made(name, options.rows, n_queries)


def vectorgpu_figures(bench, data, texts):
    """All figures of vectorgpu on one set; returns the memory floor in ms, or None."""
    floor = None
    with bench.attempt("all figures", data.name, "vectorgpu: loading"):
        with bench.vectorgpu.connect() as conn:
            server.load_table(conn, "items", data.base, datasets.copy_binary_blocks(data.base))
        backends.load_queries(bench.vectorgpu, data)
        for workers in (0, 2):
            with bench.attempt("create index", data.name, f"gpuflat, {workers} parallel workers allowed"):
                builds.gpuflat_row(bench, data, workers)
        with bench.attempt("size", data.name, "gpuflat index"):
            builds.gpuflat_size_row(bench, data)
        with bench.attempt("exact scan", data.name, "gpuflat index scan, LIMIT 10"):
            floor = scans.vectorgpu_rows(bench, data, texts)
        backends.throughput_rows(bench, bench.vectorgpu, data, "gpuflat, LIMIT 10", {"enable_seqscan": "off"})
        if data.dims == 128:
            worker.rows(bench, data)
        with bench.vectorgpu.connect() as conn:
            conn.execute("DROP TABLE items, q")
    return floor


def worker_figures(bench, data):
    """The figures of the worker alone."""
    with bench.attempt("all figures", data.name, "vectorgpu: loading"):
        with bench.vectorgpu.connect() as conn:
            server.load_table(conn, "items", data.base, datasets.copy_binary_blocks(data.base))
            builds.create_index(conn, "gpuflat", "USING gpuflat (v vector_l2_ops)")
        backends.load_queries(bench.vectorgpu, data)
        worker.rows(bench, data)


def peer_figures(bench, data, texts, floor):
    with bench.attempt("all figures", data.name, "pgvector: loading"):
        with bench.peer.connect() as conn:
            server.load_table(conn, "items", data.base, datasets.copy_binary_blocks(data.base))
        backends.load_queries(bench.peer, data)
        builds.peer_table_size(bench, data)
        with bench.attempt("exact scan", data.name, "pgvector sequential scan, LIMIT 10"):
            scans.peer_sequential(bench, data, texts, floor)
        lists = max(10, data.rows // 1000)
        for method, definition, parameter, values in (
                ("ivfflat", f"USING ivfflat (v vector_l2_ops) WITH (lists = {lists})", "ivfflat.probes", scans.PROBES),
                ("hnsw", "USING hnsw (v vector_l2_ops)", "hnsw.ef_search", scans.EF_SEARCH)):
            with bench.attempt("approximate scan", data.name, f"pgvector {method}"):
                builds.peer_index(bench, data, method, definition)
                value, recall = scans.peer_approximate(bench, data, texts, floor, f"items_{method}", parameter, values)
                backends.throughput_rows(bench, bench.peer, data, f"pgvector {method}, {parameter} = {value}, LIMIT 10",
                                         {"enable_seqscan": "off", parameter: value}, recall)
                with bench.peer.connect() as conn:
                    conn.execute(f"DROP INDEX items_{method}")
        with bench.peer.connect() as conn:
            conn.execute("DROP TABLE items, q")


def pick_peer(bench):
    if bench.options.skip_peer or bench.options.only in ("worker", "paths", "codes"):
        reason = "left out by --skip-peer" if bench.options.skip_peer else f"--only {bench.options.only} has none"
        bench.report.gap("all figures", "all sets", "rows of pgvector", reason, False)
    elif not server.available("vector"):
        bench.report.gap("all figures", "all sets", "rows of pgvector", "extension vector is not available in this server", False)
    else:
        bench.peer = server.Side("vector", "pgvector", "bench_pgvector", 1200)


def main():
    options = parse_options()
    report = reporting.Report(machine_facts(options))
    bench = Bench(options, report)
    pick_peer(bench)
    for side in filter(None, (bench.vectorgpu, bench.peer)):
        report.machine["extensions"][side.label] = side.create()
    for data in data_sets(bench):
        report.say(f"{data.name}: {data.rows} rows of {data.dims} dimensions")
        if options.only == "worker":
            worker_figures(bench, data)
            break
        if options.only == "paths":
            paths.rows(bench, data, os.path.dirname(options.json))
            continue
        if options.only == "codes":
            codes.rows(bench, data)
            continue
        texts = [datasets.literal(row) for row in data.queries]
        if options.only == "curves":
            curves.rows(bench, data, texts, os.path.dirname(options.json))
            continue
        floor = vectorgpu_figures(bench, data, texts)
        if data.dims == 128:
            inserts.vectorgpu_rows(bench, data)
            with bench.attempt("memory of a backend", data.name, "growth over many scans"):
                backends.memory_row(bench, data)
        if bench.peer and floor:
            peer_figures(bench, data, texts, floor)
            if data.dims == 128:
                inserts.peer_rows(bench, data)
        elif bench.peer:
            report.gap("all figures", data.name, "rows of pgvector", "there is no memory row to compare with", True)
    report.write_json(options.json)
    print(report.markdown())
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
