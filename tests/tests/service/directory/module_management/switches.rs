//! Modules that are disabled, enabled and removed.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::error::StartError;
use latchmail_http::App;
use latchmail_runtime::manager::Router;
use latchmail_runtime::modules::Module;
use latchmail_tests::{Service, TEST_TIMEOUT};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

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

#[tokio::test]
async fn a_revoked_right_stops_the_module_at_once() {
    let mut service = Service::with_mail().await;
    let file = service.restart_with_file().await;
    let granted = std::fs::read_to_string(&file).unwrap();
    let grants = "modules.aliases.grants = [\"caller\", \"aliases\"]";
    let revoked = granted.replace(grants, "modules.aliases.grants = ['caller']");
    assert_ne!(granted, revoked);
    let elsewhere = format!("{granted}\n").replace(
        "modules.aliases.paths = [\"/api/v1/\"]",
        "modules.aliases.paths = ['/other/']",
    );
    assert_ne!(granted, elsewhere.trim_end());
    let ada = service.person("ada").await;
    let status = async || ada.send("GET /api/v1/aliases").await.status;
    for text in [&revoked, &elsewhere] {
        assert_eq!(status().await, 200);
        // A reload of the configuration. The events of earlier changes can cause one too.
        std::fs::write(&file, text).unwrap();
        service.apply_revoked_rights().await;
        assert_eq!(status().await, 404);
        ada.send("GET /api/v1/mail/folders").await.succeeds(200);
        std::fs::write(&file, &granted).unwrap();
        let enable = service.operator("module enable aliases", "").await;
        enable.succeeds();
        assert_eq!(status().await, 200);
        // A change of modules.
        std::fs::write(&file, text).unwrap();
        let enable = service.operator("module enable aliases", "").await;
        enable.fails_mentioning("Module `aliases` cannot be loaded");
        assert_eq!(status().await, 404);
        std::fs::write(&file, &granted).unwrap();
        let enable = service.operator("module enable aliases", "").await;
        enable.succeeds();
    }
    // An invalid file revokes nothing.
    std::fs::write(&file, "modules.aliases = 1").unwrap();
    service.apply_revoked_rights().await;
    assert_eq!(status().await, 200);
    let disable = service.operator("module disable aliases", "").await;
    disable.succeeds();
}

/// The router of a service that makes routes active slowly. It sends a message before and after
/// this moment, and then pauses.
struct SlowRouter<'a> {
    app: &'a App,
    moments: mpsc::Sender<()>,
}

impl SlowRouter<'_> {
    fn pause(&self) {
        self.moments.send(()).unwrap();
        thread::sleep(Duration::from_millis(100));
    }
}

impl Router for SlowRouter<'_> {
    fn check_description(&self, module: &Arc<Module>) -> Result<(), StartError> {
        self.app.check_description(module)
    }

    fn check(&self, modules: &[Arc<Module>]) -> Result<(), StartError> {
        self.app.check(modules)
    }

    fn prepare<'a>(
        &'a self,
        modules: &[Arc<Module>],
    ) -> Result<Box<dyn FnOnce() + Send + 'a>, StartError> {
        let publish = self.app.prepare(modules)?;
        Ok(Box::new(move || {
            self.pause();
            publish();
            self.pause();
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_modules_and_the_routes_change_at_the_same_time() {
    let service = Service::with(NEW_MODULES).await;
    let (app, origin, handle) = (service.app(), Origin::operator(), Handle::current());
    let (sender, moments) = mpsc::channel();
    block_in_place(|| {
        thread::scope(|scope| {
            scope.spawn(|| {
                let router = SlowRouter {
                    app,
                    moments: sender,
                };
                let components = [variant_with_version("1.0.0").into()];
                let modules = &app.module_manager;
                let installed = modules.install(&router, &components, true, &origin);
                handle.block_on(installed).unwrap();
            });
            for _ in 0..2 {
                moments.recv_timeout(TEST_TIMEOUT).unwrap();
                let listed = app.module_manager.list();
                let is_listed = listed.iter().any(|module| module.name == "variant");
                let is_active = handle.block_on(version(&service)).status == 200;
                assert_eq!(is_listed, is_active);
            }
        });
    });
    assert_serves(&service, "1.0.0").await;
}
