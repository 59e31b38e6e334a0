//! The Sieve script of the service (RFC 5228): writes the script, and reads the vacation response
//! and the rules back from a comment in the script. So there is no second copy that could differ.
//!
//! The second line of the script has the SHA-256 of the rest. A script that another program has
//! changed is not a script of the service any more, and the service never overwrites such a script.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::DateTime;
use latchmail_shape::filters::{
    Action, Condition, Rule, Vacation, canonical_flag, check_rules, check_vacation,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::mime::{self, Body};

/// The Sieve extensions that the script needs.
pub(crate) const EXTENSIONS: [&str; 8] = [
    "copy",
    "date",
    "fileinto",
    "imap4flags",
    "include",
    "mailbox",
    "relational",
    "vacation",
];

/// The first line of the script.
const TITLE: &str =
    "# Latchmail wrote this script. Do not change it: Latchmail ignores a changed script.";
/// The beginning of the second line, which continues with the digest of the rest.
const MARK: &str = "# latchmail-filters 1 ";
/// The beginning of the third line, which continues with [`Contents`] in JSON.
const DATA: &str = "# ";

/// The minimum number of days between two responses to the same sender.
const DAYS: u32 = 7;

/// The contents of the script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// The vacation response.
    pub vacation: Vacation,
    /// The rules.
    pub rules: Vec<Rule>,
    /// The name of the script that the script includes.
    pub include: Option<String>,
    /// The ids of the folders in the rules, by their paths. A renamed folder keeps the id.
    pub folder_ids: BTreeMap<String, String>,
}

/// The names in a mailbox that the script contains.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The addresses of the account.
    pub addresses: &'a [String],
    /// The path of the folder with the role `\Trash`. Without the folder, the script must not have
    /// the action `trash`.
    pub trash: Option<&'a str>,
}

/// Returns the script. The contents must have passed [`check_rules`] and [`check_vacation`].
#[must_use]
pub fn write(contents: &Contents, names: Names<'_>) -> String {
    let data = serde_json::to_string(contents).unwrap_or_default();
    let extensions = EXTENSIONS.map(quoted).join(", ");
    let mut rest = format!("{DATA}{data}\r\nrequire [{extensions}];\r\n");
    if contents.vacation.enabled {
        rest.push_str(&vacation(&contents.vacation, names.addresses));
    }
    for rule in contents.rules.iter().filter(|rule| rule.enabled) {
        rest.push_str(&self::rule(rule, names.trash));
    }
    if let Some(include) = &contents.include {
        // Without `:optional`, no rule would run after the other script is deleted.
        let _ = write!(rest, "include :personal :optional {};\r\n", quoted(include));
    }
    format!("{TITLE}\r\n{MARK}{}\r\n{rest}", digest(&rest))
}

/// Returns the contents of a script of the service. Returns `None` for any other script, and for a
/// script that another program has changed.
#[must_use]
pub fn parse(script: &str) -> Option<Contents> {
    let rest = script.strip_prefix(TITLE)?.strip_prefix("\r\n")?;
    let (mark, rest) = rest.strip_prefix(MARK)?.split_once("\r\n")?;
    if mark != digest(rest) {
        return None;
    }
    let data = rest.lines().next()?.strip_prefix(DATA)?;
    let contents: Contents = serde_json::from_str(data).ok()?;
    let is_valid =
        check_rules(&contents.rules).is_ok() && check_vacation(&contents.vacation).is_ok();
    is_valid.then_some(contents)
}

/// Returns a text of hexadecimal digits that differs for different scripts.
#[must_use]
pub fn digest(script: &str) -> String {
    let mut digest = String::new();
    for byte in Sha256::digest(script.as_bytes()) {
        let _ = write!(digest, "{byte:02x}");
    }
    digest
}

fn vacation(vacation: &Vacation, addresses: &[String]) -> String {
    let mut tests = Vec::new();
    for (time, comparison) in [(vacation.from, "ge"), (vacation.until, "lt")] {
        if let Some(time) = time.and_then(DateTime::from_timestamp_millis) {
            // Pigeonhole appends the zone to the current time, so a text comparison without the
            // zone is exact to the second.
            let time = time.format("%Y-%m-%dT%H:%M:%S");
            tests.push(format!(
                "currentdate :zone \"+0000\" :value \"{comparison}\" \"iso8601\" \"{time}\""
            ));
        }
    }
    let (mime, body) = match mime::body(vacation) {
        Body::Text(text) => ("", text),
        Body::Mime(entity) => (" :mime", entity),
    };
    let subject = vacation.subject.as_deref().map(quoted);
    let subject = subject.map_or_else(String::new, |subject| format!(" :subject {subject}"));
    let addresses: Vec<String> = addresses.iter().map(|one| quoted(one)).collect();
    let addresses = match addresses.as_slice() {
        [] => String::new(),
        addresses => format!(" :addresses [{}]", addresses.join(", ")),
    };
    let body = quoted(&body);
    format!(
        "if {} {{\r\n    vacation :days {DAYS}{subject}{addresses}{mime} {body};\r\n}}\r\n",
        all_of(&tests)
    )
}

fn all_of(tests: &[String]) -> String {
    match tests {
        [] => "true".into(),
        tests => format!("allof ({})", tests.join(", ")),
    }
}

fn rule(rule: &Rule, trash: Option<&str>) -> String {
    let tests: Vec<String> = rule.conditions.iter().map(test).collect();
    let tests = match rule.combination.as_str() {
        "any" if !tests.is_empty() => format!("anyof ({})", tests.join(", ")),
        _ => all_of(&tests),
    };
    // Flags affect only the actions that follow. A copy must not depend on the order of the actions
    // either, so `stop` is last.
    let mut actions: Vec<(u8, String)> = rule
        .actions
        .iter()
        .filter_map(|one| action(one, trash))
        .collect();
    actions.sort_by_key(|(order, _)| *order);
    let actions = actions
        .into_iter()
        .map(|(_, action)| format!("    {action}\r\n"));
    let actions: String = actions.collect();
    format!("# Rule: {}\r\nif {tests} {{\r\n{actions}}}\r\n", rule.name)
}

/// Returns an action with its position in the script.
fn action(action: &Action, trash: Option<&str>) -> Option<(u8, String)> {
    let value = action.value.as_deref();
    Some(match action.kind.as_str() {
        "markRead" => (0, format!("addflag {};", quoted("\\Seen"))),
        "flag" => {
            let flag = canonical_flag(value.unwrap_or("\\Flagged"))?;
            (0, format!("addflag {};", quoted(flag)))
        }
        "copy" => (1, file_into(":copy ", value?)),
        "forward" => (1, format!("redirect :copy {};", quoted(value?))),
        "move" => (2, file_into("", value?)),
        "trash" => (2, file_into("", trash?)),
        "stop" => (3, "stop;".into()),
        _ => return None,
    })
}

/// Returns the command that files a message in an existing folder. Without the test, one missing
/// folder would abort the actions of all rules (Pigeonhole 0.5 and 2.4).
fn file_into(tag: &str, folder: &str) -> String {
    let folder = quoted(folder);
    format!("if mailboxexists {folder} {{ fileinto {tag}{folder}; }}")
}

fn test(condition: &Condition) -> String {
    let value = condition.value.as_str();
    let operator = condition.operator.as_str();
    let header = |names: &[&str], value: &str| {
        let names: Vec<String> = names.iter().map(|one| quoted(one)).collect();
        format!(
            "header :{operator} [{}] {}",
            names.join(", "),
            quoted(value)
        )
    };
    let address = |names: &[&str]| {
        if operator == "contains" {
            // The header also has the display name.
            return header(names, value);
        }
        let quoted_names: Vec<String> = names.iter().map(|one| quoted(one)).collect();
        let address = format!(
            "address :all :{operator} [{}] {}",
            quoted_names.join(", "),
            quoted(value)
        );
        if operator == "matches" {
            return format!("anyof ({address}, {})", header(names, value));
        }
        address
    };
    match condition.field.as_str() {
        "from" => address(&["From"]),
        "to" => address(&["To", "Cc"]),
        "subject" => header(&["Subject"], value),
        "header" => header(&[condition.header.as_deref().unwrap_or_default()], value),
        "size" => format!("size :over {value}"),
        // The identifier is in angle brackets, and can follow a description (RFC 2919).
        "listId" => {
            let id = value.trim_start_matches('<').trim_end_matches('>');
            match operator {
                "is" => format!(
                    "header :contains [\"List-Id\"] {}",
                    quoted(&format!("<{id}>"))
                ),
                "matches" => header(&["List-Id"], &format!("*<{id}>*")),
                _ => header(&["List-Id"], value),
            }
        }
        _ => "false".into(),
    }
}

/// Returns a quoted string (RFC 5228, section 2.4.2). All characters but these two are literal,
/// because the script does not use the extensions `variables` and `encoded-character`.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns `true` if the script has the command `vacation`. A message can cause only one vacation
/// response, and a second one is an error that prevents all rules (Pigeonhole 0.5).
#[must_use]
pub fn has_vacation(script: &str) -> bool {
    let mut rest = script;
    let after = |rest: &'_ str, end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '#' => after(rest, "\n"),
            '/' if rest.starts_with("/*") => 2 + after(&rest[2..], "*/"),
            '"' => 1 + string_end(&rest[1..]),
            c if c.is_ascii_alphabetic() || c == '_' => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let word = &rest[..end];
                if word.eq_ignore_ascii_case("vacation") {
                    return true;
                }
                if word.eq_ignore_ascii_case("text") && rest[end..].starts_with(':') {
                    // A multi-line string ends with a dot on its own line.
                    let text = rest[end..].replace("\r\n", "\n");
                    if !text.contains("\n.\n") && !text.ends_with("\n.") {
                        return false;
                    }
                    let end_of_text = ["\r\n.\r\n", "\n.\n"];
                    let ends = end_of_text.iter().filter_map(|one| rest.find(one));
                    ends.min().map_or(rest.len(), |at| at + 3)
                } else {
                    end
                }
            }
            c => c.len_utf8(),
        };
        rest = &rest[length..];
    }
    false
}

/// Returns the length of a quoted string after its first quotation mark.
fn string_end(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn condition(field: &str, operator: &str, value: &str) -> Condition {
        Condition {
            field: field.into(),
            header: (field == "header").then(|| "X-A".into()),
            operator: operator.into(),
            value: value.into(),
        }
    }

    fn action(kind: &str, value: Option<&str>) -> Action {
        Action {
            kind: kind.into(),
            value: value.map(Into::into),
        }
    }

    fn contents(conditions: Vec<Condition>, actions: Vec<Action>) -> Contents {
        Contents {
            rules: vec![Rule {
                name: "One".into(),
                enabled: true,
                combination: "all".into(),
                conditions,
                actions,
            }],
            ..Contents::default()
        }
    }

    fn written(contents: &Contents) -> String {
        let names = Names {
            addresses: &["ada@example.test".into(), "x@example.test".into()],
            trash: Some("Trash"),
        };
        let script = write(contents, names);
        assert_eq!(parse(&script).as_ref(), Some(contents));
        script.lines().skip(4).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_rule_is_a_test_with_ordered_actions() {
        let script = written(&contents(
            vec![
                condition("from", "is", "a@b.example"),
                condition("size", "over", "10"),
            ],
            vec![
                action("stop", None),
                action("move", Some("Work")),
                action("copy", Some("All")),
                action("flag", Some("\\flagged")),
                action("forward", Some("bob@example.test")),
            ],
        ));
        let expected = "# Rule: One\nif allof (address :all :is [\"From\"] \"a@b.example\", size :over 10) {\n    addflag \"\\\\Flagged\";\n    if mailboxexists \"All\" { fileinto :copy \"All\"; }\n    redirect :copy \"bob@example.test\";\n    if mailboxexists \"Work\" { fileinto \"Work\"; }\n    stop;\n}";
        assert_eq!(script, expected);
    }

    #[test]
    fn a_vacation_response_has_dates_and_addresses() {
        let contents = Contents {
            vacation: Vacation {
                enabled: true,
                from: Some(0),
                subject: Some("Away \"now\"".into()),
                text: Some("Line\nTwo".into()),
                ..Vacation::default()
            },
            include: Some("mine".into()),
            ..Contents::default()
        };
        let script = written(&contents);
        let expected = "if allof (currentdate :zone \"+0000\" :value \"ge\" \"iso8601\" \"1970-01-01T00:00:00\") {\n    vacation :days 7 :subject \"Away \\\"now\\\"\" :addresses [\"ada@example.test\", \"x@example.test\"] \"Line\nTwo\";\n}\ninclude :personal :optional \"mine\";";
        assert_eq!(script, expected);
    }

    #[test]
    fn a_changed_or_foreign_script_is_not_read() {
        let script = write(
            &contents(vec![], vec![action("stop", None)]),
            Names {
                addresses: &[],
                trash: None,
            },
        );
        assert!(parse(&script).is_some());
        assert_eq!(parse(&script.replace("stop", "keep")), None);
        assert_eq!(parse("keep;"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn only_the_command_is_a_vacation_response() {
        for script in [
            "require \"vacation\";\r\nvacation \"Away\";",
            "if true { VACATION :days 1 text:\r\nvacation\r\n.\r\n; }",
            "keep; /* c */ vacation \"a\";",
            "text:\r\na\r\n.\r\n;vacation \"a\";",
        ] {
            assert!(has_vacation(script), "{script}");
        }
        for script in [
            "",
            "require [\"vacation\", \"fileinto\"]; keep;",
            "# vacation\r\nkeep;",
            "/* vacation */ keep;",
            "fileinto \"my \\\"vacation\";",
            "vacation_2;",
            "reject text:\r\nvacation\r\n.\r\n;",
            "\"unclosed vacation",
            "/* vacation",
        ] {
            assert!(!has_vacation(script), "{script}");
        }
    }

    proptest! {
        /// A value stays inside its string: after the strings are removed, the script does not
        /// depend on the values.
        #[test]
        fn a_value_cannot_change_the_structure(value in "[ -~é\u{2028}]{1,40}", name in "[ -~]{1,20}") {
            let build = |value: &str, name: &str| {
                let mut contents = contents(
                    vec![
                        condition("subject", "contains", value),
                        condition("header", "matches", value),
                        condition("listId", "is", value),
                        condition("to", "is", value),
                    ],
                    vec![action("move", Some(value)), action("forward", Some(value))],
                );
                contents.rules[0].name = name.into();
                contents.include = Some(value.into());
                without_strings(&written(&contents))
            };
            prop_assert_eq!(build(&value, &name), build("x", "x"));
        }

        #[test]
        fn no_script_causes_a_panic(script in "[a-z\"\\\\#/*:.\r\n é]{0,60}") {
            let _ = has_vacation(&script);
            let _ = parse(&script);
        }
    }

    /// Returns the script without comments and without the content of its strings.
    fn without_strings(script: &str) -> String {
        let mut found = String::new();
        let lines = script.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            let mut rest = line;
            while let Some(at) = rest.find('"') {
                found.push_str(&rest[..=at]);
                rest = &rest[at + 1 + string_end(&rest[at + 1..])..];
            }
            found.push_str(rest);
        }
        found
    }
}
