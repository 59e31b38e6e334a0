//! Events: what happens in a mailbox, for clients that wait.
//!
//! The change log of a mailbox is the only source of events. [`Feed`] reads events from the log.
//! [`Watcher`] decides only when the log is read again, so a missed notice of the mail server
//! delays events and loses none. [`Streams`] has the open streams of clients.
//!
//! - `event`: the types of events, and their JSON
//! - `feed`: reads events with the rights of a caller
//! - `watcher`: the mailboxes for which listeners wait, and who wakes them; without notices, the
//!   connections on which the mail server reports changes
//! - `notices`: the reports of the mail server about changes
//! - `subscribers`: starts the jobs of webhooks and of other subscribers of events
//! - `streams`, `sse`, `limits`, `stream_span`: the streams and the waiting requests of clients

mod event;
mod feed;
mod limits;
mod notices;
mod rights;
mod sse;
mod stream_span;
mod streams;
mod subscribers;
mod watcher;

pub use event::{Event, EventFilter};
pub use feed::{EventPage, Feed};
pub use latchmail_core::event_type::EventType;
pub use limits::{StreamOwner, TooManyStreams};
pub use notices::{MAX_NOTICE, Notices};
pub use rights::{CurrentRights, Rights};
pub use streams::{ByteStream, CursorFormat, OpenError, Streams};
pub use subscribers::{
    Subscriber, SubscriberError, SubscriberWatch, Subscribers, watch_subscribers,
};
pub use watcher::{Listener, WatchLimit, Watcher};
