//! Writes the body of a message: the texts and the files (RFC 2045, RFC 2046, RFC 2387).

use std::borrow::Cow;

use mail_builder::headers::HeaderType;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::{BodyPart, MimePart};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::attached_file::AttachedFile;

/// A MIME part.
struct Part<'p> {
    part: MimePart<'p>,
    /// Whether the part contains bytes above 127.
    is_8bit: bool,
}

/// Returns the body of a message. The HTML and the inline files to which the HTML can refer are in
/// a `multipart/related` (RFC 2387). The other files follow the texts.
pub(crate) fn body<'p>(
    text: Option<&'p str>,
    html: Option<&'p str>,
    files: &'p [AttachedFile],
) -> MimePart<'p> {
    let is_related =
        |file: &&AttachedFile| html.is_some() && file.inline && file.content_id.is_some();
    let mut texts: Vec<Part<'_>> = text
        .map(|text| Part::text("text/plain", text))
        .into_iter()
        .collect();
    if let Some(html) = html {
        let mut related = vec![Part::text("text/html", html)];
        related.extend(files.iter().filter(is_related).map(Part::file));
        let media = ContentType::new("multipart/related").attribute("type", "text/html");
        texts.push(Part::multipart_of_many(media, related));
    }
    let attached = files
        .iter()
        .filter(|file| !is_related(file))
        .map(Part::file);
    let attached: Vec<_> = attached.collect();
    if attached.is_empty() {
        if texts.is_empty() {
            return MimePart::new("text/plain", "\n");
        }
        return Part::multipart_of_many(ContentType::new("multipart/alternative"), texts).part;
    }
    let mut all = Vec::with_capacity(attached.len() + 1);
    if !texts.is_empty() {
        let alternative = ContentType::new("multipart/alternative");
        all.push(Part::multipart_of_many(alternative, texts));
    }
    all.extend(attached);
    Part::multipart(ContentType::new("multipart/mixed"), all).part
}

impl<'p> Part<'p> {
    fn text(media_type: &'static str, text: &'p str) -> Self {
        Self {
            part: text_part(media_type, text),
            is_8bit: false,
        }
    }

    fn file(file: &'p AttachedFile) -> Self {
        Self {
            part: file_part(file),
            is_8bit: is_8bit(file),
        }
    }

    /// Returns a multipart, or the only part.
    fn multipart_of_many(media_type: ContentType<'p>, mut parts: Vec<Self>) -> Self {
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                Self::multipart(media_type, parts)
            }
        }
    }

    /// Returns a multipart. A multipart has the encoding of its parts (RFC 2045, section 6.4).
    fn multipart(media_type: ContentType<'p>, parts: Vec<Self>) -> Self {
        let is_8bit = parts.iter().any(|part| part.is_8bit);
        let parts: Vec<_> = parts.into_iter().map(|part| part.part).collect();
        let mut part = MimePart::new(media_type, parts);
        if is_8bit {
            part = part.transfer_encoding("8bit");
        }
        Self { part, is_8bit }
    }
}

/// Returns the plain text or the HTML of a message as a MIME part. Encodes a text with control
/// characters in base64, because mail-builder would write control characters unencoded. RFC 5322,
/// sections 2.3 and 4, forbids NUL and a carriage return without a line feed. Mail servers change
/// other control characters.
fn text_part<'t>(media_type: &'static str, text: &'t str) -> MimePart<'t> {
    let plain = |byte: u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n');
    if text.split("\r\n").all(|line| line.bytes().all(plain)) {
        return MimePart::new(media_type, text);
    }
    // mail-builder encodes binary contents in base64, except for text types.
    let content_type = Raw::new(format!("{media_type}; charset=\"utf-8\""));
    MimePart {
        headers: vec![(Cow::Borrowed("Content-Type"), HeaderType::Raw(content_type))],
        contents: BodyPart::Binary(Cow::Borrowed(text.as_bytes())),
    }
}

/// Returns a file as a MIME part with its media type. Encodes the content in base64.
///
/// An attached message must not be encoded in base64 (RFC 2046, section 5.2.1). Such a message is
/// written unencoded if mail servers do not change its lines. Otherwise the message is encoded in
/// base64 with the type `application/octet-stream`. A file with a multipart type also gets this
/// type.
fn file_part(file: &AttachedFile) -> MimePart<'_> {
    let is_unencoded = is_unencoded(file);
    let content_type =
        if (is_message(file) && !is_unencoded) || file.content_type.starts_with("multipart/") {
            "application/octet-stream"
        } else {
            &file.content_type
        };
    let header = |name, value| (Cow::Borrowed(name), value);
    let raw = |value: &str| HeaderType::Raw(Raw::new(value.to_owned()));
    let mut headers = vec![
        header("Content-Type", raw(content_type)),
        header("Content-Disposition", disposition(file)),
    ];
    if let Some(id) = &file.content_id {
        headers.push(header("Content-ID", raw(&format!("<{id}>"))));
    }
    if is_unencoded {
        let encoding = if is_8bit(file) { "8bit" } else { "7bit" };
        headers.push(header("Content-Transfer-Encoding", raw(encoding)));
    }
    MimePart {
        headers,
        contents: BodyPart::Binary(Cow::Borrowed(&file.content)),
    }
}

fn is_message(file: &AttachedFile) -> bool {
    file.content_type.starts_with("message/")
}

/// Returns `true` if the file is written without an encoding. See [`file_part`].
fn is_unencoded(file: &AttachedFile) -> bool {
    is_message(file) && has_valid_lines(&file.content)
}

/// Returns `true` if the written file contains bytes above 127.
fn is_8bit(file: &AttachedFile) -> bool {
    is_unencoded(file) && !file.content.is_ascii()
}

/// Returns the value of Content-Disposition for a file. Encodes a non-ASCII name by RFC 2231. Also
/// encodes an ASCII name with text like an encoded word. See
/// [`subject`](super::words::subject) for the reason.
fn disposition(file: &AttachedFile) -> HeaderType<'_> {
    let (kind, filename) = (
        if file.inline { "inline" } else { "attachment" },
        &file.filename,
    );
    if filename.is_ascii() && filename.contains("=?") {
        let encoded = utf8_percent_encode(filename, NON_ALPHANUMERIC);
        return HeaderType::Raw(Raw::new(format!("{kind}; filename*=utf-8''{encoded}")));
    }
    HeaderType::ContentType(ContentType::new(kind).attribute("filename", filename))
}

/// Returns `true` if mail servers do not change the bytes. Each line must have at most 998 bytes,
/// end with CRLF and contain no NUL (RFC 5322, section 2.1.1).
fn has_valid_lines(bytes: &[u8]) -> bool {
    bytes
        .split(|b| *b == b'\n')
        .all(|line| line.len() <= 999 && !line.contains(&0))
        && memchr::memchr_iter(b'\n', bytes).all(|at| at > 0 && bytes[at - 1] == b'\r')
        && memchr::memchr_iter(b'\r', bytes).all(|at| bytes.get(at + 1) == Some(&b'\n'))
}
