// Rows copied one after another against plain code: sizes of rows, orders, places, dead rows.
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/device/device.hpp"
#include "kernels/select/pack_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr uint32_t kRows = 5000;

/// What is compared lies on the device; it may be read once it was made.
class Packed
{
public:
	explicit Packed(uint32_t n) : n_(n)
	{
		std::vector<uint32_t> all(kRows);

		EXPECT_TRUE(Device::open(0, nullptr, &device_).is_ok());
		std::iota(all.begin(), all.end(), 0);
		std::shuffle(all.begin(), all.end(), rng_);
		places_ = all;
		std::shuffle(all.begin(), all.end(), rng_);
		numbers_.assign(all.begin(), all.begin() + n);
		send(numbers_, &d_numbers_);
		send(places_, &d_places_);
	}

	kernels::PackOrder order(bool by_places) const
	{
		return {d_numbers_.as<uint32_t>(), by_places ? d_places_.as<uint32_t>() : nullptr, n_};
	}

	uint32_t row(bool by_places, uint32_t i) const { return by_places ? places_[numbers_[i]] : numbers_[i]; }

	template <class T>
	void send(const std::vector<T> &values, DeviceBuffer *to)
	{
		const size_t bytes = values.size() * sizeof(T);

		ASSERT_TRUE(to->allocate(&device_, bytes + 16, "test").is_ok());
		ASSERT_EQ(cudaMemset(to->get(), 0xEE, bytes + 16), cudaSuccess);
		ASSERT_EQ(cudaMemcpy(to->get(), values.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
	}

	/// The buffer, and the bytes behind it, which nothing may write.
	template <class T>
	std::vector<T> read(const DeviceBuffer &from, size_t n) const
	{
		std::vector<T> values(n);
		uint8_t behind[16];

		EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
		EXPECT_EQ(cudaMemcpy(values.data(), from.get(), n * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
		EXPECT_EQ(cudaMemcpy(behind, from.as<uint8_t>() + n * sizeof(T), 16, cudaMemcpyDeviceToHost), cudaSuccess);
		for (const uint8_t byte : behind)
			EXPECT_EQ(byte, 0xEE);
		return values;
	}

	std::mt19937 &rng() { return rng_; }

private:
	const uint32_t n_;
	std::mt19937 rng_{11};
	Device device_;
	std::vector<uint32_t> numbers_;
	std::vector<uint32_t> places_;
	DeviceBuffer d_numbers_;
	DeviceBuffer d_places_;
};

constexpr uint32_t kSizes[] = {1, 31, 32, 33, 255, 257, 4999, kRows};

TEST(PackRows, RowsOfAllSizes)
{
	for (const uint32_t n : kSizes)
	{
		Packed packed(n);

		for (const uint32_t bytes : {4u, 8u, 16u, 48u, 128u, 1040u})
			for (const bool by_places : {false, true})
			{
				std::vector<uint8_t> from(size_t{kRows} * bytes);
				DeviceBuffer d_from, d_to;

				for (uint8_t &byte : from)
					byte = static_cast<uint8_t>(packed.rng()());
				ASSERT_NO_FATAL_FAILURE(packed.send(from, &d_from));
				ASSERT_NO_FATAL_FAILURE(packed.send(std::vector<uint8_t>(size_t{n} * bytes), &d_to));
				ASSERT_EQ(kernels::launch_pack(packed.order(by_places), d_from.get(), bytes, d_to.get(), nullptr),
					cudaSuccess);

				const std::vector<uint8_t> to = packed.read<uint8_t>(d_to, size_t{n} * bytes);

				for (uint32_t i = 0; i < n; i++)
					ASSERT_EQ(
						std::memcmp(&to[size_t{i} * bytes], &from[size_t{packed.row(by_places, i)} * bytes], bytes), 0)
						<< "row " << i << " of " << n << ", " << bytes << " bytes";
			}
	}
}

TEST(PackRows, DeadRows)
{
	for (const uint32_t n : kSizes)
	{
		Packed packed(n);
		std::vector<uint8_t> dead(kRows / 8 + 2);
		DeviceBuffer d_dead, d_to;
		kernels::Rows rows;

		for (uint8_t &byte : dead)
			byte = static_cast<uint8_t>(packed.rng()());
		ASSERT_NO_FATAL_FAILURE(packed.send(dead, &d_dead));
		rows.dead = d_dead.as<uint8_t>();
		rows.dead_start = 5;
		rows.dead_bits = kRows - 20; // rows behind live
		rows.n_rows = kRows;
		for (const bool by_places : {false, true})
		{
			const size_t n_words = (n + 31) / 32;

			ASSERT_NO_FATAL_FAILURE(packed.send(std::vector<uint32_t>(n_words, 0xFFFFFFFFu), &d_to));
			ASSERT_EQ(
				kernels::launch_pack_dead(packed.order(by_places), rows, d_to.as<uint32_t>(), nullptr), cudaSuccess);

			const std::vector<uint32_t> words = packed.read<uint32_t>(d_to, n_words);

			for (uint32_t i = 0; i < n_words * 32; i++)
			{
				const uint32_t bit = i < n ? packed.row(by_places, i) + 5 : kRows;
				const bool wanted = bit < rows.dead_bits && (dead[bit / 8] >> bit % 8 & 1) != 0;

				ASSERT_EQ((words[i / 32] >> i % 32 & 1) != 0, wanted) << "row " << i << " of " << n;
			}
		}
	}
}

TEST(PackRows, RefusesWhatItCannotDo)
{
	EXPECT_EQ(kernels::launch_pack({nullptr, nullptr, 0}, nullptr, 3, nullptr, nullptr), cudaSuccess); // nothing to do
	EXPECT_EQ(kernels::launch_pack_dead({nullptr, nullptr, 0}, {}, nullptr, nullptr), cudaSuccess);
	for (const uint32_t bytes : {0u, 12u, 20u})
		EXPECT_EQ(kernels::launch_pack({nullptr, nullptr, 1}, nullptr, bytes, nullptr, nullptr), cudaErrorInvalidValue);
}

} // namespace
} // namespace vectorgpu::cuda::test
