//! The arguments of methods, and the properties of objects.

use latchmail_sdk::time;
use serde_json::{Map, Value};

use crate::Capabilities;
use crate::context::Context;
use crate::error::MethodError;
use crate::limits::MAX_GET;

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// The arguments of a method.
pub(crate) struct Args<'a>(&'a Object);

impl<'a> Args<'a> {
    /// Checks the names of the arguments and the account.
    pub(crate) fn new<H: Capabilities>(
        ctx: &Context<'_, H>,
        args: &'a Object,
        known: &[&str],
    ) -> Result<Self, MethodError> {
        let mut names = args.keys();
        let is_known =
            |name: &&String| name.as_str() == "accountId" || known.contains(&name.as_str());
        if let Some(unknown) = names.find(|name| !is_known(name)) {
            return Err(MethodError::invalid(format!("unknown argument {unknown}")));
        }
        match args.get("accountId") {
            Some(Value::String(account)) if *account == ctx.account => Ok(Self(args)),
            Some(Value::String(_)) => Err(MethodError::new("accountNotFound")),
            _ => Err(MethodError::invalid("accountId must be an id")),
        }
    }

    /// Returns an argument. `null` stands for a missing one.
    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, MethodError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(must_be(name, "a string")),
        }
    }

    /// Returns a text that the method needs.
    pub(crate) fn required(&self, name: &str) -> Result<&'a str, MethodError> {
        self.text(name)?.ok_or_else(|| must_be(name, "a string"))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, MethodError> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(must_be(name, "a boolean")),
        }
    }

    /// Returns an integer (RFC 8620, section 1.3).
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, MethodError> {
        const MAX: i64 = 1 << 53;
        match self.value(name) {
            None => Ok(None),
            Some(value) => {
                let number = value.as_i64().filter(|n| (-MAX..MAX).contains(n));
                number.map(Some).ok_or_else(|| must_be(name, "an integer"))
            }
        }
    }

    /// Returns an integer that is not negative.
    pub(crate) fn unsigned(&self, name: &str) -> Result<Option<u64>, MethodError> {
        let number = self.integer(name)?.map(u64::try_from).transpose();
        number.map_err(|_| must_be(name, "an integer that is not negative"))
    }

    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<&'a str>>, MethodError> {
        let wrong = || must_be(name, "an array of strings");
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let texts = value.as_array().ok_or_else(wrong)?.iter();
        let texts: Option<Vec<&str>> = texts.map(Value::as_str).collect();
        texts.map(Some).ok_or_else(wrong)
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<&'a Object>, MethodError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(must_be(name, "an object")),
        }
    }

    pub(crate) fn objects(&self, name: &str) -> Result<Vec<&'a Object>, MethodError> {
        let wrong = || must_be(name, "an array of objects");
        let Some(value) = self.value(name) else {
            return Ok(Vec::new());
        };
        let objects = value.as_array().ok_or_else(wrong)?.iter();
        let objects: Option<Vec<&Object>> = objects.map(Value::as_object).collect();
        objects.ok_or_else(wrong)
    }

    /// Returns the ids of a `/get`, each once. `None` stands for all objects.
    pub(crate) fn ids(&self) -> Result<Option<Vec<&'a str>>, MethodError> {
        let Some(mut ids) = self.texts("ids")? else {
            return Ok(None);
        };
        if ids.len() > MAX_GET {
            return Err(MethodError::new("requestTooLarge"));
        }
        let mut known = std::collections::HashSet::new();
        ids.retain(|id| known.insert(*id));
        Ok(Some(ids))
    }

    /// Returns the properties of a `/get`. Without the argument, returns `all`.
    pub(crate) fn properties(&self, all: &[&'a str]) -> Result<Vec<&'a str>, MethodError> {
        let properties = self.texts("properties")?;
        let mut properties = properties.unwrap_or_else(|| all.to_vec());
        if !properties.contains(&"id") {
            properties.push("id");
        }
        Ok(properties)
    }
}

fn must_be(name: &str, what: &str) -> MethodError {
    MethodError::invalid(format!("{name} must be {what}"))
}

/// Checks that all properties are known.
pub(crate) fn check_properties(properties: &[&str], known: &[&str]) -> Result<(), MethodError> {
    match properties.iter().find(|name| !known.contains(name)) {
        Some(unknown) => Err(MethodError::invalid(format!("unknown property {unknown}"))),
        None => Ok(()),
    }
}

/// Returns an object with some of its members.
pub(crate) fn select(object: Object, properties: &[&str]) -> Value {
    let members = object.into_iter();
    let selected = members.filter(|(name, _)| properties.contains(&name.as_str()));
    selected.collect::<Object>().into()
}

/// Parses a `UTCDate` (RFC 8620, section 1.4). Returns milliseconds since 1970.
pub(crate) fn utc_date(text: &str) -> Option<i64> {
    text.ends_with('Z').then(|| time::rfc3339(text)).flatten()
}

/// Formats a `UTCDate`. A fraction of zero is omitted.
pub(crate) fn to_utc_date(time: i64) -> String {
    time::iso8601(time).replace(".000Z", "Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_in_utc_and_have_no_zero_fraction() {
        assert_eq!(utc_date("2026-11-20T08:00:00Z"), Some(1_795_161_600_000));
        assert_eq!(utc_date("2026-11-20T09:00:00+01:00"), None);
        assert_eq!(utc_date("2026-11-20Z"), None);
        assert_eq!(to_utc_date(1_795_161_600_000), "2026-11-20T08:00:00Z");
        assert_eq!(to_utc_date(1_795_161_600_042), "2026-11-20T08:00:00.042Z");
    }
}
