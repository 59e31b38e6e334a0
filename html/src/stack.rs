//! Tracks the open elements of a message.
//!
//! Elements end in the same places as in browsers, even without an end tag. For example, a
//! paragraph ends at the next block, and a cell ends at the next cell. An open formatting element
//! continues after the end of a block.

use std::collections::HashMap;

use crate::text::lines_around;

/// The maximum nesting depth. Newsletters have up to 100 levels. Browsers have a limit of 512.
const MAX_DEPTH: usize = 256;
/// The number of innermost elements that are compared one by one. Only if none of them has the name,
/// the name is looked up among all open elements.
const NEAR: usize = 16;

/// Formatting elements continue after the end of their block.
const FORMATTING: [&str; 14] = [
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
];

/// The parts of a table.
const TABLE: [&str; 7] = ["table", "tbody", "thead", "tfoot", "tr", "td", "th"];

#[derive(Debug)]
struct Open<T> {
    name: String,
    value: T,
}

/// The open elements. Each element has a value.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    open: Vec<Open<T>>,
    /// The number of open elements with each name.
    names: HashMap<String, usize>,
    /// The number of open elements with each name beyond the depth limit. Such elements count as
    /// content of the innermost element within the limit.
    beyond_limit: HashMap<String, usize>,
}

impl<T: Copy + PartialEq> Stack<T> {
    pub(crate) fn new() -> Self {
        Self {
            open: Vec::new(),
            names: HashMap::new(),
            beyond_limit: HashMap::new(),
        }
    }

    /// Returns the value of the innermost element.
    pub(crate) fn top(&self) -> Option<&T> {
        self.open.last().map(|open| &open.value)
    }

    pub(crate) fn top_mut(&mut self) -> Option<&mut T> {
        self.open.last_mut().map(|open| &mut open.value)
    }

    /// Returns the names and values of the open elements, starting at index `at`. The outermost
    /// element is first.
    pub(crate) fn from(&mut self, at: usize) -> impl Iterator<Item = (&str, &mut T)> {
        self.open[at..]
            .iter_mut()
            .map(|open| (open.name.as_str(), &mut open.value))
    }

    /// Returns the value of the parent of the element at index `at`.
    pub(crate) fn parent_of(&self, at: usize) -> Option<&T> {
        self.open.get(at.checked_sub(1)?).map(|open| &open.value)
    }

    pub(crate) fn is_within_limit(&self) -> bool {
        self.beyond_limit.is_empty() && self.open.len() < MAX_DEPTH
    }

    /// Opens an element. Beyond the depth limit, only counts the element.
    pub(crate) fn push(&mut self, name: &str, value: T) {
        if self.is_within_limit() {
            match self.names.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.names.insert(name.to_owned(), 1)),
            }
            self.open.push(Open {
                name: name.to_owned(),
                value,
            });
        } else {
            *self.beyond_limit.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Closes the elements that end at the start tag of an element with this name. Returns the
    /// index of the first changed element, or `None` if no element changed.
    pub(crate) fn close_implied(&mut self, name: &str) -> Option<usize> {
        if !self.beyond_limit.is_empty() {
            return None;
        }
        let mut changed = None;
        let mut close = |stack: &mut Self, names: &[&str], within: &[&str]| {
            while let Some(at) = stack.find(names, within) {
                let from = stack.close_at(at);
                changed = Some(changed.map_or(from, |before: usize| before.min(from)));
            }
        };
        match name {
            "li" => close(self, &["li"], &["ul", "ol", "td", "th", "table"]),
            "dt" | "dd" => close(self, &["dt", "dd"], &["dl", "td", "th", "table"]),
            "td" | "th" => close(self, &["td", "th"], &["table"]),
            "tr" => close(self, &["td", "th", "tr"], &["table"]),
            "tbody" | "thead" | "tfoot" => {
                close(
                    self,
                    &["td", "th", "tr", "tbody", "thead", "tfoot"],
                    &["table"],
                );
            }
            "a" => close(self, &["a"], &["td", "th", "table"]),
            _ => {}
        }
        if lines_around(name) > 0 {
            close(self, &["p"], &["td", "th", "table", "button"]);
        }
        changed
    }

    /// Closes an element at its end tag. Returns the index of the first changed element and the
    /// value of the closed element. Returns `None` if no element was closed.
    pub(crate) fn close(&mut self, name: &str) -> Option<(usize, T)> {
        if let Some(count) = self.beyond_limit.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.beyond_limit.remove(name);
            }
            return None;
        }
        let within: &[&str] = match name {
            "table" => &[],
            "td" | "th" | "tr" | "tbody" | "thead" | "tfoot" => &["table"],
            "li" => &["ul", "ol", "td", "th", "table"],
            _ => &["td", "th", "table"],
        };
        let at = self.find(&[name], within)?;
        // Elements beyond the limit are content of this element.
        self.beyond_limit.clear();
        let value = self.open[at].value;
        Some((self.close_at(at), value))
    }

    /// Returns the index of the innermost open element with a name in `names`. The search ends at
    /// an element with a name in `within`.
    fn find(&self, names: &[&str], within: &[&str]) -> Option<usize> {
        for (at, open) in self.open.iter().enumerate().rev() {
            // The names are looked up only if the search takes longer than the lookup.
            let is_open = |name: &&str| self.names.get(*name).is_some_and(|count| *count > 0);
            if at + NEAR == self.open.len() && !names.iter().any(is_open) {
                return None;
            }
            if names.contains(&open.name.as_str()) {
                return Some(at);
            }
            if within.contains(&open.name.as_str()) {
                return None;
            }
        }
        None
    }

    /// Closes the element at index `at` and its content. Formatting elements in the content stay
    /// open if they continue after the element. Returns `at`.
    fn close_at(&mut self, at: usize) -> usize {
        let mut rest = self.open.split_off(at).into_iter();
        let Some(first) = rest.next() else { return at };
        let name = &first.name;
        self.count_closed(name);
        for open in rest {
            // The end of a formatting element does not close the elements inside it. The end of a
            // cell or a table closes all elements inside it.
            let is_formatting = FORMATTING.contains(&open.name.as_str());
            let continues = FORMATTING.contains(&name.as_str())
                || is_formatting && !TABLE.contains(&name.as_str());
            let equal = |other: &Open<T>| other.name == open.name && other.value == open.value;
            let is_duplicate = || is_formatting && self.open[at..].iter().any(equal);
            if continues && !is_duplicate() {
                self.open.push(open);
            } else {
                self.count_closed(&open.name);
            }
        }
        at
    }

    fn count_closed(&mut self, name: &str) {
        if let Some(count) = self.names.get_mut(name) {
            *count -= 1;
        }
    }
}
