//! OpenDKIM that signs submissions of mail clients in Postfix, configured as in docs/dkim.md.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::{Service, Setup, TEST_TIMEOUT};

const CONFIGURATION: &str = include_str!("../../host/mailserver/opendkim/opendkim.conf");
const SUBMISSIONS: &str = include_str!("../../host/mailserver/postfix/production-master.cf");
const POLL: Duration = Duration::from_millis(20);

/// The user that Debian's package creates.
const USER: &str = "opendkim";

/// A service whose mail server signs mail that mail clients submit.
#[derive(Debug)]
pub struct SigningService {
    /// The service.
    pub service: Service,
    /// The submission port for mail clients.
    submissions: SocketAddr,
    milter: Child,
    _folder: TempDir,
}

impl Drop for SigningService {
    fn drop(&mut self) {
        let _ = self.milter.kill();
        let _ = self.milter.wait();
    }
}

impl SigningService {
    /// Starts all servers with these additional settings.
    pub async fn start(settings: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("lmdk").tempdir().unwrap();
        let keys = folder.path().join("milter/dkim-keys.db");
        prepare_milter_folder(folder.path(), keys.parent().unwrap());
        let service = Setup::default()
            .with_own_mail()
            .with("dkim.milter = true")
            .with(&format!("database.milter = '{}'", keys.display()))
            .with(settings)
            .start()
            .await;
        let milter = free_socket_address();
        let configuration = configuration(&service, folder.path(), milter).await;
        let file = folder.path().join("opendkim.conf");
        std::fs::write(&file, configuration).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let milter_process = Command::new("/usr/sbin/opendkim")
            .args(["-f", "-x"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let submissions = free_socket_address();
        add_submission_port(&service, submissions, milter);
        let signing = Self {
            service,
            submissions,
            milter: milter_process,
            _folder: folder,
        };
        for address in [milter, submissions] {
            wait_until_listening(address).await;
        }
        signing
    }

    /// Submits a message as a mail client does, with an app password.
    ///
    /// # Errors
    /// The mail server's response.
    pub async fn submit(
        &self,
        app_password: &Value,
        from: &str,
        to: &str,
        message: &str,
    ) -> Result<(), Error> {
        let text = |field: &str| app_password[field].as_str().unwrap().to_owned();
        let envelope = Envelope::new(Some(from.parse().unwrap()), vec![to.parse().unwrap()]);
        let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(
            self.submissions.ip().to_string(),
        )
        .port(self.submissions.port())
        .credentials(Credentials::new(text("username"), text("password")))
        .build();
        let message = message.replace('\n', "\r\n");
        transport
            .send_raw(&envelope.unwrap(), message.as_bytes())
            .await
            .map(drop)
    }
}

/// Prepares the milter's folder as an operator does, with the milter's group.
fn prepare_milter_folder(outer: &Path, folder: &Path) {
    std::fs::set_permissions(outer, std::fs::Permissions::from_mode(0o711)).unwrap();
    std::fs::create_dir(folder).unwrap();
    let group = Command::new("id").args(["-g", USER]).output().unwrap();
    let group = String::from_utf8(group.stdout).unwrap();
    chown(folder, None, Some(group.trim().parse().unwrap())).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o2750)).unwrap();
}

async fn configuration(service: &Service, folder: &Path, milter: SocketAddr) -> String {
    let columns = "table=mailserver_dkim_keys?keycol=domain?datacol=";
    let url = &service.database().url;
    let (table, base) = if url.starts_with("sqlite:") {
        let table = format!("dsn:sqlite3://dkim-/keys.db/{columns}");
        let keys = folder.join("milter");
        (table, format!("BaseDirectory {}", keys.display()))
    } else {
        let (role, host, port, database) = role(url).await;
        let table = format!("dsn:pgsql://{role}@{port}+{host}/{database}/{columns}");
        (table, String::new())
    };
    let socket = format!("inet:{}@{}", milter.port(), milter.ip());
    let values = [
        ("{{socket}}", socket.as_str()),
        ("{{user}}", USER),
        ("{{run}}", "/tmp"),
        ("PidFile                 /tmp/opendkim.pid\n", ""),
        ("{{log}}", "Syslog No"),
        ("{{table}}", &table),
        ("{{base}}", &base),
    ];
    let fill = |text: String, (word, value): &(&str, &str)| text.replace(word, value);
    values.iter().fold(CONFIGURATION.to_owned(), fill)
}

/// Creates a login that can only read the keys, and returns its connection parameters.
async fn role(url: &str) -> (String, String, String, String) {
    let mut administrator = PgConnection::connect(url).await.unwrap();
    let (server, database) = url.rsplit_once('/').unwrap();
    let server = server.rsplit_once('@').map_or(server, |(_, server)| server);
    let (host, port) = server.rsplit_once(':').unwrap();
    let role = format!("milter_{database}");
    let make = format!("CREATE ROLE {role} LOGIN IN ROLE latchmail_milter");
    sqlx::raw_sql(AssertSqlSafe(make))
        .execute(&mut administrator)
        .await
        .unwrap();
    (role, host.into(), port.into(), database.into())
}

/// Adds the template's submission port for mail clients, without TLS.
fn add_submission_port(service: &Service, submissions: SocketAddr, milter: SocketAddr) {
    let mail = service.state.join("mail");
    let file = mail.join("postfix/master.cf");
    let entry = SUBMISSIONS
        .replace("submissions inet", &format!("{submissions} inet"))
        .replace("  -o smtpd_tls_wrappermode=yes\n", "")
        .replace(
            "$submission_milters",
            &format!("$latchmail_milter,inet:{}:{}", milter.ip(), milter.port()),
        );
    let whole = std::fs::read_to_string(&file).unwrap() + &entry;
    std::fs::write(&file, whole).unwrap();
    let master = std::fs::read_to_string(mail.join("queue/pid/master.pid")).unwrap();
    let master = rustix::process::Pid::from_raw(master.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(master, rustix::process::Signal::HUP).unwrap();
}

async fn wait_until_listening(address: SocketAddr) {
    let responses = async {
        while TcpStream::connect(address).await.is_err() {
            sleep(POLL).await;
        }
    };
    let answered = timeout(TEST_TIMEOUT, responses).await;
    answered.unwrap_or_else(|_| panic!("no server listens on {address}"));
}

fn free_socket_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}
