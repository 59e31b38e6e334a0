//! Loading of modules with handlers: what is refused, the names of components without a manifest,
//! and the operator's consent.

use std::path::Path;

use latchmail_tests::{Actor, Service, fixtures, load_problem, start_error};
use serde_json::{Value, json};

/// Returns the settings of a module with handlers.
fn settings(name: &str, source: &Path, grants: &str) -> String {
    format!(
        "modules.{name}.source = '{}'\nmodules.{name}.grants = [{grants}]\n\
         modules.{name}.paths = ['/{name}/']\nmodules.{name}.scopes = ['mail:read', 'mail:write']\n",
        source.display()
    )
}

const GRANTS: &str = "'caller', 'mailbox', 'store'";

/// Returns why this module is not loaded.
async fn refused(actor: Actor<'_>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("actor.wasm");
    std::fs::write(&source, actor.component()).unwrap();
    load_problem(&settings("actor", &source, GRANTS)).await
}

#[tokio::test]
async fn a_module_with_invalid_events_or_timers_is_refused_with_the_reason() {
    let actor = Actor::default();
    for (actor, reason) in [
        (
            Actor {
                types: "message.read",
                ..actor
            },
            "it handles the event type \"message.read\", which this host does not know",
        ),
        (
            Actor {
                role: "Inbox",
                ..actor
            },
            "the role \"Inbox\", which this host does not know",
        ),
        (
            Actor {
                timers: "tick=4",
                ..actor
            },
            "its timer `tick` has an interval of 4 s; the minimum is 5 s",
        ),
        (
            Actor {
                timers: "daily=0 7 * *",
                ..actor
            },
            "its timer `daily` has the invalid cron expression \"0 7 * *\"",
        ),
        (
            Actor {
                types: "none",
                ..actor
            },
            "its handlers have no events and no timers",
        ),
    ] {
        let problem = refused(actor).await;
        assert!(problem.contains(reason), "{problem}");
    }
}

#[tokio::test]
async fn an_unknown_scope_of_handlers_prevents_the_start() {
    let error = start_error("modules.actor.scopes = ['mail:everything']").await;
    assert!(
        error.contains("its scopes contain the unknown scope `mail:everything`"),
        "{error}"
    );
    let error = start_error("handlers.concurrency = 0").await;
    assert!(error.contains("its concurrency is 0"), "{error}");
}

/// Returns a module as the administration shows it.
async fn shown(service: &Service, name: &str) -> Value {
    let command = format!("module show {name} --json");
    let output = service.operator(&command, "").await.succeeds();
    serde_json::from_str(&output).unwrap()
}

#[tokio::test]
async fn a_component_with_only_handlers_has_the_name_of_its_section_or_of_its_file() {
    let source = fixtures().join("fixture_alone.wasm");
    let installed = "modules.night-watch.grants = ['mailbox']\n";
    let settings = settings("filer", &source, "'mailbox'") + installed;
    let service = Service::with(&settings).await;
    let filer = shown(&service, "filer").await;
    assert_eq!(filer["state"], "serving");
    assert_eq!(filer["version"], "0.0.0");
    assert_eq!(filer["routes"], json!([]));
    assert_eq!(
        filer["ceiling"]["scopes"],
        json!(["mail:read", "mail:write"])
    );
    let handlers = [
        "the events message.created in folders with the role \\Inbox",
        "the timer tick every 5 s",
    ];
    assert_eq!(filer["handlers"], json!(handlers));

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("night_watch.wasm");
    std::fs::copy(&source, &file).unwrap();
    let inspect = format!("module inspect {}", file.display());
    let inspected = service.operator(&inspect, "").await.succeeds();
    for handler in handlers {
        assert!(inspected.contains(handler), "{inspected}");
    }
    let install = format!("module install {}", file.display());
    service
        .operator(&install, "")
        .await
        .fails_mentioning("it acts by the timer tick every 5 s, without a request");
    let install = format!("module install --yes {}", file.display());
    service.operator(&install, "").await.succeeds();
    let watch = shown(&service, "night-watch").await;
    assert_eq!(watch["state"], "serving");
    assert_eq!(watch["digest"], filer["digest"]);

    let unnamed = folder.path().join("Night.wasm");
    std::fs::copy(&source, &unnamed).unwrap();
    let install = format!("module install --yes {}", unnamed.display());
    service
        .operator(&install, "")
        .await
        .fails_mentioning("its name is \"Night\"");
}

#[tokio::test]
async fn a_module_with_routes_and_handlers_serves_its_routes() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("actor.wasm");
    std::fs::write(&source, Actor::default().component()).unwrap();
    let service = Service::with(&settings("actor", &source, GRANTS)).await;
    let ada = service.person("ada").await;
    let calls = ada.send("GET /actor/calls").await.succeeds(200);
    assert_eq!(calls, json!({ "calls": [] }));
}
