//! Both hosts show the same state.

use futures_util::future::join_all;
use latchmail_tests::{Response, SeveralHosts, append_message, imap};
use serde_json::json;

use super::{caps, limits, scheduled};

const HOSTS: &str = "SELECT base_url || ' ' || key_id || ' ' || key_ids FROM hosts ORDER BY id";

#[tokio::test]
async fn hosts_share_mailboxes_message_numbers_keys_and_rate_limits() {
    let all = SeveralHosts::start().await;
    requests_alternate(&all).await;
    hosts_announce_the_same_url_and_keys(&all).await;
    message_numbers_are_equal(&all).await;
    a_key_is_used_once(&all).await;
    scheduled::leave_once_or_are_cancelled(&all).await;
    caps::are_never_exceeded(&all).await;
    limits::are_shared(&all).await;
    an_unresponsive_database_is_unavailable(&all).await;
}

/// While the database does not respond, nothing can be changed, so clients can repeat all requests.
async fn an_unresponsive_database_is_unavailable(all: &SeveralHosts) {
    let dora = all.service.person("dora").await;
    let token = dora.token(&["mail:read"]).await;
    let [one, two] = all.hosts.each_ref().map(|host| &host.service);
    let refresh = "grant_type=refresh_token&refresh_token=x&client_id=x";
    let form = "application/x-www-form-urlencoded";
    let token = token["token"].as_str().unwrap();
    let alias = json!({ "name": "dora-shop", "domain": "first.test" });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let requests = [
        one.request("GET /api/v1/mail/folders").bearer_auth(token),
        one.request("POST /api/v1/aliases")
            .bearer_auth(&dora.access)
            .json(&alias),
        two.request("POST /auth/token")
            .header("content-type", form)
            .body(refresh),
        two.request("POST /mcp").bearer_auth(token).json(&call),
    ];
    all.postgres.pause();
    let responses = join_all(requests.map(Response::of)).await;
    all.postgres.resume();
    for response in &responses {
        let retry = response.header("retry-after");
        assert_eq!((response.status, retry), (503, Some("2")), "{response:?}");
    }
    assert_eq!(responses[2].json["error"], "temporarily_unavailable");
}

async fn requests_alternate(all: &SeveralHosts) {
    let mut names = Vec::new();
    for _ in 0..6 {
        let response = all.service.send("GET /api/health").await;
        names.push(response.header("x-host").unwrap().to_owned());
        response.succeeds(200);
    }
    assert!(
        names.iter().zip(&names[1..]).all(|(one, next)| one != next),
        "{names:?}"
    );
}

async fn hosts_announce_the_same_url_and_keys(all: &SeveralHosts) {
    let rows = all.postgres.rows(HOSTS).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0], rows[1]);
    assert!(rows[0].starts_with(&all.service.base), "{rows:?}");
}

/// Both hosts number the messages of a folder at the same time.
async fn message_numbers_are_equal(all: &SeveralHosts) {
    let ada = all.service.person("ada").await;
    let mut client = imap(&ada).await;
    for round in 0..3 {
        for number in 0..5 {
            append_message(&mut client, "INBOX", &format!("{round}-{number}")).await;
        }
        let listings = join_all(
            all.hosts
                .iter()
                .map(async |host| host.person(&ada).messages("INBOX").await),
        )
        .await;
        let numbers = listings.iter().map(|messages| {
            let pairs = messages
                .iter()
                .map(|m| (m["uid"].clone(), m["subject"].clone()));
            pairs.collect::<Vec<_>>()
        });
        let numbers: Vec<_> = numbers.collect();
        assert_eq!(numbers[0].len(), 5 * (round + 1));
        assert_eq!(numbers[0], numbers[1]);
    }
    // A message that one host moves keeps its number on the other.
    let [one, two] = all.hosts.each_ref().map(|host| host.person(&ada));
    let uid = one.uid_of("INBOX", "1-1").await;
    one.move_to(uid, "Archive").await.succeeds(200);
    assert_eq!(two.uid_of("Archive", "1-1").await, uid);
}

/// Both hosts get requests with the same key at the same time.
async fn a_key_is_used_once(all: &SeveralHosts) {
    let (bob, carol) = (
        all.service.person("bob").await,
        all.service.person("carol").await,
    );
    let body =
        json!({ "from": bob.address, "to": carol.address, "subject": "once", "text": "Hello." });
    let responses = join_all((0..8).map(async |number| {
        let host = &all.hosts[number % 2];
        let request = host.service.request("POST /api/v1/mail/send");
        let request = request
            .bearer_auth(&bob.access)
            .header("idempotency-key", "a-key");
        latchmail_tests::Response::of_json(request, &body).await
    }))
    .await;
    let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    assert!(
        statuses.contains(&200) && statuses.iter().all(|status| [200, 409].contains(status)),
        "{statuses:?}"
    );
    carol.wait_for_message("once").await;
    assert_eq!(carol.total("INBOX").await, 1);
}
