// A small net inside a block that does other things too: 256 threads take up to 64 rows through layers whose weights
// lie packed, in shared memory or in the cache.
//
// Two towers beside each other are layers of both: what one does not read of the other is 0.
//
// Packed: for every 8 outputs and every 32 inputs the 32 lanes' words as `mma` takes them, four each. Inputs are padded
// to 32 and outputs to 32 (the last layer's to 8) with zeros. bf16 products, f32 sums and biases.
#pragma once

#include "../../../compute/src/cuda/view.cuh"
#include "../../../compute/src/ops/tensor.cuh"
#include "../../../compute/src/population/population.cuh"

constexpr u32 WARPS = 8;
constexpr u32 THREADS = 32 * WARPS;
// Tiles of 8 outputs that a warp takes together.
constexpr u32 TILES = 4;

struct SearchLayer {
    u32 packed; // where its weights begin, in groups of four words
    u32 bias;   // where its biases begin
    u32 steps;  // of 32 inputs
    u32 tiles;  // of 8 outputs
    u32 act;
};

// The last layer has the actions' logits, then the value.
struct SearchNet {
    View<const u32> packed;
    View<const f32> biases;
    u32 layers;
    u32 wide; // numbers between two rows of activations
    SearchLayer layer[5];
};

// A layer as it lies in a member's row of parameters.
struct PackLayer {
    u32 weight;  // [outputs, stride]
    u32 bias;
    u32 stride;
    u32 inputs;
    u32 outputs;
    u32 second_weight; // of the second head or tower, whose outputs come behind the first's; none where `second` is 0
    u32 second_bias;
    u32 second_stride;
    u32 second_inputs;
    u32 second_shift;  // where its inputs begin among those of the layer
    u32 second;
};

// Parameters as kernels of whole searches take them.
struct Pack {
    View<const f32> params;   // [params] a member's
    View<const u32> columns;  // [inputs] where a number that the net is shown lies in a row of the first layer
    View<u32> packed;
    View<f32> biases;
    u32 layers;
    SearchLayer layer[5];
    PackLayer from[5];
};

__device__ __forceinline__ f32 weight_of(const Pack& given, u32 l, u32 output, u32 input) {
    const PackLayer& from = given.from[l];
    if (output < from.outputs) {
        if (input >= from.inputs) return 0.0f;
        const u32 column = l == 0 ? given.columns[input] : input;
        return given.params[(u64)from.weight + (u64)output * from.stride + column];
    }
    const u32 second = output - from.outputs;
    if (second >= from.second || input < from.second_shift || input - from.second_shift >= from.second_inputs) return 0.0f;
    const u32 column = l == 0 ? given.columns[input] : input - from.second_shift;
    return given.params[(u64)from.second_weight + (u64)second * from.second_stride + column];
}

__device__ __forceinline__ void pack_net(const Pack& given) {
    const u32 threads = gridDim.x * blockDim.x, self = blockIdx.x * blockDim.x + threadIdx.x;
    for (u32 l = 0; l < given.layers; ++l) {
        const SearchLayer& to = given.layer[l];
        for (u32 i = self; i < to.steps * to.tiles * 128; i += threads) {
            const u32 word = i % 4, lane = i / 4 % 32, step = i / 128 % to.steps, tile = i / 128 / to.steps;
            const u32 output = tile * 8 + lane / 4;
            const u32 input = step * 32 + word / 2 * 16 + word % 2 * 8 + lane % 4 * 2;
            given.packed[(u64)to.packed * 4 + i] =
                pack(weight_of(given, l, output, input), weight_of(given, l, output, input + 1));
        }
        const PackLayer& from = given.from[l];
        for (u32 i = self; i < to.tiles * 8; i += threads) {
            f32 bias = 0.0f;
            if (i < from.outputs) bias = given.params[(u64)from.bias + i];
            else if (i - from.outputs < from.second) bias = given.params[(u64)from.second_bias + i - from.outputs];
            given.biases[to.bias + i] = bias;
        }
    }
}

// 16 × ROWS rows through a layer: from `in` to `out`, both with `wide` numbers a row, or to f32 `last`, `tiles * 8` a
// row. The block waits before and after it.
template <u32 ROWS>
__device__ __forceinline__ void
run_layer(const SearchLayer& layer, const uint4* packed, const f32* biases, const bf16* in, bf16* out, f32* last, u32 wide) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    // Lanes 0 to 15 give the rows of the left half, the others of the right.
    const u32 from = shared_address(in + (lane % 16) * wide + lane / 16 * 8);
    for (u32 first = warp * TILES; first < layer.tiles; first += WARPS * TILES) {
        f32 sums[ROWS][TILES][4] = {};
        const uint4* weights = packed + layer.packed + (u64)first * layer.steps * 32 + lane;
#pragma unroll 2
        for (u32 step = 0; step < layer.steps; ++step) {
            uint4 b[TILES];
#pragma unroll
            for (u32 n = 0; n < TILES; ++n)
                b[n] = first + n < layer.tiles ? weights[(n * layer.steps + step) * 32] : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (u32 m = 0; m < ROWS; ++m) {
                u32 a[2][4];
                load_matrices<false>(a[0], from + (m * 16 * wide + step * 32) * 2);
                load_matrices<false>(a[1], from + (m * 16 * wide + step * 32 + 16) * 2);
#pragma unroll
                for (u32 n = 0; n < TILES; ++n) {
                    mma(sums[m][n], a[0], b[n].x, b[n].y);
                    mma(sums[m][n], a[1], b[n].z, b[n].w);
                }
            }
        }
#pragma unroll
        for (u32 n = 0; n < TILES; ++n) {
            if (first + n >= layer.tiles) continue;
            const u32 column = (first + n) * 8 + 2 * t;
            const f32 left = biases[layer.bias + column], right = biases[layer.bias + column + 1];
#pragma unroll
            for (u32 m = 0; m < ROWS; ++m) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u32 row = m * 16 + half * 8 + g;
                    const f32 x = activation(sums[m][n][2 * half] + left, layer.act);
                    const f32 y = activation(sums[m][n][2 * half + 1] + right, layer.act);
                    if (last) *reinterpret_cast<float2*>(last + row * layer.tiles * 8 + column) = make_float2(x, y);
                    else *reinterpret_cast<u32*>(out + row * wide + column) = pack(x, y);
                }
            }
        }
    }
    __syncthreads();
}

// The whole net: what is shown lies in `shown`, `other` is as large; the outputs go to `last`.
template <u32 ROWS>
__device__ __forceinline__ void
run_net(const SearchNet& net, const uint4* packed, const f32* biases, bf16* shown, bf16* other, f32* last) {
    bf16 *in = shown, *out = other;
    for (u32 l = 0; l < net.layers; ++l) {
        run_layer<ROWS>(net.layer[l], packed, biases, in, out, l + 1 == net.layers ? last : nullptr, net.wide);
        bf16* next = in;
        in = out;
        out = next;
    }
}
