//! The operations that `--profile` and `--against` call. Their names are the operation ids of the
//! API description.

use serde_json::json;

use crate::mailbox::{self, Known, Mailbox};
use crate::measure::Call;
use crate::messages::{Random, words};
use crate::operations::{attachment, detail};
use crate::service::{ADDRESS, Service};

/// Number of messages in the inbox.
pub(crate) const MESSAGES: usize = 2_000;

/// The messages that the operations request individually.
pub(crate) const KNOWN: [Known; 2] = [Known::Newsletter, Known::SmallAttachment];

/// Number of messages that `bulkFlagMessages` changes.
const BULK: usize = 100;

/// An operation of the API.
pub(crate) struct ApiOperation {
    /// The operation id.
    pub(crate) id: &'static str,
    /// Returns a call of the operation on a new connection.
    pub(crate) open: fn(&Service, &Mailbox) -> anyhow::Result<Call<'static>>,
}

/// All operations. `sendMessage` is the last one, because the mail server still works after its
/// response.
pub(crate) static OPERATIONS: [ApiOperation; 11] = [
    ApiOperation {
        id: "health",
        open: |service, _| get(service, "/api/health"),
    },
    ApiOperation {
        id: "getProfile",
        open: |service, _| get(service, "/api/v1/profile"),
    },
    ApiOperation {
        id: "listFolders",
        open: |service, _| get(service, "/api/v1/mail/folders"),
    },
    ApiOperation {
        id: "listMessages",
        open: |service, _| get(service, "/api/v1/mail/folders/INBOX/messages?limit=50"),
    },
    ApiOperation {
        id: "getMessage",
        open: |service, mailbox| get(service, &detail(mailbox, Known::Newsletter)),
    },
    ApiOperation {
        id: "getAttachment",
        open: |service, mailbox| get(service, &attachment(mailbox)),
    },
    ApiOperation {
        id: "searchMessages",
        open: |service, _| get(service, "/api/v1/mail/search?q=sender17&folder=INBOX"),
    },
    ApiOperation {
        id: "flagMessage",
        open: |service, mailbox| {
            let path = detail(mailbox, Known::Newsletter) + "/flag";
            let bodies = ["add", "remove"]
                .map(|action| json!({ "flags": ["\\Seen"], "action": action }).to_string());
            post(service, &path, bodies.into())
        },
    },
    ApiOperation {
        id: "bulkFlagMessages",
        open: |service, _| {
            let uids = mailbox::newest_uids(service, service.measured(), "INBOX", BULK)?;
            let bodies = ["add", "remove"].map(|action| {
                json!({ "uids": uids, "flags": ["\\Seen"], "action": action }).to_string()
            });
            post(service, "/api/v1/mail/messages/bulk/flag", bodies.into())
        },
    },
    ApiOperation {
        id: "moveMessage",
        open: |service, mailbox| {
            let path = detail(mailbox, Known::Newsletter) + "/move";
            let bodies =
                ["Receipts", "INBOX"].map(|folder| json!({ "destination": folder }).to_string());
            post(service, &path, bodies.into())
        },
    },
    ApiOperation {
        id: "sendMessage",
        open: |service, _| {
            let text = words(4_000, &mut Random(3));
            let body = json!({ "from": ADDRESS, "to": ADDRESS, "subject": "Notes", "text": text });
            post(service, "/api/v1/mail/send", vec![body.to_string()])
        },
    },
];

fn get(service: &Service, path: &str) -> anyhow::Result<Call<'static>> {
    let mut client = service.http()?;
    let path = path.to_owned();
    Ok(Box::new(move || client.get(&path).map(drop)))
}

/// Returns a call that sends `bodies` in turn.
fn post(service: &Service, path: &str, mut bodies: Vec<String>) -> anyhow::Result<Call<'static>> {
    let mut client = service.http()?;
    let path = path.to_owned();
    Ok(Box::new(move || {
        client.post_ok(&path, &bodies[0])?;
        bodies.rotate_left(1);
        Ok(())
    }))
}
