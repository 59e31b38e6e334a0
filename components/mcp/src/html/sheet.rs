//! Processes the rules in style elements. Only rules with an effect on visibility are relevant.
//!
//! Rules are split in the same way as in browsers. The crate `simplecss` parses and matches
//! selectors. If `simplecss` does not support a selector, the rule is skipped.
//! [`Sheet::is_incomplete`] reports whether a skipped rule might hide text. [`Steps`] limits the
//! cost of a sheet.

use std::collections::HashMap;
use std::rc::Rc;

use simplecss::Selector;

use super::length::pixels;
use super::steps::Steps;
use super::style::{Cascade, Declaration, declarations};
use super::tree::Node;

/// The maximum size of all style sheets in a message, in bytes. Newsletters have up to 100,000
/// bytes of style sheets.
const MAX_SIZE: usize = 256 * 1024;
/// The maximum number of rules. Each selector of a rule counts separately.
const MAX_RULES: usize = 4000;
/// The maximum nesting depth of blocks.
const MAX_DEPTH: usize = 8;
/// The maximum number of parts of a selector. Matching a selector recurses for each part.
const MAX_PARTS: usize = 32;
/// The maximum length of the selectors of a nested block, in bytes.
const MAX_NESTED: usize = 4096;
/// The assumed width of the window in media queries, in pixels.
const WINDOW: f32 = 1024.0;

/// The rules of a message's style sheets, with unparsed selectors.
#[derive(Debug, Default)]
pub(super) struct Rules {
    all: Vec<Rule>,
    /// Whether rules were omitted because of a limit.
    incomplete: bool,
    /// The total size of the added style sheets, in bytes.
    size: usize,
}

#[derive(Debug)]
struct Rule {
    selector: String,
    declarations: Rc<[Declaration]>,
}

impl Rules {
    /// Adds the rules of a style element. `text` is the content of the element, and `media` is the
    /// element's media query.
    pub(super) fn add(&mut self, text: &str, media: &str) {
        if !matches_window(media) {
            return;
        }
        self.size += text.len();
        if self.size > MAX_SIZE {
            self.incomplete = true;
            return;
        }
        let plain = without_comments(&text.to_ascii_lowercase());
        self.add_block(&plain, "", 0);
    }

    /// Adds the rules of a block. `outer` is the selector of the enclosing rule, or empty.
    fn add_block(&mut self, text: &str, outer: &str, depth: usize) {
        if depth > MAX_DEPTH {
            self.incomplete = true;
            return;
        }
        let mut own = String::new();
        for item in Items(text) {
            match item {
                Item::Statement(statement) => {
                    own.push_str(statement);
                    own.push(';');
                }
                Item::Block(prelude, body) => self.add_nested(prelude.trim(), body, outer, depth),
            }
        }
        if !outer.is_empty() {
            self.add_rule(outer, &own);
        }
    }

    /// Adds the rules of a nested block. `prelude` is the text before the block: a selector or an
    /// at-rule.
    fn add_nested(&mut self, prelude: &str, body: &str, outer: &str, depth: usize) {
        let Some(at_rule) = prelude.strip_prefix('@') else {
            return match nested_selectors(outer, prelude) {
                Some(selectors) => self.add_block(body, &selectors, depth + 1),
                None => self.incomplete = true,
            };
        };
        let ends = |c: char| !c.is_ascii_alphanumeric() && c != '-';
        let (name, condition) = at_rule.split_at(at_rule.find(ends).unwrap_or(at_rule.len()));
        let applies = match name {
            "media" => matches_window(condition),
            "supports" => !condition.trim_start().starts_with("not"),
            "layer" | "container" | "scope" | "document" | "-moz-document" => true,
            _ => false,
        };
        if applies {
            self.add_block(body, outer, depth + 1);
        }
    }

    fn add_rule(&mut self, selectors: &str, body: &str) {
        let mut found = Vec::new();
        declarations(body, &mut |declaration| found.push(declaration));
        if found.is_empty() {
            return;
        }
        let declarations: Rc<[Declaration]> = found.into();
        for selector in split_outside_brackets(selectors, ',') {
            if self.all.len() >= MAX_RULES {
                self.incomplete = true;
                return;
            }
            let words: Vec<&str> = selector.split_ascii_whitespace().collect();
            self.all.push(Rule {
                selector: words.join(" "),
                declarations: declarations.clone(),
            });
        }
    }
}

/// The rules of a message, with parsed selectors.
#[derive(Debug, Default)]
pub(super) struct Sheet<'r> {
    rules: Vec<(Selector<'r>, &'r [Declaration])>,
    /// For each [`key`] of a selector, the indexes in `rules` of the rules with this key.
    by_key: HashMap<String, Vec<usize>>,
    /// Whether any selector contains an attribute other than the id and the class.
    pub(super) has_attributes: bool,
    /// Whether a skipped rule might hide text.
    skipped_hiding: bool,
    /// Whether a skipped rule might set a background.
    pub(super) skipped_background: bool,
}

impl<'r> Sheet<'r> {
    pub(super) fn new(rules: &'r Rules) -> Self {
        let mut sheet = Self {
            skipped_hiding: rules.incomplete,
            skipped_background: rules.incomplete,
            ..Self::default()
        };
        for rule in &rules.all {
            let selector = rule.selector.as_str();
            // Generated content is not part of the converted text.
            if is_generated(selector) {
                continue;
            }
            let parts = selector
                .split([' ', '>', '+'])
                .filter(|part| !part.is_empty());
            let short = Some(selector).filter(|_| parts.count() <= MAX_PARTS);
            if let Some(parsed) = short.and_then(Selector::parse) {
                let indexes = sheet.by_key.entry(key(selector)).or_default();
                indexes.push(sheet.rules.len());
                sheet.has_attributes |= selector.contains('[');
                sheet.rules.push((parsed, &rule.declarations[..]));
            } else {
                sheet.skipped_hiding |= rule.declarations.iter().any(Declaration::hides);
                sheet.skipped_background |= rule.declarations.iter().any(Declaration::paints);
            }
        }
        sheet
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether an ignored rule might hide text. A rule is ignored if its selector is
    /// unsupported or no steps are left.
    pub(super) fn is_incomplete(&self, steps: &Steps) -> bool {
        self.skipped_hiding || !steps.are_left()
    }

    /// Adds the declarations of the matching rules to `cascade`. The rule with the highest
    /// specificity is added last.
    pub(super) fn apply(&self, node: &Node<'_>, steps: &Steps, cascade: &mut Cascade) {
        if !steps.take() {
            return;
        }
        let mut candidates: Vec<usize> = Vec::new();
        let mut collect = |key: &str| {
            let found = self.by_key.get(key).into_iter().flatten().copied();
            candidates.extend(found.take_while(|_| steps.take()));
        };
        collect("");
        collect(node.name());
        if let Some(id) = node.id() {
            collect(&format!("#{id}"));
        }
        for class in node.classes() {
            collect(&format!(".{class}"));
        }
        candidates.sort_unstable();
        candidates.dedup();
        let mut matching: Vec<([u8; 3], usize)> = candidates
            .into_iter()
            .filter(|at| steps.take() && self.rules[*at].0.matches(node))
            .map(|at| (self.rules[at].0.specificity(), at))
            .collect();
        matching.sort_unstable();
        let declarations = matching.into_iter().flat_map(|(_, at)| self.rules[at].1);
        for declaration in declarations.take_while(|_| steps.take()) {
            cascade.add(*declaration);
        }
    }
}

/// Returns the complete selectors of a nested block, or `None` if the selectors exceed
/// [`MAX_NESTED`].
fn nested_selectors(outer: &str, inner: &str) -> Option<String> {
    if outer.is_empty() {
        return Some(inner.to_owned());
    }
    let mut all: Vec<String> = Vec::new();
    let mut left = MAX_NESTED;
    for outer in split_outside_brackets(outer, ',') {
        for inner in split_outside_brackets(inner, ',') {
            let each = outer.len() * inner.matches('&').count().max(1) + inner.len() + 1;
            left = left.checked_sub(each)?;
            all.push(if inner.contains('&') {
                inner.replace('&', outer)
            } else {
                format!("{outer} {inner}")
            });
        }
    }
    Some(all.join(","))
}

enum Item<'t> {
    /// A statement that ends with a semicolon.
    Statement(&'t str),
    /// The text before a block, and the content of the block.
    Block(&'t str, &'t str),
}

/// An iterator over the statements and blocks of a style sheet. The text must not contain comments.
struct Items<'t>(&'t str);

impl<'t> Iterator for Items<'t> {
    type Item = Item<'t>;

    fn next(&mut self) -> Option<Item<'t>> {
        let text = self.0;
        let mut begins = None;
        let mut depth = 0_usize;
        for (at, c) in outside_strings(text) {
            match (c, begins) {
                ('{', None) => begins = Some(at),
                ('{', Some(_)) => depth += 1,
                ('}', Some(begins)) if depth == 0 => {
                    self.0 = &text[at + 1..];
                    return Some(Item::Block(&text[..begins], &text[begins + 1..at]));
                }
                ('}', Some(_)) => depth -= 1,
                // A closing brace without an opening brace ends only the statement.
                (';' | '}', None) => {
                    self.0 = &text[at + 1..];
                    return Some(Item::Statement(&text[..at]));
                }
                _ => {}
            }
        }
        self.0 = "";
        match begins {
            // The end of the sheet closes all open blocks.
            Some(begins) => Some(Item::Block(&text[..begins], &text[begins + 1..])),
            None if text.trim().is_empty() => None,
            None => Some(Item::Statement(text)),
        }
    }
}

/// Returns the characters outside strings with their offsets. Omits escaped characters.
fn outside_strings(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut quote, mut is_escaped) = (None, false);
    text.char_indices().filter(move |&(_, c)| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match (c, quote) {
            ('\\', _) => is_escaped = true,
            ('\n', Some(_)) => quote = None,
            (c, Some(end)) if c == end => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            _ => return true,
        }
        false
    })
}

/// Splits a text at separators outside brackets and strings.
fn split_outside_brackets(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut begins, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, c) in outside_strings(text) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            c if c == separator && depth == 0 => {
                parts.push(&text[begins..at]);
                begins = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[begins..]);
    parts
}

/// Removes comments. Also removes `<!--` and `-->`, which hide style sheets from very old browsers.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let comment = outside_strings(rest)
            .find(|(at, c)| *c == '/' && rest[*at..].starts_with("/*"))
            .map(|(at, _)| at);
        let Some(at) = comment else {
            plain.push_str(rest);
            break;
        };
        plain.push_str(&rest[..at]);
        plain.push(' ');
        rest = rest[at + 2..]
            .split_once("*/")
            .map_or("", |(_, after)| after);
    }
    plain.replace("<!--", " ").replace("-->", " ")
}

/// Returns the key of a selector, taken from the selector's last part. The key is `#id`, `.class`,
/// an element name, or empty. The selector matches only elements with this id, class or name. A
/// selector with an empty key can match all elements.
fn key(selector: &str) -> String {
    let mut depth = 0_usize;
    let mut begins = 0;
    for (at, c) in outside_strings(selector) {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            ' ' | '>' | '+' if depth == 0 => begins = at + 1,
            _ => {}
        }
    }
    let last = &selector[begins..];
    let last = last.split(['[', ':']).next().unwrap_or(last);
    let part = |mark: char| {
        let (_, named) = last.split_once(mark)?;
        let named = named.split(['.', '#']).next().unwrap_or(named);
        Some(format!("{mark}{named}"))
    };
    part('#')
        .or_else(|| part('.'))
        .unwrap_or_else(|| match last {
            "*" => String::new(),
            element => element.to_owned(),
        })
}

/// Returns whether a selector selects generated content or only a part of a text.
fn is_generated(selector: &str) -> bool {
    selector.contains("::")
        || [":before", ":after", ":first-line", ":first-letter"]
            .iter()
            .any(|part| selector.ends_with(part))
}

/// Returns whether a media query matches a window of width [`WINDOW`]. Unknown queries match.
fn matches_window(query: &str) -> bool {
    let query = query.trim().to_ascii_lowercase();
    query.is_empty()
        || split_outside_brackets(&query, ',')
            .into_iter()
            .any(one_matches)
}

fn one_matches(query: &str) -> bool {
    let query = query.trim();
    if let Some(query) = query.strip_prefix("not ") {
        return !one_matches(query);
    }
    let query = query.strip_prefix("only ").unwrap_or(query);
    query.split(" and ").all(|part| {
        let part = part.trim();
        let Some(feature) = part.strip_prefix('(') else {
            return !matches!(
                part,
                "print"
                    | "speech"
                    | "aural"
                    | "braille"
                    | "tty"
                    | "handheld"
                    | "projection"
                    | "embossed"
            );
        };
        let (feature, value) = feature
            .trim_end_matches(')')
            .split_once(':')
            .unwrap_or((feature, ""));
        let width = pixels(value.trim());
        match (feature.trim(), width) {
            ("max-width" | "max-device-width", Some(most)) => WINDOW <= most,
            ("min-width" | "min-device-width", Some(least)) => WINDOW >= least,
            ("prefers-color-scheme", _) => value.trim() != "dark",
            _ => true,
        }
    })
}
