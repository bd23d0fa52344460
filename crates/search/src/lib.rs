//! Trees over a market *model*: select, expand, evaluate, back up, batched over roots.
//!
//! [`Search::run`] takes a [`World`] (what may come, and what an action does) and roots: what is known at a close,
//! owned. A decision leads to an afterstate (position and cost applied by `account::step`), a chance node with K codes
//! follows, and each code leads to the next decision. Codes are drawn from the market model once for a path of codes
//! and shared by all actions. Leaves of all roots of a block go through the net in one product.
//!
//! There are two modes ([`Mode`]):
//!
//! - *Honest*: an expansion evaluates all K codes of its chance node at once and backs up their mean. Every action is
//!   tried on all scenarios of the root, and the position changes only where the advantage, measured on scenarios that
//!   did not choose the action, exceeds two standard errors, or where enough of the scenarios are different.
//! - *Reference*: one node a simulation, as `mctx` does it (Danihelka et al. 2022, Antonoglou et al. 2022). Its visit
//!   counts are those of `mctx` on the same tables, and its speed is what is compared.
//!
//! **No type in this room, nor in a room that it depends on, holds a bar behind the close at which a root decides.**
//! Models own their rows, cut where their training ends.
//!
//! Left out: how a net learns from what a search found (`learn`), and recurrent nets: a node is one row of numbers.

mod block;
mod bootstrap;
pub mod cuda;
mod evaluate;
mod lanes;
mod learned;
mod linear;
mod market;
mod outcome;
mod run;
mod select;
mod settings;
mod table;
mod tree;
mod world;

pub use bootstrap::{Bootstrap, Drawn, LEAST_ROWS, ModelScore, Rows, TrainingRow};
pub use evaluate::{Evaluate, NetEvaluator, Towers};
pub use learned::{Comparison, FittedModel, Forecast, Imagined, Learned, ModelKind, ModelRule};
pub use linear::{LinearRow, LinearWorld};
pub use market::{InfoSet, MarketModel, MarketWorld, ShowAccount, show_account};
pub use outcome::Outcomes;
pub use run::{Root, Search};
pub use settings::{Mode, RootRule, Settings};
pub use table::{TableEvaluator, TableWorld};
pub use world::{Chance, Draws, Step, World};
