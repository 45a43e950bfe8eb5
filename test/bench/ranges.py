#!/usr/bin/env python3
"""Range search on real data: the index, a LIMIT of as many rows, and a sequential scan, as ratios.

Loads a part of a set of SIFT vectors into schema `ranges` of a database, builds an index of each access method, and asks
for the rows within radii that hold 1, 100, 1,000 and 10,000 of them (each query's own, between two distances). Printed in
Markdown, each the mean over the queries of the best of some runs, in processor time of the backend (vectorgpu.worker = off;
the server must run on this machine, since the time is read from /proc):

  ms           of the range by the index
  of LIMIT     that time, divided by that of ORDER BY ... LIMIT n by the same index
  of scan      that time, divided by that of a sequential scan
  plan of scan the plan that the planner chooses, divided by the sequential scan
  found        share of the rows within the radius

  PGHOST=... PGPORT=... test/bench/ranges.py --data FOLDER [--rows N] [--queries N] [--runs N]
"""

import argparse
import os
import pathlib
import statistics

import datasets
import numpy
import psycopg

METHODS = {"gpuflat": ("exact",), "gpuivf": ("exact", "approximate"), "gpugraph": ("exact", "approximate")}
FORCED = {"enable_seqscan": "off", "enable_sort": "off", "enable_bitmapscan": "off"}


def copy_rows(vectors):
    for number, row in enumerate(vectors):
        yield f"{number}\t[{','.join(map(str, row))}]\n"


def load(conn, base):
    conn.execute("CREATE EXTENSION IF NOT EXISTS vectorgpu")
    conn.execute("DROP SCHEMA IF EXISTS ranges CASCADE")
    conn.execute("CREATE SCHEMA ranges")
    conn.execute(f"CREATE TABLE ranges.points (id int, v vector({base.shape[1]}))")
    with conn.cursor() as cursor, cursor.copy("COPY ranges.points FROM STDIN") as copy:
        for line in copy_rows(base):
            copy.write(line)
    conn.execute("VACUUM ANALYZE ranges.points")


def cpu_ms(conn):
    return int(pathlib.Path(f"/proc/{conn.info.backend_pid}/schedstat").read_text("ascii").split()[0]) / 1e6


def measure(conn, statements, runs, **settings):
    """(mean of the best times in ms, rows found, lines of the first plan) under these settings."""
    for name, value in settings.items():
        conn.execute("SELECT set_config(%s, %s, false)", (name, value))
    plan = [row[0] for row in conn.execute("EXPLAIN (COSTS OFF) " + statements[0])]
    best, n_found = [], 0
    for statement in statements:
        n_found += len(conn.execute(statement).fetchall())  # reads pages, and the sample of a first plan
        times = []
        for _ in range(runs):
            start = cpu_ms(conn)
            conn.execute(statement).fetchall()
            times.append(cpu_ms(conn) - start)
        best.append(min(times))
    for name in settings:
        conn.execute(f"RESET {name}")
    return statistics.mean(best), n_found, plan


def line(conn, method, search, n, texts, distances, runs):
    """One line of the table, for the radius that holds n rows."""
    radii = (distances[:, n - 1] + distances[:, n]) / 2
    within = [f"SELECT id FROM ranges.points WHERE v <-> '{text}' < {radius}" for text, radius in zip(texts, radii)]
    nearest = [f"SELECT id FROM ranges.points ORDER BY v <-> '{text}' LIMIT {n}" for text in texts]
    setting = {"vectorgpu.range_search": search}
    index, n_found, plan = measure(conn, within, runs, **setting, **FORCED)
    if "Vectorgpu Filtered Scan" not in plan[0]:
        raise SystemExit(f"not planned by {method}: {plan}")
    limit, _, _ = measure(conn, nearest, runs, **setting, **FORCED)
    chosen, _, chosen_plan = measure(conn, within, runs, **setting)
    scan, n_rows, _ = measure(conn, within, runs, **{"vectorgpu.range_search": "off"})
    name = "index" if "Vectorgpu" in chosen_plan[0] else "scan"
    print(f"| {method}, {search} | {n:,} | {index:.1f} | {index / limit:.2f} | {index / scan:.2f} | {name}: {chosen / scan:.2f} | {n_found / n_rows:.3f} |",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("VECTORGPU_DATA"), help="folder of the data sets (default: VECTORGPU_DATA)")
    parser.add_argument("--database", default="postgres")
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--queries", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5, help="of each query")
    args = parser.parse_args()
    base = datasets.read_u8bin(os.path.join(args.data, "sift-bsds-128.base.u8bin.gz"))[:args.rows]
    queries = datasets.read_u8bin(os.path.join(args.data, "sift-bsds-128.query.u8bin.gz"))[:args.queries]
    distances = numpy.array([numpy.sort(numpy.sqrt(datasets.squared_distances(query, base))) for query in queries])
    texts = ["[" + ",".join(map(str, query)) + "]" for query in queries]

    with psycopg.connect(dbname=args.database, autocommit=True, prepare_threshold=None) as conn:
        load(conn, base)
        conn.execute("SET vectorgpu.worker = off")
        conn.execute("SET max_parallel_workers_per_gather = 0")
        print("| index | rows within | ms | of LIMIT | of scan | plan of scan | found |\n|---|---:|---:|---:|---:|---:|---:|")
        for method, searches in METHODS.items():
            conn.execute(f"CREATE INDEX points_index ON ranges.points USING {method} (v vector_l2_ops)")
            for search in searches:
                for n in (1, 100, 1000, 10000):
                    if n < len(base):
                        line(conn, method, search, n, texts, distances, args.runs)
            conn.execute("DROP INDEX ranges.points_index")


if __name__ == "__main__":
    main()
