//! The whole page: nothing gets out of its text, nothing is asked of the network.

use super::*;

const HOSTILE: &str =
    "</title></svg></script><script>alert(1)</script><img src=x onerror=alert(1)>\"' onload=\"x\u{202e}\u{0}&";

/// A page with every block, each carrying the name wherever a name goes.
fn every_block(name: &str) -> Page {
    let s = || name.to_string();
    let time: Vec<i64> = (0..500).map(|i| i * 86_400_000_000_000).collect();
    let value: Vec<f64> = (0..500).map(|i| 100.0 + (f64::from(i) * 0.1).sin()).collect();
    let line = Line { name: s(), time: time.clone(), value: value.clone() };
    let v = || value.clone();
    Page {
        title: s(),
        subtitle: s(),
        sections: vec![
            Section {
                heading: s(),
                prose: s(),
                blocks: vec![
                    Block::Tiles(vec![Tile::new(s(), s(), s()).tone(Tone::Good)]),
                    Block::Row(vec![
                        Block::Lines(Lines { title: s(), unit: s(), log: true, series: vec![line.clone(), line] }),
                        Block::Candles(Candles {
                            title: s(),
                            unit: s(),
                            time,
                            open: v(),
                            high: v(),
                            low: v(),
                            close: v()
                        }),
                    ]),
                    Block::Histogram(Histogram { title: s(), unit: s(), values: value.clone() }),
                    Block::Columns(Columns {
                        title: s(),
                        unit: s(),
                        columns: vec![(s(), 1.0), (s(), f64::NAN), (s(), -2.0)]
                    }),
                    Block::Heat(Heat {
                        title: s(),
                        names: (vec![s(), s()], vec![s()]),
                        values: vec![vec![0.5], vec![f64::NAN]]
                    }),
                    Block::Coverage(Coverage {
                        title: s(),
                        strips: vec![Strip {
                            name: s(),
                            present: vec![(0, 9)],
                            missing: vec![(3, 4)],
                            marks: vec![(5, s())],
                            figure: s()
                        }],
                    }),
                    Block::Table(Table {
                        title: s(),
                        columns: vec![Column::text(s()), Column::number(s())],
                        rows: vec![vec![Cell::text(s()), Cell::number(f64::NAN, s())], vec![Cell::tag(s(), Tone::Bad)]],
                    }),
                    Block::Note(Note::new(Tone::Warn, s(), s())),
                    Block::Verdict(Note::new(Tone::Bad, s(), s())),
                    Block::Months(Months { title: s(), years: vec![(2024, [Some(0.1); 12], 0.1)] }),
                    Block::Ranking(Ranking {
                        title: s(),
                        description: s(),
                        rows: vec![
                            RankRow { name: s(), value: 1.0, noise: 0.5, text: s() },
                            RankRow { name: s(), value: f64::NAN, noise: f64::NAN, text: s() }
                        ],
                    }),
                    Block::Choice(Choice { label: s(), parts: vec![(s(), Block::Timeline(timeline(&s())))] }),
                ],
            };
            3
        ],
    }
}

fn timeline(name: &str) -> Timeline {
    let s = || name.to_string();
    let series = TimeSeries { name: s(), time: vec![0, 5], value: vec![f64::NAN, 1.0], ..TimeSeries::default() };
    Timeline {
        title: s(),
        description: s(),
        series: vec![series.clone(), TimeSeries { look: Look::Band, upper: vec![1.0, 2.0], ..series }],
        borders: vec![(3, s())],
        trades: vec![TradeMark::default()],
        facts: vec![(s(), s())],
        ..Timeline::default()
    }
}

#[test]
fn a_hostile_name_stays_text() {
    let html = every_block(HOSTILE).html();
    let plain = every_block("AAPL").html();
    // The same tags in the same order, whatever the name is.
    let tags = |html: &str| html.matches('<').count();
    assert_eq!(tags(&html), tags(&plain));
    assert!(
        !html.contains("<img")
            && !html.contains("alert(1)</script>")
            && !html.contains('\u{202e}')
            && !html.contains('\0')
    );
    // The one that runs, and the numbers of the timelines.
    assert_eq!((html.matches("<script>").count(), html.matches("<script").count()), (1, 4));
}

#[test]
fn the_page_asks_nothing_of_the_network() {
    let html = every_block("AAPL").html();
    for word in ["http://", "https://", "src=", "@import", "url(", "<link", "<iframe", " style=", "fetch(", "import("] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("Content-Security-Policy") && html.contains("default-src 'none'"));
    assert!(html.contains("prefers-color-scheme:dark") && html.contains("name=\"viewport\""));
    assert!(!html.contains("NaN") && !html.contains(">inf"));
}

#[test]
fn every_drawing_has_an_accessible_label() {
    let html = every_block("AAPL").html();
    for (at, _) in html.match_indices("<svg class=") {
        let tag = &html[at..at + html[at..].find('>').unwrap_or(0)];
        let named = tag.contains("role=\"img\"") || tag.contains("role=\"group\"");
        assert!(named && tag.contains("aria-label=") || tag.contains("aria-hidden"), "{tag}");
    }
}

#[test]
fn an_empty_page_is_a_page() {
    let page = Page { title: "Nothing".into(), ..Page::default() };
    let html = page.html();
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n") && html.len() < 40_000);
}

#[test]
fn words_between_backticks_are_code() {
    let section = Section { prose: "the preset `full`, <b> and one ` alone".into(), ..Section::default() };
    let html = Page { sections: vec![section], ..Page::default() }.html();
    assert!(html.contains("the preset <code>full</code>, &lt;b&gt; and one ` alone"));
}
