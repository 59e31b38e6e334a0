//! The state that the parts of a mailbox service share.

use std::sync::Arc;

use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_directory::Directory;
use latchmail_directory::message_index::MessageIndex;

use crate::bounds;
use crate::cache::MailboxCache;
use crate::connections::Connections;
use crate::memory::SharedMemory;

/// The state that the operations on mailboxes share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) connections: Arc<Connections>,
    pub(crate) directory: Directory,
    pub(crate) cache: MailboxCache,
    /// Memory for downloads, and for messages of at least [`bounds::FIRST`] bytes while these
    /// messages are read.
    pub(crate) message_memory: SharedMemory,
}

impl Context {
    pub(crate) fn new(
        config: &config::Imap,
        sign_in: config::SignIn,
        directory: Directory,
    ) -> Result<Self, StartError> {
        Ok(Self {
            connections: Arc::new(Connections::new(config, sign_in, directory.clone())?),
            directory,
            cache: MailboxCache::new(),
            message_memory: SharedMemory::new(
                bounds::MESSAGE_MEMORY_MIB,
                config.timeout,
                "too many large messages are being read",
            ),
        })
    }

    /// Returns the message index.
    pub(crate) fn message_index(&self) -> &MessageIndex {
        &self.directory.message_index
    }
}
