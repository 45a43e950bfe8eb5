// See queue.hpp.
#include "worker/queue.hpp"

#include <algorithm>

namespace vectorgpu::worker
{
namespace
{

constexpr size_t kSmallK = 64; // below, any selection is cheap
constexpr size_t kMostRatio = 4;

} // namespace

bool
Queue::compatible(size_t k, size_t other)
{
	const size_t small = std::max(std::min(k, other), kSmallK);
	const size_t large = std::max(k, other);

	return large / kMostRatio <= small;
}

void
Queue::append_turn(CopyQueue *queue)
{
	queue->next_in_turn = nullptr;
	queue->in_turn = true;
	if (last_turn_ != nullptr)
		last_turn_->next_in_turn = queue;
	else
		first_turn_ = queue;
	last_turn_ = queue;
}

void
Queue::leave_turn(CopyQueue *queue)
{
	CopyQueue *before = nullptr;

	for (CopyQueue *at = first_turn_; at != queue; at = at->next_in_turn)
		before = at;
	if (before != nullptr)
		before->next_in_turn = queue->next_in_turn;
	else
		first_turn_ = queue->next_in_turn;
	if (last_turn_ == queue)
		last_turn_ = before;
	queue->next_in_turn = nullptr;
	queue->in_turn = false;
}

void
Queue::unlink(CopyQueue *queue, Search *before, Search *search)
{
	if (before != nullptr)
		before->next = search->next;
	else
		queue->first = search->next;
	if (queue->last == search)
		queue->last = before;
	search->next = nullptr;
	search->queued = false;
}

void
Queue::push(Search *search)
{
	CopyQueue *queue = search->queue;

	search->next = nullptr;
	search->queued = true;
	if (queue->last != nullptr)
		queue->last->next = search;
	else
		queue->first = search;
	queue->last = search;
	size_++;
	if (!queue->in_turn)
		append_turn(queue);
}

bool
Queue::remove(Search *search)
{
	CopyQueue *queue = search->queue;
	Search *before = nullptr;

	if (!search->queued)
		return false;
	for (Search *at = queue->first; at != search; at = at->next)
		before = at;
	unlink(queue, before, search);
	size_--;
	if (queue->first == nullptr)
		leave_turn(queue);
	return true;
}

void
Queue::take_batch(size_t most, std::vector<Search *> *batch)
{
	batch->clear();
	if (first_turn_ != nullptr)
		take_of(first_turn_, most, batch);
}

CopyQueue *
Queue::first_small() const
{
	CopyQueue *at = first_turn_ != nullptr && first_turn_->next_in_turn != nullptr ? first_turn_ : nullptr;

	while (at != nullptr && !at->first->is_small)
		at = at->next_in_turn;
	return at;
}

bool
Queue::has_small_batch() const
{
	return first_small() != nullptr;
}

void
Queue::take_small_batch(size_t most, std::vector<Search *> *batch)
{
	CopyQueue *queue = first_small();

	batch->clear();
	if (queue != nullptr)
		take_of(queue, most, batch);
}

void
Queue::take_of(CopyQueue *queue, size_t most, std::vector<Search *> *batch)
{
	const size_t k = queue->first->query.k;
	Search *before = nullptr;

	for (Search *search = queue->first; search != nullptr && batch->size() < most;)
	{
		Search *next = search->next;

		if (compatible(k, search->query.k))
		{
			batch->push_back(search); // the batcher has reserved `most`: does not allocate
			unlink(queue, before, search);
			size_--;
		}
		else
			before = search;
		search = next;
	}
	leave_turn(queue);
	if (queue->first != nullptr)
		append_turn(queue);
}

} // namespace vectorgpu::worker
