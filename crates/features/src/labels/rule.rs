//! Rules in the user's words: `auto`, `fixed(12)`, `triple(24)`, `triple(24, 1.5)`, `trend(48)`.

use std::fmt;
use std::str::FromStr;

/// What the future is asked; horizons are bars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// The triple barrier with the shortest horizon whose classes are balanced (`auto.rs`).
    Auto,
    /// Where the price is after the horizon (`fixed.rs`).
    Fixed {
        /// Bars from the entry to the exit.
        horizon: usize,
    },
    /// Which of two prices is met first (`triple.rs`).
    Triple {
        /// Bars until the question is dropped.
        horizon: usize,
        /// Distance of the barriers in standard deviations of a move over the horizon.
        width: f64,
    },
    /// The sign of the clearest straight line (`trend.rs`).
    Trend {
        /// Bars of the longest line tried.
        longest: usize,
    },
}

/// Shortest line of a trend; fewer points say nothing about a slope.
pub(super) const SHORTEST: usize = 5;

/// Words and how they are written in full.
const WORDS: [(&str, &str); 4] =
    [("auto", "auto"), ("fixed", "fixed(12)"), ("triple", "triple(24) or triple(24, 1.5)"), ("trend", "trend(48)")];

/// What others call them.
const OTHERS: [(&str, &str); 8] = [
    ("triple", "triple"),
    ("barrier", "triple"),
    ("fixed", "fixed"),
    ("horizon", "fixed"),
    ("direction", "fixed"),
    ("return", "fixed"),
    ("trend", "trend"),
    ("slope", "trend"),
];

impl Rule {
    /// Says what is wrong with the numbers, if something is.
    pub fn check(&self) -> Result<(), String> {
        let bars = |what, bars: usize, least, most: usize| {
            let fine = (least..=most).contains(&bars);
            if fine { Ok(()) } else { Err(format!("`{self}`: {what} must be from {least} to {most} bars")) }
        };
        match *self {
            Rule::Auto => Ok(()),
            Rule::Fixed { horizon } => bars("the horizon", horizon, 1, 1_000_000),
            Rule::Triple { width, .. } if !(width > 0.0 && width <= 1000.0) => {
                Err(format!("`{self}`: the width must be above 0 and at most 1000"))
            }
            // These two look at every bar of the horizon for every row.
            Rule::Triple { horizon, .. } => bars("the horizon", horizon, 1, 100_000),
            Rule::Trend { longest } => bars("the longest line", longest, SHORTEST, 100_000),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Auto => f.write_str("auto"),
            Rule::Fixed { horizon } => write!(f, "fixed({horizon})"),
            Rule::Triple { horizon, width: 1.0 } => write!(f, "triple({horizon})"),
            Rule::Triple { horizon, width } => write!(f, "triple({horizon}, {width})"),
            Rule::Trend { longest } => write!(f, "trend({longest})"),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(s: &str) -> Result<Rule, String> {
        let text = s.trim().to_lowercase();
        let (word, inside) = match text.split_once('(') {
            Some((word, rest)) => (word.trim_end(), Some(rest.strip_suffix(')').unwrap_or(rest))),
            None => (text.as_str(), None),
        };
        let Some((_, written)) = WORDS.iter().find(|(name, _)| *name == word) else {
            let near = WORDS.iter().map(|(name, _)| (distance(word, name), *name)).min();
            let near = near.filter(|(edits, _)| *edits <= 2).map(|(_, name)| name);
            let alike = || OTHERS.iter().find(|(part, _)| word.contains(part)).map(|(_, name)| *name);
            let named = near.or_else(alike).and_then(|near| WORDS.iter().find(|(name, _)| *name == near));
            return Err(match named.and_then(|(_, written)| written.split(" or ").next()) {
                Some(example) => format!("`{s}` is not a label; did you mean `{example}`?"),
                None => format!("`{s}` is not a label (one of {})", WORDS.map(|(_, written)| written).join(", ")),
            });
        };
        let numbers: Vec<&str> = inside.map_or(Vec::new(), |inside| inside.split(',').map(str::trim).collect());
        let closed = inside.is_none() || text.ends_with(')');
        let bars = |text: &str| text.parse::<usize>().ok();
        let rule = match (word, numbers.as_slice()) {
            ("auto", []) => Some(Rule::Auto),
            ("fixed", [horizon]) => bars(horizon).map(|horizon| Rule::Fixed { horizon }),
            ("triple", [horizon]) => bars(horizon).map(|horizon| Rule::Triple { horizon, width: 1.0 }),
            ("triple", [horizon, width]) => {
                bars(horizon).zip(width.parse().ok()).map(|(horizon, width)| Rule::Triple { horizon, width })
            }
            ("trend", [longest]) => bars(longest).map(|longest| Rule::Trend { longest }),
            _ => None,
        };
        let rule = rule.filter(|_| closed).ok_or_else(|| format!("`{s}` is not complete; write {written}"))?;
        rule.check().map(|()| rule)
    }
}

/// Insertions, removals and replacements between two words.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate().take(80) {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_spellings_are_read() {
        let triple = |horizon, width| Ok(Rule::Triple { horizon, width });
        for (text, expected) in [
            ("auto", Ok(Rule::Auto)),
            (" Fixed( 12 ) ", Ok(Rule::Fixed { horizon: 12 })),
            ("triple(24)", triple(24, 1.0)),
            ("triple (24,1.5)", triple(24, 1.5)),
            ("trend(48)", Ok(Rule::Trend { longest: 48 })),
            ("tripel(24)", Err("did you mean `triple(24)`?")),
            ("fixd", Err("did you mean `fixed(12)`?")),
            ("triple-barrier", Err("did you mean `triple(24)`?")),
            ("fixed_horizon(5)", Err("did you mean `fixed(12)`?")),
            ("trend_scanning", Err("did you mean `trend(48)`?")),
            ("meta-label", Err("one of auto, fixed(12)")),
            ("", Err("one of auto")),
            ("fixed", Err("write fixed(12)")),
            ("fixed()", Err("write fixed(12)")),
            ("fixed(12", Err("write fixed(12)")),
            ("fixed(12, 3)", Err("write fixed(12)")),
            ("fixed(-1)", Err("write fixed(12)")),
            ("auto(3)", Err("write auto")),
            ("triple(24, wide)", Err("write triple(24)")),
            ("triple(24, nan)", Err("width must be above 0")),
            ("triple(24, 0)", Err("width must be above 0")),
            ("fixed(0)", Err("from 1 to 1000000 bars")),
            ("trend(4)", Err("from 5 to 100000 bars")),
            ("fixed(99999999999999999999999)", Err("write fixed(12)")),
        ] {
            match (text.parse::<Rule>(), expected) {
                (Ok(rule), Ok(expected)) => {
                    assert_eq!(rule, expected, "{text}");
                    assert_eq!(rule.to_string().parse(), Ok(rule));
                }
                (Err(message), Err(part)) => assert!(message.contains(part), "{text}: {message}"),
                (got, expected) => panic!("{text}: {got:?}, not {expected:?}"),
            }
        }
    }
}
