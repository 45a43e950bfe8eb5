"""Connections, timings and plans, used by every measurement. The server is the throw-away cluster of scripts/bench."""
import contextlib
import json
import statistics
import subprocess
import time

import psycopg


class BenchError(Exception):
    """A measurement that could not be taken as described; it becomes a named gap in the table, never a number."""


class Side:
    """One extension under test, in a database of its own. Connections are autocommit."""

    def __init__(self, extension, label, database, timeout_s):
        self.extension, self.label, self.database, self.timeout_s = extension, label, database, timeout_s

    def create(self):
        with psycopg.connect(dbname="postgres", autocommit=True) as conn:
            conn.execute(f"DROP DATABASE IF EXISTS {self.database}")
            conn.execute(f"CREATE DATABASE {self.database}")
        with self.connect() as conn:
            conn.execute(f"CREATE EXTENSION {self.extension}")
            conn.execute("CREATE EXTENSION pg_prewarm")
            return conn.execute("SELECT extversion FROM pg_extension WHERE extname = %s", (self.extension,)).fetchone()[0]

    @contextlib.contextmanager
    def connect(self, **settings):
        """One backend with these settings; one core unless asked otherwise."""
        base = {"max_parallel_workers_per_gather": 0, "plan_cache_mode": "force_generic_plan",
                "statement_timeout": self.timeout_s * 1000, **settings}
        with psycopg.connect(dbname=self.database, autocommit=True) as conn:
            for name, value in base.items():
                conn.execute(f"SELECT set_config('{name}', %s, false)", (str(value),))
            yield conn


def available(extension):
    with psycopg.connect(dbname="postgres", autocommit=True) as conn:
        return conn.execute("SELECT default_version FROM pg_available_extensions WHERE name = %s",
                            (extension,)).fetchone() is not None


def spread(values):
    """Median, and the ranges of the middle 80 % and of all values."""
    ordered = sorted(values)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return {"median": statistics.median(ordered), "p10": at(0.1), "p90": at(0.9), "min": ordered[0],
            "max": ordered[-1], "runs": len(ordered)}


def timed(action):
    """(milliseconds, result) of calling action."""
    start = time.perf_counter_ns()
    result = action()
    return (time.perf_counter_ns() - start) / 1e6, result


def run_program(command, timeout_s):
    """The JSON that a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise BenchError(f"{command[0]} failed: {done.stderr.strip()[-200:]}")
    return json.loads(done.stdout)


def load_table(conn, table, data_rows, blocks):
    """Creates table (id, v), fills it by binary COPY, and leaves it vacuumed (hint bits set, all visible)."""
    conn.execute(f"DROP TABLE IF EXISTS {table}")
    conn.execute(f"CREATE TABLE {table} (id int4, v vector({data_rows.shape[1]}))")
    copy_in(conn, f"COPY {table} FROM STDIN (FORMAT binary)", blocks)
    conn.execute(f"VACUUM ANALYZE {table}")


def copy_in(conn, statement, blocks):
    with conn.cursor() as cursor, cursor.copy(statement) as copy:
        for block in blocks:
            copy.write(block)


def prewarm(conn, *relations):
    """Reads relations (and what a table keeps out of line) into shared buffers."""
    for relation in relations:
        conn.execute("SELECT pg_prewarm(%s::regclass)", (relation,))
        conn.execute("SELECT pg_prewarm(reltoastrelid::regclass) FROM pg_class WHERE oid = %s::regclass AND reltoastrelid <> 0",
                     (relation,))


def expect_plan(conn, sql, parameter, node):
    """Runs sql under EXPLAIN; an error unless its scan is `node` and every page came from shared buffers."""
    text = sql.replace("%s", "'" + parameter + "'")
    plan = conn.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) {text}").fetchone()[0][0]["Plan"]
    names, read, pending = [], plan.get("Shared Read Blocks", 0), [plan]
    while pending:
        item = pending.pop()
        names.append(item["Node Type"] + (" using " + item["Index Name"] if "Index Name" in item else ""))
        pending += item.get("Plans", [])
    if node not in names:
        raise BenchError(f"the plan is {' < '.join(names)}, not {node}")
    return {"plan": names, "blocks_not_cached": read, "blocks": read + plan.get("Shared Hit Blocks", 0)}


def query_times(conn, sql, parameters, runs):
    """Milliseconds of `runs` executions of a prepared statement, parameters in turn; the first execution is not counted."""
    with conn.cursor(binary=True) as cursor:
        cursor.execute(sql, (parameters[0],), prepare=True).fetchall()
        return [timed(lambda: cursor.execute(sql, (parameters[i % len(parameters)],), prepare=True).fetchall())[0]
                for i in range(runs)]
