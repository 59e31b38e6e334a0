//! The journal of a grant: every change is recorded, and the owner undoes what nobody else has
//! changed since.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use latchmail_tests::{
    Imap, Person, Response, Service, TwoActors, imap, message_with_subject, stored_messages,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const EVERYTHING: &str = "1970-01-01T00:00:00Z";

/// Creates an API token. Returns its id and the token.
async fn grant(person: &Person<'_>) -> (String, String) {
    let scopes = [
        "mail:read",
        "mail:write",
        "mail:send",
        "aliases:read",
        "aliases:write",
    ];
    let token = person.token(&scopes).await;
    let text = |field: &str| token[field].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

async fn by_grant(service: &Service, token: &str, line: &str, body: &Value) -> Response {
    let request = service.request(line).bearer_auth(token);
    if body.is_null() {
        return Response::of(request).await;
    }
    Response::of_json(request, body).await
}

async fn journal(person: &Person<'_>, id: &str) -> Vec<Value> {
    let (mut all, mut before) = (Vec::new(), String::new());
    loop {
        let line = format!("GET /api/v1/profile/grants/{id}/journal?limit=7{before}");
        let page = person.send(&line).await.succeeds(200);
        all.extend(page["changes"].as_array().unwrap().clone());
        match page["next"].as_i64() {
            Some(next) => before = format!("&before={next}"),
            None => return all,
        }
    }
}

async fn rewind(person: &Person<'_>, id: &str, since: &str) -> Value {
    let path = format!("/api/v1/profile/grants/{id}/rewind");
    let report = person.post(&path, &json!({ "since": since })).await;
    let report = report.succeeds(200);
    assert_eq!(report["complete"], true, "{report}");
    report
}

/// Returns the bytes of the drafts, sorted.
async fn drafts(client: &mut Imap) -> Vec<Vec<u8>> {
    let stored = stored_messages(client, "Drafts").await.into_iter();
    let mut drafts: Vec<Vec<u8>> = stored.map(|message| message.bytes).collect();
    drafts.sort();
    drafts
}

fn kinds(changes: &[Value]) -> Vec<&str> {
    let kinds = changes
        .iter()
        .map(|change| change["kind"].as_str().unwrap());
    kinds.collect()
}

#[tokio::test]
async fn the_owner_reads_and_undoes_what_a_grant_did() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let (id, token) = grant(&ada).await;
    let mut client = imap(&ada).await;
    ada.receive(&message_with_subject("first").replace("\r\n", "\n"))
        .await;
    let uid = ada.uid_of("INBOX", "first").await;
    let new = json!({ "subject": "mine", "text": "as it was", "to": [bob.address] });
    for _ in 0..2 {
        let created = ada.post("/api/v1/mail/drafts", &new).await;
        created.succeeds(201);
    }
    let listed = ada.send("GET /api/v1/mail/drafts").await.succeeds(200);
    let draft = |at: usize, field: &str| {
        let text = &listed["drafts"][at][field];
        text.as_str().unwrap().to_owned()
    };
    let before = drafts(&mut client).await;

    let act = async |line: &str, body: Value| {
        let response = by_grant(&service, &token, line, &body).await;
        assert!(response.status < 300, "{line}: {response:?}");
        response.json
    };
    let request = service.request(&format!("PUT /api/v1/mail/drafts/{}", draft(0, "id")));
    let request = request
        .bearer_auth(&token)
        .header("if-match", format!("\"{}\"", draft(0, "version")));
    let replacement = json!({ "subject": "mine", "text": "changed", "to": [bob.address] });
    Response::of_json(request, &replacement).await.succeeds(200);
    let line = format!("DELETE /api/v1/mail/drafts/{}", draft(1, "id"));
    act(&line, Value::Null).await;
    act(
        "POST /api/v1/mail/drafts",
        json!({ "subject": "the agent's" }),
    )
    .await;
    let flags = json!({ "flags": ["\\Flagged", "$Label"], "action": "add" });
    act(&format!("POST /api/v1/mail/messages/{uid}/flag"), flags).await;
    act(
        &format!("POST /api/v1/mail/messages/{uid}/trash"),
        Value::Null,
    )
    .await;
    act("POST /api/v1/mail/folders", json!({ "path": "new" })).await;
    act("POST /api/v1/aliases", json!({ "domain": "first.test" })).await;
    let sent = json!({ "from": ada.address, "to": bob.address, "subject": "hi", "text": "hi" });
    act("POST /api/v1/mail/send", sent).await;

    let changes = journal(&ada, &id).await;
    let expected = [
        "send",
        "alias_create",
        "folder_create",
        "move",
        "flags",
        "draft_create",
        "draft_delete",
        "draft_update",
    ];
    assert_eq!(kinds(&changes), expected);
    assert!(changes.iter().all(|change| change["state"] == "done"));
    // Only a session of the account reads the journal.
    let line = format!("GET /api/v1/profile/grants/{id}/journal");
    service
        .with_bearer(&line, &token)
        .await
        .fails_mentioning(403, "session");
    bob.send(&line).await.fails(404, "Grant not found");
    let path = format!("/api/v1/profile/grants/{id}/rewind");
    let since = json!({ "since": "yesterday" });
    assert_eq!(ada.post(&path, &since).await.status, 400);
    let future = rewind(&ada, &id, "2200-01-01T00:00:00Z").await;
    assert_eq!(
        (&future["undone"], &future["remaining"]),
        (&json!(0), &json!([]))
    );

    // Another client of the person changes one of the two flags.
    client.select("Trash").await.unwrap();
    let stored = client.store("1", "-FLAGS ($Label)").await.unwrap();
    stored.try_collect::<Vec<_>>().await.unwrap();
    let report = rewind(&ada, &id, EVERYTHING).await;
    let conflicts = report["conflicts"].as_array().unwrap();
    assert_eq!(kinds(conflicts), ["flags"], "{report}");
    let remaining = report["remaining"].as_array().unwrap();
    let mut remaining = kinds(remaining);
    remaining.sort_unstable();
    assert_eq!(remaining, ["folder_create", "send"]);
    assert_eq!(drafts(&mut client).await, before);
    let inbox = stored_messages(&mut client, "INBOX").await;
    assert_eq!(inbox.len(), 1);
    assert!(inbox[0].flags.is_empty(), "{:?}", inbox[0].flags);
    let aliases = ada.send("GET /api/v1/aliases").await.succeeds(200);
    assert_eq!(aliases["aliases"], json!([]));
    // A second call has nothing to do.
    let again = rewind(&ada, &id, EVERYTHING).await;
    assert_eq!(again["undone"], 0, "{again}");

    // The journal stays when the grant ends.
    let line = format!("DELETE /api/v1/profile/grants/{id}");
    ada.send(&line).await.succeeds(200);
    let states = journal(&ada, &id).await;
    let undone = states.iter().filter(|change| change["state"] == "undone");
    assert_eq!(undone.count(), expected.len() - 3);
}

#[tokio::test]
async fn a_suspended_grant_changes_nothing_and_no_change_is_half_done() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let (id, token) = grant(&ada).await;
    let mut client = imap(&ada).await;
    let mut model = TwoActors::fill(&ada, &mut client, &token, (5, 60)).await;
    for _ in 0..20 {
        model.change_by_grant(&ada).await;
    }
    let uids = json!(ada.uids("INBOX").await);
    let folders = ["one", "two", "Trash", "INBOX"];
    let moves = async {
        let mut last = None;
        for to in folders.iter().cycle().take(200) {
            let body = json!({ "uids": uids, "destination": to });
            let line = "POST /api/v1/mail/messages/bulk/move";
            let response = by_grant(&service, &token, line, &body).await;
            match response.status {
                200 => last = Some((*to).to_owned()),
                403 => return last,
                _ => panic!("{response:?}"),
            }
        }
        panic!("the grant was not suspended");
    };
    let suspend = async {
        sleep(Duration::from_millis(400)).await;
        let line = format!("POST /api/v1/profile/grants/{id}/suspend");
        ada.send(&line).await.succeeds(200);
        Instant::now()
    };
    let (last, suspended) = tokio::join!(moves, suspend);
    assert!(suspended.elapsed() < Duration::from_secs(1));
    // All messages are in one folder: the last change was complete, or did not begin.
    let last = last.unwrap();
    let found = ada.uids(&last).await;
    let count = uids.as_array().unwrap().iter();
    assert!(
        count
            .clone()
            .all(|uid| found.contains(&uid.as_u64().unwrap()))
    );
}

/// Replaces the text of a draft as a grant. Returns the new version.
async fn replace_draft(
    service: &Service,
    token: &str,
    (id, version): (&str, &str),
    text: &str,
) -> String {
    let request = service.request(&format!("PUT /api/v1/mail/drafts/{id}"));
    let request = request.bearer_auth(token);
    let request = request.header("if-match", format!("\"{version}\""));
    let draft = json!({ "subject": "mine", "text": text });
    let replaced = Response::of_json(request, &draft).await.succeeds(200);
    replaced["version"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn drafts_are_undone_in_steps_and_after_a_move_to_trash() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let (id, token) = grant(&ada).await;
    let policy = json!({ "send": "drafts", "delete": "trash" });
    let line = format!("PUT /api/v1/profile/grants/{id}/policy");
    ada.send_json(&line, &policy).await.succeeds(200);
    let mut client = imap(&ada).await;
    let new = json!({ "subject": "mine", "text": "as it was" });
    let mine = ada.post("/api/v1/mail/drafts", &new).await.succeeds(201);
    let before = drafts(&mut client).await;
    let text = |value: &Value, field: &str| value[field].as_str().unwrap().to_owned();

    let (draft, version) = (text(&mine, "id"), text(&mine, "version"));
    let version = replace_draft(&service, &token, (&draft, &version), "first").await;
    let between = drafts(&mut client).await;
    // The times of the two changes differ.
    sleep(Duration::from_millis(10)).await;
    replace_draft(&service, &token, (&draft, &version), "second").await;
    let second = text(&journal(&ada, &id).await[0], "at");
    for (since, expected) in [(&*second, between), (EVERYTHING, before.clone())] {
        let report = rewind(&ada, &id, since).await;
        assert_eq!(
            (&report["undone"], &report["conflictCount"]),
            (&json!(1), &json!(0)),
            "{report}"
        );
        assert_eq!(drafts(&mut client).await, expected);
    }

    // The policy turns the deletion into a move to Trash.
    let request = service.request("POST /api/v1/mail/drafts");
    let request = request.bearer_auth(&token);
    let created = Response::of_json(request, &json!({ "subject": "the agent's" })).await;
    let line = format!(
        "DELETE /api/v1/mail/drafts/{}",
        text(&created.succeeds(201), "id")
    );
    by_grant(&service, &token, &line, &Value::Null)
        .await
        .succeeds(200);
    let changes = journal(&ada, &id).await;
    assert_eq!(kinds(&changes)[..2], ["move", "draft_create"]);
    let report = rewind(&ada, &id, EVERYTHING).await;
    assert_eq!(
        (&report["undone"], &report["conflictCount"]),
        (&json!(2), &json!(0)),
        "{report}"
    );
    assert_eq!(drafts(&mut client).await, before);
    assert!(stored_messages(&mut client, "Trash").await.is_empty());
}

/// Mixes changes of a grant and of a person, undoes those of the grant, and compares.
async fn mix(seed: u64, messages: usize, by_grant: usize, by_person: usize) {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let (id, token) = grant(&ada).await;
    let mut client = imap(&ada).await;
    let mut model = TwoActors::fill(&ada, &mut client, &token, (seed, messages)).await;
    let mut random = latchmail_tests::Random::new(seed + 1);
    let (mut grants, mut persons) = (by_grant, by_person);
    while grants + persons > 0 {
        if random.below(grants + persons) < grants {
            model.change_by_grant(&ada).await;
            grants -= 1;
        } else {
            model.change_by_person(&mut client).await;
            persons -= 1;
        }
    }
    let report = rewind(&ada, &id, EVERYTHING).await;
    model.check_rewound(&mut client).await;
    let expected = model.conflicts();
    let total: usize = expected.values().sum();
    assert_eq!(report["conflictCount"], total, "{report}");
    let listed = report["conflicts"].as_array().unwrap();
    let mut conflicts: BTreeMap<(u64, &str), usize> = BTreeMap::new();
    for change in listed {
        let kind = change["kind"].as_str().unwrap();
        let uid = change["uid"].as_u64().unwrap();
        *conflicts.entry((uid, kind)).or_default() += 1;
    }
    if listed.len() == total {
        assert_eq!(conflicts, expected);
    }
    // A second call undoes nothing and finds the same conflicts.
    let again = rewind(&ada, &id, EVERYTHING).await;
    assert_eq!(again["undone"], 0);
    model.check_rewound(&mut client).await;
}

#[tokio::test]
async fn after_the_rewind_only_the_person_has_acted() {
    for seed in 0..2 {
        mix(seed, 30, 150, 75).await;
    }
}

mod long {
    use super::*;

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn after_many_changes_only_the_person_has_acted() {
        mix(11, 400, 10_000, 5_000).await;
    }
}
