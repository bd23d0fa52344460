//! What is read is what was meant, what is printed reads back, and what is wrong is shown where it is wrong.

use super::*;
use crate::error::Error;

fn message(text: &str) -> String {
    match text.parse::<Net>() {
        Ok(net) => panic!("`{text}` was read as {net:?}"),
        Err(Error::Invalid(message)) => message,
        Err(other) => panic!("`{text}` gave {other:?}"),
    }
}

#[test]
fn reads_and_prints() {
    for (text, printed) in [
        ("128-2048-1024-512-3", "128-2048-1024-512-3"),
        ("16-3", "16-3"),
        (" 16 - 64 tanh - 64 - 3 ", "16-64t-64-3"),
        ("16x50-64t-64-3", "16x50-64t-64-3"),
        ("16 × 50 - 8relu - 4identity - 2", "16x50-8-4i-2"),
        ("fast:16-64-3", "fast:16-64-3"),
        ("rows:16/64/class:3", "16-64-3"),
        ("16-64/3", "16-64 / 3"),
        ("16/64/direction:3", "16 / 64 / direction:3"),
        (
            "fast:16x50-64-32t+slow:12-32/128-64/direction:3+size:5",
            "fast:16x50-64-32t + slow:12-32 / 128-64 / direction:3 + size:5",
        ),
        ("a:4+b:4\n/ 3", "a:4 + b:4 / 3"),
        ("16x50-lstm64-3", "16x50-lstm64-3"),
        (" 16x50 - lstm 64 - lstm32 - 8t - 3", "16x50-lstm64-lstm32-8t-3"),
        ("16-lstm1-3", "16-lstm1-3"),
        ("16-128n-128d10-64ntd5-8id1-3", "16-128n-128d10-64ntd5-8id1-3"),
        ("16 - 128 norm - 64 normtanhdrop5 - 32 relud9 - 8identityd99 - 3", "16-128n-64ntd5-32d9-8id99-3"),
        ("a:5x2-lstm9-lstm8d20-6nd3+b:4-8n/16d5/3", "a:5x2-lstm9-lstm8d20-6nd3 + b:4-8n / 16d5 / 3"),
        ("16x50-lstm 64 drop20-3", "16x50-lstm64d20-3"),
        ("16x50-lstm64 / 32 / 3", "16x50-lstm64-32-3"),
        ("16x50-lstm64-32 / 3", "16x50-lstm64-32 / 3"),
        ("16-64-1", "16-64-1"),
        ("account:dense7/64t/class:1", "account:dense7 / 64t / 1"),
        (
            "fast:16 + account: dense 7-8 / 64-64|(fast)32/policy:3|value:1",
            "fast:16 + account:dense7-8 / 64-64 | (fast) 32 / policy:3 | value:1",
        ),
        ("16 / () | 8 / p:3+q:2 | v:1", "16 / () | 8 / p:3 + q:2 | v:1"),
        (
            "fast:16x50-lstm64-lstm64-32t+slow:12x24-lstm32/64/direction:3",
            "fast:16x50-lstm64-lstm64-32t + slow:12x24-lstm32 / 64 / direction:3",
        ),
    ] {
        let net: Net = text.parse().unwrap_or_else(|e| panic!("`{text}`: {e}"));
        assert_eq!(net.to_string(), printed, "`{text}`");
    }
}

#[test]
fn text_is_parsed_into_the_right_parts() {
    let net: Net = "fast:16x50-64-32t + slow:12 / 128 / direction:3 + size:5".parse().unwrap();
    assert_eq!(net.inputs[0], Input::new("fast", 16, 50));
    assert_eq!(net.inputs[1], Input::new("slow", 12, 1));
    assert_eq!(net.branches[0].layers[1], Layer::new(32, Activation::Tanh));
    assert!(net.branches[1].layers.is_empty());
    assert_eq!(net.trunk, [Layer::new(128, Activation::Relu)]);
    assert_eq!(net.heads[1], Head { name: "size".into(), classes: 5 });
    let net: Net = "fast:16x50-lstm64-lstm32-8 + slow:12 / 3".parse().unwrap();
    let relu = |width: usize| Layer::new(width, Activation::Relu);
    assert_eq!(net.branches[0], Branch { recurrent: vec![64, 32], dropout: 0, layers: vec![relu(8)] });
    // In the short form recurrent layers stay in the branch, and what follows is the trunk.
    let net: Net = "16x50-lstm64-8-3".parse().unwrap();
    assert_eq!(net.branches, [Branch { recurrent: vec![64], ..Branch::default() }]);
    assert_eq!((net.trunk.as_slice(), net.heads[0].classes), ([relu(8)].as_slice(), 3));
    // A settings file from before there were recurrent layers is still a net.
    let old = r#"{"layers":[{"width":8,"activation":"relu"}]}"#;
    let branch: Branch = serde_json::from_str(old).unwrap();
    assert_eq!(branch, Branch { layers: vec![relu(8)], ..Branch::default() });
    assert_eq!(serde_json::to_string(&branch).unwrap(), old);
    let net: Net = "16x50-lstm64d20-8ntd10-3".parse().unwrap();
    assert_eq!(net.trunk, [Layer { width: 8, activation: Activation::Tanh, norm: true, dropout: 10 }]);
    assert_eq!(net.branches[0].dropout, 20);
    assert_eq!(serde_json::from_str::<Net>(&serde_json::to_string(&net).unwrap()).unwrap(), net);
}

#[test]
fn errors_put_a_caret_under_the_wrong_part() {
    for (text, column, wanted) in [
        ("", 1, "expected the number of features"),
        ("16", 3, "expected `-` and the number of classes"),
        ("16-", 4, "expected the width of a layer"),
        ("16-64tanx-3", 6, "did you mean `tanh`?"),
        ("16-64 linear-3", 7, "did you mean `identity`?"),
        ("16-64 softplus-3", 7, "expected r (relu), t (tanh), i (identity)"),
        ("16-64-3t", 7, "the last number is the classes"),
        ("16x-3", 4, "expected the number of rows"),
        ("fast=16-3", 5, "expected `:` and a number"),
        ("fast:16-8 + 12-8 / 3", 13, "an input of several needs a name"),
        ("16-8 + slow:12-8 / 3", 1, "an input of several needs a name"),
        ("fast:16-8 + slow:12-8", 22, "several inputs need a trunk or heads"),
        ("16 / 64 / 3 + size:5", 11, "a head of several needs a name"),
        ("16 / 64 / up:3 / 4", 16, "expected `+` and another head, or the end"),
        ("16 / 64 + 8 / 3", 9, "expected `-` and another layer, or `/`"),
        ("16 / 64 / 3-4", 12, "expected `+` and another head, or the end"),
        ("16-64_3", 6, "expected r (relu)"),
        ("16-99999999999999999999999-3", 4, "this number is too large"),
        ("16-ä-3", 4, "expected the width of a layer"),
        ("16x50-lstm64", 13, "expected `-` and the number of classes"),
        ("16x50-lstm-3", 11, "expected the units of the LSTM"),
        ("16x50-lstmx64-3", 7, "did you mean `lstm`"),
        ("16x50-LSTM64-3", 7, "did you mean `lstm`"),
        ("16x50-gru64-3", 7, "expected the width of a layer"),
        ("16x50-8-lstm64-3", 9, "recurrent layers come before any other layer"),
        ("16x50-lstm8-lstm8-lstm8-lstm8-3", 25, "3 recurrent layers are the most"),
        ("16x50-lstm64t-3", 13, "expected `-` and a layer"),
        ("16x50-lstm64d20-lstm8-3", 17, "only the last state of the top LSTM has a dropout"),
        ("16x50-lstm64d0-3", 13, "a dropout from `d1` to `d99`"),
        ("16-64d100-3", 6, "a dropout is `d1` to `d99`"),
        ("16-64nq-3", 6, "n (norm) before and d10 (dropout) behind it"),
        ("16-64none-3", 6, "did you mean `identity`?"),
        ("16-64-3d5", 7, "the last number is the classes"),
        ("16x50 / 8-lstm64 / 3", 11, "recurrent layers stand at the beginning of a branch"),
        ("16 / lstm / 3", 11, "expected the units of the LSTM"),
        ("16 / 8 | 4 / p:3 + v:1", 23, "2 towers and heads of 1"),
        ("16 / 8 / p:3 | v:1", 19, "1 towers and heads of 2"),
        ("a:4 / (a) 8 / p:3", 18, "one trunk reads everything"),
        ("a:4 / (a, b) 8 | 4 / p:3 | v:1", 9, "the name of an input, or `)`"),
        ("16 / 8 | 4 / 3 | v:1", 14, "a head of several needs a name"),
    ] {
        let message = message(text);
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].ends_with(&format!("column {column}:")), "`{text}`: {message}");
        assert_eq!(lines[2].find('^').map(|at| at - 1), Some(column), "`{text}`: {message}");
        assert!(lines[2].contains(wanted), "`{text}`: {message}");
        assert!(lines[3].contains("`128-2048-1024-512-3`"), "`{text}`: {message}");
    }
    // Of a long text what is around the column, and the caret still under it.
    let long = format!("{}16-8q-3", "16-".repeat(100));
    let message = message(&long);
    let lines: Vec<Vec<char>> = message.lines().map(|l| l.chars().collect()).collect();
    let caret = lines[2].iter().position(|c| *c == '^').unwrap();
    assert_eq!((lines[1][caret], lines[1].len() < 110), ('q', true), "{message}");
}

#[test]
fn wrong_nets_get_the_sentence_of_check() {
    for (text, wanted) in [
        ("0-3", "input rows: 0 features × 1 rows"),
        ("16x0-3", "16 features × 0 rows"),
        ("65537-3", "product at most 65,536"),
        ("18446744073709551615x2-3", "product at most 65,536"),
        ("16-4097-3", "a layer of 4097 units; use 1 to 4,096"),
        ("16-0-3", "a layer of 0 units"),
        ("16-64-0", "head class: 0 outputs; use 1 to 256"),
        ("16-64-257", "head class: 257 outputs"),
        ("16x50-lstm0-3", "input rows: an LSTM of 0 units; use 1 to 256"),
        ("16x50-lstm8-lstm257-3", "input rows: an LSTM of 257 units"),
        ("a:4 + a:4 / 3", "`a` cannot be a name"),
        ("trunk:4-3", "`trunk` cannot be a name"),
        ("a:4 / 8 / a:3", "`a` cannot be a name"),
        ("tower:4-3", "`tower` cannot be a name"),
        ("a:dense4x2 / 3", "dense inputs have one row"),
        ("a:dense4-lstm8 / 3", "dense inputs have one row"),
        ("a:4 + b:4 / (b a) 8 | 8 / p:3 | v:1", "a tower reads (b a)"),
        ("a:4 + b:4 + c:4 / (a c) 8 | 8 / p:3 | v:1", "a tower reads (a c)"),
        ("a:4 + b:4 / (a) 8 | (a) 8 / p:3 | v:1", "no tower reads input b"),
    ] {
        assert!(message(text).contains(wanted), "`{text}`: {}", message(text));
    }
    assert!(message(&"1".repeat(10_001)).contains("at most 10000"));
    let empty = Net { inputs: vec![], branches: vec![], trunk: vec![], heads: vec![], towers: vec![] };
    assert!(Layout::new(&empty).unwrap_err().to_string().contains("at least one input and one head"));
    assert_eq!(empty.to_string(), "");
    let mut deep: Net = "16x50-lstm8-3".parse().unwrap();
    deep.trunk.push(Layer { dropout: 100, ..Layer::new(4, Activation::Relu) });
    assert!(Layout::new(&deep).unwrap_err().to_string().contains("a dropout of 100 %"));
    deep.trunk.clear();
    (deep.branches[0].recurrent, deep.branches[0].dropout) = (vec![], 5);
    assert!(Layout::new(&deep).unwrap_err().to_string().contains("only after an LSTM"));
    deep.branches[0].dropout = 0;
    deep.branches[0].recurrent = vec![8; 4];
    assert!(Layout::new(&deep).unwrap_err().to_string().contains("4 recurrent layers; use at most 3"));
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(net in any_net()) {
        let text = net.to_string();
        prop_assert_eq!(text.parse::<Net>().map_err(|e| TestCaseError::fail(e.to_string()))?, net);
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}") {
        let _ = text.parse::<Net>();
    }

    #[test]
    fn texts_that_are_nearly_nets(text in "([0-9a-t:x+/ -]|-lstm[0-9]|[0-9]n|[0-9]d[1-9]){0,40}") {
        if let Ok(net) = text.parse::<Net>() {
            let printed = net.to_string();
            let again: Net = printed.parse().map_err(|e: Error| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(&again, &net);
            prop_assert_eq!(again.to_string(), printed);
        }
    }
}
