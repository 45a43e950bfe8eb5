// Marks functions that the host and kernels share: nvcc makes them for both, other compilers see plain functions.
#pragma once

#ifdef __CUDACC__
#define VECTORGPU_HOST_DEVICE __host__ __device__
#else
#define VECTORGPU_HOST_DEVICE
#endif
