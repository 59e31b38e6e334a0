//! Threads as JSON: a page of threads, and the messages of a thread.

use latchmail_sdk::capability::{self, Caller, Mailbox, ThreadsError};
use latchmail_sdk::{Failure, Paging};
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::{Address, FoundMessage, addresses};
use crate::reading::{NO_FOLDER, page};

const NO_THREAD: &str = "Thread not found";

/// The time after which a client can repeat a request that needs the search index, in seconds.
const RETRY_AFTER: u32 = 10;

/// A page of threads.
#[derive(Serialize, ToSchema)]
pub struct ThreadList {
    /// The threads on this page. The thread with the newest message is first.
    pub threads: Vec<Thread>,
    /// The total number of threads.
    pub total: u32,
    /// The number of the page, from 1.
    pub page: u32,
    /// The number of threads per page.
    pub limit: u32,
}

/// A thread: a message and its replies, in any folders.
#[derive(Serialize, ToSchema)]
pub struct Thread {
    /// The opaque id: the `threadId` of the thread's messages.
    pub id: String,
    /// The subject of the oldest message.
    pub subject: String,
    /// The number of messages in all folders.
    pub count: u32,
    /// The number of unread messages in all folders.
    pub unread: u32,
    /// The senders, in the order of their first message.
    pub participants: Vec<Address>,
    /// The newest message.
    pub newest: FoundMessage,
}

/// A thread with its messages.
#[derive(Serialize, ToSchema)]
pub struct ThreadMessages {
    /// The id of the thread.
    pub id: String,
    /// The messages of the thread in all folders, oldest first.
    pub messages: Vec<FoundMessage>,
}

impl From<capability::Thread> for Thread {
    fn from(thread: capability::Thread) -> Self {
        Self {
            id: thread.id,
            subject: thread.subject,
            count: thread.count,
            unread: thread.unread,
            participants: addresses(thread.participants),
            newest: thread.newest.into(),
        }
    }
}

/// Returns a page of the threads that have a message in the folder, or of all threads.
///
/// # Errors
/// Returns 404 if the folder does not exist. Returns 503 if the search index is not ready. [`Failure::of`] converts any other error of the host.
pub fn list(
    host: &(impl Mailbox + Caller),
    folder: Option<&str>,
    paging: Paging,
) -> Result<ThreadList, Failure> {
    let list = host
        .list_threads(folder, page(paging))
        .map_err(|error| failure(error, NO_FOLDER, host))?;
    Ok(ThreadList {
        threads: list.threads.into_iter().map(Thread::from).collect(),
        total: list.total,
        page: paging.page,
        limit: paging.limit,
    })
}

/// Returns the messages of a thread.
///
/// # Errors
/// Returns 404 if the thread does not exist. Returns 503 if the search index is not ready. [`Failure::of`] converts any other error of the host.
pub fn get(host: &(impl Mailbox + Caller), id: &str) -> Result<ThreadMessages, Failure> {
    let messages = host
        .get_thread(id)
        .map_err(|error| failure(error, NO_THREAD, host))?;
    // The requested id can be an earlier id of the thread.
    let id = messages
        .first()
        .map_or_else(|| id.into(), |first| first.summary.thread_id.clone());
    Ok(ThreadMessages {
        id,
        messages: messages.into_iter().map(FoundMessage::from).collect(),
    })
}

fn failure(error: ThreadsError, missing: &'static str, host: &impl Caller) -> Failure {
    match error {
        ThreadsError::IndexNotReady => Failure {
            retry_after: Some(RETRY_AFTER),
            ..Failure::new(
                503,
                "Threads need the search index, which is disabled or being built",
            )
        },
        ThreadsError::Failed(error) => Failure::of(error, missing, host),
    }
}
