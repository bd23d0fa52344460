//! The code of episodes for a card (`episode.cuh`), compiled for the processor, beside the environment: to the bit.
//!
//! Kernels that train on a card are held to the environment there; this is what can be seen without one.
#![cfg(target_os = "linux")]

use account::{Bar, Params, ln_1p};
use market::{Environment, EpisodeData, OBSERVED, PriceTable, RowTime, count_starts};
use random::SplitMix;
use std::process::{Command, Stdio};
use std::sync::Arc;

const ACCOUNTS: usize = 128;
const STEPS: usize = 800;
/// The number of the first account, steps of an episode, seed.
const FIRST: u32 = 5;
const LENGTH: u32 = 40;
const SEED: u64 = 0x1234_5678_9abc_def0;
/// Rows of each symbol.
const ROWS: usize = 700;
/// 8-byte words of a `Frame` of host.cpp.
const FRAME: usize = 8 + OBSERVED + 10;

fn rare(random: &mut SplitMix, one_in: usize, value: f64, none: f64) -> f64 {
    if random.below(one_in) == 0 { value } else { none }
}

/// Bars on which everything that can happen does: gaps, splits, dividends, funding, financing, forced closes, and now
/// and then no prices.
fn some_bars(random: &mut SplitMix) -> Vec<Bar> {
    let mut last = Bar::flat(100.0);
    let mut next = |random: &mut SplitMix| {
        let mut draw = |width: f64| (random.unit() + random.unit() - 1.0) * width;
        let open = last.close * (1.0 + draw(0.01));
        let close = open * (1.0 + draw(0.02));
        let fx_open = last.fx_close * (1.0 + draw(0.002));
        let fx_close = fx_open * (1.0 + draw(0.002));
        let (sigma, half_spread) = (0.01 * (1.0 + draw(0.5)), 0.0002 * (1.0 + draw(0.9)));
        let (volume, away) = ((5000.0 * (1.0 + draw(0.9))).floor(), draw(0.005).abs());
        let close = close * rare(random, 150, 0.3, 1.0) * rare(random, 150, 2.5, 1.0);
        let mut bar = Bar {
            open,
            high: open.max(close) * (1.0 + away),
            low: open.min(close) * (1.0 - away),
            close,
            fx_open,
            fx_close,
            tradable: rare(random, 40, 0.0, 1.0),
            split: rare(random, 300, 2.0, 1.0),
            dividend: rare(random, 60, 0.02 * open, 0.0),
            funding_open: rare(random, 8, 0.0003 * open, 0.0),
            funding_inside: rare(random, 8, -0.0002 * open, 0.0),
            swap_open: rare(random, 5, 3.0 / 365.0, 0.0),
            swap_inside: rare(random, 5, 1.0 / 365.0, 0.0),
            borrow_open: rare(random, 5, 3.0 / 365.0, 0.0),
            borrow_inside: rare(random, 5, 1.0 / 365.0, 0.0),
            close_out: rare(random, 200, 1.0, 0.0),
            sigma: rare(random, 50, 0.0, sigma),
            volume: rare(random, 20, 0.0, volume),
            half_spread,
            flat_next: rare(random, 100, 1.0, 0.0),
        };
        if !(0.5..=1e4).contains(&bar.close) {
            bar = Bar { fx_open, fx_close, ..Bar::flat(100.0) };
        }
        if bar.tradable == 0.0 {
            (bar.open, bar.high, bar.low) = (f64::NAN, f64::NAN, f64::NAN);
        }
        last = bar;
        bar
    };
    (0..ROWS).map(|_| next(random)).collect()
}

/// Rules and costs: a share with all of its equity, a contract on margin, and one that owns half in lots.
fn some_params() -> Vec<Params> {
    let costs =
        Params { fee: 5e-4, impact: 1.0, borrow: 0.005, swap_long: 0.05, swap_short: 0.02, ..Params::default() };
    let margin = Params { fraction: 5.0, leverage: 10.0, maintenance: 0.05, liquidation: 0.02, ..costs };
    vec![
        Params { shortable: false, owned: true, lot: 1.0, min_notional: 100.0, ..costs },
        Params { multiplier: 50.0, tick: 0.25, fee_per_unit: 0.01, volume_cap: 0.01, ..margin },
        Params { fraction: 0.5, band: 0.05, vol_target: 0.005, owned: true, lot: 0.001, ..margin },
    ]
}

fn world() -> (Arc<EpisodeData>, Vec<std::ops::Range<u32>>) {
    let mut random = SplitMix::new(31);
    let params = some_params();
    let bars: Vec<Bar> = (0..params.len()).flat_map(|_| some_bars(&mut random)).collect();
    let time = |_| RowTime { time_of_day: random.unit() as f32, bars_to_close: random.below(20) as f32 };
    let times = (0..bars.len()).map(time).collect();
    let offsets = (0..=params.len()).map(|symbol| symbol * ROWS).collect();
    let table = PriceTable { offsets, params, bars, currency: "USD".into(), risk_free: 0.0, notes: Vec::new() };
    let rows = ROWS as u32;
    // Long, of two rows, shorter than an episode, up to the last row of a symbol and of the table.
    let stretches = vec![3..300, 310..312, 320..345, 400..rows, rows + 1..2 * rows - 7, 2 * rows..3 * rows];
    (Arc::new(EpisodeData::new(table, times)), stretches)
}

/// Whether account `i` did nothing, or what it wants, at a step.
fn some_targets() -> Vec<f64> {
    let mut random = SplitMix::new(7);
    (0..ACCOUNTS * STEPS).map(|_| [-1.0, 0.0, 1.0, 1.0, 0.5, f64::NAN][random.below(6)]).collect()
}

/// What the environment is at first and behind every step, as frames of host.cpp; and how many episodes were cut off
/// and ended by ruin.
fn frames(data: &Arc<EpisodeData>, stretches: &[std::ops::Range<u32>], targets: &[f64]) -> (Vec<u64>, [usize; 2]) {
    let numbers = FIRST..FIRST + ACCOUNTS as u32;
    let mut world = Environment::new(data, stretches, numbers, LENGTH, SEED);
    let (mut words, mut ends) = (Vec::new(), [0; 2]);
    // Two numbers of f32 are a word.
    let pairs = |shown: &[f32]| -> Vec<u64> {
        let pair = |two: &[f32]| u64::from(two[0].to_bits()) | u64::from(two[1].to_bits()) << 32;
        shown.chunks_exact(2).map(pair).collect()
    };
    let mut put = |world: &Environment, stepped: bool| {
        for (i, state) in world.state().chunks_exact(market::STATE).enumerate() {
            let ended = match (stepped && world.truncated()[i], stepped && world.terminated()[i]) {
                (true, false) => 1,
                (false, true) => 2,
                _ => 0,
            };
            let (last_row, last) = if ended > 0 { world.last(i) } else { (0, &[0.0; OBSERVED][..]) };
            let view = world.view();
            let legal = (0..3).map(|side| u64::from(view.legal[i * 3 + side]) << side).sum();
            let reward = if stepped { world.rewards()[i] + 0.0 } else { 0.0 };
            let symbol = data.symbol(view.rows[i]) as u64;
            let [row, end, episode] = [state[0], state[1], state[2]].map(|x| x as u64);
            words.extend([row, end, symbol, episode, legal, ended, u64::from(last_row), reward.to_bits()]);
            words.extend(pairs(&view.observed[i * OBSERVED..(i + 1) * OBSERVED]));
            words.extend(pairs(last));
            // All but the prices of stop and limit, which a learner does not use.
            words.extend(state[4..13].iter().chain(&state[15..16]).map(|x| x.to_bits()));
            if ended > 0 {
                ends[ended as usize - 1] += 1;
            }
        }
    };
    put(&world, false);
    for targets in targets.chunks_exact(ACCOUNTS) {
        world.step(targets);
        put(&world, true);
    }
    (words, ends)
}

/// The same of the card's code; `None` where there is no compiler.
fn frames_of_a_card(data: &EpisodeData, stretches: &[std::ops::Range<u32>], targets: &[f64]) -> Option<Vec<u64>> {
    let folder = std::env::temp_dir().join(format!("fullbore-episode-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("host");
    // Products that are summed are not fused.
    let flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-o"];
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host.cpp");
    match Command::new("g++").args(flags).arg(&program).arg(source).output() {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return None,
        done => {
            let done = done.unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
    let table = data.table();
    let (time_of_day, log_to_close) = data.times();
    let sizes = [ACCOUNTS as u64, u64::from(FIRST), STEPS as u64, u64::from(LENGTH), SEED];
    let counts = [table.bars.len(), table.params.len(), stretches.len()].map(|count| count as u64);
    let mut bytes: Vec<u8> = sizes.iter().chain(&counts).flat_map(|x| x.to_le_bytes()).collect();
    bytes.extend(table.bars.iter().flat_map(Bar::numbers).flat_map(f64::to_le_bytes));
    bytes.extend(table.params.iter().flat_map(Params::numbers).flat_map(f64::to_le_bytes));
    bytes.extend(table.offsets.iter().flat_map(|x| (*x as u32).to_le_bytes()));
    bytes.extend(time_of_day.iter().chain(log_to_close).flat_map(|x| x.to_le_bytes()));
    let [from, to] = [0, 1].map(|end| stretches.iter().map(move |s| [s.start, s.end][end]));
    bytes.extend(from.chain(to).flat_map(u32::to_le_bytes));
    bytes.extend(count_starts(stretches, LENGTH).into_iter().flat_map(u64::to_le_bytes));
    bytes.extend(targets.iter().flat_map(|x| x.to_le_bytes()));
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The program reads everything before it writes.
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", done.status);
    std::fs::remove_dir_all(&folder).unwrap();
    Some(done.stdout.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[test]
fn the_cards_code_lives_through_the_same_episodes() {
    let ((data, stretches), targets) = (world(), some_targets());
    let (expected, [cut, ruined]) = frames(&data, &stretches, &targets);
    assert!(cut > 1000 && ruined > 10, "{cut} episodes were cut off, {ruined} ended by ruin");
    assert_eq!(expected.len(), (STEPS + 1) * ACCOUNTS * FRAME);
    let Some(found) = frames_of_a_card(&data, &stretches, &targets) else { return skip("no g++") };
    assert_eq!(expected.len(), found.len());
    for (at, (own, twin)) in expected.chunks_exact(FRAME).zip(found.chunks_exact(FRAME)).enumerate() {
        let field = own.iter().zip(twin).position(|(own, twin)| own != twin);
        let (step, account) = (at / ACCOUNTS, at % ACCOUNTS);
        assert_eq!(field, None, "account {account} behind step {step}: {own:x?} and {twin:x?}");
    }
}

/// Logarithms of bars held are kept at hand, and are those of the definition.
#[test]
fn bars_to_a_close_are_the_logarithm() {
    let (data, _) = world();
    let (_, log_to_close) = data.times();
    let expected = |row: usize| ln_1p(f64::from(data.row_time(row as u32).bars_to_close)) as f32;
    assert!(log_to_close.iter().enumerate().all(|(row, log)| log.to_bits() == expected(row).to_bits()));
}

/// As xtask's `test.rs` reads it.
#[expect(clippy::print_stdout, reason = "this is how a skip is reported")]
fn skip(why: &str) {
    use std::io::Write;
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    match log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
        Some(mut file) => file.write_all(format!("{why}\n").as_bytes()).unwrap(),
        None => println!("SKIP: {why}"),
    }
}
