//! Figures, dates and tables for the eye, within 100 columns.

/// The width everything keeps to.
pub(crate) const WIDTH: usize = 100;

/// `818,750`
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// `1 file`, `3 files`
pub(crate) fn plural(n: u64, noun: &str) -> String {
    let end = match (n, noun) {
        (1, _) => "",
        (_, "series") => "",
        _ => "s",
    };
    format!("{} {noun}{end}", count(n))
}

/// `3.42 M`
pub(crate) fn short(value: f64) -> String {
    let (unit, name) = match value.abs() {
        v if v >= 1e9 => (1e9, " G"),
        v if v >= 1e6 => (1e6, " M"),
        v if v >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let v = value / unit;
    if name.is_empty() && v.fract() == 0.0 {
        format!("{v:.0}")
    } else if v.abs() >= 100.0 {
        format!("{v:.0}{name}")
    } else if v.abs() >= 10.0 {
        format!("{v:.1}{name}")
    } else {
        format!("{v:.2}{name}")
    }
}

/// `1.23 GB`
pub(crate) fn bytes(n: u64) -> String {
    let v = n as f64;
    match v {
        v if v >= 1e9 => format!("{} GB", short(v / 1e9).trim()),
        v if v >= 1e6 => format!("{} MB", short(v / 1e6)),
        v if v >= 1e3 => format!("{} kB", short(v / 1e3)),
        _ => format!("{n} B"),
    }
}

/// `0.42 s`, `3 min 20 s`
pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if !s.is_finite() => "unknown time".to_string(),
        s if s < 0.001 => "1 ms".to_string(),
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{} min {} s", s as u64 / 60, s as u64 % 60),
        s => format!("{} h {} min", s as u64 / 3600, s as u64 / 60 % 60),
    }
}

/// `2024-03-01`, with ` 14:30` where it is not midnight, from RFC 3339.
pub(crate) fn date(rfc3339: &str) -> String {
    let Some((day, clock)) = rfc3339.split_once('T') else { return rfc3339.to_string() };
    match clock.get(..5) {
        Some("00:00") | None => day.to_string(),
        Some(minutes) => format!("{day} {minutes}"),
    }
}

/// Rows under headings; numbers (headings that start with `>`) stand at the right; what is too long for the last column
/// is cut.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>], indent: &str) -> String {
    let name = |h: &str| h.trim_start_matches('>').to_string();
    let long = |s: &str| s.chars().count();
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(i, h)| {
            rows.iter().filter_map(|r| r.get(i)).map(|c| long(c).min(36)).max().unwrap_or(0).max(long(&name(h)))
        })
        .collect();
    let mut text = String::new();
    let mut line = |cells: &[String]| {
        let mut row = String::from(indent);
        for (i, cell) in cells.iter().enumerate() {
            let last = i + 1 == cells.len();
            let wide = if last { WIDTH.saturating_sub(long(&row)).max(8) } else { widths[i] };
            let cell = fit(cell, wide);
            let pad = " ".repeat(widths[i].saturating_sub(long(&cell)));
            if heads[i].starts_with('>') {
                row.push_str(&pad);
                row.push_str(&cell);
            } else {
                row.push_str(&cell);
                row.push_str(&pad);
            }
            row.push_str("  ");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    };
    line(&heads.iter().map(|h| name(h)).collect::<Vec<_>>());
    for row in rows {
        line(row);
    }
    text
}

/// Cut to that many characters, with an ellipsis.
pub(crate) fn fit(text: &str, wide: usize) -> String {
    let text = crate::fail::printable(text).replace('\n', " ");
    if text.chars().count() <= wide { text } else { text.chars().take(wide.saturating_sub(1)).chain(['…']).collect() }
}

/// Words wrapped at the width, each line indented, the first one by `first`.
pub(crate) fn wrap(text: &str, first: &str, indent: &str) -> String {
    let text = crate::fail::printable(text).replace('\n', " ");
    let (mut out, mut line) = (String::new(), first.to_string());
    let mut bare = true;
    for word in text.split_whitespace() {
        if !bare && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = indent.to_string();
            bare = true;
        }
        if !bare {
            line.push(' ');
        }
        line.push_str(word);
        bare = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(count(818_750), "818,750");
        assert_eq!(count(7), "7");
        assert_eq!(short(3_420_000.0), "3.42 M");
        assert_eq!(short(12.0), "12");
        assert_eq!(bytes(1_234_567_890), "1.23 GB");
        assert_eq!(bytes(98_200), "98.2 kB");
        assert_eq!(seconds(0.42), "420 ms");
        assert_eq!(seconds(200.0), "3 min 20 s");
        assert_eq!(date("2024-03-01T14:30:00Z"), "2024-03-01 14:30");
        assert_eq!(plural(1, "file"), "1 file");
    }

    #[test]
    fn tables_and_paragraphs_keep_the_width() {
        let rows = vec![
            vec!["A\u{1b}[31m".into(), "1".into(), "word ".repeat(60)],
            vec!["BTC".into(), "1,000".into(), String::new()],
        ];
        let text = table(&["symbol", ">bars", "why"], &rows, "  ");
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH) && !text.contains('\u{1b}'));
        assert!(wrap(&"word ".repeat(60), "- ", "  ").lines().all(|l| l.chars().count() <= WIDTH));
    }
}
