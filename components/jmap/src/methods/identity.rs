//! Identities (RFC 8621, section 6): the addresses from which the caller may send. They have no
//! names and no signatures, because the host stores none.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use latchmail_sdk::capability::{Error, Scope};
use serde_json::json;

use crate::Capabilities;
use crate::args::{Args, Object, check_properties, select};
use crate::changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult, SetError};
use crate::ids;
use crate::set::{Requested, Results};

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

fn state(addresses: &[String]) -> String {
    let mut hash = DefaultHasher::new();
    addresses.hash(&mut hash);
    format!("{:016x}", hash.finish())
}

/// `Identity/get` (RFC 8621, section 6.1).
pub(super) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ids", "properties"])?;
    let properties = args.properties(&PROPERTIES)?;
    check_properties(&properties, &PROPERTIES)?;
    let ids = args.ids()?;
    let addresses = addresses(ctx)?;
    let (mut list, mut found) = (Vec::new(), Vec::new());
    for address in &addresses {
        let id = ids::of_address(address);
        if ids.as_ref().is_none_or(|ids| ids.contains(&id.as_str())) {
            let identity = json!({
                "id": id,
                "name": "",
                "email": address,
                "replyTo": null,
                "bcc": null,
                "textSignature": "",
                "htmlSignature": "",
                "mayDelete": false,
            });
            let identity = identity.as_object().cloned().unwrap_or_default();
            list.push(select(identity, &properties));
            found.push(id);
        }
    }
    let mut not_found = ids.unwrap_or_default();
    not_found.retain(|id| !found.iter().any(|known| known == id));
    Ok(json!({
        "accountId": ctx.account,
        "state": state(&addresses),
        "list": list,
        "notFound": not_found,
    }))
}

/// `Identity/changes` (RFC 8621, section 6.2).
pub(super) fn changes<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["sinceState", "maxChanges"])?;
    let current = state(&addresses(ctx)?);
    changes::without_history(ctx, args, &current)
}

/// `Identity/set` (RFC 8621, section 6.3). Aliases are created and changed elsewhere.
pub(super) fn set<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ifInState", "create", "update", "destroy"])?;
    ctx.require_write()?;
    let addresses = addresses(ctx)?;
    let current = state(&addresses);
    if args
        .text("ifInState")?
        .is_some_and(|state| state != current)
    {
        return Err(MethodError::new("stateMismatch"));
    }
    let requested = Requested::read(ctx, args)?;
    let exists = |id: &str| {
        addresses
            .iter()
            .any(|address| ids::of_address(address) == id)
    };
    let refused = |id: &str| {
        if exists(id) {
            SetError::with("forbidden", "Identities are the addresses of the account")
        } else {
            SetError::not_found()
        }
    };
    let mut results = Results::default();
    for (creation_id, _) in &requested.create {
        let text = "Identities are the addresses of the account";
        results.created(ctx, creation_id, Err(SetError::with("forbidden", text)));
    }
    for (id, _) in &requested.update {
        results.updated(id, Err(refused(id)));
    }
    for id in &requested.destroy {
        results.destroyed(id, Err(refused(id)));
    }
    results.response(&ctx.account, &current, &current)
}
