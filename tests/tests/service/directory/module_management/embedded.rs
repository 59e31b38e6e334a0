//! The built-in modules in the program.

use latchmail_core::config::{BUILT_IN, EmbeddedModule};
use latchmail_tests::{Log, Service, Setup, Variant, modules};

use super::{assert_serves, variant_with_version, version};

/// The settings of a module with the name of a built-in module and the routes of the variant.
const SETTINGS: &str = "modules.teams.paths = ['/variant/']";

/// Returns all built-in modules.
fn built_in() -> Vec<EmbeddedModule> {
    let embedded = BUILT_IN.map(|module| {
        let component = std::fs::read(modules().join(module.file_name())).unwrap();
        embedded(module.name, &component)
    });
    embedded.to_vec()
}

/// Returns a version of the variant in the place of the module `teams`.
fn teams(version: &str) -> Vec<EmbeddedModule> {
    vec![embedded("teams", &variant_component(version))]
}

fn embedded(name: &'static str, component: &[u8]) -> EmbeddedModule {
    let compressed = zstd::encode_all(component, zstd::DEFAULT_COMPRESSION_LEVEL).unwrap();
    EmbeddedModule {
        name,
        compressed: compressed.leak(),
    }
}

fn variant_component(version: &str) -> Vec<u8> {
    Variant {
        name: "teams",
        version,
        ..Variant::default()
    }
    .component()
}

async fn with_teams(settings: &str, version: &str) -> Service {
    let setup = Setup::default().with_embedded(&teams(version));
    setup.with(settings).start().await
}

/// Restarts the service as a program with another version.
async fn upgrade(service: &mut Service, version: &str) {
    let embedded = teams(version);
    service
        .restart_with(|config| *config = config.clone().with_embedded(&embedded))
        .await;
}

#[tokio::test]
async fn all_built_in_modules_serve_without_sections() {
    let with_files = Service::start().await;
    let service = Setup::default().with_embedded(&built_in()).start().await;
    let sorted = |service: &Service| {
        let routes = service.routes().into_iter();
        let mut routes: Vec<_> = routes.map(|(method, path, _)| method + &path).collect();
        routes.sort();
        routes
    };
    assert_eq!(sorted(&service), sorted(&with_files));
    let removed = service.operator("module remove mail", "").await;
    removed.fails_mentioning("The program contains module `mail`: disable the module instead");
}

#[tokio::test]
async fn a_section_without_a_source_changes_only_its_own_settings() {
    let setup = Setup::default().with_embedded(&built_in());
    let service = setup.with("modules.mail.memory = 32").start().await;
    let shown = service.operator("module show mail", "").await.succeeds();
    assert!(
        shown.contains("grants    caller, mailbox, outbox, compose, drafts, deliveries, filters"),
        "{shown}"
    );
    assert!(shown.contains("32"), "{shown}");
    let without = "modules.mail.grants = ['caller', 'mailbox']";
    let setup = Setup::default().with_embedded(&built_in()).with(without);
    let service = setup.start().await;
    let listed = service.operator("module list", "").await.succeeds();
    let line = listed.lines().find(|line| line.starts_with("mail "));
    assert!(line.unwrap().contains("outbox"), "{listed}");
}

#[tokio::test]
async fn a_section_with_a_source_replaces_the_module_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.wasm");
    std::fs::write(&file, variant_component("9.0.0")).unwrap();
    let source = format!("{SETTINGS}\nmodules.teams.source = '{}'", file.display());
    let mut service = with_teams(&source, "1.0.0").await;
    assert_serves(&service, "9.0.0").await;
    upgrade(&mut service, "2.0.0").await;
    assert_serves(&service, "9.0.0").await;
}

#[tokio::test]
async fn a_new_program_brings_its_modules_and_does_not_replace_an_installed_version() {
    let mut service = with_teams(SETTINGS, "1.0.0").await;
    assert_serves(&service, "1.0.0").await;
    upgrade(&mut service, "2.0.0").await;
    assert_serves(&service, "2.0.0").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.wasm");
    std::fs::write(&file, variant_component("7.0.0")).unwrap();
    let install = format!("module install --yes {}", file.display());
    service.operator(&install, "").await.succeeds();
    upgrade(&mut service, "2.0.0").await;
    assert_serves(&service, "7.0.0").await;
    upgrade(&mut service, "3.0.0").await;
    assert_serves(&service, "3.0.0").await;
}

#[tokio::test]
async fn a_new_program_does_not_enable_a_disabled_module() {
    let mut service = with_teams(SETTINGS, "1.0.0").await;
    let disabled = service.operator("module disable teams", "").await;
    disabled.succeeds();
    upgrade(&mut service, "2.0.0").await;
    version(&service).await.fails(404, "There is no such route");
    service.operator("module enable teams", "").await.succeeds();
    upgrade(&mut service, "2.0.0").await;
    assert_serves(&service, "2.0.0").await;
}

#[tokio::test]
async fn without_modules_the_service_starts_and_names_them() {
    let log = Log::capture_at("warn");
    let service = Setup::default().with_embedded(&[]).start().await;
    service.send("GET /api/health").await.succeeds(200);
    let lines = log.lines_with("the routes of these modules are missing");
    assert!(
        lines.len() == 1
            && lines[0].contains("mail, credentials, aliases, domains, teams, webhooks, mcp"),
        "{lines:?}"
    );
    let own = Setup::default().with_embedded(&[]);
    let own = own.with("new_modules.paths = ['/variant/']");
    let service = own.start().await;
    service.install(&[variant_with_version("1.0.0")]).await;
    assert_serves(&service, "1.0.0").await;
}
