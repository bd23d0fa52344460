//! One error for everything read or written: what is wrong, where, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// `Result` with this room's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault it is; the command line turns it into an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The words of the command or a setting are wrong.
    Usage,
    /// A file or its content is wrong.
    Input,
    /// Disk, device, threads; for memory there is [`Kind::Memory`].
    Machine,
    /// Not enough memory, of the machine or of a card: less at once may work.
    Memory,
    /// A lock, a damaged or foreign catalogue, another version.
    State,
    /// The user stopped it.
    Interrupted,
}

/// What is wrong, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// Whose fault it is.
    pub kind: Kind,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The file it was seen in.
    pub file: Option<PathBuf>,
    /// Line in that file, from 1.
    pub line: Option<u64>,
    /// Column (field of a table, or character of JSON and TOML), from 1.
    pub column: Option<u64>,
    /// What the user can do. A setting is named in angle brackets, by its key and perhaps with a value, as in
    /// `<device=cpu>`: the command line writes it as the flag that its verb has for it, other callers as they do.
    pub remedy: Option<String>,
}

impl Error {
    /// An error of that kind with a message and nothing else yet.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), file: None, line: None, column: None, remedy: None }
    }

    /// A file or its content is wrong.
    pub fn input(message: impl Into<String>) -> Error {
        Error::new(Kind::Input, message)
    }

    /// An operating-system error on that path: missing files are the user's, a full disk is the machine's.
    pub fn io(path: &Path, doing: &str, cause: &std::io::Error) -> Error {
        use std::io::ErrorKind as K;
        let kind = match cause.kind() {
            K::OutOfMemory => Kind::Memory,
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge | K::ReadOnlyFilesystem => Kind::Machine,
            _ => Kind::Input,
        };
        let remedy = match cause.kind() {
            K::NotFound => Some("check the path"),
            K::PermissionDenied => Some("check the permissions of the file and its folder"),
            K::StorageFull | K::QuotaExceeded => Some("free some space or choose another folder with <out>"),
            _ => None,
        };
        let mut error = Error::new(kind, format!("{doing}: {cause}")).at(path);
        error.remedy = remedy.map(str::to_string);
        error
    }

    /// Says which file, unless one is named already.
    pub fn at(mut self, path: &Path) -> Error {
        self.file.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// Says which line, from 1.
    pub fn line(mut self, line: u64) -> Error {
        self.line = Some(line);
        self
    }

    /// Says which column, from 1.
    pub fn column(mut self, column: u64) -> Error {
        self.column = Some(column);
        self
    }

    /// Says what the user can do.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Error {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
                if let Some(column) = self.column {
                    write!(f, ":{column}")?;
                }
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.message)
    }
}
