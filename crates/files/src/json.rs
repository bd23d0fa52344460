//! Tables out of JSON, streamed: the text becomes columns as it is parsed, never a tree of values.
//!
//! A table is found in any of these shapes, at the top or up to two objects deep, the shallowest first:
//!
//! * rows as arrays (`[[t, o, h, l, c], ..]`), columns named `"0"`, `"1"`, ..;
//! * rows as objects (`[{"t": .., "o": ..}, ..]`), a key that comes late is missing before; `{"mid": {"o": ..}}`
//!   becomes `mid.o`;
//! * columns as arrays of equal length (`{"t": [..], "o": [..]}`), or as pandas writes them (`{"o": {"0": .., "1":
//!   ..}}`);
//! * rows under keys that start with a digit (`{"2024-01-02": {"o": ..}}`), the key in a column `index`;
//! * one row per line;
//! * a list of one object that holds any of these, as Yahoo's chart and Tiingo's coins do; columns of such objects one
//!   inside another join where they are equally long;
//! * several lists of rows of one kind under names in capitals (`{"AAPL": [..], "MSFT": [..]}`), the name in a column
//!   `symbol`.
//!
//! Scalars beside the table are handed out as text. Lists inside a row of objects are left out and named. The caller
//! decides what a string means: nothing is guessed here.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufReader, Read};

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use crate::error::{Error, Result};
use crate::source::{Caps, Source};
use crate::table::{Column, Data, Table, Text};

/// A table found in JSON, and what stood beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Json {
    /// The table. Whole numbers are `I64`, other numbers `F64`, strings `Text`; a column of both is `Text`.
    pub table: Table,
    /// How it was laid out.
    pub shape: JsonShape,
    /// Scalars beside the table by dotted path, as text; `("rows", path)` says where the table was, `("ignored", key)`
    /// which list inside the rows was left out.
    pub scalars: Vec<(String, String)>,
}

/// How a table is laid out in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonShape {
    /// Rows are arrays; columns have numbers for names.
    Arrays,
    /// Rows are objects.
    Objects,
    /// Columns are arrays.
    Columns,
}

/// Finds the table in a JSON file.
pub fn read_json(source: &Source, caps: &Caps) -> Result<Json> {
    let lines = is_lines(&source.head(1 << 16)?);
    let reader = BufReader::with_capacity(1 << 16, source.reader_under(caps)?);
    read(reader, lines, caps).map_err(|e| e.at(source.path()))
}

fn read(mut reader: impl Read, lines: bool, caps: &Caps) -> Result<Json> {
    // serde_json takes no byte order mark.
    let mut first = [0; 3];
    let mut got = 0;
    while got < 3 {
        match reader.read(&mut first[got..]).map_err(|e| Error::input(format!("reading the file: {e}")))? {
            0 => break,
            n => got += n,
        }
    }
    let first = if first[..got] == *b"\xef\xbb\xbf" { &[] } else { &first[..got] };
    let mut parser = serde_json::Deserializer::from_reader(first.chain(reader));
    if lines {
        let mut rows = Rows::default();
        while parser.end().is_err() {
            rows.read(&mut parser, caps).map_err(explain)?;
        }
        return finish_rows(rows, "", Vec::new());
    }
    let mut top = Node::default();
    parser.deserialize_any(Top { node: &mut top, caps }).map_err(explain)?;
    parser.end().map_err(explain)?;
    top.choose()
}

/// One value per line: the first line is whole JSON, and another follows.
fn is_lines(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let Some(end) = memchr::memchr(b'\n', text) else { return false };
    !text[end..].trim_ascii().is_empty() && serde_json::from_slice::<IgnoredAny>(&text[..end]).is_ok()
}

fn explain(cause: serde_json::Error) -> Error {
    let text = cause.to_string();
    // serde_json ends its messages with the place, which we carry apart.
    let message = text.rfind(" at line ").map_or(text.as_str(), |at| &text[..at]);
    let error = Error::input(match cause.classify() {
        serde_json::error::Category::Syntax => format!("this is not valid JSON: {message}"),
        serde_json::error::Category::Eof => "the JSON ends too early (a broken download?)".to_string(),
        serde_json::error::Category::Io => format!("reading the file: {message}"),
        serde_json::error::Category::Data => message.to_string(),
    });
    let error = match cause.classify() {
        serde_json::error::Category::Syntax => error.remedy("check the place; JSON has no NaN, write null instead"),
        serde_json::error::Category::Eof => error.remedy("get the file again"),
        _ => error,
    };
    if cause.line() == 0 { error } else { error.line(cause.line() as u64).column(cause.column() as u64) }
}

/// Objects that hold a table may be nested this deep.
const DEPTH: usize = 2;
/// Objects inside a row may be nested this deep.
const ROW_DEPTH: usize = 8;

/// The names and the index that stand beside rows.
type SplitNames = (Option<Vec<String>>, Option<Cells>);

/// An object around the table, or the top of the file.
#[derive(Default)]
struct Node {
    path: String,
    keys: Vec<String>, // of the scalars
    scalars: Cells,
    columns: Vec<(String, Cells)>,
    rows: Vec<(String, Rows)>, // with their paths
    children: Vec<Node>,
    unwrapped: bool, // the only object of a list
}

impl Node {
    /// Takes the shallowest rows; else the shallowest columns; else what pandas calls orient "columns".
    fn choose(mut self) -> Result<Json> {
        let mut scalars = Vec::new();
        self.collect_scalars(&mut scalars);
        let deepest = self.height();
        for level in 0..=deepest {
            let mut found = Vec::new();
            self.at_level(level, &mut |node| {
                for (path, rows) in std::mem::take(&mut node.rows) {
                    let names = node.split_names(&rows);
                    found.push((path, rows, names));
                }
            });
            let any = found.len();
            found.retain(|(_, rows, _)| rows.count > 0 || any == 1);
            if found.len() > 1 {
                let two = (found[0].0.clone(), found[1].0.clone());
                let Some(rows) = join_symbols(found) else {
                    return Err(Error::input(format!("it has two lists of rows, {} and {}", two.0, two.1))
                        .remedy("keep one table per file"));
                };
                return finish_rows(rows, "", scalars);
            }
            // An empty list at the top may be an "errors" beside the real rows further down.
            let last = level == deepest || self.children.is_empty();
            if let Some((path, rows, (names, index))) = found.pop()
                && (rows.count > 0 || (last && !self.has_columns()))
            {
                let mut json = finish_rows(rows, &path, scalars)?;
                rename(&mut json, names, index);
                return Ok(json);
            }
        }
        for level in 0..=deepest {
            let mut found = Vec::new();
            self.at_level(level, &mut |node| {
                if node.columns.iter().any(|(_, cells)| cells.len() > 0) {
                    found.push((node.path.clone(), node.take_columns()));
                }
            });
            if let Some((path, columns)) = found.pop() {
                return finish_columns(columns, &path, scalars);
            }
        }
        if let Some((path, columns)) = self.pandas_columns() {
            let kept = scalars.into_iter().filter(|(name, _)| path.is_empty() && !name.contains('.')).collect();
            return finish_columns(columns, &path, kept);
        }
        if self.columns.is_empty() && self.keys.is_empty() && self.children.is_empty() {
            return Ok(Json { table: Table::default(), shape: JsonShape::Arrays, scalars });
        }
        Err(Error::input("no table is found in this JSON")
            .remedy("give a list of rows, or an object with one list per column"))
    }

    fn at_level(&mut self, level: usize, visit: &mut impl FnMut(&mut Node)) {
        match level {
            0 => visit(self),
            _ => self.children.iter_mut().for_each(|child| child.at_level(level - 1, visit)),
        }
    }

    /// Levels of objects below this one.
    fn height(&self) -> usize {
        self.children.iter().map(|child| child.height() + 1).max().unwrap_or(0)
    }

    /// Its columns; those of an object that was the only one of its list join the equally long ones of such objects
    /// inside it, and whatever is shorter is left.
    fn take_columns(&mut self) -> Vec<(String, Cells)> {
        let mut columns = std::mem::take(&mut self.columns);
        if !self.unwrapped {
            return columns;
        }
        for child in self.children.iter_mut().filter(|child| child.unwrapped) {
            columns.append(&mut child.take_columns());
        }
        let count = |len: usize| columns.iter().filter(|(_, cells)| cells.len() == len).count();
        let most = columns.iter().map(|(_, cells)| cells.len()).max_by_key(|len| (count(*len), *len)).unwrap_or(0);
        columns.retain(|(_, cells)| cells.len() == most);
        columns
    }

    fn has_columns(&self) -> bool {
        self.columns.iter().any(|(_, c)| c.len() > 0) || self.children.iter().any(Node::has_columns)
    }

    /// Scalars of small objects; a large one is a column of data and no description.
    fn collect_scalars(&self, out: &mut Vec<(String, String)>) {
        if self.keys.len() <= 256 {
            for (row, key) in self.keys.iter().enumerate() {
                out.push((join(&self.path, key), self.scalars.text(row)));
            }
        }
        self.children.iter().for_each(|child| child.collect_scalars(out));
    }

    /// The names and the index that pandas' orient "split" keeps beside its rows.
    fn split_names(&mut self, rows: &Rows) -> SplitNames {
        let mut take = |name: &str, len: usize| {
            let at = self.columns.iter().position(|(n, cells)| n == name && cells.len() == len)?;
            Some(self.columns.swap_remove(at).1)
        };
        if rows.shape != Some(JsonShape::Arrays) {
            return (None, None);
        }
        let names = take("columns", rows.columns.len()).map(|cells| (0..cells.len()).map(|i| cells.text(i)).collect());
        let index = if names.is_some() { take("index", rows.count) } else { None };
        (names, index)
    }

    /// Children that hold nothing but scalars under the same keys are columns; their keys are the index.
    fn pandas_columns(&mut self) -> Option<(String, Vec<(String, Cells)>)> {
        let first = self.children.first()?;
        let same = |child: &Node| child.is_leaf() && !child.keys.is_empty() && child.keys == first.keys;
        if !self.children.iter().all(same) {
            return self.children.iter_mut().find_map(Node::pandas_columns);
        }
        let mut columns = Vec::new();
        // 0, 1, 2, .. is how pandas numbers rows that have no index.
        if first.keys.iter().enumerate().any(|(i, key)| *key != i.to_string()) {
            let mut index = Cells::default();
            first.keys.iter().for_each(|key| index.push(Cell::Str(key)));
            columns.push(("index".to_string(), index));
        }
        for child in self.children.drain(..) {
            let name = child.path.strip_prefix(&self.path).unwrap_or(&child.path).trim_start_matches('.');
            columns.push((name.to_string(), child.scalars));
        }
        Some((self.path.clone(), columns))
    }

    fn is_leaf(&self) -> bool {
        self.columns.is_empty() && self.rows.is_empty() && self.children.is_empty()
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// Lists of like rows under the names of their symbols become one, with the names in a column.
fn join_symbols(found: Vec<(String, Rows, SplitNames)>) -> Option<Rows> {
    let parent = |path: &str| path.rsplit_once('.').map_or("", |(parent, _)| parent).to_string();
    let ticker = |key: &str| {
        key.len() >= 2
            && key.bytes().any(|b| b.is_ascii_uppercase())
            && key.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"-_/:^=".contains(&b))
    };
    let (path, first, _) = &found[0];
    let alike = |(other, rows, (names, _)): &(String, Rows, SplitNames)| {
        parent(other) == parent(path)
            && ticker(other.rsplit('.').next().unwrap_or_default())
            && names.is_none()
            && rows.shape == first.shape
            && rows.names.iter().all(|name| first.by_name.contains_key(name))
    };
    if !found.iter().all(alike) || first.by_name.contains_key("symbol") {
        return None;
    }
    let mut all = Rows { shape: first.shape, names: first.names.clone(), ..Rows::default() };
    all.columns = first.names.iter().map(|_| Cells::default()).collect();
    let mut symbols = Cells::default();
    for (path, mut rows, _) in found {
        let key = path.rsplit('.').next().unwrap_or_default();
        (0..rows.count).for_each(|_| symbols.push(Cell::Str(key)));
        all.count += rows.count;
        for (name, column) in all.names.iter().zip(&mut all.columns) {
            if let Some(at) = rows.by_name.get(name) {
                column.append(std::mem::take(&mut rows.columns[*at]));
            }
            column.fill(all.count);
        }
    }
    all.names.push("symbol".to_string());
    all.columns.push(symbols);
    Some(all)
}

fn rename(json: &mut Json, names: Option<Vec<String>>, index: Option<Cells>) {
    if let Some(names) = names {
        json.table.columns.iter_mut().zip(names).for_each(|(column, name)| column.name = name);
    }
    if let Some(index) = index {
        json.table.columns.insert(0, Column { name: "index".to_string(), data: index.finish() });
    }
}

fn finish_rows(rows: Rows, path: &str, mut scalars: Vec<(String, String)>) -> Result<Json> {
    if !path.is_empty() {
        scalars.push(("rows".to_string(), path.to_string()));
    }
    scalars.extend(rows.ignored.into_iter().map(|key| ("ignored".to_string(), key)));
    let columns = rows.names.into_iter().zip(rows.columns);
    let columns = columns.map(|(name, cells)| Column { name, data: cells.finish() }).collect();
    let table = Table { columns, rows: rows.count };
    Ok(Json { table, shape: rows.shape.unwrap_or(JsonShape::Arrays), scalars })
}

fn finish_columns(columns: Vec<(String, Cells)>, path: &str, mut scalars: Vec<(String, String)>) -> Result<Json> {
    let rows = columns.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    if let Some((name, cells)) = columns.iter().find(|(_, cells)| cells.len() != rows) {
        return Err(Error::input(format!("column {name} has {} values, another has {rows}", cells.len()))
            .remedy("all columns need the same length"));
    }
    if !path.is_empty() {
        scalars.push(("rows".to_string(), path.to_string()));
    }
    let columns = columns.into_iter().map(|(name, cells)| Column { name, data: cells.finish() }).collect();
    Ok(Json { table: Table { columns, rows }, shape: JsonShape::Columns, scalars })
}

/// The six scalars of JSON, all handed to the visitor's `scalar`.
macro_rules! scalars {
    ($value:ty) => {
        fn visit_unit<E: serde::de::Error>(self) -> Result<$value, E> {
            self.scalar(Cell::Missing)
        }

        fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<$value, E> {
            self.scalar(Cell::Int(i64::from(v)))
        }

        fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<$value, E> {
            self.scalar(Cell::Int(v))
        }

        fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<$value, E> {
            self.scalar(i64::try_from(v).map_or(Cell::Float(v as f64), Cell::Int))
        }

        fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<$value, E> {
            self.scalar(Cell::Float(v))
        }

        fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<$value, E> {
            self.scalar(Cell::Str(v))
        }
    };
}

/// The value at the top of the file.
struct Top<'a> {
    node: &'a mut Node,
    caps: &'a Caps,
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rows or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        List { node: self.node, key: "", caps: self.caps, top: true, loose: false }.visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        Holder { node: self.node, depth: 0, caps: self.caps }.visit_map(map)
    }
}

/// An object that may hold the table.
struct Holder<'a> {
    node: &'a mut Node,
    depth: usize,
    caps: &'a Caps,
}

impl<'de> Visitor<'de> for Holder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Holder { node, depth, caps } = self;
        while let Some(key) = map.next_key::<String>()? {
            check_string(&key, caps)?;
            map.next_value_seed(Held { node: &mut *node, key: &key, depth, caps })?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Holder<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

/// One value of an object that may hold the table.
struct Held<'a> {
    node: &'a mut Node,
    key: &'a str,
    depth: usize,
    caps: &'a Caps,
}

impl Held<'_> {
    fn scalar<E: serde::de::Error>(self, cell: Cell<'_>) -> Result<(), E> {
        if let Cell::Str(text) = cell {
            check_string(text, self.caps)?;
        }
        if self.node.keys.len() as u64 >= self.caps.rows {
            return Err(E::custom(format_args!("more than {} values in one object", self.caps.rows)));
        }
        self.node.keys.push(self.key.to_string());
        self.node.scalars.push(cell);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Held<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Held<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    scalars!(());

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        List { node: self.node, key: self.key, caps: self.caps, top: false, loose: false }.visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Held { node, key, depth, caps } = self;
        if key.starts_with(|c: char| c.is_ascii_digit()) {
            // Keys that start with a digit are row labels, and each value is a row.
            let path = node.path.clone();
            let at = node.rows.iter().position(|(p, _)| *p == path).unwrap_or_else(|| {
                node.rows.push((path, Rows::default()));
                node.rows.len() - 1
            });
            let rows = &mut node.rows[at].1;
            rows.start_row(JsonShape::Objects, caps)?;
            rows.put("index", Cell::Str(key), caps)?;
            rows.read_object(&mut map, &mut String::new(), 0, caps)?;
            return rows.end_object();
        }
        if depth >= DEPTH {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        if node.children.len() >= caps.columns {
            return Err(A::Error::custom(format_args!("more than {} columns", caps.columns)));
        }
        let mut child = Node { path: join(&node.path, key), ..Node::default() };
        Holder { node: &mut child, depth: depth + 1, caps }.visit_map(map)?;
        node.children.push(child);
        Ok(())
    }
}

/// A list that is a column, when it starts with a scalar, or rows.
struct List<'a> {
    node: &'a mut Node,
    key: &'a str,
    caps: &'a Caps,
    top: bool,
    loose: bool, // whatever is no table is passed over
}

impl List<'_> {
    fn visit_seq<'de, A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let List { node, key, caps, top, loose } = self;
        let mut rows = Rows { path: join(&node.path, key), loose, ..Rows::default() };
        let mut column = Cells::default();
        let mut broken = false;
        let mut scalars = false;
        // The first element decides; a scalar among rows, or a row among scalars, is an error of its seed.
        match seq.next_element_seed(Element { rows: &mut rows, column: &mut column, caps })? {
            None => {}
            Some(Kind::Scalar) if top => {
                return Err(A::Error::custom("the list holds single values, not rows"));
            }
            Some(Kind::Scalar) => {
                scalars = true;
                loop {
                    let broken = loose.then_some(&mut broken);
                    if seq.next_element_seed(ColumnCell { column: &mut column, caps, broken })?.is_none() {
                        break;
                    }
                }
            }
            Some(Kind::Row) => while seq.next_element_seed(Row { rows: &mut rows, caps })?.is_some() {},
        }
        if broken || rows.broken {
            return Ok(());
        }
        if scalars || (column.len() == 0 && rows.count == 0 && !top && !key.is_empty() && key != "data") {
            if node.columns.len() >= caps.columns {
                return Err(A::Error::custom(format_args!("more than {} columns", caps.columns)));
            }
            let key = key.rsplit('.').next().filter(|_| loose).unwrap_or(key);
            node.columns.push((key.to_string(), column));
        } else if let Some(inner) = rows.take_inner() {
            node.children.push(inner);
        } else {
            node.rows.push((rows.path.clone(), rows));
        }
        Ok(())
    }
}

/// What the first element of a list is.
enum Kind {
    Scalar,
    Row,
}

struct Element<'a> {
    rows: &'a mut Rows,
    column: &'a mut Cells,
    caps: &'a Caps,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Kind;

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<Kind, D::Error> {
        d.deserialize_any(self)
    }
}

impl Element<'_> {
    fn scalar<E: serde::de::Error>(self, cell: Cell<'_>) -> Result<Kind, E> {
        ColumnCell { column: self.column, caps: self.caps, broken: None }.scalar(cell)?;
        Ok(Kind::Scalar)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row or a value")
    }

    scalars!(Kind);

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Kind, A::Error> {
        Row { rows: self.rows, caps: self.caps }.visit_seq(seq)?;
        Ok(Kind::Row)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Kind, A::Error> {
        Row { rows: self.rows, caps: self.caps }.visit_map(map)?;
        Ok(Kind::Row)
    }
}

/// Rows as they come, in columns.
#[derive(Default)]
struct Rows {
    shape: Option<JsonShape>, // of the first row
    names: Vec<String>,
    columns: Vec<Cells>,
    by_name: HashMap<String, usize>,
    next: usize, // column expected next: rows mostly keep their order
    count: usize,
    values: usize, // put into any column
    ignored: Vec<String>,
    path: String,             // of the list
    inner: Option<Box<Node>>, // lists of the first row, while it is the only one
    loose: bool,              // what is no row marks it as broken, and is no error
    broken: bool,
}

impl Rows {
    fn read<R: Read>(
        &mut self,
        parser: &mut serde_json::Deserializer<serde_json::de::IoRead<R>>,
        caps: &Caps,
    ) -> serde_json::Result<()> {
        parser.deserialize_any(Row { rows: self, caps })
    }

    fn start_row<E: serde::de::Error>(&mut self, shape: JsonShape, caps: &Caps) -> Result<(), E> {
        if self.count as u64 >= caps.rows {
            return Err(E::custom(format_args!("it has more than {} rows", caps.rows)));
        }
        if *self.shape.get_or_insert(shape) != shape {
            self.fail(format_args!("row {} is not of the kind of the rows before", self.count + 1))?;
        }
        if self.count > 0 {
            self.inner = None;
        }
        self.next = 0;
        Ok(())
    }

    /// What is no table is an error, except where a list is only looked at.
    fn fail<E: serde::de::Error>(&mut self, message: fmt::Arguments<'_>) -> Result<(), E> {
        self.broken = true;
        if self.loose { Ok(()) } else { Err(E::custom(message)) }
    }

    /// The table inside a list of one object, with the object's own values as scalars.
    fn take_inner(&mut self) -> Option<Node> {
        let mut node = *self.inner.take()?;
        let rows = node.rows.iter().map(|(_, rows)| rows.count);
        let longest = rows.chain(node.columns.iter().map(|(_, cells)| cells.len())).max().unwrap_or(0);
        if self.count != 1 || (longest < 2 && node.children.is_empty()) {
            return None;
        }
        for (name, cells) in self.names.iter().zip(&self.columns) {
            node.keys.push(name.clone());
            node.scalars.push(Cell::Str(&cells.text(0)));
        }
        Some(node)
    }

    /// Puts a value into the column of that name, which is made when it is new.
    fn put<E: serde::de::Error>(&mut self, name: &str, cell: Cell<'_>, caps: &Caps) -> Result<(), E> {
        if let Cell::Str(text) = cell {
            check_string(text, caps)?;
        }
        let at = if self.names.get(self.next).is_some_and(|n| n == name) {
            self.next
        } else if let Some(at) = self.by_name.get(name) {
            *at
        } else {
            self.add_column(name, caps)?
        };
        self.next = at + 1;
        let column = &mut self.columns[at];
        if column.len() > self.count {
            return self.fail(format_args!("row {} has {name:?} twice", self.count + 1));
        }
        column.fill(self.count);
        column.push(cell);
        self.values += 1;
        Ok(())
    }

    fn add_column<E: serde::de::Error>(&mut self, name: &str, caps: &Caps) -> Result<usize, E> {
        if self.columns.len() >= caps.columns {
            return Err(E::custom(format_args!("more than {} columns", caps.columns)));
        }
        self.names.push(name.to_string());
        self.columns.push(Cells::default());
        self.by_name.insert(name.to_string(), self.columns.len() - 1);
        Ok(self.columns.len() - 1)
    }

    fn read_object<'de, A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        prefix: &mut String,
        depth: usize,
        caps: &Caps,
    ) -> Result<(), A::Error> {
        let start = prefix.len();
        while map.next_key_seed(Key(prefix))?.is_some() {
            check_string(prefix, caps)?;
            map.next_value_seed(Value { rows: self, name: prefix, depth, caps })?;
            prefix.truncate(start);
        }
        Ok(())
    }

    fn end_object<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.count += 1;
        // A few bytes per row must not buy a wide table of nothing.
        let cells = self.count.saturating_mul(self.columns.len());
        if cells > 1 << 24 && cells / 64 > self.values {
            return Err(E::custom("the rows have almost no key in common"));
        }
        self.columns.iter_mut().for_each(|c| c.fill(self.count));
        Ok(())
    }
}

/// One row.
struct Row<'a> {
    rows: &'a mut Rows,
    caps: &'a Caps,
}

impl Row<'_> {
    fn scalar<E: serde::de::Error>(self, cell: Cell<'_>) -> Result<(), E> {
        self.rows.broken = true;
        if self.rows.loose { Ok(()) } else { Err(E::invalid_type(cell.unexpected(), &self)) }
    }
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} as a list or an object", self.rows.count + 1)
    }

    scalars!(());

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Row { rows, caps } = self;
        rows.start_row(JsonShape::Arrays, caps)?;
        let mut at = 0;
        loop {
            let broken = rows.loose.then_some(&mut rows.broken);
            if rows.count == 0 {
                // The first row says how many columns there are.
                let mut cells = Cells::default();
                if seq.next_element_seed(ColumnCell { column: &mut cells, caps, broken })?.is_none() {
                    break;
                }
                rows.add_column(&at.to_string(), caps)?;
                rows.columns[at] = cells;
            } else if let Some(column) = rows.columns.get_mut(at) {
                if seq.next_element_seed(ColumnCell { column, caps, broken })?.is_none() {
                    break;
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
            at += 1;
        }
        if at != rows.columns.len() {
            let (row, first) = (rows.count + 1, rows.columns.len());
            rows.fail(format_args!("row {row} has {at} values, the first has {first}"))?;
        }
        rows.count += 1;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Row { rows, caps } = self;
        rows.start_row(JsonShape::Objects, caps)?;
        rows.read_object(&mut map, &mut String::new(), 0, caps)?;
        rows.end_object()
    }
}

/// Appends a key to the path of the keys around it.
struct Key<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<(), E> {
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(v);
        Ok(())
    }
}

/// One value of a row that is an object.
struct Value<'a> {
    rows: &'a mut Rows,
    name: &'a mut String,
    depth: usize,
    caps: &'a Caps,
}

impl Value<'_> {
    fn scalar<E: serde::de::Error>(self, cell: Cell<'_>) -> Result<(), E> {
        self.rows.put(self.name, cell, self.caps)
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    scalars!(());

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Value { rows, name, caps, .. } = self;
        if rows.ignored.len() < 64 && !rows.ignored.contains(name) {
            rows.ignored.push(name.clone());
        }
        if rows.count == 0 {
            let path = &rows.path;
            let inner = rows
                .inner
                .get_or_insert_with(|| Box::new(Node { path: path.clone(), unwrapped: true, ..Node::default() }));
            return List { node: inner, key: name, caps, top: false, loose: true }.visit_seq(seq);
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.depth >= ROW_DEPTH {
            return Err(A::Error::custom(format_args!("row {} is nested too deep", self.rows.count + 1)));
        }
        self.rows.read_object(&mut map, self.name, self.depth + 1, self.caps)
    }
}

/// One value of a column, or of a row that is a list.
struct ColumnCell<'a> {
    column: &'a mut Cells,
    caps: &'a Caps,
    broken: Option<&'a mut bool>, // where anything else is no error
}

impl ColumnCell<'_> {
    fn scalar<E: serde::de::Error>(self, cell: Cell<'_>) -> Result<(), E> {
        if let Cell::Str(text) = cell {
            check_string(text, self.caps)?;
        }
        if self.column.len() as u64 >= self.caps.rows {
            return Err(E::custom(format_args!("it has more than {} rows", self.caps.rows)));
        }
        self.column.push(cell);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for ColumnCell<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ColumnCell<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} to hold a single value here", self.column.len() + 1)
    }

    scalars!(());

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some(broken) = self.broken else { return Err(A::Error::invalid_type(Unexpected::Seq, &self)) };
        *broken = true;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some(broken) = self.broken else { return Err(A::Error::invalid_type(Unexpected::Map, &self)) };
        *broken = true;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

fn check_string<E: serde::de::Error>(text: &str, caps: &Caps) -> Result<(), E> {
    if text.len() > caps.line {
        return Err(E::custom(format_args!("a string is longer than {} bytes", caps.line)));
    }
    Ok(())
}

/// A single value.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Missing,
    Int(i64),
    Float(f64),
    Str(&'a str),
}

impl<'a> Cell<'a> {
    fn unexpected(self) -> Unexpected<'a> {
        match self {
            Cell::Missing => Unexpected::Unit,
            Cell::Int(x) => Unexpected::Signed(x),
            Cell::Float(x) => Unexpected::Float(x),
            Cell::Str(x) => Unexpected::Str(x),
        }
    }
}

/// A column that widens as values come: whole numbers, numbers, text.
enum Cells {
    Missing(usize),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Text(Text),
}

impl Default for Cells {
    fn default() -> Cells {
        Cells::Missing(0)
    }
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Cells::Missing(n) => *n,
            Cells::Int(v) => v.len(),
            Cells::Float(v) => v.len(),
            Cells::Text(t) => t.len(),
        }
    }

    fn push(&mut self, cell: Cell<'_>) {
        match (&mut *self, cell) {
            (Cells::Missing(n), Cell::Missing) => *n += 1,
            (Cells::Int(v), Cell::Int(x)) => v.push(x),
            (Cells::Float(v), Cell::Int(x)) => v.push(x as f64),
            (Cells::Float(v), Cell::Float(x)) => v.push(x),
            (Cells::Float(v), Cell::Missing) => v.push(f64::NAN),
            (Cells::Text(t), Cell::Str(s)) => t.push(s),
            (Cells::Text(t), Cell::Missing) => t.push(""),
            (Cells::Text(t), Cell::Int(x)) => t.push(&x.to_string()),
            (Cells::Text(t), Cell::Float(x)) => t.push(&x.to_string()),
            (Cells::Missing(0), Cell::Int(x)) => *self = Cells::Int(vec![x]),
            (_, Cell::Str(_)) => {
                *self = self.to_text();
                self.push(cell);
            }
            (_, _) => {
                *self = self.to_float();
                self.push(cell);
            }
        }
    }

    /// Another column's values behind.
    fn append(&mut self, other: Cells) {
        if self.len() == 0 {
            *self = other;
            return;
        }
        match other {
            Cells::Missing(n) => self.fill(self.len() + n),
            Cells::Int(v) => v.into_iter().for_each(|x| self.push(Cell::Int(x))),
            Cells::Float(v) => {
                v.into_iter().for_each(|x| self.push(if x.is_nan() { Cell::Missing } else { Cell::Float(x) }));
            }
            Cells::Text(t) => t.iter().for_each(|x| self.push(Cell::Str(x))),
        }
    }

    /// Missing values up to that length.
    fn fill(&mut self, len: usize) {
        while self.len() < len {
            self.push(Cell::Missing);
        }
    }

    fn text(&self, row: usize) -> String {
        match self {
            Cells::Missing(_) => String::new(),
            Cells::Int(v) => v[row].to_string(),
            Cells::Float(v) if v[row].is_nan() => String::new(),
            Cells::Float(v) => v[row].to_string(),
            Cells::Text(t) => t.get(row).to_string(),
        }
    }

    fn to_text(&self) -> Cells {
        let mut text = Text::default();
        (0..self.len()).for_each(|row| text.push(&self.text(row)));
        Cells::Text(text)
    }

    fn to_float(&self) -> Cells {
        Cells::Float(match self {
            Cells::Int(v) => v.iter().map(|x| *x as f64).collect(),
            other => vec![f64::NAN; other.len()],
        })
    }

    fn finish(self) -> Data {
        match self {
            Cells::Missing(n) => Data::F64(vec![f64::NAN; n]),
            Cells::Int(v) => Data::I64(v),
            Cells::Float(v) => Data::F64(v),
            Cells::Text(t) => Data::Text(t),
        }
    }
}
