//! Does a column, or a pair of columns, tell what the label will be, or where the price goes, better than any honest
//! one has been seen to?
//!
//! A column's values (and their changes, and for prices their ratio to the close) are cut into bins on the first half
//! of the time; each bin says the direction that was the more frequent one there, and is held against the second half,
//! purged. Nothing need be linear, and two columns whose product is the answer are found as a pair. What is told is the
//! directional Matthews correlation; it must exceed both a level and what chance gives the best of so many questions.

use super::checks::Findings;
use super::{Column, LeakTests, Outcome, PipelineOutput, Test, Verdict, check_stop};
use crate::labels::{Labels, NONE};
use bars::Bars;
use files::Result;

/// Correlations with the label that are suspicious, and that fail.
pub const FORESIGHT: (f64, f64) = (0.2, 0.9);
/// Standard deviations of chance that a correlation must exceed: one column, and a pair.
const SIGMAS: (f64, f64) = (5.0, 6.0);
/// A question whose chance reaches this far is not asked: there is too little data.
const HOPELESS: f64 = 0.6;
/// Bins of one column, and of each of a pair.
const BINS: (usize, usize) = (16, 6);
/// Rows at most, evenly spaced.
const ROWS: usize = 24_000;
/// Bars ahead at which the price is looked at beside the label; the next one is the test of clairvoyance.
const AHEAD: [usize; 5] = [2, 5, 12, 24, 60];
/// How much of the information of one symbol a second one adds: markets move together.
const OWN: f64 = 0.3;

/// A truth to be told: up or down of some rows, known before or after the middle.
struct Truth {
    what: String,
    /// Row, and whether up; training first.
    train: Vec<(usize, bool)>,
    test: Vec<(usize, bool)>,
    /// As many independent test rows.
    independent: f64,
}

pub(super) fn foresight(market: &[Bars], whole: &PipelineOutput, spec: &LeakTests<'_>) -> Result<Vec<Outcome>> {
    let mut sheet = Findings::new(Test::Foresight, market, whole);
    let mut truths: Vec<Truth> = whole.labels.as_ref().map(|labels| of_labels(market, labels)).into_iter().collect();
    truths.extend(AHEAD.iter().map(|bars| of_returns(market, *bars)));
    truths.retain(|truth| SIGMAS.0 / truth.independent.sqrt() < HOPELESS);
    let close: Vec<f64> = market.iter().flat_map(|bars| bars.close.iter().copied()).collect();
    let starts: Vec<bool> = market.iter().flat_map(|bars| (0..bars.len()).map(|t| t == 0)).collect();
    for (c, column) in whole.columns.iter().enumerate() {
        check_stop(spec)?;
        (spec.progress)("asking of the future", c, whole.columns.len());
        let x = &column.values;
        let change: Vec<f64> =
            (0..x.len()).map(|row| if starts[row] { f64::NAN } else { x[row] - x[row - 1] }).collect();
        let mut forms: Vec<(&str, &[f64])> = vec![("its value", x), ("its change", &change)];
        let beside: Vec<f64> = x.iter().zip(&close).map(|(x, close)| x / close - 1.0).collect();
        if is_price(x, &close) {
            forms.push(("its ratio to the close", &beside));
        }
        for (form, values) in forms {
            for truth in &truths {
                let Some(told) = tell(truth, |row| values[row], BINS.0) else { continue };
                sheet.counts[c].compared += truth.test.len() as u64;
                let row = truth.test[truth.test.len() / 2].0;
                let what = || format!("{form} tells {}, {} rows", truth.what, truth.test.len());
                let wrong = told > level(truth, SIGMAS.0);
                // What chance may reach is no worse than what it may not.
                let apart = if wrong { told } else { told.min(FORESIGHT.0) };
                sheet.note(c, sheet.symbol_of(row), row, wrong, apart, (0.0, told), &what);
            }
        }
    }
    whole_days(market, whole, &mut sheet, spec)?;
    // Pairs against the label alone.
    let labels = if whole.labels.is_some() { truths.first() } else { None };
    if let Some(truth) = labels.filter(|truth| SIGMAS.1 / truth.independent.sqrt() < HOPELESS) {
        pairs(whole, truth, &mut sheet, spec)?;
    }
    sheet.tried = truths.iter().map(|truth| truth.train.len() + truth.test.len()).max().unwrap_or(0);
    let mut outcomes = sheet.outcomes(false);
    for outcome in &mut outcomes {
        let most = outcome.worst.as_ref().map_or(0.0, |w| w.difference);
        outcome.verdict = match (outcome.wrong > 0, most) {
            (true, most) if most > FORESIGHT.1 => Verdict::Failed,
            (true, _) => Verdict::Suspicious,
            (false, _) => Verdict::Passed,
        };
    }
    Ok(outcomes)
}

/// Rows of a symbol that must agree with an aggregate of the whole day, and the share of them.
const AGREE: (usize, f64) = (50, 0.8);

/// A column that is the high, low, close or volume of a trading day while the day still goes on, itself or beside
/// the close.
fn whole_days(market: &[Bars], whole: &PipelineOutput, sheet: &mut Findings<'_>, spec: &LeakTests<'_>) -> Result<()> {
    let mut from = 0;
    for (symbol, bars) in market.iter().enumerate() {
        check_stop(spec)?;
        let days = bars.instrument.session.trading_days(&bars.start);
        for (name, of) in [
            ("high", day_ends(&days, &bars.high, f64::max)),
            ("low", day_ends(&days, &bars.low, f64::min)),
            ("close", day_ends(&days, &bars.close, |_, last| last)),
            ("volume", day_ends(&days, &bars.volume, |sum, one| sum + one)),
        ] {
            // Rows at which the day has not come to it yet.
            let early: Vec<usize> = (0..of.len()).filter(|t| of[*t][0] != of[*t][1]).collect();
            if early.len() < AGREE.0 {
                continue;
            }
            for (c, column) in whole.columns.iter().enumerate() {
                let x = &column.values[from..from + bars.len()];
                let is = |t: usize, form: fn(f64, f64) -> f64| {
                    let (told, true_one) = (form(x[t], bars.close[t]), of[t][1]);
                    (told - true_one).abs() <= 1e-5 * true_one.abs()
                };
                let forms: [fn(f64, f64) -> f64; 4] =
                    [|x, _| x, |x, close| x * close, |x, close| (x + 1.0) * close, |x, close| x.exp() * close];
                for form in forms {
                    let same = early.iter().filter(|t| is(**t, form)).count();
                    if same as f64 >= AGREE.1 * early.len() as f64 {
                        let what = || format!("it is the {name} of the whole trading day while the day goes on");
                        sheet.note(c, symbol, from + early[0], true, 1.0, (0.0, 1.0), &what);
                        break;
                    }
                }
            }
        }
        from += bars.len();
    }
    Ok(())
}

/// `[rows]` of each trading day what was so far, and what is at its end.
fn day_ends(days: &[i32], values: &[f64], add: fn(f64, f64) -> f64) -> Vec<[f64; 2]> {
    let mut all: Vec<[f64; 2]> = Vec::with_capacity(values.len());
    if values.len() != days.len() {
        return all;
    }
    let mut at = 0;
    for same in days.chunk_by(|a, b| a == b) {
        let mut now = f64::NAN;
        for value in &values[at..at + same.len()] {
            now = if now.is_nan() { *value } else { add(now, *value) };
            all.push([now, now]);
        }
        all[at..].iter_mut().for_each(|both| both[1] = now);
        at += same.len();
    }
    all
}

/// Two columns that say nothing alone may say it together. A pair is asked only where neither is caught yet.
fn pairs(whole: &PipelineOutput, truth: &Truth, sheet: &mut Findings<'_>, spec: &LeakTests<'_>) -> Result<()> {
    let bins: Vec<Option<Vec<u8>>> = whole
        .columns
        .iter()
        .enumerate()
        .map(|(c, column)| {
            if sheet.counts[c].wrong > 0 {
                return None;
            }
            let borders = borders(truth, |row| column.values[row], BINS.1)?;
            let rows = truth.train.iter().chain(&truth.test);
            Some(rows.map(|(row, _)| bin(&borders, column.values[*row])).collect())
        })
        .collect();
    let limit = level(truth, SIGMAS.1);
    for a in 0..bins.len() {
        check_stop(spec)?;
        (spec.progress)("asking pairs", a, bins.len());
        let Some(first) = &bins[a] else { continue };
        for (b, second) in bins.iter().enumerate().skip(a + 1) {
            let Some(second) = second else { continue };
            let cell = |at: usize| match (first[at], second[at]) {
                (NO_BIN, _) | (_, NO_BIN) => None,
                (i, j) => Some(usize::from(i) * (BINS.1 + 1) + usize::from(j)),
            };
            let Some(told) = learn(truth, cell, (BINS.1 + 1) * (BINS.1 + 1)) else { continue };
            if told > limit {
                let row = truth.test[truth.test.len() / 2].0;
                for (c, other) in [(a, b), (b, a)] {
                    let other = &whole.columns[other].name;
                    let what = || format!("together with {other} it tells {}", truth.what);
                    sheet.note(c, sheet.symbol_of(row), row, true, told, (0.0, told), &what);
                }
            }
        }
    }
    Ok(())
}

/// What a correlation must exceed.
fn level(truth: &Truth, sigmas: f64) -> f64 {
    FORESIGHT.0.max(sigmas / truth.independent.sqrt())
}

/// Columns that are the level of a price: near the close, or moving with it from bar to bar.
pub(super) fn price_levels(market: &[Bars], whole: &PipelineOutput) -> Vec<String> {
    let close: Vec<f64> = market.iter().flat_map(|bars| bars.close.iter().copied()).collect();
    let starts: Vec<bool> = market.iter().flat_map(|bars| (0..bars.len()).map(|t| t == 0)).collect();
    let is_level = |column: &&Column| is_price(&column.values, &close) || moves_with(&column.values, &close, &starts);
    whole.columns.iter().filter(is_level).map(|column| column.name.clone()).collect()
}

/// Whether logarithms of a column change as those of the close do, but for a few jumps.
fn moves_with(x: &[f64], close: &[f64], starts: &[bool]) -> bool {
    let steps = (1..x.len()).filter(|row| !starts[*row]);
    let changes = steps.map(|row| ((x[row] / x[row - 1]).ln(), (close[row] / close[row - 1]).ln()));
    let known = changes.filter(|(own, of_close)| own.is_finite() && of_close.is_finite() && *of_close != 0.0);
    let same: Vec<bool> = known.map(|(own, of_close)| (own - of_close).abs() <= 0.1 * of_close.abs()).collect();
    same.len() >= 100 && same.iter().filter(|same| **same).count() * 10 >= same.len() * 9
}

/// Whether a column is a price of the same thing.
fn is_price(x: &[f64], close: &[f64]) -> bool {
    let mut ratios: Vec<f64> = x.iter().zip(close).map(|(x, c)| x / c).filter(|r| r.is_finite()).collect();
    if ratios.len() < 100 {
        return false;
    }
    ratios.sort_by(f64::total_cmp);
    (0.5..2.0).contains(&ratios[ratios.len() / 20]) && (0.5..2.0).contains(&ratios[ratios.len() * 19 / 20])
}

/// The directional correlation that bins of the first half reach on the second; `None` where there are too few rows.
fn tell(truth: &Truth, value: impl Fn(usize) -> f64, bins: usize) -> Option<f64> {
    let borders = borders(truth, &value, bins)?;
    let rows = truth.train.iter().chain(&truth.test);
    let places: Vec<u8> = rows.map(|(row, _)| bin(&borders, value(*row))).collect();
    learn(truth, |at| (places[at] != NO_BIN).then(|| usize::from(places[at])), bins + 1)
}

/// The bin of a value that is none.
const NO_BIN: u8 = u8::MAX;

/// Borders between bins of like numbers of training rows; `None` where fewer than 200 have a value, or all the same.
fn borders(truth: &Truth, value: impl Fn(usize) -> f64, bins: usize) -> Option<Vec<f64>> {
    let mut values: Vec<f64> = truth.train.iter().map(|(row, _)| value(*row)).filter(|x| x.is_finite()).collect();
    if values.len() < 200 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let mut borders: Vec<f64> = (1..bins).map(|k| values[values.len() * k / bins]).collect();
    borders.dedup();
    // A column of two values has one border, between them.
    borders.retain(|border| *border > values[0]);
    (!borders.is_empty()).then_some(borders)
}

fn bin(borders: &[f64], value: f64) -> u8 {
    if value.is_finite() { borders.partition_point(|border| *border <= value) as u8 } else { NO_BIN }
}

/// Counts directions of cells on the training rows and holds what they say against the others. `cell` is asked by
/// place, training rows first.
fn learn(truth: &Truth, cell: impl Fn(usize) -> Option<usize>, cells: usize) -> Option<f64> {
    let mut ups = vec![[0u32; 2]; cells];
    for (at, (_, up)) in truth.train.iter().enumerate() {
        if let Some(cell) = cell(at) {
            ups[cell][usize::from(*up)] += 1;
        }
    }
    let all = ups.iter().fold([0u32; 2], |sum, own| [sum[0] + own[0], sum[1] + own[1]]);
    if all[0] + all[1] < 200 || all[0] == 0 || all[1] == 0 {
        return None;
    }
    // More often up than on the whole: up. A drift is no foresight.
    let share = f64::from(all[1]) / f64::from(all[0] + all[1]);
    let says: Vec<Option<bool>> = ups
        .iter()
        .map(|own| {
            let n = own[0] + own[1];
            (n >= 20).then(|| f64::from(own[1]) > share * f64::from(n))
        })
        .collect();
    let mut counts = [[0u64; 2]; 2];
    for (at, (_, up)) in truth.test.iter().enumerate() {
        if let Some(guess) = cell(truth.train.len() + at).and_then(|cell| says[cell]) {
            counts[usize::from(*up)][usize::from(guess)] += 1;
        }
    }
    let [[dd, du], [ud, uu]] = counts.map(|row| row.map(|n| n as f64));
    let root = ((dd + du) * (ud + uu) * (dd + ud) * (du + uu)).sqrt();
    (dd + du + ud + uu >= 200.0).then(|| if root > 0.0 { (dd * uu - du * ud) / root } else { 0.0 })
}

/// The moment that halves the time of a market.
fn middle(market: &[Bars]) -> i64 {
    let mut ends: Vec<i64> = market.iter().flat_map(|bars| bars.end.iter().copied()).collect();
    ends.sort_unstable();
    ends.get(ends.len() / 2).copied().unwrap_or(0)
}

/// Symbols that move together count as fewer.
fn shared(market: &[Bars]) -> f64 {
    1.0 / (1.0 + OWN * (market.len().max(1) - 1) as f64)
}

fn of_labels(market: &[Bars], labels: &Labels) -> Truth {
    let middle = middle(market);
    let mut truth =
        Truth { what: format!("the label {}", labels.rule), train: Vec::new(), test: Vec::new(), independent: 0.0 };
    let mut row = 0;
    for bars in market {
        for end in &bars.end {
            let (class, t1) = (labels.class[row], labels.t1[row]);
            if class != NONE && class != 0 {
                if t1 < middle {
                    truth.train.push((row, class > 0));
                } else if *end >= middle {
                    truth.test.push((row, class > 0));
                    truth.independent += f64::from(labels.weight[row]);
                }
            }
            row += 1;
        }
    }
    truth.thinned(market)
}

/// The sign of the move from the next open to the open so many bars behind it.
fn of_returns(market: &[Bars], ahead: usize) -> Truth {
    let middle = middle(market);
    let what = format!("the return over the next {ahead} bars");
    let mut truth = Truth { what, train: Vec::new(), test: Vec::new(), independent: 0.0 };
    let mut from = 0;
    for bars in market {
        let mut borders = bars.segments.iter().copied().filter(|start| *start > 0).peekable();
        for t in 0..bars.len().saturating_sub(ahead + 1) {
            while borders.next_if(|start| *start <= t).is_some() {}
            let last = t + 1 + ahead;
            if borders.peek().is_some_and(|start| *start <= last) {
                continue;
            }
            let moved = (bars.open[last] / bars.open[t + 1]).ln();
            if !moved.is_finite() || moved == 0.0 {
                continue;
            }
            if bars.start[last] < middle {
                truth.train.push((from + t, moved > 0.0));
            } else if bars.end[t] >= middle {
                truth.test.push((from + t, moved > 0.0));
                truth.independent += 1.0 / ahead as f64;
            }
        }
        from += bars.len();
    }
    truth.thinned(market)
}

impl Truth {
    /// At most so many rows of each half; the independent ones are those of all, or as many as are left.
    fn thinned(mut self, market: &[Bars]) -> Truth {
        for rows in [&mut self.train, &mut self.test] {
            let step = rows.len().div_ceil(ROWS / 2).max(1);
            *rows = rows.iter().step_by(step).copied().collect();
        }
        self.independent = (self.independent * shared(market)).min(self.test.len() as f64);
        self
    }
}
