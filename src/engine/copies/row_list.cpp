// See row_list.hpp.
#include "engine/copies/row_list.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <span>

#include <sys/mman.h>

#include "common/half.hpp"
#include "engine/filter/gemm_filter.hpp"

namespace vectorgpu::engine
{
namespace
{

// A segment's chunks are large, so that the kernel can back them by huge pages: a page fault for every 4 KB takes
// longer than copying the rows. A delta's are small, so that a short delta takes little memory; a view of a long one is
// still cheap to copy.
constexpr size_t kSegmentChunkBytes = size_t{8} << 20;
constexpr size_t kDeltaChunkBytes = size_t{1} << 20;
constexpr size_t kMinChunkRows = 64;
constexpr size_t kMaxChunkRows = size_t{1} << 17;
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kPopulateBytes = kHugePageBytes; // at a time: threads that map memory wait meanwhile
constexpr size_t kCacheLineBytes = 64;
#ifdef MADV_POPULATE_WRITE
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateWrite = 23; // from Linux 5.14; older kernels refuse it
#endif

size_t
round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

size_t
rows_per_chunk(size_t slot_bytes, RowList::Kind kind)
{
	const size_t bytes = kind == RowList::Kind::kSegment ? kSegmentChunkBytes : kDeltaChunkBytes;

	return std::clamp(bytes / slot_bytes, kMinChunkRows, kMaxChunkRows);
}

/// Map n_bytes of zeroed memory, aligned to a huge page if those are asked for. Throws bad_alloc.
void *
map_memory(size_t n_bytes, bool huge_pages)
{
	const size_t asked = n_bytes + (huge_pages ? kHugePageBytes : 0);
	void *mapped = mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED)
		throw std::bad_alloc();
	if (!huge_pages)
		return mapped;

	uint8_t *start = static_cast<uint8_t *>(mapped);
	const size_t before =
		round_up(reinterpret_cast<uintptr_t>(start), kHugePageBytes) - reinterpret_cast<uintptr_t>(start);

	if (before > 0)
		munmap(start, before);
	munmap(start + before + n_bytes, asked - before - n_bytes);
	(void) madvise(start + before, n_bytes, MADV_HUGEPAGE); // without huge pages, small ones do
	return start + before;
}

} // namespace

RowChunk::RowChunk(size_t n_slots, size_t row_bytes, bool with_norms, size_t rounded_bytes, bool huge_pages)
	: row_bytes_(row_bytes), rounded_bytes_(rounded_bytes)
{
	const size_t vector_bytes = round_up(n_slots * row_bytes, kCacheLineBytes);
	const size_t id_bytes = round_up(n_slots * sizeof(RowId), kCacheLineBytes);
	const size_t norm_bytes = with_norms ? round_up(n_slots * sizeof(double), kCacheLineBytes) : 0;
	const size_t rounding_bytes = rounded_bytes > 0 ? round_up(n_slots * sizeof(Rounding), kCacheLineBytes) : 0;

	memory_bytes_ =
		round_up(vector_bytes + id_bytes + norm_bytes + rounding_bytes + n_slots * rounded_bytes, size_t{4096});
	memory_ = map_memory(memory_bytes_, huge_pages);
	vectors_ = static_cast<uint8_t *>(memory_);

	uint8_t *const norms = vectors_ + vector_bytes + id_bytes;
	uint8_t *const roundings = norms + norm_bytes;

	row_ids_ = reinterpret_cast<RowId *>(vectors_ + vector_bytes);
	square_norms_ = with_norms ? reinterpret_cast<double *>(norms) : nullptr;
	roundings_ = rounded_bytes > 0 ? reinterpret_cast<Rounding *>(roundings) : nullptr;
	rounded_ = reinterpret_cast<int8_t *>(roundings + rounding_bytes);
}

RowChunk::~RowChunk()
{
	munmap(memory_, memory_bytes_);
}

void
RowChunk::populate() noexcept
{
	uint8_t *memory = static_cast<uint8_t *>(memory_);

	for (size_t at = 0; at < memory_bytes_; at += kPopulateBytes)
		if (madvise(memory + at, std::min(kPopulateBytes, memory_bytes_ - at), kPopulateWrite) != 0)
			return;
}

namespace
{

bool
is_byte(float x)
{
	return x >= 0 && x <= 255 && x == std::floor(x) && !std::signbit(x);
}

bool
is_half(float x)
{
	return half_to_float(float_to_half(x)) == x;
}

} // namespace

void
RowChunk::fill(const DistanceSpec &spec, size_t at, const RowId *row_ids, const uint8_t *vectors, size_t n)
{
	std::copy_n(row_ids, n, row_ids_ + at);
	if (square_norms_ == nullptr)
	{
		std::copy_n(vectors, n * row_bytes_, vectors_ + at * row_bytes_);
		return;
	}
	for (size_t i = 0; i < n; i++)
	{
		uint8_t *row = vectors_ + (at + i) * row_bytes_;

		std::memcpy(row, vectors + i * row_bytes_, row_bytes_);
		square_norms_[at + i] = square_norm(spec, row); // of the copied row, which is in the cache
		if (roundings_ == nullptr)
			continue;

		const std::span<const float> elements(reinterpret_cast<const float *>(row), spec.dim);

		roundings_[at + i] =
			round_row(spec, elements.data(), square_norms_[at + i], rounded_ + (at + i) * rounded_bytes_);
		all_bytes_ = all_bytes_ && std::all_of(elements.begin(), elements.end(), is_byte);
		all_halves_ = all_halves_ && std::all_of(elements.begin(), elements.end(), is_half);
	}
}

RowList::RowList(const DistanceSpec &spec, Kind kind, Populator *populator, bool with_vectors, bool rounded)
	: spec_(spec), kind_(kind), populator_(populator),
	  row_bytes_(with_vectors ? vector_bytes(spec.element, spec.dim) : 0),
	  with_norms_(with_vectors && gemm_filter_supports(spec)),
	  rounded_bytes_(rounded ? engine::rounded_bytes(spec) : 0),
	  slot_bytes_(
		  row_bytes_ + sizeof(RowId) + (with_norms_ ? sizeof(double) : 0) + (rounded ? rounded_slot_bytes(spec) : 0))
{
	chunk_rows_ = rows_per_chunk(slot_bytes_, kind);
}

/// Return the chunk after the last one. Throws bad_alloc.
std::shared_ptr<RowChunk>
RowList::next_chunk()
{
	// A list may end in its first chunk: small pages take only the memory that it fills.
	const bool huge_pages = kind_ == Kind::kSegment && !writable_.empty();
	const auto make = [&]
	{ return std::make_shared<RowChunk>(chunk_rows_, row_bytes_, with_norms_, rounded_bytes_, huge_pages); };
	std::shared_ptr<RowChunk> chunk = spare_ != nullptr ? std::move(spare_) : make();

	if (huge_pages && populator_ != nullptr)
	{
		try
		{
			spare_ = make();
			populator_->ask(spare_);
		}
		catch (const std::bad_alloc &)
		{
			spare_ = nullptr; // it may not be needed
		}
	}
	return chunk;
}

void
RowList::append(const RowId *row_ids, const uint8_t *vectors, size_t n)
{
	const uint64_t want = last_ + n;
	const size_t had_chunks = chunks_.size();

	// Make room first: a failure here changes nothing.
	try
	{
		while (chunk_start_ + writable_.size() * chunk_rows_ < want)
		{
			std::shared_ptr<RowChunk> chunk = next_chunk();

			chunks_.push_back(chunk);
			writable_.push_back(std::move(chunk));
		}
	}
	catch (...)
	{
		chunks_.resize(had_chunks);
		writable_.resize(had_chunks);
		throw;
	}

	while (n > 0)
	{
		const size_t slot = last_ - chunk_start_;
		const size_t at = slot % chunk_rows_;
		const size_t here = std::min(n, chunk_rows_ - at);

		writable_[slot / chunk_rows_]->fill(spec_, at, row_ids, vectors, here);
		row_ids += here;
		vectors += here * row_bytes_;
		last_ += here;
		n -= here;
	}
}

void
RowList::trim(uint64_t position)
{
	if (position <= first_)
		return;
	first_ = position;
	if (position >= last_)
	{
		// Begin with new chunks: the position may be beyond their slots, and readers may hold them.
		chunks_.clear();
		writable_.clear();
		chunk_start_ = last_ = position;
		return;
	}

	const size_t gone = (position - chunk_start_) / chunk_rows_;

	chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<ptrdiff_t>(gone));
	writable_.erase(writable_.begin(), writable_.begin() + static_cast<ptrdiff_t>(gone));
	chunk_start_ += gone * chunk_rows_;
}

} // namespace vectorgpu::engine
