// Two segments of lists with codes, of one of two kinds of copy (kCodedLists, kCodes), in both engines. Shared by the
// tests of both.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/coded_rows.hpp"
#include "engines.hpp"

namespace vectorgpu::cuda::test
{

using engine::CopyKind;
using engine::Coverage;
using engine::SegmentProbes;
using engine::ivf::CodeKind;

struct CodesCase
{
	CodeKind kind;
	uint32_t pq_m;
	uint32_t bits; // of a part of kPq, of a dimension of kRabitq
	bool opq;
};

/// Parts of codes and rotated rows have no distances by L1.
inline bool
exists(Metric metric, const CodesCase &codes)
{
	return metric != Metric::kL1 || (codes.kind != CodeKind::kPq && codes.kind != CodeKind::kRabitq);
}

/// Two segments and a delta.
struct CodedSegments
{
	static constexpr uint32_t kLists = 30;
	static constexpr uint32_t kFewLists = 7;

	/// Queries, which point to their probes and to where their coverage is written.
	struct Batch
	{
		explicit Batch(size_t n) : named(n), coverage(n, Coverage::kAll) {}
		Batch(Batch &&) = default;
		Batch(const Batch &) = delete;
		Batch &operator=(const Batch &) = delete;

		std::vector<SearchQuery> queries;
		std::vector<std::array<SegmentProbes, 2>> named;
		std::vector<Coverage> coverage;
	};

	/// twins: every fourth row repeats the one before it, so that estimates are equal.
	CodedSegments(const DistanceSpec &spec, CopyKind kind, const CodesCase &codes, bool twins, uint32_t seed,
		size_t n_rows, Data data)
		: rng(seed), first(coded(spec, codes, twins, n_rows, kLists, 1, data)),
		  second(coded(spec, codes, twins, 333, kFewLists, 1000001, data)), delta(spec),
		  both(engine::CopySpec(spec, kind))
	{
		delta.add_random(60, data, rng, 2000001);
		both.change([&](Engine &e, CopyId c) { return first.load_as(kind, &e, c, 1); });
		both.change([&](Engine &e, CopyId c) { return second.load_as(kind, &e, c, 2); });
		both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); });
	}

	CodedRows coded(const DistanceSpec &spec, const CodesCase &codes, bool twins, size_t n, uint32_t n_lists,
		RowId first_id, Data data)
	{
		Rows rows(spec);

		rows.add_random(n, data, rng, first_id);
		for (size_t i = 3; i < n && twins; i += 4)
			std::memcpy(rows.vectors.data() + i * rows.row_bytes, rows.vector(i - 1), rows.row_bytes);
		return CodedRows(
			ListRows(rows, n_lists, rng), codes.kind, std::min(codes.pq_m, spec.dim), codes.bits, codes.opq);
	}

	/// n queries with other k, probes and candidates each; some look at all lists of a segment.
	Batch make_batch(const Rows &queries, size_t n, size_t k, uint32_t most_probes, uint32_t candidates) const
	{
		Batch batch(n);

		for (size_t i = 0; i < n; i++)
		{
			const uint32_t divisor = 1 + static_cast<uint32_t>(i % 3);
			SearchQuery query = {queries.vector(i % queries.n()), std::max<size_t>(1, k - i % 2), false, {}};

			batch.named[i] = {SegmentProbes{1, std::max(1u, most_probes / divisor), std::max(1u, candidates / divisor)},
				SegmentProbes{2, i % 5 == 3 ? kFewLists : std::max(1u, most_probes / 4), candidates}};
			query.probes = batch.named[i];
			query.coverage = &batch.coverage[i];
			batch.queries.push_back(query);
		}
		return batch;
	}

	/// The description of such a batch in a failure.
	testing::Message about(size_t n, size_t k, uint32_t most_probes, uint32_t candidates) const
	{
		return testing::Message() << metric_name(first.rows.spec.metric) << " element "
								  << static_cast<int>(first.rows.spec.element) << " dim " << first.rows.spec.dim
								  << " codes " << static_cast<int>(first.spec.kind) << " m " << first.spec.pq.m
								  << " bits " << first.spec.pq.bits + first.spec.bits << " batch " << n << " k " << k
								  << " probes " << most_probes << " candidates " << candidates;
	}

	std::mt19937 rng;
	CodedRows first;
	CodedRows second;
	Rows delta;
	Both both;
};

} // namespace vectorgpu::cuda::test
