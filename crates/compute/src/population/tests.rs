//! One suite for every device: the processor with one, two and sixteen threads, and a card with and without cuBLASLt
//! where there is one.

use super::make::{Made, recipe};
use super::{Member, Pace, Population, Precision, Recipe, Schedule, Score, Snapshot, State, Status};
use crate::cuda::{Context, gpus};
use crate::device::{Budget, Opened};
use crate::error::Error;
use crate::random::philox;
use std::sync::Arc;

const NETS: [&str; 6] = [
    "7-12-3",
    "16-64t-32-2",
    "fast:5x4-24-16t + slow:3-8 / 40 / side:3 + size:5",
    "12-3",
    "fast:5x6-lstm12-lstm7 + slow:3x4-lstm9-6t / 8 / side:3",
    "fast:5x6-lstm12d20-8ntd10 + slow:3x4-12n / 16nd25 / side:3 + size:5",
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

/// The first card with and without cuBLASLt. Where there is none the test is skipped, aloud; a card that cannot be
/// opened is another reason, which CI does not accept.
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

/// For whoever wants to know how far from its limits a test is (`--nocapture`).
#[expect(clippy::print_stdout, reason = "tests are asked for it by hand")]
pub(crate) fn say(what: &str) {
    println!("{what}");
}

/// As xtask's `test.rs` asks for.
#[expect(clippy::print_stdout, reason = "this is how a skip is told")]
pub(crate) fn skip(why: &str) {
    use std::io::Write;
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    match log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
        Some(mut file) => file.write_all(format!("{why}\n").as_bytes()).unwrap(),
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
    let mut population = made.population(device, &recipe, members);
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
        for (precision, net) in [Precision::F32, Precision::Bf16].into_iter().flat_map(|p| [(p, NETS[1]), (p, NETS[5])])
        {
            let made = Made::new(net, 150);
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
        for net in [NETS[2], NETS[5]] {
            let made = Made::new(net, 120);
            let members: Vec<Member> = (0..7).map(|id| made.member(id)).collect();
            let turned: Vec<Member> = members.iter().rev().cloned().collect();
            let (one, other) = (
                train(&device, &made, &members, 16, Precision::F32, 32),
                train(&device, &made, &turned, 16, Precision::F32, 1),
            );
            for id in 0..7 {
                let (a, b) = (of(&one, &members, id), of(&other, &turned, id));
                assert!(a.0 == b.0 && same(&a.1, &b.1), "{name} {net}: member {id}");
            }
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
fn a_population_learns_a_planted_signal() {
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
fn a_population_learns_with_every_option_on() {
    for (name, device) in devices() {
        for precision in [Precision::F32, Precision::Bf16] {
            let made = Made::new("6-64nd20-32td10-3", 2000);
            let member = Member { epochs: 30, rate: 0.01, train: 1, valid: Some(3), ..made.member(3) };
            let schedule = Schedule::one_cycle(0.3, 0.01);
            let recipe = Recipe { schedule, smoothing: 0.05, average: Some(0.98), ..recipe(128, precision) };
            let mut p = made.population(&device, &recipe, &[member]);
            let mut last = None;
            while p.steps(32).unwrap()[0].active {
                last = p.validate().unwrap().pop().or(last);
            }
            last = p.validate().unwrap().pop().or(last);
            let score = last.unwrap();
            let right: u64 = (0..3).map(|c| score.confusion[0][c * 4]).sum();
            let all: u64 = score.confusion[0].iter().sum();
            assert!(right as f64 / all as f64 > 0.8, "{name} {precision:?}: {right} of {all} right");
        }
    }
}

#[test]
fn a_nan_stops_its_member_and_names_the_tensor() {
    for (name, device) in devices() {
        let mut made = Made::new(NETS[0], 100);
        made.spoil(50);
        // Member 1 trains on the even rows and meets the bad one; member 3 takes every fourth row, and 50 is not among
        // them.
        let members = [made.member(1), made.member(3)];
        let recipe = recipe(16, Precision::F32);
        let mut population = made.population(&device, &recipe, &members);
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
fn concurrent_populations_share_scratch_memory_but_no_bits() {
    for (name, device) in devices() {
        for precision in [Precision::F32, Precision::Bf16] {
            let made = Made::new("16-320-256t-3", 300);
            let members: Vec<Member> = (0..5).map(|id| made.member(id)).collect();
            let run = |members: &[Member]| train(&device, &made, members, 64, precision, 5);
            let alone = [run(&members[..2]), run(&members[2..])];
            let together = std::thread::scope(|scope| {
                let one = scope.spawn(|| run(&members[..2]));
                let other = run(&members[2..]);
                [one.join().unwrap(), other]
            });
            for (got, wanted) in together.iter().zip(&alone) {
                let equal = got.params == wanted.params && same(&got.scores, &wanted.scores);
                assert!(equal, "{name} {precision:?}");
            }
        }
        let Opened::Cuda(context) = &device else { continue };
        assert_eq!(context.shared_bytes(), 0);
        let (made, recipe) = (Made::new("16-8-3", 90), recipe(32, Precision::F32));
        let make = |id| made.population(&device, &recipe, &[made.member(id)]);
        let (one, other) = (make(0), make(1));
        let shared = [context.shared_bytes(), drop_and(one, context), drop_and(other, context)];
        assert!(shared[0] > 0 && shared == [shared[0], shared[0], 0], "{name}: {shared:?}");
    }
}

/// What is shared when a population has gone.
fn drop_and(population: Population, context: &Context) -> u64 {
    drop(population);
    context.shared_bytes()
}

#[test]
fn a_member_that_adopts_another_keeps_its_place() {
    for (name, device) in devices() {
        for precision in [Precision::F32, Precision::Bf16] {
            let made = Made::new(NETS[2], 200);
            let members = [made.member(0), made.member(1)];
            let recipe = Recipe { average: Some(0.9), ..recipe(32, precision) };
            let make = || {
                let mut population = made.population(&device, &recipe, &members);
                population.steps(2).unwrap();
                population
            };
            let (mut one, mut other) = (make(), make());
            one.adopt(0, 1).unwrap();
            let (own, of) = (other.snapshot(1).unwrap(), other.snapshot(0).unwrap());
            other.restore(&Snapshot { state: own.state, gradient: own.gradient, ..of }).unwrap();
            assert_eq!(one.snapshot(1).unwrap().to_bytes(), other.snapshot(1).unwrap().to_bytes(), "{name}");
            one.steps(2).unwrap();
            other.steps(2).unwrap();
            assert_eq!(bits(&one.params(1).unwrap()), bits(&other.params(1).unwrap()), "{name} {precision:?}");
            assert!(one.adopt(0, 9).is_err());
        }
    }
}

#[test]
fn too_large_a_request_is_refused_with_figures() {
    for (name, device) in devices() {
        let made = Made::new(NETS[0], 1000);
        let members: Vec<Member> = (0..64).map(|id| made.member(id)).collect();
        let recipe = recipe(256, Precision::F32);
        let need =
            |members| Population::need(&device, &made.net, &made.data(), &recipe, members, Pace::default()).unwrap();
        let (one, all) = (need(&members[..1]), need(&members));
        assert!(one < all, "{name}");
        let tables = made.tables(&device).unwrap();
        // What the tables take is counted beside what the population may.
        let refused = |budget: u64| {
            let budget = Budget::Bytes(tables.bytes() + budget);
            Population::new(&device, budget, &made.net, &tables, &made.data(), &recipe, &members).err().unwrap()
        };
        let Error::Memory { needed, budget, fits, .. } = refused((one + all) / 2) else { panic!("{name}") };
        assert_eq!((needed, budget), (all, (one + all) / 2));
        assert!(fits.contains("members at once"), "{name}: {fits}");
        let Error::Memory { fits, .. } = refused(1000) else { panic!("{name}") };
        assert!(fits.contains("even one member does not fit"), "{name}: {fits}");
    }
}

#[test]
fn parameters_round_trip_and_logits_follow_them() {
    for (name, device) in devices() {
        for (net, precision) in NETS.iter().flat_map(|n| [(n, Precision::F32), (n, Precision::Bf16)]) {
            let made = Made::new(net, 90);
            let members = [made.member(0), made.member(2)];
            let recipe = recipe(32, precision);
            let make = || made.population(&device, &recipe, &members);
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
fn stopped_members_free_their_slot_and_the_others_continue() {
    for (name, device) in devices() {
        let made = Made::new(NETS[1], 80);
        let members: Vec<Member> = (0..9).map(|id| Member { epochs: 4, ..made.member(id) }).collect();
        let recipe = recipe(16, Precision::F32);
        let mut population = made.population(&device, &recipe, &members);
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

/// What is left of a run after a cut: every member's snapshot, as bytes.
fn cut(population: &mut Population, members: &[Member]) -> Vec<Vec<u8>> {
    members.iter().map(|m| population.snapshot(m.id).unwrap().to_bytes()).collect()
}

#[test]
fn a_restored_member_continues_with_the_same_bits() {
    let recipes = [(Precision::F32, None), (Precision::Bf16, Some(0.9))];
    for ((name, device), (precision, average)) in devices().into_iter().flat_map(|d| recipes.map(|r| (d.clone(), r))) {
        for net in [NETS[0], NETS[2], NETS[4], NETS[5]] {
            let made = Made::new(net, 100);
            let members: Vec<Member> = (0..5).map(|id| made.member(id)).collect();
            let recipe = Recipe { average, ..recipe(16, precision) };
            let make = |members: &[Member]| made.population(&device, &recipe, members);
            // Trains on, and is cut where `cuts` says, by the number of chunks; members turn round each time.
            let run = |cuts: &[u32]| {
                let (mut order, mut population) = (members.clone(), make(&members));
                let mut scores = Vec::new();
                for chunk in 0..1000 {
                    let statuses = population.steps(1 + chunk % 3).unwrap();
                    let stored = cuts.contains(&chunk).then(|| cut(&mut population, &order));
                    if let Some(stored) = stored {
                        drop(population);
                        order.reverse();
                        population = make(&order);
                        for bytes in stored {
                            population.restore(&Snapshot::from_bytes(&bytes).unwrap()).unwrap();
                        }
                    }
                    scores.extend(population.validate().unwrap());
                    if statuses.iter().all(|s| !s.active) {
                        break;
                    }
                }
                scores.sort_by_key(|s| (s.id, s.epoch));
                let mut ends = population.statuses();
                ends.sort_by_key(|s| s.id);
                let rows: Vec<_> = members.iter().map(|m| population.snapshot(m.id).unwrap()).collect();
                let rows: Vec<_> = rows.iter().map(|s| [&s.params, &s.mean, &s.square].map(|row| bits(row))).collect();
                let params: Vec<_> = members.iter().map(|m| bits(&population.params(m.id).unwrap())).collect();
                (rows, params, scores, ends)
            };
            let whole = run(&[]);
            let draw = |i: u32| philox(7, [i, 0, 0, 0])[0] % 14;
            for cuts in [vec![draw(0)], vec![draw(1), draw(2)], (0..40).collect()] {
                let parts = run(&cuts);
                assert!(parts.0 == whole.0 && parts.1 == whole.1, "{name} {net} {precision:?}, cut at {cuts:?}");
                assert!(same(&parts.2, &whole.2) && parts.3 == whole.3, "{name} {net} {precision:?}, cut at {cuts:?}");
            }
        }
    }
}

#[test]
fn a_snapshot_keeps_the_reason_of_a_fault() {
    for (name, device) in devices() {
        let mut made = Made::new(NETS[0], 100);
        made.spoil(50);
        let (members, recipe) = ([made.member(1)], recipe(16, Precision::F32));
        let make = || made.population(&device, &recipe, &members);
        let (mut one, mut other) = (make(), make());
        while one.steps(1).unwrap()[0].active {
            one.validate().unwrap();
        }
        let fault = one.fault(1).unwrap();
        assert!(fault.is_some(), "{name}");
        other.restore(&Snapshot::from_bytes(&one.snapshot(1).unwrap().to_bytes()).unwrap()).unwrap();
        assert_eq!(other.fault(1).unwrap(), fault, "{name}");
        assert_eq!(format!("{:?}", other.statuses()), format!("{:?}", one.statuses()), "{name}");
    }
}

#[test]
fn snapshots_of_other_nets_and_foreign_bytes_are_refused() {
    let made = Made::new(NETS[0], 100);
    let make = |made: &Made, recipe: &Recipe, member: Member| {
        let device = Opened::Cpu { threads: 1 };
        made.population(&device, recipe, &[member])
    };
    let plain = recipe(16, Precision::F32);
    let mut population = make(&made, &plain, made.member(1));
    population.steps(2).unwrap();
    let snapshot = population.snapshot(1).unwrap();
    let refused = |mut population: Population, snapshot: &Snapshot, words: &str| {
        let before = population.snapshot(1);
        let Err(Error::Invalid(message)) = population.restore(snapshot) else { panic!("{words}") };
        assert!(message.contains(words), "`{message}` does not say `{words}`");
        assert!(population.snapshot(1) == before, "{words}: nothing is changed");
    };
    let fresh = || make(&made, &plain, made.member(1));
    refused(make(&made, &plain, made.member(2)), &snapshot, "no member 1");
    refused(make(&Made::new("7-11-3", 100), &plain, made.member(1)), &snapshot, "was taken of the net `7-12-3`");
    refused(make(&Made::new(NETS[0], 90), &plain, made.member(1)), &snapshot, "samples");
    refused(make(&made, &plain, Member { epochs: 9, ..made.member(1) }), &snapshot, "epochs");
    refused(make(&made, &plain, Member { rate: 0.5, ..made.member(1) }), &snapshot, "rate of");
    refused(make(&made, &Recipe { average: Some(0.5), ..plain }, made.member(1)), &snapshot, "has no average");
    refused(make(&made, &Recipe { batch: 15, ..plain }, made.member(1)), &snapshot, "another recipe");
    let with = |change: &dyn Fn(&mut State)| {
        let mut snapshot = snapshot.clone();
        change(&mut snapshot.state);
        snapshot
    };
    for wrong in [
        with(&|s| s.epoch.cursor = s.epoch.samples + 16),
        with(&|s| s.epoch.cursor += 1),
        with(&|s| s.slot.step += 1),
        with(&|s| s.slot.due = 2),
        with(&|s| s.epoch.done = u32::MAX),
    ] {
        refused(fresh(), &wrong, "not between two batches");
    }
    refused(fresh(), &Snapshot { mean: vec![0.0; 3], ..snapshot.clone() }, "a row of 3 numbers");

    let bytes = snapshot.to_bytes();
    assert_eq!(Snapshot::from_bytes(&bytes).unwrap(), snapshot);
    // Cut anywhere, or one byte more: refused. Turned anywhere: refused, or another snapshot of the same size.
    let heads = 24 + snapshot.net.len() + 72;
    for length in (0..heads + 8).chain([bytes.len() - 1]) {
        assert!(Snapshot::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
    assert!(Snapshot::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    for at in 0..heads {
        for turn in [1, 0x80, 0xff] {
            let mut turned = bytes.clone();
            turned[at] ^= turn;
            if let Ok(other) = Snapshot::from_bytes(&turned) {
                assert_eq!(other.params, snapshot.params, "byte {at}");
                let _ = fresh().restore(&other);
            }
        }
    }
}

#[test]
fn a_mapped_table_gives_the_bits_of_its_expanded_rows() {
    for (name, device) in devices() {
        for (net, precision) in [(NETS[1], Precision::F32), (NETS[0], Precision::Bf16), (NETS[2], Precision::F32)] {
            let made = Made::new(net, 120);
            let mapped = made.behind_a_map();
            let members: Vec<Member> = (0..3).map(|id| made.member(id)).collect();
            let (a, b) = (
                train(&device, &made, &members, 32, precision, 32),
                train(&device, &mapped, &members, 32, precision, 32),
            );
            assert!(a.params == b.params && same(&a.scores, &b.scores), "{name} {net}");
        }
        // Windows reach back in the table, so that a window's rows are laid out with it.
        for (net, precision) in
            [("5x4-8-3", Precision::Bf16), ("6x5-lstm12-3", Precision::F32), ("6x5-lstm12-3", Precision::Bf16)]
        {
            let made = Made::new(net, 90);
            let mapped = made.behind_a_map();
            let (members, recipe) = ([made.member(0), made.member(1)], recipe(32, precision));
            let run = |made: &Made| {
                let mut p = made.population(&device, &recipe, &members);
                p.steps(3).unwrap();
                let logits = p.logits(1, &made.lists[3]).unwrap();
                (bits(&p.params(0).unwrap()), bits(&logits[0]))
            };
            assert!(run(&made) == run(&mapped), "{name} {net} {precision:?}");
        }
    }
}
