"""COPY by one client into a table with and without an index, text and binary, rounds in turn.

Both tables start with the same rows; the index was built over them. What the client sends is made before the clock
starts. A round is one COPY, one transaction, made durable at its commit.
"""
import datasets
import server


def fill(conn, table, data, n_seed, index):
    server.load_table(conn, table, data.base[:n_seed], datasets.copy_binary_blocks(data.base[:n_seed]))
    if index:
        conn.execute(f"CREATE INDEX ON {table} {index}")


def wal_position(conn):
    return conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()[0]


def rates(bench, side, data, form, index, n_rows, rounds):
    """Rows per second without and with the index, per round, and log bytes per row of each."""
    n_seed = min(bench.options.insert_seed_rows, data.rows // 2)
    fresh = data.base[n_seed:n_seed + n_rows]
    if form == "text":
        blocks, options = [datasets.copy_text(fresh)], ""
    else:
        blocks, options = list(datasets.copy_binary_blocks(fresh)), " (FORMAT binary)"
    speed, log_bytes = {"plain": [], "indexed": []}, {"plain": 0, "indexed": 0}
    with side.connect() as conn:
        fill(conn, "plain", data, n_seed, None)
        fill(conn, "indexed", data, n_seed, index)
        conn.execute("CHECKPOINT")
        for round_number in range(rounds + 1):
            for table in ("plain", "indexed") if round_number % 2 else ("indexed", "plain"):
                before = wal_position(conn)
                took_ms, _ = server.timed(lambda table=table: server.copy_in(conn, f"COPY {table} FROM STDIN{options}", blocks))
                if round_number:
                    speed[table].append(fresh.shape[0] / took_ms * 1e3)
                    log_bytes[table] += int(wal_position(conn) - before)
        conn.execute("DROP TABLE plain, indexed")
    return speed, {table: total / rounds / fresh.shape[0] for table, total in log_bytes.items()}


def row(bench, side, data, form, label, index, n_rows=None, rounds=None, target=None, good=None):
    n_rows = min(n_rows or bench.options.insert_rows, data.rows // 2)
    speed, log_bytes = rates(bench, side, data, form, index, n_rows, rounds or bench.options.runs)
    plain, indexed = server.spread(speed["plain"]), server.spread(speed["indexed"])
    per_round = [b / a for a, b in zip(speed["plain"], speed["indexed"])]
    bench.report.row("insert", data.name, f"{form} COPY, {label}", indexed["median"], "rows/s",
                     f"without index {plain['median']:.0f} rows/s; log per row {log_bytes['plain']:.0f} B without, "
                     f"{log_bytes['indexed']:.0f} B with", ratio=indexed["median"] / plain["median"],
                     ratio_of="without index", target=target, good=good,
                     detail={"rows_per_s": indexed, "without_index_rows_per_s": plain, "rows_per_copy": n_rows,
                             "ratio_per_round": server.spread(per_round), "log_bytes_per_row": log_bytes})


def vectorgpu_rows(bench, data):
    for form, target in (("text", 0.5), ("binary", 0.25)):
        with bench.attempt("insert", data.name, f"{form} COPY, gpuflat"):
            row(bench, bench.vectorgpu, data, form, "gpuflat", "USING gpuflat (v vector_l2_ops)",
                target=f"at least {target:.0%}", good=lambda x, target=target: x >= target)


def peer_rows(bench, data):
    for form in ("text", "binary"):
        with bench.attempt("insert", data.name, f"{form} COPY, pgvector ivfflat"):
            row(bench, bench.peer, data, form, "pgvector ivfflat, lists = 100",
                "USING ivfflat (v vector_l2_ops) WITH (lists = 100)")
        with bench.attempt("insert", data.name, f"{form} COPY, pgvector hnsw"):
            row(bench, bench.peer, data, form, "pgvector hnsw, default options", "USING hnsw (v vector_l2_ops)",
                n_rows=bench.options.insert_rows_hnsw, rounds=min(5, bench.options.runs))
