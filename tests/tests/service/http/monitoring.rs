//! The dashboard and the alert rules in `deploy/`, with a real Prometheus server that reads the
//! metrics of a service.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use latchmail_tests::{METRICS, Prometheus, Response, Setup, wait_until};
use serde_json::{Value, json};

use super::metrics::{hostile, use_mail};

/// Series that do not exist here: the service has no certificate.
const EMPTY: [&str; 1] = ["latchmail_certificate_expiry_timestamp_seconds"];

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn rules() -> PathBuf {
    project("deploy/prometheus/latchmail.rules.yml")
}

/// Returns the expressions of the dashboard with the labels that their legends use. The variables
/// have the values that Grafana would insert.
fn dashboard() -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(project("deploy/grafana/latchmail.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let expression = |target: &Value| {
        let text = target["expr"].as_str().unwrap();
        let text = text
            .replace("$host", ".*")
            .replace("$__rate_interval", "1m");
        let legend = target["legendFormat"].as_str().unwrap().split("{{").skip(1);
        let labels = legend.map(|rest| rest.split("}}").next().unwrap().to_owned());
        (text, labels.collect())
    };
    targets.map(expression).collect()
}

#[test]
fn promtool_accepts_the_rules() {
    let output = Command::new(Prometheus::program("promtool"))
        .args(["check", "rules"])
        .arg(rules())
        .output()
        .expect("scripts/setup --tests installs promtool");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn each_alert_has_a_section_in_the_documentation() {
    let rules = std::fs::read_to_string(rules()).unwrap();
    let documentation = std::fs::read_to_string(project("docs/metrics.md")).unwrap();
    let names = |text: &str, prefix: &str| -> Vec<String> {
        let names = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(prefix));
        names.map(ToOwned::to_owned).collect()
    };
    let alerts = names(&rules, "- alert: ");
    assert!(!alerts.is_empty());
    assert_eq!(names(&documentation, "### "), alerts);
    let anchors = names(&rules, "runbook_url: docs/metrics.md#");
    let expected: Vec<_> = alerts.iter().map(|alert| alert.to_lowercase()).collect();
    assert_eq!(anchors, expected);
}

#[tokio::test]
async fn each_expression_of_the_dashboard_and_the_rules_has_a_result() {
    let settings = format!("{METRICS}\n{}", hostile());
    let service = Setup::default().with_mail().with(&settings).start().await;
    let prometheus = Prometheus::start(&service, &rules()).await;
    let ada = service.person("ada").await;
    use_mail(&ada).await;
    for _ in 0..20 {
        let trap = service.send("GET /hostile/trap").await;
        assert_eq!(trap.status, 500);
    }
    let body = json!({ "email": ada.address, "password": "wrong password 1" });
    let refused = Response::of(service.request("POST /api/v1/auth/login").json(&body)).await;
    assert_eq!(refused.status, 401);
    wait_until("the alert of the module fires", async || {
        let alerts = prometheus.query("ALERTS{alertstate='firing'}").await;
        let firing = |alert: &Value| {
            let labels = &alert["metric"];
            labels["alertname"] == "LatchmailModuleFails" && labels["module"] == "hostile"
        };
        alerts.iter().any(firing)
    })
    .await;
    for (expression, labels) in dashboard() {
        let may_be_empty = EMPTY.iter().any(|name| expression.contains(name));
        // A rate needs two scrapes of the series.
        wait_until(&format!("{expression} has a result"), async || {
            may_be_empty || !prometheus.query(&expression).await.is_empty()
        })
        .await;
        for one in &prometheus.query(&expression).await {
            for label in &labels {
                assert!(
                    one["metric"][label].is_string(),
                    "{label} is not a label: {expression}"
                );
            }
        }
    }
    let groups = prometheus.get("rules").await.unwrap();
    let rules = groups["groups"][0]["rules"].as_array().unwrap();
    assert!(!rules.is_empty());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    // A misspelled name in a rule would have no result, but also no error.
    let used: BTreeSet<String> = rules
        .iter()
        .flat_map(|rule| metrics_of(rule["query"].as_str().unwrap()))
        .collect();
    for name in used {
        assert!(!prometheus.query(&name).await.is_empty(), "{name}");
    }
}

/// Returns the names of the metrics in an expression.
fn metrics_of(expression: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = expression.split(|c: char| !is_name(c));
    let names = words.filter(|word| word.starts_with("latchmail_"));
    names.map(ToOwned::to_owned).collect()
}
