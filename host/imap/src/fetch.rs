//! FETCH commands and the collection of their responses.
//!
//! The commands request header fields instead of ENVELOPE. Therefore listings and single messages
//! use the same parser. Another reason is that `imap-proto` does not unescape the quoted strings of
//! ENVELOPE. The commands use BODY.PEEK, which does not set `\Seen`.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use chrono::DateTime;
use imap_proto::{AttributeValue, MessageSection, SectionPath};
use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::Uid;

use super::bounds;
use super::set::set;
use super::wire::Frame;

/// The header fields for listings, threads, previews and identities of messages (see `identity` in
/// `latchmail-mailbox`).
const FIELDS: &str = "DATE FROM TO CC SUBJECT MESSAGE-ID CONTENT-TYPE CONTENT-TRANSFER-ENCODING CONTENT-DISPOSITION REFERENCES IN-REPLY-TO";

/// A fetched message. Fields that were not requested are empty.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// The position in the folder, from 1.
    pub seq: u32,
    /// The IMAP UID.
    pub uid: Uid,
    /// Flags and keywords, without `\Recent`.
    pub flags: Vec<String>,
    /// The MODSEQ (RFC 7162), which changes with the flags.
    pub modseq: Option<u64>,
    /// The arrival time.
    pub internal_date: Option<Timestamp>,
    /// The size in bytes.
    pub size: u32,
    /// The server's id of the message, if the server has ids: EMAILID (RFC 8474) or X-GUID. A copy
    /// of the message has the same id.
    pub id: Option<String>,
    /// The requested header fields.
    pub header: Bytes,
    /// The beginning of the body.
    pub text: Bytes,
    /// The requested bytes of the message, including its header.
    pub whole: Bytes,
}

/// Returns the command that requests the data for summaries. `ids` is the FETCH item for message
/// ids, or `None` if the server has no ids.
pub(crate) fn summaries(uids: &[Uid], ids: Option<&str>) -> String {
    format!(
        "UID FETCH {} (UID FLAGS {}{}INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS ({FIELDS})]<0.{}> BODY.PEEK[TEXT]<0.{}>)",
        set(uids),
        ids.unwrap_or_default(),
        if ids.is_some() { " " } else { "" },
        bounds::LISTED_HEADER,
        latchmail_mime::bounds::PREFIX
    )
}

/// Returns the command that requests the UIDs and flags for a range of message sequence numbers.
pub(crate) fn flags((low, high): (u32, u32)) -> String {
    format!("FETCH {low}:{high} (UID FLAGS)")
}

/// Returns the command that requests headers and texts of messages with higher length limits than
/// [`summaries`].
pub(crate) fn longer(uids: &[Uid]) -> String {
    format!(
        "UID FETCH {} (UID BODY.PEEK[HEADER.FIELDS ({FIELDS})]<0.{}> BODY.PEEK[TEXT]<0.{}>)",
        set(uids),
        latchmail_mime::bounds::HEADER,
        latchmail_mime::bounds::LONG_PREFIX
    )
}

/// Returns the command that requests flags and the data for identities of messages (see `identity`
/// in `latchmail-mailbox`). `uids` is a set of UIDs.
pub(crate) fn identities(uids: &str, ids: Option<&str>) -> String {
    if let Some(ids) = ids {
        return format!("UID FETCH {uids} (UID FLAGS {ids})");
    }
    format!(
        "UID FETCH {uids} (UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS ({FIELDS})]<0.{}>)",
        latchmail_mime::bounds::HEADER
    )
}

/// Returns the command that requests the flags of messages, and their MODSEQs if `modseq` is
/// `true`.
pub(crate) fn flags_of(uids: &[Uid], modseq: bool) -> String {
    let modseq = if modseq { " MODSEQ" } else { "" };
    format!("UID FETCH {} (UID FLAGS{modseq})", set(uids))
}

/// Returns the command that requests the changeable data of one message, and the header fields that
/// determine its thread. Requests the MODSEQ if `modseq` is `true`.
pub(crate) fn state(uid: Uid, modseq: bool) -> String {
    let modseq = if modseq { " MODSEQ" } else { "" };
    format!(
        "UID FETCH {uid} (UID FLAGS{modseq} BODY.PEEK[HEADER.FIELDS ({FIELDS})]<0.{}>)",
        latchmail_mime::bounds::HEADER
    )
}

/// Returns the command that requests the positions, flags and arrival times of messages.
pub(crate) fn positions(uids: &[Uid]) -> String {
    format!("UID FETCH {} (UID FLAGS INTERNALDATE)", set(uids))
}

/// Returns the command that requests the flags of all messages, or of the messages that have
/// changed after the HIGHESTMODSEQ `since`. If `since` is set, the server also reports the UIDs of
/// expunged messages (RFC 7162, section 3.2.6).
pub(crate) fn all_flags(since: Option<u64>) -> String {
    match since {
        None => "UID FETCH 1:* (UID FLAGS)".to_owned(),
        // The range ends at the highest possible UID, because `*` means the UID of the last message
        // (RFC 3501, section 9). With `*`, the server would not report expunged messages with
        // higher UIDs.
        Some(since) => {
            format!(
                "UID FETCH 1:{} (UID FLAGS) (CHANGEDSINCE {since} VANISHED)",
                u32::MAX
            )
        }
    }
}

/// Returns the command that requests one message, up to [`bounds::FIRST`] bytes.
pub(crate) fn whole(uid: Uid) -> String {
    format!(
        "UID FETCH {uid} (UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[]<0.{}>)",
        bounds::FIRST
    )
}

/// Returns the command that requests the first `bytes` bytes of messages.
pub(crate) fn beginnings(uids: &[Uid], bytes: usize) -> String {
    format!(
        "UID FETCH {} (UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[]<0.{bytes}>)",
        set(uids)
    )
}

/// Returns the command that requests the header of a message, up to the limit of the parser.
pub(crate) fn header(uid: Uid) -> String {
    format!(
        "UID FETCH {uid} (UID BODY.PEEK[HEADER]<0.{}>)",
        latchmail_mime::bounds::HEADER
    )
}

/// Returns the command that requests header fields of messages, up to `bytes` bytes. `names` are
/// the names of the fields, separated by spaces.
pub(crate) fn header_fields(uids: &[Uid], names: &str, bytes: usize) -> String {
    format!(
        "UID FETCH {} (UID BODY.PEEK[HEADER.FIELDS ({names})]<0.{bytes}>)",
        set(uids)
    )
}

/// Returns the command that requests a range of bytes of a message.
pub(crate) fn piece(uid: Uid, range: &Range<usize>) -> String {
    format!(
        "UID FETCH {uid} (UID BODY.PEEK[]<{}.{}>)",
        range.start,
        range.len()
    )
}

/// The merged responses to a FETCH, by the position of the message. A server can split the data of
/// a message over several responses. A server can also send data of messages that were not
/// requested.
#[derive(Debug, Default)]
pub(crate) struct Collected(BTreeMap<u32, (Fetched, Received)>);

/// The kinds of data that have arrived for a message.
#[derive(Clone, Copy, Debug, Default)]
struct Received {
    flags: bool,
    sections: usize,
}

impl Collected {
    /// Returns `true` if data of at least one message has arrived.
    pub(crate) fn has_messages(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn add(&mut self, seq: u32, attributes: &[AttributeValue<'_>], frame: &Frame) {
        let (message, received) = self.0.entry(seq).or_default();
        message.seq = seq;
        if frame.id.is_some() {
            message.id.clone_from(&frame.id);
        }
        for attribute in attributes {
            match attribute {
                AttributeValue::Uid(uid) => message.uid = Uid(*uid),
                AttributeValue::Flags(set) => {
                    received.flags = true;
                    message.flags = set
                        .iter()
                        .filter(|flag| !flag.eq_ignore_ascii_case("\\Recent"))
                        .map(ToString::to_string)
                        .scan(0, |total, flag| {
                            *total += flag.len() + latchmail_mime::bounds::ENTRY;
                            (*total <= bounds::FLAGS).then_some(flag)
                        })
                        .collect();
                }
                AttributeValue::ModSeq(modseq) => message.modseq = Some(*modseq),
                AttributeValue::InternalDate(date) => message.internal_date = date_time(date),
                AttributeValue::Rfc822Size(size) => message.size = *size,
                AttributeValue::BodySection { section, data, .. } => {
                    // NIL means that the message was just expunged. Only for a text, NIL can also
                    // mean that the text is empty.
                    let is_text = matches!(section, Some(SectionPath::Full(MessageSection::Text)));
                    if data.is_some() || is_text {
                        received.sections += 1;
                    }
                    let data = data
                        .as_ref()
                        .map(|data| slice_of(&frame.bytes, data))
                        .unwrap_or_default();
                    match section {
                        None => message.whole = data,
                        Some(SectionPath::Full(MessageSection::Header)) => message.header = data,
                        Some(SectionPath::Full(MessageSection::Text)) => message.text = data,
                        Some(_) => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// Removes and returns a message if its UID, header and text have arrived. If `ids` is `true`,
    /// the message's id must also have arrived. The caller can process the message immediately.
    /// Therefore the message's bytes do not stay in memory until the command ends.
    pub(crate) fn take(&mut self, seq: u32, ids: bool) -> Option<Fetched> {
        let (message, received) = self.0.get(&seq)?;
        let complete =
            message.uid.0 != 0 && received.sections >= 2 && (message.id.is_some() || !ids);
        complete.then(|| self.0.remove(&seq).map(|(message, _)| message))?
    }

    /// Returns the messages whose body data has arrived, in ascending order of position.
    pub(crate) fn with_body(self) -> Vec<Fetched> {
        self.received(|received| received.sections > 0)
    }

    /// Returns the messages whose data for identities has arrived, in ascending order of position.
    /// `ids` is the same value as in [`identities`].
    pub(crate) fn with_identities(self, ids: Option<&str>) -> Vec<Fetched> {
        match ids {
            Some(_) => self.with_ids(),
            None => self.with_body(),
        }
    }

    /// Returns the messages whose ids and flags have arrived, in ascending order of position.
    pub(crate) fn with_ids(self) -> Vec<Fetched> {
        let mut messages = self.with_flags();
        messages.retain(|message| message.id.is_some());
        messages
    }

    /// Returns the messages whose flags have arrived, in ascending order of position.
    pub(crate) fn with_flags(self) -> Vec<Fetched> {
        self.received(|received| received.flags)
    }

    fn received(self, is_complete: fn(Received) -> bool) -> Vec<Fetched> {
        self.0
            .into_values()
            .filter(|(message, received)| is_complete(*received) && message.uid.0 != 0)
            .map(|(message, _)| message)
            .collect()
    }
}

/// Returns `piece` as shared bytes. Does not copy the bytes if `piece` is part of `frame`.
fn slice_of(frame: &Bytes, piece: &[u8]) -> Bytes {
    let (whole, part) = (frame.as_ptr_range(), piece.as_ptr_range());
    if whole.start <= part.start && part.end <= whole.end {
        frame.slice_ref(piece)
    } else {
        Bytes::copy_from_slice(piece)
    }
}

/// Parses `date-time` of RFC 3501, for example `17-Jul-1996 02:44:25 -0700`. A space precedes a
/// one-digit day.
fn date_time(text: &str) -> Option<Timestamp> {
    let parsed = DateTime::parse_from_str(text.trim(), "%d-%b-%Y %H:%M:%S %z").ok()?;
    Some(Timestamp::from_millis(parsed.timestamp_millis()))
}

#[cfg(test)]
mod tests {
    use imap_proto::Response;

    use super::*;

    fn collected(replies: &[&'static [u8]]) -> Vec<Fetched> {
        let mut collected = Collected::default();
        for reply in replies {
            let frame = Frame {
                bytes: Bytes::from_static(reply),
                id: None,
            };
            let Response::Fetch(seq, attributes) = Response::parse(&frame.bytes).unwrap().1 else {
                panic!("not a FETCH");
            };
            collected.add(seq, &attributes, &frame);
        }
        collected.with_body()
    }

    #[test]
    fn flags_that_come_later_count_and_what_was_not_asked_for_is_left_out() {
        let all = collected(&[
            b"* 2 FETCH (UID 9 FLAGS (\\Recent $Label) RFC822.SIZE 7 BODY[TEXT]<0> {2}\r\nhi)\r\n",
            b"* 1 FETCH (FLAGS (\\Seen))\r\n",
            b"* 2 FETCH (FLAGS (\\Seen \\Recent))\r\n",
        ]);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].seq, all[0].uid.0, all[0].size), (2, 9, 7));
        assert_eq!(all[0].flags, ["\\Seen"]);
        assert_eq!(&all[0].text[..], b"hi");
    }

    #[test]
    fn the_time_of_arrival_is_read_in_any_zone() {
        let at = |text| date_time(text).map(Timestamp::millis);
        assert_eq!(at("17-Jul-1996 02:44:25 -0700"), Some(837_596_665_000));
        assert_eq!(at(" 7-Jul-1996 09:44:25 +0000"), Some(836_732_665_000));
        assert_eq!(at("yesterday"), None);
    }
}
