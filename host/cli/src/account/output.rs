//! Formats accounts, aliases and credentials as text and as JSON. The output contains no passwords,
//! keys or hashes.

use std::fmt::Write as _;

use latchmail_directory::accounts::administration::Overview;
use latchmail_directory::aliases::Alias;
use latchmail_directory::credentials::Credential;
use latchmail_terminal::output::{escape, format_time, table, yes_or_no};
use serde_json::{Value, json};

pub(crate) fn account_row(account: &Overview) -> [String; 6] {
    [
        account.address.clone(),
        state(account).into(),
        yes_or_no(account.admin).into(),
        escape(&account.plan),
        on_or_off(account.two_factor).into(),
        format_time(account.created_at),
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
        "createdAt": format_time(account.created_at),
        "forwardTo": account.forward_to,
        "deletesAt": account.deletes_at.map(format_time),
    })
}

pub(crate) fn detail_text(
    account: &Overview,
    aliases: &[Alias],
    credentials: &[Credential],
) -> String {
    let mut text = account.address.clone();
    for (name, value) in [
        ("id", account.id.as_str()),
        ("state", state(account)),
        ("administrator", yes_or_no(account.admin)),
        ("plan", &escape(&account.plan)),
        ("two-factor", on_or_off(account.two_factor)),
        ("profile", yes_or_no(account.profile)),
        ("since", &format_time(account.created_at)),
    ] {
        let _ = write!(text, "\n  {name:14}{value}");
    }
    for (name, value) in [
        ("forwarded to", account.forward_to.clone()),
        ("deleted at", account.deletes_at.map(format_time)),
    ] {
        if let Some(value) = value {
            let _ = write!(text, "\n  {name:14}{value}");
        }
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
    let heading = [
        "kind",
        "label",
        "created",
        "last used",
        "expires",
        "suspended",
        "id",
    ];
    let rows = credentials.iter().map(|credential| {
        [
            credential.kind.name().into(),
            escape(&credential.label),
            credential.created_at.to_string(),
            (credential.last_used_at).map_or_else(|| "-".into(), |at| at.to_string()),
            (credential.expires_at).map_or_else(|| "never".into(), |at| at.to_string()),
            (credential.suspended_at).map_or_else(|| "-".into(), |at| at.to_string()),
            id(credential).into(),
        ]
    });
    if credentials.is_empty() {
        text.push_str("\n  none");
    } else {
        for line in table(heading, rows) {
            let _ = write!(text, "\n  {line}");
        }
    }
    text
}

pub(crate) fn detail_json(
    account: &Overview,
    aliases: &[Alias],
    credentials: &[Credential],
) -> Value {
    let mut detail = account_json(account);
    detail["aliases"] = aliases
        .iter()
        .map(|alias| json!({ "address": alias.address, "active": alias.active }))
        .collect();
    detail["credentials"] = credentials
        .iter()
        .map(|credential| {
            json!({
                "id": id(credential),
                "type": credential.kind.name(),
                "label": credential.label,
                "createdAt": credential.created_at,
                "lastUsedAt": credential.last_used_at,
                "expiresAt": credential.expires_at,
                "suspendedAt": credential.suspended_at,
            })
        })
        .collect();
    detail
}

/// Returns the id with which the operator refers to a credential. For the app password of an API
/// token, returns the id of the token.
fn id(credential: &Credential) -> &str {
    let token = credential.token.as_ref().map(|(id, _)| id);
    token.unwrap_or(&credential.id)
}

const fn state(account: &Overview) -> &'static str {
    if account.active { "active" } else { "disabled" }
}

const fn on_or_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}
