"""langgraph: PostgresStore with an index over the values it keeps.

Its queries join two tables: only with their statistics does the planner scan the index, pgvector's too, instead of sorting the joined rows.
"""

import psycopg
import pytest
import roads
from fake import DIMENSIONS, EVEN, METADATA, TEXTS, embedding, exact, exact_distances
from langgraph.store.postgres import PostgresStore

OPERATORS = {"l2": "<->", "cosine": "<=>", "inner_product": "<#>"}


@pytest.mark.parametrize("vector_type", ["vector", "halfvec"])
@pytest.mark.parametrize("kind", ["hnsw", "ivfflat", "flat"])
@pytest.mark.parametrize("distance", OPERATORS)
def test_store(road, kind, vector_type, distance):
    operator = OPERATORS[distance]
    options = {"hnsw": {"m": 16, "ef_construction": 64}, "ivfflat": {"nlist": 1}, "flat": {}}[kind]
    index = {
        "dims": DIMENSIONS,
        "embed": lambda texts: [embedding(text) for text in texts],
        "fields": ["text"],
        "distance_type": distance,
        "ann_index_config": {"kind": kind, "vector_type": vector_type, **options},
    }
    with psycopg.connect(dbname=road, autocommit=True) as admin:
        admin.execute("DROP TABLE IF EXISTS store_vectors, vector_migrations, store, store_migrations")
        with PostgresStore.from_conn_string(f"dbname={road}", index=index) as store:
            store.setup()
            for text, metadata in zip(TEXTS, METADATA):
                store.put(("texts", metadata["kind"]), text, {"text": text, **metadata})
            if kind != "flat":
                assert roads.replace_indexes(admin, "store_vectors") == ["store_vectors_embedding_idx"]
            admin.execute("ANALYZE store, store_vectors")
            found = store.search(("texts",), query="query", limit=7)
            assert [item.value["text"] for item in found] == exact(operator, 7)
            sign = -1 if distance != "cosine" else 1
            expected = exact_distances(operator, 7)
            expected = 1 - expected if distance == "cosine" else sign * expected
            assert [item.score for item in found] == pytest.approx(expected, abs=2e-2 if vector_type == "halfvec" else 1e-5)
            found = store.search(("texts", "even"), query="query", filter={"kind": "even"}, limit=7)
            assert [item.value["text"] for item in found] == exact(operator, 7, EVEN)
            store.delete(("texts", "even"), TEXTS[0])
            assert store.get(("texts", "even"), TEXTS[0]) is None
        if kind != "flat":
            assert roads.was_scanned(road, "store_vectors_embedding_idx")
