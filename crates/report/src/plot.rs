//! Curves on a screen: eight dots to a character where braille is seen, two where only ASCII is.

use crate::screen::{Area, Ink, Screen};

/// One curve.
pub(crate) struct Curve {
    pub(crate) points: Vec<(f64, f64)>, // from left to right
    pub(crate) ink: Ink,
    pub(crate) stroke: Stroke,
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stroke {
    Line,
    /// Every other column of a line, so that it is told from others without colours.
    Dashed,
    /// A dot in every other column, joined to nothing.
    Dots,
}

/// Draws curves into an area that spans `x` by `y`, the later ones over the earlier, and marks on top.
pub(crate) fn plot(
    screen: &mut Screen,
    area: Area,
    (x, y): ((f64, f64), (f64, f64)),
    curves: &[Curve],
    mark: Option<(f64, f64)>,
    unicode: bool,
) {
    if area.width == 0 || area.height == 0 {
        return;
    }
    let (across, down) = if unicode { (2, 4) } else { (1, 2) };
    let (columns, rows) = (area.width * across, area.height * down);
    let share = |v: f64, (lo, hi): (f64, f64)| if hi > lo { ((v - lo) / (hi - lo)).clamp(0.0, 1.0) } else { 0.5 };
    let column = |v: f64| (share(v, x) * (columns - 1) as f64).round() as usize;
    let row = |v: f64| ((1.0 - share(v, y)) * (rows - 1) as f64).round() as usize;
    let mut cells = vec![(0u8, Ink::Plain); area.width * area.height];
    for curve in curves {
        let mut dot = |px: usize, py: usize| {
            if curve.stroke != Stroke::Line && px % 2 == 1 {
                return;
            }
            let cell = &mut cells[py / down * area.width + px / across];
            *cell = (cell.0 | bit(px % across, py % down, unicode), curve.ink);
        };
        let mut before: Option<(usize, usize)> = None;
        for (px, py) in curve.points.iter().map(|p| (column(p.0), row(p.1))) {
            match before {
                None => dot(px, py),
                Some((bx, by)) => {
                    // Column by column, each joined to the one before.
                    let mut last = by;
                    for i in bx..=px {
                        let t = if px > bx { (i - bx) as f64 / (px - bx) as f64 } else { 1.0 };
                        let at = (by as f64 + t * (py as f64 - by as f64)).round() as usize;
                        // From the row behind the last one, so that a slope is one dot thick.
                        let (lo, hi) = if curve.stroke == Stroke::Dots {
                            (at, at)
                        } else if at > last {
                            (last + 1, at)
                        } else {
                            (at, last.saturating_sub(1).max(at))
                        };
                        (lo..=hi).for_each(|j| dot(i, j));
                        last = at;
                    }
                }
            }
            before = Some((px, py));
        }
    }
    for (i, (bits, ink)) in cells.into_iter().enumerate().filter(|(_, c)| c.0 > 0) {
        let c = match (unicode, bits) {
            (true, bits) => char::from_u32(0x2800 + u32::from(bits)).unwrap_or('?'),
            (false, 1) => '\'',
            (false, 2) => '.',
            (false, _) => ':',
        };
        screen.put(area.x + i % area.width, area.y + i / area.width, c, ink);
    }
    if let Some((mx, my)) = mark {
        screen.put(area.x + column(mx) / across, area.y + row(my) / down, '◆', Ink::Good);
    }
}

/// Braille counts its dots down the columns, and the last row later.
fn bit(across: usize, down: usize, unicode: bool) -> u8 {
    if !unicode {
        return 1 << down;
    }
    match (across, down) {
        (0, 3) => 0x40,
        (_, 3) => 0x80,
        (0, row) => 1 << row,
        (_, row) => 8 << row,
    }
}

/// The heights of a row of values from 0 to 100, one character each.
pub(crate) fn sparks(values: impl Iterator<Item = f64>) -> String {
    let heights = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    values.map(|v| heights[(v / 100.0 * 7.0).round().clamp(0.0, 7.0) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(f64, f64)], unicode: bool) -> String {
        let mut screen = Screen::new(6, 3);
        let area = Area { x: 0, y: 0, width: 6, height: 3 };
        let curve = Curve { points: points.to_vec(), ink: Ink::First, stroke: Stroke::Line };
        plot(&mut screen, area, ((0.0, 10.0), (0.0, 1.0)), &[curve], None, unicode);
        screen.text()
    }

    #[test]
    fn a_rising_line_a_step_and_a_single_point() {
        assert_eq!(drawn(&[(0.0, 0.0), (10.0, 1.0)], true), "    ⡠⠊\n  ⡠⠊\n⡠⠊\n");
        assert_eq!(drawn(&[(0.0, 0.0), (10.0, 1.0)], false), "    .'\n  .'\n.'\n");
        assert_eq!(drawn(&[(0.0, 0.0), (0.0, 1.0)], false), ":\n:\n:\n");
        assert_eq!(drawn(&[(5.0, 0.5)], false), "\n   .\n\n");
        // Beyond the frame is at its edge.
        assert_eq!(drawn(&[(99.0, 9.0)], false), "     '\n\n\n");
    }

    #[test]
    fn sparkline_follows_the_values() {
        assert_eq!(sparks([0.0, 50.0, 100.0, 250.0].into_iter()), "▁▅██");
    }
}
