// Fills arrays with what random.cuh draws, so that tests can compare a card with the Rust twin bit for bit.
// registers: 40
#include "random.cuh"

// What all of these are given.
struct RandomArgs {
    u32* out;   // [n, 4] what n blocks give; of a permutation [n] its first rows
    u64 seed;
    u32 n;
    u32 limit;  // integers below it; of a permutation its length
    u32 stream;
    u32 step;   // of a permutation the epoch
    u32 member;
};

// One block for each thread: its number and its words.
#define EACH(i)                                    \
    u32 i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= given.n) return;

__device__ __forceinline__ uint4 words(const RandomArgs& given, u32 i) {
    return philox(given.seed, make_uint4(i, given.step, given.stream, given.member));
}

extern "C" __global__ void random_words(const RandomArgs given) {
    EACH(i)
    reinterpret_cast<uint4*>(given.out)[i] = words(given, i);
}

extern "C" __global__ void random_uniforms(const RandomArgs given) {
    EACH(i)
    uint4 w = words(given, i);
    reinterpret_cast<float4*>(given.out)[i] = make_float4(uniform(w.x), uniform(w.y), uniform(w.z), uniform(w.w));
}

extern "C" __global__ void random_below(const RandomArgs given) {
    EACH(i)
    uint4 w = words(given, i);
    const u32 limit = given.limit;
    reinterpret_cast<uint4*>(given.out)[i] = make_uint4(below(w.x, limit), below(w.y, limit), below(w.z, limit), below(w.w, limit));
}

extern "C" __global__ void random_normals(const RandomArgs given) {
    EACH(i)
    reinterpret_cast<float4*>(given.out)[i] = normals(words(given, i));
}

extern "C" __global__ void random_permutation(const RandomArgs given) {
    EACH(i)
    given.out[i] = Permutation(given.limit, given.seed, given.member, given.step).at(i);
}
