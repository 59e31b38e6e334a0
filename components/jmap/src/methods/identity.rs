//! Identities (RFC 8621, section 6): the addresses from which the caller may send. The host stores
//! no names and no signatures, so the module stores what clients set.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use latchmail_sdk::capability::{Error, Scope};
use latchmail_sdk::stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Capabilities;
use crate::args::{Args, Object, check_properties, select};
use crate::changes::{self, Changed};
use crate::context::Context;
use crate::error::{MethodError, MethodResult, SetError};
use crate::ids;
use crate::set::{Requested, Results, patch};

const PROPERTIES: [&str; 8] = [
    "id",
    "name",
    "email",
    "replyTo",
    "bcc",
    "textSignature",
    "htmlSignature",
    "mayDelete",
];
/// The key of [`AllSettings`].
const KEY: &str = "identities";
/// The maximum size of a text, in bytes, and the maximum number of addresses in a list.
const MAX_TEXT: usize = 16 * 1024;
const MAX_ADDRESSES: usize = 20;

/// What clients have set for an identity.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Settings {
    name: String,
    reply_to: Value,
    bcc: Value,
    text_signature: String,
    html_signature: String,
    /// The number of the last change.
    changed: u64,
}

/// The settings of all identities, by id. They are one value, so that a client that reads a state
/// never reads older settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct AllSettings {
    /// The number of changes.
    changes: u64,
    identities: BTreeMap<String, Settings>,
}

/// Returns the addresses: that of the account, and the active aliases if the caller may see them.
pub(super) fn addresses<H: Capabilities>(ctx: &Context<'_, H>) -> Result<Vec<String>, MethodError> {
    let mut addresses = vec![ctx.caller.address.clone()];
    if ctx.holds(Scope::AliasesRead) {
        match ctx.host.list_aliases() {
            Ok(aliases) => {
                let active = aliases.into_iter().filter(|alias| alias.active);
                addresses.extend(active.map(|alias| alias.address));
            }
            // A credential can have the scope and still not the right.
            Err(Error::Denied(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(addresses)
}

fn settings<H: Capabilities>(ctx: &Context<'_, H>) -> Result<AllSettings, MethodError> {
    let all: Option<AllSettings> = stored::read(ctx.host, KEY)?;
    Ok(all.unwrap_or_default())
}

/// Returns the part of a state that stands for the addresses.
fn hash(addresses: &[String]) -> String {
    let mut hash = DefaultHasher::new();
    addresses.hash(&mut hash);
    format!("{:016x}", hash.finish())
}

fn state(addresses: &[String], settings: &AllSettings) -> String {
    format!("{}-{}", hash(addresses), settings.changes)
}

fn object(address: &str, settings: &Settings) -> Object {
    let object = json!({
        "id": ids::of_address(address),
        "name": settings.name,
        "email": address,
        "replyTo": settings.reply_to,
        "bcc": settings.bcc,
        "textSignature": settings.text_signature,
        "htmlSignature": settings.html_signature,
        "mayDelete": false,
    });
    object.as_object().cloned().unwrap_or_default()
}

/// `Identity/get` (RFC 8621, section 6.1).
pub(super) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ids", "properties"])?;
    let properties = args.properties(&PROPERTIES)?;
    check_properties(&properties, &PROPERTIES)?;
    let ids = args.ids()?;
    let (addresses, mut settings) = (addresses(ctx)?, settings(ctx)?);
    let state = state(&addresses, &settings);
    let (mut list, mut found) = (Vec::new(), Vec::new());
    for address in &addresses {
        let id = ids::of_address(address);
        if ids.as_ref().is_none_or(|ids| ids.contains(&id.as_str())) {
            let settings = settings.identities.remove(&id).unwrap_or_default();
            list.push(select(object(address, &settings), &properties));
            found.push(id);
        }
    }
    let mut not_found = ids.unwrap_or_default();
    not_found.retain(|id| !found.iter().any(|known| known == id));
    Ok(json!({
        "accountId": ctx.account,
        "state": state,
        "list": list,
        "notFound": not_found,
    }))
}

/// `Identity/changes` (RFC 8621, section 6.2). Changes of the addresses have no history.
pub(super) fn changes<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["sinceState", "maxChanges"])?;
    let since = args.required("sinceState")?;
    let max = changes::max_changes(args)?;
    let (addresses, settings) = (addresses(ctx)?, settings(ctx)?);
    let known = since.strip_prefix(&hash(&addresses));
    let known = known.and_then(|rest| rest.strip_prefix('-')?.parse::<u64>().ok());
    let known = known.filter(|known| *known <= settings.changes);
    let known = known.ok_or_else(MethodError::no_changes)?;
    let mut changed = Changed::default();
    for address in &addresses {
        let id = ids::of_address(address);
        let found = settings.identities.get(&id);
        if found.is_some_and(|found| found.changed > known) {
            changed.updated.insert(id);
        }
    }
    if max.is_some_and(|max| changed.len() > max) {
        return Err(MethodError::no_changes());
    }
    let new = state(&addresses, &settings);
    Ok(changed.response(&ctx.account, since, &new, false))
}

/// `Identity/set` (RFC 8621, section 6.3). Aliases are created and deleted elsewhere.
pub(super) fn set<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ifInState", "create", "update", "destroy"])?;
    ctx.require_write()?;
    let addresses = addresses(ctx)?;
    let current = state(&addresses, &settings(ctx)?);
    if args
        .text("ifInState")?
        .is_some_and(|state| state != current)
    {
        return Err(MethodError::new("stateMismatch"));
    }
    let requested = Requested::read(ctx, args)?;
    let forbidden = || SetError::with("forbidden", "Identities are the addresses of the account");
    let address_of = |id: &str| {
        let mut addresses = addresses.iter();
        addresses.find(|address| ids::of_address(address) == id)
    };
    let mut results = Results::default();
    for (creation_id, _) in &requested.create {
        results.created(ctx, creation_id, Err(forbidden()));
    }
    for (id, changes) in &requested.update {
        let updated = match address_of(id) {
            Some(_) if requested.destroy.contains(id) => Err(SetError::new("willDestroy")),
            Some(address) => update(ctx, address, changes),
            None => Err(SetError::not_found()),
        };
        results.updated(id, updated.map(|()| None));
    }
    for id in &requested.destroy {
        let found = address_of(id).is_some();
        let error = if found {
            forbidden()
        } else {
            SetError::not_found()
        };
        results.destroyed(id, Err(error));
    }
    let settings = settings(ctx).map_err(MethodError::after_changes)?;
    let new = state(&addresses, &settings);
    results.response(&ctx.account, &current, &new)
}

/// Changes the settings of an identity.
fn update<H: Capabilities>(
    ctx: &Context<'_, H>,
    address: &str,
    changes: &Object,
) -> Result<(), SetError> {
    let mut result = Ok(());
    let saved = stored::change(ctx.host, KEY, |was: Option<AllSettings>| {
        let mut all = was.clone().unwrap_or_default();
        let id = ids::of_address(address);
        let settings = all.identities.entry(id).or_default();
        result = apply(address, settings, changes);
        if result.is_err() {
            return was;
        }
        all.changes += 1;
        settings.changed = all.changes;
        Some(all)
    });
    saved?;
    result
}

/// Applies a patch to the settings of an identity.
fn apply(address: &str, settings: &mut Settings, changes: &Object) -> Result<(), SetError> {
    let current = object(address, settings);
    for change in patch(changes)? {
        let (name, value) = (change.property, change.value);
        if change.member.is_some() {
            return Err(SetError::with("invalidPatch", "The path does not exist"));
        }
        let wrong = || SetError::invalid(&[name], "The property cannot have this value");
        let text = || {
            let text = value.as_str().filter(|text| text.len() <= MAX_TEXT);
            text.map(ToOwned::to_owned).ok_or_else(wrong)
        };
        match name {
            "name" => {
                let text = text()?;
                if text.chars().any(char::is_control) {
                    return Err(wrong());
                }
                settings.name = text;
            }
            "textSignature" => settings.text_signature = text()?,
            "htmlSignature" => settings.html_signature = text()?,
            "replyTo" => settings.reply_to = addresses_of(value).ok_or_else(wrong)?,
            "bcc" => settings.bcc = addresses_of(value).ok_or_else(wrong)?,
            _ if current.get(name) == Some(value) => {}
            _ => return Err(wrong()),
        }
    }
    Ok(())
}

/// Returns a list of addresses, or null. Returns `None` for another value.
fn addresses_of(value: &Value) -> Option<Value> {
    if value.is_null() {
        return Some(Value::Null);
    }
    let list = value
        .as_array()
        .filter(|list| list.len() <= MAX_ADDRESSES)?;
    let is_line = |text: &str| text.len() <= MAX_TEXT && !text.chars().any(char::is_control);
    let address = |one: &Value| {
        let email = one.get("email")?.as_str()?;
        let name = match one.get("name") {
            None | Some(Value::Null) => None,
            Some(name) => Some(name.as_str()?),
        };
        let is_valid = email.contains('@') && is_line(email) && name.is_none_or(is_line);
        is_valid.then(|| json!({ "name": name, "email": email }))
    };
    list.iter().map(address).collect()
}
