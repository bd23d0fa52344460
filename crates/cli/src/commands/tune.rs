//! `fullbore tune`

use super::features::point_at_mistake;
use super::{Context, Outcome, select, train};
use crate::args::Tune as Args;
use crate::out::Paint;
use crate::show::{table, wrap};
use files::{format_bytes, format_count, format_plural, format_seconds, format_short};
use jobs::{Capacity, CapacityRow, SearchCapacity, SearchCapacityRow, Tune, TuneRow, TuneRun};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let request = Tune {
        select: select(args.what.source)?,
        device: args.what.device,
        budget: args.budget.as_deref().map(train::duration).transpose()?,
    };
    let progress = &mut context.progress;
    let tuned = jobs::tune(&request, &context.settings, &mut |u| progress.update(u))
        .map_err(|e| point_at_mistake(e, &context.settings.features.or(""), context.json))?;
    context.print(&tuned, |paint| render(&tuned, paint))?;
    Ok(0)
}

fn render(tuned: &TuneRun, paint: Paint) -> String {
    let mut text = format!("{}  {} parameters\n", paint.bold(&tuned.net), format_count(tuned.parameters));
    text.push_str(&wrap(&format!("on {}", tuned.device), "  ", "  "));
    let _ = writeln!(
        text,
        "  {}, {} to train on in the smallest fold; memory budget {}",
        format_plural(tuned.samples, "sample"),
        format_count(tuned.smallest_fold),
        format_bytes(tuned.budget_bytes)
    );
    let scale = match (tuned.noise_scale, tuned.noise_scale_at_least) {
        (Some(scale), _) => format!("about {} rows", format_count(scale.round() as u64)),
        (None, Some(least)) => format!("not found, at least about {} rows", format_count(least.round() as u64)),
        (None, None) => "not found".into(),
    };
    if let Some(n) = &tuned.noise {
        let _ = writeln!(
            text,
            "  gradient noise scale: {scale} ({} batches of {} rows of {} after {})",
            n.batches,
            n.batch,
            format_plural(n.members as u64, "member"),
            format_plural(u64::from(n.warm_up), "step")
        );
    }

    let dash = || "-".to_string();
    match (&tuned.capacity, &tuned.search) {
        (Some(found), _) if found.rows.iter().any(|r| r.what == "population") => {
            generations(found, paint, &mut text);
        }
        (Some(found), _) => capacity(found, paint, &mut text),
        (_, Some(found)) => searches(found, paint, &mut text),
        _ => batches(tuned, paint, &mut text),
    }
    if !tuned.others.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Other settings"));
        let rows: Vec<Vec<String>> = tuned
            .others
            .iter()
            .map(|o| {
                vec![
                    if o.chosen { "*".into() } else { String::new() },
                    o.what.into(),
                    o.value.clone(),
                    o.samples_per_s.map_or_else(dash, |s| format!("{}/s", format_short(s))),
                ]
            })
            .collect();
        text.push_str(&table(&["", "what", ">value", ">samples"], &rows, "  "));
    }

    let _ = write!(text, "\n{}\n", paint.bold("Chosen"));
    let c = &tuned.chosen;
    let threads = c.threads.map_or(String::new(), |n| format!(", {}", format_plural(n as u64, "thread")));
    let members = c.members_at_once.map_or_else(
        || ", as many members at once as fit".into(),
        |n| format!(", {} at once", format_plural(n as u64, "member")),
    );
    let is_evolved = tuned.capacity.iter().flat_map(|found| &found.rows).any(|r| r.what == "population");
    let (place, of_batch) = if is_evolved { ("account", "populations of") } else { ("environment", "batches of") };
    let shape = |envs: usize, steps: usize| {
        format!("{} of {}, ", format_plural(envs as u64, place), format_plural(steps as u64, "step"))
    };
    let at_once = c.at_once.map_or(String::new(), |n| format!(", {} a thread", format_plural(n as u64, "individual")));
    let pinned = if c.pinned { ", threads pinned" } else { "" };
    let pair = |roots: usize, simulations: usize| {
        let roots = format_plural(roots as u64, "root");
        format!("{roots} with {}, ", format_plural(simulations as u64, "simulation"))
    };
    let own = match (c.roots.zip(c.simulations), c.n_envs.zip(c.n_steps)) {
        (Some((roots, simulations)), _) => pair(roots, simulations),
        (_, Some((envs, steps))) => shape(envs, steps),
        _ => String::new(),
    };
    let rule = match (tuned.rule_search, tuned.rule_shape) {
        (Some([roots, simulations]), _) => pair(roots, simulations),
        (_, Some([envs, steps])) => shape(envs, steps),
        _ => String::new(),
    };
    let said = format!(
        "{own}{of_batch} {}, {:?}{threads}{pinned}{at_once}{members}; without tuning {rule}{of_batch} {}",
        format_count(c.batch as u64),
        c.precision,
        format_count(tuned.rule_batch as u64)
    );
    text.push_str(&wrap(&said, "  ", "  "));
    text.push_str(&wrap(&tuned.why, "  ", "  "));
    text.push_str(&wrap(&tuned.rate_words(), "  ", "  "));
    if !tuned.notes.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Notes"));
        tuned.notes.iter().for_each(|note| text.push_str(&wrap(note, "  - ", "    ")));
    }
    let _ = write!(
        text,
        "\nsaved in {} after {}; `fullbore train` uses it for this workload\n",
        tuned.file,
        format_seconds(tuned.seconds)
    );
    text
}

/// The table of batches.
fn batches(tuned: &TuneRun, paint: Paint, text: &mut String) {
    let _ = write!(text, "\n{}\n", paint.bold("Batches"));
    let dash = || "-".to_string();
    let row = |r: &TuneRow| {
        vec![
            if r.chosen { "*".into() } else { String::new() },
            format_count(r.batch as u64),
            format_count(r.members_at_once as u64),
            format_bytes(r.memory_bytes),
            r.samples_per_s.map_or_else(dash, |s| format!("{}/s", format_short(s))),
            r.share_of_limit.map_or_else(dash, |s| format!("{:.0} %", 100.0 * s)),
            r.relative_time.map_or_else(dash, |t| format!("{t:.2}")),
        ]
    };
    let rows: Vec<Vec<String>> = tuned.rows.iter().map(row).collect();
    let heads = ["", ">batch", ">members", ">memory", ">samples", ">of the limit", ">time to the same loss"];
    text.push_str(&table(&heads, &rows, "  "));
    // Neighbours that were left out for one reason are one line.
    let left: Vec<(&str, usize)> = tuned.rows.iter().filter_map(|r| Some((r.note.as_deref()?, r.batch))).collect();
    for why in left.chunk_by(|a, b| a.0 == b.0) {
        let (first, last) = (why[0].1, why[why.len() - 1].1);
        let which = if first == last {
            format_count(first as u64)
        } else {
            format!("{} to {}", format_count(first as u64), format_count(last as u64))
        };
        text.push_str(&wrap(&format!("{which}: {}", why[0].0), "  - ", "    "));
    }
}

/// The table of populations, then of accounts.
fn generations(found: &Capacity, paint: Paint, text: &mut String) {
    let dash = || "-".to_string();
    let row = |r: &CapacityRow| {
        vec![
            if r.chosen { "*".into() } else { String::new() },
            format_count(r.batch_size as u64),
            format_count(r.n_envs as u64),
            format_count(r.updates as u64),
            format_bytes(r.memory_bytes),
            format_count(r.members_at_once as u64),
            r.update_s.map_or_else(dash, |s| format!("{}/s", format_short(1.0 / s))),
            r.steps_per_s.map_or_else(dash, |s| format!("{}/s", format_short(s))),
            r.planted_s.map_or_else(dash, format_seconds),
        ]
    };
    let heads = [
        "",
        ">population",
        ">accounts",
        ">generations",
        ">memory",
        ">members fit",
        ">generations",
        ">steps",
        ">planted return",
    ];
    for (title, what) in [("Populations", "population"), ("Accounts", "accounts")] {
        let rows: Vec<&CapacityRow> = found.rows.iter().filter(|r| r.what == what).collect();
        let _ = write!(text, "\n{}\n", paint.bold(title));
        text.push_str(&table(&heads, &rows.iter().map(|r| row(r)).collect::<Vec<_>>(), "  "));
        for (r, note) in rows.iter().filter_map(|r| Some((r, r.note.as_deref()?))) {
            let of = match what {
                "population" => format!("{} individuals", format_count(r.batch_size as u64)),
                _ => format!("{} accounts", format_count(r.n_envs as u64)),
            };
            text.push_str(&wrap(&format!("{of}: {note}"), "  - ", "    "));
        }
    }
    explain_planted(found, text);
}

/// The table of environments, then of steps and minibatches.
fn capacity(found: &Capacity, paint: Paint, text: &mut String) {
    let dash = || "-".to_string();
    let row = |r: &CapacityRow| {
        vec![
            if r.chosen { "*".into() } else { String::new() },
            format_count(r.n_envs as u64),
            format_count(r.n_steps as u64),
            format_count(r.batch_size as u64),
            format_bytes(r.memory_bytes),
            format_count(r.members_at_once as u64),
            r.steps_per_s.map_or_else(dash, |s| format!("{}/s", format_short(s))),
            r.update_s.map_or_else(dash, format_seconds),
            r.planted_s.map_or_else(dash, format_seconds),
        ]
    };
    let heads = ["", ">envs", ">steps", ">batch", ">memory", ">members fit", ">steps", ">update", ">planted return"];
    for (title, is_envs) in [("Environments", true), ("Steps and minibatches", false)] {
        let rows: Vec<&CapacityRow> = found.rows.iter().filter(|r| (r.what == "n_envs") == is_envs).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{}\n", paint.bold(title));
        text.push_str(&table(&heads, &rows.iter().map(|r| row(r)).collect::<Vec<_>>(), "  "));
        for (r, note) in rows.iter().filter_map(|r| Some((r, r.note.as_deref()?))) {
            let of = match r.what {
                "n_envs" => format!("{} environments", format_count(r.n_envs as u64)),
                "n_steps" => format!("{} steps", format_count(r.n_steps as u64)),
                _ => format!("batches of {}", format_count(r.batch_size as u64)),
            };
            text.push_str(&wrap(&format!("{of}: {note}"), "  - ", "    "));
        }
    }
    explain_planted(found, text);
}

fn explain_planted(found: &Capacity, text: &mut String) {
    let explained = format!(
        "planted return: time until a policy of these layers grows by {:.2} bp a bar on the validation of a market with a \
         planted signal, 80 % of what is possible there",
        found.target_growth_bp
    );
    text.push_str(&wrap(&explained, "  ", "  "));
}

/// The table of roots and simulations.
fn searches(found: &SearchCapacity, paint: Paint, text: &mut String) {
    let said = format!(
        ": {} scenarios at the root, {} bars ahead, {} roots in a training",
        format_count(found.scenarios as u64),
        found.horizon,
        format_count(found.timesteps as u64)
    );
    let _ = write!(text, "\n{}{said}\n", paint.bold("Roots and simulations"));
    let dash = || "-".to_string();
    let row = |r: &SearchCapacityRow| {
        vec![
            if r.chosen { "*".into() } else { String::new() },
            format_count(r.roots as u64),
            format_count(r.simulations as u64),
            format_count(r.n_steps as u64),
            format_bytes(r.memory_bytes),
            format_count(r.members_at_once as u64),
            r.roots_per_s.map_or_else(dash, |s| format!("{}/s", format_short(s))),
            r.simulations_per_s.map_or_else(dash, |s| format!("{}/s", format_short(s))),
            r.iteration_s.map_or_else(dash, format_seconds),
            r.planted_s.map_or_else(dash, format_seconds),
        ]
    };
    let heads = [
        "",
        ">roots",
        ">each",
        ">steps",
        ">memory",
        ">members fit",
        ">roots",
        ">simulations",
        ">iteration",
        ">planted return",
    ];
    text.push_str(&table(&heads, &found.rows.iter().map(row).collect::<Vec<_>>(), "  "));
    for (r, note) in found.rows.iter().filter_map(|r| Some((r, r.note.as_deref()?))) {
        let [roots, simulations] = [r.roots, r.simulations].map(|n| format_count(n as u64));
        text.push_str(&wrap(&format!("{roots} roots × {simulations} simulations: {note}"), "  - ", "    "));
    }
    let explained = format!(
        "each: simulations of a root; planted return: time until a policy of these layers with search grows by {:.2} bp a \
         bar on the validation of a market with a planted signal, 80 % of what is possible there",
        found.target_growth_bp
    );
    text.push_str(&wrap(&explained, "  ", "  "));
}
