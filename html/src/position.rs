//! Detects elements that are invisible because of their position, clipping or transformation.

use std::f32::consts::PI;

use crate::length::{measure, pixels};

/// The limit for negative offsets, in pixels. An offset of this value or less moves an element
/// beyond the upper or left edge of the page.
const MIN_OFFSET: f32 = -500.0;
/// The limit for positive offsets, in pixels. An offset of this value or more moves an element
/// outside the page. Pages can be scrolled, so the limit is larger than screens.
const MAX_OFFSET: f32 = 5000.0;
/// The minimum scale factor of a visible element.
const MIN_SCALE: f32 = 0.05;

/// Returns whether an offset or a margin moves an element outside the page.
pub(crate) fn is_outside(value: &str) -> Option<bool> {
    match value {
        "auto" | "initial" => Some(false),
        _ => pixels(value).map(is_far),
    }
}

fn is_far(at: f32) -> bool {
    at <= MIN_OFFSET || at >= MAX_OFFSET
}

/// Returns whether this value of the CSS property `clip` hides the whole element. Returns `None` if
/// the value is not supported.
pub(crate) fn clip(value: &str) -> Option<bool> {
    if matches!(value, "auto" | "initial" | "unset") {
        return Some(false);
    }
    let sides = arguments(value, "rect")?;
    let sides: Vec<Option<f32>> = sides.map(pixels).collect();
    let [top, right, bottom, left] = sides[..] else {
        return None;
    };
    // `None` stands for `auto`, which means the edge of the element.
    let is_narrow = |from: Option<f32>, to: Option<f32>| {
        to.is_some_and(|to| to - from.unwrap_or_default() < 2.0)
    };
    Some(is_narrow(top, bottom) || is_narrow(left, right))
}

/// Returns whether this value of the CSS property `clip-path` hides the whole element. Returns
/// `None` if the value is not supported.
pub(crate) fn clip_path(value: &str) -> Option<bool> {
    if matches!(value, "none" | "initial" | "unset") {
        return Some(false);
    }
    let value = value.split(") ").next().unwrap_or(value);
    let value = value.trim_end_matches(')');
    let (shape, of) = value.split_once('(')?;
    let of = of.split(" at ").next().unwrap_or(of);
    let of = of.split(" round ").next().unwrap_or(of);
    let lengths = || of.split_ascii_whitespace().map(pixels);
    Some(match shape.trim() {
        // An inset hides the element if the insets of two opposite sides add up to the size of the
        // element. The assumed size is about 600 pixels, which is the usual width of a mail.
        "inset" => {
            let sides: Vec<f32> = lengths().map(Option::unwrap_or_default).collect();
            let side = |at: usize, or: usize, else_or: usize| {
                let first = sides.get(at).or_else(|| sides.get(or));
                first.or_else(|| sides.get(else_or)).copied().unwrap_or(0.0)
            };
            side(0, 0, 0) + side(2, 0, 0) >= 590.0 || side(1, 0, 0) + side(3, 1, 0) >= 590.0
        }
        "circle" | "ellipse" => lengths().flatten().any(|radius| radius < 2.0),
        "rect" | "xywh" => lengths().flatten().all(|length| length < 2.0),
        "polygon" => {
            let mut points = of.split(',').map(str::trim);
            let first = points.next().unwrap_or_default();
            points.all(|point| point == first)
        }
        _ => return None,
    })
}

/// Returns whether a transformation hides an element or moves the element outside the page.
pub(crate) fn transform(value: &str) -> Option<bool> {
    if matches!(value, "none" | "initial" | "unset") {
        return Some(false);
    }
    let mut hides = false;
    for step in value.split(')').filter(|step| !step.trim().is_empty()) {
        let (function, arguments) = step.split_once('(')?;
        let mut arguments = arguments.split(',').map(str::trim);
        hides |= match function.trim() {
            "scale" | "scalex" | "scaley" | "scale3d" => scales_to_nothing(arguments),
            "translate" | "translatex" | "translatey" | "translate3d" => moves_outside(arguments),
            "rotatex" | "rotatey" => arguments.any(is_edge_on),
            "matrix" => {
                let numbers = arguments.map(|number| number.parse().ok());
                // `x` and `y` are scale factors, `yx` and `xy` are skew factors, and `left` and
                // `top` are offsets in pixels.
                let [x, yx, xy, y, left, top] = numbers.collect::<Option<Vec<f32>>>()?[..] else {
                    return None;
                };
                let is_nothing = |factors: [f32; 2]| factors.iter().any(|of| of.abs() < MIN_SCALE);
                is_nothing([x, y]) && is_nothing([yx, xy])
                    || [left, top].iter().any(|at| is_far(*at))
            }
            _ => false,
        };
    }
    Some(hides)
}

/// Returns whether at least one of these scale factors hides the element.
pub(crate) fn scales_to_nothing<'v>(mut factors: impl Iterator<Item = &'v str>) -> bool {
    factors.any(|factor| match measure(factor) {
        Some((number, "%")) => number.abs() < MIN_SCALE * 100.0,
        Some((number, _)) => number.abs() < MIN_SCALE,
        None => false,
    })
}

/// Returns whether at least one of these lengths moves an element outside the page. Percentages are
/// relative to the size of the element. Centring moves an element by half of the element's size, so
/// small percentages are allowed.
pub(crate) fn moves_outside<'v>(mut lengths: impl Iterator<Item = &'v str>) -> bool {
    lengths.any(|length| match measure(length) {
        Some((number, "%")) => number.abs() >= 200.0,
        _ => is_outside(length) == Some(true),
    })
}

/// Returns whether this angle turns an element edge-on. Such an element is invisible.
fn is_edge_on(angle: &str) -> bool {
    let units = [
        ("deg", 1.0),
        ("grad", 0.9),
        ("rad", 180.0 / PI),
        ("turn", 360.0),
    ];
    let found = units.into_iter().find_map(|(unit, degrees)| {
        let number: f32 = angle.strip_suffix(unit)?.parse().ok()?;
        Some(number * degrees)
    });
    found.is_some_and(|degrees| (degrees.rem_euclid(180.0) - 90.0).abs() < 3.0)
}

/// Splits the arguments of a CSS function at commas and spaces.
fn arguments<'v>(value: &'v str, function: &str) -> Option<impl Iterator<Item = &'v str>> {
    let inner = value.strip_prefix(function)?.trim_start();
    let inner = inner.strip_prefix('(')?.strip_suffix(')')?;
    let words = inner.split(|c: char| c == ',' || c.is_ascii_whitespace());
    Some(words.filter(|word| !word.is_empty()))
}
