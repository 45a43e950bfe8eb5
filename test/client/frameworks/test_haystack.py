"""pgvector-haystack: a document store with exact search and with hnsw, filters, words, and its retrievers."""

import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

import psycopg
import pytest
import roads
from fake import DIMENSIONS, EVEN, METADATA, QUERY, TEXTS, VECTORS, exact, exact_distances
from haystack.dataclasses import Document
from haystack.utils import Secret
from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever, PgvectorKeywordRetriever
from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

FUNCTIONS = {"l2_distance": "<->", "cosine_similarity": "<=>", "inner_product": "<#>"}


@pytest.mark.parametrize("vector_type", ["vector", "halfvec"])
@pytest.mark.parametrize("strategy", ["exact_nearest_neighbor", "hnsw"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_document_store(road, function, strategy, vector_type):
    operator = FUNCTIONS[function]
    store = PgvectorDocumentStore(
        connection_string=Secret.from_token(f"dbname={road}"),
        table_name="haystack",
        embedding_dimension=DIMENSIONS,
        vector_type=vector_type,
        vector_function=function,
        recreate_table=True,
        search_strategy=strategy,
        hnsw_recreate_index_if_exists=True,
        hnsw_index_creation_kwargs={"m": 16, "ef_construction": 64},
        hnsw_ef_search=100,
    )
    documents = [Document(id=text, content=text, embedding=v.tolist(), meta=m) for text, v, m in zip(TEXTS, VECTORS, METADATA)]
    assert store.write_documents(documents) == len(TEXTS)
    if strategy == "hnsw":
        with psycopg.connect(dbname=road, autocommit=True) as admin:
            assert roads.replace_indexes(admin, "haystack") == ["haystack_hnsw_index"]
    found = PgvectorEmbeddingRetriever(document_store=store, top_k=7).run(query_embedding=QUERY.tolist())["documents"]
    assert [document.content for document in found] == exact(operator, 7)
    expected = exact_distances(operator, 7)
    expected = {"l2_distance": expected, "cosine_similarity": 1 - expected, "inner_product": -expected}[function]
    assert [document.score for document in found] == pytest.approx(expected, abs=2e-2 if vector_type == "halfvec" else 1e-5)
    filters = {"field": "meta.kind", "operator": "==", "value": "even"}
    found = PgvectorEmbeddingRetriever(document_store=store, top_k=7, filters=filters).run(query_embedding=QUERY.tolist())["documents"]
    assert [document.content for document in found] == exact(operator, 7, EVEN)
    found = PgvectorKeywordRetriever(document_store=store).run(query="101")["documents"]
    assert [document.content for document in found] == ["text 101"]
    store.delete_documents(TEXTS[:5])
    assert store.count_documents() == len(TEXTS) - 5
    store.close()
    if strategy == "hnsw":
        assert roads.was_scanned(road, "haystack_hnsw_index")
