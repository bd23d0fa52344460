// Gradients of activations on units that Hopper alone has: the product, the derivative of the layer before, and its
// bias sums, in one kernel.
//
//   dX[b, i] = round(sum over o of dY[b, o] W[o, i]) × act'(y[b, i]), partial[block, i] = sum over the block's 64 rows
//   of dX[b, i]
//
// Same rules as population.cu: a slot axis, `mode` says who takes part, no float atomics, every sum in an order that
// depends on shapes alone. A block stays and takes tile after tile of 128 × 256; which block does a tile changes
// nothing in it. In `back_pairs` two blocks, a cluster, take tiles one above the other: both need the same of W, so
// each fetches half of it for both. Less from the second-level cache is less power, and that is what large products run
// into. The bits are the same.
//
//   warp 0            one thread keeps the copy engine busy, six stages of 32 columns of dY and rows of W ahead
//   warps 1 and 2 each takes a finished half of a tile from shared memory: out by the copy engine, and into the bias
//   sums warps 4 to 11 two groups that multiply, 64 rows of the tile each, and leave their half, rounded, in shared
//   memory
//
// So the tensor cores stand still only while a half is rounded. They read both sides from shared memory, swizzled by
// the copy engine; dY as it lies, W turned by the descriptor. Rows, columns and depth behind the end come as zeros. Of
// y only the sign matters, one bit each: it is read beside the products, three steps ahead, the first of it before the
// last tile is rounded; in pairs, warps 1 and 2 have it brought into the second-level cache a tile before (blocks alone
// gain nothing by that).
//
// | kernel     | block | grid                             | dynamic shared | needs                                                   |
// |------------|-------|----------------------------------|----------------|---------------------------------------------------------|
// | back       | 384   | [at most one for each processor] | 214,016        | act identity or relu; widths and strides multiples of 8 |
// | back_pairs | 384   | the same, an even number         | 214,016        | the same                                                |
//
//   dy       [S, B, outputs] for the copy engine, in boxes of 32 × 128, swizzled by 64 bytes
//   weights  [S, outputs, inputs], in boxes of 64 × 32, swizzled by 128 bytes
//   dx       [S, B, inputs], in boxes of 64 × 64, swizzled by 128 bytes
//   w        see `Work`
// targets: 90a
// registers: 168

#include "../population/population.cuh"

// A tensor as the copy engine knows it.
struct alignas(64) Map {
    u64 words[16];
};

struct Work {
    const SlotState* states; // [S / each]
    const bf16* y;       // outputs of the layer before, at their first column
    float* partial;      // [S] of [blocks, inputs]
    u64 stride;          // of y: from row to row
    u64 member;          // and from slot to slot
    u64 partial_member;  // of the partial sums, from slot to slot
    u32 batch;
    u32 inputs;
    u32 outputs;
    u32 slots;
    u32 mode;
    u32 act;
    u32 blocks;          // ceil(batch / 64)
    u32 each;            // slots that share a state: 2 where they are both towers of a member
};

constexpr u32 ROWS = 128, COLUMNS = 256, DEPTH = 32, STAGES = 6;
constexpr u32 LEFT = ROWS * DEPTH * 2, STAGE = LEFT + COLUMNS * DEPTH * 2; // bytes of dY, and of dY and W
constexpr u32 HALVES = STAGES * STAGE, HALF = 64 * COLUMNS * 2;            // [2] halves of a tile, [4, 64, 64] each
constexpr u32 BARRIERS = HALVES + 2 * HALF;

__device__ __forceinline__ void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// A box to shared memory; the barrier counts its bytes.
__device__ __forceinline__ void copy_box(u32 to, const Map* map, u32 barrier, u32 x, u32 y, u32 z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];\n" ::"r"(to), "l"(map),
                 "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

// A box to the same place in both blocks of a cluster; the barrier of each counts its bytes.
__device__ __forceinline__ void copy_to_both(u32 to, const Map* map, u32 barrier, u32 x, u32 y, u32 z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;\n" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"((u16)3)
                 : "memory");
}

// All threads of a cluster.
__device__ __forceinline__ void meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory"); }

// This warp is done with a stage: every block that writes into it is told. Only the tensor cores have read there, so
// nothing is to be made visible; with a release to the cluster, a fence over all of memory, the products took twice as
// long.
template <u32 PAIR> __device__ __forceinline__ void free_stage(u32 barrier, u32 lane) {
    if (PAIR == 1) {
        if (lane == 0) arrive(barrier);
    } else if (lane < PAIR) {
        asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier), "r"(lane)
                     : "memory");
    }
}

// A box from shared memory.
__device__ __forceinline__ void copy_back(const Map* map, u32 from, u32 x, u32 y, u32 z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];\n" ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(z) : "memory");
}

// A matrix in shared memory. dY is swizzled by 64 bytes, and `stride` is from 8 rows to the next 8. W, which lies
// turned, is swizzled by 128: `leading` is from 64 columns to the next 64, `stride` from 8 rows to the next 8.
constexpr u64 BY_128 = 1ull << 62, BY_64 = 2ull << 62;
__device__ __forceinline__ u64 described(u32 address, u32 leading, u32 stride, u64 swizzle) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | swizzle;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define ALL SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)

// d = a b, or d + a b: 64 × 16 by 16 × 256, under way until it is waited for.
__device__ __forceinline__ void multiply(float (&d)[128], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                 "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
                 "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
                 "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, "
                 "%88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "
                 "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, p, 1, 1, 0, 1;\n}\n"
                 : ALL
                 : "l"(a), "l"(b), "r"((u32)add));
}
// Nothing that reads d comes before this.
__device__ __forceinline__ void settle(float (&d)[128]) { asm volatile("" : ALL::"memory"); }
template <int N> __device__ __forceinline__ void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory"); }

// 16 bytes that are read once.
__device__ __forceinline__ uint4 fetch(const bf16* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}
// All ones in each half that is above 0.
__device__ __forceinline__ u32 positive(u32 pair) {
    u32 r;
    asm volatile("set.gt.u32.bf16x2 %0, %1, %2;\n" : "=r"(r) : "r"(pair), "r"(0u));
    return r;
}
// Bytes made of the top bits of bytes, by a selector with its fourth bits set.
__device__ __forceinline__ u32 spread_tops(u32 x, u32 which) {
    u32 r;
    asm("prmt.b32 %0, %1, 0, %2;\n" : "=r"(r) : "r"(x), "r"(which));
    return r;
}
__device__ __forceinline__ u32 rounded(float low, float high) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
// One step of turning a square of words over lanes: b of the lower against a of the upper.
__device__ __forceinline__ void exchange(u32& a, u32& b, u32 step, bool upper) {
    const u32 sent = __shfl_xor_sync(0xffffffffu, upper ? a : b, step);
    a = upper ? sent : a, b = upper ? b : sent;
}

// Where a tile is: `PAIR` of them, one above the other, have a number, and a block of a cluster takes one of these.
template <u32 PAIR> struct Tile {
    u32 slot, top, left;
    __device__ __forceinline__ Tile(u32 number, u32 across, u32 down, u32 rank)
        : slot(number / (across * down)), top((number / across % down * PAIR + rank) * ROWS), left(number % across * COLUMNS) {}
};

template <u32 PAIR> __device__ __forceinline__ void tiles(const Map& dy, const Map& weights, const Map& dx, const Work& w) {
    extern __shared__ __align__(1024) u8 shared[];
    const u32 base = (u32)__cvta_generic_to_shared(shared), full = base + BARRIERS, empty = full + 8 * STAGES;
    const u32 rounded_half = empty + 8 * STAGES, free_half = rounded_half + 16;
    u32 rank = 0;
    if (PAIR > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    if (threadIdx.x == 0) {
        auto init = [](u32 barrier, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(count) : "memory"); };
        for (u32 s = 0; s < STAGES; s++) init(full + 8 * s, 1), init(empty + 8 * s, 8 * PAIR);
        for (u32 half = 0; half < 2; half++) init(rounded_half + 8 * half, 4), init(free_half + 8 * half, 1);
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    if (PAIR > 1) meet();
    else __syncthreads();
    const u32 across = (w.inputs + COLUMNS - 1) / COLUMNS, down = (w.batch + PAIR * ROWS - 1) / (PAIR * ROWS);
    const u32 total = across * down * w.slots, steps = (w.outputs + DEPTH - 1) / DEPTH;
    const u32 first = blockIdx.x / PAIR, apart = gridDim.x / PAIR;
    // The next tile of this block whose slot takes part.
    auto busy = [&](u32 tile) {
        while (tile < total && idle(w.states[tile / (across * down * w.each)], w.mode)) tile += apart;
        return tile;
    };
    const u32 group = threadIdx.x / 128, lane = threadIdx.x % 32;
    u32 stage = 0, phase = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;\n");
        if (threadIdx.x == 0) {
            for (u32 i = busy(first); i < total; i = busy(i + apart)) {
                const Tile<PAIR> tile(i, across, down, rank);
                for (u32 step = 0; step < steps; step++) {
                    wait(empty + 8 * stage, phase ^ 1);
                    const u32 done = full + 8 * stage, to = base + stage * STAGE;
                    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(done), "r"(STAGE) : "memory");
                    copy_box(to, &dy, done, step * DEPTH, tile.top, tile.slot);
                    constexpr u32 SHARE = COLUMNS / 64 / PAIR;
                    for (u32 c = rank * SHARE; c < (rank + 1) * SHARE; c++) {
                        const u32 place = to + LEFT + c * DEPTH * 128;
                        if (PAIR > 1) copy_to_both(place, &weights, done, tile.left + 64 * c, step * DEPTH, tile.slot);
                        else copy_box(place, &weights, done, tile.left + 64 * c, step * DEPTH, tile.slot);
                    }
                    if (++stage == STAGES) stage = 0, phase ^= 1;
                }
            }
        } else if (threadIdx.x / 32 == 1 || threadIdx.x / 32 == 2) {
            const u32 half = threadIdx.x / 32 - 1, from = base + HALVES + half * HALF;
            // A lane has eight neighbouring columns; where they lie in a row turns with the row.
            const u32 mine = from + lane / 8 * 8192 + lane % 8 * 16;
            for (u32 i = busy(first), then; i < total; i = then) {
                const Tile<PAIR> tile(i, across, down, rank);
                const u32 top = tile.top + half * 64;
                then = busy(i + apart);
                // What the next tile sees of y: rows of up to 512 bytes, two for each lane.
                if (PAIR > 1 && w.act == RELU && then < total) {
                    const Tile<PAIR> next(then, across, down, rank);
                    const u32 bytes = 2 * (w.inputs - next.left < COLUMNS ? w.inputs - next.left : COLUMNS);
                    for (u32 row = next.top + half * 64 + lane; row < next.top + half * 64 + 64 && row < w.batch; row += 32)
                        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(w.y + next.slot * w.member + row * w.stride + next.left), "r"(bytes) : "memory");
                }
                wait(rounded_half + 8 * half, phase);
                if (lane == 0) {
                    for (u32 c = 0; c < 4; c++) copy_back(&dx, from + c * 8192, tile.left + 64 * c, top, tile.slot);
                    asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
                }
                float sums[8];
#pragma unroll
                for (int e = 0; e < 8; e++) sums[e] = 0.0f;
#pragma unroll 1
                for (u32 row = 0; row < 64; row += 8)
#pragma unroll
                    for (u32 r = 0; r < 8; r++) {
                        uint4 x;
                        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"((mine ^ r << 4) + (row + r) * 128) : "memory");
                        sums[0] += low_half(x.x), sums[1] += high_half(x.x), sums[2] += low_half(x.y), sums[3] += high_half(x.y);
                        sums[4] += low_half(x.z), sums[5] += high_half(x.z), sums[6] += low_half(x.w), sums[7] += high_half(x.w);
                    }
                if (top < w.batch && tile.left + 8 * lane < w.inputs) {
                    float* to = w.partial + tile.slot * w.partial_member + (u64)(top / 64) * w.inputs + tile.left + 8 * lane;
                    store4(to, make_float4(sums[0], sums[1], sums[2], sums[3]));
                    store4(to + 4, make_float4(sums[4], sums[5], sums[6], sums[7]));
                }
                if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;\n" ::: "memory");
                __syncwarp();
                if (lane == 0) arrive(free_half + 8 * half);
                phase ^= 1;
            }
            if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
        }
        __syncwarp();
        if (PAIR > 1) meet(); // neither leaves while the other may still write to it
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;\n");
    const u32 half = group - 1, warp = threadIdx.x / 32 % 4;
    // This warp's 16 rows; a lane gives the address of one of them, for one of two groups of eight columns.
    const u32 own = base + HALVES + half * HALF + warp * 2048 + lane % 16 * 128;
    u32 turn = 0;
    const bool masked = w.act == RELU;

    // Part q of y: lane l reads 8 of 32 columns, 8 (l % 4) on, of the rows l / 4 and 8 further.
    const bf16 *upper = w.y, *lower = w.y;
    u32 column = 0;
    uint4 parts[3][2];
#pragma unroll
    for (int q = 0; q < 3; q++) parts[q][0] = parts[q][1] = make_uint4(0, 0, 0, 0);
    auto look = [&](u32 q) {
        if (masked && column + 32 * q < w.inputs) parts[q % 3][0] = fetch(upper + 32 * q), parts[q % 3][1] = fetch(lower + 32 * q);
    };
    auto aim = [&](u32 i) {
        const Tile<PAIR> tile(i, across, down, rank);
        const u32 row = tile.top + half * 64 + warp * 16 + lane / 4, last = w.batch - 1;
        column = tile.left + 8 * (lane % 4);
        const bf16* from = w.y + tile.slot * w.member + column;
        upper = from + (u64)(row < last ? row : last) * w.stride, lower = from + (u64)(row + 8 < last ? row + 8 : last) * w.stride;
        if (i >= total) column = 0x7fffffff; // nothing to see
    };
    u32 now = busy(first);
    aim(now), look(0), look(1), look(2);
    while (now < total) {
        // Bit 7 - q of a byte: part q; bytes 0 and 2: the two columns of a pair in the upper row; 1 and 3: in the
        // lower. Word p: pair p of the eight.
        u32 keep[4];
#pragma unroll
        for (int p = 0; p < 4; p++) keep[p] = masked ? 0u : 0xffffffffu;
        auto note = [&](u32 q) {
            if (!masked) return;
            const u32 bit = 0x00800080u >> q, further = bit << 8;
            const uint4 &a = parts[q % 3][0], &b = parts[q % 3][1];
            keep[0] |= (positive(a.x) & bit) | (positive(b.x) & further);
            keep[1] |= (positive(a.y) & bit) | (positive(b.y) & further);
            keep[2] |= (positive(a.z) & bit) | (positive(b.z) & further);
            keep[3] |= (positive(a.w) & bit) | (positive(b.w) & further);
        };
        float d[128];
#pragma unroll
        for (int i = 0; i < 128; i++) d[i] = 0.0f;
        u32 before = 0;
        auto advance = [&](u32 step) {
            wait(full + 8 * stage, phase);
            const u32 a = base + stage * STAGE + half * (LEFT / 2), b = base + stage * STAGE + LEFT;
            asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#pragma unroll
            for (u32 k = 0; k < DEPTH / 16; k++)
                multiply(d, described(a + 32 * k, 16, 512, BY_64), described(b + 2048 * k, DEPTH * 128, 1024, BY_128), step + k > 0);
            asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
        };
        // One step stays under way; the one before it is done with its stage.
        auto release = [&](u32 step) {
            products_wait<1>();
            if (step > 0) free_stage<PAIR>(empty + 8 * before, lane);
            before = stage;
            if (++stage == STAGES) stage = 0, phase ^= 1;
        };
        // What is looked at comes in turn with the products, and towards the end it is the next tile's.
        u32 next = total;
#pragma unroll
        for (u32 q = 0; q < 8; q++) {
            if (2 * q < steps) advance(2 * q);
            if (q == 1) next = busy(now + apart);
            if (q > 0) note(q - 1);
            if (q > 0 && q < 6) look(q + 2);
            if (q == 6) aim(next), look(2);
            if (q == 7) look(0);
            if (2 * q < steps) release(2 * q);
            if (2 * q + 1 < steps) advance(2 * q + 1), release(2 * q + 1);
        }
#pragma unroll 1
        for (u32 step = 16; step < steps; step++) advance(step), release(step);
        products_wait<0>();
        free_stage<PAIR>(empty + 8 * before, lane);
        settle(d);
        note(7), look(1);
        now = next;
        // Lane l has pair p of the eight columns of its quarter and needs pair l % 4 of all quarters.
        if (masked) {
            exchange(keep[0], keep[1], 1, lane & 1), exchange(keep[2], keep[3], 1, lane & 1);
            exchange(keep[0], keep[2], 2, lane & 2), exchange(keep[1], keep[3], 2, lane & 2);
        }

        wait(free_half + 8 * half, turn ^ 1);
        turn ^= 1;
#pragma unroll
        for (int n = 0; n < 32; n += 2) { // of the tile's 32 groups of eight columns
            u32 r[4];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int at = n + e;
                const u32 bits = keep[at % 4] << (at / 4);
                r[2 * e] = rounded(d[4 * at], d[4 * at + 1]) & spread_tops(bits, 0xaa88);
                r[2 * e + 1] = rounded(d[4 * at + 2], d[4 * at + 3]) & spread_tops(bits, 0xbb99);
            }
            const u32 to = own + n / 8 * 8192 + (((n % 8 + lane / 16) ^ (lane & 7)) << 4);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
        __syncwarp();
        if (lane == 0) arrive(rounded_half + 8 * half);
    }
    if (PAIR > 1) meet();
}

extern "C" __global__ void __launch_bounds__(384, 1)
    back(const __grid_constant__ Map dy, const __grid_constant__ Map weights, const __grid_constant__ Map dx, const __grid_constant__ Work w) {
    tiles<1>(dy, weights, dx, w);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    back_pairs(const __grid_constant__ Map dy, const __grid_constant__ Map weights, const __grid_constant__ Map dx, const __grid_constant__ Work w) {
    tiles<2>(dy, weights, dx, w);
}
