//! Normalizes folder paths from clients.

use latchmail_imap::INBOX;

/// Returns the path with the inbox's name in upper case. The name of the inbox is case-insensitive
/// (RFC 3501, section 5.1).
pub(crate) fn normalize_path(path: &str) -> &str {
    if path.eq_ignore_ascii_case(INBOX) {
        INBOX
    } else {
        path
    }
}
