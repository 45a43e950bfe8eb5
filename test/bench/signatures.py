#!/usr/bin/env python3
"""Recall of gpumatch's signatures on real data, against exact answers.

Loads a part of a set of SIFT vectors and the Adult rows (as sets of tokens) into schema `signatures` of a database, builds
an index of each class of signatures and asks it for the 10 nearest rows of queries that are not in the table.
Printed for each index:

  recall@10   share of rows returned that are as near as the tenth in truth
  in bound    share of queries whose first row is a tau-approximate nearest neighbour: |sim(p, q) - sim(p*, q)| <= tau
              (Zhou et al., "A generic inverted index framework for similarity search on the GPU", definition IV.1), tau = 2 epsilon;
              sim is the collision probability of the family. 237 functions promise 1 - 2 delta of the queries for
              epsilon = delta = 0.06 (theorem IV.2)
  rows        that the index has compared for a query, and their total
  ms          median of a query by the index and by a sequential scan, in the backend (vectorgpu.worker = off)

  PGHOST=... PGPORT=... test/bench/signatures.py --data FOLDER [--rows N] [--queries N] [--hashes N,N...] [--only l2,l1,cosine,minhash]
"""

import argparse
import gzip
import math
import os
import statistics
import struct
import subprocess

EPSILON = 0.06


def psql(database, script):
    command = ["psql", "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d", database]
    return subprocess.run(command, input=script, text=True, check=True, stdout=subprocess.PIPE).stdout


def u8_vectors(path, n):
    """The first n rows of a .u8bin.gz file as vector literals."""
    with gzip.open(path) as file:
        rows, dim = struct.unpack("<II", file.read(8))
        return ["[" + ",".join(map(str, file.read(dim))) + "]" for _ in range(min(n, rows))]


def token_sets(path, n):
    """The first n rows of an .ivecs.gz file as array literals."""
    rows = []
    with gzip.open(path) as file:
        while len(rows) < n and (head := file.read(4)):
            (length,) = struct.unpack("<i", head)
            rows.append("{" + ",".join(map(str, struct.unpack(f"<{length}i", file.read(4 * length)))) + "}")
    return rows


def copy(table, rows):
    return f"COPY {table} FROM STDIN;\n" + "".join(f"{i}\t{row}\n" for i, row in enumerate(rows)) + "\\.\n"


def l2_collision(distance, width):
    """Of an E2LSH function of this width (Datar et al. 2004, section 3.2)."""
    if distance == 0:
        return 1.0
    t = width / distance
    tail = 0.5 * math.erfc(t / math.sqrt(2))
    return 1 - 2 * tail - 2 / (math.sqrt(2 * math.pi) * t) * (1 - math.exp(-t * t / 2))


SETUP = """
DROP SCHEMA IF EXISTS signatures CASCADE;
CREATE SCHEMA signatures;
SET search_path = signatures, public;
CREATE TABLE points (id int, v vector(128));
CREATE TABLE sets (id int, v int[]);
CREATE TABLE point_queries (id int, v vector(128));
CREATE TABLE set_queries (id int, v int[]);
CREATE FUNCTION ask(tab text, queries text, op text) RETURNS TABLE (query int, distances float8[], ms float8) LANGUAGE plpgsql AS $$
DECLARE
	q record;
	t timestamptz;
BEGIN
	FOR q IN EXECUTE format('SELECT id, v::text AS v FROM %I ORDER BY id', queries) LOOP
		t := clock_timestamp();
		EXECUTE format('SELECT array_agg(d) FROM (SELECT v %1$s %2$L AS d FROM %3$I ORDER BY v %1$s %2$L LIMIT 10) a', op, q.v, tab) INTO distances;
		query := q.id;
		ms := extract(epoch FROM clock_timestamp() - t) * 1000;
		RETURN NEXT;
	END LOOP;
END $$;
"""


def ask(database, table, queries, op, by_index):
    settings = "enable_seqscan = off; SET enable_sort = off" if by_index else "enable_indexscan = off"
    out = psql(database, f"SET search_path = signatures, public; SET vectorgpu.worker = off; SET {settings};"
               f"SELECT array_to_string(distances, ','), ms FROM ask('{table}', '{queries}', '{op}') ORDER BY query")
    rows = [line.split("\t") for line in out.splitlines()]
    return [[float(x) for x in row[0].split(",")] for row in rows], statistics.median(float(row[1]) for row in rows)


def compared(database, table, queries, op):
    """Rows whose exact distance the index computes for the first query."""
    query = psql(database, f"SELECT v FROM signatures.{queries} WHERE id = 0").strip()
    plan = psql(database, f"SET search_path = signatures, public; SET vectorgpu.worker = off; SET enable_seqscan = off;"
                f"EXPLAIN (ANALYZE, COSTS OFF) SELECT id FROM {table} ORDER BY v {op} '{query}' LIMIT 10")
    return plan.split("Rescored: ")[1].split()[0]


def report(database, name, table, queries, op, truth, scan_ms, similarity):
    found, ms = ask(database, table, queries, op, True)
    hits = sum(d <= t[-1] for f, t in zip(found, truth) for d in f)
    recall = hits / sum(map(len, truth))
    gaps = [similarity(t[0]) - similarity(f[0]) for f, t in zip(found, truth)]
    bound = sum(g <= 2 * EPSILON for g in gaps) / len(gaps)
    print(f"| {name} | {recall:.3f} | {bound:.3f} | {max(gaps):.3f} | {compared(database, table, queries, op)} | {ms:.1f} | {scan_ms:.1f} |", flush=True)


def families(args):
    """By name: operator class, options beside `hashes`, table, queries, operator, collision probability at a distance."""
    return {
        "l2": ("vector_lsh_l2_ops", f", width = {args.width:g}", "points", "point_queries", "<->", lambda d: l2_collision(d, args.width)),
        # Random binning of the Laplacian kernel (Rahimi and Recht 2007, section 4)
        "l1": ("vector_lsh_l1_ops", f", width = {args.l1_width:g}", "points", "point_queries", "<+>", lambda d: math.exp(-d / args.l1_width)),
        # Sign random projection (Charikar 2002)
        "cosine": ("vector_lsh_cosine_ops", "", "points", "point_queries", "<=>", lambda d: 1 - math.acos(max(-1, min(1, 1 - d))) / math.pi),
        "minhash": ("array_minhash_ops", "", "sets", "set_queries", "<%>", lambda d: 1 - d),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("VECTORGPU_DATA"), help="folder of the data sets (default: VECTORGPU_DATA)")
    parser.add_argument("--database", default="postgres")
    parser.add_argument("--rows", type=int, default=100000, help="of SIFT")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--width", type=float, default=400, help="of vector_lsh_l2_ops")
    parser.add_argument("--l1-width", type=float, default=4000, help="of vector_lsh_l1_ops")
    parser.add_argument("--hashes", default="32,100,237")
    parser.add_argument("--only", default="l2,l1,cosine,minhash")
    args = parser.parse_args()
    base = os.path.join(args.data, "")

    psql(args.database, "CREATE EXTENSION IF NOT EXISTS vectorgpu;" + SETUP +
         copy("points", u8_vectors(base + "sift-bsds-128.base.u8bin.gz", args.rows)) +
         copy("point_queries", u8_vectors(base + "sift-bsds-128.query.u8bin.gz", args.queries)) +
         copy("sets", token_sets(base + "adult.base.ivecs.gz", args.rows)) +
         copy("set_queries", token_sets(base + "adult.query.ivecs.gz", args.queries)) + "ANALYZE points; ANALYZE sets;")
    print("| index | recall@10 | in bound | largest gap | rows compared | ms | ms of a scan |\n|---|---|---|---|---|---|---|")
    for family in args.only.split(","):
        opclass, options, table, queries, op, similarity = families(args)[family]
        truth, scan_ms = ask(args.database, table, queries, op, False)
        what = f"{args.rows} SIFT vectors" if table == "points" else "Adult"
        for hashes in args.hashes.split(","):
            psql(args.database, f"CREATE INDEX signed ON signatures.{table} USING gpumatch (v {opclass} (hashes = {hashes}{options}))")
            report(args.database, f"`{opclass} (hashes = {hashes}{options})`, {what}", table, queries, op, truth, scan_ms, similarity)
            psql(args.database, "DROP INDEX signatures.signed")


if __name__ == "__main__":
    main()
