//! `fullbore holdout`

use super::{Context, Outcome, backtest};
use crate::args::Holdout as Args;
use crate::out::Paint;
use crate::show::{date, wrap};
use files::{format_plural, format_seconds};
use jobs::{HoldoutOpened, HoldoutRequest};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let request = HoldoutRequest { run: args.run, device: args.device };
    let settings = context.settings.clone();
    let opened = jobs::holdout(&request, &settings, &mut |event| context.report(event))?;
    context.print(&opened, |paint| render(&opened, paint))?;
    Ok(0)
}

fn render(opened: &HoldoutOpened, paint: Paint) -> String {
    let record = &opened.record;
    let span = format!("{} to {}", date(&record.from), date(&record.to));
    let mut text = match (record.is_holdout, record.opening) {
        (true, _) => format!("{}\n", paint.bold(&format!("Holdout, opened for the first time: {span}"))),
        (false, 1) => format!("{}\n", paint.yellow(&format!("No holdout any more, it was released before: {span}"))),
        (false, n) => {
            let times = format_plural(n, "time");
            format!("{}\n", paint.yellow(&format!("No holdout any more, opened {times}: {span}")))
        }
    };
    if record.opening > 1 {
        for (number, opening) in record.openings.iter().enumerate() {
            let _ = writeln!(text, "  opening {}: {}, by {}", number + 1, opening.time, opening.run);
        }
        let why = "Who has seen a holdout has chosen by it, so these figures are no better than those of the test \
                   blocks.";
        text.push_str(&wrap(why, "  ", "  "));
    }
    if let Some(instruments) = &opened.instruments {
        text.push_str(&wrap(instruments, "  ", "  "));
    }
    if !opened.sentences.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Judged there: the last fold, averaged over its members"));
    }
    opened.sentences.iter().for_each(|sentence| text.push_str(&wrap(sentence, "  ", "  ")));
    if let Some(tested) = &record.backtest {
        let _ = write!(text, "\n{}\n", paint.bold("Backtest there"));
        let more = backtest::More { latency: opened.latency.as_ref(), baseline: None };
        backtest::figures(&mut text, tested, more, paint);
    }
    if let Some(evidence) = &record.evidence {
        let _ = write!(text, "\n{}\n", paint.bold("Verdict, weighed again"));
        super::evidence::render(&mut text, evidence, paint);
    }
    if !opened.notes.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Notes"));
        opened.notes.iter().for_each(|note| text.push_str(&wrap(note, "  - ", "    ")));
    }
    let _ = write!(text, "\n{}  ({})\n", opened.folder, format_seconds(opened.seconds));
    text
}
