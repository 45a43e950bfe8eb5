"""Documents with made embeddings for the frameworks: the text of document i is `text i`, and its embedding follows from the text alone."""

import os

import numpy as np
import roads

ROWS, DIMENSIONS = 150, 16
VECTORS = roads.random_vectors(ROWS, DIMENSIONS)
TEXTS = [f"text {i}" for i in range(ROWS)]
METADATA = [{"number": i, "kind": "even" if i % 2 == 0 else "odd"} for i in range(ROWS)]
QUERY = roads.random_vectors(1, DIMENSIONS, seed=8)[0]
EVEN = [i for i in range(ROWS) if i % 2 == 0]


def embedding(text):
    """The embedding of `text i`, or of any other text the query's."""
    return (VECTORS[int(text.split()[1])] if text in TEXTS else QUERY).tolist()


def exact(operator, k, rows=range(ROWS)):
    """The texts of the k of the given rows that are nearest to the query."""
    rows = list(rows)
    return [TEXTS[rows[i]] for i in roads.nearest(roads.distances(operator, VECTORS[rows], QUERY), k)]


def exact_distances(operator, k):
    return np.sort(roads.distances(operator, VECTORS, QUERY))[:k]


def url(database, driver):
    """SQLAlchemy's URL of a database; a folder in PGHOST is a unix socket's."""
    host, port, user = (os.environ.get(name, default) for name, default in (("PGHOST", "localhost"), ("PGPORT", "5432"), ("PGUSER", "postgres")))
    return f"postgresql+{driver}://{user}@/{database}?host={host}&port={port}"
