//! A data set becomes a problem: which columns go into which input, and which rows may be learned from.
//!
//! Columns of the group `strategy` are one row; the other base columns are the window `fast`; each slower table is a window of its own. The
//! indicator net takes everything as one row. A row is usable where every row of every window is settled, lies in one run of one symbol, and
//! the symbol belonged to the universe.

use super::Learner;
use bars::Bars;
use features::{Dataset, Samples, Table};
use files::{Error, Kind, Result};
use learn::{Input, Problem};
use std::ops::Range;

/// The group whose columns are one row.
const ROW: &str = "strategy";

/// The inputs a learner reads, without their windows yet.
pub(crate) fn inputs(data: &Dataset, learner: Learner) -> Vec<Input> {
    let base = &data.base;
    let all = || 0..base.columns.len();
    let is_row = |c: &usize| base.columns[*c].group == ROW;
    let (windows, row): (Vec<usize>, Vec<usize>) = match learner {
        Learner::Mlp => (Vec::new(), all().collect()),
        Learner::Lstm => (all().filter(|c| !is_row(c)).collect(), all().filter(is_row).collect()),
    };
    let mut inputs = Vec::new();
    if !windows.is_empty() {
        inputs.push(input("fast".into(), base, &windows, None));
    }
    for slow in &data.slow {
        // Rows before the first slow bar are never samples; any row will do for them.
        let map = slow.of.iter().map(|row| if *row == u32::MAX { 0 } else { *row }).collect();
        let columns: Vec<usize> = (0..slow.table.columns.len()).collect();
        let name = if data.slow.len() == 1 { "slow".into() } else { format!("slow_{}", slow.table.timeframe) };
        inputs.push(input(name, &slow.table, &columns, Some(map)));
    }
    if !row.is_empty() {
        inputs.push(input(if windows.is_empty() { "row" } else { ROW }.into(), base, &row, None));
    }
    inputs
}

/// Some columns of a table as an input.
fn input(name: String, table: &Table, columns: &[usize], map: Option<Vec<u32>>) -> Input {
    let stride = columns.len().next_multiple_of(4);
    let mut values = vec![0.0; table.rows() * stride];
    for (to, from) in values.chunks_exact_mut(stride).zip(table.values.chunks_exact(table.stride)) {
        for (to, column) in to.iter_mut().zip(columns) {
            *to = from[*column];
        }
    }
    let columns = columns.iter().map(|c| table.columns[*c].name.clone()).collect();
    Input { name, columns, stride, values, map, window: 0 }
}

/// The samples that windows of these lengths (one for each input) allow, put together with the inputs.
pub(crate) fn problem(data: &Dataset, inputs: Vec<Input>, windows: &[usize]) -> Result<Problem> {
    let labels = data.labels.as_ref().ok_or_else(|| {
        Error::new(Kind::Usage, "nothing is to be learned: label.rule is none").remedy("leave out --labels none")
    })?;
    let usable = usable(data, &inputs, windows);
    let samples = Samples::new(&data.base.market, labels, |row| usable[row]);
    if samples.is_empty() {
        return Err(Error::input(format!(
            "no row has a label and whole windows of {} rows",
            windows.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ")
        ))
        .remedy(
            "more bars, shorter windows in --net, or features that need less warm-up (`fullbore features --show`)",
        ));
    }
    Ok(Problem { inputs, ids: data.base.rows(), classes: 3, samples })
}

/// `[rows]` whether a row's windows are whole, settled and of the universe.
pub(crate) fn usable(data: &Dataset, inputs: &[Input], windows: &[usize]) -> Vec<bool> {
    let base = streaks(&data.base);
    let slow: Vec<Vec<u32>> = data.slow.iter().map(|s| streaks(&s.table)).collect();
    // Inputs with a map are the slower tables, in their order.
    let longest = |mapped: bool| inputs.iter().zip(windows).filter(move |(i, _)| i.map.is_some() == mapped);
    let need = longest(false).map(|(_, w)| *w as u32).max().unwrap_or(1);
    let slow_need: Vec<u32> = longest(true).map(|(_, w)| *w as u32).collect();
    let mut usable: Vec<bool> = base.iter().map(|streak| *streak >= need).collect();
    for ((slower, streaks), need) in data.slow.iter().zip(&slow).zip(slow_need) {
        for (usable, of) in usable.iter_mut().zip(&slower.of) {
            *usable &= *of != u32::MAX && streaks[*of as usize] >= need;
        }
    }
    for (bars, rows) in data.base.market.iter().zip(data.base.offsets.windows(2)) {
        outside(bars, &mut usable[rows[0]..rows[1]]);
    }
    usable
}

/// Clears the rows at whose time a symbol did not belong to the universe.
fn outside(bars: &Bars, usable: &mut [bool]) {
    if bars.member.is_empty() {
        return;
    }
    for (usable, end) in usable.iter_mut().zip(&bars.end) {
        *usable &= bars.member.iter().any(|(from, to)| from <= end && end < to);
    }
}

/// `[rows]` how many settled rows of one run end at each row, itself included.
fn streaks(table: &Table) -> Vec<u32> {
    let mut streaks = vec![0; table.rows()];
    for (runs, rows) in table.runs.iter().zip(table.offsets.windows(2)) {
        for run in runs {
            let run: Range<usize> = rows[0] + run.start..rows[0] + run.end;
            let mut streak = 0;
            for row in run {
                streak = if table.settled[row] { streak + 1 } else { 0 };
                streaks[row] = streak;
            }
        }
    }
    streaks
}

/// The longest look back of any window, in base bars: its rows and the finite part of what they are computed from.
pub(crate) fn look_back(data: &Dataset, inputs: &[Input], windows: &[usize]) -> usize {
    let deepest = |table: &Table| table.columns.iter().map(|c| c.first_valid).max().unwrap_or(0);
    let mut slow = data.slow.iter();
    let each = inputs.iter().zip(windows).map(|(input, window)| match &input.map {
        None => window + deepest(&data.base),
        Some(_) => slow.next().map_or(0, |s| {
            let bars = (s.table.timeframe.ns() as u64).div_ceil(data.base.timeframe.ns().max(1) as u64) as usize;
            (window + deepest(&s.table)) * bars.max(1)
        }),
    });
    each.max().unwrap_or(0)
}
