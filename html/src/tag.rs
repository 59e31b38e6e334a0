//! Splits HTML into tags and text. The tokenizer implements the state machine of the HTML standard.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Emitter, Error, ForwardingEmitter, Span, Tokenizer};

/// Elements without an end tag.
pub(crate) const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

pub(crate) enum Token<'t> {
    Open(&'t Tag),
    /// An end tag with this name.
    Close(&'t str),
    Text(&'t str),
}

/// A start tag. One buffer contains all names and values, and the next tag reuses the buffer.
#[derive(Debug, Default)]
pub(crate) struct Tag {
    buffer: String,
    /// The byte offset in the buffer at which the tag's name ends.
    name_ends: usize,
    /// The names and values of the attributes in the buffer.
    attributes: Vec<[Range<usize>; 2]>,
}

impl Tag {
    fn begin(&mut self, name: &[u8]) {
        self.attributes.clear();
        self.buffer.clear();
        self.name_ends = self.append(name).end;
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let begins = self.buffer.len();
        self.buffer.push_str(&decoded(bytes));
        begins..self.buffer.len()
    }

    /// The name in lower case.
    pub(crate) fn name(&self) -> &str {
        &self.buffer[..self.name_ends]
    }

    /// The attributes, with names in lower case. If several attributes have the same name, browsers
    /// use only the first.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = |range: &Range<usize>| &self.buffer[range.clone()];
        let all = self.attributes.iter();
        all.map(move |[name, value]| (text(name), text(value)))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the value of an attribute, or an empty string if the attribute is absent.
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }
}

/// Passes the tags and texts of `html` to `handle` until `handle` returns `Break`.
pub(crate) fn tokenize(html: &str, mut handle: impl FnMut(Token<'_>) -> ControlFlow<()>) {
    let mut tag = Tag::default();
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| {
        let flow = match event {
            CallbackEvent::OpenStartTag { name } => {
                tag.begin(name);
                return None;
            }
            CallbackEvent::AttributeName { name } => {
                let name = tag.append(name);
                tag.attributes.push([name.clone(), name.end..name.end]);
                return None;
            }
            CallbackEvent::AttributeValue { value } => {
                let value = tag.append(value);
                if let Some([_, known]) = tag.attributes.last_mut() {
                    *known = value;
                }
                return None;
            }
            CallbackEvent::CloseStartTag { .. } => handle(Token::Open(&tag)),
            CallbackEvent::EndTag { name } => handle(Token::Close(&decoded(name))),
            CallbackEvent::String { value } => handle(Token::Text(&decoded(value))),
            _ => return None,
        };
        flow.is_break().then_some(())
    });
    emitter.naively_switch_states(true);
    // The callback returns a value only for `Break`.
    let _ = Tokenizer::new_with_emitter(html, WithoutErrors(emitter)).next();
}

/// An emitter that does not report parse errors. The detection of parse errors takes time, because
/// the tokenizer would have to check each character.
struct WithoutErrors<F: Callback<(), ()>>(CallbackEmitter<F, ()>);

impl<F: Callback<(), ()>> ForwardingEmitter for WithoutErrors<F> {
    type Token = ();

    fn inner(&mut self) -> &mut impl Emitter<Token = ()> {
        &mut self.0
    }

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn emit_error(&mut self, _: Error) {}
}

/// Decodes UTF-8. For valid text, `std::str::from_utf8` is faster than `String::from_utf8_lossy`.
fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}
