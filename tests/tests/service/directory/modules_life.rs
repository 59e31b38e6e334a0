//! Changes of modules while the service runs, as an administrator, an operator and their clients see them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Answer, EVENTUALLY, Log, Person, Service, Variant, fixtures, modules};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

/// Allows modules without a section of their own.
const NEW: &str = "new_modules.paths = ['/variant/', '/other/', '/api/v1/aliases']";

/// The response of the variant's route.
async fn version(service: &Service) -> Answer {
    service.ask("GET /variant/version").await
}

async fn serves(service: &Service, wanted: &str) {
    let answer = version(service).await.succeeds(200);
    assert_eq!(answer, json!({ "version": wanted, "again": wanted }));
}

async fn administrator(service: &Service) -> Person<'_> {
    let person = service.person("root-person").await;
    let admin = format!("account admin {} on", person.address);
    service.operator(&admin, "").await.done();
    person.again().await
}

fn body(components: &[Vec<u8>], accept: bool) -> Value {
    let modules: Vec<Value> = components
        .iter()
        .map(|component| json!({ "component": STANDARD.encode(component) }))
        .collect();
    json!({ "modules": modules, "accept": accept })
}

async fn install(admin: &Person<'_>, components: &[Vec<u8>], accept: bool) -> Answer {
    let body = body(components, accept);
    admin.post("/api/v1/admin/modules", &body).await
}

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + EVENTUALLY;
    while !holds().await {
        assert!(Instant::now() < patience, "{what}: never");
        sleep(Duration::from_millis(10)).await;
    }
}

fn of_version(version: &str) -> Vec<u8> {
    Variant {
        version,
        ..Variant::default()
    }
    .component()
}

fn that_does(does: &str, version: &str) -> Vec<u8> {
    Variant {
        version,
        does,
        ..Variant::default()
    }
    .component()
}

#[tokio::test]
async fn only_administrators_who_are_signed_in_may_change_modules() {
    let service = Service::with_mail_and(NEW).await;
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
        assert_eq!(service.ask(line).await.status, 401, "{line}");
        ada.ask(line)
            .await
            .fails(403, "This endpoint is only available to administrators");
        service
            .with_bearer(line, token.as_str().unwrap())
            .await
            .fails_about(403, "only available to a signed-in session");
    }
    let admin = administrator(&service).await;
    let listed = admin.ask("GET /api/v1/admin/modules").await.succeeds(200);
    let names: Vec<&str> = listed["modules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|module| module["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["aliases", "credentials", "domains", "mail", "mcp", "teams"]
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
async fn a_module_serves_as_soon_as_it_is_installed_and_is_described() {
    let service = Service::with_mail_and(NEW).await;
    let admin = administrator(&service).await;
    version(&service).await.fails(404, "There is no such route");
    let refused = install(&admin, &[of_version("1.0.0")], false).await;
    refused.fails_about(409, "it has the public route GET /variant/version");
    version(&service).await.fails(404, "There is no such route");
    let installed = install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    assert_eq!(installed["modules"][0]["name"], "variant");
    assert_eq!(installed["modules"][0]["state"], "serving");
    serves(&service, "1.0.0").await;
    let described = service.ask("GET /api/openapi.json").await.succeeds(200);
    assert!(described["paths"]["/variant/version"]["get"].is_object());
    let shown = admin
        .ask("GET /api/v1/admin/modules/variant")
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
async fn an_earlier_version_serves_again_by_one_command_and_all_of_it_survives_a_restart() {
    let mut service = Service::with_mail_and(NEW).await;
    let admin = administrator(&service).await;
    for version in ["1.0.0", "2.0.0", "3.0.0"] {
        install(&admin, &[of_version(version)], true)
            .await
            .succeeds(201);
        serves(&service, version).await;
    }
    service.operator("module rollback variant", "").await.done();
    serves(&service, "2.0.0").await;
    drop(admin);
    service.restart().await;
    serves(&service, "2.0.0").await;
    service.operator("module rollback variant", "").await.done();
    serves(&service, "1.0.0").await;
    service
        .operator("module rollback variant", "")
        .await
        .fails_about("`variant` has no earlier version");
    serves(&service, "1.0.0").await;
    let shown = service
        .operator("module show variant --json", "")
        .await
        .done();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let third = shown["versions"][0]["digest"].as_str().unwrap();
    let to = format!("module rollback variant --to {}", &third[..12]);
    service.operator(&to, "").await.done();
    serves(&service, "3.0.0").await;
}

#[tokio::test]
async fn a_version_that_fails_every_request_is_gone_by_one_command() {
    let service = Service::with_mail_and(NEW).await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    install(&admin, &[that_does("trap", "2.0.0")], false)
        .await
        .succeeds(201);
    for _ in 0..12 {
        assert_eq!(version(&service).await.status, 500);
    }
    let listed = service.operator("module list", "").await.done();
    let line = listed
        .lines()
        .find(|line| line.starts_with("variant"))
        .unwrap();
    assert!(
        line.contains("failing") && line.contains("it gives up"),
        "{line}"
    );
    service.operator("module rollback variant", "").await.done();
    serves(&service, "1.0.0").await;
}

#[tokio::test]
async fn a_module_that_traps_on_most_requests_is_rolled_back_where_the_operator_chose_so() {
    let service =
        Service::with_mail_and(&format!("{NEW}\nnew_modules.breaker = 'roll-back'")).await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    install(&admin, &[that_does("trap", "2.0.0")], false)
        .await
        .succeeds(201);
    // After some failures, the version before serves again without an operator.
    let mut failed = 0;
    while version(&service).await.status == 500 {
        failed += 1;
        assert!(failed < 200, "nothing was rolled back");
    }
    serves(&service, "1.0.0").await;
    assert!(failed >= 10);
}

#[tokio::test]
async fn a_roll_back_that_the_database_fails_is_made_once_it_answers_again() {
    let log = Log::keep_at("error");
    let service = Service::with(&format!("{NEW}\nnew_modules.breaker = 'roll-back'")).await;
    service.install(&[of_version("1.0.0")]).await;
    service.install(&[that_does("trap", "2.0.0")]).await;
    let away = "ALTER TABLE modules RENAME TO modules_away";
    service.execute(away).await;
    until("the rollback fails", async || {
        assert_eq!(version(&service).await.status, 500);
        !log.about("failed to roll back").is_empty()
    })
    .await;
    let back = "ALTER TABLE modules_away RENAME TO modules";
    service.execute(back).await;
    until("it is rolled back", async || {
        version(&service).await.status == 200
    })
    .await;
    serves(&service, "1.0.0").await;
}

#[tokio::test]
async fn what_serves_again_is_what_served_before_and_not_what_was_rolled_away_from() {
    let mut service = Service::with(NEW).await;
    let roll_back = "module rollback variant";
    service.install(&[of_version("1.0.0")]).await;
    service.install(&[of_version("2.0.0")]).await;
    service.operator(roll_back, "").await.done();
    serves(&service, "1.0.0").await;
    service.install(&[of_version("3.0.0")]).await;
    service.restart().await;
    service.operator(roll_back, "").await.done();
    serves(&service, "1.0.0").await;
    service
        .operator(roll_back, "")
        .await
        .fails_about("`variant` has no earlier version");
    // A version that is named serves anyway, and the version before it is remembered.
    let shown = service
        .operator("module show variant --json", "")
        .await
        .done();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let versions = shown["versions"].as_array().unwrap();
    let second = versions.iter().find(|one| one["version"] == "2.0.0");
    let digest = second.unwrap()["digest"].as_str().unwrap();
    let to = format!("{roll_back} --to {digest}");
    service.operator(&to, "").await.done();
    serves(&service, "2.0.0").await;
    service.operator(roll_back, "").await.done();
    serves(&service, "1.0.0").await;
}

#[tokio::test]
async fn a_change_that_is_answered_with_a_failure_was_not_made() {
    let service = Service::with(NEW).await;
    service.install(&[of_version("1.0.0")]).await;
    let away = "ALTER TABLE module_versions RENAME TO module_versions_away";
    service.execute(away).await;
    let disable = "module disable variant";
    service
        .operator(disable, "")
        .await
        .fails_about("The operation could not be completed");
    serves(&service, "1.0.0").await;
    let back = "ALTER TABLE module_versions_away RENAME TO module_versions";
    service.execute(back).await;
    let listed = service.operator("module list", "").await.done();
    let line = listed.lines().find(|line| line.starts_with("variant"));
    assert!(line.unwrap().contains("serving"), "{listed}");
    service.operator(disable, "").await.done();
    version(&service).await.fails(404, "There is no such route");
}

#[tokio::test]
async fn what_cannot_be_installed_is_refused_with_the_reason_and_changes_nothing() {
    let service = Service::with_mail_and(&format!(
        "{NEW}\nmodules.probe.grants = ['caller']\nmodules.probe.paths = ['/probe/']"
    ))
    .await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    let variant = Variant::default();
    let taken = Variant {
        name: "other",
        path: "/variant/",
        ..variant
    };
    let elsewhere = Variant {
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
        (elsewhere.component(), 400, "/elsewhere/version"),
        (misnamed.component(), 400, "Other Name"),
        (misversioned.component(), 400, "newest"),
        (
            that_does("trap in describe", "2.0.0"),
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
            .fails_about(status, mention);
        serves(&service, "1.0.0").await;
    }
    let listed = admin.ask("GET /api/v1/admin/modules").await.succeeds(200);
    assert_eq!(listed["modules"].as_array().unwrap().len(), 7);
    install(&admin, &[], true)
        .await
        .fails_about(400, "no component");
    admin
        .post(
            "/api/v1/admin/modules",
            &json!({ "modules": [{ "component": "!" }] }),
        )
        .await
        .fails_about(400, "base64");
    admin
        .post("/api/v1/admin/modules", &json!({ "modules": "x" }))
        .await
        .fails_about(400, "modules");
    serves(&service, "1.0.0").await;
}

#[tokio::test]
async fn a_module_that_the_configuration_does_not_allow_is_refused() {
    let service = Service::with_mail().await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .fails_about(409, "[modules.variant]");
    version(&service).await.fails(404, "There is no such route");
}

#[tokio::test]
async fn a_set_is_installed_whole_or_not_at_all() {
    let service = Service::with_mail_and(NEW).await;
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
    install(&admin, &[of_version("1.0.0"), broken.component()], true)
        .await
        .fails_about(400, "Component 2");
    version(&service).await.fails(404, "There is no such route");
    install(&admin, &[of_version("1.0.0"), of_version("2.0.0")], true)
        .await
        .fails_about(400, "Two of the components");
    install(&admin, &[of_version("1.0.0"), other.component()], true)
        .await
        .succeeds(201);
    serves(&service, "1.0.0").await;
    service.ask("GET /other/version").await.succeeds(200);
}

#[tokio::test]
async fn a_version_that_may_do_more_than_the_one_before_needs_a_yes() {
    let service = Service::with_mail_and(NEW).await;
    let admin = administrator(&service).await;
    install(&admin, &[that_does("session", "1.0.0")], false)
        .await
        .succeeds(201);
    for (component, mention) in [
        (that_does("more", "2.0.0"), "GET /variant/more"),
        (
            of_version("2.0.0"),
            "for any client instead of web sessions",
        ),
    ] {
        let components = [component];
        install(&admin, &components, false)
            .await
            .fails_about(409, mention);
        let inspected = admin
            .post("/api/v1/admin/modules/inspect", &body(&components, false))
            .await
            .succeeds(200);
        let needs = inspected["modules"][0]["needs"].to_string();
        assert!(needs.contains(mention), "{needs}");
        assert_eq!(inspected["modules"][0]["problems"], json!([]));
        assert_eq!(version(&service).await.status, 401);
    }
    install(&admin, &[that_does("more", "2.0.0")], true)
        .await
        .succeeds(201);
    service.ask("GET /variant/more").await.succeeds(200);
    // A version that may do less needs no consent.
    install(&admin, &[that_does("session", "3.0.0")], false)
        .await
        .succeeds(201);
    assert_eq!(version(&service).await.status, 401);
}

#[tokio::test]
async fn over_a_module_that_is_switched_off_a_version_is_compared_with_the_one_that_was_installed_last()
 {
    let mut service = Service::with_mail_and(NEW).await;
    service.install(&[that_does("session", "1.0.0")]).await;
    service.operator("module disable variant", "").await.done();
    // From the database, not from memory.
    service.restart().await;
    let admin = administrator(&service).await;
    let weaker = install(&admin, &[of_version("2.0.0")], false).await;
    weaker.fails_about(409, "it does not serve at present and would start to serve");
    weaker.fails_about(409, "for any client instead of web sessions");
    let more = install(&admin, &[that_does("more", "2.0.0")], false).await;
    more.fails_about(409, "GET /variant/more");
    let same = install(&admin, &[that_does("session", "3.0.0")], false).await;
    let said = same.json["error"].as_str().unwrap();
    assert!(!said.contains("route"), "{said}");
    version(&service).await.fails(404, "There is no such route");
}

#[tokio::test]
async fn a_module_is_switched_off_and_on_and_removed() {
    let mut service = Service::with_mail_and(NEW).await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    drop(admin);
    service.operator("module disable variant", "").await.done();
    version(&service).await.fails(404, "There is no such route");
    service.restart().await;
    version(&service).await.fails(404, "There is no such route");
    service.operator("module enable variant", "").await.done();
    serves(&service, "1.0.0").await;
    service.operator("module remove variant", "").await.done();
    version(&service).await.fails(404, "There is no such route");
    service
        .operator("module show variant", "")
        .await
        .fails_about("There is no module `variant`");
    service
        .operator("module remove mail", "")
        .await
        .fails_about("`source`");
    for verb in ["enable", "disable", "rollback", "remove"] {
        service
            .operator(&format!("module {verb} nobody"), "")
            .await
            .fails_about("There is no module `nobody`");
    }
}

#[tokio::test]
async fn a_built_in_module_that_was_switched_off_stays_off_and_the_others_serve() {
    let mut service = Service::with_mail().await;
    service.operator("module disable aliases", "").await.done();
    service.restart().await;
    let ada = service.person("ada").await;
    ada.ask("GET /api/v1/aliases")
        .await
        .fails(404, "There is no such route");
    ada.ask("GET /api/v1/mail/folders").await.succeeds(200);
    service.operator("module enable aliases", "").await.done();
    ada.ask("GET /api/v1/aliases").await.succeeds(200);
}

#[tokio::test]
async fn the_last_good_version_serves_where_the_newest_cannot_be_loaded_at_the_start() {
    let mut service =
        Service::with_mail_and(&format!("{NEW}\nmodules.variant.paths = ['/variant/']")).await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    let moved = Variant {
        version: "2.0.0",
        path: "/variant/v/",
        ..Variant::default()
    };
    install(&admin, &[moved.component()], true)
        .await
        .succeeds(201);
    drop(admin);
    service
        .restart_with(|config| {
            let variant = config.modules.get_mut("variant").unwrap();
            variant.paths = vec!["/variant/version".into()];
        })
        .await;
    serves(&service, "1.0.0").await;
    let listed = service.operator("module list", "").await.done();
    let line = listed
        .lines()
        .find(|line| line.starts_with("variant"))
        .unwrap();
    assert!(line.contains("2.0.0 does not serve"), "{line}");
}

/// A file with the first version of a module, in a temporary folder.
fn brought() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("variant.wasm");
    std::fs::write(&file, of_version("1.0.0")).unwrap();
    (folder, file)
}

/// A configuration with the module's file as `source`.
fn bringing(file: &Path) -> String {
    format!(
        "modules.variant.source = '{}'\nmodules.variant.paths = ['/variant/']",
        file.display()
    )
}

#[tokio::test]
async fn a_new_file_of_the_configuration_is_taken_at_the_start_and_one_seen_before_is_not() {
    let (folder, file) = brought();
    let mut service = Service::with(&bringing(&file)).await;
    serves(&service, "1.0.0").await;
    let other = folder.path().join("other.wasm");
    std::fs::write(&other, of_version("2.0.0")).unwrap();
    let install = format!("module install {}", other.display());
    service.operator(&install, "").await.done();
    serves(&service, "2.0.0").await;
    service.restart().await;
    serves(&service, "2.0.0").await;
    std::fs::write(&file, of_version("3.0.0")).unwrap();
    service.restart().await;
    serves(&service, "3.0.0").await;
    service.operator("module rollback variant", "").await.done();
    serves(&service, "2.0.0").await;
    std::fs::remove_file(&file).unwrap();
    service.restart().await;
    serves(&service, "2.0.0").await;
}

#[tokio::test]
async fn a_new_file_of_the_configuration_does_not_bring_back_what_was_switched_off() {
    let (_folder, file) = brought();
    let mut service = Service::with(&bringing(&file)).await;
    serves(&service, "1.0.0").await;
    service.operator("module disable variant", "").await.done();
    std::fs::write(&file, of_version("2.0.0")).unwrap();
    service.restart().await;
    version(&service).await.fails(404, "There is no such route");
    service.operator("module enable variant", "").await.done();
    serves(&service, "1.0.0").await;
    service.restart().await;
    serves(&service, "2.0.0").await;
}

#[tokio::test]
async fn an_operator_looks_before_installing_and_says_yes_at_the_command_line() {
    let service = Service::with(NEW).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, component: Vec<u8>| {
        let file = folder.path().join(name);
        std::fs::write(&file, component).unwrap();
        file.display().to_string()
    };
    let one = file("one.wasm", of_version("1.0.0"));
    let said = service
        .operator(&format!("module inspect {one}"), "")
        .await
        .done();
    for mention in [
        "variant 1.0.0",
        "GET /variant/version for any client",
        "it can be installed",
    ] {
        assert!(said.contains(mention), "{said}");
    }
    version(&service).await.fails(404, "There is no such route");
    service
        .operator(&format!("module install {one}"), "")
        .await
        .fails_about("the public route GET /variant/version");
    let said = service
        .operator(&format!("module install --yes {one}"), "")
        .await
        .done();
    assert!(said.starts_with("variant 1.0.0 is serving ("), "{said}");
    let more = file("more.wasm", that_does("more", "2.0.0"));
    service
        .operator(&format!("module install {more}"), "")
        .await
        .fails_about("--yes");
    serves(&service, "1.0.0").await;
    service
        .operator(&format!("module install --yes {more}"), "")
        .await
        .done();
    service.ask("GET /variant/more").await.succeeds(200);
    let mail = modules().join("latchmail_mail.wasm");
    let said = service
        .operator(&format!("module inspect {}", mail.display()), "")
        .await
        .done();
    assert!(said.contains("latchmail:host/mailbox@"), "{said}");
    service
        .operator("module install /nowhere/x.wasm", "")
        .await
        .fails_about("/nowhere/x.wasm");
}

#[tokio::test]
async fn components_that_are_too_large_to_be_sent_are_refused_with_what_they_may_have() {
    let service = Service::with(NEW).await;
    let large = service.state.join("large.wasm");
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(96 * 1024 * 1024).unwrap();
    for verb in ["inspect", "install"] {
        service
            .operator(&format!("module {verb} {}", large.display()), "")
            .await
            .fails_about("95 MiB");
    }
}

#[tokio::test]
async fn a_roll_back_takes_nothing_that_it_does_not_know() {
    let service = Service::with_mail_and(NEW).await;
    let admin = administrator(&service).await;
    for version in ["1.0.0", "2.0.0"] {
        service.install(&[of_version(version)]).await;
    }
    let path = "/api/v1/admin/modules/variant/rollback";
    let misspelt = admin.post(path, &json!({ "to": "12345678" })).await;
    assert_eq!(misspelt.status, 400);
    serves(&service, "2.0.0").await;
}

#[tokio::test]
async fn why_a_module_does_not_serve_is_one_line_of_the_log() {
    let log = Log::keep_at("error");
    let source = "modules.variant.source = \"/nowhere/a\\nforged.wasm\"";
    let _service = Service::with(source).await;
    let lines = log.about("forged.wasm");
    assert!(
        lines.len() == 1 && lines[0].contains("cannot be loaded"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn where_no_service_runs_the_verbs_say_so() {
    let mut service = Service::start().await;
    service.stop().await;
    service
        .operator("module list", "")
        .await
        .fails_about("no service listens on");
}

#[tokio::test]
async fn what_is_done_to_modules_is_in_the_record() {
    let service = Service::with_mail_and(NEW).await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    install(&admin, &[of_version("2.0.0")], false)
        .await
        .succeeds(201);
    service.operator("module rollback variant", "").await.done();
    service.operator("module disable variant", "").await.done();
    let record = service.operator("audit --json", "").await.done();
    let told: Vec<(String, String)> = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["subject"] == "variant")
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap().to_owned();
            (text("kind"), text("actor"))
        })
        .collect();
    let admin = admin.address.clone();
    let expected = [
        ("module_installed", admin.as_str()),
        ("module_installed", &admin),
        ("module_rolled_back", "operator"),
        ("module_disabled", "operator"),
    ];
    assert_eq!(
        told,
        expected.map(|(kind, actor)| (kind.to_owned(), actor.to_owned()))
    );
}

#[tokio::test]
async fn the_probe_that_the_configuration_names_has_to_be_answered_before_a_version_serves() {
    let service =
        Service::with_mail_and(&format!("{NEW}\nnew_modules.probe = '/variant/version'")).await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    for (does, mention) in [("fail", "returned status 500"), ("trap", "it gives up")] {
        install(&admin, &[that_does(does, "2.0.0")], true)
            .await
            .fails_about(400, mention);
        serves(&service, "1.0.0").await;
    }
}

#[tokio::test]
async fn a_version_that_waits_instead_of_answering_its_probe_is_refused_within_its_deadline() {
    let settings = "new_modules.probe = '/variant/version'\nnew_modules.deadline = 3";
    let service = Service::with_mail_and(&format!("{NEW}\n{settings}")).await;
    let admin = administrator(&service).await;
    service.install(&[of_version("1.0.0")]).await;
    let components = [that_does("wait", "2.0.0")];
    let waits = install(&admin, &components, true);
    let refused = timeout(EVENTUALLY, waits).await.expect("an answer");
    refused.fails_about(400, "passed its deadline");
    serves(&service, "1.0.0").await;
    // It does not delay the next change.
    service.install(&[of_version("3.0.0")]).await;
    serves(&service, "3.0.0").await;
}
