//! The vacation response (RFC 8621, section 8), which the mail server sends.

use latchmail_sdk::capability::{FilterError, FilterState, Vacation};
use serde_json::{Value, json};

use crate::Capabilities;
use crate::args::{Args, Object, check_properties, select, to_utc_date, utc_date};
use crate::context::Context;
use crate::error::{MethodError, MethodResult, SetError};
use crate::set::{Requested, Results, patch};

/// The id of the only object.
const ID: &str = "singleton";
const PROPERTIES: [&str; 7] = [
    "id",
    "isEnabled",
    "fromDate",
    "toDate",
    "subject",
    "textBody",
    "htmlBody",
];

fn object(vacation: &Vacation) -> Object {
    let object = json!({
        "id": ID,
        "isEnabled": vacation.enabled,
        "fromDate": vacation.from_date.map(to_utc_date),
        "toDate": vacation.to_date.map(to_utc_date),
        "subject": vacation.subject,
        "textBody": vacation.text,
        "htmlBody": vacation.html,
    });
    object.as_object().cloned().unwrap_or_default()
}

/// `VacationResponse/get` (RFC 8621, section 8.1).
pub(super) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ids", "properties"])?;
    let properties = args.properties(&PROPERTIES)?;
    check_properties(&properties, &PROPERTIES)?;
    let ids = args.ids()?;
    let state = ctx.host.get_filters()?;
    let is_wanted = ids.as_ref().is_none_or(|ids| ids.contains(&ID));
    let list: Vec<Value> = is_wanted
        .then(|| select(object(&state.vacation), &properties))
        .into_iter()
        .collect();
    let mut not_found = ids.unwrap_or_default();
    not_found.retain(|id| *id != ID);
    Ok(json!({
        "accountId": ctx.account,
        "state": state.version,
        "list": list,
        "notFound": not_found,
    }))
}

/// `VacationResponse/set` (RFC 8621, section 8.2).
pub(super) fn set<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ifInState", "create", "update", "destroy"])?;
    ctx.require_write()?;
    let mut current = ctx.host.get_filters()?;
    let old_version = current.version.clone();
    if args
        .text("ifInState")?
        .is_some_and(|state| state != old_version)
    {
        return Err(MethodError::new("stateMismatch"));
    }
    let requested = Requested::read(ctx, args)?;
    let mut results = Results::default();
    for (creation_id, _) in &requested.create {
        results.created(ctx, creation_id, Err(SetError::new("singleton")));
    }
    for (id, changes) in &requested.update {
        let updated = if id == ID {
            update(ctx, &current, changes)
        } else {
            Err(SetError::not_found())
        };
        match updated {
            Ok(state) => {
                current = state;
                results.updated(id, Ok(None));
            }
            Err(error) => results.updated(id, Err(error)),
        }
    }
    for id in &requested.destroy {
        results.destroyed(id, Err(SetError::new("singleton")));
    }
    results.response(&ctx.account, &old_version, &current.version)
}

fn update<H: Capabilities>(
    ctx: &Context<'_, H>,
    state: &FilterState,
    changes: &Object,
) -> Result<FilterState, SetError> {
    let mut vacation = state.vacation.clone();
    for change in patch(changes)? {
        let name = change.property;
        let wrong = || SetError::invalid(&[name], "The value is invalid");
        let text = || match change.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => Err(wrong()),
        };
        let date = || match text()? {
            Some(text) => utc_date(&text).map(Some).ok_or_else(wrong),
            None => Ok(None),
        };
        if change.member.is_some() {
            return Err(SetError::with("invalidPatch", "The path does not exist"));
        }
        match name {
            "id" if *change.value == ID => {}
            "isEnabled" => vacation.enabled = change.value.as_bool().ok_or_else(wrong)?,
            "fromDate" => vacation.from_date = date()?,
            "toDate" => vacation.to_date = date()?,
            "subject" => vacation.subject = text()?,
            "textBody" => vacation.text = text()?,
            "htmlBody" => vacation.html = text()?,
            _ => return Err(wrong()),
        }
    }
    let changed = ctx.host.set_vacation(&vacation, Some(&state.version));
    changed.map_err(|error| match error {
        FilterError::Failed(error) => error.into(),
        error => MethodError::from(error).into(),
    })
}
