// See cpu_engine_list_builder.hpp.
#include "engine/cpu/cpu_engine_list_builder.hpp"

#include <atomic>

#include "engine/cpu/pool_call.hpp"
#include "engine/ivf/coarse.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kRowsTogether = 256;         // of a neighbours' search, compared with one query after another,
constexpr size_t kBytesTogether = 128 * 1024; // ... of at most as many bytes: they stay in the L2 cache
constexpr size_t kQueriesPerTask = 16;

class CpuListBuilder final : public ListBuilder
{
public:
	CpuListBuilder(const ListBuildSpec &spec, ThreadPool *pool, SearchControl *control)
		: ListBuilder(spec), pool_(pool), control_(control)
	{
	}

	Status neighbors(std::vector<Neighbor> *found) override
	{
		found->assign(static_cast<size_t>(spec().n_queries) * spec().k, {0, kNoNeighbor});
		for (size_t q = 0; q < topks_.size(); q++)
		{
			TopK copy = topks_[q];
			std::vector<Neighbor> kept(copy.buffer, copy.buffer + copy.size); // rows may still come

			kept.resize(copy.capacity);
			copy.buffer = kept.data();
			std::copy_n(kept.begin(), topk_finish(&copy), found->begin() + static_cast<ptrdiff_t>(q * spec().k));
		}
		return Status::ok();
	}

protected:
	Status train_rows(
		const ivf::KMeansSpec &asked, const float *rows, float *centroids, ivf::KMeansReport *report) override
	{
		ivf::KMeansSpec spec = asked;

		spec.n_threads = pool_->n_threads();

		std::vector<uint8_t> work(ivf::kmeans_work_bytes(spec));

		return status_of(
			ivf::kmeans_train(spec, {rows, spec.dim}, centroids, nullptr, report, work.data(), work.size(), call()));
	}

	Status start_lists() override
	{
		const uint32_t dim = spec().rows.dim;
		const uint32_t n_lists = static_cast<uint32_t>(centroids().size() / dim);

		packed_.resize(ivf::coarse_bytes(dim, n_lists));

		const Status status =
			status_of(ivf::coarse_init(centroids().data(), n_lists, dim, packed_.data(), packed_.size(), &coarse_));

		if (status.is_ok())
			work_.resize(ivf::coarse_assign_work_bytes(coarse_, pool_->n_threads()));
		return status;
	}

	Status assign_rows(const float *rows, size_t n, uint32_t *labels, float *scores) override
	{
		return status_of(
			ivf::coarse_assign(coarse_, rows, spec().rows.dim, n, labels, scores, work_.data(), work_.size(), call()));
	}

	Status start_queries() override
	{
		const size_t each = topk_buffer_bytes(spec().k) / sizeof(Neighbor);

		buffers_.resize(each * spec().n_queries);
		topks_.resize(spec().n_queries);
		for (size_t q = 0; q < topks_.size(); q++)
			topk_init(&topks_[q], spec().k, buffers_.data() + q * each, each, nullptr);
		return Status::ok();
	}

	Status offer_rows(uint64_t first, const void *vectors, const float *rows, size_t n) override
	{
		const bool bits = spec().rows.element == ElementType::kBit;
		const DistanceSpec distance = bits ? spec().rows : neighbor_spec();
		const size_t row_bytes = vector_bytes(distance.element, distance.dim);
		const uint8_t *from = bits ? static_cast<const uint8_t *>(vectors) : reinterpret_cast<const uint8_t *>(rows);
		const size_t together = std::clamp<size_t>(kBytesTogether / row_bytes, 1, kRowsTogether);
		const size_t n_tasks = (topks_.size() + kQueriesPerTask - 1) / kQueriesPerTask;
		std::atomic<size_t> next{0};

		pool_->run(std::min(pool_->n_threads(), n_tasks),
			[&](size_t)
			{
				for (size_t task = next.fetch_add(1); task < n_tasks; task = next.fetch_add(1))
				{
					const size_t end = std::min((task + 1) * kQueriesPerTask, topks_.size());

					for (size_t begin = 0; begin < n && !stopped(); begin += together)
						for (size_t q = task * kQueriesPerTask; q < end; q++)
							offer(distance, q, first + begin, from + begin * row_bytes, std::min(together, n - begin));
				}
			});
		return stopped() ? Status::error(StatusCode::kCancelled, "canceled") : Status::ok();
	}

	ivf::Call host_call() override { return call(); }

private:
	/// Offer rows [n <= kRowsTogether] from number `first` on to query q.
	void offer(const DistanceSpec &distance, size_t q, uint64_t first, const uint8_t *rows, size_t n)
	{
		const bool bits = distance.element == ElementType::kBit;
		const void *query = bits ? static_cast<const void *>(bits_of_query(q)) : queries().data() + q * distance.dim;
		double scores[kRowsTogether];
		RowId numbers[kRowsTogether];

		compute_scores(distance, query, rows, vector_bytes(distance.element, distance.dim), n, scores, 0);
		if (!topk_wants(&topks_[q], scores, n))
			return;
		for (size_t i = 0; i < n; i++)
			numbers[i] = first + i;
		topk_push(&topks_[q], scores, numbers, n, nullptr, 0);
	}

	/// True if the caller gave up; tells it that the work goes on.
	bool stopped() const
	{
		control_->progress.fetch_add(1, std::memory_order_relaxed);
		return control_->stop.load(std::memory_order_relaxed);
	}

	ivf::Call call() { return pool_call(pool_, control_); }

	static Status status_of(const ivf::Outcome &outcome)
	{
		return outcome.is_ok() ? Status::ok() : Status::error(outcome.code, outcome.message);
	}

	ThreadPool *const pool_;
	SearchControl *const control_;
	std::vector<uint8_t> packed_;
	std::vector<uint8_t> work_;
	ivf::Coarse coarse_;
	std::vector<Neighbor> buffers_;
	std::vector<TopK> topks_;
};

} // namespace

std::unique_ptr<ListBuilder>
make_cpu_list_builder(const ListBuildSpec &spec, ThreadPool *pool, SearchControl *control)
{
	return std::make_unique<CpuListBuilder>(spec, pool, control);
}

} // namespace vectorgpu::engine
