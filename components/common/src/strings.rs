//! Deserializes a field that contains a string or an array of strings.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// A string or an array of strings.
#[derive(Debug)]
pub(crate) enum Strings {
    One(String),
    Many(Vec<String>),
}

impl Default for Strings {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Strings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of strings")
            }

            fn visit_str<E: de::Error>(self, string: &str) -> Result<Strings, E> {
                Ok(Strings::One(string.to_owned()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Strings, E> {
                Ok(Strings::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut strings: A) -> Result<Strings, A::Error> {
                let mut all = Vec::new();
                while let Some(string) = strings.next_element()? {
                    all.push(string);
                }
                Ok(Strings::Many(all))
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}
