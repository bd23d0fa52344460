//! How a search is done, and what it needs.

use compute::{Error, Result};

/// What changes a search's result.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Simulations of each root.
    pub simulations: u32,
    /// Decisions in a row, at most.
    pub depth: u32,
    /// Codes of a chance node: K.
    pub codes: usize,
    /// Codes of the root's chance nodes, in the honest mode: all actions are tried on all of them.
    pub scenarios: usize,
    /// How the root chooses what to try.
    pub rule: RootRule,
    /// What a simulation is.
    pub mode: Mode,
    /// The root of all that is drawn.
    pub seed: u64,
}

/// How the root chooses what to try; decisions below follow the same paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RootRule {
    /// By prior, value and visits (Schrittwieser et al. 2020).
    Puct {
        /// What the prior counts at first.
        init: f32,
        /// How many visits let it count more.
        base: f32,
    },
    /// By sequential halving of actions that were drawn without replacement (Danihelka et al. 2022).
    Gumbel {
        /// Actions that are considered, at most.
        considered: usize,
        /// What the draw counts beside logits and values; 0 takes what is best.
        scale: f32,
    },
}

impl RootRule {
    /// The constants of MuZero.
    pub const PUCT: RootRule = RootRule::Puct { init: 1.25, base: 19_652.0 };
    /// The constants of Gumbel MuZero.
    pub const GUMBEL: RootRule = RootRule::Gumbel { considered: 16, scale: 1.0 };
}

/// What a simulation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As `mctx` does it: one node a simulation, one simulation in flight, the code with the largest p / (n + 1).
    Reference,
    /// All codes of a chance node at once; what is decided holds on scenarios that did not choose it.
    Honest {
        /// Simulations of a root that are under way together; those that are count as visits.
        in_flight: u32,
    },
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            simulations: 32,
            depth: 8,
            codes: 16,
            scenarios: 64,
            rule: RootRule::GUMBEL,
            mode: Mode::Honest { in_flight: 1 },
            seed: 0,
        }
    }
}

/// Different root scenarios from which on a change of position needs no test: by then the best of a few noisy means is
/// hardly better than it is.
pub(crate) const ENOUGH_SCENARIOS: usize = 512;

/// Rows that are worth a product.
const ROWS: usize = 384;
/// Roots of a block, at most.
const BLOCK: usize = 64;
/// What all counts are kept below, so that indices fit 32 bits.
const MOST: u64 = 1 << 31;

/// What one root's tree can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) nodes: usize,
    pub(crate) edges: usize,
    pub(crate) markets: usize,
}

impl Settings {
    pub(crate) fn in_flight(&self) -> u32 {
        match self.mode {
            Mode::Reference => 1,
            Mode::Honest { in_flight } => in_flight.min(self.simulations),
        }
    }

    /// Roots that are searched together: enough for a good product. It follows from the settings alone.
    pub(crate) fn block(&self) -> usize {
        let each = match self.mode {
            Mode::Reference => 1,
            Mode::Honest { in_flight } => in_flight as usize * self.codes,
        };
        (ROWS / each.max(1)).clamp(1, BLOCK)
    }

    /// What is wrong with them, if anything.
    pub(crate) fn check(&self, actions: usize) -> Result<()> {
        let invalid = |message: String| Err(Error::Invalid(message));
        if !(1..=32).contains(&actions) {
            return invalid(format!("{actions} actions; a search has 1 to 32"));
        }
        let counts = [
            ("simulations", u64::from(self.simulations)),
            ("depth", u64::from(self.depth)),
            ("codes of a chance node", self.codes as u64),
            ("scenarios of a root", self.scenarios as u64),
            ("simulations in flight", u64::from(self.in_flight())),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return invalid(format!("0 {name}; give at least 1"));
        }
        if self.codes > usize::from(u16::MAX) || self.scenarios > usize::from(u16::MAX) {
            let most = self.codes.max(self.scenarios);
            return invalid(format!("{most} codes of a chance node; at most {} are possible", u16::MAX));
        }
        let ok = match self.rule {
            RootRule::Puct { init, base } => init.is_finite() && base.is_finite() && base > 0.0,
            RootRule::Gumbel { considered, scale } => considered > 0 && scale.is_finite() && scale >= 0.0,
        };
        if !ok {
            return invalid(format!("{:?}: give finite constants above 0, and at least one action", self.rule));
        }
        let nodes = self.simulations as u64 * (self.codes as u64 + 1) + actions as u64 * (self.scenarios as u64 + 1);
        if nodes * actions.max(2) as u64 >= MOST {
            return invalid(format!("a tree of {nodes} nodes; fewer simulations, codes or scenarios are possible"));
        }
        Ok(())
    }

    /// What a tree needs for all simulations, counted before memory is taken.
    pub(crate) fn capacity(&self, actions: usize) -> Capacity {
        let (sims, k) = (self.simulations as usize, self.codes);
        match self.mode {
            // Every simulation adds one node, a decision or an afterstate.
            Mode::Reference => {
                Capacity { nodes: 1 + sims, edges: (1 + sims) * actions.max(k), markets: 1 + (1 + sims) * k }
            }
            // The root's afterstates have all scenarios, every other has K codes, each a decision.
            Mode::Honest { .. } => {
                let (root, expanded) = (actions * self.scenarios, self.expanded(actions));
                let decisions = 1 + root + expanded * k;
                let chances = actions + expanded;
                Capacity {
                    nodes: decisions + chances,
                    edges: decisions * actions + root + expanded * k,
                    markets: 1 + self.scenarios + expanded * k,
                }
            }
        }
    }

    /// Afterstates that the honest mode adds behind those of the root: one for a simulation, or fewer where no
    /// decision is left above the depth that has something to try.
    fn expanded(&self, actions: usize) -> usize {
        let most = self.simulations as usize;
        let (mut all, mut level) = (0usize, actions * self.scenarios);
        for _ in 1..self.depth {
            let tried = level.saturating_mul(actions);
            all = all.saturating_add(tried);
            if all >= most {
                return most;
            }
            level = tried.saturating_mul(self.codes);
        }
        all
    }
}
