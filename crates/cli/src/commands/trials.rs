//! `fullbore trials`

use super::{Context, Outcome, narrow};
use crate::args::Trials as Args;
use crate::show::{date, table, wrap};
use files::{format_fixed, format_plural};
use jobs::{TrialLine, TrialsListed};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let select = args.data.map(|data| narrow(data, args.how)).transpose()?;
    let progress = &mut context.progress;
    let listed = jobs::trials(select.as_ref(), &context.settings, &mut |u| progress.update(u))?;
    context.print(&listed, |_| render(&listed))?;
    Ok(0)
}

fn render(listed: &TrialsListed) -> String {
    let mut text = String::new();
    let about = listed.data.as_ref().map_or(String::new(), |data| format!(" on {data}"));
    match &listed.since {
        None => {
            let none = format!("no trial was written yet{about}: there is no ledger in {}", listed.ledger);
            text.push_str(&wrap(&none, "", ""));
        }
        Some(since) => {
            let counted = format!(
                "{}{about}, of {}; the ledger begins on {} and its {} are whole",
                format_plural(listed.trials, "trial"),
                format_plural(listed.configs, "configuration"),
                date(since),
                format_plural(listed.rows, "row")
            );
            text.push_str(&wrap(&counted, "", ""));
            let earlier = "what was tried before that day, or with another FULLBORE_HOME, is not counted";
            text.push_str(&wrap(earlier, "  ", "  "));
        }
    }
    if !listed.starts.is_empty() {
        const SHOWN: usize = 40;
        let number = |x: Option<f64>, digits: usize| x.map_or("-".into(), |x| format_fixed(x, digits));
        let row = |start: &TrialLine| {
            let symbols = match start.symbols.as_slice() {
                [one] => one.clone(),
                all => format_plural(all.len() as u64, "symbol"),
            };
            let opened = if start.holdouts > 0 { ", holdout opened" } else { "" };
            vec![
                start.row.to_string(),
                date(&start.time),
                start.id.chars().take(8).collect::<String>() + seed(&start.id),
                symbols,
                format!("{}{opened}", start.outcome),
                number(start.direction_mcc, 4),
                number(start.sharpe_annual, 2),
                shortened(start.what.as_deref().unwrap_or("-")),
            ]
        };
        let hidden = listed.starts.len().saturating_sub(SHOWN);
        let rows: Vec<Vec<String>> = listed.starts[hidden..].iter().map(row).collect();
        text.push('\n');
        if hidden > 0 {
            let _ = writeln!(text, "  {hidden} earlier ones (--json shows all)");
        }
        let heads = [">row", "started", "trial", "on", "ended", ">direction", ">net Sharpe", "what"];
        text.push_str(&table(&heads, &rows, "  "));
    }
    for run in &listed.lacking {
        let missing = format!(
            "{} says that it is row {} of its ledger, and this ledger does not have it: it is not counted",
            run.folder, run.row
        );
        text.push_str(&wrap(&missing, "\n  - ", "    "));
    }
    text
}

/// `@7` of an id.
fn seed(id: &str) -> &str {
    id.find('@').map_or("", |at| &id[at..])
}

/// Nets may be long.
fn shortened(what: &str) -> String {
    const MOST: usize = 70;
    if what.chars().count() <= MOST {
        return what.into();
    }
    what.chars().take(MOST - 1).collect::<String>() + "…"
}
