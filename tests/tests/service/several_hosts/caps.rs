//! Two hosts send for one token with a cap.

use futures_util::future::join_all;
use latchmail_tests::{Response, SeveralHosts};
use serde_json::json;

use crate::mail::send::{SEND, mail, with};

const SENDS: usize = 50;
const CAP: usize = 12;

/// Concurrent requests to two hosts never exceed the cap of a policy.
pub(super) async fn are_never_exceeded(all: &SeveralHosts) {
    let (una, uli) = (
        all.service.person("una").await,
        all.service.person("uli").await,
    );
    let token = una.token(&["mail:send"]).await;
    let id = token["id"].as_str().unwrap();
    let line = format!("PUT /api/v1/profile/grants/{id}/policy");
    let policy = json!({ "sendPerDay": CAP });
    una.send_json(&line, &policy).await.succeeds(200);
    let secret = token["token"].as_str().unwrap();
    let sends = (0..SENDS).map(async |number| {
        let message = with(mail(&format!("cap {number}")), "from", una.address.as_str());
        let message = with(message, "to", uli.address.as_str());
        let host = &all.hosts[number % all.hosts.len()].service;
        let request = host.request(&format!("POST {SEND}")).bearer_auth(secret);
        Response::of_json(request, &message).await
    });
    let responses = join_all(sends).await;
    let count = |status: u16| {
        let all = responses.iter();
        all.filter(|response| response.status == status).count()
    };
    assert_eq!((count(200), count(403)), (CAP, SENDS - CAP));
    let denied = responses.iter().find(|response| response.status == 403);
    assert_eq!(denied.unwrap().json["code"], "policy_denied");
}
