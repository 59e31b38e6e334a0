//! HTML as readable text. What the sender hides from people is left out, and told of.
//!
//! The tokenizer is the HTML standard's; there is no tree. Elements that are hidden are followed by a count of what is open in them, so the time is that
//! of one pass and the memory that of the text, however deep or broken the HTML is.

mod open;
mod style;

use html5gum::emitters::default::{DefaultEmitter, StartTag};
use html5gum::{Token, Tokenizer};

use open::Open;
use style::{INHERITED, Style, VISIBILITY};

/// Elements in each other that hide text and show it again by turns.
const MOST_TURNS: usize = 32;

/// What became of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Readable {
    /// The text.
    pub(crate) text: String,
    /// Whether something of it was there that people do not see.
    pub(crate) hidden: bool,
}

/// Turns HTML into text.
pub(crate) fn readable(html: &str) -> Readable {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let tokens = Tokenizer::new_with_emitter(html, emitter).flatten();
    let mut writer = Writer::default();
    for token in tokens {
        match token {
            Token::StartTag(tag) => writer.open(&tag),
            Token::EndTag(tag) => writer.close(&tag.name),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    writer.finish()
}

#[derive(Default)]
struct Writer {
    text: String,
    /// Line ends that are due before the next word.
    lines: usize,
    /// Whether a space is due before the next word.
    space: bool,
    /// The element that is being left out.
    out: Option<Open>,
    /// Whether what is being left out is hidden, rather than no text at all.
    hiding: bool,
    /// The elements that are open and hide text, or show it again, by what it inherits; with what holds in each.
    turns: Vec<(Open, [bool; INHERITED])>,
    /// Whether anything was hidden.
    hidden: bool,
    /// How many elements are open whose spaces count.
    verbatim: usize,
    /// Where the link goes that is open, and where its text begins.
    link: Option<(String, usize)>,
}

impl Writer {
    fn open(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some(out) = &mut self.out {
            if !out.begins(name) {
                return;
            }
            self.out = None;
        }
        let style = style_of(tag);
        if is_void(name) {
            if style.gone || style.hides[VISIBILITY].unwrap_or(self.hides()[VISIBILITY]) {
                return;
            }
        } else {
            // The outermost of those that end by this one takes along what is in it.
            let ended = self
                .turns
                .iter_mut()
                .position(|(open, _)| open.begins(name));
            self.turns.truncate(ended.unwrap_or(self.turns.len()));
            if self.leaves_out(name, &style) {
                return;
            }
        }
        match name {
            b"br" => self.lines += 1,
            b"img" => self.image(tag),
            b"li" => {
                self.line(1);
                if !self.hides().contains(&true) {
                    self.word("- ");
                }
            }
            b"td" | b"th" => self.space = true,
            b"hr" => {
                self.line(1);
                self.word("---");
                self.line(1);
            }
            b"pre" => {
                self.line(2);
                self.verbatim += 1;
            }
            b"a" => self.begin_link(tag),
            _ => self.line(lines_around(name)),
        }
    }

    /// Whether an element is left out with all that is in it; notes what it says of its text otherwise.
    fn leaves_out(&mut self, name: &[u8], style: &Style) -> bool {
        let before = self.hides();
        let mut holds = before;
        for (holds, said) in holds.iter_mut().zip(style.hides) {
            *holds = said.unwrap_or(*holds);
        }
        let turns = holds != before;
        let room = self.turns.len() < MOST_TURNS;
        // Beyond the bound nothing is shown again.
        let hidden = style.gone || turns && !room && holds.contains(&true);
        if hidden || is_no_text(name) {
            self.hiding = hidden && !is_no_text(name);
            self.out = Some(Open::new(name));
            return true;
        }
        if turns && room {
            self.turns.push((Open::new(name), holds));
        }
        false
    }

    /// Whether text is hidden here, for each thing that it inherits.
    fn hides(&self) -> [bool; INHERITED] {
        self.turns
            .last()
            .map_or([false; INHERITED], |(_, holds)| *holds)
    }

    fn close(&mut self, name: &[u8]) {
        let mut left_out = false;
        if let Some(out) = &mut self.out {
            if !out.ends(name) {
                return;
            }
            left_out = out.is(name);
            self.out = None;
        }
        let ended = self.turns.iter_mut().position(|(open, _)| open.ends(name));
        self.turns.truncate(ended.unwrap_or(self.turns.len()));
        if left_out {
            return;
        }
        match name {
            b"a" => self.end_link(),
            b"pre" => {
                self.verbatim = self.verbatim.saturating_sub(1);
                self.line(2);
            }
            _ => self.line(lines_around(name)),
        }
    }

    fn text(&mut self, text: &str) {
        if self.out.is_some() {
            self.hidden |= self.hiding && !text.trim().is_empty();
            return;
        }
        if self.hides().contains(&true) {
            self.hidden |= !text.trim().is_empty();
            self.space |= text.contains(|c: char| c.is_ascii_whitespace());
            return;
        }
        if self.verbatim > 0 {
            for (number, line) in text.split('\n').enumerate() {
                self.lines += usize::from(number > 0);
                if !line.is_empty() {
                    self.word(line);
                }
            }
            return;
        }
        let is_space = |c: char| c.is_ascii_whitespace();
        self.space |= text.starts_with(is_space);
        for (number, word) in text
            .split(is_space)
            .filter(|word| !word.is_empty())
            .enumerate()
        {
            self.space |= number > 0;
            self.word(word);
        }
        self.space |= text.ends_with(is_space);
    }

    /// Writes what is due, and then a word.
    fn word(&mut self, word: &str) {
        if !self.text.is_empty() {
            // No more than one empty line.
            for _ in 0..self.lines.min(2) {
                self.text.push('\n');
            }
            if self.lines == 0 && self.space && !self.text.ends_with(' ') {
                self.text.push(' ');
            }
        }
        self.lines = 0;
        self.space = false;
        self.text.push_str(word);
    }

    fn line(&mut self, lines: usize) {
        self.lines = self.lines.max(lines);
    }

    fn image(&mut self, tag: &StartTag<()>) {
        let alt = attribute(tag, b"alt");
        let words: Vec<&str> = alt.split_ascii_whitespace().collect();
        if !words.is_empty() {
            self.space = true;
            self.word(&format!("[image: {}]", words.join(" ")));
            self.space = true;
        }
    }

    fn begin_link(&mut self, tag: &StartTag<()>) {
        self.end_link();
        let target = attribute(tag, b"href");
        let target = target.trim();
        let lower = target.to_ascii_lowercase();
        let schemes = ["http://", "https://", "mailto:"];
        if schemes.iter().any(|scheme| lower.starts_with(scheme)) {
            self.link = Some((target.to_owned(), self.text.len()));
        }
    }

    /// A link says where it goes, unless its text does.
    fn end_link(&mut self) {
        let Some((target, begins)) = self.link.take() else {
            return;
        };
        let shown = self.text.get(begins..).unwrap_or_default().trim();
        let plain = target.strip_prefix("mailto:").unwrap_or(&target);
        if !shown.is_empty() && shown != plain && shown != target {
            self.space = true;
            self.word(&format!("<{target}>"));
        }
    }

    fn finish(mut self) -> Readable {
        self.end_link();
        Readable {
            text: self.text,
            hidden: self.hidden,
        }
    }
}

/// The value of an attribute; empty where there is none.
fn attribute(tag: &StartTag<()>, name: &[u8]) -> String {
    let found = tag
        .attributes
        .iter()
        .find(|(known, _)| ***known == *name)
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned());
    found.unwrap_or_default()
}

/// Elements whose content is no text for people.
fn is_no_text(name: &[u8]) -> bool {
    matches!(
        name,
        b"script"
            | b"style"
            | b"head"
            | b"title"
            | b"template"
            | b"noscript"
            | b"iframe"
            | b"object"
            | b"svg"
            | b"math"
            | b"textarea"
            | b"select"
            | b"audio"
            | b"video"
            | b"canvas"
            | b"noembed"
            | b"noframes"
    )
}

/// Elements that have no end.
fn is_void(name: &[u8]) -> bool {
    matches!(
        name,
        b"area"
            | b"base"
            | b"br"
            | b"col"
            | b"embed"
            | b"hr"
            | b"img"
            | b"input"
            | b"link"
            | b"meta"
            | b"param"
            | b"source"
            | b"track"
            | b"wbr"
    )
}

/// Line ends before and behind an element.
fn lines_around(name: &[u8]) -> usize {
    match name {
        b"p" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" | b"blockquote" | b"ul" | b"ol"
        | b"dl" | b"table" => 2,
        b"div" | b"tr" | b"li" | b"section" | b"article" | b"header" | b"footer" | b"main"
        | b"nav" | b"aside" | b"address" | b"dt" | b"dd" | b"figure" | b"figcaption"
        | b"center" | b"form" | b"fieldset" | b"body" | b"html" => 1,
        _ => 0,
    }
}

/// What an element says of itself about being seen.
fn style_of(tag: &StartTag<()>) -> Style {
    let hidden = tag.attributes.keys().any(|name| ***name == *b"hidden");
    let mut style = Style::of(&tag.name, &attribute(tag, b"style"), hidden);
    // The old element for fonts has a size of its own, which is never nothing.
    if *tag.name == *b"font" && !attribute(tag, b"size").trim().is_empty() {
        style.hides[0] = style.hides[0].or(Some(false));
    }
    style
}

#[cfg(test)]
mod tests;
