//! Computes the versions of messages. Two versions can only be compared with each other.

use latchmail_core::hexadecimal;
use latchmail_core::message_number::MessageNumber;
use latchmail_imap::MessageRef;
use latchmail_imap::sync::canonical_flags;
use sha2::{Digest as _, Sha256};

/// The versions of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageVersion {
    /// Changes with the flags, the folder and the thread of the message.
    pub state: String,
    /// Stands for the bytes of the stored message, which never change.
    pub content: String,
}

/// Returns the version of a message's state. All hosts compute the same version, because the
/// version depends only on the mail server and the database.
pub(crate) fn state_version(
    account: &str,
    number: MessageNumber,
    at: MessageRef<'_>,
    flags: &[String],
    thread_id: &str,
) -> String {
    let flags = canonical_flags(flags.iter().map(String::as_str));
    hash(&[
        b"state",
        account.as_bytes(),
        &number.0.to_be_bytes(),
        at.path.as_bytes(),
        &at.uid_validity.to_be_bytes(),
        &at.uid.0.to_be_bytes(),
        flags.as_bytes(),
        thread_id.as_bytes(),
    ])
}

/// Returns [`MessageVersion::content`] of a message. `account` is the id of the account that owns
/// the mailbox.
#[must_use]
pub fn content_version(account: &str, number: MessageNumber) -> String {
    hash(&[b"content", account.as_bytes(), &number.0.to_be_bytes()])
}

/// Returns the first 16 bytes of SHA-256 over the fields in hexadecimal digits. The length precedes
/// each field, so that no field can contain the end of another field.
fn hash(fields: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    hexadecimal::lower(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use latchmail_core::message_number::Uid;

    use super::*;

    fn version(path: &str, uid: u32, flags: &[&str], thread: &str) -> String {
        let at = MessageRef {
            path,
            uid_validity: 1,
            uid: Uid(uid),
        };
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        state_version("ada", MessageNumber(7), at, &flags, thread)
    }

    #[test]
    fn a_version_changes_with_flags_folder_and_thread() {
        let before = version("INBOX", 3, &["\\Seen", "a"], "t");
        assert_eq!(before.len(), 32);
        assert_eq!(version("INBOX", 3, &["a", "\\Seen"], "t"), before);
        for changed in [
            version("INBOX", 3, &["\\Seen"], "t"),
            version("INBOX", 4, &["\\Seen", "a"], "t"),
            version("INBOX3", 3, &["\\Seen", "a"], "t"),
            version("INBOX", 3, &["\\Seen", "a"], "u"),
            content_version("ada", MessageNumber(7)),
        ] {
            assert_ne!(changed, before);
        }
    }

    #[test]
    fn the_version_of_the_bytes_depends_only_on_the_message() {
        let version = content_version("ada", MessageNumber(7));
        assert_eq!(content_version("ada", MessageNumber(7)), version);
        assert_ne!(content_version("ada", MessageNumber(8)), version);
        assert_ne!(content_version("bob", MessageNumber(7)), version);
    }
}
