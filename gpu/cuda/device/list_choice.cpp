// See list_choice.hpp. Measurements (one H200; gpu_search_bench, gpu_ivf_bench, gpu_passing_bench; test/gpu/REPORT*.md,
// kernels/ivf/README.md), microseconds, k = 10:
//   a pass, batches of           1       8      16      64
//   SIFT, bytes              60 (62) 65 (66) 71 (71) 98 (100)
//   fashion-mnist, bytes     36 (38) 42 (42) 49 (47) 72 (76)
//   SIFT, float32            78 (64) 86 (88) 91 (92) 109 (112)
//   arXiv, float32, cosine   48 (48) 49 (53) 52 (56) 72 (70)
// and lists of 894,717 rows, probes of 1,024 (float32) or 30 of 945 (bytes):
//   float32, 16, 32 probes   41, 44 (42, 46)   63, 79 (58, 74)       218, 239 (216, 243)
//   float32, 64 probes           52 (53)          110 (105)              258 (256)
//   bytes                        40 (40)   47 (42, of 7)   55 (51)   97 (98)
// In brackets what this gives, without the costs of rows in the order of lists. Those are of gpu_list_choice_bench, all
// rows of such a copy:
//   a pass, batches of           1       8      16      64     256
//   SIFT, bytes              73 (73)   91    103 (102)  271  1126 (1199)
//   SIFT, float32            87 (88)  284     99 (99)   137  1304 (1199)
//   arXiv, float32, L2       53 (52)   57     62 (57)    98   196 (227)
#include "cuda/device/list_choice.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/device/gpu_choice.hpp"

namespace vectorgpu::cuda
{
namespace
{

/// Lists that each query reads by itself, in two launches a segment.
struct FewLists
{
	double start_us;
	double query_us;
	double bytes_us_of_one; // bytes in a microsecond, read for one query ...
	double bytes_us;        // ... and for all of a batch, at most
};

constexpr FewLists kFewReals = {38, .6, 2.0e6, 3.7e6};
constexpr FewLists kFewBytes = {36, .35, 1.0e6, 5.9e6};
constexpr double kMaskedListsUs = 2.5; // with conditions

// The chain of launches, which reads a list once for all of its queries.
constexpr double kChainUs = 80;
constexpr double kChainQueryUs = 1; // each of the first kChainQueries queries, ...
constexpr double kChainQueries = 64;
constexpr double kChainMoreUs = .45; // ... and each further one
constexpr double kChainBytesUs = 2.0e6;

// A pass over bytes in one launch; over bytes otherwise; over other rows.
constexpr double kOneLaunchUs = 21;
constexpr double kOneLaunchLeastUs = 28;
constexpr double kOneLaunchQueryUs = .6;
constexpr double kOneLaunchBytesUs = 2.85e6;
constexpr double kLaunchesUs = 8; // more than that
constexpr double kPassUs = 31;
constexpr double kPassQueryUs = .2;
constexpr double kPassDimUs = .02;   // of a dimension: longer rows are scored
constexpr double kScaledUs = 6;      // rows rounded to bytes: more of them are
constexpr double kOrderedUs = 12e-6; // of a row in the order of lists: the nearest ones lie together, and more of them
constexpr double kOrderedScaledUs = 27e-6; // are scored; of one rounded to bytes; ...
constexpr double kOrderedQueryUs = 1.2e-6; // ... of bytes, for each query
constexpr double kOrderedLargeUs = 5.1e-6; // at least, of a row and a query, in batches of kChoiceLarge and more
constexpr double kProductsUs = 5e8;        // of a query, a row and a dimension, in a microsecond
constexpr double kSegmentUs = 18;          // each segment but the first
constexpr double kKeptBytes = 24e6;        // of the first segment stay in L2 from one batch to the next
constexpr double kKeptBytesUs = 1e7;       // read from there
constexpr double kBytesUs = 4.2e6;
constexpr double kMaskedFactor = 1.05; // looking at bits of rows that pass the threshold, and more of these

/// What a search takes outside of the engine, from SQL.
constexpr double kOutsideUs = 42;

// Lists stay unless a pass is faster by this factor for clients together, and keeps one alone waiting no longer than
// this. arXiv at .98 takes one client 6 % longer, and gives 64 clients more than twice the rate.
constexpr double kBatchMargin = 1.05;
constexpr double kAloneMargin = 1.1;

} // namespace

double
lists_us(std::span<const ListChoice> segments, uint32_t n_queries, bool masked)
{
	const double n = n_queries;
	double few = 0;
	double chain =
		kChainUs + kChainQueryUs * std::min(n, kChainQueries) + kChainMoreUs * std::max(n - kChainQueries, 0.0);

	for (const ListChoice &segment : segments)
	{
		const FewLists &cost = segment.is_byte ? kFewBytes : kFewReals;
		const double rows = static_cast<double>(segment.n_rows);
		const double share = segment.n_lists > 0 ? std::min(segment.probes / segment.n_lists, 1.0) : 1;

		few += cost.start_us + n * cost.query_us +
			n * share * rows * segment.row_bytes / std::min(n * cost.bytes_us_of_one, cost.bytes_us);
		chain += (1 - std::exp(-n * share)) * rows * segment.narrow_bytes / kChainBytesUs;
	}
	return std::min(few, chain) + (masked ? kMaskedListsUs : 0);
}

double
list_pass_us(std::span<const ListChoice> segments, uint32_t n_queries, const ListPass &pass)
{
	const double n = n_queries;
	double bytes = 0;
	double products = 0;
	double dim = 0;
	double first = 0; // bytes of the first segment
	double all_rows = 0;
	bool all_bytes = true;
	bool any_scaled = false;

	for (const ListChoice &segment : segments)
	{
		const double rows = static_cast<double>(segment.n_rows);

		all_rows += rows;
		bytes += rows * segment.pass_bytes;
		first = first == 0 ? bytes : first;
		products += n * rows * segment.dim;
		dim = segment.dim;
		all_bytes = all_bytes && segment.is_byte;
		any_scaled = any_scaled || segment.is_scaled;
	}

	double us = 0;

	if (all_bytes)
		us = std::max(kOneLaunchUs + bytes / kOneLaunchBytesUs, kOneLaunchLeastUs) + n * kOneLaunchQueryUs +
			(pass.one_launch ? 0 : kLaunchesUs);
	else
	{
		const double kept = std::min(first, kKeptBytes);

		us = kPassUs + n * kPassQueryUs + dim * kPassDimUs + (any_scaled ? kScaledUs : 0) + products / kProductsUs +
			kept / kKeptBytesUs + (bytes - kept) / kBytesUs;
	}
	if (!all_bytes || !pass.one_launch)
		us += kSegmentUs * static_cast<double>(std::max<size_t>(segments.size(), 1) - 1);
	us += all_rows * ((any_scaled ? kOrderedScaledUs : kOrderedUs) + (all_bytes ? n * kOrderedQueryUs : 0));
	if (n_queries >= kChoiceLarge)
		us = kPassUs + std::max(n * all_rows * kOrderedLargeUs, products / kProductsUs + bytes / kBytesUs); // wide rows
	return us * (pass.masked ? kMaskedFactor : 1) + more_results_us(pass.k);
}

bool
choose_pass(const ListChoices &choices, const ListPass &pass)
{
	return kOutsideUs + list_pass_us(choices.one, kChoiceOne, pass) <=
		kAloneMargin * (kOutsideUs + lists_us(choices.one, kChoiceOne, pass.masked)) &&
		kBatchMargin * list_pass_us(choices.many, kChoiceMany, pass) <=
		lists_us(choices.many, kChoiceMany, pass.masked) &&
		list_pass_us(choices.large, kChoiceLarge, pass) <= lists_us(choices.large, kChoiceLarge, pass.masked);
}

} // namespace vectorgpu::cuda
