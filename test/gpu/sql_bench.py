"""The measurements of sql_bench, part by part. Standard library and numpy; clients are psql and pgbench, on the server's unix socket.

Each part is independent and prints its lines at once, so the output of a run that is cut off is valid; quick parts
come first. Times of the parts go to standard error."""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import choice
import worker
from sql_clients import BenchError, has_pgvector, line, psql, wait_for_worker
from sql_curves import Curves
from sql_filters import filters
from sql_joins import joins
from sql_live import live
from sql_match import matches
from sql_sets import APPROXIMATE, VectorSet, approximate, approximate_label, beside_inserts, exact, neighbours, peer
from sql_storages import kmeans, merge, storages

PARTS = ("way", "matches", "exact", "cpu", "inserts", "approximate", "curves", "peer", "choice", "neighbours", "filters", "storages",
         "merge", "kmeans", "live", "joins")
FILTERED = "sift-bsds-128"  # the set for conditions
CPU_SET = "sift-bsds-128"  # the set for the CPU engine
NEIGHBOURS_SET = "sift-bsds-128"
JOINS_SET = "sift-bsds-128"
STORAGES_SET = "sift-bsds-128"  # the set for indexes by codes, merges and k-means


def head():
    print()
    line("data set", "index", "what", "rate", "latency", "note")
    line(*["---"] * 6)


def set_for_all(**settings):
    for key, value in settings.items():
        psql(f"ALTER SYSTEM SET {key} = '{value}'", "vg")
    psql("SELECT pg_reload_conf()", "vg")


def figure(name, value, unit, note="", *, ratio=None, ratio_of="", target="", good=None):
    """A line of one of the figures of worker.py."""
    verdict = f"{target}: {'met' if good(ratio) else '**missed**'}; " if target else ""
    line("worker", "gpuflat", name, f"{value:.2f} {unit}" if value < 10 else f"{value:.0f} {unit}", f"{ratio:.2f} x {ratio_of}", verdict + note)


def way(figures):
    """The time that the worker adds: a scan after an insert, by the device; an engine that answers in no time, one client, and many
    clients beside scans of an empty index, in turn."""
    figures.after_insert()
    with figures.null_worker():
        figures.added_time()
        figures.many_clients(("hollow",))


def on_cpu(figures, data):
    """The CPU engine with many clients, with copies and with a scan after an insert, on the same table."""
    data.build("gpuflat")
    with figures.worker(**{"vectorgpu.device": "cpu"}):
        wait_for_worker(f"{data.table}_gpuflat")
        figures.copying(f"{data.table}_gpuflat", ", CPU engine")
        figures.batching(data.scripts(), psql(f"SELECT reltuples::int FROM pg_class WHERE oid = '{data.table}'::regclass", "vg"))
        figures.after_insert(", CPU engine")


def with_conditions(data):
    """The approximate searches, with conditions that leave rows out."""
    methods = []
    for method, target in APPROXIMATE:
        data.build(method)
        label, settings = approximate_label(method, target)
        methods.append((label, method, {**data.keep, **settings}))
    filters(data, methods)


def working():
    """The device that the worker computes on, once it runs."""
    wait_for_worker("probe_gpuflat")
    return psql("SELECT engine || ', ' || device FROM vectorgpu_worker", "vg")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--sets", default="fashion-mnist-784,sift-bsds-128")
    parser.add_argument("--only", default=",".join(PARTS), help="of " + ",".join(PARTS))
    parser.add_argument("--without", default="", help="parts to leave out")
    parser.add_argument("--peer-sets", default="fashion-mnist-784,sift-bsds-128")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--programs", required=True, help="folder that the server can run scripts from, for the null engine")
    parser.add_argument("--rows", type=int, default=0, help="the first so many of each set of vectors; 0: all")
    parser.add_argument("--way-seconds", type=int, default=2)
    choice.add_options(parser, ["sift-bsds-128", "generated-128", "adult"], sizes=[1000, 10000, 100000], clients=[1, 16], workers=[True])
    return parser.parse_args()


def main():
    options = arguments()
    parts, without = options.only.split(","), list(filter(None, options.without.split(",")))
    if unknown := set(parts + without) - set(PARTS):
        sys.exit(f"no such part: {', '.join(sorted(unknown))}")
    parts = set(parts) - set(without)
    has_peer = not options.no_peer and has_pgvector()
    for database, extension in (("vg", "vectorgpu"), ("pgv", "vector")):
        if database == "vg" or has_peer:
            psql(f"CREATE DATABASE {database}", "postgres")
            psql(f"CREATE EXTENSION {extension}", database)
    set_for_all(**{"vectorgpu.device": options.device})

    figures = worker.Figures(figure, "vg", options.work, options.programs, options.way_seconds, 1)
    figures.make_tables()
    engine = working()
    print(f"Worker: {engine}.")
    head()
    failed = 0
    sets = [VectorSet(options, name) for name in filter(None, options.sets.split(","))]
    curves = {data: Curves(data) for data in sets}

    def part(name, label, run, *needed):
        """A part that fails prints a row, and the others go on."""
        nonlocal failed
        if name not in parts:
            return
        began = time.monotonic()
        try:
            for data in needed:
                data.make()
            failed |= run() not in (None, 0)
        except BenchError as error:
            line(label, "", f"{name}: failed", "", "", str(error).replace("\n", " "))
            failed = 1
        print(f"{name} {label}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)

    def planner():
        choice.choice(argparse.Namespace(**{**vars(options), "seconds": 1}))
        head()

    part("way", "worker", lambda: way(figures))
    part("matches", "match counts", lambda: matches(options))
    for data in sets:
        part("exact", data.name, lambda: exact(data, figures), data)
        if data.name == CPU_SET:
            part("cpu", data.name, lambda: on_cpu(figures, data), data)
        part("inserts", data.name, lambda: beside_inserts(data), data)
        part("approximate", data.name, lambda: approximate(data), data)
        part("curves", data.name, lambda: curves[data].ours(), data)
    for data in sets:
        if has_peer and data.name in options.peer_sets.split(","):
            part("peer", data.name, lambda: peer(data, curves[data] if "curves" in parts else None), data)
    for data in sets:
        curves[data].draw(engine.split(", ")[1] if engine.startswith("cuda") else "a processor alone")
    part("choice", "choice", planner)
    for data in sets:
        if data.name == NEIGHBOURS_SET:
            part("neighbours", data.name, lambda: neighbours(data), data)
        if data.name == FILTERED:
            part("filters", data.name, lambda: with_conditions(data), data)
        if data.name == STORAGES_SET:
            part("storages", data.name, lambda: storages(data), data)
            part("merge", data.name, lambda: merge(data), data)
            part("kmeans", data.name, lambda: kmeans(data), data)
            part("live", data.name, lambda: live(data), data)
        if data.name == JOINS_SET:
            part("joins", data.name, lambda: joins(data, figures), data)
    line("worker", "", "mean batch size", psql("SELECT round(mean_batch_size::numeric, 1) FROM vectorgpu_worker", "vg"), "", "since it started last")
    if options.device != "cpu" and not (engine.startswith("cuda") and working().startswith("cuda")):
        print("\nThe worker did not compute on the GPU.")
        failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
