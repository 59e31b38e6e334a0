//! The provider is down at the start of the service, or later.

use latchmail_tests::provider::{settings, unused_address};
use latchmail_tests::start_error;

use super::*;

#[tokio::test]
async fn the_service_starts_without_the_provider_and_recovers() {
    let address = unused_address();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), latchmail_tests::provider::PROVIDER_SECRET).unwrap();
    let settings = settings(
        &format!("http://{address}"),
        &secret.path().display().to_string(),
    );
    let service = Setup::default().with_mail().with(&settings).start().await;
    let verb = format!("account create {ADA}");
    service.operator(&verb, "").await.succeeds();
    let browser = PersonBrowser::new();
    let down = async || {
        let response = browser.get(&start_url(&service)).await;
        let (status, text) = shown(&response);
        assert!(status == 503 && text.contains("<html"), "{status} {text}");
        assert!(
            text.contains("identity provider cannot be reached"),
            "{text}"
        );
        assert!(response.header("retry-after").is_some());
    };
    down().await;
    let finding = async || {
        let output = service.operator("doctor", "").await.stdout;
        let line = output
            .lines()
            .find(|line| line.contains(" identity-provider: "));
        line.unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!(finding().await, "warning");

    let provider = Provider::start_at(address.port()).await;
    assert_eq!(finding().await, "ok");
    provider.add_person("ada", ADA).await;
    provider.register(&service).await;
    let ada = sign_in_with(&service, &browser, "ada").await;
    let callback = browser.to_callback(&start_url(&service), "ada").await;
    provider.stop().await;
    let (status, text) = shown(&browser.get(&callback).await);
    assert!(status == 503 && text.contains("<html"), "{status} {text}");
    down().await;
    // Existing sessions continue.
    ada.send(FOLDERS).await.succeeds(200);
    let refresh = json!({ "refreshToken": ada.refresh });
    service
        .post("/api/v1/auth/refresh", &refresh)
        .await
        .succeeds(200);

    let provider = Provider::start_at(address.port()).await;
    provider.add_person("ada", ADA).await;
    provider.register(&service).await;
    browser.clear_cookies();
    sign_in_with(&service, &browser, "ada").await;
}

#[tokio::test]
async fn wrong_settings_prevent_the_start_of_the_service() {
    let source = "sign_in.source = 'oidc'\n";
    let issuer = "sign_in.oidc.issuer = 'https://id.example.org'\n";
    let client = "sign_in.oidc.client_id = 'latchmail'\n";
    for (settings, key) in [
        (source.to_owned(), "sign_in.oidc.issuer"),
        (format!("{source}{issuer}"), "sign_in.oidc.client_id"),
        (
            format!("{source}{client}sign_in.oidc.issuer = 'http://id.example.org'"),
            "sign_in.oidc.issuer",
        ),
        (
            format!("{source}{issuer}{client}sign_in.oidc.client_secret_file = '/nonexistent'"),
            "sign_in.oidc.client_secret_file",
        ),
        (
            format!("{source}{issuer}{client}sign_in.oidc.mailbox_claim = ''"),
            "sign_in.oidc.mailbox_claim",
        ),
        (
            format!("{source}{issuer}{client}sign_in.oidc.redirect_uris = ['http://a.example/']"),
            "sign_in.oidc.redirect_uris",
        ),
    ] {
        let error = start_error(&settings).await;
        assert!(error.contains(key), "{key}: {error}");
    }
}
