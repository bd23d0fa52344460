//! What is repaired in bars, and how. The defaults are the reader's own ([`bars::Repairs`]).

use super::form::{choice, number};
use super::key::section;
use ::bars::{Bad, Duplicates, Order, Refused, Splits};

const BAD: &[(&str, Bad)] = &[("drop", Bad::Drop), ("keep", Bad::Keep), ("refuse", Bad::Refuse)];
const ORDER: &[(&str, Order)] = &[("sort", Order::Sort), ("refuse", Order::Refuse)];
const DUPLICATES: &[(&str, Duplicates)] =
    &[("first", Duplicates::First), ("last", Duplicates::Last), ("refuse", Duplicates::Refuse)];
const SPLITS: &[(&str, Splits)] = &[("segment", Splits::Segment), ("keep", Splits::Keep)];
const REFUSED: &[(&str, Refused)] = &[("drop", Refused::Drop), ("refuse", Refused::Refuse)];

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
    /// Symbols that the audit refuses: left out while they are fewer than half, or the whole is refused.
    refused: choice(REFUSED);
}
