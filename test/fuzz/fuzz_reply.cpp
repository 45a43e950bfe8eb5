// libFuzzer target: a reply as a client sees it. Byte 0 selects the request that it answers, the next 8 bytes are its
// sequence number, the rest is the reply area.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "wire/codec.hpp"

using namespace vectorgpu::wire;

namespace
{

void
require(bool condition)
{
	if (!condition)
		std::abort();
}

/// The answers of a SEARCH_MANY: each lies inside the body.
void
parse_each(const std::vector<uint8_t> &reply, uint64_t sequence)
{
	const uint8_t *data = reply.data() + sizeof(ReplyHeader);
	size_t length = reply.size() - sizeof(ReplyHeader);
	const uint8_t *items = nullptr;
	ReplyHeader header;

	while (length > 0 && parse_next_found(&data, &length, sequence, &header, &items) == ParseResult::kOk)
		require(items + header.body_bytes == data && data + length == reply.data() + reply.size() && header.more == 0);
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t sequence = 0;
	ReplyHeader header;

	if (size < 1 + sizeof(sequence))
		return 0;
	memcpy(&sequence, data + 1, sizeof(sequence));

	const RequestType type = static_cast<RequestType>(data[0]);
	const std::vector<uint8_t> reply(data + 1 + sizeof(sequence), data + size);

	if (parse_reply(reply.data(), reply.size(), type, sequence, &header) != ParseResult::kOk)
		return 0;
	require(header.body_bytes + sizeof(header) == reply.size() && header.sequence == sequence);
	require(header.status == ReplyStatus::kOk || (header.body_bytes == 0 && header.n_items == 0 && header.more == 0));
	require(header.more == 0 || header.n_items > 0); // asking for the next part makes progress
	if (type == RequestType::kSearchMany)
		parse_each(reply, sequence);
	if (type != RequestType::kSearch && type != RequestType::kNext)
		return 0;

	std::vector<WireNeighbor> items(header.n_items);

	if (!items.empty())
		memcpy(items.data(), reply.data() + sizeof(header), items.size() * sizeof(WireNeighbor));
	if (neighbors_valid(items.data(), items.size(), nullptr))
		for (size_t i = 1; i < items.size(); i++)
			require(items[i - 1].row != items[i].row || items[i - 1].score != items[i].score);
	return 0;
}
