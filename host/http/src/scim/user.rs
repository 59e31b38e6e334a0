//! The representation of an account as a user (RFC 7643, section 4.1).
//!
//! The user name is the address. A client can write it without the domain, which is then the first
//! registration domain, and reads it as it wrote it. The mail address is read-only, because it is
//! the user name.

use latchmail_accounts::account_rules::AccountRules;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_directory::accounts::administration::Record;
use serde_json::{Map, Value, json};

use super::filter::flag;
use super::{BASE, USER};
use crate::provisioning::request::{Change, invalid};
use crate::rejection::Rejection;

/// Returns the user of an account. `origin` is the URL of the listener.
pub(super) fn resource(rules: &AccountRules, record: &Record, origin: &str) -> Map<String, Value> {
    let names = &record.names;
    let mut user = Map::new();
    user.insert("schemas".into(), json!([USER]));
    user.insert("id".into(), record.id.clone().into());
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            user.insert(name.into(), value);
        }
    };
    set("externalId", names.external_id.clone().map(Value::from));
    set("userName", Some(user_name(rules, record).into()));
    let mut name = Map::new();
    for (key, value) in [
        ("givenName", &names.first_name),
        ("familyName", &names.last_name),
    ] {
        if let Some(value) = value {
            name.insert(key.into(), value.clone().into());
        }
    }
    set("name", (!name.is_empty()).then_some(Value::Object(name)));
    set("displayName", names.display_name.clone().map(Value::from));
    set("active", Some(record.active.into()));
    let email = json!([{ "value": record.address, "type": "work", "primary": true }]);
    set("emails", Some(email));
    let meta = json!({
        "resourceType": "User",
        "created": Timestamp::from_millis(record.created_at).to_string(),
        "location": location(record, origin),
        "version": format!("\"{}\"", record.version()),
    });
    set("meta", Some(meta));
    user
}

/// Returns the URL of a user.
pub(super) fn location(record: &Record, origin: &str) -> String {
    format!("{origin}{BASE}/Users/{}", record.id)
}

/// Returns the user name as the client wrote it, if it still is the account's address.
fn user_name(rules: &AccountRules, record: &Record) -> String {
    let address = &record.address;
    let written = record.names.user_name.as_ref();
    let written = written.filter(|name| address_of(rules, name).eq_ignore_ascii_case(address));
    written.unwrap_or(address).clone()
}

/// Returns the address for a user name.
pub(super) fn address_of(rules: &AccountRules, user_name: &str) -> String {
    match rules.default_domain() {
        Some(domain) if !user_name.contains('@') => format!("{user_name}@{domain}"),
        _ => user_name.to_owned(),
    }
}

/// The attributes of a user that a client sent. `None` means that the client did not send the
/// attribute, and `Some(None)` that it removes the attribute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) user_name: Option<String>,
    pub(super) external_id: Change<String>,
    pub(super) display_name: Change<String>,
    pub(super) given_name: Change<String>,
    pub(super) family_name: Change<String>,
    pub(super) active: Option<bool>,
    pub(super) password: Change<String>,
}

impl Attributes {
    /// Reads the attributes of a resource. Names of attributes are case-insensitive. Ignores
    /// read-only and unknown attributes. `null` means that the resource does not have the attribute
    /// (RFC 7643, section 2.5).
    ///
    /// # Errors
    /// Returns 400 if a value has the wrong type.
    pub(super) fn of_resource(resource: &Map<String, Value>) -> Result<Self, Rejection> {
        let mut attributes = Self::default();
        for (name, value) in resource {
            let name = super::filter::without_schema(name).to_ascii_lowercase();
            // A resource without these attributes leaves them as they are.
            if value.is_null() && ["active", "password"].contains(&name.as_str()) {
                continue;
            }
            match name.split_once('.') {
                None => attributes.set(&name, None, Some(value))?,
                Some((name, sub)) => attributes.set(name, Some(sub), Some(value))?,
            }
        }
        Ok(attributes)
    }

    /// Sets the attribute `name`, or its sub-attribute `sub`, both in lower case. `None` and `null`
    /// remove the attribute. Ignores attributes that the service does not store.
    ///
    /// # Errors
    /// Returns 400 if the value has the wrong type, or if the attribute is required.
    pub(super) fn set(
        &mut self,
        name: &str,
        sub: Option<&str>,
        value: Option<&Value>,
    ) -> Result<(), Rejection> {
        let value = value.filter(|value| !value.is_null());
        match (name, sub) {
            ("username", None) => {
                let text = text(name, value)?;
                self.user_name = Some(text.ok_or_else(|| required("userName"))?);
            }
            ("active", None) => {
                self.active = Some(boolean(value).ok_or_else(|| required("active"))?);
            }
            ("externalid", None) => self.external_id = Some(text("externalId", value)?),
            ("displayname", None) => self.display_name = Some(text("displayName", value)?),
            ("password", None) => self.password = Some(text("password", value)?),
            ("name", None) => self.set_name(value)?,
            ("name", Some("givenname")) => {
                self.given_name = Some(text("name.givenName", value)?);
            }
            ("name", Some("familyname")) => {
                self.family_name = Some(text("name.familyName", value)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Sets the parts of the name that the value has. Without a value, removes all.
    fn set_name(&mut self, value: Option<&Value>) -> Result<(), Rejection> {
        let Some(value) = value else {
            (self.given_name, self.family_name) = (Some(None), Some(None));
            return Ok(());
        };
        let parts = value.as_object();
        let parts = parts.ok_or_else(|| invalid("name must be an object"))?;
        for (part, value) in parts {
            self.set("name", Some(&part.to_ascii_lowercase()), Some(value))?;
        }
        Ok(())
    }
}

/// Returns the text of a simple attribute. An empty text removes the attribute. Microsoft Entra ID
/// can send `[{"value": "text"}]` in place of the text.
fn text(name: &str, value: Option<&Value>) -> Result<Option<String>, Rejection> {
    let text = match value {
        None => return Ok(None),
        Some(Value::Array(values)) => match values.as_slice() {
            [Value::Object(only)] => only.get("value"),
            _ => None,
        },
        Some(value) => Some(value),
    };
    match text {
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        _ => Err(invalid(format!("{name} must be a string"))),
    }
}

/// Returns the value of a boolean, which Microsoft Entra ID can send as a text.
fn boolean(value: Option<&Value>) -> Option<bool> {
    match value? {
        Value::Bool(value) => Some(*value),
        Value::String(text) => flag(text),
        Value::Array(values) => match values.as_slice() {
            [Value::Object(only)] => boolean(only.get("value")),
            _ => None,
        },
        _ => None,
    }
}

fn required(name: &str) -> Rejection {
    let text = format!("{name} is required");
    Rejection::bad_request(codes::FIELD_REQUIRED, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(resource: &Value) -> Result<Attributes, Rejection> {
        Attributes::of_resource(resource.as_object().unwrap())
    }

    #[test]
    fn names_of_attributes_are_case_insensitive() {
        let attributes = of(&json!({
            "schemas": [USER], "id": "x", "USERNAME": "ada", "name": { "GivenName": "Ada", "formatted": "A" },
            "active": "True", "emails": [{ "value": "other@example.org" }], "externalId": null,
            "password": null,
        }));
        let expected = Attributes {
            user_name: Some("ada".into()),
            given_name: Some(Some("Ada".into())),
            active: Some(true),
            external_id: Some(None),
            ..Attributes::default()
        };
        assert_eq!(attributes.unwrap(), expected);
    }

    #[test]
    fn a_wrong_type_is_refused() {
        for resource in [
            json!({ "userName": 7 }),
            json!({ "userName": "" }),
            json!({ "active": "yes" }),
            json!({ "name": "Ada" }),
            json!({ "displayName": ["a"] }),
        ] {
            assert!(of(&resource).is_err(), "{resource}");
        }
    }
}
