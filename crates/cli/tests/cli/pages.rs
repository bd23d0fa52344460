//! Commands in the documents: every line `$ fullbore ...` of a code block in README.md and docs/guide.
//!
//! A block marked `run` uses data that Fullbore makes itself and is run, in order, in one folder a page; what it prints
//! is then held against the lines below the command. `[...]` stands for lines that are left out. In a block marked
//! `words` too, figures may differ: they depend on the machine.

use std::path::Path;

/// One command of a page.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) page: String,
    /// Line of the page, from 1.
    pub(crate) line: usize,
    /// What is typed, without the program's name.
    pub(crate) args: Vec<String>,
    pub(crate) runs: bool,
    /// Whether figures are compared.
    pub(crate) exact: bool,
    /// What is printed, without empty lines.
    pub(crate) output: Vec<String>,
}

/// Of all pages, page by page, in order.
pub(crate) fn commands() -> Vec<Shown> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let guide = std::fs::read_dir(root.join("docs/guide")).expect("docs/guide is there");
    pages.extend(guide.flatten().map(|e| e.path()).filter(|path| path.extension().is_some_and(|e| e == "md")));
    pages.sort();
    let mut all = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page can be read");
        let name = page.strip_prefix(&root).unwrap_or(&page).display().to_string();
        let mut marks: Option<Vec<String>> = None;
        let mut typed_here = false;
        for (at, line) in text.lines().enumerate() {
            if let Some(info) = line.strip_prefix("```") {
                let opens = marks.is_none();
                marks = opens.then(|| info.split_whitespace().map(String::from).collect());
                typed_here = false;
                continue;
            }
            let Some(marks) = &marks else { continue };
            let has = |mark: &str| marks.iter().any(|m| m == mark);
            if let Some(typed) = line.strip_prefix("$ fullbore") {
                let (runs, exact) = (has("run"), !has("words"));
                let args = words(typed.trim());
                all.push(Shown { page: name.clone(), line: at + 1, args, runs, exact, output: Vec::new() });
                typed_here = true;
            } else if let Some(last) = all.last_mut().filter(|_| typed_here && !line.trim().is_empty()) {
                last.output.push(line.to_string());
            }
        }
    }
    all
}

/// Words as a shell would cut them, with both kinds of quotes; a comment ends them.
fn words(typed: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in typed.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            ('#', None) if word.is_none() => break,
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
