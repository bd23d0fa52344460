//! Which rows of a code are near a node: those whose predecessors had a forecast like the node's.
//!
//! A forecast is the roots of the codes' probabilities, so that the distance of two is Hellinger's. The rows of a code
//! lie in the order of where their forecasts are along the direction in which forecasts differ most; candidates come
//! from the part of that order around the node, and the nearest of a few that are drawn is taken.

use super::codes::Codes;
use super::net::{CODES, Latent, LatentNet, squashed};
use crate::bootstrap::Rows;

/// Roots of probabilities.
pub(super) type Forecast = [f32; CODES];

/// Part of a code's rows on each side of a node that candidates come from, and how many rows at least.
const PART: usize = 16;
const LEAST: usize = 8;
/// Rows that the direction is found by, at most, and how often it is improved.
const LOOKED_AT: usize = 4096;
const ROUNDS: usize = 24;

/// Rows by code, in the order of their forecasts.
#[derive(Debug, PartialEq)]
pub(super) struct Neighbours {
    direction: Forecast,
    of_code: Vec<Ordered>,
    forecasts: Vec<Forecast>, // [rows]
}

/// The rows before bars of one code.
#[derive(Debug, PartialEq, Default)]
struct Ordered {
    places: Vec<f32>,
    rows: Vec<u32>,
}

impl Neighbours {
    /// Orders rows by what a net says at each; `qs` is `[rows]` what their observations say.
    pub(super) fn new(rows: &Rows, codes: &Codes, net: &LatentNet, qs: &[Latent]) -> Neighbours {
        let forecasts: Vec<Forecast> = qs.iter().map(|q| forecast(&net.probabilities(&squashed(*q)))).collect();
        let direction = widest(&forecasts);
        let ordered = |code: usize| {
            let mut own: Vec<(f32, u32)> =
                codes.members(code).iter().map(|row| (along(&direction, &forecasts[*row as usize]), *row)).collect();
            own.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let (places, rows) = own.into_iter().unzip();
            Ordered { places, rows }
        };
        debug_assert_eq!(rows.len(), qs.len());
        Neighbours { of_code: (0..codes.len()).map(ordered).collect(), direction, forecasts }
    }

    /// Where a forecast lies in the order.
    pub(super) fn place(&self, forecast: &Forecast) -> f32 {
        along(&self.direction, forecast)
    }

    /// All rows of a code.
    pub(super) fn all(&self, code: usize) -> &[u32] {
        &self.of_code[code].rows
    }

    /// Rows of a code around a place; forecasts that are alike are all near.
    pub(super) fn around(&self, code: usize, place: f32) -> &[u32] {
        let Ordered { places, rows } = &self.of_code[code];
        let beside = (rows.len() / PART).max(LEAST);
        let from = places.partition_point(|own| *own < place).saturating_sub(beside);
        let to = (places.partition_point(|own| *own <= place) + beside).min(rows.len());
        &rows[from..to]
    }

    /// How far a row's forecast is from another.
    pub(super) fn distance(&self, row: u32, forecast: &Forecast) -> f32 {
        let mut lanes = [0.0f32; 4];
        for (a, b) in self.forecasts[row as usize].chunks_exact(4).zip(forecast.chunks_exact(4)) {
            lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to += (a - b) * (a - b));
        }
        (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
    }
}

/// The roots of probabilities.
pub(super) fn forecast(probabilities: &[f32; CODES]) -> Forecast {
    probabilities.map(f32::sqrt)
}

fn along(direction: &Forecast, forecast: &Forecast) -> f32 {
    direction.iter().zip(forecast).map(|(a, b)| a * b).sum()
}

/// The direction in which forecasts differ most, by powers of their covariance.
fn widest(forecasts: &[Forecast]) -> Forecast {
    let count = forecasts.len().min(LOOKED_AT);
    let some = || (0..count).map(|i| &forecasts[i * forecasts.len() / count]);
    let mut mean = [0.0f64; CODES];
    some().for_each(|own| mean.iter_mut().zip(own).for_each(|(to, x)| *to += f64::from(*x) / count as f64));
    let mut covariance = [[0.0f64; CODES]; CODES];
    for own in some() {
        let off: [f64; CODES] = std::array::from_fn(|i| f64::from(own[i]) - mean[i]);
        for (to, x) in covariance.iter_mut().zip(off) {
            to.iter_mut().zip(off).for_each(|(to, y)| *to += x * y);
        }
    }
    // From the largest variance on; where there is none, all forecasts lie at one place.
    let start = (0..CODES).fold(0, |best, i| if covariance[i][i] > covariance[best][best] { i } else { best });
    let mut direction = covariance[start];
    for _ in 0..ROUNDS {
        let long = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
        if long == 0.0 {
            break;
        }
        let unit = direction.map(|x| x / long);
        direction = std::array::from_fn(|i| covariance[i].iter().zip(unit).map(|(a, b)| a * b).sum());
    }
    let long = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
    direction.map(|x| if long > 0.0 { (x / long) as f32 } else { 0.0 })
}
