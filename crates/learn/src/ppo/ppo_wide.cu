// A rollout of a wide policy with few accounts in one kernel. The weights of the policy's tower stay in the shared
// memory of many blocks, activations go from block to block through the second-level cache, and accounts step in blocks
// of their own, so that a step waits for nothing but the net.
//
// Accounts of a member are taken in tiles of 8. A group is `tiles` of them with blocks of its own: `blocks` that
// multiply, then one for each tile whose warps have an account each. All blocks of a launch run at once.
//
// | kernel       | block | grid                                     | dynamic shared                          |
// |--------------|-------|------------------------------------------|-----------------------------------------|
// | rollout_wide | 256   | [members × groups × (blocks + tiles)]    | a block's part of the tower, and 20 KiB |
//
// Weights are the first operand of `mma`, 16 outputs at a time, accounts the second, 8 at a time. A layer's outputs lie
// in the exchange as the next layer's products take them: [pair of 16 along k][lane][2 × 2 words], the word of a lane
// (g, t) being the columns 2t, 2t+1 (and 8 further on) of account g.
//
// Nobody waits at a barrier for the blocks of others: a word says itself whether it is of this step. A word of the
// input has the step beside it. Hidden layers leave one bit of a word free, the sign behind ReLU and the highest bit of
// the exponent behind tanh, and it turns with every step. A word is overwritten only by a step whose input followed
// from everything that was made of it. The host fills the exchange with zeros before the launch.
//
// Sums along k: a layer of at least 481 inputs is cut into 8 slices that are added in order, others are one sum. So
// bits depend on the shape of the net alone, not on how many blocks, groups or members there are.
//
// Discrete actions: what each of the three would lead to is computed in three lanes while the net is busy, and the one
// that was drawn is taken. What a warp with an account holds is a few words more than its registers; it has the time.
// registers: 255
// spills: 32

#include "../../../compute/src/ops/tensor.cuh"
#include "policy_net.cuh"

constexpr u32 THREADS = 256;
constexpr u32 WARPS = THREADS / 32;
constexpr u32 TILE = 8;      // accounts, a warp each
static_assert(TILE == WARPS, "an account for every warp");
constexpr u32 SLICES = WARPS; // of a long sum
constexpr u32 LONG = 16;     // pairs of 16 along k of the shortest long sum
constexpr u32 ABREAST = 2;   // tiles of 16 outputs that share what was fetched
constexpr u32 FETCHED = 8;   // pieces of 16 bytes that a lane fetches at once
constexpr u32 UNITS = 2;     // pieces of the input that a lane writes: up to 256 columns
constexpr u32 ALL = 0xffffffffu;
constexpr u32 SUMS = 128;    // of a tile of outputs and a tile of accounts
constexpr u32 PATIENCE = 1u << 24;

extern __shared__ __align__(16) unsigned char shared_memory[];

struct WideRollout {
    EpisodeTable table;
    Members members;
    Standing standing;
    Rollout seen;
    PolicyNet net;
    View<u32> exchange; // [groups of the launch, tiles, words]
    u32 first;          // member
    u32 groups;         // of a member
    u32 blocks;         // of a group that multiply
    u32 tiles;          // of a group
};

// Words that others write while this kernel runs.
__device__ __forceinline__ uint4 peek(const uint4* at) {
    uint4 v;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];\n" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    return v;
}
__device__ __forceinline__ void poke(uint4* at, uint4 v) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};\n" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void poke(uint2* at, uint2 v) {
    asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};\n" ::"l"(at), "r"(v.x), "r"(v.y) : "memory");
}

// The tower's layers as this kernel sees them.
struct Tower {
    u32 hidden;
    u32 steps[4];  // of 16 along k, of each layer and the head
    u32 from[4];   // where the input of each begins in a tile's exchange, in pieces of 16 bytes
    u32 pieces;    // of a tile's exchange

    __device__ __forceinline__ explicit Tower(const PolicyNet& net) : hidden(net.hidden[0]), pieces(0) {
#pragma unroll
        for (u32 l = 0; l < 4; l++) {
            if (l > hidden) break;
            steps[l] = (net.layers[l].inputs + 15) / 16;
            from[l] = pieces;
            pieces += (l == 0 ? steps[l] : (steps[l] + 1) / 2) * 32;
        }
    }
};

// The bit that a layer's outputs leave free, in the lower half of a word, and what it is at a step.
__device__ __forceinline__ u32 free_bit(u32 act) { return act == TANH ? 0x4000u : 0x8000u; }
__device__ __forceinline__ u32 phase_of(u32 bit, u32 t) { return t & 1 ? 0 : bit; }

// Up to `FETCHED` pieces of a layer's input that are of step t, `stride` pieces apart; of an odd number of steps the
// last piece is half there.
__device__ __forceinline__ void fetch(uint4 (&v)[FETCHED], const uint4* from, u32 count, bool whole, u32 bit, u32 phase, u32 stride = 32) {
    for (u32 tries = 0;; tries++) {
#pragma unroll
        for (u32 i = 0; i < FETCHED; i++)
            if (i < count) v[i] = peek(from + i * stride);
        u32 wrong = 0;
#pragma unroll
        for (u32 i = 0; i < FETCHED; i++) {
            if (i >= count) break;
            wrong |= (v[i].x ^ phase) | (v[i].y ^ phase);
            if (whole || i + 1 < count) wrong |= (v[i].z ^ phase) | (v[i].w ^ phase);
        }
        if (__all_sync(ALL, (wrong & bit) == 0)) break;
        if (tries > PATIENCE) __trap();
    }
#pragma unroll
    for (u32 i = 0; i < FETCHED; i++) {
        if (i >= count) break;
        v[i].x &= ~bit, v[i].y &= ~bit, v[i].z &= ~bit, v[i].w &= ~bit;
    }
    // What nobody wrote meets weights of zero, but must be a number.
    if (!whole && count > 0)
#pragma unroll
        for (u32 i = 0; i < FETCHED; i++)
            if (i + 1 == count) v[i].z = 0, v[i].w = 0;
}

// Steps of the input, the step's number beside each word.
__device__ __forceinline__ void fetch_input(uint4 (&v)[FETCHED], const uint4* from, u32 count, u32 tag) {
    for (u32 tries = 0;; tries++) {
#pragma unroll
        for (u32 i = 0; i < FETCHED; i++)
            if (i < count) v[i] = peek(from + i * 32);
        bool right = true;
#pragma unroll
        for (u32 i = 0; i < FETCHED; i++)
            if (i < count) right = right && v[i].y == tag && v[i].w == tag;
        if (__all_sync(ALL, right)) return;
        if (tries > PATIENCE) __trap();
    }
}

__device__ __forceinline__ const uint4& weights_at(u32 piece) { return reinterpret_cast<const uint4*>(shared_memory)[piece]; }

// Tiles of 16 outputs of a layer that a block has: every `blocks`th from its own number on.
__device__ __forceinline__ u32 own_tiles(u32 outputs, u32 block, u32 blocks) {
    const u32 all = (outputs + 15) / 16;
    return block < all ? (all - block + blocks - 1) / blocks : 0;
}

// A tile of outputs leaves this warp: sums with bias and activation, rounded, for the next layer's products. A lane
// (g, t) has outputs 2t, 2t+1, 2t+8, 2t+9 of account g.
__device__ __forceinline__ void send(const PolicyLayer& layer, const bf16* copy, u32 tile, f32 (&y)[4], u32 t, uint4* to) {
    const u32 lane = threadIdx.x % 32, q = lane % 4, column = tile * 16 + 2 * q;
    const u32* bias = reinterpret_cast<const u32*>(copy + layer.bias + column);
    const u32 low = column < layer.outputs ? __ldg(bias) : 0, high = column + 8 < layer.outputs ? __ldg(bias + 4) : 0;
    const u32 bit = free_bit(layer.act), phase = phase_of(bit, t);
    const f32 a = activation(y[0] + low_half(low), layer.act), b = activation(y[1] + high_half(low), layer.act);
    const f32 c = activation(y[2] + low_half(high), layer.act), d = activation(y[3] + high_half(high), layer.act);
    poke(reinterpret_cast<uint2*>(to + tile / 2 * 32 + lane) + tile % 2, make_uint2((pack(a, b) & ~bit) | phase, (pack(c, d) & ~bit) | phase));
}

// Sums of 16 outputs and 8 accounts as `mma` leaves them, to and from shared memory.
__device__ __forceinline__ void put_sums(f32* to, const f32 (&c)[4]) {
    const u32 lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    *reinterpret_cast<float2*>(to + g * 8 + 2 * q) = make_float2(c[0], c[1]);
    *reinterpret_cast<float2*>(to + (g + 8) * 8 + 2 * q) = make_float2(c[2], c[3]);
}
__device__ __forceinline__ void add_sums(f32 (&y)[4], const f32* from) {
    const u32 lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const f32* at = from + 16 * q + g;
    y[0] += at[0], y[1] += at[8], y[2] += at[64], y[3] += at[72];
}

// A block that multiplies.
__device__ __forceinline__ void multiply_all(const WideRollout& given, u32 p, u32 block, uint4* exchange) {
    const PolicyNet& net = given.net;
    const Tower tower(net);
    const bf16* copy = copy_of(net, p);
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    // Where each layer's weights begin in shared memory, in pieces: [own tiles][steps][lane].
    u32 at[3], piece = 0;
#pragma unroll
    for (u32 l = 0; l < 3; l++) {
        if (l >= tower.hidden) break;
        const PolicyLayer& layer = net.layers[l];
        const u32 steps = (tower.steps[l] + 1) / 2 * 2, count = own_tiles(layer.outputs, block, given.blocks);
        at[l] = piece;
        const u32* from = reinterpret_cast<const u32*>(copy + layer.weight);
        for (u32 i = threadIdx.x; i < count * steps * 32; i += THREADS) {
            const u32 tile = i / (steps * 32), step = i / 32 % steps, row = (block + tile * given.blocks) * 16 + g, k = step * 16 + 2 * q;
            const auto word = [&](u32 row, u32 k) { return row < layer.outputs && k < layer.inputs ? from[((u64)row * layer.inputs + k) / 2] : 0u; };
            reinterpret_cast<uint4*>(shared_memory)[piece + i] = make_uint4(word(row, k), word(row + 8, k), word(row, k + 8), word(row + 8, k + 8));
        }
        piece += count * steps * 32;
    }
    f32* sums = reinterpret_cast<f32*>(shared_memory + piece * 16);
    f32* own_sums = sums + (2 * ABREAST * SLICES + warp) * SUMS;
    u32 turn = 0;
    __syncthreads();
#pragma unroll 1
    for (u32 t = 0; t < given.members.steps; t++) {
#pragma unroll 1
        for (u32 l = 0; l < tower.hidden; l++) {
            const PolicyLayer& layer = net.layers[l];
            const u32 count = own_tiles(layer.outputs, block, given.blocks), steps = tower.steps[l], held = (steps + 1) / 2 * 2;
            const u32 weights = l == 0 ? at[0] : l == 1 ? at[1] : at[2];
            const u32 pairs = held / 2, bit = l == 0 ? 0 : free_bit(net.layers[l - 1].act), phase = phase_of(bit, t);
#pragma unroll 1
            for (u32 j = 0; j < given.tiles; j++) {
                const uint4* x = exchange + (u64)j * tower.pieces + tower.from[l] + lane;
                uint4* to = exchange + (u64)j * tower.pieces + tower.from[l + 1];
                if (pairs < LONG || l == 0) {
                    // One sum: a warp has whole tiles.
#pragma unroll 1
                    for (u32 tile = warp; tile < count; tile += WARPS) {
                        f32 c[4] = {};
                        const u32 w = weights + tile * held * 32 + lane;
#pragma unroll 1
                        for (u32 step = 0; step < (l == 0 ? steps : pairs); step += FETCHED) {
                            uint4 v[FETCHED];
                            const u32 n = min(FETCHED, (l == 0 ? steps : pairs) - step);
                            if (l == 0) {
                                fetch_input(v, x + step * 32, n, t + 1);
#pragma unroll
                                for (u32 i = 0; i < FETCHED; i++) {
                                    if (i >= n) break;
                                    const uint4 a = weights_at(w + (step + i) * 32);
                                    mma(c, {a.x, a.y, a.z, a.w}, v[i].x, v[i].z);
                                }
                            } else {
                                fetch(v, x + step * 32, n, step + n < pairs || steps % 2 == 0, bit, phase);
#pragma unroll
                                for (u32 i = 0; i < FETCHED; i++) {
                                    if (i >= n) break;
                                    const uint4 a = weights_at(w + (step + i) * 64), b = weights_at(w + (step + i) * 64 + 32);
                                    mma(c, {a.x, a.y, a.z, a.w}, v[i].x, v[i].y);
                                    mma(c, {b.x, b.y, b.z, b.w}, v[i].z, v[i].w);
                                }
                            }
                        }
                        put_sums(own_sums, c);
                        __syncwarp();
                        f32 y[4] = {};
                        add_sums(y, own_sums);
                        __syncwarp();
                        send(layer, copy, block + tile * given.blocks, y, t, to);
                    }
                } else {
                    // A warp has a slice along k of all tiles.
                    const u32 each = (pairs + SLICES - 1) / SLICES, begin = min(warp * each, pairs), end = min(begin + each, pairs);
#pragma unroll 1
                    for (u32 tile = 0; tile < count; tile += ABREAST) {
                        f32 c[ABREAST][4] = {};
                        const u32 w = weights + tile * held * 32 + lane;
#pragma unroll 1
                        for (u32 pair = begin; pair < end; pair += FETCHED) {
                            uint4 v[FETCHED];
                            const u32 n = min(FETCHED, end - pair);
                            fetch(v, x + pair * 32, n, pair + n < pairs || steps % 2 == 0, bit, phase);
#pragma unroll
                            for (u32 i = 0; i < FETCHED; i++) {
                                if (i >= n) break;
#pragma unroll
                                for (u32 m = 0; m < ABREAST; m++) {
                                    if (tile + m >= count) break;
                                    const u32 own = w + (m * held + (pair + i) * 2) * 32;
                                    const uint4 a = weights_at(own), b = weights_at(own + 32);
                                    mma(c[m], {a.x, a.y, a.z, a.w}, v[i].x, v[i].y);
                                    mma(c[m], {b.x, b.y, b.z, b.w}, v[i].z, v[i].w);
                                }
                            }
                        }
                        // Who reads the sums of one product is done before those of the second behind it are written.
                        f32* parts = sums + turn * ABREAST * SLICES * SUMS;
                        turn ^= 1;
#pragma unroll
                        for (u32 m = 0; m < ABREAST; m++) put_sums(parts + (m * SLICES + warp) * SUMS, c[m]);
                        __syncthreads();
                        if (warp < ABREAST && tile + warp < count) {
                            f32 y[4] = {};
#pragma unroll
                            for (u32 s = 0; s < SLICES; s++) add_sums(y, parts + (warp * SLICES + s) * SUMS);
                            send(layer, copy, block + (tile + warp) * given.blocks, y, t, to);
                        }
                    }
                }
            }
        }
    }
}

// What an account sees, as the first layer's products take it: lane u has steps u / 4 (and 8 further on), columns 2q,
// 2q+1, 2q+8, 2q+9 of each.
struct Input {
    f32 mean[UNITS][4], inverse[UNITS][4], v[UNITS][4];

    static __device__ __forceinline__ u32 column(u32 unit, u32 c) {
        const u32 lane = threadIdx.x % 32;
        return (lane / 4 + unit * 8) * 16 + 2 * (lane % 4) + c % 2 + c / 2 * 8;
    }
    __device__ __forceinline__ void begin(const PolicyNet& net, u32 p) {
#pragma unroll
        for (u32 u = 0; u < UNITS; u++)
#pragma unroll
            for (u32 c = 0; c < 4; c++) {
                const bool real = column(u, c) < net.features && net.mean;
                mean[u][c] = real ? net.mean[(u64)p * net.features + column(u, c)] : 0.0f;
                inverse[u][c] = real ? net.inverse[(u64)p * net.features + column(u, c)] : 1.0f;
            }
    }
    // A row of the table is on its way.
    __device__ __forceinline__ void look_up(const PolicyNet& net, u32 id) {
        const f32* row = net.table.data + (u64)table_row(net, id) * net.stride;
#pragma unroll
        for (u32 u = 0; u < UNITS; u++)
#pragma unroll
            for (u32 c = 0; c < 4; c++) v[u][c] = column(u, c) < net.features ? __ldg(row + column(u, c)) : 0.0f;
    }
    // All lanes have what the account is shown of itself.
    __device__ __forceinline__ void send(const PolicyNet& net, u32 steps, u32 row, const f32 (&observed)[OBSERVED], u32 tag, uint4* to) const {
        const u32 lane = threadIdx.x % 32;
#pragma unroll
        for (u32 u = 0; u < UNITS; u++) {
            const u32 step = lane / 4 + u * 8;
            f32 x[4];
#pragma unroll
            for (u32 c = 0; c < 4; c++) {
                const u32 own = column(u, c);
                x[c] = own < net.features ? __fmul_rn(__fsub_rn(v[u][c], mean[u][c]), inverse[u][c]) : 0.0f;
#pragma unroll
                for (u32 o = 0; o < OBSERVED; o++)
                    if (own == net.column + o) x[c] = observed[o];
            }
            if (step < steps) poke(to + step * 32 + row * 4 + lane % 4, make_uint4(pack(x[0], x[1]), tag, pack(x[2], x[3]), tag));
        }
    }
};

__device__ __forceinline__ f64 from_lane(f64 x, u32 lane) { return __shfl_sync(ALL, x, lane); }

// The trader of one lane becomes everybody's.
__device__ __forceinline__ void take_trader(Trader& trader, u32 lane) {
    account::Account& held = trader.account;
    held.equity = from_lane(held.equity, lane), held.peak = from_lane(held.peak, lane);
    held.quantity = from_lane(held.quantity, lane), held.target = from_lane(held.target, lane);
    held.action = from_lane(held.action, lane), held.mark = from_lane(held.mark, lane), held.fx = from_lane(held.fx, lane);
    held.entry = from_lane(held.entry, lane), held.bars_held = from_lane(held.bars_held, lane);
    held.terminated = from_lane(held.terminated, lane);
    trader.memory[0] = from_lane(trader.memory[0], lane), trader.memory[1] = from_lane(trader.memory[1], lane);
    trader.grown = from_lane(trader.grown, lane);
    Place& place = trader.place;
    place.row = __shfl_sync(ALL, place.row, lane), place.end = __shfl_sync(ALL, place.end, lane);
    place.symbol = __shfl_sync(ALL, place.symbol, lane), place.episode = __shfl_sync(ALL, place.episode, lane);
    trader.cuts = __shfl_sync(ALL, trader.cuts, lane);
#pragma unroll
    for (u32 o = 0; o < OBSERVED; o++) trader.observed[o] = __shfl_sync(ALL, trader.observed[o], lane);
}

// A warp with an account.
template <bool SIDES> __device__ __forceinline__ void live_all(const WideRollout& given, u32 p, u32 n, uint4* exchange) {
    const PolicyNet& net = given.net;
    const Tower tower(net);
    const u32 lane = threadIdx.x % 32, row = n % TILE, accounts = given.members.accounts;
    const PolicyLayer& head = net.layers[tower.hidden];
    const u32 pieces = (tower.steps[tower.hidden] + 1) / 2 * 4; // of a row: 8 columns each
    const bool whole = tower.steps[tower.hidden] % 2 == 0;
    const u32 bit = free_bit(net.layers[tower.hidden - 1].act);
    // A place without an account does what the last does, and writes nothing down.
    const bool real = n < accounts;
    const u32 own = real ? n : accounts - 1;
    const u64 i = (u64)p * accounts + own, all = given.standing.grown.len;
    Trader trader = load_trader(given.standing, i, all);
    const ActTerms terms(given.members, p);
    const f32* bias = net.master.data + (u64)p * net.params + head.bias;
    const f32 offset[3] = {bias[0], bias[1], bias[2]};
    Input input;
    input.begin(net, p);
    input.look_up(net, trader.place.row);
    input.send(net, tower.steps[0], row, trader.observed, 1, exchange);
#pragma unroll 1
    for (u32 t = 0; t < given.members.steps; t++) {
        const u64 at = ((u64)p * given.members.steps + t) * accounts + own;
        u32 legal, expected = trader.place.row + 1;
        uint4 bits;
        Lived lived;
        {
            const StepAhead ahead = look_ahead(given.table, terms, own, t, trader);
            legal = ahead.legal, bits = ahead.bits;
            if (real && lane == 0) record_view(given.seen, at, legal, trader);
            if (SIDES) {
                lived = live(given.table, terms, own, ahead, (f64)(lane % 3) - 1.0, trader);
                __syncwarp();
                expected = __shfl_sync(ALL, trader.place.row, 1);
            }
        }
        input.look_up(net, expected);
        // The head, for this account alone.
        f32 z[3] = {};
#pragma unroll 1
        for (u32 v = lane; v - lane < pieces; v += 32 * FETCHED) {
            // Pieces v, v + 32, ...: each has 8 columns of the row.
            uint4 y[FETCHED];
            const uint4* from = exchange + tower.from[tower.hidden] + v / 4 * 32 + row * 4 + v % 4;
            const u32 here = (pieces - (v - lane) + 31) / 32, count = min(FETCHED, here);
            for (u32 tries = 0;; tries++) {
                u32 wrong = 0;
                const u32 phase = phase_of(bit, t);
#pragma unroll
                for (u32 f = 0; f < FETCHED; f++) {
                    y[f] = make_uint4(0, 0, 0, 0);
                    if (f >= count || v + f * 32 >= pieces) continue;
                    y[f] = peek(from + f * 256);
                    wrong |= (y[f].x ^ phase) | (y[f].y ^ phase);
                    if (whole || v / 4 + f * 8 + 1 < pieces / 4) wrong |= (y[f].z ^ phase) | (y[f].w ^ phase);
                    else y[f].z = 0, y[f].w = 0;
                }
                if (__all_sync(ALL, (wrong & bit) == 0)) break;
                if (tries > PATIENCE) __trap();
            }
#pragma unroll
            for (u32 f = 0; f < FETCHED; f++) {
                if (f >= count || v + f * 32 >= pieces) continue;
                const u32 words[4] = {y[f].x & ~bit, y[f].y & ~bit, y[f].z & ~bit, y[f].w & ~bit};
#pragma unroll
                for (u32 o = 0; o < 3; o++) {
                    const uint4 w = weights_at((v + f * 32) * 3 + o);
                    const u32 of[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
                    for (u32 c = 0; c < 4; c++) {
                        z[o] = __fmaf_rn(low_half(words[c]), low_half(of[c]), z[o]);
                        z[o] = __fmaf_rn(high_half(words[c]), high_half(of[c]), z[o]);
                    }
                }
            }
        }
#pragma unroll
        for (u32 o = 0; o < 3; o++) {
#pragma unroll
            for (u32 away = 16; away > 0; away /= 2) z[o] += __shfl_xor_sync(ALL, z[o], away);
            z[o] = __fadd_rn(z[o], offset[o]);
        }
        const Sampled drawn = sample_action(SIDES ? DISCRETE : CONTINUOUS, z, legal, bits);
        if (!SIDES) {
            // The bars are near: they were looked at before.
            const StepAhead ahead = look_ahead(given.table, terms, own, t, trader);
            lived = live(given.table, terms, own, ahead, drawn.target, trader);
        }
        __syncwarp();
        const u32 chosen = SIDES ? (u32)drawn.action : 0;
        take_trader(trader, chosen);
        if (t + 1 < given.members.steps) {
            if (trader.place.row != expected) input.look_up(net, trader.place.row);
            input.send(net, tower.steps[0], row, trader.observed, t + 2, exchange);
        }
        if (real && lane == chosen) {
            record_draw(given.seen, at, drawn);
            record_end(given.seen, i, at, lived, trader.cuts);
        }
    }
    if (!real || lane != 0) return;
    store_trader(given.standing, i, all, trader);
    given.seen.cuts[i] = trader.cuts;
}

__global__ void __launch_bounds__(THREADS, 1) rollout_wide(const __grid_constant__ WideRollout given) {
    const u32 each = given.blocks + given.tiles, group = blockIdx.x / each, block = blockIdx.x % each;
    const u32 p = given.first + group / given.groups, tile = group % given.groups * given.tiles;
    const u32 pieces = Tower(given.net).pieces;
    if (((u64)group + 1) * given.tiles * pieces * 4 > given.exchange.len) __trap();
    uint4* exchange = reinterpret_cast<uint4*>(given.exchange.data) + (u64)group * given.tiles * pieces;
    if (block < given.blocks) {
        multiply_all(given, p, block, exchange);
        return;
    }
    // The head's weights: [pieces of a row][3 outputs], columns in the order of the exchange.
    const Tower tower(given.net);
    const PolicyLayer& head = given.net.layers[tower.hidden];
    const u32* from = reinterpret_cast<const u32*>(copy_of(given.net, p) + head.weight);
    const u32 of_row = (tower.steps[tower.hidden] + 1) / 2 * 4;
    for (u32 i = threadIdx.x; i < of_row * 3; i += THREADS) {
        const u32 v = i / 3, o = i % 3, k = v / 4 * 32 + v % 4 * 2;
        const auto word = [&](u32 k) { return k < head.inputs ? from[((u64)o * head.inputs + k) / 2] : 0u; };
        reinterpret_cast<uint4*>(shared_memory)[i] = make_uint4(word(k), word(k + 8), word(k + 16), word(k + 24));
    }
    __syncthreads();
    const u32 j = block - given.blocks, warp = threadIdx.x / 32;
    const u32 n = (tile + j) * TILE + warp;
    if (given.members.actions == DISCRETE) live_all<true>(given, p, n, exchange + (u64)j * pieces);
    else live_all<false>(given, p, n, exchange + (u64)j * pieces);
}
