//! A second host of a service: another process of the service with the same database and the same
//! mail servers. It runs in the process of the test.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_service::Running;
use tempfile::TempDir;

use crate::{Response, Service};

/// A host that runs until it is stopped.
#[derive(Debug)]
pub struct AnotherHost {
    /// `http://address`, without a slash.
    pub base: String,
    running: Running,
    client: reqwest::Client,
    folder: TempDir,
}

impl Service {
    /// Starts another host with a copy of this service's key file.
    pub async fn another_host(&self) -> AnotherHost {
        let key = std::fs::read_to_string(self.state.join("latchmail.key")).unwrap();
        self.try_another_host(Some(&key), "").await.unwrap()
    }

    /// Starts another host with a key file that has this text, and with these changed lines of
    /// configuration.
    ///
    /// # Errors
    /// Returns the error with which the host refuses to start.
    pub async fn try_another_host(
        &self,
        key_file: Option<&str>,
        changes: &str,
    ) -> Result<AnotherHost, StartError> {
        let folder = tempfile::Builder::new().prefix("lm").tempdir().unwrap();
        let state = folder.path().display();
        if let Some(text) = key_file {
            write_private(&folder.path().join("latchmail.key"), text);
        }
        let own = format!(
            "key_file = '{state}/latchmail.key'\nadmin.socket = '{state}/admin.sock'\nindex.path = '{state}/index'\n{changes}"
        );
        let is_kept = |line: &&str| {
            let key = line.split(" = ").next().unwrap_or_default();
            own.lines()
                .all(|own| !own.starts_with(&format!("{key} = ")))
        };
        let kept: Vec<&str> = self.settings.lines().filter(is_kept).collect();
        let text = format!("{}\n{own}", kept.join("\n"));
        let mut config = Config::parse(&text, "test", HashMap::new()).unwrap();
        config.events.listen = None;
        let running = latchmail_service::start(config, self.clock.clone()).await?;
        Ok(AnotherHost {
            base: format!("http://{}", running.address),
            running,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            folder,
        })
    }
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

impl AnotherHost {
    /// Returns the path of the host's key file.
    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("latchmail.key")
    }

    /// Returns the response to a request without a body, with this credential.
    pub async fn with_bearer(&self, line: &str, credential: &str) -> Response {
        let (method, path) = line.split_once(' ').unwrap();
        let url = format!("{}{path}", self.base);
        let request = self.client.request(method.parse().unwrap(), url);
        Response::of(request.bearer_auth(credential)).await
    }

    /// Stops the host after its active requests.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}
