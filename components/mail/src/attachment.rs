//! GET `/api/v1/mail/messages/{uid}/attachments/{index}`: returns the bytes of an attachment. This
//! module only handles a blob: the bytes stay in the host and are never copied into the sandbox.

use latchmail_common::reading;
use latchmail_sdk::capability::{Caller, Mailbox};
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
/// `Content-Disposition` contains the file name.
#[utoipa::path(
    get,
    path = "/api/v1/mail/messages/{uid}/attachments/{index}",
    operation_id = "getAttachment",
    tag = "Mail",
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("index" = u32, Path, minimum = 0, maximum = 4_294_967_295.0, description = "The attachment's index in the message"),
        ("folder" = Option<String>, Query, description = "Not needed: the `uid` identifies the message")
    ),
    responses(
        (
            status = 200,
            description = "The attachment's bytes",
            body = inline(File),
            content_type = "application/octet-stream",
            headers(
                ("Content-Disposition" = String, description = "`attachment` with the file's name (RFC 6266)"),
                ("Content-Length" = u64, description = "The attachment's `size`"),
                ("X-Content-Type-Options" = String, description = "`nosniff`"),
                ("Cache-Control" = String, description = "`private, no-store`")
            )
        ),
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
    let (attachment, content) = host
        .get_attachment(uid, index)
        .map_err(|error| Failure::of(error, (codes::MESSAGE_NOT_FOUND, "Message not found"), host))?
        .ok_or(Failure::not_found(
            codes::ATTACHMENT_NOT_FOUND,
            "Attachment not found",
        ))?;
    Ok(Reply::download(&attachment.filename, content))
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
