//! Lists the folders of a mailbox, the messages of a folder, and messages by their numbers.

mod batch;
mod folders;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use crate::bounds;
use crate::context::Context;
use crate::folders::Folders;
use crate::index::SearchIndex;
use crate::memory::SharedMemory;
use crate::numbers::Numbers;

/// Lists folders and messages.
#[derive(Debug)]
pub struct Lister {
    context: Arc<Context>,
    folders: Arc<Folders>,
    numbers: Arc<Numbers>,
    index: Arc<SearchIndex>,
    /// Memory for longer headers and texts. A request releases this memory before its response is
    /// sent.
    memory: SharedMemory,
}

impl Lister {
    /// Requests wait at most `timeout` for memory.
    pub(crate) fn new(
        context: Arc<Context>,
        folders: Arc<Folders>,
        numbers: Arc<Numbers>,
        index: Arc<SearchIndex>,
        timeout: Duration,
    ) -> Self {
        let busy = "too many large headers are being read";
        Self {
            context,
            folders,
            numbers,
            index,
            memory: SharedMemory::new(bounds::LISTING_MEMORY_MIB, timeout, busy),
        }
    }
}
