use super::super::accounts::{Creation, NewAccount};
use super::*;
use crate::testing::{DAY, Fresh, MONTH, NOW, account, both};

const USERS: &str = "SELECT address, mailbox FROM mailserver_users ORDER BY address";
const PASSWORDS: &str =
    "SELECT address, app_password_id FROM mailserver_passwords ORDER BY app_password_id";
const ALIASES_READ: &str = "SELECT address, destination FROM mailserver_aliases";
const EVENTS: &str = "SELECT COUNT(*) FROM security_events WHERE actor = 'operator'";

/// Creates Ada, with two sessions, an alias, a mail client, a token with its app password, a grant
/// and the key of a shared mailbox, and Bob, with a session.
async fn people(fresh: &Fresh) {
    let directory = &fresh.directory;
    directory.with("a", "ada@example.org", &["s1", "s2"]).await;
    directory.with("b", "bob@example.org", &["s3"]).await;
    fresh
        .execute(
            "INSERT INTO platform_domains (domain) VALUES ('example.org');
             INSERT INTO addresses (address, kind, account_id) VALUES ('shop@example.org', 'alias', 'a');
             INSERT INTO app_passwords (id, account_id, kind, label, selector, secret_hash, created_at) VALUES
               ('client', 'a', 'app_password', 'Phone', 'x1', 'h', 5), ('behind', 'a', 'api_token', 'Token', 'x2', 'h', 6),
               ('grant', 'a', 'oauth_grant', 'Agent', 'x3', 'h', 7), ('key', 'a', 'team_key', 'Team', 'x4', 'h', 8);
             INSERT INTO api_tokens (id, account_id, label, scopes, selector, secret_hash, hint, app_password_id, sealed_password, created_at, expires_at, revoked_at) VALUES
               ('live', 'a', 'Script', 'mail:read', 'y1', 'h', 'abcd', 'behind', 'x', 9, 99, NULL),
               ('gone', 'a', 'Old', 'mail:read', 'y2', 'h', 'abcd', NULL, NULL, 4, NULL, 10)",
        )
        .await;
}

async fn kinds(directory: &Directory, account: &str) -> Vec<&'static str> {
    let credentials = directory.credentials.list_with_grants(account, NOW).await;
    let credentials = credentials.unwrap().into_iter();
    let mut kinds: Vec<&str> = credentials.map(|c| c.kind.name()).collect();
    kinds.sort_unstable();
    kinds
}

async fn a_disabled_account_has_no_credential_left_and_no_mail_comes(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let operator = Origin::operator();
    assert!(
        directory
            .accounts
            .disable("a", NOW, &operator)
            .await
            .unwrap()
    );
    assert!(
        !directory
            .accounts
            .disable("a", NOW, &operator)
            .await
            .unwrap()
    );
    assert_eq!(kinds(directory, "a").await, [""; 0]);
    assert!(directory.sessions.find("s1", NOW).await.unwrap().is_none());
    assert!(directory.sessions.find("s3", NOW).await.unwrap().is_some());
    let tokens =
        "SELECT COUNT(*) FROM api_tokens WHERE revoked_at IS NULL OR sealed_password IS NOT NULL";
    assert_eq!(fresh.number(tokens).await, 0);
    assert_eq!(
        fresh
            .number("SELECT revoked_at FROM api_tokens WHERE id = 'gone'")
            .await,
        10,
        "what was revoked before stays as it was"
    );
    let user = |address: &str, id: &str| (address.to_owned(), id.to_owned());
    let bob = user("bob@example.org", "b");
    assert_eq!(
        fresh.as_mail_server(USERS).await,
        [user("bob@example.org", "b")]
    );
    assert_eq!(fresh.as_mail_server(PASSWORDS).await.len(), 1);
    assert_eq!(fresh.as_mail_server(ALIASES_READ).await, []);

    assert!(
        directory
            .accounts
            .enable("a", NOW, &operator)
            .await
            .unwrap()
    );
    assert!(
        !directory
            .accounts
            .enable("a", NOW, &operator)
            .await
            .unwrap()
    );
    let ada = user("ada@example.org", "a");
    assert_eq!(fresh.as_mail_server(USERS).await, [ada, bob]);
    assert_eq!(kinds(directory, "a").await, [""; 0]);
    assert_eq!(fresh.number(EVENTS).await, 2);
}

async fn another_password_ends_what_signed_in_and_keeps_mail_clients(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let operator = Origin::operator();
    let set = directory
        .credentials
        .set_password("a", "another", NOW, &operator);
    assert_eq!(set.await.unwrap().unwrap().len(), 4);
    assert_eq!(kinds(directory, "a").await, ["app_password", "team_key"]);
    assert!(directory.sessions.find("s1", NOW).await.unwrap().is_none());
    assert!(directory.sessions.find("s3", NOW).await.unwrap().is_some());
    let found = directory.accounts.by_address("ada@example.org").await;
    assert_eq!(found.unwrap().unwrap().password_hash, "another");
    let other = directory.accounts.by_address("bob@example.org").await;
    assert_eq!(other.unwrap().unwrap().password_hash, "$argon2id$secret");
    let said = "SELECT COUNT(*) FROM security_events WHERE kind = 'password_changed' \
        AND detail = 'app passwords ended: 4, API tokens revoked: 1'";
    assert_eq!(fresh.number(said).await, 1);

    let events = fresh.number(EVENTS).await;
    let nobodys = directory
        .credentials
        .set_password("deleted", "another", NOW, &operator);
    assert_eq!(nobodys.await.unwrap(), None);
    assert_eq!(fresh.number(EVENTS).await, events);
}

async fn a_deleted_accounts_addresses_are_kept_until_they_are_freed(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let operator = Origin::operator();
    assert!(
        directory
            .accounts
            .delete("a", NOW, &operator)
            .await
            .unwrap()
    );
    assert!(
        !directory
            .accounts
            .delete("a", NOW, &operator)
            .await
            .unwrap()
    );
    for table in [
        "SELECT COUNT(*) FROM app_passwords WHERE account_id = 'a'",
        "SELECT COUNT(*) FROM api_tokens",
        "SELECT COUNT(*) FROM sessions WHERE account_id = 'a'",
        "SELECT COUNT(*) FROM profiles WHERE account_id = 'a'",
        "SELECT COUNT(*) FROM mailboxes WHERE account_id = 'a'",
        "SELECT COUNT(*) FROM addresses WHERE live AND account_id = 'a'",
    ] {
        assert_eq!(fresh.number(table).await, 0, "{table}");
    }
    assert_eq!(fresh.as_mail_server(USERS).await.len(), 1);
    assert_eq!(fresh.as_mail_server(ALIASES_READ).await, []);
    let recorded = "SELECT COUNT(*) FROM security_events WHERE kind = 'account_deleted' \
        AND address = 'ada@example.org' AND account_id = 'a'";
    assert_eq!(fresh.number(recorded).await, 1);

    let make = async |id: &str, address: &str| {
        let new = account(id, address);
        let made = directory.accounts.create(&new, None, &operator);
        made.await.unwrap()
    };
    let free = async |address: &str| {
        let freed = directory.aliases.free_address(address, NOW, &operator);
        freed.await.unwrap()
    };
    for address in ["ada@example.org", "shop@example.org"] {
        assert_eq!(
            make("c", address).await,
            Creation::AddressTaken,
            "{address}"
        );
    }
    assert_eq!(free("ada@example.org").await, AddressRelease::Released);
    assert_eq!(free("ada@example.org").await, AddressRelease::NotReserved);
    assert_eq!(make("c", "ada@example.org").await, Creation::Created);
    assert_eq!(free("ada@example.org").await, AddressRelease::InUse);
    assert_eq!(make("d", "shop@example.org").await, Creation::AddressTaken);
    assert_eq!(
        free("nobody@example.org").await,
        AddressRelease::NotReserved
    );
}

async fn an_account_is_provisioned_with_its_plan_and_rank(fresh: Fresh) {
    let directory = &fresh.directory;
    let operator = Origin::operator();
    let ada = NewAccount {
        plan: "pro".into(),
        admin: true,
        ..account("a", "ada@example.org")
    };
    let made = directory.accounts.create(&ada, None, &operator);
    assert_eq!(made.await.unwrap(), Creation::Created);
    directory.with("b", "bob@example.org", &[]).await;
    let all = directory.accounts.overview("").await.unwrap();
    let shown: Vec<_> = all
        .iter()
        .map(|a| {
            (
                a.address.as_str(),
                a.plan.as_str(),
                a.admin,
                a.active,
                a.profile,
                a.two_factor,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("ada@example.org", "pro", true, true, true, false),
            ("bob@example.org", "default", false, true, true, false),
        ]
    );
    assert_eq!(
        directory
            .accounts
            .overview("bob@example.org")
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        directory
            .accounts
            .overview("eve@example.org")
            .await
            .unwrap()
            .len(),
        0
    );

    for first in [true, false] {
        let plan = directory
            .accounts
            .set_plan("b", "pro", NOW, &operator)
            .await;
        assert_eq!(plan.unwrap(), first);
        let admin = directory
            .accounts
            .set_admin("b", true, NOW, &operator)
            .await;
        assert_eq!(admin.unwrap(), first);
    }
    let bob = directory
        .accounts
        .overview("bob@example.org")
        .await
        .unwrap()
        .remove(0);
    assert!(bob.plan == "pro" && bob.admin);
    assert_eq!(fresh.number(EVENTS).await, 3);
}

async fn the_operator_is_told_what_the_owner_is_and_of_grants(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let later = NOW.plus(MONTH);
    let credentials = directory
        .credentials
        .list_with_grants("a", NOW)
        .await
        .unwrap();
    let ids: Vec<&str> = credentials.iter().map(|c| c.id.as_str()).collect();
    let all = [
        "s2-password",
        "s1-password",
        "key",
        "grant",
        "behind",
        "client",
    ];
    assert_eq!(ids, all);
    assert_eq!(credentials[4].token.as_ref().unwrap().0, "live");
    let mut told = credentials;
    told.retain(|credential| credential.kind.name() != "oauth_grant");
    assert_eq!(directory.credentials.list("a", NOW).await.unwrap(), told);
    let left = directory
        .credentials
        .list_with_grants("a", later)
        .await
        .unwrap();
    assert_eq!(left.len(), 4, "web sessions that are over are not told");
    let aliases = directory.aliases.list("a").await.unwrap();
    assert!(aliases.len() == 1 && aliases[0].address == "shop@example.org" && aliases[0].active);
    assert!(
        directory
            .sessions
            .find("s1", NOW.plus(DAY))
            .await
            .unwrap()
            .is_some()
    );
}

async fn accounts_are_found_by_a_part_of_their_address(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    let found = async |part: &str, limit| {
        let accounts = directory.accounts.matching(part, NOW, limit).await.unwrap();
        let addresses = accounts.into_iter().map(|account| account.address);
        addresses.collect::<Vec<_>>()
    };
    let all = ["ada@example.org", "bob@example.org"];
    assert_eq!(found("", 9).await, all);
    assert_eq!(found("", 1).await, all[..1]);
    assert_eq!(found("DA@", 9).await, all[..1]);
    for none in ["%", "_", "!", "a%g", "eve"] {
        assert_eq!(found(none, 9).await, [""; 0], "{none}");
    }
    let ada = directory
        .accounts
        .with_counts(all[0], NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((ada.sessions, ada.credentials), (2, 4));
    assert!(ada.active && !ada.admin && !ada.two_factor && ada.last_event_at.is_some());
    assert!(
        directory
            .accounts
            .with_counts("ada", NOW)
            .await
            .unwrap()
            .is_none()
    );
}

both!(
    accounts_are_found_by_a_part_of_their_address,
    a_disabled_account_has_no_credential_left_and_no_mail_comes,
    another_password_ends_what_signed_in_and_keeps_mail_clients,
    a_deleted_accounts_addresses_are_kept_until_they_are_freed,
    an_account_is_provisioned_with_its_plan_and_rank,
    the_operator_is_told_what_the_owner_is_and_of_grants,
);
