//! GET `/api/v1/mail/messages/{uid}/attachments/{index}`: returns the bytes of an attachment. This
//! module only handles a blob: the bytes stay in the host and are never copied into the sandbox.

use latchmail_common::reading::{self, NO_MESSAGE};
use latchmail_common::versions;
use latchmail_sdk::capability::{Caller, Mailbox, MessageVersion};
use latchmail_sdk::{Failure, Reply, Request, codes};
use utoipa::ToSchema;

/// The bytes of the file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "used only for the API description")]
struct File(Vec<u8>);

/// Download an attachment
///
/// Returns the decoded bytes of the attachment with this index in the message's `attachments`. The
/// media type of the response is always `application/octet-stream`. The header
/// `Content-Disposition` contains the file name. A URL that an agent gets from `get_attachment` has
/// the query parameter `ticket`, which takes the place of a credential for one request.
#[utoipa::path(
    get,
    path = "/api/v1/mail/messages/{uid}/attachments/{index}",
    operation_id = "getAttachment",
    tag = "Mail",
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("index" = u32, Path, minimum = 0, maximum = 4_294_967_295.0, description = "The attachment's index in the message"),
        ("folder" = Option<String>, Query, description = "Not needed: the `uid` identifies the message"),
        ("If-None-Match" = Option<String>, Header, extensions(("x-latchmail" = json!(true))), description = "Return 304 if the `ETag` is one of these")
    ),
    responses(
        (
            status = 200,
            description = "The attachment's bytes",
            body = inline(File),
            content_type = "application/octet-stream",
            headers(
                ("Content-Disposition" = String, description = "`attachment` with the file's name (RFC 6266)"),
                ("ETag" = String, description = "The version of the bytes, which never changes"),
                ("Content-Length" = u64, description = "The attachment's `size`"),
                ("X-Content-Type-Options" = String, description = "`nosniff`"),
                ("Cache-Control" = String, description = "`private, no-store`")
            )
        ),
        (status = 304, description = "The client has the attachment"),
        (status = 400, description = "`Invalid message UID`, `Invalid attachment index`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`, `Attachment not found`", body = latchmail_sdk::Failed),
        (status = 413, description = "The attachment is outside the part of the message that the service reads", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_attachment(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let index = request
        .path_number::<u64>("index")
        .ok_or(Failure::bad_request(
            codes::INVALID_ATTACHMENT_INDEX,
            "Invalid attachment index",
        ))?;
    // An index above `u32::MAX` becomes `u32::MAX`. Such an attachment does not exist, so the
    // response is 404.
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    let tag = |content: &str| format!("{content}-{index}");
    let tags = request.if_none_match();
    if tags.as_ref().is_some_and(|tags| !tags.is_any()) {
        let of = |version: &MessageVersion| tag(&version.content);
        if let Some(reply) = versions::not_modified(host, request, uid, of)? {
            return Ok(reply);
        }
    }
    let found = host
        .get_attachment(uid, index)
        .map_err(|error| Failure::of(error, NO_MESSAGE, host))?
        .ok_or(Failure::not_found(
            codes::ATTACHMENT_NOT_FOUND,
            "Attachment not found",
        ))?;
    let tag = tag(&found.version);
    // `*` matches only an attachment that exists.
    if tags.is_some_and(|tags| tags.is_any()) {
        return Ok(Reply::not_modified(&tag));
    }
    Ok(Reply::download(&found.attachment.filename, found.content).with_etag(&tag))
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Error;
    use latchmail_sdk::testing::{FakeHost, Letter, Response, failure, request};

    use super::*;

    fn read(uid: &str, index: &str) -> Request {
        request(&[("uid", uid), ("index", index)], &[("folder", "Work")], "")
    }

    #[test]
    fn an_attachment_of_any_type_is_a_download() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org").file("a.pdf", "application/pdf", b"PDF"));
        let response = Response::from(get_attachment(&host, &read("1", "0")).unwrap());
        let header = |name| response.header(name).unwrap();
        assert_eq!(header("content-type"), "application/octet-stream");
        assert_eq!(
            header("content-disposition"),
            "attachment; filename=\"a.pdf\"; filename*=UTF-8''a.pdf"
        );
        assert_eq!(header("cache-control"), "private, no-store");
        assert_eq!(response.body, b"PDF");
    }

    #[test]
    fn an_attachment_that_the_client_has_is_not_returned_again() {
        let host = FakeHost::new();
        let letter = Letter::from("grace@example.org");
        let letter = letter.file("a.pdf", "application/pdf", b"PDF");
        host.deliver(letter.file("b.pdf", "application/pdf", b"PDF"));
        let first = Response::from(get_attachment(&host, &read("1", "0")).unwrap());
        let first = first.header("etag").unwrap().to_owned();
        let status = |index, tags: &str| {
            let mut request = read("1", index);
            request.headers.push(("if-none-match".into(), tags.into()));
            match get_attachment(&host, &request) {
                Ok(reply) => reply.status,
                Err(failure) => failure.status,
            }
        };
        assert_eq!((status("0", &first), status("1", &first)), (304, 200));
        assert_eq!((status("0", "*"), status("2", "*")), (304, 404));
    }

    #[test]
    fn an_invalid_number_is_refused_before_the_mailbox_is_read() {
        let host = FakeHost::new();
        for (uid, index, text) in [
            ("0", "x", "Invalid message UID"),
            ("1", "-1", "Invalid attachment index"),
            ("1", "", "Invalid attachment index"),
            ("1", "1.0", "Invalid attachment index"),
            ("1", "99999999999999999999", "Invalid attachment index"),
        ] {
            let refused = get_attachment(&host, &read(uid, index)).unwrap_err();
            assert_eq!(refused, failure(400, text));
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn a_missing_message_and_a_missing_attachment_have_different_errors() {
        let host = FakeHost::new();
        host.deliver(Letter::from("grace@example.org"));
        let refused = |uid| get_attachment(&host, &read(uid, "99999999999")).unwrap_err();
        assert_eq!(
            refused("7"),
            Failure::not_found(codes::MESSAGE_NOT_FOUND, "Message not found")
        );
        assert_eq!(
            refused("1"),
            Failure::not_found(codes::ATTACHMENT_NOT_FOUND, "Attachment not found")
        );
        host.fail(Error::too_large(codes::MESSAGE_TOO_LARGE, "So large"));
        let large = refused("1");
        assert_eq!((large.status, &*large.text), (413, "So large"));
    }
}
