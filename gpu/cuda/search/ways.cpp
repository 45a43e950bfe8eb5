// See ways.hpp.
#include "cuda/search/ways.hpp"

#include <initializer_list>
#include <string>
#include <utility>

#include "cuda/cuda_engine.hpp"
#include "cuda/selftest/self_test.hpp"
#include "kernels/filter/tuning.hpp"
#include "kernels/graph/graph.hpp"

namespace vectorgpu::cuda
{
namespace
{

uint64_t
scaled_least_bytes(const CudaEngineOptions &options)
{
	return options.scaled_least_bytes != 0 ? options.scaled_least_bytes : kernels::kScaledLeastBytes;
}

class WayTests
{
public:
	WayTests(CudaEngine *engine, const Device &device, const CudaEngineOptions &options, Ways *ways)
		: engine_(engine), device_(device), options_(options), ways_(ways)
	{
	}

	Status run(StartTimes *times)
	{
		ways_->one_pass = ways_->scaled = ways_->few_lists = ways_->few_real_lists = ways_->rounded_lists =
			ways_->list_choice = ways_->graph_alone = ways_->graph_choice = false; // until they are tested
		VECTORGPU_TRY(self_test(engine_));
		times->done("self-test of rows and lists");
		for (const auto &[name, test] : std::initializer_list<std::pair<const char *, Status (WayTests::*)()>>{
				 {"of scaled rows", &WayTests::test_scaled}, {"of one pass", &WayTests::test_one_pass},
				 {"of lists of rounded rows", &WayTests::test_rounded_lists},
				 {"of few lists", &WayTests::test_few_lists}, {"of few lists of reals", &WayTests::test_few_real_lists},
				 {"of bins", &WayTests::test_bins}, {"of graphs", &WayTests::test_graphs},
				 {"of graphs of bits", &WayTests::test_bit_graphs}, {"of graphs with codes", &WayTests::test_hashed},
				 {"of codes", &WayTests::test_codes}, {"of match counts", &WayTests::test_matches},
				 {"of sparse vectors", &WayTests::test_sparse}, {"of key columns", &WayTests::test_keys}})
		{
			VECTORGPU_TRY((this->*test)());
			times->done(name);
		}
		ways_->graph_choice = options_.graph_choice;
		ways_->list_choice = options_.list_choice;
		return Status::ok();
	}

private:
	/// If the test failed, removes *way and logs it. If the device is lost, returns the error: the engine cannot start.
	Status judge(const Status &status, bool *way, const char *without)
	{
		if (status.is_ok() || device_.fatal())
			return status;
		device_.log((std::string(without) + ": " + status.message).c_str());
		*way = false;
		return Status::ok();
	}

	/// Without this way rows are rounded to binary16, which the first test has found right.
	Status test_scaled()
	{
		if (!options_.scaled)
			return Status::ok();
		ways_->scaled = true;
		ways_->both_roundings = false; // the test reads bytes for every k
		ways_->scaled_least_bytes = 1; // and has few rows

		const Status status = self_test_scaled(engine_);

		ways_->both_roundings = options_.both_roundings;
		ways_->scaled_least_bytes = scaled_least_bytes(options_);
		return judge(status, &ways_->scaled, "no rows rounded to bytes");
	}

	/// Also removes the way if it gives no answer, as when other processes keep the GPU busy: other ways answer the
	/// same.
	Status test_one_pass()
	{
		if (!options_.one_pass)
			return Status::ok();
		ways_->one_pass = true;
		ways_->filter_min_queries = 0; // the test has small batches

		const Status status = self_test_one_pass(engine_);

		ways_->filter_min_queries = options_.filter_min_queries;
		return judge(status, &ways_->one_pass, "no searches in one pass");
	}

	/// Before those of few lists: these would take its batches.
	Status test_rounded_lists()
	{
		if (!options_.rounded_lists || !options_.rounded)
			return Status::ok();
		ways_->rounded_lists = true;

		Status status = self_test_rounded_lists(engine_);

		if (status.is_ok() && ways_->scaled)
		{
			ways_->both_roundings = false; // the test reads bytes
			ways_->scaled_least_bytes = 1; // and has few rows
			status = self_test_scaled_lists(engine_);
			ways_->both_roundings = options_.both_roundings;
			ways_->scaled_least_bytes = scaled_least_bytes(options_);
		}
		return judge(status, &ways_->rounded_lists, "no searches of lists by rounded rows");
	}

	Status test_few_lists()
	{
		if (!options_.few_lists)
			return Status::ok();
		ways_->few_lists = true;
		return judge(self_test_few_lists(engine_), &ways_->few_lists, "no searches of lists in two launches");
	}

	Status test_few_real_lists()
	{
		if (!options_.few_real_lists)
			return Status::ok();

		const bool bytes = std::exchange(ways_->few_lists, false); // so that bytes go this way, too

		ways_->few_real_lists = true;
		ways_->few_real_pairs = 1e9; // the test searches its lists many times

		const Status status = self_test_few_real_lists(engine_);

		ways_->few_lists = bytes;
		ways_->few_real_pairs = options_.few_real_pairs;
		return judge(status, &ways_->few_real_lists, "no searches of lists of reals in two launches");
	}

	/// Without bins, queries with a recall target are answered exactly.
	Status test_bins() { return judge(self_test_bins(engine_), &ways_->bins, "recall targets are taken for 1"); }

	uint32_t graph_steps() const
	{
		return options_.graph.steps == 0 ? kernels::kGraphDefaultSteps : options_.graph.steps;
	}

	/// If these kernels are wrong, only copies of graphs are refused.
	Status test_graphs()
	{
		ways_->graph_alone = options_.graph_alone;

		const uint32_t steps = graph_steps();
		const bool may_have_clusters =
			ways_->graph_alone && options_.graph.blocks + options_.graph.warps + options_.graph.lanes == 0;
		Status status = self_test_graphs(engine_, steps);
		const bool had_clusters = engine_->n_graph_blocks() > engine_->n_graph_alone();

		if (!status.is_ok() && had_clusters && !device_.fatal())
		{
			device_.log(("no searches of graphs by several blocks each: " + status.message).c_str());
			ways_->graph_tuning.blocks = 1;
			status = self_test_graphs(engine_, steps);
		}
		else if (may_have_clusters && !had_clusters && !device_.fatal())
			device_.log("no searches of graphs by several blocks each: the device has no room for clusters of them");
		if (!status.is_ok() && ways_->graph_alone && !device_.fatal())
		{
			device_.log(("no searches of graphs by a block each: " + status.message).c_str());
			ways_->graph_alone = false;
			status = self_test_graphs(engine_, steps);
		}
		return judge(status, &ways_->holds_graphs, "graphs are not searched on the GPU");
	}

	Status test_bit_graphs()
	{
		if (!ways_->holds_graphs)
			return Status::ok();
		return judge(self_test_bit_graphs(engine_, graph_steps()), &ways_->holds_bit_graphs,
			"graphs of bit strings are not searched on the GPU");
	}

	Status test_hashed()
	{
		uint64_t n_searches = 0;
		const Status status = self_test_hashed(engine_, &n_searches);

		return judge(on_device(status, engine_->n_hashed(), n_searches), &ways_->holds_hashed,
			"graphs are not searched by codes on the GPU");
	}

	Status test_codes()
	{
		return judge(self_test_codes(engine_), &ways_->holds_codes, "codes are not searched on the GPU");
	}

	Status test_matches()
	{
		uint64_t n_searches = 0;
		const Status status = self_test_matches(engine_, &n_searches);

		return judge(on_device(status, engine_->n_matched(), n_searches), &ways_->holds_matches,
			"matches are not counted on the GPU");
	}

	Status test_sparse()
	{
		uint64_t n_searches = 0;
		const Status status = self_test_sparse(engine_, &n_searches);

		return judge(on_device(status, engine_->n_sparse(), n_searches), &ways_->holds_sparse,
			"sparse vectors are not compared on the GPU");
	}

	/// Without them the host evaluates programs.
	Status test_keys()
	{
		const uint64_t before = engine_->n_programs();
		uint64_t n_programs = 0;

		ways_->least_key_rows = 1;

		const Status status = self_test_keys(engine_, &n_programs);

		ways_->least_key_rows = options_.least_key_rows;
		return judge(on_device(status, engine_->n_programs() - before, n_programs), &ways_->holds_keys,
			"conditions are not evaluated on the GPU");
	}

	/// Right answers do not test the kernels if the host gave them.
	static Status on_device(const Status &status, uint64_t n_on_device, uint64_t n_searches)
	{
		return status.is_ok() && n_on_device != n_searches
			? Status::error(StatusCode::kUnavailable, "the host did searches that were the GPU's")
			: status;
	}

	CudaEngine *engine_;
	const Device &device_;
	const CudaEngineOptions &options_;
	Ways *ways_;
};

} // namespace

Ways
asked_ways(const CudaEngineOptions &options)
{
	Ways ways;

	ways.filter_min_queries = options.filter_min_queries;
	ways.graph_tuning = options.graph;
	ways.graph_trace = options.graph_trace;
	ways.one_pass = options.one_pass;
	ways.scaled = options.scaled;
	ways.both_roundings = options.both_roundings;
	ways.scaled_least_bytes = scaled_least_bytes(options);
	ways.few_lists = options.few_lists;
	ways.few_real_lists = options.few_real_lists;
	ways.few_real_pairs = options.few_real_pairs;
	ways.rounded_lists = options.rounded_lists && options.rounded;
	ways.list_choice = options.list_choice;
	ways.graph_alone = options.graph_alone;
	ways.graph_choice = options.graph_choice;
	ways.exact_elements = options.exact_elements;
	ways.least_key_rows = options.least_key_rows;
	return ways;
}

Status
test_ways(CudaEngine *engine, const Device &device, const CudaEngineOptions &options, Ways *ways, StartTimes *times)
{
	return WayTests(engine, device, options, ways).run(times);
}

} // namespace vectorgpu::cuda
