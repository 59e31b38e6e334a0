//! Grants: their targets and limits, and the grants that a manager can make.

use futures_util::future::join_all;

use super::{
    MANAGE_AND_READ, READ, READ_AND_WRITE, asks, folder, folder_of, four, grant, invitation,
    invite, origin, recorded, remove, team,
};
use crate::caller::Origin;
use crate::credentials::AppPasswordKind;
use crate::permissions::{AliasSet, Grants, Resource, Right, Rights};
use crate::teams::{Grant, MAX_GRANTS, Refusal};
use crate::testing::{Fresh, both, new_app_password};

const SEND: Rights = Rights::of(&[Right::MailSend]);

/// Adds a grant to a member of `ada`'s mailbox, as the caller `by`.
async fn add(fresh: &Fresh, by: &str, member: &str, grant: Grant) -> Result<(), Refusal> {
    let directory = &fresh.directory;
    directory
        .teams
        .add_grant(asks(by, "ada"), member, &grant, &origin(by))
        .await
}

async fn change(fresh: &Fresh, by: &str, id: &str, rights: Rights) -> Result<(), Refusal> {
    let directory = &fresh.directory;
    directory
        .teams
        .change_grant(asks(by, "ada"), id, rights, &origin(by))
        .await
}

async fn revoke(fresh: &Fresh, by: &str, id: &str) -> Result<(), Refusal> {
    let directory = &fresh.directory;
    directory
        .teams
        .revoke_grant(asks(by, "ada"), id, &origin(by))
        .await
}

async fn a_grant_is_on_what_the_mailbox_has(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    let alias = |address: &str| Resource::Alias(address.into());
    let domain = |domain: &str| Resource::AliasSet(AliasSet::Domain(domain.into()));
    for (n, (resource, rights)) in [
        (folder("home"), READ_AND_WRITE),
        (alias("shop@ada.example"), SEND),
        (domain("ada.example"), SEND),
        (Resource::AliasSet(AliasSet::All), SEND),
        (Resource::AliasSet(AliasSet::Own), SEND),
    ]
    .into_iter()
    .enumerate()
    {
        let granted = add(
            &fresh,
            "ada",
            "bob",
            grant(&n.to_string(), resource, rights),
        );
        granted.await.unwrap();
    }
    let kept = &team(&fresh).await.members[0].grants;
    let kept: Vec<&Resource> = kept.iter().map(|grant| &grant.resource).collect();
    assert_eq!(kept.len(), 6);
    assert!(kept.contains(&&folder("home")));
    assert!(kept.contains(&&domain("ada.example")));

    let refused = async |resource, rights| {
        let grant = grant("x", resource, rights);
        add(&fresh, "ada", "bob", grant).await.unwrap_err()
    };
    let missing = refused(folder_of("none", 0), READ).await;
    assert!(matches!(missing, Refusal::NoFolder));
    for address in [
        "none@ada.example",
        "gone@ada.example",
        "shop@example.org",
        "ada@example.org",
    ] {
        let refused = refused(alias(address), SEND).await;
        assert!(matches!(refused, Refusal::NoAlias), "{address}");
    }
    for name in ["pending.example", "none.example"] {
        let refused = refused(domain(name), SEND).await;
        assert!(matches!(refused, Refusal::NoDomain), "{name}");
    }
    let misplaced = refused(folder("home"), SEND).await;
    assert!(matches!(misplaced, Refusal::NotApplicable(_)));
    let misplaced = change(&fresh, "ada", "0", SEND).await;
    assert!(matches!(misplaced, Err(Refusal::NotApplicable(_))));
}

async fn a_manager_hands_on_what_it_holds_and_learns_of_nothing_else(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, MANAGE_AND_READ)
        .await
        .unwrap();
    let first = grant("shop", Resource::Alias("shop@ada.example".into()), SEND);
    add(&fresh, "ada", "bob", first).await.unwrap();
    invite(&fresh, "bob", "cyd", folder("work"), READ)
        .await
        .unwrap();

    // The refusal is the same for another member and for the caller itself.
    for member in ["cyd", "bob"] {
        for resource in [
            Resource::Mailbox,
            folder("work"),
            // The refusal is the same whether the folder exists or not.
            folder_of("none", 0),
        ] {
            let grant = grant("x", resource, Rights::of(&[Right::MailWrite]));
            let refused = add(&fresh, "bob", member, grant).await;
            assert!(matches!(refused, Err(Refusal::NotHeld)));
        }
        for address in ["none@ada.example", "gone@ada.example"] {
            let grant = grant("x", Resource::Alias(address.into()), SEND);
            let refused = add(&fresh, "bob", member, grant).await;
            assert!(matches!(refused, Err(Refusal::NotHeld)), "{address}");
        }
    }
    let wider = change(&fresh, "bob", "cyd-first", READ_AND_WRITE).await;
    assert!(matches!(wider, Err(Refusal::NotHeld)));
    let send = invite(&fresh, "bob", "dan", Resource::Mailbox, SEND).await;
    assert!(matches!(send, Err(Refusal::NotHeld)));
    let same = grant("y", Resource::Alias("shop@ada.example".into()), SEND);
    add(&fresh, "bob", "cyd", same).await.unwrap();

    // A member that may not manage members cannot change anything. The refusal is the same for
    // members and grants that do not exist.
    let nothing = grant("z", Resource::Mailbox, READ);
    for member in ["bob", "nobody", "ada"] {
        let refused = add(&fresh, "cyd", member, nothing.clone()).await;
        assert!(matches!(refused, Err(Refusal::NotManaging)), "{member}");
        let refused = remove(&fresh, "cyd", member).await;
        assert!(matches!(refused, Err(Refusal::NotManaging)), "{member}");
    }
    for id in ["bob-first", "none"] {
        let refused = revoke(&fresh, "cyd", id).await;
        assert!(matches!(refused, Err(Refusal::NotManaging)), "{id}");
        let refused = change(&fresh, "cyd", id, READ).await;
        assert!(matches!(refused, Err(Refusal::NotManaging)), "{id}");
    }
    let refused = invite(&fresh, "cyd", "dan", Resource::Mailbox, READ).await;
    assert!(matches!(refused, Err(Refusal::NotManaging)));
    // An account outside the team does not learn that the team exists.
    let refused = invite(&fresh, "dan", "dan", Resource::Mailbox, READ).await;
    assert!(matches!(refused, Err(Refusal::NoTeam)));
    for by in ["dan", "nobody"] {
        let refused = remove(&fresh, by, "cyd").await;
        assert!(matches!(
            refused,
            Err(Refusal::NoTeam | Refusal::SessionOver)
        ));
    }
}

async fn what_was_taken_from_a_manager_it_grants_no_longer(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, MANAGE_AND_READ)
        .await
        .unwrap();
    let write = grant("more", Resource::Mailbox, Rights::of(&[Right::MailWrite]));
    add(&fresh, "ada", "bob", write).await.unwrap();
    invite(&fresh, "bob", "cyd", Resource::Mailbox, READ_AND_WRITE)
        .await
        .unwrap();
    revoke(&fresh, "ada", "more").await.unwrap();
    let again = grant("x", Resource::Mailbox, READ_AND_WRITE);
    let refused = add(&fresh, "bob", "cyd", again.clone()).await;
    assert!(matches!(refused, Err(Refusal::NotHeld)));
    // A manager can reduce rights that it does not hold itself.
    change(&fresh, "bob", "cyd-first", READ).await.unwrap();
    change(&fresh, "ada", "bob-first", READ).await.unwrap();
    let refused = add(&fresh, "bob", "cyd", again).await;
    assert!(matches!(refused, Err(Refusal::NotManaging)));
    let told = recorded(&fresh).await;
    let grants = told.iter().filter(|event| event.starts_with("grant_"));
    assert_eq!(
        grants.collect::<Vec<_>>(),
        [
            "grant_added|bob@example.org|mailbox: mail:write|ada@example.org",
            "grant_revoked|bob@example.org|mailbox: mail:write|ada@example.org",
            "grant_changed|cyd@example.org|mailbox: mail:read, before: mail:read mail:write|bob@example.org",
            "grant_changed|bob@example.org|mailbox: mail:read, before: mail:read members:manage|ada@example.org",
        ]
    );
}

async fn a_grant_is_changed_and_revoked_in_its_own_team_only(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    let directory = &fresh.directory;
    let (elsewhere, origin) = (asks("dan", "dan"), Origin::default());
    let changed = directory
        .teams
        .change_grant(elsewhere, "bob-first", READ_AND_WRITE, &origin);
    assert!(matches!(changed.await, Err(Refusal::NoGrant)));
    let revoked = directory
        .teams
        .revoke_grant(elsewhere, "bob-first", &origin);
    assert!(matches!(revoked.await, Err(Refusal::NoGrant)));
    let before = recorded(&fresh).await;
    change(&fresh, "ada", "bob-first", READ).await.unwrap();
    assert_eq!(recorded(&fresh).await, before, "nothing changed");
    revoke(&fresh, "ada", "bob-first").await.unwrap();
    let again = revoke(&fresh, "ada", "bob-first").await;
    assert!(matches!(again, Err(Refusal::NoGrant)));
    let team = team(&fresh).await;
    assert_eq!(team.members[0].grants, []);
    assert!(team.shared);
    let shared = directory.teams.shared_mailbox("ada", "bob").await.unwrap();
    assert_eq!(shared.unwrap().grants, Grants::default());
}

async fn a_member_has_a_hundred_grants_and_no_more(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    for n in 1..MAX_GRANTS {
        // An equal grant is a separate grant.
        let more = grant(&n.to_string(), Resource::Mailbox, READ);
        add(&fresh, "ada", "bob", more).await.unwrap();
    }
    let more = grant("more", Resource::Mailbox, READ);
    let refused = add(&fresh, "ada", "bob", more).await;
    assert!(matches!(refused, Err(Refusal::TooManyGrants)));
    assert_eq!(team(&fresh).await.members[0].grants.len(), 100);
}

async fn two_who_manage_each_others_mailboxes_never_wait_for_each_other(fresh: Fresh) {
    four(&fresh).await;
    let directory = &fresh.directory;
    for (owner, guest) in [("ada", "bob"), ("bob", "ada")] {
        let first = grant(owner, Resource::Mailbox, MANAGE_AND_READ);
        let mut invitation = invitation(guest, first);
        let key = format!("key-of-{owner}");
        invitation.key.app_password = new_app_password(&key, AppPasswordKind::TeamKey);
        let origin = origin(owner);
        let invited = directory
            .teams
            .invite(asks(owner, owner), &invitation, &origin);
        invited.await.unwrap();
    }
    let grants: Vec<(&str, &str, Grant)> = (0..20)
        .flat_map(|n| [("ada", "bob", n), ("bob", "ada", n)])
        .map(|(by, mailbox, n)| {
            let id = format!("{by}-{n}");
            (by, mailbox, grant(&id, Resource::Mailbox, READ))
        })
        .collect();
    let added = grants.iter().map(|(by, mailbox, grant)| async move {
        directory
            .teams
            .add_grant(asks(by, mailbox), by, grant, &Origin::default())
            .await
    });
    for added in join_all(added).await {
        added.unwrap();
    }
}

both!(
    a_grant_is_on_what_the_mailbox_has,
    a_manager_hands_on_what_it_holds_and_learns_of_nothing_else,
    what_was_taken_from_a_manager_it_grants_no_longer,
    a_grant_is_changed_and_revoked_in_its_own_team_only,
    a_member_has_a_hundred_grants_and_no_more,
    two_who_manage_each_others_mailboxes_never_wait_for_each_other,
);
