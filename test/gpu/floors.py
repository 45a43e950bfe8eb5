"""Compare the project's floors with the figures of a run: read the logs that the phases of test/gpu/run leave, and print Markdown.

usage: floors.py LOGS PARTS [FIGURES CARD TREES]. A figure that the logs lack is printed as not measured. FIGURES: a file that gets what was
measured as tab-separated values: name, value, unit, recall, card, git trees, peer, the peer's value, the peer's recall. Standard library only."""
import glob
import os
import re
import sys

from floors_run import Run

SIFT = "sift-bsds-128"
FASHION = "fashion-mnist-784"
ARXIV = "arxiv-lsa-256"
LARGE = "sift-10m"
MADE = "made-768"                   # of gpu_search_bench
CLIENTS = ("1 client", "16 clients", "64 clients")
MADE_SQL = "1000000x768-in-2000"    # of sql_bench --embeddings
MADE_JOIN = "1000000x768 in groups" # of sql_bench --join-devices
MADE_CODES = "300000x768-in-2000"   # of sql_bench --codes
CAGRA = (("sift", (0.973, 0.994), 1.5), ("arxiv", (0.95, 0.985), 1.5), ("made", (0.95, 0.988), 1.2)) # of the phase graphs: recalls, floor of large batches
DIMS = {SIFT: 128, ARXIV: 256, MADE: 768, MADE_CODES: 768}


def beside_peer(run, name, part="brute"):
    """Batches of exact searches that cuVS made too: (batch, queries/s, cuVS's queries/s, cuVS's recall)."""
    for words in (line.split() for line in run.read(os.path.join(run.logs, f"peers-{name}"))):
        if len(words) == 7 and words[0] == part and (ours := run.search(f"search-{name}", int(words[2]), int(words[3]))):
            yield int(words[2]), 1000 * int(words[2]) / ours, float(words[5]), float(words[6])


def over_peer(run, name, batch):
    """How many times as many queries/s as cuVS's brute force."""
    return next((round(ours / peer, 2) for n, ours, peer, _ in beside_peer(run, name) if n == batch), None)


def beside_cagra(run, name, batch, recall):
    """A batch of searches of a graph: (queries/s of the fastest width with at least this recall, that recall, CAGRA's degree, queries/s and recall).
    CAGRA's is its fastest point that has at least the recall of its point next below ours: it is not helped by the distance of its points."""
    ours = max(((float(words[4]), float(words[5])) for words in run.rows(f"graph-{name}") if words[0] == str(batch) and float(words[5]) >= recall), default=None)
    points = [(float(words[5]), float(words[6]), path.rsplit("-", 1)[1]) for path in glob.glob(os.path.join(run.logs, f"peers-graph-{name}-*"))
              for words in (line.split() for line in run.read(path)) if len(words) == 7 and words[0] == "cagra" and words[2] == str(batch)]
    below = max((found for _, found, _ in points if ours and found <= ours[1]), default=None)
    if below is None:
        return None
    rate, found, degree = max(point for point in points if point[1] >= below)
    return (*ours, degree, rate, found)


def over_cagra(run, name, batch, recall):
    """How many times as many queries/s as CAGRA."""
    found = beside_cagra(run, name, batch, recall)
    return round(found[0] / found[3], 2) if found else None


def looked_at_all(run, name, index, what):
    """The share of the scans of such a line that looked at all rows, in words."""
    share = run.note(name, index, what, r"(\d+)% of the scans came to look at all rows")
    return "" if share is None else f"{share:.0f} % of the scans looked at all rows"


def graph_build(run):
    """Seconds of the stages that gpu_graph_bench prints, the largest sum of its runs."""
    sums = []
    for log in ("graph---steps1", "graph---steps4", "graph---targets"):
        for line in run.read(os.path.join(run.logs, log)):
            if line.startswith("# graph of"):
                sums.append(sum(float(x) for x in re.findall(r"(\d+) ms", line)) / 1000)
    return max(sums, default=None)


def graph_memory(run):
    """Bytes a row of a graph's copy on the device without the vectors, which are bytes there."""
    shape = memory = None
    for log in ("graph---steps1", "graph---steps4", "graph---targets"):
        for line in run.read(os.path.join(run.logs, log)):
            shape = re.match(r"# graph of (\d+) x (\d+)", line) or shape
            memory = re.search(r"narrowest exact form, loaded in \d+ ms, (\d+) MB", line) or memory
    return float(memory.group(1)) * 1e6 / int(shape.group(1)) - int(shape.group(2)) if shape and memory else None


def target_rows(run):
    """The lines of gpu_graph_bench's table of recall targets: target, width, recall, difference, ms of one query, …"""
    found = [line.split() for line in run.read(os.path.join(run.logs, "graph---targets"))]
    return [words for words in found if len(words) == 8 and re.match(r"0\.\d+$", words[0]) and words[1].isdigit()]


def one_query(run):
    """Device ms of one query at the fastest recall target with a recall of at least .95."""
    return min((float(words[4]) for words in target_rows(run) if float(words[2]) >= 0.95), default=None)


def targets(run):
    """The largest |found - target| of the recall targets from .9 on."""
    return max((abs(float(words[3])) for words in target_rows(run) if float(words[0]) >= 0.9), default=None)


def large_engine(run):
    """The figures of large_engine_bench, each once: (name, value, unit, recall or ""). They are in the phase's log, and in files
    PARTS/large_engine*.figures, which a run by hand writes with --figures."""
    rows = [line.split("\t")[1:] for line in run.read(os.path.join(run.logs, "large-engine")) if line.startswith("figure\t")]
    for path in sorted(glob.glob(os.path.join(run.parts, "large_engine*.figures"))):
        rows += [line.split("\t") for line in run.read(path)]
    return list(dict.fromkeys((cells[0], float(cells[1]), cells[2], cells[3].strip("-")) for cells in rows if len(cells) == 4))


def large_rate(run, batch):
    """The most queries/s of a batch over 100 million rows by codes of RaBitQ, with a recall of at least .95."""
    return max((value for name, value, unit, recall in large_engine(run)
                if name.startswith("large_engine: 100000000 x 96,") and ": rabitq:" in name and name.endswith(f", batch {batch}")
                and unit == "/s" and float(recall or 0) >= 0.95), default=None)


def over_product(run, name, bits, target, clients, product_bits=None):
    """How many times as many searches a second from SQL by RaBitQ as by a product quantiser of as many bits a dimension, or of PRODUCT_BITS, at the
    same recall target. RaBitQ takes 8 bytes more a row with one bit, and 20 with more."""
    rate, product = (run.client(name, f"gpuivf, storage = {storage}, recall_target {target}$", f"{clients}$")
                     for storage in (f"rabitq, bits = {bits}", f"pq, pq_m = {DIMS[name] * (product_bits or bits) // 8}"))
    return round(rate / product, 3) if rate and product else None


def product_over(run, name, bits, target, batch, product_bits=None):
    """How many times as long a batch takes the engine by such a product quantiser as by RaBitQ, each with the fewest lists whose recall is at least
    this."""
    column = {1: 5, 64: 6, 10000: 7}[batch]
    found = {}
    for words in (line.split() for line in run.read(os.path.join(run.logs, f"curves-{name}"))):
        if len(words) == 10 and words[1].isdigit() and float(words[4]) >= target:
            found[words[0]] = min(float(words[column]), found.get(words[0], float("inf")))
    rabitq, product = found.get(f"rabitq{bits}"), found.get(f"pq{DIMS[name] * (product_bits or bits) // 8}")
    return round(product / rabitq, 3) if rabitq and product else None


def over_projections(run, bits, hash_bits, recall):
    """How many times as many queries/s of batches of 1,000 a graph of SIFT answers by codes of RaBitQ as by random projections of as many bits, each
    with its fastest width that has at least this recall. RaBitQ takes 8 bytes more a row."""
    rates = [max((float(words[5]) for words in run.rows("graph---hash") if words[:2] == [str(code), "1000"] and float(words[6]) >= recall), default=None)
             for code in (bits, hash_bits)]
    return round(rates[0] / rates[1], 2) if all(rates) else None


def clients_over_before(run):
    """Searches a second from SQL over those of the other version by number of clients, gpuivf at .98, and of the most of both."""
    rates = [{clients: run.client(f"{ARXIV}, {version}", "gpuivf, recall_target 0.98$", f"{clients}$") for clients in CLIENTS} for version in ("now", "before")]
    if not all(rate for version in rates for rate in version.values()):
        return {}
    found = {clients: round(rates[0][clients] / rates[1][clients], 3) for clients in CLIENTS}
    return {**found, "the most of 1, 16, 64 clients": round(max(rates[0].values()) / max(rates[1].values()), 3)}


def over_kmeans(run):
    """How many times as long cuVS takes for the iterations of k-means from given centroids."""
    ours = run.number("kmeans", r"20 iterations ([0-9.]+)")
    peer = run.number("peers-graph-sift-32", r"^kmeans \d+ \d+ - ([0-9.]+)", min)
    return round(peer / ours, 2) if ours and peer else None


def kmeans_products(run):
    """10^12 additions and multiplications a second of 20 iterations' products of all rows and centroids, everything else in them included."""
    ms, rows = run.number("kmeans", r"20 iterations ([0-9.]+)"), run.number("kmeans", r"MiB; (\d+) x 128, 4096 clusters")
    return round(2 * rows * 128 * 4096 * 20 / ms / 1e9, 1) if ms and rows else None


def lost_to_conditions(run):
    """How much recall the worst condition loses against no condition; below 0: none loses any."""
    return max((0 - more for more, in run.notes(SIFT, "of the rows pass", r"\(([-+][0-9.]+)\)")), default=None)


def of_an_empty_scan(run):
    """Throughput of an engine that answers in no time over that of an empty index scan, not rounded as the line's own ratio is."""
    engine = run.client("worker", "", "null engine, 64 clients, no rows$")
    empty = run.note("worker", "", "null engine, 64 clients, no rows$", r"empty index scan ([0-9]+)/s")
    return round(engine / empty, 3) if engine and empty else None


def lost_to_merges(run):
    """How far the recall after a merge is below that of a new build, at worst."""
    return max((anew - merged for merged, anew in run.notes(SIFT, "vectorgpu_merge", r"([0-9.]+) after, ([0-9.]+) after REINDEX")), default=None)


def over_halves(run, clients):
    """How many times more searches of the same rows as halfvec there are."""
    reals = run.client(ARXIV, "gpuflat$", f"{clients}$")
    halves = run.client(f"{ARXIV}, halfvec", "gpuflat$", f"{clients}$")
    return round(halves / reals, 3) if reals and halves else None


def conditioned(run, name, index, clients, few):
    """The lines of sql_bench --keys where at most a tenth of the rows pass (few), or more: (rate, recall, rate over that without a condition)."""
    found = []
    for cells in run.clients:
        share = re.match(r"([0-9.]+) % pass, \w+, (\d+) clients?$", cells[2]) if len(cells) > 5 else None
        note = re.match(r"recall ([0-9.]+); ([0-9.]+) x without", cells[5]) if share else None
        if note and cells[0] == name and cells[1] == index and int(share.group(2)) == clients and (float(share.group(1)) <= 10) == few:
            found.append((float(re.match(r"[0-9.]+", cells[3]).group(0)), float(note.group(1)), float(note.group(2))))
    return found


def beside_pgvector(run, name, index):
    """The tenants of sql_bench --keys by this index and by each way of pgvector: (queries/s, recall, way, its queries/s, its recall)."""
    own, found = None, []
    for cells in run.clients:
        note = re.match(r"recall ([0-9.]+) of", cells[5]) if len(cells) > 5 and cells[0] == name and cells[2].startswith("64 clients, a tenant") else None
        if not note:
            continue
        rate = float(re.match(r"[0-9.]+", cells[3]).group(0))
        if cells[1] == index:
            own = rate, float(note.group(1))
        elif own and f"; {index} gives" in cells[5]:
            found.append((*own, cells[1], rate, float(note.group(1))))
    return found


def least_of(found, at):
    return min((line[at] for line in found), default=None)


def floors(run):
    """(section, workload, floor, at most?, unit, measured, source), and, for searches of a graph, the share that looked at all rows."""
    u8, fp32, bins, fashion = f"search-{SIFT}", f"search-{SIFT}--fp32", f"search-{SIFT}--recall=0.95", f"search-{FASHION}"
    exact, sql = "gpu_search_bench", "sql_bench"
    graph = ("graph---steps1", "graph---steps4")
    least, most = False, True
    return [
        ("worker", "time that SQL adds, one client, spinning, p50", 40, most, "us", run.client("worker", "", "time that SQL adds to .* with spin"), sql),
        ("worker", "the same, not spinning, p50", 80, most, "us", run.client("worker", "", "time that SQL adds to .* without"), sql),
        ("worker", "its p99, spinning, over p50", 4, most, "x", run.client("worker", "", "time that SQL adds, with spinning, p99", 4), sql),
        ("worker", "its p99, not spinning, over p50", 4, most, "x", run.client("worker", "", "time that SQL adds, without spinning, p99", 4), sql),
        ("worker", "null engine, 64 clients, over an empty index scan", 0.70, least, "x", of_an_empty_scan(run), sql),
        ("worker", "CPU engine, 64 clients over one", 8, least, "x", run.client("worker", "", "CPU engine, 64 clients", 4), sql),
        ("worker", "copying an index to the worker", 2, least, "GB/s", run.client("worker", "", f"copying an index to the worker, {SIFT}"), sql),
        ("worker", "the same, CPU engine", 2, least, "GB/s", run.client("worker", "", "copying an index to the worker, CPU engine"), sql),
        ("worker", "extra time of a scan after another's insert", 20, most, "us", run.note("worker", "", "extra time of a scan after one insert by another client$", r"us, (-?[0-9.]+) less"), sql),
        ("exact", "SIFT, fp32, batch 1", 0.16, most, "ms", run.search(fp32, 1, 10), exact + " --fp32"),
        ("exact", "SIFT, bytes, batch 1", 0.06, most, "ms", run.search(u8, 1, 10), exact),
        ("exact", "SIFT, fp32, batch 64", 0.20, most, "ms", run.search(fp32, 64, 10), exact + " --fp32"),
        ("exact", "SIFT, bytes, batch 64", 0.10, most, "ms", run.search(u8, 64, 10), exact),
        ("exact", "SIFT, batch 10,000, k = 10", 25, most, "ms", run.search(u8, 10000, 10), exact),
        ("exact", "SIFT, batch 10,000, k = 100", 35, most, "ms", run.search(u8, 10000, 100), exact),
        ("exact", "SIFT, batch 10,000, k = 1000", 80, most, "ms", run.search(u8, 10000, 1000), exact),
        ("exact", "SIFT, batch 10,000, recall target .95", 8, most, "ms", run.search(bins, 10000, 10), exact + " --recall=0.95"),
        ("exact", "Fashion-MNIST, batch 64", 0.08, most, "ms", run.search(fashion, 64, 10), exact),
        ("exact", "SQL, SIFT, 1 client", 8000, least, "/s", run.client(SIFT, "gpuflat$", "1 client$", recall=1.0), sql),
        ("exact", "SQL, SIFT, 64 clients", 150000, least, "/s", run.client(SIFT, "gpuflat$", "64 clients$", recall=1.0), sql),
        ("exact", "SQL, Fashion-MNIST, 16 clients", 120000, least, "/s", run.client(FASHION, "gpuflat$", "16 clients$", recall=1.0), sql),
        ("exact", "SIFT, 16 clients beside 5,000 inserts/s: less", 15, most, "%", run.note(SIFT, "gpuflat$", "16 clients beside", r": (-?[0-9.]+)% less"), sql),
        ("exact", "Fashion-MNIST, the same", 15, most, "%", run.note(FASHION, "gpuflat$", "16 clients beside", r": (-?[0-9.]+)% less"), sql),
        ("exact", "1M x 768 float32, batch 1", 0.6, most, "ms", run.search(f"search-{MADE}", 1, 10), exact + " made"),
        ("exact", "1M x 768 float32, batch 64", 0.7, most, "ms", run.search(f"search-{MADE}", 64, 10), exact + " made"),
        ("exact", "1M x 768 float32, batch 10,000", 35, most, "ms", run.search(f"search-{MADE}", 10000, 10), exact + " made"),
        ("exact", "arXiv, float32, batch 1", 0.07, most, "ms", run.search(f"search-{ARXIV}", 1, 10), exact + " arXiv"),
        ("exact", "arXiv, float32, batch 64", 0.09, most, "ms", run.search(f"search-{ARXIV}", 64, 10), exact + " arXiv"),
        *((("exact", f"{label}, batch {batch:,}, over cuVS's brute force", floor, least, "x", over_peer(run, name, batch), exact + ", peers.py")
          for label, name, parts in (("arXiv", ARXIV, ((1, 4), (64, 5), (10000, 8))), ("1M x 768", MADE, ((10000, 10),))) for batch, floor in parts)),
        *((("exact", f"SQL, 1M x 768 float32, {clients}", floor, least, "/s", run.client(MADE_SQL, "gpuflat$", f"{clients}$", recall=1.0), sql + " --embeddings"))
          for clients, floor in (("1 client", 1800), ("16 clients", 22000), ("64 clients", 80000))),
        *((("exact", f"SQL, arXiv, {clients}: halfvec over float32", floor, most, "x", over_halves(run, clients), sql + " --embeddings"))
          for clients, floor in (("1 client", 1.2), ("64 clients", 1.3))),
        ("selection", "10,000 x 128,000, k = 100, of 4.25 TB/s", 80, least, "%", run.number("select", r"^ +100 .* (\d+)%", lambda all_: all_[0]), "gpu_select_bench"),
        ("selection", "10,000 x 128,000, k = 1000", 60, least, "%", run.number("select", r"^ +1000 .* (\d+)%", lambda all_: all_[0]), "gpu_select_bench"),
        *((("lists", f"IVF-Flat, SIFT, recall .96, batch {batch:,}", floor, least, "/s",
            run.fastest(("ivf-1024", "ivf-4096"), batch, 5, 6, 0.96), "gpu_ivf_bench"))
          for batch, floor in ((10000, 1500000), (64, 400000), (1, 15000))),
        ("lists", "IVF-PQ, 64 bytes, rescored, recall .95, batch 10,000", 700000, least, "/s", run.fastest(("codes-pq--pq-m64",), 10000, 5, 6, 0.95), "gpu_ivf_bench --storage pq --pq-m 64"),
        *((("large", f"100 million x 96 halves, RaBitQ, recall .95, batch {batch:,}", floor, least, "/s", large_rate(run, batch), "large_engine_bench"))
          for batch, floor in ((10000, 300000), (1, 3000))),
        *((("codes", f"SQL, {name}, {bits} bits, recall target {target}, {clients}: over a product quantiser of as many bits", 1, least, "x",
            over_product(run, name, bits, target, clients), sql + " --codes"))
          for name in (SIFT, ARXIV, MADE_CODES) for bits in (4, 2) for target in (0.95, 0.99) for clients in ("1 client", "16 clients", "64 clients")),
        *((("codes", f"{name}, {bits} bits, recall {target}, batch {batch:,}: over a product quantiser of as many bits", 1, least, "x",
            product_over(run, name, bits, target, batch), "gpu_code_curves_bench"))
          for name in (SIFT, ARXIV, MADE) for bits in (4, 2, 1) for target in (0.95, 0.99) for batch in (1, 64, 10000)),
        *((("codes", f"SQL, {name}, 2 bits, recall target {target}, {clients}: over a product quantiser of 4, in more bytes", 1, least, "x",
            over_product(run, name, 2, target, clients, 4), sql + " --codes"))
          for name in (SIFT, ARXIV, MADE_CODES) for target in (0.95, 0.99) for clients in ("1 client", "16 clients", "64 clients")),
        *((("codes", f"{name}, {bits} bits, recall {target}, batch {batch:,}: over a product quantiser of {more}, in more bytes", 1, least, "x",
            product_over(run, name, bits, target, batch, more), "gpu_code_curves_bench"))
          for name in (SIFT, ARXIV, MADE) for bits, more in ((2, 4), (1, 2)) for target in (0.95, 0.99) for batch in (1, 64, 10000)),
        ("codes", "300,000 x 768, 4 bits, without rows: recall", 0.95, least, "",
         run.note(MADE_CODES, "gpuivf, storage = rabitq, bits = 4, refine = none, recall_target 0.99", "1 client$", r"recall ([0-9.]+)"), sql + " --codes"),
        ("lists", "k-means, 4,096 centroids, 20 iterations: over cuVS", 1.5, least, "x", over_kmeans(run), "gpu_kmeans_bench, peers.py"),
        ("lists", "SIFT as float32, recall .962, batch 10,000", 1400000, least, "/s", run.fastest(("ivf-1024--fp32",), 10000, 5, 6, 0.962), "gpu_ivf_bench --fp32"),
        *((("builds", f"CREATE INDEX, 1M x 768, {label}, 2 workers: over a sequential read", ceiling, most, "x",
            run.client(MADE_SQL, f"{label}$", "CREATE INDEX over the read, 2 workers"), sql + " --builds"))
          for label, ceiling in (("gpuflat", 1.3), ("gpuivf", 2.3), ("gpuivf, storage = pq", 3), ("gpugraph", 3))),
        ("lists", "k-means, 4,096 centroids, 20 iterations", 150, most, "ms", run.number("kmeans", r"20 iterations ([0-9.]+)"), "gpu_kmeans_bench"),
        ("lists", "k-means, 4,096 centroids, products of its iterations (goal)", 400, least, "TFLOP/s", kmeans_products(run), "gpu_kmeans_bench"),
        ("lists", "CREATE INDEX USING gpuivf, SIFT", 3, most, "s", run.client(SIFT, "gpuivf", "CREATE INDEX"), sql),
        ("lists", "SQL, SIFT, 64 clients, recall .98", 150000, least, "/s", run.client(SIFT, "gpuivf, recall", "64 clients", recall=0.98), sql),
        ("lists", "SQL, SIFT, recall targets from .9 on: largest difference", 0.01, most, "", run.client(SIFT, "gpuivf$", "recall targets from"), sql),
        ("approximate", "SQL, SIFT, conditions that .5 to .01 of the rows fulfil: recall lost", 0.005, most, "", lost_to_conditions(run), sql),
        ("approximate", "SQL, SIFT, gpugraph, merges: recall lost to a build anew", 0.005, most, "", lost_to_merges(run), sql),
        *((("approximate", f"SQL, SIFT, {index}, half of the rows deleted and inserted again: recall lost to a build anew", 0.005, most, "",
            run.client(SIFT, f"{index}$", "live: recall lost"), sql, looked_at_all(run, SIFT, f"{index}$", "live: recall lost")))
          for index in ("gpuivf", "gpugraph")),
        *((("conditions", f"{name}, {index}, {clients} clients, at most 10 % pass: slowest", floor, least, "/s", least_of(conditioned(run, name, index, clients, True), 0), sql + " --keys"))
          for name in (ARXIV, SIFT) for index in ("gpuflat", "gpuivf") for clients, floor in ((1, 5000), (16, 60000))),
        *((("conditions", f"{LARGE}, {index}, {clients} clients, at most 10 % pass: slowest", floor, least, "/s", least_of(conditioned(run, LARGE, index, clients, True), 0), sql + " --keys"))
          for index in ("gpuflat", "gpuivf") for clients, floor in ((1, 3000), (16, 30000))),
        *((("conditions", f"{name}, {index}, at most 10 % pass: least recall", 1, least, "", least_of(conditioned(run, name, index, 1, True), 1), sql + " --keys"))
          for name in (ARXIV, SIFT) for index in ("gpuflat", "gpuivf")),
        *((("conditions", f"{name}, {index}, {clients} clients, 20 and 50 % pass: over no condition", 0.8, least, "x", least_of(conditioned(run, name, index, clients, False), 2), sql + " --keys"))
          for name in (ARXIV, SIFT) for index in ("gpuflat", "gpuivf") for clients in (1, 16)),
        *((("conditions", f"{name}, {index}, 20 and 50 % pass: least recall", 0.95, least, "", least_of(conditioned(run, name, index, 1, False), 1), sql + " --keys"))
          for name in (ARXIV, SIFT) for index in ("gpuflat", "gpuivf")),
        *((("conditions", f"{name}, {index}, 64 clients with a tenant of .5 % each", 60000, least, "/s", run.client(name, f"{index}$", "64 clients, a tenant"), sql + " --keys"))
          for name in (ARXIV, SIFT) for index in ("gpuflat", "gpuivf")),
        ("joins", "SIFT, k = 10, vectorgpu_join, the fastest index", 150000, least, "/s", run.most(SIFT, "", "join, k = 10, vectorgpu_join$"), sql + " --only joins"),
        ("several GPUs", "1M x 768, k = 10, vectorgpu_join, exact, taxicab, over one GPU", 1.8, least, "x",
         run.note(MADE_JOIN, "gpuflat, L1$", "join, k = 10, vectorgpu_join, all", r"; ([0-9.]+) x one of the \d+ devices; same"), sql + " --join-devices"),
        *((("several GPUs", f"{label}, over one GPU", floor, least, "x", run.over_one(what), "devices_bench"))
          for label, what, floor in (*((f"{what}, batches of 10,000{by}", f"{what}{by}", 1.8) for what in ("exact", "lists", "graph") for by in ("", ", 4 callers")),
                                     ("nearest rows of a graph's, of its build", "nearest rows of a graph's", 1.6),
                                     ("exact, a copy of 1.5 times one GPU's room", "exact, 1.5 times a device", 0.9))),
        ("joins", "SIFT, k = 10, LATERAL with ids, one backend, the fastest index", 50000, least, "/s", run.most(SIFT, "", "join, k = 10, LATERAL$"), sql + " --only joins"),
        ("joins", "SIFT, k = 10, LATERAL with ids, 8 parallel workers, the fastest index", 150000, least, "/s", run.most(SIFT, "", "join, k = 10, LATERAL, 8"), sql + " --only joins"),
        *((("before", f"arxiv-lsa-256, gpuivf at .98 from SQL, {clients}: searches over the other version's", 1.5, least, "x",
            clients_over_before(run).get(clients), "test/gpu/run --phases before"))
          for clients in ("the most of 1, 16, 64 clients", *CLIENTS)),
        *((("before", f"SIFT as bytes, {label}, batch {batch:,}, {what} {second}: time over the other version's", 1.03, most, "x",
            run.over_before(log, batch, second, column), "test/gpu/run --phases before"))
          for label, log, what, seconds, column in (("exact", "search", "k =", (10, 100, 1000), 2), ("lists", "lists", "probes", (16, 32, 64), 3), ("graph", "graph", "width", (32, 64, 128), 2))
          for second in seconds for batch in (1, 64, 10000)),
        ("match counts", "Adult x 20, 1,024 queries, k = 100", 40, most, "ms", run.number("match", r"^adult +batch +1024 k +100: median +([0-9.]+)"), "gpu_match_bench --adult"),
        ("match counts", "10 million x 237 hashes, 1,024 queries", 250, most, "ms", run.number("match", r"^lsh +batch +1024 k +100: median +([0-9.]+)"), "gpu_match_bench --lsh 10000000"),
        ("match counts", "word list, 1,024 misspellings, nearest", 50, most, "ms", run.number("texts", r"^cuda +batch +1024.*median +([0-9.]+)"), "gpu_text_bench"),
        ("match counts", "SQL, Adult, 16 clients", 50000, least, "/s", run.client("Adult", "gpumatch", "16 clients"), sql),
        ("match counts", "the same over sums of conditions", 50, least, "x", run.client("Adult", "gpumatch", "over that"), sql),
        ("match counts", "SQL, documents, 16 clients, over GIN", 20, least, "x", run.client("", "gpumatch", "over that", name_has="package descriptions"), sql),
        *((("graph", f"SIFT, recall {recall}, batch 10,000", floor, least, "/s", run.fastest(graph, 10000, 4, 5, recall), "gpu_graph_bench --steps N"))
          for recall, floor in ((0.95, 1500000), (0.99, 600000))),
        *((("graph", f"{name} as float32, recall {recall}, batch {batch:,}: over CAGRA", floor, least, "x", over_cagra(run, name, batch, recall), "gpu_graph_bench, peers.py"))
          for name, recalls, large in CAGRA for recall in recalls for batch, floor in ((10000, large), (64, 3), (1, 3))),
        *((("graph", f"SIFT, recall .95, batch 1,000: codes of {bits} bits over {hash_bits} random projections", 1, least, "x",
            over_projections(run, bits, hash_bits, 0.95), "gpu_graph_bench --hash")) for bits, hash_bits in ((1, 128), (2, 256))),
        ("graph", "one query, recall .95", 0.08, most, "ms", one_query(run), "gpu_graph_bench --targets"),
        ("graph", "build of SIFT, engine", 5, most, "s", graph_build(run), "gpu_graph_bench"),
        ("graph", "device memory beside the vectors, degree 32", 160, most, "B a row", graph_memory(run), "gpu_graph_bench"),
        ("graph", "CREATE INDEX USING gpugraph, SIFT", 8, most, "s", run.client(SIFT, "gpugraph", "CREATE INDEX"), sql),
        ("graph", "recall targets from .9 on: largest difference", 0.01, most, "", targets(run), "gpu_graph_bench --targets"),
        ("graph", "SQL, SIFT, 1 client, recall .985", 7000, least, "/s", run.client(SIFT, "gpugraph, recall", "1 client$", recall=0.985), sql, looked_at_all(run, SIFT, "gpugraph, recall", "1 client$")),
        ("graph", "SQL, SIFT, 64 clients, recall .985", 150000, least, "/s", run.client(SIFT, "gpugraph, recall", "64 clients", recall=0.985), sql, looked_at_all(run, SIFT, "gpugraph, recall", "64 clients")),
        ("graph", "SQL, Fashion-MNIST, 16 clients, recall .995", 120000, least, "/s", run.client(FASHION, "gpugraph, recall", "16 clients", recall=0.995), sql, looked_at_all(run, FASHION, "gpugraph, recall", "16 clients")),
        ("graph", "k-NN graph of SIFT, k = 10, recall .95, from SQL", 15, most, "s", run.client(SIFT, "gpugraph", "k-NN graph", recall=0.95), sql),
    ]


def write_figures(run, table, path, card, trees):
    """Exact answers have recall 1; other lines say the recall that they ask for in their name."""
    lines = [(f"{section}: {workload}", f"{value:.6g}", unit, "1" if section == "exact" else "", "", "", "")
             for section, workload, _, _, unit, value, *_ in table if value is not None]
    for name in (ARXIV, MADE):
        lines += [(f"exact: {name}, batch {batch}", f"{ours:.6g}", "/s", "1", "cuVS brute force", f"{peer:.6g}", f"{recall:.4g}")
                  for batch, ours, peer, recall in beside_peer(run, name)]
    lines += [(f"graph: {name} as float32, batch {batch}", f"{found[0]:.6g}", "/s", f"{found[1]:.4g}", f"CAGRA of degree {found[2]}", f"{found[3]:.6g}", f"{found[4]:.4g}")
              for name, recalls, _ in CAGRA for recall in recalls for batch in (10000, 64, 1) if (found := beside_cagra(run, name, batch, recall))]
    lines += [(f"builds: CREATE INDEX, 1M x 768, {label}, 2 workers", f"{seconds:.6g}", "s", "", "", "", "")
              for label in ("gpuflat", "gpuivf", "gpuivf, storage = pq", "gpugraph")
              if (seconds := run.note(MADE_SQL, f"{label}$", "CREATE INDEX over the read, 2 workers", r"([0-9.]+) s;"))]
    lines += [(f"conditions: {name}, {index}, 64 clients with a tenant of .5 % each, by turns", f"{ours:.6g}", "/s", f"{recall:.4g}", way, f"{peer:.6g}", f"{peer_recall:.4g}")
              for name in (ARXIV, SIFT) for index in ("gpuflat", "gpuivf") for ours, recall, way, peer, peer_recall in beside_pgvector(run, name, index)]
    lines += [(name, f"{value:.6g}", unit, recall, "", "", "") for name, value, unit, recall in large_engine(run)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("name\tvalue\tunit\trecall\tcard\tgit trees\tpeer\tpeer's value\tpeer's recall\n")
        for name, value, unit, recall, *peer in lines:
            file.write("\t".join(cell.strip() or "-" for cell in (name, value, unit, recall, card, trees, *peer)) + "\n")


def main():
    run = Run(*sys.argv[1:3])
    table = floors(run)
    if len(sys.argv) > 3:
        write_figures(run, table, *sys.argv[3:6])
    reached = sum(value is not None and (value <= floor if most else value >= floor) for _, _, floor, most, _, value, *_ in table)
    print(f"{reached} of {len(table)} reached. A figure of lower recall than its line says counts as not measured.\n")
    print("| | workload | floor | measured | | command |\n| --- | --- | --- | --- | --- | --- |")
    for section, workload, floor, most, unit, value, source, *more in table:
        met = value is not None and (value <= floor if most else value >= floor)
        shown = "not measured" if value is None else f"{value:,.4g} {unit}".strip() if value < 1000 else f"{value:,.0f} {unit}".strip()
        verdict = "; ".join(filter(None, ("" if value is None else "reached" if met else "**missed**", *more)))
        print(f"| {section} | {workload} | {'at most' if most else 'at least'} {floor:,} {unit} | {shown} | {verdict} | `{source}` |")


if __name__ == "__main__":
    main()
