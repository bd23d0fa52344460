//! `fullbore demo`

use super::audit::verdict;
use super::{Context, Outcome};
use crate::args::Demo as Args;
use crate::out::Paint;
use crate::show::{bytes, count, seconds, short, table};
use jobs::{Demo, Demoed};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let progress = &mut context.progress;
    let demo = jobs::demo(&Demo { out: args.out }, &context.settings, &mut |u| progress.update(u))?;
    context.say(&demo, |paint| words(&demo, paint))?;
    Ok(0)
}

fn words(demo: &Demoed, paint: Paint) -> String {
    let mut text = format!(
        "A market of {} symbols and {} bars, from seed {}\n\n",
        count(demo.symbols),
        count(demo.bars),
        demo.seed
    );
    let _ = writeln!(text, "  made      {} bars/s", short(demo.made_bars_per_s));
    let _ = writeln!(text, "  written   {} bars/s as Parquet", short(demo.written_bars_per_s));
    let _ = writeln!(
        text,
        "  read      {} rows/s, {}/s, audit included",
        short(demo.read_rows_per_s),
        bytes(demo.read_bytes_per_s as u64)
    );
    let _ = writeln!(text, "  audited   {}", verdict(demo.verdict, paint));
    let f = &demo.features;
    let _ = writeln!(
        text,
        "  computed  {} features, {} rows/s, {:.0} ns a bar, {:.1} % of the rows settled",
        f.columns,
        short(f.rows_per_s),
        f.ns_per_bar,
        100.0 * f.settled_share
    );
    if let Some(l) = &f.label {
        let share = |share: f64| format!("{:.0} %", 100.0 * share);
        let (down, flat, up) = (share(l.share.down), share(l.share.flat), share(l.share.up));
        let _ = writeln!(text, "  labelled  {} by {}: {down} down, {flat} flat, {up} up", count(l.labelled), l.rule);
    }
    let _ = writeln!(
        text,
        "  planted   a signal worth {:.2} bp a bar at best, after {:.1} bp a side",
        demo.planted.best_value_bp, demo.planted.cost_bp
    );
    let _ = write!(text, "\n{} {}\n", paint.bold("A damaged copy:"), verdict(demo.damaged_verdict, paint));
    let rows: Vec<Vec<String>> = demo
        .damage
        .iter()
        .map(|d| vec![d.what.to_string(), d.symbol.clone(), count(d.planted), count(d.found)])
        .collect();
    text.push_str(&table(&["damage", "symbol", ">planted", ">found"], &rows, "  "));
    let _ = write!(text, "\n{} {}  ({})\n", paint.bold("The page:"), demo.report, seconds(demo.seconds));
    text
}
