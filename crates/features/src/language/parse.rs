//! Words and signs become a tree, by recursive descent: set, header, feature, sum, product, minus, postfix, primary,
//! call.

use super::lex::{Kind, Lexer, Problem, Token};
use super::{At, Expr, Feature, Group, Op, Origin, Set, place};
use bars::Timeframe;
use std::collections::HashMap;
use std::path::Path;

/// Levels of a tree, and of parentheses, calls and minus signs inside each other.
const DEEPEST: usize = 64;
const LONGEST: usize = 1 << 20;
const MOST: usize = 10_000;

type Result<T, E = Problem> = std::result::Result<T, E>;

/// Reads a feature set; the file is where the text comes from, for the errors.
pub fn parse(text: &str, file: Option<&Path>) -> files::Result<Set> {
    let mut origin = Origin { file: file.map(Path::to_path_buf), text: String::new() };
    if text.len() > LONGEST {
        let message = format!("a feature set of {} bytes is longer than 1 MiB", text.len());
        return Err(origin.error(At::default(), message).remedy("check that this is the text of a feature set"));
    }
    origin.text = text.to_string();
    match Parser::new(text).and_then(Parser::set) {
        Ok(groups) => Ok(Set { groups, origin }),
        Err(Problem { at, message, remedy }) => Err(origin.error(at, message).remedy(remedy)),
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The one looked at, not yet used.
    token: Token<'a>,
    /// Whether a newline was passed over on the way to it.
    wrapped: bool,
    /// The parentheses it stands in.
    open: Vec<At>,
    /// Those, and the minus signs before it.
    depth: usize,
    /// Whether the innermost call around it is `col`, where names keep their case.
    in_col: bool,
}

/// An expression on its way up.
struct Node {
    expr: Expr,
    /// Levels of its tree; a leaf has one.
    height: usize,
    /// Where it stands, with its parentheses.
    span: At,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Parser { text, lexer, token, wrapped: false, open: Vec::new(), depth: 0, in_col: false })
    }

    fn set(mut self) -> Result<Vec<Group>> {
        let mut groups = vec![Group { name: String::new(), timeframe: None, features: Vec::new() }];
        let mut headers = vec![At::default()];
        let mut names: HashMap<(Option<Timeframe>, String), At> = HashMap::new();
        // A header may stand here: at the start of a line, or after a semicolon.
        let mut fresh = true;
        loop {
            let here = self.token.at;
            let group = groups.len() - 1;
            match self.token.kind {
                Kind::End => break,
                Kind::Newline | Kind::Sign(';') => {
                    self.advance()?;
                    fresh = true;
                }
                Kind::Sign(',') => {
                    return Err(Problem::new(here, "there is nothing before this comma", "remove it"));
                }
                Kind::Sign('[') if fresh => {
                    let new = self.header()?;
                    if let Some(old) = groups.iter().position(|g| g.name == new.name) {
                        let message =
                            format!("two groups are called `{}`, {}", short(&new.name), self.lines(headers[old], here));
                        return Err(Problem::new(here, message, "give one of them another name, or make them one"));
                    }
                    not_empty(&groups[group], headers[group])?;
                    groups.push(new);
                    headers.push(here);
                }
                _ => {
                    if names.len() == MOST {
                        let message = format!("this is feature {}, and a set has at most {MOST}", MOST + 1);
                        return Err(Problem::new(here, message, "split the set"));
                    }
                    let feature = self.feature()?;
                    if let Some(&old) = names.get(&(groups[group].timeframe, feature.name.clone())) {
                        let message =
                            format!("two features are called `{}`, {}", short(&feature.name), self.lines(old, here));
                        let remedy = "remove one, or give it a name of its own: name = expression";
                        return Err(Problem::new(here, message, remedy));
                    }
                    names.insert((groups[group].timeframe, feature.name.clone()), here);
                    groups[group].features.push(feature);
                    match self.token.kind {
                        Kind::Sign(',') => self.advance()?,
                        Kind::Newline | Kind::Sign(';') | Kind::End => {}
                        _ => return Err(self.not_separated()),
                    }
                    fresh = false;
                }
            }
        }
        if names.is_empty() && groups.len() == 1 {
            return Err(Problem::new(At::default(), "the feature set is empty", "write a feature, such as rsi(14)"));
        }
        not_empty(&groups[groups.len() - 1], headers[headers.len() - 1])?;
        groups.retain(|group| !group.features.is_empty());
        Ok(groups)
    }

    /// `[fast]` or `[slow @1h]`.
    fn header(&mut self) -> Result<Group> {
        let opened = self.token.at;
        self.advance()?;
        let Kind::Word(name) = self.token.kind else {
            let remedy = "write [name] or [name @1h]; a lag such as close[3] stays on the line of its expression";
            return Err(Problem::new(opened, "the header of a group needs a name", remedy));
        };
        self.advance()?;
        let mut timeframe = None;
        if let Kind::Frame(frame) = self.token.kind {
            timeframe = Some(self.timeframe(frame)?);
            self.advance()?;
        }
        if self.token.kind != Kind::Sign(']') {
            return Err(Problem::new(opened, "this `[` is not closed", "write the header as [name] or [name @1h]"));
        }
        self.advance()?;
        if !matches!(self.token.kind, Kind::Newline | Kind::Sign(';') | Kind::End) {
            let message = format!("{} stands on the line of a header", self.shown());
            return Err(Problem::new(self.token.at, message, "begin the features of a group on the next line"));
        }
        Ok(Group { name: name.to_string(), timeframe, features: Vec::new() })
    }

    /// `expr` or `name = expr`.
    fn feature(&mut self) -> Result<Feature> {
        let mut given = None;
        let mut ahead = self.lexer;
        if let Kind::Word(name) = self.token.kind
            && ahead.next().is_ok_and(|next| next.kind == Kind::Sign('='))
        {
            self.advance()?;
            self.advance()?;
            self.next_line()?;
            given = Some(name.to_string());
        }
        let expr = self.sum()?.expr;
        Ok(Feature { name: given.unwrap_or_else(|| expr.to_string()), expr })
    }

    fn sum(&mut self) -> Result<Node> {
        self.chain([('+', Op::Add), ('-', Op::Sub)], Parser::product)
    }

    fn product(&mut self) -> Result<Node> {
        self.chain([('*', Op::Mul), ('/', Op::Div)], Parser::minus)
    }

    /// Operands of one rank, from left to right.
    fn chain(&mut self, ops: [(char, Op); 2], operand: fn(&mut Self) -> Result<Node>) -> Result<Node> {
        let mut left = operand(self)?;
        while let Some(&(_, op)) = ops.iter().find(|(sign, _)| self.token.kind == Kind::Sign(*sign)) {
            self.advance()?;
            self.next_line()?;
            let right = operand(self)?;
            let span = left.span.to(right.span);
            let height = left.height.max(right.height);
            left = node(height, span, |at| Expr::Binary(op, Box::new(left.expr), Box::new(right.expr), at))?;
        }
        Ok(left)
    }

    fn minus(&mut self) -> Result<Node> {
        if self.token.kind != Kind::Sign('-') {
            return self.postfix();
        }
        let start = self.token.at;
        self.enter()?;
        self.advance()?;
        self.next_line()?;
        let inner = self.minus()?;
        self.depth -= 1;
        node(inner.height, start.to(inner.span), |at| Expr::Neg(Box::new(inner.expr), at))
    }

    /// Any of `[3]` and `@1h` after an expression.
    fn postfix(&mut self) -> Result<Node> {
        let mut inner = self.primary()?;
        loop {
            let here = self.token.at;
            match self.token.kind {
                Kind::Sign('[') => {
                    let (bars, end) = self.lag()?;
                    let span = inner.span.to(end);
                    inner = node(inner.height, span, |at| Expr::Lag(Box::new(inner.expr), bars, at))?;
                }
                Kind::Frame(frame) => {
                    let timeframe = self.timeframe(frame)?;
                    self.advance()?;
                    let span = inner.span.to(here);
                    inner = node(inner.height, span, |at| Expr::On(Box::new(inner.expr), timeframe, at))?;
                }
                Kind::Sign('.') => {
                    let remedy = "write it once, right after the call: macd(12, 26, 9).hist@1h";
                    return Err(Problem::new(here, "an output belongs to a call", remedy));
                }
                _ => return Ok(inner),
            }
        }
    }

    /// The number in brackets, and where they close.
    fn lag(&mut self) -> Result<(usize, At)> {
        let opened = self.token.at;
        self.advance()?;
        let here = self.token.at;
        let wrong = |message| Err(Problem::new(here, message, "write how many bars ago, such as close[3]"));
        let bars = match self.token.kind {
            Kind::Number(bars) => bars,
            Kind::Sign('-') => return wrong("a lag looks back; the future is not known"),
            Kind::End | Kind::Newline => return wrong_bracket(opened),
            _ => return wrong("a lag is a whole number of bars"),
        };
        if bars.fract() != 0.0 {
            return wrong("a lag is a whole number of bars");
        }
        if bars > f64::from(u32::MAX) {
            return wrong("a lag this long reaches before all data");
        }
        self.advance()?;
        let closed = self.token.at;
        if self.token.kind != Kind::Sign(']') {
            return wrong_bracket(opened);
        }
        self.advance()?;
        Ok((bars as usize, closed))
    }

    fn primary(&mut self) -> Result<Node> {
        let here = self.token.at;
        match self.token.kind {
            Kind::Number(number) => {
                self.advance()?;
                node(0, here, |at| Expr::Number(number, at))
            }
            Kind::Word(name) => self.call(name),
            Kind::Sign('(') => {
                self.enter()?;
                self.open.push(here);
                self.advance()?;
                let inner = self.sum()?;
                if self.token.kind != Kind::Sign(')') {
                    return Err(self.not_closed(here, false));
                }
                let end = self.leave()?;
                Ok(Node { span: here.to(end), ..inner })
            }
            Kind::Text(_) => {
                let remedy = "quote only names of columns: col(\"funding rate\")";
                Err(Problem::new(here, "a quoted name stands alone, as an argument of col", remedy))
            }
            _ => Err(self.no_expression()),
        }
    }

    /// `name`, `name(args)`, `name(args).output`.
    fn call(&mut self, word: &str) -> Result<Node> {
        let start = self.token.at;
        let name = if self.in_col { word.to_string() } else { word.to_ascii_lowercase() };
        self.advance()?;
        let (mut end, mut height, mut args, mut output) = (start, 0, Vec::new(), None);
        if self.token.kind == Kind::Sign('(') {
            (args, height, end) = self.args(word.eq_ignore_ascii_case("col"))?;
        }
        if self.token.kind == Kind::Sign('.') {
            self.advance()?;
            let Kind::Word(word) = self.token.kind else {
                let message = format!("the name of an output is missing before {}", self.shown());
                return Err(Problem::new(self.token.at, message, "write it after the point: macd(12, 26, 9).hist"));
            };
            end = self.token.at;
            output = Some(word.to_ascii_lowercase());
            self.advance()?;
        }
        node(height, start.to(end), |at| Expr::Call { name, args, output, at })
    }

    /// The arguments, the height of the highest, and where the parenthesis closes.
    fn args(&mut self, of_col: bool) -> Result<(Vec<Expr>, usize, At)> {
        let opened = self.token.at;
        let outer = std::mem::replace(&mut self.in_col, of_col);
        self.enter()?;
        self.open.push(opened);
        self.advance()?;
        let (mut args, mut height) = (Vec::new(), 0);
        while !(args.is_empty() && self.token.kind == Kind::Sign(')')) {
            if matches!(self.token.kind, Kind::Sign(',' | ')')) {
                return Err(Problem::new(self.token.at, "an argument is empty", "write it, or remove the comma"));
            }
            let arg = self.argument()?;
            height = height.max(arg.height);
            args.push(arg.expr);
            match self.token.kind {
                Kind::Sign(',') => self.advance()?,
                Kind::Sign(')') => break,
                _ => return Err(self.not_closed(opened, true)),
            }
        }
        self.in_col = outer;
        Ok((args, height, self.leave()?))
    }

    fn argument(&mut self) -> Result<Node> {
        let mut ahead = self.lexer;
        match self.token.kind {
            Kind::Text(text) if self.in_col => {
                let here = self.token.at;
                self.advance()?;
                node(0, here, |at| Expr::Text(text.to_string(), at))
            }
            Kind::Word(word) if ahead.next().is_ok_and(|next| next.kind == Kind::Sign('=')) => {
                let remedy = "write the value alone, such as rsi(14)";
                Err(Problem::new(
                    self.token.at,
                    format!("arguments have no names, and this one has `{}`", short(word)),
                    remedy,
                ))
            }
            _ => self.sum(),
        }
    }

    fn timeframe(&self, frame: &str) -> Result<Timeframe> {
        frame.parse().map_err(|_| {
            let message = match frame {
                "" => "a timeframe is missing after `@`".to_string(),
                _ => format!("`{}` is not a timeframe", short(frame)),
            };
            Problem::new(self.token.at, message, "write 5m, 1h, 1d, 1w or 1mo")
        })
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(too_deep(self.token.at)) } else { Ok(()) }
    }

    /// Past the closing parenthesis.
    fn leave(&mut self) -> Result<At> {
        let end = self.token.at;
        self.open.pop();
        self.depth -= 1;
        self.advance()?;
        Ok(end)
    }

    /// To the next token; inside parentheses a newline is white space.
    fn advance(&mut self) -> Result<()> {
        self.wrapped = false;
        self.token = self.lexer.next()?;
        if self.open.is_empty() { Ok(()) } else { self.next_line() }
    }

    /// Over newlines, where the expression goes on.
    fn next_line(&mut self) -> Result<()> {
        while self.token.kind == Kind::Newline {
            self.wrapped = true;
            self.token = self.lexer.next()?;
        }
        Ok(())
    }

    /// The token is where an expression should be.
    fn no_expression(&self) -> Problem {
        let (here, shown) = (self.token.at, self.shown());
        match (self.token.kind, self.open.last()) {
            (Kind::End | Kind::Sign(';'), Some(&opened)) => unclosed(opened),
            (Kind::Sign(')' | ']'), None) => closes_nothing(here, &shown),
            (Kind::Sign('+' | '*' | '/'), _) => Problem::new(
                here,
                format!("there is nothing to the left of {shown}"),
                "to continue a line, end it with the operator",
            ),
            (Kind::Sign('['), _) => Problem::new(
                here,
                "`[` stands after no expression",
                "write a lag right after its expression, as in close[3], and a header on a line of its own",
            ),
            _ => Problem::new(
                here,
                format!("an expression is missing before {shown}"),
                "write a name, a number or a call such as rsi(14)",
            ),
        }
    }

    /// The token follows a feature and is no separator.
    fn not_separated(&self) -> Problem {
        let (here, shown) = (self.token.at, self.shown());
        match self.token.kind {
            Kind::Sign('=') => Problem::new(
                here,
                "only a name stands to the left of `=`, once",
                "write letters, digits and underscores: fast = ema(12)",
            ),
            Kind::Sign(')' | ']') => closes_nothing(here, &shown),
            _ => Problem::new(
                here,
                format!("an operator or a separator is missing before {shown}"),
                "write a comma, semicolon or newline between features",
            ),
        }
    }

    /// The token follows an expression in parentheses and neither closes them nor goes on.
    fn not_closed(&self, opened: At, call: bool) -> Problem {
        let (here, shown) = (self.token.at, self.shown());
        match self.token.kind {
            Kind::End | Kind::Sign(';') => unclosed(opened),
            // What stands on the next line is most likely the next feature.
            _ if self.wrapped => unclosed(opened),
            Kind::Sign(']') => closes_nothing(here, &shown),
            Kind::Sign(',') => Problem::new(
                here,
                "a comma stands in parentheses that belong to no call",
                "close them before it, or write a name before them",
            ),
            _ if call => Problem::new(
                here,
                format!("a comma or an operator is missing before {shown}"),
                "write a comma between arguments",
            ),
            _ => Problem::new(here, format!("an operator is missing before {shown}"), "write one of + - * /"),
        }
    }

    /// The token, as errors quote it.
    fn shown(&self) -> String {
        let At { from, len } = self.token.at;
        match self.token.kind {
            Kind::End => "the end".to_string(),
            Kind::Newline => "the end of the line".to_string(),
            _ => format!("`{}`", short(self.text.get(from..from + len).unwrap_or_default())),
        }
    }

    /// `on lines 1 and 3`.
    fn lines(&self, first: At, second: At) -> String {
        match (place(self.text, first).0, place(self.text, second).0) {
            (a, b) if a == b => format!("both on line {a}"),
            (a, b) => format!("on lines {a} and {b}"),
        }
    }
}

/// One level above children of that height.
fn node(below: usize, span: At, make: impl FnOnce(At) -> Expr) -> Result<Node> {
    if below == DEEPEST { Err(too_deep(span)) } else { Ok(Node { expr: make(span), height: below + 1, span }) }
}

fn not_empty(group: &Group, header: At) -> Result<()> {
    if group.features.is_empty() && !group.name.is_empty() {
        let message = format!("the group `{}` is empty", short(&group.name));
        return Err(Problem::new(header, message, "write its features below its header, or remove the header"));
    }
    Ok(())
}

fn too_deep(at: At) -> Problem {
    let message = format!("this is nested deeper than {DEEPEST} levels, each operator of a chain counts as one");
    Problem::new(at, message, "remove parentheses, or put halves of a long chain in them: (a + b) + (c + d)")
}

fn unclosed(opened: At) -> Problem {
    Problem::new(opened, "this `(` is not closed", "close it with `)`")
}

fn wrong_bracket<T>(opened: At) -> Result<T> {
    Err(Problem::new(opened, "this `[` is not closed", "write how many bars ago and close it, as in close[3]"))
}

fn closes_nothing(at: At, shown: &str) -> Problem {
    Problem::new(at, format!("{shown} closes nothing"), "remove it, or add the opening one before it")
}

/// As much of it as an error quotes.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(40)]
}
