//! Consent to a version that can do more than the version before.

use latchmail_tests::Service;
use serde_json::json;

use super::{
    NEW_MODULES, administrator, body, install, variant_that, variant_with_version, version,
};

#[tokio::test]
async fn a_version_with_more_permissions_needs_consent() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_that("session", "1.0.0")], false)
        .await
        .succeeds(201);
    for (component, mention) in [
        (variant_that("more", "2.0.0"), "GET /variant/more"),
        (
            variant_with_version("2.0.0"),
            "to any client; the previous version opened it to web sessions",
        ),
    ] {
        let components = [component];
        install(&admin, &components, false)
            .await
            .fails_mentioning(409, mention);
        let inspected = admin
            .post("/api/v1/admin/modules/inspect", &body(&components, false))
            .await
            .succeeds(200);
        let needs = inspected["modules"][0]["needs"].to_string();
        assert!(needs.contains(mention), "{needs}");
        assert_eq!(inspected["modules"][0]["problems"], json!([]));
        assert_eq!(version(&service).await.status, 401);
    }
    install(&admin, &[variant_that("more", "2.0.0")], true)
        .await
        .succeeds(201);
    service.send("GET /variant/more").await.succeeds(200);
    // A version that may do less needs no consent.
    install(&admin, &[variant_that("session", "3.0.0")], false)
        .await
        .succeeds(201);
    assert_eq!(version(&service).await.status, 401);
}

#[tokio::test]
async fn a_version_for_a_disabled_module_is_compared_with_the_last_installed_one() {
    let mut service = Service::with_mail_and(NEW_MODULES).await;
    service.install(&[variant_that("session", "1.0.0")]).await;
    service
        .operator("module disable variant", "")
        .await
        .succeeds();
    // After the restart, the service reads the state from the database.
    service.restart().await;
    let admin = administrator(&service).await;
    let weaker = install(&admin, &[variant_with_version("2.0.0")], false).await;
    weaker.fails_mentioning(409, "it does not serve at present and would start to serve");
    weaker.fails_mentioning(
        409,
        "to any client; the previous version opened it to web sessions",
    );
    let more = install(&admin, &[variant_that("more", "2.0.0")], false).await;
    more.fails_mentioning(409, "GET /variant/more");
    let same = install(&admin, &[variant_that("session", "3.0.0")], false).await;
    let output = same.json["error"].as_str().unwrap();
    assert!(!output.contains("route"), "{output}");
    version(&service).await.fails(404, "There is no such route");
}
