//! Flags that are settings by another name. A verb says which keys it has flags for; name, help and default of each
//! come from the key's own declaration ([`jobs::Key`]).

use crate::args::Cli;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches};
use jobs::{Flag, Key, Takes};
use std::ffi::OsString;
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
    Read: "universe.membership", "universe.factors", "bars.timezone", "bars.stamp";
    /// What is learned from what: of `train` and `tune`.
    Learn: "train.learner", "train.net", "features.set" = "the learner's", "label.rule", "train.label_horizon",
        "train.seeds", "split.folds", "split.kind", "split.test_days";
    /// How it is learned.
    Train: "train.batch", "train.epochs", "train.patience", "train.precision", "train.try", "train.tuned";
    /// How policies learn by trying.
    Try: "ppo.timesteps", "ppo.n_envs", "ppo.n_steps", "ppo.entropy", "ppo.reward", "ppo.actions", "evolve.algorithm",
        "evolve.population", "evolve.sigma", "evolve.rank", "search.roots", "search.simulations", "search.scenarios",
        "search.horizon", "search.invert_trend", "search.baseline";
    /// What a tuning leaves open.
    Tune: "train.precision", "ppo.timesteps", "ppo.actions", "evolve.algorithm", "evolve.sigma", "evolve.rank",
        "search.scenarios", "search.horizon";
    /// What is computed.
    Table: "features.set" = "full", "label.rule";
    /// What the self-test trains.
    Tested: "features.set" = "the learner's", "label.rule", "train.learner";
    /// The account that trades.
    Account: "account.capital", "account.sizing", "account.leverage", "account.flat_before_close", "account.funding";
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
        "threads" => arg.alias("workers").allow_negative_numbers(true),
        "search.roots" => arg.visible_alias("mcts-batch-size").allow_negative_numbers(true),
        // An offset may be west of Greenwich: -05:00.
        "bars.timezone" => arg.allow_hyphen_values(true),
        // A band in nats may begin below 0: -1.5..1.5.
        "ppo.entropy" => arg.allow_hyphen_values(true),
        // A number below 0 is refused by its setting, which says what is legal.
        _ if matches!(flag.takes, Takes::Value(_)) => arg.allow_negative_numbers(true),
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

/// A remedy or note with the settings it names, `<key>` or `<key=value>`, as they are typed for the verb in these
/// words: by the verb's flag, else with --set. Other things in angle brackets stay.
pub(crate) fn typed(remedy: &str, words: &[OsString]) -> String {
    if !remedy.contains('<') {
        return remedy.to_string();
    }
    let mut verb = &Cli::command();
    for word in words.iter().skip(1) {
        verb = verb.find_subcommand(word).unwrap_or(verb);
    }
    let mut text = String::new();
    let mut rest = remedy;
    while let Some((before, behind)) = rest.split_once('<') {
        text += before;
        // A bracket of something else may stand before that of a setting: `p < 0.01; a longer <budget> allows more`.
        let setting = behind.split_once('>').and_then(|(inside, after)| {
            let (key, value) = inside.split_once('=').map_or((inside, None), |(key, value)| (key, Some(value)));
            Some((spelled(key, value, verb)?, after))
        });
        let (shown, after) = setting.unwrap_or_else(|| ("<".into(), behind));
        text += &shown;
        rest = after;
    }
    text + rest
}

/// A setting or an option as it is typed on a verb.
fn spelled(key: &str, value: Option<&str>, verb: &Command) -> Option<String> {
    let on_verb = |name: &str| verb.get_arguments().any(|arg| arg.get_long() == Some(name));
    let Some(key) = Key::find(key) else {
        return option(key).map(|name| value.map_or(format!("--{name}"), |value| format!("--{name} {value}")));
    };
    Some(match (key.flag.filter(|flag| on_verb(flag.name)), value) {
        (Some(Flag { name, takes: Takes::Value(_) | Takes::Values(_) }), Some(value)) => format!("--{name} {value}"),
        (Some(Flag { name, .. }), _) => format!("--{name}"),
        (None, Some(value)) => format!("--set {}={value}", key.name),
        (None, None) => format!("{} (with --set)", key.name),
    })
}

/// An option of some verb that is no setting: `out`, `device`.
fn option(name: &str) -> Option<String> {
    fn has(command: &Command, name: &str) -> bool {
        command.get_arguments().any(|arg| arg.get_long() == Some(name))
            || command.get_subcommands().any(|inner| has(inner, name))
    }
    has(&Cli::command(), name).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn shown(remedy: &str, words: &str) -> String {
        typed(remedy, &words.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn remedies_name_flags_of_the_running_verb() {
        for (words, remedy, expected) in [
            ("fullbore train x.csv", "raise <memory>", "raise --memory"),
            ("fullbore train x.csv", "a <budget=10m> shortens it", "a --budget 10m shortens it"),
            ("fullbore train x.csv", "or use <device=cpu>", "or use --device cpu"),
            ("fullbore train x.csv", "<split.folds=4> or <train.decay=0.1>", "--folds 4 or --set train.decay=0.1"),
            ("fullbore train x.csv", "<train.tuned=false>", "--no-tuned"),
            ("fullbore train x.csv", "fewer <synth.count>", "fewer synth.count (with --set)"),
            ("fullbore data synth", "fewer <synth.count>, <synth.plant>", "fewer --count, --plant"),
            ("fullbore check selftest", "fewer <split.folds>", "fewer split.folds (with --set)"),
            ("fullbore probe", "<features.set=\"rsi(14)\">", "--set features.set=\"rsi(14)\""),
            ("fullbore runs resume r", "another <out>", "another --out"),
            ("fullbore train x.csv", "a Vec<f32> < 3 <b>, <unknown=1>", "a Vec<f32> < 3 <b>, <unknown=1>"),
            ("fullbore train x.csv", "p < 0.01, or a longer <budget>", "p < 0.01, or a longer --budget"),
        ] {
            assert_eq!(shown(remedy, words), expected, "{words}");
        }
    }

    /// The text between quotes of a source file, without comments; what begins its unit tests ends it.
    fn literals(text: &str) -> Vec<(usize, String)> {
        let mut all = Vec::new();
        let (mut inside, mut line, mut escaped) = (None::<String>, 1, false);
        let mut rest = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("").chars().peekable();
        while let Some(c) = rest.next() {
            line += usize::from(c == '\n');
            match (&mut inside, c) {
                (Some(literal), c) if escaped || (c != '"' && c != '\\') => {
                    literal.push(c);
                    escaped = false;
                }
                (Some(_), '\\') => escaped = true,
                (Some(_), _) => all.extend(inside.take().map(|literal| (line, literal))),
                (None, '/') if rest.peek() == Some(&'/') => {
                    rest.by_ref().find(|c| *c == '\n');
                    line += 1;
                }
                (None, '\'') if rest.peek() == Some(&'"') => {
                    rest.next();
                }
                (None, '"') => inside = Some(String::new()),
                (None, _) => {}
            }
        }
        all
    }

    fn sources(folder: &Path, each: &mut dyn FnMut(&Path, &str)) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                sources(&path, each);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                each(&path, &std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    /// Rooms below this one name settings and never a flag (but for `--set`, the name of a place to set them), and what
    /// they name exists.
    #[test]
    fn other_rooms_name_keys_that_exist_and_no_flag() {
        let (mut seen, mut wrong) = (0, Vec::new());
        for room in
            ["files", "bars", "features", "compute", "machine", "account", "market", "learn", "judge", "report", "jobs"]
        {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(room).join("src");
            sources(&folder, &mut |path, text| {
                for (line, literal) in literals(text) {
                    let place = format!("{}:{line}: {literal}", path.display());
                    let word = |text: &str| {
                        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or("").to_string()
                    };
                    // Settings are where flags are declared.
                    if !path.parent().is_some_and(|of| of.ends_with("settings"))
                        && literal
                            .split("--")
                            .skip(1)
                            .any(|after| word(after) != "set" && option(&word(after)).is_some())
                    {
                        wrong.push(format!("names a flag: {place}"));
                    }
                    // HTML is full of brackets.
                    for inside in literal.split('<').skip(1).filter_map(|t| t.split_once('>')).map(|t| t.0) {
                        let key = inside.split('=').next().unwrap_or("");
                        let like_a_key =
                            key.contains('.') || inside.contains('=') && !inside.contains(['\'', '"', ' ']);
                        let known = Key::find(key).is_some() || option(key).is_some();
                        seen += usize::from(known);
                        if room != "report" && like_a_key && !known {
                            wrong.push(format!("names no setting: {place}"));
                        }
                    }
                }
            });
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(seen > 20, "only {seen} settings are named");
    }

    /// Every key that has a flag, and every key that a verb has a flag for.
    #[test]
    fn flags_and_setting_keys_match() {
        fn ids(command: &Command, into: &mut Vec<(String, Option<String>)>) {
            into.extend(command.get_arguments().map(|a| (a.get_id().to_string(), a.get_long().map(str::to_string))));
            command.get_subcommands().for_each(|inner| ids(inner, into));
        }
        let mut typed = Vec::new();
        ids(&Cli::command(), &mut typed);
        for key in Key::all() {
            let flag = key.flag.map(|flag| flag.name.to_string());
            let on_verbs = typed.iter().filter(|(id, _)| id == key.name).collect::<Vec<_>>();
            assert_eq!(on_verbs.is_empty(), flag.is_none(), "{}", key.name);
            assert!(on_verbs.iter().all(|(_, long)| *long == flag), "{}", key.name);
        }
        let all = [Pace::KEYS, Seed::KEYS, Read::KEYS, Learn::KEYS, Train::KEYS, Tune::KEYS, Table::KEYS];
        for (name, _) in all.into_iter().chain([Tested::KEYS, Account::KEYS, Market::KEYS]).flatten() {
            assert!(Key::find(name).is_some_and(|key| key.flag.is_some()), "{name}");
        }
    }
}
