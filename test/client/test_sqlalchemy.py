"""SQLAlchemy with the pgvector package: a model, queries by distance, aggregates, reflection."""

import numpy as np
import pytest
from pgvector.sqlalchemy import BIT, HALFVEC, VECTOR, avg, sum as vector_sum
from sqlalchemy import Index, Integer, MetaData, Table, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "item"
    id = mapped_column(Integer, primary_key=True)
    embedding = mapped_column(VECTOR(3))
    half = mapped_column(HALFVEC(3))
    bits = mapped_column(BIT(3))


Index("item_embedding", Item.embedding)


@pytest.fixture(scope="module")
def engine(database):
    engine = create_engine(f"postgresql+psycopg:///{database}")
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine):
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        for i, v in enumerate([[1, 1, 1], [2, 2, 2], [1, 1, 2]]):
            session.add(Item(id=i + 1, embedding=v, half=np.array(v, dtype=np.float16), bits=("000", "101", "111")[i]))
        session.add(Item(id=4))
        session.commit()
        yield session
        session.rollback()
    Base.metadata.drop_all(engine)


@pytest.mark.parametrize("column", [Item.embedding, Item.half], ids=["vector", "halfvec"])
@pytest.mark.parametrize(
    "method, expected",
    [("l2_distance", [1, 3, 2]), ("max_inner_product", [2, 3, 1]), ("cosine_distance", [1, 2, 3]), ("l1_distance", [1, 3, 2])],
)
def test_order_by_distance(session, column, method, expected):
    distance = getattr(column, method)([1, 1, 1])
    rows = session.scalars(select(Item).where(Item.id < 4).order_by(distance, Item.id))
    assert [item.id for item in rows] == expected


@pytest.mark.parametrize("method, expected", [("hamming_distance", [2, 3, 1]), ("jaccard_distance", [2, 3, 1])])
def test_order_by_bit_distance(session, method, expected):
    rows = session.scalars(select(Item).where(Item.id < 4).order_by(getattr(Item.bits, method)("101"), Item.id))
    assert [item.id for item in rows] == expected


def test_values_come_back(session):
    item = session.get(Item, 3)
    assert list(item.embedding) == [1, 1, 2]
    assert list(item.half) == [1, 1, 2]
    assert item.bits == "111"
    assert session.get(Item, 4).embedding is None


def test_distance_as_a_column_and_a_condition(session):
    distance = Item.embedding.l2_distance([1, 1, 1])
    assert session.scalars(select(distance).where(distance < 1.5).order_by(distance)).all() == [0, 1]


def test_aggregates(session):
    average, total = session.execute(select(avg(Item.embedding), vector_sum(Item.half))).one()
    assert np.allclose(list(average), [4 / 3, 4 / 3, 5 / 3])
    assert list(total) == [4, 4, 5]


def test_reflection_knows_the_types(session, engine):
    table = Table("item", MetaData(), autoload_with=engine)
    assert isinstance(table.c.embedding.type, VECTOR) and table.c.embedding.type.dim == 3
    assert isinstance(table.c.half.type, HALFVEC) and table.c.half.type.dim == 3
