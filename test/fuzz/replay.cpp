// Replaces libFuzzer: runs a target over each file of the given folders, and prints how many there were. A target
// aborts if a requirement does not hold.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
main(int argc, char **argv)
{
	std::vector<std::filesystem::path> files;

	for (int i = 1; i < argc; i++)
		for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
			if (entry.is_regular_file())
				files.push_back(entry.path());
	std::sort(files.begin(), files.end());
	for (const auto &file : files)
	{
		std::ifstream in(file, std::ios::binary);
		const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
		const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);

		std::fprintf(stderr, "%s\n", file.c_str());
		std::copy(bytes.begin(), bytes.end(), exact.get());
		LLVMFuzzerTestOneInput(exact.get(), bytes.size());
	}
	std::printf("%zu inputs\n", files.size());
	return files.empty() ? 1 : 0;
}
