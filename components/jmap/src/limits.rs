//! The limits that the session announces, and those of single values.

/// The maximum size of an upload, in bytes.
pub(crate) const MAX_UPLOAD: u32 = 25 * 1024 * 1024;
/// The maximum number of concurrent uploads.
pub(crate) const MAX_CONCURRENT_UPLOADS: u32 = 2;
/// The maximum size of a request to the API, in bytes.
pub(crate) const MAX_REQUEST: u32 = 10_000_000;
/// The maximum number of concurrent requests to the API, which is that of the host's calls of one
/// account.
pub(crate) const MAX_CONCURRENT_REQUESTS: u32 = 8;
/// The maximum number of method calls in one request.
pub(crate) const MAX_CALLS: usize = 32;
/// The maximum number of objects that one `/get` returns.
pub(crate) const MAX_GET: usize = 500;
/// The maximum number of objects that one `/set` creates, updates and destroys.
pub(crate) const MAX_SET: usize = 500;
/// The maximum number of ids that one `/query` returns.
pub(crate) const MAX_QUERY: u32 = 1_000;
/// The maximum number of ids that one `/changes` returns.
pub(crate) const MAX_CHANGES: u32 = 500;
/// The maximum total size of the attachments of a new email, in bytes. A host call passes at most
/// 16 MiB, and base64 needs 4 bytes for 3.
pub(crate) const MAX_ATTACHMENTS: usize = 10_000_000;
/// The maximum size of the name of a mailbox, in bytes.
pub(crate) const MAX_MAILBOX_NAME: usize = 255;
/// The maximum depth of mailboxes.
pub(crate) const MAX_MAILBOX_DEPTH: usize = 20;
/// The maximum number of keywords of an email.
pub(crate) const MAX_KEYWORDS: usize = 100;
/// The maximum time until a message leaves, in seconds.
pub(crate) const MAX_DELAY: u64 = 365 * 24 * 3600;
/// The maximum number of recipients of a submission.
pub(crate) const MAX_RECIPIENTS: usize = 50;
/// The maximum size of all responses of one request, in bytes. The host's limit is 8 MiB.
pub(crate) const MAX_RESPONSES: usize = 7 * 1024 * 1024;
/// The maximum size of one body value, in bytes.
pub(crate) const MAX_BODY_VALUE: usize = 1024 * 1024;
/// The maximum number of objects, and of values in objects and arrays, in the JSON of a request.
/// A small value takes much more memory than its text.
pub(crate) const MAX_JSON_OBJECTS: usize = 20_000;
pub(crate) const MAX_JSON_VALUES: usize = 300_000;
