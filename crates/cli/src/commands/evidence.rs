//! A verdict and what it is made of.

use crate::out::Paint;
use crate::show::{table, wrap};
use files::{format_fixed, format_plural};
use judge::evidence::{Evidence, Verdict};

/// The sentence, the criteria, what chance and other seeds give, and what to do next.
pub(super) fn render(text: &mut String, evidence: &Evidence, paint: Paint) {
    let found = &evidence.findings;
    let sentence = wrap(&evidence.sentence, "  ", "  ");
    text.push_str(&match evidence.verdict {
        Verdict::Evidence => paint.green(&sentence),
        Verdict::Suspicious => paint.red(&sentence),
        Verdict::Promising | Verdict::NotEnoughData | Verdict::NoEvidence => paint.yellow(&sentence),
    });
    evidence.suspicions.iter().skip(1).for_each(|line| text.push_str(&wrap(line, "  also: ", "    ")));
    let trials = format_plural(found.trials as u64, "trial");
    text.push_str(&wrap(&format!("{trials} on these data so far, this one counted"), "  ", "  "));
    let rows: Vec<Vec<String>> = evidence
        .criteria
        .iter()
        .filter(|criterion| criterion.applies)
        .map(|criterion| {
            let met = criterion.met.map_or("missing", |met| if met { "met" } else { "failed" });
            vec![criterion.name.clone(), met.into(), criterion.found.clone(), criterion.needed.clone()]
        })
        .collect();
    text.push_str(&table(&["criterion", "", "found", "needed"], &rows, "  "));
    if let Some(chance) = &found.chance {
        let year = found.sharpe_annual.unwrap_or(0.0) / chance.sharpe_daily;
        let year = if year.is_finite() && year > 0.0 { year } else { 252f64.sqrt() };
        let line = format!(
            "chance ({}, {} draws): Sharpe ratio {} in the mean, nineteen of twenty below {}",
            chance.how,
            files::format_count(chance.draws as u64),
            format_fixed(year * chance.mean, 2),
            format_fixed(year * chance.high, 2)
        );
        text.push_str(&wrap(&line, "  ", "  "));
    }
    if let Some(seeds) = &found.seeds {
        let line = format!(
            "{} traded alone: {}, interquartile mean {} (95 %: {} to {})",
            format_plural(seeds.seeds as u64, "seed"),
            seeds.what,
            format_fixed(seeds.interquartile_mean, 2),
            format_fixed(seeds.low, 2),
            format_fixed(seeds.high, 2)
        );
        text.push_str(&wrap(&line, "  ", "  "));
    }
    evidence.remarks.iter().for_each(|line| text.push_str(&wrap(line, "  ", "  ")));
    text.push_str(&wrap(&evidence.next, "  next: ", "    "));
}
