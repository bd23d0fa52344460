//! The nearest known word, for everything that can be mistyped.

/// The candidate with the fewest edits, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = word.to_lowercase().chars().take(80).collect();
    let scored =
        candidates.into_iter().map(|c| (distance(&wanted, &c.to_lowercase().chars().take(80).collect::<Vec<_>>()), c));
    let (edits, best) = scored.min_by_key(|s| s.0)?;
    // Two edits turn any word of two letters into any other, so one letter at least must stay.
    (edits <= (wanted.len() / 3).max(2) && edits < wanted.len()).then_some(best)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1]; // [a + 1][b + 1]
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(a[i - 1] != b[j - 1]);
                let mut least = (rows[i - 1][j - 1] + same).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_spelling_is_suggested() {
        let keys = ["repair.order", "repair.duplicates", "bars.timezone", "threads"];
        for (word, found) in [
            ("repair.ordr", Some("repair.order")),
            ("repair.oredr", Some("repair.order")),
            ("Threads", Some("threads")),
            ("zzzzzzz", None),
            ("", None),
            ("bars.timezon", Some("bars.timezone")),
        ] {
            assert_eq!(nearest(word, keys), found, "{word}");
        }
        assert_eq!(nearest("x", []), None);
        assert_eq!((nearest("ab", ["fx"]), nearest("fz", ["fx"])), (None, Some("fx")));
    }
}
