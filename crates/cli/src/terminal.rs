//! The whole terminal, taken and given back.
//!
//! [`Terminal`] switches to the other screen, hides the cursor and reads keys as they are pressed; dropping it undoes
//! all three, a panic included, and [`restore`] does so from anywhere, once. Only rows that changed are written.

use crate::os;
use crate::out::colours_wanted;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Color, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue, terminal};
use report::{Ink, Screen};
use std::io::{IsTerminal, Result, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the screen is ours.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// A terminal that shows screens.
pub(crate) struct Terminal {
    shown: Option<Screen>,
    color: bool,
}

/// What the user did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Press {
    Leave,
    Right,
    Left,
    Down,
    Up,
    Pause,
    Help,
    /// The size is another one, or a key without a meaning was pressed.
    Other,
}

impl Terminal {
    /// Whether there is one that can be taken: both ends are a terminal, and a capable one.
    pub(crate) fn is_available() -> bool {
        let able = std::env::var_os("TERM").is_none_or(|t| t != "dumb" && !t.is_empty());
        able && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
    }

    /// Takes it.
    pub(crate) fn enter() -> Result<Terminal> {
        let terminal = Terminal { shown: None, color: colours_wanted() };
        ACTIVE.store(true, Ordering::SeqCst);
        terminal::enable_raw_mode()?;
        execute!(std::io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(terminal)
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> Result<(usize, usize)> {
        terminal::size().map(|(width, height)| (usize::from(width), usize::from(height)))
    }

    /// Whether colours are seen, and more than ASCII.
    pub(crate) fn capabilities(&self) -> (bool, bool) {
        (self.color, speaks_unicode(|name| std::env::var(name).ok()))
    }

    /// Shows a screen.
    pub(crate) fn show(&mut self, screen: Screen) -> Result<()> {
        let before = self.shown.take().filter(|s| s.width() == screen.width() && s.height() == screen.height());
        let mut out = Vec::new();
        if before.is_none() {
            queue!(out, Clear(ClearType::All))?;
        }
        for y in (0..screen.height()).filter(|y| before.as_ref().is_none_or(|b| !screen.same_row(b, *y))) {
            queue!(out, MoveTo(0, y as u16))?;
            for (ink, text) in screen.row(y) {
                self.dip(&mut out, ink)?;
                out.extend_from_slice(text.as_bytes());
                if ink != Ink::Plain {
                    queue!(out, SetAttribute(Attribute::Reset), ResetColor)?;
                }
            }
        }
        self.shown = Some(screen);
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&out).and_then(|()| stdout.flush())
    }

    fn dip(&self, out: &mut Vec<u8>, ink: Ink) -> Result<()> {
        let color = match ink {
            Ink::Plain => return Ok(()),
            Ink::Bold => return queue!(out, SetAttribute(Attribute::Bold)),
            Ink::Dim => return queue!(out, SetAttribute(Attribute::Dim)),
            Ink::Good => Color::Green,
            Ink::Warn => Color::Yellow,
            Ink::Bad => Color::Red,
            Ink::First => Color::Cyan,
            Ink::Second => Color::Magenta,
            Ink::Third => Color::Blue,
        };
        if self.color { queue!(out, SetForegroundColor(color)) } else { Ok(()) }
    }

    /// Waits for a key for at most `patience`. A terminal that has gone (a closed window, a lost connection) is an
    /// error: crossterm would read its end for ever.
    pub(crate) fn press(&self, patience: Duration) -> Result<Option<Press>> {
        os::wait_for_input(patience)?;
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
        Ok(Some(match event::read()? {
            Event::Key(key) => key_press(key),
            _ => Press::Other,
        }))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, if it was taken.
pub(crate) fn restore() {
    if ACTIVE.swap(false, Ordering::SeqCst) {
        // Where the terminal itself has gone there is nothing to give back.
        let _ = execute!(std::io::stdout(), EnableLineWrap, Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn key_press(key: KeyEvent) -> Press {
    if key.kind == KeyEventKind::Release {
        return Press::Other;
    }
    match key.code {
        KeyCode::Char('c' | 'C' | 'd' | 'D') if key.modifiers.contains(KeyModifiers::CONTROL) => Press::Leave,
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Press::Leave,
        KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => Press::Right,
        KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => Press::Left,
        KeyCode::Down | KeyCode::Char('j') => Press::Down,
        KeyCode::Up | KeyCode::Char('k') => Press::Up,
        KeyCode::Char(' ') => Press::Pause,
        KeyCode::Char('?') | KeyCode::F(1) => Press::Help,
        _ => Press::Other,
    }
}

/// Whether the locale knows more than ASCII. The first of the three that is set counts; Windows has no such variables,
/// and Unicode.
fn speaks_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|v| !v.is_empty());
    match said {
        Some(locale) => {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        }
        None => cfg!(windows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_set_locale_variable_decides() {
        let check = |set: &[(&str, &str)], expected: bool| {
            let find = |name: &str| set.iter().find(|s| s.0 == name).map(|s| s.1.to_string());
            assert_eq!(speaks_unicode(find), expected, "{set:?}");
        };
        check(&[("LANG", "en_US.UTF-8")], true);
        check(&[("LANG", "C.utf8")], true);
        check(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")], false);
        check(&[("LANG", "POSIX"), ("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8")], true);
        check(&[], cfg!(windows));
    }
}
