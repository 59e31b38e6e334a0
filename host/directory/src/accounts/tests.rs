use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::db::on_tx;
use crate::testing::{Fresh, NOW, account, both, session};

const EVERYTHING: &str = "SELECT (SELECT COUNT(*) FROM accounts) + (SELECT COUNT(*) FROM addresses) + (SELECT COUNT(*) FROM profiles) \
    + (SELECT COUNT(*) FROM mailboxes) + (SELECT COUNT(*) FROM app_passwords) + (SELECT COUNT(*) FROM sessions) \
    + (SELECT COUNT(*) FROM refresh_tokens)";

async fn an_account_is_made_whole(fresh: Fresh) {
    let new = account("a", "ada@example.org");
    let first = session("s", "a", NOW);
    let made = fresh
        .directory
        .accounts
        .create(&new, Some(&first), &Origin::default())
        .await;
    assert_eq!(made.unwrap(), Creation::Created);
    assert_eq!(fresh.number(EVERYTHING).await, 7);

    let found = fresh.directory.accounts.by_address("ada@example.org").await;
    let found = found.unwrap().unwrap();
    assert_eq!(
        (found.id.as_str(), found.address.as_str()),
        ("a", "ada@example.org")
    );
    assert_eq!(found.password_hash, new.password_hash);
    assert!(found.active && !found.admin);
    assert!(
        fresh
            .directory
            .sessions
            .find("s", NOW)
            .await
            .unwrap()
            .is_some()
    );
}

async fn a_session_that_cannot_be_begun_leaves_no_account(fresh: Fresh) {
    let first = session("s", "somebody-else", NOW);
    let made = fresh
        .directory
        .accounts
        .create(
            &account("a", "ada@example.org"),
            Some(&first),
            &Origin::default(),
        )
        .await;
    assert!(matches!(made, Err(Error::Database(_))), "{made:?}");
    assert_eq!(fresh.number(EVERYTHING).await, 0);
    let seen = fresh
        .as_mail_server("SELECT address, mailbox FROM mailserver_users")
        .await;
    assert_eq!(seen, []);
}

async fn an_address_that_is_or_was_anybodys_is_taken(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &[]).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id, live) VALUES ('alias@example.org', 'alias', 'a', TRUE);
             INSERT INTO addresses (address, kind, account_id, live) VALUES ('gone@example.org', 'alias', 'a', FALSE);
             INSERT INTO addresses (address, kind) VALUES ('held@example.org', 'held')",
        )
        .await;
    let before = fresh.number(EVERYTHING).await;
    for address in ["ada", "alias", "gone", "held"] {
        let new = account("b", &format!("{address}@example.org"));
        let made = fresh
            .directory
            .accounts
            .create(&new, None, &Origin::default())
            .await;
        assert_eq!(made.unwrap(), Creation::AddressTaken, "{address}");
    }
    assert_eq!(fresh.number(EVERYTHING).await, before);
}

async fn of_parallel_creations_of_one_address_one_wins(fresh: Fresh) {
    let contenders: Vec<_> = (0..8)
        .map(|n| {
            let directory = fresh.directory.clone();
            tokio::spawn(async move {
                let id = format!("a{n}");
                let first = session(&format!("s{n}"), &id, NOW);
                let new = account(&id, "ada@example.org");
                directory
                    .accounts
                    .create(&new, Some(&first), &Origin::default())
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut created = 0;
    for contender in contenders {
        if contender.await.unwrap() == Creation::Created {
            created += 1;
        }
    }
    assert_eq!(created, 1);
    assert_eq!(fresh.number(EVERYTHING).await, 7);
}

async fn an_alias_is_no_account(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &[]).await;
    fresh
        .execute("INSERT INTO addresses (address, kind, account_id) VALUES ('alias@example.org', 'alias', 'a')")
        .await;
    for address in ["alias@example.org", "nobody@example.org"] {
        let found = fresh.directory.accounts.by_address(address).await.unwrap();
        assert!(found.is_none(), "{address}");
    }
}

async fn on_a_domain_that_somebody_verifies_meanwhile_no_account_is_made(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    fresh.domain("ada", "ada.example", false).await;
    let mut tx = fresh.directory.db().begin().await.unwrap();
    tx.lock_domain("ada.example").await.unwrap();
    let verify = "UPDATE domains SET verified_at = 1, dkim_selector = 's', dkim_public_key = 'k', dkim_private_key = 'x'";
    on_tx!(&mut tx, db => sqlx::query(verify).execute(db).await.map(drop)).unwrap();
    tx.project(Source::Domain("ada.example")).await.unwrap();
    let (new, origin) = (account("bob", "bob@ada.example"), Origin::default());
    let making = fresh.directory.accounts.create(&new, None, &origin);
    tokio::pin!(making);
    let moment = Duration::from_millis(300);
    assert!(timeout(moment, &mut making).await.is_err(), "it waits");
    tx.commit().await.unwrap();
    assert_eq!(making.await.unwrap(), Creation::AddressTaken);
    assert_eq!(
        fresh.number("SELECT COUNT(*) FROM addresses").await,
        1,
        "ada's own"
    );
}

async fn a_log_in_name_is_visible_to_the_mail_server(fresh: Fresh) {
    const NAMES: &str = "SELECT address, login FROM mailserver_login_names";
    let (new, origin) = (account("a", "ada@example.org"), Origin::default());
    fresh
        .directory
        .accounts
        .create(&new, None, &origin)
        .await
        .unwrap();
    assert_eq!(fresh.as_mail_server(NAMES).await, []);
    for name in [Some("ada"), Some("ada"), None] {
        fresh
            .directory
            .accounts
            .set_login_name("a", name)
            .await
            .unwrap();
        let expected = name.map(|name| ("ada@example.org".to_owned(), name.to_owned()));
        assert_eq!(
            fresh.as_mail_server(NAMES).await,
            Vec::from_iter(expected.clone())
        );
        let found = fresh.directory.accounts.by_address("ada@example.org").await;
        assert_eq!(found.unwrap().unwrap().login_name.as_deref(), name);
    }
}

both!(
    a_log_in_name_is_visible_to_the_mail_server,
    on_a_domain_that_somebody_verifies_meanwhile_no_account_is_made,
    an_account_is_made_whole,
    a_session_that_cannot_be_begun_leaves_no_account,
    an_address_that_is_or_was_anybodys_is_taken,
    of_parallel_creations_of_one_address_one_wins,
    an_alias_is_no_account,
);

#[test]
fn debug_output_shows_no_hash_of_a_password() {
    let new = account("a", "ada@example.org");
    let found = Account {
        id: new.id.clone(),
        address: new.address.clone(),
        password_hash: new.password_hash.clone(),
        login_name: None,
        admin: false,
        active: true,
    };
    let shown = format!("{new:?} {found:?}");
    assert!(!shown.contains("argon2id"), "{shown}");
}
