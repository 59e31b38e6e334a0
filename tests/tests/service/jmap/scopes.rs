//! Credentials: the same right gives the same access as in the REST API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::Response;
use serde_json::json;

use super::{Jmap, service, text};

#[tokio::test]
async fn a_token_that_reads_has_a_read_only_account() {
    let service = service().await;
    let ada = service.person("ada").await;
    Jmap::connect(&ada).await;
    let token = ada.token(&["mail:read"]).await;
    let client = Jmap::with_credential(&service, token["token"].as_str().unwrap()).await;
    let session = client.session().await;
    assert_eq!(session["accounts"][&client.account]["isReadOnly"], true);
    client.call("Mailbox/get", json!({})).await;
    for name in [
        "Email/set",
        "Mailbox/set",
        "Email/import",
        "VacationResponse/set",
    ] {
        assert_eq!(
            client.error(name, json!({})).await,
            "accountReadOnly",
            "{name}"
        );
    }
    let refused = client.error("EmailSubmission/set", json!({})).await;
    assert_eq!(refused, "forbidden");
    let id = text(&token["id"]);
    ada.send(&format!("DELETE /api/v1/tokens/{id}"))
        .await
        .succeeds(200);
    let line = "GET /jmap/session";
    assert_eq!(
        service.with_bearer(line, &client.credential).await.status,
        401
    );
}

#[tokio::test]
async fn a_token_that_sends_cannot_read() {
    let service = service().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:send"]).await;
    let client = Jmap::with_credential(&service, token["token"].as_str().unwrap()).await;
    for name in ["Email/query", "Mailbox/get", "Quota/get"] {
        assert_eq!(client.error(name, json!({})).await, "forbidden", "{name}");
    }
    let line = "GET /jmap/eventsource";
    assert_eq!(
        service.with_bearer(line, &client.credential).await.status,
        403
    );
}

#[tokio::test]
async fn mail_clients_sign_in_with_an_app_password() {
    let service = service().await;
    let ada = service.person("ada").await;
    Jmap::connect(&ada).await;
    let made = ada.app_password("phone").await;
    let password = text(&made["password"]);
    let request = |password: &str| {
        let basic = STANDARD.encode(format!("{}:{password}", ada.address));
        let request = service.request("GET /.well-known/jmap");
        request.header("authorization", format!("Basic {basic}"))
    };
    let session = Response::of(request(&password)).await.succeeds(200);
    assert_eq!(session["username"], ada.address);
    let account = session["accounts"].as_object().unwrap().keys().next();
    assert_eq!(session["accounts"][account.unwrap()]["isReadOnly"], false);
    assert_eq!(Response::of(request("wrong")).await.status, 401);
    assert_eq!(service.send("GET /.well-known/jmap").await.status, 401);
}

#[tokio::test]
async fn an_account_is_not_reached_by_the_id_of_another() {
    let service = service().await;
    let ada = service.person("ada").await;
    let grace = service.person("grace").await;
    let ada = Jmap::connect(&ada).await;
    let grace = Jmap::connect(&grace).await;
    let blob = ada.upload("text/plain", b"secret").await;
    let args = json!({ "accountId": ada.account, "ids": null });
    let responses = grace.calls(json!([["Mailbox/get", args, "c"]])).await;
    assert_eq!(responses[0][1]["type"], "accountNotFound");
    assert_eq!(grace.download(&blob, "a").await.status, 404);
    let line = format!("GET /jmap/download/{}/{blob}/a", ada.account);
    assert_eq!(
        service.with_bearer(&line, &grace.credential).await.status,
        404
    );
    assert_eq!(ada.download(&blob, "a").await.body, b"secret");
}
