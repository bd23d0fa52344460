//! Named, typed columns of equal length: what every reader gives and every writer takes.

/// The value that stands for "no time" in a [`Data::Time`] column.
pub const MISSING_TIME: i64 = i64::MIN;

/// Columns of equal length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// In file order.
    pub columns: Vec<Column>,
    /// Length of each column.
    pub rows: usize,
}

/// One named column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// As the file spells it; `""` where it has no name.
    pub name: String,
    /// Its values.
    pub data: Data,
}

/// The values of one column, `[rows]`.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Numbers; a missing one is NaN.
    F64(Vec<f64>),
    /// Whole numbers, none missing (a column with a hole becomes `F64`).
    I64(Vec<i64>),
    /// Numbers of single precision, written only (a reader gives `F64`); a missing one is NaN.
    F32(Vec<f32>),
    /// Small whole numbers, written only; a missing one is `i8::MIN`.
    I8(Vec<i8>),
    /// Numbers of rows, written only; a missing one is `u32::MAX`.
    U32(Vec<u32>),
    /// Yes or no, written only.
    Bool(Vec<bool>),
    /// Instants in nanoseconds since 1970; a missing one is [`MISSING_TIME`]. `utc` is false where the file gave no
    /// zone, so that the value is a wall clock read as if it were UTC.
    Time {
        /// Nanoseconds since 1970, `[rows]`.
        ns: Vec<i64>,
        /// Whether the zone was stated.
        utc: bool,
    },
    /// Nanoseconds since midnight; a missing one is [`MISSING_TIME`].
    Clock(Vec<i64>),
    /// Strings, one after another.
    Text(Text),
    /// Strings that repeat: `codes[row]` indexes `names`; a missing one is `u32::MAX`.
    Names {
        /// `[rows]`
        codes: Vec<u32>,
        /// The distinct strings, in order of appearance.
        names: Vec<String>,
    },
}

/// Strings stored back to back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text {
    bytes: Vec<u8>,
    ends: Vec<usize>, // [rows] where each string ends in `bytes`
}

impl Table {
    /// The first column of that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }
}

impl Column {
    /// A column of numbers.
    pub fn f64(name: impl Into<String>, values: Vec<f64>) -> Column {
        Column { name: name.into(), data: Data::F64(values) }
    }

    /// A column of numbers of single precision.
    pub fn f32(name: impl Into<String>, values: Vec<f32>) -> Column {
        Column { name: name.into(), data: Data::F32(values) }
    }

    /// A column of instants in nanoseconds UTC.
    pub fn time(name: impl Into<String>, ns: Vec<i64>) -> Column {
        Column { name: name.into(), data: Data::Time { ns, utc: true } }
    }
}

impl Data {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Data::F64(v) => v.len(),
            Data::F32(v) => v.len(),
            Data::I8(v) => v.len(),
            Data::U32(v) => v.len(),
            Data::Bool(v) => v.len(),
            Data::I64(v) | Data::Clock(v) | Data::Time { ns: v, .. } => v.len(),
            Data::Text(t) => t.len(),
            Data::Names { codes, .. } => codes.len(),
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The string at that row of a text column; `None` for other columns and missing values.
    pub fn text(&self, row: usize) -> Option<&str> {
        match self {
            Data::Text(t) => Some(t.get(row)),
            Data::Names { codes, names } => names.get(codes[row] as usize).map(String::as_str),
            _ => None,
        }
    }
}

impl Text {
    /// Adds one string.
    pub fn push(&mut self, s: &str) {
        self.bytes.extend_from_slice(s.as_bytes());
        self.ends.push(self.bytes.len());
    }

    /// The string at that row.
    pub fn get(&self, row: usize) -> &str {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        // Pushed as &str, so always whole UTF-8.
        std::str::from_utf8(&self.bytes[start..self.ends[row]]).unwrap_or("")
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|row| self.get(row))
    }
}
