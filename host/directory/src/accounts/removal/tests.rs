//! Tests of renamed accounts and of planned deletions on both databases.

use super::*;
use crate::accounts::rename::Rename;
use crate::accounts::{Creation, NewAccount};
use crate::credentials::AppPasswordKind;
use crate::credentials::index_keys::ServiceUse;
use crate::events::{AccountEvents, Recorded};
use crate::testing::{DAY, Fresh, NOW, account, both, new_app_password};

const ADA: &str = "ada@example.org";
const USERS: &str = "SELECT address, mailbox FROM mailserver_users ORDER BY 1";
const REMOVALS: &str = "SELECT address, mailbox FROM mailserver_removals ORDER BY 1";
const PASSWORDS: &str = "SELECT address, app_password_id FROM mailserver_passwords ORDER BY 1";
const ALIASES: &str = "SELECT address, destination FROM mailserver_aliases ORDER BY 1";

/// Returns the time of a planned deletion.
fn time(planned: &Scheduling) -> Option<Timestamp> {
    match planned {
        Scheduling::Planned { deletes_at, .. } => Some(*deletes_at),
        Scheduling::Unknown | Scheduling::SessionOver => None,
    }
}

async fn a_deletion_waits_and_can_be_cancelled_until_it_begins(fresh: Fresh) {
    let (accounts, operator) = (&fresh.directory.accounts, Origin::operator());
    fresh.directory.with("a", ADA, &["s"]).await;
    let plan = async |at: Timestamp| {
        let planned = accounts.schedule_deletion("a", None, at, NOW, &operator);
        time(&planned.await.unwrap())
    };
    let due = NOW.plus(DAY);
    assert_eq!(plan(due).await, Some(due));
    assert_eq!(plan(due.plus(DAY)).await, Some(due), "the earlier");
    assert!(fresh.as_mail_server(USERS).await.is_empty());
    let taken: NewAccount = account("b", ADA);
    let created = accounts.create(&taken, None, &operator).await.unwrap();
    assert_eq!(created, Creation::AddressTaken);
    assert_eq!(
        accounts.begin_removal("a", NOW).await.unwrap(),
        Removal::At(due)
    );
    assert!(accounts.enable("a", NOW, &operator).await.unwrap());
    assert_eq!(accounts.deletion("a").await.unwrap(), None);
    assert_eq!(
        accounts.begin_removal("a", due).await.unwrap(),
        Removal::None
    );

    assert_eq!(plan(NOW).await, Some(NOW));
    assert_eq!(accounts.due_deletions(NOW, 10).await.unwrap(), ["a"]);
    let credentials = &fresh.directory.credentials;
    let key = credentials.service_key(ServiceUse::Removal, "a");
    assert_eq!(key.await.unwrap(), None, "the deletion has not begun");
    for _ in 0..2 {
        let begun = accounts.begin_removal("a", NOW).await.unwrap();
        assert_eq!(begun, Removal::Begun);
    }
    assert!(!accounts.enable("a", NOW, &operator).await.unwrap());
    let password = new_app_password("removal", AppPasswordKind::TeamKey);
    let created =
        credentials.create_service_key(ServiceUse::Removal, "a", &password, b"x", None, NOW);
    assert!(created.await.unwrap().unwrap().key.is_some());
    let one = |address: &str, value: &str| vec![(address.to_owned(), value.to_owned())];
    assert_eq!(fresh.as_mail_server(PASSWORDS).await, one(ADA, "removal"));
    assert_eq!(fresh.as_mail_server(REMOVALS).await, one(ADA, "a"));
    assert!(fresh.as_mail_server(USERS).await.is_empty());
    assert!(accounts.delete("a", NOW, &Origin::service()).await.unwrap());
    assert!(fresh.as_mail_server(REMOVALS).await.is_empty());
    assert_eq!(
        accounts.begin_removal("a", NOW).await.unwrap(),
        Removal::None
    );
    let missing = accounts.schedule_deletion("a", None, NOW, NOW, &operator);
    assert_eq!(missing.await.unwrap(), Scheduling::Unknown);
}

async fn a_session_that_is_over_plans_no_deletion(fresh: Fresh) {
    fresh.directory.with("a", ADA, &["s"]).await;
    let accounts = &fresh.directory.accounts;
    let plan = async |sid: &'static str| {
        let session = SessionCaller {
            account_id: "a",
            sid,
            at: NOW,
        };
        let origin = Origin::default();
        let planned = accounts.schedule_deletion("a", Some(session), NOW, NOW, &origin);
        planned.await.unwrap()
    };
    assert_eq!(plan("other").await, Scheduling::SessionOver);
    assert_eq!(accounts.deletion("a").await.unwrap(), None);
    assert_eq!(time(&plan("s").await), Some(NOW));
}

async fn the_previous_address_of_an_account_is_its_alias(fresh: Fresh) {
    let (accounts, operator) = (&fresh.directory.accounts, Origin::operator());
    fresh
        .execute("INSERT INTO platform_domains (domain) VALUES ('example.org')")
        .await;
    fresh.directory.with("a", ADA, &["s"]).await;
    fresh.directory.with("b", "bob@example.org", &[]).await;
    let rename = async |to: &str| accounts.rename("a", to, NOW, &operator).await.unwrap();
    assert_eq!(rename("bob@example.org").await, Rename::AddressTaken);
    assert_eq!(rename(ADA).await, Rename::Unchanged);
    let renamed = |from: &str| Rename::Renamed {
        from: from.into(),
        app_passwords: vec!["s-password".into()],
    };
    assert_eq!(rename("ada.king@example.org").await, renamed(ADA));
    let aliases = fresh.as_mail_server(ALIASES).await;
    assert_eq!(
        aliases,
        [(ADA.to_owned(), "ada.king@example.org".to_owned())]
    );
    let log_ins = fresh.as_mail_server(PASSWORDS).await;
    assert_eq!(log_ins[0].0, "ada.king@example.org");
    assert!(accounts.by_address(ADA).await.unwrap().is_none());
    let created = accounts.create(&account("c", ADA), None, &operator).await;
    assert_eq!(created.unwrap(), Creation::AddressTaken);

    assert_eq!(rename(ADA).await, renamed("ada.king@example.org"));
    let aliases = fresh.as_mail_server(ALIASES).await;
    assert_eq!(
        aliases,
        [("ada.king@example.org".to_owned(), ADA.to_owned())]
    );
    assert!(accounts.delete("a", NOW, &operator).await.unwrap());
    for address in [ADA, "ada.king@example.org"] {
        let taken = account("c", address);
        let created = accounts.create(&taken, None, &operator);
        assert_eq!(created.await.unwrap(), Creation::AddressTaken, "{address}");
    }
}

async fn a_use_from_a_new_network_is_recorded_once(fresh: Fresh) {
    fresh.directory.with("a", ADA, &["s"]).await;
    let events = &fresh.directory.events;
    let page = async |before: Option<i64>, credential, limit| {
        let wanted = AccountEvents {
            before,
            since: NOW,
            credential,
            limit,
        };
        events.of_account("a", wanted).await.unwrap()
    };
    let count = async || {
        let all = page(None, None, 100).await;
        let new = all.iter().filter(|one| one.kind == "used_from_new_network");
        new.count()
    };
    for (client, expected) in [
        ("192.0.2.1", 1),
        ("192.0.2.1", 1),
        ("2001:db8::1", 2),
        ("2001:db8::2", 2),
    ] {
        let origin = Origin {
            client: Some(client.parse().unwrap()),
            ..Origin::default()
        };
        let used = events.used_from("a", "s-password", "API token", NOW, &origin);
        used.await.unwrap();
        assert_eq!(count().await, expected, "{client}");
    }
    let origin = Origin::default();
    let unknown = events.used_from("a", "s-password", "API token", NOW, &origin);
    unknown.await.unwrap();
    assert_eq!(count().await, 2);

    let first = page(None, None, 3).await;
    let rest = page(Some(first[2].id), None, 3).await;
    let all = page(None, None, 6).await;
    let ids = |of: &[Recorded]| of.iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!([ids(&first), ids(&rest)].concat(), ids(&all));
    let by_credential = page(None, Some("s-password"), 100).await;
    assert!(by_credential.len() < all.len());
    assert!(page(Some(i64::MAX), None, 3).await.is_empty());
}

both!(
    a_deletion_waits_and_can_be_cancelled_until_it_begins,
    a_session_that_is_over_plans_no_deletion,
    the_previous_address_of_an_account_is_its_alias,
    a_use_from_a_new_network_is_recorded_once,
);
