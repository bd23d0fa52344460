//! Names and places on an axis.

use files::format_count;

/// A place on an axis: whole numbers as they are.
pub(super) fn format_place(x: f64) -> String {
    if (0.0..1e15).contains(&x) { format_count(x.round() as u64) } else { format!("{x:.2e}") }
}

/// `valid MCC` for `valid_mcc`; `samples/s` for `samples_per_s`.
pub fn field_label(name: &str) -> String {
    let words = name.replace("_per_s", "/s").replace('_', " ");
    words.replace("mcc", "MCC").replace("f1", "F1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_readable_names() {
        assert_eq!(
            [field_label("samples_per_s"), field_label("valid_mcc"), format_place(12_000.0)],
            ["samples/s", "valid MCC", "12,000"]
        );
    }
}
