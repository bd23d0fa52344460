// What stands between the rows of sequences and nets whose LSTM layers carry a state: their inputs side by side, what
// the plain layers read of every h, and the gradient there on the way back. Rows of nets are member by member, [P, T ×
// B, ·] with T steps of B rows; those of `recurrent` have steps first, [T, P, B, ·].
//
// | kernel    | block | grid                               |
// |-----------|-------|------------------------------------|
// | feed      | 256   | [ceil(T × B × features / 256), P]  |
// | read_h    | 256   | [ceil(T × B × width / 256), P]     |
// | give_h    | 256   | [ceil(T × B × width / 256), P]     |
// registers: 40

#include "../cuda/view.cuh"

// Which row of a member's sequences a thread has, and which column of some.
struct RowPlace {
    u64 row;    // of [P, T × B]
    u64 walked; // of [T, P, B]
    u32 column;
    bool inside;

    __device__ __forceinline__ RowPlace(u32 steps, u32 batch, u32 width) {
        const u64 at = (u64)blockIdx.x * 256 + threadIdx.x, own = at / width, rows = (u64)steps * batch;
        column = (u32)(at % width);
        inside = own < rows;
        row = blockIdx.y * rows + own;
        walked = (own / batch * gridDim.y + blockIdx.y) * batch + own % batch;
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// feed: one input of all rows, scaled, in its columns of what LSTM layers read. An id that the table does not have
// is read as NaN, which nobody overlooks.
// ---------------------------------------------------------------------------------------------------------------------
struct Feed {
    View<const u32> ids;     // [P, T × B], or none for a dense input
    View<const u32> map;     // [ids] the row of an id, or none: the id itself
    View<const f32> table;   // [rows, stride], or none
    View<const f32> mean;    // [P, features], or none both
    View<const f32> inverse;
    View<const f32> extras;  // [P, T × B, extras_width] the numbers of dense inputs, or none
    View<f32> to;            // [T, P, B, width]
    u32 stride;
    u32 features;
    u32 column;              // of the input's first number in `to`
    u32 width;
    u32 extras_width;
    u32 extras_column;
    u32 steps;
    u32 batch;
};

__global__ void __launch_bounds__(256) feed(const __grid_constant__ Feed given) {
    const RowPlace own(given.steps, given.batch, given.features);
    if (!own.inside) return;
    f32 x = __int_as_float(0x7fc00000);
    if (!given.table) {
        x = given.extras[own.row * given.extras_width + given.extras_column + own.column];
    } else {
        const u32 id = given.ids[own.row];
        const bool known = !given.map || id < given.map.len;
        const u64 at = known ? (u64)(given.map ? given.map.data[id] : id) * given.stride + own.column : given.table.len;
        if (at < given.table.len) x = given.table.data[at];
        const u64 scale = (u64)blockIdx.y * given.features + own.column;
        // No fma here: the bits are to be those of the CPU.
        if (given.mean) x = __fmul_rn(__fsub_rn(x, given.mean[scale]), given.inverse[scale]);
    }
    given.to[own.walked * given.width + given.column + own.column] = x;
}

// ---------------------------------------------------------------------------------------------------------------------
// read_h: every h of a tower, or the rows as they are, in its columns of what the plain layers read.
// ---------------------------------------------------------------------------------------------------------------------
struct ReadHidden {
    View<const f32> from; // [T, P, B, width]
    View<f32> to;         // [P, T × B, to_width]
    u32 width;
    u32 to_width;
    u32 column;
    u32 steps;
    u32 batch;
};

__global__ void __launch_bounds__(256) read_h(const __grid_constant__ ReadHidden given) {
    const RowPlace own(given.steps, given.batch, given.width);
    if (!own.inside) return;
    given.to[own.row * given.to_width + given.column + own.column] = given.from[own.walked * given.width + own.column];
}

// ---------------------------------------------------------------------------------------------------------------------
// give_h: the gradient at every h of a tower, out of that at what the plain layers read.
// ---------------------------------------------------------------------------------------------------------------------
struct GiveHidden {
    View<const f32> from; // [P, T × B, stride]
    View<f32> to;         // [T, P, B, width]
    u32 stride;
    u32 column;
    u32 width;
    u32 steps;
    u32 batch;
};

__global__ void __launch_bounds__(256) give_h(const __grid_constant__ GiveHidden given) {
    const RowPlace own(given.steps, given.batch, given.width);
    if (!own.inside) return;
    given.to[own.walked * given.width + own.column] = given.from[own.row * given.stride + given.column + own.column];
}
