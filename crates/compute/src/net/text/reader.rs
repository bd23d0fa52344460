//! The reader of a net's text: recursive descent, one function for each thing of the grammar.

use super::{DENSE, HEAD, INPUT};
use crate::error::{Error, Result};
use crate::net::check::RECURRENT;
use crate::net::{Activation, Branch, Head, Input, Layer, Net, Tower};

const EXAMPLES: &str = "a net reads `128-2048-1024-512-3`, `16x50-64t-64-3`, `16x50-lstm64-3` or `fast:16x50-64-32t + slow:12-32 / 128-64 / direction:3 + size:5`";
/// What a layer may end with, and what it means; each also by its first letter.
const ACTIVATIONS: [(&str, Activation); 3] =
    [("relu", Activation::Relu), ("tanh", Activation::Tanh), ("identity", Activation::Identity)];

/// What stands before the activation of a layer that is normalised; its first letter will do.
const NORM: &str = "norm";

/// What a recurrent layer begins with.
const LSTM: &str = "lstm";

/// The net that is meant, not yet checked, or where the text goes wrong.
pub(super) fn read(text: &str) -> Result<Net> {
    Reader { text: text.chars().collect(), at: 0 }.net()
}

/// Reads from left to right; every complaint knows its column.
struct Reader {
    text: Vec<char>,
    at: usize,
}

impl Reader {
    fn net(mut self) -> Result<Net> {
        let (mut inputs, mut branches, mut ends) = (vec![], vec![], vec![]);
        loop {
            let name = self.name(INPUT, inputs.is_empty(), "an input")?;
            let dense = self.letters() == DENSE;
            self.at += if dense { DENSE.len() } else { 0 };
            let features = self.number("the number of features")?;
            let window = if self.eat('x') || self.eat('×') { self.number("the number of rows")? } else { 1 };
            let mut branch = Branch::default();
            while self.eat('-') {
                ends.push(self.start());
                match self.recurrent(&branch)? {
                    Some((units, dropout)) => {
                        branch.recurrent.push(units);
                        branch.dropout = dropout;
                    }
                    None => branch.layers.push(self.layer()?),
                }
            }
            inputs.push(Input { name, features, window, dense });
            branches.push(branch);
            if !self.eat('+') {
                break;
            }
        }
        if !self.eat('/') {
            return self.short(inputs, branches, &ends);
        }
        let mut towers = vec![];
        if self.text[self.at..].contains(&'/') {
            towers.push(self.tower()?);
            while self.eat('|') {
                towers.push(self.tower()?);
            }
            if !self.eat('/') {
                return Err(
                    self.wrong("expected `-` and another layer, or `/` and the heads (`|` leads to another tower)")
                );
            }
        }
        let mut heads = vec![];
        let mut counts = vec![0];
        loop {
            let name = self.name(HEAD, heads.is_empty(), "a head")?;
            heads.push(Head { name, classes: self.number("the number of outputs")? });
            *counts.last_mut().unwrap_or(&mut 0) += 1;
            if self.eat('|') {
                counts.push(0);
            } else if !self.eat('+') {
                break;
            }
        }
        if !self.ended() {
            return Err(
                self.wrong("expected `+` and another head, or the end (`|` leads to the heads of the next tower)")
            );
        }
        if towers.len().max(1) != counts.len() {
            let wrong = format!("{} towers and heads of {}: expected as many", towers.len(), counts.len());
            return Err(self.wrong(&wrong));
        }
        if towers.len() > 1 {
            towers.iter_mut().zip(counts).for_each(|(tower, heads)| tower.heads = heads);
            return Ok(Net { inputs, branches, trunk: vec![], heads, towers });
        }
        let mut only = towers.pop().unwrap_or_default();
        if !only.reads.is_empty() {
            return Err(self.wrong("one trunk reads everything: expected no inputs in brackets before it"));
        }
        if !only.recurrent.is_empty() {
            only.heads = heads.len();
            return Ok(Net { inputs, branches, trunk: vec![], heads, towers: vec![only] });
        }
        Ok(Net { inputs, branches, trunk: only.layers, heads, towers: vec![] })
    }

    /// Layers, with the inputs they read in brackets where these are not all.
    fn tower(&mut self) -> Result<Tower> {
        let mut tower = Tower::default();
        let bracket = self.eat('(');
        while bracket && !self.eat(')') {
            let name = self.word();
            if name.is_empty() {
                return Err(self.wrong("expected the name of an input, or `)`"));
            }
            tower.reads.push(name);
        }
        let here = self.start();
        let begins = self.text.get(here).is_some_and(char::is_ascii_digit) || self.letters() == LSTM;
        if bracket && !begins {
            return Ok(tower);
        }
        loop {
            match self.carried(&tower)? {
                Some(units) => tower.recurrent.push(units),
                None => tower.layers.push(self.layer()?),
            }
            if !self.eat('-') {
                return Ok(tower);
            }
        }
    }

    /// No `/`: one input, its layers are the trunk, the last number is the classes.
    fn short(mut self, inputs: Vec<Input>, mut branches: Vec<Branch>, ends: &[usize]) -> Result<Net> {
        if !self.ended() {
            return Err(self.wrong("expected `-` and a layer, `+` and another input, `/` and what follows, or the end"));
        }
        if inputs.len() > 1 {
            return Err(self.wrong("several inputs need a trunk or heads: expected ` / ` and what follows"));
        }
        let Branch { recurrent, dropout, layers: mut trunk } = branches.swap_remove(0);
        let (Some(last), Some(&start)) = (trunk.pop(), ends.last()) else {
            return Err(self.wrong("expected `-` and the number of classes"));
        };
        if self.text[start..].iter().any(|c| c.is_alphabetic()) {
            self.at = start;
            return Err(self.wrong("the last number is the classes and has no activation: expected a plain number"));
        }
        let heads = vec![Head { name: HEAD.into(), classes: last.width }];
        let branches = vec![Branch { recurrent, dropout, layers: vec![] }];
        Ok(Net { inputs, branches, trunk, heads, towers: vec![] })
    }

    /// `name:`, or the usual name for the only one of its kind.
    fn name(&mut self, usual: &str, first: bool, what: &str) -> Result<String> {
        let start = self.start();
        let word = self.word();
        if !word.is_empty() {
            return if self.eat(':') { Ok(word) } else { Err(self.wrong("expected `:` and a number")) };
        }
        // The first of several needs a name too: a `+` in this part says that more will come.
        let part = self.text[self.at..].split(|c| *c == '/').next().unwrap_or_default();
        if first && !part.contains(&'+') && !part.contains(&'|') {
            return Ok(usual.into());
        }
        self.at = start;
        Err(self.wrong(&format!("{what} of several needs a name: expected one, as in `fast:`")))
    }

    /// `lstm64` or `lstm64d20` at the beginning of a branch; none where a plain layer stands.
    fn recurrent(&mut self, branch: &Branch) -> Result<Option<(usize, u8)>> {
        let word = self.letters();
        if word != LSTM {
            return Ok(None);
        }
        if !branch.layers.is_empty() {
            return Err(self.wrong("recurrent layers come before any other layer of their branch: expected a width"));
        }
        if branch.recurrent.len() == RECURRENT {
            let wrong = format!("{RECURRENT} recurrent layers are the most: expected the width of a plain layer");
            return Err(self.wrong(&wrong));
        }
        if branch.dropout > 0 {
            return Err(self.wrong("only the last state of the top LSTM has a dropout: expected a plain layer"));
        }
        self.at += word.len();
        let units = self.number("the units of the LSTM, as in `lstm64`")?;
        let start = self.start();
        let word = self.word();
        match percent_of(&word) {
            Some(("", dropout)) => Ok(Some((units, dropout))),
            _ if word.is_empty() => Ok(Some((units, 0))),
            _ => {
                self.at = start;
                Err(self.wrong("expected `-` and a layer, or a dropout from `d1` to `d99`, as in `lstm64d20`"))
            }
        }
    }

    /// `lstm64` at the beginning of a tower or of the trunk; none where a plain layer stands.
    fn carried(&mut self, tower: &Tower) -> Result<Option<usize>> {
        if self.letters() != LSTM || !tower.layers.is_empty() {
            return Ok(None);
        }
        if tower.recurrent.len() == RECURRENT {
            let wrong = format!("{RECURRENT} recurrent layers are the most: expected the width of a plain layer");
            return Err(self.wrong(&wrong));
        }
        self.at += LSTM.len();
        Ok(Some(self.number("the units of the LSTM, as in `lstm64`")?))
    }

    fn layer(&mut self) -> Result<Layer> {
        let word = self.letters();
        if word == LSTM {
            return Err(self.wrong(
                "recurrent layers stand at the beginning of a branch, a trunk or a tower: expected the width of a layer",
            ));
        }
        if distance(&word.to_ascii_lowercase(), LSTM) <= 1 {
            return Err(self.wrong("expected the width of a layer; did you mean `lstm` and its units?"));
        }
        let width = self.number("the width of a layer")?;
        let start = self.start();
        let whole = self.word();
        let (word, dropout) = percent_of(&whole).unwrap_or((whole.as_str(), 0));
        let normed = word.strip_prefix(NORM).or_else(|| word.strip_prefix('n').filter(|rest| *rest != "one"));
        let (word, norm) = (normed.unwrap_or(word), normed.is_some());
        let known = ACTIVATIONS.iter().find(|(name, _)| word == *name || (word.len() == 1 && name.starts_with(word)));
        let activation = match known {
            _ if word.is_empty() => Activation::Relu,
            Some((_, activation)) => *activation,
            None => {
                self.at = start;
                let nearest = ACTIVATIONS.iter().map(|(name, _)| (distance(word, name), *name)).min();
                let hint = match (word, nearest) {
                    ("linear" | "none" | "l", _) => "; did you mean `identity`?".into(),
                    (_, _) if word.starts_with('d') => "; a dropout is `d1` to `d99`".into(),
                    (_, Some((far, name))) if far <= 2 => format!("; did you mean `{name}`?"),
                    _ => String::new(),
                };
                let wrong = format!(
                    "expected r (relu), t (tanh), i (identity) or no activation at all, n (norm) before and d10 (dropout) behind it{hint}"
                );
                return Err(self.wrong(&wrong));
            }
        };
        Ok(Layer { width, activation, norm, dropout })
    }

    fn number(&mut self, what: &str) -> Result<usize> {
        let start = self.start();
        let digits: String = self.text[start..].iter().take_while(|c| c.is_ascii_digit()).collect();
        if digits.is_empty() {
            return Err(self.wrong(&format!("expected {what}")));
        }
        self.at += digits.len();
        digits.parse().map_err(|_| {
            self.at = start;
            self.wrong(&format!("expected {what}, and this number is too large"))
        })
    }

    fn word(&mut self) -> String {
        let start = self.start();
        if self.text.get(start).is_some_and(char::is_ascii_digit) {
            return String::new();
        }
        let word: String = self.text[start..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
        self.at += word.len();
        word
    }

    /// The letters that stand here, not yet read.
    fn letters(&mut self) -> String {
        let start = self.start();
        self.text[start..].iter().take_while(|c| c.is_ascii_alphabetic()).collect()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let here = self.start();
        let found = self.text.get(here) == Some(&wanted);
        self.at += usize::from(found);
        found
    }

    /// Past the spaces.
    fn start(&mut self) -> usize {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.at
    }

    fn ended(&mut self) -> bool {
        self.start() == self.text.len()
    }

    /// The text with a caret under the column that is wrong; of a long text what is around it.
    fn wrong(&mut self, what: &str) -> Error {
        let at = self.start();
        let from = at.saturating_sub(60);
        let to = self.text.len().min(at + 40);
        let shown: String = self.text[from..to].iter().map(|c| if c.is_control() { ' ' } else { *c }).collect();
        let (before, after) = (if from > 0 { "…" } else { "" }, if to < self.text.len() { "…" } else { "" });
        let caret = " ".repeat(before.chars().count() + at - from);
        Error::Invalid(format!(
            "not a valid net, column {}:\n  {before}{shown}{after}\n  {caret}^ {what}\n{EXAMPLES}",
            at + 1
        ))
    }
}

/// What stands before a dropout of 1 to 99 per cent, `d10` or `drop10` at the end of a word, and the per cent.
fn percent_of(word: &str) -> Option<(&str, u8)> {
    let before = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let percent = word[before.len()..].parse().ok().filter(|percent| (1..=99).contains(percent))?;
    Some((before.strip_suffix("drop").or_else(|| before.strip_suffix('d'))?, percent))
}

/// Edits between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let here = (corner + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = here;
        }
    }
    row[b.len()]
}
