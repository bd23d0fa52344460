// Trees of the reference mode, as `tree.rs`, `select.rs` and `outcome.rs` have them: one thread a root, the same
// arithmetic in the same order. Compiled without fused multiply-adds, so that on equal evaluations visits are equal.
//
// A node is `NODE` words and three for each edge. One simulation is in flight, so an edge's value is its child's, and
// what is under way need not be told from what is done.
#pragma once

#include "../../../compute/src/cuda/view.cuh"

constexpr u32 NONE = 0xffffu;

// Words of a node before its edges.
constexpr u32 PARENT = 0; // and which of its edges leads here, in the upper half
constexpr u32 VISITS = 1; // once for its evaluation, and for every simulation that went through it
constexpr u32 RAW = 2;    // as evaluated
constexpr u32 VALUE = 3;  // mean of what was backed up
constexpr u32 REWARD = 4; // of the edge that leads here
constexpr u32 DISCOUNT = 5;
constexpr u32 LEGAL = 6;  // actions, a bit each; of an afterstate 0
constexpr u32 DEPTH = 7;  // decisions before it
constexpr u32 STATE = 8;  // the world's own
constexpr u32 NODE = 9;
// Words of an edge.
constexpr u32 LOGIT = 0;
constexpr u32 PRIOR = 1;
constexpr u32 TAKEN = 2; // visits, and the child in the upper half
constexpr u32 EDGE = 3;

constexpr u32 PUCT = 0;
constexpr u32 GUMBEL = 1;

constexpr f32 TINY = 1e-8f;
constexpr f32 LEAST_NORMAL = 1.17549435e-38f;

// A search from many roots: how it goes, its memory, and what it finds.
struct Trees {
    View<u32> memory;           // [roots, stride], or none where blocks hold their own
    View<const u32> sequences;  // [considered + 1, simulations] visits of the action that is due at a root
    View<const f32> gumbels;    // [roots, actions]
    View<u32> visits;           // [roots, actions]
    View<f32> q;                // [roots, actions]
    View<f32> policy;           // [roots, actions]
    View<f32> value;            // [roots]
    View<u32> chosen;           // [roots]
    u32 stride;                 // words of a tree
    u32 roots;
    u32 actions;
    u32 codes;
    u32 simulations;
    u32 depth;
    u32 rule;
    u32 considered;
    f32 init;
    f32 base;
};

__device__ __forceinline__ f32 as_f32(u32 word) { return __uint_as_float(word); }
__device__ __forceinline__ u32 as_u32(f32 x) { return __float_as_uint(x); }

__device__ __forceinline__ f32 infinity() { return __uint_as_float(0x7f800000u); }

// One root's tree.
struct Tree {
    u32* words;
    u32 wide; // words of a node

    __device__ __forceinline__ u32* node(u32 at) const { return words + at * wide; }
    __device__ __forceinline__ u32* edge(u32 at, u32 e) const { return words + at * wide + NODE + e * EDGE; }
};

__device__ __forceinline__ u32 node_words(const Trees& all) {
    return NODE + EDGE * (all.codes > all.actions ? all.codes : all.actions);
}

// What it is worth to go to a child.
__device__ __forceinline__ f32 worth(const u32* child) {
    return as_f32(child[REWARD]) + as_f32(child[DISCOUNT]) * as_f32(child[VALUE]);
}

// A node's edges: MOST is at least their number, and up to four they are in registers.
template <u32 MOST> struct Edges {
    u32 visits[MOST];
    f32 q[MOST]; // 0 where it was not taken
    f32 logit[MOST];
    f32 prior[MOST];
};

template <u32 MOST> __device__ __forceinline__ void load(Edges<MOST>& to, const Tree& tree, u32 at, u32 count) {
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e) {
        if (e >= count) continue;
        const u32* own = tree.edge(at, e);
        to.logit[e] = as_f32(own[LOGIT]);
        to.prior[e] = as_f32(own[PRIOR]);
        const u32 taken = own[TAKEN];
        to.visits[e] = taken & 0xffffu;
        to.q[e] = to.visits[e] ? worth(tree.node(taken >> 16)) : 0.0f;
    }
}

// The largest score, the first of equals.
struct Best {
    u32 action;
    f32 score;

    __device__ __forceinline__ explicit Best(u32 legal) : action(__ffs(legal) - 1), score(-infinity()) {}
    __device__ __forceinline__ void see(u32 legal, u32 other, f32 with) {
        if (legal >> other & 1 && with > score) {
            action = other;
            score = with;
        }
    }
};

template <u32 MOST>
__device__ __forceinline__ u32 puct(const u32* own, const Edges<MOST>& edges, u32 count, f32 init, f32 base) {
    const f32 visits = (f32)own[VISITS], value = as_f32(own[VALUE]);
    const f32 weight = sqrtf(visits) * (init + logf((visits + base + 1.0f) / base));
    f32 least = value, most = value;
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e) {
        if (e >= count || edges.visits[e] == 0) continue;
        least = fminf(least, edges.q[e]);
        most = fmaxf(most, edges.q[e]);
    }
    const f32 spread = fmaxf(most - least, TINY);
    const u32 legal = own[LEGAL];
    Best best(legal);
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e) {
        if (e >= count) continue;
        const f32 q = edges.visits[e] ? edges.q[e] : least;
        best.see(legal, e, (q - least) / spread + weight * edges.prior[e] / ((f32)edges.visits[e] + 1.0f));
    }
    return best.action;
}

// Values of all actions as Gumbel MuZero sees them, into `to`.
template <u32 MOST>
__device__ __forceinline__ void completed(f32 (&to)[MOST], const u32* own, const Edges<MOST>& edges, u32 count) {
    u32 visits = 0, most_visits = 0;
    f32 tried = 0.0f, weighted = 0.0f;
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e) {
        if (e >= count || edges.visits[e] == 0) continue;
        const f32 prior = fmaxf(edges.prior[e], LEAST_NORMAL);
        visits += edges.visits[e];
        most_visits = max(most_visits, edges.visits[e]);
        tried += prior;
        weighted += prior * edges.q[e];
    }
    const f32 mean = tried > 0.0f ? weighted / tried : 0.0f;
    const f32 mixed = (as_f32(own[RAW]) + (f32)visits * mean) / ((f32)visits + 1.0f);
    f32 least = infinity(), most = -infinity();
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e) {
        if (e >= count) continue;
        to[e] = edges.visits[e] ? edges.q[e] : mixed;
        least = fminf(least, to[e]);
        most = fmaxf(most, to[e]);
    }
    const f32 scale = (50.0f + (f32)most_visits) * 0.1f / fmaxf(most - least, TINY);
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e)
        if (e < count) to[e] = scale * (to[e] - least);
}

template <u32 MOST>
__device__ __forceinline__ u32
gumbel_root(const u32* own, const Edges<MOST>& edges, u32 count, const f32* gumbels, u32 visits) {
    f32 values[MOST];
    completed(values, own, edges, count);
    const u32 legal = own[LEGAL];
    Best best(legal);
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e) {
        if (e >= count || edges.visits[e] != visits) continue;
        best.see(legal, e, fmaxf(gumbels[e] + edges.logit[e] + values[e], -1e9f));
    }
    return best.action;
}

// The improved policy of Gumbel MuZero, into `to`.
template <u32 MOST>
__device__ __forceinline__ void improved(f32 (&to)[MOST], const u32* own, const Edges<MOST>& edges, u32 count) {
    completed(to, own, edges, count);
    const u32 legal = own[LEGAL];
    f32 most = -infinity(), sum = 0.0f;
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e) {
        if (e >= count) continue;
        to[e] = legal >> e & 1 ? to[e] + edges.logit[e] : -infinity();
        most = fmaxf(most, to[e]);
    }
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e)
        if (e < count) to[e] = expf(to[e] - most);
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e)
        if (e < count) sum += to[e];
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e)
        if (e < count) to[e] /= sum;
}

template <u32 MOST>
__device__ __forceinline__ u32 gumbel_interior(const u32* own, const Edges<MOST>& edges, u32 count) {
    f32 policy[MOST];
    improved(policy, own, edges, count);
    u32 all = 0;
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e)
        if (e < count) all += edges.visits[e];
    const f32 share = 1.0f / (1.0f + (f32)all);
    const u32 legal = own[LEGAL];
    Best best(legal);
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 e = 0; e < MOST; ++e)
        if (e < count) best.see(legal, e, policy[e] - (f32)edges.visits[e] * share);
    return best.action;
}

// The code that is due.
__device__ __forceinline__ u32 due(const Tree& tree, u32 at, u32 codes) {
    u32 found = 0;
    f32 most = -infinity();
    for (u32 e = 0; e < codes; ++e) {
        const u32* own = tree.edge(at, e);
        const f32 score = as_f32(own[PRIOR]) / ((f32)(own[TAKEN] & 0xffffu) + 1.0f);
        if (score > most) {
            found = e;
            most = score;
        }
    }
    return found;
}

// A node whose evaluation is still to come.
__device__ __forceinline__ void
add_node(const Tree& tree, u32 at, u32 parent, u32 edge, u32 depth, u32 legal, u32 state, u32 edges) {
    u32* own = tree.node(at);
    own[PARENT] = parent | edge << 16;
    own[VISITS] = 1;
    own[RAW] = own[VALUE] = 0;
    own[REWARD] = 0;
    own[DISCOUNT] = as_u32(1.0f);
    own[LEGAL] = legal;
    own[DEPTH] = depth;
    own[STATE] = state;
    for (u32 e = 0; e < edges; ++e) tree.edge(at, e)[TAKEN] = NONE << 16;
}

// What the evaluation said of a decision. Actions that are not legal have no probability.
template <typename Logits>
__device__ __forceinline__ void evaluated(const Tree& tree, u32 at, u32 actions, const Logits& logits, f32 value) {
    u32* own = tree.node(at);
    own[RAW] = own[VALUE] = as_u32(value);
    const u32 legal = own[LEGAL];
    f32 most = -infinity(), sum = 0.0f;
    for (u32 a = 0; a < actions; ++a)
        if (legal >> a & 1) most = fmaxf(most, logits[a]);
    for (u32 a = 0; a < actions; ++a) {
        const bool may = legal >> a & 1;
        const f32 z = logits[a] - most, prior = may ? expf(z) : 0.0f;
        tree.edge(at, a)[LOGIT] = as_u32(may ? z : -3.402823466e38f);
        tree.edge(at, a)[PRIOR] = as_u32(prior);
        sum += prior;
    }
    for (u32 a = 0; a < actions; ++a) {
        u32* edge = tree.edge(at, a);
        edge[PRIOR] = as_u32(as_f32(edge[PRIOR]) / sum);
    }
}

// Where a simulation ended: a node that is there (`edge` is NONE), or an edge that leads to nothing yet.
struct Leaf {
    u32 node;
    u32 edge;
};

// Selects a way from the root down.
template <u32 MOST> __device__ __forceinline__ Leaf select(const Trees& all, const Tree& tree, u32 root, u32 simulation) {
    u32 at = 0;
    for (;;) {
        const u32* own = tree.node(at);
        u32 taken;
        if (own[LEGAL] == 0) {
            taken = due(tree, at, all.codes);
        } else {
            Edges<MOST> edges;
            load(edges, tree, at, all.actions);
            if (all.rule == PUCT) {
                taken = puct(own, edges, all.actions, all.init, all.base);
            } else if (at == 0) {
                const u32 considered = min(all.considered, (u32)__popc(own[LEGAL]));
                const u32 visits = all.sequences[(u64)considered * all.simulations + simulation];
                taken = gumbel_root(own, edges, all.actions, all.gumbels.data + (u64)root * all.actions, visits);
            } else {
                taken = gumbel_interior(own, edges, all.actions);
            }
        }
        const u32 child = tree.edge(at, taken)[TAKEN] >> 16;
        if (child == NONE) return {at, taken};
        const u32* below = tree.node(child);
        if (below[LEGAL] != 0 && below[DEPTH] >= all.depth) return {child, NONE};
        at = child;
    }
}

// Backs up from a node to the root.
__device__ __forceinline__ void back_up(const Tree& tree, u32 from) {
    u32 at = from;
    f32 found = as_f32(tree.node(at)[VALUE]);
    while (at != 0) {
        const u32* own = tree.node(at);
        const u32 above = own[PARENT] & 0xffffu;
        tree.edge(above, own[PARENT] >> 16)[TAKEN] += 1;
        found = as_f32(own[REWARD]) + as_f32(own[DISCOUNT]) * found;
        u32* parent = tree.node(above);
        const f32 done = (f32)parent[VISITS];
        parent[VALUE] = as_u32((as_f32(parent[VALUE]) * done + found) / (done + 1.0f));
        parent[VISITS] += 1;
        at = above;
    }
}

// What a search says of a root.
template <u32 MOST> __device__ __forceinline__ void conclude(const Trees& all, const Tree& tree, u32 root) {
    const u32* own = tree.node(0);
    const u32 actions = all.actions;
    Edges<MOST> edges;
    load(edges, tree, 0, actions);
    f32 policy[MOST];
    u32 sum = 0, most = 0;
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 a = 0; a < MOST; ++a) {
        if (a >= actions) continue;
        sum += edges.visits[a];
        most = max(most, edges.visits[a]);
    }
    u32 chosen = 0;
    if (all.rule == PUCT) {
        bool found = false;
#pragma unroll(MOST <= 4 ? MOST : 1)
        for (u32 a = 0; a < MOST; ++a) {
            if (a >= actions) continue;
            policy[a] = (f32)edges.visits[a] / (f32)sum;
            if (!found && edges.visits[a] == most) {
                chosen = a;
                found = true;
            }
        }
    } else {
        improved(policy, own, edges, actions);
        chosen = gumbel_root(own, edges, actions, all.gumbels.data + (u64)root * actions, most);
    }
#pragma unroll(MOST <= 4 ? MOST : 1)
    for (u32 a = 0; a < MOST; ++a) {
        if (a >= actions) continue;
        const u64 to = (u64)root * actions + a;
        all.visits[to] = edges.visits[a];
        all.q[to] = edges.q[a];
        all.policy[to] = policy[a];
    }
    all.value[root] = as_f32(own[VALUE]);
    all.chosen[root] = chosen;
}
