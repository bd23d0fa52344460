//! Our own pipeline as the hunt sees it: in batch, bar by bar, and in full precision.

use super::{Column, PipelineOutput, WarmUp};
use crate::batch;
use crate::columns::Column as Input;
use crate::dataset::{Dataset, Options, precise};
use crate::inputs::inputs;
use crate::labels::{Labeling, Rule, label};
use crate::ops::Op;
use crate::plan::{Fitted, Layer, Plan};
use crate::resample::resample;
use crate::runs::runs;
use crate::table::{Feature, Table};
use bars::{Bars, Timeframe};
use files::Result;
use std::ops::Range;

/// A plan and its labels.
#[derive(Debug, Clone)]
pub struct PlanPipeline {
    plan: Plan,
    /// The plan without what looks at other symbols, and the names of that.
    own: (Plan, Vec<String>),
    labels: Option<Labeling>,
    max_hole: Option<usize>,
    threads: usize,
    /// Whether the whole market has volume: a part of it has the same columns.
    volume: bool,
    /// What left, as in [`Fitted`].
    without_volume: Vec<String>,
    without_market: Vec<String>,
}

/// The name of the column that says whether a row has settled.
const SETTLED: &str = "row settled";
/// The name of the column that says which slow row is seen.
const ROW: &str = "row";

impl PlanPipeline {
    /// The pipeline for a market. A label that chooses its horizon chooses it here, on the whole market: it reads the
    /// first training span, which a market that is cut short does not have.
    pub fn new(
        market: &[Bars],
        plan: &Plan,
        labels: Option<Labeling>,
        max_hole: Option<usize>,
        threads: usize,
    ) -> Result<PlanPipeline> {
        let volume = market.iter().any(|b| !b.volume.is_empty());
        let Fitted { plan, without_volume, without_market } = plan.fit(volume, market.len())?;
        let labels = match labels {
            Some(spec) if spec.rule == Rule::Auto => {
                let cuts: Vec<Vec<Range<usize>>> = market.iter().map(|b| runs(b, max_hole)).collect();
                Some(Labeling { rule: label(market, &cuts, &spec, threads)?.rule, ..spec })
            }
            labels => labels,
        };
        let own = plan.with_symbols(0);
        Ok(PlanPipeline { plan, own, labels, max_hole, threads, volume, without_volume, without_market })
    }

    /// Features that are not looked at because there is no volume.
    pub fn without_volume(&self) -> &[String] {
        &self.without_volume
    }

    /// Features that are not looked at because there are too few symbols for a market.
    pub fn without_market(&self) -> &[String] {
        &self.without_market
    }

    /// What is learnt, once `auto` has chosen.
    pub fn rule(&self) -> Option<Rule> {
        self.labels.as_ref().map(|spec| spec.rule)
    }

    /// All rows at once, as learners get them. What is seen of a slower table is a column `name@1h`; so is which of its
    /// rows is seen.
    pub fn batch(&self, market: &[Bars]) -> Result<PipelineOutput> {
        // The plan has lost what the whole market is too small for; a part of it loses no more.
        let data = Dataset::part_of(usize::MAX, None, market.to_vec(), &self.plan, &self.options())?;
        Ok(seen_of(data))
    }

    /// The same rows from streams. What looks at other symbols is left out, and so is whether the whole row has settled
    /// where there is such a column.
    pub fn stream(&self, market: &[Bars]) -> Result<PipelineOutput> {
        let options = Options { labels: None, ..self.options() };
        let mut seen = seen_of(Dataset::streamed_fitted(market.to_vec(), &self.own.0, self.volume, &options)?);
        seen.unstreamed.clone_from(&self.own.1);
        if !seen.unstreamed.is_empty() {
            seen.unstreamed.push(SETTLED.to_string());
        }
        Ok(seen)
    }

    fn options(&self) -> Options<'_> {
        let Self { threads, max_hole, labels, .. } = self;
        let labels = labels.clone();
        Options { threads: *threads, max_hole: *max_hole, labels, progress: &|_, _, _| {}, stop: &|| false }
    }

    /// The same features in f64, with what they say about their beginning; those of the market say nothing about it.
    pub fn exact(&self, market: &[Bars]) -> Result<PipelineOutput> {
        let layers: Vec<&Layer> = self
            .own
            .0
            .layers
            .iter()
            .enumerate()
            .filter(|(i, l)| *i == 0 || !l.outputs.is_empty())
            .map(|l| l.1)
            .collect();
        let mut seen = PipelineOutput { ages: vec![Vec::new(); layers.len()], ..PipelineOutput::default() };
        let base = market.first().map(|bars| bars.timeframe);
        for (clock, layer) in layers.iter().enumerate() {
            for output in &layer.outputs {
                let feature = Feature::new(output, layer, layer.timeframe.or(base));
                let late = |c: &Input| matches!(c, Input::Slow(..) | Input::Extra(_) | Input::Volume);
                let (part, _) = layer.graph.part(&[output.id]);
                let day = part.nodes().iter().any(|node| matches!(node.op, Op::Session(_)));
                let Feature { first_valid, settled, .. } = feature;
                let warm = WarmUp { first_valid, settled, waits: day || layer.reads(output.id, &late), clock };
                let name = layer.timeframe.map_or(feature.name.clone(), |t| format!("{}@{t}", feature.name));
                seen.columns.push(Column { name, values: Vec::new(), warm: Some(warm) });
            }
        }
        for bars in market {
            let (mut values, mut at) = (precise(bars, &self.own.0, self.max_hole)?, 0);
            for (_, values) in &mut values {
                seen.columns[at].values.append(values);
                at += 1;
            }
            seen.ages[0].extend(ages(runs(bars, self.max_hole).iter()));
            for (clock, layer) in layers.iter().enumerate().skip(1) {
                let (slow, of) = resample(bars, layer.timeframe.unwrap_or(Timeframe::D1))?;
                let cuts = runs(&slow, self.max_hole);
                let ids: Vec<_> = layer.outputs.iter().map(|o| o.id).collect();
                let made = batch::compute_columns(&layer.graph, &ids, &inputs(layer, &slow, &[], &[])?, &cuts);
                let age = ages(cuts.iter());
                seen.ages[clock].extend(of.iter().map(|row| age.get(*row as usize).copied().unwrap_or(u32::MAX)));
                for made in made {
                    let shown = of.iter().map(|row| made.get(*row as usize).copied().unwrap_or(f64::NAN));
                    seen.columns[at].values.extend(shown);
                    at += 1;
                }
            }
        }
        Ok(seen)
    }
}

/// What rows of the base see: of a slower table too, and which of its rows that is.
fn seen_of(data: Dataset) -> PipelineOutput {
    let base = &data.base;
    let mut seen = PipelineOutput { ages: vec![ages(base.runs.iter().flatten())], ..PipelineOutput::default() };
    let all: Vec<Option<usize>> = (0..base.rows()).map(Some).collect();
    table(&mut seen, base, &all, "");
    for slow in &data.slow {
        let at = format!("@{}", slow.table.timeframe);
        let rows: Vec<Option<usize>> = slow.of.iter().map(|r| (*r != u32::MAX).then_some(*r as usize)).collect();
        table(&mut seen, &slow.table, &rows, &at);
        let local = rows.iter().map(|row| row.map_or(f64::NAN, |row| slow.table.place(row).1 as f64)).collect();
        seen.columns.push(Column { name: format!("{ROW}{at}"), values: local, warm: None });
    }
    seen.labels = data.labels;
    seen
}

/// The columns of a table, as rows of the base see them.
fn table(seen: &mut PipelineOutput, table: &Table, rows: &[Option<usize>], at: &str) {
    for (f, column) in table.columns.iter().enumerate() {
        let value = |row: usize| if table.is_valid(row, f) { f64::from(table.row(row)[f]) } else { f64::NAN };
        let values = rows.iter().map(|row| row.map_or(f64::NAN, value)).collect();
        seen.columns.push(Column { name: format!("{}{at}", column.name), values, warm: None });
    }
    let settled = rows.iter().map(|row| row.map_or(f64::NAN, |row| f64::from(u8::from(table.settled[row])))).collect();
    seen.columns.push(Column { name: format!("{SETTLED}{at}"), values: settled, warm: None });
}

/// Which row of its run each row is.
fn ages<'a>(runs: impl Iterator<Item = &'a Range<usize>>) -> Vec<u32> {
    runs.flat_map(|run| 0..run.len() as u32).collect()
}
