//! Searches as a user of the room sees them: beside `mctx`, in worlds whose best policy is known, and on rows.

mod card;
mod gates;
mod honest_card;
mod learned;
mod mctx;
mod same_bits;
mod worlds;
