//! The operator's commands for tokens, and requests with invalid tokens.

use std::time::Duration;

use latchmail_tests::Setup;
use serde_json::Value;

use super::{LISTEN, Program, service};

const ACCOUNTS: &str = "GET /admin/api/v1/accounts";

#[tokio::test]
async fn a_token_is_listed_audited_and_ends_when_it_is_deleted() {
    let service = service().await;
    let program = Program::new(&service, "terraform", "accounts:read").await;
    program.send(ACCOUNTS).await.succeeds(200);
    let again = service.operator("operator-token create terraform --scopes scim", "");
    again.await.fails_mentioning("exists already");
    let unknown = "operator-token create other --scopes mail:read";
    assert_ne!(service.operator(unknown, "").await.status, 0);
    let listed = service.operator("operator-token list --json", "").await;
    let listed: Value = serde_json::from_str(&listed.succeeds()).unwrap();
    assert_eq!(listed["name"], "terraform");
    assert_eq!(listed["scopes"], serde_json::json!(["accounts:read"]));
    assert!(listed["lastUsedAt"].is_string() && listed.get("token").is_none());
    for line in service.dump().await {
        assert!(!line.contains(&program.token), "{line}");
    }
    let deleted = service.operator("operator-token delete terraform", "");
    deleted.await.succeeds();
    program
        .send(ACCOUNTS)
        .await
        .fails(401, "Invalid operator token");
    let audit = service.operator("audit --json", "").await.succeeds();
    for kind in ["operator_token_created", "operator_token_deleted"] {
        assert!(audit.contains(kind), "{audit}");
    }
}

#[tokio::test]
async fn an_expired_token_and_a_forged_token_are_refused() {
    let service = service().await;
    let mut program = Program::new(&service, "a", "accounts:read --expires-in 1h").await;
    service.clock.advance(Duration::from_mins(30));
    program.send(ACCOUNTS).await.succeeds(200);
    service.clock.advance(Duration::from_hours(24));
    let refused = program.send(ACCOUNTS).await;
    refused.fails(401, "This operator token has expired");
    for token in ["lmo_short", &format!("lmo_{}", "a".repeat(43))] {
        token.clone_into(&mut program.token);
        let refused = program.send(ACCOUNTS).await;
        refused.fails(401, "Invalid operator token");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
}

#[tokio::test]
async fn requests_of_a_token_are_limited() {
    let settings = format!("{LISTEN}\nlimits.provisioning = 3");
    let service = Setup::default()
        .with(&settings)
        .with_default_limits()
        .start()
        .await;
    let one = Program::new(&service, "one", "accounts:read").await;
    let other = Program::new(&service, "other", "accounts:read").await;
    for _ in 0..3 {
        one.send(ACCOUNTS).await.succeeds(200);
    }
    let limited = one.send(ACCOUNTS).await;
    assert_eq!(limited.status, 429);
    assert!(limited.header("retry-after").is_some());
    other.send(ACCOUNTS).await.succeeds(200);
}
