//! Debian's container registry, and cosign, which signs its artifacts. `scripts/setup --tests`
//! installs both.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::process::free_address;
use crate::sdk::tools_folder;
use crate::wait_until;

/// A registry of one test, without TLS and without authentication. Its process ends when it is
/// dropped, or with the thread that started it.
#[derive(Debug)]
pub struct DockerRegistry {
    process: Child,
    address: String,
    folder: TempDir,
}

impl DockerRegistry {
    /// Starts an empty registry, and creates a key pair of cosign.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = free_address().to_string();
        let file = folder.path().join("registry.yml");
        let text = format!(
            "version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: '{}'}}, delete: {{enabled: true}}}}
http: {{addr: '{address}'}}
",
            folder.path().join("data").display()
        );
        std::fs::write(&file, text).unwrap();
        let program = tools_folder().join("docker-registry/usr/bin/docker-registry");
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let registry = Self {
            process,
            address,
            folder,
        };
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{}/v2/", registry.address);
        wait_until("the registry responds", async || {
            client.get(&url).send().await.is_ok()
        })
        .await;
        registry.cosign(&["generate-key-pair"]);
        registry
    }

    /// Returns the settings of a service that uses this registry and the key of cosign.
    pub fn settings(&self) -> String {
        let key = self.folder.path().join("cosign.pub");
        format!(
            "registry.plain_http = ['{}']\nregistry.keys = ['{}']\n",
            self.address,
            key.display()
        )
    }

    /// Returns the reference to a tag.
    pub fn reference(&self, tag: &str) -> String {
        format!("oci://{}/modules/variant:{tag}", self.address)
    }

    /// Signs an artifact. `reference` must contain its digest.
    pub fn sign(&self, reference: &str) {
        let image = reference.trim_start_matches("oci://");
        let options = ["--tlog-upload=false", "--allow-http-registry", "--yes"];
        let mut arguments = vec!["sign", "--key", "cosign.key"];
        arguments.extend(options);
        arguments.push(image);
        self.cosign(&arguments);
    }

    fn cosign(&self, arguments: &[&str]) {
        let folder: &Path = self.folder.path();
        let output = Command::new(tools_folder().join("debian-13/usr/bin/cosign"))
            .env_clear()
            .envs([("HOME", folder.as_os_str())])
            .env("COSIGN_PASSWORD", "s3cret")
            .current_dir(folder)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
