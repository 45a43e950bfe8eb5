#!/usr/bin/env python3
"""Measure cuVS on the rows that gpu_search_bench searches, on the same machine: milliseconds a batch, queries and answers in device memory.

    test/gpu/peers.py BASE QUERY [--metric cosine|l2|ip] [--parts brute,cagra,ivf_flat,ivf_pq,kmeans] [--degree N] [--seconds S]

BASE, QUERY: .f16bin, whose rows get length 1, .f32bin, or .u8bin, which is searched as float32. Needs numpy, cupy and cuvs; where they are missing it says so and exits with 77.
Prints a line for each measurement: part, setting, batch, k, median ms, queries/s, recall. Recall is that of the nearest rows by sums in
float64, of the first queries, in batches of this size.
"""
import argparse
import statistics
import sys
import time

import numpy

try:
    import cupy
    import cuvs
    from cuvs.cluster import kmeans
    from cuvs.common import Resources
    from cuvs.neighbors import brute_force, cagra, ivf_flat, ivf_pq
except ImportError as error:
    print(f"# no peers: {error}")
    sys.exit(77)

METRICS = {"l2": "sqeuclidean", "ip": "inner_product", "cosine": "cosine"}
BATCHES = (1, 64, 10000)
CHECKED = 1000
K = 10
MOST_RUNS = 200
CLUSTERS, ITERATIONS = 4096, 20
PARTS = ("brute", "cagra", "ivf_flat", "ivf_pq", "kmeans")


def read(name):
    data = numpy.fromfile(name, numpy.uint8)
    n, dims = (int(value) for value in data[:8].view("<u4"))
    if name.endswith(".u8bin"):
        return data[8:].reshape(n, dims).astype(numpy.float32)
    rows = data[8:].view("<f2" if name.endswith(".f16bin") else "<f4").reshape(n, dims).astype(numpy.float32)
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True) if name.endswith(".f16bin") else rows


class Measured:
    def __init__(self, options):
        self.options = options
        self.resources = Resources()
        self.base, self.queries = (cupy.asarray(read(name)) for name in (options.base, options.query))
        self.truth = self.nearest(self.queries[:CHECKED])

    def nearest(self, queries):
        """[n, K] rows by sums in float64, a block of rows at a time."""
        scores = []
        for first in range(0, len(self.base), 100000):
            block = self.base[first:first + 100000].astype(cupy.float64)
            wide = queries.astype(cupy.float64)
            products = wide @ block.T
            if self.options.metric == "l2":
                products = products - (block * block).sum(1)[None, :] / 2
            elif self.options.metric == "cosine":
                products = products / cupy.sqrt((block * block).sum(1))[None, :]
            best = cupy.argpartition(-products, K, axis=1)[:, :K]
            scores.append((cupy.take_along_axis(products, best, 1), best + first))
        values, rows = (cupy.concatenate(parts, axis=1) for parts in zip(*scores))
        return cupy.take_along_axis(rows, cupy.argsort(-values, axis=1)[:, :K], 1)

    def recall(self, rows):
        found = cupy.asarray(rows)[:CHECKED].astype(cupy.int64)
        return float((found[:, :, None] == self.truth[:len(found), None, :]).any(1).mean())

    def batch(self, n):
        return cupy.ascontiguousarray(cupy.tile(self.queries, (-(-n // len(self.queries)), 1))[:n])

    def times(self, search, queries):
        """Median ms of search(queries), and the last answer."""
        taken = []
        began = time.monotonic()
        while len(taken) < 3 or (time.monotonic() - began < self.options.seconds and len(taken) < MOST_RUNS):
            start = time.perf_counter()
            answer = search(queries)
            self.resources.sync()
            taken.append(1000 * (time.perf_counter() - start))
        return statistics.median(taken[1:]), answer

    def searches(self, part, setting, search):
        """Times and recall of each size of batch: cuVS takes another algorithm for small batches of a graph than for large ones."""
        for n in BATCHES:
            median, answer = self.times(search, self.batch(n))
            if n < CHECKED:
                found = cupy.concatenate([cupy.asarray(search(self.queries[first:first + n])[1]) for first in range(0, len(self.truth), n)])
            else:
                found = answer[1]
            print(f"{part} {setting} {n} {K} {median:.4f} {1000 * n / median:.0f} {self.recall(found):.4f}", flush=True)


def brute(run):
    index = brute_force.build(run.base, metric=METRICS[run.options.metric], resources=run.resources)
    run.searches("brute", "-", lambda queries: brute_force.search(index, queries, K, resources=run.resources))


def graph(run):
    degree = run.options.degree
    params = cagra.IndexParams(metric=METRICS[run.options.metric], graph_degree=degree, intermediate_graph_degree=2 * degree)
    start = time.perf_counter()
    index = cagra.build(params, run.base, resources=run.resources)
    run.resources.sync()
    print(f"# cagra of degree {degree} built in {time.perf_counter() - start:.2f} s", flush=True)
    for size in (16, 24, 32, 48, 64, 96, 128, 192, 256):
        params = cagra.SearchParams(itopk_size=size)
        run.searches("cagra", size, lambda queries: cagra.search(params, index, queries, K, resources=run.resources))


def lists(run, module, name):
    n_lists = max(256, int(len(run.base) ** 0.5))
    index = module.build(module.IndexParams(n_lists=n_lists, metric=METRICS[run.options.metric]), run.base, resources=run.resources)
    for probes in (10, 30, 100):
        params = module.SearchParams(n_probes=probes)
        run.searches(name, probes, lambda queries: module.search(params, index, queries, K, resources=run.resources))


def means(run):
    """All iterations from given centroids, so that no time of seeds is in it."""
    first = run.base[::len(run.base) // CLUSTERS][:CLUSTERS]
    params = kmeans.KMeansParams(n_clusters=CLUSTERS, max_iter=ITERATIONS, init_method="Array", tol=1e-12, n_init=1)
    for _ in range(3):
        centroids = first.copy()
        start = time.perf_counter()
        _, inertia, iterations = kmeans.fit(params, run.base, centroids=centroids, resources=run.resources)
        run.resources.sync()
        took = 1000 * (time.perf_counter() - start)
        print(f"kmeans {CLUSTERS} {iterations} - {took:.1f} - inertia {float(inertia) / len(run.base):.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("query")
    parser.add_argument("--metric", choices=METRICS, default="cosine")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["brute"], help=",".join(PARTS))
    parser.add_argument("--degree", type=int, default=64, help="of cagra's graph")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    options = parser.parse_args()
    run = Measured(options)
    ways = {"brute": brute, "cagra": graph, "ivf_flat": lambda run: lists(run, ivf_flat, "ivf_flat"),
            "ivf_pq": lambda run: lists(run, ivf_pq, "ivf_pq"), "kmeans": means}

    print(f"# cuVS {cuvs.__version__} on {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, {len(run.base)} x {run.base.shape[1]}, {options.metric}")
    print("# part setting batch k median-ms queries/s recall")
    for part in options.parts:
        ways[part](run)


if __name__ == "__main__":
    main()
