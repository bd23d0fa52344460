//! `fullbore data list`

use super::{Context, Outcome};
use crate::args::{DataRemove, List as Args};
use crate::show::{date, table};
use bars::store::Entry;
use files::{format_bytes, format_count, format_plural};
use jobs::List;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let listed = jobs::list(&List { folder: args.out })?;
    context.print(&listed, |paint| {
        if listed.entries.is_empty() {
            return format!(
                "The catalogue in {} is empty.\n  {} fullbore data add FILE, or fullbore data synth\n",
                listed.folder,
                paint.cyan("help:")
            );
        }
        format!(
            "{} in {}\n\n{}",
            format_plural(listed.entries.len() as u64, "data set"),
            listed.folder,
            entries_table(&listed.entries)
        )
    })?;
    Ok(0)
}

/// `fullbore data remove`
pub(super) fn remove(args: DataRemove, context: &mut Context) -> Outcome {
    let gone = jobs::data_remove(&args.name, args.out)?;
    context.print(&gone, |_| {
        format!("removed from the catalogue in {}, with its files:\n{}", gone.folder, entries_table(&gone.entries))
    })?;
    Ok(0)
}

/// Entries of the catalogue, one a line.
pub(super) fn entries_table(entries: &[Entry]) -> String {
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|e| {
            vec![
                e.name.clone(),
                e.timeframe.clone(),
                format_count(e.symbols),
                format_count(e.bars),
                date(&e.first),
                date(&e.last),
                format_bytes(e.bytes),
                e.origin.clone(),
            ]
        })
        .collect();
    table(&["name", "bar", ">symbols", ">bars", "first", "last", ">size", "from"], &rows, "  ")
}
