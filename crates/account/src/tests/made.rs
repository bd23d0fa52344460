//! Random accounts, bars and decisions, in which everything that can happen does.

use crate::{Action, Bar, Params};
use random::SplitMix;

/// A bar after a close, with everything that can happen now and then.
pub(crate) fn next_bar(random: &mut SplitMix, last: &Bar) -> Bar {
    let mut draw = |width: f64| (random.unit() + random.unit() - 1.0) * width;
    let open = last.close * (1.0 + draw(0.01));
    let close = open * (1.0 + draw(0.02));
    let (high, low) = (open.max(close) * (1.0 + draw(0.005).abs()), open.min(close) * (1.0 - draw(0.005).abs()));
    let fx_open = last.fx_close * (1.0 + draw(0.002));
    let fx_close = fx_open * (1.0 + draw(0.002));
    let (sigma, half_spread) = (0.01 * (1.0 + draw(0.5)), 0.0002 * (1.0 + draw(0.9)));
    let volume = (5000.0 * (1.0 + draw(0.9))).floor();
    let mut rare = |one_in: usize, value: f64, none: f64| if random.below(one_in) == 0 { value } else { none };
    let mut bar = Bar {
        open,
        high,
        low,
        close,
        fx_open,
        fx_close,
        tradable: rare(40, 0.0, 1.0),
        split: rare(300, 2.0, 1.0),
        dividend: rare(60, 0.02 * open, 0.0),
        funding_open: rare(8, 0.0003 * open, 0.0),
        funding_inside: rare(8, -0.0002 * open, 0.0),
        swap_open: rare(5, 3.0 / 365.0, 0.0),
        swap_inside: rare(5, 1.0 / 365.0, 0.0),
        borrow_open: rare(5, 3.0 / 365.0, 0.0),
        borrow_inside: rare(5, 1.0 / 365.0, 0.0),
        close_out: rare(200, 1.0, 0.0),
        sigma: rare(50, 0.0, sigma),
        volume: rare(20, 0.0, volume),
        half_spread,
        flat_next: rare(100, 1.0, 0.0),
    };
    // Prices that double or crash, so that shorts and leveraged accounts are closed.
    let factor = rare(150, 0.3, 1.0) * rare(150, 2.5, 1.0);
    (bar.close, bar.high, bar.low) =
        (bar.close * factor, bar.high.max(bar.close * factor), bar.low.min(bar.close * factor));
    if bar.close < 0.5 || bar.close > 1e4 {
        bar = Bar { fx_open, fx_close, ..Bar::flat(100.0) };
    }
    if bar.tradable == 0.0 {
        bar = Bar { open: f64::NAN, high: f64::NAN, low: f64::NAN, ..bar };
    }
    bar
}

/// Rules and costs of any kind.
pub(crate) fn some_params(random: &mut SplitMix) -> Params {
    let mut pick = |from: &[f64]| from[random.below(from.len())];
    Params {
        capital: pick(&[1e3, 1e5, 1e7]),
        fraction: pick(&[1.0, 0.5, 2.0]),
        vol_target: pick(&[0.0, 0.0, 0.005]),
        lots: pick(&[0.0, 0.0, 0.0, 7.0]),
        leverage: pick(&[1.0, 1.0, 3.0, 10.0]),
        maintenance: pick(&[0.5, 0.05, 0.3]),
        liquidation: pick(&[0.25, 0.02, 0.0]),
        shortable: pick(&[0.0, 1.0, 1.0]) != 0.0,
        owned: pick(&[0.0, 1.0]) != 0.0,
        band: pick(&[-1.0, 0.05, 0.2]),
        band_of_target: pick(&[0.0, 1.0]) != 0.0,
        multiplier: pick(&[1.0, 50.0, 0.1]),
        lot: pick(&[0.0, 0.0, 1.0, 0.001]),
        tick: pick(&[0.0, 0.01, 0.25]),
        min_notional: pick(&[0.0, 100.0]),
        fee: pick(&[0.0, 0.0005]),
        fee_per_unit: pick(&[0.0, 0.01]),
        spread: pick(&[1.0, 2.0, 0.0]),
        impact: pick(&[0.0, 1.0]),
        volume_cap: pick(&[0.0, 0.01]),
        borrow: 0.005,
        swap_long: pick(&[0.05, -0.01]),
        swap_short: 0.02,
    }
}

/// A decision, sometimes none, sometimes with a stop or limit.
pub(crate) fn some_action(random: &mut SplitMix) -> Action {
    let target = match random.below(10) {
        0 => f64::NAN,
        1 => random.unit() * 2.0 - 1.0,
        n => [-1.0, -1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0][n - 2],
    };
    let mut distance = || if random.below(6) == 0 { 0.002 + 0.03 * random.unit() } else { 0.0 };
    Action { target, stop: distance(), limit: distance() }
}
