//! The JSON files about the account: `account.json`, `aliases.json`, `rules.json` and
//! `journal.json`.

use latchmail_core::clock::Timestamp;
use latchmail_directory::Directory;
use latchmail_mailbox::Access;
use latchmail_mailbox::filters::{self, Filters};
use latchmail_mailbox::journal::Journal;
use serde_json::{Value, json};

use crate::error::Error;

/// The names of the files, which follow the manifest in an archive.
pub(crate) const FILES: [&str; 4] = ["account.json", "aliases.json", "rules.json", "journal.json"];

/// Maximum number of changes in `journal.json`, and the number of changes of one query.
const MAX_CHANGES: usize = 50_000;
const PAGE: u32 = 200;

/// Returns the address of the account, and the content of its JSON files without the journal. The
/// account can be disabled, because it is being deleted.
pub(crate) async fn read(
    directory: &Directory,
    filters: &Filters,
    access: &Access,
) -> Result<(String, [Value; 3]), Error> {
    let id = &*access.account;
    let address = &access.credential.username;
    let profile = directory.accounts.profile(id).await?;
    let of_profile = |field: fn(&latchmail_directory::accounts::profiles::Profile) -> &str| {
        profile.as_ref().map(field)
    };
    let plan = directory.accounts.plan(id).await?;
    let created_at = profile.as_ref().map(|profile| profile.created_at);
    let data = json!({
        "id": id,
        "address": address,
        "firstName": of_profile(|profile| &profile.first_name),
        "lastName": of_profile(|profile| &profile.last_name),
        "dob": of_profile(|profile| &profile.dob),
        "createdAt": created_at.map(Timestamp::from_millis),
        "plan": plan,
    });
    let aliases = directory.aliases.list(id).await?;
    let aliases: Vec<Value> = aliases
        .into_iter()
        .map(|alias| {
            json!({
                "id": alias.id(),
                "address": alias.address,
                "active": alias.active,
                "note": alias.note,
                "createdAt": alias.created_at,
                "modifiedAt": alias.modified_at,
                "expiresAt": alias.expires_at,
                "lastReceivedAt": alias.last_received_at,
                "received": alias.received,
            })
        })
        .collect();
    let rules = match filters.get(access).await {
        Ok(state) => json!({
            "active": state.active,
            "vacation": state.vacation,
            "rules": state.rules,
        }),
        // The mail server has no rules.
        Err(filters::Error::Unsupported) => Value::Null,
        Err(filters::Error::Mailbox(error)) => return Err(error.into()),
        Err(error) => return Err(latchmail_mailbox::Error::Internal(error.to_string()).into()),
    };
    let aliases = json!({ "aliases": aliases });
    Ok((address.clone(), [data, aliases, rules]))
}

/// Returns the content of `journal.json`: the changes that each grant of the account made, the
/// newest first.
pub(crate) async fn journal(
    directory: &Directory,
    journal: &Journal,
    account: &str,
) -> Result<Value, Error> {
    let mut changes = Vec::new();
    for grant in directory.grant_changes.grants(account).await? {
        let mut before = None;
        loop {
            let page = journal.list(account, &grant, before, PAGE).await?;
            changes.extend(page.entries.into_iter().map(|entry| {
                json!({
                    "id": entry.id,
                    "grant": grant,
                    "at": entry.at,
                    "kind": entry.kind,
                    "state": entry.state,
                    "uid": entry.number.map(|number| number.0),
                    "details": entry.details,
                })
            }));
            if changes.len() >= MAX_CHANGES {
                return Ok(json!({ "changes": changes, "complete": false }));
            }
            match page.next {
                Some(next) => before = Some(next),
                None => break,
            }
        }
    }
    Ok(json!({ "changes": changes, "complete": true }))
}
