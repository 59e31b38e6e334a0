//! The open folder of a connection, and the server's response to the command that opened the
//! folder.

use super::flag::Flag;

/// The open folder.
#[derive(Debug)]
pub(crate) struct Selected {
    /// The server's name of the folder.
    pub(crate) name: String,
    /// The UIDVALIDITY when the folder was opened.
    pub(crate) uid_validity: u32,
    /// The number of messages when the folder was opened.
    pub(crate) exists: u32,
    /// Whether the messages of the folder have MODSEQs (RFC 7162, section 3.1.2). A server with
    /// CONDSTORE can have folders without MODSEQs.
    pub(crate) has_modseqs: bool,
    /// The response to SELECT. `None` if this folder is not INBOX, if INBOX is not open for
    /// writing, or if the permanent flags of INBOX have changed.
    pub(crate) writable: Option<Writable>,
}

/// The state of a folder when it was opened (RFC 3501, section 6.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The number of messages.
    pub exists: u32,
    /// The UIDVALIDITY.
    pub uid_validity: u32,
    /// UIDNEXT: the smallest UID that the next message can get, or 0 if the server does not report
    /// UIDNEXT.
    pub uid_next: u32,
}

/// The server's response to SELECT.
#[derive(Clone, Debug)]
pub struct Writable {
    /// The state of the folder when it was opened.
    pub opened: Opened,
    /// The flags that the server stores permanently. `None` if the server does not report these
    /// flags. In that case the server stores all flags (RFC 3501, section 6.3.1).
    pub(crate) permanent: Option<Vec<String>>,
}

impl Writable {
    /// Returns the first of `flags` that the server does not store permanently.
    #[must_use]
    pub fn first_unsupported<'f>(&self, flags: &'f [Flag]) -> Option<&'f Flag> {
        let permanent = self.permanent.as_ref()?;
        let any_keyword = permanent
            .iter()
            .any(|permanent_flag| permanent_flag == "\\*");
        flags.iter().find(|flag| {
            let permanent_flag = permanent
                .iter()
                .any(|permanent_flag| permanent_flag.eq_ignore_ascii_case(flag.as_str()));
            !(permanent_flag || (any_keyword && flag.is_keyword()))
        })
    }
}
