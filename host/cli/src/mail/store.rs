//! Where the tokens of a user are: in the keyring of the system (the Secret Service, through
//! `secret-tool` of libsecret), or in a file that only the user can read. Without a session of a
//! desktop there is no keyring.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use latchmail_core::secrets::sha256_hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::now;

/// The program that uses the Secret Service.
const SECRET_TOOL: &str = "secret-tool";
/// The time for a user to unlock the keyring.
const UNLOCK_TIME: Duration = Duration::from_mins(2);
/// The file with the URL of the last sign-in.
const LAST_URL: &str = "url";
const LOCK: &str = "lock";

/// The tokens of a sign-in.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Grant {
    pub(super) access_token: String,
    pub(super) refresh_token: String,
    /// The time at which the access token expires, in Unix seconds.
    pub(super) expires_at: i64,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    /// The address from which mail is sent by default.
    pub(super) address: Option<String>,
}

impl Grant {
    /// Returns the grant with the tokens of a response of the token endpoint.
    pub(super) fn refreshed(self, response: &Value) -> anyhow::Result<Self> {
        let token = |name: &str| {
            let token = response[name].as_str().map(str::to_owned);
            token.with_context(|| format!("the response of the token endpoint has no {name}"))
        };
        Ok(Self {
            access_token: token("access_token")?,
            refresh_token: token("refresh_token")?,
            expires_at: now() + response["expires_in"].as_i64().unwrap_or(0),
            ..self
        })
    }
}

/// The places of tokens.
#[derive(Debug)]
pub(super) struct Store {
    /// The folder of the files.
    folder: PathBuf,
    has_keyring: bool,
}

impl Store {
    /// Finds the places with the variables of the environment.
    pub(super) fn new(environment: &HashMap<String, String>) -> Self {
        let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        let folder = match (variable("XDG_CONFIG_HOME"), variable("HOME")) {
            (Some(config), _) => Path::new(config).to_owned(),
            (None, Some(home)) => Path::new(home).join(".config"),
            // Without a home, no file can be read or written.
            (None, None) => PathBuf::from("/nonexistent"),
        };
        let has_program = || {
            let path = variable("PATH").map(String::as_str).unwrap_or_default();
            path.split(':')
                .any(|folder| Path::new(folder).join(SECRET_TOOL).is_file())
        };
        Self {
            folder: folder.join("latchmail"),
            has_keyring: variable("DBUS_SESSION_BUS_ADDRESS").is_some() && has_program(),
        }
    }

    /// Returns the URL of the last sign-in.
    pub(super) fn last_url(&self) -> anyhow::Result<Option<String>> {
        let text = read(&self.folder.join(LAST_URL))?;
        Ok(text
            .map(|text| text.trim().to_owned())
            .filter(|url| !url.is_empty()))
    }

    /// Stores the URL of a sign-in.
    pub(super) fn set_last_url(&self, url: &str) -> anyhow::Result<()> {
        self.write(LAST_URL, url)
    }

    /// Waits until no other process changes tokens.
    pub(super) async fn lock(&self) -> anyhow::Result<File> {
        self.prepare()?;
        let path = self.folder.join(LOCK);
        let locked = tokio::task::spawn_blocking(move || {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(path)?;
            file.lock()?;
            Ok::<_, io::Error>(file)
        });
        locked
            .await?
            .context("cannot lock the folder of the tokens")
    }

    /// Returns the tokens for the service at `url`. Returns `None` if the user is not signed in.
    pub(super) async fn load(&self, url: &str) -> anyhow::Result<Option<Grant>> {
        let text = match read(&self.folder.join(file_name(url)))? {
            Some(text) => Some(text),
            None if self.has_keyring => self.look_up(url).await?,
            None => None,
        };
        let grant = text.map(|text| serde_json::from_str(&text)).transpose();
        grant.context("the stored tokens are damaged; sign in again")
    }

    /// Stores the tokens for the service at `url`: in the keyring, or in a file if there is no
    /// keyring, or if the keyring refuses them or does not respond.
    pub(super) async fn save(&self, url: &str, grant: &Grant) -> anyhow::Result<()> {
        let text = serde_json::to_string(grant)?;
        if self.has_keyring {
            let label = format!("Latchmail ({url})");
            let arguments = [
                "store",
                "--label",
                &label,
                "application",
                "latchmail",
                "url",
                url,
            ];
            // Refreshed tokens must not be lost: the service accepts the old ones only once.
            if let Ok(Some(_)) = secret_tool(&arguments, &text).await {
                return remove(&self.folder.join(file_name(url)));
            }
        }
        self.write(&file_name(url), &text)
    }

    /// Deletes the tokens for the service at `url`.
    pub(super) async fn delete(&self, url: &str) -> anyhow::Result<()> {
        remove(&self.folder.join(file_name(url)))?;
        if self.has_keyring {
            secret_tool(&["clear", "application", "latchmail", "url", url], "").await?;
        }
        Ok(())
    }

    async fn look_up(&self, url: &str) -> anyhow::Result<Option<String>> {
        let arguments = ["lookup", "application", "latchmail", "url", url];
        let found = secret_tool(&arguments, "").await?;
        Ok(found.filter(|text| !text.is_empty()))
    }

    fn prepare(&self) -> anyhow::Result<()> {
        let mut builder = DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(&self.folder);
        created.with_context(|| format!("cannot create {}", self.folder.display()))
    }

    /// Replaces a file. Only the user can read the file.
    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        self.prepare()?;
        let path = self.folder.join(name);
        let unfinished = self.folder.join(format!("{name}.{}", std::process::id()));
        let write = || {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Returns the name of the file with the tokens for the service at `url`.
fn file_name(url: &str) -> String {
    format!("{}.json", &sha256_hex(url)[..16])
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot delete {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Runs `secret-tool`, which reads a secret from standard input. Returns its output, or `None` if
/// it fails.
async fn secret_tool(arguments: &[&str], input: &str) -> anyhow::Result<Option<String>> {
    let mut command = Command::new(SECRET_TOOL);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let run = async {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // The program can end without reading its input.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = timeout(UNLOCK_TIME, run).await;
    let output = output.map_err(|_| anyhow!("the keyring of the system does not respond"))?;
    let output = output.context("cannot run secret-tool")?;
    let text = output.status.success().then_some(output.stdout);
    Ok(text.and_then(|text| String::from_utf8(text).ok()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn without_a_keyring_the_tokens_are_in_a_file_of_the_user() {
        let home = tempfile::tempdir().unwrap();
        let home_path = home.path().to_str().unwrap().to_owned();
        let environment = HashMap::from([("HOME".to_owned(), home_path)]);
        let store = Store::new(&environment);
        let url = "https://mail.example.org";
        assert!(store.load(url).await.unwrap().is_none());
        let grant = Grant {
            access_token: "a".into(),
            refresh_token: "r".into(),
            expires_at: 1,
            token_endpoint: format!("{url}/auth/token"),
            revocation_endpoint: None,
            address: None,
        };
        store.save(url, &grant).await.unwrap();
        store.set_last_url(url).unwrap();
        let path = store.folder.join(file_name(url));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(store.last_url().unwrap().as_deref(), Some(url));
        let response = serde_json::json!({
            "access_token": "b", "refresh_token": "s", "expires_in": 3600
        });
        let grant = store.load(url).await.unwrap().unwrap();
        let grant = grant.refreshed(&response).unwrap();
        assert_eq!((&*grant.access_token, &*grant.refresh_token), ("b", "s"));
        assert!(grant.expires_at > 3600);
        assert!(store.load("https://other.example").await.unwrap().is_none());
        store.delete(url).await.unwrap();
        assert!(store.load(url).await.unwrap().is_none());
    }
}
