"""Each driver with the pgvector package: every type, NULL, many rows, every operator, through indexes of vectorgpu."""

import numpy as np
import psycopg
import pytest
import roads
from connect import DRIVERS
from pgvector import Bit, HalfVector, SparseVector, Vector

ROWS, DIMENSIONS = 120, 16
VECTORS = roads.random_vectors(ROWS, DIMENSIONS)
SPARSE = np.where(np.abs(VECTORS) > 0.7, VECTORS, 0).astype(np.float32)


@pytest.fixture(params=DRIVERS)
def driver(road, request):
    driver = DRIVERS[request.param](road)
    driver.bit = {"psycopg2": str, "pg8000": str, "asyncpg": lambda bits: bits}.get(request.param, Bit)
    driver.is_asyncpg = request.param == "asyncpg"
    yield driver
    driver.run("DROP TABLE IF EXISTS items")
    driver.close()


def bits(driver, values):
    """A parameter of type bit as the driver takes it."""
    text = "".join("1" if value else "0" for value in values)
    if driver.is_asyncpg:
        import asyncpg

        return asyncpg.BitString(text)
    return driver.bit(text)


def bits_text(value):
    """What a driver gives for bits, as text of 0 and 1."""
    if isinstance(value, str):
        return value
    return value.to_text() if isinstance(value, Bit) else value.as_string().replace(" ", "")


def insert_items(driver):
    driver.run(f"CREATE TABLE items (id int, v vector({DIMENSIONS}), h halfvec({DIMENSIONS}), s sparsevec({DIMENSIONS}), b bit({DIMENSIONS}))")
    driver.many(
        "INSERT INTO items VALUES ($1, $2, $3, $4, $5)",
        [(i, Vector(v), HalfVector(v), SparseVector(SPARSE[i]), bits(driver, v > 0)) for i, v in enumerate(VECTORS)],
    )


def test_values_come_back(driver):
    insert_items(driver)
    driver.run("INSERT INTO items VALUES ($1, $2, $3, $4, $5)", [ROWS, None, None, None, None])
    rows = driver.run("SELECT v, h, s, b FROM items ORDER BY id")
    assert tuple(rows.pop()) == (None, None, None, None)
    assert [tuple(type(value) for value in row[:3]) for row in rows] == [(Vector, HalfVector, SparseVector)] * ROWS
    assert np.array_equal([row[0].to_numpy() for row in rows], VECTORS)
    assert np.array_equal([row[1].to_numpy() for row in rows], VECTORS.astype(np.float16))
    assert np.array_equal([row[2].to_numpy() for row in rows], SPARSE)
    assert [bits_text(row[3]) for row in rows] == ["".join("01"[int(x > 0)] for x in v) for v in VECTORS]


CASES = [
    (method, column, type_name, f"{type_name}_{distance}_ops", operator)
    for method in ("hnsw", "ivfflat")
    for column, type_name in (("v", "vector"), ("h", "halfvec"), ("s", "sparsevec"))
    for distance, operator in roads.OPERATORS.items()
    if method == "hnsw" or (type_name != "sparsevec" and distance != "l1")  # pgvector has no other ones
] + [("hnsw", "b", "bit", "bit_hamming_ops", "<~>"), ("hnsw", "b", "bit", "bit_jaccard_ops", "<%>"), ("ivfflat", "b", "bit", "bit_hamming_ops", "<~>")]


def query_of(driver, type_name):
    """Stored values of a type as numpy has them, the query among them, and the query as a parameter."""
    if type_name == "bit":
        return VECTORS > 0, VECTORS[5] > 0, bits(driver, VECTORS[5] > 0)
    stored = {"vector": VECTORS, "halfvec": VECTORS.astype(np.float16), "sparsevec": SPARSE}[type_name]
    return stored, stored[5], {"vector": Vector, "halfvec": HalfVector, "sparsevec": SparseVector}[type_name](stored[5])


@pytest.fixture(scope="module")
def indexed(road):
    """A table with an index of vectorgpu for each case, made by pgvector's statements: index by (method, operator class)."""
    with psycopg.connect(dbname=road, autocommit=True) as connection:
        driver = DRIVERS["psycopg"](road)
        driver.bit, driver.is_asyncpg = Bit, False
        insert_items(driver)
        driver.run("ALTER TABLE items RENAME TO indexed")
        driver.close()
        for method, column, _, operator_class, _ in CASES:
            options = "m = 8, ef_construction = 32" if method == "hnsw" else "lists = 1"
            connection.execute(f"CREATE TABLE {method}_{operator_class} AS SELECT * FROM indexed")
            connection.execute(f"CREATE INDEX ON {method}_{operator_class} USING {method} ({column} {operator_class}) WITH ({options})")
            assert len(roads.replace_indexes(connection, f"{method}_{operator_class}")) == 1
        yield
        for method, _, _, operator_class, _ in CASES:
            connection.execute(f"DROP TABLE {method}_{operator_class}")
        connection.execute("DROP TABLE indexed")


@pytest.mark.parametrize("method, column, type_name, operator_class, operator", CASES, ids=[f"{case[0]}-{case[3]}" for case in CASES])
def test_an_index_gives_the_nearest(indexed, driver, method, column, type_name, operator_class, operator):
    table = f"{method}_{operator_class}"
    stored, query, parameter = query_of(driver, type_name)
    values = roads.distances(operator, stored, query)
    cast = f"$1::{type_name}({DIMENSIONS})"
    sql = f"SELECT id, {column} {operator} {cast} FROM {table} ORDER BY {column} {operator} {cast.replace('1', '2', 1)} LIMIT 10"
    driver.run("SET hnsw.ef_search = 100" if method == "hnsw" else "SET ivfflat.probes = 1")
    plan = "\n".join(row[0] for row in driver.run("EXPLAIN " + sql, [parameter, parameter]))
    assert f"Index Scan using {table}" in plan
    rows = driver.run(sql, [parameter, parameter])
    found = [row[0] for row in rows]
    assert len(set(found)) == 10
    # Rows of equal distance may come in any order; those of bits often are.
    assert np.allclose([row[1] for row in rows], np.sort(values)[:10], rtol=1e-5, atol=1e-5)
    assert np.allclose(values[found], np.sort(values)[:10], rtol=1e-5, atol=1e-5)
