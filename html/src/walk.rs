//! Walks through the elements of a document and decides which text is visible.

use std::ops::ControlFlow;

use url::Url;

use crate::colour::{self, Paint};
use crate::kind::{Kind, is_dense, kind_of};
use crate::link;
use crate::nodes::{Nodes, Steps};
use crate::sheet::{Rules, Sheet, Sheets};
use crate::stack::Stack;
use crate::style::{self, Cascade, INHERITED, Style, VISIBILITY};
use crate::tag::{Tag, Token, VOID, tokenize};
use crate::text::{Form, Writer, lines_around};

/// Elements whose content people never see as text.
const NO_TEXT: [&str; 16] = [
    "script", "style", "title", "template", "noscript", "iframe", "object", "svg", "math",
    "textarea", "select", "audio", "video", "canvas", "noembed", "noframes",
];

/// The visible content of a document.
pub(crate) struct Found {
    pub(crate) writer: Writer,
    /// Whether hidden text was found.
    pub(crate) hidden: bool,
    /// Whether the visibility of some text is unknown. Always `false` for other forms than
    /// [`Form::Readable`].
    pub(crate) incomplete: bool,
}

/// Writes the visible text in this form. Stops after `length` bytes of text.
pub(crate) fn walk(html: &str, form: Form, length: usize) -> Found {
    let sheets = Sheets::of(html);
    let rules = Rules::of(&sheets);
    let sheet = Sheet::new(&rules);
    let steps = Steps::new(html.len());
    let mut walker = Walker {
        writer: Writer::new(form),
        stack: Stack::new(),
        nodes: Nodes::new(rules.have_attributes),
        sheet: &sheet,
        steps: &steps,
        hidden: false,
        uncertain: false,
        link: None,
        base: None,
    };
    tokenize(html, |token| {
        match token {
            Token::Open(tag) => walker.open(tag),
            Token::Close(name) => walker.close(name),
            Token::Text(text) => walker.text(text),
        }
        if walker.writer.text.len() < length {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    walker.end_link();
    Found {
        incomplete: form == Form::Readable && (walker.uncertain || sheet.is_incomplete(&steps)),
        writer: walker.writer,
        hidden: walker.hidden,
    }
}

/// The properties of an element that do not depend on outer elements.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    style: Style,
    /// The index of the element in [`Nodes`].
    node: Option<usize>,
    kind: Option<Kind>,
    /// The number of line breaks before and after the element.
    lines: usize,
}

/// The visibility of an element's content.
#[derive(Clone, Copy, Debug)]
struct Visibility {
    own: Own,
    /// Whether all content of the element is invisible.
    invisible: bool,
    /// Whether people never see the content of the element as text. An example is a script.
    no_text: bool,
    /// For each inherited property, whether the property hides the text.
    hidden_by: [bool; INHERITED],
    colour: Paint,
    background: Paint,
    /// Whether the element preserves white space.
    preformatted: bool,
    kind: Kind,
}

const INITIAL: Visibility = Visibility {
    own: Own {
        style: Style {
            invisible: false,
            hides: [None; INHERITED],
            colour: None,
            background: None,
        },
        node: None,
        kind: None,
        lines: 0,
    },
    invisible: false,
    no_text: false,
    hidden_by: [false; INHERITED],
    colour: colour::BLACK,
    background: colour::WHITE,
    preformatted: false,
    kind: Kind::Text,
};

/// Compares only the styles. [`Stack`] needs this comparison to detect repeated formatting
/// elements.
impl PartialEq for Visibility {
    fn eq(&self, other: &Self) -> bool {
        self.own.style == other.own.style
    }
}

impl Visibility {
    fn of_child(&self, name: &str, own: Own) -> Self {
        let mut hidden_by = self.hidden_by;
        for (hidden_by, own) in hidden_by.iter_mut().zip(own.style.hides) {
            *hidden_by = own.unwrap_or(*hidden_by);
        }
        let background = own.style.background.unwrap_or(Paint::Transparent);
        Self {
            own,
            invisible: self.invisible || own.style.invisible,
            no_text: self.no_text || NO_TEXT.contains(&name),
            hidden_by,
            colour: own.style.colour.unwrap_or(self.colour),
            background: colour::blend(background, self.background),
            preformatted: self.preformatted || name == "pre",
            kind: match self.kind {
                Kind::Text => own.kind.unwrap_or_default(),
                outer => outer,
            },
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

struct Walker<'s, 'r> {
    writer: Writer,
    stack: Stack<Visibility>,
    nodes: Nodes,
    sheet: &'s Sheet<'r>,
    steps: &'s Steps,
    hidden: bool,
    /// Whether the visibility of some text in the output is unknown.
    uncertain: bool,
    link: Option<Link>,
    base: Option<Url>,
}

impl Walker<'_, '_> {
    fn open(&mut self, tag: &Tag) {
        let name = tag.name();
        let is_readable = self.writer.form == Form::Readable;
        if name == "base" && is_readable && self.base.is_none() {
            self.base = link::base(tag.attribute("href"));
        }
        let changed = self.stack.close_implied(name);
        self.update_visibility(changed);
        let parent = self.visibility();
        if parent.is_skipped() {
            if !VOID.contains(&name) {
                let own = Own {
                    node: parent.own.node,
                    ..Own::default()
                };
                self.stack.push(name, parent.of_child(name, own));
            }
            return;
        }
        let node = (!self.sheet.is_empty()).then(|| self.nodes.add(tag, parent.own.node));
        if name == "head" {
            // Do not open the element: browsers show text that is directly in a head as part of the
            // body.
            return;
        }
        let own = self.own(tag, node);
        let visibility = parent.of_child(name, own);
        if VOID.contains(&name) {
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
        if own.kind == Some(Kind::Cut) {
            self.writer.cut();
        }
        self.writer.break_lines(own.lines);
        match name {
            "br" => self.writer.add_line(),
            "td" | "th" => self.writer.space(),
            "img" | "button" | "caption" | "legend" | "summary" if !is_readable => {
                self.writer.space();
            }
            _ if !is_readable => {}
            "img" => self.image(tag),
            "area" => self.area(tag),
            "li" if !self.hides_text() => self.writer.word("- ", Kind::Text),
            "hr" => {
                self.writer.word("---", Kind::Text);
                self.writer.break_lines(1);
            }
            "a" => self.begin_link(tag),
            _ => {}
        }
    }

    fn visibility(&self) -> Visibility {
        self.stack.top().copied().unwrap_or(INITIAL)
    }

    fn own(&self, tag: &Tag, node: Option<usize>) -> Own {
        let name = tag.name();
        let is_lines = self.writer.form == Form::Lines;
        let kind = is_lines.then(|| kind_of(tag)).flatten();
        Own {
            style: self.style(tag, node),
            node,
            kind,
            lines: match name {
                "p" if is_lines && is_dense(tag) => 1,
                _ => self.lines_around(name),
            },
        }
    }

    fn lines_around(&self, name: &str) -> usize {
        let is_lines = self.writer.form == Form::Lines;
        match name {
            "blockquote" | "table" | "pre" if is_lines => 1,
            _ => lines_around(name),
        }
    }

    /// Returns the style of an element. The sources are the element's attributes, the style sheets
    /// and the `style` attribute.
    fn style(&self, tag: &Tag, node: Option<usize>) -> Style {
        let mut cascade = Cascade::default();
        presentational_hints(tag, |property, value| cascade.hint(property, value));
        if let Some(node) = node {
            let node = self.nodes.node(node, self.steps);
            self.sheet.apply(&node, self.steps, &mut cascade);
        }
        style::inline(tag.attribute("style"), &mut |declaration| {
            cascade.add(declaration);
        });
        cascade.style(tag.name())
    }

    /// Recomputes the visibility of the open elements, starting at index `from`.
    fn update_visibility(&mut self, from: Option<usize>) {
        let Some(from) = from else { return };
        let mut parent = self.stack.parent_of(from).copied().unwrap_or(INITIAL);
        for (name, visibility) in self.stack.from(from) {
            *visibility = parent.of_child(name, visibility.own);
            parent = *visibility;
        }
    }

    /// Returns whether text at the current position is hidden.
    fn hides_text(&self) -> bool {
        let top = self.visibility();
        top.is_hidden() || top.blends() && !self.sheet.skips_background()
    }

    fn close(&mut self, name: &str) {
        let mut lines = self.lines_around(name);
        // Text after the end of the body belongs to the innermost open element.
        if !matches!(name, "body" | "html") {
            match self.stack.close(name) {
                Some((from, ended)) => {
                    self.update_visibility(Some(from));
                    if ended.is_skipped() {
                        return;
                    }
                    lines = ended.own.lines;
                }
                None if self.visibility().is_skipped() => return,
                None => {}
            }
        }
        if name == "a" {
            self.end_link();
        }
        self.writer.break_lines(lines);
    }

    fn text(&mut self, text: &str) {
        let top = self.visibility();
        if top.no_text {
            return;
        }
        let is_blank = text.trim().is_empty();
        if self.hides_text() {
            self.hidden |= !is_blank;
            if !top.invisible && text.contains(|c: char| c.is_ascii_whitespace()) {
                self.writer.space();
            }
            return;
        }
        self.uncertain |= (top.blends() || top.colour == Paint::Unknown) && !is_blank;
        if top.preformatted {
            self.writer.preformatted(text, top.kind);
        } else {
            self.writer.flowing(text, top.kind);
        }
    }

    fn image(&mut self, tag: &Tag) {
        // Images of one pixel are invisible. Senders use such images to detect whether a recipient
        // opened the message.
        let is_pixel = ["width", "height"]
            .into_iter()
            .any(|size| matches!(tag.attribute(size).trim(), "0" | "1"));
        if let Some(link) = &mut self.link {
            link.image |= !is_pixel;
        }
        self.alt(tag);
    }

    fn alt(&mut self, tag: &Tag) {
        let alt = tag.attribute("alt");
        let words: Vec<&str> = alt.split_ascii_whitespace().collect();
        if !words.is_empty() {
            let image = format!("[image: {}]", words.join(" "));
            self.writer.spaced(&image, Kind::Text);
        }
    }

    fn area(&mut self, tag: &Tag) {
        if let Some(target) = link::target(tag.attribute("href"), self.base.as_ref()) {
            self.alt(tag);
            self.writer.spaced(&format!("<{target}>"), Kind::Text);
        }
    }

    fn begin_link(&mut self, tag: &Tag) {
        self.end_link();
        let target = link::target(tag.attribute("href"), self.base.as_ref());
        self.link = target.map(|target| Link {
            target,
            begins: self.writer.text.len(),
            image: false,
        });
    }

    /// Writes the target of a link, unless the link's text equals the target.
    fn end_link(&mut self) {
        let Some(link) = self.link.take() else {
            return;
        };
        let text = &self.writer.text;
        let shown = text.get(link.begins..).unwrap_or_default().trim();
        let is_there = !shown.is_empty() || link.image;
        if is_there && !link::names(shown, &link.target) {
            self.writer.space();
            let target = format!("<{}>", link.target);
            self.writer.word(&target, Kind::Text);
        }
    }
}

/// Converts the presentational attributes of an element to style properties. Passes each property
/// to `add`.
fn presentational_hints(tag: &Tag, mut add: impl FnMut(&str, &str)) {
    let mut colour = |property: &str, attribute: &str| {
        let value = tag.attribute(attribute).trim();
        if !value.is_empty() {
            add(property, &value.to_ascii_lowercase());
        }
    };
    colour("background-color", "bgcolor");
    match tag.name() {
        "font" => colour("color", "color"),
        "body" => colour("color", "text"),
        _ => {}
    }
    match tag.name() {
        // All sizes that the attribute can select are visible.
        "font" if tag.has("size") => add("font-size", "medium"),
        // Links do not inherit the colour of the surrounding text.
        "a" if tag.has("href") => add("color", "#0000ee"),
        "dialog" if !tag.has("open") => add("display", "none"),
        _ => {}
    }
    if tag.has("hidden") || tag.has("popover") {
        add("display", "none");
    }
    if tag.has("background") {
        add("background-image", "url()");
    }
}
