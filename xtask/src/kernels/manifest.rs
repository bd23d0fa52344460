//! `crates/<room>/kernels/manifest.toml`: what each kernel was made of, what it became, and what it takes on each
//! architecture.

use super::source::Source;
use crate::Result;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The file's name in a room's `kernels` folder.
pub const FILE: &str = "manifest.toml";

/// What a thread of one function takes, in bytes but for the registers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FunctionFigures {
    pub registers: u64,
    pub stack: u64,
    pub spill_stores: u64,
    pub spill_loads: u64,
    pub shared: u64,
}

/// `[architecture][function]`
pub type Figures = BTreeMap<String, BTreeMap<String, FunctionFigures>>;

/// What became of one source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Made {
    /// `[file name, digest]` of PTX and cubins.
    pub outputs: BTreeMap<String, String>,
    pub figures: Figures,
}

/// The whole file, for one room.
pub fn render(compiler: &str, kernels: &[(&Source, &Made)]) -> String {
    let mut out = String::from("# Written by `cargo xtask kernels`, not by hand.\n");
    let _ = writeln!(out, "compiler = {compiler:?}");
    for (source, made) in kernels {
        let _ = writeln!(out, "\n[[kernel]]\nname = {:?}\nhash = {:?}", source.name, source.hash);
        let _ = writeln!(out, "sources = {:?}\nflags = {:?}", source.files, source.flags);
        let targets: Vec<String> = source.targets.iter().map(|t| format!("sm_{t}")).collect();
        let _ = writeln!(out, "targets = {targets:?}\nregisters = {}", source.registers);
        if source.spills > 0 {
            let _ = writeln!(out, "spills = {}", source.spills);
        }
        let _ = writeln!(out, "\n[kernel.outputs]");
        for (name, digest) in &made.outputs {
            let _ = writeln!(out, "{name:?} = {digest:?}");
        }
        for (architecture, functions) in &made.figures {
            let _ = writeln!(out, "\n[kernel.takes.{architecture}]");
            for (function, t) in functions {
                let _ = writeln!(
                    out,
                    "{function} = {{ registers = {}, stack = {}, spill_stores = {}, spill_loads = {}, shared = {} }}",
                    t.registers, t.stack, t.spill_stores, t.spill_loads, t.shared
                );
            }
        }
    }
    out
}

/// `[name] = (hash, made)`, as far as it can be read: what cannot is made anew.
pub fn parse(text: &str) -> BTreeMap<String, (String, Made)> {
    let table: toml::Table = text.parse().unwrap_or_default();
    let kernels = table.get("kernel").and_then(|k| k.as_array()).cloned().unwrap_or_default();
    kernels.iter().filter_map(one).collect()
}

fn one(kernel: &toml::Value) -> Option<(String, (String, Made))> {
    let word = |v: &toml::Value| v.as_str().map(String::from);
    let mut made = Made::default();
    for (name, digest) in kernel.get("outputs")?.as_table()? {
        made.outputs.insert(name.clone(), word(digest)?);
    }
    for (architecture, functions) in kernel.get("takes")?.as_table()? {
        let into = made.figures.entry(architecture.clone()).or_default();
        for (function, t) in functions.as_table()? {
            let number = |key| t.get(key)?.as_integer()?.try_into().ok();
            let takes = FunctionFigures {
                registers: number("registers")?,
                stack: number("stack")?,
                spill_stores: number("spill_stores")?,
                spill_loads: number("spill_loads")?,
                shared: number("shared")?,
            };
            into.insert(function.clone(), takes);
        }
    }
    Some((word(kernel.get("name")?)?, (word(kernel.get("hash")?)?, made)))
}

/// What `ptxas -v` said of each function, kernels and functions that were not inlined alike.
pub fn read_ptxas(said: &str) -> Result<BTreeMap<String, FunctionFigures>> {
    // Asynchronous products that wait for each other are several times slower, and nothing else would tell.
    if let Some(line) = said.lines().find(|l| l.contains("wgmma") && l.contains("serialized")) {
        return Err(format!("ptxas: {}", line.trim()));
    }
    let mut functions: BTreeMap<String, FunctionFigures> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in said.lines() {
        let line = line.trim().trim_start_matches("ptxas info").trim_start_matches([' ', ':']);
        if let Some(name) = line.strip_prefix("Function properties for ") {
            current = Some(name.trim().to_string());
            functions.entry(name.trim().to_string()).or_default();
            continue;
        }
        let Some(takes) = current.as_ref().and_then(|name| functions.get_mut(name)) else { continue };
        let number = |part: &str, unit: &str| part.trim().strip_suffix(unit)?.trim().parse::<u64>().ok();
        for part in line.trim_start_matches("Used ").split(',') {
            for (unit, place) in [
                ("registers", &mut takes.registers),
                ("bytes stack frame", &mut takes.stack),
                ("bytes spill stores", &mut takes.spill_stores),
                ("bytes spill loads", &mut takes.spill_loads),
                ("bytes smem", &mut takes.shared),
            ] {
                if let Some(n) = number(part, unit) {
                    *place = n;
                }
            }
        }
    }
    match functions.values().any(|t| t.registers > 0) {
        true => Ok(functions),
        false => Err(format!("ptxas named no function and its registers:\n{said}")),
    }
}

/// Every spill, and every function over its file's budget, as sentences.
pub fn find_faults(source: &Source, figures: &Figures) -> Vec<String> {
    let mut bad = Vec::new();
    for (architecture, functions) in figures {
        for (function, t) in functions {
            let here = format!("{}: {function} on {architecture}", source.files[0]);
            if t.spill_stores.max(t.spill_loads) > source.spills {
                bad.push(format!("{here} spills {} bytes of stores and {} of loads", t.spill_stores, t.spill_loads));
            }
            if t.registers > source.registers {
                bad.push(format!("{here} takes {} registers, its budget is {}", t.registers, source.registers));
            }
        }
    }
    bad
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'b' for 'sm_80'
ptxas info    : Function properties for b
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 16 registers, used 1 barriers, 388 bytes cmem[0]
ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Function properties for a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 101 registers, 49152 bytes smem, 388 bytes cmem[0]
";

    fn source() -> Source {
        let files = vec!["crates/r/src/k.cu".to_string()];
        let (room, name, hash) = ("crates/r".into(), "k".into(), "h".into());
        Source { room, name, files, flags: vec![], targets: vec!["80".into()], registers: 100, spills: 0, hash }
    }

    #[test]
    fn ptxas_figures_are_read_and_checked() {
        let functions = read_ptxas(SAID).unwrap();
        let b = FunctionFigures { registers: 16, stack: 8, spill_stores: 4, spill_loads: 12, shared: 0 };
        assert_eq!(functions["b"], b);
        assert_eq!((functions["a"].registers, functions["a"].shared), (101, 49152));
        let bad = find_faults(&source(), &BTreeMap::from([("sm_80".to_string(), functions)]));
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(bad[0].contains("a on sm_80 takes 101") && bad[1].contains("b on sm_80 spills 4"), "{bad:?}");
        assert!(read_ptxas("ptxas info : 0 bytes gmem").is_err());
        let serial =
            "ptxas info : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x";
        assert!(read_ptxas(&format!("{serial}\n{SAID}")).unwrap_err().contains("serialized"));
    }

    #[test]
    fn manifest_round_trips() {
        let figures = BTreeMap::from([("sm_80".to_string(), read_ptxas(SAID).unwrap())]);
        let made = Made { outputs: BTreeMap::from([("k.ptx".to_string(), "1".to_string())]), figures };
        let text = render("c", &[(&source(), &made)]);
        assert_eq!(parse(&text), BTreeMap::from([("k".to_string(), ("h".to_string(), made))]));
        assert!(parse("no toml").is_empty());
    }
}
