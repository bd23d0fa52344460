//! What hyper-parameters do to an update, and how and how often policies are validated.

mod replay;

use super::cuda::tests::{Case, card, ppo};
use super::training::PpoTraining;
use super::walk::{Walker, walk_pieces};
use super::{Actions, EntropyBand, Hypers, Ppo, Reward, memory, updates_between, walk_cost};
use crate::{DeviceBudget, Learner, MemberKey, Training};
use compute::net::{Layout, flatten};
use compute::population::{Pace, Pins, Precision};
use compute::{Budget, Choice, Opened};

const ENVS: u32 = 37;
const BATCH: usize = 300;

fn processor() -> DeviceBudget {
    DeviceBudget { device: Opened::new(Choice::Cpu, 2).unwrap().0, budget: Budget::default() }
}

/// A policy with these hyper-parameters for each of its configs, whose gradients are not clipped.
fn with(case: Case, change: impl Fn(Hypers) -> Vec<Hypers>) -> Ppo {
    let mut made = ppo(case, ENVS, BATCH);
    let hypers = change(made.spec.hypers[0]);
    let mut config = made.spec.configs[0].clone();
    config.recipe.optimiser.clip = None;
    made.spec.configs = vec![config; hypers.len()];
    made.spec.units = vec![4; hypers.len()];
    made.spec.hypers = hypers;
    made
}

/// One member of each config, in one group.
fn begun(ppo: &Ppo, at: &DeviceBudget) -> PpoTraining {
    let tables = ppo.problem().tables(&at.device, at.budget).unwrap();
    let key = |config| MemberKey { config, fold: 0, seed: 0 };
    let keys: Vec<MemberKey> = (0..ppo.configs().len()).map(key).collect();
    assert!(keys.iter().all(|own| ppo.alike(own.config) == 0), "one group");
    PpoTraining::new(ppo, at, &tables, &keys, &Pins::default()).unwrap()
}

/// A member that may hardly move leaves an update behind its first step at the latest; the one beside it takes all.
fn small_target_kl_stops(at: &DeviceBudget, precision: Precision) {
    for (layers, has_memory) in [("16t-16t | 16t-16t", false), ("lstm9-8t | lstm8", true)] {
        let case = (Actions::Discrete, precision, layers, Reward::Growth);
        let ppo = with(case, |own| vec![own, Hypers { target_kl: Some(1e-9), ..own }]);
        let Hypers { n_envs, n_steps, n_epochs, .. } = ppo.spec.hypers[0];
        let minibatches = match has_memory {
            true => (n_envs as usize).div_ceil(memory::accounts_of(&ppo.spec.hypers[0], BATCH)),
            false => ((n_envs * n_steps) as usize).div_ceil(BATCH),
        };
        let all = n_epochs * minibatches as u32;
        let mut training = begun(&ppo, at);
        let mut before = vec![0; 2];
        for update in 1..=4 {
            training.update().unwrap();
            let steps: Vec<u32> = training.progress().iter().map(|own| own.step).collect();
            let taken: Vec<u32> = steps.iter().zip(&before).map(|(now, then)| now - then).collect();
            assert_eq!(taken[0], all, "{layers}, update {update}: the free member takes all steps");
            assert!(taken[1] <= 1, "{layers}, update {update}: {} steps", taken[1]);
            before = steps;
        }
    }
}

#[test]
fn a_small_target_kl_stops_an_update() {
    small_target_kl_stops(&processor(), Precision::F32);
}

#[test]
fn a_small_target_kl_stops_an_update_on_a_card() {
    let Some(at) = card() else { return };
    for precision in [Precision::F32, Precision::Bf16] {
        small_target_kl_stops(&at, precision);
    }
}

/// A member whose outputs are no numbers takes no step and ends with the reason, whatever ends its update.
fn outputs_that_are_no_numbers_end_a_member(at: &DeviceBudget, precision: Precision) {
    for layers in ["16t-16t | 16t-16t", "lstm9-8t | lstm8"] {
        let case = (Actions::Discrete, precision, layers, Reward::Growth);
        let ppo = with(case, |own| vec![own, Hypers { target_kl: Some(0.1), ..own }]);
        let mut training = begun(&ppo, at);
        training.update().unwrap();
        let before = training.progress();
        for member in 0..2 {
            let nan = vec![f32::NAN; training.nets().params(member).unwrap().len()];
            training.nets().set_params(member, &nan).unwrap();
        }
        training.update().unwrap();
        let after = training.progress();
        let why = |at: usize| after[at].fault.clone().unwrap_or_default();
        assert!(after.iter().all(|own| !own.active), "{layers}: {after:?}");
        assert!(why(0).contains("is not finite in update 2"), "{layers}: {after:?}");
        assert!(why(1).contains("is not a number in update 2"), "{layers}: {after:?}");
        assert_eq!(after[1].step, before[1].step, "{layers}: no step");
    }
}

#[test]
fn outputs_that_are_no_numbers_end_members() {
    outputs_that_are_no_numbers_end_a_member(&processor(), Precision::F32);
}

#[test]
fn outputs_that_are_no_numbers_end_members_on_a_card() {
    let Some(at) = card() else { return };
    for precision in [Precision::F32, Precision::Bf16] {
        outputs_that_are_no_numbers_end_a_member(&at, precision);
    }
}

/// What a tower's weights are after an update with these hyper-parameters: of the policy, and of the value.
fn towers(change: impl Fn(Hypers) -> Hypers, updates: u32) -> [Vec<u32>; 2] {
    let case = (Actions::Discrete, Precision::F32, "16t-16t | 16t-16t", Reward::Growth);
    let ppo = with(case, |own| vec![change(own)]);
    let mut training = begun(&ppo, &processor());
    (0..updates).for_each(|_| training.update().unwrap());
    let layout = Layout::new(&ppo.configs()[0].net).unwrap();
    let tensors = flatten(&layout, &training.nets().params(0).unwrap());
    let of = |tower: &str, head: &str| {
        let own = tensors.iter().filter(|(name, ..)| name.starts_with(tower) || name.starts_with(head));
        let bits: Vec<u32> = own.flat_map(|(_, _, values)| values.iter().map(|x| x.to_bits())).collect();
        assert!(bits.len() > 300, "{tower}: {} weights", bits.len());
        bits
    };
    [of("tower.0.", "head.policy"), of("tower.1.", "head.value")]
}

/// Nothing weighs in a value's loss without `vf_coef`, and advantages are as they are without `normalize_advantage`;
/// each changes its own tower alone.
#[test]
fn hyper_parameters_of_losses_change_their_own_tower() {
    let [start_policy, start_value] = towers(|own| own, 0);
    let [policy, value] = towers(|own| own, 1);
    assert!(policy != start_policy && value != start_value);
    let [same, unmoved] = towers(|own| Hypers { vf_coef: 0.0, ..own }, 1);
    assert!(same == policy && unmoved == start_value, "a value without weight stays");
    let [other, same] = towers(|own| Hypers { normalize_advantage: false, ..own }, 1);
    assert!(other != policy && other != start_policy && same == value, "advantages as they are");
}

/// A clock sees every update, however seldom a training is validated, and changes none of its bits.
#[test]
fn a_clock_may_validate_every_update() {
    let case = (Actions::Discrete, Precision::F32, "16t | 16t", Reward::Growth);
    let mut ppo = with(case, |own| vec![own, own]);
    ppo.spec.units = vec![1024; 2];
    let [mut seen, mut unseen] = [(); 2].map(|()| begun(&ppo, &processor()));
    for unit in 1..=3 {
        seen.advance(1).unwrap();
        unseen.advance(1).unwrap();
        assert!(seen.progress().iter().all(|member| !member.due), "1,024 updates are not validated after each");
        let scores = seen.validate_all().unwrap();
        assert_eq!(scores.iter().map(|score| score.unit).collect::<Vec<_>>(), [unit; 2]);
    }
    seen.stop(0).unwrap();
    assert_eq!(seen.validate_all().unwrap().len(), 1, "of those that train");
    for id in seen.progress().into_iter().map(|member| member.id) {
        assert!(seen.weights(id).unwrap() == unseen.weights(id).unwrap());
    }
}

/// The weight of the entropy that is reported is that of the update, not of the next one.
#[test]
fn the_weight_of_the_entropy_is_that_of_the_update() {
    let case = (Actions::Discrete, Precision::F32, "16t | 16t", Reward::Growth);
    // A policy begins outside of such a band.
    let ppo = with(case, |own| vec![Hypers { entropy: EntropyBand { least: 0.2, most: 0.4 }, ..own }]);
    let mut training = begun(&ppo, &processor());
    let mut weight = 0.0;
    for update in 1..=3 {
        training.update().unwrap();
        let reported = training.validate().unwrap()[0].metrics.get("entropy_weight");
        assert_eq!(reported, Some(weight), "update {update}");
        let next = f64::from(training.on_processor().1[0].multipliers.weight);
        assert_ne!(next, weight, "update {update} moves it");
        weight = next;
    }
}

/// A policy that learns in bf16 is selected by what is deployed: its weights in f32.
#[test]
fn validations_are_in_f32_on_a_processor() {
    for layers in ["16t-16t | 16t-16t", "lstm9-8t | lstm8"] {
        let ppo = ppo((Actions::Continuous, Precision::Bf16, layers, Reward::Growth), ENVS, BATCH);
        let mut training = begun(&ppo, &processor());
        training.update().unwrap();
        let score = training.validate().unwrap()[0].score;
        let params = training.nets().params(0).unwrap();
        let (group, members, _) = training.on_processor();
        let growth = |precision| {
            let walker = Walker {
                net: &group.net,
                params: &params,
                precision,
                tables: &group.tables,
                scales: &members[0].scales,
                actions: Actions::Continuous,
            };
            1e4 * ppo.folds.growth(0, &walk_pieces(walker, &ppo.folds.data, &ppo.folds.valid[0]).unwrap()).0
        };
        assert_eq!(score, growth(Precision::F32), "{layers}");
        assert_ne!(score, growth(Precision::Bf16), "{layers}: rounding is seen");
    }
}

/// A twentieth of what is computed at most, where a training is long enough for four validations.
#[test]
fn validations_cost_a_twentieth() {
    let shape = |n_envs, n_steps| Hypers { n_envs, n_steps, n_epochs: 4, ..ppo_hypers() };
    let (small, large) = (shape(64, 128), shape(2048, 128));
    // A walked row is two rows of 64 · 128 · 13 that an update passes.
    assert_eq!(walk_cost(false, 100_000, 1_562), 200_000);
    assert_eq!(updates_between(200_000, &small, 244), 38, "20 · 200,000 / 106,496");
    // On a card pieces are walked side by side, in as many steps as the longest has.
    assert_eq!(walk_cost(true, 100_000, 1_562), 3_124_000);
    assert_eq!(updates_between(3_124_000, &large, 1000), 19, "20 · 3,124,000 / 3,407,872");
    assert_eq!(walk_cost(true, 10_000_000, 64), 20_000_000, "many symbols");
    for (walk, hypers, updates) in [(200_000, small, 244), (3_124_000, large, 1000), (5_000, small, 10_000)] {
        let every = u64::from(updates_between(walk, &hypers, updates));
        let update = u64::from(hypers.n_envs * hypers.n_steps) * 13;
        assert!(20 * walk <= every * update, "{walk} rows in {every} updates");
        assert!(u64::from(updates) / every <= 256, "at most 256 validations");
    }
    // Short trainings are validated a few times all the same.
    assert_eq!([1, 3, 4, 10, 100].map(|updates| updates_between(100_000_000, &small, updates)), [1, 1, 1, 2, 25]);
}

/// The plan counts what each block of accounts passes its rows through.
#[test]
fn memory_counts_the_passes_of_blocks() {
    let at = processor();
    let key = MemberKey { config: 0, fold: 0, seed: 0 };
    let need = |n_envs, layers| {
        let made = ppo((Actions::Discrete, Precision::F32, layers, Reward::Growth), n_envs, BATCH);
        made.needs(&at.device, &[key], Pace::default()).unwrap()
    };
    // Of 16 and 64 accounts one block and four, each with 256 rows of two towers of 512 outputs at least.
    let wide = need(64, "512 | 512") - need(16, "512 | 512");
    let narrow = need(64, "8 | 8") - need(16, "8 | 8");
    assert!(wide - narrow >= 3 * 256 * 2 * (512 - 16) * 4, "{wide} and {narrow}");
}

fn ppo_hypers() -> Hypers {
    let case = (Actions::Discrete, Precision::F32, "16t | 16t", Reward::Growth);
    ppo(case, ENVS, BATCH).spec.hypers[0]
}
