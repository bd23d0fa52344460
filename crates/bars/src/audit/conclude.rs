//! From what was counted to a verdict in words.

use super::{Audit, Comparison, FileNote, RepairCount, Split, SymbolAudit, Verdict};
use crate::series::{Intake, SeriesFacts};
use crate::{BadBars, Class, Clocks, Copies, Options, RefusedSymbols, Splits};
use files::time::rfc3339;
use files::{Result, format_plural};
use std::collections::{BTreeMap, HashMap};

const DAY: i64 = 86_400_000_000_000;

/// The audit of everything that was read.
pub(crate) fn conclude(
    seen: Vec<SeriesFacts>,
    comparison: Comparison,
    intake: &Intake,
    options: &Options,
) -> Result<Audit> {
    let markets = Markets::group_markets(&seen);
    let symbols: Vec<SymbolAudit> = seen
        .iter()
        .enumerate()
        .map(|(at, s)| audit_symbol(s, at, &markets, compared(&seen, &comparison, at, options), options))
        .collect();
    let mut audit = Audit {
        format: String::new(),
        verdict: overall_verdict(&symbols, &comparison, options),
        reasons: Vec::new(),
        warnings: find_warnings(&seen, &comparison, intake, options),
        bars: symbols.iter().map(|s| s.bars).sum(),
        rows: seen.iter().map(|s| s.tally.rows).sum::<u64>() + intake.file_tally.iter().map(|t| t.rows).sum::<u64>(),
        bytes: intake.bytes,
        files: file_notes(intake),
        left_out: intake.left_out.iter().take(50).cloned().collect(),
        repairs: count_repairs(&seen, intake, options),
        symbols,
    };
    audit.format = describe_formats(&audit.files);
    let refused: Vec<&SymbolAudit> = audit.symbols.iter().filter(|s| s.verdict == Verdict::Refuse).collect();
    if audit.verdict != Verdict::Refuse
        && let Some(first) = refused.first()
    {
        audit.bars -= refused.iter().map(|s| s.bars).sum::<u64>();
        audit.repairs.push(RepairCount {
            what: "dropped_symbol",
            count: refused.len() as u64,
            policy: "repair.refused = \"drop\"".into(),
            example: format!("{}: {}", first.symbol, first.reasons.first().cloned().unwrap_or_default()),
        });
    }
    if audit.bars == 0 {
        audit.verdict = Verdict::Refuse;
    }
    if !audit.repairs.is_empty() && audit.verdict == Verdict::Fine {
        audit.verdict = Verdict::Usable;
    }
    audit.reasons.extend(summarise(&audit.symbols));
    Ok(audit)
}

/// The verdict of all: that of the worst symbol, but a few refused ones may be left out.
fn overall_verdict(symbols: &[SymbolAudit], comparison: &Comparison, options: &Options) -> Verdict {
    // A copy is left out for the sake of its original, and speaks against nothing else, unless nothing may be left out.
    let all = symbols.len();
    let once = options.repairs.copies == Copies::Once && options.repairs.refused == RefusedSymbols::Drop;
    let copy = |at: usize| once && comparison.copies.contains_key(&at);
    let symbols: Vec<&SymbolAudit> = symbols.iter().enumerate().filter(|(at, _)| !copy(*at)).map(|(_, s)| s).collect();
    let refused = symbols.iter().filter(|s| s.verdict == Verdict::Refuse).count();
    match symbols.iter().map(|s| s.verdict).max().unwrap_or(Verdict::Refuse) {
        Verdict::Refuse if options.repairs.refused == RefusedSymbols::Drop && refused * 2 < symbols.len() => {
            Verdict::Usable
        }
        worst if symbols.len() < all => worst.max(Verdict::Usable),
        worst => worst,
    }
}

fn audit_symbol(
    seen: &SeriesFacts,
    at: usize,
    markets: &Markets,
    compared: Option<String>,
    options: &Options,
) -> SymbolAudit {
    let watch = &seen.observer;
    let gaps = watch.gaps(&|day| markets.was_open(at, day), &seen.tally.dropped_days);
    let explained = |j: &super::jumps::Jump| {
        options.factors.as_ref().is_some_and(|f| f.explains_jump(&seen.symbol, j.at, j.ratio, 0.1))
    };
    let mut audit = SymbolAudit {
        symbol: seen.symbol.clone(),
        bars: watch.bars,
        first: if watch.bars > 0 { rfc3339(watch.first) } else { String::new() },
        last: if watch.bars > 0 { rfc3339(watch.last) } else { String::new() },
        timeframe: seen.timeframe.to_string(),
        verdict: Verdict::Fine,
        reasons: Vec::new(),
        instrument: seen.instrument.clone(),
        closures: gaps.closures,
        holes: gaps.holes,
        missing_bars: gaps.missing,
        longest_hole: gaps.longest,
        duplicates: seen.duplicates,
        conflicts: seen.conflicts,
        out_of_order: seen.out_of_order,
        unreadable: seen.tally.unreadable,
        bad_prices: seen.tally.bad_prices,
        range_violations: seen.tally.range,
        bad_volumes: seen.tally.bad_volumes,
        stuck_bars: watch.stuck_bars,
        spikes: watch.spikes,
        worst_spike: watch.worst_spike.map(|(_, at)| rfc3339(at)),
        zero_volume: (watch.with_volume > 0).then_some(watch.zero_volume),
        suspected_splits: in_order(watch.jumps.splits.iter().map(|j| j.show(explained(j)))),
        price_jumps: in_order(watch.jumps.leaps.iter().map(|j| j.show(explained(j)))),
        zone_jumps: watch.zone_jumps.len() as u64,
        mixed_units: seen.mixed_units,
        outside_membership: seen.outside,
        unfinished_last: seen.modified.is_some_and(|written| seen.last_end > written),
        close_first: watch.close_first,
        close_last: watch.close_last,
        low: watch.low,
        high: watch.high,
    };
    set_verdict(&mut audit, seen, compared, options);
    audit
}

/// Why a series is refused beside the others.
fn compared(seen: &[SeriesFacts], comparison: &Comparison, at: usize, options: &Options) -> Option<String> {
    let copy = comparison.copies.get(&at).filter(|_| options.repairs.copies == Copies::Once);
    let copy = copy
        .map(|original| format!("the same series as {}, which counts once (repair.copies)", seen[*original].symbol));
    let shifted = options.repairs.clocks == Clocks::Shift && !seen[at].timeframe.is_daily_or_longer();
    let clock = comparison.clocks.get(&at).filter(|_| options.repairs.clocks != Clocks::Keep && !shifted);
    copy.or_else(|| clock.map(|clock| format!("{clock} (repair.clocks)")))
}

fn set_verdict(audit: &mut SymbolAudit, seen: &SeriesFacts, compared: Option<String>, options: &Options) {
    let rows = seen.tally.rows.max(1) as f64;
    let bars = audit.bars.max(1) as f64;
    let mut refuse = Vec::new();
    let mut usable = Vec::new();
    let share = |n: u64, of: f64| format!("{:.1} %", 100.0 * n as f64 / of);
    if audit.bars == 0 {
        let from = options.from.filter(|from| seen.span.is_some_and(|(_, last)| last < *from));
        let to = options.to.filter(|to| seen.span.is_some_and(|(first, _)| first >= *to));
        refuse.push(match (seen.span, from, to) {
            (Some((_, last)), Some(from), _) => {
                format!("no bar is left: the last one is of {}, before {}", rfc3339(last), rfc3339(from))
            }
            (Some((first, _)), _, Some(to)) => {
                format!("no bar is left: the first one is of {}, after {}", rfc3339(first), rfc3339(to))
            }
            _ => "no bar is left after the choice of time and the repairs".to_string(),
        });
    }
    refuse.extend(compared);
    for (n, what, most) in [
        (audit.bad_prices, "with a missing, zero, negative or absurd price", 0.05),
        (audit.range_violations, "with a high or low between open and close", 0.05),
        (audit.conflicts, "in conflict with another row of the same time", 0.02),
        (audit.bad_volumes, "with a negative or absurd volume, read as missing", 1.0),
    ] {
        if n == 0 {
            continue;
        }
        let text = format!("{} {what} ({})", format_plural(n, "row"), share(n, rows));
        if n as f64 > most * rows && n > 3 { refuse.push(text) } else { usable.push(text) }
    }
    if audit.stuck_bars as f64 > 0.5 * bars && audit.bars > 50 {
        refuse.push(format!(
            "the price does not change in {} ({}): this is not a traded price",
            format_plural(audit.stuck_bars, "bar"),
            share(audit.stuck_bars, bars)
        ));
    } else if audit.stuck_bars as f64 > 0.05 * bars && audit.bars > 50 {
        usable.push(format!(
            "the price does not change in {} ({})",
            format_plural(audit.stuck_bars, "bar"),
            share(audit.stuck_bars, bars)
        ));
    }
    for (n, noun, what) in [
        (audit.unreadable, "row", "could not be read"),
        (audit.duplicates, "duplicate row", "found"),
        (audit.out_of_order, "row", "out of order"),
        (audit.mixed_units, "stamp", "in another unit than the rest"),
    ] {
        if n > 0 {
            usable.push(format!("{} {what}", format_plural(n, noun)));
        }
    }
    // A wick now and then is a market; a feed that slips does so often or far.
    let far = seen.observer.worst_spike.is_some_and(|(size, _)| size > 0.25);
    if audit.spikes > 0 && (far || audit.spikes as f64 > 0.0005 * bars) {
        usable.push(format!("{} reversed by the next bar", format_plural(audit.spikes, "spike")));
    }
    let open = audit.suspected_splits.iter().filter(|s| !s.factored).count();
    if open > 0 {
        let first = audit.suspected_splits.iter().find(|s| !s.factored);
        let shown =
            first.map(|s| format!("{}, price times {}", &s.at[..10], format_ratio(s.ratio))).unwrap_or_default();
        let then =
            if options.repairs.splits == Splits::Segment { "each begins a new segment" } else { "kept as moves" };
        usable.push(format!("{} (first {shown}); {then}", format_plural(open as u64, "suspected unadjusted split")));
    }
    let often = audit.price_jumps.len() > 10 && audit.price_jumps.len() as f64 > 0.02 * bars;
    if often && options.repairs.splits == Splits::Segment {
        refuse.push(format!(
            "the price jumps by a factor of five or more in {} ({}): this is not a traded price",
            format_plural(audit.price_jumps.len() as u64, "bar"),
            share(audit.price_jumps.len() as u64, bars)
        ));
    } else if let Some(first) = audit.price_jumps.first() {
        let then =
            if options.repairs.splits == Splits::Segment { "each begins a new segment" } else { "kept as moves" };
        usable.push(format!(
            "{} of the price that no market makes (first {}, price times {}); {then}",
            format_plural(audit.price_jumps.len() as u64, "jump"),
            &first.at[..10],
            format_ratio(first.ratio)
        ));
    }
    if audit.missing_bars as f64 > 0.005 * bars && audit.missing_bars > 2 {
        usable.push(format!(
            "{} missing in {} ({})",
            format_plural(audit.missing_bars, "bar"),
            format_plural(audit.holes, "hole"),
            share(audit.missing_bars, bars)
        ));
    }
    if seen.one_sided > 0 {
        usable.push(format!("{} with only a bid or only an ask", format_plural(seen.one_sided, "time")));
    }
    if audit.unfinished_last {
        usable.push("the last bar ends after the file was written: it may be unfinished".into());
    }
    audit.verdict = match (refuse.is_empty(), usable.is_empty()) {
        (false, _) => Verdict::Refuse,
        (true, false) => Verdict::Usable,
        (true, true) => Verdict::Fine,
    };
    audit.reasons = refuse;
    audit.reasons.extend(usable);
}

fn in_order(splits: impl Iterator<Item = Split>) -> Vec<Split> {
    let mut all: Vec<Split> = splits.collect();
    all.sort_by(|a, b| a.at.cmp(&b.at));
    all
}

/// `710`, `0.667` or `1/710`.
fn format_ratio(ratio: f64) -> String {
    match ratio {
        r if r >= 10.0 => format!("{r:.0}"),
        r if r < 0.05 => format!("1/{:.0}", 1.0 / r),
        r => format!("{r:.3}"),
    }
}

/// On which days a market was open, by what most of its symbols show.
struct Markets {
    group_of: Vec<usize>,
    groups: Vec<Group>,
}

#[derive(Default)]
struct Group {
    firsts: Vec<i32>,
    lasts: Vec<i32>,
    active: HashMap<i32, u32>,
}

impl Markets {
    /// Symbols share a market if they share class, currency and, with daily bars, the hour their day begins.
    fn group_markets(seen: &[SeriesFacts]) -> Markets {
        let mut index: HashMap<(Class, String, crate::Timeframe, i64), usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of = Vec::new();
        for s in seen {
            // Daylight saving moves the hour by one; two hours' width holds both.
            let hour = if s.timeframe.is_daily_or_longer() {
                (s.observer.first.rem_euclid(DAY) + DAY / 24).rem_euclid(DAY) / (DAY / 12)
            } else {
                0
            };
            let key = (s.instrument.class, s.instrument.currency.clone(), s.timeframe, hour);
            let at = *index.entry(key).or_insert_with(|| {
                groups.push(Group::default());
                groups.len() - 1
            });
            group_of.push(at);
            let (Some(first), Some(last)) = (s.observer.active.first(), s.observer.active.last()) else { continue };
            groups[at].firsts.push(*first);
            groups[at].lasts.push(*last);
            for day in &s.observer.active {
                *groups[at].active.entry(*day).or_default() += 1;
            }
        }
        for group in &mut groups {
            group.firsts.sort_unstable();
            group.lasts.sort_unstable();
        }
        Markets { group_of, groups }
    }

    /// Whether most symbols of the same market traded that day; `None` where too few lived to tell.
    fn was_open(&self, symbol: usize, day: i32) -> Option<bool> {
        let group = &self.groups[self.group_of[symbol]];
        let alive = group.firsts.partition_point(|f| *f <= day) - group.lasts.partition_point(|l| *l < day);
        (alive >= 3).then(|| group.active.get(&day).copied().unwrap_or(0) as usize * 2 >= alive)
    }
}

fn file_notes(intake: &Intake) -> Vec<FileNote> {
    let mut notes: Vec<FileNote> = Vec::new();
    for meta in &intake.metas {
        match notes.iter().position(|n| n.format == meta.note.format && n.why == meta.note.why) {
            Some(at) => notes[at].count += 1,
            None if notes.len() < 200 => notes.push(meta.note.clone()),
            None => {}
        }
    }
    notes
}

fn describe_formats(notes: &[FileNote]) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for note in notes {
        *counts.entry(&note.format).or_default() += note.count;
    }
    let mut sorted: Vec<(&str, u64)> = counts.into_iter().collect();
    sorted.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), name.to_string()));
    let shown: Vec<&str> = sorted.iter().take(3).map(|(name, _)| *name).collect();
    let more = sorted.len().saturating_sub(3);
    if more > 0 { format!("{} and {more} more formats", shown.join("; ")) } else { shown.join("; ") }
}

fn count_repairs(seen: &[SeriesFacts], intake: &Intake, options: &Options) -> Vec<RepairCount> {
    let policy = &options.repairs;
    let mut list = Vec::new();
    let mut add = |what: &'static str, count: u64, policy: String, example: Option<String>| {
        if count > 0 {
            list.push(RepairCount { what, count, policy, example: example.unwrap_or_default() });
        }
    };
    let sum = |f: &dyn Fn(&SeriesFacts) -> u64| seen.iter().map(f).sum::<u64>();
    let first = |f: &dyn Fn(&SeriesFacts) -> Option<String>| seen.iter().find_map(f);
    let tally = |f: &dyn Fn(&crate::ingest::Tally) -> u64| intake.file_tally.iter().map(f).sum::<u64>();
    let lower = |text: String| text.to_lowercase();
    add(
        "sorted",
        sum(&|s| s.out_of_order),
        format!("repair.order = \"{}\"", lower(format!("{:?}", policy.order))),
        first(&|s| s.order_example.clone()),
    );
    add(
        "dropped_unreadable",
        sum(&|s| s.tally.unreadable) + tally(&|t| t.unreadable),
        format!("repair.unreadable = {}", policy.unreadable),
        first(&|s| s.tally.examples.unreadable.clone())
            .or_else(|| intake.file_tally.iter().find_map(|t| t.examples.unreadable.clone())),
    );
    let duplicates = format!("repair.duplicates = \"{}\"", lower(format!("{:?}", policy.duplicates)));
    add("dropped_duplicate", sum(&|s| s.duplicates), duplicates.clone(), first(&|s| s.duplicate_example.clone()));
    add("dropped_conflicting", sum(&|s| s.conflicts), duplicates, first(&|s| s.conflict_example.clone()));
    let bad = format!("repair.bad_prices = \"{}\"", lower(format!("{:?}", policy.bad_prices)));
    let example = first(&|s| s.tally.examples.bad_price.clone());
    add("dropped_bad_price", sum(&|s| s.tally.bad_prices - s.tally.bad_kept), bad.clone(), example.clone());
    add("kept_bad_price", sum(&|s| s.tally.bad_kept), bad, example);
    let range = if policy.range == BadBars::Keep { "kept_range" } else { "dropped_range" };
    add(
        range,
        sum(&|s| s.tally.range),
        format!("repair.range = \"{}\"", lower(format!("{:?}", policy.range))),
        first(&|s| s.tally.examples.range.clone()),
    );
    add(
        "missing_volume",
        sum(&|s| s.tally.bad_volumes),
        "a volume below zero or beyond any market counts as missing".into(),
        first(&|s| s.tally.examples.bad_volume.clone()),
    );
    add("rescaled_time", sum(&|s| s.mixed_units), "each stamp is read in the unit that its size implies".into(), None);
    add("dropped_one_sided", sum(&|s| s.one_sided), "bid and ask are joined on equal times".into(), None);
    let splits = sum(&|s| s.observer.jumps.borders().count() as u64);
    if policy.splits == Splits::Segment {
        let example = first(&|s| {
            s.observer
                .jumps
                .borders()
                .next()
                .map(|j| format!("{} at {}, price times {}", s.symbol, rfc3339(j.at), format_ratio(j.ratio)))
        });
        add("segmented", splits, "repair.splits = \"segment\"".into(), example);
    }
    list
}

fn find_warnings(seen: &[SeriesFacts], comparison: &Comparison, intake: &Intake, options: &Options) -> Vec<String> {
    let mut warnings: Vec<(String, u64)> = Vec::new();
    for text in intake.metas.iter().flat_map(|m| &m.warnings) {
        match warnings.iter_mut().find(|(w, _)| w == text) {
            Some((_, n)) => *n += 1,
            None => warnings.push((text.clone(), 1)),
        }
    }
    let mut list: Vec<String> =
        warnings.into_iter().map(|(w, n)| if n > 1 { format!("{w} ({n} files)") } else { w }).collect();
    list.extend(instrument_notes(seen));
    list.extend(comparison.warnings.iter().cloned());
    list.extend(clock_notes(seen, comparison, options));
    let mut originals: Vec<usize> = comparison.copies.values().copied().collect();
    originals.sort_unstable();
    originals.dedup();
    for original in originals {
        let copies = comparison.copies.iter().filter(|(_, of)| **of == original);
        let names: Vec<&str> = copies.map(|(at, _)| seen[*at].symbol.as_str()).collect();
        let then = if options.repairs.copies == Copies::Once { "it counts once" } else { "all of them are kept" };
        list.push(format!(
            "{} is the same series as {}: a copy, another unit, or a wrong name; {then}",
            seen[original].symbol,
            name_some(&names)
        ));
    }
    let last = seen.iter().map(|s| s.observer.last).max().unwrap_or(0);
    let alive = |s: &SeriesFacts| last - s.observer.last <= (10 * s.timeframe.ns()).max(7 * DAY);
    if seen.len() >= 10 && options.membership.is_none() && seen.iter().all(alive) {
        list.push(format!(
            "all {} symbols last to the end of the data: delisted names are missing (survivorship bias); give a membership file with universe.membership",
            seen.len()
        ));
    }
    let lone = seen.iter().filter(|s| !s.paired && s.files.iter().any(|f| intake.metas[*f].side.is_some())).count();
    if lone > 0 {
        list.push(format!("only one side of the book (bid or ask) in {lone} series"));
    }
    let there = |name: &String| seen.iter().any(|s| s.symbol.eq_ignore_ascii_case(name));
    for (names, what) in [
        (options.symbols.iter().filter(|n| !there(n)).cloned().collect::<Vec<_>>(), "requested but not in the data"),
        (
            options.instruments.keys().filter(|n| !there(n)).cloned().collect(),
            "set under [instrument] but not in the data",
        ),
    ] {
        if !names.is_empty() {
            let known: Vec<&str> = seen.iter().take(12).map(|s| s.symbol.as_str()).collect();
            let more = if seen.len() > 12 { ", …" } else { "" };
            let near = crate::nearest(&names[0], seen.iter().map(|s| s.symbol.as_str()));
            let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            list.push(format!("{what}: {}{near}; there are {}{more}", names.join(", "), known.join(", ")));
        }
    }
    let moves: Vec<(&str, &super::jumps::Jump)> =
        seen.iter().flat_map(|s| s.observer.jumps.moves.iter().map(|j| (s.symbol.as_str(), j))).collect();
    if let Some((symbol, jump)) = moves.iter().min_by_key(|(symbol, jump)| (jump.at, *symbol)) {
        list.push(format!(
            "{} of about a split's size read as a move: market, volume, range or adjusted close speak against a split (first {symbol} on {}, price times {})",
            format_plural(moves.len() as u64, "jump"),
            &rfc3339(jump.at)[..10],
            format_ratio(jump.ratio)
        ));
    }
    let paired = seen.iter().filter(|s| s.paired).count();
    if paired > 0 {
        list.push(format!(
            "{paired} series made of the middle of a bid and an ask file, with `spread` as an extra column"
        ));
    }
    let turned = seen.iter().filter(|s| s.newest_first).count();
    if turned > 0 {
        list.push(format!("{turned} series stored newest first, read in reverse"));
    }
    let jumps: u64 = seen.iter().map(|s| s.observer.zone_jumps.len() as u64).sum();
    if jumps > 0 {
        let first = seen
            .iter()
            .find_map(|s| s.observer.zone_jumps.first().map(|at| format!("{} on {}", s.symbol, &rfc3339(*at)[..10])));
        list.push(format!(
            "the session's opening hour moves {} (first {}): usual for UTC stamps of a market with daylight saving, a fault for exchange time",
            format_plural(jumps, "time"),
            first.unwrap_or_default()
        ));
    }
    let bursts = seen.iter().filter_map(|s| Some((s.symbol.as_str(), s.observer.volume_burst()?)));
    if let Some((symbol, (times, at))) = bursts.clone().max_by(|a, b| a.1.0.total_cmp(&b.1.0)) {
        list.push(format!(
            "{} with a volume that no market has, the largest {times:.0e} times the usual one of {symbol} at {}: another unit, or a damaged row",
            format_plural(bursts.count() as u64, "symbol"),
            rfc3339(at)
        ));
    }
    let absent: u64 = seen.iter().map(|s| s.tally.absent).sum();
    if absent > 0 {
        list.push(format!(
            "{} of the wide table, before a symbol was listed or after it was delisted",
            format_plural(absent, "empty cell")
        ));
    }
    let text: u64 = seen.iter().map(|s| s.tally.bad_extras).sum::<u64>()
        + intake.file_tally.iter().map(|t| t.bad_extras).sum::<u64>();
    if text > 0 {
        list.push(format!(
            "{} of extra columns or volume not a number, counted as missing",
            format_plural(text, "value")
        ));
    }
    if let Some(members) = &options.membership {
        let missing = members.symbols().filter(|m| !seen.iter().any(|s| s.symbol.eq_ignore_ascii_case(m))).count();
        if missing > 0 {
            list.push(format!("{} of the membership file without bars", format_plural(missing as u64, "symbol")));
        }
        let strangers: Vec<&str> = intake.unlisted.iter().map(String::as_str).collect();
        if !strangers.is_empty() {
            list.push(format!("not in the membership file, left out: {}", name_some(&strangers)));
        }
    }
    list
}

/// What the bars changed about the instruments that the names gave, like changes in one sentence.
fn instrument_notes(seen: &[SeriesFacts]) -> Vec<String> {
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for (symbol, note) in seen.iter().filter_map(|s| Some((s.symbol.as_str(), s.instrument_note.as_deref()?))) {
        match notes.iter_mut().find(|(n, _)| *n == note) {
            Some((_, symbols)) => symbols.push(symbol),
            None => notes.push((note, vec![symbol])),
        }
    }
    notes.iter().map(|(note, symbols)| format!("{}: {note}", name_some(symbols))).collect()
}

/// Which symbols have another clock than the rest, those of one lag in one sentence.
fn clock_notes(seen: &[SeriesFacts], comparison: &Comparison, options: &Options) -> Vec<String> {
    let mut lags: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for (at, clock) in &comparison.clocks {
        lags.entry(clock.bars).or_default().push(&seen[*at].symbol);
    }
    let late = comparison.clocks.values().map(|clock| (clock.bars, clock.describe())).collect::<BTreeMap<_, _>>();
    let others = seen.len() - comparison.clocks.len();
    let then = match options.repairs.clocks {
        Clocks::Drop => {
            "left out, since what is learnt across two clocks is a false edge; \
            repair.clocks = \"shift\" moves their stamps by that, \"keep\" takes them as they are"
        }
        Clocks::Shift => "their stamps were moved by that (repair.clocks)",
        Clocks::Keep => "kept (repair.clocks), though what is learnt across two clocks is a false edge",
    };
    let note = |(lag, names): (&i64, &Vec<&str>)| {
        let are = if names.len() == 1 { "is" } else { "are" };
        format!(
            "two clocks: {} of {} symbols {are} {} against near twins among the other {others} ({}{}): {then}",
            names.len(),
            seen.len(),
            late[lag],
            first_names(names),
            currency_of(seen, comparison, *lag).map(|c| format!("; all in {c}")).unwrap_or_default()
        )
    };
    lags.iter().map(note).collect()
}

/// The currency that all series of one wrong clock have, if there are several.
fn currency_of<'a>(seen: &'a [SeriesFacts], comparison: &Comparison, lag: i64) -> Option<&'a str> {
    let late = comparison.clocks.iter().filter(|(_, clock)| clock.bars == lag);
    let mut currencies = late.map(|(at, _)| seen[*at].instrument.currency.as_str());
    let (first, second) = (currencies.next()?, currencies.next()?);
    (first == second && currencies.all(|c| c == first)).then_some(first)
}

/// `AAPL`, or `5 symbols (AAPL, MSFT, XOM, …)`.
pub(super) fn name_some(symbols: &[&str]) -> String {
    match symbols {
        [one] => one.to_string(),
        more => format!("{} symbols ({})", more.len(), first_names(more)),
    }
}

fn first_names(symbols: &[&str]) -> String {
    let more = if symbols.len() > 3 { ", …" } else { "" };
    format!("{}{more}", symbols[..symbols.len().min(3)].join(", "))
}

/// One line for each verdict that is not fine.
fn summarise(symbols: &[SymbolAudit]) -> Vec<String> {
    let mut list = Vec::new();
    for (verdict, words) in [(Verdict::Refuse, "refused"), (Verdict::Usable, "usable with repairs")] {
        let mine: Vec<&SymbolAudit> = symbols.iter().filter(|s| s.verdict == verdict).collect();
        if let Some(first) = mine.first() {
            let why = first.reasons.first().cloned().unwrap_or_default();
            list.push(format!(
                "{} of {} series {words}, for example {}: {why}",
                mine.len(),
                symbols.len(),
                first.symbol
            ));
        }
    }
    list
}
