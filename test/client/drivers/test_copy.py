"""COPY of pgvector's types by drivers other than psycopg 3, which ../test_psycopg.py has."""

import io

import numpy as np
import roads
from connect import Asyncpg, Pg8000, Psycopg2
from pgvector import HalfVector, SparseVector, Vector

VECTORS = roads.random_vectors(50, 8)
ITEMS = "items (v vector(8), h halfvec(8), s sparsevec(8))"
VALUES = [(Vector(v), HalfVector(v), SparseVector(v)) for v in VECTORS]
TEXT = "".join("\t".join(value.to_text() for value in row) + "\n" for row in VALUES)


def check(driver):
    rows = driver.run("SELECT v, h, s FROM items")
    assert np.array_equal([row[0].to_numpy() for row in rows], VECTORS)
    assert np.array_equal([row[1].to_numpy() for row in rows], VECTORS.astype(np.float16))
    assert np.array_equal([row[2].to_numpy() for row in rows], VECTORS)
    driver.run("DROP TABLE items")
    driver.close()


def test_asyncpg_copies_records_in_binary(road):
    driver = Asyncpg(road)
    driver.run(f"CREATE TABLE {ITEMS}")
    driver.loop.run(driver.connection.copy_records_to_table("items", records=VALUES))
    check(driver)


def test_psycopg2_copies_text(road):
    driver = Psycopg2(road)
    driver.run(f"CREATE TABLE {ITEMS}")
    with driver.connection.cursor() as cursor:
        cursor.copy_expert("COPY items FROM STDIN", io.StringIO(TEXT))
        out = io.StringIO()
        cursor.copy_expert("COPY items TO STDOUT", out)
    assert len(out.getvalue().splitlines()) == len(VALUES)
    check(driver)


def test_pg8000_copies_text(road):
    driver = Pg8000(road)
    driver.run(f"CREATE TABLE {ITEMS}")
    driver.connection.run("COPY items FROM STDIN", stream=io.BytesIO(TEXT.encode()))
    check(driver)
