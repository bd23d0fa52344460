//! `fullbore features`

use super::{Context, Outcome, narrow};
use crate::args::Features as Args;
use crate::fail::Failure;
use crate::out::Paint;
use crate::show::{fit, table, wrap};
use features::{Indicator, Kind, PRESETS, Plan, catalogue, read_set, usage};
use files::{Error, format_bytes, format_count, format_plural, format_seconds, format_short};
use jobs::{FeatureColumn, Featured, Features};
use serde_json::json;
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let set = context.settings.features.or("full");
    match (args.list, &args.show, args.data) {
        (true, ..) => list(context),
        (false, Some(set), _) => show(set, context),
        // The parser lets nothing else through.
        (false, None, data) => {
            let select = narrow(data.unwrap_or_default(), args.how)?;
            let request = Features { select, set, out: args.out, fresh: args.fresh };
            let progress = &mut context.progress;
            let featured = jobs::features(&request, &context.settings, &mut |u| progress.update(u))
                .map_err(|e| point_at_mistake(e, &request.set, context.json))?;
            context.print(&featured, |paint| render(&featured, paint))?;
            Ok(0)
        }
    }
}

/// An error in a set that was typed: the line, and a mark under the place.
pub(super) fn point_at_mistake(mut error: Error, set: &str, json: bool) -> Failure {
    if let (None, Some(column), false) = (&error.file, error.column, json) {
        let set = features::preset(set.trim()).unwrap_or(set);
        let line = set.lines().nth(error.line.unwrap_or(1).saturating_sub(1) as usize).unwrap_or(set);
        let at = column.saturating_sub(1) as usize;
        let word = line.chars().skip(at).take_while(|c| c.is_alphanumeric() || *c == '_').count().max(1);
        // Long lines are shown around the place.
        let from = at.saturating_sub(60);
        let part: String = line.chars().skip(from).take(90).collect();
        let _ = write!(error.message, "\n    {part}\n    {}{}", " ".repeat(at - from), "^".repeat(word));
    }
    error.into()
}

fn render(f: &Featured, paint: Paint) -> String {
    let mut text = format!(
        "{}  {} of {}, {}\n\n",
        paint.bold(&format_plural(f.columns.len() as u64, "feature")),
        format_plural(f.rows, "row"),
        format_plural(f.symbols, "symbol"),
        f.timeframe
    );
    text.push_str(&wrap(&f.instruments, "  ", "  "));
    for file in &f.files {
        let _ = writeln!(text, "  {}  ({}, {} columns)", file.path, format_bytes(file.bytes), file.columns);
    }
    match (f.rows_per_s, f.values_per_s, f.ns_per_bar) {
        (Some(rows), Some(values), Some(ns)) => {
            let _ = writeln!(
                text,
                "  computed in {}: {} rows/s, {} values/s, {} ns/bar",
                format_seconds(f.compute_seconds),
                format_short(rows),
                format_short(values),
                format_short(ns.round())
            );
            let _ = writeln!(
                text,
                "  read in {}, written in {}",
                format_seconds(f.read_seconds),
                format_seconds(f.write_seconds)
            );
        }
        _ => {
            let _ = writeln!(
                text,
                "  from the cache: read in {}, copied in {} (--fresh computes it again)",
                format_seconds(f.read_seconds),
                format_seconds(f.write_seconds)
            );
        }
    }
    let peak = f.peak_memory_bytes.map_or(String::new(), |peak| format!(", peak memory {}", format_bytes(peak)));
    let _ = writeln!(text, "  {} of tables in memory{peak}", format_bytes(f.table_bytes));
    warm_up(&mut text, f, paint);
    labels(&mut text, f, paint);
    let notes = notes(f);
    if !notes.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Notes"));
        notes.iter().for_each(|note| text.push_str(&wrap(note, "  - ", "    ")));
    }
    text
}

fn warm_up(text: &mut String, f: &Featured, paint: Paint) {
    let _ = write!(text, "\n{}\n", paint.bold("Warm-up"));
    let name = |c: &FeatureColumn| {
        fit(&if c.table.is_empty() { c.name.clone() } else { format!("{} @{}", c.name, c.table) }, 40)
    };
    if let Some(c) = f.columns.iter().max_by_key(|c| c.first_valid) {
        let _ = writeln!(
            text,
            "  the last column with a first value needs {}: {}",
            format_plural(c.first_valid, "bar"),
            name(c)
        );
    }
    match f.columns.iter().find(|c| c.settled.is_none()) {
        Some(c) => {
            let _ = writeln!(
                text,
                "  one column never settles, because it always depends on where its run begins: {}",
                name(c)
            );
        }
        None => {
            if let Some(c) = f.columns.iter().max_by_key(|c| c.settled) {
                let bars = format_plural(c.settled.unwrap_or(0), "bar");
                let _ = writeln!(text, "  the last column to settle needs {bars}: {}", name(c));
            }
        }
    }
    let _ = writeln!(
        text,
        "  {:.1} % of the rows are settled, in {}",
        100.0 * f.settled_share,
        format_plural(f.runs, "run")
    );
}

fn labels(text: &mut String, f: &Featured, paint: Paint) {
    let Some(l) = &f.label else { return };
    let chosen = if l.requested == "auto" { " (chosen by auto)" } else { "" };
    let _ = write!(text, "\n{} {}{chosen}\n", paint.bold("Labels"), l.rule);
    let _ = writeln!(
        text,
        "  {} down ({:.1} %), {} flat ({:.1} %), {} up ({:.1} %)",
        format_count(l.balance.down),
        100.0 * l.share.down,
        format_count(l.balance.flat),
        100.0 * l.share.flat,
        format_count(l.balance.up),
        100.0 * l.share.up
    );
    let _ = writeln!(
        text,
        "  {} without a label; mean uniqueness {:.3}; both barriers in one bar: {}",
        format_plural(f.rows - l.labelled, "row"),
        l.mean_uniqueness,
        format_count(l.both_touched)
    );
}

fn notes(f: &Featured) -> Vec<String> {
    let some = |names: &[String]| {
        let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
        let more = if names.len() > 8 { format!(" and {} more", names.len() - 8) } else { String::new() };
        format!("{}{more}", shown.join(", "))
    };
    let mut notes = f.notes.clone();
    let mut note = |names: &[String], say: &dyn Fn(String) -> String| {
        if !names.is_empty() {
            notes.push(say(some(names)));
        }
    };
    note(&f.other_timeframes, &|all| format!("bars of {all} are left out: the table is made of the finest timeframe"));
    note(&f.without_volume, &|all| {
        format!("the data have no volume: {} left out: {all}", format_plural(f.without_volume.len() as u64, "feature"))
    });
    note(&f.without_market, &|all| {
        format!(
            "too few symbols for market features: {} left out: {all}",
            format_plural(f.without_market.len() as u64, "feature")
        )
    });
    note(&f.symbols_without_volume, &|all| {
        format!(
            "{} without volume, where volume features have no value: {all}",
            format_plural(f.symbols_without_volume.len() as u64, "symbol")
        )
    });
    note(&f.sparse, &|all| format!("columns without a value on more than a fifth of the rows: {all}"));
    notes
}

/// The catalogue by chapter.
fn list(context: &Context) -> Outcome {
    let all: Vec<&Indicator> = catalogue().collect();
    let shown: Vec<_> = all
        .iter()
        .map(|i| {
            let params: Vec<_> = i.params.iter().map(|p| json!({"name": p.name, "default": p.default, "least": p.range.0, "most": p.range.1, "whole": p.whole})).collect();
            json!({"name": i.name, "chapter": i.kind, "usage": usage(i), "sources": i.sources, "params": params, "outputs": i.outputs, "about": i.about})
        })
        .collect();
    let presets: Vec<_> =
        PRESETS.iter().map(|(name, about, text)| json!({"name": name, "about": about, "text": text})).collect();
    context.print(&json!({"indicators": shown, "presets": presets}), |paint| {
        let mut text = format!("{}\n", paint.bold("Presets"));
        for (name, about, _) in PRESETS {
            text.push_str(&wrap(about, &format!("  {name:<24}  "), &" ".repeat(28)));
        }
        let mut chapter: Option<Kind> = None;
        for i in all {
            if chapter != Some(i.kind) {
                let _ = write!(text, "\n{}\n", paint.bold(&format!("{:?}", i.kind)));
                chapter = Some(i.kind);
            }
            let outputs =
                if i.outputs.len() > 1 { format!(" Outputs: {}.", i.outputs.join(", ")) } else { String::new() };
            let about = format!("{}{}{outputs}", i.about, if i.about.ends_with('.') { "" } else { "." });
            let usage = usage(i);
            // A long usage has a line of its own.
            if usage.len() > 24 {
                let _ = writeln!(text, "  {usage}");
                text.push_str(&wrap(&about, &" ".repeat(28), &" ".repeat(28)));
            } else {
                text.push_str(&wrap(&about, &format!("  {usage:<24}  "), &" ".repeat(28)));
            }
        }
        text.push_str(
            "\nA column of your own is col(name); values of slower bars are ema(50)@1h; three bars ago is close[3].\n",
        );
        text
    })?;
    Ok(0)
}

/// The canonical text of a set, and its columns.
fn show(words: &str, context: &Context) -> Outcome {
    let pointed = |e: Error| point_at_mistake(e, words, context.json);
    let plan = Plan::new(&read_set(words).map_err(pointed)?).map_err(pointed)?;
    let columns = features::columns(&plan);
    let shown: Vec<_> = columns
        .iter()
        .map(|(timeframe, c)| {
            let table = timeframe.map_or(String::new(), |t| t.to_string());
            json!({"name": c.name, "group": c.group, "table": table, "text": c.text, "first_valid": c.first_valid, "settled": c.settled})
        })
        .collect();
    context.print(&json!({"set": words, "text": plan.text(), "columns": shown}), |paint| {
        let rows: Vec<Vec<String>> = columns
            .iter()
            .map(|(timeframe, c)| {
                vec![
                    c.name.clone(),
                    timeframe.map_or(String::new(), |t| t.to_string()),
                    format_count(c.first_valid as u64),
                    c.settled.map_or_else(|| "never".to_string(), |s| format_count(s as u64)),
                    c.text.clone(),
                ]
            })
            .collect();
        let heads = ["column", "bar", ">first valid", ">settled", "what"];
        format!(
            "{}\n{}\n{}",
            plan.text(),
            paint.bold(&format_plural(columns.len() as u64, "column")),
            table(&heads, &rows, "  ")
        )
    })?;
    Ok(0)
}
