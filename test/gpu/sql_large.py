"""Ten million rows under SQL: COPY by several sessions, CREATE INDEX USING gpuivf, recall against throughput. Rows are a data set's with noise of whole
numbers -8 ... 8, as often as it takes; the 10 nearest of some queries are found by brute force while the rows are made. See sql_bench."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: loaders are processes

import argparse
import multiprocessing
import subprocess
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import datasets
from sql_clients import BenchError, answered, content, line, pgbench, psql, wait_for_worker

NOISE = 8
BLOCK = 20000    # rows that are made together
JUDGED = 100     # queries whose recall is measured, and which clients ask
TABLE = "items_large"
TARGETS = (0.9, 0.95, 0.98)
CLIENTS = (16, 64)
PATIENCE = 400   # seconds for one statement


def read_u8bin(folder, name):
    """[n, d] uint8: uint32 n, uint32 d, then the rows."""
    data = content(folder, name)
    n, d = (int(value) for value in numpy.frombuffer(data, "<u4", 2))
    return numpy.frombuffer(data, numpy.uint8, n * d, offset=8).reshape(n, d)


def made(base, block, n_rows):
    """Rows [block * BLOCK, …) of n_rows, uint8: the same ones whoever makes them."""
    numbers = numpy.arange(block * BLOCK, min((block + 1) * BLOCK, n_rows))
    noise = numpy.random.default_rng([20, block]).integers(-NOISE, NOISE, (len(numbers), base.shape[1]), numpy.int16, endpoint=True)
    return numpy.clip(base[numbers % len(base)] + noise, 0, 255).astype(numpy.uint8)


def nearest(rows, queries, best):
    """best [n_queries, 10]: squared distances, joined with those of the rows. Whole numbers below 2^24: exact in float32."""
    wide, asked = rows.astype(numpy.float32), queries.astype(numpy.float32)
    squared = (asked ** 2).sum(1)[:, None] + (wide ** 2).sum(1)[None, :] - 2 * (asked @ wide.T)
    return numpy.partition(numpy.concatenate([best, squared], axis=1), 9, axis=1)[:, :10]


def load_part(base, queries, blocks, n_rows):
    """One session's blocks. The 10 smallest squared distances of each query among them."""
    copy = subprocess.Popen(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "vg", "-c", f"COPY {TABLE} FROM STDIN (FORMAT binary)"],
                            stdin=subprocess.PIPE)
    best = numpy.full((len(queries), 10), numpy.inf, numpy.float32)
    for number, block in enumerate(blocks):
        rows = made(base, block, n_rows)
        best = nearest(rows, queries, best)
        pieces = list(datasets.copy_binary_blocks(rows, block * BLOCK))  # header, tuples, trailer
        copy.stdin.write(b"".join(pieces[1 if number else 0:-1]))
    copy.stdin.write(pieces[-1])
    copy.stdin.close()
    if copy.wait() != 0:
        raise BenchError(f"COPY {TABLE} failed")
    return best


def load(base, queries, n_rows, sessions):
    """The 10th smallest squared distance of each query."""
    psql(f"CREATE TABLE {TABLE} (id int4, v vector({base.shape[1]}))", "vg")
    blocks = range((n_rows + BLOCK - 1) // BLOCK)
    parts = [blocks[i::sessions] for i in range(sessions) if blocks[i::sessions]]
    with multiprocessing.get_context("fork").Pool(len(parts)) as pool:
        found = pool.starmap(load_part, [(base, queries, part, n_rows) for part in parts])
    return numpy.partition(numpy.concatenate(found, axis=1), 9, axis=1)[:, 9]


def recall(queries, kth, settings):
    """recall@10; a row as near as the 10th counts. Distances are the server's, whose squares are whole numbers."""
    sets = "".join(f"SET {key} = '{value}'; " for key, value in settings.items())
    selects = "; ".join(f"SELECT id, v <-> '{datasets.literal(query)}' FROM {TABLE} ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10; SELECT 'end'"
                        for query in queries)
    hits, number, seen = 0, 0, set()
    for row in psql(sets + selects, "vg", patience=PATIENCE).splitlines():
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
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--set", default="sift-bsds-128")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--sessions", type=int, default=min(16, os.cpu_count() or 1))
    options = parser.parse_args()

    psql("CREATE DATABASE vg", "postgres")
    psql("CREATE EXTENSION vectorgpu", "vg")
    psql(f"ALTER SYSTEM SET vectorgpu.device = '{options.device}'", "vg")
    psql("SELECT pg_reload_conf()", "vg")
    line("rows", "index", "what", "rate", "latency", "note")
    line(*["---"] * 6)
    base = read_u8bin(options.data, f"{options.set}.base.u8bin")
    queries = read_u8bin(options.data, f"{options.set}.query.u8bin")[:JUDGED]
    try:
        measure(options, base, queries)
    except BenchError as error:
        line(options.rows, "", "failed", "", "", str(error).replace("\n", " "))
        return 1
    worker = psql("SELECT engine || ', ' || device || ', batches of ' || round(mean_batch_size::numeric, 1) FROM vectorgpu_worker", "vg")
    print(f"\nWorker: {worker}.")
    return 0 if options.device == "cpu" or worker.startswith("cuda") else 1


def measure(options, base, queries):
    began = time.monotonic()
    kth = load(base, queries, options.rows, options.sessions)
    took = time.monotonic() - began
    line(options.rows, "", f"COPY, {options.sessions} sessions", f"{took:.1f} s", "", "rows made and the queries' 10 nearest found meanwhile")
    psql(f"ANALYZE {TABLE}", "vg", patience=PATIENCE)
    began = time.monotonic()
    psql(f"CREATE INDEX {TABLE}_gpuivf ON {TABLE} USING gpuivf (v vector_l2_ops)", "vg", patience=PATIENCE)
    took = time.monotonic() - began
    size, table = (int(psql(f"SELECT {function}", "vg")) for function in
                   (f"pg_relation_size('{TABLE}_gpuivf')", f"pg_table_size('{TABLE}')"))
    line(options.rows, "gpuivf", "CREATE INDEX", f"{took:.1f} s", "", f"{size / 1e9:.2f} GB of a table of {table / 1e9:.2f} GB")
    began = time.monotonic()
    wait_for_worker(f"{TABLE}_gpuivf")
    line(options.rows, "gpuivf", "copy in the worker", f"{time.monotonic() - began:.1f} s", "", "after CREATE INDEX")
    script = [f"SELECT id FROM {TABLE} ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10;\n" for query in queries]
    for target in TARGETS:
        settings = {"enable_seqscan": "off", "gpuivf.recall_target": target}
        found = recall(queries, kth, settings)
        for clients in CLIENTS:
            before = answered()
            rate, latency = pgbench(options.work, "vg", "large", script, clients, options.seconds,
                                    {**settings, "plan_cache_mode": "force_generic_plan"})
            share = (answered() - before) / max(rate * options.seconds, 1)
            line(options.rows, f"gpuivf, recall_target {target}", f"{clients} clients", f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
                 f"recall {found:.4f}; {min(share, 1):.0%} by the worker")


if __name__ == "__main__":
    sys.exit(main())
