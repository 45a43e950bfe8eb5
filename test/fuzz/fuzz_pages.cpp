// libFuzzer target: damaged pages with right checksums, against vectorgpu_check. The first byte selects one of the
// indexes of test/fuzz/pages (bit 7: not deeply, without the table); each further record changes it: block (bit 7:
// leave the checksum), uint16 offset, length, that many bytes. Length 0 sets the length of the file to `block` blocks.
// The check must end; if nothing was changed, it must find no damage and every row of the table.
#include "fake_options.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "am/gpuflat/gpuflat.hpp"
#include "am/gpugraph/gpugraph.hpp"
#include "am/gpuivf/gpuivf.hpp"
#include "am/gpumatch/gpumatch.hpp"
#include "storage/page.hpp"
#include "am/check/verify.hpp"

extern "C"
{
#include "catalog/pg_type.h"

	Datum vectorgpu_shape_vector_l2(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_vector_ip(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_vector_cosine(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_vector_l1(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_halfvec_ip(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_bit_hamming(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_bit_jaccard(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_array_match(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_array_minhash(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_matchrow_match(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_text_gram(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_tsvector_match(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_vector_lsh_l2(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_sparsevec_l1(PG_FUNCTION_ARGS);
}

using namespace vectorgpu;

namespace
{

struct IndexFile
{
	std::vector<char> pages;
	std::vector<fuzz::TableRow> rows;
};

/// Support function 1 of the operator class of each index, in the order of the files.
constexpr PGFunction kShapes[] = {
	vectorgpu_shape_vector_l2,      // 00_flat
	vectorgpu_shape_bit_hamming,    // 01_flat_bit
	vectorgpu_shape_vector_l2,      // 02_ivf
	vectorgpu_shape_vector_l2,      // 03_ivf_sq8
	vectorgpu_shape_vector_l2,      // 04_ivf_pq
	vectorgpu_shape_halfvec_ip,     // 05_graph
	vectorgpu_shape_array_match,    // 06_match
	vectorgpu_shape_matchrow_match, // 07_match_row
	vectorgpu_shape_text_gram,      // 08_match_text
	vectorgpu_shape_vector_l2,      // 09_graph_hash
	vectorgpu_shape_vector_cosine,  // 10_ivf_pq_none
	vectorgpu_shape_vector_ip,      // 11_ivf_sq8_fp16
	vectorgpu_shape_vector_l1,      // 12_ivf_fp16
	vectorgpu_shape_vector_lsh_l2,  // 13_match_lsh
	vectorgpu_shape_array_minhash,  // 14_match_minhash
	vectorgpu_shape_tsvector_match, // 15_match_lexemes
	vectorgpu_shape_bit_hamming,    // 16_ivf_bit
	vectorgpu_shape_bit_jaccard,    // 17_graph_bit
	vectorgpu_shape_vector_l2,      // 18_ivf_depths
	vectorgpu_shape_array_match,    // 19_match_tiles
	vectorgpu_shape_text_gram,      // 20_match_text_alone
	vectorgpu_shape_sparsevec_l1,   // 21_flat_sparse
	vectorgpu_shape_vector_l2,      // 22_ivf_rabitq
	vectorgpu_shape_vector_cosine,  // 23_graph_rabitq
};

std::vector<IndexFile> indexes;

std::vector<char>
read_file(const std::filesystem::path &path)
{
	std::ifstream in(path, std::ios::binary);

	return {(std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>()};
}

/// See make_pages.
std::vector<fuzz::TableRow>
read_rows(const std::filesystem::path &path)
{
	const std::vector<char> bytes = read_file(path);
	std::vector<fuzz::TableRow> rows;

	for (size_t at = 0; at < bytes.size();)
	{
		fuzz::TableRow row = {};
		uint32_t length;

		memcpy(&row.block, bytes.data() + at, sizeof(row.block));
		memcpy(&row.offset, bytes.data() + at + 4, sizeof(row.offset));
		memcpy(&length, bytes.data() + at + 6, sizeof(length));
		at += 10;
		row.value.assign(bytes.data() + at, bytes.data() + at + length);
		at += length;
		rows.push_back(row);
	}
	return rows;
}

/// See make_pages.
std::vector<char>
read_sparse(const std::filesystem::path &path)
{
	const std::vector<char> bytes = read_file(path);
	auto number = [&](size_t at)
	{
		uint32_t value = 0;

		memcpy(&value, bytes.data() + at, sizeof(value));
		return value;
	};
	std::vector<char> result(size_t{number(0)} * BLCKSZ);

	for (size_t at = 4; at < bytes.size(); at += 8 + number(at + 4))
		memcpy(result.data() + number(at), bytes.data() + at + 8, number(at + 4));
	return result;
}

void
load_indexes()
{
	std::vector<std::filesystem::path> files;

	am::flat_init();
	am::match_init();
	am::ivf_init();
	am::graph_init();
	for (const auto &entry : std::filesystem::directory_iterator(FUZZ_PAGES))
		if (entry.is_regular_file())
			files.push_back(entry.path());
	std::sort(files.begin(), files.end());
	for (const auto &file : files)
		indexes.push_back({read_sparse(file), read_rows(file.parent_path() / "rows" / file.filename())});
	REQUIRE(indexes.size() == std::size(kShapes));
}

/// Change the pages. Return whether something was changed.
bool
change_pages(const uint8_t *data, size_t size)
{
	std::vector<bool> touched;
	const std::vector<char> before = fuzz::pages;

	for (size_t at = 0; at + 4 <= size;)
	{
		const size_t block = data[at] & 0x7F;
		const bool seal = (data[at] & 0x80) == 0;
		const size_t offset = (data[at + 1] | size_t{data[at + 2]} << 8) % BLCKSZ;
		const size_t length = std::min({size_t{data[at + 3]}, size - at - 4, BLCKSZ - offset});

		at += 4;
		if (data[at - 1] == 0)
			fuzz::pages.resize(block * BLCKSZ);
		else if ((block + 1) * BLCKSZ <= fuzz::pages.size())
		{
			memcpy(fuzz::pages.data() + block * BLCKSZ + offset, data + at, length);
			touched.resize(std::max(touched.size(), block + 1));
			touched[block] = touched[block] || seal;
		}
		at += length;
	}
	for (size_t block = 0; block < touched.size(); block++)
		if (touched[block] && (block + 1) * BLCKSZ <= fuzz::pages.size())
			am::page_seal(fuzz::pages.data() + block * BLCKSZ);
	return fuzz::pages != before;
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	am::CheckResult result;

	if (indexes.empty())
		load_indexes();
	if (size < 1)
		return 0;
	const size_t number = (data[0] & 0x7F) % indexes.size();
	const IndexFile &index = indexes[number];
	const bool deep = (data[0] & 0x80) == 0;

	fuzz::pages = index.pages;
	fuzz::table_rows = index.rows;
	fuzz::shape_function.fn_addr = kShapes[number];
	TupleDescAttr(fuzz::the_relation()->rd_att, 0)->atttypid = INT4ARRAYOID; // of those that are of arrays

	const bool changed = change_pages(data + 1, size - 1);
	const fuzz::Call one_call;
	const bool clean =
		fuzz::no_error([&] { am::check_index(fuzz::the_relation(), fuzz::the_relation(), deep, &result); });

	REQUIRE(clean || changed);
	REQUIRE(clean || fuzz::error_code == ERRCODE_INDEX_CORRUPTED || fuzz::error_code == ERRCODE_DATA_CORRUPTED ||
		fuzz::error_code == ERRCODE_FEATURE_NOT_SUPPORTED); // another version of the format
	if (clean)
		REQUIRE(fuzz::pins() == 0);
	if (!changed)
		REQUIRE(result.heap_rows_checked == (deep ? index.rows.size() : 0) &&
			result.rows + result.null_rows == index.rows.size());
	return 0;
}
