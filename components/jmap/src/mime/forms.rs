//! The parsed forms of header fields (RFC 8621, section 4.1.2).

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use super::address::{self, Group};
use super::structure::{Field, Part};
use super::words;

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Raw,
    Text,
    Addresses,
    GroupedAddresses,
    MessageIds,
    Date,
    Urls,
}

/// A property `header:{name}:as{form}:all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderProperty {
    pub(crate) name: String,
    pub(crate) form: Form,
    pub(crate) all: bool,
}

const ADDRESSES: [&str; 14] = [
    "from",
    "sender",
    "reply-to",
    "to",
    "cc",
    "bcc",
    "resent-from",
    "resent-sender",
    "resent-reply-to",
    "resent-to",
    "resent-cc",
    "resent-bcc",
    "mail-followup-to",
    "disposition-notification-to",
];
const MESSAGE_IDS: [&str; 4] = [
    "message-id",
    "in-reply-to",
    "references",
    "resent-message-id",
];
const DATES: [&str; 2] = ["date", "resent-date"];
const URLS: [&str; 6] = [
    "list-help",
    "list-unsubscribe",
    "list-subscribe",
    "list-post",
    "list-owner",
    "list-archive",
];
/// Fields of RFC 5322 that have neither text nor another form.
const OTHER: [&str; 2] = ["return-path", "received"];

impl Form {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "asRaw" => Self::Raw,
            "asText" => Self::Text,
            "asAddresses" => Self::Addresses,
            "asGroupedAddresses" => Self::GroupedAddresses,
            "asMessageIds" => Self::MessageIds,
            "asDate" => Self::Date,
            "asURLs" => Self::Urls,
            _ => return None,
        })
    }

    /// Returns whether a field can have this form. Fields that the standards do not define can have
    /// any form.
    fn is_valid_for(self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let is = |list: &[&str]| list.contains(&name.as_str());
        let has_other = is(&ADDRESSES) || is(&MESSAGE_IDS) || is(&DATES) || is(&URLS) || is(&OTHER);
        let is_text = ["subject", "comments", "keywords", "list-id"].contains(&name.as_str());
        let is_free = !has_other && !is_text;
        match self {
            Self::Raw => true,
            Self::Text => !has_other,
            Self::Addresses | Self::GroupedAddresses => is(&ADDRESSES) || is_free,
            Self::MessageIds => is(&MESSAGE_IDS) || is_free,
            Self::Date => is(&DATES) || is_free,
            Self::Urls => is(&URLS) || is_free,
        }
    }
}

impl HeaderProperty {
    fn new(name: &str, form: Form) -> Self {
        Self {
            name: name.into(),
            form,
            all: false,
        }
    }

    /// Parses the name of a property. Returns `None` if it is no property of a header field.
    pub(crate) fn parse(property: &str) -> Option<Self> {
        let mut fields = property.strip_prefix("header:")?.split(':');
        let name = fields.next()?;
        let is_name = |b: u8| (0x21..0x7f).contains(&b);
        if name.is_empty() || !name.bytes().all(is_name) {
            return None;
        }
        let mut parsed = Self::new(name, Form::Raw);
        let mut next = fields.next();
        if let Some(form) = next.and_then(Form::named) {
            parsed.form = form;
            next = fields.next();
        }
        if next == Some("all") {
            parsed.all = true;
            next = fields.next();
        }
        (next.is_none() && parsed.form.is_valid_for(name)).then_some(parsed)
    }

    /// Returns the header property for which a convenience property stands (RFC 8621, section
    /// 4.1.3).
    pub(crate) fn of_convenience(property: &str) -> Option<Self> {
        Some(match property {
            "messageId" => Self::new("Message-ID", Form::MessageIds),
            "inReplyTo" => Self::new("In-Reply-To", Form::MessageIds),
            "references" => Self::new("References", Form::MessageIds),
            "sender" => Self::new("Sender", Form::Addresses),
            "from" => Self::new("From", Form::Addresses),
            "to" => Self::new("To", Form::Addresses),
            "cc" => Self::new("Cc", Form::Addresses),
            "bcc" => Self::new("Bcc", Form::Addresses),
            "replyTo" => Self::new("Reply-To", Form::Addresses),
            "subject" => Self::new("Subject", Form::Text),
            "sentAt" => Self::new("Date", Form::Date),
            _ => return None,
        })
    }

    /// Returns the value of the property of a part.
    pub(crate) fn of(&self, part: &Part) -> Value {
        if self.all {
            let fields = part.fields.iter();
            let found = fields.filter(|field| field.name.eq_ignore_ascii_case(&self.name));
            return found.map(|field| value(field, self.form)).collect();
        }
        let field = part.field(&self.name);
        field.map_or(Value::Null, |field| value(field, self.form))
    }
}

/// Returns the raw form of a field.
pub(crate) fn raw(field: &Field) -> String {
    String::from_utf8_lossy(&field.raw).replace('\0', "")
}

fn value(field: &Field, form: Form) -> Value {
    match form {
        Form::Raw => raw(field).into(),
        Form::Text => text(&field.raw).into(),
        Form::Addresses => {
            let addresses = address::flat(address::parse(&field.raw));
            addresses.iter().map(address::Mailbox::to_json).collect()
        }
        Form::GroupedAddresses => {
            let groups = address::parse(&field.raw);
            groups.iter().map(group).collect()
        }
        Form::MessageIds => json!(message_ids(&field.raw)),
        Form::Date => json!(date(&field.raw)),
        Form::Urls => json!(urls(&field.raw)),
    }
}

fn group(group: &Group) -> Value {
    let addresses = group.addresses.iter().map(address::Mailbox::to_json);
    json!({ "name": group.name, "addresses": addresses.collect::<Vec<_>>() })
}

/// Returns the decoded text of a field.
pub(crate) fn text(raw: &[u8]) -> String {
    let text = words::decode(words::unfold(raw).trim());
    text.replace('\0', "")
}

/// Returns the texts in angle brackets. Returns `None` if there is other text outside of comments.
fn bracketed(raw: &[u8]) -> Option<Vec<String>> {
    let text = words::unfold(raw);
    let (mut found, mut rest) = (Vec::new(), without_comments(&text));
    loop {
        let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if trimmed.is_empty() {
            return (!found.is_empty()).then_some(found);
        }
        let (inner, after) = trimmed.strip_prefix('<')?.split_once('>')?;
        found.push(inner.split_whitespace().collect());
        rest = after.to_owned();
    }
}

fn without_comments(text: &str) -> String {
    let (mut kept, mut depth, mut is_bracketed) = (String::new(), 0_u32, false);
    for c in text.chars() {
        match c {
            '(' if !is_bracketed => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            c => {
                is_bracketed = (is_bracketed || c == '<') && c != '>';
                kept.push(c);
            }
        }
    }
    kept
}

fn message_ids(raw: &[u8]) -> Option<Vec<String>> {
    bracketed(raw).filter(|ids| ids.iter().all(|id| !id.is_empty()))
}

fn urls(raw: &[u8]) -> Option<Vec<String>> {
    bracketed(raw)
}

/// Returns a date with its offset from UTC.
fn date(raw: &[u8]) -> Option<String> {
    let text = without_comments(&words::unfold(raw));
    let date = DateTime::parse_from_rfc2822(text.trim()).ok()?;
    Some(date.to_rfc3339_opts(SecondsFormat::Secs, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mime::structure::fields;

    fn of(head: &str, property: &str) -> Value {
        let part = Part {
            fields: fields(head.as_bytes()),
            ..Part::default()
        };
        let convenience = HeaderProperty::of_convenience(property);
        convenience
            .or_else(|| HeaderProperty::parse(property))
            .unwrap()
            .of(&part)
    }

    #[test]
    fn fields_have_the_forms_of_the_standard() {
        let head = "Subject: =?utf-8?Q?caf=C3=A9?=\r\n  x\r\nDate: Thu, 30 Oct 2014 14:12:00 +0800 (x)\r\n\
            Message-ID: <a@b>\r\nReferences: <a@b> (old)\r\n <c@d>\r\nIn-Reply-To: Your mail\r\n\
            List-Post: <mailto:l@b> (all), <https://b/l>\r\nX-A: 1\r\nX-A: 2\r\n\
            To: A <a@b>, G: c@d;\r\n";
        for (property, value) in [
            ("subject", json!("caf\u{e9}  x")),
            ("header:subject", json!(" =?utf-8?Q?caf=C3=A9?=\r\n  x")),
            ("sentAt", json!("2014-10-30T14:12:00+08:00")),
            ("messageId", json!(["a@b"])),
            ("references", json!(["a@b", "c@d"])),
            ("inReplyTo", json!(null)),
            (
                "header:List-Post:asURLs",
                json!(["mailto:l@b", "https://b/l"]),
            ),
            ("header:X-A:all", json!([" 1", " 2"])),
            ("header:X-A:asText", json!("2")),
            ("header:X-B:asText", json!(null)),
            ("header:X-B:all", json!([])),
            (
                "to",
                json!([{ "name": "A", "email": "a@b" }, { "name": null, "email": "c@d" }]),
            ),
            (
                "header:To:asGroupedAddresses",
                json!([
                    { "name": null, "addresses": [{ "name": "A", "email": "a@b" }] },
                    { "name": "G", "addresses": [{ "name": null, "email": "c@d" }] },
                ]),
            ),
        ] {
            assert_eq!(of(head, property), value, "{property}");
        }
    }

    #[test]
    fn a_form_must_fit_the_field() {
        for valid in [
            "header:X-A:asDate",
            "header:from:asAddresses:all",
            "header:Received",
        ] {
            assert!(HeaderProperty::parse(valid).is_some(), "{valid}");
        }
        for wrong in [
            "header:",
            "header:a b",
            "header:From:asText",
            "header:Subject:asDate",
            "header:Date:asAddresses",
            "header:X-A:all:asText",
            "header:X-A:asX",
            "subject",
            "header:Received:asText",
        ] {
            assert!(HeaderProperty::parse(wrong).is_none(), "{wrong}");
        }
    }
}
