//! Numbers as people read them: counts, sizes, durations, measured values.
//!
//! One place, so that the terminal, the report page and error messages agree. Sizes are in binary units (`1.5 GiB`), as
//! memory settings are; bandwidth is in `GB/s`, as vendors quote it.

/// `818,750`
pub fn format_count(n: u64) -> String {
    group_digits(&n.to_string())
}

/// A count with its noun: `1 file`, `3,000 files`, `2 series`.
pub fn format_plural(n: u64, noun: &str) -> String {
    let end = if n == 1 || noun.ends_with("series") { "" } else { "s" };
    format!("{} {noun}{end}", format_count(n))
}

/// `50, 24 and 1`, with the last word joined by `and`, `or` and the like.
pub fn format_list(words: &[impl AsRef<str>], join: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, rest @ [_, ..])) => format!("{} {join} {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// A large number with a prefix, three digits: `3.42 M`, `12.5 k`, `950`.
pub fn format_short(value: f64) -> String {
    let (unit, name) = match value.abs() {
        v if v >= 1e9 => (1e9, " G"),
        v if v >= 1e6 => (1e6, " M"),
        v if v >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let v = value / unit;
    let decimals = match v.abs() {
        _ if name.is_empty() && v.fract() == 0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{v:.decimals$}{name}")
}

/// A measured value with that many significant digits: `0.1042`, `12.35`, `81,200`, `1.50e9`.
pub fn format_number(value: f64, digits: usize) -> String {
    let size = value.abs();
    if !size.is_finite() {
        return "n/a".into();
    }
    if size == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.0$e}", digits.saturating_sub(2));
    }
    let decimals = (digits as i32 - 1 - size.log10().floor() as i32).clamp(0, digits as i32) as usize;
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, rest)) => format!("{}.{rest}", group_digits(whole)),
        None => group_digits(&text),
    }
}

/// A value with that many decimals, and no minus before what is rounded to zero: `12.35`, `0`.
pub fn format_fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_string(),
        _ => text,
    }
}

/// `1.5 GiB`, `512 MiB`, `900 bytes`
pub fn format_bytes(n: u64) -> String {
    match byte_unit(n) {
        (1, _) => format_plural(n, "byte"),
        (unit, name) => format!("{} {name}", three_digits(n as f64 / unit as f64)),
    }
}

/// Part of a whole, in the unit of the whole: `12.1 of 139 GiB`.
pub fn format_bytes_of(part: u64, whole: u64) -> String {
    let (unit, name) = byte_unit(whole);
    let [part, whole] = [part, whole].map(|n| three_digits(n as f64 / unit as f64));
    format!("{part} of {whole} {name}")
}

/// `12.1 GB/s`
pub fn format_bandwidth(bytes_per_s: f64) -> String {
    format!("{} GB/s", format_number(bytes_per_s / 1e9, 3))
}

/// `420 ms`, `3.2 s`, `3 min 20 s`, `2 h 5 min`, `2 d 7 h`
pub fn format_seconds(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "an unknown time".into(),
        s if s < 0.0015 => "1 ms".into(),
        s if s < 0.9995 => format!("{:.0} ms", s * 1000.0),
        s if s < 59.95 => format!("{s:.1} s"),
        s => match s.round() as u64 {
            s if s < 3600 => format!("{} min {} s", s / 60, s % 60),
            s if s < 86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
            s => format!("{} d {} h", s / 86_400, s / 3600 % 24),
        },
    }
}

fn byte_unit(n: u64) -> (u64, &'static str) {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    units.into_iter().find(|(size, _)| n >= *size).unwrap_or((1, "bytes"))
}

fn three_digits(value: f64) -> String {
    if value >= 99.95 || value == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Commas between groups of three digits; a sign stays in front.
fn group_digits(text: &str) -> String {
    let digits = text.trim_start_matches('-');
    let mut grouped = text[..text.len() - digits.len()].to_string();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(c);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_nouns() {
        assert_eq!([0, 7, 999, 1000, 818_750].map(format_count), ["0", "7", "999", "1,000", "818,750"]);
        let nouns = [(0, "fold"), (1, "fold"), (2000, "fold"), (2, "series"), (1, "time series")];
        let texts = ["0 folds", "1 fold", "2,000 folds", "2 series", "1 time series"];
        assert_eq!(nouns.map(|(n, noun)| format_plural(n, noun)), texts);
        let lists: [&[&str]; 4] = [&[], &["a"], &["a", "b"], &["a", "b", "c"]];
        assert_eq!(lists.map(|words| format_list(words, "or")), ["", "a", "a or b", "a, b or c"]);
        assert_eq!([3_420_000.0, 12.0, 12_500.0, 7.5].map(format_short), ["3.42 M", "12", "12.5 k", "7.50"]);
    }

    #[test]
    fn nothing_is_minus_zero() {
        let shown = [(-0.4, 0), (-0.6, 0), (0.0, 1), (-0.000_04, 4), (-12.345, 2)].map(|(x, n)| format_fixed(x, n));
        assert_eq!(shown, ["0", "-1", "0.0", "0.0000", "-12.35"]);
    }

    #[test]
    fn values_keep_their_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.104_21, "0.1042"),
            (-0.104_21, "-0.1042"),
            (0.001_2, "0.0012"),
            (1.234_56, "1.235"),
            (12.345_6, "12.35"),
            (-1234.56, "-1,235"),
            (81_200.4, "81,200"),
            (1.5e9, "1.50e9"),
            (1e-7, "1.00e-7"),
            (f64::NAN, "n/a"),
        ] {
            assert_eq!(format_number(value, 4), text);
        }
        assert_eq!(format_number(0.104_213_9, 6), "0.104214");
        assert_eq!(format_number(1_234.567_8, 6), "1,234.57");
        assert_eq!(format_bandwidth(1.2345e10), "12.3 GB/s");
    }

    #[test]
    fn sizes_are_binary() {
        let sizes = [0, 1, 900, 1 << 10, 64 << 20, 512 << 20, 3 << 29, 5 << 40];
        let texts = ["0 bytes", "1 byte", "900 bytes", "1.0 KiB", "64.0 MiB", "512 MiB", "1.5 GiB", "5.0 TiB"];
        assert_eq!(sizes.map(format_bytes), texts);
        assert_eq!(format_bytes_of(12 << 30, 139 << 30), "12.0 of 139 GiB");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let spans = [0.0, 0.42, 3.21, 59.97, 200.0, 7500.0, 200_000.0];
        assert_eq!(
            spans.map(format_seconds),
            ["1 ms", "420 ms", "3.2 s", "1 min 0 s", "3 min 20 s", "2 h 5 min", "2 d 7 h"]
        );
    }
}
