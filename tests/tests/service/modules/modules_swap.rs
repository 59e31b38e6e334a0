//! Clients of all routes do not notice that modules are swapped under load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use latchmail_tests::process::memory;
use latchmail_tests::{Person, Service, Variant, modules};
use serde_json::{Value, json};

/// Swaps before the first measurement. They allocate memory that is kept permanently.
const WARM_UP_SWAPS: usize = 20;

/// The maximum growth, because allocators keep memory. If versions were not freed, thirty swaps
/// would need five times as much.
const MAX_GROWTH_MIB: u64 = 48;

/// Returns the component with a custom section at its end: the same module with another digest.
fn marked(component: &[u8], mark: u8) -> Vec<u8> {
    let section = [0, 3, 1, b'v', mark];
    [component, &section].concat()
}

fn of_version(version: &str) -> Vec<u8> {
    Variant {
        version,
        ..Variant::default()
    }
    .component()
}

/// Repeats a request; each response must be a success.
async fn repeat_request(
    ended: &AtomicBool,
    asked: &AtomicU64,
    ask: impl AsyncFn() -> latchmail_tests::Response,
    good: impl Fn(&Value) -> bool,
) {
    while !ended.load(Ordering::Relaxed) {
        let response = ask().await;
        assert_eq!(response.status, 200, "{}", response.json);
        assert!(good(&response.json), "{}", response.json);
        asked.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_swaps_under_load_cause_no_failure_no_mixed_versions_and_no_leak() {
    Box::pin(swap_under_load(50)).await;
}

mod long {
    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn five_hundred_swaps_under_load_cause_no_failure_no_mixed_versions_and_no_leak() {
        Box::pin(super::swap_under_load(500)).await;
    }
}

/// Swaps modules `times` times while clients call all routes. `times` must be even.
async fn swap_under_load(times: usize) {
    let service = Service::with_mail_and("new_modules.paths = ['/variant/']").await;
    let ada = service.person("ada").await;
    ada.receive("From: a@outside.test\nSubject: One\n\nText.")
        .await;
    let uid = ada.uid_of("INBOX", "One").await;
    let components = modules();
    let built_in = ["aliases", "credentials", "domains", "mail"]
        .map(|name| std::fs::read(components.join(format!("latchmail_{name}.wasm"))).unwrap());
    // Two versions of each module. Each swap replaces the variant and a built-in module together.
    let versions = ["1.0.0", "2.0.0"].map(|version| {
        let mark = version.as_bytes()[0];
        (
            of_version(version),
            built_in.each_ref().map(|one| marked(one, mark)),
        )
    });
    let set = |swap: usize| {
        let (variant, built_in) = &versions[swap % 2];
        [variant.clone(), built_in[swap / 2 % 4].clone()]
    };
    service.install(&set(0)).await;
    let (ended, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let get = |line: String| {
        let ada = &ada;
        async move || ada.send(&line).await
    };
    let has = |key: &'static str| move |response: &Value| response.get(key).is_some();
    let whole = |response: &Value| {
        response["version"].is_string() && response["version"] == response["again"]
    };
    let asking =
        |line: String, good: &'static str| repeat_request(&ended, &asked, get(line), has(good));
    let variant = repeat_request(
        &ended,
        &asked,
        async || service.send("GET /variant/version").await,
        whole,
    );
    let message = format!("/api/v1/mail/messages/{uid}");
    let flags = json!({ "flags": ["\\Seen"], "action": "add" });
    let flag = format!("{message}/flag");
    let flagging = repeat_request(
        &ended,
        &asked,
        async || ada.post(&flag, &flags).await,
        has("success"),
    );
    let swaps = async {
        let mut resident = 0;
        for swap in 0..times {
            if swap == WARM_UP_SWAPS {
                resident = memory();
            }
            service.install(&set(swap + 1)).await;
            if swap % 10 == 0 {
                let before = asked.load(Ordering::Relaxed);
                while asked.load(Ordering::Relaxed) < before + 8 {
                    tokio::task::yield_now().await;
                }
            }
        }
        ended.store(true, Ordering::Relaxed);
        resident
    };
    let (resident, ..) = tokio::join!(
        swaps,
        variant,
        flagging,
        asking("GET /api/v1/mail/folders".into(), "folders"),
        asking(format!("GET {message}"), "uid"),
        asking("GET /api/v1/aliases".into(), "aliases"),
        asking("GET /api/v1/profile".into(), "email"),
        asking("GET /api/v1/domains".into(), "domains"),
        asking("GET /api/openapi.json".into(), "paths"),
    );
    assert!(asked.load(Ordering::Relaxed) > times as u64 / 10);
    let grown = memory().saturating_sub(resident) / 1024;
    assert!(grown < MAX_GROWTH_MIB, "{grown} MiB more than before");
    let output = service
        .operator("module show mail --json", "")
        .await
        .succeeds();
    let shown: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(shown["versions"].as_array().unwrap().len(), 3);
    assert_last_version(&ada).await;
}

/// Asserts that the last installed version serves: after an even number of swaps, the first one.
async fn assert_last_version(ada: &Person<'_>) {
    let response = ada.send("GET /variant/version").await.succeeds(200);
    assert_eq!(response["version"], "1.0.0");
}
