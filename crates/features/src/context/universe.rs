//! Which symbols a model knows the market by.

use bars::Bars;
use files::{Error, Kind, Result};
use xxhash_rust::xxh3::xxh3_64;

/// The symbols of a market. A model whose features see the market around a symbol is a model of these symbols: with
/// others the same features would mean something else.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Universe {
    /// Sorted.
    pub symbols: Vec<String>,
}

impl Universe {
    /// The universe of a market.
    pub fn from_market(market: &[Bars]) -> Universe {
        let mut symbols: Vec<String> = market.iter().map(|bars| bars.symbol.clone()).collect();
        symbols.sort_unstable();
        symbols.dedup();
        Universe { symbols }
    }

    /// Of all names; no order of files changes it.
    pub fn hash(&self) -> u64 {
        let text: String = self.symbols.iter().map(|s| format!("{}:{s}\n", s.len())).collect();
        xxh3_64(text.as_bytes())
    }

    /// Refuses a market of other symbols, and says which are missing and which are too many.
    pub fn check(&self, market: &[Bars]) -> Result<()> {
        let other = Universe::from_market(market);
        if other == *self {
            return Ok(());
        }
        let without = |a: &Universe, b: &Universe| {
            a.symbols.iter().filter(|s| b.symbols.binary_search(s).is_err()).cloned().collect::<Vec<_>>()
        };
        let few = |names: Vec<String>| match names.len() {
            0 => "none".to_string(),
            n if n > 5 => format!("{} and {} more", names[..5].join(", "), n - 5),
            _ => names.join(", "),
        };
        Err(Error::new(
            Kind::Input,
            format!(
                "the model knows the market by {} symbols, and these data are another universe: missing {}; too many {}",
                self.symbols.len(),
                few(without(self, &other)),
                few(without(&other, self))
            ),
        )
        .remedy("give the bars of the symbols it was trained on, or train on these"))
    }
}
