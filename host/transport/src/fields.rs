//! Extracts fields from a JSON body while the body arrives. The extractor decodes the base64
//! strings at configured positions, and replaces each string with its index among the extracted
//! fields. So attachments never enter a sandbox, and the host stores only decoded bytes.
//!
//! The tokenizer recognizes strings, keys, arrays and objects, and copies everything else
//! unchanged. The tokenizer does not validate JSON, but an invalid body never becomes valid.
//!
//! `serde_json` 1.0.154 with a `DeserializeSeed` needs the whole body in memory. For an attachment
//! of 25 MB (33 MB in base64), `serde_json` needed 58 MB and 37 ms, or 97 MB and 81 ms if slashes
//! are escaped. This module needed 25 MB and 25 ms, or 35 ms if slashes are escaped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use latchmail_core::codes;

use crate::error::RequestError;

/// The maximum size of a body without its extracted fields, in bytes. The sandbox makes several
/// copies of these bytes.
const MAX_REMAINDER: usize = 8 * 1024 * 1024;

/// The maximum nesting depth. No route accepts a body with deeper nesting, so values at a greater
/// depth are copied without parsing.
const MAX_DEPTH: usize = 64;

/// The maximum length of a key, in bytes. A longer key does not match any pointer.
const MAX_KEY_LENGTH: usize = 256;

/// The maximum number of fields that are extracted from one body. The module gets a handle for each
/// field.
const MAX_FIELDS: usize = 500;

/// The number of base64 characters that one call of the decoder processes. The number must be a
/// multiple of four.
const DECODE_LENGTH: usize = 16 * 1024;

/// A step of a JSON pointer (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(Vec<u8>),
    AnyIndex,
}

/// An extractor of fields from an incoming body.
#[derive(Debug)]
pub(crate) struct Fields {
    pointers: Vec<Vec<Step>>,
    /// The received part of the body, in which the index in `extracted` replaces each extracted
    /// field.
    remainder: Vec<u8>,
    /// The extracted fields, in the order of the body.
    extracted: Vec<Bytes>,
    /// The objects and arrays that contain the current position. The outermost container is the
    /// first.
    path: Vec<Container>,
    state: State,
}

#[derive(Debug)]
enum Container {
    /// An object, and its current key without escapes. The key is `None` before the first key, or
    /// if the key is invalid or longer than [`MAX_KEY_LENGTH`].
    Object(Option<Vec<u8>>),
    /// An array, and its current index.
    Array(usize),
}

#[derive(Debug)]
enum State {
    /// Between two tokens. `is_key` is true if the next string is a key.
    Between { is_key: bool },
    /// In a string that is copied. `key` contains the raw bytes if the string is a key.
    /// `is_escaped` is true after a backslash.
    String {
        key: Option<Vec<u8>>,
        is_escaped: bool,
    },
    /// In a string that is extracted.
    Field(Field),
    /// In a number, `true`, `false` or `null`.
    Scalar,
    /// Deeper than [`MAX_DEPTH`]. The rest of the body is copied without parsing.
    TooDeep,
}

/// The decoder of an extracted field. It decodes JSON escapes, and then base64.
#[derive(Debug, Default)]
struct Field {
    /// Base64 characters before decoding.
    encoded: Vec<u8>,
    decoded: Vec<u8>,
    /// The bytes of an incomplete escape sequence.
    escape: Vec<u8>,
    /// Whether the last decoded characters contained padding.
    is_padded: bool,
}

impl Fields {
    /// Creates an extractor of the fields at the given JSON pointers. The step `*` of a pointer
    /// matches any array index.
    pub(crate) fn new(pointers: &[String]) -> Self {
        let steps = |pointer: &String| {
            pointer
                .split('/')
                .skip(1)
                .map(|step| match step {
                    "*" => Step::AnyIndex,
                    key => Step::Key(key.replace("~1", "/").replace("~0", "~").into_bytes()),
                })
                .collect()
        };
        Self {
            pointers: pointers.iter().map(steps).collect(),
            remainder: Vec::new(),
            extracted: Vec::new(),
            path: Vec::new(),
            state: State::Between { is_key: false },
        }
    }

    /// Returns the number of body bytes that are in memory.
    pub(crate) fn held(&self) -> usize {
        let current = match &self.state {
            State::Field(field) => field.decoded.len() + field.encoded.len(),
            _ => 0,
        };
        self.remainder.len() + self.extracted.iter().map(Bytes::len).sum::<usize>() + current
    }

    /// Processes the next bytes of the body. The caller must not use the extractor after an error.
    ///
    /// # Errors
    /// Returns 400 with the name of the field if a field is not a string in standard base64.
    /// Returns 413 if the body without its fields is too large.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        self.process(bytes)?;
        if self.remainder.len() > MAX_REMAINDER {
            return Err(RequestError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                codes::BODY_TOO_LARGE,
                format!(
                    "The request's body without its files is larger than {MAX_REMAINDER} bytes"
                ),
            ));
        }
        Ok(())
    }

    fn process(&mut self, mut bytes: &[u8]) -> Result<(), RequestError> {
        while let Some(byte) = bytes.first() {
            match &mut self.state {
                State::TooDeep => {
                    self.remainder.extend_from_slice(bytes);
                    return Ok(());
                }
                State::Field(field) => {
                    let Some(taken) = field.push(bytes).map_err(|()| not_base64(&self.path))?
                    else {
                        return Ok(());
                    };
                    bytes = &bytes[taken..];
                    self.end_field()?;
                    continue;
                }
                State::String { key, is_escaped } => {
                    let length = unescaped_length(bytes, *is_escaped);
                    append_to_key(key, &bytes[..length]);
                    self.remainder.extend_from_slice(&bytes[..length]);
                    *is_escaped = false;
                    bytes = &bytes[length..];
                    match bytes.first() {
                        None => {}
                        Some(b'"') => {
                            let key = key.take();
                            self.remainder.push(b'"');
                            self.end_string(key);
                            bytes = &bytes[1..];
                        }
                        // The character after a backslash never ends the string.
                        Some(_) => {
                            append_to_key(key, b"\\");
                            self.remainder.push(b'\\');
                            *is_escaped = true;
                            bytes = &bytes[1..];
                        }
                    }
                    continue;
                }
                State::Scalar if !b" \t\r\n,:]}\"[{".contains(byte) => {}
                State::Scalar => {
                    self.state = State::Between { is_key: false };
                    continue;
                }
                State::Between { is_key } => {
                    let is_key = *is_key;
                    if self.begin_token(*byte, is_key)? {
                        bytes = &bytes[1..];
                        continue;
                    }
                }
            }
            self.remainder.push(*byte);
            bytes = &bytes[1..];
        }
        Ok(())
    }

    /// Processes one byte between two tokens. Returns `true` if the byte starts an extracted field,
    /// so that the caller does not copy the byte.
    fn begin_token(&mut self, byte: u8, is_key: bool) -> Result<bool, RequestError> {
        let is_field = |this: &Self| !is_key && this.matches_pointer();
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b':' => {}
            b',' => {
                let in_object = match self.path.last_mut() {
                    Some(Container::Array(index)) => {
                        *index += 1;
                        false
                    }
                    Some(Container::Object(_)) => true,
                    None => false,
                };
                self.state = State::Between { is_key: in_object };
            }
            b'"' if is_field(self) => {
                if self.extracted.len() >= MAX_FIELDS {
                    let text = format!("The body has more than {MAX_FIELDS} files");
                    return Err(RequestError::bad_request(codes::TOO_MANY_FILES, text));
                }
                self.state = State::Field(Field::default());
                return Ok(true);
            }
            _ if is_field(self) && byte != b']' && byte != b'}' => {
                return Err(not_base64(&self.path));
            }
            b'"' => {
                self.state = State::String {
                    key: is_key.then(Vec::new),
                    is_escaped: false,
                };
            }
            b'{' | b'[' if self.path.len() >= MAX_DEPTH => self.state = State::TooDeep,
            b'{' => {
                self.path.push(Container::Object(None));
                self.state = State::Between { is_key: true };
            }
            b'[' => {
                self.path.push(Container::Array(0));
                self.state = State::Between { is_key: false };
            }
            b'}' | b']' => {
                self.path.pop();
                self.state = State::Between { is_key: false };
            }
            _ => self.state = State::Scalar,
        }
        Ok(false)
    }

    fn end_string(&mut self, key: Option<Vec<u8>>) {
        self.state = State::Between { is_key: false };
        if let Some(raw) = key
            && let Some(Container::Object(current)) = self.path.last_mut()
        {
            let quoted = [b"\"", &raw[..], b"\""].concat();
            let unescaped = serde_json::from_slice::<String>(&quoted).ok();
            *current = unescaped
                .filter(|_| raw.len() <= MAX_KEY_LENGTH)
                .map(String::into_bytes);
        }
    }

    fn end_field(&mut self) -> Result<(), RequestError> {
        let state = std::mem::replace(&mut self.state, State::Between { is_key: false });
        if let State::Field(field) = state {
            let decoded = field.end().map_err(|()| not_base64(&self.path))?;
            let number = self.extracted.len().to_string();
            self.remainder.extend_from_slice(number.as_bytes());
            self.extracted.push(decoded.into());
        }
        Ok(())
    }

    /// Returns `true` if a pointer selects the next value.
    fn matches_pointer(&self) -> bool {
        self.pointers.iter().any(|steps| {
            steps.len() == self.path.len()
                && steps.iter().zip(&self.path).all(|pair| match pair {
                    (Step::Key(expected), Container::Object(Some(key))) => expected == key,
                    (Step::AnyIndex, Container::Array(_)) => true,
                    _ => false,
                })
        })
    }

    /// Returns the body and the extracted fields. In the body, the index of each extracted field
    /// replaces the field. If the last field is incomplete, the body lacks its index and is invalid
    /// JSON.
    pub(crate) fn finish(self) -> (Vec<u8>, Vec<Bytes>) {
        (self.remainder, self.extracted)
    }
}

/// Returns the number of bytes before the end of the string or before the next backslash. If
/// `is_escaped` is true, the first byte belongs to an escape sequence.
fn unescaped_length(bytes: &[u8], is_escaped: bool) -> usize {
    let from = usize::from(is_escaped).min(bytes.len());
    memchr::memchr2(b'"', b'\\', &bytes[from..]).map_or(bytes.len(), |end| from + end)
}

fn append_to_key(key: &mut Option<Vec<u8>>, bytes: &[u8]) {
    if let Some(key) = key
        && key.len() <= MAX_KEY_LENGTH
    {
        key.extend_from_slice(bytes);
    }
}

impl Field {
    /// Processes bytes up to the end of the string. Returns the number of processed bytes including
    /// the closing quote. Returns `None` if the string has not ended.
    fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>, ()> {
        let mut at = 0;
        while at < bytes.len() {
            if !self.escape.is_empty() {
                self.escape.push(bytes[at]);
                at += 1;
                if let Some(byte) = unescape(&self.escape)? {
                    self.escape.clear();
                    self.encoded.push(byte);
                }
                continue;
            }
            let length = unescaped_length(&bytes[at..], false);
            for piece in bytes[at..at + length].chunks(DECODE_LENGTH) {
                self.encoded.extend_from_slice(piece);
                if self.encoded.len() >= DECODE_LENGTH {
                    self.decode(self.encoded.len() / 4 * 4)?;
                }
            }
            at += length;
            match bytes.get(at) {
                Some(b'"') => return Ok(Some(at + 1)),
                Some(_) => {
                    self.escape.push(b'\\');
                    at += 1;
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// Decodes the first `length` base64 characters.
    fn decode(&mut self, length: usize) -> Result<(), ()> {
        // The decoder checks padding only within one call. So this function itself rejects
        // characters that follow the padding of an earlier call.
        if self.is_padded && length > 0 {
            return Err(());
        }
        let groups = &self.encoded[..length];
        self.is_padded = groups.last() == Some(&b'=');
        STANDARD
            .decode_vec(groups, &mut self.decoded)
            .map_err(drop)?;
        self.encoded.drain(..length);
        Ok(())
    }

    /// Decodes the rest of the field after the end of the string, and returns the decoded field.
    fn end(mut self) -> Result<Vec<u8>, ()> {
        if !self.escape.is_empty() {
            return Err(());
        }
        self.decode(self.encoded.len())?;
        Ok(self.decoded)
    }
}

/// Returns the byte that an escape sequence represents, or `None` if the sequence is incomplete.
/// Only characters below U+0100 are supported, because base64 is ASCII.
fn unescape(escape: &[u8]) -> Result<Option<u8>, ()> {
    match escape {
        [b'\\', b'/'] => Ok(Some(b'/')),
        [b'\\', b'u', digits @ ..] if digits.len() < 4 => Ok(None),
        [b'\\', b'u', digits @ ..] => {
            let digits = std::str::from_utf8(digits).map_err(drop)?;
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(());
            }
            let code = u32::from_str_radix(digits, 16).map_err(drop)?;
            u8::try_from(code).map(Some).map_err(drop)
        }
        _ => Err(()),
    }
}

/// Returns the error for a field that is not valid base64. `path` is the position of the field.
fn not_base64(path: &[Container]) -> RequestError {
    let mut name = String::new();
    for container in path {
        match container {
            Container::Object(key) => {
                if !name.is_empty() {
                    name.push('.');
                }
                // This key is equal to a key of a pointer, so the client cannot choose the text of
                // the error.
                let key = key.as_deref().unwrap_or_default();
                name.push_str(&String::from_utf8_lossy(key));
            }
            Container::Array(index) => {
                name.push('[');
                name.push_str(&index.to_string());
                name.push(']');
            }
        }
    }
    RequestError::bad_request(
        codes::INVALID_BASE64,
        format!("{name} must be a string of standard base64"),
    )
}

#[cfg(test)]
mod tests;
