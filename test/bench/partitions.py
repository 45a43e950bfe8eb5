#!/usr/bin/env python3
"""Searches of a table in partitions beside one index on the same rows, on real data.

Loads a part of a set of SIFT vectors into schema `parts` of a database: once as one table, once in partitions by hash, with an
index of each access method on both. Prints in Markdown, for LIMIT 10 by a prepared statement, and with planning:

  one, partitions  the tenth percentile of the time of a query as a client sees it, in ms (other work on the machine makes times longer)
  ratio            of these two
  processor        time of backend and worker together: partitions, divided by one index

The server must run on this machine, since processor time is read from /proc.

  PGHOST=... PGPORT=... test/bench/partitions.py --data FOLDER [--rows N] [--partitions N] [--queries N]
"""

import argparse
import os
import pathlib
import statistics
import time

import datasets
import psycopg

from ranges import copy_rows

WAYS = {
    "worker": {"vectorgpu.worker": "on", "vectorgpu.worker_min_size": "0"},
    "worker, read_ahead off": {"vectorgpu.worker": "on", "vectorgpu.worker_min_size": "0", "vectorgpu.read_ahead": "off"},
    "pages": {"vectorgpu.worker": "off"},
}


def load(conn, base, n_partitions):
    conn.execute("CREATE EXTENSION IF NOT EXISTS vectorgpu")
    conn.execute("DROP SCHEMA IF EXISTS parts CASCADE")
    conn.execute("CREATE SCHEMA parts")
    conn.execute(f"CREATE TABLE parts.one (id int, v vector({base.shape[1]}))")
    with conn.cursor() as cursor, cursor.copy("COPY parts.one FROM STDIN") as copy:
        for line in copy_rows(base):
            copy.write(line)
    conn.execute("CREATE TABLE parts.many (LIKE parts.one) PARTITION BY HASH (id)")
    for i in range(n_partitions):
        conn.execute(f"CREATE TABLE parts.many_{i} PARTITION OF parts.many FOR VALUES WITH (MODULUS {n_partitions}, REMAINDER {i})")
    conn.execute("INSERT INTO parts.many TABLE parts.one")
    conn.execute("VACUUM ANALYZE parts.one, parts.many")


def cpu_ms(pid):
    return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e6


def measure(conn, table, texts, prepared):
    """(tenth percentile of the time, processor time a query) in ms."""
    text = f"SELECT id FROM parts.{table} ORDER BY v <-> %s::vector LIMIT 10"
    pids = [conn.info.backend_pid] + [row[0] for row in conn.execute("SELECT pid FROM vectorgpu_worker WHERE pid IS NOT NULL")]
    for query in texts[:20]:
        conn.execute(text, (query,), prepare=prepared).fetchall()
    times, before = [], sum(map(cpu_ms, pids))
    for query in texts:
        begun = time.monotonic()
        conn.execute(text, (query,), prepare=prepared).fetchall()
        times.append(1000 * (time.monotonic() - begun))
    return statistics.quantiles(times, n=10)[0], (sum(map(cpu_ms, pids)) - before) / len(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("VECTORGPU_DATA"), help="folder of the data sets (default: VECTORGPU_DATA)")
    parser.add_argument("--database", default="postgres")
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--queries", type=int, default=200)
    args = parser.parse_args()
    base = datasets.read_u8bin(os.path.join(args.data, "sift-bsds-128.base.u8bin.gz"))[:args.rows]
    queries = datasets.read_u8bin(os.path.join(args.data, "sift-bsds-128.query.u8bin.gz"))[:args.queries]
    texts = ["[" + ",".join(map(str, query)) + "]" for query in queries]

    with psycopg.connect(dbname=args.database, autocommit=True) as conn:
        load(conn, base, args.partitions)
        conn.execute("SET plan_cache_mode = force_generic_plan")
        print("| index, answered by | query | one | partitions | ratio | processor |\n|---|---|---:|---:|---:|---:|")
        for method in ("gpuflat", "gpuivf", "gpugraph"):
            for table in ("one", "many"):
                conn.execute(f"CREATE INDEX {table}_index ON parts.{table} USING {method} (v vector_l2_ops)")
            for way, settings in WAYS.items():
                for name, value in settings.items():
                    conn.execute("SELECT set_config(%s, %s, false)", (name, value))
                for prepared in (True, False):
                    (one, one_cpu), (many, many_cpu) = (measure(conn, table, texts, prepared) for table in ("one", "many"))
                    print(f"| {method}, {way} | {'prepared' if prepared else 'planned'} | {one:.2f} | {many:.2f} | {many / one:.1f} | {many_cpu / one_cpu:.1f} |",
                          flush=True)
                for name in settings:
                    conn.execute(f"RESET {name}")
            conn.execute("DROP INDEX parts.one_index, parts.many_index")


if __name__ == "__main__":
    main()
