//! What falls due to a position by the calendar: overnight financing, borrowing, funding and dividends.
//!
//! A moment that lies at a bar's open, or between it and the bar before, is the position's before the fill; a moment
//! inside a bar is the position's after it.

use bars::{Bars, Class};
use std::collections::BTreeMap;

const DAY: i64 = 86_400_000_000_000;
const HOUR: i64 = 3_600_000_000_000;
const MINUTE: i64 = 60_000_000_000;
const YEAR_DAYS: f64 = 365.0;

/// Flows of a symbol, `[n]` each, in the units of [`account::Bar`].
pub(crate) struct Flows {
    pub(crate) swap_open: Vec<f64>,
    pub(crate) swap_inside: Vec<f64>,
    pub(crate) borrow_open: Vec<f64>,
    pub(crate) funding_open: Vec<f64>,
    pub(crate) funding_inside: Vec<f64>,
    pub(crate) dividend: Vec<f64>,
    /// Funding rates are missing, and 1 bp per 8 hours stands for them.
    pub(crate) assumed_funding: bool,
    /// Dividends that were found.
    pub(crate) dividends: usize,
}

/// Funding rates of perpetual swaps: by symbol, the moment, the rate, and the mark price where it is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Funding {
    rates: BTreeMap<String, Vec<(i64, f64, Option<f64>)>>,
}

impl Funding {
    /// Adds a rate; stamps are rounded to the minute, since venues write them some milliseconds late.
    pub fn add(&mut self, symbol: &str, time: i64, rate: f64, mark: Option<f64>) {
        let minute = (time + MINUTE / 2).div_euclid(MINUTE) * MINUTE;
        let mark = mark.filter(|mark| mark.is_finite() && *mark > 0.0);
        self.rates.entry(symbol.to_ascii_uppercase()).or_default().push((minute, rate, mark));
    }

    /// Puts rates into the order of time; a moment that came twice keeps its last rate.
    pub fn sort(&mut self) {
        for rates in self.rates.values_mut() {
            rates.sort_by_key(|(time, ..)| *time);
            rates.reverse();
            rates.dedup_by_key(|(time, ..)| *time);
            rates.reverse();
        }
    }

    /// Whether there is a rate for a symbol.
    pub fn contains(&self, symbol: &str) -> bool {
        self.rates.contains_key(&symbol.to_ascii_uppercase())
    }
}

impl Flows {
    pub(crate) fn new(bars: &Bars, funding: Option<&Funding>, total_return: bool) -> Flows {
        let n = bars.len();
        let mut flows = Flows {
            swap_open: vec![0.0; n],
            swap_inside: vec![0.0; n],
            borrow_open: vec![0.0; n],
            funding_open: vec![0.0; n],
            funding_inside: vec![0.0; n],
            dividend: vec![0.0; n],
            assumed_funding: false,
            dividends: 0,
        };
        let class = bars.instrument.class;
        if bars.instrument.costs.funding {
            flows.add_funding(bars, funding);
        } else if !matches!(class, Class::Equity | Class::CryptoSpot | Class::CryptoPerp | Class::Future)
            || bars.instrument.costs.swap_long_bp_per_year != 0.0
            || bars.instrument.costs.swap_short_bp_per_year != 0.0
        {
            flows.add_nights(bars);
        }
        // Borrowing is by the calendar day: a weekend counts three.
        let days = bars.instrument.session.trading_days(&bars.start);
        for t in 1..n {
            flows.borrow_open[t] = f64::from((days[t] - days[t - 1]).max(0)) / YEAR_DAYS;
        }
        if !total_return {
            flows.add_dividends(bars);
        }
        flows
    }

    /// Nights of financing at each turn of the trading day. A week has seven: currencies and metals settle after two
    /// days, so that Wednesday counts three; other contracts count the weekend on Friday.
    fn add_nights(&mut self, bars: &Bars) {
        let triple = if matches!(bars.instrument.class, Class::Fx | Class::Metal) { 2 } else { 4 };
        let turns = Turns::new(bars);
        for t in 0..bars.len() {
            let (open, inside) = turns.around(t);
            let nights = |days: &[i64]| -> f64 {
                let count = |day: &i64| match (day + 3).rem_euclid(7) {
                    weekday if weekday == triple => 3.0,
                    0..=4 => 1.0,
                    _ => 0.0,
                };
                days.iter().map(count).sum::<f64>() / YEAR_DAYS
            };
            self.swap_open[t] = nights(&open);
            self.swap_inside[t] = nights(&inside);
        }
    }

    fn add_funding(&mut self, bars: &Bars, funding: Option<&Funding>) {
        let rates = funding.and_then(|f| f.rates.get(&bars.symbol.to_ascii_uppercase()));
        let column = bars.extras.iter().find(|(name, _)| {
            ["fundingrate", "funding"].contains(&name.to_ascii_lowercase().replace(['_', ' '], "").as_str())
        });
        let n = bars.len();
        let place = |time: i64| -> Option<(usize, bool)> {
            // The bar that is open at that moment, or the next one; none before the first and behind the last.
            let t = bars.end.partition_point(|end| *end <= time);
            (t < n && (t > 0 || time >= bars.start[0])).then(|| (t, time > bars.start[t]))
        };
        match (rates, column) {
            (Some(rates), _) => {
                for (time, rate, mark) in rates {
                    if let Some((t, inside)) = place(*time) {
                        let paid = mark.unwrap_or(bars.open[t]) * rate;
                        if inside { self.funding_inside[t] += paid } else { self.funding_open[t] += paid }
                    }
                }
            }
            // A column says the rate of the hour; it is due where eight hours begin.
            (None, Some((_, rates))) => {
                for (t, rate) in rates.iter().enumerate().skip(1) {
                    if bars.start[t].rem_euclid(8 * HOUR) == 0 && rate.is_finite() {
                        self.funding_open[t] = bars.open[t] * rate;
                    }
                }
            }
            (None, None) => {
                self.assumed_funding = true;
                let (first, last) = (bars.start.first().copied().unwrap_or(0), bars.end.last().copied().unwrap_or(0));
                let mut time = first.div_euclid(8 * HOUR) * 8 * HOUR + 8 * HOUR;
                while time < last {
                    if let Some((t, inside)) = place(time) {
                        let paid = 1.0 / (3.0 * YEAR_DAYS);
                        if inside { self.swap_inside[t] += paid } else { self.swap_open[t] += paid }
                    }
                    time += 8 * HOUR;
                }
            }
        }
    }

    /// Dividends from an adjusted close that travels along: what it falls by more than the close.
    fn add_dividends(&mut self, bars: &Bars) {
        let is_adjusted = |name: &str| {
            let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            ["adjclose", "adjustedclose", "closeadj", "closeadjusted"].contains(&plain.to_ascii_lowercase().as_str())
        };
        let Some((_, adjusted)) = bars.extras.iter().find(|(name, _)| is_adjusted(name)) else { return };
        let ratio: Vec<f64> = adjusted.iter().zip(&bars.close).map(|(a, c)| a / c).collect();
        let step = |t: usize| 1.0 - ratio[t - 1] / ratio[t];
        // Rounded files move a little every day.
        let mut noise: Vec<f64> = (1..bars.len()).map(|t| step(t).abs()).filter(|x| x.is_finite()).collect();
        noise.sort_by(f64::total_cmp);
        let least = (10.0 * noise.get(noise.len() / 2).copied().unwrap_or(0.0)).max(1e-4);
        for t in 1..bars.len() {
            let share = step(t);
            // A larger step is a split or a bad file; segments end there.
            if share > least && share < 0.3 && !bars.segments.contains(&t) {
                self.dividend[t] = share * bars.close[t - 1];
                self.dividends += 1;
            }
        }
    }
}

/// The turns of the trading day between moments, as the days that end at them.
struct Turns<'a> {
    bars: &'a Bars,
    known: Vec<(i64, i64)>, // moment, day that ends
}

impl<'a> Turns<'a> {
    fn new(bars: &'a Bars) -> Turns<'a> {
        let session = &bars.instrument.session;
        let mut known = Vec::new();
        if let (Some(first), Some(last)) = (bars.start.first(), bars.end.last()) {
            // The turn is where the calendar day of the rollover's clock changes; found to the hour, then the minute.
            let mut at = first - 4 * DAY;
            let plain = bars::Session { days: bars::Weekdays::ALL, ..session.clone() };
            let mut day = plain.trading_day(at);
            while at < *last + DAY {
                let next = at + DAY;
                let then = plain.trading_day(next);
                if then != day {
                    let (mut low, mut high) = (at, next);
                    while high - low > MINUTE {
                        let middle = low + (high - low) / 2 / MINUTE * MINUTE;
                        if plain.trading_day(middle) == day { low = middle } else { high = middle }
                    }
                    known.push((high.div_euclid(MINUTE) * MINUTE, i64::from(day)));
                    day = then;
                }
                at = next;
            }
        }
        Turns { bars, known }
    }

    /// Days that end between the bar before row t and its open, and inside the bar. Bars that carry their date as
    /// midnight UTC have no turn inside: the dates from one to the next end at the next open.
    fn around(&self, t: usize) -> (Vec<i64>, Vec<i64>) {
        let Bars { start, end, timeframe, .. } = self.bars;
        let before = t.checked_sub(1);
        if timeframe.is_daily_or_longer() && start[t].rem_euclid(DAY) == 0 {
            let date = |t: usize| start[t].div_euclid(DAY);
            return (before.map_or(Vec::new(), |before| (date(before)..date(t)).collect()), Vec::new());
        }
        let from = self.known.partition_point(|(time, _)| *time < before.map_or(start[t], |before| end[before]));
        let middle = self.known.partition_point(|(time, _)| *time <= start[t]);
        let to = self.known.partition_point(|(time, _)| *time < end[t]);
        let days = |range: std::ops::Range<usize>| self.known[range].iter().map(|(_, day)| *day).collect::<Vec<_>>();
        (days(from.min(middle)..middle), days(middle..to.max(middle)))
    }
}
