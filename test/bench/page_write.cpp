// The floor of an index build's output: N bytes written once as 8 KiB pages of a new file and once more as write-ahead
// log, both made durable.
//
// Built and run by scripts/bench. Usage: page_write FOLDER BYTES REPETITIONS
// The log file is written over, as PostgreSQL writes over recycled segments, in pieces of 256 KiB with an fdatasync
// each 16 MiB; the page file is created anew for every repetition. Prints one JSON object.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace
{

constexpr size_t kPageBytes = 8192;
constexpr size_t kLogPieceBytes = 256 * 1024;
constexpr size_t kLogSegmentBytes = 16 * 1024 * 1024;

/// Writes n_bytes from a changing buffer in pieces; syncs after each sync_bytes (0: only at the end).
bool
write_file(int fd, size_t n_bytes, size_t piece_bytes, size_t sync_bytes)
{
	std::vector<unsigned char> piece(piece_bytes);

	for (size_t done = 0; done < n_bytes; done += piece_bytes)
	{
		memset(piece.data(), static_cast<int>(done / piece_bytes), piece.size());
		if (pwrite(fd, piece.data(), piece.size(), static_cast<off_t>(done)) != static_cast<ssize_t>(piece.size()))
			return false;
		if (sync_bytes != 0 && (done + piece_bytes) % sync_bytes == 0 && fdatasync(fd) != 0)
			return false;
	}
	return fsync(fd) == 0;
}

bool
write_once(const std::string &folder, int log_fd, size_t n_bytes, double *took_ms)
{
	std::string name = folder + "/page_write.pages";

	unlink(name.c_str());

	auto start = std::chrono::steady_clock::now();
	int fd = open(name.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
	bool good = fd >= 0 && write_file(log_fd, n_bytes, kLogPieceBytes, kLogSegmentBytes) &&
		write_file(fd, n_bytes, kPageBytes, 0);
	std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;

	*took_ms = took.count();
	if (fd >= 0)
		close(fd);
	unlink(name.c_str());
	return good;
}

} // namespace

int
main(int argc, char **argv)
{
	if (argc != 4)
	{
		fprintf(stderr, "usage: page_write FOLDER BYTES REPETITIONS\n");
		return 1;
	}

	std::string folder = argv[1];
	std::string log_name = folder + "/page_write.log";
	size_t n_bytes = strtoull(argv[2], nullptr, 10);
	int repetitions = atoi(argv[3]);
	int log_fd = open(log_name.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
	bool good = log_fd >= 0 && write_file(log_fd, n_bytes, kLogPieceBytes, 0);

	printf("{\"bytes\": %zu, \"ms\": [", n_bytes);
	for (int i = 0; good && i < repetitions; i++)
	{
		double took_ms = 0;

		good = write_once(folder, log_fd, n_bytes, &took_ms);
		printf("%s%.3f", i ? ", " : "", took_ms);
	}
	printf("]}\n");
	if (log_fd >= 0)
		close(log_fd);
	unlink(log_name.c_str());
	if (!good)
	{
		perror("page_write");
		return 1;
	}
	return 0;
}
