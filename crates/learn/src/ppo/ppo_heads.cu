// The heads of a policy's two towers in a minibatch, in one kernel: outputs, losses, and the gradients at the outputs
// and before the heads, from what the last hidden layers left (`HeadOnCard` of `compute`).
//
// | kernel           | block | grid                              | serves heads of                 |
// |------------------|-------|-----------------------------------|---------------------------------|
// | head_losses_N    | 256   | [ceil(B / slice), P, 2 towers]    | up to 256 N inputs, N 1, 2 or 4 |
//
// A block has a slice of rows of one tower, a warp every eighth of them, a lane eight columns of each 256. The weights
// of a head stay in registers. Sums over columns are added by lanes, then in a tree over them; sums over rows by warps,
// then warp after warp; nothing depends on how many members there are.
// registers: 255

#include "../../../compute/src/population/population.cuh"
#include "rollout.cuh"

// No place in a rollout.
constexpr u32 NOWHERE = 0xffffffffu;
constexpr u32 WARPS = 8;
constexpr u32 ALL = 0xffffffffu;
constexpr u32 PAD = 8;     // outputs of a head with padding
constexpr u32 ABREAST = 2; // rows that a warp has at once

// A head, as `HeadOnCard` says it.
struct HeadPlace {
    View<const u16> input; // [P, B, inputs]
    View<u16> d_input;     // [P, B, inputs]
    View<u16> gradient;    // [P, B, PAD]
    View<f32> input_sums;  // [P, slices, inputs]
    View<f32> sums;        // [P, slices, PAD]
    u32 inputs;
    u32 outputs;
    u32 weight;            // offset in a row of the parameters, as bias
    u32 bias;
    u32 act;               // of the layer before
};

struct HeadLosses {
    Members members;
    Rollout seen;
    View<const u32> clock;  // [2]
    View<const u32> places; // [P, B]
    View<const f32> centre; // [P, minibatches, 2]
    View<f32> z;            // [P, B, outputs], as d_z
    View<f32> value;        // [P, B], as d_value
    View<f32> d_z;
    View<f32> d_value;
    View<f64> partial;      // [P, slices, 6]
    View<const f32> master; // [P, params]
    View<const u16> copy;   // [P, params] bf16
    HeadPlace heads[2];     // of the policy, of the value
    u64 params;
    u32 per_epoch;          // minibatches of an epoch
    u32 slice;              // rows of one
};

// Eight neighbours.
__device__ __forceinline__ void spread(uint4 v, f32 (&x)[8]) {
    x[0] = low_half(v.x), x[1] = high_half(v.x), x[2] = low_half(v.y), x[3] = high_half(v.y);
    x[4] = low_half(v.z), x[5] = high_half(v.z), x[6] = low_half(v.w), x[7] = high_half(v.w);
}
__device__ __forceinline__ uint4 gathered(const f32 (&x)[8]) {
    return make_uint4(pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7]));
}
__device__ __forceinline__ f32 rounded(f32 x) { return __bfloat162float(__float2bfloat16_rn(x)); }

// What a row of a rollout has for the losses of one tower.
struct LossInputs {
    f32 advantage, action, log_probability, old;
    u32 legal;
};

template <u32 CHUNKS> __device__ __forceinline__ void head_losses(const HeadLosses& given) {
    __shared__ f32 columns[WARPS][CHUNKS * 256];
    __shared__ f64 losses[WARPS][6];
    __shared__ f32 outputs[WARPS][PAD];
    const Members& members = given.members;
    const u32 p = blockIdx.y, tower = blockIdx.z, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const HeadPlace& head = given.heads[tower];
    const u32 batch = members.batch, minibatch = given.clock[1], inputs = head.inputs, wide = head.outputs;
    const u64 first = (u64)p * batch, all = (u64)members.accounts * members.steps;
    if ((first + batch) * inputs > head.input.len || (first + batch) * inputs > head.d_input.len || inputs > CHUNKS * 256) __trap();
    if ((first + batch) * PAD > head.gradient.len || (first + batch) > given.places.len) __trap();
    const bf16* weights = reinterpret_cast<const bf16*>(&given.copy[p * given.params + head.weight]);
    uint4 w[3][CHUNKS];
    f32 offset[3] = {};
#pragma unroll
    for (u32 o = 0; o < 3; o++) {
        if (o < wide) offset[o] = given.master[p * given.params + head.bias + o];
#pragma unroll
        for (u32 k = 0; k < CHUNKS; k++) {
            const u32 column = (k * 32 + lane) * 8;
            w[o][k] = make_uint4(0, 0, 0, 0);
            if (o < wide && column < inputs) w[o][k] = __ldg(reinterpret_cast<const uint4*>(weights + o * inputs + column));
        }
    }
    const f32 rows = (f32)min(batch, (u32)all - minibatch % given.per_epoch * batch);
    const f32* centre = &given.centre[((u64)p * members.epochs * given.per_epoch + minibatch) * 2];
    const f32 shift = centre[0], factor = centre[1];
    const f32 clip = tower == 0 ? members.clip[p] : members.clip_value[p];
    const f32 weight = tower == 0 ? members.entropy_weight[p] : members.value_weight[p];
    f32 sums[CHUNKS][8] = {}, head_sums[3] = {};
    f64 lost[6] = {};
    const u32 begin = blockIdx.x * given.slice, end = min(batch, begin + given.slice);
#pragma unroll 1
    for (u32 base = begin + warp; base < end; base += ABREAST * WARPS) {
        // All that is read of some rows is on its way before the first is used.
        uint4 x[ABREAST][CHUNKS];
        u32 place[ABREAST];
        LossInputs row[ABREAST];
#pragma unroll
        for (u32 r = 0; r < ABREAST; r++) {
            const u32 b = base + r * WARPS;
            place[r] = b < end ? given.places.data[first + b] : NOWHERE;
#pragma unroll
            for (u32 k = 0; k < CHUNKS; k++) {
                const u32 column = (k * 32 + lane) * 8;
                x[r][k] = make_uint4(0, 0, 0, 0);
                if (b < end && column < inputs)
                    x[r][k] = *reinterpret_cast<const uint4*>(head.input.data + (first + b) * inputs + column);
            }
        }
#pragma unroll
        for (u32 r = 0; r < ABREAST; r++) {
            row[r] = {};
            if (place[r] == NOWHERE) continue;
            const u64 from = p * all + place[r];
            row[r].advantage = given.seen.advantage[from], row[r].old = given.seen.value[from];
            if (tower == 0) {
                row[r].action = given.seen.action[from], row[r].log_probability = given.seen.log_probability[from];
                row[r].legal = given.seen.legal[from];
            }
        }
        f32 z[ABREAST][3] = {};
#pragma unroll
        for (u32 r = 0; r < ABREAST; r++)
#pragma unroll
            for (u32 k = 0; k < CHUNKS; k++) {
                f32 h[8];
                spread(x[r][k], h);
#pragma unroll
                for (u32 o = 0; o < 3; o++) {
                    f32 v[8];
                    spread(w[o][k], v);
#pragma unroll
                    for (u32 e = 0; e < 8; e++) z[r][o] = __fmaf_rn(h[e], v[e], z[r][o]);
                }
            }
#pragma unroll
        for (u32 away = 16; away > 0; away /= 2)
#pragma unroll
            for (u32 r = 0; r < ABREAST; r++)
#pragma unroll
                for (u32 o = 0; o < 3; o++) z[r][o] += __shfl_xor_sync(ALL, z[r][o], away);
#pragma unroll
        for (u32 r = 0; r < ABREAST; r++) {
            const u32 b = base + r * WARPS;
            if (b >= end) break;
            f32 d[3] = {};
            Losses seen = {};
#pragma unroll
            for (u32 o = 0; o < 3; o++) z[r][o] = __fadd_rn(z[r][o], offset[o]);
            if (place[r] != NOWHERE) {
                if (tower == 0) {
                    const Taken taken = {row[r].action, row[r].log_probability, __fmul_rn(__fsub_rn(row[r].advantage, shift), factor), row[r].legal};
                    policy_loss(members.actions, clip, weight, rows, z[r], taken, d, seen);
                } else {
                    d[0] = value_loss(clip, weight, rows, z[r][0], row[r].old,
                                      __fadd_rn(row[r].advantage, row[r].old), seen);
                }
                lost[0] += 1.0, lost[1] += (f64)seen.policy, lost[2] += (f64)seen.value;
                lost[3] += (f64)seen.entropy, lost[4] += (f64)seen.kl, lost[5] += (f64)seen.clipped;
            }
            if (lane < wide) {
                const f32 own = lane == 0 ? z[r][0] : lane == 1 ? z[r][1] : z[r][2], own_d = lane == 0 ? d[0] : lane == 1 ? d[1] : d[2];
                const u64 at = (first + b) * wide + lane;
                if (tower == 0) given.z[at] = own, given.d_z[at] = own_d;
                else given.value[at] = own, given.d_value[at] = own_d;
            }
#pragma unroll
            for (u32 o = 0; o < 3; o++) d[o] = o < wide ? rounded(d[o]) : 0.0f, head_sums[o] += d[o];
            if (lane == 0) *reinterpret_cast<uint4*>(head.gradient.data + (first + b) * PAD) = make_uint4(pack(d[0], d[1]), pack(d[2], 0.0f), 0, 0);
#pragma unroll
            for (u32 k = 0; k < CHUNKS; k++) {
                const u32 column = (k * 32 + lane) * 8;
                f32 h[8], v[3][8], dh[8];
                spread(x[r][k], h);
#pragma unroll
                for (u32 o = 0; o < 3; o++) spread(w[o][k], v[o]);
#pragma unroll
                for (u32 e = 0; e < 8; e++) {
                    const f32 sum = __fmaf_rn(d[2], v[2][e], __fmaf_rn(d[1], v[1][e], __fmul_rn(d[0], v[0][e])));
                    dh[e] = rounded(sum * slope(h[e], head.act));
                    sums[k][e] += dh[e];
                }
                if (column < inputs) *reinterpret_cast<uint4*>(head.d_input.data + (first + b) * inputs + column) = gathered(dh);
            }
        }
    }
#pragma unroll
    for (u32 k = 0; k < CHUNKS; k++)
#pragma unroll
        for (u32 e = 0; e < 8; e++) columns[warp][(k * 32 + lane) * 8 + e] = sums[k][e];
    if (lane == 0) {
#pragma unroll
        for (u32 i = 0; i < 6; i++) losses[warp][i] = lost[i];
#pragma unroll
        for (u32 o = 0; o < PAD; o++) outputs[warp][o] = o < 3 ? head_sums[o < 3 ? o : 0] : 0.0f;
    }
    __syncthreads();
    const u64 slice = (u64)p * gridDim.x + blockIdx.x;
    for (u32 column = threadIdx.x; column < inputs; column += blockDim.x) {
        f32 sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < WARPS; i++) sum += columns[i][column];
        head.input_sums[slice * inputs + column] = sum;
    }
    if (threadIdx.x < PAD) {
        f32 sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < WARPS; i++) sum += outputs[i][threadIdx.x];
        head.sums[slice * PAD + threadIdx.x] = sum;
    }
    // The value's losses are the second tower's, all others the first's.
    if (threadIdx.x < 6 && (threadIdx.x == 2) == (tower == 1)) {
        f64 sum = 0.0;
#pragma unroll
        for (u32 i = 0; i < WARPS; i++) sum += losses[i][threadIdx.x];
        given.partial[slice * 6 + threadIdx.x] = sum;
    }
}

__global__ void __launch_bounds__(256) head_losses_1(const __grid_constant__ HeadLosses given) { head_losses<1>(given); }
__global__ void __launch_bounds__(256) head_losses_2(const __grid_constant__ HeadLosses given) { head_losses<2>(given); }
__global__ void __launch_bounds__(256) head_losses_4(const __grid_constant__ HeadLosses given) { head_losses<4>(given); }
