//! `fullbore monitor`

use super::{Context, Outcome};
use crate::args::Monitor as Args;
use crate::fail::Failure;
use crate::out::{self, Paint};
use crate::show::{table, wrap};
use crate::terminal::{Press, Terminal};
use files::{Error, Kind, format_bytes, format_count, format_number, format_plural, format_seconds, format_short};
use jobs::Monitor;
use report::{View, WatchTold, draw, told};
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The folder and the machine are looked at this often.
const PACE: Duration = Duration::from_secs(1);
/// A signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(500);

pub(super) fn run(args: &Args, context: &mut Context) -> Outcome {
    let mut monitor = Monitor::open(args.run.as_deref())?;
    if !args.once && !context.json && Terminal::there_is() {
        return watch(&mut monitor);
    }
    monitor.settle();
    let told = told(monitor.watch());
    context.say(&told, |paint| words(&told, paint))?;
    Ok(0)
}

/// The dashboard, until the user leaves.
fn watch(monitor: &mut Monitor) -> Outcome {
    let fail = |e: std::io::Error| Failure::from(Error::new(Kind::Machine, format!("the terminal: {e}")));
    let stop = jobs::stop_flag();
    let mut terminal = Terminal::take().map_err(fail)?;
    let (color, unicode) = terminal.skills();
    let mut view = View { color, unicode, ..View::default() };
    let mut looked = Instant::now();
    let mut fresh = true;
    loop {
        if fresh {
            let (width, height) = terminal.size().map_err(fail)?;
            terminal.show(draw(monitor.watch(), &view, width, height)).map_err(fail)?;
        }
        let patience = PACE.saturating_sub(looked.elapsed()).min(NOTICE);
        let press = terminal.press(patience).map_err(fail)?;
        if stop.load(Ordering::Relaxed) {
            drop(terminal);
            return Err(Error::new(Kind::Interrupted, "left; the run goes on without us").into());
        }
        fresh = press.is_some();
        match press {
            Some(Press::Leave) => break,
            Some(Press::Right) => view.turn(1, monitor.watch()),
            Some(Press::Left) => view.turn(-1, monitor.watch()),
            Some(Press::Down) => view.walk(1, monitor.watch()),
            Some(Press::Up) => view.walk(-1, monitor.watch()),
            Some(Press::Pause) => view.paused = !view.paused,
            Some(Press::Help) => view.help = !view.help,
            Some(Press::Other) | None => {}
        }
        if looked.elapsed() >= PACE {
            looked = Instant::now();
            if !view.paused {
                monitor.look();
                fresh = true;
            }
        }
    }
    drop(terminal);
    out::say(&farewell(&told(monitor.watch())))?;
    Ok(0)
}

/// What stays on the user's own screen.
fn farewell(told: &WatchTold) -> String {
    let at = format!("{} {}", told.axis, place(told.at));
    match &*told.state {
        "running" => format!("{} goes on ({at}); `fullbore monitor {}` watches again\n", told.name, told.folder),
        "interrupted" | "crashed" => format!("{} is {}: {}\n", told.name, told.state, told.says),
        state => format!("{} is {state} ({at})\n", told.name),
    }
}

fn words(told: &WatchTold, paint: Paint) -> String {
    let says = if told.says.is_empty() { String::new() } else { format!(" ({})", told.says) };
    let mut text = format!("{}\n", paint.bold(&told.name));
    text.push_str(&wrap(&format!("{}{says}", told.state), "  ", "  "));
    let on: Vec<&str> = [told.net.as_deref(), told.device.as_deref()].into_iter().flatten().collect();
    if !on.is_empty() {
        text.push_str(&wrap(&on.join(" on "), "  ", "  "));
    }
    let end = told.last.map_or(String::new(), |last| format!(" of {}", place(last)));
    let done = told.done_percent.map_or(String::new(), |p| format!(", {p:.0} %"));
    let spent = told.elapsed_seconds.map_or(String::new(), |s| match told.ended {
        Some(_) => format!(", took {}", format_seconds(s)),
        None => format!(", {} so far", format_seconds(s)),
    });
    let left = told.left_seconds.map_or(String::new(), |s| format!(", at most {} left", format_seconds(s)));
    let _ = writeln!(text, "  {} {}{end}{done}{spent}{left}", told.axis, place(told.at));
    let ended =
        if told.members_ended > 0 { format!(", {} ended", format_count(told.members_ended)) } else { String::new() };
    let rates: String = told
        .rates
        .iter()
        .filter_map(|(name, v)| Some(format!(", {} {}", format_short(v.as_f64()?), per(name))))
        .collect();
    let _ = writeln!(text, "  {}{ended}{rates}", format_plural(told.members, "member"));
    if let Some(best) = &told.best {
        let _ = writeln!(
            text,
            "  best so far: {} {:.4}, {}, {} {}",
            per(&best.metric),
            best.value,
            best.member,
            told.axis,
            place(best.at)
        );
    }
    if !told.phases.is_empty() {
        let phase = |p: &report::PhaseTold| {
            format!("{} {}{}", p.name, format_seconds(p.seconds), if p.running { " and on" } else { "" })
        };
        text.push_str(&wrap(&told.phases.iter().map(phase).collect::<Vec<_>>().join(", "), "  phases: ", "    "));
    }
    metrics(&mut text, told, paint);
    if let Some(judged) = told.judged.as_ref().and_then(|j| j.as_object()) {
        let _ = write!(text, "\n{}\n", paint.bold("Judged on test samples"));
        let all =
            judged.iter().filter_map(|(name, v)| Some(format!("{} {}", per(name), format_number(v.as_f64()?, 4))));
        text.push_str(&wrap(&all.collect::<Vec<_>>().join(", "), "  ", "  "));
    }
    machine(&mut text, told, paint);
    for line in [&told.verdict, told.problem.as_ref().unwrap_or(&String::new())].into_iter().filter(|l| !l.is_empty()) {
        text.push('\n');
        text.push_str(&wrap(line, "", "  "));
    }
    if told.skipped_lines > 0 {
        let _ =
            writeln!(text, "{} of its log are no rows and were left out", format_plural(told.skipped_lines, "line"));
    }
    text
}

/// A table of metrics: now, and over the whole run.
fn metrics(text: &mut String, told: &WatchTold, paint: Paint) {
    if told.metrics.is_empty() {
        return;
    }
    let row = |m: &report::MetricTold| {
        let over =
            |of: fn(f64, f64) -> f64, at: usize| m.points.iter().map(|p| p[at]).reduce(of).map_or("-".into(), figure);
        vec![per(&m.name), m.last.map_or("-".into(), figure), over(f64::min, 2), over(f64::max, 3)]
    };
    let rows: Vec<Vec<String>> = told.metrics.iter().map(row).collect();
    let _ = write!(text, "\n{}\n", paint.bold("Metrics, mean over members"));
    text.push_str(&table(&["metric", ">now", ">lowest", ">highest"], &rows, "  "));
}

fn machine(text: &mut String, told: &WatchTold, paint: Paint) {
    let Some(sample) = &told.machine else { return };
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
        "  memory: {process} of the process, {} taken, {} free",
        format_bytes(sample.memory_used_bytes),
        format_bytes(sample.memory_available_bytes)
    );
    for card in &sample.gpus {
        let told = [
            card.busy_percent.map(|p| format!("{p:.0} % busy")),
            card.memory_used_bytes
                .zip(card.memory_total_bytes)
                .map(|(used, all)| format!("{} of {}", format_bytes(used), format_bytes(all))),
            card.power_watts.map(|w| format!("{w:.0} W")),
            card.temperature_celsius.map(|t| format!("{t} °C")),
        ];
        let _ = writeln!(text, "  GPU {}: {}", card.index, told.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    if sample.gpus.is_empty() {
        text.push_str("  GPU: none seen (no NVIDIA card, or no NVML)\n");
    }
}

/// `samples/s` for `samples_per_s`, `valid mcc` for `valid_mcc`.
fn per(name: &str) -> String {
    name.replace("_per_s", "/s").replace('_', " ")
}

/// A place on the axis: counted, not rounded.
fn place(x: f64) -> String {
    format_count(x.max(0.0) as u64)
}
