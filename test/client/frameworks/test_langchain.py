"""langchain-postgres: PGVector, and PGVectorStore with its indexes, options and metadata columns."""

import numpy as np
import psycopg
import pytest
import roads
from fake import DIMENSIONS, EVEN, METADATA, QUERY, TEXTS, embedding, exact, exact_distances, url
from langchain_core.embeddings import Embeddings
from langchain_postgres import Column, PGEngine, PGVector, PGVectorStore
from langchain_postgres.v2.indexes import DistanceStrategy, HNSWIndex, HNSWQueryOptions, IVFFlatIndex, IVFFlatQueryOptions


class FakeEmbeddings(Embeddings):
    def embed_documents(self, texts):
        return [embedding(text) for text in texts]

    def embed_query(self, text):
        return embedding(text)


def contents(documents):
    return [document.page_content for document in documents]


@pytest.mark.parametrize("strategy, operator", [("l2", "<->"), ("cosine", "<=>"), ("inner", "<#>")])
def test_pgvector(road, strategy, operator):
    store = PGVector(
        embeddings=FakeEmbeddings(),
        embedding_length=DIMENSIONS,
        collection_name=f"texts_{strategy}",
        connection=url(road, "psycopg"),
        distance_strategy=strategy,
        use_jsonb=True,
    )
    store.add_texts(TEXTS, metadatas=METADATA, ids=TEXTS)
    assert contents(store.similarity_search("query", k=7)) == exact(operator, 7)
    scored = store.similarity_search_with_score_by_vector(QUERY.tolist(), k=7)
    assert np.allclose([score for _, score in scored], exact_distances(operator, 7), rtol=1e-5)
    assert contents(store.similarity_search("query", k=7, filter={"kind": {"$eq": "even"}})) == exact(operator, 7, EVEN)
    store.delete([exact(operator, 1)[0]])
    assert contents(store.similarity_search("query", k=6)) == exact(operator, 7)[1:]
    assert len(store.max_marginal_relevance_search("query", k=3, fetch_k=10)) == 3
    store.delete_collection()


@pytest.mark.parametrize(
    "index, options, distance, operator",
    [
        (HNSWIndex, HNSWQueryOptions(ef_search=64), DistanceStrategy.COSINE_DISTANCE, "<=>"),
        (HNSWIndex, HNSWQueryOptions(ef_search=64), DistanceStrategy.EUCLIDEAN, "<->"),
        (HNSWIndex, HNSWQueryOptions(ef_search=64), DistanceStrategy.INNER_PRODUCT, "<#>"),
        (IVFFlatIndex, IVFFlatQueryOptions(probes=5), DistanceStrategy.COSINE_DISTANCE, "<=>"),
    ],
)
def test_store_with_an_index(road, index, options, distance, operator):
    table, name = "store", "store_index"
    engine = PGEngine.from_connection_string(url=url(road, "psycopg"))
    engine.init_vectorstore_table(table, DIMENSIONS, metadata_columns=[Column("kind", "text")], overwrite_existing=True)
    store = PGVectorStore.create_sync(
        engine, FakeEmbeddings(), table, metadata_columns=["kind"], distance_strategy=distance, index_query_options=options
    )
    store.add_texts(TEXTS, metadatas=METADATA)
    extra = {"lists": 1} if index is IVFFlatIndex else {}
    store.apply_vector_index(index(name=name, distance_strategy=distance, **extra))
    with psycopg.connect(dbname=road, autocommit=True) as admin:
        assert roads.replace_indexes(admin, table) == [name]
    assert store.is_valid_index(name)
    store.reindex(name)
    assert contents(store.similarity_search("query", k=7)) == exact(operator, 7)
    scored = store.similarity_search_with_score_by_vector(QUERY.tolist(), k=7)
    sign = -1 if operator == "<#>" else 1  # this store gives inner products themselves
    assert np.allclose([sign * score for _, score in scored], exact_distances(operator, 7), rtol=1e-5)
    assert contents(store.similarity_search("query", k=7, filter={"kind": "even"})) == exact(operator, 7, EVEN)
    assert roads.was_scanned(road, name)
    store.drop_vector_index(name)
    engine.drop_table(table)
