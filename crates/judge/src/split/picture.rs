//! A split as a few lines of text, for `--dry-run`.

use super::{Splits, pieces};
use features::Samples;

/// Signs of a part, in the order they are drawn: unused, gap, training, validation, test, holdout.
const BLOCKS: [char; 6] = ['·', '░', '█', '▒', '▓', '╳'];
const LETTERS: [char; 6] = ['.', '-', '#', 'v', 'T', 'X'];

impl Splits {
    /// One line a fold, time from left to right over `width` signs (at least 10), and a line that explains the signs.
    ///
    /// # Panics
    ///
    /// If the folds are of other samples.
    pub fn picture(&self, samples: &Samples, ticks: &[i64], width: usize, ascii: bool) -> String {
        let signs = if ascii { LETTERS } else { BLOCKS };
        let width = width.max(10);
        let labels = format!("{}", self.folds.len()).len();
        let wide = |count: fn(&features::Fold) -> usize| {
            self.folds.iter().map(count).max().map_or(1, |most| format!("{most}").len())
        };
        let (train, valid, test) = (wide(|f| f.train.len()), wide(|f| f.valid.len()), wide(|f| f.test.len()));
        let mut text = String::new();
        for fold in &self.folds {
            let mut line = vec![signs[0]; width];
            let time = |at: &u32| samples.t0[*at as usize];
            let (of_train, of_valid, of_test): (&[u32], &[u32], &[u32]) = (&fold.train, &fold.valid, &fold.test);
            let held = self.holdout.as_ref().map_or(&[][..], |holdout| &holdout.samples);
            let all = || [of_train, of_valid, of_test].into_iter().flatten();
            if let Some((first, last)) = all().min().zip(all().max()) {
                draw(&mut line, time(first), time(last), ticks, signs[1]);
            }
            let parts = [
                (of_train, [of_valid, of_test]),
                (of_valid, [of_train, of_test]),
                (of_test, [of_train, of_valid]),
                (held, [&[], &[]]),
            ];
            for ((part, others), sign) in parts.into_iter().zip(&signs[2..]) {
                for piece in pieces(part, &others).into_iter().map(|piece| &part[piece]) {
                    draw(&mut line, time(&piece[0]), time(&piece[piece.len() - 1]), ticks, *sign);
                }
            }
            text.push_str(&format!("fold {:>labels$}  ", fold.number + 1));
            text.extend(line);
            text.push_str(&format!(
                "  train {:>train$}  valid {:>valid$}  test {:>test$}\n",
                fold.train.len(),
                fold.valid.len(),
                fold.test.len()
            ));
        }
        let [unused, gap, train, valid, test, held] = signs;
        text.push_str(&format!(
            "{}  {train} training  {valid} validation  {test} test  {gap} purged",
            " ".repeat(5 + labels)
        ));
        text.push_str(&format!("  {unused} unused"));
        if let Some(holdout) = &self.holdout {
            text.push_str(&format!(
                "  {held} holdout, locked ({})",
                files::format_plural(holdout.samples.len() as u64, "sample")
            ));
        }
        text.push('\n');
        text
    }
}

/// Puts a sign wherever there are ticks from one moment to another, both inside.
fn draw(line: &mut [char], from: i64, to: i64, ticks: &[i64], sign: char) {
    let Some(last) = ticks.len().checked_sub(1) else { return };
    let place = |time: i64| {
        let tick = ticks.partition_point(|tick| *tick < time).min(last);
        (tick as u128 * line.len() as u128 / ticks.len() as u128) as usize
    };
    let (from, to) = (place(from), place(to));
    line[from..=to].fill(sign);
}
