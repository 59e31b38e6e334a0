//! Formats the service's JSON responses about modules as lines of text.

use serde_json::Value;

use super::plain;
use crate::shown::table;

/// Number of characters of a digest that is shown. `rollback --to` accepts such a prefix.
const DIGITS: usize = 12;

/// Returns a table with one row per module.
pub(super) fn modules(answer: &Value) -> Vec<String> {
    let heading = [
        "MODULE", "STATE", "VERSION", "DIGEST", "REQUESTS", "FAILED", "",
    ]
    .map(ToOwned::to_owned);
    let rows = list(answer, "modules").iter().map(|module| {
        let health = &module["health"];
        let failed = ["trapped", "wrong", "late", "busy"]
            .iter()
            .filter_map(|kind| health[kind].as_u64())
            .sum::<u64>();
        let remark = match (text(&module["problem"]), health["failing"].as_bool()) {
            (problem, _) if !problem.is_empty() => problem,
            (_, Some(true)) => format!("failing: {}", text(&health["lastProblem"])),
            _ => text(&health["lastProblem"]),
        };
        [
            text(&module["name"]),
            text(&module["state"]),
            text(&module["version"]),
            digest(&module["digest"]),
            number(&health["requests"]),
            if health.is_object() {
                failed.to_string()
            } else {
                "-".into()
            },
            remark,
        ]
    });
    table(&[heading].into_iter().chain(rows).collect::<Vec<_>>())
}

/// Returns everything about one module.
pub(super) fn module(report: &Value) -> Vec<String> {
    let mut lines = vec![
        format!("{} is {}", text(&report["name"]), text(&report["state"])),
        format!("version   {}", text(&report["version"])),
        format!("digest    {}", text(&report["digest"])),
    ];
    if !text(&report["problem"]).is_empty() {
        lines.push(format!("problem   {}", text(&report["problem"])));
    }
    let health = &report["health"];
    if health.is_object() {
        lines.push(format!(
            "requests  {}: {} trapped, {} with an invalid response, {} late, {} without a free sandbox",
            number(&health["requests"]),
            number(&health["trapped"]),
            number(&health["wrong"]),
            number(&health["late"]),
            number(&health["busy"]),
        ));
        if health["lastProblem"].is_string() {
            lines.push(format!(
                "last      {} {}",
                text(&health["lastProblemAt"]),
                text(&health["lastProblem"])
            ));
        }
    }
    lines.extend(what_it_is(report));
    lines.push("versions".into());
    lines.extend(list(report, "versions").iter().map(|version| {
        let serving = version["serving"] == true;
        format!(
            "  {} {} {} {}{}",
            digest(&version["digest"]),
            text(&version["installedAt"]),
            text(&version["version"]),
            number(&version["size"]),
            if serving { " serving" } else { "" },
        )
    }));
    lines
}

/// Returns a component's description and what its installation requires.
pub(super) fn inspection(inspected: &Value) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{} {}",
            text(&inspected["name"]),
            text(&inspected["version"])
        ),
        format!("digest    {}", text(&inspected["digest"])),
    ];
    lines.extend(what_it_is(inspected));
    for (heading, key) in [
        ("needs consent", "needs"),
        ("cannot be installed", "problems"),
    ] {
        lines.extend(
            list(inspected, key)
                .iter()
                .map(|what| format!("{heading}: {}", text(what))),
        );
    }
    if list(inspected, "problems").is_empty() {
        lines.push("it can be installed".into());
    }
    lines
}

/// Returns the policy, the imports with a mark on those that are not granted, and the routes.
fn what_it_is(value: &Value) -> Vec<String> {
    let ceiling = &value["ceiling"];
    let mut lines = Vec::new();
    if ceiling.is_object() {
        lines.push(format!("grants    {}", words(&ceiling["grants"])));
        lines.push(format!("paths     {}", words(&ceiling["paths"])));
        lines.push(format!(
            "limits    {} MiB of memory, {} s of CPU, {} s in all, {} concurrent requests, {} host calls, {} MiB of response",
            number(&ceiling["memory"]),
            number(&ceiling["cpu"]),
            number(&ceiling["deadline"]),
            number(&ceiling["concurrency"]),
            number(&ceiling["hostCalls"]),
            number(&ceiling["response"]),
        ));
        lines.extend(beside(ceiling));
    }
    lines.push("imports".into());
    lines.extend(list(value, "imports").iter().map(|import| {
        let granted = import["granted"] == true;
        format!(
            "  {}{}",
            text(&import["interface"]),
            if granted { "" } else { "  NOT GRANTED" }
        )
    }));
    lines.push("routes".into());
    lines.extend(list(value, "routes").iter().map(|route| {
        format!(
            "  {} {} for {}",
            text(&route["method"]),
            text(&route["path"]),
            text(&route["access"])
        )
    }));
    lines
}

/// Returns the settings that apply to some modules only, such as the store and the allowed hosts.
fn beside(ceiling: &Value) -> Vec<String> {
    let granted = |grant: &str| {
        let grants = ceiling["grants"].as_array();
        grants.is_some_and(|grants| grants.iter().any(|one| one == grant))
    };
    let mut lines = Vec::new();
    if granted("store") {
        lines.push(format!(
            "store     {} KiB per account",
            number(&ceiling["store"])
        ));
    }
    if granted("http-client") {
        let hosts = words(&ceiling["hosts"]);
        let hosts = if hosts.is_empty() {
            "none".into()
        } else {
            hosts
        };
        lines.push(format!("hosts     {hosts}"));
    }
    if ceiling["reuse"] == true {
        lines.push("reuse     a sandbox serves one request after another".into());
    }
    if ceiling["activeContent"] == true {
        lines.push("content   may respond with HTML, JavaScript and XML".into());
    }
    if ceiling["rollsBack"] == true {
        lines.push("breaker   rolled back if most requests trap".into());
    }
    lines
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn words(value: &Value) -> String {
    let words = value.as_array().into_iter().flatten().map(text);
    words.collect::<Vec<_>>().join(", ")
}

/// Returns a JSON string escaped for the terminal. The author of a module chooses its texts.
fn text(value: &Value) -> String {
    value.as_str().map(plain).unwrap_or_default()
}

fn number(value: &Value) -> String {
    if value.is_null() {
        "-".into()
    } else {
        value.to_string()
    }
}

fn digest(value: &Value) -> String {
    text(value).chars().take(DIGITS).collect()
}
