//! The interface `queries`, for modules that implement another protocol or keep a copy of the
//! mailbox.

use std::time::Duration;

use latchmail_bindings::latchmail::host::mailbox::ChangeList;
use latchmail_bindings::latchmail::host::queries::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{EventStream, HostError};
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_events::{CursorFormat, OpenError};
use latchmail_mailbox::search::{
    Filter, MessageFilter, NumberQuery, Part, SortKey, SortValue, Start, has_words,
};
use wasmtime::component::Resource;

use super::call::Call;
use super::convert::mailbox_error;
use super::host_call::host_call;
use super::mailbox::check_changes_limit;
use super::mailbox::events::stream_owner;
use super::mailbox::found::change;
use super::problem;

/// The maximum numbers of nodes of a filter, of keys, and of messages in one call.
const MAX_NODES: usize = 200;
const MAX_KEYS: usize = 10;
const MAX_NUMBERS: usize = 1_000;
/// The maximum number of threads in one call, and of their messages.
const MAX_THREADS: usize = 500;
const MAX_THREAD_MESSAGES: usize = 50_000;
/// The maximum interval of pings, in seconds.
const MAX_PING: u32 = 300;
/// The maximum length of the data of an event, in bytes.
const MAX_DATA: usize = 4_096;

type Outcome<T> = Result<T, HostError<wit::QueryError>>;

impl Host for Call {
    fn convert_query_error(
        &mut self,
        error: HostError<wit::QueryError>,
    ) -> wasmtime::Result<wit::QueryError> {
        error.into_guest()
    }

    async fn query_messages(&mut self, query: wit::NumberQuery) -> Outcome<wit::NumberPage> {
        let _span = host_call("queries.query-messages");
        let access = self.mailbox_access(Scope::MailRead)?;
        let search = &self.services.mail.search;
        let page = search.query(&access, number_query(query)?).await;
        let page = page.map_err(query_error)?;
        let page = page.ok_or(wit::QueryError::AnchorNotFound)?;
        let located = page.located.into_iter();
        Ok(wit::NumberPage {
            uids: page.numbers.iter().map(|number| number.0).collect(),
            position: to_u32(page.position),
            total: to_u32(page.total),
            located: located
                .map(|(number, position)| wit::Located {
                    uid: number.0,
                    position: to_u32(position),
                })
                .collect(),
        })
    }

    async fn get_facts(&mut self, uids: Vec<u64>) -> Outcome<Vec<wit::MessageFacts>> {
        let _span = host_call("queries.get-facts");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_count(uids.len(), MAX_NUMBERS, "messages")?;
        let numbers = uids.into_iter().map(MessageNumber).collect();
        let facts = self.services.mail.search.facts(&access, numbers).await;
        let facts = facts.map_err(query_error)?.into_iter();
        Ok(facts
            .map(|one| wit::MessageFacts {
                uid: one.number.0,
                folder: one.folder,
                folder_id: one.folder_id,
                flags: one.flags,
                received_at: one.received_at,
                size: one.size,
                thread_id: one.thread_id,
                has_attachment: one.has_attachment,
            })
            .collect())
    }

    async fn get_threads(&mut self, ids: Vec<String>) -> Outcome<Vec<wit::ThreadNumbers>> {
        let _span = host_call("queries.get-threads");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_count(ids.len(), MAX_THREADS, "threads")?;
        let search = &self.services.mail.search;
        let threads = search.thread_numbers(&access, ids, MAX_THREAD_MESSAGES);
        let threads = threads.await.map_err(query_error)?.ok_or_else(|| {
            let text = format!("At most {MAX_THREAD_MESSAGES} messages of threads at once");
            problem::too_large(codes::TOO_MANY_MESSAGES, text)
        })?;
        Ok(threads
            .into_iter()
            .map(|one| wit::ThreadNumbers {
                id: one.id,
                requested: one.requested,
                uids: one.numbers.iter().map(|number| number.0).collect(),
            })
            .collect())
    }

    async fn count_messages(&mut self) -> Outcome<Vec<wit::FolderCounts>> {
        let _span = host_call("queries.count-messages");
        let access = self.mailbox_access(Scope::MailRead)?;
        let counts = self.services.mail.search.counts(&access).await;
        let counts = counts.map_err(query_error)?.into_iter();
        Ok(counts
            .map(|one| wit::FolderCounts {
                folder_id: one.folder_id,
                messages: one.messages,
                unread: one.unread,
                threads: one.threads,
                unread_threads: one.unread_threads,
            })
            .collect())
    }

    async fn list_changes(&mut self, since: Option<String>, limit: u32) -> Outcome<ChangeList> {
        let _span = host_call("queries.list-changes");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_changes_limit(limit)?;
        let changelog = &self.services.mail.changelog;
        let page = changelog.message_page(&access, since.as_deref(), limit);
        let page = page.await.map_err(query_error)?;
        Ok(ChangeList {
            cursor: page.cursor,
            more: page.more,
            changes: page.changes.into_iter().map(change).collect(),
        })
    }

    async fn stream_cursors(
        &mut self,
        since: Option<String>,
        format: wit::CursorFormat,
    ) -> Outcome<Resource<EventStream>> {
        let _span = host_call("queries.stream-cursors");
        let (access, owner) = stream_owner(self)?;
        let format = cursor_format(format)?;
        let streams = &self.services.streams;
        let opened = streams.open_cursors(access, &owner, since, format).await;
        let stream = opened.map_err(|error| match error {
            OpenError::TooMany => wit::QueryError::TooManyStreams,
            OpenError::FolderNotFound => wit::QueryError::Failed(Error::NotFound),
            OpenError::Mailbox(error) => query_error(error),
        })?;
        let stream = self.table.push(EventStream::new(stream));
        stream.map_err(HostError::trap)
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn query_error(error: latchmail_mailbox::Error) -> wit::QueryError {
    match error {
        latchmail_mailbox::Error::IndexNotReady => wit::QueryError::IndexNotReady,
        latchmail_mailbox::Error::CursorExpired => wit::QueryError::CursorExpired,
        other => wit::QueryError::Failed(mailbox_error(other)),
    }
}

fn check_count(count: usize, max: usize, what: &str) -> Result<(), Error> {
    if count > max {
        let text = format!("At most {max} {what} at once");
        return Err(problem::too_large(codes::TOO_MANY_MESSAGES, text));
    }
    Ok(())
}

fn invalid(text: impl Into<String>) -> wit::QueryError {
    wit::QueryError::Failed(problem::invalid(codes::INVALID_FIELD, text))
}

fn number_query(query: wit::NumberQuery) -> Result<NumberQuery, wit::QueryError> {
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let is_small = limit <= MAX_NUMBERS && query.locate.len() <= MAX_NUMBERS;
    if !is_small || query.filter.len() > MAX_NODES || query.sort.len() > MAX_KEYS {
        return Err(invalid("The query exceeds a limit"));
    }
    let mut nodes = query.filter.into_iter();
    let filter = match nodes.next() {
        Some(first) => filter(first, &mut nodes)?,
        None => MessageFilter::All(Vec::new()),
    };
    if nodes.next().is_some() {
        return Err(invalid("The filter has nodes after its end"));
    }
    let sort = query.sort.into_iter().map(sort_key);
    Ok(NumberQuery {
        filter,
        sort: sort.collect::<Result<_, _>>()?,
        one_per_thread: query.one_per_thread,
        start: match query.start {
            wit::QueryStart::Position(position) => Start::Position(position),
            wit::QueryStart::Anchor(anchor) => {
                Start::Anchor(MessageNumber(anchor.uid), anchor.offset)
            }
        },
        limit,
        locate: query.locate.into_iter().map(MessageNumber).collect(),
    })
}

/// Reads a filter in prefix order. `node` is its first node, and `rest` are the following nodes.
/// The depth is limited, because there are at most [`MAX_NODES`] nodes.
fn filter(
    node: wit::FilterNode,
    rest: &mut impl Iterator<Item = wit::FilterNode>,
) -> Result<MessageFilter, wit::QueryError> {
    let (operator, count): (fn(Vec<MessageFilter>) -> MessageFilter, u32) = match node {
        wit::FilterNode::AllOf(count) => (MessageFilter::All, count),
        wit::FilterNode::AnyOf(count) => (MessageFilter::Any, count),
        wit::FilterNode::NoneOf(count) => (MessageFilter::None, count),
        wit::FilterNode::Condition(one) => return condition(one),
    };
    let mut operands = Vec::new();
    for _ in 0..count {
        let next = rest.next();
        let next = next.ok_or_else(|| invalid("The filter has too few nodes"))?;
        operands.push(filter(next, &mut *rest)?);
    }
    Ok(operator(operands))
}

fn condition(condition: wit::Condition) -> Result<MessageFilter, wit::QueryError> {
    let wit::Condition { name, value } = condition;
    let is_invalid = || invalid(format!("The value of the condition {name} is invalid"));
    let time = |value: &str| value.parse::<i64>().map_err(|_| is_invalid());
    let size = |value: &str| value.parse::<u64>().map_err(|_| is_invalid());
    let words = |part: Part, text: String| {
        if has_words(&text) {
            Ok(Filter::Words { part, text })
        } else {
            Err(is_invalid())
        }
    };
    Ok(MessageFilter::Condition(match name.as_str() {
        "folder" => return Ok(MessageFilter::Folder(value)),
        "thread-flag" => return Ok(MessageFilter::ThreadFlag(value)),
        "thread-flags" => return Ok(MessageFilter::ThreadFlags(value)),
        "flag" => Filter::Flag(value),
        "attachment" => Filter::Attachment,
        "arrived-before" => Filter::ArrivedBefore(time(&value)?),
        "arrived-from" => Filter::ArrivedFrom(time(&value)?),
        "min-size" => Filter::MinSize(size(&value)?),
        "max-size" => Filter::SmallerThan(size(&value)?),
        "text" => words(Part::Any, value)?,
        "from" => words(Part::From, value)?,
        "subject" => words(Part::Subject, value)?,
        "body" => words(Part::Body, value)?,
        _ => return Err(wit::QueryError::Unsupported(name)),
    }))
}

fn sort_key(key: wit::SortKey) -> Result<SortKey, wit::QueryError> {
    let flag = key.flag.unwrap_or_default();
    Ok(SortKey {
        value: match key.name.as_str() {
            "arrival" => SortValue::Arrival,
            "date" => SortValue::Date,
            "size" => SortValue::Size,
            "flag" => SortValue::Flag(flag),
            "thread-flag" => SortValue::ThreadFlag(flag),
            "thread-flags" => SortValue::ThreadFlags(flag),
            _ => return Err(wit::QueryError::Unsupported(key.name)),
        },
        ascending: key.ascending,
    })
}

fn cursor_format(format: wit::CursorFormat) -> Result<CursorFormat, wit::QueryError> {
    let is_line = |text: &str| text.len() <= MAX_DATA && !text.chars().any(char::is_control);
    let is_word = !format.event_type.is_empty()
        && format.event_type.len() <= 64
        && format.event_type.bytes().all(|b| b.is_ascii_graphic());
    if !is_word || !is_line(&format.data) || !is_line(&format.ping_data) {
        return Err(invalid("The form of the events is invalid"));
    }
    if format
        .ping
        .is_some_and(|ping| !(1..=MAX_PING).contains(&ping))
    {
        return Err(invalid(format!("ping must be between 1 and {MAX_PING}")));
    }
    let ping = format.ping.map(u64::from);
    Ok(CursorFormat {
        event_type: format.event_type,
        data: format.data,
        ping: ping.map(Duration::from_secs),
        ping_data: format.ping_data,
        once: format.once,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(filter: Vec<wit::FilterNode>) -> wit::NumberQuery {
        wit::NumberQuery {
            filter,
            sort: Vec::new(),
            one_per_thread: false,
            start: wit::QueryStart::Position(0),
            limit: 10,
            locate: Vec::new(),
        }
    }

    fn node(name: &str, value: &str) -> wit::FilterNode {
        wit::FilterNode::Condition(wit::Condition {
            name: name.into(),
            value: value.into(),
        })
    }

    #[test]
    fn a_filter_is_read_in_prefix_order() {
        use wit::FilterNode::{AllOf, AnyOf, NoneOf};
        let nodes = vec![
            AllOf(2),
            NoneOf(1),
            node("flag", "\\Seen"),
            node("min-size", "5"),
        ];
        let read = number_query(query(nodes)).unwrap();
        let condition = MessageFilter::Condition;
        let seen = condition(Filter::Flag("\\Seen".into()));
        let expected = MessageFilter::All(vec![
            MessageFilter::None(vec![seen]),
            condition(Filter::MinSize(5)),
        ]);
        assert_eq!(read.filter, expected);
        for wrong in [
            vec![AnyOf(1)],
            vec![node("attachment", ""), node("attachment", "")],
            vec![node("min-size", "x")],
            vec![node("text", "!")],
            vec![AllOf(0); MAX_NODES + 1],
        ] {
            let refused = number_query(query(wrong));
            assert!(matches!(refused, Err(wit::QueryError::Failed(_))));
        }
        let refused = number_query(query(vec![node("moon", "full")]));
        assert!(matches!(refused, Err(wit::QueryError::Unsupported(name)) if name == "moon"));
    }
}
