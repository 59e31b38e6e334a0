//! Rollbacks to an earlier version, by an operator or after failed requests.

use latchmail_tests::{Log, Service, wait_until};
use serde_json::{Value, json};

use super::{
    NEW_MODULES, administrator, assert_serves, install, variant_that, variant_with_version, version,
};

#[tokio::test]
async fn one_command_restores_an_earlier_version_and_the_state_survives_a_restart() {
    let mut service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    for version in ["1.0.0", "2.0.0", "3.0.0"] {
        install(&admin, &[variant_with_version(version)], true)
            .await
            .succeeds(201);
        assert_serves(&service, version).await;
    }
    service
        .operator("module rollback variant", "")
        .await
        .succeeds();
    assert_serves(&service, "2.0.0").await;
    drop(admin);
    service.restart().await;
    assert_serves(&service, "2.0.0").await;
    service
        .operator("module rollback variant", "")
        .await
        .succeeds();
    assert_serves(&service, "1.0.0").await;
    service
        .operator("module rollback variant", "")
        .await
        .fails_mentioning("`variant` has no earlier version");
    assert_serves(&service, "1.0.0").await;
    let shown = service
        .operator("module show variant --json", "")
        .await
        .succeeds();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let third = shown["versions"][0]["digest"].as_str().unwrap();
    let to = format!("module rollback variant --to {}", &third[..12]);
    service.operator(&to, "").await.succeeds();
    assert_serves(&service, "3.0.0").await;
}

#[tokio::test]
async fn one_command_replaces_a_version_that_fails_every_request() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .succeeds(201);
    install(&admin, &[variant_that("trap", "2.0.0")], true)
        .await
        .succeeds(201);
    for _ in 0..12 {
        assert_eq!(version(&service).await.status, 500);
    }
    let listed = service.operator("module list", "").await.succeeds();
    let line = listed
        .lines()
        .find(|line| line.starts_with("variant"))
        .unwrap();
    assert!(
        line.contains("failing") && line.contains("it gives up"),
        "{line}"
    );
    service
        .operator("module rollback variant", "")
        .await
        .succeeds();
    assert_serves(&service, "1.0.0").await;
}

#[tokio::test]
async fn a_module_that_traps_on_most_requests_is_rolled_back_if_configured() {
    let service =
        Service::with_mail_and(&format!("{NEW_MODULES}\nnew_modules.breaker = 'roll-back'")).await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .succeeds(201);
    install(&admin, &[variant_that("trap", "2.0.0")], true)
        .await
        .succeeds(201);
    // After some failures, the version before serves again without an operator.
    let mut failed = 0;
    while version(&service).await.status == 500 {
        failed += 1;
        assert!(failed < 200, "nothing was rolled back");
    }
    assert_serves(&service, "1.0.0").await;
    assert!(failed >= 10);
}

#[tokio::test]
async fn a_rollback_that_fails_in_the_database_is_repeated_after_the_outage() {
    let log = Log::capture_at("error");
    let service = Service::with(&format!("{NEW_MODULES}\nnew_modules.breaker = 'roll-back'")).await;
    service.install(&[variant_with_version("1.0.0")]).await;
    service.install(&[variant_that("trap", "2.0.0")]).await;
    let away = "ALTER TABLE modules RENAME TO modules_away";
    service.execute(away).await;
    wait_until("the rollback fails", async || {
        assert_eq!(version(&service).await.status, 500);
        !log.lines_with("failed to roll back").is_empty()
    })
    .await;
    let back = "ALTER TABLE modules_away RENAME TO modules";
    service.execute(back).await;
    wait_until("it is rolled back", async || {
        version(&service).await.status == 200
    })
    .await;
    assert_serves(&service, "1.0.0").await;
}

#[tokio::test]
async fn a_rollback_restores_the_previous_version_and_never_the_rolled_back_one() {
    let mut service = Service::with(NEW_MODULES).await;
    let roll_back = "module rollback variant";
    service.install(&[variant_with_version("1.0.0")]).await;
    service.install(&[variant_with_version("2.0.0")]).await;
    service.operator(roll_back, "").await.succeeds();
    assert_serves(&service, "1.0.0").await;
    service.install(&[variant_with_version("3.0.0")]).await;
    service.restart().await;
    service.operator(roll_back, "").await.succeeds();
    assert_serves(&service, "1.0.0").await;
    service
        .operator(roll_back, "")
        .await
        .fails_mentioning("`variant` has no earlier version");
    // A version that is named serves anyway, and the version before it is remembered.
    let shown = service
        .operator("module show variant --json", "")
        .await
        .succeeds();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let versions = shown["versions"].as_array().unwrap();
    let second = versions.iter().find(|one| one["version"] == "2.0.0");
    let digest = second.unwrap()["digest"].as_str().unwrap();
    let to = format!("{roll_back} --to {digest}");
    service.operator(&to, "").await.succeeds();
    assert_serves(&service, "2.0.0").await;
    service.operator(roll_back, "").await.succeeds();
    assert_serves(&service, "1.0.0").await;
}

#[tokio::test]
async fn a_rollback_to_an_unknown_version_is_refused() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    for version in ["1.0.0", "2.0.0"] {
        service.install(&[variant_with_version(version)]).await;
    }
    let path = "/api/v1/admin/modules/variant/rollback";
    let misspelt = admin.post(path, &json!({ "to": "12345678" })).await;
    assert_eq!(misspelt.status, 400);
    assert_serves(&service, "2.0.0").await;
}
