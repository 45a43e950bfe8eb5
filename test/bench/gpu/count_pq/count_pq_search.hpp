// Searches by c-PQ on the device: batches in chunks that fit the memory given.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "count_pq/count_pq.hpp"
#include "cuda/resident/match_index.hpp"

namespace vectorgpu::bench
{

/// Bits of a bitmap counter for counts up to max_count: those of the paper, rounded up so that no counter crosses a
/// word.
inline uint32_t
count_pq_bits(uint64_t max_count)
{
	return std::bit_ceil(std::max(1u, static_cast<uint32_t>(std::bit_width(max_count))));
}

class CountPqSearch
{
public:
	/// bytes: of device memory for the state of queries. n_buckets: of a query's table, a power of two; 0: enough to
	/// leave it nearly empty.
	CountPqSearch(const cuda::Device *device, uint64_t bytes, uint32_t n_buckets = 0)
		: device_(device), n_buckets_(n_buckets)
	{
		status_ = memory_.allocate(device, bytes, "c-PQ");
		if (status_.is_ok())
			status_ = stream_.create(device);
	}

	/// As DeviceMatchIndex::search of an index that lies on the device whole, without dead rows and `after`. k is not
	/// 0.
	Status search(const cuda::DeviceMatchIndex &index, std::span<const cuda::MatchRequest> requests,
		std::vector<std::vector<cuda::MatchFound>> *results)
	{
		uint64_t max_count = 1;
		size_t max_k = 1;

		VECTORGPU_TRY(status_);
		results->assign(requests.size(), {});
		n_overflown_ = 0;
		for (const cuda::MatchRequest &request : requests)
		{
			max_count = std::max(max_count, request.most_count);
			max_k = std::max(max_k, std::min(request.k, index.n_rows()));
		}
		for (size_t first = 0, n = requests.size(); first < requests.size(); first += n)
		{
			CountPqArgs args;

			n = std::min(n, requests.size() - first);
			while (
				lay_out(index, requests.subspan(first, n), max_count, max_k, nullptr, &args) > memory_.bytes() && n > 1)
				n = (n + 1) / 2;
			VECTORGPU_TRY(search_some(
				index, requests.subspan(first, n), max_count, max_k, std::span(*results).subspan(first, n)));
		}
		return Status::ok();
	}

	/// Queries of the last search whose table ran over.
	size_t n_overflown() const { return n_overflown_; }

private:
	/// Place the state in memory from `base` on. Returns its size. Parts that must be zero at first come first, n_zero_
	/// bytes.
	uint64_t lay_out(const cuda::DeviceMatchIndex &index, std::span<const cuda::MatchRequest> requests,
		uint64_t max_count, size_t max_k, uint8_t *base, CountPqArgs *args)
	{
		const uint64_t n = requests.size();
		uint64_t used = 0;
		uint64_t n_ranges = 0;
		const auto take = [&]<class T>(T **piece, uint64_t n_items)
		{
			*piece = base == nullptr ? nullptr : reinterpret_cast<T *>(base + used);
			used += (n_items * sizeof(T) + 255) / 256 * 256;
		};
		const auto take_input = [&]<class T>(const T **piece, uint64_t n_items)
		{ take(const_cast<T **>(piece), n_items); };

		for (const cuda::MatchRequest &request : requests)
			n_ranges += request.ranges.size();
		args->tiles = index.device_tiles();
		args->n_tiles = static_cast<uint32_t>(index.n_tiles());
		args->n_rows = static_cast<uint32_t>(index.n_rows());
		args->queries.n_queries = static_cast<uint32_t>(n);
		args->queries.bits = count_pq_bits(max_count);
		args->max_count = static_cast<uint32_t>(max_count);
		args->n_words = static_cast<uint32_t>((index.n_rows() * args->queries.bits + 127) / 128 * 4);
		args->n_buckets =
			n_buckets_ != 0 ? n_buckets_ : static_cast<uint32_t>(std::bit_ceil(std::max<size_t>(16, max_k / 2)));
		args->stride = static_cast<uint32_t>(max_k);
		take(&args->bitmap, n * args->n_words);
		take(&args->zipper, n * (max_count + 2));
		take(&args->table, n * args->n_buckets * kCountBucket);
		take(&args->n_overflows, n);
		take(&args->n_out, n);
		n_zero_ = used;
		take(&args->thresholds, n);
		take(&args->out, n * max_k);
		take_input(&args->queries.ranges, n_ranges);
		take_input(&args->queries.range_ends, n);
		take_input(&args->queries.k, n);
		return used;
	}

	Status search_some(const cuda::DeviceMatchIndex &index, std::span<const cuda::MatchRequest> requests,
		uint64_t max_count, size_t max_k, std::span<std::vector<cuda::MatchFound>> results)
	{
		const size_t n = requests.size();
		std::vector<kernels::MatchRange> ranges;
		std::vector<uint32_t> ends, ks, n_out(n), n_overflows(n);
		std::vector<uint64_t> out(n * max_k);
		CountPqArgs args;
		const auto send = [&](const void *to, const auto &from)
		{
			return device_->check(cudaMemcpyAsync(const_cast<void *>(to), from.data(), from.size() * sizeof(from[0]),
									  cudaMemcpyHostToDevice, stream_.get()),
				"send to c-PQ");
		};
		const auto read = [&](auto *to, const void *from)
		{
			return device_->check(
				cudaMemcpyAsync(to->data(), from, to->size() * sizeof((*to)[0]), cudaMemcpyDeviceToHost, stream_.get()),
				"read from c-PQ");
		};

		if (lay_out(index, requests, max_count, max_k, memory_.as<uint8_t>(), &args) > memory_.bytes())
			return Status::error(StatusCode::kOutOfMemory, "a query of c-PQ needs more memory");
		for (const cuda::MatchRequest &request : requests)
		{
			for (const engine::match::CodeRange &range : request.ranges)
				ranges.push_back({range.first, range.last});
			ends.push_back(static_cast<uint32_t>(ranges.size()));
			ks.push_back(static_cast<uint32_t>(std::min(request.k, index.n_rows())));
		}
		VECTORGPU_TRY(device_->check(cudaMemsetAsync(memory_.get(), 0, n_zero_, stream_.get()), "clear c-PQ"));
		VECTORGPU_TRY(send(args.thresholds, std::vector<uint32_t>(n, 1)));
		if (!ranges.empty())
			VECTORGPU_TRY(send(args.queries.ranges, ranges));
		VECTORGPU_TRY(send(args.queries.range_ends, ends));
		VECTORGPU_TRY(send(args.queries.k, ks));
		VECTORGPU_TRY(device_->check(launch_count_pq(args, stream_.get()), "c-PQ"));
		VECTORGPU_TRY(read(&out, args.out));
		VECTORGPU_TRY(read(&n_out, args.n_out));
		VECTORGPU_TRY(read(&n_overflows, args.n_overflows));
		VECTORGPU_TRY(stream_.synchronize());
		for (size_t i = 0; i < n; i++)
		{
			uint64_t *first = out.data() + i * max_k;

			// Counts descend, rows ascend.
			std::sort(
				first, first + n_out[i], [](uint64_t a, uint64_t b) { return a >> 32 != b >> 32 ? a > b : a < b; });
			for (uint32_t j = 0; j < n_out[i]; j++)
				results[i].push_back({static_cast<uint32_t>(first[j] >> 32), static_cast<uint32_t>(first[j])});
			n_overflown_ += n_overflows[i] > 0;
		}
		return Status::ok();
	}

	const cuda::Device *device_;
	uint32_t n_buckets_;
	cuda::DeviceBuffer memory_;
	cuda::Stream stream_;
	Status status_;
	uint64_t n_zero_ = 0;
	size_t n_overflown_ = 0;
};

} // namespace vectorgpu::bench
