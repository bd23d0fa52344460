// What an account is shown of itself, on a card: the twin of show.rs, bit for bit.
#pragma once

#include "step.cuh"

namespace account {

// Numbers that an account is shown of itself.
constexpr u32 SHOWN = 8;

// What it is shown at the close of a bar; `log_to_close` is the logarithm of the bars to a forced close.
__device__ __forceinline__ void show(const Params& params, const Account& held, const Bar& bar, f32 time_of_day,
                                     f32 log_to_close, f32 (&to)[SHOWN]) {
    const f64 unit = mul(params.multiplier, bar.close, bar.fx_close);
    const f64 equity = held.equity > 0.0 ? held.equity : infinite();
    const f64 position = div(mul(held.quantity, unit), equity);
    const f64 pending = div(mul(sub(held.target, held.quantity), unit), equity);
    f64 unrealised = 0.0;
    if (held.quantity != 0.0) {
        const f64 moved = held.entry > 0.0 ? sub(div(bar.close, held.entry), 1.0) : 0.0;
        const f64 deviation = mul(bar.sigma, __dsqrt_rn(held.bars_held));
        if (deviation > 0.0) unrealised = div(held.quantity > 0.0 ? moved : -moved, deviation);
        unrealised = unrealised < -10.0 ? -10.0 : unrealised > 10.0 ? 10.0 : unrealised;
    }
    to[0] = __double2float_rn(position);
    to[1] = __double2float_rn(pending);
    to[2] = __double2float_rn(unrealised);
    to[3] = __double2float_rn(ln_1p(held.bars_held));
    to[4] = __double2float_rn(sub(1.0, div(held.equity, held.peak)));
    to[5] = __double2float_rn(div(absolute(position), params.leverage));
    to[6] = time_of_day;
    to[7] = log_to_close;
}

} // namespace account
