// Run the tests if there is a GPU, else report that there is none.
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

int
main(int argc, char **argv)
{
	constexpr int kSkipped = 77; // ctest's SKIP_RETURN_CODE
	int n_devices = 0;

	testing::InitGoogleTest(&argc, argv);
	if (const cudaError_t error = cudaGetDeviceCount(&n_devices); error != cudaSuccess || n_devices == 0)
	{
		printf("no usable GPU: %s\n", cudaGetErrorString(error));
		return std::getenv("VECTORGPU_REQUIRE_GPU") != nullptr ? 1 : kSkipped;
	}
	return RUN_ALL_TESTS();
}
