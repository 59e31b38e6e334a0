//! Fields of a JSON body that are kept out of it: as the body comes, the strings at some places are decoded from base64 and set aside, and a number
//! stands where each was. So what a client attaches never enters a sandbox, and is in memory once.
//!
//! It reads as much JSON as it takes to know where it is. Whether the rest is JSON is for whoever reads the rest: what is no JSON going in
//! is none coming out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;

use crate::error::Failure;

/// Bytes of the rest of a body: it enters a sandbox, and is there more than once.
const LARGEST_REST: usize = 8 * 1024 * 1024;

/// How deep a body may be nested; what is deeper than any body that is understood is not looked at.
const DEEPEST: usize = 64;

/// The longest key that is of interest.
const LONGEST_KEY: usize = 256;

/// Fields of one body at most: the guest holds a handle of each.
const MOST: usize = 500;

/// Encoded bytes that are decoded together: whole groups of four.
const AT_ONCE: usize = 16 * 1024;

/// A place in a body: the steps of a JSON pointer (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(Vec<u8>),
    AnyIndex,
}

/// Sets fields aside as a body comes.
#[derive(Debug)]
pub(super) struct Fields {
    wanted: Vec<Vec<Step>>,
    /// The rest of the body, so far.
    rest: Vec<u8>,
    /// What was set aside, in the order it came.
    found: Vec<Bytes>,
    path: Vec<Level>,
    state: State,
}

/// An object or an array that is open.
#[derive(Debug)]
enum Level {
    /// With the key at hand, unescaped; none where it was too long to be of interest.
    Object(Option<Vec<u8>>),
    /// With the index at hand.
    Array(usize),
}

#[derive(Debug)]
enum State {
    /// Between tokens; `key`: a string that comes now is one.
    Between { key: bool },
    /// In a string that stays where it is.
    Text { key: Option<Vec<u8>>, escaped: bool },
    /// In a string that is set aside.
    Field(Field),
    /// In a number or a word.
    Word,
    /// Deeper than anything of interest: the rest goes by as it is.
    Past,
}

/// Base64 on its way through JSON's escapes.
#[derive(Debug, Default)]
struct Field {
    encoded: Vec<u8>,
    decoded: Vec<u8>,
    escape: Vec<u8>,
    padded: bool,
}

impl Fields {
    /// Those at these JSON pointers, in which `*` stands for any index.
    pub(super) fn new(pointers: &[String]) -> Self {
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

    /// Bytes that it holds.
    pub(super) fn held(&self) -> usize {
        let under_way = match &self.state {
            State::Field(field) => field.decoded.len() + field.encoded.len(),
            _ => 0,
        };
        self.rest.len() + self.found.iter().map(Bytes::len).sum::<usize>() + under_way
    }

    /// Takes some more of the body.
    ///
    /// # Errors
    /// 400 that names the field where one is no string of standard base64; 413 where the rest of the body is too large.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.split(bytes)?;
        if self.rest.len() > LARGEST_REST {
            return Err(Failure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("The request's body without its files is larger than {LARGEST_REST} bytes"),
            ));
        }
        Ok(())
    }

    fn split(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
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
                        // A backslash: whatever is behind it does not end the string.
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

    /// One byte between tokens. Answers whether it is dealt with.
    fn between(&mut self, byte: u8, key: bool) -> Result<bool, Failure> {
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
                    return Err(Failure::bad_request(sentence));
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

    fn end_field(&mut self) -> Result<(), Failure> {
        let ended = std::mem::replace(&mut self.state, State::Between { key: false });
        if let State::Field(field) = ended {
            let decoded = field.end().map_err(|()| not_base64(&self.path))?;
            let number = self.found.len().to_string();
            self.rest.extend_from_slice(number.as_bytes());
            self.found.push(decoded.into());
        }
        Ok(())
    }

    /// Whether the value that comes now is one to be set aside.
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

    /// The body with a number in the place of each field that was set aside, and those in that order. One that was not at its end stays away: the body
    /// is no JSON then.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<Bytes>) {
        (self.rest, self.found)
    }
}

/// How many bytes of a string come before its end or an escape.
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
    /// Takes bytes up to the string's end. Answers how many that were with the end, once it is there.
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
        // Padding is the end.
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

/// The byte that an escape stands for, once it is whole. Only bytes of base64 are of use.
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

fn not_base64(path: &[Level]) -> Failure {
    let mut name = String::new();
    for level in path {
        match level {
            Level::Object(key) => {
                if !name.is_empty() {
                    name.push('.');
                }
                // A key of interest is one of the route's own.
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
    Failure::bad_request(format!("{name} must be a string of standard base64"))
}

#[cfg(test)]
mod tests;
