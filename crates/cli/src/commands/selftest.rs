//! `fullbore check selftest`

use super::features::point_at_mistake;
use super::{Context, Outcome, narrow};
use crate::args::Selftest as Args;
use crate::out::Paint;
use crate::show::{table, wrap};
use files::{format_count, format_seconds};
use jobs::{SelfTest, SelfTested};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let select = narrow(args.data.clone().unwrap_or_default(), args.how)?;
    let request = SelfTest { select: args.data.is_some().then_some(select), device: args.device };
    let settings = context.settings.clone();
    let tested = jobs::selftest(&request, &settings, &mut |event| context.report(event))
        .map_err(|e| point_at_mistake(e, &settings.features.or(""), context.json))?;
    context.print(&tested, |paint| render(&tested, paint))?;
    Ok(u8::from(!tested.passed))
}

fn render(tested: &SelfTested, paint: Paint) -> String {
    let mut text = match &tested.data {
        Some(data) => format!("{}\n", paint.bold(data)),
        None => format!("{}, from seed {}\n", paint.bold("A synthetic market"), tested.seed),
    };
    text.push_str(&wrap(&format!("on {}, {}", tested.device, format_seconds(tested.seconds)), "  ", "  "));
    text.push('\n');
    let rows: Vec<Vec<String>> = tested
        .cases
        .iter()
        .map(|c| {
            let bound = if c.name == "planted" { format!("≥ {:.4}", c.bound) } else { format!("± {:.4}", c.bound) };
            vec![
                c.what.to_string(),
                format_count(c.samples),
                format!("{:.4}", c.mcc),
                c.directional_mcc.map_or("-".into(), |m| format!("{m:.4}")),
                bound,
                if c.passed { "yes".into() } else { "NO".into() },
            ]
        })
        .collect();
    text.push_str(&table(&["case", ">samples", ">MCC", ">direction MCC", ">allowed", "passed"], &rows, "  "));
    text.push('\n');
    for check in &tested.checks {
        let word = if check.passed { "yes" } else { "NO" };
        text.push_str(&wrap(&format!("{}: {word} ({})", check.what, check.found), "  ", "  "));
    }
    let verdict = match tested.passed {
        true => paint.green("it finds the planted signal, and finds nothing in markets without one"),
        false => paint.red("the self-test failed: do not trust other results of this build"),
    };
    let _ = write!(text, "\nVerdict: {verdict}\n");
    text
}
