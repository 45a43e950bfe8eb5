// A segment of inverted lists with codes, and the results of searches by definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/interface/codes_layout.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/pq_train.hpp"
#include "engine/list_rows.hpp"

namespace vectorgpu::engine::test
{

/// Rows of ListRows, and their codes, by a codec trained on all of them.
struct CodedRows : ListRows
{
	ivf::CodeSpec spec;
	mutable std::vector<float> model_floats; // mutable: the quantisers take pointers to non-const
	std::vector<float> terms;                // by place
	Bytes codes;                             // by place, as in the description

	CodedRows(const ListRows &lists, ivf::CodeKind kind, uint32_t pq_m = 0, uint32_t bits = 0, bool opq = false)
		: ListRows(lists)
	{
		const CodesHead head = {static_cast<uint32_t>(kind), pq_m, bits, opq ? 1u : 0u};

		EXPECT_EQ(code_spec_of(head, rows.spec, &spec), nullptr);
		model_floats.resize(ivf::code_model_floats(spec));
		if (kind == ivf::CodeKind::kPq)
			train_pq();
		else if (kind == ivf::CodeKind::kSq8)
			train_sq8();
		else if (kind == ivf::CodeKind::kRabitq)
			train_rabitq();
		else
		{
			const std::vector<float> floats = floats_by_place();
			std::vector<uint16_t> halves(floats.size());

			ivf::narrow_to_halves(floats.data(), floats.size(), halves.data());
			codes.resize(halves.size() * sizeof(uint16_t));
			std::memcpy(codes.data(), halves.data(), codes.size());
		}
	}

	CodesLayout codes_layout() const { return {spec, rows.n()}; }

	/// The description for load_structure.
	Bytes coded_description() const
	{
		const CodesHead head = head_of(spec);
		Bytes bytes = description();
		const auto put = [&bytes](const void *from, size_t n)
		{ bytes.insert(bytes.end(), static_cast<const uint8_t *>(from), static_cast<const uint8_t *>(from) + n); };

		put(&head, sizeof(head));
		put(model_floats.data(), model_floats.size() * sizeof(float));
		put(terms.data(), terms.size() * sizeof(float));
		put(codes.data(), codes.size());
		return bytes;
	}

	/// Load into a copy of kind kCodedLists, in parts, and seal.
	Status load_coded(Engine *engine, CopyId copy, SegmentId segment) const
	{
		return load_as(CopyKind::kCodedLists, engine, copy, segment);
	}

	/// The same without vectors, for a copy of kind kCodes.
	Status load_codes(Engine *engine, CopyId copy, SegmentId segment) const
	{
		return load_as(CopyKind::kCodes, engine, copy, segment);
	}

	/// Load according to the kind of the copy.
	Status load_as(CopyKind kind, Engine *engine, CopyId copy, SegmentId segment) const
	{
		const Bytes vectors = kind == CopyKind::kCodes ? Bytes() : vectors_by_place();
		const Bytes bytes = coded_description();
		const size_t part = bytes.size() / 3 + 1;
		Status status = engine->load_segment(copy, segment,
			{{rows.ids.data(), rows.n()}, kind == CopyKind::kCodes ? nullptr : vectors.data(), rows.n()});

		for (size_t at = 0; at < bytes.size() && status.is_ok(); at += part)
			status =
				engine->load_structure(copy, segment, n_lists, {bytes.data() + at, std::min(part, bytes.size() - at)});
		return status.is_ok() ? engine->seal_segment(copy, segment) : status;
	}

	/// Estimates and places of the rows with the best estimates in the first n_probes lists, each estimated alone.
	std::vector<Neighbor> estimates(const void *query, uint32_t n_probes, uint32_t n_candidates) const
	{
		const ivf::CodeModel model = ivf::make_code_model(spec, model_floats.data());
		const DistanceSpec coarse = {spec.metric, ElementType::kFloat32, spec.dim};
		const std::vector<uint32_t> order = ranked(query);
		const size_t code_bytes = ivf::code_bytes(spec);
		std::vector<uint8_t> memory(ivf::code_query_bytes(spec));
		std::vector<float> floats;
		ivf::CodeQuery prepared;
		std::vector<Neighbor> found;

		for (uint32_t d = 0; d < spec.dim; d++)
			floats.push_back(element_at(rows.spec.element, query, d));

		std::vector<float> unit = floats;

		if (spec.metric == Metric::kCosine)
			ivf::normalise_rows(unit.data(), 1, spec.dim);
		EXPECT_TRUE(ivf::code_query_prepare(model, unit.data(), memory.data(), memory.size(), &prepared).is_ok());
		for (uint32_t i = 0; i < std::min(n_probes, n_lists); i++)
		{
			const double constant = ivf::code_list_constant(
				spec, oracle_score(coarse, floats.data(), &centroids[size_t{order[i]} * spec.dim]));

			for (uint64_t place = offsets[order[i]]; place < offsets[order[i] + 1]; place++)
			{
				Bytes code(ivf::kCodeBlockRows * code_bytes); // the row's, as the only one of a block
				double estimate;

				if (ivf::code_unit_rows(spec) > 1)
				{
					Bytes alone(code_bytes);

					ivf::code_read_block(spec, codes.data(), place, alone.data());
					ivf::code_make_blocks(spec, alone.data(), 1, code.data());
				}
				else
					std::memcpy(code.data(), &codes[place * code_bytes], code_bytes);
				ivf::code_scores(
					prepared, constant, code.data(), terms.empty() ? nullptr : &terms[place], 1, &estimate);
				found.push_back({estimate, place});
			}
		}
		std::sort(found.begin(), found.end(), neighbor_less);
		found.resize(std::min<size_t>(found.size(), n_candidates));
		return found;
	}

	/// The numbers of these rows.
	std::vector<uint32_t> candidates(const void *query, uint32_t n_probes, uint32_t n_candidates) const
	{
		std::vector<uint32_t> chosen;

		for (const Neighbor &candidate : estimates(query, n_probes, n_candidates))
			chosen.push_back(numbers[candidate.row]);
		return chosen;
	}

private:
	/// Rows by place as floats, of length 1 for cosine.
	std::vector<float> floats_by_place() const
	{
		std::vector<float> floats;

		for (const uint32_t number : numbers)
			for (uint32_t d = 0; d < spec.dim; d++)
				floats.push_back(element_at(rows.spec.element, rows.vector(number), d));
		if (spec.metric == Metric::kCosine)
			ivf::normalise_rows(floats.data(), rows.n(), spec.dim);
		return floats;
	}

	void train_sq8()
	{
		const std::vector<float> floats = floats_by_place();
		const ivf::CodeModel model = ivf::make_code_model(spec, model_floats.data());

		codes.resize(floats.size());
		ivf::sq8_train(floats.data(), rows.n(), spec.dim, model.sq8);
		ivf::sq8_encode(model.sq8, floats.data(), rows.n(), spec.dim, codes.data());
	}

	/// The list of each place.
	std::vector<uint32_t> labels_by_place() const
	{
		std::vector<uint32_t> labels(rows.n());

		for (uint32_t list = 0; list < n_lists; list++)
			std::fill(labels.begin() + static_cast<ptrdiff_t>(offsets[list]),
				labels.begin() + static_cast<ptrdiff_t>(offsets[list + 1]), list);
		return labels;
	}

	void train_rabitq()
	{
		const std::vector<float> floats = floats_by_place();
		const std::vector<uint32_t> labels = labels_by_place();
		const ivf::CodeModel model = ivf::make_code_model(spec, model_floats.data());
		std::vector<float> rotated(size_t{n_lists} * ivf::rabitq_padded_dim(model.rabitq.spec));
		Bytes by_row(rows.n() * ivf::code_bytes(spec));
		Bytes work(ivf::rabitq_encode_work_bytes(model.rabitq.spec));

		ivf::rabitq_train(model.rabitq, floats.data(), rows.n(), 9);
		ivf::rabitq_rotate(model.rabitq, centroids.data(), model.rabitq.centre, n_lists, rotated.data());
		EXPECT_TRUE(ivf::rabitq_encode({&model.rabitq, centroids.data(), rotated.data()}, floats.data(), labels.data(),
			rows.n(), by_row.data(), work.data(), work.size())
				.is_ok());
		codes.resize(ivf::all_code_bytes(spec, rows.n()));
		ivf::code_make_blocks(spec, by_row.data(), rows.n(), codes.data());
	}

	void train_pq()
	{
		const std::vector<float> floats = floats_by_place();
		const ivf::CodeModel model = ivf::make_code_model(spec, model_floats.data());
		std::vector<float> rotated(size_t{n_lists} * ivf::pq_padded_dim(spec.pq));
		const std::vector<uint32_t> labels = labels_by_place();
		ivf::PqTraining training;
		ivf::PqEncoder encoder;

		training.rows = floats.data();
		training.labels = labels.data();
		training.centroids = centroids.data();
		training.n_rows = rows.n();
		training.max_iterations = 3;
		training.opq_iterations = 2;

		Bytes work(ivf::pq_train_work_bytes(spec.pq, training));

		EXPECT_TRUE(ivf::pq_train(model.pq, training, nullptr, work.data(), work.size()).is_ok());
		ivf::pq_rotate(model.pq, centroids.data(), n_lists, rotated.data());

		Bytes memory(ivf::pq_encoder_bytes(spec.pq));

		EXPECT_TRUE(ivf::pq_encoder_init(model.pq, rotated.data(), memory.data(), memory.size(), &encoder).is_ok());

		Bytes by_row(rows.n() * ivf::code_bytes(spec));

		work.resize(ivf::pq_encode_work_bytes(encoder, 1));
		terms.resize(ivf::code_has_terms(spec) ? rows.n() : 0);
		EXPECT_TRUE(ivf::pq_encode(encoder, floats.data(), labels.data(), rows.n(), by_row.data(),
			terms.empty() ? nullptr : terms.data(), work.data(), work.size())
				.is_ok());
		codes.resize(ivf::interleaved_bytes(rows.n(), ivf::code_bytes(spec)));
		ivf::interleave_codes(by_row.data(), rows.n(), ivf::code_bytes(spec), codes.data());
	}
};

/// The effort of a query in a segment; n_probes 0: all rows.
struct CodedProbes
{
	const CodedRows *segment;
	uint32_t n_probes;
	uint32_t n_candidates;
};

/// The answer by definition: the candidates of each segment, and the delta.
inline std::vector<Neighbor>
nearest_in_coded(const std::vector<CodedProbes> &segments, const Rows *delta, const void *query, size_t k,
	const Neighbor *after = nullptr, const std::set<RowId> &dead = {})
{
	std::vector<Neighbor> all;
	bool approximate = false;
	const auto offer = [&](const Rows &rows, size_t i)
	{
		const Neighbor found = {oracle_score(rows.spec, query, rows.vector(i)), rows.ids[i]};

		if (!dead.contains(found.row) && (after == nullptr || neighbor_less(*after, found)) &&
			!(approximate && std::isnan(found.score)))
			all.push_back(found);
	};

	for (const CodedProbes &probes : segments)
		approximate = approximate || probes.n_probes > 0;
	for (const CodedProbes &probes : segments)
	{
		const CodedRows &segment = *probes.segment;
		const bool whole = probes.n_probes == 0 || probes.n_probes >= segment.n_lists;

		for (const uint32_t number : whole ? segment.looked_at(query, segment.n_lists)
										   : segment.candidates(query, probes.n_probes, probes.n_candidates))
			offer(segment.rows, number);
	}
	for (size_t i = 0; delta != nullptr && i < delta->n(); i++)
		offer(*delta, i);
	std::sort(all.begin(), all.end(), neighbor_less);
	all.resize(std::min(k, all.size()));
	return all;
}

/// The results of a search of a copy of kind kCodes by definition: the candidates of all segments, by estimate.
inline std::vector<Neighbor>
candidates_in_codes(const std::vector<CodedProbes> &segments, const void *query, size_t k,
	const Neighbor *after = nullptr, const std::set<RowId> &dead = {})
{
	std::vector<Neighbor> all;

	for (const CodedProbes &probes : segments)
		for (Neighbor found : probes.segment->estimates(query, probes.n_probes, probes.n_candidates))
		{
			found.row = probes.segment->rows.ids[probes.segment->numbers[found.row]];
			found.score = std::isnan(found.score) ? std::numeric_limits<double>::quiet_NaN() : found.score + 0.0;
			if (!dead.contains(found.row) && (after == nullptr || neighbor_less(*after, found)))
				all.push_back(found);
		}
	std::sort(all.begin(), all.end(), neighbor_less);
	all.resize(std::min(k, all.size()));
	return all;
}

} // namespace vectorgpu::engine::test
