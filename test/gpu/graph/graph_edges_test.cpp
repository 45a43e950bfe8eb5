// The edges that the GPU chooses from lists of nearest rows are those of engine/graph.
#include <algorithm>
#include <numeric>

#include "engine/graph/prune.hpp"
#include "engine/graph/reverse.hpp"
#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::graph::EdgeJob;
using engine::graph::kNoNode;

enum class Kind
{
	kRandom, // any rows
	kNear,   // rows of near numbers: many detours
	kHubs,   // every list has the same few rows: most edges lead to these
	kShort,  // lists end early, or are empty
};

struct Job
{
	uint32_t n_rows;
	uint32_t k;
	uint32_t degree;
	std::vector<uint32_t> lists;

	Job(Kind kind, uint32_t n, uint32_t of_k, uint32_t of_degree, std::mt19937 &rng)
		: n_rows(n), k(of_k), degree(of_degree), lists(size_t{n} * of_k, kNoNode)
	{
		std::vector<uint32_t> others;

		for (uint32_t u = 0; u < n; u++)
		{
			const uint32_t around = kind == Kind::kNear ? std::min(2 * k, n - 1) : n - 1;

			others.clear();
			for (uint32_t i = 0; i < around && (kind != Kind::kHubs || i < 2 * k); i++)
				others.push_back(kind == Kind::kNear ? (u + 1 + (i % 2 == 0 ? i / 2 : n - 2 - i / 2)) % n : i);
			std::erase(others, u);
			std::shuffle(others.begin(), others.end(), rng);
			if (kind == Kind::kHubs)
				std::sort(others.begin(), others.begin() + static_cast<ptrdiff_t>(others.size() / 2));
			if (kind == Kind::kShort)
				others.resize(std::min<size_t>(others.size(), rng() % (k + 1)));
			std::copy_n(others.begin(), std::min<size_t>(others.size(), k), lists.begin() + size_t{u} * k);
		}
	}

	/// By the CPU's one thread, with forward edges as they are given.
	std::vector<uint32_t> edges_of_cpu(const std::vector<uint8_t> *chosen, std::vector<uint32_t> *forward)
	{
		engine::graph::KnnLists of;
		engine::graph::GraphRows rows;
		std::vector<uint32_t> edges(size_t{n_rows} * degree);

		of.ids = lists.data();
		of.k = k;
		rows.n_rows = n_rows;

		Bytes work(std::max(engine::graph::prune_bytes(of), engine::graph::add_reverse_bytes(n_rows, degree)));

		EXPECT_TRUE(engine::graph::prune(rows, of, engine::graph::PruneKind::kRank, degree, forward->data(),
			work.data(), work.size(), {}, chosen != nullptr ? chosen->data() : nullptr)
				.is_ok());
		EXPECT_TRUE(engine::graph::add_reverse(n_rows, degree, forward->data(), edges.data(), work.data(), work.size())
				.is_ok());
		return edges;
	}

	void expect_same(const std::vector<uint8_t> *chosen, const std::vector<uint32_t> &before)
	{
		engine::SearchControl control;
		std::vector<uint32_t> want_forward = before;
		std::vector<uint32_t> forward = before;
		std::vector<uint32_t> edges(size_t{n_rows} * degree, 12345);
		const std::vector<uint32_t> want = edges_of_cpu(chosen, &want_forward);
		const EdgeJob job = {n_rows, k, degree, lists.data(), chosen != nullptr ? chosen->data() : nullptr,
			forward.data(), edges.data()};

		SCOPED_TRACE(testing::Message() << "rows " << n_rows << " k " << k << " degree " << degree);
		ASSERT_OK(cuda_engine()->choose_graph_edges(job, &control));
		ASSERT_EQ(forward, want_forward);
		ASSERT_EQ(edges, want);
	}
};

TEST(GraphEdges, AreThoseOfTheCpu)
{
	std::mt19937 rng(1);

	for (const Kind kind : {Kind::kRandom, Kind::kNear, Kind::kHubs, Kind::kShort})
		for (const auto &[n, degree] : {std::pair{1u, 2u}, {2u, 2u}, {3u, 2u}, {33u, 3u}, {128u, 31u}, {1000u, 32u},
				 {5001u, 32u}, {2047u, 33u}, {900u, 64u}, {700u, 256u}})
			for (const uint32_t k : {degree + degree / 2, degree, std::max(degree / 2, 1u)})
			{
				Job job(kind, n, k, degree, rng);

				ASSERT_NO_FATAL_FAILURE(job.expect_same(nullptr, std::vector<uint32_t>(size_t{n} * degree, 7)));
			}
}

/// As where rows are held out: rows that have lost a member choose anew, others keep their edges.
TEST(GraphEdges, OfSomeRowsAreChosenAnew)
{
	std::mt19937 rng(2);

	for (const uint32_t degree : {4u, 32u, 100u})
	{
		Job job(Kind::kNear, 3000, degree * 3 / 2, degree, rng);
		std::vector<uint32_t> forward(size_t{3000} * degree);
		std::vector<uint8_t> chosen(3000);

		(void) job.edges_of_cpu(nullptr, &forward);
		for (uint32_t u = 0; u < 3000; u++)
		{
			uint32_t *list = job.lists.data() + size_t{u} * job.k;

			chosen[u] = rng() % 3 == 0;
			if (chosen[u] != 0)
			{
				std::rotate(list + rng() % job.k, list + job.k - 1, list + job.k); // another order
				list[job.k - 1] = kNoNode;
			}
			else if (rng() % 10 == 0)
				std::fill_n(forward.begin() + size_t{u} * degree, degree, kNoNode);
		}
		ASSERT_NO_FATAL_FAILURE(job.expect_same(&chosen, forward));
	}
}

TEST(GraphEdges, MayOverlapTheLists)
{
	std::mt19937 rng(3);
	Job job(Kind::kNear, 2500, 48, 32, rng);
	std::vector<uint32_t> want_forward(size_t{2500} * 32);
	std::vector<uint32_t> forward(size_t{2500} * 32);
	const std::vector<uint32_t> want = job.edges_of_cpu(nullptr, &want_forward);

	ASSERT_OK(cuda_engine()->choose_graph_edges(
		{2500, 48, 32, job.lists.data(), nullptr, forward.data(), job.lists.data()}, nullptr));
	job.lists.resize(want.size());
	EXPECT_EQ(job.lists, want);
}

TEST(GraphEdges, RefuseWhatTheyCannotHold)
{
	const uint32_t none = 0;
	uint32_t out = 5;

	for (const EdgeJob &job : {EdgeJob{1, 385, 32, &none, nullptr, &out, &out},
			 EdgeJob{1, 48, 257, &none, nullptr, &out, &out}, EdgeJob{1u << 30, 3, 2, &none, nullptr, &out, &out}})
		EXPECT_EQ(cuda_engine()->choose_graph_edges(job, nullptr).code, StatusCode::kUnsupported);
	EXPECT_EQ(out, 5u);

	engine::SearchControl control;
	std::mt19937 rng(4);
	Job job(Kind::kRandom, 100, 6, 4, rng);
	std::vector<uint32_t> forward(400, 9), edges(400, 9);

	control.stop = true;
	EXPECT_EQ(cuda_engine()
				  ->choose_graph_edges({100, 6, 4, job.lists.data(), nullptr, forward.data(), edges.data()}, &control)
				  .code,
		StatusCode::kCancelled);
	EXPECT_EQ(edges, std::vector<uint32_t>(400, 9));
}

} // namespace
} // namespace vectorgpu::cuda::test
