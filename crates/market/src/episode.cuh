// Accounts that live through episodes, on a card: the twin of environment.rs and observation.rs, bit for bit.
#pragma once

#include "../../account/src/step.cuh"
#include "../../compute/src/cuda/view.cuh"
#include "../../compute/src/random/random.cuh"

// Numbers that an account is shown of itself.
constexpr u32 OBSERVED = 8;

// What episodes are played on.
struct EpisodeTable {
    View<const f64> bars;          // [rows, account::BAR]
    View<const f64> params;        // [symbols, account::PARAMS]
    View<const u32> offsets;       // [symbols + 1] the first row of each
    View<const f32> time_of_day;   // [rows]
    View<const f32> log_to_close;  // [rows] logarithm of the bars to a forced close
    View<const u32> stretch_from;  // [stretches of all folds] first row
    View<const u32> stretch_to;    // and the row behind the last
    View<const u64> starts;        // how many starts there are up to each, within its fold
    View<const u32> folds;         // [folds, 2] a fold's stretches: first, and behind the last
};

__device__ __forceinline__ account::Bar bar_at(const EpisodeTable& table, u32 row) {
    if (((u64)row + 1) * account::BAR > table.bars.len) __trap();
    return account::load_bar(table.bars.data, row);
}

__device__ __forceinline__ const account::Params& params_of(const EpisodeTable& table, u32 symbol) {
    if (((u64)symbol + 1) * account::PARAMS > table.params.len) __trap();
    return account::params_at(table.params.data, symbol);
}

// The first of `n` ascending numbers from `at` on that is above x.
template <typename T> __device__ __forceinline__ u32 first_above(const View<const T>& numbers, u32 at, u32 n, u64 x) {
    u32 low = 0, high = n;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if ((u64)numbers[at + middle] <= x) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The symbol that a row is of.
__device__ __forceinline__ u32 symbol_of(const EpisodeTable& table, u32 row) {
    return first_above(table.offsets, 0, (u32)table.offsets.len, row) - 1;
}

// Where an account is in its episode.
struct Place {
    u32 row;     // at whose close it decides
    u32 end;     // the row behind the last that its episode reaches
    u32 symbol;
    u32 episode; // episodes that it has begun
};

// Starts the next episode of an account: a function of seed, account and episode.
__device__ __forceinline__ void begin_episode(const EpisodeTable& table, u32 fold, u32 length, u64 seed, u32 number, Place& place,
                                              account::Account& held) {
    const uint4 bits = philox(seed, make_uint4(number, place.episode, 0, 0x45504953u));
    place.episode++;
    const u32 first = table.folds[2 * fold], count = table.folds[2 * fold + 1] - first;
    const u64 all = table.starts[first + count - 1];
    const u64 at = __umul64hi((u64)bits.x | (u64)bits.y << 32, all);
    const u32 own = first_above(table.starts, first, count, at);
    const u64 before = own == 0 ? 0 : table.starts[first + own - 1];
    place.row = table.stretch_from[first + own] + (u32)(at - before);
    const u32 end = table.stretch_to[first + own];
    const u64 reach = (u64)place.row + length + 1;
    place.end = reach < end ? (u32)reach : end;
    place.symbol = symbol_of(table, place.row);
    held = account::new_account(params_of(table, place.symbol));
}

// Which of short, flat and long are legal at the close of a bar, as bits; flat always is.
__device__ __forceinline__ u32 legal_sides(const account::Params& params, const account::Bar& bar) {
    const bool open = bar.flat_next == 0.0;
    return (params.shortable != 0.0 && open ? 1u : 0u) | 2u | (open ? 4u : 0u);
}

// What an account is shown at the close of a row.
__device__ __forceinline__ void observe(const EpisodeTable& table, const account::Params& params, const account::Bar& bar,
                                        const account::Account& held, u32 row, f32 (&to)[OBSERVED]) {
    const f64 unit = __dmul_rn(__dmul_rn(params.multiplier, bar.close), bar.fx_close);
    const f64 equity = held.equity > 0.0 ? held.equity : __longlong_as_double(0x7ff0000000000000ll);
    const f64 position = account::div(__dmul_rn(held.quantity, unit), equity);
    const f64 pending = account::div(__dmul_rn(__dsub_rn(held.target, held.quantity), unit), equity);
    f64 unrealised = 0.0;
    if (held.quantity != 0.0) {
        const f64 moved = held.entry > 0.0 ? __dsub_rn(account::div(bar.close, held.entry), 1.0) : 0.0;
        const f64 deviation = __dmul_rn(bar.sigma, __dsqrt_rn(held.bars_held));
        if (deviation > 0.0) unrealised = account::div(held.quantity > 0.0 ? moved : -moved, deviation);
        unrealised = unrealised < -10.0 ? -10.0 : unrealised > 10.0 ? 10.0 : unrealised;
    }
    to[0] = __double2float_rn(position);
    to[1] = __double2float_rn(pending);
    to[2] = __double2float_rn(unrealised);
    to[3] = __double2float_rn(account::ln_1p(held.bars_held));
    to[4] = __double2float_rn(__dsub_rn(1.0, account::div(held.equity, held.peak)));
    to[5] = __double2float_rn(account::div(position < 0.0 ? -position : position, params.leverage));
    to[6] = table.time_of_day[row];
    to[7] = table.log_to_close[row];
}
