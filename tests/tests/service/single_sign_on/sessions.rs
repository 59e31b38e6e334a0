//! The supervision of sessions: their maximum age, and the refresh token of the provider.

use std::time::Duration;

use super::*;

async fn recheck(service: &Service) {
    let auth = &service.app().auth;
    auth.single_sign_on
        .recheck_provider_sessions()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_session_ends_if_the_provider_no_longer_accepts_the_person() {
    let (provider, service) = start().await;
    let ada = sign_in(&service, "ada").await;
    let bob = sign_in(&service, "bob").await;
    for _ in 0..2 {
        // The provider issues a new token for each use, and accepts each token once.
        service.clock.advance(Duration::from_mins(16));
        recheck(&service).await;
    }
    let ada = ada.refreshed().await;
    ada.send(FOLDERS).await.succeeds(200);
    provider.end_grants("ada").await;
    recheck(&service).await;
    ada.send(FOLDERS).await.succeeds(200);
    service.clock.advance(Duration::from_mins(14));
    recheck(&service).await;
    ada.send(FOLDERS).await.succeeds(200);
    service.clock.advance(Duration::from_mins(2));
    recheck(&service).await;
    let refresh = json!({ "refreshToken": ada.refresh });
    let ended = service.post("/api/v1/auth/refresh", &refresh).await;
    assert_eq!(ended.status, 401);
    let recorded = events(&service, ADA).await;
    let reason = "the identity provider refused to refresh the sign-in; web sessions ended: 1";
    assert!(recorded.contains(reason), "{recorded}");
    let refresh = json!({ "refreshToken": bob.refresh });
    let continues = service.post("/api/v1/auth/refresh", &refresh).await;
    continues.succeeds(200);

    // A provider that cannot be reached ends no session.
    provider.stop().await;
    service.clock.advance(Duration::from_hours(1));
    recheck(&service).await;
    assert_eq!(
        events(&service, BOB)
            .await
            .matches("web sessions ended")
            .count(),
        0
    );
}

#[tokio::test]
async fn a_session_has_a_maximum_age() {
    let (provider, service) = start_with("sign_in.oidc.max_session_age = 3600").await;
    let ada = sign_in(&service, "ada").await;
    let refresh = async |token: &str| {
        let body = json!({ "refreshToken": token });
        service.post("/api/v1/auth/refresh", &body).await
    };
    service.clock.advance(Duration::from_mins(59));
    let ada = ada.refreshed().await;
    ada.send(FOLDERS).await.succeeds(200);
    service.clock.advance(Duration::from_mins(1));
    assert_eq!(ada.send(FOLDERS).await.status, 401);
    assert_eq!(refresh(&ada.refresh).await.status, 401);
    drop(provider);
    recheck(&service).await;
    let recorded = events(&service, ADA).await;
    assert!(
        recorded.contains("maximum age; web sessions ended: 1"),
        "{recorded}"
    );
}
