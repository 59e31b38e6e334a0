//! POST `/api/v1/mail/folders/{folder}/messages`: stores a message in a folder. The bytes of the
//! message stay in the host and are never copied into the sandbox.

use latchmail_common::importing::{self, ImportResult};
use latchmail_sdk::capability::{Blob, Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};
use utoipa::ToSchema;

/// The bytes of the message.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "used only for the API description")]
struct Bytes(Vec<u8>);

/// Import a message
///
/// Stores a message (RFC 5322) in the folder, without a change of its bytes. The message is not
/// sent. The results of the mail server's checks in the header are not trusted, so `authentication`
/// and `spam` of an imported message are `none`. If the same request is repeated with the same
/// `Idempotency-Key` within 24 hours, the message is not stored again. The response is then the
/// first response, with the header `Idempotent-Replayed: true`.
#[utoipa::path(
    post,
    path = "/api/v1/mail/folders/{folder}/messages",
    operation_id = "importMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("folder" = String, Path, description = "The folder's path, URL-encoded"),
        ("flags" = Option<Vec<String>>, Query, description = "A flag of the message: `\\Seen`, `\\Answered`, `\\Flagged`, `\\Draft`, or a keyword. The parameter can be repeated, at most 100 times."),
        ("receivedAt" = Option<String>, Query, format = DateTime, description = "The time of arrival (RFC 3339); the default is the current time", example = "2026-11-20T08:00:00Z"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses for the message, 1 to 255 visible ASCII characters")
    ),
    request_body(content = inline(Bytes), content_type = "message/rfc822", description = "The message, at most 50 MiB"),
    responses(
        (
            status = 201,
            description = "Stored",
            body = ImportResult,
            headers(("Idempotent-Replayed" = Option<String>, description = "`true` if the response repeats an earlier one and nothing was stored now"))
        ),
        (status = 400, description = "`Invalid message` if the body does not begin with a header field; `Invalid message: it contains a NUL byte`; `Invalid flag data`; `Invalid receivedAt`; an invalid `Idempotency-Key`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "The `Idempotency-Key` was used for another request, or its request is still in progress", body = latchmail_sdk::Failed),
        (status = 413, description = "The body is larger than 50 MiB", body = latchmail_sdk::Failed),
        (status = 507, description = "`The mailbox is full`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn import_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let message = request.take_blob(0).unwrap_or(Blob::Bytes(Vec::new()));
    let flags = request.query_all("flags").map(Into::into).collect();
    let (imported, replayed): (ImportResult, bool) = importing::import(
        host,
        request.path("folder"),
        message,
        flags,
        request.query("receivedAt"),
        request.header("idempotency-key"),
    )?;
    let reply = Reply::with_status(201, &imported)?;
    Ok(if replayed {
        reply.with("idempotent-replayed", "true")
    } else {
        reply
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{Response, Service};
    use serde_json::json;

    const MESSAGE: &str = "From: Grace <grace@example.org>\r\nSubject: Hello\r\n\r\nText\r\n";

    fn import(service: &Service, query: &str, key: &str, body: &str) -> Response {
        let path = format!("/api/v1/mail/folders/INBOX/messages{query}");
        let headers = [("Idempotency-Key", key)];
        let headers = if key.is_empty() { &[][..] } else { &headers };
        service.request("POST", &path, headers, body.into())
    }

    #[test]
    fn a_message_is_stored_with_its_flags() {
        let service = Service::of(crate::module());
        let response = import(&service, "?flags=%5CSeen&flags=todo", "", MESSAGE);
        assert_eq!(response.status, 201);
        assert_eq!(response.json(), json!({ "uid": 1, "folder": "INBOX" }));
        let message = service.get("/api/v1/mail/messages/1").json();
        assert_eq!(message["flags"], json!(["\\Seen", "todo"]));
        assert_eq!(message["subject"], "Hello");
        let raw = service.get("/api/v1/mail/messages/1/raw");
        assert_eq!(raw.body, MESSAGE.as_bytes());
    }

    #[test]
    fn a_repeated_import_stores_nothing() {
        let service = Service::of(crate::module());
        let first = import(&service, "", "a-key", MESSAGE);
        assert!(first.header("idempotent-replayed").is_none());
        let again = import(&service, "", "a-key", MESSAGE);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!((again.status, again.json()), (201, first.json()));
        let other = import(&service, "?flags=%5CSeen", "a-key", MESSAGE);
        assert_eq!(other.status, 409);
    }

    #[test]
    fn invalid_input_is_refused() {
        let service = Service::of(crate::module());
        let error = |query: &str, key: &str, body: &str| {
            let response = import(&service, query, key, body);
            (
                response.status,
                response.json()["error"].as_str().unwrap().to_owned(),
            )
        };
        let invalid = |text: &str| (400, text.to_owned());
        for body in ["", "\r\nText", "Text", "A b: c\r\n"] {
            assert_eq!(error("", "", body), invalid("Invalid message"));
        }
        let nul = "A: b\r\n\r\n\0";
        assert_eq!(
            error("", "", nul),
            invalid("Invalid message: it contains a NUL byte")
        );
        for flag in ["", "%5CDeleted", "a%20b"] {
            let query = format!("?flags={flag}");
            assert_eq!(error(&query, "", MESSAGE), invalid("Invalid flag data"));
        }
        for time in ["", "yesterday", "1969-12-31T23:59:59Z"] {
            let query = format!("?receivedAt={time}");
            let text = "Invalid receivedAt";
            assert_eq!(error(&query, "", MESSAGE), invalid(text));
        }
        let path = "/api/v1/mail/folders/Missing/messages";
        let response = service.request("POST", path, &[], MESSAGE.into());
        assert_eq!(
            (response.status, response.json()["error"].clone()),
            (404, json!("Folder not found"))
        );
    }
}
