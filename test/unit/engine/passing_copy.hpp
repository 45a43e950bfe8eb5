// A copy of any kind of segments, a delta and tombstones, and searches of it with conditions by definition. Shared by
// the tests of the engines.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "engine/coded_rows.hpp"
#include "engine/graph_rows.hpp"
#include "engine/held_rows.hpp"

namespace vectorgpu::engine::test
{

/// Where the rows that pass lie.
enum class Region
{
	kRandom,
	kNear, // to a query
	kFar,
};

inline const Region kRegions[] = {Region::kRandom, Region::kNear, Region::kFar};

/// Three segments; the delta begins behind trimmed rows. Every fifth row is dead. Vectors of queries stay where they
/// are.
struct PassingCopy
{
	static constexpr size_t kSegmentRows[] = {900, 400, 120};
	static constexpr size_t kTrimmed = 5;
	static constexpr size_t kDeltaRows = 75;  // with those trimmed
	static constexpr uint64_t kDeltaEnd = 61; // of conditions: rows behind it fail

	PassingCopy(std::unique_ptr<Engine> made, CopyKind kind, const DistanceSpec &spec, Data data, uint32_t seed,
		bool rounded = false)
		: rng(seed), delta(spec), engine(std::move(made))
	{
		CopySpec of(spec, kind);

		of.rounded = rounded;
		EXPECT_TRUE(engine->create(of, &copy).is_ok());
		for (SegmentId id = 1; id <= std::size(kSegmentRows); id++)
		{
			Rows rows(spec);

			rows.add_random(kSegmentRows[id - 1], data, rng, 1000 * id);
			EXPECT_TRUE(load(kind, data, rows, id).is_ok());
			segments.push_back(std::move(rows));
			kill_some(id);
		}
		delta.add_random(kDeltaRows, data, rng, 9000);
		EXPECT_TRUE(engine->append_delta(copy, 0, delta.block()).is_ok());
		EXPECT_TRUE(engine->trim_delta(copy, kTrimmed).is_ok());

		const Bytes bits(4, 0x11); // of positions 9, 13, ... 37

		for (size_t i = 9; i < 9 + 32; i += 4)
			dead.insert(delta.ids[i]);
		EXPECT_TRUE(engine->set_delta_tombstones(copy, 9, bits).is_ok());
	}

	/// Rows of about `share` of all pass. `near`: the query of Region::kNear and kFar. without: a segment that the
	/// conditions do not know; 0: none.
	Passing passing(double share, Region region, const void *near, SegmentId without = 0)
	{
		Passing made;

		pass.clear();
		for (SegmentId id = 1; id <= segments.size(); id++)
		{
			const std::vector<bool> bits = choose(segments[id - 1], 0, share, region, near, id != without);

			if (id != without)
				made.segments.push_back(segment_of(id, bits));
		}

		std::vector<bool> bits = choose(delta, kTrimmed, share, region, near, true);

		for (size_t i = kDeltaEnd; i < kDeltaRows; i++)
			pass.erase(delta.ids[i]);
		made.delta_end = kDeltaEnd;
		made.delta_bits.assign((kDeltaEnd + 7) / 8, 0);
		for (size_t i = 0; i < kDeltaRows && i < made.delta_bits.size() * 8; i++) // bits behind the end may be set
			if (bits[i])
				made.delta_bits[i / 8] = static_cast<uint8_t>(made.delta_bits[i / 8] | 1 << (i % 8));
		count(bits, &made);
		return made;
	}

	/// The exact answer among the rows of the last passing(). with_nan: rows without a score count.
	std::vector<Neighbor> nearest(const void *query, size_t k, const Neighbor *after, bool with_nan) const
	{
		std::vector<Neighbor> all;
		const auto add = [&](const Rows &rows)
		{
			for (size_t i = 0; i < rows.n(); i++)
			{
				const Neighbor found = {scores(rows, query)[i], rows.ids[i]};

				if (pass.contains(found.row) && !dead.contains(found.row) && (with_nan || !std::isnan(found.score)) &&
					(after == nullptr || neighbor_less(*after, found)))
					all.push_back(found);
			}
		};

		for (const Rows &rows : segments)
			add(rows);
		add(delta);
		std::sort(all.begin(), all.end(), neighbor_less);
		all.resize(std::min(k, all.size()));
		return all;
	}

	/// Kill every fifth row of a segment, from another one on at each call.
	void kill_some(SegmentId id)
	{
		const Rows &rows = segments[id - 1];
		Bytes bits((rows.n() + 7) / 8);

		for (size_t i = first_dead; i < rows.n(); i += 5)
		{
			bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1 << (i % 8));
			dead.insert(rows.ids[i]);
		}
		for (size_t i = 0; i < rows.n(); i++)
			if (i % 5 != first_dead)
				dead.erase(rows.ids[i]);
		EXPECT_TRUE(engine->set_tombstones(copy, id, bits).is_ok());
		first_dead = (first_dead + 1) % 5;
	}

	std::mt19937 rng;
	std::vector<Rows> segments; // of ids 1, 2, 3
	Rows delta;                 // with the rows trimmed
	std::set<RowId> dead;
	std::set<RowId> pass; // by the last passing()
	std::unique_ptr<Engine> engine;
	CopyId copy = 0;

private:
	/// As the worker counts them. delta_bits [rows of the delta].
	static void count(const std::vector<bool> &delta_bits, Passing *made)
	{
		for (const std::shared_ptr<const PassingSegment> &segment : made->segments)
		{
			made->n_rows += segment->n_rows;
			made->n_pass += segment->n_pass;
		}
		made->n_rows += kDeltaEnd - kTrimmed;
		made->n_pass +=
			static_cast<uint64_t>(std::count(delta_bits.begin() + kTrimmed, delta_bits.begin() + kDeltaEnd, true));
	}

	Status load(CopyKind kind, Data data, const Rows &rows, SegmentId id)
	{
		const uint32_t n_lists = static_cast<uint32_t>(rows.n() / 30);
		const Edges edges = data == Data::kGaussian ? Edges::kBuilt : Edges::kRandom;

		if (kind == CopyKind::kLists)
			return ListRows(rows, n_lists, rng).load(engine.get(), copy, id);
		if (kind == CopyKind::kCodedLists)
			return CodedRows(ListRows(rows, n_lists, rng), ivf::CodeKind::kSq8).load_coded(engine.get(), copy, id);
		if (kind == CopyKind::kRows)
		{
			const Status status = engine->load_segment(copy, id, rows.block());

			return status.is_ok() ? engine->seal_segment(copy, id) : status;
		}

		GraphedRows graph(rows, 16, id == 1 ? 2 : 1, edges);

		if (kind == CopyKind::kHashedGraph)
			graph.add_codes(256, id);
		return graph.load(engine.get(), copy, id);
	}

	/// Which rows [n] pass; those of `held` rows from `first` on are added to `pass`.
	std::vector<bool> choose(const Rows &rows, size_t first, double share, Region region, const void *near, bool counts)
	{
		std::vector<Neighbor> order;
		std::vector<bool> bits(rows.n());

		for (size_t i = 0; i < rows.n(); i++)
			order.push_back({scores(rows, near)[i], i});
		std::sort(order.begin(), order.end(), neighbor_less);
		if (region == Region::kFar)
			std::reverse(order.begin(), order.end());
		if (region == Region::kRandom)
			std::shuffle(order.begin(), order.end(), rng);
		order.resize(static_cast<size_t>(share * static_cast<double>(rows.n()) + .5));
		for (const Neighbor &one : order)
		{
			bits[one.row] = true;
			if (counts && one.row >= first)
				pass.insert(rows.ids[one.row]);
		}
		return bits;
	}

	static std::shared_ptr<const PassingSegment> segment_of(SegmentId id, const std::vector<bool> &bits)
	{
		auto made = std::make_shared<PassingSegment>();

		made->segment = id;
		made->n_rows = bits.size();
		made->n_pass = static_cast<uint64_t>(std::count(bits.begin(), bits.end(), true));
		made->listed = made->n_pass <= made->n_rows / kFewOfRows;
		if (!made->listed)
			made->bits.assign((bits.size() + 7) / 8, 0);
		for (uint32_t i = 0; i < bits.size(); i++)
			if (bits[i] && made->listed)
				made->rows.push_back(i);
			else if (bits[i])
				made->bits[i / 8] = static_cast<uint8_t>(made->bits[i / 8] | 1 << (i % 8));
		return made;
	}

	/// Scores of all rows, computed once for each query.
	const std::vector<double> &scores(const Rows &rows, const void *query) const
	{
		std::vector<double> &known = scores_[{&rows, query}];

		for (size_t i = known.size(); i < rows.n(); i++)
			known.push_back(oracle_score(rows.spec, query, rows.vector(i)));
		return known;
	}

	size_t first_dead = 0;
	mutable std::map<std::pair<const Rows *, const void *>, std::vector<double>> scores_;
};

} // namespace vectorgpu::engine::test
