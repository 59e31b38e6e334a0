//! The stored form of messages in the fake host. The fake host writes and reads simple messages
//! with one text and without encodings.

use latchmail_shape::codes;

use crate::capability::{Detail, Error, HeaderField};
use crate::testing::letter::Letter;
use crate::time::iso8601;

/// Maximum number of names of header fields in one call.
const MAX_NAMES: usize = 100;

/// Returns the stored form of a message. The content of its attachments follows the text.
pub(super) fn write(detail: &Detail, files: &[Vec<u8>]) -> Vec<u8> {
    let addresses = |addresses: &[crate::capability::Address]| {
        let address = |one: &crate::capability::Address| match one.name.as_str() {
            "" => one.address.clone(),
            name => format!("{name} <{}>", one.address),
        };
        addresses.iter().map(address).collect::<Vec<_>>().join(", ")
    };
    let summary = &detail.summary;
    let list = detail
        .mailing_list
        .as_ref()
        .and_then(|list| list.id.as_ref());
    let fields = [
        ("From", addresses(&summary.from)),
        ("To", addresses(&summary.to)),
        ("Cc", addresses(&detail.cc)),
        ("Subject", summary.subject.clone()),
        ("Date", iso8601(summary.date)),
        ("Message-ID", detail.message_id.clone()),
        (
            "In-Reply-To",
            detail.in_reply_to.clone().unwrap_or_default(),
        ),
        ("References", detail.references.join(" ")),
        (
            "List-Id",
            list.map(|id| format!("<{id}>")).unwrap_or_default(),
        ),
        (
            "Auto-Submitted",
            detail.auto_submitted.clone().unwrap_or_default(),
        ),
    ];
    let mut text = String::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        for part in [name, ": ", value, "\r\n"] {
            text.push_str(part);
        }
    }
    text.push_str("\r\n");
    let body = detail.text.as_ref().or(detail.html.as_ref());
    text.push_str(body.map_or("", |body| body));
    [text.into_bytes(), files.concat()].concat()
}

/// Returns the unfolded header fields of a message.
pub(super) fn fields(message: &[u8]) -> Vec<HeaderField> {
    let text = String::from_utf8_lossy(message);
    let mut fields: Vec<HeaderField> = Vec::new();
    for line in text.lines().take_while(|line| !line.is_empty()) {
        if line.starts_with([' ', '\t']) {
            if let Some(last) = fields.last_mut() {
                last.value = format!("{} {}", last.value, line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push(HeaderField {
                name: name.trim_end().into(),
                value: value.trim().into(),
            });
        }
    }
    fields
}

/// Reads a message that was imported.
pub(super) fn read(message: &[u8]) -> Letter {
    let fields = fields(message);
    let value = |name: &str| {
        let mut found = fields.iter();
        let found = found.find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| field.value.as_str())
    };
    let text = String::from_utf8_lossy(message);
    let body = text
        .split_once("\r\n\r\n")
        .or_else(|| text.split_once("\n\n"));
    let letter = Letter::from(value("From").unwrap_or_default());
    let letter = letter.subject(value("Subject").unwrap_or_default());
    let letter = letter.text(body.map_or("", |(_, body)| body));
    let letter = value("To").into_iter().fold(letter, Letter::to);
    let letter = value("Message-ID")
        .into_iter()
        .fold(letter, Letter::message_id);
    value("In-Reply-To")
        .into_iter()
        .fold(letter, Letter::in_reply_to)
}

/// Checks whether a message can be imported.
pub(super) fn check(message: &[u8]) -> Result<(), Error> {
    let text = String::from_utf8_lossy(message);
    let name = text.lines().next().and_then(|line| line.split_once(':'));
    if !name.is_some_and(|(name, _)| is_name(name.trim_end())) {
        return Err(Error::invalid(codes::INVALID_MESSAGE, "Invalid message"));
    }
    if message.contains(&0) {
        let text = "Invalid message: it contains a NUL byte";
        return Err(Error::invalid(codes::INVALID_MESSAGE, text));
    }
    Ok(())
}

/// Checks the names of header fields.
pub(super) fn check_names(names: Option<&[String]>) -> Result<(), Error> {
    let names = names.unwrap_or_default();
    if names.len() > MAX_NAMES {
        let text = format!("At most {MAX_NAMES} names of header fields at once");
        return Err(Error::invalid(codes::INVALID_HEADERS_PARAMETER, text));
    }
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => {
            let text = format!("{name:?} is not the name of a header field");
            Err(Error::invalid(codes::INVALID_HEADERS_PARAMETER, text))
        }
        None => Ok(()),
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| (0x21..0x7f).contains(&byte) && byte != b':';
    !text.is_empty() && text.bytes().all(is_part)
}
