"""llama-index-vector-stores-postgres: with and without an hnsw index, vector and halfvec, filters on metadata, hybrid search."""

import psycopg
import pytest
import roads
from fake import DIMENSIONS, EVEN, METADATA, QUERY, TEXTS, VECTORS, exact, exact_distances, url
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index.vector_stores.postgres import PGVectorStore

HNSW = {"hnsw_m": 16, "hnsw_ef_construction": 64, "hnsw_ef_search": 100, "hnsw_dist_method": "vector_cosine_ops"}


def make_store(road, table, **options):
    store = PGVectorStore(
        connection_string=url(road, "psycopg2"),
        async_connection_string=url(road, "asyncpg"),
        table_name=table,
        schema_name="public",
        embed_dim=DIMENSIONS,
        **options,
    )
    store.add([TextNode(id_=text, text=text, embedding=v.tolist(), metadata=m) for text, v, m in zip(TEXTS, VECTORS, METADATA)])
    return store


def texts(result):
    return [node.text for node in result.nodes]


@pytest.mark.parametrize("half", [False, True], ids=["vector", "halfvec"])
@pytest.mark.parametrize("hnsw", [False, True], ids=["exact", "hnsw"])
def test_nearest(road, hnsw, half):
    table = f"llama_{'half' if half else 'full'}_{'hnsw' if hnsw else 'exact'}"
    kwargs = HNSW | ({"hnsw_dist_method": "halfvec_cosine_ops"} if half else {}) if hnsw else None
    store = make_store(road, table, hnsw_kwargs=kwargs, use_halfvec=half, use_jsonb=True)
    with psycopg.connect(dbname=road, autocommit=True) as admin:
        names = roads.replace_indexes(admin, f"data_{table}") if hnsw else []
    found = store.query(VectorStoreQuery(query_embedding=QUERY.tolist(), similarity_top_k=7))
    assert texts(found) == exact("<=>", 7)
    assert found.similarities == pytest.approx(1 - exact_distances("<=>", 7), abs=1e-3 if half else 1e-6)
    filters = MetadataFilters(filters=[MetadataFilter(key="kind", value="even")])
    found = store.query(VectorStoreQuery(query_embedding=QUERY.tolist(), similarity_top_k=7, filters=filters))
    assert texts(found) == exact("<=>", 7, EVEN)
    assert all(roads.was_scanned(road, name) for name in names)
    store.delete_nodes([exact("<=>", 1)[0]])
    found = store.query(VectorStoreQuery(query_embedding=QUERY.tolist(), similarity_top_k=6))
    assert texts(found) == exact("<=>", 7)[1:]
    store.clear()


def test_hybrid_search(road):
    store = make_store(road, "llama_hybrid", hnsw_kwargs=HNSW, hybrid_search=True, text_search_config="english")
    with psycopg.connect(dbname=road, autocommit=True) as admin:
        assert len(roads.replace_indexes(admin, "data_llama_hybrid")) == 1
    query = VectorStoreQuery(query_embedding=QUERY.tolist(), query_str="101", similarity_top_k=4, sparse_top_k=2, mode=VectorStoreQueryMode.HYBRID)
    found = texts(store.query(query))
    assert set(found) == {*exact("<=>", 4), "text 101"}
    store.clear()
