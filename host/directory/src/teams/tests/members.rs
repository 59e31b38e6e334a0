//! Members: the teams of an account, members that leave, and changes after the end of an account or
//! a session.

use std::time::Duration;

use super::{
    MANAGE_AND_READ, READ, READ_AND_WRITE, asks, four, grant, invitation, invite, origin, recorded,
    remove, team,
};
use crate::caller::Origin;
use crate::credentials::{AppPasswordKind, Revocation};
use crate::permissions::{Resource, Rights};
use crate::teams::{Invitation, Refusal};
use crate::testing::{Fresh, NOW, both, new_app_password};

const DAY: Duration = Duration::from_hours(24);

/// Returns the mailboxes that an account sees, with its rights in each.
async fn teams(fresh: &Fresh, account: &str) -> Vec<(String, String)> {
    let teams = fresh.directory.teams.list(account).await.unwrap();
    let told = teams
        .into_iter()
        .map(|team| (team.mailbox, team.grants.anywhere().to_string()));
    told.collect()
}

async fn teams_are_ones_own_and_those_that_are_shared_by_address(fresh: Fresh) {
    four(&fresh).await;
    let all = Rights::ALL.to_string();
    assert_eq!(teams(&fresh, "dan").await, [("dan".into(), all.clone())]);
    for owner in ["cyd", "ada", "bob"] {
        let resource = Resource::Mailbox;
        let invitation = invitation("dan", grant(owner, resource, READ));
        let mut invitation = Invitation {
            membership: format!("dan-is-in-{owner}"),
            ..invitation
        };
        let key = format!("key-of-{owner}");
        invitation.key.app_password = new_app_password(&key, AppPasswordKind::TeamKey);
        let (directory, origin) = (&fresh.directory, origin(owner));
        let invited = directory
            .teams
            .invite(asks(owner, owner), &invitation, &origin);
        invited.await.unwrap();
    }
    let read = || "mail:read".to_owned();
    let expected = [
        ("dan".into(), all.clone()),
        ("ada".into(), read()),
        ("bob".into(), read()),
        ("cyd".into(), read()),
    ];
    assert_eq!(teams(&fresh, "dan").await, expected);
    let shown = fresh.directory.teams.list("dan").await.unwrap();
    assert_eq!(shown[1].address, "ada@example.org");
    assert_eq!(shown[1].person, Some(("Ada".into(), "Lovelace".into())));
    assert_eq!(teams(&fresh, "ada").await.len(), 1);
    assert_eq!(fresh.directory.teams.list("nobody").await.unwrap(), []);

    // The mailbox is not listed without a key, without an active owner, or without a right.
    let (origin, directory) = (Origin::default(), &fresh.directory);
    let gone = directory
        .credentials
        .revoke_app_password("ada", "key-of-ada", NOW, &origin);
    assert_eq!(
        gone.await.unwrap(),
        Revocation::Revoked(AppPasswordKind::TeamKey)
    );
    assert!(
        directory
            .accounts
            .disable("bob", NOW, &origin)
            .await
            .unwrap()
    );
    let changing = asks("cyd", "cyd");
    directory
        .teams
        .revoke_grant(changing, "cyd", &origin)
        .await
        .unwrap();
    assert_eq!(teams(&fresh, "dan").await, [("dan".into(), all)]);
}

async fn members_leave_and_the_last_one_takes_the_key_along(fresh: Fresh) {
    four(&fresh).await;
    for (name, rights) in [("bob", READ), ("cyd", MANAGE_AND_READ), ("dan", READ)] {
        invite(&fresh, "ada", name, Resource::Mailbox, rights)
            .await
            .unwrap();
    }
    let refused = remove(&fresh, "bob", "dan").await;
    assert!(matches!(refused, Err(Refusal::NotManaging)));
    for by in ["ada", "cyd"] {
        let refused = remove(&fresh, by, "ada").await;
        assert!(matches!(refused, Err(Refusal::Owner)));
        let refused = remove(&fresh, by, "nobody").await;
        assert!(matches!(refused, Err(Refusal::NoMember)));
    }
    assert_eq!(remove(&fresh, "bob", "bob").await.unwrap(), None);
    let again = remove(&fresh, "bob", "bob").await;
    assert!(matches!(again, Err(Refusal::NoTeam)));
    assert_eq!(remove(&fresh, "cyd", "dan").await.unwrap(), None);
    let last = remove(&fresh, "ada", "cyd").await.unwrap();
    assert_eq!(last.as_deref(), Some("key-for-bob"));
    let team = team(&fresh).await;
    assert!(!team.shared && team.members.is_empty());
    let left = "SELECT (SELECT COUNT(*) FROM team_keys) + (SELECT COUNT(*) FROM team_grants) + \
        (SELECT COUNT(*) FROM app_passwords WHERE kind = 'team_key')";
    assert_eq!(fresh.number(left).await, 0);
    let told = recorded(&fresh).await;
    assert_eq!(
        told[4..],
        [
            "member_removed|bob@example.org||bob@example.org",
            "member_removed|dan@example.org||cyd@example.org",
            "member_removed|cyd@example.org||ada@example.org",
            "app_password_revoked|key-for-bob|Firefox|ada@example.org",
        ]
    );
}

async fn a_deleted_account_is_a_member_of_nothing_and_its_own_team_is_gone(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    let (directory, operator) = (&fresh.directory, Origin::operator());
    let deleted = directory.accounts.delete("bob", NOW, &operator).await;
    assert!(deleted.unwrap());
    let left = team(&fresh).await;
    assert!(left.members.is_empty() && !left.shared, "the key is gone");
    assert_eq!(
        recorded(&fresh).await[2..],
        [
            "member_removed|bob@example.org|the account was deleted|operator",
            "app_password_revoked|key-for-bob|Firefox|operator",
        ]
    );
    invite(&fresh, "ada", "cyd", Resource::Mailbox, READ)
        .await
        .unwrap();
    let deleted = directory.accounts.delete("ada", NOW, &operator).await;
    assert!(deleted.unwrap());
    assert!(directory.teams.find("ada").await.unwrap().is_none());
    assert_eq!(teams(&fresh, "cyd").await.len(), 1);
}

async fn a_session_that_is_over_changes_nothing(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    let (directory, origin) = (&fresh.directory, Origin::default());
    let mut over = asks("ada", "ada");
    // The caller's session has ended, or belongs to another account.
    let ends = [("ada", NOW.plus(DAY * 31)), ("bob", NOW)];
    for (sid, at) in ends {
        (over.session.sid, over.session.at) = (sid, at);
        let invitation = invitation("cyd", grant("g", Resource::Mailbox, READ));
        let more = grant("g", Resource::Mailbox, READ);
        for refused in [
            directory.teams.invite(over, &invitation, &origin).await,
            directory.teams.add_grant(over, "bob", &more, &origin).await,
            directory
                .teams
                .change_grant(over, "bob-first", READ_AND_WRITE, &origin)
                .await,
            directory
                .teams
                .revoke_grant(over, "bob-first", &origin)
                .await,
            directory
                .teams
                .remove_member(over, "bob", &origin)
                .await
                .map(drop),
        ] {
            assert!(matches!(refused, Err(Refusal::SessionOver)));
        }
    }
    let team = team(&fresh).await;
    assert_eq!(team.members.len(), 1);
    assert_eq!(team.members[0].grants[0].rights, READ);
}

both!(
    teams_are_ones_own_and_those_that_are_shared_by_address,
    members_leave_and_the_last_one_takes_the_key_along,
    a_deleted_account_is_a_member_of_nothing_and_its_own_team_is_gone,
    a_session_that_is_over_changes_nothing,
);
