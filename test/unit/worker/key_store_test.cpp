// KeyStore: the rows that meet a program, of segments and of a delta that grows and is trimmed, beside the definition;
// what it keeps and forgets.
#include <gtest/gtest.h>

#include "worker/hook_engine.hpp"
#include "worker/keys/key_store.hpp"
#include "worker/keys_support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

using engine::Passing;
using engine::PassingSegment;
using worker::FilterCounters;
using worker::KeyStore;

struct Store
{
	FilterCounters counters;
	KeyStore keys{two_columns(), &counters};

	void add_segment(engine::SegmentId id, const std::vector<KeyRow> &rows)
	{
		const std::vector<uint8_t> area = area_of(rows, rows.size());
		const size_t half = area.size() / 2;

		ASSERT_EQ(area.size(), keys.area_bytes(rows.size()));
		keys.load(id, rows.size(), std::span(area).first(half));
		keys.load(id, rows.size(), std::span(area).subspan(half));
		keys.seal(id, rows.size());
	}

	std::shared_ptr<const Passing> passing(const Condition &condition)
	{
		const std::vector<uint8_t> program = condition.program();

		EXPECT_TRUE(keys.takes(program));
		return keys.passing(program, &found);
	}

	bool found = false;
};

bool
has_bit(const std::vector<uint8_t> &bits, size_t i)
{
	return ((bits[i / 8] >> (i % 8)) & 1) != 0;
}

void
expect_segment(const PassingSegment &segment, const std::vector<KeyRow> &rows, const Condition &condition)
{
	std::vector<uint32_t> expected;

	for (uint32_t i = 0; i < rows.size(); i++)
		if (condition.holds(rows[i]))
			expected.push_back(i);
	EXPECT_EQ(segment.n_rows, rows.size());
	EXPECT_EQ(segment.n_pass, expected.size());
	EXPECT_EQ(segment.listed, expected.size() <= rows.size() / engine::kFewOfRows);
	if (segment.listed)
		EXPECT_EQ(segment.rows, expected);
	else
		for (uint32_t i = 0; i < rows.size(); i++)
			ASSERT_EQ(has_bit(segment.bits, i), condition.holds(rows[i])) << i;
}

void
expect_delta(const Passing &passing, const std::vector<KeyRow> &rows, size_t first, const Condition &condition)
{
	ASSERT_EQ(passing.delta_end, rows.size());
	ASSERT_LE(passing.delta_first, first);
	EXPECT_EQ(passing.delta_first % 8, 0u);
	for (size_t i = first; i < rows.size(); i++)
		ASSERT_EQ(has_bit(passing.delta_bits, i - passing.delta_first), condition.holds(rows[i])) << i;
}

TEST(KeyStore, finds_the_rows_of_segments_and_delta)
{
	const std::vector<KeyRow> large = random_keys(5003, 1);
	const std::vector<KeyRow> small = random_keys(7, 2);
	const std::vector<KeyRow> delta = random_keys(3000, 3);
	Store store;

	store.add_segment(3, large);
	store.add_segment(5, small);
	store.keys.publish(std::vector<engine::SegmentId>{3, 5});
	store.keys.append(0, images_of(delta, 0, 1000).data(), 1000);
	store.keys.append(900, images_of(delta, 900, 3000).data(), 2100); // a part is held
	for (const Condition &condition : {Condition{0, 999, 255}, Condition{500, 510, 255}, Condition{0, 400, 2},
			 Condition{5000, 6000, 255}, Condition{10, 10, 0}})
	{
		const std::shared_ptr<const Passing> passing = store.passing(condition);

		ASSERT_EQ(passing->segments.size(), 2u);
		EXPECT_EQ(passing->segments[0]->segment, 3u);
		expect_segment(*passing->segments[0], large, condition);
		expect_segment(*passing->segments[1], small, condition);
		expect_delta(*passing, delta, 0, condition);
		EXPECT_EQ(passing->n_rows, large.size() + small.size() + delta.size());
	}
	EXPECT_EQ(store.counters.n_made.load(), 5u);
}

TEST(KeyStore, knows_rows_until_something_changes)
{
	const Condition condition{100, 300, 1};
	const std::vector<KeyRow> rows = random_keys(4000, 1);
	const std::vector<KeyRow> delta = random_keys(5000, 3);
	Store store;

	store.add_segment(1, rows);
	store.keys.publish(std::vector<engine::SegmentId>{1});
	store.keys.append(0, images_of(delta, 0, 3000).data(), 3000);

	const std::shared_ptr<const Passing> first = store.passing(condition);

	EXPECT_FALSE(store.found);
	EXPECT_EQ(store.passing(condition), first);
	EXPECT_TRUE(store.found);

	// Rows are appended: the segment's are still known.
	store.keys.append(3000, images_of(delta, 3000, 5000).data(), 2000);

	const std::shared_ptr<const Passing> grown = store.passing(condition);

	EXPECT_TRUE(store.found);
	EXPECT_EQ(grown->segments[0], first->segments[0]);
	expect_delta(*grown, delta, 0, condition);

	// A merge moves rows into a new segment: the old one's rows are forgotten.
	store.add_segment(2, delta);
	store.keys.publish(std::vector<engine::SegmentId>{2});
	store.keys.drop(1);
	store.keys.trim(2500);

	const std::shared_ptr<const Passing> merged = store.passing(condition);

	EXPECT_FALSE(store.found);
	ASSERT_EQ(merged->segments.size(), 1u);
	expect_segment(*merged->segments[0], delta, condition);
	expect_delta(*merged, delta, 2500, condition);
	EXPECT_EQ(merged->n_rows, 5000u + 2500u);
}

TEST(KeyStore, continues_behind_a_trimmed_delta)
{
	const std::vector<KeyRow> rows = random_keys(9000, 1);
	const Condition condition{0, 500, 255};
	std::mt19937 random(7);
	Store store;
	size_t first = 0;
	size_t end = 0;

	store.keys.publish({});
	while (end < rows.size())
	{
		const size_t next = std::min<size_t>(rows.size(), end + 1 + random() % 700);

		store.keys.append(end, images_of(rows, end, next).data(), next - end);
		end = next;
		if (random() % 3 == 0)
			store.keys.trim(first += random() % (end - first + 1));

		const std::vector<KeyRow> held(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(end));
		const std::shared_ptr<const Passing> passing = store.passing(condition);

		expect_delta(*passing, held, first, condition);
		ASSERT_EQ(passing->n_rows, end - first);

		std::vector<uint8_t> images((end - first) * kImageBytes);

		ASSERT_TRUE(store.keys.read_delta(first, end - first, images.data()));
		EXPECT_EQ(images, images_of(rows, first, end));
		EXPECT_FALSE(store.keys.read_delta(first, end - first + 1, images.data()));
	}
	// Beyond the last row: the delta continues there.
	store.keys.trim(20000);
	store.keys.append(20000, images_of(rows, 0, 10).data(), 10);

	const std::shared_ptr<const Passing> passing = store.passing(condition);

	EXPECT_EQ(passing->n_rows, 10u);
	EXPECT_EQ(passing->delta_end, 20010u);
	for (size_t i = 0; i < 10; i++)
		EXPECT_EQ(has_bit(passing->delta_bits, 20000 + i - passing->delta_first), condition.holds(rows[i]));
}

TEST(KeyStore, forgets_the_programs_used_least_lately)
{
	const std::vector<KeyRow> rows = random_keys(4000000, 1); // 500 kB of bits for each program
	Store store;

	store.add_segment(1, rows);
	store.keys.publish(std::vector<engine::SegmentId>{1});
	for (uint32_t i = 0; i < 300; i++)
	{
		(void) store.passing({0, 500 + i, 255});
		(void) store.passing({0, 999, 255});
		EXPECT_EQ(store.found, i > 0);
	}
	(void) store.passing({0, 799, 255});
	EXPECT_TRUE(store.found);
	(void) store.passing({0, 500, 255});
	EXPECT_FALSE(store.found);
}

/// Codes on a device that says of every row that it passes, so that one sees who evaluates.
class AllPass final : public engine::KeyCodes
{
public:
	Status find_rows(const engine::predicate::Program &, PassingSegment *found) override
	{
		if (gone)
			return Status::error(StatusCode::kOutOfMemory, "they gave way");
		n_calls++;
		found->n_rows = found->n_pass = n_rows;
		found->listed = false;
		found->bits.assign((n_rows + 7) / 8, 0xFF);
		return Status::ok();
	}

	Status check(const engine::KeyArea &area, uint64_t first, uint64_t n_bytes, uint64_t *n_different) override
	{
		EXPECT_EQ(area.n_rows, n_rows);
		EXPECT_EQ(area.columns.size(), 2u);
		if (gone)
			return Status::error(StatusCode::kOutOfMemory, "they gave way");
		*n_different = first + n_bytes;
		return Status::ok();
	}

	uint64_t n_rows = 0;
	uint64_t n_calls = 0;
	bool gone = false;
};

TEST(KeyStore, lets_the_engine_find_rows_as_long_as_it_holds_the_codes)
{
	const std::vector<KeyRow> rows = random_keys(2048, 1);
	const std::vector<uint8_t> area = area_of(rows, rows.size());
	const std::shared_ptr<AllPass> codes = std::make_shared<AllPass>();
	HookEngine engine;
	Store store;
	uint64_t n_different = 7;

	codes->n_rows = rows.size();
	engine.key_codes = codes;
	store.keys.load(1, rows.size(), area);
	store.keys.seal(1, rows.size(), &engine, 0);
	store.keys.publish(std::vector<engine::SegmentId>{1});
	EXPECT_EQ(store.passing({0, 1, 255})->n_pass, rows.size());
	EXPECT_EQ(codes->n_calls, 1u);
	EXPECT_EQ(store.passing({0, 1, 255})->n_pass, rows.size()); // known
	EXPECT_EQ(codes->n_calls, 1u);
	EXPECT_TRUE(store.keys.check_held(1, 16, 8, &n_different).is_ok());
	EXPECT_EQ(n_different, 24u);

	codes->gone = true; // the host evaluates, and has nothing to compare with
	expect_segment(*store.passing({0, 2, 255})->segments[0], rows, {0, 2, 255});
	EXPECT_TRUE(store.keys.check_held(1, 0, 8, &n_different).is_ok());
	EXPECT_EQ(n_different, 0u);
	EXPECT_TRUE(store.keys.check_held(2, 0, 8, &n_different).is_ok()); // no such segment
}

TEST(KeyStore, evaluates_only_new_rows_of_the_delta)
{
	const std::vector<KeyRow> delta = random_keys(5000, 3);
	const Condition condition = {100, 700, 2};
	Store store;

	for (size_t n = 0; n < delta.size(); n += 437) // over ends of blocks and of bytes
	{
		const size_t end = std::min(n + 437, delta.size());

		store.keys.append(n, images_of(delta, n, end).data(), end - n);
		expect_delta(
			*store.passing(condition), {delta.begin(), delta.begin() + static_cast<ptrdiff_t>(end)}, 0, condition);
	}
}

TEST(KeyStore, refuses_programs_that_do_not_fit)
{
	namespace predicate = engine::predicate;
	Store store;
	predicate::Node other = predicate::exact_range(2, 1, 2); // there are streams 0 and 1
	std::vector<uint8_t> bytes(predicate::program_bytes(&other));

	predicate::write_program(&other, bytes.data());
	EXPECT_FALSE(store.keys.takes(bytes));
	EXPECT_FALSE(store.keys.takes({}));
	bytes = Condition{1, 2, 255}.program();
	EXPECT_TRUE(store.keys.takes(bytes));
	bytes.pop_back();
	EXPECT_FALSE(store.keys.takes(bytes));
}

} // namespace
} // namespace vectorgpu::worker_test
