//! A long run gives the bits of one lane, however it is cut and whatever is missing in it.

use super::*;
use crate::batch::tests::{everything, symbol};
use crate::dataset::{Dataset, Options};
use crate::inputs::inputs;
use crate::language::parse;
use crate::plan::Plan;
use crate::table::{Feature, Table};
use crate::values::Values;
use bars::{Bars, Timeframe};

/// The table of one symbol, made by so many threads.
fn table(bars: &Bars, plan: &Plan, threads: usize) -> Table {
    let options = Options { threads, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
    Dataset::new(vec![bars.clone()], plan, &options).expect("a table").base
}

/// The same by one lane, from the first bar to the last.
fn one_lane(bars: &Bars, plan: &Plan) -> Table {
    let mut table = table(&head(bars, 1), plan, 1);
    let layer = &plan.layers[0];
    let inputs = inputs(layer, bars, &[], &[]).expect("inputs");
    let (rows, stride, words) = (bars.len(), table.stride, table.words());
    (table.values, table.valid, table.settled) =
        (Values::zeros(rows * stride), vec![0; rows * words], vec![false; rows]);
    with_job(plan, |job| {
        let out = RowsOut { values: &mut table.values, valid: &mut table.valid, settled: &mut table.settled };
        let mut lane = [Lane::new(&inputs, 0, rows, out)];
        run_side_by_side::<1>(job, &mut lane, None, &PACE).expect("rows");
        let [lane] = lane;
        table.columns.iter_mut().zip(lane.missing).for_each(|(column, missing)| column.invalid = missing);
    });
    table
}

const PACE: Pace<'static> = Pace { threads: 2, progress: &|_| {}, stop: &|| false };

fn head(bars: &Bars, n: usize) -> Bars {
    let cut = |x: &[f64]| x[..n.min(x.len())].to_vec();
    Bars {
        start: bars.start[..n].to_vec(),
        end: bars.end[..n].to_vec(),
        open: cut(&bars.open),
        high: cut(&bars.high),
        low: cut(&bars.low),
        close: cut(&bars.close),
        volume: cut(&bars.volume),
        ..bars.clone()
    }
}

/// Calls with the work of a plan's first layer.
fn with_job<R>(plan: &Plan, call: impl FnOnce(&Job<'_>) -> R) -> R {
    let layer = &plan.layers[0];
    let wanted: Vec<Id> = layer.outputs.iter().map(|o| o.id).collect();
    let (graph, ids) = layer.graph.part(&wanted);
    let columns: Vec<Feature> = layer.outputs.iter().map(|o| Feature::new(o, layer, Some(Timeframe::M5))).collect();
    let stride = columns.len().next_multiple_of(4);
    call(&Job { graph: &graph, ids: &ids, columns: &columns, stride, given: layer.columns.len(), sums: &[] })
}

/// Every bit, bit of validity, mark and count.
fn same(a: &Table, b: &Table, what: &str) {
    for (row, (x, y)) in a.values.chunks(a.stride).zip(b.values.chunks(b.stride)).enumerate() {
        if let Some(f) = (0..a.stride).find(|f| x[*f].to_bits() != y[*f].to_bits()) {
            panic!("{what}: row {row}, {}: {} instead of {}", a.columns[f].name, x[f], y[f]);
        }
    }
    assert!(a.valid == b.valid && a.settled == b.settled, "{what}: marks");
    let missing = |t: &Table| t.columns.iter().map(|c| c.invalid).collect::<Vec<_>>();
    assert_eq!(missing(a), missing(b), "{what}");
}

fn plan(text: &str) -> Plan {
    Plan::new(&parse(text, None).expect("a set")).expect("a plan")
}

/// A symbol without a missing value.
fn whole(bars: usize, seed: u64) -> Bars {
    let mut bars = symbol(bars, seed);
    let mut last = 100.0;
    for i in 0..bars.len() {
        if bars.close[i].is_nan() {
            (bars.open[i], bars.high[i], bars.low[i], bars.close[i]) = (last, last * 1.001, last * 0.999, last);
        }
        last = bars.close[i];
        bars.volume[i] = if bars.volume[i].is_nan() { 1.0 } else { bars.volume[i] };
    }
    bars
}

#[test]
fn segmented_run_equals_one_lane() {
    let sets = [
        "sma(20)\nema(20)\nrsi(14)\nadx(14)\nsar(0.02, 0.2)\nobv\nadosc(3, 10)\nstoch(14, 3, 3).d\nstd(20)\nkama(10)",
        include_str!("../presets/basic.txt"),
        // Sums without end of which somebody keeps the past, and one that is only shown.
        "zscore(obv, 20)\nsma(20)\nad\nobv",
    ];
    for text in sets {
        let plan = plan(text);
        for (bars, holes) in [(60_000, false), (60_001, true), (57_343, false), (31_999, true)] {
            let bars = if holes { symbol(bars, 5) } else { whole(bars, 6) };
            let expected = one_lane(&bars, &plan);
            for threads in [1, 2, 16] {
                assert!(with_job(&plan, |job| SegmentedRun::new(job, bars.len(), threads)).is_some(), "it is cut");
                same(&table(&bars, &plan, threads), &expected, &format!("{} bars, {threads} threads", bars.len()));
            }
        }
    }
}

#[test]
fn every_indicator_can_be_segmented() {
    let plan = plan(&everything());
    for bars in [whole(70_000, 1), symbol(70_007, 2)] {
        let expected = one_lane(&bars, &plan);
        for threads in [1, 2] {
            same(&table(&bars, &plan, threads), &expected, &format!("{threads} threads"));
        }
    }
}

/// Cuts with so little warm-up that nothing has forgotten its start: every segment has to be done again.
#[test]
fn segment_with_wrong_state_is_redone() {
    let plan =
        plan("ema(50)\nadx(14)\nrsi(14)\nsma(30)\nkama(10)\nobv\nsar(0.02, 0.2)\nmfi(14)\nstd(20)\nskew(close, 20)");
    for bars in [whole(9_000, 3), symbol(9_001, 4)] {
        let expected = one_lane(&bars, &plan);
        let inputs = inputs(&plan.layers[0], &bars, &[], &[]).expect("inputs");
        for (warm, step) in [(1, 420), (7, 840), (60, 420), (100, 1260), (419, 420), (3000, 420)] {
            let mut made = expected.clone();
            made.values.fill(7.0);
            made.valid.fill(7);
            made.settled.fill(false);
            let mut wrong = 0;
            with_job(&plan, |job| {
                let mut segmented = SegmentedRun::new(job, 1 << 24, 1).expect("a cut");
                (segmented.warm, segmented.step, segmented.early, segmented.late) = (warm, step, LANES * step, 840);
                let out = RowsOut { values: &mut made.values, valid: &mut made.valid, settled: &mut made.settled };
                let lane = Lane::new(&inputs, 0, bars.len(), out);
                let (missing, again) = segmented.run(job, lane, &PACE).expect("rows");
                made.columns.iter_mut().zip(missing).for_each(|(column, missing)| column.invalid = missing);
                wrong = again;
            });
            made.values.chunks_mut(made.stride).for_each(|row| row[made.columns.len()..].fill(0.0));
            same(&made, &expected, &format!("{warm} to warm up, {step} bars"));
            assert!((warm > 2000) == (wrong == 0), "{warm} bars to warm up, {wrong} done again");
        }
    }
}

/// A price that never moves again leaves averages a bit apart for ever, each where its past brought it.
#[test]
fn constant_price_is_segmented_correctly() {
    let plan = plan("ema(20)\nrsi(14)\natr(14)\ntrix(15)\nkama(10)\nsar(0.02, 0.2)");
    let mut bars = whole(40_000, 9);
    let last = bars.close[9_999];
    for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
        column[10_000..].fill(last);
    }
    let expected = one_lane(&bars, &plan);
    for threads in [1, 2] {
        same(&table(&bars, &plan, threads), &expected, &format!("{threads} threads"));
    }
}

/// On an ordinary walk nothing has to be done twice: the guesses of how soon operations forget are good.
#[test]
fn segments_cover_the_run() {
    let plan = plan(include_str!("../../../../bench/peers/features.txt"));
    let bars = whole(200_000, 11);
    let inputs = inputs(&plan.layers[0], &bars, &[], &[]).expect("inputs");
    let mut made = one_lane(&head(&bars, 1), &plan);
    let rows = bars.len();
    (made.values, made.valid, made.settled) =
        (Values::zeros(rows * made.stride), vec![0; rows * made.words()], vec![false; rows]);
    with_job(&plan, |job| {
        let segmented = SegmentedRun::new(job, rows, 4).expect("a cut");
        let out = RowsOut { values: &mut made.values, valid: &mut made.valid, settled: &mut made.settled };
        let again = segmented.run(job, Lane::new(&inputs, 0, rows, out), &PACE).expect("rows").1;
        assert_eq!(again, 0, "warm-up of {} bars", segmented.warm);
        assert!(segmented.ahead.is_empty() && segmented.sums.len() == 3, "only sums without end come first");
    });
}
