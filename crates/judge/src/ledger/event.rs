//! What a row says, as a value and as columns.

use super::{StartedTrial, Trial};
use features::Span;
use rusqlite::types::Value;

/// What a row says; which columns are filled depends on its kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) trial: String,
    pub(super) start: Option<u64>,
    pub(super) symbols: Option<Vec<String>>,
    pub(super) span: Option<Span>,
    pub(super) code: Option<String>,
    pub(super) data: Option<String>,
    pub(super) folds: Option<u32>,
    pub(super) seeds: Option<Vec<u64>>,
    pub(super) parent: Option<String>,
    pub(super) metrics: Option<String>,
    pub(super) returns: Option<String>,
    pub(super) reason: Option<String>,
}

impl StartedTrial {
    /// An event about this trial.
    pub(super) fn event(&self, kind: &str) -> Event {
        Event { kind: kind.into(), trial: self.trial.clone(), start: Some(self.row), ..Event::default() }
    }
}

impl Event {
    pub(super) fn start(trial: &Trial) -> Event {
        let trial = trial.clone();
        Event {
            kind: "started".into(),
            trial: trial.id,
            symbols: Some(trial.symbols),
            span: Some(trial.span),
            code: Some(trial.code),
            data: Some(trial.data),
            folds: Some(trial.folds),
            seeds: Some(trial.seeds),
            parent: trial.parent,
            reason: trial.what,
            ..Event::default()
        }
    }

    /// The trial that starts here.
    pub(super) fn trial(&self) -> Option<Trial> {
        Some(Trial {
            id: self.trial.clone(),
            symbols: self.symbols.clone()?,
            span: self.span?,
            code: self.code.clone()?,
            data: self.data.clone()?,
            folds: self.folds?,
            seeds: self.seeds.clone()?,
            parent: self.parent.clone(),
            what: self.reason.clone(),
        })
    }

    /// `[17]` as columns.
    pub(super) fn columns(&self, row: u64, time: i64, previous: &str) -> Vec<Value> {
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
        let number = |number: Option<i64>| number.map_or(Value::Null, Value::Integer);
        vec![
            Value::Integer(row as i64),
            Value::Integer(time),
            Value::Text(self.kind.clone()),
            Value::Text(self.trial.clone()),
            number(self.start.map(|row| row as i64)),
            text(&self.symbols.as_ref().map(|symbols| serde_json::json!(symbols).to_string())),
            number(self.span.map(Span::from)),
            number(self.span.map(Span::to)),
            text(&self.code),
            text(&self.data),
            number(self.folds.map(i64::from)),
            text(&self.seeds.as_ref().map(|seeds| serde_json::json!(seeds).to_string())),
            text(&self.parent),
            text(&self.metrics),
            text(&self.returns),
            text(&self.reason),
            Value::Text(previous.into()),
        ]
    }

    /// From columns; `None` where one is not what it should be.
    pub(super) fn read(columns: &[Value]) -> Option<Event> {
        let text = |at: usize| match &columns[at] {
            Value::Text(text) => Some(Some(text.clone())),
            Value::Null => Some(None),
            _ => None,
        };
        let number = |at: usize| match columns[at] {
            Value::Integer(number) => Some(Some(number)),
            Value::Null => Some(None),
            _ => None,
        };
        let span = match (number(6)?, number(7)?) {
            (Some(from), Some(to)) => Some(Span::new(from, to)?),
            _ => None,
        };
        Some(Event {
            kind: text(2)??,
            trial: text(3)??,
            start: number(4)?.map(u64::try_from).transpose().ok()?,
            symbols: text(5)?.map(|text| serde_json::from_str(&text)).transpose().ok()?,
            span,
            code: text(8)?,
            data: text(9)?,
            folds: number(10)?.map(u32::try_from).transpose().ok()?,
            seeds: text(11)?.map(|text| serde_json::from_str(&text)).transpose().ok()?,
            parent: text(12)?,
            metrics: text(13)?,
            returns: text(14)?,
            reason: text(15)?,
        })
    }
}
