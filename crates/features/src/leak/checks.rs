//! Five of the questions, and the sheet on which answers are noted.

use super::market::{Poison, Shared, known_at, rows_of};
use super::{Case, LEAST, LeakTests, Outcome, Pipeline, PipelineOutput, Test, Verdict, WarmUp, check_stop};
use crate::clock::{Clock, known_times};
use crate::labels::{Labels, NONE, Rule};
use crate::plan::MARGIN;
use bars::Bars;
use files::Result;
use files::time::rfc3339;
use random::SplitMix;
use std::collections::HashMap;
use std::time::Instant;

/// How much of the budget a test may take.
const SHARE: f64 = 0.3;
/// Correlations that are suspicious, and that fail.
pub const CLAIRVOYANT: (f64, f64) = (0.3, 0.9);
/// Rows that a correlation needs, and most that it takes.
const PAIRS: (usize, usize) = (500, 20_000);

/// L1: every row of a market that ends early is as on the whole.
pub(super) fn prefix(
    market: &[Bars],
    pipeline: &Pipeline<'_>,
    whole: &PipelineOutput,
    spec: &LeakTests<'_>,
) -> Result<Vec<Outcome>> {
    let mut sheet = Findings::new(Test::Prefix, market, whole);
    let times = Clock::new(market).times;
    let mut random = SplitMix::new(spec.seed);
    repeat("cutting", spec.cuts, spec, |i| {
        if times.is_empty() {
            return Ok(());
        }
        // Early ones, where all is cheap and warm-ups end; every third anywhere.
        let last = if i % 3 == 2 {
            random.below(times.len())
        } else {
            (((times.len() as f64).ln() * random.unit()).exp() as usize).clamp(1, times.len()) - 1
        };
        let kept = known_at(market, times[last]);
        let (part, shared) = rows_of(market, |s| 0..kept[s]);
        let seen = pipeline(&part)?;
        seen.check(part.iter().map(Bars::len).sum());
        let what = || format!("cut at {}", rfc3339(times[last]));
        sheet.values(&seen, &shared, &what);
        if let (Some(all), Some(some)) = (&whole.labels, &seen.labels) {
            let reach = label_reach(all.rule);
            // The label's own bars, and for the weight those of every label beside it, lie before the cut.
            sheet.labels(all, some, &shared, &what, &|_, t, kept| (t + reach < kept, t + 2 * reach < kept));
        }
        sheet.tried += 1;
        Ok(())
    })?;
    Ok(sheet.outcomes(whole.labels.is_some()))
}

/// L1 at every row: what arrives bar by bar is what the batch has.
pub(super) fn stream(
    market: &[Bars],
    pipeline: &Pipeline<'_>,
    whole: &PipelineOutput,
    spec: &LeakTests<'_>,
) -> Result<Vec<Outcome>> {
    check_stop(spec)?;
    (spec.progress)("streaming", 0, 1);
    let seen = pipeline(market)?;
    let whole = &PipelineOutput {
        columns: whole.columns.iter().filter(|c| !seen.unstreamed.contains(&c.name)).cloned().collect(),
        labels: None,
        ..PipelineOutput::default()
    };
    let mut sheet = Findings::new(Test::Stream, market, whole);
    let (_, shared) = rows_of(market, |s| 0..market[s].len());
    seen.check(shared.iter().map(|s| s.rows).sum());
    sheet.values(&seen, &shared, &|| "streamed".to_string());
    sheet.tried = shared.iter().map(|s| s.rows).sum();
    Ok(sheet.outcomes(false))
}

/// L2: what happens later changes nothing.
pub(super) fn poison(
    market: &[Bars],
    pipeline: &Pipeline<'_>,
    whole: &PipelineOutput,
    spec: &LeakTests<'_>,
) -> Result<Vec<Outcome>> {
    let mut sheet = Findings::new(Test::Poison, market, whole);
    let times = Clock::new(market).times;
    let mut random = SplitMix::new(spec.seed ^ 0x5eed);
    repeat("poisoning", spec.cuts, spec, |i| {
        if times.is_empty() {
            return Ok(());
        }
        let (time, kind) = (times[random.below(times.len())], Poison::ALL[i % 4]);
        let kept = known_at(market, time);
        let (_, shared) = rows_of(market, |s| 0..kept[s]);
        let shared: Vec<Shared> = shared.into_iter().map(|s| Shared { part: s.whole, ..s }).collect();
        let seen = pipeline(&kind.apply(market, &kept))?;
        seen.check(market.iter().map(Bars::len).sum());
        let what = || format!("{} after {}", kind.describe(), rfc3339(time));
        sheet.values(&seen, &shared, &what);
        if let (Some(all), Some(some)) = (&whole.labels, &seen.labels) {
            // The open at `t1` belongs to a bar that was kept. Prices that are missing unmake labels, and so move
            // weights.
            let before: Vec<i64> =
                kept.iter().zip(market).map(|(k, b)| k.checked_sub(1).map_or(i64::MIN, |k| b.start[k])).collect();
            let first: Vec<usize> = shared.iter().fold(vec![0; market.len()], |mut v, s| {
                v[s.symbol] = s.whole;
                v
            });
            sheet.labels(all, some, &shared, &what, &|s, t, _| {
                let over = all.t1[first[s] + t] <= before[s];
                (over, over && kind == Poison::TimesTen)
            });
        }
        sheet.tried += 1;
        Ok(())
    })?;
    Ok(sheet.outcomes(whole.labels.is_some()))
}

/// L3: after its settling a value no longer depends on where the data began, and it begins where it says.
pub(super) fn warm_up(market: &[Bars], pipeline: &Pipeline<'_>, spec: &LeakTests<'_>) -> Result<Vec<Outcome>> {
    check_stop(spec)?;
    let whole = pipeline(market)?;
    whole.check(market.iter().map(Bars::len).sum());
    let mut sheet = Findings::new(Test::WarmUp, market, &whole);
    let claims: Vec<usize> = (0..whole.columns.len()).filter(|c| whole.columns[*c].warm.is_some()).collect();
    let scales: Vec<f64> = claims.iter().map(|c| scale(&whole.columns[*c].values)).collect();
    let all: Vec<Shared> = rows_of(market, |s| 0..market[s].len()).1;
    let mut begins = vec![FirstValue::default(); claims.len()];
    let settled_of = |seen: &PipelineOutput, column: usize, from: usize, rows: usize| -> Vec<bool> {
        let column = &seen.columns[column];
        let Some(warm) = column.warm else { return vec![false; rows] };
        settled(&warm, &column.values[from..from + rows], &seen.ages[warm.clock][from..from + rows])
    };
    let whole_settled: Vec<Vec<bool>> =
        claims.iter().map(|c| all.iter().flat_map(|s| settled_of(&whole, *c, s.whole, s.rows)).collect()).collect();
    for (begin, c) in begins.iter_mut().zip(&claims) {
        all.iter().for_each(|s| begin.look(&whole, *c, s.symbol, s.whole, s.whole, s.rows));
    }
    let mut random = SplitMix::new(spec.seed ^ 0x57a7);
    repeat("starting later", spec.starts, spec, |i| {
        let later: Vec<usize> = market
            .iter()
            .map(|bars| {
                if i % 3 == 0 { 1 + random.below(bars.len().min(40)) } else { 1 + random.below(bars.len() * 2 / 3 + 1) }
            })
            .collect();
        let (part, shared) = rows_of(market, |s| later[s].min(market[s].len())..market[s].len());
        if part.is_empty() {
            return Ok(());
        }
        let seen = pipeline(&part)?;
        seen.check(part.iter().map(Bars::len).sum());
        for (i, c) in claims.iter().enumerate() {
            let name = &whole.columns[*c].name;
            // Columns leave with the last symbol that has volume.
            let Some(mine) = seen.columns.iter().position(|column| column.name == *name) else { continue };
            for s in &shared {
                begins[i].look(&seen, mine, s.symbol, s.whole, s.part, s.rows);
                let settled = settled_of(&seen, mine, s.part, s.rows);
                for (t, _) in settled.iter().enumerate().filter(|(t, yes)| **yes && whole_settled[i][s.whole + t]) {
                    let (a, b) = (whole.columns[*c].values[s.whole + t], seen.columns[mine].values[s.part + t]);
                    sheet.counts[*c].compared += 1;
                    if a == b {
                        continue;
                    }
                    let apart = if (a - b).is_nan() { f64::INFINITY } else { (a - b).abs() / scales[i] };
                    let bad = apart > spec.settle;
                    sheet.note(*c, s.symbol, s.whole + t, bad, apart, (a, b), &|| {
                        format!("{} bars later from the start", market[s.symbol].len() - s.rows)
                    });
                }
            }
        }
        sheet.tried += 1;
        Ok(())
    })?;
    for (begin, c) in begins.iter().zip(&claims) {
        let Some(warm) = whole.columns[*c].warm else { continue };
        if let Some((age, symbol, row, value)) = begin.first
            && age < warm.first_valid
        {
            let what = || format!("a value at bar {age} of a run; the first was declared at {}", warm.first_valid);
            sheet.note(*c, symbol, row, true, f64::INFINITY, (f64::NAN, value), &what);
        }
        // Prices that never move give a ratio no value anywhere.
        let late = begin.first.is_none() && begin.later;
        if let Some((symbol, row)) = begin.could.filter(|_| late && !warm.waits) {
            let what = || format!("no value at bar {} of any run; the first was declared there", warm.first_valid);
            sheet.note(*c, symbol, row, true, f64::INFINITY, (f64::NAN, f64::NAN), &what);
        }
    }
    let mut outcomes = sheet.outcomes(false);
    outcomes.retain(|o| claims.iter().any(|c| whole.columns[*c].name == o.column));
    // An average decays as it was declared, and a jump of the price in it may be many deviations to begin with. What is
    // left of that is no false declaration.
    for outcome in outcomes.iter_mut().filter(|o| o.verdict == Verdict::Failed) {
        if outcome.worst.as_ref().is_some_and(|worst| worst.difference <= spec.settle / MARGIN) {
            outcome.verdict = Verdict::Suspicious;
        }
    }
    Ok(outcomes)
}

/// Which values say that they have settled: so many valid ones in a row, each age once.
fn settled(warm: &WarmUp, values: &[f64], ages: &[u32]) -> Vec<bool> {
    let need = warm.settled.map(|s| (s + 1).saturating_sub(warm.first_valid));
    let (mut since, mut last) = (0, u32::MAX);
    let each = values.iter().zip(ages).map(|(value, age)| {
        if *age == u32::MAX || (last != u32::MAX && *age < last) {
            since = 0;
        }
        if *age != last && *age != u32::MAX {
            since = if value.is_finite() { since + 1 } else { 0 };
        }
        last = *age;
        need.is_some_and(|need| since >= need && value.is_finite())
    });
    each.collect()
}

/// Where the values of a column begin in its runs.
#[derive(Debug, Clone, Copy, Default)]
struct FirstValue {
    /// The earliest: age, symbol, row, value.
    first: Option<(usize, usize, usize, f64)>,
    /// A run that was long enough for one.
    could: Option<(usize, usize)>,
    /// Whether there is a value after the declared first one.
    later: bool,
}

impl FirstValue {
    fn look(&mut self, seen: &PipelineOutput, column: usize, symbol: usize, whole: usize, from: usize, rows: usize) {
        let column = &seen.columns[column];
        let Some(warm) = column.warm else { return };
        let (ages, values) = (&seen.ages[warm.clock][from..from + rows], &column.values[from..from + rows]);
        for (t, (age, value)) in ages.iter().zip(values).enumerate() {
            // Where there is no slow row yet the age is larger than all.
            let age = *age as usize;
            if age > warm.first_valid {
                self.later |= value.is_finite();
                continue;
            }
            if age == warm.first_valid {
                self.could = self.could.or(Some((symbol, whole + t)));
            }
            if value.is_finite() && self.first.is_none_or(|f| age < f.0) {
                self.first = Some((age, symbol, whole + t, *value));
            }
        }
    }
}

/// The standard deviation of a column; for one that hardly moves, a hundred-millionth of its size, below which all is
/// rounding.
fn scale(values: &[f64]) -> f64 {
    let fine = || values.iter().copied().filter(|v| v.is_finite());
    let n = fine().count().max(1) as f64;
    let mean = fine().sum::<f64>() / n;
    let variance = fine().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    let largest = fine().map(f64::abs).fold(0.0, f64::max);
    variance.sqrt().max(1e-8 * largest)
}

/// Does a column go with the return that comes next?
pub(super) fn clairvoyance(market: &[Bars], whole: &PipelineOutput, spec: &LeakTests<'_>) -> Result<Vec<Outcome>> {
    let mut sheet = Findings::new(Test::Clairvoyance, market, whole);
    // The return from the open of the next bar to the open after it, where no border lies between.
    let (mut next, mut from) = (Vec::new(), 0);
    for bars in market {
        for t in 0..bars.len().saturating_sub(2) {
            let moved = (bars.open[t + 2] / bars.open[t + 1]).ln();
            let border = bars.segments.iter().any(|s| *s == t + 1 || *s == t + 2);
            if moved.is_finite() && !border {
                next.push((from + t, moved, t > 0));
            }
        }
        from += bars.len();
    }
    let step = next.len().div_ceil(PAIRS.1).max(1);
    let rows: Vec<_> = next.into_iter().step_by(step).collect();
    for (c, column) in whole.columns.iter().enumerate() {
        check_stop(spec)?;
        (spec.progress)("correlating", c, whole.columns.len());
        let x = &column.values;
        let level = rows.iter().map(|(row, y, _)| (x[*row], *y));
        let change = rows.iter().filter(|r| r.2).map(|(row, y, _)| (x[*row] - x[*row - 1], *y));
        for (what, pairs) in [("the value", level.collect::<Vec<_>>()), ("its change", change.collect())] {
            let pairs: Vec<(f64, f64)> = pairs.into_iter().filter(|(x, _)| x.is_finite()).collect();
            if pairs.len() < PAIRS.0 {
                continue;
            }
            let with = rank_correlation(&pairs);
            sheet.counts[c].compared = pairs.len() as u64;
            let row = rows[rows.len() / 2].0;
            let what = || format!("{what} and the next return, {} pairs", pairs.len());
            sheet.note(c, sheet.symbol_of(row), row, with.abs() > CLAIRVOYANT.0, with.abs(), (0.0, with), &what);
        }
    }
    sheet.tried = rows.len();
    let mut outcomes = sheet.outcomes(false);
    for outcome in &mut outcomes {
        let most = outcome.worst.as_ref().map_or(0.0, |w| w.difference);
        outcome.verdict = match most {
            most if most > CLAIRVOYANT.1 => Verdict::Failed,
            most if most > CLAIRVOYANT.0 => Verdict::Suspicious,
            _ => Verdict::Passed,
        };
    }
    Ok(outcomes)
}

/// Spearman's: one wild print makes no correlation.
fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (x, y) = (ranks(&x), ranks(&y));
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum::<f64>();
    let spread = (sum(&x, &x) * sum(&y, &y)).sqrt();
    if spread > 0.0 { sum(&x, &y) / spread } else { 0.0 }
}

/// The rank of each value; equals share theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = from as f64 + (equal.len() as f64 - 1.0) / 2.0;
        equal.iter().for_each(|i| ranks[*i] = rank);
        from += equal.len();
    }
    ranks
}

/// Tries something so often, or until the test's share of the time is spent.
fn repeat(
    phase: &'static str,
    times: usize,
    spec: &LeakTests<'_>,
    mut once: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let clock = Instant::now();
    for i in 0..times {
        check_stop(spec)?;
        (spec.progress)(phase, i, times);
        if i >= LEAST && spec.budget.is_some_and(|budget| clock.elapsed() > budget.mul_f64(SHARE)) {
            break;
        }
        once(i)?;
    }
    Ok(())
}

/// How many rows after its own a label reads.
fn label_reach(rule: Rule) -> usize {
    1 + match rule {
        Rule::Auto => 0,
        Rule::Fixed { horizon } | Rule::Triple { horizon, .. } => horizon,
        Rule::Trend { longest } => longest,
    }
}

/// What a test has found so far, by column.
pub(super) struct Findings<'a> {
    test: Test,
    market: &'a [Bars],
    whole: &'a PipelineOutput,
    pub(super) tried: usize,
    /// `[columns + 3]`, the last three for the labels.
    pub(super) counts: Vec<Count>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Count {
    pub(super) compared: u64,
    pub(super) wrong: u64,
    case: Option<Case>,
}

/// What the labels are called.
const LABELS: [&str; 3] = ["label", "label t1", "label weight"];

impl<'a> Findings<'a> {
    pub(super) fn new(test: Test, market: &'a [Bars], whole: &'a PipelineOutput) -> Findings<'a> {
        Findings { test, market, whole, tried: 0, counts: vec![Count::default(); whole.columns.len() + LABELS.len()] }
    }

    /// Compares the bits of all columns on the rows that are shared.
    fn values(&mut self, seen: &PipelineOutput, shared: &[Shared], what: &dyn Fn() -> String) {
        let places: HashMap<&str, usize> = seen.columns.iter().map(|c| c.name.as_str()).zip(0..).collect();
        let whole = self.whole;
        for (c, column) in whole.columns.iter().enumerate() {
            let mine = places.get(column.name.as_str()).map(|at| seen.columns[*at].values.as_slice());
            for s in shared {
                let before = &column.values[s.whole..s.whole + s.rows];
                self.counts[c].compared += s.rows as u64;
                // A column that left has no values.
                let after = mine.map(|values| &values[s.part..s.part + s.rows]);
                for (t, a) in before.iter().enumerate() {
                    let b = after.map_or(f64::NAN, |after| after[t]);
                    if a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()) {
                        self.differ(c, s, t, (*a, b), what);
                    }
                }
            }
        }
    }

    /// Compares labels; `ripe(symbol, row, rows kept)` says whether the label is to be compared, and whether its
    /// weight.
    fn labels(
        &mut self,
        whole: &Labels,
        part: &Labels,
        shared: &[Shared],
        what: &dyn Fn() -> String,
        ripe: &dyn Fn(usize, usize, usize) -> (bool, bool),
    ) {
        let first = self.whole.columns.len();
        for s in shared {
            for t in 0..s.rows {
                let (a, b) = (s.whole + t, s.part + t);
                let (label, weight) = ripe(s.symbol, t, s.rows);
                // A label that a shorter market has must be the true one, ripe or not.
                let told = self.test == Test::Prefix && part.class[b] != NONE;
                self.counts[first].compared += u64::from(label || told);
                self.counts[first + 1].compared += u64::from(label || told);
                self.counts[first + 2].compared += u64::from(label && weight);
                if (label || told) && (whole.class[a], whole.t1[a]) != (part.class[b], part.t1[b]) {
                    let class = |c: i8| if c == NONE { f64::NAN } else { f64::from(c) };
                    if whole.class[a] != part.class[b] {
                        self.differ(first, s, t, (class(whole.class[a]), class(part.class[b])), what);
                    } else {
                        self.differ(first + 1, s, t, (whole.t1[a] as f64, part.t1[b] as f64), what);
                    }
                }
                if label && weight && whole.weight[a].to_bits() != part.weight[b].to_bits() {
                    self.differ(first + 2, s, t, (whole.weight[a].into(), part.weight[b].into()), what);
                }
            }
        }
    }

    fn differ(&mut self, column: usize, s: &Shared, t: usize, (a, b): (f64, f64), what: &dyn Fn() -> String) {
        let apart = if (a - b).is_nan() { f64::INFINITY } else { (a - b).abs() };
        self.note(column, s.symbol, s.whole + t, true, apart, (a, b), what);
    }

    /// Notes a pair; the worst is kept, wrong ones before others.
    #[expect(clippy::too_many_arguments, reason = "one line of the sheet")]
    pub(super) fn note(
        &mut self,
        column: usize,
        symbol: usize,
        row: usize,
        wrong: bool,
        apart: f64,
        (before, after): (f64, f64),
        what: &dyn Fn() -> String,
    ) {
        let count = &mut self.counts[column];
        count.wrong += u64::from(wrong);
        if count.case.as_ref().is_none_or(|case| apart > case.difference) {
            let first: usize = self.market[..symbol].iter().map(Bars::len).sum();
            let bars = &self.market[symbol];
            let time = known_times(&bars.end)[row - first];
            count.case =
                Some(Case { symbol: bars.symbol.clone(), time, what: what(), before, after, difference: apart });
        }
    }

    pub(super) fn symbol_of(&self, row: usize) -> usize {
        let mut left = row;
        self.market
            .iter()
            .position(|b| {
                left < b.len() || {
                    left -= b.len();
                    false
                }
            })
            .unwrap_or(0)
    }

    pub(super) fn outcomes(self, labels: bool) -> Vec<Outcome> {
        let names = self.whole.columns.iter().map(|c| c.name.as_str()).chain(LABELS);
        let many = self.whole.columns.len() + if labels { LABELS.len() } else { 0 };
        let each = names.zip(self.counts).take(many).map(|(name, count)| Outcome {
            test: self.test,
            column: name.to_string(),
            verdict: if count.wrong > 0 { Verdict::Failed } else { Verdict::Passed },
            tried: self.tried,
            compared: count.compared,
            wrong: count.wrong,
            worst: count.case,
        });
        each.collect()
    }
}
