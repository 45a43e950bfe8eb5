// See passing_masks.hpp. Bits travel into the workspace, where a kernel joins them with tombstones before the search
// that uses the workspace next on the same stream.
#include "cuda/passing/passing_masks.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/chunk.hpp"
#include "cuda/passing/packed_rows.hpp"
#include "cuda/passing/passing_device.hpp"
#include "engine/ivf/passing_probes.hpp"
#include "kernels/select/pass_bits.hpp"

namespace vectorgpu::cuda
{
namespace
{

class Masks
{
public:
	Masks(const SearchCall &call, Budget *budget, const engine::Passing &passing)
		: call_(call), budget_(budget), passing_(passing),
		  arena_(call.context->workspace.get(), call.context->workspace.bytes()),
		  room_(call.context->masks->as<uint8_t>(), call.context->masks->bytes())
	{
	}

	Status make(Snapshot *view)
	{
		for (const Source &source : call_.snapshot.sources)
		{
			Source masked = source;
			bool any = false;

			if (source.segment == engine::kDeltaSegment)
				VECTORGPU_TRY(mask_delta(&masked, &any));
			else
				VECTORGPU_TRY(mask_segment(&masked, &any));
			if (!any)
				continue;
			view->n_rows += masked.n_rows;
			view->sources.push_back(std::move(masked));
		}
		return Status::ok();
	}

private:
	Status mask_segment(Source *source, bool *any)
	{
		const engine::PassingSegment *const segment = passing_.find(source->segment);

		*any = segment != nullptr && segment->n_pass > 0;
		if (!*any)
			return Status::ok();
		if (!fits(*segment, *source))
			return Status::error(StatusCode::kInvalidArgument, "the rows that pass are not those of the segment");
		if (segment->n_pass == segment->n_rows)
			return Status::ok();

		DevicePassing made = kept_of(call_.device, *segment, *source);

		if (made.dead == nullptr)
		{
			const std::shared_ptr<const Held> found = found_on_device(*segment).bits;
			const uint8_t *bits = found != nullptr ? found->as<uint8_t>() : nullptr;
			uint8_t *dead = nullptr;

			if (bits == nullptr)
				VECTORGPU_TRY(send_bits(*segment, &bits));
			VECTORGPU_TRY(make_room(*source, &made.dead, &dead));

			const bool is_kept = made.dead != call_.context->masks;
			kernels::PassBits pass = {bits, 0, source->n_rows, nullptr};

			if (source->lists != nullptr)
				pass.numbers = source->lists->numbers.as<uint32_t>();
			VECTORGPU_TRY(join(pass, *source, dead));
			arena_.release(0);
			if (!is_kept)
			{
				set_dead(source, made.dead, dead);
				return Status::ok();
			}
			set_dead(source, made.dead, dead);
			VECTORGPU_TRY(count_lists(*source, &made.lists));
			if (call_.options.packed != nullptr)
				made.packed = std::make_shared<PackedSlot>();
			VECTORGPU_TRY(call_.context->stream.synchronize()); // other searches may use it from now on
			keep(call_.device, *segment, *source, made);
		}
		set_dead(source, made.dead, made.dead->as<uint8_t>());
		set_cut(source, *segment, made.lists);
		return Status::ok();
	}

	/// Count the rows of each list that pass, if the masked source has lists of vectors. Goes without where there is no
	/// room: then searches look at all rows.
	Status count_lists(const Source &masked, std::shared_ptr<const PassingLists> *made) const
	{
		if (masked.lists == nullptr || !masked.lists->with_vectors)
			return Status::ok();

		const uint32_t n_lists = masked.lists->n_lists();
		auto lists = std::make_shared<PassingLists>();

		if (!lists->n_pass.allocate(budget_, (size_t{n_lists} + 1) * sizeof(uint32_t), "rows that pass").is_ok())
			return Status::ok();
		VECTORGPU_TRY(call_.check(kernels::launch_ivf_count_live(masked.lists->offsets.as<uint64_t>(), n_lists,
									  masked.rows(), lists->n_pass.as<uint32_t>(), call_.stream()),
			"count rows that pass"));
		*made = std::move(lists);
		return Status::ok();
	}

	/// Of the lists that a query names (passing_probes.cpp), those that it would look at without conditions, with the
	/// same margin, will do if they are full of rows that pass.
	static void set_cut(
		Source *source, const engine::PassingSegment &segment, const std::shared_ptr<const PassingLists> &lists)
	{
		if (lists == nullptr)
			return;

		const double even = engine::ivf::even_lists(1, segment.n_rows, segment.n_pass);

		source->passing = lists;
		source->cut = {lists->n_pass.as<uint32_t>(), static_cast<float>(1 / kMoreToChooseFrom),
			static_cast<float>(1 / (kMoreToChooseFrom * even))};
	}

	/// Rows of the delta from delta_end on fail.
	Status mask_delta(Source *source, bool *any)
	{
		const uint64_t end = std::min(source->position + source->n_rows, passing_.delta_end);
		const uint64_t first = std::max(source->position, passing_.delta_first);
		std::shared_ptr<const Held> held;
		uint8_t *dead = nullptr;

		*any = first < end;
		if (!*any)
			return Status::ok();
		if (delta_bits_ == nullptr)
			VECTORGPU_TRY(send_delta_bits());
		VECTORGPU_TRY(make_room(*source, &held, &dead));
		VECTORGPU_TRY(join({delta_bits_, static_cast<int64_t>(source->position - passing_.delta_first),
							   passing_.delta_end - passing_.delta_first, nullptr},
			*source, dead));
		set_dead(source, held, dead);
		return Status::ok();
	}

	/// Send a segment's bits; those of a listed one are made first.
	Status send_bits(const engine::PassingSegment &segment, const uint8_t **to)
	{
		std::vector<uint8_t> made;

		if (segment.listed)
		{
			made.resize((segment.n_rows + 7) / 8);
			for (const uint32_t row : segment.rows)
				made[row / 8] = static_cast<uint8_t>(made[row / 8] | 1u << row % 8);
		}

		const std::span<const uint8_t> bits = segment.listed ? made : segment.bits;

		uint8_t *const room = arena_.take<uint8_t>(bits.size());

		*to = room;
		return arena_.failed() ? too_small() : send_through(call_, room, bits);
	}

	/// Without a wait if the bits fit the pinned memory that only they use. The delta comes last, so that nothing else
	/// takes their place in the workspace.
	Status send_delta_bits()
	{
		const std::vector<uint8_t> &bits = passing_.delta_bits;
		const PinnedBuffer &pinned = call_.context->masks_in;

		if (bits.size() < (passing_.delta_end - passing_.delta_first + 7) / 8)
			return Status::error(StatusCode::kInvalidArgument, "there are too few bits of the delta");
		delta_bits_ = arena_.take<uint8_t>(bits.size());
		if (arena_.failed())
			return too_small();
		if (bits.size() > pinned.bytes())
			return send_through(call_, delta_bits_, bits);
		std::memcpy(pinned.get(), bits.data(), bits.size());
		return copy_in(call_, delta_bits_, pinned.get(), bits.size());
	}

	/// Room for a bitmap of the source: counted against the budget, to be kept, if it is of a segment; else in
	/// context->masks. *held: what it is part of.
	Status make_room(const Source &source, std::shared_ptr<const Held> *held, uint8_t **dead)
	{
		const size_t bytes = (size_t{source.n_rows} + 7) / 8;
		auto own = std::make_shared<Held>();
		const bool is_segment = source.segment != engine::kDeltaSegment;

		if (!is_segment || !own->allocate(budget_, bytes, "rows that pass").is_ok())
		{
			*dead = room_.take<uint8_t>(bytes);
			if (*dead != nullptr)
			{
				*held = call_.context->masks;
				return Status::ok();
			}
			if (is_segment)
				return too_small();
			VECTORGPU_TRY(own->allocate(budget_, bytes, "rows that pass"));
		}
		*dead = own->as<uint8_t>();
		*held = std::move(own);
		return Status::ok();
	}

	Status join(const kernels::PassBits &pass, const Source &source, uint8_t *dead) const
	{
		return call_.check(kernels::launch_join_dead(pass, source.rows(), dead, call_.stream()), "join rows that pass");
	}

	static void set_dead(Source *source, const std::shared_ptr<const Held> &held, const uint8_t *dead)
	{
		const uint64_t first = static_cast<uint64_t>(dead - held->as<uint8_t>()) * 8;

		source->dead = held;
		source->dead_start = static_cast<int64_t>(first);
		source->dead_bits = first + source->n_rows;
	}

	const SearchCall &call_;
	Budget *const budget_;
	const engine::Passing &passing_;
	Arena arena_;                   // bits on their way
	Arena room_;                    // context->masks
	uint8_t *delta_bits_ = nullptr; // on the device
};

} // namespace

Status
mask_snapshot(const SearchCall &call, Budget *budget, const engine::Passing &passing, Snapshot *view)
{
	return Masks(call, budget, passing).make(view);
}

} // namespace vectorgpu::cuda
