//! Shared mailboxes: their members, grants and standing key.

mod grants;
mod invitations;
mod listing;
mod standing_key;

use latchmail_tests::{PASSWORD, Person, Response};
use serde_json::{Value, json};

const TEAMS: &str = "/api/v1/teams";
const NO_TEAM: &str = "Team not found";
const NOT_MANAGING: &str = "You may not manage the members of this mailbox";
const WRONG: &str = "Wrong password";
const OWNERS: &str = "The mailbox's owner can be neither removed nor granted anything";
const LABEL: &str = "Shared mailbox";

const EVERY_RIGHT: [&str; 6] = [
    "mail:read",
    "mail:write",
    "mail:send",
    "aliases:read",
    "aliases:write",
    "members:manage",
];

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn teams(person: &Person<'_>) -> Vec<Value> {
    let listed = person.send(&format!("GET {TEAMS}")).await.succeeds(200);
    listed["teams"].as_array().unwrap().clone()
}

/// Returns the id of a person's own team.
async fn team_of(person: &Person<'_>) -> String {
    text(&teams(person).await[0]["id"])
}

async fn members(person: &Person<'_>, team: &str) -> Response {
    person.send(&format!("GET {TEAMS}/{team}/members")).await
}

/// Returns the entry of a member in the list, as `person` sees it.
async fn member(person: &Person<'_>, team: &str, username: &str) -> Value {
    let listed = members(person, team).await.succeeds(200);
    let found = listed["members"].as_array().unwrap().iter();
    let mut found = found.filter(|member| member["username"] == username);
    found.next().unwrap().clone()
}

/// Returns an invitation to a whole mailbox.
fn invitation(username: &str, rights: &[&str]) -> Value {
    json!({ "username": username, "password": PASSWORD, "resource_kind": "mailbox", "rights": rights })
}

async fn send_invitation(person: &Person<'_>, team: &str, body: &Value) -> Response {
    person
        .post(&format!("{TEAMS}/{team}/invitations"), body)
        .await
}

async fn invite(person: &Person<'_>, team: &str, username: &str, rights: &[&str]) -> Response {
    send_invitation(person, team, &invitation(username, rights)).await
}

async fn grant(person: &Person<'_>, team: &str, member: &str, body: &Value) -> Response {
    let path = format!("{TEAMS}/{team}/members/{member}/grants");
    person.post(&path, body).await
}

async fn change(person: &Person<'_>, team: &str, grant: &str, rights: &[&str]) -> Response {
    let line = format!("PATCH {TEAMS}/{team}/grants/{grant}");
    person.send_json(&line, &json!({ "rights": rights })).await
}

async fn revoke(person: &Person<'_>, team: &str, grant: &str) -> Response {
    let line = format!("DELETE {TEAMS}/{team}/grants/{grant}");
    person.send(&line).await
}

async fn remove(person: &Person<'_>, team: &str, member: &str) -> Response {
    let line = format!("DELETE {TEAMS}/{team}/members/{member}");
    person.send(&line).await
}

/// Returns the standing keys among the credentials of an account.
async fn keys(person: &Person<'_>) -> Vec<Value> {
    let lists = person
        .send("GET /api/v1/profile/sessions")
        .await
        .succeeds(200);
    let all = lists["credentials"].as_array().unwrap().iter();
    all.filter(|one| one["label"] == LABEL).cloned().collect()
}
