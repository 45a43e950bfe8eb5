// The choice of a filter kernel for a form, and the constants of the filter's bound (README.md, "The filter").
#include "kernels/filter/filter.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/filter/one_pass.hpp"
#include "kernels/warp_block/group_probe.hpp"
#include "kernels/warp_block/per_device.hpp"

namespace vectorgpu::kernels
{

template <Form form, FilterPass kPass>
cudaError_t launch_filter_form(const FilterArgs &args, cudaStream_t stream);
template <Form form>
cudaError_t bins_slots_form(uint32_t n_queries, uint32_t dim_pad, uint32_t *slots, uint32_t *n_query_tiles);
template <Form form>
cudaError_t prepare_filter_form();
template <Form form, FilterPass kPass>
cudaError_t launch_group_form(const FilterArgs &args, uint32_t n_slots, cudaStream_t stream);
template <Form form>
cudaError_t prepare_group_form();

/// Bits that a key of the bins pass by warp groups has for the tile; 0: the pass does not support this number of
/// dimensions.
uint32_t bins_group_tile_bits(uint32_t dim_pad);
cudaError_t launch_bins_group(const FilterArgs &args, cudaStream_t stream);
cudaError_t prepare_bins_group();

namespace
{

constexpr double kUnit = 0x1p-24; // unit roundoff of binary32
constexpr size_t kStagesBytes =
	4 * 128 * 128 + 1024 * 12 + 16; // filter_tile.cuh: stages x rows x bytes, staged candidates
constexpr size_t kLeastQueries = 8;
constexpr size_t kLeastMostShared = 48 * 1024; // of a device that is not prepared
constexpr uint32_t kGroupBinsQueries = 128;    // blocks of bins_group.cu

constexpr double kHalfUnit = 0x1p-11; // unit roundoff of binary16
constexpr double kHalfStep = 0x1p-25; // half of the step below binary16's normal numbers
constexpr double kHalfLargest = 65504;
constexpr double kMostLost = 0x1p-12; // of a row's norm, a quarter of the rest of the bound

/// |v - v'| of what elements of v below binary16's normal numbers lose.
double
lost_by_halves(uint32_t dim)
{
	return std::sqrt(static_cast<double>(dim)) * kHalfStep * (1 + 0x1p-20);
}

PerDevice most_shared; // bytes of a block
PerDevice group_slots; // processors of a device with warp-group products; 0: warps multiply
std::atomic<bool> groups_allowed{true};

/// By warp groups if the device has them and the queries fit, else by warps. Scaled rows by warp groups alone.
template <Form form, FilterPass kPass>
cudaError_t
launch_form(const FilterArgs &args, cudaStream_t stream)
{
	if constexpr (form == Form::kScaled)
		return launch_group_form<form, kPass>(args, static_cast<uint32_t>(group_slots.get()), stream);
	else if constexpr (kPass != FilterPass::kBins)
		if (const auto n_slots = static_cast<uint32_t>(group_slots.get());
			n_slots > 0 && groups_allowed.load(std::memory_order_relaxed))
			if (const cudaError_t error = launch_group_form<form, kPass>(args, n_slots, stream);
				error != cudaErrorNotSupported)
				return error;
	if constexpr (form != Form::kScaled)
		return launch_filter_form<form, kPass>(args, stream);
}

template <FilterPass kPass>
cudaError_t
launch(const FilterArgs &args, cudaStream_t stream)
{
	if (args.n_queries == 0 || args.n_tiles == 0)
		return cudaSuccess;
	switch (args.rows.form)
	{
		case Form::kFloat32:
			return launch_form<Form::kFloat32, kPass>(args, stream);
		case Form::kFloat16:
			return launch_form<Form::kFloat16, kPass>(args, stream);
		case Form::kByte:
			return launch_form<Form::kByte, kPass>(args, stream);
		case Form::kScaled:
			if constexpr (kPass != FilterPass::kBins)
				return launch_form<Form::kScaled, kPass>(args, stream);
			break;
		case Form::kBit:
			break;
	}
	return cudaErrorInvalidValue;
}

} // namespace

FilterBound
filter_bound(Metric metric, uint32_t dim, const FilteredRows &rows)
{
	const uint32_t padded_dim = (dim + 31) / 32 * 32;
	const double padded = padded_dim;
	const double roundings = std::ceil(dim / 32.0) + 8;
	FilterBound bound;

	bound.metric = metric;
	bound.max_norm = rows.max_norm;
	bound.canonical = roundings * kUnit / (1 - roundings * kUnit);
	bound.underflow = dim * 0x1p-110 + (4 * dim + 32) * 0x1p-126;
	switch (rows.form)
	{
		case Form::kByte: // whole numbers: only the conversion of the sum to float rounds
			bound.product = 2 * kUnit;
			break;
		case Form::kFloat16: // exact products; the tensor cores' rounding of sums
			bound.product = (padded + 32) * 4 * kUnit;
			bound.sums = (padded / 16 + 2) * 8 * kUnit;
			if (rows.rows_rounded || rows.queries_rounded)
			{
				// Products are of the rounded vectors, whose norms exceed the true ones by less than kHalfUnit.
				bound.product = bound.product * (1 + 4 * kHalfUnit) +
					((rows.rows_rounded ? 1 : 0) + (rows.queries_rounded ? 1 : 0)) * kHalfUnit * (1 + kHalfUnit);
				bound.sums *= 1 + 4 * kHalfUnit;
				bound.lost = lost_by_halves(dim);
				bound.inverse = rows.rows_rounded ? rows.max_inverse : 0;
			}
			break;
		case Form::kScaled: // whole numbers; what was rounded is measured, and the rest is conversions
			bound.product = 32 * kUnit;
			bound.off = rows.off;
			break;
		default: // TF32: ten bits of a fraction, cut off in rows, rounded in queries
			bound.product = 0x1p-10 + 0x1p-11 + 0x1p-20 + (padded + 32) * 4 * kUnit;
			bound.sums = (padded / 8 + 2) * 8 * kUnit;
			break;
	}
	return bound;
}

bool
halves_serve(Metric metric, uint32_t dim, double max_norm, double max_inverse)
{
	const double lost = metric == Metric::kCosine ? lost_by_halves(dim) * max_inverse : lost_by_halves(dim) / max_norm;

	return max_norm > 0 && max_norm <= kHalfLargest && lost <= kMostLost; // false without trusted rows
}

size_t
filter_operand_bytes(Form form, uint32_t dim_pad)
{
	const size_t bytes = static_cast<size_t>(dim_pad) *
		(form == Form::kByte || form == Form::kScaled ? 1
				: form == Form::kFloat16              ? 2
													  : 4);

	return (bytes + 127) / 128 * 128;
}

size_t
filter_most_shared()
{
	const uint64_t most = most_shared.get();

	return most != 0 ? static_cast<size_t>(most) : kLeastMostShared;
}

bool
filter_fits(Form form, uint32_t dim_pad)
{
	if (form == Form::kScaled && (group_slots.get() == 0 || !filter_groups_allowed()))
		return false;
	return form != Form::kBit &&
		kStagesBytes + kLeastQueries * filter_operand_bytes(form, dim_pad) <= filter_most_shared();
}

cudaError_t
launch_filter_minima(const FilterArgs &args, cudaStream_t stream)
{
	return launch<FilterPass::kMinima>(args, stream);
}

cudaError_t
launch_filter_candidates(const FilterArgs &args, cudaStream_t stream)
{
	return launch<FilterPass::kCandidates>(args, stream);
}

cudaError_t
launch_filter_bins(const FilterArgs &args, cudaStream_t stream)
{
	if (args.n_stripes == 0 || args.n_stripes > args.n_tiles)
		return cudaErrorInvalidValue;
	if (args.bin_keys != nullptr)
		return args.n_queries == 0 ? cudaSuccess : launch_bins_group(args, stream);
	return launch<FilterPass::kBins>(args, stream);
}

cudaError_t
plan_filter_bins(
	Metric metric, Form form, uint32_t n_queries, uint32_t dim_pad, uint32_t n_tiles, uint32_t unit, BinsForm *plan)
{
	constexpr uint32_t kWaves = 4; // if queries need several tiles: for balance
	auto slots = static_cast<uint32_t>(group_slots.get());
	uint32_t n_query_tiles = 1;
	cudaError_t error = cudaErrorInvalidValue;

	if (form == Form::kByte && metric != Metric::kCosine && slots > 0 && groups_allowed.load(std::memory_order_relaxed))
		if (const uint32_t bits = bins_group_tile_bits(dim_pad); bits > 0)
		{
			const uint32_t tiles = (n_queries + kGroupBinsQueries - 1) / kGroupBinsQueries;
			const uint32_t least =
				(n_tiles + (1u << bits) - 1) >> bits; // a stripe's tiles have numbers of this many bits
			const uint32_t wanted = std::max(least, (tiles == 1 ? slots : kWaves * slots) / tiles);
			const uint32_t parts = std::min((wanted + unit - 1) / unit, n_tiles / unit);

			if (parts * unit >= least)
			{
				*plan = {parts * unit, bits};
				return cudaSuccess;
			}
		}

	if (form == Form::kByte)
		error = bins_slots_form<Form::kByte>(n_queries, dim_pad, &slots, &n_query_tiles);
	else if (form == Form::kFloat16)
		error = bins_slots_form<Form::kFloat16>(n_queries, dim_pad, &slots, &n_query_tiles);
	else if (form == Form::kFloat32)
		error = bins_slots_form<Form::kFloat32>(n_queries, dim_pad, &slots, &n_query_tiles);
	if (error != cudaSuccess)
		return error;

	const uint32_t wanted = (n_query_tiles == 1 ? slots : kWaves * slots) / n_query_tiles;
	const uint32_t parts = std::min(wanted / unit, n_tiles / unit);

	*plan = {unit * std::max(parts, 1u), 0};
	return cudaSuccess;
}

void
allow_filter_groups(bool allowed)
{
	groups_allowed.store(allowed, std::memory_order_relaxed);
}

bool
filter_groups_allowed()
{
	return groups_allowed.load(std::memory_order_relaxed);
}

cudaError_t
prepare_filter_kernels()
{
	int device = 0;
	int bytes = 0;
	cudaError_t error = cudaGetDevice(&device);

	if (error == cudaSuccess)
		error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
	if (error != cudaSuccess)
		return error;
	most_shared.set(static_cast<uint64_t>(bytes));
	error = prepare_filter_form<Form::kByte>();
	if (error == cudaSuccess)
		error = prepare_filter_form<Form::kFloat16>();
	if (error == cudaSuccess)
		error = prepare_filter_form<Form::kFloat32>();

	bool has_groups = false;
	int n_processors = 0;

	if (error == cudaSuccess)
		error = probe_groups(&has_groups);
	if (error == cudaSuccess)
		error = cudaDeviceGetAttribute(&n_processors, cudaDevAttrMultiProcessorCount, device);
	if (error == cudaSuccess && has_groups)
		error = prepare_group_form<Form::kByte>();
	if (error == cudaSuccess && has_groups)
		error = prepare_group_form<Form::kFloat16>();
	if (error == cudaSuccess && has_groups)
		error = prepare_group_form<Form::kFloat32>();
	if (error == cudaSuccess && has_groups)
		error = prepare_group_form<Form::kScaled>();
	if (error == cudaSuccess && has_groups)
		error = prepare_bins_group();
	if (error == cudaSuccess)
		error = prepare_one_pass(has_groups ? static_cast<uint32_t>(n_processors) : 0);
	group_slots.set(error == cudaSuccess && has_groups ? static_cast<uint64_t>(n_processors) : 0);
	return error;
}

} // namespace vectorgpu::kernels
