"""The k-NN join under SQL: queries a second of a loop, of LATERAL read ahead with one backend and with parallel workers, and of vectorgpu_join."""
from sql_clients import line, psql
from sql_sets import as_settings

ASKED = 200000        # rows of the set that ask for their neighbours
FEWER = {"one at a time": 3000, "LATERAL": 30000}
WORKERS = 8
K = 10
STATEMENT = 64        # vectors of one statement
REPEATS = 3
METHODS = (("gpuflat", {}), ("gpuivf", {"gpuivf.recall_target": 0.98}), ("gpugraph", {"gpugraph.recall_target": 0.985}))
SERIAL = {"enable_seqscan": "on", "max_parallel_workers_per_gather": "0"}
PARALLEL = {"max_parallel_workers_per_gather": str(WORKERS), "min_parallel_table_scan_size": "0", "parallel_setup_cost": "0", "parallel_tuple_cost": "0"}


def seconds(sql, settings):
    """The least time of a statement, in seconds, without that of the settings and of planning."""
    times = []
    for _ in range(REPEATS):
        plan = psql(f"{as_settings(settings)}EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) {sql}", "vg")
        times.append(float(plan.split("Execution Time: ")[1].split(" ms")[0]) / 1000)
    return min(times), plan


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


def rate(data, label, what, rows, took, note=""):
    line(data.name, label, f"join, k = {K}, {what}", f"{rows / took:.0f} queries/s", f"{1e6 * took / rows:.1f} us", f"{rows} queries, {took:.2f} s{note}")


def of_method(data, label, settings, asked):
    n_asked = int(psql(f"SELECT count(*) FROM {asked}", "vg"))
    index = f"{data.table}_{label.split(',')[0]}"
    for what, rows, own in (("one at a time", FEWER["one at a time"], {**SERIAL, "vectorgpu.read_ahead": "off"}), ("LATERAL", FEWER["LATERAL"], SERIAL),
                            (f"LATERAL, {WORKERS} workers", n_asked, PARALLEL)):
        rows = min(rows, n_asked)
        took, plan = seconds(lateral(data, asked, rows), {**settings, **own})
        launched = sum(int(part.split()[0]) for part in plan.split("Workers Launched: ")[1:])
        ahead = "; read ahead" if "Read Ahead" in plan else ""
        rate(data, label, what, rows, took, f"{ahead}{f'; {launched} workers' if launched else ''}")
    took, _ = seconds(f"SELECT count(*) FROM vectorgpu_join('{index}', '{asked}', 'v', {K})", settings)
    rate(data, label, "vectorgpu_join", n_asked, took)
    one, _ = seconds(lateral(data, asked, 1), {**settings, **SERIAL})
    more, _ = seconds(lateral(data, asked, STATEMENT), {**settings, **SERIAL})
    line(data.name, label, f"join, a statement of {STATEMENT} vectors", f"{more * 1e6:.0f} us", "", f"{more / one:.2f} x one vector's")


def joins(data):
    """A line for each way and access method."""
    asked = asked_table(data)
    for method, settings in METHODS:
        data.build(method)
        of_method(data, ", ".join([method, *(f"{key.split('.')[1]} {value}" for key, value in settings.items())]), settings, asked)
    psql(f"DROP TABLE {asked}", "vg")
