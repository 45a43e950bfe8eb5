// See list_ways.hpp. Only what has been measured is chosen: queries without `after` over rows in device memory, without
// codes, that the filter of exact searches takes.
#include "cuda/search/list_ways.hpp"

#include <algorithm>
#include <utility>

#include "cuda/device/list_choice.hpp"
#include "cuda/device/staging.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/filter_plan.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::SearchQuery;
using kernels::Form;

bool
wants_the_same(const SearchQuery &a, const SearchQuery &b)
{
	return a.k == b.k && a.has_after == b.has_after &&
		std::equal(a.probes.begin(), a.probes.end(), b.probes.begin(), b.probes.end(),
			[](const engine::SegmentProbes &x, const engine::SegmentProbes &y)
			{ return x.segment == y.segment && x.probes == y.probes; });
}

bool
is_by_dot(Metric metric)
{
	return metric == Metric::kL2 || metric == Metric::kInnerProduct;
}

/// True if the model covers a pass over the source. n_before: rows of the sources before it.
bool
is_measured(const SearchCall &call, const Source &source, uint64_t n_before, uint32_t n_queries, uint32_t k)
{
	const DeviceLists &lists = *source.lists;
	const Form form = source.block->form;
	const bool fits = form == Form::kByte ? is_by_dot(call.spec.metric) : form == own_form(call.spec.element);

	return fits && form != Form::kBit && lists.with_vectors && lists.codes == nullptr && lists.n_lists() > 0 &&
		!source.block->on_host() && filter_pays(source, n_before, n_queries, k);
}

ListChoice
choice_of(const Source &source, const SearchQuery &query, uint32_t dim, uint32_t n_queries, uint32_t k)
{
	const kernels::Rows pass = source.filter_rows(n_queries, k);
	ListChoice choice;

	choice.n_rows = source.n_rows;
	choice.dim = dim;
	choice.n_lists = source.lists->n_lists();
	choice.probes = expected_probes(source, query);
	choice.row_bytes = source.block->pitch_bytes;
	choice.narrow_bytes = source.bins_rows().pitch_bytes;
	choice.pass_bytes = pass.pitch_bytes;
	choice.is_scaled = pass.form == Form::kScaled;
	choice.is_byte = source.block->form == Form::kByte;
	return choice;
}

} // namespace

double
expected_probes(const Source &source, const SearchQuery &query)
{
	const uint32_t n_lists = source.lists->n_lists();
	const uint32_t named = engine::probes_of(query.probes, source.segment, n_lists);

	return source.cut.n_pass != nullptr && named < n_lists ? named / kMoreToChooseFrom : named;
}

ListChooser::ListChooser(const SearchCall &call, bool masked) : call_(call), masked_(masked)
{
	for (const Source &source : call.snapshot.sources)
	{
		const bool is_byte = source.block->form == Form::kByte;

		any_bytes_ = any_bytes_ || is_byte;
		all_bytes_ = all_bytes_ && is_byte;
	}
}

bool
ListChooser::scores_all(const SearchQuery &query, const SearchQuery &ahead)
{
	if (!call_.options.list_choice || query.probes.empty())
		return false;
	if (last_ == nullptr || !wants_the_same(*last_, query)) // mostly all queries of a batch want the same
	{
		last_ = &query;
		last_scores_all_ = choose(query);
	}
	return last_scores_all_ && (!any_bytes_ || is_bytes(call_.spec, query, ahead, &bytes_));
}

/// If some rows' elements are bytes, so are the query's.
bool
ListChooser::choose(const SearchQuery &query) const
{
	const SearchOptions &options = call_.options;
	const auto k = static_cast<uint32_t>(std::min<uint64_t>(query.k, kernels::kMaxSelectK + 1));
	ListChoices choices;
	uint64_t n_before = 0;
	ListPass pass;

	// Without searches in one pass the device is none of those that were measured. Bytes with conditions are packed
	// where a pass is faster (../passing).
	if (options.one_pass == nullptr || query.has_after || k == 0 || k > kernels::kMaxSelectK ||
		call_.spec.metric == Metric::kL1 || (masked_ && any_bytes_))
		return false;
	for (const Source &source : call_.snapshot.sources)
	{
		if (source.lists != nullptr && source.n_rows > 0)
		{
			if (!is_measured(call_, source, n_before, kChoiceOne, k) ||
				!is_measured(call_, source, n_before, kChoiceMany, k))
				return false;
			for (const auto &[n_queries, chosen] :
				{std::pair{kChoiceOne, &choices.one}, {kChoiceMany, &choices.many}, {kChoiceLarge, &choices.large}})
				chosen->push_back(choice_of(source, query, call_.spec.dim, n_queries, k));
		}
		n_before += source.n_rows;
	}

	// The conditions of search_one_pass.
	pass.k = k;
	pass.one_launch = all_bytes_ && is_by_dot(call_.spec.metric) && k <= kernels::kFinishMostK &&
		call_.snapshot.sources.size() <= kernels::kMostParts;
	pass.masked = masked_;
	return !choices.one.empty() && choose_pass(choices, pass);
}

} // namespace vectorgpu::cuda
