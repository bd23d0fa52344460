//! Fixed states of a run, painted in several sizes; and what is made of rows nobody here has heard of.

use super::log_state::{COUNTED, METRICS};
use super::*;
use crate::{Run, RunState, RunStatus};
use files::Holder;
use machine::GpuSample;
use serde_json::{Map, json};
use std::path::PathBuf;

const BEGAN: i64 = 1_763_200_000_000_000_000; // 2025-11-15T09:46:40Z

fn row(seconds: f64, kind: &str, fields: Value) -> Row {
    let fields: Map<String, Value> = fields.as_object().cloned().unwrap_or_default();
    Row { time: files::time::rfc3339(BEGAN + (seconds * 1e9) as i64), kind: kind.into(), fields }
}

/// The rows of a training of two folds and two seeds, 60 of 200 epochs done, one member ended.
fn rows() -> Vec<Row> {
    let mut rows = vec![
        row(
            3.0,
            "started",
            json!({"net": "fast:16x50-lstm64 + slow:12x24-lstm24 + strategy:9 / 32 / way:3", "device": "cpu (2 threads, AVX2)",
            "pid": 4242, "axis": "epoch", "last": 200, "members": 4, "worth": "valid_mcc", "patience": 50}),
        ),
        row(3.0, "phase", json!({"name": "read", "seconds": 1.0})),
        row(3.0, "phase", json!({"name": "features", "seconds": 2.0})),
        row(3.0, "phase", json!({"name": "train"})),
        row(3.0, "group", json!({"group": 1, "of": 1, "members": 4, "memory_bytes": 1000, "ways": "f32"})),
    ];
    let mut best = [f64::MIN; 4];
    for epoch in 1..=60 {
        for member in 0..4u32 {
            if member == 2 && epoch > 40 {
                continue;
            }
            let (x, apart) = (f64::from(epoch), f64::from(member) * 0.01);
            let mcc = 0.25 * (1.0 - (-x / 20.0).exp()) - 0.0008 * (x - 30.0).max(0.0) + apart + 0.01 * (x * 0.9).sin();
            let better = mcc > best[member as usize];
            best[member as usize] = best[member as usize].max(mcc);
            rows.push(row(3.0 + 2.0 * x, "epoch", json!({
                "member": member, "fold": member / 2 + 1, "seed": member % 2 + 1, "epoch": epoch, "step": epoch * 10,
                "train_loss": 0.7 + 0.4 * (-x / 15.0).exp() + apart, "valid_loss": 0.85 + 0.25 * (-x / 10.0).exp() + apart,
                "valid_mcc": mcc, "norm": 1.0 / x, "best": better, "samples_per_s": 81_200.0,
            })));
            if member == 2 && epoch == 40 {
                rows.push(row(3.0 + 2.0 * x, "ended", json!({"member": 2, "why": "patience"})));
            }
        }
        if epoch % 5 == 0 {
            rows.push(row(3.0 + 2.0 * f64::from(epoch), "machine", json!({"cpu_percent": 93, "gpu_percent": null})));
        }
    }
    rows
}

fn summary(standing: RunStatus, state: RunState) -> RunSummary {
    let mut run = Run { started: files::time::rfc3339(BEGAN), members: 4, device: "cpu".into(), ..Run::begin("train") };
    if state != RunState::Running {
        run.state = state;
        run.ended = Some(files::time::rfc3339(BEGAN + 130_000_000_000));
    }
    RunSummary {
        name: "gold-lstm-2026-11-15".into(),
        folder: PathBuf::from("runs/gold-lstm-2026-11-15"),
        run: Some(run),
        status: standing,
    }
}

fn sample(at: u32, gpus: Vec<GpuSample>) -> Sample {
    Sample {
        at_seconds: f64::from(at),
        cpu_percent: vec![97.0, 50.0 + (at % 40) as f32],
        load_average: Some([1.92, 1.2, 0.81]),
        memory_used_bytes: 3_200_000_000,
        memory_available_bytes: 13_200_000_000,
        process_memory_bytes: Some(512_300_000),
        gpus,
    }
}

fn card() -> GpuSample {
    GpuSample {
        index: 0,
        busy_percent: Some(93.0),
        memory_busy_percent: Some(40.0),
        memory_used_bytes: Some(12_100_000_000),
        memory_total_bytes: Some(150_000_000_000),
        power_watts: Some(421.3),
        clock_mhz: None,
        memory_clock_mhz: None,
        temperature_celsius: Some(61),
    }
}

fn running(gpus: Vec<GpuSample>) -> MonitorState {
    let holder = Holder { pid: 4242, since: "2025-11-15T09:46:40Z".into(), ..Holder::default() };
    let mut monitor = MonitorState {
        run: Some(summary(RunStatus::Running(holder), RunState::Running)),
        now: BEGAN + 124_000_000_000,
        on_this_machine: true,
        ..MonitorState::default()
    };
    rows().iter().for_each(|row| monitor.add_row(Some(row)));
    (1..=120).for_each(|at| monitor.add_sample(sample(at, gpus.clone())));
    monitor
}

fn finished() -> MonitorState {
    let mut monitor = running(Vec::new());
    monitor.run = Some(summary(RunStatus::Finished, RunState::Finished));
    monitor.now = BEGAN + 9_000_000_000_000;
    let phases = json!([{"name": "read", "seconds": 1.0}, {"name": "features", "seconds": 2.0}, {"name": "setup", "seconds": 0.5},
        {"name": "train", "seconds": 100.0}, {"name": "validate", "seconds": 20.0}, {"name": "save", "seconds": 0.1},
        {"name": "judge", "seconds": 6.4}]);
    let end = json!({"test_mcc": 0.2131, "seconds": 130.0, "verdict": "77 % of the time went into `train`; 1.9 of 2 cores busy",
        "phases": phases});
    monitor.add_row(Some(&row(130.0, "finished", end)));
    monitor.result = Some(
        json!({"judged": {"samples": 48_211, "mcc": 0.2131, "mcc_interval": {"low": 0.19, "high": 0.24, "draws": 1000},
        "directional_mcc": null, "accuracy": 0.4712, "macro_f1": 0.4455, "log_loss": 1.0213, "confusion": [[1, 2], [3, 4]]}}),
    );
    monitor
}

fn view() -> View {
    View { color: true, unicode: true, ..View::default() }
}

fn shown(monitor: &MonitorState, view: &View, width: usize, height: usize) -> String {
    let text = draw_monitor(monitor, view, width, height).text();
    assert_eq!(text.lines().count(), height);
    assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
    text
}

#[test]
fn a_running_one_in_several_sizes() {
    let monitor = running(vec![card()]);
    for (width, height) in [(100, 30), (150, 40), (79, 24), (50, 15), (40, 12), (24, 5)] {
        insta::assert_snapshot!(format!("running_{width}x{height}"), shown(&monitor, &view(), width, height));
    }
}

#[test]
fn without_a_card_without_colours_and_without_unicode() {
    let plain = View { color: false, unicode: false, ..View::default() };
    let text = shown(&running(Vec::new()), &plain, 100, 30);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
    for (width, height) in [(40, 12), (150, 45)] {
        assert!(shown(&finished(), &plain, width, height).is_ascii());
    }
}

#[test]
fn finished_crashed_interrupted_gone_and_new() {
    insta::assert_snapshot!("finished", shown(&finished(), &view(), 100, 30));
    let mut monitor = running(Vec::new());
    monitor.run = Some(summary(RunStatus::Crashed, RunState::Running));
    let text = shown(&monitor, &view(), 100, 30);
    assert!(
        text.contains("crashed: no process works on it: resume with `fullbore runs resume runs/gold-lstm-2026-11-15`")
    );
    assert_eq!((monitor.seconds_left(), monitor.elapsed_seconds()), (None, Some(123.0)), "until its last row");
    insta::assert_snapshot!("crashed", text);
    monitor.gone = true;
    let text = shown(&monitor, &view(), 100, 30);
    assert!(text.contains("gone: the folder runs/gold-lstm-2026-11-15 is no longer there"), "{text}");
    monitor = MonitorState {
        run: Some(summary(RunStatus::Running(Holder::default()), RunState::Running)),
        now: BEGAN,
        on_this_machine: true,
        ..MonitorState::default()
    };
    insta::assert_snapshot!("new", shown(&monitor, &view(), 100, 30));
    monitor.on_this_machine = false;
    assert!(shown(&monitor, &view(), 100, 30).contains("on another machine"));
    insta::assert_snapshot!("help", shown(&monitor, &View { help: true, ..view() }, 80, 24));
}

#[test]
fn keys_select_members_and_charts() {
    let monitor = running(Vec::new());
    let mut view = view();
    let mut names = Vec::new();
    for _ in 0..7 {
        names.push(monitor.selection_name(&view.selection));
        view.move_selection(1, &monitor);
    }
    let expected =
        ["all 4 members", "fold 1", "fold 1 seed 1", "fold 1 seed 2", "fold 2", "fold 2 seed 1", "fold 2 seed 2"];
    assert_eq!((names, &view.selection), (expected.map(String::from).to_vec(), &Selection::All), "and around");
    view.move_selection(-2, &monitor);
    assert_eq!(view.selection, Selection::Member(2));
    let charts: Vec<String> = monitor.charts().into_iter().map(|c| c.name).collect();
    assert_eq!(charts, ["mcc", "loss", "norm", "samples_per_s"]);
    view.next_chart(-1, &monitor);
    view.next_chart(-1, &monitor);
    assert_eq!(view.chart, 2);
    insta::assert_snapshot!("one_member", shown(&monitor, &View { paused: true, ..view }, 100, 30));
}

#[test]
fn any_size_and_state_can_be_drawn() {
    let mut many = running(vec![card(); 8]);
    many.samples.back_mut().expect("one").cpu_percent = vec![42.0; 192];
    let states = [running(vec![card()]), finished(), many, MonitorState::default()];
    for monitor in &states {
        for width in (0..60).chain((60..260).step_by(13)) {
            for height in (0..34).chain([50, 90]) {
                for view in [
                    view(),
                    View { selection: Selection::Member(99), chart: 17, help: height % 2 == 0, ..View::default() },
                ] {
                    draw_monitor(monitor, &view, width, height);
                }
            }
        }
    }
}

#[test]
fn run_summary_fields() {
    let summary = summarise(&running(vec![card()]));
    assert_eq!(
        (summary.state.as_str(), summary.at, summary.last, summary.members, summary.members_ended),
        ("running", 60.0, Some(200.0), 4, 1)
    );
    // Three members have 140 places left each, at three places in two seconds.
    assert!(summary.left_seconds.is_some_and(|s| (200.0..300.0).contains(&s)), "{:?}", summary.left_seconds);
    assert_eq!(summary.done_percent, Some(100.0 * (3.0 * 60.0 + 200.0) / 800.0));
    let best = summary.best.as_ref().expect("a best");
    assert_eq!((best.member.as_str(), best.metric.as_str()), ("fold 2 seed 2", "valid_mcc"));
    let phases: Vec<(&str, f64, bool)> =
        summary.phases.iter().map(|p| (p.name.as_str(), p.seconds, p.running)).collect();
    assert_eq!(phases, [("read", 1.0, false), ("features", 2.0, false), ("train", 121.0, true)]);
    assert_eq!(summary.verdict, "CPU: 1.7 of 2 cores busy");
    let after = super::summarise(&finished());
    assert_eq!((after.left_seconds, after.machine.is_some(), after.elapsed_seconds), (None, false, Some(130.0)));
    assert!(after.verdict.starts_with("77 %") && after.judged.is_some() && after.phases.len() == 7);
}

#[test]
fn rows_of_an_unknown_learner_are_shown() {
    let mut monitor = MonitorState {
        run: Some(summary(RunStatus::Running(Holder::default()), RunState::Running)),
        ..MonitorState::default()
    };
    monitor.add_row(Some(&row(
        0.0,
        "started",
        json!({"net": "actor 64", "axis": "update", "last": 100, "members": 2}),
    )));
    for update in 1..=30u32 {
        for member in 0..2u32 {
            let fields = json!({"member": member, "update": update, "timestep": update * 2048, "reward": f64::from(update * (member + 1)),
                "entropy": 1.0 / f64::from(update), "steps_per_s": 1e6, "note": "text", "worst": null});
            monitor.add_row(Some(&row(f64::from(update), "update", fields)));
        }
    }
    let charts: Vec<String> = monitor.charts().into_iter().map(|c| c.name).collect();
    assert_eq!(charts, ["reward", "entropy", "steps_per_s"]);
    assert_eq!(
        (monitor.score_metric(), monitor.axis(), monitor.best_member(&[0, 1])),
        (Some("reward"), "update", Some(1))
    );
    assert_eq!(monitor.members()[&1].best, Some((30.0, 60.0)), "no row said so; the value does");
    let text = shown(&monitor, &view(), 100, 30);
    for part in ["update 30 of 100", "reward", "entropy", "1,000,000 steps/s", "member 2", "60.00 at 30"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn current_values_include_members_without_a_curve() {
    let mut monitor = running(Vec::new());
    monitor.add_row(None);
    for epoch in 1..=2u32 {
        for member in 0..300u32 {
            let y = f64::from(epoch) + if member >= 200 { 3.0 } else { 0.0 };
            let fields = json!({"member": member, "fold": 1, "seed": member + 1, "epoch": epoch, "valid_loss": y});
            monitor.add_row(Some(&row(f64::from(epoch), "epoch", fields)));
        }
    }
    let loss = monitor.metrics().iter().find(|m| m.name == "valid_loss").expect("a metric");
    assert_eq!((loss.last(&[299]), loss.last(&monitor.member_ids(&Selection::All))), (Some(5.0), Some(3.0)));
    assert!(
        loss.curve(&Selection::Member(5)).is_some() && loss.curve(&Selection::Member(299)).is_none(),
        "curves stay few"
    );
}

#[test]
fn a_hostile_log_takes_bounded_memory_and_breaks_nothing() {
    let mut monitor = running(Vec::new());
    for i in 0..20_000u32 {
        let mut fields = Map::new();
        fields.insert("member".into(), (f64::from(i) * 1e300).into());
        fields.insert("fold".into(), i.into());
        fields.insert("epoch".into(), (if i % 3 == 0 { -1.0 } else { 1e18 }).into());
        fields.insert(format!("metric {i}\u{1b}[2J"), 1e308.into());
        monitor.add_row(Some(&Row { time: "nonsense".into(), kind: "epoch".into(), fields }));
        monitor.add_row(Some(&row(f64::from(i), "phase", json!({"name": format!("p{i}"), "seconds": -5.0}))));
    }
    assert!(monitor.members().len() <= COUNTED && monitor.metrics().len() <= METRICS && monitor.log.phases.len() <= 64);
    assert!(!shown(&monitor, &view(), 100, 30).contains('\u{1b}'));
    monitor.add_row(None);
    assert!(monitor.members().is_empty() && monitor.metrics().is_empty());
}

#[test]
fn a_policys_entropy_is_drawn_with_its_band() {
    let run = Some(summary(RunStatus::Finished, RunState::Finished));
    let mut monitor = MonitorState { run, now: BEGAN, ..MonitorState::default() };
    let begun = json!({"axis": "update", "last": 9, "members": 1, "worth": "valid_growth"});
    let seen = |at: u32| {
        row(
            f64::from(at),
            "update",
            json!({
                "member": 0, "fold": 1, "seed": 1, "update": at, "valid_growth": 0.1, "train_growth": 0.2, "entropy": 0.5,
                "least_entropy": 0.2, "most_entropy": 0.8, "approx_kl": 0.01, "policy_loss": 0.3,
            }),
        )
    };
    let rows = [row(0.0, "started", begun)].into_iter().chain((1..5).map(seen));
    rows.for_each(|row| monitor.add_row(Some(&row)));
    let charts: Vec<(String, Vec<String>)> = monitor
        .charts()
        .iter()
        .map(|c| (c.name.clone(), c.metrics.iter().map(|i| monitor.metrics()[*i].name.clone()).collect()))
        .collect();
    let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["growth", "entropy", "policy_loss", "approx_kl"]);
    assert_eq!(charts[1].1, ["least_entropy", "most_entropy", "entropy"]);
}
