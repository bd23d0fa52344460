//! A series of any length in bounded memory.
//!
//! Points fall into buckets of one width along the axis; where there would be more than [`MOST`] of them, neighbours
//! merge and the width doubles. A bucket knows how many points it has seen, their sum and their extremes, so the mean
//! is exact and no spike is lost. Several members may share one series: then a bucket's mean is the mean over members.

/// Buckets at most.
pub(super) const MOST: usize = 512;

/// Numbers along an axis that begins at zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    width: u64,           // of a bucket; a power of two, 0 before the first point
    buckets: Vec<Bucket>, // [n] bucket i holds i * width <= x < (i + 1) * width
    last: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bucket {
    n: u32,
    at: f32, // mean place inside the bucket, `0..1`
    lo: f32,
    hi: f32,
    sum: f64,
}

/// What the series was around one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Where on the axis.
    pub x: f64,
    /// The mean.
    pub mean: f64,
    /// The lowest.
    pub lo: f64,
    /// The highest.
    pub hi: f64,
}

impl Series {
    /// Adds a point. What is not finite, or lies before zero, is no point.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        if !y.is_finite() || !(0.0..1e15).contains(&x) {
            return;
        }
        self.width = self.width.max(1);
        while (x / self.width as f64) as usize >= MOST {
            self.widen();
        }
        let place = x / self.width as f64;
        let i = place as usize;
        if i >= self.buckets.len() {
            self.buckets.resize(i + 1, Bucket::default());
        }
        let one = Bucket { n: 1, at: place.fract() as f32, lo: y as f32, hi: y as f32, sum: y };
        self.buckets[i] = merge(self.buckets[i], one);
        self.last = Some(y);
    }

    /// The point added last.
    pub fn last(&self) -> Option<f64> {
        self.last
    }

    /// From left to right.
    pub fn points(&self) -> impl Iterator<Item = Point> + Clone {
        let width = self.width as f64;
        self.buckets.iter().enumerate().filter(|(_, b)| b.n > 0).map(move |(i, b)| Point {
            x: (i as f64 + f64::from(b.at)) * width,
            mean: b.sum / f64::from(b.n),
            lo: f64::from(b.lo),
            hi: f64::from(b.hi),
        })
    }

    fn widen(&mut self) {
        let half = |b: Bucket, side: f32| Bucket { at: (b.at + side) / 2.0, ..b };
        let pair = |pair: &[Bucket]| merge(half(pair[0], 0.0), half(pair.get(1).copied().unwrap_or_default(), 1.0));
        self.buckets = self.buckets.chunks(2).map(pair).collect();
        self.width *= 2;
    }
}

fn merge(a: Bucket, b: Bucket) -> Bucket {
    match (a.n, b.n) {
        (0, _) => b,
        (_, 0) => a,
        (n, m) => {
            let all = n.saturating_add(m);
            let at = (f64::from(a.at) * f64::from(n) + f64::from(b.at) * f64::from(m)) / f64::from(all);
            Bucket { n: all, at: at as f32, lo: a.lo.min(b.lo), hi: a.hi.max(b.hi), sum: a.sum + b.sum }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn million_points_are_thinned_and_keep_spike_and_mean() {
        let mut series = Series::default();
        let value = |x: u32| if x == 123_457 { 1e6 } else { f64::from(x % 7) };
        (1..=1_000_000).for_each(|x| series.add(f64::from(x), value(x)));
        let points: Vec<Point> = series.points().collect();
        assert!((MOST / 2..=MOST).contains(&points.len()), "{}", points.len());
        assert!(points.iter().any(|p| p.hi == 1e6) && points.windows(2).all(|w| w[0].x < w[1].x));
        let calm = points.iter().filter(|p| p.hi < 1e6).map(|p| (p.mean - 3.0).abs()).fold(0.0, f64::max);
        assert!(calm < 0.01, "{calm}");
        assert_eq!(series.last(), Some(value(1_000_000)));
    }

    #[test]
    fn few_points_are_kept_and_non_finite_ones_dropped() {
        let mut series = Series::default();
        for (x, y) in [(1.0, 5.0), (2.0, f64::NAN), (-3.0, 1.0), (f64::INFINITY, 1.0), (3.0, 7.0), (3.0, 9.0)] {
            series.add(x, y);
        }
        let point = |x, mean, lo, hi| Point { x, mean, lo, hi };
        assert_eq!(series.points().collect::<Vec<_>>(), [point(1.0, 5.0, 5.0, 5.0), point(3.0, 8.0, 7.0, 9.0)]);
        // A far first point costs no more memory than a near one.
        let mut far = Series::default();
        far.add(9e14, 1.0);
        assert!(far.buckets.len() <= MOST && (far.points().next().expect("one").x - 9e14).abs() < 1e9);
    }
}
