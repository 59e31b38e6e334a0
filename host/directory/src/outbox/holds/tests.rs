use super::*;
use crate::jobs::NewLease;
use crate::testing::{Fresh, NOW, both};

const LIMITS: Limits = Limits {
    entries: 2,
    bytes: 1000,
};
const DAY: Duration = Duration::from_hours(24);

fn caller(at: Timestamp) -> SessionCaller<'static> {
    SessionCaller {
        account_id: "ada",
        sid: "session",
        at,
    }
}

async fn hold(fresh: &Fresh, id: &str, draft: Option<&str>) -> bool {
    let new = NewEntry {
        id,
        account: "ada",
        member: None,
        send_at: NOW,
        message_id: id,
        draft,
        size: 100,
        sealed_key: b"key",
        sealed_details: b"details",
        sealed_payload: b"",
    };
    let job = format!("job {id}");
    let hold = NewHold {
        grant: "g",
        app_password: "none",
        reason: "why",
        hash: "hash",
        now: NOW,
        expires_at: NOW.plus(DAY),
        sealed_files: b"files",
        job: &job,
        sealed_payload: b"payload",
    };
    let chunks = [
        (Part::Message, 0, b"message".to_vec()),
        (Part::Draft, 0, b"draft".to_vec()),
    ];
    let outbox = &fresh.directory.outbox;
    outbox.add_held(new, &chunks, hold, LIMITS).await.unwrap()
}

/// Leases a due job of a kind. Returns its key.
async fn lease(fresh: &Fresh, kinds: &str, now: Timestamp) -> Option<String> {
    let new = NewLease {
        host: "host",
        kinds,
        now,
        duration: Duration::from_secs(10),
        account_limit: 4,
    };
    let leased = fresh.directory.jobs.lease(new).await.unwrap();
    leased.map(|(_, job)| job.key)
}

async fn state(fresh: &Fresh, id: &str) -> (String, String) {
    let hold = fresh.directory.outbox.find_hold("ada", id).await.unwrap();
    let hold = hold.unwrap();
    (hold.status, hold.entry.state)
}

async fn an_approved_hold_becomes_an_entry_of_the_outbox(fresh: Fresh) {
    let (directory, outbox) = (&fresh.directory, &fresh.directory.outbox);
    directory.with("ada", "ada@example.org", &["session"]).await;
    directory.with("bob", "bob@example.org", &[]).await;
    assert!(hold(&fresh, "one", None).await);
    assert!(hold(&fresh, "two", None).await);
    assert!(!hold(&fresh, "three", None).await, "two holds");
    assert!(outbox.list("ada", None, 10).await.unwrap().is_empty());
    assert_eq!(outbox.holds("ada").await.unwrap().len(), 2);
    assert_eq!(outbox.find_hold("bob", "one").await.unwrap(), None);
    let found = outbox.hold_of_message("ada", "one").await.unwrap();
    assert_eq!(found.as_deref(), Some("one"));
    // No job submits a held message.
    assert_eq!(lease(&fresh, ",outbox,", NOW).await, None);

    let origin = Origin::default();
    let approve = async |caller, hash| {
        let approved = outbox.approve_hold(caller, ("one", hash), b"payload", &origin);
        approved.await.unwrap()
    };
    let over = SessionCaller {
        sid: "other",
        ..caller(NOW)
    };
    assert_eq!(approve(over, "hash").await, Decision::SessionOver);
    assert_eq!(approve(caller(NOW), "other").await, Decision::Changed);
    let late = caller(NOW.plus(DAY));
    assert_ne!(approve(late, "hash").await, Decision::Done);
    assert_eq!(state(&fresh, "one").await.1, "held");
    assert_eq!(approve(caller(NOW), "hash").await, Decision::Done);
    assert_eq!(approve(caller(NOW), "hash").await, Decision::NotFound);
    assert_eq!(
        state(&fresh, "one").await,
        ("approved".into(), "scheduled".into())
    );
    let entry = outbox.find("one").await.unwrap().unwrap();
    assert!(entry.approved);
    assert_eq!(outbox.list("ada", None, 10).await.unwrap().len(), 1);
    let leased = lease(&fresh, ",outbox,", NOW).await;
    assert_eq!(leased.as_deref(), Some("one"));
    let jobs = fresh.number("SELECT COUNT(*) FROM jobs WHERE kind = 'hold'");
    assert_eq!(jobs.await, 1);
}

async fn a_rejected_or_expired_hold_keeps_only_its_draft(fresh: Fresh) {
    let (directory, outbox) = (&fresh.directory, &fresh.directory.outbox);
    directory.with("ada", "ada@example.org", &["session"]).await;
    assert!(hold(&fresh, "one", Some("draft")).await);
    // A host does the job at the time of the decision.
    assert_eq!(lease(&fresh, ",hold,", NOW).await.as_deref(), Some("one"));
    assert!(hold(&fresh, "two", None).await);
    let origin = Origin::default();
    let rejected = outbox.reject_hold(caller(NOW), ("one", "hash"), &origin);
    assert_eq!(rejected.await.unwrap(), Decision::Done);
    let jobs = fresh.number("SELECT COUNT(*) FROM jobs WHERE key = 'one' AND host IS NULL");
    assert_eq!(jobs.await, 1);
    let later = NOW.plus(DAY);
    outbox.expire_hold("ada", "one", later).await.unwrap();
    outbox.expire_hold("ada", "two", later).await.unwrap();
    let rejected = |status: &str| (status.to_owned(), "rejected".to_owned());
    assert_eq!(state(&fresh, "one").await, rejected("rejected"));
    assert_eq!(state(&fresh, "two").await, rejected("expired"));
    let chunk = async |id, part| outbox.chunk(id, part, 0).await.unwrap();
    assert_eq!(chunk("one", Part::Message).await, None);
    assert!(chunk("one", Part::Draft).await.is_some());
    outbox.forget_bytes("one").await.unwrap();
    assert_eq!(chunk("one", Part::Draft).await, None);
    assert!(outbox.list("ada", None, 10).await.unwrap().is_empty());
}

async fn notices_are_limited(fresh: Fresh) {
    const LIMITS: NoticeLimits = NoticeLimits {
        interval: Duration::from_mins(1),
        count: 2,
        period: DAY,
    };
    let (directory, outbox) = (&fresh.directory, &fresh.directory.outbox);
    directory.with("ada", "ada@example.org", &["session"]).await;
    let begin = async |now| outbox.begin_notice("ada", LIMITS, now).await.unwrap();
    let after = |minutes: u64| NOW.plus(Duration::from_secs(60 * minutes));
    assert_eq!(begin(NOW).await, Notice::None);
    assert!(hold(&fresh, "one", None).await);
    let both = futures_util::future::join(begin(NOW), begin(NOW)).await;
    let one = [
        (Notice::Due(1), Notice::Later(after(1))),
        (Notice::Later(after(1)), Notice::Due(1)),
    ];
    assert!(one.contains(&both), "{both:?}");
    outbox.cancel_notice("ada", NOW).await.unwrap();
    assert_eq!(begin(NOW).await, Notice::Due(1));
    assert_eq!(begin(after(1)).await, Notice::None);
    assert!(hold(&fresh, "two", None).await);
    assert_eq!(begin(after(1)).await, Notice::Due(2));
    let origin = Origin::default();
    let rejected = outbox.reject_hold(caller(NOW), ("two", "hash"), &origin);
    assert_eq!(rejected.await.unwrap(), Decision::Done);
    assert_eq!(begin(after(2)).await, Notice::Later(after(3)));
}

both!(
    an_approved_hold_becomes_an_entry_of_the_outbox,
    a_rejected_or_expired_hold_keeps_only_its_draft,
    notices_are_limited,
);
