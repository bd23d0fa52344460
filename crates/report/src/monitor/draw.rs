//! The dashboard: what is known of a run, painted onto a screen of any size.
//!
//! From the top: how the run stands, how far it is, where its time went; the charts; the members beside the machine, or
//! beside what came out; a verdict, and the keys. What has no room is left out in that order from below, and a screen
//! too small for frames gets lines.

use super::labels::{field_label, format_place};
use super::panels;
use super::selection::{Chart, Selection, View, stem};
use super::{Metric, MonitorState, Point, Series};
use crate::plot::{Curve, Stroke, plot};
use crate::screen::{Area, Ink, Screen};
use files::{format_number, format_plural, format_seconds};

/// Below these there are no frames.
const NARROW: usize = 50;
const LOW: usize = 15;

/// Paints a run.
pub fn draw_monitor(monitor: &MonitorState, view: &View, width: usize, height: usize) -> Screen {
    let mut screen = Screen::new(width, height);
    if view.help {
        help(&mut screen);
    } else if width < NARROW || height < LOW {
        lines(&mut screen, monitor, view);
    } else {
        dashboard(&mut screen, monitor, view);
    }
    if !view.unicode {
        screen.translate_to_ascii();
    }
    screen
}

fn dashboard(screen: &mut Screen, monitor: &MonitorState, view: &View) {
    let (width, height) = (screen.width(), screen.height());
    title(screen, monitor, 0);
    let on = [monitor.net(), monitor.device()].into_iter().flatten().collect::<Vec<_>>().join(" on ");
    screen.write(1, 1, width - 2, &on, Ink::Dim);
    progress(screen, monitor, view, 2);
    phases(screen, monitor, 3);
    message_line(screen, monitor, view, height - 2);
    keys(screen, monitor, height - 1);
    // Between the four lines above and the two below.
    let room = height - 6;
    let below = if height < 20 { 0 } else { room * 2 / 5 };
    charts(screen, monitor, view, Area { x: 0, y: 4, width, height: room - below });
    let y = 4 + room - below;
    if width < 80 {
        panels::side(screen, monitor, Area { x: 0, y, width, height: below });
    } else {
        let left = width / 2;
        panels::members(screen, monitor, view, Area { x: 0, y, width: left, height: below });
        panels::side(screen, monitor, Area { x: left, y, width: width - left, height: below });
    }
}

/// Name and standing.
fn title(screen: &mut Screen, monitor: &MonitorState, y: usize) {
    let (word, more) = monitor.describe_status();
    let ink = match word {
        "running" | "finished" => Ink::Good,
        "interrupted" => Ink::Warn,
        _ => Ink::Bad,
    };
    let mut parts = vec![word.to_string()];
    if word == "running" && !more.is_empty() {
        parts.push(more);
    }
    parts.extend(monitor.elapsed_seconds().map(format_seconds));
    let from = screen.write_before(screen.width().saturating_sub(1), y, &parts.join(" · "), ink);
    let name = monitor.run.as_ref().map_or("", |r| r.name.as_str());
    screen.write(1, y, from.saturating_sub(3), name, Ink::Bold);
}

/// How far, how fast, how long.
fn progress(screen: &mut Screen, monitor: &MonitorState, view: &View, y: usize) {
    let after = [rates(monitor), left(monitor)].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("   ");
    let x =
        screen.write(1, y, screen.width(), &position(monitor, &monitor.member_ids(&view.selection)), Ink::Plain) + 2;
    let Some(done) = monitor.share_done() else {
        screen.write(x, y, screen.width(), &after, Ink::Plain);
        return;
    };
    let percent = format!("{:3.0} %", 100.0 * done);
    let wide = screen.width().saturating_sub(x + percent.len() + after.chars().count() + 6).min(50);
    let x = if wide >= 5 { screen.bar(x, y, wide, done, Ink::First) + 1 } else { x };
    let x = screen.write(x, y, screen.width(), &percent, Ink::Bold) + 3;
    screen.write(x, y, screen.width().saturating_sub(x + 1), &after, Ink::Plain);
}

/// `epoch 12 of 500`, `epoch 7 to 12 of 500`
fn position(monitor: &MonitorState, ids: &[u64]) -> String {
    let places =
        || ids.iter().filter_map(|id| monitor.members().get(id)).filter(|m| m.ended.is_none() || ids.len() == 1);
    let (lo, hi) = places().fold((f64::INFINITY, 0.0f64), |(lo, hi), m| (lo.min(m.at), hi.max(m.at)));
    let furthest = || ids.iter().filter_map(|id| monitor.members().get(id)).map(|m| m.at).fold(0.0, f64::max);
    let end = monitor.axis_end().map_or(String::new(), |end| format!(" of {}", format_place(end)));
    match (lo, hi) {
        _ if monitor.members().is_empty() => format!("no {} yet", monitor.axis()),
        // All that were picked have ended.
        (lo, _) if lo.is_infinite() => format!("{} {}{end}", monitor.axis(), format_place(furthest())),
        (lo, hi) if lo < hi => format!("{} {} to {}{end}", monitor.axis(), format_place(lo), format_place(hi)),
        (_, hi) => format!("{} {}{end}", monitor.axis(), format_place(hi)),
    }
}

fn rates(monitor: &MonitorState) -> String {
    let rate = |(name, value): &(String, f64)| format!("{} {}", format_number(*value, 4), field_label(name));
    monitor.rates().iter().take(1).map(rate).collect()
}

fn left(monitor: &MonitorState) -> String {
    monitor.seconds_left().map_or(String::new(), |s| format!("at most {} left", format_seconds(s)))
}

/// A bar of what the time went into, each phase with its share.
fn phases(screen: &mut Screen, monitor: &MonitorState, y: usize) {
    let phases = monitor.phases();
    let total: f64 = phases.iter().map(|p| p.1).sum();
    if total <= 0.0 {
        return;
    }
    let inks = [Ink::Second, Ink::Third, Ink::Warn, Ink::First, Ink::Good, Ink::Plain, Ink::Bad];
    let now = phases.iter().rfind(|p| p.2).map(|p| format!("phase {}", p.0));
    let x = screen.write(1, y, 20, &now.unwrap_or_else(|| "phases".into()), Ink::Plain) + 2;
    let labels: Vec<(String, Ink)> = phases
        .iter()
        .enumerate()
        .filter(|(_, p)| p.1 >= 0.005 * total || p.2)
        .map(|(i, p)| (format!("{} {:.0} %", p.0, 100.0 * p.1 / total), inks[i % inks.len()]))
        .collect();
    let long: usize = labels.iter().map(|l| l.0.chars().count() + 4).sum();
    let wide = screen.width().saturating_sub(x + long + 1).min(40);
    let mut filled = 0;
    let mut sum = 0.0;
    for (i, phase) in phases.iter().enumerate().filter(|_| wide >= 8) {
        sum += phase.1;
        let until = (sum / total * wide as f64).round() as usize;
        (filled..until).for_each(|c| screen.put(x + c, y, '█', inks[i % inks.len()]));
        filled = filled.max(until);
    }
    let mut x = if wide >= 8 { x + wide + 1 } else { x };
    for (label, ink) in labels {
        if x + label.chars().count() + 3 > screen.width() {
            break;
        }
        screen.put(x, y, '█', ink);
        x = screen.write(x + 2, y, screen.width(), &label, Ink::Plain) + 2;
    }
}

/// As many charts beside each other as there is room for, the one that was turned to first.
fn charts(screen: &mut Screen, monitor: &MonitorState, view: &View, area: Area) {
    let all = monitor.charts();
    if all.is_empty() {
        let inside = screen.frame(area, "metrics");
        let words = match monitor.is_running() {
            true => "nothing was measured yet",
            false => "nothing was measured",
        };
        screen.write(inside.x + 1, inside.y + inside.height / 2, inside.width, words, Ink::Dim);
        return;
    }
    let n = (area.width / 45).clamp(1, 3).min(all.len());
    for i in 0..n {
        let (x, end) = (area.x + area.width * i / n, area.x + area.width * (i + 1) / n);
        let place = Area { x, width: end - x, ..area };
        chart(screen, monitor, view, &all[(view.chart + i) % all.len()], place);
    }
}

fn chart(screen: &mut Screen, monitor: &MonitorState, view: &View, chart: &Chart, area: Area) {
    let ids = monitor.member_ids(&view.selection);
    let whose = if view.selection == Selection::All {
        String::new()
    } else {
        format!(" · {}", monitor.selection_name(&view.selection))
    };
    let inside = screen.frame(area, &format!("{}{whose}", field_label(&chart.name)));
    if inside.width < 16 || inside.height < 3 {
        return;
    }
    let of = |i: &usize| {
        let metric = &monitor.metrics()[*i];
        Some((metric, metric.curve(&view.selection).filter(|s| s.last().is_some())?))
    };
    let shown: Vec<(&Metric, &Series)> = chart.metrics.iter().filter_map(of).collect();
    // What counts comes last, over the others and in the first ink.
    let ink = |i: usize| [Ink::First, Ink::Second, Ink::Third][(shown.len() - 1 - i).min(2)];
    let mut x = inside.x + 1;
    for (i, (metric, _)) in shown.iter().enumerate() {
        let part = metric.name.strip_suffix(stem(&metric.name)).unwrap_or_default().trim_end_matches('_');
        let value = metric.last(&ids).map_or("-".into(), |v| format_number(v, 4));
        let text = format!("{} {value}", if part.is_empty() { "now" } else { part });
        x = screen.write(x, inside.y, (inside.x + inside.width).saturating_sub(x), &text, ink(i)) + 2;
    }
    let counts = monitor.score_metric().is_some_and(|w| shown.iter().any(|m| m.0.name == w));
    let best = monitor.best_member(&ids).filter(|_| counts).and_then(|id| monitor.members().get(&id)?.best);
    if let Some((at, value)) = best {
        let text = format!("◆ best {} at {}", format_number(value, 4), format_place(at));
        screen.write(x, inside.y, (inside.x + inside.width).saturating_sub(x), &text, Ink::Good);
    }
    let many = ids.len() > 1;
    let mut curves = Vec::new();
    for (i, (_, series)) in shown.iter().enumerate() {
        let line = |of: fn(&Point) -> f64| series.points().map(|p| (p.x, of(&p))).collect::<Vec<_>>();
        // How far members are apart is shown for what counts alone.
        if many && i + 1 == shown.len() {
            curves.push(Curve { points: line(|p| p.lo), ink: Ink::Dim, stroke: Stroke::Dots });
            curves.push(Curve { points: line(|p| p.hi), ink: Ink::Dim, stroke: Stroke::Dots });
        }
        let stroke = if view.color || i + 1 == shown.len() { Stroke::Line } else { Stroke::Dashed };
        curves.push(Curve { points: line(|p| p.mean), ink: ink(i), stroke });
    }
    let bottom = inside.y + inside.height - 1;
    let extremes = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let all = curves.iter().flat_map(|c| &c.points).chain(&best).map(of);
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)))
    };
    let (xs, mut ys) = (extremes(&|p| p.0), extremes(&|p| p.1));
    if xs.0 > xs.1 {
        screen.write(
            inside.x + 1,
            inside.y + inside.height / 2,
            inside.width - 2,
            "nothing was measured yet",
            Ink::Dim,
        );
        return;
    }
    if ys.1 - ys.0 <= f64::EPSILON * ys.0.abs() {
        let pad = ys.0.abs().max(1e-3) * 0.05;
        ys = (ys.0 - pad, ys.1 + pad);
    }
    let labels = [(ys.1, 0), (ys.0, inside.height.saturating_sub(3))].map(|(v, at)| (format_number(v, 4), at));
    let margin = labels.iter().map(|l| l.0.chars().count()).max().unwrap_or(0).min(10) + 1;
    let field = Area {
        x: inside.x + margin + 1,
        y: inside.y + 1,
        width: inside.width.saturating_sub(margin + 2),
        height: inside.height - 2,
    };
    for (text, at) in labels {
        screen.write_before(field.x - 1, field.y + at, &text, Ink::Dim);
    }
    (0..field.height).for_each(|i| screen.put(field.x - 1, field.y + i, '│', Ink::Dim));
    let x = screen.write(field.x, bottom, field.width, &format!("{} {}", monitor.axis(), format_place(xs.0)), Ink::Dim);
    let last = format_place(xs.1);
    if xs.1 > xs.0 && x + last.len() + 1 < field.x + field.width {
        screen.write_before(field.x + field.width, bottom, &last, Ink::Dim);
    }
    plot(screen, field, (xs, ys), &curves, best, view.unicode);
}

/// What is to be known now: what went wrong first, then the verdict.
fn message_line(screen: &mut Screen, monitor: &MonitorState, view: &View, y: usize) {
    let (text, ink) = message(monitor, view);
    screen.write(1, y, screen.width().saturating_sub(2), &text, ink);
}

fn message(monitor: &MonitorState, view: &View) -> (String, Ink) {
    let (word, more) = monitor.describe_status();
    let quiet = monitor.seconds_since_log().filter(|s| monitor.is_running() && *s > 120.0);
    match word {
        _ if view.paused => ("paused: nothing new is shown until you press space again".into(), Ink::Warn),
        "gone" | "failed" | "unreadable" | "crashed" => (format!("{word}: {more}"), Ink::Bad),
        "interrupted" => (format!("{word}: {more}"), Ink::Warn),
        _ if monitor.problem.is_some() => (monitor.problem.clone().unwrap_or_default(), Ink::Bad),
        _ if quiet.is_some() => {
            (format!("its log was last written {} ago", format_seconds(quiet.unwrap_or(0.0))), Ink::Warn)
        }
        _ if monitor.skipped > 0 => (
            format!("{} of its log could not be read and were left out", format_plural(monitor.skipped, "line")),
            Ink::Warn,
        ),
        _ => (monitor.verdict(), Ink::Plain),
    }
}

fn keys(screen: &mut Screen, monitor: &MonitorState, y: usize) {
    // Arrows are words, since not every terminal has them.
    let all = format!("{}   tab left/right metric   up/down member   space pauses   ? help", quit_hint(monitor));
    let short = format!("{}   ? help", quit_hint(monitor));
    let room = screen.width().saturating_sub(2);
    screen.write(1, y, room, if all.len() <= room { &all } else { &short }, Ink::Dim);
}

/// Whoever leaves stops nothing.
fn quit_hint(monitor: &MonitorState) -> &'static str {
    if monitor.is_running() { "q quits, the run continues" } else { "q quits" }
}

/// A screen too small for frames: lines, the most important first.
fn lines(screen: &mut Screen, monitor: &MonitorState, view: &View) {
    let ids = monitor.member_ids(&view.selection);
    let (width, height) = (screen.width(), screen.height());
    title(screen, monitor, 0);
    let mut lines: Vec<(String, Ink)> = Vec::new();
    let done = monitor.share_done().map_or(String::new(), |d| format!(", {:.0} %", 100.0 * d));
    lines.push((format!("{}{done}", position(monitor, &ids)), Ink::Plain));
    lines.push((left(monitor), Ink::Plain));
    let (text, ink) = message(monitor, view);
    if ink != Ink::Plain {
        lines.push((text.clone(), ink));
    }
    if view.selection != Selection::All {
        lines.push((monitor.selection_name(&view.selection), Ink::Bold));
    }
    let best = monitor.best_member(&ids).and_then(|id| monitor.members().get(&id)?.best);
    let charts = monitor.charts();
    for i in 0..charts.len() {
        for metric in charts[(view.chart + i) % charts.len()].metrics.iter().rev().map(|m| &monitor.metrics()[*m]) {
            let best = best.filter(|_| Some(metric.name.as_str()) == monitor.score_metric());
            let best = best.map_or(String::new(), |(at, value)| {
                format!(", best {} at {}", format_number(value, 4), format_place(at))
            });
            lines.push((
                format!(
                    "{} {}{best}",
                    field_label(&metric.name),
                    metric.last(&ids).map_or("-".into(), |v| format_number(v, 4))
                ),
                Ink::First,
            ));
        }
    }
    lines.extend(panels::machine_lines(monitor).into_iter().map(|line| (line, Ink::Plain)));
    if ink == Ink::Plain {
        lines.push((text, ink));
    }
    let room = height.saturating_sub(2);
    for (i, (line, ink)) in lines.into_iter().filter(|l| !l.0.is_empty()).take(room).enumerate() {
        screen.write(1, 1 + i, width.saturating_sub(1), &line, ink);
    }
    if height > 2 {
        screen.write(1, height - 1, width.saturating_sub(1), quit_hint(monitor), Ink::Dim);
    }
}

fn help(screen: &mut Screen) {
    let lines = [
        ("fullbore monitor", Ink::Bold),
        ("", Ink::Plain),
        ("q, Esc, Ctrl-C    quit; the run continues, whatever is done here", Ink::Plain),
        ("tab, right, left  the next metric, the one before", Ink::Plain),
        ("down, up          the next member or group, the one before", Ink::Plain),
        ("space             pause: nothing new is shown; again: continue", Ink::Plain),
        ("?                 this page, and back", Ink::Plain),
        ("", Ink::Plain),
        ("A chart shows the mean over the members that were picked; the dim dots are", Ink::Dim),
        ("their lowest and highest. The diamond marks the best so far.", Ink::Dim),
        ("Time left is at most that: members may end early.", Ink::Dim),
    ];
    let (width, height) = (screen.width(), screen.height());
    for (i, (line, ink)) in lines.into_iter().take(height).enumerate() {
        screen.write(2, i, width.saturating_sub(2), line, ink);
    }
}
