//! An agent that somebody else wrote: the client of the protocol's own makers, as `scripts/setup --tests` installed it, in a process of its own.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::EVENTUALLY;

/// How it is used.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/agent.mjs");

/// One of its clients. It is ended when it is dropped.
#[derive(Debug)]
pub struct Sdk {
    _process: Child,
    wishes: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Sdk {
    /// One of this major that is told the endpoint's address alone: `1`, `2`, or `2-newest`, which takes the newest revision that there is.
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

    /// What it says next, of which this is the name.
    pub async fn says(&mut self, name: &str) -> Value {
        let line = timeout(EVENTUALLY, self.says.next_line()).await.unwrap();
        let line = line.unwrap().expect("it ended; why stands above");
        let said: Value = serde_json::from_str(&line).unwrap();
        assert!(said.get(name).is_some(), "{name}: {said}");
        said
    }

    /// Tells it to do something: to list the tools, or with `call` to call one.
    pub async fn wish(&mut self, wish: &Value) {
        let line = format!("{wish}\n");
        self.wishes.write_all(line.as_bytes()).await.unwrap();
    }

    /// What it says to that.
    pub async fn asked(&mut self, wish: &Value) -> Value {
        self.wish(wish).await;
        self.says("answer").await
    }
}

/// Where `scripts/setup` puts what it installs.
pub(crate) fn installed() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"),
        PathBuf::from,
    );
    cache.join("latchmail")
}
