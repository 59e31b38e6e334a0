//! Snoozed messages and their jobs, checked with another client.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::clock::Clock;
use latchmail_core::keyring::testing::keyring;
use latchmail_jobs::{Handler as _, Job, Jobs, Outcome};

use super::search_index::Credentials;
use super::{TestMailbox, with_mailbox};
use crate::{Error, Snoozer};

const HOUR: Duration = Duration::from_hours(1);

/// The snoozer of a mailbox, and its jobs.
fn snoozer(test: &TestMailbox) -> (Arc<Snoozer>, Arc<Jobs>) {
    test.mail.index.set_credentials(Arc::new(Credentials));
    let stored = test.fresh.directory.jobs.clone();
    let jobs = Jobs::new(stored, Arc::new(keyring(&[1])), Clock::system());
    let jobs = Arc::new(jobs);
    (Arc::new(Snoozer::new(&test.mail, &jobs)), jobs)
}

/// Returns the only job of a message.
async fn job(jobs: &Jobs, key: u64) -> Job {
    let found = jobs.with_key("ada", "snooze", &key.to_string()).await;
    let mut found = found.unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_brings_only_its_own_message_back() {
    with_mailbox(async |test| {
        let (snoozer, jobs) = snoozer(&test);
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        let work = test.append("Work", &["a", "b"]).await;
        let until = |delay| Clock::system().now().plus(delay);
        for uid in &work {
            let done = snoozer.snooze(&test.access, *uid, until(HOUR)).await;
            done.unwrap().unwrap();
        }
        assert_eq!(test.subjects("Snoozed").await, ["a", "b"]);
        let earlier = job(&jobs, work[0].0).await;
        let later = snoozer.snooze(&test.access, work[0], until(HOUR * 2));
        later.await.unwrap().unwrap();
        assert_eq!(test.subjects("Snoozed").await, ["a", "b"]);
        // The host has leased the job before the time was changed.
        assert_eq!(snoozer.run(&earlier).await, Outcome::Done);
        assert_eq!(test.subjects("Snoozed").await, ["a", "b"]);

        // A host was killed after the first command of the job.
        client.ok("SELECT Snoozed");
        client.ok("UID STORE 1 FLAGS (\\Flagged)");
        client.ok("CLOSE");
        let current = job(&jobs, work[0].0).await;
        assert_eq!(snoozer.run(&current).await, Outcome::Done);
        let back = test.detail(work[0]).await;
        assert_eq!((&*back.folder, back.summary.number), ("Work", work[0]));
        assert_eq!(back.summary.flags, ["\\Flagged"]);
        // The job runs again, because the host was killed before it ended.
        assert_eq!(snoozer.run(&current).await, Outcome::Done);
        assert_eq!(test.subjects("Work").await, ["a"]);

        // The previous folder does not exist any longer.
        client.ok("DELETE Work");
        let other = job(&jobs, work[1].0).await;
        assert_eq!(snoozer.run(&other).await, Outcome::Done);
        assert_eq!(test.subjects("INBOX").await, ["b"]);

        // A message that another client has put into the folder.
        client.ok("SELECT INBOX");
        client.ok("UID MOVE 1 Snoozed");
        jobs.cancel("ada", "snooze", &work[1].0.to_string())
            .await
            .unwrap();
        let refused = snoozer.unsnooze(&test.access, work[1]).await;
        assert!(matches!(refused, Err(Error::NotSnoozed)), "{refused:?}");
        let none = snoozer.until(&test.access, work[1]).await.unwrap();
        assert_eq!(none, Some(None));
        let past = snoozer.snooze(&test.access, work[1], Clock::system().now());
        let past = past.await;
        assert!(matches!(past, Err(Error::InvalidSnoozeTime)), "{past:?}");
    })
    .await;
}
