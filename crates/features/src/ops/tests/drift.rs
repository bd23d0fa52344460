//! Ten million bars, tiny and large prices, a huge level with tiny moves, spikes: the last window is as good as the
//! thousandth.

use super::{of_window, same, total};
use crate::engine::Engine;
use crate::graph::{Graph, Id};
use crate::ops::{Ema, Op};

const BARS: usize = 10_000_000;
const KEPT: usize = 4096; // a power of two
const BLOCK: usize = 256;
const PERIOD: usize = 20;
const ALPHA: f64 = 2.0 / 21.0;

/// Runs the engine over bars `from..to`; gives the last `KEPT` inputs and outputs, `[nodes][KEPT]`, in a ring.
struct Walk {
    engine: Engine<1>,
    x: Vec<f64>,
    made: Vec<Vec<f64>>,
}

fn ops() -> Vec<Op> {
    let n = PERIOD;
    vec![
        Op::Sum(n),
        Op::Mean(n),
        Op::Variance(n),
        Op::Slope(n),
        Op::Skew(n),
        Op::Kurtosis(n),
        Op::Weighted(n),
        Op::Ema(Ema::usual(n)),
    ]
}

fn graph() -> (Graph, Vec<Id>) {
    let mut graph = Graph::default();
    let x = graph.add(Op::Input(0), &[]);
    let ids = ops().into_iter().map(|op| graph.add(op, &[x])).collect();
    (graph, ids)
}

impl Walk {
    fn new(graph: &Graph, outputs: usize) -> Walk {
        Walk { engine: Engine::new(graph, BLOCK), x: vec![0.0; KEPT], made: vec![vec![0.0; KEPT]; outputs] }
    }

    fn advance(&mut self, ids: &[Id], from: usize, to: usize, price: &dyn Fn(usize) -> f64) {
        let mut at = from;
        while at < to {
            let bars = BLOCK.min(to - at);
            let x = &mut self.x;
            self.engine.run(bars, &mut |_, place| {
                for (i, place) in place.iter_mut().enumerate() {
                    place[0] = price(at + i);
                    x[(at + i) % KEPT] = place[0];
                }
                true
            });
            for (id, made) in ids.iter().zip(&mut self.made) {
                for (i, row) in self.engine.block(id.index(), bars).0.iter().enumerate() {
                    made[(at + i) % KEPT] = row[0];
                }
            }
            at += bars;
        }
    }

    /// The largest error of each node over the last thousand bars before `end`, as a share of the window's scale.
    fn errors(&self, end: usize) -> Vec<f64> {
        let before = |t: usize, n: usize| -> Vec<f64> { (t + 1 - n..=t).map(|i| self.x[i % KEPT]).collect() };
        let error = |(op, made): (Op, &Vec<f64>)| {
            let at = (end - 900..end).step_by(7);
            at.map(|t| {
                let (value, scale) = match op {
                    // A fresh average of all that still weighs anything.
                    Op::Ema(_) => {
                        let x = before(t, 1000.min(t + 1));
                        let weights = (0..x.len()).map(|i| (1.0 - ALPHA).powi((x.len() - 1 - i) as i32));
                        let value = total(weights.zip(&x).map(|(w, x)| w * x)) * ALPHA;
                        (value, x.iter().fold(0.0, |most: f64, x| most.max(x.abs())))
                    }
                    ref op => of_window(op, &before(t, PERIOD)),
                };
                (made[t % KEPT] - value).abs() / scale
            })
            .fold(0.0, f64::max)
        };
        ops().into_iter().zip(&self.made).map(error).collect()
    }
}

/// A price at any bar, from the bar's number alone.
fn noise(i: usize) -> f64 {
    random::mix((i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) as f64 / u64::MAX as f64 - 0.5
}

fn check(name: &str, price: &dyn Fn(usize) -> f64) {
    let (graph, ids) = graph();
    let mut walk = Walk::new(&graph, ids.len());
    walk.advance(&ids, 0, 2000, price);
    let early = walk.errors(2000);
    walk.advance(&ids, 2000, BARS, price);
    let late = walk.errors(BARS);
    for ((op, early), late) in ops().iter().zip(&early).zip(&late) {
        assert!(
            *late <= 1e-13 && *late <= early * 2.0 + f64::EPSILON,
            "{name}, {op:?}: {early:e}, and after {BARS} bars {late:e}"
        );
    }
    // An engine that saw only the last bars gives the same bits: the windows remember nothing else.
    let mut fresh = Walk::new(&graph, ids.len());
    fresh.advance(&ids, BARS - 50 * PERIOD, BARS, price);
    let windows = ops().into_iter().zip(walk.made.iter().zip(&fresh.made)).filter(|(op, _)| !matches!(op, Op::Ema(_)));
    for (op, (long, short)) in windows {
        for t in BARS - 45 * PERIOD..BARS {
            let (long, short) = (long[t % KEPT], short[t % KEPT]);
            assert!(same(long, short), "{name}, {op:?} at {t}: {long:e}, and {short:e} from the last bars alone");
        }
    }
}

#[test]
fn ten_million_bars_of_a_tiny_price() {
    check("1e-8", &|i| 1e-8 * (1.0 + 0.3 * noise(i)));
}

#[test]
fn ten_million_bars_of_a_large_price() {
    check("1e8", &|i| 1e8 * (1.0 + 0.3 * noise(i)));
}

#[test]
fn ten_million_bars_of_tiny_moves_on_a_huge_level() {
    check("1e6 ± 0.01", &|i| 1e6 + 0.02 * noise(i));
}

#[test]
fn ten_million_bars_with_spikes() {
    // The last spike has left every window, and every average, when errors are measured.
    check("spikes", &|i| if i % 5000 == 2500 { 1e12 } else { 100.0 * (1.0 + 0.01 * noise(i)) });
}

/// A sum without end keeps every digit.
#[test]
fn a_sum_of_ten_million() {
    let mut graph = Graph::default();
    let x = graph.add(Op::Input(0), &[]);
    let sum = graph.add(Op::Cumulate, &[x]);
    let mut walk = Walk::new(&graph, 1);
    let price = |i: usize| if i % 1_000_000 == 17 { 1e12 } else { 0.1 * noise(i) };
    walk.advance(&[sum], 0, BARS, &price);
    let expected = total((0..BARS).map(price));
    let made = walk.made[0][(BARS - 1) % KEPT];
    assert!((made - expected).abs() <= 2.0 * expected.abs() * f64::EPSILON, "{made} instead of {expected}");
}
