//! `Email/import` (RFC 8621, section 4.8).

use latchmail_sdk::capability::Error;
use serde_json::{Value, json};

use super::create::{self, Target};
use crate::Capabilities;
use crate::args::{Args, Object};
use crate::blob;
use crate::changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult, SetError};
use crate::ids::BlobId;
use crate::limits::MAX_SET;

/// `Email/import`.
pub(crate) fn import<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["ifInState", "emails"])?;
    ctx.require_write()?;
    let old = changes::state_for_set(ctx, args)?;
    let emails = args.object("emails")?;
    let emails = emails.ok_or_else(|| MethodError::invalid("emails must be an object"))?;
    if emails.len() > MAX_SET {
        return Err(MethodError::new("requestTooLarge"));
    }
    let (mut created, mut not_created) = (Object::new(), Object::new());
    for (creation_id, email) in emails {
        let wrong = || SetError::invalid(&[], "An email must be an object");
        let imported = email
            .as_object()
            .ok_or_else(wrong)
            .and_then(|email| import_one(ctx, email));
        match imported {
            Ok(email) => {
                let id = email["id"].as_str().unwrap_or_default().to_owned();
                ctx.created.insert(creation_id.clone(), id);
                created.insert(creation_id.clone(), email);
            }
            Err(error) => {
                if let Some(error) = error.fatal() {
                    return Err(error);
                }
                not_created.insert(creation_id.clone(), error.to_json());
            }
        }
    }
    let or_null = |object: Object| (!object.is_empty()).then_some(object);
    let new = changes::state(ctx)?;
    Ok(json!({
        "accountId": ctx.account,
        "oldState": old,
        "newState": new,
        "created": or_null(created),
        "notCreated": or_null(not_created),
    }))
}

fn import_one<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    email: &Object,
) -> Result<Value, SetError> {
    let known = ["blobId", "mailboxIds", "keywords", "receivedAt"];
    if let Some(name) = email.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(SetError::invalid(&[name], "The property does not exist"));
    }
    let id = email.get("blobId").and_then(Value::as_str);
    let id = id.ok_or_else(|| SetError::invalid(&["blobId"], "blobId must be an id"))?;
    let target = Target::read(ctx, email)?;
    let missing = || SetError::new("blobNotFound").and("notFound", json!([id]));
    let parsed = BlobId::parse(id).ok_or_else(missing)?;
    let message = blob::open(ctx.host, &parsed).map_err(|error| match error {
        Error::NotFound => missing(),
        error => error.into(),
    })?;
    match create::store(ctx, target, message) {
        Err(error) if error.is_invalid() => Err(error.with_kind("invalidEmail")),
        result => result,
    }
}
