//! Measures against scikit-learn (`oracles/fixtures/judge.py`), against their definitions, and at the edges.

use super::*;
use features::Samples;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    classes: usize,
    labels: Vec<u8>,
    probabilities: Vec<f32>,
    weights: Option<Vec<f32>>,
    confusion: Vec<u64>,
    mcc: f64,
    accuracy: f64,
    precision: Vec<f64>,
    recall: Vec<f64>,
    f1: Vec<f64>,
    macro_f1: f64,
    log_loss: f64,
    brier: f64,
    calibration_error: f64,
    directional_mcc: Option<f64>,
}

fn near(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()), "{what}: {a}, not {b}");
}

#[test]
fn measures_match_scikit_learn() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/fixtures/measures.json")).unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let guesses = predicted(&case.probabilities, case.classes);
        let counts = Confusion::count(case.classes, &case.labels, &guesses).unwrap();
        assert_eq!(counts.counts(), case.confusion, "{}", case.name);
        near(counts.mcc(), case.mcc, &case.name);
        near(counts.accuracy(), case.accuracy, &case.name);
        near(counts.macro_f1(), case.macro_f1, &case.name);
        for (k, score) in counts.scores().into_iter().enumerate() {
            near(score.precision, case.precision[k], &case.name);
            near(score.recall, case.recall[k], &case.name);
            near(score.f1, case.f1[k], &case.name);
            assert_eq!(score.samples as usize, case.labels.iter().filter(|l| usize::from(**l) == k).count());
        }
        if let Some(directional) = case.directional_mcc {
            near(counts.directional_mcc().unwrap(), directional, &case.name);
        }
        let scores = scores(&case.probabilities, case.classes, &case.labels, case.weights.as_deref()).unwrap();
        near(scores.log_loss, case.log_loss, &case.name);
        near(scores.brier, case.brier, &case.name);
        near(scores.calibration_error, case.calibration_error, &case.name);
        assert_eq!(scores.reliability.iter().map(|bin| bin.samples).sum::<u64>() as usize, case.labels.len());
    }
}

#[test]
fn mcc_matches_values_computed_by_hand() {
    // TP 6, TN 3, FP 1, FN 2: (18 - 2) / sqrt(7 · 8 · 4 · 5).
    let two = Confusion::new(2, vec![3, 1, 2, 6]).unwrap();
    near(two.mcc(), 16.0 / 1120f64.sqrt(), "two classes");
    assert_eq!((two.directional_mcc(), two.balance()), (Some(two.mcc()), vec![4.0 / 12.0, 8.0 / 12.0]));
    let constant = Confusion::majority(&[5, 9, 9], &[1, 2, 3]).unwrap();
    assert_eq!(constant.predicted(), [0, 6, 0]);
    assert_eq!((constant.mcc(), constant.accuracy(), constant.directional_mcc()), (0.0, 2.0 / 6.0, None));
    // Flat on either side does not count.
    let three = Confusion::new(3, vec![5, 100, 1, 70, 900, 80, 2, 90, 4]).unwrap();
    assert_eq!(three.directional().unwrap().counts(), [5, 1, 2, 4]);
    // One pair is enough for a figure, though it tells nothing; none gives none, for two classes as for three.
    assert_eq!(Confusion::new(3, vec![0, 5, 0, 7, 9, 8, 1, 6, 0]).unwrap().directional_mcc(), Some(0.0));
    assert_eq!(Confusion::new(2, vec![0; 4]).unwrap().directional_mcc(), None);
    assert_eq!(Confusion::new(4, vec![1; 16]).unwrap().directional_mcc(), None);
    let large = 1u64 << 58;
    assert_eq!(Confusion::new(2, vec![large, 0, 0, large]).unwrap().mcc(), 1.0);
    assert_eq!(Confusion::new(2, vec![0, large, large, 0]).unwrap().mcc(), -1.0);
    let none = Confusion::new(3, vec![0; 9]).unwrap();
    assert_eq!((none.mcc(), none.accuracy(), none.macro_f1(), none.balance()), (0.0, 0.0, 0.0, vec![0.0; 3]));
}

#[test]
fn mismatched_inputs_are_refused() {
    assert!(Confusion::new(1, vec![3]).is_err());
    assert!(Confusion::new(3, vec![0; 8]).is_err());
    assert!(Confusion::new(2, vec![u64::MAX; 4]).is_err());
    assert!(Confusion::new(usize::MAX, vec![]).is_err());
    assert!(Confusion::count(2, &[0, 2], &[0, 1]).is_err());
    assert!(Confusion::count(2, &[0], &[0, 1]).is_err());
    assert!(Confusion::majority(&[1, 2], &[1, 2, 3]).is_err());
    assert!(Confusion::majority(&[], &[]).is_err());
    let mut two = Confusion::new(2, vec![1 << 58; 4]).unwrap();
    assert!(two.add(&Confusion::new(3, vec![0; 9]).unwrap()).is_err());
    assert!(two.add(&two.clone()).is_err() && two.samples() == 1 << 60);
    assert!(serde_json::from_str::<Confusion>(r#"{"classes":2,"counts":[1,2,3]}"#).is_err());
    assert_eq!(serde_json::from_str::<Confusion>(&serde_json::to_string(&two).unwrap()).unwrap(), two);

    let good = [0.5f32, 0.5, 0.25, 0.75];
    assert!(scores(&good, 2, &[0, 1], Some(&[1.0, 0.0])).is_ok());
    for (p, labels, weights) in [
        (&good[..], &[0u8, 2][..], None),
        (&good, &[0], None),
        (&[], &[], None),
        (&good, &[0, 1], Some(&[1.0f32][..])),
        (&good, &[0, 1], Some(&[0.0, 0.0])),
        (&good, &[0, 1], Some(&[1.0, f32::NAN])),
        (&good, &[0, 1], Some(&[1.0, -1.0])),
        (&[0.5, 0.6, 0.5, 0.5], &[0, 1], None),
        (&[-0.5, 1.5, 0.5, 0.5], &[0, 1], None),
        (&[f32::NAN, 0.5, 0.5, 0.5], &[0, 1], None),
    ] {
        assert!(scores(p, 2, labels, weights).is_err(), "{p:?} {labels:?} {weights:?}");
    }
    assert!(scores(&[1.0], 1, &[0], None).is_err());
}

/// Numbers from -1 to 1.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut random = random::SplitMix::new(seed);
    move || random.unit() * 2.0 - 1.0
}

proptest! {
    #[test]
    fn persistence_is_the_last_label_known(rows in prop::collection::vec((0i64..4, 0i64..15, 0u32..3, -1i8..2), 0..60)) {
        let mut now = 0;
        let (mut samples, mut symbol) = (Samples::default(), Vec::new());
        for (gap, length, of, class) in rows {
            now += gap;
            samples.rows.push(samples.rows.len() as u32);
            samples.t0.push(now);
            samples.t1.push(now + length);
            samples.class.push(class);
            samples.weight.push(1.0);
            symbol.push(of);
        }
        let guesses = persistence(&samples, &symbol).unwrap();
        for at in 0..samples.len() {
            let known = (0..at).filter(|from| symbol[*from] == symbol[at] && samples.t1[*from] <= samples.t0[at]);
            let last = known.max_by_key(|from| (samples.t1[*from], *from));
            prop_assert_eq!(guesses[at], last.map(|from| samples.class[from]));
        }
        symbol.push(0);
        prop_assert!(persistence(&samples, &symbol).is_err());
    }
}

#[test]
fn intervals_cover_the_truth_and_are_reproducible() {
    // 200 days of 40 samples each, right 60 % of the time: the coefficient is 0.2.
    let mut covered = 0;
    for seed in 0..60 {
        let mut draw = noise(seed + 100);
        let truth: Vec<u8> = (0..8000).map(|i| (i % 2) as u8).collect();
        let guesses: Vec<u8> = truth.iter().map(|t| if draw() < 0.2 { *t } else { 1 - t }).collect();
        let days: Vec<i32> = (0..8000).map(|i| i / 40).collect();
        let groups = by_group(2, &truth, &guesses, &days).unwrap();
        assert_eq!(groups.len(), 200);
        let found = estimate(&groups, 1, Confusion::mcc).unwrap().unwrap();
        let interval = found.interval;
        assert_eq!(Some(found), estimate(&groups, 1, Confusion::mcc).unwrap());
        assert_eq!(interval.point, Confusion::count(2, &truth, &guesses).unwrap().mcc());
        assert!(interval.low < interval.point && interval.point < interval.high && found.p < 1e-6);
        // The standard error is about 1 / sqrt(8000).
        assert!((0.03..0.065).contains(&(interval.high - interval.low)), "{interval:?}");
        covered += usize::from((interval.low..=interval.high).contains(&0.2));
    }
    assert!((50..=60).contains(&covered), "{covered} of 60 intervals cover the truth");
}

#[test]
fn bootstrap_draws_neighbours_together() {
    let spec = Bootstrap { draws: 50, block: 4, ..Bootstrap::default() };
    let mut starts = std::collections::BTreeSet::new();
    let mut draws = 0;
    bootstrap(10, &spec, |groups| {
        assert_eq!(groups.len(), 10);
        for run in groups.chunks(4) {
            assert!(run.windows(2).all(|two| two[1] == (two[0] + 1) % 10), "{groups:?}");
            starts.insert(run[0]);
        }
        draws += 1;
        0.0
    })
    .unwrap();
    assert_eq!((draws, starts.len()), (51, 10));
    // Days that hang together widen the interval; drawn one by one they look surer than they are.
    let trend = |groups: &[usize]| groups.iter().map(|g| (g / 20 % 2) as f64).sum::<f64>() / groups.len() as f64;
    let width = |block| {
        let it = bootstrap(400, &Bootstrap { block, ..Bootstrap::default() }, trend).unwrap();
        it.high - it.low
    };
    assert!(width(20) > 2.0 * width(1));
    let bad = |groups, spec: Bootstrap| bootstrap(groups, &spec, |_| 0.0).is_err();
    assert!(bad(0, spec) && bad(3, Bootstrap { draws: 0, ..spec }) && bad(3, Bootstrap { block: 0, ..spec }));
    assert!(bad(3, Bootstrap { level: 1.0, ..spec }) && bad(3, Bootstrap { level: f64::NAN, ..spec }));
    assert!(by_group(2, &[0], &[0], &[]).is_err());
}
