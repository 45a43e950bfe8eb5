// See list_coder.hpp.
#include "engine/ivf/list_coder.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

#include "engine/ivf/pq_train.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kCacheLine = 64;
constexpr size_t kRabitqPiece = 32; // rows that a thread codes at a time
constexpr size_t kSq8Piece = 32;

Status
status_of(const ivf::Outcome &outcome)
{
	return outcome.is_ok() ? Status::ok() : Status::error(outcome.code, outcome.message);
}

ivf::PqTraining
pq_training(const ListCodeSpec &spec, size_t n_threads)
{
	ivf::PqTraining training;

	training.n_rows = spec.n_training;
	training.seed = spec.seed;
	training.n_threads = std::max<size_t>(n_threads, 1);
	return training;
}

ivf::RabitqSpec
rabitq_spec(const ivf::CodeSpec &spec)
{
	return {spec.metric, spec.dim, spec.bits};
}

/// Work memory of a thread that codes rows by RaBitQ, in whole cache lines.
size_t
rabitq_thread_bytes(const ivf::CodeSpec &spec)
{
	return (ivf::rabitq_encode_work_bytes(rabitq_spec(spec)) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

bool
all_finite(const float *values, size_t n)
{
	return std::all_of(values, values + n, [](float x) { return std::isfinite(x); });
}

} // namespace

Status
check_list_codes(const ListCodeSpec &spec)
{
	const bool rabitq = spec.codes.kind == ivf::CodeKind::kRabitq;

	if (spec.codes.kind != ivf::CodeKind::kSq8 && spec.codes.kind != ivf::CodeKind::kPq && !rabitq)
		return Status::error(StatusCode::kUnsupported, "codes of this kind are not made while lists are built");
	if (const char *error = ivf::code_spec_error(spec.codes); error != nullptr)
		return Status::error(StatusCode::kInvalidArgument, error);
	if (spec.n_training > (rabitq ? 0 : INT32_MAX))
		return Status::error(StatusCode::kInvalidArgument, "the number of rows is out of range");
	return Status::ok();
}

uint64_t
list_code_bytes(const ListCodeSpec &spec, uint32_t n_lists, size_t n_threads)
{
	const uint64_t sample = uint64_t{spec.n_training} * (spec.codes.dim + 1) * sizeof(float);
	const uint64_t model = ivf::code_model_floats(spec.codes) * sizeof(float);

	if (spec.codes.kind == ivf::CodeKind::kRabitq)
		return model + uint64_t{n_lists} * ivf::rabitq_padded_dim(rabitq_spec(spec.codes)) * sizeof(float) +
			std::max<size_t>(n_threads, 1) * rabitq_thread_bytes(spec.codes);
	if (spec.codes.kind != ivf::CodeKind::kPq)
		return sample + model;

	// Scratch of a thread of the encoder, for one block: rows of the rotated space, residuals, labels.
	constexpr uint64_t kBlockRows = 256;
	const uint64_t training =
		spec.n_training > 0 ? ivf::pq_train_work_bytes(spec.codes.pq, pq_training(spec, n_threads)) : 0;
	const uint64_t encoder = uint64_t{n_lists} * ivf::pq_padded_dim(spec.codes.pq) * sizeof(float) +
		ivf::pq_encoder_bytes(spec.codes.pq) +
		n_threads * kBlockRows * 4 * (ivf::pq_padded_dim(spec.codes.pq) + 64) * sizeof(float);

	return model + std::max(sample + training, encoder);
}

ListCoder::ListCoder(const ListCodeSpec &spec)
	: spec_(spec), floats_(ivf::code_model_floats(spec.codes)),
	  model_(ivf::make_code_model(spec_.codes, floats_.data()))
{
}

Status
ListCoder::add_training(const float *rows, size_t n)
{
	if (ready_ || n > spec_.n_training - n_sample_)
		return Status::error(StatusCode::kInvalidArgument, "more rows to train codes on than were announced");
	sample_.reserve(size_t{spec_.n_training} * spec_.codes.dim); // at once: a growing vector takes up to twice as much
	sample_.insert(sample_.end(), rows, rows + n * spec_.codes.dim);
	n_sample_ += n;
	return Status::ok();
}

Status
ListCoder::add_model(const float *floats, size_t n)
{
	if (spec_.n_training > 0 || ready_ || n > floats_.size() - n_given_)
		return Status::error(StatusCode::kInvalidArgument, "more values than the model of the codes has");
	std::copy_n(floats, n, floats_.begin() + static_cast<ptrdiff_t>(n_given_));
	if (!all_finite(floats_.data() + n_given_, n)) // check the copy: a peer may still change the memory it sent
		return Status::error(StatusCode::kInvalidArgument, "a value of the codes' model is not finite");
	n_given_ += n;
	ready_ = n_given_ == floats_.size();
	return Status::ok();
}

Status
ListCoder::train_pq(const float *centroids, const uint32_t *labels, const ivf::Call &call)
{
	ivf::PqTraining training = pq_training(spec_, call.n_threads);

	training.rows = sample_.data();
	training.labels = labels;
	training.centroids = centroids;

	const size_t work_bytes = ivf::pq_train_work_bytes(spec_.codes.pq, training);
	const auto work = std::make_unique_for_overwrite<uint8_t[]>(work_bytes);

	return status_of(ivf::pq_train(model_.pq, training, nullptr, work.get(), work_bytes, call));
}

Status
ListCoder::train(const float *centroids, const uint32_t *labels, const ivf::Call &call)
{
	Status status = Status::ok();

	if (!wants_training() || !sample_complete())
		return Status::error(StatusCode::kInvalidArgument, "training rows of the codes are missing");
	if (spec_.codes.kind == ivf::CodeKind::kPq)
		status = train_pq(centroids, labels, call);
	else
		ivf::sq8_train(sample_.data(), n_sample_, spec_.codes.dim, model_.sq8);
	if (!status.is_ok())
		return status;
	if (!all_finite(floats_.data(), floats_.size()))
		return Status::error(StatusCode::kInvalidArgument, "the sample gives codes that are not finite");
	std::vector<float>().swap(sample_);
	ready_ = true;
	return Status::ok();
}

Status
ListCoder::start(const float *centroids, uint32_t n_lists, const ivf::Call &call)
{
	if (!ready_)
		return Status::error(StatusCode::kInvalidArgument, "codes have no model");
	started_ = spec_.codes.kind != ivf::CodeKind::kPq;
	if (spec_.codes.kind == ivf::CodeKind::kRabitq)
		start_rabitq(centroids, n_lists, call.n_threads);
	if (started_)
		return Status::ok();
	rotated_.resize(size_t{n_lists} * ivf::pq_padded_dim(spec_.codes.pq));

	const ivf::Outcome rotated = ivf::pq_rotate(model_.pq, centroids, n_lists, rotated_.data(), call);

	if (!rotated.is_ok())
		return status_of(rotated);
	memory_.resize(ivf::pq_encoder_bytes(spec_.codes.pq));

	const ivf::Outcome made =
		ivf::pq_encoder_init(model_.pq, rotated_.data(), memory_.data(), memory_.size(), &encoder_);

	if (made.is_ok())
		work_.resize(ivf::pq_encode_work_bytes(encoder_, call.n_threads));
	started_ = made.is_ok();
	return status_of(made);
}

void
ListCoder::start_rabitq(const float *centroids, uint32_t n_lists, size_t n_threads)
{
	rotated_.resize(size_t{n_lists} * ivf::rabitq_padded_dim(model_.rabitq.spec));
	ivf::rabitq_rotate(model_.rabitq, centroids, model_.rabitq.centre, n_lists, rotated_.data());
	work_.resize(std::max<size_t>(n_threads, 1) * rabitq_thread_bytes(spec_.codes));
	rabitq_ = {&model_.rabitq, centroids, rotated_.data()};
}

Status
ListCoder::encode_rabitq(
	const float *rows, const uint32_t *labels, size_t n, const CodedRows &coded, const ivf::Call &call)
{
	struct Job
	{
		ListCoder &coder;
		const float *rows;
		const uint32_t *labels;
		size_t n;
		uint8_t *codes;
		std::atomic<size_t> next{0};
		std::atomic<bool> failed{false};
	} job = {*this, rows, labels, n, coded.codes};
	const auto code_pieces = [](void *argument, size_t thread)
	{
		Job &shared = *static_cast<Job *>(argument);
		const ivf::CodeSpec &spec = shared.coder.spec_.codes;
		const size_t work_bytes = rabitq_thread_bytes(spec);
		uint8_t *work = shared.coder.work_.data() + thread * work_bytes;

		for (size_t first = shared.next.fetch_add(kRabitqPiece); first < shared.n;
			first = shared.next.fetch_add(kRabitqPiece))
			if (!ivf::rabitq_encode(shared.coder.rabitq_, shared.rows + first * spec.dim, shared.labels + first,
					std::min(kRabitqPiece, shared.n - first), shared.codes + first * ivf::code_bytes(spec), work,
					work_bytes, {})
					.is_ok())
				shared.failed = true;
	};

	if (call.parallel != nullptr && call.n_threads > 1 && n > kRabitqPiece)
		call.parallel(call.parallel_context, std::min(call.n_threads, work_.size() / rabitq_thread_bytes(spec_.codes)),
			code_pieces, &job);
	else
		code_pieces(&job, 0);
	return job.failed ? Status::error(StatusCode::kInternal, "could not code rows") : Status::ok();
}

void
ListCoder::encode_sq8(const float *rows, size_t n, const CodedRows &coded, const ivf::Call &call) const
{
	struct Job
	{
		const ListCoder &coder;
		const float *rows;
		size_t n;
		const CodedRows &coded;
		std::atomic<size_t> next{0};
	} job = {*this, rows, n, coded};
	const auto code_pieces = [](void *argument, size_t)
	{
		Job &shared = *static_cast<Job *>(argument);
		const size_t dim = shared.coder.spec_.codes.dim;

		for (size_t first = shared.next.fetch_add(kSq8Piece); first < shared.n;
			first = shared.next.fetch_add(kSq8Piece))
			(void) ivf::sq8_encode(shared.coder.model_.sq8, shared.rows + first * dim,
				std::min(kSq8Piece, shared.n - first), dim, shared.coded.codes + first * dim,
				shared.coded.is_out + first);
	};

	if (call.parallel != nullptr && call.n_threads > 1 && n > kSq8Piece)
		call.parallel(call.parallel_context, call.n_threads, code_pieces, &job);
	else
		code_pieces(&job, 0);
}

Status
ListCoder::encode(const float *rows, const uint32_t *labels, size_t n, const CodedRows &coded, const ivf::Call &call)
{
	if (spec_.codes.kind == ivf::CodeKind::kSq8)
	{
		encode_sq8(rows, n, coded, call);
		return Status::ok();
	}
	std::fill_n(coded.is_out, n, uint8_t{0});
	if (spec_.codes.kind == ivf::CodeKind::kRabitq)
		return encode_rabitq(rows, labels, n, coded, call);
	return status_of(
		ivf::pq_encode(encoder_, rows, labels, n, coded.codes, coded.terms, work_.data(), work_.size(), call));
}

} // namespace vectorgpu::engine
