"""Parts of sql_bench about work that the worker does beside searches of whole vectors: indexes of codes without them, merges, k-means."""
import time

from sql_clients import answered, line, pgbench, psql, wait_for_worker
from sql_sets import plural

STORAGES = ("storage = 'pq', refine = 'none'", "storage = 'pq', refine = 'fp16'", "storage = 'sq8', refine = 'none'", "storage = 'pq'")
TARGET = 0.95  # their recall target
STORAGE_CLIENTS = (1, 16)
MOVED = (20, 100)  # one in this many rows is replaced before a merge: many, for which a GPU builds anew, and few, which are inserted
CLUSTERS = 1024


def seconds(sql):
    began = time.monotonic()
    psql(sql, "vg")
    return time.monotonic() - began


def storages(data):
    """gpuivf by codes: CREATE INDEX, searches by the worker and, of the first storage, by the pages."""
    index = f"{data.table}_codes"
    settings = {"gpuivf.recall_target": TARGET, **data.keep}
    for i, storage in enumerate(STORAGES):
        create = f"CREATE INDEX {index} ON {data.table} USING gpuivf (v vector_l2_ops) WITH ({storage})"
        label = f"gpuivf, {storage}".replace("'", "")
        took = seconds(create)
        size = psql(f"SELECT pg_size_pretty(pg_relation_size('{index}'))", "vg")
        line(data.name, label, "CREATE INDEX", f"{took:.1f} s", "", size)
        data.allow("codes")
        wait_for_worker(index)
        found = data.recall("vg", settings)
        for clients in STORAGE_CLIENTS:
            before = answered()
            rate, latency = pgbench(data.options.work, "vg", "search", data.scripts(), clients, 2, settings)
            share = (answered() - before) / max(rate * 2, 1)
            line(data.name, label, plural(clients), f"{rate:.0f}/s", f"{latency * 1000:.0f} us", f"recall {found:.4f}; {min(share, 1):.0%} by the worker")
        if i == 0:
            rate, latency = pgbench(data.options.work, "vg", "search", data.scripts(), 16, 2, {**settings, "vectorgpu.worker": "off"})
            line(data.name, label, "16 clients, from the pages", f"{rate:.0f}/s", f"{latency * 1000:.0f} us", "")
        psql(f"DROP INDEX {index}", "vg")


def kmeans(data):
    """vectorgpu_kmeans over the table, by the worker."""
    began = time.monotonic()
    n, rows, inertia = psql(f"SELECT count(*), sum(size), sum(inertia) FROM vectorgpu_kmeans('{data.table}', 'v', {CLUSTERS})", "vg").split("|")
    line(data.name, "vectorgpu_kmeans", f"{CLUSTERS} clusters", f"{time.monotonic() - began:.1f} s", "",
         f"{n} clusters of {rows} rows, inertia {float(inertia):.4g}")


def merge(data):
    """One in MOVED rows moves to another place: VACUUM marks those that left, vectorgpu_merge makes one segment of gpugraph's two. The recall before, after,
    and of an index built anew."""
    data.build("gpugraph")
    for apart in MOVED:
        merge_moved(data, f"{data.table}_gpugraph", apart)


def merge_moved(data, index, apart):
    settings = {"enable_seqscan": "off", "gpugraph.recall_target": TARGET}
    before = data.recall("vg", settings)
    psql(f"CREATE TEMP TABLE moved AS SELECT * FROM {data.table} WHERE id % {apart} = 0; DELETE FROM {data.table} WHERE id % {apart} = 0; "
         f"INSERT INTO {data.table} SELECT * FROM moved", "vg")
    vacuum = seconds(f"VACUUM {data.table}")
    merged = seconds(f"SELECT vectorgpu_merge('{index}')")
    wait_for_worker(index)
    after = data.recall("vg", settings)
    segments, delta = psql(f"SELECT segments, delta_rows FROM vectorgpu_indexes WHERE index_name = '{index}'", "vg").split("|")
    anew = seconds(f"REINDEX INDEX {index}")
    wait_for_worker(index)
    line(data.name, "gpugraph", f"vectorgpu_merge after {len(data.base) // apart} rows moved", f"{merged:.1f} s", "",
         f"VACUUM before it {vacuum:.1f} s; {plural(int(segments), 'segment')}, {delta} rows in the delta; recall {before:.4f} before, {after:.4f} after, "
         f"{data.recall('vg', settings):.4f} after REINDEX, which takes {anew:.1f} s")
