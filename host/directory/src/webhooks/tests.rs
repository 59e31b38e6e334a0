use super::*;
use crate::testing::{Fresh, NOW, both};

const HOUR: Duration = Duration::from_hours(1);

fn new<'w>(id: &'w str, app_password: &'w str, subscription: Option<&'w str>) -> NewWebhook<'w> {
    NewWebhook {
        id,
        account: "ada",
        mailbox: "ada",
        app_password,
        subscription,
        cursor: "c0",
        expires_at: subscription.map(|_| NOW.plus(HOUR)),
        sealed_settings: b"settings",
        detail: "https://example.com",
    }
}

async fn add(fresh: &Fresh, new: NewWebhook<'_>, limit: i64) -> Added {
    let webhooks = &fresh.directory.webhooks;
    let origin = Origin::default();
    let added = webhooks.add(new, limit, 1, NOW, &origin).await;
    added.unwrap()
}

async fn find(fresh: &Fresh, id: &str) -> Option<Webhook> {
    fresh.directory.webhooks.find(id, NOW).await.unwrap()
}

fn delivery<'d>(id: &'d str, event_id: &'d str) -> NewDelivery<'d> {
    NewDelivery {
        id,
        event_id,
        event_type: "message.created",
        sealed_body: b"body",
    }
}

async fn a_webhook_counts_towards_the_limit_and_ends_with_its_credential(fresh: Fresh) {
    let directory = &fresh.directory;
    let sessions = ["s", "t"];
    directory.with("ada", "ada@example.org", &sessions).await;
    assert_eq!(
        add(&fresh, new("1", "none", None), 2).await,
        Added::CredentialEnded
    );
    assert_eq!(
        add(&fresh, new("1", "s-password", None), 2).await,
        Added::Added
    );
    assert_eq!(
        add(&fresh, new("2", "t-password", None), 2).await,
        Added::Added
    );
    assert_eq!(
        add(&fresh, new("3", "t-password", None), 2).await,
        Added::Full
    );
    // Subscriptions have limits of their own: here one of a credential.
    let subscription = new("4", "t-password", Some("sub"));
    assert_eq!(add(&fresh, subscription, 1).await, Added::Added);
    let same = new("5", "t-password", Some("sub"));
    assert_eq!(add(&fresh, same, 1).await, Added::Exists);
    let other = new("5", "t-password", Some("other"));
    assert_eq!(add(&fresh, other, 9).await, Added::CredentialFull);
    let of_other_credential = new("5", "s-password", Some("other"));
    assert_eq!(add(&fresh, of_other_credential, 1).await, Added::Full);

    let webhooks = &directory.webhooks;
    let found = find(&fresh, "1").await.unwrap();
    assert!(found.is_active() && found.may_send());
    assert_eq!(
        (found.cursor.as_deref(), found.failing_since()),
        (Some("c0"), None)
    );
    let listed = webhooks.of_mailbox("ada", NOW).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|one| &*one.id).collect();
    assert_eq!(ids, ["1", "2"]);
    assert_eq!(webhooks.sending(NOW).await.unwrap().len(), 3);
    assert_eq!(
        webhooks.active_of_mailbox("ada", NOW).await.unwrap().len(),
        3
    );
    let later = NOW.plus(HOUR);
    assert_eq!(webhooks.sending(later).await.unwrap().len(), 2);
    assert_eq!(webhooks.by_subscription("sub", later).await.unwrap(), None);
    assert_eq!(
        webhooks
            .by_subscription("sub", NOW)
            .await
            .unwrap()
            .unwrap()
            .id,
        "4"
    );

    fresh
        .execute("DELETE FROM app_passwords WHERE id = 't-password'")
        .await;
    assert_eq!(find(&fresh, "2").await, None);
    assert_eq!(webhooks.by_subscription("sub", NOW).await.unwrap(), None);
    assert_eq!(
        add(&fresh, new("3", "s-password", None), 2).await,
        Added::Added
    );
    let ended = webhooks.delete_ended().await.unwrap();
    let ended: Vec<_> = ended.iter().map(|one| &*one.subscription).collect();
    assert_eq!(ended, ["sub"]);
    assert!(webhooks.delete_ended().await.unwrap().is_empty());
    assert_eq!(fresh.number("SELECT COUNT(*) FROM webhooks").await, 2);
}

async fn a_suspended_credential_or_one_without_the_scope_may_not_send(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &["s"]).await;
    add(&fresh, new("1", "s-password", None), 2).await;
    let suspend = "UPDATE app_passwords SET suspended_at = 1";
    fresh.execute(suspend).await;
    assert!(!find(&fresh, "1").await.unwrap().may_send());
    assert_eq!(
        add(&fresh, new("2", "s-password", None), 2).await,
        Added::CredentialEnded
    );
    fresh
        .execute("UPDATE app_passwords SET suspended_at = NULL")
        .await;
    assert!(find(&fresh, "1").await.unwrap().may_send());
    fresh
        .execute(
            "INSERT INTO oauth_grants (id, account_id, app_password_id, client_id, resource, scope, created_at) \
             VALUES ('g', 'ada', 's-password', 'c', 'r', 'mail:read mail:send', 1)",
        )
        .await;
    assert!(find(&fresh, "1").await.unwrap().may_send());
    fresh
        .execute("UPDATE oauth_grants SET scope = 'mail:send'")
        .await;
    assert!(!find(&fresh, "1").await.unwrap().may_send());
}

async fn a_change_is_made_once_and_a_disabled_webhook_is_recorded(fresh: Fresh) {
    let (directory, webhooks) = (&fresh.directory, &fresh.directory.webhooks);
    directory.with("ada", "ada@example.org", &["s"]).await;
    add(&fresh, new("1", "s-password", None), 2).await;
    let read = find(&fresh, "1").await.unwrap();
    let change = Change {
        sealed_settings: b"changed",
        active: false,
        reason: None,
        expires_at: None,
        cursor: Some("c1"),
    };
    assert!(webhooks.change(&read, change).await.unwrap());
    assert!(
        !webhooks.change(&read, change).await.unwrap(),
        "it has changed"
    );
    let changed = find(&fresh, "1").await.unwrap();
    assert_eq!(
        (&*changed.sealed_settings, changed.is_active()),
        (&b"changed"[..], false)
    );
    assert_eq!(changed.cursor.as_deref(), Some("c1"));
    let enabled = Change {
        active: true,
        cursor: None,
        ..change
    };
    assert!(webhooks.change(&changed, enabled).await.unwrap());
    let enabled = find(&fresh, "1").await.unwrap();
    for (webhook, reason, expected) in [
        (&read, "the settings were changed", false),
        (&enabled, "gone", true),
        (&enabled, "again", false),
    ] {
        let disabled = webhooks.disable(webhook, reason, NOW).await.unwrap();
        assert_eq!(disabled, expected, "{reason}");
    }
    assert!(
        !webhooks.change(&enabled, change).await.unwrap(),
        "it was disabled"
    );
    let disabled = find(&fresh, "1").await.unwrap();
    assert_eq!(
        (disabled.is_active(), disabled.reason.as_deref()),
        (false, Some("gone"))
    );
    assert_eq!(disabled.cursor.as_deref(), Some("c1"));
    let origin = Origin::default();
    assert!(webhooks.delete(&disabled, NOW, &origin).await.unwrap());
    assert!(!webhooks.delete(&disabled, NOW, &origin).await.unwrap());
    let events = "SELECT COUNT(*) FROM security_events WHERE subject = '1'";
    assert_eq!(fresh.number(events).await, 3);
}

async fn deliveries_are_sent_in_order_and_their_outcomes_are_recorded(fresh: Fresh) {
    let (directory, webhooks) = (&fresh.directory, &fresh.directory.webhooks);
    directory.with("ada", "ada@example.org", &["s"]).await;
    add(&fresh, new("1", "s-password", None), 2).await;
    let read = find(&fresh, "1").await.unwrap();
    let both = [delivery("d1", "e1"), delivery("d2", "e2")];
    assert!(webhooks.advance(&read, "c1", &both, NOW).await.unwrap());
    assert!(
        !webhooks.advance(&read, "c2", &both, NOW).await.unwrap(),
        "another position"
    );
    let next = async || webhooks.next_delivery("1").await.unwrap().map(|one| one.id);
    assert_eq!(next().await.as_deref(), Some("d1"));
    let outcome = |attempt, status, error| Outcome {
        attempt,
        status,
        error,
    };
    let retry = outcome(Attempt::Retry(NOW.plus(HOUR)), Some(500), Some("it failed"));
    let first = webhooks.delivery("1", "d1").await.unwrap().unwrap();
    webhooks.attempted("1", &first, retry, NOW).await.unwrap();
    let failed = webhooks.delivery("1", "d1").await.unwrap().unwrap();
    assert_eq!((failed.attempts, failed.status()), (1, Some(500)));
    assert_eq!(failed.next_at(), Some(NOW.plus(HOUR)));
    assert_eq!(next().await.as_deref(), Some("d1"), "the order is kept");
    assert_eq!(find(&fresh, "1").await.unwrap().failing_since(), Some(NOW));
    webhooks.set_body("d1", b"fixed").await.unwrap();
    let delivered = outcome(Attempt::Delivered, Some(200), None);
    webhooks
        .attempted("1", &failed, delivered, NOW.plus(HOUR))
        .await
        .unwrap();
    // A host that has lost its lease reports the outcome of an earlier attempt.
    for stale in [&first, &failed] {
        webhooks
            .attempted("1", stale, retry, NOW.plus(HOUR))
            .await
            .unwrap();
    }
    assert_eq!(find(&fresh, "1").await.unwrap().failing_since(), None);
    assert_eq!(next().await.as_deref(), Some("d2"));
    let second = webhooks.next_delivery("1").await.unwrap().unwrap();
    webhooks.attempted("1", &second, retry, NOW).await.unwrap();
    assert!(find(&fresh, "1").await.unwrap().failing_since().is_some());
    // If the webhook is changed during an attempt, the next attempt does not wait.
    let running = webhooks.next_delivery("1").await.unwrap().unwrap();
    let changed_at = NOW.plus(HOUR / 2);
    webhooks.retry_now("1", changed_at).await.unwrap();
    let changed = webhooks.next_delivery("1").await.unwrap().unwrap();
    assert!(!running.is_same_attempt(&changed) && changed.is_same_attempt(&changed));
    let recorded = webhooks.attempted("1", &running, retry, changed_at).await;
    recorded.unwrap();
    let next_at = webhooks.delivery("1", "d2").await.unwrap().unwrap();
    assert_eq!((next_at.attempts, next_at.next_at()), (2, Some(changed_at)));
    let second = webhooks.next_delivery("1").await.unwrap().unwrap();
    let refused = outcome(Attempt::Refused, Some(413), Some("too large"));
    webhooks
        .attempted("1", &second, refused, NOW)
        .await
        .unwrap();
    assert_eq!(find(&fresh, "1").await.unwrap().failing_since(), None);
    assert_eq!(next().await, None, "no attempt follows");
    assert!(webhooks.replay("1", "d2", NOW).await.unwrap());
    webhooks.discard("d2", "not allowed").await.unwrap();
    assert_eq!(next().await, None);
    let failed = outcome(Attempt::Failed, None, Some("unreachable"));
    webhooks
        .add_ended("1", delivery("d3", "e3"), failed, NOW.plus(HOUR * 2))
        .await
        .unwrap();
    assert_eq!(find(&fresh, "1").await.unwrap().failing_since(), None);
    let last = webhooks.last_attempts("1").await.unwrap();
    assert_eq!(last.delivered_at, Some(NOW.plus(HOUR)));
    assert_eq!(last.error.as_deref(), Some("unreachable"));

    assert!(webhooks.replay("1", "d1", NOW).await.unwrap());
    assert!(
        !webhooks.replay("1", "d1", NOW).await.unwrap(),
        "it is pending"
    );
    let replayed = webhooks.next_delivery("1").await.unwrap().unwrap();
    assert_eq!((&*replayed.id, replayed.attempts), ("d1", 0));
    assert_eq!(&*replayed.sealed_body, b"fixed");
    let listed = webhooks.deliveries("1", 2).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|one| &*one.id).collect();
    assert_eq!(ids, ["d3", "d2"]);
    directory.sweep(NOW.plus(RETENTION)).await.unwrap();
    let left = webhooks.deliveries("1", 10).await.unwrap();
    assert_eq!(left.len(), 1, "only the newest is not that old");
}

async fn the_number_of_kept_deliveries_is_limited(fresh: Fresh) {
    let (directory, webhooks) = (&fresh.directory, &fresh.directory.webhooks);
    directory.with("ada", "ada@example.org", &["s"]).await;
    add(&fresh, new("1", "s-password", None), 2).await;
    let outcome = Outcome {
        attempt: Attempt::Delivered,
        status: Some(200),
        error: None,
    };
    webhooks
        .add_ended("1", delivery("a", "a"), outcome, NOW)
        .await
        .unwrap();
    // At most 1000 deliveries are kept, by their numbers.
    fresh
        .execute("UPDATE webhook_deliveries SET number = 1000")
        .await;
    webhooks
        .add_ended("1", delivery("b", "b"), outcome, NOW)
        .await
        .unwrap();
    assert_eq!(webhooks.deliveries("1", 10).await.unwrap().len(), 2);
    fresh
        .execute("UPDATE webhook_deliveries SET number = 1 WHERE id = 'a'")
        .await;
    webhooks
        .add_ended("1", delivery("c", "c"), outcome, NOW)
        .await
        .unwrap();
    assert_eq!(webhooks.delivery("1", "a").await.unwrap(), None);
}

both!(
    a_webhook_counts_towards_the_limit_and_ends_with_its_credential,
    a_suspended_credential_or_one_without_the_scope_may_not_send,
    a_change_is_made_once_and_a_disabled_webhook_is_recorded,
    deliveries_are_sent_in_order_and_their_outcomes_are_recorded,
    the_number_of_kept_deliveries_is_limited,
);
