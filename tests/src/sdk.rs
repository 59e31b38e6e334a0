//! An agent that uses the official SDK of the protocol, in a separate process.
//! `scripts/setup --tests` installs the SDK.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::TEST_TIMEOUT;

/// The script that uses the SDK in TypeScript.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/agent.mjs");
/// The script that uses the SDK in Python.
const PYTHON_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/agent.py");

/// A client of the SDK. Its process ends when it is dropped.
#[derive(Debug)]
pub struct Sdk {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Sdk {
    /// Starts a client that knows only the endpoint's URL. `major` is `1`, `2`, or `2-newest` for
    /// the newest revision of the protocol.
    pub fn start(major: &str, endpoint: &str) -> Self {
        let tools = tools_folder();
        let mut command = Command::new(tools.join("guests/bin/node"));
        command
            .arg(SCRIPT)
            .args([tools.join("agent").as_os_str(), major.as_ref()])
            .arg(endpoint);
        Self::spawn(command)
    }

    /// Starts a client of the SDK in Python. It signs in nowhere, so the endpoint must add a token
    /// ([`crate::TokenProxy`]). It can open URLs: it prints the URL that it is asked to show.
    pub fn start_python(endpoint: &str) -> Self {
        let python = tools_folder().join("agent/python/bin/python");
        let mut command = Command::new(python);
        command.arg(PYTHON_SCRIPT).arg(endpoint);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self {
            input: process.stdin.take().unwrap(),
            output,
            _process: process,
        }
    }

    /// Returns the next line of output, which must have this name.
    pub async fn read_output(&mut self, name: &str) -> Value {
        let line = timeout(TEST_TIMEOUT, self.output.next_line())
            .await
            .unwrap();
        let line = line
            .unwrap()
            .expect("the client ended; see its output above");
        let printed: Value = serde_json::from_str(&line).unwrap();
        assert!(printed.get(name).is_some(), "{name}: {printed}");
        printed
    }

    /// Sends a command: list the tools, or `call` one.
    pub async fn send_command(&mut self, command: &Value) {
        let line = format!("{command}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a command and returns the result.
    pub async fn result_of(&mut self, command: &Value) -> Value {
        self.send_command(command).await;
        self.read_output("answer").await
    }
}

/// Returns the folder into which `scripts/setup` installs.
pub fn tools_folder() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"),
        PathBuf::from,
    );
    cache.join("latchmail")
}
