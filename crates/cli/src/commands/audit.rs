//! `fullbore data audit`

use super::{Context, Outcome, select};
use crate::args::Audit as Args;
use crate::out::Paint;
use crate::show::{date, fit, table, wrap};
use bars::audit::{Audit, SymbolAudit, Verdict};
use bars::{Instrument, VolumeKind};
use files::{format_bytes, format_count, format_plural, format_seconds, format_short};
use jobs::Audited;
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let all = args.all;
    let select = select(args.source)?;
    let progress = &mut context.progress;
    let audited = jobs::audit(&select, &context.settings, &mut |u| progress.update(u))?;
    context.print(&audited, |paint| render(&audited, all, paint))?;
    Ok(u8::from(audited.audit.verdict == Verdict::Refuse))
}

/// The whole audit for the eye: the verdict first and last.
fn render(audited: &Audited, all: bool, paint: Paint) -> String {
    let audit = &audited.audit;
    let mut text = format!("{}  {}\n\n", verdict(audit.verdict, paint), fit(&audited.data, 70));
    let _ = writeln!(
        text,
        "  {} in {}, from {} ({}), read in {}: {} rows/s, {}/s",
        format_plural(audit.bars, "bar"),
        format_plural(audit.symbols.len() as u64, "series"),
        format_plural(audit.rows, "row"),
        format_bytes(audit.bytes),
        format_seconds(audited.seconds),
        format_short(audited.rows_per_s),
        format_bytes(audited.bytes_per_s as u64)
    );
    recognised(&mut text, audit, paint);
    symbols(&mut text, audit, all, paint);
    gaps(&mut text, audit, paint);
    repairs(&mut text, audit, paint);
    if !audit.warnings.is_empty() {
        heading(&mut text, "Notes", paint);
        for warning in &audit.warnings {
            text.push_str(&wrap(warning, "  - ", "    "));
        }
    }
    instruments(&mut text, audit, paint);
    text.push('\n');
    text.push_str(&conclusion(audit, paint));
    text
}

/// The verdict in a word.
pub(super) fn verdict(verdict: Verdict, paint: Paint) -> String {
    match verdict {
        Verdict::Fine => paint.green("fine"),
        Verdict::Usable => paint.yellow("usable with repairs"),
        Verdict::Refuse => paint.red("refused"),
    }
}

/// The verdict and its reasons.
pub(super) fn conclusion(audit: &Audit, paint: Paint) -> String {
    let mut text = format!("Verdict: {}\n", verdict(audit.verdict, paint));
    for reason in audit.reasons.iter().take(12) {
        text.push_str(&wrap(reason, "  - ", "    "));
    }
    if audit.reasons.len() > 12 {
        let _ = writeln!(text, "  - and {} more", audit.reasons.len() - 12);
    }
    text
}

fn heading(text: &mut String, title: &str, paint: Paint) {
    let _ = write!(text, "\n{}\n", paint.bold(title));
}

fn recognised(text: &mut String, audit: &Audit, paint: Paint) {
    heading(text, "Recognised", paint);
    text.push_str(&wrap(&audit.format, "  ", "  "));
    for note in audit.files.iter().take(8) {
        let more =
            if note.count > 1 { format!(" and {} like it", format_count(note.count - 1)) } else { String::new() };
        text.push_str(&wrap(&format!("{}{more}: {}", note.file, note.format), "  ", "    "));
        for why in &note.why {
            text.push_str(&wrap(why, "    - ", "      "));
        }
    }
    if audit.files.len() > 8 {
        let _ = writeln!(text, "  and {} more kinds of file (--json lists them)", audit.files.len() - 8);
    }
    for left in audit.left_out.iter().take(5) {
        text.push_str(&wrap(&format!("left out: {} ({})", left.file, left.why), "  ", "    "));
    }
    if audit.left_out.len() > 5 {
        let _ = writeln!(text, "  left out: {} more (--json lists them)", audit.left_out.len() - 5);
    }
}

fn symbols(text: &mut String, audit: &Audit, all: bool, paint: Paint) {
    let mut worst: Vec<&SymbolAudit> = audit.symbols.iter().collect();
    worst.sort_by_key(|s| (std::cmp::Reverse(s.verdict), std::cmp::Reverse(trouble(s))));
    let shown = if all { worst.len() } else { worst.len().min(20) };
    let title = match worst.len() {
        n if n > shown => format!("Symbols: the worst {shown} of {} (--all shows every one)", format_count(n as u64)),
        _ => "Symbols".to_string(),
    };
    heading(text, &title, paint);
    let rows: Vec<Vec<String>> = worst[..shown]
        .iter()
        .map(|s| {
            let verdict = match s.verdict {
                Verdict::Fine => "fine",
                Verdict::Usable => "usable",
                Verdict::Refuse => "refuse",
            };
            vec![
                fit(&s.symbol, 20),
                s.timeframe.clone(),
                format_count(s.bars),
                date(&s.first),
                date(&s.last),
                verdict.into(),
                findings(s),
            ]
        })
        .collect();
    text.push_str(&table(&["symbol", "bar", ">bars", "first", "last", "verdict", "findings"], &rows, "  "));
}

/// Everything that is not as it should be, as one number to sort by.
fn trouble(s: &SymbolAudit) -> u64 {
    [
        s.missing_bars,
        s.duplicates,
        s.conflicts,
        s.out_of_order,
        s.unreadable,
        s.bad_prices,
        s.range_violations,
        s.bad_volumes,
        s.stuck_bars,
        s.spikes,
    ]
    .into_iter()
    .chain([
        s.suspected_splits.len() as u64 * 100,
        s.zone_jumps * 100,
        s.mixed_units,
        s.outside_membership.unwrap_or(0),
    ])
    .sum()
}

fn findings(s: &SymbolAudit) -> String {
    let splits = s.suspected_splits.iter().filter(|split| !split.factored).count() as u64;
    let nouns = [
        (s.missing_bars, "missing bar"),
        (s.duplicates, "duplicate"),
        (s.conflicts, "conflicting duplicate"),
        (s.out_of_order, "row out of order"),
        (s.unreadable, "unreadable row"),
        (s.bad_prices, "bad price"),
        (s.range_violations, "impossible range"),
        (s.bad_volumes, "bad volume"),
        (splits, "suspected split"),
        (s.spikes, "spike"),
        (s.stuck_bars, "stuck bar"),
        (s.zone_jumps, "time zone jump"),
        (s.mixed_units, "stamp in another unit"),
        (s.zero_volume.unwrap_or(0), "bar without volume"),
        (s.outside_membership.unwrap_or(0), "bar outside membership"),
        (u64::from(s.unfinished_last), "unfinished last bar"),
    ];
    let found: Vec<String> = nouns.iter().filter(|f| f.0 > 0).map(|(n, noun)| plural(*n, noun)).collect();
    found.join(", ")
}

/// A count with its noun, where words may follow the noun: `2 rows out of order`.
fn plural(n: u64, what: &str) -> String {
    let nouns = ["unreadable row", "duplicate row", "conflicting row", "suspected split"];
    let first = nouns.iter().find(|noun| what.starts_with(**noun)).map_or_else(
        || what.split(' ').next().filter(|word| matches!(*word, "row" | "stamp" | "bar" | "time" | "symbol")),
        |noun| Some(*noun),
    );
    match first {
        Some(noun) => format!("{}{}", format_plural(n, noun), &what[noun.len()..]),
        None => format_plural(n, what),
    }
}

fn gaps(text: &mut String, audit: &Audit, paint: Paint) {
    let sum = |f: fn(&SymbolAudit) -> u64| audit.symbols.iter().map(f).sum::<u64>();
    heading(text, "Gaps", paint);
    let (closures, holes, missing) = (sum(|s| s.closures), sum(|s| s.holes), sum(|s| s.missing_bars));
    let _ =
        writeln!(text, "  {}: the market was closed (nights, weekends, holidays)", format_plural(closures, "closure"));
    let _ = writeln!(
        text,
        "  {}: {} missing while the market was open",
        format_plural(holes, "hole"),
        format_plural(missing, "bar")
    );
    let longest =
        audit.symbols.iter().filter_map(|s| Some((s, s.longest_hole.as_ref()?))).max_by_key(|(_, hole)| hole.bars);
    if let Some((s, hole)) = longest {
        let _ = writeln!(
            text,
            "  the longest: {}, {} to {}, {}",
            fit(&s.symbol, 20),
            date(&hole.from),
            date(&hole.to),
            format_plural(hole.bars, "bar")
        );
    }
}

fn repairs(text: &mut String, audit: &Audit, paint: Paint) {
    if audit.repairs.is_empty() {
        return;
    }
    heading(text, "Repairs (policies under [repair] in the settings)", paint);
    for repair in &audit.repairs {
        text.push_str(&wrap(&repair.describe(), "  ", "    "));
        if !repair.example.is_empty() {
            text.push_str(&wrap(&format!("for example {}", repair.example), "    ", "    "));
        }
    }
}

/// One line for all symbols that are treated alike.
fn instruments(text: &mut String, audit: &Audit, paint: Paint) {
    let mut alike: Vec<(&Instrument, Vec<&str>)> = Vec::new();
    for s in &audit.symbols {
        match alike.iter_mut().find(|a| *a.0 == s.instrument) {
            Some((_, names)) if names.last() == Some(&s.symbol.as_str()) => {}
            Some((_, names)) => names.push(&s.symbol),
            None => alike.push((&s.instrument, vec![&s.symbol])),
        }
    }
    alike.sort_by_key(|a| std::cmp::Reverse(a.1.len()));
    heading(text, "Instruments as used (change them under [instrument.SYMBOL])", paint);
    for (i, names) in alike.iter().take(8) {
        let who = match names.len() {
            1 => fit(names[0], 24),
            n => format!("{} and {} more", fit(names[0], 24), n - 1),
        };
        let s = &i.session;
        let hours =
            if s.round_the_clock { "round the clock".to_string() } else { format!("{} to {}", s.open, s.close) };
        let mut parts = vec![format!("{} in {}", i.class, i.currency)];
        let mut part = |show: bool, words: String| {
            if show {
                parts.push(words);
            }
        };
        part(i.multiplier != 1.0, format!("multiplier {}", i.multiplier));
        part(i.tick > 0.0, format!("tick {}", i.tick));
        part(true, format!("lot {}", i.lot));
        part(i.min_notional > 0.0, format!("at least {} {}", i.min_notional, i.currency));
        part(true, format!("fee {} bp per side, spread {} bp", i.costs.fee_bp, i.costs.spread_bp));
        part(i.costs.borrow_bp_per_year > 0.0, format!("borrow {} bp per year", i.costs.borrow_bp_per_year));
        part(i.costs.funding, "funding".into());
        part(true, if i.shortable { "can be shorted".into() } else { "long only".into() });
        part(true, format!("{hours} {} {}, trading day rolls over {}", s.days, s.timezone, s.trading_day));
        let volume = if i.volume == VolumeKind::None { "no volume".into() } else { format!("volume in {}", i.volume) };
        part(true, volume);
        text.push_str(&wrap(&format!("{who}: {}", parts.join(", ")), "  ", "    "));
    }
    if alike.len() > 8 {
        let _ = writeln!(text, "  and {} more kinds (--json lists them)", alike.len() - 8);
    }
}
