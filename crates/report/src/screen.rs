//! A page of characters: what a terminal shows, as a value.
//!
//! Everything is clipped, every character is one cell wide, and nothing a file name could hold moves a cursor. Whoever
//! shows a screen asks for its rows as runs of one ink; colours are theirs to choose.

/// How a character is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ink {
    /// As everything else.
    #[default]
    Plain,
    /// Frames, hints, what is less.
    Dim,
    /// Headings.
    Bold,
    /// It goes well; the best.
    Good,
    /// To be looked at.
    Warn,
    /// It went wrong.
    Bad,
    /// The curve that counts.
    First,
    /// The one beside it.
    Second,
    /// A third.
    Third,
}

/// Rows of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    width: usize,
    height: usize,
    cells: Vec<(char, Ink)>, // [height, width]
}

/// A part of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Screen {
    /// An empty one. A terminal that claims more than 1000 columns or rows is not believed.
    pub fn new(width: usize, height: usize) -> Screen {
        let (width, height) = (width.min(1000), height.min(1000));
        Screen { width, height, cells: vec![(' ', Ink::Plain); width * height] }
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// A row, as runs of one ink.
    pub fn row(&self, y: usize) -> Vec<(Ink, String)> {
        let mut runs: Vec<(Ink, String)> = Vec::new();
        for (c, ink) in self.cells.iter().skip(y * self.width).take(self.width) {
            match runs.last_mut() {
                // A space has no ink.
                Some(run) if run.0 == *ink || *c == ' ' => run.1.push(*c),
                _ => runs.push((*ink, c.to_string())),
            }
        }
        runs
    }

    /// Whether a row looks as it does on the other.
    pub fn same_row(&self, other: &Screen, y: usize) -> bool {
        let row = |s: &Screen| s.cells.get(y * s.width..(y + 1) * s.width).map(<[_]>::to_vec);
        self.width == other.width && row(self) == row(other)
    }

    /// The whole, without inks.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for row in self.cells.chunks(self.width.max(1)) {
            let line: String = row.iter().map(|c| c.0).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    pub(crate) fn put(&mut self, x: usize, y: usize, c: char, ink: Ink) {
        if x < self.width && y < self.height {
            self.cells[y * self.width + x] = (printable(c), ink);
        }
    }

    /// Writes text, at most `room` characters of it, the last one an ellipsis where it is cut; gives the column behind
    /// it.
    pub(crate) fn write(&mut self, x: usize, y: usize, room: usize, text: &str, ink: Ink) -> usize {
        let room = room.min(self.width.saturating_sub(x));
        let long = text.chars().count();
        for (i, c) in text.chars().take(room).enumerate() {
            self.put(x + i, y, if i + 1 == room && long > room { '…' } else { c }, ink);
        }
        x + long.min(room)
    }

    /// Writes text so that it ends before a column.
    pub(crate) fn write_before(&mut self, end: usize, y: usize, text: &str, ink: Ink) -> usize {
        let x = end.saturating_sub(text.chars().count());
        self.write(x, y, end - x, text, ink);
        x
    }

    /// A box with a heading; gives what is inside.
    pub(crate) fn frame(&mut self, area: Area, heading: &str) -> Area {
        let Area { x, y, width, height } = area;
        if width < 4 || height < 3 {
            return Area { x, y, width: 0, height: 0 };
        }
        let (right, bottom) = (x + width - 1, y + height - 1);
        for i in x..=right {
            self.put(i, y, '─', Ink::Dim);
            self.put(i, bottom, '─', Ink::Dim);
        }
        for i in y..=bottom {
            self.put(x, i, '│', Ink::Dim);
            self.put(right, i, '│', Ink::Dim);
        }
        for (x, y, c) in [(x, y, '╭'), (right, y, '╮'), (x, bottom, '╰'), (right, bottom, '╯')] {
            self.put(x, y, c, Ink::Dim);
        }
        if !heading.is_empty() {
            self.write(x + 2, y, width - 4, &format!(" {heading} "), Ink::Bold);
        }
        Area { x: x + 1, y: y + 1, width: width - 2, height: height - 2 }
    }

    /// A bar, so much of it full; gives the column behind it.
    pub(crate) fn bar(&mut self, x: usize, y: usize, width: usize, share: f64, ink: Ink) -> usize {
        let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        for i in 0..width {
            let (c, ink) = if i < full { ('█', ink) } else { ('░', Ink::Dim) };
            self.put(x + i, y, c, ink);
        }
        x + width
    }

    /// Everything in ASCII, for terminals that know no more.
    pub(crate) fn translate_to_ascii(&mut self) {
        for cell in &mut self.cells {
            cell.0 = match cell.0 {
                c if c.is_ascii() => c,
                '─' | '━' | '−' | '–' => '-',
                '│' | '┤' | '├' => '|',
                '╭' | '╮' | '╰' | '╯' | '┴' | '┼' => '+',
                '█' => '#',
                '░' => '.',
                '·' => '-',
                '…' => '~',
                '◆' => '*',
                '▸' => '>',
                '×' => 'x',
                // Eight heights become four.
                c @ '▁'..='▇' => ['_', '.', '-', '='][(c as usize - '▁' as usize) / 2],
                _ => '?',
            };
        }
    }
}

/// Control characters, invisible ones and those that take two cells, shown as one that does no harm.
fn printable(c: char) -> char {
    let wide = matches!(c as u32,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6
        | 0x1f000..=0x3ffff);
    let unseen = matches!(c as u32,
        0x300..=0x36f | 0x61c | 0x200b..=0x200f | 0x2028..=0x202f | 0x2060..=0x206f | 0xfe00..=0xfe0f | 0xfeff | 0xe0000..);
    if c.is_control() || wide || unseen { '?' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_the_screen_and_nothing_moves_the_cursor() {
        let mut screen = Screen::new(8, 2);
        screen.write(5, 0, 99, "abcdef", Ink::Bold);
        screen.write(0, 1, 4, "a\u{1b}[2J", Ink::Plain);
        screen.write(0, 9, 4, "below", Ink::Plain);
        screen.put(99, 0, 'x', Ink::Plain);
        assert_eq!(screen.text(), "     ab…\na?[…\n");
        assert_eq!(screen.write_before(3, 0, "long", Ink::Dim), 0);
        assert_eq!(screen.text().lines().next(), Some("lo…  ab…"));
        assert_eq!(screen.row(0)[0], (Ink::Dim, "lo…  ".to_string()));
        let mut hostile = Screen::new(4, 1);
        hostile.write(0, 0, 4, "金\u{202e}\u{7}é", Ink::Plain);
        assert_eq!(hostile.text(), "???é\n");
        Screen::new(0, 0).write(0, 0, 5, "x", Ink::Plain);
    }

    #[test]
    fn frames_and_bars_in_both_alphabets() {
        let mut screen = Screen::new(12, 3);
        let inside = screen.frame(Area { x: 0, y: 0, width: 12, height: 3 }, "cpu");
        assert_eq!(inside, Area { x: 1, y: 1, width: 10, height: 1 });
        screen.bar(1, 1, 10, 0.5, Ink::Good);
        assert_eq!(screen.text(), "╭─ cpu ────╮\n│█████░░░░░│\n╰──────────╯\n");
        let before = screen.clone();
        screen.translate_to_ascii();
        assert_eq!(screen.text(), "+- cpu ----+\n|#####.....|\n+----------+\n");
        assert!(!screen.same_row(&before, 0) && before.same_row(&before, 0));
    }
}
