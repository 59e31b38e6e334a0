//! Identities and submissions.

use latchmail_sdk::testing::Service;
use serde_json::{Value, json};

use super::client::{ACCOUNT, call, calls, create, error, mailbox, service};

/// Creates a draft. Returns its id.
fn draft(service: &Service) -> String {
    let email = json!({
        "mailboxIds": { mailbox(service, "drafts"): true },
        "keywords": { "$draft": true },
        "from": [{ "email": "ada@example.test" }],
        "to": [{ "email": "bo@example.test" }],
        "bcc": [{ "email": "cy@example.test" }],
        "subject": "Tea",
        "bodyValues": { "t": { "value": "Hello" } },
        "textBody": [{ "partId": "t" }],
    });
    let created = create(service, email);
    created["created"]["e"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_email_is_sent_and_then_moved() {
    let service = service();
    let (email, sent) = (draft(&service), mailbox(&service, "sent"));
    let args = json!({
        "accountId": ACCOUNT,
        "create": { "s": { "identityId": ACCOUNT, "emailId": email } },
        "onSuccessUpdateEmail": {
            "#s": { "mailboxIds": { sent.as_str(): true }, "keywords/$draft": null },
        },
    });
    let responses = calls(&service, json!([["EmailSubmission/set", args, "c"]]));
    let created = &responses[0][1]["created"]["s"];
    assert_eq!(created["undoStatus"], "final");
    assert_eq!(
        (&responses[1][0], &responses[1][2]),
        (&json!("Email/set"), &json!("c"))
    );
    assert_eq!(responses[1][1]["updated"], json!({ email.as_str(): null }));
    let found = call(
        &service,
        "Email/get",
        json!({ "ids": [email], "properties": ["mailboxIds", "keywords"] }),
    );
    assert_eq!(found["list"][0]["mailboxIds"], json!({ sent: true }));
    assert_eq!(found["list"][0]["keywords"], json!({}));
    let delivered = service.host.sent();
    let to: Vec<_> = delivered[0].draft.to.iter().map(|to| &to.address).collect();
    assert_eq!(to, ["bo@example.test", "cy@example.test"]);

    let all = call(&service, "EmailSubmission/get", json!({}));
    assert_eq!(all["list"][0]["id"], created["id"]);
    let filter = json!({ "filter": { "emailIds": [email] } });
    let found = call(&service, "EmailSubmission/query", filter);
    assert_eq!(found["ids"], json!([created["id"]]));
    let since = json!({ "sinceState": all["state"] });
    let changes = call(&service, "EmailSubmission/changes", since);
    assert_eq!(changes["created"], json!([]));
}

#[test]
fn a_submission_that_waits_can_be_cancelled() {
    let service = service();
    let email = draft(&service);
    let envelope = json!({
        "mailFrom": { "email": "ada@example.test", "parameters": { "HOLDUNTIL": "2026-11-20T12:00:00Z" } },
        "rcptTo": [{ "email": "bo@example.test" }],
    });
    let submission = json!({ "identityId": ACCOUNT, "emailId": email, "envelope": envelope });
    let args = json!({ "create": { "s": submission } });
    let created = call(&service, "EmailSubmission/set", args)["created"]["s"].take();
    assert_eq!(created["undoStatus"], "pending");
    let id = created["id"].as_str().unwrap();
    let cancel = || {
        let update = json!({ id: { "undoStatus": "canceled" } });
        call(&service, "EmailSubmission/set", json!({ "update": update }))
    };
    assert_eq!(cancel()["updated"], json!({ id: null }));
    let found = call(&service, "EmailSubmission/get", json!({ "ids": [id] }));
    assert_eq!(found["list"][0]["undoStatus"], "canceled");
    let destroy = json!({ "destroy": [id, "S99"] });
    let destroyed = call(&service, "EmailSubmission/set", destroy);
    assert_eq!(destroyed["destroyed"], json!([id]));
    assert_eq!(destroyed["notDestroyed"]["S99"]["type"], "notFound");
    assert_eq!(cancel()["notUpdated"][id]["type"], "notFound");
}

#[test]
fn an_email_that_cannot_be_sent_is_not_changed() {
    let service = service();
    let email = draft(&service);
    let envelope = |from: &str, to: Value| json!({ "mailFrom": { "email": from }, "rcptTo": to });
    let own = "ada@example.test";
    for (name, value, kind) in [
        ("identityId", json!("Ax"), "invalidProperties"),
        ("emailId", json!("99"), "invalidProperties"),
        ("envelope", envelope(own, json!([])), "noRecipients"),
        (
            "envelope",
            envelope(own, json!([{ "email": "x" }])),
            "invalidRecipients",
        ),
        (
            "envelope",
            envelope("eve@example.test", json!([{ "email": "bo@example.test" }])),
            "forbiddenFrom",
        ),
        ("sendAt", json!("2026-01-01T00:00:00Z"), "invalidProperties"),
    ] {
        let mut submission = json!({ "identityId": ACCOUNT, "emailId": email });
        submission[name] = value;
        let args = json!({
            "accountId": ACCOUNT,
            "create": { "s": submission },
            "onSuccessDestroyEmail": ["#s"],
        });
        let responses = calls(&service, json!([["EmailSubmission/set", args, "c"]]));
        assert_eq!(responses.len(), 1);
        let error = &responses[0][1]["notCreated"]["s"];
        assert_eq!(error["type"], kind, "{submission}");
    }
    assert!(service.host.sent().is_empty());
}

#[test]
fn identities_are_the_addresses_of_the_account() {
    let service = service();
    let found = call(&service, "Identity/get", json!({}));
    assert_eq!(found["list"][0]["email"], "ada@example.test");
    assert_eq!(found["list"][0]["mayDelete"], false);
    let args = json!({ "create": { "i": { "email": "x@example.test" } }, "destroy": [ACCOUNT] });
    let response = call(&service, "Identity/set", args);
    assert_eq!(response["notCreated"]["i"]["type"], "forbidden");
    assert_eq!(response["notDestroyed"][ACCOUNT]["type"], "forbidden");
    let changes = json!({ "sinceState": found["state"] });
    call(&service, "Identity/changes", changes);
    let kind = error(&service, "Identity/changes", json!({ "sinceState": "x" }));
    assert_eq!(kind, "cannotCalculateChanges");
}
