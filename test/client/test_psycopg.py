"""psycopg 3 with the pgvector package: values in both formats, queries by distance, COPY, errors."""

import struct

import numpy as np
import psycopg
import pytest
from pgvector import Bit, HalfVector, SparseVector, Vector
from roads import distances, nearest, random_vectors

ROWS, DIMENSIONS = 200, 48


def create_items(connection, vectors):
    connection.execute(f"CREATE TABLE items (id int, v vector({DIMENSIONS}), h halfvec({DIMENSIONS}), b bit({DIMENSIONS}))")
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO items VALUES (%s, %s, %s, %s)",
            [(i, v, HalfVector(v), Bit(v > 0)) for i, v in enumerate(vectors)],
        )


PARAMETER = {False: "%t", True: "%b"}


@pytest.mark.parametrize(
    "value, type_name",
    [
        (Vector([1.5, -2, 3e-20]), "vector"),
        (HalfVector([1.5, -2, 65504]), "halfvec"),
        (SparseVector({0: 1.5, 7: -2, 999999999: 0.25}, 1000000000), "sparsevec"),
        (SparseVector({}, 3), "sparsevec"),
        (np.array([0.25, 2], dtype=np.float32), "vector"),
    ],
    ids=["Vector", "HalfVector", "SparseVector", "SparseVector of zeros", "ndarray"],
)
@pytest.mark.parametrize("binary_parameter", [False, True], ids=["text parameter", "binary parameter"])
def test_a_value_comes_back_as_it_went(connection, binary, binary_parameter, value, type_name):
    query = f"SELECT {PARAMETER[binary_parameter]}::{type_name}"
    result = connection.execute(query, [value], binary=binary).fetchone()[0]
    expected = Vector(value) if isinstance(value, np.ndarray) else value
    assert type(result) is type(expected)
    assert result == expected


def test_columns_keep_every_bit(connection, binary):
    vectors = random_vectors()
    create_items(connection, vectors)
    rows = connection.execute("SELECT v, h FROM items ORDER BY id", binary=binary).fetchall()
    assert np.array_equal(np.array([row[0].to_numpy() for row in rows]), vectors)
    assert np.array_equal(np.array([row[1].to_numpy() for row in rows]), vectors.astype(np.float16))


@pytest.mark.parametrize("binary_parameter", [False, True], ids=["text parameter", "binary parameter"])
@pytest.mark.parametrize("operator", ["<->", "<#>", "<=>", "<+>"])
@pytest.mark.parametrize("column", ["v", "h"])
def test_nearest_rows_are_those_that_numpy_finds(connection, column, operator, binary_parameter):
    vectors = random_vectors()
    create_items(connection, vectors)
    query = random_vectors(seed=8)[0]
    stored, parameter = vectors, query
    if column == "h":
        stored, parameter = vectors.astype(np.float16), HalfVector(query)
        query = query.astype(np.float16)
    values = distances(operator, stored, query)

    marker = PARAMETER[binary_parameter]
    rows = connection.execute(
        f"SELECT id, {column} {operator} {marker} FROM items ORDER BY {column} {operator} {marker}, id LIMIT 20",
        [parameter, parameter],
    ).fetchall()
    assert [row[0] for row in rows] == nearest(values, 20)
    assert np.allclose([row[1] for row in rows], np.sort(values)[:20], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["<->", "<#>", "<=>", "<+>"])
def test_an_index_finds_the_nearest_sparse_rows(connection, operator, binary):
    vectors = np.where(np.abs(random_vectors()) > 1, random_vectors(), 0)
    query = vectors[3]
    operator_class = {"<->": "l2", "<#>": "ip", "<=>": "cosine", "<+>": "l1"}[operator]
    connection.execute(f"CREATE TABLE items (id int, s sparsevec({DIMENSIONS}))")
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY items FROM STDIN WITH (FORMAT {'binary' if binary else 'text'})") as copy:
            copy.set_types(["int4", "sparsevec"])
            for i, v in enumerate(vectors):
                copy.write_row([i, SparseVector(v)])
    connection.execute(f"CREATE INDEX ON items USING gpuflat (s sparsevec_{operator_class}_ops)")
    connection.execute("SET LOCAL enable_seqscan = off")
    marker = PARAMETER[binary]
    ordered = f"SELECT id, s FROM items ORDER BY s {operator} {marker} LIMIT 20"
    plan = connection.execute("EXPLAIN " + ordered, [SparseVector(query)]).fetchall()
    assert "Index Scan" in plan[1][0]
    rows = connection.execute(ordered, [SparseVector(query)], binary=binary).fetchall()
    values = distances(operator, vectors, query)
    assert [row[0] for row in rows] == nearest(values, 20)
    assert all(np.array_equal(row[1].to_numpy(), vectors[row[0]]) for row in rows)


@pytest.mark.parametrize("operator", ["<~>", "<%>"])
def test_nearest_bits_are_those_that_numpy_finds(connection, operator):
    vectors = random_vectors()
    create_items(connection, vectors)
    query = random_vectors(seed=9)[0] > 0
    stored = vectors > 0
    values = distances(operator, stored, query)
    doubled = operator.replace("%", "%%")  # a % alone begins a parameter
    rows = connection.execute(f"SELECT id FROM items ORDER BY b {doubled} %s, id LIMIT 20", [Bit(query)]).fetchall()
    assert [row[0] for row in rows] == nearest(values, 20)


def test_binary_copy_in_and_out(connection):
    vectors = random_vectors()
    connection.execute(f"CREATE TABLE items (id int, v vector({DIMENSIONS}), h halfvec, b bit({DIMENSIONS}))")
    types = ["int4", "vector", "halfvec", "bit"]
    with connection.cursor() as cursor:
        with cursor.copy("COPY items FROM STDIN WITH (FORMAT binary)") as copy:
            copy.set_types(types)
            for i, v in enumerate(vectors):
                copy.write_row([i, v, HalfVector(v), Bit(v > 0)])
        with cursor.copy("COPY (SELECT id, v, h FROM items ORDER BY id) TO STDOUT WITH (FORMAT binary)") as copy:
            copy.set_types(types[:3])
            rows = list(copy.rows())
    assert [row[0] for row in rows] == list(range(ROWS))
    assert np.array_equal(np.array([row[1].to_numpy() for row in rows]), vectors)
    assert np.array_equal(np.array([row[2].to_numpy() for row in rows]), vectors.astype(np.float16))
    assert connection.execute("SELECT count(*) FROM items WHERE b::text <> binary_quantize(v)::text").fetchone()[0] == 0


def test_text_copy_in_and_out(connection):
    vectors = random_vectors()
    connection.execute("CREATE TABLE items (id int, v vector)")
    with connection.cursor() as cursor:
        with cursor.copy("COPY items FROM STDIN") as copy:
            for i, v in enumerate(vectors):
                copy.write_row([i, v])
        with cursor.copy("COPY (SELECT v FROM items ORDER BY id) TO STDOUT") as copy:
            copy.set_types(["vector"])
            rows = [row[0].to_numpy() for row in copy.rows()]
    assert np.array_equal(np.array(rows), vectors)


def test_the_largest_vector_in_both_formats(connection, binary):
    value = np.arange(16000, dtype=np.float32) / 7
    result = connection.execute("SELECT %b::vector", [value], binary=binary).fetchone()[0]
    assert np.array_equal(result.to_numpy(), value)


def test_averages_and_sums(connection):
    vectors = random_vectors()
    create_items(connection, vectors)
    average, total = connection.execute("SELECT avg(v), sum(v) FROM items").fetchone()
    assert np.allclose(average.to_numpy(), vectors.astype(np.float64).mean(axis=0), atol=1e-6)
    assert np.allclose(total.to_numpy(), vectors.astype(np.float64).sum(axis=0), atol=1e-4)


def test_arrays_become_vectors_when_they_are_assigned(connection):
    connection.execute("CREATE TABLE items (v vector(3), h halfvec(3))")
    connection.execute("INSERT INTO items VALUES (%s, %s)", [[1.0, 2.5, 3.0], [1.0, 2.5, 3.0]])
    assert connection.execute("SELECT v::real[], h::real[] FROM items").fetchone() == ([1, 2.5, 3], [1, 2.5, 3])


def binary_value(type_name, dim, unused, elements):
    return struct.pack(f">HH{len(elements)}{'f' if type_name == 'vector' else 'e'}", dim, unused, *elements)


@pytest.mark.parametrize("type_name", ["vector", "halfvec"])
@pytest.mark.parametrize(
    "dim, unused, elements, sqlstate, message",
    [
        (0, 0, [], "22000", "must have at least 1 dimension"),
        (16001, 0, [1.0] * 16001, "54000", "cannot have more than 16000 dimensions"),
        (2, 1, [1.0, 2.0], "22000", "expected unused to be 0, not 1"),
        (2, 0, [1.0, float("nan")], "22000", "NaN not allowed in"),
        (2, 0, [float("-inf"), 1.0], "22000", "infinite value not allowed in"),
        (3, 0, [1.0, 2.0], "08P01", "insufficient data left in message"),
        (1, 0, [1.0, 2.0], "22P03", "incorrect binary data format"),
    ],
)
def test_malformed_binary_values_are_refused(connection, type_name, dim, unused, elements, sqlstate, message):
    """The bytes of a value, sent as a binary parameter of the type."""
    oid = psycopg.types.TypeInfo.fetch(connection, type_name).oid
    result = connection.pgconn.exec_params(
        f"SELECT vector_dims($1::{type_name})".encode(),
        [binary_value(type_name, dim, unused, elements)],
        param_types=[oid],
        param_formats=[psycopg.pq.Format.BINARY],
    )
    assert result.status == psycopg.pq.ExecStatus.FATAL_ERROR
    assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE).decode() == sqlstate
    assert message in result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY).decode()


@pytest.mark.parametrize(
    "error, statement, parameters",
    [
        (psycopg.errors.DataException, "SELECT %s::vector <-> %s::vector", [Vector([1, 2]), Vector([1])]),
        (psycopg.errors.DataException, "SELECT %s::vector(2)", [Vector([1])]),
        (psycopg.errors.InvalidTextRepresentation, "SELECT %s::text::vector", ["1,2"]),
        (psycopg.errors.NumericValueOutOfRange, "SELECT %s::text::halfvec", ["[65520]"]),
        (psycopg.errors.NullValueNotAllowed, "SELECT %s::real[]::vector", [[1.0, None]]),
        (psycopg.errors.ProgramLimitExceeded, "SELECT %s::real[]::vector", [[0.5] * 16001]),
        (psycopg.errors.InvalidParameterValue, "SELECT %s::vector(16001)", [Vector([1])]),
    ],
)
def test_errors_arrive_as_the_classes_that_clients_catch(connection, error, statement, parameters):
    with pytest.raises(error):
        connection.execute(statement, parameters)
