//! GET `/api/v1/digest`: returns the new messages. The daily digest uses the same list.

use latchmail_sdk::capability::{Caller, Error, Mailbox, MessageQuery, Page, Store, Summary};
use latchmail_sdk::time::iso8601;
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Serialize;
use utoipa::ToSchema;

use crate::mark;
use crate::settings::Settings;

/// The number of messages to check in each folder, newest first. The digest does not contain older
/// messages.
const MAX_CHECKED: u32 = 100;

const SEEN: &str = "\\Seen";

/// A new message.
#[derive(Serialize, ToSchema)]
pub(crate) struct DigestMessage {
    /// The number of the message, which is unique in the mailbox.
    #[schema(minimum = 1)]
    uid: u64,
    /// The folder of the message.
    pub(crate) folder: String,
    /// The sender: the name, or the address if there is no name, or an empty string if there is
    /// neither.
    pub(crate) from: String,
    /// The subject, or an empty string if there is none.
    pub(crate) subject: String,
    /// The date of the message.
    #[schema(format = DateTime)]
    pub(crate) date: String,
    /// The beginning of the sender's text. Show it as text, never as HTML.
    pub(crate) preview: String,
}

/// A digest of new messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct Digest {
    /// The unread messages that arrived after the last mark, newest first. Messages from the
    /// account's own address are left out.
    pub(crate) messages: Vec<DigestMessage>,
    /// The number of new messages that the digest does not contain.
    pub(crate) more: usize,
    /// The value to send as the next mark: the highest `uid` of the new messages, or the last mark
    /// if there are no new messages.
    pub(crate) upto: u64,
}

/// Read the digest
///
/// Returns the unread messages of the chosen folders that arrived after the last mark. Reading the
/// digest changes neither the messages nor the mark.
#[utoipa::path(
    get,
    path = "/api/v1/digest",
    operation_id = "getDigest",
    tag = "Digest",
    responses((status = 200, description = "The digest", body = Digest))
)]
pub(crate) fn get_digest(
    host: &(impl Caller + Mailbox + Store),
    _: &Request,
) -> Result<Reply, Failure> {
    let digest = mark::read(host).and_then(|mark| digest(host, mark, u64::MAX));
    let missing = (codes::FOLDER_NOT_FOUND, "Folder not found");
    Reply::json(&digest.map_err(|error| Failure::of(error, missing, host))?)
}

/// Returns the digest of the messages with a number above `since` and at most `upto`.
pub(crate) fn digest(
    host: &(impl Caller + Mailbox + Store),
    since: u64,
    upto: u64,
) -> Result<Digest, Error> {
    let own_address = host.current().address;
    let settings = Settings::read(host)?;
    let mut found: Vec<(String, Summary)> = Vec::new();
    for folder in settings.folders {
        let page = Page {
            offset: 0,
            limit: MAX_CHECKED,
        };
        let listing = match host.list_messages(&MessageQuery::page(&folder, page)) {
            // The folder can be deleted after the user chose the folder.
            Err(Error::NotFound) => continue,
            other => other?,
        };
        let new = |message: &Summary| {
            let mut senders = message.from.iter();
            let is_own = senders.any(|from| from.address.eq_ignore_ascii_case(&own_address));
            let is_seen = message.flags.iter().any(|flag| flag == SEEN);
            message.uid > since && message.uid <= upto && !is_seen && !is_own
        };
        let messages = listing.messages.into_iter().filter(new);
        found.extend(messages.map(|message| (folder.clone(), message)));
    }
    found.sort_by_key(|(_, message)| std::cmp::Reverse(message.uid));
    let upto = found.first().map_or(since, |(_, message)| message.uid);
    let more = found.len().saturating_sub(settings.limit);
    found.truncate(settings.limit);
    Ok(Digest {
        messages: found.into_iter().map(digest_message).collect(),
        more,
        upto,
    })
}

fn digest_message((folder, message): (String, Summary)) -> DigestMessage {
    let sender = message.from.into_iter().next();
    let from = sender.map_or_else(String::new, |sender| {
        if sender.name.is_empty() {
            sender.address
        } else {
            sender.name
        }
    });
    DigestMessage {
        uid: message.uid,
        folder,
        from,
        subject: message.subject,
        date: iso8601(message.date),
        preview: message.preview,
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, Mailbox as _, Scope};
    use latchmail_sdk::testing::{Letter, Service};
    use serde_json::{Value, json};

    fn subjects(digest: &Value) -> Vec<&str> {
        let messages = digest["messages"].as_array().unwrap().iter();
        messages.map(|m| m["subject"].as_str().unwrap()).collect()
    }

    fn letter(subject: &str) -> Letter {
        Letter::from("Grace <grace@example.org>").subject(subject)
    }

    #[test]
    fn unread_messages_after_the_mark_are_new() {
        let service = Service::of(crate::module());
        service.host.deliver(letter("old"));
        service.host.deliver(letter("older than the mark"));
        service
            .post("/api/v1/digest/mark", &json!({ "upto": 2 }))
            .succeeds(200);
        service.host.deliver(letter("new").text("Are you\ncoming?"));
        service.host.deliver(letter("read already").flag("\\Seen"));
        let digest = service.get("/api/v1/digest").succeeds(200);
        assert_eq!(
            digest,
            json!({
                "messages": [{
                    "uid": 3, "folder": "INBOX", "from": "Grace", "subject": "new",
                    "date": "2026-11-20T08:00:00.000Z", "preview": "Are you coming?",
                }],
                "more": 0,
                "upto": 3,
            })
        );
    }

    #[test]
    fn all_unread_messages_are_new_without_a_mark() {
        let service = Service::of(crate::module());
        let empty = json!({ "messages": [], "more": 0, "upto": 0 });
        assert_eq!(service.get("/api/v1/digest").succeeds(200), empty);
        service.host.deliver(Letter::from("bare@example.org"));
        let digest = service.get("/api/v1/digest").succeeds(200);
        assert_eq!(digest["messages"][0]["from"], "bare@example.org");
    }

    #[test]
    fn a_message_from_the_own_address_is_not_new() {
        let service = Service::of(crate::module());
        let own = Letter::from("Ada <Ada@example.test>").subject("to myself");
        service.host.deliver(own);
        service.host.deliver(letter("new"));
        let digest = service.get("/api/v1/digest").succeeds(200);
        assert_eq!(subjects(&digest), ["new"]);
    }

    #[test]
    fn a_moved_message_is_not_new() {
        let service = Service::of(crate::module());
        service.host.file("Archive", letter("kept"));
        service.host.deliver(letter("new"));
        service
            .post("/api/v1/digest/mark", &json!({ "upto": 2 }))
            .succeeds(200);
        service.host.move_messages(&[1], "INBOX", None).unwrap();
        let digest = service.get("/api/v1/digest").succeeds(200);
        assert!(subjects(&digest).is_empty(), "{digest}");
    }

    #[test]
    fn the_newest_messages_are_returned_and_the_others_are_counted() {
        let service = Service::of(crate::module());
        let settings = json!({ "folders": ["INBOX", "Lists", "Gone"], "limit": 2 });
        service
            .put("/api/v1/digest/settings", &settings)
            .succeeds(200);
        service.host.deliver(letter("first"));
        service.host.file("Lists", letter("second"));
        service.host.deliver(letter("third"));
        service.host.file("Junk", letter("not asked for"));
        let digest = service.get("/api/v1/digest").succeeds(200);
        assert_eq!(subjects(&digest), ["third", "second"]);
        assert_eq!((&digest["more"], &digest["upto"]), (&json!(1), &json!(3)));
    }

    #[test]
    fn the_digest_requires_the_scope_for_reading_mail() {
        let service = Service::of(crate::module());
        service.host.use_token(&[Scope::MailRead]);
        service.get("/api/v1/digest").succeeds(200);
        service.host.use_oauth();
        service.get("/api/v1/digest").succeeds(200);
        service.host.use_token(&[Scope::MailSend]);
        let text = "This credential is missing the \"mail:read\" scope";
        service.get("/api/v1/digest").fails(403, text);
    }

    #[test]
    fn an_unavailable_mail_server_is_reported() {
        let service = Service::of(crate::module());
        service.host.fail(Error::Unavailable);
        let response = service.get("/api/v1/digest");
        assert_eq!(
            (response.status, response.header("retry-after")),
            (503, Some("2"))
        );
    }
}
