//! The queries of the fake host. The time of arrival of a message is its date.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_shape::codes;

use super::mail::{Mail, SEEN, Stored, StoredFolder, has_flag};
use super::{Account, FakeHost, Need};
use crate::capability::{
    Blob, Blobs, Change, ChangeList, ChangesError, Condition, CursorFormat, DeletedMessage, Error,
    Events, FilterNode, FolderCounts, Located, MessageFacts, NumberPage, NumberQuery, Queries,
    QueryError, QueryStart, Scope, SortKey, ThreadNumbers,
};

/// Maximum numbers of messages and of threads in one call.
const MAX_NUMBERS: usize = 1_000;
const MAX_THREADS: usize = 500;

impl Queries for FakeHost {
    fn query_messages(&self, query: &NumberQuery) -> Result<NumberPage, QueryError> {
        read(self, |mail| Messages(mail).number_page(query))
    }

    fn get_facts(&self, uids: &[u64]) -> Result<Vec<MessageFacts>, QueryError> {
        read(self, |mail| {
            check_count(uids.len(), MAX_NUMBERS, "messages")?;
            let found = uids.iter().filter_map(|uid| mail.find(*uid).ok());
            Ok(found.map(|stored| Messages(mail).facts(stored)).collect())
        })
    }

    fn get_threads(&self, ids: &[String]) -> Result<Vec<ThreadNumbers>, QueryError> {
        read(self, |mail| {
            check_count(ids.len(), MAX_THREADS, "threads")?;
            let threads = ids.iter().map(|id| {
                let stored = mail.stored.iter();
                let mut stored: Vec<&Stored> = stored
                    .filter(|one| one.detail.summary.thread_id == *id)
                    .collect();
                stored.sort_by_key(|one| (one.detail.summary.date, one.detail.summary.uid));
                ThreadNumbers {
                    id: id.clone(),
                    requested: id.clone(),
                    uids: stored.iter().map(|one| one.detail.summary.uid).collect(),
                }
            });
            Ok(threads.filter(|one| !one.uids.is_empty()).collect())
        })
    }

    fn count_messages(&self) -> Result<Vec<FolderCounts>, QueryError> {
        read(self, |mail| {
            let counts = mail.folders.iter().map(|one| Messages(mail).counts(one));
            Ok(counts.collect())
        })
    }

    fn message_changes(&self, since: Option<&str>, limit: u32) -> Result<ChangeList, QueryError> {
        let list = self.allow(Need::Scope(Scope::MailRead), |account| {
            let list = account.mail.changes_since(since, None, limit);
            Ok(list.map(|list| Messages(&account.mail).with_deletions(list)))
        })?;
        list.map_err(changes_error)
    }

    fn stream_cursors(
        &self,
        since: Option<&str>,
        format: &CursorFormat,
    ) -> Result<Events, QueryError> {
        let list = self.message_changes(None, 1)?;
        let mut text = ": waiting\n\n".to_owned();
        if since.is_some_and(|since| since != list.cursor) {
            let data = format.data.replace("{cursor}", &list.cursor);
            let event = format!(
                "id: {}\nevent: {}\ndata: {data}\n\n",
                list.cursor, format.event_type
            );
            text.push_str(&event);
        }
        Ok(Events::Bytes(text.into_bytes()))
    }
}

/// The fake host does not limit the bytes.
impl Blobs for FakeHost {
    fn create_blob(&self, bytes: Vec<u8>) -> Result<Blob, Error> {
        Ok(Blob::Bytes(bytes))
    }

    fn decode_blob(&self, encoded: Blob, encoding: &str) -> Result<Blob, Error> {
        let encoded = encoded.in_memory().unwrap_or_default();
        Ok(Blob::Bytes(match encoding {
            "base64" => {
                let valid = encoded.iter().copied();
                let valid: Vec<u8> = valid.filter(|byte| !byte.is_ascii_whitespace()).collect();
                STANDARD.decode(valid).unwrap_or_default()
            }
            "quoted-printable" => decode_quoted(encoded),
            other => {
                let text = format!("There is no encoding {other:?}");
                return Err(Error::invalid(codes::INVALID_FIELD, text));
            }
        }))
    }
}

fn decode_quoted(encoded: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(encoded)
        .replace("=\r\n", "")
        .replace("=\n", "");
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(value) = value.filter(|_| *first == b'=') {
            decoded.push(value);
            rest = &after[2..];
        } else {
            decoded.push(*first);
            rest = after;
        }
    }
    decoded
}

fn changes_error(error: ChangesError) -> QueryError {
    match error {
        ChangesError::CursorExpired => QueryError::CursorExpired,
        ChangesError::Failed(error) => error.into(),
    }
}

fn check_count(count: usize, max: usize, what: &str) -> Result<(), Error> {
    if count > max {
        let text = format!("At most {max} {what} at once");
        return Err(Error::too_large(codes::TOO_MANY_MESSAGES, text));
    }
    Ok(())
}

/// Calls `read` with the caller's mailbox if the search index is ready.
fn read<T>(
    host: &FakeHost,
    read: impl FnOnce(&Mail) -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    host.allow(Need::Scope(Scope::MailRead), |account: &mut Account| {
        Ok(if account.mail.check_index().is_ok() {
            read(&account.mail)
        } else {
            Err(QueryError::IndexNotReady)
        })
    })?
}

fn invalid(text: &str) -> QueryError {
    Error::invalid(codes::INVALID_FIELD, text).into()
}

/// The messages of a mailbox, for queries.
#[derive(Clone, Copy)]
struct Messages<'m>(&'m Mail);

impl<'m> Messages<'m> {
    /// Adds the deletions of the messages of deleted folders to changes.
    fn with_deletions(self, list: ChangeList) -> ChangeList {
        let mut changes = Vec::new();
        for change in list.changes {
            if let Change::FolderDeleted(folder) = &change {
                let uids = self.0.deleted_with_folders.get(&folder.id);
                changes.extend(uids.into_iter().flatten().map(|uid| {
                    Change::Deleted(DeletedMessage {
                        uid: *uid,
                        folder: folder.folder.clone(),
                    })
                }));
            }
            changes.push(change);
        }
        ChangeList { changes, ..list }
    }

    fn facts(self, stored: &Stored) -> MessageFacts {
        let (summary, folder) = (&stored.detail.summary, stored.folder.clone());
        MessageFacts {
            uid: summary.uid,
            folder_id: self.folder_id(&folder),
            folder,
            flags: summary.flags.clone(),
            received_at: summary.date,
            size: summary.size,
            thread_id: summary.thread_id.clone(),
            has_attachment: !stored.detail.attachments.is_empty(),
        }
    }

    fn folder_id(self, path: &str) -> String {
        let folder = self.0.folders.iter().find(|folder| folder.path == path);
        folder.map(|folder| folder.id.clone()).unwrap_or_default()
    }

    fn counts(self, folder: &StoredFolder) -> FolderCounts {
        let mut threads: BTreeMap<&str, bool> = BTreeMap::new();
        let mut counts = FolderCounts {
            folder_id: folder.id.clone(),
            messages: 0,
            unread: 0,
            threads: 0,
            unread_threads: 0,
        };
        for stored in self.0.stored.iter().filter(|one| one.folder == folder.path) {
            let summary = &stored.detail.summary;
            let is_unread = !has_flag(summary, SEEN) && !has_flag(summary, "\\Draft");
            counts.messages += 1;
            counts.unread += u32::from(is_unread);
            *threads.entry(&summary.thread_id).or_default() |= is_unread;
        }
        for is_unread in threads.into_values() {
            counts.threads += 1;
            counts.unread_threads += u32::from(is_unread);
        }
        counts
    }

    fn number_page(self, query: &NumberQuery) -> Result<NumberPage, QueryError> {
        let mut nodes = query.filter.iter();
        let mut found: Vec<&'m Stored> = match nodes.next() {
            Some(first) => self.select(first, &mut nodes)?,
            None => self.0.stored.iter().collect(),
        };
        if nodes.next().is_some() {
            return Err(invalid("The filter has nodes after its end"));
        }
        let newest = [SortKey {
            name: "arrival".into(),
            flag: None,
            ascending: false,
        }];
        let keys = if query.sort.is_empty() {
            &newest[..]
        } else {
            query.sort.as_slice()
        };
        let is_ascending = keys.first().is_some_and(|key| key.ascending);
        found.sort_by_key(|one| one.detail.summary.uid);
        if !is_ascending {
            found.reverse();
        }
        for key in keys.iter().rev() {
            self.sort(key, &mut found)?;
        }
        let mut uids = Vec::new();
        let mut threads = Vec::new();
        for stored in found {
            let thread = &stored.detail.summary.thread_id;
            if !query.one_per_thread || !threads.contains(&thread) {
                threads.push(thread);
                uids.push(stored.detail.summary.uid);
            }
        }
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let total = i64::from(count(uids.len()));
        let position = match &query.start {
            QueryStart::Position(position) if *position < 0 => total.saturating_add(*position),
            QueryStart::Position(position) => *position,
            QueryStart::Anchor(anchor) => {
                let at = uids.iter().position(|uid| *uid == anchor.uid);
                let at = at.ok_or(QueryError::AnchorNotFound)?;
                i64::from(count(at)).saturating_add(anchor.offset)
            }
        };
        let position = usize::try_from(position.max(0)).unwrap_or(usize::MAX);
        let located = uids.iter().enumerate();
        let located = located.filter(|(_, uid)| query.locate.contains(uid));
        Ok(NumberPage {
            located: located
                .map(|(position, uid)| Located {
                    uid: *uid,
                    position: count(position),
                })
                .collect(),
            position: count(position),
            total: count(uids.len()),
            uids: uids
                .into_iter()
                .skip(position)
                .take(query.limit as usize)
                .collect(),
        })
    }

    /// Sorts messages by a key. Equal messages keep their order.
    fn sort(self, key: &SortKey, found: &mut [&Stored]) -> Result<(), QueryError> {
        let flag = key.flag.clone().unwrap_or_default();
        let by_flag = |name: &str| {
            let condition = Condition {
                name: name.into(),
                value: flag.clone(),
            };
            move |one: &Stored, mail: Messages<'_>| {
                i64::from(mail.fulfills(one, &condition).unwrap_or_default())
            }
        };
        let value: Box<dyn Fn(&Stored, Messages<'_>) -> i64> = match key.name.as_str() {
            "arrival" | "date" => Box::new(|one, _| one.detail.summary.date),
            "size" => Box::new(|one, _| i64::try_from(one.detail.summary.size).unwrap_or(i64::MAX)),
            "flag" | "thread-flag" | "thread-flags" => Box::new(by_flag(&key.name)),
            other => return Err(QueryError::Unsupported(other.into())),
        };
        found.sort_by(|a, b| {
            let order = value(a, self).cmp(&value(b, self));
            if key.ascending {
                order
            } else {
                order.reverse()
            }
        });
        Ok(())
    }

    /// Returns the messages that a filter selects. `node` is the first node of the filter.
    fn select(
        self,
        node: &FilterNode,
        rest: &mut std::slice::Iter<'_, FilterNode>,
    ) -> Result<Vec<&'m Stored>, QueryError> {
        let count = match node {
            FilterNode::AllOf(count) | FilterNode::AnyOf(count) | FilterNode::NoneOf(count) => {
                *count
            }
            FilterNode::Condition(condition) => {
                let mut selected = Vec::new();
                for stored in &self.0.stored {
                    if self.fulfills(stored, condition)? {
                        selected.push(stored);
                    }
                }
                // An unknown condition is an error in an empty mailbox too.
                check_condition(condition)?;
                return Ok(selected);
            }
        };
        let mut operands = Vec::new();
        for _ in 0..count {
            let next = rest.next();
            let next = next.ok_or_else(|| invalid("The filter has too few nodes"))?;
            let selected = self.select(next, rest)?;
            operands.push(
                selected
                    .iter()
                    .map(|one| one.detail.summary.uid)
                    .collect::<Vec<u64>>(),
            );
        }
        let is_selected = |stored: &&Stored| {
            let uid = &stored.detail.summary.uid;
            let mut selected = operands.iter().map(|uids| uids.contains(uid));
            match node {
                FilterNode::AllOf(_) => selected.all(|is| is),
                FilterNode::AnyOf(_) => selected.any(|is| is),
                FilterNode::NoneOf(_) | FilterNode::Condition(_) => !selected.any(|is| is),
            }
        };
        Ok(self.0.stored.iter().filter(is_selected).collect())
    }

    fn fulfills(self, stored: &Stored, condition: &Condition) -> Result<bool, QueryError> {
        check_condition(condition)?;
        let (detail, value) = (&stored.detail, condition.value.as_str());
        let summary = &detail.summary;
        let has_flag = |one: &Stored| {
            let mut flags = one.detail.summary.flags.iter();
            flags.any(|flag| flag.eq_ignore_ascii_case(value))
        };
        let thread = || {
            let stored = self.0.stored.iter();
            stored.filter(|one| one.detail.summary.thread_id == summary.thread_id)
        };
        let number = || value.parse::<i64>().unwrap_or_default();
        let size = || value.parse::<u64>().unwrap_or_default();
        let lower = value.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&lower);
        let texts = || detail.text.iter().chain(&detail.html);
        let from = || {
            let mut from = summary.from.iter();
            from.any(|one| has(&one.name) || has(&one.address))
        };
        Ok(match condition.name.as_str() {
            "folder" => stored.folder == value,
            "flag" => has_flag(stored),
            "thread-flag" => thread().any(has_flag),
            "thread-flags" => thread().all(has_flag),
            "attachment" => !detail.attachments.is_empty(),
            "arrived-before" => summary.date < number(),
            "arrived-from" => summary.date >= number(),
            "min-size" => summary.size >= size(),
            "max-size" => summary.size < size(),
            "from" => from(),
            "subject" => has(&summary.subject),
            "body" => texts().any(|text| has(text)),
            _ => has(&summary.subject) || from() || texts().any(|text| has(text)),
        })
    }
}

fn check_condition(condition: &Condition) -> Result<(), QueryError> {
    let value = condition.value.as_str();
    let is_valid = match condition.name.as_str() {
        "folder" | "flag" | "thread-flag" | "thread-flags" | "attachment" => true,
        "arrived-before" | "arrived-from" => value.parse::<i64>().is_ok(),
        "min-size" | "max-size" => value.parse::<u64>().is_ok(),
        "text" | "from" | "subject" | "body" => value.chars().any(char::is_alphanumeric),
        other => return Err(QueryError::Unsupported(other.into())),
    };
    if is_valid {
        return Ok(());
    }
    let name = &condition.name;
    Err(invalid(&format!(
        "The value of the condition {name} is invalid"
    )))
}
