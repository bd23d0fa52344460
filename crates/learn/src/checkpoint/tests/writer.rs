//! The thread that saves: it hands back its memory, tells its errors once, and finishes what was begun.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use files::Kind;

use super::super::disk::{Disk, Real};
use super::super::{Staging, Store, Writer, newest};
use super::faulty::{Faulty, Then};
use super::{about, found, parts};

fn fill(staging: &mut Staging, step: u64) -> files::Result<()> {
    parts(step).iter().for_each(|(name, bytes)| staging.put(name, bytes));
    Ok(())
}

#[test]
fn memory_is_taken_once() {
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
fn an_error_is_told_once_and_the_next_save_works() {
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

/// A disk that writes when it is told to.
struct Slow(Receiver<()>);

impl Disk for Slow {
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        let _ = self.0.recv();
        Real.make(folder)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        Real.write(path, bytes)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        Real.rename(from, to)
    }

    fn sync(&mut self, folder: &Path) -> io::Result<()> {
        Real.sync(folder)
    }

    fn remove(&mut self, folder: &Path) -> io::Result<()> {
        Real.remove(folder)
    }
}

#[test]
fn while_one_save_is_under_way_another_is_not_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    let (go, wait) = channel();
    let mut writer =
        Writer::new(Store::open_on(folder.path(), Box::new(Slow(wait))).expect("opens"), &[]).expect("a thread");
    writer.wait().expect("ready");
    assert!(writer.try_submit(about(1), |staging| fill(staging, 1)).expect("free"));
    for _ in 0..3 {
        assert!(!writer.try_submit(about(2), |_| panic!("it is under way")).expect("no error"));
    }
    go.send(()).expect("it waits");
    assert_eq!(writer.wait().expect("saved"), Some(1));
    assert!(writer.try_submit(about(3), |staging| fill(staging, 3)).expect("free"));
    go.send(()).expect("it waits");
    drop(writer);
    assert_eq!(found(folder.path()), Some(3));
}
