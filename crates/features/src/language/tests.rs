//! Texts and what they become: tables, random trees, and 200,000 texts nobody would write.

use super::*;
use proptest::prelude::*;
use std::path::Path;

/// Text and canonical text; each also parses back to the same tree.
#[rustfmt::skip]
const GOOD: &[(&str, &str)] = &[
    ("close", "close\n"),
    ("RSI( 14 )", "rsi(14)\n"),
    ("rsi()", "rsi\n"),
    ("rsi(14), macd(12,26,9).Hist", "rsi(14)\nmacd(12, 26, 9).hist\n"),
    ("a;b\nc, d,\ne;;\n\n", "a\nb\nc\nd\ne\n"),
    ("a # one, two\n# (three\nb", "a\nb\n"),
    ("Gap = open/close[1]-1", "Gap = open/close[1] - 1\n"),
    ("gap =\n\n  open /\n close", "gap = open/close\n"),
    ("rsi = rsi", "rsi\n"),
    ("ema(\n close, # of what\n 12\n)\nb", "ema(close, 12)\nb\n"),
    ("(a\n[3])", "a[3]\n"),
    ("a\n-b", "a\n-b\n"),
    ("a - b - c, a - (b - c), (a - b) - c + 0", "a - b - c\na - (b - c)\na - b - c + 0\n"),
    ("a*b/c; a*(b/c); (a+b)*c; a+(b*c)", "a*b/c\na*(b/c)\n(a + b)*c\na + b*c\n"),
    ("-a*b; -(a*b); -a[1]; (-a)[1]; a - -b; --a; a*-b", "-a*b\n-(a*b)\n-a[1]\n(-a)[1]\na - -b\n--a\na*-b\n"),
    ("a[1]@1h; a@H4[2]; (a + b)@60m[0]; a[1][2]; a@daily@1M", "a[1]@1h\na@4h[2]\n(a + b)@1h[0]\na[1][2]\na@1d@1mo\n"),
    ("macd(12, 26, 9).hist@ 1h", "macd(12, 26, 9).hist@1h\n"),
    ("12.0; .5; 1e-3; 1E+3; 1e300; 1e-300; 0; 007", "12\n0.5\n0.001\n1000\n1e300\n1e-300\n0\n7\n"),
    ("a[1e2]", "a[100]\n"),
    ("col(Funding_Rate, 1)", "col(Funding_Rate, 1)\n"),
    ("COL(ema(Close), A).B + A", "col(ema(close), A).b + a\n"),
    ("col(\"Open Interest\"); col('a\"B', 2); col('ü,(#')", "col(\"Open Interest\")\ncol('a\"B', 2)\ncol(\"ü,(#\")\n"),
    ("[Fast]\na", "[Fast]\na\n"),
    ("[fast]; a; [slow]; b", "[fast]\na\n\n[slow]\nb\n"),
    ("a\n  [ slow @H1 ] # header\r\n\r\na\r\nb", "a\n\n[slow @1h]\na\nb\n"),
    ("\u{feff}a", "a\n"),
];

/// Text, a part of the message, line and column.
#[rustfmt::skip]
const BAD: &[(&str, &str, u64, u64)] = &[
    ("", "the feature set is empty", 1, 1),
    ("\n # nothing\n;", "the feature set is empty", 1, 1),
    ("a\nrsi(14", "this `(` is not closed", 2, 4),
    ("rsi(14\nema(3)", "this `(` is not closed", 1, 4),
    ("rsi(14; ema(3)", "this `(` is not closed", 1, 4),
    ("a*(b + (c)", "this `(` is not closed", 1, 3),
    ("rsi(", "this `(` is not closed", 1, 4),
    ("ema(close,", "this `(` is not closed", 1, 4),
    ("a[3", "this `[` is not closed", 1, 2),
    ("a[", "this `[` is not closed", 1, 2),
    ("[fast\na", "this `[` is not closed", 1, 1),
    ("ema(,3)", "an argument is empty", 1, 5),
    ("ema(3,)", "an argument is empty", 1, 7),
    ("ema(3,,4)", "an argument is empty", 1, 7),
    ("()", "an expression is missing before `)`", 1, 2),
    ("a,,b", "there is nothing before this comma", 1, 3),
    ("é", "unexpected character `é`", 1, 1),
    ("col('é') $", "unexpected character `$`", 1, 10),
    ("a\u{a0}b", "unexpected character U+00A0", 1, 2),
    ("\u{feff}a &", "unexpected character `&`", 1, 3),
    ("a \\", "unexpected character `\\`", 1, 3),
    ("rsi(14) ema(3)", "an operator or a separator is missing before `ema`", 1, 9),
    ("a 3", "is missing before `3`", 1, 3),
    ("ema(close 3)", "a comma or an operator is missing before `3`", 1, 11),
    ("(close 3)", "an operator is missing before `3`", 1, 8),
    ("(a, b)", "parentheses that belong to no call", 1, 3),
    ("rsi(period=14)", "arguments have no names, and this one has `period`", 1, 5),
    ("rsi(14) = a", "only a name stands to the left of `=`", 1, 9),
    ("a = b = c", "only a name stands to the left of `=`", 1, 7),
    ("a = ", "an expression is missing before the end", 1, 5),
    ("a +\n", "an expression is missing before the end", 2, 1),
    ("a\n+ b", "there is nothing to the left of `+`", 2, 1),
    ("a ** b", "there is nothing to the left of `*`", 1, 4),
    ("a)", "`)` closes nothing", 1, 2),
    ("a]", "`]` closes nothing", 1, 2),
    (")", "`)` closes nothing", 1, 1),
    ("(a])", "`]` closes nothing", 1, 3),
    ("a@5x", "`5x` is not a timeframe", 1, 2),
    ("a@", "a timeframe is missing after `@`", 1, 2),
    ("a@99999w", "`99999w` is not a timeframe", 1, 2),
    ("[slow @x]\na", "`x` is not a timeframe", 1, 7),
    ("@1h", "an expression is missing before `@1h`", 1, 1),
    ("a\nb\nA", "two features are called `a`, on lines 1 and 3", 3, 1),
    ("a + b, (a+b)", "two features are called `a + b`, both on line 1", 1, 8),
    ("a = b\nc\n\na", "two features are called `a`, on lines 1 and 4", 4, 1),
    ("[f]\na\n[g]\na", "two features are called `a`, on lines 2 and 4", 4, 1),
    ("a\n[f]\n[g]\nb", "the group `f` is empty", 2, 1),
    ("a\n[f]", "the group `f` is empty", 2, 1),
    ("[f]", "the group `f` is empty", 1, 1),
    ("[f]\na\n[f]\nb", "two groups are called `f`, on lines 1 and 3", 3, 1),
    ("[f] a", "`a` stands on the line of a header", 1, 5),
    ("[]\na", "the header of a group needs a name", 1, 1),
    ("close\n[3]", "the header of a group needs a name", 2, 1),
    ("a, [f]\nb", "`[` stands after no expression", 1, 4),
    ("a[-1]", "a lag looks back; the future is not known", 1, 3),
    ("a[1.5]", "a lag is a whole number of bars", 1, 3),
    ("a[n]", "a lag is a whole number of bars", 1, 3),
    ("a[1e12]", "reaches before all data", 1, 3),
    ("a + 1e999", "`1e999` is too large a number", 1, 5),
    ("14x", "`14x` is neither a number nor a name", 1, 1),
    ("1e", "`1e` is neither a number nor a name", 1, 1),
    ("rsi('x')", "a quoted name stands alone", 1, 5),
    ("'x'", "a quoted name stands alone", 1, 1),
    ("col('x' + 1)", "a comma or an operator is missing before `+`", 1, 9),
    ("col('x", "this quote is not closed", 1, 5),
    ("col('x\n')", "this quote is not closed", 1, 5),
    ("col(\"\")", "there is nothing between the quotes", 1, 5),
    ("macd(3).", "the name of an output is missing before the end", 1, 9),
    ("a@1h.hist", "an output belongs to a call", 1, 5),
    ("a.b.c", "an output belongs to a call", 1, 4),
];

fn bare(expr: &Expr) -> Expr {
    let at = At::default();
    let boxed = |expr: &Expr| Box::new(bare(expr));
    match expr {
        Expr::Number(x, _) => Expr::Number(*x, at),
        Expr::Text(text, _) => Expr::Text(text.clone(), at),
        Expr::Call { name, args, output, .. } => {
            Expr::Call { name: name.clone(), args: args.iter().map(bare).collect(), output: output.clone(), at }
        }
        Expr::Neg(a, _) => Expr::Neg(boxed(a), at),
        Expr::Binary(op, a, b, _) => Expr::Binary(*op, boxed(a), boxed(b), at),
        Expr::Lag(a, bars, _) => Expr::Lag(boxed(a), *bars, at),
        Expr::On(a, timeframe, _) => Expr::On(boxed(a), *timeframe, at),
    }
}

fn bare_groups(set: &Set) -> Vec<Group> {
    let mut groups = set.groups.clone();
    groups.iter_mut().flat_map(|group| &mut group.features).for_each(|feature| feature.expr = bare(&feature.expr));
    groups
}

/// Whatever the text: an error says where and what to do, a set comes back from its own text.
fn check(text: &str) -> files::Result<Set> {
    let read = parse(text, None);
    match &read {
        Ok(set) => {
            let shown = set.to_string();
            let again = parse(&shown, None).unwrap_or_else(|e| panic!("{text:?} became {shown:?}: {e}"));
            assert_eq!(bare_groups(&again), bare_groups(set), "{text:?} became {shown:?}");
            assert_eq!(again.to_string(), shown, "{text:?}");
        }
        Err(error) => {
            assert!(error.line.is_some() && error.column.is_some() && error.remedy.is_some(), "{text:?}: {error:?}");
            assert!(!error.message.is_empty() && error.message.len() < 200, "{text:?}: {error:?}");
            assert_eq!((error.kind, &error.file), (Kind::Usage, &None), "{text:?}");
        }
    }
    read
}

#[test]
fn feature_sets_parse() {
    for (text, shown) in GOOD {
        assert_eq!(check(text).map(|set| set.to_string()).as_deref(), Ok(*shown), "{text:?}");
    }
}

#[test]
fn errors_point_at_the_mistake() {
    for (text, says, line, column) in BAD {
        let error = check(text).unwrap_err();
        assert!(error.message.contains(says), "{text:?}: {error}");
        assert_eq!((error.line, error.column), (Some(*line), Some(*column)), "{text:?}: {error}");
    }
    let error = parse("a\nb $", Some(Path::new("set.txt"))).unwrap_err();
    assert_eq!((error.kind, error.to_string().as_str()), (Kind::Input, "set.txt:2:3: unexpected character `$`"));
}

#[test]
fn positions_cover_the_source_text() {
    let text = "x = -(close + open[1])*macd(12).hist@1h";
    let set = parse(text, None).unwrap();
    let shown = |expr: &Expr| text[expr.at().from..][..expr.at().len].to_string();
    let Expr::Binary(Op::Mul, left, right, _) = &set.groups[0].features[0].expr else { panic!("{set}") };
    let (Expr::Neg(sum, _), Expr::On(call, ..)) = (&**left, &**right) else { panic!("{set}") };
    let parts = [shown(&set.groups[0].features[0].expr), shown(left), shown(sum), shown(right), shown(call)];
    let wanted = [&text[4..], "-(close + open[1])", "close + open[1]", "macd(12).hist@1h", "macd(12).hist"];
    assert_eq!(parts, wanted);
    // A place that is not in the text is still an error and no panic.
    let error = Origin { file: None, text: "é".into() }.error(At { from: 1, len: 9 }, "x");
    assert_eq!((error.line, error.column), (Some(1), Some(1)));
    assert_eq!(set.origin.error(At { from: 9_999, len: 1 }, "x").column, Some(text.len() as u64 + 1));
}

#[test]
fn names_are_unique_per_timeframe() {
    let set = check("a\n[slow @1h]\na\n[day @1d]\na").unwrap();
    let frames: Vec<_> = set.groups.iter().map(|group| (group.name.as_str(), group.timeframe)).collect();
    assert_eq!(frames, [("", None), ("slow", Some(Timeframe::H1)), ("day", Some(Timeframe::D1))]);
    assert!(check("[slow @1h]\na\n[other @H1]\na").is_err());
}

#[test]
fn sizes_are_bounded() {
    let deep = |n: usize, open: &str, close: &str| check(&format!("{}a{}", open.repeat(n), close.repeat(n)));
    for (open, close, most) in [
        ("(", ")", 64),
        ("-", "", 63),
        ("", "[1]", 63),
        ("", "@1h", 63),
        ("", " + b", 63),
        ("", "*\nb", 63),
        ("f(", ")", 63),
        ("f(1, ", ")", 63),
        ("(-", ")[1]", 31),
        ("-(1 + ", ")", 31),
    ] {
        assert!(deep(most, open, close).is_ok(), "{open}a{close}");
        for n in [most + 1, 20_000] {
            let error = deep(n, open, close).unwrap_err();
            assert!(error.message.contains("nested deeper than 64"), "{open}a{close}: {error}");
        }
    }
    let many = |n: usize| (0..n).map(|i| format!("f({i})\n")).collect::<String>();
    assert_eq!(parse(&many(10_000), None).map(|set| set.groups[0].features.len()), Ok(10_000));
    let error = parse(&many(10_001), None).unwrap_err();
    assert_eq!((error.message.contains("at most 10000"), error.line), (true, Some(10_001)));
    let word = "w".repeat(9_000);
    for text in ["w, w", "w w", "1w", "a@w", "f(w=1)", "[w]", "[w]\na\n[w]\nb", "[a] w"] {
        assert!(check(&text.replace('w', &word)).is_err(), "{text:?}");
    }
    let long = |n: usize| parse(&format!("a#{}", " ".repeat(n - 2)), None);
    assert!(long(1 << 20).is_ok());
    assert!(long((1 << 20) + 1).unwrap_err().message.contains("longer than 1 MiB"));
}

#[test]
fn arbitrary_text_does_not_panic() {
    const PIECES: &[&str] = &[
        "(",
        ")",
        "[",
        "]",
        ",",
        ";",
        "\n",
        "=",
        ".",
        "@",
        "+",
        "-",
        "*",
        "/",
        "#",
        "'",
        "\"",
        " ",
        "\r",
        "\u{feff}",
        "é",
        "\0",
        "col(",
        "A",
        "1e",
        "1e9",
        "0.5",
        "@1h",
        "@MN1",
        "[3]",
        "[slow @1h]",
        "\n[f]\n",
        "name = ",
        ".hist",
        "9999999999",
        "~",
        "💥",
    ];
    let mut random = random::SplitMix::new(7);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..200_000 {
        let mut text = GOOD[random.below(GOOD.len())].0.as_bytes().to_vec();
        if random.below(4) == 0 {
            text.push(b'\n');
            text.extend(BAD[random.below(BAD.len())].0.bytes());
        }
        for _ in 0..=random.below(4) {
            let (a, b) = (random.below(text.len() + 1), random.below(text.len() + 1));
            let (a, b) = (a.min(b), a.max(b));
            match random.below(5) {
                0 => drop(text.drain(a..b.min(a + 4))),
                1 => drop(text.splice(a..a, PIECES[random.below(PIECES.len())].bytes())),
                2 => drop(text.splice(a..b.min(a + 3), PIECES[random.below(PIECES.len())].bytes())),
                3 if a < text.len() => text[a] ^= 1 << random.below(8),
                _ => text.extend_from_within(a..b),
            }
        }
        match check(&String::from_utf8_lossy(&text)) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    // Neither side may be starved, or the test says nothing.
    assert!(read > 20_000 && refused > 20_000, "{read} read, {refused} refused");
}

fn trees() -> impl Strategy<Value = Expr> {
    let at = At::default();
    let leaf = move |name: &str| Expr::Call { name: name.to_string(), args: Vec::new(), output: None, at };
    let number = prop_oneof![
        (0u32..1000).prop_map(f64::from),
        (0u32..100_000).prop_map(|n| f64::from(n) / 1000.0),
        any::<f64>().prop_filter_map("finite", |x| x.is_finite().then_some(x.abs())),
    ]
    .prop_map(move |x| Expr::Number(x, at));
    let text = prop::collection::vec(any::<char>(), 1..8)
        .prop_map(|chars| chars.into_iter().filter(|c| !"\n\r'".contains(*c)).collect::<String>() + "X");
    let named = prop::sample::select(vec!["Funding_Rate", "oi", "_X1"]).prop_map(leaf);
    let column = prop_oneof![named, text.prop_map(move |text| Expr::Text(text, at))];
    let col = (column, number.clone()).prop_map(move |(column, number)| Expr::Call {
        name: "col".to_string(),
        args: vec![column, number],
        output: None,
        at,
    });
    let word = prop::sample::select(vec!["close", "e1", "rsi", "macd", "_x", "inf", "nan", "h1"]);
    let frame = prop_oneof![
        (1i64..15_000, prop::sample::select(vec!["s", "m", "h", "d", "w"]))
            .prop_map(|(n, unit)| format!("{n}{unit}").parse().unwrap()),
        (1i64..1000).prop_map(Timeframe::Months),
    ];
    prop_oneof![number, word.clone().prop_map(leaf), col].prop_recursive(12, 96, 4, move |inner| {
        let op = prop::sample::select(vec![Op::Add, Op::Sub, Op::Mul, Op::Div]);
        let one = inner.clone().prop_map(Box::new);
        prop_oneof![
            (word.clone(), prop::collection::vec(inner, 0..4), prop::option::of(word.clone())).prop_map(
                move |(name, args, output)| Expr::Call {
                    name: name.into(),
                    args,
                    output: output.map(str::to_string),
                    at
                }
            ),
            one.clone().prop_map(move |a| Expr::Neg(a, at)),
            (op, one.clone(), one.clone()).prop_map(move |(op, a, b)| Expr::Binary(op, a, b, at)),
            (one.clone(), 0usize..5000).prop_map(move |(a, bars)| Expr::Lag(a, bars, at)),
            (one, frame.clone()).prop_map(move |(a, frame)| Expr::On(a, frame, at)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn expressions_round_trip_through_text(expr in trees()) {
        let text = expr.to_string();
        let set = parse(&text, None).unwrap_or_else(|e| panic!("{text}: {e} {:?}", e.column));
        prop_assert_eq!(set.groups.len(), 1);
        prop_assert_eq!(&bare(&set.groups[0].features[0].expr), &expr);
        prop_assert_eq!(&set.groups[0].features[0].name, &text);
    }

    /// No pair of parentheses can be left out of the canonical text without changing the tree.
    #[test]
    fn printed_text_has_no_redundant_parentheses(expr in trees()) {
        let text = expr.to_string();
        // A quoted name may hold anything.
        prop_assume!(!text.contains(['"', '\'']));
        let mut open = Vec::new();
        for (i, c) in text.char_indices() {
            match c {
                '(' => open.push(i),
                ')' => {
                    let from = open.pop().unwrap();
                    // Those of a call are not idle.
                    if text[..from].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                        continue;
                    }
                    let without = format!("{}{}{}", &text[..from], &text[from + 1..i], &text[i + 1..]);
                    let same = parse(&without, None).is_ok_and(|set| bare(&set.groups[0].features[0].expr) == expr);
                    prop_assert!(!same, "{} is {}", text, without);
                }
                _ => {}
            }
        }
    }
}
