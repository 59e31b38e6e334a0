use proptest::prelude::*;

use super::*;

fn text(text: &str) -> Term {
    Term {
        negated: false,
        condition: Condition::Text {
            scope: Scope::All,
            text: text.into(),
            prefix: false,
        },
    }
}

fn prefix(text: &str) -> Term {
    Term {
        negated: false,
        condition: Condition::Text {
            scope: Scope::All,
            text: text.into(),
            prefix: true,
        },
    }
}

fn scoped(scope: Scope, text: &str) -> Term {
    Term {
        negated: false,
        condition: Condition::Text {
            scope,
            text: text.into(),
            prefix: false,
        },
    }
}

fn is(condition: Condition) -> Term {
    Term {
        negated: false,
        condition,
    }
}

fn not(term: Term) -> Term {
    Term {
        negated: true,
        ..term
    }
}

/// Parses a query without `OR`.
#[track_caller]
fn terms(query: &str) -> Vec<Term> {
    let query = Query::parse(query).unwrap();
    query
        .clauses
        .into_iter()
        .map(|mut clause| {
            assert_eq!(clause.terms.len(), 1);
            clause.terms.remove(0)
        })
        .collect()
}

#[track_caller]
fn alternatives(query: &str) -> Vec<Vec<Term>> {
    Query::parse(query)
        .unwrap()
        .clauses
        .into_iter()
        .map(|clause| clause.terms)
        .collect()
}

#[track_caller]
fn error(query: &str) -> String {
    Query::parse(query).unwrap_err().to_string()
}

#[test]
fn only_the_last_bare_word_is_a_prefix() {
    assert_eq!(terms("one two"), [text("one"), prefix("two")]);
    assert_eq!(
        terms("one from:two"),
        [prefix("one"), scoped(Scope::From, "two")]
    );
    assert_eq!(
        terms("one -two \"three\""),
        [prefix("one"), not(text("two")), text("three")]
    );
    assert_eq!(terms("INV-2024-008"), [prefix("INV-2024-008")]);
    assert_eq!(terms("one -"), [prefix("one")]);
}

#[test]
fn each_operator_has_its_condition() {
    assert_eq!(
        terms(
            "from:a to:\"b c\" Subject:d-e has:attachment IS:UNREAD label:$Work in:\"My Folder\" in:INBOX"
        ),
        [
            scoped(Scope::From, "a"),
            scoped(Scope::To, "b c"),
            scoped(Scope::Subject, "d-e"),
            is(Condition::Attachment),
            is(Condition::Unread),
            is(Condition::Label("$Work".into())),
            is(Condition::Folder("My Folder".into())),
            is(Condition::Folder("INBOX".into())),
        ]
    );
    assert_eq!(
        terms("before:1970-01-02 after:2024-02-29 larger:7 larger:10K larger:5m"),
        [
            is(Condition::Before(86_400_000)),
            is(Condition::After(1_709_164_800_000)),
            is(Condition::Larger(7)),
            is(Condition::Larger(10_240)),
            is(Condition::Larger(5_242_880)),
        ]
    );
}

#[test]
fn a_minus_negates_each_kind_of_term() {
    assert_eq!(
        terms("-word -\"a phrase\" -from:x -is:unread"),
        [
            not(text("word")),
            not(text("a phrase")),
            not(scoped(Scope::From, "x")),
            not(is(Condition::Unread))
        ]
    );
}

#[test]
fn or_joins_its_two_neighbours() {
    assert_eq!(
        alternatives("a OR b c"),
        [vec![text("a"), text("b")], vec![prefix("c")]]
    );
    assert_eq!(
        alternatives("a b OR c OR -d"),
        [
            vec![text("a")],
            vec![text("b"), prefix("c"), not(text("d"))]
        ]
    );
    assert_eq!(
        alternatives("from:a OR is:unread"),
        [vec![scoped(Scope::From, "a"), is(Condition::Unread)]]
    );
}

#[test]
fn or_without_two_neighbours_is_a_word() {
    assert_eq!(terms("OR"), [prefix("OR")]);
    assert_eq!(terms("OR a"), [text("OR"), prefix("a")]);
    assert_eq!(terms("a OR"), [text("a"), prefix("OR")]);
    assert_eq!(terms("a or b"), [text("a"), text("or"), prefix("b")]);
    assert_eq!(terms("\"OR\" a"), [text("OR"), prefix("a")]);
    assert_eq!(
        alternatives("a OR - b"),
        [vec![text("a")], vec![prefix("b")]]
    );
    assert_eq!(
        alternatives("a OR OR b"),
        [vec![text("a")], vec![text("OR"), prefix("b")]]
    );
}

#[test]
fn malformed_terms_are_literal_text() {
    assert_eq!(terms("re: x"), [text("re:"), prefix("x")]);
    assert_eq!(terms("\"one two"), [text("\"one"), prefix("two")]);
    assert_eq!(
        terms("one\"two three\""),
        [text("one\"two"), prefix("three\"")]
    );
    assert_eq!(
        terms("from:\"one two"),
        [scoped(Scope::From, "\"one"), prefix("two")]
    );
    assert_eq!(terms("- one"), [prefix("one")]);
    assert_eq!(terms("(one)"), [prefix("(one)")]);
    assert_eq!(terms("--one"), [not(text("-one"))]);
    assert_eq!(
        terms("https://example.com/?q=from:x"),
        [prefix("https://example.com/?q=from:x")]
    );
}

#[test]
fn terms_without_words_are_ignored() {
    assert_eq!(terms("- ... \"\" -! \u{301}"), []);
    assert_eq!(terms(""), []);
    assert_eq!(terms("!!! one"), [prefix("one")]);
}

#[test]
fn an_invalid_value_is_an_error_with_its_position() {
    assert_eq!(
        error("before:yesterday"),
        "Invalid search query at character 0: before: the value must be a date such as 2024-12-31"
    );
    assert_eq!(
        error("é  -larger:x"),
        "Invalid search query at character 3: larger: the value must be a number of bytes such as 10000, 10K or 5M"
    );
    for query in [
        "from:",
        "from:\"\"",
        "subject: x",
        "to:!",
        "has:star",
        "is:read",
        "label:",
        "label:\"a b\"",
        "label:\\Seen",
        "in:",
        "before:2023-02-29",
        "after:2023-1-1",
        "after:2023-01-01T00:00",
        "larger:",
        "larger:K",
        "larger:-1",
        "larger:99999999999999999999",
        "larger:99999999999999999M",
    ] {
        assert!(
            error(query).starts_with("Invalid search query at character 0: "),
            "{query}"
        );
    }
}

#[test]
fn long_queries_are_errors() {
    assert_eq!(
        error(&"x".repeat(MAX_LENGTH + 1)),
        "Invalid search query at character 2000: the query has more than 2000 characters"
    );
    assert_eq!(
        error(&"é ".repeat(MAX_TERMS + 1)),
        "Invalid search query at character 1024: the query has more than 512 terms"
    );
    assert!(Query::parse(&"é ".repeat(MAX_TERMS)).is_ok());
    assert!(Query::plain(&"x ".repeat(MAX_TERMS + 1)).is_err());
}

#[test]
fn plain_text_has_no_operators() {
    let query = Query::plain("from:a -b \"c d\" OR before:x").unwrap();
    let terms: Vec<_> = query
        .clauses
        .iter()
        .flat_map(|clause| clause.terms.clone())
        .collect();
    let expected = [
        text("from:a"),
        text("-b"),
        text("\"c"),
        text("d\""),
        text("OR"),
        prefix("before:x"),
    ];
    assert_eq!(terms, expected);
}

#[test]
fn named_folders_are_the_positive_ones() {
    let query = Query::parse("in:Junk OR in:\"Old Mail\" -in:Trash x").unwrap();
    assert_eq!(
        query.named_folders().collect::<Vec<_>>(),
        ["Junk", "Old Mail"]
    );
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_a_panic(text in any::<String>()) {
        let _ = Query::parse(&text);
        let _ = Query::plain(&text);
    }

    #[test]
    fn any_sequence_of_operators_is_parsed_without_a_panic(
        parts in proptest::collection::vec(
            prop::sample::select(vec!["from:", "to:", "before:", "larger:", "in:", "\"", "-", "OR", " ", "a", "é", "2024-01-01", "10K", ":"]),
            0..20,
        )
    ) {
        let text = parts.concat();
        if let Err(error) = Query::parse(&text) {
            prop_assert!(error.position <= text.chars().count());
        }
    }
}
