//! Runs the official conformance suite of the protocol against the agent endpoint and the
//! authorization server.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::TokenProxy;
use crate::process::free_address;
use crate::sdk::tools_folder;

/// The time limit of one scenario.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The conformance suite, as `scripts/setup --tests` installs it.
#[derive(Debug)]
pub struct Conformance {
    tools: PathBuf,
}

/// The results of a scenario's checks.
#[derive(Debug, Default)]
pub struct Report {
    /// The passed checks, by id.
    pub passed: Vec<String>,
    /// The failed checks, by id, each with the reason.
    pub failed: Vec<(String, String)>,
}

impl Default for Conformance {
    fn default() -> Self {
        Self {
            tools: tools_folder(),
        }
    }
}

impl Conformance {
    fn command(&self) -> Command {
        let suite = "conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js";
        let mut command = Command::new(self.tools.join("guests/bin/node"));
        command
            .arg(self.tools.join(suite))
            // Without the cache, a third of each run compiles the same scripts.
            .env(
                "NODE_COMPILE_CACHE",
                std::env::temp_dir().join("node-compiled"),
            )
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Returns the names of the suite's scenarios for servers, or with `--authorization` for
    /// authorization servers.
    pub async fn scenarios(&self, of: &str) -> Vec<String> {
        let mut command = self.command();
        let listed = command.args(["list", of]).output().await.unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let names = listed.lines().filter_map(|line| line.strip_prefix("  - "));
        names
            .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
            .collect()
    }

    /// Runs a scenario of a revision against the endpoint behind a proxy.
    pub async fn run(&self, proxy: &TokenProxy, revision: &str, scenario: &str) -> Report {
        let results = TempDir::new().unwrap();
        let mut command = self.command();
        command
            .args(["server", "--url", &format!("http://{}/mcp", proxy.address)])
            .args(["--spec-version", revision, "--scenario", scenario])
            .arg("--output-dir")
            .arg(results.path());
        let ran = timeout(TIMEOUT, command.output()).await;
        let ran = ran.unwrap().unwrap();
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned()
            + &String::from_utf8_lossy(&ran.stderr);
        Report::of(results.path()).unwrap_or_else(|| panic!("{scenario}: {printed}"))
    }

    /// Starts the scenarios of a revision for the authorization server at `issuer`, as a registered
    /// public client. The scenarios wait for a user.
    pub async fn authorization(&self, issuer: &str, client_id: &str, revision: &str) -> PendingRun {
        let results = TempDir::new().unwrap();
        let port = free_address().port();
        let mut command = self.command();
        let mut running = command
            .args(["authorization", "--url", issuer, "--client-id", client_id])
            .args(["--resource", &format!("{issuer}/mcp")])
            .args(["--spec-version", revision, "--port", &port.to_string()])
            .arg("--output-dir")
            .arg(results.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(running.stdout.take().unwrap()).lines();
        let beginning = format!("{issuer}/login?");
        let page = loop {
            let line = timeout(TIMEOUT, output.next_line()).await.unwrap().unwrap();
            let line = line.expect("the suite ended before it printed a page");
            if line.starts_with(&beginning) {
                break line;
            }
        };
        PendingRun {
            page,
            running,
            output,
            results,
        }
    }
}

/// The suite while it waits for a user.
#[derive(Debug)]
pub struct PendingRun {
    /// The page on which the user signs in.
    pub page: String,
    running: Child,
    output: Lines<BufReader<ChildStdout>>,
    results: TempDir,
}

impl PendingRun {
    /// Returns the results after the user has signed in.
    pub async fn report(mut self) -> Report {
        let mut printed = Vec::new();
        while let Some(line) = timeout(TIMEOUT, self.output.next_line())
            .await
            .unwrap()
            .unwrap()
        {
            printed.push(line);
        }
        timeout(TIMEOUT, self.running.wait())
            .await
            .unwrap()
            .unwrap();
        Report::of(self.results.path()).unwrap_or_else(|| panic!("{}", printed.join("\n")))
    }
}

impl Report {
    /// Reads the results of the scenarios, each in a folder of its own; `None` if there are none.
    fn of(results: &Path) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut report = Self::default();
        let mut any = false;
        for folder in std::fs::read_dir(results).ok()? {
            let checks = std::fs::read(folder.ok()?.path().join("checks.json")).ok()?;
            let checks: Vec<Value> = serde_json::from_slice(&checks).ok()?;
            any = true;
            for check in checks {
                let id = text(&check["id"]);
                match check["status"].as_str() {
                    Some("SUCCESS") => report.passed.push(id),
                    Some("FAILURE" | "WARNING") => {
                        report.failed.push((id, text(&check["errorMessage"])));
                    }
                    _ => {}
                }
            }
        }
        any.then_some(report)
    }
}
