"""A separate database for each run of the tests, with the extension."""

import os

import psycopg
import pytest
from pgvector.psycopg import register_vector

DATABASE = f"vectorgpu_client_{os.getpid()}"


@pytest.fixture(scope="session")
def database():
    """The name of a fresh database; server and user come from libpq's environment variables."""
    with psycopg.connect("", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {DATABASE}")
        try:
            with psycopg.connect(dbname=DATABASE, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION vectorgpu")
            yield DATABASE
        finally:
            admin.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


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
