// Accounts that live through episodes by the card's code (episode.cuh), as a program of the processor.
//
//     host < numbers > words
//
// Standard input: accounts, the number of the first, steps, length of an episode, seed, rows, symbols and stretches as
// whole numbers of 8 bytes; then what `EpisodeTable` has, in its order but for `folds`, of which there is one; then the
// targets, `[steps, accounts]`. Standard output: what each account is at first and behind every step, as `Frame`.

#include <cstdio>
#include <vector>

#include "../../account/src/tests/host.hpp"
#include "../src/episode.cuh"

// All that an account and its step are, `[steps + 1, accounts]`.
struct Frame {
    u64 row, end, symbol, episode, legal;
    u64 ended;   // 1 cut off, 2 ruined
    u64 last_row;
    f64 reward;
    f32 observed[OBSERVED];
    f32 last[OBSERVED];
    f64 account[10];
};

template <typename T> static std::vector<T> read(u64 n) {
    std::vector<T> from(n);
    if (std::fread(from.data(), sizeof(T), n, stdin) != n) std::exit(2);
    return from;
}

template <typename T> static View<const T> view(const std::vector<T>& of) { return {of.data(), of.size()}; }

static void show(const EpisodeTable& table, const Place& place, const account::Account& held, f32 (&to)[OBSERVED]) {
    observe(table, params_of(table, place.symbol), bar_at(table, place.row), held, place.row, to);
}

static void put(Frame& frame, const EpisodeTable& table, const Place& place, const account::Account& held) {
    const f64 numbers[10] = {held.equity, held.peak, held.quantity, held.target, held.action,
                             held.mark,   held.fx,   held.entry,    held.bars_held, held.terminated};
    std::memcpy(frame.account, numbers, sizeof numbers);
    frame.row = place.row, frame.end = place.end, frame.symbol = place.symbol, frame.episode = place.episode;
    frame.legal = legal_sides(params_of(table, place.symbol), bar_at(table, place.row));
    show(table, place, held, frame.observed);
}

int main() {
    const auto sizes = read<u64>(8);
    const u64 n = sizes[0], steps = sizes[2], seed = sizes[4], rows = sizes[5], symbols = sizes[6], stretches = sizes[7];
    const u32 first = (u32)sizes[1], length = (u32)sizes[3];
    const auto bars = read<f64>(rows * account::BAR), params = read<f64>(symbols * account::PARAMS);
    const auto offsets = read<u32>(symbols + 1);
    const auto time_of_day = read<f32>(rows), log_to_close = read<f32>(rows);
    const auto from = read<u32>(stretches), to = read<u32>(stretches);
    const auto starts = read<u64>(stretches);
    const std::vector<u32> folds = {0, (u32)stretches};
    const auto targets = read<f64>(steps * n);
    const EpisodeTable table = {view(bars), view(params), view(offsets), view(time_of_day), view(log_to_close),
                                view(from), view(to),     view(starts),  view(folds)};
    std::vector<Frame> frames((steps + 1) * n, Frame{});
    for (u64 i = 0; i < n; ++i) {
        const u32 number = first + (u32)i;
        Place place = {};
        account::Account held;
        begin_episode(table, 0, length, seed, number, place, held);
        put(frames[i], table, place, held);
        for (u64 t = 0; t < steps; ++t) {
            Frame& frame = frames[(t + 1) * n + i];
            const account::Bar now = bar_at(table, place.row), next = bar_at(table, place.row + 1);
            const account::Outcome outcome =
                account::step<false, false>(params_of(table, place.symbol), held, {targets[t * n + i], 0.0, 0.0}, now, next);
            ++place.row;
            frame.reward = outcome.reward + 0.0;
            const bool ruined = (outcome.events & account::RUINED) != 0;
            const bool cut = !ruined && place.row + 1 >= place.end;
            if (ruined || cut) {
                frame.ended = ruined ? 2 : 1;
                frame.last_row = place.row;
                show(table, place, held, frame.last);
                begin_episode(table, 0, length, seed, number, place, held);
            }
            put(frame, table, place, held);
        }
    }
    return std::fwrite(frames.data(), sizeof(Frame), frames.size(), stdout) == frames.size() ? 0 : 3;
}
