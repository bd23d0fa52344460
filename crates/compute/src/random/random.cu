// Fills arrays with what random.cuh draws, so that tests can compare a card with the Rust twin bit for bit.
// registers: 40
#include "random.cuh"

// One element or block for each thread; n of them.
#define EACH(i, n)                                   \
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;   \
    if (i >= (n)) return;

// out [n, 4]: the words of n blocks.
extern "C" __global__ void random_words(uint4 *out, u32 n, u64 seed, u32 stream, u32 step, u32 member) {
    EACH(i, n)
    out[i] = philox(seed, make_uint4(i, step, stream, member));
}

// out [n, 4]: uniforms of n blocks.
extern "C" __global__ void random_uniforms(float4 *out, u32 n, u64 seed, u32 stream, u32 step, u32 member) {
    EACH(i, n)
    uint4 w = philox(seed, make_uint4(i, step, stream, member));
    out[i] = make_float4(uniform(w.x), uniform(w.y), uniform(w.z), uniform(w.w));
}

// out [n, 4]: integers below limit, of n blocks.
extern "C" __global__ void random_below(uint4 *out, u32 n, u32 limit, u64 seed, u32 stream, u32 step, u32 member) {
    EACH(i, n)
    uint4 w = philox(seed, make_uint4(i, step, stream, member));
    out[i] = make_uint4(below(w.x, limit), below(w.y, limit), below(w.z, limit), below(w.w, limit));
}

// out [n, 4]: normals of n blocks.
extern "C" __global__ void random_normals(float4 *out, u32 n, u64 seed, u32 stream, u32 step, u32 member) {
    EACH(i, n)
    out[i] = normals(philox(seed, make_uint4(i, step, stream, member)));
}

// out [rows]: the first rows of a permutation of n.
extern "C" __global__ void random_permutation(u32 *out, u32 rows, u32 n, u64 seed, u32 member, u32 epoch) {
    EACH(i, rows)
    out[i] = Permutation(n, seed, member, epoch).at(i);
}
