// See rounded_rows.hpp.
#include "cuda/resident/rounded_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cuda/device/arena.hpp"
#include "cuda/search/filter_plan.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

constexpr uint64_t kFreePart = 4;                // of the budget, one such part is not taken for rounded rows
constexpr uint64_t kFreePartOfBoth = 3;          // nor one such part for a second form of them
constexpr uint32_t kTriedQueries = 64;           // rows that are searched for to see what the bound excludes
constexpr uint32_t kTriedK = 10;                 // rows that each looks for
constexpr uint32_t kTriedCandidates = 16 * 1024; // room for each: with this many the bytes are given up anyway

/// Leaves *made null if too little of the budget would stay free. kOutOfMemory counts as that: rounded rows are no more
/// than faster.
Status
allocate(const RoundedPlace &place, const Filled &filled, Form form, std::shared_ptr<RoundedRows> *made)
{
	const uint64_t free_part = filled.rounded.any() ? kFreePartOfBoth : kFreePart;
	const auto rounded = std::make_shared<RoundedRows>();
	const size_t value_bytes = form == Form::kScaled ? filled.n_rows * sizeof(kernels::ScaledValue) : 0;
	const uint64_t most = place.budget->most();

	made->reset();
	rounded->form = form;
	rounded->pitch_bytes = filled.block->pitch_bytes / (form == Form::kScaled ? 4 : 2);

	const size_t row_bytes = static_cast<size_t>(filled.n_rows) * rounded->pitch_bytes;

	if (most != 0 && place.budget->used() + row_bytes + value_bytes > most / free_part * (free_part - 1))
		return Status::ok();

	Status status = rounded->vectors.allocate(place.budget, row_bytes, "rounded rows");

	if (status.is_ok() && value_bytes > 0)
		status = rounded->values.allocate(place.budget, value_bytes, "rounded rows");
	if (!status.is_ok())
		return status.code == StatusCode::kOutOfMemory ? Status::ok() : status;
	*made = rounded;
	return Status::ok();
}

/// A search for rows of a segment by its rounded rows, up to the candidates that would be scored.
class Trial
{
public:
	Trial(const RoundedPlace &place, const Filled &filled, std::shared_ptr<const RoundedRows> rounded)
		: place_(place), arena_(place.uploader->staging.get(), place.uploader->staging.bytes())
	{
		source_.block = filled.block;
		source_.n_rows = filled.n_rows;
		source_.max_norm = filled.max_norm;
		source_.max_inverse = filled.max_inverse;
		source_.n_untrusted = filled.n_untrusted;
		source_.filterable = true;
		source_.rounded.scaled = std::move(rounded);
		plan_ = plan_filter(source_, 0, kTriedQueries, kTriedK);
	}

	/// Set *mean to the mean number of candidates. Waits for the stream.
	Status run(double *mean)
	{
		*mean = kTriedCandidates;
		take_room();
		if (arena_.failed())
			return Status::ok();
		VECTORGPU_TRY(send_queries());
		VECTORGPU_TRY(launch());
		return count(mean);
	}

private:
	Status check(cudaError_t error) const { return place_.budget->device()->check(error, "try rounded rows"); }
	cudaStream_t stream() const { return place_.uploader->stream.get(); }

	void take_room()
	{
		queries_.vectors = vectors_ = arena_.take<float>(size_t{kTriedQueries} * place_.shape.dim_pad);
		queries_.k = k_ = arena_.take<uint32_t>(kTriedQueries);
		queries_.n_queries = kTriedQueries;
		queries_.dim_pad = place_.shape.dim_pad;
		prepared_.operand =
			arena_.take<uint8_t>(kTriedQueries * kernels::filter_operand_bytes(Form::kScaled, place_.shape.dim_pad));
		prepared_.norms = arena_.take<double>(kTriedQueries);
		prepared_.scaled.factors = arena_.take<float>(kTriedQueries);
		prepared_.scaled.lost = arena_.take<double>(kTriedQueries);
		minima_ = arena_.take<float>(size_t{kTriedQueries} * plan_.n_minima);
		thresholds_ = arena_.take<float>(kTriedQueries);
		candidates_.capacity = std::min(plan_.capacity, kTriedCandidates);
		candidates_.rows = arena_.take<uint32_t>(size_t{kTriedQueries} * candidates_.capacity);
		candidates_.estimates = arena_.take<float>(size_t{kTriedQueries} * candidates_.capacity);
		candidates_.counts = arena_.take<uint32_t>(kTriedQueries);

		zeros_ = arena_.mark();
		prepared_.redo = arena_.take<uint8_t>(kTriedQueries);
		best_.counts = arena_.take<uint32_t>(kTriedQueries);
		n_rescored_ = arena_.take<uint64_t>(1);
	}

	/// Rows spread evenly over the segment.
	Status send_queries()
	{
		const size_t pitch = source_.block->pitch_bytes;
		auto *k = place_.uploader->pinned.as<uint32_t>();

		std::fill_n(k, kTriedQueries, kTriedK);
		VECTORGPU_TRY(check(cudaMemcpyAsync(k_, k, kTriedQueries * sizeof(*k), cudaMemcpyHostToDevice, stream())));
		VECTORGPU_TRY(check(
			cudaMemsetAsync(place_.uploader->staging.as<uint8_t>() + zeros_, 0, arena_.mark() - zeros_, stream())));
		return check(cudaMemcpy2DAsync(vectors_, pitch, source_.block->vectors.as<uint8_t>(),
			source_.n_rows / kTriedQueries * pitch, pitch, kTriedQueries, cudaMemcpyDeviceToDevice, stream()));
	}

	Status launch()
	{
		const engine::DistanceSpec &spec = place_.spec;
		kernels::FilterArgs args;
		kernels::FilterSelect select;

		args.metric = spec.metric;
		args.rows = source_.filter_rows(kTriedQueries, kTriedK);
		args.scaled = source_.scaled_pass(spec);
		args.scaled.factors = prepared_.scaled.factors;
		args.operand = prepared_.operand;
		args.n_queries = kTriedQueries;
		args.dim_pad = place_.shape.dim_pad;
		args.n_tiles = plan_.n_sampled;
		args.tile_stride = plan_.stride;
		args.minima = minima_;
		args.minima_stride = plan_.n_minima;
		args.thresholds = thresholds_;
		args.candidates = candidates_;

		select.bound = kernels::filter_bound(spec.metric, spec.dim,
			{.form = Form::kScaled, .max_norm = source_.max_norm, .off = source_.rounded.scaled->off});
		select.queries = queries_;
		select.prepared = prepared_;
		select.best = best_;
		select.minima = minima_;
		select.n_minima = plan_.n_minima;
		select.thresholds = thresholds_;
		select.candidates = candidates_;
		select.n_rescored = n_rescored_;

		VECTORGPU_TRY(check(kernels::launch_scale_queries(spec.metric, queries_,
			kernels::scaled_most_factor(spec.metric, spec.dim, source_.max_norm), {}, prepared_, stream())));
		VECTORGPU_TRY(check(kernels::launch_filter_minima(args, stream())));
		VECTORGPU_TRY(check(kernels::launch_filter_thresholds(select, stream())));
		args.tile_stride = 1;
		args.n_tiles = plan_.n_tiles;
		VECTORGPU_TRY(check(kernels::launch_filter_candidates(args, stream())));
		return check(kernels::launch_filter_tighten(select, stream()));
	}

	/// Untrusted queries go another way, whatever form rows have, so they do not count.
	Status count(double *mean)
	{
		uint8_t *pinned = place_.uploader->pinned.as<uint8_t>();
		constexpr size_t kCountBytes = kTriedQueries * sizeof(uint32_t);
		constexpr size_t kNormBytes = kTriedQueries * sizeof(double);
		uint32_t counts[kTriedQueries];
		double norms[kTriedQueries];
		uint64_t sum = 0;
		uint32_t n = 0;

		VECTORGPU_TRY(
			check(cudaMemcpyAsync(pinned, candidates_.counts, kCountBytes, cudaMemcpyDeviceToHost, stream())));
		VECTORGPU_TRY(check(
			cudaMemcpyAsync(pinned + kCountBytes, prepared_.norms, kNormBytes, cudaMemcpyDeviceToHost, stream())));
		VECTORGPU_TRY(check(cudaMemcpyAsync(
			pinned + kCountBytes + kNormBytes, prepared_.redo, kTriedQueries, cudaMemcpyDeviceToHost, stream())));
		VECTORGPU_TRY(place_.uploader->stream.synchronize());
		std::memcpy(counts, pinned, kCountBytes);
		std::memcpy(norms, pinned + kCountBytes, kNormBytes);
		for (uint32_t i = 0; i < kTriedQueries; i++)
		{
			if (!kernels::filter_trusts(place_.spec.metric, norms[i]))
				continue;
			sum += pinned[kCountBytes + kNormBytes + i] != 0 ? kTriedCandidates : counts[i];
			n++;
		}
		*mean = n == 0 ? kTriedCandidates : static_cast<double>(sum) / n;
		return Status::ok();
	}

	const RoundedPlace &place_;
	Arena arena_;
	Source source_;
	FilterPlan plan_{};
	float *vectors_ = nullptr;
	uint32_t *k_ = nullptr;
	kernels::Queries queries_;
	kernels::FilterQueries prepared_;
	kernels::Candidates candidates_;
	kernels::Best best_;
	float *minima_ = nullptr;
	float *thresholds_ = nullptr;
	uint64_t *n_rescored_ = nullptr;
	size_t zeros_ = 0;
};

} // namespace

Status
find_row_values(const RoundedPlace &place, Filled *filled)
{
	const Device *device = place.budget->device();
	const cudaStream_t stream = place.uploader->stream.get();
	const Block &block = *filled->block;
	auto *stats = place.uploader->scratch.as<kernels::RowStats>();
	kernels::RowStats found{};
	kernels::Rows rows;

	rows.vectors = block.vectors.as<uint8_t>();
	rows.row_ids = block.row_ids.as<uint64_t>();
	rows.n_rows = filled->n_rows;
	rows.pitch_bytes = block.pitch_bytes;
	rows.form = block.form;
	VECTORGPU_TRY(device->check(cudaMemsetAsync(stats, 0, sizeof(*stats), stream), "clear counts"));
	VECTORGPU_TRY(device->check(kernels::launch_row_values(place.spec.metric, rows, place.shape.dim_pad,
									block.values.as<float>(), stats, stream),
		"compute norms"));
	VECTORGPU_TRY(device->check(
		cudaMemcpyAsync(place.uploader->pinned.as<uint8_t>(), stats, sizeof(found), cudaMemcpyDeviceToHost, stream),
		"read counts"));
	VECTORGPU_TRY(place.uploader->stream.synchronize());
	std::memcpy(&found, place.uploader->pinned.as<uint8_t>(), sizeof(found));
	filled->max_norm = std::bit_cast<float>(found.max_norm_bits);
	filled->max_inverse = std::bit_cast<float>(found.max_inverse_bits);
	filled->n_untrusted = found.n_untrusted;
	return Status::ok();
}

Status
make_scaled_rows(const RoundedPlace &place, const Filled &filled, std::shared_ptr<const RoundedRows> *made)
{
	const Device *device = place.budget->device();
	const cudaStream_t stream = place.uploader->stream.get();
	auto *off_bits = place.uploader->scratch.as<uint32_t>();
	std::shared_ptr<RoundedRows> rounded;
	uint32_t found = 0;
	double mean = 0;

	made->reset();
	if (filled.n_rows < kernels::kFilterLeastRows || !kernels::filter_fits(Form::kScaled, place.shape.dim_pad) ||
		!kernels::scaled_serves(place.spec.metric, place.spec.dim, filled.max_norm))
		return Status::ok();
	VECTORGPU_TRY(allocate(place, filled, Form::kScaled, &rounded));
	if (rounded == nullptr)
		return Status::ok();
	VECTORGPU_TRY(device->check(cudaMemsetAsync(off_bits, 0, sizeof(*off_bits), stream), "clear counts"));
	VECTORGPU_TRY(
		device->check(launch_rounding(place, filled, *rounded, 0, filled.n_rows, rounded->vectors.as<uint8_t>(),
						  rounded->values.as<kernels::ScaledValue>(), off_bits),
			"round rows"));
	VECTORGPU_TRY(device->check(
		cudaMemcpyAsync(place.uploader->pinned.as<uint8_t>(), off_bits, sizeof(found), cudaMemcpyDeviceToHost, stream),
		"read counts"));
	VECTORGPU_TRY(place.uploader->stream.synchronize());
	std::memcpy(&found, place.uploader->pinned.as<uint8_t>(), sizeof(found));
	rounded->off = std::bit_cast<float>(found);
	VECTORGPU_TRY(Trial(place, filled, rounded).run(&mean));
	if (mean <= kernels::kScaledMostCandidates)
		*made = std::move(rounded);
	return Status::ok();
}

Status
make_half_rows(const RoundedPlace &place, const Filled &filled, std::shared_ptr<const RoundedRows> *made)
{
	std::shared_ptr<RoundedRows> rounded;

	made->reset();
	if (!kernels::filter_fits(Form::kFloat16, place.shape.dim_pad) ||
		!kernels::halves_serve(place.spec.metric, place.spec.dim, filled.max_norm, filled.max_inverse))
		return Status::ok();
	VECTORGPU_TRY(allocate(place, filled, Form::kFloat16, &rounded));
	if (rounded == nullptr)
		return Status::ok();
	VECTORGPU_TRY(place.budget->device()->check(
		launch_rounding(place, filled, *rounded, 0, filled.n_rows, rounded->vectors.as<uint8_t>(), nullptr, nullptr),
		"round rows"));
	*made = std::move(rounded);
	return Status::ok();
}

cudaError_t
launch_rounding(const RoundedPlace &place, const Filled &filled, const RoundedRows &rounded, uint32_t first, uint32_t n,
	void *to, kernels::ScaledValue *values, uint32_t *off_bits)
{
	const Block &block = *filled.block;
	const cudaStream_t stream = place.uploader->stream.get();
	kernels::Rows rows;

	rows.vectors = block.vectors.as<uint8_t>() + static_cast<size_t>(first) * block.pitch_bytes;
	rows.n_rows = n;
	rows.pitch_bytes = block.pitch_bytes;
	rows.form = block.form;
	if (rounded.form == Form::kScaled)
		return kernels::launch_scale_rows(place.spec.metric, rows, block.values.as<float>() + first, place.spec.dim,
			place.shape.dim_pad, filled.max_norm, to, rounded.pitch_bytes, values, off_bits, stream);
	// A padded row counts as dim_pad elements.
	return kernels::launch_store_rows(
		rows.vectors, ElementType::kFloat32, place.shape.dim_pad, n, to, Form::kFloat16, rounded.pitch_bytes, stream);
}

} // namespace vectorgpu::cuda
