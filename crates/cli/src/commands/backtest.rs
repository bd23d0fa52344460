//! `fullbore backtest`

use super::{Context, Outcome, narrow};
use crate::args::{Backtest as Args, Decides};
use crate::out::Paint;
use crate::show::{date, table, wrap};
use files::{Error, Kind, format_count, format_fixed, format_plural, format_seconds};
use jobs::{BacktestRequest, Backtested, Decisions, PolicyName};
use judge::backtest::{Backtest, Latency, Line, Part, format_decision};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let (data, decisions) = match args.decides {
        Decides { rule: Some(long), .. } => (args.run, Decisions::Rule { long, short: args.short }),
        Decides { policy: Some(name), .. } => (args.run, Decisions::Policy(policy(&name)?)),
        Decides { positions: Some(path), .. } => (args.run, Decisions::Positions(path)),
        Decides { .. } => (args.data.unwrap_or_default(), Decisions::Run(args.run.into())),
    };
    let select = narrow(data, args.how)?;
    let request = BacktestRequest { select, decisions, out: args.out, device: args.device };
    let progress = &mut context.progress;
    let tested = jobs::backtest(&request, &context.settings, &mut |u| progress.update(u))?;
    context.print(&tested, |paint| render(&tested, &request.decisions, paint))?;
    Ok(0)
}

fn policy(name: &str) -> Result<PolicyName, Error> {
    let known = PolicyName::NAMES.iter().find(|(own, _)| *own == name);
    known.map(|(_, policy)| *policy).ok_or_else(|| {
        let names: Vec<&str> = PolicyName::NAMES.iter().map(|(name, _)| *name).collect();
        let remedy = match jobs::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write {}", files::format_list(&names, "or")),
        };
        Error::new(Kind::Usage, format!("there is no policy `{name}`")).remedy(remedy)
    })
}

fn render(tested: &Backtested, decisions: &Decisions, paint: Paint) -> String {
    let mut text = format!("{}\n", paint.bold(&capital(&tested.decisions)));
    text.push_str(&wrap(&tested.instruments, "  ", "  "));
    let more = More { latency: tested.latency.as_ref(), baseline: None };
    figures(&mut text, &tested.backtest, more, paint);
    if let Some(locked) = &tested.locked_from {
        let open = match decisions {
            Decisions::Run(run) => format!("; `fullbore holdout {}` judges the run there, once", run.display()),
            _ => String::new(),
        };
        let held = format!("the holdout from {} on stays locked and was not looked at{open}", date(locked));
        text.push_str(&wrap(&held, "  ", "  "));
    }
    if let Some(trials) = tested.trials {
        let trials = format_plural(trials, "trial");
        let deflated = tested.deflated.map_or(String::new(), |found| {
            format!("; the deflated Sharpe ratio, which counts them, is {:.3} (0.95 is convincing)", found.probability)
        });
        text.push_str(&wrap(&format!("{trials} on these data so far, this one counted{deflated}"), "  ", "  "));
    }
    if let Some(chance) = &tested.chance {
        let line = format!(
            "chance earns as much in {:.1} % of {} draws ({})",
            100.0 * chance.p,
            format_count(chance.draws as u64),
            chance.how
        );
        text.push_str(&wrap(&line, "  ", "  "));
    }
    if !tested.notes.is_empty() {
        text.push('\n');
        tested.notes.iter().for_each(|note| text.push_str(&wrap(note, "  - ", "    ")));
    }
    let _ = write!(text, "\n{}  ({})\n", tested.folder, format_seconds(tested.seconds));
    text
}

/// The same in a few lines, below a training.
pub(super) fn summary(text: &mut String, b: &Backtest, more: More<'_>) {
    let net = &b.net;
    let number = |x: Option<f64>| x.map_or("-".to_string(), |x| format_fixed(x, 2));
    if b.costs.traded == 0.0 {
        let hold = percent(b.hold_return);
        text.push_str(&wrap(&format!("nothing was traded (buying and holding: {hold})"), "  ", "  "));
        beside(text, b, more);
        return;
    }
    let error = net.sharpe_annual_error.map_or(String::new(), |e| format!(" ± {}", format_fixed(e, 2)));
    let sharpe = number(net.sharpe_annual.or(net.sharpe_annual_uncorrected));
    for line in [
        format!(
            "return {} (gross {}; buying and holding {})",
            percent(net.total_return),
            percent(b.gross_return),
            percent(b.hold_return)
        ),
        format!("Sharpe ratio {sharpe}{error} (buying and holding {})", number(b.hold_sharpe_annual)),
        format!(
            "largest drawdown {}, {}, costs {} {}",
            percent(net.drawdown.depth),
            format_plural(net.round_trips.count as u64, "trade"),
            format_fixed(b.costs.total, 2),
            b.currency
        ),
        format!(
            "at twice the costs {}, one bar later {}",
            b.multiples.iter().find(|m| m.multiple == 2.0).map_or("-".into(), |m| percent(m.total_return)),
            percent(b.delayed.total_return)
        ),
    ] {
        text.push_str(&wrap(&line, "  ", "  "));
    }
    beside(text, b, more);
}

/// What is known of a searcher that a backtest does not hold, because no seed repeats it.
#[derive(Clone, Copy, Default)]
pub(super) struct More<'a> {
    pub(super) latency: Option<&'a Latency>,
    pub(super) baseline: Option<&'a Line>,
}

/// What a searcher stands beside, and how long decisions take.
fn beside(text: &mut String, b: &Backtest, More { latency, baseline }: More<'_>) {
    if b.lines.is_empty() {
        return;
    }
    let row = |line: &Line| {
        let mut row = vec![
            if line.knows_the_future { format!("{} (knows what comes)", line.name) } else { line.name.clone() },
            percent(line.total_return),
            line.sharpe_annual.map_or("-".into(), |x| format_fixed(x, 2)),
            format_count(line.trades as u64),
        ];
        if let Some(latency) = latency {
            let own = latency.of_line(&line.name);
            row.extend(own.map_or(["-".into(), "-".into(), "-".into()], |own| {
                [
                    format_decision(own.median_seconds),
                    format_decision(own.p99_seconds),
                    format!("{} %", format_fixed(100.0 * own.share_of_bar, 2)),
                ]
            }));
        }
        row
    };
    let rows: Vec<Vec<String>> = b.lines.iter().chain(baseline).map(row).collect();
    let heads = ["decided by", ">return", ">Sharpe", ">trades", ">a decision", ">99th percentile", ">of a bar"];
    text.push_str(&table(&heads[..if latency.is_some() { 7 } else { 4 }], &rows, "  "));
}

/// What a backtest earned, in figures.
pub(super) fn figures(text: &mut String, b: &Backtest, more: More<'_>, paint: Paint) {
    let net = &b.net;
    let _ = writeln!(
        text,
        "  {} to {}, {} of trading, {} steps",
        date(&b.from),
        date(&b.to),
        format_plural(net.days as u64, "day"),
        format_count(b.steps)
    );
    let number = |x: Option<f64>| x.map_or("-".to_string(), |x| format_fixed(x, 2));
    let percent = |x: Option<f64>| x.map_or("-".to_string(), percent);
    let sharpe = net.sharpe_annual.or(net.sharpe_annual_uncorrected);
    let error = net.sharpe_annual_error.map_or(String::new(), |e| format!(" ± {}", format_fixed(e, 2)));
    let _ = write!(text, "\n{}\n", paint.bold("Result, net of costs"));
    let bench = net.benchmark.as_ref();
    let trips = &net.round_trips;
    let interval = match (trips.hit_rate_low, trips.hit_rate_high) {
        (Some(low), Some(high)) => format!(" (95 %: {} to {})", self::percent(low), self::percent(high)),
        _ => String::new(),
    };
    let activity = net.activity.as_ref();
    let lines = [
        ("total return", format!("{} (gross {})", percent(Some(net.total_return)), percent(Some(b.gross_return)))),
        ("per year", percent(net.cagr)),
        ("Sharpe ratio", format!("{}{error} (buy and hold {})", number(sharpe), number(b.hold_sharpe_annual))),
        ("Sortino, Calmar", format!("{}, {}", number(net.sortino_annual), number(net.calmar))),
        ("largest drawdown", percent(Some(net.drawdown.depth))),
        ("buy and hold", percent(Some(b.hold_return))),
        (
            "against it",
            format!(
                "beta {}, alpha {} per year, information ratio {}",
                number(bench.and_then(|x| x.beta)),
                percent(bench.and_then(|x| x.alpha_annual)),
                number(bench.and_then(|x| x.information_ratio_annual))
            ),
        ),
        (
            "trades",
            format!(
                "{}, {} won{interval}, profit factor {}",
                format_count(trips.count as u64),
                percent(trips.hit_rate),
                number(trips.profit_factor)
            ),
        ),
        (
            "activity",
            format!(
                "invested {} in the mean, equity traded {} times a year",
                percent(activity.and_then(|a| a.exposure)),
                number(activity.and_then(|a| a.turnover_per_year))
            ),
        ),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:<17} {value}");
    }
    let _ = write!(text, "\n{}\n", paint.bold("Costs"));
    let c = &b.costs;
    let parts = [
        ("fee", c.fee),
        ("spread", c.spread),
        ("impact", c.impact),
        ("financing", c.financing),
        ("borrow", c.borrow),
        ("funding", c.funding),
        ("dividends", -c.dividends),
    ];
    let shown: Vec<String> = parts
        .iter()
        .filter(|(_, money)| money.abs() >= 0.005)
        .map(|(name, money)| format!("{name} {}", format_fixed(*money, 2)))
        .collect();
    let paid = format!("{} {}", shown.join(", "), b.currency);
    text.push_str(&wrap(if shown.is_empty() { "nothing was paid" } else { &paid }, "  ", "  "));
    let mut rows: Vec<Vec<String>> = b
        .multiples
        .iter()
        .map(|m| {
            vec![format!("{} times the costs", m.multiple), percent(Some(m.total_return)), number(m.sharpe_annual)]
        })
        .collect();
    rows.push(vec!["one bar later".into(), percent(Some(b.delayed.total_return)), number(b.delayed.sharpe_annual)]);
    text.push_str(&table(&["replayed at", ">return", ">Sharpe"], &rows, "  "));
    if let Some(side) = b.break_even_bp_per_side.filter(|_| !net.round_trips.count.eq(&0)) {
        let sentence = match side > 0.0 {
            true => format!("nothing would be left at {} bp a side", format_fixed(side, 2)),
            false => "it loses before any cost".to_string(),
        };
        let _ = writeln!(text, "  {sentence}");
    }
    if !b.lines.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Beside it"));
        beside(text, b, more);
    }
    parts_table(text, "Folds", "fold", &b.folds, paint);
    parts_table(text, "Years", "year", &b.years, paint);
    symbols(text, &b.symbols, paint);
    if !b.incidents.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Closed without a decision"));
        for kind in &b.incidents {
            let real = kind.if_real.filter(|real| real.abs() >= 0.005).map_or(String::new(), |real| {
                format!("; had the jumps been real: {} {}", format_fixed(real, 2), b.currency)
            });
            let _ = writeln!(text, "  {}: {} (first {}){real}", kind.what, kind.count, kind.first);
        }
    }
    text.push('\n');
}

fn parts_table(text: &mut String, title: &str, head: &str, parts: &[Part], paint: Paint) {
    if parts.len() < 2 {
        return;
    }
    let _ = write!(text, "\n{}\n", paint.bold(title));
    let row = |part: &Part| {
        vec![
            part.name.clone(),
            percent(part.total_return),
            part.sharpe_annual.map_or("-".into(), |x| format_fixed(x, 2)),
            format_count(part.days as u64),
            format_count(part.trades as u64),
        ]
    };
    let rows: Vec<Vec<String>> = parts.iter().map(row).collect();
    text.push_str(&table(&[head, ">return", ">Sharpe", ">days", ">trades"], &rows, "  "));
}

/// The best and the worst.
fn symbols(text: &mut String, parts: &[Part], paint: Paint) {
    const SHOWN: usize = 5;
    if parts.is_empty() {
        return;
    }
    let _ = write!(text, "\n{}\n", paint.bold("Symbols, by what they earned of the capital"));
    let row = |part: &Part| vec![part.name.clone(), percent(part.total_return), format_count(part.trades as u64)];
    let all = parts.len() <= 2 * SHOWN;
    let shown: Vec<&Part> =
        if all { parts.iter().collect() } else { parts[..SHOWN].iter().chain(&parts[parts.len() - SHOWN..]).collect() };
    let rows: Vec<Vec<String>> = shown.into_iter().map(row).collect();
    text.push_str(&table(&["symbol", ">earned", ">trades"], &rows, "  "));
    if !all {
        let _ = writeln!(text, "  and {} between them (--json shows all)", parts.len() - 2 * SHOWN);
    }
}

fn percent(x: f64) -> String {
    format!("{} %", format_fixed(100.0 * x, 2))
}

/// The first letter in upper case.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}
