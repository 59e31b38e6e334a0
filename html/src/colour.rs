//! Colours of text and backgrounds.

use csscolorparser::Color;

/// The maximum length of a colour value, in bytes. Longer values count as an unknown colour.
const MAX_LENGTH: usize = 256;
/// Text is invisible if each colour channel differs from the background by at most this value.
const MAX_DIFFERENCE: f32 = 20.0 / 255.0;
/// The minimum opacity of a visible colour.
const MIN_OPACITY: f32 = 0.05;

/// A colour in a style.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Paint {
    /// Red, green and blue, each from 0 to 1.
    Opaque([f32; 3]),
    /// Red, green, blue and the opacity.
    Translucent([f32; 3], f32),
    Transparent,
    /// An image, a gradient, or a colour that could not be parsed.
    Unknown,
}

pub(crate) const BLACK: Paint = Paint::Opaque([0.0; 3]);
pub(crate) const WHITE: Paint = Paint::Opaque([1.0; 3]);

/// Parses a colour value in lower case. Returns `None` if browsers ignore the value.
pub(crate) fn parse(value: &str) -> Option<Paint> {
    match value {
        "inherit" | "unset" | "revert" | "revert-layer" | "currentcolor" => return None,
        "initial" | "canvastext" | "windowtext" | "text" => return Some(BLACK),
        "canvas" | "window" => return Some(WHITE),
        _ if value.len() > MAX_LENGTH => return Some(Paint::Unknown),
        _ => {}
    }
    match csscolorparser::parse(value) {
        Ok(colour) => Some(paint(&colour)),
        Err(_) if is_computed(value) => Some(Paint::Unknown),
        Err(_) => None,
    }
}

/// Returns whether browsers might support a colour value that `csscolorparser` cannot parse.
fn is_computed(value: &str) -> bool {
    const FUNCTIONS: [&str; 12] = [
        "var(",
        "env(",
        "color-mix(",
        "light-dark(",
        "color(",
        "rgb",
        "hsl",
        "hwb(",
        "lab(",
        "lch(",
        "oklab(",
        "oklch(",
    ];
    value.ends_with(')') && FUNCTIONS.iter().any(|function| value.starts_with(function))
}

fn paint(colour: &Color) -> Paint {
    let channel = |value: f32| value.clamp(0.0, 1.0);
    let channels = [colour.r, colour.g, colour.b].map(channel);
    match channel(colour.a) {
        alpha if alpha < MIN_OPACITY => Paint::Transparent,
        alpha if alpha < 1.0 => Paint::Translucent(channels, alpha),
        _ => Paint::Opaque(channels),
    }
}

/// Parses the value of `background` or `background-color`.
pub(crate) fn background(value: &str) -> Option<Paint> {
    if is_image(value) {
        return Some(Paint::Unknown);
    }
    if let Some(paint) = parse(value) {
        return Some(paint);
    }
    if value.contains('(') || value.contains("currentcolor") {
        return Some(Paint::Unknown);
    }
    let mut words = value.split_ascii_whitespace();
    words.clone().find_map(parse).or_else(|| {
        // A shorthand without a colour makes the background transparent.
        words.next().map(|_| Paint::Transparent)
    })
}

/// Returns whether a background value contains an image.
pub(crate) fn is_image(value: &str) -> bool {
    ["url(", "gradient(", "image(", "image-set(", "element("]
        .iter()
        .any(|image| value.contains(image))
}

/// Returns the colour that people see if `paint` is painted over `behind`.
pub(crate) fn blend(paint: Paint, behind: Paint) -> Paint {
    match (paint, behind) {
        (Paint::Transparent, behind) => behind,
        (Paint::Translucent(channels, alpha), Paint::Opaque(below)) => {
            let mut mixed = below;
            for (below, above) in mixed.iter_mut().zip(channels) {
                *below += (above - *below) * alpha;
            }
            Paint::Opaque(mixed)
        }
        (Paint::Translucent(..), _) => Paint::Unknown,
        (paint, _) => paint,
    }
}

/// Returns whether people cannot distinguish text of this colour from the background.
pub(crate) fn is_invisible(text: Paint, background: Paint) -> bool {
    if text == Paint::Transparent {
        return true;
    }
    let (Paint::Opaque(text), Paint::Opaque(behind)) = (blend(text, background), background) else {
        return false;
    };
    text.iter()
        .zip(behind)
        .all(|(text, behind)| (text - behind).abs() <= MAX_DIFFERENCE)
}
