//! The section about the training: the split, the curves, what was found of what was planted, and where the time went.

use crate::demo::Shown;
use crate::demo::training::{DemoTraining, Found, Verdict};
use crate::kinds::Measured;
use crate::kinds::classifier::record;
use crate::run_report::{SavedPhase, phase_table};
use crate::train::TrainRun;
use files::{format_count, format_fixed, format_short};
use judge::Judged;
use report::{Block, Cell, Column, Curve, Curves, Heat, Note, Section, SpanRow, Spans, Table, Tile, Tone};

/// The training on the planted market.
pub(super) fn section(shown: &Shown<'_>) -> Section {
    let t = &shown.figures.training;
    let (run, planted) = (&t.run, &shown.figures.planted);
    let judged = run.judged.as_ref().and_then(record);
    let mut blocks = Vec::new();
    match &t.found {
        Some(found) => {
            blocks.push(Block::Note(Note::new(tone(found.verdict), "", sentence(&found.words))));
            blocks.push(Block::Tiles(tiles(run, judged.as_ref(), found)));
        }
        None => {
            let words = run.folder.as_ref().map_or(String::new(), |folder| {
                format!("It was saved in {folder}; the same demo into the same folder resumes it.")
            });
            blocks.push(Block::Note(Note::new(Tone::Warn, "The training was stopped before its end.", words)));
        }
    }
    blocks.push(Block::Spans(split(shown)));
    blocks.push(Block::Row(vec![
        Block::Curves(curves(t, "Validation loss after each epoch", "cross-entropy", None, |c| &c.loss)),
        Block::Curves(curves(t, "Validation MCC after each epoch", "", Some(planted.best_mcc), |c| &c.mcc)),
    ]));
    if let (Some(found), Some(judged)) = (&t.found, &judged) {
        blocks.push(Block::Table(beside(found)));
        blocks.push(Block::Row(vec![Block::Table(confusion(judged)), Block::Heat(shares(judged))]));
    }
    blocks.push(Block::Table(members(run)));
    let phases: Vec<SavedPhase> = run.phases.iter().map(SavedPhase::from).collect();
    blocks.push(Block::Table(phase_table(format!("Where the time went, on {}", run.device), &phases)));
    if !run.verdict.is_empty() {
        blocks.push(Block::Note(Note::new(Tone::Plain, "", sentence(&run.verdict))));
    }
    Section {
        heading: "Training".into(),
        prose: format!(
            "A population of {} nets (`{}`, {} parameters each) learned from {} bars of four hours whether the next bar goes up or down. \
             The planted column knows this for {:.1} % of the bars, as little as a market may reveal; the other {} columns know nothing. \
             Each fold was trained on the bars before its validation, which chose its best epoch, and judged on the block after it, which \
             it had not seen; samples whose labels cross a border were left out, and the last part stays locked.\n\n\
             So the best possible result is known: a correlation of {:.2}. A learner that finds far less has missed something; one that finds \
             clearly more uses future data. The report of the run, beside this page, has its backtest and its verdict.",
            run.groups.iter().sum::<u64>(),
            run.net,
            format_count(run.parameters),
            format_count(run.samples),
            100.0 * planted.best_accuracy,
            run.columns.iter().sum::<u64>().saturating_sub(1),
            planted.best_mcc,
        ),
        blocks,
    }
}

/// The verdict as one key figure.
pub(super) fn tile(found: &Found) -> Tile {
    Tile::new("planted signal", format_fixed(100.0 * found.share, 0) + " %", "of the best possible")
        .tone(tone(found.verdict))
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Found => Tone::Good,
        Verdict::InPart | Verdict::NotFound => Tone::Warn,
        Verdict::TooGood => Tone::Bad,
    }
}

/// Words with a capital and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

fn tiles(run: &TrainRun, judged: Option<&Judged>, found: &Found) -> Vec<Tile> {
    let interval = judged.and_then(|j| j.mcc_interval.as_ref());
    let interval =
        interval.map_or("too few days for an interval".into(), |i| format!("95 %: {:.3} to {:.3}", i.low, i.high));
    vec![
        Tile::new("planted", format!("{:.3}", found.best_mcc), "MCC at best"),
        Tile::new("found", format!("{:.3}", found.mcc), interval).tone(tone(found.verdict)),
        Tile::new("share of the best", format!("{:.0}", 100.0 * found.share), "%"),
        Tile::new("by chance", format!("{:.4}", found.shifted.p), "p, predictions shifted"),
        Tile::new("accuracy", format!("{:.1}", 100.0 * found.accuracy), "% of the test bars"),
        Tile::new("trained in", format!("{:.0}", run.seconds), "s"),
        Tile::new("speed", format_short(run.samples_per_s.unwrap_or(0.0)), "samples/s"),
    ]
}

/// Which time each fold learns from, chooses by, and is judged on.
fn split(shown: &Shown<'_>) -> Spans {
    let run = &shown.figures.training.run;
    let at = |text: &str| files::time::parse(text.as_bytes(), files::time::Order::Ymd).map_or(0, |s| s.ns);
    let locked = run.holdout_from.as_ref().map(|from| (3, at(from), shown.signal.end.last().copied().unwrap_or(0)));
    let rows = run.folds.iter().map(|f| SpanRow {
        name: format!("fold {}", f.fold),
        parts: [
            (0, Some(&f.train_from), Some(&f.train_to)),
            (1, f.valid_from.as_ref(), f.valid_to.as_ref()),
            (2, f.test_from.as_ref(), f.test_to.as_ref()),
        ]
        .into_iter()
        .filter_map(|(kind, from, to)| Some((kind, at(from?), at(to?))))
        .chain(locked)
        .collect(),
        figure: format_count(f.train),
    });
    Spans {
        title: "Walk-forward folds; at the right, training samples".into(),
        kinds: ["training", "validation", "test", "locked"].map(String::from).to_vec(),
        rows: rows.collect(),
    }
}

fn curves(
    training: &DemoTraining,
    title: &str,
    unit: &str,
    best: Option<f64>,
    of: impl Fn(&crate::demo::training::MemberCurve) -> &Vec<f64>,
) -> Curves {
    let curve = |c: &crate::demo::training::MemberCurve| Curve {
        name: if c.seed > 1 { format!("fold {}, seed {}", c.fold, c.seed) } else { format!("fold {}", c.fold) },
        colour: (c.fold - 1) % 7,
        faint: false,
        x: c.epoch.clone(),
        y: of(c).clone(),
    };
    let mut series: Vec<Curve> = training.curves.iter().filter(|c| c.fold > 0).map(curve).collect();
    let last = training.curves.iter().filter_map(|c| c.epoch.last()).fold(1.0f64, |a, b| a.max(*b));
    if let Some(best) = best {
        series.push(Curve {
            name: "best possible".into(),
            colour: 7,
            faint: false,
            x: vec![1.0, last],
            y: vec![best; 2],
        });
    }
    Curves { title: title.into(), unit: unit.into(), axis: "epoch".into(), series }
}

/// What was found beside what needs no model.
fn beside(found: &Found) -> Table {
    let row = |what: &str, mcc: Option<f64>, accuracy: Option<f64>, means: String| {
        let number =
            |x: Option<f64>, text: &dyn Fn(f64) -> String| x.map_or(Cell::text("–"), |x| Cell::number(x, text(x)));
        vec![
            Cell::text(what),
            number(mcc, &|x| format!("{x:.4}")),
            number(accuracy, &|x| format!("{:.2} %", 100.0 * x)),
            Cell::text(means),
        ]
    };
    let s = &found.shifted;
    let rows = vec![
        row(
            "best possible",
            Some(found.best_mcc),
            Some((1.0 + found.best_mcc) / 2.0),
            "known from the generator".into(),
        ),
        row(
            "the planted column itself",
            Some(found.signal_mcc),
            None,
            "its sign as the prediction, on the same bars".into(),
        ),
        row(
            "the nets",
            Some(found.mcc),
            Some(found.accuracy),
            format!("the mean of a fold's members, on {} test bars", format_count(found.samples)),
        ),
        row(
            "the same predictions, shifted in time",
            Some(s.mean),
            None,
            format!("{} shifts; 95 % below {:.4}, p = {:.4}", s.draws, s.high, s.p),
        ),
        row("noise", Some(found.noise_mcc), None, "three standard deviations of chance over that many bars".into()),
        row("repeating the last label", found.persistence_mcc, None, "persistence".into()),
        row("always the most frequent class", Some(0.0), Some(found.majority_accuracy), "of training".into()),
    ];
    Table {
        title: "Result against baselines".into(),
        columns: vec![
            Column::text("prediction"),
            Column::number("MCC"),
            Column::number("accuracy"),
            Column::text("meaning"),
        ],
        rows,
    }
}

/// Classes that happen or are guessed.
fn classes(judged: &Judged) -> Vec<(usize, &'static str)> {
    let names = features::class::names(judged.confusion.len());
    let seen =
        |k: usize| judged.confusion[k].iter().sum::<u64>() + judged.confusion.iter().map(|r| r[k]).sum::<u64>() > 0;
    names.iter().enumerate().filter(|(k, _)| seen(*k)).map(|(k, name)| (k, *name)).collect()
}

fn confusion(judged: &Judged) -> Table {
    let classes = classes(judged);
    let mut columns = vec![Column::text("actual")];
    columns.extend(classes.iter().map(|(_, name)| Column::number(format!("predicted {name}"))));
    let rows = classes.iter().map(|(truth, name)| {
        let mut row = vec![Cell::text(*name)];
        row.extend(classes.iter().map(|(guess, _)| {
            let n = judged.confusion[*truth][*guess];
            Cell::number(n as f64, format_count(n))
        }));
        row
    });
    Table { title: "Test bars by actual and predicted class".into(), columns, rows: rows.collect() }
}

/// The same as shares of what happened.
fn shares(judged: &Judged) -> Heat {
    let classes = classes(judged);
    let names: Vec<String> = classes.iter().map(|(_, name)| (*name).to_string()).collect();
    let share = |truth: usize, guess: usize| {
        judged.confusion[truth][guess] as f64 / judged.confusion[truth].iter().sum::<u64>().max(1) as f64
    };
    let values = classes.iter().map(|(t, _)| classes.iter().map(|(g, _)| share(*t, *g)).collect()).collect();
    Heat { title: "Predictions as shares of the actual class".into(), names: (names.clone(), names), values }
}

fn members(run: &TrainRun) -> Table {
    let number = |m: &Measured| m.value.map_or(Cell::text("–"), |x| Cell::number(x, m.to_string()));
    let rows = run.members.iter().map(|m| {
        let mut row = vec![
            Cell::number(m.fold as f64, m.fold.to_string()),
            Cell::number(f64::from(m.seed), m.seed.to_string()),
            Cell::number(f64::from(m.units), m.units.to_string()),
            m.best_unit.map_or(Cell::text("–"), |e| Cell::number(f64::from(e), e.to_string())),
        ];
        row.extend(m.metrics.iter().map(number));
        row.push(Cell::text(&m.ended));
        row
    });
    let columns = ["fold", "seed", "epochs", "best epoch", "validation MCC", "test MCC"].map(Column::number);
    Table {
        title: "Members".into(),
        columns: columns.into_iter().chain([Column::text("ended by")]).collect(),
        rows: rows.collect(),
    }
}
