//! Which market model each fold of a searcher holds, and how both kinds did on rows held out.

use files::{format_fixed, format_plural};
use learn::expert::{FoldMarket, Forecast, ModelKind};
use report::{Cell, Column, Table};
use serde::{Deserialize, Serialize};

/// The market model of a fold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarketModelRow {
    /// From 1.
    pub fold: usize,
    /// What is searched in: `bootstrap` or `learned`.
    pub model: String,
    /// The feature whose sign is believed at roots, for long or for short; null where none is.
    #[serde(default)]
    pub trend: Option<String>,
    /// Whether that feature is above 0 after the price fell, as `sma(20)/close - 1`, so that its sign counts the other
    /// way round.
    #[serde(default)]
    pub trend_reversed: bool,
    /// Both models on rows that neither was fitted to; null where only the bootstrap was wanted, or rows were too few.
    pub held_out: Option<HeldOut>,
}

/// Both models on the same rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Rows.
    pub rows: u32,
    /// Bars of the horizon.
    pub horizon: u32,
    /// Whether the learned model found anything that tells what comes.
    pub found: bool,
    /// The bootstrap.
    pub bootstrap: ForecastRow,
    /// The learned model.
    pub learned: ForecastRow,
    /// Standard errors of the differences.
    pub errors: ForecastRow,
}

/// What forecasts are worth: CRPS, of which less is better, and the share of outcomes inside the central 80 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForecastRow {
    /// Of the next move, in deviations known before it.
    pub crps: f64,
    /// Of the next move.
    pub coverage: f64,
    /// Of the move over the horizon.
    pub horizon_crps: f64,
    /// Of the move over the horizon.
    pub horizon_coverage: f64,
}

impl ForecastRow {
    fn new(own: &Forecast) -> ForecastRow {
        let Forecast { crps, coverage, crps_ahead, coverage_ahead } = *own;
        ForecastRow { crps, coverage, horizon_crps: crps_ahead, horizon_coverage: coverage_ahead }
    }
}

impl MarketModelRow {
    /// Of a fold, counted from 0.
    pub(super) fn new(fold: usize, market: &FoldMarket, trend: Option<String>) -> MarketModelRow {
        let held_out = market.comparison().map(|both| HeldOut {
            rows: both.roots,
            horizon: both.horizon,
            found: both.found,
            bootstrap: ForecastRow::new(&both.bootstrap),
            learned: ForecastRow::new(&both.learned),
            errors: ForecastRow::new(&both.errors),
        });
        let trend_reversed = market.trend_is_reversed();
        MarketModelRow { fold: fold + 1, model: market.model().name().into(), trend, trend_reversed, held_out }
    }

    fn is_learned(&self) -> bool {
        self.model == ModelKind::Learned.name()
    }
}

/// All folds in a sentence; none where there are none.
pub(super) fn sentence(rows: &[MarketModelRow]) -> Option<String> {
    let (all, learned) = (rows.len(), rows.iter().filter(|row| row.is_learned()).count());
    let which = match learned {
        _ if all == 0 => return None,
        0 => "the bootstrap".to_string(),
        n if n == all => "the learned one".to_string(),
        n => format!("the learned one in {n} of {}, else the bootstrap", format_plural(all as u64, "fold")),
    };
    let trend = rows.iter().find_map(|row| Some((row.trend.as_ref()?, row.trend_reversed)));
    let trend = trend.map_or(String::new(), |(name, reversed)| {
        let reversed = if reversed { ", reversed because it is above 0 after the price fell," } else { "" };
        format!("; at a root the sign of `{name}`{reversed} speaks for long or short")
    });
    let both: Vec<&HeldOut> = rows.iter().filter_map(|row| row.held_out.as_ref()).collect();
    if both.is_empty() {
        return Some(format!("the market model is {which}{trend}"));
    }
    let mean = |of: fn(&HeldOut) -> f64| both.iter().map(|own| of(own)).sum::<f64>() / both.len() as f64;
    let [bootstrap, learned] = [mean(|own| own.bootstrap.crps), mean(|own| own.learned.crps)];
    let [inside, inside_learned] =
        [mean(|own| own.bootstrap.coverage), mean(|own| own.learned.coverage)].map(|x| format_fixed(100.0 * x, 0));
    Some(format!(
        "the market model is {which}: on rows held out the CRPS of next moves is {} by the bootstrap and {} by the \
         learned model, {inside} and {inside_learned} % of them inside the central 80 %{trend}",
        format_fixed(bootstrap, 3),
        format_fixed(learned, 3),
    ))
}

/// The folds as a table of a report.
pub(crate) fn table(rows: &[MarketModelRow]) -> Option<Table> {
    let forecast = |own: Option<&ForecastRow>| -> Vec<Cell> {
        let number = |x: f64, text: String| Cell::number(x, text);
        match own {
            None => vec![Cell::text("–"); 2],
            Some(own) => vec![
                number(own.crps, format!("{} / {}", format_fixed(own.crps, 3), format_fixed(own.horizon_crps, 3))),
                number(
                    own.coverage,
                    format!(
                        "{} / {} %",
                        format_fixed(100.0 * own.coverage, 0),
                        format_fixed(100.0 * own.horizon_coverage, 0)
                    ),
                ),
            ],
        }
    };
    let row = |row: &MarketModelRow| {
        let held = row.held_out.as_ref();
        let mut cells = vec![Cell::number(row.fold as f64, row.fold.to_string()), Cell::text(row.model.clone())];
        cells.extend(forecast(held.map(|own| &own.bootstrap)));
        cells.extend(forecast(held.map(|own| &own.learned)));
        cells
    };
    let columns = vec![
        Column::number("fold"),
        Column::text("searched in"),
        Column::number("CRPS, bootstrap"),
        Column::number("inside 80 %"),
        Column::number("CRPS, learned"),
        Column::number("inside 80 %"),
    ];
    (!rows.is_empty()).then(|| Table {
        title: "Market models on rows held out: next move / horizon".into(),
        columns,
        rows: rows.iter().map(row).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_which_model_is_searched_in() {
        let own = |crps| ForecastRow { crps, coverage: 0.79, horizon_crps: 0.6, horizon_coverage: 0.8 };
        let row = |fold, model: &str, learned| MarketModelRow {
            fold,
            model: model.into(),
            trend: (fold == 2).then(|| "above_sma_20".to_string()),
            trend_reversed: false,
            held_out: Some(HeldOut {
                rows: 800,
                horizon: 8,
                found: true,
                bootstrap: own(0.6),
                learned: own(learned),
                errors: own(0.01),
            }),
        };
        let both = [row(1, "bootstrap", 0.61), row(2, "learned", 0.55)];
        let text = sentence(&both).unwrap();
        assert!(text.contains("the learned one in 1 of 2 folds, else the bootstrap: "), "{text}");
        assert!(text.contains("0.600 by the bootstrap and 0.580 by the learned model, 79 and 79 %"), "{text}");
        assert!(
            text.ends_with("central 80 %; at a root the sign of `above_sma_20` speaks for long or short"),
            "{text}"
        );
        let reversed = MarketModelRow { held_out: None, trend_reversed: true, ..both[1].clone() };
        let text = sentence(&[reversed]).unwrap();
        assert!(
            text.ends_with(
                "of `above_sma_20`, reversed because it is above 0 after the price fell, speaks for long or short"
            ),
            "{text}"
        );
        let alone = MarketModelRow { held_out: None, ..both[0].clone() };
        assert_eq!(sentence(std::slice::from_ref(&alone)).unwrap(), "the market model is the bootstrap");
        assert_eq!((sentence(&[]), table(&[]).is_none()), (None, true));
        assert_eq!(table(&[alone, both[1].clone()]).unwrap().rows.len(), 2);
    }
}
