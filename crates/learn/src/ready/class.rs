//! Labels as people write them, as classes.

use features::labels::NONE;
use features::{Samples, class};
use files::{Array, Data, Error, Result};

/// Classes of all ids.
pub(super) struct Classes {
    /// `[ids]` -1, 0, 1, or `NONE` where the label is NaN.
    pub class: Vec<i8>,
    /// 2 or 3.
    pub classes: usize,
}

/// What -1, 0, 1 and 2 are called in a label array is told from which of them there are.
pub(super) fn classes(array: &Array, notes: &mut Vec<String>) -> Result<Classes> {
    let name = &array.name;
    let values: Vec<i8> = match &array.data {
        Data::I64(v) => v.iter().enumerate().map(|(i, x)| whole(name, i, *x as f64)).collect::<Result<_>>()?,
        Data::F64(v) => v.iter().enumerate().map(|(i, x)| whole(name, i, *x)).collect::<Result<_>>()?,
        _ => {
            return Err(Error::input(format!("{name} does not hold numbers")).remedy(format!(
                "write down, flat and up as -1, 0 and 1: np.savez(path, ..., {name}=np.asarray({name}, dtype=np.int8))"
            )));
        }
    };
    let count = |class: i8| values.iter().filter(|v| **v == class).count();
    let there = [-1, 0, 1, 2].map(|class| count(class) > 0);
    let (down, up, classes) = match there {
        [true, _, _, true] => {
            return Err(Error::input(format!("{name} holds -1 and 2; labels are -1/0/1, 0/1/2 or 0/1"))
                .remedy("use one way of counting the classes"));
        }
        [true, true, _, false] => (-1, 1, 3),
        [true, false, true, false] => (-1, 1, 2),
        [false, _, _, true] => (0, 2, 3),
        [false, true, true, false] => (0, 1, 2),
        _ => (-1, 1, 2), // fewer than two values
    };
    if there.iter().filter(|t| **t).count() < 2 {
        let one = values.iter().find(|v| **v != NONE).map_or("NaN".to_string(), i8::to_string);
        return Err(Error::input(format!("every label in {name} is {one}: there is nothing to learn"))
            .remedy("labels are -1/0/1, 0/1/2 or 0/1"));
    }
    if down == 0 {
        let flat = if classes == 3 { ", 1 is flat" } else { "" };
        notes.push(format!("labels ({name}): 0 is down{flat}, {up} is up"));
    }
    let missing = count(NONE);
    if missing > 0 {
        notes.push(format!("{missing} of {} labels ({name}) are NaN; those samples are left out", values.len()));
    }
    let class = values.iter().map(|v| match *v {
        NONE => NONE,
        v if classes == 2 => class::label(u8::from(v != down), 2),
        v => class::label((v - down) as u8, 3),
    });
    Ok(Classes { class: class.collect(), classes })
}

fn whole(name: &str, at: usize, x: f64) -> Result<i8> {
    if x.is_nan() {
        return Ok(NONE);
    }
    if [-1.0, 0.0, 1.0, 2.0].contains(&x) {
        return Ok(x as i8);
    }
    Err(Error::input(format!("{name}[{at}] is {x}; labels are -1/0/1, 0/1/2 or 0/1"))
        .remedy("make classes of it: np.sign(y), or np.digitize(y, edges)"))
}

/// What is left must still be something to tell apart; says which class is not there.
pub(super) fn check(samples: &Samples, classes: usize, notes: &mut Vec<String>) -> Result<()> {
    let count = [-1, 0, 1].map(|class| samples.class.iter().filter(|c| **c == class).count());
    if count.iter().filter(|n| **n > 0).count() < 2 {
        return Err(Error::input(format!(
            "{} samples are left, {} down, {} flat and {} up: there is nothing to learn",
            samples.len(),
            count[0],
            count[1],
            count[2]
        ))
        .remedy("save more samples; the notes say why others are left out"));
    }
    if classes == 3
        && let Some(at) = count.iter().position(|n| *n == 0)
    {
        notes.push(format!("no sample is {}", class::names(3)[at]));
    }
    Ok(())
}
