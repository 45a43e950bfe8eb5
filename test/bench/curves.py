"""Recall against throughput of the approximate indexes, ours and pgvector's, one client on one core each, and the figures at equal
recall. One SVG for each data set."""
import os

import builds
import datasets
import scans
import server
import svg

# Methods of both sides: label, definition, the parameter that is raised, its values.
OURS = (("gpuivf", "gpuivf (v vector_l2_ops)", "gpuivf.probes", (1, 2, 4, 8, 16, 32, 64, 128)),
        ("gpuivf sq8", "gpuivf (v vector_l2_ops) WITH (storage = 'sq8')", "gpuivf.probes", (1, 2, 4, 8, 16, 32, 64, 128)),
        ("gpuivf pq", "gpuivf (v vector_l2_ops) WITH (storage = 'pq')", "gpuivf.probes", (1, 2, 4, 8, 16, 32, 64, 128)),
        ("gpuivf rabitq", "gpuivf (v vector_l2_ops) WITH (storage = 'rabitq')", "gpuivf.probes", (1, 2, 4, 8, 16, 32, 64, 128)),
        ("gpugraph", "gpugraph (v vector_l2_ops)", "gpugraph.search_width", (16, 24, 32, 48, 64, 96, 128, 256)))
PEERS = (("pgvector ivfflat", "ivfflat (v vector_l2_ops) WITH (lists = {lists})", "ivfflat.probes", (1, 2, 4, 8, 16, 32, 64, 128)),
         ("pgvector hnsw", "hnsw (v vector_l2_ops)", "hnsw.ef_search", (10, 20, 40, 80, 160, 320, 640)))
EQUAL_RECALLS = (0.90, 0.95, 0.99)


def points(bench, side, data, texts, parameter, values):
    """[(value, recall@10, queries/s)] in ascending order of the value; ends at a recall of 1."""
    found = []
    for value in values:
        with side.connect(enable_seqscan="off", **{parameter: value}) as conn:
            server.expect_plan(conn, scans.statement(10), texts[0], "Index Scan using items_curve")
            recall = scans.mean_recall(conn, data, len(texts), texts)
            times = server.spread(server.query_times(conn, scans.statement(10), texts, max(len(texts), bench.options.runs)))
        found.append((value, recall, 1000 / times["median"]))
        if recall >= 0.9995:
            break
    return found


def rate_at(curve, recall):
    """Queries/s where the curve reaches the recall, linear between its points; None if it does not."""
    before = None
    for _, reached, rate in curve:
        if reached >= recall:
            if before is None or reached == before[0]:
                return rate
            share = (recall - before[0]) / (reached - before[0])
            return before[1] + share * (rate - before[1])
        before = (reached, rate)
    return None


def measure(bench, side, data, texts, label, definition, parameter, values):
    """The curve of one index, with the time that it took to build; the index is dropped."""
    with side.connect() as conn:
        server.prewarm(conn, "items")
        build_ms = builds.create_index(conn, "curve", f"USING {definition.format(lists=max(10, data.rows // 1000))}")
        n_bytes = builds.index_bytes(conn, "curve")
        server.prewarm(conn, "items_curve")
    bench.report.row("curve", data.name, f"{label}: CREATE INDEX", build_ms / 1000, "s", f"{n_bytes / 1e6:.0f} MB")
    curve = points(bench, side, data, texts, parameter, values)
    for value, recall, rate in curve:
        bench.report.row("curve", data.name, f"{label}, {parameter} = {value}", rate, "queries/s", recall=recall)
    with side.connect() as conn:
        conn.execute("DROP INDEX items_curve")
    return curve


def rows(bench, data, texts, folder):
    """All curves of one set, the ratios at equal recall to the better one of the peer, and the picture."""
    curves = {}
    for side, methods in ((bench.vectorgpu, OURS), (bench.peer, PEERS)):
        if side is None:
            continue
        with bench.attempt("curve", data.name, f"{side.label}: loading"):
            with side.connect() as conn:
                server.load_table(conn, "items", data.base, datasets.copy_binary_blocks(data.base))
            for label, definition, parameter, values in methods:
                with bench.attempt("curve", data.name, label):
                    curves[label] = measure(bench, side, data, texts, label, definition, parameter, values)
            with side.connect() as conn:
                conn.execute("DROP TABLE items")
    for recall in EQUAL_RECALLS:
        rates = {label: rate_at(curve, recall) for label, curve in curves.items()}
        peers = {label: rates[label] for label, *_ in PEERS if rates.get(label)}
        for label, *_ in OURS:
            if rates.get(label) and peers:
                best = max(peers, key=peers.get)
                bench.report.row("equal recall", data.name, f"{label} at recall@10 {recall:.2f}", rates[label], "queries/s",
                                 f"{best}: {peers[best]:.0f}/s", ratio=rates[label] / peers[best], ratio_of=best, recall=recall)
    if curves:
        path = os.path.join(folder, f"curves-{data.name}.svg")
        title = f"{data.name}, {data.rows:,} rows, one client, one core, LIMIT 10"
        with open(path, "w", encoding="utf-8") as file:
            file.write(svg.chart(title, "recall@10", "queries/s", {label: [(p[1], p[2]) for p in curve] for label, curve in curves.items()}))
        bench.report.say(f"wrote {path}")
