// What would otherwise be passes over memory of their own: a whole small head, and the derivative of a layer with its
// bias gradient.
//
// Same rules as population.cu: a slot axis, `mode` says who takes part, no float atomics, every sum in an order that
// depends on shapes alone. T is the element type of activations. cuBLASLt's own fusions (ReLU masks, bias gradients)
// were measured on an H200 to cost two to three times the plain product, so the products stay plain and these kernels
// do the rest in one pass.
//
// | kernel              | block | grid                                                        | dynamic shared              | needs |
// |---------------------|-------|-------------------------------------------------------------|-----------------------------|-------|
// | head_T_{1,2,4}_3, {1,2}_8 | 256  | [blocks, S], blocks = ceil(B / slice)                       | 4 × classes' × columns      | width <= columns = chunks × 32 lanes × 16 bytes of T; classes <= 3 or 8 |
// | derive_sum_T        | 256   | [ceil(width / (512 / size of T)), blocks, S], blocks = ceil(B / slice) | 0                | any slice |
// registers: 128

#include "population.cuh"

// 16 bytes of T as floats and back.
__device__ __forceinline__ void spread(uint4 v, float (&x)[8], const bf16*) {
    x[0] = low_half(v.x), x[1] = high_half(v.x), x[2] = low_half(v.y), x[3] = high_half(v.y);
    x[4] = low_half(v.z), x[5] = high_half(v.z), x[6] = low_half(v.w), x[7] = high_half(v.w);
}
__device__ __forceinline__ void spread(uint4 v, float (&x)[4], const float*) {
    x[0] = __uint_as_float(v.x), x[1] = __uint_as_float(v.y), x[2] = __uint_as_float(v.z), x[3] = __uint_as_float(v.w);
}
__device__ __forceinline__ uint4 gathered(const float (&x)[8], const bf16*) {
    return make_uint4(pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7]));
}
__device__ __forceinline__ uint4 gathered(const float (&x)[4], const float*) {
    return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
}

// ---------------------------------------------------------------------------------------------------------------------
// head: logits, softmax cross-entropy, its gradient, and the gradient at the layer before, in one pass over the rows.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct HeadArgs {
    const SlotState* states;        // [S]
    const u32* rows;            // [S, B], as live
    const float* live;
    const u8* labels;           // [ids]
    const float* weights;       // [ids] or null for 1
    const float* class_weights; // [members, classes] by state.index, or null for 1
    const T* h;                 // [S, B, h_stride] outputs of the layer before, at their first column
    u64 h_stride;
    u64 h_member;               // from slot to slot
    const T* w;                 // [padded, w_stride] weights of the head
    u64 w_stride;
    u64 w_member;
    const float* bias;          // the f32 master
    u64 bias_member;
    T* gradient;                // [S, B, padded] w × (softmax - target), padding 0; null when scoring
    T* dh;                      // like h: the gradient there, times the derivative; null where nothing learns before it
    double* partial;            // [S, blocks, 2] loss and weight; null: logits only
    float* bias_partial;        // [S, blocks, padded] column sums of the rounded gradient; written with gradient
    float* column_partial;      // [S, blocks, width] column sums of the rounded dh; written with dh
    u64* confusion;             // [S, classes, classes] counts added to, or null
    float* logits;              // [S, B, padded] f32 without bias, or null
    u32 batch;
    u32 mode;
    u32 slice;                  // rows of a block
    u32 width;
    u32 classes;
    u32 padded;
    u32 act;                    // of the layer before
    float smoothing;            // as in `loss`
};

// ROWS rows of h from `base` on. Rows behind the end walk along on the last one and leave nothing behind.
template <typename T, int CHUNKS, int ROWS>
__device__ __forceinline__ void fetch_rows(const T* __restrict__ h, u64 h_stride, u64 h_member, u32 width, u32 base, u32 end,
                                           uint4 (&rows)[ROWS][CHUNKS]) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const u32 b = base + r < end ? base + r : end - 1;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++) {
            const u32 column = (k * 32 + lane) * (16 / sizeof(T));
            rows[r][k] = make_uint4(0, 0, 0, 0);
            if (column < width) rows[r][k] = *reinterpret_cast<const uint4*>(h + blockIdx.y * h_member + b * h_stride + column);
        }
    }
}

// Logits of ROWS rows without bias; every lane gets all of them.
template <typename T, int CHUNKS, int CLASSES, int ROWS, typename W>
__device__ __forceinline__ void head_logits(const W& weights, const uint4 (&rows)[ROWS][CHUNKS], float (&z)[ROWS][CLASSES]) {
    constexpr int PER = 16 / sizeof(T);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < CLASSES; c++) z[r][c] = 0.0f;
#pragma unroll
    for (int k = 0; k < CHUNKS; k++) {
        float x[ROWS][PER];
#pragma unroll
        for (int r = 0; r < ROWS; r++) spread(rows[r][k], x[r], (const T*)0);
#pragma unroll
        for (int c = 0; c < CLASSES; c++) {
            float v[PER];
            weights(c, k, v);
#pragma unroll
            for (int e = 0; e < PER; e++)
#pragma unroll
                for (int r = 0; r < ROWS; r++) z[r][c] += x[r][e] * v[e];
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < CLASSES; c++)
#pragma unroll
            for (int step = 16; step > 0; step /= 2) z[r][c] += __shfl_xor_sync(0xffffffffu, z[r][c], step);
}

// Labels and weights of the next 32 rows of a warp, one for each lane; beyond the end nothing weighs anything.
struct Known {
    u32 label = 0; // 256 and more: not alive
    float weight = 0.0f;

    template <typename T> __device__ __forceinline__ void load(const HeadArgs<T>& given, const SlotState& state, u32 base, u32 end) {
        const u32 lane = threadIdx.x % 32, b = base + lane < end ? base + lane : end - 1;
        const u64 place = (u64)blockIdx.y * given.batch + b;
        const u32 row = __ldg(given.rows + place);
        label = __ldg(given.labels + row);
        weight = given.weights ? __ldg(given.weights + row) : 1.0f;
        if (given.class_weights && label < given.classes)
            weight = __fmul_rn(weight, __ldg(given.class_weights + (u64)state.index * given.classes + label));
        const bool alive = __ldg(given.live + place) != 0.0f && base + lane < end;
        if (!alive) weight = 0.0f, label |= 256u;
    }
};

// One row's softmax: logits in `own` become their exponentials, whose sum is returned; `taken` is the logit that the
// loss takes from the sum's logarithm, `guess` the class with the largest.
template <int CLASSES>
__device__ __forceinline__ float softmax(float (&own)[CLASSES], const float (&offset)[CLASSES], u32 classes, u32 label,
                                         float smoothing, float even, float& taken, u32& guess) {
    const bool known = (label & 255u) < classes;
    float top = __uint_as_float(0xff800000u), total = 0.0f, right = 0.0f, apart = 0.0f;
    guess = 0;
#pragma unroll
    for (int c = 0; c < CLASSES; c++) {
        own[c] = __fadd_rn(own[c], offset[c]);
        if (c < classes && own[c] > top) top = own[c], guess = c;
    }
#pragma unroll
    for (int c = 0; c < CLASSES; c++) {
        if (c == (label & 255u)) right = own[c] - top;
        if (c < classes) apart += own[c] - top;
        own[c] = c < classes ? expf(own[c] - top) : 0.0f;
        total += own[c];
    }
    taken = known ? right : 0.0f;
    if (smoothing > 0.0f) taken = (1.0f - smoothing) * taken + even * apart;
    return total;
}

// The gradient at h of ROWS rows from that at their logits `z`, rounded and stored; `column_sum` gets what was stored.
// One copy for each activation: asked for every element, it would take a branch each.
template <u32 ACT, typename T, int CHUNKS, int CLASSES, int ROWS, typename W>
__device__ __forceinline__ void head_backward(const W& weights, const uint4 (&rows)[ROWS][CHUNKS], const float (&z)[ROWS][CLASSES],
                                              T* __restrict__ dh, u64 h_stride, u64 h_member, u32 width, u32 base, u32 end,
                                              float (&column_sum)[CHUNKS][16 / sizeof(T)]) {
    constexpr int PER = 16 / sizeof(T);
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < CHUNKS; k++) {
        const u32 column = (k * 32 + lane) * PER;
        float made[ROWS][PER];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int e = 0; e < PER; e++) made[r][e] = 0.0f;
#pragma unroll
        for (int c = 0; c < CLASSES; c++) {
            float v[PER];
            weights(c, k, v);
#pragma unroll
            for (int e = 0; e < PER; e++)
#pragma unroll
                for (int r = 0; r < ROWS; r++) made[r][e] += z[r][c] * v[e];
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float x[PER];
            spread(rows[r][k], x, (const T*)0);
#pragma unroll
            for (int e = 0; e < PER; e++) made[r][e] *= slope(x[e], ACT);
            const uint4 rounded = gathered(made[r], (const T*)0);
            spread(rounded, made[r], (const T*)0);
            if (base + r < end) {
#pragma unroll
                for (int e = 0; e < PER; e++) column_sum[k][e] += made[r][e];
                if (column < width) *reinterpret_cast<uint4*>(dh + blockIdx.y * h_member + (base + r) * h_stride + column) = rounded;
            }
        }
    }
}

// One row's logits, zeros behind the classes.
template <int CLASSES>
__device__ __forceinline__ void store_logits(float* to, const float (&own)[CLASSES], u32 classes, u32 padded) {
    for (u32 c = 0; c < padded; c++) {
        float value = 0.0f;
#pragma unroll
        for (int i = 0; i < CLASSES; i++) value = c == i && i < classes ? own[i] : value;
        to[c] = value;
    }
}

// One row's gradient at the logits. Up to eight classes are eight columns, as every width is padded.
template <typename T, int CLASSES> __device__ __forceinline__ void store_gradient(T* to, const float (&own)[CLASSES]) {
    float all[8];
#pragma unroll
    for (int c = 0; c < 8; c++) all[c] = c < CLASSES ? own[c < CLASSES ? c : 0] : 0.0f;
    store4(to, make_float4(all[0], all[1], all[2], all[3]));
    store4(to + 4, make_float4(all[4], all[5], all[6], all[7]));
}

// The block's column sums of dh: the warps' columns are added up one warp after the other.
template <typename T, int CHUNKS>
__device__ __forceinline__ void sum_columns(const HeadArgs<T>& given, const float (&column_sum)[CHUNKS][16 / sizeof(T)],
                                            float* shared) {
    constexpr int PER = 16 / sizeof(T);
    const u32 slot = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32, width = given.width;
    for (u32 turn = 0; turn < 8; turn++) {
        __syncthreads();
        if (warp != turn) continue;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
#pragma unroll
            for (int e = 0; e < PER; e++) {
                float* to = shared + (k * PER + e) * 32 + lane;
                *to = turn == 0 ? column_sum[k][e] : *to + column_sum[k][e];
            }
    }
    __syncthreads();
    for (u32 column = threadIdx.x; column < width; column += 256) {
        const u32 chunk = column / (32 * PER), owner = column % (32 * PER) / PER, e = column % PER;
        given.column_partial[((u64)slot * gridDim.x + blockIdx.x) * width + column] = shared[(chunk * PER + e) * 32 + owner];
    }
}

// A warp takes an eighth of the block's rows, ROWS at once, a lane 16 bytes of every chunk of columns and of the head's
// weights, which it has in registers where there is room, else in shared memory. What follows the logits is one row's
// work for one lane: lane r has row r of the ROWS, then tells all others. Nothing that is read waits for something else
// at the place where it is needed: rows come one turn ahead, labels and weights of 32 rows at once.
template <typename T, int CHUNKS, int CLASSES, int ROWS>
__device__ __forceinline__ void head(const HeadArgs<T>& given, float* shared) {
    const SlotState* __restrict__ states = given.states;
    const u32 batch = given.batch;
    const u32 mode = given.mode;
    const u32 slice = given.slice;
    const T* __restrict__ h = given.h;
    const u64 h_stride = given.h_stride;
    const u64 h_member = given.h_member;
    const u32 width = given.width;
    const T* __restrict__ w = given.w;
    const u64 w_stride = given.w_stride;
    const u64 w_member = given.w_member;
    const float* __restrict__ bias = given.bias;
    const u64 bias_member = given.bias_member;
    const u32 classes = given.classes;
    const u32 padded = given.padded;
    const u32 act = given.act;
    const float smoothing = given.smoothing;
    T* __restrict__ gradient = given.gradient;
    T* __restrict__ dh = given.dh;
    double* __restrict__ partial = given.partial;
    float* __restrict__ bias_partial = given.bias_partial;
    float* __restrict__ column_partial = given.column_partial;
    u64* __restrict__ confusion = given.confusion;
    float* __restrict__ logits = given.logits;
    constexpr int PER = 16 / sizeof(T);
    constexpr bool HELD = CHUNKS * CLASSES <= 6;
    const u32 slot = blockIdx.y;
    const SlotState& state = states[slot];
    if (idle(state, mode)) return;
    __shared__ double losses[8], sums[8];
    __shared__ float heads[8][CLASSES];
    __shared__ u32 counts[64];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x < 64) counts[threadIdx.x] = 0;
    auto weight_at = [&](u32 c, u32 column) {
        if (c >= classes || column >= width) return make_uint4(0, 0, 0, 0);
        return *reinterpret_cast<const uint4*>(w + slot * w_member + c * w_stride + column);
    };
    uint4 held[HELD ? CLASSES : 1][HELD ? CHUNKS : 1];
    uint4* spilled = reinterpret_cast<uint4*>(shared); // [CLASSES, CHUNKS, 32]
    if constexpr (HELD) {
#pragma unroll
        for (int c = 0; c < CLASSES; c++)
#pragma unroll
            for (int k = 0; k < CHUNKS; k++) held[c][k] = weight_at(c, (k * 32 + lane) * PER);
    } else {
        for (u32 i = threadIdx.x; i < CLASSES * CHUNKS * 32; i += 256) spilled[i] = weight_at(i / (CHUNKS * 32), i % (CHUNKS * 32) * PER);
    }
    auto weights_of = [&](int c, int k, float (&v)[PER]) {
        if constexpr (HELD) spread(held[c][k], v, (const T*)0);
        else spread(spilled[(c * CHUNKS + k) * 32 + lane], v, (const T*)0);
    };
    __syncthreads();

    const float even = smoothing / (float)classes, hot = 1.0f - smoothing + even;
    float offset[CLASSES], head_sum[CLASSES], column_sum[CHUNKS][PER];
#pragma unroll
    for (int c = 0; c < CLASSES; c++) offset[c] = c < classes ? __ldg(bias + slot * bias_member + c) : 0.0f, head_sum[c] = 0.0f;
#pragma unroll
    for (int k = 0; k < CHUNKS; k++)
#pragma unroll
        for (int e = 0; e < PER; e++) column_sum[k][e] = 0.0f;

    const u32 each = (slice + 7) / 8, begin = blockIdx.x * slice + warp * each;
    u32 end = blockIdx.x * slice + slice < batch ? blockIdx.x * slice + slice : batch;
    if (begin + each < end) end = begin + each;
    uint4 next[ROWS][CHUNKS];
    double lost = 0.0, weighed = 0.0;
    Known known;
    if (begin < end) fetch_rows(h, h_stride, h_member, width, begin, end, next);
    for (u32 base = begin; base < end; base += ROWS) {
        const u32 turn = (base - begin) % 32;
        // Weights stay packed: unpacked once and for all they would take more registers than there are.
#pragma unroll
        for (int c = 0; c < CLASSES && HELD; c++)
#pragma unroll
            for (int k = 0; k < CHUNKS; k++)
                asm volatile("" : "+r"(held[c][k].x), "+r"(held[c][k].y), "+r"(held[c][k].z), "+r"(held[c][k].w));
        if (partial && turn == 0) known.load(given, state, base, end);
        uint4 kept[ROWS][CHUNKS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int k = 0; k < CHUNKS; k++) kept[r][k] = next[r][k];
        if (base + ROWS < end) fetch_rows(h, h_stride, h_member, width, base + ROWS, end, next);
        float z[ROWS][CLASSES];
        head_logits<T>(weights_of, kept, z);

        // Every lane has all sums now; lane r goes on with row r (and the others with one of them, for nothing).
        const u32 mine = lane % ROWS;
        const bool speaks = lane < ROWS && base + mine < end;
        const u64 place = (u64)slot * batch + base + mine;
        float own[CLASSES];
#pragma unroll
        for (int c = 0; c < CLASSES; c++) {
            own[c] = z[0][c];
#pragma unroll
            for (int r = 1; r < ROWS; r++) own[c] = mine == r ? z[r][c] : own[c];
        }
        if (logits && speaks) store_logits(logits + place * padded, own, classes, padded);
        if (!partial) continue;
        const u32 label = __shfl_sync(0xffffffffu, known.label, turn + mine);
        const float weight = __shfl_sync(0xffffffffu, known.weight, turn + mine);
        u32 guess;
        float taken;
        const float total = softmax(own, offset, classes, label, smoothing, even, taken, guess);
        if (speaks) {
            lost += (double)weight * (double)(logf(total) - taken);
            weighed += (double)weight;
            if (confusion && label < classes) atomicAdd(&counts[label * classes + guess], 1u);
        }
        const float part = 1.0f / total;
#pragma unroll
        for (int c = 0; c < CLASSES; c++) {
            const float p = own[c] * part;
            own[c] = c < classes ? to_float(round_to<T>(__fmul_rn(weight, p - (c == (label & 255u) ? hot : even)))) : 0.0f;
            head_sum[c] += speaks ? own[c] : 0.0f;
        }
        if (gradient && speaks) store_gradient(gradient + place * padded, own);
        if (!dh) continue;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < CLASSES; c++) z[r][c] = __shfl_sync(0xffffffffu, own[c], r);
        if (act == RELU) head_backward<RELU>(weights_of, kept, z, dh, h_stride, h_member, width, base, end, column_sum);
        else if (act == TANH) head_backward<TANH>(weights_of, kept, z, dh, h_stride, h_member, width, base, end, column_sum);
        else head_backward<IDENTITY>(weights_of, kept, z, dh, h_stride, h_member, width, base, end, column_sum);
    }
    if (!partial) return;

    // Lanes in order, then warps in order.
    lost = warp_sum(lost), weighed = warp_sum(weighed);
#pragma unroll
    for (int c = 0; c < CLASSES; c++) {
        float sum = 0.0f;
#pragma unroll
        for (int r = 0; r < ROWS; r++) sum += __shfl_sync(0xffffffffu, head_sum[c], r);
        head_sum[c] = sum;
    }
    if (lane == 0) {
        losses[warp] = lost, sums[warp] = weighed;
#pragma unroll
        for (int c = 0; c < CLASSES; c++) heads[warp][c] = head_sum[c];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double loss = 0.0, weight = 0.0;
        for (u32 i = 0; i < 8; i++) loss += losses[i], weight += sums[i];
        double* to = partial + ((u64)slot * gridDim.x + blockIdx.x) * 2;
        to[0] = loss, to[1] = weight;
    }
    if (gradient && threadIdx.x < padded) {
        float sum = 0.0f;
        if (threadIdx.x < CLASSES)
            for (u32 i = 0; i < 8; i++) sum += heads[i][threadIdx.x];
        bias_partial[((u64)slot * gridDim.x + blockIdx.x) * padded + threadIdx.x] = sum;
    }
    if (confusion && threadIdx.x < classes * classes && counts[threadIdx.x] > 0)
        atomicAdd(&confusion[(u64)slot * classes * classes + threadIdx.x], (u64)counts[threadIdx.x]);
    if (dh) sum_columns<T, CHUNKS>(given, column_sum, shared);
}

// ---------------------------------------------------------------------------------------------------------------------
// derive_sum: dz = dz × act'(y) in place, rounded, and the column sums of what it became.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct DeriveSumArgs {
    const SlotState* states; // [S]
    T* dz;               // at its first column, as y
    const T* y;
    u64 stride;
    u64 member;
    float* partial;      // [S, blocks, width]
    u32 mode;
    u32 act;
    u32 batch;
    u32 slice;
    u32 width;
};

template <typename T>
__device__ __forceinline__ void derive_sum(const DeriveSumArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    T* __restrict__ dz = given.dz;
    const T* __restrict__ y = given.y;
    float* __restrict__ partial = given.partial;
    constexpr int PER = 16 / sizeof(T);
    const u32 slot = blockIdx.z;
    if (idle(states[slot], given.mode)) return;
    __shared__ float sums[8][32 * PER];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 column = (blockIdx.x * 32 + lane) * PER;
    const u32 begin = blockIdx.y * given.slice, end = begin + given.slice < given.batch ? begin + given.slice : given.batch;
    float sum[PER];
#pragma unroll
    for (int e = 0; e < PER; e++) sum[e] = 0.0f;
    if (column < given.width) {
        T* to = dz + slot * given.member + column;
        const T* from = y + slot * given.member + column;
#pragma unroll 4
        for (u32 b = begin + warp; b < end; b += 8) {
            float d[PER], o[PER];
            spread(*reinterpret_cast<const uint4*>(to + b * given.stride), d, (const T*)0);
            spread(*reinterpret_cast<const uint4*>(from + b * given.stride), o, (const T*)0);
#pragma unroll
            for (int e = 0; e < PER; e++) {
                d[e] = to_float(round_to<T>(d[e] * slope(o[e], given.act)));
                sum[e] += d[e];
            }
            *reinterpret_cast<uint4*>(to + b * given.stride) = gathered(d, (const T*)0);
        }
    }
#pragma unroll
    for (int e = 0; e < PER; e++) sums[warp][lane * PER + e] = sum[e];
    __syncthreads();
    const u32 own = blockIdx.x * 32 * PER + threadIdx.x;
    if (threadIdx.x < 32 * PER && own < given.width) {
        float all = 0.0f;
        for (u32 i = 0; i < 8; i++) all += sums[i][threadIdx.x];
        partial[((u64)slot * gridDim.y + blockIdx.y) * given.width + own] = all;
    }
}

#define HEAD(T, SUFFIX, CHUNKS, CLASSES, ROWS)                                                                            \
    extern "C" __global__ void __launch_bounds__(256, 2) head_##SUFFIX##_##CHUNKS##_##CLASSES(const HeadArgs<T> given) {  \
        extern __shared__ float shared[];                                                                                 \
        head<T, CHUNKS, CLASSES, ROWS>(given, shared);                                                                    \
    }

// As many rows at once as registers allow.
#define BOTH(T, SUFFIX)                                                                                                   \
    HEAD(T, SUFFIX, 1, 3, 4)                                                                                              \
    HEAD(T, SUFFIX, 2, 3, 2)                                                                                              \
    HEAD(T, SUFFIX, 4, 3, 1)                                                                                              \
    HEAD(T, SUFFIX, 1, 8, 1)                                                                                              \
    HEAD(T, SUFFIX, 2, 8, 1)                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) derive_sum_##SUFFIX(const DeriveSumArgs<T> given) {                 \
        derive_sum<T>(given);                                                                                             \
    }

BOTH(bf16, bf16)
BOTH(float, f32)
