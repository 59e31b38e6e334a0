//! Creates emails (RFC 8621, section 4.6).

use latchmail_sdk::capability::Import;
use serde_json::{Value, json};

use super::new_part::{Builder, Values};
use super::{fields, keywords};
use crate::Capabilities;
use crate::args::{Object, utc_date};
use crate::context::{Context, now};
use crate::error::SetError;
use crate::ids::BlobId;
use crate::mime::write::{Content, NewPart};

/// The properties that set no header field.
const OTHERS: [&str; 8] = [
    "mailboxIds",
    "keywords",
    "receivedAt",
    "bodyStructure",
    "bodyValues",
    "textBody",
    "htmlBody",
    "attachments",
];
/// The properties that only the server sets.
const SERVER: [&str; 7] = [
    "id",
    "blobId",
    "threadId",
    "size",
    "hasAttachment",
    "preview",
    "headers",
];

/// Where and how an email is stored.
pub(super) struct Target {
    pub(super) folder: String,
    pub(super) flags: Vec<String>,
    pub(super) received_at: Option<i64>,
}

impl Target {
    /// Reads the properties `mailboxIds`, `keywords` and `receivedAt`.
    pub(super) fn read<H: Capabilities>(
        ctx: &mut Context<'_, H>,
        object: &Object,
    ) -> Result<Self, SetError> {
        let received_at = match object.get("receivedAt") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let time = value.as_str().and_then(utc_date).filter(|time| *time >= 0);
                let wrong = || SetError::invalid(&["receivedAt"], "receivedAt must be a UTCDate");
                Some(time.ok_or_else(wrong)?)
            }
        };
        Ok(Self {
            folder: mailbox(ctx, object.get("mailboxIds"))?,
            flags: keywords::read(object.get("keywords"))?,
            received_at,
        })
    }
}

/// Returns the path of the folder in `mailboxIds`.
pub(super) fn mailbox<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    ids: Option<&Value>,
) -> Result<String, SetError> {
    let invalid = |text: &str| SetError::invalid(&["mailboxIds"], text);
    let ids = ids.and_then(Value::as_object);
    let ids = ids.ok_or_else(|| invalid("mailboxIds must be an object of true"))?;
    if ids.len() > 1 {
        return Err(SetError::with(
            "tooManyMailboxes",
            "An email is in one mailbox",
        ));
    }
    let (Some(id), true) = (
        ids.keys().next(),
        ids.values().all(|is| *is == Value::Bool(true)),
    ) else {
        return Err(invalid("mailboxIds must contain one mailbox"));
    };
    let id = ctx.resolve(id).to_owned();
    let path = ctx.path_of(&id)?;
    path.ok_or_else(|| invalid("The mailbox does not exist"))
}

/// Creates an email. Returns the properties that the server has set.
pub(super) fn create<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    object: &Object,
) -> Result<Value, SetError> {
    if let Some(wrong) = SERVER.iter().find(|name| object.contains_key(**name)) {
        return Err(SetError::invalid(
            &[*wrong],
            "The server sets this property",
        ));
    }
    let target = Target::read(ctx, object)?;
    let message = write(ctx, object)?;
    let message = ctx.host.create_blob(message)?;
    store(ctx, target, message)
}

/// Stores a message. Returns the properties that the server has set.
pub(super) fn store<H: Capabilities>(
    ctx: &Context<'_, H>,
    target: Target,
    message: latchmail_sdk::capability::Blob,
) -> Result<Value, SetError> {
    let import = Import {
        folder: target.folder,
        message,
        flags: target.flags,
        received_at: target.received_at,
    };
    let uid = ctx.host.import_message(import, None)?.uid;
    let hits = ctx.host.get_summaries(&[uid])?;
    let summary = hits.first().map(|hit| &hit.summary);
    Ok(json!({
        "id": uid.to_string(),
        "blobId": BlobId::Message(uid).to_string(),
        "threadId": summary.map(|summary| summary.thread_id.as_str()),
        "size": summary.map(|summary| summary.size),
    }))
}

/// Writes the message of a new email.
fn write<H: Capabilities>(ctx: &mut Context<'_, H>, object: &Object) -> Result<Vec<u8>, SetError> {
    let values = body_values(object)?;
    let mut builder = Builder::new(ctx.host, values);
    let mut root = match object.get("bodyStructure") {
        None | Some(Value::Null) => lists(&mut builder, object)?,
        Some(structure) => {
            let lists = ["textBody", "htmlBody", "attachments"];
            if let Some(list) = lists.iter().find(|name| object.contains_key(**name)) {
                let text = "bodyStructure and the lists of parts cannot both be set";
                return Err(SetError::invalid(&["bodyStructure", *list], text));
            }
            let wrong = || SetError::invalid(&["bodyStructure"], "It must be a part");
            builder.part("bodyStructure", structure.as_object().ok_or_else(wrong)?, 0)?
        }
    };
    builder.check_blobs()?;
    let mut header = fields::read_all(object, &OTHERS)?;
    let has = |header: &[(String, String)], name: &str| {
        header
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    if let Some((name, _)) = root.fields.iter().find(|(name, _)| has(&header, name)) {
        let text = format!("The field {name} is set twice");
        return Err(SetError::invalid(&["bodyStructure"], text));
    }
    let all = [&header[..], &root.fields[..]].concat();
    ctx.message_ids += 1;
    let unique = format!("{}.{}", ctx.request, ctx.message_ids);
    if !has(&all, "Message-ID") {
        let domain = ctx.caller.address.rsplit('@').next().unwrap_or("localhost");
        header.push(("Message-ID".into(), format!("<{unique}@{domain}>")));
    }
    if !has(&all, "Date") {
        let date = chrono::DateTime::from_timestamp_millis(now()).unwrap_or_default();
        header.push(("Date".into(), date.to_rfc2822()));
    }
    header.push(("MIME-Version".into(), "1.0".into()));
    header.append(&mut root.fields);
    root.fields = header;
    Ok(root.write(&unique.replace(|c: char| !c.is_ascii_alphanumeric(), "_")))
}

/// Reads the property `bodyValues`.
fn body_values(object: &Object) -> Result<Values<'_>, SetError> {
    let invalid = |text: &str| SetError::invalid(&["bodyValues"], text);
    let values = match object.get("bodyValues") {
        None | Some(Value::Null) => return Ok(Values::new()),
        Some(values) => values
            .as_object()
            .ok_or_else(|| invalid("It must be an object"))?,
    };
    let mut read = Values::new();
    for (id, value) in values {
        let text = value.get("value").and_then(Value::as_str);
        let text = text.ok_or_else(|| invalid("A value must have the member value"))?;
        for flag in ["isEncodingProblem", "isTruncated"] {
            if !matches!(
                value.get(flag),
                None | Some(Value::Null | Value::Bool(false))
            ) {
                return Err(invalid("isEncodingProblem and isTruncated must be false"));
            }
        }
        read.insert(id, text);
    }
    Ok(read)
}

/// Builds the message of the properties `textBody`, `htmlBody` and `attachments`.
fn lists<H: Capabilities>(
    builder: &mut Builder<'_, H>,
    object: &Object,
) -> Result<NewPart, SetError> {
    let mut list = |name: &str| -> Result<Vec<(NewPart, bool)>, SetError> {
        let invalid = || SetError::invalid(&[name], "It must be an array of parts");
        let parts = match object.get(name) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(parts) => parts.as_array().ok_or_else(invalid)?,
        };
        let mut built = Vec::with_capacity(parts.len());
        for part in parts {
            let part = part.as_object().ok_or_else(invalid)?;
            // The parts of a text without a type have the type of the list.
            let mut part = part.clone();
            let default = match name {
                "textBody" => Some("text/plain"),
                "htmlBody" => Some("text/html"),
                _ => None,
            };
            if let Some(media) = default {
                let given = part.entry("type").or_insert_with(|| media.into());
                if *given != media {
                    let text = format!("The part must have the type {media}");
                    return Err(SetError::invalid(&[name], text));
                }
            }
            let is_inline = part.get("disposition").and_then(Value::as_str) == Some("inline")
                && part.get("cid").is_some_and(Value::is_string);
            built.push((builder.part(name, &part, 1)?, is_inline));
        }
        Ok(built)
    };
    let (mut texts, mut htmls) = (list("textBody")?, list("htmlBody")?);
    for (name, parts) in [("textBody", &texts), ("htmlBody", &htmls)] {
        if parts.len() > 1 {
            return Err(SetError::invalid(&[name], "It must have one part"));
        }
    }
    let attachments = list("attachments")?;
    let text = texts.pop().map(|(part, _)| part);
    let html = htmls.pop().map(|(part, _)| part);
    let has_html = html.is_some();
    let (inline, mixed): (Vec<_>, Vec<_>) = attachments
        .into_iter()
        .partition(|(_, is_inline)| *is_inline && has_html);
    let parts = |list: Vec<(NewPart, bool)>| list.into_iter().map(|(part, _)| part);
    let html = html.map(|html| {
        if inline.is_empty() {
            return html;
        }
        let related = std::iter::once(html).chain(parts(inline));
        multipart("multipart/related", related.collect())
    });
    let body = match (text, html) {
        (Some(text), Some(html)) => Some(multipart("multipart/alternative", vec![text, html])),
        (text, html) => text.or(html),
    };
    let mut all: Vec<NewPart> = body.into_iter().chain(parts(mixed)).collect();
    Ok(match all.len() {
        0 => NewPart {
            fields: vec![("Content-Type".into(), "text/plain; charset=utf-8".into())],
            content: Content::default(),
        },
        // A single attachment keeps its disposition.
        1 => all.remove(0),
        _ => multipart("multipart/mixed", all),
    })
}

fn multipart(media: &str, parts: Vec<NewPart>) -> NewPart {
    NewPart {
        fields: vec![("Content-Type".into(), media.into())],
        content: Content::Multipart(parts),
    }
}
