//! The market that a fold's members search in: a model of its own training rows (`search::FittedModel`: the bootstrap,
//! or the learned one where it predicts better), and what turns a row and what an account is shown there into a root.
//!
//! **A model owns its rows, cut where the fold's training ends**: those of training samples alone, scaled as the net
//! reads them. The newest [`MOST`] are kept. As bytes it goes into a model's folder, so that a searcher needs no
//! training data.

use super::trend::orientation;
use account::Bar;
use compute::population::Scale;
use compute::{Error, Result};
use features::Input;
use market::{EpisodeData, OBSERVED, RowTime, observe};
use search::{
    Bootstrap, Chance, Comparison, Draws, FittedModel, Imagined, InfoSet, Learned, MarketWorld, ModelKind, ModelRule,
    Rows, Step, TrainingRow, World,
};
use std::ops::Range;

/// Rows that a model keeps, at most.
const MOST: usize = 1 << 16;
/// Numbers of a bar.
const BAR: usize = Bar::NUMBERS;
/// What a file of a model begins with.
const MAGIC: &[u8; 8] = b"FBMARKT2";
/// Short, flat and long.
pub(super) const ACTIONS: usize = 3;
/// A column is a trend's where both of its signs have at least this share of the rows.
const BOTH_SIGNS: f64 = 0.05;

/// The columns of a trend, and what their sign adds to the logits of a root.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trend {
    /// Columns of the trend group, counted through all inputs; which way each points is found on training rows.
    pub columns: Vec<usize>,
    /// What the sign adds to long and takes off short where the column points up, and the other way round where it
    /// points down.
    pub weight: f32,
    /// Whether the whole group is negated.
    pub inverted: bool,
}

/// A fitted market with accounts on it.
#[derive(Debug)]
pub struct FoldMarket {
    world: MarketWorld<FittedModel>,
    /// How the two models did on rows held out; none where nothing was compared.
    compared: Option<Comparison>,
    /// What values are counted in: the deviation of a bar's move in the training part.
    pub(super) unit: f32,
    prior: Option<Prior>,
    discount: f32,
    /// `[rows]` in order: a digest of what was observed at a row and of its close, and the row.
    digests: Vec<(u64, u32)>,
}

/// What the sign of a column adds to a root's logits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prior {
    column: u32,
    /// The column where the trend is nothing.
    zero: f32,
    /// Below 0 where the column points down.
    weight: f32,
}

/// Writes what an account is shown of itself.
fn show(params: &account::Params, account: &account::Account, bar: &account::Bar, time: [f32; 2], to: &mut [f32]) {
    observe(params, account, bar, RowTime { time_of_day: time[0], bars_to_close: time[1] }, to);
}

/// `[features]` a row of all inputs as the net reads it.
pub(super) fn observation(inputs: &[Input], scales: &[Scale], row: u32, to: &mut Vec<f32>) {
    for (input, scale) in inputs.iter().zip(scales) {
        let at = input.map.as_ref().map_or(row, |map| map[row as usize]) as usize * input.stride;
        let values = &input.values[at..at + input.columns.len()];
        let scaled = values.iter().zip(scale.mean.iter().zip(&scale.inverse));
        to.extend(scaled.map(|(x, (mean, inverse))| (x - mean) * inverse));
    }
}

/// What names a row wherever it lies: what is observed there, and its close.
fn digest(observation: &[f32], bar: &Bar) -> u64 {
    let words = observation.iter().map(|x| u64::from(x.to_bits()));
    words.fold(bar.close.to_bits(), |sum, word| (sum.rotate_left(23) ^ word).wrapping_mul(0x0100_0000_01b3))
}

/// What a market is fitted on.
pub(super) struct TrainingPart<'a> {
    pub(super) inputs: &'a [Input],
    pub(super) scales: &'a [Scale],
    pub(super) data: &'a EpisodeData,
    /// Rows of training samples, as stretches of neighbours.
    pub(super) stretches: &'a [Range<u32>],
    /// `[rows of the table]` the number of each row's clock time.
    pub(super) clocks: &'a [u32],
    /// Which model is wanted, and over how many bars models are compared.
    pub(super) model: ModelRule,
    pub(super) horizon: usize,
}

impl FoldMarket {
    /// Fits the market of a fold's training part.
    pub(super) fn fit(part: &TrainingPart<'_>, discount: f32, trend: &Trend) -> Result<FoldMarket> {
        let TrainingPart { inputs, scales, data, stretches, clocks, model, horizon } = *part;
        let features: usize = inputs.iter().map(|input| input.columns.len()).sum();
        let from = newest(stretches, clocks);
        let (mut observations, mut rows) = (Vec::new(), Vec::new());
        for stretch in stretches {
            let own = stretch.clone().filter(|row| clocks[*row as usize] >= from);
            for row in own {
                observation(inputs, scales, row, &mut observations);
                let RowTime { time_of_day, bars_to_close } = data.row_time(row);
                rows.push(TrainingRow {
                    bar: data.table().bars[row as usize],
                    time: [time_of_day, bars_to_close],
                    clock: clocks[row as usize],
                    continues: row + 1 < stretch.end,
                });
            }
        }
        let rows = Rows::cut(&observations, features, &rows, |_| true)?;
        let prior = prior(&rows, scales, trend);
        let (model, compared) = FittedModel::fit(rows, model, horizon)?;
        Ok(FoldMarket::new(model, compared, discount, prior))
    }

    fn new(model: FittedModel, compared: Option<Comparison>, discount: f32, prior: Option<Prior>) -> FoldMarket {
        let unit = deviation(model.rows().all());
        let rows = model.rows();
        let shown = rows.observations().chunks_exact(rows.features());
        let of = |((row, shown), at): ((&TrainingRow, &[f32]), u32)| (digest(shown, &row.bar), at);
        let mut digests: Vec<(u64, u32)> = rows.all().iter().zip(shown).zip(0..).map(of).collect();
        digests.sort_unstable();
        let world = MarketWorld::new(model, discount, show, OBSERVED);
        FoldMarket { world, compared, unit, prior, discount, digests }
    }

    /// Bytes of the market of so many rows with so many features, at most.
    pub(super) fn need(rows: usize, features: usize) -> u64 {
        let kept = FoldMarket::most_rows(rows);
        kept as u64 * (4 * features as u64 + 208) + Learned::bytes_of(kept, features)
    }

    /// Bytes beside that while it is fitted: models are compared on a copy of three quarters of the rows.
    pub(super) fn need_to_fit(rows: usize, features: usize) -> u64 {
        (3 * FoldMarket::most_rows(rows) / 4) as u64 * (4 * features as u64 + 192)
    }

    /// Rows that the market of so many has at most.
    pub(super) fn most_rows(rows: usize) -> usize {
        rows.min(MOST)
    }

    /// Which model it holds.
    pub fn model(&self) -> ModelKind {
        self.world.model().kind()
    }

    /// The bootstrap, where it holds that.
    pub fn bootstrap(&self) -> Option<&Bootstrap> {
        match self.world.model() {
            FittedModel::Bootstrap(model) => Some(model),
            FittedModel::Learned(_) => None,
        }
    }

    /// How both models did on rows that neither was fitted to; none where only the bootstrap is wanted, or rows are too
    /// few.
    pub fn comparison(&self) -> Option<&Comparison> {
        self.compared.as_ref()
    }

    /// CRPS and coverage of the model's next moves on rows held out; not a number where that is not known.
    pub fn score(&self) -> (f64, f64) {
        match (self.world.model(), &self.compared) {
            (FittedModel::Bootstrap(_), Some(compared)) => (compared.bootstrap.crps, compared.bootstrap.coverage),
            (FittedModel::Learned(_), Some(compared)) => (compared.learned.crps, compared.learned.coverage),
            (FittedModel::Bootstrap(model), None) => (model.score().crps, model.score().coverage),
            (FittedModel::Learned(_), None) => (f64::NAN, f64::NAN),
        }
    }

    /// What a reward one bar later is worth.
    pub(super) fn discount(&self) -> f32 {
        self.discount
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.world.model().rows().len()
    }

    /// An error where a row behind the end of the training part was asked for, or none was left to draw.
    pub(super) fn check_drawn(&self) -> Result<()> {
        self.world.model().rows().check_drawn()
    }

    /// Clock times within so many rows of the training row at which exactly this was observed, those of its symbol over
    /// all gaps, and at least as many clock times: what a search from there may not draw. None elsewhere.
    ///
    /// A row is known by what it shows and by its close, so that it is the same in whatever table it lies. Rows of a
    /// gap are not here to be counted, so as much is left out as while training, or more.
    pub(super) fn within(&self, observation: &[f32], bar: &Bar, bars: u32) -> Range<u32> {
        let (own, rows) = (digest(observation, bar), self.world.model().rows());
        let (all, from) = (rows.all(), self.digests.partition_point(|(digest, _)| *digest < own));
        let alike = self.digests[from..].iter().take_while(|(digest, _)| *digest == own).map(|(_, at)| *at as usize);
        let is_it = |at: &usize| {
            let shown = &rows.observations()[at * rows.features()..(at + 1) * rows.features()];
            all[*at].bar.close == bar.close && shown == observation
        };
        let Some(row) = alike.into_iter().find(is_it) else { return 0..0 };
        let (clock, most) = (all[row].clock, bars as usize);
        // Rows of a symbol are in the order of time, and the next symbol begins earlier.
        let follows = |row: usize| all[row].clock < all[row + 1].clock;
        let before = (1..=most.min(row)).take_while(|n| follows(row - n)).count();
        let behind = (row..all.len() - 1).take(most).take_while(|row| follows(*row)).count();
        let first = all[row - before].clock.min(clock.saturating_sub(bars));
        first..all[row + behind].clock.max(clock.saturating_add(bars)).saturating_add(1)
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> u64 {
        let more = if let FittedModel::Learned(model) = self.world.model() { model.bytes() } else { 0 };
        let more = more + size_of_val(&self.digests[..]) as u64;
        self.world.model().rows().bytes() + more
    }

    /// The column whose sign guides roots, counted through all inputs; none where there is no trend, or it counts
    /// nothing.
    pub fn trend_column(&self) -> Option<usize> {
        self.prior.map(|prior| prior.column as usize)
    }

    /// Whether that column is above nothing after the price fell, so that its sign counts the other way round.
    pub fn trend_is_reversed(&self) -> bool {
        self.prior.is_some_and(|prior| prior.weight < 0.0)
    }

    /// What a trend added to a root's logits, `[A]`.
    pub(super) fn prior_of(&self, known: &InfoSet) -> [f32; ACTIONS] {
        let Some(Prior { column, zero, weight }) = self.prior else { return [0.0; ACTIONS] };
        let x = known.observation[column as usize] - zero;
        let sign = if x > 0.0 {
            weight
        } else if x < 0.0 {
            -weight
        } else {
            0.0
        };
        [-sign, 0.0, sign]
    }

    /// What is known at the close of a row to an account that is shown this: the account is one of its own that would
    /// be shown the same.
    pub(super) fn root(
        &self,
        data: &EpisodeData,
        row: u32,
        observation: Vec<f32>,
        observed: &[f32],
        excluded: Range<u32>,
    ) -> InfoSet {
        let (params, bar) = (*data.params(row), data.table().bars[row as usize]);
        let RowTime { time_of_day, bars_to_close } = data.row_time(row);
        let account = account_shown(&params, &bar, observed);
        InfoSet { observation, bar, time: [time_of_day, bars_to_close], params, account, excluded }
    }

    /// All of it as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let rows = self.world.model().rows();
        let mut bytes = MAGIC.to_vec();
        let prior = self.prior.unwrap_or(Prior { column: u32::MAX, zero: 0.0, weight: 0.0 });
        for word in [rows.len() as u32, rows.features() as u32, prior.column] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for number in [prior.zero, prior.weight, self.discount] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (row, observation) in rows.all().iter().zip(rows.observations().chunks_exact(rows.features())) {
            row.bar.numbers().iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
            row.time.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
            bytes.extend_from_slice(&(row.clock << 1 | u32::from(row.continues)).to_le_bytes());
            observation.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        }
        // How models compared, then the weights of a learned one.
        let weights = match self.world.model() {
            FittedModel::Bootstrap(_) => None,
            FittedModel::Learned(model) => Some(model.weights()),
        };
        bytes.extend([u8::from(self.compared.is_some()), u8::from(weights.is_some())]);
        let numbers = self.compared.iter().flat_map(Comparison::numbers);
        numbers.for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        weights.into_iter().flatten().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        bytes
    }

    /// The market of such bytes.
    ///
    /// # Errors
    ///
    /// Where they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<FoldMarket> {
        let bad = || Error::Invalid("these bytes are no market model".into());
        let word = |bytes: &[u8], at: usize| -> Result<u32> {
            let four = bytes.get(at..at + 4).ok_or_else(bad)?;
            Ok(u32::from_le_bytes(four.try_into().expect("four bytes")))
        };
        let head = MAGIC.len() + 6 * 4;
        if bytes.len() < head || !bytes.starts_with(MAGIC) {
            return Err(bad());
        }
        let at = |n: usize| MAGIC.len() + 4 * n;
        let (rows, features, column) =
            (word(bytes, at(0))? as usize, word(bytes, at(1))? as usize, word(bytes, at(2))?);
        let [zero, weight, discount] = [3, 4, 5].map(|n| word(bytes, at(n)).map(f32::from_bits));
        let (zero, weight, discount) = (zero?, weight?, discount?);
        let each = features.checked_mul(4).and_then(|n| n.checked_add(BAR * 8 + 12)).ok_or_else(bad)?;
        let table = rows.checked_mul(each).and_then(|n| n.checked_add(head)).ok_or_else(bad)?;
        let Some((compared, weights)) = bytes.get(table..).and_then(read_fit) else { return Err(bad()) };
        if rows == 0 || features == 0 || !(column == u32::MAX || (column as usize) < features) {
            return Err(bad());
        }
        let (mut observations, mut all) = (Vec::with_capacity(rows * features), Vec::with_capacity(rows));
        for own in bytes[head..table].chunks_exact(each) {
            let (numbers, rest) = own.split_at(BAR * 8);
            let number = |at: usize| f64::from_le_bytes(numbers[8 * at..8 * at + 8].try_into().expect("eight bytes"));
            let bar = Bar::from_numbers(&std::array::from_fn(number));
            let stamp = word(rest, 8)?;
            let time = [f32::from_bits(word(rest, 0)?), f32::from_bits(word(rest, 4)?)];
            all.push(TrainingRow { bar, time, clock: stamp >> 1, continues: stamp & 1 == 1 });
            let floats = rest[12..].chunks_exact(4);
            observations.extend(floats.map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))));
        }
        let prior = (column != u32::MAX).then_some(Prior { column, zero, weight });
        let rows = Rows::cut(&observations, features, &all, |_| true)?;
        let model = match weights {
            None => FittedModel::Bootstrap(Bootstrap::new(rows)?),
            Some(weights) => FittedModel::Learned(Learned::from_weights(rows, &weights)?),
        };
        Ok(FoldMarket::new(model, compared, discount, prior))
    }
}

/// A comparison and the weights of a learned model.
type Fit = (Option<Comparison>, Option<Vec<f32>>);

/// What lies behind the rows of a file; none where it makes no sense.
fn read_fit(bytes: &[u8]) -> Option<Fit> {
    let (flags, rest) = bytes.split_at_checked(2)?;
    if flags.iter().any(|flag| *flag > 1) {
        return None;
    }
    let (numbers, rest) = rest.split_at_checked(usize::from(flags[0]) * 8 * Comparison::NUMBERS)?;
    let numbers: Vec<f64> =
        numbers.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().expect("eight bytes"))).collect();
    let compared = numbers.try_into().ok().map(Comparison::from_numbers);
    if flags[1] == 0 {
        return rest.is_empty().then_some((compared, None));
    }
    let weights = rest.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))).collect();
    rest.len().is_multiple_of(4).then_some((compared, Some(weights)))
}

/// The first clock time whose rows are kept: the newest, as many as a model may have.
pub(super) fn newest(stretches: &[Range<u32>], clocks: &[u32]) -> u32 {
    let all: usize = stretches.iter().map(ExactSizeIterator::len).sum();
    if all <= MOST {
        return 0;
    }
    let mut own: Vec<u32> = stretches.iter().cloned().flatten().map(|row| clocks[row as usize]).collect();
    own.sort_unstable();
    own[all - MOST]
}

/// The first column of the group that shows both signs and points somewhere, and where it is nothing.
fn prior(rows: &Rows, scales: &[Scale], trend: &Trend) -> Option<Prior> {
    if trend.weight == 0.0 {
        return None;
    }
    let all: Vec<(f32, f32)> =
        scales.iter().flat_map(|scale| scale.mean.iter().copied().zip(scale.inverse.iter().copied())).collect();
    let both = |column: usize, zero: f32| {
        let above = rows.observations().chunks_exact(rows.features()).filter(|row| row[column] > zero).count();
        (BOTH_SIGNS..=1.0 - BOTH_SIGNS).contains(&(above as f64 / rows.len() as f64))
    };
    // An inverted trend is negated in these rows, and believed as it is there.
    let weight = if trend.inverted { -trend.weight } else { trend.weight };
    let of = |column: usize| {
        let zero = -all[column].0 * all[column].1;
        let points = || orientation(rows, column, zero);
        let points = both(column, zero).then(points).flatten()?;
        Some(Prior { column: column as u32, zero, weight: weight * points })
    };
    trend.columns.iter().find_map(|column| of(*column))
}

/// The deviation of a bar's move.
fn deviation(rows: &[TrainingRow]) -> f32 {
    let moves = rows.windows(2).filter(|pair| pair[0].continues && pair[0].bar.close > 0.0);
    let moves = moves.map(|pair| pair[1].bar.close * pair[1].bar.split / pair[0].bar.close - 1.0);
    let (sum, n) = moves.filter(|x| x.is_finite()).fold((0.0, 0u32), |(sum, n), x| (sum + x * x, n + 1));
    let square = sum / f64::from(n.max(1));
    if square > 0.0 { square.sqrt() as f32 } else { 1.0 }
}

/// An account that would be shown this: equity is the capital, what it paid so far is not known.
fn account_shown(params: &account::Params, bar: &account::Bar, observed: &[f32]) -> account::Account {
    let shown: &[f32; OBSERVED] = observed.try_into().expect("an observation");
    let [position, pending, unrealised, held, drawdown, ..] = shown.map(f64::from);
    let mut account = account::Account::new(params);
    let unit = params.multiplier * bar.close * bar.fx_close;
    account.quantity = position * account.equity / unit;
    account.target = (position + pending) * account.equity / unit;
    account.peak = account.equity / (1.0 - drawdown).max(1e-6);
    account.bars_held = (held.exp() - 1.0).round().max(0.0);
    let wanted = position + pending;
    account.action = if wanted > TINY {
        1.0
    } else if wanted < -TINY {
        -1.0
    } else {
        0.0
    };
    if position != 0.0 {
        let moved = unrealised * position.signum() * bar.sigma * account.bars_held.sqrt();
        account.entry = bar.close / (1.0 + moved).max(1e-6);
        (account.mark, account.fx) = (bar.close, bar.fx_close);
    }
    account
}

/// A position that is as good as none.
const TINY: f64 = 1e-6;

/// The market as a search plays through it; what a trend adds is believed at the root alone.
impl World for FoldMarket {
    type Known = InfoSet;
    type Market = Imagined;
    type Account = account::Account;

    fn actions(&self) -> usize {
        self.world.actions()
    }

    fn inputs(&self) -> usize {
        self.world.inputs()
    }

    fn start(&self, known: &InfoSet) -> (Imagined, account::Account) {
        self.world.start(known)
    }

    fn draw(&self, known: &InfoSet, market: &Imagined, draws: Draws, count: usize, to: &mut Vec<Chance<Imagined>>) {
        self.world.draw(known, market, draws, count, to);
    }

    fn step(
        &self,
        known: &InfoSet,
        account: &account::Account,
        action: usize,
        now: &Imagined,
        next: &Imagined,
    ) -> Step<account::Account> {
        self.world.step(known, account, action, now, next)
    }

    fn legal(&self, known: &InfoSet, market: &Imagined, account: &account::Account) -> u32 {
        self.world.legal(known, market, account)
    }

    fn held(&self, account: &account::Account) -> usize {
        self.world.held(account)
    }

    fn observe(&self, known: &InfoSet, market: &Imagined, account: &account::Account, to: &mut [f32]) {
        self.world.observe(known, market, account, to);
    }

    fn row(&self, market: &Imagined) -> Option<u32> {
        self.world.row(market)
    }

    fn root_prior(&self, known: &InfoSet, logits: &mut [f32]) {
        logits.iter_mut().zip(self.prior_of(known)).for_each(|(logit, prior)| *logit += prior);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use account::{Account, Action, Bar, Params, step};

    /// Two stretches of a hundred rows, three clock times apart, and twenty of another symbol.
    fn market() -> (FoldMarket, Vec<f32>) {
        let mut random = random::SplitMix::new(3);
        let mut row = |at: u32| {
            let close = 100.0 + random.unit();
            let bar = Bar { open: close, sigma: 0.01, ..Bar::flat(close) };
            TrainingRow { bar, time: [0.0; 2], clock: 3 * (at % 200), continues: at != 99 && at != 199 }
        };
        let rows: Vec<TrainingRow> = (0..220).map(&mut row).collect();
        // The last rows show the same as the first ones.
        let observations: Vec<f32> = (0..220u8).flat_map(|at| [f32::from(at % 190), 1.0]).collect();
        let rows = Rows::cut(&observations, 2, &rows, |_| true).unwrap();
        let (model, _) = FittedModel::fit(rows, ModelRule::Bootstrap, 4).unwrap();
        (FoldMarket::new(model, None, 0.9, None), observations)
    }

    #[test]
    fn a_training_row_is_known_again_with_its_horizon() {
        let (market, observations) = market();
        let rows = market.world.model().rows().all();
        let within = |row: usize, bars: u32| market.within(&observations[2 * row..][..2], &rows[row].bar, bars);
        assert_eq!(within(40, 4), 3 * 36..3 * 44 + 1);
        // Over the gap between two stretches, as far as the symbol goes, and never less than as many clock times.
        assert_eq!([within(98, 4), within(101, 4)], [3 * 94..3 * 102 + 1, 3 * 97..3 * 105 + 1]);
        assert_eq!([within(0, 2), within(199, 2)], [0..7, 3 * 197..3 * 199 + 3]);
        assert_eq!([within(200, 2), within(219, 2)], [0..7, 3 * 17..3 * 19 + 3]);
        // The same observation at another close is another row, and neither is known where one of them differs.
        assert_eq!(within(195, 1), 3 * 194..3 * 196 + 1);
        let other = Bar { close: 99.0, ..rows[40].bar };
        assert_eq!(market.within(&observations[80..82], &other, 4), 0..0);
        assert_eq!(market.within(&[40.0, 2.0], &rows[40].bar, 4), 0..0);
        // Costs are the account's own, and a market that was read knows its rows too.
        let costly = Bar { half_spread: 0.1, ..rows[40].bar };
        let read = FoldMarket::from_bytes(&market.to_bytes()).unwrap();
        assert_eq!(read.within(&observations[80..82], &costly, 4), within(40, 4));
    }

    #[test]
    fn a_trend_is_believed_at_the_root_by_its_sign() {
        let (mut market, _) = market();
        let logits = |market: &FoldMarket, x: f32| {
            let params = Params::default();
            let (bar, account) = (Bar::flat(100.0), Account::new(&params));
            let known = InfoSet { observation: vec![0.0, x], bar, time: [0.0; 2], params, account, excluded: 0..0 };
            let mut logits = [0.5, 1.0, -0.5];
            market.root_prior(&known, &mut logits);
            logits
        };
        assert_eq!(logits(&market, 3.0), [0.5, 1.0, -0.5]);
        // Above nothing it speaks for long, below for short, and the other way round where it points down.
        market.prior = Some(Prior { column: 1, zero: 2.0, weight: 0.25 });
        assert_eq!(
            [3.0, 1.0, 2.0].map(|x| logits(&market, x)),
            [[0.25, 1.0, -0.25], [0.75, 1.0, -0.75], [0.5, 1.0, -0.5]]
        );
        market.prior = Some(Prior { column: 1, zero: 2.0, weight: -0.25 });
        assert_eq!(logits(&market, 3.0), [0.75, 1.0, -0.75]);
    }

    #[test]
    fn an_account_that_is_shown_the_same_trades_the_same() {
        let params = Params { fee: 1e-3, ..Params::default() };
        let bar = |close: f64| Bar { sigma: 0.01, ..Bar::flat(close) };
        let closes = [100.0, 101.0, 99.5, 102.0, 101.0, 103.0];
        for target in [-1.0, 0.0, 1.0] {
            let mut account = Account::new(&params);
            for pair in closes.windows(2) {
                step(&params, &mut account, Action::target(target), &bar(pair[0]), &bar(pair[1]));
            }
            let (now, next) = (bar(103.0), bar(104.5));
            let mut shown = [0.0; OBSERVED];
            show(&params, &account, &now, [0.25, 3.0], &mut shown);
            let own = account_shown(&params, &now, &shown);
            let mut again = [0.0; OBSERVED];
            show(&params, &own, &now, [0.25, 3.0], &mut again);
            assert!(shown.iter().zip(again).all(|(a, b)| (a - b).abs() < 2e-5), "{shown:?} {again:?}");
            for wanted in [-1.0, 0.0, 1.0] {
                let [mut a, mut b] = [account, own];
                let real = step(&params, &mut a, Action::target(wanted), &now, &next).reward;
                let reward = step(&params, &mut b, Action::target(wanted), &now, &next).reward;
                assert!((real - reward).abs() < 1e-6, "{target} {wanted}: {real} {reward}");
            }
        }
    }
}
