//! What the values of an array are: numbers, times, text, of either byte order.

use super::header::Py;
use crate::error::{Error, Result};
use crate::table::{Data, MISSING_TIME, Text};

/// Characters of a fixed-width string.
const WIDTH: usize = 1 << 16;

/// One field of a structured array, or the array itself.
pub(super) struct Field {
    pub name: String,
    pub kind: Kind,
    pub width: usize, // bytes; characters for `Wide`
    pub big: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Bool,
    Int,
    Uint,
    Float,
    Time { step: i64 }, // nanoseconds of one unit
    Narrow,             // bytes as text
    Wide,               // UTF-32 text
    Skip,               // padding
}

/// The fields of an array; one without a name where it is not structured.
pub(super) fn fields(descr: &Py) -> Result<Vec<Field>> {
    let complex = || {
        Error::input("it is a structured array with nested or titled fields, which is not read")
            .remedy("save its fields apart: np.savez(path, **{k: a[k] for k in a.dtype.names})")
    };
    match descr {
        Py::Str(code) => Ok(vec![Field::parse(String::new(), code)?]),
        Py::Seq(list) if list.len() <= 4096 => list
            .iter()
            .map(|item| match item {
                Py::Seq(pair) => match &pair[..] {
                    [Py::Str(name), Py::Str(code)] if name.is_empty() && code.starts_with("|V") => {
                        let width = code[2..].parse().ok().filter(|w| *w <= WIDTH).ok_or_else(complex)?;
                        Ok(Field { name: String::new(), kind: Kind::Skip, width, big: false })
                    }
                    [Py::Str(name), Py::Str(code)] => Field::parse(name.clone(), code),
                    _ => Err(complex()),
                },
                _ => Err(complex()),
            })
            .collect(),
        _ => Err(complex()),
    }
}

impl Field {
    pub(super) fn parse(name: String, code: &str) -> Result<Field> {
        let unknown = || {
            Error::input(format!("arrays of dtype {code} are not read")).remedy(
                "convert it: a.astype('float64') for numbers, a.astype('datetime64[ns]') for times, a.astype('U32') for names",
            )
        };
        let (order, rest) = match code.as_bytes().first() {
            Some(order @ (b'<' | b'>' | b'|' | b'=')) => (*order, &code[1..]),
            _ => (b'|', code),
        };
        let mut letters = rest.chars();
        let letter = letters.next().ok_or_else(unknown)?;
        let rest = letters.as_str();
        if letter == 'O' {
            return Err(Error::input("it is an object array, which holds Python pickles and is not read")
                .remedy("convert it first: np.savez(path, **{k: v.astype('float64') for k, v in arrays.items()})"));
        }
        let (width, unit) = rest.split_at(rest.find('[').unwrap_or(rest.len()));
        let width: usize = width.parse().map_err(|_| unknown())?;
        let kind = match (letter, width, unit) {
            ('b', 1, "") => Kind::Bool,
            ('i', 1 | 2 | 4 | 8, "") => Kind::Int,
            ('u', 1 | 2 | 4 | 8, "") => Kind::Uint,
            ('f', 2 | 4 | 8, "") => Kind::Float,
            ('M', 8, unit) => Kind::Time { step: step(unit).ok_or_else(unknown)? },
            ('S' | 'a', 0..=WIDTH, "") => Kind::Narrow,
            ('U', 0..=WIDTH, "") => Kind::Wide,
            _ => return Err(unknown()),
        };
        Ok(Field { name, kind, width, big: order == b'>' })
    }

    /// Bytes of one value.
    pub(super) fn size(&self) -> usize {
        if self.kind == Kind::Wide { self.width * 4 } else { self.width }
    }

    pub(super) fn read(&self, items: &Items<'_>) -> Result<Data> {
        Ok(match self.kind {
            Kind::Bool => Data::I64(items.iter().map(|b| i64::from(b[0] != 0)).collect()),
            Kind::Int => Data::I64(items.iter().map(|b| self.int(b)).collect()),
            Kind::Uint if self.width == 8 => {
                let values: Vec<u64> = items.iter().map(|b| self.bits(b)).collect();
                if values.iter().all(|v| i64::try_from(*v).is_ok()) {
                    Data::I64(values.into_iter().map(|v| v as i64).collect())
                } else {
                    Data::F64(values.into_iter().map(|v| v as f64).collect())
                }
            }
            Kind::Uint => Data::I64(items.iter().map(|b| self.bits(b) as i64).collect()),
            Kind::Float => Data::F64(items.iter().map(|b| self.float(b)).collect()),
            Kind::Time { step } => {
                let mut ns = Vec::with_capacity(items.count);
                for (i, bytes) in items.iter().enumerate() {
                    let value = self.bits(bytes) as i64;
                    // Not-a-time is the smallest integer in numpy too.
                    let value = if value == i64::MIN { Some(MISSING_TIME) } else { value.checked_mul(step) };
                    ns.push(value.ok_or_else(|| {
                        Error::input(format!("value {i} is a date outside the years 1677 to 2262"))
                            .remedy("check the unit of the datetime64 array")
                    })?);
                }
                Data::Time { ns, utc: true }
            }
            Kind::Narrow | Kind::Wide => {
                let mut text = Text::default();
                let mut one = String::new();
                for bytes in items.iter() {
                    one.clear();
                    if self.kind == Kind::Narrow {
                        let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
                        match std::str::from_utf8(&bytes[..end]) {
                            Ok(s) => one.push_str(s),
                            Err(_) => one.extend(bytes[..end].iter().map(|b| char::from(*b))),
                        }
                    } else {
                        for unit in bytes.chunks_exact(4) {
                            one.push(char::from_u32(self.bits(unit) as u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                        }
                        one.truncate(one.trim_end_matches('\0').len());
                    }
                    text.push(&one);
                }
                Data::Text(text)
            }
            Kind::Skip => Data::F64(Vec::new()),
        })
    }

    /// The value's bits, lowest first.
    pub(super) fn bits(&self, bytes: &[u8]) -> u64 {
        let fold = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
        if self.big { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
    }

    pub(super) fn int(&self, bytes: &[u8]) -> i64 {
        let unused = 64 - 8 * bytes.len() as u32;
        ((self.bits(bytes) << unused) as i64) >> unused
    }

    fn float(&self, bytes: &[u8]) -> f64 {
        match self.width {
            2 => f64::from(half(self.bits(bytes) as u16)),
            4 => f64::from(f32::from_bits(self.bits(bytes) as u32)),
            _ => f64::from_bits(self.bits(bytes)),
        }
    }
}

/// Nanoseconds of a `datetime64` unit such as `[ms]` or `[15m]`; years and months have no fixed length, and finer units
/// no room.
fn step(unit: &str) -> Option<i64> {
    let unit = unit.strip_prefix('[')?.strip_suffix(']')?;
    let (many, unit) = unit.split_at(unit.find(|c: char| !c.is_ascii_digit())?);
    let many: i64 = if many.is_empty() { 1 } else { many.parse().ok()? };
    let ns = match unit {
        "ns" => 1,
        "us" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "D" => 86_400_000_000_000,
        "W" => 604_800_000_000_000,
        _ => return None,
    };
    many.checked_mul(ns).filter(|step| *step > 0)
}

/// IEEE half precision, without a loss.
#[inline]
pub(super) fn half(bits: u16) -> f32 {
    let (sign, rest) = (u32::from(bits >> 15) << 31, u32::from(bits & 0x7fff) << 13);
    // The same digits with the wider exponent's offset; subnormal halves come out by the product, which rounds nothing
    // away.
    let number = f32::from_bits(rest) * f32::from_bits((254 - 15) << 23);
    let special = if rest >= 31 << 23 { 255 << 23 } else { 0 };
    f32::from_bits(number.to_bits() | special | sign)
}

/// The values of one field, one after another.
pub(super) struct Items<'a> {
    pub body: &'a [u8],
    pub count: usize,
    pub stride: usize,
    pub offset: usize,
    pub size: usize,
}

impl<'a> Items<'a> {
    fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        let (body, stride, offset, size) = (self.body, self.stride, self.offset, self.size);
        (0..self.count).map(move |i| &body[i * stride + offset..][..size])
    }
}

/// From Fortran order (the first axis runs fastest) to C order.
pub(super) fn c_order(data: Data, shape: &[usize]) -> Data {
    let n = data.len();
    let mut strides = Vec::with_capacity(shape.len()); // in the Fortran layout
    let mut stride = 1;
    for axis in shape {
        strides.push(stride);
        stride *= axis;
    }
    let mut at = vec![0; shape.len()];
    let mut from = 0;
    let mut order = Vec::with_capacity(n);
    for _ in 0..n {
        order.push(from);
        for axis in (0..shape.len()).rev() {
            at[axis] += 1;
            from += strides[axis];
            if at[axis] < shape[axis] {
                break;
            }
            from -= strides[axis] * shape[axis];
            at[axis] = 0;
        }
    }
    match data {
        Data::F64(v) => Data::F64(order.iter().map(|i| v[*i]).collect()),
        Data::I64(v) => Data::I64(order.iter().map(|i| v[*i]).collect()),
        Data::Time { ns, utc } => Data::Time { ns: order.iter().map(|i| ns[*i]).collect(), utc },
        Data::Text(text) => {
            let mut out = Text::default();
            order.iter().for_each(|i| out.push(text.get(*i)));
            Data::Text(out)
        }
        other => other,
    }
}
