//! Snippets: the part of a text with the matches, and their positions in code points.

use latchmail_tests::{Person, Service};
use serde_json::Value;

use super::{TEXT, indexed_texts};

/// Returns the text of the only result's snippet and the words at its positions.
async fn snippet(person: &Person<'_>, query: &str) -> (String, Vec<String>) {
    let found = person.search(query, "").await.succeeds(200);
    assert_eq!(
        (&found["total"], &found["index"]),
        (&1.into(), &"ready".into())
    );
    let snippet = &found["messages"][0]["snippet"];
    let text = snippet["text"].as_str().unwrap().to_owned();
    let fields: Vec<_> = snippet.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["matches", "text"]);
    let characters: Vec<char> = text.chars().collect();
    let mut end_before = 0;
    let mut at = |found: &Value| {
        let position = |name: &str| usize::try_from(found[name].as_u64().unwrap()).unwrap();
        let (start, end) = (position("start"), position("end"));
        assert!(end_before <= start && start < end, "{snippet}");
        end_before = end;
        characters[start..end].iter().collect()
    };
    let words = snippet["matches"].as_array().unwrap().iter();
    let words = words.map(&mut at).collect();
    (text, words)
}

#[tokio::test]
async fn the_positions_of_matches_count_code_points() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = [
        "🎉🥳 party at the Zaunkönig, 👩‍👩‍👧 welcome",
        "これは日本語の本文です。会議は金曜日。",
        "Cafe\u{301} et na\u{ef}vete\u{301}",
        "Die STRASSE und die Straße",
        "One needle,\r\n\r\n   another    needle\r\nand needles.",
        "Invoice INV-2024-00815 is due",
    ];
    indexed_texts(&ada, TEXT, &texts).await;
    for (query, expected) in [
        ("party", &["party"][..]),
        ("zaunkonig", &["Zaunkönig"]),
        ("welcome", &["welcome"]),
        ("naivete", &["na\u{ef}vete\u{301}"]),
        ("cafe", &["Cafe\u{301}"]),
        ("strasse", &["STRASSE", "Straße"]),
        ("needle", &["needle", "needle", "needles"]),
        ("\"needle\"", &["needle", "needle"]),
        ("invo", &["Invoice"]),
    ] {
        let (text, words) = snippet(&ada, query).await;
        assert_eq!(words, expected, "{query}: {text}");
    }
    // The matches of a phrase cover it completely, as one match or as adjacent ones.
    for (query, expected) in [
        ("日本語", "日本語"),
        ("会議", "会議"),
        ("inv-2024-00815", "INV202400815"),
        ("\"another needle\"", "anotherneedle"),
    ] {
        let (text, words) = snippet(&ada, query).await;
        let words = words.concat().replace(['-', ' '], "");
        assert_eq!(words, expected, "{query}: {text}");
    }
}

#[tokio::test]
async fn a_snippet_is_a_short_part_of_the_text_around_the_match() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let filler = "Ünder the bridge flows 水 all day. ".repeat(200);
    let long = format!("{filler} needle {filler}");
    let line = "x".repeat(900);
    let texts = [
        &*long,
        "Short text without the word.",
        &*format!("{line} haystack"),
        "<b>bold</b> & co",
    ];
    indexed_texts(&ada, TEXT, &texts).await;
    let (text, words) = snippet(&ada, "needle").await;
    assert_eq!(words, ["needle"]);
    assert!(text.chars().count() < 500, "{text}");
    assert!(text.contains("needle") && text.contains("bridge"), "{text}");
    assert!(!text.contains('\n') && !text.contains("  "), "{text}");
    let (text, words) = snippet(&ada, "haystack").await;
    assert_eq!(words, ["haystack"]);
    assert!(text.chars().count() < 1_000, "{text}");
    // The text is plain text, not HTML. A snippet begins with a word.
    let (text, words) = snippet(&ada, "bold").await;
    assert_eq!(
        (&*text, &*words),
        ("b>bold</b> & co", &["bold".to_owned()][..])
    );
    // If only the subject matches, the snippet is the beginning of the text or absent.
    let found = ada.search("subject:1", "").await.succeeds(200);
    let snippet = &found["messages"][0]["snippet"];
    assert!(
        snippet.is_null()
            || snippet["matches"] == serde_json::json!([])
                && snippet["text"].as_str().unwrap().starts_with("Short"),
        "{snippet}"
    );
}
