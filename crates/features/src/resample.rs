//! Slow bars from the bars of a symbol, one by one as they arrive or all at once.
//!
//! **A slow bar is given when it is over, never before**: at the first bar that ends at or after its bucket's end (see
//! [`Session::buckets`]). A bar belongs to the bucket it starts in, a daily bar to that of its date; one that reaches
//! beyond it (bars off the session's grid) makes the slow bar known later. The batch pushes through the same
//! [`Resampler`] as the stream, so the two are equal to the bit. Bars are taken to end in the order they start, as they
//! do in [`Bars`].

use bars::{Bars, Bucket, Buckets, Session, Timeframe, TradingDates};
use files::{Error, Kind, Result};

const DAY: i64 = 86_400_000_000_000;

/// One bar as it arrives.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Nanoseconds since 1970 UTC.
    pub start: i64,
    /// When it is complete and may be used.
    pub end: i64,
    /// First price.
    pub open: f64,
    /// Highest price.
    pub high: f64,
    /// Lowest price.
    pub low: f64,
    /// Last price.
    pub close: f64,
    /// NaN where there is none.
    pub volume: f64,
    /// In the order of [`Bars::extras`], NaN where missing.
    pub extras: Vec<f64>,
}

/// The slow bars of one symbol, and for each base row the last slow row that is known at its end and lies in its
/// segment; `u32::MAX` where there is none.
///
/// No slow bar mixes two segments, and an incomplete last one is not given.
pub fn resample(bars: &Bars, timeframe: Timeframe) -> Result<(Bars, Vec<u32>)> {
    fits(bars.timeframe, timeframe)?;
    let mut resampler = Resampler::new(&bars.instrument.session, timeframe)?;
    // As many as fit, which spares the columns from growing.
    let rows = (bars.len() as i64).saturating_mul(bars.timeframe.ns()) / timeframe.ns() + 1;
    let column = || Vec::with_capacity(rows as usize);
    let mut slow = Bars {
        symbol: bars.symbol.clone(),
        instrument: bars.instrument.clone(),
        timeframe,
        start: Vec::with_capacity(rows as usize),
        end: Vec::with_capacity(rows as usize),
        open: column(),
        high: column(),
        low: column(),
        close: column(),
        volume: if bars.volume.is_empty() { Vec::new() } else { column() },
        extras: bars.extras.iter().map(|(name, _)| (name.clone(), column())).collect(),
        segments: vec![0],
        member: bars.member.clone(),
    };
    let mut slow_of = Vec::with_capacity(bars.len()); // [n]
    let mut borders = bars.segments.iter().copied().skip_while(|s| *s == 0).peekable();
    let (mut first, mut done) = (0, Vec::new());
    let mut bar = Bar { extras: vec![f64::NAN; bars.extras.len()], ..EMPTY };
    for row in 0..bars.len() {
        if borders.next_if_eq(&row).is_some() {
            resampler.clear();
            first = slow.len();
            slow.segments.push(first);
        }
        (bar.start, bar.end) = (bars.start[row], bars.end[row]);
        (bar.open, bar.high, bar.low, bar.close) = (bars.open[row], bars.high[row], bars.low[row], bars.close[row]);
        bar.volume = bars.volume.get(row).copied().unwrap_or(f64::NAN);
        for (value, (_, column)) in bar.extras.iter_mut().zip(&bars.extras) {
            *value = column[row];
        }
        resampler.push(&bar, &mut done);
        for bar in done.drain(..) {
            append(&mut slow, &bar, !bars.volume.is_empty());
        }
        slow_of.push(if slow.len() > first { slow.len() as u32 - 1 } else { u32::MAX });
    }
    // Segments too short for a slow bar leave no border.
    slow.segments.dedup();
    let rows = slow.len();
    slow.segments.retain(|s| *s == 0 || *s < rows);
    Ok((slow, slow_of))
}

/// Whether bars of one timeframe make up those of the other.
pub(crate) fn fits(base: Timeframe, slow: Timeframe) -> Result<()> {
    use Timeframe::{Fixed, Months};
    let made = match (base, slow) {
        (Fixed(base), Fixed(slow)) => base > 0 && slow > base && slow % base == 0,
        // Days fill months; weeks do not.
        (Fixed(base), Months(slow)) => base > 0 && slow > 0 && DAY % base == 0,
        (Months(base), Months(slow)) => base > 0 && slow > base && slow % base == 0,
        (Months(_), Fixed(_)) => false,
    };
    if made {
        return Ok(());
    }
    Err(Error::new(Kind::Usage, format!("{slow} bars cannot be made of {base} bars"))
        .remedy(format!("choose a timeframe that is a multiple of {base}, and longer")))
}

fn append(slow: &mut Bars, bar: &Bar, volume: bool) {
    slow.start.push(bar.start);
    slow.end.push(bar.end);
    slow.open.push(bar.open);
    slow.high.push(bar.high);
    slow.low.push(bar.low);
    slow.close.push(bar.close);
    if volume {
        slow.volume.push(bar.volume);
    }
    for ((_, column), value) in slow.extras.iter_mut().zip(&bar.extras) {
        column.push(*value);
    }
}

/// Builds slow bars from base bars as they arrive.
#[derive(Debug, Clone)]
pub(crate) struct Resampler {
    buckets: Buckets,
    dated: Option<(TradingDates, Buckets)>, // for bars of a day or longer
    bucket: Bucket,                         // of the pending bar, or of the last one given
    pending: bool,
    slow: Bar, // the pending one
}

impl Bar {
    /// One bar of a symbol.
    pub fn of(bars: &Bars, row: usize) -> Bar {
        Bar {
            start: bars.start[row],
            end: bars.end[row],
            open: bars.open[row],
            high: bars.high[row],
            low: bars.low[row],
            close: bars.close[row],
            volume: bars.volume.get(row).copied().unwrap_or(f64::NAN),
            extras: bars.extras.iter().map(|(_, x)| x[row]).collect(),
        }
    }
}

const EMPTY: Bar = Bar {
    start: 0,
    end: 0,
    open: f64::NAN,
    high: f64::NAN,
    low: f64::NAN,
    close: f64::NAN,
    volume: f64::NAN,
    extras: Vec::new(),
};
const NOWHERE: Bucket = Bucket { start: i64::MIN, end: i64::MIN };

impl Resampler {
    pub(crate) fn new(session: &Session, timeframe: Timeframe) -> Result<Resampler> {
        let wrong = |why| {
            Error::new(Kind::Usage, format!("no {timeframe} bars: {why}"))
                .remedy("write a timeframe such as 1h, 1d, 1w or 1mo, and an IANA time zone in [instrument]")
        };
        Ok(Resampler {
            buckets: session.buckets(timeframe).map_err(wrong)?,
            dated: session.dated_buckets(timeframe).ok().map(|buckets| (session.trading_dates(), buckets)),
            bucket: NOWHERE,
            pending: false,
            slow: EMPTY,
        })
    }

    /// Takes the next base bar; gives the slow bars that are complete as of its end: the pending one when the bar
    /// belongs to a later bucket, and the bar's own when its end has come.
    pub(crate) fn push(&mut self, bar: &Bar, done: &mut Vec<Bar>) {
        let bucket = self.bucket_of(bar);
        let later = bucket.end > self.bucket.end;
        if later && self.pending {
            // A bar that ends before one that came earlier is no reason to tell what is not known yet.
            if self.slow.end <= bar.end {
                self.give(done);
            }
            self.pending = false;
        }
        if self.pending {
            self.add(bar);
        } else if later {
            self.begin(bucket, bar);
        } else {
            return; // its slow bar was given already, and what is known stays as it is
        }
        if bar.end >= self.slow.end {
            self.give(done);
        }
    }

    /// Forgets the pending slow bar, at a segment border.
    pub(crate) fn clear(&mut self) {
        (self.pending, self.bucket) = (false, NOWHERE);
    }

    /// The pending state as plain bits.
    pub(crate) fn save(&self) -> Vec<u64> {
        let Bar { start, end, open, high, low, close, volume, extras } = &self.slow;
        let mut bits = vec![u64::from(self.pending)];
        bits.extend([self.bucket.start, self.bucket.end, *start, *end].map(i64::cast_unsigned));
        bits.extend([open, high, low, close, volume].into_iter().chain(extras).map(|v| v.to_bits()));
        bits
    }

    /// Takes up what [`Resampler::save`] gave; `None`, and nothing changes, where that is something else.
    pub(crate) fn load(&mut self, bits: &[u64]) -> Option<()> {
        let (&[pending, a, b, start, end, open, high, low, close, volume], extras) = bits.split_first_chunk()?;
        let ([a, b, start, end], price) = ([a, b, start, end].map(u64::cast_signed), f64::from_bits);
        if pending > 1 || a > b || (pending == 1 && end < b) {
            return None;
        }
        (self.pending, self.bucket) = (pending == 1, Bucket { start: a, end: b });
        self.slow = Bar {
            start,
            end,
            open: price(open),
            high: price(high),
            low: price(low),
            close: price(close),
            volume: price(volume),
            extras: extras.iter().copied().map(price).collect(),
        };
        Some(())
    }

    #[inline]
    fn bucket_of(&mut self, bar: &Bar) -> Bucket {
        let daily = bar.end.saturating_sub(bar.start) >= DAY;
        match &mut self.dated {
            // Stamps of daily bars vary, even within a file; their dates do not.
            Some((dates, buckets)) if daily => buckets.bucket_at(dates.date_at(bar.start).saturating_mul(DAY)),
            _ => self.buckets.bucket_at(bar.start),
        }
    }

    fn begin(&mut self, bucket: Bucket, bar: &Bar) {
        (self.bucket, self.pending) = (bucket, true);
        self.slow.clone_from(bar);
        (self.slow.start, self.slow.end) = (bucket.start, bucket.end.max(bar.end));
    }

    #[inline]
    fn add(&mut self, bar: &Bar) {
        let slow = &mut self.slow;
        slow.end = slow.end.max(bar.end);
        slow.high = slow.high.max(bar.high);
        slow.low = slow.low.min(bar.low);
        slow.close = bar.close;
        if slow.volume.is_nan() {
            slow.volume = bar.volume;
        } else if !bar.volume.is_nan() {
            slow.volume += bar.volume;
        }
        for (last, value) in slow.extras.iter_mut().zip(&bar.extras) {
            if !value.is_nan() {
                *last = *value;
            }
        }
    }

    fn give(&mut self, done: &mut Vec<Bar>) {
        done.push(self.slow.clone());
        self.pending = false;
    }
}

#[cfg(test)]
mod tests;
