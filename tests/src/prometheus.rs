//! A Prometheus server of one test, which reads the metrics of a service every second.
//! `scripts/setup --tests` installs the program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::free_address;
use crate::sdk::tools_folder;
use crate::{Service, percent_encoded, wait_until};

/// The server. Its process ends when it is dropped, or with the thread that started it.
#[derive(Debug)]
pub struct Prometheus {
    process: Child,
    base: String,
    client: reqwest::Client,
    _folder: TempDir,
}

impl Prometheus {
    /// Returns the path of a program of Prometheus: `prometheus` or `promtool`.
    pub fn program(name: &str) -> PathBuf {
        tools_folder().join("prometheus/usr/bin").join(name)
    }

    /// Starts a server that reads the metrics of `service` and evaluates the rules in a file.
    /// Returns when the server has two samples of each series, because rates need two.
    pub async fn start(service: &Service, rules: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = free_address();
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{}']
scrape_configs:
  - job_name: latchmail
    static_configs: [{{targets: ['{}']}}]
",
            rules.display(),
            service.metrics_address(),
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(Self::program("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Self {
            process: command.spawn().unwrap(),
            base: format!("http://{address}/api/v1"),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            _folder: folder,
        };
        wait_until("Prometheus has read the metrics twice", async || {
            let samples = server.get("query?query=count_over_time(up[1m])>2").await;
            samples.is_some_and(|data| data["result"] != serde_json::json!([]))
        })
        .await;
        server
    }

    /// Returns the member `data` of a response. Returns `None` if the server does not respond with
    /// success.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let url = format!("{}/{path}", self.base);
        let response: Value = self.client.get(url).send().await.ok()?.json().await.ok()?;
        (response["status"] == "success").then(|| response["data"].clone())
    }

    /// Returns the current series of an expression.
    pub async fn query(&self, expression: &str) -> Vec<Value> {
        let path = format!("query?query={}", percent_encoded(expression));
        let data = self.get(&path).await;
        let data = data.unwrap_or_else(|| panic!("{expression} cannot be evaluated"));
        data["result"].as_array().unwrap().clone()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
