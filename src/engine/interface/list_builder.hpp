// An engine's part in the build of an index with inverted lists. It trains centroids on a sample, assigns rows to them
// as they stream by, codes them on request, and finds on the way the nearest rows of some queries, by which the index
// is calibrated. It keeps the sample, the centroids, the model of codes and the results of the queries, never the
// table.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "common/limits.hpp"
#include "common/status.hpp"
#include "engine/distance/distance.hpp"
#include "engine/interface/engine.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/list_metric.hpp"
#include "engine/ivf/counts/code_counter.hpp"
#include "engine/ivf/list_coder.hpp"
#include "engine/ivf/work.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine
{

struct ListBuildSpec
{
	DistanceSpec rows;       // the rows sent: no sets; metric: of neighbours and lists (engine/ivf/README.md)
	uint32_t n_clusters = 0; // to be trained, or given
	uint32_t n_training = 0; // training rows that will come
	uint32_t n_queries = 0;  // queries that will come
	uint32_t k = 0;          // neighbours of each query
	uint64_t seed = 1;
	uint32_t max_iterations = 10;
	float tolerance = 3e-3f;
};

/// kInvalidArgument or kUnsupported for a spec that no engine can work with.
inline Status
check_list_build(const ListBuildSpec &spec)
{
	constexpr uint32_t kMostQueries = 4096;
	constexpr uint32_t kMostNeighbors = 256;

	if (spec.rows.element == ElementType::kSet)
		return Status::error(StatusCode::kUnsupported, "the element type has no centroids");
	if (!metric_supports(spec.rows.metric, spec.rows.element))
		return Status::error(StatusCode::kUnsupported, "the element type does not have the metric");
	if (spec.rows.dim < 1 ||
		spec.rows.dim >
			static_cast<uint32_t>(spec.rows.element == ElementType::kBit ? kMaxBitDimensions : kMaxDimensions))
		return Status::error(StatusCode::kInvalidArgument, "the number of dimensions is out of range");
	if (spec.n_clusters < 1 || spec.n_clusters > ivf::kMaxClusters || spec.n_training > INT32_MAX)
		return Status::error(StatusCode::kInvalidArgument, "the number of clusters or rows is out of range");
	if (spec.n_queries > kMostQueries || spec.k > kMostNeighbors || (spec.n_queries > 0 && spec.k == 0))
		return Status::error(StatusCode::kInvalidArgument, "the number of queries or neighbours is out of range");
	return Status::ok();
}

/// One build, for one thread at a time. Steps out of order are kInvalidArgument.
class ListBuilder
{
public:
	explicit ListBuilder(const ListBuildSpec &spec) : spec_(spec) {}
	virtual ~ListBuilder() = default;
	ListBuilder(const ListBuilder &) = delete;
	ListBuilder &operator=(const ListBuilder &) = delete;

	/// The next rows of the sample: vectors [n, dim] of the rows' element.
	Status add_training(const void *vectors, size_t n)
	{
		if (!centroids_.empty() || n > spec_.n_training - n_sample_)
			return Status::error(StatusCode::kInvalidArgument, "more training rows than were announced");
		sample_.reserve(
			size_t{spec_.n_training} * spec_.rows.dim); // at once: a growing vector takes up to twice as much
		sample_.resize((n_sample_ + n) * spec_.rows.dim);

		float *to = sample_.data() + n_sample_ * spec_.rows.dim;

		ivf::list_floats(spec_.rows, vectors, n, to);
		if (is_spherical())
			ivf::normalise_rows(to, n, spec_.rows.dim);
		n_sample_ += n;
		return Status::ok();
	}

	/// Train centroids [n_used] once the sample is complete.
	Status train()
	{
		if (n_sample_ != spec_.n_training || !centroids_.empty())
			return Status::error(StatusCode::kInvalidArgument, "training rows are missing");

		std::vector<float> trained(static_cast<size_t>(spec_.n_clusters) * spec_.rows.dim);
		ivf::KMeansSpec spec;

		spec.dim = spec_.rows.dim;
		spec.n_clusters = spec_.n_clusters;
		spec.n_rows = n_sample_;
		spec.kind = ivf::list_kind(spec_.rows.metric);
		spec.seed = spec_.seed;
		spec.max_iterations = spec_.max_iterations;
		spec.tolerance = spec_.tolerance;

		Status status = train_rows(spec, sample_.data(), trained.data(), &report_);

		if (!status.is_ok())
			return status;
		std::vector<float>().swap(sample_);
		trained.resize(std::max<size_t>(report_.n_used, 1) * spec_.rows.dim); // behind them are copies of the first
		return take_centroids(std::move(trained));
	}

	/// Instead of a training: centroids [n, dim], the next of n_clusters.
	Status add_centroids(const float *centroids, size_t n)
	{
		const size_t dim = spec_.rows.dim;
		const size_t n_before = given_.size() / dim;

		if (!centroids_.empty() || n > spec_.n_clusters - n_before)
			return Status::error(StatusCode::kInvalidArgument, "more centroids than were announced");
		given_.insert(given_.end(), centroids, centroids + n * dim);
		return n_before + n == spec_.n_clusters ? take_centroids(std::move(given_)) : Status::ok();
	}

	/// Announce that rows will be coded. Called after the centroids are set, before rows are assigned.
	Status begin_codes(const ListCodeSpec &spec)
	{
		const Status good = check_list_codes(spec);

		if (spec_.rows.element == ElementType::kBit)
			return Status::error(StatusCode::kUnsupported, "bit strings are not coded");
		if (!lists_ready_ || coder_ != nullptr || spec.codes.dim != spec_.rows.dim ||
			spec.codes.metric != spec_.rows.metric)
			return Status::error(StatusCode::kInvalidArgument, "the codes do not match the rows");
		if (good.is_ok())
			coder_ = std::make_unique<ListCoder>(spec);
		return good;
	}

	/// The next rows of the sample that codes are trained on: vectors [n, dim] of the rows' element.
	Status add_code_training(const void *vectors, size_t n)
	{
		if (coder_ == nullptr)
			return no_codes();
		batch_.resize(n * spec_.rows.dim);
		ivf::list_floats(spec_.rows, vectors, n, batch_.data());
		if (is_spherical())
			ivf::normalise_rows(batch_.data(), n, spec_.rows.dim);
		return coder_->add_training(batch_.data(), n);
	}

	/// Train codes once the sample is complete: sets code_model(); rows can then be coded.
	Status train_codes()
	{
		if (coder_ == nullptr || !coder_->wants_training() || !coder_->sample_complete())
			return Status::error(StatusCode::kInvalidArgument, "training rows of the codes are missing");

		const size_t n = coder_->spec().n_training;
		std::vector<uint32_t> labels(n);
		std::vector<float> scores(n);
		Status status = Status::ok();

		if (coder_->spec().codes.kind == ivf::CodeKind::kPq) // codes of residuals
			status = assign_rows(coder_->sample().data(), n, labels.data(), scores.data());
		if (status.is_ok())
			status = coder_->train(centroids_.data(), labels.data(), host_call());
		return status.is_ok() ? coder_->start(centroids_.data(), n_lists(), host_call()) : status;
	}

	/// Instead of a training: the next floats of the codes' model (ivf::make_code_model). After the last of them rows
	/// can be coded.
	Status add_code_model(const float *floats, size_t n)
	{
		if (coder_ == nullptr)
			return no_codes();

		const Status status = coder_->add_model(floats, n);

		return status.is_ok() && coder_->ready() ? coder_->start(centroids_.data(), n_lists(), host_call()) : status;
	}

	/// Null: rows are not coded.
	const ListCoder *coder() const { return coder_.get(); }

	/// The next queries: vectors [n, dim] of the rows' element. Called before rows are assigned.
	Status add_queries(const void *vectors, size_t n)
	{
		const size_t n_before = queries_.size() / spec_.rows.dim;

		if (n > spec_.n_queries - n_before)
			return Status::error(StatusCode::kInvalidArgument, "more queries than were announced");
		queries_.resize((n_before + n) * spec_.rows.dim);
		ivf::list_floats(spec_.rows, vectors, n, queries_.data() + n_before * spec_.rows.dim);
		if (spec_.rows.element == ElementType::kBit)
		{
			const uint8_t *bits = static_cast<const uint8_t *>(vectors);

			bits_.insert(bits_.end(), bits, bits + n * vector_bytes(ElementType::kBit, spec_.rows.dim));
		}
		if (n_before + n < spec_.n_queries)
			return Status::ok();

		const Status status = start_queries();

		queries_ready_ = status.is_ok();
		return status;
	}

	/// Set labels [n] and scores [n] to the list of each row and its canonical L2 score (for cosine of the row and
	/// centroids of length 1). first: the number of the first row, by which neighbors() names it. coded: arrays for the
	/// codes that begin_codes asked for.
	Status assign(
		uint64_t first, const void *vectors, size_t n, uint32_t *labels, float *scores, const CodedRows &coded = {})
	{
		if (!lists_ready_)
			return Status::error(StatusCode::kInvalidArgument, "there are no centroids");
		if (!queries_.empty() && !queries_ready_)
			return Status::error(StatusCode::kInvalidArgument, "queries are missing");
		if (coder_ != nullptr && (!coder_->started() || coded.codes == nullptr))
			return Status::error(StatusCode::kInvalidArgument, "codes have no model or no output arrays");

		RowBatch batch = {first, vectors, nullptr, nullptr, n, !queries_.empty()};

		convert(&batch);

		Status status = take_rows(batch, labels, scores);

		if (!status.is_ok() || coder_ == nullptr)
			return status;
		status = encode_rows(*coder_, batch.rows, labels, n, coded);
		if (status.code == StatusCode::kUnsupported || status.code == StatusCode::kOutOfMemory)
			status = coder_->encode(batch.rows, labels, n, coded, host_call());
		return status;
	}

	/// Announce queries that rows are counted for by their codes. The codes have a model.
	Status begin_counts(const CodeCountSpec &spec)
	{
		const Status good = check_code_counts(spec);

		if (coder_ == nullptr || !coder_->started())
			return no_codes();
		if (good.is_ok())
			counter_ = std::make_unique<CodeCounter>(coder_->code_model(), spec, n_lists());
		return good;
	}

	/// The next queries (CodeCounter::query_bytes each), then rows, with their numbers (CodeCounter::row_bytes each).
	Status add_counted(const uint8_t *queries, size_t n)
	{
		return counter_ == nullptr ? no_counts() : counter_->add_queries(queries, n);
	}
	Status count_codes(uint64_t first, const uint8_t *rows, size_t n)
	{
		return counter_ == nullptr ? no_counts() : counter_->count(first, rows, n, host_call());
	}

	/// Null: nothing is counted.
	const CodeCounter *counter() const { return counter_.get(); }

	/// Set found to the nearest rows of the queries: [n_queries, k] in (score, number) order, kNoNeighbor behind the
	/// last.
	virtual Status neighbors(std::vector<Neighbor> *found) = 0;
	static constexpr RowId kNoNeighbor = ~RowId{0};

	const ListBuildSpec &spec() const { return spec_; }
	const std::vector<float> &centroids() const { return centroids_; }
	const ivf::KMeansReport &report() const { return report_; }

protected:
	/// Rows to be assigned.
	struct RowBatch
	{
		uint64_t first;      // number of the first one
		const void *vectors; // as they were sent
		const float *floats; // [n, dim] the same in float32
		const float *rows;   // [n, dim] what is assigned: for cosine of length 1
		size_t n;
		bool offered; // to the queries

		RowBatch part(const DistanceSpec &spec, size_t begin, size_t n_rows) const
		{
			return {first + begin, static_cast<const uint8_t *>(vectors) + begin * vector_bytes(spec.element, spec.dim),
				floats + begin * spec.dim, rows + begin * spec.dim, n_rows, offered};
		}
	};

	// For a builder that is made of others, on several devices: their parts of its own calls.

	/// Give another builder, which has received nothing, this one's centroids and queries.
	Status give_lists(ListBuilder *to) const { return to->take_centroids(centroids_); }
	Status give_queries(ListBuilder *to) const
	{
		to->queries_ = queries_;
		to->bits_ = bits_;

		const Status status = to->start_queries();

		to->queries_ready_ = status.is_ok();
		return status;
	}
	static Status train_rows_in(
		ListBuilder *other, const ivf::KMeansSpec &spec, const float *rows, float *centroids, ivf::KMeansReport *report)
	{
		return other->train_rows(spec, rows, centroids, report);
	}
	static Status assign_rows_in(ListBuilder *other, const float *rows, size_t n, uint32_t *labels, float *scores)
	{
		return other->assign_rows(rows, n, labels, scores);
	}
	static Status take_rows_in(ListBuilder *other, const RowBatch &batch, uint32_t *labels, float *scores)
	{
		return other->take_rows(batch, labels, scores);
	}

	static Status encode_rows_in(ListBuilder *other, const ListCoder &coder, const float *rows, const uint32_t *labels,
		size_t n, const CodedRows &coded)
	{
		return other->encode_rows(coder, rows, labels, n, coded);
	}
	static ivf::Call host_call_in(ListBuilder *other) { return other->host_call(); }

	/// kmeans_train on rows [spec.n_rows, dim].
	virtual Status train_rows(
		const ivf::KMeansSpec &spec, const float *rows, float *centroids, ivf::KMeansReport *report) = 0;

	/// Threads of the host, progress and stop, for engine/ivf.
	virtual ivf::Call host_call() = 0;

	/// Called when centroids_ are set; they do not change afterwards.
	virtual Status start_lists() = 0;
	virtual Status assign_rows(const float *rows, size_t n, uint32_t *labels, float *scores) = 0;

	/// Assign rows, and offer them to the queries: rows_together() at a time, so that they are where assign_rows has
	/// put them.
	virtual Status take_rows(const RowBatch &batch, uint32_t *labels, float *scores)
	{
		Status status;

		for (size_t begin = 0; begin < batch.n && status.is_ok(); begin += std::min(rows_together(), batch.n - begin))
		{
			const RowBatch part = batch.part(spec_.rows, begin, std::min(rows_together(), batch.n - begin));

			status = assign_rows(part.rows, part.n, labels + begin, scores + begin);
			if (status.is_ok() && part.offered)
				status = offer_rows(part.first, part.vectors, part.floats, part.n);
		}
		return status;
	}
	virtual size_t rows_together() const { return std::numeric_limits<size_t>::max(); }

	/// Code rows that have just been taken, with the bits of ListCoder::encode. kUnsupported, kOutOfMemory: the host
	/// does it.
	virtual Status encode_rows(const ListCoder &, const float *, const uint32_t *, size_t, const CodedRows &)
	{
		return Status::error(StatusCode::kUnsupported, "the host makes codes");
	}

	/// Called when queries_ [n_queries, dim] are set; they do not change afterwards.
	virtual Status start_queries() = 0;
	/// vectors: the rows as sent; rows: the same in float32.
	virtual Status offer_rows(uint64_t first, const void *vectors, const float *rows, size_t n) = 0;

	/// The distance of neighbours, of rows in float32 (an exact conversion). For bits that of Hamming only: the squared
	/// L2 distance of zeros and ones is the same number.
	DistanceSpec neighbor_spec() const
	{
		return {spec_.rows.metric == Metric::kHamming ? Metric::kL2 : spec_.rows.metric, ElementType::kFloat32,
			spec_.rows.dim};
	}

	/// Query q as sent, for bits only.
	const uint8_t *bits_of_query(size_t q) const
	{
		return bits_.data() + q * vector_bytes(ElementType::kBit, spec_.rows.dim);
	}

	const std::vector<float> &queries() const { return queries_; }
	bool queries_ready() const { return queries_ready_; }

private:
	bool is_spherical() const { return ivf::list_kind(spec_.rows.metric) == ivf::ClusterKind::kSpherical; }

	/// Rows whose floats several threads make.
	struct Conversion
	{
		const DistanceSpec &spec;
		const RowBatch *batch;
		float *floats; // null: they are there
		float *units;  // null: none are wanted
		std::atomic<size_t> next{0};

		void run(const RowBatch &part, size_t offset)
		{
			if (floats != nullptr)
				ivf::list_floats(spec, part.vectors, part.n, floats + offset);
			if (units == nullptr)
				return;
			std::copy_n(part.floats, part.n * spec.dim, units + offset);
			ivf::normalise_rows(units + offset, part.n, spec.dim);
		}

		static void work(void *argument, size_t)
		{
			constexpr size_t kPieceRows = 1024;
			Conversion *all = static_cast<Conversion *>(argument);
			const size_t n = all->batch->n;

			for (size_t at = all->next.fetch_add(kPieceRows); at < n; at = all->next.fetch_add(kPieceRows))
				all->run(all->batch->part(all->spec, at, std::min(kPieceRows, n - at)), at * all->spec.dim);
		}
	};

	/// Set the floats of a batch, and what is assigned. Floats that were sent as such are not copied.
	void convert(RowBatch *batch)
	{
		constexpr size_t kLeastShared = size_t{1} << 18; // elements
		const size_t n_elements = batch->n * spec_.rows.dim;
		const bool as_sent = spec_.rows.element == ElementType::kFloat32 &&
			reinterpret_cast<uintptr_t>(batch->vectors) % alignof(float) == 0;
		Conversion conversion{spec_.rows, batch, nullptr, nullptr};

		if (!as_sent)
		{
			batch_.resize(n_elements);
			conversion.floats = batch_.data();
		}
		batch->floats = batch->rows = as_sent ? static_cast<const float *>(batch->vectors) : batch_.data();
		if (is_spherical())
		{
			unit_batch_.resize(n_elements);
			batch->rows = conversion.units = unit_batch_.data();
		}
		if (conversion.floats == nullptr && conversion.units == nullptr)
			return;
		if (n_elements < kLeastShared)
			return Conversion::work(&conversion, 0);

		const ivf::Call call = host_call();

		ivf::run_workers(call, std::max<size_t>(call.n_threads, 1), Conversion::work, &conversion);
	}

	uint32_t n_lists() const { return static_cast<uint32_t>(centroids_.size() / spec_.rows.dim); }

	static Status no_codes() { return Status::error(StatusCode::kInvalidArgument, "the build makes no codes"); }

	static Status no_counts() { return Status::error(StatusCode::kInvalidArgument, "the build counts no codes"); }

	Status take_centroids(std::vector<float> centroids)
	{
		if (!std::all_of(centroids.begin(), centroids.end(), [](float x) { return std::isfinite(x); }))
			return Status::error(StatusCode::kInvalidArgument, "a centroid is not finite");
		centroids_ = std::move(centroids);

		const Status status = start_lists();

		lists_ready_ = status.is_ok();
		return status;
	}

	const ListBuildSpec spec_;
	size_t n_sample_ = 0;
	std::vector<float> sample_;    // [n_training, dim]
	std::vector<float> given_;     // centroids received so far
	std::vector<float> centroids_; // [n_lists, dim]
	std::vector<float> queries_;   // [n_queries, dim]
	std::vector<uint8_t> bits_;    // the queries as sent, if they are bit strings
	std::vector<float> batch_;
	std::vector<float> unit_batch_; // of length 1, for cosine
	bool lists_ready_ = false;      // start_lists has succeeded
	bool queries_ready_ = false;    // ... and start_queries
	ivf::KMeansReport report_{};
	std::unique_ptr<ListCoder> coder_;     // null: rows are not coded
	std::unique_ptr<CodeCounter> counter_; // of the coder's codes; null: none are counted
};

} // namespace vectorgpu::engine
