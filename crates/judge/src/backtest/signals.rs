//! From probabilities to positions: calibration, thresholds and rank portfolios.
//!
//! One symbol: long or short at the next open when a probability exceeds a threshold; a signal in the same direction
//! renews the horizon without trading, an opposite one turns the position, otherwise it closes at the horizon; with
//! [`Exit::Label`] also where the label was decided, at its barriers, which every signal of its side renews. Several
//! symbols: those that have a bar are ranked by `p_up - p_down`; the top is bought and, where it can be, the bottom
//! sold, by a [`PortfolioRule`], in tranches of `1/h` of equity that are held for h bars and netted.
//!
//! Whether to trade at all is decided on validation data: a threshold is taken only if its net Sharpe ratio there,
//! pooled over this and earlier folds, exceeds one standard error with at least 30 trades; else the answer is never.

use super::beside::walk_beside;
use super::walk::{Course, walk};
use crate::performance::SharpeRatio;
use account::{Action, Params};
use bars::Bars;
use features::labels::Barriers;
use files::Result;
use market::{Needs, Policy, PriceTable, View};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a fold's probabilities become positions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalRule {
    /// How probabilities are corrected first.
    pub calibration: Calibration,
    /// The probability that a class must exceed; of several symbols any number trades. Null: never.
    pub threshold: Option<f64>,
    /// Bars that a position is held after its last signal.
    pub horizon: usize,
    /// How several symbols become a portfolio.
    #[serde(default)]
    pub portfolio: PortfolioRule,
    /// Where a position of one symbol ends without a signal.
    #[serde(default)]
    pub exit: Exit,
    /// The barriers of one symbol's label; null where it has none.
    #[serde(default)]
    pub barriers: Option<Barriers>,
}

/// Where a position ends that no signal renews or turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// At the horizon.
    #[default]
    Horizon,
    /// At the barriers of its label, or at the horizon.
    Label,
}

impl Exit {
    /// All of them with their names.
    pub const NAMES: &'static [(&'static str, Exit)] = &[("horizon", Exit::Horizon), ("label", Exit::Label)];
}

/// How scores of several symbols become a portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortfolioRule {
    /// Symbols on a side; null: the share of those that have a bar, at least one and at most fifty.
    pub positions: Option<usize>,
    /// Share of the symbols on a side.
    pub share: f64,
    /// Notional of both sides together over equity.
    pub gross: f64,
    /// Most that the long side may have more than the short side, over equity.
    pub net: f64,
    /// How a side is shared out.
    pub weighting: Weighting,
    /// Nothing is sold short.
    pub long_only: bool,
}

impl Default for PortfolioRule {
    fn default() -> PortfolioRule {
        let weighting = Weighting::Equal;
        PortfolioRule { positions: None, share: 0.1, gross: 1.0, net: 1.0, weighting, long_only: false }
    }
}

/// How a side of a portfolio is shared out among its symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weighting {
    /// The same for each.
    Equal,
    /// Inversely to the volatility that was known at the close.
    Volatility,
}

impl Weighting {
    /// All of them with their names.
    pub const NAMES: &'static [(&'static str, Weighting)] =
        &[("equal", Weighting::Equal), ("volatility", Weighting::Volatility)];
}

/// Corrects probabilities that were learned with weighted classes: `p_k ∝ exp(s·ln p_k + b_k)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// s: above 1 sharpens, below 1 flattens.
    pub sharpness: f64,
    /// `[classes]` b.
    pub bias: Vec<f64>,
}

impl Calibration {
    /// Changes nothing.
    pub fn identity(classes: usize) -> Calibration {
        Calibration { sharpness: 1.0, bias: vec![0.0; classes] }
    }

    /// The correction with the least log-loss on `probabilities` `[n, classes]` of `truth` `[n]`, by Newton's method
    /// with a small pull towards changing nothing.
    pub fn fit(probabilities: &[f32], truth: &[u8], classes: usize) -> Calibration {
        let mut fitted = Calibration::identity(classes);
        let n = truth.len();
        if n == 0 || classes < 2 {
            return fitted;
        }
        // The bias of the last class is 0: only differences count.
        let free = classes;
        for _ in 0..20 {
            let (mut gradient, mut hessian) = (vec![0.0; free], vec![0.0; free * free]);
            for (p, truth) in probabilities.chunks_exact(classes).zip(truth) {
                let q = fitted.apply(p);
                let ln: Vec<f64> = p.iter().map(|p| log(*p)).collect();
                let mean: f64 = q.iter().zip(&ln).map(|(q, ln)| q * ln).sum();
                // Derivatives of -ln q[truth] by s and by each bias.
                let of = |k: usize| if k == 0 { mean - ln[usize::from(*truth)] } else { q[k - 1] - hit(truth, k - 1) };
                (0..free).for_each(|k| gradient[k] += of(k));
                for a in 0..free {
                    for b in 0..=a {
                        let second = match (a, b) {
                            (0, 0) => q.iter().zip(&ln).map(|(q, ln)| q * ln * ln).sum::<f64>() - mean * mean,
                            (k, 0) => q[k - 1] * (ln[k - 1] - mean),
                            (a, b) => q[a - 1] * (f64::from(u8::from(a == b)) - q[b - 1]),
                        };
                        hessian[a * free + b] += second;
                    }
                }
            }
            for a in 0..free {
                let now = if a == 0 { fitted.sharpness - 1.0 } else { fitted.bias[a - 1] };
                gradient[a] += PULL * now;
                hessian[a * free + a] += PULL;
                for b in 0..a {
                    hessian[b * free + a] = hessian[a * free + b];
                }
            }
            let Some(step) = solve(&mut hessian, &mut gradient, free) else { break };
            let largest = step.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            let damped = if largest > 1.0 { 1.0 / largest } else { 1.0 };
            fitted.sharpness = (fitted.sharpness - damped * step[0]).clamp(0.05, 5.0);
            (1..free).for_each(|k| fitted.bias[k - 1] -= damped * step[k]);
            if largest < 1e-9 {
                break;
            }
        }
        fitted
    }

    /// `[classes]` probabilities, corrected.
    pub fn apply(&self, p: &[f32]) -> Vec<f64> {
        let logits: Vec<f64> = p.iter().zip(&self.bias).map(|(p, b)| self.sharpness * log(*p) + b).collect();
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let all: Vec<f64> = logits.iter().map(|x| (x - most).exp()).collect();
        let sum: f64 = all.iter().sum();
        all.into_iter().map(|x| x / sum).collect()
    }
}

/// Samples that the pull towards changing nothing counts as.
const PULL: f64 = 1.0;

fn log(p: f32) -> f64 {
    f64::from(p).max(1e-9).ln()
}

fn hit(truth: &u8, class: usize) -> f64 {
    f64::from(u8::from(usize::from(*truth) == class))
}

/// Solves a small symmetric system by elimination with pivots.
fn solve(matrix: &mut [f64], right: &mut [f64], n: usize) -> Option<Vec<f64>> {
    for column in 0..n {
        let pivot = (column..n).max_by(|a, b| matrix[a * n + column].abs().total_cmp(&matrix[b * n + column].abs()))?;
        if matrix[pivot * n + column].abs() < 1e-12 {
            return None;
        }
        (0..n).for_each(|k| matrix.swap(pivot * n + k, column * n + k));
        right.swap(pivot, column);
        for row in column + 1..n {
            let factor = matrix[row * n + column] / matrix[column * n + column];
            (column..n).for_each(|k| matrix[row * n + k] -= factor * matrix[column * n + k]);
            right[row] -= factor * right[column];
        }
    }
    let mut solved = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|k| matrix[row * n + k] * solved[k]).sum();
        solved[row] = (right[row] - known) / matrix[row * n + row];
    }
    Some(solved)
}

/// `[rows]` corrected probabilities of down and up, where there are any.
pub type Beliefs = Vec<Option<[f64; 2]>>;

/// What turns beliefs, of which each fold's threshold was taken away, into positions: one symbol follows those above 0,
/// several are a portfolio. What is not believed in is not traded; what is held runs out at its horizon.
#[derive(Debug, Clone)]
pub struct Follower<'a> {
    /// `[S]`
    pub market: &'a [Bars],
    /// Has the volatility that a portfolio may be weighted by; not needed for one symbol.
    pub table: Option<&'a PriceTable>,
    /// Bars that a position is held after its last signal.
    pub horizon: usize,
    /// How several symbols become a portfolio.
    pub portfolio: PortfolioRule,
    /// `[rows]` how far stop and limit of the one symbol lie from its entry, as a log move; not finite: none. Empty:
    /// positions end at the horizon alone.
    pub barriers: Arc<Vec<f64>>,
}

impl Follower<'_> {
    /// Who follows these beliefs.
    pub fn policy(&self, beliefs: Arc<Beliefs>) -> Box<dyn Policy> {
        if let [_] = self.market {
            return Box::new(self.signals(beliefs, vec![0.0]));
        }
        let table = self.table.filter(|_| self.portfolio.weighting == Weighting::Volatility);
        let sigma = table.map_or_else(Vec::new, |table| table.bars.iter().map(|bar| bar.sigma).collect());
        let (horizon, rule) = (self.horizon, self.portfolio);
        Box::new(Ranks { beliefs, horizon, shortable: self.is_shortable(), rule, sigma })
    }

    fn is_shortable(&self) -> bool {
        self.market.iter().all(|bars| bars.instrument.shortable)
    }

    /// Accounts on one symbol, each with a threshold of its own.
    pub(super) fn signals(&self, beliefs: Arc<Beliefs>, thresholds: Vec<f64>) -> Signals {
        let barriers = self.barriers.clone();
        Signals { beliefs, thresholds, horizon: self.horizon, shortable: self.is_shortable(), barriers }
    }
}

/// Follows beliefs about one symbol; where there is none, the horizon runs on.
pub(super) struct Signals {
    pub(super) beliefs: Arc<Beliefs>,
    /// `[accounts]` what a belief must exceed for each.
    pub(super) thresholds: Vec<f64>,
    pub(super) horizon: usize,
    pub(super) shortable: bool,
    /// `[rows]` or empty, as in [`Follower`].
    pub(super) barriers: Arc<Vec<f64>>,
}

impl Policy for Signals {
    fn needs(&self) -> Needs {
        Needs { memory: 2, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()> {
        for ((row, slot), action) in view.rows.iter().zip(view.slots).zip(actions) {
            let (slot, threshold) = (*slot as usize, self.thresholds[*slot as usize]);
            let signal = match self.beliefs[*row as usize] {
                Some([down, up]) if up > threshold && up >= down => 1.0,
                Some([down, up]) if down > threshold && down > up => -1.0,
                _ => 0.0,
            };
            let [side, left] = &mut memory[2 * slot..][..2] else { continue };
            // What cannot be sold short is closed by a signal to the other side.
            if signal != 0.0 {
                *side = if signal < 0.0 && !self.shortable { 0.0 } else { signal };
                *left = self.horizon.max(1) as f64;
            } else if *left > 0.0 {
                *left -= 1.0;
                if *left == 0.0 {
                    *side = 0.0;
                }
            }
            *action = Action::target(*side);
            let far = self.barriers.get(*row as usize).copied().unwrap_or(f64::NAN);
            if signal * *side > 0.0 && far.is_finite() {
                // At entry · exp(± far), as the label has them.
                let (above, below) = (far.exp_m1(), -(-far).exp_m1());
                (action.stop, action.limit) = if *side > 0.0 { (below, above) } else { (above, below) };
            }
        }
        Ok(())
    }
}

/// Weights of many symbols: ranked at every moment, netted over the last `horizon` of them.
struct Ranks {
    beliefs: Arc<Beliefs>,
    horizon: usize,
    shortable: bool,
    rule: PortfolioRule,
    /// `[rows]` as it was known at the close; empty where weights are equal.
    sigma: Vec<f64>,
}

impl Policy for Ranks {
    /// A symbol's weight, then its share of each tranche that is held, one after the other in a ring.
    fn needs(&self) -> Needs {
        Needs { memory: 1 + self.horizon.max(1), ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()> {
        let score = |(row, slot): (&u32, &u32)| {
            let [down, up] = self.beliefs[*row as usize]?;
            let sigma = self.sigma.get(*row as usize).copied().unwrap_or(0.0);
            Some(Scored { score: up - down, symbol: *slot as usize, sigma })
        };
        let mut scored: Vec<Scored> = view.rows.iter().zip(view.slots).filter_map(score).collect();
        let tranche = if scored.is_empty() { Vec::new() } else { one_tranche(&mut scored, self.shortable, &self.rule) };
        let horizon = self.horizon.max(1);
        let (each, place) = (1 + horizon, 1 + (view.counter % horizon as u64) as usize);
        tranche.iter().for_each(|(symbol, weight)| memory[symbol * each] += weight / horizon as f64);
        // The tranche that stood in this place of the ring has been held for its time.
        for own in memory.chunks_exact_mut(each) {
            own[0] -= own[place];
            own[place] = 0.0;
        }
        tranche.iter().for_each(|(symbol, weight)| memory[symbol * each + place] = weight / horizon as f64);
        for (slot, action) in view.slots.iter().zip(actions) {
            let weight = memory[*slot as usize * each];
            // What rounding leaves of nothing is nothing.
            *action = Action::target(if weight.abs() < 1e-12 { 0.0 } else { weight });
        }
        Ok(())
    }
}

/// A symbol that has a bar and a belief.
struct Scored {
    score: f64,
    symbol: usize,
    /// Deviation of returns per year as it was known at this close; 0 where it was not.
    sigma: f64,
}

/// Most symbols on a side where their number follows from a share.
const MOST_POSITIONS: usize = 50;

/// The best on the long side and the worst on the short side; half of the gross notional a side, or on the long side
/// alone as much as the limits allow.
fn one_tranche(scored: &mut [Scored], shortable: bool, rule: &PortfolioRule) -> Vec<(usize, f64)> {
    // The best first; equals in the order of symbols.
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.symbol.cmp(&b.symbol)));
    let n = scored.len();
    let wanted = rule.positions.unwrap_or(((n as f64 * rule.share) as usize).clamp(1, MOST_POSITIONS));
    let shortable = !rule.long_only && shortable && n > 1;
    let count = wanted.min(if shortable { n / 2 } else { n }).max(1);
    let notional = if shortable { 0.5 * rule.gross } else { rule.gross.min(rule.net) };
    let mut tranche = one_side(&scored[..count], notional, rule.weighting);
    if shortable {
        tranche.extend(one_side(&scored[n - count..], -notional, rule.weighting));
    }
    tranche
}

/// A side's notional, shared out.
fn one_side(side: &[Scored], notional: f64, weighting: Weighting) -> Vec<(usize, f64)> {
    let calm = |one: &Scored| if one.sigma > 0.0 { 1.0 / one.sigma } else { f64::NAN };
    let known: Vec<f64> = side.iter().map(calm).filter(|x| x.is_finite()).collect();
    if weighting == Weighting::Equal || known.is_empty() {
        return side.iter().map(|one| (one.symbol, notional / side.len() as f64)).collect();
    }
    // Who has no volatility yet is taken for an average one.
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let parts: Vec<f64> = side.iter().map(calm).map(|x| if x.is_finite() { x } else { mean }).collect();
    let all: f64 = parts.iter().sum();
    side.iter().zip(parts).map(|(one, part)| (one.symbol, notional * part / all)).collect()
}

/// Thresholds that are tried.
pub(super) const THRESHOLDS: [f64; 14] =
    [0.34, 0.37, 0.40, 0.43, 0.46, 0.49, 0.52, 0.55, 0.58, 0.61, 0.65, 0.70, 0.75, 0.80];

/// Trades that a threshold must have made on validation data.
const LEAST_TRADES: usize = 30;

/// What a threshold gave on one fold's validation: daily returns and round trips.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    pub(super) returns: Vec<f64>,
    pub(super) trades: usize,
}

/// Walks every threshold over a fold's validation time; several symbols have one entry, to trade or not.
///
/// # Errors
///
/// None of a walk of signals; those of a policy.
pub fn try_thresholds(
    course: &Course<'_>,
    params: &[Params],
    beliefs: &Arc<Beliefs>,
    follower: &Follower<'_>,
) -> Result<Vec<Tried>> {
    let [_] = course.market else {
        let walked = walk(course, params, &*follower.policy(beliefs.clone()))?;
        return Ok(vec![Tried { returns: walked.daily_returns().1, trades: walked.trades.len() }]);
    };
    let policy = follower.signals(beliefs.clone(), THRESHOLDS.to_vec());
    let ends = day_ends(course);
    let mut tried = vec![Tried::default(); THRESHOLDS.len()];
    let mut before = vec![params[0].capital; THRESHOLDS.len()];
    let accounts = walk_beside(course, &vec![params[0]; THRESHOLDS.len()], &policy, |step, equity| {
        if ends[step] {
            for ((tried, before), after) in tried.iter_mut().zip(&mut before).zip(equity) {
                let after = after.max(0.0);
                tried.returns.push(if *before > 0.0 { after / *before - 1.0 } else { 0.0 });
                *before = after;
            }
        }
    })?;
    let mut closed = vec![0.0; THRESHOLDS.len()];
    accounts.closed(&mut closed);
    tried.iter_mut().zip(closed).for_each(|(tried, closed)| tried.trades = closed as usize);
    Ok(tried)
}

/// `[steps]` whether a trading day of the one symbol ends with it.
fn day_ends(course: &Course<'_>) -> Vec<bool> {
    let bars = &course.market[0];
    let starts: Vec<i64> = course.rows(0).skip(1).map(|t| bars.start[t]).collect();
    let days = bars.instrument.session.trading_days(&starts);
    // A day that comes again after a later one belongs to that.
    (0..days.len()).map(|at| days.get(at + 1).is_none_or(|next| *next > days[at])).collect()
}

/// The threshold of a fold from what was tried on its validation and on those of earlier folds, `[folds][thresholds]`;
/// `None`: never. Several symbols have one entry, whose threshold is 0.
pub fn choose_threshold(tried: &[Vec<Tried>]) -> Option<f64> {
    let entries = tried.first().map_or(0, Vec::len);
    let mut best: Option<(f64, f64)> = None;
    for at in 0..entries {
        let returns: Vec<f64> = tried.iter().flat_map(|fold| fold[at].returns.iter().copied()).collect();
        let trades: usize = tried.iter().map(|fold| fold[at].trades).sum();
        let Some(sharpe) = SharpeRatio::new(&returns) else { continue };
        if trades < LEAST_TRADES || sharpe.daily <= sharpe.error {
            continue;
        }
        let threshold = if entries == 1 { 0.0 } else { THRESHOLDS[at] };
        if best.is_none_or(|(daily, _)| sharpe.daily > daily) {
            best = Some((sharpe.daily, threshold));
        }
    }
    best.map(|(_, threshold)| threshold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix;

    #[test]
    fn calibration_undoes_weighted_classes() {
        // Truth: 60 % flat. A learner that weighted classes says a third each, tilted by what it knows.
        let mut random = SplitMix::new(5);
        let (mut p, mut truth) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            let tilt = (random.unit() - 0.5) * 2.0;
            let weights = [0.2 * (-tilt).exp(), 0.6, 0.2 * tilt.exp()];
            let sum: f64 = weights.iter().sum();
            let draw = random.unit() * sum;
            truth.push(if draw < weights[0] {
                0
            } else if draw < weights[0] + weights[1] {
                1
            } else {
                2
            });
            // The same tilt with equal priors, and half as sure.
            let said = [(-0.5 * tilt).exp(), 1.0, (0.5 * tilt).exp()];
            let sum: f64 = said.iter().sum();
            p.extend(said.map(|x| (x / sum) as f32));
        }
        let fitted = Calibration::fit(&p, &truth, 3);
        assert!((fitted.sharpness - 2.0).abs() < 0.15, "{fitted:?}");
        // Only differences of biases count, and the last is 0.
        assert!((fitted.bias[1] - (3.0f64).ln()).abs() < 0.1 && fitted.bias[0].abs() < 0.1, "{fitted:?}");
        let q = fitted.apply(&[1.0 / 3.0; 3]);
        assert!((q[1] - 0.6).abs() < 0.02 && (q.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{q:?}");
        assert_eq!(Calibration::identity(3).apply(&[0.5, 0.25, 0.25]).len(), 3);
        assert_eq!(Calibration::fit(&[], &[], 3), Calibration::identity(3));
    }

    #[test]
    fn signals_renew_turn_and_run_out() {
        let (up, down, none) = (Some([0.1, 0.8]), Some([0.8, 0.1]), Some([0.3, 0.3]));
        let follow = |beliefs: &[Option<[f64; 2]>], shortable| -> Vec<f64> {
            let (beliefs, barriers) = (Arc::new(beliefs.to_vec()), Arc::default());
            let policy = Signals { beliefs, thresholds: vec![0.5], horizon: 2, shortable, barriers };
            let (mut memory, mut actions) = (policy.start(1), [Action::target(f64::NAN)]);
            let mut at = |row: usize| {
                let (rows, counter) = ([row as u32], row as u64);
                let view = View { rows: &rows, slots: &[0], observed: &[], legal: &[], counter, seed: None };
                policy.act(&view, &mut memory, &mut actions).unwrap();
                actions[0].target
            };
            (0..policy.beliefs.len()).map(&mut at).collect()
        };
        assert_eq!(follow(&[up, none, none, none], true), [1.0, 1.0, 0.0, 0.0]);
        assert_eq!(follow(&[up, up, none, None, none], true), [1.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(follow(&[up, down, none, none], true), [1.0, -1.0, -1.0, 0.0]);
        assert_eq!(follow(&[up, down, none], false), [1.0, 0.0, 0.0]);
        assert_eq!(follow(&[None, none, up], true), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_portfolio_keeps_its_limits() {
        let tranche = |rule: PortfolioRule| {
            let one = |symbol: usize| Scored { score: -(symbol as f64), symbol, sigma: 0.1 * (1 + symbol % 4) as f64 };
            let mut scored: Vec<Scored> = (0..40).map(one).collect();
            one_tranche(&mut scored, true, &rule)
        };
        let sum = |tranche: &[(usize, f64)], side: f64| -> f64 {
            tranche.iter().filter(|(_, w)| w * side > 0.0).map(|(_, w)| w).sum()
        };
        let usual = tranche(PortfolioRule::default());
        assert_eq!(usual.iter().map(|(symbol, _)| *symbol).collect::<Vec<_>>(), [0, 1, 2, 3, 36, 37, 38, 39]);
        assert!(usual.iter().all(|(_, weight)| weight.abs() == 0.125), "{usual:?}");
        let two = tranche(PortfolioRule { positions: Some(2), gross: 1.5, ..PortfolioRule::default() });
        assert_eq!((two.len(), sum(&two, 1.0), sum(&two, -1.0)), (4, 0.75, -0.75));
        // Long alone: no more than the net limit, and as many as there are.
        let long = PortfolioRule { positions: Some(30), net: 0.6, long_only: true, ..PortfolioRule::default() };
        let long = tranche(long);
        assert!(long.len() == 30 && (sum(&long, 1.0) - 0.6).abs() < 1e-12 && sum(&long, -1.0) == 0.0);
        // The same where nothing can be sold short.
        let mut scored: Vec<Scored> = (0..40).map(|symbol| Scored { score: 0.0, symbol, sigma: 0.1 }).collect();
        let rule = PortfolioRule { positions: Some(30), ..PortfolioRule::default() };
        let unshorted = one_tranche(&mut scored, false, &rule);
        assert!(unshorted.len() == 30 && (sum(&unshorted, 1.0) - 1.0).abs() < 1e-12);
        // Parity: a symbol of four times the volatility has a quarter of the weight.
        let parity = tranche(PortfolioRule { weighting: Weighting::Volatility, ..PortfolioRule::default() });
        assert!((sum(&parity, 1.0) - 0.5).abs() < 1e-12 && (sum(&parity, -1.0) + 0.5).abs() < 1e-12);
        assert!((parity[0].1 / parity[3].1 - 4.0).abs() < 1e-12, "{parity:?}");
    }

    #[test]
    fn nothing_is_traded_without_evidence() {
        let tried = |mean: f64, trades: usize| {
            let mut random = SplitMix::new(trades as u64);
            Tried { returns: (0..100).map(|_| mean + 0.01 * (random.unit() - 0.5)).collect(), trades }
        };
        assert_eq!(choose_threshold(&[vec![tried(-0.001, 100), tried(0.0, 100)]]), None);
        assert_eq!(choose_threshold(&[vec![tried(0.004, 10)]]), None, "too few trades");
        // Trades of earlier folds count.
        assert_eq!(choose_threshold(&[vec![tried(0.004, 20)], vec![tried(0.004, 20)]]), Some(0.0));
        assert_eq!(choose_threshold(&[vec![tried(0.001, 99), tried(0.004, 99), tried(0.002, 99)]]), Some(0.37));
        assert_eq!(choose_threshold(&[]), None);
    }
}
