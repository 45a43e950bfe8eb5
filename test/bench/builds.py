"""CREATE INDEX against its floor (read every vector once, write the index once as pages and once as log), and sizes."""
import server


def create_index(conn, method, definition):
    """Milliseconds of CREATE INDEX items_<method>, after a checkpoint so that none falls into it."""
    conn.execute(f"DROP INDEX IF EXISTS items_{method}")
    conn.execute("CHECKPOINT")
    took_ms, _ = server.timed(lambda: conn.execute(f"CREATE INDEX items_{method} ON items {definition}"))
    return took_ms


def index_bytes(conn, method):
    return conn.execute("SELECT pg_relation_size(%s::regclass)", (f"items_{method}",)).fetchone()[0]


def gpuflat_row(bench, data, workers):
    """One row: rounds of count(*), the two writes, and CREATE INDEX, with this many parallel workers allowed."""
    counts, writes, builds = [], [], []
    with bench.vectorgpu.connect(max_parallel_maintenance_workers=workers,
                                 max_parallel_workers_per_gather=workers) as conn:
        server.prewarm(conn, "items")
        create_index(conn, "gpuflat", "USING gpuflat (v vector_l2_ops)")
        n_bytes = index_bytes(conn, "gpuflat")
        for _ in range(bench.options.build_rounds):
            counts.append(server.timed(lambda: conn.execute("SELECT count(*) FROM items WHERE v IS NOT NULL").fetchone())[0])
            writes += server.run_program([bench.programs["page_write"], bench.options.work, str(n_bytes), "1"], 300)["ms"]
            builds.append(create_index(conn, "gpuflat", "USING gpuflat (v vector_l2_ops)"))
    count, write, build = server.spread(counts), server.spread(writes), server.spread(builds)
    floor = count["median"] + write["median"]
    per_round = [b / (c + w) for b, c, w in zip(builds, counts, writes)]
    name = f"gpuflat, {workers} parallel workers allowed"
    bench.report.row("create index", data.name, f"{name}: its floor", floor, "ms",
                     f"count(*) {count['median']:.0f} ms + pages and log fsynced {write['median']:.0f} ms",
                     detail={"count_ms": count, "write_ms": write, "index_bytes": n_bytes})
    bench.report.row("create index", data.name, name, build["median"], "ms", ratio=build["median"] / floor,
                     ratio_of="its floor", target="at most 2", good=lambda x: x <= 2,
                     detail={"build_ms": build, "ratio_per_round": server.spread(per_round)})


def gpuflat_size_row(bench, data):
    with bench.vectorgpu.connect() as conn:
        n_bytes = index_bytes(conn, "gpuflat")
        table = conn.execute("SELECT pg_table_size('items')").fetchone()[0]
    ratio = n_bytes / data.raw_bytes
    bench.report.row("size", data.name, "gpuflat index", n_bytes / 1e6, "MB", ratio=ratio, ratio_of="the raw vectors",
                     target="at most 1.05" if data.dims >= 128 else None, good=lambda x: x <= 1.05,
                     detail={"index_bytes": n_bytes, "raw_bytes": data.raw_bytes, "table_bytes": table})
    bench.report.row("size", data.name, "vectorgpu table", table / 1e6, "MB", ratio=table / data.raw_bytes,
                     ratio_of="the raw vectors")


def peer_index(bench, data, method, definition):
    """Builds one index of the peer once, with the server's default number of workers; rows for its time and size."""
    with bench.peer.connect(max_parallel_maintenance_workers=2) as conn:
        server.prewarm(conn, "items")
        took_ms = create_index(conn, method, definition)
        n_bytes = index_bytes(conn, method)
    bench.report.row("create index", data.name, f"pgvector {method}, 2 parallel workers allowed", took_ms, "ms",
                     f"one run, {definition.split(') ', 1)[-1] if 'WITH' in definition else 'default options'}",
                     detail={"definition": definition})
    bench.report.row("size", data.name, f"pgvector {method} index", n_bytes / 1e6, "MB", ratio=n_bytes / data.raw_bytes,
                     ratio_of="the raw vectors", detail={"index_bytes": n_bytes})


def peer_table_size(bench, data):
    with bench.peer.connect() as conn:
        table = conn.execute("SELECT pg_table_size('items')").fetchone()[0]
    bench.report.row("size", data.name, "pgvector table", table / 1e6, "MB", ratio=table / data.raw_bytes,
                     ratio_of="the raw vectors")
