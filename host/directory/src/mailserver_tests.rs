//! The contract `mailserver_*`, version 1, as a mail daemon reads it.

use latchmail_core::caller::Origin;

use crate::Directory;
use crate::credentials::AppPasswordKind;
use crate::db::{Source, on, on_tx};
use crate::testing::{Fresh, NOW, both, new_app_password, session};

const VERSION: &str = "SELECT CAST(version AS TEXT), '' FROM mailserver_version";
const PASSWORDS: &str = "SELECT address || ' ' || selector || ' ' || app_password_id, password FROM mailserver_passwords ORDER BY 1";
const USERS: &str = "SELECT address, mailbox FROM mailserver_users ORDER BY 1";
const ALIASES: &str = "SELECT address, destination FROM mailserver_aliases ORDER BY 1";
const SENDERS: &str = "SELECT address, login FROM mailserver_senders ORDER BY 1, 2";

const TWO_ALIASES: &str = "
    INSERT INTO platform_domains (domain) VALUES ('example.org');
    INSERT INTO addresses (address, kind, account_id) VALUES ('one@example.org', 'alias', 'a');
    INSERT INTO addresses (address, kind, account_id) VALUES ('two@example.org', 'alias', 'a')";

fn rows(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect()
}

async fn a_new_account_can_log_in_and_has_mail_at_once(fresh: Fresh) {
    assert_eq!(fresh.as_mail_server(VERSION).await, rows(&[("1", "")]));
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    assert_eq!(
        fresh.as_mail_server(USERS).await,
        rows(&[("ada@example.org", "a")])
    );
    assert_eq!(
        fresh.as_mail_server(PASSWORDS).await,
        rows(&[(
            "ada@example.org s-selector s-password",
            "{SHA256.HEX}s-hash"
        )])
    );
    assert_eq!(fresh.as_mail_server(ALIASES).await, []);
    assert_eq!(
        fresh.as_mail_server(SENDERS).await,
        rows(&[("ada@example.org", "ada@example.org")])
    );
}

async fn a_log_in_tells_what_it_is_for(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    let phone = new_app_password("phone", AppPasswordKind::AppPassword);
    fresh.directory.hold("a", &phone, NOW).await;
    let kinds = "SELECT app_password_id, kind FROM mailserver_passwords ORDER BY 1";
    assert_eq!(
        fresh.as_mail_server(kinds).await,
        rows(&[("phone", "app_password"), ("s-password", "web_session")])
    );
}

async fn an_alias_delivers_and_sends_while_it_lives_and_is_active(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &[]).await;
    fresh.execute(TWO_ALIASES).await;
    let both_aliases = rows(&[
        ("one@example.org", "ada@example.org"),
        ("two@example.org", "ada@example.org"),
    ]);
    assert_eq!(fresh.as_mail_server(ALIASES).await, both_aliases);
    assert_eq!(fresh.as_mail_server(SENDERS).await.len(), 3);

    fresh
        .execute(
            "UPDATE addresses SET active = FALSE WHERE address = 'one@example.org';
             UPDATE addresses SET live = FALSE WHERE address = 'two@example.org'",
        )
        .await;
    assert_eq!(fresh.as_mail_server(ALIASES).await, []);
    assert_eq!(fresh.as_mail_server(SENDERS).await.len(), 1);

    fresh
        .execute("UPDATE addresses SET active = TRUE, live = TRUE")
        .await;
    assert_eq!(fresh.as_mail_server(ALIASES).await, both_aliases);
    fresh
        .execute("DELETE FROM addresses WHERE kind = 'alias'")
        .await;
    assert_eq!(fresh.as_mail_server(ALIASES).await, []);
}

async fn an_alias_is_one_while_its_domain_is_the_platforms_or_its_accounts(fresh: Fresh) {
    const GIVEN: &str = "UPDATE domains SET account_id = 'b' WHERE domain = 'ada.example'";
    for (id, address) in [("a", "ada@first.test"), ("b", "bob@first.test")] {
        fresh.directory.with(id, address, &[]).await;
    }
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id) VALUES \
             ('ada@once.example', 'alias', 'a'), ('me@ada.example', 'alias', 'a')",
        )
        .await;
    let aliases = |of: &[&str]| -> Vec<(String, String)> {
        let to_ada = |alias: &&str| (alias.to_string(), "ada@first.test".to_owned());
        of.iter().map(to_ada).collect()
    };
    let is = async |after: &'static str, of: &[&str]| {
        if !after.is_empty() {
            fresh.execute(after).await;
        }
        let read = fresh.as_mail_server(ALIASES).await;
        assert_eq!(read, aliases(of), "{after}");
        let mut senders = fresh.as_mail_server(SENDERS).await;
        senders.retain(|(address, login)| address != login);
        assert_eq!(senders, aliases(of), "{after}");
    };
    is("", &[]).await;
    let add = "INSERT INTO platform_domains (domain) VALUES ('once.example')";
    is(add, &["ada@once.example"]).await;
    fresh.domain("a", "ada.example", false).await;
    is("", &["ada@once.example"]).await;
    let verify = "UPDATE domains SET verified_at = 1, dkim_selector = 's', dkim_public_key = 'k', dkim_private_key = 'x'";
    is(verify, &["ada@once.example", "me@ada.example"]).await;
    is("DELETE FROM platform_domains", &["me@ada.example"]).await;
    is(GIVEN, &[]).await;
    is("DELETE FROM domains", &[]).await;
    fresh.domain("a", "ada.example", true).await;
    is("", &["me@ada.example"]).await;
    is("DELETE FROM domains", &[]).await;
    // A complete start writes the configured domains.
    Directory::open(&fresh.config, &["once.example".into()])
        .await
        .unwrap();
    is("", &["ada@once.example"]).await;
    Directory::open(&fresh.config, &[]).await.unwrap();
    is("", &[]).await;
}

async fn mail_is_taken_for_a_domain_while_somebody_has_it(fresh: Fresh) {
    const DOMAINS: &str = "SELECT domain, domain FROM mailserver_domains ORDER BY 1";
    const VERIFY: &str = "UPDATE domains SET verified_at = 1, dkim_selector = 's', dkim_public_key = 'k', dkim_private_key = 'x' \
        WHERE account_id = (SELECT MIN(account_id) FROM domains)";
    let of = |domains: &[&str]| -> Vec<(String, String)> {
        let twice = |domain: &&str| (domain.to_string(), domain.to_string());
        domains.iter().map(twice).collect()
    };
    for account in ["a", "b"] {
        let address = format!("{account}@example.org");
        fresh.directory.with(account, &address, &[]).await;
    }
    fresh
        .execute(
            "INSERT INTO domains (account_id, domain, challenge, created_at) \
             SELECT id, 'ada.example', 'c', 0 FROM accounts",
        )
        .await;
    assert_eq!(fresh.as_mail_server(DOMAINS).await, []);
    fresh.execute(VERIFY).await;
    assert_eq!(fresh.as_mail_server(DOMAINS).await, of(&["ada.example"]));
    fresh
        .execute("INSERT INTO platform_domains (domain) VALUES ('ada.example'), ('z.example')")
        .await;
    let both = of(&["ada.example", "z.example"]);
    assert_eq!(fresh.as_mail_server(DOMAINS).await, both);
    fresh
        .execute("DELETE FROM domains WHERE account_id = 'a'")
        .await;
    assert_eq!(fresh.as_mail_server(DOMAINS).await, both);
    fresh.execute("DELETE FROM platform_domains").await;
    assert_eq!(fresh.as_mail_server(DOMAINS).await, []);
    fresh.execute(VERIFY).await;
    assert_eq!(fresh.as_mail_server(DOMAINS).await, of(&["ada.example"]));
    fresh.execute("DELETE FROM accounts WHERE id = 'b'").await;
    assert_eq!(fresh.as_mail_server(DOMAINS).await, []);
}

async fn a_custom_domain_is_verified_and_not_the_platforms(fresh: Fresh) {
    const CUSTOM: &str = "SELECT domain, '' FROM mailserver_custom_domains ORDER BY 1";
    fresh.directory.with("a", "ada@example.org", &[]).await;
    fresh.domain("a", "pending.example", false).await;
    fresh.domain("a", "ada.example", true).await;
    let custom = [("ada.example".to_owned(), String::new())];
    assert_eq!(fresh.as_mail_server(CUSTOM).await, custom);
    fresh
        .execute("INSERT INTO platform_domains (domain) VALUES ('ada.example'), ('z.example')")
        .await;
    assert_eq!(fresh.as_mail_server(CUSTOM).await, []);
    fresh.execute("DELETE FROM platform_domains").await;
    assert_eq!(fresh.as_mail_server(CUSTOM).await, custom);
    fresh.execute("DELETE FROM domains").await;
    assert_eq!(fresh.as_mail_server(CUSTOM).await, []);
}

async fn an_account_that_is_not_active_is_not_there(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    fresh.directory.with("b", "bob@example.org", &["t"]).await;
    fresh.execute(TWO_ALIASES).await;
    let contract = [PASSWORDS, USERS, ALIASES, SENDERS];
    let mut before = Vec::new();
    for query in contract {
        before.push(fresh.as_mail_server(query).await);
    }

    fresh
        .execute("UPDATE accounts SET active = FALSE WHERE id = 'a'")
        .await;
    for query in contract {
        for (left, right) in fresh.as_mail_server(query).await {
            assert!(
                left.contains("bob@") || right.contains("bob@"),
                "{query}: {left} {right}"
            );
        }
    }
    fresh
        .execute("UPDATE accounts SET active = TRUE WHERE id = 'a'")
        .await;
    for (query, before) in contract.iter().zip(before) {
        assert_eq!(fresh.as_mail_server(query).await, before, "{query}");
    }
}

async fn what_is_deleted_by_reference_goes_too(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    fresh.execute(TWO_ALIASES).await;
    fresh.execute("DELETE FROM accounts").await;
    for query in [PASSWORDS, USERS, ALIASES, SENDERS] {
        assert_eq!(fresh.as_mail_server(query).await, [], "{query}");
    }
}

async fn an_app_password_dies_at_its_end_with_nobody_to_tell(fresh: Fresh) {
    fresh
        .directory
        .with("a", "ada@example.org", &["s", "t"])
        .await;
    fresh
        .execute("UPDATE app_passwords SET expires_at = 1000 WHERE id = 's-password'")
        .await;
    let left = fresh.as_mail_server(PASSWORDS).await;
    assert_eq!(left.len(), 1);
    assert!(left[0].0.ends_with("t-password"));
}

async fn what_is_not_committed_is_not_seen(fresh: Fresh) {
    let mut tx = fresh.directory.db().begin().await.unwrap();
    on_tx!(&mut tx, db => sqlx::query("INSERT INTO platform_domains (domain) VALUES ('x.example')").execute(db).await.map(drop)).unwrap();
    tx.project(Source::Domain("x.example")).await.unwrap();
    drop(tx);
    assert_eq!(
        fresh
            .as_mail_server("SELECT domain, '' FROM mailserver_domains")
            .await,
        []
    );
}

async fn a_reader_sees_whole_accounts_while_the_service_writes(fresh: Fresh) {
    let reader = fresh.mail_server().await.unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let directory = fresh.directory.clone();
            tokio::spawn(async move {
                for n in 0..10 {
                    let id = format!("w{writer}-{n}");
                    directory.with(&id, &format!("{id}@example.org"), &[]).await;
                    directory
                        .sessions
                        .begin(&session(&id, &id, NOW), &Origin::default())
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    // A transaction writes the rows of an address together. A password row without a user row or a
    // sender row means that a reader sees an incomplete transaction.
    let halves = "SELECT COUNT(*) FROM mailserver_passwords p LEFT JOIN mailserver_users u ON u.address = p.address \
        LEFT JOIN mailserver_senders s ON s.address = p.address WHERE u.address IS NULL OR s.address IS NULL";
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        let found: i64 =
            on!(&reader, pool => sqlx::query_scalar(halves).fetch_one(pool).await).unwrap();
        assert_eq!(found, 0);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let users: i64 = on!(&reader, pool => sqlx::query_scalar("SELECT COUNT(*) FROM mailserver_users").fetch_one(pool).await).unwrap();
    assert_eq!(users, 40);
    reader.close().await;
}

async fn a_quota_is_the_one_of_the_plan_or_of_the_default_plan(fresh: Fresh) {
    let quotas = "SELECT address, CAST(storage AS TEXT) FROM mailserver_quotas ORDER BY 1";
    for (id, address) in [("a", "ada@example.org"), ("b", "bob@example.org")] {
        fresh.directory.with(id, address, &[]).await;
    }
    assert_eq!(fresh.as_mail_server(quotas).await, []);
    let accounts = &fresh.directory.accounts;
    let set = async |plans: &[(&str, Option<u64>)]| {
        let plans = plans
            .iter()
            .map(|(plan, bytes)| ((*plan).to_owned(), *bytes));
        accounts.set_plan_quotas(&plans.collect()).await.unwrap();
        fresh.as_mail_server(quotas).await
    };
    let ada = ("ada@example.org", "1000");
    let plans = [
        ("default", Some(1000)),
        ("pro", None),
        ("big", Some(u64::MAX)),
    ];
    assert_eq!(set(&plans).await, rows(&[ada, ("bob@example.org", "1000")]));
    let operator = Origin::operator();
    for (plan, bob) in [
        ("pro", None),
        ("big", Some("9223372036854775807")),
        ("unknown", Some("1000")),
    ] {
        accounts.set_plan("b", plan, NOW, &operator).await.unwrap();
        let bob = bob.map(|bytes| ("bob@example.org", bytes));
        let expected: Vec<_> = [Some(ada), bob].into_iter().flatten().collect();
        assert_eq!(
            fresh.as_mail_server(quotas).await,
            rows(&expected),
            "{plan}"
        );
    }
    assert_eq!(set(&[("default", None)]).await, []);
}

both!(
    a_new_account_can_log_in_and_has_mail_at_once,
    a_log_in_tells_what_it_is_for,
    an_alias_delivers_and_sends_while_it_lives_and_is_active,
    an_alias_is_one_while_its_domain_is_the_platforms_or_its_accounts,
    mail_is_taken_for_a_domain_while_somebody_has_it,
    a_custom_domain_is_verified_and_not_the_platforms,
    an_account_that_is_not_active_is_not_there,
    what_is_deleted_by_reference_goes_too,
    an_app_password_dies_at_its_end_with_nobody_to_tell,
    what_is_not_committed_is_not_seen,
    a_reader_sees_whole_accounts_while_the_service_writes,
    a_quota_is_the_one_of_the_plan_or_of_the_default_plan,
);
