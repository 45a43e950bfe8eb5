// Reads a stream of bytes from the pages of an index, which a session names (wire::AddGraphPagesRequest), past the
// server. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/status.hpp"
#include "wire/codec.hpp"

namespace vectorgpu::worker
{

class PageReader
{
public:
	/// The reader of n_bytes of the request's stream. None if the path leads elsewhere than to files of a database, or
	/// the pages cannot be those of a relation. Throws bad_alloc.
	static std::optional<PageReader> make(const wire::RequestView &view, uint64_t n_bytes);

	/// Read bytes [first, first + n_bytes) of these. kUnsupported: a file cannot be read, or a page is another one.
	Status read(uint64_t first, size_t n_bytes, unsigned char *to) const;

private:
	PageReader(const wire::AddGraphPagesRequest &pages, std::string path);
	bool is_page(const unsigned char *page, uint64_t position) const;

	wire::AddGraphPagesRequest pages_;
	std::string path_;
	size_t payload_offset_;
	size_t payload_bytes_; // of a page
};

} // namespace vectorgpu::worker
