//! When each sample and its label were known, in which order they come, and how much of its time a label has to itself.
//!
//! Times are only compared, so any clock does: nanoseconds since 1970, or whole numbers that somebody counted. Rows of
//! one symbol at the same time are one step of its clock; a label horizon counts such steps.

use super::{NO_TIME, ReadSpec};
use features::labels::weigh;
use files::time::{Unit, epoch_ns};
use files::{Array, Data, Error, Kind, Result};

/// Times of all ids, `NO_TIME` where one is missing.
pub(super) struct Times {
    /// `[ids]`
    pub t0: Vec<i64>,
    /// `[ids]`
    pub t1: Vec<i64>,
    /// Ids that have a `t0`, by time, then symbol, then id.
    pub order: Vec<u32>,
    /// `[ids]` which step of its symbol's clock an id is.
    step: Vec<u32>,
    /// `[symbols]` distinct times.
    clocks: Vec<Vec<i64>>,
    symbol: Vec<u32>, // [ids], empty: all of one
}

/// An array of times.
pub(super) struct Moments {
    name: String,
    values: Vec<i64>,
    /// Nanoseconds since 1970, or counted somehow.
    pub instants: bool,
}

/// Refuses a horizon too much and one too few.
pub(super) fn check_horizon(spec: &ReadSpec, has_t1: bool) -> Result<()> {
    let usage = |message: &str, remedy: &str| Err(Error::new(Kind::Usage, message).remedy(remedy));
    match (spec.label_horizon, has_t1) {
        (None, false) => usage(
            "there is no t1, so it is not known when a label became known, and a split could not purge",
            "say after how many rows the label is known, as in <train.label_horizon=12>, or save t1 with the arrays",
        ),
        (Some(_), true) => {
            usage("the file has t1, which already says when labels are known", "leave out <train.label_horizon>")
        }
        (Some(0), false) => usage("a label horizon of 0 rows is not possible", "give <train.label_horizon=1> or more"),
        _ => Ok(()),
    }
}

/// The times of an array: `datetime64`, epochs whose size tells their unit, or whole numbers as they are.
pub(super) fn moments(array: &Array, notes: &mut Vec<String>) -> Result<Moments> {
    let name = &array.name;
    let moments = |values, instants| Ok(Moments { name: name.clone(), values, instants });
    let wrong = |what: String| {
        Err(Error::input(what)
            .remedy(format!("np.savez(path, ..., {name}=np.asarray({name}, dtype='datetime64[ns]'))")))
    };
    let numbers: Vec<Option<f64>> = match &array.data {
        Data::Time { ns, .. } => return moments(ns.clone(), true),
        Data::I64(v) => {
            return match unit(v.iter().map(|x| Some(*x))) {
                Epochs::One(unit) => {
                    notes.push(format!("{name} is read as {} since 1970", word(unit)));
                    moments(v.iter().map(|x| epoch_ns(*x).map_or(NO_TIME, |e| e.0)).collect(), true)
                }
                Epochs::None => {
                    notes.push(format!("{name} holds no stamps but whole numbers; they are taken as they are"));
                    moments(v.clone(), false)
                }
                Epochs::Mixed(at) => {
                    wrong(format!("{name}[{at}] is {}, another unit than the stamps around it", v[at]))
                }
            };
        }
        Data::F64(v) => v.iter().map(|x| x.is_finite().then_some(*x)).collect(),
        _ => return wrong(format!("{name} holds neither stamps nor whole numbers")),
    };
    match unit(numbers.iter().map(|x| x.map(|x| x as i64))) {
        Epochs::One(unit) => {
            notes.push(format!("{name} is read as {} since 1970", word(unit)));
            let scale = [1e9, 1e6, 1e3, 1.0][unit as usize];
            let ns = |x: f64| epoch_ns(x as i64).and_then(|e| e.0.checked_add((x.fract() * scale).round() as i64));
            moments(numbers.iter().map(|x| x.and_then(ns).unwrap_or(NO_TIME)).collect(), true)
        }
        Epochs::None if numbers.iter().flatten().all(|x| x.fract() == 0.0 && x.abs() < 9e15) => {
            notes.push(format!("{name} holds no stamps but whole numbers; they are taken as they are"));
            moments(numbers.iter().map(|x| x.map_or(NO_TIME, |x| x as i64)).collect(), false)
        }
        Epochs::None => wrong(format!("{name} holds numbers with fractions that are no stamps")),
        Epochs::Mixed(at) => wrong(format!("{name}[{at}] is another unit than the stamps around it")),
    }
}

enum Epochs {
    One(Unit),
    None,
    Mixed(usize),
}

/// The unit that all numbers have; none where most have none.
fn unit(values: impl Iterator<Item = Option<i64>> + Clone) -> Epochs {
    let units = || values.clone().enumerate().filter_map(|(i, x)| Some((i, epoch_ns(x?).map(|e| e.1))));
    let (all, stamps) =
        units().fold((0usize, 0usize), |(all, some), (_, unit)| (all + 1, some + usize::from(unit.is_some())));
    // Numbers that somebody counted may grow into the stamps; stamps do not begin at 0.
    if stamps * 10 < all * 9 || all == 0 {
        return Epochs::None;
    }
    let mut seen = units().filter_map(|(_, unit)| unit);
    let Some(first) = seen.next() else { return Epochs::None };
    units().find(|(_, unit)| *unit != Some(first)).map_or(Epochs::One(first), |(at, _)| Epochs::Mixed(at))
}

fn word(unit: Unit) -> &'static str {
    match unit {
        Unit::S => "seconds",
        Unit::Ms => "milliseconds",
        Unit::Us => "microseconds",
        Unit::Ns => "nanoseconds",
    }
}

impl Times {
    pub(super) fn new(
        n: usize,
        t0: Option<Moments>,
        t1: Option<Moments>,
        symbol: Option<&[u32]>,
        symbols: usize,
        spec: &ReadSpec,
        notes: &mut Vec<String>,
    ) -> Result<Times> {
        if let Some(t1) = &t1
            && t0.as_ref().map_or(t1.instants, |t0| t0.instants != t1.instants)
        {
            let what = if t0.is_some() {
                "t0 and t1 are not of one clock: one has stamps, the other whole numbers"
            } else {
                "there is t1 but no t0"
            };
            return Err(Error::input(what).remedy("save t0, when each sample was known, as t1 is saved"));
        }
        let named = t0.as_ref().map_or("t0".to_string(), |t0| t0.name.clone());
        let t0 = match t0 {
            Some(t0) => t0.values,
            None => {
                in_blocks(symbol, symbols)?;
                notes.push(
                    "there is no t0: rows are taken in the order of time, and their number stands for it".to_string(),
                );
                (0..n as i64).collect()
            }
        };
        let untimed = t0.iter().filter(|t| **t == NO_TIME).count();
        if untimed > 0 {
            notes.push(format!("{untimed} of {n} samples have no time ({named}) and are left out"));
        }
        let of = |id: u32| symbol.map_or(0, |s| s[id as usize]);
        let mut order: Vec<u32> = (0..n as u32).filter(|id| t0[*id as usize] != NO_TIME).collect();
        let key = |id: &u32| (t0[*id as usize], of(*id), *id);
        if order.windows(2).any(|w| t0[w[1] as usize] < t0[w[0] as usize]) {
            notes.push("the rows are not in the order of time; the samples are put in order".to_string());
        }
        order.sort_unstable_by_key(key);

        let mut clocks: Vec<Vec<i64>> = vec![Vec::new(); symbols.max(1)];
        let mut step = vec![0; n];
        for id in &order {
            let (clock, time) = (&mut clocks[of(*id) as usize], t0[*id as usize]);
            if clock.last() != Some(&time) {
                clock.push(time);
            }
            step[*id as usize] = clock.len() as u32 - 1;
        }
        if symbol.is_none() && spec.label_horizon.is_some() && clocks[0].len() < order.len() {
            notes.push(format!(
                "{} rows share a time with another; the label horizon counts times",
                order.len() - clocks[0].len()
            ));
        }
        let mut times = Times { t0, t1: Vec::new(), order, step, clocks, symbol: symbol.unwrap_or_default().to_vec() };
        times.t1 = match (t1, spec.label_horizon) {
            (Some(t1), _) => t1.values,
            (None, horizon) => times.horizon(horizon.unwrap_or(1)),
        };
        times.check(spec, notes)?;
        Ok(times)
    }

    /// The time that many steps later on the symbol's clock.
    fn horizon(&self, steps: usize) -> Vec<i64> {
        let later = |id: usize| {
            let at = (self.step[id] as usize).checked_add(steps);
            at.and_then(|at| self.clock(id).get(at)).copied().unwrap_or(NO_TIME)
        };
        (0..self.t0.len()).map(|id| if self.t0[id] == NO_TIME { NO_TIME } else { later(id) }).collect()
    }

    fn check(&self, spec: &ReadSpec, notes: &mut Vec<String>) -> Result<()> {
        let timed = || (0..self.t0.len()).filter(|id| self.t0[*id] != NO_TIME);
        if let Some(id) = timed().find(|id| self.t1[*id] != NO_TIME && self.t1[*id] <= self.t0[*id]) {
            return Err(Error::input(format!("t1[{id}] is not after t0[{id}]: {} and {}", self.t1[id], self.t0[id]))
                .remedy("t0 is when the sample was known, t1 when its label was; a label is known later"));
        }
        let open = timed().filter(|id| self.t1[*id] == NO_TIME).count();
        if open > 0 && open == timed().count() {
            return Err(Error::input("no label ends inside the data")
                .remedy("give a shorter <train.label_horizon>, or times in t1"));
        }
        if open > 0 {
            let why = match spec.label_horizon {
                Some(_) => "have labels that end after the last row of their symbol",
                None => "have no t1",
            };
            notes.push(format!("{open} samples {why} and are left out"));
        }
        Ok(())
    }

    /// Whether both times of an id are there.
    pub(super) fn is_known(&self, id: usize) -> bool {
        self.t0[id] != NO_TIME && self.t1[id] != NO_TIME
    }

    fn clock(&self, id: usize) -> &[i64] {
        &self.clocks[self.symbol.get(id).map_or(0, |s| *s as usize)]
    }

    /// Average uniqueness of the labels of these ids: as for labels of bars, with the steps of the symbol's clock as
    /// its bars.
    pub(super) fn weights(&self, ids: &[u32]) -> Vec<f32> {
        let mut of: Vec<Vec<u32>> = vec![Vec::new(); self.clocks.len()]; // places in `ids`, by symbol
        for (at, id) in ids.iter().enumerate() {
            of[self.symbol.get(*id as usize).map_or(0, |s| *s as usize)].push(at as u32);
        }
        let mut weights = vec![0.0; ids.len()];
        for (places, clock) in of.iter().zip(&self.clocks) {
            let span = |at: &u32| {
                let id = ids[*at as usize] as usize;
                // To the step in which t1 lies; one step more stands for all time after the last.
                let last = clock.partition_point(|time| *time < self.t1[id]);
                Some((self.step[id] as usize + 1, last))
            };
            let mut weight = vec![0.0; places.len()];
            weigh(clock.len() + 1, places.iter().map(span), &mut weight);
            places.iter().zip(weight).for_each(|(at, w)| weights[*at as usize] = w);
        }
        weights
    }
}

/// Row numbers are no time where symbols stand one behind the other: the same days would come again.
fn in_blocks(symbol: Option<&[u32]>, symbols: usize) -> Result<()> {
    let changes = symbol.map_or(0, |s| s.windows(2).filter(|w| w[0] != w[1]).count());
    if symbols > 1 && changes + 1 == symbols {
        return Err(Error::input(format!("its {symbols} symbols stand one behind the other and there is no t0: which rows are of the same time is not known"))
            .remedy("save t0, when each sample was known"));
    }
    Ok(())
}
