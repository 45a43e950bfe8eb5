"""The k-NN join under SQL: queries a second of a loop, of LATERAL read ahead with one backend and with parallel workers, and of vectorgpu_join, with one
GPU and with all; where the time of LATERAL goes; and a search of partitions beside one of the whole table."""
import json
import os
import statistics
import subprocess
import time

import datasets
from sql_clients import BenchError, line, pgbench, psql, wait_for_worker
from sql_sets import as_settings

ASKED = 200000        # rows of the set that ask for their neighbours
FEWER = {"one at a time": 3000, "LATERAL": 30000}
WORKERS = 8
K = 10
STATEMENT = 64        # vectors of one statement
REPEATS = 3
SHORT_REPEATS = 31   # of a statement of few vectors
PARTITIONS = 100
METHODS = (("gpuflat", {}), ("gpuivf", {"gpuivf.recall_target": 0.98}), ("gpugraph", {"gpugraph.recall_target": 0.985}))
SERIAL = {"enable_seqscan": "on", "max_parallel_workers_per_gather": "0"}
PARALLEL = {"max_parallel_workers_per_gather": str(WORKERS), "min_parallel_table_scan_size": "0", "parallel_setup_cost": "0", "parallel_tuple_cost": "0"}


def times_of(sql, settings, repeats):
    """The times of a statement that one session repeats, in seconds, without those of the settings and of planning; and the plans."""
    plans = psql(as_settings(settings) + f"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) {sql};" * repeats, "vg")
    return [float(part.split(" ms")[0]) / 1000 for part in plans.split("Execution Time: ")[1:]], plans


def seconds(sql, settings):
    """The least time of a statement, and its plan."""
    times, plans = times_of(sql, settings, REPEATS)
    return min(times), plans.split("Execution Time: ")[0]


def usual_seconds(sql, settings):
    """The median time of a short statement in a session that has run it before."""
    return statistics.median(times_of(sql, settings, SHORT_REPEATS)[0][1:])


def asked_table(data):
    """A table of the rows that ask, which parallel workers may read in parts."""
    name = f"{data.table}_asked"
    if psql(f"SELECT to_regclass('{name}') IS NULL", "vg") == "t":
        psql(f"CREATE TABLE {name} WITH (parallel_workers = {WORKERS}) AS SELECT id, v FROM {data.table} WHERE id < {ASKED}", "vg")
        psql(f"CREATE UNIQUE INDEX ON {name} (id)", "vg")
        psql(f"VACUUM ANALYZE {name}", "vg")
    return name


def lateral(data, asked, rows):
    """Counts the neighbours' ids, which come from the table."""
    return (f"SELECT count(n.id) FROM {asked} q CROSS JOIN LATERAL (SELECT t.id FROM {data.table} t ORDER BY t.v <-> q.v LIMIT {K}) n "
            f"WHERE q.id < {rows}")


def nodes(plan, kind):
    """The nodes of a plan of this type, with its milliseconds over all loops."""
    own = [(plan["Actual Total Time"] * plan["Actual Loops"], plan)] if plan["Node Type"] == kind else []
    return own + [node for child in plan.get("Plans", []) for node in nodes(child, kind)]


def shares(data, label, sql, settings):
    """Where the time of a join goes, by the times of its nodes: the searches made ahead, the inner scans, which read the table, and the rest."""
    text = psql(f"{as_settings(settings)}EXPLAIN (ANALYZE, FORMAT JSON) {sql}", "vg")
    plan = json.JSONDecoder().raw_decode(text)[0][0]["Plan"]
    whole, ahead, inner = plan["Actual Total Time"], nodes(plan, "Custom Scan"), nodes(plan, "Limit")
    if not ahead:
        return
    search = ahead[0][0] - sum(child["Actual Total Time"] * child["Actual Loops"] for child in ahead[0][1]["Plans"])
    line(data.name, label, "join, LATERAL, time of its nodes", f"{whole / 1000:.2f} s", "",
         f"searches {search / whole:.0%}, scans of the index and the table {inner[0][0] / whole:.0%}, the rest {1 - (search + inner[0][0]) / whole:.0%}")


def rate(data, label, what, rows, took, note=""):
    line(data.name, label, f"join, k = {K}, {what}", f"{rows / took:.0f} queries/s", f"{1e6 * took / rows:.1f} us", f"{rows} queries, {took:.2f} s{note}")


def count_gpus():
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.count("GPU ")
    except OSError:
        return 0


def with_all(data, figures, label, index, join, n_asked, settings, with_one):
    """vectorgpu_join with all GPUs, if there are several. with_one: its seconds with one."""
    if not data.options.device.startswith("cuda:") or count_gpus() < 2:
        return
    with figures.worker(**{"vectorgpu.device": "cuda"}):
        until = time.monotonic() + 60
        while not (n_devices := psql("SELECT cardinality(devices) FROM vectorgpu_worker WHERE ready AND lost_devices = '{}'", "vg")):
            if time.monotonic() > until:
                raise BenchError("the worker does not compute on all GPUs")
            time.sleep(0.5)
        wait_for_worker(index)
        took, _ = seconds(join, settings)
        rate(data, label, "vectorgpu_join, all devices", n_asked, took, f"; {with_one / took:.2f} x one of the {n_devices} devices")
    wait_for_worker(index)


def of_method(data, figures, label, settings, asked):
    n_asked = int(psql(f"SELECT count(*) FROM {asked}", "vg"))
    index = f"{data.table}_{label.split(',')[0]}"
    for what, rows, own in (("one at a time", FEWER["one at a time"], {**SERIAL, "vectorgpu.read_ahead": "off"}), ("LATERAL", FEWER["LATERAL"], SERIAL),
                            (f"LATERAL, {WORKERS} workers", n_asked, PARALLEL)):
        rows = min(rows, n_asked)
        took, plan = seconds(lateral(data, asked, rows), {**settings, **own})
        launched = sum(int(part.split()[0]) for part in plan.split("Workers Launched: ")[1:])
        ahead = "; read ahead" if "Read Ahead" in plan else ""
        rate(data, label, what, rows, took, f"{ahead}{f'; {launched} workers' if launched else ''}")
    join = f"SELECT count(*) FROM vectorgpu_join('{index}', '{asked}', 'v', {K})"
    took, _ = seconds(join, settings)
    rate(data, label, "vectorgpu_join", n_asked, took)
    with_all(data, figures, label, index, join, n_asked, settings, took)
    shares(data, label, lateral(data, asked, min(FEWER["LATERAL"], n_asked)), {**settings, **SERIAL})
    one, more = (usual_seconds(lateral(data, asked, n), {**settings, **SERIAL}) for n in (1, STATEMENT))
    line(data.name, label, f"join, a statement of {STATEMENT} vectors", f"{more * 1e6:.0f} us", "", f"{more / one:.2f} x one vector's")


def partitions(data, method, label, settings):
    """One client's searches of a table in partitions, and of the whole table."""
    table = f"{data.table}_parts"
    if psql(f"SELECT to_regclass('{table}') IS NULL", "vg") == "t":
        psql(f"CREATE TABLE {table} (id int4, v vector({data.base.shape[1]})) PARTITION BY HASH (id)", "vg")
        for part in range(PARTITIONS):
            psql(f"CREATE TABLE {table}_{part} PARTITION OF {table} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part})", "vg")
        psql(f"INSERT INTO {table} SELECT id, v FROM {data.table}", "vg")
        psql(f"CREATE INDEX ON {table} (id)", "vg")
        psql(f"VACUUM ANALYZE {table}", "vg")
        scripts = [f"SELECT id FROM {table} ORDER BY id LIMIT {K};\n"]
        per_second, _ = pgbench(data.options.work, "vg", "parts", scripts, 1, data.options.seconds, data.keep)
        line(data.name, "btree (id)", f"{PARTITIONS} partitions, LIMIT {K}, one client", f"{per_second:.0f}/s", f"{1e6 / per_second:.0f} us",
             "a Merge Append of core's own indexes")
    psql(f"CREATE INDEX {table}_i ON {table} USING {method} (v {data.ops})", "vg")
    for part in range(PARTITIONS):
        wait_for_worker(psql(f"SELECT inhrelid::regclass FROM pg_inherits JOIN pg_index ON indexrelid = inhrelid "
                             f"WHERE inhparent = '{table}_i'::regclass AND indrelid = '{table}_{part}'::regclass", "vg"))
    rates = []
    for name in (data.table, table):
        scripts = [f"SELECT id FROM {name} ORDER BY v <-> '{datasets.literal(query)}' LIMIT {K};\n" for query in data.queries[:20]]
        rates.append(pgbench(data.options.work, "vg", "parts", scripts, 1, data.options.seconds, {**data.keep, **settings})[0])
    psql(f"DROP INDEX {table}_i", "vg")
    line(data.name, label, f"{PARTITIONS} partitions, LIMIT {K}, one client", f"{rates[1]:.0f}/s", f"{1e6 / rates[1]:.0f} us",
         f"one index {rates[0]:.0f}/s: {rates[0] / rates[1]:.2f} x its time")


def joins(data, figures):
    """Lines of each access method."""
    asked = asked_table(data)
    for method, settings in METHODS:
        label = ", ".join([method, *(f"{key.split('.')[1]} {value}" for key, value in settings.items())])
        data.build(method)
        of_method(data, figures, label, settings, asked)
        partitions(data, method, label, settings)
    psql(f"DROP TABLE {asked}, {data.table}_parts", "vg")
