// The floor of an exact scan: the time in which one core reads N bytes of memory once, in order.
//
// Built and run by scripts/bench. Usage: stream_bandwidth private|shared BYTES REPETITIONS
// "private" is anonymous memory for which huge pages are asked, "shared" is a shared mapping of small pages, as
// PostgreSQL has for its shared buffers by default. Prints one JSON object; the sum goes with it, so that the reading
// is not optimised away.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

namespace
{

constexpr size_t kWords = 32; // 8-byte words per step: four 64-byte lines, whose sums stay in registers

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
uint64_t
sum_words(const uint64_t *words, size_t n_words)
{
	uint64_t sums[kWords] = {};
	uint64_t total = 0;

	for (size_t i = 0; i + kWords <= n_words; i += kWords)
		for (size_t j = 0; j < kWords; j++)
			sums[j] += words[i + j];
	for (size_t j = 0; j < kWords; j++)
		total += sums[j];
	return total;
}

int
fail(const char *message)
{
	fprintf(stderr, "stream_bandwidth: %s\n", message);
	return 1;
}

} // namespace

int
main(int argc, char **argv)
{
	if (argc != 4)
		return fail("usage: stream_bandwidth private|shared BYTES REPETITIONS");

	bool shared = strcmp(argv[1], "shared") == 0;
	size_t n_bytes = strtoull(argv[2], nullptr, 10);
	int repetitions = atoi(argv[3]);

	if (n_bytes < 4096 || repetitions < 1)
		return fail("BYTES must be at least 4096 and REPETITIONS at least 1");

	void *memory =
		mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE), -1, 0);

	if (memory == MAP_FAILED)
		return fail("out of memory");
	if (!shared)
		(void) madvise(memory, n_bytes, MADV_HUGEPAGE);
	memset(memory, 1, n_bytes);

	uint64_t total = sum_words(static_cast<const uint64_t *>(memory), n_bytes / 8);

	printf("{\"bytes\": %zu, \"ms\": [", n_bytes);
	for (int i = 0; i < repetitions; i++)
	{
		auto start = std::chrono::steady_clock::now();

		total += sum_words(static_cast<const uint64_t *>(memory), n_bytes / 8);

		std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;

		printf("%s%.4f", i ? ", " : "", took.count());
	}
	printf("], \"sum\": %llu}\n", static_cast<unsigned long long>(total));
	return 0;
}
