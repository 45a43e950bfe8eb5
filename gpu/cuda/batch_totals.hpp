// Sums of what an engine's batches have done.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/resident/resident_copy.hpp"

namespace vectorgpu::cuda
{

struct BatchTotals
{
	using Count = std::atomic<uint64_t>;

	Count n_searches{0};
	Count n_batches{0};
	Count n_rescored{0};
	Count n_one_pass{0};
	Count n_given_up{0};
	Count n_graph_alone{0};
	Count n_graph_blocks{0};
	Count n_entries_apart{0};
	Count n_few_lists{0};
	Count n_few_real_lists{0};
	Count n_rounded_lists{0};
	Count n_packed{0};
	Count n_own_rows{0};
	Count n_hashed{0};
	Count n_matched{0};
	Count n_sparse{0};

	void add(const BatchCounts &counts)
	{
		n_rescored += counts.n_rescored;
		n_one_pass += counts.n_one_pass;
		n_given_up += counts.n_given_up;
		n_graph_alone += counts.n_graph_alone;
		n_graph_blocks += counts.n_graph_blocks;
		n_entries_apart += counts.n_entries_apart;
		n_few_lists += counts.n_few_lists;
		n_few_real_lists += counts.n_few_real_lists;
		n_rounded_lists += counts.n_rounded_lists;
		n_packed += counts.n_packed;
		n_own_rows += counts.n_own_rows;
		n_hashed += counts.n_hashed;
		n_matched += counts.n_matched;
		n_sparse += counts.n_sparse;
	}

	/// After the self-test. Passes that it gave up stay counted.
	void reset()
	{
		n_searches = n_batches = n_rescored = n_one_pass = n_graph_alone = n_graph_blocks = n_entries_apart =
			n_few_lists = n_few_real_lists = n_rounded_lists = n_packed = n_own_rows = n_hashed = n_matched = n_sparse =
				0;
	}
};

} // namespace vectorgpu::cuda
