use super::*;
use crate::accounts::DEFAULT_PLAN;
use crate::testing::{Fresh, NOW, both};

const INFO: &str = "info@example.org";

fn user(address: &str, login_name: Option<&str>) -> AdoptedUser {
    AdoptedUser {
        account: NewAccount {
            id: format!("id-{address}"),
            address: address.into(),
            password_hash: String::new(),
            profile: None,
            plan: DEFAULT_PLAN.into(),
            admin: false,
            created_at: NOW,
        },
        login_name: login_name.map(Into::into),
    }
}

/// Creates Ada and Bob on a platform domain.
async fn people(fresh: &Fresh) {
    let directory = &fresh.directory;
    directory.with("a", "ada@example.org", &[]).await;
    directory.with("b", "bob@example.org", &[]).await;
    fresh
        .execute("INSERT INTO platform_domains (domain) VALUES ('example.org')")
        .await;
}

async fn users_are_adopted_once_in_several_transactions(fresh: Fresh) {
    people(&fresh).await;
    let directory = &fresh.directory;
    fresh.domain("a", "ada.example", true).await;
    let operator = Origin::operator();
    directory
        .aliases
        .reserve_address(INFO, NOW, &operator)
        .await
        .unwrap();
    let mut users = vec![
        user("ada@example.org", Some("ada")),
        user("bob@example.org", None),
        user(INFO, None),
        user("new@ada.example", None),
    ];
    for n in 0..BATCH {
        let login = format!("n{n}");
        users.push(user(&format!("n{n}@example.net"), Some(&login)));
    }
    users.sort_by(|a, b| a.account.address.cmp(&b.account.address));
    let adopted = directory
        .accounts
        .adopt_users(&users, &operator)
        .await
        .unwrap();
    let of = |adopted: &[Adoption], address: &str| {
        let index = users
            .iter()
            .position(|user| user.account.address == address);
        adopted[index.unwrap()]
    };
    for (address, first, second) in [
        (
            "ada@example.org",
            Adoption::LoginNameSet,
            Adoption::Unchanged,
        ),
        ("bob@example.org", Adoption::Unchanged, Adoption::Unchanged),
        (INFO, Adoption::AddressTaken, Adoption::AddressTaken),
        (
            "new@ada.example",
            Adoption::AddressTaken,
            Adoption::AddressTaken,
        ),
        ("n0@example.net", Adoption::Created, Adoption::Unchanged),
        ("n249@example.net", Adoption::Created, Adoption::Unchanged),
    ] {
        assert_eq!(of(&adopted, address), first, "{address}");
        let again = directory
            .accounts
            .adopt_users(&users, &operator)
            .await
            .unwrap();
        assert_eq!(of(&again, address), second, "{address}");
    }
    let count = "SELECT COUNT(*) FROM accounts WHERE password_hash = '' AND login_name LIKE 'n%'";
    assert_eq!(fresh.number(count).await, 250);
    let events = "SELECT COUNT(*) FROM security_events WHERE kind = 'account_created' AND actor = 'operator'";
    assert_eq!(fresh.number(events).await, 250);
    let names = fresh
        .as_mail_server("SELECT address, login FROM mailserver_login_names")
        .await;
    assert_eq!(names.len(), 251);
}

async fn concurrent_adoptions_create_each_account_once(fresh: Fresh) {
    let users: Vec<AdoptedUser> = (100..160)
        .map(|n| user(&format!("n{n}@example.net"), None))
        .collect();
    let operator = Origin::operator();
    let (one, other) = tokio::join!(
        fresh.directory.accounts.adopt_users(&users, &operator),
        fresh.directory.accounts.adopt_users(&users, &operator)
    );
    let results = one.unwrap().into_iter().zip(other.unwrap());
    for (one, other) in results {
        let mut pair = [one, other];
        pair.sort_by_key(|adoption| *adoption != Adoption::Created);
        assert_eq!(pair, [Adoption::Created, Adoption::Unchanged]);
    }
}

both!(
    users_are_adopted_once_in_several_transactions,
    concurrent_adoptions_create_each_account_once,
);
