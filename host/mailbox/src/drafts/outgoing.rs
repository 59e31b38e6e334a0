//! The message that is sent for a draft: the bytes of the draft with a new date, and without Bcc
//! and private header fields.

use bytes::{Bytes, BytesMut};
use latchmail_core::clock::Timestamp;
use latchmail_mime::{self as mime, Address, Fields, Header, addresses_of};
use mail_builder::headers::date::Date;

use super::result::Error;
use crate::bounds;
use crate::outbox::Recipient;
use crate::outbox::draft::is_message_id;

/// Maximum number of recipients in To, Cc and Bcc together, as in the route that sends a message.
const MAX_RECIPIENTS: usize = 50;
/// Maximum length of a subject, in characters.
const MAX_SUBJECT: usize = 998;

/// Private header fields of mail clients and of this service. Other programs do not need these
/// fields, and some of them contain paths or names of accounts.
const PRIVATE: [&str; 14] = [
    "fcc",
    "bcc",
    "resent-bcc",
    "return-path",
    "status",
    "x-status",
    "x-keywords",
    "x-uid",
    "x-uidl",
    "x-imap",
    "x-identity-key",
    "x-account-key",
    "x-unsent",
    "x-draft-info",
];
const PRIVATE_PREFIXES: [&str; 6] = [
    "x-mozilla-",
    "x-latchmail-",
    "x-evolution-",
    "x-kmail-",
    "x-apple-",
    "x-sylpheed-",
];

/// Returns `true` if the header field is not sent.
pub(super) fn is_private(name: &str) -> bool {
    let starts_with = |prefix: &&str| {
        let start = name.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    PRIVATE.iter().any(|one| name.eq_ignore_ascii_case(one))
        || PRIVATE_PREFIXES.iter().any(starts_with)
}

/// The sender and the recipients of a draft that can be sent.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) from: String,
    pub(super) recipients: Vec<Recipient>,
    pub(super) subject: String,
    pub(super) to: Vec<Address>,
    /// The Message-ID with angle brackets, if it is valid.
    pub(super) message_id: Option<String>,
}

/// Checks that a draft can be sent.
///
/// # Errors
/// Returns [`Error::Unfinished`] with the name of a missing or invalid field.
pub(super) fn check(message: &[u8]) -> Result<Finished, Error> {
    let finished = addressed(message)?;
    if finished.to.is_empty() {
        return Err(Error::Unfinished("to"));
    }
    Ok(finished)
}

/// Checks that a message can be sent with an envelope. The message can have no recipients in To.
///
/// # Errors
/// Returns [`Error::Unfinished`] with the name of a missing or invalid field.
pub(super) fn addressed(message: &[u8]) -> Result<Finished, Error> {
    let (head, _) = mime::split(message);
    let header = Header::of(head, bounds::FIELD);
    let [sender] = &header.from[..] else {
        return Err(Error::Unfinished("from"));
    };
    let recipients = |list: &[Address], field: &'static str| {
        let one = |one: &Address| Recipient::new(one.name.clone(), &one.address);
        let recipients: Result<Vec<_>, _> = list.iter().map(one).collect();
        recipients.map_err(|_| Error::Unfinished(field))
    };
    recipients(&header.from, "from")?;
    let mut all = recipients(&header.to, "to")?;
    all.extend(recipients(&header.cc, "cc")?);
    let (bcc, is_cut) = addresses_of(head, "bcc");
    all.extend(recipients(&bcc, "bcc")?);
    if header.truncated || is_cut || all.len() > MAX_RECIPIENTS {
        return Err(Error::Unfinished("recipients"));
    }
    recipients(&header.reply_to, "reply-to")?;
    if header.subject.chars().count() > MAX_SUBJECT {
        return Err(Error::Unfinished("subject"));
    }
    let names = ["In-Reply-To", "References"];
    let fields = Fields::of(head, Some(&names.map(ToOwned::to_owned)));
    for field in &fields.fields {
        if !field.value.split_whitespace().all(is_message_id) {
            let is_reply = field.name.eq_ignore_ascii_case(names[0]);
            let name = if is_reply {
                "in-reply-to"
            } else {
                "references"
            };
            return Err(Error::Unfinished(name));
        }
    }
    Ok(Finished {
        from: sender.address.clone(),
        recipients: all,
        subject: header.subject,
        to: header.to,
        message_id: Some(header.message_id).filter(|id| is_message_id(id)),
    })
}

/// Returns the message to send. `message_id` replaces the Message-ID.
pub(super) fn rewrite(message: &[u8], message_id: &str, date: Timestamp) -> Bytes {
    let (head, body) = mime::split(message);
    let mut written = BytesMut::with_capacity(message.len() + 128);
    let date = Date::new(date.seconds()).to_rfc822();
    written.extend_from_slice(format!("Date: {date}\r\nMessage-ID: {message_id}\r\n").as_bytes());
    let mut is_kept = false;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        if matches!(line, b"\n" | b"\r\n") {
            break;
        }
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name.trim_ascii_end());
            let is_replaced = ["date", "message-id", "sender"]
                .iter()
                .any(|one| name.eq_ignore_ascii_case(one));
            // A line without a colon is not a header field, and would end the header.
            is_kept = !is_replaced && !is_private(&name) && line.contains(&b':');
        }
        if is_kept {
            written.extend_from_slice(line);
        }
    }
    if !written.ends_with(b"\n") {
        written.extend_from_slice(b"\r\n");
    }
    written.extend_from_slice(b"\r\n");
    written.extend_from_slice(body);
    if !written.ends_with(b"\r\n") {
        written.extend_from_slice(b"\r\n");
    }
    written.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAFT: &str = "Date: Mon, 1 Jan 2024 10:00:00 +0000\r\n\
        Message-ID: <1@x.example>\r\n\
        X-Mozilla-Draft-Info: internal/draft; vcard=0;\r\n receipt=0\r\n\
        X-Identity-Key: id1\r\nX-Account-Key: account1\r\n\
        FCC: imap://ada@x.example/Sent\r\n\
        X-Latchmail-Draft-Id: 00\r\nX-Priority: 1\r\n\
        From: Ada <ada@x.example>\r\nSender: eve@x.example\r\n\
        To: Bo <bo@x.example>\r\nBCC: secret@x.example,\r\n more@x.example\r\n\
        Subject: a\r\n b\r\n\r\nBcc: text\r\n";

    #[test]
    fn private_fields_and_bcc_are_not_sent() {
        let sent = rewrite(DRAFT.as_bytes(), "<2@x.example>", Timestamp::from_millis(0));
        let sent = String::from_utf8(sent.to_vec()).unwrap();
        assert_eq!(
            sent,
            "Date: Thu, 1 Jan 1970 00:00:00 +0000\r\nMessage-ID: <2@x.example>\r\n\
             X-Priority: 1\r\nFrom: Ada <ada@x.example>\r\nTo: Bo <bo@x.example>\r\n\
             Subject: a\r\n b\r\n\r\nBcc: text\r\n"
        );
    }

    #[test]
    fn the_envelope_contains_bcc() {
        let finished = check(DRAFT.as_bytes()).unwrap();
        let to = finished.recipients.iter();
        let to: Vec<_> = to.map(|one| one.address.as_str()).collect();
        assert_eq!(to, ["bo@x.example", "secret@x.example", "more@x.example"]);
        assert_eq!(finished.from, "ada@x.example");
        assert_eq!(finished.message_id.as_deref(), Some("<1@x.example>"));
    }

    #[test]
    fn an_unfinished_draft_names_its_first_field() {
        for (changed, to, field) in [
            ("From: Ada <ada@x.example>\r\n", "", "from"),
            ("Ada <ada@x.example>", "Ada <ada>", "from"),
            ("To: Bo <bo@x.example>\r\n", "", "to"),
            ("bo@x.example", "bo", "to"),
            (" more@x.example", " more", "bcc"),
            ("Subject:", "Reply-To: x\r\nSubject:", "reply-to"),
            ("Subject:", "In-Reply-To: x\r\nSubject:", "in-reply-to"),
            ("Subject:", "References: <a> x\r\nSubject:", "references"),
        ] {
            let draft = DRAFT.replacen(changed, to, 1);
            let refused = check(draft.as_bytes()).expect_err(field);
            assert!(
                matches!(refused, Error::Unfinished(name) if name == field),
                "{refused}"
            );
        }
    }
}
