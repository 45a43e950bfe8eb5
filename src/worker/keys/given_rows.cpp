// See given_rows.hpp.
#include "worker/keys/given_rows.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "engine/predicate/row_bits.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::worker
{

namespace
{

using engine::Passing;
using engine::PassingSegment;

/// Takes elements from the front of bytes that may be too few.
class Reader
{
public:
	explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}

	template <class T>
	bool take(T *to, size_t n = 1)
	{
		if (rest_.size() / sizeof(T) < n)
			return false;
		memcpy(to, rest_.data(), n * sizeof(T));
		rest_ = rest_.subspan(n * sizeof(T));
		return true;
	}

	size_t n_left() const { return rest_.size(); }

private:
	std::span<const uint8_t> rest_;
};

/// Take n numbers that ascend and are less than `end`.
bool
take_numbers(Reader *reader, uint32_t n, uint64_t end, std::vector<uint32_t> *numbers)
{
	if (reader->n_left() / sizeof(uint32_t) < n)
		return false;
	numbers->resize(n);
	if (n > 0 && !reader->take(numbers->data(), n))
		return false;
	for (uint32_t i = 1; i < n; i++)
		if ((*numbers)[i] <= (*numbers)[i - 1])
			return false;
	return n == 0 || numbers->back() < end;
}

std::vector<uint8_t>
bits_of(const std::vector<uint32_t> &numbers, uint64_t n)
{
	std::vector<uint8_t> bits(engine::predicate::row_bits_bytes(n));

	for (const uint32_t number : numbers)
		bits[number / 8] = static_cast<uint8_t>(bits[number / 8] | 1u << (number % 8));
	return bits;
}

bool
take_segment(Reader *reader, const wire::GivenSegment &given, PassingSegment *segment)
{
	if (!take_numbers(reader, given.n_given, given.n_rows, &segment->rows))
		return false;
	segment->segment = given.segment;
	segment->n_rows = given.n_rows;
	segment->n_pass = given.n_given;
	segment->listed = segment->n_pass <= segment->n_rows / engine::kFewOfRows;
	if (!segment->listed) // then n_rows is not much greater than the number of bytes
	{
		segment->bits = bits_of(segment->rows, segment->n_rows);
		segment->rows.clear();
	}
	return true;
}

} // namespace

std::shared_ptr<const Passing>
given_rows(std::span<const uint8_t> bytes, uint64_t delta_first, uint64_t delta_end)
{
	auto passing = std::make_shared<Passing>();
	wire::GivenSegment segments[wire::kMaxSegmentsPerCopy];
	std::vector<uint32_t> of_delta;
	wire::GivenRows given;
	Reader reader(bytes);

	passing->delta_first = delta_first / 8 * 8;
	if (!reader.take(&given) || given.n_segments > wire::kMaxSegmentsPerCopy || given.delta_end < delta_first ||
		given.delta_end > delta_end || !reader.take(segments, given.n_segments))
		return nullptr;
	for (uint32_t i = 0; i < given.n_segments; i++)
	{
		auto segment = std::make_shared<PassingSegment>();

		if (segments[i].segment == 0 || (i > 0 && segments[i].segment <= segments[i - 1].segment) ||
			!take_segment(&reader, segments[i], segment.get()))
			return nullptr;
		passing->n_rows += segment->n_rows;
		passing->n_pass += segment->n_pass;
		passing->segments.push_back(std::move(segment));
	}
	if (!take_numbers(&reader, given.n_delta, given.delta_end - passing->delta_first, &of_delta))
		return nullptr;
	passing->delta_end = given.delta_end;
	passing->delta_bits = bits_of(of_delta, given.delta_end - passing->delta_first);
	passing->n_rows += given.delta_end - delta_first;
	passing->n_pass += given.n_delta;
	return passing;
}

} // namespace vectorgpu::worker
