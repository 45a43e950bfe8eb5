// libFuzzer target: storage parameters of gpuivf, as core hands them on once it has parsed names and bounds. What is accepted must be
// what vectorgpu_check accepts of a metapage, and its sizes must fit the type.
#include "fake_server.hpp"

#include <cstring>

#include "am/gpuivf/ivf.hpp"
#include "am/gpuivf/storage.hpp"
#include "common/limits.hpp"

using namespace vectorgpu;

namespace
{

/// One input.
struct Input
{
	uint8_t storage, refine, half, metric;
	uint16_t pq_m, dim;
	uint8_t pq_bits, opq;
	uint32_t n_rows;
};

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};
	static am::MetaData meta;
	Input input;

	if (size < sizeof(input))
		return 0;
	memcpy(&input, data, sizeof(input));

	const fuzz::Call one_call;
	const am::IvfStorageRequest request = {input.storage % (am::kStoragePq + 1), input.refine % (am::kRefineFp32 + 1),
		input.pq_m % (kMaxDimensions + 1), input.pq_bits % 17, input.opq % 3 - 1};
	am::IvfOptions *options = reinterpret_cast<am::IvfOptions *>(meta.am_options);

	memset(&meta, 0, sizeof(meta));
	meta.element = input.half % 2 == 0 ? ElementType::kFloat32 : ElementType::kFloat16;
	meta.metric = kMetrics[input.metric % 4];
	meta.dim = input.dim % kMaxDimensions + 1u;
	if (!fuzz::no_error([&] { am::ivf_resolve_storage(&request, meta.element, meta.metric, meta.dim, options); }))
	{
		REQUIRE(fuzz::error_code == ERRCODE_INVALID_PARAMETER_VALUE || fuzz::error_code == ERRCODE_FEATURE_NOT_SUPPORTED);
		return 0;
	}
	// A segment of no rows has no streams: nothing but the options can be wrong with it.
	REQUIRE(am::ivf_check_entry(&meta, &meta.segments[0]) == nullptr);

	const am::IvfLayout layout = am::ivf_layout(&meta);

	REQUIRE(layout.kept_bytes <= meta.dim * sizeof(float) && layout.code_bytes <= meta.dim * sizeof(float));
	REQUIRE(layout.kept_bytes > 0 || layout.code_bytes > 0);
	REQUIRE(am::code_stream_bytes(&layout, input.n_rows) >= uint64{input.n_rows} * layout.code_bytes);
	return 0;
}
