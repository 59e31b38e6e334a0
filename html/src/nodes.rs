//! The elements of a message as selectors see them, and the limit for the cost of selectors.

use std::cell::Cell;

use simplecss::{AttributeOperator, Element, PseudoClass};

use crate::css;
use crate::tag::Tag;

/// The maximum number of steps in the budget. One step takes about 20 ns.
const MAX_STEPS: usize = 5_000_000;
/// The number of steps for each byte of a document. Newsletters need up to 4 steps for each byte.
const STEPS_PER_BYTE: usize = 32;

/// The remaining steps for matching selectors.
#[derive(Debug)]
pub(crate) struct Steps(Cell<usize>);

impl Steps {
    /// Returns the budget of a document with this number of bytes.
    pub(crate) fn new(length: usize) -> Self {
        Self(Cell::new(
            MAX_STEPS.min(length.saturating_mul(STEPS_PER_BYTE)),
        ))
    }

    /// Uses one step. Returns `false` if no step is left.
    pub(crate) fn take(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }

    pub(crate) fn are_left(&self) -> bool {
        self.0.get() > 0
    }
}

#[derive(Debug)]
struct NodeData {
    name: String,
    id: Option<String>,
    class: Option<String>,
    /// The names and values of the other attributes. Empty if no selector contains such an
    /// attribute.
    attributes: Vec<(String, String)>,
    parent: Option<usize>,
    previous_sibling: Option<usize>,
    /// The most recently added child.
    last_child: Option<usize>,
}

/// All elements that selectors can match.
#[derive(Debug)]
pub(crate) struct Nodes {
    all: Vec<NodeData>,
    /// The last element without a parent.
    last_root: Option<usize>,
    /// Whether selectors contain attributes other than the id and the class.
    has_attributes: bool,
}

impl Nodes {
    pub(crate) fn new(has_attributes: bool) -> Self {
        Self {
            all: Vec::new(),
            last_root: None,
            has_attributes,
        }
    }

    /// Adds an element and returns its index.
    pub(crate) fn add(&mut self, tag: &Tag, parent: Option<usize>) -> usize {
        let at = self.all.len();
        let last_sibling = match parent {
            Some(parent) => &mut self.all[parent].last_child,
            None => &mut self.last_root,
        };
        let previous_sibling = last_sibling.replace(at);
        let attributes = tag
            .attributes()
            .filter(|(name, _)| self.has_attributes && !matches!(*name, "id" | "class"))
            .map(|(name, value)| (name.to_owned(), selectable(value)))
            .collect();
        self.all.push(NodeData {
            name: tag.name().to_owned(),
            id: tag.get("id").map(selectable),
            class: tag.get("class").map(selectable),
            attributes,
            parent,
            previous_sibling,
            last_child: None,
        });
        at
    }

    /// Returns the element at index `at`, for matching selectors.
    pub(crate) fn node<'n>(&'n self, at: usize, steps: &'n Steps) -> Node<'n> {
        Node {
            nodes: self,
            steps,
            at,
        }
    }
}

/// Converts the value of an attribute for selectors: to lower case, and with the characters of
/// [`css::neutral`]. Mail often has no document type. Without a document type, selectors ignore the
/// case of ids and classes.
fn selectable(value: &str) -> String {
    let value = value.chars().map(|c| match c {
        c if c.is_ascii_whitespace() => ' ',
        c => css::neutral(c.to_ascii_lowercase()),
    });
    value.collect()
}

/// An element with the step budget for matching selectors. Each access to the parent or the
/// previous sibling, and each comparison of the name or of an attribute, uses one step. If no steps
/// are left, these accesses and comparisons find nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'n> {
    nodes: &'n Nodes,
    steps: &'n Steps,
    at: usize,
}

impl<'n> Node<'n> {
    fn data(&self) -> &'n NodeData {
        &self.nodes.all[self.at]
    }

    pub(crate) fn name(&self) -> &'n str {
        &self.data().name
    }

    fn attribute(&self, wanted: &str) -> Option<&'n str> {
        let data = self.data();
        match wanted {
            "id" => data.id.as_deref(),
            "class" => data.class.as_deref(),
            _ => {
                let found = data.attributes.iter().find(|(name, _)| name == wanted);
                found.map(|(_, value)| value.as_str())
            }
        }
    }

    pub(crate) fn id(&self) -> Option<&'n str> {
        self.data().id.as_deref()
    }

    pub(crate) fn classes(&self) -> impl Iterator<Item = &'n str> {
        let class = self.data().class.as_deref();
        class.unwrap_or_default().split_ascii_whitespace()
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
        self.steps.take()
            && self
                .attribute(name)
                .is_some_and(|value| operator.matches(value))
    }

    fn pseudo_class_matches(&self, class: PseudoClass<'_>) -> bool {
        match class {
            PseudoClass::FirstChild => self.data().previous_sibling.is_none(),
            PseudoClass::Link => self.name() == "a",
            _ => false,
        }
    }
}
