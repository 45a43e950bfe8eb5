// A copy on the GPU with conditions for its searches, and the answers by plain code: the scores of all rows that live
// and pass, sorted.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <unordered_set>
#include <vector>

#include "answers.hpp"
#include "engine/coded_rows.hpp"
#include "engine/graph_rows.hpp"
#include "engine/match/hash_family.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda::test
{

using engine::CopyKind;
using engine::Coverage;
using engine::FilterWay;
using engine::Passing;
using engine::PassingSegment;
using engine::SegmentProbes;

/// Whether a row passes.
using Condition = std::function<bool(RowId)>;

/// Rows that pass in no order, about this share of them.
inline Condition
random_condition(double share, uint64_t seed)
{
	return [share, seed](RowId row)
	{
		const uint64_t mixed = engine::mix64((row + seed * 1000003) * 0x9E3779B97F4A7C15u);

		return static_cast<double>(mixed >> 11) / static_cast<double>(uint64_t{1} << 53) < share;
	};
}

inline void
set_bit(std::vector<uint8_t> *bits, size_t i)
{
	(*bits)[i / 8] = static_cast<uint8_t>((*bits)[i / 8] | 1u << i % 8);
}

/// Two segments and a delta, each with dead rows. Row ids are unique.
class PassingWorld
{
public:
	struct Sizes
	{
		size_t first = 20000;
		size_t second = 900;
		size_t delta = 300;
		uint32_t n_lists = 12;
		uint32_t n_probes = 2; // of the first segment, of queries that name probes
	};

	PassingWorld(const engine::CopySpec &copy_spec, Values values, const Sizes &sizes, uint32_t seed,
		CudaEngine *engine = cuda_engine())
		: engine_(engine), kind_(copy_spec.kind), n_lists_(sizes.n_lists), rng_(seed), spec_(copy_spec.distance),
		  delta_(spec_), probes_({{1, sizes.n_probes, 40}, {2, 1, 40}})
	{
		EXPECT_TRUE(engine_->create(copy_spec, &copy_).is_ok());
		add_segment(1, values, sizes.first, 1);
		add_segment(2, values, sizes.second, 1000001);
		add_values(&delta_, values, 20, sizes.delta, rng_, 2000001);
		EXPECT_TRUE(engine_->append_delta(copy_, 0, delta_.block()).is_ok());
	}

	~PassingWorld() { EXPECT_TRUE(engine_->drop(copy_).is_ok()); }
	PassingWorld(const PassingWorld &) = delete;
	PassingWorld &operator=(const PassingWorld &) = delete;

	/// About every seventh row of everything; those that were dead before live again.
	void kill_rows()
	{
		dead_.clear();
		for (const auto &[id, rows] : segments_)
			EXPECT_TRUE(engine_->set_tombstones(copy_, id, dead_bits(rows, 0, rows.n())).is_ok());
		EXPECT_TRUE(engine_->set_delta_tombstones(copy_, 16, dead_bits(delta_, 16, delta_.n())).is_ok());
	}

	void trim(uint64_t position)
	{
		EXPECT_TRUE(engine_->trim_delta(copy_, position).is_ok());
		trimmed_ = position;
	}

	/// delta_end: positions from it on fail.
	std::unique_ptr<Passing> passing(const Condition &condition, uint64_t delta_end) const
	{
		auto made = std::make_unique<Passing>();

		for (const auto &[id, rows] : segments_)
		{
			made->segments.push_back(passing_segment(id, rows, condition));
			made->n_rows += rows.n();
			made->n_pass += made->segments.back()->n_pass;
		}
		made->delta_first = trimmed_ / 8 * 8;
		made->delta_end = delta_end;
		made->delta_bits.resize((delta_end - made->delta_first + 7) / 8);
		for (uint64_t at = made->delta_first; at < delta_end; at++)
			if (condition(delta_.ids[at]))
			{
				set_bit(&made->delta_bits, at - made->delta_first);
				made->n_pass++;
			}
		made->n_rows += delta_end - made->delta_first;
		return made;
	}

	std::unique_ptr<Passing> passing(const Condition &condition) const { return passing(condition, delta_.n()); }

	/// By definition.
	std::vector<Neighbor> nearest(const SearchQuery &query) const
	{
		std::vector<Neighbor> all;

		for (const auto &[id, rows] : segments_)
		{
			const PassingSegment *const segment = query.passing == nullptr ? nullptr : query.passing->find(id);

			offer(query, rows, [&](size_t i) { return query.passing == nullptr || passes(*segment, i); }, &all);
		}
		offer(
			query, delta_,
			[&](size_t i)
			{
				const Passing *const passing = query.passing;

				return i >= trimmed_ &&
					(passing == nullptr ||
						(i >= passing->delta_first && i < passing->delta_end &&
							(passing->delta_bits[(i - passing->delta_first) / 8] >> (i - passing->delta_first) % 8 &
								1) != 0));
			},
			&all);
		std::sort(all.begin(), all.end(), engine::neighbor_less);
		all.resize(std::min(query.k, all.size()));
		return all;
	}

	/// Queries with conditions also get the coverage and the way that they must report, if the copy is on the device.
	void expect_right(std::vector<SearchQuery> queries)
	{
		std::vector<std::vector<Neighbor>> found;
		std::vector<Coverage> coverage(queries.size(), Coverage::kPart);
		std::vector<FilterWay> ways(queries.size(), FilterWay::kNone);

		for (size_t i = 0; i < queries.size(); i++)
		{
			queries[i].coverage = &coverage[i];
			queries[i].filter_way = &ways[i];
		}
		ASSERT_OK(engine_->search(copy_, queries, &found, nullptr));
		ASSERT_EQ(found.size(), queries.size());
		for (size_t i = 0; i < queries.size(); i++)
		{
			SCOPED_TRACE(testing::Message() << metric_name(spec_.metric) << ", query " << i << " of " << queries.size()
											<< ", k " << queries[i].k << ", way " << static_cast<int>(ways[i]));
			ASSERT_NO_FATAL_FAILURE(expect_same(found[i], nearest(queries[i])));
			EXPECT_EQ(coverage[i], Coverage::kAll);
			if (queries[i].passing != nullptr && kind_ != CopyKind::kHashedGraph)
			{
				EXPECT_EQ(ways[i], way_of(queries[i]));
			}
		}
	}

	/// Queries like rows, of which some continue after a row. Those of copies with a structure name few probes.
	std::vector<SearchQuery> batch(const std::vector<const Passing *> &passing, size_t n, size_t k)
	{
		std::vector<SearchQuery> queries;

		for (size_t i = 0; i < n; i++)
		{
			const Passing *const one = passing[i % passing.size()];
			SearchQuery query = {query_vector(i), k, false, {}};

			query.has_after = i % 5 == 4;
			query.passing = one;
			if (one != nullptr && kind_ != CopyKind::kRows && i % 3 != 0)
				query.probes = probes_;
			if (query.has_after)
			{
				SearchQuery first = query;

				first.k = 3;
				first.has_after = false;
				const std::vector<Neighbor> before = nearest(first);

				query.after = before.empty() ? Neighbor{0, 0} : before.back();
			}
			queries.push_back(query);
		}
		return queries;
	}

	/// True if the row lives and passes, and has this score.
	bool is_right(SearchQuery query, const Neighbor &neighbor) const
	{
		query.k = SIZE_MAX;
		for (const Neighbor &one : nearest(query))
			if (one.row == neighbor.row)
				return bits_of(one.score) == bits_of(neighbor.score);
		return false;
	}

	const void *query_vector(size_t i) const { return segments_.at(1).vector(i * 37 % segments_.at(1).n()); }
	const Rows &segment(SegmentId id) const { return segments_.at(id); }
	Rows &delta() { return delta_; }
	CudaEngine *engine() const { return engine_; }
	engine::CopyId copy() const { return copy_; }
	std::mt19937 &rng() { return rng_; }

private:
	static bool passes(const PassingSegment &segment, size_t i)
	{
		return segment.listed ? std::binary_search(segment.rows.begin(), segment.rows.end(), i)
							  : (segment.bits[i / 8] >> i % 8 & 1) != 0;
	}

	static std::shared_ptr<const PassingSegment> passing_segment(
		SegmentId id, const Rows &rows, const Condition &condition)
	{
		auto made = std::make_shared<PassingSegment>();

		made->segment = id;
		made->n_rows = rows.n();
		for (size_t i = 0; i < rows.n(); i++)
			if (condition(rows.ids[i]))
				made->rows.push_back(static_cast<uint32_t>(i));
		made->n_pass = made->rows.size();
		made->listed = made->n_pass <= rows.n() / engine::kFewOfRows;
		if (!made->listed)
		{
			made->bits.resize((rows.n() + 7) / 8);
			for (const uint32_t row : made->rows)
				set_bit(&made->bits, row);
			made->rows.clear();
		}
		return made;
	}

	FilterWay way_of(const SearchQuery &query) const
	{
		const uint64_t k = std::min<uint64_t>(query.k, query.passing->n_pass);
		const bool listed = std::all_of(query.passing->segments.begin(), query.passing->segments.end(),
			[](const auto &segment) { return segment->listed; });

		return k == 0 || (listed && k <= kernels::kMaxSelectK) ? FilterWay::kList : FilterWay::kMask;
	}

	template <class Passes>
	void offer(const SearchQuery &query, const Rows &rows, const Passes &passes, std::vector<Neighbor> *all) const
	{
		for (size_t i = 0; i < rows.n(); i++)
		{
			if (!passes(i) || dead_.contains(rows.ids[i]))
				continue;

			Neighbor candidate = {0, rows.ids[i]};

			engine::compute_scores(spec_, query.query, rows.vector(i), rows.row_bytes, 1, &candidate.score, 0);
			if (!query.has_after || engine::neighbor_less(query.after, candidate))
				all->push_back(candidate);
		}
	}

	std::vector<uint8_t> dead_bits(const Rows &rows, size_t first, size_t end)
	{
		std::vector<uint8_t> bits((end - first + 7) / 8);

		for (size_t i = first + rng_() % 7; i < end; i += 1 + rng_() % 13)
		{
			set_bit(&bits, i - first);
			dead_.insert(rows.ids[i]);
		}
		return bits;
	}

	void add_segment(SegmentId id, Values values, size_t n, RowId first_id)
	{
		constexpr uint32_t kDegree = 8;
		Rows &rows = segments_.try_emplace(id, spec_).first->second;
		Status status;

		add_values(&rows, values, 20, n, rng_, first_id);
		if (kind_ == CopyKind::kRows)
		{
			status = engine_->load_segment(copy_, id, rows.block());
			EXPECT_TRUE(engine_->seal_segment(copy_, id).is_ok());
		}
		else if (kind_ == CopyKind::kLists)
			status = engine::test::ListRows(rows, n_lists_, rng_).load(engine_, copy_, id);
		else if (kind_ == CopyKind::kCodedLists)
			status = engine::test::CodedRows(engine::test::ListRows(rows, n_lists_, rng_),
				id % 2 == 0 ? engine::ivf::CodeKind::kRabitq : engine::ivf::CodeKind::kHalves, 0, id % 2 == 0 ? 4 : 0)
						 .load_coded(engine_, copy_, id);
		else
		{
			engine::test::GraphedRows graph(rows, kDegree, 1, engine::test::Edges::kRandom);

			if (kind_ == CopyKind::kHashedGraph)
				graph.add_codes(64);
			status = graph.load(engine_, copy_, id);
		}
		EXPECT_TRUE(status.is_ok()) << status.message;
	}

	CudaEngine *const engine_;
	const CopyKind kind_;
	const uint32_t n_lists_;
	std::mt19937 rng_;
	const DistanceSpec spec_;
	engine::CopyId copy_ = 0;
	std::map<SegmentId, Rows> segments_;
	Rows delta_;
	std::unordered_set<RowId> dead_;
	uint64_t trimmed_ = 0;
	const std::vector<SegmentProbes> probes_;
};

} // namespace vectorgpu::cuda::test
