//! One verb, one file: parsing is done; run, then say.

mod add;
mod audit;
mod bench;
mod check;
mod demo;
mod features;
mod list;
mod monitor;
mod predict;
mod probe;
mod runs;
mod selftest;
mod synth;
mod train;
mod tune;

use crate::args::{Bench, Check, Cli, Data, Global, How, Runs, Source, Verb};
use crate::fail::Failure;
use crate::out::{self, Paint};
use crate::progress::Progress;
use clap::Parser;
use clap::error::ErrorKind;
use files::{Error, Kind};
use jobs::{Select, Settings};
use std::ffi::OsString;

/// What a verb gives: its exit code.
type Outcome = Result<u8, Failure>;

/// What every verb is handed besides its own flags.
struct Context {
    settings: Settings,
    json: bool,
    schema: &'static str,
    progress: Progress,
}

impl Context {
    /// Prints the result: one object, or the words.
    fn say(&self, result: &impl serde::Serialize, words: impl FnOnce(Paint) -> String) -> Result<(), Failure> {
        self.progress.clear();
        if self.json { out::object(self.schema, true, result) } else { out::say(&words(Paint::stdout())) }
    }
}

/// Parses the words and runs the verb.
pub(crate) fn run(typed: Vec<OsString>, json: bool, schema: &'static str) -> Outcome {
    let cli = match Cli::try_parse_from(typed) {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error, json, schema),
    };
    let settings = settings(&cli.global, &cli.verb)?;
    let mut context = Context { settings, json: cli.global.json, schema, progress: Progress::new(cli.global.quiet) };
    match cli.verb {
        Verb::Demo(args) => demo::run(args, &mut context),
        Verb::Probe(args) => probe::run(&args, &mut context),
        Verb::Bench(bench) => match *bench {
            Bench::Net(args) => bench::run(args, &mut context),
        },
        Verb::Features(args) => features::run(*args, &mut context),
        Verb::Train(args) => train::run(*args, &mut context),
        Verb::Tune(args) => tune::run(*args, &mut context),
        Verb::Predict(args) => predict::run(*args, &mut context),
        Verb::Runs(runs) => runs::run(*runs, &mut context),
        Verb::Monitor(args) => monitor::run(&args, &mut context),
        Verb::Check(check) => match *check {
            Check::Lookahead(args) => check::run(args, &mut context),
            Check::Selftest(args) => selftest::run(args, &mut context),
        },
        Verb::Data(data) => match *data {
            Data::Add(args) => add::run(args, &mut context),
            Data::Audit(args) => audit::run(args, &mut context),
            Data::Synth(args) => synth::run(args, &mut context),
            Data::List(args) => list::run(args, &mut context),
        },
    }
}

/// Help and version are answers; everything else is a usage error, in the parser's own words.
fn unparsed(error: &clap::Error, json: bool, schema: &'static str) -> Outcome {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion if json => {
            out::object("help/1", true, &serde_json::json!({ "text": text.to_string() })).map(|()| 0)
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            out::say(&if Paint::stdout().on() { text.ansi().to_string() } else { text.to_string() }).map(|()| 0)
        }
        _ if json => {
            let text = text.to_string();
            let mut lines = text.lines();
            let first = match error.kind() {
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a verb is missing",
                _ => lines.next().unwrap_or_default().trim_start_matches("error: "),
            };
            // The list of what is missing, and the parser's tip, belong to the message.
            let more: Vec<&str> =
                lines.take_while(|l| !l.starts_with("Usage:")).map(str::trim).filter(|l| !l.is_empty()).collect();
            let (tips, more): (Vec<&str>, Vec<&str>) = more.into_iter().partition(|l| l.starts_with("tip:"));
            let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            let message =
                if help || more.is_empty() { first.to_string() } else { format!("{first} {}", more.join(" ")) };
            let remedy = tips.first().map_or("see --help", |t| t.trim_start_matches("tip: "));
            Ok(crate::fail::report(&Error::new(Kind::Usage, message).remedy(remedy), true, schema))
        }
        _ => {
            let text = if Paint::stderr().on() { text.ansi().to_string() } else { text.to_string() };
            out::tell(text.trim_end());
            Ok(2)
        }
    }
}

/// Defaults (of a model that is asked: how its bars were read), then the file, then `--set`, then flags.
fn settings(global: &Global, verb: &Verb) -> Result<Settings, Failure> {
    let resumes = matches!(verb, Verb::Runs(runs) if matches!(**runs, Runs::Resume(_)));
    if resumes && (global.settings.is_some() || !global.set.is_empty()) {
        return Err(Error::new(
            Kind::Usage,
            "a run goes on with its own settings; only --threads and --memory may change",
        )
        .remedy("leave --set and --settings out; other settings are a new run")
        .into());
    }
    let mut settings = match verb {
        Verb::Predict(predict) => jobs::model_settings(&predict.run)?,
        _ => Settings::default(),
    };
    if let Some(path) = &global.settings {
        settings.read(path)?;
    }
    for pair in &global.set {
        settings.set(pair)?;
    }
    for (key, value) in verb.flags() {
        flag(&mut settings, &format!("--{key}"), key, value.as_deref())?;
    }
    Ok(settings)
}

/// A flag that stands for a key.
fn flag(settings: &mut Settings, flag: &str, key: &str, value: Option<&str>) -> Result<(), Failure> {
    if let Some(value) = value {
        settings.flag(flag, key, value)?;
    }
    Ok(())
}

/// The selection a data verb was given; its other flags go into the settings.
fn select(source: Source, settings: &mut Settings) -> Result<Select, Failure> {
    narrow(source.data, source.how, settings)
}

fn narrow(data: String, source: How, settings: &mut Settings) -> Result<Select, Failure> {
    flag(settings, "--timezone", "bars.timezone", source.timezone.as_deref())?;
    flag(settings, "--label", "bars.label", source.label.as_deref())?;
    settings.membership = source.membership.or(settings.membership.take());
    settings.factors = source.factors.or(settings.factors.take());
    let instant = |flag: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => jobs::instant(text).map(Some).map_err(|mut e| {
            e.message = format!("{flag}: {}", e.message);
            e
        }),
    };
    let (from, to) = (instant("--from", &source.from)?, instant("--to", &source.to)?);
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        return Err(Error::new(Kind::Usage, "--from is not before --to")
            .remedy("bars from --from up to, but not at, --to are taken")
            .into());
    }
    let symbols = source.symbols.into_iter().map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect();
    Ok(Select { data, symbols, from, to })
}
