// Copies of kind kSparse for tests of engines: segments, a delta in slots, tombstones, conditions, and the expected
// results of searches. Shared by the tests of the engines.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/distance/distance.hpp"
#include "engine/distance/sparse.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine::test
{

constexpr uint32_t kSparseSlotBytes = 56; // of the delta, as indexes have them

struct SparseRow
{
	std::vector<int32_t> indices;
	std::vector<float> values;

	SparseVector view() const { return {indices.data(), values.data(), static_cast<uint32_t>(indices.size())}; }

	/// int32 indices, then float values.
	std::vector<uint8_t> elements() const
	{
		std::vector<uint8_t> bytes(indices.size() * kSparseElementBytes);

		if (!indices.empty())
		{
			std::memcpy(bytes.data(), indices.data(), indices.size() * sizeof(int32_t));
			std::memcpy(bytes.data() + indices.size() * sizeof(int32_t), values.data(), values.size() * sizeof(float));
		}
		return bytes;
	}

	/// A uint32 length and the elements.
	std::vector<uint8_t> stored() const
	{
		const std::vector<uint8_t> bytes = elements();
		const uint32_t length = static_cast<uint32_t>(bytes.size());
		std::vector<uint8_t> value(sizeof(length));

		std::memcpy(value.data(), &length, sizeof(length));
		value.insert(value.end(), bytes.begin(), bytes.end());
		return value;
	}
};

/// Ends, then elements.
inline std::vector<uint8_t>
sparse_description(const std::vector<SparseRow> &rows)
{
	std::vector<uint64_t> ends;
	std::vector<uint8_t> elements;

	for (const SparseRow &row : rows)
	{
		const std::vector<uint8_t> bytes = row.elements();

		elements.insert(elements.end(), bytes.begin(), bytes.end());
		ends.push_back(elements.size());
	}

	std::vector<uint8_t> description(ends.size() * sizeof(uint64_t));

	if (!ends.empty())
		std::memcpy(description.data(), ends.data(), description.size());
	description.insert(description.end(), elements.begin(), elements.end());
	return description;
}

/// Rows of 0 to most elements, of low indices often; every fifth has no element, and some have equal distances.
inline SparseRow
random_sparse(std::mt19937 &rng, uint32_t most, uint32_t dim)
{
	std::map<int32_t, float> elements;
	SparseRow row;

	if (rng() % 5 != 0)
		for (uint32_t n = rng() % (most + 1); n > 0; n--)
		{
			const uint32_t bound = rng() % 3 == 0 ? dim : std::min<uint32_t>(dim, 20);

			elements[static_cast<int32_t>(rng() % bound)] = (static_cast<float>(rng() % 31) - 15.5f) / 4;
		}
	for (const auto &[index, value] : elements)
	{
		row.indices.push_back(index);
		row.values.push_back(value);
	}
	return row;
}

/// A row of exactly n elements, n <= dim, spread over all dimensions.
inline SparseRow
full_sparse(std::mt19937 &rng, uint32_t n, uint32_t dim)
{
	const uint32_t step = dim / n;
	SparseRow row;

	for (uint32_t i = 0; i < n; i++)
	{
		row.indices.push_back(static_cast<int32_t>(i * step + rng() % step));
		row.values.push_back((static_cast<float>(rng() % 31) - 15.5f) / 4);
	}
	return row;
}

inline CopySpec
sparse_spec(Metric metric)
{
	return {{metric, ElementType::kSet, kSparseSlotBytes}, CopyKind::kSparse};
}

/// Two segments, then the delta. Ids ascend in each; every seventh row is dead.
class SparseCopy
{
public:
	/// full: all rows have `most` elements.
	SparseCopy(std::unique_ptr<Engine> made, Metric metric, uint32_t dim, uint32_t seed,
		std::vector<size_t> sizes = {700, 250, 90}, uint32_t most = 40, bool full = false)
		: engine(std::move(made)), rng(seed), delta_part(sizes.size() - 1), metric_(metric)
	{
		EXPECT_TRUE(engine->create(sparse_spec(metric), &copy).is_ok());
		for (size_t part = 0; part < sizes.size(); part++)
			for (size_t i = 0; i < sizes[part]; i++)
			{
				rows.push_back(full ? full_sparse(rng, most, dim) : random_sparse(rng, most, dim));
				parts.push_back(part);
				ids.push_back((part + 1) << 40 | (i + 1) << 4 | 1);
				dead.push_back(rng() % 7 == 0);
				slots.push_back(0);
			}
		for (size_t part = 0; part + 1 < sizes.size(); part++)
			load(part);
		append();
	}

	/// Load the segment of a part, in pieces.
	void load(size_t part)
	{
		const SegmentId id = static_cast<SegmentId>(part + 1);
		std::vector<SparseRow> some;
		std::vector<RowId> some_ids;

		for (size_t i = 0; i < rows.size(); i++)
			if (parts[i] == part)
			{
				some.push_back(rows[i]);
				some_ids.push_back(ids[i]);
			}

		const std::vector<uint8_t> description = sparse_description(some);

		EXPECT_TRUE(engine->load_segment(copy, id, {some_ids, nullptr, some_ids.size()}).is_ok());
		for (size_t at = 0; at < description.size(); at += 1001)
			EXPECT_TRUE(engine
					->load_structure(copy, id, 1,
						std::span(description).subspan(at, std::min<size_t>(1001, description.size() - at)))
					.is_ok());
		EXPECT_TRUE(engine->seal_segment(copy, id).is_ok());
		EXPECT_TRUE(engine->set_tombstones(copy, id, bits_of_part(part)).is_ok());
	}

	/// Append the rows of the last part to the delta, in slots: first slots stand for rows, the others are dead.
	void append()
	{
		std::vector<RowId> headers;
		std::vector<uint8_t> bytes;

		delta_dead.clear();
		for (size_t i = 0; i < rows.size(); i++)
		{
			if (parts[i] != delta_part)
				continue;

			std::vector<uint8_t> value = rows[i].stored();
			const size_t n = (value.size() + kSparseSlotBytes - 1) / kSparseSlotBytes;

			slots[i] = headers.size();
			value.resize(n * kSparseSlotBytes);
			bytes.insert(bytes.end(), value.begin(), value.end());
			for (size_t slot = 0; slot < n; slot++)
			{
				headers.push_back(ids[i]);
				delta_dead.push_back(slot > 0 || dead[i]);
			}
		}
		n_slots = headers.size();
		EXPECT_TRUE(engine->set_delta_tombstones(copy, 0, pack(delta_dead)).is_ok());
		EXPECT_TRUE(engine->append_delta(copy, 0, {headers, bytes.data(), headers.size()}).is_ok());
	}

	/// The rows for which `holds` is true: passes [rows].
	Passing passing(const std::vector<bool> &passes) const
	{
		Passing made;
		std::vector<bool> delta(n_slots);

		for (size_t part = 0; part < delta_part; part++)
		{
			auto segment = std::make_shared<PassingSegment>();
			std::vector<bool> own;

			for (size_t i = 0; i < rows.size(); i++)
				if (parts[i] == part)
				{
					if (passes[i])
						segment->rows.push_back(static_cast<uint32_t>(own.size()));
					own.push_back(passes[i]);
				}
			segment->segment = static_cast<SegmentId>(part + 1);
			segment->n_rows = own.size();
			segment->n_pass = segment->rows.size();
			segment->listed = segment->n_pass <= segment->n_rows / kFewOfRows;
			if (!segment->listed)
			{
				segment->rows.clear();
				segment->bits = pack(own);
			}
			made.segments.push_back(segment);
		}
		for (size_t i = 0; i < rows.size(); i++)
			if (parts[i] == delta_part && passes[i])
				delta[slots[i]] = true;
		made.delta_end = n_slots;
		made.delta_bits = pack(delta);
		return made;
	}

	/// By definition. passes: empty, or [rows].
	std::vector<Neighbor> nearest(
		const SparseRow &query, size_t k, const Neighbor *after = nullptr, const std::vector<bool> &passes = {}) const
	{
		std::vector<Neighbor> all;

		for (size_t i = 0; i < rows.size(); i++)
		{
			const Neighbor found = {finish_score(metric_, sparse_score(metric_, rows[i].view(), query.view())), ids[i]};

			if (!dead[i] && (passes.empty() || passes[i]) && (after == nullptr || neighbor_less(*after, found)))
				all.push_back(found);
		}
		std::sort(all.begin(), all.end(), neighbor_less);
		all.resize(std::min(k, all.size()));
		return all;
	}

	std::vector<uint8_t> bits_of_part(size_t part) const
	{
		std::vector<bool> own;

		for (size_t i = 0; i < rows.size(); i++)
			if (parts[i] == part)
				own.push_back(dead[i]);
		return pack(own);
	}

	static std::vector<uint8_t> pack(const std::vector<bool> &bits)
	{
		std::vector<uint8_t> bytes((bits.size() + 7) / 8);

		for (size_t i = 0; i < bits.size(); i++)
			bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | (bits[i] ? 1 << (i % 8) : 0));
		return bytes;
	}

	std::unique_ptr<Engine> engine;
	CopyId copy = 0;
	std::mt19937 rng;
	size_t delta_part; // the rows of this part are in the delta; those before it are in segments
	std::vector<SparseRow> rows;
	std::vector<size_t> parts;
	std::vector<RowId> ids;
	std::vector<bool> dead;
	std::vector<size_t> slots;    // of rows of the delta: the first one
	std::vector<bool> delta_dead; // by slot
	size_t n_slots = 0;

private:
	const Metric metric_;
};

inline void
expect_same_bits(const std::vector<Neighbor> &found, const std::vector<Neighbor> &expected)
{
	ASSERT_EQ(found.size(), expected.size());
	for (size_t i = 0; i < found.size(); i++)
	{
		ASSERT_EQ(found[i].row, expected[i].row) << "place " << i;
		ASSERT_EQ(std::bit_cast<uint64_t>(found[i].score), std::bit_cast<uint64_t>(expected[i].score)) << "place " << i;
	}
}

/// Queries of one batch have the answers of the definition.
inline void
expect_sparse_batch(SparseCopy *held, const std::vector<SparseRow> &vectors, size_t k)
{
	std::vector<std::vector<uint8_t>> stored;
	std::vector<SearchQuery> queries(vectors.size());
	std::vector<std::vector<Neighbor>> results;

	for (size_t i = 0; i < vectors.size(); i++)
	{
		stored.push_back(vectors[i].stored());
		queries[i] = {stored[i].data(), k, false, {}};
		queries[i].query_bytes = stored[i].size();
	}
	ASSERT_TRUE(held->engine->search(held->copy, queries, &results).is_ok());
	ASSERT_EQ(results.size(), vectors.size());
	for (size_t i = 0; i < vectors.size(); i++)
	{
		SCOPED_TRACE(testing::Message() << "query " << i);
		ASSERT_NO_FATAL_FAILURE(expect_same_bits(results[i], held->nearest(vectors[i], k)));
	}
}

/// A batch of queries by every k, each also behind its middle, with and without conditions.
inline void
expect_sparse_answers(SparseCopy *held, uint32_t most, uint32_t dim)
{
	std::vector<SparseRow> vectors = {{}};
	std::vector<std::vector<bool>> shares(1);

	for (int i = 0; i < 5; i++)
		vectors.push_back(random_sparse(held->rng, most, dim));
	if (!held->rows.empty())
		vectors.push_back(held->rows.back());
	for (const uint32_t one_in : {1u, 3u, 40u, 1000000u})
	{
		shares.emplace_back();
		for (size_t i = 0; i < held->rows.size(); i++)
			shares.back().push_back(held->rng() % one_in == 0);
	}
	for (const size_t k : {size_t{1}, size_t{10}, size_t{5000}})
		for (const std::vector<bool> &passes : shares)
		{
			const Passing passing = passes.empty() ? Passing{} : held->passing(passes);
			std::vector<std::vector<uint8_t>> stored;
			std::vector<SearchQuery> queries(vectors.size());
			std::vector<Coverage> coverages(vectors.size(), Coverage::kPart);
			std::vector<std::vector<Neighbor>> results;

			for (size_t i = 0; i < vectors.size(); i++)
			{
				stored.push_back(vectors[i].stored());
				queries[i] = {stored[i].data(), k, false, {}};
				queries[i].query_bytes = stored[i].size();
				queries[i].passing = passes.empty() ? nullptr : &passing;
				queries[i].coverage = &coverages[i];
			}
			for (const bool behind : {false, true})
			{
				ASSERT_TRUE(held->engine->search(held->copy, queries, &results).is_ok());
				for (size_t i = 0; i < vectors.size(); i++)
				{
					SCOPED_TRACE(testing::Message() << "k " << k << " query " << i << (behind ? " behind" : ""));
					ASSERT_NO_FATAL_FAILURE(expect_same_bits(results[i],
						held->nearest(vectors[i], k, queries[i].has_after ? &queries[i].after : nullptr, passes)));
					EXPECT_EQ(coverages[i], Coverage::kAll);
					if (!results[i].empty())
					{
						queries[i].has_after = true;
						queries[i].after = results[i][results[i].size() / 2];
					}
				}
			}
		}
}

} // namespace vectorgpu::engine::test
