//! The header fields of a new email (RFC 8621, section 4.6).

use chrono::DateTime;
use serde_json::Value;

use crate::args::Object;
use crate::error::SetError;
use crate::mime::address::{self, Mailbox};
use crate::mime::forms::{Form, HeaderProperty};
use crate::mime::words;

/// The maximum length of a value, in bytes.
const MAX_VALUE: usize = 64 * 1024;

/// Returns the name and the values of the field that a property sets. Returns `None` if the
/// property sets no field.
///
/// # Errors
/// Returns `invalidProperties` if the value does not have the form.
pub(super) fn read(
    property: &str,
    value: &Value,
) -> Result<Option<(String, Vec<String>)>, SetError> {
    let header = match HeaderProperty::of_convenience(property) {
        Some(header) => header,
        None if property.starts_with("header:") => {
            let unknown = || SetError::invalid(&[property], "The property does not exist");
            HeaderProperty::parse(property).ok_or_else(unknown)?
        }
        None => return Ok(None),
    };
    let wrong = || SetError::invalid(&[property], "The value does not have this form");
    let values: Vec<&Value> = if header.all {
        value.as_array().ok_or_else(wrong)?.iter().collect()
    } else {
        vec![value]
    };
    let mut written = Vec::new();
    for value in values.into_iter().filter(|value| !value.is_null()) {
        let value = write(value, header.form).filter(|value| value.len() <= MAX_VALUE);
        // An empty list stands for no field.
        written.extend(Some(value.ok_or_else(wrong)?).filter(|value| !value.is_empty()));
    }
    Ok(Some((header.name, written)))
}

/// Returns a value in the form of a message.
fn write(value: &Value, form: Form) -> Option<String> {
    match form {
        Form::Raw => value.as_str().filter(|raw| is_folded(raw)).map(raw),
        Form::Text => {
            let text = value.as_str()?;
            let is_line = !text.contains(|c: char| c.is_control() && c != '\t');
            is_line.then(|| words::encode(text))
        }
        Form::Addresses => addresses(value),
        Form::GroupedAddresses => {
            let groups = value.as_array()?.iter().map(|group| {
                let group = group.as_object()?;
                let addresses = addresses(group.get("addresses")?)?;
                match group.get("name") {
                    None | Some(Value::Null) => Some(addresses),
                    Some(name) => {
                        let name = name
                            .as_str()
                            .filter(|name| !name.contains(char::is_control))?;
                        Some(format!("{}: {addresses};", address::write_name(name)))
                    }
                }
            });
            Some(groups.collect::<Option<Vec<_>>>()?.join(", "))
        }
        Form::MessageIds => {
            let ids = value.as_array()?.iter().map(|id| {
                let is_part = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>');
                let id = id
                    .as_str()
                    .filter(|id| !id.is_empty() && id.chars().all(is_part));
                id.map(|id| format!("<{id}>"))
            });
            Some(ids.collect::<Option<Vec<_>>>()?.join(" "))
        }
        Form::Date => {
            let date = DateTime::parse_from_rfc3339(value.as_str()?).ok()?;
            Some(date.to_rfc2822())
        }
        Form::Urls => {
            let urls = value.as_array()?.iter().map(|url| {
                let is_part = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>');
                let url = url.as_str().filter(|url| url.chars().all(is_part))?;
                Some(format!("<{url}>"))
            });
            Some(urls.collect::<Option<Vec<_>>>()?.join(", "))
        }
    }
}

/// Returns whether a raw value has only line breaks that continue the field.
fn is_folded(raw: &str) -> bool {
    let text = raw.replace("\r\n ", "").replace("\r\n\t", "");
    text.chars().all(|c| !c.is_control() || c == '\t')
}

/// Returns a raw value with the space after the colon, which marks it as raw.
fn raw(text: &str) -> String {
    if text.starts_with([' ', '\t', '\r']) {
        text.into()
    } else {
        format!(" {text}")
    }
}

fn addresses(value: &Value) -> Option<String> {
    let addresses = value.as_array()?.iter().map(|one| {
        let one = one.as_object()?;
        let name = match one.get("name") {
            None | Some(Value::Null) => None,
            Some(name) => Some(name.as_str()?.to_owned()),
        };
        address::write(&Mailbox {
            name,
            email: one.get("email")?.as_str()?.to_owned(),
        })
    });
    Some(addresses.collect::<Option<Vec<_>>>()?.join(", "))
}

/// Reads all fields of a new email. `others` are the properties that set no field.
///
/// # Errors
/// Returns `invalidProperties` for an invalid value, for a field that two properties set, and for
/// fields that describe the content.
pub(super) fn read_all(
    object: &Object,
    others: &[&str],
) -> Result<Vec<(String, String)>, SetError> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (property, value) in object {
        if others.contains(&property.as_str()) {
            continue;
        }
        let Some((name, values)) = read(property, value)? else {
            return Err(SetError::invalid(
                &[property],
                "The property does not exist",
            ));
        };
        let lower = name.to_ascii_lowercase();
        if lower.starts_with("content-") || lower == "mime-version" {
            let text = "The fields of the content are set in the parts";
            return Err(SetError::invalid(&[property], text));
        }
        if names.contains(&lower) {
            return Err(SetError::invalid(&[property], "The field is set twice"));
        }
        names.push(lower);
        fields.extend(values.into_iter().map(|value| (name.clone(), value)));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(property: &str, value: &Value) -> Option<String> {
        let (_, values) = read(property, value).ok()??;
        Some(values.join("|"))
    }

    #[test]
    fn fields_are_written_in_their_forms() {
        for (property, value, expected) in [
            ("subject", json!("caf\u{e9}"), "=?utf-8?B?Y2Fmw6k=?="),
            (
                "to",
                json!([{ "name": "A, B", "email": "a@b" }, { "email": "c@d" }]),
                "\"A, B\" <a@b>, c@d",
            ),
            ("messageId", json!(["a@b", "c@d"]), "<a@b> <c@d>"),
            (
                "sentAt",
                json!("2014-10-30T14:12:00+08:00"),
                "Thu, 30 Oct 2014 14:12:00 +0800",
            ),
            ("references", json!([]), ""),
            ("header:X-A", json!(" b\r\n c"), " b\r\n c"),
            ("header:X-A:all", json!(["b", "c"]), " b| c"),
            (
                "header:To:asGroupedAddresses",
                json!([{ "name": "G", "addresses": [{ "email": "a@b" }] }]),
                "G: a@b;",
            ),
            (
                "header:List-Post:asURLs",
                json!(["mailto:a@b"]),
                "<mailto:a@b>",
            ),
        ] {
            assert_eq!(
                written(property, &value).as_deref(),
                Some(expected),
                "{property}"
            );
        }
        for (property, value) in [
            ("subject", json!("a\r\nBcc: b")),
            ("header:X-A", json!(" b\r\nBcc: c")),
            ("header:X-A", json!("b\nc")),
            ("to", json!([{ "email": "a\r\nb" }])),
            ("to", json!("a@b")),
            ("messageId", json!(["a b"])),
            ("sentAt", json!("yesterday")),
            ("header:Subject:asDate", json!("x")),
        ] {
            assert_eq!(written(property, &value), None, "{property} {value}");
        }
        assert_eq!(read("mailboxIds", &json!({})), Ok(None));
    }

    #[test]
    fn a_field_is_set_once() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let twice = object(json!({ "subject": "a", "header:Subject": " b" }));
        assert!(read_all(&twice, &[]).is_err());
        let content = object(json!({ "header:Content-Type": " text/html" }));
        assert!(read_all(&content, &[]).is_err());
        let others = object(json!({ "keywords": {}, "subject": "a" }));
        let fields = read_all(&others, &["keywords"]).unwrap();
        assert_eq!(fields, [("Subject".to_owned(), "a".to_owned())]);
        assert!(read_all(&others, &[]).is_err());
    }
}
