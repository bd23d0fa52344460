// The twin's code as a program of the processor: the same headers, with the card's words as `host.hpp` gives them. It
// must be compiled without contraction (`-ffp-contract=off`).
//
//     host accounts|lean|portfolios n steps symbols < numbers > numbers
//
// Standard input has the arrays of `walk_account` or `walk_portfolio` in the order of their arguments, those that are
// only written left out; standard output has the ones that are written, in the same order.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "host.hpp"

#include "walk.cuh"

template <typename T> static std::vector<T> read(u64 n) {
    std::vector<T> from(n);
    if (std::fread(from.data(), sizeof(T), n, stdin) != n) std::exit(2);
    return from;
}

template <typename T> static void write(const std::vector<T>& to) {
    if (std::fwrite(to.data(), sizeof(T), to.size(), stdout) != to.size()) std::exit(3);
}

int main(int count, char** words) {
    if (count != 5) return 1;
    const u64 n = std::atoll(words[2]), steps = std::atoll(words[3]), symbols = std::atoll(words[4]);
    std::vector<f64> rewards(steps * n);
    std::vector<u64> digests(steps * n);
    if (std::strcmp(words[1], "portfolios") == 0) {
        const auto params = read<f64>(n * symbols * PARAMS), bars = read<f64>(steps * symbols * 2 * BAR);
        const auto targets = read<f64>(steps * n * symbols);
        auto common = read<f64>(PORTFOLIO * n), positions = read<f64>(POSITION_FLOWS * symbols * n);
        for (u64 i = 0; i < n; ++i) {
            walk_portfolio<true>(params.data(), bars.data(), targets.data(), common.data(), positions.data(),
                                 rewards.data(), digests.data(), n, symbols, steps, i);
        }
        write(common);
        write(positions);
    } else {
        const bool lean = std::strcmp(words[1], "lean") == 0;
        const auto params = read<f64>(n * PARAMS), bars = read<f64>(n * (steps + 1) * BAR);
        const auto actions = read<f64>(steps * n * 3);
        auto state = read<f64>((STATE + FLOWS) * n);
        for (u64 i = 0; i < n; ++i) {
            const auto walk = lean ? walk_account<false, false> : walk_account<true, true>;
            walk(params.data(), bars.data(), actions.data(), state.data(), rewards.data(), digests.data(), n, steps, i);
        }
        write(state);
    }
    write(rewards);
    write(digests);
    return 0;
}
