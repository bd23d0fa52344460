//! A feature set resolved against the catalogue: what is computed on which timeframe, from which columns.
//!
//! The base layer is the timeframe of the bars that are given; each slower timeframe that the set names is a layer of
//! its own, whose values the base layer sees as of the last completed slow bar.

use crate::columns::Column;
use crate::context::Context;
use crate::graph::{Graph, Id};
use crate::indicators::{Build, Indicator, Kind as Chapter, LONGEST, Param, catalogue, find};
use crate::language::{At, Expr, Op as Sign, Origin, Set};
use crate::ops::{Map, Op};
use bars::{Timeframe, nearest};
use files::{Error, Kind, Result};

/// What a settled value may depend on where its run began, in standard deviations of its column, where nothing else is
/// said.
pub const SETTLE: f64 = 1e-3;

/// How much less of a start than that may be left in an average. Averages of one indicator add up, and an oscillator in
/// a calm stretch remembers a wild start (docs/method.md, Leak tests).
pub(crate) const MARGIN: f64 = 0.05;

/// What to compute.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `layers[0]` is the base; the others stand in the order in which the set names them.
    pub(crate) layers: Vec<Layer>,
    text: String,
}

/// What is left of a plan for a market.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// What can be computed.
    pub plan: Plan,
    /// Features left out because there is no volume.
    pub without_volume: Vec<String>,
    /// Features left out because there are too few symbols for a market.
    pub without_market: Vec<String>,
}

/// What is computed on one timeframe.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// `None`: that of the bars given.
    pub(crate) timeframe: Option<Timeframe>,
    pub(crate) graph: Graph,
    pub(crate) columns: Vec<Column>,
    /// The columns of its table.
    pub(crate) outputs: Vec<Output>,
    /// What the base layer sees of it.
    pub(crate) shown: Vec<Id>,
    /// Slower values among the columns.
    pub(crate) behind: Vec<Behind>,
    /// What may be left of a start in a settled average, as a share of its weight.
    left: f64,
}

/// What a column of a slower timeframe takes, in slow bars.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Behind {
    column: Column,
    /// Before its first value.
    first: usize,
    /// From its first to where it settles; `None`: never.
    settling: Option<usize>,
}

/// One column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) text: String,
    pub(crate) id: Id,
}

impl Plan {
    /// Resolves a set; its columns settle to [`SETTLE`].
    pub fn new(set: &Set) -> Result<Plan> {
        Plan::with_settle(set, SETTLE)
    }

    /// Resolves a set whose columns count as settled once the start of a run changes them by no more than `settle`
    /// standard deviations of the column.
    pub fn with_settle(set: &Set, settle: f64) -> Result<Plan> {
        let mut layers = vec![Layer::new(None, settle * MARGIN)];
        for group in &set.groups {
            let layer = layer_of(&mut layers, group.timeframe);
            for feature in &group.features {
                let id = Resolve { layers: &mut layers, origin: &set.origin }.expr(&feature.expr, layer)?;
                let text = feature.expr.to_string();
                let output = Output { name: feature.name.clone(), group: group.name.clone(), text, id };
                layers[layer].outputs.push(output);
            }
        }
        Ok(Plan { layers, text: set.to_string() })
    }

    /// The canonical text of the set.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same plan without the features that read the volume, and their names.
    pub fn without_volume(&self) -> (Plan, Vec<String>) {
        let mut plan = self.clone();
        let mut gone = Vec::new();
        // A feature reads the volume of its own timeframe, or of a slower one that it looks at.
        let slow: Vec<(Option<Timeframe>, Vec<bool>)> = self.layers[1..]
            .iter()
            .map(|layer| (layer.timeframe, layer.shown.iter().map(|id| layer.reads(*id, &is_volume)).collect()))
            .collect();
        let reads = |column: &Column| match column {
            Column::Slow(timeframe, at) => slow.iter().any(|s| s.0 == Some(*timeframe) && s.1[*at]),
            column => is_volume(column),
        };
        for (layer, old) in plan.layers.iter_mut().zip(&self.layers) {
            layer.outputs.retain(|output| {
                let keep = !old.reads(output.id, &reads);
                if !keep {
                    gone.push(output.name.clone());
                }
                keep
            });
        }
        (plan, gone)
    }

    /// The same plan without the features that look at more symbols than there are, and their names.
    pub fn with_symbols(&self, symbols: usize) -> (Plan, Vec<String>) {
        let mut plan = self.clone();
        let mut gone = Vec::new();
        let too_many = |column: &Column| matches!(column, Column::Context(what) if what.least() > symbols);
        if !plan.layers[0].columns.iter().any(too_many) {
            return (plan, gone);
        }
        plan.layers[0].outputs.retain(|output| {
            let keep = !self.layers[0].reads(output.id, &too_many);
            if !keep {
                gone.push(output.name.clone());
            }
            keep
        });
        (plan, gone)
    }

    /// What is left of it for a market of so many symbols, with volume or without; an error where nothing is.
    pub fn fit(&self, volume: bool, symbols: usize) -> Result<Fitted> {
        if self.width() == 0 {
            return Err(
                Error::new(Kind::Usage, "the set has no features").remedy("<features.set=basic> has about twenty")
            );
        }
        let (plan, without_volume) = if volume { (self.clone(), Vec::new()) } else { self.without_volume() };
        if plan.width() == 0 {
            return Err(Error::new(Kind::Input, "every feature of the set needs the volume, and the data have none")
                .remedy("choose other features; <features.set=basic> works without volume"));
        }
        let (plan, without_market) = plan.with_symbols(symbols);
        if plan.width() == 0 {
            let many = if symbols == 1 { "one symbol".to_string() } else { format!("{symbols} symbols") };
            let but = if without_volume.is_empty() { "" } else { " or needs the volume, which they do not have" };
            let message =
                format!("every feature of the set looks at the market around a symbol, and the data have {many}{but}");
            return Err(Error::new(Kind::Input, message)
                .remedy("give more symbols; the last number of market_return(1, 5) is how many it needs"));
        }
        Ok(Fitted { plan, without_volume, without_market })
    }

    /// The least number of symbols with which all its features exist: 1 where none looks at the market.
    pub fn symbols(&self) -> usize {
        self.context().into_iter().map(Context::least).max().unwrap_or(1)
    }

    /// The most bars of that length that any of its features looks back on.
    pub fn reach(&self, base: Timeframe) -> usize {
        let each = |layer: &Layer| {
            let bars = layer.timeframe.map_or(1, |slow| most_bars(slow, base));
            let deepest = layer.outputs.iter().map(|o| layer.reach(o.id, layer.timeframe.unwrap_or(base))).max();
            deepest.map_or(0, |reach| if layer.timeframe.is_none() { reach } else { (reach + 2).saturating_mul(bars) })
        };
        self.layers.iter().map(each).max().unwrap_or(0)
    }

    /// Whether some feature looks at the market around a symbol: the symbols are then part of what is learnt
    /// ([`crate::Universe`]).
    pub fn sees_market(&self) -> bool {
        !self.context().is_empty()
    }

    /// What its features ask of the market.
    pub(crate) fn context(&self) -> Vec<Context> {
        let base = &self.layers[0];
        let wanted: Vec<Id> = base.outputs.iter().map(|o| o.id).collect();
        let (part, _) = base.graph.part(&wanted);
        let of = |op: &Op| match op {
            Op::Input(at) => match &base.columns[*at] {
                Column::Context(what) => Some(*what),
                _ => None,
            },
            _ => None,
        };
        part.nodes().iter().filter_map(|node| of(&node.op)).collect()
    }

    /// Refuses features of the market where there is one symbol and no market.
    pub(crate) fn check_alone(&self) -> Result<()> {
        let seen = |column: &Column| matches!(column, Column::Context(_));
        match self.layers[0].outputs.iter().find(|o| self.layers[0].reads(o.id, &seen)) {
            None => Ok(()),
            Some(output) => Err(Error::new(
                Kind::Usage,
                format!(
                    "`{}` looks at the market around a symbol, which one symbol by itself does not have",
                    output.name
                ),
            )
            .remedy("compute it over all symbols at once, or leave out the features of the market")),
        }
    }

    /// Columns that the bars must bring, by name.
    pub fn extras(&self) -> Vec<&str> {
        let all = self.layers.iter().flat_map(|layer| &layer.columns);
        let mut names: Vec<&str> =
            all.filter_map(|c| if let Column::Extra(name) = c { Some(name.as_str()) } else { None }).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How many columns all its tables have.
    pub fn width(&self) -> usize {
        self.layers.iter().map(|layer| layer.outputs.len()).sum()
    }
}

fn is_volume(column: &Column) -> bool {
    *column == Column::Volume
}

impl Layer {
    fn new(timeframe: Option<Timeframe>, left: f64) -> Layer {
        let graph = Graph::late(usize::from(timeframe.is_some()));
        let (columns, outputs, shown, behind) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Layer { timeframe, graph, columns, outputs, shown, behind, left }
    }

    /// Index from which the start of a run no longer matters for a node, slower values apart.
    pub(crate) fn settled_alone(&self, id: Id) -> Option<usize> {
        self.graph.settled_alone(id, self.left)
    }

    /// Index from which the start of a run no longer matters for a node, on bars of that length.
    pub(crate) fn settled(&self, id: Id, base: Timeframe) -> Option<usize> {
        let own = usize::from(self.timeframe.is_some());
        self.graph.settled(id, self.left, &|column| match &self.columns[column] {
            slow @ Column::Slow(timeframe, _) => {
                // Where there are fewer bars to a slow one, what is settled is told late.
                let bars = self.behind.iter().find(|b| b.column == *slow)?.settling?;
                Some((bars + 1).saturating_mul(most_bars(*timeframe, base)))
            }
            _ => Some(own),
        })
    }

    /// How many bars of that length before its own a node looks back on: the finite part of its window, and of those of
    /// the slower values and the market that it reads.
    pub(crate) fn reach(&self, id: Id, base: Timeframe) -> usize {
        self.graph.reach(id, &|column| match &self.columns[column] {
            slow @ Column::Slow(timeframe, _) => {
                // Its window, and that the slow bar may have been complete for almost another one.
                let first = self.behind.iter().find(|b| b.column == *slow).map_or(0, |b| b.first);
                first.saturating_add(2).saturating_mul(most_bars(*timeframe, base))
            }
            Column::Context(what) => what.reach(),
            _ => 0,
        })
    }

    /// Whether a node depends on a column of that kind.
    pub(crate) fn reads(&self, id: Id, kind: &dyn Fn(&Column) -> bool) -> bool {
        let (part, _) = self.graph.part(&[id]);
        part.nodes().iter().any(|node| matches!(node.op, Op::Input(at) if kind(&self.columns[at])))
    }
}

/// Never more bars to a slow one than this.
fn most_bars(slow: Timeframe, base: Timeframe) -> usize {
    let length = if let Timeframe::Months(n) = slow { n * 31 * Timeframe::D1.ns() } else { slow.ns() };
    (length / base.ns().max(1)) as usize + 1
}

/// The layer of a timeframe, made where there is none.
fn layer_of(layers: &mut Vec<Layer>, timeframe: Option<Timeframe>) -> usize {
    layers.iter().position(|layer| layer.timeframe == timeframe).unwrap_or_else(|| {
        layers.push(Layer::new(timeframe, layers[0].left));
        layers.len() - 1
    })
}

struct Resolve<'a> {
    layers: &'a mut Vec<Layer>,
    origin: &'a Origin,
}

impl Resolve<'_> {
    /// Adds an expression to a layer.
    fn expr(&mut self, expr: &Expr, layer: usize) -> Result<Id> {
        if let Some(value) = constant(expr) {
            if !value.is_finite() {
                return Err(self.origin.error(expr.at(), "this number is not finite").remedy("do not divide by zero"));
            }
            return Ok(self.add(layer, Op::Const(value), &[]));
        }
        match expr {
            Expr::Number(..) => Err(self.origin.error(expr.at(), "this is not a number")),
            Expr::Text(text, at) => Err(self
                .origin
                .error(*at, format!("'{text}' is a name in quotes"))
                .remedy("only col(...) takes one: col('funding rate')")),
            Expr::Neg(inner, _) => {
                let x = self.expr(inner, layer)?;
                Ok(self.add(layer, Op::Affine(-1.0, 0.0), &[x]))
            }
            Expr::Lag(inner, bars, at) => {
                if *bars as f64 > LONGEST {
                    let message = format!("a lag of {bars} bars is too long");
                    return Err(self.origin.error(*at, message).remedy(format!("look back {LONGEST} bars at most")));
                }
                let x = self.expr(inner, layer)?;
                Ok(if *bars == 0 { x } else { self.add(layer, Op::Lag(*bars), &[x]) })
            }
            Expr::Binary(sign, left, right, _) => self.binary(*sign, left, right, layer),
            Expr::On(inner, timeframe, at) => self.on(inner, *timeframe, *at, layer),
            Expr::Call { name, args, output, at } if name == "col" => {
                let column = self.col(args, output.as_deref(), *at, layer)?;
                Ok(column)
            }
            Expr::Call { name, args, output, at } => self.call(name, args, output.as_deref(), *at, layer),
        }
    }

    fn add(&mut self, layer: usize, op: Op, args: &[Id]) -> Id {
        self.layers[layer].graph.add(op, args)
    }

    fn binary(&mut self, sign: Sign, left: &Expr, right: &Expr, layer: usize) -> Result<Id> {
        // A number beside a value costs no column of its own, where that changes no bit.
        let affine = match (sign, constant(left), constant(right)) {
            (Sign::Add, None, Some(c)) => Some((left, 1.0, c)),
            (Sign::Sub, None, Some(c)) => Some((left, 1.0, -c)),
            (Sign::Add, Some(c), None) => Some((right, 1.0, c)),
            (Sign::Sub, Some(c), None) => Some((right, -1.0, c)),
            (Sign::Mul, None, Some(c)) => Some((left, c, 0.0)),
            (Sign::Mul, Some(c), None) => Some((right, c, 0.0)),
            _ => None,
        };
        if let Some((x, a, b)) = affine.filter(|(_, a, b)| a.is_finite() && b.is_finite()) {
            let x = self.expr(x, layer)?;
            return Ok(self.add(layer, Op::Affine(a, b), &[x]));
        }
        let (a, b) = (self.expr(left, layer)?, self.expr(right, layer)?);
        let map = match sign {
            Sign::Add => Map::Add,
            Sign::Sub => Map::Sub,
            Sign::Mul => Map::Mul,
            Sign::Div => Map::Div,
        };
        Ok(self.add(layer, Op::Map(map), &[a, b]))
    }

    /// A value of a slower timeframe.
    fn on(&mut self, inner: &Expr, timeframe: Timeframe, at: At, layer: usize) -> Result<Id> {
        if self.layers[layer].timeframe == Some(timeframe) {
            return self.expr(inner, layer);
        }
        if let Some(own) = self.layers[layer].timeframe {
            return Err(self
                .origin
                .error(at, format!("an expression on bars of {own} cannot look at bars of {timeframe}"))
                .remedy("put the two side by side in a group of the base timeframe"));
        }
        let slow = layer_of(self.layers, Some(timeframe));
        let id = self.expr(inner, slow)?;
        let shown = &mut self.layers[slow].shown;
        let place = shown.iter().position(|s| *s == id).unwrap_or_else(|| {
            shown.push(id);
            shown.len() - 1
        });
        let column = Column::Slow(timeframe, place);
        let first = self.layers[slow].graph.node(id).first;
        let settling = self.layers[slow].settled_alone(id).map(|settled| settled - first);
        let behind = Behind { column: column.clone(), first, settling };
        if !self.layers[layer].behind.contains(&behind) {
            self.layers[layer].behind.push(behind);
        }
        Ok(self.build(layer).column(column))
    }

    /// `col(name)`, `col('a name', lag)`.
    fn col(&mut self, args: &[Expr], output: Option<&str>, at: At, layer: usize) -> Result<Id> {
        let bad = |origin: &Origin| {
            origin
                .error(at, "col takes the name of a column and, if wanted, a lag")
                .remedy("write col(funding_rate, 1)")
        };
        if output.is_some() {
            return Err(bad(self.origin));
        }
        let name = match args.first() {
            Some(Expr::Text(name, _)) => name.clone(),
            Some(Expr::Call { name, args, output: None, .. }) if args.is_empty() => name.clone(),
            _ => return Err(bad(self.origin)),
        };
        let lag = match &args[1..] {
            [] => 0,
            [lag] => constant(lag).filter(|n| *n >= 0.0 && n.fract() == 0.0 && *n <= 1e5).ok_or_else(|| {
                self.origin
                    .error(lag.at(), "a lag is a whole number of bars, 0 or more")
                    .remedy("the future is not known; write col(name, 1) for the bar before")
            })? as usize,
            _ => return Err(bad(self.origin)),
        };
        let mut build = self.build(layer);
        let column = build.column(Column::Extra(name));
        Ok(build.lag(column, lag))
    }

    fn call(&mut self, name: &str, args: &[Expr], output: Option<&str>, at: At, layer: usize) -> Result<Id> {
        let indicator = find(name).ok_or_else(|| {
            let error = self.origin.error(at, format!("there is no indicator `{name}`"));
            match nearest(name, catalogue().map(|i| i.name)) {
                Some(near) => error.remedy(format!("did you mean `{near}`?")),
                None => error.remedy(format!(
                    "a column of your own is col({name}); `fullbore features <list>` shows all indicators"
                )),
            }
        })?;
        if let (Chapter::Market, Some(own)) = (indicator.kind, self.layers[layer].timeframe) {
            return Err(self
                .origin
                .error(at, format!("`{name}` looks at all symbols and is not made on bars of {own}"))
                .remedy("put it in a group of the base timeframe, or give bars of that length"));
        }
        let which = match output {
            None => 0,
            Some(word) => indicator.outputs.iter().position(|o| *o == word).ok_or_else(|| {
                let error = self.origin.error(at, format!("`{name}` has no output `{word}`"));
                match indicator.outputs {
                    [] => error.remedy(format!("it gives one value: write {}", usage(indicator))),
                    outputs => error.remedy(format!("it has {}", outputs.join(", "))),
                }
            })?,
        };
        // Values come first, then numbers.
        let first = args.iter().position(|arg| constant(arg).is_some()).unwrap_or(args.len());
        let (values, numbers) = args.split_at(first);
        let (most, least) = (indicator.sources.len(), indicator.sources.iter().filter(|s| s.is_empty()).count());
        if values.len() > most || values.len() < least || numbers.len() > indicator.params.len() {
            return Err(self
                .origin
                .error(at, format!("`{name}` does not take these arguments"))
                .remedy(format!("write {}", usage(indicator))));
        }
        let mut sources = Vec::new();
        for (i, default) in indicator.sources.iter().enumerate() {
            let id = match values.get(i) {
                Some(value) => self.expr(value, layer)?,
                None => self.call(default, &[], None, at, layer)?,
            };
            sources.push(id);
        }
        let mut params = Vec::new();
        for (i, param) in indicator.params.iter().enumerate() {
            params.push(self.param(indicator, param, numbers.get(i), at)?);
        }
        let Layer { graph, columns, .. } = &mut self.layers[layer];
        Ok((indicator.build)(&mut Build { graph, columns, sources, params, output: which }))
    }

    fn param(&self, indicator: &Indicator, param: &Param, arg: Option<&Expr>, at: At) -> Result<f64> {
        let Some(arg) = arg else {
            return param.default.ok_or_else(|| {
                let message = format!("`{}` needs `{}`", indicator.name, param.name);
                self.origin.error(at, message).remedy(format!("write {}", usage(indicator)))
            });
        };
        let (least, most) = param.range;
        let value = constant(arg).filter(|v| *v >= least && *v <= most && (!param.whole || v.fract() == 0.0));
        value.ok_or_else(|| {
            let kind = if param.whole { "a whole number" } else { "a number" };
            let message = format!("`{}` of `{}` is {kind} from {least} to {most}", param.name, indicator.name);
            self.origin.error(arg.at(), message).remedy(format!("write {}", usage(indicator)))
        })
    }

    fn build(&mut self, layer: usize) -> Build<'_> {
        let Layer { graph, columns, .. } = &mut self.layers[layer];
        Build { graph, columns, sources: Vec::new(), params: Vec::new(), output: 0 }
    }
}

/// The value of an expression of numbers only.
fn constant(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Number(value, _) => Some(*value),
        Expr::Neg(inner, _) => constant(inner).map(|v| -v),
        Expr::Binary(sign, left, right, _) => {
            let (a, b) = (constant(left)?, constant(right)?);
            Some(match sign {
                Sign::Add => a + b,
                Sign::Sub => a - b,
                Sign::Mul => a * b,
                Sign::Div => a / b,
            })
        }
        _ => None,
    }
}

/// `macd(close, 12, 26, 9).line`
pub(crate) fn usage(indicator: &Indicator) -> String {
    let show = |v: f64| v.to_string();
    let mut args: Vec<String> =
        indicator.sources.iter().map(|s| if s.is_empty() { "x".to_string() } else { s.to_string() }).collect();
    args.extend(indicator.params.iter().map(|p| p.default.map_or_else(|| p.name.to_string(), show)));
    let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
    let output = indicator.outputs.first().map_or_else(String::new, |o| format!(".{o}"));
    format!("{}{args}{output}", indicator.name)
}

/// What is wrong with the columns that a set wants and the bars do not have.
pub(crate) fn missing_extra(name: &str, have: &[String]) -> Error {
    let error = Error::new(Kind::Input, format!("the data have no column `{name}`, which the feature set reads"));
    match nearest(name, have.iter().map(String::as_str)) {
        Some(near) => error.remedy(format!("did you mean col({near})?")),
        None if have.is_empty() => error.remedy("these data bring no columns beside open, high, low, close and volume"),
        None => error.remedy(format!("there are {}", have.join(", "))),
    }
}
