//! Invitations: the first grant and key, the limit of members, and refused invitations.

use futures_util::future::join_all;

use super::{
    MANAGE_AND_READ, READ, asks, folder, four, grant, invitation, invite, origin, recorded, remove,
    team,
};
use crate::caller::Origin;
use crate::credentials::AppPasswordKind;
use crate::permissions::Resource;
use crate::teams::{Grant, Invitation, Refusal};
use crate::testing::{Fresh, NOW, both};

async fn a_guest_is_let_in_with_a_grant_and_a_key_that_acts_for_it(fresh: Fresh) {
    four(&fresh).await;
    let directory = &fresh.directory;
    assert!(!team(&fresh).await.shared);
    let mut invitation = invitation("bob", grant("g", folder("work"), READ));
    invitation.grant.label = Some("Our work".into());
    let origin = origin("ada");
    let invited = directory
        .teams
        .invite(asks("ada", "ada"), &invitation, &origin);
    invited.await.unwrap();

    let team = team(&fresh).await;
    assert_eq!(
        (&*team.address, &*team.plan),
        ("ada@example.org", "default")
    );
    assert!(team.shared && team.active);
    let [bob] = &team.members[..] else {
        panic!("one member");
    };
    assert_eq!(
        (&*bob.account_id, &*bob.address),
        ("bob", "bob@example.org")
    );
    assert_eq!(bob.joined_at, NOW);
    // The grant has the folder's name at the time of the invitation.
    let expected = Grant {
        label: Some("Our work".into()),
        ..grant("g", folder("work"), READ)
    };
    assert_eq!(bob.grants, [expected]);
    let shared = directory.teams.shared_mailbox("ada", "bob").await.unwrap();
    let shared = shared.unwrap();
    assert_eq!(shared.app_password_id, "key-for-bob");
    assert_eq!(shared.sealed_password, b"key-for-bob");
    assert_eq!(shared.grants, bob.held());
    assert_eq!(shared.grants.over(&folder("work")), READ);

    let credentials = directory.credentials.list("ada", NOW).await.unwrap();
    let key = credentials.iter().find(|one| one.id == "key-for-bob");
    assert_eq!(key.unwrap().kind, AppPasswordKind::TeamKey);
    assert_eq!(
        recorded(&fresh).await,
        [
            "team_key_created|key-for-bob|Firefox|ada@example.org",
            "member_added|bob@example.org|folder work: mail:read|ada@example.org",
        ]
    );
}

async fn of_many_invitations_for_the_last_places_no_more_succeed_than_there_are(fresh: Fresh) {
    for n in 0..9 {
        let name = format!("guest{n}");
        let address = format!("{name}@example.org");
        fresh.directory.with(&name, &address, &[]).await;
    }
    fresh
        .directory
        .with("ada", "ada@example.org", &["ada"])
        .await;
    let invitations: Vec<Invitation> = (0..9)
        .map(|n| Invitation {
            at_most: 3,
            ..invitation(
                &format!("guest{n}"),
                grant(&n.to_string(), Resource::Mailbox, READ),
            )
        })
        .collect();
    let asked = invitations.iter().map(|invitation| {
        let directory = &fresh.directory;
        async move {
            directory
                .teams
                .invite(asks("ada", "ada"), invitation, &Origin::default())
                .await
        }
    });
    let came_of_it = join_all(asked).await;
    let full = |one: &Result<(), Refusal>| matches!(one, Err(Refusal::Full));
    assert_eq!(came_of_it.iter().filter(|one| one.is_ok()).count(), 3);
    assert_eq!(came_of_it.iter().filter(|one| full(one)).count(), 6);
    assert_eq!(team(&fresh).await.members.len(), 3);
    let keys = "SELECT COUNT(*) FROM app_passwords WHERE kind = 'team_key'";
    assert_eq!(fresh.number(keys).await, 1);
    // After a member leaves, another member can be invited.
    let member = team(&fresh).await.members[0].account_id.clone();
    assert_eq!(remove(&fresh, "ada", &member).await.unwrap(), None);
    let again = came_of_it.iter().position(full).unwrap();
    let again = &invitations[again];
    let (directory, origin) = (&fresh.directory, Origin::default());
    let invited = directory.teams.invite(asks("ada", "ada"), again, &origin);
    invited.await.unwrap();
}

async fn who_cannot_be_invited_is_told_apart(fresh: Fresh) {
    four(&fresh).await;
    let mailbox = || Resource::Mailbox;
    let result = invite(&fresh, "ada", "unknown", mailbox(), READ).await;
    assert!(matches!(result, Err(Refusal::NoUser)));
    let oneself = invite(&fresh, "ada", "ada", mailbox(), READ).await;
    assert!(matches!(oneself, Err(Refusal::Oneself)));
    fresh
        .directory
        .accounts
        .disable("dan", NOW, &Origin::default())
        .await
        .unwrap();
    let disabled = invite(&fresh, "ada", "dan", mailbox(), READ).await;
    assert!(matches!(disabled, Err(Refusal::NoUser)));
    invite(&fresh, "ada", "bob", mailbox(), MANAGE_AND_READ)
        .await
        .unwrap();
    let again = invite(&fresh, "ada", "bob", mailbox(), READ).await;
    assert!(matches!(again, Err(Refusal::Member)));
    let oneself = invite(&fresh, "bob", "bob", mailbox(), READ).await;
    assert!(matches!(oneself, Err(Refusal::Oneself)));
    let owner = invite(&fresh, "bob", "ada", mailbox(), READ).await;
    assert!(matches!(owner, Err(Refusal::OwnerInvited)));
    assert_eq!(team(&fresh).await.members.len(), 1);
}

both!(
    a_guest_is_let_in_with_a_grant_and_a_key_that_acts_for_it,
    of_many_invitations_for_the_last_places_no_more_succeed_than_there_are,
    who_cannot_be_invited_is_told_apart,
);
