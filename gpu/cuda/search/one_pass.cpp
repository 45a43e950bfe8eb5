// See one_pass.hpp.
#include "cuda/search/one_pass.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <mutex>
#include <string>

#include "cuda/device/arena.hpp"
#include "cuda/device/staging.hpp"
#include "cuda/search/answers.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/filter/one_pass.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;
using std::chrono::steady_clock;

/// Shared by all engines of the process that use this device (or one whose ordinal has the same remainder).
std::mutex &
one_at_a_time(int device)
{
	static std::array<std::mutex, 16> mutexes;

	return mutexes[static_cast<size_t>(device) % mutexes.size()];
}

/// Lists the snapshot's sources for one kernel; false if one kernel cannot take them all.
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

/// The queries' bytes [n, pitch], and heads [n]; false if a query is not of bytes.
bool
stage_bytes(const SearchCall &call, std::span<const uint32_t> numbers, size_t pitch, uint8_t *bytes,
	kernels::OnePassQuery *heads)
{
	constexpr size_t kBytesAhead = 4096; // that a core can fetch while it converts other queries
	const uint32_t dim = call.spec.dim;
	const size_t n_ahead = std::max<size_t>(1, kBytesAhead / (dim * sizeof(float)));

	for (size_t i = 0; i < numbers.size(); i++)
	{
		const size_t next = std::min(i + n_ahead, numbers.size() - 1);
		uint8_t *to = bytes + i * pitch;
		int32_t squares = 0;

		if (!put_bytes(static_cast<const float *>(call.queries[numbers[i]].query), dim, to, &squares,
				static_cast<const float *>(call.queries[numbers[next]].query)))
			return false;
		std::fill(to + dim, to + pitch, uint8_t{0});
		heads[i] = {std::sqrt(static_cast<double>(squares)), static_cast<uint32_t>(call.k_of(numbers[i]))};
	}
	return true;
}

/// A search in one pass, in the order of its functions.
class OnePass
{
public:
	OnePass(const SearchCall &call, std::span<const uint32_t> numbers)
		: call_(call), use_(*call.options.one_pass), numbers_(numbers), begun_(steady_clock::now())
	{
	}

	/// True if this way is open for the batch. Plans the launch.
	bool plan()
	{
		const Snapshot &snapshot = call_.snapshot;
		const size_t n = numbers_.size();
		uint32_t n_tiles = 0;
		double max_norm = 0;

		if (n < call_.options.filter_min_queries || begun_ < use_.not_before.load(std::memory_order_relaxed))
			return false;
		for (const uint32_t number : numbers_)
		{
			if (call_.queries[number].has_after)
				return false;
			max_k_ = std::max(max_k_, static_cast<uint32_t>(call_.k_of(number)));
		}
		if (n == 0 || n > kernels::kOnePassMostQueries || max_k_ > kernels::kFinishMostK ||
			snapshot.n_rows < kernels::kFilterLeastRows || snapshot.n_rows / kernels::kFilterLeastRowsPerK < max_k_ ||
			!join_parts(call_.spec, snapshot, &args_.parts, &n_tiles, &max_norm))
			return false;
		args_.metric = call_.spec.metric;
		args_.dim_pad = call_.shape.dim_pad;
		args_.n_queries = static_cast<uint32_t>(n);
		args_.bound =
			kernels::filter_bound(call_.spec.metric, call_.spec.dim, {.form = Form::kByte, .max_norm = max_norm});
		plan_ = kernels::plan_one_pass(args_.n_queries, call_.shape.dim_pad, n_tiles, use_.tuning);

		// A block finishes a query with up to kFinishMostCandidates candidates. The order of rows need not be random,
		// so that there must be room for twice as many as a random order gives.
		return plan_.n_blocks != 0 &&
			uint64_t{max_k_} * n_tiles / plan_.n_sampled * 2 + kSpareCandidates <= kernels::kFinishMostCandidates;
	}

	/// Room on both sides, and the queries' bytes. False if there is too little, or a query is not of bytes.
	bool stage()
	{
		const SearchContext &context = *call_.context;
		const size_t n = numbers_.size();
		const size_t pitch = kernels::filter_operand_bytes(Form::kByte, call_.shape.dim_pad);
		Arena host(context.pinned_in.as<uint8_t>(), context.pinned_in.bytes());
		Arena arena(context.workspace.get(), context.workspace.bytes());
		uint8_t *bytes = host.take<uint8_t>(n * pitch);
		kernels::OnePassQuery *heads = host.take<kernels::OnePassQuery>(n);

		args_.host_bytes = bytes;
		args_.host_queries = heads;
		args_.operand = arena.take<uint8_t>(n * pitch);
		args_.k = arena.take<uint32_t>(n);
		args_.norms = arena.take<double>(n);
		args_.minima = arena.take<float>(n * plan_.n_minima);
		args_.thresholds = arena.take<float>(n);
		args_.candidates.capacity = kernels::kFinishMostCandidates;
		args_.candidates.rows = arena.take<uint32_t>(n * args_.candidates.capacity);
		args_.candidates.estimates = arena.take<float>(n * args_.candidates.capacity);
		args_.candidates.counts = arena.take<uint32_t>(n);
		return !arena.failed() && !host.failed() && stage_bytes(call_, numbers_, pitch, bytes, heads);
	}

	/// False if there is no room for the answers.
	bool begin()
	{
		SearchContext *const context = call_.context;
		const Device *const device = call_.device;

		args_.answers = begin_answers(context, numbers_.size(), max_k_);
		if (args_.answers.heads == nullptr)
			return false;
		args_.counters.counters = context->counters.as<uint32_t>();
		std::copy(std::begin(context->counted), std::end(context->counted), args_.counters.before);
		args_.counters.launch = args_.answers.mark;
		args_.counters.most_looks = device->armed() && device->fault("gpu_give_up") ? 0 : use_.most_looks;
		args_.counters.given_up = context->given_up.as<uint32_t>();
		if (OnePassTrace *const trace = use_.trace; trace != nullptr)
		{
			trace->begun = begun_;
			trace->staged = steady_clock::now();
			trace->n_blocks = plan_.n_blocks;
			args_.stamps = trace->stamps;
		}
		return true;
	}

	Status launch(NewRows *new_rows)
	{
		SearchContext *const context = call_.context;

		VECTORGPU_TRY(new_rows->await(call_.snapshot.sources.back().ticket)); // the delta comes last
		VECTORGPU_TRY(call_.check(kernels::launch_one_pass(args_, plan_, call_.stream()), "filter rows in one pass"));
		if (use_.trace != nullptr)
			use_.trace->launched = steady_clock::now();
		context->counted[0] += kernels::one_pass_taken_over(args_.n_queries, args_.dim_pad);
		context->counted[1] += plan_.n_blocks;
		context->counted[2] += kernels::one_pass_thresholds(args_.n_queries);
		context->counted[3] += plan_.n_blocks;
		context->counted[4] += plan_.n_shared;
		return Status::ok();
	}

	/// Takes the answers. *taken becomes false if the launch gave up.
	Status end(NewRows *new_rows, std::vector<uint32_t> *redo, bool *taken)
	{
		const size_t n_redo = redo->size();
		const Status status = end_answers(call_, args_.answers, numbers_, redo);

		if (use_.trace != nullptr)
			use_.trace->answered = steady_clock::now();

		// While a launch whose blocks wait for each other may be on the device, there must be no other.
		if (!status.is_ok())
			return call_.device->fatal() ? status : drained(status);
		new_rows->has_run();
		if (*args_.counters.given_up == args_.answers.mark) // written before the marks that end_answers has seen
		{
			give_up();
			redo->resize(n_redo);
			*taken = false;
			return Status::ok();
		}
		call_.counts->n_one_pass += numbers_.size();
		return Status::ok();
	}

private:
	static constexpr uint32_t kSpareCandidates = 1024;

	/// Waits for the stream. The first error of both.
	Status drained(const Status &status) const
	{
		const Status ended = call_.context->stream.synchronize();

		return status.is_ok() ? ended : status;
	}

	void give_up()
	{
		use_.not_before.store(steady_clock::now() + use_.pause, std::memory_order_relaxed);
		call_.device->log(("a search in one pass was given up, since others use the GPU: there will be none for " +
			std::to_string(use_.pause.count()) + " ms")
				.c_str());
		call_.counts->n_given_up += numbers_.size();
		for (const uint32_t number : numbers_)
			(*call_.results)[number].clear();
	}

	const SearchCall &call_;
	OnePassUse &use_;
	const std::span<const uint32_t> numbers_;
	const steady_clock::time_point begun_;
	uint32_t max_k_ = 0;
	kernels::OnePassArgs args_;
	kernels::OnePassPlan plan_;
};

} // namespace

Status
search_one_pass(const SearchCall &call, std::span<const uint32_t> numbers, std::vector<uint32_t> *redo, bool *taken)
{
	*taken = false;
	if (call.options.one_pass == nullptr)
		return Status::ok();

	OnePass search(call, numbers);
	NewRows new_rows(call.options.lane, call.stream());

	if (!search.plan() || !search.stage())
		return Status::ok();

	const std::unique_lock alone(one_at_a_time(call.device->ordinal()), std::try_to_lock);

	if (!alone.owns_lock() || !search.begin())
		return Status::ok();
	VECTORGPU_TRY(search.launch(&new_rows));
	*taken = true;
	return search.end(&new_rows, redo, taken);
}

} // namespace vectorgpu::cuda
