use super::submissions::Submission;
use super::*;
use crate::jobs::NewLease;
use crate::mailserver::MailServerView;
use crate::testing::{Fresh, NOW, both};

const LIMITS: Limits = Limits {
    entries: 3,
    bytes: 1000,
};

fn entry<'e>(id: &'e str, member: Option<&'e str>, send_at: Timestamp) -> NewEntry<'e> {
    NewEntry {
        id,
        account: "ada",
        member,
        send_at,
        message_id: id,
        draft: (id == "draft").then_some("d"),
        size: 100,
        sealed_key: b"key",
        sealed_details: b"details",
        sealed_payload: b"payload",
    }
}

async fn add(fresh: &Fresh, new: NewEntry<'_>) -> bool {
    let mut chunks = vec![
        (Part::Message, 0, b"zero".to_vec()),
        (Part::Message, 1, b"one".to_vec()),
    ];
    if new.draft.is_some() {
        chunks.push((Part::Draft, 0, b"draft".to_vec()));
    }
    fresh
        .directory
        .outbox
        .add(new, &chunks, LIMITS)
        .await
        .unwrap()
}

async fn lease(fresh: &Fresh, now: Timestamp) -> Lease {
    let new = NewLease {
        host: "host",
        kinds: ",outbox,",
        now,
        duration: Duration::from_secs(10),
        account_limit: 4,
    };
    fresh.directory.jobs.lease(new).await.unwrap().unwrap().0
}

async fn a_message_is_sent_or_cancelled(fresh: Fresh) {
    let (directory, outbox) = (&fresh.directory, &fresh.directory.outbox);
    directory.with("ada", "ada@example.org", &[]).await;
    let later = NOW.plus(Duration::from_hours(1));
    assert!(add(&fresh, entry("one", None, later)).await);
    assert!(add(&fresh, entry("two", Some("bob"), NOW)).await);
    assert!(add(&fresh, entry("draft", None, later)).await);
    assert!(
        !add(&fresh, entry("four", None, NOW)).await,
        "three entries"
    );
    let ids = async |member| {
        let entries = outbox.list("ada", member, 10).await.unwrap();
        entries.into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None).await, ["two", "draft", "one"]);
    assert_eq!(ids(Some("bob")).await, ["two"]);
    let chunk = outbox.chunk("one", Part::Message, 1).await.unwrap();
    assert_eq!(chunk.as_deref(), Some(&b"one"[..]));

    let two = lease(&fresh, NOW).await;
    assert!(outbox.begin(&two, NOW).await.unwrap());
    assert!(!outbox.begin(&two, NOW).await.unwrap());
    assert!(!outbox.cancel("two", NOW).await.unwrap());
    assert!(!outbox.reschedule("two", later).await.unwrap());
    assert!(outbox.put_back(&two).await.unwrap());
    assert!(outbox.begin(&two, NOW).await.unwrap());
    fresh.execute("UPDATE mailboxes SET version = 7").await;
    let found = outbox.find("two").await.unwrap().unwrap();
    assert!(outbox.end(&two, &found, "sent", None, NOW).await.unwrap());
    assert!(!outbox.end(&two, &found, "failed", None, NOW).await.unwrap());
    let log = &directory.message_index.log;
    let events = log.events("ada", (0, 100), 10).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((&*events[0].kind, events[0].version()), ("outbox.sent", 8));
    assert!(events[0].data.contains(r#""outboxId":"two""#), "{events:?}");
    let sent = outbox.find("two").await.unwrap().unwrap();
    assert_eq!((&*sent.state, sent.size), ("sent", 0));
    assert_eq!(outbox.chunk("two", Part::Message, 0).await.unwrap(), None);

    // A new time wins over a host that has leased the job.
    assert!(outbox.reschedule("one", NOW).await.unwrap());
    let one = lease(&fresh, NOW).await;
    assert!(outbox.reschedule("one", NOW).await.unwrap());
    assert!(!outbox.begin(&one, NOW).await.unwrap());
    assert!(!fresh.directory.jobs.end(&one).await.unwrap());

    // A cancellation wins over a host that has leased the job.
    let one = lease(&fresh, NOW).await;
    assert!(
        outbox
            .cancel("one", NOW.plus(Duration::from_secs(1)))
            .await
            .unwrap()
    );
    assert!(!outbox.begin(&one, NOW).await.unwrap());
    assert!(!outbox.put_back(&one).await.unwrap());
    let found = outbox.find("one").await.unwrap().unwrap();
    assert!(!outbox.end(&one, &found, "sent", None, NOW).await.unwrap());
    assert!(outbox.cancel("draft", NOW).await.unwrap());
    assert_eq!(outbox.chunk("draft", Part::Message, 0).await.unwrap(), None);
    assert!(
        outbox
            .chunk("draft", Part::Draft, 0)
            .await
            .unwrap()
            .is_some()
    );
    outbox.forget_bytes("draft").await.unwrap();
    assert_eq!(outbox.chunk("draft", Part::Draft, 0).await.unwrap(), None);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM jobs").await, 0);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM outbox_chunks").await, 0);
    assert_eq!(ids(None).await[0], "one", "the newest outcome");
    let found = outbox.by_message("ada", "one").await.unwrap();
    assert_eq!(found.as_deref(), Some("one"));

    let big = NewEntry {
        size: 1001,
        ..entry("big", None, NOW)
    };
    assert!(!add(&fresh, big).await);
    outbox.sweep(NOW.plus(RETENTION)).await.unwrap();
    assert_eq!(ids(None).await, ["one"]);
}

async fn a_submission_is_recorded_once(fresh: Fresh) {
    let outbox = &fresh.directory.outbox;
    let milter = MailServerView::new(&fresh.config).unwrap();
    let record = async |id| outbox.submission(id).await.unwrap();
    assert_eq!(record("a").await, Submission::NoRecords);
    let now = latchmail_core::clock::Clock::system().now();
    assert!(milter.add_submission("a", now).await.unwrap());
    assert!(!milter.add_submission("a", now).await.unwrap());
    assert_eq!(record("a").await, Submission::Accepted);
    assert_eq!(record("b").await, Submission::NotAccepted);
    let old = now.minus(RETENTION * 2);
    assert!(milter.add_submission("b", old).await.unwrap());
    outbox.sweep_submissions().await.unwrap();
    assert_eq!(record("b").await, Submission::NotAccepted);
    assert_eq!(record("a").await, Submission::Accepted);
}

both!(
    a_message_is_sent_or_cancelled,
    a_submission_is_recorded_once
);
