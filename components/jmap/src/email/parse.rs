//! `Email/parse` (RFC 8621, section 4.9).

use latchmail_sdk::capability::Error;
use serde_json::{Value, json};

use super::object::{self, Options, load};
use crate::Capabilities;
use crate::args::{Args, Object, select};
use crate::blob;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::ids::BlobId;
use crate::limits::MAX_GET;

/// The properties that a response has by default.
const DEFAULT: [&str; 16] = [
    "messageId",
    "inReplyTo",
    "references",
    "sender",
    "from",
    "to",
    "cc",
    "bcc",
    "replyTo",
    "subject",
    "sentAt",
    "hasAttachment",
    "preview",
    "bodyValues",
    "textBody",
    "htmlBody",
];
/// The properties that only an email of the mailbox has. They are null.
const STORED: [&str; 5] = ["id", "mailboxIds", "keywords", "receivedAt", "threadId"];

/// `Email/parse`.
pub(crate) fn parse<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "blobIds",
        "properties",
        "bodyProperties",
        "fetchTextBodyValues",
        "fetchHTMLBodyValues",
        "fetchAllBodyValues",
        "maxBodyValueBytes",
    ];
    let args = &Args::new(ctx, args, &known)?;
    let ids = args.texts("blobIds")?;
    let ids = ids.ok_or_else(|| MethodError::invalid("blobIds must be an array of strings"))?;
    if ids.len() > MAX_GET {
        return Err(MethodError::new("requestTooLarge"));
    }
    let given = args.texts("properties")?;
    let properties = given.unwrap_or_else(|| {
        let mut all = DEFAULT.to_vec();
        all.push("attachments");
        all
    });
    let options = Options::read(args, &properties)?;
    let (mut parsed, mut not_found, mut not_parsable) = (Object::new(), Vec::new(), Vec::new());
    for id in ids {
        let Some(blob_id) = BlobId::parse(id) else {
            not_found.push(id);
            continue;
        };
        let blob = match blob::open(ctx.host, &blob_id) {
            Ok(blob) => blob,
            Err(Error::NotFound) => {
                not_found.push(id);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let message = load(&blob, true)?;
        if !message.has_header {
            not_parsable.push(id);
            continue;
        }
        let mut email = Object::new();
        for name in STORED {
            email.insert(name.into(), Value::Null);
        }
        email.insert("blobId".into(), id.into());
        email.insert("size".into(), blob.size().into());
        options.add(&mut email, &message, &blob, &blob_id)?;
        if properties.contains(&"preview") {
            email.insert("preview".into(), object::preview(&message, &blob)?.into());
        }
        let has_attachment = object::has_attachment(&message);
        email.insert("hasAttachment".into(), has_attachment.into());
        parsed.insert(id.into(), select(email, &properties));
    }
    let or_null = |ids: Vec<_>| (!ids.is_empty()).then_some(ids);
    let parsed = (!parsed.is_empty()).then_some(parsed);
    Ok(json!({
        "accountId": ctx.account,
        "parsed": parsed,
        "notParsable": or_null(not_parsable),
        "notFound": or_null(not_found),
    }))
}
