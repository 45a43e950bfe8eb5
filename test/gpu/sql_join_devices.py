"""vectorgpu_join by one device and by several: made rows under gpuflat, exact, by Euclidean distance, where the session is the bound, and by
taxicab distance, which takes a GPU far longer, so that the GPU is. Between the two the worker is started anew; the answers have to be equal.
See sql_bench --join-devices."""
import argparse
import os
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
from sql_clients import BenchError, line, psql, wait_for_worker
from sql_embeddings import begin
from sql_joins import count_gpus, seconds
from sql_sets import load

K = 10
GROUPS = 2000
BLOCK_ROWS = 16384
METRICS = (("L2", "vector_l2_ops", 60000), ("L1", "vector_l1_ops", 20000))  # and the rows that ask
SETTINGS = {"work_mem": "256MB"}


def made(n_rows, dims):
    """[n_rows, dims] float32 of length 1, in groups."""
    random = numpy.random.default_rng(1)
    centres = random.random((GROUPS, dims), numpy.float32) - 0.5
    rows = numpy.empty((n_rows, dims), numpy.float32)
    for first in range(0, n_rows, BLOCK_ROWS):
        block = rows[first:first + BLOCK_ROWS]
        random.random(dtype=numpy.float32, out=block)
        block -= 0.5
        block += centres[random.integers(0, GROUPS, len(block))]
        block /= numpy.linalg.norm(block, axis=1, keepdims=True)
    return rows


def use(devices):
    """Start a worker on these devices."""
    n = devices.count(",") + 1
    psql("ALTER SYSTEM SET vectorgpu.worker = off", "vg")
    psql("SELECT pg_reload_conf()", "vg")
    until = time.monotonic() + 60
    wait(until, "the worker does not end", "SELECT NOT ready FROM vectorgpu_worker")
    psql(f"ALTER SYSTEM SET vectorgpu.device = '{devices}'", "vg")
    psql("ALTER SYSTEM SET vectorgpu.worker = on", "vg")
    psql("SELECT pg_reload_conf()", "vg")
    wait(until, f"the worker does not compute on {devices}",
         f"SELECT ready AND coalesce(cardinality(devices), 1) = {n} AND coalesce(lost_devices, '{{}}') = '{{}}' FROM vectorgpu_worker")


def wait(until, failure, condition):
    while psql(condition, "vg") != "t":
        if time.monotonic() > until:
            raise BenchError(failure)
        time.sleep(0.1)


def answers(join):
    """A number that tells the rows of a join from others, whatever their order."""
    return psql(f"SELECT count(*), bit_xor(hashtextextended(concat_ws(' ', query, tid, rank, distance), 0)) FROM {join}", "vg")


def made_searches():
    """The searches that the worker has made, and its batches."""
    return [int(n) for n in psql("SELECT searches, batches FROM vectorgpu_worker", "vg").split("|")]


def prepare(metric, ops, n):
    """Make an index, and a table of n rows that ask. Returns the join."""
    asked, index = f"asked_{metric}".lower(), f"made_{metric}".lower()
    # Values are in the rows: the time to fetch them from elsewhere is the session's alone.
    psql(f"CREATE TABLE {asked} (LIKE made); ALTER TABLE {asked} ALTER v SET STORAGE MAIN; INSERT INTO {asked} SELECT * FROM made WHERE id < {n}", "vg")
    psql(f"VACUUM ANALYZE {asked}", "vg")
    psql(f"CREATE INDEX {index} ON made USING gpuflat (v {ops})", "vg")
    return f"vectorgpu_join('{index}', '{asked}', 'v', {K})"


def measure(name, joins, devices):
    """Lines of each join, by one device and by all. Returns how many had other answers."""
    first, n_other = {}, 0
    for used in (devices[0], ",".join(devices)):
        use(used)
        for (metric, _, n), join in joins.items():
            index = f"made_{metric}".lower()
            wait_for_worker(index)
            wait(time.monotonic() + 60, f"the copy is not on {used}",
                 f"SELECT coalesce(cardinality(devices), 1) = {used.count(',') + 1} FROM vectorgpu_indexes WHERE index_name = '{index}'")
            found = answers(join)
            before = made_searches()
            took = seconds(f"SELECT count(*) FROM {join}", SETTINGS)[0]
            searches, batches = (now - then for now, then in zip(made_searches(), before))
            what, note = "one device", f"; {searches / max(batches, 1):.0f} searches a batch"
            if metric in first:
                same = first[metric][0] == found
                n_other += not same
                what = "all devices"
                note += f"; {first[metric][1] / took:.2f} x one of the {len(devices)} devices; {'same answers' if same else 'OTHER ANSWERS'}"
            first.setdefault(metric, (found, took))
            line(name, f"gpuflat, {metric}", f"join, k = {K}, vectorgpu_join, {what}", f"{n / took:.0f} queries/s", f"{1e6 * took / n:.1f} us",
                 f"{n} queries, {took:.2f} s{note}")
    return n_other


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="not used")
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--dims", type=int, default=768)
    parser.add_argument("--device", default="", help="a list; default: all GPUs")
    options = parser.parse_args()
    devices = options.device.split(",") if options.device else [f"cuda:{number}" for number in range(count_gpus())]
    if len(devices) < 2:
        print(f"\nvectorgpu_join by several devices: skipped: this machine has {len(devices)} GPU.\n\nWorker: not started.")
        return 0
    options.device = devices[0]
    begin(options)
    name = f"{options.rows}x{options.dims} in groups"
    failed = 0
    try:
        began = time.monotonic()
        load("vg", "made", made(options.rows, options.dims))
        line(name, "", "made and loaded", f"{time.monotonic() - began:.1f} s", "", "")
        metrics = [(metric, ops, min(n, options.rows)) for metric, ops, n in METRICS]
        began = time.monotonic()
        joins = {metric: prepare(*metric) for metric in metrics}
        line(name, "gpuflat", "CREATE INDEX, and the tables that ask", f"{time.monotonic() - began:.1f} s", "", "of both metrics")
        failed += measure(name, joins, devices)
    except BenchError as error:
        line(name, "", "failed", "", "", str(error).replace("\n", " "))
        failed += 1
    print(f"\nWorker: {psql('SELECT device FROM vectorgpu_worker', 'vg')}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
