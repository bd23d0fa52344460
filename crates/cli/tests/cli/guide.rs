//! README and guide against the binary: what they show is what is printed.

use super::pages::{Shown, commands};
use super::{Place, code, text};

/// Figures, with their sign, become `#`, so that only words are left.
fn masked(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_ascii_digit() {
            while chars.next_if(|c| c.is_ascii_digit() || ".,".contains(*c)).is_some() {}
            if out.ends_with(" -") {
                out.pop();
            }
            out.push('#');
        } else {
            out.push(c);
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first shown line that is not printed where it should be.
fn missing<'a>(shown: &'a Shown, printed: &str) -> Option<&'a str> {
    let same = |a: &str, b: &str| if shown.exact { a.trim_end() == b.trim_end() } else { masked(a) == masked(b) };
    let mut printed = printed.lines().filter(|line| !line.trim().is_empty());
    let mut gap = false;
    for line in &shown.output {
        if line == "[...]" {
            gap = true;
            continue;
        }
        let found = if gap { printed.any(|p| same(line, p)) } else { printed.next().is_some_and(|p| same(line, p)) };
        if !found {
            return Some(line);
        }
        gap = false;
    }
    (!gap && !shown.output.is_empty() && printed.next().is_some()).then_some("(nothing more)")
}

#[test]
fn guide_examples_print_the_documented_output() {
    let all = commands();
    let mut page = None;
    let mut ran = 0;
    for shown in all.iter().filter(|shown| shown.runs) {
        let place = match page.take() {
            Some((name, place)) if name == shown.page => place,
            _ => Place::new(),
        };
        let args: Vec<&str> = shown.args.iter().map(String::as_str).collect();
        let output = place.run(&args);
        let printed = text(&output.stdout) + &text(&output.stderr);
        let at = format!("{}:{}: fullbore {}", shown.page, shown.line, shown.args.join(" "));
        assert!(code(&output) <= 1, "{at}\n{printed}");
        if let Some(line) = missing(shown, &text(&output.stdout)) {
            panic!("{at}\nshown, but not printed there: {line}\n\nprinted:\n{printed}");
        }
        page = Some((shown.page.clone(), place));
        ran += 1;
    }
    assert!(ran >= 8, "{ran} commands were run; are the marks gone?");
}

#[test]
fn changed_guide_output_is_detected() {
    let shown = |exact, output: &[&str]| Shown {
        page: String::new(),
        line: 0,
        args: Vec::new(),
        runs: true,
        exact,
        output: output.iter().map(ToString::to_string).collect(),
    };
    let printed = "made\n\n  MCC 0.41, of direction -0.10\nend\n";
    assert_eq!(missing(&shown(true, &["made", "[...]", "end"]), printed), None);
    assert_eq!(missing(&shown(false, &["[...]", " MCC 0.5, of direction 0.2", "[...]"]), printed), None);
    assert_eq!(
        missing(&shown(false, &["[...]", " MCC 0.5, of trend 0.2", "[...]"]), printed),
        Some(" MCC 0.5, of trend 0.2")
    );
    assert_eq!(
        missing(&shown(true, &["[...]", "  MCC 0.5, of direction -0.10"]), printed),
        Some("  MCC 0.5, of direction -0.10")
    );
    assert_eq!(missing(&shown(true, &["made", "end"]), printed), Some("end"));
    assert_eq!(missing(&shown(true, &["made"]), printed), Some("(nothing more)"));
    assert_eq!(missing(&shown(true, &[]), printed), None);
}
