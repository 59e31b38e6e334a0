//! Clients that are slow, silent, disconnected or numerous: each is dropped in time, and its
//! resources are freed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use latchmail_tests::process::{descriptors, memory};
use latchmail_tests::{RawClient, Service, TEST_TIMEOUT, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

const HEALTH: &str = "GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n";
/// A local address that the tests' other requests do not use.
const OTHER_ADDRESS: [u8; 4] = [127, 0, 0, 9];
const LONG_TIMEOUTS: &str = "http.header_timeout = 600\nhttp.idle_timeout = 600";
const SHORT_TIMEOUTS: &str =
    "http.header_timeout = 0.3\nhttp.body_timeout = 0.1\nhttp.idle_timeout = 0.3";

async fn assert_service_responds(service: &Service) {
    service.send("GET /api/health").await.succeeds(200);
}

/// Sends `again` byte by byte, repeatedly, until the service closes the connection.
async fn send_slowly(client: &mut RawClient, again: &str) {
    let gone = async {
        for byte in again.bytes().cycle() {
            if !client.try_send([byte]).await {
                return;
            }
            // The pace of a slow client.
            sleep(Duration::from_millis(5)).await;
            let mut peeked = [0];
            if client.stream.try_read(&mut peeked).is_ok() {
                return;
            }
        }
    };
    timeout(TEST_TIMEOUT, gone)
        .await
        .expect("the service closes the connection of a slow client");
}

/// Returns the final response to a client that sends `bytes` and then slowly sends `again`.
/// [`send_slowly`] has read the first byte of the response.
async fn response_to_slow_request(service: &Service, bytes: &str, again: &str) -> String {
    let mut client = RawClient::connect(service).await;
    client.send(bytes).await;
    send_slowly(&mut client, again).await;
    let mut rest = Vec::new();
    let _ = timeout(TEST_TIMEOUT, client.stream.read_to_end(&mut rest))
        .await
        .expect("the service closes");
    format!("H{}", String::from_utf8(rest).unwrap())
}

#[tokio::test]
async fn a_request_that_arrives_too_slowly_times_out() {
    let service = Service::with_mail_and(SHORT_TIMEOUTS).await;
    let body = "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n";
    let chunked =
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (bytes, again, text) in [
        ("G", "E", "The request did not arrive in time"),
        ("\r\n", "\r\n", "The request did not arrive in time"),
        (
            "GET /api/health HTTP/1.1\r\n",
            "Host: a\r\n",
            "The request did not arrive in time",
        ),
        (
            "GET /api/health HTTP/1.1\r\nX: ",
            "y",
            "The request did not arrive in time",
        ),
        (body, "x", "The request's body did not arrive in time"),
        (
            chunked,
            "1\r\nx\r\n",
            "The request's body did not arrive in time",
        ),
        (chunked, "0", "The request's body did not arrive in time"),
    ] {
        let answer = response_to_slow_request(&service, bytes, again).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{bytes:?}: {answer}");
        let error = format!(r#"{{"error":"{text}","code":"request_timeout"}}"#);
        assert!(answer.ends_with(&error), "{bytes:?}: {answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        assert_service_responds(&service).await;
    }
}

#[tokio::test]
async fn slow_clients_do_not_block_other_clients() {
    let service = Service::with_mail_and("http.header_timeout = 600\nhttp.body_timeout = 60").await;
    let mut slow = Vec::new();
    for n in 0..200 {
        let mut client = RawClient::connect(&service).await;
        let request = if n % 2 == 0 {
            "GET /api/health HTTP/1.1\r\nHost: a\r\nX: "
        } else {
            "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"
        };
        client.send(request).await;
        slow.push(client);
    }
    let ada = service.person("ada").await;
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    drop(slow);
}

#[tokio::test]
async fn a_client_that_stops_in_a_request_gets_a_timeout_response() {
    let service = Service::with_mail_and(SHORT_TIMEOUTS).await;
    for request in [
        "GET /api/hea",
        "GET /api/health HTTP/1.1\r\nHost: a\r\n",
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{",
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5",
    ] {
        let mut client = RawClient::connect(&service).await;
        client.send(request).await;
        let answers = client.responses().await;
        assert_eq!(answers.len(), 1, "{request:?}");
        answers[0].error(408);
        assert_service_responds(&service).await;
    }
    // A client that sent nothing gets no response.
    let mut silent = RawClient::connect(&service).await;
    assert!(silent.response().await.is_none());
    let mut idle = RawClient::connect(&service).await;
    idle.send(HEALTH).await;
    assert_eq!(idle.response().await.unwrap().status, 200);
    assert!(idle.response().await.is_none());
}

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected() {
    let service = Service::with(SHORT_TIMEOUTS).await;
    let mut client = RawClient::connect(&service).await;
    let many = "GET /api/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    // The client sends requests without reading. When its responses fill all buffers, the service
    // reads no more, until it closes the connection.
    let refused = async { while client.try_send(&many).await {} };
    timeout(TEST_TIMEOUT, refused)
        .await
        .expect("the service closes the connection");
    assert_service_responds(&service).await;
}

#[tokio::test]
async fn a_client_that_shuts_down_its_sending_side_gets_its_response() {
    let service = Service::with_mail_and(LONG_TIMEOUTS).await;
    let ada = service.person("ada").await;
    let body = serde_json::json!({ "email": ada.address, "password": "Wrong-Horse-7" }).to_string();
    let length = body.len();
    // Checking a wrong password takes some time, so the end of the client's data comes first.
    let login = format!(
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let folders = format!(
        "GET /api/v1/mail/folders HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n",
        ada.access
    );
    let both = login.clone() + &folders;
    for (request, statuses) in [
        (HEALTH, &[200][..]),
        (&login, &[401]),
        (&folders, &[200]),
        (&both, &[401, 200]),
    ] {
        let mut client = RawClient::connect(&service).await;
        client.send(request).await;
        client.shut_down_sending().await;
        let answers = client.responses().await;
        let answered: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(answered, statuses);
    }
}

#[tokio::test]
async fn a_client_that_disconnects_in_a_request_frees_its_connection() {
    let service = Service::with(LONG_TIMEOUTS).await;
    for head in [
        "G",
        "GET /api/health HTTP/1.1\r\nHost: a\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\n\r",
    ] {
        let mut client = RawClient::connect(&service).await;
        client.send(head).await;
        client.shut_down_sending().await;
        assert!(client.response().await.is_none(), "{head:?}");
    }
    for body in [
        "Content-Length: 10\r\n\r\n",
        "Content-Length: 10\r\n\r\n{}",
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
    ] {
        let mut client = RawClient::connect(&service).await;
        let head = "POST /api/v1/auth/refresh HTTP/1.1\r\nHost: a\r\n";
        client.send(format!("{head}{body}")).await;
        client.shut_down_sending().await;
        let answers = client.responses().await;
        assert_eq!(answers.len(), 1, "{body:?}");
        let text = answers[0].error(400);
        assert_eq!(text, "The request's body could not be read", "{body:?}");
    }
    assert_service_responds(&service).await;
}

#[tokio::test]
async fn the_connections_of_one_client_are_limited() {
    let service = Service::with(&format!(
        "{LONG_TIMEOUTS}\nhttp.connections_per_client = 20"
    ))
    .await;
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut client = RawClient::connect_from(OTHER_ADDRESS, service.address()).await;
        client.send(HEALTH).await;
        assert_eq!(client.response().await.unwrap().status, 200);
        held.push(client);
    }
    let mut one_more = RawClient::connect_from(OTHER_ADDRESS, service.address()).await;
    assert!(one_more.response().await.is_none(), "closed at once");
    assert_service_responds(&service).await;
    for client in &mut held {
        client.send(HEALTH).await;
        assert_eq!(client.response().await.unwrap().status, 200);
    }
    held.pop();
    wait_until(
        "a new connection is accepted after one was closed",
        async || {
            let mut again = RawClient::connect_from(OTHER_ADDRESS, service.address()).await;
            again.try_send(HEALTH).await && again.response().await.is_some()
        },
    )
    .await;
}

#[tokio::test]
async fn a_new_client_waits_while_all_connections_are_in_use() {
    let service = Service::with(&format!("{LONG_TIMEOUTS}\nhttp.max_connections = 20")).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut client = RawClient::connect(&service).await;
        client.send(HEALTH).await;
        assert_eq!(client.response().await.unwrap().status, 200);
        held.push(client);
    }
    let mut waiting = RawClient::connect(&service).await;
    waiting.send(HEALTH).await;
    held[0].send(HEALTH).await;
    assert_eq!(held[0].response().await.unwrap().status, 200);
    assert!(waiting.stream.try_read(&mut [0]).is_err(), "not yet");
    held.pop();
    assert_eq!(waiting.response().await.unwrap().status, 200);
}

/// The number of idle connections.
const IDLE_CLIENTS: usize = 10_000;
/// The environment variable with the address of the service. Set only in the process of the
/// clients.
const SERVICE_ADDRESS: &str = "LATCHMAIL_TEST_IDLE_CLIENTS";
const ALL_CONNECTED: &str = "all clients are connected";

/// The maximum memory of the host per idle connection, in KiB: hyper's read buffer (8 KiB), the
/// task of the connection in a debug build, and the allocator's overhead. About 15 were measured; a
/// buffer for a head or a body would exceed the maximum.
const KIB_PER_CONNECTION: u64 = 32;

#[tokio::test]
async fn ten_thousand_idle_connections_use_little_memory() {
    raise_descriptor_limit(IDLE_CLIENTS + 500);
    let service = Service::with_mail_and(&format!(
        "{LONG_TIMEOUTS}\nhttp.max_connections = {}\nhttp.connections_per_client = {IDLE_CLIENTS}",
        IDLE_CLIENTS + 100
    ))
    .await;
    let ada = service.person("ada").await;
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    let (before, open) = (memory(), descriptors());
    // A separate process, because both ends of all sockets would exceed the usual limit on
    // descriptors.
    let mut clients = ClientProcess(
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "http::misbehaving_clients::idle_connection_client_process",
                "--ignored",
                "--nocapture",
            ])
            .env(SERVICE_ADDRESS, service.address().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let request = clients.0.stdout.take().unwrap();
    let connected = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(request).lines().map_while(Result::ok);
        lines.any(|line| line.contains(ALL_CONNECTED))
    });
    assert!(
        connected.await.unwrap(),
        "each client gets one response and keeps its connection"
    );
    assert!(
        descriptors() >= open + IDLE_CLIENTS,
        "all connections are held"
    );
    let cost = memory().saturating_sub(before) / u64::try_from(IDLE_CLIENTS).unwrap();
    assert!(cost <= KIB_PER_CONNECTION, "{cost} KiB a connection");
    // Another client is served.
    assert_service_responds(&service).await;
    // The clients' address has reached its limit, so a further connection is closed at once.
    let mut one_more = RawClient::connect_from(OTHER_ADDRESS, service.address()).await;
    assert!(one_more.response().await.is_none());
    drop(one_more);
    drop(clients);
    wait_until("all connections are closed", async || descriptors() <= open).await;
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
}

struct ClientProcess(Child);

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The clients of the test above, in a separate process that runs until it is killed. This is not a
/// test.
#[tokio::test]
#[ignore = "the other side of ten_thousand_idle_connections_use_little_memory"]
async fn idle_connection_client_process() {
    let Ok(address) = std::env::var(SERVICE_ADDRESS) else {
        return;
    };
    let address = address.parse().unwrap();
    raise_descriptor_limit(IDLE_CLIENTS + 100);
    let mut held = Vec::with_capacity(IDLE_CLIENTS);
    for _ in 0..IDLE_CLIENTS / 100 {
        let some = (0..100).map(|_| async {
            let mut client = RawClient::connect_from(OTHER_ADDRESS, address).await;
            client.send(HEALTH).await;
            assert_eq!(client.response().await.unwrap().status, 200);
            client
        });
        held.extend(futures_util::future::join_all(some).await);
    }
    for client in &mut held {
        let read = client.stream.try_read(&mut [0]);
        assert!(read.is_err(), "the connection was closed");
    }
    println!("{ALL_CONNECTED}");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Raises this process's limit on descriptors to `wanted`.
fn raise_descriptor_limit(wanted: usize) {
    let wanted = u64::try_from(wanted).unwrap();
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    assert!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "this machine cannot run the test of {IDLE_CLIENTS} idle connections: a process may open {maximum:?} descriptors here, \
         and {wanted} are needed. Raise the hard limit (`ulimit -Hn`, `LimitNOFILE=`) and run this test again."
    );
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

/// Malformed and incomplete requests.
fn malformed_requests() -> Vec<String> {
    let login = "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\n";
    vec![
        "G".to_owned(),
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX: ".to_owned(),
        format!("{login}Content-Length: 100\r\n\r\n{{"),
        format!("{login}Transfer-Encoding: chunked\r\n\r\n5\r\nab"),
        format!("{login}Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!(
            "{login}Content-Length: 1000000\r\n\r\n{}",
            "x".repeat(1_000_000)
        ),
        format!("{login}Expect: 100-continue\r\nContent-Length: 100\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(100_000)),
        "X: y\r\n".repeat(1000),
        "GET /api/health HTTP/1.1\nHost: a\n\n".to_owned(),
        "\x16\x03\x01\x02\0\x01\0\x01".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        HEALTH.repeat(100),
        "GET /api/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(300),
        "GET /api/v1/mail/folders HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n"
            .repeat(20),
        String::new(),
    ]
}

/// The behaviour of a client after its request.
#[derive(Clone, Copy)]
enum Behaviour {
    /// The client waits until the service closes the connection.
    Waits,
    /// The client shuts down its sending side.
    ShutsDown,
    /// The client disconnects.
    Disconnects,
}

/// Sends each of `requests` in each manner, all concurrently.
async fn run_clients(service: &Service, requests: &[String]) {
    let behaviours = [
        Behaviour::Waits,
        Behaviour::ShutsDown,
        Behaviour::Disconnects,
    ];
    let clients = requests
        .iter()
        .flat_map(|request| behaviours.map(|behaviour| run_client(service, request, behaviour)));
    futures_util::future::join_all(clients).await;
}

async fn run_client(service: &Service, request: &str, behaviour: Behaviour) {
    let mut client = RawClient::connect(service).await;
    match behaviour {
        Behaviour::Disconnects => {
            let _ = timeout(Duration::from_millis(50), client.try_send(request)).await;
            return;
        }
        Behaviour::Waits => {
            client.try_send(request).await;
        }
        Behaviour::ShutsDown => {
            client.try_send(request).await;
            let _ = client.stream.shutdown().await;
        }
    }
    // The responses are discarded, because the test measures the memory of this process.
    let mut sink = [0; 1024];
    let ended = async {
        while client
            .stream
            .read(&mut sink)
            .await
            .is_ok_and(|read| read > 0)
        {}
    };
    timeout(TEST_TIMEOUT, ended)
        .await
        .expect("the service closes");
}

/// The maximum growth of the host's memory after 480 further clients, in KiB: 2 KiB for each, less
/// than the smallest buffer of a connection. About 60 KiB in total were measured, which is noise of
/// the allocator.
const MAX_GROWTH_KIB: u64 = 1024;

#[tokio::test]
async fn slow_clients_leak_no_memory_and_no_descriptors() {
    let service = Service::with_mail_and(SHORT_TIMEOUTS).await;
    let ada = service.person("ada").await;
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    // The first rounds allocate what is kept permanently: buffers of the runtime, connections of
    // the database.
    let requests = malformed_requests();
    for _ in 0..3 {
        run_clients(&service, &requests).await;
    }
    let open = settled_descriptors().await;
    let before = memory();
    for _ in 0..10 {
        run_clients(&service, &requests).await;
        assert_service_responds(&service).await;
    }
    wait_until("the number of descriptors is as before", async || {
        descriptors() <= open
    })
    .await;
    let growth = memory().saturating_sub(before);
    assert!(growth <= MAX_GROWTH_KIB, "{growth} KiB kept");
    ada.send("GET /api/v1/mail/folders").await.succeeds(200);
}

/// Returns the number of open descriptors when it no longer falls.
async fn settled_descriptors() -> usize {
    let mut last = descriptors();
    let mut same = 0;
    wait_until("descriptors settle", async || {
        let now = descriptors();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 50
    })
    .await;
    last
}
