//! `fullbore runs`

use super::{Context, Outcome, train};
use crate::args::Runs;
use crate::out::Paint;
use crate::show::{date, named_table, table, wrap};
use files::{format_bytes, format_count, format_fixed, format_plural};
use jobs::{RunRemoved, RunShown, RunsCompared, RunsListed};
use std::fmt::Write;

pub(super) fn run(runs: Runs, context: &mut Context) -> Outcome {
    match runs {
        Runs::List(args) => {
            let listed = jobs::runs_list(&args.folder)?;
            context.print(&listed, |paint| list(&listed, paint))?;
            Ok(0)
        }
        Runs::Show(args) => {
            let shown = jobs::runs_show(&args.run)?;
            context.print(&shown, |paint| show(&shown, paint))?;
            Ok(0)
        }
        Runs::Compare(args) => {
            let compared = jobs::runs_compare(&args.first, &args.second)?;
            context.print(&compared, |paint| compare(&compared, paint))?;
            Ok(0)
        }
        Runs::Remove(args) => {
            let gone = jobs::runs_remove(&args.run)?;
            context.print(&gone, |_| removed(&gone))?;
            Ok(0)
        }
        Runs::Resume(args) => {
            let settings = context.settings.clone();
            let run = jobs::runs_resume(&args.run, &settings, &mut |event| context.report(event))?;
            train::print_run(&run, context)
        }
    }
}

fn list(listed: &RunsListed, paint: Paint) -> String {
    if listed.runs.is_empty() {
        return format!("There are no runs in {}. `fullbore train DATA` starts one.\n", listed.folder);
    }
    let mut text = format!("{} in {}\n\n", format_plural(listed.runs.len() as u64, "run"), paint.bold(&listed.folder));
    let figure = |x: Option<f64>, digits: usize| x.map_or("-".into(), |x| format_fixed(x, digits));
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let row = |r: &jobs::RunRow| {
        // How to go on with a run is for `runs show`.
        let state = r.state.split(" (").next().unwrap_or_default().to_string();
        vec![
            r.name.clone(),
            r.started.as_deref().map_or("-".into(), |started| date(started).chars().take(10).collect()),
            word(&r.data),
            word(&r.learner),
            word(&r.labels),
            figure(r.test_mcc, 4),
            figure(r.direction_mcc, 4),
            figure(r.net_sharpe, 2),
            r.verdict.clone().unwrap_or(state),
        ]
    };
    let rows: Vec<Vec<String>> = listed.runs.iter().map(row).collect();
    let heads = ["run", "started", "data", "learner", "labels", ">test MCC", ">direction", ">net Sharpe", "verdict"];
    text.push_str(&named_table(&heads, &rows, "  "));
    text
}

/// Longer names of runs do not head columns.
const LONG_NAME: usize = 24;

fn compare(compared: &RunsCompared, paint: Paint) -> String {
    let [mut a, mut b] = compared.runs.each_ref().map(String::as_str);
    let mut text = String::new();
    if a.chars().count().max(b.chars().count()) > LONG_NAME {
        let _ = write!(text, "first   {a}\nsecond  {b}\n");
        (a, b) = ("first", "second");
    }
    for (title, differences) in [("Settings that differ", &compared.settings), ("Figures", &compared.figures)] {
        let _ = writeln!(text, "{}{}", if text.is_empty() { "" } else { "\n" }, paint.bold(title));
        if differences.is_empty() {
            text.push_str("  none\n");
            continue;
        }
        let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
        let rows: Vec<Vec<String>> =
            differences.iter().map(|d| vec![d.what.clone(), cell(&d.first), cell(&d.second)]).collect();
        let side = |name: &str| if title == "Figures" { format!(">{name}") } else { name.to_string() };
        text.push_str(&table(&["".to_string(), side(a), side(b)], &rows, "  "));
    }
    text
}

fn removed(gone: &RunRemoved) -> String {
    let mut text =
        format!("removed {}: {}, {}\n", gone.folder, format_plural(gone.files, "file"), format_bytes(gone.bytes));
    if !gone.left.is_empty() {
        text.push_str(&wrap(&format!("not of the run, and still there: {}", gone.left.join(", ")), "  ", "  "));
    }
    text.push_str("  its trials stay in the ledger and count\n");
    text
}

/// The best validation of a run, as its metric is shown.
fn best_value(run: &jobs::RunRow) -> Option<String> {
    let value = run.best_value?;
    Some(run.metric().map_or_else(|| format!("{value:.4}"), |metric| metric.format(Some(value))))
}

fn show(shown: &RunShown, paint: Paint) -> String {
    let run = &shown.run;
    let mut text = format!("{}\n", paint.bold(&run.name));
    text.push_str(&wrap(&run.state, "  ", "  "));
    if let Some(started) = &run.started {
        let ended = run.ended.as_ref().map_or(String::new(), |e| format!(", ended {e}"));
        let _ = writeln!(text, "  started {started}{ended}");
    }
    let _ = writeln!(text, "  {} done by all members together", format_plural(shown.epochs, &shown.unit));
    if let (Some(best), Some(value)) = (&run.best, best_value(run)) {
        let _ =
            writeln!(text, "  best so far: {best}, validation {} {value}", run.metric().map_or("score", |m| m.label));
    }
    if let Some(judged) = &shown.judged {
        let _ = writeln!(text, "  judged on test samples: {} {judged}", judged.metric.label);
    }
    if let Some(held) = &shown.holdout {
        let words = if held.is_holdout { "first opening" } else { "no holdout any more" };
        let sharpe = |x: Option<f64>| x.map_or("-".into(), |x| format_fixed(x, 2));
        let (once, twice) = (sharpe(held.net_sharpe), sharpe(held.net_sharpe_2x));
        let _ = writeln!(text, "  on its holdout ({words}): net Sharpe ratio {once}, at twice the costs {twice}");
    }
    if let Some(sentence) = shown.result.as_ref().and_then(|r| r.pointer("/evidence/sentence")?.as_str()) {
        text.push_str(&wrap(&format!("verdict: {sentence}"), "  ", "  "));
    }
    if !shown.checkpoints.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Checkpoints"));
        let dash = || "-".to_string();
        let row = |c: &jobs::CheckpointRow| {
            vec![
                format!("{:06}", c.number),
                c.epoch.map_or_else(dash, format_count),
                c.bytes.map_or_else(dash, format_bytes),
                c.best.clone().map_or_else(dash, |b| format!("{b}: {:.4}", c.best_value.unwrap_or(f64::NAN))),
                match &c.problem {
                    Some(why) => format!("unusable: {why}"),
                    None if c.last => format!("{}, latest", c.kind.as_deref().unwrap_or("whole")),
                    None => c.kind.clone().unwrap_or_else(|| "whole".into()),
                },
            ]
        };
        let rows: Vec<Vec<String>> = shown.checkpoints.iter().map(row).collect();
        text.push_str(&table(&["generation", &format!(">{}", shown.unit), ">size", "best so far", ""], &rows, "  "));
        for w in &shown.weights {
            let _ = writeln!(text, "  {} weights of {}: {}", w.name, format_plural(w.members, "member"), w.folder);
        }
    }
    if !shown.last.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Latest messages"));
        shown.last.iter().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
    text
}
