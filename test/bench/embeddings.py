#!/usr/bin/env python3
"""Rows like embeddings: groups of uneven size, few latent dimensions, noise, length 1; by numpy or torch.

    test/bench/embeddings.py --out DIR/NAME --rows 1000000 --dims 768 --groups 2000 [--device cuda]

writes NAME.base.f32bin, NAME.query.f32bin (uint32 n, uint32 d, then n x d float32) and NAME.gt100.bin (uint32 queries,
uint32 100, then queries x 100 uint32 rows, nearest first, then as many float32 Euclidean distances).

A row is centre(group) + spread W z + noise e, divided by its length. Its centre has independent normal elements, W [dims,
latent] has elements of +-1 / sqrt(latent), z and e are normal. So a group is an ellipsoid of `latent` dimensions, which all
groups share, inside a thin ball. Queries of kind `same` are rows that are not in the base; `between` are the middle of two
rows of different groups; `far` are directions without any group.

Random numbers are hashes of (seed, stream, position), so that a block of rows can be made alone. A normal number is the sum
of four 16-bit numbers, an integer. Sums over such integers are exact in float64 in any order, as are squares of rounded rows;
all else is one IEEE operation per element, which numpy and torch round alike: the rows are the same on every CPU and GPU
(test/client/test_embeddings.py).
"""
import argparse
import dataclasses
import sys

import numpy

BLOCK_ROWS = 16384
TRUTH = 100
NORMAL_SD = 37836.945  # of the sum of four uniform 16-bit numbers: sqrt(4 (2^32 - 1) / 12)
FRACTION = 1 << 14     # rows are rounded to this part of a centre's standard deviation before they are divided by their length
KINDS = ("same", "between", "far")
CENTRES, PROJECTION, GROUPS, LATENT, NOISE = range(5)  # streams of random numbers; those of queries are 8 k + stream


@dataclasses.dataclass(frozen=True)
class Law:
    """What rows are drawn from. sizes: the weight of the group of rank r is r ** -sizes (0: all groups alike); giant: the share
    of rows that one further group has; spread, noise: standard deviations of an element where a centre's is 1."""

    dims: int = 768
    groups: int = 2000
    latent: int = 64
    sizes: float = 0.5
    giant: float = 0.0
    spread: float = 0.6
    noise: float = 0.2
    seed: int = 1


class Numpy:
    """The operations that the generator needs, by numpy."""

    def arange(self, first, end):
        return numpy.arange(first, end, dtype=numpy.int64)

    def asarray(self, array):
        return array

    def double(self, array):
        return array.astype(numpy.float64)

    def searchsorted(self, sorted_values, values):
        return numpy.searchsorted(sorted_values, values, side="right")

    def rint(self, array):
        return numpy.rint(array)

    def lengths(self, array):
        return numpy.sqrt((array * array).sum(1))

    def to_numpy(self, array):
        return array.astype(numpy.float32)

    def nearest(self, base, queries, k):
        """[n_queries, k] rows and their squared distances, in float64; of equally near ones the smaller row."""
        best, rows = numpy.empty((len(queries), 0)), numpy.empty((len(queries), 0), numpy.int64)
        wide = queries.astype(numpy.float64)
        for first in range(0, len(base), BLOCK_ROWS):
            block = base[first:first + BLOCK_ROWS].astype(numpy.float64)
            squared = (wide * wide).sum(1)[:, None] + (block * block).sum(1)[None, :] - 2 * wide @ block.T
            best = numpy.concatenate([best, squared], axis=1)
            numbers = numpy.broadcast_to(numpy.arange(first, first + len(block)), squared.shape)
            rows = numpy.concatenate([rows, numbers], axis=1)
            order = numpy.argsort(best, axis=1, kind="stable")[:, :k]
            best, rows = numpy.take_along_axis(best, order, 1), numpy.take_along_axis(rows, order, 1)
        return rows, best


class Torch:
    """The same by torch on a device."""

    def __init__(self, device):
        import torch
        self.torch, self.device = torch, device

    def arange(self, first, end):
        return self.torch.arange(first, end, dtype=self.torch.int64, device=self.device)

    def asarray(self, array):
        return self.torch.from_numpy(numpy.ascontiguousarray(array)).to(self.device)

    def double(self, array):
        return array.to(self.torch.float64)

    def searchsorted(self, sorted_values, values):
        return self.torch.searchsorted(sorted_values, values.contiguous(), right=True)

    def rint(self, array):
        return self.torch.round(array)

    def lengths(self, array):
        return (array * array).sum(1).sqrt()

    def to_numpy(self, array):
        return array.to(self.torch.float32).cpu().numpy()

    def nearest(self, base, queries, k):
        torch = self.torch
        wide = self.asarray(queries).to(torch.float64)
        best = torch.empty((len(queries), 0), dtype=torch.float64, device=self.device)
        rows = torch.empty((len(queries), 0), dtype=torch.int64, device=self.device)
        for first in range(0, len(base), BLOCK_ROWS):
            block = self.asarray(base[first:first + BLOCK_ROWS]).to(torch.float64)
            squared = (wide * wide).sum(1)[:, None] + (block * block).sum(1)[None, :] - 2 * wide @ block.T
            best = torch.cat([best, squared], 1)
            rows = torch.cat([rows, self.arange(first, first + len(block)).expand(len(queries), -1)], 1)
            order = torch.sort(best, dim=1, stable=True).indices[:, :k]
            best, rows = best.gather(1, order), rows.gather(1, order)
        return rows.cpu().numpy(), best.cpu().numpy()


def signed(value):
    """The int64 whose bits are those of an unsigned 64-bit number."""
    return value - (1 << 64) if value >= 1 << 63 else value


def hashed(numbers, key):
    """63-bit hashes of int64 numbers: two rounds of multiplication and shift (splitmix64), keyed; products wrap around."""
    numbers = (numbers + signed(key)) * signed(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ ((numbers >> shift) & ((1 << (64 - shift)) - 1))) * signed(factor)
    return (numbers ^ (numbers >> 31)) & ((1 << 63) - 1)


def key_of(seed, stream):
    state = (seed * 0xD1342543DE82EF95 + stream * 0x2545F4914F6CDD1D + 0x9E3779B97F4A7C15) % (1 << 64)
    for shift, factor in ((32, 0xD6E8FEB86659FD93), (29, 0xD6E8FEB86659FD93)):
        state = ((state ^ (state >> shift)) * factor) % (1 << 64)
    return state ^ (state >> 32)


def normals(lib, law, stream, first, n, columns):
    """[n, columns] float64 whole numbers of rows [first, first + n) of a stream: normal with deviation NORMAL_SD, nearly."""
    bits = hashed(lib.arange(first * columns, (first + n) * columns), key_of(law.seed, stream))
    again = hashed(bits, key_of(law.seed, stream + 1000))
    total = (bits & 0xFFFF) + ((bits >> 20) & 0xFFFF) + ((again >> 3) & 0xFFFF) + ((again >> 30) & 0xFFFF) - 131070
    return lib.double(total.reshape(n, columns))


class Generator:
    """Rows of a law, block by block."""

    def __init__(self, law, lib):
        self.law, self.lib = law, lib
        weights = numpy.arange(1, law.groups + 1, dtype=numpy.float64) ** -law.sizes
        weights *= (1 - law.giant) / weights.sum()
        if law.giant > 0:
            weights = numpy.append(weights, law.giant)
        self.n_groups = len(weights)
        bounds = numpy.floor(numpy.cumsum(weights)[:-1] * 2.0 ** 53).astype(numpy.int64)
        self.bounds = lib.asarray(bounds)
        self.centres = normals(lib, law, CENTRES, 0, self.n_groups, law.dims)
        signs = hashed(lib.arange(0, law.latent * law.dims), key_of(law.seed, PROJECTION)) >> 40 & 1
        self.projection = lib.double(signs.reshape(law.latent, law.dims) * 2 - 1)

    def groups(self, first, n, queries=False):
        """[n] group of each row."""
        stream = GROUPS + 8 * queries
        return self.lib.searchsorted(self.bounds, hashed(self.lib.arange(first, first + n), key_of(self.law.seed, stream)) >> 10)

    def raw(self, first, n, queries=False):
        """[n, dims] whole numbers, FRACTION for each standard deviation of a centre's elements."""
        law, lib = self.law, self.lib
        centres = self.centres[self.groups(first, n, queries)]
        latent = normals(lib, law, LATENT + 8 * queries, first, n, law.latent) @ self.projection
        noise = normals(lib, law, NOISE + 8 * queries, first, n, law.dims)
        inside = latent * (law.spread / law.latent ** 0.5)
        return lib.rint((centres + inside + noise * law.noise) * (FRACTION / NORMAL_SD))

    def divided(self, raw):
        return self.lib.to_numpy(raw / self.lib.lengths(raw)[:, None])

    def rows(self, first, n):
        """[n, dims] float32 of length 1."""
        return self.divided(self.raw(first, n))

    def queries(self, kind, n):
        """[n, dims] float32 of length 1, of one of KINDS."""
        if kind == "far":
            return self.divided(self.lib.rint(normals(self.lib, self.law, NOISE + 16, 0, n, self.law.dims) * (FRACTION / NORMAL_SD)))
        raw = self.raw(0, n, queries=True)
        return self.divided(raw if kind == "same" else raw + self.raw(n, n, queries=True))


def generator(law, device=None):
    """A generator by numpy, or by torch on a device."""
    return Generator(law, Torch(device) if device else Numpy())


def add_law(parser):
    """Arguments of a law."""
    for field in dataclasses.fields(Law):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)


def law_of(options):
    return Law(**{field.name: getattr(options, field.name) for field in dataclasses.fields(Law)})


def write_matrix(path, made, n, dims):
    """blocks of rows to a file of n x dims float32 behind its head."""
    with open(path, "wb") as file:
        file.write(numpy.array([n, dims], "<u4").tobytes())
        for block in made:
            file.write(block.astype("<f4").tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="path of the files without their endings")
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--kind", choices=KINDS, default="same")
    parser.add_argument("--device", help="make the rows by torch on this device, such as cuda")
    add_law(parser)
    options = parser.parse_args()
    made = generator(law_of(options), options.device)
    base = numpy.empty((options.rows, options.dims), numpy.float32)
    for first in range(0, options.rows, BLOCK_ROWS):
        n = min(BLOCK_ROWS, options.rows - first)
        base[first:first + n] = made.rows(first, n)
    queries = made.queries(options.kind, options.queries)
    write_matrix(f"{options.out}.base.f32bin", [base], options.rows, options.dims)
    write_matrix(f"{options.out}.query.f32bin", [queries], options.queries, options.dims)
    rows, squared = made.lib.nearest(base, queries, min(TRUTH, options.rows))
    with open(f"{options.out}.gt100.bin", "wb") as file:
        file.write(numpy.array(rows.shape, "<u4").tobytes() + rows.astype("<u4").tobytes() +
                   numpy.sqrt(numpy.maximum(squared, 0)).astype("<f4").tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
