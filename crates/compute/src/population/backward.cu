// What would otherwise be passes over memory of their own: a whole small head, and the derivative of a layer with its bias gradient.
//
// Same rules as population.cu: a slot axis, `mode` says who takes part, no float atomics, every sum in an order that depends on shapes
// alone. T is the element type of activations. cuBLASLt's own fusions (ReLU masks, bias gradients) were measured on an H200 to cost two to
// three times the plain product, so the products stay plain and these kernels do the rest in one pass.
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

// ---------------------------------------------------------------------------------------------------------------------------------
// head: logits, softmax cross-entropy, its gradient, and the gradient at the layer before, in one pass over the rows.
//
//   states [S], batch, mode, slice (rows of a block)
//   rows, live, labels, weights, class_weights   as in `loss`
//   h              outputs of the layer before, [S, B, h_stride], at their first column; h_member from slot to slot; width of them
//   w              [padded, w_stride] weights of the head, of T, w_member from slot to slot
//   bias           the f32 master, bias_member from slot to slot
//   classes, padded
//   act            of the layer before (0 identity, 1 relu, 2 tanh)
//   gradient       [S, B, padded] of T: w × (softmax - onehot), padding 0; null when scoring
//   dh             like h: the gradient there, times the derivative; null where nothing before it learns, or when scoring
//   partial        [S, blocks, 2] f64 loss and weight; null: logits only
//   bias_partial   [S, blocks, padded] column sums of the rounded gradient; written with gradient
//   column_partial [S, blocks, width] column sums of the rounded dh; written with dh
//   confusion      [S, classes, classes] u64 counts added to, or null
//   logits         [S, B, padded] f32 without bias, or null
//
// A warp takes ROWS rows at once, a lane 16 bytes of every chunk of columns; the head's weights lie in shared memory as floats, in the order
// in which lanes read them.
// ---------------------------------------------------------------------------------------------------------------------------------
template <typename T, int CHUNKS, int CLASSES, int ROWS>
__device__ __forceinline__ void head(const State* __restrict__ states, u32 batch, u32 mode, u32 slice, const u32* __restrict__ rows,
                                     const float* __restrict__ live, const u8* __restrict__ labels, const float* __restrict__ weights,
                                     const float* __restrict__ class_weights, const T* __restrict__ h, u64 h_stride, u64 h_member, u32 width,
                                     const T* __restrict__ w, u64 w_stride, u64 w_member, const float* __restrict__ bias, u64 bias_member,
                                     u32 classes, u32 padded, u32 act, T* __restrict__ gradient, T* __restrict__ dh, double* __restrict__ partial,
                                     float* __restrict__ bias_partial, float* __restrict__ column_partial, u64* __restrict__ confusion,
                                     float* __restrict__ logits, float* shared) {
    constexpr int PER = 16 / sizeof(T);
    constexpr int COLUMNS = CHUNKS * 32 * PER;
    const u32 slot = blockIdx.y;
    const State& state = states[slot];
    if (idle(state, mode)) return;
    __shared__ double losses[8], sums[8];
    __shared__ float heads[8][CLASSES];
    __shared__ u32 counts[64];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    for (u32 i = threadIdx.x; i < CLASSES * COLUMNS; i += 256) {
        const u32 c = i / COLUMNS, column = i % COLUMNS;
        const u32 chunk = column / (32 * PER), owner = column % (32 * PER) / PER, e = column % PER;
        const float value = c < classes && column < width ? to_float(w[slot * w_member + c * w_stride + column]) : 0.0f;
        shared[c * COLUMNS + chunk * 32 * PER + e / 4 * 128 + owner * 4 + e % 4] = value;
    }
    if (threadIdx.x < 64) counts[threadIdx.x] = 0;
    __syncthreads();

    float offset[CLASSES], head_sum[CLASSES], column_sum[CHUNKS][PER];
#pragma unroll
    for (int c = 0; c < CLASSES; c++) offset[c] = c < classes ? bias[slot * bias_member + c] : 0.0f, head_sum[c] = 0.0f;
#pragma unroll
    for (int k = 0; k < CHUNKS; k++)
#pragma unroll
        for (int e = 0; e < PER; e++) column_sum[k][e] = 0.0f;

    const u32 begin = blockIdx.x * slice, end = begin + slice < batch ? begin + slice : batch;
    double lost = 0.0, weighed = 0.0;
    for (u32 base = begin + warp * ROWS; base < end; base += 8 * ROWS) {
        uint4 kept[ROWS][CHUNKS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            // Rows behind the end walk along on the last one and leave nothing behind.
            const u32 b = base + r < end ? base + r : end - 1;
#pragma unroll
            for (int k = 0; k < CHUNKS; k++) {
                const u32 column = (k * 32 + lane) * PER;
                kept[r][k] = column < width ? *reinterpret_cast<const uint4*>(h + slot * h_member + b * h_stride + column) : make_uint4(0, 0, 0, 0);
            }
        }
        float z[ROWS][CLASSES];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < CLASSES; c++) z[r][c] = 0.0f;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++) {
            float x[ROWS][PER];
#pragma unroll
            for (int r = 0; r < ROWS; r++) spread(kept[r][k], x[r], (const T*)0);
#pragma unroll
            for (int c = 0; c < CLASSES; c++) {
#pragma unroll
                for (int part = 0; part < PER / 4; part++) {
                    const float4 v = *reinterpret_cast<const float4*>(shared + c * COLUMNS + k * 32 * PER + part * 128 + lane * 4);
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        z[r][c] += x[r][part * 4] * v.x;
                        z[r][c] += x[r][part * 4 + 1] * v.y;
                        z[r][c] += x[r][part * 4 + 2] * v.z;
                        z[r][c] += x[r][part * 4 + 3] * v.w;
                    }
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < CLASSES; c++)
#pragma unroll
                for (int step = 16; step > 0; step /= 2) z[r][c] += __shfl_xor_sync(0xffffffffu, z[r][c], step);

        // Every lane of the warp now has the row's sums and computes the same.
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool inside = base + r < end;
            const u64 place = (u64)slot * batch + (inside ? base + r : end - 1);
            if (logits && inside) {
                float mine = 0.0f;
#pragma unroll
                for (int c = 0; c < CLASSES; c++) mine = lane == c && c < classes ? z[r][c] : mine;
                if (lane < padded) logits[place * padded + lane] = mine;
            }
            if (!partial) continue;
            float top = __uint_as_float(0xff800000u);
            u32 guess = 0;
#pragma unroll
            for (int c = 0; c < CLASSES; c++) {
                z[r][c] = __fadd_rn(z[r][c], offset[c]);
                if (c < classes && z[r][c] > top) top = z[r][c], guess = c;
            }
            const u32 row = rows[place], label = labels[row];
            const bool known = label < classes, alive = live[place] != 0.0f;
            float total = 0.0f, own = 0.0f;
#pragma unroll
            for (int c = 0; c < CLASSES; c++) {
                if (c == label) own = z[r][c] - top;
                z[r][c] = c < classes ? expf(z[r][c] - top) : 0.0f;
                total += z[r][c];
            }
            float weight = weights ? weights[row] : 1.0f;
            if (class_weights && known) weight = __fmul_rn(weight, class_weights[(u64)state.index * classes + label]);
            if (!alive || !inside) weight = 0.0f;
            if (inside && lane == 0) {
                lost += (double)weight * (double)(logf(total) - (known ? own : 0.0f));
                weighed += (double)weight;
                if (confusion && alive && known) atomicAdd(&counts[label * classes + guess], 1u);
            }
            const float part = 1.0f / total;
#pragma unroll
            for (int c = 0; c < CLASSES; c++) {
                const float p = z[r][c] * part;
                z[r][c] = c < classes ? to_float(round_to<T>(__fmul_rn(weight, c == label ? p - 1.0f : p))) : 0.0f;
                head_sum[c] += z[r][c];
            }
            if (gradient && inside) {
                float mine = 0.0f;
#pragma unroll
                for (int c = 0; c < CLASSES; c++) mine = lane == c ? z[r][c] : mine;
                if (lane < padded) gradient[place * padded + lane] = round_to<T>(mine);
            }
        }
        if (!dh) continue;
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
#pragma unroll
                for (int part = 0; part < PER / 4; part++) {
                    const float4 v = *reinterpret_cast<const float4*>(shared + c * COLUMNS + k * 32 * PER + part * 128 + lane * 4);
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        made[r][part * 4] += z[r][c] * v.x;
                        made[r][part * 4 + 1] += z[r][c] * v.y;
                        made[r][part * 4 + 2] += z[r][c] * v.z;
                        made[r][part * 4 + 3] += z[r][c] * v.w;
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float x[PER];
                spread(kept[r][k], x, (const T*)0);
#pragma unroll
                for (int e = 0; e < PER; e++) {
                    made[r][e] = to_float(round_to<T>(made[r][e] * slope(x[e], act)));
                    column_sum[k][e] += base + r < end ? made[r][e] : 0.0f;
                }
                if (base + r < end && column < width)
                    *reinterpret_cast<uint4*>(dh + slot * h_member + (base + r) * h_stride + column) = gathered(made[r], (const T*)0);
            }
        }
    }
    if (!partial) return;

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
    if (!dh) return;
    // The weights are done with: their memory adds up the warps' columns, one warp after the other.
    for (u32 turn = 0; turn < 8; turn++) {
        __syncthreads();
        if (warp != turn) continue;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
#pragma unroll
            for (int e = 0; e < PER; e++) {
                float* to = shared + (k * 32 + lane) * PER + e;
                *to = turn == 0 ? column_sum[k][e] : *to + column_sum[k][e];
            }
    }
    __syncthreads();
    for (u32 column = threadIdx.x; column < width; column += 256)
        column_partial[((u64)slot * gridDim.x + blockIdx.x) * width + column] = shared[column];
}

// ---------------------------------------------------------------------------------------------------------------------------------
// derive_sum: dz = dy × act'(y), rounded, in place, and the column sums of what was written.
//
//   states [S], mode, act, batch, slice, width
//   dz       [S, B, stride] at its first column, in: dy, out: dz; member from slot to slot
//   y        like dz
//   partial  [S, blocks, width]; then sum_partials with n = width
// ---------------------------------------------------------------------------------------------------------------------------------
template <typename T>
__device__ __forceinline__ void derive_sum(const State* __restrict__ states, u32 mode, u32 act, u32 batch, u32 slice, u32 width,
                                           T* __restrict__ dz, const T* __restrict__ y, u64 stride, u64 member, float* __restrict__ partial) {
    constexpr int PER = 16 / sizeof(T);
    const u32 slot = blockIdx.z;
    if (idle(states[slot], mode)) return;
    __shared__ float sums[8][32 * PER];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 column = (blockIdx.x * 32 + lane) * PER;
    const u32 begin = blockIdx.y * slice, end = begin + slice < batch ? begin + slice : batch;
    float sum[PER];
#pragma unroll
    for (int e = 0; e < PER; e++) sum[e] = 0.0f;
    if (column < width) {
        T* to = dz + slot * member + column;
        const T* from = y + slot * member + column;
#pragma unroll 4
        for (u32 b = begin + warp; b < end; b += 8) {
            float d[PER], o[PER];
            spread(*reinterpret_cast<const uint4*>(to + b * stride), d, (const T*)0);
            spread(*reinterpret_cast<const uint4*>(from + b * stride), o, (const T*)0);
#pragma unroll
            for (int e = 0; e < PER; e++) {
                d[e] = to_float(round_to<T>(d[e] * slope(o[e], act)));
                sum[e] += d[e];
            }
            *reinterpret_cast<uint4*>(to + b * stride) = gathered(d, (const T*)0);
        }
    }
#pragma unroll
    for (int e = 0; e < PER; e++) sums[warp][lane * PER + e] = sum[e];
    __syncthreads();
    const u32 own = blockIdx.x * 32 * PER + threadIdx.x;
    if (threadIdx.x < 32 * PER && own < width) {
        float all = 0.0f;
        for (u32 i = 0; i < 8; i++) all += sums[i][threadIdx.x];
        partial[((u64)slot * gridDim.y + blockIdx.y) * width + own] = all;
    }
}

#define HEAD(T, SUFFIX, CHUNKS, CLASSES, ROWS)                                                                                           \
    extern "C" __global__ void __launch_bounds__(256, 2) head_##SUFFIX##_##CHUNKS##_##CLASSES(                                           \
        const State* states, u32 batch, u32 mode, u32 slice, const u32* rows, const float* live, const u8* labels, const float* weights, \
        const float* class_weights, const T* h, u64 h_stride, u64 h_member, u32 width, const T* w, u64 w_stride, u64 w_member,           \
        const float* bias, u64 bias_member, u32 classes, u32 padded, u32 act, T* gradient, T* dh, double* partial, float* bias_partial,  \
        float* column_partial, u64* confusion, float* logits) {                                                                          \
        extern __shared__ float shared[];                                                                                                \
        head<T, CHUNKS, CLASSES, ROWS>(states, batch, mode, slice, rows, live, labels, weights, class_weights, h, h_stride, h_member,    \
                                       width, w, w_stride, w_member, bias, bias_member, classes, padded, act, gradient, dh, partial,     \
                                       bias_partial, column_partial, confusion, logits, shared);                                         \
    }

// As many rows at once as registers allow.
#define BOTH(T, SUFFIX)                                                                                                                  \
    HEAD(T, SUFFIX, 1, 3, 4)                                                                                                             \
    HEAD(T, SUFFIX, 2, 3, 2)                                                                                                             \
    HEAD(T, SUFFIX, 4, 3, 2)                                                                                                             \
    HEAD(T, SUFFIX, 1, 8, 2)                                                                                                             \
    HEAD(T, SUFFIX, 2, 8, 2)                                                                                                             \
    extern "C" __global__ void __launch_bounds__(256) derive_sum_##SUFFIX(const State* states, u32 mode, u32 act, u32 batch, u32 slice,  \
                                                                          u32 width, T* dz, const T* y, u64 stride, u64 member,          \
                                                                          float* partial) {                                              \
        derive_sum<T>(states, mode, act, batch, slice, width, dz, y, stride, member, partial);                                           \
    }

BOTH(bf16, bf16)
BOTH(float, f32)
