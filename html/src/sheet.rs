//! Processes the rules in style elements. Only rules with an effect on visibility are relevant.
//!
//! The crate `simplecss` parses and matches selectors. If `simplecss` does not support a selector,
//! the rule is skipped. [`Sheet::is_incomplete`] reports whether a skipped rule might hide text.
//! [`Steps`] limits the cost of a sheet.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use simplecss::Selector;

use crate::css::{self, Item, Items};
use crate::length::pixels;
use crate::nodes::{Node, Steps};
use crate::style::{Cascade, Declaration, declarations};
use crate::tag::{Token, tokenize};

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
pub(crate) struct Rules {
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
    /// Returns the rules of all style elements. A rule also applies to elements before its style
    /// element.
    pub(crate) fn of(html: &str) -> Self {
        let mut rules = Self::default();
        let Some(head) = with_style_elements(html) else {
            return rules;
        };
        // The media query and the content of the open style element.
        let mut open: Option<(String, String)> = None;
        tokenize(head, |token| {
            match (token, &mut open) {
                (Token::Open(tag), None) if tag.name() == "style" => {
                    open = Some((tag.attribute("media").to_owned(), String::new()));
                }
                (Token::Text(text), Some((_, sheet))) => sheet.push_str(text),
                (Token::Open(_) | Token::Close(_), Some(_)) => rules.add_sheet(open.take()),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        rules.add_sheet(open);
        rules
    }

    /// Adds the rules of a style element with this media query and content.
    fn add_sheet(&mut self, element: Option<(String, String)>) {
        let Some((_, text)) = element.filter(|(media, _)| matches_window(media)) else {
            return;
        };
        self.size += text.len();
        if self.size > MAX_SIZE {
            self.incomplete = true;
            return;
        }
        self.add_block(&css::plain(&text), "", 0);
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
        for selector in css::split(selectors, |c| c == b',') {
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
pub(crate) struct Sheet<'r> {
    rules: Vec<(Selector<'r>, &'r [Declaration])>,
    /// For each [`key`] of a selector, the indexes in `rules` of the rules with this key.
    by_key: HashMap<String, Vec<usize>>,
    /// Whether any selector contains an attribute other than the id and the class.
    pub(crate) has_attributes: bool,
    /// Whether a skipped rule might hide text.
    skipped_hiding: bool,
    /// Whether a skipped rule might set a background.
    pub(crate) skipped_background: bool,
}

impl<'r> Sheet<'r> {
    pub(crate) fn new(rules: &'r Rules) -> Self {
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
            let parts = css::split(selector, |c| matches!(c, b' ' | b'>' | b'+'));
            let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
            let short = Some(selector).filter(|_| parts.len() <= MAX_PARTS);
            if let Some(parsed) = short.and_then(Selector::parse) {
                let key = key(parts.last().copied().unwrap_or_default());
                let indexes = sheet.by_key.entry(key).or_default();
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

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether an ignored rule might hide text. A rule is ignored if its selector is
    /// unsupported or no steps are left.
    pub(crate) fn is_incomplete(&self, steps: &Steps) -> bool {
        self.skipped_hiding || !steps.are_left()
    }

    /// Adds the declarations of the matching rules to `cascade`. The rule with the highest
    /// specificity is added last.
    pub(crate) fn apply(&self, node: &Node<'_>, steps: &Steps, cascade: &mut Cascade) {
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
    for outer in css::split(outer, |c| c == b',') {
        for inner in css::split(inner, |c| c == b',') {
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

/// Returns the beginning of a document, up to the end of its last style element. Returns `None` if
/// there is no style element.
fn with_style_elements(html: &str) -> Option<&str> {
    let bytes = html.as_bytes();
    let is_at = |at: usize, name: &str| {
        let found = bytes.get(at..at + name.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    let mut marks = html.rmatch_indices('<').map(|(at, _)| at);
    let last = marks.find(|at| is_at(*at, "<style") || is_at(*at, "</style>"))?;
    if is_at(last, "<style") {
        return Some(html);
    }
    marks.find(|at| is_at(*at, "<style"))?;
    Some(&html[..last])
}

/// Returns the key of a selector with this last part. The key is `#id`, `.class`, an element name,
/// or empty. The selector matches only elements with this id, class or name. A selector with an
/// empty key can match all elements.
fn key(last: &str) -> String {
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

/// Returns whether a media query matches a window of width [`WINDOW`]. Unknown features match.
fn matches_window(query: &str) -> bool {
    let query = css::plain(query);
    let words: Vec<&str> = query.split_ascii_whitespace().collect();
    words.is_empty() || css::split(&words.join(" "), |c| c == b',').any(one_matches)
}

fn one_matches(query: &str) -> bool {
    let query = query.trim();
    let negated = query.strip_prefix("not ");
    let query = negated.unwrap_or(query.strip_prefix("only ").unwrap_or(query));
    let matches = query.split(" and ").all(|part| {
        let Some(feature) = part.trim().strip_prefix('(') else {
            return matches!(part.trim(), "screen" | "all");
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
    });
    matches != negated.is_some()
}
