"""Clients with a tenant of .5 % of the rows each, and pgvector on the same rows and cores, by turns: its hnsw by iterative scans, and its exact way
by a btree of tenants. A part of sql_keys."""
import numpy

from sql_clients import line, pgbench, psql
from sql_sets import as_settings, spread

TENANTS = 200  # of .5 % of the rows each
CLIENTS = 64
TURNS = 3
QUERIES = 40   # query i of tenant i, for the recall
K = 10
ITERATIVE = {"enable_seqscan": "off", "enable_sort": "off", "enable_bitmapscan": "off", "hnsw.max_scan_tuples": 1000000}
BY_BTREE = {"enable_seqscan": "off", "enable_indexscan": "off"}


def script(keyed, query, tenant):
    return keyed.scripts("random", f"tenant = {tenant}", QUERIES)[query]


def recall(keyed, database, settings):
    """recall@10 of query i among the rows of tenant i."""
    found = psql(as_settings(settings) + " ".join(f"SELECT coalesce(array_agg(id), '{{}}') FROM ({script(keyed, i, i).rstrip().rstrip(';')}) s;"
                                                  for i in range(QUERIES)), database).splitlines()
    hits = wanted = 0
    for tenant, ids in enumerate(found):
        mask = keyed.r % TENANTS == tenant
        query = keyed.queries["random"][tenant]
        k = min(K, int(mask.sum()))
        farthest = keyed.lib.nearest(keyed.data.base[mask], query[None, :], k)[1][0, k - 1]
        hits += keyed.hits(query, ids, farthest, mask)
        wanted += k
    return hits / wanted


def by_index(settings, database, text, name):
    """Whether the plan takes an access method's index, by name."""
    return name in psql(as_settings(settings) + "EXPLAIN (COSTS OFF) " + text, database)


class Peer:
    """pgvector's table and indexes, made once for all of our access methods."""

    def __init__(self, keyed):
        self.keyed = keyed
        psql(f"CREATE INDEX {keyed.table}_tenants ON {keyed.table} (tenant)", "pgv")
        self.ways = [(f"pgvector hnsw, {order}", {**ITERATIVE, "hnsw.iterative_scan": order}, f"{keyed.table}_hnsw") for order in ("strict_order", "relaxed_order")]
        self.ways.append(("pgvector, btree and sort", BY_BTREE, f"{keyed.table}_tenants"))
        self.recalls = {label: recall(keyed, "pgv", settings) for label, settings, _ in self.ways}
        for label, settings, index in self.ways:
            if not by_index(settings, "pgv", script(keyed, 0, 0), index):
                line(keyed.data.name, label, "another plan", "", "", f"{index} is not in it")


def tenants(keyed, label, options, keep, peer):
    """A row for this index, and for pgvector's ways beside, the medians of turns. PEER: None without pgvector."""
    ways = [(label, "vg", keep, recall(keyed, "vg", keep))] + [(name, "pgv", settings, peer.recalls[name]) for name, settings, _ in (peer.ways if peer else ())]
    scripts = keyed.scripts("random", "tenant = :client_id")
    runs = {name: [] for name, *_ in ways}
    for _ in range(TURNS):
        for name, database, settings, _ in ways:
            runs[name].append(pgbench(options.work, database, "tenants", scripts, CLIENTS, options.seconds, settings))
    own = float(numpy.median([rate for rate, _ in runs[label]]))
    for name, _, _, found in ways:
        rate, latency = (float(numpy.median(values)) for values in zip(*runs[name]))
        over = "" if name == label else f"; {label} gives {own / rate:.2f} x, by turns"
        line(keyed.data.name, name, f"{CLIENTS} clients, a tenant of .5 % each", f"{rate:.0f}/s", f"{latency * 1000:.0f} us",
             f"recall {found:.4f} of {QUERIES} queries{over}{spread(runs[name])}")
