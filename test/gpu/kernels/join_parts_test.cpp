// The parts of a query's candidates joined, against a sort: few parts and many, parts of all lengths, keys that tie.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/device/device.hpp"
#include "kernels/codes/codes_launch.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using kernels::Entry;

enum class Keys
{
	kSpread,    // over all parts alike
	kAscending, // those of a part are before those of the next one
	kFew,       // of three values
	kEqual,
	kNaN, // nine of ten
};

constexpr Keys kAllKeys[] = {Keys::kSpread, Keys::kAscending, Keys::kFew, Keys::kEqual, Keys::kNaN};

bool
before(const Entry &a, const Entry &b)
{
	return a.key != b.key ? a.key < b.key : a.row < b.row;
}

/// Two queries: one wants as many candidates as a part has room for, the other any number of them.
class Parts
{
public:
	Parts(uint32_t n_parts, uint32_t stride, Keys keys, bool ragged, uint32_t seed)
		: n_parts_(n_parts), stride_(stride), rng_(seed), wanted_{stride, static_cast<uint32_t>(1 + rng_() % stride)},
		  parts_(size_t{kQueries} * n_parts * stride, Entry{0, 0})
	{
		for (uint32_t query = 0; query < kQueries; query++)
			for (uint32_t part = 0; part < n_parts; part++)
				fill(query, part, keys, ragged);
	}

	void expect_joined()
	{
		kernels::CodedScanArgs args;

		ASSERT_TRUE(Device::open(0, nullptr, &device_).is_ok());
		ASSERT_EQ(kernels::prepare_code_kernels(), cudaSuccess);
		args.n_queries = kQueries;
		args.n_splits = n_parts_;
		args.stride = args.found.capacity = stride_;
		args.wanted = send(wanted_);
		args.parts = send(parts_);
		args.part_counts = send(counts_);
		args.found.keys = send(std::vector<uint64_t>(size_t{kQueries} * stride_));
		args.found.rows = send(std::vector<uint32_t>(size_t{kQueries} * stride_));
		args.found.counts = send(std::vector<uint32_t>(kQueries));
		args.last = send(std::vector<Entry>(kQueries));
		ASSERT_EQ(kernels::launch_join_parts(args, nullptr), cudaSuccess);
		ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
		for (uint32_t query = 0; query < kQueries; query++)
			ASSERT_NO_FATAL_FAILURE(expect_query(args, query));
	}

private:
	static constexpr uint32_t kQueries = 2;

	uint64_t next_key(uint32_t part, Keys keys)
	{
		switch (keys)
		{
			case Keys::kSpread:
				return rng_() >> 2;
			case Keys::kAscending:
				return (uint64_t{part} << 40) + (rng_() >> 24);
			case Keys::kFew:
				return rng_() % 3;
			case Keys::kEqual:
				return 77;
			case Keys::kNaN:
				break;
		}
		return rng_() % 10 == 0 ? rng_() >> 2 : kernels::kNanKey - 1;
	}

	void fill(uint32_t query, uint32_t part, Keys keys, bool ragged)
	{
		const uint32_t n = !ragged ? wanted_[query] : rng_() % 5 == 0 ? 0 : rng_() % (wanted_[query] + 1);
		std::vector<Entry> entries;

		for (uint32_t i = 0; i < n; i++)
			entries.push_back({next_key(part, keys), n_rows_++});
		std::sort(entries.begin(), entries.end(), before);
		std::copy(entries.begin(), entries.end(), parts_.begin() + (size_t{query} * n_parts_ + part) * stride_);
		counts_.push_back(n);
		all_[query].insert(all_[query].end(), entries.begin(), entries.end());
	}

	void expect_query(const kernels::CodedScanArgs &args, uint32_t query)
	{
		std::vector<Entry> &expected = all_[query];
		std::vector<uint64_t> keys(stride_);
		std::vector<uint32_t> rows(stride_);
		uint32_t n = 0;
		Entry last = {0, 0};

		std::sort(expected.begin(), expected.end(), before);
		expected.resize(std::min<size_t>(expected.size(), wanted_[query]));
		read(args.found.counts + query, 1, &n);
		read(args.found.keys + size_t{query} * stride_, stride_, keys.data());
		read(args.found.rows + size_t{query} * stride_, stride_, rows.data());
		read(args.last + query, 1, &last);
		ASSERT_EQ(n, expected.size());
		for (uint32_t i = 0; i < n; i++)
		{
			EXPECT_EQ(keys[i], expected[i].key == kernels::kNanKey - 1 ? kernels::kNanKey : expected[i].key);
			EXPECT_EQ(rows[i], expected[i].row);
		}
		if (n > 0)
		{
			EXPECT_EQ(last.key, expected.back().key);
			EXPECT_EQ(last.row, expected.back().row);
		}
	}

	template <class T>
	T *send(const std::vector<T> &values)
	{
		DeviceBuffer &buffer = buffers_.emplace_back();

		EXPECT_TRUE(buffer.allocate(&device_, values.size() * sizeof(T), "test").is_ok());
		EXPECT_EQ(
			cudaMemcpy(buffer.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
		return buffer.as<T>();
	}

	template <class T>
	static void read(const T *from, size_t n, T *to)
	{
		EXPECT_EQ(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
	}

	const uint32_t n_parts_;
	const uint32_t stride_;
	std::mt19937_64 rng_;
	std::vector<uint32_t> wanted_;
	std::vector<Entry> parts_;
	std::vector<uint32_t> counts_;
	std::vector<Entry> all_[kQueries];
	uint64_t n_rows_ = 0;
	Device device_;
	std::vector<DeviceBuffer> buffers_;
};

void
expect_all(const std::vector<uint32_t> &numbers, const std::vector<uint32_t> &strides)
{
	uint32_t seed = 1;

	for (const uint32_t n_parts : numbers)
		for (const uint32_t stride : strides)
			for (const Keys keys : kAllKeys)
				for (const bool ragged : {false, true})
				{
					if (n_parts * stride > 100000)
						continue;
					SCOPED_TRACE(testing::Message() << n_parts << " parts of " << stride << ", keys "
													<< static_cast<int>(keys) << (ragged ? ", ragged" : ""));
					ASSERT_NO_FATAL_FAILURE(Parts(n_parts, stride, keys, ragged, seed++).expect_joined());
				}
}

TEST(JoinParts, OfAllNumbersAndLengths)
{
	expect_all({1, 2, 9, 27, 109, 264, 512, 513}, {1, 3, 15, 60, 120, 640, 2048});
}

// For the sanitizers.
TEST(JoinParts, Reduced)
{
	expect_all({3, 109}, {15, 60});
}

} // namespace
} // namespace vectorgpu::cuda::test
