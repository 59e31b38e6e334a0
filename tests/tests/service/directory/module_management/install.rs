//! Installation: the callers that may install, the components that are accepted, and failed
//! changes.

use std::path::Path;

use latchmail_tests::{Service, Variant, fixtures};
use serde_json::json;

use super::{
    NEW_MODULES, administrator, assert_serves, install, variant_that, variant_with_version, version,
};

#[tokio::test]
async fn only_signed_in_administrators_can_change_modules() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await["token"].clone();
    for line in [
        "GET /api/v1/admin/modules",
        "GET /api/v1/admin/modules/mail",
        "GET /api/v1/admin/modules/mail/log",
        "POST /api/v1/admin/modules",
        "POST /api/v1/admin/modules/inspect",
        "POST /api/v1/admin/modules/mail/enable",
        "POST /api/v1/admin/modules/mail/disable",
        "POST /api/v1/admin/modules/mail/rollback",
        "DELETE /api/v1/admin/modules/mail",
    ] {
        assert_eq!(service.send(line).await.status, 401, "{line}");
        ada.send(line)
            .await
            .fails(403, "This endpoint is only available to administrators");
        service
            .with_bearer(line, token.as_str().unwrap())
            .await
            .fails_mentioning(403, "only available to a signed-in session");
    }
    let admin = administrator(&service).await;
    let listed = admin.send("GET /api/v1/admin/modules").await.succeeds(200);
    let names: Vec<&str> = listed["modules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|module| module["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "aliases",
            "credentials",
            "domains",
            "mail",
            "mcp",
            "teams",
            "webhooks"
        ]
    );
    assert!(
        listed["modules"]
            .as_array()
            .unwrap()
            .iter()
            .all(|module| module["state"] == "serving")
    );
}

#[tokio::test]
async fn an_installed_module_serves_immediately_and_is_described() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    version(&service).await.fails(404, "There is no such route");
    let refused = install(&admin, &[variant_with_version("1.0.0")], false).await;
    refused.fails_mentioning(409, "it has the public route GET /variant/version");
    version(&service).await.fails(404, "There is no such route");
    let installed = install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .succeeds(201);
    assert_eq!(installed["modules"][0]["name"], "variant");
    assert_eq!(installed["modules"][0]["state"], "serving");
    assert_serves(&service, "1.0.0").await;
    let described = service.send("GET /api/openapi.json").await.succeeds(200);
    assert!(described["paths"]["/variant/version"]["get"].is_object());
    let shown = admin
        .send("GET /api/v1/admin/modules/variant")
        .await
        .succeeds(200);
    assert_eq!(shown["version"], "1.0.0");
    assert_eq!(shown["health"]["requests"], 1);
    assert_eq!(
        shown["routes"],
        json!([{ "method": "GET", "path": "/variant/version", "access": "any client" }])
    );
    assert_eq!(shown["versions"][0]["serving"], true);
}

#[tokio::test]
async fn a_change_that_returns_a_failure_was_not_made() {
    let service = Service::with(NEW_MODULES).await;
    service.install(&[variant_with_version("1.0.0")]).await;
    let away = "ALTER TABLE module_versions RENAME TO module_versions_away";
    service.execute(away).await;
    let disable = "module disable variant";
    service
        .operator(disable, "")
        .await
        .fails_mentioning("The operation could not be completed");
    assert_serves(&service, "1.0.0").await;
    let back = "ALTER TABLE module_versions_away RENAME TO module_versions";
    service.execute(back).await;
    let listed = service.operator("module list", "").await.succeeds();
    let line = listed.lines().find(|line| line.starts_with("variant"));
    assert!(line.unwrap().contains("serving"), "{listed}");
    service.operator(disable, "").await.succeeds();
    version(&service).await.fails(404, "There is no such route");
}

#[tokio::test]
async fn an_invalid_component_is_refused_with_the_reason_and_changes_nothing() {
    let service = Service::with_mail_and(&format!(
        "{NEW_MODULES}\nmodules.probe.grants = ['caller']\nmodules.probe.paths = ['/probe/']"
    ))
    .await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .succeeds(201);
    let variant = Variant::default();
    let taken = Variant {
        name: "other",
        path: "/variant/",
        ..variant
    };
    let other_session = Variant {
        name: "other",
        path: "/elsewhere/",
        ..variant
    };
    let misnamed = Variant {
        name: "Other Name",
        ..variant
    };
    let misversioned = Variant {
        version: "newest",
        ..variant
    };
    let file = |path: &Path| std::fs::read(path).unwrap();
    for (component, status, mention) in [
        (b"no component".to_vec(), 400, "not a WebAssembly component"),
        (Vec::new(), 400, "not a WebAssembly component"),
        (b"\0asm\x01\0\0\0".to_vec(), 400, "wasm32-wasip2"),
        (taken.component(), 409, "module variant"),
        (other_session.component(), 400, "/elsewhere/version"),
        (misnamed.component(), 400, "Other Name"),
        (misversioned.component(), 400, "newest"),
        (
            variant_that("trap in describe", "2.0.0"),
            400,
            "it would rather not say",
        ),
        (
            file(&fixtures().join("fixture_probe.wasm")),
            400,
            "latchmail:host/mailbox@",
        ),
    ] {
        install(&admin, &[component], true)
            .await
            .fails_mentioning(status, mention);
        assert_serves(&service, "1.0.0").await;
    }
    let listed = admin.send("GET /api/v1/admin/modules").await.succeeds(200);
    assert_eq!(listed["modules"].as_array().unwrap().len(), 8);
    install(&admin, &[], true)
        .await
        .fails_mentioning(400, "no component");
    admin
        .post(
            "/api/v1/admin/modules",
            &json!({ "modules": [{ "component": "!" }] }),
        )
        .await
        .fails_mentioning(400, "base64");
    admin
        .post("/api/v1/admin/modules", &json!({ "modules": "x" }))
        .await
        .fails_mentioning(400, "modules");
    assert_serves(&service, "1.0.0").await;
}

#[tokio::test]
async fn a_module_that_the_configuration_does_not_allow_is_refused() {
    let service = Service::with_mail().await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .fails_mentioning(409, "[modules.variant]");
    version(&service).await.fails(404, "There is no such route");
}

#[tokio::test]
async fn a_set_of_modules_is_installed_completely_or_not_at_all() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    let other = Variant {
        name: "other",
        path: "/other/",
        ..Variant::default()
    };
    let broken = Variant {
        does: "trap in describe",
        ..other
    };
    install(
        &admin,
        &[variant_with_version("1.0.0"), broken.component()],
        true,
    )
    .await
    .fails_mentioning(400, "Component 2");
    version(&service).await.fails(404, "There is no such route");
    install(
        &admin,
        &[variant_with_version("1.0.0"), variant_with_version("2.0.0")],
        true,
    )
    .await
    .fails_mentioning(400, "Two of the components");
    install(
        &admin,
        &[variant_with_version("1.0.0"), other.component()],
        true,
    )
    .await
    .succeeds(201);
    assert_serves(&service, "1.0.0").await;
    service.send("GET /other/version").await.succeeds(200);
}
