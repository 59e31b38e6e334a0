//! The corpus of mail: what the service returns for each message of `tests/mail`.
//!
//! `tests/mail/answers` has the expected responses. If a change intends to alter some of them, run
//! this test with `INSTA_UPDATE=always`, and review every difference before the commit.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use latchmail_tests::{Service, corpus};
use serde_json::{Value, json};

#[tokio::test]
async fn every_message_is_returned_as_recorded() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut differing = Vec::new();
    for read in corpus::load(&ada).await {
        let response = shown(&read);
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../../mail/answers");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        // Compares the other messages too.
        let compared = catch_unwind(AssertUnwindSafe(|| {
            settings.bind(|| insta::assert_snapshot!(read.sample.name.as_str(), response));
        }));
        if compared.is_err() {
            differing.push(read.sample.name);
        }
    }
    assert!(differing.is_empty(), "answered otherwise: {differing:?}");
}

#[tokio::test]
async fn every_attachment_is_downloaded_with_the_announced_size() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for read in corpus::load(&ada).await {
        let name = &read.sample.name;
        for attachment in read.detail["attachments"].as_array().unwrap() {
            let (uid, index) = (&read.detail["uid"], &attachment["index"]);
            let path = format!("GET /api/v1/mail/messages/{uid}/attachments/{index}");
            let response = ada.send(&path).await;
            assert_eq!(response.status, 200, "{name}: {}", response.json);
            assert_eq!(response.body.len() as u64, attachment["size"], "{name}");
            let disposition = response.header("content-disposition").unwrap();
            assert!(disposition.starts_with("attachment; filename=\""), "{name}");
            assert!(disposition.is_ascii(), "{name}");
        }
    }
}

#[test]
fn every_message_has_a_description_and_a_recorded_response() {
    let names: BTreeSet<String> = corpus::samples().into_iter().map(|s| s.name).collect();
    let readme = std::fs::read_to_string(corpus::folder().join("README.md")).unwrap();
    let described: BTreeSet<String> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once(".eml` | "))
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_eq!(described, names);
    let answered: BTreeSet<String> = std::fs::read_dir(corpus::folder().join("answers"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".snap").map(ToOwned::to_owned))
        .collect();
    assert_eq!(answered, names);
}

/// Returns a response without values that differ between runs. The entry in the listing is reduced
/// to fields that differ from the message.
fn shown(read: &corpus::ReadMessage) -> String {
    let mut detail = read.detail.clone();
    let mut listed = read.summary.clone();
    let size = detail["size"].as_u64().unwrap();
    assert!(
        size >= read.sample.bytes.len() as u64,
        "{}",
        read.sample.name
    );
    listed
        .as_object_mut()
        .unwrap()
        .retain(|field, value| detail.get(field) != Some(value));
    // The result depends on how the message arrived in the mailbox (senders.rs).
    detail.as_object_mut().unwrap().remove("authentication");
    detail["uid"] = json!("[uid]");
    detail["seq"] = json!("[seq]");
    // The id of a message without Message-ID depends on its number.
    detail["threadId"] = json!("[thread]");
    if read.delivered {
        // The size includes the fields that Postfix adds.
        detail["size"] = json!("[size]");
    }
    let mut response = json!({ "message": detail, "otherwise in a listing": listed });
    shorten(&mut response);
    visible(&serde_json::to_string_pretty(&response).unwrap())
}

/// Cuts the middle of long texts.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            let characters: Vec<char> = text.chars().collect();
            if characters.len() > 1200 {
                let begins: String = characters[..400].iter().collect();
                let ends: String = characters[characters.len() - 100..].iter().collect();
                let left_out = characters.len() - 500;
                *text = format!("{begins}[… {left_out} characters …]{ends}");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Escapes characters that are invisible or change the reading direction, so that a reviewer sees
/// the whole response.
fn visible(json: &str) -> String {
    json.chars()
        .map(|c| match c {
            '\u{7f}'..='\u{a0}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}' => c.escape_unicode().to_string(),
            c => c.to_string(),
        })
        .collect()
}
