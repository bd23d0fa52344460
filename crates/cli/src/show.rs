//! Dates, tables and paragraphs, within 100 columns.

/// The width everything keeps to.
pub(crate) const WIDTH: usize = 100;

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
pub(crate) fn table(heads: &[impl AsRef<str>], rows: &[Vec<String>], indent: &str) -> String {
    let name = |h: &str| h.trim_start_matches('>').to_string();
    let long = |s: &str| s.chars().count();
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(i, h)| {
            rows.iter()
                .filter_map(|r| r.get(i))
                .map(|c| long(c).min(36))
                .max()
                .unwrap_or(0)
                .max(long(&name(h.as_ref())))
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
            if heads[i].as_ref().starts_with('>') {
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
    line(&heads.iter().map(|h| name(h.as_ref())).collect::<Vec<_>>());
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
    fn dates_are_shortened() {
        assert_eq!(date("2024-03-01T14:30:00Z"), "2024-03-01 14:30");
        assert_eq!(date("2024-03-01T00:00:00Z"), "2024-03-01");
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
