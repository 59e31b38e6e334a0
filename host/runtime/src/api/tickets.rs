//! URLs with which a program sends one request with the rights of the caller. The functions are
//! part of the interfaces `mailbox` and `outbox`.

use latchmail_accounts::auth::tickets::{Target, TicketUrl};
use latchmail_bindings::latchmail::host::mailbox::AttachmentLink;
use latchmail_bindings::latchmail::host::outbox::UploadLink;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;

use super::call::Call;
use super::convert::{account_error, mailbox_error};
use super::{mailbox, problem};

/// Returns a URL for an attachment. Returns `None` if the message has no such attachment.
pub(super) async fn attachment_link(
    call: &mut Call,
    uid: u64,
    index: u32,
) -> Result<Option<AttachmentLink>, Error> {
    let access = call.mailbox_access(Scope::MailRead)?;
    let reading = &call.services.mail.reading;
    let found = reading
        .attachment(&access, MessageNumber(uid), index)
        .await
        .map_err(mailbox_error)?;
    let Some(found) = found.ok_or(Error::NotFound)? else {
        return Ok(None);
    };
    let target = Target::attachment(uid, index);
    let ticket = ticket_url(call, Scope::MailRead, &target).await?;
    Ok(Some(AttachmentLink {
        attachment: mailbox::attachment(found.attachment),
        url: ticket.url,
        expires_at: ticket.expires_at.millis(),
    }))
}

/// Returns a URL for the upload of a file.
pub(super) async fn upload_link(call: &mut Call, filename: &str) -> Result<UploadLink, Error> {
    let target = Target::upload(filename);
    let ticket = ticket_url(call, Scope::MailSend, &target).await?;
    Ok(UploadLink {
        url: ticket.url,
        expires_at: ticket.expires_at.millis(),
    })
}

/// Returns a URL for one request of the caller. `scope` is the scope of the route.
async fn ticket_url(call: &mut Call, scope: Scope, target: &Target) -> Result<TicketUrl, Error> {
    let caller = call.require_scope(scope)?;
    call.preview.refuse()?;
    // A handler has no request, and the URL of a member would be for the member's own mailbox.
    let authorization = call.authorization.as_ref();
    let Some(authorization) = authorization.filter(|_| caller.shared.is_none()) else {
        let text = "This endpoint does not accept this kind of credential";
        return Err(problem::denied(codes::CREDENTIAL_NOT_ACCEPTED, text));
    };
    let tickets = &call.services.auth.tickets;
    let issued = tickets.issue(&caller.account, authorization, target).await;
    issued.map_err(account_error)
}
