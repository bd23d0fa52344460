// The kernels of the twin's tests: a thread walks an account or a portfolio over all its steps.
// registers: 255

#include "../../../compute/src/cuda/view.cuh"
#include "walk.cuh"

// Accounts; shapes are those of `walk_account`.
struct Walk {
    View<const f64> params;
    View<const f64> bars;
    View<const f64> actions;
    View<f64> state;
    View<f64> rewards;
    View<u64> digests;
    u64 n;
    u64 steps;
};

// Portfolios; shapes are those of `walk_portfolio`.
struct WalkPortfolios {
    View<const f64> params;
    View<const f64> bars;
    View<const f64> targets;
    View<f64> common;
    View<f64> positions;
    View<f64> rewards;
    View<u64> digests;
    u64 n;
    u64 symbols;
    u64 steps;
};

template <bool WITH_FLOWS, bool WITH_BRACKETS> __device__ __forceinline__ void walk_one(const Walk& given) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= given.n) return;
    const u64 fields = WITH_FLOWS ? STATE + FLOWS : STATE;
    if (given.params.len < given.n * PARAMS || given.bars.len < given.n * (given.steps + 1) * BAR ||
        given.actions.len < given.steps * given.n * 3 || given.state.len < fields * given.n ||
        given.rewards.len < given.steps * given.n || given.digests.len < given.steps * given.n) {
        __trap();
    }
    walk_account<WITH_FLOWS, WITH_BRACKETS>(given.params.data, given.bars.data, given.actions.data, given.state.data,
                                            given.rewards.data, given.digests.data, given.n, given.steps, i);
}

__global__ void walk(const Walk given) { walk_one<true, true>(given); }

// As an environment needs it: targets alone, and nobody asks what was paid for what.
__global__ void walk_lean(const Walk given) { walk_one<false, false>(given); }

__global__ void walk_portfolios(const WalkPortfolios given) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= given.n) return;
    const u64 rows = given.n * given.symbols;
    if (given.params.len < rows * PARAMS || given.bars.len < given.steps * given.symbols * 2 * BAR ||
        given.targets.len < given.steps * rows || given.common.len < PORTFOLIO * given.n ||
        given.positions.len < POSITION_FLOWS * rows || given.rewards.len < given.steps * given.n ||
        given.digests.len < given.steps * given.n) {
        __trap();
    }
    walk_portfolio<true>(given.params.data, given.bars.data, given.targets.data, given.common.data,
                         given.positions.data, given.rewards.data, given.digests.data, given.n, given.symbols,
                         given.steps, i);
}
