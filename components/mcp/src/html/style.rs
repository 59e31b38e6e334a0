//! What an element's own style says of being seen: as much of CSS as that takes. Style sheets, colours and positions are not looked at.

/// What text inherits: how large it is, whether it is visible, how high its lines are. Each may hide it, and what is in an element may say otherwise.
pub(super) const INHERITED: usize = 3;
/// The place of visibility among them.
pub(super) const VISIBILITY: usize = 1;

/// What a style says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// Whether neither the element nor anything in it is seen.
    pub(super) gone: bool,
    /// Whether text is hidden, for each thing that it inherits; none where nothing is said of it.
    pub(super) hides: [Option<bool>; INHERITED],
}

impl Style {
    /// Reads the style of an element; `hidden` where it has the attribute of that name.
    pub(super) fn of(element: &[u8], style: &str, hidden: bool) -> Self {
        let said = declarations(style);
        if said.is_empty() {
            return Self {
                gone: hidden,
                ..Self::default()
            };
        }
        let display = last(&said, |property, value| {
            (property == "display" && is_display(value)).then(|| value == "none")
        });
        let opacity = last(&said, |property, value| {
            (property == "opacity").then(|| opacity(value)).flatten()
        });
        let clipped = last(&said, |property, value| {
            property.starts_with("overflow").then(|| is_clipped(value))
        })
        .unwrap_or_default();
        let length = |wanted: &str| {
            last(&said, |property, value| {
                (property == wanted).then(|| length(value)).flatten()
            })
        };
        let none = |wanted: &str| length(wanted) == Some(true);
        let held_open = |least: &str| length(least) == Some(false);
        let low = none("height") && !held_open("min-height");
        let narrow = none("width") && !held_open("min-width");
        let bounded = none("max-height") && !held_open("min-height")
            || none("max-width") && !held_open("min-width");
        // Tables and their cells grow with what is in them, whatever size they are given.
        let grows = matches!(element, b"table" | b"tbody" | b"tr" | b"td" | b"th");
        let squeezed = !grows && (bounded || low && narrow || clipped && (low || narrow));
        let size = last(&said, |property, value| match property {
            "font-size" => font_size(value),
            "font" => value
                .split_ascii_whitespace()
                .map(|word| word.split('/').next().unwrap_or_default())
                .find_map(|word| measure(word).and_then(|_| font_size(word))),
            _ => None,
        });
        let invisible = last(&said, |property, value| match (property, value) {
            ("visibility", "hidden" | "collapse") => Some(true),
            ("visibility", "visible" | "initial") => Some(false),
            _ => None,
        });
        let line = last(&said, |property, value| match (property, value) {
            ("line-height", "normal" | "initial") => Some(false),
            ("line-height", value) => match measure(value)? {
                (number, "") => Some(number < 0.05),
                _ => is_nothing(value),
            },
            _ => None,
        });
        Self {
            gone: display.unwrap_or(hidden) || opacity == Some(true) || squeezed,
            // Lines without height are seen unless what exceeds them is cut off.
            hides: [
                match size {
                    Some(Size::Hides) => Some(true),
                    Some(Size::Shows) => Some(false),
                    Some(Size::Follows) | None => None,
                },
                invisible,
                line.filter(|flat| clipped || !flat),
            ],
        }
    }
}

/// One thing that a style says, in lower case.
struct Declaration {
    property: String,
    value: String,
    important: bool,
}

/// What holds of a property: the last that can be read, and what is important before what is not.
fn last<T>(said: &[Declaration], read: impl Fn(&str, &str) -> Option<T>) -> Option<T> {
    let of = |important: bool| {
        let mut said = said.iter().rev();
        said.find_map(|one| {
            (one.important == important)
                .then(|| read(&one.property, &one.value))
                .flatten()
        })
    };
    of(true).or_else(|| of(false))
}

/// Takes a style apart as browsers do: without comments, escapes read, and no end where one stands in a string or in brackets.
fn declarations(style: &str) -> Vec<Declaration> {
    let mut said = Vec::new();
    let mut current = String::new();
    let (mut quote, mut depth) = (None, 0_usize);
    let mut rest = style.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', _) => current.push(escaped(&mut rest)),
            ('\n', Some(_)) => quote = None,
            (c, Some(end)) => {
                if c == end {
                    quote = None;
                }
                current.push(c);
            }
            ('/', None) if rest.as_str().starts_with('*') => {
                let behind = rest.as_str().get(1..).unwrap_or_default();
                let comment = behind.split_once("*/");
                rest = comment.map_or("", |(_, behind)| behind).chars();
                current.push(' ');
            }
            (';', None) if depth == 0 => said.extend(declaration(&std::mem::take(&mut current))),
            (c, None) => {
                match c {
                    '"' | '\'' => quote = Some(c),
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                current.push(c);
            }
        }
    }
    said.extend(declaration(&current));
    said
}

/// The character of an escape, behind its backslash. One that would be taken for a mark of the syntax is not what it says here.
fn escaped(rest: &mut std::str::Chars<'_>) -> char {
    let text = rest.as_str();
    let digits = text
        .bytes()
        .take(6)
        .take_while(u8::is_ascii_hexdigit)
        .count();
    let c = if digits == 0 {
        rest.next()
    } else {
        let behind = &text[digits..];
        *rest = behind
            .strip_prefix(|c: char| c.is_ascii_whitespace())
            .unwrap_or(behind)
            .chars();
        u32::from_str_radix(&text[..digits], 16)
            .ok()
            .and_then(char::from_u32)
    };
    c.filter(|c| c.is_alphanumeric() || *c == '-')
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn declaration(text: &str) -> Option<Declaration> {
    let (property, value) = text.split_once(':')?;
    let property = property.trim().to_ascii_lowercase();
    let known = matches!(
        property.as_str(),
        "display"
            | "visibility"
            | "opacity"
            | "font"
            | "font-size"
            | "line-height"
            | "height"
            | "width"
            | "max-height"
            | "max-width"
            | "min-height"
            | "min-width"
            | "overflow"
            | "overflow-x"
            | "overflow-y"
    );
    if !known {
        return None;
    }
    let value = value.trim().to_ascii_lowercase();
    let (plain, important) = match value.rsplit_once('!') {
        Some((plain, mark)) if mark.trim() == "important" => (plain.trim_end(), true),
        _ => (value.as_str(), false),
    };
    Some(Declaration {
        property,
        value: plain.to_owned(),
        important,
    })
}

/// Whether a browser knows the word; one that it does not leaves what was said before.
fn is_display(value: &str) -> bool {
    let known = ["inline", "table", "block", "-webkit-", "-ms-"];
    known.iter().any(|begin| value.starts_with(begin))
        || matches!(
            value,
            "none"
                | "flex"
                | "grid"
                | "contents"
                | "flow-root"
                | "list-item"
                | "inherit"
                | "initial"
                | "unset"
                | "revert"
        )
}

fn is_clipped(value: &str) -> bool {
    let mut words = value.split_ascii_whitespace();
    words.any(|word| matches!(word, "hidden" | "clip" | "scroll" | "auto"))
}

fn opacity(value: &str) -> Option<bool> {
    match measure(value)? {
        (number, "") => Some(number < 0.05),
        (number, "%") => Some(number < 5.0),
        _ => None,
    }
}

/// Whether a height or a width is nothing.
fn length(value: &str) -> Option<bool> {
    match value {
        "auto" | "none" | "initial" | "max-content" | "min-content" | "fit-content" => Some(false),
        _ => is_nothing(value),
    }
}

/// What a font's size does to text.
enum Size {
    /// It is that of what the text stands in, or a multiple of it.
    Follows,
    /// It is too small to be seen.
    Hides,
    /// It is not.
    Shows,
}

fn font_size(value: &str) -> Option<Size> {
    match value {
        "medium" | "small" | "x-small" | "xx-small" | "large" | "x-large" | "xx-large"
        | "xxx-large" | "initial" => return Some(Size::Shows),
        "larger" | "smaller" | "inherit" | "unset" => return Some(Size::Follows),
        _ => {}
    }
    let nothing = is_nothing(value)?;
    let (_, unit) = measure(value)?;
    Some(match unit {
        _ if nothing => Size::Hides,
        "em" | "%" | "ex" | "ch" | "lh" => Size::Follows,
        _ => Size::Shows,
    })
}

/// Whether a length is nothing, or so little that nobody sees it.
fn is_nothing(value: &str) -> Option<bool> {
    match measure(value)? {
        (number, _) if number < 0.0 => None,
        (number, "") => (number == 0.0).then_some(true),
        (number, "px" | "pt" | "q") => Some(number < 1.0),
        (number, "%") => Some(number < 5.0),
        (number, _) => Some(number < 0.05),
    }
}

/// A number and its unit.
fn measure(value: &str) -> Option<(f32, &str)> {
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let unit = &value[number.len()..];
    let known = matches!(
        unit,
        "" | "%"
            | "px"
            | "pt"
            | "pc"
            | "q"
            | "mm"
            | "cm"
            | "in"
            | "em"
            | "rem"
            | "ex"
            | "ch"
            | "lh"
            | "rlh"
            | "vw"
            | "vh"
            | "vmin"
            | "vmax"
    );
    let number = number.parse().ok().filter(|_| known)?;
    Some((number, unit))
}
