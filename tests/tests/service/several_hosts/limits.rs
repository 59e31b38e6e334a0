//! The rate limits of both hosts, with Redis and without it.

use latchmail_tests::{PUBLIC_LIMIT, Response, SeveralHosts, wait_until};

/// A route whose limit is [`PUBLIC_LIMIT`].
const AVAILABLE: &str = "GET /api/v1/auth/username-available?username=ada";

/// Waits until both hosts together accept as many requests as one host, and a client of the
/// balancer sees one budget. After a failure of Redis, the hosts connect within a second. On a busy
/// machine, Redis can also respond too late, so several attempts are allowed.
pub(super) async fn are_shared(all: &SeveralHosts) {
    wait_until("the hosts share their rate limits", async || {
        all.redis.remove_all_keys().await;
        for left in (0..PUBLIC_LIMIT).rev() {
            let response = all.service.send(AVAILABLE).await;
            if response.status != 200 || remaining(&response) != Some(left) {
                return false;
            }
        }
        for host in &all.hosts {
            if host.service.send(AVAILABLE).await.status != 429 {
                return false;
            }
        }
        true
    })
    .await;
}

/// Asserts that each host accepts as many requests as one host. Its own budget must be full.
pub(super) async fn are_separate(all: &SeveralHosts) {
    for host in &all.hosts {
        for left in (0..PUBLIC_LIMIT).rev() {
            let response = host.service.send(AVAILABLE).await;
            assert_eq!(response.status, 200, "{}", response.json);
            assert_eq!(remaining(&response), Some(left));
        }
        let response = host.service.send(AVAILABLE).await;
        assert_eq!(response.status, 429, "{}", response.json);
    }
}

fn remaining(response: &Response) -> Option<u32> {
    response.header("x-ratelimit-remaining")?.parse().ok()
}
