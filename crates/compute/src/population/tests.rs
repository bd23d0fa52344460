//! One suite for every device: the processor with one, two and sixteen threads, and a card with and without cuBLASLt where there is one.

use super::make::{Made, recipe};
use super::{Member, Population, Precision, Score, Status};
use crate::cuda::{Context, gpus};
use crate::device::{Budget, Opened};
use crate::error::Error;
use std::sync::Arc;

const NETS: [&str; 5] = [
    "7-12-3",
    "16-64t-32-2",
    "fast:5x4-24-16t + slow:3-8 / 40 / side:3 + size:5",
    "12-3",
    "fast:5x6-lstm12-lstm7 + slow:3x4-lstm9-6t / 8 / side:3",
];

/// Every device here; says so where there is no card.
pub(crate) fn devices() -> Vec<(String, Opened)> {
    let mut devices: Vec<(String, Opened)> =
        [1, 2, 16].map(|threads| (format!("cpu {threads}"), Opened::Cpu { threads })).into();
    for (name, context) in ["cuda", "cuda, own products"].into_iter().zip(cards()) {
        devices.push((name.into(), Opened::Cuda(context)));
    }
    devices
}

/// The first card with and without cuBLASLt. Where there is none the test is skipped, aloud; a card that cannot be opened is another reason,
/// which CI does not accept.
pub(crate) fn cards() -> Vec<Arc<Context>> {
    match gpus() {
        Ok(found) if !found.is_empty() => {
            let open = |library| Context::open_with(0, library).inspect_err(|why| skip(&why.to_string())).ok();
            [true, false].into_iter().filter_map(open).collect()
        }
        _ => {
            skip("no GPU");
            Vec::new()
        }
    }
}

/// As xtask's `test.rs` asks for.
#[expect(clippy::print_stdout, reason = "this is how a skip is told")]
fn skip(why: &str) {
    use std::io::Write;
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    match log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
        Some(mut file) => writeln!(file, "{why}").unwrap(),
        None => println!("SKIP: {why}"),
    }
}

/// What a population became.
#[derive(Debug, PartialEq)]
struct Became {
    params: Vec<Vec<u32>>, // [members][params] bits
    scores: Vec<Score>,
    ends: Vec<Status>,
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|x| x.to_bits()).collect()
}

/// Trains to the end, in chunks of at most `most`.
fn train(device: &Opened, made: &Made, members: &[Member], batch: usize, precision: Precision, most: u32) -> Became {
    let recipe = recipe(batch, precision);
    let mut population = Population::new(device, Budget::default(), &made.net, &made.data(), &recipe, members).unwrap();
    let mut scores = Vec::new();
    for _ in 0..10_000 {
        let statuses = population.steps(most).unwrap();
        scores.extend(population.validate().unwrap());
        if statuses.iter().all(|s| !s.active) {
            break;
        }
    }
    scores.sort_by_key(|s| (s.id, s.epoch));
    let params = members.iter().map(|m| bits(&population.params(m.id).unwrap())).collect();
    Became { params, scores, ends: population.statuses() }
}

fn of(became: &Became, members: &[Member], id: u32) -> (Vec<u32>, Vec<Score>) {
    let at = members.iter().position(|m| m.id == id).unwrap();
    (became.params[at].clone(), became.scores.iter().filter(|s| s.id == id).cloned().collect())
}

/// NaN equals NaN here.
fn same(a: &[Score], b: &[Score]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            (a.id, a.epoch, &a.confusion, a.loss.to_bits()) == (b.id, b.epoch, &b.confusion, b.loss.to_bits())
        })
}

#[test]
fn a_member_alone_gives_the_bits_it_gives_among_31_others() {
    for (name, device) in devices() {
        for precision in [Precision::F32, Precision::Bf16] {
            let made = Made::new(NETS[1], 150);
            let members: Vec<Member> = (0..32).map(|id| made.member(id)).collect();
            let all = train(&device, &made, &members, 32, precision, 32);
            for id in [0, 3, 17, 31] {
                let (params, scores) = of(&all, &members, id);
                let alone = train(&device, &made, &[made.member(id)], 32, precision, 5);
                assert!(params == alone.params[0], "{name} {precision:?}: member {id}");
                assert!(same(&scores, &alone.scores), "{name} {precision:?}: scores of member {id}");
            }
        }
    }
}

#[test]
fn the_order_of_members_and_the_chunks_change_nothing() {
    for (name, device) in devices() {
        let made = Made::new(NETS[2], 120);
        let members: Vec<Member> = (0..7).map(|id| made.member(id)).collect();
        let turned: Vec<Member> = members.iter().rev().cloned().collect();
        let (one, other) = (
            train(&device, &made, &members, 16, Precision::F32, 32),
            train(&device, &made, &turned, 16, Precision::F32, 1),
        );
        for id in 0..7 {
            let (a, b) = (of(&one, &members, id), of(&other, &turned, id));
            assert!(a.0 == b.0 && same(&a.1, &b.1), "{name}: member {id}");
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for net in NETS {
        let made = Made::new(net, 300);
        let members: Vec<Member> = (0..5).map(|id| made.member(id)).collect();
        let run = |threads| train(&Opened::Cpu { threads }, &made, &members, 64, Precision::F32, 32);
        let (one, two, many) = (run(1), run(2), run(16));
        assert!(one.params == two.params && one.params == many.params, "{net}");
        assert!(same(&one.scores, &two.scores) && same(&one.scores, &many.scores), "{net}");
    }
}

#[test]
fn members_end_at_their_own_time() {
    for (name, device) in devices() {
        let made = Made::new(NETS[0], 101);
        let members: Vec<Member> = (0..6).map(|id| made.member(id)).collect();
        let became = train(&device, &made, &members, 16, Precision::F32, 32);
        for (member, end) in members.iter().zip(&became.ends) {
            let samples = made.lists[member.train].len() as u32;
            assert_eq!(
                (end.id, end.epoch, end.step),
                (member.id, member.epochs, member.epochs * samples.div_ceil(16)),
                "{name}"
            );
            assert!(!end.active && !end.due && !end.fault && end.loss.is_finite(), "{name}: {end:?}");
            let scores: Vec<&Score> = became.scores.iter().filter(|s| s.id == member.id).collect();
            assert_eq!(scores.len(), member.epochs as usize, "{name}: one score for each epoch");
            for score in scores {
                let rows: u64 = score.confusion.iter().take(1).flatten().sum();
                let wanted = member.valid.map_or(0, |list| made.lists[list].len() as u64);
                assert_eq!(rows, wanted, "{name}: every row of the validation list counted once");
                assert_eq!(score.loss.is_finite(), member.valid.is_some(), "{name}: {score:?}");
            }
        }
    }
}

#[test]
fn it_learns() {
    for (name, device) in devices() {
        for precision in [Precision::F32, Precision::Bf16] {
            let made = Made::new("6-32-3", 2000);
            let member = Member { epochs: 30, rate: 0.01, train: 1, valid: Some(3), ..made.member(3) };
            let became = train(&device, &made, &[member], 128, precision, 32);
            let score = became.scores.last().unwrap();
            let right: u64 = (0..3).map(|c| score.confusion[0][c * 4]).sum();
            let all: u64 = score.confusion[0].iter().sum();
            assert!(right as f64 / all as f64 > 0.8, "{name} {precision:?}: {right} of {all} right");
        }
    }
}

#[test]
fn a_number_that_is_none_stops_its_member_and_is_named() {
    for (name, device) in devices() {
        let mut made = Made::new(NETS[0], 100);
        made.spoil(50);
        // Member 1 trains on the even rows and meets the bad one; member 3 takes every fourth row, and 50 is not among them.
        let members = [made.member(1), made.member(3)];
        let recipe = recipe(16, Precision::F32);
        let mut population =
            Population::new(&device, Budget::default(), &made.net, &made.data(), &recipe, &members).unwrap();
        let mut before = population.params(1).unwrap();
        for _ in 0..200 {
            let statuses = population.steps(1).unwrap();
            population.validate().unwrap();
            if statuses[0].fault {
                break;
            }
            before = population.params(1).unwrap();
        }
        let fault = population.fault(1).unwrap();
        let Some(Error::NotFinite { member: 1, tensor, .. }) = &fault else { panic!("{name}: {fault:?}") };
        assert!(tensor.starts_with("the gradient of trunk.0"), "{name}: {tensor}");
        assert_eq!(bits(&before), bits(&population.params(1).unwrap()), "{name}: as before that step");
        for _ in 0..200 {
            population.steps(32).unwrap();
            population.validate().unwrap();
        }
        let end = population.statuses();
        assert!(!end[1].fault && !end[1].active && end[1].epoch == members[1].epochs, "{name}: {end:?}");
        assert_eq!(population.fault(3).unwrap(), None);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_figures() {
    for (name, device) in devices() {
        let made = Made::new(NETS[0], 1000);
        let members: Vec<Member> = (0..64).map(|id| made.member(id)).collect();
        let recipe = recipe(256, Precision::F32);
        let one = Population::need(&device, &made.net, &made.data(), &recipe, &members[..1]).unwrap();
        let all = Population::need(&device, &made.net, &made.data(), &recipe, &members).unwrap();
        assert!(one < all, "{name}");
        let refused = |budget: u64| {
            Population::new(&device, Budget::Bytes(budget), &made.net, &made.data(), &recipe, &members).err().unwrap()
        };
        let Error::Memory { needed, budget, fits, .. } = refused((one + all) / 2) else { panic!("{name}") };
        assert_eq!((needed, budget), (all, (one + all) / 2));
        assert!(fits.contains("members at once"), "{name}: {fits}");
        let Error::Memory { fits, .. } = refused(1000) else { panic!("{name}") };
        assert!(fits.contains("even one member does not fit"), "{name}: {fits}");
    }
}

#[test]
fn parameters_go_out_and_in_and_logits_follow_them() {
    for (name, device) in devices() {
        for (net, precision) in NETS.iter().flat_map(|n| [(n, Precision::F32), (n, Precision::Bf16)]) {
            let made = Made::new(net, 90);
            let members = [made.member(0), made.member(2)];
            let recipe = recipe(32, precision);
            let make =
                || Population::new(&device, Budget::default(), &made.net, &made.data(), &recipe, &members).unwrap();
            let (mut one, mut other) = (make(), make());
            one.steps(3).unwrap();
            let row = one.params(2).unwrap();
            let bytes = one.save(2).unwrap();
            assert_eq!(bits(&crate::net::load(&made.net, one.layout(), &bytes).unwrap()), bits(&row), "{name} {net}");
            other.set_params(2, &row).unwrap();
            let rows: Vec<u32> = made.lists[2].clone();
            let logits = |p: &mut Population| p.logits(2, &rows).unwrap().iter().map(|h| bits(h)).collect::<Vec<_>>();
            let (a, b) = (logits(&mut one), logits(&mut other));
            assert!(a == b, "{name} {net}");
            assert_eq!(
                a.iter().map(Vec::len).sum::<usize>(),
                rows.len() * made.net.heads.iter().map(|h| h.classes).sum::<usize>()
            );
            assert!(other.set_params(2, &row[1..]).is_err() && other.params(9).is_err());
        }
    }
}

#[test]
fn stopped_members_make_room_and_the_others_go_on() {
    for (name, device) in devices() {
        let made = Made::new(NETS[1], 80);
        let members: Vec<Member> = (0..9).map(|id| Member { epochs: 4, ..made.member(id) }).collect();
        let recipe = recipe(16, Precision::F32);
        let mut population =
            Population::new(&device, Budget::default(), &made.net, &made.data(), &recipe, &members).unwrap();
        population.steps(2).unwrap();
        for id in [0, 1, 2, 3, 5, 7] {
            population.stop(id).unwrap();
        }
        while population.steps(32).unwrap().iter().any(|s| s.active) {
            population.validate().unwrap();
        }
        for id in [4, 6, 8] {
            let alone = train(&device, &made, &[members[id as usize].clone()], 16, Precision::F32, 32);
            assert!(bits(&population.params(id).unwrap()) == alone.params[0], "{name}: member {id}");
        }
        assert!(population.stop(77).is_err());
    }
}
