//! `create_upload`: returns a URL to which a program uploads a file for a later message. The bytes
//! do not pass through the model.

use latchmail_common::sending;
use latchmail_sdk::capability::Scope;
use latchmail_sdk::time::iso8601;
use latchmail_sdk::{Failure, codes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Hints, Tool, parse};
use crate::outcome::Outcome;
use crate::{Capabilities, schema};

/// The arguments of the tool.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file name.
    #[schema(min_length = 1, max_length = 255)]
    filename: String,
}

/// A URL for one upload.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UploadTicket {
    /// The URL, without credentials. It works once.
    url: String,
    /// The method of the request: `POST`.
    method: &'static str,
    /// The time at which the URL expires.
    expires_at: String,
}

pub(super) fn tool<H: Capabilities>() -> Tool<H> {
    Tool {
        name: "create_upload",
        title: "Create an upload",
        description: "Returns a URL to which a program uploads a file of at most 25 MB for a later message: a POST request without credentials, with the bytes of the file as \
body and its media type in Content-Type. The URL works once, for five minutes. The response of the upload has uploadId, which attachments of create_draft, update_draft and reply \
accept for one hour.",
        scope: Scope::MailSend,
        action: Some("draft"),
        full: true,
        hints: Hints::Adds,
        input: schema::of::<Arguments>,
        output: schema::of::<UploadTicket>,
        call,
    }
}

fn call(host: &impl Capabilities, json: &[u8]) -> Result<Outcome, Failure> {
    let arguments: Arguments = parse(json)?;
    if !sending::is_name(&arguments.filename) {
        return Err(Failure::bad_request(
            codes::INVALID_FILENAME,
            "filename must be 1 to 255 characters without control characters",
        ));
    }
    let link = host
        .create_upload_link(&arguments.filename)
        .map_err(|error| Failure::of(error, (codes::NOT_FOUND, "Not found"), host))?;
    Outcome::trusted(&UploadTicket {
        url: link.url,
        method: "POST",
        expires_at: iso8601(link.expires_at),
    })
}
