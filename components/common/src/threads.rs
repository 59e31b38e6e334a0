//! Threads as JSON: a page of threads, and the messages of a thread.

use latchmail_sdk::capability::{self, Caller, Mailbox, Page, ThreadsError};
use latchmail_sdk::{Code, Failure, Paging, codes};
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::{Address, FoundMessage, addresses};
use crate::reading::{NO_FOLDER, page};

const NO_THREAD: (Code, &str) = (codes::THREAD_NOT_FOUND, "Thread not found");

/// The number of messages of a thread that are returned if the request has neither `page` nor
/// `limit`.
const NEWEST: u32 = 100;

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
    /// The opaque id of the thread. The `threadId` of each of its messages has this value.
    pub id: String,
    /// The subject of the oldest message.
    pub subject: String,
    /// The number of messages in all folders.
    pub count: u32,
    /// The number of unread messages in all folders.
    pub unread: u32,
    /// The senders, in the order of their first message. At most 50.
    #[schema(max_items = 50)]
    pub participants: Vec<Address>,
    /// The newest message.
    pub newest: FoundMessage,
}

/// A thread with a page of its messages.
#[derive(Serialize, ToSchema)]
pub struct ThreadMessages {
    /// The id of the thread.
    pub id: String,
    /// The messages on this page from all folders, oldest first.
    #[schema(max_items = 100)]
    pub messages: Vec<FoundMessage>,
    /// The total number of messages of the thread.
    pub total: u32,
    /// The number of the page, from 1. Missing if the request has neither `page` nor `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The number of messages per page. Missing if the request has neither `page` nor `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
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
/// Returns 404 if the folder does not exist. Returns 503 if the search index is not ready.
/// [`Failure::of`] converts any other error of the host.
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

/// Returns a page of the messages of a thread. The first page has the newest messages. Without
/// `paging`, returns the newest 100 messages.
///
/// # Errors
/// Returns 404 if the thread does not exist. Returns 503 if the search index is not ready.
/// [`Failure::of`] converts any other error of the host.
pub fn get(
    host: &(impl Mailbox + Caller),
    id: &str,
    paging: Option<Paging>,
) -> Result<ThreadMessages, Failure> {
    let newest = Page {
        offset: 0,
        limit: NEWEST,
    };
    let thread = host
        .get_thread(id, paging.map_or(newest, page))
        .map_err(|error| failure(error, NO_THREAD, host))?;
    Ok(ThreadMessages {
        id: thread.id,
        messages: thread
            .messages
            .into_iter()
            .map(FoundMessage::from)
            .collect(),
        total: thread.total,
        page: paging.map(|paging| paging.page),
        limit: paging.map(|paging| paging.limit),
    })
}

fn failure(error: ThreadsError, missing: (Code, &'static str), host: &impl Caller) -> Failure {
    match error {
        ThreadsError::IndexNotReady => Failure {
            retry_after: Some(RETRY_AFTER),
            ..Failure::new(
                503,
                codes::SEARCH_INDEX_NOT_READY,
                "Threads need the search index, which is disabled or being built",
            )
        },
        ThreadsError::Failed(error) => Failure::of(error, missing, host),
    }
}
