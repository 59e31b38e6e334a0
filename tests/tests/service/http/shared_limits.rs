//! Rate limits that two hosts of one service share in a real Redis server.
//!
//! Redis uses the real time and not the clock of the service. The limits refill slowly, so that no
//! test depends on the speed of the machine.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config;
use latchmail_core::error::{Failure, Kind};
use latchmail_core::limits::{
    Attempt, BoxFuture, Bucket, Failures, Key, Limits, SharedBudget, SharedBudgets, Taken,
};
use latchmail_redis::{GIVE_BACK, TAKE, TIMEOUT};
use latchmail_tests::{
    Log, PASSWORD, Random, Redis, Response, SecondHost, Service, Setup, wait_until,
};
use redis::Script;
use redis::aio::MultiplexedConnection;
use serde_json::json;
use tokio::time::Instant;

use super::TOO_MANY;

const AVAILABLE: &str = "GET /api/v1/auth/username-available?username=ada";
const LOGIN: &str = "POST /api/v1/auth/login";
const PROFILE: &str = "GET /api/v1/profile";

/// The limit of most tests. It refills by one request in 12 seconds.
const LIMIT: i64 = 5;

/// The setting of the limit.
const PUBLIC: &str = "limits.public = 5";

/// Starts two hosts that share their rate limits.
async fn two_hosts(url: &str, settings: &str) -> (Service, SecondHost) {
    let redis = format!("redis.url = '{url}'\n{settings}");
    let first = Setup::default().with(&redis).with_mail().start().await;
    let second = first.second_host().await;
    (first, second)
}

async fn stop(first: Service, second: SecondHost) {
    second.stop().await;
    drop(first);
}

#[track_caller]
fn number(response: &Response, header: &str) -> i64 {
    response.header(header).unwrap().parse().unwrap()
}

/// Sends a request without a credential to a host, the second one if `n` is odd.
async fn send(first: &Service, second: &SecondHost, n: i64) -> Response {
    if n % 2 == 0 {
        first.send(AVAILABLE).await
    } else {
        second.send(AVAILABLE).await
    }
}

/// Uses up the budget of both hosts together, and asserts the headers of all responses.
async fn use_up_shared_budget(first: &Service, second: &SecondHost) {
    for n in 0..LIMIT {
        let response = send(first, second, n).await;
        assert_eq!(response.status, 200, "request {n}: {}", response.json);
        assert_eq!(number(&response, "x-ratelimit-limit"), LIMIT);
        assert_eq!(number(&response, "x-ratelimit-remaining"), LIMIT - 1 - n);
        let reset = number(&response, "x-ratelimit-reset") - first.clock.now().seconds();
        let full_in = (n + 1) * 60 / LIMIT;
        assert!((full_in - 1..=full_in + 1).contains(&reset), "{reset}");
    }
    for n in 0..2 {
        let response = send(first, second, n).await;
        response.fails(429, TOO_MANY);
        assert_eq!(number(&response, "x-ratelimit-limit"), LIMIT);
        assert_eq!(number(&response, "x-ratelimit-remaining"), 0);
        assert!((1..=60 / LIMIT).contains(&number(&response, "retry-after")));
        let reset = number(&response, "x-ratelimit-reset") - first.clock.now().seconds();
        assert!((48..=61).contains(&reset), "{reset}");
    }
}

#[tokio::test]
async fn two_hosts_together_accept_as_many_requests_as_one() {
    let redis = Redis::start().await;
    let (first, second) = two_hosts(&redis.url(), "limits.public = 5\nlimits.profile = 5").await;
    use_up_shared_budget(&first, &second).await;
    // A web session has its own budget, which the hosts share too.
    let ada = first.person("ada").await;
    for left in (0..LIMIT).rev() {
        let response = if left % 2 == 0 {
            ada.send(PROFILE).await
        } else {
            Response::of(second.request(PROFILE).bearer_auth(&ada.access)).await
        };
        assert_eq!(response.status, 200, "{}", response.json);
        assert_eq!(number(&response, "x-ratelimit-remaining"), left);
    }
    ada.send(PROFILE).await.fails(429, TOO_MANY);
    let other = ada.sign_in_again().await;
    assert_eq!(other.send(PROFILE).await.status, 200);
    stop(first, second).await;
}

#[tokio::test]
async fn hosts_share_limits_over_a_unix_socket() {
    let redis = Redis::start().await;
    let (first, second) = two_hosts(&redis.socket_url(), PUBLIC).await;
    use_up_shared_budget(&first, &second).await;
    stop(first, second).await;
}

async fn sign_in(request: reqwest::RequestBuilder, password: &str) -> Response {
    let body = json!({ "email": "ada@first.test", "password": password });
    Response::of(request.json(&body)).await
}

#[tokio::test]
async fn an_attacker_gets_no_more_guesses_with_two_hosts() {
    let redis = Redis::start().await;
    let (first, second) = two_hosts(&redis.url(), "limits.sign_in_address = 3").await;
    first.person("ada").await;
    // Successful sign-ins do not count.
    for _ in 0..3 {
        let sessions = [first.request(LOGIN), second.request(LOGIN)];
        for request in sessions {
            assert_eq!(sign_in(request, PASSWORD).await.status, 200);
        }
    }
    for n in 0..3 {
        let request = if n % 2 == 0 {
            first.request(LOGIN)
        } else {
            second.request(LOGIN)
        };
        assert_eq!(sign_in(request, "Wrong-Horse-7").await.status, 401);
    }
    for request in [first.request(LOGIN), second.request(LOGIN)] {
        let response = sign_in(request, PASSWORD).await;
        response.fails(429, TOO_MANY);
        assert_eq!(number(&response, "x-ratelimit-limit"), 3);
        assert!((1..=20).contains(&number(&response, "retry-after")));
    }
    stop(first, second).await;
}

#[tokio::test]
async fn redis_contains_no_addresses_and_all_keys_expire() {
    let redis = Redis::start().await;
    let (first, second) = two_hosts(
        &redis.url(),
        "limits.public = 5\nlimits.profile = 5\nlimits.sign_in_address = 5",
    )
    .await;
    let ada = first.person("ada").await;
    ada.send(PROFILE).await;
    send(&first, &second, 1).await;
    sign_in(second.request(LOGIN), "Wrong-Horse-7").await;
    let mut connection = redis.connect().await;
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("*")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert!(keys.len() >= 3, "{keys:?}");
    for key in &keys {
        assert!(key.starts_with("latchmail:"), "{key}");
        assert!(!key.contains("ada") && !key.contains("127.0.0"), "{key}");
        let (expiry, value): (i64, String) = redis::pipe()
            .cmd("PTTL")
            .arg(key)
            .cmd("GET")
            .arg(key)
            .query_async(&mut connection)
            .await
            .unwrap_or((1, String::new()));
        assert!(
            (-2..=60_001).contains(&expiry) && expiry != -1,
            "{key}: {expiry}"
        );
        assert!(
            value.chars().all(|c| c.is_ascii_digit() || c == ' '),
            "{value}"
        );
    }
    stop(first, second).await;
}

#[tokio::test]
async fn without_redis_the_limits_apply_per_host_until_it_is_back() {
    let log = Log::capture();
    let mut redis = Redis::start().await;
    let (first, second) = two_hosts(&redis.url(), PUBLIC).await;
    assert_eq!(
        log.lines_with("INFO")
            .iter()
            .filter(|line| line.contains("hosts share rate limits"))
            .count(),
        2
    );
    use_up_shared_budget(&first, &second).await;
    redis.stop();
    for left in (0..LIMIT).rev() {
        for host in 0..2 {
            let response = send(&first, &second, host).await;
            assert_eq!(response.status, 200, "{}", response.json);
            assert_eq!(number(&response, "x-ratelimit-remaining"), left);
        }
    }
    for host in 0..2 {
        send(&first, &second, host).await.fails(429, TOO_MANY);
    }
    // The hosts try to connect every second, and do not repeat the warning.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let warnings = log.lines_with("Redis is unavailable");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings.iter().all(|line| line.contains("WARN")),
        "{warnings:?}"
    );
    redis.start_again().await;
    wait_until("both hosts use Redis again", async || {
        log.lines_with("Redis is available again").len() == 2
    })
    .await;
    use_up_shared_budget(&first, &second).await;
    assert!(log.lines_with(latchmail_tests::REDIS_PASSWORD).is_empty());
    stop(first, second).await;
}

#[tokio::test]
async fn a_redis_server_that_does_not_respond_delays_one_request_by_the_timeout() {
    let redis = Redis::start().await;
    let (first, second) = two_hosts(&redis.url(), "limits.public = 1000").await;
    send(&first, &second, 0).await;
    redis.pause();
    let start = Instant::now();
    assert_eq!(first.send(AVAILABLE).await.status, 200);
    let delayed = start.elapsed();
    assert!(delayed < TIMEOUT * 5, "{delayed:?}");
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(first.send(AVAILABLE).await.status, 200);
    }
    let others = start.elapsed();
    assert!(others < TIMEOUT * 10, "20 requests took {others:?}");
    redis.resume();
    let shared = |service: &Service| service.app().http.limits.shared().unwrap().is_available();
    wait_until("the host uses Redis again", async || shared(&first)).await;
    stop(first, second).await;
}

#[tokio::test]
async fn changed_limits_apply_to_shared_budgets() {
    let redis = Redis::start().await;
    let (first, second) = two_hosts(&redis.url(), PUBLIC).await;
    use_up_shared_budget(&first, &second).await;
    let mut config = first.app().config.clone();
    config.limits.public = 2;
    first.app().http.reload(&config).unwrap();
    assert_eq!(
        number(&first.send(AVAILABLE).await, "x-ratelimit-remaining"),
        1
    );
    // The second host still has the old limit.
    second.send(AVAILABLE).await.fails(429, TOO_MANY);
    assert_eq!(
        number(&first.send(AVAILABLE).await, "x-ratelimit-remaining"),
        0
    );
    first.send(AVAILABLE).await.fails(429, TOO_MANY);
    stop(first, second).await;
}

#[tokio::test]
async fn the_service_starts_without_redis_and_doctor_reports_it() {
    let log = Log::capture();
    let mut redis = Redis::start().await;
    let wrong = redis
        .url()
        .replace(latchmail_tests::REDIS_PASSWORD, "wr0ng");
    let setting = format!("redis.url = '{wrong}'");
    let service = Setup::default().with(&setting).start().await;
    assert_eq!(service.send(AVAILABLE).await.status, 200);
    let warnings = log.lines_with("Redis is unavailable");
    assert!(
        warnings.len() == 1 && warnings[0].contains("authentication failed"),
        "{warnings:?}"
    );
    let doctor = async |url: &str| {
        let variables = [("LATCHMAIL_REDIS__URL", url)];
        let output = service
            .operator_with_all_settings(&["doctor"], &variables)
            .await;
        let mut lines = output.stdout.lines();
        let line = lines.find(|line| line.contains(" redis: "));
        line.map(ToOwned::to_owned)
    };
    let line = doctor(&wrong).await.unwrap();
    assert!(
        line.starts_with("warning") && line.contains("authentication failed"),
        "{line}"
    );
    assert!(!line.contains("wr0ng"), "{line}");
    let line = doctor(&redis.url()).await.unwrap();
    assert!(line.starts_with("ok"), "{line}");
    redis.stop();
    let line = doctor(&redis.url()).await.unwrap();
    assert!(line.starts_with("warning"), "{line}");
    assert!(log.lines_with("wr0ng").is_empty());
}

/// The budgets in Redis, with the time of a test instead of the time of Redis.
#[derive(Debug)]
struct AtTime {
    connection: MultiplexedConnection,
    clock: Clock,
    take: Script,
    give_back: Script,
}

impl AtTime {
    async fn new(redis: &Redis, clock: &Clock) -> Arc<Self> {
        // The keys do not expire during the test.
        let script = |script: &str| {
            let changed = script
                .replace("redis.call('TIME')", "{ARGV[#ARGV - 1], ARGV[#ARGV]}")
                .replace("math.ceil(full_in / 1e6) + 1", "3600000");
            assert!(changed.contains("#ARGV - 1") && changed.contains("3600000"));
            Script::new(&changed)
        };
        Arc::new(Self {
            connection: redis.connect().await,
            clock: clock.clone(),
            take: script(TAKE),
            give_back: script(GIVE_BACK),
        })
    }

    async fn invoke<T: redis::FromRedisValue>(
        &self,
        script: &Script,
        budgets: &[SharedBudget],
    ) -> T {
        let mut invocation = script.prepare_invoke();
        for budget in budgets {
            invocation.key(&budget.name);
            for time in [budget.interval, budget.tolerance] {
                invocation.arg(u64::try_from(time.as_nanos()).unwrap());
            }
        }
        let now = self.clock.now().millis();
        invocation.arg(now / 1000).arg(now % 1000 * 1000);
        let mut connection = self.connection.clone();
        invocation.invoke_async(&mut connection).await.unwrap()
    }
}

impl SharedBudgets for AtTime {
    fn is_available(&self) -> bool {
        true
    }

    fn take<'a>(&'a self, budgets: &'a [SharedBudget]) -> BoxFuture<'a, Option<Taken>> {
        Box::pin(async move {
            let (index, full_in): (usize, u64) = self.invoke(&self.take, budgets).await;
            let full_in = Duration::from_nanos(full_in);
            Some(match index.checked_sub(1) {
                None => Taken::Accepted { full_in },
                Some(index) => Taken::Rejected { index, full_in },
            })
        })
    }

    fn give_back<'a>(&'a self, budgets: &'a [SharedBudget]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _: i64 = self.invoke(&self.give_back, budgets).await;
        })
    }
}

/// Advances a clock by a random time, which is often 0 and sometimes longer than a minute.
fn advance(clock: &Clock, random: &mut Random) {
    let most = [1, 1, 50, 2_000, 15_000, 90_000][random.below(6)];
    let time = u64::try_from(random.below(most)).unwrap();
    clock.advance(Duration::from_millis(time));
}

#[tokio::test]
async fn redis_counts_requests_exactly_as_one_process_does() {
    let redis = Redis::start().await;
    let clock = Clock::manual(Timestamp::from_millis(1_795_161_600_123));
    let limits = config::Limits {
        mail: 7,
        search: 1,
        public: 300,
        ..config::Limits::default()
    };
    let local = Limits::new(&limits, clock.clone()).unwrap();
    let shared = Limits::new(&limits, clock.clone()).unwrap();
    let shared = shared.with_shared(AtTime::new(&redis, &clock).await, "test");
    let buckets = [
        Bucket::Mail,
        Bucket::Search,
        Bucket::Public,
        Bucket::Mcp,
        Bucket::SignIn,
    ];
    let mut random = Random::new(37);
    for step in 0..6000 {
        advance(&clock, &mut random);
        let bucket = buckets[random.below(buckets.len())];
        let key = Key::Session(["a", "b"][random.below(2)].into());
        for _ in 0..random.below(10) {
            let expected = local.check(bucket, &key).await;
            assert_eq!(
                shared.check(bucket, &key).await,
                expected,
                "step {step}, {bucket:?}"
            );
        }
    }
}

#[tokio::test]
async fn redis_counts_failed_attempts_exactly_as_one_process_does() {
    let redis = Redis::start().await;
    let clock = Clock::manual(Timestamp::from_millis(1_795_161_600_123));
    let local = Failures::new(clock.clone());
    let shared = Failures::new(clock.clone());
    let shared = shared.with_shared(AtTime::new(&redis, &clock).await, "test");
    let status = |result: &Result<Attempt<'_>, Failure>| match result {
        Ok(_) => None,
        Err(Failure {
            kind: Kind::RateLimited(status),
            ..
        }) => Some(*status),
        Err(other) => panic!("{other:?}"),
    };
    let mut random = Random::new(37);
    let mut started = Vec::new();
    for step in 0..6000 {
        advance(&clock, &mut random);
        let network = IpAddr::from([192, 0, 2, u8::try_from(random.below(2)).unwrap()]);
        let limit = NonZeroU32::new([1, 3, 7][random.below(3)]).unwrap();
        let keys = [
            (Key::AddressFrom("a".into(), network), limit),
            (
                Key::Address("a".into()),
                limit.saturating_mul(NonZeroU32::MIN.saturating_add(1)),
            ),
        ];
        let (expected, actual) = (
            local.attempt(keys.clone()).await,
            shared.attempt(keys).await,
        );
        assert_eq!(status(&actual), status(&expected), "step {step}");
        if let (Ok(one), Ok(other)) = (expected, actual) {
            started.push((one, other));
        }
        if random.below(2) == 0 && !started.is_empty() {
            let (one, other) = started.swap_remove(random.below(started.len()));
            one.succeeded().await;
            other.succeeded().await;
        }
        // The others are failures.
        started.truncate(5);
    }
}
