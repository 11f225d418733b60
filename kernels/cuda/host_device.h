// kernels/cuda/host_device.h
//
// Functions that a CUDA card runs and the tests run on the processor, too.
// Private to kernels/cuda/.
#pragma once

#ifdef __CUDACC__
#define DELTAFIN_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define DELTAFIN_HOST_DEVICE inline
#endif
