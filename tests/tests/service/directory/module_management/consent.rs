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
    // A version that may do less needs consent only to the replacement.
    let less = [variant_that("session", "3.0.0")];
    let refused = install(&admin, &less, false).await;
    refused.fails_mentioning(409, "module `variant`: it replaces version 2.0.0 (");
    assert!(!refused.json["error"].to_string().contains("route"));
    install(&admin, &less, true).await.succeeds(201);
    assert_eq!(version(&service).await.status, 401);
    // The same version replaces nothing.
    install(&admin, &less, false).await.succeeds(201);
}

#[tokio::test]
async fn a_component_cannot_replace_another_module_without_a_question() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    let listed = admin.send("GET /api/v1/admin/modules/aliases").await;
    let digest = listed.succeeds(200)["digest"].clone();
    // The operator installs a file that is named like a new module.
    let file = service.state.join("notes.wasm");
    let mut component = std::fs::read(latchmail_tests::modules().join("latchmail_aliases.wasm"));
    let component = component.as_mut().unwrap();
    // An empty custom section changes the digest.
    component.extend([0, 2, 1, b'x']);
    std::fs::write(&file, &*component).unwrap();
    let install = format!("module install {}", file.display());
    let refused = service.operator(&install, "").await;
    refused.fails_mentioning("module `aliases`: it replaces version");
    let listed = admin.send("GET /api/v1/admin/modules/aliases").await;
    assert_eq!(listed.succeeds(200)["digest"], digest);
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
    weaker.fails_mentioning(409, "it is not serving, and would start to serve");
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
