// Selection by itself against std::sort: values, columns, ties, NaN, orders of input that defeat thresholds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/device.hpp"
#include "kernels/select_rows.hpp"

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
};

std::vector<float>
make_rows(uint32_t n_rows, uint32_t n_columns, Order order, std::mt19937 &rng)
{
	std::vector<float> values(static_cast<size_t>(n_rows) * n_columns);
	const float extremes[] = {0.0f, -0.0f, 1.0f, -1.0f, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
		std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(), 1e-45f, 3e38f};

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
		}
	}
	return values;
}

using Launcher = cudaError_t (*)(const kernels::SelectRowsArgs &, cudaStream_t);

void
expect_sorted_prefix(Launcher launch, uint32_t n_rows, uint32_t n_columns, uint32_t k, Order order)
{
	SCOPED_TRACE(testing::Message() << n_rows << " x " << n_columns << " k " << k << " order " << static_cast<int>(order));

	std::mt19937 rng(n_columns + k);
	const std::vector<float> values = make_rows(n_rows, n_columns, order, rng);
	Device device;
	DeviceBuffer d_values, d_out, d_columns;
	const size_t n_out = static_cast<size_t>(n_rows) * k;
	std::vector<float> out(n_out);
	std::vector<uint32_t> columns(n_out);

	ASSERT_TRUE(Device::open(0, nullptr, &device).is_ok());
	ASSERT_TRUE(d_values.allocate(&device, values.size() * 4, "test").is_ok());
	ASSERT_TRUE(d_out.allocate(&device, n_out * 4, "test").is_ok());
	ASSERT_TRUE(d_columns.allocate(&device, n_out * 4, "test").is_ok());
	ASSERT_EQ(cudaMemcpy(d_values.get(), values.data(), values.size() * 4, cudaMemcpyHostToDevice), cudaSuccess);
	ASSERT_EQ(cudaMemset(d_columns.get(), 0xEE, n_out * 4), cudaSuccess); // what is not written shows
	ASSERT_EQ(launch({d_values.as<float>(), n_rows, n_columns, k, d_out.as<float>(), d_columns.as<uint32_t>()}, nullptr), cudaSuccess);
	ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
	ASSERT_EQ(cudaMemcpy(out.data(), d_out.get(), n_out * 4, cudaMemcpyDeviceToHost), cudaSuccess);
	ASSERT_EQ(cudaMemcpy(columns.data(), d_columns.get(), n_out * 4, cudaMemcpyDeviceToHost), cudaSuccess);
	for (uint32_t r = 0; r < n_rows; r++)
	{
		const float *row = values.data() + static_cast<size_t>(r) * n_columns;
		std::vector<uint32_t> wanted(n_columns);

		for (uint32_t c = 0; c < n_columns; c++)
			wanted[c] = c;
		std::stable_sort(wanted.begin(), wanted.end(),
			[&](uint32_t a, uint32_t b) { return row[a] < row[b] || (!std::isnan(row[a]) && std::isnan(row[b])); });
		for (uint32_t i = 0; i < std::min(k, n_columns); i++)
		{
			const size_t at = static_cast<size_t>(r) * k + i;

			ASSERT_EQ(columns[at], wanted[i]) << "row " << r << " place " << i;
			ASSERT_TRUE(out[at] == row[wanted[i]] || std::isnan(out[at])) << "row " << r << " place " << i;
		}
	}
}

constexpr Order kOrders[] = {Order::kRandom, Order::kAscending, Order::kDescending, Order::kEqual, Order::kFewValues, Order::kExtremes};

TEST(SelectRows, EqualsASortForEveryOrderOfInput)
{
	for (Order order : kOrders)
		for (uint32_t n_columns : {1u, 31u, 1000u, 8192u, 8193u, 40000u})
			for (uint32_t k : {1u, 2u, 100u, 1000u, 1024u, 2048u})
				ASSERT_NO_FATAL_FAILURE(expect_sorted_prefix(kernels::launch_select_rows, 3, n_columns, k, order));
}

TEST(SelectRows, Reduced)
{
	for (Order order : kOrders) // for tools that slow kernels down
		ASSERT_NO_FATAL_FAILURE(expect_sorted_prefix(kernels::launch_select_rows, 2, 9000, 300, order));
}

TEST(SelectRows, RefusesWhatItCannotDo)
{
	EXPECT_EQ(kernels::launch_select_rows({nullptr, 0, 5, 1, nullptr, nullptr}, nullptr), cudaSuccess); // nothing to do
	EXPECT_EQ(kernels::launch_select_rows({nullptr, 1, 5, kernels::kSelectRowsMostK + 1, nullptr, nullptr}, nullptr), cudaErrorInvalidValue);
}

} // namespace
} // namespace vectorgpu::cuda::test
