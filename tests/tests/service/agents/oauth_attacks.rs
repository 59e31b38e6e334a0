//! Attacks on the authorization server (RFC 9700), as an attacker sees
//! them.

mod clients;
mod codes;
mod devices;
mod forms;
mod guesses;
mod redirects;
mod tokens;

use latchmail_tests::Service;
use serde_json::json;

const FOLDERS: &str = "GET /api/v1/mail/folders";

async fn registered(service: &Service, uris: &[&str]) -> String {
    let body = json!({ "redirect_uris": uris });
    let response = service.post("/auth/register", &body).await.succeeds(201);
    response["client_id"].as_str().unwrap().to_owned()
}
