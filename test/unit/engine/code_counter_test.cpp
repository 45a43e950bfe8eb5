// Counts of codes during a build: those of every row looked at by itself, whatever the parts and the threads.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/list_builder.hpp"

namespace vectorgpu::engine
{
namespace
{

using ivf::CodeKind;
using ivf::CountedNeighbors;

constexpr uint32_t kDim = 20;
constexpr uint32_t kLists = 11;
constexpr size_t kRows = 2600;
constexpr size_t kQueries = 9;
constexpr size_t kNeighbors = ivf::kCountedNeighbors;
constexpr size_t kPoints = ivf::kMaxCalibrationPoints;

struct Case
{
	const char *name;
	ivf::CodeSpec codes;
	uint32_t stride;
};

Case
make_case(const char *name, CodeKind kind, Metric metric, uint32_t bits, uint32_t stride)
{
	Case made = {name, {}, stride};

	made.codes.kind = kind;
	made.codes.metric = metric;
	made.codes.dim = kDim;
	made.codes.bits = kind == CodeKind::kRabitq ? bits : 0;
	if (kind == CodeKind::kPq)
		made.codes.pq = {metric, kDim, 5, bits, false};
	return made;
}

void
PrintTo(const Case &value, std::ostream *stream)
{
	*stream << value.name << " stride " << value.stride;
}

struct Query
{
	CountedNeighbors neighbors;
	std::vector<float> floats;
	std::vector<float> constants; // empty: none
	std::vector<uint8_t> points;

	std::vector<uint8_t> bytes() const
	{
		std::vector<uint8_t> all(sizeof(neighbors));
		const auto add = [&](const auto &values)
		{
			const uint8_t *from = reinterpret_cast<const uint8_t *>(values.data());

			all.insert(all.end(), from, from + values.size() * sizeof(values[0]));
		};

		memcpy(all.data(), &neighbors, sizeof(neighbors));
		add(floats);
		add(constants);
		add(points);
		return all;
	}
};

struct CodeCounts : testing::TestWithParam<Case>
{
	CodeCounts() : rng(3), rows(kRows * kDim)
	{
		std::normal_distribution<float> normal;

		for (float &x : rows)
			x = normal(rng);
		for (size_t i = 0; i < kRows; i++) // many rows with the same code
			if (i % 3 == 0)
				std::copy_n(rows.begin() + i % 30 * kDim, kDim, rows.begin() + i * kDim);
		make_codes();
		for (size_t q = 0; q < kQueries; q++)
			queries.push_back(make_query(q));
	}

	std::unique_ptr<ListBuilder> begin(Engine *engine)
	{
		const ivf::CodeSpec &spec = GetParam().codes;
		std::unique_ptr<ListBuilder> builder;
		ListBuildSpec lists;
		ListCodeSpec coded;

		lists.rows = {spec.metric, ElementType::kFloat32, kDim};
		lists.n_clusters = kLists;
		coded.codes = spec;
		coded.n_training = spec.kind == CodeKind::kRabitq ? 0 : 600;
		EXPECT_TRUE(engine->make_list_builder(lists, &control, &builder).is_ok());
		EXPECT_TRUE(builder->add_centroids(rows.data() + 50 * kDim, kLists).is_ok());
		EXPECT_TRUE(builder->begin_codes(coded).is_ok());
		if (coded.n_training > 0)
		{
			EXPECT_TRUE(builder->add_code_training(rows.data(), 600).is_ok());
			EXPECT_TRUE(builder->train_codes().is_ok());
		}
		else
			EXPECT_TRUE(builder->add_code_model(std::vector<float>(kDim + 1, 0.25f).data(), kDim + 1).is_ok());
		return builder;
	}

	/// Codes and terms of all rows, and their lists.
	void make_codes()
	{
		const ivf::CodeSpec &spec = GetParam().codes;
		const auto engine = make_cpu_engine({.n_threads = 1});
		const std::unique_ptr<ListBuilder> builder = begin(engine.get());
		std::vector<float> scores(kRows);
		std::vector<uint8_t> is_out(kRows);

		labels.resize(kRows);
		codes.resize(kRows * ivf::code_bytes(spec));
		terms.resize(kRows);
		ASSERT_TRUE(builder
				->assign(0, rows.data(), kRows, labels.data(), scores.data(),
					{codes.data(), ivf::code_has_terms(spec) ? terms.data() : nullptr, is_out.data()})
				.is_ok());
		model = builder->coder()->model();
	}

	/// The estimate of one row.
	double score(const Query &query, size_t row)
	{
		const ivf::CodeSpec &spec = GetParam().codes;
		const ivf::CodeModel code_model = ivf::make_code_model(spec, model.data());
		std::vector<uint8_t> memory(ivf::code_query_bytes(spec));
		std::vector<uint8_t> block(ivf::kCodeBlockRows * ivf::code_bytes(spec));
		const double constant = query.constants.empty() ? 0 : static_cast<double>(query.constants[labels[row]]);
		ivf::CodeQuery prepared;
		double found;

		EXPECT_TRUE(
			ivf::code_query_prepare(code_model, query.floats.data(), memory.data(), memory.size(), &prepared).is_ok());
		if (ivf::code_unit_rows(spec) > 1)
			ivf::code_make_blocks(spec, codes.data() + row * ivf::code_bytes(spec), 1, block.data());
		else
			std::copy_n(codes.begin() + static_cast<ptrdiff_t>(row * ivf::code_bytes(spec)), ivf::code_bytes(spec),
				block.begin());
		ivf::mixed_code_scores(
			prepared, &constant, block.data(), ivf::code_has_terms(spec) ? &terms[row] : nullptr, 1, &found);
		return found;
	}

	Query make_query(size_t q)
	{
		std::uniform_int_distribution<size_t> any_row(0, kRows - 1);
		std::uniform_int_distribution<int> any_point(0, 4);
		Query query;

		query.floats.assign(rows.begin() + static_cast<ptrdiff_t>(q * 7 * kDim),
			rows.begin() + static_cast<ptrdiff_t>((q * 7 + 1) * kDim));
		for (uint32_t list = 0; list < kLists; list++)
		{
			query.points.push_back(static_cast<uint8_t>(any_point(rng)));
			if (ivf::code_is_residual(GetParam().codes))
				query.constants.push_back(static_cast<float>(any_point(rng)) / 4);
		}
		query.neighbors.near_point = 1;
		query.neighbors.n = q == 4 ? 3 : kNeighbors;
		query.neighbors.n_copies = q % 2 == 0 ? 0 : ivf::kMostCopies;
		for (uint32_t j = 0; j < query.neighbors.n; j++)
		{
			query.neighbors.numbers[j] = any_row(rng);
			query.neighbors.limits[j] = score(query, query.neighbors.numbers[j]);
		}
		if (q == 2)
			query.neighbors.limits[1] = std::numeric_limits<double>::quiet_NaN();
		for (uint32_t i = 0; i < query.neighbors.n_copies; i++)
			query.neighbors.copies[i] = any_row(rng);
		return query;
	}

	/// The definition, row by row.
	std::vector<uint32_t> expected(uint32_t batch_rows)
	{
		std::vector<uint32_t> all(kQueries * kNeighbors * kPoints);

		for (size_t q = 0; q < kQueries; q++)
			for (size_t row = 0; row < kRows; row++)
			{
				const Query &query = queries[q];
				const CountedNeighbors &of = query.neighbors;
				const uint8_t point = query.points[labels[row]];
				const bool near = point <= of.near_point;
				const bool sampled = row / batch_rows % GetParam().stride == q % GetParam().stride;
				const double found = score(query, row);

				if (!near && !sampled)
					continue;
				if (std::count(of.copies, of.copies + of.n_copies, row) > 0)
					continue;
				for (uint32_t j = 0; j < of.n; j++)
					if (found < of.limits[j] || (found == of.limits[j] && row < of.numbers[j]))
						all[(q * kNeighbors + j) * kPoints + point] += near ? 1 : GetParam().stride;
			}
		return all;
	}

	std::vector<uint8_t> row_bytes(size_t first, size_t n) const
	{
		const ivf::CodeSpec &spec = GetParam().codes;
		const size_t code_bytes = ivf::code_bytes(spec);
		std::vector<uint8_t> bytes(n * sizeof(uint32_t));

		memcpy(bytes.data(), labels.data() + first, n * sizeof(uint32_t));
		for (size_t i = first; i < first + n; i++)
		{
			const uint8_t *term = reinterpret_cast<const uint8_t *>(&terms[i]);

			bytes.insert(bytes.end(), codes.data() + i * code_bytes, codes.data() + (i + 1) * code_bytes);
			if (ivf::code_has_terms(spec))
				bytes.insert(bytes.end(), term, term + sizeof(float));
		}
		EXPECT_EQ(bytes.size(), n * CodeCounter::row_bytes(spec));
		return bytes;
	}

	SearchControl control;
	std::mt19937 rng;
	std::vector<float> rows;
	std::vector<uint32_t> labels;
	std::vector<uint8_t> codes;
	std::vector<float> terms;
	std::vector<float> model;
	std::vector<Query> queries;
};

TEST_P(CodeCounts, are_those_of_every_row_by_itself)
{
	constexpr uint32_t kBatch = 96;
	const std::vector<uint32_t> right = expected(kBatch);
	uint64_t sum = 0;

	for (const uint32_t count : right)
		sum += count;
	EXPECT_GT(sum, 1000u);
	for (const size_t n_threads : {1, 4})
		for (const size_t part : {size_t{1}, size_t{50}, size_t{96}, size_t{700}, kRows})
		{
			const auto engine = make_cpu_engine({.n_threads = n_threads});
			const std::unique_ptr<ListBuilder> builder = begin(engine.get());

			ASSERT_TRUE(builder->begin_counts({kQueries, {kBatch, GetParam().stride}}).is_ok());
			for (const Query &query : queries)
			{
				EXPECT_TRUE(builder->counter()->counts().empty()) << "before all queries are there";
				ASSERT_TRUE(builder->add_counted(query.bytes().data(), 1).is_ok());
			}
			for (size_t first = 0; first < kRows; first += part)
			{
				const size_t n = std::min(part, kRows - first);

				ASSERT_TRUE(builder->count_codes(first, row_bytes(first, n).data(), n).is_ok());
			}
			EXPECT_EQ(builder->counter()->counts(), right) << n_threads << " threads, parts of " << part;
		}
}

TEST_P(CodeCounts, of_what_cannot_be_are_refused)
{
	const auto engine = make_cpu_engine({.n_threads = 2});
	const std::unique_ptr<ListBuilder> builder = begin(engine.get());
	const std::vector<uint8_t> good = queries[0].bytes();
	const auto refused = [&](auto change)
	{
		Query query = queries[0];

		change(&query);
		return builder->add_counted(query.bytes().data(), 1).code == StatusCode::kInvalidArgument;
	};

	EXPECT_FALSE(builder->add_counted(good.data(), 1).is_ok()) << "before they begin";
	EXPECT_FALSE(builder->count_codes(0, row_bytes(0, 1).data(), 1).is_ok());
	for (const CodeCountSpec &spec : {CodeCountSpec{0, {32, 1}}, CodeCountSpec{1, {0, 1}}, CodeCountSpec{1, {33, 1}},
			 CodeCountSpec{1, {32, 0}}, CodeCountSpec{1, {1 << 20, 1}}, CodeCountSpec{1 << 20, {32, 1}}})
		EXPECT_FALSE(builder->begin_counts(spec).is_ok());
	ASSERT_TRUE(builder->begin_counts({2, {32, 1}}).is_ok());
	EXPECT_TRUE(refused([](Query *query) { query->neighbors.n = kNeighbors + 1; }));
	EXPECT_TRUE(refused([](Query *query) { query->neighbors.n_copies = ivf::kMostCopies + 1; }));
	EXPECT_TRUE(refused([](Query *query) { query->points[kLists - 1] = kPoints; }));
	EXPECT_TRUE(refused([](Query *query) { query->floats[3] = std::numeric_limits<float>::infinity(); }));
	ASSERT_TRUE(builder->add_counted(good.data(), 1).is_ok());
	EXPECT_FALSE(builder->count_codes(0, row_bytes(0, 1).data(), 1).is_ok()) << "a query is missing";
	ASSERT_TRUE(builder->add_counted(good.data(), 1).is_ok());
	EXPECT_FALSE(builder->add_counted(good.data(), 1).is_ok()) << "more than were announced";
	labels[1] = kLists;
	EXPECT_FALSE(builder->count_codes(0, row_bytes(0, 2).data(), 2).is_ok()) << "a list that there is not";
	EXPECT_TRUE(builder->count_codes(0, row_bytes(0, 1).data(), 1).is_ok());
}

INSTANTIATE_TEST_SUITE_P(All, CodeCounts,
	testing::Values(make_case("bytes", CodeKind::kSq8, Metric::kL2, 0, 1),
		make_case("bytes", CodeKind::kSq8, Metric::kInnerProduct, 0, 4),
		make_case("parts", CodeKind::kPq, Metric::kL2, 8, 3), make_case("parts", CodeKind::kPq, Metric::kL2, 4, 1),
		make_case("parts", CodeKind::kPq, Metric::kInnerProduct, 8, 16),
		make_case("signs", CodeKind::kRabitq, Metric::kL2, 1, 2),
		make_case("bits", CodeKind::kRabitq, Metric::kL2, 4, 3)));

} // namespace
} // namespace vectorgpu::engine
