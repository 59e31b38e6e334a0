//! Guessed passwords and user codes.

use latchmail_tests::{Client, PASSWORD, Setup};
use serde_json::json;

#[tokio::test]
async fn the_sign_in_page_has_the_same_limit_of_password_attempts_as_the_api() {
    let service = Setup::default()
        .with_mail()
        .with_default_limits()
        .start()
        .await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent.login_page(&[]).await;
    let mut statuses = Vec::new();
    for _ in 0..7 {
        let tried = agent.sign_in(&page, &ada.address, "Wrong-Horse-7").await;
        statuses.push(tried.response.status);
        if tried.response.status == 429 {
            assert!(tried.response.header("retry-after").is_some());
            assert!(tried.text.contains("Too many requests"), "{}", tried.text);
        }
    }
    assert_eq!(statuses[..4], [403; 4], "{statuses:?}");
    assert_eq!(statuses[5..], [429; 2], "{statuses:?}");
    // It counts towards the limit of the address on all routes.
    let body = json!({ "email": ada.address, "password": PASSWORD });
    let api = service.post("/api/v1/auth/login", &body).await;
    assert_eq!(api.status, 429);
}

#[tokio::test]
async fn user_codes_have_the_same_limit_of_attempts_as_passwords() {
    let service = Setup::default()
        .with_mail()
        .with_default_limits()
        .start()
        .await;
    let agent = Client::register(&service).await;
    let page = agent.load_page("/device", &[]).await;
    let mut statuses = Vec::new();
    for n in 0..7 {
        let code = format!("BCDF-GHJ{}", ["K", "L", "M", "N", "P", "Q", "R"][n]);
        let tried = agent
            .submit("/device", &page, &[("user_code", &code)])
            .await;
        statuses.push(tried.response.status);
    }
    assert_eq!(statuses[..5], [403; 5], "{statuses:?}");
    assert_eq!(statuses[5..], [429; 2], "{statuses:?}");
}
