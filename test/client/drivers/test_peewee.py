"""Peewee on psycopg2 and psycopg 3: fields of every type and NULL, indexes of the model, queries by distance, averages."""

import os

import numpy as np
import psycopg
import pytest
import roads
from peewee import SQL, IntegerField, Model, PostgresqlDatabase, fn
from pgvector import HalfVector, SparseVector
from pgvector.peewee import FixedBitField, HalfVectorField, SparseVectorField, VectorField

DIMENSIONS = 8
VECTORS = roads.random_vectors(100, DIMENSIONS)
HALVES = VECTORS.astype(np.float16)
BITS = ["".join("01"[int(x > 0)] for x in v) for v in VECTORS]
TABLE = "peewee_items"


class Item(Model):
    id = IntegerField(primary_key=True)
    v = VectorField(dimensions=DIMENSIONS, null=True)
    h = HalfVectorField(dimensions=DIMENSIONS, null=True)
    s = SparseVectorField(dimensions=DIMENSIONS, null=True)
    b = FixedBitField(max_length=DIMENSIONS, null=True)

    class Meta:
        table_name = TABLE


# The forms that Peewee has: columns with their operator class, and a statement, which takes the options.
Item.add_index("s sparsevec_l1_ops", using="hnsw", name="peewee_s_l1")
Item.add_index("b bit_hamming_ops", using="hnsw", name="peewee_b_hamming")
Item.add_index(SQL(f"CREATE INDEX peewee_v_l2 ON {TABLE} USING hnsw (v vector_l2_ops) WITH (m = 16, ef_construction = 64)"))
Item.add_index(SQL(f"CREATE INDEX peewee_v_cosine ON {TABLE} USING ivfflat (v vector_cosine_ops) WITH (lists = 1)"))
Item.add_index(SQL(f"CREATE INDEX peewee_h_ip ON {TABLE} USING hnsw (h halfvec_ip_ops)"))


@pytest.fixture(scope="module", params=["psycopg2", "psycopg"])
def items(road, request):
    """The model bound to a database by one of the drivers, with rows, one of them of NULLs, and its indexes answered by vectorgpu."""
    place = {key: os.environ[name] for key, name in (("host", "PGHOST"), ("port", "PGPORT"), ("user", "PGUSER")) if name in os.environ}
    database = PostgresqlDatabase(road, prefer_psycopg3=request.param == "psycopg", **place)
    with psycopg.connect(dbname=road, autocommit=True) as admin, database.bind_ctx([Item]):
        assert type(database.connection()).__module__.split(".")[0] == request.param
        database.create_tables([Item])
        rows = [{"id": i, "v": v, "h": HALVES[i], "s": SparseVector(v), "b": BITS[i]} for i, v in enumerate(VECTORS)]
        Item.insert_many(rows).execute()
        Item.create(id=len(VECTORS))
        assert len(roads.replace_indexes(admin, TABLE)) == 5
        yield Item
        database.drop_tables([Item])
        database.close()


def test_values_come_back(items):
    item = items.get_by_id(3)
    assert np.array_equal(np.array(item.v, dtype=np.float32), VECTORS[3])
    assert np.array_equal(np.array(item.h, dtype=np.float16), HALVES[3])
    assert np.array_equal(item.s.to_numpy(), VECTORS[3])
    assert item.b == BITS[3]
    item = items.get_by_id(len(VECTORS))
    assert [item.v, item.h, item.s, item.b] == [None] * 4
    assert [item.id for item in items.select().where(items.v.is_null())] == [len(VECTORS)]


def test_update(items):
    with items._meta.database.atomic() as transaction:
        items.update(v=VECTORS[4], h=HalfVector(HALVES[4]), s=SparseVector(VECTORS[4]), b=BITS[4]).where(items.id == 3).execute()
        items.update(v=None).where(items.id == 5).execute()
        item, other = items.get_by_id(3), items.get_by_id(4)
        assert (item.v, item.h, item.s, item.b) == (other.v, other.h, other.s, other.b)
        assert items.get_by_id(5).v is None
        distance = items.v.l2_distance(VECTORS[4])
        assert {item.id for item in items.select().order_by(distance).limit(2)} == {3, 4}
        transaction.rollback()


@pytest.mark.parametrize(
    "column, method, operator, index",
    [
        ("v", "l2_distance", "<->", "peewee_v_l2"),
        ("v", "cosine_distance", "<=>", "peewee_v_cosine"),
        ("v", "max_inner_product", "<#>", None),
        ("v", "l1_distance", "<+>", None),
        ("h", "l2_distance", "<->", None),
        ("h", "max_inner_product", "<#>", "peewee_h_ip"),
        ("h", "cosine_distance", "<=>", None),
        ("h", "l1_distance", "<+>", None),
        ("s", "l2_distance", "<->", None),
        ("s", "max_inner_product", "<#>", None),
        ("s", "cosine_distance", "<=>", None),
        ("s", "l1_distance", "<+>", "peewee_s_l1"),
        ("b", "hamming_distance", "<~>", "peewee_b_hamming"),
        ("b", "jaccard_distance", "<%>", None),
    ],
)
def test_order_by_distance(items, column, method, operator, index):
    stored = {"h": HALVES, "b": VECTORS > 0}.get(column, VECTORS)
    query = {"h": HALVES[7], "s": SparseVector(VECTORS[7]), "b": BITS[7]}.get(column, VECTORS[7])
    values = roads.distances(operator, stored, stored[7])
    distance = getattr(getattr(items, column), method)(query)
    rows = items.select(items.id, distance.alias("distance")).order_by(distance).limit(10)
    assert np.allclose([row.distance for row in rows], np.sort(values)[:10], rtol=1e-5, atol=1e-5)
    assert np.allclose(values[[row.id for row in rows]], np.sort(values)[:10], rtol=1e-5, atol=1e-5)
    if index:
        sql, parameters = rows.sql()
        plan = items._meta.database.execute_sql("EXPLAIN " + sql, parameters).fetchall()
        assert f"Index Scan using {index} " in "\n".join(line for (line,) in plan)


def test_a_condition_on_the_distance(items):
    rows = items.select().where(items.v.l2_distance(VECTORS[7]) < 3)
    assert {row.id for row in rows} == set(np.flatnonzero(roads.distances("<->", VECTORS, VECTORS[7]) < 3).tolist())


def test_average(items):
    averages = items.select(fn.avg(items.v).coerce(True), fn.avg(items.h).coerce(True)).scalar(as_tuple=True)
    assert np.allclose(averages[0], VECTORS.mean(axis=0), atol=1e-6)
    assert np.allclose(averages[1], HALVES.astype(np.float64).mean(axis=0), atol=1e-3)
