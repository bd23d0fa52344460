//! Who may depend on whom: `rooms.toml` against every Cargo.toml and every `#include`, and ARCHITECTURE.md against
//! `rooms.toml`.
//!
//! All three kinds of direct dependencies count, for every target. A CUDA file may include files of its own room and of
//! those that its room may name. A room that is listed but does not exist, a crate of
//! the workspace that is not listed, and a third-party crate without a door are errors.

use crate::kernels::source::{included, walk};
use crate::process::metadata;
use crate::{Result, root};
use serde_json::Value;
use std::fmt::Write;

const OPEN: &str = "<!-- rooms -->";
const CLOSE: &str = "<!-- /rooms -->";

struct Table {
    rooms: Vec<Room>,
    doors: Vec<Door>,
}

struct Room {
    name: String,
    package: String,
    folder: String,
    what: String,
    may: Vec<String>,
    /// Rooms that it may not reach, not even through others.
    never: Vec<String>,
    kernel_bytes: Option<u64>,
}

struct Door {
    crates: Vec<String>,
    rooms: Vec<String>,
}

/// Compares all three; the error lists every difference.
pub fn check() -> Result<String> {
    let table = read()?;
    let mut bad = differences(&table, &metadata(&["--no-deps"])?);
    bad.extend(includes(&table)?);
    let (file, text) = architecture()?;
    match between(&text) {
        None => bad.push(format!("{file} has no `{OPEN}` ... `{CLOSE}`; put the two marks where the tables belong")),
        Some((from, to)) if text[from..to].trim() != render(&table).trim() => {
            bad.push(format!("{file} differs from xtask/rooms.toml; run `cargo xtask rooms --write`"));
        }
        Some(_) => {}
    }
    match bad.as_slice() {
        [] => Ok(format!("{} rooms and {} doors as in xtask/rooms.toml", table.rooms.len(), table.doors.len())),
        _ => Err(format!("rooms and doors:\n  {}", bad.join("\n  "))),
    }
}

/// Rewrites the tables of ARCHITECTURE.md.
pub fn write() -> Result<String> {
    let table = read()?;
    let (file, text) = architecture()?;
    let (from, to) =
        between(&text).ok_or_else(|| format!("{file} has no `{OPEN}` ... `{CLOSE}`; put the two marks in first."))?;
    let new = format!("{}\n{}{}", &text[..from], render(&table), &text[to..]);
    std::fs::write(root().join(&file), new).map_err(|e| format!("{file}: {e}."))?;
    Ok(format!("{file} has the tables of xtask/rooms.toml"))
}

/// The package of a room, for `cargo test --package`.
pub fn package(room: &str) -> Result<String> {
    let table = read()?;
    let found = table.rooms.iter().find(|r| r.name == room || r.package == room);
    found.map(|r| r.package.clone()).ok_or_else(|| {
        let names: Vec<&str> = table.rooms.iter().map(|r| r.name.as_str()).collect();
        format!("there is no room `{room}`; the rooms are {}.", names.join(", "))
    })
}

/// The most bytes that the compiled kernels of the room in `folder` may take; none where it may have none.
pub fn kernel_bytes(folder: &str) -> Result<Option<u64>> {
    Ok(read()?.rooms.iter().find(|r| r.folder == folder).and_then(|r| r.kernel_bytes))
}

fn differences(table: &Table, metadata: &Value) -> Vec<String> {
    let mut bad = Vec::new();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name_of = |p: &Value| p["name"].as_str().unwrap_or_default().to_string();
    for room in &table.rooms {
        match packages.iter().find(|p| name_of(p) == room.package) {
            None => bad.push(format!(
                "rooms.toml lists `{}`, but there is no package `{}`: no empty rooms",
                room.name, room.package
            )),
            Some(package) => {
                let manifest = package["manifest_path"].as_str().unwrap_or_default().replace('\\', "/");
                if !manifest.ends_with(&format!("/{}/Cargo.toml", room.folder)) {
                    bad.push(format!("room `{}` lies in {manifest}, rooms.toml says {}", room.name, room.folder));
                }
            }
        }
        for other in room.may.iter().filter(|o| !table.rooms.iter().any(|r| r.name == **o)) {
            bad.push(format!("rooms.toml lets `{}` use `{other}`, which is not a room", room.name));
        }
    }
    bad.extend(table.rooms.iter().flat_map(|room| reached(table, room)));
    for other in table.doors.iter().flat_map(|d| &d.rooms).filter(|o| !table.rooms.iter().any(|r| r.name == **o)) {
        bad.push(format!("rooms.toml opens a door to `{other}`, which is not a room"));
    }
    for package in packages {
        let Some(room) = table.rooms.iter().find(|r| r.package == name_of(package)) else {
            bad.push(format!("package `{}` is in no room; add it to rooms.toml", name_of(package)));
            continue;
        };
        for dependency in package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let name = name_of(dependency);
            let kind = match dependency["kind"].as_str() {
                None => "depends on".to_string(),
                Some(kind) => format!("{kind}-depends on"),
            };
            match table.rooms.iter().find(|r| r.package == name) {
                Some(other) if room.may.contains(&other.name) => {}
                Some(other) => {
                    bad.push(format!("`{}` {kind} `{}`, which rooms.toml does not allow", room.name, other.name))
                }
                None => match table.doors.iter().find(|d| d.crates.contains(&name)) {
                    None => bad.push(format!("`{}` {kind} `{name}`, which has no door in rooms.toml", room.name)),
                    Some(door) if door.rooms.contains(&room.name) => {}
                    Some(door) => {
                        let open = door.rooms.join(", ");
                        bad.push(format!("`{}` {kind} `{name}`, a door of {open} alone", room.name));
                    }
                },
            }
        }
    }
    bad
}

/// Rooms that a room reaches through others though it never may. Includes follow the same table, so headers do too.
fn reached(table: &Table, room: &Room) -> Vec<String> {
    let (mut reach, mut at) = (room.may.clone(), 0);
    while at < reach.len() {
        let next = table.rooms.iter().filter(|r| r.name == reach[at]).flat_map(|r| &r.may);
        let new: Vec<String> = next.filter(|name| !reach.contains(name)).cloned().collect();
        reach.extend(new);
        at += 1;
    }
    let known = |name: &&String| reach.contains(name) || !table.rooms.iter().any(|r| r.name == **name);
    let line = |name: &String| format!("`{}` reaches `{name}` or names no room, and never may", room.name);
    room.never.iter().filter(known).map(line).collect()
}

/// Includes of CUDA files that reach where their room may not.
fn includes(table: &Table) -> Result<Vec<String>> {
    let (root, mut paths, mut bad) = (root(), Vec::new(), Vec::new());
    for room in &table.rooms {
        walk(&root.join(&room.folder), &["cu", "cuh"], &mut paths)?;
    }
    for path in &paths {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}.", path.display()))?;
        let file = path.strip_prefix(&root).unwrap_or(path).to_string_lossy().replace('\\', "/");
        bad.extend(text.lines().filter_map(included).filter_map(|name| forbidden(table, &file, name)));
    }
    Ok(bad)
}

/// Why a file, named from the root, may not include another by that quoted name; none where it may.
fn forbidden(table: &Table, file: &str, name: &str) -> Option<String> {
    let room_of = |parts: &[&str]| {
        let path = parts.join("/");
        table.rooms.iter().find(|r| path.strip_prefix(&*r.folder).is_some_and(|rest| rest.starts_with('/')))
    };
    let outside = || Some(format!("{file} includes \"{name}\" from outside the working tree"));
    if name.starts_with('/') {
        return outside();
    }
    let from: Vec<&str> = file.split('/').collect();
    let mut to = from[..from.len() - 1].to_vec();
    for part in name.split('/') {
        match part {
            "." | "" => {}
            ".." if to.pop().is_some() => {}
            ".." => return outside(),
            part => to.push(part),
        }
    }
    match (room_of(&from), room_of(&to)) {
        (Some(own), Some(other)) if own.name == other.name || own.may.contains(&other.name) => None,
        (Some(own), Some(other)) => Some(format!(
            "{file} includes \"{name}\" of `{}`, which rooms.toml does not allow `{}`",
            other.name, own.name
        )),
        _ => Some(format!("{file} includes \"{name}\", which is in no room")),
    }
}

fn render(table: &Table) -> String {
    let code = |names: &[String]| match names {
        [] => "–".to_string(),
        _ => names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "),
    };
    let mut out = String::from("\n| room | where | what it is | may depend on |\n| --- | --- | --- | --- |\n");
    for r in &table.rooms {
        let _ = writeln!(out, "| `{}` | `{}` | {} | {} |", r.name, r.folder, r.what, code(&r.may));
    }
    out.push_str("\n| third-party door | rooms that may open it |\n| --- | --- |\n");
    for d in &table.doors {
        let _ = writeln!(out, "| {} | {} |", code(&d.crates), code(&d.rooms));
    }
    out.push('\n');
    out
}

fn read() -> Result<Table> {
    let file = root().join("xtask/rooms.toml");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}.", file.display()))?;
    parse(&text).map_err(|e| format!("xtask/rooms.toml: {e}"))
}

fn parse(text: &str) -> Result<Table> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    if let Some(key) = table.keys().find(|k| *k != "room" && *k != "door") {
        return Err(format!("`{key}` is neither [[room]] nor [[door]]."));
    }
    let entries = |key: &str| table.get(key).and_then(|v| v.as_array()).cloned().unwrap_or_default();
    let word = |entry: &toml::Value, key: &str| {
        let found = entry.get(key).and_then(|v| v.as_str()).map(str::to_string);
        found.ok_or_else(|| format!("an entry has no `{key} = \"...\"`: {entry}"))
    };
    let list = |entry: &toml::Value, key: &str| {
        let found = entry.get(key).and_then(|v| v.as_array());
        let words =
            found.and_then(|v| v.iter().map(|w| w.as_str().map(str::to_string)).collect::<Option<Vec<String>>>());
        words.ok_or_else(|| format!("an entry has no `{key} = [\"...\"]`: {entry}"))
    };
    let bytes = |n: &toml::Value, entry: &toml::Value| {
        let number = n.as_integer().and_then(|n| u64::try_from(n).ok());
        number.ok_or_else(|| format!("`kernel_bytes` is not a number of bytes: {entry}"))
    };
    let mut rooms = Vec::new();
    for entry in &entries("room") {
        rooms.push(Room {
            name: word(entry, "name")?,
            package: word(entry, "package")?,
            folder: word(entry, "folder")?,
            what: word(entry, "what")?,
            may: list(entry, "may")?,
            never: entry.get("never").map_or(Ok(Vec::new()), |_| list(entry, "never"))?,
            kernel_bytes: entry.get("kernel_bytes").map(|n| bytes(n, entry)).transpose()?,
        });
    }
    let mut doors: Vec<Door> = Vec::new();
    for entry in &entries("door") {
        let door = Door { crates: list(entry, "crates")?, rooms: list(entry, "rooms")? };
        if let Some(twice) = door.crates.iter().find(|c| doors.iter().any(|d| d.crates.contains(c))) {
            return Err(format!("`{twice}` has two doors; join them."));
        }
        doors.push(door);
    }
    Ok(Table { rooms, doors })
}

fn architecture() -> Result<(String, String)> {
    let file = "ARCHITECTURE.md".to_string();
    let text = std::fs::read_to_string(root().join(&file)).map_err(|e| format!("{file}: {e}."))?;
    Ok((file, text))
}

/// From the end of the opening mark to the start of the closing one.
fn between(text: &str) -> Option<(usize, usize)> {
    let from = text.find(OPEN)? + OPEN.len();
    let to = from + text[from..].find(CLOSE)?;
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: &str = r#"
        [[room]]
        name = "low"
        package = "f-low"
        folder = "crates/low"
        what = "below"
        may = []
        [[room]]
        name = "high"
        package = "f-high"
        folder = "crates/high"
        what = "above"
        may = ["low"]
        kernel_bytes = 7
        [[door]]
        crates = ["zip"]
        rooms = ["low"]
    "#;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> = dependencies.iter().map(|(n, kind)| json!({"name": n, "kind": kind})).collect();
        let folder = name.trim_start_matches("f-");
        json!({"name": name, "manifest_path": format!("/x/crates/{folder}/Cargo.toml"), "dependencies": dependencies})
    }

    fn check(packages: &[Value], expected: &[&str]) {
        let bad = differences(&parse(TABLE).unwrap(), &json!({"packages": packages}));
        assert_eq!(bad.len(), expected.len(), "{bad:#?}");
        for (line, part) in bad.iter().zip(expected) {
            assert!(line.contains(part), "{line} should say {part}");
        }
    }

    #[test]
    fn what_is_allowed_and_what_is_not() {
        let low = package("f-low", &[("zip", None)]);
        check(&[low.clone(), package("f-high", &[("f-low", None)])], &[]);
        check(&[low.clone(), package("f-high", &[("zip", None)])], &["a door of low alone"]);
        check(&[low.clone(), package("f-high", &[("left-pad", Some("dev"))])], &["no door"]);
        check(&[package("f-low", &[("f-high", Some("dev"))]), package("f-high", &[])], &["does not allow"]);
        check(std::slice::from_ref(&low), &["no empty rooms"]);
        check(&[low, package("f-high", &[]), package("f-attic", &[])], &["in no room"]);
    }

    #[test]
    fn a_room_may_have_kernels_of_so_many_bytes() {
        let budgets = |text: &str| parse(text).map(|t| t.rooms.iter().map(|r| r.kernel_bytes).collect::<Vec<_>>());
        assert_eq!(budgets(TABLE).unwrap(), [None, Some(7)]);
        for wrong in ["-1", "\"7\""] {
            assert!(budgets(&TABLE.replace("kernel_bytes = 7", &format!("kernel_bytes = {wrong}"))).is_err());
        }
    }

    #[test]
    fn what_a_room_never_may_it_does_not_reach_through_others() {
        let top = "[[room]]\nname = \"top\"\npackage = \"f-top\"\nfolder = \"crates/top\"\nwhat = \"\"\n";
        let bad = |may: &str, never: &str| {
            let table = format!("{TABLE}\n{top}may = [{may}]\nnever = [{never}]\n");
            let packages = [package("f-low", &[]), package("f-high", &[]), package("f-top", &[])];
            differences(&parse(&table).unwrap(), &json!({"packages": packages})).len()
        };
        assert_eq!(bad("\"high\"", "\"low\""), 1);
        assert_eq!(bad("\"low\"", "\"high\""), 0);
        assert_eq!(bad("\"low\"", "\"attic\""), 1);
    }

    #[test]
    fn unknown_room_is_refused() {
        let table = TABLE.replace("may = [\"low\"]", "may = [\"low\", \"later\"]");
        let packages = [package("f-low", &[]), package("f-high", &[])];
        let bad = differences(&parse(&table).unwrap(), &json!({"packages": packages}));
        assert_eq!(bad.len(), 1, "{bad:#?}");
        assert!(parse(&TABLE.replace("[[door]]", "[[window]]")).is_err());
    }

    #[test]
    fn includes_follow_the_room_table() {
        let table = parse(TABLE).unwrap();
        let case = |file: &str, name: &str, expected: Option<&str>| {
            let said = forbidden(&table, file, name);
            match (&said, expected) {
                (None, None) => {}
                (Some(said), Some(part)) => assert!(said.contains(part), "{said} should say {part}"),
                _ => panic!("{file} with {name}: {said:?}"),
            }
        };
        case("crates/low/src/a.cu", "b.cuh", None);
        case("crates/low/src/k/a.cu", "../b.cuh", None);
        case("crates/high/src/a.cu", "../../low/src/./b.cuh", None);
        case("crates/low/src/b.cuh", "../../high/src/a.cuh", Some("`high`, which rooms.toml does not allow `low`"));
        // A name that begins like a room's is another folder.
        case("crates/low/src/a.cu", "../../lower/b.cuh", Some("in no room"));
        case("crates/low/src/a.cu", "../../../b.cuh", Some("in no room"));
        case("crates/low/src/a.cu", "../../../../b.cuh", Some("outside the working tree"));
        case("crates/low/src/a.cu", "/usr/include/b.h", Some("outside the working tree"));
    }
}
