// What kernels of evolution share: what a member goes by, individuals by their counters, and how accounts are counted.
// The kernels are `evolve.cu`, and `evolve_low_rank.cu` for individuals of low rank on Hopper.
#pragma once

#include "../../../compute/src/population/warp_mlp.cuh"
#include "../../../market/src/episode.cuh"
#include "../ppo/ppo.cuh"

constexpr u32 SLICE = 64;  // draws of a slice
constexpr u32 RATES = 256; // generations whose rates are on the card
constexpr u32 SPAN = 3;    // numbers of a span
constexpr u32 TALLY = 3;   // numbers of a tally
constexpr u32 REPORT = 3;
constexpr u32 NUMBERS = 2; // of a distribution

// What each member goes by, [P].
struct Searches {
    View<const u32> id;
    View<const u32> fold;
    View<u32> unit;           // generations that are done
    View<u32> active;
    View<f32> sigma;          // of all parameters, or what their own deviations are multiplied with
    View<const u32> fitness;  // GROWTH, DRAWDOWN or SHARPE
    View<const f32> penalty;  // of drawdowns
    u64 seed;
    u32 parameters;           // d
    u32 padded;               // d₄
    u32 draws;
    u32 sides;                // individuals of a draw
    u32 individuals;          // draws × sides
    u32 blocks;               // blocks of four numbers of a draw
    u32 accounts;             // N
    u32 steps;                // T
    u32 actions;
    u32 outputs;
    u32 features;             // of the table
    u32 column;               // of what an account is shown: features rounded up to 8
    u32 hidden[2];            // widths of the hidden layers
    u32 act[2];               // and their activations
    u32 rank;                 // of what individuals differ by; 0: all parameters are drawn
    f32 scale;                // 1 / √rank
    u32 seats;                // rows of a tile for the accounts of an individual, where there is a rank
};

// Individuals of a generation by their counters: a block of four numbers of a draw.
__device__ __forceinline__ float4 normals_of(const Searches& search, u32 p, u32 unit, u32 draw, u32 block) {
    return normals(philox(search.seed, make_uint4(draw * search.blocks + block, unit, STREAM_PERTURBATION, search.id[p])));
}

struct Trade {
    EpisodeTable table;
    Searches search;
    View<const f32> middle;    // [P, d₄]
    View<const f32> deviation; // [P, d₄] of each parameter, or none
    View<const u32> spans;     // [P, N, SPAN]
    View<const u16> seen;      // [P, T, N, column]
    View<f64> tallies;         // [P, individuals, N, TALLY]
    View<f64> fitness;         // [P, individuals]
    View<f32> asked;           // [P, individuals, d₄] individuals before they are rounded, where somebody wants them
};

struct Sum {
    Searches search;
    View<const f32> weights; // [P, draws]
    View<f32> parts;         // [P, slices, d₄] Σ weight · normal
    View<f32> squares;       // [P, slices, d₄] Σ weight · normal², where it is wanted
};

// What an account made of its span so far (fitness.rs).
struct Tally {
    f64 grown, squares, below, worst;

    __device__ __forceinline__ void add(f64 growth) {
        grown = __dadd_rn(grown, growth);
        squares = __dadd_rn(squares, __dmul_rn(growth, growth));
        const f64 now = __dsub_rn(below, growth);
        below = now > 0.0 ? now : 0.0;
        worst = below > worst ? below : worst;
    }
    __device__ __forceinline__ void store(const Trade& given, u64 individual, u32 account) const {
        f64* to = &given.tallies[(individual * given.search.accounts + account + 1) * TALLY - 1] - (TALLY - 1);
        to[0] = grown, to[1] = squares, to[2] = worst;
    }
};

// Of an individual, from the tallies of its accounts in order.
__device__ __forceinline__ f64 fitness_of(u32 kind, f32 penalty, const f64* tallies, const u32* spans, u32 accounts) {
    f64 grown = 0.0, squares = 0.0, worst = 0.0;
    u64 steps = 0;
    for (u32 n = 0; n < accounts; n++) {
        grown = __dadd_rn(grown, tallies[n * TALLY]);
        squares = __dadd_rn(squares, tallies[n * TALLY + 1]);
        worst = __dadd_rn(worst, tallies[n * TALLY + 2]);
        steps += spans[n * SPAN + 1];
    }
    const f64 all = (f64)(steps > 0 ? steps : 1);
    if (kind == DRAWDOWN) return account::div(__dsub_rn(grown, __dmul_rn((f64)penalty, worst)), all);
    const f64 mean = account::div(grown, all);
    if (kind == GROWTH) return mean;
    const f64 variance = __dsub_rn(account::div(squares, all), __dmul_rn(mean, mean));
    return account::div(mean, __dsqrt_rn(__dadd_rn(variance > 0.0 ? variance : 0.0, 1e-8)));
}

// Writes it; `individual` counts through all members, whose tallies are there.
__device__ __forceinline__ void store_fitness(const Trade& given, u32 p, u64 individual) {
    const Searches& search = given.search;
    given.fitness[individual] = fitness_of(search.fitness[p], search.penalty[p], given.tallies.data + individual * search.accounts * TALLY,
                                           given.spans.data + (u64)p * search.accounts * SPAN, search.accounts);
}

// Short, flat or long, 0 to 2, whichever outputs prefer: flat where it is as large as another.
__device__ __forceinline__ u32 greedy_action(const f32 (&z)[3], u32 legal) {
    f32 most = z[1];
    u32 action = 1;
    if (is_legal(legal, 0) && z[0] > most) most = z[0], action = 0;
    if (is_legal(legal, 2) && z[2] > most) action = 2;
    return action;
}

// The target that outputs prefer.
__device__ __forceinline__ f64 greedy_target(u32 actions, const f32 (&z)[3], u32 legal) {
    if (actions == CONTINUOUS) return continuous_target(z[0], legal);
    return (f64)greedy_action(z, legal) - 1.0;
}
