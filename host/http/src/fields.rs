//! Extracts fields from a JSON body while the body arrives: decodes base64 strings at configured positions and replaces each one with a number. Attachments
//! therefore never enter a sandbox and are in memory only once.
//!
//! This module parses only as much JSON as it needs to know its position. It does not validate the rest: invalid JSON stays invalid.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;

use crate::rejection::Rejection;

/// The maximum size of a body without its extracted fields, in bytes. The rest enters a sandbox, which holds several copies of it.
const LARGEST_REST: usize = 8 * 1024 * 1024;

/// The maximum nesting depth. Deeper values are copied without parsing, because no route has such a body.
const DEEPEST: usize = 64;

/// The maximum length of a key that is compared, in bytes.
const LONGEST_KEY: usize = 256;

/// The maximum number of extracted fields of a body. The guest has a handle for each field.
const MOST: usize = 500;

/// The number of encoded bytes that are decoded at once: a multiple of four.
const AT_ONCE: usize = 16 * 1024;

/// One step of a JSON pointer (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(Vec<u8>),
    AnyIndex,
}

/// Extracts fields from an incoming body.
#[derive(Debug)]
pub(crate) struct Fields {
    wanted: Vec<Vec<Step>>,
    /// The rest of the body, so far.
    rest: Vec<u8>,
    /// The extracted fields, in the order of the body.
    found: Vec<Bytes>,
    path: Vec<Level>,
    state: State,
}

/// An object or an array that is open.
#[derive(Debug)]
enum Level {
    /// An object with the current key, unescaped. `None` if the key is longer than [`LONGEST_KEY`].
    Object(Option<Vec<u8>>),
    /// An array with the current index.
    Array(usize),
}

#[derive(Debug)]
enum State {
    /// Between tokens. `key` states whether the next string is a key.
    Between { key: bool },
    /// In a string that stays in the body.
    Text { key: Option<Vec<u8>>, escaped: bool },
    /// In a string that is extracted.
    Field(Field),
    /// In a number or a literal.
    Word,
    /// Deeper than the maximum nesting depth. The value is copied without parsing.
    Past,
}

/// The decoder of an extracted field: JSON escapes, then base64.
#[derive(Debug, Default)]
struct Field {
    encoded: Vec<u8>,
    decoded: Vec<u8>,
    escape: Vec<u8>,
    padded: bool,
}

impl Fields {
    /// Creates an extractor of the fields at JSON pointers, in which `*` matches any index.
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
            wanted: pointers.iter().map(steps).collect(),
            rest: Vec::new(),
            found: Vec::new(),
            path: Vec::new(),
            state: State::Between { key: false },
        }
    }

    /// Returns the number of bytes in memory.
    pub(crate) fn held(&self) -> usize {
        let under_way = match &self.state {
            State::Field(field) => field.decoded.len() + field.encoded.len(),
            _ => 0,
        };
        self.rest.len() + self.found.iter().map(Bytes::len).sum::<usize>() + under_way
    }

    /// Processes the next bytes of the body.
    ///
    /// # Errors
    /// Returns 400 with the name of the field if a field is not a string of standard base64, and 413 if the rest of the body is too large.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Rejection> {
        self.split(bytes)?;
        if self.rest.len() > LARGEST_REST {
            return Err(Rejection::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("The request's body without its files is larger than {LARGEST_REST} bytes"),
            ));
        }
        Ok(())
    }

    fn split(&mut self, mut bytes: &[u8]) -> Result<(), Rejection> {
        while let Some(byte) = bytes.first() {
            match &mut self.state {
                State::Past => {
                    self.rest.extend_from_slice(bytes);
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
                State::Text { key, escaped } => {
                    let length = text(bytes, *escaped);
                    keep_key(key, &bytes[..length]);
                    self.rest.extend_from_slice(&bytes[..length]);
                    *escaped = false;
                    bytes = &bytes[length..];
                    match bytes.first() {
                        None => {}
                        Some(b'"') => {
                            let key = key.take();
                            self.rest.push(b'"');
                            self.end_text(key);
                            bytes = &bytes[1..];
                        }
                        // The character after a backslash does not end the string.
                        Some(_) => {
                            keep_key(key, b"\\");
                            self.rest.push(b'\\');
                            *escaped = true;
                            bytes = &bytes[1..];
                        }
                    }
                    continue;
                }
                State::Word if !b" \t\r\n,:]}\"[{".contains(byte) => {}
                State::Word => {
                    self.state = State::Between { key: false };
                    continue;
                }
                State::Between { key } => {
                    let key = *key;
                    if self.between(*byte, key)? {
                        bytes = &bytes[1..];
                        continue;
                    }
                }
            }
            self.rest.push(*byte);
            bytes = &bytes[1..];
        }
        Ok(())
    }

    /// Processes one byte between tokens. Returns `true` if the byte is consumed.
    fn between(&mut self, byte: u8, key: bool) -> Result<bool, Rejection> {
        let value = |this: &Self| !key && this.is_wanted();
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b':' => {}
            b',' => {
                let in_object = match self.path.last_mut() {
                    Some(Level::Array(index)) => {
                        *index += 1;
                        false
                    }
                    Some(Level::Object(_)) => true,
                    None => false,
                };
                self.state = State::Between { key: in_object };
            }
            b'"' if value(self) => {
                if self.found.len() >= MOST {
                    let sentence = format!("The body has more than {MOST} files");
                    return Err(Rejection::bad_request(sentence));
                }
                self.state = State::Field(Field::default());
                return Ok(true);
            }
            _ if value(self) && byte != b']' && byte != b'}' => return Err(not_base64(&self.path)),
            b'"' => {
                self.state = State::Text {
                    key: key.then(Vec::new),
                    escaped: false,
                };
            }
            b'{' | b'[' if self.path.len() >= DEEPEST => self.state = State::Past,
            b'{' => {
                self.path.push(Level::Object(None));
                self.state = State::Between { key: true };
            }
            b'[' => {
                self.path.push(Level::Array(0));
                self.state = State::Between { key: false };
            }
            b'}' | b']' => {
                self.path.pop();
                self.state = State::Between { key: false };
            }
            _ => self.state = State::Word,
        }
        Ok(false)
    }

    fn end_text(&mut self, key: Option<Vec<u8>>) {
        self.state = State::Between { key: false };
        if let Some(raw) = key
            && let Some(Level::Object(at_hand)) = self.path.last_mut()
        {
            let quoted = [b"\"", &raw[..], b"\""].concat();
            let plain = serde_json::from_slice::<String>(&quoted).ok();
            *at_hand = plain
                .filter(|_| raw.len() <= LONGEST_KEY)
                .map(String::into_bytes);
        }
    }

    fn end_field(&mut self) -> Result<(), Rejection> {
        let ended = std::mem::replace(&mut self.state, State::Between { key: false });
        if let State::Field(field) = ended {
            let decoded = field.end().map_err(|()| not_base64(&self.path))?;
            let number = self.found.len().to_string();
            self.rest.extend_from_slice(number.as_bytes());
            self.found.push(decoded.into());
        }
        Ok(())
    }

    /// Returns `true` if the next value must be extracted.
    fn is_wanted(&self) -> bool {
        self.wanted.iter().any(|steps| {
            steps.len() == self.path.len()
                && steps.iter().zip(&self.path).all(|pair| match pair {
                    (Step::Key(wanted), Level::Object(Some(key))) => wanted == key,
                    (Step::AnyIndex, Level::Array(_)) => true,
                    _ => false,
                })
        })
    }

    /// Returns the body with a number instead of each extracted field, and the fields in that order. An incomplete field is dropped; the body is then invalid
    /// JSON.
    pub(crate) fn finish(self) -> (Vec<u8>, Vec<Bytes>) {
        (self.rest, self.found)
    }
}

/// Returns the number of bytes of a string before its end or an escape.
fn text(bytes: &[u8], escaped: bool) -> usize {
    let from = usize::from(escaped).min(bytes.len());
    memchr::memchr2(b'"', b'\\', &bytes[from..]).map_or(bytes.len(), |end| from + end)
}

fn keep_key(key: &mut Option<Vec<u8>>, bytes: &[u8]) {
    if let Some(key) = key
        && key.len() <= LONGEST_KEY
    {
        key.extend_from_slice(bytes);
    }
}

impl Field {
    /// Processes bytes up to the end of the string. Returns their number including the closing quote, or `None` if the string has not ended.
    fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>, ()> {
        let mut at = 0;
        while at < bytes.len() {
            if !self.escape.is_empty() {
                self.escape.push(bytes[at]);
                at += 1;
                if let Some(byte) = unescaped(&self.escape)? {
                    self.escape.clear();
                    self.encoded.push(byte);
                }
                continue;
            }
            let length = text(&bytes[at..], false);
            for piece in bytes[at..at + length].chunks(AT_ONCE) {
                self.encoded.extend_from_slice(piece);
                if self.encoded.len() >= AT_ONCE {
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

    fn decode(&mut self, length: usize) -> Result<(), ()> {
        // Nothing can follow padding.
        if self.padded && length > 0 {
            return Err(());
        }
        let groups = &self.encoded[..length];
        self.padded = groups.last() == Some(&b'=');
        STANDARD
            .decode_vec(groups, &mut self.decoded)
            .map_err(drop)?;
        self.encoded.drain(..length);
        Ok(())
    }

    fn end(mut self) -> Result<Vec<u8>, ()> {
        if !self.escape.is_empty() {
            return Err(());
        }
        self.decode(self.encoded.len())?;
        Ok(self.decoded)
    }
}

/// Returns the byte of an escape, or `None` if the escape is incomplete. Only characters of base64 are supported.
fn unescaped(escape: &[u8]) -> Result<Option<u8>, ()> {
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

fn not_base64(path: &[Level]) -> Rejection {
    let mut name = String::new();
    for level in path {
        match level {
            Level::Object(key) => {
                if !name.is_empty() {
                    name.push('.');
                }
                // The key matches one in the route's declaration, so it is not chosen by the client.
                let key = key.as_deref().unwrap_or_default();
                name.push_str(&String::from_utf8_lossy(key));
            }
            Level::Array(index) => {
                name.push('[');
                name.push_str(&index.to_string());
                name.push(']');
            }
        }
    }
    Rejection::bad_request(format!("{name} must be a string of standard base64"))
}

#[cfg(test)]
mod tests;
