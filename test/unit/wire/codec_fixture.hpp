// Requests as bytes, for the tests of the parsers.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "wire/codec.hpp"

namespace vectorgpu::wire
{

using Bytes = std::vector<uint8_t>;

template <class T>
void
put(Bytes *bytes, const T &value)
{
	const size_t at = bytes->size();

	bytes->resize(at + sizeof(T));
	memcpy(bytes->data() + at, &value, sizeof(T));
}

/// A request whose body is these pieces.
template <class... T>
Bytes
request(RequestType type, const T &...pieces)
{
	Bytes body;
	Bytes whole;

	(put(&body, pieces), ...);
	put(&whole, RequestHeader{type, static_cast<uint32_t>(body.size()), 7, CopyKey{1, 2, 3, 0, 4, 5}, {}});
	for (const uint8_t byte : body)
		whole.push_back(byte);
	return whole;
}

template <size_t n>
struct Filler
{
	uint8_t bytes[n];
};

inline const SearchRequest kSearch = {
	{1, 2, 3}, 10, 0, 0, 0, 5, ElementType::kFloat32, Metric::kL2, 0, 0, 0, 0, 0, 0, 0, 0};

/// Two key columns: one of a stream of four bytes, one of two streams of eight.
inline KeyColumns
key_columns()
{
	KeyColumns keys{};

	keys.n_columns = 2;
	keys.n_streams = 3;
	keys.widths[0] = 4;
	keys.widths[1] = keys.widths[2] = 8;
	keys.columns[1] = keys.columns[2] = 1;
	return keys;
}

inline const BeginGraphRequest kBeginGraph = {5, ElementType::kFloat32, Metric::kInnerProduct, 0, 1, 100, 8, 1, 0, 0};
inline const BeginInsertRequest kBeginInsert = {kBeginGraph, 90, 80};
inline const AddGraphPagesRequest kGraphPages = {
	7, 140, 3, 1, 8192, 131072, 24, 9, {0, 2, 0, 1, 0, 0, 0x56475031, {1, 2, 3}}};
inline const BeginListsRequest kBeginLists = {5, ElementType::kFloat32, Metric::kL2, {}, 4, 3, 2, 10, 1, 20, 1e-3f};

inline const BeginCodesRequest kBeginCodes = {CodesKind::kPq, 8, 1, 0, 4, 300, 0, 1};

inline ParseResult
parse(const Bytes &bytes, uint64_t sequence = 7)
{
	// A copy of exactly this size, so that a sanitizer detects a read beyond the end.
	const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
	RequestView view;

	return parse_request(exact.data(), exact.size(), sequence, &view);
}

} // namespace vectorgpu::wire
