//! Splits against brute force, against planted mistakes, and at the edges (docs/method.md, Splits).

use super::around::plan_around;
use super::purge::{Rule, purge_by};
use super::walk::plan_splits;
use super::*;
use features::Samples;
use files::Kind;
use proptest::prelude::*;
use std::collections::BTreeSet;

const DAY: i64 = 86_400_000_000_000;

/// Samples from (t0, t1); only times matter here.
fn samples(times: &[(i64, i64)]) -> Samples {
    let n = times.len();
    Samples {
        rows: (0..n as u32).collect(),
        t0: times.iter().map(|t| t.0).collect(),
        t1: times.iter().map(|t| t.1).collect(),
        class: vec![0; n],
        weight: vec![1.0; n],
    }
}

/// `n` ticks `step` apart, each with `symbols` samples whose labels take `horizon` ticks.
fn regular(n: usize, step: i64, symbols: usize, horizon: i64) -> (Samples, Vec<i64>) {
    let ticks: Vec<i64> = (0..n as i64).map(|i| i * step).collect();
    let times: Vec<_> = ticks.iter().flat_map(|t| vec![(*t, *t + horizon * step); symbols]).collect();
    (samples(&times), ticks)
}

/// Ticks with holes, up to three samples on each, labels of any length.
fn market() -> impl Strategy<Value = (Samples, Vec<i64>)> {
    let tick = (1i64..12, prop::collection::vec(0i64..30, 0..4));
    prop::collection::vec(tick, 0..90).prop_map(|ticks| {
        let (mut now, mut clock, mut times) = (-100, Vec::new(), Vec::new());
        for (gap, labels) in ticks {
            now += gap;
            clock.push(now);
            times.extend(labels.into_iter().map(|length| (now, now + length)));
        }
        (samples(&times), clock)
    })
}

fn specs() -> impl Strategy<Value = WalkForward> {
    let embargo = prop_oneof![Just(0), 0usize..12, Just(usize::MAX)];
    let rolling = prop_oneof![Just(None), (2usize..60).prop_map(Some)];
    let holdout = prop_oneof![Just(0.0), 0.02f64..0.4];
    (1usize..7, 0.1f64..0.9, 0.1f64..0.6, rolling, embargo, holdout).prop_map(
        |(folds, tested, validation, rolling, embargo, holdout)| WalkForward {
            folds,
            tested,
            validation,
            rolling,
            // Without a holdout an embargo is refused.
            embargo: if holdout == 0.0 { 0 } else { embargo },
            holdout,
            test_days: None,
            held: Held::default(),
        },
    )
}

/// Whether a label and a block have a moment in common, by trying every moment.
fn touches(it: (i64, i64), block: &[(i64, i64)]) -> bool {
    let from = block.iter().map(|b| b.0).min().unwrap();
    let to = block.iter().map(|b| b.1).max().unwrap();
    (from..=to).any(|moment| it.0 <= moment && moment <= it.1)
}

type Parts = (Vec<[Vec<u32>; 3]>, Vec<u32>);

/// The same split by definition: every sample asked about every border, one at a time. `None` where a part is empty.
fn by_definition(samples: &Samples, ticks: &[i64], spec: &WalkForward) -> Option<Parts> {
    let n = samples.len();
    let time = |i: u32| (samples.t0[i as usize], samples.t1[i as usize]);
    let tick = |i: u32| ticks.iter().position(|t| *t == time(i).0).unwrap();
    let all: Vec<u32> = (0..n as u32).collect();
    let (begin, end) = (tick(*all.first()?), tick(*all.last()?) + 1);
    let mut work = end;
    let mut held = Vec::new();
    if spec.holdout > 0.0 {
        let mut from = end;
        while ((end - from) as f64) < spec.holdout * (end - begin) as f64 - 1e-9 {
            from -= 1;
        }
        held = all.iter().copied().filter(|i| tick(*i) >= from).collect();
        work = from.checked_sub(spec.embargo)?;
    }
    if work <= begin || spec.holdout > 0.0 && held.is_empty() {
        return None;
    }
    let free = |i: &u32| spec.holdout == 0.0 || time(*i).1 < ticks[work];
    let tested = ((work - begin) as f64 * spec.tested).round() as usize;
    if tested < spec.folds {
        return None;
    }
    let mut folds = Vec::new();
    for k in 0..spec.folds {
        let border = |k: usize| work - tested + tested * k / spec.folds;
        let from = spec.rolling.map_or(begin, |r| begin.max(border(k).saturating_sub(r)));
        let mut valid_from = border(k);
        while ((border(k) - valid_from) as f64) < spec.validation * (border(k) - from) as f64 - 1e-9 {
            valid_from -= 1;
        }
        let part = |a: usize, b: usize| all.iter().copied().filter(move |i| a <= tick(*i) && tick(*i) < b).filter(free);
        let test: Vec<u32> = part(border(k), border(k + 1)).collect();
        let clear = |i: &u32, block: &[u32]| {
            let block: Vec<_> = block.iter().map(|b| time(*b)).collect();
            !touches(time(*i), &block)
        };
        if test.is_empty() {
            return None;
        }
        let valid: Vec<u32> = part(valid_from, border(k)).filter(|i| clear(i, &test)).collect();
        if valid.is_empty() {
            return None;
        }
        let train: Vec<u32> = part(from, valid_from).filter(|i| clear(i, &valid) && clear(i, &test)).collect();
        if train.is_empty() {
            return None;
        }
        folds.push([train, valid, test]);
    }
    Some((folds, held))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn splits_match_brute_force((samples, ticks) in market(), spec in specs()) {
        let made = walk_forward(&samples, &ticks, &spec);
        let Some((folds, held)) = by_definition(&samples, &ticks, &spec) else {
            let error = made.unwrap_err();
            prop_assert!(error.kind == Kind::Input && error.remedy.is_some() && error.message.contains("bars"), "{error}");
            return Ok(());
        };
        let made = made.unwrap();
        let parts: Vec<_> = made.folds.iter().map(|f| [f.train.clone(), f.valid.clone(), f.test.clone()]).collect();
        prop_assert_eq!(parts, folds);
        prop_assert_eq!(made.holdout.as_ref().map_or(&[][..], |h| &h.samples), &held[..]);
        for fold in &made.folds {
            prop_assert_eq!(fold.embargoed, 0);
            // Every tick lies on one side.
            let of = |part: &[u32]| part.iter().map(|i| samples.t0[*i as usize]).collect::<BTreeSet<_>>();
            let (train, valid, test) = (of(&fold.train), of(&fold.valid), of(&fold.test));
            prop_assert!(train.is_disjoint(&valid) && valid.is_disjoint(&test) && train.is_disjoint(&test));
        }
        let json = serde_json::to_string(&made).unwrap();
        prop_assert_eq!(serde_json::from_str::<Splits>(&json).unwrap(), made.clone());
        let _ = made.picture(&samples, &ticks, 40, false);
    }

    #[test]
    fn purge_matches_brute_force((samples, ticks) in market(), at in 0.0f64..1.0, size in 1usize..20, embargo in 0usize..9) {
        let n = samples.len();
        prop_assume!(n > 0);
        let from = (at * n as f64) as usize;
        let block: Vec<u32> = (from as u32..(from + size).min(n) as u32).collect();
        let others: Vec<u32> = (0..n as u32).filter(|i| !block.contains(i)).collect();
        let left = purge(&samples, &others, Block::of(&samples, &block).unwrap(), &ticks, embargo);
        prop_assert_eq!(left, purged_by_definition(&samples, &ticks, &block, &others, embargo));
    }
}

fn purged_by_definition(samples: &Samples, ticks: &[i64], block: &[u32], others: &[u32], embargo: usize) -> Purged {
    let time = |i: &u32| (samples.t0[*i as usize], samples.t1[*i as usize]);
    let times: Vec<_> = block.iter().map(time).collect();
    let until = times.iter().map(|t| t.1).max().unwrap();
    let mut left = Purged::default();
    for i in others {
        // Under embargo: at most so many ticks lie after the block up to and with this one.
        let after = ticks.iter().filter(|t| until < **t && **t <= time(i).0).count();
        match () {
            () if touches(time(i), &times) => left.purged += 1,
            () if (1..=embargo).contains(&after) => left.embargoed += 1,
            () => left.kept.push(*i),
        }
    }
    left
}

/// Purges with a mistake each; those that only move a border which another condition holds as well are no mistakes.
const MISTAKES: [Rule; 6] = [
    |t0, t1, b| b.from <= t0 && t0 < b.to || b.from <= t1 && t1 <= b.to || t0 <= b.from && b.to <= t1,
    |t0, t1, b| b.from <= t0 && t0 <= b.to || b.from < t1 && t1 <= b.to || t0 <= b.from && b.to <= t1,
    |t0, t1, b| b.from <= t1 && t1 <= b.to || t0 <= b.from && b.to <= t1,
    |t0, t1, b| b.from <= t0 && t0 <= b.to || t0 <= b.from && b.to <= t1,
    |t0, t1, b| b.from <= t0 && t0 <= b.to || b.from <= t1 && t1 <= b.to || t0 < b.from && b.to + 1 < t1,
    |_, _, _| false,
];

#[test]
fn brute_force_detects_every_wrong_purge() {
    let (first, last) = (20, 40);
    let ticks: Vec<i64> = (0..60).collect();
    let times: Vec<(i64, i64)> = ticks.iter().flat_map(|t0| (0..45).map(move |length| (*t0, *t0 + length))).collect();
    let mut all = times.clone();
    let block = vec![all.len() as u32];
    all.push((first, last));
    let samples = samples(&all);
    let others: Vec<u32> = (0..times.len() as u32).collect();
    let right = purged_by_definition(&samples, &ticks, &block, &others, 3);
    let reach = Block::of(&samples, &block).unwrap();
    assert_eq!(purge(&samples, &others, reach, &ticks, 3), right);
    for (which, rule) in MISTAKES.into_iter().enumerate() {
        assert_ne!(purge_by(rule, &samples, &others, reach, &ticks, 3), right, "mistake {which}");
    }
    for embargo in [2, 4] {
        assert_ne!(purge(&samples, &others, reach, &ticks, embargo), right, "embargo {embargo}");
    }
}

#[test]
fn check_catches_a_wrong_purge_in_walk_forward() {
    // Labels end exactly on ticks: the last label of training ends when validation begins, unless it is purged.
    let (samples, ticks) = regular(400, 10, 2, 3);
    let days = vec![0; ticks.len()];
    for holdout in [0.0, 0.15] {
        let spec = WalkForward { folds: 4, holdout, ..WalkForward::default() };
        assert!(check(&samples, &ticks, &plan_splits(&samples, &ticks, &days, &spec, overlaps).unwrap()).is_ok());
        // Off by one at the border that matters, the condition for it left out, no purge at all.
        for which in [1, 3, 5] {
            let wrong = plan_splits(&samples, &ticks, &days, &spec, MISTAKES[which]).unwrap();
            let error = check(&samples, &ticks, &wrong).unwrap_err();
            assert!(error.message.contains("reaches into"), "{which}: {error}");
        }
    }
}

#[test]
fn check_catches_moved_samples() {
    let (samples, ticks) = regular(400, 10, 3, 3);
    let spec = WalkForward { folds: 4, ..WalkForward::default() };
    let right = walk_forward(&samples, &ticks, &spec).unwrap();
    type Move = fn(&mut Splits);
    let moves: [(&str, Move); 11] = [
        ("a sample of the same moment goes to training", |s| {
            let first = s.folds[1].valid.remove(0);
            s.folds[1].train.push(first);
        }),
        ("one sample more than the purge allows", |s| {
            let next = s.folds[0].train.last().unwrap() + 1;
            s.folds[0].train.push(next);
        }),
        ("one more in validation", |s| {
            let next = s.folds[2].valid.last().unwrap() + 1;
            s.folds[2].valid.push(next);
        }),
        ("training is empty", |s| s.folds[0].train.clear()),
        ("not in order", |s| s.folds[0].train.swap(0, 1)),
        ("twice", |s| {
            let first = s.folds[0].test[0];
            s.folds[0].test.insert(0, first);
        }),
        ("beyond the samples", |s| s.folds[3].test.push(1_000_000)),
        ("another number", |s| s.folds[2].number = 7),
        ("test blocks touch", |s| {
            let next = s.folds[1].test[0];
            s.folds[0].test.push(next);
        }),
        ("a longer embargo was promised", |s| s.embargo += 1),
        ("the holdout begins a tick earlier", |s| {
            let held = &mut s.holdout.as_mut().unwrap().samples;
            let first = held[0];
            held.splice(0..0, first - 3..first);
        }),
    ];
    assert!(check(&samples, &ticks, &right).is_ok());
    for (what, wrong) in moves {
        let mut splits = right.clone();
        wrong(&mut splits);
        // Spans made to fit, so that it is the promise that is broken.
        for fold in &mut splits.folds {
            if let Some(span) = Block::of(&samples, &fold.train).and_then(Block::span) {
                fold.spans.train = span;
            }
            fold.spans.valid = Block::of(&samples, &fold.valid).and_then(Block::span).unwrap();
            fold.test.retain(|at| (*at as usize) < samples.len() || what == "beyond the samples");
            if what != "beyond the samples" {
                fold.spans.test = Block::of(&samples, &fold.test).and_then(Block::span).unwrap();
            }
        }
        if let Some(holdout) = &mut splits.holdout {
            holdout.span = Block::of(&samples, &holdout.samples).and_then(Block::span).unwrap();
        }
        let error = check(&samples, &ticks, &splits).expect_err(what);
        assert_eq!(error.kind, Kind::State, "{what}");
        assert_ne!(
            splits.id(),
            if what.contains("number") || what.contains("promised") { 0 } else { right.id() },
            "{what}"
        );
    }
    let mut spans = right.clone();
    spans.folds[0].spans.test = spans.folds[0].spans.valid;
    assert!(check(&samples, &ticks, &spans).is_err());
}

#[test]
fn default_folds_match_the_documented_spans() {
    let (samples, ticks) = regular(10_000, 300_000_000_000, 1, 12);
    let spec = WalkForward::default();
    let splits = walk_forward(&samples, &ticks, &spec).unwrap();
    let held = splits.holdout.as_ref().unwrap();
    // 15 % of 10,000, of which 12 labels before it reach into it; the purge is all that lies between.
    assert_eq!((splits.embargo, held.samples[0], held.samples.len()), (0, 8500, 1500));
    assert_eq!((held.purged, held.embargoed), (12, 0));
    // 8,500 ticks of work, the last 5,100 of them tested in eight blocks; the last 12 labels of the last block reach
    // the holdout.
    assert_eq!(splits.folds.len(), 8);
    assert_eq!(splits.folds.iter().map(|f| f.test.len()).sum::<usize>(), 5100 - 12);
    assert_eq!(splits.folds[0].test[0], 3400);
    for fold in &splits.folds {
        let test = fold.test[0];
        let valid = test - (f64::from(test) * 0.15).ceil() as u32;
        assert_eq!((fold.train[0], *fold.train.last().unwrap()), (0, valid - 13));
        assert_eq!((fold.valid[0], *fold.valid.last().unwrap()), (valid, test - 13));
        assert_eq!((fold.purged, fold.embargoed), (24, 0));
    }
    assert_eq!(splits.id(), walk_forward(&samples, &ticks, &spec).unwrap().id());
    assert_eq!(format!("{:016x}", splits.id()), "63fb4e4536c19968");
}

#[test]
fn rolling_history_has_its_length() {
    let (samples, ticks) = regular(1000, 10, 1, 1);
    let spec = WalkForward { rolling: Some(100), holdout: 0.0, ..WalkForward::default() };
    for fold in walk_forward(&samples, &ticks, &spec).unwrap().folds {
        assert_eq!((fold.test[0] - fold.train[0], fold.valid.len(), fold.train.len()), (100, 14, 84));
    }
}

#[test]
fn daily_bars_hold_out_a_year() {
    let held = |years: i64, per_day: i64| {
        let (samples, ticks) = regular((years * 365 * per_day) as usize, DAY / per_day, 1, 1);
        let spec = WalkForward { folds: 5, ..WalkForward::default() };
        walk_forward(&samples, &ticks, &spec).unwrap().holdout.unwrap().samples.len() as i64
    };
    assert_eq!(held(5, 1), 365);
    assert_eq!(held(5, 2), 730, "two closes a day");
    assert_eq!(held(10, 1), 548, "15 % are more than a year");
    assert_eq!(held(3, 1), 165, "a year would leave two");
    assert_eq!(held(5, 3), 822, "not daily");
}

#[test]
fn test_days_are_one_fold_before_the_holdout() {
    let (samples, ticks) = regular(24 * 100, DAY / 24, 1, 2);
    for (holdout, last) in [(0.0, 2400), (0.15, 2400 - 360)] {
        let spec = WalkForward { test_days: Some(5), holdout, ..WalkForward::default() };
        let splits = walk_forward(&samples, &ticks, &spec).unwrap();
        assert_eq!(splits.folds.len(), 1);
        let test = &splits.folds[0].test;
        // A tick at midnight ends the day before; tick 0 is alone in its day.
        let from = last - (last - 1) % 24 - if (last - 1) % 24 == 0 { 24 } else { 0 } - 4 * 24;
        assert_eq!(test[0], from as u32, "{holdout}");
        assert_eq!(*test.last().unwrap() as usize, if holdout > 0.0 { last - 3 } else { last - 1 });
    }
    let spec = WalkForward { test_days: Some(500), ..WalkForward::default() };
    assert!(walk_forward(&samples, &ticks, &spec).unwrap_err().message.contains("fewer than 500 days"));
    // Days on which nothing has settled do not count: 20 of them lie before the holdout here.
    let spec = WalkForward { test_days: Some(5), ..WalkForward::default() };
    let (mut gap, from) = (samples.clone(), ticks[2040]);
    let kept: Vec<usize> = (0..gap.len()).filter(|at| gap.t0[*at] < from - 20 * DAY || gap.t0[*at] >= from).collect();
    gap.rows = kept.iter().map(|at| samples.rows[*at]).collect();
    gap.t0 = kept.iter().map(|at| samples.t0[*at]).collect();
    gap.t1 = kept.iter().map(|at| samples.t1[*at]).collect();
    let test = walk_forward(&gap, &ticks, &spec).unwrap().folds.remove(0).test;
    let tested: std::collections::BTreeSet<i64> = test.iter().map(|at| (gap.t0[*at as usize] - 1) / DAY).collect();
    assert_eq!(tested.len(), 5);
    assert!(test.iter().all(|at| gap.t0[*at as usize] < from - 20 * DAY));
    // The days of a session that turns elsewhere.
    let days: Vec<i32> = (0..2400).map(|i| i / 30).collect();
    let spec = WalkForward { test_days: Some(2), holdout: 0.0, ..WalkForward::default() };
    assert_eq!(walk_forward_on(&samples, &ticks, &days, &spec).unwrap().folds[0].test.len(), 60);
    assert!(walk_forward_on(&samples, &ticks, &days[1..], &spec).is_err());
}

#[test]
fn the_length_an_error_names_is_enough() {
    for (folds, horizon, embargo, holdout) in [(8, 1, 0, 0.15), (5, 12, 50, 0.15), (20, 3, 0, 0.0)] {
        let spec = WalkForward { folds, embargo, holdout, ..WalkForward::default() };
        let (samples, ticks) = regular(10, 10, 1, horizon);
        let message = walk_forward(&samples, &ticks, &spec).unwrap_err().message;
        let needed: usize = message.rsplit("about ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
        // The labels of ten ticks end at the tenth; their real length is known only from more.
        let (samples, ticks) = regular(needed + 2 * horizon as usize, 10, 1, horizon);
        let message = walk_forward(&samples, &ticks, &spec).err().map(|e| e.message).unwrap_or("about 0 bars".into());
        let needed = needed.max(message.rsplit("about ").next().unwrap().split(' ').next().unwrap().parse().unwrap());
        let (samples, ticks) = regular(needed + needed / 10 + 2, 10, 1, horizon);
        assert!(walk_forward(&samples, &ticks, &spec).is_ok(), "{folds} folds, {needed} ticks");
        assert!(needed < 40 * (folds + 12 * horizon as usize) + 100, "{needed} is not an estimate");
    }
}

#[test]
fn invalid_splits_are_refused() {
    let (good, ticks) = regular(300, 10, 1, 1);
    let settings: [fn(&mut WalkForward); 10] = [
        |w| (w.holdout, w.embargo) = (0.0, 1),
        |w| w.folds = 0,
        |w| w.folds = usize::MAX,
        |w| w.tested = 0.0,
        |w| w.tested = f64::NAN,
        |w| w.validation = 1.0,
        |w| w.holdout = -0.1,
        |w| w.holdout = f64::INFINITY,
        |w| w.rolling = Some(1),
        |w| w.test_days = Some(0),
    ];
    for (which, change) in settings.into_iter().enumerate() {
        let mut spec = WalkForward::default();
        change(&mut spec);
        assert!(walk_forward(&good, &ticks, &spec).unwrap_err().remedy.is_some(), "{which}");
    }
    let spec = WalkForward { holdout: 0.0, ..WalkForward::default() };
    assert!(walk_forward(&good, &ticks, &spec).is_ok());
    let spec = WalkForward::default();
    assert!(walk_forward(&good, &ticks, &spec).is_ok());
    type Change = fn(&mut Samples, &mut Vec<i64>);
    let worlds: [(&str, Change); 6] = [
        ("not the end of a bar", |s, _| s.t0[299] = i64::MAX),
        ("before its row", |s, _| s.t1[7] = s.t0[7] - 1),
        ("order", |s, _| s.t0[5] = s.t0[3]),
        ("t1", |s, _| s.t1.truncate(299)),
        ("rise", |_, t| t[5] = t[4]),
        ("not the end of a bar", |_, t| t.truncate(299)),
    ];
    for (what, change) in worlds {
        let (mut samples, mut ticks) = (good.clone(), ticks.clone());
        change(&mut samples, &mut ticks);
        if what == "not the end of a bar" && ticks.len() == 300 {
            samples.t1[299] = i64::MAX;
        }
        let error = walk_forward(&samples, &ticks, &spec).unwrap_err();
        assert!(error.message.contains(what), "{what}: {error}");
    }
    // A label that never ends is purged from everything but a test without a holdout.
    let mut endless = good.clone();
    endless.t1[3] = i64::MAX;
    let splits = walk_forward(&endless, &ticks, &spec).unwrap();
    assert!(splits.folds.iter().all(|fold| !fold.train.contains(&3)));
}

#[test]
fn the_picture_of_a_split_shows_its_spans() {
    let (samples, ticks) = regular(400, 10, 2, 3);
    let spec = WalkForward { folds: 2, ..WalkForward::default() };
    let splits = walk_forward(&samples, &ticks, &spec).unwrap();
    let drawn = "\
fold 1  ███████████▒▒▓▓▓▓▓▓▓▓▓▓▓··········╳╳╳╳╳╳  train 224  valid 36  test 204
fold 2  ████████████████████▒▒▒▓▓▓▓▓▓▓▓▓▓▓╳╳╳╳╳╳  train 398  valid 66  test 198
        █ training  ▒ validation  ▓ test  ░ purged  · unused  ╳ holdout, locked (120 samples)
";
    assert_eq!(splits.picture(&samples, &ticks, 40, false), drawn);
    let plain = ['█', '▒', '▓', '░', '·', '╳'].into_iter().zip(["#", "v", "T", "-", ".", "X"]);
    let plain = plain.fold(drawn.to_string(), |text, (sign, letter)| text.replace(sign, letter));
    assert_eq!(splits.picture(&samples, &ticks, 40, true), plain);
    // Long labels leave a gap that can be seen.
    let (samples, ticks) = regular(400, 10, 1, 20);
    let spec = WalkForward { folds: 1, validation: 0.5, holdout: 0.0, ..spec };
    let long = walk_forward(&samples, &ticks, &spec).unwrap();
    assert!(
        long.picture(&samples, &ticks, 40, true).starts_with("fold 1  ######--vvvvvv--TTTTTTTTTTTTTTTTTTTTTTTT  train")
    );
    assert!(long.picture(&samples, &[], 0, true).is_ascii());
}

/// Steps of accounts are split and purged as labels are: the step whose outcome a later part opens with is left out.
#[test]
fn samples_without_a_class_are_split_and_purged() {
    use bars::synth::Synth;
    use features::{Clock, runs};
    let market = Synth { symbols: 3, bars: 500, ragged: false, ..Synth::default() }.make_market(1).market;
    let clock = Clock::new(&market);
    let cuts: Vec<_> = market.iter().map(|bars| runs(bars, None)).collect();
    let samples = Samples::without_class(&market, &cuts, &clock, |_| true);
    assert!(samples.class.is_empty() && samples.len() > 1000);
    let spec = WalkForward { folds: 4, embargo: 3, ..WalkForward::default() };
    let splits = walk_forward(&samples, &clock.times, &spec).expect("long enough");
    assert_eq!(splits.folds.len(), 4);
    let time = |of: &[i64], at: &u32| of[*at as usize];
    for fold in &splits.folds {
        assert_eq!(fold.purged, 2 * market.len(), "one step of each symbol at each of two borders");
        for (early, late) in [(&fold.train, &fold.valid), (&fold.valid, &fold.test)] {
            let begins = late.iter().map(|at| time(&samples.t0, at)).min().expect("no part is empty");
            assert!(early.iter().all(|at| time(&samples.t1, at) < begins));
            // The purge takes no more than it must.
            let last = early.iter().map(|at| time(&samples.t1, at)).max();
            assert_eq!(last, clock.times.iter().copied().filter(|time| *time < begins).max());
        }
    }
    let holdout = splits.holdout.expect("held out");
    assert_eq!((holdout.purged, holdout.embargoed), (market.len(), 3 * market.len()));
}

#[test]
fn what_is_locked_stays_out_and_what_was_released_is_ordinary() {
    let ticks: Vec<i64> = (1..=1000).map(|day| day * DAY).collect();
    let samples = samples(&ticks.iter().map(|t0| (*t0, t0 + 2 * DAY)).collect::<Vec<_>>());
    let held = |locked_from: Option<i64>, released_to: Option<i64>, holdout: f64| {
        let held = Held { locked_from: locked_from.map(|d| d * DAY), released_to: released_to.map(|d| d * DAY) };
        let splits = walk_forward(&samples, &ticks, &WalkForward { holdout, held, ..WalkForward::default() }).unwrap();
        let last = splits.folds.iter().flat_map(|f| [&f.train, &f.valid, &f.test]).flatten().max().copied().unwrap();
        if let Some(holdout) = &splits.holdout {
            assert!(samples.t1[last as usize] < holdout.span.from(), "no label reaches what is held out");
        }
        splits.holdout.map(|h| h.span.from() / DAY)
    };
    assert_eq!(held(None, None, 0.15), Some(851));
    assert_eq!(held(Some(700), None, 0.15), Some(700), "longer data move only its end");
    assert_eq!(held(Some(700), None, 0.0), Some(700));
    assert_eq!(held(Some(900), None, 0.15), Some(851), "more may be held out");
    assert_eq!(held(None, Some(951), 0.15), Some(951), "only what is new");
    assert_eq!(held(None, Some(1002), 0.15), None);
    assert_eq!(held(Some(700), Some(951), 0.15), Some(700));
}

/// Folds around their tests by definition: every sample is asked about every sample of every test block.
fn around_by_definition(samples: &Samples, ticks: &[i64], spec: &WalkForward, n: usize, k: usize) -> Option<Parts> {
    let time = |i: u32| (samples.t0[i as usize], samples.t1[i as usize]);
    let tick = |i: u32| ticks.iter().position(|t| *t == time(i).0).unwrap();
    let all: Vec<u32> = (0..samples.len() as u32).collect();
    let begin = tick(*all.first()?);
    // What is held out is the walk's own, which has a brute force of its own.
    let end = tick(*all.last()?) + 1;
    let held_from = (begin..=end).find(|from| (end - from) as f64 <= spec.holdout * (end - begin) as f64).unwrap();
    let work = if spec.holdout > 0.0 { held_from.saturating_sub(usize::from(held_from == end)) } else { end };
    let border = |group: usize| begin + (work - begin) * group / n;
    let group_of = |tick: usize| (0..n).find(|g| (border(*g)..border(g + 1)).contains(&tick));
    let held: Vec<u32> = all.iter().copied().filter(|i| tick(*i) >= work).collect();
    let free = |i: u32| held.is_empty() || time(i).1 < ticks[work];
    let longest = all
        .iter()
        .map(|i| {
            ticks.iter().filter(|t| time(*i).0 < **t && **t < time(*i).1).count() + usize::from(time(*i).1 > time(*i).0)
        })
        .max()?;
    let embargo = (((work - begin) as f64 * 0.01 - 1e-9).ceil() as usize).max(longest);
    let mut folds = Vec::new();
    for chosen in 0u32..1 << n {
        if chosen.count_ones() as usize == k {
            folds.push(chosen);
        }
    }
    // In the order of their groups.
    folds.sort_by_key(|chosen| (0..n).filter(|g| chosen >> g & 1 == 1).collect::<Vec<_>>());
    let mut made = Vec::new();
    for chosen in folds {
        let is_test = |g: usize| chosen >> g & 1 == 1;
        let mine = |i: u32| group_of(tick(i)).filter(|_| free(i));
        let test: Vec<u32> = all.iter().copied().filter(|i| mine(*i).is_some_and(is_test)).collect();
        // The block of a group: it and its tested neighbours.
        let block_of = |g: usize| {
            let first = (0..=g).rev().take_while(|h| is_test(*h) == is_test(g)).last().unwrap();
            let last = (g..n).take_while(|h| is_test(*h) == is_test(g)).last().unwrap();
            first..last + 1
        };
        let allowed = |i: u32| {
            (0..n).filter(|g| is_test(*g)).all(|g| {
                let block: Vec<_> =
                    test.iter().filter(|t| block_of(g).contains(&mine(**t).unwrap())).map(|t| time(*t)).collect();
                let Some(until) = block.iter().map(|b| b.1).max() else { return true };
                let after = ticks.iter().filter(|t| until < **t && **t <= time(i).0).count();
                !touches(time(i), &block) && !(1..=embargo).contains(&after)
            })
        };
        if (0..n).filter(|g| is_test(*g)).any(|g| !test.iter().any(|t| block_of(g).contains(&mine(*t).unwrap()))) {
            return None;
        }
        let (mut train, mut valid) = (Vec::new(), Vec::new());
        for i in all.iter().copied().filter(|i| mine(*i).is_some_and(|g| !is_test(g)) && allowed(*i)) {
            let run = block_of(mine(i).unwrap());
            let (from, to) = (border(run.start), border(run.end));
            let kept =
                (0..=to - from).find(|kept| *kept as f64 >= spec.validation * (to - from) as f64 - 1e-9).unwrap();
            if tick(i) >= to - kept { valid.push((i, run)) } else { train.push((i, run)) }
        }
        let clear = |(i, run): &(u32, std::ops::Range<usize>)| {
            let near: Vec<_> = valid.iter().filter(|v| v.1 == *run).map(|v| time(v.0)).collect();
            near.is_empty() || !touches(time(*i), &near)
        };
        let train: Vec<u32> = train.iter().filter(|own| clear(own)).map(|own| own.0).collect();
        let valid: Vec<u32> = valid.iter().map(|own| own.0).collect();
        if train.is_empty() || valid.is_empty() {
            return None;
        }
        made.push([train, valid, test]);
    }
    Some((made, held))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn folds_around_their_tests_match_brute_force((samples, ticks) in market(), n in 2usize..6, k in 1usize..3) {
        prop_assume!(k < n);
        let spec = WalkForward { holdout: 0.0, validation: 0.3, ..WalkForward::default() };
        let made = around(&samples, &ticks, &spec, n, k);
        let Some((folds, _)) = around_by_definition(&samples, &ticks, &spec, n, k) else {
            prop_assert_eq!(made.unwrap_err().kind, Kind::Input);
            return Ok(());
        };
        let made = made.unwrap();
        let parts: Vec<_> = made.folds.iter().map(|f| [f.train.clone(), f.valid.clone(), f.test.clone()]).collect();
        prop_assert_eq!(parts, folds);
    }
}

#[test]
fn check_catches_a_wrong_purge_and_a_short_embargo_around_tests() {
    let (samples, ticks) = regular(600, 10, 2, 3);
    for (groups, tested) in [(5, 1), (6, 2), (4, 3)] {
        let spec = WalkForward::default();
        let right = plan_around(&samples, &ticks, &spec, [groups, tested], overlaps).unwrap();
        assert!(check(&samples, &ticks, &right).is_ok() && right.embargo == 6, "1 % of 510 ticks");
        for which in [1, 3, 5] {
            let wrong = plan_around(&samples, &ticks, &spec, [groups, tested], MISTAKES[which]).unwrap();
            let error = check(&samples, &ticks, &wrong).unwrap_err();
            assert!(
                error.message.contains("touches its test") || error.message.contains("reaches"),
                "{which}: {error}"
            );
        }
        let mut longer = right.clone();
        longer.embargo += 1;
        assert!(check(&samples, &ticks, &longer).unwrap_err().message.contains("within the embargo"));
        // What is said to walk forward must.
        let mut forward = right;
        forward.folds[0].kind = features::FoldKind::Forward;
        assert!(check(&samples, &ticks, &forward).is_err());
    }
}

#[test]
fn every_group_is_tested_on_every_path_once() {
    for (groups, tested, folds, count) in [(6, 2, 15, 5), (10, 2, 45, 9), (5, 1, 5, 1), (4, 3, 4, 3)] {
        let (samples, ticks) = regular(1000, 10, 1, 2);
        let splits = around(&samples, &ticks, &WalkForward::default(), groups, tested).unwrap();
        let paths = paths(groups, tested);
        assert_eq!((splits.folds.len(), paths.len(), splits.groups.len()), (folds, count, groups + 1));
        let mut used = BTreeSet::new();
        for path in &paths {
            for (group, fold) in path.iter().enumerate() {
                let span = splits.groups[group]..splits.groups[group + 1];
                let tests = splits.folds[*fold].test.iter().filter(|at| span.contains(&samples.t0[**at as usize]));
                assert!(tests.count() > 50, "fold {fold} tests group {group}");
                assert!(used.insert((group, *fold)), "fold {fold} gives group {group} to one path");
            }
        }
        assert_eq!(used.len(), folds * tested);
        let tests: usize = splits.folds.iter().map(|fold| fold.test.len()).sum();
        let held = splits.holdout.unwrap();
        assert_eq!(tests, (1000 - held.samples.len() - held.purged) * count);
    }
    let (samples, ticks) = regular(100, 10, 1, 1);
    for (groups, tested) in [(4, 4), (4, 0), (1, 1), (20, 10)] {
        assert_eq!(around(&samples, &ticks, &WalkForward::default(), groups, tested).unwrap_err().kind, Kind::Usage);
    }
}

#[test]
fn a_whole_fold_trains_up_to_what_is_locked() {
    let (samples, ticks) = regular(100, 10, 2, 3);
    let all = whole(&samples, &ticks, None).unwrap();
    assert_eq!((all.folds[0].train.len(), &all.holdout), (200, &None));
    assert!(all.folds[0].valid.is_empty() && all.folds[0].spans.test.from() == 99 * 10 + 30 + 1);
    let locked = whole(&samples, &ticks, Some(800)).unwrap();
    let held = locked.holdout.as_ref().unwrap();
    // Labels of three ticks: those that end before the lock.
    assert_eq!((locked.folds[0].train.len(), held.samples.len(), held.purged), (2 * 77, 2 * 20, 6));
    assert!(whole(&samples, &ticks, Some(0)).is_err());
    let mut wrong = locked.clone();
    wrong.folds[0].train.push(155);
    assert!(check(&samples, &ticks, &wrong).is_err());
    assert_ne!(all.id(), locked.id());
}
