//! Validates and imports a message. The host stores the bytes of the message.

use latchmail_sdk::capability::{Blob, Caller, Error, Import, Mailbox};
use latchmail_sdk::{Failure, codes, time};
use serde::Serialize;
use utoipa::ToSchema;

use crate::reading::NO_FOLDER;
use crate::sending::check_key;

/// A message that was stored.
#[derive(Serialize, ToSchema)]
pub struct ImportResult {
    /// The number of the message.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
    pub uid: u64,
    /// The path of the folder in which the message was stored.
    pub folder: String,
}

/// Imports a message. `received_at` is the time of arrival in the format of RFC 3339. `key` is the
/// idempotency key. The second returned value is `true` if an earlier call with the same key
/// already stored the message. In this case, the current call stores nothing.
///
/// # Errors
/// Returns 400 for invalid input. Returns 404 if the folder does not exist. Returns 409 if an
/// earlier call used the same key for a different message. Returns 413 if the message is too large.
/// Returns 500 if it is unknown whether the message was stored.
pub fn import(
    host: &(impl Mailbox + Caller),
    folder: &str,
    message: Blob,
    flags: Vec<String>,
    received_at: Option<&str>,
    key: Option<&str>,
) -> Result<(ImportResult, bool), Failure> {
    check_key(key, "Idempotency-Key")?;
    let received_at = received_at
        .map(|text| time::parse(text).filter(|time| (0..END_OF_TIME).contains(time)))
        .map(|time| {
            time.ok_or(Failure::bad_request(
                codes::INVALID_RECEIVED_AT,
                "Invalid receivedAt",
            ))
        })
        .transpose()?;
    let import = Import {
        folder: folder.into(),
        message,
        flags,
        received_at,
    };
    let imported = host.import_message(import, key).map_err(|error| match error {
        Error::Invalid(problem) if problem.text.starts_with("Invalid message") => {
                Failure::of_problem(400, problem)
            }
        Error::Invalid(_) => Failure::bad_request(codes::INVALID_FLAG_DATA, "Invalid flag data"),
        Error::TooLarge(_) => Failure::new(
                413,
                codes::MESSAGE_TOO_LARGE,
                "Message exceeds the 50 MB limit",
            ),
        Error::OutcomeUnknown => Failure::new(
            500,
            codes::OUTCOME_UNKNOWN,
            "The message may have been stored; repeat the request with the same Idempotency-Key",
        ),
        other => Failure::of(other, NO_FOLDER, host),
    })?;
    let result = ImportResult {
        uid: imported.uid,
        folder: imported.folder,
    };
    Ok((result, imported.replayed))
}

/// The first millisecond after the latest time of arrival, which is in the year 9999.
const END_OF_TIME: i64 = 253_402_300_800_000;
