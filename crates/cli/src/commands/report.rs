//! `fullbore report`

use super::{Context, Outcome};
use crate::args::RunsShow;
use crate::show::wrap;
use files::format_bytes;

pub(super) fn run(args: &RunsShow, context: &mut Context) -> Outcome {
    let made = jobs::report_run(&args.run)?;
    context.print(&made, |paint| {
        let sentence = wrap(&made.sentence, "  ", "  ");
        format!("{}\n{sentence}\n{}  ({})\n", paint.bold(&made.verdict), made.page, format_bytes(made.bytes))
    })?;
    Ok(0)
}
