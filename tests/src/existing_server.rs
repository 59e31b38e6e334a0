//! A running mail server of an operator who does not use Latchmail yet: Dovecot and Postfix with
//! their own users, configuration files and aliases.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use latchmail_mailserver::{DovecotVersion, LocalServers, Lookup};
use lettre::transport::smtp::authentication::Credentials;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::process::free_address;
use crate::settings::{high_limits, settings};
use crate::{DOMAIN, EventStream, Imap, ProgramOutput, Response, program, wait_until};

/// The users of the mail server. Their addresses are on [`DOMAIN`]. `cleo` has a log-in name
/// without a domain.
const USERS: [&str; 3] = ["ann", "bob", "cleo"];

/// The settings of Dovecot 2.3 and 2.4.
const DOVECOT_2_3: &str = "
passdb {
  driver = passwd-file
  args = {config}/users
}
userdb {
  driver = passwd-file
  args = {config}/users
}
mail_location = maildir:~/Maildir
";
const DOVECOT_2_4: &str = "
passdb passwd-file {
  passwd_file_path = {config}/users
}
userdb passwd-file {
  passwd_file_path = {config}/users
}
mail_driver = maildir
mail_path = ~/Maildir
";

/// The settings that have the same syntax in both versions.
const DOVECOT: &str = "
auth_mechanisms = plain login
mail_uid = mail
mail_gid = mail
first_valid_uid = 1
first_valid_gid = 1
namespace inbox {
  inbox = yes
  mailbox Sent {
    special_use = \\Sent
    auto = subscribe
  }
}
service imap-login {
  inet_listener imap {
    port = {imap}
  }
}
service lmtp {
  inet_listener lmtp {
    port = {lmtp}
  }
}
service auth {
  unix_listener postfix-sasl {
    mode = 0660
    user = postfix
    group = postfix
  }
}
";

/// A running mail server. Stops when it is dropped.
#[derive(Debug)]
pub struct ExistingServer {
    servers: LocalServers,
    state: PathBuf,
    _folder: TempDir,
}

/// A service that was started with `latchmail serve` beside an [`ExistingServer`].
#[derive(Debug)]
pub struct AttachedService {
    base: String,
    _child: Child,
}

impl ExistingServer {
    /// Starts the mail server, and writes a configuration of Latchmail. The service has never been
    /// started.
    pub async fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("lm").tempdir().unwrap();
        let state = folder.path().to_owned();
        let unused = state.join("unused/mailserver.db");
        fs::create_dir(state.join("unused")).unwrap();
        let (mail, lookup) = (state.join("mail"), Lookup::Sqlite(unused));
        let mut server = Self {
            servers: LocalServers::start(&mail, &lookup).await.unwrap(),
            state,
            _folder: folder,
        };
        server.configure_dovecot();
        server.configure_postfix().await;
        server.servers.restart_imap().await.unwrap();
        let (imap, smtp) = (server.servers.imap, server.servers.submission);
        let own = format!(
            "imap.address = '{imap}'\nsmtp.address = '{smtp}'\nsieve.address = ''\nsign_in.mailserver.default_domain = '{DOMAIN}'\n"
        );
        server.write_settings(&own);
        server
    }

    fn write_settings(&self, own: &str) {
        let mailserver = self.state.join("mailserver/mailserver.db");
        let text = settings(&self.state, &mailserver, None, &high_limits(), own);
        fs::write(self.config(), text).unwrap();
    }

    fn configure_dovecot(&self) {
        let folder = self.dovecot();
        let fill = |text: &str| {
            text.replace("{config}", folder.to_str().unwrap())
                .replace("{imap}", &self.servers.imap.port().to_string())
                .replace("{lmtp}", &self.servers.lmtp.port().to_string())
        };
        let (version, own) = match DovecotVersion::installed().unwrap() {
            DovecotVersion::V2_3 => ("", DOVECOT_2_3),
            DovecotVersion::V2_4 => (
                "dovecot_config_version = 2.4.1\ndovecot_storage_version = 2.4.1\n",
                DOVECOT_2_4,
            ),
        };
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| name != "local.conf") {
                fs::remove_file(path).unwrap();
            }
        }
        fs::create_dir(folder.join("conf.d")).unwrap();
        let main = format!(
            "{version}protocols = imap lmtp\nlisten = 127.0.0.1\n!include local.conf\n!include conf.d/*.conf\n"
        );
        fs::write(folder.join("dovecot.conf"), main).unwrap();
        fs::write(
            folder.join("conf.d/10-own.conf"),
            fill(DOVECOT) + &fill(own),
        )
        .unwrap();
        let homes = self.state.join("mail/mail");
        let line = |login: &str, name: &str| {
            let home = homes.join(name);
            format!(
                "{login}:{{PLAIN}}{}::::{}::\n",
                password(name),
                home.display()
            )
        };
        let mut users = USERS.map(|name| line(&login_name(name), name)).concat();
        // LMTP looks up the address. No password is valid for this name.
        let address = line(&format!("cleo@{DOMAIN}"), "cleo");
        users.push_str(&address.replace(&password("cleo"), "*"));
        fs::write(folder.join("users"), users).unwrap();
    }

    async fn configure_postfix(&self) {
        let folder = self.postfix();
        let mailboxes = USERS.map(|name| format!("{name}@{DOMAIN} x\n"));
        fs::write(folder.join("mailboxes"), mailboxes.concat()).unwrap();
        let aliases = format!("sales@{DOMAIN} ann@{DOMAIN}\n");
        fs::write(folder.join("virtual"), aliases).unwrap();
        let senders = USERS.map(|name| format!("{name}@{DOMAIN} {}\n", login_name(name)));
        fs::write(folder.join("senders"), senders.concat()).unwrap();
        let table = |name: &str| format!("texthash:{}/{name}", folder.display());
        let parameters = [
            format!("virtual_mailbox_domains = {DOMAIN}"),
            format!("virtual_mailbox_maps = {}", table("mailboxes")),
            format!("virtual_alias_maps = {}", table("virtual")),
            format!("smtpd_sender_login_maps = {}", table("senders")),
            "smtpd_relay_restrictions = permit_sasl_authenticated, reject_unauth_destination"
                .into(),
            "submission_recipient_restrictions = permit_sasl_authenticated, reject".into(),
            "submission_sender_restrictions = reject_sender_login_mismatch".into(),
        ];
        for name in ["aliases", "domains", "mailboxes", "recipients", "senders"] {
            let _ = fs::remove_file(folder.join(format!("{name}.cf")));
        }
        // `postfix check` needs the list of Postfix's files.
        fs::copy("/etc/postfix/postfix-files", folder.join("postfix-files")).unwrap();
        self.set_parameters(&parameters).await;
    }

    /// Adds a file with settings of the operator to Dovecot's configuration.
    pub fn add_dovecot_settings(&self, settings: &str) {
        let file = self.dovecot().join("conf.d/20-own.conf");
        fs::write(file, settings).unwrap();
    }

    /// Changes parameters of `main.cf` (`name = value`), as the operator does.
    pub async fn set_parameters(&self, parameters: &[String]) {
        let folder = self.postfix();
        let mut command = Command::new("postconf");
        command.arg("-c").arg(&folder).arg("-e").args(parameters);
        let output = ProgramOutput::of(&mut command, "").await;
        assert_eq!(output.status, 0, "{output:?}");
        let mut command = Command::new("postfix");
        command.arg("-c").arg(&folder).arg("reload");
        let output = ProgramOutput::of(&mut command, "").await;
        assert_eq!(output.status, 0, "{output:?}");
    }

    /// Returns the path of Latchmail's configuration file.
    pub fn config(&self) -> PathBuf {
        self.state.join("latchmail.toml")
    }

    /// Returns Dovecot's configuration folder.
    pub fn dovecot(&self) -> PathBuf {
        self.state.join("mail/dovecot")
    }

    /// Returns Postfix's configuration folder.
    pub fn postfix(&self) -> PathBuf {
        self.state.join("mail/postfix")
    }

    /// Returns the command `latchmail attach` for this mail server.
    pub fn attach_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("attach").arg("--config").arg(self.config());
        command
            .arg("--dovecot-config")
            .arg(self.dovecot().join("dovecot.conf"));
        command.arg("--postfix-config").arg(self.postfix());
        command.args(arguments).kill_on_drop(true);
        command
    }

    /// Runs `latchmail attach`.
    pub async fn attach(&self, arguments: &[&str], input: &str) -> ProgramOutput {
        ProgramOutput::of(&mut self.attach_command(arguments), input).await
    }

    /// Runs `latchmail detach --yes`.
    pub async fn detach(&self) -> ProgramOutput {
        let mut command = Command::new(program());
        command
            .arg("detach")
            .arg("--yes")
            .arg("--config")
            .arg(self.config());
        ProgramOutput::of(&mut command, "").await
    }

    /// Returns the names, modes, owners and contents of the configuration files, and the settings
    /// that the servers read.
    pub async fn configuration(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for folder in [
            self.dovecot(),
            self.dovecot().join("conf.d"),
            self.postfix(),
        ] {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::metadata(&path).unwrap();
                let owner = (metadata.mode(), metadata.uid(), metadata.gid());
                let content = fs::read(&path).unwrap_or_default();
                let content = String::from_utf8_lossy(&content).into_owned();
                files.insert(path.display().to_string(), format!("{owner:?} {content}"));
            }
        }
        let dovecot = self.dovecot().join("dovecot.conf").display().to_string();
        let postfix = self.postfix().display().to_string();
        for (program, arguments) in [
            ("doveconf", ["-c", &dovecot, "-n"]),
            ("postconf", ["-c", &postfix, "-n"]),
            ("postconf", ["-c", &postfix, "-M"]),
        ] {
            let output = ProgramOutput::of(Command::new(program).args(arguments), "").await;
            files.insert(format!("{program} {}", arguments[2]), output.stdout);
        }
        files
    }

    /// Logs in over IMAP. Returns `None` if Dovecot rejects the password.
    pub async fn log_in(&self, name: &str, password: &str) -> Option<Imap> {
        let stream = TcpStream::connect(self.servers.imap).await.unwrap();
        let mut client = async_imap::Client::new(stream);
        client.read_response().await.unwrap();
        client.login(name, password).await.ok()
    }

    /// Returns `true` if Postfix accepts a log-in of a mail client for submission.
    pub async fn accepts_submission_of(&self, name: &str, password: &str) -> bool {
        let credentials = Credentials::new(name.into(), password.into());
        let builder =
            lettre::AsyncSmtpTransport::<lettre::Tokio1Executor>::builder_dangerous("127.0.0.1");
        let mailer: lettre::AsyncSmtpTransport<lettre::Tokio1Executor> = builder
            .port(self.servers.submission.port())
            .credentials(credentials)
            .build();
        mailer.test_connection().await.is_ok()
    }

    /// Delivers a message by SMTP without a log-in, and waits until it is in the user's mailbox.
    pub async fn deliver(&self, user: &str, to: &str, subject: &str) {
        let message = format!(
            "From: <out@elsewhere.test>\r\nTo: <{to}>\r\nSubject: {subject}\r\n\r\nHello\r\n"
        );
        let mailer =
            lettre::AsyncSmtpTransport::<lettre::Tokio1Executor>::builder_dangerous("127.0.0.1")
                .port(self.servers.smtp.port())
                .build();
        let envelope = lettre::address::Envelope::new(
            Some("out@elsewhere.test".parse().unwrap()),
            vec![to.parse().unwrap()],
        );
        let envelope = envelope.unwrap();
        lettre::AsyncTransport::send_raw(&mailer, &envelope, message.as_bytes())
            .await
            .unwrap();
        wait_until("the message is in the mailbox", async || {
            let mut imap = self
                .log_in(&login_name(user), &password(user))
                .await
                .unwrap();
            imap.select("INBOX").await.unwrap();
            let found = imap.search(format!("SUBJECT \"{subject}\"")).await.unwrap();
            imap.logout().await.unwrap();
            !found.is_empty()
        })
        .await;
    }

    /// Starts the service with its configuration file.
    pub async fn serve(&self) -> AttachedService {
        let address = free_address();
        let text = fs::read_to_string(self.config()).unwrap();
        let text = text.replace("127.0.0.1:0", &address.to_string());
        fs::write(self.config(), text).unwrap();
        let mut command = Command::new(program());
        command
            .env_clear()
            .arg("serve")
            .arg("--config")
            .arg(self.config());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let service = AttachedService {
            _child: command.spawn().unwrap(),
            base: format!("http://{address}"),
        };
        let health = format!("{}/api/health", service.base);
        wait_until("the service responds", async || {
            reqwest::get(&health).await.is_ok()
        })
        .await;
        service
    }
}

impl AttachedService {
    /// Sends a request. `token` is the access token.
    pub async fn request(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<Value>,
    ) -> Response {
        let mut request = self.request_builder(method, path);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        Response::of(request).await
    }

    fn request_builder(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.request(method.parse().unwrap(), format!("{}{path}", self.base))
    }

    /// Opens the stream of the events of a user's mailbox. `token` is the access token.
    pub async fn events(&self, token: &str) -> EventStream {
        let request = self.request_builder("GET", "/api/v1/mail/events");
        EventStream::of(request.bearer_auth(token)).await
    }

    /// Signs in with the existing password of a user, and returns the access token.
    pub async fn sign_in(&self, user: &str) -> String {
        let body = json!({"email": format!("{user}@{DOMAIN}"), "password": password(user)});
        let response = self
            .request("POST", "/api/v1/auth/login", "", Some(body))
            .await;
        assert_eq!(response.status, 200, "{response:?}");
        response.json["accessToken"].as_str().unwrap().to_owned()
    }
}

/// Returns the existing password of a user.
pub fn password(user: &str) -> String {
    format!("existing-{user}")
}

/// Returns the log-in name of a user at the mail server.
pub fn login_name(user: &str) -> String {
    match user {
        "cleo" => user.into(),
        _ => format!("{user}@{DOMAIN}"),
    }
}

/// Returns `true` if no file of Latchmail is in a folder.
pub fn has_no_traces(folder: &Path) -> bool {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    !names
        .into_iter()
        .any(|name| name.to_string_lossy().starts_with("attach"))
}
