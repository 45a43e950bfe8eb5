// See packed_rows.hpp. Rows are packed in the order of their numbers, also of segments with lists: a sample of tiles
// then is one of rows in no special order, and more rows pass its threshold where neighbours lie side by side
// (README.md).
#include "cuda/passing/packed_rows.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cuda/passing/passing_device.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "kernels/filter/tuning.hpp"
#include "kernels/select/pack_rows.hpp"

namespace vectorgpu::cuda
{
namespace
{

/// Bytes of a row, packed, with what lies beside it.
uint64_t
packed_row_bytes(const Source &source)
{
	uint64_t bytes = source.block->pitch_bytes + sizeof(RowId) + sizeof(float);

	for (const std::shared_ptr<const RoundedRows> &rounded : {source.rounded.scaled, source.rounded.halves})
		if (rounded != nullptr)
			bytes += rounded->pitch_bytes + (rounded->values.bytes() > 0 ? sizeof(kernels::ScaledValue) : 0);
	return bytes;
}

/// Packs the rows of a segment, in the order of its functions. Without room *made stays null.
class Packing
{
public:
	Packing(const SearchCall &call, Budget *budget, const engine::PassingSegment &segment, const Source &source)
		: call_(call), budget_(budget), segment_(segment), source_(source), rows_(std::make_shared<PackedRows>())
	{
	}

	Status run(std::shared_ptr<const PackedRows> *made)
	{
		const Status status = make();

		// The stream may still use what is freed then. Other searches read the rows from now on.
		if (!call_.device->fatal())
			VECTORGPU_TRY(call_.context->stream.synchronize());
		if (status.code == StatusCode::kOutOfMemory)
			return Status::ok();
		VECTORGPU_TRY(status);
		*made = std::move(rows_);
		return Status::ok();
	}

private:
	Status make()
	{
		VECTORGPU_TRY(make_order());
		rows_->n_rows = order_.n;
		rows_->bytes = order_.n * packed_row_bytes(source_);
		VECTORGPU_TRY(make_vectors());
		VECTORGPU_TRY(make_rounded(source_.rounded.scaled, &rows_->rounded.scaled));
		VECTORGPU_TRY(make_rounded(source_.rounded.halves, &rows_->rounded.halves));
		rows_->rounded.is_long =
			source_.rounded.is_long && uint64_t{order_.n} * call_.shape.dim_pad >= kernels::kScaledLeastBytes;
		return has_dead() ? make_dead() : Status::ok();
	}

	Status make_order()
	{
		VECTORGPU_TRY(list_on_device(call_, budget_, segment_, source_, &list_));
		if (list_ == nullptr)
			return Status::error(StatusCode::kOutOfMemory, "too little memory for rows that pass");
		if (source_.lists != nullptr)
			VECTORGPU_TRY(places_of(budget_, call_.context->stream, *source_.lists, &places_));
		order_ = {list_->as<uint32_t>(), places_ == nullptr ? nullptr : places_->as<uint32_t>(),
			static_cast<uint32_t>(segment_.n_pass)};
		return Status::ok();
	}

	Status make_vectors()
	{
		const kernels::Rows from = source_.rows();
		auto block = std::make_shared<Block>();

		block->form = from.form;
		block->pitch_bytes = from.pitch_bytes;
		block->capacity = order_.n;
		VECTORGPU_TRY(pack(from.vectors, from.pitch_bytes, &block->vectors));
		VECTORGPU_TRY(pack(from.row_ids, sizeof(RowId), &block->row_ids));
		VECTORGPU_TRY(pack(source_.block->values.as<float>() + source_.first, sizeof(float), &block->values));
		rows_->block = std::move(block);
		return Status::ok();
	}

	Status make_rounded(const std::shared_ptr<const RoundedRows> &from, std::shared_ptr<const RoundedRows> *to)
	{
		if (from == nullptr)
			return Status::ok();

		auto made = std::make_shared<RoundedRows>();

		made->form = from->form;
		made->pitch_bytes = from->pitch_bytes;
		made->off = from->off;
		VECTORGPU_TRY(pack(from->vectors.as<uint8_t>() + static_cast<size_t>(source_.first) * from->pitch_bytes,
			from->pitch_bytes, &made->vectors));
		if (from->values.bytes() > 0)
			VECTORGPU_TRY(pack(
				from->values.as<kernels::ScaledValue>() + source_.first, sizeof(kernels::ScaledValue), &made->values));
		*to = std::move(made);
		return Status::ok();
	}

	/// Whether the segment has dead rows: the masked one also leaves out those that fail.
	bool has_dead() const
	{
		const std::vector<Source> &sources = call_.snapshot.sources;

		return std::any_of(sources.begin(), sources.end(),
			[&](const Source &source) { return source.segment == source_.segment && source.dead != nullptr; });
	}

	Status make_dead()
	{
		auto made = std::make_shared<Held>();

		VECTORGPU_TRY(made->allocate(budget_, (size_t{order_.n} + 31) / 32 * sizeof(uint32_t), "rows that pass"));
		rows_->dead = made;
		return call_.check(
			kernels::launch_pack_dead(order_, source_.rows(), made->as<uint32_t>(), call_.stream()), "pack rows");
	}

	Status pack(const void *from, uint32_t bytes, Held *to)
	{
		VECTORGPU_TRY(to->allocate(budget_, size_t{order_.n} * bytes, "rows that pass"));
		return call_.check(kernels::launch_pack(order_, from, bytes, to->as<uint8_t>(), call_.stream()), "pack rows");
	}

	const SearchCall &call_;
	Budget *const budget_;
	const engine::PassingSegment &segment_;
	const Source &source_; // masked
	std::shared_ptr<PackedRows> rows_;
	std::shared_ptr<const Held> list_;
	std::shared_ptr<const Held> places_;
	kernels::PackOrder order_;
};

/// The source whose rows that pass are packed as a search takes it.
Source
packed_source(const Source &masked, const PackedRows &rows)
{
	Source source = masked;

	source.block = rows.block;
	source.first = 0;
	source.n_rows = rows.n_rows;
	source.dead = rows.dead;
	source.dead_start = 0;
	source.dead_bits = rows.dead == nullptr ? 0 : rows.n_rows;
	source.rows_ascending = masked.rows_ascending && masked.lists == nullptr;
	source.lists = nullptr;
	source.passing = nullptr;
	source.cut = {};
	source.graph = nullptr;
	source.rounded = rows.rounded;
	return source;
}

} // namespace

std::shared_ptr<const PackedRows>
PackedSlot::rows() const
{
	const std::lock_guard lock(mutex_);

	return rows_;
}

bool
PackedSlot::ask(size_t n_queries, uint32_t least_queries)
{
	const std::lock_guard lock(mutex_);

	n_queries_ += n_queries;
	if (rows_ != nullptr || is_being_made_ || n_queries_ < uint64_t{least_queries} * patience_)
		return false;
	is_being_made_ = true;
	return true;
}

void
PackedSlot::put(std::shared_ptr<const PackedRows> rows)
{
	const std::lock_guard lock(mutex_);

	rows_ = std::move(rows);
	n_queries_ = 0;
	is_being_made_ = false;
}

std::shared_ptr<const PackedRows>
PackedSlot::take()
{
	const std::lock_guard lock(mutex_);

	if (rows_ != nullptr)
	{
		n_queries_ = 0;
		patience_ = std::min(2 * patience_, kMostPatience);
	}
	return std::exchange(rows_, nullptr);
}

bool
PackedPool::serves(const SearchCall &call, const engine::PassingSegment &segment, const Source &source) const
{
	const uint64_t n_saved = segment.n_rows - segment.n_pass;

	return tuning_.on && source.filterable && source.dead != nullptr && n_saved > 0 &&
		segment.n_pass >= std::max(tuning_.least_rows, 1u) && call.spec.element != ElementType::kBit &&
		n_saved * source.filter_rows(1, 1).pitch_bytes >= tuning_.least_saved_bytes;
}

Status
PackedPool::use(const SearchCall &call, Budget *budget, const engine::Passing &passing, size_t n_queries,
	Snapshot *view, Found *found)
{
	*found = {};
	for (Source &source : view->sources)
	{
		const engine::PassingSegment *const segment =
			source.segment == engine::kDeltaSegment ? nullptr : passing.find(source.segment);

		if (segment == nullptr || !serves(call, *segment, source))
			continue;

		const std::shared_ptr<PackedSlot> slot = kept_of(call.device, *segment, source).packed;

		if (slot == nullptr)
			continue;
		if (n_queries > 0 && slot->ask(n_queries, tuning_.least_queries))
			VECTORGPU_TRY(pack(call, budget, *segment, source, slot));

		const std::shared_ptr<const PackedRows> rows = slot->rows();

		if (rows == nullptr)
		{
			found->missing = true;
			continue;
		}
		slot->last_use.store(n_uses_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
		view->n_rows -= source.n_rows - rows->n_rows;
		source = packed_source(source, *rows);
		found->any = true;
	}
	return Status::ok();
}

/// Pack the rows of a slot that has asked for it, if there is room.
Status
PackedPool::pack(const SearchCall &call, Budget *budget, const engine::PassingSegment &segment, const Source &source,
	const std::shared_ptr<PackedSlot> &slot)
{
	struct Ending // also by an exception
	{
		PackedSlot *slot;
		std::shared_ptr<const PackedRows> made;

		~Ending() { slot->put(std::move(made)); }
	} ending{slot.get(), nullptr};

	if (!make_room(*budget, segment.n_pass * packed_row_bytes(source)))
		return Status::ok();
	VECTORGPU_TRY(Packing(call, budget, segment, source).run(&ending.made));
	if (ending.made == nullptr)
		return Status::ok();

	const std::lock_guard lock(mutex_);

	std::erase_if(slots_, [](const auto &held) { return held.expired(); });
	if (std::none_of(slots_.begin(), slots_.end(), [&](const auto &held) { return held.lock() == slot; }))
		slots_.push_back(slot);
	return Status::ok();
}

/// Give up the packed rows that were used least lately, until these bytes fit their part of the budget. False if they
/// do not, or if a quarter of the budget would not stay free.
bool
PackedPool::make_room(const Budget &budget, uint64_t bytes)
{
	struct Made
	{
		std::shared_ptr<PackedSlot> slot;
		uint64_t bytes;
		uint64_t last_use; // as of now: other searches go on
	};
	const uint64_t most = budget.most() / std::max(tuning_.budget_part, 1u);
	std::vector<Made> made;
	uint64_t taken = 0;

	for (const std::shared_ptr<PackedSlot> &slot : slots())
		if (const std::shared_ptr<const PackedRows> rows = slot->rows(); rows != nullptr)
		{
			made.push_back({slot, rows->bytes, slot->last_use.load(std::memory_order_relaxed)});
			taken += rows->bytes;
		}

	const uint64_t used = budget.used(); // other threads change it
	const uint64_t others = used - std::min(taken, used);

	if (bytes > most || others + bytes > budget.most() / 4 * 3)
		return false;
	std::sort(made.begin(), made.end(), [](const Made &a, const Made &b) { return a.last_use < b.last_use; });
	for (const Made &one : made)
	{
		if (taken + bytes <= most && others + taken + bytes <= budget.most() / 4 * 3)
			break;
		(void) one.slot->take();
		taken -= one.bytes;
	}
	return true;
}

bool
PackedPool::drop()
{
	constexpr auto kLook = std::chrono::microseconds(100);
	constexpr int kMostLooks = 500;
	std::vector<std::shared_ptr<const PackedRows>> dropped;

	for (const std::shared_ptr<PackedSlot> &slot : slots())
		if (std::shared_ptr<const PackedRows> rows = slot->take(); rows != nullptr)
			dropped.push_back(std::move(rows));
	// Searches that read them end soon; before, their memory is not free.
	for (const std::shared_ptr<const PackedRows> &rows : dropped)
		for (int i = 0; i < kMostLooks && rows->block.use_count() > 1; i++)
			std::this_thread::sleep_for(kLook);
	return !dropped.empty();
}

std::vector<std::shared_ptr<PackedSlot>>
PackedPool::slots()
{
	const std::lock_guard lock(mutex_);
	std::vector<std::shared_ptr<PackedSlot>> found;

	for (const std::weak_ptr<PackedSlot> &held : slots_)
		if (std::shared_ptr<PackedSlot> slot = held.lock(); slot != nullptr)
			found.push_back(std::move(slot));
	return found;
}

} // namespace vectorgpu::cuda
