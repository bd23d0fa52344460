// Kernels of the test `launch`: as another room would write them.
// registers: 32

#include "../../src/cuda/view.cuh"

// y = a x + y, for as many elements as y has.
struct Saxpy {
    View<const f32> x;
    View<f32> y;
    f32 a;
};

// Counts launches.
struct Count {
    View<u32> launches;
    u32 by;
};

__global__ void saxpy(const Saxpy given) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= given.y.len) return;
    given.y[i] = __fmaf_rn(given.a, given.x[i], given.y[i]);
}

__global__ void count(const Count given) { given.launches[0] += given.by; }
