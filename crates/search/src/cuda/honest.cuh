// The honest mode on a card, as `block.rs`, `tree.rs`, `outcome.rs`, `market.rs` and `bootstrap` have it: the same
// draws, the same accounts in f64, the same f32 sums in the same order. Compiled without fused multiply-adds, so that
// on equal evaluations visits, values and choices are equal.
//
// A tree has a place for everything that a search can add to it: the root's three afterstates with all scenarios come
// first, then those of each simulation with its K codes. Codes of an afterstate are decisions beside each other, and
// their markets lie beside each other too. One simulation is in flight, so an edge's value is its child's, and what is
// under way need not be told from what is done.
//
// Kernels reach a model's rows through `row_at` alone: a row behind the end of the model's training is the last one,
// and is noted.
#pragma once

#include "../../../account/src/show.cuh"
#include "../../../compute/src/random/random.cuh"
#include "tree.cuh"

constexpr u32 ACTIONS = 3;
// Words of a decision: `tree.cuh` says which. `STATE` is its market, with the visits of its code in the upper half.
constexpr u32 DECISION = NODE + ACTIONS * EDGE;
// Words of an afterstate.
constexpr u32 ABOVE = 0; // its decision, and the action in the upper half
constexpr u32 BELOW = 1; // the first decision behind it, and how many in the upper half
constexpr u32 MEAN = 2;  // over its codes
constexpr u32 AFTER = 3;
// Words of a market.
constexpr u32 ROW = 0;    // of the model; at the root none
constexpr u32 FOLLOW = 1; // the first market behind it; 0 where none is drawn yet
constexpr u32 PATH = 2;   // two words
constexpr u32 MARKET = 4;
// Numbers of a market: close, exchange rate, deviation, half the spread.
constexpr u32 PRICES = 4;
constexpr u32 NO_ROW = 0xffffffffu;

// As in bootstrap/mod.rs and bootstrap/cells.rs.
constexpr u32 COLUMNS = 3;
constexpr u32 BINS = 8;
constexpr u32 LEAST = 48;
constexpr u32 TRIES = 8;
constexpr u32 ANY = 0x80000000u;
constexpr u32 ENOUGH_SCENARIOS = 512;

// What `reached` notes.
constexpr u32 BEHIND = 1, NONE_LEFT = 2;

// Numbers of a root: rules, bar, account. Floats of a root behind its observation: time of day, logarithm of the bars
// to a forced close, key, what is believed of its actions, Gumbel draws. Words: path, model, net, clock times not
// drawn.
constexpr u32 ROOT_NUMBERS = account::PARAMS + account::BAR + account::STATE;
constexpr u32 ROOT_TIME = 0, ROOT_KEY = 2, ROOT_PRIOR = 5, ROOT_GUMBELS = 8, ROOT_FLOATS = 11;
constexpr u32 ROOT_PATH = 0, ROOT_MODEL = 2, ROOT_NET = 3, ROOT_EXCLUDED = 4, ROOT_WORDS = 6;
// Words of a model.
constexpr u32 MODEL_WORDS = 8;
// Words of what was found of a root.
constexpr u32 FOUND_VISITS = 0, FOUND_Q = 3, FOUND_POLICY = 6, FOUND_VALUE = 9, FOUND_ADVANTAGE = 10, FOUND_ERROR = 11,
              FOUND_CHOSEN = 12, FOUND_HELD = 13, FOUND = 14;

// Models, one behind the other. A model has its own first row and how many there are.
struct Models {
    View<const u32> models;       // [models, MODEL_WORDS] first row, rows, first member, members, first cell, ...
    View<const f64> bars;         // [rows, account::BAR]
    View<const f32> observations; // [rows, features]
    View<const f32> times;        // [rows, 2] time of day, logarithm of the bars to a forced close
    View<const u32> clocks;       // [rows]
    View<const f32> keys;         // [rows, COLUMNS] where its observation lies among the cells
    View<const u32> members;      // [members of all] rows by their cells
    View<const u32> starts;       // [cells of all] where a cell begins
    View<u32> reached;            // [1] whether a row behind a model's last was asked for, or none may be drawn
    u32 features;
};

// A search from many roots.
struct Honest {
    Models models;
    View<const f64> numbers;   // [roots, ROOT_NUMBERS]
    View<const f32> floats;    // [roots, features + ROOT_FLOATS]
    View<const u32> root_words; // [roots, ROOT_WORDS]
    View<const u32> sequences; // [considered + 1, simulations] visits of the action that is due at a root
    View<u32> words;           // [trees, word_stride] decisions, afterstates, markets
    View<f64> doubles;         // [trees, double_stride] accounts `[STATE, decisions]`, then prices `[PRICES, markets]`
    View<f32> worths;          // [trees, ACTIONS, scenarios] what scenarios are worth in the end
    View<u32> found;           // [roots, FOUND]
    u32 word_stride;
    u32 double_stride;
    u32 roots;
    u32 scenarios;
    u32 codes;
    u32 simulations;
    u32 depth;
    u32 rule;
    u32 considered;
    f32 init;
    f32 base;
    f32 discount;
    u64 seed;
};

__device__ __forceinline__ u32 decisions_of(const Honest& all) {
    return 1 + ACTIONS * all.scenarios + all.simulations * all.codes;
}
__device__ __forceinline__ u32 afters_of(const Honest& all) { return ACTIONS + all.simulations; }
__device__ __forceinline__ u32 markets_of(const Honest& all) { return 1 + all.scenarios + all.simulations * all.codes; }

struct Model {
    u32 first;
    u32 rows;
    u32 first_member;
    u32 members;
    u32 first_cell;
    u32 columns;
    f32 unit;
};

__device__ __forceinline__ Model model_at(const Models& all, u32 number) {
    const u64 at = (u64)number * MODEL_WORDS;
    return {all.models[at],     all.models[at + 1], all.models[at + 2],        all.models[at + 3],
            all.models[at + 4], all.models[at + 5], as_f32(all.models[at + 6])};
}

// Where a row of a model lies. A row behind the last is the last, and is noted.
__device__ __forceinline__ u64 row_at(const Models& all, const Model& model, u32 row) {
    if (row >= model.rows) {
        all.reached[0] = BEHIND;
        row = model.rows - 1;
    }
    return (u64)model.first + row;
}

__device__ __forceinline__ account::Bar bar_at(const Models& all, u64 place) {
    if ((place + 1) * account::BAR > all.bars.len) __trap();
    return account::load_bar(all.bars.data, place);
}

// One root with its tree.
struct Search {
    u32 root;
    Model model;
    Tree tree;    // decisions
    u32* afters;
    u32* markets;
    f64* accounts; // [STATE, decisions]
    f64* prices;   // [PRICES, markets]
    f32* worths;   // [ACTIONS, scenarios]
    u32 decisions;
    u32 places;

    __device__ __forceinline__ u32* after(u32 at) const { return afters + at * AFTER; }
    __device__ __forceinline__ u32* market(u32 at) const { return markets + at * MARKET; }
    __device__ __forceinline__ u64 path(u32 at) const {
        const u32* own = market(at);
        return (u64)own[PATH] | (u64)own[PATH + 1] << 32;
    }
};

// A root's search in the memory of a tree.
__device__ __forceinline__ Search search_at(const Honest& all, u32 root, u32 tree) {
    Search own;
    own.root = root;
    own.model = model_at(all.models, all.root_words[(u64)root * ROOT_WORDS + ROOT_MODEL]);
    own.decisions = decisions_of(all);
    own.places = markets_of(all);
    if (((u64)tree + 1) * all.word_stride > all.words.len || ((u64)tree + 1) * all.double_stride > all.doubles.len) __trap();
    u32* words = all.words.data + (u64)tree * all.word_stride;
    f64* doubles = all.doubles.data + (u64)tree * all.double_stride;
    own.tree = Tree{words, DECISION};
    own.afters = words + own.decisions * DECISION;
    own.markets = own.afters + afters_of(all) * AFTER;
    own.accounts = doubles;
    own.prices = doubles + account::STATE * own.decisions;
    if (((u64)tree + 1) * ACTIONS * all.scenarios > all.worths.len) __trap();
    own.worths = all.worths.data + (u64)tree * ACTIONS * all.scenarios;
    return own;
}

__device__ __forceinline__ const account::Params& params_of(const Honest& all, u32 root) {
    if (((u64)root + 1) * ROOT_NUMBERS > all.numbers.len) __trap();
    return *reinterpret_cast<const account::Params*>(all.numbers.data + (u64)root * ROOT_NUMBERS);
}

__device__ __forceinline__ const account::Bar& bar_of_root(const Honest& all, u32 root) {
    return *reinterpret_cast<const account::Bar*>(all.numbers.data + (u64)root * ROOT_NUMBERS + account::PARAMS);
}

__device__ __forceinline__ const f32* floats_of(const Honest& all, u32 root) {
    const u32 wide = all.models.features + ROOT_FLOATS;
    if (((u64)root + 1) * wide > all.floats.len) __trap();
    return all.floats.data + (u64)root * wide + all.models.features;
}

// Mixes 64 bits so that each depends on all (`random::mix`).
__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

__device__ __forceinline__ u64 path_behind(u64 path, u32 code) {
    return mix(path ^ ((u64)code + 1) * 0xd6e8feb86659fd93ull);
}

// Rows of a model beside each other in the order of their cells.
struct Range {
    u32 first; // among the model's members
    u32 count;
};

__device__ __forceinline__ u32 cell_of(const Model& model, const f32 (&key)[COLUMNS]) {
    u32 cell = 0;
#pragma unroll
    for (u32 c = 0; c < COLUMNS; ++c) {
        if (c >= model.columns) continue;
        cell = cell * BINS + min((u32)fmaxf(key[c], 0.0f), BINS - 1);
    }
    return cell;
}

// The rows of a cell, whatever its last `joined` columns are.
__device__ __forceinline__ Range range_of(const Models& all, const Model& model, u32 cell, u32 joined) {
    u32 wide = 1;
    for (u32 j = 0; j < joined; ++j) wide *= BINS;
    const u32 first = cell / wide * wide;
    const u32 from = all.starts[(u64)model.first_cell + first], to = all.starts[(u64)model.first_cell + first + wide];
    return {from, to - from};
}

// Rows near a key, moved by three words by up to half a cell in each column.
__device__ __forceinline__ Range near(const Models& all, const Model& model, const f32 (&key)[COLUMNS], const uint4& words) {
    const f32 moved[COLUMNS] = {key[0] + (uniform(words.x) - 0.5f), key[1] + (uniform(words.y) - 0.5f),
                                key[2] + (uniform(words.z) - 0.5f)};
    const Range beside = range_of(all, model, cell_of(model, moved), 0);
    if (beside.count >= LEAST) return beside;
    const u32 own = cell_of(model, key);
    for (u32 joined = 0; joined < model.columns; ++joined) {
        const Range wider = range_of(all, model, own, joined);
        if (wider.count >= LEAST) return wider;
    }
    return {0, model.members};
}

// What is drawn at a chance node.
struct Chances {
    u32 row; // that the node was seen at; none at the root
    u64 path;
    f32 key[COLUMNS];
    u32 excluded_from;
    u32 excluded_to;
};

__device__ __forceinline__ Chances chances_at(const Honest& all, const Search& own, u32 place) {
    Chances at;
    at.row = own.market(place)[ROW];
    at.path = own.path(place);
    const f32* key = floats_of(all, own.root) + ROOT_KEY;
    if (at.row != NO_ROW) {
        const u64 from = row_at(all.models, own.model, at.row) * COLUMNS;
        if (from + COLUMNS > all.models.keys.len) __trap();
        key = all.models.keys.data + from;
    }
#pragma unroll
    for (u32 c = 0; c < COLUMNS; ++c) at.key[c] = key[c];
    const u32* words = all.root_words.data + (u64)own.root * ROOT_WORDS;
    at.excluded_from = words[ROOT_EXCLUDED];
    at.excluded_to = words[ROOT_EXCLUDED + 1];
    return at;
}

// The row before the next code; `used` says whether the node's own continuation was drawn already.
__device__ __noinline__ u32 pick(const Honest& all, const Model& model, const Chances& at, u32 code, bool used) {
    const Models& rows = all.models;
    const auto member = [&](u32 i) { return rows.members[(u64)model.first_member + i]; };
    const auto may = [&](u32 row) {
        const u32 clock = rows.clocks[row_at(rows, model, row + 1)];
        return !((clock >= at.excluded_from && clock < at.excluded_to) || (used && row == at.row));
    };
    const auto words_of = [&](u32 index) {
        return philox(all.seed, make_uint4(index, (u32)at.path, STREAM_CHANCE, (u32)(at.path >> 32)));
    };
    Range range{0, model.members};
    for (u32 attempt = 0; attempt < TRIES; ++attempt) {
        const uint4 words = words_of(code * TRIES + attempt);
        range = near(rows, model, at.key, words);
        const u32 row = member(range.first + below(words.w, range.count));
        if (may(row)) return row;
    }
    // Nearly all of the cell may not be drawn: one of those that may, of the cell or of the smallest part around it
    // that has any, but for the node's own continuation: what is drawn does not depend on `used`.
    const u32 word = words_of(ANY | code).x, cell = cell_of(model, at.key);
    for (u32 wider = 0; wider <= model.columns + 1; ++wider) {
        if (wider > 0) range = range_of(rows, model, cell, wider - 1);
        u32 count = 0;
        for (u32 i = 0; i < range.count; ++i) count += member(range.first + i) != at.row && may(member(range.first + i));
        if (count == 0) continue;
        u32 before = below(word, count);
        for (u32 i = 0; i < range.count; ++i) {
            const u32 row = member(range.first + i);
            if (row != at.row && may(row) && before-- == 0) return row;
        }
    }
    rows.reached[0] = NONE_LEFT;
    return member(0);
}

// The bar of a market as far as what follows depends on it.
__device__ __forceinline__ account::Bar known_bar(const Honest& all, const Search& own, u32 place) {
    const account::Bar& root = bar_of_root(all, own.root);
    if (place == 0) return root;
    account::Bar bar = {};
    bar.close = own.prices[place];
    bar.fx_close = own.prices[own.places + place];
    bar.sigma = own.prices[2 * own.places + place];
    bar.half_spread = own.prices[3 * own.places + place];
    bar.volume = root.volume;
    const u64 at = row_at(all.models, own.model, own.market(place)[ROW]);
    bar.flat_next = all.models.bars[at * account::BAR + account::BAR - 1];
    return bar;
}

// The bar that follows `now` if what went from `before` to `next` happens there (bootstrap/mod.rs).
__device__ __forceinline__ account::Bar moved(const account::Bar& now, const account::Bar& before, const account::Bar& next) {
    f64 ratio = 1.0;
    if (now.sigma > 0.0 && before.sigma > 0.0) {
        ratio = now.sigma / before.sigma;
        ratio = ratio < 0.2 ? 0.2 : ratio > 5.0 ? 5.0 : ratio;
    }
    const f64 fall = 1.0 - next.low * next.split / before.close;
    if (ratio * fall > 1.0 - 0.05) ratio = (1.0 - 0.05) / fall;
    const auto price = [&](f64 p) { return now.close * (1.0 + ratio * (p * next.split / before.close - 1.0)); };
    const auto due = [&](f64 flow) { return flow * next.split / before.close * now.close; };
    account::Bar bar;
    bar.open = price(next.open);
    bar.high = price(next.high);
    bar.low = price(next.low);
    bar.close = price(next.close);
    bar.fx_open = now.fx_close * next.fx_open / before.fx_close;
    bar.fx_close = now.fx_close * next.fx_close / before.fx_close;
    bar.tradable = next.tradable;
    bar.split = 1.0;
    bar.dividend = due(next.dividend);
    bar.funding_open = due(next.funding_open);
    bar.funding_inside = due(next.funding_inside);
    bar.swap_open = next.swap_open;
    bar.swap_inside = next.swap_inside;
    bar.borrow_open = next.borrow_open;
    bar.borrow_inside = next.borrow_inside;
    bar.close_out = 0.0;
    bar.sigma = next.sigma * ratio;
    bar.volume = now.volume;
    bar.half_spread = next.half_spread * ratio;
    bar.flat_next = next.flat_next;
    return bar;
}

// The whole bar of a market that follows another; `row` is the model's row that was drawn, which has one before it.
__device__ __forceinline__ account::Bar
next_bar(const Honest& all, const Search& own, const account::Bar& now, u32 row) {
    const account::Bar before = bar_at(all.models, row_at(all.models, own.model, row - 1));
    const account::Bar next = bar_at(all.models, row_at(all.models, own.model, row));
    return moved(now, before, next);
}

// Which of short, flat and long are legal, as bits; flat always is.
__device__ __forceinline__ u32 legal_actions(const account::Params& params, f64 flat_next) {
    const bool open = flat_next == 0.0;
    return (params.shortable != 0.0 && open ? 1u : 0u) | 2u | (open ? 4u : 0u);
}

// What a root of a block is about to expand: a decision and its action, or the root with all of its actions.
struct Job {
    u32 decision;
    u32 action;
    u32 place;    // the decision's market
    u32 follow;   // the first market behind it
    u32 after;    // the afterstate that is added; that of action 0 at the root
    u32 child;    // the first decision behind it
    u32 draws;    // whether the markets are still to be drawn
    u32 own_code; // the first code that is the node's own continuation
    u32 works;    // whether there is anything to expand
    u32 from;     // where a simulation ended
};

// A root that is still to be evaluated, by one thread.
__device__ __forceinline__ void begin(const Honest& all, const Search& own) {
    const u64 at = (u64)own.root * ROOT_WORDS;
    u32* market = own.market(0);
    market[ROW] = NO_ROW;
    market[FOLLOW] = 0;
    market[PATH] = all.root_words[at + ROOT_PATH];
    market[PATH + 1] = all.root_words[at + ROOT_PATH + 1];
    const account::Params& params = params_of(all, own.root);
    add_node(own.tree, 0, NONE, 0, 0, legal_actions(params, bar_of_root(all, own.root).flat_next), 0, ACTIONS);
    const f64* account = all.numbers.data + (u64)own.root * ROOT_NUMBERS + account::PARAMS + account::BAR;
    for (u32 i = 0; i < account::STATE; ++i) own.accounts[i * own.decisions] = account[i];
}

// The root with all actions on all scenarios, by one thread.
__device__ __forceinline__ void expand_root(const Honest& all, const Search& own, Job& job) {
    job = {0, 0, 0, 1, 0, 1, 1, 0xffffffffu, 1, 0};
    own.market(0)[FOLLOW] = 1;
    for (u32 a = 0; a < ACTIONS; ++a) {
        if (!(own.tree.node(0)[LEGAL] >> a & 1)) continue;
        own.tree.edge(0, a)[TAKEN] = a << 16;
        own.after(a)[ABOVE] = a << 16;
        own.after(a)[BELOW] = (1 + a * all.scenarios) | all.scenarios << 16;
    }
}

// What lies behind an action of a decision, by one thread: each simulation has its own part of the tree.
__device__ __forceinline__ void expand(const Honest& all, const Search& own, u32 decision, u32 action, u32 simulation, Job& job) {
    const u32 place = own.tree.node(decision)[STATE] & 0xffffu, drawn = own.market(place)[FOLLOW];
    const u32 after = ACTIONS + simulation, child = 1 + ACTIONS * all.scenarios + simulation * all.codes;
    const u32 follow = drawn ? drawn : 1 + all.scenarios + simulation * all.codes;
    job = {decision, action, place, follow, after, child, drawn == 0, 0xffffffffu, 1, after};
    own.market(place)[FOLLOW] = follow;
    own.tree.edge(decision, action)[TAKEN] = (own.tree.edge(decision, action)[TAKEN] & 0xffffu) | after << 16;
    own.after(after)[ABOVE] = decision | action << 16;
    own.after(after)[BELOW] = child | all.codes << 16;
}

// Draws a code of a job as if no other were its node's own continuation; which is the first of those is found out.
__device__ __forceinline__ void draw(const Honest& all, const Search& own, Job& job, u32 code) {
    const Chances at = chances_at(all, own, job.place);
    const u32 row = pick(all, own.model, at, code, false);
    own.market(job.follow + code)[ROW] = row + 1;
    if (row == at.row) atomicMin(&job.own_code, code);
}

// Codes behind that one which drew it too draw another row; then the market is complete.
__device__ __forceinline__ void settle(const Honest& all, const Search& own, const Job& job, u32 code) {
    const u32 to = job.follow + code;
    u32 row = own.market(to)[ROW];
    const Chances at = chances_at(all, own, job.place);
    if (row - 1 == at.row && code != job.own_code) {
        row = pick(all, own.model, at, code, true) + 1;
        own.market(to)[ROW] = row;
    }
    const u64 path = path_behind(at.path, code);
    own.market(to)[FOLLOW] = 0;
    own.market(to)[PATH] = (u32)path;
    own.market(to)[PATH + 1] = (u32)(path >> 32);
    const account::Bar bar = next_bar(all, own, known_bar(all, own, job.place), row);
    own.prices[to] = bar.close;
    own.prices[own.places + to] = bar.fx_close;
    own.prices[2 * own.places + to] = bar.sigma;
    own.prices[3 * own.places + to] = bar.half_spread;
}

// The decision that follows from an action and a code; what its account is shown goes to `shown`.
__device__ __noinline__ void step(const Honest& all, const Search& own, const Job& job, u32 action, u32 child, u32 code,
                                  f32 (&shown)[account::SHOWN]) {
    const u32 place = job.follow + code, row = own.market(place)[ROW];
    const account::Params& params = params_of(all, own.root);
    const account::Bar now = known_bar(all, own, job.place);
    const account::Bar next = next_bar(all, own, now, row);
    account::Account held = account::load<false, false>(own.accounts, own.decisions, job.decision);
    const account::Outcome outcome = account::step<false, false>(params, held, {(f64)action - 1.0, 0.0, 0.0}, now, next);
    account::store<false, false>(own.accounts, own.decisions, child, held);
    const u32 depth = own.tree.node(job.decision)[DEPTH] + 1, after = job.after + (job.decision == 0 ? action : 0);
    add_node(own.tree, child, after, code, depth, legal_actions(params, next.flat_next), place, ACTIONS);
    u32* node = own.tree.node(child);
    node[REWARD] = as_u32(__double2float_rn(outcome.reward));
    node[DISCOUNT] = as_u32(held.terminated != 0.0 ? 0.0f : all.discount);
    const u64 at = row_at(all.models, own.model, row);
    account::show(params, held, next, all.models.times[2 * at], all.models.times[2 * at + 1], shown);
}

// The mean over the codes of an afterstate that were all evaluated, in their order. By a whole warp.
__device__ __forceinline__ f32 mean_over_codes(const Search& own, u32 after) {
    const u32 first = own.after(after)[BELOW] & 0xffffu, count = own.after(after)[BELOW] >> 16, lane = threadIdx.x % 32;
    const f32 prior = 1.0f / (f32)count;
    f32 sum = 0.0f;
    for (u32 from = 0; from < count; from += 32) {
        const f32 mine = from + lane < count ? prior * worth(own.tree.node(first + from + lane)) : 0.0f;
        for (u32 c = 0; c < min(32u, count - from); ++c) sum += __shfl_sync(0xffffffffu, mine, c);
    }
    return sum;
}

// What it is worth to take an action: no reward, and all that follows.
__device__ __forceinline__ f32 action_worth(const Search& own, u32 taken) {
    return 0.0f + 1.0f * as_f32(own.after(taken >> 16)[MEAN]);
}

__device__ __forceinline__ void load_actions(Edges<4>& to, const Search& own, u32 decision) {
#pragma unroll
    for (u32 a = 0; a < ACTIONS; ++a) {
        const u32* edge = own.tree.edge(decision, a);
        to.logit[a] = as_f32(edge[LOGIT]);
        to.prior[a] = as_f32(edge[PRIOR]);
        to.visits[a] = edge[TAKEN] & 0xffffu;
        to.q[a] = to.visits[a] ? action_worth(own, edge[TAKEN]) : 0.0f;
    }
}

// The code that is due: the first of those that were taken least. By a whole warp.
__device__ __forceinline__ u32 due_code(const Search& own, u32 after) {
    const u32 first = own.after(after)[BELOW] & 0xffffu, count = own.after(after)[BELOW] >> 16;
    u32 least = 0xffffffffu;
    for (u32 c = threadIdx.x % 32; c < count; c += 32)
        least = min(least, (own.tree.node(first + c)[STATE] >> 16) << 16 | c);
    return __reduce_min_sync(0xffffffffu, least) & 0xffffu;
}

// Where a simulation ended.
struct End {
    u32 node;     // a decision, or an afterstate
    u32 action;   // of a decision behind which nothing is yet; else none
    bool is_after;
};

// Selects a way from the root down, by a whole warp.
__device__ __forceinline__ End select_way(const Honest& all, const Search& own, u32 simulation) {
    u32 at = 0;
    for (;;) {
        const u32* node = own.tree.node(at);
        Edges<4> edges;
        load_actions(edges, own, at);
        u32 action;
        if (all.rule == PUCT) {
            action = puct(node, edges, ACTIONS, all.init, all.base);
        } else if (at == 0) {
            const u32 considered = min(all.considered, (u32)__popc(node[LEGAL]));
            const u32 visits = all.sequences[(u64)considered * all.simulations + simulation];
            action = gumbel_root(node, edges, ACTIONS, floats_of(all, own.root) + ROOT_GUMBELS, visits);
        } else {
            action = gumbel_interior(node, edges, ACTIONS);
        }
        const u32 taken = own.tree.edge(at, action)[TAKEN], after = taken >> 16;
        if (after == NONE) return {at, action, false};
        // The root's afterstates are there before anybody went to them.
        if (at == 0 && (taken & 0xffffu) == 0) return {after, NONE, true};
        const u32 child = (own.after(after)[BELOW] & 0xffffu) + due_code(own, after);
        const u32* below = own.tree.node(child);
        if (below[DEPTH] >= all.depth || as_f32(below[DISCOUNT]) == 0.0f) return {child, NONE, false};
        at = child;
    }
}

// Backs up from where a simulation ended to the root, by one thread.
__device__ __forceinline__ void back_up_way(const Search& own, u32 from, bool is_after) {
    u32 after;
    if (is_after) {
        after = from;
    } else {
        // A decision from which nothing follows is worth what it was.
        u32* node = own.tree.node(from);
        after = node[PARENT] & 0xffffu;
        node[STATE] += 1u << 16;
    }
    for (;;) {
        const u32 decision = own.after(after)[ABOVE] & 0xffffu, action = own.after(after)[ABOVE] >> 16;
        own.tree.edge(decision, action)[TAKEN] += 1;
        const f32 found = 0.0f + 1.0f * as_f32(own.after(after)[MEAN]);
        u32* node = own.tree.node(decision);
        const f32 done = (f32)node[VISITS], before = worth(node);
        node[VALUE] = as_u32((as_f32(node[VALUE]) * done + found) / (done + 1.0f));
        node[VISITS] += 1;
        if (decision == 0) return;
        // The mean over all codes moves with this one.
        const f32 gain = worth(node) - before;
        node[STATE] += 1u << 16;
        after = node[PARENT] & 0xffffu;
        u32* above = own.after(after);
        above[MEAN] = as_u32(as_f32(above[MEAN]) + 1.0f / (f32)(above[BELOW] >> 16) * gain);
    }
}

// The best of values; what is kept where none is better.
__device__ __forceinline__ u32 best_action(const f64 (&values)[ACTIONS], u32 legal, u32 keep) {
    u32 best = legal >> keep & 1 ? keep : __ffs(legal) - 1;
#pragma unroll
    for (u32 a = 0; a < ACTIONS; ++a)
        if (legal >> a & 1 && values[a] > values[best]) best = a;
    return best;
}

// A sum over scenarios, in their order: of `a`, less `b` where there is one, as f32 or as f64; or of the squares of how
// far that is from `away_from`.
struct Sum {
    const f32* a;
    const f32* b;
    bool narrow;
    bool squared;
    f64 away_from;
    u32 first; // of the half that it is over, or 0
    u32 step;  // 2 for a half
};

struct Sums {
    f64 total;
    f64 weight;
    f64 square;
};

__device__ __forceinline__ Sums add_up(const Sum& own, u32 scenarios, f64 p) {
    Sums sums{0.0, 0.0, 0.0};
    for (u32 c = own.first; c < scenarios; c += own.step) {
        const f32 a = own.a[c], b = own.b ? own.b[c] : 0.0f;
        f64 x = own.narrow ? (f64)(a - b) : (f64)a - (f64)b;
        if (own.squared) {
            const f64 away = x - own.away_from;
            x = away * away;
        }
        sums.total = sums.total + p * x;
        sums.weight = sums.weight + p;
        sums.square = sums.square + p * p;
    }
    return sums;
}

__device__ __forceinline__ f64 from_lane(f64 x, u32 lane) { return __shfl_sync(0xffffffffu, x, lane); }

// Scenarios of a root, those that are the same row counted once. By a whole warp; rows are put into a table of three
// places for each scenario, which is where their worths come later.
__device__ __forceinline__ u32 different_scenarios(const Search& own, u32 scenarios) {
    const u32 places = ACTIONS * scenarios, lane = threadIdx.x % 32;
    u32* table = reinterpret_cast<u32*>(own.worths);
    for (u32 i = lane; i < places; i += 32) table[i] = NO_ROW;
    __syncwarp();
    u32 count = 0;
    for (u32 c = lane; c < scenarios; c += 32) {
        const u32 row = own.market(1 + c)[ROW];
        u32 at = __umulhi(row * 0x9e3779b1u, places), found = atomicCAS(table + at, NO_ROW, row);
        while (found != NO_ROW && found != row) {
            at = at + 1 == places ? 0 : at + 1;
            found = atomicCAS(table + at, NO_ROW, row);
        }
        count += found == NO_ROW;
    }
    __syncwarp();
    return __reduce_add_sync(0xffffffffu, count);
}

// The square of a mean's standard error: of `spread` around it over terms with these sums of weights, where so many of
// the scenarios are different rows.
__device__ __forceinline__ f64 squared_error(f64 spread, const Sums& sums, u32 different, u32 scenarios) {
    const f64 share = (f64)different / (f64)scenarios;
    const f64 beside_one = sums.weight * sums.weight / sums.square * share - 1.0;
    return beside_one > 1e-6 ? spread / beside_one : account::infinite();
}

// What the search says of its root (outcome.rs), by a whole warp: each lane has a sum of its own.
__device__ __noinline__ void conclude_root(const Honest& all, const Search& own) {
    const u32* root = own.tree.node(0);
    const u32 legal = root[LEGAL], scenarios = all.scenarios, lane = threadIdx.x % 32;
    const f64 action = own.accounts[4 * own.decisions];
    const u32 held = action < 0.0 ? 0 : action > 0.0 ? 2 : 1;
    const u32 keep = legal >> held & 1 ? held : __ffs(legal) - 1;
    const f64 p = (f64)(1.0f / (f32)scenarios);
    const u32 different = different_scenarios(own, scenarios);
    // Those of actions that are not legal are those of the one that is kept, and are not looked at.
    for (u32 i = lane; i < ACTIONS * scenarios; i += 32) {
        const u32 a = legal >> (i / scenarios) & 1 ? i / scenarios : keep;
        own.worths[i] = worth(own.tree.node(1 + a * scenarios + i % scenarios));
    }
    __syncwarp();
    const auto of = [&](u32 a) { return own.worths + a * scenarios; };
    // Lanes 0 to 2: how much more each action is worth than keeping the position. Lanes 3 to 8: what each is worth on
    // the scenarios of a half; scenario c belongs to half c % 2.
    const bool halves = lane >= 3;
    const Sums first = add_up({of(lane % 3), halves ? nullptr : of(keep), true, false, 0.0, halves ? lane / 3 % 2 ^ 1 : 0,
                               halves ? 2u : 1u}, scenarios, p);
    const f64 mean_worth = first.weight > 0.0 ? first.total / first.weight : 0.0;
    u32 choices[2];
    for (u32 half = 0; half < 2; ++half) {
        f64 values[ACTIONS];
        for (u32 a = 0; a < ACTIONS; ++a) {
            const f64 own_worth = from_lane(mean_worth, 3 + half * 3 + a);
            values[a] = legal >> a & 1 ? own_worth : __longlong_as_double(0x7ff8000000000000ll);
        }
        choices[half] = best_action(values, legal, keep);
    }
    // Lanes 0 to 2: how far scenarios are from that mean. Each half chooses, and the other says what its choice is
    // worth: more than keeping the position (lanes 3 and 4), and altogether (lanes 5 and 6).
    const u32 half = (lane + 1) % 2, other = 1 - half;
    const u32 judged = half ? choices[1] : choices[0];
    Sum next{of(lane % 3), of(keep), true, true, first.total, 0, 1};
    if (halves) next = {of(judged), lane < 5 ? of(keep) : nullptr, false, false, 0.0, other, 2};
    const Sums second = add_up(next, scenarios, p);
    // What each action is worth more than keeping the position, in standard errors.
    const f64 error_of = sqrt(squared_error(second.total, first, different, scenarios));
    f64 counted = first.total == 0.0 ? 0.0 : first.total / error_of;
    counted = counted < -8.0 ? -8.0 : counted > 8.0 ? 8.0 : counted;
    const f64 mean_judged = second.weight > 0.0 ? second.total / second.weight : 0.0;
    const f64 worths[2] = {from_lane(mean_judged, 5), from_lane(mean_judged, 6)};
    const f64 gains[2] = {from_lane(mean_judged, 3), from_lane(mean_judged, 4)};
    // Lanes 3 and 4: how far gains are from their mean.
    const Sums third = add_up({of(judged), of(keep), false, true, half ? gains[1] : gains[0], other, 2}, scenarios, p);
    const f64 spread = third.weight > 0.0 ? third.total / third.weight : 0.0;
    const f64 its_error = squared_error(spread, third, different, scenarios);
    const f64 errors[2] = {from_lane(its_error, 3), from_lane(its_error, 4)};
    // The prior, moved by that.
    f64 scores[ACTIONS], most = -account::infinite(), sum = 0.0;
    for (u32 a = 0; a < ACTIONS; ++a) {
        const f64 moved_by = from_lane(counted, a);
        scores[a] = legal >> a & 1 ? (f64)as_f32(own.tree.edge(0, a)[LOGIT]) + moved_by : -account::infinite();
        most = scores[a] > most ? scores[a] : most;
    }
    for (u32 a = 0; a < ACTIONS; ++a) sum = sum + exp(scores[a] - most);
    if (lane != 0) return;
    const f64 advantage = 0.5 * (gains[0] + gains[1]);
    const f64 error = 0.5 * sqrt(errors[0] + errors[1]);
    const bool agree = choices[0] == choices[1], enough = different >= ENOUGH_SCENARIOS;
    u32 chosen = held;
    if (enough) {
        f64 values[ACTIONS];
        for (u32 a = 0; a < ACTIONS; ++a) values[a] = (f64)(legal >> a & 1 ? action_worth(own, own.tree.edge(0, a)[TAKEN]) : 0.0f);
        chosen = best_action(values, legal, held);
    } else if (agree && advantage > 2.0 * error) {
        chosen = choices[0];
    }
    const u64 to = (u64)own.root * FOUND;
    for (u32 a = 0; a < ACTIONS; ++a) {
        const u32 taken = own.tree.edge(0, a)[TAKEN];
        all.found[to + FOUND_VISITS + a] = taken & 0xffffu;
        all.found[to + FOUND_Q + a] = as_u32(taken >> 16 == NONE ? 0.0f : action_worth(own, taken));
        all.found[to + FOUND_POLICY + a] = as_u32(__double2float_rn(exp(scores[a] - most) / sum));
    }
    all.found[to + FOUND_VALUE] = as_u32(__double2float_rn(0.5 * (worths[0] + worths[1])));
    all.found[to + FOUND_ADVANTAGE] = as_u32(__double2float_rn(advantage));
    all.found[to + FOUND_ERROR] = as_u32(__double2float_rn(error));
    all.found[to + FOUND_CHOSEN] = chosen;
    all.found[to + FOUND_HELD] = held;
}
