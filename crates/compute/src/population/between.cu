// What may stand between a layer's product and the next layer: a norm, and values left out.
//
// Same rules as population.cu: a slot axis, `mode` says who takes part, no float atomics, every sum in an order that
// depends on shapes alone. T is the element type of activations. Products of layers with a norm leave f32 sums without
// bias in `z`.
//
// | kernel        | block | grid                                                     |
// |---------------|-------|----------------------------------------------------------|
// | leave_out_T   | 256   | [ceil(B × width / 1024), S]                              |
// | put_back_T    | 256   | [ceil(B × width / 1024), S]                              |
// | normalise_T   | 256   | [ceil(B / 8), S], a warp for a row                       |
// | denormalise_T | 256   | [ceil(B / 8), S], a warp for a row                       |
// | norm_sums_T   | 256   | [ceil(width / 128), blocks, S], blocks = ceil(B / slice) |
// registers: 64

#include "population.cuh"
#include "../random/random.cuh"

// What a step leaves out of a layer, by value: 32 bytes. The Rust twin is `random/dropout.rs`.
struct Left {
    u64 seed;
    u32 stream;       // the stream and the layer
    u32 threshold;    // words below it are left out; 0: nothing is
    float factor;     // what is kept is multiplied with this
    float share;      // and this leads back
    const u32* begin; // [1] the first row of this part in the whole batch, or null where the batch is whole
};
static_assert(sizeof(Left) == 32, "Left must lie as the launch packs it");

// Factors of four neighbouring units of a row of the batch, or of its part.
__device__ __forceinline__ float4 kept(const Left& left, const SlotState& state, u32 row, u32 unit) {
    if (left.threshold == 0) return make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    if (left.begin) row += *left.begin;
    const uint4 w = philox(left.seed, make_uint4(row, state.step, left.stream | (unit / 4) << 22, state.id));
    return make_float4(w.x < left.threshold ? 0.0f : left.factor, w.y < left.threshold ? 0.0f : left.factor,
                       w.z < left.threshold ? 0.0f : left.factor, w.w < left.threshold ? 0.0f : left.factor);
}

__device__ __forceinline__ float times(float x, float factor) { return factor == 0.0f ? 0.0f : x * factor; }
__device__ __forceinline__ float4 times(float4 x, float4 f) {
    return make_float4(times(x.x, f.x), times(x.y, f.y), times(x.z, f.z), times(x.w, f.w));
}
__device__ __forceinline__ float4 sloped(float4 d, float4 y, float share, u32 act) {
    return make_float4(d.x * slope(y.x * share, act), d.y * slope(y.y * share, act), d.z * slope(y.z * share, act),
                       d.w * slope(y.w * share, act));
}

// Sum over a warp, the same tree always; every lane gets it.
__device__ __forceinline__ float warp_total(float x) {
    for (u32 step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// ---------------------------------------------------------------------------------------------------------------------
// leave_out: y = y × factor or 0, in place, rounded.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct LeaveOutArgs {
    const SlotState* states; // [S]
    T* y;                // [S, B, y_stride] at its first column
    u64 y_stride;
    u64 y_member;        // from slot to slot
    Left left;
    u32 mode;
    u32 batch;
    u32 width;
};

template <typename T>
__device__ __forceinline__ void leave_out(const LeaveOutArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const u32 slot = blockIdx.y;
    const SlotState& state = states[slot];
    if (idle(state, given.mode)) return;
    const u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
    const u64 b = i / (given.width / 4);
    const u32 column = (u32)(i - b * (given.width / 4)) * 4;
    if (b >= given.batch) return;
    T* at = given.y + slot * given.y_member + b * given.y_stride + column;
    store4(at, times(load4(at), kept(given.left, state, (u32)b, column)));
}
// ---------------------------------------------------------------------------------------------------------------------
// put_back: dz = dy × factor × act'(y × share) or 0, rounded.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct PutBackArgs {
    const SlotState* states; // [S]
    const float* dy;     // [S, B, dy_stride] at its first column, as y and dz
    u64 dy_stride;
    u64 dy_member;
    const T* y;
    u64 y_stride;
    u64 y_member;
    T* dz;               // may be dy where T is f32
    u64 dz_stride;
    u64 dz_member;
    Left left;
    u32 mode;
    u32 act;
    u32 batch;
    u32 width;
};

template <typename T>
__device__ __forceinline__ void put_back(const PutBackArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const T* __restrict__ y = given.y;
    const u32 slot = blockIdx.y;
    const SlotState& state = states[slot];
    if (idle(state, given.mode)) return;
    const u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
    const u64 b = i / (given.width / 4);
    const u32 column = (u32)(i - b * (given.width / 4)) * 4;
    if (b >= given.batch) return;
    const float4 d = times(load4(given.dy + slot * given.dy_member + b * given.dy_stride + column), kept(given.left, state, (u32)b, column));
    const float4 o = load4(y + slot * given.y_member + b * given.y_stride + column);
    store4(given.dz + slot * given.dz_member + b * given.dz_stride + column, sloped(d, o, given.left.share, given.act));
}

// ---------------------------------------------------------------------------------------------------------------------
// normalise: x = (z + bias - mean) / sqrt(var + 1e-5), rounded and kept; y = act(x × gain + shift), rounded, then as in
// `leave_out`.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct NormaliseArgs {
    const SlotState* states;  // [S]
    const float* z;       // [S, B, width] f32 without bias
    const T* bias;
    const float* learned; // gain [width] and shift [width], f32 masters
    u64 params;           // from slot to slot, of bias and learned
    T* normed;            // [S, B, normed_stride]
    u64 normed_stride;
    float* deviations;    // [S, B] 1 / sqrt(var + 1e-5)
    T* y;                 // at its first column
    u64 y_stride;
    u64 y_member;
    Left left;
    u32 mode;
    u32 act;
    u32 batch;
    u32 width;
    u32 outputs;          // the true width
};

template <typename T>
__device__ __forceinline__ void normalise(const NormaliseArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const u32 mode = given.mode;
    Left left = given.left;
    const u32 act = given.act;
    const u32 batch = given.batch;
    const u32 width = given.width;
    const u32 outputs = given.outputs;
    const float* __restrict__ z = given.z;
    const T* __restrict__ bias = given.bias;
    const float* __restrict__ learned = given.learned;
    const u64 params = given.params;
    T* __restrict__ normed = given.normed;
    const u64 normed_stride = given.normed_stride;
    float* __restrict__ deviations = given.deviations;
    T* __restrict__ y = given.y;
    const u64 y_stride = given.y_stride;
    const u64 y_member = given.y_member;
    const u32 slot = blockIdx.y;
    const SlotState& state = states[slot];
    if (idle(state, mode)) return;
    const u32 lane = threadIdx.x % 32, b = blockIdx.x * 8 + threadIdx.x / 32;
    if (b >= batch) return;
    const u64 place = (u64)slot * batch + b;
    z += place * width, bias += slot * params, learned += slot * params;
    auto sum_at = [&](u32 column, float (&v)[4]) {
        const float4 a = load4(z + column), w = load4(bias + column);
        v[0] = a.x + w.x, v[1] = a.y + w.y, v[2] = a.z + w.z, v[3] = a.w + w.w;
    };
    float v[4], sum = 0.0f, squares = 0.0f;
    for (u32 column = lane * 4; column < width; column += 128) {
        sum_at(column, v);
        for (u32 e = 0; e < 4; e++) sum += column + e < outputs ? v[e] : 0.0f;
    }
    const float mean = warp_total(sum) / (float)outputs;
    for (u32 column = lane * 4; column < width; column += 128) {
        sum_at(column, v);
        for (u32 e = 0; e < 4; e++) squares += column + e < outputs ? (v[e] - mean) * (v[e] - mean) : 0.0f;
    }
    const float inverse = 1.0f / sqrtf(warp_total(squares) / (float)outputs + 1e-5f);
    if (lane == 0) deviations[place] = inverse;
    for (u32 column = lane * 4; column < width; column += 128) {
        sum_at(column, v);
        float made[4];
        for (u32 e = 0; e < 4; e++) {
            const bool real = column + e < outputs;
            v[e] = real ? to_float(round_to<T>((v[e] - mean) * inverse)) : 0.0f;
            made[e] = real ? v[e] * learned[column + e] + learned[width + column + e] : 0.0f;
            made[e] = to_float(round_to<T>(activation(made[e], act)));
        }
        store4(normed + place * normed_stride + column, make_float4(v[0], v[1], v[2], v[3]));
        const float4 out = make_float4(made[0], made[1], made[2], made[3]);
        store4(y + slot * y_member + b * y_stride + column, times(out, kept(left, state, b, column)));
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// denormalise: the way back through `leave_out`, the activation and the norm.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct DenormaliseArgs {
    const SlotState* states;     // [S]
    const float* dy;         // at its first column, as y and dz
    u64 dy_stride;
    u64 dy_member;
    const T* y;
    u64 y_stride;
    u64 y_member;
    const T* normed;         // as in `normalise`
    u64 normed_stride;
    const float* deviations;
    const float* gain;
    u64 params;
    float* kept_dn;          // [S, B, width] the gradient at x × gain + shift
    T* dz;
    u64 dz_stride;
    u64 dz_member;
    Left left;
    u32 mode;
    u32 act;
    u32 batch;
    u32 width;
    u32 outputs;
};

template <typename T>
__device__ __forceinline__ void denormalise(const DenormaliseArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const T* __restrict__ y = given.y;
    const T* __restrict__ normed = given.normed;
    const float* __restrict__ deviations = given.deviations;
    const float* __restrict__ gain = given.gain;
    float* __restrict__ kept_dn = given.kept_dn;
    const u32 slot = blockIdx.y;
    const SlotState& state = states[slot];
    if (idle(state, given.mode)) return;
    const u32 lane = threadIdx.x % 32, b = blockIdx.x * 8 + threadIdx.x / 32;
    if (b >= given.batch) return;
    const u64 place = (u64)slot * given.batch + b;
    gain += slot * given.params, normed += place * given.normed_stride, kept_dn += place * given.width;
    float sum = 0.0f, along = 0.0f;
    for (u32 column = lane * 4; column < given.width; column += 128) {
        const float4 back = times(load4(given.dy + slot * given.dy_member + b * given.dy_stride + column), kept(given.left, state, b, column));
        const float4 d = sloped(back, load4(y + slot * given.y_member + b * given.y_stride + column), given.left.share, given.act);
        store4(kept_dn + column, d);
        const float4 x = load4(normed + column), w = load4(gain + column);
        // Padding has a gain of 0.
        sum += d.x * w.x, sum += d.y * w.y, sum += d.z * w.z, sum += d.w * w.w;
        along += d.x * w.x * x.x, along += d.y * w.y * x.y, along += d.z * w.z * x.z, along += d.w * w.w * x.w;
    }
    const float mean = warp_total(sum) / (float)given.outputs, slant = warp_total(along) / (float)given.outputs;
    const float inverse = deviations[place];
    for (u32 column = lane * 4; column < given.width; column += 128) {
        const float4 d = load4(kept_dn + column), x = load4(normed + column), w = load4(gain + column);
        float4 made = make_float4((d.x * w.x - mean - x.x * slant) * inverse, (d.y * w.y - mean - x.y * slant) * inverse,
                                  (d.z * w.z - mean - x.z * slant) * inverse, (d.w * w.w - mean - x.w * slant) * inverse);
        if (column >= given.outputs) made.x = 0.0f;
        if (column + 1 >= given.outputs) made.y = 0.0f;
        if (column + 2 >= given.outputs) made.z = 0.0f;
        if (column + 3 >= given.outputs) made.w = 0.0f;
        store4(given.dz + slot * given.dz_member + b * given.dz_stride + column, made);
    }
}
// ---------------------------------------------------------------------------------------------------------------------
// norm_sums: gradients of gain and shift from what `denormalise` kept.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct NormSumsArgs {
    const SlotState* states;  // [S]
    const float* kept_dn; // [S, B, width]
    const T* normed;      // [S, B, normed_stride]
    u64 normed_stride;
    float* partial;       // [S, blocks, 2, width] sums of kept_dn × x and of kept_dn; then sum_partials, n = 2 × width
    u32 mode;
    u32 batch;
    u32 slice;
    u32 width;
};

template <typename T>
__device__ __forceinline__ void norm_sums(const NormSumsArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const float* __restrict__ kept_dn = given.kept_dn;
    const T* __restrict__ normed = given.normed;
    float* __restrict__ partial = given.partial;
    const u32 slot = blockIdx.z;
    if (idle(states[slot], given.mode)) return;
    __shared__ float4 gains[256], shifts[256]; // [8][32]
    const u32 column = blockIdx.x * 128 + threadIdx.x % 32 * 4;
    const u32 begin = blockIdx.y * given.slice, end = begin + given.slice < given.batch ? begin + given.slice : given.batch;
    float4 gain = make_float4(0.0f, 0.0f, 0.0f, 0.0f), shift = gain;
    if (column < given.width) {
#pragma unroll 4
        for (u32 b = begin + threadIdx.x / 32; b < end; b += 8) {
            const u64 place = (u64)slot * given.batch + b;
            const float4 d = load4(kept_dn + place * given.width + column), x = load4(normed + place * given.normed_stride + column);
            gain.x += d.x * x.x, gain.y += d.y * x.y, gain.z += d.z * x.z, gain.w += d.w * x.w;
            shift.x += d.x, shift.y += d.y, shift.z += d.z, shift.w += d.w;
        }
    }
    gains[threadIdx.x] = gain, shifts[threadIdx.x] = shift;
    __syncthreads();
    const u32 own = blockIdx.x * 128 + threadIdx.x % 128;
    if (own < given.width) {
        const float* flat = reinterpret_cast<const float*>(threadIdx.x < 128 ? gains : shifts);
        float all = 0.0f;
        for (u32 r = 0; r < 8; r++) all += flat[r * 128 + threadIdx.x % 128];
        const u64 at = ((u64)slot * gridDim.y + blockIdx.y) * 2 + (threadIdx.x < 128 ? 0 : 1);
        partial[at * given.width + own] = all;
    }
}

#define KERNELS(T, SUFFIX)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(256) leave_out_##SUFFIX(const LeaveOutArgs<T> given) { leave_out<T>(given); }        \
    extern "C" __global__ void __launch_bounds__(256) put_back_##SUFFIX(const PutBackArgs<T> given) { put_back<T>(given); }           \
    extern "C" __global__ void __launch_bounds__(256) normalise_##SUFFIX(const NormaliseArgs<T> given) { normalise<T>(given); }       \
    extern "C" __global__ void __launch_bounds__(256) denormalise_##SUFFIX(const DenormaliseArgs<T> given) { denormalise<T>(given); } \
    extern "C" __global__ void __launch_bounds__(256) norm_sums_##SUFFIX(const NormSumsArgs<T> given) { norm_sums<T>(given); }

KERNELS(bf16, bf16)
KERNELS(float, f32)
