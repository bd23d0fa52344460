//! Policies on their test blocks: each member alone, all that are deployed as one, and what a search adds to nets.

use super::super::market_models::{MarketModelRow, sentence};
use super::super::search::{Searching, bar_seconds};
use super::super::test_blocks::{TestBlocks, Traded, keep_returns, members_of, seeds_of};
use super::super::{Evaluation, model};
use super::{METRICS, Stoppable, processor};
use crate::train::{Experiment, Ids, Judged};
use compute::Opened;
use features::Span;
use files::{Error, Result, format_plural};
use judge::backtest::{
    Backtest, Course, Lane, Latency, Line, Walked, decide, decide_beside, four_lines, latency, shift_portfolio,
    shift_positions,
};
use judge::evidence::Findings;
use judge::ledger::StartedTrial;
use learn::Trained;
use learn::ppo::{Deciders, FoldPolicy, PpoPolicy};
use market::{Policy, Targets};
use serde_json::json;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Members whose training has ended on their test blocks; with a search where they have one.
pub(crate) fn tested<'a>(
    experiment: &'a Experiment,
    members: &'a [Trained],
    searching: Option<Searching>,
) -> Result<Box<dyn Evaluation + 'a>> {
    let Ids::Bars { data, .. } = &experiment.source.ids else {
        return Err(Error::input("policies trade, and ready arrays have no prices"));
    };
    let test = TestBlocks::new(experiment, data)?;
    let mut notes = test.table.notes.clone();
    let refit = experiment.settings.refit.is_some();
    if !refit {
        notes.extend(flat_notes(members));
    }
    let Experiment { source, settings, at, .. } = experiment;
    let tables = match &at.device {
        Opened::Cpu { .. } => source.problem.tables(&at.device, at.budget)?,
        // A clone has tables of its own, in the processor's memory.
        Opened::Cuda(_) => {
            learn::Problem::clone(&source.problem).tables(&processor(settings)?, compute::Budget::default())?
        }
    };
    let (figures, decided, traded, latency) = (Vec::new(), None, None, None);
    let market_models = searching.as_ref().map_or_else(|| Ok(Vec::new()), Searching::market_models)?;
    notes.extend(sentence(&market_models));
    let mut tested = Tested {
        experiment,
        members,
        test,
        tables,
        searching,
        market_models,
        notes,
        figures,
        decided,
        traded,
        latency,
    };
    (tested.figures, tested.decided) = if refit { (vec![None; members.len()], None) } else { tested.walk_all()? };
    Ok(Box::new(tested))
}

/// Whether a member earned more than one standard error on its validation; else it is deployed flat.
fn is_above_flat(member: &Trained) -> bool {
    member.best.as_ref().is_some_and(|best| best.score > error_of(member).unwrap_or(f64::INFINITY))
}

/// The standard error of a member's best validation; none where it is of a single block of time.
fn error_of(member: &Trained) -> Option<f64> {
    let best = member.best.as_ref()?;
    let seen = member.history.iter().find(|v| v.unit == best.unit)?;
    seen.metrics.get("valid_error")
}

/// How many members stay flat where they are deployed, and why.
fn flat_notes(members: &[Trained]) -> impl Iterator<Item = String> {
    let (unknown, near): (Vec<&Trained>, Vec<&Trained>) = members
        .iter()
        .filter(|m| !is_above_flat(m))
        .partition(|m| m.best.as_ref().is_some_and(|b| b.score > 0.0) && error_of(m).is_none());
    let all = format_plural(members.len() as u64, "member");
    let note = move |flat: usize, why: fn(bool) -> String| {
        let stay = if flat == 1 { "stays" } else { "stay" };
        (flat > 0).then(|| format!("{flat} of {all} {stay} flat: {}", why(flat == 1)))
    };
    let near = note(near.len(), |one| {
        let they = if one { "it" } else { "they" };
        format!("what {they} earned on validation data is not above 0 by a standard error")
    });
    let unknown = note(unknown.len(), |one| {
        let their = if one { "its" } else { "their" };
        format!(
            "{their} validation is a single block of time, which has no standard error; fewer <split.folds> or more data \
             make it longer"
        )
    });
    near.into_iter().chain(unknown)
}

/// The same of the net of a member that searches, without the search: its validation measured both.
fn is_net_above_flat(member: &Trained) -> bool {
    let Some(best) = &member.best else { return false };
    let Some(seen) = member.history.iter().find(|v| v.unit == best.unit) else { return false };
    let metric = |name: &str| seen.metrics.get(name);
    metric("net_growth").zip(metric("net_error")).is_some_and(|(growth, error)| growth > error)
}

/// Which members stay flat where they are deployed.
type StaysFlat = fn(&Trained) -> bool;

/// The mean logarithm of growth of a step, in basis points; none of a ruin.
fn growth_bp(growth: f64, steps: usize) -> Option<f64> {
    (growth > 0.0).then(|| 1e4 * growth.ln() / steps.max(1) as f64)
}

/// The same of equity that was walked.
fn growth_of(walked: &Walked) -> Option<f64> {
    let (first, last) = (walked.equity.first()?, walked.equity.last()?);
    growth_bp(last / first, walked.equity.len().saturating_sub(1))
}

/// That the net alone earned more than with search, where it did.
fn search_note(lines: &[Line]) -> Option<String> {
    let [alone, searched, ..] = lines else { return None };
    let by_much = alone.sharpe_annual? > searched.sharpe_annual.unwrap_or(0.0) && alone.trades > 0;
    (by_much && alone.total_return > searched.total_return).then(|| {
        format!(
            "on the test blocks the net alone earned more than with search ({:.1} % against {:.1} %): searching did not \
             pay here. A longer training may change that (<ppo.timesteps>); a model of this run always searches, and a \
             net that trades without search is trained by <train.learner=ppo>",
            100.0 * alone.total_return,
            100.0 * searched.total_return
        )
    })
}

/// Policies on their test blocks.
struct Tested<'a> {
    experiment: &'a Experiment,
    members: &'a [Trained],
    test: TestBlocks<'a>,
    /// In the processor's memory.
    tables: Arc<compute::Tables>,
    /// How members search; none where they decide by their nets alone.
    searching: Option<Searching>,
    /// The models of the markets that they search in.
    market_models: Vec<MarketModelRow>,
    notes: Vec<String>,
    /// `[members]` growth of a bar on its test block, in basis points; none where it has no weights.
    figures: Vec<Option<f64>>,
    /// What the only config decides, where it was asked together with its members alone.
    decided: Option<Decided>,
    traded: Option<Traded>,
    latency: Option<Latency>,
}

/// What deployed members decide on all test blocks.
struct Decided {
    together: Targets,
    /// Each seed alone, where there are several.
    seeds: Vec<Targets>,
}

impl Tested<'_> {
    /// Some members as one policy. With `deployed` those that are not above flat stay flat; `lanes` say who decides for
    /// whom where accounts walk side by side.
    fn policy(&self, members: &[&Trained], deployed: bool, lanes: Vec<Vec<Deciders>>) -> Result<Box<dyn Policy>> {
        let stays_flat: StaysFlat = if deployed { |m| !is_above_flat(m) } else { |_| false };
        let (folds, configs) = self.folds_of(members, stays_flat)?;
        let (fold_of, share) = (self.deciding_folds(&folds)?, 1.0 / self.test.data.base.market.len() as f64);
        match &self.searching {
            None => {
                let policy = PpoPolicy::new(&self.tables, folds, fold_of, share)?.with_lanes(lanes);
                // Portfolios walk on a thread each.
                let alone = self.test.data.base.market.len() == 1;
                let threads = if alone { self.experiment.settings.threads() } else { 1 };
                Ok(Box::new(Stoppable(policy.with_threads(threads)?)))
            }
            Some(searching) => searching.policy(folds, &configs, fold_of, share, lanes),
        }
    }

    /// The nets of some members without any search, as they would be deployed: by what each made of its validation
    /// alone.
    fn nets_alone(&self, members: &[&Trained]) -> Result<Stoppable<PpoPolicy>> {
        let (folds, _) = self.folds_of(members, |m| !is_net_above_flat(m))?;
        let (fold_of, share) = (self.deciding_folds(&folds)?, 1.0 / self.test.data.base.market.len() as f64);
        Ok(Stoppable(PpoPolicy::new(&self.tables, folds, fold_of, share)?))
    }

    /// How long decisions of some members take, with search and by their nets alone.
    fn time_decisions(&self, course: &Course<'_>, members: &[&Trained]) -> Result<Option<Latency>> {
        let (folds, _) = self.folds_of(members, |m| !is_above_flat(m))?;
        let is_searched = |fold: &u16| !folds[usize::from(*fold)].members.is_empty();
        let searches: Vec<Option<u16>> =
            self.deciding_folds(&folds)?.into_iter().map(|fold| fold.filter(is_searched)).collect();
        let (net, searcher) = (self.nets_alone(members)?, self.policy(members, true, Vec::new())?);
        let bar = (bar_seconds(self.test.data), self.experiment.settings.search.latency);
        latency(course, [&net, &*searcher], &searches, bar)
    }

    /// `[folds]` some members by fold, and the config of each fold.
    fn folds_of(&self, members: &[&Trained], stays_flat: StaysFlat) -> Result<(Vec<FoldPolicy>, Vec<usize>)> {
        let Experiment { splits, learner, .. } = self.experiment;
        let Some(first) = members.first() else { return Err(Error::input("there is no member to decide")) };
        let fold = |number: usize| {
            let own: Vec<&&Trained> = members.iter().filter(|m| m.fold == number && m.best.is_some()).collect();
            let (trading, flat): (Vec<&Trained>, Vec<&Trained>) =
                own.into_iter().copied().partition(|m| !stays_flat(m));
            let best = trading.iter().filter_map(|m| Some((m.seed, m.best.as_ref()?.params.clone())));
            let (seeds, weights) = best.unzip();
            // All members of a fold are of one config.
            let config = members.iter().find(|m| m.fold == number).unwrap_or(first).config;
            let net = learner.configs()[config].net.clone();
            let scales = learner.scalers()[number].scales_of(&net);
            (FoldPolicy { net, scales, members: weights, seeds, flat: flat.len() }, config)
        };
        Ok((0..splits.folds.len()).map(fold).unzip())
    }

    /// `[rows]` the fold that decides on each: a fold without a member decides nothing.
    fn deciding_folds(&self, folds: &[FoldPolicy]) -> Result<Vec<Option<u16>>> {
        let Ids::Bars { usable, .. } = &self.experiment.source.ids else {
            return Err(Error::input("there are no bars"));
        };
        let fold_of = |row: usize| {
            let time = self.test.data.clock.time(row);
            let block = self.test.spans.iter().position(|span| span.contains(time));
            let known = |block: &usize| !folds[*block].members.is_empty() || folds[*block].flat > 0;
            if usable[row] { block.filter(known).map(|block| block as u16) } else { None }
        };
        Ok((0..usable.len()).map(fold_of).collect())
    }

    /// `[members]` what each makes of its test block alone; and what all decide together, where there is one config of
    /// one symbol: they walk side by side.
    fn walk_all(&self) -> Result<(Vec<Option<f64>>, Option<Decided>)> {
        let configs = self.experiment.learner.configs().len();
        if let (Some(searching), 1) = (&self.searching, configs) {
            return self.walk_searchers(searching);
        }
        if self.test.data.base.market.len() > 1 {
            let alone = |m: &Trained| m.best.as_ref().map(|_| self.growth(m)).transpose().map(Option::flatten);
            let members: Vec<&Trained> = self.members.iter().collect();
            return Ok((self.on_threads(&members, alone)?, None));
        }
        let (mut figures, mut decided) = (vec![None; self.members.len()], None);
        for config in 0..configs {
            let (own, places): (Vec<&Trained>, Vec<usize>) =
                self.members.iter().zip(0..).filter(|(m, _)| m.config == config).unzip();
            let (grown, all) = self.walk_beside(&own, true, configs == 1)?;
            places.into_iter().zip(grown).for_each(|(at, growth)| figures[at] = growth);
            decided = all;
        }
        Ok((figures, decided))
    }

    /// The same of members that search, whose decisions are what takes time: those that are deployed decide once, on
    /// the way of their seed through all blocks, and that is followed on their own block again.
    fn walk_searchers(&self, searching: &Searching) -> Result<(Vec<Option<f64>>, Option<Decided>)> {
        let all: Vec<&Trained> = self.members.iter().collect();
        let seeds = seeds_of(&all);
        let alone: Vec<&Trained> = all.iter().filter(|m| m.best.is_some() && !is_above_flat(m)).copied().collect();
        let walks = 1 + if seeds.len() > 1 { seeds.len() } else { 0 };
        let rows = |span: Option<Span>| span.map_or(0, |span| self.rows_inside(span));
        let whole = self.test.whole().map(|course| course.span);
        let blocks: usize = alone.iter().map(|m| rows(Some(self.test.spans[m.fold]))).sum();
        searching.expect(walks * rows(whole) + blocks);
        let Some(decided) = self.decide(&all)? else { return Ok((vec![None; all.len()], None)) };
        let mut of_alone = match self.test.data.base.market.len() {
            1 => self.walk_beside(&alone, true, false)?.0,
            _ => self.on_threads(&alone, |m| self.growth(m))?,
        }
        .into_iter();
        let figure = |m: &&Trained| {
            if m.best.is_none() || !is_above_flat(m) {
                return Ok(m.best.as_ref().and_then(|_| of_alone.next().flatten()));
            }
            let own = seeds.iter().position(|seed| *seed == m.seed).and_then(|at| decided.seeds.get(at));
            let targets = own.unwrap_or(&decided.together);
            Ok(growth_of(&self.test.walk(&self.test.course(self.test.spans[m.fold]), targets)?))
        };
        let figures = all.iter().map(figure).collect::<Result<_>>()?;
        Ok((figures, Some(decided)))
    }

    /// Rows that can be decided on in a span.
    fn rows_inside(&self, span: Span) -> usize {
        let Ids::Bars { usable, .. } = &self.experiment.source.ids else { return 0 };
        (0..usable.len()).filter(|row| usable[*row] && span.contains(self.test.data.clock.time(*row))).count()
    }

    /// What a member makes of its test block alone, a bar, in basis points, on a portfolio.
    fn growth(&self, member: &Trained) -> Result<Option<f64>> {
        let policy = self.policy(&[member], false, Vec::new())?;
        Ok(growth_of(&self.test.walk(&self.test.course(self.test.spans[member.fold]), &*policy)?))
    }

    /// Members of one symbol on accounts side by side: each `alone` on its test block, and those that are deployed on
    /// all blocks, `together` and seed by seed. `[members]` what those alone make of a bar, in basis points.
    fn walk_beside(
        &self,
        members: &[&Trained],
        alone: bool,
        together: bool,
    ) -> Result<(Vec<Option<f64>>, Option<Decided>)> {
        let trained: Vec<&Trained> = members.iter().filter(|m| m.best.is_some()).copied().collect();
        let Some(whole) = self.test.whole().filter(|_| !trained.is_empty()) else {
            return Ok((vec![None; members.len()], None));
        };
        let folds = self.experiment.splits.folds.len();
        // The number of a member among those of its fold.
        let number = |m: &Trained| trained.iter().filter(|o| o.fold == m.fold).position(|o| std::ptr::eq(*o, m));
        let deployed = |seed: Option<u32>| {
            let fold = |fold: usize| {
                let own = trained.iter().filter(|m| m.fold == fold && seed.is_none_or(|seed| m.seed == seed));
                let (trading, flat): (Vec<&Trained>, Vec<&Trained>) = own.partition(|m| is_above_flat(m));
                Deciders { members: trading.into_iter().filter_map(number).collect(), flat: flat.len() }
            };
            (0..folds).map(fold).collect::<Vec<_>>()
        };
        let (mut lanes, mut who) = (Vec::new(), Vec::new());
        if together {
            let seeds = seeds_of(members);
            let each = seeds.iter().filter(|_| seeds.len() > 1).map(|seed| Some(*seed));
            who.extend(std::iter::once(None).chain(each).map(deployed));
            lanes.resize(who.len(), Lane { span: whole.span, keeps: true });
        }
        let kept = lanes.len();
        for member in trained.iter().filter(|_| alone) {
            let fold = |fold: usize| match fold == member.fold {
                true => Deciders { members: number(member).into_iter().collect(), flat: 0 },
                false => Deciders::default(),
            };
            who.push((0..folds).map(fold).collect());
            lanes.push(Lane { span: self.test.spans[member.fold], keeps: false });
        }
        let policy = self.policy(&trained, false, who)?;
        let mut ends = decide_beside(&whole, &lanes, &*policy)?;
        let mut grown = ends.split_off(kept).into_iter().map(|end| growth_bp(end.growth, end.steps));
        let figures = members.iter().map(|m| m.best.as_ref().filter(|_| alone).and_then(|_| grown.next().flatten()));
        let figures = figures.collect();
        let mut targets = ends.into_iter().filter_map(|end| end.targets);
        let decided = targets.next().map(|together| Decided { together, seeds: targets.collect() });
        Ok((figures, decided))
    }

    /// What some members decide on all test blocks, each seed alone as well.
    fn decide(&self, members: &[&Trained]) -> Result<Option<Decided>> {
        let Some(course) = self.test.whole() else { return Ok(None) };
        if self.test.data.base.market.len() == 1 {
            return Ok(self.walk_beside(members, false, true)?.1);
        }
        // All together first, then each seed alone.
        let seeds = seeds_of(members);
        let each = seeds.iter().filter(|_| seeds.len() > 1).map(|seed| Some(*seed));
        let who: Vec<Option<u32>> = std::iter::once(None).chain(each).collect();
        let one = |seed: Option<u32>| {
            let own = members.iter().filter(|m| seed.is_none_or(|seed| m.seed == seed));
            decide(&course, &*self.policy(&own.copied().collect::<Vec<_>>(), true, Vec::new())?)
        };
        let mut decided = self.on_threads(&who, one)?.into_iter();
        let Some(together) = decided.next() else { return Ok(None) };
        Ok(Some(Decided { together, seeds: decided.collect() }))
    }

    /// Walks through portfolios, which do not depend on each other, on all threads; results in their order. A search is
    /// on all threads by itself, and its trees take memory: searchers walk one after the other.
    fn on_threads<A: Copy + Sync, B: Send>(&self, all: &[A], one: impl Fn(A) -> Result<B> + Sync) -> Result<Vec<B>> {
        let threads = if self.searching.is_some() { 1 } else { self.experiment.settings.threads() };
        let threads = threads.clamp(1, all.len().max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(of) = all.get(at) else { break done };
                done.push((at, one(*of)));
            }
        };
        let mut done: Vec<(usize, Result<B>)> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|why| resume_unwind(why)));
            others.flatten().chain(own).collect()
        });
        done.sort_unstable_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, done)| done).collect()
    }
}

impl Evaluation for Tested<'_> {
    fn test_figures(&self, member: usize) -> Result<Vec<Option<f64>>> {
        Ok(vec![self.figures[member]])
    }

    fn deployed(&self, member: usize) -> Option<&'static str> {
        let refit = self.experiment.settings.refit.is_some();
        (!refit).then(|| if is_above_flat(&self.members[member]) { "trades" } else { "flat" })
    }

    fn judge(&self, config_of: &dyn Fn(usize) -> usize) -> Result<Option<Judged>> {
        let own = self.members.iter().zip(&self.figures).filter(|(m, _)| m.config == config_of(m.fold));
        let grown: Vec<f64> = own.filter_map(|(_, growth)| *growth).collect();
        if grown.is_empty() {
            return Ok(None);
        }
        let mean = grown.iter().sum::<f64>() / grown.len() as f64;
        let record = json!({"members": grown.len(), "growth_bp": mean});
        let sentence =
            format!("growth of a member alone {mean:.3} bp a bar on its test block, net of costs, in the mean");
        Ok(Some(Judged::new(&record, vec![Some(mean)], METRICS, vec![sentence])))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn market_models(&self) -> Vec<MarketModelRow> {
        self.market_models.clone()
    }

    fn latency(&self) -> Option<Latency> {
        self.latency
    }

    fn trade(&mut self, selected: &[usize]) -> Result<Option<Backtest>> {
        if self.experiment.settings.refit.is_some() {
            return Ok(None);
        }
        let known = self.decided.take();
        let members = members_of(self.members, &|fold| selected[fold]);
        let Some(course) = self.test.whole() else { return Ok(None) };
        let settings = &self.experiment.settings;
        let known = known.map_or_else(|| self.decide(&members), |known| Ok(Some(known)))?;
        let Some(decided) = known else { return Ok(None) };
        let (mut backtest, walked) = self.test.backtest(&course, &decided.together)?;
        if self.searching.is_some() {
            backtest.lines = four_lines(&course, &self.nets_alone(&members)?, &walked)?;
            self.latency = self.time_decisions(&course, &members)?;
        }
        let note = search_note(&backtest.lines).into_iter().chain(self.latency.and_then(|own| own.note()));
        let note: Vec<String> = note.collect();
        let chance = match course.market {
            _ if walked.trades.is_empty() => Err("nothing was traded".to_string()),
            [_] => shift_positions(&course, &decided.together, 1, settings.general.seed, settings.threads()),
            _ => shift_portfolio(&course, &decided.together, settings.general.seed, settings.threads()),
        };
        let seeds = decided.seeds.iter().map(|own| self.test.sharpe(&course, own)).collect::<Result<_>>()?;
        let said = backtest.clone();
        self.notes.extend(note);
        self.traded = Some(Traded { backtest, walked, chance, seeds });
        Ok(Some(said))
    }

    fn keep_returns(&self) -> Result<Vec<Option<String>>> {
        keep_returns(self.experiment, self.traded.as_ref(), |config| {
            let Some(course) = self.test.whole() else { return Ok(None) };
            let decided = self.decide(&members_of(self.members, &|_| config))?;
            decided.map(|own| self.test.walk(&course, &own.together)).transpose()
        })
    }

    fn findings(&self, _: &Judged) -> Option<(Findings, Vec<f64>)> {
        let traded = self.traded.as_ref()?;
        let mut found = Findings::new(Some(&traded.backtest), None, 1);
        found.expect_days();
        Some(traded.findings(found, &self.experiment.settings))
    }

    fn seal(&self, selected: &[usize], trials: &[StartedTrial]) -> Result<Option<model::Sealed>> {
        let refit = self.experiment.settings.refit.as_ref();
        let flat = |fold: usize| {
            let own = self.members.iter().filter(|m| m.fold == fold && m.config == selected[fold] && m.best.is_some());
            // A refit has no validation of its own, and goes by that of the run that judged it.
            let is_flat = |m: &&Trained| refit.map_or(!is_above_flat(m), |refit| refit.flat.contains(&m.seed));
            own.filter(is_flat).map(|m| m.seed).collect()
        };
        let deployed = |fold: usize| {
            let flat: Vec<u32> = flat(fold);
            let trades = self
                .members
                .iter()
                .any(|m| m.fold == fold && m.config == selected[fold] && m.best.is_some() && !flat.contains(&m.seed));
            let searching = self.searching.as_ref().filter(|_| trades);
            let search = searching.map(|searching| searching.keep(fold, selected[fold])).transpose()?;
            let own = self.members.iter().filter(|m| m.fold == fold && m.config == selected[fold] && m.best.is_some());
            let net_flat = self.searching.as_ref().map(|_| match refit {
                Some(refit) => refit.net_flat.clone().unwrap_or_else(|| refit.flat.clone()),
                None => own.filter(|m| !is_net_above_flat(m)).map(|m| m.seed).collect(),
            });
            Ok(model::Deployed { trading: None, flat, net_flat, search })
        };
        let deployed = (0..selected.len()).map(deployed).collect::<Result<Vec<model::Deployed>>>()?;
        model::seal(self.experiment, self.members, selected, &deployed, trials).map(Some)
    }

    fn save(&self, selected: &[usize], folder: &Path, sealed: Option<&model::Sealed>) -> Result<()> {
        if let Some(traded) = &self.traded {
            traded.save(folder, self.test.market(), &self.experiment.settings)?;
        }
        sealed.map_or(Ok(()), |sealed| {
            model::write(&folder.join("model"), self.experiment, self.members, selected, sealed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::{Best, Metrics, Validation};

    /// A member whose best validation grew by `score`, with this standard error.
    fn member(score: f64, error: Option<f64>) -> Trained {
        let metrics = error.map_or_else(|| Metrics::new(&[]), |error| Metrics::new(&[("valid_error", error)]));
        let other = Metrics::new(&[("valid_error", 0.0)]);
        let validation = |unit, score, metrics| Validation { unit, step: unit, score: Some(score), metrics };
        Trained {
            id: 0,
            config: 0,
            fold: 0,
            seed: 0,
            history: vec![validation(1, score - 1.0, other), validation(2, score, metrics)],
            best: Some(Best { unit: 2, score, params: Vec::new() }),
            stopped: None,
            last: None,
        }
    }

    #[test]
    fn a_member_within_one_standard_error_of_flat_stays_flat() {
        assert!(is_above_flat(&member(1.01, Some(1.0))));
        for (score, error) in [(1.0, Some(1.0)), (0.5, Some(1.0)), (-0.5, Some(0.1)), (0.0, Some(0.0))] {
            assert!(!is_above_flat(&member(score, error)), "{score} with an error of {error:?}");
        }
        // An error that is not known, as of a single block of time, is no reason to trade.
        assert!(!is_above_flat(&member(1.0, None)) && !is_above_flat(&member(1.0, Some(f64::INFINITY))));
        assert!(!is_above_flat(&Trained { best: None, ..member(1.0, Some(0.1)) }));
    }

    #[test]
    fn notes_say_why_members_stay_flat() {
        let (above, near, below) = (member(1.01, Some(1.0)), member(0.5, Some(1.0)), member(-0.5, None));
        let notes = |members: &[&Trained]| {
            let members: Vec<Trained> = members.iter().map(|m| (*m).clone()).collect();
            flat_notes(&members).collect::<Vec<_>>()
        };
        assert!(notes(&[&above]).is_empty());
        let both = notes(&[&above, &near, &member(1.0, Some(f64::INFINITY)), &below]);
        let [few, unknown] = &both[..] else { panic!("{both:?}") };
        assert!(
            few.starts_with("2 of 4 members stay flat: what they earned") && few.ends_with("a standard error"),
            "{few}"
        );
        assert!(unknown.starts_with("1 of 4 members stays flat: its validation is a single block"), "{unknown}");
    }
}
