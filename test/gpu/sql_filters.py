"""The part of sql_bench about conditions: approximate searches of which some rows are left out, whatever the query or by how they lie to it."""
import json

import numpy

from sql_clients import line, pgbench, psql

QUERIES = 100
EXPLAINED = 20
SHARES = (0.5, 0.1, 0.01)
BUCKETS = 1 << 16
MULTIPLIER = 40503  # Fibonacci hashing, 16 bits: no bucket knows of a row's place or vector


def bucket(ids):
    return (ids.astype(numpy.int64) * MULTIPLIER) % BUCKETS


class Conditions:
    """By name: which rows pass for a query, in SQL and here. Rows whose elements have about the query's sum are nearer to it than others."""

    def __init__(self, base, queries):
        self.ids = numpy.arange(len(base))
        self.sums = base.sum(1, dtype=numpy.int64)
        self.query_sums = queries[:QUERIES].sum(1, dtype=numpy.int64)
        self.ones = "[" + ",".join(["1"] * base.shape[1]) + "]"

    def of(self, kind, share, query):
        """(SQL, mask [n])."""
        if kind == "any":
            most = int(share * BUCKETS)
            return f"id::int8 * {MULTIPLIER} % {BUCKETS} < {most}", bucket(self.ids) < most
        gaps = numpy.abs(self.sums - self.query_sums[query])
        gap = f"abs((v <#> '{self.ones}') + {self.query_sums[query]})"  # the operator is minus the sum
        if kind == "alike":
            most = int(numpy.partition(gaps, int(share * len(gaps)))[int(share * len(gaps))])
            return f"{gap} <= {most}", gaps <= most
        least = int(numpy.partition(gaps, int((1 - share) * len(gaps)))[int((1 - share) * len(gaps))])
        return f"{gap} >= {least}", gaps >= least


def true_distances(base, queries):
    """Squared, [QUERIES, n], exact: whole numbers below 2^24."""
    rows = base.astype(numpy.float32)
    norms = (rows * rows).sum(1)
    wanted = queries[:QUERIES].astype(numpy.float32)
    return norms + (wanted * wanted).sum(1)[:, None] - 2 * wanted @ rows.T


def found_share(distances, allowed, ids):
    """Of the 10 nearest allowed rows, and of 10."""
    open_ones = distances[allowed]
    k = min(10, len(open_ones))
    kth = numpy.partition(open_ones, k - 1)[k - 1]
    return int((distances[numpy.array(ids, dtype=int)] <= kth).sum()) if ids else 0, k


def measure(options, scripts, masks, distances, settings):
    """Rate of one client, recall, the share of scans that looked at all rows."""
    sets = "".join(f"SET {key} = '{value}'; " for key, value in settings.items())
    hits, wanted = 0, 0
    found = psql(sets + " ".join(f"SELECT array_agg(id) FROM ({script.rstrip().rstrip(';')}) s;" for script in scripts), "vg").splitlines()
    for query, ids in enumerate(found):
        here = found_share(distances[query], masks[query], [int(x) for x in ids.strip("{}").split(",") if x])
        hits, wanted = hits + here[0], wanted + here[1]
    explained = psql(sets + " ".join(f"EXPLAIN (ANALYZE, FORMAT JSON) {script}" for script in scripts[:EXPLAINED]), "vg")
    plans, at = [], 0
    decoder = json.JSONDecoder()
    while at < len(explained.rstrip()):
        plan, at = decoder.raw_decode(explained, at)
        plans.append(plan)
        while at < len(explained) and explained[at].isspace():
            at += 1
    exhaustive = sum('"Exhaustive": 0' not in json.dumps(plan) for plan in plans)
    rate, latency = pgbench(options.work, "vg", "filter", scripts, 1, max(1, options.seconds // 2), settings)
    return rate, latency, hits / max(wanted, 1), exhaustive / len(plans)


def filters(options, name, table, base, queries, method, settings):
    """One row for each condition, beside the search without one."""
    conditions = Conditions(base, queries)
    distances = true_distances(base, queries)
    plain = None
    for kind, share in (("none", 1.0), *((kind, share) for kind in ("any", "alike", "least alike") for share in SHARES)):
        scripts, masks = [], []
        for query in range(QUERIES):
            sql, mask = ("true", numpy.ones(len(base), dtype=bool)) if kind == "none" else conditions.of(kind, share, query)
            literal = "[" + ",".join(str(x) for x in queries[query]) + "]"
            scripts.append(f"SELECT id FROM {table} WHERE {sql} ORDER BY v <-> '{literal}' LIMIT 10;\n")
            masks.append(mask)
        rate, latency, recall, exhaustive = measure(options, scripts, masks, distances, settings)
        plain = recall if plain is None else plain
        label = "no condition" if kind == "none" else f"{share:.0%} of the rows pass, {kind}"
        line(name, method, label, f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
             f"recall {recall:.4f} ({recall - plain:+.4f}); {exhaustive:.0%} of the scans came to look at all rows")
