//! A card against the processor, and against itself. Where there is no card every test says so.

use super::{ALL, Case, Made, TABLE, With, each, near, on_cpu, same_in_steps, shape};
use crate::cuda::{Context, Plain, Slab, Slice, Stream};
use crate::device::Budget;
use crate::population::tests::cards;
use crate::population::{Precision, SlotState};
use crate::recurrent::{Backward, Card, Carried, Forward, Gradients, OnCard};
use std::sync::Arc;

/// Arrays of a case on a card.
struct There {
    slab: Slab,
    stream: Stream,
}

impl There {
    fn put<T: Plain>(&mut self, from: &[T]) -> Slice<T> {
        let slice = self.slab.cut(from.len()).unwrap();
        self.stream.put(&slice, from).unwrap();
        slice
    }
}

/// What a card makes of it, launched one by one or as a graph that is replayed twice.
pub(in crate::recurrent) fn on_card(context: &Arc<Context>, case: &Case, with: With, graph: bool) -> Made {
    let mut card = Card::new(context, Budget::default(), &case.stack).unwrap();
    let mut there = There { slab: context.slab(64 << 20).unwrap(), stream: Stream::new(context).unwrap() };
    let host = case.forward(with);
    let blank = case.blank();
    let weights = there.put(&case.weights);
    // The state ends where it began.
    let state = Carried { h: there.put(&case.h), c: there.put(&case.c) };
    let (kept_h, kept_c) = (there.put(&case.h), there.put(&case.c));
    let call = Forward::<OnCard> {
        scale: host.scale.map(|(mean, inverse)| (there.put(mean), there.put(inverse))),
        extras: host.extras.map(|extras| there.put(extras)),
        begin: with.begin.then_some(state),
        reset: host.reset.map(|reset| there.put(reset)),
        every: Some(there.put(&blank.every)),
        last: Some(there.put(&blank.last)),
        end: Some(state),
        ..Forward::of(there.put(&case.table), case.stride, there.put(&case.at))
    };
    let begin = Carried { h: there.put(&blank.begin[0]), c: there.put(&blank.begin[1]) };
    let back = Backward::<OnCard> {
        every: with.every.then(|| there.put(&case.at_every)),
        last: with.last.then(|| there.put(&case.at_last)),
        members: None,
        gradient: there.put(&blank.gradient),
        stride: case.stack.params(),
        add: false,
        begin: (case.stack.shape().gradients == Gradients::State).then_some(begin),
    };
    let There { slab: _slab, stream } = there;
    let mut work = || {
        stream.copy(&state.h, &kept_h)?;
        stream.copy(&state.c, &kept_c)?;
        card.take(&stream, &weights, case.stack.params())?;
        card.forward(&stream, &call)?;
        if case.stack.trains() { card.backward(&stream, &back) } else { Ok(()) }
    };
    if graph {
        let graph = stream.capture(work).unwrap();
        graph.launch(&stream).unwrap();
        graph.launch(&stream).unwrap();
    } else {
        work().unwrap();
    }
    let get = |slice: &Slice<f32>| stream.get(slice).unwrap();
    Made {
        every: get(&call.every.unwrap()),
        last: get(&call.last.unwrap()),
        end: [get(&state.h), get(&state.c)],
        gradient: get(&back.gradient),
        begin: [get(&begin.h), get(&begin.c)],
    }
}

#[test]
fn a_card_agrees_with_the_processor() {
    for context in cards() {
        each(1, |case, with, precision, place| {
            let limit = if precision == Precision::Bf16 { 1e-3 } else { 2e-5 };
            near(&on_card(&context, case, with, false), &on_cpu(case, with, 2), limit, place);
        });
        // So many rows that sums of weights go in slices; batches of three tiles; TF32.
        for (sizes, hidden, precision, limit) in [
            ([1, 2200, 3, 10, 6], &[64][..], Precision::Bf16, 1e-3),
            ([2, 700, 20, 12, 5], &[72], Precision::F32, 5e-5),
            ([2, 300, 5, 12, 5], &[128, 32], Precision::Tf32, 5e-3),
        ] {
            let case = Case::new(shape(sizes, hidden, precision, Gradients::Weights));
            near(
                &on_card(&context, &case, ALL, false),
                &on_cpu(&case, ALL, 2),
                limit,
                &format!("{sizes:?} {hidden:?}"),
            );
        }
    }
}

#[test]
fn a_window_on_a_card_equals_its_single_steps_to_the_bit() {
    for context in cards() {
        each(7, |case, with, _, place| {
            same_in_steps(case, with, |case, with| on_card(&context, case, with, false), place);
        });
    }
}

#[test]
fn a_replayed_graph_of_a_call_gives_the_bits_of_single_launches() {
    for context in cards() {
        each(7, |case, with, _, place| {
            assert!(on_card(&context, case, with, true) == on_card(&context, case, with, false), "{place}");
        });
    }
}

#[test]
fn bits_on_a_card_do_not_depend_on_neighbours() {
    for context in cards() {
        for (hidden, precision) in [(&[20, 9][..], Precision::Bf16), (&[96], Precision::Bf16), (&[20], Precision::F32)]
        {
            let case = Case::new(shape([3, 70, 5, 6, 3], hidden, precision, Gradients::Weights));
            let whole = on_card(&context, &case, ALL, false);
            let params = case.stack.params();
            for member in 0..3 {
                let alone = on_card(&context, &case.only(member), ALL, false);
                let own = &whole.gradient[member * params..(member + 1) * params];
                assert!(alone.gradient == own, "{hidden:?} {precision:?} member {member}");
                assert!(
                    alone.end[0] == case.state_of(&whole.end[0], member),
                    "{hidden:?} {precision:?} member {member}"
                );
            }
        }
    }
}

#[test]
fn missing_rows_are_nan_on_a_card_and_inactive_members_are_untouched() {
    for context in cards() {
        let mut case = Case::new(shape([2, 3, 2, 4, 1], &[17], Precision::Bf16, Gradients::None));
        case.at[0] = TABLE as u32;
        let mut card = Card::new(&context, Budget::default(), &case.stack).unwrap();
        let mut there = There { slab: context.slab(8 << 20).unwrap(), stream: Stream::new(&context).unwrap() };
        let weights = there.put(&case.weights);
        let every = there.put(&vec![7.0f32; 2 * 2 * 3 * 17]);
        let states = there.put(&[SlotState { active: 1, ..SlotState::default() }, SlotState::default()]);
        let call = Forward::<OnCard> {
            extras: Some(there.put(&case.extras)),
            members: Some(states),
            every: Some(every),
            ..Forward::of(there.put(&case.table), case.stride, there.put(&case.at))
        };
        assert!(card.forward(&there.stream, &call).is_err(), "no weights yet");
        card.take(&there.stream, &weights, case.stack.params()).unwrap();
        card.forward(&there.stream, &call).unwrap();
        let made = there.stream.get(&every).unwrap();
        let row = |t: usize, m: usize, b: usize| &made[((t * 2 + m) * 3 + b) * 17..][..17];
        assert!(row(0, 0, 0).iter().all(|h| h.is_nan()) && row(1, 0, 0).iter().all(|h| h.is_nan()));
        assert!(row(0, 0, 1).iter().all(|h| h.is_finite()) && row(1, 1, 2) == [7.0; 17]);
        assert!(!card.kernel_paths().is_empty());
    }
}
