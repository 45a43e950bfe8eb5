"""The data sets of the benchmark: reading, seeded synthetic ones, ground truth, and rows in COPY form.

Everything here is numpy only. Rows of a set are uint8 (as the files have them); squared distances of such rows are whole
numbers below 2^53, so that the ground truth in float64 is exact.
"""
import dataclasses
import gzip
import os

import numpy

K_TRUTH = 10
BLOCK_ROWS = 20000


@dataclasses.dataclass
class DataSet:
    """base [n, d] and queries [n_queries, d] uint8; kth_squared [n_queries] float64: the 10th best squared L2 distance."""

    name: str
    base: numpy.ndarray
    queries: numpy.ndarray
    kth_squared: numpy.ndarray
    synthetic: bool

    @property
    def rows(self):
        return self.base.shape[0]

    @property
    def dims(self):
        return self.base.shape[1]

    @property
    def raw_bytes(self):
        """Bytes of the vectors as float32."""
        return self.rows * self.dims * 4


def read_rows(path, element):
    """[n, d] elements of a file: uint32 n, uint32 d, then the rows."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    n, d = (int(number) for number in numpy.frombuffer(content, "<u4", 2))
    if len(content) != 8 + n * d * numpy.dtype(element).itemsize:
        raise ValueError(f"{path} has {len(content)} bytes, not 8 and {n} x {d} elements")
    return numpy.frombuffer(content, element, offset=8).reshape(n, d)


def read_u8bin(path):
    return read_rows(path, numpy.uint8)


def read_f16bin(path):
    """Its rows as float32."""
    return read_rows(path, "<f2").astype(numpy.float32)


def read_truth_rows(path):
    """[n_queries, 100] base rows, nearest first."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    n, k = (int(value) for value in numpy.frombuffer(content, "<u4", 2))
    return numpy.frombuffer(content, "<u4", n * k, offset=8).reshape(n, k)


def squared_distances(query, rows):
    """Squared L2 distances [n] float64 of one query [d] to rows [n, d]; exact for uint8."""
    difference = rows.astype(numpy.float64) - query.astype(numpy.float64)
    return numpy.einsum("ij,ij->i", difference, difference)


def kth_by_brute_force(base, queries):
    """The 10th best squared distance per query, by one exact matrix product per block of base rows."""
    k = min(K_TRUTH, base.shape[0])
    wide = queries.astype(numpy.float64)
    best = numpy.full((queries.shape[0], k), numpy.inf)
    for start in range(0, base.shape[0], BLOCK_ROWS):
        block = base[start:start + BLOCK_ROWS].astype(numpy.float64)
        squared = (wide ** 2).sum(1)[:, None] + (block ** 2).sum(1)[None, :] - 2.0 * (wide @ block.T)
        merged = numpy.concatenate([best, squared], axis=1)
        best = numpy.partition(merged, k - 1, axis=1)[:, :k]
    return best.max(axis=1)


def load(folder, name, n_rows, n_queries):
    """A set of the folder, cut to n_rows when that is not 0; its queries are a seeded sample."""
    base = read_u8bin(os.path.join(folder, f"{name}.base.u8bin.gz"))
    queries = read_u8bin(os.path.join(folder, f"{name}.query.u8bin.gz"))
    chosen = numpy.random.default_rng(1).permutation(queries.shape[0])[:n_queries]
    queries = queries[chosen]
    if n_rows and n_rows < base.shape[0]:
        base = base[:n_rows]
        kth = kth_by_brute_force(base, queries)
    else:
        truth = read_truth_rows(os.path.join(folder, f"{name}.gt100.bin.gz"))[chosen]
        kth = numpy.array([squared_distances(query, base[rows[:K_TRUTH]]).max() for query, rows in zip(queries, truth)])
    return DataSet(name, base, queries, kth, False)


def synthetic(dims, n_rows, n_queries, seed=7):
    """Seeded clusters: 256 centres, normal spread around them, rounded and cut to 0..255."""
    rng = numpy.random.default_rng(seed)
    centres = rng.uniform(0, 160, (256, dims)).astype(numpy.float32)

    def draw(n):
        rows = numpy.empty((n, dims), numpy.uint8)
        for start in range(0, n, BLOCK_ROWS):
            size = min(BLOCK_ROWS, n - start)
            noise = rng.standard_normal((size, dims), numpy.float32) * 24
            rows[start:start + size] = numpy.clip(centres[rng.integers(0, 256, size)] + noise, 0, 255).round()
        return rows

    base, queries = draw(n_rows), draw(n_queries)
    return DataSet(f"synthetic-clusters-{dims}", base, queries, kth_by_brute_force(base, queries), True)


def recall(data, query_number, ids):
    """The share of the 10 nearest among the first 10 ids returned; a row as near as the 10th best counts."""
    ids = numpy.unique(numpy.asarray(ids[:K_TRUTH], dtype=numpy.int64))
    wanted = min(K_TRUTH, data.rows)
    squared = squared_distances(data.queries[query_number], data.base[ids])
    return float((squared <= data.kth_squared[query_number]).sum()) / wanted


def literal(row):
    """The text form of a vector."""
    return "[" + ",".join(f"{x:.9g}" for x in row.tolist()) + "]"


def copy_text(rows, first_id=0):
    """COPY text of (id, vector)."""
    return "".join(f"{first_id + i}\t{literal(row)}\n" for i, row in enumerate(rows)).encode()


def copy_binary_blocks(rows, first_id=0, columns=(), element=">f4"):
    """COPY binary of (id int4, vector) in blocks of bytes, header and trailer included. columns: further ones, int4 [n];
    element: of the vectors, ">f2" for halfvec."""
    dims, element = rows.shape[1], numpy.dtype(element)
    layout = numpy.dtype([("fields", ">i2"), ("id_bytes", ">i4"), ("id", ">i4"), ("vector_bytes", ">i4"),
                          ("dims", ">i2"), ("unused", ">i2"), ("elements", element, (dims,)),
                          ("columns", [("bytes", ">i4"), ("value", ">i4")], (len(columns),))])
    yield b"PGCOPY\n\xff\r\n\x00" + bytes(8)
    for start in range(0, rows.shape[0], BLOCK_ROWS):
        block = rows[start:start + BLOCK_ROWS]
        tuples = numpy.zeros(block.shape[0], layout)
        tuples["fields"] = 2 + len(columns)
        tuples["id_bytes"] = 4
        tuples["id"] = numpy.arange(first_id + start, first_id + start + block.shape[0])
        tuples["vector_bytes"] = 4 + element.itemsize * dims
        tuples["dims"] = dims
        tuples["elements"] = block
        tuples["columns"]["bytes"] = 4
        for number, column in enumerate(columns):
            tuples["columns"]["value"][:, number] = column[start:start + BLOCK_ROWS]
        yield tuples.tobytes()
    yield b"\xff\xff"
