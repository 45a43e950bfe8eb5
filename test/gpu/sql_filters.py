"""The part of sql_bench about conditions: approximate searches that leave some rows out, independently of the query or correlated with it."""
import numpy

from sql_clients import line, pgbench, psql
from sql_sets import as_settings, exhaustive_share

QUERIES = 30
EXPLAINED = 10
SHARES = (0.5, 0.1, 0.01)
BUCKETS = 1 << 16
MULTIPLIER = 40503  # Fibonacci hashing, 16 bits: buckets do not depend on a row's place or vector


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


def kth_of(distances, allowed):
    """The distance of the 10th nearest allowed row, or of the last, and how many of 10 there are."""
    open_ones = distances[allowed]
    k = min(10, len(open_ones))
    return numpy.partition(open_ones, k - 1)[k - 1], k


def measure(options, scripts, kths, distances, settings):
    """Rate of one client, recall, the share of scans that looked at all rows."""
    sets = as_settings(settings)
    hits = 0
    found = psql(sets + " ".join(f"SELECT array_agg(id) FROM ({script.rstrip().rstrip(';')}) s;" for script in scripts), "vg").splitlines()
    for query, ids in enumerate(found):
        rows = numpy.array([int(x) for x in ids.strip("{}").split(",") if x], dtype=int)
        hits += int((distances[query][rows] <= kths[query][0]).sum())
    rate, latency = pgbench(options.work, "vg", "filter", scripts, 1, max(1, options.seconds // 2), settings)
    return rate, latency, hits / max(sum(k for _, k in kths), 1), exhaustive_share(scripts[:EXPLAINED], settings)


def filters(data, methods):
    """One row for each condition and method (label, access method, settings), beside the search without a condition."""
    conditions = Conditions(data.base, data.queries)
    distances = true_distances(data.base, data.queries)
    plain = {}
    for kind, share in (("none", 1.0), *((kind, share) for kind in ("any", "alike", "least alike") for share in SHARES)):
        scripts, kths = [], []
        for query in range(QUERIES):
            sql, mask = ("true", numpy.ones(len(data.base), dtype=bool)) if kind == "none" else conditions.of(kind, share, query)
            literal = "[" + ",".join(str(x) for x in data.queries[query]) + "]"
            scripts.append(f"SELECT id FROM {data.table} WHERE {sql} ORDER BY v <-> '{literal}' LIMIT 10;\n")
            kths.append(kth_of(distances[query], mask))
        for label, method, settings in methods:
            data.allow(method)
            rate, latency, recall, exhaustive = measure(data.options, scripts, kths, distances, settings)
            plain.setdefault(label, recall)
            condition = "no condition" if kind == "none" else f"{share:.0%} of the rows pass, {kind}"
            line(data.name, label, condition, f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
                 f"recall {recall:.4f} ({recall - plain[label]:+.4f}); {exhaustive:.0%} of the scans came to look at all rows")
