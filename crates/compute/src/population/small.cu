// A whole small net in one kernel: gather, forward, loss, backward and weight gradients of a slice of a member's batch;
// and logits alone.
//
// For nets with one input, up to 4 layers with their head, widths up to 256, in bf16. Same rules as population.cu: a
// slot axis, `mode` says who takes part, no float atomics, every sum in an order that depends on shapes and the batch
// alone.
//
// A block of `small_*` has a slice of a member's rows and walks it in tiles of R rows; its gradient goes to its own
// part of `partial`, laid out like a row of the arena, and `add_parts` adds the parts in order. How many rows a tile
// has changes no bit, so it is chosen by the shared memory there is. Gaps of the arena and padding are zero in
// `partial` and stay so.
//
// | kernel          | block | grid                                | dynamic shared                                              |
// |-----------------|-------|-------------------------------------|-------------------------------------------------------------|
// | small_128       | 256   | [blocks, S], blocks = ceil(B / slice) | 128 × (2 × (Σ inputs + 32) + 20) + 256, inputs padded to 32 |
// | small_64        | 256   | the same                            | the same with 64                                            |
// | small_32        | 256   | the same                            | the same with 32                                            |
// | small_logits_32 | 256   | [ceil(B / 32), S]                   | 32 × (4 × widest + 4), padded to 32                         |
//
// slice is a multiple of 128. One argument, a `Small` by value. Heads have at most 32 classes, but for logits.
// registers: 224

#include "small_net.cuh"

template <u32 R, u32 ROWS, u32 DEPTH, u32 WARPS> __device__ __forceinline__ void whole(const Small& p) {
    constexpr u32 THREADS = WARPS * 32;
    const u32 slot = blockIdx.y, warp = own_warp(), lane = threadIdx.x % 32;
    const SlotState& state = p.states[slot];
    if (idle(state, p.mode)) return;
    const bool step = p.mode == STEP;
    const u32 last = p.layers - 1;

    // Tiles: the input of each layer, then the gradient at the logits; then what is known of rows.
    u32 end_of_tiles = 0;
#pragma unroll 1
    for (u32 l = 0; l < p.layers; l++) end_of_tiles += R * pieces_of(p.layer[l].inputs) * 16;
    const Tile dlogits = {end_of_tiles, 4};
    Known known;
    known.lost = reinterpret_cast<double*>(shared_memory + behind(dlogits, R));
    known.weight = reinterpret_cast<float*>(known.lost + R);
    known.start = reinterpret_cast<u32*>(known.weight + R);
    known.label = known.start + R;
    known.counts = known.label + R;
    for (u32 i = threadIdx.x; i < R * 4; i += THREADS) reinterpret_cast<uint4*>(shared_memory + dlogits.at)[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x < 64) known.counts[threadIdx.x] = 0;

    float* partial = p.partial + ((u64)slot * gridDim.x + blockIdx.x) * p.params;
    const u32 begin = blockIdx.x * p.slice, end = begin + p.slice < p.batch ? begin + p.slice : p.batch;
    double lost = 0.0, weighed = 0.0; // of warp 0: rows lane, lane + 32, ... of the slice
#pragma unroll 1
    for (u32 base = begin; base < end; base += R) {
        const Tile x = {0, pieces_of(p.layer[0].inputs)};
        const u32 own = fresh(slot);
        const bf16* copy = p.copy + own * p.params;
        // Labels and weights are on their way while rows are gathered.
        u32 label = 0x80000000u;
        float weight = 0.0f;
        if (threadIdx.x < R) {
            const Found found = find(p, state, p.epochs + slot, slot, base + threadIdx.x, end);
            known.start[threadIdx.x] = found.start;
            if (found.start != NOBODY) {
                label = p.labels[found.row];
                weight = p.weights ? p.weights[found.row] : 1.0f;
            }
        }
        __syncthreads();
        gather_tile<THREADS>(p, fresh(state.index), known.start, x, R);
        if (threadIdx.x < R) {
            if (p.class_weights && label < p.classes) weight = __fmul_rn(weight, p.class_weights[(u64)state.index * p.classes + label]);
            known.label[threadIdx.x] = label;
            known.weight[threadIdx.x] = weight;
        }
        Tile h = x;
#pragma unroll 1
        for (u32 l = 0; l < last; l++) {
            const SmallLayer& layer = p.layer[l];
            const Tile out = {behind(h, R), pieces_of(layer.outputs)};
            const Weights w = {copy + layer.weight, layer.outputs, layer.inputs / 8};
            forward_layer<ROWS, DEPTH, WARPS>(w, copy + layer.bias, layer.inputs, layer.outputs, layer.act, h, out, R);
            h = out;
        }
        const SmallLayer& top = p.layer[last];
        const float* bias = p.master + own * p.params + top.bias;
        const Weights at_top = {copy + top.weight, top.outputs, top.inputs / 8};
        if (p.classes <= 8) head<1, WARPS>(p, own, top, at_top, bias, h, dlogits, known, R);
        else head<4, WARPS>(p, own, top, at_top, bias, h, dlogits, known, R);
        __syncthreads();
        if (warp == 0)
            for (u32 row = lane; row < R; row += 32) lost += known.lost[row], weighed += (double)known.weight[row];

        if (step) {
            Tile dz = dlogits, y = h;
#pragma unroll 1
            for (u32 l = last;; l--) {
                const SmallLayer& layer = p.layer[l];
                weight_gradient<WARPS, 2>(dz, y, layer.inputs, layer.outputs, R, partial + layer.weight, partial + layer.bias, base != begin);
                if (l == 0) break;
                const SmallLayer& before = p.layer[l - 1];
                const Weights w = {copy + layer.weight, layer.outputs, layer.inputs / 8};
                backward_layer<ROWS, DEPTH, WARPS>(w, layer.inputs, layer.outputs, before.act, dz, y, R);
                __syncthreads();
                const u32 pieces = pieces_of(before.inputs);
                dz = y;
                y = {y.at - R * pieces * 16, pieces};
            }
        }
        __syncthreads();
    }
    if (warp == 0) {
        lost = warp_sum(lost), weighed = warp_sum(weighed);
        if (lane == 0) {
            double* to = p.loss_partial + ((u64)slot * gridDim.x + blockIdx.x) * 2;
            to[0] = lost, to[1] = weighed;
        }
    }
    if (p.mode == SCORE && p.classes <= 8 && threadIdx.x < p.classes * p.classes && known.counts[threadIdx.x] > 0)
        atomicAdd(&p.confusion[(u64)slot * p.classes * p.classes + threadIdx.x], (u64)known.counts[threadIdx.x]);
}

// The last layer of a net of which only the logits are wanted: f32, without bias.
template <u32 ROWS, u32 DEPTH, u32 WARPS>
__device__ __forceinline__ void logits_layer(const Weights& w, const SmallLayer& layer, const Tile& x, u32 rows, float* __restrict__ logits,
                                             u32 left) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 down = rows / (16 * ROWS), tasks = down * ((layer.outputs + 31) / 32), blocks = (layer.inputs + 31) / 32;
    Ahead<false, 4, DEPTH> ahead;
    ahead.start(w, warp / down * 32, blocks);
    __syncthreads();
#pragma unroll 1
    for (u32 task = warp; task < tasks; task += WARPS) {
        const u32 row = task % down * 16 * ROWS, column = task / down * 32;
        if (task != warp) ahead.start(w, column, blocks);
        float sum[ROWS][4][4] = {};
        ahead.multiply(sum, x, row, w, column, blocks);
#pragma unroll
        for (u32 i = 0; i < ROWS * 2; i++) {
            const u32 b = row + i * 8 + g;
            if (b >= left) continue;
            float* to = logits + b * layer.outputs + column + t * 2;
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                if (column + j * 8 < layer.outputs)
                    *reinterpret_cast<float2*>(to + j * 8) = make_float2(sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]);
        }
    }
}

template <u32 R, u32 DEPTH, u32 WARPS> __device__ __forceinline__ void only_logits(const Small& p) {
    const u32 slot = blockIdx.y, begin = blockIdx.x * R;
    const SlotState& state = p.states[slot];
    if (idle(state, p.mode)) return;
    u32 widest = 0;
#pragma unroll 1
    for (u32 l = 0; l < p.layers; l++) {
        const u32 pieces = pieces_of(p.layer[l].inputs);
        widest = pieces > widest ? pieces : widest;
    }
    const u32 other = R * widest * 16;
    u32* starts = reinterpret_cast<u32*>(shared_memory + 2 * other);
    Tile h = {0, pieces_of(p.layer[0].inputs)};
    if (threadIdx.x < R) starts[threadIdx.x] = find(p, state, p.epochs + slot, slot, begin + threadIdx.x, p.batch).start;
    __syncthreads();
    gather_tile<WARPS * 32>(p, state.index, starts, h, R);
    const bf16* copy = p.copy + slot * p.params;
    const u32 last = p.layers - 1;
#pragma unroll 1
    for (u32 l = 0; l < last; l++) {
        const SmallLayer& layer = p.layer[l];
        const Tile out = {l % 2 ? 0 : other, pieces_of(layer.outputs)};
        const Weights w = {copy + layer.weight, layer.outputs, layer.inputs / 8};
        // Enough work for all warps comes first; then weights are to be read by as few as possible.
        if (layer.outputs >= WARPS * 32)
            forward_layer<R / 16, DEPTH, WARPS>(w, copy + layer.bias, layer.inputs, layer.outputs, layer.act, h, out, R);
        else forward_layer<1, DEPTH, WARPS>(w, copy + layer.bias, layer.inputs, layer.outputs, layer.act, h, out, R);
        h = out;
    }
    const SmallLayer& layer = p.layer[last];
    const Weights w = {copy + layer.weight, layer.outputs, layer.inputs / 8};
    float* logits = p.logits + ((u64)slot * p.batch + begin) * layer.outputs;
    if (layer.outputs >= WARPS * 32) logits_layer<R / 16, DEPTH, WARPS>(w, layer, h, R, logits, p.batch - begin);
    else logits_layer<1, DEPTH, WARPS>(w, layer, h, R, logits, p.batch - begin);
}

extern "C" __global__ void __launch_bounds__(256, 1) small_128(const __grid_constant__ Small p) { whole<128, 4, 2, 8>(p); }
extern "C" __global__ void __launch_bounds__(256, 1) small_64(const __grid_constant__ Small p) { whole<64, 2, 2, 8>(p); }
extern "C" __global__ void __launch_bounds__(256, 1) small_32(const __grid_constant__ Small p) { whole<32, 1, 2, 8>(p); }
extern "C" __global__ void __launch_bounds__(256, 1) small_logits_32(const __grid_constant__ Small p) { only_logits<32, 2, 8>(p); }
