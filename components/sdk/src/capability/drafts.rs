//! `latchmail:host/drafts`: drafts of the caller's mailbox.

use super::{Draft, Error, Host, Page, SendOptions, Sent};
use crate::bindings::latchmail::host::drafts;
pub use crate::bindings::latchmail::host::drafts::{
    DraftError, DraftPage, StoredDraft, Submission,
};

/// Drafts of the caller's mailbox: messages in the folder with the role `\Drafts`. Reading needs
/// the scope `mail:read`, and changes need `mail:write`.
pub trait Drafts {
    /// Stores a new draft, which can be incomplete. An address can be any text on one line.
    ///
    /// # Errors
    /// Returns an error if the draft was not stored. `wit/drafts.wit` describes each error.
    fn create_draft(&self, draft: Draft) -> Result<StoredDraft, DraftError>;

    /// Returns the draft with this id.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the draft does not exist.
    fn get_draft(&self, id: &str) -> Result<StoredDraft, Error>;

    /// Returns a page of drafts. The newest draft is first.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the limit is out of range.
    fn list_drafts(&self, page: Page) -> Result<DraftPage, Error>;

    /// Replaces the draft with this id, if it has the version `if_version`.
    ///
    /// # Errors
    /// Returns [`DraftError::VersionMismatch`] if the draft has another version, or if another
    /// client has changed the draft during the call.
    fn replace_draft(
        &self,
        id: &str,
        draft: Draft,
        if_version: Option<&str>,
    ) -> Result<StoredDraft, DraftError>;

    /// Deletes the draft with this id permanently, if it has the version `if_version`.
    ///
    /// # Errors
    /// Returns [`DraftError::VersionMismatch`] if the draft has another version.
    fn delete_draft(&self, id: &str, if_version: Option<&str>) -> Result<(), DraftError>;

    /// Sends the draft with this id, if it has the version `if_version`, and removes it. Needs the
    /// scopes `mail:send` and `mail:read`. `options` are as for
    /// [`Outbox::send`](super::Outbox::send).
    ///
    /// # Errors
    /// Returns [`DraftError::Unfinished`] if the draft cannot be sent yet.
    fn send_draft(
        &self,
        id: &str,
        if_version: Option<&str>,
        options: &SendOptions,
    ) -> Result<Sent, DraftError>;

    /// Sends a message of the mailbox as it is stored, with an envelope of its own. The message
    /// stays in the mailbox, and no copy is filed. Needs the scopes `mail:send` and `mail:read`.
    ///
    /// # Errors
    /// Returns [`DraftError::Unfinished`] if the message or the envelope is not valid. Returns
    /// [`Error::NotFound`] if the message does not exist.
    fn submit_message(&self, submission: &Submission) -> Result<Sent, DraftError>;
}

impl Drafts for Host {
    fn create_draft(&self, draft: Draft) -> Result<StoredDraft, DraftError> {
        drafts::create(draft)
    }

    fn get_draft(&self, id: &str) -> Result<StoredDraft, Error> {
        drafts::get(id)
    }

    fn list_drafts(&self, page: Page) -> Result<DraftPage, Error> {
        drafts::list(page)
    }

    fn replace_draft(
        &self,
        id: &str,
        draft: Draft,
        if_version: Option<&str>,
    ) -> Result<StoredDraft, DraftError> {
        drafts::replace(id, draft, if_version)
    }

    fn delete_draft(&self, id: &str, if_version: Option<&str>) -> Result<(), DraftError> {
        drafts::delete(id, if_version)
    }

    fn send_draft(
        &self,
        id: &str,
        if_version: Option<&str>,
        options: &SendOptions,
    ) -> Result<Sent, DraftError> {
        drafts::send(id, if_version, options)
    }

    fn submit_message(&self, submission: &Submission) -> Result<Sent, DraftError> {
        drafts::submit(submission)
    }
}

impl From<Error> for DraftError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
