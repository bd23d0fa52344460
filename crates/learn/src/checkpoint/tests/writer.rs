//! The thread that saves: it hands back its memory, tells its errors once, and finishes what was begun.

use files::Kind;

use super::super::{Staging, Store, View, Writer, list, newest};
use super::faulty::{Faulty, Then};
use super::{about, found, parts};

fn fill(staging: &mut Staging, step: u64) -> files::Result<()> {
    parts(step).iter().for_each(|(name, bytes)| staging.put(name, bytes));
    Ok(())
}

#[test]
fn the_writers_buffers_are_allocated_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("opens");
    let mut writer = Writer::new(store, &[5000, 1000, 0, 100]).expect("a thread");
    assert_eq!(writer.wait().expect("nothing failed"), None);
    let mut places = Vec::new();
    for step in 1..=5 {
        writer
            .submit(about(step), |staging| {
                let place = |(name, bytes): &(&str, Vec<u8>)| {
                    let part = staging.part(name);
                    part.extend_from_slice(bytes);
                    (part.as_ptr() as usize, part.capacity())
                };
                places.push(parts(step).iter().map(place).collect::<Vec<_>>());
                Ok(())
            })
            .expect("submitted");
    }
    assert_eq!(writer.wait().expect("saved"), Some(5));
    assert!(places.iter().all(|p| *p == places[0]), "{places:?}");
    assert!(places[0][0].1 >= 5000);
    assert_eq!(found(folder.path()), Some(5));
}

#[test]
fn fewer_parts_than_before_leave_no_old_ones_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::new(Store::open(folder.path()).expect("opens"), &[]).expect("a thread");
    writer.submit(about(1), |staging| fill(staging, 1)).expect("submitted");
    writer
        .submit(about(2), |staging| {
            staging.put("one", b"1");
            Ok(())
        })
        .expect("submitted");
    drop(writer);
    let found = newest(folder.path()).expect("whole").expect("dropped, it finished");
    assert_eq!(found.parts().collect::<Vec<_>>(), [("one", 1)]);
}

#[test]
fn an_error_is_reported_once_and_the_next_save_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, trace) = Faulty::after(usize::MAX, Then::Full);
    let mut writer = Writer::new(Store::open_on(folder.path(), disk).expect("opens"), &[]).expect("a thread");
    writer.submit(about(1), |staging| fill(staging, 1)).expect("submitted");
    assert_eq!(writer.wait().expect("saved"), Some(1));
    trace.lock().expect("no panic").left = 3;
    writer.submit(about(2), |staging| fill(staging, 2)).expect("the disk has not spoken yet");
    let error = writer.submit(about(3), |_| panic!("nothing is filled after an error")).expect_err("full");
    assert_eq!(error.kind, Kind::Machine);
    assert_eq!(writer.wait().expect("told already"), Some(1));
    trace.lock().expect("no panic").left = usize::MAX;
    writer.submit(about(4), |staging| fill(staging, 4)).expect("submitted");
    assert_eq!(writer.wait().expect("saved"), Some(3));
    assert_eq!(found(folder.path()), Some(4));
    // What cannot be filled is not saved.
    let error = files::Error::new(Kind::Machine, "the device is gone");
    assert!(writer.submit(about(5), |_| Err(error)).is_err());
    assert_eq!(writer.wait().expect("nothing was begun"), Some(3));
}

#[test]
fn weights_are_copied_out_behind_a_generation_and_nothing_fails_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::new(Store::open(folder.path()).expect("opens"), &[]).expect("a thread");
    let mut save = |step: u64, best: &[u8]| {
        let fill = |staging: &mut Staging| {
            staging.view(View::Best, "fold-1.safetensors".into(), best.to_vec());
            staging.view(View::Last, "fold-1.safetensors".into(), step.to_le_bytes().to_vec());
            fill(staging, step)
        };
        writer.submit(about(step), fill).expect("submitted");
        writer.wait().expect("saved");
    };
    let path = |view: &str| folder.path().join(view).join("fold-1.safetensors");
    let read = |view: &str| std::fs::read(path(view)).expect("written");
    save(1, b"good");
    assert_eq!((read("best"), read("last")), (b"good".to_vec(), 1u64.to_le_bytes().to_vec()));
    // What does not change is not written again: what somebody put there stays.
    std::fs::write(path("best"), b"mine").expect("written");
    save(2, b"good");
    assert_eq!((read("best"), read("last")), (b"mine".to_vec(), 2u64.to_le_bytes().to_vec()));
    save(3, b"better");
    assert_eq!(read("best"), b"better");
    // A place that takes no file: the generation is saved all the same, and the copy comes later.
    std::fs::remove_dir_all(folder.path().join("best")).expect("removed");
    std::fs::write(folder.path().join("best"), b"a file").expect("in the way");
    save(4, b"best");
    assert_eq!(newest(folder.path()).expect("whole").expect("there").about.step, 4);
    std::fs::remove_file(folder.path().join("best")).expect("removed");
    save(5, b"best");
    assert_eq!(read("best"), b"best");
    let listed = list(folder.path()).expect("there");
    assert_eq!(listed.iter().map(|l| (l.number, l.found.is_ok())).collect::<Vec<_>>(), [(5, true), (4, true)]);
    std::fs::write(folder.path().join("generations/000005/weights"), b"").expect("damaged");
    let listed = list(folder.path()).expect("there");
    assert!(listed[0].found.as_ref().is_err_and(|why| why.contains("weights")) && listed[1].found.is_ok());
}
