//! Vacation responses and rules: the values, and the checks that need neither a mailbox nor the
//! accounts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Code, codes};

/// Maximum number of rules.
pub const MAX_RULES: usize = 100;
/// Maximum number of conditions of a rule.
pub const MAX_CONDITIONS: usize = 20;
/// Maximum number of actions of a rule.
pub const MAX_ACTIONS: usize = 10;
/// Maximum number of different addresses to which the rules forward. By default, Pigeonhole sends
/// one message to at most 4 addresses (`sieve_max_redirects`).
pub const MAX_FORWARDS: usize = 4;
/// Maximum number of different folders in the rules. By default, Pigeonhole performs at most 32
/// actions for one message (`sieve_max_actions`).
pub const MAX_FOLDERS: usize = 25;
/// Maximum length of the name of a rule, and of the name of a header field, in characters.
const MAX_NAME: usize = 100;
/// Maximum length of the value of a condition, and of a subject, in characters.
const MAX_VALUE: usize = 500;
/// Maximum length of the plain text and of the HTML of a vacation response, in bytes.
pub const MAX_BODY: usize = 64 * 1024;
/// Maximum length of the path of a folder, of a flag, and of an address, in bytes.
const MAX_ARGUMENT: usize = 2000;
/// The first millisecond after the latest time, which is in the year 9999.
const END_OF_TIME: i64 = 253_402_300_800_000;

/// A vacation response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Vacation {
    /// Whether the mail server sends the response.
    pub enabled: bool,
    /// The time from which the response is sent, in milliseconds since 1970.
    pub from: Option<i64>,
    /// The time until which the response is sent, in milliseconds since 1970.
    pub until: Option<i64>,
    /// The subject.
    pub subject: Option<String>,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML.
    pub html: Option<String>,
}

/// A condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The part of the message that is compared.
    pub field: String,
    /// The name of the header field.
    pub header: Option<String>,
    /// The comparison.
    pub operator: String,
    /// The text to compare with.
    pub value: String,
}

/// An action of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The kind of the action.
    pub kind: String,
    /// The folder, the flag or the address.
    pub value: Option<String>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The name.
    pub name: String,
    /// Whether the mail server applies the rule.
    pub enabled: bool,
    /// `all` or `any`.
    pub combination: String,
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The actions.
    pub actions: Vec<Action>,
}

/// A value that is not valid: the code and the text for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The code.
    pub code: Code,
    /// The text.
    pub text: String,
}

fn check(is_valid: bool, code: Code, text: impl FnOnce() -> String) -> Result<(), Invalid> {
    if is_valid {
        Ok(())
    } else {
        Err(Invalid { code, text: text() })
    }
}

/// Returns `true` if the text has 1 to `max` characters and no control characters.
fn is_line(text: &str, max: usize) -> bool {
    !text.is_empty() && text.chars().count() <= max && !text.chars().any(char::is_control)
}

/// Checks a vacation response. The error texts have the names of the fields in the API.
///
/// # Errors
/// Returns an error that names the invalid field.
pub fn check_vacation(vacation: &Vacation) -> Result<(), Invalid> {
    let wrong =
        |is_valid: bool, text: &str| check(is_valid, codes::INVALID_VACATION, || text.into());
    let is_time = |time: Option<i64>| time.is_none_or(|time| (0..END_OF_TIME).contains(&time));
    wrong(
        is_time(vacation.from),
        "fromDate must be between the years 1970 and 9999",
    )?;
    wrong(
        is_time(vacation.until),
        "toDate must be between the years 1970 and 9999",
    )?;
    let is_ordered = match (vacation.from, vacation.until) {
        (Some(from), Some(until)) => from < until,
        _ => true,
    };
    wrong(is_ordered, "toDate must be after fromDate")?;
    let is_subject = |subject: &String| is_line(subject, MAX_VALUE);
    wrong(
        vacation.subject.as_ref().is_none_or(is_subject),
        "subject must have 1 to 500 characters and no control characters",
    )?;
    let is_body = |body: &Option<String>| {
        body.as_ref().is_none_or(|body| {
            let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\r' | '\n');
            body.len() <= MAX_BODY && !body.chars().any(is_control)
        })
    };
    wrong(
        is_body(&vacation.text),
        "textBody must have at most 65536 bytes and no control characters",
    )?;
    wrong(
        is_body(&vacation.html),
        "htmlBody must have at most 65536 bytes and no control characters",
    )
}

/// Checks rules. Does not check whether folders and addresses exist. The error texts have the names
/// of the fields in the API.
///
/// # Errors
/// Returns an error that names the invalid field.
pub fn check_rules(rules: &[Rule]) -> Result<(), Invalid> {
    let (mut folders, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    check(rules.len() <= MAX_RULES, codes::INVALID_RULES, || {
        format!("rules must have at most {MAX_RULES} entries")
    })?;
    for (index, rule) in rules.iter().enumerate() {
        check_rule(rule).map_err(|text| Invalid {
            code: codes::INVALID_RULES,
            text: format!("rules[{index}].{text}"),
        })?;
        for action in &rule.actions {
            match (action.kind.as_str(), &action.value) {
                ("move" | "copy", Some(folder)) => _ = folders.insert(folder),
                ("forward", Some(address)) => _ = addresses.insert(address),
                _ => {}
            }
        }
    }
    check(folders.len() <= MAX_FOLDERS, codes::INVALID_RULES, || {
        format!("rules must not name more than {MAX_FOLDERS} folders")
    })?;
    check(
        addresses.len() <= MAX_FORWARDS,
        codes::INVALID_RULES,
        || format!("rules must not forward to more than {MAX_FORWARDS} addresses"),
    )
}

fn check_rule(rule: &Rule) -> Result<(), String> {
    let wrong = |is_valid: bool, text: &str| {
        if is_valid {
            Ok(())
        } else {
            Err(text.to_owned())
        }
    };
    wrong(
        is_line(&rule.name, MAX_NAME),
        "name must have 1 to 100 characters and no control characters",
    )?;
    let combination = rule.combination.as_str();
    wrong(
        matches!(combination, "all" | "any"),
        "match must be \"all\" or \"any\"",
    )?;
    wrong(
        rule.conditions.len() <= MAX_CONDITIONS,
        "conditions must have at most 20 entries",
    )?;
    wrong(
        (1..=MAX_ACTIONS).contains(&rule.actions.len()),
        "actions must have 1 to 10 entries",
    )?;
    for (index, condition) in rule.conditions.iter().enumerate() {
        check_condition(condition).map_err(|text| format!("conditions[{index}].{text}"))?;
    }
    for (index, action) in rule.actions.iter().enumerate() {
        check_action(action).map_err(|text| format!("actions[{index}].{text}"))?;
    }
    Ok(())
}

fn check_condition(condition: &Condition) -> Result<(), &'static str> {
    let wrong = |is_valid: bool, text: &'static str| if is_valid { Ok(()) } else { Err(text) };
    let field = condition.field.as_str();
    wrong(
        matches!(
            field,
            "from" | "to" | "subject" | "header" | "size" | "listId"
        ),
        "field must be \"from\", \"to\", \"subject\", \"header\", \"size\" or \"listId\"",
    )?;
    // A field name consists of printable ASCII characters except the colon (RFC 5322, section 2.2).
    let is_name = |name: &String| {
        let is_byte = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_byte)
    };
    match &condition.header {
        Some(name) if field == "header" => wrong(
            is_name(name),
            "name must be the name of a header field with at most 100 characters",
        )?,
        Some(_) => return Err("name is only allowed with the field \"header\""),
        None => wrong(
            field != "header",
            "name is required with the field \"header\"",
        )?,
    }
    let operator = condition.operator.as_str();
    if field == "size" {
        wrong(
            operator == "over",
            "op must be \"over\" with the field \"size\"",
        )?;
        let number = condition.value.parse::<u64>();
        let is_decimal = condition.value.bytes().all(|byte| byte.is_ascii_digit());
        // Pigeonhole's numbers have 32 bits.
        return wrong(
            is_decimal && number.is_ok_and(|number| number < 1 << 31),
            "value must be an integer from 0 to 2147483647 with the field \"size\"",
        );
    }
    wrong(
        matches!(operator, "contains" | "is" | "matches"),
        "op must be \"contains\", \"is\" or \"matches\"",
    )?;
    wrong(
        is_line(&condition.value, MAX_VALUE),
        "value must have 1 to 500 characters and no control characters",
    )
}

fn check_action(action: &Action) -> Result<(), &'static str> {
    let value = action.value.as_deref();
    let is_value = |value: &str| is_line(value, MAX_ARGUMENT) && value.len() <= MAX_ARGUMENT;
    match action.kind.as_str() {
        "move" | "copy" if !value.is_some_and(is_value) => Err("folder is required"),
        "forward" if !value.is_some_and(is_value) => Err("address is required"),
        "flag" if value.is_some_and(|flag| canonical_flag(flag).is_none()) => {
            Err("flag must be a flag that clients can set")
        }
        "markRead" | "trash" | "stop" if value.is_some() => Err("type has no value"),
        "move" | "copy" | "flag" | "markRead" | "forward" | "trash" | "stop" => Ok(()),
        _ => Err(
            "type must be \"move\", \"copy\", \"flag\", \"markRead\", \"forward\", \"trash\" or \"stop\"",
        ),
    }
}

/// Returns the flag in the form that is stored: `\Seen`, `\Answered`, `\Flagged`, `\Draft`, or a
/// keyword, which is an atom (RFC 3501, section 9) with at most 100 bytes. Returns `None` for any
/// other flag.
#[must_use]
pub fn canonical_flag(name: &str) -> Option<&str> {
    const SYSTEM: [&str; 4] = ["\\Seen", "\\Answered", "\\Flagged", "\\Draft"];
    if name.starts_with('\\') {
        return SYSTEM
            .into_iter()
            .find(|flag| flag.eq_ignore_ascii_case(name));
    }
    let is_atom = |byte: u8| byte.is_ascii_graphic() && !b"(){%*\"\\]".contains(&byte);
    (!name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_atom)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(field: &str, operator: &str, value: &str, kind: &str, argument: Option<&str>) -> Rule {
        let header = (field == "header").then(|| "X-Priority".to_owned());
        Rule {
            name: "A rule".into(),
            enabled: true,
            combination: "all".into(),
            conditions: vec![Condition {
                field: field.into(),
                header,
                operator: operator.into(),
                value: value.into(),
            }],
            actions: vec![Action {
                kind: kind.into(),
                value: argument.map(Into::into),
            }],
        }
    }

    fn text(rule: Rule) -> String {
        check_rules(&[rule]).map_or_else(|invalid| invalid.text, |()| "valid".into())
    }

    #[test]
    fn valid_rules_are_accepted() {
        for (kind, argument) in [
            ("move", Some("Work")),
            ("flag", None),
            ("flag", Some("$Later")),
            ("markRead", None),
            ("forward", Some("bob@example.test")),
            ("stop", None),
        ] {
            assert_eq!(
                text(rule("from", "is", "a", kind, argument)),
                "valid",
                "{kind}"
            );
        }
        assert_eq!(text(rule("size", "over", "100", "trash", None)), "valid");
        assert_eq!(
            text(rule("header", "matches", "1*", "trash", None)),
            "valid"
        );
    }

    #[test]
    fn an_invalid_rule_is_named() {
        for (invalid, expected) in [
            (
                rule("body", "is", "a", "stop", None),
                "rules[0].conditions[0].field must be",
            ),
            (
                rule("from", "over", "a", "stop", None),
                "rules[0].conditions[0].op must be",
            ),
            (
                rule("size", "is", "1", "stop", None),
                "rules[0].conditions[0].op must be",
            ),
            (
                rule("size", "over", "1K", "stop", None),
                "rules[0].conditions[0].value must",
            ),
            (
                rule("from", "is", "", "stop", None),
                "rules[0].conditions[0].value must",
            ),
            (
                rule("from", "is", "a\nb", "stop", None),
                "rules[0].conditions[0].value must",
            ),
            (
                rule("from", "is", "a", "move", None),
                "rules[0].actions[0].folder is required",
            ),
            (
                rule("from", "is", "a", "burn", None),
                "rules[0].actions[0].type must be",
            ),
            (
                rule("from", "is", "a", "flag", Some("\\Deleted")),
                "rules[0].actions[0].flag must",
            ),
            (
                rule("from", "is", "a", "flag", Some("a b")),
                "rules[0].actions[0].flag must",
            ),
        ] {
            let found = text(invalid);
            assert!(found.starts_with(expected), "{found}");
        }
        let mut header = rule("header", "is", "a", "stop", None);
        header.conditions[0].header = Some("a b".into());
        assert!(text(header).contains("name must be"));
        let many = vec![rule("from", "is", "a", "stop", None); MAX_RULES + 1];
        assert!(check_rules(&many).unwrap_err().text.contains("at most 100"));
        let forward = |n: usize| {
            rule(
                "from",
                "is",
                "a",
                "forward",
                Some(&format!("a{n}@b.example")),
            )
        };
        let many: Vec<Rule> = (0..=MAX_FORWARDS).map(forward).collect();
        assert!(
            check_rules(&many)
                .unwrap_err()
                .text
                .contains("more than 4 addresses")
        );
    }

    #[test]
    fn an_invalid_vacation_response_is_named() {
        let valid = Vacation {
            enabled: true,
            from: Some(0),
            until: Some(1),
            subject: Some("Away".into()),
            text: Some("I am\r\n\taway.".into()),
            html: None,
        };
        assert_eq!(check_vacation(&valid), Ok(()));
        for (invalid, field) in [
            (
                Vacation {
                    from: Some(1),
                    ..valid.clone()
                },
                "toDate",
            ),
            (
                Vacation {
                    from: Some(-1),
                    ..valid.clone()
                },
                "fromDate",
            ),
            (
                Vacation {
                    until: Some(i64::MAX),
                    ..valid.clone()
                },
                "toDate",
            ),
            (
                Vacation {
                    subject: Some("a\nb".into()),
                    ..valid.clone()
                },
                "subject",
            ),
            (
                Vacation {
                    text: Some("\0".into()),
                    ..valid.clone()
                },
                "textBody",
            ),
            (
                Vacation {
                    html: Some("x".repeat(MAX_BODY + 1)),
                    ..valid
                },
                "htmlBody",
            ),
        ] {
            let text = check_vacation(&invalid).unwrap_err().text;
            assert!(text.starts_with(field), "{text}");
        }
    }
}
