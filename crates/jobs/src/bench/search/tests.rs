//! What rows of `bench search` count, and what is refused.

use super::*;

fn request(mode: &str) -> BenchSearch {
    BenchSearch {
        net: "16t,16t".into(),
        roots: vec![5, 40],
        simulations: vec![3, 7],
        scenarios: 8,
        mode: mode.into(),
        precision: "auto".into(),
        device: "cpu".into(),
        seconds: 1e-3,
    }
}

/// Leaves are counted as the modes have them, and rates follow from each other.
#[test]
fn rows_count_simulations_and_leaves() {
    let mut settings = Settings::default();
    settings.set("threads=2").unwrap();
    let benched = bench_search(&request("auto"), &settings, &mut |_| {}).unwrap();
    let keys: Vec<(&str, usize, usize)> = benched.rows.iter().map(|r| (r.mode, r.roots, r.simulations)).collect();
    let each = [(5, 3), (5, 7), (40, 3), (40, 7)];
    let wanted: Vec<(&str, usize, usize)> =
        ["honest", "reference"].iter().flat_map(|mode| each.map(|(r, s)| (*mode, r, s))).collect();
    assert_eq!(keys, wanted);
    for row in &benched.rows {
        let (per_s, ms) = (row.simulations_per_s.unwrap(), row.search_ms.unwrap());
        let simulations = (row.roots * row.simulations) as f64;
        assert!((per_s * ms / 1e3 / simulations - 1.0).abs() < 1e-9, "{row:?}");
        let leaves = row.leaves_per_s.unwrap() * ms / 1e3 / row.roots as f64;
        match row.mode {
            // The root and every simulation.
            "reference" => assert!((leaves - (1 + row.simulations) as f64).abs() < 1e-6, "{row:?}"),
            // The root, three actions on all scenarios, and 16 codes for a simulation that expands something.
            _ => {
                let most = (1 + 3 * 8 + 16 * row.simulations) as f64;
                assert!((25.0 - 1e-6..=most + 1e-6).contains(&leaves), "{leaves} of {most}: {row:?}");
            }
        }
        // The net alone takes as many rows at once as the search.
        assert_eq!(row.inference_batch, row.roots * if row.mode == "honest" { 16 } else { 1 }, "{row:?}");
        let share = row.share_of_inference.unwrap();
        assert!(share > 0.0 && row.inference_rows_per_s.unwrap() > 0.0 && row.memory_bytes > 1000, "{row:?}");
    }
    // More simulations are more memory.
    assert!(benched.rows[0].memory_bytes < benched.rows[1].memory_bytes);
}

/// What does not fit is said and not run; what makes no sense is refused.
#[test]
fn rows_beyond_the_budget_are_not_run() {
    let mut settings = Settings::default();
    settings.set("memory=64MiB").unwrap();
    let large = BenchSearch { simulations: vec![4, 20_000], ..request("honest") };
    let benched = bench_search(&large, &settings, &mut |_| {}).unwrap();
    for row in &benched.rows {
        let fits = row.memory_bytes <= 64 << 20;
        assert_eq!(fits, row.simulations == 4, "{row:?}");
        assert_eq!((row.simulations_per_s.is_some(), row.refused.is_none()), (fits, fits), "{row:?}");
    }
    let said = benched.rows[1].refused.clone().unwrap();
    assert!(said.contains("the memory budget is 64.0 MiB"), "{said}");
    for (wrong, part) in [
        (BenchSearch { mode: "fast".into(), ..request("") }, "<mode=fast>"),
        (BenchSearch { net: "row:3 / 8 / policy:3 + value:1".into(), ..request("auto") }, "64 numbers"),
        (BenchSearch { net: "8-x".into(), ..request("auto") }, "column"),
        (BenchSearch { seconds: 0.0, ..request("auto") }, "not a usable time"),
        (BenchSearch { precision: "tf32".into(), ..request("auto") }, "<precision=tf32>"),
        (BenchSearch { device: "tpu".into(), ..request("auto") }, "not a device"),
    ] {
        let why = bench_search(&wrong, &settings, &mut |_| {}).unwrap_err();
        assert!(why.kind == Kind::Usage && why.to_string().contains(part), "{part}: {why}");
    }
}
