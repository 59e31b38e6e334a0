use std::collections::HashMap;

use latchmail_core::caller::Origin;

use super::*;
use crate::Directory;
use crate::aliases::addresses::AddressRelation;
use crate::aliases::{AliasCaller, AliasUpdate, DomainOwner};
use crate::mailserver::{MailServerView, Receipts};
use crate::testing::{Fresh, NOW, both};

const RECEIVING: &str = "SELECT address, destination FROM mailserver_aliases ORDER BY address";
const SENDING: &str = "SELECT address, login FROM mailserver_senders ORDER BY address";
const ADA: AliasCaller<'_> = AliasCaller {
    account_id: "ada",
    app_password_id: Some(""),
    sid: "adas",
    grant: None,
    at: NOW,
    member: None,
};

async fn two_aliases(fresh: &Fresh) -> [u64; 2] {
    Directory::open(&fresh.config, &["example.org".into()])
        .await
        .unwrap();
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["adas"]).await;
    let mut ids = [0; 2];
    for (id, address) in ids.iter_mut().zip(["news@example.org", "shop@example.org"]) {
        let origin = Origin::default();
        let made = directory
            .aliases
            .create(ADA, address, DomainOwner::Platform, &origin);
        *id = made.await.unwrap().unwrap().id();
    }
    ids
}

async fn change(fresh: &Fresh, id: u64, update: AliasUpdate) -> Alias {
    let aliases = &fresh.directory.aliases;
    let origin = Origin::default();
    let changed = aliases.update(ADA, id, &update, &origin);
    changed.await.unwrap().unwrap()
}

fn expiring(at: Option<Timestamp>) -> AliasUpdate {
    AliasUpdate {
        expires_at: Some(at),
        ..AliasUpdate::default()
    }
}

async fn an_expired_alias_receives_and_sends_nothing_until_it_is_extended(fresh: Fresh) {
    let [_, shop] = two_aliases(&fresh).await;
    let aliases = &fresh.directory.aliases;
    // The mail server compares with its own clock.
    let now = Clock::system().now();
    let past = now.minus(Duration::from_secs(2));
    let expired = change(&fresh, shop, expiring(Some(past))).await;
    assert_eq!((expired.active, expired.expires_at), (true, Some(past)));
    assert_eq!(fresh.as_mail_server(RECEIVING).await.len(), 1);
    assert_eq!(fresh.as_mail_server(SENDING).await.len(), 2);
    let relation = aliases.address_relation("ada", "shop@example.org", now);
    assert_eq!(relation.await.unwrap(), AddressRelation::Foreign);

    let later = now.plus(Duration::from_hours(1));
    change(&fresh, shop, expiring(Some(later))).await;
    assert_eq!(fresh.as_mail_server(RECEIVING).await.len(), 2);
    assert_eq!(fresh.as_mail_server(SENDING).await.len(), 3);
    for (at, expected) in [
        (now, AddressRelation::Own),
        (later, AddressRelation::Foreign),
    ] {
        let relation = aliases.address_relation("ada", "shop@example.org", at);
        assert_eq!(relation.await.unwrap(), expected);
    }
    change(&fresh, shop, expiring(None)).await;
    assert_eq!(aliases.list("ada").await.unwrap()[1].expires_at, None);
}

async fn an_alias_that_is_created_again_has_neither_note_nor_expiry(fresh: Fresh) {
    let [_, shop] = two_aliases(&fresh).await;
    let aliases = &fresh.directory.aliases;
    let noted = AliasUpdate {
        note: Some("Übung".into()),
        ..expiring(Some(NOW))
    };
    let alias = change(&fresh, shop, noted.clone()).await;
    assert_eq!(alias.note, "Übung");
    assert_eq!(change(&fresh, shop, noted).await, alias);
    let origin = Origin::default();
    let deleted = aliases.delete(ADA, shop, &origin).await;
    assert_eq!(deleted.unwrap(), Ok(()));
    let made = aliases.create(ADA, "shop@example.org", DomainOwner::Platform, &origin);
    let made = made.await.unwrap().unwrap();
    let listed = aliases.list("ada").await.unwrap().remove(1);
    assert_eq!((listed.note.as_str(), listed.expires_at), ("", None));
    assert_eq!(listed, made);
}

async fn the_milter_records_the_mail_of_aliases_only(fresh: Fresh) {
    const ROWS: &str = "SELECT address, '' FROM mailserver_alias_receipts ORDER BY address";
    let [_, shop] = two_aliases(&fresh).await;
    let view = MailServerView::new(&fresh.config).unwrap();
    let last = Clock::system().now().seconds();
    for count in [2, 1] {
        let addresses = ["shop@example.org", "ada@example.org", "x@example.net"];
        let receipts = addresses.map(|one| (one.to_owned(), Receipts { count, last }));
        let mut receipts = HashMap::from(receipts);
        view.add_receipts(&mut receipts).await.unwrap();
        assert!(receipts.is_empty(), "{receipts:?}");
    }
    let aliases = &fresh.directory.aliases;
    let listed = aliases.list("ada").await.unwrap();
    let received = |index: usize| (listed[index].received, listed[index].last_received_at);
    assert_eq!(received(0), (0, None));
    assert_eq!(received(1), (3, Some(Timestamp::from_millis(last * 1000))));
    let changed = change(&fresh, shop, AliasUpdate::default()).await;
    assert_eq!(changed.received, 3);
    if matches!(fresh.directory.db(), crate::Db::Postgres(_)) {
        assert_eq!(fresh.as_mail_server(ROWS).await.len(), 1);
    }
    let deleted = aliases.delete(ADA, shop, &Origin::default()).await;
    assert_eq!(deleted.unwrap(), Ok(()));
    let origin = Origin::default();
    let made = aliases.create(ADA, "shop@example.org", DomainOwner::Platform, &origin);
    made.await.unwrap().unwrap();
    let listed = aliases.list("ada").await.unwrap();
    assert_eq!((listed[1].received, listed[1].last_received_at), (0, None));
    aliases.sweep_receipts().await.unwrap();
}

both!(
    an_expired_alias_receives_and_sends_nothing_until_it_is_extended,
    an_alias_that_is_created_again_has_neither_note_nor_expiry,
    the_milter_records_the_mail_of_aliases_only,
);
