//! Decimal text to f64, exactly rounded and fast.
//!
//! Nearly every number in a file of bars has at most 19 digits, a value below 2^53 without its point, and at most 22
//! decimals. For those `digits / 10^decimals` is one correctly rounded operation on two exact numbers (Clinger's fast
//! path). Everything else goes to the standard library, which is exact too; so both paths give the same bits as any
//! correct parser.

/// How a file writes its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decimal {
    /// `1,234.5` or `1234.5`
    #[default]
    Point,
    /// `1.234,5` or `1234,5`
    Comma,
}

/// What a cell holds where a number is wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A number; infinities are [`Number::Bad`].
    Value(f64),
    /// Nothing: empty, `nan`, `null`, `N/A`, `-`.
    Missing,
    /// Something else.
    Bad,
}

const POW10: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Reads a plain decimal number (`-12.5`, `1e-7`); `None` for anything else, infinities and NaN included.
pub fn parse_f64(cell: &[u8]) -> Option<f64> {
    match scan(cell, 0) {
        Some((value, end)) if end == cell.len() => Some(value),
        _ => slow(cell),
    }
}

/// Reads a cell where a number is wanted: signs, thousands separators, currency signs and K, M, B suffixes included.
pub fn parse_number(cell: &[u8], decimal: Decimal) -> Number {
    let cell = cell.trim_ascii();
    if decimal == Decimal::Point
        && let Some(value) = parse_f64(cell)
    {
        return Number::Value(value);
    }
    if is_missing(cell) {
        return Number::Missing;
    }
    lenient(cell, decimal).map_or(Number::Bad, Number::Value)
}

/// The fast path: a number that begins at `at`; gives the value and where it ends. `None` means "not me", not "no
/// number".
///
/// Digits are taken eight at a time where at most seven stand on either side of the point, which is nearly always.
#[inline(always)]
pub(crate) fn scan(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    let whole_at = at + usize::from(negative);
    if let Some((whole, n)) = digits8(bytes, whole_at)
        && n < 8
    {
        let point = whole_at + n;
        let next = *bytes.get(point)?;
        let (value, end) = if next != b'.' {
            if n == 0 {
                return None;
            }
            (whole as i64 as f64, point)
        } else if let Some((fraction, m)) = digits8(bytes, point + 1)
            && m < 8
            && n + m > 0
        {
            // At most 14 digits: the sum is exact, and so is the power of ten.
            // (Signed, because that conversion is one instruction.)
            ((whole * POW10_WHOLE[m] + fraction) as i64 as f64 / POW10[m], point + 1 + m)
        } else {
            return scan_any(bytes, at);
        };
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            return None;
        }
        return Some((if negative { -value } else { value }, end));
    }
    scan_any(bytes, at)
}

const POW10_WHOLE: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The digits among the next eight bytes, as a number, and how many they are; `None` where fewer than eight bytes are
/// left.
#[inline(always)]
fn digits8(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let raw = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
    // A byte is a digit if its high half is 3, and still is after adding 6.
    let high = 0xF0F0_F0F0_F0F0_F0F0u64;
    let threes = 0x3030_3030_3030_3030u64;
    let odd = ((raw & high) ^ threes) | ((raw.wrapping_add(0x0606_0606_0606_0606) & high) ^ threes);
    let n = (odd.trailing_zeros() / 8) as usize;
    if n == 0 {
        return Some((0, 0));
    }
    // Leading zeros shift the digits to the end; then pairs, quadruples and the whole are joined by three products.
    let v = (raw ^ threes) << (64 - 8 * n);
    let v = (v & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(2561) >> 8;
    let v = (v & 0x00FF_00FF_00FF_00FF).wrapping_mul(6_553_601) >> 16;
    let v = (v & 0x0000_FFFF_0000_FFFF).wrapping_mul(42_949_672_960_001) >> 32;
    Some((v, n))
}

/// Any number of digits, one at a time.
fn scan_any(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let mut i = at;
    let negative = bytes.get(i) == Some(&b'-');
    i += usize::from(negative);
    let digits_at = i;
    let mut mantissa = 0u64;
    while let Some(d) = digit(bytes, i) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(d);
        i += 1;
    }
    let mut digits = i - digits_at;
    let mut decimals = 0;
    if bytes.get(i) == Some(&b'.') {
        i += 1;
        let from = i;
        while let Some(d) = digit(bytes, i) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(d);
            i += 1;
        }
        decimals = i - from;
        digits += decimals;
    }
    // 19 digits cannot overflow a u64; an exponent is for the slow path.
    if digits == 0 || digits > 19 || mantissa > 1 << 53 || decimals > 22 || matches!(bytes.get(i), Some(b'e' | b'E')) {
        return None;
    }
    let value = mantissa as f64 / POW10[decimals];
    Some((if negative { -value } else { value }, i))
}

#[inline(always)]
fn digit(bytes: &[u8], i: usize) -> Option<u64> {
    let d = bytes.get(i)?.wrapping_sub(b'0');
    (d < 10).then_some(u64::from(d))
}

fn slow(cell: &[u8]) -> Option<f64> {
    // `parse` would also take "inf", "nan" and "infinity".
    if cell.is_empty() || !cell.iter().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')) {
        return None;
    }
    let value: f64 = std::str::from_utf8(cell).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

fn is_missing(cell: &[u8]) -> bool {
    const WORDS: [&[u8]; 9] = [b"", b"nan", b"null", b"none", b"n/a", b"na", b"-", b"#n/a", b"<na>"];
    cell.len() <= 4 && WORDS.iter().any(|w| cell.eq_ignore_ascii_case(w))
}

fn lenient(cell: &[u8], decimal: Decimal) -> Option<f64> {
    if cell.len() > 64 {
        return None;
    }
    let text = std::str::from_utf8(cell).ok()?;
    let text = text.trim_start_matches(['$', '€', '£', '¥', '₹', '+']).trim();
    let (text, scale) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 1e3),
        b'M' | b'm' => (&text[..text.len() - 1], 1e6),
        b'B' | b'b' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let (point, thousands) = match decimal {
        Decimal::Point => ('.', [',', '\'']),
        Decimal::Comma => (',', ['.', '\'']),
    };
    let (whole, fraction) = text.split_once(point).unwrap_or((text, ""));
    // Separators must stand before groups of exactly three, or this is no number in this style.
    let mut groups = whole.split(thousands);
    let first = groups.next()?.trim_start_matches('-');
    let grouped = whole.contains(thousands);
    if grouped && (first.is_empty() || first.len() > 3 || groups.any(|g| g.len() != 3)) {
        return None;
    }
    if fraction.contains(thousands) {
        return None;
    }
    let mut plain: String = whole.chars().filter(|c| !thousands.contains(c)).collect();
    if !fraction.is_empty() {
        plain.push('.');
        plain.push_str(fraction);
    }
    Some(slow(plain.as_bytes())? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_real_files_are_read() {
        let cases: [(&str, f64); 15] = [
            ("1", 1.0),
            ("-2.5", -2.5),
            ("0.00162008", 0.00162008),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e-7", 1e-7),
            ("104414.99999999999", 104414.99999999999),
            ("20.674667358398438", 20.674667358398438),
            ("1E5", 1e5),
            ("+3", 3.0),
            ("00012", 12.0),
            ("9007199254740993", 9007199254740993.0),
            ("123456789012345678901", 1.2345678901234568e20),
            ("-0", -0.0),
            ("1e308", 1e308),
        ];
        for (text, value) in cases {
            assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(value.to_bits()), "{text}");
        }
        for text in ["", "-", ".", "1.2.3", "1-2", "inf", "nan", "1e400", "0x10", "1 2", "e5", "--1"] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn common_spellings_are_read() {
        use Decimal::{Comma, Point};
        for (text, style, expected) in [
            ("4,787,699", Point, Number::Value(4787699.0)),
            ("1.234,5", Comma, Number::Value(1234.5)),
            ("1,0523", Comma, Number::Value(1.0523)),
            ("$270.49", Point, Number::Value(270.49)),
            ("12.5K", Point, Number::Value(12500.0)),
            ("nan", Point, Number::Missing),
            ("", Comma, Number::Missing),
            (" - ", Point, Number::Missing),
            ("N/A", Point, Number::Missing),
            ("abc", Point, Number::Bad),
            ("inf", Point, Number::Bad),
            ("1,23", Point, Number::Bad),
            ("1,2345", Point, Number::Bad),
        ] {
            assert_eq!(parse_number(text.as_bytes(), style), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn equals_the_standard_library(bits in any::<u64>(), decimals in 0usize..20) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            for text in [format!("{value}"), format!("{value:e}"), format!("{:.*}", decimals, value % 1e6)] {
                let std: f64 = text.parse().unwrap();
                prop_assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(std.to_bits()), "{}", text);
            }
        }
    }
}
