//! Members of a population as the judge sees them: which config and fold, what validation said, what was predicted.
//! What validation measures is the learner's.
//!
//! [`select_configs`] chooses a config for each fold by validation, [`ensemble`] averages the members of a fold.

/// One trained member.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member<'a> {
    /// Its set of hyper-parameters, from 0.
    pub config: usize,
    /// Its fold, from 0.
    pub fold: usize,
    /// `[test, classes]` what it predicts for its fold's test samples; empty where it predicts nothing.
    pub probabilities: &'a [f32],
}

/// What validation said of one trained member.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredMember {
    /// Its set of hyper-parameters, from 0.
    pub config: usize,
    /// Its fold, from 0.
    pub fold: usize,
    /// Its best score; larger is better.
    pub score: f64,
}

/// `[configs]` the mean validation score of a config's members in the folds for which `within` holds.
pub fn validation_scores(members: &[ScoredMember], configs: usize, within: impl Fn(usize) -> bool) -> Vec<f64> {
    let mean = |config: usize| {
        let mine = members.iter().filter(|m| m.config == config && within(m.fold));
        let (sum, count) = mine.fold((0.0, 0.0f64), |(sum, count), m| (sum + m.score, count + 1.0));
        sum / count.max(1.0)
    };
    (0..configs).map(mean).collect()
}

/// `[folds]` the config of each fold: the best by validation of this fold and those before it, so by nothing that a
/// later day knew. The first of equals.
pub fn select_configs(members: &[ScoredMember], configs: usize, folds: usize) -> Vec<usize> {
    let fold = |number: usize| {
        let scores = validation_scores(members, configs, |fold| fold <= number);
        (0..configs).fold(0, |best, config| if scores[config] > scores[best] { config } else { best })
    };
    (0..folds).map(fold).collect()
}

/// `[folds][test, classes]` mean probabilities over the members of a fold's config (`config_of`), in their order; empty
/// where no member has any.
pub fn ensemble(members: &[Member<'_>], folds: usize, config_of: impl Fn(usize) -> usize) -> Vec<Vec<f32>> {
    let fold = |number: usize| {
        let mine = members.iter().filter(|m| m.fold == number && m.config == config_of(number));
        mean_probabilities(&mine.map(|m| m.probabilities).filter(|p| !p.is_empty()).collect::<Vec<_>>())
    };
    (0..folds).map(fold).collect()
}

/// The mean of several members' probabilities, all `[n]`; empty of none.
///
/// # Panics
///
/// If one has fewer than the first.
pub fn mean_probabilities(members: &[&[f32]]) -> Vec<f32> {
    let n = members.first().map_or(0, |first| first.len());
    let mean = |at: usize| members.iter().map(|p| f64::from(p[at])).sum::<f64>() / members.len() as f64;
    (0..n).map(|at| mean(at) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(config: usize, fold: usize, score: f64) -> ScoredMember {
        ScoredMember { config, fold, score }
    }

    #[test]
    fn a_fold_selects_the_best_config_so_far() {
        // Config 1 is better in fold 0, config 0 in folds 1 and 2, and overall; fold 0 must not know that yet.
        let scores = [[0.1, 0.5, 0.4], [0.2, 0.3, 0.0]];
        let members: Vec<ScoredMember> =
            (0..2).flat_map(|config| (0..3).map(move |fold| member(config, fold, scores[config][fold]))).collect();
        assert_eq!(select_configs(&members, 2, 3), [1, 0, 0]);
        let mean = validation_scores(&members, 2, |_| true);
        assert!((mean[0] - 1.0 / 3.0).abs() < 1e-12 && (mean[1] - 0.5 / 3.0).abs() < 1e-12);
        // Equal ones: the first. What is not finite comes last.
        assert_eq!(select_configs(&[member(0, 0, 0.1), member(1, 0, 0.1)], 2, 1), [0]);
        assert_eq!(select_configs(&[member(0, 0, f64::NEG_INFINITY), member(1, 0, -0.5)], 2, 1), [1]);
    }

    #[test]
    fn an_ensemble_is_the_mean_of_its_own_members() {
        let (a, b, c) = ([0.2, 0.8], [0.6, 0.4], [0.0, 1.0]);
        let with = |config, fold, probabilities| Member { config, fold, probabilities };
        let members = [with(0, 0, &a[..]), with(1, 0, &c), with(0, 0, &b), with(0, 0, &[]), with(1, 1, &c)];
        assert_eq!(ensemble(&members, 2, |_| 0), [vec![0.4, 0.6], Vec::new()], "no member of config 0 in fold 1");
        assert_eq!(ensemble(&members, 2, |_| 1), [c.to_vec(), c.to_vec()]);
        assert_eq!(ensemble(&members, 2, |fold| fold), [vec![0.4, 0.6], c.to_vec()]);
    }
}
