//! What a feature set may not say, and what the error tells its author.

use crate::make::{clean, try_dataset};
use features::language::parse;
use features::{Plan, catalogue};

/// The error of a set, as one line.
fn error(text: &str) -> String {
    let set = parse(text, None).unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let error = Plan::new(&set).map(|plan| plan.width()).expect_err(text);
    assert!(error.remedy.is_some(), "{text}: {error:?} says no way out");
    format!("{} | {}", error.message, error.remedy.unwrap_or_default())
}

#[test]
fn errors_name_a_remedy() {
    for (text, words) in [
        ("rsl(14)", &["no indicator `rsl`", "did you mean `rsi`?"][..]),
        ("bolinger(20)", &["`bolinger`", "did you mean `bollinger`?"]),
        ("funding", &["no indicator `funding`"]),
        ("xyzzyplugh(3)", &["no indicator", "col(xyzzyplugh)"]),
        ("macd(12, 26, 9).histogram", &["`macd` has no output `histogram`", "line, signal, hist"]),
        ("rsi(14).line", &["`rsi` has no output `line`", "one value", "rsi(close, 14)"]),
        ("rsi(14, 3)", &["`rsi` does not take these arguments", "rsi(close, 14)"]),
        ("rsi(close, open)", &["does not take these arguments"]),
        ("rsi(close, open, 14)", &["does not take these arguments"]),
        ("sma(20, close)", &["does not take these arguments", "sma(close, 20)"]),
        ("atr(close, 14)", &["does not take these arguments", "atr(14)"]),
        ("abs", &["`abs` does not take these arguments", "abs(x)"]),
        ("max(close)", &["does not take these arguments", "max(x, x)"]),
        ("lag(3)", &["does not take these arguments"]),
        ("close(3)", &["`close` does not take these arguments", "write close"]),
        ("macd(12, close)", &["`slow` of `macd` is a whole number from 2 to 100000"]),
        ("sma(2.5)", &["`n` of `sma` is a whole number from 1 to 100000", "sma(close, 20)"]),
        ("sma(0)", &["`n` of `sma` is a whole number from 1"]),
        ("sma(-3)", &["from 1 to 100000"]),
        ("sma(100001)", &["from 1 to 100000"]),
        ("sma(0 / 0)", &["from 1 to 100000"]),
        ("rsi(1)", &["`n` of `rsi` is a whole number from 2"]),
        ("bollinger(20, 0)", &["`k` of `bollinger` is a number from 0.01 to 100"]),
        ("bollinger(20, 101)", &["`k` of `bollinger` is a number"]),
        ("sar(0.02, 1.5)", &["`most` of `sar` is a number from 0 to 1"]),
        ("col(3)", &["col takes the name of a column"]),
        ("col()", &["col takes the name of a column"]),
        ("col(a, 1, 2)", &["col takes the name of a column"]),
        ("col(a).b", &["col takes the name of a column"]),
        ("col(a, 1.5)", &["a lag is a whole number of bars, 0 or more"]),
        ("col(a, 0 - 1)", &["a lag is a whole number of bars, 0 or more", "the future is not known"]),
        ("1 / 0", &["not finite"]),
        ("(rsi(14)@1h)@4h", &["cannot look at"]),
        ("sma(close@1h, 3)@4h", &["bars of 4h cannot look at bars of 1h", "side by side"]),
        ("[slow @1d]\nrsi(14)@1h", &["bars of 1d cannot look at bars of 1h"]),
        ("[slow @1h]\nrsi(14)@1d", &["bars of 1h cannot look at bars of 1d"]),
    ] {
        let error = error(text);
        words.iter().for_each(|word| assert!(error.contains(word), "{text}: {error:?} does not say {word:?}"));
    }
}

/// What looks like those and is right.
#[test]
fn valid_sets_resolve() {
    for (text, width) in [
        ("rsi, rsi(close, 15), rsi(open), rsi(14 + 2), rsi(2*3)", 5),
        ("RSI(14), Close", 2),
        ("sma(100000)", 1),
        ("bollinger(20, 0.01).upper", 1),
        ("sar(0, 0)", 1),
        ("col(a, 0), col('a b', 3)", 2),
        ("sma(rsi(14), 3), max(close, open), -close, close[0], close[5], 2 - close, 2 / close", 7),
        ("[slow @1h]\nsma(rsi(14)@1h, 3)", 1),
        ("(close@1h)@1h", 1),
        ("a = close@1h\nb = close@4h\nc = a_of_b\n", 0),
    ] {
        let set = parse(text, None).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        match Plan::new(&set) {
            Ok(plan) => assert_eq!(plan.width(), width, "{text}"),
            Err(error) => assert_eq!(width, 0, "{text}: {error:?}"),
        }
    }
}

/// Numbers at both ends of every range are taken, and those beyond are not.
#[test]
fn parameters_have_limits() {
    for indicator in catalogue() {
        for (i, param) in indicator.params.iter().enumerate() {
            let with = |value: f64| {
                let numbers: Vec<f64> = indicator
                    .params
                    .iter()
                    .enumerate()
                    .map(|(k, p)| if k == i { value } else { p.default.unwrap_or(p.range.0) })
                    .collect();
                let text = crate::make::written(indicator, &numbers, None);
                Plan::new(&parse(&text, None).unwrap()).map(|plan| plan.width())
            };
            let (least, most) = param.range;
            let beyond = if param.whole { 1.0 } else { 0.001 };
            assert_eq!((with(least).unwrap(), with(most).unwrap()), (1, 1), "{} {}", indicator.name, param.name);
            for value in [most + beyond, least - beyond] {
                assert!(with(value).is_err(), "{} {} {value}", indicator.name, param.name);
            }
            assert_eq!(
                with(least + 0.5).is_err(),
                param.whole || least + 0.5 > most,
                "{} {}",
                indicator.name,
                param.name
            );
        }
    }
}

/// What only shows when there are bars.
#[test]
fn unsuitable_bars_are_refused() {
    for (text, timeframe, words) in [
        ("rsi(14)@1h", "1d", &["1h bars cannot be made of 1d bars", "multiple of 1d"][..]),
        ("rsi(14)@5m", "5m", &["5m bars cannot be made of 5m bars"]),
        ("rsi(14)@7m", "5m", &["7m bars cannot be made of 5m bars"]),
        ("close\n[s @1m]\nclose", "5m", &["1m bars cannot be made of 5m bars"]),
        ("col(rates)", "5m", &["no column `rates`", "did you mean col(rate)?"]),
        ("col(oi)@1h", "5m", &["no column `oi`", "rate", "Funding Rate"]),
        ("col('funding rate')", "5m", &["no column `funding rate`", "Funding Rate"]),
    ] {
        let plan = crate::make::plan(text);
        let error = try_dataset(vec![clean("BTCUSDT", timeframe, 100, 1)], &plan, 1).expect_err(text);
        let error = format!("{} | {}", error.message, error.remedy.unwrap_or_default());
        words.iter().for_each(|word| assert!(error.contains(word), "{text}: {error:?} does not say {word:?}"));
    }
    let mut bare = clean("BTCUSDT", "5m", 10, 1);
    bare.extras.clear();
    let error = try_dataset(vec![bare], &crate::make::plan("col(oi)"), 1).unwrap_err();
    assert!(error.remedy.unwrap_or_default().contains("bring no columns"));
}

/// The plan's own text makes the same plan.
#[test]
fn plans_round_trip_through_text() {
    for text in ["rsi( 14 ),Close", "a = close\n[g @1h]\nb = macd(12,26,9).hist", "x = col('a b', 2) * 3"] {
        let plan = crate::make::plan(text);
        let again = crate::make::plan(plan.text());
        assert_eq!((plan.text(), plan.width(), plan.extras()), (again.text(), again.width(), again.extras()));
    }
    assert_eq!(crate::make::plan("col(b), col(a), col(b, 1)\n[s @1h]\ncol(c)").extras(), ["a", "b", "c"]);
}
