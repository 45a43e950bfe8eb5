"""The two ways in which an application of pgvector meets vectorgpu, and what tests of both need: databases, indexes, plans, exact answers.

Where the server has pgvector, its extension vector holds the types and vectorgpu_pgvector beside it the operator classes; there an administrator
replaces the indexes (replace_indexes). Elsewhere the extension vector is vectorgpu's own, whose hnsw and ivfflat need no change.
"""

import os
import re
import time

import numpy as np
import psycopg

BESIDE = ("CREATE SCHEMA vectorgpu", "CREATE EXTENSION vectorgpu SCHEMA vectorgpu", "CREATE EXTENSION vectorgpu_pgvector")
OPERATORS = {"l2": "<->", "ip": "<#>", "cosine": "<=>", "l1": "<+>"}
OURS = """SELECT i.indexrelid::regclass::text, c.relname, a.amname, pg_get_indexdef(i.indexrelid), p.probin LIKE '%%vectorgpu%%'
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam JOIN pg_proc p ON p.oid = a.amhandler
WHERE i.indrelid = %s::regclass ORDER BY c.relname"""


def has_pgvector(connection):
    """Whether the server's extension vector is pgvector's; None where it has none."""
    row = connection.execute("SELECT comment LIKE 'vectorgpu %' FROM pg_available_extension_versions WHERE name = 'vector'").fetchone()
    return row and not row[0]


def create_extensions(connection):
    """Creates the extension vector, and vectorgpu beside it if it is pgvector's."""
    connection.execute("CREATE EXTENSION vector")
    if has_pgvector(connection):
        for statement in BESIDE:
            connection.execute(statement)


def replace_indexes(connection, table):
    """Has vectorgpu answer for the hnsw and ivfflat indexes of a table, as docs/pgvector.md says; returns their names.

    Beside pgvector each becomes an index of gpugraph or gpuivf (of sparsevec: gpuflat) with its name; otherwise they are vectorgpu's already.
    """
    names = []
    for qualified, name, method, definition, ours in connection.execute(OURS, [table]).fetchall():
        if method not in ("hnsw", "ivfflat"):
            continue
        names.append(name)
        if not ours:
            other = "gpuflat" if "sparsevec_" in definition else {"hnsw": "gpugraph", "ivfflat": "gpuivf"}[method]
            connection.execute(f"DROP INDEX {qualified}")
            connection.execute(re.sub(r" WITH \([^)]*\)", "", definition.replace(f"USING {method}", f"USING {other}")))
    checked = {name: ours for _, name, _, _, ours in connection.execute(OURS, [table]).fetchall()}
    assert names and all(checked[name] for name in names)
    return names


def was_scanned(database, index):
    """Whether sessions report a scan of the index; those that idle report after ten seconds, and later where the machine is busy.

    Waits for PG_TEST_TIMEOUT_DEFAULT seconds, as PostgreSQL's own tests do.
    """
    until = time.monotonic() + int(os.environ.get("PG_TEST_TIMEOUT_DEFAULT") or 180)
    with psycopg.connect(dbname=database, autocommit=True) as connection:
        while time.monotonic() < until:
            if connection.execute("SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname = %s", [index]).fetchone()[0]:
                return True
            time.sleep(0.25)
    return False


def random_vectors(rows=200, dimensions=48, seed=7):
    return np.random.default_rng(seed).standard_normal((rows, dimensions)).astype(np.float32)


def distances(operator, stored, query):
    """The distances of float arrays, or of arrays of bool for <~> and <%>, to one query, in double precision."""
    if operator == "<~>":
        return (stored != query).sum(axis=1)
    if operator == "<%>":
        return 1 - (stored & query).sum(axis=1) / (stored | query).sum(axis=1)
    a, b = stored.astype(np.float64), query.astype(np.float64)
    if operator == "<->":
        return np.linalg.norm(a - b, axis=1)
    if operator == "<#>":
        return -(a @ b)
    if operator == "<=>":
        return 1 - (a @ b) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b))
    return np.abs(a - b).sum(axis=1)


def nearest(values, k):
    """The k smallest by (distance, row), as ORDER BY distance, id gives them."""
    return np.lexsort((np.arange(len(values)), values))[:k].tolist()
