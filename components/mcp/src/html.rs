//! Converts HTML to readable text. Omits and reports content that the sender hides from people.
//!
//! The tokenizer and the module [`tree`] follow the HTML standard. Style sheets ([`sheet`]), styles
//! ([`style`]), colours and positions determine the visibility of text. Time and memory grow at
//! most linearly with the size of the HTML, even for deeply nested or malformed HTML. [`Steps`]
//! limits the cost of style sheets.

mod colour;
mod length;
mod link;
mod position;
mod sheet;
mod steps;
mod style;
mod tree;

use html5gum::emitters::default::{DefaultEmitter, StartTag};
use html5gum::{Token, Tokenizer};
use url::Url;

use colour::Paint;
use sheet::{Rules, Sheet};
use steps::Steps;
use style::{Cascade, INHERITED, Style, VISIBILITY};
use tree::{Nodes, Stack};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Readable {
    pub(crate) text: String,
    /// Whether hidden text was found.
    pub(crate) hidden: bool,
    /// Whether the visibility of some text is unknown. In this case, the output might contain
    /// hidden text.
    pub(crate) incomplete: bool,
}

/// Converts HTML to text.
pub(crate) fn readable(html: &str) -> Readable {
    let rules = rules(html);
    let sheet = Sheet::new(&rules);
    let steps = Steps::new();
    let mut writer = Writer {
        text: String::new(),
        pending_lines: 0,
        pending_space: false,
        stack: Stack::new(),
        nodes: Nodes::new(sheet.has_attributes),
        sheet: &sheet,
        steps: &steps,
        hidden: false,
        uncertain: false,
        preformatted: 0,
        link: None,
        base: None,
    };
    for token in tokens(html) {
        match token {
            Token::StartTag(tag) => writer.open(&tag),
            Token::EndTag(tag) => writer.close(&tag.name),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    writer.finish()
}

fn tokens(html: &str) -> impl Iterator<Item = Token> {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter).flatten()
}

/// Returns the rules of all style elements. A rule also applies to elements before its style
/// element.
fn rules(html: &str) -> Rules {
    let mut rules = Rules::default();
    let mut bytes = html.as_bytes().windows(6);
    if !bytes.any(|six| six.eq_ignore_ascii_case(b"<style")) {
        return rules;
    }
    let mut media = None;
    let mut sheet = String::new();
    for token in tokens(html) {
        match token {
            Token::StartTag(tag) if *tag.name == *b"style" => {
                media = Some(attribute(&tag, b"media"));
                sheet.clear();
            }
            Token::String(text) if media.is_some() => {
                sheet.push_str(&String::from_utf8_lossy(&text));
            }
            Token::StartTag(_) | Token::EndTag(_) => {
                if let Some(media) = media.take() {
                    rules.add(&sheet, &media);
                }
            }
            _ => {}
        }
    }
    if let Some(media) = media {
        rules.add(&sheet, &media);
    }
    rules
}

#[derive(Clone, Copy, Debug)]
struct Visibility {
    style: Style,
    /// The index of the element in [`Nodes`].
    node: Option<usize>,
    /// Whether all content of the element is invisible.
    invisible: bool,
    /// Whether people never see the content of the element as text. An example is a script.
    no_text: bool,
    /// For each inherited property, whether the property hides the text.
    hidden_by: [bool; INHERITED],
    colour: Paint,
    background: Paint,
}

const INITIAL: Visibility = Visibility {
    style: Style {
        invisible: false,
        hides: [None; INHERITED],
        colour: None,
        background: None,
    },
    node: None,
    invisible: false,
    no_text: false,
    hidden_by: [false; INHERITED],
    colour: colour::BLACK,
    background: colour::WHITE,
};

/// Compares only the styles. [`Stack`] needs this comparison to detect repeated formatting
/// elements.
impl PartialEq for Visibility {
    fn eq(&self, other: &Self) -> bool {
        self.style == other.style
    }
}

impl Visibility {
    fn of_child(&self, name: &[u8], style: Style, node: Option<usize>) -> Self {
        let mut hidden_by = self.hidden_by;
        for (hidden_by, own) in hidden_by.iter_mut().zip(style.hides) {
            *hidden_by = own.unwrap_or(*hidden_by);
        }
        let background = style.background.unwrap_or(Paint::Transparent);
        Self {
            style,
            node,
            invisible: self.invisible || style.invisible,
            no_text: self.no_text || is_no_text(name),
            hidden_by,
            colour: style.colour.unwrap_or(self.colour),
            background: colour::blend(background, self.background),
        }
    }

    fn is_skipped(&self) -> bool {
        self.invisible || self.no_text
    }

    /// Returns whether text is hidden by a property other than its colour.
    fn is_hidden(&self) -> bool {
        self.invisible || self.hidden_by.contains(&true)
    }

    /// Returns whether the colour of the text makes the text invisible on its background.
    fn blends(&self) -> bool {
        colour::is_invisible(self.colour, self.background)
    }
}

/// A link whose end tag was not processed yet.
struct Link {
    target: String,
    /// The offset of the link's text in the output.
    begins: usize,
    image: bool,
}

struct Writer<'s> {
    text: String,
    /// The number of line breaks to write before the next word.
    pending_lines: usize,
    /// Whether to write a space before the next word.
    pending_space: bool,
    stack: Stack<Visibility>,
    nodes: Nodes,
    sheet: &'s Sheet<'s>,
    steps: &'s Steps,
    hidden: bool,
    /// Whether the visibility of some text in the output is unknown.
    uncertain: bool,
    /// The number of open elements that preserve white space, such as `pre`.
    preformatted: usize,
    link: Option<Link>,
    base: Option<Url>,
}

impl Writer<'_> {
    fn open(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if name == b"base" && self.base.is_none() {
            self.base = link::base(&attribute(tag, b"href"));
        }
        let changed = self.stack.close_implied(name);
        self.update_visibility(changed);
        let parent = self.visibility();
        if parent.is_skipped() {
            if !is_void(name) {
                self.stack
                    .push(name, parent.of_child(name, Style::default(), parent.node));
            }
            return;
        }
        let node = (!self.sheet.is_empty()).then(|| self.nodes.add(tag, parent.node));
        let visibility = parent.of_child(name, self.style(tag, node), node);
        if is_void(name) {
            if visibility.invisible || visibility.hidden_by[VISIBILITY] {
                return;
            }
        } else {
            // Content of an element beyond the depth limit counts as content of the innermost open
            // element. If such an element is hidden, all following content of the open element
            // counts as hidden.
            if !self.stack.is_within_limit()
                && let Some(top) = self.stack.top_mut()
            {
                top.invisible |= visibility.is_hidden() || visibility.blends();
            }
            self.stack.push(name, visibility);
            if visibility.is_skipped() {
                return;
            }
        }
        match name {
            b"br" => self.pending_lines += 1,
            b"img" => self.image(tag),
            b"area" => self.area(tag),
            b"li" => {
                self.break_lines(1);
                if !self.hides_text() {
                    self.word("- ");
                }
            }
            b"td" | b"th" => self.pending_space = true,
            b"hr" => {
                self.break_lines(1);
                self.word("---");
                self.break_lines(1);
            }
            b"pre" => {
                self.break_lines(2);
                self.preformatted += 1;
            }
            b"a" => self.begin_link(tag),
            _ => self.break_lines(lines_around(name)),
        }
    }

    fn visibility(&self) -> Visibility {
        self.stack.top().copied().unwrap_or(INITIAL)
    }

    /// Returns the style of an element. The sources are the element's attributes, the style sheets
    /// and the `style` attribute.
    fn style(&self, tag: &StartTag<()>, node: Option<usize>) -> Style {
        let mut cascade = Cascade::default();
        tree::presentational_hints(tag, |property, value| cascade.hint(property, value));
        if let Some(node) = node {
            let node = self.nodes.node(node, self.steps);
            self.sheet.apply(&node, self.steps, &mut cascade);
        }
        let own = attribute(tag, b"style");
        style::declarations(&own, &mut |declaration| cascade.add(declaration));
        cascade.style(&tag.name)
    }

    /// Recomputes the visibility of the open elements, starting at index `from`.
    fn update_visibility(&mut self, from: Option<usize>) {
        let Some(from) = from else { return };
        let mut parent = self.stack.parent_of(from).copied().unwrap_or(INITIAL);
        for (name, visibility) in self.stack.from(from) {
            *visibility = parent.of_child(name, visibility.style, visibility.node);
            parent = *visibility;
        }
    }

    /// Returns whether text at the current position is hidden.
    fn hides_text(&self) -> bool {
        let top = self.visibility();
        top.is_hidden() || top.blends() && !self.sheet.skipped_background
    }

    fn close(&mut self, name: &[u8]) {
        match self.stack.close(name) {
            Some((from, ended)) => {
                self.update_visibility(Some(from));
                if ended.is_skipped() {
                    return;
                }
            }
            None if self.visibility().is_skipped() => return,
            None => {}
        }
        match name {
            b"a" => self.end_link(),
            b"pre" => {
                self.preformatted = self.preformatted.saturating_sub(1);
                self.break_lines(2);
            }
            _ => self.break_lines(lines_around(name)),
        }
    }

    fn text(&mut self, text: &str) {
        let top = self.visibility();
        if top.no_text {
            return;
        }
        let is_blank = text.trim().is_empty();
        if self.hides_text() {
            self.hidden |= !is_blank;
            self.pending_space |=
                !top.invisible && text.contains(|c: char| c.is_ascii_whitespace());
            return;
        }
        self.uncertain |= (top.blends() || top.colour == Paint::Unknown) && !is_blank;
        if self.preformatted > 0 {
            for (number, line) in text.split('\n').enumerate() {
                self.pending_lines += usize::from(number > 0);
                if !line.is_empty() {
                    self.word(line);
                }
            }
            return;
        }
        let is_space = |c: char| c.is_ascii_whitespace();
        self.pending_space |= text.starts_with(is_space);
        for (number, word) in text
            .split(is_space)
            .filter(|word| !word.is_empty())
            .enumerate()
        {
            self.pending_space |= number > 0;
            self.word(word);
        }
        self.pending_space |= text.ends_with(is_space);
    }

    /// Writes pending line breaks and spaces, and then a word.
    fn word(&mut self, word: &str) {
        if !self.text.is_empty() {
            // The output has at most one empty line between two paragraphs.
            for _ in 0..self.pending_lines.min(2) {
                self.text.push('\n');
            }
            if self.pending_lines == 0 && self.pending_space && !self.text.ends_with(' ') {
                self.text.push(' ');
            }
        }
        self.pending_lines = 0;
        self.pending_space = false;
        self.text.push_str(word);
    }

    /// Ends the current line with at least `lines` line breaks.
    fn break_lines(&mut self, lines: usize) {
        self.pending_lines = self.pending_lines.max(lines);
    }

    fn image(&mut self, tag: &StartTag<()>) {
        // Images of one pixel are invisible. Senders use such images to detect whether a recipient
        // opened the message.
        let is_pixel = [&b"width"[..], b"height"]
            .iter()
            .any(|size| matches!(attribute(tag, size).trim(), "0" | "1"));
        if let Some(link) = &mut self.link {
            link.image |= !is_pixel;
        }
        self.alt(tag);
    }

    fn alt(&mut self, tag: &StartTag<()>) {
        let alt = attribute(tag, b"alt");
        let words: Vec<&str> = alt.split_ascii_whitespace().collect();
        if !words.is_empty() {
            self.pending_space = true;
            self.word(&format!("[image: {}]", words.join(" ")));
            self.pending_space = true;
        }
    }

    fn area(&mut self, tag: &StartTag<()>) {
        if let Some(target) = link::target(&attribute(tag, b"href"), self.base.as_ref()) {
            self.alt(tag);
            self.pending_space = true;
            self.word(&format!("<{target}>"));
            self.pending_space = true;
        }
    }

    fn begin_link(&mut self, tag: &StartTag<()>) {
        self.end_link();
        self.link = link::target(&attribute(tag, b"href"), self.base.as_ref()).map(|target| Link {
            target,
            begins: self.text.len(),
            image: false,
        });
    }

    /// Writes the target of a link, unless the link's text equals the target.
    fn end_link(&mut self) {
        let Some(link) = self.link.take() else {
            return;
        };
        let shown = self.text.get(link.begins..).unwrap_or_default().trim();
        let is_there = !shown.is_empty() || link.image;
        if is_there && !link::names(shown, &link.target) {
            self.pending_space = true;
            self.word(&format!("<{}>", link.target));
        }
    }

    fn finish(mut self) -> Readable {
        self.end_link();
        Readable {
            incomplete: self.uncertain || self.sheet.is_incomplete(self.steps),
            text: self.text,
            hidden: self.hidden,
        }
    }
}

/// Returns the value of an attribute, or an empty string if it is absent.
fn attribute(tag: &StartTag<()>, name: &[u8]) -> String {
    let found = tag
        .attributes
        .iter()
        .find(|(known, _)| ***known == *name)
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned());
    found.unwrap_or_default()
}

/// Returns whether people never see the content of an element as text.
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

/// Returns whether an element has no end tag.
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

/// Returns the number of line breaks before and after an element.
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

#[cfg(test)]
mod tests;
