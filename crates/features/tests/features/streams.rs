//! The stream gives the bits of the table, bar by bar, and goes on from a saved state as if it had never stopped.

use crate::make::{bits, check_table, dataset, everything, once_in, plan, rough, stream, try_dataset};
use bars::{Bars, Hints, Instrument, Timeframe};
use features::{Bar, Dataset, Options, Plan, Row, Stream};
use random::SplitMix;
use xxhash_rust::xxh3::xxh3_64;

/// A whole set: the catalogue on the base, some of it seen on slower bars, and groups of their own.
fn whole(many: bool, slow: &[&str]) -> String {
    let all = everything(many);
    let mut text = String::new();
    for (i, feature) in all.iter().enumerate() {
        text += &format!("b{i} = {feature}\n");
    }
    text += "rate = col(rate)\nfunding = sma(col('Funding Rate', 2), 5)\ngap = open / close[1] - 1\nfour = 4\n";
    for timeframe in slow {
        for (i, feature) in all.iter().enumerate() {
            text += &format!("s{timeframe}{i} = ({feature})@{timeframe}\n");
        }
        text += &format!("m{timeframe} = ema(close@{timeframe} / close, 5)[1]\nr{timeframe} = col(rate)@{timeframe}\n");
    }
    for timeframe in slow {
        text += &format!("\n[g{timeframe} @{timeframe}]\n");
        for (i, feature) in all.iter().enumerate() {
            text += &format!("g{timeframe}{i} = {feature}\n");
        }
        text += &format!("extra{timeframe} = sma(col(rate), 3)\n");
    }
    text
}

fn equal(row: Row<'_>, values: &[f32], valid: &[u64], settled: bool) -> bool {
    let same = row.values.iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits());
    same && row.values.len() == values.len() && row.valid == valid && row.settled == settled
}

/// Walks a symbol bar by bar, stopping and starting again at random bars, and holds each row against the table.
fn check(bars: &Bars, plan: &Plan, seed: u64, every: usize) {
    let made = dataset(vec![bars.clone()], plan, 1);
    let (base, words) = (&made.base, made.base.words());
    let mut random = SplitMix::new(seed);
    let mut live = stream(bars, plan);
    let mut seen = vec![0; made.slow.len()];
    for row in 0..bars.len() {
        if once_in(&mut random, every) {
            let state = live.save();
            // Half the time into the same stream, which must not be disturbed by what it knew.
            let mut other = if once_in(&mut random, 2) { stream(bars, plan) } else { live };
            other.restore(&state).unwrap();
            assert_eq!(other.save(), state, "bar {row}: saved, restored, saved");
            live = other;
        }
        let fresh = row > 0 && bars.segments.contains(&row);
        live.push(&Bar::of(bars, row), fresh).unwrap();
        assert_eq!(live.bars(), row as u64 + 1);
        let now = live.row();
        if !equal(now, base.row(row), &base.valid[row * words..(row + 1) * words], base.settled[row]) {
            for (f, column) in base.columns.iter().enumerate() {
                let (a, b) = (now.values[f], base.row(row)[f]);
                assert_eq!(
                    a.to_bits(),
                    b.to_bits(),
                    "{} {}: {a} streamed, {b} in the table, row {row}",
                    column.name,
                    column.text
                );
            }
            panic!("row {row}: bits {:?}, settled {} streamed, {}", now.valid, now.settled, base.settled[row]);
        }
        for ((slow, seen), (timeframe, columns, rows)) in made.slow.iter().zip(&mut seen).zip(live.slow()) {
            let (table, words) = (&slow.table, slow.table.words());
            assert_eq!((timeframe, columns.len()), (table.timeframe, table.columns.len()));
            for now in rows {
                let bits = &table.valid[*seen * words..(*seen + 1) * words];
                assert!(equal(now, table.row(*seen), bits, table.settled[*seen]), "{timeframe} row {seen}");
                *seen += 1;
            }
            if slow.of[row] != u32::MAX {
                assert_eq!(slow.of[row] as usize + 1, *seen, "row {row} sees the last {timeframe} bar");
            }
        }
    }
    for (slow, seen) in made.slow.iter().zip(seen) {
        assert_eq!(slow.table.rows(), seen);
    }
}

#[test]
fn every_indicator_streams() {
    let plan = plan(&whole(true, &["1h"]));
    for (seed, symbol) in ["BTCUSDT", "AAPL"].into_iter().enumerate() {
        check(&rough(symbol, "5m", 2500, seed as u64, seed == 1), &plan, 3, 150);
    }
}

#[test]
fn slower_and_slower_bars_stream() {
    let plan = plan(&whole(false, &["15m", "1h", "4h", "1d"]));
    for (seed, symbol) in ["EURUSD", "BTCUSDT", "ES=F"].into_iter().enumerate() {
        check(&rough(symbol, "5m", 2500, 7 + seed as u64, true), &plan, 4, 300);
    }
    let plan = plan_of_days();
    check(&rough("AAPL", "1d", 900, 10, true), &plan, 5, 90);
}

fn plan_of_days() -> Plan {
    plan(&whole(false, &["1w", "1mo"]))
}

/// A stop before every bar.
#[test]
fn stream_can_be_saved_at_any_bar() {
    let plan = plan(
        "rsi(14), kama(10), sar, obv, session_vwap, std(7), cci(9), macd.hist\nslow = ema(close, 3)@15m\n[h @1h]\nadx(5)",
    );
    for seed in 0..4 {
        check(&rough("BTCUSDT", "5m", 900, 20 + seed, true), &plan, seed, 1);
    }
}

/// Volume and columns that never come.
#[test]
fn a_stream_without_volume() {
    let mut bars = rough("EURUSD", "5m", 800, 30, false);
    bars.volume.clear();
    check(&bars, &plan("rsi(14), vwap(20), ret(3)\nslow = vwma(5)@1h\nmid = sma(5)@1h\n[h @1h]\nobv, atr(5)"), 1, 50);
}

/// Bars that come twice, or late, are refused and change nothing.
#[test]
fn out_of_order_bars_are_refused() {
    let plan = plan("sma(3)\n[h @1h]\nsma(2)");
    let bars = rough("BTCUSDT", "5m", 100, 40, false);
    let mut live = stream(&bars, &plan);
    for row in 0..50 {
        live.push(&Bar::of(&bars, row), false).unwrap();
    }
    let before = live.save();
    for row in [49, 48, 0] {
        let error = live.push(&Bar::of(&bars, row), row == 48).unwrap_err();
        assert!(error.message.contains("came after one that ended at"), "{error}");
    }
    assert_eq!(live.save(), before);
}

const SMALL: &str = "sma(3), ema(close, 2), sar\nslow = rsi(2)@15m\n[h @1h]\nobv";

fn small() -> (Bars, Plan, Stream) {
    let (bars, plan) = (rough("BTCUSDT", "5m", 200, 50, false), plan(SMALL));
    let mut live = stream(&bars, &plan);
    (0..120).for_each(|row| live.push(&Bar::of(&bars, row), false).unwrap());
    (bars, plan, live)
}

#[test]
fn a_damaged_state_is_refused() {
    let (bars, plan, mut live) = small();
    let state = live.save();
    let mut other = stream(&bars, &plan);
    other.push(&Bar::of(&bars, 0), false).unwrap();
    let before = other.save();
    let refuse = |other: &mut Stream, bytes: &[u8], what: &str| {
        let error = other.restore(bytes).expect_err(what);
        assert_eq!(error.kind, files::Kind::State, "{what}: {error}");
        assert!(error.remedy.is_some(), "{error}");
    };
    for bit in 0..state.len() * 8 {
        let mut damaged = state.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        refuse(&mut other, &damaged, &format!("bit {bit}"));
    }
    for length in 0..state.len() {
        refuse(&mut other, &state[..length], &format!("{length} bytes"));
    }
    for more in 1..20 {
        refuse(&mut other, &[&state[..], &vec![0; more]].concat(), &format!("{more} more"));
    }
    assert_eq!(other.save(), before, "what was refused changed nothing");
}

/// A body with a checksum of its own, as no accident makes it: refused or taken, but nothing panics.
#[test]
fn forged_state_is_harmless() {
    let (bars, plan, mut live) = small();
    let state = live.save();
    let forge = |words: &[u64]| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    };
    let words: Vec<u64> =
        state[..state.len() - 8].chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
    let mut random = SplitMix::new(60);
    for at in 2..words.len() {
        for value in
            [0, 1, u64::MAX, 1 << 63, f64::NAN.to_bits(), f64::INFINITY.to_bits(), (random.unit() * 1e18) as u64]
        {
            let mut forged = words.clone();
            forged[at] = value;
            let mut other = stream(&bars, &plan);
            if other.restore(&forge(&forged)).is_ok() {
                let _ = (120..125).try_for_each(|row| other.push(&Bar::of(&bars, row), false));
            }
        }
    }
    for length in 0..words.len() {
        assert!(stream(&bars, &plan).restore(&forge(&words[..length])).is_err(), "{length} words");
    }
    assert!(stream(&bars, &plan).restore(&forge(&[&words[..], &[0]].concat())).is_err());
}

/// A state fits the plan, instrument, timeframe and columns it was made with, and no other.
#[test]
fn state_of_another_stream_is_refused() {
    let (bars, own, mut live) = small();
    let state = live.save();
    let names: Vec<String> = bars.extras.iter().map(|e| e.0.clone()).collect();
    let make = |text: &str, symbol: &str, timeframe: Timeframe, names: &[String], volume, hole| {
        let instrument = Instrument::guess(symbol, &Hints::default()).0;
        Stream::new(&plan(text), &instrument, timeframe, names, volume, hole).unwrap()
    };
    let mut same = make(SMALL, "BTCUSDT", Timeframe::M5, &names, true, None);
    same.restore(&state).unwrap();
    assert_eq!(own.width(), 5);
    let other_group = SMALL.replace("[h @1h]", "[h @4h]");
    let other_slow = SMALL.replace("@15m", "@30m");
    for (what, mut other) in [
        ("other features", make("sma(4)", "BTCUSDT", Timeframe::M5, &names, true, None)),
        ("a group of another timeframe", make(&other_group, "BTCUSDT", Timeframe::M5, &names, true, None)),
        ("a slower view", make(&other_slow, "BTCUSDT", Timeframe::M5, &names, true, None)),
        ("another session", make(SMALL, "AAPL", Timeframe::M5, &names, true, None)),
        ("another timeframe", make(SMALL, "BTCUSDT", Timeframe::M1, &names, true, None)),
        ("other columns", make(SMALL, "BTCUSDT", Timeframe::M5, &names[..1], true, None)),
        ("no volume", make(SMALL, "BTCUSDT", Timeframe::M5, &names, false, None)),
        ("another longest hole", make(SMALL, "BTCUSDT", Timeframe::M5, &names, true, Some(3))),
    ] {
        assert!(other.restore(&state).is_err(), "{what}");
    }
}

/// Before its next bar, a restored stream has no row of before.
#[test]
fn a_restored_stream_shows_no_old_row() {
    let (bars, plan, mut live) = small();
    let early = stream(&bars, &plan).save();
    assert!(live.row().valid.iter().any(|w| *w != 0));
    live.restore(&early).unwrap();
    assert_eq!(live.bars(), 0);
    assert!(live.row().valid.iter().all(|w| *w == 0) && !live.row().settled, "the row of a bar it no longer knows");
    assert!(live.slow().all(|(_, _, rows)| rows.count() == 0));
}

/// Longest holes of all kinds break both at the same bars.
#[test]
fn holes_break_stream_and_batch_alike() {
    let bars = rough("BTCUSDT", "5m", 1500, 70, false);
    let plan = plan("sma(5), obv\nslow = sma(2)@1h\n[h @1h]\nsma(2)");
    let names: Vec<String> = bars.extras.iter().map(|e| e.0.clone()).collect();
    for hole in [Some(0), Some(1), Some(3), Some(1000), None] {
        let options =
            features::Options { threads: 1, max_hole: hole, labels: None, progress: &|_, _, _| {}, stop: &|| false };
        let made = features::Dataset::new(vec![bars.clone()], &plan, &options).unwrap();
        let mut live = Stream::new(&plan, &bars.instrument, bars.timeframe, &names, true, hole).unwrap();
        for row in 0..bars.len() {
            live.push(&Bar::of(&bars, row), row > 0 && bars.segments.contains(&row)).unwrap();
            let valid = &made.base.valid[row..=row];
            assert!(equal(live.row(), made.base.row(row), valid, made.base.settled[row]), "{hole:?} row {row}");
        }
    }
}

/// The stream refuses what the table refuses.
#[test]
fn slower_timeframes_agree_in_stream_and_batch() {
    for (text, timeframe) in [
        ("rsi(14)@1h", "1d"),
        ("rsi(14)@1h", "1h"),
        ("close\n[g @5m]\nclose", "15m"),
        ("close@7m", "5m"),
        ("col(rates)", "5m"),
        ("col(oi)@1h", "5m"),
    ] {
        let (bars, plan) = (rough("BTCUSDT", timeframe, 50, 80, false), plan(text));
        let names: Vec<String> = bars.extras.iter().map(|e| e.0.clone()).collect();
        let table = try_dataset(vec![bars.clone()], &plan, 1).expect_err(text);
        let made = Stream::new(&plan, &bars.instrument, bars.timeframe, &names, true, None);
        let streamed = made
            .err()
            .unwrap_or_else(|| panic!("{text} on bars of {timeframe} is refused as a table, not as a stream"));
        assert_eq!(table, streamed);
    }
}

#[test]
fn one_symbol_of_a_table_is_its_stream() {
    let plan = plan("rsi(14), atr(7)\nslow = sma(3)@1h");
    let market: Vec<Bars> = (0..5).map(|s| rough("BTCUSDT", "5m", 200 + 37 * s, s as u64, true)).collect();
    let made = dataset(market.clone(), &plan, 2);
    for (s, bars) in market.into_iter().enumerate() {
        let alone = dataset(vec![bars], &plan, 1);
        let (from, to) = (made.base.offsets[s] * made.base.stride, made.base.offsets[s + 1] * made.base.stride);
        let among: Vec<u32> = made.base.values[from..to].iter().map(|v| v.to_bits()).collect();
        assert_eq!(bits(&alone.base).0, among);
    }
}

#[test]
fn the_tables_of_a_market_are_those_of_its_streams() {
    let text = "body, rsi(14), atr(7), volume_ratio(20)\nslow = sma(3)@1h\n[hours @1h]\nema(5)\nbody\n[days @1d]\nbody";
    let plan = plan(text);
    let options = Options { threads: 2, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
    let mut market: Vec<Bars> = (0..4).map(|s| rough("BTCUSDT", "5m", 700 * s, s as u64, s != 2)).collect();
    market[3].segments = vec![0, 61, 900];
    let made = dataset(market.clone(), &plan, 2);
    let mut streamed = Dataset::streamed(market.clone(), &plan, &options).unwrap();
    fn tables(data: &Dataset) -> Vec<&features::Table> {
        std::iter::once(&data.base).chain(data.slow.iter().map(|s| &s.table)).collect()
    }
    for (table, streamed) in tables(&made).into_iter().zip(tables(&streamed)) {
        check_table(streamed);
        assert_eq!((bits(table), &table.runs, &table.columns), (bits(streamed), &streamed.runs, &streamed.columns));
    }
    let of = |data: &Dataset| data.slow.iter().map(|s| s.of.clone()).collect::<Vec<_>>();
    assert_eq!((of(&made), &made.clock), (of(&streamed), &streamed.clock));
    assert!(made.slow.len() == 2 && made.base.runs.iter().map(Vec::len).sum::<usize>() > 4);
    // Another price is seen in the rows behind it alone.
    market[3].close[1500] *= 1.01;
    streamed = Dataset::streamed(market.clone(), &plan, &options).unwrap();
    let (row, stride) = (made.base.offsets[3] + 1500, made.base.stride);
    let (before, after) = (bits(&made.base).0, bits(&streamed.base).0);
    assert!(before[..row * stride] == after[..row * stride] && before[row * stride..] != after[row * stride..]);
}
