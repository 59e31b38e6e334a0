//! Parses CSS lengths.

/// The maximum number of terms in a `calc()` expression. The length of a longer expression is
/// unknown.
const MAX_TERMS: usize = 16;

/// Splits a length into a number and its unit.
pub(crate) fn measure(value: &str) -> Option<(f32, &str)> {
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

/// Returns the approximate length in pixels. A percentage is relative to 600 pixels, the usual
/// width of a mail.
pub(crate) fn pixels(value: &str) -> Option<f32> {
    if let Some(sum) = value.strip_prefix("calc(") {
        return calculated(sum.strip_suffix(')')?);
    }
    let (number, unit) = measure(value)?;
    let each = match unit {
        "px" => 1.0,
        "" if number == 0.0 => 1.0,
        "pt" => 96.0 / 72.0,
        "pc" | "em" | "rem" | "lh" | "rlh" => 16.0,
        "ex" | "ch" => 8.0,
        "in" => 96.0,
        "cm" => 96.0 / 2.54,
        "mm" => 96.0 / 25.4,
        "q" => 96.0 / 101.6,
        "%" => 6.0,
        "vw" | "vh" | "vmin" | "vmax" => 10.0,
        _ => return None,
    };
    Some(number * each)
}

/// Returns the sum of a `calc()` expression. Supports only addition and subtraction.
fn calculated(sum: &str) -> Option<f32> {
    let mut total = 0.0;
    let mut sign = 1.0;
    for (number, word) in sum.split_ascii_whitespace().enumerate() {
        match (word, number % 2) {
            (_, _) if number >= 2 * MAX_TERMS => return None,
            ("+", 1) => sign = 1.0,
            ("-", 1) => sign = -1.0,
            (_, 1) => return None,
            (term, _) => {
                let (number, unit) = measure(term)?;
                let term = if unit.is_empty() {
                    number
                } else {
                    pixels(term)?
                };
                total += sign * term;
            }
        }
    }
    Some(total)
}

/// Returns whether a length is too small to be seen. Returns `None` if the length is invalid.
pub(crate) fn is_negligible(value: &str) -> Option<bool> {
    match measure(value)? {
        (number, _) if number < 0.0 => None,
        (number, "") => (number == 0.0).then_some(true),
        (number, "px" | "pt" | "q") => Some(number < 1.0),
        (number, "%") => Some(number < 5.0),
        (number, _) => Some(number < 0.05),
    }
}
