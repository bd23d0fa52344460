//! The bootstrap's own parts: cuts, near rows, moved bars.

use super::*;

/// A walk whose next move follows from column 1 of 3: its sign times three deviations.
fn walk(n: usize) -> (Vec<f32>, Vec<TrainingRow>) {
    let mut random = random::SplitMix::new(5);
    let (mut observations, mut rows, mut close) = (Vec::new(), Vec::new(), 100.0);
    let mut move_next = 0.0;
    for clock in 0..n as u32 {
        let open = close;
        close *= 1.0 + move_next;
        let bar = Bar { open, close, high: open.max(close), low: open.min(close), sigma: 0.01, ..Bar::flat(close) };
        let sign = if random.unit() < 0.5 { -1.0 } else { 1.0 };
        move_next = 0.03 * sign + 0.01 * (random.unit() - 0.5);
        observations.extend([random.unit() as f32, sign as f32, random.unit() as f32]);
        rows.push(TrainingRow { bar, time: [0.0; 2], clock, continues: true });
    }
    (observations, rows)
}

fn known(observation: [f32; 3]) -> InfoSet {
    let params = account::Params::default();
    let account = account::Account::new(&params);
    let bar = Bar { sigma: 0.02, ..Bar::flat(50.0) };
    InfoSet { observation: observation.to_vec(), bar, time: [0.0; 2], params, account, excluded: 0..0 }
}

fn model(n: usize) -> Bootstrap {
    let (observations, rows) = walk(n);
    Bootstrap::new(Rows::cut(&observations, 3, &rows, |_| true).unwrap()).unwrap()
}

fn codes(model: &Bootstrap, known: &InfoSet, state: &Drawn, path: u64) -> Vec<Drawn> {
    let mut to = Vec::new();
    model.draw(known, state, Draws::new(3, path), 64, &mut to);
    to.iter().map(|chance| chance.market).collect()
}

#[test]
fn the_column_that_tells_is_chosen_and_its_rows_are_drawn() {
    let model = model(4000);
    assert_eq!(model.score().columns, [1]);
    let ModelScore { crps, crps_of_all, coverage, .. } = *model.score();
    assert!(crps < 0.2 * crps_of_all && (0.7..0.9).contains(&coverage), "{crps} {crps_of_all} {coverage}");
    for sign in [-1.0, 1.0] {
        let known = known([0.5, sign, 0.5]);
        for drawn in codes(&model, &known, &model.root(&known), 7) {
            // Twice the deviation, so twice the move; the open is the close before.
            let moved = drawn.bar.close / 50.0 - 1.0;
            assert!((moved - 0.06 * f64::from(sign)).abs() < 0.011, "{moved}");
            assert!((drawn.bar.open - 50.0).abs() < 1e-9 && (drawn.bar.sigma - 0.02).abs() < 1e-12);
        }
    }
}

#[test]
fn columns_that_know_nothing_are_left_out() {
    let (mut observations, rows) = walk(4000);
    observations.chunks_exact_mut(3).for_each(|row| row[1] = 0.0);
    let model = Bootstrap::new(Rows::cut(&observations, 3, &rows, |_| true).unwrap()).unwrap();
    assert!(model.score().columns.is_empty(), "{:?}", model.score());
}

#[test]
fn a_rows_own_continuation_is_drawn_at_most_once() {
    let model = model(128);
    let root = known([0.5, 1.0, 0.5]);
    let mut seen = 0;
    for path in 0..200 {
        let state = codes(&model, &root, &model.root(&root), path)[0];
        let own = state.row.unwrap() + 1;
        let drawn = codes(&model, &root, &state, path + 1000);
        let same = drawn.iter().filter(|next| next.row == Some(own)).count();
        assert!(same <= 1, "{same}");
        seen += same;
    }
    assert!(seen > 0, "a continuation may be drawn");
}

#[test]
fn rows_within_the_horizon_of_a_root_are_never_drawn() {
    let model = model(400);
    let known = InfoSet { excluded: 100..390, ..known([0.5, 1.0, 0.5]) };
    for path in 0..50 {
        for drawn in codes(&model, &known, &model.root(&known), path) {
            assert!(!known.excluded.contains(&drawn.row.unwrap()), "{drawn:?}");
        }
    }
}

#[test]
fn where_a_whole_cell_lies_within_the_horizon_others_are_drawn_alike() {
    let (mut observations, rows) = walk(400);
    (0..400u16).for_each(|row| observations[usize::from(row) * 3] = f32::from(row));
    let rows = Rows::cut(&observations, 3, &rows, |_| true).unwrap();
    let before = rows.predecessors();
    // Cells of fifty rows, one behind the other in time.
    let cells = Cells::new(&rows, &before, &[0]);
    let (_, score) = score::choose(&rows, &before);
    let model = Bootstrap { rows, cells, score };
    let known = InfoSet { excluded: 120..280, ..known([200.0, 1.0, 0.5]) };
    let mut counts = [0u32; 400];
    for path in 0..50 {
        for drawn in codes(&model, &known, &model.root(&known), path) {
            counts[drawn.row.unwrap() as usize] += 1;
        }
    }
    assert!(counts[120..280].iter().all(|count| *count == 0));
    // 3,200 draws of 239 rows: each is drawn, and those beside the horizon no more than others.
    let drawn = || counts[1..120].iter().chain(&counts[280..]);
    assert!(drawn().all(|count| (1..40).contains(count)), "{counts:?}");
    assert!(model.rows.check_drawn().is_ok());
}

#[test]
fn where_all_rows_lie_within_the_horizon_it_is_an_error() {
    let model = model(400);
    let known = InfoSet { excluded: 0..400, ..known([0.5, 1.0, 0.5]) };
    codes(&model, &known, &model.root(&known), 7);
    assert!(!model.rows.reached_behind());
    let error = model.rows.check_drawn().unwrap_err().to_string();
    assert!(error.contains("smaller horizon"), "{error}");
}

#[test]
fn nothing_behind_the_end_of_the_training_is_kept_or_reached() {
    let (mut observations, mut rows) = walk(600);
    let cut = |observations: &[f32], rows: &[TrainingRow]| {
        Bootstrap::new(Rows::cut(observations, 3, rows, |row| row.clock < 400).unwrap()).unwrap()
    };
    let clean = cut(&observations, &rows);
    observations[400 * 3..].fill(f32::NAN);
    rows[400..].iter_mut().for_each(|row| row.bar = Bar { sigma: f64::NAN, ..Bar::flat(f64::NAN) });
    let poisoned = cut(&observations, &rows);
    assert_eq!((clean.rows.len(), poisoned.rows.len()), (400, 400));
    assert_eq!(clean.score(), poisoned.score());
    let known = known([0.5, 1.0, 0.5]);
    for path in 0..50 {
        let [a, b] = [&clean, &poisoned].map(|model| codes(model, &known, &model.root(&known), path));
        assert_eq!(a, b);
    }
    assert!(!clean.rows.reached_behind());
    // A row behind the end is the last one, and is noted.
    assert_eq!(clean.rows.row(4000).clock, 399);
    assert!(clean.rows.reached_behind());
}

#[test]
fn a_fall_is_never_to_nothing() {
    let before = Bar { sigma: 0.01, ..Bar::flat(100.0) };
    let next = Bar { open: 90.0, high: 91.0, low: 60.0, close: 70.0, ..before };
    let bar = moved(&Bar { sigma: 0.1, ..Bar::flat(10.0) }, &before, &next);
    assert!(bar.low > 0.49 && bar.low <= bar.close && bar.close <= bar.open && bar.open <= bar.high, "{bar:?}");
}

#[test]
fn too_few_rows_are_refused() {
    let (observations, rows) = walk(20);
    let short = Rows::cut(&observations, 3, &rows, |_| true).unwrap();
    assert!(Bootstrap::new(short).unwrap_err().to_string().contains("at least 64"));
    assert!(Rows::cut(&observations, 3, &rows, |_| false).is_err());
}

/// Every field of a bar, where volatility is twice that of the row and prices half.
#[test]
fn the_whole_bar_is_moved_and_rescaled() {
    let before = Bar { fx_close: 1.25, sigma: 0.01, half_spread: 1e-4, volume: 7.0, ..Bar::flat(100.0) };
    let next = Bar {
        open: 50.5,
        high: 51.0,
        low: 49.0,
        close: 50.25,
        fx_open: 1.5,
        fx_close: 2.0,
        tradable: 1.0,
        split: 2.0,
        dividend: 0.5,
        funding_open: 0.25,
        funding_inside: -0.125,
        swap_open: 0.01,
        swap_inside: 0.02,
        borrow_open: 0.03,
        borrow_inside: 0.04,
        close_out: 1.0,
        sigma: 0.015,
        volume: 9.0,
        half_spread: 2e-4,
        flat_next: 1.0,
    };
    let now = Bar { fx_close: 3.0, sigma: 0.02, volume: 11.0, half_spread: 5e-4, ..Bar::flat(40.0) };
    // A split of two: 50.5 is 1 % above 100, which at twice the volatility is 2 %.
    let wanted = Bar {
        open: 40.8,
        high: 41.6,
        low: 38.4,
        close: 40.4,
        fx_open: 3.6,
        fx_close: 4.8,
        tradable: 1.0,
        split: 1.0,
        dividend: 0.4,
        funding_open: 0.2,
        funding_inside: -0.1,
        swap_open: 0.01,
        swap_inside: 0.02,
        borrow_open: 0.03,
        borrow_inside: 0.04,
        close_out: 0.0,
        sigma: 0.03,
        volume: 11.0,
        half_spread: 4e-4,
        flat_next: 1.0,
    };
    for (at, (own, wanted)) in moved(&now, &before, &next).numbers().into_iter().zip(wanted.numbers()).enumerate() {
        assert!((own - wanted).abs() <= 1e-12 * wanted.abs().max(1.0), "number {at}: {own}, not {wanted}");
    }
    // Five times as volatile at most, and no price falls below a twentieth.
    let wild = Bar { sigma: 1.0, ..now };
    let far = moved(&wild, &before, &next);
    assert!((far.close / 40.0 - 1.025).abs() < 1e-12 && (far.sigma - 0.075).abs() < 1e-12, "{far:?}");
    let crash = moved(&wild, &before, &Bar { low: 25.0, ..next });
    assert!((crash.low / 40.0 - 0.05).abs() < 1e-12, "{crash:?}");
}
