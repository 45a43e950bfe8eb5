// See key_store.hpp. Segments are evaluated without the lock, since their codes never change, the delta with it.
#include "worker/keys/key_store.hpp"

#include <algorithm>
#include <utility>

#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/program.hpp"
#include "engine/predicate/row_bits.hpp"

namespace vectorgpu::worker
{

namespace
{

using engine::Passing;
using engine::PassingSegment;
using engine::SegmentId;
using engine::predicate::kBlockRows;

constexpr uint64_t kMostKnownBytes = 64 * 1024 * 1024; // of the rows of all programs of a copy
constexpr uint64_t kKnownBytes = 512;                  // of a program and its objects

/// A program with the memory that its steps need.
struct Opened
{
	explicit Opened(std::span<const uint8_t> bytes)
		: steps(engine::predicate::program_steps(bytes.data(), bytes.size()))
	{
		good = !steps.empty() &&
			engine::predicate::program_open(
				bytes.data(), bytes.size(), steps.data(), static_cast<uint32_t>(steps.size()), &program) == nullptr;
	}

	std::vector<engine::predicate::Step> steps;
	engine::predicate::Program program{};
	bool good;
};

std::span<const uint8_t>
bytes_of(const std::string &program)
{
	return {reinterpret_cast<const uint8_t *>(program.data()), program.size()};
}

std::shared_ptr<const PassingSegment>
find_rows(const engine::predicate::Program &program, const wire::KeyColumns &keys, SegmentId id, const KeyArea &area)
{
	auto found = std::make_shared<PassingSegment>();
	KeyColumnCodes columns;

	found->segment = id;
	if (area.held != nullptr && area.held->find_rows(program, found.get()).is_ok())
		return found;
	key_area_columns(keys, area.bytes.data(), area.n_rows, area.zones, &columns);
	found->n_rows = area.n_rows;
	found->bits.resize(engine::predicate::row_bits_bytes(area.n_rows));
	found->n_pass =
		engine::predicate::evaluate_rows(program, columns.data(), 0, area.n_rows, found->bits.data(), nullptr).n_pass;
	found->listed = found->n_pass <= area.n_rows / engine::kFewOfRows;
	if (found->listed)
	{
		found->rows.resize(found->n_pass);
		(void) engine::predicate::list_rows(found->bits.data(), area.n_rows, found->rows.data(), found->rows.size());
		std::vector<uint8_t>().swap(found->bits);
	}
	return found;
}

/// columns: memory for the result.
engine::KeyArea
area_for_engine(const wire::KeyColumns &keys, const KeyArea &area, KeyColumnCodes *columns)
{
	key_area_columns(keys, area.bytes.data(), area.n_rows, area.zones, columns);
	return {area.bytes, std::span(*columns).first(keys.n_streams), area.n_rows};
}

uint64_t
memory_bytes(const Passing &passing)
{
	uint64_t bytes = kKnownBytes + passing.delta_bits.size();

	for (const std::shared_ptr<const PassingSegment> &segment : passing.segments)
		bytes += sizeof(PassingSegment) + segment->bits.size() + segment->rows.size() * sizeof(uint32_t);
	return bytes;
}

} // namespace

KeyStore::KeyStore(const wire::KeyColumns &keys, FilterCounters *counters)
	: keys_(keys), image_bytes_(key_image_bytes(keys)), counters_(counters), delta_(keys_)
{
}

void
KeyStore::load(SegmentId segment, uint64_t n_rows, std::span<const uint8_t> bytes)
{
	const std::lock_guard lock(mutex_);
	std::shared_ptr<KeyArea> &area = loading_[segment];

	if (area == nullptr)
		area = std::make_shared<KeyArea>();
	area->bytes.reserve(area_bytes(n_rows));
	area->bytes.insert(area->bytes.end(), bytes.begin(), bytes.end());
}

void
KeyStore::seal(SegmentId segment, uint64_t n_rows, engine::Engine *engine, engine::CopyId copy)
{
	std::shared_ptr<KeyArea> area;

	{
		const std::lock_guard lock(mutex_);
		const auto loaded = loading_.find(segment);

		if (loaded == loading_.end())
			return;
		area = loaded->second;
	}

	KeyColumnCodes columns; // the area is the writer's until it is in sealed_

	area->zones.assign(keys_.n_streams, std::vector<engine::predicate::Zone>((n_rows + kBlockRows - 1) / kBlockRows));
	key_area_columns(keys_, area->bytes.data(), n_rows, {}, &columns);
	for (uint32_t i = 0; i < keys_.n_streams; i++)
		engine::predicate::make_zones(columns[i], n_rows, area->zones[i].data());
	area->n_rows = n_rows;
	if (engine != nullptr)
	{
		const engine::KeyArea codes = area_for_engine(keys_, *area, &columns);

		(void) engine->hold_key_codes(copy, codes, &area->held); // else the host evaluates
	}

	const std::lock_guard lock(mutex_);

	sealed_[segment] = std::move(area);
	loading_.erase(segment);
}

void
KeyStore::drop(SegmentId segment)
{
	const std::lock_guard lock(mutex_);

	loading_.erase(segment);
	sealed_.erase(segment);
}

void
KeyStore::publish(std::span<const SegmentId> segments)
{
	const std::lock_guard lock(mutex_);
	Areas live;

	for (const SegmentId segment : segments)
		if (const auto found = sealed_.find(segment); found != sealed_.end())
			live.insert(*found);
	live_.swap(live);
	generation_++;
}

void
KeyStore::append(uint64_t position, const uint8_t *images, uint64_t n_rows)
{
	const std::lock_guard lock(mutex_);

	delta_.append(position, images, n_rows);
}

void
KeyStore::trim(uint64_t position)
{
	const std::lock_guard lock(mutex_);

	delta_.trim(position);
	generation_++;
}

bool
KeyStore::takes(std::span<const uint8_t> program) const
{
	const Opened opened(program);
	KeyColumnCodes columns{};

	if (!opened.good)
		return false;
	for (uint32_t i = 0; i < keys_.n_streams; i++)
		columns[i].width = keys_.widths[i];
	return engine::predicate::program_fits(opened.program, columns.data(), keys_.n_streams);
}

/// Set the rows of the delta. Those that are known are taken over, up to the last full block, and later ones evaluated.
/// The caller holds the lock.
void
KeyStore::evaluate_delta(const engine::predicate::Program &program, const Known &known, Passing *made) const
{
	KeyColumnCodes columns;
	uint64_t begin = 0;

	made->delta_first = delta_.base();
	made->delta_end = delta_.end();

	const uint64_t n_delta = made->delta_end - made->delta_first;

	made->delta_bits.resize(engine::predicate::row_bits_bytes(n_delta));
	if (known.passing != nullptr && known.passing->delta_first == made->delta_first &&
		known.passing->delta_end <= made->delta_end)
	{
		begin = (known.passing->delta_end - made->delta_first) / kBlockRows * kBlockRows;
		std::copy_n(known.passing->delta_bits.begin(), begin / 8, made->delta_bits.begin());
	}
	delta_.columns(&columns);
	(void) engine::predicate::evaluate_rows(
		program, columns.data(), begin, n_delta - begin, made->delta_bits.data() + begin / 8, nullptr);
}

/// Find the rows of a program. known: what is known of it, perhaps of another generation. Takes the lock for the delta.
std::shared_ptr<const Passing>
KeyStore::make(const std::string &program, const Areas &live, const Known &known)
{
	const Opened opened(bytes_of(program));
	auto made = std::make_shared<Passing>();

	for (const auto &[id, area] : live)
	{
		const auto same = [&](const std::shared_ptr<const PassingSegment> &one) { return one->segment == id; };
		std::shared_ptr<const PassingSegment> rows;

		if (known.passing != nullptr)
			if (const auto found = std::find_if(known.passing->segments.begin(), known.passing->segments.end(), same);
				found != known.passing->segments.end())
				rows = *found;
		if (rows == nullptr)
			rows = find_rows(opened.program, keys_, id, *area);
		made->n_rows += rows->n_rows;
		made->n_pass += rows->n_pass;
		made->segments.push_back(std::move(rows));
	}

	const std::lock_guard lock(mutex_);

	evaluate_delta(opened.program, known, made.get());
	made->n_rows += delta_.end() - delta_.first();
	made->n_pass += engine::predicate::count_rows(
		made->delta_bits.data(), delta_.first() - delta_.base(), delta_.end() - delta_.first());
	return made;
}

/// Keep the rows of a program; forget those of the programs that were not used for longest where there is no room.
void
KeyStore::keep(const std::string &program, std::shared_ptr<const Passing> passing, uint64_t generation)
{
	const uint64_t bytes = memory_bytes(*passing) + program.size();
	const std::lock_guard lock(mutex_);
	std::list<KnownProgram *> last(1); // first what may throw
	const auto [at, is_new] = known_.try_emplace(program);
	Known &known = at->second;

	if (is_new)
	{
		last.front() = &*at;
		known.place = last.begin();
		by_use_.splice(by_use_.end(), last);
	}
	known_bytes_ += bytes - known.bytes;
	known = {std::move(passing), generation, bytes, known.place};
	by_use_.splice(by_use_.end(), by_use_, known.place);
	while (known_bytes_ > kMostKnownBytes && known_.size() > 1)
	{
		const auto oldest = known_.find(by_use_.front()->first);

		by_use_.pop_front();
		known_bytes_ -= oldest->second.bytes;
		known_.erase(oldest);
	}
}

/// The rows of the program used last, if it is this one, as of now: searches of a batch often have the same conditions.
std::shared_ptr<const Passing>
KeyStore::passing_of_last(std::span<const uint8_t> program)
{
	const std::lock_guard lock(mutex_);

	if (by_use_.empty())
		return nullptr;

	const auto &[bytes, known] = *by_use_.back();

	if (!std::ranges::equal(bytes_of(bytes), program) || known.generation != generation_ ||
		known.passing->delta_end != delta_.end())
		return nullptr;
	counters_->n_found.fetch_add(1, std::memory_order_relaxed);
	return known.passing;
}

std::shared_ptr<const Passing>
KeyStore::passing(std::span<const uint8_t> program, bool *found)
{
	if (std::shared_ptr<const Passing> last = passing_of_last(program); last != nullptr)
	{
		*found = true;
		return last;
	}

	const std::string bytes(reinterpret_cast<const char *>(program.data()), program.size());
	Known known;
	Areas live;
	uint64_t generation;

	{
		const std::lock_guard lock(mutex_);
		const auto at = known_.find(bytes);

		if (at != known_.end())
		{
			by_use_.splice(by_use_.end(), by_use_, at->second.place);
			known = at->second;
		}
		*found = known.passing != nullptr && known.generation == generation_;
		if (*found && known.passing->delta_end == delta_.end())
		{
			counters_->n_found.fetch_add(1, std::memory_order_relaxed);
			return known.passing;
		}
		live = live_;
		generation = generation_;
	}

	std::shared_ptr<const Passing> made = make(bytes, live, known);

	(*found ? counters_->n_found : counters_->n_made).fetch_add(1, std::memory_order_relaxed);
	keep(bytes, made, generation);
	return made;
}

bool
KeyStore::read_area(SegmentId segment, uint64_t first, uint64_t n_bytes, uint8_t *bytes) const
{
	const std::lock_guard lock(mutex_);
	const auto sealed = sealed_.find(segment);

	if (sealed == sealed_.end() || first > sealed->second->bytes.size() ||
		n_bytes > sealed->second->bytes.size() - first)
		return false;
	std::copy_n(sealed->second->bytes.data() + first, n_bytes, bytes);
	return true;
}

Status
KeyStore::check_held(SegmentId segment, uint64_t first, uint64_t n_bytes, uint64_t *n_different) const
{
	std::shared_ptr<const KeyArea> area;
	KeyColumnCodes columns;

	*n_different = 0;
	{
		const std::lock_guard lock(mutex_);

		if (const auto sealed = sealed_.find(segment); sealed != sealed_.end())
			area = sealed->second;
	}
	if (area == nullptr || area->held == nullptr)
		return Status::ok();

	const Status status = area->held->check(area_for_engine(keys_, *area, &columns), first, n_bytes, n_different);

	return status.code == StatusCode::kOutOfMemory ? Status::ok() : status; // they gave way
}

bool
KeyStore::read_delta(uint64_t first, uint64_t n_rows, uint8_t *images) const
{
	const std::lock_guard lock(mutex_);

	if (first < delta_.first() || first > delta_.end() || n_rows > delta_.end() - first)
		return false;
	delta_.read(first, n_rows, images);
	return true;
}

} // namespace vectorgpu::worker
