//! What blocks of accounts on a processor did in a rollout, done again step by step from where they stood. Episodes
//! have ten steps and a rollout has 24, so that all of them end inside of it. The twin on a card is in `cuda/tests.rs`.

use super::super::collect::Block;
use super::super::cuda::tests::{HostPass, ppo};
use super::super::loss::log_probability;
use super::super::memory::state_of;
use super::super::training::{Group, Member};
use super::super::{Actions, Ended, Hypers, Reward};
use super::{BATCH, ENVS, begun, processor};
use compute::nets::Rows;
use compute::population::Precision;

#[test]
fn a_rollout_begins_anew_where_episodes_end() {
    for (layers, actions, reward) in [
        ("16t | 16t", Actions::Discrete, Reward::Drawdown(0.5)),
        ("lstm9-8t | lstm8", Actions::Discrete, Reward::Sharpe),
        ("lstm8 | 8t", Actions::Continuous, Reward::Drawdown(0.5)),
    ] {
        let ppo = ppo((actions, Precision::F32, layers, reward), ENVS, BATCH);
        let (mut training, mut ends) = (begun(&ppo, &processor()), 0);
        for _ in 0..3 {
            let states: Vec<Vec<f64>> = training.on_processor().2[0].iter().map(Block::state).collect();
            let params = training.nets().params(0).unwrap();
            training.update().unwrap();
            let (group, members, blocks) = training.on_processor();
            for (block, state) in blocks[0].iter().zip(&states) {
                let mut pass = HostPass::new(&group.net, Precision::F32, &params);
                ends += replay(group, &members[0], block, state, &mut pass);
            }
        }
        assert!(ends > 100, "{layers}: {ends} episodes end");
    }
}

fn near(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-4 * a.abs().max(1.0)
}

/// Holds a rollout to its definition; how many episodes ended in it.
fn replay(group: &Group, member: &Member, block: &Block, state: &[f64], pass: &mut HostPass) -> usize {
    let Hypers { n_steps, gamma, actions, reward, .. } = member.hypers;
    let (n, numbers, wide, r) = (block.len(), state_of(&group.net), actions.outputs() + 1, &block.rollout);
    let (folds, seed) = (&group.ppo.folds, group.episode_seed(member));
    let mut own = Block::new(&folds.data, &folds.train[0], block.accounts.clone(), &member.hypers, seed, numbers);
    assert!(own.restore(state));
    let Block { environment, carried, remembered, memory, .. } = &mut own;
    let mut values = |ids: &[u32], extras: &[f32], states: &mut [f32]| {
        let mut out = vec![0.0; ids.len() * wide];
        pass.run(Rows { tables: &group.tables, scales: &member.scales, ids, extras }, states, &mut out);
        out
    };
    assert_eq!(&r.began, memory, "what is remembered before the first step");
    let scale = (1.0 / (member.returns.deviation() + 1e-8)) as f32;
    let mut ends = 0;
    for t in 0..n_steps as usize {
        let (at, view) = (t * n, environment.view());
        assert_eq!(&r.rows[at..at + n], view.rows, "rows of step {t}");
        assert_eq!(&r.observed[at * view.observed.len() / n..][..view.observed.len()], view.observed, "step {t}");
        let out = values(view.rows, view.observed, memory);
        for (i, z) in out.chunks_exact(wide).enumerate() {
            let (legal, action) = (r.legal[at + i], r.action[at + i]);
            let sides = view.legal[3 * i..3 * i + 3].iter().enumerate();
            assert_eq!(legal, sides.fold(0, |bits, (side, legal)| bits | u8::from(*legal) << side));
            assert!(near(z[wide - 1], r.value[at + i]), "value of {i} at {t}: {} and {}", z[wide - 1], r.value[at + i]);
            assert!(near(log_probability(actions, z, legal, action), r.log_probability[at + i]), "{i} at {t}");
        }
        let target = |i: usize| match actions {
            Actions::Discrete => f64::from(r.action[at + i]) - 1.0,
            Actions::Continuous => super::super::continuous_target(r.action[at + i], r.legal[at + i]),
        };
        environment.step(&(0..n).map(target).collect::<Vec<f64>>());
        for i in 0..n {
            let ended = match (environment.terminated()[i], environment.truncated()[i]) {
                (true, _) => Ended::Terminated,
                (_, true) => Ended::Truncated,
                _ => Ended::Not,
            };
            assert_eq!(r.ended[at + i], ended, "{i} at {t}");
            let reward = reward.step(&mut remembered[i], environment.rewards()[i]) as f32;
            assert_eq!(r.reward[at + i], (reward * scale).clamp(-10.0, 10.0), "reward of {i} at {t}");
            carried[i] = f64::from(gamma).mul_add(carried[i], f64::from(reward));
            let states = &mut memory[i * numbers..(i + 1) * numbers];
            let cut = r.cut[at + i];
            if ended == Ended::Truncated {
                let (row, shown) = environment.last(i);
                let value = values(&[row], shown, &mut states.to_vec())[wide - 1];
                assert!(near(value, cut), "value of {i}, cut off at {t}: {value} and {cut}");
            } else {
                assert_eq!(cut, 0.0, "{i} at {t} is not cut off");
            }
            if ended != Ended::Not {
                (carried[i], remembered[i]) = Default::default();
                states.fill(0.0);
                ends += 1;
            }
        }
    }
    let view = environment.view();
    let last = values(view.rows, view.observed, &mut memory.clone());
    for (z, value) in last.chunks_exact(wide).zip(&r.last) {
        assert!(near(z[wide - 1], *value), "behind the last step: {} and {value}", z[wide - 1]);
    }
    assert_eq!(environment.state(), block.environment.state());
    assert_eq!((&*carried, &*remembered), (&block.carried, &block.remembered));
    assert!(memory.iter().zip(&block.memory).all(|(a, b)| near(*a, *b)), "what is remembered behind the last step");
    ends
}
