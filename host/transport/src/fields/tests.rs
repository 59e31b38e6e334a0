use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const POINTERS: [&str; 2] = ["/attachments/*/content", "/a~1b/c"];

/// Returns the remainder of a body and the extracted fields, and checks that the result does not
/// depend on how the body is split.
fn split(body: &[u8]) -> Result<(Vec<u8>, Vec<Bytes>), String> {
    let pointers = POINTERS.map(str::to_owned);
    let mut outcomes = Vec::new();
    for size in [1, 2, 3, 7, 64, body.len().max(1)] {
        let mut fields = Fields::new(&pointers);
        let pushed = body.chunks(size).try_for_each(|piece| fields.push(piece));
        outcomes.push(match pushed {
            Ok(()) => Ok(fields.finish()),
            Err(failure) => Err(failure.text.into_owned()),
        });
    }
    assert!(
        outcomes.windows(2).all(|two| two[0] == two[1]),
        "{outcomes:?}"
    );
    outcomes.swap_remove(0)
}

#[test]
fn fields_are_extracted_and_numbered_in_order() {
    let body = br#" {"subject" : "a\"b\\", "attachments": [ {"filename":"x","content":"aGVsbG8="},
        {"content" : "AA\/+\u002fAA=", "other": {"content": "aGk="}}, {"content":""} ], "a/b": {"c": "aGk="}, "content": "aGk="} "#;
    let (remainder, found) = split(body).unwrap();
    let found: Vec<&[u8]> = found.iter().map(|bytes| &bytes[..]).collect();
    assert_eq!(found, [&b"hello"[..], b"\x00\x0f\xfe\xfc\x00", b"", b"hi"]);
    let remainder: Value = serde_json::from_slice(&remainder).unwrap();
    let expected = json!({
        "subject": "a\"b\\",
        "attachments": [{"filename": "x", "content": 0}, {"content": 1, "other": {"content": "aGk="}}, {"content": 2}],
        "a/b": {"c": 3},
        "content": "aGk=",
    });
    assert_eq!(remainder, expected);
}

#[test]
fn an_escaped_key_matches_a_pointer() {
    let (remainder, found) = split(br#"{"attach\u006dents": [{"c\u006fntent": "aGk="}]}"#).unwrap();
    assert_eq!(found, [&b"hi"[..]]);
    let remainder: Value = serde_json::from_slice(&remainder).unwrap();
    assert_eq!(remainder, json!({"attachments": [{"content": 0}]}));
}

#[test]
fn the_error_names_the_field_that_is_not_base64() {
    for content in [
        "0",
        "null",
        "true",
        "{}",
        "[\"aGk=\"]",
        "\"aGk\"",
        "\"aGk==\"",
        "\"a Gk=\"",
        "\"aGk=\\n\"",
        "\"aGk=aGk=\"",
        "\"-_==\"",
        "\"\\ud800\"",
        "\"\\u00e9\"",
        "\"\\x\"",
    ] {
        let body = format!("{{\"attachments\":[{{\"content\":\"\"}},{{\"content\":{content}}}]}}");
        let error = split(body.as_bytes()).unwrap_err();
        let expected = "attachments[1].content must be a string of standard base64";
        assert_eq!(error, expected, "{content}");
    }
}

#[test]
fn an_invalid_body_stays_invalid() {
    for body in [
        "",
        "{",
        "{\"attachments\":[{\"content\":\"aGk",
        "{\"attachments\":[{\"content\":",
        "{\"attachments\":[{\"content\"}]}",
        "{\"attachments\":[{\"content\":}]}",
        "]}{[",
        "{\"attachments\":[{\"content\":\"aGk=\"}]}}",
        "\"",
        "{\"a\":\"\\",
    ] {
        let (remainder, _) = split(body.as_bytes()).unwrap();
        assert!(
            serde_json::from_slice::<Value>(&remainder).is_err(),
            "{body}"
        );
    }
}

#[test]
fn a_long_field_is_decoded_while_it_arrives() {
    let plain: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let body = format!(
        "{{\"attachments\":[{{\"content\":\"{}\"}}]}}",
        STANDARD.encode(&plain)
    );
    let mut fields = Fields::new(&POINTERS.map(str::to_owned));
    for piece in body.as_bytes().chunks(1000) {
        fields.push(piece).unwrap();
        assert!(fields.held() <= plain.len() + 2 * DECODE_LENGTH + 100);
    }
    let (remainder, found) = fields.finish();
    assert_eq!(found, [&plain[..]]);
    assert!(remainder.len() < 40);
}

#[test]
fn the_depth_and_the_number_of_fields_are_limited() {
    let (remainder, _) = split("[".repeat(1000).as_bytes()).unwrap();
    assert_eq!(remainder.len(), 1000);
    let many = vec!["{\"content\":\"\"}"; MAX_FIELDS + 1].join(",");
    assert!(split(format!("{{\"attachments\":[{many}]}}").as_bytes()).is_err());
}

/// Generates JSON, with strings that look like fields at configured and at other positions.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(-1.5e-7)),
        ".*".prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| STANDARD.encode(bytes).into()),
    ];
    let key = prop_oneof![
        Just("attachments".to_owned()),
        Just("content".into()),
        Just("a/b".into()),
        Just("c".into()),
        ".{0,6}"
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Returns the expected result for a body.
fn expected(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<u8>>) -> Option<Value> {
    let at: Vec<&str> = path.iter().map(String::as_str).collect();
    if matches!(at[..], ["attachments", "*", "content"] | ["a/b", "c"]) {
        let bytes = STANDARD.decode(value.as_str()?).ok()?;
        found.push(bytes);
        return Some((found.len() - 1).into());
    }
    let mut within = |step: String, value: &Value| {
        path.push(step);
        let value = expected(value, path, found);
        path.pop();
        value
    };
    Some(match value {
        Value::Array(values) => values
            .iter()
            .map(|value| within("*".into(), value))
            .collect::<Option<_>>()?,
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                // A key does not match an index.
                let step = if key == "*" {
                    "no index".into()
                } else {
                    key.clone()
                };
                Some((key.clone(), within(step, value)?))
            })
            .collect::<Option<_>>()?,
        other => other.clone(),
    })
}

proptest! {
    #[test]
    fn any_body_gives_the_same_result_as_a_parser_of_the_whole_body(value in values(), pretty: bool) {
        let body = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
        let mut found = Vec::new();
        match (split(&body), expected(&value, &mut Vec::new(), &mut found)) {
            (Ok((remainder, extracted)), Some(expected)) => {
                prop_assert_eq!(serde_json::from_slice::<Value>(&remainder).unwrap(), expected);
                prop_assert_eq!(extracted, found);
            }
            (Err(_), None) => {}
            (got, expected) => prop_assert!(false, "{:?} {:?}", got, expected),
        }
    }

    #[test]
    fn any_bytes_are_processed_without_a_panic(body: Vec<u8>) {
        let _ = split(&body);
    }
}
