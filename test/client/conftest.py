"""Separate databases for each run of the tests: one with the extension vectorgpu, one with vector."""

import os

import psycopg
import pytest
import roads
from pgvector.psycopg import register_vector


def pytest_report_header():
    with psycopg.connect("") as connection:
        pgvector = roads.has_pgvector(connection)
    return "extension vector: " + {None: "none", True: "pgvector's, vectorgpu beside it", False: "vectorgpu's"}[pgvector]


def fresh_database(extension):
    name = f"vectorgpu_client_{os.getpid()}_{extension}"
    with psycopg.connect("", autocommit=True) as admin:
        if extension == "vector" and roads.has_pgvector(admin) is None:
            pytest.skip("the server has no extension vector")
        admin.execute(f"CREATE DATABASE {name}")
        try:
            with psycopg.connect(dbname=name, autocommit=True) as connection:
                if extension == "vector":
                    roads.create_extensions(connection)
                else:
                    connection.execute("CREATE EXTENSION vectorgpu")
            yield name
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session", params=["vectorgpu", "vector"])
def database(request):
    """The name of a fresh database with the extension; server and user come from libpq's environment variables."""
    yield from fresh_database(request.param)


@pytest.fixture(scope="session")
def road():
    """The name of a database with the extension vector, whose sessions avoid sequential scans, so that indexes are used on few rows."""
    for name in fresh_database("vector"):
        with psycopg.connect(dbname=name, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} SET enable_seqscan = off")
        yield name


@pytest.fixture
def connection(database):
    """A connection as the documentation of the pgvector package opens it; changes of a test are rolled back."""
    with psycopg.connect(dbname=database) as connection:
        register_vector(connection)
        yield connection
        connection.rollback()


@pytest.fixture(params=[False, True], ids=["text", "binary"])
def binary(request):
    """The format of results; parameters follow it if a test says so."""
    return request.param
