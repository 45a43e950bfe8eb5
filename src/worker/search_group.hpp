// The searches of one SEARCH_MANY, and their answers until the last one has come. Its session has it until its answers
// are sent or given up, and each search until it is finished. Each is finished once, by any thread. The reply is
// written when all are and the session wants it, by the thread that finds that both is so.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "wire/messages.hpp"
#include "worker/queue.hpp"

namespace vectorgpu::worker
{

class SearchGroup
{
public:
	/// For the n searches of the request of this number, and a reply body of reply_bytes, at least a header for each.
	/// Throws bad_alloc.
	SearchGroup(size_t n, size_t reply_bytes, uint64_t sequence);

	uint64_t sequence() const { return sequence_; }

	std::span<Search> searches() { return {searches_.get(), answers_.size()}; }

	/// Set the answer to one of the searches. `header` needs no lengths. rows: moved from; null: none.
	void set_answer(const Search &search, const wire::ReplyHeader &header, std::vector<engine::Neighbor> *rows);

	/// Call once behind each set_answer, and once when all searches were submitted and the session's present request
	/// is to be answered by this group. True: this was the last call, and the reply is the caller's to send.
	bool finish() { return n_open_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

	/// True if all answers are there. For the thread that has yet to make its call of finish.
	bool answered() const { return n_open_.load(std::memory_order_acquire) == 1; }

	/// The reply's body, once the group is finished: each answer as a reply by itself. Rows that do not fit are left
	/// out, with the status REFUSED. Does not allocate.
	const std::vector<uint8_t> &body();

	/// The reply's status: OK if a search is, else that of the first.
	wire::ReplyStatus status() const;

private:
	struct Answer
	{
		wire::ReplyHeader header{};
		std::vector<engine::Neighbor> rows;
	};

	const std::unique_ptr<Search[]> searches_;
	std::vector<Answer> answers_;
	std::vector<uint8_t> body_;
	const size_t body_bytes_; // at most
	const uint64_t sequence_;
	std::atomic<size_t> n_open_;
};

} // namespace vectorgpu::worker
