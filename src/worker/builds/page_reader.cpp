// See page_reader.hpp.
#include "worker/builds/page_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

namespace vectorgpu::worker
{
namespace
{

constexpr size_t kCallBytes = size_t{128} << 10; // of a call to the operating system; at least a page
static_assert(kCallBytes >= wire::kMostPageBytes);

/// A file open for reading.
class File
{
public:
	~File() { close(); }
	File() = default;
	File(const File &) = delete;
	File &operator=(const File &) = delete;

	bool open(const std::string &path)
	{
		close();
		fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		return fd_ >= 0;
	}

	bool is_open() const { return fd_ >= 0; }

	/// False if the file ends before.
	bool read(uint64_t at, unsigned char *to, size_t n_bytes) const
	{
		while (n_bytes > 0)
		{
			const ssize_t n = ::pread(fd_, to, n_bytes, static_cast<off_t>(at));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return false;
			to += n;
			at += static_cast<uint64_t>(n);
			n_bytes -= static_cast<size_t>(n);
		}
		return true;
	}

private:
	void close()
	{
		if (fd_ >= 0)
			(void) ::close(fd_);
		fd_ = -1;
	}

	int fd_ = -1;
};

/// Whether a path names a file of a database, as seen from the data directory.
bool
is_of_a_database(const std::string &path)
{
	return (path.starts_with("base/") || path.starts_with("pg_tblspc/")) && path.find('\0') == std::string::npos &&
		("/" + path + "/").find("/../") == std::string::npos;
}

Status
unread()
{
	return Status::error(StatusCode::kUnsupported, "the worker cannot read these pages");
}

} // namespace

PageReader::PageReader(const wire::AddGraphPagesRequest &pages, std::string path)
	: pages_(pages), path_(std::move(path)), payload_offset_(pages.tag_offset + sizeof(wire::WirePageTag)),
	  payload_bytes_(pages.page_bytes - payload_offset_)
{
}

std::optional<PageReader>
PageReader::make(const wire::RequestView &view, uint64_t n_bytes)
{
	const wire::AddGraphPagesRequest &pages = view.graph_pages;
	PageReader reader(pages, std::string(reinterpret_cast<const char *>(view.path), pages.path_bytes));

	if (!is_of_a_database(reader.path_) ||
		pages.start_page + (pages.first + n_bytes) / reader.payload_bytes_ > uint64_t{UINT32_MAX})
		return std::nullopt;
	return reader;
}

bool
PageReader::is_page(const unsigned char *page, uint64_t position) const
{
	wire::WirePageTag tag;

	memcpy(&tag, page + pages_.tag_offset, sizeof(tag));
	return tag.role == pages_.tag.role && tag.stream == pages_.tag.stream && tag.owner == pages_.tag.owner &&
		tag.magic == pages_.tag.magic && tag.position == position &&
		memcmp(tag.uuid, pages_.tag.uuid, sizeof(tag.uuid)) == 0;
}

Status
PageReader::read(uint64_t first, size_t n_bytes, unsigned char *to) const
{
	const size_t pages_per_call = kCallBytes / pages_.page_bytes;
	const auto pages = std::make_unique_for_overwrite<unsigned char[]>(pages_per_call * pages_.page_bytes);
	uint64_t offset = pages_.first + first;
	uint64_t open_file = 0;
	File file;

	while (n_bytes > 0)
	{
		const uint64_t position = offset / payload_bytes_;
		const uint64_t block = pages_.start_page + position;
		const uint64_t of_file = block / pages_.file_pages;
		const uint64_t in_file = block % pages_.file_pages;
		const size_t wanted = (offset % payload_bytes_ + n_bytes + payload_bytes_ - 1) / payload_bytes_;
		const size_t n_pages = std::min({wanted, pages_per_call, static_cast<size_t>(pages_.file_pages - in_file)});

		if (!file.is_open() || open_file != of_file)
		{
			if (!file.open(of_file == 0 ? path_ : path_ + "." + std::to_string(of_file)))
				return unread();
			open_file = of_file;
		}
		if (!file.read(in_file * pages_.page_bytes, pages.get(), n_pages * pages_.page_bytes))
			return unread();
		for (size_t i = 0; i < n_pages; i++)
		{
			const unsigned char *page = pages.get() + i * pages_.page_bytes;
			const size_t start = offset % payload_bytes_;
			const size_t part = std::min(n_bytes, payload_bytes_ - start);

			if (!is_page(page, position + i))
				return unread();
			memcpy(to, page + payload_offset_ + start, part);
			to += part;
			offset += part;
			n_bytes -= part;
		}
	}
	return Status::ok();
}

} // namespace vectorgpu::worker
