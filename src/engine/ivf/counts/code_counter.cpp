// See code_counter.hpp. Each query is one thread's: a query's tables stay in that thread's caches, and its counts need
// no atomics. Rows far from it are scored where the piece lies; rows near it are gathered first, a hundred of one piece
// and of the next together, since blocks of codes that few rows fill would be scored whole.
#include "engine/ivf/counts/code_counter.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "engine/ivf/work.hpp"

namespace vectorgpu::engine
{
namespace
{

using ivf::CodeSpec;
using ivf::kCodeBlockRows;

constexpr uint32_t kMostBatchRows = 1 << 16;
constexpr uint32_t kMostCountQueries = 1 << 16;
constexpr size_t kTakenRows = 8 * kCodeBlockRows; // near rows that are scored at a time

size_t
term_bytes(const CodeSpec &codes)
{
	return ivf::code_has_terms(codes) ? sizeof(float) : 0;
}

} // namespace

struct CodeCounter::Query
{
	ivf::CountedQuery counted;
	double worst;
	std::vector<float> floats;   // the query, then constants
	std::vector<uint8_t> points; // [n_lists]
	std::vector<uint8_t> memory; // of counted.codes
};

/// Of one thread.
struct CodeCounter::Scratch
{
	std::vector<double> constants; // [batch_rows or kTakenRows]
	std::vector<double> scores;
	size_t n = 0; // near rows taken:
	std::vector<uint64_t> numbers;
	std::vector<uint32_t> labels;
	std::vector<uint8_t> codes;
	std::vector<uint8_t> blocks;
	std::vector<float> terms;
};

/// The rows of a call, in pieces of one batch each, and what threads share.
struct CodeCounter::Job
{
	CodeCounter *counter;
	uint64_t first;
	size_t n;
	const uint8_t *codes; // [n, code_bytes] row by row, once prepared
	const uint8_t *sent;  // [n, row_bytes - 4]
	const ivf::Call &call;
	ivf::Share share;

	uint64_t first_batch() const { return first / batch_rows(); }
	size_t batch_rows() const { return counter->spec_.sampling.batch_rows; }
	size_t n_pieces() const { return (first + n - 1) / batch_rows() - first_batch() + 1; }

	/// The place of a piece's first row among those of the call.
	size_t begin(size_t piece) const
	{
		const uint64_t number = (first_batch() + piece) * batch_rows();

		return number <= first ? 0 : std::min<uint64_t>(number - first, n);
	}
};

Status
check_code_counts(const CodeCountSpec &spec)
{
	if (spec.n_queries < 1 || spec.n_queries > kMostCountQueries || spec.sampling.stride < 1 ||
		spec.sampling.batch_rows < 1 || spec.sampling.batch_rows > kMostBatchRows ||
		spec.sampling.batch_rows % kCodeBlockRows != 0)
		return Status::error(StatusCode::kInvalidArgument, "the number of queries or rows is out of range");
	return Status::ok();
}

size_t
CodeCounter::query_bytes(const CodeSpec &codes, uint32_t n_lists)
{
	const size_t list_bytes = sizeof(uint8_t) + (ivf::code_is_residual(codes) ? sizeof(float) : 0);

	return sizeof(ivf::CountedNeighbors) + codes.dim * sizeof(float) + n_lists * list_bytes;
}

size_t
CodeCounter::row_bytes(const CodeSpec &codes)
{
	return sizeof(uint32_t) + ivf::code_bytes(codes) + term_bytes(codes);
}

uint64_t
code_count_bytes(const CodeSpec &codes, const CodeCountSpec &spec, uint32_t n_lists, size_t n_threads)
{
	const uint64_t query =
		sizeof(ivf::CountedQuery) + CodeCounter::query_bytes(codes, n_lists) + ivf::code_query_bytes(codes);
	const uint64_t thread = 2 * sizeof(double) * std::max<size_t>(spec.sampling.batch_rows, kTakenRows) +
		kTakenRows * (2 * ivf::code_bytes(codes) + 16);

	return spec.n_queries * query + n_threads * thread;
}

CodeCounter::CodeCounter(const ivf::CodeModel &codes, const CodeCountSpec &spec, uint32_t n_lists)
	: codes_(codes), spec_(spec), n_lists_(n_lists)
{
}

CodeCounter::~CodeCounter() = default;

Status
CodeCounter::add_query(const uint8_t *bytes)
{
	const size_t dim = codes_.spec.dim;
	auto query = std::make_unique<Query>();
	ivf::CountedQuery &counted = query->counted;
	const bool has_constants = ivf::code_is_residual(codes_.spec);

	// Copies are checked, since a peer may still change what it sent.
	memcpy(&counted.neighbors, bytes, sizeof(counted.neighbors));
	bytes += sizeof(counted.neighbors);
	query->floats.resize(dim + (has_constants ? n_lists_ : 0));
	memcpy(query->floats.data(), bytes, query->floats.size() * sizeof(float));
	bytes += query->floats.size() * sizeof(float);
	query->points.assign(bytes, bytes + n_lists_);
	if (counted.neighbors.n > ivf::kCountedNeighbors || counted.neighbors.n_copies > ivf::kMostCopies ||
		std::any_of(query->points.begin(), query->points.end(),
			[](uint8_t point) { return point >= ivf::kMaxCalibrationPoints; }) ||
		!std::all_of(query->floats.begin(), query->floats.begin() + static_cast<ptrdiff_t>(dim),
			[](float x) { return std::isfinite(x); }))
		return Status::error(StatusCode::kInvalidArgument, "a query of the calibration is out of range");
	query->worst = ivf::worst_estimate(counted.neighbors);
	counted.constants = has_constants ? query->floats.data() + dim : nullptr;
	counted.points = query->points.data();
	query->memory.resize(ivf::code_query_bytes(codes_.spec));

	const ivf::Outcome prepared = ivf::code_query_prepare(
		codes_, query->floats.data(), query->memory.data(), query->memory.size(), &counted.codes);

	if (!prepared.is_ok())
		return Status::error(prepared.code, prepared.message);
	queries_.push_back(std::move(query));
	return Status::ok();
}

Status
CodeCounter::add_queries(const uint8_t *bytes, size_t n)
{
	if (n > spec_.n_queries - queries_.size())
		return Status::error(StatusCode::kInvalidArgument, "more queries than were announced");

	Status status;

	for (size_t i = 0; i < n && status.is_ok(); i++)
		status = add_query(bytes + i * query_bytes(codes_.spec, n_lists_));
	return status;
}

void
CodeCounter::make_room(size_t n, size_t n_threads)
{
	const CodeSpec &spec = codes_.spec;
	const size_t code_bytes = ivf::code_bytes(spec);
	const bool in_blocks = ivf::code_unit_rows(spec) > 1;
	const size_t most = std::max<size_t>(spec_.sampling.batch_rows, kTakenRows);

	numbers_.resize(n);
	labels_.resize(n);
	terms_.resize(term_bytes(spec) > 0 ? n : 0);
	plain_.resize(term_bytes(spec) > 0 ? n * code_bytes : 0);
	// Every piece begins a block, and the first may begin within a batch.
	blocks_.resize(
		in_blocks ? (n / kCodeBlockRows + n / spec_.sampling.batch_rows + 3) * kCodeBlockRows * code_bytes : 0);
	while (scratch_.size() < n_threads)
	{
		auto scratch = std::make_unique<Scratch>();

		scratch->constants.resize(most);
		scratch->scores.resize(most);
		scratch->numbers.resize(kTakenRows);
		scratch->labels.resize(kTakenRows);
		scratch->codes.resize(kTakenRows * code_bytes);
		scratch->blocks.resize(in_blocks ? kTakenRows * code_bytes : 0);
		scratch->terms.resize(term_bytes(spec) > 0 ? kTakenRows : 0);
		scratch_.push_back(std::move(scratch));
	}
}

/// The first block of a piece: behind those of all pieces before it, each of which may have one that is not full.
static size_t
first_block(size_t begin, size_t piece)
{
	return begin / kCodeBlockRows + piece;
}

/// Split the rows of a piece into codes and terms, and make blocks of them.
void
CodeCounter::prepare_piece(const Job &job, size_t piece)
{
	const CodeSpec &spec = codes_.spec;
	const size_t code_bytes = ivf::code_bytes(spec);
	const size_t sent_bytes = code_bytes + term_bytes(spec);
	const size_t begin = job.begin(piece);
	const size_t end = job.begin(piece + 1);

	for (size_t i = begin; i < end; i++)
	{
		numbers_[i] = job.first + i;
		if (terms_.empty())
			continue;
		memcpy(plain_.data() + i * code_bytes, job.sent + i * sent_bytes, code_bytes);
		memcpy(&terms_[i], job.sent + i * sent_bytes + code_bytes, sizeof(float));
	}
	if (!blocks_.empty() && end > begin)
		ivf::code_make_blocks(spec, job.codes + begin * code_bytes, end - begin,
			blocks_.data() + first_block(begin, piece) * kCodeBlockRows * code_bytes);
}

ivf::CountedRows
CodeCounter::piece_rows(const Job &job, size_t piece, double *constants) const
{
	const size_t code_bytes = ivf::code_bytes(codes_.spec);
	const size_t begin = job.begin(piece);
	ivf::CountedRows rows;

	rows.n = job.begin(piece + 1) - begin;
	rows.numbers = numbers_.data() + begin;
	rows.labels = labels_.data() + begin;
	rows.codes = blocks_.empty() ? job.codes + begin * code_bytes
								 : blocks_.data() + first_block(begin, piece) * kCodeBlockRows * code_bytes;
	rows.terms = terms_.empty() ? nullptr : terms_.data() + begin;
	rows.constants = constants;
	return rows;
}

void
CodeCounter::take_row(const Job &job, size_t i, Scratch *scratch) const
{
	const size_t code_bytes = ivf::code_bytes(codes_.spec);
	const size_t to = scratch->n++;

	scratch->numbers[to] = numbers_[i];
	scratch->labels[to] = labels_[i];
	memcpy(scratch->codes.data() + to * code_bytes, job.codes + i * code_bytes, code_bytes);
	if (!terms_.empty())
		scratch->terms[to] = terms_[i];
}

void
CodeCounter::count_taken(Query *query, Scratch *scratch) const
{
	ivf::CountedRows rows;

	rows.n = scratch->n;
	rows.numbers = scratch->numbers.data();
	rows.labels = scratch->labels.data();
	rows.codes = scratch->codes.data();
	rows.terms = terms_.empty() ? nullptr : scratch->terms.data();
	rows.constants = scratch->constants.data();
	scratch->n = 0;
	if (rows.n == 0)
		return;
	if (!scratch->blocks.empty())
	{
		ivf::code_make_blocks(codes_.spec, rows.codes, rows.n, scratch->blocks.data());
		rows.codes = scratch->blocks.data();
	}
	ivf::count_better(&query->counted, rows, query->worst, {1, 0}, scratch->scores.data());
}

/// Count the rows of a call for query q.
void
CodeCounter::count_query(const Job &job, size_t q, Scratch *scratch)
{
	Query *query = queries_[q].get();
	const size_t n_pieces = job.n_pieces();

	if (query->counted.neighbors.n == 0)
		return;
	for (size_t piece = 0; piece < n_pieces; piece++)
	{
		if (ivf::is_sampled(spec_.sampling, job.first_batch() + piece, q))
		{
			ivf::count_better(&query->counted, piece_rows(job, piece, scratch->constants.data()), query->worst,
				{1, spec_.sampling.stride}, scratch->scores.data());
			continue;
		}

		const size_t end = job.begin(piece + 1);

		for (size_t i = job.begin(piece); i < end; i++)
		{
			if (!ivf::is_near(query->counted, labels_[i]))
				continue;
			take_row(job, i, scratch);
			if (scratch->n == kTakenRows)
				count_taken(query, scratch);
		}
	}
	count_taken(query, scratch);
}

Status
CodeCounter::count(uint64_t first, const uint8_t *bytes, size_t n, const ivf::Call &call)
{
	const size_t n_threads = call.parallel == nullptr ? 1 : std::max<size_t>(call.n_threads, 1);

	if (queries_.size() < spec_.n_queries || n == 0)
		return Status::error(StatusCode::kInvalidArgument, "queries of the calibration are missing");
	make_room(n, n_threads);
	memcpy(labels_.data(), bytes, n * sizeof(uint32_t));
	if (std::any_of(labels_.begin(), labels_.end(), [this](uint32_t label) { return label >= n_lists_; }))
		return Status::error(StatusCode::kInvalidArgument, "a row is in no list");

	const uint8_t *sent = bytes + n * sizeof(uint32_t);
	Job splitting = {this, first, n, terms_.empty() ? sent : plain_.data(), sent, call, {}};
	Job counting = {this, first, n, splitting.codes, sent, call, {}};

	ivf::run_workers(
		call, n_threads,
		[](void *argument, size_t)
		{
			Job &job = *static_cast<Job *>(argument);
			const size_t n_pieces = job.n_pieces();

			for (size_t piece = job.share.take(n_pieces); piece < n_pieces; piece = job.share.take(n_pieces))
				job.counter->prepare_piece(job, piece);
		},
		&splitting);
	ivf::run_workers(
		call, n_threads,
		[](void *argument, size_t worker)
		{
			Job &job = *static_cast<Job *>(argument);
			const size_t n_queries = job.counter->queries_.size();

			for (size_t q = job.share.take(n_queries); q < n_queries; q = job.share.take(n_queries))
			{
				if (worker == 0 && !ivf::go_on(job.call, {q, n_queries}))
					job.share.stop.store(true, std::memory_order_relaxed);
				job.counter->count_query(job, q, job.counter->scratch_[worker].get());
			}
		},
		&counting);
	return counting.share.stop.load(std::memory_order_relaxed) ? Status::error(StatusCode::kCancelled, "canceled")
															   : Status::ok();
}

std::vector<uint32_t>
CodeCounter::counts() const
{
	constexpr size_t kEach = ivf::kCountedNeighbors * ivf::kMaxCalibrationPoints;
	std::vector<uint32_t> all;

	if (queries_.size() < spec_.n_queries)
		return all;
	all.reserve(queries_.size() * kEach);
	for (const std::unique_ptr<Query> &query : queries_)
		all.insert(all.end(), &query->counted.better[0][0], &query->counted.better[0][0] + kEach);
	return all;
}

} // namespace vectorgpu::engine
