//! A credential that ends on one host ends on the other host too.

use std::time::Duration;

use latchmail_tests::process::connections_to;
use latchmail_tests::{Host, PASSWORD, Person, SeveralHosts, imap};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const FOLDERS: &str = "GET /api/v1/mail/folders";
const SESSION_ENDED: &str = "Mail session expired, please log in again";
/// The maximum time until a host has closed the connections of a credential that ended on the other
/// host.
const CLOSING: Duration = Duration::from_secs(5);

/// All checks use one start of the hosts, because it takes longer than the checks. Each has
/// accounts of its own.
#[tokio::test]
async fn what_ends_on_one_host_ends_on_the_other_with_its_next_request() {
    let all = SeveralHosts::start().await;
    tokio::join!(
        a_revoked_token(&all),
        a_password_change(&all),
        a_sign_out(&all),
        a_disabled_account(&all),
        a_removed_grant(&all),
    );
    // Afterwards, because these checks count connections, and the last one loses all notifications.
    end_all_sessions(&all).await;
    no_connections(&all).await;
    pooled_connections(&all, "eve").await;
    all.postgres
        .execute("DROP TRIGGER notify_hosts ON host_events")
        .await;
    pooled_connections(&all, "fred").await;
}

async fn a_revoked_token(all: &SeveralHosts) {
    let [one, two] = &all.hosts;
    let ada = all.service.person("ada").await;
    for (here, there) in [(one, two), (two, one)] {
        let token = ada.token(&["mail:read"]).await;
        let (id, secret) = (text(&token, "id"), text(&token, "token"));
        for host in &all.hosts {
            let folders = host.service.with_bearer(FOLDERS, secret).await;
            folders.succeeds(200);
        }
        let line = format!("DELETE /api/v1/tokens/{id}");
        here.person(&ada).send(&line).await.succeeds(200);
        let refused = there.service.with_bearer(FOLDERS, secret).await;
        refused.fails(401, "This API token has been revoked");
    }
}

async fn a_password_change(all: &SeveralHosts) {
    let [one, two] = &all.hosts;
    let bob = all.service.person("bob").await;
    let other = two.person(&bob.sign_in_again().await);
    other.send(FOLDERS).await.succeeds(200);
    let change = json!({ "current_password": PASSWORD, "new_password": "Other-Horse-8" });
    let here = one.person(&bob);
    let changed = here.post("/api/v1/profile/password", &change).await;
    changed.succeeds(200);
    other.send(FOLDERS).await.fails(401, SESSION_ENDED);
    two.person(&bob).send(FOLDERS).await.succeeds(200);
    let sign_in = json!({ "email": bob.address, "password": PASSWORD });
    let refused = two.service.post("/api/v1/auth/login", &sign_in).await;
    assert_eq!(refused.status, 401, "{refused:?}");
    Person::sign_in(&two.service, &bob.address, "Other-Horse-8").await;
}

async fn a_sign_out(all: &SeveralHosts) {
    let [one, two] = &all.hosts;
    let carol = all.service.person("carol").await;
    for host in &all.hosts {
        host.person(&carol).send(FOLDERS).await.succeeds(200);
    }
    sign_out(one, &carol).await;
    let there = two.person(&carol);
    there.send(FOLDERS).await.fails(401, SESSION_ENDED);
    let body = json!({ "refreshToken": carol.refresh });
    let refused = two.service.post("/api/v1/auth/refresh", &body).await;
    assert_eq!(refused.status, 401, "{refused:?}");
}

async fn a_disabled_account(all: &SeveralHosts) {
    let dave = all.service.person("dave").await;
    let token = dave.token(&["mail:read"]).await;
    for host in &all.hosts {
        let folders = host.service.with_bearer(FOLDERS, text(&token, "token"));
        folders.await.succeeds(200);
        host.person(&dave).send(FOLDERS).await.succeeds(200);
    }
    // The command runs on a machine without a host, so it cannot tell the hosts.
    let verb = format!("account disable {}", dave.address);
    all.service.operator(&verb, "").await.succeeds();
    for host in &all.hosts {
        let refused = host.service.with_bearer(FOLDERS, text(&token, "token"));
        assert_eq!(refused.await.status, 401);
        assert_eq!(host.person(&dave).send(FOLDERS).await.status, 401);
    }
}

async fn a_removed_grant(all: &SeveralHosts) {
    let [one, two] = &all.hosts;
    let (owner, member) = (
        all.service.person("grace").await,
        all.service.person("heidi").await,
    );
    let teams = owner.send("GET /api/v1/teams").await.succeeds(200);
    let team = text(&teams["teams"][0], "id");
    let invitation = json!({
        "username": "heidi", "password": PASSWORD,
        "resource_kind": "mailbox", "resource_id": null, "resource_label": null, "rights": ["mail:read"],
    });
    let path = format!("/api/v1/teams/{team}/invitations");
    let invited = owner.post(&path, &invitation).await.succeeds(201);
    let shared = format!("{FOLDERS}?mailbox={team}");
    for host in &all.hosts {
        host.person(&member).send(&shared).await.succeeds(200);
    }
    let line = format!(
        "DELETE /api/v1/teams/{team}/grants/{}",
        text(&invited, "grantId")
    );
    one.person(&owner).send(&line).await.succeeds(200);
    let refused = two.person(&member).send(&shared).await;
    refused.fails(404, "Mailbox not found");
}

/// The mail server does not end the connections here, because the credentials end in the database
/// only, as with an operator's command that cannot reach the mail server.
async fn pooled_connections(all: &SeveralHosts, name: &str) {
    let person = all.service.person(name).await;
    let sessions = [person.sign_in_again().await, person.sign_in_again().await];
    for session in &sessions {
        for host in &all.hosts {
            host.person(session).send(FOLDERS).await.succeeds(200);
        }
    }
    assert_eq!(connections(all), [2, 2]);
    // Another connection of the same account, to see that it stays open.
    let mut client = imap(&person).await;
    end_all_sessions(all).await;
    let since = Instant::now();
    no_connections(all).await;
    println!(
        "the hosts closed the connections of {name} after {:?}",
        since.elapsed()
    );
    client.noop().await.unwrap();
}

/// Ends the sessions of all accounts and the access of teams, in the database only.
async fn end_all_sessions(all: &SeveralHosts) {
    let sessions = "DELETE FROM app_passwords WHERE kind IN ('web_session', 'team_key')";
    all.postgres.execute(sessions).await;
}

/// Waits until the hosts have closed all IMAP connections.
async fn no_connections(all: &SeveralHosts) {
    let since = Instant::now();
    while connections(all) != [0, 0] {
        let elapsed = since.elapsed();
        assert!(elapsed < CLOSING, "{:?}", connections(all));
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the number of IMAP connections of each host.
fn connections(all: &SeveralHosts) -> Vec<usize> {
    let imap = all.service.mail().imap;
    let hosts = all.hosts.iter();
    hosts
        .map(|host| connections_to(host.process.pid(), imap))
        .collect()
}

async fn sign_out(host: &Host, person: &Person<'_>) {
    let body = json!({ "refreshToken": person.refresh });
    let here = host.person(person);
    let done = here.post("/api/v1/auth/logout", &body).await;
    done.succeeds(200);
}

#[track_caller]
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}
