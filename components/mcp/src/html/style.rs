//! Parses CSS declarations, as far as they affect visibility.

use super::colour::{self, Paint};
use super::length::{is_nothing, measure, pixels};
use super::position;

/// The number of inherited properties that may hide text: font size, visibility, line height and indentation. Child elements may override them.
pub(super) const INHERITED: usize = 4;
/// The index of visibility among the inherited properties.
pub(super) const VISIBILITY: usize = 1;

/// The effect of a style on visibility.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Style {
    /// Whether the element and its whole content are invisible.
    pub(super) gone: bool,
    /// Whether each inherited property hides the text, or `None` if the style does not set it.
    pub(super) hides: [Option<bool>; INHERITED],
    /// The colour of text.
    pub(super) colour: Option<Paint>,
    /// The background of the text.
    pub(super) background: Option<Paint>,
}

/// The properties that are read. Shorthands are split into these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    Display,
    ContentVisibility,
    Visibility,
    Opacity,
    Filter,
    Overflow,
    Width,
    Height,
    MaxWidth,
    MaxHeight,
    MinWidth,
    MinHeight,
    FontSize,
    LineHeight,
    TextIndent,
    Color,
    TextFill,
    Background,
    BackgroundImage,
    Position,
    Left,
    Right,
    Top,
    Bottom,
    MarginLeft,
    MarginTop,
    Clip,
    ClipPath,
    Transform,
    Translate,
    Scale,
}

const PROPERTIES: usize = Property::Scale as usize + 1;

/// The value of a declaration.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// Whether the property hides the element, clips it, moves it outside the page, or contains an image.
    Is(bool),
    Extent(Extent),
    Size(Size),
    Paint(Paint),
    /// Whether offsets apply, and whether the element is taken out of the normal flow.
    Placed {
        offset: bool,
        absolute: bool,
    },
}

/// The width or height of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Zero, or too small to be seen.
    Nothing,
    /// Less than a line of text.
    Little,
    /// Enough for text.
    Enough,
}

/// One declaration of a style.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declaration {
    property: Property,
    value: Value,
    important: bool,
}

impl Declaration {
    /// Returns whether the declaration hides text regardless of all other declarations.
    pub(super) fn hides(&self) -> bool {
        match self.value {
            Value::Is(is) => {
                is && !matches!(
                    self.property,
                    Property::Overflow | Property::BackgroundImage
                )
            }
            Value::Extent(extent) => {
                extent == Extent::Nothing
                    && matches!(self.property, Property::MaxWidth | Property::MaxHeight)
            }
            Value::Size(size) => size == Size::Hides,
            Value::Paint(_) | Value::Placed { .. } => false,
        }
    }

    /// Returns whether the declaration sets a background.
    pub(super) fn paints(&self) -> bool {
        matches!(
            self.property,
            Property::Background | Property::BackgroundImage
        )
    }
}

/// The declarations that apply to an element: the last one for each property. Important declarations take precedence.
#[derive(Debug, Default)]
pub(super) struct Cascade {
    held: [Option<Declaration>; PROPERTIES],
}

impl Cascade {
    /// Adds the next declaration.
    pub(super) fn put(&mut self, said: Declaration) {
        let held = &mut self.held[said.property as usize];
        if said.important || !held.is_some_and(|held| held.important) {
            *held = Some(said);
        }
    }

    /// Adds a declaration from an attribute. It has a lower precedence than any style.
    pub(super) fn hint(&mut self, property: &str, value: &str) {
        read(property, value, false, &mut |said| self.put(said));
    }

    fn value(&self, property: Property) -> Option<Value> {
        self.held[property as usize].map(|held| held.value)
    }

    fn is(&self, property: Property) -> Option<bool> {
        match self.value(property) {
            Some(Value::Is(is)) => Some(is),
            _ => None,
        }
    }

    fn extent(&self, property: Property) -> Option<Extent> {
        match self.value(property) {
            Some(Value::Extent(extent)) => Some(extent),
            _ => None,
        }
    }

    fn paint(&self, property: Property) -> Option<Paint> {
        match self.value(property) {
            Some(Value::Paint(paint)) => Some(paint),
            _ => None,
        }
    }

    /// Returns the resulting style of an element with this name.
    pub(super) fn style(&self, element: &[u8]) -> Style {
        use Property as P;
        let yes = |property| self.is(property) == Some(true);
        let clipped = yes(P::Overflow);
        let line = self.is(P::LineHeight);
        let image = yes(P::BackgroundImage);
        Style {
            gone: [
                P::Display,
                P::ContentVisibility,
                P::Opacity,
                P::Filter,
                P::ClipPath,
            ]
            .into_iter()
            .any(yes)
                || self.squeezed(element, clipped)
                || self.is_elsewhere(),
            // Lines without height are visible unless their overflow is clipped.
            hides: [
                match self.value(P::FontSize) {
                    Some(Value::Size(Size::Hides)) => Some(true),
                    Some(Value::Size(Size::Shows)) => Some(false),
                    _ => None,
                },
                self.is(P::Visibility),
                line.filter(|flat| clipped || !flat),
                self.is(P::TextIndent),
            ],
            colour: self.paint(P::TextFill).or_else(|| self.paint(P::Color)),
            background: if image {
                Some(Paint::Unknown)
            } else {
                self.paint(P::Background)
            },
        }
    }

    /// Returns whether the element is too small for text.
    fn squeezed(&self, element: &[u8], clipped: bool) -> bool {
        use Property as P;
        // Tables and their cells grow with their content, regardless of their declared size.
        if matches!(element, b"table" | b"tbody" | b"tr" | b"td" | b"th") {
            return false;
        }
        let held_open = |least| self.extent(least) == Some(Extent::Enough);
        let none =
            |extent, least| self.extent(extent) == Some(Extent::Nothing) && !held_open(least);
        let little = |extent, least| {
            matches!(self.extent(extent), Some(Extent::Nothing | Extent::Little))
                && !held_open(least)
        };
        let low = none(P::Height, P::MinHeight);
        let narrow = none(P::Width, P::MinWidth);
        let bounded = none(P::MaxHeight, P::MinHeight) || none(P::MaxWidth, P::MinWidth);
        let cut = clipped
            && [
                (P::Height, P::MinHeight),
                (P::MaxHeight, P::MinHeight),
                (P::Width, P::MinWidth),
                (P::MaxWidth, P::MinWidth),
            ]
            .into_iter()
            .any(|(extent, least)| little(extent, least));
        bounded || low && narrow || cut
    }

    /// Returns whether the element is outside the page.
    fn is_elsewhere(&self) -> bool {
        use Property as P;
        let yes = |property| self.is(property) == Some(true);
        let (offset, absolute) = match self.value(P::Position) {
            Some(Value::Placed { offset, absolute }) => (offset, absolute),
            _ => (false, false),
        };
        offset && [P::Left, P::Right, P::Top, P::Bottom].into_iter().any(yes)
            || absolute && yes(P::Clip)
            || [
                P::MarginLeft,
                P::MarginTop,
                P::Transform,
                P::Translate,
                P::Scale,
            ]
            .into_iter()
            .any(yes)
    }
}

/// Splits the style of an element or the body of a rule into declarations, as browsers do: comments are removed, escapes are decoded, and a separator in a
/// string or in brackets ends nothing.
pub(super) fn declarations(style: &str, said: &mut impl FnMut(Declaration)) {
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
            (';', None) if depth == 0 => declaration(&std::mem::take(&mut current), said),
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
    declaration(&current, said);
}

/// Decodes the character of an escape after its backslash. A character that would be read as syntax is replaced.
pub(super) fn escaped(rest: &mut std::str::Chars<'_>) -> char {
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

fn declaration(text: &str, said: &mut impl FnMut(Declaration)) {
    let Some((property, value)) = text.split_once(':') else {
        return;
    };
    let property = property.trim();
    // The longest known property name.
    if property.len() > "-webkit-text-fill-color".len() {
        return;
    }
    let property = property.to_ascii_lowercase();
    let value = value.trim().to_ascii_lowercase();
    let (plain, important) = match value.rsplit_once('!') {
        Some((plain, mark)) if mark.trim() == "important" => (plain.trim_end(), true),
        _ => (value.as_str(), false),
    };
    read(&property, plain, important, said);
}

/// Parses a declaration in lower case. A browser ignores a declaration that it does not know, so the previous value remains.
fn read(property: &str, value: &str, important: bool, said: &mut impl FnMut(Declaration)) {
    use Property as P;
    let mut say = |property, value: Option<Value>| {
        if let Some(value) = value {
            said(Declaration {
                property,
                value,
                important,
            });
        }
    };
    let is = |is: Option<bool>| is.map(Value::Is);
    let paint = |paint: Option<Paint>| paint.map(Value::Paint);
    let off = |value| position::is_off(value).map(Value::Is);
    match property {
        "display" => say(P::Display, is(is_display(value).then_some(value == "none"))),
        "content-visibility" => say(P::ContentVisibility, Some(Value::Is(value == "hidden"))),
        "visibility" => say(
            P::Visibility,
            match value {
                "hidden" | "collapse" => Some(Value::Is(true)),
                "visible" | "initial" => Some(Value::Is(false)),
                _ => None,
            },
        ),
        "opacity" => say(P::Opacity, is(opacity(value))),
        "filter" | "-webkit-filter" => {
            let opaque = value
                .split_once("opacity(")
                .map(|(_, of)| of.split(')').next().unwrap_or(of));
            say(P::Filter, is(opaque.map_or(Some(false), opacity)));
        }
        "overflow" | "overflow-x" | "overflow-y" => {
            say(P::Overflow, Some(Value::Is(is_clipped(value))));
        }
        "width" => say(P::Width, extent(value)),
        "height" => say(P::Height, extent(value)),
        "max-width" => say(P::MaxWidth, extent(value)),
        "max-height" => say(P::MaxHeight, extent(value)),
        "min-width" => say(P::MinWidth, extent(value)),
        "min-height" => say(P::MinHeight, extent(value)),
        "font-size" => say(P::FontSize, font_size(value).map(Value::Size)),
        "font" => say(
            P::FontSize,
            value
                .split_ascii_whitespace()
                .map(|word| word.split('/').next().unwrap_or_default())
                .find_map(|word| measure(word).and_then(|_| font_size(word)))
                .map(Value::Size),
        ),
        "line-height" => say(P::LineHeight, is(flat(value))),
        "text-indent" => say(P::TextIndent, is(position::is_indented_off(value))),
        "color" => say(P::Color, paint(colour::read(value))),
        "-webkit-text-fill-color" => say(P::TextFill, paint(colour::read(value))),
        "background" => {
            say(P::Background, paint(colour::background(value)));
            say(P::BackgroundImage, Some(Value::Is(colour::is_image(value))));
        }
        "background-color" => say(P::Background, paint(colour::read(value))),
        "background-image" => say(
            P::BackgroundImage,
            Some(Value::Is(!matches!(value, "none" | "initial" | "unset"))),
        ),
        "position" => say(
            P::Position,
            match value {
                "absolute" | "fixed" => Some((true, true)),
                "relative" | "sticky" | "-webkit-sticky" => Some((true, false)),
                "static" | "initial" => Some((false, false)),
                _ => None,
            }
            .map(|(offset, absolute)| Value::Placed { offset, absolute }),
        ),
        "left" => say(P::Left, off(value)),
        "right" => say(P::Right, off(value)),
        "top" => say(P::Top, off(value)),
        "bottom" => say(P::Bottom, off(value)),
        "margin-left" => say(P::MarginLeft, off(value)),
        "margin-top" => say(P::MarginTop, off(value)),
        "inset" => sides(value, P::Top, P::Left, &mut say),
        "margin" => sides(value, P::MarginTop, P::MarginLeft, &mut say),
        "clip" => say(P::Clip, is(position::clip(value))),
        "clip-path" | "-webkit-clip-path" => say(P::ClipPath, is(position::clip_path(value))),
        "transform" | "-webkit-transform" | "-ms-transform" => {
            say(P::Transform, is(position::transform(value)));
        }
        "translate" => {
            let lengths: Vec<&str> = value.split_ascii_whitespace().collect();
            say(
                P::Translate,
                Some(Value::Is(position::moves_away(&lengths))),
            );
        }
        "scale" => {
            let factors: Vec<&str> = value.split_ascii_whitespace().collect();
            say(P::Scale, Some(Value::Is(position::scales_away(&factors))));
        }
        _ => {}
    }
}

/// Parses the upper and left lengths of a shorthand for four sides.
fn sides(
    value: &str,
    top: Property,
    left: Property,
    say: &mut impl FnMut(Property, Option<Value>),
) {
    if let Some((upper, leftmost)) = position::upper_and_left(value) {
        say(top, position::is_off(upper).map(Value::Is));
        say(left, position::is_off(leftmost).map(Value::Is));
    }
}

/// Returns whether a browser knows the keyword. An unknown keyword leaves the previous value.
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

/// Classifies a height or width.
fn extent(value: &str) -> Option<Value> {
    let extent = match value {
        "auto" | "none" | "initial" | "max-content" | "min-content" | "fit-content" => {
            Extent::Enough
        }
        _ if is_nothing(value)? => Extent::Nothing,
        _ if pixels(value).is_some_and(|length| length < 4.0) => Extent::Little,
        _ => Extent::Enough,
    };
    Some(Value::Extent(extent))
}

/// Returns whether lines have no height.
fn flat(value: &str) -> Option<bool> {
    match value {
        "normal" | "initial" => Some(false),
        _ => match measure(value)? {
            (number, "") => Some(number < 0.05),
            _ => is_nothing(value),
        },
    }
}

/// The effect of a font size on text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// The font size of the parent, or a multiple of it.
    Follows,
    /// Too small to be seen.
    Hides,
    /// Large enough to be seen.
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
    let (number, unit) = measure(value)?;
    Some(match unit {
        _ if nothing => Size::Hides,
        // Letters of two pixels cannot be read.
        "px" | "pt" if number < 2.5 => Size::Hides,
        "em" | "%" | "ex" | "ch" | "lh" => Size::Follows,
        _ => Size::Shows,
    })
}
