//! Quotas (RFC 9425).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use latchmail_sdk::capability::QuotaUsage;
use serde_json::{Value, json};

use super::mailbox_query::{no_query_changes, page};
use crate::Capabilities;
use crate::args::{Args, Object, check_properties, select};
use crate::changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

const PROPERTIES: [&str; 10] = [
    "id",
    "resourceType",
    "used",
    "hardLimit",
    "warnLimit",
    "softLimit",
    "scope",
    "name",
    "types",
    "description",
];

/// Returns the quotas that have a limit, and their state.
fn quotas<H: Capabilities>(ctx: &Context<'_, H>) -> Result<(Vec<Object>, String), MethodError> {
    let quota = ctx.host.get_quota()?;
    let one = |id: &str, kind: &str, name: &str, usage: QuotaUsage| -> Option<Object> {
        let limit = usage.limit?;
        let quota = json!({
            "id": id,
            "resourceType": kind,
            "used": usage.used.unwrap_or_default(),
            "hardLimit": limit,
            "warnLimit": null,
            "softLimit": null,
            "scope": "account",
            "name": name,
            "types": ["Email"],
            "description": null,
        });
        quota.as_object().cloned()
    };
    let quotas = [
        one("storage", "octets", "Storage", quota.storage),
        one("messages", "count", "Messages", quota.messages),
    ];
    let quotas: Vec<Object> = quotas.into_iter().flatten().collect();
    let mut hash = DefaultHasher::new();
    json!(quotas).to_string().hash(&mut hash);
    Ok((quotas, format!("{:016x}", hash.finish())))
}

/// `Quota/get` (RFC 9425, section 4.1).
pub(super) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ids", "properties"])?;
    let properties = args.properties(&PROPERTIES)?;
    check_properties(&properties, &PROPERTIES)?;
    let ids = args.ids()?;
    let (quotas, state) = quotas(ctx)?;
    let has = |ids: &[&str], quota: &Object| ids.iter().any(|id| quota["id"] == *id);
    let mut not_found = ids.clone().unwrap_or_default();
    not_found.retain(|id| !quotas.iter().any(|quota| quota["id"] == *id));
    let list: Vec<Value> = quotas
        .into_iter()
        .filter(|quota| ids.as_ref().is_none_or(|ids| has(ids, quota)))
        .map(|quota| select(quota, &properties))
        .collect();
    Ok(json!({
        "accountId": ctx.account,
        "state": state,
        "list": list,
        "notFound": not_found,
    }))
}

/// `Quota/changes` (RFC 9425, section 4.2).
pub(super) fn changes<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["sinceState", "maxChanges"])?;
    let (_, state) = quotas(ctx)?;
    let mut response = changes::without_history(ctx, args, &state)?;
    response["updatedProperties"] = Value::Null;
    Ok(response)
}

/// `Quota/query` (RFC 9425, section 4.3).
pub(super) fn query<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "filter",
        "sort",
        "position",
        "anchor",
        "anchorOffset",
        "limit",
        "calculateTotal",
    ];
    let args = &Args::new(ctx, args, &known)?;
    let (mut quotas, state) = quotas(ctx)?;
    for (name, value) in args.object("filter")?.into_iter().flatten() {
        let Some(text) = value.as_str() else {
            return Err(MethodError::invalid(format!("{name} must be a string")));
        };
        match name.as_str() {
            "name" => quotas.retain(|quota| {
                let known = quota["name"].as_str().unwrap_or_default();
                known.to_lowercase().contains(&text.to_lowercase())
            }),
            "scope" | "resourceType" => quotas.retain(|quota| quota[name] == text),
            "type" => quotas.retain(|_| text == "Email"),
            other => return Err(MethodError::with("unsupportedFilter", other)),
        }
    }
    for key in args.objects("sort")?.into_iter().rev() {
        let property = key
            .get("property")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !["name", "used"].contains(&property) {
            return Err(MethodError::with("unsupportedSort", property));
        }
        let sort_key = |quota: &Object| {
            let value = &quota[property];
            (value.as_u64(), value.as_str().map(ToOwned::to_owned))
        };
        quotas.sort_by_key(sort_key);
        if key.get("isAscending") == Some(&Value::Bool(false)) {
            quotas.reverse();
        }
    }
    let ids: Vec<&str> = quotas
        .iter()
        .filter_map(|quota| quota["id"].as_str())
        .collect();
    page(ctx, args, &state, &ids)
}

/// `Quota/queryChanges`. The changes are not known.
pub(super) fn query_changes<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    args: &Object,
) -> MethodResult {
    no_query_changes(ctx, args)
}
