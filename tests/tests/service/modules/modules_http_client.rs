//! Requests of a module to other servers, as the operator allows them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchmail_tests::{Log, Nameserver, Service, fixtures, start_error};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Returns the configuration of the module with the HTTP client, with these hosts and further
/// lines.
fn client_settings(hosts: &[&str], more: &str) -> String {
    let source = fixtures().join("fixture_keeper.wasm");
    format!(
        "modules.keeper.source = '{}'\nmodules.keeper.grants = ['store', 'http-client']\n\
         modules.keeper.paths = ['/keeper/']\nmodules.keeper.hosts = {hosts:?}\n{more}",
        source.display()
    )
}

async fn run_request(service: &Service, request: &Value) -> Value {
    let response = service.post("/keeper/public/fetch", request).await;
    response.succeeds(200)
}

/// Returns the result of the module's GET request.
async fn get(service: &Service, url: &str) -> Value {
    run_request(service, &json!({ "method": "GET", "url": url })).await
}

#[track_caller]
fn assert_failed(response: &Value, how: &str) {
    let failed = response["failed"].as_str().unwrap_or_default();
    assert!(failed.starts_with(how), "{response} is not {how}");
}

/// A server, with the number of its connections. Its response contains the request line and the
/// host.
struct TestEnv {
    at: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl TestEnv {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut read = vec![0; 16 * 1024];
                    let many = stream.read(&mut read).await.unwrap_or(0);
                    let request = String::from_utf8_lossy(&read[..many]).into_owned();
                    if request.contains("/silence") {
                        // Holds the connection until the other side closes it.
                        let _ = stream.read(&mut read).await;
                        return;
                    }
                    let first = request.lines().next().unwrap_or_default();
                    let host = request.lines().find(|line| line.starts_with("host: "));
                    let summary = format!("{first}; {}", host.unwrap_or_default());
                    let response = format!(
                        "HTTP/1.1 200 OK\r\nx-answer: yes\r\ncontent-length: {}\r\n\r\n{summary}",
                        summary.len()
                    );
                    let _ = stream.write_all(response.as_bytes()).await;
                });
            }
        });
        Self { at, connections }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.at.port())
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_module_gets_the_complete_response_of_a_listed_host() {
    let env = TestEnv::start().await;
    let listed = format!("http://{}", env.at);
    let service = Service::with(&client_settings(&[&listed], "")).await;
    let response = run_request(
        &service,
        &json!({
            "method": "POST", "url": env.url("127.0.0.1", "/a?b=c"), "body": "hello",
            "headers": [["x-a", "b"]],
        }),
    )
    .await;
    assert_eq!(response["ok"]["status"], 200);
    assert_eq!(
        response["ok"]["body"],
        format!("POST /a?b=c HTTP/1.1; host: {}", env.at)
    );
    let headers = response["ok"]["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["x-answer", "yes"])), "{response}");
}

#[tokio::test]
async fn a_host_that_is_not_listed_is_denied_and_receives_no_request() {
    let env = TestEnv::start().await;
    let other = format!("http://127.0.0.1:{}", env.at.port() ^ 1);
    let service = Service::with(&client_settings(&[&other, "api.example.com"], "")).await;
    for url in [
        env.url("127.0.0.1", "/"),
        env.url("localhost", "/"),
        env.url("[::ffff:127.0.0.1]", "/"),
        env.url("api.example.com", "/"),
        format!("https://{}/", env.at),
    ] {
        assert_failed(&get(&service, &url).await, "Error::Denied(");
    }
    for url in [
        env.url("user@127.0.0.1", "/"),
        env.url("2130706433", "/"),
        env.url("127.1", "/"),
        env.url("0x7f.1", "/"),
    ] {
        assert_failed(&get(&service, &url).await, "Error::Invalid(");
    }
    assert_eq!(env.connections(), 0);

    let nothing_listed = Service::with(&client_settings(&[], "")).await;
    let response = get(&nothing_listed, &env.url("127.0.0.1", "/")).await;
    assert_failed(&response, "Error::Denied(");
    assert_eq!(env.connections(), 0);
}

#[tokio::test]
async fn a_listed_name_with_a_private_address_is_denied_unless_the_address_is_listed() {
    let env = TestEnv::start().await;
    let names = Nameserver::start().await;
    let dns = format!("dns.server = '{}'", names.address);
    let port = env.at.port();
    let listed = format!("http://*.example.com:{port}");
    let inside = |address: [u8; 4]| vec![IpAddr::from(address)];
    names.addresses("a.example.com", &inside([127, 0, 0, 1]));
    names.addresses("cloud.example.com", &inside([169, 254, 169, 254]));
    names.addresses(
        "mapped.example.com",
        &[Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()],
    );
    names.cname("alias.example.com", "inside.elsewhere.example");
    names.addresses("inside.elsewhere.example", &inside([127, 0, 0, 1]));

    let service = Service::with(&client_settings(&[&listed], &dns)).await;
    for name in ["a", "cloud", "mapped", "alias"] {
        let url = env.url(&format!("{name}.example.com"), "/");
        assert_failed(&get(&service, &url).await, "Error::Denied(");
    }
    assert_eq!(env.connections(), 0);

    for opened in ["127.0.0.0/8".to_owned(), format!("127.0.0.1:{port}")] {
        let service = Service::with(&client_settings(&[&listed, &opened], &dns)).await;
        for name in ["a", "mapped", "alias"] {
            let host = format!("{name}.example.com");
            let response = get(&service, &env.url(&host, "/")).await;
            assert_eq!(
                response["ok"]["body"],
                format!("GET / HTTP/1.1; host: {host}:{port}"),
                "{response}"
            );
        }
        let cloud = get(&service, &env.url("cloud.example.com", "/")).await;
        assert_failed(&cloud, "Error::Denied(");
    }
}

#[tokio::test]
async fn a_name_is_resolved_once_per_request() {
    let env = TestEnv::start().await;
    let names = Nameserver::start().await;
    let port = env.at.port();
    let listed = [
        format!("http://api.example.com:{port}"),
        // This address is allowed; the later addresses of the name are not.
        "127.0.0.1/32".to_owned(),
    ];
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    let dns = format!("dns.server = '{}'", names.address);
    let service = Service::with(&client_settings(&listed, &dns)).await;
    let url = env.url("api.example.com", "/");

    names.addresses("api.example.com", &[Ipv4Addr::LOCALHOST.into()]);
    let response = get(&service, &url).await;
    assert_eq!(response["ok"]["status"], 200, "{response}");
    // Once for each address family.
    assert_eq!(names.queries("api.example.com"), 2);
    assert_eq!(env.connections(), 1);

    // Each request resolves the name again; an earlier allowed address is not reused.
    names.addresses("api.example.com", &[Ipv4Addr::new(127, 0, 0, 2).into()]);
    assert_failed(&get(&service, &url).await, "Error::Denied(");
    // Of several addresses, the allowed ones are tried.
    names.addresses(
        "api.example.com",
        &[
            Ipv4Addr::new(10, 0, 0, 1).into(),
            Ipv4Addr::LOCALHOST.into(),
        ],
    );
    let response = get(&service, &url).await;
    assert_eq!(response["ok"]["status"], 200, "{response}");
    assert_eq!(env.connections(), 2);
}

#[tokio::test]
async fn a_missing_address_or_server_is_unavailable_and_the_log_has_the_reason() {
    let log = Log::capture();
    let env = TestEnv::start().await;
    let names = Nameserver::start().await;
    names.servfail("broken.example.com");
    let listed = [
        format!("http://*.example.com:{}", env.at.port()),
        "http://127.0.0.1:1".to_owned(),
    ];
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    let dns = format!("dns.server = '{}'", names.address);
    let service = Service::with(&client_settings(&listed, &dns)).await;
    for url in [
        env.url("none.example.com", "/"),
        env.url("broken.example.com", "/"),
        "http://127.0.0.1:1/".to_owned(),
    ] {
        let request = json!({ "method": "POST", "url": url });
        let response = service.post("/keeper/public/fetch", &request).await;
        let id = response.header("x-request-id").unwrap().to_owned();
        assert_failed(&response.succeeds(200), "Error::Unavailable");
        let lines = log.lines_with(&id);
        let host = url.split('/').nth(2).unwrap();
        assert!(
            lines
                .iter()
                .any(|line| line.contains("keeper") && line.contains(host)),
            "{lines:#?}"
        );
    }
}

#[tokio::test]
async fn a_silent_server_delays_a_request_at_most_until_its_timeout_or_deadline() {
    let env = TestEnv::start().await;
    let listed = format!("http://{}", env.at);
    let service = Service::with(&client_settings(&[&listed], "modules.keeper.deadline = 1")).await;
    let url = env.url("127.0.0.1", "/silence");
    let request = |method: &str, timeout: Option<u32>| json!({ "method": method, "url": url, "timeout": timeout });
    let read = run_request(&service, &request("GET", Some(200))).await;
    assert_failed(&read, "Error::Unavailable");
    let changed = run_request(&service, &request("POST", Some(200))).await;
    assert_failed(&changed, "Error::OutcomeUnknown");
    // The deadline of the call precedes the requested timeout.
    let patient = request("GET", Some(30_000));
    let asking = service.post("/keeper/public/fetch", &patient);
    let late = tokio::time::timeout(Duration::from_secs(5), asking).await;
    assert_eq!(late.unwrap().status, 500);
}

#[tokio::test]
async fn invalid_entries_of_hosts_stop_the_start() {
    for entry in ["https://api.example.com/path", "*", "10.0.0.0/40"] {
        let sentence = start_error(&client_settings(&["good.example.com", entry], "")).await;
        assert!(
            sentence.contains("`keeper`")
                && sentence.contains(&format!("its `hosts` contain `{entry}`")),
            "{sentence}"
        );
    }
}
