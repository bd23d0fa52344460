//! `fullbore refit`

use super::{Context, Outcome, train};
use crate::args::Refit as Args;
use jobs::RefitRequest;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let request = RefitRequest { run: args.run, out: args.out, device: args.device };
    let settings = context.settings.clone();
    let run = jobs::refit(&request, &settings, &mut |event| context.report(event))?;
    train::print_run(&run, context)
}
