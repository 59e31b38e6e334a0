use std::sync::Mutex;

use latchmail_core::clock::Clock;
use latchmail_core::keyring::testing::keyring;
use latchmail_directory::testing::{Fresh, NOW, on_postgres, on_sqlite};
use tokio::time::Instant;

use super::*;
use crate::NewJob;

/// A handler that fails or panics at the first attempt, and records all attempts.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<(String, i64)>>);

impl Handler for Recorder {
    fn kind(&self) -> &'static str {
        "test"
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let attempt = job.lease.as_ref().unwrap().attempt;
        assert_eq!((&**job.payload, &*job.account), (&b"payload"[..], "ada"));
        self.0.lock().unwrap().push((job.key.clone(), attempt));
        let fails = job.key == "fails" && attempt == 1;
        assert!(job.key != "panics" || attempt > 1, "the first attempt");
        Box::pin(async move {
            if fails {
                return Outcome::Retry("it is the first attempt".into());
            }
            Outcome::Done
        })
    }
}

fn jobs(fresh: &Fresh, clock: &Clock) -> Arc<Jobs> {
    let keys = Arc::new(keyring(&[1]));
    Arc::new(Jobs::new(fresh.directory.jobs.clone(), keys, clock.clone()))
}

fn job(key: &str, due_at: Timestamp) -> NewJob<'_> {
    NewJob {
        kind: "test",
        key,
        account: "ada",
        due_at,
        payload: b"payload",
        limit: 100,
    }
}

/// Waits until the condition is true, for at most 20 seconds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn due_jobs_run_once_and_failed_jobs_again(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let clock = Clock::manual(NOW);
    let jobs = jobs(&fresh, &clock);
    let recorder = Arc::new(Recorder::default());
    let now = jobs.now().await.unwrap();
    assert!(jobs.add(job("now", now)).await.unwrap());
    let runner = Runner::start(
        Arc::clone(&jobs),
        "host",
        vec![recorder.clone()],
        Limits::default(),
    );
    for key in ["fails", "panics"] {
        assert!(jobs.add(job(key, now)).await.unwrap());
    }
    let later = now.plus(Duration::from_hours(1));
    assert!(jobs.add(job("later", later)).await.unwrap());
    let attempts = || {
        let mut attempts = recorder.0.lock().unwrap().clone();
        attempts.sort();
        attempts
    };
    until("three attempts", || attempts().len() == 3).await;
    // A manual clock stands, so the delay after a failure passes only below.
    let mut expected = vec![("fails", 1), ("now", 1), ("panics", 1)];
    let equals = |expected: &[(&str, i64)]| {
        let attempts = attempts();
        let attempts: Vec<_> = attempts.iter().map(|(k, n)| (&**k, *n)).collect();
        attempts == expected
    };
    assert!(equals(&expected));
    expected.extend([("fails", 2), ("panics", 2)]);
    expected.sort_unstable();
    until("five attempts", || {
        clock.advance(Duration::from_millis(100));
        jobs.wake();
        equals(&expected)
    })
    .await;
    let waiting = jobs.with_key("ada", "test", "later").await.unwrap();
    assert_eq!(waiting[0].due_at, later);
    let now = jobs.now().await.unwrap();
    assert!(jobs.replace(job("later", now)).await.unwrap());
    expected.insert(2, ("later", 1));
    until("the replaced job", || equals(&expected)).await;
    runner.stop().await;
    assert_eq!(fresh.number("SELECT COUNT(*) FROM jobs").await, 0);
    assert!(jobs.add(job("stopped", now)).await.unwrap());
    assert!(equals(&expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_run_once_and_failed_jobs_again_on_sqlite() {
    on_sqlite(due_jobs_run_once_and_failed_jobs_again)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_run_once_and_failed_jobs_again_on_postgres() {
    on_postgres(due_jobs_run_once_and_failed_jobs_again)
        .await
        .unwrap();
}

#[test]
fn the_delay_doubles_up_to_ten_minutes() {
    let delays = [1, 2, 3, 9, 10, 11, 99].map(|attempt| delay(attempt).as_secs());
    assert_eq!(delays, [2, 4, 8, 512, 600, 600, 600]);
}
