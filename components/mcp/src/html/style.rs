//! Parses CSS declarations that affect visibility.

use super::colour::{self, Paint};
use super::length::{is_negligible, measure, pixels};
use super::position;

/// The number of inherited properties that can hide text. The properties are font size, visibility,
/// line height and indentation. Child elements can override these properties.
pub(super) const INHERITED: usize = 4;
/// The index of the property `visibility` among the inherited properties.
pub(super) const VISIBILITY: usize = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Style {
    /// Whether the whole element is invisible.
    pub(super) invisible: bool,
    /// For each inherited property, whether the property hides the text. `None` if the style does
    /// not set the property.
    pub(super) hides: [Option<bool>; INHERITED],
    pub(super) colour: Option<Paint>,
    pub(super) background: Option<Paint>,
}

/// The supported properties. Each shorthand is converted to these properties.
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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// The value of a property that only has an effect or not. `true` means that the property hides
    /// or clips the element, moves it outside the page, or gives it a background image.
    Flag(bool),
    Extent(Extent),
    FontSize(FontSize),
    Paint(Paint),
    /// The value of `position`.
    Position {
        /// Whether `left`, `top`, `right` and `bottom` have an effect.
        offset: bool,
        /// Whether the element is outside the normal flow.
        absolute: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Too small to be seen.
    Zero,
    /// Smaller than a line of text.
    Small,
    /// Large enough for text.
    Sufficient,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Declaration {
    property: Property,
    value: Value,
    important: bool,
}

impl Declaration {
    /// Returns whether this declaration alone hides text.
    pub(super) fn hides(&self) -> bool {
        match self.value {
            Value::Flag(flag) => {
                flag && !matches!(
                    self.property,
                    Property::Overflow | Property::BackgroundImage
                )
            }
            Value::Extent(extent) => {
                extent == Extent::Zero
                    && matches!(self.property, Property::MaxWidth | Property::MaxHeight)
            }
            Value::FontSize(size) => size == FontSize::Invisible,
            Value::Paint(_) | Value::Position { .. } => false,
        }
    }

    pub(super) fn paints(&self) -> bool {
        matches!(
            self.property,
            Property::Background | Property::BackgroundImage
        )
    }
}

/// The declarations that apply to an element. Contains only the last declaration of each property.
/// Important declarations take precedence.
#[derive(Debug, Default)]
pub(super) struct Cascade {
    declarations: [Option<Declaration>; PROPERTIES],
}

impl Cascade {
    /// Adds a declaration. Replaces the existing declaration of the same property, unless only the
    /// existing declaration is important.
    pub(super) fn add(&mut self, declaration: Declaration) {
        let current = &mut self.declarations[declaration.property as usize];
        if declaration.important || !current.is_some_and(|current| current.important) {
            *current = Some(declaration);
        }
    }

    /// Adds a declaration from a presentational attribute. Styles take precedence over attributes,
    /// so callers add attributes first.
    pub(super) fn hint(&mut self, property: &str, value: &str) {
        let mut add = |declaration| self.add(declaration);
        parse(property, value, false, &mut add);
    }

    fn value(&self, property: Property) -> Option<Value> {
        self.declarations[property as usize].map(|declaration| declaration.value)
    }

    fn flag(&self, property: Property) -> Option<bool> {
        match self.value(property) {
            Some(Value::Flag(flag)) => Some(flag),
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

    pub(super) fn style(&self, element: &[u8]) -> Style {
        use Property as P;
        let is_set = |property| self.flag(property) == Some(true);
        let clipped = is_set(P::Overflow);
        let flat_lines = self.flag(P::LineHeight);
        let image = is_set(P::BackgroundImage);
        Style {
            invisible: [
                P::Display,
                P::ContentVisibility,
                P::Opacity,
                P::Filter,
                P::ClipPath,
            ]
            .into_iter()
            .any(is_set)
                || self.is_too_small(element, clipped)
                || self.is_outside_page(),
            // Lines without height are visible unless the element clips its content.
            hides: [
                match self.value(P::FontSize) {
                    Some(Value::FontSize(FontSize::Invisible)) => Some(true),
                    Some(Value::FontSize(FontSize::Visible)) => Some(false),
                    _ => None,
                },
                self.flag(P::Visibility),
                flat_lines.filter(|flat| clipped || !flat),
                self.flag(P::TextIndent),
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
    fn is_too_small(&self, element: &[u8], clipped: bool) -> bool {
        use Property as P;
        // Tables and cells grow with their content, regardless of the declared size.
        if matches!(element, b"table" | b"tbody" | b"tr" | b"td" | b"th") {
            return false;
        }
        let has_min = |min| self.extent(min) == Some(Extent::Sufficient);
        let is_zero = |extent, min| self.extent(extent) == Some(Extent::Zero) && !has_min(min);
        let is_small = |extent, min| {
            matches!(self.extent(extent), Some(Extent::Zero | Extent::Small)) && !has_min(min)
        };
        let no_height = is_zero(P::Height, P::MinHeight);
        let no_width = is_zero(P::Width, P::MinWidth);
        let max_is_zero = is_zero(P::MaxHeight, P::MinHeight) || is_zero(P::MaxWidth, P::MinWidth);
        let is_clipped_to_small = clipped
            && [
                (P::Height, P::MinHeight),
                (P::MaxHeight, P::MinHeight),
                (P::Width, P::MinWidth),
                (P::MaxWidth, P::MinWidth),
            ]
            .into_iter()
            .any(|(extent, min)| is_small(extent, min));
        max_is_zero || no_height && no_width || is_clipped_to_small
    }

    fn is_outside_page(&self) -> bool {
        use Property as P;
        let is_set = |property| self.flag(property) == Some(true);
        let (offset, absolute) = match self.value(P::Position) {
            Some(Value::Position { offset, absolute }) => (offset, absolute),
            _ => (false, false),
        };
        offset
            && [P::Left, P::Right, P::Top, P::Bottom]
                .into_iter()
                .any(is_set)
            || absolute && is_set(P::Clip)
            || [
                P::MarginLeft,
                P::MarginTop,
                P::Transform,
                P::Translate,
                P::Scale,
            ]
            .into_iter()
            .any(is_set)
    }
}

/// Parses the style of an element or the body of a rule. Passes each supported declaration to
/// `add`. As in browsers, comments are removed and escapes are decoded. Separators in strings and
/// brackets are ignored.
pub(super) fn declarations(style: &str, add: &mut impl FnMut(Declaration)) {
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
                let after = rest.as_str().get(1..).unwrap_or_default();
                let comment = after.split_once("*/");
                rest = comment.map_or("", |(_, after)| after).chars();
                current.push(' ');
            }
            (';', None) if depth == 0 => declaration(&std::mem::take(&mut current), add),
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
    declaration(&current, add);
}

/// Decodes an escaped character. `rest` starts after the backslash. Replaces all characters except
/// letters, digits and hyphens, because such characters could be read as CSS syntax.
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
        let after = &text[digits..];
        *rest = after
            .strip_prefix(|c: char| c.is_ascii_whitespace())
            .unwrap_or(after)
            .chars();
        u32::from_str_radix(&text[..digits], 16)
            .ok()
            .and_then(char::from_u32)
    };
    c.filter(|c| c.is_alphanumeric() || *c == '-')
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn declaration(text: &str, add: &mut impl FnMut(Declaration)) {
    let Some((property, value)) = text.split_once(':') else {
        return;
    };
    let property = property.trim();
    // No supported property has a longer name.
    if property.len() > "-webkit-text-fill-color".len() {
        return;
    }
    let property = property.to_ascii_lowercase();
    let value = value.trim().to_ascii_lowercase();
    let (plain, important) = match value.rsplit_once('!') {
        Some((plain, mark)) if mark.trim() == "important" => (plain.trim_end(), true),
        _ => (value.as_str(), false),
    };
    parse(&property, plain, important, add);
}

/// Parses a declaration, which must be in lower case. Ignores an unsupported declaration, as
/// browsers do.
fn parse(property: &str, value: &str, important: bool, add: &mut impl FnMut(Declaration)) {
    use Property as P;
    let mut set = |property, value: Option<Value>| {
        if let Some(value) = value {
            add(Declaration {
                property,
                value,
                important,
            });
        }
    };
    let flag = |flag: Option<bool>| flag.map(Value::Flag);
    let paint = |paint: Option<Paint>| paint.map(Value::Paint);
    match property {
        "display" => set(
            P::Display,
            flag(is_display(value).then_some(value == "none")),
        ),
        "content-visibility" => set(P::ContentVisibility, Some(Value::Flag(value == "hidden"))),
        "visibility" => set(
            P::Visibility,
            match value {
                "hidden" | "collapse" => Some(Value::Flag(true)),
                "visible" | "initial" => Some(Value::Flag(false)),
                _ => None,
            },
        ),
        "opacity" => set(P::Opacity, flag(opacity(value))),
        "filter" | "-webkit-filter" => {
            let opaque = value
                .split_once("opacity(")
                .map(|(_, of)| of.split(')').next().unwrap_or(of));
            set(P::Filter, flag(opaque.map_or(Some(false), opacity)));
        }
        "overflow" | "overflow-x" | "overflow-y" => {
            set(P::Overflow, Some(Value::Flag(is_clipped(value))));
        }
        "width" => set(P::Width, extent(value)),
        "height" => set(P::Height, extent(value)),
        "max-width" => set(P::MaxWidth, extent(value)),
        "max-height" => set(P::MaxHeight, extent(value)),
        "min-width" => set(P::MinWidth, extent(value)),
        "min-height" => set(P::MinHeight, extent(value)),
        "font-size" => set(P::FontSize, font_size(value).map(Value::FontSize)),
        "font" => set(
            P::FontSize,
            value
                .split_ascii_whitespace()
                .map(|word| word.split('/').next().unwrap_or_default())
                .find_map(|word| measure(word).and_then(|_| font_size(word)))
                .map(Value::FontSize),
        ),
        "line-height" => set(P::LineHeight, flag(is_flat(value))),
        "text-indent" => set(P::TextIndent, flag(position::is_indented_outside(value))),
        "color" => set(P::Color, paint(colour::parse(value))),
        "-webkit-text-fill-color" => set(P::TextFill, paint(colour::parse(value))),
        "background" => {
            set(P::Background, paint(colour::background(value)));
            set(
                P::BackgroundImage,
                Some(Value::Flag(colour::is_image(value))),
            );
        }
        "background-color" => set(P::Background, paint(colour::parse(value))),
        "background-image" => set(
            P::BackgroundImage,
            Some(Value::Flag(!matches!(value, "none" | "initial" | "unset"))),
        ),
        _ => parse_placement(property, value, &mut set),
    }
}

/// Parses a declaration that can move, clip or transform an element.
fn parse_placement(property: &str, value: &str, set: &mut impl FnMut(Property, Option<Value>)) {
    use Property as P;
    let flag = |flag: Option<bool>| flag.map(Value::Flag);
    let outside = |value| position::is_outside(value).map(Value::Flag);
    match property {
        "position" => set(
            P::Position,
            match value {
                "absolute" | "fixed" => Some((true, true)),
                "relative" | "sticky" | "-webkit-sticky" => Some((true, false)),
                "static" | "initial" => Some((false, false)),
                _ => None,
            }
            .map(|(offset, absolute)| Value::Position { offset, absolute }),
        ),
        "left" => set(P::Left, outside(value)),
        "right" => set(P::Right, outside(value)),
        "top" => set(P::Top, outside(value)),
        "bottom" => set(P::Bottom, outside(value)),
        "margin-left" => set(P::MarginLeft, outside(value)),
        "margin-top" => set(P::MarginTop, outside(value)),
        "inset" => sides(value, P::Top, P::Left, set),
        "margin" => sides(value, P::MarginTop, P::MarginLeft, set),
        "clip" => set(P::Clip, flag(position::clip(value))),
        "clip-path" | "-webkit-clip-path" => set(P::ClipPath, flag(position::clip_path(value))),
        "transform" | "-webkit-transform" | "-ms-transform" => {
            set(P::Transform, flag(position::transform(value)));
        }
        "translate" => {
            let lengths: Vec<&str> = value.split_ascii_whitespace().collect();
            set(
                P::Translate,
                Some(Value::Flag(position::moves_outside(&lengths))),
            );
        }
        "scale" => {
            let factors: Vec<&str> = value.split_ascii_whitespace().collect();
            set(
                P::Scale,
                Some(Value::Flag(position::scales_to_nothing(&factors))),
            );
        }
        _ => {}
    }
}

/// Parses a shorthand for four sides. Sets only the properties of the upper and the left side.
fn sides(
    value: &str,
    top: Property,
    left: Property,
    set: &mut impl FnMut(Property, Option<Value>),
) {
    if let Some((upper, leftmost)) = position::upper_and_left(value) {
        set(top, position::is_outside(upper).map(Value::Flag));
        set(left, position::is_outside(leftmost).map(Value::Flag));
    }
}

/// Returns whether browsers support a value of `display`. For other values, browsers keep the
/// previous value.
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
            Extent::Sufficient
        }
        _ if is_negligible(value)? => Extent::Zero,
        _ if pixels(value).is_some_and(|length| length < 4.0) => Extent::Small,
        _ => Extent::Sufficient,
    };
    Some(Value::Extent(extent))
}

/// Returns whether lines with this line height have no height.
fn is_flat(value: &str) -> Option<bool> {
    match value {
        "normal" | "initial" => Some(false),
        _ => match measure(value)? {
            (number, "") => Some(number < 0.05),
            _ => is_negligible(value),
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FontSize {
    /// Relative to the font size of the parent.
    Relative,
    /// Too small to be seen.
    Invisible,
    /// Large enough to be seen.
    Visible,
}

fn font_size(value: &str) -> Option<FontSize> {
    match value {
        "medium" | "small" | "x-small" | "xx-small" | "large" | "x-large" | "xx-large"
        | "xxx-large" | "initial" => return Some(FontSize::Visible),
        "larger" | "smaller" | "inherit" | "unset" => return Some(FontSize::Relative),
        _ => {}
    }
    let negligible = is_negligible(value)?;
    let (number, unit) = measure(value)?;
    Some(match unit {
        _ if negligible => FontSize::Invisible,
        // Letters of two pixels cannot be read.
        "px" | "pt" if number < 2.5 => FontSize::Invisible,
        "em" | "%" | "ex" | "ch" | "lh" => FontSize::Relative,
        _ => FontSize::Visible,
    })
}
