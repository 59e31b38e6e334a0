//! GET `/api/v1/mail/messages/{uid}`: returns one complete message.

use latchmail_common::{Message, reading, versions};
use latchmail_sdk::capability::{Caller, Error, Mailbox, MessageVersion};
use latchmail_sdk::{Failure, Reply, Request, codes};

/// The maximum number of names of header fields in a request.
const MAX_NAMES: usize = 100;

/// Read a message
///
/// Returns the message with this `uid` from any folder. The request does not mark the message as
/// read.
#[utoipa::path(
    get,
    path = "/api/v1/mail/messages/{uid}",
    operation_id = "getMessage",
    tag = "Mail",
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("folder" = Option<String>, Query, description = "Not needed: the `uid` identifies the message"),
        ("headers" = Option<String>, Query, pattern = "^ *[!-+--9;-~]+ *(?:, *[!-+--9;-~]+ *){0,99}$", description = "Also returns header fields: `all`, or at most 100 names that are separated by commas", example = "List-Id,Received", extensions(("x-latchmail" = json!(true)))),
        ("If-None-Match" = Option<String>, Header, extensions(("x-latchmail" = json!(true))), description = "Return 304 if the `ETag` is one of these")
    ),
    responses(
        (
            status = 200,
            description = "The message",
            body = Message,
            headers(("ETag" = String, description = "The version of the message. It changes with the flags, the folder and the thread; `seq` does not count")),
            links(
                ("getThread" = (operation_id = "getThread", parameters(("id" = "$response.body#/threadId")))),
                ("getAttachment" = (operation_id = "getAttachment", parameters(("uid" = "$response.body#/uid"), ("index" = "$response.body#/attachments/0/index")))),
                ("flagMessage" = (operation_id = "flagMessage", parameters(("uid" = "$response.body#/uid")))),
                ("moveMessage" = (operation_id = "moveMessage", parameters(("uid" = "$response.body#/uid")))),
                ("deleteMessage" = (operation_id = "deleteMessage", parameters(("uid" = "$response.body#/uid"))))
            )
        ),
        (status = 304, description = "The client has the current message"),
        (status = 400, description = "`Invalid message UID`, `Invalid headers parameter`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let headers = request.query("headers");
    let names = headers.map(names).transpose()?;
    let tag = |version: &MessageVersion| version.state.clone();
    if let Some(reply) = versions::not_modified(host, request, uid, tag)? {
        return Ok(reply);
    }
    let (mut message, version, texts) = reading::message_with_blobs(host, uid)?;
    if let Some(names) = names {
        let header = host.get_header(uid, names.as_deref());
        message.set_headers(header.map_err(|error| match error {
            Error::Invalid(_) => invalid_headers(),
            other => Failure::of(other, reading::NO_MESSAGE, host),
        })?);
    }
    Ok(Reply::json_with_texts(&message, texts)?.with_etag(&version))
}

fn invalid_headers() -> Failure {
    Failure::bad_request(
        codes::INVALID_HEADERS_PARAMETER,
        "Invalid headers parameter",
    )
}

/// Returns the names in the parameter `headers`. Returns `None` for all header fields.
fn names(headers: &str) -> Result<Option<Vec<String>>, Failure> {
    if headers.eq_ignore_ascii_case("all") {
        return Ok(None);
    }
    let names: Vec<String> = headers.split(',').map(|name| name.trim().into()).collect();
    let is_part = |byte: u8| (0x21..0x7f).contains(&byte) && byte != b':';
    let is_name = |name: &String| !name.is_empty() && name.bytes().all(is_part);
    if names.len() <= MAX_NAMES && names.iter().all(is_name) {
        Ok(Some(names))
    } else {
        Err(invalid_headers())
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::FlagAction;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    fn read(uid: &str) -> Request {
        request(&[("uid", uid)], &[("folder", "Work")], "")
    }

    #[test]
    fn a_message_has_no_preview_and_only_existing_parts() {
        let host = FakeHost::new();
        let letter = Letter::from("grace@example.org").text("Hello");
        host.deliver(letter.file("a.pdf", "application/pdf", b"PDF"));
        let response = json(get_message(&host, &read("1")));
        assert_eq!(response["uid"], 1);
        assert_eq!(response["text"], "Hello");
        assert_eq!(response["newText"], "Hello");
        assert_eq!(response["attachments"][0]["contentType"], "application/pdf");
        for absent in ["preview", "html", "inReplyTo", "truncated"] {
            assert!(response.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn a_message_that_the_client_has_is_not_returned_again() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org").text("Hello"));
        let tag = |reply: &Reply| {
            let mut headers = reply.headers.iter();
            headers.find(|(name, _)| name == "etag").unwrap().1.clone()
        };
        let first = tag(&get_message(&host, &read("1")).unwrap());
        let again = |tags: &str| {
            let mut request = read("1");
            request.headers.push(("if-none-match".into(), tags.into()));
            get_message(&host, &request).unwrap()
        };
        for tags in [first.as_str(), &format!("\"x\", W/{first}"), "*"] {
            let reply = again(tags);
            assert_eq!((reply.status, tag(&reply)), (304, first.clone()), "{tags}");
        }
        assert_eq!(again("\"x\"").status, 200);
        let seen = ["\\Seen".to_owned()];
        host.set_flags(&[1], &seen, FlagAction::Add, None).unwrap();
        let changed = again(&first);
        assert_eq!(changed.status, 200);
        assert_ne!(tag(&changed), first);
    }

    #[test]
    fn the_new_text_is_null_if_the_message_has_no_text() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org").text("Yes.\n> Really?"));
        host.deliver(Letter::from("grace@example.org"));
        let response = json(get_message(&host, &read("1")));
        assert_eq!(response["newText"], "Yes.");
        let response = json(get_message(&host, &read("2")));
        assert_eq!(response.get("newText"), Some(&serde_json::Value::Null));
    }

    #[test]
    fn a_message_has_the_data_of_its_header() {
        let host = FakeHost::new();
        let letter = Letter::from("grace@example.org").list("letters.example.org");
        host.deliver(letter.auto_submitted("auto-replied").spam("ham", Some(0.5)));
        host.deliver(Letter::from("grace@example.org"));
        let response = json(get_message(&host, &read("1")));
        assert_eq!(response["list"]["id"], "letters.example.org");
        assert_eq!(response["list"]["oneClick"], false);
        assert_eq!(response["autoSubmitted"], "auto-replied");
        assert_eq!(
            response["spam"],
            serde_json::json!({ "verdict": "ham", "score": 0.5 })
        );
        let response = json(get_message(&host, &read("2")));
        for absent in ["list", "autoSubmitted"] {
            assert_eq!(
                response.get(absent),
                Some(&serde_json::Value::Null),
                "{absent}"
            );
        }
        let none = serde_json::json!({ "verdict": "none", "score": null });
        assert_eq!(response["spam"], none);
        assert!(response.get("headers").is_none() && response.get("folder").is_none());
    }

    #[test]
    fn header_fields_are_returned_on_request() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org").subject("Hello"));
        let read = |headers| {
            get_message(
                &host,
                &request(&[("uid", "1")], &[("headers", headers)], ""),
            )
        };
        let response = json(read("subject, X-Missing"));
        let expected = serde_json::json!([{ "name": "Subject", "value": "Hello" }]);
        assert_eq!(response["headers"], expected);
        assert!(json(read("all"))["headers"].as_array().unwrap().len() > 1);
        for headers in ["", "a,,b", "a b", "a:", &["a"; 101].join(",")] {
            let refused = read(headers).unwrap_err();
            assert_eq!(refused, invalid_headers(), "{headers}");
        }
    }

    #[test]
    fn an_invalid_number_is_400_and_an_unknown_number_is_404() {
        let host = FakeHost::new();
        for uid in ["0", "-1", "x", "1.0", "99999999999999999999"] {
            let refused = get_message(&host, &read(uid)).unwrap_err();
            assert_eq!(
                refused,
                Failure::bad_request(codes::INVALID_MESSAGE_UID, "Invalid message UID"),
                "{uid}"
            );
        }
        let missing = get_message(&host, &read("12")).unwrap_err();
        assert_eq!(
            missing,
            Failure::not_found(codes::MESSAGE_NOT_FOUND, "Message not found")
        );
    }
}
