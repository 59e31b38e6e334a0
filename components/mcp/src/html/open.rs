//! An element that is open, followed without a tree: where it ends, also where nobody ended it.

use super::lines_around;

/// An element that is open.
#[derive(Debug)]
pub(super) struct Open {
    name: Vec<u8>,
    /// How many of its name are open, itself among them; those in inner tables or lists are not counted.
    depth: usize,
    /// How many tables or lists are open in it, whose rows and items are not its own.
    inner: usize,
}

impl Open {
    pub(super) fn new(name: &[u8]) -> Self {
        Self {
            name: name.to_vec(),
            depth: 1,
            inner: 0,
        }
    }

    pub(super) fn is(&self, name: &[u8]) -> bool {
        self.name == name
    }

    /// Another element begins. Answers whether this one ends by it.
    pub(super) fn begins(&mut self, name: &[u8]) -> bool {
        let ended = match &self.name[..] {
            b"p" => lines_around(name) > 0,
            b"li" => name == b"li",
            b"td" | b"th" => matches!(name, b"td" | b"th" | b"tr" | b"tbody"),
            b"tr" => matches!(name, b"tr" | b"tbody"),
            b"head" => name == b"body",
            _ => false,
        };
        if ended && self.inner == 0 {
            return true;
        }
        self.depth += usize::from(self.inner == 0 && self.name == name);
        self.inner += usize::from(self.is_inner(name));
        false
    }

    /// An element ends. Answers whether this one is over.
    pub(super) fn ends(&mut self, name: &[u8]) -> bool {
        if self.name == name {
            self.depth -= usize::from(self.inner == 0);
            return self.depth == 0;
        }
        if self.is_inner(name) && self.inner > 0 {
            self.inner -= 1;
            return false;
        }
        // What it stands in is over, and it with that.
        self.inner == 0
            && match &self.name[..] {
                b"p" => lines_around(name) > 0,
                b"li" => matches!(name, b"ul" | b"ol"),
                b"td" | b"th" => matches!(name, b"tr" | b"tbody" | b"table"),
                b"tr" => matches!(name, b"tbody" | b"table"),
                _ => false,
            }
    }

    fn is_inner(&self, name: &[u8]) -> bool {
        match &self.name[..] {
            b"li" => matches!(name, b"ul" | b"ol"),
            b"td" | b"th" | b"tr" => name == b"table",
            _ => false,
        }
    }
}
