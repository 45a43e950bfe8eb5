// Counts rows of codes for the calibration of a build, as code_counts.hpp defines it, with the threads that the caller
// lends. The codes come in parts and are not kept. For engines.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.hpp"
#include "engine/ivf/counts/code_counts.hpp"

namespace vectorgpu::engine
{

struct CodeCountSpec
{
	uint32_t n_queries = 0;
	ivf::CountSampling sampling;
};

/// kInvalidArgument for a spec that cannot be counted by.
Status check_code_counts(const CodeCountSpec &spec);

/// Bytes of host memory that queries, counts and scratch of n_threads take, beside what is proportional to the rows of
/// a call.
uint64_t code_count_bytes(const ivf::CodeSpec &codes, const CodeCountSpec &spec, uint32_t n_lists, size_t n_threads);

/// For one thread at a time. It cannot move: queries point into it.
class CodeCounter
{
public:
	/// spec: checked. codes: complete; it outlives the counter.
	CodeCounter(const ivf::CodeModel &codes, const CodeCountSpec &spec, uint32_t n_lists);
	~CodeCounter();
	CodeCounter(const CodeCounter &) = delete;
	CodeCounter &operator=(const CodeCounter &) = delete;

	/// The bytes of a query: CountedNeighbors, float32 [dim] (for cosine of length 1), with residual codes float32
	/// constants [n_lists], then u8 points [n_lists].
	static size_t query_bytes(const ivf::CodeSpec &codes, uint32_t n_lists);

	/// The next n queries.
	Status add_queries(const uint8_t *bytes, size_t n);

	/// Count rows first .. first + n - 1 of the table: u32 lists [n], then codes [n, code_bytes], each followed by its
	/// float32 term if the codes have terms. Rows come in any order, none twice.
	Status count(uint64_t first, const uint8_t *bytes, size_t n, const ivf::Call &call);

	/// Bytes of a row that is counted.
	static size_t row_bytes(const ivf::CodeSpec &codes);

	/// u32 [n_queries, kCountedNeighbors, kMaxCalibrationPoints]; empty before all queries are there.
	std::vector<uint32_t> counts() const;

private:
	struct Query;
	struct Scratch;
	struct Job;

	Status add_query(const uint8_t *bytes);
	void make_room(size_t n, size_t n_threads);
	void prepare(uint64_t first, const uint8_t *bytes, size_t n, const ivf::Call &call);
	void prepare_piece(const Job &job, size_t piece);
	void count_query(const Job &job, size_t q, Scratch *scratch);
	void take_row(const Job &job, size_t i, Scratch *scratch) const;
	void count_taken(Query *query, Scratch *scratch) const;
	ivf::CountedRows piece_rows(const Job &job, size_t piece, double *constants) const;

	const ivf::CodeModel &codes_;
	const CodeCountSpec spec_;
	const uint32_t n_lists_;
	std::vector<std::unique_ptr<Query>> queries_;
	std::vector<uint64_t> numbers_; // of the rows of a call, as the four below
	std::vector<uint32_t> labels_;
	std::vector<uint8_t> plain_;  // codes row by row, if they have terms or are in blocks
	std::vector<uint8_t> blocks_; // codes of each piece in blocks
	std::vector<float> terms_;
	std::vector<std::unique_ptr<Scratch>> scratch_; // by thread
};

} // namespace vectorgpu::engine
