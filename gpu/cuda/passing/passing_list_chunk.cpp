// See passing_list_chunk.hpp.
#include "cuda/passing/passing_list_chunk.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/passing/passing_device.hpp"
#include "cuda/search/answers.hpp"
#include "kernels/canonical/listed.hpp"

namespace vectorgpu::cuda
{
namespace
{

/// A chunk on its way.
class Chunk
{
public:
	Chunk(const SearchCall &call, Budget *budget, std::span<ListedUnit> units, std::span<const uint32_t> numbers)
		: call_(call), budget_(budget), units_(units), numbers_(numbers),
		  arena_(call.context->workspace.get(), call.context->workspace.bytes()), staging_(call, numbers, &arena_)
	{
	}

	Status run()
	{
		std::vector<uint32_t> redo; // stays empty
		NewRows new_rows(call_.options.lane, call_.stream());

		VECTORGPU_TRY(stage());
		for (const ListedUnit &unit : units_)
			for (const ListedPart &part : unit.listed->parts)
				VECTORGPU_TRY(new_rows.await(part.source->ticket));
		for (ListedPart *part : sent_)
			VECTORGPU_TRY(copy_list(part));
		args_.metric = call_.spec.metric;
		args_.queries = chunk_.queries;
		args_.best = chunk_.best;
		answers_ = begin_answers(call_.context, numbers_.size(), chunk_.max_k);
		if (answers_.heads == nullptr)
			return too_small();
		VECTORGPU_TRY(call_.check(kernels::launch_listed_scores(args_, call_.stream()), "score listed rows"));
		VECTORGPU_TRY(call_.check(
			kernels::launch_listed_select(args_, chunk_.max_k, answers_, call_.stream()), "select listed rows"));
		VECTORGPU_TRY(end_answers(call_, answers_, numbers_, &redo));
		new_rows.has_run();
		call_.progress();
		keep_lists();
		return Status::ok();
	}

private:
	/// Take the pieces that the host fills, then those of the device alone, and send the former.
	Status stage()
	{
		size_t n_jobs = 0;
		size_t n_keys = 0;
		size_t n_groups = 0;

		for (const ListedUnit &unit : units_)
		{
			n_jobs += unit.listed->parts.size();
			n_keys += unit.numbers.size() * unit.n_keys();
			n_groups += unit.numbers.size() * unit.n_groups;
		}
		chunk_.best.counts = staging_.take_zeros<uint32_t>(numbers_.size());

		const auto listed = staging_.take<kernels::ListedQuery>(numbers_.size());
		const auto jobs = staging_.take<kernels::ListedJob>(n_jobs);
		const auto sources = staging_.take<kernels::Rows>(call_.snapshot.sources.size());
		ByteQueries bytes;

		if (may_list_bytes(call_))
			bytes = {
				staging_.take<uint8_t>(numbers_.size() * call_.shape.dim_pad), staging_.take<int32_t>(numbers_.size())};
		for (const ListedUnit &unit : units_)
			for (ListedPart &part : unit.listed->parts)
				if (part.kept == nullptr && part.sent.device == nullptr)
				{
					part.sent = staging_.take<uint32_t>(part.rows().size());
					sent_.push_back(&part);
				}
		if (staging_.failed())
			return too_small();
		staging_.put_heads(&chunk_);
		for (size_t i = 0; i < call_.snapshot.sources.size(); i++)
			sources.host[i] = call_.snapshot.sources[i].rows();
		for (const ListedPart *part : sent_)
			std::memcpy(part->sent.host, part->rows().data(), part->rows().size_bytes());
		put_jobs(listed.host, jobs.host);
		VECTORGPU_TRY(send_queries(bytes));

		args_.listed = listed.device;
		args_.jobs = jobs.device;
		args_.sources = sources.device;
		args_.n_jobs = static_cast<uint32_t>(n_jobs);
		args_.keys = arena_.take<uint64_t>(n_keys);
		args_.minima = arena_.take<uint64_t>(n_groups);
		chunk_.best.stride = chunk_.max_k;
		chunk_.best.entries = arena_.take<kernels::Entry>(numbers_.size() * chunk_.max_k);
		return arena_.failed() ? too_small() : Status::ok();
	}

	/// The queries as bytes, and their squared lengths.
	struct ByteQueries
	{
		ChunkStaging::Piece<uint8_t> vectors = {};
		ChunkStaging::Piece<int32_t> norms = {};
	};

	Status send_queries(const ByteQueries &bytes)
	{
		if (bytes.vectors.host == nullptr)
			return staging_.put_and_send();
		if (staging_.put_vectors(bytes.vectors.host, bytes.norms.host))
		{
			args_.bytes = bytes.vectors.device;
			args_.norms = bytes.norms.device;
		}
		return staging_.send();
	}

	/// Fill the descriptions of the queries and of their jobs.
	void put_jobs(kernels::ListedQuery *listed, kernels::ListedJob *jobs)
	{
		uint32_t query = 0;
		uint32_t job = 0;
		uint64_t key = 0;
		uint64_t minimum = 0;

		for (const ListedUnit &unit : units_)
		{
			const uint32_t n = static_cast<uint32_t>(unit.numbers.size());
			const uint32_t n_parts = static_cast<uint32_t>(unit.listed->parts.size());
			uint32_t group = 0;

			for (uint32_t i = 0; i < n; i++)
			{
				listed[query + i] = {key, minimum, unit.n_groups, unit.group_rows, job, n_parts};
				key += unit.n_keys();
				minimum += unit.n_groups;
			}
			for (const ListedPart &part : unit.listed->parts)
			{
				const uint32_t n_rows = static_cast<uint32_t>(part.n_rows());
				const uint32_t n_groups = (n_rows + unit.group_rows - 1) / unit.group_rows;

				jobs[job++] = {list_of(part), part.places == nullptr ? nullptr : part.places->as<uint32_t>(), n_rows,
					static_cast<uint32_t>(part.source - call_.snapshot.sources.data()), args_.n_groups, query, n,
					group};
				args_.forms[static_cast<size_t>(part.source->block->form)] = true;
				args_.n_groups += n_groups;
				group += n_groups;
			}
			query += n;
		}
	}

	static const uint32_t *list_of(const ListedPart &part)
	{
		return part.kept != nullptr ? part.kept->as<uint32_t>() : part.sent.device;
	}

	/// Begin to keep the list of a segment that is sent with the chunk. Without room it is sent again another time.
	Status copy_list(ListedPart *part)
	{
		if (part->segment == nullptr)
			return Status::ok();

		const size_t bytes = part->rows().size_bytes();
		auto made = std::make_shared<Held>();

		if (!made->allocate(budget_, bytes, "rows that pass").is_ok())
			return Status::ok();
		part->made = std::move(made);
		return call_.check(cudaMemcpyAsync(part->made->as<uint8_t>(), part->sent.device, bytes,
							   cudaMemcpyDeviceToDevice, call_.stream()),
			"keep rows that pass");
	}

	/// The stream has made the copies.
	void keep_lists()
	{
		for (ListedPart *part : sent_)
		{
			part->sent = {};
			if (part->made == nullptr)
				continue;
			keep(call_.device, *part->segment, *part->source, {part->made, nullptr, nullptr, nullptr});
			part->kept = std::move(part->made);
		}
	}

	const SearchCall &call_;
	Budget *const budget_;
	const std::span<ListedUnit> units_;
	const std::span<const uint32_t> numbers_;
	Arena arena_;
	ChunkStaging staging_;
	QueryChunk chunk_;
	kernels::Answers answers_;
	std::vector<ListedPart *> sent_;
	kernels::ListedArgs args_;
};

} // namespace

bool
may_list_bytes(const SearchCall &call)
{
	const bool by_products = call.spec.metric == Metric::kL2 || call.spec.metric == Metric::kInnerProduct;

	return by_products && call.shape.dim_pad <= kernels::kListedByteDims &&
		std::any_of(call.snapshot.sources.begin(), call.snapshot.sources.end(),
			[](const Source &source) { return source.block->form == kernels::Form::kByte; });
}

Status
search_listed_chunk(
	const SearchCall &call, Budget *budget, std::span<ListedUnit> units, std::span<const uint32_t> numbers)
{
	return Chunk(call, budget, units, numbers).run();
}

} // namespace vectorgpu::cuda
