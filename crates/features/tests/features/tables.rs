//! The same bits on any number of threads and in any company; defined outputs for degenerate input; the table's small
//! helpers.

use crate::make::{bits, clean, dataset, everything, first, piece, plan, rough, try_dataset};
use bars::{Bars, Timeframe};
use features::{Dataset, Plan};

/// The whole catalogue at its defaults, with a slow view and a slow table of some of it.
fn whole() -> Plan {
    let mut text = everything(false).join("\n");
    text += "\nslow = ema(rsi(5), 3)@1h\nrate = col(rate)\n[h @1h]\nrsi(14)\natr(5) / close\nobv\nsession_place\n";
    plan(&text)
}

/// Symbols of very different lengths.
fn ragged(n: usize, longest: usize) -> Vec<Bars> {
    const LENGTHS: [usize; 9] = [1, 2, 0, 300, 33, 4097, 1000, 5, 700];
    (0..n)
        .map(|s| {
            let bars = if s == 7 % n { longest } else { LENGTHS[s % 9] };
            rough(["BTCUSDT", "AAPL", "EURUSD"][s % 3], "5m", bars, s as u64, s % 4 == 0)
        })
        .collect()
}

/// Everything two data sets say is equal to the bit.
fn same(a: &Dataset, b: &Dataset, what: &str) {
    assert!(bits(&a.base) == bits(&b.base), "{what}: the tables differ");
    assert_eq!(a.slow.len(), b.slow.len());
    for (a, b) in a.slow.iter().zip(&b.slow) {
        assert!(bits(&a.table) == bits(&b.table) && a.of == b.of, "{what}: the {} tables differ", a.table.timeframe);
    }
}

#[test]
fn threads_change_no_bit() {
    let (whole, one) = (whole(), plan("rsi(14)"));
    for (symbols, longest, plan) in
        [(1, 10_000, &whole), (1, 9_000, &one), (2, 9_000, &whole), (5, 4_500, &whole), (31, 10_000, &whole)]
    {
        let market = ragged(symbols, longest);
        let one = dataset(market.clone(), plan, 1);
        for threads in [2, 3, 16] {
            same(&one, &dataset(market.clone(), plan, threads), &format!("{symbols} symbols, {threads} threads"));
        }
    }
}

#[test]
fn other_symbols_change_no_bit() {
    let plan = whole();
    let market = ragged(31, 10_000);
    let all = dataset(market.clone(), &plan, 2);
    for (s, bars) in market.into_iter().enumerate().filter(|(s, _)| [0, 1, 2, 3, 5, 7, 14, 30].contains(s)) {
        for threads in [1, 16] {
            let alone = dataset(vec![bars.clone()], &plan, threads);
            let (from, to) = (all.base.offsets[s], all.base.offsets[s + 1]);
            let (stride, words) = (all.base.stride, all.base.words());
            let among: Vec<u32> = all.base.values[from * stride..to * stride].iter().map(|v| v.to_bits()).collect();
            assert!(bits(&alone.base).0 == among, "symbol {s}, {threads} threads");
            assert_eq!(alone.base.valid, all.base.valid[from * words..to * words]);
            assert_eq!(alone.base.settled, all.base.settled[from..to]);
            let (slow, from_slow) = (&all.slow[0], all.slow[0].table.offsets[s] as u32);
            let of = slow.of[from..to].iter().map(|row| if *row == u32::MAX { *row } else { row - from_slow });
            assert_eq!(alone.slow[0].of, of.collect::<Vec<_>>());
        }
    }
}

/// A column more or less leaves the others as they were: words of bits and tiles of four columns have ends.
#[test]
fn any_number_of_columns() {
    let bars = rough("BTCUSDT", "5m", 600, 3, true);
    let all: Vec<String> = (0..130).map(|i| format!("c{i} = sma({})", i + 1)).collect();
    let most = dataset(vec![bars.clone(); 9], &plan(&all.join("\n")), 2);
    for width in [1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129] {
        let some = dataset(vec![bars.clone(); 9], &plan(&all[..width].join("\n")), 2);
        assert_eq!((some.base.columns.len(), some.base.words()), (width, width.div_ceil(64)));
        for row in 0..some.base.rows() {
            let equal = some.base.row(row).iter().zip(most.base.row(row)).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(equal, "{width} columns, row {row}");
        }
    }
}

/// A set whose features are all on slower bars leaves the base without columns.
#[test]
fn a_base_without_columns() {
    for symbols in [1, 5, 12] {
        let made = dataset(vec![clean("BTCUSDT", "5m", 500, 1); symbols], &plan("[h @1h]\nrsi(5)"), 2);
        assert_eq!((made.base.stride, made.base.words(), made.base.values.len()), (0, 0, 0));
        assert_eq!(made.slow[0].table.rows(), symbols * (500 / 12));
    }
    assert_eq!(dataset(vec![clean("BTCUSDT", "5m", 9000, 1)], &plan("[h @1h]\nrsi(5)"), 16).base.rows(), 9000);
}

/// Every value of the catalogue is there from its first bar on, and not before.
#[test]
fn first_values_are_exact() {
    let all: Vec<String> = everything(true).into_iter().filter(|f| !f.contains("session")).collect();
    let made = dataset(vec![clean("BTCUSDT", "5m", 700, 5), clean("AAPL", "5m", 300, 6)], &plan(&all.join("\n")), 2);
    for (f, column) in made.base.columns.iter().enumerate() {
        for s in 0..2 {
            let rows = made.base.offsets[s]..made.base.offsets[s + 1];
            for (i, row) in rows.enumerate() {
                let there = i >= column.first_valid;
                assert_eq!(
                    made.base.is_valid(row, f),
                    there,
                    "{} at bar {i}, first {}",
                    column.name,
                    column.first_valid
                );
            }
        }
    }
}

/// What a table says of degenerate bars: nothing panics, nothing is infinite (see `check_table`), and what is flat has
/// its word.
#[test]
fn degenerate_bars_have_defined_values() {
    let plan = whole();
    let change = |change: &dyn Fn(&mut Bars)| {
        let mut bars = clean("BTCUSDT", "5m", 700, 8);
        change(&mut bars);
        bars
    };
    let all = |bars: &mut Bars, value: f64| {
        [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close].into_iter().for_each(|x| x.fill(value));
    };
    let spike = |bars: &mut Bars, at: usize, value: f64| {
        (bars.high[at], bars.close[at], bars.volume[at]) = (value, value, value);
    };
    let cases = [
        ("constant", change(&|b| all(b, 0.1))),
        ("constant 1e8", change(&|b| all(b, 1e8))),
        ("zero", change(&|b| all(b, 0.0))),
        ("negative", change(&|b| all(b, -37.6))),
        ("no volume at all", change(&|b| b.volume.fill(0.0))),
        ("volume missing", change(&|b| b.volume.fill(f64::NAN))),
        (
            "constant, no volume",
            change(&|b| {
                all(b, 5.0);
                b.volume.fill(0.0)
            }),
        ),
        ("spike", change(&|b| spike(b, 300, 1e12))),
        ("spike at the first", change(&|b| spike(b, 0, 1e12))),
        ("spike at the last", change(&|b| spike(b, 699, 1e12))),
        ("more than f32 holds", change(&|b| spike(b, 300, 1e39))),
        ("all more than f32 holds", change(&|b| all(b, 1e60))),
        ("one monstrous number", change(&|b| spike(b, 300, 1e60))),
        ("the smallest numbers", change(&|b| all(b, f64::from_bits(1)))),
        ("missing prices", change(&|b| b.close.fill(f64::NAN))),
        ("infinite", change(&|b| spike(b, 300, f64::INFINITY))),
        ("one bar", first(&clean("BTCUSDT", "5m", 9, 1), 1)),
        ("two bars", first(&clean("BTCUSDT", "5m", 9, 1), 2)),
        ("no bar", first(&clean("BTCUSDT", "5m", 9, 1), 0)),
    ];
    for (what, bars) in &cases {
        for company in [1, 5, 9] {
            let made = dataset(vec![bars.clone(); company], &plan, 2);
            assert_eq!(made.base.rows(), bars.len() * company, "{what}");
        }
    }
    // What overflows f64 itself is not told apart from the rest in every place, but nothing panics.
    for (what, bars) in
        [("the largest", change(&|b| all(b, f64::MAX))), ("one of the largest", change(&|b| spike(b, 300, f64::MAX)))]
    {
        assert_eq!(dataset(vec![bars.clone(); 5], &plan, 2).base.rows(), 5 * bars.len(), "{what}");
    }
    // All of them side by side.
    let market: Vec<Bars> = cases.iter().map(|c| c.1.clone()).collect();
    let together = dataset(market, &plan, 2);
    for (s, (what, bars)) in cases.iter().enumerate() {
        let alone = dataset(vec![bars.clone()], &plan, 1);
        let rows = together.base.offsets[s] * together.base.stride..together.base.offsets[s + 1] * together.base.stride;
        let among: Vec<u32> = together.base.values[rows].iter().map(|v| v.to_bits()).collect();
        assert!(bits(&alone.base).0 == among, "{what}");
    }
}

/// After a spike that left every window, everything is as if it had not been; what is too large for f32 is missing
/// meanwhile.
#[test]
fn a_spike_is_forgotten() {
    let windows = "sma(20), std(20), skew(20), kurtosis(20), linreg(20), linreg_slope(20), wma(20), cci(20), zscore(20), donchian(20)";
    let plan = plan(&format!(
        "{windows}, mfi(14), cmf(20), vwap(20), obv_flow(20), autocorr(20), variance_ratio(20, 3), ulcer(14)"
    ));
    let plain = clean("BTCUSDT", "5m", 600, 9);
    for value in [1e12, 1e41, 1e60] {
        let mut spiked = plain.clone();
        (spiked.high[300], spiked.close[300], spiked.volume[300]) = (value, value, value);
        let (a, b) = (dataset(vec![plain.clone()], &plan, 1), dataset(vec![spiked], &plan, 1));
        for row in (0..300).chain(345..600) {
            let equal = a.base.row(row).iter().zip(b.base.row(row)).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(equal, "{value:e}, row {row}: {:?} and {:?}", a.base.row(row), b.base.row(row));
        }
        let mean = b.base.column("sma(20)").unwrap();
        assert_eq!(b.base.is_valid(305, mean), value < 1e38, "{value:e}");
    }
}

/// The words of flat prices.
#[test]
fn flat_prices_have_defined_values() {
    let expected = [
        ("rsi(14)", Some(50.0)),
        ("stochrsi", Some(50.0)),
        ("stoch.k", Some(50.0)),
        ("williams_r(14)", Some(-50.0)),
        ("macd.hist", Some(0.0)),
        ("ppo", Some(0.0)),
        ("roc(10)", Some(0.0)),
        ("trix(15)", Some(0.0)),
        ("cci(20)", Some(0.0)),
        ("cci(9000)", Some(0.0)),
        ("cmo(14)", Some(0.0)),
        ("cmo_sum(14)", Some(0.0)),
        ("tsi", Some(0.0)),
        ("adx(14)", Some(0.0)),
        ("dx(14)", Some(0.0)),
        ("plus_di(14)", Some(0.0)),
        ("aroon(14).up", Some(100.0)),
        ("bop", Some(0.0)),
        ("efficiency(10)", Some(0.0)),
        ("atr(14)", Some(0.0)),
        ("std(20)", Some(0.0)),
        ("std(3000)", Some(0.0)),
        ("bollinger.percent_b", Some(0.5)),
        ("bollinger.width", Some(0.0)),
        ("keltner.place", Some(0.5)),
        ("donchian.place", Some(0.5)),
        ("volatility(20)", Some(0.0)),
        ("parkinson(20)", Some(0.0)),
        ("yang_zhang(20)", Some(0.0)),
        ("ulcer(14)", Some(0.0)),
        ("chop(14)", Some(50.0)),
        ("zscore(20)", None),
        ("skew(20)", None),
        ("kurtosis(20)", None),
        ("variance_ratio", None),
        ("autocorr(20)", Some(0.0)),
        ("linreg_r2(20)", Some(0.0)),
        ("linreg_slope(20)", Some(0.0)),
        ("mfi(14)", Some(50.0)),
        ("cmf(20)", Some(0.0)),
        ("obv_flow(20)", Some(0.0)),
        ("vwap(20)", None),
        ("volume_ratio(20)", None),
        ("body", Some(0.0)),
        ("close_place", Some(0.5)),
        ("drawdown(100)", Some(0.0)),
        ("since_high(20)", Some(0.0)),
        ("log_return", Some(0.0)),
        ("session_place", Some(0.5)),
    ];
    let plan = plan(&expected.map(|e| e.0).join("\n"));
    for price in [0.1, 1e-8, 1e8, 37_123.456_789, 1.0 / 3.0, 0.7, 61.803_398_875] {
        let mut bars = clean("BTCUSDT", "5m", 12_000, 1);
        [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close].into_iter().for_each(|x| x.fill(price));
        bars.volume.fill(0.0);
        let made = dataset(vec![bars], &plan, 2);
        for (f, (text, value)) in expected.iter().enumerate() {
            for row in [11_000, 11_500, 11_999] {
                let got = made.base.row(row)[f];
                let fine = value.map_or(got.is_nan(), |v: f32| (got - v).abs() <= 1e-6 * v.abs() + 1e-9);
                assert!(fine, "{text} of a constant {price} is {got} instead of {value:?}");
            }
        }
    }
}

/// Where a row has settled, the data may as well have begun later.
#[test]
fn settled_rows_do_not_know_where_the_data_began() {
    let features = "ema(close, 10) / close, rsi(7), std(20) / close, adx(5) / 100, kama(10) / close, tema(5) / close";
    for text in
        [features, "slow = ema(close, 20)@1h / close", "slow = ema(close@1h / close, 10)", "slow = rsi(14)@15m / 100"]
    {
        let plan = plan(text);
        for (bars, from) in [("BTCUSDT", 12), ("AAPL", 144), ("EURUSD", 555), ("AAPL", 2000)]
            .into_iter()
            .enumerate()
            .flat_map(|(i, (symbol, from))| {
                [
                    (clean(symbol, "5m", 9000, i as u64), from),
                    (Bars { segments: vec![0], ..rough(symbol, "5m", 9000, i as u64, false) }, from),
                ]
            })
        {
            let made = dataset(vec![bars.clone()], &plan, 2);
            let late = dataset(vec![piece(&bars, from..9000)], &plan, 2);
            let settled = (0..late.base.rows()).filter(|row| late.base.settled[*row] && made.base.settled[row + from]);
            let mut rows = 0;
            assert!(!late.base.settled[0]);
            for row in settled {
                for (f, (a, b)) in late.base.row(row).iter().zip(made.base.row(row + from)).enumerate() {
                    let near = (a - b).abs() <= 2e-6 * b.abs().max(1e-3);
                    assert!(
                        near,
                        "{}: {a} at row {row} of data that begin {from} bars later, {b}",
                        late.base.columns[f].text
                    );
                }
                rows += 1;
            }
            let whole = bars.volume.iter().all(|v| v.is_finite());
            assert!(rows > 500 || !whole, "{text}: {rows} settled rows");
        }
    }
}

#[test]
fn rows_are_in_order() {
    let market: Vec<Bars> = [0, 3, 0, 0, 5, 1, 0].into_iter().map(|n| clean("BTCUSDT", "5m", n, 1)).collect();
    let table = dataset(market, &plan("a = close\nb = open\nc = sma(3)"), 1).base;
    let places: Vec<(usize, usize)> = (0..table.rows()).map(|row| table.place(row)).collect();
    assert_eq!(places, [(1, 0), (1, 1), (1, 2), (4, 0), (4, 1), (4, 2), (4, 3), (4, 4), (5, 0)]);
    assert_eq!(["a", "b", "c", "d", "close"].map(|name| table.column(name)), [Some(0), Some(1), Some(2), None, None]);
    // Two of three, two of five and the one of one have no third bar behind them: 5 of 9.
    assert_eq!(table.sparse(0.5), [("c", 5.0 / 9.0)]);
    assert_eq!(table.sparse(5.0 / 9.0), []);
    assert_eq!(table.sparse(0.0).len(), 1);
    let bytes = 9 * 4 * 4 + 9 * 8 + 9 + 9 * 8 * (6 + 1 + 2);
    assert_eq!(table.bytes(), bytes);
    let empty = dataset(vec![clean("BTCUSDT", "5m", 0, 1)], &plan("close"), 3).base;
    assert_eq!((empty.rows(), empty.sparse(0.0), empty.bytes()), (0, vec![], 0));
}

/// The slow row of a base row is the last that was complete when it became known, in its own segment.
#[test]
fn slow_rows_equal_brute_force() {
    for (s, symbol) in ["BTCUSDT", "AAPL", "EURUSD", "ES=F"].into_iter().enumerate() {
        let market: Vec<Bars> = (0..3).map(|i| rough(symbol, "5m", 1200, (10 * s + i) as u64, false)).collect();
        let made = dataset(market.clone(), &plan("close\n[h @1h]\nclose, high, low, volume\n[d @1d]\nclose"), 2);
        for slow in &made.slow {
            for (s, bars) in market.iter().enumerate() {
                let coarse = &slow.table.market[s];
                for row in 0..bars.len() {
                    let begin = bars.segments.iter().copied().filter(|b| *b <= row).max().unwrap();
                    // A slow bar belongs to this segment if it ends after the segment's first bar began.
                    let mut known = (0..coarse.len()).filter(|i| {
                        let own = coarse.segments.iter().filter(|b| *b <= i).count();
                        let segment_start = coarse.segments[own - 1];
                        coarse.end[*i] <= bars.end[row]
                            && coarse.end[*i] > bars.start[begin]
                            && segment_start <= *i
                            && coarse.end[segment_start] > bars.start[begin]
                    });
                    let expected = known.next_back().map_or(u32::MAX, |i| (slow.table.offsets[s] + i) as u32);
                    assert_eq!(
                        slow.of[made.base.offsets[s] + row],
                        expected,
                        "{symbol} {} row {row}",
                        slow.table.timeframe
                    );
                }
            }
        }
    }
}

#[test]
fn volume_features_are_dropped_without_volume() {
    let text = "rsi(14), obv, ratio = close / vwap(5), sma(volume, 3), col(rate)\nseen = mfi(5)@1h\nother = sma(3)@1h\n[h @1h]\ncmf(5), atr(3)";
    let plan = plan(text);
    let (left, gone) = plan.without_volume();
    assert_eq!(gone, ["obv", "ratio", "sma(volume, 3)", "seen", "cmf(5)"]);
    assert_eq!((plan.width(), left.width()), (9, 4));
    let with = clean("BTCUSDT", "5m", 400, 1);
    let without = Bars { volume: Vec::new(), ..with.clone() };
    let both = dataset(vec![with.clone(), without.clone()], &plan, 1);
    assert_eq!((both.without_volume.len(), both.symbols_without_volume.len(), both.base.columns.len()), (0, 1, 7));
    let silent = dataset(vec![without.clone()], &plan, 1);
    assert_eq!((silent.without_volume, silent.symbols_without_volume.len(), silent.base.columns.len()), (gone, 0, 3));
    for row in 0..400 {
        let (own, all) = (silent.base.row(row), both.base.row(400 + row));
        assert!([0, 4, 6].iter().zip(own).all(|(f, v)| all[*f].to_bits() == v.to_bits()), "row {row}");
        assert!([1, 2, 3, 5].iter().all(|f: &usize| all[*f].is_nan()), "row {row}");
    }
    let error = try_dataset(vec![without], &crate::make::plan("obv, vwap(3)"), 1).unwrap_err();
    assert!(error.message.contains("every feature of the set needs the volume"), "{error}");
}

/// What a sample of a market is cut by: bars further back than a column says have no part in its value.
#[test]
fn values_look_back_no_further_than_declared() {
    let market: Vec<Bars> = (0..6).map(|s| clean(&format!("COIN{s}USDT"), "5m", 1500, s)).collect();
    let row = 1499;
    let changed = |from: usize| -> Vec<Bars> {
        let mut market = market.clone();
        for (s, bars) in market.iter_mut().enumerate() {
            for at in 0..from {
                let by = 1.3 + 0.2 * ((at * (s + 2)) as f64).sin();
                let prices = [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close];
                prices.into_iter().for_each(|prices| prices[at] *= by);
            }
        }
        market
    };
    for (text, looks) in [
        ("close/sma(100) - 1", 99),
        ("sma(50)@1h", 49 * 12),
        ("close/sma(50)@1h - 1", 49 * 12),
        ("lag = zscore(log_return(1)@1h, 30)[2]", 42),
        ("market_return(30)", 30),
        ("market_regime(20, 250)", 270),
        ("sma(market_return(30), 40)", 69),
        ("relative_strength(60) - sma(market_volatility(20), 100)", 119),
        ("cluster_return(5, 250)", 250),
    ] {
        let plan = plan(text);
        let whole = dataset(market.clone(), &plan, 1);
        let reach = whole.base.columns[0].reach;
        assert_eq!(reach, plan.reach(Timeframe::M5), "{text}");
        assert!(reach >= looks, "{text}: {reach}");
        let value = |market: Vec<Bars>| f64::from(dataset(market, &plan, 1).base.row(row)[0]);
        let was = f64::from(whole.base.row(row)[0]);
        let apart = |from: usize| (value(changed(from)) - was).abs() / was.abs().max(1e-3);
        assert!(was.is_finite() && apart(row - reach) < 1e-4, "{text}: {}", apart(row - reach));
        // Nor is it told far too long; clusters may be the same whatever happened.
        assert!(text.contains("cluster") || apart(row - reach / 3) > 1e-3, "{text} does not reach {reach}");
    }
    // A slower table counts its own bars, the plan those of the base.
    let slow = plan("rsi(14)\n[h @1h]\nsma(30)");
    let data = dataset(vec![market[0].clone()], &slow, 1);
    assert_eq!(data.slow[0].table.columns[0].reach, 29);
    assert!(slow.reach(Timeframe::M5) >= 360);
}

#[test]
fn dropped_features_are_reported() {
    let only = plan("market_return(1, 20), relative_strength(5, 10)");
    assert_eq!((only.symbols(), plan("rsi(14)").symbols()), (20, 1));
    let fitted = only.fit(true, 12).unwrap();
    assert_eq!(
        (fitted.plan.width(), fitted.without_market, fitted.without_volume.len()),
        (1, vec!["market_return(1, 20)".to_string()], 0)
    );
    // With volume there, nobody speaks of it.
    let error = only.fit(true, 8).unwrap_err();
    assert!(error.message.contains("8 symbols") && !error.message.contains("volume"), "{error}");
    let error = plan("obv").fit(false, 8).unwrap_err();
    assert!(error.message.contains("needs the volume"), "{error}");
    let error = plan("obv, market_return(1)").fit(false, 1).unwrap_err();
    assert!(error.message.contains("one symbol") && error.message.contains("volume"), "{error}");
    // The hunt keeps what it left out.
    let market: Vec<Bars> =
        (0..3).map(|s| Bars { volume: Vec::new(), ..clean(&format!("COIN{s}USDT"), "5m", 300, s) }).collect();
    let pipeline =
        features::leak::PlanPipeline::new(&market, &plan("rsi(14), obv, m = market_return(1)"), None, None, 1).unwrap();
    assert_eq!(
        (pipeline.without_volume(), pipeline.without_market()),
        (&["obv".to_string()][..], &["m".to_string()][..])
    );
    let none = features::leak::PlanPipeline::new(&market, &plan("m = market_return(1)"), None, None, 1).unwrap_err();
    assert!(none.message.contains("3 symbols"), "{none}");
}

#[test]
fn one_market_has_one_timeframe() {
    let plan = plan("close");
    assert!(try_dataset(Vec::new(), &plan, 1).unwrap_err().message.contains("no bars"));
    let market = vec![clean("BTCUSDT", "5m", 5, 1), clean("ETHUSDT", "1h", 5, 1)];
    let error = try_dataset(market, &plan, 1).unwrap_err();
    assert!(error.message.contains("5m (BTCUSDT) and of 1h (ETHUSDT)"), "{error}");
    assert_eq!(dataset(vec![clean("BTCUSDT", "1d", 5, 1)], &plan, 0).base.timeframe, Timeframe::D1);
}

/// Progress ends with all rows, whichever way they are made.
#[test]
fn progress_adds_up() {
    for (symbols, threads) in [(1, 16), (1, 1), (9, 2)] {
        let market = vec![clean("BTCUSDT", "5m", 5000, 1); symbols];
        let told = std::sync::Mutex::new(Vec::new());
        let progress = |what: &'static str, done: usize, of: usize| told.lock().unwrap().push((what, done, of));
        let options = features::Options { threads, max_hole: None, labels: None, progress: &progress, stop: &|| false };
        Dataset::new(market, &plan("rsi(14), sma(3)\n[h @1h]\nrsi(3)"), &options).unwrap();
        let most = told.lock().unwrap().iter().filter(|t| t.0 == "features").map(|t| (t.1, t.2)).max();
        assert_eq!(most, Some((5000 * symbols, 5000 * symbols)), "{symbols} symbols, {threads} threads");
    }
}

#[test]
fn computation_stops_on_request() {
    let market = vec![clean("BTCUSDT", "5m", 9000, 1)];
    let stop = || true;
    let options = features::Options { threads: 2, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &stop };
    let error = Dataset::new(market, &plan("rsi(14)"), &options).unwrap_err();
    assert_eq!(error.kind, files::Kind::Interrupted);
}
