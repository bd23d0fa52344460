//! Classifiers end to end on small made data: a planted signal is found, noise gives nothing, and a run that was cut
//! ends with the same bits.

use crate::made::{self, Made};
use compute::population::{Pace, Pins, Recipe};
use compute::{Budget, Choice, Opened};
use learn::checkpoint::Staging;
use learn::classify::{Classify, Query, Spec, predict, predict_pins};
use learn::{Config, DeviceBudget, Hooks, Learner, Outcome, Plan, RunEvent, Stopped, TrainState, Trained, train};
use std::cell::Cell;

fn learner(made: &Made, spec: &Spec) -> Classify {
    Classify::new(&made.problem, &made.folds, spec.clone()).unwrap()
}

fn cpu(threads: usize, budget: Budget) -> DeviceBudget {
    DeviceBudget { device: Opened::new(Choice::Cpu, threads).unwrap().0, budget }
}

/// Trains as asked; `looks` says after how many looks to stop.
fn run(
    made: &Made,
    spec: &Spec,
    budget: Budget,
    threads: usize,
    from: Option<TrainState>,
    looks: u32,
) -> (Outcome, TrainState) {
    let (learner, at) = (learner(made, spec), cpu(threads, budget));
    let plan = Plan::new(&learner, &at).unwrap();
    let (count, mut kept) = (Cell::new(0), None);
    let hooks = &mut Hooks {
        event: &mut |event| {
            if let RunEvent::Samples(_) = event {
                count.set(count.get() + 1);
            }
        },
        stop: &|| count.get() >= looks,
        save: &mut |state| {
            kept = Some(state.clone());
            Ok(())
        },
        every: 2,
    };
    let outcome = train(&learner, &plan, &at, from, hooks).unwrap();
    (outcome, kept.unwrap())
}

/// A saved state through the bytes of its parts.
fn through_bytes(state: &TrainState, made: &Made, spec: &Spec) -> TrainState {
    let mut staging = Staging::default();
    state.stage(&mut staging);
    let read = |name: &str| Ok(staging.parts().find(|p| p.0 == name).unwrap().1.to_vec());
    TrainState::from_parts(&read, &learner(made, spec)).unwrap()
}

#[test]
fn a_planted_signal_is_found_and_noise_gives_nothing() {
    for (signal, found) in [(1.0, true), (0.0, false)] {
        let made = made::rows(3, 3000, signal);
        let spec = Spec { seeds: 2, epochs: 12, patience: 12, ..made::spec("8-16-3") };
        let (outcome, _) = run(&made, &spec, Budget::default(), 2, None, u32::MAX);
        assert!(!outcome.interrupted);
        assert_eq!(outcome.members.len(), 2 * made.folds.len());
        for member in &outcome.members {
            let best = member.best.as_ref().unwrap();
            let bound = 3.0 / (made.folds[member.fold].valid.len() as f64).sqrt();
            // The best of twelve looks at noise is the largest of twelve draws.
            if found {
                assert!(best.score > 0.4, "{}", best.score)
            } else {
                assert!(best.score < 1.7 * bound, "{}", best.score)
            }
            assert_eq!(member.history.len(), 12);
            assert_eq!(member.stopped, Some(Stopped::Limit));
        }
    }
}

#[test]
fn windows_of_ready_arrays_train_through_their_maps() {
    let made = made::windows(5, 900, 10, 1.0);
    let spec = Spec { epochs: 25, patience: 25, ..made::spec("fast:4x10-lstm8 + strategy:3 / direction:3") };
    let (outcome, _) = run(&made, &spec, Budget::default(), 2, None, u32::MAX);
    let best = outcome.members.iter().map(|m| m.best.as_ref().unwrap().score).fold(0.0, f64::max);
    assert!(best > 0.25, "{best}");
}

#[test]
fn an_interrupted_run_ends_with_the_same_bits() {
    let made = made::windows(7, 600, 6, 0.5);
    let spec = Spec { seeds: 2, epochs: 6, patience: 3, ..made::spec("fast:4x6-lstm8 + strategy:3 / direction:3") };
    let (whole, _) = run(&made, &spec, Budget::default(), 1, None, u32::MAX);
    for looks in [1, 2, 5, 9] {
        // Cut again and again, with another number of threads each time.
        let (mut outcome, mut saved) = run(&made, &spec, Budget::default(), 2, None, looks);
        let mut cuts = 0;
        while outcome.interrupted {
            cuts += 1;
            assert!(cuts < 500, "it goes on");
            (outcome, saved) =
                run(&made, &spec, Budget::default(), 1 + cuts % 3, Some(through_bytes(&saved, &made, &spec)), looks);
        }
        assert!(cuts > 0, "{looks} looks were all of it");
        assert_eq!(outcome.members, whole.members);
        assert_eq!(through_bytes(&saved, &made, &spec).members, whole.members);
    }
}

#[test]
fn bits_do_not_depend_on_groups() {
    let made = made::rows(9, 1200, 0.5);
    let spec = Spec { seeds: 3, epochs: 4, patience: 4, ..made::spec("8-16-3") };
    let (whole, _) = run(&made, &spec, Budget::default(), 2, None, u32::MAX);
    let learner = learner(&made, &spec);
    let plan = |budget| Plan::new(&learner, &cpu(1, budget));
    let all = plan(Budget::default()).unwrap();
    assert_eq!(all.groups.len(), 1);
    // As much as half of the members need: two groups, or more.
    let half = Budget::Bytes(all.groups[0].bytes * 2 / 3);
    let parts = plan(half).unwrap();
    assert!(parts.groups.len() > 1, "{:?}", parts.groups);
    assert_eq!(parts.groups.iter().map(|g| g.members.len()).sum::<usize>(), whole.members.len());
    let (cut, _) = run(&made, &spec, half, 1, None, u32::MAX);
    assert_eq!(cut.members, whole.members);
    // Cut while all trained together, continued in groups: members of a later group wait with what they had.
    let (outcome, saved) = run(&made, &spec, Budget::default(), 2, None, 5);
    assert!(outcome.interrupted && saved.running.len() > parts.groups[0].members.len());
    let (mut rest, mut saved) = run(&made, &spec, half, 1, Some(through_bytes(&saved, &made, &spec)), 3);
    while rest.interrupted {
        (rest, saved) = run(&made, &spec, half, 1, Some(through_bytes(&saved, &made, &spec)), 3);
    }
    assert_eq!(rest.members, whole.members);
    // One that does not fit at all is refused with the figure.
    let refused = plan(Budget::Bytes(1000)).err().unwrap();
    assert!(refused.to_string().contains("needs"), "{refused}");
}

#[test]
fn configs_train_side_by_side_without_changing_each_other() {
    let made = made::rows(11, 1200, 0.7);
    let spec = Spec { seeds: 2, epochs: 5, patience: 5, ..made::spec("8-16-3") };
    let (alone, _) = run(&made, &spec, Budget::default(), 2, None, u32::MAX);
    let recipe = spec.configs[0].recipe;
    let config = |net: &str, batch: usize, rate: f32| Config {
        net: net.parse().unwrap(),
        recipe: Recipe { batch, ..recipe },
        rate,
    };
    let mut several = spec.clone();
    several.configs.extend([config("8-12t-3", 64, 5e-3), config("8-16-3", 64, 1e-3), config("8-16-3", 100, 5e-3)]);
    let (one, all) = (learner(&made, &spec), learner(&made, &several));
    let plan = |learner: &Classify| Plan::new(learner, &cpu(1, Budget::default())).unwrap();
    // Another rate is trained at once with the first config; another net and another batch are jobs of their own.
    let each = 2 * made.folds.len();
    assert_eq!(plan(&all).groups.iter().map(|g| g.members.len()).collect::<Vec<_>>(), [2 * each, each, each]);
    assert_eq!(plan(&all).samples(&all), 4 * plan(&one).samples(&one));
    let (whole, _) = run(&made, &several, Budget::default(), 2, None, u32::MAX);
    let of = |outcome: &Outcome, config: usize| -> Vec<Trained> {
        outcome.members.iter().filter(|m| m.config == config).cloned().collect()
    };
    assert_eq!(of(&whole, 0), alone.members);
    let mut ids: Vec<u32> = whole.members.iter().map(|m| m.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4 * each);
    for config in 1..4 {
        let mine = of(&whole, config);
        assert_eq!(mine.len(), each);
        let losses =
            |members: &[Trained]| members.iter().map(|m| m.history[4].metrics.get("valid_loss")).collect::<Vec<_>>();
        assert_ne!(losses(&mine), losses(&alone.members));
    }
    // The rate is really the config's: a fifth of it learns slower.
    let last =
        |members: &[Trained]| members.iter().map(|m| m.history[0].metrics.get("valid_loss").unwrap()).sum::<f64>();
    assert!(last(&of(&whole, 2)) > last(&alone.members));
    // Cut again and again, through bytes: rows of different nets lie in one file.
    let (mut outcome, mut saved) = run(&made, &several, Budget::default(), 2, None, 4);
    let mut cuts = 0;
    while outcome.interrupted {
        cuts += 1;
        assert!(cuts < 500, "it goes on");
        let from = Some(through_bytes(&saved, &made, &several));
        (outcome, saved) = run(&made, &several, Budget::default(), 1 + cuts % 2, from, 4);
    }
    assert!(cuts > 3);
    assert_eq!(outcome.members, whole.members);
}

#[test]
fn a_member_that_adopts_another_keeps_its_identity() {
    let made = made::rows(14, 600, 0.5);
    let spec = Spec { seeds: 2, ..made::spec("8-16-3") };
    let (learner, at) = (learner(&made, &spec), cpu(1, Budget::default()));
    let members = &Plan::new(&learner, &at).unwrap().members[..2];
    let tables = made.problem.tables(&at.device, at.budget).unwrap();
    let mut training = learner.begin(&at, &tables, members, Pace::default(), &Pins::default()).unwrap();
    training.advance(2).unwrap();
    let [first, second] = [members[0].id(), members[1].id()];
    let before = training.progress();
    training.adopt(first, second).unwrap();
    assert_eq!(training.progress(), before);
    assert_eq!(training.weights(first).unwrap(), training.weights(second).unwrap());
    // Its own order of the rows makes another net of it.
    training.advance(1).unwrap();
    assert_ne!(training.weights(first).unwrap(), training.weights(second).unwrap());
}

/// The processor, and a card where there is one; says so where there is none.
fn devices() -> Vec<DeviceBudget> {
    let mut all = vec![cpu(2, Budget::default())];
    all.extend(made::card().map(|device| DeviceBudget { device, budget: Budget::default() }));
    all
}

#[test]
fn predictions_use_the_algorithms_of_their_run() {
    let made = made::rows(15, 1200, 0.5);
    // Too wide for one kernel: products of a library, where there is one.
    let spec = Spec { seeds: 1, epochs: 2, ..made::spec("8-320-3") };
    for at in devices() {
        let learner = learner(&made, &spec);
        let plan = Plan::new(&learner, &at).unwrap();
        let mut kept = None;
        let hooks = &mut Hooks {
            event: &mut |_| {},
            stop: &|| false,
            save: &mut |state| {
                kept = Some(through_bytes(state, &made, &spec));
                Ok(())
            },
            every: 1,
        };
        let outcome = train(&learner, &plan, &at, None, hooks).unwrap();
        let Config { net, recipe, .. } = &spec.configs[0];
        let chosen = predict_pins(&at.device, net, recipe, &Pins::default()).unwrap();
        let pins = &outcome.pins[&0];
        assert!(chosen.0.iter().all(|(key, algorithm)| pins.0.get(key) == Some(algorithm)), "{chosen:?} {pins:?}");
        // The same from a state that was stored, and what is stored is what is taken.
        assert_eq!(kept.unwrap().pins[&0], *pins);
        assert_eq!(predict_pins(&at.device, net, recipe, pins).unwrap(), chosen);
        let params = &outcome.members[0].best.as_ref().unwrap().params;
        let with_pins = |pins: &Pins, ids: std::ops::Range<u32>, alone: bool| {
            let query = Query { id: 5, scaler: &learner.scalers()[0], params, ids: ids.collect(), alone };
            predict(&made.problem, net, recipe, &at, pins, &[query]).unwrap().remove(0)
        };
        let all = with_pins(pins, 10..900, false);
        assert_eq!(all, with_pins(&Pins::default(), 10..900, false));
        // The company of a row does not matter.
        assert_eq!(with_pins(pins, 10..30, true), all[..20 * made.problem.classes]);
    }
}

#[test]
fn a_partial_last_batch_counts_only_its_samples() {
    let made = made::rows(13, 1000, 0.5);
    // Of the 400, 500 and 600 samples of the folds, a batch of 350 leaves 50, 150 and 250.
    let mut spec = Spec { epochs: 3, patience: 3, ..made::spec("8-16-3") };
    spec.configs[0].recipe.batch = 350;
    let (learner, at) = (learner(&made, &spec), cpu(1, Budget::default()));
    let plan = Plan::new(&learner, &at).unwrap();
    let trained = |from: Option<TrainState>, looks: u32| {
        let (count, samples) = (Cell::new(0), Cell::new(0));
        let mut kept = None;
        let hooks = &mut Hooks {
            event: &mut |event| {
                if let RunEvent::Samples(n) = event {
                    samples.set(n);
                    count.set(count.get() + 1);
                }
            },
            stop: &|| count.get() >= looks,
            save: &mut |state| {
                kept = Some(state.clone());
                Ok(())
            },
            every: 0,
        };
        train(&learner, &plan, &at, from, hooks).unwrap();
        (samples.get(), kept.unwrap())
    };
    let left = |from: Option<&TrainState>| plan.samples_left(&learner, from);
    assert_eq!((plan.samples(&learner), left(None)), (4500, 4500));
    let (all, end) = trained(None, u32::MAX);
    assert_eq!((all, left(Some(&end))), (4500, 0));
    // Cut in the middle: what is left is what the other process did not do, but for the epochs it was in.
    let (some, cut) = trained(None, 3);
    let (rest, _) = trained(Some(cut.clone()), u32::MAX);
    assert_eq!(some + rest, 4500);
    assert!((rest..4500).contains(&left(Some(&cut))), "{some} {rest} {}", left(Some(&cut)));
}

/// A training whose batch may not fit: what one member of its largest fold takes whole, and the least it can take.
fn tight(made: &Made) -> (Spec, u64, u64) {
    let mut spec = Spec { seeds: 2, epochs: 3, patience: 3, ..made::spec("8-256-256-3") };
    spec.configs[0].recipe.batch = 1024;
    let one = Spec { seeds: 1, ..spec.clone() };
    let (one, at) = (Classify::new(&made.problem, &made.folds[2..], one).unwrap(), cpu(1, Budget::default()));
    let whole = Plan::new(&one, &at).unwrap();
    assert_eq!((whole.pace.parts, whole.parts_message(&one)), (1, None));
    let least = Pace { parts: 32 };
    let parts = whole.clone().with_pace(&one, &at, least).unwrap();
    assert_eq!(parts.pace, least);
    (spec, whole.groups[0].bytes, parts.groups[0].bytes)
}

#[test]
fn too_large_a_batch_is_split_and_the_run_keeps_its_parts() {
    let made = made::rows(11, 4000, 0.7);
    let (spec, whole, least) = tight(&made);
    let budget = Budget::Bytes((whole + least) / 2);
    let learner = learner(&made, &spec);
    let plan = |budget| Plan::new(&learner, &cpu(1, budget));
    let in_parts = plan(budget).unwrap();
    let (parts, groups) = (in_parts.pace.parts, &in_parts.groups);
    assert!(parts > 1 && groups.iter().all(|g| g.bytes <= (whole + least) / 2), "{parts} {groups:?}");
    let message = in_parts.parts_message(&learner).unwrap();
    let rows = 1024 / parts;
    assert!(message.starts_with(&format!("batches of 1024 in {parts} parts of {rows}: ")));
    assert!(message.contains("instead of"));
    // Parts of 128 rows and more are added up on a processor in the order in which a whole batch is: even the bits are
    // the same.
    assert_eq!(rows % 128, 0);
    let (all, _) = run(&made, &spec, Budget::default(), 1, None, u32::MAX);
    let (split, saved) = run(&made, &spec, budget, 1, None, u32::MAX);
    assert_eq!((all.pace.parts, split.pace.parts), (1, parts));
    assert!(all.members == split.members);
    // With memory to spare it goes on in the same parts.
    let (cut, saved_then) = run(&made, &spec, budget, 1, None, 2);
    assert!(cut.interrupted && through_bytes(&saved_then, &made, &spec).pace == saved.pace);
    let (rest, _) = run(&made, &spec, Budget::default(), 1, Some(through_bytes(&saved_then, &made, &spec)), u32::MAX);
    assert!(rest.pace == split.pace && rest.members == split.members);
    // What fits in no parts is refused with the figure.
    let refused = plan(Budget::Bytes(1000)).err().unwrap();
    assert!(refused.to_string().contains("even in parts of 32, needs"), "{refused}");
}

#[test]
fn memory_lost_after_planning_leads_to_smaller_groups() {
    let made = made::rows(12, 4000, 0.7);
    let (spec, whole, least) = tight(&made);
    let learner = learner(&made, &spec);
    let plan = Plan::new(&learner, &cpu(1, Budget::default())).unwrap();
    assert_eq!((plan.groups.len(), plan.pace.parts), (1, 1));
    let run = |budget: Budget| {
        let (mut less, mut groups) = (Vec::new(), Vec::new());
        let hooks = &mut Hooks {
            event: &mut |event| match event {
                RunEvent::LessMemory(what) => less.push(what),
                RunEvent::Group { number, of, members, .. } => groups.push((number, of, members)),
                _ => {}
            },
            stop: &|| false,
            save: &mut |_| Ok(()),
            every: 0,
        };
        let outcome = train(&learner, &plan, &cpu(1, budget), None, hooks);
        (outcome, less, groups)
    };
    let (all, less, _) = run(Budget::default());
    let all = all.unwrap();
    assert!(less.is_empty() && all.pace.parts == 1);
    // Enough for one member at a time, then for none but in parts: the members become the same.
    let (alone, less, groups) = run(Budget::Bytes(whole));
    let alone = alone.unwrap();
    assert!(alone.members == all.members && alone.pace.parts == 1);
    assert!(less[0].starts_with("3 members at once instead of 6"), "{less:?}");
    assert!(groups.iter().map(|g| (g.0, g.2)).eq((0..6).map(|n| (n, 1))) && groups[5].1 == 6, "{groups:?}");
    let (split, less, _) = run(Budget::Bytes((whole + least) / 2));
    let split = split.unwrap();
    assert!(split.members == all.members && split.pace.parts > 1);
    assert!(less.iter().any(|l| l.starts_with("batches of 1024 in 2 parts of 512 from here on: ")), "{less:?}");
    let (none, ..) = run(Budget::Bytes(1000));
    assert!(none.unwrap_err().to_string().contains("needs"));
}

#[test]
fn a_number_that_is_not_finite_ends_its_member_and_is_never_the_best() {
    let mut made = made::rows(11, 1200, 1.0);
    let spec = Spec { epochs: 4, patience: 4, ..made::spec("8-16-3") };
    // A poisoned row of the last fold's training alone.
    let at = *made.folds.last().unwrap().train.last().unwrap();
    let row = made.problem.samples.rows[at as usize] as usize;
    made.problem_mut().inputs[0].values[row * 8 + 3] = f32::NAN;
    let (outcome, _) = run(&made, &spec, Budget::default(), 2, None, u32::MAX);
    for member in &outcome.members {
        let fold = &made.folds[member.fold];
        if fold.train.contains(&at) {
            assert!(matches!(&member.stopped, Some(Stopped::Fault(why)) if why.contains("not finite")), "{member:?}");
            assert!(member.best.as_ref().is_none_or(|b| b.params.iter().all(|x| x.is_finite())));
        } else {
            assert_eq!(member.stopped, Some(Stopped::Limit));
            // A validation whose loss is no number is worth nothing, whatever was guessed.
            assert_eq!(member.best.is_none(), fold.valid.contains(&at), "{member:?}");
        }
    }
}

#[test]
fn scalers_of_other_data_or_splits_are_refused() {
    let made = made::rows(3, 400, 0.7);
    let spec = made::spec("8-8-3");
    let learner = learner(&made, &spec);
    let [first, second] = [0, 1].map(|fold| &learner.scalers()[fold]);
    assert!(first.data == "made" && first.split == second.split);
    first.belongs(second.split, "made").unwrap();
    let refused = first.belongs(first.split, "other").unwrap_err();
    assert!(refused.message.contains("of the data made, not of other"), "{refused}");
    // Another split of the same data.
    let two = Classify::new(&made.problem, &made.folds[..2], spec.clone()).unwrap();
    let refused = second.belongs(two.scalers()[1].split, "made").unwrap_err();
    assert!(refused.message.contains("the scaler of fold 2 is of the split"), "{refused}");
    // A fold whose training has seen its test.
    let mut folds = made.folds.clone();
    folds[1].spans.train = features::Span::new(0, folds[1].spans.test.from() + 1).unwrap();
    let refused = Classify::new(&made.problem, &folds, spec).err().unwrap();
    assert!(refused.message.contains("fold 2: what is fitted reaches to"), "{refused}");
}
