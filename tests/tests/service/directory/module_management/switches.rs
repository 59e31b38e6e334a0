//! Modules that are disabled, enabled and removed.

use latchmail_tests::Service;

use super::{NEW_MODULES, administrator, assert_serves, install, variant_with_version, version};

#[tokio::test]
async fn a_module_can_be_disabled_enabled_and_removed() {
    let mut service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .succeeds(201);
    drop(admin);
    service
        .operator("module disable variant", "")
        .await
        .succeeds();
    version(&service).await.fails(404, "There is no such route");
    service.restart().await;
    version(&service).await.fails(404, "There is no such route");
    service
        .operator("module enable variant", "")
        .await
        .succeeds();
    assert_serves(&service, "1.0.0").await;
    service
        .operator("module remove variant", "")
        .await
        .succeeds();
    version(&service).await.fails(404, "There is no such route");
    service
        .operator("module show variant", "")
        .await
        .fails_mentioning("There is no module `variant`");
    service
        .operator("module remove mail", "")
        .await
        .fails_mentioning("`source`");
    for verb in ["enable", "disable", "rollback", "remove"] {
        service
            .operator(&format!("module {verb} nobody"), "")
            .await
            .fails_mentioning("There is no module `nobody`");
    }
}

#[tokio::test]
async fn a_disabled_built_in_module_stays_disabled_and_the_others_serve() {
    let mut service = Service::with_mail().await;
    service
        .operator("module disable aliases", "")
        .await
        .succeeds();
    service.restart().await;
    let ada = service.person("ada").await;
    ada.send("GET /api/v1/aliases")
        .await
        .fails(404, "There is no such route");
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    service
        .operator("module enable aliases", "")
        .await
        .succeeds();
    ada.send("GET /api/v1/aliases").await.succeeds(200);
}
