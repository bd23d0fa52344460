//! How far the work is, on standard error: a bar on a terminal, a plain line every five seconds elsewhere.

use crate::out::print_stderr_line;
use files::{format_bytes, format_count, format_seconds, format_short};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use jobs::Update;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Work shorter than this shows no plain line.
const PATIENCE: Duration = Duration::from_secs(2);
/// Plain lines come no faster than this.
const PACE: Duration = Duration::from_secs(5);

/// Draws updates.
pub(crate) struct Progress {
    display: Display,
    phase: &'static str,
    since: Instant,
    last: Option<Instant>,
    budget: Option<Duration>,
}

enum Display {
    Silent,
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    /// Nothing is drawn before the first update.
    pub(crate) fn new(quiet: bool) -> Progress {
        let display = if quiet {
            Display::Silent
        } else if std::io::stderr().is_terminal() {
            Display::Bar(ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(12)))
        } else {
            Display::Lines
        };
        Progress { display, phase: "", since: Instant::now(), last: None, budget: None }
    }

    /// The time that a training was fitted into: its bar shows how much of it is spent.
    pub(crate) fn set_budget(&mut self, budget: Option<Duration>) {
        self.budget = budget;
    }

    /// Takes one update.
    pub(crate) fn update(&mut self, update: Update) {
        let fresh = self.phase != update.phase;
        if fresh {
            self.phase = update.phase;
            self.since = Instant::now();
            self.last = None;
        }
        match &self.display {
            Display::Silent => {}
            Display::Bar(bar) => draw(bar, update, fresh, self.budget.filter(|_| update.phase == "training")),
            Display::Lines => self.line(update),
        }
    }

    /// A line above the bar, or among the plain ones.
    pub(crate) fn print_line(&self, text: &str) {
        match &self.display {
            Display::Silent => {}
            Display::Bar(bar) => bar.suspend(|| print_stderr_line(text)),
            Display::Lines => print_stderr_line(text),
        }
    }

    /// Wipes the bar, so that what is said next has the line to itself.
    pub(crate) fn clear(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }

    fn line(&mut self, update: Update) {
        let spent = self.since.elapsed();
        if spent < PATIENCE || self.last.is_some_and(|last| last.elapsed() < PACE) {
            return;
        }
        self.last = Some(Instant::now());
        print_stderr_line(&plain(update, spent));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn draw(bar: &ProgressBar, update: Update, fresh: bool, budget: Option<Duration>) {
    if fresh {
        let template = match (update.total, update.unit) {
            (0, _) => "{msg} {spinner} {elapsed}",
            (_, "bytes") => "{msg} {bar:32} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            _ if budget.is_some() => "{msg} {bar:20} {percent} %, {eta} left, {budget}",
            _ => "{msg} {bar:32} {human_pos} of {human_len}, {rate}/s, {eta} left",
        };
        // The templates are ours; a wrong one falls back to the plain bar.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let rate = |state: &ProgressState, text: &mut dyn Write| {
            let _ = text.write_str(&format_short(state.per_sec()));
        };
        let spent = move |state: &ProgressState, text: &mut dyn Write| {
            let [spent, most] =
                [state.elapsed(), budget.unwrap_or_default()].map(|time| format_seconds(time.as_secs_f64()));
            let _ = write!(text, "{spent} of the budget of {most}");
        };
        bar.set_style(style.with_key("rate", rate).with_key("budget", spent).progress_chars("━━─"));
        bar.reset();
        bar.set_message(update.phase);
    }
    if update.total > 0 {
        bar.set_length(update.total);
        bar.set_position(update.done);
    }
    bar.tick();
}

fn plain(update: Update, spent: Duration) -> String {
    let amount = |n: u64| match update.unit {
        "bytes" => format_bytes(n),
        "" => format_count(n),
        unit => format!("{} {unit}", format_count(n)),
    };
    let spent = spent.as_secs_f64();
    if update.total == 0 || update.done == 0 {
        return format!("{}: {} so far", update.phase, format_seconds(spent));
    }
    let rate = update.done as f64 / spent;
    let left = update.total.saturating_sub(update.done) as f64 / rate;
    // A rate below one a second says less than the time left does.
    let pace = if rate < 1.0 { String::new() } else { format!(" {}/s,", amount(rate as u64)) };
    format!(
        "{}: {:.0} %, {} of {},{pace} {} left",
        update.phase,
        100.0 * update.done as f64 / update.total as f64,
        amount(update.done),
        amount(update.total),
        format_seconds(left)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A terminal that keeps what is written.
    #[derive(Debug, Clone, Default)]
    struct Written(Arc<Mutex<String>>);

    impl TermLike for Written {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bar_shows_what_is_spent_of_the_budget_while_it_trains() {
        let shown = |phase, budget: Option<u64>| {
            let written = Written::default();
            let target = ProgressDrawTarget::term_like(Box::new(written.clone()));
            let mut progress = Progress::new(true);
            progress.display = Display::Bar(ProgressBar::with_draw_target(None, target));
            progress.set_budget(budget.map(Duration::from_secs));
            progress.update(Update { phase, done: 3, total: 12, unit: "samples" });
            drop(progress);
            written.0.lock().unwrap().clone()
        };
        let text = shown("training", Some(600));
        assert!(text.contains("25 %") && text.contains(" of the budget of 10 min"), "{text}");
        for text in [shown("training", None), shown("reading", Some(600))] {
            assert!(text.contains("3 of 12") && !text.contains("budget"), "{text}");
        }
    }

    #[test]
    fn plain_progress_shows_share_and_time_left() {
        let update = Update { phase: "reading", done: 500 << 20, total: 1 << 30, unit: "bytes" };
        assert_eq!(plain(update, Duration::from_secs(5)), "reading: 49 %, 500 MiB of 1.0 GiB, 100 MiB/s, 5.2 s left");
        let update = Update { phase: "timing", done: 3, total: 6, unit: "" };
        assert_eq!(plain(update, Duration::from_secs(6)), "timing: 50 %, 3 of 6, 6.0 s left");
        let update = Update { phase: "making", done: 0, total: 0, unit: "" };
        assert_eq!(plain(update, Duration::from_secs(5)), "making: 5.0 s so far");
    }
}
