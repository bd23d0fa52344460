//! What is predicted.

use super::form::{Form, number};
use super::key::section;
use ::features::labels::{Labeling, Rule};

section! {
    /// What is predicted.
    LabelSettings at labels, "label.";

    /// What is predicted; auto takes the triple barrier with the shortest balanced horizon.
    rule: Option<Rule> = Some(Rule::Auto), rule().flag("labels", "RULE");
    /// What a round trip costs, in hundredths of a percent; auto takes twice a side of the instrument.
    cost_bp: Option<f64> = None, number(0.0..=10_000.0).or_auto();
    /// Bars in the memory of the triple barrier's volatility (an exponential mean).
    span: f64 = Labeling::default().span, number(1.0..=1e6);
}

/// A rule by its name; none labels nothing.
fn rule() -> Form<Option<Rule>> {
    let legal = "auto, none, fixed(12), triple(24), triple(24, 1.5) or trend(48)";
    let read = move |value: &toml::Value| match value.as_str().ok_or(None)?.trim() {
        "none" => Ok(None),
        name => name.parse().map(Some).map_err(|why| Some((why, format!("write {legal}")))),
    };
    let show = |rule: &Option<Rule>| rule.map_or_else(|| "none".to_string(), |rule| rule.to_string()).into();
    Form::new(legal, read, show).verbatim()
}
