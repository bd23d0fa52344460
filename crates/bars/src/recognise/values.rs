//! What values betray: epochs, dates, times, and prices that are not what their column says.

use super::names::{self, Role};
use super::{Evidence, PriceColumns, TimeColumns};
use files::{Data, Result, Table, time};

/// Rows of the sample in which high is not the highest or low not the lowest.
pub(super) fn count_violations(sample: &Table, at: &[usize; 4]) -> usize {
    let [o, h, l, c] = at.map(|i| &sample.columns[i].data);
    (0..sample.rows)
        .filter(|row| {
            let [o, h, l, c] = [o, h, l, c].map(|d| read_value(d, *row));
            h < o.max(c) || l > o.min(c) || h < l
        })
        .count()
}

/// A number of the sample; NaN for what is none.
pub(crate) fn read_value(data: &Data, row: usize) -> f64 {
    match data {
        Data::F64(v) => v[row],
        Data::I64(v) => v[row] as f64,
        _ => f64::NAN,
    }
}

pub(super) fn is_epoch(data: &Data) -> bool {
    match data {
        Data::I64(v) => !v.is_empty() && v.iter().filter(|x| time::epoch_ns(**x).is_some()).count() * 10 >= v.len() * 9,
        Data::F64(v) => {
            let filled: Vec<f64> = v.iter().copied().filter(|x| x.is_finite()).collect();
            let fits =
                filled.iter().filter(|x| **x >= 1e8 && **x < 9e18 && time::epoch_ns(**x as i64).is_some()).count();
            // Volumes also exceed 1e8; a clock rises or falls steadily.
            !filled.is_empty() && fits * 10 >= filled.len() * 9 && is_steady(&filled)
        }
        _ => false,
    }
}

fn is_steady(values: &[f64]) -> bool {
    let up = values.windows(2).filter(|w| w[1] >= w[0]).count();
    let down = values.windows(2).filter(|w| w[1] <= w[0]).count();
    let n = values.len().saturating_sub(1);
    up.max(down) * 10 >= n * 8
}

/// Epochs that always rise or always fall, most of them by one and the same step.
fn is_regular_clock(data: &Data) -> bool {
    let Data::I64(v) = data else { return false };
    let mut steps: Vec<i64> = v.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    let one_way = steps.iter().all(|s| *s > 0) || steps.iter().all(|s| *s < 0);
    steps.sort_unstable();
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(0);
    is_epoch(data) && v.len() >= 3 && one_way && steps.iter().filter(|s| **s == usual).count() * 2 > steps.len()
}

fn is_date_number(data: &Data) -> bool {
    let date = |x: i64| crate::ingest::date_number(x) != files::MISSING_TIME;
    match data {
        Data::I64(v) => !v.is_empty() && v.iter().all(|x| date(*x)),
        Data::F64(v) => !v.is_empty() && v.iter().all(|x| x.fract() == 0.0 && date(*x as i64)),
        _ => false,
    }
}

pub(super) fn is_time_like(data: &Data) -> bool {
    matches!(data, Data::Time { .. }) || is_epoch(data) || is_date_number(data)
}

pub(super) fn time_from_column(at: usize, data: &Data) -> Option<TimeColumns> {
    match data {
        Data::Time { .. } => Some(TimeColumns::Stamp(at)),
        _ if is_date_number(data) => Some(TimeColumns::DateNumber(at)),
        _ if is_epoch(data) => Some(TimeColumns::Epoch(at)),
        _ => None,
    }
}

/// The best column for the time: a certain instant before a wall clock, an open time before any other.
pub(super) fn find_time_column(
    given: &Evidence<'_>,
    names: &[String],
    roles: &[Option<Role>],
    named: bool,
    groups: &[PriceColumns],
) -> Result<Option<TimeColumns>> {
    let sample = given.sample;
    if let Some(lean) = given.lean {
        return Ok(Some(match lean.day {
            Some(day) => TimeColumns::SinceMidnight(0, day),
            None => TimeColumns::Stamp(0),
        }));
    }
    if !named {
        let clock = matches!(sample.columns.get(1).map(|c| &c.data), Some(Data::Clock(_)));
        let time = time_from_column(0, &sample.columns[0].data);
        return Ok(if clock { Some(TimeColumns::DateAndClock(0, 1)) } else { time });
    }
    let taken: Vec<usize> = groups.iter().flat_map(PriceColumns::columns).collect();
    let mut best: Option<(u8, u8, usize, TimeColumns)> = None;
    for at in (0..names.len()).filter(|at| !taken.contains(at)) {
        let data = &sample.columns[at].data;
        let rank = match roles[at] {
            Some(Role::Time(rank)) => rank,
            // The first column may hold the time without saying so: an index, or yfinance's `Price`.
            None | Some(Role::LateClose) if at == 0 && matches!(data, Data::Time { .. }) => 5,
            None if names[at].is_empty() && matches!(data, Data::Time { .. }) => 6,
            _ => continue,
        };
        let Some(time) = time_from_column(at, data) else { continue };
        let certain = matches!(time, TimeColumns::Epoch(_)) || matches!(data, Data::Time { utc: true, .. });
        let key = (if rank == 0 { 0 } else { u8::from(!certain) + 1 }, rank, at, time);
        if best.is_none_or(|b| (key.0, key.1, key.2) < (b.0, b.1, b.2)) {
            best = Some(key);
        }
    }
    let Some((_, _, at, time)) = best else {
        // Huobi calls it `id`, Deribit `ticks`: whole numbers that go on like a clock.
        let free = (0..names.len()).filter(|at| !taken.contains(at));
        return Ok(free
            .filter(|at| matches!(roles[*at], None | Some(Role::Volume(3))))
            .find(|at| is_regular_clock(&sample.columns[*at].data))
            .map(TimeColumns::Epoch));
    };
    let clock = (0..names.len())
        .find(|i| matches!(sample.columns[*i].data, Data::Clock(_)) && names::normalise_name(&names[*i]) == "time")
        .or_else(|| (0..names.len()).find(|i| matches!(sample.columns[*i].data, Data::Clock(_))));
    // 93000 or 09:30 beside a date is its time of day.
    let by_number = (0..names.len()).find(|i| {
        names::normalise_name(&names[*i]) == "time" && *i != at && matches!(sample.columns[*i].data, Data::I64(_))
    });
    Ok(Some(match (clock.or(by_number), time) {
        (Some(clock), TimeColumns::Stamp(date) | TimeColumns::DateNumber(date))
            if is_whole_days(&sample.columns[date].data) =>
        {
            TimeColumns::DateAndClock(date, clock)
        }
        _ => time,
    }))
}

fn is_whole_days(data: &Data) -> bool {
    match data {
        Data::Time { ns, .. } => ns.iter().all(|ns| *ns == files::MISSING_TIME || ns % 86_400_000_000_000 == 0),
        _ => true,
    }
}
