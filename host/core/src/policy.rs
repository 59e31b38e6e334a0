//! The policy of a grant: what an API token or an OAuth grant may do in the mailbox of its owner,
//! in addition to its scopes. The owner sets the policy with a session, and the grant cannot read
//! it.
//!
//! This module contains only data and pure functions over facts. The directory stores policies, and
//! the capabilities (mailbox, outbox, aliases) ask this module before they contact the mail server.

mod decision;
mod people;

use latchmail_shape::named;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use decision::{Outgoing, Verdict};
pub use people::person;

use crate::clock::Timestamp;
use crate::codes;
use crate::error::Problem;

/// Maximum number of entries of `sendTo` and of `folders`.
const MAX_ENTRIES: usize = 1000;
/// Maximum length of an entry of `folders`, in bytes.
const MAX_PATH: usize = 1000;
/// Maximum value of a cap.
const MAX_CAP: u32 = 1_000_000;

named! {
    /// To whom a grant may send.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SendLimit {
        /// To no one. The grant writes no drafts either.
        Never = "never",
        /// To no one. The grant writes drafts, which the owner can send.
        Drafts = "drafts",
        /// To the people to whom the owner wrote in the thread, and to those in `sendTo`.
        Thread = "thread",
        /// To those in `sendTo`.
        List = "list",
        /// To everyone.
        Any = "any",
    }
}

named! {
    /// How a grant may delete messages.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum DeleteLimit {
        /// Not at all, and not by a move to Trash.
        Never = "never",
        /// By a move to Trash. A permanent deletion becomes such a move.
        Trash = "trash",
        /// Permanently.
        Permanent = "permanent",
    }
}

named! {
    /// What happens to a message with recipients or beyond a cap that the policy does not allow.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum OnDenied {
        /// The message waits for a decision of the owner.
        Hold = "hold",
        /// The message is refused.
        Refuse = "refuse",
    }
}

named! {
    /// A kind of action. A program can show its client only those tools that the policy allows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// Read messages.
        Read = "read",
        /// Read attachments.
        Attachments = "attachments",
        /// Change flags.
        Flag = "flag",
        /// Move and copy messages.
        Move = "move",
        /// Move messages to Trash, or delete them.
        Trash = "trash",
        /// Create, rename and delete folders.
        Folders = "folders",
        /// Write drafts.
        Draft = "draft",
        /// Send mail. A single message can still be held or refused.
        Send = "send",
        /// Create and change aliases.
        Aliases = "aliases",
        /// Send events to another host.
        Subscribe = "subscribe",
        /// Change rules and the vacation response.
        Filters = "filters",
    }
}

named! {
    /// A policy with a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Preset {
        /// Reads, and changes nothing that matters.
        Reader = "reader",
        /// Answers the people to whom the owner wrote, and asks for everything else.
        Assistant = "assistant",
        /// Acts alone, within caps.
        Autonomous = "autonomous",
    }
}

impl Preset {
    /// Returns the policy.
    #[must_use]
    pub fn policy(self) -> Policy {
        let careful = Policy {
            hide_codes: true,
            delete: DeleteLimit::Trash,
            on_denied: OnDenied::Hold,
            ..Policy::default()
        };
        match self {
            Self::Reader => Policy {
                send: SendLimit::Never,
                delete: DeleteLimit::Never,
                on_denied: OnDenied::Refuse,
                ..careful
            },
            Self::Assistant => Policy {
                send: SendLimit::Thread,
                send_per_day: Some(50),
                recipients_per_day: Some(100),
                ..careful
            },
            Self::Autonomous => Policy {
                send_per_day: Some(200),
                recipients_per_day: Some(500),
                aliases: true,
                ..careful
            },
        }
    }
}

/// The policy of a grant. The JSON names are in camelCase. A missing field permits what a grant
/// without a policy may do, except `aliases`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// To whom the grant may send.
    pub send: SendLimit,
    /// People and domains to whom the grant may send: `address` or `@domain`, in the form of
    /// [`person`]. A domain does not include its subdomains.
    pub send_to: Vec<String>,
    /// Maximum number of messages in a day (UTC), or `None` without a limit.
    pub send_per_day: Option<u32>,
    /// Maximum number of recipients of all messages in a day (UTC), or `None` without a limit.
    pub recipients_per_day: Option<u32>,
    /// The paths of the folders that the grant can use, without their subfolders. `None` for all
    /// folders.
    pub folders: Option<Vec<String>>,
    /// Whether the grant can read attachments and attach them to messages.
    pub attachments: bool,
    /// Whether codes and links for signing in are hidden.
    pub hide_codes: bool,
    /// How the grant may delete messages.
    pub delete: DeleteLimit,
    /// What happens to a message that the policy does not allow.
    pub on_denied: OnDenied,
    /// Whether the grant may create and change aliases, as far as its scopes permit.
    pub aliases: bool,
    /// The time from which all requests of the grant are refused, or `None` without an end.
    #[serde(deserialize_with = "time")]
    pub until: Option<Timestamp>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            send: SendLimit::Any,
            send_to: Vec::new(),
            send_per_day: None,
            recipients_per_day: None,
            folders: None,
            attachments: true,
            hide_codes: false,
            delete: DeleteLimit::Permanent,
            on_denied: OnDenied::Refuse,
            aliases: false,
            until: None,
        }
    }
}

/// The grant with which a request acts: an API token, or an OAuth grant of the embedded
/// authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActingGrant {
    /// The id of the grant.
    pub id: String,
    /// The id of the grant's app password.
    pub app_password_id: String,
    /// The policy, or `None` if the owner set none.
    pub policy: Option<Policy>,
}

impl Policy {
    /// Parses and checks the JSON of a policy.
    ///
    /// # Errors
    /// Returns [`codes::INVALID_POLICY`] with a text that names the invalid field.
    pub fn parse(json: &str) -> Result<Self, Problem> {
        let unreadable = |error: serde_json::Error| invalid(&format!(": {error}"));
        // An array would also be read, as the values of the fields in their order.
        let fields: Map<String, Value> = serde_json::from_str(json).map_err(unreadable)?;
        let policy: Self = serde_json::from_value(fields.into()).map_err(unreadable)?;
        policy.checked()
    }

    /// Checks the fields, and returns the policy with its canonical addresses and paths.
    ///
    /// # Errors
    /// Returns the error of [`Policy::parse`].
    pub fn checked(mut self) -> Result<Self, Problem> {
        for (name, cap) in [
            ("sendPerDay", self.send_per_day),
            ("recipientsPerDay", self.recipients_per_day),
        ] {
            if cap.is_some_and(|cap| cap > MAX_CAP) {
                return Err(invalid(&format!(".{name} must be at most {MAX_CAP}")));
            }
        }
        if self.send_to.len() > MAX_ENTRIES {
            return Err(invalid(&format!(
                ".sendTo must have at most {MAX_ENTRIES} entries"
            )));
        }
        for entry in &mut self.send_to {
            let canonical = people::pattern(entry).ok_or_else(|| {
                let shown: String = entry.chars().take(254).collect();
                invalid(&format!(
                    ".sendTo: {shown:?} is neither an address nor @domain"
                ))
            })?;
            *entry = canonical;
        }
        let folders = self.folders.iter_mut().flatten();
        for (count, path) in folders.enumerate() {
            if count == MAX_ENTRIES || path.is_empty() || path.len() > MAX_PATH {
                return Err(invalid(&format!(
                    ".folders must have at most {MAX_ENTRIES} paths of 1 to {MAX_PATH} bytes"
                )));
            }
            if path.eq_ignore_ascii_case("INBOX") {
                *path = "INBOX".into();
            }
        }
        Ok(self)
    }

    /// Returns the policy in its stored form. If the text is invalid, returns a policy that refuses
    /// everything.
    #[must_use]
    pub fn stored(json: &str) -> Self {
        Self::parse(json).unwrap_or_else(|problem| {
            tracing::error!(%problem, "the policy of a grant is invalid, so all its requests are refused");
            Self::closed()
        })
    }

    /// Returns a policy that refuses everything.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            send: SendLimit::Never,
            folders: Some(Vec::new()),
            attachments: false,
            hide_codes: true,
            delete: DeleteLimit::Never,
            until: Some(Timestamp::from_millis(0)),
            ..Self::default()
        }
    }

    /// Returns the JSON of the policy, with all fields.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns `true` if all requests of the grant are refused from now on.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns `true` if the grant can use the folder with this path.
    #[must_use]
    pub fn opens(&self, path: &str) -> bool {
        let folders = self.folders.as_ref();
        folders.is_none_or(|folders| folders.iter().any(|one| one == path))
    }

    /// Returns `true` if the policy limits to whom or how much the grant sends. Such a grant must
    /// not reach other hosts in another way: by webhooks, rules, vacation responses or forwarding.
    #[must_use]
    pub fn limits_sending(&self) -> bool {
        self.send != SendLimit::Any
            || self.send_per_day.is_some()
            || self.recipients_per_day.is_some()
    }

    /// Returns `true` if the policy allows some actions of this kind.
    #[must_use]
    pub fn allows(&self, action: Action) -> bool {
        let has_folders = self.folders.as_ref().is_none_or(|all| !all.is_empty());
        match action {
            Action::Read | Action::Flag | Action::Move | Action::Folders => has_folders,
            Action::Attachments => has_folders && self.attachments,
            Action::Trash => has_folders && self.delete != DeleteLimit::Never,
            Action::Draft => self.send != SendLimit::Never,
            Action::Send => !matches!(self.send, SendLimit::Never | SendLimit::Drafts),
            Action::Aliases => self.aliases,
            Action::Subscribe => !self.limits_sending(),
            Action::Filters => {
                !self.limits_sending()
                    && self.folders.is_none()
                    && self.delete == DeleteLimit::Permanent
            }
        }
    }
}

/// Returns the problem of a request that a policy does not allow. `what` completes the sentence
/// "The policy of this grant does not allow …".
#[must_use]
pub fn denied(what: &str) -> Problem {
    let text = format!("The policy of this grant does not allow {what}");
    Problem::new(codes::POLICY_DENIED, text)
}

fn invalid(detail: &str) -> Problem {
    Problem::new(codes::INVALID_POLICY, format!("policy{detail}"))
}

/// Reads a time in the format of RFC 3339, or `null`.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let time = Timestamp::from_rfc3339(&text);
    let time = time.ok_or_else(|| D::Error::custom("until must be a time as in RFC 3339"))?;
    Ok(Some(time))
}

#[cfg(test)]
mod tests;
