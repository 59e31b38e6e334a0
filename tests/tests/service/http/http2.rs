//! HTTP/2. The client is `tests/http2`, which uses a library that is independent of the service.
//! Each scenario there has the assertions.

use std::path::Path;
use std::process::Stdio;

use latchmail_tests::tls::CertificateFolder;
use latchmail_tests::{Service, TEST_TIMEOUT, tools_folder};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const SHORT_TIMEOUTS: &str =
    "http.header_timeout = 0.5\nhttp.body_timeout = 0.2\nhttp.idle_timeout = 0.5";

/// Starts a service with TLS. The folder contains its certificate.
async fn start(settings: &str) -> (Service, CertificateFolder, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let files = CertificateFolder::create(folder.path());
    let service = Service::with(&format!("{}{settings}", files.settings())).await;
    (service, files, folder)
}

fn client(service: &Service, files: &CertificateFolder, scenario: &str) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("http2/attacks.py");
    Command::new(tools_folder().join("tls-clients/bin/python"))
        // Without `-B`, the script would write caches into the source tree.
        .arg("-B")
        .arg(script)
        .arg("--address")
        .arg(service.addresses()[0].to_string())
        .arg("--certificate")
        .arg(files.authority())
        .arg(scenario)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn assert_withstands(scenario: &str, settings: &str) {
    let (service, files, _folder) = start(settings).await;
    let client = client(&service, &files, scenario).wait_with_output();
    let output = timeout(TEST_TIMEOUT * 4, client).await.unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        text(&output.stdout),
        "withstood\n",
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test]
async fn requests_are_served_concurrently() {
    assert_withstands("requests", "").await;
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    assert_withstands("malformed_requests", "").await;
}

#[tokio::test]
async fn invalid_frames_end_the_connection() {
    assert_withstands("invalid_frames", "").await;
}

#[tokio::test]
async fn oversized_requests_are_refused() {
    assert_withstands("oversized_requests", "").await;
}

#[tokio::test]
async fn slow_requests_time_out() {
    assert_withstands("slow_requests", SHORT_TIMEOUTS).await;
}

#[tokio::test]
async fn responses_that_are_not_read_end_the_connection() {
    assert_withstands("stalled_windows", SHORT_TIMEOUTS).await;
}

#[tokio::test]
async fn a_client_that_cancels_many_requests_is_disconnected() {
    assert_withstands("rapid_reset", "").await;
}

#[tokio::test]
async fn an_endless_header_block_ends_the_connection() {
    assert_withstands("continuation_flood", "").await;
}

#[tokio::test]
async fn compressed_headers_that_become_large_are_refused() {
    assert_withstands("header_bomb", "").await;
}

#[tokio::test]
async fn floods_of_control_frames_do_not_delay_other_clients() {
    assert_withstands("control_frame_floods", "").await;
}

#[tokio::test]
async fn empty_data_frames_do_not_keep_a_request_open() {
    assert_withstands("empty_data_frames", SHORT_TIMEOUTS).await;
}

#[tokio::test]
async fn the_concurrent_requests_of_a_client_are_limited() {
    let settings = "http.connections_per_client = 5\nhttp.body_timeout = 600";
    assert_withstands("too_many_requests", settings).await;
}

#[tokio::test]
async fn a_shutdown_finishes_the_requests_of_a_connection() {
    let (mut service, files, _folder) = start("").await;
    let mut client = client(&service, &files, "shutdown");
    let mut output = BufReader::new(client.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    assert_eq!(line, "ready\n");
    timeout(TEST_TIMEOUT, service.stop()).await.unwrap();
    line.clear();
    output.read_to_string(&mut line).await.unwrap();
    assert_eq!(line, "withstood\n");
}
