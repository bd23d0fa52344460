//! `fullbore data synth`

use super::list::entries_table;
use super::{Context, Outcome};
use crate::args::Synth as Args;
use crate::out::Paint;
use files::{Error, Kind, format_count, format_plural, format_seconds, format_short};
use jobs::{Synth, Synthesised};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let settings = &mut context.settings;
    let typed = |key: &&str| context.given.contains(key);
    // A length on the command line takes the place of the other one in a file.
    if typed(&"synth.bars") {
        settings.synth.years = None;
    }
    if typed(&"synth.years") {
        settings.synth.bars = None;
    }
    let of_the_plant = ["synth.accuracy", "synth.stay", "synth.cost_bp"];
    if let Some(key) = of_the_plant.iter().find(|key| typed(key) && !settings.synth.plant) {
        let error = Error::new(Kind::Usage, format!("`{key}` is a property of a planted signal"));
        return Err(error.remedy("add <synth.plant>").into());
    }
    let request = Synth { name: args.name, out: args.out, replace: args.replace };
    let progress = &mut context.progress;
    let made = jobs::synth(&request, &context.settings, &mut |u| progress.update(u))?;
    context.print(&made, |paint| render(&made, paint))?;
    Ok(0)
}

fn render(made: &Synthesised, paint: Paint) -> String {
    let mut text = format!("{} added to {}\n\n", paint.bold(&made.name), made.folder);
    text.push_str(&entries_table(&made.entries));
    let _ = writeln!(
        text,
        "\n  {} bars of {} made in {} ({} bars/s), written in {}; seed {}",
        format_count(made.bars),
        format_plural(made.symbols, "symbol"),
        format_seconds(made.make_seconds),
        format_short(made.made_bars_per_s),
        format_seconds(made.write_seconds),
        made.seed
    );
    for line in made.truth.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}
