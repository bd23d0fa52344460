//! `fullbore data synth`

use super::list::entries_table;
use super::{Context, Outcome, flag};
use crate::args::{MarketKind, Synth as Args};
use crate::out::Paint;
use crate::show::{count, plural, seconds, short};
use files::{Error, Kind};
use jobs::{Synth, Synthesised};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let settings = &mut context.settings;
    let kind = args.kind.map(|k| match k {
        MarketKind::Stocks => "stocks",
        MarketKind::Crypto => "crypto",
        MarketKind::Fx => "fx",
    });
    // A length on the command line takes the place of the other one in a file.
    if args.bars.is_some() {
        settings.synth.years = None;
    }
    if args.years.is_some() {
        settings.synth.bars = None;
    }
    for (name, key, value) in [
        ("--kind", "synth.kind", kind),
        ("--count", "synth.count", args.count.as_deref()),
        ("--bars", "synth.bars", args.bars.as_deref()),
        ("--years", "synth.years", args.years.as_deref()),
        ("--timeframe", "synth.timeframe", args.timeframe.as_deref()),
        ("--plant", "synth.plant", args.plant.then_some("true")),
        ("--accuracy", "synth.accuracy", args.accuracy.as_deref()),
        ("--stay", "synth.stay", args.stay.as_deref()),
        ("--cost-bp", "synth.cost_bp", args.cost_bp.as_deref()),
    ] {
        flag(settings, name, key, value)?;
    }
    let of_the_plant = [("--accuracy", &args.accuracy), ("--stay", &args.stay), ("--cost-bp", &args.cost_bp)];
    if let Some((name, _)) = of_the_plant.iter().find(|f| f.1.is_some() && !settings.synth.plant) {
        let error = Error::new(Kind::Usage, format!("{name} belongs to a planted signal")).remedy("add --plant");
        return Err(error.into());
    }
    let request = Synth { name: args.name, out: args.out, replace: args.replace };
    let progress = &mut context.progress;
    let made = jobs::synth(&request, &context.settings, &mut |u| progress.update(u))?;
    context.say(&made, |paint| words(&made, paint))?;
    Ok(0)
}

fn words(made: &Synthesised, paint: Paint) -> String {
    let mut text = format!("{} added to {}\n\n", paint.bold(&made.name), made.folder);
    text.push_str(&entries_table(&made.entries));
    let _ = writeln!(
        text,
        "\n  {} bars of {} made in {} ({} bars/s), written in {}; seed {}",
        count(made.bars),
        plural(made.symbols, "symbol"),
        seconds(made.make_seconds),
        short(made.made_bars_per_s),
        seconds(made.write_seconds),
        made.seed
    );
    for line in made.truth.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}
