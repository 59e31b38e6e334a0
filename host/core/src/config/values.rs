//! The form of a section, and the value types that several sections use: durations in seconds, and
//! lists.

use std::fmt;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Declares a section of the configuration: a struct with the default value of each key. A key
/// without `=` has the default value of its type. Unknown keys are errors.
macro_rules! section {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $(
                $(#[$key_attribute:meta])*
                $visibility:vis $key:ident: $type:ty $(= $value:expr)?,
            )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$key_attribute])* $visibility $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($key: section!(@value $($value)?),)*
                }
            }
        }
    };
    (@value) => {
        Default::default()
    };
    (@value $value:expr) => {
        $value
    };
}

pub(super) use section;

/// Reads a number of seconds, which may have a fraction.
pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)
}

/// Reads a list of strings. In the environment, a list is one string with elements separated by
/// commas.
pub(super) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of strings")
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            let elements = text.split(',').map(str::trim);
            Ok(elements
                .filter(|element| !element.is_empty())
                .map(ToOwned::to_owned)
                .collect())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(elements))
        }
    }

    deserializer.deserialize_any(List)
}
