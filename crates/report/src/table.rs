//! Rows and columns, sortable by a click on a heading.

use crate::Tone;
use crate::html::{class, escape};
use std::fmt::Write;

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// What it shows; may be empty.
    pub title: String,
    /// Headings.
    pub columns: Vec<Column>,
    /// `[rows][columns]`
    pub rows: Vec<Vec<Cell>>,
}

/// A heading.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// Its words.
    pub name: String,
    /// Numbers stand at the right.
    pub number: bool,
}

/// One cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// As shown.
    pub text: String,
    /// What it sorts by; `None` sorts by the text.
    pub sort: Option<f64>,
    /// How it should feel; anything but plain is drawn as a tag.
    pub tone: Tone,
}

impl Column {
    /// A column of words.
    pub fn text(name: impl Into<String>) -> Column {
        Column { name: name.into(), number: false }
    }

    /// A column of numbers.
    pub fn number(name: impl Into<String>) -> Column {
        Column { name: name.into(), number: true }
    }
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// A number, as it is shown.
    pub fn number(value: f64, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), sort: Some(value), tone: Tone::Plain }
    }

    /// Words in a tag.
    pub fn tag(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), sort: None, tone }
    }
}

impl Table {
    pub(crate) fn html(&self) -> String {
        let mut html = String::from("<figure class=\"table\">");
        if !self.title.is_empty() {
            let _ = write!(html, "<figcaption><b>{}</b></figcaption>", escape(&self.title));
        }
        // A short table is shown whole, however its cells wrap.
        let whole = if self.rows.len() <= 24 { " whole" } else { "" };
        let _ = write!(html, "<div class=\"scroll{whole}\" tabindex=\"0\"><table><thead><tr>");
        for column in &self.columns {
            let number = if column.number { " class=\"n\"" } else { "" };
            let _ = write!(
                html,
                "<th scope=\"col\"{number}><button type=\"button\">{}</button></th>",
                escape(&column.name)
            );
        }
        html.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            html.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let number = if self.columns.get(i).is_some_and(|c| c.number) { " class=\"n\"" } else { "" };
                let sort = match cell.sort {
                    Some(v) if v.is_finite() => format!(" data-v=\"{v}\""),
                    _ => String::new(),
                };
                let text = escape(&cell.text);
                let text = if cell.tone == Tone::Plain {
                    text
                } else {
                    format!("<span class=\"tag {}\">{text}</span>", class(cell.tone))
                };
                let _ = write!(html, "<td{number}{sort}>{text}</td>");
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div></figure>");
        html
    }
}
