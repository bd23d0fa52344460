//! Dates, tables and paragraphs, within the terminal; 100 columns where there is none.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// The width where there is no terminal.
const WIDTH: usize = 100;

/// The width everything keeps to: the terminal's, within reason.
fn width() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| match std::io::stdout().is_terminal().then(crossterm::terminal::size) {
        Some(Ok((wide, _))) => usize::from(wide).clamp(40, 140),
        _ => WIDTH,
    })
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
pub(crate) fn table(heads: &[impl AsRef<str>], rows: &[Vec<String>], indent: &str) -> String {
    table_within(heads, rows, indent, width())
}

fn table_within(heads: &[impl AsRef<str>], rows: &[Vec<String>], indent: &str, most: usize) -> String {
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
    // Cells are cut only where a whole row would not fit.
    let natural = |i: usize| rows.iter().filter_map(|r| r.get(i)).map(|c| long(c)).max().unwrap_or(0).max(widths[i]);
    let whole: Vec<usize> = (0..heads.len()).map(natural).collect();
    let fits = long(indent) + whole.iter().map(|w| w + 2).sum::<usize>() <= most + 2;
    let mut widths = if fits { whole.clone() } else { widths };
    // Where the last column would be left with next to nothing, the widest columns of words give way.
    if let Some(last) = heads.len().checked_sub(1) {
        let least = whole[last].min(16);
        let taken = |widths: &[usize]| long(indent) + widths[..last].iter().map(|w| w + 2).sum::<usize>() + least;
        while taken(&widths) > most {
            let words = (0..last).filter(|i| !heads[*i].as_ref().starts_with('>') && widths[*i] > 8);
            let Some(widest) = words.max_by_key(|i| widths[*i]) else { break };
            widths[widest] -= 1;
        }
    }
    let mut text = String::new();
    let mut line = |cells: &[String]| {
        let mut row = String::from(indent);
        for (i, cell) in cells.iter().enumerate() {
            let last = i + 1 == cells.len();
            let wide = if last { most.saturating_sub(long(&row)).max(8) } else { widths[i] };
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

/// The same for rows that begin with a name to type, which is never cut: where rows would be too wide, each name has a
/// line of its own.
pub(crate) fn named_table(heads: &[&str], rows: &[Vec<String>], indent: &str) -> String {
    named_table_within(heads, rows, indent, width())
}

fn named_table_within(heads: &[&str], rows: &[Vec<String>], indent: &str, most: usize) -> String {
    let names: Vec<String> = rows.iter().map(|row| crate::fail::printable(&row[0])).collect();
    let beside = table_within(heads, rows, indent, most);
    if beside.lines().skip(1).zip(&names).all(|(line, name)| line.trim_start().starts_with(name.as_str())) {
        return beside;
    }
    let others: Vec<Vec<String>> = rows.iter().map(|row| row[1..].to_vec()).collect();
    let below = table_within(&heads[1..], &others, &format!("{indent}  "), most);
    let names = std::iter::once(heads[0].to_string()).chain(names);
    names.zip(below.lines()).map(|(name, line)| format!("{indent}{name}\n{line}\n")).collect()
}

/// Cut to that many characters, with an ellipsis.
pub(crate) fn fit(text: &str, wide: usize) -> String {
    let text = crate::fail::printable(text).replace('\n', " ");
    if text.chars().count() <= wide { text } else { text.chars().take(wide.saturating_sub(1)).chain(['…']).collect() }
}

/// Texts that are to stand in a narrow column, without the beginning that they all share: what differs is seen.
pub(crate) fn differing(texts: &[String]) -> Vec<String> {
    let Some(first) = texts.first().filter(|_| texts.len() > 1 && texts.iter().any(|t| t.chars().count() > 36)) else {
        return texts.to_vec();
    };
    let shared = |other: &String| first.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let shared = texts[1..].iter().map(shared).min().unwrap_or(0);
    // Back to the beginning of a word, so that `…rate=1e-3` is read and not `…3`.
    let start: Vec<char> = first.chars().take(shared).collect();
    let word = start.iter().rposition(|c| matches!(c, ' ' | ',' | '+' | '/')).map_or(0, |at| at + 1);
    if word < 8 {
        return texts.to_vec();
    }
    texts.iter().map(|text| format!("…{}", text.chars().skip(word).collect::<String>().trim_start())).collect()
}

/// Lines that are longer than the terminal is wide, broken between words instead of within; colours take no room.
pub(crate) fn break_lines(text: &str, wide: usize) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let (mut at, mut first) = (0, true);
        for word in line.split_inclusive(' ') {
            let long = visible(word.trim_end());
            if !first && long > 0 && at + long > wide && indent.len() + 2 + long <= wide {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                out.push_str(&indent);
                out.push_str("  ");
                at = indent.len() + 2;
            }
            first = first && long == 0;
            out.push_str(word);
            at += visible(word.trim_end_matches('\n'));
        }
    }
    out
}

/// Characters that are seen: all but the codes of colours.
fn visible(text: &str) -> usize {
    let mut within = false;
    let seen = |c: &char| {
        let code = within || *c == '\u{1b}';
        within = code && *c != 'm';
        !code
    };
    text.chars().filter(seen).count()
}

/// Words wrapped at the width, each line indented, the first one by `first`.
pub(crate) fn wrap(text: &str, first: &str, indent: &str) -> String {
    let text = crate::fail::printable(text).replace('\n', " ");
    let (mut out, mut line) = (String::new(), first.to_string());
    let mut bare = true;
    for word in text.split_whitespace() {
        if !bare && line.chars().count() + 1 + word.chars().count() > width() {
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
    fn configs_are_shown_where_they_differ() {
        let net = "net=fast:8x48-lstm32 + slow:4x12-lstm12 / 16 / direction:3";
        let all: Vec<String> = ["1e-3", "3e-4"].map(|rate| format!("{net}, rate={rate}")).into();
        assert_eq!(differing(&all), ["…rate=1e-3", "…rate=3e-4"]);
        let short: Vec<String> = ["rate=1e-3", "rate=3e-4"].map(String::from).into();
        assert_eq!(differing(&short), short);
        let table = table(&["what", ">x"], &[vec![net.into(), "1".into()]], "  ");
        assert!(table.contains(net), "{table}");
    }

    #[test]
    fn names_to_type_are_never_cut() {
        let row = |name: &str| vec![name.to_string(), "a data set of some length".into(), "1.25".into()];
        let (heads, rows) = (["run", "data", ">Sharpe"], [row("short"), row(&"long-".repeat(8))]);
        let whole = named_table_within(&heads, &rows, "  ", 90);
        assert!(whole.lines().count() == 3 && !whole.contains('…'), "{whole}");
        let narrow = named_table_within(&heads, &rows, "  ", 60);
        assert_eq!(
            narrow.lines().map(str::trim).collect::<Vec<_>>()[..4],
            ["run", "data                       Sharpe", "short", "a data set of some length    1.25"]
        );
        assert!(narrow.contains(&format!("\n  {}\n", "long-".repeat(8))), "{narrow}");
    }

    #[test]
    fn lines_break_between_words() {
        let line = format!("  \u{1b}[1m{}\u{1b}[0mend\n", "word ".repeat(8));
        let broken = break_lines(&line, 24);
        assert_eq!(broken.lines().count(), 3, "{broken:?}");
        assert!(broken.lines().all(|l| visible(l) <= 24 && l.starts_with("  ")), "{broken:?}");
        assert_eq!(broken.split_whitespace().count(), line.split_whitespace().count());
        assert_eq!(break_lines(&line, 100), line);
        let long = format!("{}\n", "x".repeat(90));
        assert_eq!(break_lines(&long, 24), long, "a word that fits nowhere stays whole");
    }

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
        // In a narrow terminal words give way, numbers do not.
        let heads = ["run", "data", "labels", ">net Sharpe", "verdict"];
        let name = "gold-lstm-2026-11-15-with-a-long-name";
        let row = [name, "xauusd_m5_2014_2019", "triple(24, 1.5)", "-12.34", "not enough data"].map(String::from);
        for most in [60, 80, 100] {
            let text = table_within(&heads, &[row.to_vec()], "  ", most);
            assert!(text.lines().all(|l| l.chars().count() <= most), "{most}: {text}");
            assert!(text.contains("-12.34") && text.contains("not enough data"), "{most}: {text}");
        }
        assert!(wrap(&"word ".repeat(60), "- ", "  ").lines().all(|l| l.chars().count() <= WIDTH));
    }
}
