"""Ten million rows under SQL: COPY by several sessions, CREATE INDEX USING gpuivf, recall against throughput. Rows are a data set's with noise of whole
numbers -8 ... 8, repeated; the 10 nearest of some queries are found by brute force while the rows are made. Each step has a
time limit, and so have all together: figures not measured by then are printed as missing. --rows, --dims, --type, --with and --unlogged
measure other tables, such as forty million halfvec by codes. See sql_bench."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: loaders are processes

import argparse
import multiprocessing
import signal
import subprocess
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import datasets
from sql_clients import BenchError, answered, content, line, pgbench_command, psql, rate_of

NOISE = 8
BLOCK = 20000    # rows that are made together
JUDGED = 100     # queries whose recall is measured, and which clients ask
TABLE = "items_large"
LIMIT = 100      # seconds for all steps together, without the server's start and end
TARGETS = (0.95, 0.98, 0.9)
ELEMENTS = {"vector": ">f4", "halfvec": ">f2"}  # of COPY; whole numbers up to 255 are exact in both
CLIENTS = (16, 64)
LIMITS = {"COPY": 60, "ANALYZE": 15, "CREATE INDEX": 70, "copy in the worker": 30, "recall": 15}  # seconds, on 16 cores


class Clock:
    """Seconds left to a step, of its own and of all steps together."""

    def __init__(self, seconds, scale):
        self.began, self.end, self.scale = time.monotonic(), time.monotonic() + seconds, scale

    def left(self, limit):
        left = min(limit * self.scale, self.end - time.monotonic())
        if left < 1:
            raise BenchError("no time is left")
        return left

    def step(self, name):
        return self.left(LIMITS[name])

    def sql(self, name, text):
        """The server ends the statement; psql waits a little longer."""
        left = self.step(name)
        return psql(f"SET statement_timeout = {int(left * 1000)}; {text}", "vg", patience=left + 5)


def read_u8bin(folder, name):
    """[n, d] uint8: uint32 n, uint32 d, then the rows."""
    data = content(folder, name)
    n, d = (int(value) for value in numpy.frombuffer(data, "<u4", 2))
    return numpy.frombuffer(data, numpy.uint8, n * d, offset=8).reshape(n, d)


def made(base, block, n_rows):
    """Rows [block * BLOCK, …) of n_rows, uint8: the same in every process."""
    numbers = numpy.arange(block * BLOCK, min((block + 1) * BLOCK, n_rows))
    noise = numpy.random.default_rng([20, block]).integers(-NOISE, NOISE, (len(numbers), base.shape[1]), numpy.int16, endpoint=True)
    return numpy.clip(base[numbers % len(base)] + noise, 0, 255).astype(numpy.uint8)


def nearest(rows, queries, best):
    """best [n_queries, 10]: squared distances, joined with those of the rows. Whole numbers below 2^24: exact in float32."""
    wide, asked = rows.astype(numpy.float32), queries.astype(numpy.float32)
    squared = (asked ** 2).sum(1)[:, None] + (wide ** 2).sum(1)[None, :] - 2 * (asked @ wide.T)
    return numpy.partition(numpy.concatenate([best, squared], axis=1), 9, axis=1)[:, :10]


def load_part(base, queries, blocks, n_rows, element):
    """Load one session's blocks. Returns the 10 smallest squared distances of each query among them."""
    copy = subprocess.Popen(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "vg", "-c", f"COPY {TABLE} FROM STDIN (FORMAT binary)"],
                            stdin=subprocess.PIPE)
    best = numpy.full((len(queries), 10), numpy.inf, numpy.float32)
    for number, block in enumerate(blocks):
        rows = made(base, block, n_rows)
        best = nearest(rows, queries, best)
        pieces = list(datasets.copy_binary_blocks(rows, block * BLOCK, element=element))  # header, tuples, trailer
        copy.stdin.write(b"".join(pieces[1 if number else 0:-1]))
    copy.stdin.write(pieces[-1])
    copy.stdin.close()
    if copy.wait() != 0:
        raise BenchError(f"COPY {TABLE} failed")
    return best


def load(options, clock, base, queries):
    """The 10th smallest squared distance of each query."""
    n_rows, sessions, element = options.rows, options.sessions, ELEMENTS[options.type]
    psql(f"CREATE {'UNLOGGED ' if options.unlogged else ''}TABLE {TABLE} (id int4, v {options.type}({base.shape[1]}))", "vg")
    blocks = range((n_rows + BLOCK - 1) // BLOCK)
    parts = [blocks[i::sessions] for i in range(sessions) if blocks[i::sessions]]
    with multiprocessing.get_context("fork").Pool(len(parts), signal.signal, (signal.SIGTERM, signal.SIG_DFL)) as pool:
        try:
            found = pool.starmap_async(load_part, [(base, queries, part, n_rows, element) for part in parts]).get(clock.step("COPY"))
        except multiprocessing.TimeoutError as error:
            raise BenchError(f"COPY {TABLE}: not done in its time") from error
    return numpy.partition(numpy.concatenate(found, axis=1), 9, axis=1)[:, 9]


def recall(clock, queries, kth, settings):
    """recall@10; a row as near as the 10th counts. Distances are the server's, whose squares are whole numbers."""
    sets = "".join(f"SET {key} = '{value}'; " for key, value in settings.items())
    selects = "; ".join(f"SELECT id, v <-> '{datasets.literal(query)}' FROM {TABLE} ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10; SELECT 'end'"
                        for query in queries)
    hits, number, seen = 0, 0, set()
    for row in clock.sql("recall", sets + selects).splitlines():
        if row == "end":
            number, seen = number + 1, set()
            continue
        row_id, distance = row.split("|")
        hits += row_id not in seen and round(float(distance) ** 2) <= kth[number]
        seen.add(row_id)
    if number != len(queries):
        raise BenchError(f"{number} answers to {len(queries)} queries")
    return hits / (10 * len(queries))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=10000000)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--set", default="sift-bsds-128")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--sessions", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--limit", type=int, default=LIMIT, help="seconds for all steps together")
    parser.add_argument("--dims", type=int, default=0, help="the first dimensions of the set's rows; 0: all")
    parser.add_argument("--type", choices=ELEMENTS, default="vector")
    parser.add_argument("--with", dest="storage", default="", help="storage parameters of the index, such as 'storage = rabitq, lists = 16384'")
    parser.add_argument("--unlogged", action="store_true", help="table and index without log")
    options = parser.parse_args()
    clock = Clock(options.limit, max(1, options.limit / LIMIT))

    signal.signal(signal.SIGTERM, terminated)
    psql("CREATE DATABASE vg", "postgres")
    psql("CREATE EXTENSION vectorgpu", "vg")
    psql(f"ALTER SYSTEM SET vectorgpu.device = '{options.device}'", "vg")
    psql("SELECT pg_reload_conf()", "vg")
    line("rows", "index", "what", "rate", "latency", "note")
    line(*["---"] * 6)
    base = read_u8bin(options.data, f"{options.set}.base.u8bin")
    queries = read_u8bin(options.data, f"{options.set}.query.u8bin")[:JUDGED]
    if options.dims:
        base, queries = (numpy.ascontiguousarray(rows[:, :options.dims]) for rows in (base, queries))
    try:
        missing = measure(options, clock, base, queries)
    except BenchError as error:
        line(options.rows, "", "failed", "", "", str(error).replace("\n", " "))
        return 1
    print(f"\n{time.monotonic() - clock.began:.0f} s for all of it. Table and index are {'not ' if options.unlogged else ''}logged, with {settings()}.")
    print(f"\nRows are {options.type}({base.shape[1]}); storage parameters of the index: {options.storage or 'the default'}.")
    worker = psql("SELECT engine || ', ' || device || ', batches of ' || round(mean_batch_size::numeric, 1) FROM vectorgpu_worker", "vg")
    print(f"\nWorker: {worker}.")
    return 0 if missing == 0 and (options.device == "cpu" or worker.startswith("cuda")) else 1


def terminated(_signal, _frame):
    raise BenchError("terminated from outside")


def settings():
    """Settings that make loads and builds cheaper than the server's defaults."""
    names = "fsync", "synchronous_commit", "max_wal_size", "shared_buffers", "maintenance_work_mem", "max_parallel_maintenance_workers"
    return ", ".join(f"`{name}` {psql(f'SHOW {name}', 'vg')}" for name in names)


def copy_in_worker(clock, index):
    while True:
        try:
            return clock.sql("copy in the worker", f"SELECT vectorgpu_prewarm('{index}'::regclass)")
        except BenchError as error:
            if "is loading this index" not in str(error):
                raise
            time.sleep(0.2)


def clients_rate(options, clock, script, clients, keep):
    command, environment = pgbench_command(options.work, "vg", "large", script, clients, options.seconds, keep)
    try:
        return rate_of(subprocess.run(command, capture_output=True, text=True, env=environment, check=False,
                                      timeout=clock.left(3 * options.seconds + 10)))
    except subprocess.TimeoutExpired as error:
        raise BenchError("pgbench: not done in its time") from error


def measure(options, clock, base, queries):
    """Run the steps. Returns how many figures are missing."""
    began = time.monotonic()
    kth = load(options, clock, base, queries)
    took = time.monotonic() - began
    line(options.rows, "", f"COPY, {options.sessions} sessions", f"{took:.1f} s", "", "rows made and the queries' 10 nearest found meanwhile")
    clock.sql("ANALYZE", f"ANALYZE {TABLE}")
    began = time.monotonic()
    parameters = f" WITH ({options.storage})" if options.storage else ""
    clock.sql("CREATE INDEX", f"CREATE INDEX {TABLE}_gpuivf ON {TABLE} USING gpuivf (v {options.type}_l2_ops){parameters}")
    took = time.monotonic() - began
    size, table = (int(psql(f"SELECT {function}", "vg")) for function in
                   (f"pg_relation_size('{TABLE}_gpuivf')", f"pg_table_size('{TABLE}')"))
    line(options.rows, "gpuivf", "CREATE INDEX", f"{took:.1f} s", "", f"{size / 1e9:.2f} GB of a table of {table / 1e9:.2f} GB")
    began = time.monotonic()
    copy_in_worker(clock, f"{TABLE}_gpuivf")
    line(options.rows, "gpuivf", "copy in the worker", f"{time.monotonic() - began:.1f} s", "", "after CREATE INDEX")
    script = [f"SELECT id FROM {TABLE} ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10;\n" for query in queries]
    missing = 0
    for target in TARGETS:
        label, keep = f"gpuivf, recall_target {target}", {"enable_seqscan": "off", "gpuivf.recall_target": target}
        try:
            found = recall(clock, queries, kth, keep)
            for clients in CLIENTS:
                before = answered()
                rate, latency = clients_rate(options, clock, script, clients, {**keep, "plan_cache_mode": "force_generic_plan"})
                share = (answered() - before) / max(rate * options.seconds, 1)
                line(options.rows, label, f"{clients} clients", f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
                     f"recall {found:.4f}; {min(share, 1):.0%} by the worker")
        except BenchError as error:
            missing += 1
            line(options.rows, label, "not measured", "", "", str(error).replace("\n", " "))
    return missing


if __name__ == "__main__":
    sys.exit(main())
