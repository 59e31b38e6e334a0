//! Parses integers in arguments, including `5.0` and `"5"`, because models write integers in these
//! forms too. Error messages contain the limits of the tool, not the limits of the Rust type.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// Parses a page number.
pub(super) fn page<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    u32_of(deserializer, "an integer, at least 1")
}

/// Parses the number of entries per page.
pub(super) fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    u32_of(deserializer, "an integer from 1 to 100")
}

/// Parses an offset in a text, in characters.
pub(super) fn offset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    u32_of(deserializer, "an integer, at least 0")
}

/// Parses the number of a message.
pub(super) fn uid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    const EXPECTED: IntegerVisitor = IntegerVisitor {
        expected: "an integer, at least 1",
        max: u64::MAX,
    };
    let uid = deserializer.deserialize_any(EXPECTED)?;
    uid.ok_or_else(|| D::Error::invalid_type(Unexpected::Unit, &EXPECTED))
}

fn u32_of<'de, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<Option<u32>, D::Error> {
    let max = u64::from(u32::MAX);
    let number = deserializer.deserialize_any(IntegerVisitor { expected, max })?;
    Ok(number.and_then(|number| u32::try_from(number).ok()))
}

struct IntegerVisitor {
    expected: &'static str,
    max: u64,
}

impl Visitor<'_> for IntegerVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        if number > self.max {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(Some(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // Above this value, `f64` cannot represent every integer.
        let is_integer = number.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&number);
        let integer = is_integer.then(|| format!("{:.0}", number.abs()).parse().ok());
        match integer.flatten() {
            Some(integer) => self.visit_u64(integer),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        let has_leading_zero = text.len() > 1 && text.starts_with('0');
        let integer = (is_decimal && !has_leading_zero).then(|| text.parse().ok());
        match integer.flatten() {
            Some(integer) => self.visit_u64(integer),
            None => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}
