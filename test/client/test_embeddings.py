"""test/bench/embeddings.py makes the same rows everywhere: by numpy as this file's constants say, by torch the same bits."""
import hashlib
import pathlib
import sys

import numpy
import pytest

sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench"))
import embeddings  # noqa: E402

LAWS = {
    "default": embeddings.Law(dims=384, groups=300),
    "giant": embeddings.Law(dims=96, groups=50, latent=12, sizes=1.3, giant=0.3, spread=0.9, noise=0.35, seed=7),
}
# SHA-256 of the rows' bytes, little endian: 1,000 rows from 70,000 on (another block than the first), 100 queries of each kind.
EXPECTED = {
    "default": {
        "rows": "2d164f83f40f70c1d305a9b8794161ca",
        "same": "76179c7e9618ae7bd5a14f9451b63d3b",
        "between": "ab8128611da72ef3cf292408453a9cb9",
        "far": "0172c8fbabc31feb5a96d3085a493971",
    },
    "giant": {
        "rows": "f23626edcf8c6689778024053666a9f1",
        "same": "14ffdc2f0b5e4900a58095152fe8f7bb",
        "between": "342114f1a824216ec915660385e022ec",
        "far": "525efc4d39cf6fd8b7d145726bea7d84",
    },
}


def digests(made):
    """By what was made: the digest of its bytes."""
    made_of = {"rows": made.rows(70000, 1000), **{kind: made.queries(kind, 100) for kind in embeddings.KINDS}}
    return {what: hashlib.sha256(array.astype("<f4").tobytes()).hexdigest()[:32] for what, array in made_of.items()}


@pytest.mark.parametrize("name", LAWS)
def test_numpy_makes_the_committed_bits(name):
    assert digests(embeddings.generator(LAWS[name])) == EXPECTED[name]


@pytest.mark.parametrize("name", LAWS)
def test_torch_makes_the_same_bits(name):
    torch = pytest.importorskip("torch", reason="torch is not installed: whether it makes numpy's bits is not tested here")
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        assert digests(embeddings.generator(LAWS[name], device)) == EXPECTED[name], device


@pytest.mark.parametrize("name", LAWS)
def test_a_block_can_be_made_alone(name):
    made = embeddings.generator(LAWS[name])
    whole = made.rows(0, 900)
    assert numpy.array_equal(made.rows(300, 7), whole[300:307])
    assert numpy.array_equal(numpy.concatenate([made.rows(first, 450) for first in (0, 450)]), whole)


@pytest.mark.parametrize("name", LAWS)
def test_the_law_is_that(name):
    law, made = LAWS[name], embeddings.generator(LAWS[name])
    groups = made.groups(0, 50000)
    share = numpy.bincount(groups, minlength=made.n_groups) / len(groups)
    if law.giant:
        assert abs(share[-1] - law.giant) < 0.01
    assert abs(share[0] / share[3] - 4 ** law.sizes) < 0.5 * 4 ** law.sizes
    rows = made.rows(0, 500).astype(numpy.float64)
    assert numpy.allclose((rows * rows).sum(1), 1, atol=1e-6)
    near = rows @ rows.T
    same = groups[:500, None] == groups[None, :500]
    numpy.fill_diagonal(same, False)
    assert near[same].mean() > 0.4 > 0.1 > abs(near[groups[:500, None] != groups[None, :500]].mean())


def test_nearest_is_what_a_sort_finds():
    made = embeddings.generator(LAWS["giant"])
    base, queries = made.rows(0, embeddings.BLOCK_ROWS + 500), made.queries("same", 5)
    rows, squared = made.lib.nearest(base, queries, 10)
    true = ((queries[:, None, :].astype(numpy.float64) - base[None, :, :]) ** 2).sum(2)
    assert numpy.allclose(numpy.sort(true, 1)[:, :10], squared, atol=1e-9)
    assert numpy.allclose(numpy.take_along_axis(true, rows, 1), squared, atol=1e-9)
