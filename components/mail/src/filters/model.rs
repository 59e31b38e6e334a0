//! The JSON of the vacation response and of the rules.

use std::fmt;

use latchmail_sdk::Object;
use latchmail_sdk::capability::{self, RuleAction, RuleCondition};
use latchmail_sdk::time::iso8601;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The vacation response (RFC 8621, section 8).
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"isEnabled": true, "fromDate": "2026-12-21T00:00:00Z",
    "toDate": "2027-01-04T00:00:00Z", "subject": "Away until January",
    "textBody": "I will answer in January."}))]
pub(crate) struct Vacation {
    /// Whether the mail server answers received mail.
    pub(super) is_enabled: bool,
    /// The time from which mail is answered, in UTC. `null` if there is no such limit.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub(super) from_date: Option<String>,
    /// The time until which mail is answered, in UTC. `null` if there is no such limit.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub(super) to_date: Option<String>,
    /// The subject. `null` if the mail server derives it from the received message.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 500)]
    pub(super) subject: Option<String>,
    /// The plain text. If both texts are `null`, the response has a short English text.
    #[serde(default)]
    #[schema(max_length = 65536)]
    pub(super) text_body: Option<String>,
    /// The HTML. A response with both texts is a `multipart/alternative`.
    #[serde(default)]
    #[schema(max_length = 65536)]
    pub(super) html_body: Option<String>,
    /// Whether the mail server uses this vacation response. `false` if none was stored yet, or if
    /// another mail client activated another Sieve script. Ignored in requests.
    #[serde(default, deserialize_with = "ignored")]
    #[schema(read_only)]
    active: bool,
}

/// The rules.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"rules": [{"name": "Invoices", "match": "any",
    "conditions": [{"field": "subject", "op": "contains", "value": "invoice"}],
    "actions": [{"type": "flag", "flag": "$Invoice"}, {"type": "move", "folder": "Archive"}]}]}))]
pub(crate) struct Rules {
    /// The rules. The actions of all rules that match a message are performed, in this order.
    #[serde(deserialize_with = "objects")]
    #[schema(max_items = 100)]
    pub(super) rules: Vec<Rule>,
    /// Whether the mail server uses these rules. `false` if none were stored yet, or if another
    /// mail client activated another Sieve script. Ignored in requests.
    #[serde(default, deserialize_with = "ignored")]
    #[schema(read_only)]
    active: bool,
}

/// A rule.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = MailRule)]
pub(crate) struct Rule {
    /// The name, without control characters.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// Whether the rule is applied.
    #[serde(default = "enabled")]
    #[schema(default = true)]
    enabled: bool,
    /// `all` if each condition must be true, `any` if one condition must be true.
    #[serde(rename = "match", default = "all")]
    #[schema(value_type = Combination, default = "all")]
    combination: String,
    /// The conditions. A rule without conditions applies to every message.
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 20)]
    conditions: Vec<Condition>,
    /// The actions.
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1, max_items = 10)]
    actions: Vec<Action>,
}

/// Whether each condition must be true.
#[derive(ToSchema)]
#[schema(as = MailRuleMatch, rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum Combination {
    All,
    Any,
}

/// A condition of a rule. The letters A to Z are equal to a to z.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = MailRuleCondition)]
pub(crate) struct Condition {
    /// The part of the message that is compared. `to` also stands for Cc, and `listId` for the
    /// identifier in the List-Id header.
    #[schema(value_type = Field)]
    field: String,
    /// The name of the header field, only with the field `header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, min_length = 1, max_length = 100)]
    name: Option<String>,
    /// The comparison. `matches` has the wildcards `*` and `?`. `over` compares only `size`.
    #[schema(value_type = Operator)]
    op: String,
    /// The text to compare with, 1 to 500 characters. For `size`, the number of bytes.
    value: ConditionValue,
}

/// The parts of a message.
#[derive(ToSchema)]
#[schema(as = MailRuleField, rename_all = "camelCase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum Field {
    From,
    To,
    Subject,
    Header,
    Size,
    ListId,
}

/// The comparisons.
#[derive(ToSchema)]
#[schema(as = MailRuleOperator, rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum Operator {
    Contains,
    Is,
    Matches,
    Over,
}

/// A text or a number.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = MailRuleValue)]
pub(crate) enum ConditionValue {
    Text(String),
    Number(u64),
}

impl<'de> Deserialize<'de> for ConditionValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;

        impl Visitor<'_> for Value {
            type Value = ConditionValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a non-negative integer")
            }

            fn visit_str<E>(self, text: &str) -> Result<ConditionValue, E> {
                Ok(ConditionValue::Text(text.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<ConditionValue, E> {
                Ok(ConditionValue::Number(number))
            }
        }

        deserializer.deserialize_any(Value)
    }
}

/// An action of a rule.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = MailRuleAction)]
pub(crate) struct Action {
    /// The kind of the action. `stop` applies neither later rules nor the Sieve scripts of other
    /// mail clients.
    #[serde(rename = "type")]
    #[schema(value_type = Kind)]
    kind: String,
    /// The path of the folder, only for `move` and `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    folder: Option<String>,
    /// The flag, only for `flag`. By default `\Flagged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    flag: Option<String>,
    /// The address, only for `forward`. It must be an address of this service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = Email)]
    address: Option<String>,
}

/// The kinds of actions.
#[derive(ToSchema)]
#[schema(as = MailRuleActionType, rename_all = "camelCase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum Kind {
    Move,
    Copy,
    Flag,
    MarkRead,
    Forward,
    Trash,
    Stop,
}

fn enabled() -> bool {
    true
}

fn all() -> String {
    "all".into()
}

/// Accepts any value, so that a client can send the object that it received.
fn ignored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| false)
}

/// Parses a list of objects. Refuses arrays in the place of objects.
fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|object| object.0).collect())
}

/// Returns the vacation response in the form of the API.
pub(super) fn vacation(vacation: capability::Vacation, active: bool) -> Vacation {
    // RFC 8620, section 1.4: fractions of a second are omitted if they are zero.
    let time = |time: i64| iso8601(time).replace(".000Z", "Z");
    Vacation {
        is_enabled: vacation.enabled,
        from_date: vacation.from_date.map(time),
        to_date: vacation.to_date.map(time),
        subject: vacation.subject,
        text_body: vacation.text,
        html_body: vacation.html,
        active,
    }
}

/// Returns the rules in the form of the API.
pub(super) fn rules(rules: Vec<capability::Rule>, active: bool) -> Rules {
    Rules {
        rules: rules.into_iter().map(Into::into).collect(),
        active,
    }
}

impl From<Rule> for capability::Rule {
    fn from(rule: Rule) -> Self {
        let conditions = rule.conditions.into_iter().map(|one| RuleCondition {
            field: one.field,
            header: one.name,
            operator: one.op,
            value: match one.value {
                ConditionValue::Text(text) => text,
                ConditionValue::Number(number) => number.to_string(),
            },
        });
        let actions = rule.actions.into_iter().map(|one| RuleAction {
            value: match one.kind.as_str() {
                "move" | "copy" => one.folder,
                "flag" => one.flag,
                "forward" => one.address,
                _ => None,
            },
            kind: one.kind,
        });
        Self {
            name: rule.name,
            enabled: rule.enabled,
            combination: rule.combination,
            conditions: conditions.collect(),
            actions: actions.collect(),
        }
    }
}

impl From<capability::Rule> for Rule {
    fn from(rule: capability::Rule) -> Self {
        let conditions = rule.conditions.into_iter().map(|one| Condition {
            value: match one.value.parse() {
                Ok(number) if one.field == "size" => ConditionValue::Number(number),
                _ => ConditionValue::Text(one.value),
            },
            field: one.field,
            name: one.header,
            op: one.operator,
        });
        let actions = rule.actions.into_iter().map(|one| {
            let of = |kinds: &[&str]| one.value.clone().filter(|_| kinds.contains(&&*one.kind));
            Action {
                folder: of(&["move", "copy"]),
                flag: of(&["flag"]),
                address: of(&["forward"]),
                kind: one.kind.clone(),
            }
        });
        Self {
            name: rule.name,
            enabled: rule.enabled,
            combination: rule.combination,
            conditions: conditions.collect(),
            actions: actions.collect(),
        }
    }
}
