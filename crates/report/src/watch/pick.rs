//! What the viewer has picked of a run, and what there is to pick from.

use super::Watch;

/// Whose curves are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Pick {
    /// The mean over all members.
    #[default]
    All,
    /// The mean over a group.
    Group(String),
    /// One member, by its id.
    Member(u64),
}

/// How the viewer looks at a run.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Whose curves.
    pub pick: Pick,
    /// The first chart, counted from the best one on.
    pub chart: usize,
    /// Nothing new is shown.
    pub paused: bool,
    /// What the keys do is shown.
    pub help: bool,
    /// Whether colours are seen; without them, lines differ by their dots.
    pub color: bool,
    /// Whether more than ASCII is seen.
    pub unicode: bool,
}

impl View {
    /// Steps to the next chart, or with `-1` back.
    pub fn turn(&mut self, step: isize, watch: &Watch) {
        let n = watch.charts().len().max(1) as isize;
        self.chart = (self.chart as isize + step).rem_euclid(n) as usize;
    }

    /// Steps to the next member or group, or with `-1` back.
    pub fn walk(&mut self, step: isize, watch: &Watch) {
        let all = watch.picks();
        let at = all.iter().position(|p| *p == self.pick).unwrap_or(0) as isize;
        self.pick = all[(at + step).rem_euclid(all.len() as isize) as usize].clone();
    }
}

/// Metrics that are drawn into one chart: those that only differ by `train_`, `valid_` or `test_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chart {
    pub(super) name: String,
    pub(super) metrics: Vec<usize>,
}

impl Watch {
    /// All there is to pick: all members, then each group and its members. A group of one is no group.
    pub(super) fn picks(&self) -> Vec<Pick> {
        let mut picks = vec![Pick::All];
        let mut groups: Vec<&(String, Vec<u64>)> = self.groups().iter().collect();
        groups.sort_by_key(|g| g.1.iter().min());
        let mut grouped = std::collections::BTreeSet::new();
        for (name, ids) in groups {
            if ids.len() > 1 && self.groups().len() > 1 {
                picks.push(Pick::Group(name.clone()));
            }
            let mut ids = ids.clone();
            ids.sort_unstable();
            grouped.extend(ids.iter().copied());
            picks.extend(ids.into_iter().map(Pick::Member));
        }
        let rest = self.members().keys().filter(|id| !grouped.contains(id));
        picks.extend(rest.map(|id| Pick::Member(*id)).collect::<Vec<_>>());
        picks
    }

    /// The members that were picked.
    pub(super) fn ids(&self, pick: &Pick) -> Vec<u64> {
        match pick {
            Pick::All => self.members().keys().copied().collect(),
            Pick::Group(name) => self.groups().iter().find(|g| g.0 == *name).map_or_else(Vec::new, |g| g.1.clone()),
            Pick::Member(id) => vec![*id],
        }
    }

    /// `all 8 members`, `fold 2`, `fold 2 seed 1`
    pub(super) fn called(&self, pick: &Pick) -> String {
        match pick {
            Pick::All => match self.members().len() {
                0 => "no member yet".into(),
                1 => "the member".into(),
                n => format!("all {n} members"),
            },
            Pick::Group(name) => name.clone(),
            Pick::Member(id) => self.members().get(id).map_or_else(String::new, |m| m.name.clone()),
        }
    }

    /// The charts there are: what the best is chosen by first, then losses, at last rates.
    pub(super) fn charts(&self) -> Vec<Chart> {
        let mut charts: Vec<Chart> = Vec::new();
        for (i, metric) in self.metrics().iter().enumerate() {
            let name = stem(&metric.name);
            match charts.iter_mut().find(|c| c.name == name) {
                Some(chart) => chart.metrics.push(i),
                None => charts.push(Chart { name: name.to_string(), metrics: vec![i] }),
            }
        }
        let worth = self.worth().map(stem);
        charts.sort_by_key(|c| match &*c.name {
            name if Some(name) == worth => 0,
            name if name.contains("loss") => 1,
            name if name.ends_with("_per_s") => 3,
            _ => 2,
        });
        charts
    }
}

/// The name without the part of the data it was measured on.
pub(super) fn stem(name: &str) -> &str {
    ["train_", "valid_", "test_"].iter().find_map(|part| name.strip_prefix(part)).unwrap_or(name)
}
