//! Every function of one bar against its formula, written out.

use super::{KINDS, check, lanes};
use crate::ops::{Map, Op};
use Map::*;
use random::SplitMix;

/// `a / b`, or what is said where b is zero.
fn or(a: f64, b: f64, zero: f64) -> f64 {
    if b == 0.0 { zero } else { a / b }
}

/// The formula. A function that is added has to be written here too.
fn formula(map: Map, x: &[f64]) -> f64 {
    let at = |i: usize| x.get(i).copied().unwrap_or(f64::NAN);
    let (a, b, c, d) = (at(0), at(1), at(2), at(3));
    match map {
        Add => a + b,
        Sub => a - b,
        Step => {
            if (a - b).abs() <= 2e-14 * a.abs() {
                0.0
            } else {
                a - b
            }
        }
        Mul => a * b,
        Div => a / b,
        Abs => a.abs(),
        Larger => a.max(b),
        Smaller => a.min(b),
        Root => a.sqrt(),
        RootAbove => a.max(0.0).sqrt(),
        Ln => {
            if a > 0.0 {
                a.ln()
            } else {
                f64::NAN
            }
        }
        Sign => {
            if a == 0.0 {
                0.0
            } else {
                a.signum()
            }
        }
        Middle => (a + b) / 2.0,
        Typical => (a + b + c) / 3.0,
        Mean4 => (a + b + c + d) / 4.0,
        TrueRange => (a - b).max((a - c).abs()).max((b - c).abs()).max(a - b),
        Gain => a.max(0.0),
        Loss => (-a).max(0.0),
        MoveUp => {
            if a - c > (d - b).max(0.0) {
                a - c
            } else {
                0.0
            }
        }
        MoveDown => {
            if d - b > (a - c).max(0.0) {
                d - b
            } else {
                0.0
            }
        }
        Percent => 100.0 * or(a, b, 0.0),
        Balance => 100.0 * or(a, a + b, 0.5),
        Contrast => 100.0 * or(a - b, a + b, 0.0),
        Disparity => 100.0 * or((a - b).abs(), a + b, 0.0),
        Place => 100.0 * or(a - b, c - b, 0.5),
        OrZero => or(a, b, 0.0),
        CloseInBar => or((c - b) - (a - c), a - b, 0.0),
        LogRatio if !(a > 0.0 && b > 0.0) => f64::NAN,
        LogRatio if a > b / 2.0 && a < b * 2.0 => ((a - b) / b).ln_1p(),
        LogRatio => a.ln() - b.ln(),
        Relative => (a - b) / b,
        PercentChange => 100.0 * or(a - b, b, 0.0),
        KamaFactor => {
            let ratio = if b <= a.abs() { 1.0 } else { a.abs() / b };
            (ratio * 2.0 / 3.0 + (1.0 - ratio) * 2.0 / 31.0).powi(2)
        }
        Efficiency => or(a.abs(), b, 0.0).min(1.0),
        PlaceInHundred => {
            if c - b < 1e-9 {
                50.0
            } else {
                100.0 * (a - b) / (c - b)
            }
        }
        Below => -100.0 * or(c - a, c - b, 0.5),
        Channel => {
            if c <= 1e-11 * b.abs() {
                0.0
            } else {
                (a - b) / (0.015 * c)
            }
        }
        Pressure => a - b.min(c),
        Signed => b * formula(Sign, &[a]),
        WhereUp => {
            if a > 0.0 {
                b
            } else {
                0.0
            }
        }
        WhereDown => {
            if a < 0.0 {
                b
            } else {
                0.0
            }
        }
        Choppiness => {
            if b == 0.0 {
                50.0
            } else {
                100.0 * formula(Ln, &[a / b]) / c
            }
        }
        BodyShare => or(d - a, b - c, 0.0),
        UpperShare => or(b - a.max(d), b - c, 0.0),
        LowerShare => or(a.min(d) - c, b - c, 0.0),
        Inside => {
            if a < c && b > d {
                1.0
            } else {
                0.0
            }
        }
        Outside => {
            if a > c && b < d {
                1.0
            } else {
                0.0
            }
        }
        GarmanKlass => a * a / 2.0 - (4f64.ln() - 1.0) * b * b,
        RogersSatchell => a * (a - c) + b * (b - c),
        SquareBelow => a.min(0.0).powi(2),
        Square => a * a,
    }
}

/// Arguments as a bar has them: of four, open, high, low, close; of ranges, low and high in order.
fn in_order(map: Map, bar: &mut [f64]) {
    match (map, bar) {
        (TrueRange | CloseInBar, [h, l, _]) => (*h, *l) = (h.max(*l), h.min(*l)),
        (Place | PlaceInHundred | Below, [_, l, h]) => (*h, *l) = (h.max(*l), h.min(*l)),
        (BodyShare | UpperShare | LowerShare, [o, h, l, c]) => {
            (*h, *l) = (h.max(*l).max(*o).max(*c), h.min(*l).min(*o).min(*c));
        }
        (Percent | Balance | Contrast | Disparity | Efficiency | KamaFactor | Channel, bar) => {
            bar.last_mut().into_iter().for_each(|x| *x = x.abs());
        }
        _ => {}
    }
}

#[test]
fn functions_equal_their_formulas() {
    let mut random = SplitMix::new(11);
    for map in Map::ALL {
        for kind in 0..KINDS {
            let mut lanes = lanes(kind, map.arity(), &mut random);
            for lane in &mut lanes {
                for t in 0..lane[0].len() {
                    let mut bar: Vec<f64> = lane.iter().map(|x| x[t]).collect();
                    let same = bar[0];
                    // Zeros, equal values and signs are what divisions and comparisons stumble over.
                    match random.below(8) {
                        0 => bar[random.below(map.arity())] = 0.0,
                        1 => bar.fill(same),
                        2 => bar.fill(0.0),
                        3 => bar.iter_mut().for_each(|x| *x = -*x),
                        _ => {}
                    }
                    if bar.iter().all(|x| x.is_finite()) {
                        in_order(*map, &mut bar);
                    }
                    lane.iter_mut().zip(bar).for_each(|(x, value)| x[t] = value);
                }
            }
            check(&Op::Map(*map), &lanes, &|args| {
                let one = |t: usize| {
                    let bar: Vec<f64> = args.iter().map(|x| x[t]).collect();
                    let whole = bar.iter().all(|x| x.is_finite());
                    let value = if whole { formula(*map, &bar) } else { f64::NAN };
                    // Differences of like numbers may differ in how they were rounded: their scale is that of the
                    // arguments' ratios.
                    let size = bar.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                    let scale =
                        value.abs() + if matches!(map, RogersSatchell | GarmanKlass) { size * size } else { 0.0 };
                    (if value.is_finite() { value } else { f64::NAN }, scale)
                };
                (0..args[0].len()).map(one).collect()
            });
        }
    }
}

#[test]
fn what_overflows_is_missing() {
    for (map, bar) in
        [(Mul, vec![1e200, 1e200]), (Add, vec![1.7e308; 2]), (Square, vec![-1e200]), (Div, vec![1e300, 1e-300])]
    {
        let lane: Vec<Vec<f64>> = bar.into_iter().map(|x| vec![x; 20]).collect();
        for block in [1, 8, 20] {
            let made = super::run::<1>(&Op::Map(map), std::slice::from_ref(&lane), &[block]).remove(0);
            assert!(made.iter().all(|y| y.is_nan()), "{map:?}: {made:?}");
        }
    }
}
