//! Evaluates CSS declarations that affect visibility.

use crate::colour::{self, Paint};
use crate::css;
use crate::length::{is_negligible, measure, pixels};
use crate::position;

/// The number of inherited properties that can hide text. The properties are font size, visibility,
/// line height and indentation. Child elements can override these properties.
pub(crate) const INHERITED: usize = 4;
/// The index of the property `visibility` among the inherited properties.
pub(crate) const VISIBILITY: usize = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Style {
    /// Whether the whole element is invisible.
    pub(crate) invisible: bool,
    /// For each inherited property, whether the property hides the text. `None` if the style does
    /// not set the property.
    pub(crate) hides: [Option<bool>; INHERITED],
    pub(crate) colour: Option<Paint>,
    pub(crate) background: Option<Paint>,
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
    /// Whether `left`, `top`, `right` and `bottom` apply.
    Positioned,
    /// Whether the element is outside the normal flow.
    Absolute,
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

use Property as P;

const PROPERTIES: usize = P::Scale as usize + 1;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// A boolean. Depending on the property, `true` means that the element is hidden, is clipped,
    /// is outside the page, has a background image, or has a position.
    Flag(bool),
    Extent(Extent),
    Paint(Paint),
    /// The value depends on the parent.
    Inherited,
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
pub(crate) struct Declaration {
    property: Property,
    value: Value,
    important: bool,
}

impl Declaration {
    /// Returns whether this declaration alone hides text.
    pub(crate) fn hides(&self) -> bool {
        let is_maximum = matches!(self.property, P::MaxWidth | P::MaxHeight);
        match self.value {
            Value::Flag(flag) => {
                let is_harmless = matches!(
                    self.property,
                    P::Overflow | P::BackgroundImage | P::Positioned | P::Absolute
                );
                flag && !is_harmless
            }
            Value::Extent(extent) => extent == Extent::Zero && is_maximum,
            Value::Paint(_) | Value::Inherited => false,
        }
    }

    pub(crate) fn paints(&self) -> bool {
        matches!(self.property, P::Background | P::BackgroundImage)
    }
}

/// The declarations that apply to an element. Contains only the last declaration of each property.
/// Important declarations take precedence.
#[derive(Debug, Default)]
pub(crate) struct Cascade {
    declarations: [Option<Declaration>; PROPERTIES],
}

impl Cascade {
    /// Adds a declaration. Replaces the existing declaration of the same property, unless only the
    /// existing declaration is important.
    pub(crate) fn add(&mut self, declaration: Declaration) {
        let current = &mut self.declarations[declaration.property as usize];
        if declaration.important || !current.is_some_and(|current| current.important) {
            *current = Some(declaration);
        }
    }

    /// Adds a declaration from a presentational attribute. Styles take precedence over attributes,
    /// so callers add attributes first.
    pub(crate) fn hint(&mut self, property: &str, value: &str) {
        parse(property, value, &mut |property, value| {
            if let Some(value) = value() {
                self.add(Declaration {
                    property,
                    value,
                    important: false,
                });
            }
        });
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

    fn is_set(&self, property: Property) -> bool {
        self.flag(property) == Some(true)
    }

    fn paint(&self, property: Property) -> Option<Paint> {
        match self.value(property) {
            Some(Value::Paint(paint)) => Some(paint),
            _ => None,
        }
    }

    pub(crate) fn style(&self, element: &str) -> Style {
        let hiding = [
            P::Display,
            P::ContentVisibility,
            P::Opacity,
            P::Filter,
            P::ClipPath,
            P::MarginLeft,
            P::MarginTop,
            P::Transform,
            P::Translate,
            P::Scale,
        ];
        let offsets = [P::Left, P::Right, P::Top, P::Bottom];
        let clipped = self.is_set(P::Overflow);
        Style {
            invisible: hiding.into_iter().any(|property| self.is_set(property))
                || self.is_set(P::Positioned) && offsets.into_iter().any(|side| self.is_set(side))
                || self.is_set(P::Absolute) && self.is_set(P::Clip)
                || self.is_too_small(element, clipped),
            hides: [
                self.flag(P::FontSize),
                self.flag(P::Visibility),
                // Lines without height are visible unless the element clips its content.
                self.flag(P::LineHeight).filter(|flat| clipped || !flat),
                self.flag(P::TextIndent),
            ],
            colour: self.paint(P::TextFill).or_else(|| self.paint(P::Color)),
            background: if self.is_set(P::BackgroundImage) {
                Some(Paint::Unknown)
            } else {
                self.paint(P::Background)
            },
        }
    }

    /// Returns whether the element is too small for text.
    fn is_too_small(&self, element: &str, clipped: bool) -> bool {
        // Tables and cells grow with their content, regardless of the declared size.
        if matches!(element, "table" | "tbody" | "tr" | "td" | "th") {
            return false;
        }
        // Returns the extent of a size property. A sufficient minimum makes the extent sufficient.
        let extent = |property, minimum| match (self.value(property), self.value(minimum)) {
            (_, Some(Value::Extent(Extent::Sufficient))) => Extent::Sufficient,
            (Some(Value::Extent(extent)), _) => extent,
            _ => Extent::Sufficient,
        };
        let size = [
            extent(P::Width, P::MinWidth),
            extent(P::Height, P::MinHeight),
        ];
        let max = [
            extent(P::MaxWidth, P::MinWidth),
            extent(P::MaxHeight, P::MinHeight),
        ];
        max.contains(&Extent::Zero)
            || size == [Extent::Zero; 2]
            || clipped && [size, max].as_flattened() != [Extent::Sufficient; 4]
    }
}

/// Parses the style of an element. Passes each supported declaration to `add`.
pub(crate) fn inline(style: &str, add: &mut dyn FnMut(Declaration)) {
    if !style.is_empty() {
        declarations(&css::plain(style), add);
    }
}

/// Parses declarations in [plain](css::plain) CSS. Passes each supported declaration to `add`.
pub(crate) fn declarations(css: &str, add: &mut dyn FnMut(Declaration)) {
    for declaration in css::split(css, |c| c == b';') {
        parse_declaration(declaration, add);
    }
}

/// Returns whether CSS contains a supported property. Does not parse the values.
pub(crate) fn has_property(css: &str) -> bool {
    css::split(css, |c| c == b';').any(|declaration| {
        let mut is_supported = false;
        if let Some((property, value)) = declaration.split_once(':') {
            parse(property.trim(), value, &mut |_, _| is_supported = true);
        }
        is_supported
    })
}

fn parse_declaration(declaration: &str, add: &mut dyn FnMut(Declaration)) {
    let Some((property, value)) = declaration.split_once(':') else {
        return;
    };
    let value = value.trim();
    let without_mark = value.strip_suffix("important").map(str::trim_end);
    let (plain, important) = match without_mark.and_then(|value| value.strip_suffix('!')) {
        Some(plain) => (plain.trim_end(), true),
        None => (value, false),
    };
    parse(property.trim(), plain, &mut |property, value| {
        if let Some(value) = value() {
            add(Declaration {
                property,
                value,
                important,
            });
        }
    });
}

/// Parses the value of a property. Returns `None` if the value is unsupported.
type ParseValue<'v> = &'v dyn Fn() -> Option<Value>;

/// Parses a declaration, which must be in lower case. Passes each property with a function that
/// parses the value. Browsers ignore a declaration with an unsupported value.
fn parse(name: &str, value: &str, set: &mut dyn FnMut(Property, ParseValue<'_>)) {
    let flag = |flag: Option<bool>| flag.map(Value::Flag);
    let paint = |paint: Option<Paint>| paint.map(Value::Paint);
    let outside = |value| position::is_outside(value).map(Value::Flag);
    let words = || value.split_ascii_whitespace();
    match name {
        "display" => set(P::Display, &|| {
            flag(is_display(value).then_some(value == "none"))
        }),
        "content-visibility" => set(P::ContentVisibility, &|| flag(Some(value == "hidden"))),
        "visibility" => set(P::Visibility, &|| match value {
            "hidden" | "collapse" => Some(Value::Flag(true)),
            "visible" | "initial" => Some(Value::Flag(false)),
            _ => None,
        }),
        "opacity" => set(P::Opacity, &|| flag(is_transparent(value))),
        "filter" | "-webkit-filter" => {
            let opacity = value.split_once("opacity(").map(|(_, of)| of);
            let opacity = opacity.map(|of| of.split(')').next().unwrap_or(of));
            set(P::Filter, &|| {
                flag(opacity.map_or(Some(false), is_transparent))
            });
        }
        "overflow" | "overflow-x" | "overflow-y" => {
            let clips = |word| matches!(word, "hidden" | "clip" | "scroll" | "auto");
            set(P::Overflow, &|| flag(Some(words().any(clips))));
        }
        "width" => set(P::Width, &|| extent(value)),
        "height" => set(P::Height, &|| extent(value)),
        "max-width" => set(P::MaxWidth, &|| extent(value)),
        "max-height" => set(P::MaxHeight, &|| extent(value)),
        "min-width" => set(P::MinWidth, &|| extent(value)),
        "min-height" => set(P::MinHeight, &|| extent(value)),
        "font-size" => set(P::FontSize, &|| font_size(value)),
        "font" => set(P::FontSize, &|| {
            words()
                .map(|word| word.split('/').next().unwrap_or_default())
                .find_map(|word| measure(word).and_then(|_| font_size(word)))
        }),
        "line-height" => set(P::LineHeight, &|| flag(is_flat(value))),
        "text-indent" => set(P::TextIndent, &|| words().next().and_then(outside)),
        "color" => set(P::Color, &|| paint(colour::parse(value))),
        "-webkit-text-fill-color" => set(P::TextFill, &|| paint(colour::parse(value))),
        "background" => {
            set(P::Background, &|| paint(colour::background(value)));
            set(P::BackgroundImage, &|| flag(Some(colour::is_image(value))));
        }
        "background-color" => set(P::Background, &|| paint(colour::parse(value))),
        "background-image" => set(P::BackgroundImage, &|| {
            flag(Some(!matches!(value, "none" | "initial" | "unset")))
        }),
        "position" => {
            let positions = match value {
                "absolute" | "fixed" => Some([true, true]),
                "relative" | "sticky" | "-webkit-sticky" => Some([true, false]),
                "static" | "initial" => Some([false, false]),
                _ => None,
            };
            set(P::Positioned, &|| flag(positions.map(|[one, _]| one)));
            set(P::Absolute, &|| flag(positions.map(|[_, one]| one)));
        }
        "left" => set(P::Left, &|| outside(value)),
        "right" => set(P::Right, &|| outside(value)),
        "top" => set(P::Top, &|| outside(value)),
        "bottom" => set(P::Bottom, &|| outside(value)),
        "margin-left" => set(P::MarginLeft, &|| outside(value)),
        "margin-top" => set(P::MarginTop, &|| outside(value)),
        "inset" | "margin" => {
            // The first value is for the top. The value for the left side is the fourth value, or
            // the second value if there is no fourth, or the first value if there is only one.
            let sides: Vec<&str> = words().take(4).collect();
            let left = sides.get(3).or_else(|| sides.get(1)).or(sides.first());
            let properties = match name {
                "inset" => [P::Top, P::Left],
                _ => [P::MarginTop, P::MarginLeft],
            };
            for (property, side) in properties.into_iter().zip([sides.first(), left]) {
                set(property, &|| side.copied().and_then(outside));
            }
        }
        "clip" => set(P::Clip, &|| flag(position::clip(value))),
        "clip-path" | "-webkit-clip-path" => set(P::ClipPath, &|| flag(position::clip_path(value))),
        "transform" | "-webkit-transform" | "-ms-transform" => {
            set(P::Transform, &|| flag(position::transform(value)));
        }
        "translate" => set(P::Translate, &|| {
            flag(Some(position::moves_outside(words())))
        }),
        "scale" => set(P::Scale, &|| {
            flag(Some(position::scales_to_nothing(words())))
        }),
        _ => {}
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

fn is_transparent(opacity: &str) -> Option<bool> {
    match measure(opacity)? {
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

/// Returns whether letters of a font size are too small to be seen.
fn font_size(value: &str) -> Option<Value> {
    match value {
        "medium" | "small" | "x-small" | "xx-small" | "large" | "x-large" | "xx-large"
        | "xxx-large" | "initial" => return Some(Value::Flag(false)),
        "larger" | "smaller" | "inherit" | "unset" => return Some(Value::Inherited),
        _ => {}
    }
    let negligible = is_negligible(value)?;
    let (number, unit) = measure(value)?;
    Some(match unit {
        _ if negligible => Value::Flag(true),
        // Letters of two pixels cannot be read.
        "px" | "pt" if number < 2.5 => Value::Flag(true),
        "em" | "%" | "ex" | "ch" | "lh" => Value::Inherited,
        _ => Value::Flag(false),
    })
}
