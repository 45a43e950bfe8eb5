"""Shared by the measurements of sql_bench: the server's clients, and lines of the table."""
import gzip
import os
import re
import subprocess
import time

LONGEST_ARGUMENT = 100000  # Linux takes 128 KB
PATIENCE = 120  # seconds for one statement, builds of indexes included


class BenchError(Exception):
    """A measurement that could not be taken as described."""


def content(folder, name):
    for path, how in ((os.path.join(folder, name), open), (os.path.join(folder, name + ".gz"), gzip.open)):
        if os.path.exists(path):
            with how(path, "rb") as file:
                return file.read()
    raise BenchError(f"the data folder has no {name}")


def psql(sql, database, stdin=None, patience=PATIENCE):
    command, text = ["-c", sql], stdin
    if stdin is None and len(sql) > LONGEST_ARGUMENT:
        command, text = ["-f", "-"], sql.encode()
    try:
        done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database, *command],
                              input=text, capture_output=True, check=False, timeout=patience)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{sql[:60]}…: not done within {patience} s") from error
    if done.returncode != 0:
        raise BenchError(f"{sql[:60]}…: {done.stderr.decode().strip()[-300:]}")
    return done.stdout.decode().strip()


def pgbench_command(work, database, name, scripts, clients, seconds, settings, *more):
    """scripts: one, or a list; each transaction takes one at random. seconds: None where `more` says how long."""
    files = []
    scripts = [scripts] if isinstance(scripts, str) else scripts
    for number, script in enumerate(scripts):
        path = os.path.join(work, f"{name}.{number}.sql")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        files += ["-f", path]
    options = " ".join(f"-c {key}={value}" for key, value in settings.items())
    return (["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, os.cpu_count() or 1)),
             *(["-T", str(seconds)] if seconds else []), *files, *more, database], {**os.environ, "PGOPTIONS": options})


def rate_of(done):
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.M)
    latency = re.search(r"^latency average = ([0-9.]+)", done.stdout, re.M)
    if done.returncode != 0 or found is None:
        raise BenchError(f"pgbench failed: {done.stderr.strip()[-300:]}")
    return float(found.group(1)), float(latency.group(1)) if latency else 0.0


def pgbench(*arguments):
    command, environment = pgbench_command(*arguments)
    return rate_of(subprocess.run(command, capture_output=True, text=True, env=environment, check=False))


def answered(database="vg"):
    """Batches that the worker has answered."""
    return int(psql("SELECT answered FROM vectorgpu_worker", database))


def has_pgvector():
    """Whether the server has pgvector, and not vectorgpu's extension of that name."""
    return psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector' AND comment NOT LIKE 'vectorgpu %'", "postgres") == "1"


def line(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def wait_for_worker(index, database="vg"):
    until = time.monotonic() + 60
    while True:
        try:
            return psql(f"SELECT vectorgpu_prewarm('{index}'::regclass)", database)
        except BenchError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
