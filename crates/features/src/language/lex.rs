//! Characters become words and signs, one at a time, so that the first mistake of the text is the one reported.

use super::At;

/// Some editors begin a file with it.
pub(super) const MARK: char = '\u{feff}';

/// What is wrong, where, and what to do; the parser adds line, column and file at its door.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) at: At,
    pub(super) message: String,
    pub(super) remedy: String,
}

impl Problem {
    pub(super) fn new(at: At, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem { at, message: message.into(), remedy: remedy.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind<'a> {
    Word(&'a str),
    Number(f64),
    /// Without its quotes.
    Text(&'a str),
    /// What follows `@`, without it.
    Frame(&'a str),
    /// One of `+ - * / ( ) [ ] , ; = .`
    Sign(char),
    Newline,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) at: At,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Always on a character's boundary.
    from: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, from: if text.starts_with(MARK) { MARK.len_utf8() } else { 0 } }
    }

    /// The next token; `End` for ever once the text is over.
    pub(super) fn next(&mut self) -> Result<Token<'a>, Problem> {
        self.take(|c| matches!(c, ' ' | '\t' | '\r'));
        if self.rest().starts_with('#') {
            self.take(|c| c != '\n');
        }
        let start = self.from;
        let kind = match self.rest().chars().next() {
            None => Kind::End,
            Some('\n') => self.sign(Kind::Newline),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => Kind::Word(self.take(is_word)),
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some('.') if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number()?,
            Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
            Some('@') => {
                self.from += 1;
                self.take(|c| matches!(c, ' ' | '\t'));
                Kind::Frame(self.take(is_word))
            }
            Some(c) if "+-*/()[],;=.".contains(c) => self.sign(Kind::Sign(c)),
            Some(c) => {
                let shown = match c.escape_debug().count() {
                    1 => format!("`{c}`"),
                    _ if c == '\\' => "`\\`".to_string(),
                    _ => format!("U+{:04X}", u32::from(c)),
                };
                let remedy = "write names, numbers, + - * / and parentheses; quote a column's name: col(\"…\")";
                return Err(self.problem(start, c.len_utf8(), format!("unexpected character {shown}"), remedy));
            }
        };
        Ok(Token { kind, at: At { from: start, len: self.from - start } })
    }

    /// `14`, `0.5`, `.5`, `1e-3`.
    fn number(&mut self) -> Result<Kind<'a>, Problem> {
        let (start, text) = (self.from, self.rest());
        let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut len = digits(0);
        if text[len..].starts_with('.') && digits(len + 1) > 0 {
            len += 1 + digits(len + 1);
        }
        if text[len..].starts_with(['e', 'E']) {
            let sign = usize::from(text[len + 1..].starts_with(['+', '-']));
            if digits(len + 1 + sign) > 0 {
                len += 1 + sign + digits(len + 1 + sign);
            }
        }
        self.from += len;
        let glued = self.take(is_word).len();
        let shown: String = text[..len + glued].chars().take(40).collect();
        if glued > 0 {
            let remedy = "begin a name with a letter; write a number as 14, 0.5 or 1e-3, and a timeframe after @";
            return Err(self.problem(start, len + glued, format!("`{shown}` is neither a number nor a name"), remedy));
        }
        match text[..len].parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Kind::Number(number)),
            _ => Err(self.problem(start, len, format!("`{shown}` is too large a number"), "write it below 1.7e308")),
        }
    }

    /// Nothing is escaped: a name with one kind of quote stands in the other.
    fn quoted(&mut self, quote: char) -> Result<Kind<'a>, Problem> {
        let start = self.from;
        self.from += 1;
        let text = self.take(|c| c != quote && c != '\n' && c != '\r');
        if !self.rest().starts_with(quote) {
            return Err(self.problem(start, 1, "this quote is not closed", format!("close it with {quote}")));
        }
        self.from += 1;
        if text.is_empty() {
            return Err(self.problem(
                start,
                2,
                "there is nothing between the quotes",
                "write the column's name in them",
            ));
        }
        Ok(Kind::Text(text))
    }

    fn sign(&mut self, kind: Kind<'a>) -> Kind<'a> {
        self.from += 1;
        kind
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !wanted(c)).unwrap_or(rest.len())];
        self.from += taken.len();
        taken
    }

    fn rest(&self) -> &'a str {
        &self.text[self.from..]
    }

    fn problem(&self, from: usize, len: usize, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem::new(At { from, len }, message, remedy)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
