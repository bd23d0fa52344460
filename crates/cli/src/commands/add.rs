//! `fullbore data add`

use super::audit::{conclusion, verdict};
use super::list::entries_table;
use super::{Context, Outcome, select};
use crate::args::Add as Args;
use crate::out::Paint;
use crate::show::wrap;
use bars::audit::Verdict;
use files::{format_bytes, format_plural, format_seconds, format_short};
use jobs::{Add, Added};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let select = select(args.source)?;
    let request = Add { select, name: args.name, out: args.out, replace: args.replace, dry_run: args.dry_run };
    let progress = &mut context.progress;
    let added = jobs::add(&request, &context.settings, &mut |u| progress.update(u))?;
    context.print(&added, |paint| render(&added, request.replace, paint))?;
    Ok(u8::from(added.verdict == Some(Verdict::Refuse)))
}

fn render(added: &Added, replace: bool, paint: Paint) -> String {
    let mut text = String::new();
    if let Some(plan) = &added.plan {
        let _ = writeln!(text, "{} nothing was written. The command would", paint.bold("Dry run:"));
        let _ = writeln!(
            text,
            "  read     {}: {}, {}",
            plan.data,
            format_plural(plan.files, "file"),
            format_bytes(plan.bytes)
        );
        let _ = writeln!(text, "  write    {} to {}", paint.bold(&added.name), added.folder);
        let _ = writeln!(
            text,
            "  within   {} of memory, on {}",
            format_bytes(plan.memory_bytes),
            format_plural(plan.threads as u64, "thread")
        );
        let _ = writeln!(text, "  take     about {} (estimated from the size)", format_seconds(plan.estimated_seconds));
        if plan.exists {
            let what = if replace { "would be replaced" } else { "exists already: use --replace" };
            let _ = writeln!(text, "  note     a data set of that name {what}");
        }
        return text;
    }
    let Some(audited) = &added.audit else { return text };
    if audited.audit.verdict == Verdict::Refuse {
        let _ = writeln!(text, "{}: nothing was added.\n", verdict(Verdict::Refuse, paint));
        text.push_str(&conclusion(&audited.audit, paint));
        text.push_str(&wrap(&format!("`fullbore data audit {}` shows the details.", audited.data), "", ""));
        return text;
    }
    let _ = writeln!(text, "{} added to {}\n", paint.bold(&added.name), added.folder);
    text.push_str(&entries_table(&added.entries));
    let _ = writeln!(
        text,
        "\n  {} ({}) in {}: {} rows/s, {}/s\n",
        format_plural(audited.audit.rows, "row"),
        format_bytes(audited.audit.bytes),
        format_seconds(audited.seconds),
        format_short(audited.rows_per_s),
        format_bytes(audited.bytes_per_s as u64)
    );
    text.push_str(&conclusion(&audited.audit, paint));
    text
}
