// What actions, rewards and losses of policies are on a card: the twin of maths.rs, loss.rs, reward.rs and of what
// collect.rs draws. Arithmetic is spelled with its rounding, so equal outputs of a net give the bits of the Rust twin.
#pragma once

#include "../../../account/src/step.cuh"
#include "../../../compute/src/random/random.cuh"

// What an action is.
constexpr u32 DISCRETE = 0;   // short, flat, long: three outputs
constexpr u32 CONTINUOUS = 1; // mean and logarithm of the deviation: two outputs

// How an episode went on behind a step, as `Ended` has it.
constexpr u32 NOT_ENDED = 0;
constexpr u32 TERMINATED = 1;
constexpr u32 TRUNCATED = 2;

// What a step is worth.
constexpr u32 GROWTH = 0;
constexpr u32 DRAWDOWN = 1;
constexpr u32 SHARPE = 2;

// e^x, for x up to 80; less than -80 is taken as -80. NaN stays NaN.
__device__ __forceinline__ f32 policy_exp(f32 x) {
    x = x < -80.0f ? -80.0f : x > 80.0f ? 80.0f : x;
    const f32 n = rintf(__fmul_rn(x, __uint_as_float(0x3fb8aa3bu)));
    const f32 r = __fmaf_rn(n, __uint_as_float(0x395e8083u), __fmaf_rn(n, __uint_as_float(0xbf318000u), x));
    f32 p = __uint_as_float(0x3ab60b61u);
    p = __fmaf_rn(p, r, __uint_as_float(0x3c088889u));
    p = __fmaf_rn(p, r, __uint_as_float(0x3d2aaaabu));
    p = __fmaf_rn(p, r, __uint_as_float(0x3e2aaaabu));
    p = __fmaf_rn(p, r, 0.5f);
    p = __fmaf_rn(p, r, 1.0f);
    p = __fmaf_rn(p, r, 1.0f);
    return __fmul_rn(p, __uint_as_float((u32)(__float2int_rz(n) + 127) << 23));
}

__device__ __forceinline__ f32 policy_tanh(f32 x) {
    const f32 e = policy_exp(__fmul_rn(-2.0f, fabsf(x)));
    return copysignf(__fdiv_rn(__fsub_rn(1.0f, e), __fadd_rn(1.0f, e)), x);
}

__device__ __forceinline__ bool is_legal(u32 legal, u32 a) { return (legal >> a & 1) == 1; }

// Probabilities of three actions, 0 for those that are not legal (bits: 1 short, 2 flat, 4 long); and their logarithms.
struct Softmax {
    f32 p[3], log[3];

    __device__ __forceinline__ Softmax(const f32 (&z)[3], u32 legal) {
        f32 most = __uint_as_float(0xff800000u);
#pragma unroll
        for (u32 a = 0; a < 3; a++)
            if (is_legal(legal, a)) most = fmaxf(most, z[a]);
#pragma unroll
        for (u32 a = 0; a < 3; a++) p[a] = is_legal(legal, a) ? policy_exp(__fsub_rn(z[a], most)) : 0.0f;
        const f32 sum = __fadd_rn(__fadd_rn(p[0], p[1]), p[2]), whole = random_ln(sum);
#pragma unroll
        for (u32 a = 0; a < 3; a++) {
            log[a] = is_legal(legal, a) ? __fsub_rn(__fsub_rn(z[a], most), whole) : 0.0f;
            p[a] = __fdiv_rn(p[a], sum);
        }
    }
};

constexpr f32 HALF_LN_TAU = 0.9189385f;

__device__ __forceinline__ f32 limited_log_deviation(f32 z) { return z < -5.0f ? -5.0f : z > 1.0f ? 1.0f : z; }

// The logarithm of the density of a target whose value before squashing is `u`.
__device__ __forceinline__ f32 log_density(const f32 (&z)[3], f32 u) {
    const f32 log_deviation = limited_log_deviation(z[1]);
    const f32 away = __fmul_rn(__fsub_rn(u, z[0]), policy_exp(-log_deviation)), squashed = policy_tanh(u);
    const f32 room = fmaxf(__fsub_rn(1.0f, __fmul_rn(squashed, squashed)), 1e-6f);
    const f32 bell = __fsub_rn(__fsub_rn(__fmul_rn(__fmul_rn(-0.5f, away), away), log_deviation), HALF_LN_TAU);
    return __fsub_rn(bell, random_ln(room));
}

// What a continuous action means where not everything is legal.
__device__ __forceinline__ f64 continuous_target(f32 u, u32 legal) {
    const f64 target = (f64)policy_tanh(u);
    const bool low = is_legal(legal, 0), high = is_legal(legal, 2);
    if (low && high) return target;
    if (high) return target > 0.0 ? target : 0.0;
    if (low) return target < 0.0 ? target : 0.0;
    return 0.0;
}

// An action, the logarithm of its probability, and the target it means.
struct Sampled {
    f32 action, log_probability;
    f64 target;
};

__device__ __forceinline__ Sampled sample_action(u32 actions, const f32 (&z)[3], u32 legal, uint4 bits) {
    if (actions == CONTINUOUS) {
        const f32 u = __fmaf_rn(normals(bits).x, policy_exp(limited_log_deviation(z[1])), z[0]);
        return {u, log_density(z, u), continuous_target(u, legal)};
    }
    const Softmax policy(z, legal);
    const f32 drawn = uniform(bits.x);
    u32 action = 1, found = 0;
#pragma unroll
    for (u32 a = 0; a < 3; a++)
        if (policy.p[a] > 0.0f) action = a;
    f32 sum = 0.0f;
#pragma unroll
    for (u32 a = 0; a < 3; a++) {
        sum = __fadd_rn(sum, policy.p[a]);
        if (!found && policy.p[a] > 0.0f && drawn < sum) action = a, found = 1;
    }
    const f32 log_probability = action == 0 ? policy.log[0] : action == 1 ? policy.log[1] : policy.log[2];
    return {(f32)action, log_probability, (f64)action - 1.0};
}

// The target that a policy prefers: flat where it is as probable as another.
__device__ __forceinline__ f64 preferred_target(u32 actions, const f32 (&z)[3], u32 legal) {
    if (actions == CONTINUOUS) return continuous_target(z[0], legal);
    const Softmax policy(z, legal);
    f32 most = policy.p[1];
    f64 target = 0.0;
    if (policy.p[0] > most) most = policy.p[0], target = -1.0;
    if (policy.p[2] > most) target = 1.0;
    return target;
}

// What the reward remembers of an episode, and the reward of a step in which the logarithm of equity grew by `growth`.
__device__ __forceinline__ f64 sharpe_of(f64 a, f64 b) {
    const f64 variance = __dsub_rn(__dadd_rn(b, 1e-6), __dmul_rn(a, a)), least = 1e-6 * 1e-3;
    return account::div(a, __dsqrt_rn(variance > least ? variance : least));
}

__device__ __forceinline__ f64 reward_of(u32 kind, f32 weight, f64& a, f64& b, f64 growth) {
    if (kind == DRAWDOWN) {
        const f64 below = __dsub_rn(a, growth);
        a = below > 0.0 ? below : 0.0;
        const f64 further = __dsub_rn(a, b), worse = further > 0.0 ? further : 0.0;
        b = __dadd_rn(b, worse);
        return __dsub_rn(growth, __dmul_rn((f64)weight, worse));
    }
    if (kind == SHARPE) {
        const f64 before = sharpe_of(a, b);
        a = __dadd_rn(a, __dmul_rn(0.01, __dsub_rn(growth, a)));
        b = __dadd_rn(b, __dmul_rn(0.01, __dsub_rn(__dsub_rn(__dmul_rn(growth, growth), 1e-6), b)));
        return account::div(__dsub_rn(sharpe_of(a, b), before), 0.01);
    }
    return growth;
}

// A row of a rollout, as the losses want it.
struct Taken {
    f32 action, log_probability, advantage;
    u32 legal;
};

// What was seen in the losses of a row.
struct Losses {
    f32 policy, value, entropy, kl, clipped;
};

// The policy's part of one row: `d` becomes the gradient of `surrogate - weight · entropy` at the outputs `z`.
__device__ __forceinline__ void policy_loss(u32 actions, f32 clip, f32 entropy_weight, f32 rows, const f32 (&z)[3], const Taken& taken,
                                            f32 (&d)[3], Losses& seen) {
    const u32 legal = taken.legal;
    if (actions == CONTINUOUS) {
        const f32 log_deviation = limited_log_deviation(z[1]);
        const f32 log_ratio = __fsub_rn(log_density(z, taken.action), taken.log_probability);
        const f32 ratio = policy_exp(log_ratio > 20.0f ? 20.0f : log_ratio);
        const f32 held_ratio = ratio < 1.0f - clip ? 1.0f - clip : ratio > 1.0f + clip ? 1.0f + clip : ratio;
        const f32 free = __fmul_rn(ratio, taken.advantage), held = __fmul_rn(held_ratio, taken.advantage);
        seen.policy = -(free < held ? free : held);
        seen.kl = __fsub_rn(__fsub_rn(ratio, 1.0f), log_ratio);
        seen.clipped = fabsf(__fsub_rn(ratio, 1.0f)) > clip ? 1.0f : 0.0f;
        const f32 slope = free <= held ? -free : 0.0f;
        const f32 inverse = policy_exp(-log_deviation), away = __fmul_rn(__fsub_rn(taken.action, z[0]), inverse);
        seen.entropy = __fadd_rn(__fadd_rn(log_deviation, HALF_LN_TAU), 0.5f);
        d[0] = __fdiv_rn(__fmul_rn(__fmul_rn(slope, away), inverse), rows);
        const f32 wide = __fsub_rn(__fmul_rn(slope, __fsub_rn(__fmul_rn(away, away), 1.0f)), entropy_weight);
        const f32 own = __fdiv_rn(wide, rows);
        // Outside of its limits an output comes back, and goes no further.
        const bool outwards = (z[1] < log_deviation && own > 0.0f) || (z[1] > log_deviation && own < 0.0f);
        d[1] = outwards ? 0.0f : own;
        d[2] = 0.0f;
        return;
    }
    const Softmax policy(z, legal);
    const u32 action = (u32)taken.action;
    const f32 log = action == 0 ? policy.log[0] : action == 1 ? policy.log[1] : policy.log[2];
    const f32 log_ratio = __fsub_rn(log, taken.log_probability), ratio = policy_exp(log_ratio > 20.0f ? 20.0f : log_ratio);
    const f32 held_ratio = ratio < 1.0f - clip ? 1.0f - clip : ratio > 1.0f + clip ? 1.0f + clip : ratio;
    const f32 free = __fmul_rn(ratio, taken.advantage), held = __fmul_rn(held_ratio, taken.advantage);
    seen.policy = -(free < held ? free : held);
    seen.kl = __fsub_rn(__fsub_rn(ratio, 1.0f), log_ratio);
    seen.clipped = fabsf(__fsub_rn(ratio, 1.0f)) > clip ? 1.0f : 0.0f;
    // Where the clipped form is the smaller one, nothing moves it.
    const f32 slope = free <= held ? -free : 0.0f;
    const f32 part = __fadd_rn(__fadd_rn(__fmul_rn(policy.p[0], policy.log[0]), __fmul_rn(policy.p[1], policy.log[1])),
                               __fmul_rn(policy.p[2], policy.log[2]));
    const f32 entropy = -part;
    const u32 choices = __popc(legal & 7);
    // ln 2 and ln 3, as `random_ln` gives them.
    const f32 possible = choices == 3 ? random_ln(3.0f) : random_ln(2.0f);
    seen.entropy = choices > 1 ? __fdiv_rn(entropy, possible) : 1.0f;
    // A numerator of zero would take the division's slow path.
    const f32 scale = choices > 1 && entropy_weight != 0.0f ? __fdiv_rn(entropy_weight, possible) : 0.0f;
#pragma unroll
    for (u32 a = 0; a < 3; a++) {
        const f32 chosen = a == action ? 1.0f : 0.0f;
        const f32 to_entropy = __fmul_rn(__fmul_rn(scale, policy.p[a]), __fadd_rn(policy.log[a], entropy));
        const f32 whole = __fadd_rn(__fmul_rn(slope, __fsub_rn(chosen, policy.p[a])), to_entropy);
        d[a] = is_legal(legal, a) ? __fdiv_rn(whole, rows) : 0.0f;
    }
}

// The value's part of one row: the gradient of `weight · error²` at the value. A negative clip is none.
__device__ __forceinline__ f32 value_loss(f32 clip, f32 weight, f32 rows, f32 value, f32 old, f32 wanted, Losses& seen) {
    const f32 moved = __fsub_rn(value, old);
    const bool held = clip >= 0.0f && fabsf(moved) > clip;
    const f32 limited = !held ? value : __fadd_rn(old, moved < 0.0f ? -clip : clip);
    const f32 error = __fsub_rn(limited, wanted);
    seen.value = __fmul_rn(error, error);
    return held ? 0.0f : __fdiv_rn(__fmul_rn(__fmul_rn(2.0f, weight), error), rows);
}
