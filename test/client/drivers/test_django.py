"""Django with the pgvector package: a migration's operations, fields of every type, indexes, queries by distance, aggregates."""

import os

import django
import numpy as np
import psycopg
import pytest
import roads
from django.conf import settings
from django.db import connection, migrations, models
from django.db.migrations.state import ProjectState
from django.db.models import Avg
from pgvector import HalfVector, SparseVector
from pgvector.django import (
    BitField,
    CosineDistance,
    HalfVectorField,
    HammingDistance,
    HnswIndex,
    IvfflatIndex,
    JaccardDistance,
    L1Distance,
    L2Distance,
    MaxInnerProduct,
    SparseVectorField,
    VectorExtension,
    VectorField,
)

DIMENSIONS = 8
VECTORS = roads.random_vectors(100, DIMENSIONS)
INDEXES = [
    HnswIndex(name="items_v_l2", fields=["v"], m=16, ef_construction=64, opclasses=["vector_l2_ops"]),
    IvfflatIndex(name="items_v_cosine", fields=["v"], lists=1, opclasses=["vector_cosine_ops"]),
    HnswIndex(name="items_h_ip", fields=["h"], opclasses=["halfvec_ip_ops"]),
    HnswIndex(name="items_s_l1", fields=["s"], opclasses=["sparsevec_l1_ops"]),
    HnswIndex(name="items_b", fields=["b"], opclasses=["bit_hamming_ops"]),
]
OPERATIONS = [
    VectorExtension(),
    migrations.CreateModel(
        name="Item",
        fields=[
            ("id", models.IntegerField(primary_key=True)),
            ("v", VectorField(dimensions=DIMENSIONS, null=True)),
            ("h", HalfVectorField(dimensions=DIMENSIONS, null=True)),
            ("s", SparseVectorField(dimensions=DIMENSIONS, null=True)),
            ("b", BitField(length=DIMENSIONS, null=True)),
        ],
    ),
    *[migrations.AddIndex("Item", index) for index in INDEXES],
]


@pytest.fixture(scope="module")
def model(road):
    """The model of the migrated state, with rows, and its indexes answered by vectorgpu."""
    host, port, user = (os.environ.get(name, "") for name in ("PGHOST", "PGPORT", "PGUSER"))
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": road, "HOST": host, "PORT": port, "USER": user}
    settings.configure(DATABASES={"default": database}, DEFAULT_AUTO_FIELD="django.db.models.AutoField")
    django.setup()
    state = ProjectState()
    with connection.schema_editor() as editor:
        for operation in OPERATIONS:
            before = state.clone()
            operation.state_forwards("app", state)
            operation.database_forwards("app", editor, before, state)
    item = state.apps.get_model("app", "Item")
    item.objects.bulk_create(
        item(id=i, v=v, h=HalfVector(v), s=SparseVector(v), b="".join("01"[int(x > 0)] for x in v)) for i, v in enumerate(VECTORS)
    )
    item.objects.create(id=len(VECTORS))
    with psycopg.connect(dbname=road, autocommit=True) as admin:
        assert len(roads.replace_indexes(admin, "app_item")) == len(INDEXES)
        yield item
        connection.close()
        admin.execute("DROP TABLE app_item")


def test_values_come_back(model):
    item = model.objects.get(id=3)
    assert np.array_equal(np.array(item.v, dtype=np.float32), VECTORS[3])
    assert np.array_equal(np.array(item.h if isinstance(item.h, list) else item.h.to_list(), dtype=np.float16), VECTORS[3].astype(np.float16))
    assert np.array_equal(np.array(item.s.to_list(), dtype=np.float32), VECTORS[3])
    assert item.b == "".join("01"[int(x > 0)] for x in VECTORS[3])
    assert model.objects.get(id=len(VECTORS)).v is None


@pytest.mark.parametrize(
    "column, distance, operator, index",
    [
        ("v", L2Distance, "<->", "items_v_l2"),
        ("v", CosineDistance, "<=>", "items_v_cosine"),
        ("v", MaxInnerProduct, "<#>", None),
        ("v", L1Distance, "<+>", None),
        ("h", MaxInnerProduct, "<#>", "items_h_ip"),
        ("s", L1Distance, "<+>", "items_s_l1"),
        ("b", HammingDistance, "<~>", "items_b"),
        ("b", JaccardDistance, "<%>", None),
    ],
)
def test_order_by_distance(model, column, distance, operator, index):
    stored = {"h": VECTORS.astype(np.float16), "b": VECTORS > 0}.get(column, VECTORS)
    query = {"h": HalfVector, "s": SparseVector}.get(column, lambda v: v)(VECTORS[7])
    if column == "b":
        query = "".join("01"[int(x > 0)] for x in VECTORS[7])
    values = roads.distances(operator, stored, stored[7])
    rows = model.objects.annotate(distance=distance(column, query)).order_by(distance(column, query))[:10]
    if index:
        assert f"Index Scan using {index} " in rows.explain()
    assert np.allclose([row.distance for row in rows], np.sort(values)[:10], rtol=1e-5, atol=1e-5)
    assert np.allclose(values[[row.id for row in rows]], np.sort(values)[:10], rtol=1e-5, atol=1e-5)


def test_a_condition_on_the_distance(model):
    rows = model.objects.alias(distance=L2Distance("v", VECTORS[7])).filter(distance__lt=3)
    assert {row.id for row in rows} == set(np.flatnonzero(roads.distances("<->", VECTORS, VECTORS[7]) < 3).tolist())


def test_average(model):
    average = model.objects.aggregate(Avg("v"))["v__avg"]
    assert np.allclose(average, VECTORS.mean(axis=0), atol=1e-6)
