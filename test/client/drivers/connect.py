"""The five drivers of pgvector's Python package behind one interface: connected and registered as its documentation says.

run(sql, values) gives the rows as tuples; many(sql, rows) is executemany. Parameters are written $1, $2 … and must come in this order.
"""

import asyncio
import os
import re

import asyncpg
import pg8000.native
import pgvector.asyncpg
import pgvector.pg8000
import pgvector.psycopg
import pgvector.psycopg2
import psycopg
import psycopg2
import psycopg2.extras


def with_marks(sql):
    """The statement with %s for $1, $2 …"""
    return re.sub(r"\$\d", "%s", sql.replace("%", "%%"))


class Psycopg:
    def __init__(self, database):
        self.connection = psycopg.connect(dbname=database, autocommit=True)
        pgvector.psycopg.register_vector(self.connection)

    def run(self, sql, values=()):
        cursor = self.connection.execute(with_marks(sql), values)
        return cursor.fetchall() if cursor.description else []

    def many(self, sql, rows):
        with self.connection.cursor() as cursor:
            cursor.executemany(with_marks(sql), rows)

    def close(self):
        self.connection.close()


class PsycopgAsync:
    def __init__(self, database):
        self.loop = asyncio.Runner()
        self.loop.run(self.connect(database))

    async def connect(self, database):
        self.connection = await psycopg.AsyncConnection.connect(dbname=database, autocommit=True)
        await pgvector.psycopg.register_vector_async(self.connection)

    async def rows(self, sql, values):
        cursor = await self.connection.execute(with_marks(sql), values)
        return await cursor.fetchall() if cursor.description else []

    async def insert(self, sql, rows):
        async with self.connection.cursor() as cursor:
            await cursor.executemany(with_marks(sql), rows)

    def run(self, sql, values=()):
        return self.loop.run(self.rows(sql, values))

    def many(self, sql, rows):
        self.loop.run(self.insert(sql, rows))

    def close(self):
        self.loop.run(self.connection.close())
        self.loop.close()


class Psycopg2:
    def __init__(self, database):
        self.connection = psycopg2.connect(dbname=database)
        self.connection.autocommit = True
        pgvector.psycopg2.register_vector(self.connection)

    def run(self, sql, values=()):
        with self.connection.cursor() as cursor:
            cursor.execute(with_marks(sql), tuple(values))
            return cursor.fetchall() if cursor.description else []

    def many(self, sql, rows):
        with self.connection.cursor() as cursor:
            psycopg2.extras.execute_batch(cursor, with_marks(sql), rows)

    def close(self):
        self.connection.close()


class Asyncpg:
    def __init__(self, database):
        self.loop = asyncio.Runner()
        self.loop.run(self.connect(database))

    async def connect(self, database):
        self.connection = await asyncpg.connect(database=database)
        await pgvector.asyncpg.register_vector(self.connection)

    def run(self, sql, values=()):
        return [tuple(row) for row in self.loop.run(self.connection.fetch(sql, *values))]

    def many(self, sql, rows):
        self.loop.run(self.connection.executemany(sql, rows))

    def close(self):
        self.loop.run(self.connection.close())
        self.loop.close()


class Pg8000:
    def __init__(self, database):
        host, port, user = (os.environ.get(name) for name in ("PGHOST", "PGPORT", "PGUSER"))
        port = int(port or 5432)
        place = {"unix_sock": f"{host}/.s.PGSQL.{port}"} if host and host.startswith("/") else {"host": host or "localhost", "port": port}
        self.connection = pg8000.native.Connection(user or "postgres", database=database, **place)
        pgvector.pg8000.register_vector(self.connection)

    def run(self, sql, values=()):
        named = re.sub(r"\$(\d)", r":p\1", sql.replace("::", "\0")).replace("\0", "::")
        return [tuple(row) for row in self.connection.run(named, **{f"p{i + 1}": value for i, value in enumerate(values)}) or []]

    def many(self, sql, rows):
        for row in rows:
            self.run(sql, row)

    def close(self):
        self.connection.close()


DRIVERS = {"psycopg": Psycopg, "psycopg async": PsycopgAsync, "psycopg2": Psycopg2, "asyncpg": Asyncpg, "pg8000": Pg8000}
