//! `fullbore train`

use super::features::point_at_mistake;
use super::{Context, Outcome, select};
use crate::args::Train as Args;
use crate::out::Paint;
use crate::show::{date, differing, table, wrap};
use files::{Error, Kind, format_bytes, format_count, format_fixed, format_plural, format_seconds, format_short};
use jobs::{SplitKind, Train, TrainRun};
use std::fmt::Write;
use std::time::Duration;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let request = Train {
        select: select(args.what.source)?,
        set: None,
        out: args.out,
        device: args.what.device,
        dry_run: args.dry_run,
        budget: args.budget.as_deref().map(duration).transpose()?,
        resume: false,
        release_holdout: args.release_holdout,
    };
    context.progress.set_budget(request.budget);
    let settings = context.settings.clone();
    let run = jobs::train(&request, &settings, &mut |event| context.report(event))
        .map_err(|e| point_at_mistake(e, &settings.features.or(""), context.json))?;
    print_run(&run, context)
}

/// The result, and 130 where the run was stopped.
pub(super) fn print_run(run: &TrainRun, context: &Context) -> Outcome {
    let plan = if context.planned { String::new() } else { plan(run, Paint::stdout()) };
    context.print(run, |paint| plan + &result(run, paint))?;
    Ok(if run.interrupted { 130 } else { 0 })
}

/// `90s`, `10m`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, Error> {
    let wrong = || Error::new(Kind::Usage, format!("--budget: `{text}` is not a time")).remedy("write 90s, 10m or 2h");
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let seconds = number * unit;
    if seconds.is_finite() && (1.0..=1e7).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(wrong())
    }
}

/// What will be done: data, net, labels, costs, members, time, folds.
pub(super) fn plan(run: &TrainRun, paint: Paint) -> String {
    let mut text = format!("{}  {} parameters\n", paint.bold(&run.net), format_count(run.parameters));
    text.push_str(&wrap(&format!("on {}", run.device), "  ", "  "));
    text.push_str(&wrap(&run.data, "  ", "  "));
    let names = features::class::names(run.balance.len());
    let balance: Vec<String> =
        run.balance.iter().zip(names).map(|(share, name)| format!("{:.1} % {name}", 100.0 * share)).collect();
    let label = run.label.as_ref().map_or(String::new(), |l| format!(", labels {}", l.rule));
    let balance = if balance.is_empty() { String::new() } else { format!(": {}", balance.join(", ")) };
    let _ = writeln!(text, "  {}{label}{balance}", format_plural(run.samples, "sample"));
    if let Some(instruments) = &run.instruments {
        text.push_str(&wrap(instruments, "  ", "  "));
    }
    let groups = if run.groups.len() > 1 {
        format!(" in {}", format_plural(run.groups.len() as u64, "group"))
    } else {
        String::new()
    };
    let parts = match run.parts {
        1 => String::new(),
        parts => format!(" in {parts} parts of {}", format_count(run.batch.div_ceil(parts))),
    };
    let several = run.configs.len() > 1;
    let sizes: Vec<f64> = run.configs.iter().map(|c| c.batch as f64).collect();
    let what = if run.units.name == "generation" { "population" } else { "batches" };
    let batches = match (least(&sizes), most(&sizes)) {
        (Some(least), Some(most)) if least < most => {
            format!("{} to {}", format_count(least as u64), format_count(most as u64))
        }
        _ => format_count(run.batch),
    };
    let _ = writeln!(
        text,
        "  {} × {}{} = {}{groups}, {what} of {}{parts}, {:?}, {} on the device",
        format_plural(run.folds.len() as u64, "fold"),
        format_plural(run.seeds, "seed"),
        if several { format!(" × {}", format_plural(run.configs.len() as u64, "config")) } else { String::new() },
        format_plural(run.groups.iter().sum(), "member"),
        batches,
        run.precision,
        format_bytes(run.memory_bytes)
    );
    let rates: Vec<f64> = run.configs.iter().map(|c| c.rate).collect();
    let rate = match (least(&rates), most(&rates)) {
        (Some(least), Some(most)) if least < most => format!("rates {least:.2e} to {most:.2e}"),
        _ => format!("rate {:.2e}", run.rate),
    };
    let unit = run.units.name;
    let units = format_plural(run.units.most, unit);
    match &run.refit {
        Some(_) => {
            let _ = writeln!(text, "  {units}, the median of the best ones of the run that was judged, {rate}");
        }
        None => {
            let _ = writeln!(text, "  at most {units}, patience {}, {rate}", run.patience);
        }
    }
    if run.trains_baseline {
        text.push_str("  then PPO with the same net, folds and seeds for as long, as a run of its own\n");
    }
    if let Some(estimate) = run.estimate_seconds {
        let both = if run.trains_baseline { " and PPO" } else { "" };
        let _ = writeln!(text, "  at most {} for all {unit}s{both}", format_seconds(estimate));
    }
    if let Some(refit) = &run.refit {
        on_everything(&mut text, run, refit, paint);
        return text;
    }
    let title = match run.split {
        SplitKind::Walk | SplitKind::Rolling => "Walk forward",
        SplitKind::KFold => "Purged k-fold: training around each test, to judge the recipe only",
        SplitKind::Cpcv => "Combinatorial purged folds: training around each test, to judge the recipe only",
    };
    let _ = write!(text, "\n{}\n", paint.bold(title));
    run.picture.lines().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
    let rows: Vec<Vec<String>> = run
        .folds
        .iter()
        .map(|f| {
            let counts = [f.train, f.valid, f.test, f.purged].map(format_count);
            let day = |time: &Option<String>| time.as_deref().map_or("-".into(), date);
            [vec![f.fold.to_string()], counts.to_vec(), vec![day(&f.test_from), day(&f.test_to)]].concat()
        })
        .collect();
    let heads = [">fold", ">train", ">valid", ">test", ">purged", "test from", "last label known"];
    let _ = write!(text, "\n{}", table(&heads, &rows, "  "));
    if let Some(from) = &run.holdout_from {
        let _ = writeln!(text, "  holdout, locked: everything from {} on", date(from));
    }
    if several {
        configs(&mut text, run, false, paint);
    }
    text
}

/// What came out.
fn result(run: &TrainRun, paint: Paint) -> String {
    let mut text = String::new();
    let several = run.configs.len() > 1;
    if several && run.judged.is_some() {
        configs(&mut text, run, true, paint);
    }
    if !run.members.is_empty() && run.refit.is_none() {
        members(&mut text, run, paint);
    }
    if let Some(j) = &run.judged {
        // Policies are judged one by one here, and together by the backtest below.
        let heading = if run.learner.counted() == "steps" {
            "Judged on test blocks, each member alone"
        } else if several {
            "Judged on test samples: the chosen config of each fold, averaged over its members"
        } else {
            "Judged on test samples, averaged over the members of each fold"
        };
        let _ = write!(text, "\n{}\n", paint.bold(heading));
        j.sentences.iter().for_each(|sentence| text.push_str(&wrap(sentence, "  ", "  ")));
    }
    if let Some(record) = &run.paths {
        paths(&mut text, record, paint);
    }
    if let Some(backtest) = &run.backtest {
        let _ = write!(text, "\n{}\n", paint.bold("Backtest over the test blocks, net of costs"));
        let baseline = run.baseline.as_ref().map(|own| &own.line);
        let more = super::backtest::More { latency: run.latency.as_ref(), baseline };
        super::backtest::summary(&mut text, backtest, more);
    }
    if !run.importance.is_empty() {
        importance(&mut text, run, paint);
    }
    if let Some(evidence) = &run.evidence {
        let _ = write!(text, "\n{}\n", paint.bold("Verdict"));
        super::evidence::render(&mut text, evidence, paint);
    }
    phases(&mut text, run, paint);
    end(&mut text, run, paint);
    text
}

/// Paths through folds that train around their tests, and how their Sharpe ratios are spread.
fn paths(text: &mut String, record: &jobs::PathsRecord, paint: Paint) {
    let count = format_plural(record.paths.len() as u64, "path");
    let _ = write!(text, "\n{}\n", paint.bold(&format!("{count} through all of the time, net of costs")));
    let number = |x: Option<f64>| x.map_or("-".to_string(), |x| format_fixed(x, 2));
    let row = |path: &jobs::PathRecord| {
        let percent = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{} %", format_fixed(100.0 * x, 2)));
        vec![
            path.path.to_string(),
            path.mcc.map_or("-".into(), |x| format_fixed(x, 4)),
            percent(path.total_return),
            number(path.sharpe),
            number(path.sharpe_2x),
            percent(path.drawdown),
            path.trades.map_or("-".into(), format_count),
        ]
    };
    let rows: Vec<Vec<String>> = record.paths.iter().take(32).map(row).collect();
    let heads = [">path", ">MCC", ">return", ">Sharpe", ">at twice the costs", ">drawdown", ">trades"];
    text.push_str(&table(&heads, &rows, "  "));
    if let (Some(least), Some(most), true) = (record.sharpe_least, record.sharpe_most, record.paths.len() > 1) {
        let (mean, deviation) = (number(record.sharpe_mean), number(record.sharpe_deviation));
        let below = format_fixed(100.0 * record.share_not_above_zero.unwrap_or(0.0), 0);
        let [least, most] = [least, most].map(|x| format_fixed(x, 2));
        let spread = format!(
            "Sharpe ratios from {least} to {most}, mean {mean}, deviation {deviation}; {below} % of the paths are not \
             above 0"
        );
        text.push_str(&wrap(&spread, "  ", "  "));
    }
    let judged = "No model comes out of these folds: a walk forward on the same data makes one.";
    text.push_str(&wrap(judged, "  ", "  "));
}

/// A refit: what it learns from, and who judged its recipe.
fn on_everything(text: &mut String, run: &TrainRun, refit: &jobs::Refit, paint: Paint) {
    let _ = write!(text, "\n{}\n", paint.bold("Everything is training; the model is not judged itself"));
    if let Some(fold) = run.folds.first() {
        let (n, from, to) = (format_plural(fold.train, "sample"), date(&fold.train_from), date(&fold.train_to));
        text.push_str(&wrap(&format!("{n} from {from}, the last label known {to}"), "  ", "  "));
    }
    if let Some(from) = &run.holdout_from {
        let held = format!(
            "the holdout from {} on is left out, since nobody has opened it (`fullbore holdout {}`)",
            date(from),
            refit.run
        );
        text.push_str(&wrap(&held, "  ", "  "));
    }
    text.push_str(&wrap(&format!("its recipe was judged by {}", refit.run), "  ", "  "));
}

/// What is worth knowing of data and plan, so far.
pub(super) fn notes(run: &TrainRun, paint: Paint) -> String {
    let mut text = String::new();
    if !run.notes.is_empty() {
        let _ = write!(text, "\n{}\n", paint.bold("Notes"));
        run.notes.iter().for_each(|note| text.push_str(&wrap(note, "  - ", "    ")));
    }
    text
}

/// Notes, and where the run is.
fn end(text: &mut String, run: &TrainRun, paint: Paint) {
    text.push_str(&notes(run, paint));
    match (&run.folder, run.interrupted) {
        (Some(folder), true) => {
            let _ =
                write!(text, "\n{}; resume with\n  fullbore runs resume {folder}\n", paint.yellow("stopped and saved"));
        }
        (Some(folder), false) => {
            let _ = writeln!(text, "\n{folder}");
            if let Some(page) = &run.report {
                let _ = writeln!(text, "{page}");
            }
        }
        (None, _) => {}
    }
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// A line for each config: what it is and, once they are judged, what validation says and where it was taken.
fn configs(text: &mut String, run: &TrainRun, judged: bool, paint: Paint) {
    let _ = write!(text, "\n{}\n", paint.bold(if judged { "Configs" } else { "Configs to try" }));
    let row = |c: &jobs::ConfigRow| {
        let folds: Vec<String> = c.chosen.iter().map(usize::to_string).collect();
        let mut row = vec![c.config.to_string(), c.what.clone()];
        row.extend(c.metrics.iter().map(ToString::to_string));
        row.push(folds.join(", "));
        row
    };
    let mut rows: Vec<Vec<String>> = run.configs.iter().take(32).map(row).collect();
    let what = differing(&rows.iter().map(|row| row[1].clone()).collect::<Vec<_>>());
    rows.iter_mut().zip(what).for_each(|(row, what)| row[1] = what);
    let metrics = run.configs.first().map_or(&[][..], |c| &c.metrics);
    let heads = [&[">config".to_string(), "what".into()], &heads(metrics)[..], &["chosen in folds".into()]].concat();
    let shown = if judged { heads.len() } else { 2 };
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row[..shown].to_vec()).collect();
    text.push_str(&table(&heads[..shown], &rows, "  "));
    if run.configs.len() > rows.len() {
        let _ = writeln!(text, "  and {} more (--json shows all)", run.configs.len() - rows.len());
    }
    if judged {
        text.push_str(&wrap(
            "Each fold uses the config with the best validation score over that fold and those before it. The test column is what one config \
             would have scored in every fold; choosing by it would be overfitting to the test data.",
            "  ",
            "  ",
        ));
    }
}

/// The heads of metrics' columns.
fn heads(metrics: &[jobs::Measured]) -> Vec<String> {
    metrics.iter().map(|m| format!(">{}", m.metric.head())).collect()
}

fn members(text: &mut String, run: &TrainRun, paint: Paint) {
    let _ = write!(text, "\n{}\n", paint.bold("Members"));
    let several = run.configs.len() > 1;
    let row = |m: &jobs::MemberRow| {
        let mut row = if several { vec![m.config.to_string()] } else { Vec::new() };
        row.extend([
            m.fold.to_string(),
            m.seed.to_string(),
            format_count(u64::from(m.units)),
            m.best_unit.map_or("-".into(), |e| e.to_string()),
        ]);
        row.extend(m.metrics.iter().map(ToString::to_string));
        row.extend(m.deployed.map(String::from));
        row.push(m.ended.clone());
        row
    };
    let rows: Vec<Vec<String>> = run.members.iter().take(32).map(row).collect();
    let first = [">config", ">fold", ">seed", &format!(">{}s", run.units.name), ">best"].map(String::from);
    let metrics = run.members.first().map_or(&[][..], |m| &m.metrics);
    let deployed = run.members.iter().any(|m| m.deployed.is_some()).then(|| "deployed".to_string());
    let last: Vec<String> = deployed.into_iter().chain(["ended by".into()]).collect();
    let heads = [&first[usize::from(!several)..], &heads(metrics), &last].concat();
    text.push_str(&table(&heads, &rows, "  "));
    if run.members.len() > rows.len() {
        let _ = writeln!(text, "  and {} more (--json shows all)", run.members.len() - rows.len());
    }
}

/// The columns that are worth most, beside their noise.
fn importance(text: &mut String, run: &TrainRun, paint: Paint) {
    const SHOWN: usize = 8;
    let mut columns: Vec<&jobs::ColumnImportance> = run.importance.iter().collect();
    columns.sort_by(|a, b| b.log_loss_added.total_cmp(&a.log_loss_added));
    let told = columns.iter().filter(|c| c.log_loss_added > 2.0 * c.error).count();
    let heading = format!(
        "Columns, by what is lost where one is shuffled ({told} of {} above twice their error)",
        format_plural(columns.len() as u64, "column")
    );
    let _ = write!(text, "\n{}\n", paint.bold(&heading));
    let row = |c: &&jobs::ColumnImportance| {
        vec![
            c.column.clone(),
            c.input.clone(),
            format!("{:+.5}", c.log_loss_added),
            format!("{:.5}", c.error),
            format!("{:+.4}", c.direction_lost),
        ]
    };
    let rows: Vec<Vec<String>> = columns.iter().take(SHOWN).map(row).collect();
    text.push_str(&table(&["column", "input", ">log-loss", ">error", ">direction lost"], &rows, "  "));
}

fn phases(text: &mut String, run: &TrainRun, paint: Paint) {
    if run.phases.is_empty() {
        return;
    }
    let _ = write!(text, "\n{}\n", paint.bold("Where the time went"));
    let percent = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.0} %"));
    let row = |p: &jobs::Phase| {
        vec![
            p.name.to_string(),
            format_seconds(p.seconds),
            percent(p.cpu_percent),
            percent(p.gpu_percent),
            p.memory_bytes.map_or("-".into(), format_bytes),
            p.gpu_memory_bytes.map_or("-".into(), format_bytes),
        ]
    };
    let rows: Vec<Vec<String>> = run.phases.iter().map(row).collect();
    text.push_str(&table(&["phase", ">time", ">CPU", ">GPU", ">memory", ">on the card"], &rows, "  "));
    if let Some(rate) = run.samples_per_s {
        let _ = writeln!(text, "  {} {}/s in training", format_short(rate), run.learner.counted());
    }
    if !run.verdict.is_empty() {
        text.push_str(&wrap(&run.verdict, "  ", "  "));
    }
}
