//! GET and PUT `/api/v1/mail/vacation` and `/api/v1/mail/rules`: the vacation response and the
//! rules of the mailbox.

mod model;

use latchmail_sdk::capability::{self, Caller, FilterError, FilterState, Filters};
use latchmail_sdk::time::rfc3339;
use latchmail_sdk::{Failure, Reply, Request, codes};

use self::model::{Rules, Vacation, rules, vacation};

/// Maximum number of entity tags of `If-Match` that are compared.
const MAX_TAGS: usize = 20;

/// Get the vacation response
///
/// A member of a shared mailbox needs the right `mail:read` on the whole mailbox.
#[utoipa::path(
    get,
    path = "/api/v1/mail/vacation",
    operation_id = "getVacation",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("If-None-Match" = Option<String>, Header, description = "Respond with 304 if the `ETag` is one of these")
    ),
    responses(
        (status = 200, description = "The vacation response", body = Vacation),
        (status = 304, description = "Not modified"),
        (status = 501, description = "`This mail server does not support vacation responses and rules`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_vacation(
    host: &(impl Filters + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    read(host, request, |state| {
        Reply::json(&vacation(state.vacation, state.active))
    })
}

/// Set the vacation response
///
/// Replaces the vacation response. A field that is absent becomes `null`. A sender gets at most one
/// response in seven days. The mail server does not answer mailing lists, bulk mail, automatic
/// messages, mail from the account itself, and mail that names neither the account's address nor an
/// alias that was active when the vacation response was set. Only the owner of a mailbox can set
/// the vacation response.
#[utoipa::path(
    put,
    path = "/api/v1/mail/vacation",
    operation_id = "setVacation",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("If-Match" = Option<String>, Header, description = "Change the vacation response only if its `ETag` is one of these")
    ),
    request_body = Vacation,
    responses(
        (status = 200, description = "The new vacation response", body = Vacation),
        (status = 400, description = "A text that names the invalid field, or the text of the mail server", body = latchmail_sdk::Failed),
        (status = 409, description = "The Sieve script of another mail client has a vacation response", body = latchmail_sdk::Failed),
        (status = 412, description = "`The vacation response or the rules have changed`: the header `If-Match` does not match, and nothing was changed", body = latchmail_sdk::Failed),
        (status = 501, description = "`This mail server does not support vacation responses and rules`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn set_vacation(
    host: &(impl Filters + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: Vacation = request.json()?;
    let time = |name: &str, time: Option<String>| match time.as_deref().map(rfc3339) {
        None => Ok(None),
        Some(Some(time)) => Ok(Some(time)),
        Some(None) => Err(Failure::bad_request(
            codes::INVALID_VACATION,
            format!("{name} must be a time such as 2026-11-20T08:00:00Z"),
        )),
    };
    let new = capability::Vacation {
        enabled: body.is_enabled,
        from_date: time("fromDate", body.from_date)?,
        to_date: time("toDate", body.to_date)?,
        subject: body.subject,
        text: body.text_body,
        html: body.html_body,
    };
    let state = if_match(host, request, |version| host.set_vacation(&new, version))?;
    let version = state.version.clone();
    Ok(Reply::json(&vacation(state.vacation, state.active))?.with_etag(&version))
}

/// Get the rules
///
/// A member of a shared mailbox needs the right `mail:read` on the whole mailbox.
#[utoipa::path(
    get,
    path = "/api/v1/mail/rules",
    operation_id = "getRules",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("If-None-Match" = Option<String>, Header, description = "Respond with 304 if the `ETag` is one of these")
    ),
    responses(
        (status = 200, description = "The rules", body = Rules),
        (status = 304, description = "Not modified"),
        (status = 501, description = "`This mail server does not support vacation responses and rules`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_rules(
    host: &(impl Filters + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    read(host, request, |state| {
        Reply::json(&rules(state.rules, state.active))
    })
}

/// Set the rules
///
/// Replaces all rules. The mail server applies them to mail that arrives afterwards, and then runs
/// the Sieve script that another mail client activated. Only the owner of a mailbox can set the
/// rules. The action `forward` also needs the scopes `mail:read` and `mail:send`.
#[utoipa::path(
    put,
    path = "/api/v1/mail/rules",
    operation_id = "setRules",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("If-Match" = Option<String>, Header, description = "Change the rules only if their `ETag` is one of these")
    ),
    request_body = Rules,
    responses(
        (status = 200, description = "The new rules", body = Rules),
        (status = 400, description = "A text that names the invalid field, for example a folder that does not exist; or the text of the mail server", body = latchmail_sdk::Failed),
        (status = 409, description = "`There is no Trash folder`, or the Sieve script of another mail client has a vacation response", body = latchmail_sdk::Failed),
        (status = 412, description = "`The vacation response or the rules have changed`: the header `If-Match` does not match, and nothing was changed", body = latchmail_sdk::Failed),
        (status = 501, description = "`This mail server does not support vacation responses and rules`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn set_rules(
    host: &(impl Filters + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: Rules = request.json()?;
    let new: Vec<capability::Rule> = body.rules.into_iter().map(Into::into).collect();
    let state = if_match(host, request, |version| host.set_rules(&new, version))?;
    let version = state.version.clone();
    Ok(Reply::json(&rules(state.rules, state.active))?.with_etag(&version))
}

/// Responds with the state, or with 304 if the client has the state already.
fn read(
    host: &(impl Filters + Caller),
    request: &Request,
    reply: impl FnOnce(FilterState) -> Result<Reply, Failure>,
) -> Result<Reply, Failure> {
    let state = host.get_filters().map_err(|error| failure(error, host))?;
    let version = state.version.clone();
    match request.if_none_match() {
        Some(tags) if tags.match_weakly(&version) => Ok(Reply::not_modified(&version)),
        _ => Ok(reply(state)?.with_etag(&version)),
    }
}

/// Calls `change` with the versions that `If-Match` requires, until one of them matches.
fn if_match(
    host: &impl Caller,
    request: &Request,
    change: impl Fn(Option<&str>) -> Result<FilterState, FilterError>,
) -> Result<FilterState, Failure> {
    let required = request.if_match().filter(|tags| !tags.is_any());
    let Some(required) = required else {
        return change(None).map_err(|error| failure(error, host));
    };
    for tag in required.strong().take(MAX_TAGS) {
        match change(Some(tag)) {
            Err(FilterError::VersionMismatch) => {}
            changed => return changed.map_err(|error| failure(error, host)),
        }
    }
    Err(failure(FilterError::VersionMismatch, host))
}

fn failure(error: FilterError, host: &impl Caller) -> Failure {
    match error {
        FilterError::Unsupported(text) => Failure::new(501, codes::FILTERS_UNSUPPORTED, text),
        FilterError::VersionMismatch => Failure::new(
            412,
            codes::FILTERS_CHANGED,
            "The vacation response or the rules have changed",
        ),
        FilterError::Failed(error) => Failure::of(error, (codes::NOT_FOUND, "Not found"), host),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, activate_other_script, forget_filters, json, request};
    use serde_json::{Value, json};

    use super::*;

    fn put(host: &FakeHost, body: &Value) -> Result<Reply, Failure> {
        let request = request(&[], &[], &body.to_string());
        if body.get("rules").is_some() {
            set_rules(host, &request)
        } else {
            set_vacation(host, &request)
        }
    }

    fn if_match_of(tag: &str, body: &Value) -> Request {
        let mut request = request(&[], &[], &body.to_string());
        request
            .headers
            .push(("if-match".into(), format!("\"{tag}\"")));
        request
    }

    #[test]
    fn a_vacation_response_is_returned_as_it_was_sent() {
        let host = FakeHost::new();
        let initial = json(get_vacation(&host, &Request::default()));
        let expected = json!({
            "isEnabled": false, "fromDate": null, "toDate": null, "subject": null,
            "textBody": null, "htmlBody": null, "active": false,
        });
        assert_eq!(initial, expected);
        let mut vacation = json!({
            "isEnabled": true, "fromDate": "2026-12-01T00:00:00Z",
            "toDate": "2026-12-24T12:30:00.500Z", "subject": "Away", "textBody": "I am away.",
            "htmlBody": "<p>I am away.</p>",
        });
        let stored = json(put(&host, &vacation));
        vacation["active"] = json!(true);
        assert_eq!(stored, vacation);
        assert_eq!(json(get_vacation(&host, &Request::default())), vacation);
        let disabled = json(put(&host, &json!({ "isEnabled": false })));
        assert_eq!(disabled["textBody"], Value::Null);
    }

    #[test]
    fn rules_are_returned_as_they_were_sent() {
        let host = FakeHost::new();
        host.sign_in("bob@example.test");
        host.sign_in("ada@example.test");
        let rules = json!([{
            "name": "One", "enabled": true, "match": "any",
            "conditions": [
                { "field": "header", "name": "X-A", "op": "is", "value": "1" },
                { "field": "size", "op": "over", "value": 1000 },
            ],
            "actions": [
                { "type": "move", "folder": "Archive" },
                { "type": "flag", "flag": "$Later" },
                { "type": "forward", "address": "bob@example.test" },
                { "type": "markRead" },
            ],
        }]);
        let stored = json(put(&host, &json!({ "rules": rules, "active": "x" })));
        assert_eq!(stored, json!({ "rules": rules, "active": true }));
        assert_eq!(json(get_rules(&host, &Request::default())), stored);
        let short = json!({ "rules": [{ "name": "Two", "actions": [{ "type": "stop" }] }] });
        let stored = json(put(&host, &short));
        let expected = json!({
            "name": "Two", "enabled": true, "match": "all", "conditions": [],
            "actions": [{ "type": "stop" }],
        });
        assert_eq!(stored["rules"], json!([expected]));
    }

    #[test]
    fn an_invalid_body_is_refused_with_the_name_of_the_field() {
        let host = FakeHost::new();
        let rule = |conditions: Value, actions: Value| {
            let rule = json!({ "name": "A", "conditions": conditions, "actions": actions });
            json!({ "rules": [rule] })
        };
        for (body, text) in [
            (json!({}), "isEnabled is required"),
            (json!({ "isEnabled": "yes" }), "isEnabled must be a boolean"),
            (
                json!({ "isEnabled": true, "toDate": "tomorrow" }),
                "toDate must be a time such as 2026-11-20T08:00:00Z",
            ),
            (json!({ "rules": 1 }), "rules must be an array"),
            (json!({ "rules": [["A"]] }), "rules[0] must be an object"),
            (
                json!({ "rules": [{ "name": "A" }] }),
                "rules[0].actions is required",
            ),
            (
                rule(json!([]), json!([])),
                "rules[0].actions must have 1 to 10 entries",
            ),
            (
                rule(
                    json!([{ "field": "to", "op": "is", "value": true }]),
                    json!([]),
                ),
                "rules[0].conditions[0].value must be a string or a non-negative integer",
            ),
            (
                rule(json!([]), json!([{ "type": "move" }])),
                "rules[0].actions[0].folder is required",
            ),
            (
                rule(json!([]), json!([{ "type": "move", "folder": "None" }])),
                "rules[0].actions[0].folder is not an existing folder",
            ),
        ] {
            let refused = put(&host, &body).unwrap_err();
            assert_eq!((refused.status, &*refused.text), (400, text), "{body}");
        }
    }

    #[test]
    fn a_change_can_depend_on_the_entity_tag() {
        let host = FakeHost::new();
        let reply = get_rules(&host, &Request::default()).unwrap();
        let tag = reply
            .headers
            .iter()
            .find(|(name, _)| name == "etag")
            .unwrap();
        let tag = tag.1.trim_matches('"').to_owned();
        let body = json!({ "rules": [] });
        let changed = set_rules(&host, &if_match_of(&tag, &body)).unwrap();
        assert_eq!(changed.status, 200);
        let refused = set_rules(&host, &if_match_of(&tag, &body)).unwrap_err();
        assert_eq!(refused.status, 412);
        assert_eq!(
            set_rules(&host, &if_match_of("*\", \"x", &body))
                .unwrap_err()
                .status,
            412
        );
        let mut request = Request::default();
        let current = changed
            .headers
            .iter()
            .find(|(name, _)| name == "etag")
            .unwrap();
        request
            .headers
            .push(("if-none-match".into(), current.1.clone()));
        assert_eq!(get_vacation(&host, &request).unwrap().status, 304);
    }

    #[test]
    fn another_script_and_a_server_without_scripts_are_reported() {
        let host = FakeHost::new();
        put(&host, &json!({ "isEnabled": true })).unwrap();
        activate_other_script(&host);
        let vacation = json(get_vacation(&host, &Request::default()));
        assert_eq!(
            (&vacation["isEnabled"], &vacation["active"]),
            (&json!(true), &json!(false))
        );
        forget_filters(&host);
        let unsupported = get_rules(&host, &Request::default()).unwrap_err();
        assert_eq!(unsupported.status, 501);
    }
}
