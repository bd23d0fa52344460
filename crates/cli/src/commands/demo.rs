//! `fullbore demo`

use super::audit::verdict;
use super::{Context, Outcome};
use crate::args::Demo as Args;
use crate::out::Paint;
use crate::show::{table, wrap};
use files::{format_bytes, format_count, format_plural, format_seconds, format_short};
use jobs::{Demo, DemoTraining, Demoed, FoundVerdict, TrainEvent};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let settings = context.settings.clone();
    let request = Demo { out: args.out, device: args.device, quick: args.quick };
    let demo = jobs::demo(&request, &settings, &mut |event| match event {
        // The demo tells what it trains in its own words.
        TrainEvent::Plan(_) => {}
        event => context.report(event),
    })?;
    context.print(&demo, |paint| render(&demo, paint))?;
    Ok(if demo.training.run.interrupted { 130 } else { 0 })
}

fn render(demo: &Demoed, paint: Paint) -> String {
    let mut text = format!(
        "A market of {} symbols and {} bars, from seed {}\n\n",
        format_count(demo.symbols),
        format_count(demo.bars),
        demo.seed
    );
    let _ = writeln!(text, "  made      {} bars/s", format_short(demo.made_bars_per_s));
    let _ = writeln!(text, "  written   {} bars/s as Parquet", format_short(demo.written_bars_per_s));
    let _ = writeln!(
        text,
        "  read      {} rows/s, {}/s, audit included",
        format_short(demo.read_rows_per_s),
        format_bytes(demo.read_bytes_per_s as u64)
    );
    let _ = writeln!(text, "  audited   {}", verdict(demo.verdict, paint));
    let f = &demo.features;
    let _ = writeln!(
        text,
        "  computed  {} features, {} rows/s, {:.0} ns/bar, {:.1} % of the rows settled",
        f.columns,
        format_short(f.rows_per_s),
        f.ns_per_bar,
        100.0 * f.settled_share
    );
    if let Some(l) = &f.label {
        let share = |share: f64| format!("{:.0} %", 100.0 * share);
        let (down, flat, up) = (share(l.share.down), share(l.share.flat), share(l.share.up));
        let _ =
            writeln!(text, "  labelled  {} by {}: {down} down, {flat} flat, {up} up", format_count(l.labelled), l.rule);
    }
    let _ = writeln!(
        text,
        "  planted   a signal worth at most {:.2} bp per bar after costs of {:.1} bp per side",
        demo.planted.best_value_bp, demo.planted.cost_bp
    );
    let _ = write!(text, "\n{} {}\n", paint.bold("A damaged copy:"), verdict(demo.damaged_verdict, paint));
    let rows: Vec<Vec<String>> = demo
        .damage
        .iter()
        .map(|d| vec![d.what.to_string(), d.symbol.clone(), format_count(d.planted), format_count(d.found)])
        .collect();
    text.push_str(&table(&["damage", "symbol", ">planted", ">found"], &rows, "  "));
    training(&mut text, &demo.training, demo.planted.best_accuracy, paint);
    let _ = write!(text, "\n{} {}\n", paint.bold("The data:"), demo.report);
    if let Some(report) = &demo.training.run.report {
        let _ = writeln!(text, "{} {report}  ({} for all of it)", paint.bold("The run:"), format_seconds(demo.seconds));
    }
    if demo.training.run.interrupted {
        let _ = write!(
            text,
            "\n{}; resume with\n  fullbore demo --out {}\n",
            paint.yellow("training stopped and saved"),
            demo.folder
        );
    }
    text
}

/// What was planted, what was found, and what chance and no model at all would give.
fn training(text: &mut String, training: &DemoTraining, known: f64, paint: Paint) {
    let run = &training.run;
    let _ = write!(text, "\n{} {}\n", paint.bold("Trained:"), run.net);
    let each = format!(
        "{} × {} of {}, {} of 4 hours, {}{}",
        format_plural(run.folds.len() as u64, "fold"),
        format_plural(run.seeds, "seed"),
        format_plural(run.parameters, "parameter"),
        format_plural(run.samples, "bar"),
        format_seconds(run.seconds),
        run.samples_per_s.map_or(String::new(), |rate| format!(", {} samples/s", format_short(rate)))
    );
    text.push_str(&wrap(&each, "  ", "  "));
    let Some(found) = &training.found else { return };
    let _ = writeln!(
        text,
        "  planted   a column that knows {:.1} % of the next bars' directions: MCC {:.3} at best",
        100.0 * known,
        found.best_mcc
    );
    let _ = writeln!(
        text,
        "  found     MCC {:.3} on {} outside training (the column itself: {:.3})",
        found.mcc,
        format_plural(found.samples, "bar"),
        found.signal_mcc
    );
    let s = &found.shifted;
    let _ = writeln!(
        text,
        "  chance    the same predictions shifted in time: MCC {:.3}, 95 % below {:.3} (p = {:.3})",
        s.mean, s.high, s.p
    );
    let again = found.persistence_mcc.map_or("-".into(), |m| format!("{m:.3}"));
    let _ = writeln!(
        text,
        "  no model  repeating the last label: MCC {again}; always the most frequent class: MCC 0, accuracy {:.1} % (the nets: {:.1} %)",
        100.0 * found.majority_accuracy,
        100.0 * found.accuracy
    );
    let verdict = match found.verdict {
        FoundVerdict::Found => paint.green(&found.words),
        FoundVerdict::InPart | FoundVerdict::NotFound => paint.yellow(&found.words),
        FoundVerdict::TooGood => paint.red(&found.words),
    };
    let _ = writeln!(text, "  verdict   {verdict}");
    if let Some(backtest) = &run.backtest {
        let _ = write!(text, "\n{}\n", paint.bold("Backtest over the test blocks, net of costs"));
        super::backtest::summary(text, backtest, super::backtest::More::default());
    }
    if let Some(evidence) = &run.evidence {
        let _ = write!(text, "\n{}\n", paint.bold("Verdict"));
        super::evidence::render(text, evidence, paint);
    }
}
