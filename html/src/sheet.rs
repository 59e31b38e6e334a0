//! Processes the rules in style elements. Only rules with an effect on visibility are relevant.
//!
//! The crate `simplecss` parses and matches selectors. If `simplecss` does not support a selector,
//! the rule is skipped. [`Sheet::is_incomplete`] reports whether a skipped rule might hide text.
//! [`Steps`] limits the cost of a sheet.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::ControlFlow;

use simplecss::Selector;

use crate::css::{self, Item, Items};
use crate::length::pixels;
use crate::nodes::{Node, Steps};
use crate::style::{Cascade, Declaration, declarations, has_property};
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

/// The style sheets of a message.
#[derive(Debug, Default)]
pub(crate) struct Sheets {
    /// The content of the style elements as [plain](css::plain) CSS.
    all: Vec<String>,
    /// The total size, in bytes.
    size: usize,
    /// Whether a style sheet was omitted because of a limit.
    incomplete: bool,
}

impl Sheets {
    /// Returns the content of all style elements. A rule also applies to elements before its style
    /// element.
    pub(crate) fn of(html: &str) -> Self {
        let mut sheets = Self::default();
        let Some(head) = with_style_elements(html) else {
            return sheets;
        };
        // The media query and the content of the open style element.
        let mut open: Option<(String, String)> = None;
        tokenize(head, |token| {
            match (token, &mut open) {
                (Token::Open(tag), None) if tag.name() == "style" => {
                    open = Some((tag.attribute("media").to_owned(), String::new()));
                }
                (Token::Text(text), Some((_, sheet))) => sheet.push_str(text),
                (Token::Open(_) | Token::Close(_), Some(_)) => sheets.add(open.take()),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        sheets.add(open);
        sheets
    }

    /// Adds the style element with this media query and content.
    fn add(&mut self, element: Option<(String, String)>) {
        let Some((_, text)) = element.filter(|(media, _)| matches_window(media)) else {
            return;
        };
        self.size += text.len();
        if self.size > MAX_SIZE {
            self.incomplete = true;
            return;
        }
        self.all.push(css::plain(&text));
    }
}

/// The rules of a message's style sheets. Selectors and declarations are parsed at their first use,
/// because most rules match no element of a message.
#[derive(Debug, Default)]
pub(crate) struct Rules<'t> {
    all: Vec<Rule<'t>>,
    blocks: Vec<Block<'t>>,
    /// Whether any selector can contain an attribute other than the id and the class.
    pub(crate) have_attributes: bool,
    /// Whether rules were omitted because of a limit.
    incomplete: bool,
}

#[derive(Debug)]
struct Rule<'t> {
    selector: Cow<'t, str>,
    /// The index of the declarations in `blocks`.
    block: usize,
}

/// The declarations of one or more rules.
#[derive(Debug)]
struct Block<'t> {
    text: Cow<'t, str>,
    parsed: OnceCell<Vec<Declaration>>,
}

impl Block<'_> {
    fn declarations(&self) -> &[Declaration] {
        self.parsed.get_or_init(|| {
            let mut parsed = Vec::new();
            declarations(&self.text, &mut |declaration| parsed.push(declaration));
            parsed
        })
    }
}

impl<'t> Rules<'t> {
    pub(crate) fn of(sheets: &'t Sheets) -> Self {
        let mut rules = Self {
            have_attributes: sheets.all.iter().any(|sheet| sheet.contains('[')),
            incomplete: sheets.incomplete,
            ..Self::default()
        };
        for sheet in &sheets.all {
            rules.add_block(sheet, "".into(), 0);
        }
        rules
    }

    /// Adds the rules of a block. `outer` is the selector of the enclosing rule, or empty.
    fn add_block(&mut self, text: &'t str, outer: Cow<'t, str>, depth: usize) {
        if depth > MAX_DEPTH {
            self.incomplete = true;
            return;
        }
        if !text.contains('{') {
            return self.add_rules(outer, text.into());
        }
        let mut own = String::new();
        for item in Items(text) {
            match item {
                Item::Statement(statement) => {
                    own.push_str(statement);
                    own.push(';');
                }
                Item::Block(prelude, body) => {
                    self.add_nested(prelude.trim(), body, outer.clone(), depth);
                }
            }
        }
        self.add_rules(outer, own.into());
    }

    /// Adds the rules of a nested block. `prelude` is the text before the block: a selector or an
    /// at-rule.
    fn add_nested(&mut self, prelude: &'t str, body: &'t str, outer: Cow<'t, str>, depth: usize) {
        let Some(at_rule) = prelude.strip_prefix('@') else {
            return match nested_selectors(&outer, prelude) {
                Some(selectors) => self.add_block(body, selectors, depth + 1),
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

    /// Adds a rule for each selector. Without selectors, the declarations have no effect.
    fn add_rules(&mut self, selectors: Cow<'t, str>, declarations: Cow<'t, str>) {
        if selectors.is_empty() || !has_property(&declarations) {
            return;
        }
        let block = self.blocks.len();
        self.blocks.push(Block {
            text: declarations,
            parsed: OnceCell::new(),
        });
        let mut add = |selector| {
            self.incomplete |= self.all.len() >= MAX_RULES;
            if self.all.len() < MAX_RULES {
                self.all.push(Rule { selector, block });
            }
        };
        let is_comma = |byte| byte == b',';
        match selectors {
            Cow::Borrowed(all) => {
                let all = css::split(all, is_comma);
                all.for_each(|selector| add(selector.trim_ascii().into()));
            }
            Cow::Owned(all) => {
                let all = css::split(&all, is_comma);
                all.for_each(|selector| add(selector.trim_ascii().to_owned().into()));
            }
        }
    }
}

/// The type and the name of a simple selector. The type is `#`, `.`, or a space for an element.
type Key<'r> = (char, &'r str);

/// The rules of a message by the elements that they can match.
pub(crate) struct Sheet<'r> {
    rules: &'r Rules<'r>,
    entries: Vec<Entry<'r>>,
    /// For each [`key`] of a selector, the index of the last rule with this key.
    by_key: HashMap<Key<'r>, usize>,
    /// Whether a skipped rule might set a background.
    skips_background: OnceCell<bool>,
}

/// An entry for a rule.
struct Entry<'r> {
    /// The selector and its specificity, or `None` if the rule is skipped.
    selector: OnceCell<Option<(Selector<'r>, [u8; 3])>>,
    /// The index of the previous rule with the same key.
    previous: Option<usize>,
}

impl<'r> Sheet<'r> {
    pub(crate) fn new(rules: &'r Rules<'r>) -> Self {
        let mut by_key = HashMap::with_capacity(rules.all.len());
        let entries = rules.all.iter().enumerate();
        let entries = entries.map(|(at, rule)| Entry {
            selector: OnceCell::new(),
            previous: by_key.insert(key(&rule.selector), at),
        });
        Self {
            rules,
            entries: entries.collect(),
            by_key,
            skips_background: OnceCell::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether an ignored rule might hide text. A rule is ignored if its selector is
    /// unsupported or no steps are left.
    pub(crate) fn is_incomplete(&self, steps: &Steps) -> bool {
        !steps.are_left() || self.skips(Declaration::hides)
    }

    /// Returns whether a skipped rule might set a background.
    pub(crate) fn skips_background(&self) -> bool {
        let skips = || self.skips(Declaration::paints);
        *self.skips_background.get_or_init(skips)
    }

    /// Returns whether a skipped rule might have a declaration of this kind.
    fn skips(&self, is_kind: impl Fn(&Declaration) -> bool) -> bool {
        let mut rules = self.rules.all.iter().enumerate();
        self.rules.incomplete
            || rules.any(|(at, rule)| {
                // Ignore rules for generated content, which is not part of the converted text.
                self.declarations(at).iter().any(&is_kind)
                    && self.selector(at).is_none()
                    && !is_generated(&rule.selector)
            })
    }

    fn declarations(&self, at: usize) -> &'r [Declaration] {
        self.rules.blocks[self.rules.all[at].block].declarations()
    }

    fn selector(&self, at: usize) -> Option<&(Selector<'r>, [u8; 3])> {
        let parsed = self.entries[at].selector.get_or_init(|| {
            let text = &*self.rules.all[at].selector;
            let is_short = || parts(text).count() <= MAX_PARTS;
            let selector = Selector::parse(text).filter(|_| !is_generated(text) && is_short())?;
            let specificity = selector.specificity();
            Some((selector, specificity))
        });
        parsed.as_ref()
    }

    /// Adds the declarations of the matching rules to `cascade`. The rule with the highest
    /// specificity is added last.
    pub(crate) fn apply(&self, node: &Node<'_>, steps: &Steps, cascade: &mut Cascade) {
        if !steps.take() {
            return;
        }
        let mut matching: Vec<([u8; 3], usize)> = Vec::new();
        let mut collect = |kind: char, name: &str| {
            let mut next = self.by_key.get(&(kind, name)).copied();
            while let Some(at) = next.filter(|_| steps.take()) {
                next = self.entries[at].previous;
                if let Some((selector, specificity)) = self.selector(at)
                    && selector.matches(node)
                {
                    matching.push((*specificity, at));
                }
            }
        };
        collect(' ', "");
        collect(' ', node.name());
        if let Some(id) = node.id() {
            collect('#', id);
        }
        for class in node.classes() {
            collect('.', class);
        }
        matching.sort_unstable();
        // An element can have a class twice.
        matching.dedup();
        let declarations = matching.iter().flat_map(|(_, at)| self.declarations(*at));
        for declaration in declarations.take_while(|_| steps.take()) {
            cascade.add(*declaration);
        }
    }
}

/// Returns the complete selectors of a nested block, or `None` if the selectors exceed
/// [`MAX_NESTED`].
fn nested_selectors<'t>(outer: &str, inner: &'t str) -> Option<Cow<'t, str>> {
    if outer.is_empty() {
        return Some(inner.into());
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
    Some(all.join(",").into())
}

/// Returns the beginning of a document, up to the end of its last style element. Returns `None` if
/// there is no style element.
pub(crate) fn with_style_elements(html: &str) -> Option<&str> {
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

/// Returns the parts of a selector between its combinators.
fn parts(selector: &str) -> impl Iterator<Item = &str> {
    let is_combinator = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'+');
    css::split(selector, is_combinator).filter(|part| !part.is_empty())
}

/// Returns the key of a selector: the id, class or element name in its last part. The selector
/// matches only elements with this id, class or name. A selector with an empty name can match all
/// elements.
fn key(selector: &str) -> Key<'_> {
    let last = parts(selector).last().unwrap_or_default();
    let last = last.split(['[', ':']).next().unwrap_or(last);
    let part = |kind: char| {
        let (_, named) = last.split_once(kind)?;
        Some((kind, named.split(['.', '#']).next().unwrap_or(named)))
    };
    part('#')
        .or_else(|| part('.'))
        .unwrap_or((' ', if last == "*" { "" } else { last }))
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
