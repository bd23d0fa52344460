// Individuals of low rank that trade on Hopper, for policies with two hidden layers of at most 256, in bf16: what
// `trade_S` of `evolve.cu` does for individuals whose weights are all their own. `low_rank.rs` says what they differ
// by.
//
// | kernel       | block | grid                         | what it does                                             |
// |--------------|-------|------------------------------|----------------------------------------------------------|
// | low_rank_W_S | 256   | [ceil(tiles / 2), P]         | individuals trade all spans, 64 rows for four warps      |
// | fit          | 256   | [ceil(individuals / 256), P] | how fit they were                                        |
// | sum_factors  | 256   | [parts of layers, slices, P] | Σ weight · A Bᵀ over 64 draws                            |
//
// W is how wide hidden layers are, at most, and S how many steps of 16 the input has. The weights of the middle lie in
// shared memory, rounded, for all individuals of a block. A tile is 64 rows: a few draws, of each both sides, of each
// side so many accounts (`seats`). A row's product with its own weights is that with the weights of the middle, and in
// one more step of 16 along the sum what is its own: eight columns for x A, in the rows of the draw that A is of and 0
// in others, times rows of B; and eight columns for the sign of a row's side, times normals of the biases. x A for all
// draws of a tile is a product of eight columns. What a product leaves is where the next takes it from, so no row
// leaves the registers of its warp, and no warp waits for another but inside products.
//
// A panel is a matrix of bf16 in shared memory that products read, [sum / 8][columns][8].
// targets: 90a
// registers: 255

#include "evolve.cuh"

extern __shared__ __align__(128) unsigned char shared_memory[];

constexpr u32 GROUPS = 2;  // tiles of a block
constexpr u32 TILE = 64;   // rows
constexpr u32 OWN = 8;     // columns for x A, and as many for sides
constexpr u32 MOST = 32;   // accounts of an individual in a tile

// Bytes of shared memory.
template <u32 WIDE, u32 STEPS> struct Room {
    static constexpr u32 BIASES = (2 * WIDE + MLP_OUTPUTS) * 4;
    static constexpr u32 SHARED = (STEPS * 16 + WIDE + MLP_OUTPUTS) * WIDE * 2 + BIASES;
    static constexpr u32 OF_TILE = (STEPS * 16 + 2 * WIDE) * OWN * 2 + 2 * OWN * (2 * WIDE + MLP_OUTPUTS) * 2;
    static constexpr u32 BYTES = SHARED + GROUPS * OF_TILE;
};

// A layer's panels: weights of the middle, A of the draws of a tile, and B and biases of these.
struct Panels {
    u32 weights, left, right;
};

template <u32 WIDE, u32 STEPS> struct Laid {
    Panels layers[3];
    u32 biases;

    __device__ __forceinline__ Laid(u32 at, u32 group) {
        constexpr u32 SUMS[3] = {STEPS * 16, WIDE, WIDE}, COLUMNS[3] = {WIDE, WIDE, MLP_OUTPUTS};
        u32 own = at + Room<WIDE, STEPS>::SHARED + group * Room<WIDE, STEPS>::OF_TILE;
#pragma unroll
        for (u32 l = 0; l < 3; l++) {
            layers[l] = {at, own, own + SUMS[l] * OWN * 2};
            at += SUMS[l] * COLUMNS[l] * 2;
            own += (SUMS[l] * OWN + 2 * OWN * COLUMNS[l]) * 2;
        }
        biases = at;
    }
};

// Inputs and outputs of the layers of a net.
struct Widths {
    u32 of[4];

    __device__ __forceinline__ Widths(const Searches& search)
        : of{search.features + OBSERVED, search.hidden[0], search.hidden[1], search.outputs} {}
};

// The column of an input of a layer: what an account is shown begins at a multiple of 8.
__device__ __forceinline__ u32 column_of(const Searches& search, u32 layer, u32 input) {
    return layer == 0 && input >= search.features ? search.column + input - search.features : input;
}

// A matrix for the tensor cores, whose panel has so many columns.
__device__ __forceinline__ u64 described(u32 address, u32 columns) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)columns << 16 | (u64)(128 >> 4) << 32;
}

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void products_end() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <u32 LEFT> __device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(LEFT) : "memory");
}

#define FOUR(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define THIRTY_TWO(d, n)                                                                                                           \
    FOUR(d, n), FOUR(d, n + 1), FOUR(d, n + 2), FOUR(d, n + 3), FOUR(d, n + 4), FOUR(d, n + 5), FOUR(d, n + 6), FOUR(d, n + 7)
#define PLACES_32                                                                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "     \
    "%26, %27, %28, %29, %30, %31"
#define MORE_32                                                                                                                    \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "   \
    "%56, %57, %58, %59, %60, %61, %62, %63"

// d += a b, under way until it is waited for: 64 rows in registers by 128, 64 or 8 columns of a panel.
__device__ __forceinline__ void multiply(float (&d)[16][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" PLACES_32 MORE_32 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;\n"
                 : THIRTY_TWO(d, 0), THIRTY_TWO(d, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void multiply(float (&d)[8][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" PLACES_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;\n"
                 : THIRTY_TWO(d, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void multiply(float (&d)[1][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;\n"
                 : FOUR(d, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// Nothing that reads d comes before this, and nothing that writes it behind.
template <u32 N> __device__ __forceinline__ void settle(float (&d)[N][4]) {
#pragma unroll
    for (u32 n = 0; n < N; n++) asm volatile("" : FOUR(d, n)::"memory");
}

// d += x (panel of COLUMNS columns, from one of them on), STEPS of 16 along the sum from FIRST on.
template <u32 STEPS, u32 COLUMNS, u32 N, u32 ALL>
__device__ __forceinline__ void multiply_all(float (&d)[N][4], const u32 (&x)[ALL][4], u32 panel, u32 column, u32 first) {
    const u64 b = described(panel + column * 16, COLUMNS) + first * 2 * COLUMNS;
    each<STEPS>([&](auto s) { multiply(d, x[s.value], b + s.value * 2 * COLUMNS); });
}

// ---------------------------------------------------------------------------------------------------------------------
// Weights and factors become panels.
// ---------------------------------------------------------------------------------------------------------------------

// The weights of a layer of the middle, eight inputs of an output at a time.
template <u32 COLUMNS> __device__ __forceinline__ void lay_weights(const Searches& search, const f32* middle, u32 layer, u32 sum, u32 to) {
    const Widths widths(search);
    const u32 inputs = widths.of[layer], outputs = widths.of[layer + 1];
    for (u32 i = threadIdx.x; i < sum / 8 * COLUMNS; i += blockDim.x) {
        const u32 output = i % COLUMNS, first = i / COLUMNS * 8;
        float w[8];
#pragma unroll
        for (u32 e = 0; e < 8; e++) {
            const u32 k = first + e;
            const bool shown = layer == 0 && k >= search.column;
            const u32 input = shown ? search.features + k - search.column : k;
            const bool real = output < outputs && input < inputs && (layer != 0 || shown || k < search.features);
            w[e] = real ? __ldg(middle + input * outputs + output) : 0.0f;
        }
        put_piece(to + i * 16, rounded_pair(w[0], w[1]), rounded_pair(w[2], w[3]), rounded_pair(w[4], w[5]), rounded_pair(w[6], w[7]));
    }
}

__device__ __forceinline__ void put_half(u32 at, f32 x) {
    asm volatile("st.shared.b16 [%0], %1;\n" ::"r"(at), "h"((u16)rounded_pair(x, 0.0f)) : "memory");
}

// A number of a draw, the `place`-th of its tile, at its place.
template <u32 WIDE, u32 STEPS>
__device__ __forceinline__ void lay_number(const Searches& search, const Laid<WIDE, STEPS>& laid, f32 sigma, u32 place, u32 number, f32 z) {
    const Widths widths(search);
#pragma unroll
    for (u32 l = 0; l < 3; l++) {
        const u32 inputs = widths.of[l], outputs = widths.of[l + 1], columns = l < 2 ? WIDE : MLP_OUTPUTS;
        if (number < search.rank * inputs) {
            const u32 k = column_of(search, l, number % inputs), own = place * search.rank + number / inputs;
            return put_half(laid.layers[l].left + (k / 8 * OWN + own) * 16 + k % 8 * 2, z);
        }
        number -= search.rank * inputs;
        if (number < search.rank * outputs) {
            const u32 own = place * search.rank + number / outputs;
            return put_half(laid.layers[l].right + number % outputs * 16 + own * 2, z);
        }
        number -= search.rank * outputs;
        if (number < outputs) return put_half(laid.layers[l].right + (columns + number) * 16 + place * 2, __fmul_rn(sigma, z));
        number -= outputs;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The pass of a tile.
// ---------------------------------------------------------------------------------------------------------------------

// What is a row's own of x A: factors of its draw times its side and deviation, 0 of other draws; and its side.
struct OwnRows {
    f32 by[4];
    u32 sides[2];

    __device__ __forceinline__ void words(u32 (&to)[4], const float (&dots)[1][4]) const {
        to[0] = rounded_pair(dots[0][0] * by[0], dots[0][1] * by[1]), to[1] = rounded_pair(dots[0][2] * by[2], dots[0][3] * by[3]);
        to[2] = sides[0], to[3] = sides[1];
    }
};

template <u32 N> __device__ __forceinline__ void begin_with_biases(float (&sums)[N][4], u32 biases) {
    const u32 own = biases + threadIdx.x % 4 * 8;
    each<N>([&](auto n) {
        const float2 bias = get_floats<n.value * 32>(own);
        sums[n.value][0] = sums[n.value][2] = bias.x, sums[n.value][1] = sums[n.value][3] = bias.y;
    });
}

// Activated and rounded: words for the next product.
template <u32 N> __device__ __forceinline__ void finish_part(u32 (*words)[4], float (&sums)[N][4], u32 act) {
    if (act == TANH) {
#pragma unroll
        for (u32 n = 0; n < N; n++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) sums[n][e] = quick_tanh(sums[n][e]);
    } else if (act == RELU) {
#pragma unroll
        for (u32 n = 0; n < N; n++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) sums[n][e] = sums[n][e] < 0.0f ? 0.0f : sums[n][e]; // NaN stays NaN and is seen
    }
#pragma unroll
    for (u32 n = 0; n < N; n++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) words[n / 2][n % 2 * 2 + half] = rounded_pair(sums[n][half * 2], sums[n][half * 2 + 1]);
}

// Columns of a hidden layer that are made at once: with more, registers do not suffice.
template <u32 WIDE> struct Part {
    static constexpr u32 COLUMNS = WIDE == 128 ? 128 : 64, COUNT = WIDE / COLUMNS, STEPS = COLUMNS / 16;
};

// A part of a hidden layer, from the column FROM on: words of each 16 columns. `own_words` are made with the first.
// What products begin with is all written before the first of them.
template <u32 WIDE, u32 FROM, u32 STEPS>
__device__ __forceinline__ void hidden_part(u32 (*made)[4], u32 (&own_words)[4], const u32 (&x)[STEPS][4], const Panels& panels, u32 biases,
                                            u32 act, const OwnRows& own) {
    float sums[Part<WIDE>::COLUMNS / 8][4], dots[1][4] = {};
    begin_with_biases(sums, biases + FROM * 4);
    settle(sums);
    settle(dots);
    products_begin();
    if (FROM == 0) {
        multiply_all<STEPS, OWN>(dots, x, panels.left, 0, 0);
        products_end();
    }
    multiply_all<STEPS, WIDE>(sums, x, panels.weights, FROM, 0);
    products_end();
    if (FROM == 0) {
        products_wait<1>();
        settle(dots);
        own.words(own_words, dots);
        products_begin();
    }
    multiply(sums, own_words, described(panels.right + FROM * 16, WIDE));
    products_end();
    products_wait<0>();
    settle(sums);
    finish_part(made, sums, act);
}

// The first hidden layer, as words for the second.
template <u32 WIDE, u32 STEPS>
__device__ __forceinline__ void first_hidden(u32 (&one)[WIDE / 16][4], const u32 (&x)[STEPS][4], const Laid<WIDE, STEPS>& laid, u32 act,
                                             const OwnRows& own) {
    u32 words[4];
    each<Part<WIDE>::COUNT>([&](auto part) {
        hidden_part<WIDE, part.value * Part<WIDE>::COLUMNS>(one + part.value * Part<WIDE>::STEPS, words, x, laid.layers[0], laid.biases, act,
                                                            own);
    });
}

// The second, and the head: outputs 2t and 2t + 1 of rows g and g + 8 of each warp's sixteen.
template <u32 WIDE, u32 STEPS>
__device__ __forceinline__ void second_and_head(float (&out)[4], const u32 (&one)[WIDE / 16][4], const Laid<WIDE, STEPS>& laid, u32 act,
                                                const OwnRows& own) {
    constexpr u32 EACH = Part<WIDE>::STEPS;
    float head[1][4], dots[1][4] = {};
    u32 words[4], head_words[4];
    const Panels& panels = laid.layers[1];
    const Panels& last = laid.layers[2];
    const u32 biases = laid.biases + WIDE * 4;
    begin_with_biases(head, biases + WIDE * 4);
    settle(head);
    settle(dots);
    each<Part<WIDE>::COUNT>([&](auto part) {
        u32 made[EACH][4];
        hidden_part<WIDE, part.value * Part<WIDE>::COLUMNS>(made, words, one, panels, biases, act, own);
        products_begin();
        multiply_all<EACH, OWN>(dots, made, last.left, 0, part.value * EACH);
        multiply_all<EACH, MLP_OUTPUTS>(head, made, last.weights, 0, part.value * EACH);
        products_end();
        // Registers are short: the words of a part are not kept beside those of the next.
        products_wait<0>();
    });
    settle(dots);
    settle(head);
    own.words(head_words, dots);
    products_begin();
    multiply(head, head_words, described(last.right, MLP_OUTPUTS));
    products_end();
    products_wait<0>();
    settle(head);
#pragma unroll
    for (u32 e = 0; e < 4; e++) out[e] = head[0][e];
}

// ---------------------------------------------------------------------------------------------------------------------
// trade
// ---------------------------------------------------------------------------------------------------------------------

// Where a row of a tile is.
struct Seat {
    u32 draw;    // of the tile
    u32 side;
    u32 account; // of the tile

    __device__ __forceinline__ Seat(const Searches& search, u32 row)
        : draw(row / (2 * search.seats)), side(row / search.seats % 2), account(row % search.seats) {}
};

template <u32 WIDE, u32 STEPS> __device__ __forceinline__ void trade(const Trade& given) {
    __shared__ u32 longest;
    const Searches& search = given.search;
    const u32 p = blockIdx.y, group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, accounts = search.accounts;
    if (search.active[p] == 0) return;
    const u32 together = TILE / (2 * search.seats), parts = (accounts + MOST - 1) / MOST;
    const u32 tile = blockIdx.x * GROUPS + group, first_draw = tile / parts * together, first_account = tile % parts * MOST;
    const u32 at = shared_address(shared_memory);
    const Laid<WIDE, STEPS> laid(at, group);
    const f32 sigma = search.sigma[p];
    for (u32 i = threadIdx.x; i < Room<WIDE, STEPS>::BYTES / 16; i += blockDim.x) put_piece(at + i * 16, 0, 0, 0, 0);
    if (threadIdx.x == 0) longest = 0;
    __syncthreads();
    {
        const Widths widths(search);
        if ((u64)(p + 1) * search.padded > given.middle.len) __trap();
        const f32* middle = given.middle.data + (u64)p * search.padded;
        const u32 first = (widths.of[0] + 1) * widths.of[1], second = (widths.of[1] + 1) * widths.of[2];
        lay_weights<WIDE>(search, middle, 0, STEPS * 16, laid.layers[0].weights);
        lay_weights<WIDE>(search, middle + first, 1, WIDE, laid.layers[1].weights);
        lay_weights<MLP_OUTPUTS>(search, middle + first + second, 2, WIDE, laid.layers[2].weights);
        for (u32 i = threadIdx.x; i < 2 * WIDE + MLP_OUTPUTS; i += blockDim.x) {
            const u32 l = i / WIDE, output = i % WIDE;
            const u32 from = l == 0 ? first - widths.of[1] : l == 1 ? first + second - widths.of[2]
                                                                     : first + second + widths.of[2] * widths.of[3];
            const u32 outputs = l == 0 ? widths.of[1] : l == 1 ? widths.of[2] : widths.of[3];
            const f32 bias = output < outputs ? middle[from + output] : 0.0f;
            put_word<0>(laid.biases + i * 4, __float_as_uint(bias));
        }
        const u32 unit = search.unit[p];
#pragma unroll 1
        for (u32 i = threadIdx.x % 128; i < together * search.blocks; i += 128) {
            const u32 place = i / search.blocks, block = i - place * search.blocks;
            if (first_draw + place >= search.draws) break;
            const float4 z = normals_of(search, p, unit, first_draw + place, block);
            lay_number(search, laid, sigma, place, block * 4, z.x), lay_number(search, laid, sigma, place, block * 4 + 1, z.y);
            lay_number(search, laid, sigma, place, block * 4 + 2, z.z), lay_number(search, laid, sigma, place, block * 4 + 3, z.w);
        }
        for (u32 n = threadIdx.x; n < accounts; n += blockDim.x) atomicMax(&longest, given.spans[((u64)p * accounts + n) * SPAN + 1]);
    }
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    __syncthreads();
    if (first_draw >= search.draws) return;
    if ((u64)(p + 1) * search.steps * accounts * search.column > given.seen.len) __trap();
    const u32 all_steps = longest, g = threadIdx.x % 32 / 4, t4 = threadIdx.x % 4, pieces = search.column / 8;
    OwnRows own;
    const u32* seen[2];
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        const Seat seat(search, warp * 16 + half * 8 + g);
        const f32 by = (seat.side == 0 ? sigma : -sigma) * search.scale;
        f32 sign[2];
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            own.by[half * 2 + e] = (2 * t4 + e) / search.rank == seat.draw ? by : 0.0f;
            sign[e] = 2 * t4 + e != seat.draw ? 0.0f : seat.side == 0 ? 1.0f : -1.0f;
        }
        own.sides[half] = rounded_pair(sign[0], sign[1]);
        const u32 n = min(first_account + seat.account, accounts - 1);
        seen[half] = reinterpret_cast<const u32*>(given.seen.data + ((u64)p * search.steps * accounts + n) * search.column) + t4;
    }
    const Seat seat(search, warp * 16 + threadIdx.x % 16);
    const u32 n = min(first_account + seat.account, accounts - 1), draw = first_draw + seat.draw;
    const bool lives = threadIdx.x % 32 < 16 && first_account + seat.account < accounts && draw < search.draws;
    const u64 span = ((u64)p * accounts + n) * SPAN;
    u32 row = given.spans[span];
    const u32 last = row + given.spans[span + 1];
    const account::Params& params = params_of(given.table, given.spans[span + 2]);
    account::Account held = account::new_account(params);
    Tally tally = {};
    u32 shown[4];
    const auto show = [&](const account::Bar& bar) {
        f32 observed[OBSERVED];
        observe(given.table, params, bar, held, row, observed);
#pragma unroll
        for (u32 e = 0; e < 4; e++) shown[e] = rounded_pair(observed[2 * e], observed[2 * e + 1]);
    };
    show(bar_at(given.table, row));
    // What is seen of the table, in pieces of 8 columns.
    u32 table[2 * STEPS - 1][2];
    const auto look = [&]() {
#pragma unroll
        for (u32 q = 0; q < 2 * STEPS - 1; q++)
#pragma unroll
            for (u32 half = 0; half < 2; half++)
                if (q < pieces) table[q][half] = __ldg(seen[half] + q * 4);
    };
    look();
#pragma unroll 1
    for (u32 t = 0; t < all_steps; t++) {
        float z[3];
        {
            // Places of panels are found again in each step: kept, they would take registers.
            u32 again = at;
            asm volatile("" : "+r"(again));
            const Laid<WIDE, STEPS> laid(again, group);
            u32 x[STEPS][4], observed[2];
#pragma unroll
            for (u32 half = 0; half < 2; half++)
#pragma unroll
                for (u32 e = 0; e < 4; e++) {
                    const u32 word = __shfl_sync(ALL_LANES, shown[e], half * 8 + g);
                    if (e == 0 || e == t4) observed[half] = word;
                }
#pragma unroll
            for (u32 q = 0; q < 2 * STEPS; q++)
#pragma unroll
                for (u32 half = 0; half < 2; half++)
                    x[q / 2][q % 2 * 2 + half] = q < pieces && q + 1 < 2 * STEPS ? table[q + 1 < 2 * STEPS ? q : 0][half]
                                                 : q == pieces                   ? observed[half]
                                                                                 : 0;
            u32 one[WIDE / 16][4];
            first_hidden(one, x, laid, search.act[0], own);
            if (t + 1 < all_steps) {
                seen[0] += (u64)accounts * search.column / 2, seen[1] += (u64)accounts * search.column / 2;
                look();
            }
            float out[4];
            second_and_head(out, one, laid, search.act[1], own);
            own_outputs(z, out);
        }
        if (lives && row < last) {
            const account::Bar now = bar_at(given.table, row), next = bar_at(given.table, row + 1);
            const f64 target = greedy_target(search.actions, z, legal_sides(params, now));
            tally.add(account::step<false, false>(params, held, {target, 0.0, 0.0}, now, next).reward);
            row++;
            show(next);
        }
        __syncwarp();
    }
    if (lives) tally.store(given, (u64)p * search.individuals + 2 * draw + seat.side, n);
}

__global__ void __launch_bounds__(256, 1) low_rank_64_2(const __grid_constant__ Trade given) { trade<64, 2>(given); }
__global__ void __launch_bounds__(256, 1) low_rank_64_5(const __grid_constant__ Trade given) { trade<64, 5>(given); }
__global__ void __launch_bounds__(256, 1) low_rank_64_8(const __grid_constant__ Trade given) { trade<64, 8>(given); }
__global__ void __launch_bounds__(256, 1) low_rank_128_5(const __grid_constant__ Trade given) { trade<128, 5>(given); }
__global__ void __launch_bounds__(256, 1) low_rank_128_8(const __grid_constant__ Trade given) { trade<128, 8>(given); }
__global__ void __launch_bounds__(256, 1) low_rank_256_4(const __grid_constant__ Trade given) { trade<256, 4>(given); }
__global__ void __launch_bounds__(256, 1) low_rank_256_5(const __grid_constant__ Trade given) { trade<256, 5>(given); }

__global__ void __launch_bounds__(256) fit(const __grid_constant__ Trade given) {
    const u32 p = blockIdx.y, individual = blockIdx.x * 256 + threadIdx.x;
    if (given.search.active[p] == 0 || individual >= given.search.individuals) return;
    store_fitness(given, p, (u64)p * given.search.individuals + individual);
}

// ---------------------------------------------------------------------------------------------------------------------
// sum_factors: for each weight Σ weight · a b, for each bias Σ weight · normal. A block has up to 64 inputs of a layer,
// or its biases; a thread has one output.
// ---------------------------------------------------------------------------------------------------------------------

constexpr u32 INPUTS = 64;  // of a block
constexpr u32 OUTPUTS = 256;
constexpr u32 AT_ONCE = 16; // factors that lie in shared memory

__global__ void __launch_bounds__(256) sum_factors(const __grid_constant__ Sum given) {
    __shared__ __align__(16) f32 left[AT_ONCE][INPUTS];
    __shared__ f32 right[AT_ONCE][OUTPUTS];
    __shared__ f32 weights[AT_ONCE];
    const Searches& search = given.search;
    const u32 p = blockIdx.z, from = blockIdx.y * SLICE;
    if (search.active[p] == 0) return;
    // Which part of which layer.
    const Widths widths(search);
    u32 layer = 0, part = blockIdx.x, number = 0, parameter = 0;
    for (;; layer++) {
        const u32 inputs = widths.of[layer], outputs = widths.of[layer + 1], has = (inputs + INPUTS - 1) / INPUTS + 1;
        if (part < has) break;
        part -= has;
        number += search.rank * (inputs + outputs) + outputs, parameter += (inputs + 1) * outputs;
    }
    const u32 inputs = widths.of[layer], outputs = widths.of[layer + 1], first = part * INPUTS;
    const bool biases = first >= inputs;
    const u32 rank = biases ? 1 : search.rank, count = biases ? 1 : min(INPUTS, inputs - first);
    const u32 unit = search.unit[p], all = (min(search.draws, from + SLICE) - from) * rank;
    constexpr u32 LEFT = INPUTS / 4 + 1, RIGHT = OUTPUTS / 4 + 1;
    f32 sums[INPUTS] = {};
#pragma unroll 1
    for (u32 begin = 0; begin < all; begin += AT_ONCE) {
        const u32 here = min(AT_ONCE, all - begin);
        __syncthreads();
#pragma unroll 1
        for (u32 i = threadIdx.x; i < here * (LEFT + RIGHT); i += 256) {
            const u32 q = i / (LEFT + RIGHT), b = i % (LEFT + RIGHT), draw = from + (begin + q) / rank, k = (begin + q) % rank;
            const f32 weight = given.weights[(u64)p * search.draws + draw];
            const bool is_left = b < LEFT;
            if (b == 0) weights[q] = weight;
            if (is_left && biases) {
                if (b == 0) left[q][0] = weight;
                continue;
            }
            const u32 outward = number + search.rank * inputs + (biases ? search.rank : k) * outputs;
            const u32 at = is_left ? number + k * inputs + first : outward, end = at + (is_left ? count : outputs);
            const u32 block = at / 4 + (is_left ? b : b - LEFT);
            if (weight == 0.0f || block * 4 >= end) continue;
            const float4 z4 = normals_of(search, p, unit, draw, block);
            const f32 z[4] = {z4.x, z4.y, z4.z, z4.w};
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                const u32 own = block * 4 + e;
                if (own < at || own >= end) continue;
                if (is_left) left[q][own - at] = __fmul_rn(weight, z[e]);
                else right[q][own - at] = z[e];
            }
        }
        __syncthreads();
        if (threadIdx.x >= outputs) continue;
#pragma unroll 1
        for (u32 q = 0; q < here; q++) {
            if (weights[q] == 0.0f) continue;
            const f32 own = right[q][threadIdx.x];
#pragma unroll
            for (u32 i = 0; i < INPUTS; i += 4) {
                const float4 by = *reinterpret_cast<const float4*>(&left[q][i]);
                sums[i] = __fmaf_rn(by.x, own, sums[i]), sums[i + 1] = __fmaf_rn(by.y, own, sums[i + 1]);
                sums[i + 2] = __fmaf_rn(by.z, own, sums[i + 2]), sums[i + 3] = __fmaf_rn(by.w, own, sums[i + 3]);
            }
        }
    }
    if (threadIdx.x >= outputs) return;
    const u64 to = ((u64)p * gridDim.y + blockIdx.y) * search.padded + parameter + (biases ? inputs : first) * outputs + threadIdx.x;
    if (to + (u64)(count - 1) * outputs >= given.parts.len) __trap();
#pragma unroll
    for (u32 i = 0; i < INPUTS; i++)
        if (i < count) given.parts.data[to + (u64)i * outputs] = sums[i];
}
