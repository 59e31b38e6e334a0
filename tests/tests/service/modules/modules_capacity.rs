//! The capacity for other modules and the operator while all sandboxes of a module are busy, and
//! the end of active requests.

use std::time::Duration;

use latchmail_tests::{Service, TEST_TIMEOUT, Variant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

const NEW: &str = "new_modules.paths = ['/variant/', '/other/']";

/// Connects to the operator's socket and sends an incomplete request.
async fn send_incomplete_request(service: &Service) -> UnixStream {
    let socket = service.state.join("admin.sock");
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(b"GET /api/v1/adm").await.unwrap();
    stream
}

#[tokio::test]
async fn a_blocked_module_leaves_sandboxes_for_other_modules_and_the_operator() {
    let few = ["mail", "credentials", "aliases", "domains"]
        .map(|name| format!("modules.{name}.concurrency = 4\n"))
        .concat();
    let many = "new_modules.concurrency = 1000\nnew_modules.deadline = 60\nhttp.connections_per_client = 1000";
    let service = Service::with(&format!("{NEW}\n{few}{many}")).await;
    let ada = service.person("ada").await;
    let first = Variant::default();
    let waits = Variant {
        version: "2.0.0",
        does: "wait",
        ..first
    };
    service.install(&[first.component()]).await;
    service.install(&[waits.component()]).await;
    let mut waiting = JoinSet::new();
    for _ in 0..300 {
        waiting.spawn(service.request("GET /variant/version").send());
    }
    // The first 503 shows that all sandboxes are taken.
    let output_of_waiting = waiting.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(output_of_waiting.status(), 503);
    for _ in 0..8 {
        ada.send("GET /api/v1/aliases").await.succeeds(200);
    }
    let other = Variant {
        name: "other",
        path: "/other/",
        ..first
    };
    service.install(&[other.component()]).await;
    for verb in ["disable other", "enable other", "rollback variant"] {
        service
            .operator(&format!("module {verb}"), "")
            .await
            .succeeds();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_with_one_sandbox_serves_requests_one_after_another_in_every_version() {
    let own = "modules.variant.paths = ['/variant/']\nmodules.variant.concurrency = 1";
    let service = Service::with(own).await;
    for version in ["1.0.0", "2.0.0", "3.0.0"] {
        let variant = Variant {
            version,
            ..Variant::default()
        };
        service.install(&[variant.component()]).await;
        // The earlier version's prepared sandbox and the previous request's sandbox have both been
        // freed.
        for _ in 0..20 {
            let response = service.send("GET /variant/version").await.succeeds(200);
            assert_eq!(response["version"], version);
        }
    }
}

#[tokio::test]
async fn an_incomplete_request_on_the_operators_socket_does_not_delay_the_stop() {
    let patient = "http.header_timeout = 600\nhttp.shutdown_grace = 0.5";
    let mut service = Service::with(patient).await;
    let _held = send_incomplete_request(&service).await;
    // The command's response shows that the request has started.
    service.operator("module list", "").await.succeeds();
    timeout(TEST_TIMEOUT, service.stop())
        .await
        .expect("the service ends");
}

#[tokio::test]
async fn the_operators_socket_accepts_nothing_while_the_service_stops() {
    let patient = "http.header_timeout = 600\nhttp.shutdown_grace = 20";
    let mut service = Service::with(patient).await;
    let held = send_incomplete_request(&service).await;
    service.operator("module list", "").await.succeeds();
    let address = service.address();
    let ends = async {
        timeout(TEST_TIMEOUT, service.stop())
            .await
            .expect("the service ends");
    };
    let refuses = async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(held);
    };
    tokio::join!(ends, refuses);
}

#[tokio::test]
async fn an_incomplete_head_on_the_operators_socket_times_out() {
    let service = Service::with("http.header_timeout = 0.3").await;
    let mut held = send_incomplete_request(&service).await;
    let mut rest = Vec::new();
    timeout(TEST_TIMEOUT, held.read_to_end(&mut rest))
        .await
        .expect("the connection ends")
        .unwrap();
}
