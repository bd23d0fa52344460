//! `fullbore monitor`

use super::{Context, Outcome};
use crate::args::Monitor as Args;
use crate::fail::Failure;
use crate::out::{self, Paint};
use crate::show::{table, wrap};
use crate::terminal::{Press, Terminal};
use files::{Error, Kind, format_bytes, format_count, format_number, format_plural, format_seconds, format_short};
use jobs::Monitor;
use report::{MonitorSummary, View, draw_monitor, field_label, judged_fields, summarise};
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The folder and the machine are looked at this often.
const PACE: Duration = Duration::from_secs(1);
/// A signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(500);

pub(super) fn run(args: &Args, context: &mut Context) -> Outcome {
    let mut monitor = Monitor::open(args.run.as_deref())?;
    if !args.once && !context.json && Terminal::is_available() {
        return watch(&mut monitor);
    }
    monitor.wait_for_sample();
    let summary = summarise(monitor.state());
    context.print(&summary, |paint| render(&summary, paint))?;
    Ok(0)
}

/// The dashboard, until the user leaves.
fn watch(monitor: &mut Monitor) -> Outcome {
    let fail = |e: std::io::Error| Failure::from(Error::new(Kind::Machine, format!("the terminal: {e}")));
    let stop = jobs::stop_flag();
    let mut terminal = Terminal::enter().map_err(fail)?;
    let (color, unicode) = terminal.capabilities();
    let mut view = View { color, unicode, ..View::default() };
    let mut looked = Instant::now();
    let mut fresh = true;
    loop {
        if fresh {
            let (width, height) = terminal.size().map_err(fail)?;
            terminal.show(draw_monitor(monitor.state(), &view, width, height)).map_err(fail)?;
        }
        let patience = PACE.saturating_sub(looked.elapsed()).min(NOTICE);
        let press = terminal.press(patience).map_err(fail)?;
        if stop.load(Ordering::Relaxed) {
            drop(terminal);
            return Err(Error::new(Kind::Interrupted, "monitor closed; the run continues").into());
        }
        fresh = press.is_some();
        match press {
            Some(Press::Leave) => break,
            Some(Press::Right) => view.next_chart(1, monitor.state()),
            Some(Press::Left) => view.next_chart(-1, monitor.state()),
            Some(Press::Down) => view.move_selection(1, monitor.state()),
            Some(Press::Up) => view.move_selection(-1, monitor.state()),
            Some(Press::Pause) => view.paused = !view.paused,
            Some(Press::Help) => view.help = !view.help,
            Some(Press::Other) | None => {}
        }
        if looked.elapsed() >= PACE {
            looked = Instant::now();
            if !view.paused {
                monitor.refresh();
                fresh = true;
            }
        }
    }
    drop(terminal);
    out::print_text(&farewell(&summarise(monitor.state())))?;
    Ok(0)
}

/// What stays on the user's own screen.
fn farewell(summary: &MonitorSummary) -> String {
    let at = format!("{} {}", summary.axis, place(summary.at));
    match &*summary.state {
        "running" => format!(
            "{} continues ({at}); `fullbore monitor {}` opens the monitor again\n",
            summary.name, summary.folder
        ),
        "interrupted" | "crashed" => format!("{} is {}: {}\n", summary.name, summary.state, summary.says),
        state => format!("{} is {state} ({at})\n", summary.name),
    }
}

fn render(summary: &MonitorSummary, paint: Paint) -> String {
    let says = if summary.says.is_empty() { String::new() } else { format!(" ({})", summary.says) };
    let mut text = format!("{}\n", paint.bold(&summary.name));
    text.push_str(&wrap(&format!("{}{says}", summary.state), "  ", "  "));
    let on: Vec<&str> = [summary.net.as_deref(), summary.device.as_deref()].into_iter().flatten().collect();
    if !on.is_empty() {
        text.push_str(&wrap(&on.join(" on "), "  ", "  "));
    }
    let end = summary.last.map_or(String::new(), |last| format!(" of {}", place(last)));
    let done = summary.done_percent.map_or(String::new(), |p| format!(", {p:.0} %"));
    let spent = summary.elapsed_seconds.map_or(String::new(), |s| match summary.ended {
        Some(_) => format!(", took {}", format_seconds(s)),
        None => format!(", {} so far", format_seconds(s)),
    });
    let left = summary.left_seconds.map_or(String::new(), |s| format!(", at most {} left", format_seconds(s)));
    let _ = writeln!(text, "  {} {}{end}{done}{spent}{left}", summary.axis, place(summary.at));
    let ended = if summary.members_ended > 0 {
        format!(", {} ended", format_count(summary.members_ended))
    } else {
        String::new()
    };
    let rates: String = summary
        .rates
        .iter()
        .filter_map(|(name, v)| Some(format!(", {} {}", format_short(v.as_f64()?), field_label(name))))
        .collect();
    let _ = writeln!(text, "  {}{ended}{rates}", format_plural(summary.members, "member"));
    if let Some(best) = &summary.best {
        let _ = writeln!(
            text,
            "  best so far: {} {:.4}, {}, {} {}",
            field_label(&best.metric),
            best.value,
            best.member,
            summary.axis,
            place(best.at)
        );
    }
    if !summary.phases.is_empty() {
        let phase = |p: &report::PhaseSummary| {
            format!("{} {}{}", p.name, format_seconds(p.seconds), if p.running { " so far" } else { "" })
        };
        text.push_str(&wrap(&summary.phases.iter().map(phase).collect::<Vec<_>>().join(", "), "  phases: ", "    "));
    }
    metrics(&mut text, summary, paint);
    let judged = judged_fields(summary.judged.as_ref());
    if !judged.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Judged on test samples"));
        let all: Vec<String> = judged.iter().map(|(name, value)| format!("{name} {value}")).collect();
        text.push_str(&wrap(&all.join(", "), "  ", "  "));
    }
    machine(&mut text, summary, paint);
    for line in
        [&summary.verdict, summary.problem.as_ref().unwrap_or(&String::new())].into_iter().filter(|l| !l.is_empty())
    {
        text.push('\n');
        text.push_str(&wrap(line, "", "  "));
    }
    if summary.skipped_lines > 0 {
        let _ = writeln!(
            text,
            "{} of its log could not be read and were left out",
            format_plural(summary.skipped_lines, "line")
        );
    }
    text
}

/// A table of metrics: now, and over the whole run.
fn metrics(text: &mut String, summary: &MonitorSummary, paint: Paint) {
    if summary.metrics.is_empty() {
        return;
    }
    let four_digits = |value: f64| format_number(value, 4);
    let row = |m: &report::MetricSummary| {
        let over = |of: fn(f64, f64) -> f64, at: usize| {
            m.points.iter().map(|p| p[at]).reduce(of).map_or("-".into(), four_digits)
        };
        vec![field_label(&m.name), m.last.map_or("-".into(), four_digits), over(f64::min, 2), over(f64::max, 3)]
    };
    let rows: Vec<Vec<String>> = summary.metrics.iter().map(row).collect();
    let _ = write!(text, "\n{}\n", paint.bold("Metrics, mean over members"));
    text.push_str(&table(&["metric", ">now", ">lowest", ">highest"], &rows, "  "));
}

fn machine(text: &mut String, summary: &MonitorSummary, paint: Paint) {
    let Some(sample) = &summary.machine else { return };
    let _ = write!(text, "\n{}\n", paint.bold("Machine"));
    let cores: Vec<String> = sample.cpu_percent.iter().map(|p| format!("{p:.0}")).collect();
    let load = sample.load_average.map_or(String::new(), |l| format!("; load {:.2} {:.2} {:.2}", l[0], l[1], l[2]));
    let all = format_plural(cores.len() as u64, "core");
    text.push_str(&wrap(
        &format!("CPU {:.0} % of {all} ({}){load}", sample.cpu_mean_percent(), cores.join(" ")),
        "  ",
        "    ",
    ));
    let process = sample.process_memory_bytes.map_or("unknown".into(), format_bytes);
    let _ = writeln!(
        text,
        "  memory: process {process}, used {}, free {}",
        format_bytes(sample.memory_used_bytes),
        format_bytes(sample.memory_available_bytes)
    );
    for card in &sample.gpus {
        let summary = [
            card.busy_percent.map(|p| format!("{p:.0} % busy")),
            card.memory_used_bytes
                .zip(card.memory_total_bytes)
                .map(|(used, all)| format!("{} of {}", format_bytes(used), format_bytes(all))),
            card.power_watts.map(|w| format!("{w:.0} W")),
            card.temperature_celsius.map(|t| format!("{t} °C")),
        ];
        let _ =
            writeln!(text, "  GPU {}: {}", card.index, summary.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    if sample.gpus.is_empty() {
        text.push_str("  GPU: none found (no NVIDIA card, or no NVML)\n");
    }
}

/// A place on the axis: counted, not rounded.
fn place(x: f64) -> String {
    format_count(x.max(0.0) as u64)
}
