//! What a module may ask of the host: one trait an interface of the contract, and [`Host`], which asks it for real.
//!
//! A handler names the traits it needs (`fn list(host: &impl Mailbox, …)`), so a test can answer in the host's place.

pub use crate::bindings::latchmail::host::caller::{Identity, Kind};
pub use crate::bindings::latchmail::host::log::Level;
pub use crate::bindings::latchmail::host::mailbox::{
    Address, Attachment, Detail, Folder, Listing, Page, Role, Summary,
};
pub use crate::bindings::latchmail::host::types::{Error, Scope, Timestamp};
use crate::bindings::latchmail::host::{blobs, caller, config, log, mailbox};

/// Bytes that stay with the host, to be handed on as the body of an answer.
#[derive(Debug)]
pub enum Blob {
    /// The host's, by its handle.
    Host(blobs::Blob),
    /// Those of a test that answers in the host's place.
    Bytes(Vec<u8>),
}

/// Who is asking.
pub trait Caller {
    /// The caller of this request.
    fn current(&self) -> Identity;
}

/// The caller's mail, reading. Needs `mail:read`. Each function may also answer `CredentialRefused`, `Unavailable`, `Denied` or `Internal`.
pub trait Mailbox {
    /// All folders: those with a role first, in the order of [`Role`], then the rest by path.
    ///
    /// # Errors
    /// As the trait says.
    fn list_folders(&self) -> Result<Vec<Folder>, Error>;

    /// A stretch of a folder, newest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such folder; [`Error::Invalid`] for a limit that is not 1 to 100.
    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error>;

    /// One message by its number, wherever it is; `folder` is a hint of where to look first.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such message.
    fn get_message(&self, uid: u64, folder: Option<&str>) -> Result<Detail, Error>;

    /// One attachment by its message's number and its own; none where only the attachment is missing.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such message; [`Error::TooLarge`] where the attachment lies beyond what is read of one.
    fn get_attachment(
        &self,
        uid: u64,
        index: u32,
        folder: Option<&str>,
    ) -> Result<Option<(Attachment, Blob)>, Error>;
}

/// The host's log.
pub trait Log {
    /// Writes one line. Never message content or secrets.
    fn write(&self, level: Level, message: &str);
}

/// The module's own settings.
pub trait Config {
    /// One setting; none where it is not set.
    fn get(&self, key: &str) -> Option<String>;
}

/// The real host, asked through the sandbox's imports. Only a component has one: anywhere else its functions panic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Caller for Host {
    fn current(&self) -> Identity {
        caller::current()
    }
}

impl Mailbox for Host {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        mailbox::list_folders()
    }

    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error> {
        mailbox::list_messages(folder, page)
    }

    fn get_message(&self, uid: u64, folder: Option<&str>) -> Result<Detail, Error> {
        mailbox::get_message(uid, folder)
    }

    fn get_attachment(
        &self,
        uid: u64,
        index: u32,
        folder: Option<&str>,
    ) -> Result<Option<(Attachment, Blob)>, Error> {
        let found = mailbox::get_attachment(uid, index, folder)?;
        Ok(found.map(|found| (found.attachment, Blob::Host(found.content))))
    }
}

impl Log for Host {
    fn write(&self, level: Level, message: &str) {
        log::write(level, message);
    }
}

impl Config for Host {
    fn get(&self, key: &str) -> Option<String> {
        config::get(key)
    }
}
