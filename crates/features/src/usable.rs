//! Which rows may be samples, and what a sample reads.
//!
//! [`Dataset::inputs`] says which columns go into which input, [`Dataset::usable_rows`] which rows have whole windows.
//! A row is usable where every row of every window is settled, lies in one run of one symbol, and the symbol belonged
//! to the universe. Whoever reads rows of the tables, a learner or an environment, asks here.

use crate::{Dataset, Feature, Samples, Table};
use bars::{Bars, Timeframe};

/// The group whose columns are one row.
const ROW: &str = "strategy";

/// How columns become inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputLayout {
    /// Base columns are the window `fast`, those of the group `strategy` one row beside it.
    Windows,
    /// All base columns are one row.
    Row,
}

/// One input of a model: a table, how many rows of it a sample reads, and where they end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// `fast`, `slow`, `strategy`: names its branch.
    pub name: String,
    /// `[F]` names of the columns; numbers where they have no names.
    pub columns: Vec<String>,
    /// Numbers from one row to the next: F rounded up to a multiple of 4.
    pub stride: usize,
    /// `[rows, stride]`, padding 0. Rows that no sample's window touches may hold anything, NaN too.
    pub values: Vec<f32>,
    /// `[ids]` the last row of each id's window; none: the id itself. Ids of no sample map to row 0.
    pub map: Option<Vec<u32>>,
    /// Rows of a window where the data come in windows of one length; 0: any, the net decides.
    pub window: usize,
}

impl Input {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.stride).unwrap_or(0)
    }
}

/// A column that takes many rows out of the samples.
#[derive(Debug, Clone, PartialEq)]
pub struct CostlyColumn {
    /// What it is called.
    pub name: String,
    /// Timeframe of the slower table it stands in; `None`: the base.
    pub timeframe: Option<Timeframe>,
    /// Bars of its table that it takes to settle; `None`: it never does.
    pub settled: Option<usize>,
    /// Rows on which it has settled, over all rows of its table.
    pub share: f64,
    /// Whether that is because values are missing, not because of its warm-up alone.
    pub is_missing: bool,
}

impl Dataset {
    /// The columns that would have settled on less than that share of their table's rows if no value were missing, and
    /// those that have on less than the share `present`.
    pub fn costly_columns(&self, least: f64, present: f64) -> Vec<CostlyColumn> {
        let base = std::iter::once((&self.base, None));
        let tables = base.chain(self.slow.iter().map(|s| (&s.table, Some(s.table.timeframe))));
        let costly = |(table, timeframe): (&Table, Option<Timeframe>)| {
            let rows = table.rows().max(1) as f64;
            let of = move |(at, column): (usize, &Feature)| {
                let warm = settled_by_age(table, column) as f64 / rows;
                let share = if warm < least { warm } else { settled_count(table, at, column) as f64 / rows };
                (warm < least || share < present).then(|| CostlyColumn {
                    name: column.name.clone(),
                    timeframe,
                    settled: column.settled,
                    share,
                    is_missing: warm >= least,
                })
            };
            table.columns.iter().enumerate().filter_map(of).collect::<Vec<_>>()
        };
        tables.flat_map(costly).collect()
    }

    /// The inputs of a sample, whose windows are still open. Each slower table is a window of its own.
    pub fn inputs(&self, layout: InputLayout) -> Vec<Input> {
        let base = &self.base;
        let all = || 0..base.columns.len();
        let is_row = |c: &usize| base.columns[*c].group == ROW;
        let (windows, row): (Vec<usize>, Vec<usize>) = match layout {
            InputLayout::Row => (Vec::new(), all().collect()),
            InputLayout::Windows => (all().filter(|c| !is_row(c)).collect(), all().filter(is_row).collect()),
        };
        let mut inputs = Vec::new();
        if !windows.is_empty() {
            inputs.push(input("fast".into(), base, &windows, None));
        }
        for slow in &self.slow {
            // Rows before the first slow bar are never samples; any row will do for them.
            let map = slow.of.iter().map(|row| if *row == u32::MAX { 0 } else { *row }).collect();
            let columns: Vec<usize> = (0..slow.table.columns.len()).collect();
            let name = if self.slow.len() == 1 { "slow".into() } else { format!("slow_{}", slow.table.timeframe) };
            inputs.push(input(name, &slow.table, &columns, Some(map)));
        }
        if !row.is_empty() {
            inputs.push(input(if windows.is_empty() { "row" } else { ROW }.into(), base, &row, None));
        }
        inputs
    }

    /// What the columns of [`inputs`](Dataset::inputs) of [rows](InputLayout::Row) are, in their order.
    pub fn row_columns(&self) -> impl Iterator<Item = &Feature> {
        self.slow.iter().map(|slow| &slow.table).chain([&self.base]).flat_map(|table| &table.columns)
    }

    /// `[rows]` whether a row's windows (`[inputs]` rows each) are whole, settled and of the universe.
    pub fn usable_rows(&self, inputs: &[Input], windows: &[usize]) -> Vec<bool> {
        // Inputs with a map are the slower tables, in their order.
        let lengths = |mapped: bool| inputs.iter().zip(windows).filter(move |(i, _)| i.map.is_some() == mapped);
        let need = lengths(false).map(|(_, w)| *w as u32).max().unwrap_or(1);
        let mut usable: Vec<bool> = settled_rows(&self.base).iter().map(|settled| *settled >= need).collect();
        for (slower, (_, need)) in self.slow.iter().zip(lengths(true)) {
            let settled = settled_rows(&slower.table);
            for (usable, of) in usable.iter_mut().zip(&slower.of) {
                *usable &= *of != u32::MAX && settled[*of as usize] >= *need as u32;
            }
        }
        for (bars, rows) in self.base.market.iter().zip(self.base.offsets.windows(2)) {
            clear_outsiders(bars, &mut usable[rows[0]..rows[1]]);
        }
        usable
    }

    /// The labelled rows among the usable ones (`[rows]`); `None` where nothing was labelled.
    pub fn samples(&self, usable: &[bool]) -> Option<Samples> {
        Some(Samples::new(&self.clock, self.labels.as_ref()?, |row| usable[row]))
    }

    /// The usable rows (`[rows]`) at which an account can take a step, without a class.
    pub fn steps(&self, usable: &[bool]) -> Samples {
        Samples::without_class(&self.base.market, &self.base.runs, &self.clock, |row| usable[row])
    }
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

/// Rows on which a column has settled if it has every value that it can have.
fn settled_by_age(table: &Table, column: &Feature) -> usize {
    let Some(settled) = column.settled else { return 0 };
    table.runs.iter().flatten().map(|run| run.len().saturating_sub(settled)).sum()
}

/// Rows on which the column at that place has settled.
fn settled_count(table: &Table, at: usize, column: &Feature) -> usize {
    let Some(settled) = column.settled else { return 0 };
    let unavoidable: usize = table.runs.iter().flatten().map(|run| run.len().min(column.first_valid)).sum();
    if column.invalid <= unavoidable as u64 {
        return settled_by_age(table, column);
    }
    let need = settled - column.first_valid + 1;
    let mut count = 0;
    for (runs, rows) in table.runs.iter().zip(table.offsets.windows(2)) {
        for run in runs {
            let mut since = 0;
            for row in run.clone() {
                since = if table.is_valid(rows[0] + row, at) { since + 1 } else { 0 };
                count += usize::from(since >= need);
            }
        }
    }
    count
}

/// `[rows]` number of settled rows of one run that end at each row, itself included.
fn settled_rows(table: &Table) -> Vec<u32> {
    let mut counts = vec![0; table.rows()];
    for (runs, rows) in table.runs.iter().zip(table.offsets.windows(2)) {
        for run in runs {
            let run = rows[0] + run.start..rows[0] + run.end;
            let mut settled = 0;
            for (count, is_settled) in counts[run.clone()].iter_mut().zip(&table.settled[run]) {
                settled = if *is_settled { settled + 1 } else { 0 };
                *count = settled;
            }
        }
    }
    counts
}

/// Clears the rows at whose time a symbol did not belong to the universe.
fn clear_outsiders(bars: &Bars, usable: &mut [bool]) {
    if bars.member.is_empty() {
        return;
    }
    for (usable, end) in usable.iter_mut().zip(&bars.end) {
        *usable &= bars.member.iter().any(|(from, to)| from <= end && end < to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Plan, read_set};
    use bars::Timeframe;
    use bars::synth::Synth;

    fn market(symbols: usize, bars: usize) -> Vec<Bars> {
        Synth { symbols, bars, timeframe: Timeframe::M5, ragged: false, ..Synth::default() }.make_market(1).market
    }

    fn dataset(market: Vec<Bars>, set: &str) -> Dataset {
        let plan = Plan::new(&read_set(set).unwrap()).unwrap();
        let options = Options { threads: 1, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
        Dataset::new(market, &plan, &options).unwrap()
    }

    #[test]
    fn a_look_back_has_the_windows_of_slower_values_and_of_the_market() {
        for (set, least, most) in [
            ("sma(100)", 99, 101),
            ("sma(50)@1h", 600, 720),
            ("close/sma(50)@1h - 1, rsi(14)", 600, 720),
            ("sma(sma(50)@1h, 20)", 619, 740),
            ("market_return(30)", 30, 32),
            ("market_regime(20, 250)", 270, 272),
            ("cluster_return(5, 250)", 255, 310),
            ("sma(market_return(30), 40)", 69, 72),
            ("[slow @1h]\nsma(30)", 30 * 12, 32 * 13),
        ] {
            let back = Plan::new(&read_set(set).unwrap()).unwrap().reach(Timeframe::M5);
            assert!((least..=most).contains(&back), "{set}: {back}");
        }
    }

    #[test]
    fn columns_are_split_into_windows_and_rows() {
        let set = "a = log_return(1), b = body\n[strategy]\nc = rsi(14)\n[slow @1h]\nd = log_return(1)";
        let data = dataset(market(2, 600), set);
        let shape = |layout| -> Vec<(String, usize, bool)> {
            data.inputs(layout).into_iter().map(|i| (i.name, i.columns.len(), i.map.is_some())).collect()
        };
        let named = |name: &str, columns, mapped| (name.to_string(), columns, mapped);
        assert_eq!(
            shape(InputLayout::Windows),
            [named("fast", 2, false), named("slow", 1, true), named("strategy", 1, false)]
        );
        assert_eq!(shape(InputLayout::Row), [named("slow", 1, true), named("row", 3, false)]);
        let names: Vec<String> = data.inputs(InputLayout::Row).into_iter().flat_map(|i| i.columns).collect();
        assert!(data.row_columns().map(|column| &column.name).eq(&names), "{names:?}");
        let inputs = data.inputs(InputLayout::Windows);
        let (row, strategy) = (data.base.rows() - 1, &inputs[2]);
        assert_eq!(strategy.values[row * strategy.stride], data.base.row(row)[data.base.column("c").unwrap()]);
    }

    #[test]
    fn columns_that_take_too_many_rows_are_named() {
        let mut bars = market(1, 400);
        bars[0].volume = (0..400).map(|t| if t % 60 < 58 { 0.0 } else { 5.0 }).collect();
        let set = "log_return(1), sma(200), rsi(14), obv, zscore(volume, 20)\n[slow @1h]\nd = ema(20), e = body";
        let data = dataset(bars, set);
        let costly = data.costly_columns(0.6, 0.5);
        let named: Vec<(&str, bool)> = costly.iter().map(|c| (c.name.as_str(), c.is_missing)).collect();
        // The slow table has 34 rows; rsi settles on 252 of 400.
        assert_eq!(named, [("sma(200)", false), ("obv", false), ("zscore(volume, 20)", true), ("d", false)]);
        assert_eq!((costly[0].settled, costly[0].share, costly[1].settled), (Some(199), 201.0 / 400.0, None));
        assert_eq!(costly[3].timeframe, Some(Timeframe::H1));
        assert!(data.costly_columns(0.0, 0.0).is_empty());
        // A set without them has what is left, and no group without a feature.
        let set = read_set(set).unwrap();
        let rest = set.without(|timeframe, name| {
            costly.iter().any(|c| (c.timeframe, c.name.as_str()) == (timeframe, name)) || name == "e"
        });
        assert_eq!(rest.to_string(), "log_return(1)\nrsi(14)\n");
        assert_eq!(read_set(&rest.to_string()).unwrap().groups.len(), 1);
    }

    #[test]
    fn usable_rows_have_whole_windows_of_one_run_and_belong_to_the_universe() {
        let mut bars = market(2, 400);
        bars[0].segments = vec![0, 200];
        let (from, to) = (bars[1].end[100], bars[1].end[300]);
        bars[1].member = vec![(from, to)];
        let data = dataset(bars, "log_return(5)");
        let inputs = data.inputs(InputLayout::Row);
        let usable = data.usable_rows(&inputs, &[10]);
        // Five returns settle a row, and ten such rows make a window, anew in each run.
        let expected: Vec<usize> = (14..200).chain(214..400).chain(500..700).collect();
        assert_eq!((0..800).filter(|row| usable[*row]).collect::<Vec<_>>(), expected);
        // A slower window is counted in slower rows, which must be complete.
        let data = dataset(market(1, 400), "log_return(1)\n[slow @1h]\nlog_return(1)");
        let inputs = data.inputs(InputLayout::Windows);
        let usable = data.usable_rows(&inputs, &[1, 6]);
        let first = usable.iter().position(|usable| *usable).unwrap();
        let slow = &data.slow[0];
        let warm = slow.table.settled.iter().position(|settled| *settled).unwrap() as u32;
        assert!(warm > 0);
        assert_eq!((slow.of[first - 1], slow.of[first]), (warm + 4, warm + 5), "six settled rows make a window");
    }
}
