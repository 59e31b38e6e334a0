//! The mail routes (specification, section 4.3): what a client may ask, in what shape it is answered, in which words it is refused.
//!
//! This file is the route list; an action is a file of its own. IMAP, credentials and the mailbox's numbers are the host's.

mod attachment;
mod folders;
mod message;
mod messages;
mod model;
#[cfg(test)]
mod testing;

use latchmail_sdk::capability::{Caller, Mailbox, Scope};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// Folder names, summaries and messages are bounded by the host; what a client writes here is only a path and a few numbers.
#[derive(OpenApi)]
#[openapi(
    paths(
        folders::list_folders,
        messages::list_messages,
        message::get_message,
        attachment::get_attachment
    ),
    tags((name = "Mail", description = "Folders, messages and attachments"))
)]
struct Description;

/// The module.
#[must_use]
pub fn module<H: Mailbox + Caller>() -> Module<H> {
    let reading = |route: Route<H>| route.scoped(Scope::MailRead).with_oauth().area("mail");
    Module::new("mail", env!("CARGO_PKG_VERSION"), Description::openapi)
        .route(reading(Route::get(
            "/api/v1/mail/folders",
            "listFolders",
            folders::list_folders,
        )))
        .route(reading(Route::get(
            "/api/v1/mail/folders/{folder}/messages",
            "listMessages",
            messages::list_messages,
        )))
        .route(reading(Route::get(
            "/api/v1/mail/messages/{uid}",
            "getMessage",
            message::get_message,
        )))
        .route(reading(Route::get(
            "/api/v1/mail/messages/{uid}/attachments/{index}",
            "getAttachment",
            attachment::get_attachment,
        )))
}

latchmail_sdk::export!(module);
