//! Writes the visible text of a message as lines.

use crate::kind::Kind;

/// The output format of a [`Writer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Only words, for previews and for the search index.
    Words,
    /// Lines with their [`Kind`].
    Lines,
    /// Lines with the targets of links, the descriptions of images and the list markers.
    Readable,
}

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) form: Form,
    pub(crate) text: String,
    /// The number of line breaks to write before the next word.
    pending_lines: usize,
    /// Whether to write a space before the next word.
    pending_space: bool,
    /// The byte offset in `text` and the kind of each line whose kind differs from the kind of the
    /// line before.
    kinds: Vec<(usize, Kind)>,
}

impl Writer {
    pub(crate) fn new(form: Form) -> Self {
        Self {
            form,
            text: String::new(),
            pending_lines: 0,
            pending_space: false,
            kinds: Vec::new(),
        }
    }

    /// Writes a space before the next word.
    pub(crate) fn space(&mut self) {
        self.pending_space = true;
    }

    /// Ends the current line with at least `lines` line breaks.
    pub(crate) fn break_lines(&mut self, lines: usize) {
        self.pending_lines = self.pending_lines.max(lines);
    }

    /// Writes a line break in addition to the breaks around elements.
    pub(crate) fn add_line(&mut self) {
        self.pending_lines += 1;
    }

    /// Records that another message starts after the current text.
    pub(crate) fn cut(&mut self) {
        if self.kinds.last().is_none_or(|(_, last)| *last != Kind::Cut) {
            self.kinds.push((self.text.len(), Kind::Cut));
        }
    }

    /// Writes text and keeps its line breaks and spaces.
    pub(crate) fn preformatted(&mut self, text: &str, kind: Kind) {
        for (number, line) in text.split('\n').enumerate() {
            self.pending_lines += usize::from(number > 0);
            if !line.is_empty() {
                self.word(line, kind);
            }
        }
    }

    /// Writes text and replaces white space with single spaces.
    pub(crate) fn flowing(&mut self, text: &str, kind: Kind) {
        let is_space = |c: char| c.is_ascii_whitespace();
        self.pending_space |= text.starts_with(is_space);
        let words = text.split(is_space).filter(|word| !word.is_empty());
        for (number, word) in words.enumerate() {
            self.pending_space |= number > 0;
            self.word(word, kind);
        }
        self.pending_space |= text.ends_with(is_space);
    }

    /// Writes text between spaces.
    pub(crate) fn spaced(&mut self, text: &str, kind: Kind) {
        self.pending_space = true;
        self.word(text, kind);
        self.pending_space = true;
    }

    /// Writes pending line breaks and spaces, and then a word.
    pub(crate) fn word(&mut self, word: &str, kind: Kind) {
        let last = self.kinds.last().map(|(_, kind)| *kind);
        let is_other_kind = self.form == Form::Lines && last != Some(kind);
        if is_other_kind {
            self.break_lines(1);
        }
        if !self.text.is_empty() {
            // The output has at most one empty line between two paragraphs.
            for _ in 0..self.pending_lines.min(2) {
                self.text.push('\n');
            }
            if self.pending_lines == 0 && self.pending_space && !self.text.ends_with(' ') {
                self.text.push(' ');
            }
        }
        if is_other_kind {
            self.kinds.push((self.text.len(), kind));
        }
        self.pending_lines = 0;
        self.pending_space = false;
        self.text.push_str(word);
    }

    /// Returns the lines with their kinds. Merges consecutive empty lines of the same kind.
    pub(crate) fn lines(&self) -> Vec<(String, Kind)> {
        let mut lines: Vec<(String, Kind)> = Vec::new();
        let mut kinds = self.kinds.iter().peekable();
        let mut kind = Kind::Text;
        let mut begins = 0;
        for line in self.text.split('\n') {
            while let Some((_, next)) = kinds.next_if(|(at, _)| *at <= begins) {
                match next {
                    Kind::Cut => lines.push((String::new(), Kind::Cut)),
                    next => kind = *next,
                }
            }
            begins += line.len() + 1;
            let line = line.replace('\u{a0}', " ");
            let line = if line.trim().is_empty() {
                String::new()
            } else {
                line
            };
            let is_repeated = line.is_empty() && lines.last() == Some(&(String::new(), kind));
            if !is_repeated {
                lines.push((line, kind));
            }
        }
        lines.extend(kinds.map(|(_, kind)| (String::new(), *kind)));
        lines
    }
}

/// Returns the number of line breaks before and after an element.
pub(crate) fn lines_around(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "blockquote" | "ul" | "ol" | "dl"
        | "table" | "pre" => 2,
        "div" | "tr" | "li" | "section" | "article" | "header" | "footer" | "main" | "nav"
        | "aside" | "address" | "dt" | "dd" | "figure" | "figcaption" | "center" | "form"
        | "fieldset" | "hr" | "body" | "html" => 1,
        _ => 0,
    }
}
