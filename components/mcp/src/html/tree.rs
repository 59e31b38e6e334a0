//! Tracks the elements of a message. [`Stack`] contains the open elements, and [`Nodes`] contains
//! the data for selectors.
//!
//! Elements end in the same places as in browsers, even without an end tag. For example, a
//! paragraph ends at the next block, and a cell ends at the next cell. An open formatting element
//! continues after the end of a block.

use std::collections::HashMap;

use html5gum::emitters::default::StartTag;
use simplecss::{AttributeOperator, Element, PseudoClass};

use super::attribute;
use super::steps::Steps;

/// The maximum nesting depth. Newsletters have up to 100 levels. Browsers have a limit of 512.
const MAX_DEPTH: usize = 256;

/// The data of an element for selectors.
#[derive(Debug)]
struct NodeData {
    name: String,
    /// The names and values of the attributes, in lower case. Mail often has no document type.
    /// Without a document type, selectors ignore the case of ids and classes.
    attributes: Vec<(String, String)>,
    parent: Option<usize>,
    previous_sibling: Option<usize>,
    /// The most recently added child.
    last_child: Option<usize>,
}

/// All elements that selectors can match.
#[derive(Debug)]
pub(super) struct Nodes {
    all: Vec<NodeData>,
    /// The last element without a parent.
    last_root: Option<usize>,
    /// Whether selectors contain attributes other than the id and the class.
    has_attributes: bool,
}

impl Nodes {
    pub(super) fn new(has_attributes: bool) -> Self {
        Self {
            all: Vec::new(),
            last_root: None,
            has_attributes,
        }
    }

    /// Adds an element and returns its index.
    pub(super) fn add(&mut self, tag: &StartTag<()>, parent: Option<usize>) -> usize {
        let at = self.all.len();
        let last_sibling = match parent {
            Some(parent) => &mut self.all[parent].last_child,
            None => &mut self.last_root,
        };
        let previous_sibling = last_sibling.replace(at);
        let attributes = tag
            .attributes
            .iter()
            .filter(|(name, _)| self.has_attributes || matches!(&name[..], b"id" | b"class"))
            .map(|(name, value)| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
                (text(name), text(value))
            })
            .collect();
        self.all.push(NodeData {
            name: String::from_utf8_lossy(&tag.name).into_owned(),
            attributes,
            parent,
            previous_sibling,
            last_child: None,
        });
        at
    }

    /// Returns the element at index `at`, for matching selectors.
    pub(super) fn node<'n>(&'n self, at: usize, steps: &'n Steps) -> Node<'n> {
        Node {
            nodes: self,
            steps,
            at,
        }
    }
}

/// An element with the step budget for matching selectors. Each query uses one step. If no steps
/// are left, queries find nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'n> {
    nodes: &'n Nodes,
    steps: &'n Steps,
    at: usize,
}

impl<'n> Node<'n> {
    fn data(&self) -> &'n NodeData {
        &self.nodes.all[self.at]
    }

    pub(super) fn name(&self) -> &'n str {
        &self.data().name
    }

    fn attribute(&self, wanted: &str) -> Option<&'n str> {
        let mut all = self.data().attributes.iter();
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
        self.at(self.data().parent)
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        self.at(self.data().previous_sibling)
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
            PseudoClass::FirstChild => self.data().previous_sibling.is_none(),
            PseudoClass::Link => self.name() == "a",
            _ => false,
        }
    }
}

#[derive(Debug)]
struct Open<T> {
    name: Vec<u8>,
    value: T,
}

/// The open elements. Each element has a value.
#[derive(Debug)]
pub(super) struct Stack<T> {
    open: Vec<Open<T>>,
    /// The number of open elements with each name.
    names: HashMap<Vec<u8>, usize>,
    /// The number of open elements with each name beyond the depth limit. Such elements count as
    /// content of the innermost element within the limit.
    beyond_limit: HashMap<Vec<u8>, usize>,
}

impl<T: Copy + PartialEq> Stack<T> {
    pub(super) fn new() -> Self {
        Self {
            open: Vec::new(),
            names: HashMap::new(),
            beyond_limit: HashMap::new(),
        }
    }

    /// Returns the value of the innermost element.
    pub(super) fn top(&self) -> Option<&T> {
        self.open.last().map(|open| &open.value)
    }

    pub(super) fn top_mut(&mut self) -> Option<&mut T> {
        self.open.last_mut().map(|open| &mut open.value)
    }

    /// Returns the names and values of the open elements, starting at index `at`. The outermost
    /// element is first.
    pub(super) fn from(&mut self, at: usize) -> impl Iterator<Item = (&[u8], &mut T)> {
        self.open[at..]
            .iter_mut()
            .map(|open| (&open.name[..], &mut open.value))
    }

    /// Returns the value of the parent of the element at index `at`.
    pub(super) fn parent_of(&self, at: usize) -> Option<&T> {
        self.open.get(at.checked_sub(1)?).map(|open| &open.value)
    }

    pub(super) fn is_within_limit(&self) -> bool {
        self.beyond_limit.is_empty() && self.open.len() < MAX_DEPTH
    }

    /// Opens an element. Beyond the depth limit, only counts the element.
    pub(super) fn push(&mut self, name: &[u8], value: T) {
        if self.is_within_limit() {
            *self.names.entry(name.to_vec()).or_default() += 1;
            self.open.push(Open {
                name: name.to_vec(),
                value,
            });
        } else {
            *self.beyond_limit.entry(name.to_vec()).or_default() += 1;
        }
    }

    /// Closes the elements that end at the start tag of an element with this name. Returns the
    /// index of the first changed element, or `None` if no element changed.
    pub(super) fn close_implied(&mut self, name: &[u8]) -> Option<usize> {
        if !self.beyond_limit.is_empty() {
            return None;
        }
        let mut changed = None;
        let mut close = |stack: &mut Self, names: &[&[u8]], within: &[&[u8]]| {
            while let Some(at) = stack.find(names, within) {
                let from = stack.close_at(at);
                changed = Some(changed.map_or(from, |before: usize| before.min(from)));
            }
        };
        match name {
            b"li" => close(self, &[b"li"], &[b"ul", b"ol", b"td", b"th", b"table"]),
            b"dt" | b"dd" => close(self, &[b"dt", b"dd"], &[b"dl", b"td", b"th", b"table"]),
            b"td" | b"th" => close(self, &[b"td", b"th"], &[b"table"]),
            b"tr" => close(self, &[b"td", b"th", b"tr"], &[b"table"]),
            b"tbody" | b"thead" | b"tfoot" => {
                close(
                    self,
                    &[b"td", b"th", b"tr", b"tbody", b"thead", b"tfoot"],
                    &[b"table"],
                );
            }
            b"a" => close(self, &[b"a"], &[b"td", b"th", b"table"]),
            _ => {}
        }
        if super::lines_around(name) > 0 {
            close(self, &[b"p"], &[b"td", b"th", b"table", b"button"]);
        }
        if !is_in_head(name) {
            close(self, &[b"head"], &[]);
        }
        changed
    }

    /// Closes an element at its end tag. Returns the index of the first changed element and the
    /// value of the closed element. Returns `None` if no element was closed.
    pub(super) fn close(&mut self, name: &[u8]) -> Option<(usize, T)> {
        if let Some(count) = self.beyond_limit.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.beyond_limit.remove(name);
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
        // Elements beyond the limit are content of this element.
        self.beyond_limit.clear();
        let value = self.open[at].value;
        Some((self.close_at(at), value))
    }

    /// Returns the index of the innermost open element with a name in `names`. The search ends at
    /// an element with a name in `within`.
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

    /// Closes the element at index `at` and its content. Formatting elements in the content stay
    /// open if they continue after the element. Returns `at`.
    fn close_at(&mut self, at: usize) -> usize {
        let mut rest = self.open.split_off(at).into_iter();
        let first = rest.next();
        let name = first.as_ref().map(|first| first.name.clone());
        let name = name.unwrap_or_default();
        let mut closed: Vec<Open<T>> = first.into_iter().collect();
        for open in rest {
            // The end of a formatting element does not close the elements inside it. The end of a
            // cell or a table closes all elements inside it.
            let continues =
                is_formatting(&name) || is_formatting(&open.name) && !is_of_a_table(&name);
            let equal = |other: &Open<T>| other.name == open.name && other.value == open.value;
            let is_duplicate = || is_formatting(&open.name) && self.open[at..].iter().any(equal);
            if continues && !is_duplicate() {
                self.open.push(open);
            } else {
                closed.push(open);
            }
        }
        for open in closed {
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

/// Returns whether an element is a formatting element. A formatting element continues after the end
/// of its block.
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

/// Returns whether an element is allowed in `head`.
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

/// Converts the presentational attributes of an element to style properties. Passes each property
/// to `add`.
pub(super) fn presentational_hints(tag: &StartTag<()>, mut add: impl FnMut(&str, &str)) {
    let has = |name: &[u8]| tag.attributes.keys().any(|known| ***known == *name);
    let given = |name: &[u8]| {
        let value = attribute(tag, name).trim().to_ascii_lowercase();
        Some(value).filter(|value| !value.is_empty())
    };
    let hidden = has(b"hidden") || has(b"popover") || *tag.name == *b"dialog" && !has(b"open");
    if hidden {
        add("display", "none");
    }
    if let Some(colour) = given(b"bgcolor") {
        add("background-color", &colour);
    }
    if has(b"background") {
        add("background-image", "url()");
    }
    match &tag.name[..] {
        b"font" => {
            if let Some(colour) = given(b"color") {
                add("color", &colour);
            }
            // All sizes that the attribute can select are visible.
            if has(b"size") {
                add("font-size", "medium");
            }
        }
        b"body" => {
            if let Some(colour) = given(b"text") {
                add("color", &colour);
            }
        }
        // Links do not inherit the colour of the surrounding text.
        b"a" if has(b"href") => add("color", "#0000ee"),
        _ => {}
    }
}
