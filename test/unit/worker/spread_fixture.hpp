// An engine of several CPU engines beside one CPU engine, for tests that both give the same bits.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/passing_copy.hpp"
#include "worker/devices/spread_engine.hpp"

namespace vectorgpu::worker
{

using namespace engine::test;
using engine::CopyId;
using engine::CopyKind;
using engine::DistanceSpec;
using engine::Neighbor;
using engine::SearchQuery;
using engine::SegmentId;

/// The clock and the limits of an engine under test.
struct SpreadBench
{
	static inline std::atomic<uint64_t> now_ns{1};

	std::vector<engine::Engine *> engines; // in the order in which they were opened
	std::atomic<int> n_all_lost{0};
	std::atomic<bool> refuse_open{false};
	std::atomic<int> lose_at{0}; // the search that loses its device; 0: none
	std::function<std::unique_ptr<engine::Engine>()> make_device = [] { return engine::make_cpu_engine({}); };

	/// device_bytes: 0: copies are never cut.
	std::unique_ptr<SpreadEngine> make(size_t n_devices, uint64_t device_bytes)
	{
		SpreadOptions options;
		std::unique_ptr<SpreadEngine> engine;

		now_ns = 1;
		engines.clear();
		for (size_t i = 0; i < n_devices; i++)
			options.devices.names.push_back("cpu" + std::to_string(i));
		options.devices.open = [this](size_t, bool, std::function<void()>, std::unique_ptr<engine::Engine> *made)
		{
			if (refuse_open)
				return Status::error(StatusCode::kUnavailable, "told so");
			*made = make_device();
			engines.push_back(made->get());
			return Status::ok();
		};
		options.devices.device_bytes = device_bytes;
		options.devices.clock = [] { return now_ns.load(); };
		options.devices.on_all_lost = [this] { n_all_lost++; };
		options.devices.fault = [this](const char *) { return lose_at > 0 && --lose_at == 0; };
		options.stripe_bytes = 4096;
		options.cuts.least_piece = 2;
		options.background = false;
		EXPECT_TRUE(make_spread_engine(options, &engine).is_ok());
		return engine;
	}

	static void pass_seconds(uint64_t n) { now_ns += n * 1000 * 1000 * 1000; }
};

/// The answers of both engines to a batch, with what was looked at.
inline void
expect_same_answers(
	engine::Engine *engine, CopyId copy, engine::Engine *plain, CopyId plain_copy, std::vector<SearchQuery> queries)
{
	std::vector<std::vector<Neighbor>> got;
	std::vector<std::vector<Neighbor>> want;
	std::vector<engine::Coverage> coverage(2 * queries.size());
	std::vector<engine::FilterWay> ways(2 * queries.size());
	std::vector<SearchQuery> again = queries;

	for (size_t i = 0; i < queries.size(); i++)
	{
		queries[i].coverage = &coverage[i];
		queries[i].filter_way = &ways[i];
		again[i].coverage = &coverage[queries.size() + i];
		again[i].filter_way = &ways[queries.size() + i];
	}

	const Status status = engine->search(copy, queries, &got);
	const Status wanted = plain->search(plain_copy, again, &want);

	ASSERT_EQ(status.code, wanted.code) << status.message << " / " << wanted.message;
	if (!status.is_ok())
		return;
	ASSERT_EQ(got.size(), want.size());
	for (size_t i = 0; i < queries.size(); i++)
	{
		ASSERT_NO_FATAL_FAILURE(expect_same(got[i], want[i])) << "query " << i;
		ASSERT_EQ(coverage[i], coverage[queries.size() + i]) << "query " << i;
	}
}

} // namespace vectorgpu::worker
