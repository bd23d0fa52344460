//! The streaming twin: one symbol, bar by bar, the same bits as the table.
//!
//! It runs the same graph through the same kernels, one bar at a time in one lane. Its state is a list of numbers that
//! can be saved and restored; a restored stream goes on as if it had never stopped.

use crate::columns::Column;
use crate::engine::{Engine, State};
use crate::graph::Id;
use crate::inputs::place_in_time;
use crate::ops::bounded;
use crate::plan::{Layer, Plan, missing_extra};
use crate::resample::{Bar, Resampler, fits};
use crate::row_writer::{RowWriter, RowsOut};
use crate::runs::{Holes, longest};
use crate::table::Feature;
use bars::{Instrument, Timeframe};
use files::{Error, Kind, Result};
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// Features of one symbol as its bars arrive.
pub struct Stream {
    base: Lane,
    slow: Vec<Coarse>,
    instrument: Instrument,
    /// Of the plan, the instrument's session and the timeframe: a state fits no other.
    key: u64,
    bars: u64,
}

/// A row of a table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// `[F]`, NaN where there is none.
    pub values: &'a [f32],
    /// `[words]` one bit a column.
    pub valid: &'a [u64],
    /// Whether every column is valid and no longer depends on where the run began.
    pub settled: bool,
    /// Whether a run begins with it: windows do not reach back across.
    pub begins: bool,
}

/// A slower timeframe.
struct Coarse {
    timeframe: Timeframe,
    resampler: Resampler,
    lane: Lane,
    shown: Vec<Id>,
    /// What the base sees.
    seen: Vec<f64>,
    /// Rows completed by the last bar.
    rows: Vec<SlowRow>,
}

/// A row of a slower timeframe.
struct SlowRow {
    values: Vec<f32>,
    valid: Vec<u64>,
    settled: bool,
    begins: bool,
}

/// One layer of one symbol.
struct Lane {
    layer: Layer,
    features: Vec<Feature>,
    engine: Engine<1>,
    ids: Vec<Id>,
    emit: RowWriter<1>,
    holes: Holes,
    /// End of the last bar.
    last: Option<i64>,
    values: Vec<f32>,
    valid: Vec<u64>,
    settled: [bool; 1],
    /// Whether the next bar begins a run, and whether the last one did.
    fresh: bool,
    begins: bool,
    /// Where each extra column is in a bar.
    extras: HashMap<String, usize>,
}

impl Stream {
    /// A stream that has seen nothing. Features of the market are refused: one symbol's bars do not tell what the
    /// others did. `extras` are the names of a bar's extra columns; `volume` says whether bars have any.
    pub fn new(
        plan: &Plan,
        instrument: &Instrument,
        timeframe: Timeframe,
        extras: &[String],
        volume: bool,
        max_hole: Option<usize>,
    ) -> Result<Stream> {
        plan.check_alone()?;
        let plan = if volume { plan.clone() } else { plan.without_volume().0 };
        if let Some(name) = plan.extras().into_iter().find(|name| !extras.iter().any(|e| e == name)) {
            return Err(missing_extra(name, extras));
        }
        let places: HashMap<String, usize> = extras.iter().cloned().zip(0..).collect();
        let base = Lane::new(&plan.layers[0], instrument, timeframe, &places, max_hole);
        let slow = plan.layers[1..].iter().map(|layer| {
            let slow = layer.timeframe.unwrap_or(Timeframe::D1);
            fits(timeframe, slow)?;
            Ok(Coarse {
                timeframe: slow,
                resampler: Resampler::new(&instrument.session, slow)?,
                lane: Lane::new(layer, instrument, slow, &places, max_hole),
                shown: layer.shown.clone(),
                seen: vec![f64::NAN; layer.shown.len()],
                rows: Vec::new(),
            })
        });
        let slow = slow.collect::<Result<Vec<_>>>()?;
        // All that is computed, on which timeframe: two sets may name their features alike.
        let layers = plan.layers.iter();
        let layers: String = layers.map(|l| format!("{:?}{:?}{:?}", l.timeframe, l.outputs, l.graph.nodes())).collect();
        let text = format!("{layers}{timeframe}{:?}{extras:?}{volume}{max_hole:?}", instrument.session);
        Ok(Stream { base, slow, instrument: instrument.clone(), key: xxh3_64(text.as_bytes()), bars: 0 })
    }

    /// Takes the next bar. `fresh`: a segment begins with it (a split, say), so the past no longer counts.
    pub fn push(&mut self, bar: &Bar, fresh: bool) -> Result<()> {
        if let Some(last) = self.base.last.filter(|last| bar.end <= *last) {
            let (now, last) = (files::time::rfc3339(bar.end), files::time::rfc3339(last));
            return Err(Error::new(
                Kind::Input,
                format!("a bar that ends at {now} came after one that ended at {last}"),
            )
            .remedy("bars arrive in order, each once"));
        }
        if fresh {
            self.base.reset();
            for coarse in &mut self.slow {
                coarse.resampler.clear();
                coarse.lane.reset();
                coarse.seen.fill(f64::NAN);
            }
        }
        let mut done = Vec::new();
        for coarse in &mut self.slow {
            coarse.rows.clear();
            done.clear();
            coarse.resampler.push(bar, &mut done);
            for slow in &done {
                coarse.lane.push(slow, &self.instrument, &|_, _| f64::NAN);
                let lane = &coarse.lane;
                for (seen, id) in coarse.seen.iter_mut().zip(&coarse.shown) {
                    *seen = lane.engine.block(id.index(), 1).0[0][0];
                }
                coarse.rows.push(SlowRow {
                    values: lane.values[..lane.features.len()].to_vec(),
                    valid: lane.valid.clone(),
                    settled: lane.settled[0],
                    begins: lane.begins,
                });
            }
        }
        let slow = &self.slow;
        let seen = |timeframe: Timeframe, at: usize| {
            slow.iter().find(|c| c.timeframe == timeframe).map_or(f64::NAN, |c| c.seen[at])
        };
        self.base.push(bar, &self.instrument, &seen);
        self.bars = self.bars.wrapping_add(1);
        Ok(())
    }

    /// Bars seen so far.
    pub fn bars(&self) -> u64 {
        self.bars
    }

    /// The row of the last bar.
    pub fn row(&self) -> Row<'_> {
        let Lane { values, valid, settled, features, begins, .. } = &self.base;
        Row { values: &values[..features.len()], valid, settled: settled[0], begins: *begins }
    }

    /// The columns of [`Stream::row`].
    pub fn columns(&self) -> &[Feature] {
        &self.base.features
    }

    /// Slower timeframes with features of their own: the timeframe, its columns, and the rows that the last bar
    /// completed.
    pub fn slow(&self) -> impl Iterator<Item = (Timeframe, &[Feature], impl Iterator<Item = Row<'_>>)> {
        let slow = self.slow.iter().filter(|c| !c.lane.features.is_empty());
        slow.map(|c| {
            let rows = c.rows.iter().map(|SlowRow { values, valid, settled, begins }| Row {
                values,
                valid,
                settled: *settled,
                begins: *begins,
            });
            (c.timeframe, c.lane.features.as_slice(), rows)
        })
    }

    /// Everything it remembers.
    pub fn save(&mut self) -> Vec<u8> {
        let mut words = vec![MAGIC, self.key];
        self.state(&mut State::Save(&mut words));
        for coarse in &self.slow {
            let pending = coarse.resampler.save();
            words.push(pending.len() as u64);
            words.extend(pending);
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    /// Goes on from what [`Stream::save`] gave; this stream must have been made with the same plan, instrument and
    /// timeframe.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let bad = |why: &str| {
            Error::new(Kind::State, format!("the saved state of the features {why}"))
                .remedy("warm the features up again from bars")
        };
        let Some((body, sum)) =
            bytes.split_last_chunk::<8>().filter(|(body, _)| body.len() >= 16 && body.len() % 8 == 0)
        else {
            return Err(bad("is cut short"));
        };
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return Err(bad("is damaged"));
        }
        let words: Vec<u64> =
            body.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default())).collect();
        if words[0] != MAGIC {
            return Err(bad("is of another version"));
        }
        if words[1] != self.key {
            return Err(bad("belongs to another feature set, instrument or timeframe"));
        }
        let mut state = State::Load { words: &words[2..], short: false };
        self.state(&mut state);
        let State::Load { mut words, short } = state else { return Err(bad("is cut short")) };
        if short {
            return Err(bad("is cut short"));
        }
        for coarse in &mut self.slow {
            let Some((n, rest)) = words.split_first() else { return Err(bad("is cut short")) };
            let Some((mine, rest)) = rest.split_at_checked(*n as usize) else { return Err(bad("is cut short")) };
            coarse.resampler.load(mine).ok_or_else(|| bad("is damaged"))?;
            words = rest;
            coarse.rows.clear();
        }
        // The row of the last bar is not part of the state: until the next bar there is none.
        self.base.valid.fill(0);
        self.base.values.fill(0.0);
        self.base.settled = [false];
        if words.is_empty() { Ok(()) } else { Err(bad("is too long")) }
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.word(&mut self.bars);
        self.base.state(state);
        for coarse in &mut self.slow {
            coarse.lane.state(state);
            coarse.seen.iter_mut().for_each(|seen| state.number(seen));
        }
    }
}

/// The first word of a state: `fbfeat` and a version.
const MAGIC: u64 = u64::from_le_bytes(*b"fbfeat\0\x03");

impl Lane {
    fn new(
        layer: &Layer,
        instrument: &Instrument,
        timeframe: Timeframe,
        extras: &HashMap<String, usize>,
        max_hole: Option<usize>,
    ) -> Lane {
        let features: Vec<Feature> = layer.outputs.iter().map(|o| Feature::new(o, layer, Some(timeframe))).collect();
        let stride = features.len().next_multiple_of(4);
        Lane {
            engine: Engine::new(&layer.graph, 1),
            ids: layer.outputs.iter().map(|o| o.id).collect(),
            emit: RowWriter::new(&features, stride),
            holes: Holes::new(&instrument.session, timeframe, longest(timeframe, max_hole)),
            last: None,
            values: vec![0.0; stride],
            valid: vec![0; features.len().div_ceil(64)],
            settled: [false],
            fresh: true,
            begins: false,
            extras: extras.clone(),
            features,
            layer: layer.clone(),
        }
    }

    /// Starts afresh.
    fn reset(&mut self) {
        self.engine = Engine::new(&self.layer.graph, 1);
        self.emit = RowWriter::new(&self.features, self.values.len());
        self.fresh = true;
    }

    fn push(&mut self, bar: &Bar, instrument: &Instrument, seen: &dyn Fn(Timeframe, usize) -> f64) {
        if self.last.is_some_and(|last| self.holes.breaks(last, bar.start)) {
            self.reset();
        }
        self.last = Some(bar.end);
        self.begins = std::mem::take(&mut self.fresh);
        let Lane { layer, engine, extras, .. } = self;
        engine.run(1, &mut |at, place| {
            let value = match &layer.columns[at] {
                Column::Open => bar.open,
                Column::High => bar.high,
                Column::Low => bar.low,
                Column::Close => bar.close,
                Column::Volume => bar.volume,
                Column::Extra(name) => extras.get(name).and_then(|i| bar.extras.get(*i)).copied().unwrap_or(f64::NAN),
                Column::Slow(timeframe, at) => seen(*timeframe, *at),
                calendar => {
                    let session = &instrument.session;
                    place_in_time(calendar, session, &[bar.end], &[session.trading_day(bar.start)])[0]
                }
            };
            place[0] = [value];
            bounded(place)
        });
        let read: Vec<(&[[f64; 1]], usize)> =
            self.ids.iter().map(|id| (engine.block(id.index(), 1).0, engine.finite_rows(id.index(), 1))).collect();
        let out = RowsOut { values: &mut self.values, valid: &mut self.valid, settled: &mut self.settled };
        self.emit.write_rows(&read, 1, &mut [out]);
    }

    fn state(&mut self, state: &mut State<'_>) {
        let mut last = self.last.unwrap_or(i64::MIN) as u64;
        state.word(&mut last);
        self.last = Some(last as i64).filter(|last| *last != i64::MIN);
        let mut fresh = u64::from(self.fresh);
        state.word(&mut fresh);
        self.fresh = fresh != 0;
        self.engine.state(state);
        self.emit.state(state);
    }
}
