//! A ready NPZ becomes a [`Problem`].
//!
//! | array | shape | what |
//! | --- | --- | --- |
//! | `x_fast` | `[N, T1, F1]` | the fast window of each sample, oldest row first |
//! | `x_slow` | `[N, T2, F2]` | the slow one |
//! | `x_strategy` | `[N, F3]` | one row a sample |
//! | `x` or `X` | `[N, T, F]` or `[N, F]` | instead of the three: taken as `fast`, or as `strategy` |
//! | `y`, `labels` or `label` | `[N]` | -1/0/1, 0/1/2, 0/1 or -1/1 |
//! | `t0`, `t1` | `[N]` | when the sample and when its label was known: `datetime64`, epochs of any unit, or whole numbers that rise |
//! | `symbol` | `[N]` | whole numbers or strings |
//! | `close` or `price` | `[N]` | the price at `t0` |
//!
//! Any one of the first three is enough, and all behind the labels may be missing; without `t1` a label horizon is
//! needed, because a split purges by it. Numbers go from the file into the table where they stay, through one block:
//! there is no second copy. An id is `n`, and its window ends at row `n · T + T - 1`.
//!
//! **Nothing is filled in.** A sample with a number that is not finite, or without label or time, is left out, counted
//! and said.

mod class;
mod only;
mod order;
mod sizes;
mod times;

pub use only::Only;

use crate::{Input, Problem};
use features::Samples;
use files::{Array, Arrays, Caps, Data, Error, MISSING_TIME, Result, Source};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// How to read a file of ready arrays.
#[derive(Debug, Clone)]
pub struct ReadSpec {
    /// After how many times of its symbol a label is known; needed where there is no `t1`, refused where there is.
    pub label_horizon: Option<usize>,
    /// Bytes that may be taken.
    pub memory: u64,
    /// Which samples are taken.
    pub only: Only,
}

/// Names of labels, one of which a file must have.
const LABELS: [&str; 3] = ["y", "labels", "label"];

/// Whether a file of arrays is one of ready arrays and not of bars, by its headers.
///
/// # Errors
///
/// Where it cannot be opened as arrays.
pub fn is_ready(path: &Path) -> Result<bool> {
    // Only headers are read here, so what would inflate to how much is asked later.
    let caps = Caps { inflated: u64::MAX, ratio: 2000, ..Caps::default() };
    let arrays = Arrays::open(&Source::open(path)?, &caps)?;
    let named = |names: &[&str]| arrays.heads().iter().any(|head| names.contains(&head.name.as_str()));
    // Windows of whatever name are no bars, which have a row for each; and X is a ticker too, but of an array that has
    // no labels beside it.
    let windows = arrays.heads().iter().any(|head| head.shape.len() == 3);
    Ok(windows || named(&["x_fast", "x_slow", "x_strategy"]) || (named(&["x", "X"]) && named(&LABELS)))
}

/// What a file of ready arrays holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// What there is to learn from.
    pub problem: Problem,
    /// What was guessed, left out or put in order, a sentence each.
    pub notes: Vec<String>,
    /// Names of the symbols, in the order of their appearance; none where there is no `symbol`.
    pub symbols: Vec<String>,
    /// `[ids]` which of them each is.
    pub symbol: Option<Vec<u32>>,
    /// `[ids]` the price at `t0`.
    pub close: Option<Vec<f64>>,
    /// Whether there is a `t0`; else the order of time is believed, not known.
    pub timed: bool,
}

/// Reads a file of ready arrays. `progress` hears how many bytes are done and how many there are; its error ends the
/// reading.
pub fn read(path: &Path, spec: &ReadSpec, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<Ready> {
    // Overlapping windows deflate far better than bars do, and what may be inflated is known from the headers: the
    // budget is the cap.
    let caps = Caps { inflated: spec.memory.saturating_mul(4).max(1 << 30), ratio: 2000, ..Caps::default() };
    let source = Source::open(path)?;
    let arrays = Arrays::open(&source, &caps)?;
    from_arrays(&arrays, spec, progress).map_err(|e| e.at(path))
}

fn from_arrays(arrays: &Arrays, spec: &ReadSpec, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<Ready> {
    let sizes = sizes::Sizes::of(arrays)?;
    times::check_horizon(spec, sizes.t1.is_some())?;
    spec.only.check(&sizes)?;
    sizes.check_memory(spec.memory)?;
    let n = sizes.n;
    let mut notes = sizes.notes.clone();
    let mut reader = Reader { arrays, hash: Xxh3::new(), done: 0, all: sizes.bytes(), progress };

    // What is small comes first: what is wrong with it is said before the long reading.
    let labels = class::classes(&reader.whole(&sizes.labels)?, &mut notes)?;
    let (symbols, symbol) = match &sizes.symbol {
        Some(name) => names(reader.whole(name)?)?,
        None => (Vec::new(), None),
    };
    let t0 = sizes.t0.as_ref().map(|name| times::moments(&reader.whole(name)?, &mut notes)).transpose()?;
    let t1 = sizes.t1.as_ref().map(|name| times::moments(&reader.whole(name)?, &mut notes)).transpose()?;
    spec.only.check_clock(t0.as_ref())?;
    let close = sizes.close.as_ref().map(|name| prices(reader.whole(name)?, &mut notes)).transpose()?;
    let times = times::Times::new(n, t0, t1, symbol.as_deref(), symbols.len(), spec, &mut notes)?;

    let mut inputs = Vec::with_capacity(sizes.inputs.len());
    for branch in &sizes.inputs {
        let mut values = vec![0.0; n * branch.t * branch.stride];
        reader.rows(&branch.array, branch.stride, &mut values)?;
        let map = (branch.t > 1).then(|| (1..=n).map(|id| (id * branch.t - 1) as u32).collect());
        inputs.push(Input {
            name: branch.name.to_string(),
            columns: (0..branch.f).map(|i| i.to_string()).collect(),
            stride: branch.stride,
            values,
            map,
            window: branch.t,
        });
    }
    let mut hash = reader.hash;
    order::check(&inputs, &times.t0, sizes.t0.is_some())?;

    let finite = finite(n, &inputs);
    let lost = finite.iter().filter(|f| !**f).count();
    if lost == n {
        return Err(Error::input("every sample holds a number that is not finite (NaN, or beyond the range of f32)")
            .remedy("look at np.isnan(x).sum(axis=0); leave out the columns that are never there"));
    }
    if lost > 0 {
        notes.push(format!("{lost} of {n} samples hold a number that is not finite, and are left out"));
    }
    let taken = spec.only.taken(&times, &symbols, symbol.as_deref(), &mut notes)?;
    if let Some(taken) = &taken {
        // Other samples of one file are other data.
        taken.iter().for_each(|taken| hash.update(&[u8::from(*taken)]));
    }
    let taken = |id: usize| taken.as_ref().is_none_or(|taken| taken[id]);
    let use_it =
        |id: usize| finite[id] && labels.class[id] != features::labels::NONE && times.is_known(id) && taken(id);
    let samples = samples(&labels.class, &times, use_it);
    class::check(&samples, labels.classes, &mut notes)?;
    if close.is_none() {
        notes.push("there are no prices (close), so only classification is judged".to_string());
    }
    let data = format!("{:016x}", hash.digest());
    let problem = Problem { inputs, ids: n, classes: labels.classes, samples, data, ..Problem::default() };
    Ok(Ready { problem, notes, symbols, symbol, close, timed: sizes.t0.is_some() })
}

/// Reads arrays, and hashes and counts what goes by.
struct Reader<'a> {
    arrays: &'a Arrays,
    hash: Xxh3,
    done: u64,
    all: u64,
    progress: &'a mut dyn FnMut(u64, u64) -> Result<()>,
}

impl Reader<'_> {
    fn whole(&mut self, name: &str) -> Result<Array> {
        self.with(name, |arrays, seen| arrays.read(name, seen))
    }

    fn rows(&mut self, name: &str, stride: usize, out: &mut [f32]) -> Result<()> {
        self.with(name, |arrays, seen| arrays.read_f32(name, stride, out, seen))
    }

    fn with<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Arrays, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<T>,
    ) -> Result<T> {
        if let Some(head) = self.arrays.head(name) {
            self.hash.update(format!("{name} {} {:?} {}\n", head.dtype, head.shape, head.fortran).as_bytes());
        }
        let (hash, done, all) = (&mut self.hash, &mut self.done, self.all);
        let progress = &mut *self.progress;
        read(self.arrays, &mut |bytes| {
            hash.update(bytes);
            *done += bytes.len() as u64;
            progress(*done, all)
        })
    }
}

/// `[n]` whether all numbers of a sample are finite.
fn finite(n: usize, inputs: &[Input]) -> Vec<bool> {
    let one = |id: usize| {
        inputs.iter().all(|input| {
            let len = input.window * input.stride;
            // Without a way out of the loop it becomes lanes.
            input.values[id * len..(id + 1) * len].iter().fold(true, |all, x| all & x.is_finite())
        })
    };
    (0..n).into_par_iter().with_min_len(256).map(one).collect()
}

/// The usable ids in the order of time.
fn samples(class: &[i8], times: &times::Times, use_it: impl Fn(usize) -> bool) -> Samples {
    let rows: Vec<u32> = times.order.iter().copied().filter(|id| use_it(*id as usize)).collect();
    let of = |column: &[i64]| rows.iter().map(|id| column[*id as usize]).collect();
    Samples {
        t0: of(&times.t0),
        t1: of(&times.t1),
        class: rows.iter().map(|id| class[*id as usize]).collect(),
        weight: times.weights(&rows),
        rows,
    }
}

/// The distinct names and which of them each id has.
fn names(array: Array) -> Result<(Vec<String>, Option<Vec<u32>>)> {
    let mut names: Vec<String> = Vec::new();
    let mut codes: HashMap<String, u32> = HashMap::new();
    let mut code = |name: &str| match codes.get(name) {
        Some(code) => *code,
        None => {
            let code = names.len() as u32;
            codes.insert(name.to_string(), code);
            names.push(name.to_string());
            code
        }
    };
    let symbol = match &array.data {
        Data::I64(v) => {
            // Numbers repeat; what they are in words is asked only once each.
            let mut known: HashMap<i64, u32> = HashMap::new();
            v.iter().map(|x| *known.entry(*x).or_insert_with(|| code(&x.to_string()))).collect()
        }
        Data::Text(text) => text.iter().map(&mut code).collect(),
        _ => {
            return Err(Error::input(format!("{} holds neither whole numbers nor strings", array.name))
                .remedy(format!("np.savez(path, ..., {0}=np.asarray({0}, dtype=str))", array.name)));
        }
    };
    Ok((names, Some(symbol)))
}

fn prices(array: Array, notes: &mut Vec<String>) -> Result<Vec<f64>> {
    let name = &array.name;
    let prices: Vec<f64> = match array.data {
        Data::F64(v) => v,
        Data::I64(v) => v.into_iter().map(|x| x as f64).collect(),
        _ => {
            return Err(Error::input(format!("{name} does not hold numbers"))
                .remedy(format!("np.savez(path, ..., {name}=np.asarray({name}, dtype=np.float64))")));
        }
    };
    let wrong = prices.iter().filter(|p| !(p.is_finite() && **p > 0.0)).count();
    if wrong > 0 {
        notes.push(format!("{wrong} of {} prices ({name}) are no positive numbers", prices.len()));
    }
    Ok(prices)
}

/// "no time" of both clocks.
const NO_TIME: i64 = MISSING_TIME;
