//! The table of money: what falls due where, what is known when, and what is said.

use bars::{Bars, Class, Hints, Instrument, Timeframe};
use market::{AccountOptions, FlatBefore, Funding, PriceTable, Sizing};

const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;

/// Days from 1970 to a date of 2024, counted from the 1st of January.
fn day(number: i64) -> i64 {
    (19_723 + number) * DAY
}

/// Bars of so many hours from a moment on, with prices that rise by one.
fn made(symbol: &str, class: Class, first: i64, step: i64, n: usize) -> Bars {
    let mut instrument = Instrument::guess(symbol, &Hints { class: Some(class), ..Hints::default() }).0;
    instrument.volume = bars::VolumeKind::Units;
    let price: Vec<f64> = (0..n).map(|t| 100.0 + t as f64).collect();
    let start: Vec<i64> = (0..n as i64).map(|t| first + t * step).collect();
    Bars {
        symbol: symbol.into(),
        instrument,
        timeframe: Timeframe::Fixed(step),
        end: start.iter().map(|t| t + step).collect(),
        start,
        high: price.iter().map(|p| p + 1.0).collect(),
        low: price.iter().map(|p| p - 1.0).collect(),
        open: price.clone(),
        close: price.iter().map(|p| p + 0.5).collect(),
        volume: (0..n).map(|t| 1000.0 + (t % 7) as f64).collect(),
        extras: Vec::new(),
        segments: vec![0],
        member: Vec::new(),
    }
}

fn table(market: &[Bars], options: &AccountOptions) -> PriceTable {
    PriceTable::new(market, options, None).unwrap()
}

#[test]
fn a_week_has_seven_nights_and_wednesday_has_three() {
    // From Monday 2024-01-08 00:00 UTC on; a trading day of gold ends at 22:00 UTC in winter.
    let mut gold = made("XAUUSD", Class::Metal, day(7), HOUR, 24 * 7);
    gold.instrument.costs.swap_long_bp_per_year = 365.0;
    let made = table(&[gold.clone()], &AccountOptions::default());
    let nights: Vec<(usize, f64)> = (0..gold.len())
        .filter(|t| made.bars[*t].swap_open > 0.0)
        .map(|t| (t, (made.bars[t].swap_open * 365.0).round()))
        .collect();
    // The bar that opens at 22:00 finds the position of before: Monday, Tuesday, Wednesday (three), Thursday, Friday.
    assert_eq!(nights, [(22, 1.0), (46, 1.0), (70, 3.0), (94, 1.0), (118, 1.0)]);
    assert!(made.bars.iter().all(|bar| bar.swap_inside == 0.0));
    assert!((made.params[0].swap_long - 0.0365).abs() < 1e-12);
    // An index counts the weekend on Friday; a share has no nights but borrows by the calendar day.
    let index = table(&[made_daily("US500", Class::Index)], &AccountOptions::default());
    let nights: Vec<f64> = index.bars.iter().map(|bar| (bar.swap_open * 365.0).round()).collect();
    assert_eq!(nights, [0.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0]);
    let share = table(&[made_daily("AAPL", Class::Equity)], &AccountOptions::default());
    let days: Vec<f64> = share.bars.iter().map(|bar| (bar.borrow_open * 365.0).round()).collect();
    assert_eq!(days, [0.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0]);
    assert!(share.bars.iter().all(|bar| bar.swap_open == 0.0));
}

/// Bars of seven working days from Monday 2024-01-08 on, dated at midnight UTC.
fn made_daily(symbol: &str, class: Class) -> Bars {
    let mut bars = made(symbol, class, day(7), DAY, 7);
    bars.start = [7, 8, 9, 10, 11, 14, 15].map(day).to_vec();
    bars.end = bars.start.iter().map(|t| t + DAY).collect();
    bars
}

#[test]
fn funding_is_due_at_the_open_or_inside_and_is_assumed_where_unknown() {
    let perp = made("BTC-USDT-SWAP", Class::CryptoPerp, day(0), 4 * HOUR, 12);
    let mut funding = Funding::default();
    // Venues stamp some milliseconds late; a mark price that is missing is the bar's open.
    funding.add("BTC-USDT-SWAP", day(0) + 8 * HOUR + 7_000_000, 0.0001, Some(50_000.0));
    funding.add("BTC-USDT-SWAP", day(0) + 18 * HOUR, 0.0002, None);
    funding.sort();
    let made = PriceTable::new(std::slice::from_ref(&perp), &AccountOptions::default(), Some(&funding)).unwrap();
    assert_eq!((made.bars[2].funding_open, made.bars[2].funding_inside), (5.0, 0.0));
    assert_eq!((made.bars[4].funding_open, made.bars[4].funding_inside), (0.0, 104.0 * 0.0002));
    assert_eq!(made.params[0].swap_long, 0.0);
    let without = table(&[perp], &AccountOptions::default());
    assert!((without.params[0].swap_long - 1e-4 * 3.0 * 365.0).abs() < 1e-15 && without.params[0].swap_short == 0.0);
    let years: f64 = without.bars.iter().map(|bar| bar.swap_open + bar.swap_inside).sum();
    assert!((years * 3.0 * 365.0 - 5.0).abs() < 1e-9, "{years} years: five times in two days");
    assert!(without.notes.iter().any(|note| note.contains("longs pay 1 bp per 8 hours")), "{:?}", without.notes);
}

#[test]
fn dividends_are_found_in_the_adjusted_close() {
    let mut share = made_daily("AAPL", Class::Equity);
    share.close = vec![100.0, 101.0, 100.0, 99.0, 98.0, 99.0, 100.0];
    // 2 dollars leave the price on the fourth day: closes before it are adjusted by 1 - 2/100.
    let factor = [0.98, 0.98, 0.98, 1.0, 1.0, 1.0, 1.0];
    share.extras = vec![("Adj Close".into(), share.close.iter().zip(factor).map(|(c, f)| c * f).collect())];
    let made = table(&[share.clone()], &AccountOptions::default());
    let paid: Vec<f64> = made.bars.iter().map(|bar| (bar.dividend * 1e6).round() / 1e6).collect();
    assert_eq!(paid, [0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
    let total = table(&[share], &AccountOptions { total_return: true, ..AccountOptions::default() });
    assert!(total.bars.iter().all(|bar| bar.dividend == 0.0));
}

#[test]
fn money_is_converted_by_a_pair_in_the_data() {
    let mut euro = made("EURUSD", Class::Fx, day(7), HOUR, 5);
    euro.open = vec![1.10, 1.11, 1.12, 1.13, 1.14];
    euro.close = vec![1.11, 1.12, 1.13, 1.14, 1.15];
    let mut share = made("SAP", Class::Equity, day(7), HOUR, 5);
    share.instrument.currency = "EUR".into();
    // Several currencies: the account is in dollars.
    let both = table(&[euro.clone(), share.clone()], &AccountOptions::default());
    assert_eq!(both.currency, "USD");
    let bar = both.symbol(1)[2];
    assert_eq!((bar.fx_open, bar.fx_close), (1.12, 1.13));
    assert!(both.notes.iter().all(|note| !note.contains("hedged")));
    // The pair itself in an account of its base currency: turned over.
    let own = table(&[euro.clone()], &AccountOptions { currency: Some("EUR".into()), ..AccountOptions::default() });
    assert_eq!((own.bars[1].fx_open, own.bars[1].fx_close), (1.0 / 1.11, 1.0 / 1.12));
    // Without a pair returns count as if hedged, and that is said.
    let alone = table(&[share], &AccountOptions { currency: Some("USD".into()), ..AccountOptions::default() });
    assert!(alone.bars.iter().all(|bar| bar.fx_open == 1.0 && bar.fx_close == 1.0));
    assert!(alone.notes.iter().any(|note| note.contains("as if hedged")), "{:?}", alone.notes);
}

#[test]
fn positions_are_flat_before_a_pause() {
    // Shares trade from 14:30 to 21:00 UTC in January; bars of half an hour on Thursday and Friday.
    let mut share = made("AAPL", Class::Equity, day(10) + 14 * HOUR + HOUR / 2, HOUR / 2, 26);
    for t in 13..26 {
        share.start[t] += DAY - 13 * HOUR / 2;
        share.end[t] += DAY - 13 * HOUR / 2;
    }
    let flat = |flat: FlatBefore| {
        let made = table(&[share.clone()], &AccountOptions { flat, ..AccountOptions::default() });
        (0..26).filter(|t| made.bars[*t].flat_next != 0.0).collect::<Vec<usize>>()
    };
    // Decided at the close of the last bar but one, filled at the open of the last; the last bar's own decision would
    // fill at the next open, which is no earlier than the pause.
    assert_eq!(flat(FlatBefore::Never), Vec::<usize>::new());
    assert!(flat(FlatBefore::Day).contains(&11) && flat(FlatBefore::Day).contains(&24));
    assert!(!flat(FlatBefore::Weekend).contains(&11) && flat(FlatBefore::Weekend).contains(&24));
    let daily = AccountOptions { flat: FlatBefore::Day, ..AccountOptions::default() };
    let daily = table(&[made_daily("AAPL", Class::Equity)], &daily);
    assert!(daily.notes.iter().any(|note| note.contains("held overnight")), "{:?}", daily.notes);
    // Who has left the universe trades no more.
    share.member = vec![(share.start[0], share.start[20])];
    let made = table(&[share], &AccountOptions::default());
    assert_eq!((0..26).find(|t| made.bars[*t].flat_next != 0.0), Some(20));
}

#[test]
fn sizes_and_rounding_follow_the_account() {
    let share = made_daily("AAPL", Class::Equity);
    let plain = table(std::slice::from_ref(&share), &AccountOptions::default());
    assert_eq!((plain.params[0].capital, plain.params[0].lot, plain.params[0].owned), (100_000.0, 0.0, true));
    let own = AccountOptions { capital: Some(5000.0), sizing: Sizing::Lots(3.0), ..AccountOptions::default() };
    let own = table(&[share], &own);
    assert_eq!((own.params[0].capital, own.params[0].lot, own.params[0].lots), (5000.0, 1.0, 3.0));
    for (text, sizing) in [
        ("fraction(0.5)", Some(Sizing::Fraction(0.5))),
        ("vol_target(0.1)", Some(Sizing::VolTarget(0.1))),
        ("lots( 2 )", Some(Sizing::Lots(2.0))),
        ("lots(0)", None),
        ("half", None),
    ] {
        assert_eq!(text.parse::<Sizing>().ok(), sizing, "{text}");
    }
}

#[test]
fn inverse_contracts_are_refused() {
    let inverse = made("BTCUSD_PERP", Class::CryptoPerp, day(0), HOUR, 5);
    let error = PriceTable::new(&[inverse], &AccountOptions::default(), None).unwrap_err();
    assert!(error.message.contains("inverse contract"), "{}", error.message);
}

/// Later bars changed on purpose change nothing that was known before.
#[test]
fn what_sizes_and_prices_orders_is_known_at_the_close() {
    let mut share = made("AAPL", Class::Equity, day(7), HOUR, 400);
    for t in 0..400 {
        share.close[t] *= 1.0 + 0.01 * ((t * 7 % 11) as f64 - 5.0) / 5.0;
        share.volume[t] = 1000.0 + (t * 13 % 101) as f64;
    }
    let whole = table(&[share.clone()], &AccountOptions::default());
    assert!(whole.bars[399].sigma > 0.0 && whole.bars[399].volume > 0.0);
    for cut in [50, 120, 333] {
        let mut poisoned = share.clone();
        for t in cut + 1..400 {
            (poisoned.open[t], poisoned.high[t], poisoned.low[t]) = (1e6, 1e6, 1e6);
            (poisoned.close[t], poisoned.volume[t]) = (1e6, 1e9);
        }
        let changed = table(&[poisoned], &AccountOptions::default());
        for t in 0..=cut {
            let known = |table: &PriceTable| {
                let bar = table.bars[t];
                [bar.sigma, bar.volume, bar.half_spread, bar.flat_next].map(f64::to_bits)
            };
            assert_eq!(known(&whole), known(&changed), "row {t} after a cut at {cut}");
        }
    }
}
