//! Tracks the open elements of a message.
//!
//! Elements end in the same places as in browsers, even without an end tag. For example, a
//! paragraph ends at the next block, and a cell ends at the next cell. An open formatting element
//! continues after the end of a block.

use std::collections::HashMap;

use crate::text::lines_around;

/// The maximum nesting depth. Newsletters have up to 100 levels. Browsers have a limit of 512.
const MAX_DEPTH: usize = 256;

/// A set of kinds of elements, with one bit for each kind. [`Stack::find`] compares bits, because
/// names are slow to compare.
type Kinds = u16;

const CELL: Kinds = 1;
const ROW: Kinds = 1 << 1;
const ROWS: Kinds = 1 << 2;
const TABLE: Kinds = 1 << 3;
const LIST: Kinds = 1 << 4;
const ITEM: Kinds = 1 << 5;
const TERMS: Kinds = 1 << 6;
const TERM: Kinds = 1 << 7;
const PARAGRAPH: Kinds = 1 << 8;
const BUTTON: Kinds = 1 << 9;
const LINK: Kinds = 1 << 10;
/// Formatting elements continue after the end of their block.
const FORMATTING: Kinds = 1 << 11;

/// The kinds of an element.
fn kinds(name: &str) -> Kinds {
    match name {
        "td" | "th" => CELL,
        "tr" => ROW,
        "tbody" | "thead" | "tfoot" => ROWS,
        "table" => TABLE,
        "ul" | "ol" => LIST,
        "li" => ITEM,
        "dl" => TERMS,
        "dt" | "dd" => TERM,
        "p" => PARAGRAPH,
        "button" => BUTTON,
        "a" => LINK | FORMATTING,
        "b" | "big" | "code" | "em" | "font" | "i" | "nobr" | "s" | "small" | "strike"
        | "strong" | "tt" | "u" => FORMATTING,
        _ => 0,
    }
}

#[derive(Debug)]
struct Open<T> {
    name: String,
    kinds: Kinds,
    value: T,
}

/// The open elements. Each element has a value.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    open: Vec<Open<T>>,
    /// The number of open elements with each name beyond the depth limit. Such elements count as
    /// content of the innermost element within the limit.
    beyond_limit: HashMap<String, usize>,
}

impl<T: Copy + PartialEq> Stack<T> {
    pub(crate) fn new() -> Self {
        Self {
            open: Vec::new(),
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
            self.open.push(Open {
                name: name.to_owned(),
                kinds: kinds(name),
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
        let mut close = |wanted: Kinds, within: Kinds| {
            while let Some(at) = self.find(|open| open.kinds & wanted != 0, within) {
                let from = self.close_at(at);
                changed = Some(changed.map_or(from, |before: usize| before.min(from)));
            }
        };
        match name {
            "li" => close(ITEM, LIST | CELL | TABLE),
            "dt" | "dd" => close(TERM, TERMS | CELL | TABLE),
            "td" | "th" => close(CELL, TABLE),
            "tr" => close(CELL | ROW, TABLE),
            "tbody" | "thead" | "tfoot" => close(CELL | ROW | ROWS, TABLE),
            "a" => close(LINK, CELL | TABLE),
            _ => {}
        }
        if lines_around(name) > 0 {
            close(PARAGRAPH, CELL | TABLE | BUTTON);
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
        let within = match kinds(name) {
            TABLE => 0,
            CELL | ROW | ROWS => TABLE,
            ITEM => LIST | CELL | TABLE,
            _ => CELL | TABLE,
        };
        let at = self.find(|open| open.name == name, within)?;
        // Elements beyond the limit are content of this element.
        self.beyond_limit.clear();
        let value = self.open[at].value;
        Some((self.close_at(at), value))
    }

    /// Returns the index of the innermost open element that `is_wanted` selects. The search goes
    /// outwards, and ends at an element of a kind in `within`.
    fn find(&self, is_wanted: impl Fn(&Open<T>) -> bool, within: Kinds) -> Option<usize> {
        let ends = |open: &Open<T>| open.kinds & within != 0 || is_wanted(open);
        let at = self.open.iter().rposition(ends)?;
        is_wanted(&self.open[at]).then_some(at)
    }

    /// Closes the element at index `at` and its content. Formatting elements in the content stay
    /// open if they continue after the element. Returns `at`.
    fn close_at(&mut self, at: usize) -> usize {
        let rest = self.open.split_off(at + 1);
        let closed = self.open.pop().map_or(0, |closed| closed.kinds);
        for open in rest {
            // The end of a formatting element does not close the elements inside it. The end of a
            // cell or a table closes all elements inside it.
            let is_formatting = open.kinds & FORMATTING != 0;
            let continues = closed & FORMATTING != 0
                || is_formatting && closed & (CELL | ROW | ROWS | TABLE) == 0;
            let equal = |other: &Open<T>| other.name == open.name && other.value == open.value;
            let is_duplicate = || is_formatting && self.open[at..].iter().any(equal);
            if continues && !is_duplicate() {
                self.open.push(open);
            }
        }
        at
    }
}
