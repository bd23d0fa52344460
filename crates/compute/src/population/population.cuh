// What all kernels share: the state of a slot, who takes part in a launch, bf16, and sums in a fixed order; and what a
// population adds to a slot, the state of its epoch.
//
// Both states have the fields and the order of `describe.rs`. Nothing here depends on how many slots there are, so a
// member's bits do not either.
#pragma once

#include <cuda_bf16.h>

#include "../cuda/types.cuh"

typedef __nv_bfloat16 bf16;

// Who is in a slot and how far its parameters are; what the fields mean is said in `describe.rs`.
struct SlotState {
    u32 id;
    u32 index;
    u32 active;
    u32 due;
    u32 fault;
    u32 step;
    u32 total;
    float rate;
    float norm;
};

// How far a slot's member is in its list of samples.
struct EpochState {
    u32 cursor;
    u32 done;
    u32 samples;
    u32 epochs;
    u64 list;
    double loss;
    double weight;
};

// Who takes part in a launch.
constexpr u32 STEP = 0;   // slots that are active and not due
constexpr u32 SCORE = 1;  // slots that are due
constexpr u32 ALWAYS = 2; // every slot

// What follows a product, by number.
constexpr u32 IDENTITY = 0;
constexpr u32 RELU = 1;
constexpr u32 TANH = 2;

// Whether a slot sits this launch out.
__device__ __forceinline__ bool idle(const SlotState& state, u32 mode) {
    if (mode == STEP) return state.active == 0 || state.due != 0;
    if (mode == SCORE) return state.due == 0;
    return false;
}

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __bfloat162float(x); }

// To the element type, to nearest even.
template <typename T> __device__ __forceinline__ T round_to(float x);
template <> __device__ __forceinline__ float round_to<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 round_to<bf16>(float x) { return __float2bfloat16_rn(x); }

// Two neighbours as one word: bf16 pairs have the first in the low half.
__device__ __forceinline__ u32 pack(float low, float high) {
    u32 first = __bfloat16_as_ushort(__float2bfloat16_rn(low));
    u32 second = __bfloat16_as_ushort(__float2bfloat16_rn(high));
    return first | (second << 16);
}
__device__ __forceinline__ float low_half(u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// Four neighbours, in one access of 8 or 16 bytes.
__device__ __forceinline__ float4 load4(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ __forceinline__ float4 load4(const bf16* at) {
    uint2 v = *reinterpret_cast<const uint2*>(at);
    return make_float4(low_half(v.x), high_half(v.x), low_half(v.y), high_half(v.y));
}
// The same of what nobody writes in this launch, through the read-only cache.
__device__ __forceinline__ float4 fetch4(const float* at) { return __ldg(reinterpret_cast<const float4*>(at)); }
__device__ __forceinline__ void store4(float* at, float4 v) { *reinterpret_cast<float4*>(at) = v; }
__device__ __forceinline__ void store4(bf16* at, float4 v) {
    *reinterpret_cast<uint2*>(at) = make_uint2(pack(v.x, v.y), pack(v.z, v.w));
}

// `activation(z)`.
__device__ __forceinline__ float activation(float z, u32 act) {
    if (act == RELU) return z < 0.0f ? 0.0f : z; // NaN stays NaN and is seen
    if (act == TANH) return tanhf(z);
    return z;
}

// The derivative at `z`, told from the output: `y > 0`, or `1 - y²`.
__device__ __forceinline__ float slope(float y, u32 act) {
    if (act == RELU) return y > 0.0f ? 1.0f : 0.0f;
    if (act == TANH) return 1.0f - y * y;
    return 1.0f;
}

// Sum over a warp, the same tree always; the result is right in lane 0.
__device__ __forceinline__ double warp_sum(double x) {
    for (u32 step = 16; step > 0; step /= 2) x += __shfl_down_sync(0xffffffffu, x, step);
    return x;
}

// Sum over a block of 256 threads, the same tree always; every thread gets it. All threads of the block must call it.
// `scratch` has 8 places in shared memory and may be used again right after.
__device__ __forceinline__ double block_sum(double mine, double* scratch) {
    mine = warp_sum(mine);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = mine;
    __syncthreads();
    double all = 0.0;
    for (u32 warp = 0; warp < 8; warp++) all += scratch[warp];
    __syncthreads();
    return all;
}

// Sum of `values[i * stride]`, i < n, by a block of 256 threads, in an order that depends on n alone; every thread gets
// it. Nobody may write the values in this launch.
__device__ __forceinline__ double block_sum(const double* values, u32 n, u32 stride, double* scratch) {
    double mine = 0.0;
    for (u32 i = threadIdx.x; i < n; i += 256) mine += __ldg(values + (u64)i * stride);
    return block_sum(mine, scratch);
}
