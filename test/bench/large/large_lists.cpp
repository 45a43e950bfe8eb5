// See large_lists.hpp: training and assignment, and the loading of copies.
#include "large_lists.hpp"

#include <future>
#include <span>

#include "engine/interface/list_builder.hpp"

namespace vectorgpu::bench
{
namespace
{

constexpr size_t kAssignRows = size_t{1} << 16;  // a call
constexpr size_t kLoadRows = size_t{1} << 20;    // a call
constexpr size_t kLoadBytes = size_t{256} << 20; // of a description, a call

engine::DistanceSpec
spec_of(const RowStore &store)
{
	return {Metric::kL2, ElementType::kFloat16, store.dim()};
}

std::vector<float>
train(engine::Engine *engine, const RowStore &store, const Options &options)
{
	constexpr size_t kAtOnce = 65536;
	engine::SearchControl control;
	engine::ListBuildSpec spec;
	std::unique_ptr<engine::ListBuilder> builder;

	spec.rows = spec_of(store);
	spec.n_clusters = options.n_lists;
	spec.n_training =
		static_cast<uint32_t>(std::min<uint64_t>(store.n(), uint64_t{options.n_lists} * options.training));
	spec.max_iterations = options.iterations;
	must(engine->make_list_builder(spec, &control, &builder), "list builder");

	const uint64_t step = store.n() / spec.n_training;
	std::vector<uint16_t> sample(std::min<size_t>(kAtOnce, spec.n_training) * store.dim());

	for (uint64_t first = 0; first < spec.n_training; first += kAtOnce)
	{
		const size_t n = std::min<uint64_t>(kAtOnce, spec.n_training - first);

		in_parts(options.n_threads, n, 1024,
			[&](uint64_t begin, uint64_t end, size_t)
			{
				std::vector<uint32_t> numbers;

				for (uint64_t i = begin; i < end; i++)
					numbers.push_back(static_cast<uint32_t>((first + i) * step));
				store.fetch(numbers.data(), numbers.size(), sample.data() + begin * store.dim());
			});
		must(builder->add_training(sample.data(), n), "training rows");
	}
	must(builder->train(), "training");
	return builder->centroids();
}

/// labels [n]: the list of each row. Builders of their own work side by side, so that copies and kernels overlap.
std::vector<uint32_t>
assign(engine::Engine *engine, const RowStore &store, const std::vector<float> &centroids, const Options &options)
{
	const size_t n_builders = options.cpu ? 1 : options.n_builders;
	std::vector<uint32_t> labels(store.n());
	std::vector<engine::SearchControl> controls(n_builders);
	std::vector<std::unique_ptr<engine::ListBuilder>> builders(n_builders);
	std::vector<std::vector<float>> scores(n_builders, std::vector<float>(kAssignRows));
	std::vector<std::vector<uint16_t>> rows(n_builders, std::vector<uint16_t>(kAssignRows * store.dim()));
	engine::ListBuildSpec spec;

	spec.rows = spec_of(store);
	spec.n_clusters = static_cast<uint32_t>(centroids.size() / store.dim());
	for (size_t i = 0; i < n_builders; i++)
	{
		must(engine->make_list_builder(spec, &controls[i], &builders[i]), "list builder");
		must(builders[i]->add_centroids(centroids.data(), spec.n_clusters), "centroids");
	}
	in_parts(n_builders, store.n(), kAssignRows,
		[&](uint64_t first, uint64_t last, size_t thread)
		{
			store.fetch_run(first, last - first, rows[thread].data());
			must(builders[thread]->assign(
					 first, rows[thread].data(), last - first, labels.data() + first, scores[thread].data()),
				"assignment");
		});
	return labels;
}

} // namespace

BuiltLists
build_lists(engine::Engine *engine, const RowStore &store, const Options &options, Report *report)
{
	BuiltLists built;

	built.dim = store.dim();
	built.centroids = train(engine, store, options);
	report->step("train", std::min<uint64_t>(store.n(), uint64_t{options.n_lists} * options.training));

	const std::vector<uint32_t> labels = assign(engine, store, built.centroids, options);

	report->step("assign", store.n());
	built.offsets.assign(built.centroids.size() / built.dim + 1, 0);
	for (const uint32_t label : labels)
		built.offsets[label + 1]++;

	const uint64_t largest = *std::max_element(built.offsets.begin(), built.offsets.end());

	std::partial_sum(built.offsets.begin(), built.offsets.end(), built.offsets.begin());

	std::vector<uint64_t> next = built.offsets;

	built.numbers.resize(store.n());
	for (uint64_t i = 0; i < store.n(); i++)
		built.numbers[next[labels[i]]++] = static_cast<uint32_t>(i);
	report->step("lists", store.n());
	std::printf("# %u lists, the largest of %llu rows, the mean %.0f\n", built.n_lists(),
		static_cast<unsigned long long>(largest), static_cast<double>(store.n()) / built.n_lists());
	return built;
}

namespace
{

template <class T>
std::span<const uint8_t>
bytes_of(const std::vector<T> &values)
{
	return {reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(T)};
}

/// Rows [first, first + n) of a segment: by place, or by number without lists.
std::vector<uint16_t>
gather(const RowStore &store, const BuiltLists *lists, uint64_t first, size_t n, size_t n_threads)
{
	std::vector<uint16_t> rows(n * store.dim());

	in_parts(n_threads, n, 4096,
		[&](uint64_t begin, uint64_t end, size_t)
		{
			uint16_t *to = rows.data() + begin * store.dim();

			if (lists != nullptr)
				store.fetch(lists->numbers.data() + first + begin, end - begin, to);
			else
				store.fetch_run(first + begin, end - begin, to);
		});
	return rows;
}

/// The rows of the next call are gathered while the engine takes those of the last one.
Status
load_rows(engine::Engine *engine, engine::CopyId copy, const RowStore &store, const BuiltLists *lists,
	bool with_vectors, const Options &options)
{
	const auto next = [&](uint64_t first)
	{
		const size_t n = first < store.n() ? std::min<uint64_t>(kLoadRows, store.n() - first) : 0;

		return std::async(std::launch::async, [=, &store, &options]
			{ return with_vectors ? gather(store, lists, first, n, options.n_threads) : std::vector<uint16_t>(); });
	};
	std::vector<RowId> ids(std::min<uint64_t>(kLoadRows, store.n()));
	std::future<std::vector<uint16_t>> gathered = next(0);
	Status status = Status::ok();

	for (uint64_t first = 0; first < store.n() && status.is_ok(); first += kLoadRows)
	{
		const size_t n = std::min<uint64_t>(kLoadRows, store.n() - first);
		const std::vector<uint16_t> rows = gathered.get();

		gathered = next(first + kLoadRows);
		std::iota(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), first);
		status = engine->load_segment(copy, 1, {std::span(ids).first(n), with_vectors ? rows.data() : nullptr, n});
	}
	return status;
}

Status
load_description(engine::Engine *engine, engine::CopyId copy, const BuiltLists &lists, const EncodedRows &encoded)
{
	const std::span<const uint8_t> parts[] = {bytes_of(lists.offsets), bytes_of(lists.centroids),
		bytes_of(lists.numbers), {encoded.bytes.get(), encoded.layout.bytes()}};
	Status status = Status::ok();

	for (const std::span<const uint8_t> &part : parts)
		for (size_t at = 0; at < part.size() && status.is_ok(); at += kLoadBytes)
			status = engine->load_structure(
				copy, 1, lists.n_lists(), part.subspan(at, std::min(kLoadBytes, part.size() - at)));
	return status;
}

} // namespace

Status
load_copy(engine::Engine *engine, engine::CopyKind kind, const RowStore &store, const BuiltLists &lists,
	const EncodedRows &encoded, const Options &options, engine::CopyId *copy)
{
	const bool coded = engine::has_codes(kind);
	Status status = engine->create({spec_of(store), kind}, copy);

	if (!status.is_ok())
		return status;
	status = load_rows(engine, *copy, store, coded ? &lists : nullptr, kind != engine::CopyKind::kCodes, options);
	if (status.is_ok() && coded)
		status = load_description(engine, *copy, lists, encoded);
	if (status.is_ok())
		status = engine->seal_segment(*copy, 1);
	if (!status.is_ok())
		(void) engine->drop(*copy);
	return status;
}

} // namespace vectorgpu::bench
