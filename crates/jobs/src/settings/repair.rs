//! What is repaired in bars, and how. The defaults are the reader's own ([`bars::Repairs`]).

use super::form::{choice, number};
use super::key::section;
use ::bars::{BadBars, Clocks, Copies, Duplicates, RefusedSymbols, RowOrder, Splits};

const BAD: &[(&str, BadBars)] = &[("drop", BadBars::Drop), ("keep", BadBars::Keep), ("refuse", BadBars::Refuse)];
const ORDER: &[(&str, RowOrder)] = &[("sort", RowOrder::Sort), ("refuse", RowOrder::Refuse)];
const DUPLICATES: &[(&str, Duplicates)] =
    &[("first", Duplicates::First), ("last", Duplicates::Last), ("refuse", Duplicates::Refuse)];
const SPLITS: &[(&str, Splits)] = &[("segment", Splits::Segment), ("keep", Splits::Keep)];
const COPIES: &[(&str, Copies)] = &[("once", Copies::Once), ("keep", Copies::Keep)];
const CLOCKS: &[(&str, Clocks)] = &[("drop", Clocks::Drop), ("shift", Clocks::Shift), ("keep", Clocks::Keep)];
const REFUSED: &[(&str, RefusedSymbols)] = &[("drop", RefusedSymbols::Drop), ("refuse", RefusedSymbols::Refuse)];

section! {
    keys at repair, "repair.";

    /// Rows out of order.
    order: choice(ORDER);
    /// Rows with a time that an earlier row has: which one stays.
    duplicates: choice(DUPLICATES);
    /// Rows that cannot be read are dropped up to this share of all; above it the data are refused.
    unreadable: number(0.0..=1.0);
    /// Missing, zero, negative or absurd prices.
    bad_prices: choice(BAD);
    /// High below open or close, low above.
    range: choice(BAD);
    /// Suspected splits: a new segment begins, or they are taken for true moves.
    splits: choice(SPLITS);
    /// One series under several names: it counts once, or all of them are kept.
    copies: choice(COPIES);
    /// Symbols whose stamps are late or early against a near twin's: left out, moved by that lag, or kept.
    clocks: choice(CLOCKS);
    /// Symbols that the audit refuses: left out while they are fewer than half, or the whole is refused.
    refused: choice(REFUSED);
}
