//! The settings of webhooks, as the database stores them.

use std::borrow::Cow;

use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::{Failure, Problem};
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_events::{EventFilter, EventType};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::secret::Secret;

/// The content of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// The ids and the flags of messages.
    Ids,
    /// Also the sender, the subject and the date of messages.
    Summary,
}

/// The settings that the owner of a webhook sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSettings {
    /// The URL of the receiver.
    pub url: String,
    /// The names of the types of events. `None` for all types, including later ones.
    pub types: Option<Vec<String>>,
    /// The path of the only folder whose events are sent.
    pub folder: Option<String>,
    /// `ids`, or `summary` for events with the sender, the subject and the date of messages.
    pub payload: String,
}

impl WebhookSettings {
    /// Returns the payload.
    ///
    /// # Errors
    /// Returns an error if there is no such payload.
    pub(crate) fn payload(&self) -> Result<Payload, Problem> {
        match self.payload.as_str() {
            "ids" => Ok(Payload::Ids),
            "summary" => Ok(Payload::Summary),
            _ => Err(invalid("payload must be ids or summary")),
        }
    }

    /// Returns the filter.
    ///
    /// # Errors
    /// Returns an error if a type of an event does not exist.
    pub(crate) fn filter(&self) -> Result<EventFilter, Problem> {
        let names = self.types.as_deref().unwrap_or_default();
        if names.is_empty() && self.types.is_some() || names.len() > EventType::ALL.len() {
            return Err(invalid("types must contain types of events, each once"));
        }
        let mut types = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            match EventType::named(name) {
                Some(kind) if types.contains(&kind) => {
                    return Err(invalid(format!("types[{index}] is repeated")));
                }
                Some(kind) => types.push(kind),
                None => return Err(invalid(format!("types[{index}] is not a type of an event"))),
            }
        }
        Ok(EventFilter {
            folder: self.folder.clone(),
            types,
        })
    }
}

/// The changes of a webhook. A value that is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// The URL of the receiver.
    pub url: Option<String>,
    /// The names of the types of events, or `Some(None)` for all types.
    pub types: Option<Option<Vec<String>>>,
    /// The path of the only folder whose events are sent, or `Some(None)` for all folders.
    pub folder: Option<Option<String>>,
    /// `ids` or `summary`.
    pub payload: Option<String>,
    /// Whether events are sent.
    pub active: Option<bool>,
}

impl WebhookChange {
    /// Returns the settings after the change.
    pub(crate) fn apply(&self, current: &WebhookSettings) -> WebhookSettings {
        let change = self.clone();
        let current = current.clone();
        WebhookSettings {
            url: change.url.unwrap_or(current.url),
            types: change.types.unwrap_or(current.types),
            folder: change.folder.unwrap_or(current.folder),
            payload: change.payload.unwrap_or(current.payload),
        }
    }
}

fn invalid(text: impl Into<Cow<'static, str>>) -> Problem {
    Problem::new(codes::INVALID_WEBHOOK, text)
}

/// A secret that was replaced, and the end of its use in milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Previous {
    secret: Secret,
    until: i64,
}

/// The settings and the secrets of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSettings {
    pub(crate) settings: WebhookSettings,
    secret: Secret,
    previous: Option<Previous>,
}

impl StoredSettings {
    pub(crate) fn new(settings: WebhookSettings, secret: Secret) -> Self {
        Self {
            settings,
            secret,
            previous: None,
        }
    }

    /// Decrypts the settings of a webhook.
    ///
    /// # Errors
    /// Returns an error if no key of the service decrypts the settings.
    pub(crate) fn open(keys: &Keyring, webhook: &str, sealed: &[u8]) -> Result<Self, Failure> {
        let opened = keys.open_bytes(Purpose::Webhook, webhook, sealed);
        let opened = opened.ok_or_else(|| {
            Failure::internal("the service's keys cannot decrypt the settings of a webhook")
        })?;
        serde_json::from_slice(&opened).map_err(Failure::internal)
    }

    /// Encrypts the settings of a webhook.
    pub(crate) fn seal(&self, keys: &Keyring, webhook: &str) -> Result<Vec<u8>, Failure> {
        let json = serde_json::to_vec(self).map_err(Failure::internal)?;
        keys.seal_bytes(Purpose::Webhook, webhook, &Zeroizing::new(json))
    }

    /// Replaces the secret. The previous secret remains in use until `until`. Does nothing if the
    /// secret is the same.
    pub(crate) fn rotate(&mut self, secret: Secret, until: Timestamp) {
        if secret == self.secret {
            return;
        }
        let previous = std::mem::replace(&mut self.secret, secret);
        self.previous = Some(Previous {
            secret: previous,
            until: until.millis(),
        });
    }

    /// Returns the secrets with which a message is signed.
    pub(crate) fn secrets(&self, now: Timestamp) -> Vec<&Secret> {
        let previous = self.previous.as_ref();
        let previous = previous.filter(|one| now.millis() < one.until);
        let previous = previous.map(|one| &one.secret);
        std::iter::once(&self.secret).chain(previous).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchmail_core::keyring::testing::keyring;

    use super::*;

    fn settings(types: Option<&[&str]>) -> WebhookSettings {
        WebhookSettings {
            url: "https://example.com/".into(),
            types: types.map(|types| types.iter().map(ToString::to_string).collect()),
            folder: None,
            payload: "ids".into(),
        }
    }

    #[test]
    fn types_and_payloads_must_exist() {
        let types = |types| settings(types).filter().map(|filter| filter.types.len());
        assert_eq!(types(None), Ok(0));
        assert_eq!(types(Some(&["message.created", "folder.deleted"])), Ok(2));
        for invalid in [
            &[][..],
            &["message.created", "message.created"],
            &["message.created", "message"],
        ] {
            assert!(types(Some(invalid)).is_err(), "{invalid:?}");
        }
        let full = WebhookSettings {
            payload: "full".into(),
            ..settings(None)
        };
        assert!(full.payload().is_err());
        assert_eq!(settings(None).payload(), Ok(Payload::Ids));
    }

    #[test]
    fn a_replaced_secret_is_used_until_its_end() {
        let now = Timestamp::from_millis(1000);
        let (first, second) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        let mut stored = StoredSettings::new(settings(None), first.clone());
        stored.rotate(first.clone(), now.plus(Duration::from_secs(1)));
        assert_eq!(stored.secrets(now), [&first]);
        stored.rotate(second.clone(), now.plus(Duration::from_secs(1)));
        assert_eq!(stored.secrets(now), [&second, &first]);
        assert_eq!(stored.secrets(now.plus(Duration::from_secs(1))), [&second]);
        let keys = keyring(&[1]);
        let sealed = stored.seal(&keys, "w").unwrap();
        assert_eq!(StoredSettings::open(&keys, "w", &sealed).unwrap(), stored);
        assert!(StoredSettings::open(&keys, "x", &sealed).is_err());
    }
}
