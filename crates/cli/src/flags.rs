//! Flags that are settings by another name. A verb says which keys it has flags for; name, help and default of each
//! come from the key's own declaration ([`jobs::Key`]).

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use jobs::{Key, Takes};
use std::fmt::Debug;
use std::marker::PhantomData;

/// The flags of some keys, to be flattened into a verb; nothing is in it, [`given`] finds what was typed.
#[derive(Debug)]
pub(crate) struct Flags<K>(PhantomData<K>);

/// Some keys, each with the default that the help shows instead of the setting's own.
pub(crate) trait Keys: Debug {
    const KEYS: &'static [(&'static str, Option<&'static str>)];
}

/// `Name: "key", "key" = "what the help shows as default";`
macro_rules! keys {
    ($($(#[$about:meta])* $name:ident: $($key:literal $(= $default:literal)?),+;)+) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub(crate) struct $name;

        impl Keys for $name {
            const KEYS: &'static [(&'static str, Option<&'static str>)] =
                &[$(($key, keys!(@default $($default)?))),+];
        }
    )+};
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
}

keys! {
    /// Of every verb that works for a while.
    Pace: "threads", "memory";
    /// Of every verb that draws random numbers.
    Seed: "seed";
    /// How bars are read.
    Read: "universe.membership", "universe.factors", "bars.timezone", "bars.label";
    /// What is learned from what: of `train` and `tune`.
    Learn: "train.learner", "train.net", "features.set" = "the learner's", "label.rule", "train.label_horizon",
        "train.seeds", "split.folds";
    /// How it is learned.
    Train: "train.batch", "train.epochs", "train.patience", "train.precision", "train.try", "train.tuned";
    /// What a tuning leaves open.
    Tune: "train.precision";
    /// What is computed.
    Table: "features.set" = "full", "label.rule";
    /// What the self-test trains.
    Tested: "features.set" = "the learner's", "label.rule", "train.learner";
    /// The market that is made.
    Market: "synth.count", "synth.bars", "synth.years", "synth.timeframe", "synth.kind", "synth.plant",
        "synth.accuracy", "synth.stay", "synth.cost_bp";
}

impl<K: Keys> Args for Flags<K> {
    fn augment_args(command: Command) -> Command {
        K::KEYS.iter().fold(command, |command, (name, default)| match Key::find(name) {
            Some(key) => command.args(arg(key, *default)),
            None => command,
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::<K>::augment_args(command)
    }
}

impl<K> FromArgMatches for Flags<K> {
    fn from_arg_matches(_: &ArgMatches) -> Result<Flags<K>, clap::Error> {
        Ok(Flags(PhantomData))
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

/// The flag of a key as clap has it; its id is the key's name.
fn arg(key: &'static Key, default: Option<&str>) -> Option<Arg> {
    let flag = key.flag?;
    let arg = Arg::new(key.name).long(flag.name).help(key.flag_help(default));
    let arg = match flag.takes {
        Takes::Value(value) => arg.value_name(value).action(ArgAction::Set),
        Takes::Values(value) => arg.value_name(value).action(ArgAction::Append),
        Takes::Nothing(..) => arg.action(ArgAction::SetTrue),
    };
    Some(match key.name {
        "threads" => arg.alias("workers"),
        // An offset may be west of Greenwich: -05:00.
        "bars.timezone" => arg.allow_hyphen_values(true),
        _ => arg,
    })
}

/// The keys whose flags were typed, with their values.
pub(crate) fn given(matches: &ArgMatches) -> Vec<(&'static Key, Vec<&str>)> {
    let mut verb = matches;
    while let Some((_, inner)) = verb.subcommand() {
        verb = inner;
    }
    let typed = |key: &'static Key| match key.flag?.takes {
        Takes::Nothing(value, _) => match verb.try_get_one::<bool>(key.name) {
            Ok(Some(true)) => Some((key, vec![value])),
            _ => None,
        },
        Takes::Value(_) | Takes::Values(_) => {
            let values = verb.try_get_many::<String>(key.name).ok()??;
            Some((key, values.map(String::as_str).collect()))
        }
    };
    Key::all().iter().filter_map(typed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Every key that has a flag, and every key that a verb has a flag for.
    #[test]
    fn every_flag_is_a_keys_and_every_keys_flag_is_on_a_verb() {
        fn ids(command: &Command, into: &mut Vec<(String, Option<String>)>) {
            into.extend(command.get_arguments().map(|a| (a.get_id().to_string(), a.get_long().map(str::to_string))));
            command.get_subcommands().for_each(|inner| ids(inner, into));
        }
        let mut typed = Vec::new();
        ids(&crate::args::Cli::command(), &mut typed);
        for key in Key::all() {
            let flag = key.flag.map(|flag| flag.name.to_string());
            let on_verbs = typed.iter().filter(|(id, _)| id == key.name).collect::<Vec<_>>();
            assert_eq!(on_verbs.is_empty(), flag.is_none(), "{}", key.name);
            assert!(on_verbs.iter().all(|(_, long)| *long == flag), "{}", key.name);
        }
        let all = [Pace::KEYS, Seed::KEYS, Read::KEYS, Learn::KEYS, Train::KEYS, Tune::KEYS, Table::KEYS];
        for (name, _) in all.into_iter().chain([Tested::KEYS, Market::KEYS]).flatten() {
            assert!(Key::find(name).is_some_and(|key| key.flag.is_some()), "{name}");
        }
    }
}
