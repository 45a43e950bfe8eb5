"""The part of sql_bench about indexes of rows that come and go: half of them are deleted and inserted again, in other places, and the recall
of searches then is compared with that of a new index."""
import math
import time

from sql_clients import line, psql, wait_for_worker
from sql_sets import LOOKED_AT, exhaustive_share, plural

METHODS = ("gpuivf", "gpugraph")
CHECKED = 4000  # queries for recall: where each loses a tenth now and then, a difference of two recalls has a standard error of about .002
KEEP = {"enable_seqscan": "off"}  # recall targets are the defaults
STATES = ("built before", "after INSERT", "after VACUUM", "after vectorgpu_merge", "after REINDEX")


def seconds(sql):
    began = time.monotonic()
    psql(sql, "vg")
    return time.monotonic() - began


def other_indexes(data):
    """The indexes that other parts have made: INSERT would fill them too. Parts that need them make them again."""
    kept = ", ".join(f"'{data.table}_{method}'" for method in METHODS)
    return psql(f"SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '{data.table}'::regclass AND indexrelid::regclass::text NOT IN ({kept})",
                "vg").split()


def live(data):
    """A line for the changes of the table and one for each method: recall at its default target, at each of STATES. A user deletes, and later VACUUM makes
    room, which other rows take; VACUUM after the inserts merges what it finds worth it, vectorgpu_merge all; background merges happen when they happen."""
    for index in other_indexes(data):
        psql(f"DROP INDEX {index}", "vg")
    found = {method: [] for method in METHODS}
    shares = {method: [] for method in METHODS}
    took = {method: [] for method in METHODS}
    state = {}

    def look(method):
        data.allow(method)
        wait_for_worker(f"{data.table}_{method}")
        found[method].append(data.hits("vg", KEEP, CHECKED))
        shares[method].append(exhaustive_share(data.scripts()[:LOOKED_AT], KEEP))

    for method in METHODS:
        data.build(method)
        look(method)
    psql(f"CREATE UNLOGGED TABLE {data.table}_again AS SELECT * FROM {data.table} WHERE hashint4(id) & 1 = 0", "vg")
    moved = psql(f"SELECT count(*) FROM {data.table}_again", "vg")
    steps = [seconds(f"DELETE FROM {data.table} WHERE hashint4(id) & 1 = 0"), seconds(f"VACUUM {data.table}"),
             seconds(f"INSERT INTO {data.table} SELECT * FROM {data.table}_again ORDER BY hashint4extended(id, 1)")]
    for method in METHODS:
        look(method)
    steps.append(seconds(f"VACUUM {data.table}"))
    for method in METHODS:
        look(method)
        segments, delta = psql(f"SELECT segments, delta_rows FROM vectorgpu_indexes WHERE index_name = '{data.table}_{method}'", "vg").split("|")
        state[method] = f"{plural(int(segments), 'segment')} and {delta} rows in the delta after VACUUM"
        took[method].append(seconds(f"SELECT vectorgpu_merge('{data.table}_{method}')"))
        look(method)
    line(data.name, ", ".join(METHODS), f"{moved} rows deleted and inserted again", f"{sum(steps):.1f} s", "",
         "DELETE {:.1f} s, VACUUM {:.1f} s, INSERT {:.1f} s, VACUUM {:.1f} s, both indexes".format(*steps))
    for method in METHODS:
        took[method].append(seconds(f"REINDEX INDEX {data.table}_{method}"))
        look(method)
        report(data, method, found[method], shares[method], f"{state[method]}; vectorgpu_merge {took[method][0]:.1f} s, REINDEX {took[method][1]:.1f} s")
    psql(f"DROP TABLE {data.table}_again", "vg")


def report(data, method, hits, shares, more):
    """hits: of each of STATES [queries], of 10; shares: of the scans that looked at all rows, a graph's on a GPU where that is faster. What is lost to a build
    anew at worst is the figure, and its standard error that of the queries' differences. There are two builds anew of the same rows, before and after, which
    train and measure on samples of their own and may differ by more than that: what they find on average is compared."""
    anew = (hits[0] + hits[-1]) / 2
    worst = min(range(1, len(hits) - 1), key=lambda state: hits[state].mean())
    lost = (anew - hits[worst]) / 10
    recalls = ", ".join(f"{each.mean() / 10:.4f} {state}" for each, state in zip(hits, STATES))
    line(data.name, method, "live: recall lost to a build anew", f"{lost.mean():.4f}", "",
         f"standard error {lost.std() / math.sqrt(len(lost)):.4f}, {len(lost)} queries; recall {recalls}; at the worst, {STATES[worst]}, {shares[worst]:.0%} of "
         f"the scans came to look at all rows, {', '.join(f'{share:.0%} {state}' for share, state in zip(shares, STATES))}; {more}")
