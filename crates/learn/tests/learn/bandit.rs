//! A learner of another kind on both devices: trained, cut, resumed and timed by what trains classifiers, which knows
//! nothing of it; and its kernels beside their twins.

use crate::bandit_learner::{BANDIT, Bandit, Draw, Play, STEPS, draw, play};
use crate::made;
use compute::cuda::{Array, Grid, Kernel, Module, Plain, Slab, Stream};
use compute::population::{Pace, Pins};
use compute::random::philox;
use compute::{Budget, Choice, Opened};
use learn::checkpoint::Staging;
use learn::{DeviceBudget, Hooks, Learner, Outcome, Pacer, Plan, RunEvent, Stopped, TrainState, train};
use std::cell::Cell;

fn bandit(seed: u64, rows: usize, signal: f32, units: u32) -> Bandit {
    let made = made::rows(seed, rows, signal);
    let best = (0..rows as u32).map(|at| u32::from(made.problem.class_index(at))).collect();
    Bandit::new(&made.problem, &made.folds, made::spec("8-16-3").configs, best, [2, units, units])
}

fn cpu(threads: usize, budget: Budget) -> DeviceBudget {
    DeviceBudget { device: Opened::new(Choice::Cpu, threads).unwrap().0, budget }
}

/// Trains, and stops after so many looks; the last state that was kept, through its bytes.
fn run(bandit: &Bandit, at: &DeviceBudget, from: Option<TrainState>, looks: u32) -> (Outcome, TrainState) {
    let (count, mut kept) = (Cell::new(0), None);
    let hooks = &mut Hooks {
        event: &mut |event| count.set(count.get() + u32::from(matches!(event, RunEvent::Samples(_)))),
        stop: &|| count.get() >= looks,
        save: &mut |state| {
            let mut staging = Staging::default();
            state.stage(&mut staging);
            let read = |name: &str| Ok(staging.parts().find(|p| p.0 == name).unwrap().1.to_vec());
            kept = Some(TrainState::from_parts(&read, bandit)?);
            Ok(())
        },
        every: 2,
    };
    let outcome = train(bandit, &Plan::new(bandit, at).unwrap(), at, from, hooks).unwrap();
    (outcome, kept.unwrap())
}

/// Trains on a device, whole; then cut again and again, in the places that `cut` gives, to the same bits.
fn trains_and_resumes(at: &DeviceBudget, cut: impl Fn(&Bandit, usize) -> DeviceBudget) {
    let bandit = bandit(21, 900, 2.0, 6);
    let (whole, _) = run(&bandit, at, None, u32::MAX);
    for member in &whole.members {
        let rewards: Vec<f64> = member.history.iter().filter_map(|v| v.score).collect();
        assert_eq!((rewards.len(), &member.stopped), (6, &Some(Stopped::Limit)));
        let best = member.best.as_ref().unwrap();
        assert!(best.score > 0.6 && best.score > rewards[0], "chance is a third: {rewards:?}");
        // What was validated is what its weights reach on those rows.
        let valid: Vec<u32> = bandit.valid(member.fold).to_vec();
        assert_eq!(bandit.test(at, member.key(), &best.params, &valid).unwrap(), best.score);
        assert!(member.history[5].metrics.get("train_reward").is_some_and(|mean| mean > 0.4), "{member:?}");
    }
    let (mut outcome, mut state) = run(&bandit, &cut(&bandit, 0), None, 2);
    let mut cuts = 0;
    while outcome.interrupted {
        cuts += 1;
        assert!(cuts < 500, "it goes on");
        (outcome, state) = run(&bandit, &cut(&bandit, cuts), Some(state), 2);
    }
    assert!(cuts > 3);
    assert_eq!(outcome.members, whole.members);
    assert_eq!(state.members, whole.members);
}

/// Other threads, and groups of fewer members.
#[test]
fn another_learner_is_trained_by_the_same_loop() {
    trains_and_resumes(&cpu(1, Budget::default()), |bandit, cuts| {
        let threads = 1 + cuts % 2;
        let whole = Plan::new(bandit, &cpu(threads, Budget::default())).unwrap();
        let at = cpu(threads, Budget::Bytes(whole.groups[0].bytes - 1));
        assert!(Plan::new(bandit, &at).unwrap().groups.len() > 1);
        if cuts == 0 { cpu(2, Budget::default()) } else { at }
    });
}

#[test]
fn another_learner_is_trained_on_a_card_with_kernels_of_its_own() {
    let Some(device) = made::card() else { return };
    let at = DeviceBudget { device, budget: Budget::default() };
    trains_and_resumes(&at, |_, _| at.clone());
    // The processor's twin learns as much: products are summed in another order there, so not to the bit.
    let bandit = bandit(23, 900, 2.0, 4);
    let [here, there] = [&cpu(2, Budget::default()), &at].map(|at| run(&bandit, at, None, u32::MAX).0.members);
    for (here, there) in here.iter().zip(&there) {
        let [a, b] = [here, there].map(|m| m.best.as_ref().unwrap().score);
        assert!((a - b).abs() < 0.1, "{a} on the processor, {b} on the card");
    }
}

/// Members adopt one another, and stay who they are.
fn adopts(at: &DeviceBudget) {
    let bandit = bandit(22, 300, 1.0, u32::MAX);
    let members = Plan::new(&bandit, at).unwrap().members;
    let mut pacer = Pacer::new(&bandit, at, &members[..2]).unwrap();
    assert_eq!(pacer.advance(STEPS + 5).unwrap(), 2 * 64 * u64::from(STEPS + 5));

    let tables = bandit.problem().tables(&at.device, at.budget).unwrap();
    let mut training = bandit.begin(at, &tables, &members[..2], Pace::default(), &Pins::default()).unwrap();
    training.advance(3).unwrap();
    let [first, second] = [members[0].id(), members[1].id()];
    assert_ne!(training.weights(first).unwrap(), training.weights(second).unwrap());
    training.adopt(first, second).unwrap();
    assert_eq!(training.weights(first).unwrap(), training.weights(second).unwrap());
    // Other rows and actions make another net of it.
    training.advance(1).unwrap();
    assert_ne!(training.weights(first).unwrap(), training.weights(second).unwrap());
}

#[test]
fn another_learner_is_timed_and_its_members_adopt_one_another() {
    adopts(&cpu(2, Budget::default()));
    if let Some(device) = made::card() {
        adopts(&DeviceBudget { device, budget: Budget::default() });
    }
}

fn array<T: Plain>(slab: &mut Slab, stream: &Stream, from: &[T]) -> Array<T> {
    let made = slab.array(from.len()).unwrap();
    made.put(stream, from).unwrap();
    made
}

#[test]
fn bandit_kernels_match_their_cpu_twins_to_the_bit() {
    let Some(Opened::Cuda(context)) = made::card() else { return };
    let stream = Stream::new(&context).unwrap();
    let module = Module::load(&context, &BANDIT).unwrap();
    let (draws, plays): (Kernel<Draw>, Kernel<Play>) = (module.kernel("draw").unwrap(), module.kernel("play").unwrap());
    for (members, rows, actions) in [(1usize, 1usize, 1usize), (1, 1, 2), (3, 7, 3), (2, 128, 5), (5, 1000, 4)] {
        let seed = 77 + rows as u64;
        let noise = |i: usize, k: u32| philox(seed, [i as u32, k, 9, 9])[0];
        let lists: Vec<u32> = (0..501).map(|i| noise(i, 0) % 300).collect();
        let bounds: Vec<u32> = (0..members as u32).flat_map(|m| [13 * m, 13 * m + 1 + 400 * (m % 2)]).collect();
        let best: Vec<u32> = (0..300).map(|i| noise(i, 1) % actions as u32).collect();
        let out: Vec<f32> = (0..members * rows * actions).map(|i| noise(i, 2) as i32 as f32 * 4e-9).collect();
        let names: Vec<u32> = (0..members as u32).map(|m| 40 + m).collect();
        let steps: Vec<u32> = (0..members as u32).map(|m| 3 * m).collect();
        let mask: Vec<u32> = (0..members as u32).map(|m| u32::from(m != 1)).collect();
        let baseline: Vec<f32> = (0..members).map(|m| 0.1 * m as f32).collect();

        let mut slab = context.slab(1 << 20).unwrap();
        let slab = &mut slab;
        let (names_on, steps_on) = (array(slab, &stream, &names), array(slab, &stream, &steps));
        let ids_on = array(slab, &stream, &vec![0u32; members * rows]);
        let drawn = Draw {
            lists: array(slab, &stream, &lists),
            bounds: array(slab, &stream, &bounds),
            members: names_on.clone(),
            steps: steps_on.clone(),
            ids: ids_on.clone(),
            seed,
            rows: rows as u32,
        };
        draws.launch(&stream, Grid::row(members * rows, 128), &drawn).unwrap();
        let played = Play {
            out: array(slab, &stream, &out),
            d_out: array(slab, &stream, &vec![9.0f32; out.len()]),
            ids: ids_on.clone(),
            best: array(slab, &stream, &best),
            members: names_on,
            steps: steps_on,
            mask: array(slab, &stream, &mask),
            baseline: array(slab, &stream, &baseline),
            seed,
            rows: rows as u32,
            actions: actions as u32,
        };
        let each = Grid { blocks: [members as u32, 1, 1], threads: [128, 1, 1], shared: 0 };
        plays.launch(&stream, each, &played).unwrap();

        let (ids, d_out) = (ids_on.get(&stream).unwrap(), played.d_out.get(&stream).unwrap());
        let (after, steps_after) = (played.baseline.get(&stream).unwrap(), played.steps.get(&stream).unwrap());
        for m in 0..members {
            let list = &lists[bounds[2 * m] as usize..bounds[2 * m + 1] as usize];
            let own: Vec<u32> = draw(seed, names[m], steps[m], list, rows).collect();
            assert_eq!(own, ids[m * rows..][..rows], "rows of member {m} of {members}, {rows} × {actions}");
            let rewarded: Vec<u32> = own.iter().map(|id| best[*id as usize]).collect();
            let mut z = out[m * rows * actions..][..rows * actions].to_vec();
            let next = play(seed, names[m], steps[m], &rewarded, baseline[m], &mut z);
            let bits = |of: &[f32]| of.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&z), bits(&d_out[m * rows * actions..][..rows * actions]), "{members}, {rows} × {actions}");
            let expected = if mask[m] == 1 { (next, steps[m] + 1) } else { (baseline[m], steps[m]) };
            assert_eq!((after[m], steps_after[m]), expected);
        }
    }
}

#[test]
fn the_bandits_actions_follow_its_preferences() {
    // Preferences of ln 1, ln 2 and ln 5: shares of an eighth, a quarter and five eighths.
    let z: Vec<f32> = (0..4000).flat_map(|_| [0.0, 2f32.ln(), 5f32.ln()]).collect();
    for (best, share) in [(0, 0.125), (1, 0.25), (2, 0.625)] {
        let mut d_out = z.clone();
        // From a baseline of 0, a tenth of the mean reward.
        let mean = 10.0 * f64::from(play(5, 1, 0, &[best; 4000], 0.0, &mut d_out));
        assert!((mean - share).abs() < 0.03, "{mean} instead of {share}");
        // The gradient of a row adds up to nothing, and is nothing where there was no reward.
        assert!(d_out.chunks_exact(3).all(|row| row.iter().sum::<f32>().abs() < 1e-9));
        let some = d_out.chunks_exact(3).filter(|row| row.iter().any(|x| *x != 0.0)).count();
        assert!((some as f64 / 4000.0 - mean).abs() < 1e-3);
    }
}
