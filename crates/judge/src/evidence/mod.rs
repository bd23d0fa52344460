//! Is it real? One verdict from everything that is known of a result (docs/method.md, Verdict).
//!
//! [`Evidence::weigh`] looks at the figures one after the other and says which criteria are met, which failed and which
//! could not be judged. "No evidence" is a normal answer. What is too good is suspicious first, whatever else is met.

pub mod limits;

use crate::Judged;
use crate::backtest::{Backtest, ChanceTest};
use crate::deflated::DeflatedSharpe;
use crate::judged::DAYS;
use crate::overfitting::Overfitting;
use files::{format_fixed, format_list, format_plural};
use serde::{Deserialize, Serialize};

/// Everything that is known of a result, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What follows.
    pub verdict: Verdict,
    /// One sentence: the verdict with its criterion and value.
    pub sentence: String,
    /// What to do next, as a command or in words.
    pub next: String,
    /// Each criterion of the claim rule.
    pub criteria: Vec<Criterion>,
    /// What is too good to be true, each with where to look.
    pub suspicions: Vec<String>,
    /// What is worth knowing and no suspicion.
    pub remarks: Vec<String>,
    /// What was found, as it went into the verdict.
    pub findings: Findings,
}

/// What a verdict is made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Why there is too little data for any verdict: folds, days, blocks. Null where there is enough.
    pub too_little: Option<String>,
    /// Correlation where truth and guess both have a direction, and how likely it is by chance.
    pub direction_mcc: Option<f64>,
    /// See `direction_mcc`.
    pub direction_p: Option<f64>,
    /// Trading days of the backtest.
    pub days: usize,
    /// Yearly net Sharpe ratio and its standard error; null where nothing was traded.
    pub sharpe_annual: Option<f64>,
    /// Its standard error.
    pub sharpe_annual_error: Option<f64>,
    /// Yearly Sharpe ratio of buying and holding, at cost.
    pub hold_sharpe_annual: Option<f64>,
    /// Days after which a ratio like this is above 0 at 95 %, one trial taken for granted.
    pub minimum_track_days: Option<u64>,
    /// Yearly net Sharpe ratio with one bar of delay.
    pub delayed_sharpe_annual: Option<f64>,
    /// Bars that a decision looks ahead.
    pub horizon: usize,
    /// Share of round trips that won, and their number.
    pub hit_rate: Option<f64>,
    /// Round trips.
    pub trades: usize,
    /// Symbols that were traded, and the one that earned most with its share of all profits.
    pub symbols: usize,
    /// See `symbols`.
    pub best_symbol: Option<(String, f64)>,
    /// The column that direction rests on most, and the share of its correlation that is gone where that is shuffled;
    /// null where it rests on none, or too few columns are known.
    pub best_column: Option<(String, f64)>,
    /// Trials on these data, this one counted.
    pub trials: usize,
    /// The Sharpe ratio when they are counted; null where there is none.
    pub deflated: Option<DeflatedSharpe>,
    /// How much of it is choice; null where it does not apply.
    pub overfitting: Option<Overfitting>,
    /// What chance earns; null where `chance_missing` says why.
    pub chance: Option<ChanceTest>,
    /// Why it was not judged.
    pub chance_missing: Option<String>,
    /// Seeds of the run, each traded alone.
    pub seeds: Option<SeedSpread>,
    /// The holdout, if it was opened.
    pub holdout: Option<HoldoutResult>,
    /// Log-loss, and that of the prior: the class shares of the training.
    pub log_loss: Option<(f64, f64)>,
}

/// How single seeds fare: never the best one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeedSpread {
    /// How many.
    pub seeds: usize,
    /// What was measured of each: `net Sharpe ratio per year`.
    pub what: String,
    /// The mean of the middle half.
    pub interquartile_mean: f64,
    /// 95 % interval of it over seeds drawn anew.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// `[seeds]`
    pub values: Vec<f64>,
}

/// What the locked part gave when it was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldoutResult {
    /// Yearly net Sharpe ratio; null where nothing was traded.
    pub sharpe_annual: Option<f64>,
    /// The same at twice the costs.
    pub sharpe_annual_twice: Option<f64>,
    /// Trading days.
    pub days: usize,
    /// Round trips.
    pub trades: usize,
    /// The how-manieth opening of these data it was: from 2 on it is no holdout any more.
    pub opening: usize,
}

/// One criterion of the claim rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// In words.
    pub name: String,
    /// What was found, in words.
    pub found: String,
    /// What is asked for.
    pub needed: String,
    /// Whether it is met; null where it could not be judged.
    pub met: Option<bool>,
    /// Whether it counts: what does not apply is not missing.
    pub applies: bool,
    /// What would settle it, where it could not be judged.
    pub remedy: String,
}

/// One of five.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every criterion is met.
    Evidence,
    /// Nothing failed, something is missing.
    Promising,
    /// It earns, and the track record is too short to tell.
    NotEnoughData,
    /// A criterion failed.
    NoEvidence,
    /// Too good to be true.
    Suspicious,
}

impl Verdict {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Evidence => "evidence",
            Verdict::Promising => "promising",
            Verdict::NotEnoughData => "not enough data",
            Verdict::NoEvidence => "no evidence",
            Verdict::Suspicious => "suspicious",
        }
    }
}

impl Findings {
    /// What a backtest and a classifier's record have to say; the rest is for the caller to fill in.
    pub fn new(backtest: Option<&Backtest>, judged: Option<&Judged>, horizon: usize) -> Findings {
        let mut found = Findings { horizon, ..Findings::default() };
        if let Some(judged) = judged {
            found.too_little.clone_from(&judged.no_interval);
            (found.direction_mcc, found.direction_p) = (judged.directional_mcc, judged.directional_p);
            found.log_loss = judged.prior_log_loss.map(|prior| (judged.log_loss, prior));
        }
        if let Some(backtest) = backtest {
            let net = &backtest.net;
            found.days = net.days;
            found.sharpe_annual = net.sharpe_annual.or(net.sharpe_annual_uncorrected);
            found.sharpe_annual_error = net.sharpe_annual_error;
            found.hold_sharpe_annual = backtest.hold_sharpe_annual;
            found.minimum_track_days = net.minimum_track_days;
            found.delayed_sharpe_annual = backtest.delayed.sharpe_annual;
            (found.hit_rate, found.trades) = (net.round_trips.hit_rate, net.round_trips.count);
            found.symbols = backtest.symbols.len();
            let profits: f64 = backtest.symbols.iter().map(|part| part.total_return.max(0.0)).sum();
            let best = backtest.symbols.first().filter(|best| best.total_return > 0.0);
            found.best_symbol = best.map(|best| (best.name.clone(), best.total_return / profits));
        }
        found
    }

    /// Says that there is too little of a record without a classifier's judgement where it has fewer days than that
    /// takes.
    pub fn expect_days(&mut self) {
        if self.days < DAYS && self.too_little.is_none() {
            self.too_little = Some(format!("{} ({DAYS} are needed)", format_plural(self.days as u64, "test day")));
        }
    }

    /// Takes in what directional MCC falls by where a column is shuffled, column by column.
    pub fn count_columns(&mut self, columns: &[(String, f64)]) {
        let whole = self.direction_mcc.filter(|mcc| *mcc > 0.0 && columns.len() >= limits::SUSPICIOUS_COLUMNS);
        let most = columns.iter().filter(|column| column.1 > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        self.best_column = whole.zip(most).map(|(whole, (name, lost))| (name.clone(), (lost / whole).clamp(0.0, 1.0)));
    }

    /// The verdict; `name` is how a command names the run.
    pub fn weigh(self, name: &str) -> Evidence {
        let criteria = self.criteria(name);
        let (suspicions, remarks) = self.suspicions();
        let failed: Vec<&Criterion> = criteria.iter().filter(|c| c.met == Some(false)).collect();
        let missing: Vec<&Criterion> = criteria.iter().filter(|c| c.applies && c.met.is_none()).collect();
        let words = |of: &[&Criterion]| {
            format_list(&of.iter().map(|c| format!("{} {}", c.name, c.found)).collect::<Vec<_>>(), "and")
        };
        let short = self.minimum_track_days.is_some_and(|needed| needed > self.days as u64);
        let (verdict, sentence, next) = if !suspicions.is_empty() {
            (
                Verdict::Suspicious,
                format!("suspicious: {}", suspicions[0]),
                "`fullbore check lookahead` on the data, and look where it says".to_string(),
            )
        } else if let Some(why) = &self.too_little {
            (
                Verdict::NotEnoughData,
                format!("not enough data: {why}"),
                "more history, shorter bars or a shorter label horizon".into(),
            )
        } else if self.sharpe_annual.is_none() {
            (
                Verdict::NoEvidence,
                "no evidence: nothing was traded, because nothing earned more than its standard error on validation \
                 data"
                    .into(),
                "other features, labels or symbols; each is a trial and counts".into(),
            )
        } else if self.sharpe_annual.is_some_and(|sharpe| sharpe <= 0.0) {
            (
                Verdict::NoEvidence,
                format!("no evidence: the net Sharpe ratio is {}", number(self.sharpe_annual)),
                "other features, labels or symbols; each is a trial and counts".into(),
            )
        } else if short {
            let needed = self.minimum_track_days.unwrap_or(0);
            (
                Verdict::NotEnoughData,
                format!(
                    "not enough data: a net Sharpe ratio of {} takes {} to tell from 0, and there are {}",
                    number(self.sharpe_annual),
                    format_plural(needed, "trading day"),
                    files::format_count(self.days as u64)
                ),
                "a longer history, or wait: the number of trials goes on counting".into(),
            )
        } else if !failed.is_empty() {
            (
                Verdict::NoEvidence,
                format!("no evidence (failed: {})", words(&failed)),
                "other features, labels or symbols; each is a trial and counts".into(),
            )
        } else if let Some(first) = missing.first() {
            let names = format_list(&missing.iter().map(|c| c.name.clone()).collect::<Vec<_>>(), "and");
            (Verdict::Promising, format!("promising (missing: {names})"), first.remedy.clone())
        } else {
            let refit = format!("`fullbore refit {name}` trains the model to trade");
            (Verdict::Evidence, "evidence: every criterion is met".into(), refit)
        };
        Evidence { verdict, sentence, next, criteria, suspicions, remarks, findings: self }
    }

    fn criteria(&self, name: &str) -> Vec<Criterion> {
        let deflated = self.deflated.as_ref();
        let trials = format_plural(self.trials as u64, "trial");
        let holdout = self.holdout.as_ref().filter(|held| held.opening < 2);
        let twice = holdout.map(|held| held.sharpe_annual_twice.is_some_and(|sharpe| sharpe > 0.0));
        let opened_again = self.holdout.as_ref().is_some_and(|held| held.opening > 1);
        let seeds = self.seeds.as_ref().filter(|spread| spread.seeds >= limits::SEEDS);
        // One seed has no spread.
        let seed_count = self.seeds.as_ref().map_or(1, |spread| spread.seeds);
        vec![
            Criterion {
                name: "deflated Sharpe ratio".into(),
                found: deflated.map_or("not known".into(), |d| format!("{:.3} ({trials})", d.probability)),
                needed: format!("at least {}", limits::DEFLATED),
                met: deflated.map(|d| d.probability >= limits::DEFLATED),
                applies: true,
                remedy: "a backtest with returns that vary".into(),
            },
            Criterion {
                name: "test against chance".into(),
                found: match (&self.chance, &self.chance_missing) {
                    (Some(chance), _) => format!("p {:.4}", chance.p),
                    (None, Some(why)) => format!("not judged: {why}"),
                    (None, None) => "not judged".into(),
                },
                needed: format!("p at most {}", limits::CHANCE),
                met: self.chance.as_ref().map(|chance| chance.p <= limits::CHANCE),
                applies: true,
                remedy: "a longer history".into(),
            },
            Criterion {
                name: "probability of overfitting".into(),
                found: match &self.overfitting {
                    Some(found) => format!("{:.2} over {}", found.probability, configs(found.configs)),
                    None => format!("not applicable below {}", configs(crate::overfitting::LEAST_CONFIGS)),
                },
                needed: format!("at most {}", limits::OVERFITTING),
                met: self.overfitting.as_ref().map(|found| found.probability <= limits::OVERFITTING),
                applies: self.overfitting.is_some(),
                remedy: String::new(),
            },
            Criterion {
                name: format!("{} seeds", limits::SEEDS),
                found: match seeds {
                    Some(s) => {
                        format!("interquartile mean {:.2} (95 %: {:.2} to {:.2})", s.interquartile_mean, s.low, s.high)
                    }
                    None => format!("{seed_count} of {}", limits::SEEDS),
                },
                needed: "an interval above 0".into(),
                met: seeds.map(|spread| spread.low > 0.0),
                applies: true,
                remedy: format!("the same training with {} seeds", limits::SEEDS),
            },
            Criterion {
                name: "holdout".into(),
                found: match &self.holdout {
                    Some(held) if opened_again => format!("opened {} times: no holdout any more", held.opening),
                    Some(held) => format!("net Sharpe ratio {} at twice the costs", number(held.sharpe_annual_twice)),
                    None => "not opened".into(),
                },
                needed: "above 0 at twice the costs".into(),
                met: twice,
                applies: true,
                remedy: match opened_again {
                    true => "data that nobody has looked at: wait, and hold them out".into(),
                    false => format!("`fullbore holdout {name}`, once"),
                },
            },
        ]
    }

    /// What is too good, and what is only fragile.
    fn suspicions(&self) -> (Vec<String>, Vec<String>) {
        let (mut suspicions, mut remarks) = (Vec::new(), Vec::new());
        let direction = self.direction_mcc.filter(|_| self.direction_p.is_some_and(|p| p <= limits::SIGNIFICANCE));
        if let Some(mcc) = direction.filter(|mcc| *mcc > limits::SUSPICIOUS_DIRECTION) {
            suspicions.push(format!(
                "direction is told with an MCC of {mcc:.3}, and honest data hardly ever give more than {}; look at each \
                 column with `fullbore check lookahead`",
                limits::SUSPICIOUS_DIRECTION
            ));
        }
        if let Some(sharpe) = self
            .sharpe_annual
            .filter(|sharpe| *sharpe > limits::SUSPICIOUS_SHARPE && self.days >= limits::SUSPICIOUS_SHARPE_DAYS)
        {
            suspicions.push(format!(
                "a net Sharpe ratio of {sharpe:.2} over {} is above {}; look at costs, at fills and for a column that \
                 knows the future",
                format_plural(self.days as u64, "day"),
                limits::SUSPICIOUS_SHARPE
            ));
        }
        if let Some(rate) =
            self.hit_rate.filter(|rate| *rate > limits::SUSPICIOUS_HIT_RATE && self.trades >= limits::SUSPICIOUS_TRADES)
        {
            suspicions.push(format!(
                "{:.0} % of {} won, more than {:.0} %; look at how stops and limits fill",
                100.0 * rate,
                format_plural(self.trades as u64, "trade"),
                100.0 * limits::SUSPICIOUS_HIT_RATE
            ));
        }
        if let (Some(mcc), Some((column, share))) = (direction, &self.best_column)
            && mcc > limits::SUSPICIOUS_COLUMN_DIRECTION
            && *share >= limits::SUSPICIOUS_COLUMN_SHARE
        {
            suspicions.push(format!(
                "the column `{column}` alone carries it: where it is shuffled, {:.0} % of the direction's MCC of \
                 {mcc:.3} is gone; look first at what it knows, and when",
                100.0 * share
            ));
        }
        let earns = self.sharpe_annual.is_some_and(|sharpe| sharpe > 0.0);
        if let Some((symbol, share)) = &self.best_symbol
            && earns
            && self.symbols >= limits::SUSPICIOUS_SYMBOLS
            && *share > limits::SUSPICIOUS_SYMBOL_SHARE
        {
            suspicions.push(format!(
                "{symbol} alone earned {:.0} % of what {} earned; look at its data first",
                100.0 * share,
                format_plural(self.symbols as u64, "symbol")
            ));
        }
        if let (Some(now), Some(late)) = (self.sharpe_annual, self.delayed_sharpe_annual)
            && now > limits::DELAY_SHARPE
            && late < now / 2.0
        {
            let sentence = format!(
                "one bar later the Sharpe ratio is {} instead of {} at a horizon of {}",
                number(Some(late)),
                number(Some(now)),
                format_plural(self.horizon as u64, "bar")
            );
            match self.horizon >= limits::DELAY_HORIZON {
                true => suspicions.push(format!("{sentence}; look for a column that knows the next bar")),
                false => remarks.push(format!("fragile: {sentence}")),
            }
        }
        if let (Some(now), Some(hold)) = (self.sharpe_annual, self.hold_sharpe_annual)
            && earns
            && hold > now
        {
            remarks.push(format!(
                "buying and holding did better over the same time: Sharpe ratio {} against {}",
                number(Some(hold)),
                number(Some(now))
            ));
        }
        if let Some((own, prior)) = self.log_loss.filter(|(own, prior)| own > prior) {
            remarks.push(format!(
                "its probabilities are worse than the class shares of the training (log-loss {own:.4}, the prior \
                 {prior:.4}): only their order may tell something"
            ));
        }
        (suspicions, remarks)
    }
}

fn configs(count: usize) -> String {
    format_plural(count as u64, "config")
}

fn number(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format_fixed(x, 2))
}

/// The mean of the middle half of the values, and its 95 % interval over values drawn anew; `None` of none.
pub fn seed_spread(what: &str, values: &[f64], seed: u64) -> Option<SeedSpread> {
    use crate::measure::{Bootstrap, bootstrap};
    let mean = |chosen: &[usize]| {
        let mut own: Vec<f64> = chosen.iter().map(|at| values[*at]).collect();
        own.sort_by(f64::total_cmp);
        interquartile_mean(&own)
    };
    let spec = Bootstrap { seed, ..Bootstrap::default() };
    let found = bootstrap(values.len(), &spec, mean).ok()?;
    Some(SeedSpread {
        seeds: values.len(),
        what: what.into(),
        interquartile_mean: found.point,
        low: found.low,
        high: found.high,
        values: values.to_vec(),
    })
}

/// Of sorted values: a quarter is left out at each end, the values at its borders in part.
fn interquartile_mean(sorted: &[f64]) -> f64 {
    let n = sorted.len() as f64;
    let (from, to) = (n / 4.0, 3.0 * n / 4.0);
    let (mut sum, mut weight) = (0.0, 0.0);
    for (at, value) in sorted.iter().enumerate() {
        let inside = ((at as f64 + 1.0).min(to) - (at as f64).max(from)).max(0.0);
        sum += inside * value;
        weight += inside;
    }
    sum / weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Findings {
        Findings {
            direction_mcc: Some(0.05),
            direction_p: Some(0.001),
            days: 900,
            sharpe_annual: Some(1.8),
            sharpe_annual_error: Some(0.5),
            minimum_track_days: Some(300),
            delayed_sharpe_annual: Some(1.5),
            horizon: 12,
            hit_rate: Some(0.54),
            trades: 700,
            trials: 3,
            deflated: Some(DeflatedSharpe {
                trials: 3,
                effective_trials: 3,
                sharpe_variance: Some(0.001),
                chance_sharpe_daily: 0.02,
                probability: 0.97,
                chance_sharpe_daily_all: 0.02,
                probability_all: 0.97,
            }),
            chance: Some(ChanceTest {
                how: "shifts".into(),
                draws: 1000,
                sharpe_daily: 0.11,
                mean: 0.0,
                high: 0.05,
                p: 0.001,
            }),
            seeds: seed_spread("net", &[1.0, 1.2, 1.5, 1.1, 1.4, 1.3, 1.2, 1.6, 0.9, 1.2], 1),
            holdout: Some(HoldoutResult {
                sharpe_annual: Some(1.1),
                sharpe_annual_twice: Some(0.8),
                days: 250,
                trades: 200,
                opening: 1,
            }),
            ..Findings::default()
        }
    }

    #[test]
    fn each_verdict_names_its_criterion() {
        let weigh = |change: &dyn Fn(&mut Findings)| {
            let mut found = good();
            change(&mut found);
            found.weigh("gold")
        };
        assert_eq!(weigh(&|_| {}).verdict, Verdict::Evidence);
        let missing = weigh(&|f| f.holdout = None);
        assert_eq!((missing.verdict, missing.sentence.as_str()), (Verdict::Promising, "promising (missing: holdout)"));
        assert!(missing.next.contains("fullbore holdout gold"), "{}", missing.next);
        let again = weigh(&|f| f.holdout.as_mut().unwrap().opening = 2);
        assert!(again.verdict == Verdict::Promising && !again.next.contains("fullbore holdout"), "{again:?}");
        let failed = weigh(&|f| f.chance.as_mut().unwrap().p = 0.2);
        assert!(failed.verdict == Verdict::NoEvidence && failed.sentence.contains("test against chance p 0.2000"));
        let deflated = weigh(&|f| f.deflated.as_mut().unwrap().probability = 0.6);
        assert!(deflated.sentence.contains("deflated Sharpe ratio 0.600 (3 trials)"), "{}", deflated.sentence);
        let short = weigh(&|f| f.minimum_track_days = Some(5000));
        assert!(short.verdict == Verdict::NotEnoughData && short.sentence.contains("5,000 trading days"));
        let days = |days: usize| {
            weigh(&|f| {
                f.days = days;
                f.expect_days();
            })
        };
        assert_eq!(days(32).sentence, "not enough data: 32 test days (60 are needed)");
        assert!(!days(60).sentence.contains("are needed"), "{}", days(60).sentence);
        let few = weigh(&|f| f.too_little = Some("3 folds (5 are needed)".into()));
        assert_eq!(few.sentence, "not enough data: 3 folds (5 are needed)");
        let loses = weigh(&|f| f.sharpe_annual = Some(-0.3));
        assert!(loses.verdict == Verdict::NoEvidence && loses.sentence.contains("-0.30"), "{}", loses.sentence);
        let never = weigh(&|f| f.sharpe_annual = None);
        assert!(never.verdict == Verdict::NoEvidence && never.sentence.contains("nothing was traded"));
        let seeds = weigh(&|f| f.seeds = seed_spread("net", &[1.0, 2.0], 1));
        assert!(seeds.sentence.contains("10 seeds") && seeds.next.contains("with 10 seeds"), "{seeds:?}");
        let hold = |sharpe| weigh(&|f| f.hold_sharpe_annual = Some(sharpe)).remarks.join(" ");
        assert!(hold(9.0).contains("did better over the same time: Sharpe ratio 9.00") && hold(0.1).is_empty());
        let one = weigh(&|f| f.seeds = None);
        assert!(one.criteria.iter().any(|c| c.name == "10 seeds" && c.found == "1 of 10"), "{one:?}");
        let lost = weigh(&|f| f.holdout.as_mut().unwrap().sharpe_annual_twice = Some(-0.1));
        assert!(lost.verdict == Verdict::NoEvidence && lost.sentence.contains("holdout"), "{}", lost.sentence);
    }

    #[test]
    fn what_is_too_good_is_suspicious_and_says_where_to_look() {
        let said = |change: &dyn Fn(&mut Findings)| {
            let mut found = good();
            change(&mut found);
            let evidence = found.weigh("gold");
            (evidence.verdict, evidence.suspicions.join(" "), evidence.remarks.join(" "))
        };
        let suspicious = |change: &dyn Fn(&mut Findings), word: &str| {
            let (verdict, text, _) = said(change);
            assert!(verdict == Verdict::Suspicious && text.contains(word), "{word}: {text}");
        };
        suspicious(&|f| f.direction_mcc = Some(0.36), "MCC of 0.360");
        suspicious(&|f| f.sharpe_annual = Some(6.0), "6.00 over 900 days");
        suspicious(&|f| (f.hit_rate, f.trades) = (Some(0.8), 200), "80 % of 200 trades");
        suspicious(&|f| (f.symbols, f.best_symbol) = (12, Some(("AAVE".into(), 0.9))), "AAVE alone earned 90 %");
        suspicious(&|f| f.delayed_sharpe_annual = Some(0.3), "one bar later");
        let column = |name: &str, share: f64| Some((name.to_string(), share));
        suspicious(
            &|f| (f.direction_mcc, f.best_column) = (Some(0.15), column("high", 0.9)),
            "`high` alone carries it",
        );
        // Below a limit nothing is said, and a short horizon is only fragile.
        assert_eq!(said(&|f| (f.hit_rate, f.trades) = (Some(0.8), 199)).0, Verdict::Evidence);
        assert!(!said(&|f| (f.sharpe_annual, f.days) = (Some(6.0), 249)).1.contains("249 days"));
        let (verdict, _, remarks) = said(&|f| (f.delayed_sharpe_annual, f.horizon) = (Some(0.3), 3));
        assert!(verdict == Verdict::Evidence && remarks.contains("fragile"), "{remarks}");
        assert_eq!(said(&|f| (f.symbols, f.best_symbol) = (9, Some(("AAVE".into(), 0.9)))).0, Verdict::Evidence);
        assert_eq!(
            said(&|f| (f.direction_mcc, f.best_column) = (Some(0.09), column("high", 0.9))).0,
            Verdict::Evidence
        );
        assert_eq!(
            said(&|f| (f.direction_mcc, f.best_column) = (Some(0.15), column("high", 0.7))).0,
            Verdict::Evidence
        );
        assert!(said(&|f| f.log_loss = Some((0.947, 0.752))).2.contains("worse than the class shares"));
    }

    #[test]
    fn the_column_that_direction_rests_on_is_named() {
        let lost = |values: &[f64]| -> Option<(String, f64)> {
            let names = ["a", "b", "c", "d", "e"].map(String::from);
            let mut found = Findings { direction_mcc: Some(0.25), ..Findings::default() };
            found.count_columns(&names.into_iter().zip(values.iter().copied()).collect::<Vec<_>>());
            found.best_column
        };
        assert_eq!(lost(&[0.01, 0.125, -0.02, 0.0]), Some(("b".into(), 0.5)));
        assert_eq!(lost(&[0.01, -0.2, -0.02, 0.3, 0.1]), Some(("d".into(), 1.0)), "no more than all of it");
        assert_eq!(lost(&[0.0, -0.15, 0.0, 0.0]), None, "it rests on none");
        assert_eq!(lost(&[0.01, 0.15, 0.0]), None, "of three columns one may well carry it");
    }

    #[test]
    fn the_middle_half_counts() {
        assert_eq!(interquartile_mean(&[1.0]), 1.0);
        assert_eq!(interquartile_mean(&[-100.0, 1.0, 3.0, 100.0]), 2.0);
        // Of six values one and a half are left out at each end.
        assert!((interquartile_mean(&[0.0, 1.0, 2.0, 3.0, 4.0, 50.0]) - 2.5).abs() < 1e-12);
        let spread = seed_spread("x", &[1.0, 2.0, 3.0, 4.0, 5.0], 1).unwrap();
        assert!(spread.low < 3.0 && spread.high > 3.0 && spread.interquartile_mean == 3.0, "{spread:?}");
        assert_eq!(seed_spread("x", &[], 1), None);
    }
}
