// See tensor_map.hpp.
#include "kernels/warp_block/tensor_map.hpp"

#include <atomic>

#include <cudaTypedefs.h>

namespace vectorgpu::kernels
{
namespace
{

using Encode = PFN_cuTensorMapEncodeTiled_v12000;

/// The driver's function; null if it has none.
Encode
encode_function()
{
	static std::atomic<Encode> known{nullptr};
	Encode function = known.load(std::memory_order_relaxed);

	if (function == nullptr)
	{
		void *found = nullptr;
		cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;

		if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result) ==
				cudaSuccess &&
			result == cudaDriverEntryPointSuccess)
			function = reinterpret_cast<Encode>(found);
		known.store(function, std::memory_order_relaxed);
	}
	return function;
}

} // namespace

cudaError_t
describe_rows(
	const void *matrix, uint64_t n_rows, uint64_t row_bytes, uint32_t box_bytes, uint32_t box_rows, CUtensorMap *map)
{
	const Encode encode = encode_function();
	const cuuint64_t sizes[2] = {row_bytes, n_rows};
	const cuuint64_t strides[1] = {row_bytes};
	const cuuint32_t box[2] = {box_bytes, box_rows};
	const cuuint32_t steps[2] = {1, 1};

	if (encode == nullptr)
		return cudaErrorNotSupported;
	return encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void *>(matrix), sizes, strides, box, steps,
			   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
			   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
		? cudaSuccess
		: cudaErrorInvalidValue;
}

} // namespace vectorgpu::kernels
