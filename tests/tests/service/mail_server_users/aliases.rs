//! Aliases on a domain whose users the mail server has.

use std::path::PathBuf;

use latchmail_tests::Person;
use serde_json::json;

use super::*;

const ALIASES: &str = "/api/v1/aliases";

#[tokio::test]
async fn an_alias_must_not_divert_the_mail_of_a_user() {
    let mut service = start().await;
    let alias = |name: &str| json!({ "name": name, "domain": "first.test" });
    let access = {
        let alice = Person::sign_in(&service, ALICE, SECRET).await;
        alice.post(ALIASES, &alias("shop")).await.succeeds(201);
        // The address of a user who never signed in.
        alice
            .post(ALIASES, &alias("bob"))
            .await
            .fails_mentioning(400, "bob@first.test is already taken");
        let line = "GET /api/v1/aliases/check?name=bob&domain=first.test";
        let check = alice.send(line).await.succeeds(200);
        assert_eq!(check["available"], false);
        alice.access
    };
    // A user whose address is an alias cannot sign in, until the operator decides who has the
    // address.
    let users = service.mail_users();
    users.set("shop@first.test", "Shop-Pass-1");
    users.applied().await;
    sign_in(&service, "shop@first.test", "Shop-Pass-1")
        .await
        .fails(401, INVALID);
    let events = events(&service, "shop@first.test").await;
    assert!(
        events.contains("the address is an alias or reserved"),
        "{events}"
    );

    let create = async |service: &Service| {
        let request = service.request(&format!("POST {ALIASES}"));
        Response::of_json(request.bearer_auth(&access), &alias("other")).await
    };
    service.stack().stop_imap().await.unwrap();
    create(&service).await.fails_mentioning(503, "Mail server");
    service.stack().start_imap().await.unwrap();
    service
        .restart_with(|config| config.sign_in.mailserver.lookup_socket = PathBuf::new())
        .await;
    create(&service).await.fails(
        403,
        "Aliases on this domain are managed by the mail server's administrator",
    );
}
