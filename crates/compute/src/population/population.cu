// The kernels of a population's step and of its validation, all but the products. The step itself is told in
// `backend.rs`.
//
// Every kernel has a slot axis and returns at once for slots that take no part (`mode`: 0 step = active and not due, 1
// score = due, 2 always). No float atomics; every sum has an order that depends on shapes alone, not on the number of
// slots. Names end in the element type T of activations: `_bf16` or `_f32`. Strides are in elements, of T or of what
// the pointer points at. All pointers are aligned to 16 bytes (8 for places inside bf16 buffers), all widths called
// `padded` or `width` are multiples of 8, `params` of 64.
//
// Launches. S = slots, B = batch, [x, y, z] = grid. Shared memory is static unless a number of bytes is given.
//
// | kernel                  | block | grid                                   | dynamic shared | needs                                 |
// |-------------------------|-------|----------------------------------------|----------------|---------------------------------------|
// | gather_T                | 128   | [ceil(B / 32), S]                      | 0              |                                       |
// | loss_T                  | 256   | [blocks, S], blocks = ceil(B / slice)  | 128 × padded   | slice a multiple of 32                |
// | sum_partials            | 256   | [ceil(n / 32), S]                      | 0              | n a multiple of 4                     |
// | sum_partials_f64        | 256   | [ceil(n / 256), S]                     | 0              |                                       |
// | activate_T, _float_bf16 | 256   | [ceil(B × width / 1024), S]            | 0              |                                       |
// | derive_T, _float_bf16   | 256   | [ceil(B × width / 1024), S]            | 0              |                                       |
// | column_sum_T            | 256   | [ceil(width / 128), blocks, S], blocks = ceil(B / slice) | 0 | any slice; 256 is good              |
// | add_parts               | 256   | [ceil(params / 1024), S]               | 0              | instead of advance                    |
// | choose_part             | 256   | [ceil(rows / 256), S]                  | 0              | before the first gather of a part     |
// | add_part                | 256   | [ceil(params / 1024), S]               | 0              | after the gradient of a part          |
// | next_part               | 1     | [1]                                    | 0              | after add_part                        |
// | optimise                | 256   | [any, S], 1024 elements a block and round | 0           |                                       |
// | advance                 | 256   | [ceil(params / 8192), S]               | 0              | before optimise                       |
// | score_sum               | 256   | [S]                                    | 0              |                                       |
// | tick                    | 1     | [1]                                    | 0              |                                       |
// | to_bf16                 | 256   | [any], 1024 elements a block and round | 0              |                                       |
// | fill_random_T           | 256   | [any], 1024 elements a block and round | 0              |                                       |
//
// `loss` needs no dynamic shared memory where its gradient is null; its slice of 64 is good up to B = 8192, 256 above.
//
// One step: gather (choose = 1 for the first input, then choose = 0), products, loss for each head, backward products,
// column_sum and sum_partials for biases, advance, optimise. One chunk of validation: gather, products, loss,
// score_sum. A batch that is too large for the memory goes in parts: for each choose_part, gather (choose = 0), the
// rest up to the gradient, add_part, next_part; then advance, optimise.
// registers: 64

#include "../random/random.cuh"
#include "optimiser.cuh"

// ---------------------------------------------------------------------------------------------------------------------
// gather: the rows of a batch, scaled, into an activation buffer.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct GatherArgs {
    const SlotState* states; // [S]
    const EpochState* epochs; // [S] read with choose = 1 only
    u64 seed;
    const u32* lists;       // all lists of samples, one behind the other
    u32* rows;              // [S, B] ids of samples
    float* live;            // [S, B] 1, or 0 for the tail; written with choose = 1 only
    const float* table;     // [rows, stride] f32; window × stride below 2^32
    u64 stride;             // a multiple of 4
    const u32* map;         // [ids] this table's row for each, or null
    const float* mean;      // [members, features] by state.index, or null both
    const float* inverse;
    T* out;                 // first column of the place, for slot 0 and row 0
    u64 out_stride;         // from row to row
    u64 out_member;         // from slot to slot
    const u32* valid_list;  // [members] where the validation list begins in `lists`, or 0; mode 1 only
    const u32* valid_count; // [members] its length
    const u32* chunk;       // [1] the chunk of validation: samples chunk × B + b in order
    u32 batch;
    u32 mode;
    u32 choose;             // 1: find out the rows and write `rows` and `live`; 0: read `rows`
    u32 features;
    u32 window;
    u32 padded;             // columns of the output: window × features, then zeros up to here
};

// In mode 2 rows are chosen as in mode 0. A warp takes 8 rows (16 of the narrowest): each lane finds one row, then they
// walk columns.
template <typename T>
__device__ __forceinline__ void gather(const GatherArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const EpochState* __restrict__ epochs = given.epochs;
    const u64 seed = given.seed;
    const u32 batch = given.batch;
    const u32 mode = given.mode;
    const u32 choose = given.choose;
    const u32* __restrict__ lists = given.lists;
    u32* __restrict__ rows = given.rows;
    float* __restrict__ live = given.live;
    const float* __restrict__ table = given.table;
    const u64 stride = given.stride;
    const u32* __restrict__ map = given.map;
    const u32 features = given.features;
    const u32 window = given.window;
    const u32 padded = given.padded;
    const float* __restrict__ mean = given.mean;
    const float* __restrict__ inverse = given.inverse;
    T* __restrict__ out = given.out;
    const u64 out_stride = given.out_stride;
    const u64 out_member = given.out_member;
    const u32* __restrict__ valid_list = given.valid_list;
    const u32* __restrict__ valid_count = given.valid_count;
    const u32* __restrict__ chunk = given.chunk;
    const u32 slot = blockIdx.y;
    const SlotState& state = states[slot];
    if (idle(state, mode)) return;

    // `lanes` lanes side by side walk a row, 4 columns each; a warp has `abreast` rows at once and `per` in all.
    u32 lanes = 32;
    while (lanes > 2 && lanes / 2 >= padded / 4) lanes /= 2;
    const u32 abreast = 32 / lanes;
    const u32 per = abreast > 8 ? abreast : 8;
    const u32 lane = threadIdx.x % 32;
    const u32 first = (blockIdx.x * 4 + threadIdx.x / 32) * per;
    if (first >= batch) return;

    u32 row = 0, alive = 1;
    const u32 own = first + lane % per;
    if (own < batch) {
        const u64 place = (u64)slot * batch + own;
        if (choose) {
            bool inside;
            if (mode == SCORE) {
                const u64 sample = (u64)*chunk * batch + own;
                inside = sample < valid_count[state.index];
                row = lists[(u64)valid_list[state.index] + (inside ? sample : 0)];
            } else {
                const EpochState& epoch = epochs[slot];
                const u64 sample = (u64)epoch.cursor + own;
                inside = sample < epoch.samples;
                u32 at = 0;
                if (inside) at = Permutation(epoch.samples, seed, state.id, epoch.done).at((u32)sample);
                row = lists[epoch.list + at];
            }
            if (lane < per) {
                rows[place] = row;
                live[place] = inside ? 1.0f : 0.0f;
            }
            alive = inside;
        } else {
            row = rows[place];
            // Rows that were asked for by name are all alive.
            if (mode != ALWAYS) alive = live[place] != 0.0f;
        }
        if (map) row = map[row];
        row -= window - 1;
    }

    const u32 width = features * window;
    // Four columns lie side by side in the table too, and on a border of 16 bytes.
    const bool straight = window == 1 || features % 4 == 0;
    T* to = out + slot * out_member;
    for (u32 left = 0; left < padded; left += lanes * 4) {
        const u32 column = left + lane % lanes * 4;
        u32 from[4];
        float shift[4], factor[4];
        for (u32 i = 0; i < 4; i++) {
            const u32 t = (column + i) / features;
            const u32 feature = (column + i) - t * features;
            const bool real = column + i < width;
            from[i] = real ? t * (u32)stride + feature : 0;
            const u64 at = (u64)state.index * features + feature;
            shift[i] = real && mean ? mean[at] : 0.0f;
            factor[i] = real && mean ? inverse[at] : 1.0f;
        }
#pragma unroll 4
        for (u32 round = 0; round < per; round += abreast) {
            const u32 b = first + round + lane / lanes;
            const u32 start = __shfl_sync(0xffffffffu, row, round + lane / lanes);
            const u32 full = __shfl_sync(0xffffffffu, alive, round + lane / lanes);
            if (b >= batch || column >= padded) continue;
            float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            const float* source = table + start * stride;
            // The tail is zeros: a bad number in a row that counts for nothing must not spoil the sums.
            if (column < width && full) {
                if (straight) {
                    const float4 v = load4(source + from[0]);
                    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
                } else {
                    for (u32 i = 0; i < 4; i++) x[i] = source[from[i]];
                }
                // No fma here: the bits are to be those of the CPU.
                for (u32 i = 0; i < 4; i++) {
                    if (mean) x[i] = __fmul_rn(__fsub_rn(x[i], shift[i]), factor[i]);
                    if (column + i >= width) x[i] = 0.0f;
                }
            }
            store4(to + b * out_stride + column, make_float4(x[0], x[1], x[2], x[3]));
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// loss: softmax cross-entropy of one head, its gradient, and who was taken for what.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct LossArgs {
    const SlotState* states;        // [S]
    const u32* rows;            // [S, B]
    const float* live;          // [S, B]
    const u8* labels;           // [ids] of this head
    const float* weights;       // [ids] or null for 1
    const float* class_weights; // [members, classes] by state.index, or null for 1
    const float* logits;        // [S, B, padded] f32 without bias
    const float* bias;          // the f32 master at this head's bias
    u64 bias_member;            // from slot to slot (= params)
    T* gradient;                // [S, B, padded] w × (softmax - target), padding 0; null when scoring
    double* partial;            // [S, heads, blocks, 2] weighted losses, and weights (0 for heads after the first)
    float* bias_partial;        // [S, blocks, padded] column sums of the rounded gradient, where there is one
    u64* confusion;             // [S, classes, classes] counts added to, [true, guessed], live rows; or null
    u32 batch;
    u32 mode;
    u32 slice;                  // rows of a block
    u32 head;                   // which of `heads`; the weights of the first head alone are summed
    u32 heads;
    u32 classes;
    u32 padded;
    float smoothing;            // share of a label that is spread over all classes; 0 when scoring
};

// Eight lanes take a row, so that any number of classes up to 256 reads side by side; 32 rows at once.
template <typename T>
__device__ __forceinline__ void loss(const LossArgs<T>& given, float* columns) {
    const SlotState* __restrict__ states = given.states;
    const u32 batch = given.batch;
    const u32 mode = given.mode;
    const u32 slice = given.slice;
    const u32 head = given.head;
    const u32 heads = given.heads;
    const u32* __restrict__ rows = given.rows;
    const float* __restrict__ live = given.live;
    const u8* __restrict__ labels = given.labels;
    const float* __restrict__ weights = given.weights;
    const float* __restrict__ class_weights = given.class_weights;
    const float* __restrict__ logits = given.logits;
    const float* __restrict__ bias = given.bias;
    const u64 bias_member = given.bias_member;
    const u32 classes = given.classes;
    const u32 padded = given.padded;
    const float smoothing = given.smoothing;
    T* __restrict__ gradient = given.gradient;
    double* __restrict__ partial = given.partial;
    float* __restrict__ bias_partial = given.bias_partial;
    u64* __restrict__ confusion = given.confusion;
    const u32 slot = blockIdx.y;
    const SlotState& state = states[slot];
    if (idle(state, mode)) return;

    __shared__ double losses[32], sums[32];
    __shared__ u32 counts[256]; // of small heads; large ones count in global memory
    const u32 group = threadIdx.x / 8, lane = threadIdx.x % 8;
    const bool small = classes <= 16;
    if (gradient)
        for (u32 i = threadIdx.x; i < 32 * padded; i += 256) columns[i] = 0.0f;
    counts[threadIdx.x] = 0;
    __syncthreads();

    bias += slot * bias_member;
    const u32 begin = blockIdx.x * slice, end = begin + slice < batch ? begin + slice : batch;
    double lost = 0.0, weighed = 0.0;
    for (u32 base = begin; base < end; base += 32) {
        // Groups behind the end walk along on the last row and leave nothing behind: the lanes of a warp must meet at
        // the shuffles.
        const bool inside = base + group < end;
        const u64 place = (u64)slot * batch + (inside ? base + group : end - 1);
        const float* z = logits + place * padded;

        float top = __uint_as_float(0xff800000u);
        u32 guess = 0xffffffffu;
        for (u32 c = lane; c < classes; c += 8) {
            const float x = __fadd_rn(z[c], bias[c]);
            if (x > top) top = x, guess = c;
        }
        for (u32 step = 4; step > 0; step /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, top, step);
            const u32 at = __shfl_xor_sync(0xffffffffu, guess, step);
            if (other > top || (other == top && at < guess)) top = other, guess = at;
        }
        float total = 0.0f;
        for (u32 c = lane; c < classes; c += 8) total += expf(__fadd_rn(z[c], bias[c]) - top);
        for (u32 step = 4; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);

        const float even = smoothing / (float)classes;
        float apart = 0.0f; // of all logits from the largest, summed
        if (smoothing > 0.0f) {
            for (u32 c = lane; c < classes; c += 8) apart += __fadd_rn(z[c], bias[c]) - top;
            for (u32 step = 4; step > 0; step /= 2) apart += __shfl_xor_sync(0xffffffffu, apart, step);
        }

        const u32 row = __ldg(rows + place), label = __ldg(labels + row);
        const bool known = label < classes, alive = __ldg(live + place) != 0.0f;
        float weight = weights ? __ldg(weights + row) : 1.0f;
        if (class_weights && known) weight = __fmul_rn(weight, __ldg(class_weights + (u64)state.index * classes + label));
        if (!alive) weight = 0.0f;
        if (inside && alive && lane == 0) {
            double own = known ? (double)(__fadd_rn(z[label], bias[label]) - top) : 0.0;
            if (smoothing > 0.0f) own = (1.0 - (double)smoothing) * own + (double)even * (double)apart;
            lost += (double)weight * (log((double)total) - own);
            weighed += (double)weight;
            if (confusion && known) {
                const u32 at = label * classes + (guess < classes ? guess : 0);
                if (small) atomicAdd(&counts[at], 1u);
                else atomicAdd(&confusion[(u64)slot * classes * classes + at], (u64)1);
            }
        }
        if (gradient && inside) {
            for (u32 c = lane; c < padded; c += 8) {
                float g = 0.0f;
                if (c < classes) {
                    const float p = expf(__fadd_rn(z[c], bias[c]) - top) / total;
                    g = __fmul_rn(weight, p - (c == label ? 1.0f - smoothing + even : even));
                }
                const T rounded = round_to<T>(g);
                gradient[place * padded + c] = rounded;
                columns[group * padded + c] += to_float(rounded);
            }
        }
    }
    if (lane == 0) losses[group] = lost, sums[group] = weighed;
    __syncthreads();

    if (threadIdx.x < 32) {
        const double all = warp_sum(losses[threadIdx.x]), weight = warp_sum(sums[threadIdx.x]);
        if (threadIdx.x == 0) {
            double* to = partial + (((u64)slot * heads + head) * gridDim.x + blockIdx.x) * 2;
            to[0] = all;
            to[1] = head == 0 ? weight : 0.0;
        }
    }
    if (gradient && threadIdx.x < padded) {
        float sum = 0.0f;
        for (u32 g = 0; g < 32; g++) sum += columns[g * padded + threadIdx.x];
        bias_partial[((u64)slot * gridDim.x + blockIdx.x) * padded + threadIdx.x] = sum;
    }
    if (confusion && small && threadIdx.x < classes * classes && counts[threadIdx.x] > 0)
        atomicAdd(&confusion[(u64)slot * classes * classes + threadIdx.x], (u64)counts[threadIdx.x]);
}

// ---------------------------------------------------------------------------------------------------------------------
// sum_partials: out[s × out_member + i] = sum over k of partial[s, k, i], in f64 in a fixed order, then f32.
// ---------------------------------------------------------------------------------------------------------------------
struct SumArgs {
    const SlotState* states; // [S]
    const float* partial; // [S, blocks, n]
    u64 n;
    float* out;
    u64 out_member;
    u32 mode;
    u32 blocks;
};

// Eight lanes take 32 columns; group g of 32 adds the blocks g, g + 32, ...; then the 32 sums are added in order.
extern "C" __global__ void __launch_bounds__(256) sum_partials(const SumArgs given) {
    const SlotState* __restrict__ states = given.states;
    const float* __restrict__ partial = given.partial;
    float* __restrict__ out = given.out;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], given.mode)) return;
    __shared__ double sums[32][33];
    const u32 group = threadIdx.x / 8, lane = threadIdx.x % 8;
    const u64 column = (u64)blockIdx.x * 32 + lane * 4;
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    if (column < given.n) {
        const float* from = partial + (u64)slot * given.blocks * given.n + column;
#pragma unroll 4
        for (u32 k = group; k < given.blocks; k += 32) {
            const float4 v = load4(from + k * given.n);
            sum[0] += (double)v.x, sum[1] += (double)v.y, sum[2] += (double)v.z, sum[3] += (double)v.w;
        }
    }
    for (u32 i = 0; i < 4; i++) sums[group][lane * 4 + i] = sum[i];
    __syncthreads();
    const u64 own = (u64)blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x < 32 && own < given.n) {
        double all = 0.0;
#pragma unroll 8
        for (u32 g = 0; g < 32; g++) all += sums[g][threadIdx.x];
        out[slot * given.out_member + own] = (float)all;
    }
}

// sum_partials_f64: the same for f64 partials and an f64 result, block after block.
extern "C" __global__ void __launch_bounds__(256) sum_partials_f64(const SlotState* __restrict__ states, u32 mode,
                                                                   const double* __restrict__ partial, u32 blocks, u64 n,
                                                                   double* __restrict__ out, u64 out_member) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], mode)) return;
    const u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    double sum = 0.0;
    for (u32 k = 0; k < blocks; k++) sum += partial[((u64)slot * blocks + k) * n + i];
    out[slot * out_member + i] = sum;
}

// ---------------------------------------------------------------------------------------------------------------------
// activate: y = act(z + bias), rounded once.
// ---------------------------------------------------------------------------------------------------------------------
template <typename From, typename T> struct ActivateArgs {
    const SlotState* states; // [S]
    const From* z;       // at the first column of its place, as y
    u64 z_stride;
    u64 z_member;
    const T* bias;       // or null
    u64 bias_member;
    T* y;
    u64 y_stride;
    u64 y_member;
    u32 mode;
    u32 act;             // 0 identity, 1 relu, 2 tanh
    u32 batch;
    u32 width;
};

// In place (z = y) is allowed in `_bf16` and `_f32`; `_float_bf16` reads f32 sums and writes bf16, so that a product
// that cannot fuse tanh is still rounded only once.
template <typename From, typename T>
__device__ __forceinline__ void activate(const ActivateArgs<From, T>& given) {
    const SlotState* __restrict__ states = given.states;
    const T* __restrict__ bias = given.bias;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], given.mode)) return;
    const u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
    const u64 b = i / (given.width / 4);
    const u32 column = (u32)(i - b * (given.width / 4)) * 4;
    if (b >= given.batch) return;
    float4 v = load4(given.z + slot * given.z_member + b * given.z_stride + column);
    if (bias) {
        const float4 w = load4(bias + slot * given.bias_member + column);
        v.x += w.x, v.y += w.y, v.z += w.z, v.w += w.w;
    }
    v = make_float4(activation(v.x, given.act), activation(v.y, given.act), activation(v.z, given.act), activation(v.w, given.act));
    store4(given.y + slot * given.y_member + b * given.y_stride + column, v);
}
// ---------------------------------------------------------------------------------------------------------------------
// derive: dz = dy × act'(y), rounded once; in place as `activate`.
// ---------------------------------------------------------------------------------------------------------------------
template <typename From, typename T> struct DeriveArgs {
    const SlotState* states; // [S]
    const From* dy;      // at the first column of its place, as y and dz
    u64 dy_stride;
    u64 dy_member;
    const T* y;
    u64 y_stride;
    u64 y_member;
    T* dz;
    u64 dz_stride;
    u64 dz_member;
    u32 mode;
    u32 act;
    u32 batch;
    u32 width;
};

template <typename From, typename T>
__device__ __forceinline__ void derive(const DeriveArgs<From, T>& given) {
    const SlotState* __restrict__ states = given.states;
    const T* __restrict__ y = given.y;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], given.mode)) return;
    const u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
    const u64 b = i / (given.width / 4);
    const u32 column = (u32)(i - b * (given.width / 4)) * 4;
    if (b >= given.batch) return;
    float4 v = load4(given.dy + slot * given.dy_member + b * given.dy_stride + column);
    const float4 o = load4(y + slot * given.y_member + b * given.y_stride + column);
    v = make_float4(v.x * slope(o.x, given.act), v.y * slope(o.y, given.act), v.z * slope(o.z, given.act), v.w * slope(o.w, given.act));
    store4(given.dz + slot * given.dz_member + b * given.dz_stride + column, v);
}

// ---------------------------------------------------------------------------------------------------------------------
// column_sum: partial[s, k, c] = sum of dz[s, b, c] over the rows b of slice k. Then sum_partials with n = width.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct ColumnArgs {
    const SlotState* states; // [S]
    const T* dz;         // at its first column
    u64 stride;
    u64 member;
    float* partial;      // [S, blocks, width]
    u32 mode;
    u32 batch;
    u32 slice;
    u32 width;
};

template <typename T>
__device__ __forceinline__ void column_sum(const ColumnArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const T* __restrict__ dz = given.dz;
    float* __restrict__ partial = given.partial;
    const u32 slot = blockIdx.z;
    if (idle(states[slot], given.mode)) return;
    __shared__ float4 sums[256]; // [256 / lanes][lanes]
    u32 lanes = 32;
    while (lanes > 2 && lanes / 2 >= given.width / 4) lanes /= 2;
    const u32 abreast = 256 / lanes;
    const u32 column = blockIdx.x * 128 + threadIdx.x % lanes * 4;
    const u32 begin = blockIdx.y * given.slice, end = begin + given.slice < given.batch ? begin + given.slice : given.batch;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (column < given.width) {
        const T* from = dz + slot * given.member + column;
#pragma unroll 4
        for (u32 b = begin + threadIdx.x / lanes; b < end; b += abreast) {
            const float4 v = load4(from + b * given.stride);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    const u32 own = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x < lanes * 4 && own < given.width) {
        const float* flat = reinterpret_cast<const float*>(sums);
        float all = 0.0f;
        for (u32 r = 0; r < abreast; r++) all += flat[r * lanes * 4 + threadIdx.x];
        partial[((u64)slot * gridDim.y + blockIdx.y) * given.width + own] = all;
    }
}

// The end of `advance` and `add_parts`: this block's squares; and by the block of a slot that comes last the rest.
// `planned` is in shared memory, what a thread of this block wrote before.
__device__ __forceinline__ void conclude(SlotState* states, EpochState* epochs, u32 slot, u32 batch, double sum, double* norm_partial,
                                         const double* __restrict__ loss_partial, u32 loss_blocks, u32* arrived, const Optimiser& o,
                                         const Order& planned, Order* __restrict__ orders) {
    __shared__ double scratch[8];
    if (!comes_last(slot, sum, norm_partial, arrived, scratch)) return;
    // Both are on their way while the sums are made.
    SlotState state = {};
    EpochState epoch = {};
    if (threadIdx.x == 0) {
        state = states[slot];
        if (epochs) epoch = epochs[slot];
    }
    Measure made;
    made.weight = block_sum(loss_partial + (u64)slot * loss_blocks * 2 + 1, loss_blocks, 2, scratch);
    made.norm = norm_of(slot, norm_partial, scratch) / made.weight;
    const double loss = block_sum(loss_partial + (u64)slot * loss_blocks * 2, loss_blocks, 2, scratch);
    if (threadIdx.x != 0) return;

    orders[slot] = decide(state, planned, made, o);
    if (epochs && !state.fault) {
        end_epoch(state, epoch, batch);
        epochs[slot] = count_step(epoch, batch, made.weight, loss);
    }
    states[slot] = state;
}

// ---------------------------------------------------------------------------------------------------------------------
// advance: the norm of the gradient; then the state after a step, and what the optimiser is to do. The only kernel that
// writes states.
// ---------------------------------------------------------------------------------------------------------------------
struct AdvanceArgs {
    SlotState* states;          // [S]
    EpochState* epochs;         // [S], or null where nobody counts epochs
    const float* grads;         // [S, params]
    u64 params;
    double* norm_partial;       // [S, blocks] sums of squares of 8192 elements each
    const double* loss_partial; // [S, loss_blocks, 2]
    u32* arrived;               // [S] 0 before and after
    Order* orders;              // [S]
    Optimiser o;
    u32 batch;
    u32 loss_blocks;            // heads × blocks of `loss`
};

// Every block adds its squares; the one that comes last adds all partial sums, in order, and does the rest. Which block
// that is changes nothing. A norm that is not finite stops the member and changes nothing else.
extern "C" __global__ void __launch_bounds__(256, 4) advance(const AdvanceArgs given) {
    const float* __restrict__ grads = given.grads;
    const double* __restrict__ loss_partial = given.loss_partial;
    Order* __restrict__ orders = given.orders;
    const u32 slot = blockIdx.y;
    // No block may see the state that the last one writes, so this is read before anyone arrives.
    if (idle(given.states[slot], STEP)) {
        if (blockIdx.x == 0 && threadIdx.x == 0) orders[slot].go = 0;
        return;
    }
    float4 v[8];
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        const u64 at = (u64)blockIdx.x * 8192 + i * 1024 + threadIdx.x * 4;
        v[i] = at < given.params ? fetch4(grads + slot * given.params + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    // The rate of the step is found while the gradient is on its way.
    __shared__ Order planned;
    if (threadIdx.x == 255) planned = plan(given.states[slot], given.o);
    double sum = 0.0;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        sum += (double)v[i].x * (double)v[i].x + (double)v[i].y * (double)v[i].y;
        sum += (double)v[i].z * (double)v[i].z + (double)v[i].w * (double)v[i].w;
    }
    conclude(given.states, given.epochs, slot, given.batch, sum, given.norm_partial, loss_partial, given.loss_blocks, given.arrived, given.o, planned,
             orders);
}

// ---------------------------------------------------------------------------------------------------------------------
// add_parts: `advance` for a gradient that is in parts: they are added in order and written to `grads`.
// ---------------------------------------------------------------------------------------------------------------------
struct AddPartsArgs {
    SlotState* states;          // [S]
    EpochState* epochs;         // [S] or null
    float* grads;               // [S, params] written
    u64 params;
    const float* parts;         // [S, count, params]
    double* norm_partial;       // [S, blocks] sums of squares of 1024 elements each
    const double* loss_partial; // as in `advance`
    u32* arrived;
    Order* orders;
    Optimiser o;
    u32 batch;
    u32 count;
    u32 loss_blocks;
};

extern "C" __global__ void __launch_bounds__(256, 4) add_parts(const AddPartsArgs given) {
    float* __restrict__ grads = given.grads;
    const float* __restrict__ parts = given.parts;
    const double* __restrict__ loss_partial = given.loss_partial;
    Order* __restrict__ orders = given.orders;
    const u32 slot = blockIdx.y;
    if (idle(given.states[slot], STEP)) {
        if (blockIdx.x == 0 && threadIdx.x == 0) orders[slot].go = 0;
        return;
    }
    const u64 at = (u64)blockIdx.x * 1024 + threadIdx.x * 4;
    __shared__ Order planned;
    if (threadIdx.x == 255) planned = plan(given.states[slot], given.o);
    double sum = 0.0;
    if (at < given.params) {
        const float4 v = added(parts + (u64)slot * given.count * given.params + at, given.params, given.count);
        store4(grads + slot * given.params + at, v);
        sum = squares(v);
    }
    conclude(given.states, given.epochs, slot, given.batch, sum, given.norm_partial, loss_partial, given.loss_blocks, given.arrived, given.o, planned,
             orders);
}

// ---------------------------------------------------------------------------------------------------------------------
// A batch in parts. `begin` [1] is the first row of the part in the whole batch of `batch` rows; a part has `part`
// rows, the last one perhaps fewer. Nothing here depends on who takes part, so one graph serves all parts of all steps.
//
// choose_part: the rows of a part as the whole batch has them, and which of them are alive: those inside of the batch
// and of the list.
// ---------------------------------------------------------------------------------------------------------------------
struct ChoosePartArgs {
    const SlotState* states; // [S]
    const EpochState* epochs; // [S]
    u64 seed;
    const u32* begin;
    const u32* lists;
    u32* rows;           // [S, part]
    float* live;         // [S, part]
    u32 batch;
    u32 part;
};

extern "C" __global__ void __launch_bounds__(256) choose_part(const ChoosePartArgs given) {
    const SlotState* __restrict__ states = given.states;
    const EpochState* __restrict__ epochs = given.epochs;
    const u32* __restrict__ begin = given.begin;
    const u32* __restrict__ lists = given.lists;
    u32* __restrict__ rows = given.rows;
    float* __restrict__ live = given.live;
    const u32 slot = blockIdx.y, own = blockIdx.x * 256 + threadIdx.x;
    const SlotState& state = states[slot];
    if (idle(state, STEP) || own >= given.part) return;
    const EpochState& epoch = epochs[slot];
    const u64 row = (u64)*begin + own, sample = (u64)epoch.cursor + row;
    const bool inside = row < given.batch && sample < epoch.samples;
    u32 at = 0;
    if (inside) at = Permutation(epoch.samples, given.seed, state.id, epoch.done).at((u32)sample);
    rows[(u64)slot * given.part + own] = lists[epoch.list + at];
    live[(u64)slot * given.part + own] = inside ? 1.0f : 0.0f;
}

// ---------------------------------------------------------------------------------------------------------------------
// add_part: a part's gradient, loss and weight added to those of the parts before it, in order; the last one leaves all
// in `grads`.
// ---------------------------------------------------------------------------------------------------------------------
struct AddPartArgs {
    const SlotState* states;        // [S]
    const u32* begin;
    float* sum;                 // [S, params]
    float* grads;               // [S, params]
    u64 params;
    const double* loss_partial; // [S, loss_blocks, 2] of this part
    double* loss_sum;           // [S, 2] loss and weight of the parts so far
    u32 batch;
    u32 part;
    u32 loss_blocks;
};

extern "C" __global__ void __launch_bounds__(256) add_part(const AddPartArgs given) {
    const SlotState* __restrict__ states = given.states;
    const u32* __restrict__ begin = given.begin;
    float* __restrict__ sum = given.sum;
    float* __restrict__ grads = given.grads;
    const double* __restrict__ loss_partial = given.loss_partial;
    double* __restrict__ loss_sum = given.loss_sum;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const bool first = *begin == 0, last = (u64)*begin + given.part >= given.batch;
    const u64 at = (u64)blockIdx.x * 1024 + threadIdx.x * 4;
    if (at < given.params) {
        float4 v = load4(grads + slot * given.params + at);
        if (!first) {
            const float4 before = load4(sum + slot * given.params + at);
            v = make_float4(before.x + v.x, before.y + v.y, before.z + v.z, before.w + v.w);
        }
        store4((last ? grads : sum) + slot * given.params + at, v);
    }
    if (blockIdx.x != 0) return;
    __shared__ double scratch[8];
    const double* from = loss_partial + (u64)slot * given.loss_blocks * 2;
    const double loss = block_sum(from, given.loss_blocks, 2, scratch), weight = block_sum(from + 1, given.loss_blocks, 2, scratch);
    if (threadIdx.x == 0) {
        loss_sum[slot * 2] = first ? loss : loss_sum[slot * 2] + loss;
        loss_sum[slot * 2 + 1] = first ? weight : loss_sum[slot * 2 + 1] + weight;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// next_part: on to the next part, and behind the last one to the first.
// ---------------------------------------------------------------------------------------------------------------------
struct NextPartArgs {
    u32* begin;
    u32 batch;
    u32 part;
};

extern "C" __global__ void next_part(const NextPartArgs given) {
    u32* begin = given.begin;
    const u64 next = (u64)*begin + given.part;
    *begin = next < given.batch ? (u32)next : 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// optimise: Adam or AdamW as PyTorch has them, over a slot's whole row, as `advance` ordered.
// ---------------------------------------------------------------------------------------------------------------------
struct OptimiseArgs {
    u64 params;
    const Order* orders; // [S]
    const float* grads;  // [S, params], as master, mean and square
    float* master;
    float* mean;
    float* square;
    bf16* copy;          // [S, params] bf16 of the master, or null
    float* average;      // [S, params] the running average of the master, or null
    Optimiser o;
};

extern "C" __global__ void __launch_bounds__(256) optimise(const OptimiseArgs given) { optimise_row(given, given.o); }

// ---------------------------------------------------------------------------------------------------------------------
// score_sum: adds the loss and the weight of a chunk to its sums, for slots that are due, and turns to the next chunk
// of validation.
// ---------------------------------------------------------------------------------------------------------------------
struct ScoreSumArgs {
    const SlotState* states;        // [S]
    const double* loss_partial; // [S, loss_blocks, 2]
    double* sums;               // [S, 2]
    u32* chunk;                 // [1]
    u32 loss_blocks;
};

extern "C" __global__ void __launch_bounds__(256) score_sum(const ScoreSumArgs given) {
    const SlotState* __restrict__ states = given.states;
    const double* __restrict__ loss_partial = given.loss_partial;
    double* __restrict__ sums = given.sums;
    u32* __restrict__ chunk = given.chunk;
    const u32 slot = blockIdx.x;
    // Nothing after the gather reads it.
    if (slot == 0 && threadIdx.x == 0) *chunk += 1;
    if (idle(states[slot], SCORE)) return;
    __shared__ double scratch[8];
    const double* from = loss_partial + (u64)slot * given.loss_blocks * 2;
    const double loss = block_sum(from, given.loss_blocks, 2, scratch), weight = block_sum(from + 1, given.loss_blocks, 2, scratch);
    if (threadIdx.x == 0) {
        sums[slot * 2] += loss;
        sums[slot * 2 + 1] += weight;
    }
}

// tick: one more; an empty kernel to time launches with.
extern "C" __global__ void tick(u32* count) { *count += 1; }

// ---------------------------------------------------------------------------------------------------------------------
// to_bf16: to[i] = from[i] rounded, i < n.
// ---------------------------------------------------------------------------------------------------------------------
struct RoundArgs {
    const float* from;
    bf16* to;
    u64 n;
};

extern "C" __global__ void __launch_bounds__(256) to_bf16(const RoundArgs given) {
    const float* __restrict__ from = given.from;
    bf16* __restrict__ to = given.to;
    for (u64 i = ((u64)blockIdx.x * 256 + threadIdx.x) * 4; i < given.n; i += (u64)gridDim.x * 1024) {
        if (i + 4 <= given.n) store4(to + i, load4(from + i));
        else
            for (u64 j = i; j < given.n; j++) to[j] = round_to<bf16>(from[j]);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// fill_random: out[i] uniform in -1..1, i < n, keyed by the seed and i alone; for benchmarks, where zeros would be
// faster than data.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct FillArgs {
    T* out;
    u64 n;
    u64 seed;
};

template <typename T> __device__ __forceinline__ void fill_random(const FillArgs<T>& given) {
    T* __restrict__ out = given.out;
    for (u64 i = ((u64)blockIdx.x * 256 + threadIdx.x) * 4; i < given.n; i += (u64)gridDim.x * 1024) {
        const uint4 bits = philox(given.seed, make_uint4((u32)(i / 4), (u32)(i / 4 >> 32), STREAM_NOISE, 0));
        const float4 v = make_float4(2.0f * uniform(bits.x) - 1.0f, 2.0f * uniform(bits.y) - 1.0f, 2.0f * uniform(bits.z) - 1.0f,
                                     2.0f * uniform(bits.w) - 1.0f);
        if (i + 4 <= given.n) store4(out + i, v);
        else {
            const float xs[4] = {v.x, v.y, v.z, v.w};
            for (u32 j = 0; i + j < given.n; j++) out[i + j] = round_to<T>(xs[j]);
        }
    }
}

// The names by element type.
#define KERNELS(T, SUFFIX)                                                                                                \
    extern "C" __global__ void __launch_bounds__(128) gather_##SUFFIX(const GatherArgs<T> given) { gather<T>(given); }    \
    extern "C" __global__ void __launch_bounds__(256) loss_##SUFFIX(const LossArgs<T> given) {                            \
        extern __shared__ float columns[];                                                                                \
        loss<T>(given, columns);                                                                                          \
    }                                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256) activate_##SUFFIX(const ActivateArgs<T, T> given) {                 \
        activate<T, T>(given);                                                                                            \
    }                                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256) derive_##SUFFIX(const DeriveArgs<T, T> given) {                     \
        derive<T, T>(given);                                                                                              \
    }                                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256) column_sum_##SUFFIX(const ColumnArgs<T> given) {                    \
        column_sum<T>(given);                                                                                             \
    }                                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256) fill_random_##SUFFIX(const FillArgs<T> given) { fill_random<T>(given); }

KERNELS(bf16, bf16)
KERNELS(float, f32)

extern "C" __global__ void __launch_bounds__(256) activate_float_bf16(const ActivateArgs<float, bf16> given) {
    activate<float, bf16>(given);
}
extern "C" __global__ void __launch_bounds__(256) derive_float_bf16(const DeriveArgs<float, bf16> given) {
    derive<float, bf16>(given);
}
