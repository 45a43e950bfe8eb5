// See list_builder.hpp: training by kmeans.hpp; rows are assigned batch by batch, and the queries' neighbours found by
// a direct search of each batch. Codes are made here (row_encoder.hpp) or by host threads, with the bits of a backend.
// All device memory is allocated at the start: if there is too little, the caller can still use another engine.
#include "cuda/build/list_builder.hpp"

#include <algorithm>
#include <numeric>

#include "common/cores.hpp"
#include "cuda/build/row_encoder.hpp"
#include "engine/cpu/pool_call.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;

constexpr uint32_t kBatchRows = 4096;       // whose neighbours are found at a time
constexpr uint32_t kMostAssignRows = 33792; // assigned at a time: blocks of 128 rows, two for each of 132 units
constexpr size_t kAssignBytes = 32u << 20;  // of these rows
constexpr size_t kMostThreads = 32;         // of the host, for codes

/// Rows of `dim_pad` float32 that are assigned at a time.
uint32_t
assign_rows_of(size_t dim_pad)
{
	const size_t fit = kAssignBytes / (dim_pad * sizeof(float)) / kernels::kClusterTile * kernels::kClusterTile;

	return static_cast<uint32_t>(std::clamp<size_t>(fit, kBatchRows, kMostAssignRows));
}

class Builder final : public engine::ListBuilder
{
public:
	Builder(const engine::ListBuildSpec &spec, const Device *device, Budget *budget, engine::SearchControl *control)
		: ListBuilder(spec), device_(device)
	{
		context_.device = device;
		context_.budget = budget;
		context_.control = control;
	}

	~Builder() override
	{
		// Work on the stream must not use memory freed now.
		if (!device_->fatal() && device_->use().is_ok())
			(void) context_.stream.synchronize();
	}

	/// kOutOfMemory: the build cannot run on this device.
	Status start()
	{
		const uint32_t dim = spec().rows.dim;

		VECTORGPU_TRY(context_.stream.create(device_));
		if (spec().n_training > 0)
		{
			training_ = std::make_unique<KMeansRoom>();
			VECTORGPU_TRY(training_->create(&context_, spec().n_training, dim, spec().n_clusters));
		}
		VECTORGPU_TRY(centroids_.create(&context_, spec().n_clusters, dim));
		VECTORGPU_TRY(make_row_room());
		return spec().n_queries > 0 ? make_query_room() : Status::ok();
	}

	Status neighbors(std::vector<Neighbor> *found) override
	{
		const size_t n = spec().n_queries;
		const size_t k = spec().k;
		std::vector<uint32_t> counts(n);
		std::vector<kernels::Entry> entries(n * k);

		found->assign(n * k, {0, kNoNeighbor});
		if (!queries_ready())
			return Status::ok();
		VECTORGPU_TRY(device_->use());

		const GpuWait wait(device_);

		VECTORGPU_TRY(read(counts.data(), best_.counts, n * sizeof(uint32_t)));
		VECTORGPU_TRY(read(entries.data(), best_.entries, n * k * sizeof(kernels::Entry)));
		VECTORGPU_TRY(context_.wait());
		for (size_t q = 0; q < n; q++)
			for (size_t i = 0; i < counts[q]; i++)
				(*found)[q * k + i] = {kernels::key_to_score(entries[q * k + i].key), entries[q * k + i].row};
		return Status::ok();
	}

protected:
	Status train_rows(const engine::ivf::KMeansSpec &asked, const float *rows, float *centroids,
		engine::ivf::KMeansReport *report) override
	{
		VECTORGPU_TRY(device_->use());

		const Status status = train_kmeans(&context_, asked, {rows, asked.dim}, false, count_cores(), centroids,
			nullptr, report, nullptr, training_.get());

		if (status.is_ok())
			training_.reset(); // there is only one training
		return status;
	}

	Status start_lists() override
	{
		const uint32_t dim = spec().rows.dim;
		const uint32_t n_lists = static_cast<uint32_t>(centroids().size() / dim);

		VECTORGPU_TRY(device_->use());
		return centroids_.set(centroids().data(), n_lists);
	}

	Status assign_rows(const float *rows, size_t n, uint32_t *labels, float *scores) override
	{
		VECTORGPU_TRY(device_->use());
		for (size_t first = 0; first < n; first += most_rows_)
		{
			const uint32_t here = static_cast<uint32_t>(std::min<size_t>(most_rows_, n - first));
			const GpuWait wait(device_);

			VECTORGPU_TRY(device_->provoke(context_.stream.get()));
			VECTORGPU_TRY(put_rows(rows + first * spec().rows.dim, here));
			VECTORGPU_TRY(rows_.assign(centroids_, true));
			VECTORGPU_TRY(read(labels + first, rows_.labels(), here * sizeof(uint32_t)));
			VECTORGPU_TRY(read(scores + first, rows_.scores(), here * sizeof(float)));
			VECTORGPU_TRY(context_.wait());
		}
		return Status::ok();
	}

	Status encode_rows(const engine::ListCoder &coder, const float *rows, const uint32_t *labels, size_t n,
		const engine::CodedRows &coded) override
	{
		const size_t dim = spec().rows.dim;

		if (!encoder_.serves(coder.spec().codes))
			return Status::error(StatusCode::kUnsupported, "the host makes such codes");
		VECTORGPU_TRY(device_->use());
		VECTORGPU_TRY(encoder_.prepare(&context_, coder, most_rows_));
		std::fill_n(coded.is_out, n, uint8_t{0});
		for (size_t first = 0; first < n; first += most_rows_)
		{
			const uint32_t here = static_cast<uint32_t>(std::min<size_t>(most_rows_, n - first));
			const GpuWait wait(device_);

			// Every batch is assigned before it is coded, so that rows of the same address are the same.
			if (rows_from_ != rows + first * dim || rows_.n() != here)
				VECTORGPU_TRY(put_rows(rows + first * dim, here));
			VECTORGPU_TRY(encoder_.encode(rows_, centroids_, labels + first, first, coded));
		}
		return Status::ok();
	}

	/// What is assigned is on the device when it is offered.
	size_t rows_together() const override { return most_rows_; }

	engine::ivf::Call host_call() override
	{
		if (pool_ == nullptr)
			pool_ = std::make_unique<engine::ThreadPool>(std::min<size_t>(count_cores(), kMostThreads));
		return engine::pool_call(pool_.get(), context_.control);
	}

	Status start_queries() override
	{
		const uint32_t n = spec().n_queries;
		const size_t dim = spec().rows.dim;
		const size_t dim_pad = query_pitch();
		const std::vector<uint32_t> ks(n, spec().k);
		const std::vector<uint32_t> no_counts(n, 0);
		const cudaStream_t stream = context_.stream.get();

		VECTORGPU_TRY(device_->use());

		const GpuWait wait(device_);

		VECTORGPU_TRY(device_->check(
			cudaMemsetAsync(vectors_.as<float>(), 0, n * dim_pad * sizeof(float), stream), "clear queries"));
		VECTORGPU_TRY(device_->check(cudaMemcpy2DAsync(vectors_.as<float>(), dim_pad * sizeof(float), queries().data(),
										 dim * sizeof(float), dim * sizeof(float), n, cudaMemcpyHostToDevice, stream),
			"send queries"));
		VECTORGPU_TRY(send(ks_.as<uint32_t>(), ks.data(), n * sizeof(uint32_t)));
		VECTORGPU_TRY(send(counts_.as<uint32_t>(), no_counts.data(), n * sizeof(uint32_t)));
		queries_.vectors = vectors_.as<float>();
		queries_.k = ks_.as<uint32_t>();
		queries_.n_queries = n;
		queries_.dim_pad = static_cast<uint32_t>(dim_pad);
		best_.entries = entries_.as<kernels::Entry>();
		best_.counts = counts_.as<uint32_t>();
		best_.stride = spec().k;
		candidates_.keys = candidate_keys_.as<uint64_t>();
		candidates_.rows = candidate_rows_.as<uint32_t>();
		candidates_.counts = candidate_counts_.as<uint32_t>();
		candidates_.capacity = kBatchRows;
		return context_.wait(); // the local vectors are freed
	}

	Status offer_rows(uint64_t first, const void *, const float *rows, size_t n) override
	{
		const size_t dim = spec().rows.dim;
		const bool are_there =
			n <= most_rows_ && spec().rows.metric != Metric::kCosine; // came together (rows_together), not scaled

		VECTORGPU_TRY(device_->use()); // not always by the thread that has assigned the rows
		for (size_t begin = 0; begin < n; begin += kBatchRows)
		{
			const uint32_t here = static_cast<uint32_t>(std::min<size_t>(kBatchRows, n - begin));

			if (!are_there)
				VECTORGPU_TRY(put_rows(rows + begin * dim, here));
			VECTORGPU_TRY(
				offer_batch(first + begin, rows_.vectors() + (are_there ? begin * rows_.dim_pad() : 0), here));
		}
		return Status::ok();
	}

private:
	/// Return the elements of a query on the device.
	size_t query_pitch() const
	{
		return (size_t{spec().rows.dim} + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes;
	}

	/// rows [n, dim].
	Status put_rows(const float *rows, uint32_t n)
	{
		rows_from_ = nullptr;
		VECTORGPU_TRY(rows_.put_by_threads(rows, n));
		rows_from_ = rows;
		return Status::ok();
	}

	/// Make room for rows that are assigned at a time: fewer, if there is little memory.
	Status make_row_room()
	{
		const uint32_t dim = spec().rows.dim;

		most_rows_ = assign_rows_of(query_pitch());

		Status status = rows_.create(&context_, most_rows_, dim, 0);

		if (status.code != StatusCode::kOutOfMemory || most_rows_ == kBatchRows)
			return status;
		most_rows_ = kBatchRows;
		return rows_.create(&context_, most_rows_, dim, 0);
	}

	/// Make room for the queries, their results and the scores of a batch.
	Status make_query_room()
	{
		const size_t n = spec().n_queries;
		const size_t k = spec().k;

		VECTORGPU_TRY(vectors_.allocate(context_.budget, n * query_pitch() * sizeof(float), "queries"));
		VECTORGPU_TRY(ks_.allocate(context_.budget, n * sizeof(uint32_t), "queries"));
		VECTORGPU_TRY(entries_.allocate(context_.budget, n * k * sizeof(kernels::Entry), "neighbours"));
		VECTORGPU_TRY(counts_.allocate(context_.budget, n * sizeof(uint32_t), "neighbours"));
		VECTORGPU_TRY(keys_.allocate(context_.budget, n * kBatchRows * sizeof(uint64_t), "scores"));
		VECTORGPU_TRY(minima_.allocate(context_.budget, n * kernels::kMaxGroups * sizeof(uint64_t), "scores"));
		VECTORGPU_TRY(thresholds_.allocate(context_.budget, n * sizeof(uint64_t), "scores"));
		VECTORGPU_TRY(candidate_keys_.allocate(context_.budget, n * kBatchRows * sizeof(uint64_t), "candidates"));
		VECTORGPU_TRY(candidate_rows_.allocate(context_.budget, n * kBatchRows * sizeof(uint32_t), "candidates"));
		VECTORGPU_TRY(candidate_counts_.allocate(context_.budget, n * sizeof(uint32_t), "candidates"));
		return row_ids_.allocate(context_.budget, kBatchRows * sizeof(uint64_t), "row numbers");
	}

	/// rows [n, dim_pad]: device memory.
	Status offer_batch(uint64_t first, const float *rows, uint32_t n)
	{
		const cudaStream_t stream = context_.stream.get();
		const GpuWait wait(device_);
		kernels::ScoreArgs score;
		std::vector<uint64_t> numbers(n);

		std::iota(numbers.begin(), numbers.end(), first);
		VECTORGPU_TRY(send(row_ids_.as<uint64_t>(), numbers.data(), n * sizeof(uint64_t)));
		score.metric = neighbor_spec().metric;
		score.rows.vectors = rows;
		score.rows.row_ids = row_ids_.as<uint64_t>();
		score.rows.n_rows = n;
		score.rows.pitch_bytes = rows_.dim_pad() * static_cast<uint32_t>(sizeof(float));
		score.rows.form = kernels::Form::kFloat32;
		score.queries = queries_;
		score.keys = keys_.as<uint64_t>();
		score.key_stride = kBatchRows;
		score.minima = minima_.as<uint64_t>();
		score.group_rows = kernels::kLanes;

		const uint32_t n_groups = (n + score.group_rows - 1) / score.group_rows;

		VECTORGPU_TRY(device_->check(kernels::launch_scores(score, stream), "score rows"));
		VECTORGPU_TRY(device_->check(kernels::launch_thresholds(queries_, score.minima, n_groups, best_,
										 thresholds_.as<uint64_t>(), candidates_.counts, stream),
			"find thresholds"));
		VECTORGPU_TRY(device_->check(kernels::launch_compact(queries_, score.keys, score.key_stride, n,
										 thresholds_.as<uint64_t>(), candidates_, stream),
			"choose rows"));
		VECTORGPU_TRY(device_->check(
			kernels::launch_merge(queries_, candidates_, row_ids_.as<uint64_t>(), best_, spec().k, stream), "merge"));
		return context_.wait();
	}

	Status send(void *to, const void *from, size_t bytes)
	{
		return device_->check(
			cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, context_.stream.get()), "send numbers");
	}

	Status read(void *to, const void *from, size_t bytes)
	{
		return device_->check(
			cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, context_.stream.get()), "read numbers");
	}

	const Device *device_;
	ClusterContext context_;
	std::unique_ptr<engine::ThreadPool> pool_; // if codes are asked for
	std::unique_ptr<KMeansRoom> training_;     // until the centroids are trained
	ClusterCentroids centroids_;
	ClusterRows rows_;                 // of the batch
	const float *rows_from_ = nullptr; // where they came from
	RowEncoder encoder_;
	uint32_t most_rows_ = kBatchRows; // of the batch
	kernels::Queries queries_;
	kernels::Best best_;
	kernels::Candidates candidates_;
	Held vectors_; // [n_queries, dim_pad]
	Held ks_;
	Held entries_; // [n_queries, k]
	Held counts_;
	Held keys_; // [n_queries, kBatchRows]
	Held minima_;
	Held thresholds_;
	Held candidate_keys_;
	Held candidate_rows_;
	Held candidate_counts_;
	Held row_ids_; // [kBatchRows]
};

} // namespace

Status
make_list_builder(const engine::ListBuildSpec &spec, const Device *device, Budget *budget,
	engine::SearchControl *control, std::unique_ptr<engine::ListBuilder> *builder)
{
	// Bits are clustered as numbers 0 and 1, up to the dimensions of vectors; but Jaccard distances of neighbours are
	// not computed here.
	if (spec.rows.element == ElementType::kBit &&
		((spec.rows.metric != Metric::kHamming && spec.n_queries > 0) ||
			spec.rows.dim > static_cast<uint32_t>(kMaxDimensions)))
		return Status::error(StatusCode::kUnsupported, "the CUDA engine does not build lists of such bit strings");

	auto made = std::make_unique<Builder>(spec, device, budget, control);

	VECTORGPU_TRY(made->start());
	*builder = std::move(made);
	return Status::ok();
}

} // namespace vectorgpu::cuda
