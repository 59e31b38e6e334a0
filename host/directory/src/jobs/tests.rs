use super::*;
use crate::testing::{Fresh, NOW, both};

const HOUR: Duration = Duration::from_hours(1);

fn job<'j>(id: &'j str, key: &'j str, due_at: Timestamp) -> NewJob<'j> {
    NewJob {
        id,
        kind: "test",
        key,
        account: "ada",
        due_at,
        sealed_payload: b"sealed",
    }
}

fn new_lease(host: &str, now: Timestamp) -> NewLease<'_> {
    NewLease {
        host,
        kinds: ",other,test,",
        now,
        duration: Duration::from_secs(10),
        account_limit: 4,
    }
}

async fn lease(fresh: &Fresh, host: &str, now: Timestamp) -> Option<Lease> {
    let leased = fresh.directory.jobs.lease(new_lease(host, now)).await;
    leased.unwrap().map(|(lease, _)| lease)
}

async fn a_due_job_is_leased_once_and_its_outcome_ends_the_lease(fresh: Fresh) {
    let (directory, jobs) = (&fresh.directory, &fresh.directory.jobs);
    directory.with("ada", "ada@example.org", &[]).await;
    assert!(jobs.add(job("1", "k", NOW.plus(HOUR)), 2).await.unwrap());
    assert!(jobs.add(job("2", "k", NOW), 2).await.unwrap());
    assert!(!jobs.add(job("3", "l", NOW), 2).await.unwrap());
    let waiting = jobs.with_key("ada", "test", "k").await.unwrap();
    let ids: Vec<_> = waiting.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["2", "1"]);
    assert_eq!(waiting[1].due_at(), NOW.plus(HOUR));
    assert_eq!(jobs.next_after(NOW).await.unwrap(), Some(NOW.plus(HOUR)));

    assert_eq!(lease(&fresh, "a", NOW.minus(HOUR)).await, None);
    let other = NewLease {
        kinds: ",other,",
        ..new_lease("a", NOW)
    };
    assert_eq!(jobs.lease(other).await.unwrap(), None);
    let later = NOW.plus(HOUR * 2);
    let first = lease(&fresh, "a", NOW).await.unwrap();
    assert_eq!((&*first.job, first.attempt), ("2", 1));
    // The other job has the same key.
    assert_eq!(lease(&fresh, "a", later).await, None);
    assert!(jobs.retry(&first, NOW.plus(HOUR * 3)).await.unwrap());
    assert!(!jobs.end(&first).await.unwrap(), "the lease has ended");
    assert_eq!(lease(&fresh, "a", later).await, None, "the order is kept");
    let second = lease(&fresh, "a", NOW.plus(HOUR * 3)).await.unwrap();
    assert_eq!((&*second.job, second.attempt), ("2", 2));
    assert!(jobs.end(&second).await.unwrap());
    let next = lease(&fresh, "a", later).await.unwrap();
    assert_eq!(next.job, "1");
    // A running job cannot be changed.
    assert!(!jobs.cancel("ada", "test", "k").await.unwrap());
    assert!(jobs.replace(job("4", "k", NOW), 2).await.unwrap());
    assert_eq!(lease(&fresh, "a", later).await, None);
    assert!(!jobs.replace(job("5", "l", NOW), 2).await.unwrap());
    assert!(jobs.replace(job("6", "k", NOW), 2).await.unwrap());
    assert!(jobs.cancel("ada", "test", "k").await.unwrap());
    assert_eq!(fresh.number("SELECT COUNT(*) FROM jobs").await, 1);
    fresh.execute("DELETE FROM accounts WHERE id = 'ada'").await;
    assert!(!jobs.end(&next).await.unwrap());
}

async fn jobs_of_one_account_leave_leases_for_others(fresh: Fresh) {
    let (directory, jobs) = (&fresh.directory, &fresh.directory.jobs);
    directory.with("ada", "ada@example.org", &[]).await;
    directory.with("bob", "bob@example.org", &[]).await;
    for key in ["1", "2", "3", "4", "5"] {
        assert!(jobs.add(job(key, key, NOW), 9).await.unwrap());
    }
    let other = NewJob {
        account: "bob",
        ..job("b", "b", NOW.plus(HOUR))
    };
    assert!(jobs.add(other, 9).await.unwrap());
    let later = NOW.plus(HOUR);
    let mut leased = Vec::new();
    while let Some(lease) = lease(&fresh, "a", later).await {
        leased.push(lease);
    }
    assert_eq!(leased.len(), 5, "{leased:?}");
    assert_eq!(leased[4].job, "b");
    jobs.end(&leased[0]).await.unwrap();
    assert!(lease(&fresh, "a", later).await.is_some());
}

async fn the_lease_of_a_stopped_host_is_taken_over(fresh: Fresh) {
    let (directory, jobs) = (&fresh.directory, &fresh.directory.jobs);
    directory.with("ada", "ada@example.org", &[]).await;
    jobs.add(job("1", "k", NOW), 9).await.unwrap();
    let first = lease(&fresh, "a", NOW).await.unwrap();
    // A job that is due earlier does not block the job of the stopped host.
    jobs.add(job("2", "k", NOW.minus(HOUR)), 9).await.unwrap();
    assert!(jobs.extend(&first, NOW.plus(HOUR)).await.unwrap());
    assert_eq!(lease(&fresh, "b", NOW.plus(HOUR / 2)).await, None);
    if matches!(directory.db(), Db::Sqlite(..)) {
        // With SQLite, a jump of the clock does not end the lease.
        assert_eq!(lease(&fresh, "b", NOW.plus(HOUR * 99)).await, None);
        jobs.abandon().await.unwrap();
        // No host has a lease, so the order of the due times counts.
        let second = lease(&fresh, "b", NOW.plus(HOUR)).await.unwrap();
        assert_eq!(second.job, "2");
        return;
    }
    jobs.abandon().await.unwrap();
    // A host does not start a job twice.
    assert_eq!(lease(&fresh, "a", NOW.plus(HOUR)).await, None);
    let second = lease(&fresh, "b", NOW.plus(HOUR)).await.unwrap();
    assert_eq!((&*second.job, second.attempt), ("1", 2));
    assert!(!jobs.extend(&first, NOW.plus(HOUR * 2)).await.unwrap());
    assert!(!jobs.retry(&first, NOW).await.unwrap());
    assert!(!jobs.end(&first).await.unwrap());
    assert!(jobs.end(&second).await.unwrap());
}

async fn delays_end_when_the_clock_is_set_back(fresh: Fresh) {
    let (directory, jobs) = (&fresh.directory, &fresh.directory.jobs);
    directory.with("ada", "ada@example.org", &[]).await;
    jobs.add(job("1", "k", NOW), 9).await.unwrap();
    jobs.add(job("2", "l", NOW.plus(HOUR * 30)), 9)
        .await
        .unwrap();
    let failed = lease(&fresh, "a", NOW.plus(HOUR * 24)).await.unwrap();
    jobs.retry(&failed, NOW.plus(HOUR * 25)).await.unwrap();
    assert_eq!(lease(&fresh, "a", NOW).await, None);
    jobs.forget_delays(NOW.plus(HOUR)).await.unwrap();
    assert_eq!(lease(&fresh, "a", NOW).await.unwrap().job, "1");
    let next = jobs.next_after(NOW).await.unwrap();
    assert_eq!(next, Some(NOW.plus(HOUR * 30)));
}

async fn a_postponed_job_ends_if_a_successor_waits(fresh: Fresh) {
    let (directory, jobs) = (&fresh.directory, &fresh.directory.jobs);
    directory.with("ada", "ada@example.org", &[]).await;
    jobs.ensure(job("1", "k", NOW)).await.unwrap();
    let first = lease(&fresh, "a", NOW).await.unwrap();
    let next_at = NOW.plus(HOUR);
    jobs.postpone(&first, "ada", next_at).await.unwrap();
    assert!(!jobs.end(&first).await.unwrap(), "the lease has ended");
    jobs.ensure(job("2", "k", NOW)).await.unwrap();
    assert_eq!(lease(&fresh, "a", NOW).await, None, "the first job waits");

    let first = lease(&fresh, "a", next_at).await.unwrap();
    jobs.ensure(job("2", "k", next_at)).await.unwrap();
    jobs.ensure(job("3", "k", next_at)).await.unwrap();
    let later = next_at.plus(HOUR);
    jobs.postpone(&first, "ada", later).await.unwrap();
    assert_eq!(lease(&fresh, "a", next_at).await.unwrap().job, "2");
    assert_eq!(fresh.number("SELECT COUNT(*) FROM jobs").await, 1);
}

async fn concurrent_hosts_lease_each_job_once(fresh: Fresh) {
    let (directory, jobs) = (&fresh.directory, &fresh.directory.jobs);
    directory.with("ada", "ada@example.org", &[]).await;
    let ids: Vec<String> = (0..40).map(|n| format!("j{n}")).collect();
    for (n, id) in ids.iter().enumerate() {
        let key = &ids[n / 2];
        jobs.add(job(id, key, NOW), 99).await.unwrap();
    }
    let work = async |host: &'static str| {
        let mut done = Vec::new();
        loop {
            let now = NOW.plus(HOUR);
            let Some(lease) = lease(&fresh, host, now).await else {
                // Another host does a job with the key of the remaining job.
                if fresh.number("SELECT COUNT(*) FROM jobs").await == 0 {
                    return done;
                }
                continue;
            };
            assert!(jobs.end(&lease).await.unwrap());
            done.push(lease.job);
        }
    };
    let (a, b, c) = tokio::join!(work("a"), work("b"), work("c"));
    let mut done = [a, b, c].concat();
    done.sort();
    let mut ids = ids.clone();
    ids.sort();
    assert_eq!(done, ids);
}

both!(
    a_due_job_is_leased_once_and_its_outcome_ends_the_lease,
    jobs_of_one_account_leave_leases_for_others,
    the_lease_of_a_stopped_host_is_taken_over,
    delays_end_when_the_clock_is_set_back,
    a_postponed_job_ends_if_a_successor_waits,
    concurrent_hosts_lease_each_job_once,
);
