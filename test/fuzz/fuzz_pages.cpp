// libFuzzer target: damaged pages whose checksums are right, against vectorgpu_check. The first byte names one of the indexes of
// test/fuzz/pages; each further record changes it: block (bit 7: leave the checksum as it is), uint16 offset, length, so many bytes.
// Length 0 cuts the file, or makes it longer, to `block` blocks. The check must end, either finding damage or finding none, and must find
// none where nothing was changed.
#include "fake_server.hpp"

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
#include "am/shared/page.hpp"
#include "am/shared/verify.hpp"

using namespace vectorgpu;

namespace
{

std::vector<std::vector<char>> indexes;

/// See make_pages.
std::vector<char>
read_sparse(const std::filesystem::path &path)
{
	std::ifstream in(path, std::ios::binary);
	const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
	auto number = [&](size_t at) {
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
		files.push_back(entry.path());
	std::sort(files.begin(), files.end());
	for (const auto &file : files)
		indexes.push_back(read_sparse(file));
	REQUIRE(!indexes.empty());
}

/// True if something was changed.
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
	fuzz::pages = indexes[data[0] % indexes.size()];

	const bool changed = change_pages(data + 1, size - 1);
	const fuzz::Call one_call;
	const bool clean = fuzz::no_error([&] { am::check_index(fuzz::the_relation(), fuzz::the_relation(), false, &result); });

	REQUIRE(clean || changed);
	if (clean)
		REQUIRE(fuzz::pins() == 0);
	return 0;
}
