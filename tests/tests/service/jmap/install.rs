//! The operator installs and removes the module.

use std::sync::atomic::{AtomicBool, Ordering};

use latchmail_tests::{Service, modules, wait_until};
use serde_json::json;

use super::Jmap;

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_installs_and_removes_the_module_under_load() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let line = "GET /.well-known/jmap";
    assert_eq!(ada.send(line).await.status, 404);
    let installed = AtomicBool::new(false);
    let (ended, requests) = (AtomicBool::new(false), AtomicBool::new(false));
    // Requests of other modules never fail, and those of this one only while it is not installed.
    let load = async {
        while !ended.load(Ordering::Relaxed) {
            let folders = ada.send("GET /api/v1/mail/folders").await;
            assert_eq!(folders.status, 200, "{}", folders.json);
            let was_installed = installed.load(Ordering::Relaxed);
            let session = ada.send(line).await;
            assert!(
                session.status == 200 || (session.status == 404 && !was_installed),
                "{} {}",
                session.status,
                session.json
            );
            requests.store(true, Ordering::Relaxed);
        }
    };
    let component = std::fs::read(modules().join("latchmail_jmap.wasm")).unwrap();
    let changes = async {
        for _ in 0..5 {
            service.install(&[component.clone()]).await;
            installed.store(true, Ordering::Relaxed);
            requests.store(false, Ordering::Relaxed);
            wait_until("a request", async || requests.load(Ordering::Relaxed)).await;
            assert_eq!(ada.send(line).await.status, 200);
            installed.store(false, Ordering::Relaxed);
            service.operator("module remove jmap", "").await.succeeds();
            wait_until("the route is gone", async || {
                ada.send(line).await.status == 404
            })
            .await;
        }
        ended.store(true, Ordering::Relaxed);
    };
    tokio::join!(load, changes);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_module_needs_no_section_and_serves_after_a_restart() {
    let mut service = Service::with_mail().await;
    let file = modules().join("latchmail_jmap.wasm");
    let command = format!("module install --yes {}", file.display());
    service.operator(&command, "").await.succeeds();
    service.restart().await;
    let ada = service.person("ada").await;
    let client = Jmap::connect(&ada).await;
    let session = client.session().await;
    assert_eq!(session["apiUrl"], "http://service.test/jmap/api");
    let mailboxes = client.call("Mailbox/get", json!({})).await;
    assert!(!mailboxes["list"].as_array().unwrap().is_empty());
}
