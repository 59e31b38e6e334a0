//! The creation of many accounts, and pages of many accounts.

use std::time::{Duration, Instant};

use latchmail_tests::Response;
use latchmail_tests::process::memory;
use serde_json::json;

use super::{ALL, Program, service};

const ACCOUNTS: usize = 10_000;
const CLIENTS: usize = 8;
/// The accounts of each client whose creation is warm-up for the comparison of memory.
const WARM_UP: usize = 200;

/// Returns the median time of some requests.
async fn median(program: &Program, line: &str) -> Duration {
    let mut times = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        program.send(line).await.succeeds(200);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long; ./just test-all runs it"]
async fn eight_clients_create_10_000_accounts_in_ten_minutes() {
    let service = service().await;
    let program = Program::new(&service, "terraform", ALL).await;
    let create = async |client: usize, number: usize| {
        let body = json!({
            "address": format!("c{client}n{number}@first.test"),
            "password": format!("Password-{number}"),
            "externalId": format!("{client}-{number}"),
        });
        let request = program.request("POST /admin/api/v1/accounts");
        let request = request.header("Idempotency-Key", format!("{client}-{number}"));
        Response::of_json(request, &body).await.succeeds(201);
    };
    let run = async |from: usize, to: usize| {
        let clients = (0..CLIENTS).map(async |client| {
            for number in from..to {
                create(client, number).await;
            }
        });
        futures_util::future::join_all(clients).await;
    };
    let start = Instant::now();
    run(0, WARM_UP).await;
    let before = memory();
    run(WARM_UP, ACCOUNTS / CLIENTS).await;
    let (duration, after) = (start.elapsed(), memory());
    println!("{ACCOUNTS} accounts in {duration:?}, memory {before} and {after}");
    assert!(duration < Duration::from_mins(10), "{duration:?}");
    let growth = after.saturating_sub(before);
    assert!(growth < 64 * 1024, "memory grew by {growth} KiB");

    let page = program.get("/admin/api/v1/accounts?limit=500").await;
    let cursor = page["nextCursor"].as_str().unwrap();
    for line in [
        "GET /admin/api/v1/accounts".to_owned(),
        format!("GET /admin/api/v1/accounts?cursor={cursor}"),
        "GET /admin/api/v1/accounts?active=false".to_owned(),
        "GET /admin/api/v1/accounts?externalId=3-7".to_owned(),
        "GET /admin/api/v1/aliases".to_owned(),
        "GET /scim/v2/Users?startIndex=9801&count=100".to_owned(),
        "GET /scim/v2/Users?filter=externalId+eq+%223-7%22".to_owned(),
    ] {
        let median = median(&program, &line).await;
        println!("{line}: {median:?}");
        // A build for tests has debug assertions.
        assert!(median < Duration::from_millis(20), "{line}: {median:?}");
    }
}
