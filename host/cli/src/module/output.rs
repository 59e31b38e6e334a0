//! Formats the service's responses about modules as text.

use latchmail_terminal::output::{escape, table};
use serde_json::Value;

/// The length of the digests in the tables, in characters. `rollback --to` accepts such a prefix of
/// a digest.
const DIGEST_PREFIX: usize = 12;

/// Returns the artifact of a registry that contained the current version of a module: the version
/// that serves, or the version that should serve.
pub(super) fn current_source(report: &Value) -> Option<&Value> {
    let versions = list(report, "versions").iter();
    let mut current = versions.filter(|version| version["digest"] == report["digest"]);
    current.next()?.get("source")
}

/// Formats the artifact of the current version as one reference with its digest.
pub(super) fn serving_source(report: &Value) -> Option<String> {
    current_source(report).map(source)
}

fn source(source: &Value) -> String {
    format!("{}@{}", text(&source["reference"]), text(&source["digest"]))
}

/// Returns a table with one row for each module.
pub(super) fn modules(response: &Value) -> Vec<String> {
    let heading = [
        "MODULE",
        "STATE",
        "VERSION",
        "DIGEST",
        "REQUESTS",
        "FAILED",
        "MAILBOXES",
        "",
    ];
    let rows = list(response, "modules").iter().map(|module| {
        let health = &module["health"];
        let failed = ["trapped", "wrong", "late", "busy"]
            .iter()
            .filter_map(|kind| health[kind].as_u64())
            .sum::<u64>();
        let mailboxes = &module["mailboxes"];
        let paused = mailboxes["paused"].as_u64().unwrap_or(0);
        let mailboxes = match (number(&mailboxes["enabled"]), paused) {
            (enabled, 0) => enabled,
            (enabled, paused) => format!("{enabled} ({paused} paused)"),
        };
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
            mailboxes,
            remark,
        ]
    });
    table(heading, rows)
}

/// Returns all details of a module as lines.
pub(super) fn module(report: &Value) -> Vec<String> {
    let mut lines = vec![
        format!("{} is {}", text(&report["name"]), text(&report["state"])),
        format!("version   {}", text(&report["version"])),
        format!("digest    {}", text(&report["digest"])),
    ];
    if let Some(source) = serving_source(report) {
        lines.push(format!("source    {source}"));
    }
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
    lines.extend(manifest_lines(report));
    lines.extend(mailbox_lines(&report["mailboxes"]));
    lines.push("versions".into());
    lines.extend(list(report, "versions").iter().map(|version| {
        let serving = version["serving"] == true;
        format!(
            "  {} {} {} {}{}{}",
            digest(&version["digest"]),
            text(&version["installedAt"]),
            text(&version["version"]),
            number(&version["size"]),
            if serving { " serving" } else { "" },
            version
                .get("source")
                .map_or_else(String::new, |from| format!(" {}", source(from))),
        )
    }));
    lines
}

/// Returns the mailboxes for which a module acts without a request as lines.
fn mailbox_lines(mailboxes: &Value) -> Vec<String> {
    if !mailboxes.is_object() {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "mailboxes {} enabled, {} paused",
        number(&mailboxes["enabled"]),
        number(&mailboxes["paused"]),
    )];
    lines.extend(list(mailboxes, "pausedMailboxes").iter().map(|paused| {
        format!(
            "  {} paused since {}: {}",
            text(&paused["account"]),
            text(&paused["since"]),
            text(&paused["reason"]),
        )
    }));
    lines
}

/// Formats the calls of a preview as lines: each call with its changes.
pub(super) fn preview(response: &Value) -> Vec<String> {
    let calls = list(response, "calls");
    let mut lines = Vec::new();
    for call in calls {
        lines.push(format!(
            "message {} in {}: {}",
            number(&call["uid"]),
            text(&call["folder"]),
            text(&call["outcome"]),
        ));
        let changes = list(call, "changes").iter();
        lines.extend(changes.map(|change| format!("  {}", text(change))));
    }
    if response["complete"] == false {
        lines.push("stopped before the last message, because the preview took too long".into());
    }
    if lines.is_empty() {
        lines.push("no messages".into());
    }
    lines
}

/// Formats the result of a comparison as lines: first the differences, then the numbers.
pub(super) fn comparison(response: &Value) -> Vec<String> {
    let differences = list(response, "differences").iter();
    let mut lines: Vec<String> = differences
        .map(|one| {
            format!(
                "{}: {}: {} ({} requests, first {})",
                text(&one["route"]),
                text(&one["place"]),
                text(&one["difference"]),
                number(&one["requests"]),
                text(&one["request"]),
            )
        })
        .collect();
    let count = |key: &str| response[key].as_u64().unwrap_or(0);
    if count("unlisted") > 0 {
        lines.push(format!("{} more differences", count("unlisted")));
    }
    lines.push(format!(
        "{} compared with {}: {} of {} responses differ",
        text(&response["newVersion"]),
        text(&response["version"]),
        count("different"),
        count("compared"),
    ));
    for (key, reason) in [
        (
            "notRepeatable",
            "the serving version does not repeat its host calls",
        ),
        ("notRecorded", "they were too large or too many"),
    ] {
        if count(key) > 0 {
            lines.push(format!("{} requests not compared: {reason}", count(key)));
        }
    }
    lines.extend(list(response, "unstable").iter().map(|field| {
        format!(
            "not compared: {}: {} differs each time ({} requests)",
            text(&field["route"]),
            text(&field["place"]),
            number(&field["requests"]),
        )
    }));
    lines
}

/// Formats the description of a component, and the requirements of its installation, as lines.
pub(super) fn inspection(inspected: &Value) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{} {}",
            text(&inspected["name"]),
            text(&inspected["version"])
        ),
        format!("digest    {}", text(&inspected["digest"])),
    ];
    lines.extend(manifest_lines(inspected));
    for (heading, key) in [
        ("requires consent", "needs"),
        ("cannot be installed", "problems"),
    ] {
        lines.extend(
            list(inspected, key)
                .iter()
                .map(|item| format!("{heading}: {}", text(item))),
        );
    }
    if list(inspected, "problems").is_empty() {
        lines.push("can be installed".into());
    }
    lines
}

/// Returns the policy, the imports and the routes as lines. Marks each import that is not granted.
fn manifest_lines(value: &Value) -> Vec<String> {
    let policy = &value["ceiling"];
    let mut lines = Vec::new();
    if policy.is_object() {
        lines.push(format!("grants    {}", joined(&policy["grants"])));
        if !list(policy, "scopes").is_empty() {
            lines.push(format!("scopes    {}", joined(&policy["scopes"])));
        }
        lines.push(format!("paths     {}", joined(&policy["paths"])));
        lines.push(format!(
            "limits    {} MiB of memory, {} s of CPU, {} s in all, {} concurrent requests, {} host calls, {} MiB of response",
            number(&policy["memory"]),
            number(&policy["cpu"]),
            number(&policy["deadline"]),
            number(&policy["concurrency"]),
            number(&policy["hostCalls"]),
            number(&policy["response"]),
        ));
        lines.extend(optional_settings(policy));
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
    let handlers = list(value, "handlers");
    if !handlers.is_empty() {
        lines.push("handlers".into());
        lines.extend(handlers.iter().map(|one| format!("  {}", text(one))));
    }
    lines
}

/// Returns the settings that only some modules have, such as the storage quota and the allowed
/// hosts.
fn optional_settings(policy: &Value) -> Vec<String> {
    let granted = |grant: &str| {
        let grants = policy["grants"].as_array();
        grants.is_some_and(|grants| grants.iter().any(|one| one == grant))
    };
    let mut lines = Vec::new();
    if granted("store") {
        lines.push(format!(
            "store     {} KiB per account",
            number(&policy["store"])
        ));
    }
    if granted("http-client") {
        let hosts = joined(&policy["hosts"]);
        let hosts = if hosts.is_empty() {
            "none".into()
        } else {
            hosts
        };
        lines.push(format!("hosts     {hosts}"));
    }
    if policy["reuse"] == true {
        lines.push("reuse     a sandbox serves several requests, one after another".into());
    }
    if policy["activeContent"] == true {
        lines.push("content   responses may be HTML, JavaScript and XML".into());
    }
    if policy["rollsBack"] == true {
        lines.push("breaker   roll back if most requests fail".into());
    }
    lines
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn joined(value: &Value) -> String {
    let joined = value.as_array().into_iter().flatten().map(text);
    joined.collect::<Vec<_>>().join(", ")
}

/// Returns the text of a JSON string with escaped control characters. The author of the module
/// wrote the text and can use any characters.
fn text(value: &Value) -> String {
    value.as_str().map(escape).unwrap_or_default()
}

fn number(value: &Value) -> String {
    if value.is_null() {
        "-".into()
    } else {
        value.to_string()
    }
}

fn digest(value: &Value) -> String {
    text(value).chars().take(DIGEST_PREFIX).collect()
}
