//! Every prefix of what a save does, as a kill or a power cut may leave it; every step that may fail; a disk that is
//! full for a while.

use std::io::ErrorKind;

use files::Kind;

use super::super::Store;
use super::faulty::{Faulty, Lost, Then};
use super::{found, generations, save};

/// More steps than a save has.
const ENOUGH: usize = 200;

/// Two generations, then a third save that meets the fault. Gives the folder, how the save ended, and what a power cut
/// might take.
fn stage(left: usize, then: Then) -> (tempfile::TempDir, files::Result<u64>, bool, Vec<Lost>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, trace) = Faulty::after(usize::MAX, then);
    let mut store = Store::open_on(folder.path(), disk).expect("opens");
    save(&mut store, 1).expect("saved");
    save(&mut store, 2).expect("saved");
    {
        let mut trace = trace.lock().expect("no panic");
        trace.left = left;
        trace.unsynced.clear();
    }
    let outcome = save(&mut store, 3);
    let trace = trace.lock().expect("no panic");
    (folder, outcome, trace.happened, trace.unsynced.clone())
}

#[test]
fn killed_between_any_two_steps_the_old_or_the_new_is_found() {
    let (mut old, mut new) = (0, 0);
    for n in 0..ENOUGH {
        let (folder, outcome, happened, _) = stage(n, Then::Killed);
        match found(folder.path()) {
            // Once the save has returned, it is there.
            Some(2) if outcome.is_err() => old += 1,
            Some(3) => new += 1,
            other => panic!("after {n} steps {other:?} was found, and the save said {outcome:?}"),
        }
        if !happened {
            break;
        }
    }
    // Four parts and a manifest, four steps each; then what follows the rename.
    assert!(old >= 20 && new >= 3, "{old} {new}");
}

#[test]
fn a_power_cut_after_any_step_leaves_the_old_or_the_new() {
    let mut cases = 0;
    for n in 0..ENOUGH {
        let (_, _, happened, unsynced) = stage(n, Then::Killed);
        // Any selection of what was not synced may be gone; with many, all but one and one alone stand for the rest.
        let all = (1u32 << unsynced.len()) - 1;
        let masks: Vec<u32> = match unsynced.len() {
            0..=4 => (0..=all).collect(),
            k => (0..k).flat_map(|i| [1 << i, all & !(1 << i)]).chain([all]).collect(),
        };
        for mask in masks {
            let (folder, outcome, _, unsynced) = stage(n, Then::Killed);
            for (i, lost) in unsynced.iter().enumerate().rev() {
                if mask >> i & 1 == 1 {
                    lost.undo();
                }
            }
            match found(folder.path()) {
                Some(2) if outcome.is_err() => {}
                Some(3) => {}
                other => panic!("a cut after {n} steps, losing {mask:b} of {unsynced:?}: {other:?}, {outcome:?}"),
            }
            cases += 1;
        }
        if !happened {
            break;
        }
    }
    assert!(cases > 100, "{cases}");
}

#[test]
fn a_step_that_fails_once_fails_the_save_and_nothing_else() {
    for kind in [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::PermissionDenied] {
        for n in 0..ENOUGH {
            let folder = tempfile::tempdir().expect("a folder");
            let (disk, trace) = Faulty::after(usize::MAX, Then::Fails(kind));
            let mut store = Store::open_on(folder.path(), disk).expect("opens");
            save(&mut store, 1).expect("saved");
            save(&mut store, 2).expect("saved");
            trace.lock().expect("no panic").left = n;
            match save(&mut store, 3) {
                Ok(_) => assert_eq!(store.newest().expect("whole").expect("there").about.step, 3),
                Err(error) => {
                    assert_eq!(error.kind, Kind::Machine, "{error}");
                    assert!(error.remedy.is_some() && error.file.is_some(), "{error}");
                    // Nothing half written is left, and both old ones are.
                    assert_eq!(generations(folder.path()), ["000001", "000002"], "{kind:?} at {n}: {error}");
                }
            }
            trace.lock().expect("no panic").left = usize::MAX;
            save(&mut store, 4).expect("the fault is over");
            assert_eq!(found(folder.path()), Some(4));
            if !trace.lock().expect("no panic").happened {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_keeps_the_old_and_takes_the_next_when_there_is_space() {
    for n in 0..ENOUGH {
        let folder = tempfile::tempdir().expect("a folder");
        let (disk, trace) = Faulty::after(usize::MAX, Then::Full);
        let mut store = Store::open_on(folder.path(), disk).expect("opens");
        save(&mut store, 1).expect("saved");
        trace.lock().expect("no panic").left = n;
        let mut refused = 0;
        for step in 2..5 {
            if let Err(error) = save(&mut store, step) {
                refused += 1;
                assert_eq!(error.kind, Kind::Machine);
                assert!(error.remedy.as_ref().is_some_and(|r| r.contains("space")), "{error:?}");
                assert!(store.newest().expect("whole").is_some());
            }
        }
        assert!(!generations(folder.path()).is_empty());
        trace.lock().expect("no panic").left = usize::MAX;
        save(&mut store, 9).expect("there is space again");
        assert_eq!(found(folder.path()), Some(9));
        if refused == 0 {
            break;
        }
    }
}
