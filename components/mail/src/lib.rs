//! The mail routes. The routes parse requests, and format responses and error messages.
//!
//! This file lists the routes. Each action has its own file. The host implements IMAP, and manages
//! credentials and message numbers.

mod attachment;
mod batch;
mod bulk;
mod change;
mod changes;
mod compose;
mod copy;
mod deliveries;
mod drafts;
mod drafts_send;
mod events;
mod filters;
mod folder_change;
mod folders;
mod forward_addresses;
mod import;
mod message;
mod messages;
mod outbox;
mod quota;
mod raw;
mod replace_flags;
mod search;
mod send;
mod snooze;
mod threads;
mod trash;
mod uploads;

use latchmail_sdk::capability::{
    Caller, Compose, Deliveries, Drafts, Filters, Mailbox, Outbox, Scope,
};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// The maximum size of a request body that contains only a few fields, in bytes.
const SMALL: u32 = 64 * 1024;
/// The maximum size of an imported message, in bytes.
const MESSAGE: u32 = 50 * 1024 * 1024;
/// The maximum size of the request body for sending a message, in bytes. The limit is sufficient
/// for a message of 25 MB with attachments in base64.
const LARGE: u32 = 40 * 1024 * 1024;
/// The maximum size of an uploaded file, in bytes.
const UPLOAD: u32 = 25 * 1024 * 1024;
/// The maximum size of a vacation response or of all rules in JSON, in bytes.
const FILTERS: u32 = 512 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(
        folders::list_folders,
        messages::list_messages,
        search::search_messages,
        message::get_message,
        attachment::get_attachment,
        send::send_message,
        change::flag_message,
        change::move_message,
        change::delete_message,
        bulk::bulk_flag,
        bulk::bulk_move,
        bulk::bulk_delete,
        changes::list_changes,
        threads::list_threads,
        batch::get_messages, compose::forward, compose::reply, compose::reply_all, copy::bulk_copy, copy::copy_message, deliveries::get_deliveries, drafts::create_draft, drafts::delete_draft, drafts::get_draft, drafts::list_drafts, drafts::replace_draft, drafts_send::send_draft, events::stream_events, filters::get_rules, filters::get_vacation, filters::set_rules, filters::set_vacation, folder_change::create_folder, folder_change::delete_folder, folder_change::rename_folder, forward_addresses::add_forward_address, forward_addresses::confirm_forward_address, forward_addresses::delete_forward_address, forward_addresses::list_forward_addresses, import::import_message, outbox::cancel_outbox_entry, outbox::get_outbox_entry, outbox::list_outbox, outbox::reschedule_outbox_entry, quota::get_quota, raw::get_raw_message, replace_flags::replace_flags, snooze::get_snooze, snooze::snooze_message, snooze::unsnooze_message, threads::get_thread, trash::bulk_restore, trash::bulk_trash, trash::restore_message, trash::trash_message, uploads::upload_file,
    ),
    tags((name = "Mail", description = "Folders, messages and attachments"))
)]
struct Description;

/// Returns the module.
#[must_use]
#[expect(clippy::too_many_lines, reason = "a list of routes")]
pub fn module<H: Mailbox + Outbox + Compose + Drafts + Deliveries + Filters + Caller>() -> Module<H>
{
    let reading = |route: Route<H>| route.scoped(Scope::MailRead).with_oauth().bucket("mail");
    let changing = |route: Route<H>| route.scoped(Scope::MailWrite).with_oauth().bucket("mail");
    let sending = |route: Route<H>| route.scoped(Scope::MailSend).with_oauth().bucket("mail");
    // The host also checks the scope `mail:read`.
    let composing = |route: Route<H>| {
        route
            .scoped(Scope::MailSend)
            .with_oauth()
            .bucket("mail")
            .takes(LARGE)
            .blob_field("/attachments/*/content")
            .within(120)
    };
    Module::new("mail", env!("CARGO_PKG_VERSION"), Description::openapi)
        .route(reading(Route::new("listFolders", folders::list_folders)))
        .route(reading(Route::new("listMessages", messages::list_messages)))
        .route(reading(Route::new("searchMessages", search::search_messages)).bucket("search"))
        .route(reading(Route::new("getMessage", message::get_message)))
        .route(reading(Route::new(
            "getAttachment",
            attachment::get_attachment,
        )))
        .route(reading(Route::new("listChanges", changes::list_changes)))
        .route(reading(Route::new("streamEvents", events::stream_events)).bucket("events"))
        .route(reading(Route::new("listThreads", threads::list_threads)))
        .route(reading(Route::new("getThread", threads::get_thread)))
        .route(
            Route::new("sendMessage", send::send_message)
                .scoped(Scope::MailSend)
                // Agents can send mail only if the operator allows sending. The host checks whether
                // a token has the scope.
                .with_oauth()
                .bucket("mail")
                .takes(LARGE)
                .blob_field("/attachments/*/content")
                .within(120),
        )
        .route(changing(Route::new("flagMessage", change::flag_message)).takes(SMALL))
        .route(changing(Route::new("moveMessage", change::move_message)).takes(SMALL))
        .route(changing(Route::new(
            "deleteMessage",
            change::delete_message,
        )))
        .route(changing(Route::new("bulkFlagMessages", bulk::bulk_flag)).takes(SMALL))
        .route(changing(Route::new("bulkMoveMessages", bulk::bulk_move)).takes(SMALL))
        .route(changing(Route::new("bulkDeleteMessages", bulk::bulk_delete)).takes(SMALL))
        .route(changing(Route::new("createFolder", folder_change::create_folder)).takes(SMALL))
        .route(changing(Route::new("renameFolder", folder_change::rename_folder)).takes(SMALL))
        .route(
            changing(Route::new("deleteFolder", folder_change::delete_folder))
                // With many messages, a move to Trash needs several commands.
                .within(120),
        )
        .route(reading(Route::new("getQuota", quota::get_quota)))
        .route(reading(Route::new("getRawMessage", raw::get_raw_message)))
        .route(reading(Route::new("getMessages", batch::get_messages)))
        .route(
            changing(Route::new("importMessage", import::import_message))
                .takes_blob(MESSAGE)
                .within(120),
        )
        .route(changing(Route::new("replaceFlags", replace_flags::replace_flags)).takes(SMALL))
        .route(changing(Route::new("trashMessage", trash::trash_message)).takes(SMALL))
        .route(changing(Route::new("restoreMessage", trash::restore_message)).takes(SMALL))
        .route(changing(Route::new("bulkTrashMessages", trash::bulk_trash)).takes(SMALL))
        .route(changing(Route::new("bulkRestoreMessages", trash::bulk_restore)).takes(SMALL))
        .route(changing(Route::new("copyMessage", copy::copy_message)).takes(SMALL))
        .route(changing(Route::new("bulkCopyMessages", copy::bulk_copy)).takes(SMALL))
        .route(changing(Route::new("snoozeMessage", snooze::snooze_message)).takes(SMALL))
        .route(changing(Route::new(
            "unsnoozeMessage",
            snooze::unsnooze_message,
        )))
        .route(reading(Route::new("getSnooze", snooze::get_snooze)))
        .route(
            Route::new("uploadFile", uploads::upload_file)
                .scoped(Scope::MailSend)
                .with_oauth()
                .bucket("mail")
                .takes(UPLOAD)
                .blob_body()
                .within(120),
        )
        .route(reading(Route::new("listOutbox", outbox::list_outbox)))
        .route(reading(Route::new(
            "getOutboxEntry",
            outbox::get_outbox_entry,
        )))
        .route(
            sending(Route::new(
                "rescheduleOutboxEntry",
                outbox::reschedule_outbox_entry,
            ))
            .takes(SMALL),
        )
        .route(sending(Route::new(
            "cancelOutboxEntry",
            outbox::cancel_outbox_entry,
        )))
        .route(composing(Route::new("replyToMessage", compose::reply)))
        .route(composing(Route::new("replyToAll", compose::reply_all)))
        .route(composing(Route::new("forwardMessage", compose::forward)))
        .route(with_files(changing(Route::new(
            "createDraft",
            drafts::create_draft,
        ))))
        .route(reading(Route::new("listDrafts", drafts::list_drafts)))
        .route(reading(Route::new("getDraft", drafts::get_draft)))
        .route(with_files(changing(Route::new(
            "replaceDraft",
            drafts::replace_draft,
        ))))
        .route(changing(Route::new("deleteDraft", drafts::delete_draft)))
        .route(
            Route::new("sendDraft", drafts_send::send_draft)
                .scoped(Scope::MailSend)
                .with_oauth()
                .bucket("mail")
                .takes(SMALL)
                .within(120),
        )
        .route(reading(Route::new(
            "getDeliveries",
            deliveries::get_deliveries,
        )))
        .route(reading(Route::new("getVacation", filters::get_vacation)))
        .route(changing(Route::new("setVacation", filters::set_vacation)).takes(FILTERS))
        .route(reading(Route::new("getRules", filters::get_rules)))
        .route(changing(Route::new("setRules", filters::set_rules)).takes(FILTERS))
        .route(reading(Route::new(
            "listForwardAddresses",
            forward_addresses::list_forward_addresses,
        )))
        // Without a scope, a route is open to web sessions only.
        .route(
            Route::new("addForwardAddress", forward_addresses::add_forward_address)
                .bucket("mail")
                .takes(SMALL)
                .within(60),
        )
        .route(
            Route::new(
                "confirmForwardAddress",
                forward_addresses::confirm_forward_address,
            )
            .bucket("mail")
            .takes(SMALL),
        )
        .route(
            Route::new(
                "deleteForwardAddress",
                forward_addresses::delete_forward_address,
            )
            .bucket("mail"),
        )
}

/// Adds the properties of a route whose body can contain attachments.
fn with_files<H>(route: Route<H>) -> Route<H> {
    let route = route.takes(LARGE).blob_field("/attachments/*/content");
    route.within(120)
}

latchmail_sdk::export!(module);
