// What the engine of several devices costs the host: devices that answer a batch after a fixed time, one batch at a
// time, beside engines of one such device. In place of GPUs, so that host costs can be measured without any.
//   spread_bench [--devices N] [--queries N] [--ms N] [--runs N]
// One line each: the case, k, microseconds of a batch in the median, and how many of them are beyond the devices' time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>

#include "engine/cpu/cpu_engine.hpp"
#include "support/must.hpp"
#include "worker/devices/spread_engine.hpp"

namespace
{

using namespace vectorgpu;
using engine::CopyId;
using engine::Engine;
using engine::Neighbor;
using engine::SearchQuery;
using test::must;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kDim = 8;
constexpr size_t kRows = 4096;
constexpr uint64_t kRowBytes = kDim * 4 + 16;

struct Options
{
	size_t n_devices = 2;
	size_t n_queries = 10000;
	size_t ms = 4; // of a device for n_queries
	size_t n_runs = 41;
};

Options options;

/// Keeps copies as a CPU engine does; its searches take a fixed time and find the first rows.
class FixedTime final : public Engine
{
public:
	explicit FixedTime(std::shared_ptr<Engine> held) : held_(std::move(held)) {}

	const char *name() const override { return "fixed"; }
	Status create(const engine::CopySpec &spec, CopyId *copy) override { return held_->create(spec, copy); }
	Status load_segment(CopyId copy, engine::SegmentId segment, const engine::RowBlock &rows) override
	{
		return held_->load_segment(copy, segment, rows);
	}
	Status load_structure(CopyId, engine::SegmentId, uint32_t, std::span<const uint8_t>) override { return no(); }
	Status seal_segment(CopyId copy, engine::SegmentId segment) override { return held_->seal_segment(copy, segment); }
	Status drop_segment(CopyId, engine::SegmentId) override { return no(); }
	Status append_delta(CopyId, uint64_t, const engine::RowBlock &) override { return no(); }
	Status trim_delta(CopyId, uint64_t) override { return no(); }
	Status set_tombstones(CopyId, engine::SegmentId, std::span<const uint8_t>) override { return no(); }
	Status set_delta_tombstones(CopyId, uint64_t, std::span<const uint8_t>) override { return no(); }
	Status drop(CopyId copy) override { return held_->drop(copy); }

	Status search(CopyId, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results,
		engine::SearchControl *) override
	{
		const auto time = std::chrono::nanoseconds(options.ms * 1000000 * queries.size() / options.n_queries);

		{
			const std::lock_guard one_at_a_time(mutex_);

			std::this_thread::sleep_until(Clock::now() + time);
		}
		results->resize(queries.size());
		for (size_t i = 0; i < queries.size(); i++)
		{
			std::vector<Neighbor> &result = (*results)[i];

			if (queries[i].coverage != nullptr)
				*queries[i].coverage = engine::Coverage::kAll;
			result.resize(queries[i].k);
			for (size_t j = 0; j < result.size(); j++)
				result[j] = {static_cast<double>(j), j};
		}
		return Status::ok();
	}

	Status read_rows(CopyId, engine::SegmentId, uint64_t, size_t, RowId *, void *) override { return no(); }
	Status read_structure(CopyId, engine::SegmentId, uint64_t, size_t, void *) override { return no(); }
	Status read_tombstones(CopyId, engine::SegmentId, uint64_t, size_t, uint8_t *) override { return no(); }
	Status check_derived(CopyId, engine::SegmentId, uint64_t, size_t, uint64_t *) override { return no(); }
	engine::EngineStats stats() const override { return held_->stats(); }
	uint64_t n_rescored() const override { return 0; }

private:
	static Status no() { return Status::error(StatusCode::kUnsupported, "not kept"); }

	const std::shared_ptr<Engine> held_;
	std::mutex mutex_;
};

std::unique_ptr<worker::SpreadEngine>
open_devices(size_t n, uint64_t bytes)
{
	worker::SpreadOptions spread;
	std::unique_ptr<worker::SpreadEngine> made;

	for (size_t i = 0; i < n; i++)
		spread.devices.names.push_back(std::to_string(i));
	spread.devices.device_bytes = bytes;
	spread.devices.open = [](size_t, bool, const std::function<void()> &, std::unique_ptr<Engine> *engine)
	{
		*engine = std::make_unique<FixedTime>(engine::make_cpu_engine({}));
		return Status::ok();
	};
	spread.background = false;
	spread.stripe_bytes = 65536;
	must(worker::make_spread_engine(spread, &made));
	return made;
}

CopyId
load(Engine *engine)
{
	constexpr size_t kBlock = 64;
	const std::vector<float> rows(kBlock * kDim, 1);
	std::vector<RowId> ids(kBlock);
	CopyId copy = 0;

	must(engine->create({{Metric::kL2, ElementType::kFloat32, kDim}, engine::CopyKind::kRows}, &copy));
	for (size_t first = 0; first < kRows; first += kBlock)
	{
		for (size_t i = 0; i < kBlock; i++)
			ids[i] = first + i + 1;
		must(engine->load_segment(copy, 1, {ids, rows.data(), kBlock}));
	}
	must(engine->seal_segment(copy, 1));
	return copy;
}

/// The microseconds of a batch in the median.
double
measure(Engine *engine, CopyId copy, size_t k)
{
	const std::vector<float> query(kDim, 1);
	std::vector<SearchQuery> queries(options.n_queries);
	std::vector<std::vector<Neighbor>> results;
	std::vector<double> times;

	for (SearchQuery &one : queries)
	{
		one.query = query.data();
		one.k = k;
	}
	for (size_t run = 0; run < options.n_runs; run++)
	{
		const Clock::time_point begin = Clock::now();

		must(engine->search(copy, queries, &results, nullptr));
		times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
	}
	std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
	return times[times.size() / 2];
}

void
report(const char *what, size_t k, double us, double devices_us)
{
	printf("%-24s k = %-4zu %10.0f us, %8.0f beyond the devices' %6.0f\n", what, k, us, us - devices_us, devices_us);
	fflush(stdout);
}

} // namespace

int
main(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2)
	{
		const size_t n = strtoull(argv[i + 1], nullptr, 10);

		if (strcmp(argv[i], "--devices") == 0)
			options.n_devices = n;
		else if (strcmp(argv[i], "--queries") == 0)
			options.n_queries = n;
		else if (strcmp(argv[i], "--ms") == 0)
			options.ms = n;
		else if (strcmp(argv[i], "--runs") == 0)
			options.n_runs = n;
		else
			return 2;
	}
	(void) prctl(PR_SET_TIMERSLACK, 1); // threads inherit it

	const auto whole_us = static_cast<double>(options.ms * 1000);
	const auto n_devices = static_cast<double>(options.n_devices);

	for (const size_t k : {10, 100})
	{
		const std::unique_ptr<worker::SpreadEngine> one = open_devices(1, 0);
		const std::unique_ptr<worker::SpreadEngine> replicas = open_devices(options.n_devices, 0);
		const std::unique_ptr<worker::SpreadEngine> shards =
			open_devices(options.n_devices, kRows * kRowBytes * 3 / (2 * options.n_devices));

		report("one device", k, measure(one.get(), load(one.get()), k), whole_us);
		report("replicas", k, measure(replicas.get(), load(replicas.get()), k), whole_us / n_devices);

		const CopyId copy = load(shards.get());

		if (!shards->is_sharded(copy))
			return 1;
		report("shards", k, measure(shards.get(), copy, k), whole_us);
	}
	return 0;
}
