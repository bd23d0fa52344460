//! The lower half of the dashboard: members, and beside them the machine or what came out.

use super::MonitorState;
use super::labels::{field_label, format_place};
use super::selection::{Selection, View};
use crate::plot::sparks;
use crate::screen::{Area, Ink, Screen};
use files::{format_bytes, format_bytes_of, format_number, format_plural, format_seconds};
use machine::{GpuSample, Sample};
use serde_json::Value;

/// Everybody with place, score and best; what was picked is kept in sight.
pub(super) fn members(screen: &mut Screen, monitor: &MonitorState, view: &View, area: Area) {
    let ended = monitor.members().values().filter(|m| m.ended.is_some()).count();
    let waiting = monitor.n_members().saturating_sub(monitor.members().len() as u64);
    let n_members = monitor.n_members();
    let mut heading = format_plural(n_members, "member");
    for (n, state) in [(ended as u64, "ended"), (waiting, "not started")].into_iter().filter(|(n, _)| *n > 0) {
        heading.push_str(&format!(", {} {state}", if n == n_members { "all".to_string() } else { n.to_string() }));
    }
    let inside = screen.frame(area, &heading);
    if inside.height < 2 || inside.width < 30 {
        return;
    }
    let score = monitor.score_metric().map(str::to_string);
    let columns =
        [16usize, inside.width.saturating_sub(25), inside.width.saturating_sub(17), inside.width.saturating_sub(1)];
    let heads = ["", monitor.axis(), "now", "best"];
    let y = inside.y;
    screen.write(inside.x + 2, y, 14, &score.as_deref().map_or(String::new(), field_label), Ink::Dim);
    for i in 1..4 {
        screen.write_before(inside.x + columns[i], y, heads[i], Ink::Dim);
    }
    let selections = monitor.selections();
    let chosen = selections.iter().position(|p| *p == view.selection).unwrap_or(0);
    let grouped = selections.iter().any(|p| matches!(p, Selection::Group(_)));
    let room = inside.height - 1;
    let from = chosen.saturating_sub(room / 2).min(selections.len().saturating_sub(room));
    for (i, selection) in selections.iter().enumerate().skip(from).take(room) {
        let y = inside.y + 1 + i - from;
        let ids = monitor.member_ids(selection);
        let ink = if i == chosen { Ink::Bold } else { Ink::Plain };
        if i == chosen {
            screen.put(inside.x, y, '▸', Ink::Good);
        }
        let indent = if matches!(selection, Selection::Member(_)) && selections.len() > 2 { 2 } else { 1 };
        let name = monitor.selection_name(selection);
        // Below its group a member needs no second mention of it.
        let group = ids.first().filter(|_| grouped).and_then(|id| monitor.groups().iter().find(|g| g.1.contains(id)));
        let short = group.filter(|_| indent == 2).and_then(|g| name.strip_prefix(&*g.0)).map_or(&*name, str::trim);
        let x = screen.write(inside.x + 1 + indent, y, columns[1].saturating_sub(6 + indent), short, ink) + 1;
        let why = match selection {
            Selection::Member(id) => monitor.members().get(id).and_then(|m| m.ended.clone()),
            _ => None,
        };
        if let Some(why) = why {
            screen.write(x, y, (inside.x + columns[1]).saturating_sub(x + 5), &why, Ink::Dim);
        }
        let at = ids.iter().filter_map(|id| monitor.members().get(id)).map(|m| m.at).fold(0.0, f64::max);
        screen.write_before(inside.x + columns[1], y, &format_place(at), ink);
        let metric = score.as_ref().and_then(|w| monitor.metrics().iter().find(|m| m.name == *w));
        let now = metric.and_then(|m| m.last(&ids)).map_or("-".into(), |v| format_number(v, 4));
        screen.write_before(inside.x + columns[2], y, &now, ink);
        let best = monitor.best_member(&ids).and_then(|id| monitor.members().get(&id)?.best);
        let best =
            best.map_or("-".into(), |(at, value)| format!("{} at {}", format_number(value, 4), format_place(at)));
        let crowned = matches!(selection, Selection::Member(id) if monitor.best_member(&monitor.member_ids(&Selection::All)) == Some(*id));
        screen.write_before(inside.x + columns[3], y, &best, if crowned { Ink::Good } else { ink });
    }
}

/// The machine while the run runs, what came out when it has ended, how to go on when it was cut.
pub(super) fn side(screen: &mut Screen, monitor: &MonitorState, area: Area) {
    let (word, more) = monitor.describe_status();
    match word {
        "running" if monitor.on_this_machine => machine(screen, monitor, area),
        "running" => {
            let inside = screen.frame(area, "machine");
            let text = "the run's process is on another machine, which cannot be seen from here";
            paragraph(screen, inside, text, Ink::Warn);
        }
        "finished" => result(screen, monitor, area),
        _ => {
            let inside = screen.frame(area, word);
            let ink = if word == "interrupted" { Ink::Warn } else { Ink::Bad };
            let used = paragraph(screen, inside, &more, ink);
            let rest = Area { y: inside.y + used, height: inside.height.saturating_sub(used), ..inside };
            let fields: Vec<(String, String)> = run_figures(monitor);
            pairs(screen, rest, &fields);
        }
    }
}

fn machine(screen: &mut Screen, monitor: &MonitorState, area: Area) {
    let inside = screen.frame(area, "machine");
    let Some(sample) = monitor.samples.back() else {
        screen.write(inside.x + 1, inside.y, inside.width.saturating_sub(1), "looking…", Ink::Dim);
        return;
    };
    let (x, wide) = (inside.x + 1, inside.width.saturating_sub(2));
    let mut y = inside.y;
    let end = inside.y + inside.height;
    let mut line = |screen: &mut Screen, text: &str, ink: Ink| {
        if y < end {
            screen.write(x, y, wide, text, ink);
        }
        y += 1;
        y - 1
    };
    line(screen, &cpu(sample), Ink::Plain);
    let spare = inside.height.saturating_sub(3 + sample.gpus.len().max(1));
    let each = 17; // ` 1 ███████  93 % `
    let columns = (wide / each).max(1);
    if sample.cpu_percent.len().div_ceil(columns) <= spare.max(1) && wide >= each {
        for row in sample.cpu_percent.chunks(columns).enumerate() {
            let y = line(screen, "", Ink::Plain);
            for (i, busy) in row.1.iter().enumerate().filter(|_| y < end) {
                let at = x + i * each;
                let core = row.0 * columns + i + 1;
                screen.write_before(at + 2, y, &core.to_string(), Ink::Dim);
                let after = screen.bar(at + 3, y, each - 10, f64::from(*busy) / 100.0, busy_ink(*busy));
                screen.write_before(after + 6, y, &format!("{busy:.0} %"), Ink::Plain);
            }
        }
    } else {
        // A character for each core, as many as there is room for.
        let all: Vec<f64> = sample.cpu_percent.iter().map(|p| f64::from(*p)).collect();
        for row in all.chunks(wide.max(1)).take(spare.max(1)) {
            line(screen, &sparks(row.iter().copied()), Ink::First);
        }
    }
    line(screen, &memory(sample), Ink::Plain);
    if sample.gpus.is_empty() {
        line(screen, NO_GPU, Ink::Dim);
    }
    for card in &sample.gpus {
        let y = line(screen, "", Ink::Plain);
        if y < end {
            let at = screen.write(x, y, wide, &format!("GPU {} ", card.index), Ink::Plain);
            let busy = card.busy_percent.unwrap_or(0.0);
            let at = screen.bar(at, y, 4, f64::from(busy) / 100.0, busy_ink(busy)) + 1;
            screen.write(at, y, (x + wide).saturating_sub(at), &gpu(card), Ink::Plain);
        }
    }
    let late: Vec<f64> = monitor.samples.iter().map(|s| f64::from(s.cpu_mean_percent())).collect();
    let label = "CPU recent  ";
    let room = wide.saturating_sub(label.len());
    line(screen, &format!("{label}{}", sparks(late[late.len().saturating_sub(room)..].iter().copied())), Ink::Dim);
    let cards: Vec<f64> = monitor.samples.iter().filter_map(|s| s.gpus.first()?.busy_percent).map(f64::from).collect();
    if !cards.is_empty() {
        let sparks = sparks(cards[cards.len().saturating_sub(room)..].iter().copied());
        line(screen, &format!("GPU recent  {sparks}"), Ink::Dim);
    }
}

const NO_GPU: &str = "GPU none found (no NVIDIA card, or no NVML)";

fn busy_ink(percent: f32) -> Ink {
    if percent >= 85.0 { Ink::Good } else { Ink::First }
}

fn cpu(sample: &Sample) -> String {
    let load = sample.load_average.map_or(String::new(), |l| format!("   load {:.2} {:.2} {:.2}", l[0], l[1], l[2]));
    let n = sample.cpu_percent.len();
    let cores = if n == 1 { "1 core".to_string() } else { format!("{n} cores") };
    format!("CPU {:.0} % of {cores}{load}", sample.cpu_mean_percent())
}

fn memory(sample: &Sample) -> String {
    let process = sample.process_memory_bytes.map_or("unknown".into(), format_bytes);
    let all = sample.memory_used_bytes + sample.memory_available_bytes;
    format!("RAM process {process}, all {}", format_bytes_of(sample.memory_used_bytes, all))
}

fn gpu(card: &GpuSample) -> String {
    let parts = [
        card.busy_percent.map(|p| format!("{p:.0} %")),
        card.memory_used_bytes.zip(card.memory_total_bytes).map(|(used, all)| format_bytes_of(used, all)),
        card.power_watts.map(|w| format!("{w:.0} W")),
        card.temperature_celsius.map(|t| format!("{t} °C")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// The machine in lines, for a small screen.
pub(super) fn machine_lines(monitor: &MonitorState) -> Vec<String> {
    match monitor.samples.back().filter(|_| monitor.is_running() && monitor.on_this_machine) {
        Some(sample) => {
            let cards = sample.gpus.iter().map(|card| format!("GPU {} {}", card.index, gpu(card)));
            let cards: Vec<String> = if sample.gpus.is_empty() { vec![NO_GPU.into()] } else { cards.collect() };
            [vec![cpu(sample), memory(sample)], cards].concat()
        }
        None => judged_fields(monitor.result.as_ref().and_then(|r| r.get("judged")))
            .into_iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect(),
    }
}

fn result(screen: &mut Screen, monitor: &MonitorState, area: Area) {
    let inside = screen.frame(area, "judged on test samples");
    let mut all = judged_fields(monitor.result.as_ref().and_then(|r| r.get("judged")));
    if all.is_empty() {
        screen.write(inside.x + 1, inside.y, inside.width, "the folder has no result", Ink::Dim);
    }
    all.extend(run_figures(monitor));
    pairs(screen, inside, &all);
}

/// Every number of a judged result with its name, and its interval where there is one.
pub fn judged_fields(judged: Option<&Value>) -> Vec<(String, String)> {
    let Some(judged) = judged.and_then(Value::as_object) else {
        return Vec::new();
    };
    let interval = |name: &str| {
        let interval = judged.get(&format!("{name}_interval"))?;
        Some(format!(
            " ({} to {})",
            format_number(interval["low"].as_f64()?, 4),
            format_number(interval["high"].as_f64()?, 4)
        ))
    };
    let number = |(name, value): (&String, &Value)| {
        let value = value.as_f64()?;
        let text = if value.fract() == 0.0 && value > 1.0 { format_place(value) } else { format_number(value, 4) };
        Some((field_label(name), format!("{text}{}", interval(name).unwrap_or_default())))
    };
    judged.iter().filter_map(number).collect()
}

/// How full the machine was, as far as the log tells.
fn run_figures(monitor: &MonitorState) -> Vec<(String, String)> {
    let seen = monitor.machine_history();
    let mean = |all: Vec<f64>| (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64);
    let cpu = mean(seen.iter().map(|s| s.1).collect()).map(|p| ("CPU, mean".to_string(), format!("{p:.0} %")));
    let gpu = mean(seen.iter().filter_map(|s| s.2).collect()).map(|p| ("GPU, mean".to_string(), format!("{p:.0} %")));
    let took = monitor.elapsed_seconds().map(|s| ("took".to_string(), format_seconds(s)));
    [took, cpu, gpu].into_iter().flatten().collect()
}

/// Names and values in as many columns as are needed.
fn pairs(screen: &mut Screen, area: Area, all: &[(String, String)]) {
    if area.height == 0 || area.width < 10 {
        return;
    }
    let columns = all.len().div_ceil(area.height).clamp(1, (area.width / 20).max(1));
    let wide = area.width / columns;
    for (i, (name, value)) in all.iter().enumerate().take(columns * area.height) {
        let (x, y) = (area.x + 1 + i / area.height * wide, area.y + i % area.height);
        let at = screen.write(x, y, wide.saturating_sub(2), name, Ink::Dim) + 1;
        screen.write(at, y, (x + wide).saturating_sub(at + 1), value, Ink::Plain);
    }
}

/// Words in an area; gives the rows they took.
fn paragraph(screen: &mut Screen, area: Area, text: &str, ink: Ink) -> usize {
    let wide = area.width.saturating_sub(2);
    let (mut x, mut y) = (0, 0);
    for word in text.split_whitespace() {
        let long = word.chars().count();
        if x > 0 && x + long > wide {
            (x, y) = (0, y + 1);
        }
        if y >= area.height {
            return area.height;
        }
        screen.write(area.x + 1 + x, area.y + y, wide.saturating_sub(x), word, ink);
        x += long + 1;
    }
    y + usize::from(x > 0)
}
