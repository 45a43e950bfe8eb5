// Codes of rows while the lists of an index are built: training of what they are made with, and making them, by
// engine/ivf with as many threads of the host as the caller lends. The codes are those that a backend makes of the same
// rows, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "common/status.hpp"
#include "engine/ivf/code_query.hpp"

namespace vectorgpu::engine
{

struct ListCodeSpec
{
	ivf::CodeSpec codes;     // kSq8 or kPq; dim and metric of the rows
	uint32_t n_training = 0; // rows that will come for the training; 0: what codes are made with is given
	uint64_t seed = 1;
};

/// kInvalidArgument or kUnsupported for a spec that no engine can work with.
Status check_list_codes(const ListCodeSpec &spec);

/// Host memory that coding takes, with n_threads: the sample and its training, or the encoder, whichever is more.
uint64_t list_code_bytes(const ListCodeSpec &spec, uint32_t n_lists, size_t n_threads);

/// What is made of a batch of rows, in the caller's arrays.
struct CodedRows
{
	uint8_t *codes = nullptr;  // [n, code_bytes], row by row
	float *terms = nullptr;    // [n]; null unless code_has_terms
	uint8_t *is_out = nullptr; // [n]: 1 if an element is beyond what the codes were trained for (kSq8), else 0
};

/// One thread at a time. Does not move: codes point into it.
class ListCoder
{
public:
	/// spec: checked.
	explicit ListCoder(const ListCodeSpec &spec);
	ListCoder(const ListCoder &) = delete;
	ListCoder &operator=(const ListCoder &) = delete;

	/// The next rows [n, dim] of the sample, float32, for cosine of length 1.
	Status add_training(const float *rows, size_t n);

	/// Instead of a training: the next of the model's floats, in the order of make_code_model.
	Status add_model(const float *floats, size_t n);

	bool wants_training() const { return !ready_ && spec_.n_training > 0; }
	bool sample_complete() const { return n_sample_ == spec_.n_training; }
	const std::vector<float> &sample() const { return sample_; }

	/// labels [n_training]: lists of the sample. centroids [n_lists, dim], as for start.
	Status train(const float *centroids, const uint32_t *labels, const ivf::Call &call);

	/// The model is there, and start can be called: codes can be made of rows of these lists once it has succeeded.
	/// centroids [n_lists, dim], which stay.
	bool ready() const { return ready_; }
	bool started() const { return started_; }
	Status start(const float *centroids, uint32_t n_lists, const ivf::Call &call);

	/// rows [n, dim] as add_training has them, labels [n] of the lists.
	Status encode(const float *rows, const uint32_t *labels, size_t n, const CodedRows &coded, const ivf::Call &call);

	const ListCodeSpec &spec() const { return spec_; }
	const std::vector<float> &model() const { return floats_; }

private:
	Status train_pq(const float *centroids, const uint32_t *labels, const ivf::Call &call);
	void encode_sq8(const float *rows, size_t n, const CodedRows &coded, const ivf::Call &call) const;

	const ListCodeSpec spec_;
	std::vector<float> floats_; // [code_model_floats]
	const ivf::CodeModel model_;
	size_t n_sample_ = 0;
	size_t n_given_ = 0;        // floats
	std::vector<float> sample_; // [n_training, dim], until trained
	bool ready_ = false;
	bool started_ = false;
	std::vector<float> rotated_;  // centroids [n_lists, padded_dim]; kPq
	std::vector<uint8_t> memory_; // the encoder's
	std::vector<uint8_t> work_;
	ivf::PqEncoder encoder_;
};

} // namespace vectorgpu::engine
