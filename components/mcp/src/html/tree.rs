//! The elements of a message: those that are open, and what selectors ask about all of them.
//!
//! Elements end as browsers end them, also where no tag does: a paragraph by the next block, a cell by the next cell. An element for formatting that is open
//! when a block ends goes on behind it.

use std::collections::HashMap;

use html5gum::emitters::default::StartTag;
use simplecss::{AttributeOperator, Element, PseudoClass};

use super::attribute;
use super::sheet::Steps;

/// Elements in each other. Newsletters have up to 100; browsers stop at 512.
const DEEPEST: usize = 256;

/// What selectors ask about an element.
#[derive(Debug)]
struct Known {
    name: String,
    /// Names and values. In pages without a document type, ids and classes are the same in any case; mail often has none.
    attributes: Vec<(String, String)>,
    parent: Option<usize>,
    /// The element before it in the same parent.
    before: Option<usize>,
    /// The last element in it so far.
    last: Option<usize>,
}

/// All elements that selectors may ask about.
#[derive(Debug)]
pub(super) struct Nodes {
    all: Vec<Known>,
    /// The last element that is in no other.
    last: Option<usize>,
    /// Whether attributes other than the id and the class are asked about.
    has_attributes: bool,
}

impl Nodes {
    pub(super) fn new(has_attributes: bool) -> Self {
        Self {
            all: Vec::new(),
            last: None,
            has_attributes,
        }
    }

    /// Adds an element.
    pub(super) fn add(&mut self, tag: &StartTag<()>, parent: Option<usize>) -> usize {
        let at = self.all.len();
        let last = match parent {
            Some(parent) => &mut self.all[parent].last,
            None => &mut self.last,
        };
        let before = last.replace(at);
        let attributes = tag
            .attributes
            .iter()
            .filter(|(name, _)| self.has_attributes || matches!(&name[..], b"id" | b"class"))
            .map(|(name, value)| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
                (text(name), text(value))
            })
            .collect();
        self.all.push(Known {
            name: String::from_utf8_lossy(&tag.name).into_owned(),
            attributes,
            parent,
            before,
            last: None,
        });
        at
    }

    /// An element as selectors see it.
    pub(super) fn node<'n>(&'n self, at: usize, steps: &'n Steps) -> Node<'n> {
        Node {
            nodes: self,
            steps,
            at,
        }
    }
}

/// An element as selectors see it. Each question is a step; where none is left, there is no answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'n> {
    nodes: &'n Nodes,
    steps: &'n Steps,
    at: usize,
}

impl<'n> Node<'n> {
    fn known(&self) -> &'n Known {
        &self.nodes.all[self.at]
    }

    pub(super) fn name(&self) -> &'n str {
        &self.known().name
    }

    fn attribute(&self, wanted: &str) -> Option<&'n str> {
        let mut all = self.known().attributes.iter();
        all.find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn id(&self) -> Option<&'n str> {
        self.attribute("id")
    }

    pub(super) fn classes(&self) -> impl Iterator<Item = &'n str> {
        self.attribute("class")
            .unwrap_or_default()
            .split_ascii_whitespace()
    }

    fn at(&self, at: Option<usize>) -> Option<Self> {
        at.filter(|_| self.steps.take())
            .map(|at| Self { at, ..*self })
    }
}

impl Element for Node<'_> {
    fn parent_element(&self) -> Option<Self> {
        self.at(self.known().parent)
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        self.at(self.known().before)
    }

    fn has_local_name(&self, name: &str) -> bool {
        self.steps.take() && self.name() == name
    }

    fn attribute_matches(&self, name: &str, operator: AttributeOperator<'_>) -> bool {
        if !self.steps.take() {
            return false;
        }
        match (self.attribute(name), operator) {
            (None, _) => false,
            (Some(value), AttributeOperator::Contains(word)) => {
                value.split_ascii_whitespace().any(|one| one == word)
            }
            (Some(value), operator) => operator.matches(value),
        }
    }

    fn pseudo_class_matches(&self, class: PseudoClass<'_>) -> bool {
        match class {
            PseudoClass::FirstChild => self.known().before.is_none(),
            PseudoClass::Link => self.name() == "a",
            _ => false,
        }
    }
}

/// An element that is open.
#[derive(Debug)]
struct Open<T> {
    name: Vec<u8>,
    what: T,
}

/// The elements that are open, with something that is known of each.
#[derive(Debug)]
pub(super) struct Stack<T> {
    open: Vec<Open<T>>,
    /// How many of each name are open.
    names: HashMap<Vec<u8>, usize>,
    /// How many of each name are open beyond the limit. They are not told apart from what they are in.
    beyond: HashMap<Vec<u8>, usize>,
}

impl<T: Copy + PartialEq> Stack<T> {
    pub(super) fn new() -> Self {
        Self {
            open: Vec::new(),
            names: HashMap::new(),
            beyond: HashMap::new(),
        }
    }

    /// The innermost element.
    pub(super) fn top(&self) -> Option<&T> {
        self.open.last().map(|open| &open.what)
    }

    /// The same, to be changed.
    pub(super) fn top_mut(&mut self) -> Option<&mut T> {
        self.open.last_mut().map(|open| &mut open.what)
    }

    /// All from the one at `at` on, the outermost first, each with its name.
    pub(super) fn from(&mut self, at: usize) -> impl Iterator<Item = (&[u8], &mut T)> {
        self.open[at..]
            .iter_mut()
            .map(|open| (&open.name[..], &mut open.what))
    }

    /// What is known of the one before the one at `at`.
    pub(super) fn before(&self, at: usize) -> Option<&T> {
        self.open.get(at.checked_sub(1)?).map(|open| &open.what)
    }

    /// Whether an element has a place of its own.
    pub(super) fn has_room(&self) -> bool {
        self.beyond.is_empty() && self.open.len() < DEEPEST
    }

    /// Opens an element. Where there is no room it is counted, and forgotten.
    pub(super) fn push(&mut self, name: &[u8], what: T) {
        if self.has_room() {
            *self.names.entry(name.to_vec()).or_default() += 1;
            self.open.push(Open {
                name: name.to_vec(),
                what,
            });
        } else {
            *self.beyond.entry(name.to_vec()).or_default() += 1;
        }
    }

    /// Ends what ends where an element begins. Returns from where on the open elements are others than before.
    pub(super) fn begins(&mut self, name: &[u8]) -> Option<usize> {
        if !self.beyond.is_empty() {
            return None;
        }
        let mut changed = None;
        let mut end = |stack: &mut Self, ended: &[&[u8]], within: &[&[u8]]| {
            while let Some(at) = stack.find(ended, within) {
                let from = stack.remove(at);
                changed = Some(changed.map_or(from, |before: usize| before.min(from)));
            }
        };
        match name {
            b"li" => end(self, &[b"li"], &[b"ul", b"ol", b"td", b"th", b"table"]),
            b"dt" | b"dd" => end(self, &[b"dt", b"dd"], &[b"dl", b"td", b"th", b"table"]),
            b"td" | b"th" => end(self, &[b"td", b"th"], &[b"table"]),
            b"tr" => end(self, &[b"td", b"th", b"tr"], &[b"table"]),
            b"tbody" | b"thead" | b"tfoot" => {
                end(
                    self,
                    &[b"td", b"th", b"tr", b"tbody", b"thead", b"tfoot"],
                    &[b"table"],
                );
            }
            b"a" => end(self, &[b"a"], &[b"td", b"th", b"table"]),
            _ => {}
        }
        if super::lines_around(name) > 0 {
            end(self, &[b"p"], &[b"td", b"th", b"table", b"button"]);
        }
        if !is_in_head(name) {
            end(self, &[b"head"], &[]);
        }
        changed
    }

    /// Ends an element by its tag. Returns what is known of it, and from where on the open elements are others than before.
    pub(super) fn ends(&mut self, name: &[u8]) -> Option<(usize, T)> {
        if let Some(left) = self.beyond.get_mut(name) {
            *left -= 1;
            if *left == 0 {
                self.beyond.remove(name);
            }
            return None;
        }
        let within: &[&[u8]] = match name {
            b"table" => &[],
            b"td" | b"th" | b"tr" | b"tbody" | b"thead" | b"tfoot" => &[b"table"],
            b"li" => &[b"ul", b"ol", b"td", b"th", b"table"],
            _ => &[b"td", b"th", b"table"],
        };
        let at = self.find(&[name], within)?;
        // What is open beyond the limit is in it.
        self.beyond.clear();
        let what = self.open[at].what;
        Some((self.remove(at), what))
    }

    /// The innermost element that has one of these names, in none of those.
    fn find(&self, names: &[&[u8]], within: &[&[u8]]) -> Option<usize> {
        if !names.iter().any(|name| self.names.contains_key(*name)) {
            return None;
        }
        for (at, open) in self.open.iter().enumerate().rev() {
            if names.contains(&&open.name[..]) {
                return Some(at);
            }
            if within.contains(&&open.name[..]) {
                return None;
            }
        }
        None
    }

    /// Ends an element with all that is in it, but for what goes on behind it. Returns its place.
    fn remove(&mut self, at: usize) -> usize {
        let above = self.open.split_off(at);
        let mut ended = above.into_iter();
        let first = ended.next();
        let name = first.as_ref().map(|first| first.name.clone());
        let name = name.unwrap_or_default();
        let mut left: Vec<Open<T>> = first.into_iter().collect();
        for open in ended {
            // An element for formatting ends alone; what is in a cell or a table ends with it.
            let stays = is_formatting(&name) || is_formatting(&open.name) && !is_of_a_table(&name);
            let again = |known: &Open<T>| known.name == open.name && known.what == open.what;
            let is_again = || is_formatting(&open.name) && self.open[at..].iter().any(again);
            if stays && !is_again() {
                self.open.push(open);
            } else {
                left.push(open);
            }
        }
        for open in left {
            if let Some(count) = self.names.get_mut(&open.name) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(&open.name);
                }
            }
        }
        at
    }
}

/// Elements that go on where the block ends that they are in.
fn is_formatting(name: &[u8]) -> bool {
    matches!(
        name,
        b"a" | b"b"
            | b"big"
            | b"code"
            | b"em"
            | b"font"
            | b"i"
            | b"nobr"
            | b"s"
            | b"small"
            | b"strike"
            | b"strong"
            | b"tt"
            | b"u"
    )
}

fn is_of_a_table(name: &[u8]) -> bool {
    matches!(
        name,
        b"table" | b"tbody" | b"thead" | b"tfoot" | b"tr" | b"td" | b"th"
    )
}

/// Elements that a head may hold.
fn is_in_head(name: &[u8]) -> bool {
    matches!(
        name,
        b"head"
            | b"title"
            | b"style"
            | b"script"
            | b"meta"
            | b"link"
            | b"base"
            | b"noscript"
            | b"template"
            | b"basefont"
            | b"bgsound"
    )
}

/// What an element says of itself in attributes, as properties of styles.
pub(super) fn hints(tag: &StartTag<()>, mut say: impl FnMut(&str, &str)) {
    let has = |name: &[u8]| tag.attributes.keys().any(|known| ***known == *name);
    let given = |name: &[u8]| {
        let value = attribute(tag, name).trim().to_ascii_lowercase();
        Some(value).filter(|value| !value.is_empty())
    };
    let gone = has(b"hidden") || has(b"popover") || *tag.name == *b"dialog" && !has(b"open");
    if gone {
        say("display", "none");
    }
    if let Some(colour) = given(b"bgcolor") {
        say("background-color", &colour);
    }
    if has(b"background") {
        say("background-image", "url()");
    }
    match &tag.name[..] {
        b"font" => {
            if let Some(colour) = given(b"color") {
                say("color", &colour);
            }
            // It has sizes of its own, which are never nothing.
            if has(b"size") {
                say("font-size", "medium");
            }
        }
        b"body" => {
            if let Some(colour) = given(b"text") {
                say("color", &colour);
            }
        }
        // Links do not have the colour of the text around them.
        b"a" if has(b"href") => say("color", "#0000ee"),
        _ => {}
    }
}
