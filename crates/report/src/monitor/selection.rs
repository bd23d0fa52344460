//! What the viewer has picked of a run, and what there is to selection from.

use super::MonitorState;

/// Whose curves are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Selection {
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
    pub selection: Selection,
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
    pub fn next_chart(&mut self, step: isize, monitor: &MonitorState) {
        let n = monitor.charts().len().max(1) as isize;
        self.chart = (self.chart as isize + step).rem_euclid(n) as usize;
    }

    /// Steps to the next member or group, or with `-1` back.
    pub fn move_selection(&mut self, step: isize, monitor: &MonitorState) {
        let all = monitor.selections();
        let at = all.iter().position(|p| *p == self.selection).unwrap_or(0) as isize;
        self.selection = all[(at + step).rem_euclid(all.len() as isize) as usize].clone();
    }
}

/// Metrics that are drawn into one chart: those that only differ by `train_`, `valid_` or `test_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chart {
    pub(super) name: String,
    pub(super) metrics: Vec<usize>,
}

impl MonitorState {
    /// All there is to pick: all members, then each group and its members. A group of one is no group.
    pub(super) fn selections(&self) -> Vec<Selection> {
        let mut selections = vec![Selection::All];
        let mut groups: Vec<&(String, Vec<u64>)> = self.groups().iter().collect();
        groups.sort_by_key(|g| g.1.iter().min());
        let mut grouped = std::collections::BTreeSet::new();
        for (name, ids) in groups {
            if ids.len() > 1 && self.groups().len() > 1 {
                selections.push(Selection::Group(name.clone()));
            }
            let mut ids = ids.clone();
            ids.sort_unstable();
            grouped.extend(ids.iter().copied());
            selections.extend(ids.into_iter().map(Selection::Member));
        }
        let rest = self.members().keys().filter(|id| !grouped.contains(id));
        selections.extend(rest.map(|id| Selection::Member(*id)).collect::<Vec<_>>());
        selections
    }

    /// The members that were picked.
    pub(super) fn member_ids(&self, selection: &Selection) -> Vec<u64> {
        match selection {
            Selection::All => self.members().keys().copied().collect(),
            Selection::Group(name) => {
                self.groups().iter().find(|g| g.0 == *name).map_or_else(Vec::new, |g| g.1.clone())
            }
            Selection::Member(id) => vec![*id],
        }
    }

    /// `all 8 members`, `fold 2`, `fold 2 seed 1`
    pub(super) fn selection_name(&self, selection: &Selection) -> String {
        match selection {
            Selection::All => match self.members().len() {
                0 => "no member yet".into(),
                1 => "the member".into(),
                n => format!("all {n} members"),
            },
            Selection::Group(name) => name.clone(),
            Selection::Member(id) => self.members().get(id).map_or_else(String::new, |m| m.name.clone()),
        }
    }

    /// The charts there are: what the best is chosen by first, then entropy and losses, at last rates. What has a band
    /// comes behind the ends of it.
    pub(super) fn charts(&self) -> Vec<Chart> {
        let mut charts: Vec<Chart> = Vec::new();
        for (i, metric) in self.metrics().iter().enumerate() {
            let name = stem(&metric.name);
            match charts.iter_mut().find(|c| c.name == name) {
                Some(chart) => chart.metrics.push(i),
                None => charts.push(Chart { name: name.to_string(), metrics: vec![i] }),
            }
        }
        for chart in &mut charts {
            chart.metrics.sort_by_key(|i| self.metrics()[*i].name == chart.name);
        }
        let score = self.score_metric().map(stem);
        charts.sort_by_key(|c| match &*c.name {
            name if Some(name) == score => 0,
            name if name.contains("loss") || name == "entropy" => 1,
            name if name.ends_with("_per_s") => 3,
            _ => 2,
        });
        charts
    }
}

/// The name without the part of the data it was measured on, or the end of a band.
pub(super) fn stem(name: &str) -> &str {
    ["train_", "valid_", "test_", "least_", "most_"].iter().find_map(|part| name.strip_prefix(part)).unwrap_or(name)
}
