//! `fullbore check lookahead`

use super::features::point_at_mistake;
use super::{Context, Outcome, select};
use crate::args::Lookahead as Args;
use crate::out::Paint;
use crate::show::{fit, table, wrap};
use features::leak::{Test, Verdict};
use files::{format_count, format_plural, format_seconds};
use jobs::{Caught, Check, Checked, Tested};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let set = context.settings.features.or("full");
    let select = select(args.source)?;
    let request = Check { select, set, cuts: args.cuts.map(|n| n as usize), all: args.all };
    let progress = &mut context.progress;
    let checked = jobs::check(&request, &context.settings, &mut |u| progress.update(u))
        .map_err(|e| point_at_mistake(e, &request.set, context.json))?;
    context.print(&checked, |paint| render(&checked, paint))?;
    Ok(u8::from(checked.is_leak()))
}

/// Everything for the eye: the verdict first and last.
fn render(checked: &Checked, paint: Paint) -> String {
    let mut text = format!("{}  {}\n\n", verdict(checked.verdict, paint), fit(&checked.data, 70));
    let part = |some: u64, all: u64| {
        if some == all { format_count(all) } else { format!("{} of {}", format_count(some), format_count(all)) }
    };
    let _ = writeln!(
        text,
        "  {} bars of {}, {} {}, labels {}; took {}",
        part(checked.rows, checked.all_rows),
        checked.timeframe,
        part(checked.symbols, checked.all_symbols),
        if checked.all_symbols == 1 { "symbol" } else { "symbols" },
        checked.label.as_deref().unwrap_or("none"),
        format_seconds(checked.seconds)
    );
    if (checked.symbols, checked.rows) != (checked.all_symbols, checked.all_rows) {
        let _ = writeln!(text, "  (a sample; --all checks everything)");
    }
    text.push('\n');
    let rows: Vec<Vec<String>> = checked.tests.iter().map(row).collect();
    text.push_str(&table(&["test", ">columns", ">tries", "verdict", "worst"], &rows, "  "));
    for test in checked.tests.iter().filter(|t| !t.caught.is_empty()) {
        let _ = write!(text, "\n{}: {}\n", paint.bold(&test.test.to_string()), explain_test(test.test));
        for caught in test.caught.iter().take(8) {
            text.push_str(&wrap(&describe_leak(test.test, caught), "  - ", "    "));
        }
        if test.caught.len() > 8 {
            let _ = writeln!(text, "  - and {} more (--json lists them)", test.caught.len() - 8);
        }
    }
    if !checked.notes.is_empty() {
        text.push('\n');
        checked.notes.iter().for_each(|note| text.push_str(&wrap(note, "  - ", "    ")));
    }
    let _ = write!(text, "\nVerdict: {}\n", verdict(checked.verdict, paint));
    text
}

fn verdict(verdict: Verdict, paint: Paint) -> String {
    match verdict {
        Verdict::Passed => paint.green("no leak found"),
        Verdict::Suspicious => paint.yellow("suspicious"),
        Verdict::Failed => paint.red("leak"),
    }
}

fn row(test: &Tested) -> Vec<String> {
    let word = match test.verdict {
        _ if test.compared == 0 => "not judged",
        Verdict::Passed => "passed",
        Verdict::Suspicious => "suspicious",
        Verdict::Failed => "failed",
    };
    let worst = match (&test.caught.first(), test.largest) {
        (None, _) if test.compared == 0 => "too few bars".into(),
        (Some(caught), _) => format!("{} of {}", fit(&caught.column, 24), fit(&caught.symbol, 12)),
        (None, Some(largest)) if test.test == Test::WarmUp => {
            format!("{largest:.1e} standard deviations ({:.0e} is allowed)", test.allowed.unwrap_or_default())
        }
        (None, Some(largest)) => {
            format!("correlation {largest:.2} ({:.2} is allowed)", test.allowed.unwrap_or_default())
        }
        (None, None) => "equal to the bit".into(),
    };
    let tries = match test.test {
        Test::Stream | Test::Clairvoyance | Test::Foresight => format!("{} rows", format_count(test.tried)),
        Test::WarmUp => format_plural(test.tried, "start"),
        Test::Prefix | Test::Poison => format_plural(test.tried, "cut"),
    };
    vec![test.test.to_string(), format_count(test.columns), tries, word.into(), worst]
}

/// What it means not to pass.
fn explain_test(test: Test) -> &'static str {
    match test {
        Test::Prefix => "a row changes when the data end right after it",
        Test::Stream => "a row differs when its bars arrive one by one",
        Test::Poison => "a row changes when later bars change",
        Test::WarmUp => "a value still depends on where the data begin after its declared warm-up",
        Test::Clairvoyance => "a column predicts the next bar's return too well; does it contain the answer?",
        Test::Foresight => "a column, or a pair, tells the label or later prices better than honest ones do",
    }
}

fn describe_leak(test: Test, caught: &Caught) -> String {
    let Caught { column, symbol, time, what, wrong, .. } = caught;
    let value = |v: Option<f64>| v.map_or_else(|| "nothing".to_string(), |v| format!("{v}"));
    if matches!(test, Test::Clairvoyance | Test::Foresight) {
        return format!("{column}: correlation {:.2} ({what})", caught.after.unwrap_or(0.0));
    }
    format!(
        "{column}: {} of {symbol} at {time} became {}, {what} ({} in all)",
        value(caught.before),
        value(caught.after),
        format_plural(*wrong, "value")
    )
}
