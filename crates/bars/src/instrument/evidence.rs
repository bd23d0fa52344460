//! What the bars say of their instrument, where its name says otherwise.
//!
//! A name is a guess; weekends with or without bars, the hours of the day that have any and the file's own time zone
//! are facts. Where they contradict the guess, class, currency and session follow the facts, and a sentence says so.

use super::names::{EXCHANGES, equity_on, is_coin};
use super::session::{LocalTime, make_session};
use super::{Class, ClockTime, Instrument, Session, Weekdays};

const MINUTE: i64 = 60_000_000_000;
const DAY: i64 = 1440 * MINUTE;
/// Slots of a quarter of an hour.
const SLOTS: usize = 96;

/// Stamps of a series, and the zone of its file.
pub(crate) struct SeenBars<'a> {
    /// Starts of some bars spread over the whole series, UTC.
    pub stamps: &'a [i64],
    /// Nanoseconds of a bar.
    pub step: i64,
    /// The IANA zone that the file's clock turned out to be in.
    pub zone: Option<&'a str>,
}

/// Makes the instrument agree with its bars; says what was changed, and why.
pub(crate) fn reconcile(symbol: &str, instrument: &mut Instrument, seen: &SeenBars<'_>) -> Option<String> {
    if seen.step >= 7 * DAY || seen.stamps.len() < 15 {
        return None;
    }
    follow_weekends(symbol, instrument, seen).or_else(|| follow_hours(instrument, seen))
}

/// Coins trade on Saturdays, everything else does not.
fn follow_weekends(symbol: &str, instrument: &mut Instrument, seen: &SeenBars<'_>) -> Option<String> {
    let mut days = [0usize; 7];
    seen.stamps.iter().for_each(|ns| days[(ns.div_euclid(DAY) + 3).rem_euclid(7) as usize] += 1);
    let first = seen.stamps.iter().min()?;
    let span = seen.stamps.iter().max()? - first;
    let coin = matches!(instrument.class, Class::CryptoSpot | Class::CryptoPerp);
    if coin && span >= 21 * DAY && days[5] * 100 < seen.stamps.len() {
        if is_coin(symbol) {
            instrument.session = working_week();
            return Some("no bar on a Saturday: a coin traded from Monday to Friday".into());
        }
        let (class, currency) = (instrument.class, instrument.currency.clone());
        *instrument = Instrument::preset(Class::Commodity, &currency);
        return Some(format!("no bar on a Saturday, so it is not {class}: read as a commodity in {currency}"));
    }
    if is_plain_share(instrument) && days[5] * 12 >= seen.stamps.len() {
        *instrument = Instrument::preset(Class::CryptoSpot, "USD");
        return Some("bars on Saturdays, so it is not a share: read as a coin in USD".into());
    }
    let all_week = days.iter().all(|n| n * 12 >= seen.stamps.len());
    if !coin && span >= 14 * DAY && all_week && instrument.session.days != Weekdays::ALL {
        instrument.session = Instrument::preset(Class::CryptoSpot, "").session;
        return Some(format!(
            "bars on all seven days, which {} does not trade: the session is all week",
            instrument.class
        ));
    }
    None
}

/// A US share, which is what a name that no rule knows is taken for.
fn is_plain_share(instrument: &Instrument) -> bool {
    instrument.class == Class::Equity && instrument.currency == "USD"
}

/// From 17:00 to 17:00 New York, Monday to Friday.
fn working_week() -> Session {
    make_session("America/New_York", "17:00", "17:00", "17:00", true)
}

/// Shares and indices trade in the hours of their exchange.
fn follow_hours(instrument: &mut Instrument, seen: &SeenBars<'_>) -> Option<String> {
    let limited = matches!(instrument.class, Class::Equity | Class::Index) && !instrument.session.round_the_clock;
    if !limited || seen.step > 60 * MINUTE {
        return None;
    }
    let plain = is_plain_share(instrument);
    let zone = instrument.session.timezone.clone();
    // A file in the clock of another exchange.
    let home = |zone: &str| EXCHANGES.iter().find(|e| e.2 == zone);
    if plain
        && let Some(file) = seen.zone.filter(|file| *file != zone)
        && let Some(&(_, currency, _, open, close, ..)) = home(file)
        && fits(&observed_hours(seen, file)?, &make_session(file, open, close, "00:00", false))
    {
        *instrument = equity_on(file)?;
        return Some(format!("the file's clock is that of {file}: read as a share in {currency}, hours of {file}"));
    }
    let hours = observed_hours(seen, &zone)?;
    if fits(&hours, &instrument.session) {
        return None;
    }
    let Hours::Between(open, close) = hours else {
        if plain {
            *instrument = Instrument::preset(Class::Commodity, "USD");
            return Some(
                "bars at nearly every hour from Monday to Friday, so it is not a share: read as a commodity".into(),
            );
        }
        instrument.session = working_week();
        return Some("bars at nearly every hour from Monday to Friday: the session is round the clock".into());
    };
    let mut homes: Vec<&str> = Vec::new();
    let mut currencies: Vec<&str> = Vec::new();
    for &(_, currency, zone, open, close, ..) in EXCHANGES.iter().filter(|_| plain) {
        let session = make_session(zone, open, close, "00:00", false);
        if observed_hours(seen, zone).is_some_and(|hours| is_near(&hours, &session)) {
            homes.push(zone);
            currencies.push(currency);
        }
    }
    currencies.dedup();
    if let ([currency], Some(home)) = (&currencies[..], homes.first()) {
        *instrument = equity_on(home)?;
        return Some(format!("bars in the hours of {home}, not of {zone}: read as a share in {currency}"));
    }
    (instrument.session.open, instrument.session.close) = (open, close);
    if close <= open {
        // The day turns while nothing trades.
        instrument.session.trading_day.at = open;
    }
    let check = if plain { "; check its class, currency and time zone" } else { "" };
    Some(format!("bars from {open} to {close} in {zone}, not in the hours of its exchange: the session is that{check}"))
}

/// The hours of the day that have bars.
enum Hours {
    Between(ClockTime, ClockTime),
    All,
}

/// The part of the day, in that zone, outside the longest stretch without bars; `None` with fewer than five days.
fn observed_hours(seen: &SeenBars<'_>, zone: &str) -> Option<Hours> {
    let mut local = LocalTime::new(zone);
    let mut slots = [0usize; SLOTS];
    let mut days: Vec<i64> = Vec::new();
    for ns in seen.stamps {
        let second = local.local_second(*ns);
        slots[(second.rem_euclid(86_400) / 900) as usize] += 1;
        days.push(second.div_euclid(86_400));
    }
    days.sort_unstable();
    days.dedup();
    if days.len() < 5 {
        return None;
    }
    // A bar of an hour fills its four quarters; a stray print fills none.
    let width = (seen.step / (15 * MINUTE)).clamp(1, 4) as usize;
    let most = slots.iter().max().copied().unwrap_or(0);
    let mut open = [false; SLOTS];
    for at in (0..SLOTS).filter(|at| slots[*at] * 10 >= most.max(1)) {
        (0..width).for_each(|i| open[(at + i) % SLOTS] = true);
    }
    let (mut longest, mut end, mut run) = (0, 0, 0);
    for at in 0..2 * SLOTS {
        run = if open[at % SLOTS] { 0 } else { run + 1 };
        if run > longest {
            (longest, end) = (run, at + 1);
        }
    }
    if longest * 15 < 150 || longest >= SLOTS {
        return Some(Hours::All);
    }
    let clock = |slot: usize| ClockTime((slot % SLOTS * 15) as u16);
    Some(Hours::Between(clock(end), clock(end + SLOTS - longest)))
}

/// Whether bars keep to a session, or to it and the trading before and after it.
fn fits(hours: &Hours, session: &Session) -> bool {
    let Hours::Between(open, close) = hours else { return false };
    let (open, close) = (i64::from(open.0), i64::from(close.0));
    let (from, to) = (i64::from(session.open.0), i64::from(session.close.0));
    open < close && open >= from - 345 && close <= to + 270 && open < to && close > from
}

/// Whether bars begin with a session and end with it.
fn is_near(hours: &Hours, session: &Session) -> bool {
    let Hours::Between(open, close) = hours else { return false };
    open.0.abs_diff(session.open.0) <= 30 && close.0.abs_diff(session.close.0) <= 30
}
