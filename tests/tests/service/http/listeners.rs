//! The listeners of the service: Unix sockets, the PROXY protocol, and the sockets of a service
//! manager.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;

use latchmail_tests::process::free_address;
use latchmail_tests::tls::CertificateFolder;
use latchmail_tests::{RawClient, RawResponse, Service, Setup, TEST_TIMEOUT, program, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

const HEALTH: &str = "GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n";
/// A local address that is not a trusted proxy in these tests.
const OTHER_ADDRESS: [u8; 4] = [127, 0, 0, 9];
const PROXY_PROTOCOL: &str = "http.proxy_protocol = true\nhttp.trusted_proxies = ['127.0.0.1']";

/// Returns the response on a new connection to a Unix socket.
async fn response_on(socket: &Path, path: &str, headers: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    let read = stream.read_to_string(&mut response);
    timeout(TEST_TIMEOUT, read).await.unwrap().unwrap();
    response
}

fn header<'r>(response: &'r str, name: &str) -> Option<&'r str> {
    response
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn remaining(response: &RawResponse) -> u32 {
    let remaining = response.header("x-ratelimit-remaining").unwrap();
    remaining.parse().unwrap()
}

#[tokio::test]
async fn a_unix_socket_serves_the_processes_that_may_connect() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("http.sock");
    // The socket of a killed service stays.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let setting = format!("listen = 'unix:{}'", socket.display());
    let mut service = Setup::default()
        .with_default_limits()
        .with(&setting)
        .start()
        .await;
    let file = std::fs::metadata(&socket).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o660);
    let response = response_on(&socket, "/api/health", "X-Request-Id: from-proxy\r\n").await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert_eq!(header(&response, "x-request-id"), Some("from-proxy"));
    // Each address in X-Forwarded-For has its own rate limit. Without the header, the client is the
    // local process.
    let domains = async |client: &str| {
        let headers = if client.is_empty() {
            String::new()
        } else {
            format!("X-Forwarded-For: {client}\r\n")
        };
        let response = response_on(&socket, "/api/v1/auth/domains", &headers).await;
        header(&response, "x-ratelimit-remaining")
            .unwrap()
            .to_owned()
    };
    assert_eq!(domains("192.0.2.1").await, "29");
    assert_eq!(domains("192.0.2.1").await, "28");
    assert_eq!(domains("192.0.2.2").await, "29");
    assert_eq!(domains("").await, "29");
    assert_eq!(domains("127.0.0.1").await, "28");
    service.stop().await;
    assert!(!socket.exists(), "the file is removed at the end");
}

#[tokio::test]
async fn a_unix_socket_of_another_service_and_another_file_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("http.sock");
    let setting = format!("listen = 'unix:{}'", socket.display());
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = latchmail_tests::start_error(&setting).await;
    assert!(error.contains("another service uses the socket"), "{error}");
    assert!(error.contains("`listen`"), "{error}");
    drop(listener);
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "data").unwrap();
    let error = latchmail_tests::start_error(&setting).await;
    assert!(error.contains("is not a socket"), "{error}");
    assert_eq!(std::fs::read(&socket).unwrap(), b"data");
}

#[tokio::test]
async fn the_client_is_the_address_in_the_header_of_the_proxy_protocol() {
    let service = Setup::default()
        .with_default_limits()
        .with(PROXY_PROTOCOL)
        .start()
        .await;
    let domains =
        "GET /api/v1/auth/domains HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.99\r\n\r\n";
    let mut v2 =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x02\xc0\0\x02\x09\x10\x20\x01\xbb".to_vec();
    v2.extend_from_slice(domains.as_bytes());
    let v1 =
        |client: &str| format!("PROXY TCP4 {client} 192.0.2.9 4711 443\r\n{domains}").into_bytes();
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec();
    for (bytes, left) in [
        (v1("192.0.2.1"), 29),
        (v1("192.0.2.1"), 28),
        (v2, 29),
        (v1("192.0.2.2"), 28),
        // The proxy's own connections are a trusted proxy's, so its X-Forwarded-For counts.
        ([&local, domains.as_bytes()].concat(), 29),
        (v1("192.0.2.99"), 28),
        (format!("PROXY UNKNOWN\r\n{domains}").into_bytes(), 27),
    ] {
        let mut client = RawClient::connect(&service).await;
        client.send(&bytes).await;
        let response = client.response().await.unwrap();
        assert_eq!(response.status, 200);
        assert_eq!(remaining(&response), left, "{}", bytes.escape_ascii());
    }
}

#[tokio::test]
async fn only_trusted_proxies_send_the_proxy_header_and_their_connections_need_it() {
    let service = Service::with(&format!("{PROXY_PROTOCOL}\nhttp.header_timeout = 0.3")).await;
    let header = format!("PROXY TCP4 192.0.2.1 192.0.2.9 4711 443\r\n{HEALTH}");
    let mut elsewhere = RawClient::connect_from(OTHER_ADDRESS, service.address()).await;
    elsewhere.send(HEALTH).await;
    assert_eq!(elsewhere.response().await.unwrap().status, 200);
    let mut elsewhere = RawClient::connect_from(OTHER_ADDRESS, service.address()).await;
    elsewhere.send(&header).await;
    assert_eq!(elsewhere.response().await.unwrap().status, 400);
    for bytes in [HEALTH, "PROXY TCP9 a b\r\n", "PROXY TCP4 192.0", ""] {
        let mut client = RawClient::connect(&service).await;
        client.try_send(bytes).await;
        assert!(is_closed(&mut client).await, "{bytes:?}");
    }
    let mut proxy = RawClient::connect(&service).await;
    proxy.send(&header).await;
    assert_eq!(proxy.response().await.unwrap().status, 200);
}

/// Returns `true` if the service closes or resets the connection without a response.
async fn is_closed(client: &mut RawClient) -> bool {
    let mut byte = [0];
    let read = client.stream.read(&mut byte);
    matches!(timeout(TEST_TIMEOUT, read).await.unwrap(), Ok(0) | Err(_))
}

#[tokio::test]
async fn the_limit_on_connections_applies_to_the_client_in_the_header() {
    let service = Service::with(&format!(
        "{PROXY_PROTOCOL}\nhttp.connections_per_client = 1"
    ))
    .await;
    let connect = async |source: &str| {
        let mut client = RawClient::connect(&service).await;
        client.send(format!("{source}\r\n{HEALTH}")).await;
        client
    };
    let first = "PROXY TCP4 192.0.2.1 192.0.2.9 4711 443";
    let mut held = connect(first).await;
    assert_eq!(held.response().await.unwrap().status, 200);
    assert!(is_closed(&mut connect(first).await).await);
    for other in [
        "PROXY TCP4 192.0.2.2 192.0.2.9 4711 443",
        "PROXY UNKNOWN",
        "PROXY UNKNOWN",
    ] {
        let mut client = connect(other).await;
        assert_eq!(client.response().await.unwrap().status, 200, "{other}");
        std::mem::forget(client);
    }
    drop(held);
    wait_until("the closed connection no longer counts", async || {
        let mut again = connect(first).await;
        !is_closed(&mut again).await
    })
    .await;
}

/// Starts the program with `socket` as the socket that a service manager passes, as descriptor 3.
fn activate(arguments: &[&str], socket: &str, config: &Path) -> Child {
    let script = "import os, socket, sys
kind, address = sys.argv[1].split('=', 1)
if kind.startswith('unix'):
    s = socket.socket(socket.AF_UNIX)
    s.bind(address)
    os.chmod(address, 0o666 if kind == 'unix-open' else 0o660)
else:
    host, port = address.split(':')
    s = socket.socket()
    s.bind((host, int(port)))
s.listen()
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid() + int(sys.argv[2])))
os.execv(sys.argv[3], sys.argv[3:])";
    Command::new("python3")
        .args(["-c", script, socket])
        .args(arguments)
        .arg(program())
        .args(["serve", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn configuration(state: &Path, listen: &str) -> String {
    let state = state.display();
    format!(
        "listen = '{listen}'
base_url = 'http://service.test'
key_file = '{state}/latchmail.key'
cache_dir = '{state}/cache'
admin.socket = '{state}/admin.sock'
database.url = 'sqlite:{state}/latchmail.db'
database.mailserver = '{state}/mailserver.db'
registration.domains = ['first.test']
"
    )
}

async fn is_served(address: &str) -> bool {
    let health = reqwest::get(format!("http://{address}/api/health")).await;
    health.is_ok_and(|response| response.status() == 200)
}

#[tokio::test]
async fn sockets_of_a_service_manager_replace_the_configured_address() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("latchmail.toml");
    // Different loopback addresses, because both calls return the same port.
    let configured = free_address().to_string();
    let inherited = free_address().to_string().replace("127.0.0.1", "127.0.0.2");
    std::fs::write(&config, configuration(folder.path(), &configured)).unwrap();
    let program = activate(&["0"], &format!("tcp={inherited}"), &config);
    wait_until("the inherited socket is served", async || {
        is_served(&inherited).await
    })
    .await;
    assert!(!is_served(&configured).await);
    drop(program);

    let socket = folder.path().join("inherited.sock");
    let mut program = activate(&["0"], &format!("unix={}", socket.display()), &config);
    wait_until("the inherited Unix socket is served", async || {
        socket.exists()
    })
    .await;
    let response = response_on(&socket, "/api/health", "").await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(program.id().unwrap().try_into().unwrap()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(program.wait().await.unwrap().success());
    assert!(socket.exists(), "the file belongs to the service manager");

    // Every local user could connect to this socket.
    let open = folder.path().join("open.sock");
    let mut program = activate(&["0"], &format!("unix-open={}", open.display()), &config);
    let exit = timeout(TEST_TIMEOUT, program.wait()).await;
    assert!(!exit.unwrap().unwrap().success());

    // The variables of a parent process are ignored.
    let other = inherited;
    let _program = activate(&["1"], &format!("tcp={other}"), &config);
    wait_until("the configured address is served", async || {
        is_served(&configured).await
    })
    .await;
}

#[tokio::test]
async fn the_health_command_reaches_every_kind_of_listener() {
    let folder = tempfile::tempdir().unwrap();
    let tls = CertificateFolder::create(folder.path()).settings();
    let unix = format!(
        "listen = 'unix:{}'",
        folder.path().join("http.sock").display()
    );
    for (listen, settings) in [
        ("", String::new()),
        ("", tls.clone()),
        ("", PROXY_PROTOCOL.to_owned()),
        ("", format!("{tls}{PROXY_PROTOCOL}")),
        ("", PROXY_PROTOCOL.replace("127.0.0.1", "192.0.2.1")),
        (&unix, String::new()),
        (&unix, format!("{tls}http.proxy_protocol = true")),
    ] {
        let mut service = Service::with(&format!("{listen}\n{settings}")).await;
        let address = &service.app().config.listen;
        let file = folder.path().join("latchmail.toml");
        let text = format!("listen = '{address}'\nbase_url = 'https://a.example'\n{settings}");
        std::fs::write(&file, text).unwrap();
        let health = async || {
            let mut command = tokio::process::Command::new(program());
            command.env_clear().arg("health").arg("--config").arg(&file);
            command.output().await.unwrap()
        };
        let output = health().await;
        assert!(output.status.success(), "{settings}: {output:?}");
        service.stop().await;
        assert_eq!(health().await.status.code(), Some(1), "{settings}");
    }
}
