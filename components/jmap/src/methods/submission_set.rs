//! `EmailSubmission/set` (RFC 8621, section 7.5).

use std::collections::BTreeMap;

use latchmail_sdk::capability::{DraftError, Error, Scope, Submission as Request};
use latchmail_sdk::time;
use serde_json::{Value, json};

use super::identity;
use super::submission::{self, Submission};
use crate::Capabilities;
use crate::args::{Args, Object};
use crate::context::{Context, now};
use crate::email;
use crate::error::{MethodError, MethodResult, SetError};
use crate::ids;
use crate::limits::{MAX_DELAY, MAX_RECIPIENTS};
use crate::set::{Patched, Requested, Results, patch};

/// The maximum size of a message, in bytes.
const MAX_MESSAGE: u32 = 26_214_400;

/// The envelope of a new submission.
struct Envelope {
    from: String,
    recipients: Vec<String>,
    send_at: Option<i64>,
}

/// `EmailSubmission/set`.
pub(super) fn set<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "ifInState",
        "create",
        "update",
        "destroy",
        "onSuccessUpdateEmail",
        "onSuccessDestroyEmail",
    ];
    let args = &Args::new(ctx, args, &known)?;
    if !ctx.holds(Scope::MailSend) {
        let text = "This credential is missing the \"mail:send\" scope";
        return Err(MethodError::with("forbidden", text));
    }
    let on_update = args.object("onSuccessUpdateEmail")?;
    let on_destroy = args.texts("onSuccessDestroyEmail")?.unwrap_or_default();
    let old = submission::state(ctx)?;
    if args.text("ifInState")?.is_some_and(|state| state != old) {
        return Err(MethodError::new("stateMismatch"));
    }
    let requested = Requested::read(ctx, args)?;
    let mut results = Results::default();
    // The emails of successful submissions, by the id of the submission.
    let mut emails: BTreeMap<String, String> = BTreeMap::new();
    for (creation_id, object) in &requested.create {
        let created = create(ctx, object).map(|(submission, response)| {
            emails.insert(submission.id(), submission.email);
            response
        });
        results.created(ctx, creation_id, created);
    }
    let requested = Requested::read(ctx, args)?;
    for (id, changes) in &requested.update {
        let updated = update(ctx, id, changes);
        if let Ok(email) = &updated {
            emails.insert(id.clone(), email.clone());
        }
        results.updated(id, updated.map(|_| None));
    }
    for id in &requested.destroy {
        let destroyed = match submission::find(ctx, id)? {
            Some(found) => submission::remove(ctx, &found)
                .map_err(SetError::from)
                .map(|()| {
                    emails.insert(id.clone(), found.email);
                }),
            None => Err(SetError::not_found()),
        };
        results.destroyed(id, destroyed);
    }
    let new = submission::state(ctx)?;
    let response = results.response(&ctx.account, &old, &new)?;
    let email_of = |ctx: &Context<'_, H>, id: &str| emails.get(ctx.resolve(id)).cloned();
    let mut updates = Vec::new();
    for (id, patch) in on_update.into_iter().flatten() {
        let wrong = || MethodError::invalid("onSuccessUpdateEmail must contain objects");
        let patch = patch.as_object().ok_or_else(wrong)?;
        updates.extend(email_of(ctx, id).map(|email| (email, patch)));
    }
    let destroy = on_destroy.into_iter().filter_map(|id| email_of(ctx, id));
    let destroy: Vec<String> = destroy.collect();
    if !updates.is_empty() || !destroy.is_empty() {
        email::apply_implied(ctx, &updates, &destroy)?;
    }
    Ok(response)
}

/// Sends an email. Returns the submission, and the properties that the server has set.
fn create<H: Capabilities>(
    ctx: &mut Context<'_, H>,
    object: &Object,
) -> Result<(Submission, Value), SetError> {
    let known = ["identityId", "emailId", "envelope"];
    if let Some(name) = object.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(SetError::invalid(&[name], "The property cannot be set"));
    }
    let text = |name: &'static str| {
        let text = object.get(name).and_then(Value::as_str);
        text.ok_or_else(|| SetError::invalid(&[name], "It must be an id"))
    };
    let (identity_id, email_id) = (text("identityId")?, text("emailId")?);
    let addresses = identity::addresses(ctx)?;
    let mut identities = addresses.iter();
    let identity = identities.find(|address| ids::of_address(address) == identity_id);
    let no_identity = || SetError::invalid(&["identityId"], "The identity does not exist");
    let identity = identity.ok_or_else(no_identity)?;
    let no_email = || SetError::invalid(&["emailId"], "The email does not exist");
    let uid = ids::number(ctx.resolve(email_id)).ok_or_else(no_email)?;
    let facts = email::facts(ctx, &[uid])?
        .remove(&uid)
        .ok_or_else(no_email)?;
    let raw = ctx.host.get_raw_message(uid)?;
    let message = email::load(&raw.content, false)?;
    let (author, header_recipients) = email::recipients(&message);
    if author.is_none() {
        return Err(DraftError::Unfinished("from".into()).into());
    }
    let given = object
        .get("envelope")
        .filter(|envelope| !envelope.is_null());
    let envelope = match given {
        Some(envelope) => read_envelope(envelope)?,
        None => Envelope {
            from: identity.clone(),
            recipients: header_recipients,
            send_at: None,
        },
    };
    check_recipients(&envelope.recipients)?;
    let request = Request {
        uid,
        from: Some(envelope.from.clone()),
        recipients: envelope.recipients.clone(),
        send_at: envelope.send_at,
    };
    let sent = ctx.host.submit_message(&request).map_err(send_error)?;
    let address = |email: &String| json!({ "email": email, "parameters": null });
    let described = given.cloned().unwrap_or_else(|| {
        let recipients: Value = envelope.recipients.iter().map(address).collect();
        json!({ "mailFrom": address(&envelope.from), "rcptTo": recipients })
    });
    let submission = Submission {
        number: 0,
        identity: identity_id.into(),
        email: uid.to_string(),
        thread: facts.thread_id,
        envelope: described,
        send_at: sent.send_at.unwrap_or_else(now),
        entry: sent.entry,
    };
    // The message was sent, also if the submission cannot be stored or its entry cannot be read.
    let submission = submission::add(ctx, submission.clone()).unwrap_or(submission);
    let status = submission.undo_status(ctx).unwrap_or("pending");
    let mut response = submission.with_status(status);
    response.retain(|name, value| object.get(name) != Some(&*value));
    Ok((submission, response.into()))
}

/// Reads an envelope (RFC 8621, section 7).
fn read_envelope(envelope: &Value) -> Result<Envelope, SetError> {
    let invalid = |text: &str| SetError::invalid(&["envelope"], text);
    let address = |value: &Value| {
        let email = value.get("email").and_then(Value::as_str);
        email
            .map(ToOwned::to_owned)
            .ok_or_else(|| invalid("An address has no email"))
    };
    let from = envelope.get("mailFrom");
    let from = from.ok_or_else(|| invalid("mailFrom is missing"))?;
    let mut send_at = None;
    let parameters = from.get("parameters").and_then(Value::as_object);
    for (name, value) in parameters.into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        let time = match name.to_ascii_uppercase().as_str() {
            "HOLDFOR" => {
                let seconds = text
                    .parse::<u64>()
                    .ok()
                    .filter(|seconds| *seconds <= MAX_DELAY);
                let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
                seconds.map(|seconds| now().saturating_add(seconds * 1_000))
            }
            "HOLDUNTIL" => time::rfc3339(text),
            _ => return Err(invalid("The server does not support the parameter")),
        };
        let time = time.ok_or_else(|| invalid("The value of a parameter is invalid"))?;
        send_at = Some(time);
    }
    let recipients = envelope.get("rcptTo").and_then(Value::as_array);
    let recipients = recipients.ok_or_else(|| invalid("rcptTo must be an array"))?;
    let mut all = Vec::with_capacity(recipients.len());
    for recipient in recipients {
        let parameters = recipient.get("parameters").and_then(Value::as_object);
        if parameters.is_some_and(|parameters| !parameters.is_empty()) {
            return Err(invalid(
                "The server does not support parameters of recipients",
            ));
        }
        all.push(address(recipient)?);
    }
    Ok(Envelope {
        from: address(from)?,
        recipients: all,
        send_at,
    })
}

fn check_recipients(recipients: &[String]) -> Result<(), SetError> {
    if recipients.is_empty() {
        return Err(SetError::new("noRecipients"));
    }
    if recipients.len() > MAX_RECIPIENTS {
        let max = MAX_RECIPIENTS.into();
        return Err(SetError::new("tooManyRecipients").and("maxRecipients", max));
    }
    let is_address = |address: &&String| {
        let parts = address.rsplit_once('@');
        parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
            && !address.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    let invalid: Vec<&String> = recipients.iter().filter(|one| !is_address(one)).collect();
    if invalid.is_empty() {
        return Ok(());
    }
    Err(SetError::new("invalidRecipients").and("invalidRecipients", json!(invalid)))
}

/// Converts an error of sending to one of the standard (RFC 8621, section 7.5).
fn send_error(error: DraftError) -> SetError {
    match error {
        DraftError::Failed(Error::Denied(problem)) if problem.code != "missing_scope" => {
            SetError::with("forbiddenFrom", problem.text)
        }
        DraftError::Failed(Error::Rejected(problem)) => {
            SetError::with("forbiddenToSend", problem.text)
        }
        DraftError::Failed(Error::TooLarge(problem)) => {
            SetError::with("tooLarge", problem.text).and("maxSize", MAX_MESSAGE.into())
        }
        DraftError::Failed(Error::Invalid(problem)) => {
            SetError::with("invalidRecipients", problem.text)
        }
        error => error.into(),
    }
}

/// Cancels a submission that is pending. Returns the id of its email.
fn update<H: Capabilities>(
    ctx: &Context<'_, H>,
    id: &str,
    changes: &Object,
) -> Result<String, SetError> {
    let found = submission::find(ctx, id)?.ok_or_else(SetError::not_found)?;
    let current = submission::Submission::object(&found, ctx)?;
    for Patched {
        property,
        member,
        value,
    } in patch(changes)?
    {
        let is_cancel = property == "undoStatus" && *value == "canceled";
        if member.is_none() && current.get(property) == Some(value) {
            continue;
        }
        if member.is_some() || !is_cancel {
            return Err(SetError::invalid(
                &[property],
                "The property cannot be changed",
            ));
        }
        let entry = found.entry.as_ref();
        let entry = entry.ok_or_else(|| SetError::new("cannotUnsend"))?;
        ctx.host.cancel_entry(entry).map_err(|error| match error {
            Error::Conflict(_) | Error::NotFound => SetError::new("cannotUnsend"),
            error => error.into(),
        })?;
        submission::changed(ctx)?;
    }
    Ok(found.email)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_has_a_time_and_recipients() {
        let envelope = |parameters: Value| {
            read_envelope(&json!({
                "mailFrom": { "email": "a@b", "parameters": parameters },
                "rcptTo": [{ "email": "c@d", "parameters": null }, { "email": "e@f" }],
            }))
        };
        let read = envelope(json!({ "HOLDUNTIL": "2026-11-20T08:00:00Z" })).unwrap();
        assert_eq!(read.send_at, Some(1_795_161_600_000));
        assert_eq!(read.recipients, ["c@d", "e@f"]);
        let held = envelope(json!({ "holdfor": "60" }))
            .unwrap()
            .send_at
            .unwrap();
        assert!((now() + 50_000..=now() + 60_000).contains(&held));
        assert_eq!(envelope(Value::Null).unwrap().send_at, None);
        for wrong in [
            json!({ "SIZE": "1" }),
            json!({ "HOLDFOR": "-1" }),
            json!({ "HOLDFOR": 1 }),
        ] {
            assert!(envelope(wrong).is_err());
        }
    }

    #[test]
    fn recipients_are_checked() {
        let check = |recipients: &[&str]| {
            let recipients: Vec<String> = recipients.iter().map(|&one| one.into()).collect();
            check_recipients(&recipients)
                .err()
                .map(|error| error.kind())
        };
        assert_eq!(check(&["a@b"]), None);
        assert_eq!(check(&[]), Some("noRecipients"));
        assert_eq!(check(&["a@b", "c", "d@ e"]), Some("invalidRecipients"));
        assert_eq!(
            check(&["a@b"; MAX_RECIPIENTS + 1]),
            Some("tooManyRecipients")
        );
    }
}
