// The devices of an engine of several: how one is opened again, and how a call that does not return is noticed.
#include <atomic>
#include <thread>

#include "worker/spread_fixture.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kSecondNs = uint64_t{1000} * 1000 * 1000;

class Devices : public testing::Test
{
protected:
	DeviceSetOptions options()
	{
		DeviceSetOptions options;

		now_ns = 1;
		options.names = {"one", "two"};
		options.clock = [] { return now_ns.load(); };
		options.open = [this](size_t device, bool again, std::function<void()>, std::unique_ptr<engine::Engine> *made)
		{
			opened_.emplace_back(device, again);
			if (device == 1 && n_refused_ > 0 && n_refused_-- > 0)
				return Status::error(StatusCode::kUnavailable, "told so");
			*made = engine::make_cpu_engine({});
			return Status::ok();
		};
		options.on_stuck = [this] { n_stuck_++; };
		options.on_closed = [this] { n_closed_++; };
		options.on_all_lost = [this] { n_all_lost_++; };
		return options;
	}

	static inline std::atomic<uint64_t> now_ns{1};
	std::vector<std::pair<size_t, bool>> opened_; // device, again
	int n_refused_ = 0;
	std::atomic<int> n_stuck_{0};
	std::atomic<int> n_closed_{0};
	std::atomic<int> n_all_lost_{0};
};

/// A failed attempt may have broken the device's context: the next one is told that it is not the first.
TEST_F(Devices, ADeviceThatCouldNotBeOpenedIsTriedAgain)
{
	n_refused_ = 2;

	DeviceSet devices(options());

	ASSERT_TRUE(devices.open());
	EXPECT_EQ(devices.usable().size(), 1u);
	devices.tend();
	EXPECT_EQ(opened_.size(), 2u);
	now_ns += 11 * kSecondNs;
	devices.tend();
	EXPECT_EQ(devices.get(1), nullptr);
	now_ns += 21 * kSecondNs;
	devices.tend();
	EXPECT_NE(devices.get(1), nullptr);
	EXPECT_EQ(opened_, (std::vector<std::pair<size_t, bool>>{{0, false}, {1, false}, {1, true}, {1, true}}));
}

/// A device that was never there is no reason for a new process; one that was lost and cannot be had back is.
TEST_F(Devices, ALostDeviceThatCannotBeOpenedAgainEndsTheProcess)
{
	n_refused_ = 5;

	DeviceSet devices(options());

	ASSERT_TRUE(devices.open());
	while (n_refused_ > 0)
	{
		now_ns += 600 * kSecondNs;
		devices.tend();
	}
	EXPECT_EQ(n_closed_, 0);
	now_ns += 600 * kSecondNs;
	devices.tend();
	ASSERT_NE(devices.get(1), nullptr);
	devices.lose(devices.get(1).get());
	n_refused_ = 2;
	now_ns += 601 * kSecondNs;
	devices.tend();
	EXPECT_EQ(n_closed_, 0);
	now_ns += 601 * kSecondNs;
	devices.tend();
	EXPECT_EQ(n_closed_, 1);
}

TEST_F(Devices, ACallThatDoesNotReturnFromALostDeviceIsNoticed)
{
	DeviceSet devices(options());
	std::atomic<bool> inside{false};
	std::atomic<bool> leave{false};
	Status status;

	ASSERT_TRUE(devices.open());

	const DevicePtr device = devices.get(1);
	std::thread caller(
		[&]
		{
			status = devices.run(device.get(),
				[&](engine::Engine &)
				{
					inside = true;
					while (!leave)
						std::this_thread::yield();
					return Status::ok();
				});
		});

	while (!inside)
		std::this_thread::yield();
	now_ns += 60 * kSecondNs; // as long as a call likes, while the device is there
	devices.watch();
	EXPECT_EQ(n_stuck_, 0);
	devices.lose(device.get());
	now_ns += 4 * kSecondNs;
	devices.watch();
	EXPECT_EQ(n_stuck_, 0);
	now_ns += 2 * kSecondNs;
	devices.watch();
	EXPECT_EQ(n_stuck_, 1);
	now_ns += 11 * kSecondNs;
	devices.tend(); // what the call uses may be freed when the device is opened again
	EXPECT_EQ(devices.get(1), nullptr);
	leave = true;
	caller.join();
	devices.tend();
	EXPECT_NE(devices.get(1), nullptr);
	EXPECT_EQ(status.code, StatusCode::kUnavailable); // what it found is not to be trusted
	devices.watch();
	EXPECT_EQ(n_stuck_, 1);
	EXPECT_EQ(n_all_lost_, 0);
}

} // namespace
} // namespace vectorgpu::worker
