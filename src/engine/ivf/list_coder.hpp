// Makes codes of rows during the build of an index with lists: training of the model, then coding, with the threads
// that the caller lends. The codes have the same bits as those that a backend makes of the same rows.
#pragma once

#include <cstdint>
#include <vector>

#include "common/status.hpp"
#include "engine/ivf/code_query.hpp"

namespace vectorgpu::engine
{

struct ListCodeSpec
{
	ivf::CodeSpec codes;     // kSq8, kPq or kRabitq; dim and metric of the rows
	uint32_t n_training = 0; // training rows that will come; 0, as always for kRabitq: the model is given
	uint64_t seed = 1;
};

/// kInvalidArgument or kUnsupported for a spec that no engine can work with.
Status check_list_codes(const ListCodeSpec &spec);

/// Bytes of host memory that coding takes with n_threads: those of the sample and its training, or of the encoder,
/// whichever is more.
uint64_t list_code_bytes(const ListCodeSpec &spec, uint32_t n_lists, size_t n_threads);

/// Output for a batch of rows, in the caller's arrays.
struct CodedRows
{
	uint8_t *codes = nullptr;  // [n, code_bytes], row by row
	float *terms = nullptr;    // [n]; null unless code_has_terms
	uint8_t *is_out = nullptr; // [n]: 1 if an element is beyond the trained range (kSq8), else 0
};

/// A coder, for one thread at a time. It cannot move: codes point into it.
class ListCoder
{
public:
	/// spec: checked.
	explicit ListCoder(const ListCodeSpec &spec);
	ListCoder(const ListCoder &) = delete;
	ListCoder &operator=(const ListCoder &) = delete;

	/// The next rows [n, dim] of the sample, float32, for cosine of length 1.
	Status add_training(const float *rows, size_t n);

	/// Instead of a training: add the next floats of the model, in the order of make_code_model.
	Status add_model(const float *floats, size_t n);

	bool wants_training() const { return !ready_ && spec_.n_training > 0; }
	bool sample_complete() const { return n_sample_ == spec_.n_training; }
	const std::vector<float> &sample() const { return sample_; }

	/// Train. labels [n_training]: lists of the sample; centroids [n_lists, dim]: as for start.
	Status train(const float *centroids, const uint32_t *labels, const ivf::Call &call);

	/// ready: the model is complete, and start may be called. start: prepare to encode rows of the lists of centroids
	/// [n_lists, dim], which have to stay.
	bool ready() const { return ready_; }
	bool started() const { return started_; }
	Status start(const float *centroids, uint32_t n_lists, const ivf::Call &call);

	/// rows [n, dim] as for add_training, labels [n]: their lists.
	Status encode(const float *rows, const uint32_t *labels, size_t n, const CodedRows &coded, const ivf::Call &call);

	const ListCodeSpec &spec() const { return spec_; }
	const std::vector<float> &model() const { return floats_; }
	const ivf::CodeModel &code_model() const { return model_; }

private:
	Status train_pq(const float *centroids, const uint32_t *labels, const ivf::Call &call);
	void encode_sq8(const float *rows, size_t n, const CodedRows &coded, const ivf::Call &call) const;
	void start_rabitq(const float *centroids, uint32_t n_lists, size_t n_threads);
	Status encode_rabitq(
		const float *rows, const uint32_t *labels, size_t n, const CodedRows &coded, const ivf::Call &call);

	const ListCodeSpec spec_;
	std::vector<float> floats_; // [code_model_floats]
	const ivf::CodeModel model_;
	size_t n_sample_ = 0;
	size_t n_given_ = 0;        // floats
	std::vector<float> sample_; // [n_training, dim], until trained
	bool ready_ = false;
	bool started_ = false;
	std::vector<float> rotated_;  // centroids [n_lists, padded_dim]; kPq, kRabitq
	std::vector<uint8_t> memory_; // the encoder's
	std::vector<uint8_t> work_;
	ivf::PqEncoder encoder_;
	ivf::RabitqEncoder rabitq_;
};

} // namespace vectorgpu::engine
