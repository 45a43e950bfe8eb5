// Selection alone against std::sort: values, columns, ties, NaN, orders of input that defeat thresholds.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/device/device.hpp"
#include "experiments/select_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

enum class Order
{
	kRandom,
	kAscending,
	kDescending,
	kEqual,
	kFewValues,
	kExtremes,
	kNearFirst, // the smallest at the beginning, in any order
	kStripes,   // small ones in every 512 columns
	kAnyBits,   // NaN of all kinds, numbers that are not normal
	kMostlyNan,
};

std::vector<float>
make_rows(uint32_t n_rows, uint32_t n_columns, Order order, std::mt19937 &rng)
{
	std::vector<float> values(static_cast<size_t>(n_rows) * n_columns);
	const float extremes[] = {0.0f, -0.0f, 1.0f, -1.0f, std::numeric_limits<float>::infinity(),
		-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
		-std::numeric_limits<float>::quiet_NaN(), 1e-45f, 3e38f};

	for (size_t i = 0; i < values.size(); i++)
	{
		const float column = static_cast<float>(i % n_columns);

		switch (order)
		{
			case Order::kRandom:
				values[i] = std::normal_distribution<float>()(rng);
				break;
			case Order::kAscending:
				values[i] = column;
				break;
			case Order::kDescending:
				values[i] = -column;
				break;
			case Order::kEqual:
				values[i] = 1.5f;
				break;
			case Order::kFewValues:
				values[i] = static_cast<float>(rng() % 5);
				break;
			case Order::kExtremes:
				values[i] = extremes[rng() % 10];
				break;
			case Order::kNearFirst:
				values[i] =
					std::uniform_real_distribution<float>()(rng) + (i % n_columns < n_columns / 64 ? 0.0f : 1.0f);
				break;
			case Order::kStripes:
				values[i] = std::uniform_real_distribution<float>()(rng) * (i % n_columns % 512 < 32 ? 0.01f : 1.0f);
				break;
			case Order::kAnyBits:
			{
				const uint32_t bits = static_cast<uint32_t>(rng());

				std::memcpy(&values[i], &bits, 4);
				break;
			}
			case Order::kMostlyNan:
				values[i] =
					rng() % 200 == 0 ? std::normal_distribution<float>()(rng) : std::numeric_limits<float>::quiet_NaN();
				break;
		}
	}
	return values;
}

using Launcher = cudaError_t (*)(const kernels::SelectRowsArgs &, cudaStream_t);

/// All k of one matrix; rows begin `offset` numbers after a multiple of 16 bytes, and, if n_columns is odd, anywhere.
void
expect_sorted_prefixes(Launcher launch, uint32_t n_rows, uint32_t n_columns, const std::vector<uint32_t> &ks,
	Order order, uint32_t offset = 0)
{
	std::mt19937 rng(n_columns + 7919 * static_cast<uint32_t>(order));
	const std::vector<float> values = make_rows(n_rows, n_columns, order, rng);
	std::vector<std::vector<uint32_t>> wanted(n_rows, std::vector<uint32_t>(n_columns));
	Device device;
	DeviceBuffer d_values, d_out, d_columns;
	const size_t most_out = size_t{n_rows} * *std::max_element(ks.begin(), ks.end());

	for (uint32_t r = 0; r < n_rows; r++)
	{
		const float *row = values.data() + static_cast<size_t>(r) * n_columns;

		for (uint32_t c = 0; c < n_columns; c++)
			wanted[r][c] = c;
		std::stable_sort(wanted[r].begin(), wanted[r].end(),
			[&](uint32_t a, uint32_t b) { return row[a] < row[b] || (!std::isnan(row[a]) && std::isnan(row[b])); });
	}
	ASSERT_TRUE(Device::open(0, nullptr, &device).is_ok());
	ASSERT_TRUE(d_values.allocate(&device, (values.size() + offset) * 4, "test").is_ok());
	ASSERT_TRUE(d_out.allocate(&device, most_out * 4, "test").is_ok());
	ASSERT_TRUE(d_columns.allocate(&device, most_out * 4, "test").is_ok());
	ASSERT_EQ(cudaMemcpy(d_values.as<float>() + offset, values.data(), values.size() * 4, cudaMemcpyHostToDevice),
		cudaSuccess);
	for (uint32_t k : ks)
	{
		SCOPED_TRACE(testing::Message() << n_rows << " x " << n_columns << " k " << k << " order "
										<< static_cast<int>(order) << " offset " << offset);

		const size_t n_out = size_t{n_rows} * k;
		std::vector<float> out(n_out);
		std::vector<uint32_t> columns(n_out);

		ASSERT_EQ(cudaMemset(d_columns.get(), 0xEE, n_out * 4), cudaSuccess); // numbers that are not written are seen
		ASSERT_EQ(
			launch({d_values.as<float>() + offset, n_rows, n_columns, k, d_out.as<float>(), d_columns.as<uint32_t>()},
				nullptr),
			cudaSuccess);
		ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
		ASSERT_EQ(cudaMemcpy(out.data(), d_out.get(), n_out * 4, cudaMemcpyDeviceToHost), cudaSuccess);
		ASSERT_EQ(cudaMemcpy(columns.data(), d_columns.get(), n_out * 4, cudaMemcpyDeviceToHost), cudaSuccess);
		for (uint32_t r = 0; r < n_rows; r++)
			for (uint32_t i = 0; i < k; i++)
			{
				const size_t at = static_cast<size_t>(r) * k + i;
				const uint32_t column = i < n_columns ? wanted[r][i] : 0xEEEEEEEE;

				ASSERT_EQ(columns[at], column) << "row " << r << " place " << i;
				if (i >= n_columns)
					continue;
				ASSERT_EQ(std::memcmp(&out[at], &values[static_cast<size_t>(r) * n_columns + column], 4),
					0) // zeros and NaN too
					<< "row " << r << " place " << i;
			}
	}
}

constexpr Order kOrders[] = {Order::kRandom, Order::kAscending, Order::kDescending, Order::kEqual, Order::kFewValues,
	Order::kExtremes, Order::kNearFirst, Order::kStripes, Order::kAnyBits, Order::kMostlyNan};

TEST(SelectRows, EqualsASortForEveryOrderOfInput)
{
	for (Order order : kOrders)
		for (uint32_t n_columns : {1u, 31u, 1000u, 8191u, 8192u, 8193u, 16384u, 33333u, 128000u})
			ASSERT_NO_FATAL_FAILURE(expect_sorted_prefixes(
				kernels::launch_select_rows, 3, n_columns, {1, 2, 10, 100, 1000, 1024, 2047, 2048}, order));
}

TEST(SelectRows, RowsBeginAnywhere)
{
	for (uint32_t offset : {1u, 2u, 3u})
		for (uint32_t n_columns : {8193u, 8195u, 40001u, 40002u})
			ASSERT_NO_FATAL_FAILURE(expect_sorted_prefixes(
				kernels::launch_select_rows, 5, n_columns, {1, 33, 500}, Order::kRandom, offset));
}

TEST(SelectRows, ManyRowsNeedSomeReadAgain)
{
	// Among this many rows some have a misleading sample.
	ASSERT_NO_FATAL_FAILURE(
		expect_sorted_prefixes(kernels::launch_select_rows, 3000, 8192, {1, 7, 64}, Order::kRandom));
}

TEST(SelectRows, Reduced)
{
	for (Order order : kOrders) // for tools that slow kernels down
		ASSERT_NO_FATAL_FAILURE(expect_sorted_prefixes(kernels::launch_select_rows, 2, 9000, {300}, order));
}

TEST(SelectRows, RefusesWhatItCannotDo)
{
	EXPECT_EQ(kernels::launch_select_rows({nullptr, 0, 5, 1, nullptr, nullptr}, nullptr), cudaSuccess); // nothing to do
	EXPECT_EQ(kernels::launch_select_rows({nullptr, 1, 5, kernels::kSelectRowsMostK + 1, nullptr, nullptr}, nullptr),
		cudaErrorInvalidValue);
}

} // namespace
} // namespace vectorgpu::cuda::test
