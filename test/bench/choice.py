"""Compares the planner's choice with each forced plan. For tables of several sizes, LIMITs and numbers of clients, with and without the worker: the rate of
each way to answer a query (sequential scan, each index), forced, and the planner's own choice as a share of the best. Standard library
only; clients are psql and pgbench. Usually called by test/bench/choice, which makes the server."""
import argparse
import array
import csv
import io
import json
import os
import random
import statistics
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gpu"))
from choice_conditions import condition_tables
from sql_clients import BenchError, answered, content, line, pgbench, psql, wait_for_worker
from sql_match import adult_query, adult_row_type

SIZES = (1000, 10000, 100000)
SETS = ("sift-bsds-128", "fashion-mnist-784", "generated-128", "adult", "conditions")
METHODS = ("gpuflat", "gpuivf", "gpugraph")
SEQUENTIAL = "sequential scan"
SCRIPTS = 20      # different queries of a run of pgbench
GENERATED = 128   # dimensions, where there are no data sets
HOPELESS = 4      # a plan this many times slower than the best for one client is not tried with more clients
ALLOWED = 1.3     # a choice slower than that is measured again
REPEATS = 3
KEEP = {"plan_cache_mode": "force_generic_plan"}


class Table:
    """A table with all indexes that could answer the queries, named by the ends of the indexes' names. scripts: one query each, with %d for
    the LIMIT. settings: of the sessions that ask them; counts: how the choice counts; kept: another Table has the same rows."""

    def __init__(self, data, name, rows, methods, scripts):
        self.data, self.name, self.rows, self.methods, self.scripts = data, name, rows, methods, scripts
        self.settings, self.counts, self.kept = {}, True, False


def read_u8bin(folder, name, most):
    """(dimensions, rows as bytes): uint32 n, uint32 d, then the rows."""
    data = content(folder, name)
    n, dims = struct.unpack_from("<II", data)
    return dims, [data[8 + i * dims:8 + (i + 1) * dims] for i in range(min(n, most))]


def generated(most):
    """Seeded clusters instead of a data set."""
    draw = random.Random(7)
    centres = [bytes(draw.choices(range(192), k=GENERATED)) for _ in range(256)]
    noise = bytes(i % 64 for i in range(256))
    row = lambda: bytes(map(sum, zip(draw.choice(centres), draw.randbytes(GENERATED).translate(noise))))
    return GENERATED, [row() for _ in range(most)], [row() for _ in range(SCRIPTS)]


def copy_binary(rows):
    """COPY binary of (id int4, vector)."""
    dims = len(rows[0])
    blocks = [b"PGCOPY\n\xff\r\n\x00" + bytes(8)]
    for number, row in enumerate(rows):
        elements = array.array("f", list(row))
        if sys.byteorder == "little":
            elements.byteswap()
        blocks.append(struct.pack(">hiiihh", 2, 4, number, 4 + 4 * dims, dims, 0) + elements.tobytes())
    return b"".join(blocks) + b"\xff\xff"


def prepared(name):
    psql(f"VACUUM ANALYZE {name}", "vg")


def vector_tables(options, name):
    try:
        dims, rows = read_u8bin(options.data, f"{name}.base.u8bin", max(options.sizes))
        queries = read_u8bin(options.data, f"{name}.query.u8bin", SCRIPTS)[1]
    except BenchError:
        dims, rows, queries = generated(max(options.sizes))
        name = f"generated-{dims}"
    source = "choice_" + name.replace("-", "_")
    psql(f"CREATE TABLE {source} (id int4, v vector({dims}))", "vg")
    psql(f"COPY {source} FROM STDIN (FORMAT binary)", "vg", copy_binary(rows))
    tables = []
    for size in sorted({min(size, len(rows)) for size in options.sizes}):
        table = f"{source}_{size}"
        psql(f"CREATE TABLE {table} (LIKE {source})", "vg")
        psql(f"INSERT INTO {table} SELECT * FROM {source} WHERE id < {size}", "vg")
        for method in METHODS:
            psql(f"CREATE INDEX {table}_{method} ON {table} USING {method} (v vector_l2_ops)", "vg")
        prepared(table)
        tables.append(Table(name, table, size, METHODS, [f"SELECT id FROM {table} ORDER BY v <-> '[{','.join(map(str, query))}]' LIMIT %d;\n"
                                                         for query in queries]))
    psql(f"DROP TABLE {source}", "vg")
    return tables


def adult_tables(options):
    """Rows that meet most conditions; beyond Adult's 48,842 rows from the first again."""
    try:
        data = content(options.data, "adult.csv")
    except BenchError as error:
        line("adult", "", "", "", "", f"not measured: {error}")
        return []
    rows = list(csv.reader(io.StringIO(data.decode())))
    names = rows[0]
    psql(f"CREATE TABLE choice_adult (n serial, {adult_row_type(names)})", "vg")
    psql(f"COPY choice_adult ({', '.join(names)}) FROM STDIN CSV HEADER", "vg", data)
    queries = [adult_query(names, values)[0] for values in rows[1::len(rows) // SCRIPTS][:SCRIPTS]]
    row = f"matchrow({', '.join(names)})"
    tables = []
    for size in options.sizes:
        table = f"choice_adult_{size}"
        psql(f"CREATE TABLE {table} AS SELECT a.* FROM generate_series(0, {size // len(rows)}) g, choice_adult a ORDER BY g, n LIMIT {size}", "vg")
        psql(f"CREATE INDEX {table}_gpumatch ON {table} USING gpumatch ({row})", "vg")
        prepared(table)
        tables.append(Table("adult", table, size, ("gpumatch",), [f"SELECT n FROM {table} ORDER BY {row} <#> {query} LIMIT %d;\n" for query in queries]))
    psql("DROP TABLE choice_adult", "vg")
    return tables


def allow(table, methods):
    """Which indexes the planner may take. Of a throw-away cluster only."""
    names = ", ".join(f"'{table.name}_{name}'::regclass" for method in methods for name in method.split("+")) or "0"
    psql(f"SET allow_system_table_mods = on; UPDATE pg_index SET indisvalid = indexrelid IN ({names}) WHERE indrelid = '{table.name}'::regclass", "vg")


def worker_setting(worker):
    return {"vectorgpu.worker": "on" if worker else "off"}


def below(node):
    """The node whose rows this one takes."""
    return next(plan for plan in node["Plans"] if plan["Parent Relationship"] not in ("InitPlan", "SubPlan"))


def has_below(node):
    return any(plan["Parent Relationship"] not in ("InitPlan", "SubPlan") for plan in node.get("Plans", []))


def indexes_of(node):
    """The scans of the indexes of a plan of a table: of one, of a bitmap of several, of a filtered scan and its bitmap."""
    own = [node] if "Index Name" in node else []
    return own + [scan for plan in node.get("Plans", []) if plan["Parent Relationship"] not in ("InitPlan", "SubPlan") for scan in indexes_of(plan)]


def own_choice(table, limit, worker):
    """The names of the plans that the planner chooses for the queries."""
    sets = "".join(f"SET {key} = '{value}'; " for key, value in {**worker_setting(worker), **table.settings}.items())
    chosen = set()
    for script in table.scripts[:5]:
        text = psql(f"LOAD 'vectorgpu'; {sets}EXPLAIN (FORMAT JSON) {script % limit}", "vg")
        node = json.loads(text)[0]["Plan"]
        while has_below(node) and node["Node Type"] not in ("BitmapOr", "BitmapAnd", "Custom Scan"):
            node = below(node)
        chosen.add("+".join(scan["Index Name"][len(table.name) + 1:] for scan in indexes_of(node)) or SEQUENTIAL)
    return sorted(chosen)


def rate(options, table, way, limit, worker, clients):
    """Queries/s if only `way` is allowed; None: with the planner's choice."""
    allow(table, table.methods if way is None else [way] if way != SEQUENTIAL else [])
    settings = {**KEEP, **worker_setting(worker), **table.settings}
    if way not in (None, SEQUENTIAL):
        settings["enable_seqscan"] = "off"
    if way is not None and way.split("+")[0] in METHODS:  # with a bitmap of other indexes: these alone would sort
        settings["enable_sort"] = "off"
    found = pgbench(options.work, "vg", "choice", [script % limit for script in table.scripts], clients, options.seconds, settings)[0]
    allow(table, table.methods)
    return found


def asked_worker(table, limit, way):
    """True if the worker answers such queries."""
    allow(table, [way])
    before = answered()
    sets = "".join(f"SET {key} = '{value}'; " for key, value in table.settings.items())
    for _ in range(5):  # the first may bring the copy
        psql(f"{sets}SET enable_seqscan = off; {table.scripts[0] % limit}", "vg")
        if answered() > before:
            break
    allow(table, table.methods)
    return answered() > before


def measured(options, table, limit, worker, clients, known, ways):
    """{way: queries/s}; rates that do not depend on the worker are taken from `known`."""
    rates = {}
    for way in ways:
        if worker and way in known and (way == SEQUENTIAL or not asked_worker(table, limit, way)):
            rates[way] = known[way]
        else:
            rates[way] = rate(options, table, way, limit, worker, clients)
    return rates


def judged(options, table, limit, worker, clients, rates):
    """(the planner's choice, its rate). A choice that looks wrong is measured again, alternating, and medians count."""
    names = own_choice(table, limit, worker)
    own = names[0] if len(names) == 1 else None
    name = " or ".join(names)
    best = max(rates, key=rates.get)
    own_rate = rates[own] if own in rates else rate(options, table, own, limit, worker, clients)
    if own != best and rates[best] > ALLOWED * own_rate:
        runs = [(rate(options, table, own, limit, worker, clients), rate(options, table, best, limit, worker, clients)) for _ in range(REPEATS)]
        own_rate, rates[best] = (statistics.median(run[at] for run in runs) for at in (0, 1))
        if own is not None:
            rates[own] = own_rate
    return name, own_rate


def one_table(options, table):
    """Lines of one table. (choices, how many are too slow)"""
    count, bad = 0, 0
    for limit in options.limits:
        without = {}
        for worker in options.workers:
            if worker:
                for method in set(table.methods) & set(METHODS + ("gpumatch",)):
                    wait_for_worker(f"{table.name}_{method}")
            ways = [SEQUENTIAL, *table.methods]
            for clients in options.clients:
                known = without.get(clients, {}) if worker else {}
                rates = measured(options, table, limit, worker, clients, known, ways)
                if not worker:
                    without[clients] = dict(rates)
                chosen, own_rate = judged(options, table, limit, worker, clients, rates)
                best = max(rates.values())
                ratio = best / own_rate
                count, bad = count + table.counts, bad + (table.counts and ratio > ALLOWED)
                line(table.data, table.rows, limit, clients, "on" if worker else "off",
                     ", ".join(f"{way} {rates[way]:.0f}" for way in rates), chosen, f"{ratio:.2f}{' **slow**' if ratio > ALLOWED else ''}")
                ways = [way for way in ways if rates[way] * HOPELESS > best]
    return count, bad


def tables_of(options, name):
    if name == "adult":
        return adult_tables(options)
    return condition_tables(options, Table, generated) if name == "conditions" else vector_tables(options, name)


def choice(options):
    """All tables. How many choices are too slow."""
    count, bad = 0, 0
    print()
    line("data", "rows", "LIMIT", "clients", "worker", "queries/s, each way forced", "the planner's choice", "best / choice")
    line(*["---"] * 8)
    for name in options.choice_sets:
        for table in tables_of(options, name):
            more = one_table(options, table)
            count, bad = count + more[0], bad + more[1]
            if not table.kept:
                psql(f"DROP TABLE {table.name}", "vg")
    print(f"\nThe planner's choice is within {ALLOWED} x of the best in {count - bad} of {count} cases whose rows it estimates within 2 x.",
          flush=True)
    return bad


def add_options(parser, sets, sizes=SIZES, clients=(1, 16), workers=(False, True)):
    """The arguments of choice(), with their defaults."""
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("--choice-sets", type=lambda text: text.split(","), default=sets, help="of " + ",".join(SETS))
    parser.add_argument("--sizes", type=numbers, default=list(sizes))
    parser.add_argument("--limits", type=numbers, default=[10, 1000])
    parser.add_argument("--clients", type=numbers, default=list(clients))
    parser.add_argument("--conditions", default="", help="only those whose name has this text")
    parser.add_argument("--workers", type=lambda text: [word == "on" for word in text.split(",")], default=list(workers),
                        help="off,on")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seconds", type=int, default=1)
    add_options(parser, list(SETS))
    options = parser.parse_args()
    psql("CREATE DATABASE vg", "postgres")
    psql("CREATE EXTENSION vectorgpu", "vg")
    choice(options)
    print(psql("SELECT 'Worker: ' || engine || ', ' || device FROM vectorgpu_worker", "vg"))


if __name__ == "__main__":
    main()
