// Codes of rows in inverted lists, made on the CPU as in an index build: the part of a segment's description after the
// lists (engine/interface/codes_layout.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "engine/interface/codes_layout.hpp"
#include "engine/ivf/call.hpp"
#include "engine/ivf/pq_train.hpp"

namespace vectorgpu::bench
{

struct CodesWanted
{
	engine::CodesHead head{}; // kind 0: none
	size_t n_threads = 1;
	void (*parallel)(void *, size_t, void (*)(void *, size_t), void *) = nullptr; // engine::ivf::Call::parallel
};

inline void
code_step(const engine::ivf::Outcome &outcome)
{
	if (outcome.is_ok())
		return;
	std::fprintf(stderr, "%s\n", outcome.message);
	std::exit(1);
}

/// Codes by row [n, code_bytes] in blocks, the layout of an index, by all threads.
inline void
interleave(const CodesWanted &wanted, const engine::ivf::CodeSpec &spec, const std::vector<uint8_t> &by_row, size_t n,
	uint8_t *codes)
{
	namespace ivf = engine::ivf;

	struct Interleaving
	{
		const ivf::CodeSpec &spec;
		const uint8_t *by_row;
		uint8_t *codes;
		size_t n;
		size_t part; // rows of a task
	} whole = {spec, by_row.data(), codes, n, (n / wanted.n_threads / ivf::kCodeBlockRows + 1) * ivf::kCodeBlockRows};

	wanted.parallel(
		nullptr, wanted.n_threads,
		[](void *argument, size_t task)
		{
			const Interleaving &all = *static_cast<const Interleaving *>(argument);
			const size_t first = std::min(all.n, task * all.part);
			const size_t code_bytes = ivf::code_bytes(all.spec);

			if (first < all.n)
				ivf::code_make_blocks(all.spec, all.by_row + first * code_bytes, std::min(all.part, all.n - first),
					all.codes + first * code_bytes);
		},
		&whole);
}

/// Rows in lists: vectors [n, dim] by place, centroids [n_lists, dim], offsets [n_lists + 1].
struct ListedRows
{
	uint32_t dim;
	std::span<const float> vectors;
	std::span<const float> centroids;
	std::span<const uint64_t> offsets;

	size_t n() const { return vectors.size() / dim; }
	size_t n_lists() const { return offsets.size() - 1; }
};

/// Train a product quantiser on a sample of the rows and encode all; terms and codes go into `bytes`, a description
/// with that layout.
inline void
describe_pq(const CodesWanted &wanted, const engine::CodesLayout &layout, const engine::ivf::CodeModel &model,
	const ListedRows &rows, std::vector<uint8_t> *bytes)
{
	namespace ivf = engine::ivf;

	const size_t n = rows.n();
	const size_t step = std::max<size_t>(n / ivf::kPqTrainingRows, 1);
	std::vector<uint32_t> labels(n);
	std::vector<float> sample;
	std::vector<uint32_t> sample_labels;
	ivf::PqTraining training;
	ivf::PqEncoder encoder;
	ivf::Call call;

	call.n_threads = wanted.n_threads;
	call.parallel = wanted.parallel;
	for (uint32_t list = 0; list < rows.n_lists(); list++)
		std::fill(labels.begin() + static_cast<ptrdiff_t>(rows.offsets[list]),
			labels.begin() + static_cast<ptrdiff_t>(rows.offsets[list + 1]), list);
	for (size_t i = 0; i < n; i += step)
	{
		sample.insert(sample.end(), rows.vectors.begin() + static_cast<ptrdiff_t>(i * rows.dim),
			rows.vectors.begin() + static_cast<ptrdiff_t>((i + 1) * rows.dim));
		sample_labels.push_back(labels[i]);
	}
	training.rows = sample.data();
	training.labels = sample_labels.data();
	training.centroids = rows.centroids.data();
	training.n_rows = sample_labels.size();
	training.max_iterations = 8;
	training.n_threads = wanted.n_threads;

	std::vector<uint8_t> work(ivf::pq_train_work_bytes(layout.spec.pq, training));

	code_step(ivf::pq_train(model.pq, training, nullptr, work.data(), work.size(), call));

	std::vector<float> rotated(rows.n_lists() * ivf::pq_padded_dim(layout.spec.pq));
	std::vector<uint8_t> memory(ivf::pq_encoder_bytes(layout.spec.pq));
	std::vector<uint8_t> by_row(n * ivf::code_bytes(layout.spec));

	ivf::pq_rotate(model.pq, rows.centroids.data(), rows.n_lists(), rotated.data());
	code_step(ivf::pq_encoder_init(model.pq, rotated.data(), memory.data(), memory.size(), &encoder));
	work.resize(ivf::pq_encode_work_bytes(encoder, wanted.n_threads));
	code_step(ivf::pq_encode(encoder, rows.vectors.data(), labels.data(), n, by_row.data(),
		reinterpret_cast<float *>(bytes->data() + layout.terms_at()), work.data(), work.size(), call));
	interleave(wanted, layout.spec, by_row, n, bytes->data() + layout.codes_at());
}

/// The same for RaBitQ, by all threads.
inline void
describe_rabitq(const CodesWanted &wanted, const engine::CodesLayout &layout, const engine::ivf::CodeModel &model,
	const ListedRows &rows, std::vector<uint8_t> *bytes)
{
	namespace ivf = engine::ivf;

	const size_t code_bytes = ivf::code_bytes(layout.spec);
	std::vector<uint32_t> labels(rows.n());
	std::vector<float> rotated(rows.n_lists() * ivf::rabitq_padded_dim(model.rabitq.spec));
	std::vector<uint8_t> by_row(rows.n() * code_bytes);

	ivf::rabitq_train(model.rabitq, rows.vectors.data(), rows.n(), 1);
	ivf::rabitq_rotate(model.rabitq, rows.centroids.data(), model.rabitq.centre, rows.n_lists(), rotated.data());
	for (uint32_t list = 0; list < rows.n_lists(); list++)
		std::fill(labels.begin() + static_cast<ptrdiff_t>(rows.offsets[list]),
			labels.begin() + static_cast<ptrdiff_t>(rows.offsets[list + 1]), list);

	struct Encoding
	{
		ivf::RabitqEncoder encoder;
		const ListedRows &rows;
		const uint32_t *labels;
		uint8_t *by_row;
		size_t code_bytes;
		size_t part; // rows of a task
	} whole = {{&model.rabitq, rows.centroids.data(), rotated.data()}, rows, labels.data(), by_row.data(), code_bytes,
		rows.n() / wanted.n_threads + 1};

	wanted.parallel(
		nullptr, wanted.n_threads,
		[](void *argument, size_t task)
		{
			const Encoding &all = *static_cast<const Encoding *>(argument);
			const size_t first = std::min(all.rows.n(), task * all.part);
			std::vector<uint8_t> work(ivf::rabitq_encode_work_bytes(all.encoder.model->spec));

			code_step(ivf::rabitq_encode(all.encoder, all.rows.vectors.data() + first * all.rows.dim,
				all.labels + first, std::min(all.part, all.rows.n() - first), all.by_row + first * all.code_bytes,
				work.data(), work.size()));
		},
		&whole);
	interleave(wanted, layout.spec, by_row, rows.n(), bytes->data() + layout.codes_at());
}

/// The description of the rows' codes. vectors [n, dim] by place, centroids [n_lists, dim], offsets [n_lists + 1]. L2.
inline std::vector<uint8_t>
describe_codes(const CodesWanted &wanted, uint32_t dim, std::span<const float> vectors,
	std::span<const float> centroids, std::span<const uint64_t> offsets)
{
	namespace ivf = engine::ivf;

	const size_t n = vectors.size() / dim;
	engine::CodesLayout layout;

	if (const char *error = engine::code_spec_of(wanted.head, {Metric::kL2, ElementType::kFloat32, dim}, &layout.spec);
		error != nullptr)
	{
		std::fprintf(stderr, "%s\n", error);
		std::exit(1);
	}
	layout.n_rows = n;

	std::vector<uint8_t> bytes(layout.bytes());
	std::vector<float> floats(ivf::code_model_floats(layout.spec));
	const ivf::CodeModel model = ivf::make_code_model(layout.spec, floats.data());
	uint8_t *codes = bytes.data() + layout.codes_at();

	if (layout.spec.kind == ivf::CodeKind::kSq8)
	{
		ivf::sq8_train(vectors.data(), n, dim, model.sq8);
		ivf::sq8_encode(model.sq8, vectors.data(), n, dim, codes);
	}
	else if (layout.spec.kind == ivf::CodeKind::kHalves)
		ivf::narrow_to_halves(vectors.data(), vectors.size(), reinterpret_cast<uint16_t *>(codes));
	else if (layout.spec.kind == ivf::CodeKind::kRabitq)
		describe_rabitq(wanted, layout, model, {dim, vectors, centroids, offsets}, &bytes);
	else
		describe_pq(wanted, layout, model, {dim, vectors, centroids, offsets}, &bytes);
	std::memcpy(bytes.data(), &wanted.head, sizeof(wanted.head));
	if (!floats.empty())
		std::memcpy(bytes.data() + layout.model_at(), floats.data(), floats.size() * sizeof(float));
	return bytes;
}

} // namespace vectorgpu::bench
