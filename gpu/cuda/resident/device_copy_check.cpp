// Checks of data that a copy derives from rows and structures: made again on the device by the same kernels and
// compared there. See device_copy.hpp.
#include <algorithm>
#include <bit>
#include <cstring>

#include "cuda/resident/device_copy.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/resident/encode.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/resident/rounded_rows.hpp"
#include "kernels/canonical/compare.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

constexpr size_t kDeltaBytes = size_t{1} << 20; // of the delta's vectors that the host checks at a time

Status
not_held()
{
	return Status::error(StatusCode::kInvalidArgument, "rows that are not held");
}

/// Return the bytes of a row's elements in a form, without padding.
uint32_t
used_bytes(Form form, uint32_t dim)
{
	return form == Form::kFloat32 ? dim * 4
		: form == Form::kFloat16  ? dim * 2
		: form == Form::kByte     ? dim
								  : (dim + 7) / 8;
}

/// One check after another, with their counts on the device. Holds the uploader, whose buffers it uses.
class Look
{
public:
	Look(const Device *device, Uploader *uploader) : device_(device), uploader_(uploader), lock_(uploader->mutex) {}

	Status begin() { return device_->check(cudaMemsetAsync(counter(), 0, kCounterBytes, stream()), "clear counts"); }

	Status begin_stats()
	{
		return device_->check(cudaMemsetAsync(stats(), 0, sizeof(kernels::RowStats), stream()), "clear counts");
	}

	/// Add the differences counted on the device. Waits for the stream.
	Status end(uint64_t *n_different)
	{
		uint32_t found;

		VECTORGPU_TRY(receive_bytes(
			device_, uploader_, reinterpret_cast<uint8_t *>(&found), uploader_->scratch.as<uint8_t>(), sizeof(found)));
		*n_different += found;
		return Status::ok();
	}

	Status padding(const Held &rows, uint64_t first, uint64_t n_rows, uint32_t pitch_bytes, uint32_t used)
	{
		return device_->check(kernels::launch_check_padding(rows.as<uint8_t>() + first * pitch_bytes, n_rows,
								  pitch_bytes, used, counter(), stream()),
			"look at padding");
	}

	/// Compare items in `held` with new ones: make(at, n, to) launches the kernel that makes items [at, at + n).
	template <class Make>
	Status items(const Held &held, size_t item_bytes, uint64_t first, uint64_t n_items, Make make)
	{
		const uint64_t per_round = uploader_->staging.bytes() / item_bytes;

		for (uint64_t done = 0; done < n_items;)
		{
			const uint64_t here = std::min(per_round, n_items - done);
			uint8_t *staging = uploader_->staging.as<uint8_t>();

			VECTORGPU_TRY(device_->check(make(first + done, here, staging), "make again what was derived"));
			VECTORGPU_TRY(compare(held.as<uint8_t>() + (first + done) * item_bytes, staging, here * item_bytes));
			done += here; // the next round reuses the staging buffer, in stream order
		}
		return Status::ok();
	}

	Status compare(const uint8_t *a, const uint8_t *b, uint64_t n_bytes)
	{
		return device_->check(
			kernels::launch_compare(reinterpret_cast<const uint32_t *>(a), reinterpret_cast<const uint32_t *>(b),
				n_bytes / sizeof(uint32_t), counter(), stream()),
			"compare what was derived");
	}

	kernels::RowStats *stats() const
	{
		return reinterpret_cast<kernels::RowStats *>(uploader_->scratch.as<uint8_t>() + kStatsAt);
	}
	uint32_t *off_bits() const { return uploader_->scratch.as<uint32_t>() + kOffAt / sizeof(uint32_t); }
	cudaStream_t stream() const { return uploader_->stream.get(); }
	const Device *device() const { return device_; }
	Uploader *uploader() const { return uploader_; }

private:
	static constexpr size_t kStatsAt = 64;
	static constexpr size_t kOffAt = 128; // behind the stats
	static constexpr size_t kCounterBytes = kOffAt + sizeof(uint32_t);

	uint32_t *counter() const { return uploader_->scratch.as<uint32_t>(); }

	const Device *const device_;
	Uploader *const uploader_;
	const std::lock_guard<std::mutex> lock_;
};

/// Check the norms of a sealed block, their maximum and the number of untrusted rows.
Status
look_at_values(Look *look, const engine::DistanceSpec &spec, const Shape &shape, const Filled &filled, uint32_t first,
	uint32_t n, uint64_t *n_different)
{
	const Block &block = *filled.block;
	kernels::RowStats found{};

	if (block.values.bytes() == 0)
		return Status::ok();
	VECTORGPU_TRY(look->begin_stats()); // they may have those of other rows
	VECTORGPU_TRY(look->items(block.values, sizeof(float), first, n,
		[&](uint64_t at, uint64_t here, uint8_t *to)
		{
			kernels::Rows rows;

			rows.vectors = block.vectors.as<uint8_t>() + at * block.pitch_bytes;
			rows.n_rows = static_cast<uint32_t>(here);
			rows.pitch_bytes = block.pitch_bytes;
			rows.form = block.form;
			return kernels::launch_row_values(
				spec.metric, rows, shape.dim_pad, reinterpret_cast<float *>(to), look->stats(), look->stream());
		}));
	VECTORGPU_TRY(receive_bytes(look->device(), look->uploader(), reinterpret_cast<uint8_t *>(&found),
		reinterpret_cast<const uint8_t *>(look->stats()), sizeof(found)));
	*n_different += std::bit_cast<float>(found.max_norm_bits) > filled.max_norm ||
			std::bit_cast<float>(found.max_inverse_bits) > filled.max_inverse || found.n_untrusted > filled.n_untrusted
		? 1
		: 0;
	return Status::ok();
}

/// Check rounded rows, padding included, and what goes with them.
Status
look_at_rounded(Look *look, const RoundedPlace &place, const Filled &filled, const RoundedRows &rounded, uint32_t first,
	uint32_t n, uint64_t *n_different)
{
	uint32_t off_bits = 0;

	VECTORGPU_TRY(look->items(rounded.vectors, rounded.pitch_bytes, first, n,
		[&](uint64_t at, uint64_t here, uint8_t *to)
		{
			return launch_rounding(place, filled, rounded, static_cast<uint32_t>(at), static_cast<uint32_t>(here), to,
				nullptr, look->off_bits());
		}));
	if (rounded.form != Form::kScaled)
		return Status::ok();
	VECTORGPU_TRY(look->items(rounded.values, sizeof(kernels::ScaledValue), first, n,
		[&](uint64_t at, uint64_t here, uint8_t *to)
		{
			return launch_rounding(place, filled, rounded, static_cast<uint32_t>(at), static_cast<uint32_t>(here),
				nullptr, reinterpret_cast<kernels::ScaledValue *>(to), look->off_bits());
		}));
	VECTORGPU_TRY(receive_bytes(look->device(), look->uploader(), reinterpret_cast<uint8_t *>(&off_bits),
		reinterpret_cast<const uint8_t *>(look->off_bits()), sizeof(off_bits)));
	*n_different += std::bit_cast<float>(off_bits) > rounded.off ? 1 : 0;
	return Status::ok();
}

/// The same of a piece of the delta, whose norms the host made.
Status
look_at_delta_values(Look *look, const engine::DistanceSpec &spec, const Filled &filled, uint32_t first, uint32_t n,
	uint64_t *n_different)
{
	const Block &block = *filled.block;
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);
	const uint32_t at_once = static_cast<uint32_t>(std::clamp<size_t>(kDeltaBytes / row_bytes, 1, std::max(n, 1u)));
	std::vector<RowId> row_ids(at_once);
	std::vector<uint8_t> vectors(at_once * row_bytes);
	std::vector<float> values(at_once);
	std::vector<float> scratch(spec.dim);
	uint32_t n_untrusted = 0;

	if (block.values.bytes() == 0)
		return Status::ok();
	for (uint32_t done = 0; done < n;)
	{
		const uint32_t here = std::min(at_once, n - done);

		VECTORGPU_TRY(read_block(look->device(), look->uploader()->stream, look->uploader()->pinned, spec, block,
			first + done, here, row_ids.data(), vectors.data()));
		VECTORGPU_TRY(receive_bytes(look->device(), look->uploader(), reinterpret_cast<uint8_t *>(values.data()),
			block.values.as<uint8_t>() + (size_t{first} + done) * sizeof(float), here * sizeof(float)));
		for (uint32_t i = 0; i < here; i++)
		{
			const RowValue value = row_value(spec, vectors.data() + i * row_bytes, scratch.data());

			n_untrusted += value.value != value.value ? 1 : 0;
			*n_different += std::bit_cast<uint32_t>(value.value) != std::bit_cast<uint32_t>(values[i]) ||
					value.max_norm > filled.max_norm
				? 1
				: 0;
		}
		done += here;
	}
	*n_different += n_untrusted > filled.n_untrusted ? 1 : 0;
	return Status::ok();
}

/// Check the layout of codes of rows [first, first + n): put them into the index's order and back.
Status
look_at_codes(Look *look, const DeviceCodes &codes, uint64_t first, uint64_t n)
{
	const engine::CodesLayout &layout = codes.layout;
	const uint64_t unit_rows = engine::ivf::code_unit_rows(layout.spec);
	const uint64_t unit_bytes = unit_rows * codes.code_bytes;
	const uint64_t last = (first + n + unit_rows - 1) / unit_rows;

	if (layout.spec.kind == engine::ivf::CodeKind::kHalves)
		return look->padding(codes.codes, first, n, codes.pitch_bytes, codes.code_bytes);

	uint8_t *const in_order = look->uploader()->staging.as<uint8_t>();
	const size_t half = look->uploader()->staging.bytes() / 2;
	const uint64_t per_round = std::max<uint64_t>(1, half / (unit_rows * codes.pitch_bytes));

	for (uint64_t unit = (first + unit_rows - 1) / unit_rows; unit < last;)
	{
		const uint64_t here = std::min(per_round, last - unit);
		const uint8_t *all = codes.codes.as<uint8_t>();
		cudaError_t error = lay_out_codes_back(codes, unit * unit_bytes, here * unit_bytes, in_order, look->stream());

		if (error == cudaSuccess)
			error = lay_out_codes(codes, in_order, 0, here, in_order + half, look->stream());
		VECTORGPU_TRY(look->device()->check(error, "lay out codes again"));
		VECTORGPU_TRY(look->compare(
			all + unit * unit_rows * codes.pitch_bytes, in_order + half, here * unit_rows * codes.pitch_bytes));
		unit += here;
	}
	return Status::ok();
}

Status
look_at_lists(Look *look, const DeviceLists &lists, const Block &block, uint64_t first, uint64_t n)
{
	VECTORGPU_TRY(look->items(lists.row_ids, sizeof(RowId), first, n,
		[&](uint64_t at, uint64_t here, uint8_t *to)
		{
			return kernels::launch_ivf_row_ids(block.row_ids.as<RowId>(), lists.numbers.as<uint32_t>() + at,
				static_cast<uint32_t>(here), reinterpret_cast<uint64_t *>(to), look->stream());
		}));
	if (const std::shared_ptr<const Held> places = made_places(lists); places != nullptr)
		VECTORGPU_TRY(look->items(*places, sizeof(uint32_t), first, n,
			[&](uint64_t at, uint64_t here, uint8_t *to)
			{
				return kernels::launch_ivf_places(lists.numbers.as<uint32_t>(),
					static_cast<uint32_t>(lists.layout.n_rows), static_cast<uint32_t>(at), static_cast<uint32_t>(here),
					reinterpret_cast<uint32_t *>(to), look->stream());
			}));
	if (first == 0)
	{
		VECTORGPU_TRY(look->items(lists.list_ids, sizeof(uint64_t), 0, lists.n_lists(),
			[&](uint64_t, uint64_t here, uint8_t *to)
			{
				return kernels::launch_ivf_iota(
					reinterpret_cast<uint64_t *>(to), static_cast<uint32_t>(here), look->stream());
			}));
		VECTORGPU_TRY(
			look->padding(lists.centroids, 0, lists.n_lists(), lists.dim_pad * static_cast<uint32_t>(sizeof(float)),
				lists.layout.dim * static_cast<uint32_t>(sizeof(float))));
	}
	return lists.codes == nullptr ? Status::ok() : look_at_codes(look, *lists.codes, first, n);
}

/// Check the centroids that the filter reads: they are DeviceLists::centroids, with norms and rounded.
Status
look_at_ranked(
	Look *look, const engine::DistanceSpec &rows, Budget *budget, const DeviceLists &lists, uint64_t *n_different)
{
	const engine::DistanceSpec spec = {rows.metric, ElementType::kFloat32, rows.dim};
	const Shape shape(spec);
	const RoundedPlace place{spec, shape, budget, look->uploader()};
	const Filled &ranked = lists.ranked;
	const Block &block = *ranked.block;

	VECTORGPU_TRY(look->compare(block.vectors.as<uint8_t>(), lists.centroids.as<uint8_t>(), lists.centroids.bytes()));
	VECTORGPU_TRY(look->compare(block.row_ids.as<uint8_t>(), lists.list_ids.as<uint8_t>(), lists.list_ids.bytes()));
	VECTORGPU_TRY(look_at_values(look, spec, shape, ranked, 0, ranked.n_rows, n_different));
	return ranked.rounded.halves == nullptr
		? Status::ok()
		: look_at_rounded(look, place, ranked, *ranked.rounded.halves, 0, ranked.n_rows, n_different);
}

/// Check the vectors of a graph's entry points.
Status
look_at_graph(Look *look, const DeviceGraph &graph, const Block &block)
{
	kernels::Rows rows;

	rows.vectors = block.vectors.as<uint8_t>();
	rows.n_rows = static_cast<uint32_t>(graph.layout.n_rows);
	rows.pitch_bytes = block.pitch_bytes;
	rows.form = block.form;
	return look->items(graph.entry_vectors, block.pitch_bytes, 0, graph.layout.header.n_entries,
		[&](uint64_t at, uint64_t here, uint8_t *to)
		{
			return kernels::launch_graph_gather(
				rows, graph.entry_nodes.as<uint32_t>() + at, static_cast<uint32_t>(here), to, look->stream());
		});
}

} // namespace

Status
DeviceCopy::check_derived(engine::SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	struct Part
	{
		Filled filled;
		uint64_t position; // of row `first` of the block
		uint32_t first;
		uint32_t n_rows;
	};
	std::vector<Part> parts;
	std::shared_ptr<const DeviceLists> lists;
	std::shared_ptr<const DeviceGraph> graph;
	const bool is_delta = id == engine::kDeltaSegment;

	*n_different = 0;
	{
		const std::lock_guard lock(mutex_);
		const auto found = segments_.find(id);
		uint64_t held_first = 0;
		uint64_t held_last = 0;

		if (is_delta)
		{
			for (const Delta::Part &part : delta_.parts())
				parts.push_back({*part.piece, part.position, part.first, part.n_rows});
			held_first = delta_.first();
			held_last = delta_.last();
		}
		else if (found == segments_.end())
			return Status::error(StatusCode::kNotFound, "no such segment");
		else
		{
			const DeviceSegment &segment = found->second;

			held_last = segment.n_rows;
			lists = segment.lists;
			graph = segment.graph;
			if (segment.sealed.block != nullptr)
				parts.push_back({segment.sealed, 0, 0, segment.sealed.n_rows});
		}
		if (first < held_first || first > held_last || n_rows > held_last - first)
			return not_held();
	}
	if (is_delta)
		VECTORGPU_TRY(lane_->stream().synchronize());

	Look look(budget_->device(), uploader_);

	VECTORGPU_TRY(look.begin());
	for (const Part &part : parts)
	{
		const uint64_t from = std::max(first, part.position);
		const uint64_t to = std::min<uint64_t>(first + n_rows, part.position + part.n_rows);
		const Block &block = *part.filled.block;

		if (from >= to)
			continue;

		const uint32_t at = part.first + static_cast<uint32_t>(from - part.position);
		const uint32_t n = static_cast<uint32_t>(to - from);

		if (block.pitch_bytes > 0)
			VECTORGPU_TRY(look.padding(block.vectors, at, n, block.pitch_bytes, used_bytes(block.form, spec_.dim)));
		VECTORGPU_TRY(is_delta ? look_at_delta_values(&look, spec_, part.filled, at, n, n_different)
							   : look_at_values(&look, spec_, shape_, part.filled, at, n, n_different));
		for (const auto &rounded : {part.filled.rounded.scaled, part.filled.rounded.halves})
			if (rounded != nullptr)
				VECTORGPU_TRY(look_at_rounded(
					&look, {spec_, shape_, budget_, uploader_}, part.filled, *rounded, at, n, n_different));
		if (lists != nullptr)
			VECTORGPU_TRY(look_at_lists(&look, *lists, block, from, to - from));
		if (lists != nullptr && lists->ranked.block != nullptr && from == 0)
			VECTORGPU_TRY(look_at_ranked(&look, spec_, budget_, *lists, n_different));
		if (graph != nullptr && from == 0)
			VECTORGPU_TRY(look_at_graph(&look, *graph, block));
	}
	return look.end(n_different);
}

} // namespace vectorgpu::cuda
