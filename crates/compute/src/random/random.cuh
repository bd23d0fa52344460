// Random numbers without state: the device twin of random/mod.rs, normal.rs and permutation.rs, bit for bit.
//
// The counter is {index, step, stream, member}. Arithmetic is spelled with its rounding (__fmul_rn and so on), so that
// the compiler fuses nothing on its own and the bits are those of the Rust twin under any flags.
#pragma once
#include "../cuda/types.cuh"

enum Stream : u32 {
    STREAM_INIT = 0,
    STREAM_SHUFFLE = 1,
    STREAM_NOISE = 2,
    STREAM_DROPOUT = 3,
    STREAM_ACTION = 4,
    STREAM_START = 5,
    STREAM_PERTURBATION = 6,
    STREAM_CHANCE = 7,
};

// Philox4x32-10: four words for a key and a counter.
__device__ __forceinline__ uint4 philox(u64 key, uint4 counter) {
    u32 low = (u32)key, high = (u32)(key >> 32);
    uint4 c = counter;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        u32 left_high = __umulhi(c.x, 0xD2511F53u), left_low = c.x * 0xD2511F53u;
        u32 right_high = __umulhi(c.z, 0xCD9E8D57u), right_low = c.z * 0xCD9E8D57u;
        c = make_uint4(right_high ^ c.y ^ low, right_low, left_high ^ c.w ^ high, left_low);
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return c;
}

// Uniform in [0, 1), from the upper 24 bits.
__device__ __forceinline__ f32 uniform(u32 bits) {
    return __fmul_rn(__uint2float_rn(bits >> 8), 5.9604644775390625e-8f);  // 2^-24
}

// An integer below n, by multiply-high.
__device__ __forceinline__ u32 below(u32 bits, u32 n) { return __umulhi(bits, n); }

// ln x for normal x > 0.
__device__ __forceinline__ f32 random_ln(f32 x) {
    u32 shifted = __float_as_uint(x) - 0x3f3504f3u;
    f32 e = __int2float_rn((i32)shifted >> 23);
    f32 f = __fadd_rn(__uint_as_float((shifted & 0x007fffffu) + 0x3f3504f3u), -1.0f);
    f32 p = __uint_as_float(0x3d8a2bfbu);
    p = __fmaf_rn(p, f, __uint_as_float(0xbdef1df4u));
    p = __fmaf_rn(p, f, __uint_as_float(0x3df37816u));
    p = __fmaf_rn(p, f, __uint_as_float(0xbdfe1105u));
    p = __fmaf_rn(p, f, __uint_as_float(0x3e119bb6u));
    p = __fmaf_rn(p, f, __uint_as_float(0xbe2aae27u));
    p = __fmaf_rn(p, f, __uint_as_float(0x3e4cd25au));
    p = __fmaf_rn(p, f, __uint_as_float(0xbe800003u));
    p = __fmaf_rn(p, f, __uint_as_float(0x3eaaaaa4u));
    f32 square = __fmul_rn(f, f);
    f32 small = __fmaf_rn(square, -0.5f, __fmul_rn(__fmul_rn(square, f), p));
    small = __fmaf_rn(e, -2.1219444e-4f, small);
    return __fmaf_rn(e, 0.693359375f, __fadd_rn(f, small));
}

// Cosine (x) and sine (y) of angle / 2^32 of a full turn.
__device__ __forceinline__ float2 random_cos_sin(u32 angle) {
    u32 quarter = (angle + (1u << 29)) >> 30;
    i32 rest = (i32)(angle - (quarter << 30));
    f32 t = __fmul_rn(__int2float_rn(rest), 1.862645149230957e-9f);  // 2^-29
    f32 z = __fmul_rn(t, t);
    f32 s = __uint_as_float(0x34a5e12bu);
    s = __fmaf_rn(s, z, __uint_as_float(0xb8196543u));
    s = __fmaf_rn(s, z, __uint_as_float(0x3b2335ddu));
    s = __fmaf_rn(s, z, __uint_as_float(0xbda55de7u));
    s = __fmaf_rn(t, __uint_as_float(0x3f490fdbu), __fmul_rn(t, __fmul_rn(z, s)));
    f32 c = __uint_as_float(0x366ccfaau);
    c = __fmaf_rn(c, z, __uint_as_float(0xb9aae275u));
    c = __fmaf_rn(c, z, __uint_as_float(0x3c81e0edu));
    c = __fmaf_rn(c, z, __uint_as_float(0xbe9de9e6u));
    c = __fmaf_rn(c, z, 1.0f);
    f32 x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
    return make_float2(quarter == 1 || quarter == 2 ? -x : x, quarter >= 2 ? -y : y);
}

__device__ __forceinline__ float2 random_pair(u32 radius, u32 angle) {
    f32 u = __fmul_rn(__uint2float_rn(radius | 1u), 2.3283064365386963e-10f);  // 2^-32
    f32 r = __fsqrt_rn(__fmul_rn(-2.0f, random_ln(u)));
    float2 turn = random_cos_sin(angle);
    return make_float2(__fmul_rn(r, turn.x), __fmul_rn(r, turn.y));
}

// Four normals with mean 0 and deviation 1.
__device__ __forceinline__ float4 normals(uint4 bits) {
    float2 a = random_pair(bits.x, bits.y), b = random_pair(bits.z, bits.w);
    return make_float4(a.x, a.y, b.x, b.y);
}

// A bijection of the numbers below n, another for each seed, member and epoch. n is at least 1.
struct Permutation {
    u32 n, half;
    u32 keys[8];

    __device__ __forceinline__ Permutation(u32 count, u64 seed, u32 member, u32 epoch) {
        n = count == 0 ? 1 : count;
        u32 bits = 32 - __clz((i32)(n - 1));
        half = bits < 2 ? 1 : (bits + 1) / 2;
        uint4 a = philox(seed, make_uint4(0, epoch, STREAM_SHUFFLE, member));
        uint4 b = philox(seed, make_uint4(1, epoch, STREAM_SHUFFLE, member));
        keys[0] = a.x, keys[1] = a.y, keys[2] = a.z, keys[3] = a.w;
        keys[4] = b.x, keys[5] = b.y, keys[6] = b.z, keys[7] = b.w;
    }

    // What stands at position i; a position behind the last is taken as the last.
    __device__ __forceinline__ u32 at(u32 i) const {
        u32 x = once(i < n ? i : n - 1);
        while (x >= n) x = once(x);
        return x;
    }

    __device__ __forceinline__ u32 once(u32 x) const {
        u32 left = x >> half, right = x & ((1u << half) - 1);
#pragma unroll
        for (int round = 0; round < 8; ++round) {
            u32 next = left ^ (mix(right, keys[round]) >> (32 - half));
            left = right;
            right = next;
        }
        return left << half | right;
    }

    static __device__ __forceinline__ u32 mix(u32 half, u32 key) {
        u32 x = half * 0x9E3779B1u ^ key;
        x = (x ^ x >> 16) * 0x85EBCA6Bu;
        x = (x ^ x >> 13) * 0xC2B2AE35u;
        return x ^ x >> 16;
    }
};
