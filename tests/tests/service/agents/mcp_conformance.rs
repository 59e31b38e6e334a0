//! Runs the protocol's own conformance suite against the agent endpoint and the authorization
//! server. Scenarios that do not apply, because they need the suite's own tools, prompts and
//! resources, are listed with the reason.

use std::collections::BTreeSet;

use latchmail_tests::{
    Browser, BrowserOptions, Client, Conformance, PASSWORD, Service, Setup, TokenProxy,
};

/// Scenarios that apply, by revision, each with its checks that do not apply.
const APPLICABLE: [(&str, &str, &[&str]); 12] = [
    ("2025-06-18", "server-initialize", &[]),
    ("2025-06-18", "ping", &[]),
    ("2025-06-18", "tools-list", &[]),
    ("2025-11-25", "server-initialize", &[]),
    ("2025-11-25", "ping", &[]),
    ("2025-11-25", "tools-list", &[]),
    ("2025-11-25", "dns-rebinding-protection", &[]),
    // These checks call the suite's own tools: one needs a capability that the client lacks, one
    // streams, one logs.
    (
        "2026-07-28",
        "server-stateless",
        &[
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-missing-capability-http-400",
            "sep-2575-server-no-log-without-loglevel",
            "sep-2575-server-rejects-undeclared-capability",
        ],
    ),
    ("2026-07-28", "tools-list", &[]),
    ("2026-07-28", "dns-rebinding-protection", &[]),
    ("2026-07-28", "http-header-validation", &[]),
    // This check also needs prompts and resources.
    (
        "2026-07-28",
        "caching",
        &[
            "sep-2549-prompts-list-caching-hints",
            "sep-2549-resources-list-caching-hints",
            "sep-2549-resources-templates-list-caching-hints",
        ],
    ),
];

/// Prefixes of scenarios that do not apply, because the server has only its own tools.
const NOT_APPLICABLE: [(&str, &str); 14] = [
    ("tools-call-", "the scenarios call the suite's own tools"),
    (
        "input-required-result-",
        "the scenarios call the suite's own tools",
    ),
    (
        "json-schema-2020-12",
        "the scenario needs a tool of the suite",
    ),
    (
        "http-custom-header-server-validation",
        "the scenario needs a tool whose parameters are mirrored in headers",
    ),
    ("elicitation-", "the scenarios call the suite's own tools"),
    ("server-session-lifecycle", "there are no sessions"),
    ("server-sse-", "there are no event streams"),
    ("resources-", "there are no resources"),
    ("sep-2164-resource-not-found", "there are no resources"),
    ("sep-2640-skills-", "an extension"),
    ("prompts-", "there are no prompts"),
    ("completion-complete", "there is nothing to complete"),
    ("logging-set-level", "nothing is logged to clients"),
    ("tasks-", "an extension"),
];

/// The scenarios for authorization servers, which all apply. They run as a client without a secret:
/// as a client with a secret, the suite sends only the id if the server also accepts public
/// clients, which must be refused here.
const AUTHORIZATION_SCENARIOS: [&str; 2] = [
    "authorization-server-metadata-endpoint",
    "authorization-code-grant",
];

/// The revisions of those scenarios.
const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

#[tokio::test]
async fn every_scenario_of_the_suite_is_listed() {
    let listed = Conformance::default().scenarios("--server").await;
    assert!(listed.len() > 40, "{listed:?}");
    for scenario in &listed {
        let applies = APPLICABLE.iter().any(|(_, name, _)| name == scenario);
        let apart = NOT_APPLICABLE
            .iter()
            .any(|(begin, _)| scenario.starts_with(begin));
        assert!(applies != apart, "{scenario}: say here whether it applies");
    }
    for (begin, reason) in NOT_APPLICABLE {
        let is_one = listed.iter().any(|scenario| scenario.starts_with(begin));
        assert!(is_one && !reason.is_empty(), "{begin} is no scenario");
    }
}

#[tokio::test]
async fn the_endpoint_passes_the_conformance_suite() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let token = ada.oauth_token().await;
    let proxy = TokenProxy::start(&service.base, &token).await;
    let suite = Conformance::default();
    for (revision, scenario, aside) in APPLICABLE {
        let report = suite.run(&proxy, revision, scenario).await;
        let failed: BTreeSet<&str> = report.failed.iter().map(|(id, _)| id.as_str()).collect();
        let expected: BTreeSet<&str> = aside.iter().copied().collect();
        assert_eq!(failed, expected, "{revision} {scenario}: {report:#?}");
        assert!(!report.passed.is_empty(), "{revision} {scenario}");
    }
}

#[tokio::test]
async fn the_authorization_server_passes_the_conformance_suite() {
    let suite = Conformance::default();
    assert_eq!(
        suite.scenarios("--authorization").await,
        AUTHORIZATION_SCENARIOS
    );
    let service = Setup::default()
        .with_mail()
        .with("base_url = ''")
        .start()
        .await;
    let ada = service.person("ada").await;
    let client = Client::register_as(&service, "The suite", &["http://127.0.0.1/callback"]).await;
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    for revision in REVISIONS {
        let waiting = suite
            .authorization(&service.base, &client.client_id, revision)
            .await;
        browser.go(&waiting.page).await;
        browser.sign_in(&ada.address, PASSWORD).await;
        let report = waiting.report().await;
        assert_eq!(report.failed, [], "{revision}");
        for check in ["authorization-server-metadata", AUTHORIZATION_SCENARIOS[1]] {
            let passed = report.passed.iter().any(|id| id == check);
            assert!(passed, "{revision} {check}: {report:?}");
        }
    }
}
