//! Stacks against PyTorch: `tests/fixtures/recurrent_*.safetensors`, made by `oracles/fixtures/recurrent.py`, which
//! says what is in a file.
//!
//! A tensor is right within 1e-5 of its norm.

use super::tests::card::on_card;
use super::tests::{ALL, Case, Made, near, on_cpu, plainly, shape};
use super::{Gradients, Stack};
use crate::net::flatten;
use crate::population::Precision;
use crate::population::tests::cards;
use safetensors::SafeTensors;
use serde_json::Value;

const FILES: [(&str, &[u8]); 3] = [
    ("recurrent_1", include_bytes!("../../tests/fixtures/recurrent_1.safetensors")),
    ("recurrent_2", include_bytes!("../../tests/fixtures/recurrent_2.safetensors")),
    ("recurrent_3", include_bytes!("../../tests/fixtures/recurrent_3.safetensors")),
];

/// A case, and what PyTorch made of it.
fn read(file: &[u8]) -> (Case, Made) {
    let (_, header) = SafeTensors::read_metadata(file).unwrap();
    let about: Value = serde_json::from_str(&header.metadata().as_ref().unwrap()["fixture"]).unwrap();
    let tensors = SafeTensors::deserialize(file).unwrap();
    let words = |name: &str| -> Vec<[u8; 4]> {
        tensors.tensor(name).map_or_else(|_| vec![], |t| t.data().as_chunks().0.to_vec())
    };
    let floats = |name: &str| -> Vec<f32> { words(name).into_iter().map(f32::from_le_bytes).collect() };
    let size = |key: &str| about[key].as_u64().unwrap() as usize;
    let hidden: Vec<usize> = about["hidden"].as_array().unwrap().iter().map(|h| h.as_u64().unwrap() as usize).collect();
    let sizes = [1, size("rows"), size("window"), size("features"), size("extras")];
    let stack = Stack::new(shape(sizes, &hidden, Precision::F32, Gradients::State)).unwrap();
    // All layers, padded.
    let state = |prefix: &str| -> Vec<f32> {
        let mut made = vec![0.0; stack.state()];
        for (l, r) in stack.layers().iter().enumerate() {
            let given = floats(&format!("{prefix}.{l}"));
            for (to, from) in made[stack.state_of(l)].chunks_mut(r.units).zip(given.chunks(r.hidden)) {
                to[..r.hidden].copy_from_slice(from);
            }
        }
        made
    };
    // Every tensor by its name, each number where the stack has it.
    let row = |prefix: &str| -> Vec<f32> {
        let places: Vec<f32> = (0..stack.params()).map(|at| at as f32).collect();
        let mut made = vec![0.0; stack.params()];
        for (name, shape, at) in flatten(stack.layout(), &places) {
            let given = floats(&format!("{prefix}.{name}"));
            assert_eq!(given.len(), shape.iter().product::<usize>(), "{name}");
            at.iter().zip(given).for_each(|(at, value)| made[*at as usize] = value);
        }
        made
    };
    let case = Case {
        stride: size("features").max(1),
        table: floats("table"),
        at: match size("features") {
            0 => vec![],
            _ => words("at").into_iter().map(u32::from_le_bytes).collect(),
        },
        mean: floats("mean"),
        inverse: floats("inverse"),
        extras: floats("extras"),
        h: state("h"),
        c: state("c"),
        reset: tensors.tensor("reset").unwrap().data().to_vec(),
        weights: row("params"),
        at_every: floats("at_every"),
        at_last: floats("at_last"),
        stack: stack.clone(),
    };
    let every = floats("every");
    let made = Made {
        last: every[every.len() - case.at_last.len()..].to_vec(),
        every,
        end: [state("end.h"), state("end.c")],
        gradient: row("gradient"),
        begin: [state("gradient.h"), state("gradient.c")],
    };
    (case, made)
}

#[test]
fn stacks_against_pytorch() {
    for (name, file) in FILES {
        let (case, wanted) = read(file);
        near(&plainly(&case, ALL), &wanted, 2e-6, &format!("{name} plainly"));
        near(&on_cpu(&case, ALL, 2), &wanted, 2e-6, &format!("{name} on the processor"));
    }
}

#[test]
fn stacks_on_a_card_against_pytorch() {
    for context in cards() {
        for (name, file) in FILES {
            let (case, wanted) = read(file);
            near(&on_card(&context, &case, ALL, false), &wanted, 1e-5, &format!("{name} on a card"));
        }
    }
}
