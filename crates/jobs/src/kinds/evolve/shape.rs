//! How many individuals, accounts and steps a generation has: as set or tuned, or by a fixed rule of timesteps and
//! data.
//!
//! They are recipe: other numbers give other bits. So the rule looks at no clock and at no free memory, and what it
//! gave is written into the settings of the run. Where the population was left open it leaves [`GENERATIONS`]
//! generations in the timesteps: there are fewer individuals, and where the fewest are too many, fewer accounts and
//! then shorter spans, as far as those were left open too. No span is longer than the longest stretch of neighbouring
//! bars that is trained on: longer ones would be cut to it, and steps would be counted that nobody takes.

use super::timesteps;
use crate::Settings;
use files::{format_count, format_plural};

/// Accounts of an individual, and steps of each.
pub(crate) const ACCOUNTS: usize = 8;
pub(crate) const STEPS: usize = 256;
/// Individuals at most, and generations at least, where nothing was set.
const POPULATION: usize = 128;
pub(crate) const GENERATIONS: usize = 50;
/// Individuals at least, and steps of a span.
const LEAST: usize = 4;
const STEPS_LEAST: usize = 16;
/// Steps of a span that can be set at least.
const SPAN_LEAST: usize = 2;

/// What a generation is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GenerationShape {
    pub(super) population: usize,
    pub(super) n_envs: usize,
    pub(super) n_steps: usize,
}

/// Which of accounts and steps were left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) n_envs: bool,
    pub(super) n_steps: bool,
}

impl GenerationShape {
    /// Of settings; their longest span is known once the data were split.
    pub(super) fn of(settings: &Settings) -> GenerationShape {
        let (shared, own) = (&settings.ppo, &settings.evolve);
        let wanted = GenerationShape::wanted(settings);
        let cut = GenerationShape { n_steps: wanted.n_steps.min(longest_span(settings)), ..wanted };
        let open = Open { n_envs: shared.n_envs.is_none(), n_steps: shared.n_steps.is_none() };
        if own.population.is_some() { cut } else { cut.fit(timesteps(settings), open) }
    }

    /// As set, or as usual.
    fn wanted(settings: &Settings) -> GenerationShape {
        let (shared, own) = (&settings.ppo, &settings.evolve);
        GenerationShape {
            population: own.population.unwrap_or(POPULATION),
            n_envs: shared.n_envs.unwrap_or(ACCOUNTS),
            n_steps: shared.n_steps.unwrap_or(STEPS),
        }
    }

    /// The same with at most as many individuals as leave enough generations in so many timesteps.
    pub(super) fn fit(mut self, timesteps: usize, open: Open) -> GenerationShape {
        let room = timesteps / GENERATIONS;
        let is_large = |shape: GenerationShape| LEAST * shape.n_envs * shape.n_steps > room;
        while open.n_envs && is_large(self) && self.n_envs > 1 {
            self.n_envs /= 2;
        }
        while open.n_steps && is_large(self) && self.n_steps / 2 >= STEPS_LEAST {
            self.n_steps /= 2;
        }
        let most = room / (self.n_envs * self.n_steps);
        // An even number: individuals are mirrored.
        self.population = most.min(self.population).max(LEAST) / 2 * 2;
        self
    }

    /// Takes it down into settings.
    pub(super) fn write(self, settings: &mut Settings) {
        let GenerationShape { population, n_envs, n_steps } = self;
        settings.evolve.population = Some(population);
        (settings.ppo.n_envs, settings.ppo.n_steps) = (Some(n_envs), Some(n_steps));
    }

    /// Steps that all accounts of all individuals take; once the data were split, in the mean over where spans begin
    /// and over folds, since stretches cut some of them.
    pub(super) fn steps(self, settings: &Settings) -> u64 {
        let span = match &settings.stretches {
            Some(stretches) => stretches.mean_span(self.n_steps as u32),
            None => self.n_steps as f64,
        };
        (self.population as f64 * self.n_envs as f64 * span).round() as u64
    }

    /// Generations in all timesteps.
    fn generations(self, settings: &Settings) -> u64 {
        (timesteps(settings) as u64).div_ceil(self.steps(settings).max(1))
    }

    /// What differs between settings and what is used, in sentences.
    pub(super) fn notes(settings: &Settings) -> Vec<String> {
        let (wanted, used) = (GenerationShape::wanted(settings), GenerationShape::of(settings));
        let longest = longest_span(settings);
        let mut notes = Vec::new();
        if wanted.n_steps > longest {
            let [longest, steps] = [longest, wanted.n_steps].map(|n| format_count(n as u64));
            notes.push(format!(
                "accounts take at most {longest} steps, not {steps}: no stretch of neighbouring bars that is trained \
                 on has more"
            ));
        }
        if settings.evolve.population.is_none() {
            let cut = GenerationShape { n_steps: wanted.n_steps.min(longest), ..wanted };
            notes.extend(used.fewer(cut, settings));
            notes.extend(used.few(settings));
        }
        notes
    }

    /// That a generation is smaller than `usual`, and why.
    pub(super) fn fewer(self, usual: GenerationShape, settings: &Settings) -> Option<String> {
        (self != usual).then(|| {
            format!(
                "{}, instead of {}, so that {} timesteps have {}",
                self.describe(),
                usual.describe(),
                format_count(timesteps(settings) as u64),
                format_plural(self.generations(settings), "generation"),
            )
        })
    }

    /// That there are fewer generations than a search should have.
    fn few(self, settings: &Settings) -> Option<String> {
        let generations = self.generations(settings);
        (generations < GENERATIONS as u64).then(|| {
            format!(
                "{} in {} timesteps, fewer than {GENERATIONS}: give more <ppo.timesteps>, or smaller <ppo.n_envs> or \
                 <ppo.n_steps>",
                format_plural(generations, "generation"),
                format_count(timesteps(settings) as u64),
            )
        })
    }

    fn describe(self) -> String {
        format!(
            "a population of {} with {} of {}",
            format_count(self.population as u64),
            format_plural(self.n_envs as u64, "account"),
            format_plural(self.n_steps as u64, "step"),
        )
    }
}

/// Fits a generation that was left open to so many generations of it, which a budget leaves: where they are fewer than
/// [`GENERATIONS`], there are more of smaller ones with as many steps in all, and where they stay fewer, a note says
/// so.
pub(super) fn fit_units(settings: &mut Settings, units: usize) -> (usize, Option<String>) {
    let (open, was) = (settings.left_open, GenerationShape::of(settings));
    if units >= GENERATIONS {
        return (units, None);
    }
    let steps = was.steps(settings) * units as u64;
    let fitted = match open.population {
        true => was.fit(steps as usize, Open { n_envs: open.n_envs, n_steps: open.n_steps }),
        false => was,
    };
    if fitted == was {
        let note = format!(
            "the budget leaves {}, fewer than {GENERATIONS}: give more <budget>, or a smaller <evolve.population>, \
             <ppo.n_envs> or <ppo.n_steps>",
            format_plural(units as u64, "generation")
        );
        return (units, Some(note));
    }
    fitted.write(settings);
    let units = (steps / fitted.steps(settings).max(1)).max(1) as usize;
    let of = if units < GENERATIONS { "as many generations as can be" } else { "at least 50 generations" };
    (units, Some(format!("{}, instead of {}, so that the budget leaves {of}", fitted.describe(), was.describe())))
}

/// Steps of a span at most.
fn longest_span(settings: &Settings) -> usize {
    let longest = settings.stretches.as_ref().map_or(usize::MAX, |own| own.longest_span() as usize);
    longest.max(SPAN_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LeftOpen;
    use learn::evolve::TrainStretches;

    /// Settings of `evolve` with these, on data of that longest span.
    fn settings(set: &[&str], longest: Option<u32>) -> Settings {
        let mut settings = Settings::default();
        settings.stretches = longest.map(|span: u32| TrainStretches::from_ranges(vec![vec![0..span + 1]]));
        set.iter().for_each(|set| settings.set(set).unwrap());
        settings
    }

    #[test]
    fn a_population_that_was_left_open_leaves_generations_enough() {
        for (set, longest, expected) in [
            (&[][..], None, (128, 8, 256)),
            (&["ppo.timesteps=1000000"], None, (8, 8, 256)),
            // The fewest individuals are too many, so accounts are fewer, and then spans shorter.
            (&["ppo.timesteps=100000"], None, (6, 1, 256)),
            (&["ppo.timesteps=20000"], None, (6, 1, 64)),
            (&["ppo.n_steps=100000"], None, (4, 2, 100_000)),
            // Spans are those that there are.
            (&["ppo.n_steps=100000"], Some(859), (128, 8, 859)),
            (&["ppo.n_steps=100000", "ppo.timesteps=1000000"], Some(859), (4, 4, 859)),
            (&["ppo.timesteps=1000000"], Some(100), (24, 8, 100)),
            // What was set stays.
            (&["ppo.timesteps=1000000", "evolve.population=64"], None, (64, 8, 256)),
            (&["ppo.timesteps=100000", "ppo.n_envs=4"], None, (6, 4, 64)),
            (&["ppo.timesteps=100000", "ppo.n_envs=4", "ppo.n_steps=256"], None, (4, 4, 256)),
        ] {
            let settings = settings(set, longest);
            let shape = GenerationShape::of(&settings);
            let GenerationShape { population, n_envs, n_steps } = shape;
            assert_eq!((population, n_envs, n_steps), expected, "{set:?}");
            let (generations, notes) = (shape.generations(&settings), GenerationShape::notes(&settings));
            let is_said = notes.iter().any(|note| note.contains("fewer than 50"));
            let is_open = settings.evolve.population.is_none();
            assert_eq!(is_said, is_open && generations < 50, "{set:?}: {generations} generations, {notes:?}");
            assert!(!is_open || is_said || generations >= 50, "{set:?}: {generations} generations");
            let cut = notes.iter().any(|note| note.contains("accounts take at most"));
            assert_eq!(
                cut,
                longest.is_some_and(|n| (n as usize) < settings.ppo.n_steps.unwrap_or(STEPS)),
                "{set:?}: {notes:?}"
            );
        }
    }

    #[test]
    fn a_budget_leaves_generations_enough_where_the_population_is_open() {
        for (set, units, expected, left, part) in [
            // Enough of them, and a shape that was set.
            (&[][..], 60, (128, 8, 256), 60, ""),
            (&["evolve.population=128"], 20, (128, 8, 256), 20, "the budget leaves 20 generations, fewer than 50"),
            // A fifth of the generations, so a fifth of the individuals.
            (
                &[],
                10,
                (24, 8, 256),
                53,
                "a population of 24 with 8 accounts of 256 steps, instead of a population of 128",
            ),
            (&[], 1, (4, 4, 256), 64, "at least 50 generations"),
            (&["ppo.n_envs=64", "ppo.n_steps=256"], 1, (4, 64, 256), 15, "as many generations as can be"),
        ] {
            let mut settings = settings(set, None);
            settings.left_open = LeftOpen::of(&settings);
            GenerationShape::of(&settings).write(&mut settings);
            let (units, note) = fit_units(&mut settings, units);
            let GenerationShape { population, n_envs, n_steps } = GenerationShape::of(&settings);
            assert_eq!(((population, n_envs, n_steps), units), (expected, left), "{set:?}: {note:?}");
            assert!(note.as_ref().map_or(part.is_empty(), |note| note.contains(part)), "{set:?}: {note:?}");
        }
    }

    #[test]
    fn what_was_tuned_for_more_timesteps_gets_fewer_individuals() {
        let tuned = GenerationShape { population: 64, n_envs: 4, n_steps: 256 };
        let open = Open { n_envs: true, n_steps: true };
        assert_eq!(tuned.fit(50_000_000, open), tuned);
        let fitted = tuned.fit(1_000_000, open);
        assert_eq!(fitted, GenerationShape { population: 18, ..tuned });
        let settings = settings(&["ppo.timesteps=1000000"], None);
        assert_eq!(fitted.generations(&settings), 55);
        let note = fitted.fewer(tuned, &settings).unwrap();
        assert!(note.contains("a population of 18") && note.contains("55 generations"), "{note}");
        assert_eq!(tuned.fit(100_000, open), GenerationShape { population: 6, n_envs: 1, n_steps: 256 });
    }
}
