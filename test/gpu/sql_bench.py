"""The measurements of sql_bench. Standard library and numpy; clients are psql and pgbench, on the server's unix socket."""
import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import choice
import datasets
import worker
from sql_clients import BenchError, answered, content, line, pgbench, pgbench_command, psql, rate_of, wait_for_worker
from sql_filters import filters
from sql_match import matches

CHECKED = 200  # queries whose answers are compared with the ground truth
GRAPH_ROWS = 1000  # rows whose neighbours in the k-NN graph are compared with brute force
SCRIPTS = 100  # different queries of a run of pgbench, each a prepared statement
INSERT_RATE = 5000
APPROXIMATE = (("gpuivf", 0.98), ("gpugraph", 0.985))  # and the recall that is asked of them
PARTS = ("way", "cpu", "inserts", "approximate", "filters", "peer", "matches", "choice")
FILTERED = "sift-bsds-128"  # the set that conditions are measured with
CPU_SET = "sift-bsds-128"  # the set that the CPU engine is measured with


def read_u8bin(folder, name):
    """[n, d] uint8: uint32 n, uint32 d, then the rows."""
    data = content(folder, name)
    n, d = (int(value) for value in numpy.frombuffer(data, "<u4", 2))
    return numpy.frombuffer(data, numpy.uint8, n * d, offset=8).reshape(n, d)


def read_truth(folder, name):
    """[n_queries, 100] rows, nearest first."""
    data = content(folder, name)
    n, k = (int(value) for value in numpy.frombuffer(data, "<u4", 2))
    return numpy.frombuffer(data, "<u4", n * k, offset=8).reshape(n, k)


def load(database, table, rows):
    psql(f"CREATE TABLE {table} (id int4, v vector({rows.shape[1]}))", database)
    copy = subprocess.Popen(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c",
                             f"COPY {table} FROM STDIN (FORMAT binary)"], stdin=subprocess.PIPE)
    for block in datasets.copy_binary_blocks(rows):
        copy.stdin.write(block)
    copy.stdin.close()
    if copy.wait() != 0:
        raise BenchError(f"COPY {table} failed")
    psql(f"VACUUM ANALYZE {table}", database)


def search_scripts(table, queries):
    return [f"SELECT id FROM {table} ORDER BY v <-> '{datasets.literal(query)}' LIMIT 10;\n" for query in queries[:SCRIPTS]]


def recall(database, table, base, queries, truth, settings):
    """recall@10 of CHECKED queries; a row as near as the 10th counts."""
    sets = "".join(f"SET {key} = '{value}'; " for key, value in settings.items())
    found = psql(sets + f"SELECT q.id, (SELECT array_agg(id) FROM (SELECT id FROM {table} ORDER BY v <-> q.v LIMIT 10) s) "
                 f"FROM (SELECT * FROM {table}_q WHERE id < {CHECKED}) q", database)
    hits, n = 0, 0
    for line in found.splitlines():
        number, ids = line.split("|")
        query = queries[int(number)].astype(numpy.int64)
        distance = lambda rows: ((base[rows].astype(numpy.int64) - query) ** 2).sum(1)
        kth = distance(truth[int(number)][:10]).max()
        hits += int((distance(numpy.array(sorted({int(x) for x in ids.strip("{}").split(",")}))) <= kth).sum())
        n += 10
    return hits / n


def ours(options, name, base, queries, truth):
    """Exact searches; settings of the server but for what the label says."""
    table = "items_" + name.replace("-", "_")
    load("vg", table, base)
    load("vg", table + "_q", queries)
    psql(f"CREATE UNIQUE INDEX ON {table}_q (id)", "vg")
    began = time.monotonic()
    psql(f"CREATE INDEX {table}_gpuflat ON {table} USING gpuflat (v vector_l2_ops)", "vg")
    built = time.monotonic() - began
    wait_for_worker(f"{table}_gpuflat")
    copies = []
    for _ in range(5):
        psql(f"SELECT vectorgpu_evict('{table}_gpuflat'::regclass)", "vg")
        began = time.monotonic()
        copied = int(psql(f"SELECT vectorgpu_prewarm('{table}_gpuflat'::regclass)", "vg"))
        copies.append(copied / (time.monotonic() - began) / 1e9)
    keep = {"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}
    script = search_scripts(table, queries)
    found = recall("vg", table, base, queries, truth, {"enable_seqscan": "off"})
    line(name, "gpuflat", "CREATE INDEX", f"{built:.1f} s", "", "")
    line(name, "gpuflat", "copying it to the worker", f"{statistics.median(copies):.2f} GB/s", "", "psql's start included; median of 5")
    for clients, label, more in ((1, "", {}), (1, ", no spinning", {"vectorgpu.spin_time_us": 0}), (16, "", {}), (64, "", {})):
        before = answered()
        rate, latency = pgbench(options.work, "vg", "search", script, clients, options.seconds, {**keep, **more})
        share = (answered() - before) / max(rate * options.seconds, 1)
        line(name, "gpuflat", f"{clients} client{'s' if clients > 1 else ''}{label}", f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
             f"recall {found:.4f}; {min(share, 1):.0%} by the worker")
    return table, script, keep


def one_method(options, name, table, script, keep, base, queries, truth, method, target):
    """Build, recall and rates of an approximate access method."""
    began = time.monotonic()
    psql(f"CREATE INDEX {table}_{method} ON {table} USING {method} (v vector_l2_ops)", "vg")
    line(name, method, "CREATE INDEX", f"{time.monotonic() - began:.1f} s", "", "")
    wait_for_worker(f"{table}_{method}")
    settings = {f"{method}.recall_target": target}
    found = recall("vg", table, base, queries, truth, {"enable_seqscan": "off", **settings})
    for clients in (1, 16, 64):
        before = answered()
        rate, latency = pgbench(options.work, "vg", "search", script, clients, options.seconds, {**keep, **settings})
        share = (answered() - before) / max(rate * options.seconds, 1)
        line(name, f"{method}, recall_target {target}", f"{clients} client{'s' if clients > 1 else ''}", f"{rate:.0f}/s",
             f"{latency * 1000:.0f} us", f"recall {found:.4f}; {min(share, 1):.0%} by the worker")
    if "filters" in options.only.split(",") and name == FILTERED:
        filters(options, name, table, base, queries, f"{method}, recall_target {target}", {**keep, **settings})
    if method == "gpugraph":
        neighbours(name, table, f"{table}_{method}", {"enable_seqscan": "off", **settings}, base)


def graph_recall(table, index, sets, base):
    """Share of the 10 nearest other rows that the graph has of the table's first GRAPH_ROWS rows, and how many these are; a row as near as the
    10th counts. Squared distances are whole numbers."""
    edges = psql(f"{sets}SELECT s.id, t.id FROM (SELECT (g).* FROM (SELECT vectorgpu_knn_graph('{index}', 10) AS g OFFSET 0) x LIMIT {10 * GRAPH_ROWS}) e "
                 f"JOIN {table} s ON s.ctid = e.source JOIN {table} t ON t.ctid = e.target", "vg")
    targets = {}
    for edge in edges.splitlines():
        source, target = (int(part) for part in edge.split("|"))
        targets.setdefault(source, set()).add(target)
    chosen = numpy.array(sorted(targets))
    asked = base[chosen].astype(numpy.float64)
    norms = (asked ** 2).sum(1)[:, None]
    best = numpy.full((len(chosen), 10), numpy.inf)
    for first in range(0, len(base), 20000):
        block = base[first:first + 20000].astype(numpy.float64)
        squared = norms + (block ** 2).sum(1)[None, :] - 2 * (asked @ block.T)
        own = numpy.flatnonzero((chosen >= first) & (chosen < first + len(block)))
        squared[own, chosen[own] - first] = numpy.inf
        best = numpy.partition(numpy.concatenate([best, squared], axis=1), 9, axis=1)[:, :10]
    hits = 0
    for row, kth in zip(chosen, best.max(axis=1)):
        found = base[numpy.array(sorted(targets[row]))].astype(numpy.int64) - base[row]
        hits += int(((found ** 2).sum(1) <= kth).sum())
    return hits / (10 * len(chosen)), len(chosen)


def neighbours(name, table, index, settings, base):
    """The k-NN graph of the whole table, k = 10, by the index."""
    sets = "".join(f"SET {key} = '{value}'; " for key, value in settings.items())
    began = time.monotonic()
    try:
        edges = psql(f"{sets}SET statement_timeout = '40s'; SELECT count(*) FROM vectorgpu_knn_graph('{index}', 10)", "vg")
    except BenchError:
        line(name, "gpugraph", "k-NN graph of the table, k = 10", "", "", "not done within 40 s")
        return
    took = time.monotonic() - began
    found, judged = graph_recall(table, index, sets, base)
    line(name, "gpugraph", "k-NN graph of the table, k = 10", f"{took:.1f} s", "", f"{edges} edges; recall {found:.4f} of the first {judged} rows'")


def approximate(options, name, table, script, keep, base, queries, truth):
    """The same searches by approximate access methods, which take gpuflat's place for a while. How many methods failed."""
    failed = 0
    psql(f"DROP INDEX {table}_gpuflat", "vg")
    for method, target in APPROXIMATE:
        try:
            one_method(options, name, table, script, keep, base, queries, truth, method, target)
        except BenchError as error:
            failed += 1
            line(name, method, "failed", "", "", str(error).replace("\n", " "))
        psql(f"DROP INDEX IF EXISTS {table}_{method}", "vg")
    psql(f"CREATE INDEX {table}_gpuflat ON {table} USING gpuflat (v vector_l2_ops)", "vg")
    wait_for_worker(f"{table}_gpuflat")
    return failed


def beside_inserts(options, table, script, keep, base):
    """16 clients search, alone and while others insert INSERT_RATE rows a second, in turn."""
    insert = (f"\\set i random(0, {min(len(base), 10000) - 1})\n"
              f"INSERT INTO {table} SELECT -1, v FROM {table}_q WHERE id = :i;\n")
    alone, beside, rates = [], [], []
    for _ in range(2):
        alone.append(pgbench(options.work, "vg", "search", script, 16, options.seconds, keep)[0])
        command, environment = pgbench_command(options.work, "vg", "insert", insert, 4, options.seconds + 2, {}, "-R", str(INSERT_RATE))
        inserts = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        time.sleep(1)
        beside.append(pgbench(options.work, "vg", "search", script, 16, options.seconds, keep)[0])
        out, err = inserts.communicate()
        rates.append(rate_of(subprocess.CompletedProcess(command, inserts.returncode, out, err))[0])
    cost = 1 - statistics.median(b / a for a, b in zip(alone, beside))
    line(table, "gpuflat", f"16 clients beside {statistics.median(rates):.0f} inserts/s", f"{statistics.median(beside):.0f}/s", "",
         f"alone {statistics.median(alone):.0f}/s: {cost:.1%} less")


def set_for_all(**settings):
    for key, value in settings.items():
        psql(f"ALTER SYSTEM SET {key} = '{value}'", "vg")
    psql("SELECT pg_reload_conf()", "vg")


def peer(options, name, base, queries, truth):
    """pgvector's hnsw (m 16, ef_construction 64)."""
    table = "items_" + name.replace("-", "_")
    load("pgv", table, base)
    load("pgv", table + "_q", queries)
    psql(f"CREATE UNIQUE INDEX ON {table}_q (id)", "pgv")
    began = time.monotonic()
    psql(f"CREATE INDEX ON {table} USING hnsw (v vector_l2_ops)", "pgv")
    line(name, "pgvector hnsw", "CREATE INDEX", f"{time.monotonic() - began:.1f} s", "", "")
    for search in (100,):
        keep = {"enable_seqscan": "off", "hnsw.ef_search": search}
        found = recall("pgv", table, base, queries, truth, keep)
        for clients in (1, 16, 64):
            rate, latency = pgbench(options.work, "pgv", "peer", search_scripts(table, queries), clients, options.seconds, keep)
            line(name, f"pgvector hnsw, ef_search {search}", f"{clients} client{'s' if clients > 1 else ''}", f"{rate:.0f}/s",
                 f"{latency * 1000:.0f} us", f"recall {found:.4f}")


def figure(name, value, unit, note="", *, ratio=None, ratio_of="", target="", good=None):
    """A line of one of worker.py's figures."""
    verdict = f"{target}: {'met' if good(ratio) else '**missed**'}; " if target else ""
    line("worker", "gpuflat", name, f"{value:.2f} {unit}" if value < 10 else f"{value:.0f} {unit}", f"{ratio:.2f} x {ratio_of}", verdict + note)


def figures_of(options):
    return worker.Figures(figure, "vg", options.work, options.programs, options.way_seconds, 1)


def way(options):
    """What the way through the worker costs: an engine that answers in no time; one client, and many clients by the number of
    dispatchers beside scans of an empty index, in turn; a scan after an insert, by the device."""
    figures = figures_of(options)
    figures.make_tables()
    wait_for_worker("probe_gpuflat")
    figures.after_insert()
    for arguments in ("", "--dispatchers 1", "--dispatchers 3", "--spin-us 0"):
        with figures.null_worker(arguments):
            if not arguments:
                figures.added_time()
            figures.many_clients(("hollow",), f"{', ' if arguments else ''}{arguments}")


def on_cpu(options, table, queries):
    """What the CPU engine makes of many clients, of copies and of a scan after an insert, on the same table."""
    figures = figures_of(options)
    if psql("SELECT to_regclass('probe') IS NULL", "vg") == "t":
        figures.make_tables()
    with figures.worker(**{"vectorgpu.device": "cpu"}):
        wait_for_worker(f"{table}_gpuflat")
        figures.copying(f"{table}_gpuflat", ", CPU engine")
        figures.batching(search_scripts(table, queries), psql(f"SELECT reltuples::int FROM pg_class WHERE oid = '{table}'::regclass", "vg"))
        figures.after_insert(", CPU engine")
    wait_for_worker(f"{table}_gpuflat")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--sets", default="sift-bsds-128,fashion-mnist-784")
    parser.add_argument("--only", default=",".join(PARTS), help="of " + ",".join(PARTS) + "; exact searches always")
    parser.add_argument("--peer-sets", default="sift-bsds-128,fashion-mnist-784")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--programs", help="folder that the server can run scripts from; without it the null engine is left out")
    parser.add_argument("--way-seconds", type=int, default=3)
    choice.add_options(parser, ["sift-bsds-128", "adult"])
    options = parser.parse_args()
    choice_options = argparse.Namespace(**{**vars(options), "seconds": 1})
    parts = options.only.split(",")
    has_peer = not options.no_peer and psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'", "postgres") == "1"

    for database, extension in (("vg", "vectorgpu"), ("pgv", "vector")):
        if database == "vg" or has_peer:
            psql(f"CREATE DATABASE {database}", "postgres")
            psql(f"CREATE EXTENSION {extension}", database)
    set_for_all(**{"vectorgpu.device": options.device})
    line("data set", "index", "what", "rate", "latency", "note")
    line(*["---"] * 6)

    def part(label, run, *arguments):
        """What one part could not measure is a row, and the others go on."""
        try:
            return 0 if run(*arguments) in (None, 0) else 1
        except BenchError as error:
            line(label, "", "failed", "", "", str(error).replace("\n", " "))
            return 1

    def one_set(name):
        sets = (read_u8bin(options.data, f"{name}.base.u8bin"), read_u8bin(options.data, f"{name}.query.u8bin"),
                read_truth(options.data, f"{name}.gt100.bin"))
        table, script, keep = ours(options, name, *sets)
        bad = 0
        if "cpu" in parts and options.programs and name == CPU_SET:
            bad |= part(name, on_cpu, options, table, sets[1])
        if "approximate" in parts:
            bad |= approximate(options, name, table, script, keep, *sets)
        if "inserts" in parts:  # their rows stay
            beside_inserts(options, table, script, keep, sets[0])
        if "peer" in parts and has_peer and name in options.peer_sets.split(","):
            peer(options, name, *sets)
        return bad

    failed = 0
    if "way" in parts and options.programs:
        failed |= part("empty", way, options)
    for name in filter(None, options.sets.split(",")):
        failed |= part(name, one_set, name)
    if "matches" in parts:
        failed |= part("match counts", matches, options)
    if "choice" in parts:
        failed |= part("choice", lambda: choice.choice(choice_options) and None)
    worker = psql("SELECT engine || ', ' || device || ', batches of ' || round(mean_batch_size::numeric, 1) FROM vectorgpu_worker", "vg")
    print(f"\nWorker: {worker}.")
    if options.device != "cpu" and not worker.startswith("cuda"):
        print("The worker did not compute on the GPU.")
        failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
