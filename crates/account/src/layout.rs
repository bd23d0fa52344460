//! Structs as rows of numbers, for arrays on a card: the fields in their order, truths as 1 and 0.
//!
//! `step.cuh` has the same structs with the same fields in the same order; a test compares the names.

use crate::{Account, Bar, Flows, Params};

/// A field that is a number.
trait Number {
    fn number(self) -> f64;
    fn from_number(number: f64) -> Self;
}

impl Number for f64 {
    fn number(self) -> f64 {
        self
    }
    fn from_number(number: f64) -> f64 {
        number
    }
}

impl Number for bool {
    fn number(self) -> f64 {
        f64::from(u8::from(self))
    }
    fn from_number(number: f64) -> bool {
        number != 0.0
    }
}

macro_rules! numbers {
    ($type:ident, $count:literal, [$($field:ident),* $(,)?] $($rest:ident)?) => {
        impl $type {
            /// How many numbers one is on a card.
            pub const NUMBERS: usize = $count;

            /// Its fields in their order; truths are 1 or 0.
            pub fn numbers(&self) -> [f64; $count] {
                let mut all = [0.0; $count];
                let own = [$(self.$field.number()),*];
                all[..own.len()].copy_from_slice(&own);
                $(all[own.len()..].copy_from_slice(&self.$rest.numbers());)?
                all
            }

            /// The way back of [`numbers`](Self::numbers).
            pub fn from_numbers(numbers: &[f64; $count]) -> $type {
                let mut each = numbers.iter().copied();
                let mut next = || each.next().expect("a number for each field");
                $type {
                    $($field: Number::from_number(next()),)*
                    $($rest: Flows::from_numbers(&std::array::from_fn(|_| next())),)?
                }
            }

            #[cfg(test)]
            const NAMES: &[&str] = &[$(stringify!($field)),* $(, stringify!($rest))?];
        }
    };
}

numbers!(
    Params,
    23,
    [
        capital,
        fraction,
        vol_target,
        lots,
        leverage,
        maintenance,
        liquidation,
        shortable,
        owned,
        band,
        band_of_target,
        multiplier,
        lot,
        tick,
        min_notional,
        fee,
        fee_per_unit,
        spread,
        impact,
        volume_cap,
        borrow,
        swap_long,
        swap_short,
    ]
);

numbers!(
    Bar,
    20,
    [
        open,
        high,
        low,
        close,
        fx_open,
        fx_close,
        tradable,
        split,
        dividend,
        funding_open,
        funding_inside,
        swap_open,
        swap_inside,
        borrow_open,
        borrow_inside,
        close_out,
        sigma,
        volume,
        half_spread,
        flat_next,
    ]
);

numbers!(Flows, 9, [fee, spread, impact, swap, borrow, funding, dividend, traded, closed]);

numbers!(
    Account, 21,
    [equity, peak, quantity, target, action, mark, fx, entry, bars_held, stop, limit, terminated] flows
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Event;

    const TWIN: &str = include_str!("step.cuh");

    /// Types and names of the fields of a struct in C.
    fn fields(name: &str) -> Vec<(&'static str, &'static str)> {
        let (_, rest) = TWIN.split_once(&format!("struct {name} {{\n")).expect("the struct");
        let (body, _) = rest.split_once("\n};").expect("its end");
        body.lines().map(|line| line.trim().trim_end_matches(';').split_once(' ').expect("a field")).collect()
    }

    #[test]
    fn structs_have_the_same_fields_on_a_card() {
        for (name, names) in
            [("Params", Params::NAMES), ("Bar", Bar::NAMES), ("Flows", Flows::NAMES), ("Account", Account::NAMES)]
        {
            let expected = names.iter().map(|name| (if *name == "flows" { "Flows" } else { "f64" }, *name));
            assert_eq!(fields(name), expected.collect::<Vec<_>>(), "{name}");
        }
        let counts = format!("PARAMS = {}, BAR = {}, STATE = 12, FLOWS = {}", 23, Bar::NUMBERS, Flows::NUMBERS);
        assert!(TWIN.contains(&counts), "{counts}");
        let events = [
            ("MARGIN_CALL", Event::MarginCall),
            ("LIQUIDATED", Event::Liquidated),
            ("STOPPED", Event::Stopped),
            ("LIMITED", Event::Limited),
            ("CLOSED_OUT", Event::ClosedOut),
            ("RUINED", Event::Ruined),
        ];
        let listed = events.map(|(name, event)| format!("{name} = {}", event as u8)).join(", ");
        assert!(TWIN.contains(&format!("enum Event : u32 {{ {listed} }};")), "{listed}");
    }

    #[test]
    fn numbers_come_back() {
        // `Bar` lies in memory as its numbers do.
        assert_eq!((size_of::<Bar>(), Params::NUMBERS), (Bar::NUMBERS * 8, Params::NAMES.len()));
        let counted: [f64; 21] = std::array::from_fn(|i| i as f64);
        let account = Account::from_numbers(&counted);
        assert_eq!((account.equity, account.limit, account.terminated), (0.0, 10.0, true));
        assert_eq!((account.flows.fee, account.flows.closed), (12.0, 20.0));
        assert_eq!(account.numbers(), std::array::from_fn(|i| if i == 11 { 1.0 } else { counted[i] }));
        let params = Params { owned: true, shortable: false, swap_short: 7.0, ..Params::default() };
        assert_eq!(Params::from_numbers(&params.numbers()), params);
        assert_eq!(params.numbers()[7..9], [0.0, 1.0]);
        let bar = Bar { low: 3.0, flat_next: 1.0, ..Bar::flat(4.0) };
        assert_eq!(Bar::from_numbers(&bar.numbers()), bar);
    }
}
