//! Rules for prose, in Markdown and in comments: what it cites is in the tree, its lines end at 120 columns, and it
//! speaks of the project, not of how the work was done.
//!
//! Prose is a Markdown line outside of code blocks, a whole-line comment, a comment behind code, or a line of a Python
//! docstring. Text that programs print is not looked at here.

use std::collections::BTreeSet;
use std::path::Path;

/// The widest line.
const WIDTH: usize = 120;

/// Folders of the tree, as paths in prose begin with them.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "bench/", "xtask/", "oracles/", "fuzz/"];

/// Endings of files that prose may name by their last parts alone (`ops/lstm.cu`).
const NAMED: [&str; 4] = [".rs", ".cu", ".cuh", ".py"];

/// Phrases about the work instead of the project. Written as they are searched for: lower case, whole words.
const DIARY: [&str; 40] = [
    "this session",
    "that session",
    "last session",
    "earlier session",
    "previous session",
    "the session before",
    "two sessions before",
    "of the issue",
    "this issue",
    "a reviewer",
    "the reviewer",
    "a review found",
    "in review",
    "code review",
    "from the plan",
    "than the plan",
    "the plan had",
    "the plan says",
    "the plan asks",
    "the plan was",
    "as planned",
    "last time",
    "the run before",
    "a version before",
    "the version before",
    "an earlier version asked",
    "(asked",
    "asked)",
    "this commit",
    "last commit",
    "previous commit",
    "pull request",
    "before this change",
    "after this change",
    "we now",
    "we tried",
    "i tried",
    "yesterday",
    "earlier today",
    "work in progress",
];

/// All files of the tree, as paths from its root.
pub(super) struct Tree(pub(super) BTreeSet<String>);

impl Tree {
    /// Whether there is a file or folder at that path from the root.
    fn holds(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        self.0.contains(path) || self.0.range(inside.clone()..).next().is_some_and(|file| file.starts_with(&inside))
    }

    /// Whether a file's path ends so.
    fn ends(&self, path: &str) -> bool {
        let end = format!("/{path}");
        self.0.iter().any(|file| file == path || file.ends_with(&end))
    }
}

/// What is wrong with a file's prose, each with its line.
pub(super) fn broken(path: &str, text: &str, tree: &Tree) -> Vec<String> {
    let mut bad = Vec::new();
    for (at, line, prose) in lines(path, text) {
        let mut note = |what: String| bad.push(format!("{path}:{at}: {what}"));
        // A long address cannot be broken, and code that is wide itself is for the formatter.
        let breakable = prose.trim().contains(' ');
        let code = line.len() - prose.len();
        let own = code <= WIDTH || line[..code].trim_start().len() <= 3;
        if line.chars().count() > WIDTH && breakable && own {
            note(format!("{} columns of prose; lines end at {WIDTH}", line.chars().count()));
        }
        if let Some(phrase) = work_phrase(prose) {
            note(format!("`{phrase}` speaks of how the work was done; state the fact, its date and its machine"));
        }
        for cited in citations(prose, path.ends_with(".md")) {
            if !found(&cited, path, tree) {
                note(format!("`{cited}` is not in the tree; name what is"));
            }
        }
    }
    bad
}

/// Number, whole line and prose of every line that has prose.
fn lines<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str, &'a str)> {
    let ending = Path::new(path).extension().and_then(|e| e.to_str()).unwrap_or_default();
    let mut out = Vec::new();
    let (mut fenced, mut quoted) = (false, false);
    for (at, line) in text.lines().enumerate() {
        let prose = match ending {
            "md" => {
                let fence = line.trim_start().starts_with("```");
                fenced ^= fence;
                (!fenced && !fence && !line.starts_with('|')).then_some(line)
            }
            "py" => {
                let quotes = line.matches("\"\"\"").count();
                let inside = quoted || quotes > 0;
                quoted ^= quotes % 2 == 1;
                let prose = if inside { Some(line) } else { comment(line, "#") };
                prose.filter(|p| !p.trim_start().starts_with('|'))
            }
            "toml" | "sh" => comment(line, "#"),
            _ => {
                let prose = comment(line, "//").map(|prose| prose.trim_start_matches(['/', '!']));
                let fence = prose.is_some_and(|p| p.trim_start().starts_with("```"));
                fenced = prose.is_some() && (fenced ^ fence);
                prose.filter(|p| !fenced && !fence && !p.trim_start().starts_with('|'))
            }
        };
        out.extend(prose.map(|prose| (at + 1, line, prose)));
    }
    out
}

/// The comment of a line of code: all of it behind the mark, or behind code that ends no string in between.
fn comment<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    if let Some(prose) = line.trim_start().strip_prefix(mark) {
        return Some(prose);
    }
    let (code, prose) = line.split_once(&format!(" {mark} "))?;
    (code.matches('"').count() % 2 == 0).then_some(prose)
}

/// The first phrase about the work.
fn work_phrase(prose: &str) -> Option<String> {
    let low = prose.to_lowercase();
    let whole = |from: usize, phrase: &str| {
        let before = low[..from].chars().next_back().filter(|_| phrase.starts_with(char::is_alphanumeric));
        let after = low[from + phrase.len()..].chars().next().filter(|_| phrase.ends_with(char::is_alphanumeric));
        ![before, after].into_iter().flatten().any(|c| c.is_alphanumeric() || c == '_')
    };
    let phrase = DIARY.iter().find(|phrase| low.match_indices(*phrase).any(|(from, _)| whole(from, phrase)));
    phrase.map(ToString::to_string).or_else(|| issue_number(&low))
}

/// `issue 12` and `issue #12`.
fn issue_number(low: &str) -> Option<String> {
    let mut words = low.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let next = words.peek().map(|next| next.trim_start_matches('#'));
        if word == "issue" && next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit())) {
            return Some(format!("issue {}", next.unwrap_or_default()));
        }
    }
    None
}

/// Files that prose names: targets of links, paths in backticks, and documents (ending `.md`) anywhere.
fn citations(prose: &str, markdown: bool) -> Vec<String> {
    let mut cited = Vec::new();
    if markdown {
        for rest in prose.split("](").skip(1) {
            let target = rest.split([')', ' ', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                cited.push(target.to_string());
            }
        }
    }
    let plain = |c: char| c.is_alphanumeric() || "_-./+~".contains(c);
    for quoted in prose.split('`').skip(1).step_by(2) {
        let path = quoted.split(':').next().unwrap_or_default();
        let names = path.len() > 4 && !path.starts_with('.') && NAMED.iter().any(|end| path.ends_with(end));
        let in_tree = FOLDERS.iter().any(|folder| path.starts_with(folder)) || names;
        if path.chars().all(plain) && in_tree && !path.split('/').any(is_placeholder) {
            cited.push(path.to_string());
        }
    }
    let documents = prose.split(|c: char| !plain(c)).map(|word| word.trim_end_matches('.'));
    let document = |word: &&str| word.ends_with(".md") && word.len() > 3 && !word.starts_with("//");
    cited.extend(documents.filter(document).map(String::from));
    cited.sort();
    cited.dedup();
    cited
}

/// Whether a part of a path is a word for any name, as in `crates/ROOM/src/NAME.rs`.
fn is_placeholder(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default();
    stem.len() > 1 && !part.ends_with(".md") && stem.chars().all(|c| c.is_ascii_uppercase())
}

/// Whether a cited file is there: from the root, beside the citing file, or, for source files, anywhere by its end.
fn found(cited: &str, citing: &str, tree: &Tree) -> bool {
    let mut beside: Vec<&str> = citing.split('/').collect();
    beside.pop();
    for part in cited.split('/') {
        match part {
            "." => {}
            ".." => {
                if beside.pop().is_none() {
                    return false;
                }
            }
            part => beside.push(part),
        }
    }
    let source = NAMED.iter().any(|end| cited.ends_with(end));
    tree.holds(cited) || tree.holds(&beside.join("/")) || (source && tree.ends(cited))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let files =
            ["README.md", "docs/method.md", "docs/guide/data.md", "crates/compute/src/ops/lstm.cu", "bench/a.rs"];
        Tree(files.map(String::from).into())
    }

    fn bad(path: &str, text: &str) -> usize {
        broken(path, text, &tree()).len()
    }

    #[test]
    fn wide_prose_is_caught_in_every_language() {
        let wide = "word ".repeat(30);
        for (path, text) in [
            ("a.md", wide.clone()),
            ("a.rs", format!("    /// {wide}")),
            ("a.rs", format!("let a = 1; // {wide}")),
            ("a.cu", format!("// {wide}")),
            ("a.cuh", format!("// {wide}")),
            ("a.py", format!("# {wide}")),
            ("a.py", format!("\"\"\"First line.\n{wide}\n\"\"\"")),
            ("a.toml", format!("# {wide}")),
            ("a.sh", format!("# {wide}")),
        ] {
            assert_eq!(bad(path, &text), 1, "{path}: {text}");
        }
    }

    #[test]
    fn tables_code_and_addresses_may_be_wide() {
        let wide = "word ".repeat(30);
        assert_eq!(bad("a.md", &format!("| {wide} |\n```\n{wide}\n```\nfine")), 0);
        assert_eq!(bad("a.rs", &format!("//! ```\n//! {wide}\n//! ```\nlet a = \"{wide}\";\n// | {wide} |")), 0);
        assert_eq!(bad("a.md", &format!("https://{}", "x".repeat(130))), 0);
        assert_eq!(bad("a.py", &format!("print(\"{wide}\")")), 0);
        assert_eq!(bad("a.md", &format!("```\n{wide}\n```\n{wide}")), 1);
    }

    #[test]
    fn words_about_the_work_are_caught() {
        for text in [
            "It was faster in the session before.",
            "The floors of the issue are met.",
            "Issue 16 wants this.",
            "See issue #3.",
            "What a reviewer found by trying.",
            "Where this differs from the plan.",
            "3.1 times PyTorch (3 asked).",
            "Last time it took 4 s.",
            "As of this commit it is gone.",
        ] {
            assert_eq!(bad("a.md", text), 1, "{text}");
            assert_eq!(bad("a.rs", &format!("// {text}")), 1, "{text}");
        }
        for text in [
            "Bars of a session, from its open to its close, and half a session before it.",
            "The plan's scratch memory is taken once.",
            "A column is asked for by its name.",
            "The issue is that volatility clusters.",
            "Values at issue: 3 of 4.",
            "The last times of the clock.",
            "A preview of the page.",
        ] {
            assert_eq!(bad("a.md", text), 0, "{text}");
        }
        assert_eq!(bad("a.rs", "let text = \"a reviewer said so\";"), 0);
    }

    #[test]
    fn missing_citations_are_caught() {
        for text in [
            "See [the method](method.md).",
            "See METHOD.md for why.",
            "As `crates/compute/src/gone.rs` does.",
            "In `ops/gone.cu`.",
            "[up](../../out.md)",
            "[page](docs/guide/none.md#part)",
        ] {
            assert_eq!(bad("README.md", text), 1, "{text}");
        }
        assert_eq!(bad("crates/a/src/b.rs", "// As DESIGN.md says."), 1);
        for text in [
            "See [the method](docs/method.md#labels), [here](#here), [there](https://example.org/x.md).",
            "In `ops/lstm.cu` and `crates/compute/src`, `crates/*/src`, `README.md`, `lstm.cu:12`.",
            "A file `run.json` or `.rs` is no citation, nor is `crates/ROOM/src/NAME.rs`.",
        ] {
            assert_eq!(bad("README.md", text), 0, "{text}");
        }
        assert_eq!(bad("docs/guide/data.md", "[method](../method.md), docs/method.md."), 0);
        assert_eq!(bad("crates/a/src/b.rs", "// See docs/method.md, Labels."), 0);
    }
}
