//! Numbers for a narrow place.

/// Four digits or so: `0.1042`, `12.30`, `81,200`.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "-".into(),
        0.0 => "0".into(),
        size if !(1e-4..1e7).contains(&size) => format!("{value:.2e}"),
        size if size >= 1e3 => grouped(value),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// A place on an axis: whole numbers as they are.
pub(super) fn place(x: f64) -> String {
    if x.abs() < 1e15 { grouped(x) } else { format!("{x:.2e}") }
}

/// `12.1 GB`
pub(super) fn amount(bytes: u64) -> String {
    let (unit, name) = unit(bytes);
    format!("{} {name}", short(bytes as f64 / unit))
}

/// `12.1 of 139 GB`
pub(super) fn part(bytes: u64, of: u64) -> String {
    let (unit, name) = unit(of);
    format!("{} of {} {name}", short(bytes as f64 / unit), short(of as f64 / unit))
}

/// `42 s`, `3 min 20 s`, `2 h 5 min`
pub(super) fn span(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "-".into(),
        s if s < 10.0 => format!("{:.1} s", s.max(0.0)),
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{} min {} s", s as u64 / 60, s as u64 % 60),
        s if s < 86_400.0 => format!("{} h {} min", s as u64 / 3600, s as u64 / 60 % 60),
        s => format!("{} d {} h", s as u64 / 86_400, s as u64 / 3600 % 24),
    }
}

/// `valid mcc` for `valid_mcc`; `samples/s` for `samples_per_s`.
pub(super) fn words(name: &str) -> String {
    match name.strip_suffix("_per_s") {
        Some(what) => format!("{}/s", what.replace('_', " ")),
        None => name.replace('_', " "),
    }
}

fn unit(bytes: u64) -> (f64, &'static str) {
    match bytes {
        1_000_000_000.. => (1e9, "GB"),
        1_000_000.. => (1e6, "MB"),
        _ => (1e3, "kB"),
    }
}

fn short(value: f64) -> String {
    if value >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_plain() {
        for (value, text) in [
            (0.0, "0"),
            (0.104_21, "0.1042"),
            (-0.104_21, "-0.1042"),
            (1.234_56, "1.235"),
            (123.456, "123.5"),
            (81_200.4, "81,200"),
            (1.5e9, "1.50e9"),
            (1e-7, "1.00e-7"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(
            [span(3.21), span(200.0), span(7500.0), span(200_000.0)],
            ["3.2 s", "3 min 20 s", "2 h 5 min", "2 d 7 h"]
        );
        assert_eq!([amount(512_300_000), part(12_100_000_000, 139_000_000_000)], ["512 MB", "12.1 of 139 GB"]);
        assert_eq!([words("samples_per_s"), words("valid_mcc"), place(12_000.0)], ["samples/s", "valid mcc", "12,000"]);
    }
}
