// See large_lists.hpp: codes of all rows, part by part, by all threads.
#include <cstring>

#include "engine/distance/distance.hpp"
#include "engine/ivf/pq_train.hpp"
#include "large_lists.hpp"
#include "support/in_threads.hpp"

namespace vectorgpu::bench
{
namespace
{

namespace ivf = engine::ivf;

constexpr size_t kPartRows = 128 * ivf::kCodeBlockRows; // that a thread encodes at a time
constexpr size_t kTrainingRows = ivf::kPqTrainingRows;

ivf::CodeSpec
spec_of(const Storage &storage, uint32_t dim)
{
	engine::CodesHead head{};
	ivf::CodeSpec spec;

	if (storage.name == "rabitq")
		head = {static_cast<uint32_t>(ivf::CodeKind::kRabitq), 0, storage.number, 0};
	else if (storage.name == "pq")
		head = {static_cast<uint32_t>(ivf::CodeKind::kPq), storage.number, 8, 0};
	else if (storage.name == "sq8")
		head.kind = static_cast<uint32_t>(ivf::CodeKind::kSq8);
	if (const char *error = engine::code_spec_of(head, {Metric::kL2, ElementType::kFloat16, dim}, &spec);
		error != nullptr)
	{
		std::fprintf(stderr, "storage %s: %s\n", storage.text.c_str(), error);
		std::exit(2);
	}
	return spec;
}

/// Rows by place, in float32, with the list of each.
struct Part
{
	std::vector<uint16_t> halves;
	std::vector<float> rows;
	std::vector<uint32_t> labels;

	void set(const RowStore &store, const BuiltLists &lists, uint64_t first, size_t n)
	{
		uint32_t list = static_cast<uint32_t>(
			std::upper_bound(lists.offsets.begin(), lists.offsets.end(), first) - lists.offsets.begin() - 1);

		halves.resize(n * store.dim());
		rows.resize(n * store.dim());
		labels.resize(n);
		store.fetch(lists.numbers.data() + first, n, halves.data());
		engine::widen_halves(halves.data(), halves.size(), rows.data());
		for (size_t i = 0; i < n; i++)
		{
			while (lists.offsets[list + 1] <= first + i)
				list++;
			labels[i] = list;
		}
	}
};

/// A model and what encoding needs. It cannot move.
class Encoder
{
public:
	Encoder(const ivf::CodeSpec &spec, const BuiltLists &lists, float *floats)
		: spec_(spec), lists_(lists), model_(ivf::make_code_model(spec, floats))
	{
	}
	Encoder(const Encoder &) = delete;
	Encoder &operator=(const Encoder &) = delete;

	void train(const Part &sample, size_t n_threads)
	{
		const size_t n = sample.labels.size();

		if (spec_.kind == ivf::CodeKind::kSq8)
			ivf::sq8_train(sample.rows.data(), n, spec_.dim, model_.sq8);
		else if (spec_.kind == ivf::CodeKind::kRabitq)
		{
			ivf::rabitq_train(model_.rabitq, sample.rows.data(), n, 1);
			rotated_.resize(size_t{lists_.n_lists()} * ivf::rabitq_padded_dim(model_.rabitq.spec));
			ivf::rabitq_rotate(
				model_.rabitq, lists_.centroids.data(), model_.rabitq.centre, lists_.n_lists(), rotated_.data());
			rabitq_ = {&model_.rabitq, lists_.centroids.data(), rotated_.data()};
		}
		else
			train_pq(sample, n_threads);
	}

	size_t work_bytes() const
	{
		return spec_.kind == ivf::CodeKind::kPq    ? ivf::pq_encode_work_bytes(pq_, 1)
			: spec_.kind == ivf::CodeKind::kRabitq ? ivf::rabitq_encode_work_bytes(model_.rabitq.spec)
												   : 0;
	}

	/// codes [n, code_bytes] row by row; terms [n], if there are any.
	void encode(const Part &part, uint8_t *codes, float *terms, std::vector<uint8_t> *work) const
	{
		const size_t n = part.labels.size();

		if (spec_.kind == ivf::CodeKind::kSq8)
			(void) ivf::sq8_encode(model_.sq8, part.rows.data(), n, spec_.dim, codes);
		else if (spec_.kind == ivf::CodeKind::kRabitq)
			must(ivf::rabitq_encode(
				rabitq_, part.rows.data(), part.labels.data(), n, codes, work->data(), work->size()));
		else
			must(
				ivf::pq_encode(pq_, part.rows.data(), part.labels.data(), n, codes, terms, work->data(), work->size()));
	}

private:
	void train_pq(const Part &sample, size_t n_threads)
	{
		ivf::PqTraining training;
		ivf::Call call;

		call.n_threads = n_threads;
		call.parallel = test::in_threads;
		training.rows = sample.rows.data();
		training.labels = sample.labels.data();
		training.centroids = lists_.centroids.data();
		training.n_rows = sample.labels.size();
		training.n_threads = n_threads;
		training.max_iterations = 8; // half of the default, which takes a minute of one core

		std::vector<uint8_t> work(ivf::pq_train_work_bytes(spec_.pq, training));

		must(ivf::pq_train(model_.pq, training, nullptr, work.data(), work.size(), call));
		rotated_.resize(size_t{lists_.n_lists()} * ivf::pq_padded_dim(spec_.pq));
		must(ivf::pq_rotate(model_.pq, lists_.centroids.data(), lists_.n_lists(), rotated_.data(), call));
		memory_.resize(ivf::pq_encoder_bytes(spec_.pq));
		must(ivf::pq_encoder_init(model_.pq, rotated_.data(), memory_.data(), memory_.size(), &pq_));
	}

	const ivf::CodeSpec spec_;
	const BuiltLists &lists_;
	const ivf::CodeModel model_;
	std::vector<float> rotated_;
	std::vector<uint8_t> memory_;
	ivf::PqEncoder pq_;
	ivf::RabitqEncoder rabitq_;
};

/// A sample of the rows, in the order of places.
Part
sample_of(const RowStore &store, const BuiltLists &lists)
{
	const uint64_t step = std::max<uint64_t>(store.n() / kTrainingRows, 1);
	Part sample;
	Part one;

	for (uint64_t place = 0; place < store.n(); place += step)
	{
		one.set(store, lists, place, 1);
		sample.rows.insert(sample.rows.end(), one.rows.begin(), one.rows.end());
		sample.labels.push_back(one.labels.front());
	}
	return sample;
}

} // namespace

EncodedRows
encode_rows(
	const RowStore &store, const BuiltLists &lists, const Storage &storage, const Options &options, Report *report)
{
	EncodedRows encoded;

	encoded.layout.spec = spec_of(storage, store.dim());
	encoded.layout.n_rows = store.n();

	const engine::CodesLayout &layout = encoded.layout;
	const engine::CodesHead head = engine::head_of(layout.spec);
	const size_t code_bytes = ivf::code_bytes(layout.spec);
	std::vector<float> floats(ivf::code_model_floats(layout.spec));
	Encoder encoder(layout.spec, lists, floats.data());

	encoder.train(sample_of(store, lists), options.n_threads);
	if (report != nullptr)
		report->step("train", std::min<uint64_t>(store.n(), kTrainingRows), storage.text);
	encoded.bytes = std::make_unique_for_overwrite<uint8_t[]>(layout.bytes());
	std::memcpy(encoded.bytes.get(), &head, sizeof(head));
	if (!floats.empty())
		std::memcpy(encoded.bytes.get() + layout.model_at(), floats.data(), floats.size() * sizeof(float));
	in_parts(options.n_threads, store.n(), kPartRows,
		[&](uint64_t first, uint64_t last, size_t)
		{
			const size_t n = last - first;
			const bool blocks = ivf::code_unit_rows(layout.spec) > 1;
			uint8_t *codes = encoded.bytes.get() + layout.codes_at() + first * code_bytes;
			std::vector<uint8_t> by_row(blocks ? n * code_bytes : 0);
			std::vector<float> terms(n);
			std::vector<uint8_t> work(encoder.work_bytes());
			Part part;

			part.set(store, lists, first, n);
			encoder.encode(part, blocks ? by_row.data() : codes, terms.data(), &work);
			if (blocks)
				ivf::code_make_blocks(layout.spec, by_row.data(), n, codes);
			if (ivf::code_has_terms(layout.spec)) // the head, the model and the terms are 4-byte aligned
				std::memcpy(
					encoded.bytes.get() + layout.terms_at() + first * sizeof(float), terms.data(), n * sizeof(float));
		});
	if (report != nullptr)
		report->step("encode", store.n(), storage.text);
	return encoded;
}

} // namespace vectorgpu::bench
