//! An invalid mail is refused with the name of the field, and not sent.

use latchmail_tests::Service;
use serde_json::{Value, json};

use super::{SEND, mail, names, received_subjects, refused, with, without};

#[tokio::test]
async fn a_missing_or_mistyped_field_is_named() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for field in ["from", "to", "subject"] {
        let mail = without(mail("wrong"), field);
        names(&ada.post(SEND, &mail).await, field, &mail);
    }
    let number = json!(5);
    let object = json!({ "a": "b" });
    let list = json!(["bob@first.test"]);
    let mixed = json!(["bob@first.test", 5]);
    let yes = json!(true);
    for (field, wrong) in [
        ("from", vec![&number, &object, &list, &yes, &Value::Null]),
        ("to", vec![&number, &object, &mixed, &yes, &Value::Null]),
        ("cc", vec![&number, &object, &mixed, &yes]),
        ("bcc", vec![&number, &object, &mixed, &yes]),
        ("subject", vec![&number, &object, &list, &yes, &Value::Null]),
        ("text", vec![&number, &object, &list, &yes]),
        ("html", vec![&number, &object, &list, &yes]),
        ("inReplyTo", vec![&number, &object, &list, &yes]),
        ("references", vec![&number, &object, &list, &mixed, &yes]),
        ("attachments", vec![&number, &object, &list, &mixed, &yes]),
    ] {
        for value in wrong {
            let mail = with(mail("wrong"), field, value.clone());
            names(&ada.post(SEND, &mail).await, field, value);
        }
    }
    let good = json!({ "filename": "a.txt", "contentType": "text/plain", "content": "YQ==" });
    for field in ["filename", "content"] {
        let file = without(good.clone(), field);
        let mail = with(mail("wrong"), "attachments", json!([good, file]));
        names(&ada.post(SEND, &mail).await, field, &file);
    }
    for field in ["filename", "contentType", "content"] {
        for value in [&number, &object, &list, &yes] {
            let file = with(good.clone(), field, value.clone());
            let mail = with(mail("wrong"), "attachments", json!([good, file]));
            names(&ada.post(SEND, &mail).await, field, &file);
        }
    }
    assert_eq!(received_subjects(&ada, &bob).await, [""; 0]);
    assert_eq!(ada.total("Sent").await, 1);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let good = mail("no JSON").to_string();
    let file = json!([{ "filename": "a.txt", "content": "YWJj".repeat(50_000) }]);
    let large = with(mail("no JSON"), "attachments", file).to_string();
    for body in [
        String::new(),
        " ".into(),
        "{".into(),
        "from=ada@first.test".into(),
        "{'from': 'ada@first.test'}".into(),
        good[..good.len() - 1].into(),
        format!("{good} x"),
        format!("{good}{good}"),
        good.replace("\"to\"", "to"),
        good.replacen('}', ",}", 1),
        good.replace("This", "\\x54his"),
        good.replace("This", "Th\nis"),
        good.replace("This", "\\ud800"),
        // Cut in the middle of a file, and after it.
        large[..large.len() - 100_000].into(),
        large[..large.len() - 2].into(),
        format!("{large}]"),
        "[".repeat(100_000),
        format!("{{\"attachments\":{}", "[".repeat(100_000)),
    ] {
        let shown: String = body.chars().take(60).collect();
        let response = ada.post_raw(SEND, body).await;
        assert_eq!(
            (response.status, &response.json),
            (
                400,
                &json!({ "error": "Invalid JSON body", "code": "invalid_json_body" })
            ),
            "{shown}"
        );
    }
    let mut not_utf8 = good.clone().into_bytes();
    let at = good.find("This").unwrap();
    not_utf8[at] = 0xff;
    let response = ada.post_raw(SEND, not_utf8).await;
    response.fails(400, "Invalid JSON body");
    for body in ["[]", "null", "5", "\"mail\"", "[\"ada@first.test\"]"] {
        refused(&ada.post_raw(SEND, body).await, 400, body);
    }
    assert_eq!(received_subjects(&ada, &bob).await, [""; 0]);
}

#[tokio::test]
async fn a_subject_of_999_characters_or_two_lines_is_refused() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for subject in [
        "x".repeat(999),
        "ü".repeat(999),
        "日".repeat(999),
        "x ".repeat(5000),
        "two\nlines".into(),
        "two\rlines".into(),
        "two\r\nlines".into(),
        "ends\n".into(),
        "\r\nbegins".into(),
        "folded\r\n line".into(),
        "x\r\nBcc: bob@first.test".into(),
        "x\r\n\r\nanother text".into(),
    ] {
        let response = ada.post(SEND, &mail(&subject)).await;
        names(&response, "subject", &json!(subject));
    }
    assert_eq!(received_subjects(&ada, &bob).await, [""; 0]);
    assert_eq!(ada.total("Sent").await, 1);
}

#[tokio::test]
async fn a_caller_without_a_session_cannot_send() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let response = service.post(SEND, &mail("from nobody")).await;
    response.fails(401, "Missing or invalid Authorization header");
    let body = json!({ "refreshToken": ada.refresh });
    ada.post("/api/v1/auth/logout", &body).await.succeeds(200);
    let response = ada.post(SEND, &mail("from the past")).await;
    response.fails(401, "Mail session expired, please log in again");
    let again = ada.sign_in_again().await;
    assert_eq!(received_subjects(&again, &bob).await, [""; 0]);
    assert_eq!(again.send(&format!("GET {SEND}")).await.status, 405);
}

#[tokio::test]
async fn sending_counts_as_a_mail_route() {
    let service = latchmail_tests::Setup::default()
        .with_mail()
        .with_default_limits()
        .with("limits.mail = 3")
        .start()
        .await;
    let ada = service.person("ada").await;
    for left in ["2", "1", "0"] {
        let response = ada.post(SEND, &json!({})).await;
        assert_eq!(response.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(response.header("x-ratelimit-remaining"), Some(left));
    }
    let response = ada.post(SEND, &mail("one too many")).await;
    response.fails(429, "Too many requests, please try again later");
    assert!(response.header("retry-after").is_some());
}
