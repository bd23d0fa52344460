// The reference mode on a card. Small nets: a block owns some roots for a whole search, which is one launch. Wider
// ones: a launch for each simulation, between products of the library. Tables: a thread owns a root.
// flags: --fmad=false
// registers: 255

#include "net.cuh"
#include "worlds.cuh"

// A whole search with a small net in a world of rows.
struct SmallSearch {
    Trees trees;
    SearchNet net;
    LinearRows world;
    u32 each;            // roots of a block, at most 16 × the kernel's ROWS
    u32 weights_inside;  // whether weights are copied into shared memory
    u32 trees_inside;    // whether trees lie there
};

// One round of a search with any net: evaluations of the round before, then leaves for the next.
struct WideRound {
    Trees trees;
    LinearRows world;
    View<f32> shown;         // [roots, inputs]
    View<const f32> logits;  // [roots, actions]
    View<const f32> values;  // [roots]
    View<u32> leaves;        // [roots, 2] node, and whether it was evaluated
    u32 each;                // roots of a block
    u32 round;               // 0 shows the roots; simulations + 1 concludes
};

// A whole search on tables.
struct TableSearch {
    Trees trees;
    TableRows world;
};

__global__ void pack_params(const Pack given) { pack_net(given); }

// Roots of a block: thread to root, spread over warps so that few of a warp wait for each other.
__device__ __forceinline__ u32 root_of_thread() { return threadIdx.x % 32 * WARPS + threadIdx.x / 32; }

template <u32 MOST, u32 ROWS> __device__ __forceinline__ void search_small(const SmallSearch& given) {
    extern __shared__ uint4 shared[];
    const Trees& trees = given.trees;
    const SearchNet& net = given.net;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 first = blockIdx.x * given.each, count = min(given.each, trees.roots - first);
    // Weights, biases, activations, outputs, leaves, trees.
    uint4* at = shared;
    const uint4* packed = reinterpret_cast<const uint4*>(net.packed.data);
    if (given.weights_inside) {
        const u32 groups = (u32)(net.packed.len / 4);
        for (u32 i = threadIdx.x; i < groups; i += THREADS) at[i] = packed[i];
        packed = at;
        at += groups;
    }
    f32* biases = reinterpret_cast<f32*>(at);
    for (u32 i = threadIdx.x; i < net.biases.len; i += THREADS) biases[i] = net.biases[i];
    at += (net.biases.len + 3) / 4;
    bf16* shown = reinterpret_cast<bf16*>(at);
    bf16* other = shown + 16 * ROWS * net.wide;
    at += 2 * 16 * ROWS * net.wide / 8;
    const u32 outputs = net.layer[net.layers - 1].tiles * 8, padded = net.layer[0].steps * 32;
    f32* last = reinterpret_cast<f32*>(at);
    at += 16 * ROWS * outputs / 4;
    uint2* leaves = reinterpret_cast<uint2*>(at);
    at += 16 * ROWS / 2;
    u32* memory = given.trees_inside ? reinterpret_cast<u32*>(at) : trees.memory.data + (u64)first * trees.stride;
    if (!given.trees_inside && ((u64)first + count) * trees.stride > trees.memory.len) __trap();
    const u32 wide = node_words(trees), mine = root_of_thread();
    const bool owner = mine < count;
    const Tree tree{memory + (u64)(owner ? mine : 0) * trees.stride, wide};
    // Rows that are no root's are 0, and so is what lies behind a row's numbers.
    for (u32 i = threadIdx.x; i < 2 * 16 * ROWS * net.wide / 2; i += THREADS) reinterpret_cast<u32*>(shown)[i] = 0;
    __syncthreads();
    const auto show = [&](u32 row) {
        return [=](u32 i, f32 x) { shown[row * net.wide + i] = __float2bfloat16_rn(x); };
    };
    for (u32 row = warp; row < count; row += WARPS) linear_start(given.world, first + row, show(row));
    __syncthreads();
    run_net<ROWS>(net, packed, biases, shown, other, last);
    const u32 legal = 0xffffffffu >> (32 - trees.actions);
    if (owner) {
        add_node(tree, 0, 0, 0, 0, legal, 0, trees.actions);
        evaluated(tree, 0, trees.actions, last + mine * outputs, last[mine * outputs + trees.actions]);
    }
    u32 nodes = 1;
    for (u32 simulation = 0; simulation < trees.simulations; ++simulation) {
        Leaf leaf{0, NONE};
        if (owner) {
            leaf = select<MOST>(trees, tree, first + mine, simulation);
            leaves[mine] = make_uint2(leaf.node | leaf.edge << 16, nodes);
        }
        __syncthreads();
        for (u32 row = warp; row < count; row += WARPS) {
            const uint2 own = leaves[row];
            if (own.x >> 16 == NONE) continue;
            const f32 reward = linear_step(given.world, first + row, own.x & 0xffffu, own.y, own.x >> 16, show(row));
            __syncwarp(); // all lanes have read their leaf
            if (lane == 0) leaves[row].x = as_u32(reward);
            for (u32 i = given.world.inputs + lane; i < padded; i += 32) shown[row * net.wide + i] = __ushort_as_bfloat16(0);
        }
        __syncthreads();
        run_net<ROWS>(net, packed, biases, shown, other, last);
        if (!owner) continue;
        if (leaf.edge == NONE) {
            back_up(tree, leaf.node);
            continue;
        }
        add_node(tree, nodes, leaf.node, leaf.edge, tree.node(leaf.node)[DEPTH] + 1, legal, 0, trees.actions);
        tree.node(nodes)[REWARD] = leaves[mine].x;
        tree.node(nodes)[DISCOUNT] = as_u32(given.world.discount);
        tree.edge(leaf.node, leaf.edge)[TAKEN] = nodes << 16;
        evaluated(tree, nodes, trees.actions, last + mine * outputs, last[mine * outputs + trees.actions]);
        back_up(tree, nodes);
        nodes += 1;
    }
    if (owner) conclude<MOST>(trees, tree, first + mine);
}

__global__ void __launch_bounds__(THREADS) small_4_16(const SmallSearch given) { search_small<4, 1>(given); }
__global__ void __launch_bounds__(THREADS) small_4_32(const SmallSearch given) { search_small<4, 2>(given); }
__global__ void __launch_bounds__(THREADS) small_4_64(const SmallSearch given) { search_small<4, 4>(given); }
__global__ void __launch_bounds__(THREADS) small_32_16(const SmallSearch given) { search_small<32, 1>(given); }

template <u32 MOST> __device__ __forceinline__ void wide_round(const WideRound& given) {
    __shared__ uint2 leaves[THREADS];
    const Trees& trees = given.trees;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, mine = root_of_thread();
    const u32 first = blockIdx.x * given.each, count = min(given.each, trees.roots - first), root = first + mine;
    const bool owner = mine < count;
    if (((u64)first + count) * trees.stride > trees.memory.len) __trap();
    const Tree tree{trees.memory.data + (u64)(owner ? root : first) * trees.stride, node_words(trees)};
    const auto show = [&](u32 row) {
        return [=](u32 i, f32 x) { given.shown[(u64)row * given.world.inputs + i] = x; };
    };
    if (given.round == 0) {
        for (u32 row = warp; row < count; row += WARPS) linear_start(given.world, first + row, show(first + row));
        if (owner) add_node(tree, 0, 0, 0, 0, 0xffffffffu >> (32 - trees.actions), 0, trees.actions);
        if (owner) given.leaves[2 * (u64)root] = 0, given.leaves[2 * (u64)root + 1] = 1;
        return;
    }
    Leaf leaf{0, NONE};
    if (owner) {
        const u32 node = given.leaves[2 * (u64)root], shown = given.leaves[2 * (u64)root + 1];
        if (shown) {
            if (((u64)root + 1) * trees.actions > given.logits.len) __trap();
            evaluated(tree, node, trees.actions, given.logits.data + (u64)root * trees.actions, given.values[root]);
        }
        back_up(tree, node);
        if (given.round > trees.simulations) {
            conclude<MOST>(trees, tree, root);
        } else {
            leaf = select<MOST>(trees, tree, root, given.round - 1);
            // Nodes are numbered in order; word STATE of the root counts them.
            const u32 nodes = tree.node(0)[STATE] + 1;
            leaves[mine] = make_uint2(leaf.node | leaf.edge << 16, nodes);
            if (leaf.edge != NONE) {
                add_node(tree, nodes, leaf.node, leaf.edge, tree.node(leaf.node)[DEPTH] + 1, tree.node(0)[LEGAL], 0,
                         trees.actions);
                tree.node(nodes)[DISCOUNT] = as_u32(given.world.discount);
                tree.edge(leaf.node, leaf.edge)[TAKEN] = nodes << 16;
                tree.node(0)[STATE] = nodes;
            }
            given.leaves[2 * (u64)root] = leaf.edge == NONE ? leaf.node : nodes;
            given.leaves[2 * (u64)root + 1] = leaf.edge != NONE;
        }
    }
    if (given.round > trees.simulations) return;
    __syncthreads();
    for (u32 row = warp; row < count; row += WARPS) {
        const uint2 own = leaves[row];
        if (own.x >> 16 == NONE) continue;
        const f32 reward =
            linear_step(given.world, first + row, own.x & 0xffffu, own.y, own.x >> 16, show(first + row));
        if (lane == 0) {
            const Tree other{trees.memory.data + (u64)(first + row) * trees.stride, node_words(trees)};
            other.node(own.y)[REWARD] = as_u32(reward);
        }
    }
}

__global__ void __launch_bounds__(THREADS) wide_4(const WideRound given) { wide_round<4>(given); }
__global__ void __launch_bounds__(THREADS) wide_32(const WideRound given) { wide_round<32>(given); }

// The account of a table is a state, its market the code before: both in the node's own word.
__global__ void __launch_bounds__(64) table_search(const TableSearch given) {
    const Trees& trees = given.trees;
    const TableRows& world = given.world;
    const u32 root = blockIdx.x * blockDim.x + threadIdx.x;
    if (root >= trees.roots) return;
    if (((u64)root + 1) * trees.stride > trees.memory.len) __trap();
    const Tree tree{trees.memory.data + (u64)root * trees.stride, node_words(trees)};
    const u32 actions = trees.actions, codes = trees.codes, legal = 0xffffffffu >> (32 - actions);
    const auto evaluate = [&](u32 at, u32 state) {
        if (((u64)state + 1) * actions > world.logits.len) __trap();
        evaluated(tree, at, actions, world.logits.data + (u64)state * actions, world.value[state]);
    };
    add_node(tree, 0, 0, 0, 0, legal, world.roots[root], actions);
    evaluate(0, world.roots[root]);
    u32 nodes = 1;
    for (u32 simulation = 0; simulation < trees.simulations; ++simulation) {
        const Leaf leaf = select<32>(trees, tree, root, simulation);
        if (leaf.edge == NONE) {
            back_up(tree, leaf.node);
            continue;
        }
        const u32* above = tree.node(leaf.node);
        const u32 state = above[STATE] & 0xffffu, code = above[STATE] >> 16, depth = above[DEPTH];
        tree.edge(leaf.node, leaf.edge)[TAKEN] = nodes << 16;
        if (codes > 1 && above[LEGAL] != 0) {
            add_node(tree, nodes, leaf.node, leaf.edge, depth, 0, state | code << 16, codes);
            for (u32 k = 0; k < codes; ++k)
                tree.edge(nodes, k)[PRIOR] = as_u32(world.probability[(u64)code * codes + k]);
            const f32 value = world.afterstate[(u64)state * actions + leaf.edge];
            tree.node(nodes)[RAW] = tree.node(nodes)[VALUE] = as_u32(value);
        } else {
            // Behind an afterstate the action is the edge that led to it, and the edge is the code.
            const u32 action = above[LEGAL] != 0 ? leaf.edge : above[PARENT] >> 16;
            const u32 drawn = above[LEGAL] != 0 ? 0 : leaf.edge;
            const u64 row = ((u64)state * actions + action) * codes + drawn;
            add_node(tree, nodes, leaf.node, leaf.edge, depth + 1, legal, world.next[row] | drawn << 16, actions);
            tree.node(nodes)[REWARD] = as_u32(world.reward[row]);
            tree.node(nodes)[DISCOUNT] = as_u32(world.discount[row]);
            evaluate(nodes, world.next[row]);
        }
        back_up(tree, nodes);
        nodes += 1;
    }
    conclude<32>(trees, tree, root);
}
