"""Tables of test/bench/choice whose queries have a condition: half to a thousandth of the rows pass, at random, near the query or far from
it, by a btree or GIN column, a list, OR, jsonb, or row security with a sub-select. The index of the condition's column is one more way to answer; so are
indexes with the btree's columns as key columns."""
import math
import struct

from sql_clients import BenchError, content, psql

SET = "arxiv-lsa-256"
SHARES = (50, 5, 1, 0.1)  # % of the rows
SCRIPTS = 20
ANCHOR = 7                # queries of `near` and `far` are those nearest to this row; rows pass by their rank from it
METHODS = ("gpuflat", "gpuivf", "gpugraph")
BESIDE = {"r": "btree", "side": "btree", "part": "btree", "scopes": "gin", "meta": "gin"}  # columns with an index
KEYS = ("r", "side", "part")  # key columns
PARTS = 1000
KEYED = tuple(f"{method}_keys" for method in METHODS)
WITHIN = 2                # estimates off by more say nothing about costs


class Condition:
    """where: SQL; column: whose index serves it ("a+b": both), or None; settings of the session; near: asked near the anchor."""

    def __init__(self, name, where, column, near=False, settings=None):
        self.name, self.where, self.column, self.near, self.settings = name, where, column, near, settings or {}


def conditions(size):
    for share in SHARES:
        n = round(size * share / 100)
        every = round(100 / share)
        yield Condition(f"random {share} %", f"r < {n}", "r")
        yield Condition(f"near {share} %", f"side < {n}", "side", near=True)
        yield Condition(f"far {share} %", f"side >= {size - n}", "side", near=True)
        yield Condition(f"list {share} %", f"part IN ({', '.join(str(7 * i % PARTS) for i in range(round(PARTS * share / 100)))})", "part")
        yield Condition(f"or {share} %", f"(r < {n // 2} OR side >= {size - n // 2})", "r+side")
        yield Condition(f"array {share} %", f"scopes @> '{{s{every}}}'", "scopes")
        yield Condition(f"row security {share} %", "true", "scopes", settings={"role": "choice_reader", "choice.scope": f"s{every}"})
        yield Condition(f"jsonb {share} %", f"meta @> '{{\"tags\": [\"s{every}\"]}}'", "meta")
        yield Condition(f"jsonb ->> {share} %", f"meta ->> 'm{every}' = '1'", None)


def halves(folder, name, most):
    """Rows of length 1 as text."""
    data = content(folder, name)
    n, dims = struct.unpack_from("<II", data)
    for i in range(min(n, most)):
        row = struct.unpack_from(f"<{dims}e", data, 8 + 2 * dims * i)
        length = math.sqrt(sum(x * x for x in row))
        yield "[" + ",".join(f"{x / length:.7g}" for x in row) + "]"


def load(table, rows):
    psql(f"COPY {table} FROM STDIN", "vg", "".join(f"{i}\t{row}\n" for i, row in enumerate(rows)).encode())


def load_source(options, generated):
    """choice_rows and choice_queries (id, v). The name of the data."""
    most = max(options.sizes)
    try:
        rows, queries, name = list(halves(options.data, f"{SET}.base.f16bin", most)), list(halves(options.data, f"{SET}.query.f16bin", 1000)), SET
    except BenchError:
        dims, bytes_rows, bytes_queries = generated(most)
        rows, queries = ([str(list(row)) for row in some] for some in (bytes_rows, bytes_queries))
        name = f"generated-{dims}"
    psql("CREATE TABLE choice_rows (id int, v vector); CREATE TABLE choice_queries (id int, v vector)", "vg")
    load("choice_rows", rows)
    load("choice_queries", queries)
    return name


def make_table(table, size):
    """Every M-th row at random has scope sM, and in its jsonb the tag sM and member mM = 1."""
    everies = [round(100 / share) for share in SHARES]
    dims = psql("SELECT vector_dims(v) FROM choice_rows LIMIT 1", "vg")
    psql(f"CREATE TABLE {table} (id int, r int, side int, part int, scopes text[], meta jsonb, v vector({dims}))", "vg")
    scopes = ", ".join(f"CASE WHEN r % {m} = 0 THEN 's{m}' END" for m in everies)
    members = ", ".join(f"'m{m}', (r % {m} = 0)::int" for m in everies)
    psql(f"""INSERT INTO {table} SELECT id, r, side, r % {PARTS}, scopes, jsonb_build_object('tags', scopes, {members}), v
        FROM (SELECT *, array_remove(ARRAY['all', {scopes}], NULL) AS scopes FROM (SELECT id, v, row_number() OVER (ORDER BY hashint4extended(id, 1)) - 1 AS r,
            row_number() OVER (ORDER BY v <=> (SELECT v FROM choice_rows WHERE id = {ANCHOR})) - 1 AS side
            FROM choice_rows WHERE id < {size}) n) s ORDER BY id""", "vg")
    for method in METHODS:
        psql(f"CREATE INDEX {table}_{method} ON {table} USING {method} (v vector_cosine_ops)", "vg")
        psql(f"CREATE INDEX {table}_{method}_keys ON {table} USING {method} (v vector_cosine_ops, {', '.join(KEYS)})", "vg")
    for column, method in BESIDE.items():
        psql(f"CREATE INDEX {table}_{column} ON {table} USING {method} ({column})", "vg")
    psql(f"""GRANT SELECT ON {table} TO choice_reader;
        ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
        CREATE POLICY scopes ON {table} TO choice_reader USING (scopes && (SELECT array_agg(scope) FROM choice_members
            WHERE scope = current_setting('choice.scope')))""", "vg")
    psql(f"VACUUM ANALYZE {table}", "vg")


def passing(table, condition):
    """(rows that pass, the planner's estimate)"""
    sets = "".join(f"SET {key} = '{value}'; " for key, value in condition.settings.items())
    truth = int(psql(f"{sets}SELECT count(*) FROM {table} WHERE {condition.where}", "vg"))
    plan = psql(f"{sets}EXPLAIN SELECT id FROM {table} WHERE {condition.where}", "vg").splitlines()[0]
    return truth, int(plan.split("rows=")[1].split(" ")[0])


def condition_tables(options, make, generated):
    """One `make` (choice.Table) for each size and condition."""
    name = load_source(options, generated)
    psql("CREATE ROLE choice_reader; CREATE TABLE choice_members (scope text); GRANT SELECT ON choice_members TO choice_reader", "vg")
    psql(f"INSERT INTO choice_members VALUES {', '.join(f'''('s{round(100 / share)}')''' for share in SHARES)}", "vg")
    near = f"v <=> (SELECT v FROM choice_rows WHERE id = {ANCHOR})"
    queries = {by: psql(f"SELECT v FROM choice_queries ORDER BY {by} LIMIT {SCRIPTS}", "vg").splitlines() for by in ("id", near)}
    for size in options.sizes:
        table = f"choice_filtered_{size}"
        make_table(table, size)
        wanted = [condition for condition in conditions(size) if options.conditions in condition.name]
        for condition in wanted:
            truth, estimate = passing(table, condition)
            ways = METHODS + ((condition.column, *(f"{method}+{condition.column}" for method in METHODS)) if condition.column else ()) + (KEYED if set((condition.column or "").split("+")) <= set(KEYS) else ())
            made = make(f"{name}, {condition.name}, estimated {100 * estimate / size:.3g} %", table, size, ways,
                        [f"SELECT id FROM {table} WHERE {condition.where} ORDER BY v <=> '{query}' LIMIT %d;\n"
                         for query in queries[near if condition.near else "id"]])
            made.settings = condition.settings
            made.counts = max(truth, 1) <= WITHIN * estimate and estimate <= WITHIN * max(truth, 1)
            made.kept = condition is not wanted[-1]
            yield made
