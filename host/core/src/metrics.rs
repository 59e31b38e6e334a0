//! The metrics of this process, in the text format of Prometheus. This module has the list of all
//! families. The code that causes an event counts the event.
//!
//! The families are global, because all services of a process share them. Only tests have several
//! services in one process. `docs/metrics.md` describes each family. Labels contain no addresses,
//! no account ids, and nothing else that a client chooses.

mod family;

use crate::limits::Bucket;

pub use family::{
    AnyFamily, Counter, CounterSeries, Family, Gauge, GaugeSeries, Histogram, HistogramSeries,
    InProgress, Label, Series,
};

/// The content type of [`export`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

macro_rules! families {
    ($($kind:ident $family:ident($name:literal, [$($label:ident: $values:expr),*], $help:literal);)*) => {
        $(
            #[doc = $help]
            pub static $family: $kind<{ <[&str]>::len(&[$(stringify!($label)),*]) }> =
                Family::new($name, $help, [$((stringify!($label), $values)),*]);
        )*

        /// All families.
        pub static FAMILIES: &[&dyn AnyFamily] = &[$(&$family),*];
    };
}

/// The list of values for labels whose values are known only while the service runs. Such a family
/// has no series at the start.
const DYNAMIC: &[&str] = &[];

/// The rate limit of failed sign-ins to one mail address, as the value of the label `area`.
pub const SIGN_IN_ADDRESS: &str = "sign_in_address";

/// The names of all rate limits, which are the values of the label `area`.
pub const AREAS: &[&str] = &areas();

const fn areas() -> [&'static str; Bucket::ALL.len() + 1] {
    let mut areas = [SIGN_IN_ADDRESS; Bucket::ALL.len() + 1];
    let mut index = 0;
    while index < Bucket::ALL.len() {
        areas[index] = Bucket::ALL[index].name();
        index += 1;
    }
    areas
}

families! {
    Counter HTTP_REQUESTS("latchmail_http_requests_total", [route: &["-"], method: &["other"], status: &["404"]],
        "Finished HTTP requests.");
    Histogram HTTP_DURATION("latchmail_http_request_duration_seconds", [route: &["-"], method: &["other"]],
        "Time from the head of a request to its response.");
    Gauge HTTP_IN_PROGRESS("latchmail_http_requests_in_progress", [],
        "HTTP requests in progress.");
    Counter HTTP_DISCONNECTS("latchmail_http_disconnects_total", [],
        "Requests whose client disconnected before the response.");
    Gauge HTTP_CONNECTIONS("latchmail_http_connections", [],
        "Open connections of clients, on all listeners.");
    Counter RATE_LIMITED("latchmail_rate_limited_total", [area: AREAS],
        "Requests that were refused because of a rate limit.");
    Gauge SHARED_LIMITS_UNAVAILABLE("latchmail_shared_limits_unavailable", [],
        "1 if the server with the shared rate limits cannot be reached, otherwise 0.");
    Counter SIGN_INS("latchmail_sign_ins_total", [outcome: &["success", "wrong_password", "unknown_account", "account_disabled", "account_changed", "code_missing", "wrong_code", "refused"]],
        "Attempts to sign in.");

    Counter SANDBOX_CALLS("latchmail_sandbox_calls_total", [module: DYNAMIC, version: DYNAMIC, outcome: DYNAMIC],
        "Finished calls of modules.");
    Histogram SANDBOX_CALL_DURATION("latchmail_sandbox_call_duration_seconds", [module: DYNAMIC, version: DYNAMIC],
        "Duration of calls of modules, with the wait for a sandbox.");
    Counter SANDBOX_CPU("latchmail_sandbox_cpu_seconds_total", [module: DYNAMIC, version: DYNAMIC],
        "CPU time of calls of modules, with the host functions.");
    Counter HOST_CALLS("latchmail_host_calls_total", [module: DYNAMIC, version: DYNAMIC],
        "Calls of host functions by modules.");
    Gauge SANDBOX_MEMORY("latchmail_sandbox_memory_bytes", [module: DYNAMIC, version: DYNAMIC],
        "Memory of all sandboxes that exist.");
    Gauge SANDBOXES_IN_USE("latchmail_sandboxes_in_use", [module: DYNAMIC, version: DYNAMIC],
        "Sandboxes that serve a request.");
    Gauge SANDBOXES_IDLE("latchmail_sandboxes_idle", [module: DYNAMIC, version: DYNAMIC],
        "Sandboxes that wait for a request.");
    Gauge MODULE_FAILING("latchmail_module_failing", [module: DYNAMIC, version: DYNAMIC],
        "1 if most of the latest requests of the serving version failed, otherwise 0.");
    Gauge MODULES_NOT_SERVING("latchmail_modules_not_serving", [],
        "Enabled modules whose current version does not serve on this host.");

    Counter IMAP_COMMANDS("latchmail_imap_commands_total", [command: IMAP_COMMAND_NAMES, outcome: IMAP_OUTCOMES],
        "IMAP commands.");
    Histogram IMAP_DURATION("latchmail_imap_command_duration_seconds", [command: IMAP_COMMAND_NAMES],
        "Time from an IMAP command to its result.");
    Gauge IMAP_OPEN("latchmail_imap_connections_open", [],
        "Open connections to the IMAP server in the pool, idle or in use.");
    Gauge IMAP_IN_USE("latchmail_imap_connections_in_use", [],
        "Connections to the IMAP server that a request uses.");
    Histogram IMAP_WAIT("latchmail_imap_pool_wait_seconds", [],
        "Wait for a connection of the pool to the IMAP server.");
    Gauge IMAP_UP("latchmail_imap_up", [],
        "1 if the IMAP server accepts a connection, otherwise 0. Each scrape checks this.");

    Gauge WATCHED_MAILBOXES("latchmail_watched_mailboxes", [],
        "Mailboxes whose changes a stream, a request or a webhook waits for.");
    Gauge EVENT_STREAMS("latchmail_event_streams", [],
        "Open streams of events, and requests that wait for a change.");
    Counter EVENTS_SENT("latchmail_events_sent_total", [],
        "Events that were sent to streams.");
    Histogram EVENT_LAG("latchmail_event_lag_seconds", [],
        "Time from the entry in the change log to the stream.");
    Counter EVENT_NOTICES("latchmail_event_notices_total", [outcome: &["watched", "unwatched", "invalid", "lost"]],
        "Notices of the mail server about changes.");

    Counter SUBMISSIONS("latchmail_submissions_total", [outcome: &["sent", "rejected", "credential_refused", "unavailable", "unknown", "failed"]],
        "Messages passed to the submission service.");
    Counter HOLDS("latchmail_holds_total", [outcome: &["created", "approved", "rejected", "expired"]],
        "Messages that a policy held, and decisions about them.");
    Histogram SUBMISSION_DURATION("latchmail_submission_duration_seconds", [],
        "Time to pass a message to the submission service.");
    Histogram SUBMISSION_WAIT("latchmail_submission_pool_wait_seconds", [],
        "Wait for a connection of the pool to the submission service.");

    Counter WEBHOOK_ATTEMPTS("latchmail_webhook_attempts_total", [outcome: &["delivered", "refused", "timeout", "unreachable"]],
        "Attempts to send an event to a webhook or to an agent.");
    Histogram WEBHOOK_DURATION("latchmail_webhook_attempt_duration_seconds", [],
        "Time of an attempt to send an event, from the DNS lookup to the response.");
    Gauge WEBHOOK_MAILBOXES("latchmail_webhook_mailboxes", [],
        "Mailboxes that this host watches for webhooks and agents.");

    Counter ACCOUNTS_DELETED("latchmail_accounts_deleted_total", [outcome: &["with_mailbox", "without_mailbox"]],
        "Accounts that were deleted after their grace period.");

    Counter HANDLER_CALLS("latchmail_handler_calls_total", [module: DYNAMIC, outcome: DYNAMIC],
        "Finished calls of handlers of modules, for events and timers.");
    Histogram HANDLER_DURATION("latchmail_handler_call_duration_seconds", [module: DYNAMIC],
        "Duration of calls of handlers, with the wait for a sandbox.");
    Histogram HANDLER_LAG("latchmail_handler_lag_seconds", [],
        "Time from the entry in the change log to the call of a handler.");
    Gauge HANDLERS_PAUSED("latchmail_handlers_paused", [module: DYNAMIC],
        "Mailboxes for which a module is paused, because its calls failed.");
    Gauge HANDLER_MAILBOXES("latchmail_handler_mailboxes", [],
        "Mailboxes that this host watches for modules with handlers.");
    Counter HANDLER_GAPS("latchmail_handler_gaps_total", [],
        "Times at which a module missed events, because the change log did not have them any longer.");

    Gauge DATABASE_OPEN("latchmail_database_connections_open", [],
        "Open connections of the pool to the database.");
    Gauge DATABASE_IN_USE("latchmail_database_connections_in_use", [],
        "Connections to the database that a request uses.");
    Gauge DATABASE_WRITES_WAITING("latchmail_database_writes_waiting", [],
        "Transactions that wait for the writer of the SQLite database.");
    Histogram DATABASE_WRITE_WAIT("latchmail_database_write_wait_seconds", [],
        "Wait of a transaction for the writer of the SQLite database.");
    Counter DATABASE_WRITES("latchmail_database_writes_total", [],
        "Transactions that the writer of the SQLite database has committed.");
    Histogram DATABASE_COMMIT_DURATION("latchmail_database_commit_duration_seconds", [],
        "Time to commit a group of transactions to the SQLite database.");
    Counter DATABASE_ERRORS("latchmail_database_errors_total", [],
        "Failed operations of the database.");
    Gauge DATABASE_UP("latchmail_database_up", [],
        "1 if the database responds, otherwise 0. Each scrape checks this.");

    Counter CACHE_LOOKUPS("latchmail_cache_lookups_total", [area: &["folder_ids", "locations", "sent_folders", "structures", "summaries"], outcome: &["hit", "miss"]],
        "Lookups in the caches of mailboxes.");
    Gauge INDEX_LAG("latchmail_index_lag_seconds", [],
        "Longest time since an open search index was updated.");
    Gauge INDEX_OPEN("latchmail_index_open", [],
        "Open search indexes.");
    Gauge INDEX_BUILDING("latchmail_index_building", [],
        "Search indexes that wait for their build or are being built.");
    Gauge INDEX_BYTES("latchmail_index_bytes", [],
        "Size of all search indexes on the disk.");
    Counter INDEX_FALLBACKS("latchmail_index_fallbacks_total", [],
        "Searches that the mail server served although the search index is enabled.");

    Counter TRACE_SPANS_LOST("latchmail_trace_spans_lost_total", [],
        "Spans that were not sent to the collector, because it did not accept them or because the queue was full.");

    Gauge READY("latchmail_ready", [],
        "1 if this host is ready for requests, otherwise 0. Each scrape checks this.");
    Gauge HOSTS("latchmail_hosts", [],
        "Hosts that use the same database and run.");
    Gauge CERTIFICATE_EXPIRY("latchmail_certificate_expiry_timestamp_seconds", [],
        "Time at which the TLS certificate expires, in seconds since 1970. 0 without TLS.");
}

/// The values of the label `command` of IMAP commands. `CONNECT` is the connection up to the
/// greeting.
pub const IMAP_COMMAND_NAMES: &[&str] = &[
    "APPEND",
    "AUTHENTICATE",
    "CAPABILITY",
    "CLOSE",
    "CONNECT",
    "CREATE",
    "DELETE",
    "ENABLE",
    "EXAMINE",
    "EXPUNGE",
    "FETCH",
    "GETQUOTAROOT",
    "ID",
    "LIST",
    "LOGIN",
    "LSUB",
    "MOVE",
    "NOOP",
    "RENAME",
    "SEARCH",
    "SELECT",
    "STATUS",
    "STORE",
    "SUBSCRIBE",
    "UNSELECT",
    "UNSUBSCRIBE",
    "other",
];

/// The values of the label `outcome` of IMAP commands. `failed` is a command without a result,
/// because the connection was lost or a time limit passed.
const IMAP_OUTCOMES: &[&str] = &["ok", "no", "bad", "failed"];

/// Returns all families in the text format.
///
/// # Errors
/// Returns an error if a series is invalid, which is a bug of the library.
pub fn export() -> prometheus::Result<String> {
    let mut text = String::with_capacity(64 * 1024);
    for family in FAMILIES {
        family.write(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
