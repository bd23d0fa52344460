//! A learner that is no classifier: REINFORCE on a bandit whose context is a row of the table.
//!
//! One of several actions has a reward of 1 at each row. The gradient at the outputs is `(p - a) (r - b) / rows` with
//! `b` a running mean of rewards, and a unit of work is an update of [`STEPS`] steps. On a card rows, actions, rewards
//! and that gradient are made by kernels of its own (`bandit.cu`), in a graph with the net's passes; [`draw`] and
//! [`play`] are their twins, equal to the bit for equal outputs.

use compute::cuda::{Array, Context, Graph, Grid, Image, Kernel, Module, Slab, Stream};
use compute::nets::{Batch, Hyper, Hypers, MemberSetup, Nets, OnCard, Setup, StepOptions};
use compute::population::{Pace, Pins, Rule};
use compute::random::{self, below, philox, uniform};
use compute::{Error, Opened, Result, Tables};
use features::Fold;
use learn::scale::{Scaler, fit, split_id};
use learn::{Config, DeviceBudget, Extent, Learner, MemberKey, Metrics, Problem, Progress, Score, Snapshot, Training};
use std::sync::Arc;

/// Steps of an update.
pub(crate) const STEPS: u32 = 20;

// What `compute::image!` is, but found from this file: another room's tests take it as it is.
pub(crate) static BANDIT: Image = Image::new(
    "bandit",
    Some(include_bytes!("../../kernels/bandit.ptx.gz")),
    &[
        ((8, 0), include_bytes!("../../kernels/bandit.sm_80.cubin.gz")),
        ((8, 6), include_bytes!("../../kernels/bandit.sm_86.cubin.gz")),
        ((8, 9), include_bytes!("../../kernels/bandit.sm_89.cubin.gz")),
        ((9, 0), include_bytes!("../../kernels/bandit.sm_90.cubin.gz")),
    ],
);

compute::arguments! {
    /// The rows of a step.
    pub(crate) struct Draw in "bandit.cu" {
        pub(crate) lists: Array<u32>,
        pub(crate) bounds: Array<u32>,
        pub(crate) members: Array<u32>,
        pub(crate) steps: Array<u32>,
        pub(crate) ids: Array<u32>,
        pub(crate) seed: u64,
        pub(crate) rows: u32,
    }
}

compute::arguments! {
    /// Actions, rewards and gradients of a step.
    pub(crate) struct Play in "bandit.cu" {
        pub(crate) out: Array<f32>,
        pub(crate) d_out: Array<f32>,
        pub(crate) ids: Array<u32>,
        pub(crate) best: Array<u32>,
        pub(crate) members: Array<u32>,
        pub(crate) steps: Array<u32>,
        pub(crate) mask: Array<u32>,
        pub(crate) baseline: Array<f32>,
        pub(crate) seed: u64,
        pub(crate) rows: u32,
        pub(crate) actions: u32,
    }
}

/// The twin of the kernel `draw` for one member: the rows of its step, out of its list.
pub(crate) fn draw(seed: u64, member: u32, step: u32, list: &[u32], rows: usize) -> impl Iterator<Item = u32> {
    let bits = move |row: usize| philox(seed, [row as u32, step, random::Stream::Start as u32, member])[0];
    (0..rows).map(move |row| list[below(bits(row), list.len() as u32) as usize])
}

/// The twin of the kernel `play` for one member: `z` `[rows, actions]` are outputs and become the gradient at them. The
/// baseline after the step.
pub(crate) fn play(seed: u64, member: u32, step: u32, rewarded: &[u32], baseline: f32, z: &mut [f32]) -> f32 {
    let (rows, actions) = (rewarded.len(), z.len() / rewarded.len().max(1));
    let mut won = 0;
    for (row, (z, best)) in z.chunks_exact_mut(actions).zip(rewarded).enumerate() {
        let most = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        z.iter_mut().for_each(|z| *z = exp_below_zero((*z - most).max(-80.0)));
        let total = z.iter().fold(0.0, |sum, z| sum + z);
        let bits = philox(seed, [row as u32, step, random::Stream::Action as u32, member])[0];
        let (drawn, mut sum) = (uniform(bits) * total, 0.0);
        let action = z[..actions - 1].iter().position(|z| {
            sum += z;
            drawn < sum
        });
        let action = action.unwrap_or(actions - 1);
        let reward = u32::from(action as u32 == *best);
        won += reward;
        let advantage = (reward as f32 - baseline) / rows as f32;
        for (a, z) in z.iter_mut().enumerate() {
            *z = (*z / total - if a == action { 1.0 } else { 0.0 }) * advantage;
        }
    }
    0.1f32.mul_add(won as f32 / rows as f32 - baseline, baseline)
}

/// e^x of x between -80 and 0, as the kernel computes it.
fn exp_below_zero(x: f32) -> f32 {
    let n = (x * f32::from_bits(0x3fb8_aa3b)).round_ties_even();
    let r = n.mul_add(f32::from_bits(0x395e_8083), n.mul_add(f32::from_bits(0xbf31_8000), x));
    let [c6, c5, c4, c3] = [0x3ab6_0b61, 0x3c08_8889, 0x3d2a_aaab, 0x3e2a_aaab].map(f32::from_bits);
    let p = [c5, c4, c3, 0.5, 1.0, 1.0].into_iter().fold(c6, |p, c| p.mul_add(r, c));
    p * f32::from_bits(((n as i32 + 127) as u32) << 23)
}

/// The learner.
#[derive(Clone)]
pub(crate) struct Bandit {
    problem: Arc<Problem>,
    configs: Vec<Config>,
    lists: Arc<Vec<[Vec<u32>; 2]>>, // [folds] ids to train on, ids to validate on
    best: Arc<Vec<u32>>,            // [ids] the action with a reward
    scalers: Vec<Scaler>,           // [folds]
    extent: Extent,
}

impl Bandit {
    /// Bandits of these folds; `best` `[ids]` is the action that has a reward, one of the net's outputs.
    pub(crate) fn new(
        problem: &Arc<Problem>,
        folds: &[Fold],
        configs: Vec<Config>,
        best: Vec<u32>,
        [seeds, units, patience]: [u32; 3],
    ) -> Bandit {
        let split = split_id(folds);
        let ids = |part: &[u32]| part.iter().map(|at| problem.samples.rows[*at as usize]).collect::<Vec<u32>>();
        Bandit {
            problem: Arc::clone(problem),
            configs,
            lists: Arc::new(folds.iter().map(|f| [ids(&f.train), ids(&f.valid)]).collect()),
            best: Arc::new(best),
            scalers: folds.iter().map(|fold| fit(problem, fold, split)).collect(),
            extent: Extent { folds: folds.len(), seeds, units, patience },
        }
    }

    /// The ids that a fold is validated on.
    pub(crate) fn valid(&self, fold: usize) -> &[u32] {
        &self.lists[fold][1]
    }

    fn member_setups(&self, members: &[MemberKey]) -> Vec<MemberSetup> {
        let scales = |fold: usize| self.scalers[fold].scales.iter().cloned().map(Some).collect();
        members.iter().map(|key| MemberSetup { id: key.id(), scales: scales(key.fold) }).collect()
    }

    fn setup(&self, config: &Config, rule: Option<Rule>) -> Setup {
        let (rows, precision, seed) = (config.recipe.batch, config.recipe.precision, config.recipe.seed);
        Setup { rows, precision, rule, seed, starts: Vec::new() }
    }

    /// The config whose net and recipe the members of a group share.
    fn shared(&self, members: &[MemberKey]) -> &Config {
        &self.configs[members.first().map_or(0, |key| self.alike(key.config))]
    }

    /// The share of rows at which the most preferred action has the reward.
    fn reward(&self, out: &[f32], ids: &[u32]) -> f64 {
        let actions = out.len() / ids.len().max(1);
        let best = |z: &[f32]| (0..actions).max_by(|a, b| z[*a].total_cmp(&z[*b])).unwrap_or(0) as u32;
        let right = out.chunks_exact(actions.max(1)).zip(ids).filter(|(z, id)| best(z) == self.best[**id as usize]);
        right.count() as f64 / ids.len().max(1) as f64
    }

    /// The same for a member's weights on ids it never saw.
    pub(crate) fn test(&self, at: &DeviceBudget, key: MemberKey, weights: &[f32], ids: &[u32]) -> Result<f64> {
        let config = &self.configs[key.config];
        let tables = self.problem.tables(&at.device, at.budget).map_err(|e| Error::Invalid(e.to_string()))?;
        let setup = self.setup(config, None);
        let member_setups = self.member_setups(&[key]);
        let mut nets =
            Nets::new(&at.device, at.budget, &config.net, &tables, &setup, &member_setups, &Pins::default())?;
        nets.set_params(0, weights)?;
        let mut out = [Vec::new()];
        nets.forward(0..1, Batch { rows: ids.len(), ids, extras: &[] }, &mut out)?;
        Ok(self.reward(&out[0], ids))
    }

    /// Bytes of a group's own arrays on a card.
    fn card_bytes(&self, members: &[MemberKey]) -> u64 {
        let lists: usize = self.lists.iter().map(|[train, _]| train.len()).sum();
        let rows = self.shared(members).recipe.batch;
        // Pieces begin at borders of 256 bytes at most.
        4 * (lists + self.best.len() + members.len() * (rows + 6)) as u64 + 16 * 256
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

    fn samples(&self, member: MemberKey) -> u64 {
        u64::from(STEPS) * self.configs[member.config].recipe.batch as u64
    }

    fn needs(&self, device: &Opened, members: &[MemberKey], _: Pace) -> Result<u64> {
        let config = self.shared(members);
        let nets =
            Nets::need(device, &config.net, &self.setup(config, Some(Rule::AdamW)), &self.member_setups(members))?;
        let own = self.card_bytes(members) + head_bytes(config, members.len());
        Ok(nets + if matches!(device, Opened::Cuda(_)) { own } else { 0 })
    }

    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        _: Pace,
        pins: &Pins,
    ) -> Result<Box<dyn Training>> {
        let (config, member_setups) = (self.shared(members), self.member_setups(members));
        let setup = self.setup(config, Some(Rule::AdamW));
        let mut nets = Nets::new(&at.device, at.budget, &config.net, tables, &setup, &member_setups, pins)?;
        let player = |key: &MemberKey| Player { key: *key, step: 0, active: true, due: false, baseline: 0.0 };
        let hyper = |key: &MemberKey| Hyper { rate: self.configs[key.config].rate, ..Hyper::default() };
        let hypers: Vec<Hyper> = members.iter().map(hyper).collect();
        let card = match &at.device {
            Opened::Cpu { .. } => None,
            Opened::Cuda(context) => Some(Card::new(context, self, members, &mut nets, &hypers)?),
        };
        let (rows, seed) = (config.recipe.batch, config.recipe.seed);
        let players = members.iter().map(player).collect();
        Ok(Box::new(Playing { bandit: self.clone(), nets, players, hypers, card, rows, seed }))
    }

    fn read_snapshot(&self, bytes: &[u8]) -> Result<Snapshot> {
        let short = || Error::Invalid("a snapshot of a bandit is shorter than its net".into());
        let (head, rows) = bytes.split_at_checked(16).ok_or_else(short)?;
        let id = word(head, 0);
        let key = |config: &usize| MemberKey { config: config + 1, fold: 0, seed: 0 }.id() > id;
        let config = (0..self.configs.len()).find(key).ok_or_else(short)?;
        let weights = rows.get(..4 * self.configs[config].params()?).ok_or_else(short)?;
        Ok(Snapshot { id, weights: floats(weights), bytes: bytes.to_vec() })
    }
}

/// What members that play on a card have there.
struct Card {
    stream: Stream,
    draw: (Kernel<Draw>, Grid, Draw),
    play: (Kernel<Play>, Grid, Play),
    hypers: Hypers,
    /// One step, once it was done without it.
    graph: Option<Graph>,
    bytes: u64,
}

impl Card {
    fn new(
        context: &Arc<Context>,
        bandit: &Bandit,
        members: &[MemberKey],
        nets: &mut Nets,
        hypers: &[Hyper],
    ) -> Result<Card> {
        let stream = Stream::new(context)?;
        let module = Module::load(context, &BANDIT)?;
        let recipe = &bandit.shared(members).recipe;
        let (rows, n, seed) = (recipe.batch, members.len(), recipe.seed);
        let mut slab = context.slab(bandit.card_bytes(members))?;
        let (mut lists, mut ends) = (Vec::new(), vec![0]);
        for [train, _] in bandit.lists.iter() {
            lists.extend_from_slice(train);
            ends.push(lists.len() as u32);
        }
        let bounds: Vec<u32> = members.iter().flat_map(|key| [ends[key.fold], ends[key.fold + 1]]).collect();
        let names: Vec<u32> = members.iter().map(|key| key.id()).collect();
        let keys = members;
        let [out, d_out] = [0, 1].map(|_| nets.head_arrays(rows));
        let (out, d_out) = (out?.remove(0), d_out?.remove(0));
        let members = array(&mut slab, &stream, &names)?;
        let steps = array(&mut slab, &stream, &vec![0u32; n])?;
        let ids = array(&mut slab, &stream, &vec![0u32; n * rows])?;
        let draw = Draw {
            lists: array(&mut slab, &stream, &lists)?,
            bounds: array(&mut slab, &stream, &bounds)?,
            members: members.clone(),
            steps: steps.clone(),
            ids: ids.clone(),
            seed,
            rows: rows as u32,
        };
        let play = Play {
            actions: (out.len() / (n * rows)) as u32,
            out,
            d_out,
            ids,
            best: array(&mut slab, &stream, &bandit.best)?,
            members,
            steps,
            mask: array(&mut slab, &stream, &vec![1u32; n])?,
            baseline: array(&mut slab, &stream, &vec![0f32; n])?,
            seed,
            rows: rows as u32,
        };
        let each = Grid { blocks: [n as u32, 1, 1], threads: [128, 1, 1], shared: 0 };
        Ok(Card {
            draw: (module.kernel("draw")?, Grid::row(n * rows, 128), draw),
            play: (module.kernel("play")?, each, play),
            hypers: nets.hypers(hypers)?,
            graph: None,
            bytes: slab.bytes() + head_bytes(bandit.shared(keys), keys.len()),
            stream,
        })
    }

    /// Puts a step on the stream: the first as it is, later ones as a graph.
    fn step(&mut self, nets: &mut Nets) -> Result<()> {
        if let Some(graph) = &self.graph {
            return graph.launch(&self.stream);
        }
        self.launch(nets)?;
        self.graph = Some(self.stream.capture(|| self.launch(nets))?);
        Ok(())
    }

    fn launch(&self, nets: &mut Nets) -> Result<()> {
        let Card { stream, draw, play, hypers, .. } = self;
        draw.0.launch(stream, draw.1, &draw.2)?;
        let ids = Some(&play.2.ids);
        nets.forward_on(
            stream,
            OnCard { rows: play.2.rows as usize, ids, extras: None },
            std::slice::from_ref(&play.2.out),
        )?;
        // It counts the step: what is drawn next is the next step's.
        play.0.launch(stream, play.1, &play.2)?;
        nets.backward_on(stream, std::slice::from_ref(&play.2.d_out))?;
        nets.optimise_on(stream, hypers, StepOptions { mask: Some(&play.2.mask), ..StepOptions::default() })
    }
}

/// Bytes of the outputs of so many members, and of the gradients at them.
fn head_bytes(config: &Config, members: usize) -> u64 {
    2 * 4 * (members * config.recipe.batch * config.net.heads[0].classes) as u64
}

fn array<T: compute::cuda::Plain>(slab: &mut Slab, stream: &Stream, from: &[T]) -> Result<Array<T>> {
    let made = slab.array(from.len())?;
    made.put(stream, from)?;
    Ok(made)
}

/// Members that play.
struct Playing {
    bandit: Bandit,
    nets: Nets,
    players: Vec<Player>,
    hypers: Vec<Hyper>, // [players]
    card: Option<Card>,
    rows: usize,
    seed: u64,
}

struct Player {
    key: MemberKey,
    step: u32,
    active: bool,
    due: bool,
    baseline: f32, // on a card it is there
}

impl Player {
    fn plays(&self) -> bool {
        self.active && !self.due
    }
}

impl Playing {
    fn at(&self, id: u32) -> Result<usize> {
        let at = self.players.iter().position(|p| p.key.id() == id);
        at.ok_or_else(|| Error::Invalid(format!("nobody is called {id}")))
    }

    /// Every member draws rows and actions, and learns from its rewards; those that wait stay as they are.
    fn step(&mut self) -> Result<()> {
        match &mut self.card {
            Some(card) => card.step(&mut self.nets)?,
            None => self.step_on_processor()?,
        }
        for player in self.players.iter_mut().filter(|p| p.plays()) {
            player.step += 1;
            player.due = player.step.is_multiple_of(STEPS);
        }
        Ok(())
    }

    fn step_on_processor(&mut self) -> Result<()> {
        let (rows, seed, bandit) = (self.rows, self.seed, &self.bandit);
        let mut ids = Vec::with_capacity(self.players.len() * rows);
        for Player { key, step, .. } in &self.players {
            ids.extend(draw(seed, key.id(), *step, &bandit.lists[key.fold][0], rows));
        }
        let mut out = [Vec::new()];
        self.nets.forward(0..self.players.len(), Batch { rows, ids: &ids, extras: &[] }, &mut out)?;
        let mut d_out = std::mem::take(&mut out[0]);
        let own = d_out.len() / self.players.len();
        for ((player, z), ids) in self.players.iter_mut().zip(d_out.chunks_exact_mut(own)).zip(ids.chunks_exact(rows)) {
            let rewarded: Vec<u32> = ids.iter().map(|id| bandit.best[*id as usize]).collect();
            let baseline = play(seed, player.key.id(), player.step, &rewarded, player.baseline, z);
            if player.plays() {
                player.baseline = baseline;
            }
        }
        self.nets.backward(&[&d_out])?;
        let mask: Vec<bool> = self.players.iter().map(Player::plays).collect();
        self.nets.optimise(&self.hypers, Some(&mask)).map(|_| ())
    }

    /// Brings what a card keeps of the members here.
    fn read_card(&mut self) -> Result<()> {
        let Some(card) = &self.card else { return Ok(()) };
        self.nets.settle()?;
        let baseline = card.play.2.baseline.get(&card.stream)?;
        self.players.iter_mut().zip(baseline).for_each(|(player, baseline)| player.baseline = baseline);
        Ok(())
    }
}

impl Training for Playing {
    fn memory(&self) -> u64 {
        self.nets.memory() + self.card.as_ref().map_or(0, |card| card.bytes)
    }

    fn kernel_paths(&self) -> Vec<String> {
        vec![
            if self.card.is_some() { "bandit, drawn and played in a graph" } else { "bandit, on the processor" }.into(),
        ]
    }

    fn pins(&self) -> Pins {
        self.nets.pins()
    }

    fn progress(&self) -> Vec<Progress> {
        let member = |p: &Player| Progress {
            id: p.key.id(),
            active: p.active,
            due: p.due,
            unit: p.step / STEPS,
            step: p.step,
            samples: u64::from(p.step) * self.rows as u64,
            fault: None,
        };
        self.players.iter().map(member).collect()
    }

    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>> {
        if let Some(card) = &self.card {
            let mask: Vec<u32> = self.players.iter().map(|p| u32::from(p.plays())).collect();
            card.play.2.mask.put(&card.stream, &mask)?;
        }
        for _ in 0..at_most {
            if self.players.iter().any(|p| p.due) || !self.players.iter().any(Player::plays) {
                break;
            }
            self.step()?;
        }
        self.read_card()?;
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        let mut scores = Vec::new();
        for (at, player) in self.players.iter_mut().enumerate().filter(|(_, p)| p.due) {
            let ids = self.bandit.valid(player.key.fold);
            let mut out = [Vec::new()];
            self.nets.forward(at..at + 1, Batch { rows: ids.len(), ids, extras: &[] }, &mut out)?;
            player.due = false;
            scores.push(Score {
                id: player.key.id(),
                unit: player.step / STEPS,
                step: player.step,
                score: self.bandit.reward(&out[0], ids),
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
        if let Some(Card { stream, play: (_, _, play), .. }) = &self.card {
            play.steps.part(at, 1)?.put(stream, &[player.step])?;
            play.baseline.part(at, 1)?.put(stream, &[player.baseline])?;
        }
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
