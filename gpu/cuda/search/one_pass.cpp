// See one_pass.hpp.
#include "cuda/search/one_pass.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <mutex>
#include <string>

#include "cuda/search/answers.hpp"
#include "cuda/device/arena.hpp"
#include "cuda/device/staging.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/filter/one_pass.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;
using std::chrono::steady_clock;

/// Of all engines of the process that use this device, or another with the same remainder.
std::mutex &
one_at_a_time(int device)
{
	static std::array<std::mutex, 16> mutexes;

	return mutexes[static_cast<size_t>(device) % mutexes.size()];
}

/// The snapshot's sources one behind the other, if one kernel can take them all.
bool
join_parts(const engine::DistanceSpec &spec, const Snapshot &snapshot, kernels::RowParts *parts, uint32_t *n_tiles,
	double *max_norm)
{
	constexpr uint64_t kMostTiles = uint64_t{1} << 24; // numbers of rows are 32 bits

	if ((spec.metric != Metric::kL2 && spec.metric != Metric::kInnerProduct) || spec.element != ElementType::kFloat32 ||
		snapshot.sources.empty() || snapshot.sources.size() > kernels::kMostParts)
		return false;

	uint64_t tiles = 0;

	for (const Source &source : snapshot.sources)
	{
		if (source.block->form != Form::kByte || !source.filterable || source.n_untrusted > 0 || source.n_rows == 0 ||
			tiles >= kMostTiles)
			return false;
		parts->rows[parts->n] = source.rows();
		parts->values[parts->n] = source.block->values.as<float>() + source.first;
		parts->first_row[parts->n] = static_cast<uint32_t>(tiles * kernels::kFilterTileRows);
		parts->n++;
		tiles += (source.n_rows + kernels::kFilterTileRows - 1) / kernels::kFilterTileRows;
		*max_norm = std::max(*max_norm, source.max_norm);
	}
	*n_tiles = static_cast<uint32_t>(tiles);
	return tiles <= kMostTiles;
}

/// The queries' bytes and what else the kernel reads; false if one is not of bytes.
bool
stage(const engine::DistanceSpec &spec, std::span<const engine::SearchQuery> queries, std::span<const uint32_t> numbers,
	uint64_t n_rows, size_t pitch, uint8_t *bytes, kernels::OnePassQuery *heads)
{
	constexpr size_t kBytesAhead = 4096; // as many as a core can ask memory for while it makes bytes of others
	const size_t n_ahead = std::max<size_t>(1, kBytesAhead / (spec.dim * sizeof(float)));

	for (size_t i = 0; i < numbers.size(); i++)
	{
		const engine::SearchQuery &query = queries[numbers[i]];
		const size_t next = std::min(i + n_ahead, numbers.size() - 1);
		uint8_t *to = bytes + i * pitch;
		int32_t squares = 0;

		if (!put_bytes(static_cast<const float *>(query.query), spec.dim, to, &squares,
				static_cast<const float *>(queries[numbers[next]].query)))
			return false;
		std::fill(to + spec.dim, to + pitch, uint8_t{0});
		heads[i] = {
			std::sqrt(static_cast<double>(squares)), static_cast<uint32_t>(std::min<uint64_t>(query.k, n_rows))};
	}
	return true;
}

/// All that is on the stream, whatever came before.
Status
drained(const SearchContext &context, const Status &status)
{
	const Status ended = context.stream.synchronize();

	return status.is_ok() ? ended : status;
}

} // namespace

Status
search_one_pass(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const Snapshot &snapshot, std::span<const engine::SearchQuery> queries, std::span<const uint32_t> numbers,
	const SearchOptions &options, std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts,
	std::vector<uint32_t> *redo, bool *taken)
{
	const size_t n = numbers.size();
	const size_t pitch = kernels::filter_operand_bytes(Form::kByte, shape.dim_pad);
	const cudaStream_t stream = context->stream.get();
	kernels::OnePassArgs args;
	uint32_t n_tiles = 0;
	double max_norm = 0;

	const auto begun = steady_clock::now();

	*taken = false;
	if (options.one_pass == nullptr || n < options.filter_min_queries ||
		begun < options.one_pass->not_before.load(std::memory_order_relaxed))
		return Status::ok();

	uint32_t max_k = 0;

	for (const uint32_t number : numbers)
	{
		if (queries[number].has_after)
			return Status::ok();
		max_k = std::max(max_k, static_cast<uint32_t>(std::min<uint64_t>(queries[number].k, snapshot.n_rows)));
	}
	if (n == 0 || n > kernels::kOnePassMostQueries || max_k > kernels::kFinishMostK ||
		snapshot.n_rows < kernels::kFilterLeastRows || snapshot.n_rows / kernels::kFilterLeastRowsPerK < max_k ||
		!join_parts(spec, snapshot, &args.parts, &n_tiles, &max_norm))
		return Status::ok();

	args.n_queries = static_cast<uint32_t>(n);

	OnePassTrace *const trace = options.one_pass->trace;
	const kernels::OnePassPlan plan =
		kernels::plan_one_pass(args.n_queries, shape.dim_pad, n_tiles, options.one_pass->tuning);

	// A block finishes a query with so many candidates, and a random order of rows is not certain.
	if (plan.n_blocks == 0 || uint64_t{max_k} * n_tiles / plan.n_sampled * 2 + 1024 > kernels::kFinishMostCandidates)
		return Status::ok();

	Arena host(context->pinned_in.as<uint8_t>(), context->pinned_in.bytes());
	Arena arena(context->workspace.get(), context->workspace.bytes());
	uint8_t *bytes = host.take<uint8_t>(n * pitch);
	kernels::OnePassQuery *heads = host.take<kernels::OnePassQuery>(n);

	args.metric = spec.metric;
	args.dim_pad = shape.dim_pad;
	args.bound = kernels::filter_bound(spec.metric, Form::kByte, spec.dim, max_norm);
	args.host_bytes = bytes;
	args.host_queries = heads;
	args.operand = arena.take<uint8_t>(n * pitch);
	args.k = arena.take<uint32_t>(n);
	args.norms = arena.take<double>(n);
	args.minima = arena.take<float>(n * plan.n_minima);
	args.thresholds = arena.take<float>(n);
	args.candidates.capacity = kernels::kFinishMostCandidates;
	args.candidates.rows = arena.take<uint32_t>(n * args.candidates.capacity);
	args.candidates.estimates = arena.take<float>(n * args.candidates.capacity);
	args.candidates.counts = arena.take<uint32_t>(n);
	if (arena.failed() || host.failed() || !stage(spec, queries, numbers, snapshot.n_rows, pitch, bytes, heads))
		return Status::ok();

	const std::unique_lock alone(one_at_a_time(device->ordinal()), std::try_to_lock);

	if (!alone.owns_lock())
		return Status::ok();

	args.answers = begin_answers(context, n, max_k);
	if (args.answers.heads == nullptr)
		return Status::ok();
	args.counters.counters = context->counters.as<uint32_t>();
	std::copy(std::begin(context->counted), std::end(context->counted), args.counters.before);
	args.counters.launch = args.answers.mark;
	args.counters.most_looks = device->armed() && device->fault("gpu_give_up") ? 0 : options.one_pass->most_looks;
	args.counters.given_up = context->given_up.as<uint32_t>();
	if (trace != nullptr)
	{
		trace->begun = begun;
		trace->staged = steady_clock::now();
		trace->n_blocks = plan.n_blocks;
		args.stamps = trace->stamps;
	}

	NewRows new_rows(options.lane, stream);

	VECTORGPU_TRY(new_rows.await(snapshot.sources.back().ticket)); // the delta comes last
	VECTORGPU_TRY(device->check(kernels::launch_one_pass(args, plan, stream), "filter rows in one pass"));
	if (trace != nullptr)
		trace->launched = steady_clock::now();
	context->counted[0] += kernels::one_pass_taken_over(args.n_queries, args.dim_pad);
	context->counted[1] += plan.n_blocks;
	context->counted[2] += kernels::one_pass_thresholds(args.n_queries);
	context->counted[3] += plan.n_blocks;
	context->counted[4] += plan.n_shared;
	*taken = true;

	const size_t n_redo = redo->size();
	const Status status = end_answers(device, context, args.answers, numbers, results, counts, redo);

	if (trace != nullptr)
		trace->answered = steady_clock::now();

	// While a launch whose blocks wait for each other may be on the device, there must be no other.
	if (!status.is_ok())
		return device->fatal() ? status : drained(*context, status);
	new_rows.has_run();
	if (*args.counters.given_up == args.answers.mark) // which was written before the marks that end_answers has seen
	{
		options.one_pass->not_before.store(steady_clock::now() + options.one_pass->pause, std::memory_order_relaxed);
		device->log(("a search in one pass was given up, since others use the GPU: there will be none for " +
			std::to_string(options.one_pass->pause.count()) + " ms")
				.c_str());
		counts->n_given_up += n;
		redo->resize(n_redo);
		for (const uint32_t number : numbers)
			(*results)[number].clear();
		*taken = false;
		return Status::ok();
	}
	counts->n_one_pass += n;
	return Status::ok();
}

} // namespace vectorgpu::cuda
