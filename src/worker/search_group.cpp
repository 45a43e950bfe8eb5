// See search_group.hpp.
#include "worker/search_group.hpp"

#include <cstring>

namespace vectorgpu::worker
{

namespace
{

void
refuse(wire::ReplyHeader *header)
{
	*header = {};
	header->status = wire::ReplyStatus::kRefused;
}

} // namespace

SearchGroup::SearchGroup(size_t n, size_t reply_bytes, uint64_t sequence)
	: searches_(std::make_unique<Search[]>(n)), answers_(n), body_bytes_(reply_bytes), sequence_(sequence),
	  n_open_(n + 1)
{
	body_.reserve(reply_bytes);
}

void
SearchGroup::set_answer(const Search &search, const wire::ReplyHeader &header, std::vector<engine::Neighbor> *rows)
{
	Answer &answer = answers_[static_cast<size_t>(&search - searches_.get())];

	answer.header = header;
	answer.rows.clear();
	if (rows == nullptr)
		return;
	if (rows->size() * sizeof(engine::Neighbor) <= body_bytes_)
		answer.rows = std::move(*rows);
	else // never fits, and is not kept until the others have come
		refuse(&answer.header);
}

const std::vector<uint8_t> &
SearchGroup::body()
{
	size_t room = body_bytes_ - answers_.size() * sizeof(wire::ReplyHeader);

	body_.clear();
	for (Answer &answer : answers_)
	{
		wire::ReplyHeader &header = answer.header;
		size_t bytes = answer.rows.size() * sizeof(engine::Neighbor);

		if (bytes > room)
		{
			refuse(&header);
			bytes = 0;
		}
		room -= bytes;
		header.sequence = sequence_;
		header.n_items = static_cast<uint32_t>(bytes / sizeof(engine::Neighbor));
		header.body_bytes = static_cast<uint32_t>(bytes);

		const uint8_t *const from = reinterpret_cast<const uint8_t *>(&header);
		const uint8_t *const rows = reinterpret_cast<const uint8_t *>(answer.rows.data());

		body_.insert(body_.end(), from, from + sizeof(header));
		body_.insert(body_.end(), rows, rows + bytes);
		std::vector<engine::Neighbor>().swap(answer.rows); // not kept until the next group
	}
	return body_;
}

wire::ReplyStatus
SearchGroup::status() const
{
	for (const Answer &answer : answers_)
		if (answer.header.status == wire::ReplyStatus::kOk)
			return wire::ReplyStatus::kOk;
	return answers_.front().header.status;
}

} // namespace vectorgpu::worker
