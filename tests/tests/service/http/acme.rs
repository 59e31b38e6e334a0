//! Certificates from a certificate authority, with Pebble, the test server of Let's Encrypt.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use latchmail_tests::process::free_address;
use latchmail_tests::tls::CertificateFolder;
use latchmail_tests::{Nameserver, RawClient, TEST_TIMEOUT, program, wait_until};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const DOMAIN: &str = "mail-api.service.test";
const HEALTH: &str = "GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n";

/// Returns `address` at another loopback address.
fn at(address: SocketAddr, last: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], address.port()))
}

/// A certificate authority. Its process ends when it is dropped.
struct Pebble {
    process: Child,
    api: SocketAddr,
    management: SocketAddr,
    files: CertificateFolder,
}

impl Pebble {
    /// Starts the authority. It connects to `service` to verify domains.
    async fn start(folder: &Path, names: &Nameserver, service: SocketAddr) -> Self {
        let (api, management) = (at(service, 2), at(service, 3));
        let files = CertificateFolder::create(folder);
        let config = folder.join("pebble.json");
        let settings = serde_json::json!({ "pebble": {
            "listenAddress": api, "managementListenAddress": management,
            "certificate": files.certificate(), "privateKey": files.key(),
            "httpPort": 1, "tlsPort": service.port(), "ocspResponderURL": "",
        }});
        std::fs::write(&config, settings.to_string()).unwrap();
        let process = Command::new("pebble")
            .arg("-config")
            .arg(&config)
            .arg("-dnsserver")
            .arg(names.address.to_string())
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        wait_until(
            "the certificate authority accepts connections",
            async || {
                TcpStream::connect(api).await.is_ok()
                    && TcpStream::connect(management).await.is_ok()
            },
        )
        .await;
        Self {
            process,
            api,
            management,
            files,
        }
    }

    /// Returns a client that trusts the certificates of this authority.
    async fn client(&self) -> TlsConnector {
        let stream = self.files.connect(self.management, &[]).await.unwrap();
        let mut client = RawClient::over(stream);
        client
            .send("GET /roots/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await;
        let root = client.response().await.unwrap().body;
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&root).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }
}

/// The service in its own process, because the trust store is that of the process.
struct Process {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Process {
    fn start(
        folder: &Path,
        listen: SocketAddr,
        directory: SocketAddr,
        trusted: &Path,
        more: &str,
    ) -> Self {
        let config = folder.join("latchmail.toml");
        let state = folder.display();
        let text = format!(
            "listen = '{listen}'
key_file = '{state}/latchmail.key'
cache_dir = '{state}/cache'
admin.socket = '{state}/admin.sock'
database.url = 'sqlite:{state}/latchmail.db'
database.mailserver = '{state}/mailserver.db'
registration.domains = ['first.test']
acme.domains = ['{DOMAIN}']
acme.contact = ['mailto:admin@service.test']
acme.directory = 'https://localhost:{port}/dir'
acme.accept_terms = true
{more}
",
            port = directory.port()
        );
        std::fs::write(
            &config,
            text.replace("localhost", &directory.ip().to_string()),
        )
        .unwrap();
        let mut child = Command::new(program())
            .args(["serve", "--config"])
            .arg(&config)
            .env("SSL_CERT_FILE", trusted)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, log }
    }

    /// Reads the log until a line contains `text`, and returns this line.
    async fn wait_for(&mut self, text: &str) -> String {
        let mut log = String::new();
        let line = async {
            while let Some(line) = self.log.next_line().await.unwrap() {
                if line.contains(text) {
                    return line;
                }
                writeln!(log, "{line}").unwrap();
            }
            panic!("the service ended");
        };
        let result = timeout(TEST_TIMEOUT, line).await;
        result.unwrap_or_else(|_| panic!("no line with {text:?}: {log}"))
    }

    async fn stop(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Asserts that the service has a certificate of the authority.
async fn assert_serves(client: &TlsConnector, service: SocketAddr) {
    let stream = TcpStream::connect(service).await.unwrap();
    let name = ServerName::try_from(DOMAIN).unwrap();
    let mut stream = client.connect(name, stream).await.unwrap();
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    let mut start = [0; 15];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
}

/// Returns the files with the account and the certificate.
fn stored(folder: &Path) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(folder.join("acme")).unwrap();
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_certificate_is_ordered_stored_and_used_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let names = Nameserver::start().await;
    names.a(DOMAIN);
    let service = free_address();
    let mut pebble = Pebble::start(folder.path(), &names, service).await;
    let client = pebble.client().await;
    let trusted = pebble.files.authority();
    let mut process = Process::start(folder.path(), service, pebble.api, &trusted, "");
    process.wait_for("received a new TLS certificate").await;
    assert_serves(&client, service).await;
    wait_until("the certificate is stored", async || {
        stored(folder.path()).len() == 2
    })
    .await;
    process.stop().await;
    pebble.process.kill().await.unwrap();
    let mut process = Process::start(folder.path(), service, pebble.api, &trusted, "");
    process.wait_for("loaded the TLS certificate").await;
    assert_serves(&client, service).await;
}

#[tokio::test]
async fn a_failed_order_does_not_stop_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let service = free_address();
    let files = CertificateFolder::create(folder.path());
    let redirect = at(service, 4);
    let more = format!("http.redirect_listen = '{redirect}'");
    // Nothing listens at the address of the authority.
    let authority = at(service, 2);
    let trusted = files.authority();
    let mut process = Process::start(folder.path(), service, authority, &trusted, &more);
    let line = process.wait_for("cannot order a TLS certificate").await;
    assert!(line.contains("next_attempt_seconds=60"), "{line}");
    let mut client = RawClient::connect_from([127, 0, 0, 1], redirect).await;
    client.send(HEALTH).await;
    let response = client.response().await.unwrap();
    let expected = format!("https://{DOMAIN}:{}/api/health", service.port());
    assert_eq!(response.header("location"), Some(&*expected));
    // Clients cannot connect without a certificate.
    assert!(files.connect(service, &[]).await.is_err());
}
