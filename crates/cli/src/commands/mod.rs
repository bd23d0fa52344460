//! One verb, one file: parsing is done; run, then say.

mod add;
mod audit;
mod backtest;
mod bench;
mod check;
mod demo;
mod evidence;
mod features;
mod holdout;
mod list;
mod monitor;
mod parity;
mod predict;
mod probe;
mod refit;
mod report;
mod runs;
mod selftest;
mod synth;
mod train;
mod trials;
mod tune;

use crate::args::{Bench, Check, Cli, Data, Global, ReadArgs, Runs, Source, Verb};
use crate::fail::Failure;
use crate::flags;
use crate::out::{self, Paint};
use crate::progress::Progress;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use files::{Error, Kind};
use jobs::{Key, Select, Settings, TrainEvent};
use std::ffi::OsString;

/// What a verb gives: its exit code.
type Outcome = Result<u8, Failure>;

/// What every verb is handed besides its own flags.
struct Context {
    settings: Settings,
    /// The keys whose flags were typed.
    given: Vec<&'static str>,
    json: bool,
    schema: &'static str,
    progress: Progress,
    /// Whether the plan of a training was printed: its result is printed without.
    planned: bool,
    /// The command as it was typed.
    words: Vec<OsString>,
}

impl Context {
    /// Prints the result: one object, or the words.
    fn print(&self, result: &impl serde::Serialize, words: impl FnOnce(Paint) -> String) -> Result<(), Failure> {
        self.progress.clear();
        if self.json {
            let noted = out::with_notes(result, &|note| flags::typed(note, &self.words))?;
            out::print_json(self.schema, true, &noted)
        } else {
            out::print_text(&flags::typed(&words(Paint::stdout()), &self.words))
        }
    }

    /// What a verb reports while it runs: how far it is, and lines.
    fn report(&mut self, event: TrainEvent<'_>) {
        match event {
            TrainEvent::Update(update) => self.progress.update(update),
            TrainEvent::Line(line) => self.progress.print_line(&flags::typed(line, &self.words)),
            TrainEvent::Plan(run) if !self.json => {
                self.progress.clear();
                // A reader that is gone is noticed at the end.
                // Notes stand here, where there is time to act on them, and with those of the end at the end.
                let text = train::plan(run, Paint::stdout()) + &train::notes(run, Paint::stdout());
                let _ = out::print_text(&flags::typed(&text, &self.words));
                self.planned = true;
            }
            TrainEvent::Plan(_) => {}
        }
    }
}

/// Parses the words and runs the verb.
pub(crate) fn run(typed: &[OsString], json: bool, schema: &'static str) -> Outcome {
    let parsed = Cli::command().try_get_matches_from(typed).and_then(|m| Cli::from_arg_matches(&m).map(|cli| (m, cli)));
    let (matches, cli) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.kind() == ErrorKind::UnknownArgument && typed.iter().any(|word| word == "--label") => {
            return Err(Error::new(Kind::Usage, "--label is now called --stamp")
                .remedy("write --stamp for the end of the bar that a stamp marks; --labels is what is predicted")
                .into());
        }
        Err(error) => return unparsed(&error, json, schema),
    };
    let given = flags::given(&matches);
    let settings = settings(&cli.global, &cli.verb, &given)?;
    let given = given.iter().map(|(key, _)| key.name).collect();
    let progress = Progress::new(cli.global.quiet);
    let mut context =
        Context { settings, given, json: cli.global.json, schema, progress, planned: false, words: typed.to_vec() };
    match cli.verb {
        Verb::Demo(args) => demo::run(args, &mut context),
        Verb::Probe(args) => probe::run(&args, &mut context),
        Verb::Bench(bench) => match *bench {
            Bench::Net(args) => bench::run(args, &mut context),
            Bench::Search(args) => bench::run_search(args, &mut context),
        },
        Verb::Features(args) => features::run(*args, &mut context),
        Verb::Train(args) => train::run(*args, &mut context),
        Verb::Tune(args) => tune::run(*args, &mut context),
        Verb::Backtest(args) => backtest::run(*args, &mut context),
        Verb::Holdout(args) => holdout::run(args, &mut context),
        Verb::Refit(args) => refit::run(args, &mut context),
        Verb::Predict(args) => predict::run(*args, &mut context),
        Verb::Report(args) => report::run(&args, &mut context),
        Verb::Runs(runs) => runs::run(*runs, &mut context),
        Verb::Trials(args) => trials::run(*args, &mut context),
        Verb::Monitor(args) => monitor::run(&args, &mut context),
        Verb::Check(check) => match *check {
            Check::Lookahead(args) => check::run(args, &mut context),
            Check::Parity(args) => parity::run(args, &mut context),
            Check::Selftest(args) => selftest::run(args, &mut context),
        },
        Verb::Data(data) => match *data {
            Data::Add(args) => add::run(args, &mut context),
            Data::Audit(args) => audit::run(args, &mut context),
            Data::Synth(args) => synth::run(args, &mut context),
            Data::List(args) => list::run(args, &mut context),
            Data::Remove(args) => list::remove(args, &mut context),
        },
    }
}

/// Help and version are answers; everything else is a usage error, in the parser's own words.
fn unparsed(error: &clap::Error, json: bool, schema: &'static str) -> Outcome {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion if json => {
            out::print_json("help/1", true, &serde_json::json!({ "text": text.to_string() })).map(|()| 0)
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            out::print_text(&if Paint::stdout().on() { text.ansi().to_string() } else { text.to_string() }).map(|()| 0)
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
            Ok(crate::fail::report(&Error::new(Kind::Usage, message).remedy(remedy), true, schema, &[]))
        }
        _ => {
            let text = if Paint::stderr().on() { text.ansi().to_string() } else { text.to_string() };
            out::print_stderr_line(text.trim_end());
            Ok(2)
        }
    }
}

/// Defaults (of a model that is asked: how its bars were read), then the file, then `--set`, then flags.
fn settings(global: &Global, verb: &Verb, given: &[(&Key, Vec<&str>)]) -> Result<Settings, Failure> {
    let fixed = match verb {
        Verb::Runs(runs) if matches!(**runs, Runs::Resume(_)) => Some("a run resumes with its own settings"),
        Verb::Holdout(_) => Some("a run is judged with its own settings"),
        Verb::Refit(_) => Some("a run is refitted with its own settings"),
        _ => None,
    };
    if let Some(fixed) = fixed.filter(|_| global.settings.is_some() || !global.set.is_empty()) {
        return Err(Error::new(Kind::Usage, format!("{fixed}; only --threads and --memory may change"))
            .remedy("leave --set and --settings out; other settings are a new run")
            .into());
    }
    let mut settings = match verb {
        Verb::Predict(predict) => jobs::model_settings(&predict.run)?,
        Verb::Check(check) if let Check::Parity(parity) = &**check => jobs::run_settings(&parity.run)?,
        Verb::Backtest(test) if test.decides.is_model() => jobs::run_settings(test.run.as_ref())?,
        _ => Settings::default(),
    };
    if let Some(path) = &global.settings {
        settings.read(path)?;
    }
    for pair in &global.set {
        settings.set(pair)?;
    }
    for (key, values) in given {
        settings.set_flag(key, values)?;
    }
    Ok(settings)
}

/// What a data verb reads.
fn select(source: Source) -> Result<Select, Failure> {
    narrow(source.data, source.how)
}

fn narrow(data: String, source: ReadArgs) -> Result<Select, Failure> {
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
            .remedy("bars from --from up to, but not including, --to are used")
            .into());
    }
    let symbols = source.symbols.into_iter().map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect();
    Ok(Select { data, symbols, from, to })
}
