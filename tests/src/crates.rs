//! Checks the dependencies of the service's crates. This module reads only the manifests: the
//! compiler itself checks that there is no cycle.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The crates of the service. Each may depend on those before it.
const CRATES: [&str; 35] = [
    "latchmail-shape",
    "latchmail-html",
    "latchmail-mailserver",
    "latchmail-core",
    "latchmail-terminal",
    "latchmail-net",
    "latchmail-redis",
    "latchmail-transport",
    "latchmail-oidc",
    "latchmail-registry",
    "latchmail-mime",
    "latchmail-search",
    "latchmail-compose",
    "latchmail-imap",
    "latchmail-sieve",
    "latchmail-directory",
    "latchmail-dkim",
    "latchmail-jobs",
    "latchmail-accounts",
    "latchmail-oauth",
    "latchmail-mailbox",
    "latchmail-events",
    "latchmail-callbacks",
    "latchmail-export",
    "latchmail-milter",
    "latchmail-attach",
    "latchmail-bindings",
    "latchmail-runtime",
    "latchmail-handlers",
    "latchmail-http",
    "latchmail-pages",
    "latchmail-service",
    "latchmail-dev",
    "latchmail-cli",
    "latchmail",
];

/// Libraries, and the only crates that may depend on them.
const RESERVED: [(&str, &[&str]); 7] = [
    // All SQL is in one crate.
    ("sqlx", &["latchmail-directory"]),
    ("rusqlite", &["latchmail-directory"]),
    ("imap-proto", &["latchmail-imap"]),
    ("redis", &["latchmail-redis"]),
    // The HTTP server is in one crate. The others are clients of other servers, and of the
    // operator's socket.
    (
        "hyper",
        &[
            "latchmail-transport",
            "latchmail-net",
            "latchmail-mailbox",
            "latchmail-cli",
        ],
    ),
    // All HTML pages are in one crate.
    ("maud", &["latchmail-pages"]),
    ("wasmtime", &["latchmail-bindings", "latchmail-runtime"]),
];

/// Returns the dependencies of a package, without those of its tests.
fn dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.filter(|one| one["kind"] != "dev")
}

#[test]
fn each_crate_depends_only_on_the_crates_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{metadata:?}");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let level = |name: &Value| CRATES.iter().position(|one| name == one);
    let mut wrong = Vec::new();
    let mut found = 0;
    for package in packages {
        let (name, manifest) = (&package["name"], &package["manifest_path"]);
        let in_host = Path::new(manifest.as_str().unwrap()).starts_with(root.join("host"));
        let Some(own) = level(name) else {
            if in_host {
                wrong.push(format!("{name} is not in the list of crates"));
            }
            continue;
        };
        found += 1;
        for dependency in dependencies(package) {
            let other = &dependency["name"];
            let is_lower = level(other).is_some_and(|other| other < own);
            if dependency["path"].is_string() && !is_lower {
                wrong.push(format!("{name} must not depend on {other}"));
            }
            let reserved = RESERVED.iter().find(|(library, _)| other == library);
            if reserved.is_some_and(|(_, users)| !users.iter().any(|user| name == user)) {
                wrong.push(format!("{name} must not use {other}"));
            }
        }
    }
    assert_eq!(found, CRATES.len(), "a crate of the list does not exist");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
