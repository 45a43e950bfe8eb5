// See spread_list_builder.hpp. The first device trains. Rows to be assigned are shared out; each device keeps the
// nearest of its rows to the queries, and these are merged. A label and a score are those of a row alone, and (score,
// row) is a total order, so the result is that of one device.
#include "worker/devices/spread_list_builder.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/cpu/thread_pool.hpp"
#include "worker/devices/side_by_side.hpp"

namespace vectorgpu::worker
{
namespace
{

using engine::ListBuilder;
using engine::Neighbor;

constexpr size_t kLeastRows = 256; // that are worth a device of their own

struct Part
{
	DevicePtr device; // outlives the builder
	std::unique_ptr<ListBuilder> builder;
};

class SpreadListBuilder final : public ListBuilder
{
public:
	SpreadListBuilder(const engine::ListBuildSpec &spec, DeviceSet *devices, std::vector<Part> parts)
		: ListBuilder(spec), devices_(devices), parts_(std::move(parts)), pool_(parts_.size())
	{
	}

	~SpreadListBuilder() override
	{
		for (Part &part : parts_)
		{
			const auto counted = DeviceSet::count_call(part.device.get());

			if (part.device->lost && part.device->engine->computes_elsewhere())
				(void) part.builder.release(); // freeing through a broken context may hang
			part.builder.reset();
		}
	}

	Status neighbors(std::vector<Neighbor> *found) override
	{
		const size_t k = spec().k;
		std::vector<Neighbor> own;
		std::vector<Neighbor> all;

		found->assign(size_t{spec().n_queries} * k, {0, kNoNeighbor});
		for (const Part &part : parts_)
		{
			const Status status = run(part, [&](ListBuilder *builder) { return builder->neighbors(&own); });

			if (!status.is_ok())
				return status;
			for (size_t q = 0; q < spec().n_queries; q++)
			{
				const auto at = found->begin() + static_cast<ptrdiff_t>(q * k);
				const auto from = own.begin() + static_cast<ptrdiff_t>(q * k);

				all.clear();
				std::copy_if(at, at + static_cast<ptrdiff_t>(k), std::back_inserter(all), is_row);
				std::copy_if(from, from + static_cast<ptrdiff_t>(k), std::back_inserter(all), is_row);
				std::sort(all.begin(), all.end(), engine::neighbor_less);
				std::copy_n(all.begin(), std::min(all.size(), k), at);
			}
		}
		return Status::ok();
	}

protected:
	Status train_rows(const engine::ivf::KMeansSpec &asked, const float *rows, float *centroids,
		engine::ivf::KMeansReport *report) override
	{
		return run(parts_.front(),
			[&](ListBuilder *builder) { return train_rows_in(builder, asked, rows, centroids, report); });
	}

	engine::ivf::Call host_call() override { return host_call_in(parts_.front().builder.get()); }

	Status start_lists() override
	{
		return each(parts_.size(),
			[&](size_t i) { return run(parts_[i], [&](ListBuilder *builder) { return give_lists(builder); }); });
	}

	Status start_queries() override
	{
		return each(parts_.size(),
			[&](size_t i) { return run(parts_[i], [&](ListBuilder *builder) { return give_queries(builder); }); });
	}

	Status assign_rows(const float *rows, size_t n, uint32_t *labels, float *scores) override
	{
		return each_piece(n,
			[&](ListBuilder *builder, size_t first, size_t n_rows)
			{
				return assign_rows_in(builder, rows + first * spec().rows.dim, n_rows, labels + first, scores + first);
			});
	}

	/// No device waits for the others between its rows.
	Status take_rows(const RowBatch &batch, uint32_t *labels, float *scores) override
	{
		return each_piece(batch.n, [&](ListBuilder *builder, size_t first, size_t n_rows)
			{ return take_rows_in(builder, batch.part(spec().rows, first, n_rows), labels + first, scores + first); });
	}

	/// The pieces are those of take_rows: their rows are where they were assigned.
	Status encode_rows(const engine::ListCoder &coder, const float *rows, const uint32_t *labels, size_t n,
		const engine::CodedRows &coded) override
	{
		const engine::ivf::CodeSpec &codes = coder.spec().codes;

		return each_piece(n,
			[&](ListBuilder *builder, size_t first, size_t n_rows)
			{
				const engine::CodedRows piece = {coded.codes + first * engine::ivf::code_bytes(codes),
					engine::ivf::code_has_terms(codes) ? coded.terms + first : nullptr, coded.is_out + first};

				return encode_rows_in(builder, coder, rows + first * spec().rows.dim, labels + first, n_rows, piece);
			});
	}

	Status offer_rows(uint64_t, const void *, const float *, size_t) override
	{
		return Status::error(StatusCode::kInternal, "the parts offer their rows");
	}

private:
	static bool is_row(const Neighbor &neighbor) { return neighbor.row != kNoNeighbor; }

	/// Call a part's builder. A device that is lost fails the build: the session goes on by itself.
	template <class Call>
	Status run(const Part &part, Call call)
	{
		const Status status =
			devices_->run(part.device.get(), [&](engine::Engine &) { return call(part.builder.get()); });

		return status.code == StatusCode::kUnavailable ? Status::error(StatusCode::kInternal, status.message) : status;
	}

	/// Call work(i) for i below n side by side; the first failure, or ok.
	template <class Work>
	Status each(size_t n, Work work)
	{
		return run_side_by_side(&pool_, n, n, work);
	}

	/// Share n rows out among the parts: work(builder, first, n_rows). The same rows go to the same part each time.
	template <class Work>
	Status each_piece(size_t n, Work work)
	{
		const size_t n_pieces = std::clamp<size_t>(n / kLeastRows, 1, parts_.size());

		return each(n_pieces,
			[&](size_t i)
			{
				const size_t first = i * n / n_pieces;
				const size_t end = (i + 1) * n / n_pieces;

				return run(parts_[i], [&](ListBuilder *builder) { return work(builder, first, end - first); });
			});
	}

	DeviceSet *const devices_;
	std::vector<Part> parts_;
	engine::ThreadPool pool_; // waits for devices
};

} // namespace

Status
make_spread_list_builder(DeviceSet *devices, const engine::ListBuildSpec &spec, engine::SearchControl *control,
	std::unique_ptr<engine::ListBuilder> *builder)
{
	std::vector<Part> parts;
	Status failed = DeviceSet::gone();

	for (const DevicePtr &device : devices->usable())
	{
		engine::ListBuildSpec own = spec;
		Part part{device, nullptr};

		if (!parts.empty())
			own.n_training = 0; // the first one trains

		const Status status = devices->run(device.get(),
			[&](engine::Engine &engine) { return engine.make_list_builder(own, control, &part.builder); });

		if (status.is_ok())
			parts.push_back(std::move(part));
		else
			failed = status;
	}
	if (parts.empty())
		return failed;
	*builder = std::make_unique<SpreadListBuilder>(spec, devices, std::move(parts));
	return Status::ok();
}

} // namespace vectorgpu::worker
