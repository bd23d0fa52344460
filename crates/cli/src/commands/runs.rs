//! `fullbore runs`

use super::{Context, Outcome, train};
use crate::args::Runs;
use crate::out::Paint;
use crate::show::{date, table, wrap};
use files::{format_bytes, format_count, format_plural};
use jobs::{RunShown, RunsListed, TrainEvent};
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
        Runs::Resume(args) => {
            let progress = &mut context.progress;
            let run = jobs::runs_resume(&args.run, &context.settings, &mut |event| match event {
                TrainEvent::Update(update) => progress.update(update),
                TrainEvent::Line(line) => progress.print_line(line),
            })?;
            train::print_run(&run, context)
        }
    }
}

fn list(listed: &RunsListed, paint: Paint) -> String {
    if listed.runs.is_empty() {
        return format!("There are no runs in {}. `fullbore train DATA` starts one.\n", listed.folder);
    }
    let mut text = format!("{} in {}\n\n", format_plural(listed.runs.len() as u64, "run"), paint.bold(&listed.folder));
    let rows: Vec<Vec<String>> = listed
        .runs
        .iter()
        .map(|r| {
            vec![
                r.name.clone(),
                r.started.as_deref().map_or("-".into(), date),
                r.members.map_or("-".into(), format_count),
                r.best_value.map_or("-".into(), |v| format!("{v:.4}")),
                r.state.clone(),
            ]
        })
        .collect();
    text.push_str(&table(&["run", "started", ">members", ">best valid MCC", "state"], &rows, "  "));
    text
}

fn show(shown: &RunShown, paint: Paint) -> String {
    let run = &shown.run;
    let mut text = format!("{}\n", paint.bold(&run.name));
    text.push_str(&wrap(&run.state, "  ", "  "));
    if let Some(started) = &run.started {
        let ended = run.ended.as_ref().map_or(String::new(), |e| format!(", ended {e}"));
        let _ = writeln!(text, "  started {started}{ended}");
    }
    let _ = writeln!(text, "  {} done by all members together", format_plural(shown.epochs, "epoch"));
    if let (Some(best), Some(value)) = (&run.best, run.best_value) {
        let _ = writeln!(text, "  best so far: {best}, validation MCC {value:.4}");
    }
    if let Some(mcc) = shown.result.as_ref().and_then(|r| r["judged"]["mcc"].as_f64()) {
        let _ = writeln!(text, "  judged on test samples: MCC {mcc:.4}");
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
        text.push_str(&table(&["generation", ">epoch", ">size", "best so far", ""], &rows, "  "));
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
