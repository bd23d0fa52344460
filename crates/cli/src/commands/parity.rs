//! `fullbore check parity`

use super::{Context, Outcome, narrow};
use crate::args::Parity as Args;
use crate::out::Paint;
use crate::show::{date, table, wrap};
use files::{format_count, format_plural, format_seconds};
use jobs::{Parity, ParityRequest};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let select = narrow(args.data.unwrap_or_default(), args.how)?;
    let warm_up = args.warm_up.map(|bars| bars as usize);
    let request = ParityRequest { run: args.run, select, device: args.device, warm_up, all: args.all };
    let progress = &mut context.progress;
    let checked = jobs::parity(&request, &context.settings, &mut |u| progress.update(u))?;
    context.print(&checked, |paint| render(&checked, paint))?;
    Ok(u8::from(!checked.equal))
}

fn render(checked: &Parity, paint: Paint) -> String {
    let mut text = format!("{} on {}\n", paint.bold(&checked.run), checked.data);
    let about = format!(
        "{} of {} streamed, {} decided on, on {}; took {}",
        format_plural(checked.bars, "bar"),
        format_plural(checked.symbols, "symbol"),
        format_count(checked.decided),
        checked.device,
        format_seconds(checked.seconds)
    );
    text.push_str(&wrap(&about, "  ", "  "));
    if let Some(locked) = &checked.locked_from {
        let held = format!("the holdout from {} on stays locked and was not looked at", date(locked));
        text.push_str(&wrap(&held, "  ", "  "));
    }
    let _ = write!(text, "\n{}\n", paint.bold("From the same start"));
    let row = |c: &jobs::Compared| vec![c.what.to_string(), format_count(c.compared), format_count(c.different)];
    let rows: Vec<Vec<String>> = checked.compared.iter().map(row).collect();
    text.push_str(&table(&["", ">compared", ">different"], &rows, "  "));
    for (c, first) in checked.compared.iter().filter_map(|c| Some((c, c.first.as_ref()?))) {
        let value = |v: Option<f64>| v.map_or_else(|| "nothing".to_string(), |v| format!("{v}"));
        let whose = if first.symbol.is_empty() { String::new() } else { format!(" of {}", first.symbol) };
        let line = format!(
            "{}: {}{whose} at {} is {} in the backtest and {} in the stream",
            c.what,
            first.name,
            first.time,
            value(first.backtest),
            value(first.stream)
        );
        text.push_str(&wrap(&line, "  - ", "    "));
    }
    let _ = write!(text, "\n{}\n", paint.bold("Started at each test block, with a warm-up"));
    // A policy gives no probabilities.
    let said = checked.compared.iter().any(|c| c.what == "probabilities");
    let row = |s: &jobs::LiveStart| {
        let changed = format!("{} (by {:.0e} at most)", format_count(s.changed_probabilities), s.largest_change);
        vec![
            s.fold.to_string(),
            date(&s.from),
            format_count(s.warm_up),
            format_count(s.bars),
            format_count(s.undecided),
            if said { changed } else { "-".into() },
            format_count(s.changed_positions),
        ]
    };
    let rows: Vec<Vec<String>> = checked.starts.iter().map(row).collect();
    let heads = ["fold", "from", ">warm-up", ">bars", ">undecided", "probabilities changed", ">positions changed"];
    text.push_str(&table(&heads, &rows, "  "));
    if !checked.notes.is_empty() {
        text.push('\n');
        checked.notes.iter().for_each(|note| text.push_str(&wrap(note, "  - ", "    ")));
    }
    let verdict = match checked.equal {
        true => paint.green("fed bar by bar, the model does what its backtest did, to the bit"),
        false => paint.red("fed bar by bar, the model does not do what its backtest did"),
    };
    let _ = write!(text, "\nVerdict: {verdict}\n");
    text
}
