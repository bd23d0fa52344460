//! The text of a feature set and the tree it becomes.
//!
//! ```text
//! rsi(14), macd(12, 26, 9).hist      # commas, semicolons and newlines separate features
//! gap = open / close[1] - 1          # a name of its own; one bar ago
//! trend = ema(close, 50)@1h          # on bars of an hour, as of the last completed one
//!
//! [slow @1d]                         # a group; with a timeframe, a table of its own
//! atr(14) / close
//! ```
//!
//! `[n]` and `@1h` bind tightest, then the minus sign, then `*` and `/`, then `+` and `-`. A newline ends a feature,
//! except inside parentheses, after an operator and after `=`. Names of indicators and outputs are lowered; names of
//! features and groups, quoted names and the names in `col(...)` keep their case.
//!
//! The tree is written back in one canonical way: ` + ` and ` - ` with spaces, `*` and `/` without, `, ` between
//! arguments, no parentheses that change nothing, `12` for `12.0`, timeframes as [`Timeframe`] shows them; a set has
//! one feature a line and an empty line before each header. No tree is higher than 64 levels, so walking one may
//! recurse.
//!
//! Nothing here knows which indicators exist.

mod lex;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::parse;

use bars::Timeframe;
use files::{Error, Kind};
use std::fmt;
use std::path::PathBuf;

/// A feature set: groups of features.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// At least one, none of them empty, in the order of the text.
    pub groups: Vec<Group>,
    /// The text they were read from.
    pub origin: Origin,
}

impl Set {
    /// The same set without some features, by timeframe and name; groups that lose all of theirs leave too.
    pub fn without(&self, gone: impl Fn(Option<Timeframe>, &str) -> bool) -> Set {
        let mut set = self.clone();
        for group in &mut set.groups {
            let timeframe = group.timeframe;
            group.features.retain(|feature| !gone(timeframe, &feature.name));
        }
        set.groups.retain(|group| !group.features.is_empty());
        set
    }
}

/// Features under one header.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Empty for the features before the first header.
    pub name: String,
    /// Rows of another timeframe: a table of its own.
    pub timeframe: Option<Timeframe>,
    /// In the order of the text.
    pub features: Vec<Feature>,
}

/// One column of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// The name given, or the canonical text. No other feature on the same timeframe has it.
    pub name: String,
    /// What it computes.
    pub expr: Expr,
}

/// What a feature computes.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// `14`, finite and without a sign.
    Number(f64, At),
    /// A quoted name: only as argument of `col`.
    Text(String, At),
    /// `close`, `rsi(14)`, `macd(12, 26, 9).hist`.
    Call {
        /// Lowered, unless it stands in `col(...)`.
        name: String,
        /// None where no parentheses stand.
        args: Vec<Expr>,
        /// The word after the point, lowered.
        output: Option<String>,
        /// From the name to the parenthesis or output.
        at: At,
    },
    /// `-expr`.
    Neg(Box<Expr>, At),
    /// `left op right`.
    Binary(Op, Box<Expr>, Box<Expr>, At),
    /// `expr[3]`: three bars ago.
    Lag(Box<Expr>, usize, At),
    /// `expr@1h`: on bars of that timeframe, as of the last completed one.
    On(Box<Expr>, Timeframe, At),
}

/// The operators between two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
}

/// Where something stands in the text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct At {
    /// From the beginning of the set's text.
    pub from: usize,
    /// How much of it.
    pub len: usize,
}

/// Where a set was read, for errors found later.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// None where the text came from a setting or the command line.
    pub file: Option<PathBuf>,
    /// All of it, as written.
    pub text: String,
}

impl Origin {
    /// An error at a place of the text: line and column (in characters), and the file if there is one.
    pub fn error(&self, at: At, message: impl Into<String>) -> Error {
        let (line, column) = place(&self.text, at);
        let kind = if self.file.is_some() { Kind::Input } else { Kind::Usage };
        let error = Error::new(kind, message).line(line).column(column);
        match &self.file {
            Some(file) => error.at(file),
            None => error,
        }
    }
}

/// Line and column, in characters, both from 1.
fn place(text: &str, at: At) -> (u64, u64) {
    let before = &text[..text.floor_char_boundary(at.from)];
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    // A byte order mark is not seen in an editor.
    let column = before[line..].chars().filter(|&c| c != lex::MARK).count();
    (before.matches('\n').count() as u64 + 1, column as u64 + 1)
}

impl At {
    /// From the beginning of this to the end of that.
    fn to(self, end: At) -> At {
        At { from: self.from, len: (end.from + end.len).saturating_sub(self.from) }
    }
}

impl Expr {
    /// Where it stands, without the parentheses around it.
    pub fn at(&self) -> At {
        match self {
            Expr::Number(_, at)
            | Expr::Text(_, at)
            | Expr::Call { at, .. }
            | Expr::Neg(_, at)
            | Expr::Binary(_, _, _, at)
            | Expr::Lag(_, _, at)
            | Expr::On(_, _, at) => *at,
        }
    }

    /// How tightly it holds together; a child that holds less than its place asks for stands in parentheses.
    fn binds(&self) -> u8 {
        match self {
            Expr::Binary(Op::Add | Op::Sub, ..) => 1,
            Expr::Binary(Op::Mul | Op::Div, ..) => 2,
            Expr::Neg(..) => 3,
            // The parser makes no such number; a program may.
            Expr::Number(x, _) if x.is_sign_negative() => 3,
            _ => 4,
        }
    }
}

/// Canonical text: equal trees give equal text, and it parses back to the same tree.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let child = |f: &mut fmt::Formatter<'_>, expr: &Expr, least: u8| {
            if expr.binds() < least { write!(f, "({expr})") } else { write!(f, "{expr}") }
        };
        match self {
            // Plain digits where they are short; both forms round-trip.
            Expr::Number(x, _) if *x == 0.0 || (1e-6..1e15).contains(&x.abs()) => write!(f, "{x}"),
            Expr::Number(x, _) => write!(f, "{x:e}"),
            Expr::Text(text, _) if text.contains('"') => write!(f, "'{text}'"),
            Expr::Text(text, _) => write!(f, "\"{text}\""),
            Expr::Call { name, args, output, .. } => {
                f.write_str(name)?;
                for (i, arg) in args.iter().enumerate() {
                    write!(f, "{}{arg}", if i == 0 { "(" } else { ", " })?;
                }
                f.write_str(if args.is_empty() { "" } else { ")" })?;
                output.iter().try_for_each(|output| write!(f, ".{output}"))
            }
            Expr::Neg(inner, _) => {
                f.write_str("-")?;
                child(f, inner, 3)
            }
            Expr::Binary(op, left, right, _) => {
                child(f, left, self.binds())?;
                write!(f, "{op}")?;
                child(f, right, self.binds() + 1)
            }
            Expr::Lag(inner, bars, _) => {
                child(f, inner, 4)?;
                write!(f, "[{bars}]")
            }
            Expr::On(inner, timeframe, _) => {
                child(f, inner, 4)?;
                write!(f, "@{timeframe}")
            }
        }
    }
}

/// With the spaces of the canonical text.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Add => " + ",
            Op::Sub => " - ",
            Op::Mul => "*",
            Op::Div => "/",
        })
    }
}

/// `name = expr`, or the expression alone where the name says no more.
impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.expr.to_string();
        if text == self.name { f.write_str(&text) } else { write!(f, "{} = {text}", self.name) }
    }
}

/// Canonical text of the whole set, comments gone; parses back to the same groups.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, group) in self.groups.iter().enumerate() {
            f.write_str(if i > 0 { "\n" } else { "" })?;
            match (group.name.as_str(), group.timeframe) {
                ("", _) => {}
                (name, Some(timeframe)) => writeln!(f, "[{name} @{timeframe}]")?,
                (name, None) => writeln!(f, "[{name}]")?,
            }
            group.features.iter().try_for_each(|feature| writeln!(f, "{feature}"))?;
        }
        Ok(())
    }
}
