// The honest mode on a card. Small nets: a block owns some roots for a whole search, and takes the next ones when it is
// done; one launch is a search from all roots. Wider ones: a launch for each simulation, between products of the
// library.
// flags: --fmad=false
// registers: 255

#include "honest.cuh"
#include "net.cuh"

// Rows of a product, and roots of a block, at most.
constexpr u32 MOST_ROWS = 64;
constexpr u32 MOST_EACH = WARPS;
// What is evaluated.
constexpr u32 ROOTS = 0, SCENARIOS = 1, CODES = 2;

// A whole search with small nets.
struct HonestSmall {
    Honest search;
    SearchNet net;
    View<const u32> groups; // [groups, 2] the first root and how many, all with one net
    View<f32> own;          // [trees, rows of a root, account::SHOWN] what accounts are shown
    u32 words;              // of a net's packed weights
    u32 biases;             // of a net
    u32 each;               // roots of a block, at most
    u32 weights_inside;     // whether weights are copied into shared memory
};

// One round of a search with any net: evaluations of the round before, then what is to be evaluated next.
struct HonestRound {
    Honest search;
    View<f32> shown;        // [roots, rows, inputs] `rows` as many as the round has
    View<const f32> logits; // [roots, rows, actions]
    View<const f32> values; // [roots, rows]
    View<u32> ends;         // [roots, 2] where a simulation ended, and whether something was expanded there
    u32 each;               // roots of a block
    u32 round;              // 0 shows the roots, 1 all scenarios, simulations + 2 concludes
};

// What a kernel gets of a row of a model.
struct Probe {
    Models models;
    View<u32> to; // [1] the row's clock time
    u32 model;
    u32 row;
};

// All roots of a block expand their jobs: draws, then markets, then decisions, of which each is shown by `put`. The
// block waits before it and after it. At the root of the tree there are `actions` of them beside each other.
template <typename At, typename Put>
__device__ __forceinline__ void
expand_jobs(const Honest& all, const At& at, Job* jobs, u32 count, u32 codes, u32 actions, const Put& put) {
    for (u32 i = threadIdx.x; i < count * codes; i += THREADS) {
        Job& job = jobs[i / codes];
        if (job.works && job.draws) draw(all, at(i / codes), job, i % codes);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < count * codes; i += THREADS) {
        const Job& job = jobs[i / codes];
        if (job.works && job.draws) settle(all, at(i / codes), job, i % codes);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < count * codes * actions; i += THREADS) {
        const u32 g = i / (codes * actions), row = i % (codes * actions);
        const Job& job = jobs[g];
        const Search own = at(g);
        const u32 action = actions > 1 ? row / codes : job.action;
        if (!job.works || !(own.tree.node(job.decision)[LEGAL] >> action & 1)) continue;
        f32 shown[account::SHOWN];
        step(all, own, job, action, job.child + row, row % codes, shown);
        put(g, row, shown);
    }
    __syncthreads();
}

// Afterstates of a job take the mean over their codes, by a whole warp.
__device__ __forceinline__ void install(const Search& own, u32 after, u32 actions) {
    for (u32 a = 0; a < actions; ++a) {
        if (actions > 1 && !(own.tree.node(0)[LEGAL] >> a & 1)) continue;
        const f32 mean = mean_over_codes(own, after + a);
        if (threadIdx.x % 32 == 0) own.after(after + a)[MEAN] = as_u32(mean);
    }
    __syncwarp();
}

__global__ void pack_honest(const Pack given) { pack_net(given); }

__global__ void __launch_bounds__(THREADS) honest_small(const __grid_constant__ HonestSmall given) {
    extern __shared__ uint4 shared[];
    __shared__ Job jobs[MOST_EACH];
    const Honest& all = given.search;
    const SearchNet& net = given.net;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, features = all.models.features;
    const u32 inputs = features + account::SHOWN;
    // Weights, biases, activations, outputs.
    uint4* at = shared;
    uint4* inside = at;
    if (given.weights_inside) at += given.words / 4;
    f32* biases = reinterpret_cast<f32*>(at);
    at += (given.biases + 3) / 4;
    bf16* shown = reinterpret_cast<bf16*>(at);
    bf16* other = shown + MOST_ROWS * net.wide;
    at += 2 * MOST_ROWS * net.wide / 8;
    f32* last = reinterpret_cast<f32*>(at);
    const u32 outputs = net.layer[net.layers - 1].tiles * 8, padded = net.layer[0].steps * 32;
    const u32 per_root = ACTIONS * all.scenarios > all.codes ? ACTIONS * all.scenarios : all.codes;
    u32 loaded = 0xffffffffu;
    const uint4* packed = inside;
    for (u32 group = blockIdx.x; 2 * (u64)group < given.groups.len; group += gridDim.x) {
        const u32 first = given.groups[2 * (u64)group], count = given.groups[2 * (u64)group + 1];
        const u32 number = all.root_words[(u64)first * ROOT_WORDS + ROOT_NET];
        __syncthreads();
        if (number != loaded) {
            if (((u64)number + 1) * given.words > net.packed.len) __trap();
            const uint4* from = reinterpret_cast<const uint4*>(net.packed.data + (u64)number * given.words);
            if (given.weights_inside) {
                for (u32 i = threadIdx.x; i < given.words / 4; i += THREADS) inside[i] = from[i];
            } else {
                packed = from;
            }
            for (u32 i = threadIdx.x; i < given.biases; i += THREADS) biases[i] = net.biases[(u64)number * given.biases + i];
            loaded = number;
        }
        const u32 first_tree = blockIdx.x * given.each;
        const auto search = [&](u32 g) { return search_at(all, first + g, first_tree + g); };
        const auto put = [&](u32 g, u32 row, const f32 (&numbers)[account::SHOWN]) {
            const u64 to = ((u64)(first_tree + g) * per_root + row) * account::SHOWN;
            if (to + account::SHOWN > given.own.len) __trap();
            float4* own = reinterpret_cast<float4*>(given.own.data + to);
            own[0] = make_float4(numbers[0], numbers[1], numbers[2], numbers[3]);
            own[1] = make_float4(numbers[4], numbers[5], numbers[6], numbers[7]);
        };
        // Evaluates `rows` decisions of each root: those behind its job, at a root for all actions, or the root itself.
        const auto evaluate = [&](u32 rows, u32 of) {
            const bool roots = of == ROOTS;
            // Actions of a root that are not legal have no decisions.
            const auto is_there = [&](const Search& own, u32 row) {
                return of != SCENARIOS || (own.tree.node(0)[LEGAL] >> (row / all.scenarios) & 1);
            };
            for (u32 from = 0; from < count * rows; from += MOST_ROWS) {
                const u32 here = min(MOST_ROWS, count * rows - from);
                for (u32 i = warp; i < here; i += WARPS) {
                    const u32 g = (from + i) / rows, row = (from + i) % rows;
                    const Search own = search(g);
                    if (!jobs[g].works || !is_there(own, row)) continue;
                    const f32* observed;
                    if (roots) {
                        observed = floats_of(all, first + g) - features;
                    } else {
                        const u32 place = own.tree.node(jobs[g].child + row)[STATE] & 0xffffu;
                        const u64 at_row = row_at(all.models, own.model, own.market(place)[ROW]) * features;
                        if (at_row + features > all.models.observations.len) __trap();
                        observed = all.models.observations.data + at_row;
                    }
                    const f32* numbers = given.own.data + ((u64)(first_tree + g) * per_root + row) * account::SHOWN;
                    for (u32 j = lane; j < padded; j += 32) {
                        const f32 x = j < features ? observed[j] : j < inputs ? numbers[j - features] : 0.0f;
                        shown[i * net.wide + j] = __float2bfloat16_rn(x);
                    }
                }
                __syncthreads();
                if (here <= 16) run_net<1>(net, packed, biases, shown, other, last);
                else if (here <= 32) run_net<2>(net, packed, biases, shown, other, last);
                else run_net<4>(net, packed, biases, shown, other, last);
                if (threadIdx.x < here) {
                    const u32 g = (from + threadIdx.x) / rows, row = (from + threadIdx.x) % rows;
                    const Search own = search(g);
                    if (jobs[g].works && is_there(own, row)) {
                        const f32* z = last + threadIdx.x * outputs;
                        const f32* prior = floats_of(all, first + g) + ROOT_PRIOR;
                        const f32 logits[ACTIONS] = {roots ? z[0] + prior[0] : z[0], roots ? z[1] + prior[1] : z[1],
                                                     roots ? z[2] + prior[2] : z[2]};
                        evaluated(own.tree, roots ? 0 : jobs[g].child + row, ACTIONS, logits, z[ACTIONS] * own.model.unit);
                    }
                }
                __syncthreads();
            }
        };
        if (threadIdx.x < count) {
            const Search own = search(threadIdx.x);
            begin(all, own);
            expand_root(all, own, jobs[threadIdx.x]);
            f32 numbers[account::SHOWN];
            const f32* time = floats_of(all, own.root) + ROOT_TIME;
            account::show(params_of(all, own.root), account::load<false, false>(own.accounts, own.decisions, 0),
                          bar_of_root(all, own.root), time[0], time[1], numbers);
            put(threadIdx.x, 0, numbers);
        }
        __syncthreads();
        evaluate(1, ROOTS);
        expand_jobs(all, search, jobs, count, all.scenarios, ACTIONS, put);
        evaluate(ACTIONS * all.scenarios, SCENARIOS);
        if (warp < count) install(search(warp), 0, ACTIONS);
        __syncthreads();
        for (u32 simulation = 0; simulation < all.simulations; ++simulation) {
            End end{0, NONE, true};
            if (warp < count) {
                const Search own = search(warp);
                end = select_way(all, own, simulation);
                __syncwarp();
                if (lane == 0) {
                    if (end.action == NONE) jobs[warp].works = 0;
                    else expand(all, own, end.node, end.action, simulation, jobs[warp]);
                }
            }
            __syncthreads();
            expand_jobs(all, search, jobs, count, all.codes, 1, put);
            evaluate(all.codes, CODES);
            if (warp < count) {
                const Search own = search(warp);
                const bool works = jobs[warp].works;
                if (works) install(own, jobs[warp].after, 1);
                if (lane == 0) back_up_way(own, works ? jobs[warp].after : end.node, works || end.is_after);
            }
            __syncthreads();
        }
        if (warp < count) conclude_root(all, search(warp));
    }
}

__global__ void __launch_bounds__(THREADS) honest_round(const __grid_constant__ HonestRound given) {
    __shared__ Job jobs[MOST_EACH];
    const Honest& all = given.search;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, features = all.models.features;
    const u32 inputs = features + account::SHOWN;
    const u32 first = blockIdx.x * given.each, count = min(given.each, all.roots - first);
    const auto search = [&](u32 g) { return search_at(all, first + g, first + g); };
    const u32 before = given.round == 0 ? 0 : given.round == 1 ? 1 : given.round == 2 ? ACTIONS * all.scenarios : all.codes;
    const u32 rows = given.round == 0 ? 1 : given.round == 1 ? ACTIONS * all.scenarios : all.codes;
    const auto put = [&](u32 g, u32 row, const f32 (&numbers)[account::SHOWN]) {
        const u64 to = ((u64)(first + g) * rows + row) * inputs + features;
        if (to + account::SHOWN > given.shown.len) __trap();
        for (u32 i = 0; i < account::SHOWN; ++i) given.shown.data[to + i] = numbers[i];
    };
    // Observations of what was expanded, or of the roots.
    const auto observe = [&](bool roots) {
        for (u32 i = warp; i < count * rows; i += WARPS) {
            const u32 g = i / rows, row = i % rows;
            if (!jobs[g].works) continue;
            const Search own = search(g);
            const f32* observed = floats_of(all, first + g) - features;
            if (!roots) {
                if (given.round == 1 && !(own.tree.node(0)[LEGAL] >> (row / all.scenarios) & 1)) continue;
                const u32 place = own.tree.node(jobs[g].child + row)[STATE] & 0xffffu;
                const u64 at_row = row_at(all.models, own.model, own.market(place)[ROW]) * features;
                if (at_row + features > all.models.observations.len) __trap();
                observed = all.models.observations.data + at_row;
            }
            const u64 to = ((u64)(first + g) * rows + row) * inputs;
            if (to + features > given.shown.len) __trap();
            for (u32 j = lane; j < features; j += 32) given.shown.data[to + j] = observed[j];
        }
    };
    if (given.round == 0) {
        if (threadIdx.x < count) {
            const Search own = search(threadIdx.x);
            begin(all, own);
            jobs[threadIdx.x].works = 1;
            f32 numbers[account::SHOWN];
            const f32* time = floats_of(all, own.root) + ROOT_TIME;
            account::show(params_of(all, own.root), account::load<false, false>(own.accounts, own.decisions, 0),
                          bar_of_root(all, own.root), time[0], time[1], numbers);
            put(threadIdx.x, 0, numbers);
        }
        __syncthreads();
        observe(true);
        return;
    }
    // What was evaluated of the round before: the root, its scenarios, or the codes that a simulation expanded.
    for (u32 i = threadIdx.x; i < count * before; i += THREADS) {
        const u32 g = i / before, row = i % before, root = first + g;
        const Search own = search(g);
        const u64 from = (u64)root * before + row;
        const bool is_root = given.round == 1, scenarios = given.round == 2;
        if (scenarios && !(own.tree.node(0)[LEGAL] >> (row / all.scenarios) & 1)) continue;
        if (given.round > 2 && !given.ends[2 * (u64)root + 1]) continue;
        if ((from + 1) * ACTIONS > given.logits.len) __trap();
        const f32* z = given.logits.data + from * ACTIONS;
        const f32* prior = floats_of(all, root) + ROOT_PRIOR;
        const f32 logits[ACTIONS] = {is_root ? z[0] + prior[0] : z[0], is_root ? z[1] + prior[1] : z[1],
                                     is_root ? z[2] + prior[2] : z[2]};
        const u32 child =
            is_root ? 0 : scenarios ? 1 + row : 1 + ACTIONS * all.scenarios + (given.round - 3) * all.codes + row;
        evaluated(own.tree, child, ACTIONS, logits, given.values[from] * own.model.unit);
    }
    __syncthreads();
    if (given.round == 1) {
        if (threadIdx.x < count) expand_root(all, search(threadIdx.x), jobs[threadIdx.x]);
        __syncthreads();
        expand_jobs(all, search, jobs, count, all.scenarios, ACTIONS, put);
        observe(false);
        return;
    }
    const u32 simulation = given.round - 2;
    if (warp < count) {
        const Search own = search(warp);
        const u64 root = first + warp;
        if (given.round == 2) {
            install(own, 0, ACTIONS);
        } else {
            const u32 end = given.ends[2 * root];
            if (given.ends[2 * root + 1]) install(own, end & 0xffffu, 1);
            if (lane == 0) back_up_way(own, end & 0xffffu, end >> 16);
        }
        __syncwarp();
        if (simulation < all.simulations) {
            const End end = select_way(all, own, simulation);
            __syncwarp();
            if (lane == 0) {
                const bool expands = end.action != NONE;
                if (expands) expand(all, own, end.node, end.action, simulation, jobs[warp]);
                jobs[warp].works = expands;
                given.ends[2 * root] = expands ? jobs[warp].after | 1u << 16 : end.node | (end.is_after ? 1u << 16 : 0u);
                given.ends[2 * root + 1] = expands;
            }
        }
    }
    if (simulation == all.simulations) {
        if (warp < count) conclude_root(all, search(warp));
        return;
    }
    __syncthreads();
    expand_jobs(all, search, jobs, count, all.codes, 1, put);
    observe(false);
}

__global__ void probe_row(const Probe given) {
    const Model model = model_at(given.models, given.model);
    given.to[0] = given.models.clocks[row_at(given.models, model, given.row)];
}

// The net of comparisons: f32 sums in order of what is shown, by weights of each output, without layers.
struct Plain {
    View<const f32> shown;   // [rows, inputs]
    View<const f32> weights; // [actions + 1, inputs]
    View<f32> logits;        // [rows, actions]
    View<f32> values;        // [rows]
    u32 inputs;
    u32 rows;
};

__global__ void plain_net(const Plain given) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= given.rows) return;
    for (u32 o = 0; o <= ACTIONS; ++o) {
        f32 sum = 0.0f;
        for (u32 i = 0; i < given.inputs; ++i)
            sum = sum + given.weights[(u64)o * given.inputs + i] * given.shown[(u64)row * given.inputs + i];
        if (o < ACTIONS) given.logits[(u64)row * ACTIONS + o] = sum;
        else given.values[row] = sum;
    }
}
