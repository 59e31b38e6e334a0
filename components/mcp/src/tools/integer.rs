//! Integers as agents write them, including `5.0`. Error messages name the limits of the tool, not those of the Rust type.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// A page number.
pub(super) fn page<'de, D: Deserializer<'de>>(given: D) -> Result<Option<u32>, D::Error> {
    u32_of(given, "an integer, at least 1")
}

/// The number of entries per page.
pub(super) fn limit<'de, D: Deserializer<'de>>(given: D) -> Result<Option<u32>, D::Error> {
    u32_of(given, "an integer from 1 to 100")
}

/// An offset in a text.
pub(super) fn offset<'de, D: Deserializer<'de>>(given: D) -> Result<Option<u32>, D::Error> {
    u32_of(given, "an integer, at least 0")
}

/// A message number.
pub(super) fn uid<'de, D: Deserializer<'de>>(given: D) -> Result<u64, D::Error> {
    const WANTED: Whole = Whole {
        wanted: "an integer, at least 1",
        most: u64::MAX,
    };
    let uid = given.deserialize_any(WANTED)?;
    uid.ok_or_else(|| D::Error::invalid_type(Unexpected::Unit, &WANTED))
}

fn u32_of<'de, D: Deserializer<'de>>(
    given: D,
    wanted: &'static str,
) -> Result<Option<u32>, D::Error> {
    let most = u64::from(u32::MAX);
    let number = given.deserialize_any(Whole { wanted, most })?;
    Ok(number.and_then(|number| u32::try_from(number).ok()))
}

struct Whole {
    wanted: &'static str,
    most: u64,
}

impl Visitor<'_> for Whole {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        if number > self.most {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(Some(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // Above this value, `f64` cannot represent every integer.
        let is_whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&number);
        let whole = is_whole.then(|| format!("{:.0}", number.abs()).parse().ok());
        match whole.flatten() {
            Some(whole) => self.visit_u64(whole),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}
