//! A learner that is none of ours: REINFORCE on a bandit whose context is a row of the table. It trains, is cut, goes
//! on and is timed by what trains classifiers, which knows nothing of it.
//!
//! An action is one of three; its reward is 1 where it is the row's class. The gradient at the outputs is
//! `(p - a) (r - b) / rows` with `b` a running mean of rewards, and a unit of work is an update of [`STEPS`] steps.

use crate::made::{self, Made};
use compute::nets::{Batch, Hyper, Nets, Seat, Setup};
use compute::population::{Pace, Pins, Rule};
use compute::random::{below, philox, uniform};
use compute::{Budget, Choice, Error, Opened, Result, Tables};
use learn::scale::{Scaler, fit, split_id};
use learn::{
    Config, DeviceBudget, Extent, Hooks, Learner, MemberKey, Metrics, Outcome, Pacer, Plan, Problem, Progress,
    RunEvent, Score, Snapshot, Stopped, TrainState, Training, train,
};
use std::cell::Cell;
use std::sync::Arc;

/// Steps of an update.
const STEPS: u32 = 20;

#[derive(Clone)]
struct Bandit {
    problem: Arc<Problem>,
    configs: Vec<Config>,
    lists: Arc<Vec<[Vec<u32>; 2]>>, // [folds] rows to train on, rows to validate on
    scalers: Vec<Scaler>,           // [folds]
    extent: Extent,
}

impl Bandit {
    fn new(made: &Made, units: u32) -> Bandit {
        let configs = made::spec("8-16-3").configs;
        let split = split_id(&made.folds);
        Bandit {
            problem: Arc::clone(&made.problem),
            configs,
            lists: Arc::new(made.folds.iter().map(|f| [f.train.clone(), f.valid.clone()]).collect()),
            scalers: made.folds.iter().map(|fold| fit(&made.problem, fold, split)).collect(),
            extent: Extent { folds: made.folds.len(), seeds: 2, units, patience: units },
        }
    }

    fn seats(&self, members: &[MemberKey]) -> Vec<Seat> {
        let scales = |fold: usize| self.scalers[fold].scales.iter().cloned().map(Some).collect();
        members.iter().map(|key| Seat { id: key.id(), scales: scales(key.fold) }).collect()
    }

    fn setup(&self) -> Setup {
        let recipe = &self.configs[0].recipe;
        let (rows, precision, seed) = (recipe.batch, recipe.precision, recipe.seed);
        Setup { rows, precision, rule: Some(Rule::AdamW), seed, starts: Vec::new() }
    }
}

impl Learner for Bandit {
    fn unit(&self) -> &'static str {
        "update"
    }

    fn configs(&self) -> &[Config] {
        &self.configs
    }

    fn problem(&self) -> &Problem {
        &self.problem
    }

    fn extent(&self) -> Extent {
        self.extent
    }

    fn scalers(&self) -> &[Scaler] {
        &self.scalers
    }

    fn with(&self, configs: Vec<Config>, units: u32) -> Box<dyn Learner> {
        Box::new(Bandit { configs, extent: Extent { units, ..self.extent }, ..self.clone() })
    }

    fn samples(&self, _: MemberKey) -> u64 {
        u64::from(STEPS) * self.configs[0].recipe.batch as u64
    }

    fn needs(&self, device: &Opened, members: &[MemberKey], _: Pace) -> Result<u64> {
        Nets::need(device, &self.configs[0].net, &self.setup(), &self.seats(members))
    }

    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        _: Pace,
        pins: &Pins,
    ) -> Result<Box<dyn Training>> {
        let (net, seats) = (&self.configs[0].net, self.seats(members));
        let nets = Nets::new(&at.device, at.budget, net, tables, &self.setup(), &seats, pins)?;
        let player = |key: &MemberKey| Player { key: *key, step: 0, active: true, due: false, baseline: 0.0 };
        Ok(Box::new(Play { bandit: self.clone(), nets, players: members.iter().map(player).collect() }))
    }

    fn read_snapshot(&self, bytes: &[u8]) -> Result<Snapshot> {
        let short = || Error::Asked("a snapshot of a bandit is shorter than its net".into());
        let (head, rows) = bytes.split_at_checked(16).ok_or_else(short)?;
        let params = self.configs[0].params()?;
        let weights = rows.get(..4 * params).ok_or_else(short)?;
        Ok(Snapshot { id: word(head, 0), weights: floats(weights), bytes: bytes.to_vec() })
    }
}

/// Members that play.
struct Play {
    bandit: Bandit,
    nets: Nets,
    players: Vec<Player>,
}

struct Player {
    key: MemberKey,
    step: u32,
    active: bool,
    due: bool,
    baseline: f32,
}

impl Player {
    fn plays(&self) -> bool {
        self.active && !self.due
    }
}

impl Play {
    fn at(&self, id: u32) -> Result<usize> {
        let at = self.players.iter().position(|p| p.key.id() == id);
        at.ok_or_else(|| Error::Asked(format!("nobody is called {id}")))
    }

    /// Every member draws rows and actions, and learns from its rewards; those that wait stay as they are.
    fn step(&mut self) -> Result<()> {
        let Bandit { problem, configs, lists, .. } = &self.bandit;
        let (rows, seed) = (configs[0].recipe.batch, configs[0].recipe.seed);
        let draw = |p: &Player, row: usize, what: u32| philox(seed, [p.step, row as u32, p.key.id(), what])[0];
        let mut ids = Vec::with_capacity(self.players.len() * rows);
        for player in &self.players {
            let list = &lists[player.key.fold][0];
            ids.extend((0..rows).map(|row| list[below(draw(player, row, 0), list.len() as u32) as usize]));
        }
        let mut out = [Vec::new()];
        self.nets.forward(0..self.players.len(), Batch { rows, ids: &ids, extras: &[] }, &mut out)?;
        let mut d_out = std::mem::take(&mut out[0]);
        for ((member, player), ids) in self.players.iter_mut().enumerate().zip(ids.chunks_exact(rows)) {
            let mut sum = 0.0;
            for (row, id) in ids.iter().enumerate() {
                let z = &mut d_out[(member * rows + row) * 3..][..3];
                let most = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                z.iter_mut().for_each(|z| *z = (*z - most).exp());
                let total: f32 = z.iter().sum();
                let mut left = uniform(draw(player, row, 1)) * total;
                let action = (0..2)
                    .find(|a| {
                        left -= z[*a];
                        left < 0.0
                    })
                    .unwrap_or(2);
                let reward = f32::from(u8::from(action == usize::from(problem.class_index(*id))));
                sum += reward;
                let advantage = (reward - player.baseline) / rows as f32;
                for (a, z) in z.iter_mut().enumerate() {
                    *z = (*z / total - f32::from(u8::from(a == action))) * advantage;
                }
            }
            if player.plays() {
                player.baseline += 0.1 * (sum / rows as f32 - player.baseline);
            }
        }
        self.nets.backward(&[&d_out])?;
        let mask: Vec<bool> = self.players.iter().map(Player::plays).collect();
        let hyper = Hyper { rate: configs[0].rate, ..Hyper::default() };
        self.nets.optimise(&vec![hyper; mask.len()], Some(&mask))?;
        for player in self.players.iter_mut().filter(|p| p.plays()) {
            player.step += 1;
            player.due = player.step.is_multiple_of(STEPS);
        }
        Ok(())
    }
}

impl Training for Play {
    fn memory(&self) -> u64 {
        self.nets.memory()
    }

    fn kernel_paths(&self) -> Vec<String> {
        Vec::new()
    }

    fn pins(&self) -> Pins {
        self.nets.pins()
    }

    fn progress(&self) -> Vec<Progress> {
        let rows = self.bandit.configs[0].recipe.batch as u64;
        let member = |p: &Player| Progress {
            id: p.key.id(),
            active: p.active,
            due: p.due,
            unit: p.step / STEPS,
            step: p.step,
            samples: u64::from(p.step) * rows,
            fault: None,
        };
        self.players.iter().map(member).collect()
    }

    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>> {
        for _ in 0..at_most {
            if self.players.iter().any(|p| p.due) || !self.players.iter().any(Player::plays) {
                break;
            }
            self.step()?;
        }
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        let mut scores = Vec::new();
        for (at, player) in self.players.iter_mut().enumerate().filter(|(_, p)| p.due) {
            let ids = &self.bandit.lists[player.key.fold][1];
            let mut out = [Vec::new()];
            self.nets.forward(at..at + 1, Batch { rows: ids.len(), ids, extras: &[] }, &mut out)?;
            let best = |z: &[f32]| (0..3).max_by(|a, b| z[*a].total_cmp(&z[*b])).unwrap_or(0);
            let right = ids.iter().zip(out[0].chunks_exact(3));
            let right = right.filter(|(id, z)| best(z) == usize::from(self.bandit.problem.class_index(**id))).count();
            player.due = false;
            scores.push(Score {
                id: player.key.id(),
                unit: player.step / STEPS,
                step: player.step,
                score: right as f64 / ids.len() as f64,
                metrics: Metrics::new(&[("train_reward", f64::from(player.baseline))]),
            });
        }
        Ok(scores)
    }

    fn skip_validation(&mut self) -> Result<()> {
        self.players.iter_mut().for_each(|p| p.due = false);
        Ok(())
    }

    fn weights(&mut self, id: u32) -> Result<Vec<f32>> {
        let at = self.at(id)?;
        self.nets.params(at)
    }

    fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        let at = self.at(id)?;
        let (weights, (mean, square, taken)) = (self.nets.params(at)?, self.nets.optimiser(at)?);
        let player = &self.players[at];
        let head = [id, player.step, player.baseline.to_bits(), taken];
        let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend([&weights, &mean, &square].into_iter().flatten().flat_map(|x| x.to_le_bytes()));
        Ok(Snapshot { id, weights, bytes })
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let at = self.at(snapshot.id)?;
        let (head, rows) = snapshot.bytes.split_at(16);
        let rows = floats(rows);
        let [params, mean, square] = [0, 1, 2].map(|k| &rows[k * rows.len() / 3..(k + 1) * rows.len() / 3]);
        self.nets.set_params(at, params)?;
        self.nets.set_optimiser(at, mean, square, word(head, 3))?;
        let player = &mut self.players[at];
        (player.step, player.baseline) = (word(head, 1), f32::from_bits(word(head, 2)));
        Ok(())
    }

    fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        let (from, to) = (self.at(from)?, self.at(to)?);
        self.nets.adopt(from, to)
    }

    fn stop(&mut self, id: u32) -> Result<()> {
        let at = self.at(id)?;
        (self.players[at].active, self.players[at].due) = (false, false);
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[4 * at..][..4].try_into().unwrap())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
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
            let parts = state.parts();
            let read = |name: &str| Ok(parts.iter().find(|p| p.0 == name).unwrap().1.clone());
            kept = Some(TrainState::from_parts(&read, bandit)?);
            Ok(())
        },
        every: 2,
    };
    let outcome = train(bandit, &Plan::new(bandit, at).unwrap(), at, from, hooks).unwrap();
    (outcome, kept.unwrap())
}

#[test]
fn another_learner_is_trained_by_the_same_loop() {
    let made = made::rows(21, 900, 2.0);
    let bandit = Bandit::new(&made, 6);
    let (whole, _) = run(&bandit, &cpu(1, Budget::default()), None, u32::MAX);
    for member in &whole.members {
        let rewards: Vec<f64> = member.history.iter().filter_map(|v| v.score).collect();
        assert_eq!((rewards.len(), &member.stopped), (6, &Some(Stopped::Limit)));
        let best = member.best.as_ref().unwrap();
        assert!(best.score > 0.6 && best.score > rewards[0], "chance is a third: {rewards:?}");
        assert!(member.history[5].metrics.get("train_reward").is_some_and(|mean| mean > 0.4), "{member:?}");
    }
    // Cut again and again, with other threads and in groups of fewer members, it ends with the same bits.
    let few = |threads: usize| {
        let whole = Plan::new(&bandit, &cpu(threads, Budget::default())).unwrap();
        let at = cpu(threads, Budget::Bytes(whole.groups[0].bytes - 1));
        assert!(Plan::new(&bandit, &at).unwrap().groups.len() > 1);
        at
    };
    let (mut outcome, mut state) = run(&bandit, &cpu(2, Budget::default()), None, 2);
    let mut cuts = 0;
    while outcome.interrupted {
        cuts += 1;
        assert!(cuts < 500, "it goes on");
        (outcome, state) = run(&bandit, &few(1 + cuts % 2), Some(state), 2);
    }
    assert!(cuts > 3);
    assert_eq!(outcome.members, whole.members);
    assert_eq!(state.members, whole.members);
}

#[test]
fn another_learner_is_timed_and_its_members_adopt_one_another() {
    let made = made::rows(22, 300, 1.0);
    let (bandit, at) = (Bandit::new(&made, u32::MAX), cpu(2, Budget::default()));
    let members = Plan::new(&bandit, &at).unwrap().members;
    let mut pacer = Pacer::new(&bandit, &at, &members[..2]).unwrap();
    assert_eq!(pacer.advance(STEPS + 5).unwrap(), 2 * 64 * u64::from(STEPS + 5));

    let tables = bandit.problem().tables(&at.device, at.budget).unwrap();
    let mut training = bandit.begin(&at, &tables, &members[..2], Pace::default(), &Pins::default()).unwrap();
    training.advance(3).unwrap();
    let [first, second] = [members[0].id(), members[1].id()];
    assert_ne!(training.weights(first).unwrap(), training.weights(second).unwrap());
    training.adopt(first, second).unwrap();
    assert_eq!(training.weights(first).unwrap(), training.weights(second).unwrap());
    // It stays who it is: other rows and actions make another net of it.
    training.advance(1).unwrap();
    assert_ne!(training.weights(first).unwrap(), training.weights(second).unwrap());
}
