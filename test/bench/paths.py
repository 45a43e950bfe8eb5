"""The k-NN graph of a table through SQL: how long it takes, its recall against brute force, and the smoothest path between two rows. For
rows that are square pictures the path is drawn, as SVG."""
import base64
import math
import os
import struct
import zlib

import numpy

import builds
import datasets
import server

K = 10
N_CHECKED = 1000  # rows whose neighbours are compared with brute force
N_ACROSS = 13    # pictures in a line of the drawing
ENDS = (0, 6)     # rows of the path; of fashion-mnist two shoes, a boot and a sneaker


def graph_recall(data, edges):
    """The share of the K nearest other rows that the graph has, over a seeded sample of rows; a row as near as the K-th counts.
    edges: [(source, target)] by number of the row."""
    chosen = numpy.random.default_rng(1).permutation(data.rows)[:N_CHECKED]
    targets = {}
    for source, target in edges:
        targets.setdefault(source, []).append(target)
    wide = data.base[chosen].astype(numpy.float64)
    best = numpy.full((len(chosen), K), numpy.inf)
    for start in range(0, data.rows, datasets.BLOCK_ROWS):
        block = data.base[start:start + datasets.BLOCK_ROWS].astype(numpy.float64)
        squared = (wide ** 2).sum(1)[:, None] + (block ** 2).sum(1)[None, :] - 2.0 * (wide @ block.T)
        own = numpy.flatnonzero((chosen >= start) & (chosen < start + len(block)))
        squared[own, chosen[own] - start] = numpy.inf
        best = numpy.partition(numpy.concatenate([best, squared], axis=1), K - 1, axis=1)[:, :K]
    found = 0
    for row, kth in zip(chosen, best.max(axis=1)):
        own_targets = numpy.unique(numpy.asarray(targets.get(int(row), []), dtype=numpy.int64))
        found += min(K, int((datasets.squared_distances(data.base[row], data.base[own_targets]) <= kth).sum()))
    return found / (K * len(chosen))


def png(picture):
    """A PNG of a grey picture [height, width] uint8."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = picture.shape
    lines = b"".join(b"\0" + line.tobytes() for line in picture)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def strip(pictures, lengths, title):
    """SVG of pictures in lines of N_ACROSS, under each the length of the step to it."""
    size, gap, text = 84, 8, 26
    width = min(len(pictures), N_ACROSS) * (size + gap) + gap
    height = text + -(-len(pictures) // N_ACROSS) * (size + text)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
             f'<title>{title}</title><rect width="{width}" height="{height}" fill="white"/><text x="{gap}" y="16">{title}</text>']
    for i, (picture, length) in enumerate(zip(pictures, lengths)):
        x = gap + i % N_ACROSS * (size + gap)
        y = text + i // N_ACROSS * (size + text)
        parts.append(f'<image x="{x}" y="{y}" width="{size}" height="{size}" href="data:image/png;base64,'
                     f'{base64.b64encode(png(picture)).decode()}"/>')
        if length is not None:
            parts.append(f'<text x="{x}" y="{y + size + 14}">{length:.0f}</text>')
    return "".join(parts) + "</svg>\n"


def smoothest_path(bench, conn, data):
    """[(row, length of the step to it)] of the path, reported beside the distance of its ends."""
    took_ms, steps = server.timed(lambda: conn.execute(
        "SELECT i.id, p.distance FROM vectorgpu_path('items_paths', (SELECT ctid FROM items WHERE id = %s), "
        "(SELECT ctid FROM items WHERE id = %s), %s) p JOIN items i ON i.ctid = p.tid ORDER BY p.step", (*ENDS, K)).fetchall())
    if not steps:
        raise server.BenchError(f"no path leads from row {ENDS[0]} to row {ENDS[1]}")
    direct = math.sqrt(datasets.squared_distances(data.base[ENDS[0]], data.base[ENDS[1]:ENDS[1] + 1])[0])
    bench.report.row("path", data.name, f"vectorgpu_path from row {ENDS[0]} to row {ENDS[1]}", took_ms / 1000, "s",
                     f"{len(steps) - 1} steps, the longest {max(length for _, length in steps[1:]):.1f}; directly {direct:.1f}; rows "
                     + " ".join(str(row) for row, _ in steps))
    return steps


def rows(bench, data, folder):
    """All figures of one set, and the picture."""
    with bench.attempt("k-NN graph", data.name, "vectorgpu: loading"):
        with bench.vectorgpu.connect() as conn:
            server.load_table(conn, "items", data.base, datasets.copy_binary_blocks(data.base))
            server.prewarm(conn, "items")
            build_ms = builds.create_index(conn, "paths", "USING gpugraph (v vector_l2_ops)")
            bench.report.row("k-NN graph", data.name, "CREATE INDEX USING gpugraph", build_ms / 1000, "s")
            with bench.attempt("k-NN graph", data.name, f"vectorgpu_knn_graph, k = {K}"):
                took_ms, _ = server.timed(lambda: conn.execute(
                    f"CREATE TEMP TABLE knn AS SELECT (g).* FROM (SELECT vectorgpu_knn_graph('items_paths', {K}) AS g OFFSET 0) s"))
                edges = conn.execute("SELECT s.id, t.id FROM knn JOIN items s ON s.ctid = source JOIN items t ON t.ctid = target").fetchall()
                bench.report.row("k-NN graph", data.name, f"vectorgpu_knn_graph, k = {K}", took_ms / 1000, "s",
                                 f"{len(edges):,} edges", recall=graph_recall(data, edges))
            with bench.attempt("path", data.name, "vectorgpu_path"):
                steps = smoothest_path(bench, conn, data)
                side = math.isqrt(data.dims)
                if side * side == data.dims:
                    path = os.path.join(folder, f"path-{data.name}.svg")
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(strip([data.base[row].reshape(side, side) for row, _ in steps], [length for _, length in steps],
                                         f"{data.name}: smoothest path from row {ENDS[0]} to row {ENDS[1]}"))
                    bench.report.say(f"wrote {path}")
            conn.execute("DROP TABLE items")
