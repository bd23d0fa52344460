//! Accounts without nets: the seconds of their steps alone, and so the share that they have of an update or generation.
//!
//! On a processor they are stepped in blocks on threads, as a learner of policies holds them, or in lanes, as one that
//! evolves them does: looked at, shown to themselves, and stepped, with the same few spans for all. On a card they are
//! walked by `walk_lean` of the account's twin, a thread each, with bars of their own and the digest that the twin
//! makes of every step: both are more than a learner does, so what is said there is an upper limit.

use account::{Account, Accounts, Action, Bar};
use compute::cuda::{Array, Context, Grid, Image, Kernel, Module, Stream};
use features::Fold;
use market::{Environment, EpisodeData, observe_lanes};
use random::SplitMix;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Steps of an episode on a processor.
const EPISODE: u32 = 1000;
/// Steps of one launch, and the most accounts of one on a card: their bars lie in its memory.
const TOGETHER: usize = 32;
const AT_ONCE: usize = 1 << 17;

static TWIN: Image = Image::new(
    "twin",
    Some(include_bytes!("../../crates/account/kernels/twin.ptx.gz")),
    &[((9, 0), include_bytes!("../../crates/account/kernels/twin.sm_90.cubin.gz"))],
);

compute::arguments! {
    /// Accounts over their bars.
    struct Walk in "../../crates/account/src/tests/twin.cu" {
        params: Array<f64>,
        bars: Array<f64>,
        actions: Array<f64>,
        state: Array<f64>,
        rewards: Array<f64>,
        digests: Array<u64>,
        n: u64,
        steps: u64,
    }
}

/// Seconds in which so many accounts take so many steps on threads: the least of three.
pub(crate) fn on_threads(accounts: u32, steps: u32, data: &Arc<EpisodeData>, fold: &Fold, threads: usize) -> f64 {
    const BLOCK: u32 = 64;
    let stretch = fold.train[0]..fold.train[fold.train.len() - 1] + 1;
    let world = |first| {
        let numbers = first..accounts.min(first + BLOCK);
        Environment::new(data, std::slice::from_ref(&stretch), numbers, EPISODE, 1)
    };
    let mut worlds: Vec<Environment> = (0..accounts).step_by(BLOCK as usize).map(world).collect();
    let mut random = SplitMix::new(1);
    let targets: Vec<f64> = (0..64 * BLOCK).map(|_| side(&mut random)).collect();
    let each = worlds.len().div_ceil(threads.max(1)).max(1);
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let clock = Instant::now();
        std::thread::scope(|scope| {
            for worlds in worlds.chunks_mut(each) {
                scope.spawn(|| {
                    for world in worlds {
                        let n = world.view().rows.len();
                        for step in 0..steps {
                            let at = (step % 64 * BLOCK) as usize;
                            world.step(&targets[at..at + n]);
                        }
                    }
                });
            }
        });
        best = best.min(clock.elapsed().as_secs_f64());
    }
    best
}

/// Seconds in which so many accounts take so many steps in lanes, some at a time, on threads: the least of three.
pub(crate) fn in_lanes(accounts: usize, steps: usize, data: &EpisodeData, threads: usize) -> f64 {
    const SOME: usize = 32;
    let table = data.table();
    let mut random = SplitMix::new(1);
    let targets: Vec<f64> = (0..64 * SOME).map(|_| side(&mut random)).collect();
    let log_held: Vec<f32> = (0..=steps).map(|bars| account::ln_1p(bars as f64) as f32).collect();
    let mut groups: Vec<(Accounts, Vec<u32>)> = (0..accounts.div_ceil(SOME))
        .map(|_| {
            let spans: [u32; 4] = std::array::from_fn(|_| random.below(table.bars.len() - steps - 1) as u32);
            let rows = spans.into_iter().cycle().take(SOME).collect();
            (Accounts::new(&vec![table.params[0]; SOME]).with_rewards(), rows)
        })
        .collect();
    let each = groups.len().div_ceil(threads.max(1)).max(1);
    let walk = |accounts: &mut Accounts, first: &[u32]| {
        let (mut rows, mut rewards) = (first.to_vec(), vec![0.0; SOME]);
        for step in 0..steps {
            accounts.place(&table.bars, &rows);
            for seen in accounts.seen() {
                black_box(observe_lanes(&seen, &log_held));
            }
            let at = step % 64 * SOME;
            accounts.step_placed(&targets[at..at + SOME]);
            accounts.rewards(&mut rewards);
            rows.iter_mut().for_each(|row| *row += 1);
        }
        black_box(rewards);
    };
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        groups.iter_mut().for_each(|(accounts, _)| (0..SOME).for_each(|i| accounts.reset(i)));
        let clock = Instant::now();
        std::thread::scope(|scope| {
            for groups in groups.chunks_mut(each) {
                scope.spawn(|| groups.iter_mut().for_each(|(accounts, rows)| walk(accounts, rows)));
            }
        });
        best = best.min(clock.elapsed().as_secs_f64());
    }
    best
}

/// Seconds in which so many accounts take so many steps on a card: the least of four.
pub(crate) fn on_card(
    context: &Arc<Context>,
    data: &EpisodeData,
    accounts: usize,
    steps: usize,
) -> Result<f64, String> {
    let (n, together) = (accounts.min(AT_ONCE), steps.min(TOGETHER));
    let bars = &data.table().bars;
    let mut random = SplitMix::new(1);
    let mut rows = Vec::with_capacity(n * (together + 1) * Bar::NUMBERS);
    for _ in 0..n {
        let first = random.below(bars.len() - together);
        rows.extend(bars[first..=first + together].iter().flat_map(Bar::numbers));
    }
    let decided = |_| {
        let Action { target, stop, limit } = Action::target(side(&mut random));
        [target, stop, limit]
    };
    let decided: Vec<f64> = (0..n * together).flat_map(decided).collect();
    let params = data.params(0);
    let state: Vec<f64> = Account::new(params).numbers().into_iter().flat_map(|x| std::iter::repeat_n(x, n)).collect();
    let stream = Stream::new(context).map_err(text)?;
    let put = |values: Vec<f64>| super::ppo::stream_array(&stream, values);
    let held = put(state.clone())?;
    let walk = Walk {
        params: put(params.numbers().repeat(n))?,
        bars: put(rows)?,
        actions: put(decided)?,
        state: held.clone(),
        rewards: put(vec![0.0; n * together])?,
        digests: super::ppo::stream_array(&stream, vec![0u64; n * together])?,
        n: n as u64,
        steps: together as u64,
    };
    let module = Module::load(context, &TWIN).map_err(text)?;
    let kernel: Kernel<Walk> = module.kernel("walk_lean").map_err(text)?;
    let launches = steps.div_ceil(together) * accounts.div_ceil(n);
    let mut best = f64::INFINITY;
    for _ in 0..4 {
        held.put(&stream, &state).map_err(text)?;
        stream.wait().map_err(text)?;
        let clock = Instant::now();
        for _ in 0..launches {
            kernel.launch(&stream, Grid::row(n, 64), &walk).map_err(text)?;
        }
        stream.wait().map_err(text)?;
        best = best.min(clock.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn side(random: &mut SplitMix) -> f64 {
    [-1.0, 0.0, 1.0][random.below(3)]
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
