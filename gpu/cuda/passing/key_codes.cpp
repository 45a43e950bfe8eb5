// See key_codes.hpp. A program takes one launch and one wait where few rows pass; longer lists and bitmaps take a
// second wait, and stay on the device for the searches that follow.
#include "cuda/passing/key_codes.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "cuda/device/arena.hpp"
#include "cuda/passing/passing_device.hpp"
#include "cuda/search/chunk.hpp"
#include "kernels/select/pass_rows.hpp"

namespace vectorgpu::cuda
{
namespace
{

namespace predicate = engine::predicate;

constexpr uint32_t kFirstRows = 16384; // of the list: these 64 kB come with the counts
constexpr size_t kHeadBytes = 256;     // before the list

uint64_t
padded(uint64_t bytes)
{
	return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

Status
gave_way()
{
	return Status::error(StatusCode::kOutOfMemory, "the codes of key columns are not on the device");
}

/// One evaluation, on a context of its own.
class Evaluation
{
public:
	Evaluation(const Device *device, SearchContext *context, uint32_t n_rows)
		: device_(device), context_(context), arena_(context->workspace.get(), context->workspace.bytes()),
		  n_blocks_((n_rows + kernels::kPassBlockRows - 1) / kernels::kPassBlockRows)
	{
		args_.n_rows = n_rows;
		args_.n_most = static_cast<uint32_t>(n_rows / engine::kFewOfRows);
	}

	/// Decide the rows and wait for the counts. The parts of *found but rows, bits and on_device are set.
	Status run(const predicate::Program &program, std::span<const predicate::ColumnCodes> columns,
		engine::PassingSegment *found)
	{
		const uint32_t n_first = std::min(args_.n_most, kFirstRows);
		const PinnedBuffer &out = context_->pinned_out;

		VECTORGPU_TRY(send(program, columns));
		list_ = arena_.take<uint8_t>(kHeadBytes + size_t{args_.n_most} * sizeof(uint32_t));
		args_.pass = arena_.take<uint32_t>(size_t{n_blocks_} * kernels::kPassBlockRows / 32);
		args_.counts = arena_.take<uint32_t>(n_blocks_);
		if (arena_.failed() || out.bytes() < kHeadBytes + n_first * sizeof(uint32_t))
			return too_small();
		args_.head = reinterpret_cast<kernels::PassHead *>(list_);
		args_.rows = reinterpret_cast<uint32_t *>(list_ + kHeadBytes);
		VECTORGPU_TRY(check(kernels::launch_pass_rows(args_, stream()), "find rows that pass"));
		VECTORGPU_TRY(check(cudaMemcpyAsync(out.get(), list_, kHeadBytes + n_first * sizeof(uint32_t),
								cudaMemcpyDeviceToHost, stream()),
			"read rows that pass"));
		VECTORGPU_TRY(context_->stream.synchronize());

		kernels::PassHead head;

		std::memcpy(&head, out.get(), sizeof(head));
		if (head.n_pass > args_.n_rows)
			return Status::error(StatusCode::kInternal, "more rows pass than there are");
		found->n_rows = args_.n_rows;
		found->n_pass = head.n_pass;
		found->listed = head.n_pass <= args_.n_most;
		return Status::ok();
	}

	/// Read the rows, or the bits, and keep them on the device as far as the budget goes, unless they are so few that
	/// they travel with each batch in no time.
	Status read(Budget *budget, engine::PassingSegment *found)
	{
		const uint8_t *const first = context_->pinned_out.as<uint8_t>() + kHeadBytes;
		std::shared_ptr<PassingOnDevice> kept;

		if (found->listed)
		{
			const size_t n_first = std::min<size_t>(found->n_pass, kFirstRows);

			found->rows.resize(found->n_pass);
			std::memcpy(found->rows.data(), first, n_first * sizeof(uint32_t));
			if (n_first == found->n_pass)
				return Status::ok();
			kept = std::make_shared<PassingOnDevice>();
			VECTORGPU_TRY(keep(budget, args_.rows, found->n_pass * sizeof(uint32_t), &kept->rows));
			VECTORGPU_TRY(copy_out(reinterpret_cast<uint8_t *>(found->rows.data() + n_first),
				reinterpret_cast<const uint8_t *>(args_.rows + n_first), (found->n_pass - n_first) * sizeof(uint32_t)));
		}
		else
		{
			kept = std::make_shared<PassingOnDevice>();
			found->bits.resize((found->n_rows + 7) / 8);
			VECTORGPU_TRY(keep(budget, args_.pass, found->bits.size(), &kept->bits));
			VECTORGPU_TRY(
				copy_out(found->bits.data(), reinterpret_cast<const uint8_t *>(args_.pass), found->bits.size()));
		}
		found->on_device = std::move(kept);
		return Status::ok();
	}

	/// Wait for the stream after an error: the codes may be freed then.
	Status end(const Status &status) const
	{
		if (!status.is_ok() && !device_->fatal())
			VECTORGPU_TRY(context_->stream.synchronize());
		return status;
	}

private:
	cudaStream_t stream() const { return context_->stream.get(); }
	Status check(cudaError_t error, const char *what) const { return device_->check(error, what); }

	/// Send the steps, their codes and the columns, in this order.
	Status send(const predicate::Program &program, std::span<const predicate::ColumnCodes> columns)
	{
		const size_t step_bytes = program.n_steps * sizeof(predicate::Step);
		size_t n_codes = 0;

		for (uint32_t i = 0; i < program.n_steps; i++)
			n_codes += program.steps[i].n_codes;

		const size_t columns_at = step_bytes + n_codes * sizeof(uint64_t);
		const size_t n_bytes = columns_at + columns.size_bytes();
		uint8_t *const to = arena_.take<uint8_t>(n_bytes);
		uint8_t *const pinned = context_->pinned_in.as<uint8_t>();
		size_t at = step_bytes;

		static_assert(sizeof(predicate::Step) % sizeof(uint64_t) == 0);
		if (to == nullptr || n_bytes > context_->pinned_in.bytes())
			return too_small();
		for (uint32_t i = 0; i < program.n_steps; i++)
		{
			predicate::Step step = program.steps[i];
			const size_t bytes = step.n_codes * sizeof(uint64_t);

			std::memcpy(pinned + at, step.codes, bytes);
			step.codes = to + at;
			at += bytes;
			std::memcpy(pinned + i * sizeof(step), &step, sizeof(step));
		}
		std::memcpy(pinned + columns_at, columns.data(), columns.size_bytes());
		args_.steps = reinterpret_cast<const predicate::Step *>(to);
		args_.columns = reinterpret_cast<const predicate::ColumnCodes *>(to + columns_at);
		args_.n_steps = program.n_steps;
		args_.n_streams = program.n_streams;
		return check(cudaMemcpyAsync(to, pinned, n_bytes, cudaMemcpyHostToDevice, stream()), "send a program");
	}

	/// Begin to copy bytes into memory of their own. Without room *kept stays null.
	Status keep(Budget *budget, const void *from, size_t bytes, std::shared_ptr<const Held> *kept) const
	{
		auto made = std::make_shared<Held>();

		if (!made->allocate(budget, bytes, "rows that pass").is_ok())
			return device_->fatal() ? Status::error(StatusCode::kUnavailable, "the GPU is lost") : Status::ok();
		VECTORGPU_TRY(check(cudaMemcpyAsync(made->as<uint8_t>(), from, bytes, cudaMemcpyDeviceToDevice, stream()),
			"keep rows that pass"));
		*kept = std::move(made);
		return Status::ok();
	}

	/// Copy through pinned memory. Waits for the stream.
	Status copy_out(uint8_t *to, const uint8_t *from, size_t n_bytes) const
	{
		const PinnedBuffer &out = context_->pinned_out;

		while (n_bytes > 0)
		{
			const size_t here = std::min(n_bytes, out.bytes());

			VECTORGPU_TRY(
				check(cudaMemcpyAsync(out.get(), from, here, cudaMemcpyDeviceToHost, stream()), "read rows that pass"));
			VECTORGPU_TRY(context_->stream.synchronize());
			std::memcpy(to, out.get(), here);
			to += here;
			from += here;
			n_bytes -= here;
		}
		return Status::ok();
	}

	const Device *const device_;
	SearchContext *const context_;
	Arena arena_;
	const uint32_t n_blocks_;
	uint8_t *list_ = nullptr; // the head, and behind it the list
	kernels::PassRows args_;
};

/// Exceptions become a status: none may leave an engine.
template <class Work>
Status
guarded(const Device *device, Work work)
{
	try
	{
		VECTORGPU_TRY(device->use());
		return work();
	}
	catch (const std::bad_alloc &)
	{
		return Status::error(StatusCode::kOutOfMemory, "out of memory in the CUDA engine");
	}
}

} // namespace

uint64_t
DeviceKeyCodes::zone_bytes() const
{
	return (uint64_t{n_rows_} + predicate::kBlockRows - 1) / predicate::kBlockRows * sizeof(predicate::Zone);
}

Status
DeviceKeyCodes::load(const engine::KeyArea &area)
{
	uint64_t at = padded(area.bytes.size());
	const std::unique_lock lock(mutex_);

	n_rows_ = static_cast<uint32_t>(area.n_rows);
	area_bytes_ = area.bytes.size();
	for (const predicate::ColumnCodes &column : area.columns)
	{
		const auto offset = [&](const void *part)
		{ return static_cast<uint64_t>(static_cast<const uint8_t *>(part) - area.bytes.data()); };

		places_.push_back({offset(column.codes), column.nulls != nullptr ? offset(column.nulls) : 0, at, column.width,
			column.nulls != nullptr});
		at += padded(zone_bytes());
	}
	if (at > budget_->most() / 4 * 3 || budget_->used() > budget_->most() / 4 * 3 - at)
		return Status::error(StatusCode::kOutOfMemory, "too little memory for codes of key columns");
	VECTORGPU_TRY(held_.allocate(budget_, at, "codes of key columns"));

	const std::lock_guard uploading(uploader_->mutex);
	const auto send = [&](uint64_t to, const void *from, uint64_t n_bytes)
	{
		for (uint64_t done = 0; done < n_bytes;)
		{
			const size_t here = std::min<uint64_t>(n_bytes - done, uploader_->pinned.bytes());

			std::memcpy(uploader_->pinned.get(), static_cast<const uint8_t *>(from) + done, here);
			VECTORGPU_TRY(
				budget_->device()->check(cudaMemcpyAsync(held_.as<uint8_t>() + to + done, uploader_->pinned.get(), here,
											 cudaMemcpyHostToDevice, uploader_->stream.get()),
					"send codes of key columns"));
			VECTORGPU_TRY(uploader_->stream.synchronize());
			done += here;
		}
		return Status::ok();
	};

	VECTORGPU_TRY(send(0, area.bytes.data(), area.bytes.size()));
	for (size_t i = 0; i < places_.size(); i++)
		VECTORGPU_TRY(send(places_[i].zones, area.columns[i].zones, zone_bytes()));
	return Status::ok();
}

bool
DeviceKeyCodes::drop()
{
	const std::unique_lock lock(mutex_);
	const bool any = held_.bytes() > 0;

	held_.reset();
	return any;
}

std::vector<predicate::ColumnCodes>
DeviceKeyCodes::columns() const
{
	const uint8_t *const begin = held_.as<uint8_t>();
	std::vector<predicate::ColumnCodes> columns;

	for (const Place &place : places_)
		columns.push_back({begin + place.codes, place.has_nulls ? begin + place.nulls : nullptr,
			reinterpret_cast<const predicate::Zone *>(begin + place.zones), place.width});
	return columns;
}

Status
DeviceKeyCodes::find_rows(const predicate::Program &program, engine::PassingSegment *found)
{
	return guarded(budget_->device(), [&] { return find(program, found); });
}

Status
DeviceKeyCodes::find(const predicate::Program &program, engine::PassingSegment *found)
{
	const ContextPool::Lease context(contexts_);
	const std::shared_lock lock(mutex_);
	engine::PassingSegment made;

	if (held_.bytes() == 0)
		return gave_way();

	Evaluation evaluation(budget_->device(), context.get(), n_rows_);
	const std::vector<predicate::ColumnCodes> all = columns();

	VECTORGPU_TRY(evaluation.end(evaluation.run(program, all, &made)));
	VECTORGPU_TRY(evaluation.end(evaluation.read(budget_, &made)));
	found->n_rows = made.n_rows;
	found->n_pass = made.n_pass;
	found->listed = made.listed;
	found->rows = std::move(made.rows);
	found->bits = std::move(made.bits);
	found->on_device = std::move(made.on_device);
	n_programs_->fetch_add(1, std::memory_order_relaxed);
	return Status::ok();
}

/// Add the bytes from `at` on that differ. The caller holds the mutex.
Status
DeviceKeyCodes::compare(uint64_t at, std::span<const uint8_t> bytes, uint64_t *n_different)
{
	const std::lock_guard uploading(uploader_->mutex);
	const uint8_t *const pinned = uploader_->pinned.as<uint8_t>();

	while (!bytes.empty())
	{
		const size_t here = std::min(bytes.size(), uploader_->pinned.bytes());

		VECTORGPU_TRY(budget_->device()->check(cudaMemcpyAsync(uploader_->pinned.get(), held_.as<uint8_t>() + at, here,
												   cudaMemcpyDeviceToHost, uploader_->stream.get()),
			"read codes of key columns"));
		VECTORGPU_TRY(uploader_->stream.synchronize());
		for (size_t i = 0; i < here; i++)
			*n_different += pinned[i] != bytes[i] ? 1 : 0;
		at += here;
		bytes = bytes.subspan(here);
	}
	return Status::ok();
}

Status
DeviceKeyCodes::check(const engine::KeyArea &area, uint64_t first, uint64_t n_bytes, uint64_t *n_different)
{
	return guarded(budget_->device(),
		[&]
		{
			const std::shared_lock lock(mutex_);

			*n_different = 0;
			if (area.bytes.size() != area_bytes_ || area.n_rows != n_rows_ || area.columns.size() != places_.size() ||
				first > area_bytes_ || n_bytes > area_bytes_ - first)
				return Status::error(StatusCode::kInvalidArgument, "the codes are not those of the segment");
			if (held_.bytes() == 0)
				return gave_way();
			VECTORGPU_TRY(compare(first, area.bytes.subspan(first, n_bytes), n_different));
			if (first != 0)
				return Status::ok();
			for (size_t i = 0; i < places_.size(); i++)
				VECTORGPU_TRY(compare(places_[i].zones,
					{reinterpret_cast<const uint8_t *>(area.columns[i].zones), zone_bytes()}, n_different));
			return Status::ok();
		});
}

} // namespace vectorgpu::cuda
