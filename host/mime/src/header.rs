//! Decodes header fields (RFC 5322, RFC 2047, RFC 2231) with `mail-parser`, limits their size and replaces control characters.

mod address;
mod fields;
mod ids;

use std::borrow::Cow;
use std::sync::LazyLock;

use latchmail_core::clock::Timestamp;
use mail_parser::{HeaderName, HeaderValue, MessageParser, MimeHeaders as _};

use super::transfer::Encoding;
use super::{date, words};
use crate::Address;
use crate::bounds;
use address::addresses;
use ids::ids;

/// The parser for the fields in [`Header`].
static HEADER_PARSER: LazyLock<MessageParser> = LazyLock::new(|| {
    MessageParser::new()
        .header_raw(HeaderName::Date)
        .header_text(HeaderName::Subject)
        .header_address(HeaderName::From)
        .header_address(HeaderName::To)
        .header_address(HeaderName::Cc)
        .header_address(HeaderName::ReplyTo)
        .header_text(HeaderName::MessageId)
        .header_text(HeaderName::InReplyTo)
        .header_text(HeaderName::References)
        .default_header_ignore()
});

/// The names of the fields that [`HEADER_PARSER`] parses.
const HEADER_FIELDS: [&[u8]; 9] = [
    b"date",
    b"subject",
    b"from",
    b"to",
    b"cc",
    b"reply-to",
    b"message-id",
    b"in-reply-to",
    b"references",
];

/// The parser for the fields in [`Part`].
static PART_PARSER: LazyLock<MessageParser> = LazyLock::new(|| {
    MessageParser::new()
        .header_content_type(HeaderName::ContentType)
        .header_content_type(HeaderName::ContentDisposition)
        .header_text(HeaderName::ContentTransferEncoding)
        .default_header_ignore()
});

/// The names of the fields that [`PART_PARSER`] parses.
const PART_FIELDS: [&[u8]; 3] = [
    b"content-type",
    b"content-disposition",
    b"content-transfer-encoding",
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
    /// `true` if a field was longer than its limit.
    pub truncated: bool,
}

impl Header {
    /// Decodes a header or some fields of a header. Limits each decoded field to `field` bytes.
    pub fn of(header: &[u8], field: usize) -> Self {
        let (header, mut truncated) = limit_header(header);
        let selected = fields::select(&header, &HEADER_FIELDS);
        let header = &*words::normalize(&selected);
        let Some(message) = HEADER_PARSER.parse_headers(header) else {
            return Self {
                truncated,
                ..Self::default()
            };
        };
        let raw = |name| {
            message
                .header(name)
                .and_then(HeaderValue::as_text)
                .unwrap_or_default()
        };
        let cut = &mut truncated;
        let subject = to_single_line(message.subject().unwrap_or_default());
        // If a field occurs twice, return the addresses from all occurrences. Otherwise a sender could hide an address.
        let mut address_list = |name| {
            let all = message
                .header_values(name)
                .flat_map(|value| addresses(header, value.as_address()));
            take_within(all, length, field, cut)
        };
        Self {
            from: address_list(HeaderName::From),
            to: address_list(HeaderName::To),
            cc: address_list(HeaderName::Cc),
            reply_to: address_list(HeaderName::ReplyTo),
            subject: match subject.get(..subject.floor_char_boundary(field)) {
                Some(beginning) if beginning.len() < subject.len() => {
                    *cut = true;
                    beginning.to_owned()
                }
                _ => subject,
            },
            date: date::parse(raw(HeaderName::Date)),
            message_id: take_within(
                ids(raw(HeaderName::MessageId)).into_iter().take(1),
                String::len,
                field,
                cut,
            )
            .pop()
            .unwrap_or_default(),
            in_reply_to: take_within(
                ids(raw(HeaderName::InReplyTo)).into_iter().take(1),
                String::len,
                field,
                cut,
            )
            .pop(),
            references: take_within(
                ids(raw(HeaderName::References)).into_iter(),
                String::len,
                field,
                cut,
            ),
            truncated,
        }
    }
}

/// Returns the first items that together fit into `limit` bytes.
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
    pub(super) charset: Option<String>,
    /// The boundary parameter of a multipart.
    pub(super) boundary: Option<String>,
    pub(super) encoding: Encoding,
    /// `true` for the disposition `attachment`.
    pub(super) is_attachment: bool,
    pub(super) filename: Option<String>,
    /// `true` if the header was longer than its limit.
    pub(super) truncated: bool,
}

impl Part {
    /// Returns the total length of all texts, in bytes.
    pub(super) fn text_length(&self) -> usize {
        let optional = [&self.charset, &self.boundary, &self.filename];
        let optional = optional.into_iter().flatten().map(String::len);
        self.media.len() + optional.sum::<usize>()
    }

    /// Parses the header of a part. `in_digest` is `true` for a part of a multipart/digest. Without a Content-Type field, such a part is a message (RFC 2046,
    /// section 5.1.5).
    pub(super) fn of(header: &[u8], in_digest: bool) -> Self {
        let (header, truncated) = limit_header(header);
        let selected = fields::select(&header, &PART_FIELDS);
        let header = &*words::normalize(&selected);
        // Do not query the header of an empty message. `mail-parser` would access a part that does not exist.
        let message = PART_PARSER.parse_headers(header);
        let content_type = message.as_ref().and_then(|message| message.content_type());
        let attribute = |name| {
            content_type
                .and_then(|ct| ct.attribute(name))
                .filter(|value| !value.is_empty())
                .map(ToOwned::to_owned)
        };
        let mut part = Self {
            media: match content_type {
                // The value of the Content-Type field can be invalid.
                Some(ct) => media_type(ct).unwrap_or_else(|| "application/octet-stream".into()),
                None if in_digest => "message/rfc822".into(),
                None => "text/plain".into(),
            },
            charset: attribute("charset"),
            truncated,
            ..Self::default()
        };
        if let Some(message) = &message {
            part.encoding = Encoding::named(first_word(
                message.content_transfer_encoding().unwrap_or_default(),
            ));
            part.is_attachment = message
                .content_disposition()
                .is_some_and(mail_parser::ContentType::is_attachment);
            let parameter = |field: HeaderName<'static>, name| {
                let whole = message.header_raw(field.clone());
                let parsed = message.header(field).and_then(HeaderValue::as_content_type);
                whole
                    .and_then(|field| words::extended_parameter(field.as_bytes(), name))
                    .filter(|value| !value.is_empty())
                    .or_else(|| parsed?.attribute(name).map(ToOwned::to_owned))
                    .filter(|value| !value.is_empty())
            };
            part.filename = parameter(HeaderName::ContentDisposition, "filename")
                .or_else(|| parameter(HeaderName::ContentType, "name"));
        }
        if part.media.starts_with("multipart/") {
            part.boundary = attribute("boundary");
            if part.boundary.is_none() {
                // A multipart without a boundary cannot be split. Treat the body as text.
                part.media = "text/plain".into();
            }
        }
        part
    }
}

/// Returns the first word of a field. Removes quotes, comments and semicolons, because some senders add them.
fn first_word(field: &str) -> &str {
    let field = match field.trim_start().strip_prefix('(') {
        Some(comment) => comment.split_once(')').map_or("", |(_, after)| after),
        None => field,
    };
    let is_ignored = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '(');
    field
        .trim_start_matches(is_ignored)
        .split(is_ignored)
        .next()
        .unwrap_or_default()
}

/// Returns `type/subtype` in lower case. Returns `None` if the subtype is missing, except for `text`, which means plain text (RFC 2045, section 5.2).
fn media_type(content_type: &mail_parser::ContentType<'_>) -> Option<String> {
    let kind = content_type.ctype();
    let Some(subtype) = content_type.subtype() else {
        return kind
            .eq_ignore_ascii_case("text")
            .then(|| "text/plain".into());
    };
    (is_token(kind) && is_token(subtype) && kind.len() + subtype.len() < bounds::MEDIA)
        .then(|| format!("{kind}/{subtype}").to_ascii_lowercase())
}

/// Limits the length of a header. The second returned value is `true` if the header was longer than the limit. The result ends with a line break, because
/// `mail-parser` ignores a field without a line break.
fn limit_header(header: &[u8]) -> (Cow<'_, [u8]>, bool) {
    let read = header.get(..bounds::HEADER).unwrap_or(header);
    if read.is_empty() || read.ends_with(b"\n") {
        return (read.into(), read.len() < header.len());
    }
    if read.len() == bounds::HEADER
        && let Some(last) = memchr::memrchr(b'\n', read)
    {
        // Drop the incomplete last line, because a truncated address would be a different address.
        return (read[..=last].into(), true);
    }
    ([read, b"\r\n"].concat().into(), read.len() < header.len())
}

/// Replaces control characters with spaces. A decoded field can contain characters that are not allowed in a header field, for example line breaks.
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
mod tests {
    use super::*;

    fn read(header: &[u8]) -> Header {
        Header::of(header, 1000)
    }

    fn address(name: &str, address: &str) -> Address {
        Address {
            name: name.into(),
            address: address.into(),
        }
    }

    #[test]
    fn fields_are_decoded_and_groups_flattened() {
        let header = read(
            b"From: =?utf-8?Q?J=C3=BCrgen_?= =?utf-8?B?TcO8bGxlcg==?= <j@example.org>\r\n\
              To: Friends: a@example.org, \"B, C\" <bc@example.org>;, d@example.org\r\n\
              Cc: undisclosed-recipients:;\r\n\
              Subject: =?iso-8859-1?Q?Gr=FC=DFe?=\r\n =?utf-8?Q?_aus_=E2=82=AC?=\r\n\
              Date: Fri, 20 Nov 2026 09:00:00 +0100\r\n\
              Message-ID: <1@example.org>\r\n\
              In-Reply-To: <0@example.org> (a comment)\r\n\
              References: <a@example.org>\r\n\t<b@example.org> <c@\r\n example.org>\r\n",
        );
        assert_eq!(header.from, [address("Jürgen Müller", "j@example.org")]);
        assert_eq!(
            header.to,
            [
                address("", "a@example.org"),
                address("B, C", "bc@example.org"),
                address("", "d@example.org")
            ]
        );
        assert_eq!(header.cc, []);
        assert_eq!(header.subject, "Grüße aus €");
        assert_eq!(header.date.unwrap().to_string(), "2026-11-20T08:00:00.000Z");
        assert_eq!(header.message_id, "<1@example.org>");
        assert_eq!(header.in_reply_to.as_deref(), Some("<0@example.org>"));
        assert_eq!(
            header.references,
            ["<a@example.org>", "<b@example.org>", "<c@example.org>"]
        );
    }

    #[test]
    fn fields_between_other_fields_are_decoded() {
        let header = read(
            b"Received: from a\r\n\tby b\r\n\
              Reply-To: Ada\r\n <a@example.org>\r\n\
              X-Reply-To: x@example.org\r\n\
              CC: b@example.org\r\n\
              List-Id: <c.example.org>\r\n",
        );
        assert_eq!(header.reply_to, [address("Ada", "a@example.org")]);
        assert_eq!(header.cc, [address("", "b@example.org")]);
    }

    #[test]
    fn what_is_missing_or_malformed_is_empty_and_never_panics() {
        for header in [
            &b""[..],
            b"\r\n",
            b":",
            b"Subject",
            b"From: \xff\xfe<\xff>\r\nDate: \xff",
            b"Date: Mon, 99 Foo 20266 99:99:99 +9999",
        ] {
            let read = read(header);
            assert_eq!((read.date, read.message_id.as_str()), (None, ""));
        }
        let raw = read(b"Subject: caf\xc3\xa9 \xff\r\nFrom: nobody\r\n");
        assert_eq!(raw.subject, "café \u{fffd}");
        assert_eq!(raw.from, [address("", "nobody")]);
        assert_eq!(
            read(b"Subject: =?utf-8?Q?a=0D=0AX:_b?=\r\n").subject,
            "a  X: b"
        );
    }

    #[test]
    fn a_part_names_its_file_in_every_way_that_is_in_use() {
        let name = |header: &str| Part::of(header.as_bytes(), false).filename.unwrap();
        assert_eq!(
            name("Content-Disposition: attachment; filename*=utf-8''%e2%82%ac%20rates.txt\r\n"),
            "€ rates.txt"
        );
        assert_eq!(
            name(
                "Content-Disposition: attachment; filename*0*=utf-8''%e2%82%ac; filename*1*=.txt\r\n"
            ),
            "€.txt"
        );
        assert_eq!(
            name("Content-Disposition: attachment; filename=\"=?utf-8?B?w6QudHh0?=\"\r\n"),
            "ä.txt"
        );
        assert_eq!(
            name("Content-Type: text/plain; name=\"a b.txt\"\r\n"),
            "a b.txt"
        );
        // The extended form takes precedence over the simple one, and the disposition over the type.
        assert_eq!(
            name(
                "Content-Disposition: attachment; filename=\"Resume.txt\"; filename*=utf-8''R%C3%A9sum%C3%A9.txt\r\n"
            ),
            "Résumé.txt"
        );
        assert_eq!(
            name(
                "Content-Disposition: attachment; filename*=; filename=a.txt\r\nContent-Type: text/plain; name*0=b.txt\r\n"
            ),
            "a.txt"
        );
        assert_eq!(
            name(
                "Content-Disposition: attachment\r\nContent-Type: text/plain; name*=utf-8''%C3%A9\r\n"
            ),
            "é"
        );
    }

    #[test]
    fn a_type_that_cannot_be_understood_is_bytes() {
        let media = |header: &str| Part::of(header.as_bytes(), false).media;
        assert_eq!(
            media("Content-Type: TEXT/HTML; charset=utf-8\r\n"),
            "text/html"
        );
        assert_eq!(media("Content-Type: Text\r\n"), "text/plain");
        assert_eq!(media("Content-Type: image\r\n"), "application/octet-stream");
        assert_eq!(
            media(&format!("Content-Type: a/{}\r\n", "b".repeat(300))),
            "application/octet-stream"
        );
        assert_eq!(
            media("Content-Type: te xt/p<lain\r\n"),
            "application/octet-stream"
        );
        assert_eq!(media("Subject: none\r\n"), "text/plain");
        assert_eq!(Part::of(b"", true).media, "message/rfc822");
    }

    #[test]
    fn a_field_of_more_than_is_answered_is_cut_and_says_so() {
        let header = format!(
            "To: {}\r\nSubject: {}\r\n",
            "a@b, ".repeat(1000),
            "é".repeat(600)
        );
        let cut = read(header.as_bytes());
        assert_eq!(
            (cut.to.len(), cut.subject.len(), cut.truncated),
            (28, 1000, true)
        );
        assert!(!read(b"To: a@b\r\nSubject: c\r\n").truncated);
    }

    #[test]
    fn a_field_that_stands_twice_names_all_whom_it_names() {
        let read = read(b"From: a@x.org\r\nTo: b@x.org\r\nFrom: c@x.org\r\nTo: d@x.org\r\n");
        assert_eq!(read.from, [address("", "a@x.org"), address("", "c@x.org")]);
        assert_eq!(read.to, [address("", "b@x.org"), address("", "d@x.org")]);
    }

    #[test]
    fn the_name_of_an_encoding_is_known_in_any_clothes() {
        let encoding = |name: &str| {
            Part::of(
                format!("Content-Transfer-Encoding: {name}\r\n").as_bytes(),
                false,
            )
            .encoding
        };
        for base64 in [
            "base64",
            "BASE64;",
            "\"Base64\"",
            " (a comment) base64 (another)",
            "base64\t",
        ] {
            assert_eq!(encoding(base64), Encoding::Base64, "{base64}");
        }
        for none in ["", "(", "(base64)", "8bit", "x-base64", "base 64", ";;"] {
            assert_eq!(encoding(none), Encoding::Identity, "{none}");
        }
    }

    #[test]
    fn a_header_without_a_last_line_break_is_read_to_its_end() {
        let header = read(b"From: a@b\r\nSubject: the last");
        assert_eq!(
            (header.subject.as_str(), header.truncated),
            ("the last", false)
        );
        assert_eq!(
            Part::of(b"Content-Type: text/html", false).media,
            "text/html"
        );
        // The last line of a truncated header is dropped: a truncated address would be another address.
        let long = format!(
            "Subject: x\r\nTo: a@b,\r\n {}ada@example.org",
            " ".repeat(bounds::HEADER)
        );
        let cut = read(long.as_bytes());
        assert_eq!((cut.to.len(), cut.truncated), (1, true));
    }

    #[test]
    fn words_and_names_that_cut_a_character_are_joined() {
        let header = read(
            b"Subject: =?utf-8?B?R3LD?=\r\n =?utf-8?B?vMOfZQ==?=\r\nFrom: =?us-ascii?Q?J=C3=BC?= <j@x.org>\r\n",
        );
        assert_eq!(header.subject, "Grüße");
        assert_eq!(header.from, [address("Jü", "j@x.org")]);
        let name = |header: &str| Part::of(header.as_bytes(), false).filename.unwrap();
        assert_eq!(
            name(
                "Content-Disposition: attachment; filename*0*=iso-8859-1''Gr%FC;\r\n filename*1*=%DFe.txt\r\n"
            ),
            "Grüße.txt"
        );
        assert_eq!(
            name(
                "Content-Disposition: attachment; filename=\"=?utf-8?B?w6TD?=\r\n =?utf-8?B?pC50eHQ=?=\"\r\n"
            ),
            "ää.txt"
        );
    }

    #[test]
    fn an_entry_counts_for_more_than_its_letters() {
        let many = read(format!("From: {}\r\n", "a,".repeat(500)).as_bytes());
        assert_eq!((many.from.len(), many.truncated), (1000 / 33, true));
    }
}
