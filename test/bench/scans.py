"""Exact and approximate scans of one query at a time on one core, with recall, beside the speed of memory."""
import datasets
import server

LIMITS = (1, 10, 100, 1000)
RECALL_WANTED = 0.99
EF_SEARCH = (40, 100, 200, 400, 800)
PROBES = (5, 10, 20, 50, 100, 200)


def statement(limit):
    return f"SELECT id FROM items ORDER BY v <-> %s::vector LIMIT {limit}"


def mean_recall(conn, data, n_queries, texts):
    """Mean recall@10 of the first n_queries queries, as the connection's settings answer them."""
    total = 0.0
    with conn.cursor(binary=True) as cursor:
        for number in range(n_queries):
            rows = cursor.execute(statement(10), (texts[number],), prepare=True).fetchall()
            total += datasets.recall(data, number, [row[0] for row in rows])
    return total / n_queries


def stream(bench, kind, n_bytes, repetitions):
    return server.run_program([bench.programs["stream_bandwidth"], kind, str(n_bytes), str(repetitions)], 300)["ms"]


def exact_index_against_memory(bench, data, texts):
    """The figure "exact scan": rounds that alternate between reading the same bytes from memory and the index scan."""
    times, memory, round_ratios = [], {"private": [], "shared": []}, []
    with bench.vectorgpu.connect(enable_seqscan="off") as conn:
        plan = server.expect_plan(conn, statement(10), texts[0], "Index Scan using items_gpuflat")
        for round_number in range(bench.options.rounds):
            floor = {}
            for kind in memory:
                floor[kind] = stream(bench, kind, data.raw_bytes, bench.options.runs_per_round)
                memory[kind] += floor[kind]
            scans = server.query_times(conn, statement(10), texts[round_number:] + texts[:round_number],
                                       bench.options.runs_per_round)
            times += scans
            fastest = min(server.spread(floor[kind])["median"] for kind in floor)
            round_ratios.append(server.spread(scans)["median"] / fastest)
        recall = mean_recall(conn, data, bench.options.exact_recall_queries, texts)
    floors = {kind: server.spread(values) for kind, values in memory.items()}
    kind = min(floors, key=lambda name: floors[name]["median"])
    floor, scan = floors[kind]["median"], server.spread(times)
    bench.report.row("memory", data.name, "one core reads the raw vectors", floor, "ms",
                     f"{data.raw_bytes / floor / 1e6:.1f} GB/s ({kind} memory, the faster of two kinds)", detail=floors)
    bench.report.row("exact scan", data.name, "gpuflat index scan, LIMIT 10", scan["median"], "ms", recall=recall,
                     ratio=scan["median"] / floor, ratio_of="the memory row", target="at most 1.5", good=lambda x: x <= 1.5,
                     detail={"times_ms": scan, "ratio_per_round": server.spread(round_ratios), **plan})
    return floor


def one_plan(bench, side, data, texts, floor, name, node, limit=10, n_recall=0, runs=None, **settings):
    """One row: median of `runs` executions under these settings, with recall when n_recall queries are asked for."""
    with side.connect(**settings) as conn:
        plan = server.expect_plan(conn, statement(limit), texts[0], node)
        recall = mean_recall(conn, data, n_recall, texts) if n_recall else None
        times = server.spread(server.query_times(conn, statement(limit), texts, runs or bench.options.runs))
    bench.report.row("exact scan" if "exact" in name or "sequential" in name or "gpuflat" in name else "approximate scan",
                     data.name, name, times["median"], "ms", recall=recall, ratio=times["median"] / floor,
                     ratio_of="the memory row", detail={"times_ms": times, "settings": settings, **plan})


def vectorgpu_rows(bench, data, texts):
    """All rows of vectorgpu's own table; returns the memory floor in ms, which the peer's rows are divided by too."""
    with bench.vectorgpu.connect() as conn:
        server.prewarm(conn, "items", "items_gpuflat")
    floor = exact_index_against_memory(bench, data, texts)
    for limit in LIMITS:
        if limit != 10 and limit <= data.rows:
            with bench.attempt("exact scan", data.name, f"gpuflat index scan, LIMIT {limit}"):
                one_plan(bench, bench.vectorgpu, data, texts, floor, f"gpuflat index scan, LIMIT {limit}",
                         "Index Scan using items_gpuflat", limit=limit, enable_seqscan="off")
    with bench.attempt("exact scan", data.name, "vectorgpu sequential scan, LIMIT 10"):
        one_plan(bench, bench.vectorgpu, data, texts, floor, "vectorgpu sequential scan, LIMIT 10", "Seq Scan",
                 n_recall=min(10, len(texts)), enable_indexscan="off")
    return floor


def peer_sequential(bench, data, texts, floor):
    with bench.peer.connect() as conn:
        server.prewarm(conn, "items")
    one_plan(bench, bench.peer, data, texts, floor, "pgvector sequential scan, LIMIT 10", "Seq Scan",
             n_recall=min(10, len(texts)), enable_indexscan="off")


def peer_approximate(bench, data, texts, floor, index, parameter, values):
    """Raises the search parameter until recall@10 reaches RECALL_WANTED, then measures there; (value, recall)."""
    n_recall = len(texts)
    with bench.peer.connect() as conn:
        server.prewarm(conn, "items", index)
    for value in values:
        with bench.peer.connect(enable_seqscan="off", **{parameter: value}) as conn:
            recall = mean_recall(conn, data, n_recall, texts)
        if recall >= RECALL_WANTED:
            break
    one_plan(bench, bench.peer, data, texts, floor, f"pgvector {index.removeprefix('items_')}, {parameter} = {value}, LIMIT 10",
             f"Index Scan using {index}", n_recall=n_recall, runs=max(100, bench.options.runs), enable_seqscan="off",
             **{parameter: value})
    return value, recall
