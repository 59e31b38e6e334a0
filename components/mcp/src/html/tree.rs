//! The elements of a message: the open elements, and the facts about all elements that selectors need.
//!
//! Elements end as browsers end them, also without an end tag: a paragraph ends at the next block, a cell at the next cell. A formatting element that is open
//! at the end of a block continues after the block.

use std::collections::HashMap;

use html5gum::emitters::default::StartTag;
use simplecss::{AttributeOperator, Element, PseudoClass};

use super::attribute;
use super::steps::Steps;

/// The maximum nesting depth. Newsletters have up to 100 levels; browsers stop at 512.
const MAX_DEPTH: usize = 256;

/// The facts about an element that selectors need.
#[derive(Debug)]
struct Known {
    name: String,
    /// Names and values. Ids and classes ignore case in pages without a document type, and mail often has none.
    attributes: Vec<(String, String)>,
    parent: Option<usize>,
    /// The previous sibling.
    before: Option<usize>,
    /// The last child so far.
    last: Option<usize>,
}

/// All elements that selectors may refer to.
#[derive(Debug)]
pub(super) struct Nodes {
    all: Vec<Known>,
    /// The last element without a parent.
    last: Option<usize>,
    /// Whether selectors use attributes other than the id and the class.
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

    /// A reference to an element for selectors.
    pub(super) fn node<'n>(&'n self, at: usize, steps: &'n Steps) -> Node<'n> {
        Node {
            nodes: self,
            steps,
            at,
        }
    }
}

/// An element with a budget of steps. Each query takes one step. Without steps, queries find nothing.
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

/// The open elements, with a value for each.
#[derive(Debug)]
pub(super) struct Stack<T> {
    open: Vec<Open<T>>,
    /// The number of open elements with each name.
    names: HashMap<Vec<u8>, usize>,
    /// The number of elements with each name that are open beyond the depth limit. Such elements are treated as content of the innermost element within the
    /// limit.
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

    /// Returns the value of the innermost element.
    pub(super) fn top(&self) -> Option<&T> {
        self.open.last().map(|open| &open.what)
    }

    /// Returns the mutable value of the innermost element.
    pub(super) fn top_mut(&mut self) -> Option<&mut T> {
        self.open.last_mut().map(|open| &mut open.what)
    }

    /// Returns the names and values of the elements from index `at` on, the outermost first.
    pub(super) fn from(&mut self, at: usize) -> impl Iterator<Item = (&[u8], &mut T)> {
        self.open[at..]
            .iter_mut()
            .map(|open| (&open.name[..], &mut open.what))
    }

    /// Returns the value of the parent of the element at index `at`.
    pub(super) fn before(&self, at: usize) -> Option<&T> {
        self.open.get(at.checked_sub(1)?).map(|open| &open.what)
    }

    /// Returns whether the depth limit allows another element.
    pub(super) fn has_room(&self) -> bool {
        self.beyond.is_empty() && self.open.len() < MAX_DEPTH
    }

    /// Opens an element. Beyond the depth limit, the element is only counted.
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

    /// Closes the elements that end where an element with this name begins. Returns the index from which the open elements changed.
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

    /// Closes an element by its end tag. Returns its value and the index from which the open elements changed.
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
        // Elements open beyond the limit are content of this element.
        self.beyond.clear();
        let what = self.open[at].what;
        Some((self.remove(at), what))
    }

    /// Returns the innermost element with one of these names, searching only inside the innermost element with one of the other names.
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

    /// Closes an element and its content, except for elements that continue after it. Returns its index.
    fn remove(&mut self, at: usize) -> usize {
        let above = self.open.split_off(at);
        let mut ended = above.into_iter();
        let first = ended.next();
        let name = first.as_ref().map(|first| first.name.clone());
        let name = name.unwrap_or_default();
        let mut left: Vec<Open<T>> = first.into_iter().collect();
        for open in ended {
            // A formatting element ends alone. A cell or a table ends together with its content.
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

/// Elements that continue after the end of the block that contains them.
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

/// Elements that are allowed in a head.
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

/// Converts the presentational attributes of an element to style properties.
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
            // The element has an intrinsic size, which is never zero.
            if has(b"size") {
                say("font-size", "medium");
            }
        }
        b"body" => {
            if let Some(colour) = given(b"text") {
                say("color", &colour);
            }
        }
        // Links do not inherit the colour of the surrounding text.
        b"a" if has(b"href") => say("color", "#0000ee"),
        _ => {}
    }
}
