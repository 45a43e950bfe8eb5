// Recall on real data, without the query's own row: floors for the codes, and a calibration that holds for other
// queries.

#include "engine/ivf/calibration.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/pq_scan.hpp"
#include "engine/ivf/pq_train.hpp"
#include "engine/ivf/sq8.hpp"
#include "engine/distance/topk.hpp"
#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

constexpr size_t kNeighbors = 10;
constexpr size_t kHalf = 300;
constexpr uint32_t kLists = 64;

/// The first n rows by score, `self` left out.
std::vector<uint32_t>
nearest(const std::vector<double> &scores, size_t n, size_t self)
{
	std::vector<Neighbor> order;

	for (size_t i = 0; i < scores.size(); i++)
		if (i != self)
			order.push_back({scores[i], i});
	std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(n), order.end(), neighbor_less);

	std::vector<uint32_t> rows;

	for (size_t i = 0; i < n; i++)
		rows.push_back(static_cast<uint32_t>(order[i].row));
	return rows;
}

/// 10,000 SIFT vectors in 64 lists; the first 600 are the queries.
struct RealData : testing::Test
{
	void SetUp() override
	{
		rows = data_rows("bigann10k-128.base", &dim, 10000);
		if (rows.empty())
			GTEST_SKIP() << "VECTORGPU_DATA is not set";
		n = rows.size() / dim;
		centroids.resize(kLists * dim);

		KMeansSpec spec;

		spec.dim = dim;
		spec.n_clusters = kLists;
		spec.n_rows = n;

		Buffer work(kmeans_work_bytes(spec));

		ASSERT_TRUE(kmeans_train(spec, {rows.data(), dim}, centroids.data(), nullptr, nullptr, work.data(), work.size())
				.is_ok());
		memory.resize(coarse_bytes(dim, kLists));
		ASSERT_TRUE(coarse_init(centroids.data(), kLists, dim, memory.data(), memory.size(), &coarse).is_ok());
		work.resize(std::max(work.size(), coarse_assign_work_bytes(coarse, 1)));
		labels.resize(n);
		ASSERT_TRUE(
			coarse_assign(coarse, rows.data(), dim, n, labels.data(), nullptr, work.data(), work.size()).is_ok());
		for (size_t q = 0; q < 2 * kHalf; q++)
			truth.push_back(nearest(exact_scores(q), kNeighbors, q));
	}

	std::vector<double> exact_scores(size_t q) const
	{
		std::vector<double> scores(n);

		compute_scores(
			{Metric::kL2, ElementType::kFloat32, dim}, &rows[q * dim], rows.data(), dim * 4, n, scores.data());
		return scores;
	}

	/// Share of the true neighbours among the candidates of the first 100 queries.
	template <class Scores>
	double recall(size_t candidates, Scores scores) const
	{
		size_t found = 0;

		for (size_t q = 0; q < 100; q++)
		{
			const std::vector<uint32_t> kept = nearest(scores(q), candidates, q);

			for (uint32_t row : truth[q])
				found += static_cast<size_t>(std::count(kept.begin(), kept.end(), row));
		}
		return static_cast<double>(found) / static_cast<double>(100 * kNeighbors);
	}

	uint32_t dim = 0;
	size_t n = 0;
	Floats rows;
	Floats centroids;
	Buffer memory;
	Coarse coarse;
	std::vector<uint32_t> labels;
	std::vector<std::vector<uint32_t>> truth;
};

TEST_F(RealData, CalibrationHoldsForQueriesItHasNotSeen)
{
	Calibration seen;
	Calibration unseen;

	for (Calibration *calibration : {&seen, &unseen})
	{
		const size_t first = calibration == &seen ? 0 : kHalf;
		std::vector<uint32_t> ranks;
		std::vector<uint32_t> lists(kLists);
		std::vector<double> scores(kLists);

		for (size_t q = first; q < first + kHalf; q++)
		{
			coarse_rank(coarse, Metric::kL2, &rows[q * dim], kLists, lists.data(), scores.data());
			for (uint32_t row : truth[q])
				ranks.push_back(
					static_cast<uint32_t>(std::find(lists.begin(), lists.end(), labels[row]) - lists.begin()));
		}
		calibration_points(kLists, calibration);
		calibrate_by_rank(ranks.data(), kHalf, kNeighbors, calibration);
	}
	for (double target : {0.8, 0.9, 0.95, 0.99})
	{
		const uint32_t probes = probes_for(seen, target);

		EXPECT_LT(probes, kLists) << "target " << target;
		EXPECT_NEAR(recall_of(unseen, probes), recall_of(seen, probes), 0.02) << "target " << target;
	}
	EXPECT_EQ(recall_of(seen, kLists), 1);
}

TEST_F(RealData, Sq8FindsTheNeighbors)
{
	Floats low(dim), step(dim), state(sq8_query_floats(dim));
	Buffer codes(rows.size());
	const Sq8Ranges ranges = {low.data(), step.data()};

	sq8_train(rows.data(), n, dim, ranges);
	sq8_encode(ranges, rows.data(), n, dim, codes.data());
	EXPECT_GE(recall(kNeighbors,
				  [&](size_t q)
				  {
					  std::vector<double> scores(n);

					  sq8_scores(sq8_prepare(ranges, Metric::kL2, &rows[q * dim], dim, state.data()), codes.data(), n,
						  scores.data());
					  return scores;
				  }),
		0.98);
}

TEST_F(RealData, PqFindsTheNeighborsAmongTenTimesAsMany)
{
	struct Case
	{
		uint32_t m, bits;
		bool opq;
		double floor, refined_floor;
	};

	for (const Case &c : {Case{16, 8, false, 0.55, 0.97}, Case{16, 8, true, 0.55, 0.97}, Case{32, 4, false, 0.5, 0.95}})
	{
		const PqSpec spec = {Metric::kL2, dim, c.m, c.bits, c.opq};
		Floats codebook(pq_codebook_floats(spec)), rotation(pq_rotation_floats(spec));
		Floats rotated(size_t{kLists} * pq_padded_dim(spec)), terms(n);
		const PqModel model = {spec, codebook.data(), rotation.data()};
		PqTraining training;
		PqEncoder encoder;
		PqQuery prepared;

		training.rows = rows.data();
		training.labels = labels.data();
		training.centroids = centroids.data();
		training.n_rows = n;
		training.max_iterations = 5;
		training.opq_iterations = 4;

		Buffer work(pq_train_work_bytes(spec, training)), encoder_memory(pq_encoder_bytes(spec));
		Buffer codes(n * pq_code_bytes(spec)), query_memory(pq_query_bytes(spec));

		ASSERT_TRUE(pq_train(model, training, nullptr, work.data(), work.size()).is_ok());
		pq_rotate(model, centroids.data(), kLists, rotated.data());
		ASSERT_TRUE(
			pq_encoder_init(model, rotated.data(), encoder_memory.data(), encoder_memory.size(), &encoder).is_ok());
		work.resize(std::max(work.size(), pq_encode_work_bytes(encoder, 1)));
		ASSERT_TRUE(
			pq_encode(encoder, rows.data(), labels.data(), n, codes.data(), terms.data(), work.data(), work.size())
				.is_ok());

		const size_t code_bytes = pq_code_bytes(spec);
		std::vector<std::vector<size_t>> members(kLists);
		std::vector<Buffer> interleaved(kLists);
		std::vector<Floats> list_terms(kLists);

		for (size_t i = 0; i < n; i++)
		{
			members[labels[i]].push_back(i);
			list_terms[labels[i]].push_back(terms[i]);
		}
		for (uint32_t list = 0; list < kLists; list++)
		{
			Buffer list_codes;

			for (size_t i : members[list])
				for (size_t j = 0; j < code_bytes; j++)
					list_codes.push_back(codes[i * code_bytes + j]);
			interleaved[list].resize(interleaved_bytes(members[list].size(), code_bytes));
			interleave_codes(list_codes.data(), members[list].size(), code_bytes, interleaved[list].data());
		}

		const auto by_codes = [&](size_t q)
		{
			std::vector<double> scores(n);
			std::vector<double> list_scores(n);

			EXPECT_TRUE(pq_prepare(model, &rows[q * dim], query_memory.data(), query_memory.size(), &prepared).is_ok());
			for (uint32_t list = 0; list < kLists; list++)
			{
				pq_scores(prepared, l2_score(&rows[q * dim], &centroids[list * dim], dim), interleaved[list].data(),
					list_terms[list].data(), members[list].size(), list_scores.data());
				for (size_t i = 0; i < members[list].size(); i++)
					scores[members[list][i]] = list_scores[i];
			}
			return scores;
		};

		EXPECT_GE(recall(kNeighbors, by_codes), c.floor) << "m " << c.m << ", bits " << c.bits << ", opq " << c.opq;
		EXPECT_GE(recall(10 * kNeighbors, by_codes), c.refined_floor)
			<< "m " << c.m << ", bits " << c.bits << ", opq " << c.opq;
	}
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
