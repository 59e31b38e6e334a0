//! Clients that are slow, silent, disconnected or numerous: each is dropped in time, and its resources are freed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use latchmail_tests::process::{descriptors, memory};
use latchmail_tests::{EVENTUALLY, Raw, Service};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

const HEALTH: &str = "GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n";
/// A local address that the tests' other requests do not use.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 9];
const PATIENT: &str = "http.header_timeout = 600\nhttp.idle_timeout = 600";
const IMPATIENT: &str =
    "http.header_timeout = 0.3\nhttp.body_timeout = 0.1\nhttp.idle_timeout = 0.3";

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + EVENTUALLY;
    while !holds().await {
        assert!(Instant::now() < patience, "{what}: never");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn honest_clients_are_served(service: &Service) {
    service.ask("GET /api/health").await.succeeds(200);
}

/// Sends `again` byte by byte, repeatedly, until the service closes the connection.
async fn drip(client: &mut Raw, again: &str) {
    let gone = async {
        for byte in again.bytes().cycle() {
            if !client.try_to_say([byte]).await {
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
    timeout(EVENTUALLY, gone)
        .await
        .expect("the service drops a slow client");
}

/// The final response to a client that sends `bytes` and then drips `again`. [`drip`] has read its first byte.
async fn dripped(service: &Service, bytes: &str, again: &str) -> String {
    let mut client = Raw::to(service).await;
    client.say(bytes).await;
    drip(&mut client, again).await;
    let mut rest = Vec::new();
    let _ = timeout(EVENTUALLY, client.stream.read_to_end(&mut rest))
        .await
        .expect("the service closes");
    format!("H{}", String::from_utf8(rest).unwrap())
}

#[tokio::test]
async fn a_request_that_arrives_too_slowly_times_out() {
    let service = Service::with_mail_and(IMPATIENT).await;
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
        let answer = dripped(&service, bytes, again).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{bytes:?}: {answer}");
        let error = serde_json::json!({ "error": text }).to_string();
        assert!(answer.ends_with(&error), "{bytes:?}: {answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        honest_clients_are_served(&service).await;
    }
}

#[tokio::test]
async fn slow_clients_do_not_block_other_clients() {
    let service = Service::with_mail_and("http.header_timeout = 600\nhttp.body_timeout = 60").await;
    let mut slow = Vec::new();
    for n in 0..200 {
        let mut client = Raw::to(&service).await;
        let said = if n % 2 == 0 {
            "GET /api/health HTTP/1.1\r\nHost: a\r\nX: "
        } else {
            "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"
        };
        client.say(said).await;
        slow.push(client);
    }
    let ada = service.person("ada").await;
    ada.ask("GET /api/v1/mail/folders").await.succeeds(200);
    drop(slow);
}

#[tokio::test]
async fn a_client_that_stops_in_a_request_gets_a_timeout_response() {
    let service = Service::with_mail_and(IMPATIENT).await;
    for said in [
        "GET /api/hea",
        "GET /api/health HTTP/1.1\r\nHost: a\r\n",
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{",
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5",
    ] {
        let mut client = Raw::to(&service).await;
        client.say(said).await;
        let answers = client.answers().await;
        assert_eq!(answers.len(), 1, "{said:?}");
        answers[0].error(408);
        honest_clients_are_served(&service).await;
    }
    // A client that sent nothing gets no response.
    let mut silent = Raw::to(&service).await;
    assert!(silent.answer().await.is_none());
    let mut idle = Raw::to(&service).await;
    idle.say(HEALTH).await;
    assert_eq!(idle.answer().await.unwrap().status, 200);
    assert!(idle.answer().await.is_none());
}

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected() {
    let service = Service::with(IMPATIENT).await;
    let mut client = Raw::to(&service).await;
    let many = "GET /api/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    // The client sends requests without reading. When its responses fill all buffers, the service reads no more, until it closes the connection.
    let refused = async { while client.try_to_say(&many).await {} };
    timeout(EVENTUALLY, refused)
        .await
        .expect("the service drops the client");
    honest_clients_are_served(&service).await;
}

#[tokio::test]
async fn a_client_that_shuts_down_its_sending_side_gets_its_response() {
    let service = Service::with_mail_and(PATIENT).await;
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
    for (said, statuses) in [
        (HEALTH, &[200][..]),
        (&login, &[401]),
        (&folders, &[200]),
        (&both, &[401, 200]),
    ] {
        let mut client = Raw::to(&service).await;
        client.say(said).await;
        client.say_no_more().await;
        let answers = client.answers().await;
        let answered: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(answered, statuses);
    }
}

#[tokio::test]
async fn a_client_that_disconnects_in_a_request_frees_its_connection() {
    let service = Service::with(PATIENT).await;
    for head in [
        "G",
        "GET /api/health HTTP/1.1\r\nHost: a\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\n\r",
    ] {
        let mut client = Raw::to(&service).await;
        client.say(head).await;
        client.say_no_more().await;
        assert!(client.answer().await.is_none(), "{head:?}");
    }
    for body in [
        "Content-Length: 10\r\n\r\n",
        "Content-Length: 10\r\n\r\n{}",
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
    ] {
        let mut client = Raw::to(&service).await;
        let head = "POST /api/v1/auth/refresh HTTP/1.1\r\nHost: a\r\n";
        client.say(format!("{head}{body}")).await;
        client.say_no_more().await;
        let answers = client.answers().await;
        assert_eq!(answers.len(), 1, "{body:?}");
        let text = answers[0].error(400);
        assert_eq!(text, "The request's body could not be read", "{body:?}");
    }
    honest_clients_are_served(&service).await;
}

#[tokio::test]
async fn the_connections_of_one_client_are_limited() {
    let service = Service::with(&format!("{PATIENT}\nhttp.connections_per_client = 20")).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut client = Raw::between(ELSEWHERE, service.address()).await;
        client.say(HEALTH).await;
        assert_eq!(client.answer().await.unwrap().status, 200);
        held.push(client);
    }
    let mut one_more = Raw::between(ELSEWHERE, service.address()).await;
    assert!(one_more.answer().await.is_none(), "closed at once");
    honest_clients_are_served(&service).await;
    for client in &mut held {
        client.say(HEALTH).await;
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
    held.pop();
    until("a closed connection makes room for another", async || {
        let mut again = Raw::between(ELSEWHERE, service.address()).await;
        again.try_to_say(HEALTH).await && again.answer().await.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_new_client_waits_while_all_connections_are_in_use() {
    let service = Service::with(&format!("{PATIENT}\nhttp.max_connections = 20")).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut client = Raw::to(&service).await;
        client.say(HEALTH).await;
        assert_eq!(client.answer().await.unwrap().status, 200);
        held.push(client);
    }
    let mut waiting = Raw::to(&service).await;
    waiting.say(HEALTH).await;
    held[0].say(HEALTH).await;
    assert_eq!(held[0].answer().await.unwrap().status, 200);
    assert!(waiting.stream.try_read(&mut [0]).is_err(), "not yet");
    held.pop();
    assert_eq!(waiting.answer().await.unwrap().status, 200);
}

/// The number of idle connections.
const CROWD: usize = 10_000;
/// The address of the service for the crowd. Set only in the process of the crowd.
const CROWD_GOES_TO: &str = "LATCHMAIL_TEST_CROWD";
const CROWD_STANDS: &str = "the crowd stands";

/// The maximum memory of the host per idle connection, in KiB: hyper's read buffer (8 KiB), the task of the connection in a debug build, and the
/// allocator's overhead. About 15 were measured; a buffer for a head or a body would exceed the maximum.
const KIB_A_CONNECTION: u64 = 32;

#[tokio::test]
async fn ten_thousand_idle_connections_use_little_memory() {
    may_open(CROWD + 500);
    let service = Service::with_mail_and(&format!(
        "{PATIENT}\nhttp.max_connections = {}\nhttp.connections_per_client = {CROWD}",
        CROWD + 100
    ))
    .await;
    let ada = service.person("ada").await;
    ada.ask("GET /api/v1/mail/folders").await.succeeds(200);
    let (before, open) = (memory(), descriptors());
    // A separate process, because both ends of all sockets would exceed the usual limit on descriptors.
    let mut crowd = Crowd(
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "http::misbehaving_clients::idle_connection_client_process",
                "--ignored",
                "--nocapture",
            ])
            .env(CROWD_GOES_TO, service.address().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let said = crowd.0.stdout.take().unwrap();
    let stands = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        lines.any(|line| line.contains(CROWD_STANDS))
    });
    assert!(
        stands.await.unwrap(),
        "each had one request answered and is held"
    );
    assert!(descriptors() >= open + CROWD, "all connections are held");
    let cost = memory().saturating_sub(before) / u64::try_from(CROWD).unwrap();
    assert!(cost <= KIB_A_CONNECTION, "{cost} KiB a connection");
    // Another client is served.
    honest_clients_are_served(&service).await;
    // The crowd's address has no connection left, and a further one is closed at once.
    let mut one_more = Raw::between(ELSEWHERE, service.address()).await;
    assert!(one_more.answer().await.is_none());
    drop(one_more);
    drop(crowd);
    until("all connections are closed", async || descriptors() <= open).await;
    ada.ask("GET /api/v1/mail/folders").await.succeeds(200);
}

struct Crowd(Child);

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: the clients of the test above, in a separate process that runs until it is killed.
#[tokio::test]
#[ignore = "the other side of ten_thousand_idle_connections_are_held_and_cost_little"]
async fn idle_connection_client_process() {
    let Ok(address) = std::env::var(CROWD_GOES_TO) else {
        return;
    };
    let address = address.parse().unwrap();
    may_open(CROWD + 100);
    let mut held = Vec::with_capacity(CROWD);
    for _ in 0..CROWD / 100 {
        let some = (0..100).map(|_| async {
            let mut client = Raw::between(ELSEWHERE, address).await;
            client.say(HEALTH).await;
            assert_eq!(client.answer().await.unwrap().status, 200);
            client
        });
        held.extend(futures_util::future::join_all(some).await);
    }
    for client in &mut held {
        let read = client.stream.try_read(&mut [0]);
        assert!(read.is_err(), "it was closed");
    }
    println!("{CROWD_STANDS}");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Raises this process's limit on descriptors to `wanted`.
fn may_open(wanted: usize) {
    let wanted = u64::try_from(wanted).unwrap();
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    assert!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "THIS MACHINE CANNOT SAY whether {CROWD} idle connections are held: a process may open {maximum:?} descriptors here, \
         and {wanted} are needed. Raise the hard limit (`ulimit -Hn`, `LimitNOFILE=`) and run this test again."
    );
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

/// The requests of rude clients.
fn rude_words() -> Vec<String> {
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

/// What a rude client does after its request.
#[derive(Clone, Copy)]
enum Manner {
    /// It stays until the service closes the connection.
    Stays,
    /// It shuts down its sending side.
    SaysNoMore,
    /// It disconnects.
    Leaves,
}

/// Sends each of `words` in each manner, all concurrently.
async fn rude_clients(service: &Service, words: &[String]) {
    let manners = [Manner::Stays, Manner::SaysNoMore, Manner::Leaves];
    let clients = words
        .iter()
        .flat_map(|said| manners.map(|manner| rude_client(service, said, manner)));
    futures_util::future::join_all(clients).await;
}

async fn rude_client(service: &Service, said: &str, manner: Manner) {
    let mut client = Raw::to(service).await;
    match manner {
        Manner::Leaves => {
            let _ = timeout(Duration::from_millis(50), client.try_to_say(said)).await;
            return;
        }
        Manner::Stays => {
            client.try_to_say(said).await;
        }
        Manner::SaysNoMore => {
            client.try_to_say(said).await;
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
    timeout(EVENTUALLY, ended)
        .await
        .expect("the service closes");
}

/// The maximum growth of the host's memory after 480 further rude clients, in KiB: 2 KiB for each, less than the smallest buffer of a connection.
/// About 60 KiB in total were measured, which is noise of the allocator.
const KIB_KEPT: u64 = 1024;

#[tokio::test]
async fn slow_clients_leak_no_memory_and_no_descriptors() {
    let service = Service::with_mail_and(IMPATIENT).await;
    let ada = service.person("ada").await;
    ada.ask("GET /api/v1/mail/folders").await.succeeds(200);
    // The first rounds allocate what is kept permanently: buffers of the runtime, connections of the database.
    let words = rude_words();
    for _ in 0..3 {
        rude_clients(&service, &words).await;
    }
    let open = settled().await;
    let before = memory();
    for _ in 0..10 {
        rude_clients(&service, &words).await;
        honest_clients_are_served(&service).await;
    }
    until("the number of descriptors is as before", async || {
        descriptors() <= open
    })
    .await;
    let kept = memory().saturating_sub(before);
    assert!(kept <= KIB_KEPT, "{kept} KiB kept");
    ada.ask("GET /api/v1/mail/folders").await.succeeds(200);
}

/// The number of open descriptors when it no longer falls.
async fn settled() -> usize {
    let mut last = descriptors();
    let mut same = 0;
    until("descriptors settle", async || {
        let now = descriptors();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 50
    })
    .await;
    last
}
