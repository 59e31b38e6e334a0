//! GET `/api/v1/mail/messages/{uid}/raw`: returns a message in its stored form. This module only
//! handles a blob: the bytes stay in the host and are never copied into the sandbox.

use latchmail_common::{reading, versions};
use latchmail_sdk::capability::{Caller, Mailbox, MessageVersion};
use latchmail_sdk::{Failure, Reply, Request};
use utoipa::ToSchema;

/// The maximum length of a file name without its extension, in characters.
const MAX_NAME: usize = 100;

/// The bytes of the message.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "used only for the API description")]
struct Bytes(Vec<u8>);

/// Download a message
///
/// Returns the message (RFC 5322) exactly as the mail server returns it, with its header and
/// attachments. The request does not mark the message as read. A request can ask for one range of
/// bytes.
#[utoipa::path(
    get,
    path = "/api/v1/mail/messages/{uid}/raw",
    operation_id = "getRawMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("Range" = Option<String>, Header, description = "One range of bytes (RFC 9110, section 14.1.2)", example = "bytes=0-1023"),
        ("If-None-Match" = Option<String>, Header, description = "Return 304 if the `ETag` is one of these")
    ),
    responses(
        (
            status = 200,
            description = "The message",
            body = inline(Bytes),
            content_type = "message/rfc822",
            headers(
                ("Content-Disposition" = String, description = "`attachment` with the subject as the file's name (RFC 6266)"),
                ("ETag" = String, description = "The version of the bytes, which never changes"),
                ("Content-Length" = u64, description = "The size in bytes"),
                ("Accept-Ranges" = String, description = "`bytes`"),
                ("X-Content-Type-Options" = String, description = "`nosniff`"),
                ("Cache-Control" = String, description = "`private, no-store`")
            )
        ),
        (
            status = 206,
            description = "The requested range of the message",
            body = inline(Bytes),
            content_type = "message/rfc822",
            headers(("Content-Range" = String, description = "The range and the size in bytes"))
        ),
        (status = 304, description = "The client has the message"),
        (status = 400, description = "`Invalid message UID`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`", body = latchmail_sdk::Failed),
        (status = 416, description = "`The range is outside of the content`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_raw_message(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let tag = |version: &MessageVersion| version.content.clone();
    if let Some(reply) = versions::not_modified(host, request, uid, tag)? {
        return Ok(reply);
    }
    let message = host
        .get_raw_message(uid)
        .map_err(|error| Failure::of(error, reading::NO_MESSAGE, host))?;
    let name = filename(&message.subject, uid);
    let reply = Reply::message(&name, message.content).with_etag(&message.version);
    Ok(reply.in_range(request))
}

/// Returns a file name for a message. Replaces characters that are not allowed in the file names of
/// usual systems.
fn filename(subject: &str, uid: u64) -> String {
    let replaced: String = subject
        .chars()
        .map(|c| match c {
            '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '_',
            c if c.is_control() => ' ',
            c => c,
        })
        .take(MAX_NAME)
        .collect();
    let name = replaced.trim_matches([' ', '.']);
    if name.is_empty() {
        return format!("message-{uid}.eml");
    }
    format!("{name}.eml")
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, Letter, Response, failure, request};

    use super::*;

    fn read(host: &FakeHost, uid: &str) -> Result<Reply, Failure> {
        get_raw_message(host, &request(&[("uid", uid)], &[], ""))
    }

    #[test]
    fn a_message_is_a_download_with_its_subject_as_the_name() {
        let host = FakeHost::new();
        host.deliver(
            Letter::from("grace@example.org")
                .subject("Re: a/b")
                .text("Hi"),
        );
        let response = Response::from(read(&host, "1").unwrap());
        let header = |name| response.header(name).unwrap();
        assert_eq!(header("content-type"), "message/rfc822");
        assert!(header("content-disposition").starts_with("attachment; filename=\"Re_ a_b.eml\""));
        assert_eq!(header("cache-control"), "private, no-store");
        let text = String::from_utf8(response.body).unwrap();
        assert!(text.contains("Subject: Re: a/b\r\n") && text.ends_with("\r\n\r\nHi"));
    }

    #[test]
    fn a_request_can_ask_for_one_range() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        let mut ranged = request(&[("uid", "1")], &[], "");
        ranged.headers.push(("range".into(), "bytes=0-4".into()));
        let response = Response::from(get_raw_message(&host, &ranged).unwrap());
        assert_eq!((response.status, &response.body[..]), (206, &b"From:"[..]));
    }

    #[test]
    fn a_message_that_the_client_has_is_not_returned_again() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        host.deliver(Letter::from("grace@example.org"));
        let tag = Response::from(read(&host, "1").unwrap());
        let tag = tag.header("etag").unwrap().to_owned();
        let status = |uid, header: &str, tags: &str| {
            let mut request = request(&[("uid", uid)], &[], "");
            request.headers.push((header.into(), tags.into()));
            request.headers.push(("range".into(), "bytes=0-4".into()));
            match get_raw_message(&host, &request) {
                Ok(reply) => reply.status,
                Err(failure) => failure.status,
            }
        };
        assert_eq!(status("1", "if-none-match", &tag), 304);
        assert_eq!(status("1", "if-none-match", "*"), 304);
        assert_eq!(status("2", "if-none-match", &tag), 206);
        assert_eq!(status("3", "if-none-match", "*"), 404);
        assert_eq!(status("1", "if-range", &tag), 206);
        assert_eq!(status("2", "if-range", &tag), 200);
    }

    #[test]
    fn file_names_have_no_separators() {
        assert_eq!(filename("", 7), "message-7.eml");
        assert_eq!(filename(" .. ", 7), "message-7.eml");
        assert_eq!(filename("../a\r\nb", 7), "_a  b.eml");
        assert_eq!(
            filename(&"\u{e9}".repeat(200), 7).chars().count(),
            MAX_NAME + 4
        );
    }

    #[test]
    fn an_invalid_number_is_400_and_an_unknown_number_is_404() {
        let host = FakeHost::new();
        for uid in ["0", "-1", "x"] {
            let refused = read(&host, uid).unwrap_err();
            assert_eq!(refused, failure(400, "Invalid message UID"));
        }
        let missing = read(&host, "12").unwrap_err();
        assert_eq!(missing, failure(404, "Message not found"));
    }
}
