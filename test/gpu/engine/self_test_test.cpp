// The self-tests themselves, with the CPU engine in place of the GPU: right answers pass, and one wrong answer to any
// query of any batch is found. No GPU is needed.
#include <functional>

#include <gtest/gtest.h>

#include "cuda/selftest/self_test.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/graph/search.hpp"
#include "engine/interface/key_codes.hpp"
#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/row_bits.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyId;
using engine::Neighbor;
using engine::RowBlock;
using engine::SegmentId;

/// The host's evaluation in place of the device's, with one spoiled answer.
class SpoilingKeys final : public engine::KeyCodes
{
public:
	SpoilingKeys(const engine::KeyArea &area, size_t *n_programs, size_t spoiled)
		: area_(area), n_programs_(n_programs), spoiled_(spoiled)
	{
	}

	Status find_rows(const engine::predicate::Program &program, engine::PassingSegment *found) override
	{
		found->n_rows = area_.n_rows;
		found->bits.resize(engine::predicate::row_bits_bytes(area_.n_rows));
		found->n_pass = engine::predicate::evaluate_rows(
			program, area_.columns.data(), 0, area_.n_rows, found->bits.data(), nullptr)
							.n_pass;
		found->listed = found->n_pass <= area_.n_rows / engine::kFewOfRows;
		if (found->listed)
		{
			found->rows.resize(found->n_pass);
			(void) engine::predicate::list_rows(
				found->bits.data(), area_.n_rows, found->rows.data(), found->rows.size());
			found->bits.clear();
		}
		if ((*n_programs_)++ == spoiled_)
			spoil(found);
		return Status::ok();
	}

	Status check(const engine::KeyArea &, uint64_t, uint64_t, uint64_t *) override { return Status::ok(); }

private:
	static void spoil(engine::PassingSegment *found)
	{
		if (found->rows.empty() && found->listed)
			found->n_pass++;
		else if (found->listed)
			found->rows.back()++;
		else
			found->bits.back() ^= 1;
	}

	const engine::KeyArea area_; // the caller's memory
	size_t *const n_programs_;
	const size_t spoiled_;
};

/// The CPU engine with one spoiled answer in one search.
class SpoilingEngine final : public engine::Engine
{
public:
	size_t n_searches = 0;            // so far
	size_t n_queries = 0;             // of the last one
	size_t spoiled_search = SIZE_MAX; // by its number
	size_t spoiled_query = 0;         // of it
	size_t n_programs = 0;            // over codes of key columns
	size_t spoiled_program = SIZE_MAX;

	const char *name() const override { return "cuda"; }
	const char *description() const override { return "spoils answers"; }
	Status create(const engine::CopySpec &spec, CopyId *copy) override { return inner_->create(spec, copy); }
	Status load_segment(CopyId copy, SegmentId segment, const RowBlock &rows) override
	{
		return inner_->load_segment(copy, segment, rows);
	}
	Status seal_segment(CopyId copy, SegmentId segment) override { return inner_->seal_segment(copy, segment); }
	Status drop_segment(CopyId copy, SegmentId segment) override { return inner_->drop_segment(copy, segment); }
	Status trim_delta(CopyId copy, uint64_t position) override { return inner_->trim_delta(copy, position); }
	Status drop(CopyId copy) override { return inner_->drop(copy); }
	engine::EngineStats stats() const override { return inner_->stats(); }
	uint64_t n_rescored() const override { return inner_->n_rescored(); }

	Status load_structure(CopyId copy, SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return inner_->load_structure(copy, segment, parameter, bytes);
	}

	Status append_delta(CopyId copy, uint64_t position, const RowBlock &rows) override
	{
		return inner_->append_delta(copy, position, rows);
	}

	Status set_tombstones(CopyId copy, SegmentId segment, std::span<const uint8_t> bits) override
	{
		return inner_->set_tombstones(copy, segment, bits);
	}

	Status set_delta_tombstones(CopyId copy, uint64_t first, std::span<const uint8_t> bits) override
	{
		return inner_->set_delta_tombstones(copy, first, bits);
	}

	Status read_rows(CopyId copy, SegmentId segment, uint64_t first, size_t n, RowId *ids, void *vectors) override
	{
		return inner_->read_rows(copy, segment, first, n, ids, vectors);
	}

	Status read_structure(CopyId copy, SegmentId segment, uint64_t first, size_t n, void *bytes) override
	{
		return inner_->read_structure(copy, segment, first, n, bytes);
	}

	Status read_tombstones(CopyId copy, SegmentId segment, uint64_t first, size_t n, uint8_t *bits) override
	{
		return inner_->read_tombstones(copy, segment, first, n, bits);
	}

	Status check_derived(CopyId copy, SegmentId segment, uint64_t first, size_t n, uint64_t *n_different) override
	{
		return inner_->check_derived(copy, segment, first, n, n_different);
	}

	Status hold_key_codes(CopyId, const engine::KeyArea &area, std::shared_ptr<engine::KeyCodes> *codes) override
	{
		*codes = std::make_shared<SpoilingKeys>(area, &n_programs, spoiled_program);
		return Status::ok();
	}

	Status make_list_builder(const engine::ListBuildSpec &spec, engine::SearchControl *control,
		std::unique_ptr<engine::ListBuilder> *builder) override
	{
		return inner_->make_list_builder(spec, control, builder);
	}

	Status search(CopyId copy, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results, engine::SearchControl *control) override
	{
		const Status status = inner_->search(copy, queries, results, control);

		n_queries = queries.size();
		if (status.is_ok() && n_searches++ == spoiled_search && !(*results)[spoiled_query].empty())
			(*results)[spoiled_query].back().row++;
		return status;
	}

private:
	const std::unique_ptr<engine::Engine> inner_ = engine::make_cpu_engine(engine::CpuEngineOptions());
};

using SelfTest = std::function<Status(engine::Engine *)>;

/// Each search's first, last and one other answer, spoiled, fails the test.
void
expect_spoiled_answers_are_found(const SelfTest &test)
{
	SpoilingEngine right;
	std::vector<size_t> n_queries;
	const Status status = test(&right);

	ASSERT_TRUE(status.is_ok()) << status.message;
	ASSERT_GT(right.n_searches, 0u);
	for (size_t search = 0; search < right.n_searches; search++)
	{
		size_t last = 0;

		for (size_t query = 0;; query = query == 0 && last > 1 ? last * 2 / 3 : last)
		{
			SpoilingEngine wrong;

			wrong.spoiled_search = search;
			wrong.spoiled_query = query;
			EXPECT_EQ(test(&wrong).code, StatusCode::kUnavailable) << "search " << search << ", answer " << query;
			ASSERT_EQ(wrong.n_searches, search + 1); // nothing else was wrong
			last = wrong.n_queries - 1;
			if (query == last)
				break;
		}
	}
}

TEST(SelfTests, FindAWrongAnswerOfRowsAndLists)
{
	expect_spoiled_answers_are_found([](engine::Engine *engine) { return self_test(engine); });
}

TEST(SelfTests, FindAWrongAnswerOfGraphs)
{
	expect_spoiled_answers_are_found(
		[](engine::Engine *engine) { return self_test_graphs(engine, engine::graph::kSearchSteps); });
}

TEST(SelfTests, FindAWrongAnswerOfGraphsWithCodes)
{
	expect_spoiled_answers_are_found(
		[](engine::Engine *engine)
		{
			uint64_t n_searches = 0;

			return self_test_hashed(engine, &n_searches);
		});
}

TEST(SelfTests, FindAWrongAnswerOfCodes)
{
	expect_spoiled_answers_are_found([](engine::Engine *engine) { return self_test_codes(engine); });
}

TEST(SelfTests, FindAWrongAnswerOfMatches)
{
	expect_spoiled_answers_are_found(
		[](engine::Engine *engine)
		{
			uint64_t n_searches = 0;

			return self_test_matches(engine, &n_searches);
		});
}

TEST(SelfTests, FindAWrongAnswerOfSparseVectors)
{
	expect_spoiled_answers_are_found(
		[](engine::Engine *engine)
		{
			uint64_t n_searches = 0;

			return self_test_sparse(engine, &n_searches);
		});
}

TEST(SelfTests, FindAWrongAnswerOfKeyColumns)
{
	uint64_t n_programs = 0;
	SpoilingEngine right;
	const Status status = self_test_keys(&right, &n_programs);

	ASSERT_TRUE(status.is_ok()) << status.message;
	ASSERT_EQ(right.n_programs, n_programs);
	ASSERT_GT(n_programs, 20u);
	for (size_t program = 0; program < n_programs; program++)
	{
		uint64_t n = 0;
		SpoilingEngine wrong;

		wrong.spoiled_program = program;
		EXPECT_EQ(self_test_keys(&wrong, &n).code, StatusCode::kUnavailable) << "program " << program;
		ASSERT_EQ(wrong.n_programs, program + 1);
	}
}

// The CPU engine treats a recall target as 1: its exact answers must not pass for those of bins.
TEST(SelfTests, ExactAnswersAreNotThoseOfBins)
{
	SpoilingEngine exact;

	EXPECT_EQ(self_test_bins(&exact).code, StatusCode::kUnavailable);
}

} // namespace
} // namespace vectorgpu::cuda::test
