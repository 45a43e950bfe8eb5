"""CREATE INDEX of rows like embeddings against a sequential read of their vectors by as many parallel workers, and searches by codes beside
searches by full vectors. See sql_bench --builds."""
import argparse
import os
import re
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import datasets
from sql_clients import line, psql, wait_for_worker
from sql_embeddings import MADE, REAL, FileSet, MadeSet, begin, measure_sets

WORKERS = (2, 15)  # the server's default, of all indexes; and for the first one, whose build reads and writes and does little else
READS = 3  # sequential reads of which the median counts
TIMES = 2  # builds of an index, of which the faster counts, by the server's own number of workers
BUILDS = (("gpuflat", ""), ("gpuivf", ""), ("gpuivf", "storage = 'sq8'"), ("gpuivf", "storage = 'rabitq', bits = 4"), ("gpuivf", "storage = 'pq'"), ("gpugraph", ""))
HALF_BUILDS = BUILDS[:2]
TARGET = 0.98
MOST = {"gpuflat": 1.3, "gpuivf": 2.3, "gpuivf, storage = sq8": 2.3, "gpuivf, storage = rabitq, bits = 4": 2.3, "gpuivf, storage = pq": 3, "gpugraph": 3}  # times the read


def seconds(sql):
    began = time.monotonic()
    psql(sql, "vg")
    return time.monotonic() - began


def read_seconds(data, workers):
    """A read of every vector by parallel workers, which computes one distance of each."""
    query = datasets.literal(data.queries[0])
    sql = (f"SET max_parallel_workers_per_gather = {workers}; SET enable_indexscan = off; SET min_parallel_table_scan_size = 0; "
           f"SELECT sum(v <-> '{query}') FROM {data.table}")
    psql(f"ALTER TABLE {data.table} SET (parallel_workers = {workers})", "vg")
    read = statistics.median(seconds(sql) for _ in range(READS))
    line(data.name, f"{workers} workers", "sequential read", f"{read:.2f} s", "", "one distance a row")
    return read


def builds(data, indexes, workers, rates=True, times=1):
    """Each index in turn, against the read; searches of gpuivf by each storage, at the same target. times: builds of each."""
    if not indexes:
        return
    read = read_seconds(data, workers)
    for method, options in indexes:
        index = f"{data.table}_built"
        with_options = f" WITH ({options})" if options else ""
        create = f"SET max_parallel_maintenance_workers = {workers}; CREATE INDEX {index} ON {data.table} USING {method} (v {data.ops}){with_options}"
        all_took = [seconds(create)]
        for _ in range(1, times):
            psql(f"DROP INDEX {index}", "vg")
            all_took.append(seconds(create))
        took = min(all_took)
        label = f"{method}, {options}".replace("'", "") if options else method
        met = "met" if took / read <= MOST[label] else "missed"
        line(data.name, label, f"CREATE INDEX over the read, {workers} workers", f"{took / read:.2f} x", "", f"{', '.join(f'{one:.2f}' for one in all_took)} s; at most {MOST[label]} x: {met}")
        if rates and method == "gpuivf":
            data.allow("built")
            wait_for_worker(index)
            data.rates(f"{label}, recall_target {TARGET}", {"gpuivf.recall_target": TARGET})
        psql(f"DROP INDEX {index}", "vg")


def storage_of(options):
    found = re.search(r"storage = '(\w+)'", options)
    return found[1] if found else "plain"


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=0, help="rows of the made set, if fewer")
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--methods", type=words, default=[method for method, _ in BUILDS], help="access methods; default: all")
    parser.add_argument("--storages", type=words, help="of gpuivf: plain, sq8, rabitq, pq; default: all")
    parser.add_argument("--no-rates", action="store_true", help="no searches of the built indexes")
    options = parser.parse_args()

    begin(options)
    rows, dims, groups = MADE[-1]
    made = MadeSet(options, min(rows, options.rows or rows), dims, groups)
    sets = [made]
    if any(os.path.exists(os.path.join(options.data, f"{REAL}.base.f16bin{end}")) for end in ("", ".gz")):
        sets.append(FileSet(options, REAL))

    def asked(indexes):
        return [(method, with_options) for method, with_options in indexes if method in options.methods and
                (method != "gpuivf" or options.storages is None or storage_of(with_options) in options.storages)]

    def measure(data):
        builds(data, asked(BUILDS[:1]), WORKERS[1])
        builds(data, asked(BUILDS), WORKERS[0], rates=not options.no_rates, times=TIMES)
        if data is made and asked(HALF_BUILDS):
            builds(data.as_halves(), asked(HALF_BUILDS), WORKERS[0], rates=False)

    return measure_sets(options, sets, measure)


if __name__ == "__main__":
    sys.exit(main())
