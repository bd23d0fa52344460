// The card's words for a program of the processor: rounded arithmetic as plain operations, numbers side by side as plain
// structs. What includes it must be compiled without contraction (`-ffp-contract=off`).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __device__
#define __forceinline__ inline

struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct double2 {
    double x, y;
};
struct uint4 {
    unsigned int x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }

template <typename To, typename From> static inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double x) { return std::sqrt(x); }
static inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fsqrt_rn(float x) { return std::sqrt(x); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __double2float_rn(double x) { return (float)x; }
static inline float __uint2float_rn(unsigned int x) { return (float)x; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
static inline double __longlong_as_double(long long bits) { return bits_as<double>(bits); }
static inline unsigned int __float_as_uint(float x) { return bits_as<unsigned int>(x); }
static inline float __uint_as_float(unsigned int bits) { return bits_as<float>(bits); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned int)((std::uint64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline double2 __ldg(const double2* at) { return *at; }
[[noreturn]] static inline void __trap() { std::abort(); }
