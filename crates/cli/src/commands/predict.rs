//! `fullbore predict`

use super::{Context, Outcome, narrow};
use crate::args::Predict as Args;
use crate::out::Paint;
use crate::show::wrap;
use files::{format_plural, format_short};
use jobs::{Predict, Predicted};
use std::fmt::Write;
use std::path::Path;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let select = narrow(args.data, args.how)?;
    let request = Predict {
        run: args.run,
        select,
        out: args.out,
        device: args.device,
        members: args.members,
        positions: args.positions,
    };
    let progress = &mut context.progress;
    let predicted = jobs::predict(&request, &context.settings, &mut |u| progress.update(u))?;
    context.print(&predicted, |paint| render(&predicted, &request.run, paint))?;
    Ok(0)
}

fn render(p: &Predicted, run: &Path, paint: Paint) -> String {
    let mut text = format!("{}  {} bars/s\n", paint.bold(&format_plural(p.bars, "bar")), format_short(p.bars_per_s));
    text.push_str(&wrap(&p.instruments, "  ", "  "));
    text.push_str(&wrap(&format!("on {}", p.device), "  ", "  "));
    let names = if p.guesses.is_empty() { &[] } else { features::class::names(p.guesses.len()) };
    let guesses: Vec<String> =
        p.guesses.iter().zip(names).map(|(share, name)| format!("{:.1} % {name}", 100.0 * share)).collect();
    if !guesses.is_empty() {
        let _ = writeln!(text, "  predicted classes: {}", guesses.join(", "));
    }
    if let [short, flat, long] = p.wanted[..] {
        let [short, flat, long] = [short, flat, long].map(|share| format!("{:.1} %", 100.0 * share));
        let _ = writeln!(text, "  wanted from the next open on: {short} short, {flat} flat, {long} long");
    }
    if p.left_out > 0 {
        let left = format_plural(p.left_out, "bar");
        text.push_str(&wrap(
            &format!("{left} left out: before the first test fold, or without a complete window of history"),
            "  ",
            "  ",
        ));
    }
    if p.locked > 0 {
        let (locked, run) = (format_plural(p.locked, "bar"), run.display());
        text.push_str(&wrap(
            &format!(
                "{locked} of the holdout are locked and get no prediction; `fullbore holdout {run}` judges the run \
                 there, once"
            ),
            "  ",
            "  ",
        ));
    }
    p.notes.iter().for_each(|note| text.push_str(&wrap(note, "  - ", "    ")));
    let _ = write!(text, "\n{}\n", p.path);
    text
}
