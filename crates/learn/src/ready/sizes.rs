//! What is in the file and what it will need, from headers alone.

use files::{ArrayHead, Arrays, Error, Kind, Result, format_bytes};

/// The arrays that will be read, with their sizes.
pub(super) struct Sizes {
    /// Samples.
    pub n: usize,
    pub inputs: Vec<Branch>,
    pub labels: String,
    pub t0: Option<String>,
    pub t1: Option<String>,
    pub symbol: Option<String>,
    pub close: Option<String>,
    /// What is in the file beside them.
    pub notes: Vec<String>,
    small: u64,   // bytes of the arrays with one value a sample
    largest: u64, // of them
    large: u64,   // bytes of the inputs
}

/// One input: `[n, t, f]` numbers.
pub(super) struct Branch {
    pub name: &'static str,
    pub array: String,
    pub t: usize,
    pub f: usize,
    pub stride: usize,
}

/// Bytes a sample takes beside its numbers: times, order, class, weight, symbol, price, and what they are made from.
const BESIDE: u64 = 160;
/// The block between the file and the rows, and what its readers keep.
const BLOCKS: u64 = 32 << 20;

impl Sizes {
    pub(super) fn of(arrays: &Arrays) -> Result<Sizes> {
        let there = |name: &&str| arrays.head(name).is_some();
        let first = |names: &[&'static str]| names.iter().copied().find(|name| there(name));
        let mut wanted: Vec<(&'static str, &'static str)> =
            [("fast", "x_fast"), ("slow", "x_slow"), ("strategy", "x_strategy")]
                .into_iter()
                .filter(|x| there(&x.1))
                .collect();
        if wanted.is_empty() {
            wanted.extend(first(&["x", "X"]).map(|x| ("", x)));
        }
        let has = arrays.heads().iter().map(|h| h.name.as_str()).collect::<Vec<_>>().join(", ");
        if wanted.is_empty() {
            return Err(Error::input(format!("there is nothing to learn from: the file has {}", or_nothing(&has)))
                .remedy("name the inputs x_fast [N, T, F], x_slow [N, T, F] or x_strategy [N, F]: np.savez(path, x_fast=x, y=y)"));
        }
        let labels: Vec<&str> = super::LABELS.into_iter().filter(there).collect();
        let labels = match labels[..] {
            [one] => one,
            [] => {
                return Err(Error::input(format!("there are no labels: the file has {}", or_nothing(&has)))
                    .remedy("name them y: np.savez(path, ..., y=np.asarray(y, dtype=np.int8))"));
            }
            [a, b, ..] => {
                return Err(Error::input(format!("{a} and {b} are both in the file, and only one can be the labels"))
                    .remedy("save it with one of them"));
            }
        };
        let mut sizes = Sizes {
            n: 0,
            inputs: Vec::new(),
            labels: labels.to_string(),
            t0: first(&["t0"]).map(str::to_string),
            t1: first(&["t1"]).map(str::to_string),
            symbol: first(&["symbol"]).map(str::to_string),
            close: first(&["close", "price"]).map(str::to_string),
            notes: Vec::new(),
            small: 0,
            largest: 0,
            large: 0,
        };
        for (name, array) in &wanted {
            let Some(head) = arrays.head(array) else { continue };
            let branch = Branch::of(name, head)?;
            if sizes.inputs.is_empty() {
                sizes.n = head.shape[0];
            }
            check_n(head, sizes.n, &sizes.inputs)?;
            sizes.large += head.bytes;
            sizes.inputs.push(branch);
        }
        for name in sizes.small().iter().filter_map(|name| arrays.head(name)) {
            check_object(name)?;
            // A column of one is a list.
            if name.shape.first().copied() != Some(name.count()) || name.shape.is_empty() {
                let hot = sizes.labels == name.name && name.shape.len() == 2;
                let remedy = if hot {
                    format!("{0} = {0}.argmax(axis=1)", name.name)
                } else {
                    format!("{0} = {0}.ravel()", name.name)
                };
                return Err(Error::input(format!("{} has the shape {:?}, it must be [N]", name.name, name.shape))
                    .remedy(remedy));
            }
            check_n(name, sizes.n, &sizes.inputs)?;
            sizes.small += name.bytes;
            sizes.largest = sizes.largest.max(name.bytes);
        }
        let used = |name: &str| sizes.small().iter().any(|s| s == name) || wanted.iter().any(|w| w.1 == name);
        let extras: Vec<String> =
            arrays.heads().iter().filter(|h| !used(&h.name)).map(|h| format!("{} {:?}", h.name, h.shape)).collect();
        if !extras.is_empty() {
            sizes.notes.push(format!("not used: {}", extras.join(", ")));
        }
        Ok(sizes)
    }

    /// Names of the arrays with one value a sample, in the order they are read.
    fn small(&self) -> Vec<String> {
        let optional = [&self.symbol, &self.t0, &self.t1, &self.close];
        [Some(&self.labels)].into_iter().chain(optional.map(Option::as_ref)).flatten().cloned().collect()
    }

    /// Bytes to read, inflated.
    pub(super) fn bytes(&self) -> u64 {
        self.small + self.large
    }

    /// Bytes of memory it takes at most.
    pub(super) fn memory(&self) -> u64 {
        let n = self.n as u64;
        let tables: u64 = self.inputs.iter().map(|b| n * (b.t * b.stride) as u64 * 4 + n * 4).sum();
        tables + n * BESIDE + 2 * self.largest + BLOCKS
    }

    pub(super) fn check_memory(&self, budget: u64) -> Result<()> {
        let need = self.memory();
        if need > budget {
            return Err(Error::new(
                Kind::Memory,
                format!(
                    "its {} samples need {} of memory, the budget is {}",
                    self.n,
                    format_bytes(need),
                    format_bytes(budget)
                ),
            )
            .remedy("give more with <memory>, or save fewer samples or features"));
        }
        Ok(())
    }
}

impl Branch {
    fn of(name: &'static str, head: &ArrayHead) -> Result<Branch> {
        let array = &head.name;
        check_object(head)?;
        if !head.is_number() {
            return Err(Error::input(format!("{array} is of type {}, it must hold numbers", head.dtype))
                .remedy(format!("np.savez(path, ..., {array}=np.asarray({array}, dtype=np.float32))")));
        }
        let wrong = |must: &str, remedy: String| {
            Err(Error::input(format!("{array} has the shape {:?}, it must be {must}", head.shape)).remedy(remedy))
        };
        let (name, n, t, f) = match (name, &head.shape[..]) {
            ("fast" | "slow", [n, t, f]) => (name, *n, *t, *f),
            ("", [n, t, f]) => ("fast", *n, *t, *f),
            ("strategy", [n, f]) => (name, *n, 1, *f),
            ("", [n, f]) => ("strategy", *n, 1, *f),
            ("fast" | "slow", [_, _]) => {
                return wrong(
                    "[N, T, F]",
                    format!("rows without a window are x_strategy; a window of one is {array}[:, None, :]"),
                );
            }
            ("strategy", [_]) => return wrong("[N, F]", format!("one feature is {array}[:, None]")),
            ("strategy", _) => return wrong("[N, F]", "windows are x_fast or x_slow".to_string()),
            ("fast" | "slow", _) => return wrong("[N, T, F]", format!("{array} = {array}.reshape(N, T, F)")),
            _ => return wrong("[N, F] or [N, T, F]", format!("one feature is {array}[:, None]")),
        };
        if n == 0 || t == 0 || f == 0 {
            return wrong("larger than that", "an empty array has nothing to learn from".to_string());
        }
        // Rows are counted in 32 bits, here as everywhere; the product itself was checked with the header.
        if n.checked_mul(t).is_none_or(|rows| rows >= u32::MAX as usize) {
            return Err(Error::input(format!(
                "{array} has the shape {:?}, more rows than 32 bits can count",
                head.shape
            ))
            .remedy("save fewer samples"));
        }
        Ok(Branch { name, array: array.clone(), t, f, stride: f.next_multiple_of(4) })
    }
}

fn check_n(head: &ArrayHead, n: usize, inputs: &[Branch]) -> Result<()> {
    match inputs.first() {
        Some(first) if head.shape[0] != n => Err(Error::input(format!(
            "{} has {} samples, {} has {n}: shapes {:?} and [{n}, ...]",
            head.name, head.shape[0], first.array, head.shape
        ))
        .remedy("every array must have one entry per sample, in the same order")),
        _ => Ok(()),
    }
}

/// Pickles run code when they are opened, so they are never read.
fn check_object(head: &ArrayHead) -> Result<()> {
    if !head.is_object() {
        return Ok(());
    }
    let name = &head.name;
    let kind = match name.as_str() {
        "t0" | "t1" => "'datetime64[ns]'",
        "symbol" => "str",
        "close" | "price" => "np.float64",
        "y" | "labels" | "label" => "np.int8",
        _ => "np.float32",
    };
    Err(Error::input(format!(
        "{name} is an object array of shape {:?}, which holds Python pickles and is not read",
        head.shape
    ))
    .remedy(format!("np.savez(path, ..., {name}=np.asarray({name}, dtype={kind}))")))
}

fn or_nothing(has: &str) -> &str {
    if has.is_empty() { "no array" } else { has }
}
