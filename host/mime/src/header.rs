//! Decodes header fields (RFC 5322, RFC 2047, RFC 2231), limits their size and replaces control
//! characters.

mod address;
mod fields;
mod ids;
mod list;
mod reply;

use std::cell::LazyCell;

use latchmail_core::clock::Timestamp;

use super::charset::Charset;
use super::flowed::Flow;
use super::lexical::comment;
use super::transfer::Encoding;
use super::{date, parameters, words};
use crate::Address;
use crate::bounds;
use address::Mailboxes;
pub use fields::{Field, Fields, is_name};
use fields::{select, to_text, unfold};
use ids::ids;
pub use list::MailingList;
pub use reply::ReplyFields;

const DATE: usize = 0;
const SUBJECT: usize = 1;
const FROM: usize = 2;
const TO: usize = 3;
const CC: usize = 4;
const REPLY_TO: usize = 5;
const MESSAGE_ID: usize = 6;
const IN_REPLY_TO: usize = 7;
const REFERENCES: usize = 8;
const CONTENT_TYPE: usize = 9;
const LIST_ID: usize = 10;
const LIST_UNSUBSCRIBE: usize = 11;
const LIST_UNSUBSCRIBE_POST: usize = 12;
const AUTO_SUBMITTED: usize = 13;

/// The names of the fields in [`Header`]. The constants above are the indexes.
const HEADER_FIELDS: [&[u8]; 14] = [
    b"date",
    b"subject",
    b"from",
    b"to",
    b"cc",
    b"reply-to",
    b"message-id",
    b"in-reply-to",
    b"references",
    b"content-type",
    b"list-id",
    b"list-unsubscribe",
    b"list-unsubscribe-post",
    b"auto-submitted",
];

/// Returns the values of the fields with a name, in their order. `name` must be in lower case. A
/// value includes its folded lines.
pub(super) fn fields<'h>(header: &'h [u8], name: &[u8]) -> impl Iterator<Item = &'h [u8]> {
    select(header, &[name]).into_iter().map(|(_, value)| value)
}

/// Returns the value of a field as text without folding.
pub(super) fn unfolded(value: &[u8]) -> String {
    unfold(&to_text(value, || Charset::Unlabelled)).into_owned()
}

/// The names of the fields in [`Part`].
const PART_FIELDS: [&[u8]; 4] = [
    b"content-type",
    b"content-disposition",
    b"content-transfer-encoding",
    b"content-id",
];

/// The decoded header of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The addresses in the From field.
    pub from: Vec<Address>,
    /// The addresses in the To field.
    pub to: Vec<Address>,
    /// The addresses in the Cc field.
    pub cc: Vec<Address>,
    /// The addresses in the Reply-To field.
    pub reply_to: Vec<Address>,
    /// The decoded subject, or empty.
    pub subject: String,
    /// The Date field. `None` if the field is missing or invalid.
    pub date: Option<Timestamp>,
    /// The Message-ID with angle brackets, or empty.
    pub message_id: String,
    /// The In-Reply-To field with angle brackets.
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the References field in order, with angle brackets.
    pub references: Vec<String>,
    /// The mailing list that sent the message.
    pub mailing_list: Option<MailingList>,
    /// The keyword of the Auto-Submitted field (RFC 3834) in lower case.
    pub auto_submitted: Option<String>,
    /// `true` if a field was longer than its limit.
    pub truncated: bool,
}

impl Header {
    /// Decodes a header or some fields of a header. Limits each decoded field to `field` bytes.
    #[must_use]
    pub fn of(header: &[u8], field: usize) -> Self {
        let (header, mut truncated) = limit_header(header);
        let selected = select(header, &HEADER_FIELDS);
        let values = |index| {
            let values = selected.iter().filter(move |(found, _)| *found == index);
            values.map(|(_, value)| *value)
        };
        // The character set is computed only if a field needs it, because most headers are UTF-8.
        let charset = LazyCell::new(|| declared_charset(values(CONTENT_TYPE).next_back()));
        let charset = || *charset;
        let text = |index| to_text(values(index).next_back().unwrap_or_default(), charset);
        let cut = &mut truncated;
        // If a field occurs twice, return the addresses from all occurrences. Otherwise a sender
        // could hide an address.
        let mut address_list = |index| {
            let all = values(index).flat_map(|value| {
                let value = to_text(value, charset);
                let value = unfold(&value);
                let addresses = Mailboxes::of(&value);
                // One address more than the limit, so that the result is marked as truncated.
                addresses
                    .take(field / bounds::ENTRY + 1)
                    .collect::<Vec<_>>()
            });
            take_within(all, length, field, cut)
        };
        let (from, to) = (address_list(FROM), address_list(TO));
        let (cc, reply_to) = (address_list(CC), address_list(REPLY_TO));
        let subject = to_single_line(&words::decode(&unfold(&text(SUBJECT))));
        let mut id_list = |index, count| {
            let ids = ids(&words::decode(&unfold(&text(index))));
            take_within(ids.into_iter().take(count), String::len, field, cut)
        };
        let list_text = |index| unfold(&text(index)).into_owned();
        let mailing_list = MailingList::of(
            &list_text(LIST_ID),
            &list_text(LIST_UNSUBSCRIBE),
            &list_text(LIST_UNSUBSCRIBE_POST),
        );
        let auto_submitted = to_keyword(&parameters::main_value(&list_text(AUTO_SUBMITTED)));
        Self {
            from,
            to,
            cc,
            reply_to,
            mailing_list,
            auto_submitted,
            message_id: id_list(MESSAGE_ID, 1).pop().unwrap_or_default(),
            in_reply_to: id_list(IN_REPLY_TO, 1).pop(),
            references: id_list(REFERENCES, usize::MAX),
            subject: match subject.get(..subject.floor_char_boundary(field)) {
                Some(beginning) if beginning.len() < subject.len() => {
                    *cut = true;
                    beginning.to_owned()
                }
                _ => subject,
            },
            date: date::parse(&text(DATE)),
            truncated,
        }
    }
}

/// Returns the addresses of all fields with this name, in lower case. Limits the addresses to
/// [`bounds::FIELD`] bytes. The second returned value is `true` if addresses were omitted.
#[must_use]
pub fn addresses_of(header: &[u8], name: &str) -> (Vec<Address>, bool) {
    let (header, mut truncated) = limit_header(header);
    let selected = select(header, &[name.as_bytes(), HEADER_FIELDS[CONTENT_TYPE]]);
    let content_type = selected.iter().rfind(|(index, _)| *index == 1);
    let charset = || declared_charset(content_type.map(|(_, value)| *value));
    let values = selected.iter().filter(|(index, _)| *index == 0);
    let all = values.flat_map(|(_, value)| {
        let value = to_text(value, charset);
        let value = unfold(&value);
        let addresses = Mailboxes::of(&value).take(bounds::FIELD / bounds::ENTRY + 1);
        addresses.collect::<Vec<_>>()
    });
    let addresses = take_within(all, length, bounds::FIELD, &mut truncated);
    (addresses, truncated)
}

/// Returns the character set that a Content-Type field declares.
fn declared_charset(content_type: Option<&[u8]>) -> Charset {
    let field = content_type.map(|value| to_text(value, Charset::default));
    let label = field.and_then(|field| parameters::token(&unfold(&field), "charset"));
    Charset::named(label.as_deref())
}

/// Returns the first items that together fit into `limit` bytes. Sets `truncated` to `true` if
/// items are omitted.
fn take_within<T>(
    all: impl Iterator<Item = T>,
    length: impl Fn(&T) -> usize,
    limit: usize,
    truncated: &mut bool,
) -> Vec<T> {
    let mut total = 0;
    let mut fitting = Vec::new();
    for one in all {
        total += length(&one) + bounds::ENTRY;
        if total > limit {
            *truncated = true;
            break;
        }
        fitting.push(one);
    }
    fitting
}

fn length(address: &Address) -> usize {
    address.name.len() + address.address.len()
}

/// The description of a part's content in its header (RFC 2045, RFC 2183).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// `type/subtype` in lower case.
    pub(super) media: String,
    pub(super) charset: Charset,
    /// The boundary parameter of a multipart.
    pub(super) boundary: Option<String>,
    pub(super) encoding: Encoding,
    /// `true` for the disposition `attachment`.
    pub(super) is_attachment: bool,
    /// `true` for the disposition `inline`. `None` if the header has no disposition.
    pub(super) is_inline: Option<bool>,
    pub(super) filename: Option<String>,
    /// The Content-ID without angle brackets.
    pub(super) content_id: Option<String>,
    pub(super) flow: Flow,
    /// `true` if the header was longer than its limit.
    pub(super) truncated: bool,
}

impl Part {
    /// Returns the total length of all strings in this value, in bytes.
    pub(super) fn text_length(&self) -> usize {
        let optional = [&self.boundary, &self.filename, &self.content_id];
        let optional = optional.into_iter().flatten().map(String::len);
        self.media.len() + optional.sum::<usize>()
    }

    /// Parses the header of a part. `in_digest` is `true` for a part of a multipart/digest. Without
    /// a Content-Type field, such a part is a message (RFC 2046, section 5.1.5).
    pub(super) fn of(header: &[u8], in_digest: bool) -> Self {
        let (header, truncated) = limit_header(header);
        let selected = select(header, &PART_FIELDS);
        let value = |index| {
            let found = selected.iter().rfind(|(found, _)| *found == index);
            found.map(|(_, value)| *value).unwrap_or_default()
        };
        let charset = declared_charset(Some(value(0)));
        let text = |index| unfold(&to_text(value(index), || charset)).into_owned();
        let (content_type, disposition, encoding) = (text(0), text(1), text(2));
        let content_id = to_single_line(&text(3));
        let main_disposition = parameters::main_value(&disposition);
        let mut part = Self {
            media: match parameters::main_value(&content_type) {
                media if !media.is_empty() => {
                    // The value of the Content-Type field can be invalid. The part is then binary
                    // data.
                    media_type(&media).unwrap_or_else(|| "application/octet-stream".into())
                }
                _ if in_digest => "message/rfc822".into(),
                _ => "text/plain".into(),
            },
            charset,
            encoding: Encoding::named(first_word(&encoding)),
            is_attachment: main_disposition.eq_ignore_ascii_case("attachment"),
            is_inline: (!main_disposition.is_empty())
                .then(|| main_disposition.eq_ignore_ascii_case("inline")),
            content_id: in_angle_brackets(&content_id)
                .filter(|id| (1..=bounds::CONTENT_ID).contains(&id.len()))
                .map(ToOwned::to_owned),
            filename: parameters::file_name(&disposition, "filename")
                .or_else(|| parameters::file_name(&content_type, "name")),
            flow: Flow::Fixed,
            truncated,
            boundary: None,
        };
        if part.media == "text/plain" {
            part.flow = Flow::of(&content_type);
        }
        if part.media.starts_with("multipart/") {
            part.boundary = parameters::token(&content_type, "boundary");
            if part.boundary.is_none() {
                // A multipart without a boundary cannot be split. Treat the body as text.
                part.media = "text/plain".into();
            }
        }
        part
    }
}

/// Returns the first word of a field. Removes quotes, comments and semicolons, because some senders
/// add them.
fn first_word(field: &str) -> &str {
    let field = match field.strip_prefix('(') {
        Some(_) => comment(field).1.map_or("", |length| &field[length..]),
        None => field,
    };
    let is_ignored = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '(');
    field
        .trim_start_matches(is_ignored)
        .split(is_ignored)
        .next()
        .unwrap_or_default()
}

/// Returns the text between the angle brackets of a field, or the whole field if it has no
/// brackets.
fn in_angle_brackets(field: &str) -> Option<&str> {
    match field.split_once('<') {
        Some((_, rest)) => rest.split_once('>').map(|(id, _)| id.trim()),
        None => Some(field.trim()),
    }
}

/// Returns a keyword in lower case. Returns `None` if the text is not a token or is too long.
fn to_keyword(text: &str) -> Option<String> {
    let is_keyword = is_token(text) && text.len() <= bounds::KEYWORD;
    is_keyword.then(|| text.to_ascii_lowercase())
}

/// Returns `type/subtype` in lower case. Returns `None` if the subtype is missing, except for
/// `text`, which means plain text (RFC 2045, section 5.2).
fn media_type(media: &str) -> Option<String> {
    let (kind, subtype) = media.split_once('/').unwrap_or((media, ""));
    let (kind, subtype) = (kind.trim(), subtype.trim());
    if subtype.is_empty() {
        return kind
            .eq_ignore_ascii_case("text")
            .then(|| "text/plain".into());
    }
    (is_token(kind) && is_token(subtype) && kind.len() + subtype.len() < bounds::MEDIA)
        .then(|| format!("{kind}/{subtype}").to_ascii_lowercase())
}

/// Limits the length of a header. The second returned value is `true` if the header was longer than
/// the limit.
fn limit_header(header: &[u8]) -> (&[u8], bool) {
    let Some(read) = header
        .get(..bounds::HEADER)
        .filter(|read| read.len() < header.len())
    else {
        return (header, false);
    };
    // Drop the incomplete last line, because a truncated address would be a different address.
    let complete = memchr::memrchr(b'\n', read).map_or(read, |last| &read[..=last]);
    (complete, true)
}

/// Replaces control characters with spaces. A decoded field can contain characters that are not
/// allowed in a header field, for example line breaks.
fn to_single_line(text: &str) -> String {
    if crate::contains_control(text, |_| false) {
        text.replace(char::is_control, " ").trim().to_owned()
    } else {
        text.trim().to_owned()
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
}

#[cfg(test)]
mod tests;
