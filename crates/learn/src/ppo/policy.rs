//! What is deployed: of every row the fold that may decide, its seeds as one.
//!
//! Members give probabilities of short, flat and long, which are averaged, and the most probable is taken; of
//! continuous targets the middle is averaged. A member that stays flat counts as sure of flat.

use super::Actions;
use super::collect::{continuous_target, preferred};
use super::loss::{normal, softmax};
use super::memory::state_of;
use crate::failed;
use account::Action;
use compute::net::Layout;
use compute::nets::{Forward, Rows, Stepper};
use compute::population::{Precision, Scale};
use compute::{Net, Tables};
use files::{Error, Result};
use market::{Needs, OBSERVED, Policy, View};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// The members of one fold.
#[derive(Debug, Clone)]
pub struct FoldPolicy {
    /// Their net; its policy's head says what an action is.
    pub net: Net,
    /// `[inputs]` how its inputs are scaled.
    pub scales: Vec<Option<Scale>>,
    /// Weights of those that trade.
    pub members: Vec<Vec<f32>>,
    /// `[members]` the seed that each was trained with: what a member that searches draws depends on it.
    pub seeds: Vec<u32>,
    /// How many stay flat.
    pub flat: usize,
}

/// Who of a fold decides for an account that walks beside others ([`PpoPolicy::with_lanes`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deciders {
    /// Numbers of members.
    pub members: Vec<usize>,
    /// How many stay flat beside them.
    pub flat: usize,
}

/// Who decides about which rows, and how large a position may be.
pub(crate) struct Deciding {
    /// `[rows]` the fold that decides; none where nobody does.
    pub(crate) fold_of: Vec<Option<u16>>,
    /// The largest position of a row, as a share of equity: a portfolio divides it among its symbols.
    pub(crate) share: f64,
    /// `[slots][folds]` who decides for each slot; where it is empty, all members of a fold for all slots.
    pub(crate) lanes: Vec<Vec<Deciders>>,
}

impl Deciding {
    /// Who of a fold decides for a slot; none: all its members.
    pub(crate) fn deciders(&self, slot: u32, fold: usize) -> Option<&Deciders> {
        self.lanes.get(slot as usize).map(|lane| &lane[fold])
    }

    /// What an account of one symbol would be shown at a place.
    pub(crate) fn seen_alone(&self, view: &View<'_>, at: usize) -> [f32; OBSERVED] {
        seen_alone(&view.observed[at * OBSERVED..(at + 1) * OBSERVED], self.share)
    }

    /// Asks every fold for the targets of the places of a view that it decides on, at most so many at once.
    pub(crate) fn act(
        &self,
        view: &View<'_>,
        at_once: usize,
        actions: &mut [Action],
        mut decide: impl FnMut(usize, &[usize]) -> Result<Vec<f64>>,
    ) -> Result<()> {
        actions.fill(Action::target(f64::NAN));
        let fold_of = |at: usize| self.fold_of.get(view.rows[at] as usize).copied().flatten();
        // At one close all rows are mostly of one fold.
        let mut folds: Vec<u16> = (0..view.rows.len()).filter_map(fold_of).collect();
        folds.sort_unstable();
        folds.dedup();
        for fold in folds {
            let places: Vec<usize> = (0..view.rows.len()).filter(|at| fold_of(*at) == Some(fold)).collect();
            for places in places.chunks(at_once) {
                for (at, target) in places.iter().zip(decide(usize::from(fold), places)?) {
                    actions[*at] = Action::target(target * self.share);
                }
            }
        }
        Ok(())
    }
}

/// How the nets of a fold are gone through.
enum Pass {
    /// Row by row: `[threads]` memory that all members use in turn.
    Plain(Vec<Mutex<Forward>>),
    /// Step by step: `[members]`, each with its weights.
    Memory(Vec<Mutex<Stepper>>),
}

impl Pass {
    fn new(fold: &FoldPolicy) -> Result<Pass> {
        if !fold.net.has_memory() {
            return Pass::plain(fold, 1);
        }
        let member = |params: &Vec<f32>| {
            let mut stepper = Stepper::new(&fold.net, Precision::F32, STEPPED)?;
            stepper.take(params).map(|()| Mutex::new(stepper))
        };
        fold.members.iter().map(member).collect::<compute::Result<_>>().map(Pass::Memory).map_err(failed)
    }

    fn plain(fold: &FoldPolicy, threads: usize) -> Result<Pass> {
        let pass = |_| Forward::new(&fold.net, Precision::F32, if threads > 1 { PART } else { ROWS }).map(Mutex::new);
        (0..threads).map(pass).collect::<compute::Result<_>>().map(Pass::Plain).map_err(failed)
    }
}

/// Takes rows through a net, on all threads where there are several. A row's bits depend neither on its place nor on
/// its company.
fn run_plain(
    passes: &[Mutex<Forward>],
    pool: Option<&ThreadPool>,
    params: &[f32],
    rows: Rows<'_>,
    out: &mut [f32],
) -> compute::Result<()> {
    let run = |thread: usize, rows: Rows<'_>, out: &mut [f32]| {
        let mut pass = passes[thread].lock().unwrap_or_else(PoisonError::into_inner);
        pass.with(params).and_then(|mut net| net.run(rows, out))
    };
    let Some(pool) = pool else { return run(0, rows, out) };
    let n = rows.ids.len().max(rows.extras.len() / OBSERVED);
    let wide = out.len() / n.max(1);
    pool.install(|| {
        out.par_chunks_mut(PART * wide).enumerate().try_for_each(|(part, out)| {
            let own = part * PART..(part * PART + out.len() / wide);
            let ids = rows.ids.get(own.clone()).unwrap_or_default();
            let extras = &rows.extras[own.start * OBSERVED..own.end * OBSERVED];
            run(rayon::current_thread_index().unwrap_or(0), Rows { ids, extras, ..rows }, out)
        })
    })
}

/// Policies of folds as one.
pub struct PpoPolicy {
    tables: Arc<Tables>,
    folds: Vec<FoldPolicy>,
    deciding: Deciding,
    /// `[folds]` how its nets are gone through.
    passes: Vec<Pass>,
    /// For wide nets.
    pool: Option<ThreadPool>,
}

impl PpoPolicy {
    /// Policies on a processor; `share` is what a full position of one symbol is of the whole.
    ///
    /// # Errors
    ///
    /// Where a net is none.
    pub fn new(
        tables: &Arc<Tables>,
        folds: Vec<FoldPolicy>,
        fold_of: Vec<Option<u16>>,
        share: f64,
    ) -> Result<PpoPolicy> {
        let folds = folds.into_iter().map(FoldPolicy::without_value).collect::<Result<Vec<_>>>()?;
        let passes = folds.iter().map(Pass::new).collect::<Result<_>>()?;
        let deciding = Deciding { fold_of, share, lanes: Vec::new() };
        Ok(PpoPolicy { tables: Arc::clone(tables), folds, deciding, passes, pool: None })
    }

    /// The same members for accounts that walk side by side, `[slots][folds]` who decides for each: a net reads its
    /// weights once for all of them.
    pub fn with_lanes(self, lanes: Vec<Vec<Deciders>>) -> PpoPolicy {
        PpoPolicy { deciding: Deciding { lanes, ..self.deciding }, ..self }
    }

    /// The same on so many threads, where its nets are so wide that a thread is worth it.
    ///
    /// # Errors
    ///
    /// Where there is no memory or no thread for it.
    pub fn with_threads(mut self, threads: usize) -> Result<PpoPolicy> {
        let wide = |fold: &FoldPolicy| {
            fold.members.first().is_some_and(|params| params.len() >= WORTH_A_THREAD) && !fold.net.has_memory()
        };
        if threads < 2 || !self.folds.iter().any(wide) {
            return Ok(self);
        }
        for (pass, fold) in self.passes.iter_mut().zip(&self.folds).filter(|(_, fold)| !fold.net.has_memory()) {
            *pass = Pass::plain(fold, threads)?;
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("policy-{i}")).build();
        self.pool = Some(pool.map_err(|e| Error::new(files::Kind::Machine, format!("no threads for a policy: {e}")))?);
        Ok(self)
    }

    /// Numbers that are remembered of a slot: who decided about which row, and what each of its members remembers.
    fn memory(&self) -> usize {
        let each = |fold: &FoldPolicy| fold.members.len() * state_of(&fold.net);
        let most = self.folds.iter().map(each).max().unwrap_or(0);
        if most > 0 { OWN + most } else { 0 }
    }

    /// Makes a slot ready for a row: it goes on where the same fold decided about the row before, and begins anew
    /// elsewhere, as episodes do.
    fn ready(&self, fold: usize, row: u32, memory: &mut [f64]) {
        let (own, states) = memory.split_at_mut(OWN);
        let now = [fold as f64 + 1.0, f64::from(row) + 1.0];
        if own[0] != now[0] || own[1] + 1.0 != now[1] {
            states.fill(0.0);
        }
        own.copy_from_slice(&now);
    }

    /// Targets of rows that one fold decides on, for these slots; `memory` is that of all slots.
    fn decide(&self, fold: usize, asked: Asked<'_>, memory: &mut [f64]) -> Result<Vec<f64>> {
        let Asked { slots, ids, observed, legal } = asked;
        let own = &self.folds[fold];
        let kept = self.memory();
        if kept > 0 {
            slots
                .iter()
                .zip(ids)
                .for_each(|(slot, row)| self.ready(fold, *row, &mut memory[*slot as usize * kept..][..kept]));
        }
        let actions = Actions::of(&own.net);
        let deciders = |i: usize| self.deciding.deciders(slots[i], fold);
        let flat = |i: usize| deciders(i).map_or(own.flat, |own| own.flat);
        let mut sums: Vec<[f32; 3]> = (0..ids.len()).map(|i| [0.0, flat(i) as f32, 0.0]).collect();
        let mut middles = vec![0.0f64; ids.len()];
        let wide: usize = own.net.heads.iter().map(|head| head.classes).sum();
        for (number, params) in own.members.iter().enumerate() {
            let rows: Vec<usize> =
                (0..ids.len()).filter(|i| deciders(*i).is_none_or(|own| own.members.contains(&number))).collect();
            let some: Vec<u32> = rows.iter().map(|i| ids[*i]).collect();
            let extras: Vec<f32> =
                rows.iter().flat_map(|i| &observed[i * OBSERVED..(i + 1) * OBSERVED]).copied().collect();
            let mut out = vec![0.0; rows.len() * wide];
            let memory_of = |i: usize| {
                let state = state_of(&own.net);
                let first = slots[i] as usize * kept + OWN + number * state;
                first..first + state
            };
            let given = Rows { tables: &self.tables, scales: &own.scales, ids: &some, extras: &extras };
            match &self.passes[fold] {
                _ if rows.is_empty() => {}
                Pass::Plain(passes) => {
                    run_plain(passes, self.pool.as_ref(), params, given, &mut out).map_err(failed)?
                }
                Pass::Memory(steppers) => {
                    let mut stepper = steppers[number].lock().unwrap_or_else(PoisonError::into_inner);
                    let mut states: Vec<f32> = Vec::new();
                    rows.iter().for_each(|i| states.extend(memory[memory_of(*i)].iter().map(|x| *x as f32)));
                    stepper.step(given, &mut states, &mut out).map_err(failed)?;
                    for (i, state) in rows.iter().zip(states.chunks_exact(stepper.state())) {
                        memory[memory_of(*i)].iter_mut().zip(state).for_each(|(to, x)| *to = f64::from(*x));
                    }
                }
            }
            for (z, i) in out.chunks_exact(wide).zip(rows) {
                match actions {
                    Actions::Discrete => softmax(z, legal[i]).0.iter().zip(&mut sums[i]).for_each(|(p, sum)| *sum += p),
                    Actions::Continuous => middles[i] += continuous_target(normal(z).0, legal[i]),
                }
            }
        }
        let all = |i: usize| (deciders(i).map_or(own.members.len(), |own| own.members.len()) + flat(i)).max(1);
        Ok(match actions {
            Actions::Discrete => sums.iter().map(preferred).collect(),
            Actions::Continuous => middles.iter().enumerate().map(|(i, sum)| sum / all(i) as f64).collect(),
        })
    }
}

impl FoldPolicy {
    /// Without the tower of the value, which decides nothing; a value on a shared trunk stays.
    fn without_value(self) -> Result<FoldPolicy> {
        let [policy, _] = &self.net.towers[..] else { return Ok(self) };
        if policy.heads != 1 || !policy.reads.is_empty() {
            return Ok(self);
        }
        let heads = self.net.heads[..1].to_vec();
        let (trunk, towers) = match policy.recurrent.is_empty() {
            true => (policy.layers.clone(), Vec::new()),
            false => (Vec::new(), vec![policy.clone()]),
        };
        let net = Net { trunk, towers, heads, ..self.net.clone() };
        let (from, to) = (Layout::new(&self.net).map_err(failed)?, Layout::new(&net).map_err(failed)?);
        let name = |own: &str| own.strip_prefix("trunk.").map_or(own.to_string(), |layer| format!("tower.0.{layer}"));
        let members = self.members.iter().map(|params| compute::net::pick(&from, params, &to, &name)).collect();
        Ok(FoldPolicy { net, members, ..self })
    }
}

/// What an account of one symbol would be shown: policies have learned on such, and a portfolio shows a position as a
/// share of the whole.
fn seen_alone(observed: &[f32], share: f64) -> [f32; OBSERVED] {
    let mut own: [f32; OBSERVED] = observed.try_into().expect("an observation");
    SHARES.iter().for_each(|at| own[*at] = (f64::from(own[*at]) / share) as f32);
    own
}

/// What is asked about some rows.
#[derive(Clone, Copy)]
struct Asked<'a> {
    slots: &'a [u32],
    ids: &'a [u32],
    /// `[n, OBSERVED]`
    observed: &'a [f32],
    /// `[n]` bits of legal actions.
    legal: &'a [u8],
}

/// Numbers of a slot's memory in front of what its members remember: the fold that decided last, and the row.
const OWN: usize = 2;

/// Rows that go through a net with a memory at once.
const STEPPED: usize = 32;

/// What of an observation is a share of equity in one symbol: position, pending, margin used.
const SHARES: [usize; 3] = [0, 1, 5];

/// Rows that go through a net at once, on one thread and on each of several.
const ROWS: usize = 256;
const PART: usize = 16;

/// Parameters from which on a net is worth a thread.
const WORTH_A_THREAD: usize = 100_000;

/// Closes that a policy without a memory is asked about at once.
const CLOSES: usize = 64;

impl Policy for PpoPolicy {
    fn needs(&self) -> Needs {
        let memory = self.memory();
        Needs { account: true, memory, closes_at_once: if memory > 0 { 0 } else { CLOSES }, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()> {
        self.deciding.act(view, ROWS, actions, |fold, places| {
            let ids: Vec<u32> = places.iter().map(|at| view.rows[*at]).collect();
            let shown = |at: &usize| self.deciding.seen_alone(view, *at);
            let observed: Vec<f32> = places.iter().flat_map(shown).collect();
            let bits = |at: &usize| {
                let own = view.legal[at * 3..(at + 1) * 3].iter().enumerate();
                own.fold(0u8, |bits, (a, legal)| bits | u8::from(*legal) << a)
            };
            let legal: Vec<u8> = places.iter().map(bits).collect();
            let slots: Vec<u32> = places.iter().map(|at| view.slots[*at]).collect();
            self.decide(fold, Asked { slots: &slots, ids: &ids, observed: &observed, legal: &legal }, memory)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compute::{Budget, Choice, Opened};
    use market::OBSERVED_NAMES;
    use random::SplitMix;

    fn draws(n: usize, seed: u64) -> Vec<f32> {
        let mut random = SplitMix::new(seed);
        (0..n).map(|_| (random.below(2001) as f32 - 1000.0) / 4000.0).collect()
    }

    /// Wide and small nets, discrete and continuous, with towers and a shared trunk: what a member wants of a row is
    /// the same alone, among others, and with its value tower.
    #[test]
    fn a_row_alone_has_the_bits_of_a_row_among_others() {
        let opened = Opened::new(Choice::Cpu, 1).unwrap().0;
        let tables = Tables::new(&opened, Budget::default(), &[], &[]).unwrap();
        for layers in [
            "2048-1024-512 | 2048-1024-512 / policy:3 | value:1",
            "64t-64t | 64t-64t / policy:2 | value:1",
            "16 / policy:3 + value:1",
        ] {
            let net: Net = format!("account:dense{OBSERVED} / {layers}").parse().unwrap();
            let layout = Layout::new(&net).unwrap();
            let members: Vec<Vec<f32>> = (0..2).map(|seed| draws(layout.params, seed)).collect();
            let n = 39;
            let observed = draws(n * OBSERVED, 9);
            // As it is, value included.
            let mut whole = Forward::new(&net, Precision::F32, n).unwrap();
            let wide = whole.outputs();
            let mut plain = vec![vec![0.0f32; n * wide]; 2];
            for (params, out) in members.iter().zip(&mut plain) {
                let rows = Rows { tables: &tables, scales: &[], ids: &[], extras: &observed };
                whole.with(params).unwrap().run(rows, out).unwrap();
            }
            let fold = FoldPolicy { net: net.clone(), scales: Vec::new(), members, seeds: vec![0, 1], flat: 0 };
            let stripped = fold.clone().without_value().unwrap();
            assert_eq!(stripped.net.heads.len(), if layers.contains("16 /") { 2 } else { 1 });
            let mut pass = Forward::new(&stripped.net, Precision::F32, n).unwrap();
            let own = pass.outputs();
            for (at, params) in stripped.members.iter().enumerate() {
                for row in 0..n {
                    let mut out = vec![0.0; own];
                    let extras = &observed[row * OBSERVED..(row + 1) * OBSERVED];
                    let rows = Rows { tables: &tables, scales: &[], ids: &[], extras };
                    pass.with(params).unwrap().run(rows, &mut out).unwrap();
                    let bits = |z: &[f32]| z[..own.min(wide - 1)].iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&out), bits(&plain[at][row * wide..(row + 1) * wide]), "{layers}, row {row}");
                }
            }
            // Lanes: both members, each alone, one beside a flat one.
            let lanes = [(vec![0, 1], 0), (vec![0], 0), (vec![1], 0), (vec![1], 1)];
            let lanes = lanes.map(|(members, flat)| vec![Deciders { members, flat }]).to_vec();
            let policy = |members: &[usize], flat: usize| {
                let members = members.iter().map(|at| fold.members[*at].clone()).collect();
                let fold = FoldPolicy { members, flat, ..fold.clone() };
                PpoPolicy::new(&tables, vec![fold], vec![Some(0); 1], 1.0).unwrap()
            };
            let beside = policy(&[0, 1], 0).with_lanes(lanes.clone());
            // On several threads.
            let some = Asked { slots: &vec![0; n], ids: &vec![0; n], observed: &observed, legal: &vec![7; n] };
            let [one, three] = [1, 3].map(|threads| policy(&[0, 1], 0).with_threads(threads).unwrap());
            assert_eq!(three.pool.is_some(), layers.contains("2048"));
            let [one, three] = [one, three].map(|policy| policy.decide(0, some, &mut policy.start(1)).unwrap());
            assert_eq!(one, three, "{layers}");
            let shown: Vec<f32> = observed[..lanes.len() * OBSERVED].to_vec();
            let all = Asked { slots: &[0, 1, 2, 3], ids: &[0; 4], observed: &shown, legal: &[7; 4] };
            let targets = beside.decide(0, all, &mut beside.start(4)).unwrap();
            for (at, lane) in lanes.iter().enumerate() {
                let alone = policy(&lane[0].members, lane[0].flat);
                let own = &shown[at * OBSERVED..(at + 1) * OBSERVED];
                let own = Asked { slots: &[0], ids: &[0], observed: own, legal: &[7] };
                assert_eq!(
                    alone.decide(0, own, &mut alone.start(1)).unwrap(),
                    targets[at..at + 1],
                    "{layers}, lane {at}"
                );
            }
        }
    }

    #[test]
    fn shares_of_a_portfolio_are_seen_as_those_of_an_account_of_its_own() {
        let seen = seen_alone(&[0.25, -0.125, 1.5, 2.0, 0.1, 0.2, 0.5, 3.0], 0.25);
        assert_eq!(seen, [1.0, -0.5, 1.5, 2.0, 0.1, 0.8, 0.5, 3.0]);
        assert_eq!(SHARES.map(|at| OBSERVED_NAMES[at]), ["position", "pending", "margin_used"]);
    }
}
