// Host threads for large copies: queries, and rows of loads and builds, into pinned memory, results out of it. One
// thread moves a few GB a second, less than the GPU takes.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vectorgpu::cuda
{

/// One for the process, a group of threads for each GPU. Of calls from several threads as many are shared out; the
/// others run in their callers alone.
class HostTeam
{
public:
	static HostTeam &get();

	HostTeam(const HostTeam &) = delete;
	HostTeam &operator=(const HostTeam &) = delete;

	/// Number of threads of a call, the caller's included.
	size_t n_threads() const { return groups_.front()->n_threads(); }

	/// Call part(first, last) for pieces of 0 … n - 1, on several threads if the pieces move many bytes together.
	/// Return once all are done; rethrow an exception of any.
	template <class Part>
	void share(size_t n, size_t bytes, Part part)
	{
		if (bytes < kLeastBytes || n_threads() == 1)
			part(size_t{0}, n);
		else
			share_out(n, std::max<size_t>(1, n * kPieceBytes / bytes), part);
	}

	/// The same, and call done(first, last) in the caller for numbers whose parts are done, in the order of the numbers
	/// and each once: what follows goes on while others are at work. done throws nothing.
	template <class Part, class Done>
	void share_in_order(size_t n, size_t bytes, Part part, Done done)
	{
		const PartOf each_done = done;

		if (bytes < kLeastBytes)
		{
			part(size_t{0}, n);
			done(size_t{0}, n);
		}
		else
			share_out(n, std::max<size_t>(1, n * kPieceBytes / bytes), part, &each_done);
	}

	/// The same with pieces of one number, for numbers that take long.
	template <class Part>
	void share_each(size_t n, Part part)
	{
		if (n < 2 || n_threads() == 1)
			part(size_t{0}, n);
		else
			share_out(n, 1, part);
	}

private:
	static constexpr size_t kLeastBytes = 1 << 19; // waking threads takes as long as moving a part of it
	static constexpr size_t kPieceBytes = 1 << 17;

	using PartOf = std::function<void(size_t, size_t)>;

	/// Threads that serve one call at a time.
	class Group
	{
	public:
		explicit Group(size_t n_threads); // the caller's included
		~Group();
		Group(const Group &) = delete;
		Group &operator=(const Group &) = delete;

		size_t n_threads() const { return threads_.size() + 1; }

		/// Share a call out. done: null, or as in share_in_order. False: another one is.
		bool try_share(size_t n, size_t piece, const PartOf &part, const PartOf *done);

	private:
		bool take_piece(const PartOf &part);
		void work(const PartOf &part);
		void work_in_order(const PartOf &part, const PartOf &done);
		void fail();
		void serve();

		std::mutex one_at_a_time_;
		std::vector<std::thread> threads_;

		std::mutex mutex_;
		std::condition_variable begin_;
		std::condition_variable end_;
		bool stopping_ = false;
		uint64_t call_ = 0;   // its number
		unsigned n_busy_ = 0; // threads at work
		std::exception_ptr thrown_;

		// The call that is shared out.
		const PartOf *part_ = nullptr;
		size_t n_ = 0;
		size_t piece_ = 0;
		std::atomic<size_t> next_{0};
		std::atomic<bool> failed_{false};
		std::vector<std::atomic<bool>> is_done_; // [pieces] of a call in order; else empty
	};

	HostTeam();
	void share_out(size_t n, size_t piece, const PartOf &part, const PartOf *done = nullptr);

	std::vector<std::unique_ptr<Group>> groups_;
};

} // namespace vectorgpu::cuda
