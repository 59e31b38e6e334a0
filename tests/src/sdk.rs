//! An agent by other authors: the client of the protocol's own SDK, as `scripts/setup --tests` installs it, in a process of its own.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::EVENTUALLY;

/// The script that uses the SDK.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/agent.mjs");

/// A client of the SDK. Dropping it ends the process.
#[derive(Debug)]
pub struct Sdk {
    _process: Child,
    wishes: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Sdk {
    /// Starts a client that knows only the endpoint's URL. `major` is `1`, `2`, or `2-newest` for the newest revision of the protocol.
    pub fn start(major: &str, endpoint: &str) -> Self {
        let tools = installed();
        let mut process = Command::new(tools.join("guests/bin/node"))
            .arg(SCRIPT)
            .args([tools.join("agent").as_os_str(), major.as_ref()])
            .arg(endpoint)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap()).lines();
        Self {
            wishes: process.stdin.take().unwrap(),
            says,
            _process: process,
        }
    }

    /// The next line of output, which must have this name.
    pub async fn says(&mut self, name: &str) -> Value {
        let line = timeout(EVENTUALLY, self.says.next_line()).await.unwrap();
        let line = line
            .unwrap()
            .expect("the client ended; see its output above");
        let said: Value = serde_json::from_str(&line).unwrap();
        assert!(said.get(name).is_some(), "{name}: {said}");
        said
    }

    /// Sends a command: list the tools, or `call` one.
    pub async fn wish(&mut self, wish: &Value) {
        let line = format!("{wish}\n");
        self.wishes.write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a command and returns the result.
    pub async fn asked(&mut self, wish: &Value) -> Value {
        self.wish(wish).await;
        self.says("answer").await
    }
}

/// The folder into which `scripts/setup` installs.
pub fn installed() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"),
        PathBuf::from,
    );
    cache.join("latchmail")
}
