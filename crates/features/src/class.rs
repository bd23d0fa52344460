//! The class index: which label has which number.
//!
//! A label is a sign: -1 down, 0 flat, 1 up. Nets, measures and files count classes from 0: down and up (2 classes), or
//! down, flat and up (3). Nothing else says which is which.

/// Index of down, of 2 and of 3 classes.
pub const DOWN: u8 = 0;
/// Index of flat, of 3 classes.
pub const FLAT: u8 = 1;
/// Index of up, of 3 classes.
pub const UP: u8 = 2;

/// Names in the order of their index.
pub fn names(classes: usize) -> &'static [&'static str] {
    if classes == 2 { &["down", "up"] } else { &["down", "flat", "up"] }
}

/// The index of a label; of 2 classes anything that is not up is down.
pub fn index(label: i8, classes: usize) -> u8 {
    if classes == 2 { u8::from(label > 0) } else { (label + 1) as u8 }
}

/// The label of an index.
pub fn label(index: u8, classes: usize) -> i8 {
    if classes == 2 { 2 * index as i8 - 1 } else { index as i8 - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_indices_are_one_to_one() {
        assert_eq!([-1, 1].map(|label| index(label, 2)), [0, 1]);
        assert_eq!([-1, 0, 1].map(|label| index(label, 3)), [DOWN, FLAT, UP]);
        for (classes, labels) in [(2, &[-1, 1][..]), (3, &[-1, 0, 1])] {
            assert_eq!(labels.len(), names(classes).len());
            assert!(labels.iter().all(|l| label(index(*l, classes), classes) == *l));
        }
        let named = |classes, label| names(classes)[usize::from(index(label, classes))];
        assert_eq!([named(2, -1), named(2, 1)], ["down", "up"]);
        assert_eq!([named(3, -1), named(3, 0), named(3, 1)], ["down", "flat", "up"]);
    }
}
