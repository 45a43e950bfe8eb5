// Candidates of a search in one pass: a block writes them to memory, and in the end cuts, scores and sorts those of a
// query and writes the answer to the host.
#pragma once

#include "kernels/canonical/finish.cuh"
#include "kernels/filter/filter_sums.cuh"
#include "kernels/filter/one_pass_pipeline.cuh"

namespace vectorgpu::kernels
{

/// Write a candidate's estimate to memory, unless it is dead. row: its number.
__device__ __forceinline__ void
pass_on_part(const OnePassArgs &args, const Staged &candidate, const float *thresholds)
{
	const uint32_t part = part_of(args.parts, candidate.row);
	const uint32_t row = candidate.row - args.parts.first_row[part];

	if (row_is_dead(args.parts.rows[part], row))
		return;
	append(args.candidates.counts, args.candidates.rows, args.candidates.estimates, args.candidates.capacity,
		candidate.query, candidate.row,
		estimate_of<Form::kByte>(
			static_cast<int>(candidate.sum), thresholds[candidate.query], __ldg(args.parts.values[part] + row), false));
}

/// Times at which finish_few reaches its steps.
struct FinishStamps
{
	const OnePassStamps &stamps;

	__device__ __forceinline__ void at(OnePassStamps::What what) const { stamp_once(stamps, what); }
	__device__ __forceinline__ void cut() const { at(OnePassStamps::kCut); }
	__device__ __forceinline__ void scored() const { at(OnePassStamps::kScored); }
	__device__ __forceinline__ void sorted() const { at(OnePassStamps::kSorted); }
};

/// Finish a query, by the threads that multiply, once all blocks have passed on their candidates (finish.cuh). operand:
/// the block's, in the layout of the copies. is_whole: all candidates are there; else the query has no answer.
/// is_exact: estimates are scores except for a term that depends on the query alone.
template <class Shape>
__device__ __forceinline__ void
finish_query(const OnePassArgs &args, bool is_whole, bool is_exact, bool ranked, uint32_t query, uint32_t k,
	double norm, float threshold, const unsigned char *operand, FinishScratch *scratch)
{
	const FinishStamps stamps{args.stamps};
	FewCandidates candidates;
	FewFound found;
	auto place_of = [&](uint32_t number, const Rows **rows)
	{
		const uint32_t part = part_of(args.parts, number);

		*rows = args.parts.rows + part;
		return number - args.parts.first_row[part];
	};
	auto query_at = [&](uint32_t e)
	{
		const uint32_t unit = e % kChunkBytes / 16 ^ query % 8;

		return static_cast<float>(
			operand[(e / kChunkBytes * Shape::kQueries + query) * kChunkBytes + unit * 16 + e % 16]);
	};
	auto key_of = [&](double score, const Rows &rows, uint32_t row)
	{ return key_after(score, Queries{}, query, rows.row_ids, row); };
	auto finish = [&]<Metric metric>()
	{
		if (is_exact)
		{
			const double squares =
				metric == Metric::kL2 ? rint(norm * norm) : 0.0; // norm is the root of a whole number
			auto score_of = [&](float estimate)
			{ return metric == Metric::kL2 ? squares + 2.0 * estimate : estimate + 0.0; };

			return finish_exact<Consumers>(candidates, place_of, score_of, ranked, scratch, &found, stamps);
		}
		return finish_few<metric, ByteForm, Consumers>(
			args.bound, candidates, args.dim_pad, [] { return 0.0f; }, place_of, query_at, key_of, scratch, &found,
			stamps);
	};

	candidates.k = k;
	candidates.count = __ldcg(args.candidates.counts + query);
	candidates.rows = args.candidates.rows + static_cast<size_t>(query) * args.candidates.capacity;
	candidates.estimates = args.candidates.estimates + static_cast<size_t>(query) * args.candidates.capacity;
	candidates.threshold = threshold;
	candidates.size = norm;

	const bool few = is_whole && candidates.count <= min(args.candidates.capacity, kFewCandidates) &&
		(args.metric == Metric::kL2 ? finish.template operator()<Metric::kL2>()
									: finish.template operator()<Metric::kInnerProduct>());

	give_answer<Consumers>(
		args.answers, query, scratch->entries, few ? found.n_found : 0, few ? found.n_kept : 0, !few);
	stamps.at(OnePassStamps::kAnswered);
}

} // namespace vectorgpu::kernels
