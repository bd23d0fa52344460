// Whole training steps of a small net in one kernel, for cards whose blocks form clusters: gather, forward, loss,
// backward, norm, optimiser and the state after it, step after step until the member is due. `small.cu` with
// `add_parts` and `optimise` does the same in three kernels a step on every card, to the same bits.
//
// A cluster is a member, a block of it 128 rows of the batch. At the beginning of a step weights are copied into shared
// memory while rows are gathered. Each block leaves its part of the gradient in `partial` (it stays in the second-level
// cache). Then every block takes its share of the arena, pieces of 1024 elements in turn: it adds the parts in order,
// and their squares; blocks tell each other the sums of their pieces through shared memory, every one of them adds all
// in the same order, and decides and adapts by itself. The first `resident` pieces of a block stay in shared memory
// from step to step; of the others, what the optimiser needs comes into the memory that the net no longer uses while
// blocks wait for each other. The rows of the next step are looked up, and asked for, by warps that have no rows at the
// head. All sums are in the order of `add_parts` and `conclude`.
//
// | kernel     | block | cluster   | grid                                 | dynamic shared                    |
// |------------|-------|-----------|--------------------------------------|-----------------------------------|
// | small_step | 512   | [C, 1, 1] | [C, S], C = ceil(B / 128), at most 8 | as `Stepped` in small.rs has it   |
//
// One argument, a `Training` by value. Heads have at most 32 classes; the arena's row at most 256 × 1024 elements.
// targets: 90
// registers: 128

#include "optimiser.cuh"
#include "small_cluster.cuh"
#include "small_net.cuh"
#include "small_resident.cuh"

struct Training {
    Small net;
    SlotState* states;
    EpochState* epochs;
    float* master;
    float* mean;
    float* square;
    float* grads;
    bf16* copy;
    u32 steps;
    u32 resident;    // pieces of the arena that a block has in shared memory all the time
    u32 kept;        // and while it optimises
    u32 resident_at; // byte where the first begin
    Optimiser o;
};

constexpr u32 R = 128, WARPS = 16, THREADS = WARPS * 32, SIDES = THREADS / 256;
constexpr u32 PIECE = 1024;           // elements of the arena, four for each of 256 threads
constexpr u32 ONE = PIECE * 4;        // bytes of a piece of one array
constexpr u32 LOOKED = R * 12;        // bytes of what is known of rows before they are gathered
// Bytes in shared memory: [256] sums of squares of pieces, [8, 2] loss and weight of blocks, the order, the state of
// the slot, [2] those of the epoch before and after a step, twice what is known of rows, and [own pieces, 8] sums of
// warps.
constexpr u32 AT_LOSSES = 2048, AT_ORDER = AT_LOSSES + 128, AT_STATE = AT_ORDER + 32, AT_EPOCH = AT_STATE + 40, AT_LOOKED = AT_EPOCH + 80,
              AT_PARTS = AT_LOOKED + 2 * LOOKED;

// 16 bytes that another block may have written, past the first-level cache.
__device__ __forceinline__ float4 load_new(const float* at) { return __ldcg(reinterpret_cast<const float4*>(at)); }
__device__ __forceinline__ float4& four_at(u32 place) { return *reinterpret_cast<float4*>(shared_memory + place); }
__device__ __forceinline__ SlotState& state_here() { return *reinterpret_cast<SlotState*>(shared_memory + AT_STATE); }
__device__ __forceinline__ EpochState& epoch_at(u32 turn) { return reinterpret_cast<EpochState*>(shared_memory + AT_EPOCH)[turn]; }
__device__ __forceinline__ Order& order_here() { return *reinterpret_cast<Order*>(shared_memory + AT_ORDER); }

// The sum of `values[i]`, i < n, in the order of `block_sum`; right in lane 0. One warp calls it.
__device__ __forceinline__ double sum_in_order(const double* values, u32 n, u32 stride) {
    double all = 0.0;
    for (u32 first = 0; first < n; first += 32) {
        const u32 i = first + threadIdx.x % 32;
        all += warp_sum(i < n ? values[i * stride] : 0.0);
    }
    return all;
}

// Eight of `warp_sum` at once, to the same bits: lanes 4r to 4r + 3 get the sum of the r-th. At first a lane hands half
// of what it has to another one and takes the other half, so that there is a quarter of the exchanges.
__device__ __forceinline__ double warp_sums(const double (&values)[8]) {
    const u32 lane = threadIdx.x % 32;
    double four[4], two[2];
    const bool b16 = lane & 16, b8 = lane & 8, b4 = lane & 4;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const double given = __shfl_xor_sync(WHOLE, b16 ? values[i] : values[i + 4], 16);
        four[i] = (b16 ? values[i + 4] : values[i]) + given;
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        const double given = __shfl_xor_sync(WHOLE, b8 ? four[i] : four[i + 2], 8);
        two[i] = (b8 ? four[i + 2] : four[i]) + given;
    }
    double one = (b4 ? two[1] : two[0]) + __shfl_xor_sync(WHOLE, b4 ? two[0] : two[1], 4);
    one += __shfl_xor_sync(WHOLE, one, 2);
    one += __shfl_xor_sync(WHOLE, one, 1);
    return one;
}

// What is known of the rows of a step, by its parity.
__device__ __forceinline__ Known known_of(u32 turn, u32 lost_at) {
    Known known;
    known.lost = reinterpret_cast<double*>(shared_memory + lost_at);
    known.weight = reinterpret_cast<float*>(shared_memory + AT_LOOKED + turn * LOOKED);
    known.start = reinterpret_cast<u32*>(known.weight + R);
    known.label = known.start + R;
    known.counts = nullptr;
    return known;
}

// Looks up a row of this block, `later` behind the epoch's place in the list, and asks for it. As a call of its own it
// reads the net's description through memory (3 % of a step).
__device__ __forceinline__ void look(const Small& net, const SlotState& state, const EpochState& epoch, u32 slot, u32 rank, u32 row, u32 later, const Known& known) {
    const u32 begin = rank * R, end = min(begin + R, net.batch);
    const Found found = find(net, state, &epoch, slot, begin + row + later, end + later);
    u32 label = 0x80000000u;
    float weight = 0.0f;
    if (found.start != NOBODY) {
        label = net.labels[found.row];
        weight = net.weights ? net.weights[found.row] : 1.0f;
        if (net.class_weights && label < net.classes) weight = __fmul_rn(weight, net.class_weights[(u64)state.index * net.classes + label]);
        const float* from = net.table + found.start * net.stride;
        if (later > 0)
            for (u64 at = 0; at < net.window * net.stride; at += 32) asm volatile("prefetch.global.L2 [%0];\n" ::"l"(from + at));
    }
    known.start[row] = found.start;
    known.label[row] = label;
    known.weight[row] = weight;
}

// Where the tiles of a block are, and what comes behind them.
struct Places {
    u32 tiles;   // the input of each layer, then the gradient at the logits
    u32 dlogits; // [R, 32]
    u32 lost;    // [R] f64
    u32 weights; // of each layer, with its biases
};

// Begins to copy all weights and biases.
__device__ __forceinline__ void settle_all(const Small& net, u32 slot, u32 at) {
    const bf16* copy = net.copy + slot * net.params;
#pragma unroll 1
    for (u32 l = 0; l < net.layers; l++) {
        const SmallLayer& layer = net.layer[l];
        const Settled to = settled_at(at, layer.inputs, layer.outputs);
        const bool top = l + 1 == net.layers;
        settle<THREADS>(to, copy + layer.weight, top ? nullptr : copy + layer.bias, net.master + slot * net.params + layer.bias, layer.inputs,
                        layer.outputs);
        at = to.end();
    }
    copy_commit();
}

// The rows that were looked up, into their tile; and the gradient at the logits, of which only real columns are
// written, is cleared.
__device__ __forceinline__ void gather_looked(const Small& net, const Places& places, u32 turn) {
    const Tile x = {places.tiles, pieces_of(net.layer[0].inputs)};
    for (u32 i = threadIdx.x; i < R * 4; i += THREADS) reinterpret_cast<uint4*>(shared_memory + places.dlogits)[i] = make_uint4(0, 0, 0, 0);
    gather_tile<THREADS>(net, fresh(state_here().index), known_of(turn, places.lost).start, x, R);
}

// Forward, loss and backward of this block's rows; its part of the gradient goes to `partial`, its loss to every block
// of the cluster.
__device__ __forceinline__ void gradient(const Training& p, const Places& places, u32 slot, u32 rank, u32 size, u32 turn, bool first) {
    constexpr u32 ROWS = 2, DEPTH = 2;
    const Small& net = p.net;
    const u32 warp = own_warp(), lane = threadIdx.x % 32, last = net.layers - 1;
    const SlotState& state = state_here();
    const Tile dlogits = {places.dlogits, 4}, x = {places.tiles, pieces_of(net.layer[0].inputs)};
    const Known known = known_of(turn, places.lost);
    if (threadIdx.x == THREADS - 1) order_here() = plan(state, p.o);
    copy_wait<0>();
    // Every block has begun.
    if (first) cluster_wait();
    __syncthreads();

    u32 at = places.weights;
    Tile h = x;
#pragma unroll 1
    for (u32 l = 0; l < last; l++) {
        const SmallLayer& layer = net.layer[l];
        const Tile out = {behind(h, R), pieces_of(layer.outputs)};
        const Settled w = settled_at(at, layer.inputs, layer.outputs);
        forward_settled<ROWS, DEPTH, WARPS>(w, layer.inputs, layer.outputs, layer.act, h, out, R);
        if (l + 1 < last) __syncthreads(); // `head` begins with one
        at = w.end();
        h = out;
    }
    const SmallLayer& top = net.layer[last];
    Settled w = settled_at(at, top.inputs, top.outputs);
    const float* bias = reinterpret_cast<const float*>(shared_memory + w.bias());
    if (net.classes <= 8) head<1, WARPS>(net, slot, top, w, bias, h, dlogits, known, R);
    else head<4, WARPS>(net, slot, top, w, bias, h, dlogits, known, R);
    if (warp >= 8 && warp < 12) look(net, state, epoch_at(turn), slot, rank, threadIdx.x - 256, net.batch, known_of(1 - turn, places.lost));
    __syncthreads();
    if (warp == WARPS - 1) {
        double lost = 0.0, weighed = 0.0;
        for (u32 row = lane; row < R; row += 32) lost += known.lost[row], weighed += (double)known.weight[row];
        lost = warp_sum(lost), weighed = warp_sum(weighed);
        lost = __shfl_sync(WHOLE, lost, 0), weighed = __shfl_sync(WHOLE, weighed, 0);
        if (lane < size) {
            const u32 to = place_at(lane, AT_LOSSES + rank * 16);
            tell(to, lost), tell(to + 8, weighed);
        }
    }

    float* partial = net.partial + ((u64)slot * size + rank) * net.params;
    Tile dz = dlogits, y = h;
#pragma unroll 1
    for (u32 l = last;; l--) {
        const SmallLayer& layer = net.layer[l];
        float* dw = partial + layer.weight;
        // The first layer and the head are mostly narrow: in halves, so that more warps have some.
        if (l > 0 && l < last) weight_gradient<WARPS, 2>(dz, y, layer.inputs, layer.outputs, R, dw, partial + layer.bias, false);
        else weight_gradient<WARPS, 1>(dz, y, layer.inputs, layer.outputs, R, dw, partial + layer.bias, false);
        __syncthreads();
        if (l == 0) break;
        const SmallLayer& before = net.layer[l - 1];
        backward_settled<ROWS, WARPS>(w, layer.inputs, layer.outputs, before.act, dz, y, R);
        __syncthreads();
        const u32 pieces = pieces_of(before.inputs);
        dz = y;
        y = {y.at - R * pieces * 16, pieces};
        w = settled_at(w.at, before.inputs, before.outputs);
        w.at -= w.end() - w.at;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) small_step(const __grid_constant__ Training p) {
    const Small& net = p.net;
    const u32 slot = blockIdx.y, rank = cluster_rank(), size = gridDim.x, side = threadIdx.x / 256, own = threadIdx.x % 256;
    if (idle(p.states[slot], STEP)) return;
    cluster_arrive();
    const u32 pieces = (u32)((net.params + PIECE - 1) / PIECE), mine = (pieces - rank + size - 1) / size;
    Places places;
    places.tiles = (AT_PARTS + (pieces + size - 1) / size * 64 + 127) / 128 * 128;
    places.dlogits = places.tiles;
#pragma unroll 1
    for (u32 l = 0; l < net.layers; l++) places.dlogits += R * pieces_of(net.layer[l].inputs) * 16;
    places.lost = places.dlogits + R * 64;
    places.weights = places.lost + R * 8;

    settle_all(net, slot, places.weights);
    if (threadIdx.x == R) state_here() = p.states[slot];
    if (threadIdx.x == R + 32) epoch_at(0) = p.epochs[slot];
    if (threadIdx.x < R) look(net, p.states[slot], p.epochs[slot], slot, rank, threadIdx.x, 0, known_of(0, places.lost));
    __syncthreads();
    gather_looked(net, places, 0);

    // Of an own piece i: its gradient, and its parameters, means and squares, each thread's own 16 bytes.
    const u64 row = (u64)slot * net.params;
    const u32 row_end = (u32)net.params;
    const auto in_row_of = [&](u32 i) { return (rank + size * i) * PIECE + own * 4; };
    const auto gradient_at = [&](u32 i) { return places.tiles + i * ONE + own * 16; };
    const auto kept_at = [&](u32 i) {
        return (i < p.resident ? p.resident_at + i * 3 * ONE : places.tiles + mine * ONE + (i - p.resident) * 3 * ONE) + own * 16;
    };
    double* sums = reinterpret_cast<double*>(shared_memory);
    double* parts = reinterpret_cast<double*>(shared_memory + AT_PARTS);

    u32 step = 0;
#pragma unroll 1
    for (;; step++) {
        gradient(p, places, fresh(slot), fresh(rank), fresh(size), step % 2, step == 0);

        // What the optimiser needs is on its way to where the net was.
#pragma unroll 1
        for (u32 i = side; i < mine && i < p.kept; i += SIDES) {
            const u32 in_row = in_row_of(i);
            const u64 at = row + in_row;
            if (in_row < row_end && (step == 0 || i >= p.resident)) {
                const u32 to = shared_address(shared_memory + kept_at(i));
                copy_async(to, p.master + at, true);
                copy_async(to + ONE, p.mean + at, true);
                copy_async(to + 2 * ONE, p.square + at, true);
            }
        }
        copy_commit();
        cluster_arrive();
        cluster_wait();

        constexpr u32 DEEP = 7;
#pragma unroll 1
        for (u32 first = side; first < mine; first += DEEP * SIDES) {
            // Of the parts, the first two are on their way together.
            float4 v[DEEP];
            const float* from = net.partial + row * size;
            const auto part_of = [&](u32 r) {
                const u32 i = first + r * SIDES, at = in_row_of(i);
                return i < mine && at < row_end ? load_new(from + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            };
#pragma unroll
            for (u32 r = 0; r < DEEP; r++) v[r] = part_of(r);
#pragma unroll 1
            for (u32 k = 1; k < size; k++) {
                from += net.params;
                float4 more[DEEP];
#pragma unroll
                for (u32 r = 0; r < DEEP; r++) more[r] = part_of(r);
#pragma unroll
                for (u32 r = 0; r < DEEP; r++) v[r] = make_float4(v[r].x + more[r].x, v[r].y + more[r].y, v[r].z + more[r].z, v[r].w + more[r].w);
            }
            double square[8] = {};
#pragma unroll
            for (u32 r = 0; r < DEEP; r++) {
                const u32 i = first + r * SIDES;
                if (i < mine) four_at(gradient_at(i)) = v[r];
                square[r] = squares(v[r]);
            }
            const double sum = warp_sums(square);
            const u32 i = first + threadIdx.x % 32 / 4 * SIDES;
            if (threadIdx.x % 4 == 0 && threadIdx.x % 32 / 4 < DEEP && i < mine) parts[i * 8 + own / 32] = sum;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < mine * size; i += THREADS) {
            const u32 to = i / mine, piece = i - to * mine;
            double all = 0.0;
#pragma unroll
            for (u32 w = 0; w < 8; w++) all += parts[piece * 8 + w];
            tell(place_at(to, (rank + size * piece) * 8), all);
        }
        cluster_arrive();
        // Losses and weights of all blocks have been here since the barrier before. While this one is waited for, a
        // warp adds up the weights, and another one counts the step, which holds unless the norm is not finite.
        const EpochState& epoch = epoch_at(step % 2);
        const double* losses = reinterpret_cast<const double*>(shared_memory + AT_LOSSES);
        double weight_sum = 0.0;
        if (threadIdx.x < 64) weight_sum = sum_in_order(losses + 1, size, 2);
        if (threadIdx.x / 32 == 1) {
            const double loss = sum_in_order(losses, size, 2);
            if (threadIdx.x == 32) epoch_at(1 - step % 2) = count_step(epoch, net.batch, weight_sum, loss);
        }
        cluster_wait();
        if (threadIdx.x < 32) {
            const double norm = sum_in_order(sums, pieces, 1);
            if (threadIdx.x == 0) {
                SlotState& state = state_here();
                order_here() = decide(state, order_here(), {weight_sum, sqrt(norm) / weight_sum}, p.o);
                if (!state.fault) end_epoch(state, epoch, net.batch);
            }
        }
        copy_wait<0>();
        __syncthreads();
        const Order order = order_here();
        const bool last = step + 1 == p.steps || idle(state_here(), STEP);
        if (order.go != 0 || last) {
            const Divisor weight(order.weight), root(order.root);
#pragma unroll 1
            for (u32 i = side; i < mine; i += SIDES) {
                const u32 in_row = in_row_of(i);
                const u64 at = row + in_row;
                if (in_row >= row_end) continue;
                const u32 from = kept_at(i);
                const bool here = i < p.kept, stays = i < p.resident;
                Four four = {here ? four_at(from) : load4(p.master + at), here ? four_at(from + ONE) : load4(p.mean + at),
                             here ? four_at(from + 2 * ONE) : load4(p.square + at)};
                const float4 g = four_at(gradient_at(i));
                if (order.go != 0) adapt(four, g, order, weight, root, p.o);
                if (stays && !last) {
                    four_at(from) = four.param;
                    four_at(from + ONE) = four.mean;
                    four_at(from + 2 * ONE) = four.square;
                    // The head takes its bias from the master.
                    if (in_row >= net.layer[net.layers - 1].bias) store4(p.master + at, four.param);
                } else {
                    store4(p.master + at, four.param);
                    store4(p.mean + at, four.mean);
                    store4(p.square + at, four.square);
                }
                store4(p.copy + at, four.param);
                if (last) store4(p.grads + at, g);
            }
        }
        if (last) break;
        // Shared memory is free for the net again, and then new weights are there for all blocks.
        __syncthreads();
        cluster_arrive();
        gather_looked(net, places, (step + 1) % 2);
        cluster_wait();
        settle_all(net, slot, places.weights);
    }
    if (rank == 0 && threadIdx.x == 0) {
        p.states[slot] = state_here();
        p.epochs[slot] = epoch_at(state_here().fault ? step % 2 : 1 - step % 2);
    }
}
