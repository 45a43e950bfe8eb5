"""Match counts by SQL clients: rows that meet most of many conditions, and documents with most words in common, beside the same
query without the index."""
import csv
import io
import time

from sql_clients import BenchError, answered, content, line, pgbench, psql, wait_for_worker

COPIES = 20  # of Adult's 48,842 rows
QUERIES = 100
COMPARED = 10  # queries whose answers' counts are compared with those without the index
CLIENTS = 16
NUMBERS = {"age": 5, "fnlwgt": 50000, "education_num": 1, "capital_gain": 500, "capital_loss": 500, "hours_per_week": 10}  # half widths of a query's ranges


def quoted(value):
    return "'" + value.replace("'", "''") + "'"


def measured(options, what, method, scripts, settings):
    before = answered()
    rate, latency = pgbench(options.work, "vg", "match", scripts, CLIENTS, options.seconds, settings)
    share = min((answered() - before) / max(rate * options.seconds, 1), 1)
    note = f"{share:.0%} by the worker" if share > 0.01 else ""
    line(what, method, f"{CLIENTS} clients", f"{rate:.0f}/s", f"{latency * 1000:.0f} us", note)
    return rate


def built(what, method, sql):
    began = time.monotonic()
    psql(sql, "vg")
    line(what, method, "CREATE INDEX", f"{time.monotonic() - began:.1f} s", "", "")


def adult_row_type(names):
    """The columns of a table of Adult's rows."""
    return ", ".join(f"{name} {'int' if name in NUMBERS else 'text'}" for name in names)


def adult_query(names, values):
    """A query for rows like one, six ranges of numbers and nine equalities: as a matchquery, and as a sum of conditions."""
    items, conditions = [], []
    for name, value in zip(names, values):
        if name in NUMBERS:
            low, high = int(value) - NUMBERS[name], int(value) + NUMBERS[name]
            items.append(f"int4range({low}, {high}, '[]')")
            conditions.append(f"({name} BETWEEN {low} AND {high})::int")
        else:
            items.append(quoted(value))
            conditions.append(f"({name} = {quoted(value)})::int")
    return f"matchquery({', '.join(items)})", " + ".join(conditions)


def adult(options):
    """Measure queries for the ten rows that meet most conditions."""
    rows = list(csv.reader(io.StringIO(content(options.data, "adult.csv").decode())))
    names = rows[0]
    kinds = adult_row_type(names)
    psql(f"CREATE TABLE adult_once ({kinds})", "vg")
    psql("COPY adult_once FROM STDIN CSV HEADER", "vg", content(options.data, "adult.csv"))
    psql(f"CREATE TABLE adult (id serial, {kinds})", "vg")
    psql(f"INSERT INTO adult ({', '.join(names)}) SELECT o.* FROM generate_series(1, {COPIES}), adult_once o", "vg")
    row = f"matchrow({', '.join(names)})"
    what = f"Adult x {COPIES}"
    built(what, "gpumatch", f"CREATE INDEX adult_gpumatch ON adult USING gpumatch ({row})")
    psql("VACUUM ANALYZE adult", "vg")
    wait_for_worker("adult_gpumatch")

    queries = [adult_query(names, values) for values in rows[1::len(rows) // QUERIES][:QUERIES]]
    ours = measured(options, what, "gpumatch, 10 first", [f"SELECT id FROM adult ORDER BY {row} <#> {query} LIMIT 10;\n" for query, _ in queries],
                    {"enable_seqscan": "off"})
    theirs = measured(options, what, "ORDER BY (a = …)::int + …", [f"SELECT id FROM adult ORDER BY {conditions} DESC LIMIT 10;\n"
                                                                    for _, conditions in queries], {})
    for query, conditions in queries[:COMPARED]:
        best = psql(f"SET enable_seqscan = off; SELECT array_agg(n) FROM (SELECT -({row} <#> {query}) AS n FROM adult ORDER BY {row} <#> {query} "
                    f"LIMIT 10) s", "vg")
        by_hand = psql(f"SELECT array_agg(n) FROM (SELECT {conditions} AS n FROM adult ORDER BY 1 DESC LIMIT 10) s", "vg")
        if [float(n) for n in best.strip("{}").split(",")] != [float(n) for n in by_hand.strip("{}").split(",")]:
            raise BenchError(f"Adult: counts {best} by the index, {by_hand} by hand")
    line(what, "gpumatch", "over that", f"{ours / theirs:.0f} x", "", f"the same counts for {COMPARED} queries")


def documents(options):
    """Measure queries for descriptions of packages with most words in common."""
    lines = [text.split("\t") for text in content(options.data, "debian-descriptions.tsv").decode().splitlines()[1:]]
    texts = [fields[3] for fields in lines if len(fields) == 4]
    rows = "".join(text.replace("\\", "\\\\") + "\n" for text in texts)
    psql("CREATE TABLE package_texts (description text)", "vg")
    psql("COPY package_texts FROM STDIN", "vg", rows.encode())
    psql("CREATE TABLE packages AS SELECT row_number() OVER () AS id, to_tsvector('simple', description) AS d FROM package_texts", "vg")
    what = f"{len(texts):,} package descriptions"
    built(what, "gpumatch", "CREATE INDEX packages_gpumatch ON packages USING gpumatch (d)")
    built(what, "GIN", "CREATE INDEX packages_gin ON packages USING gin (d)")
    psql("VACUUM ANALYZE packages", "vg")
    wait_for_worker("packages_gpumatch")
    # pgbench takes a colon for a variable.
    some = f"FROM packages WHERE id % {len(texts) // QUERIES} = 1 AND length(d) > 0 AND strip(d)::text NOT LIKE '%:%' ORDER BY id"
    queries = psql(f"SELECT quote_literal(strip(d)) {some}", "vg").splitlines()
    words = psql(f"SELECT quote_literal(array_to_string((SELECT array_agg(quote_literal(w)) FROM unnest(tsvector_to_array(d)) w), ' | ')) {some}",
                 "vg").splitlines()
    ours = measured(options, what, "gpumatch, 10 first", [f"SELECT id FROM packages ORDER BY d <#> {query}::tsvector LIMIT 10;\n" for query in queries],
                    {"enable_seqscan": "off"})
    theirs = measured(options, what, "GIN, OR query and ts_rank",
                      [f"SELECT id FROM packages WHERE d @@ {one}::tsquery ORDER BY ts_rank(d, {one}::tsquery) DESC LIMIT 10;\n" for one in words], {})
    for query in queries[:COMPARED]:
        best = psql(f"SET enable_seqscan = off; SELECT array_agg(n) FROM (SELECT -(d <#> {query}::tsvector) AS n FROM packages "
                    f"ORDER BY d <#> {query}::tsvector LIMIT 10) s", "vg")
        by_hand = psql("SELECT array_agg(n) FROM (SELECT count(*) AS n FROM packages p, unnest(tsvector_to_array(p.d)) w "
                       f"WHERE w = ANY (tsvector_to_array({query}::tsvector)) GROUP BY p.id ORDER BY 1 DESC LIMIT 10) s", "vg")
        if [float(n) for n in best.strip("{}").split(",")] != [float(n) for n in by_hand.strip("{}").split(",")]:
            raise BenchError(f"documents: counts {best} by the index, {by_hand} by hand")
    line(what, "gpumatch", "over that", f"{ours / theirs:.0f} x", "", f"ranks are another order than counts; the counts of {COMPARED} queries are those counted by hand")


def matches(options):
    """Run both. Returns how many failed."""
    failed = 0
    for what, file, run in (("Adult", "adult.csv", adult), ("package descriptions", "debian-descriptions.tsv", documents)):
        try:
            content(options.data, file)
        except BenchError as error:
            line(what, "gpumatch", "not measured", "", "", str(error))
            continue
        try:
            run(options)
        except BenchError as error:
            failed += 1
            line(what, "gpumatch", "failed", "", "", str(error).replace("\n", " "))
    return failed
