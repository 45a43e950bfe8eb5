"""SQLAlchemy on three drivers: columns of every type, indexes in the metadata, queries of the ORM and of Core through them."""

import os

import numpy as np
import psycopg
import pytest
import roads
from pgvector import SparseVector
from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC, VECTOR
from sqlalchemy import Column, Index, Integer, MetaData, Table, create_engine, event, insert, select
from sqlalchemy.orm import Session, registry

DIMENSIONS = 8
VECTORS = roads.random_vectors(100, DIMENSIONS)
METADATA = MetaData()
ITEMS = Table(
    "sqlalchemy_items",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("v", VECTOR(DIMENSIONS)),
    Column("h", HALFVEC(DIMENSIONS)),
    Column("s", SPARSEVEC(DIMENSIONS)),
    Column("b", BIT(DIMENSIONS)),
)
for name, method, column, operator_class in (
    ("v_l2", "hnsw", "v", "vector_l2_ops"),
    ("v_cosine", "ivfflat", "v", "vector_cosine_ops"),
    ("h_ip", "hnsw", "h", "halfvec_ip_ops"),
    ("s_l1", "hnsw", "s", "sparsevec_l1_ops"),
    ("b_hamming", "hnsw", "b", "bit_hamming_ops"),
):
    options = {"m": 16, "ef_construction": 64} if method == "hnsw" else {"lists": 1}
    Index(f"sqlalchemy_{name}", ITEMS.c[column], postgresql_using=method, postgresql_with=options, postgresql_ops={column: operator_class})


class Item:
    pass


registry(metadata=METADATA).map_imperatively(Item, ITEMS)


@pytest.fixture(scope="module", params=["psycopg", "psycopg2", "pg8000"])
def engine(road, request):
    host, port, user = (os.environ.get(name, default) for name, default in (("PGHOST", "localhost"), ("PGPORT", "5432"), ("PGUSER", "postgres")))
    place = f"?host={host}&port={port}"
    if request.param == "pg8000" and host.startswith("/"):
        place = f"?unix_sock={host}/.s.PGSQL.{port}"
    elif request.param == "pg8000":
        place = ""
    server = f"{host}:{port}" if request.param == "pg8000" and not place else ""
    engine = create_engine(f"postgresql+{request.param}://{user}@{server}/{road}{place}")
    with psycopg.connect(dbname=road, autocommit=True) as admin:
        METADATA.create_all(engine)
        rows = [
            {"id": i, "v": v, "h": v.astype(np.float16), "s": SparseVector(v), "b": "".join("01"[int(x > 0)] for x in v)}
            for i, v in enumerate(VECTORS)
        ]
        with engine.begin() as connection:
            connection.execute(insert(ITEMS), rows)
        assert len(roads.replace_indexes(admin, ITEMS.name)) == 5
        yield engine
        METADATA.drop_all(engine)
        engine.dispose()


def explain(engine, statement):
    """The lines of the plan of a statement with one column, as its driver sends it."""
    with engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", lambda c, cursor, sql, values, context, many: ("EXPLAIN " + sql, values), retval=True)
        return connection.scalars(statement).all()


@pytest.mark.parametrize(
    "index, column, method, operator",
    [
        ("v_l2", "v", "l2_distance", "<->"),
        ("v_cosine", "v", "cosine_distance", "<=>"),
        ("h_ip", "h", "max_inner_product", "<#>"),
        ("s_l1", "s", "l1_distance", "<+>"),
        ("b_hamming", "b", "hamming_distance", "<~>"),
    ],
)
def test_order_by_distance(engine, index, column, method, operator):
    stored = {"h": VECTORS.astype(np.float16), "b": VECTORS > 0}.get(column, VECTORS)
    query = {"s": SparseVector(VECTORS[7]), "b": "".join("01"[int(x > 0)] for x in VECTORS[7])}.get(column, stored[7])
    expected = roads.distances(operator, stored, stored[7])
    distance = getattr(ITEMS.c[column], method)(query)
    with engine.connect() as connection:
        rows = connection.execute(select(ITEMS.c.id, distance).order_by(distance).limit(10)).all()
    assert np.allclose([row[1] for row in rows], np.sort(expected)[:10], rtol=1e-5, atol=1e-5)
    assert np.allclose(expected[[row[0] for row in rows]], np.sort(expected)[:10], rtol=1e-5, atol=1e-5)
    with Session(engine) as session:
        statement = select(Item).order_by(getattr(getattr(Item, column), method)(query)).limit(10)
        assert np.allclose(expected[[item.id for item in session.scalars(statement)]], np.sort(expected)[:10], rtol=1e-5, atol=1e-5)
    assert f"Index Scan using sqlalchemy_{index} " in "\n".join(explain(engine, select(ITEMS.c.id).order_by(distance).limit(10)))


def test_values_come_back(engine):
    with Session(engine) as session:
        item = session.get(Item, 3)
    assert np.array_equal(np.array(item.v, dtype=np.float32), VECTORS[3])
    assert np.array_equal(np.array(item.h if isinstance(item.h, list) else item.h.to_list(), dtype=np.float16), VECTORS[3].astype(np.float16))
    assert np.array_equal(np.array(item.s.to_list(), dtype=np.float32), VECTORS[3])
    assert item.b == "".join("01"[int(x > 0)] for x in VECTORS[3])
