//! The page around the blocks, and the one place where text becomes HTML.

use crate::{Block, Choice, Note, Page, Section, Tile, Tone, sha256};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(include_str!("page.js"), include_str!("timeline.js"));

/// The page as one document.
pub(crate) fn page(page: &Page) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        sha256::base64(STYLE.as_bytes()),
        sha256::base64(SCRIPT.as_bytes())
    );
    let title = escape(&page.title);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <h1>{title}</h1>\n<p>{}</p>\n",
        escape(&page.subtitle)
    );
    if page.sections.len() > 2 {
        html.push_str("<nav aria-label=\"Sections\">");
        for (i, section) in page.sections.iter().enumerate() {
            let _ = write!(html, "<a href=\"#s{i}\">{}</a>", escape(&section.heading));
        }
        html.push_str("</nav>\n");
    }
    html.push_str("</header>\n<main>\n");
    for (i, part) in page.sections.iter().enumerate() {
        section(&mut html, i, part);
    }
    let _ = write!(
        html,
        "</main>\n<footer>Made by Fullbore. This page is one file and needs no network.</footer>\n<div id=\"tip\" hidden></div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    html
}

fn section(html: &mut String, i: usize, section: &Section) {
    let _ = write!(html, "<section id=\"s{i}\">\n<h2>{}</h2>\n", escape(&section.heading));
    for paragraph in section.prose.split("\n\n").filter(|p| !p.trim().is_empty()) {
        let _ = writeln!(html, "<p class=\"prose\">{}</p>", code(&escape(paragraph.trim())));
    }
    for part in &section.blocks {
        block(html, part);
        html.push('\n');
    }
    html.push_str("</section>\n");
}

/// Words between backticks as code; a last one without a partner stays.
fn code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let pairs = (parts.len() - 1) / 2;
    let mark = |i: usize| if i > 2 * pairs { "`" } else { ["</code>", "<code>"][i % 2] };
    let marked =
        parts.iter().enumerate().map(|(i, part)| if i == 0 { part.to_string() } else { format!("{}{part}", mark(i)) });
    marked.collect()
}

fn block(html: &mut String, part: &Block) {
    match part {
        Block::Tiles(list) => tiles(html, list),
        Block::Lines(chart) => html.push_str(&chart.html()),
        Block::Curves(chart) => html.push_str(&chart.html()),
        Block::Candles(chart) => html.push_str(&chart.html()),
        Block::Histogram(chart) => html.push_str(&chart.html()),
        Block::Columns(chart) => html.push_str(&chart.html()),
        Block::Heat(chart) => html.push_str(&chart.html()),
        Block::Coverage(chart) => html.push_str(&chart.html()),
        Block::Spans(chart) => html.push_str(&chart.html()),
        Block::Table(table) => html.push_str(&table.html()),
        Block::Timeline(chart) => html.push_str(&chart.html()),
        Block::Months(table) => html.push_str(&table.html()),
        Block::Ranking(chart) => html.push_str(&chart.html()),
        Block::Verdict(n) => {
            let (title, text) = (escape(&n.title), code(&escape(&n.text)));
            let _ = write!(html, "<div class=\"verdict {}\"><b>{title}</b><p>{text}</p></div>", class(n.tone));
        }
        Block::Choice(all) => choice(html, all),
        Block::Note(n) => note(html, n),
        Block::Row(parts) => {
            html.push_str("<div class=\"row\">");
            for part in parts {
                html.push_str("<div>");
                block(html, part);
                html.push_str("</div>");
            }
            html.push_str("</div>");
        }
    }
}

fn tiles(html: &mut String, tiles: &[Tile]) {
    // A unit stands beside its figure; words stand below, in all tiles alike.
    let tall = tiles.iter().any(|tile| tile.unit.chars().count() > 12 && tile.unit.contains(' '));
    html.push_str(if tall { "<dl class=\"tiles tall\">" } else { "<dl class=\"tiles\">" });
    for tile in tiles {
        let _ = write!(
            html,
            "<div class=\"{}\"><dt>{}</dt><dd>{} <small>{}</small></dd></div>",
            class(tile.tone),
            escape(&tile.label),
            escape(&tile.value),
            escape(&tile.unit)
        );
    }
    html.push_str("</dl>");
}

/// Without the script all of them are shown.
fn choice(html: &mut String, all: &Choice) {
    let _ = write!(html, "<div class=\"choice\"><label>{} <select>", escape(&all.label));
    for (name, _) in &all.parts {
        let _ = write!(html, "<option>{}</option>", escape(name));
    }
    html.push_str("</select></label>");
    for (_, part) in &all.parts {
        html.push_str("<div>");
        block(html, part);
        html.push_str("</div>");
    }
    html.push_str("</div>");
}

fn note(html: &mut String, note: &Note) {
    let _ = write!(html, "<aside class=\"note {}\">", class(note.tone));
    if !note.title.is_empty() {
        let _ = write!(html, "<b>{}</b> ", escape(&note.title));
    }
    let _ = write!(html, "{}</aside>", escape(&note.text));
}

/// The style class of a tone.
pub(crate) fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
    }
}

/// Text as HTML, inside elements and quoted attributes; control characters and direction overrides are shown, not
/// obeyed.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars().map(harmless) {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// The character, or what stands for one that would do something.
pub(crate) fn harmless(c: char) -> char {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() && c != '\n' && c != '\t' => '\u{fffd}',
        c => c,
    }
}
