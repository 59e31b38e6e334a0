//! Formats accounts, aliases and credentials: as lines for people, as JSON for programs. The output contains no secrets and no hashes.

use std::fmt::Write as _;

use latchmail_core::clock::Timestamp;
use latchmail_directory::administration::Overview;
use latchmail_directory::aliases::Alias;
use latchmail_directory::credentials::Credential;
use serde_json::{Value, json};

/// Escapes control characters and invisible characters, so that text from outside cannot move the cursor or end a line.
pub(crate) fn plain(text: &str) -> String {
    text.chars().fold(String::new(), |mut plain, c| {
        let separator = matches!(c, '\u{2028}' | '\u{2029}');
        if c.is_control() || separator || latchmail_shape::invisible(c).is_some() {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
        plain
    })
}

pub(crate) fn instant(millis: i64) -> String {
    Timestamp::from_millis(millis).to_string()
}

/// A table with aligned columns. The first row is the heading.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    rows.iter()
        .map(|row| {
            let line = row
                .iter()
                .zip(widths)
                .fold(String::new(), |line, (cell, width)| {
                    line + &format!("{cell:width$}  ")
                });
            line.trim_end().to_owned()
        })
        .collect()
}

pub(crate) fn account_row(account: &Overview) -> [String; 6] {
    [
        account.address.clone(),
        state(account).into(),
        yes(account.admin).into(),
        plain(&account.plan),
        on(account.two_factor).into(),
        instant(account.created_at),
    ]
}

pub(crate) fn account_json(account: &Overview) -> Value {
    json!({
        "id": account.id,
        "address": account.address,
        "active": account.active,
        "admin": account.admin,
        "plan": account.plan,
        "twoFactor": account.two_factor,
        "profile": account.profile,
        "createdAt": instant(account.created_at),
    })
}

/// Returns everything about one account as lines.
pub(crate) fn account(account: &Overview, aliases: &[Alias], credentials: &[Credential]) -> String {
    let mut text = account.address.clone();
    for (name, value) in [
        ("id", account.id.as_str()),
        ("state", state(account)),
        ("administrator", yes(account.admin)),
        ("plan", &plain(&account.plan)),
        ("two-factor", on(account.two_factor)),
        ("profile", yes(account.profile)),
        ("since", &instant(account.created_at)),
    ] {
        let _ = write!(text, "\n  {name:14}{value}");
    }
    text.push_str("\naliases");
    for alias in aliases {
        let off = if alias.active { "" } else { "  (inactive)" };
        let _ = write!(text, "\n  {}{off}", alias.address);
    }
    if aliases.is_empty() {
        text.push_str("\n  none");
    }
    text.push_str("\ncredentials");
    let heading = ["kind", "label", "made", "last used", "expires", "id"].map(Into::into);
    let rows = credentials.iter().map(|credential| {
        [
            credential.kind.name().into(),
            plain(&credential.label),
            credential.created_at.to_string(),
            (credential.last_used_at).map_or_else(|| "-".into(), |at| at.to_string()),
            (credential.expires_at).map_or_else(|| "never".into(), |at| at.to_string()),
            id(credential).into(),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(heading).chain(rows).collect();
    if credentials.is_empty() {
        text.push_str("\n  none");
    } else {
        for line in table(&rows) {
            let _ = write!(text, "\n  {line}");
        }
    }
    text
}

/// Returns everything about one account as JSON.
pub(crate) fn whole_json(
    account: &Overview,
    aliases: &[Alias],
    credentials: &[Credential],
) -> Value {
    let mut whole = account_json(account);
    whole["aliases"] = aliases
        .iter()
        .map(|alias| json!({ "address": alias.address, "active": alias.active }))
        .collect();
    whole["credentials"] = credentials
        .iter()
        .map(|credential| {
            json!({
                "id": id(credential),
                "type": credential.kind.name(),
                "label": credential.label,
                "createdAt": credential.created_at,
                "lastUsedAt": credential.last_used_at,
                "expiresAt": credential.expires_at,
            })
        })
        .collect();
    whole
}

/// Returns the token's id for the app password of an API token, otherwise the credential's own id.
fn id(credential: &Credential) -> &str {
    let token = credential.token.as_ref().map(|(id, _)| id);
    token.unwrap_or(&credential.id)
}

const fn state(account: &Overview) -> &'static str {
    if account.active { "active" } else { "disabled" }
}

const fn yes(it_is: bool) -> &'static str {
    if it_is { "yes" } else { "no" }
}

pub(crate) const fn on(it_is: bool) -> &'static str {
    if it_is { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_format_characters_are_escaped() {
        assert_eq!(plain("Ada's laptop, é"), "Ada's laptop, é");
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\u{a}c");
        assert_eq!(plain("\u{9b}x\u{202e}"), "\\u{9b}x\\u{202e}");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "b"], ["long", "c"]].map(|row| row.map(String::from));
        assert_eq!(table(&rows), ["a     b", "long  c"]);
    }
}
