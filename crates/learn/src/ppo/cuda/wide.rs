//! The rollout of a wide policy with few accounts: one kernel whose blocks keep the policy's weights (`ppo_wide.cu`).
//!
//! Whether it serves depends on the net, the accounts of a member and the card, never on how many members there are:
//! its sums have another order than the passes'. How many members, accounts and blocks go together is a matter of pace.

use super::super::Ppo;
use super::super::training::{Group, Member};
use super::arguments::WideRollout;
use super::arrays::Arrays;
use super::passes::policy_alone;
use super::small::{policy_net, towers};
use crate::MemberKey;
use compute::cuda::{Array, Context, Grid, Image, Kernel, Module, Slab, Stream};
use compute::net::{Activation, Linear};
use compute::population::Precision;
use compute::{Error, Result, image};
use std::sync::Arc;

static PPO_WIDE: Image = image!("ppo_wide");

/// As `ppo_wide.cu` has them.
const THREADS: u32 = 256;
const TILE: usize = 8;
const SCRATCH: usize = (2 * 2 * 8 + 8) * 128 * 4;
/// Accounts of a member, at most: with more, passes of the whole batch are faster.
const ACCOUNTS: usize = 64;
/// The widest layer and the widest input.
const WIDEST: usize = 4096;
const INPUT: usize = 248;

/// How the card is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Division {
    /// Members of a launch.
    at_once: usize,
    /// Groups of a member.
    groups: usize,
    /// Tiles of a group.
    tiles: usize,
    /// Blocks of a group that multiply.
    blocks: usize,
    /// Bytes of a block's shared memory.
    shared: usize,
    /// Words of a tile in the exchange.
    words: usize,
}

/// What a card has of what counts here.
#[derive(Debug, Clone, Copy)]
struct Room {
    multiprocessors: usize,
    shared: usize,
}

/// How these members' rollouts run, where this kernel serves them.
pub(super) fn division(context: &Context, ppo: &Ppo, keys: &[MemberKey]) -> Option<Division> {
    let (config, shape) = ppo.shared(keys);
    let rows = (shape.n_envs * shape.n_steps) as usize;
    if config.recipe.precision != Precision::Bf16 || policy_alone(&config.net, rows, config.recipe.batch).is_none() {
        return None;
    }
    let [policy, _] = towers(&config.net, WIDEST, INPUT)?;
    let gpu = context.gpu();
    let room = Room { multiprocessors: gpu.multiprocessors as usize, shared: gpu.shared as usize };
    divide(&policy, shape.n_envs as usize, keys.len(), room)
}

/// Few members at once and few accounts to a group, so that a step is short; but all members, if they fit.
fn divide(policy: &[Linear], accounts: usize, members: usize, room: Room) -> Option<Division> {
    let (head, hidden) = policy.split_last()?;
    let bounded = |l: &Linear| matches!(l.activation, Activation::Relu | Activation::Tanh);
    if accounts > ACCOUNTS || !hidden.iter().all(bounded) {
        return None;
    }
    let steps = |width: usize| width.div_ceil(16);
    let words =
        128 * (steps(hidden[0].input.width) + hidden.iter().map(|l| steps(l.output.width).div_ceil(2)).sum::<usize>());
    let shared = |blocks: usize| {
        let own = |l: &Linear| steps(l.output.width).div_ceil(blocks) * steps(l.input.width).next_multiple_of(2) * 512;
        let of_accounts = steps(head.input.width).div_ceil(2) * 4 * 3 * 16;
        (hidden.iter().map(own).sum::<usize>() + SCRATCH).max(of_accounts)
    };
    let most = hidden.iter().map(|l| steps(l.output.width)).max()?;
    let all_tiles = accounts.div_ceil(TILE);
    for at_once in (1..=members).rev() {
        for tiles in [1, 2, 4, 8].into_iter().filter(|tiles| *tiles < 2 * all_tiles) {
            let groups = all_tiles.div_ceil(tiles);
            let left = (room.multiprocessors / (at_once * groups)).saturating_sub(tiles);
            let blocks = left.min(most);
            if blocks > 0 && shared(blocks) <= room.shared {
                return Some(Division { at_once, groups, tiles, blocks, shared: shared(blocks), words });
            }
        }
    }
    None
}

impl Division {
    fn exchange(&self) -> usize {
        self.at_once * self.groups * self.tiles * self.words
    }

    /// Bytes of what the kernel needs on the card.
    pub(super) fn bytes(&self, members: usize, features: usize) -> u64 {
        (4 * (self.exchange() + 2 * members * features) + 4 * 256) as u64
    }
}

/// The kernel and what it takes.
pub(super) struct Wide {
    kernel: Kernel<WideRollout>,
    launches: Vec<(Grid, WideRollout)>,
    exchange: Array<u32>,
    _slab: Slab,
}

impl Wide {
    pub(super) fn new(
        context: &Arc<Context>,
        stream: &Stream,
        group: &mut Group,
        members: &[Member],
        a: &Arrays,
        division: Division,
    ) -> Result<Wide> {
        let Division { at_once, groups, tiles, blocks, shared, .. } = division;
        let none = || Error::Invalid("the net is none of the wide ones".into());
        let towers = towers(&group.net, WIDEST, INPUT).ok_or_else(none)?;
        let mut slab = context.slab(division.bytes(members.len(), group.net.inputs[0].features))?;
        let net = policy_net(stream, group, members, &mut slab, &towers)?;
        let kernel = Module::load(context, &PPO_WIDE)?.kernel("rollout_wide")?;
        kernel.allow_shared(shared as u32)?;
        let exchange: Array<u32> = slab.array(division.exchange())?;
        let launch = |first: usize| {
            let some = at_once.min(members.len() - first);
            let grid = Grid {
                blocks: [(some * groups * (blocks + tiles)) as u32, 1, 1],
                threads: [THREADS, 1, 1],
                shared: shared as u32,
            };
            let given = WideRollout {
                table: a.table.clone(),
                members: a.members.clone(),
                standing: a.standing.clone(),
                seen: a.seen.clone(),
                net: net.clone(),
                exchange: exchange.clone(),
                first: first as u32,
                groups: groups as u32,
                blocks: blocks as u32,
                tiles: tiles as u32,
            };
            (grid, given)
        };
        let launches = (0..members.len()).step_by(at_once).map(launch).collect();
        Ok(Wide { kernel, launches, exchange, _slab: slab })
    }

    /// All steps of all accounts.
    pub(super) fn rollout(&self, stream: &Stream) -> Result<()> {
        self.launches.iter().try_for_each(|(grid, given)| {
            // Words of another rollout are of none of this one's steps.
            self.exchange.fill(stream, 0)?;
            self.kernel.launch_at_once(stream, *grid, given)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compute::net::Layout;

    fn policy(net: &str) -> Vec<Linear> {
        let net: compute::Net = net.parse().unwrap();
        Layout::new(&net).unwrap();
        towers(&net, WIDEST, INPUT).unwrap()[0].clone()
    }

    #[test]
    fn a_card_is_divided_by_what_fits() {
        let wide = policy("row:62 + account:dense8 / 2048-1024-512 | 2048-1024-512 / policy:3 | value:1");
        let h200 = Room { multiprocessors: 132, shared: 232_448 };
        let of = |accounts, members, room| {
            divide(&wide, accounts, members, room).map(|d| [d.at_once, d.groups, d.tiles, d.blocks])
        };
        assert_eq!(of(32, 1, h200), Some([1, 4, 1, 32]));
        assert_eq!(of(8, 1, h200), Some([1, 1, 1, 128]));
        assert_eq!(of(64, 1, h200), Some([1, 2, 4, 62]));
        assert_eq!(of(32, 2, h200), Some([2, 1, 4, 62]));
        // As many members at once as there is room for, and the others behind them.
        assert_eq!(of(32, 15, h200).map(|d| d[0]), Some(3));
        assert_eq!(of(65, 1, h200), None);
        // The weights of this tower do not fit into all of a small card.
        assert_eq!(of(32, 1, Room { multiprocessors: 30, shared: 101_376 }), None);
        // Without a bit that is free there is no telling one step's words from another's.
        let mut plain = wide.clone();
        plain[0].activation = Activation::Identity;
        assert_eq!(divide(&plain, 32, 1, h200), None);
    }
}
