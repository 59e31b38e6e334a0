use std::time::Duration;

use futures_util::future::join_all;

use super::*;
use crate::caller::Origin;
use crate::credentials::{AppPasswordKind, Revocation};
use crate::events::Wanted;
use crate::permissions::{AliasSet, GrantedFolder, Right};
use crate::sessions::Asking;
use crate::testing::{Fresh, NOW, both, new_app_password};

const READ: Rights = Rights::of(&[Right::MailRead]);
const READ_AND_WRITE: Rights = Rights::of(&[Right::MailRead, Right::MailWrite]);
const SEND: Rights = Rights::of(&[Right::MailSend]);
const MANAGE_AND_READ: Rights = Rights::of(&[Right::MembersManage, Right::MailRead]);
const DAY: Duration = Duration::from_hours(24);

/// Every session has the name of its account.
fn asks<'a>(account: &'a str, mailbox: &'a str) -> Changing<'a> {
    Changing {
        asking: Asking {
            account_id: account,
            sid: account,
            at: NOW,
        },
        mailbox,
    }
}

fn origin(account: &str) -> Origin {
    Origin {
        actor: format!("{account}@example.org"),
        ..Origin::default()
    }
}

fn grant(id: &str, resource: Resource, rights: Rights) -> Grant {
    Grant {
        id: id.into(),
        resource,
        label: None,
        rights,
    }
}

fn folder(id: &str) -> Resource {
    folder_of(id, 7)
}

fn folder_of(id: &str, uid_validity: u32) -> Resource {
    Resource::Folder(GrantedFolder {
        id: id.into(),
        uid_validity,
    })
}

fn invitation(name: &str, grant: Grant) -> Invitation {
    let key = format!("key-for-{name}");
    Invitation {
        membership: format!("{name}-is-in-{}", grant.id),
        address: format!("{name}@example.org"),
        grant,
        key: NewKey {
            app_password: new_app_password(&key, AppPasswordKind::TeamKey),
            sealed_password: key.into(),
        },
        at_most: 5,
    }
}

/// Creates `ada`, `bob`, `cyd` and `dan`, each signed in. `ada` has an alias and a domain.
async fn four(fresh: &Fresh) {
    for name in ["ada", "bob", "cyd", "dan"] {
        let address = format!("{name}@example.org");
        fresh.directory.with(name, &address, &[name]).await;
    }
    fresh.domain("ada", "ada.example", true).await;
    fresh.domain("ada", "pending.example", false).await;
    fresh
        .execute(
            "INSERT INTO addresses (address, kind, account_id, live) VALUES ('shop@ada.example', 'alias', 'ada', TRUE), \
                ('gone@ada.example', 'alias', 'ada', FALSE), ('shop@example.org', 'alias', 'bob', TRUE)",
        )
        .await;
}

async fn invite(
    fresh: &Fresh,
    by: &str,
    name: &str,
    resource: Resource,
    rights: Rights,
) -> Result<(), Refusal> {
    let id = format!("{name}-first");
    let invitation = invitation(name, grant(&id, resource, rights));
    let directory = &fresh.directory;
    directory
        .invite(asks(by, "ada"), &invitation, &origin(by))
        .await
}

/// Creates a further grant for a member of `ada`'s mailbox, made by `by`.
async fn add(fresh: &Fresh, by: &str, member: &str, grant: Grant) -> Result<(), Refusal> {
    let directory = &fresh.directory;
    directory
        .add_grant(asks(by, "ada"), member, &grant, &origin(by))
        .await
}

async fn change(fresh: &Fresh, by: &str, id: &str, rights: Rights) -> Result<(), Refusal> {
    let directory = &fresh.directory;
    directory
        .change_grant(asks(by, "ada"), id, rights, &origin(by))
        .await
}

async fn revoke(fresh: &Fresh, by: &str, id: &str) -> Result<(), Refusal> {
    let directory = &fresh.directory;
    directory
        .revoke_grant(asks(by, "ada"), id, &origin(by))
        .await
}

async fn remove(fresh: &Fresh, by: &str, member: &str) -> Result<Option<String>, Refusal> {
    let directory = &fresh.directory;
    directory
        .remove_member(asks(by, "ada"), member, &origin(by))
        .await
}

async fn team(fresh: &Fresh) -> Team {
    fresh.directory.team("ada").await.unwrap().unwrap()
}

/// Returns the mailboxes that an account sees, with its rights in each.
async fn teams(fresh: &Fresh, account: &str) -> Vec<(String, String)> {
    let teams = fresh.directory.teams(account).await.unwrap();
    let told = teams
        .into_iter()
        .map(|team| (team.mailbox, team.grants.anywhere().to_string()));
    told.collect()
}

/// Returns the events of `ada`'s team, oldest first: kind, subject, detail and actor.
async fn recorded(fresh: &Fresh) -> Vec<String> {
    let wanted = Wanted {
        address: "ada@example.org".into(),
        since: Timestamp::from_millis(0),
        until: Timestamp::from_millis(i64::MAX),
        limit: 100,
    };
    let events = fresh.directory.events(&wanted).await.unwrap();
    let told = events.into_iter().rev().skip(2).map(|event| {
        let word = |word: Option<String>| word.unwrap_or_default();
        let (subject, detail) = (word(event.subject), word(event.detail));
        format!("{}|{subject}|{detail}|{}", event.kind, event.actor)
    });
    told.collect()
}

async fn a_guest_is_let_in_with_a_grant_and_a_key_that_acts_for_it(fresh: Fresh) {
    four(&fresh).await;
    let directory = &fresh.directory;
    assert!(!team(&fresh).await.shared);
    let mut invitation = invitation("bob", grant("g", folder("work"), READ));
    invitation.grant.label = Some("Our work".into());
    let origin = origin("ada");
    let invited = directory.invite(asks("ada", "ada"), &invitation, &origin);
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
    // The folder as it was at the invitation.
    let expected = Grant {
        label: Some("Our work".into()),
        ..grant("g", folder("work"), READ)
    };
    assert_eq!(bob.grants, [expected]);
    let shared = directory.shared_mailbox("ada", "bob").await.unwrap();
    let shared = shared.unwrap();
    assert_eq!(shared.app_password_id, "key-for-bob");
    assert_eq!(shared.sealed_password, b"key-for-bob");
    assert_eq!(shared.grants, bob.held());
    assert_eq!(shared.grants.over(&folder("work")), READ);

    let credentials = directory.credentials("ada", NOW).await.unwrap();
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
        let invited = directory.invite(asks(owner, owner), &invitation, &origin);
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
    let shown = fresh.directory.teams("dan").await.unwrap();
    assert_eq!(shown[1].address, "ada@example.org");
    assert_eq!(shown[1].person, Some(("Ada".into(), "Lovelace".into())));
    assert_eq!(teams(&fresh, "ada").await.len(), 1);
    assert_eq!(fresh.directory.teams("nobody").await.unwrap(), []);

    // Without a key, without an active owner, without a right.
    let (origin, directory) = (Origin::default(), &fresh.directory);
    let gone = directory.revoke_app_password("ada", "key-of-ada", NOW, &origin);
    assert_eq!(gone.await.unwrap(), Revocation::Revoked);
    assert!(directory.disable("bob", NOW, &origin).await.unwrap());
    let changing = asks("cyd", "cyd");
    directory
        .revoke_grant(changing, "cyd", &origin)
        .await
        .unwrap();
    assert_eq!(teams(&fresh, "dan").await, [("dan".into(), all)]);
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
    // A member that leaves frees its place.
    let member = team(&fresh).await.members[0].account_id.clone();
    assert_eq!(remove(&fresh, "ada", &member).await.unwrap(), None);
    let again = came_of_it.iter().position(full).unwrap();
    let again = &invitations[again];
    let (directory, origin) = (&fresh.directory, Origin::default());
    let invited = directory.invite(asks("ada", "ada"), again, &origin);
    invited.await.unwrap();
}

async fn who_cannot_be_invited_is_told_apart(fresh: Fresh) {
    four(&fresh).await;
    let mailbox = || Resource::Mailbox;
    let nobody = invite(&fresh, "ada", "nobody", mailbox(), READ).await;
    assert!(matches!(nobody, Err(Refusal::NoUser)));
    let oneself = invite(&fresh, "ada", "ada", mailbox(), READ).await;
    assert!(matches!(oneself, Err(Refusal::Oneself)));
    fresh
        .directory
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
    assert!(matches!(misplaced, Refusal::NotTaken(_)));
    let misplaced = change(&fresh, "ada", "0", SEND).await;
    assert!(matches!(misplaced, Err(Refusal::NotTaken(_))));
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

    // A member that may not manage members changes nothing, and gets the same refusal for members and grants that do not exist.
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
    let changed = directory.change_grant(elsewhere, "bob-first", READ_AND_WRITE, &origin);
    assert!(matches!(changed.await, Err(Refusal::NoGrant)));
    let revoked = directory.revoke_grant(elsewhere, "bob-first", &origin);
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
    let shared = directory.shared_mailbox("ada", "bob").await.unwrap();
    assert_eq!(shared.unwrap().grants, Grants::default());
}

async fn a_member_has_a_hundred_grants_and_no_more(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    for n in 1..MOST_GRANTS {
        // An equal grant is a separate grant.
        let more = grant(&n.to_string(), Resource::Mailbox, READ);
        add(&fresh, "ada", "bob", more).await.unwrap();
    }
    let more = grant("more", Resource::Mailbox, READ);
    let refused = add(&fresh, "ada", "bob", more).await;
    assert!(matches!(refused, Err(Refusal::TooManyGrants)));
    assert_eq!(team(&fresh).await.members[0].grants.len(), 100);
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

async fn a_revoked_key_shuts_all_guests_out_until_the_owner_invites_again(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, MANAGE_AND_READ)
        .await
        .unwrap();
    let (directory, origin) = (&fresh.directory, Origin::default());
    let gone = directory.revoke_app_password("ada", "key-for-bob", NOW, &origin);
    assert_eq!(gone.await.unwrap(), Revocation::Revoked);
    let shut = team(&fresh).await;
    assert!(!shut.shared);
    assert_eq!(shut.members.len(), 1);
    let shared = directory.shared_mailbox("ada", "bob").await.unwrap();
    assert!(shared.is_none());
    // A manager cannot create a new key.
    let refused = invite(&fresh, "bob", "cyd", Resource::Mailbox, READ).await;
    assert!(matches!(refused, Err(Refusal::NoTeam)));
    invite(&fresh, "ada", "dan", Resource::Mailbox, READ)
        .await
        .unwrap();
    let open = directory.shared_mailbox("ada", "bob").await.unwrap();
    assert_eq!(open.unwrap().app_password_id, "key-for-dan");

    let gone = directory.revoke_app_password("ada", "key-for-dan", NOW, &origin);
    gone.await.unwrap();
    let (left, other) = (
        remove(&fresh, "bob", "bob").await,
        remove(&fresh, "dan", "bob").await,
    );
    assert_eq!(left.unwrap(), None);
    assert!(matches!(other, Err(Refusal::NoTeam)));
}

async fn a_deleted_account_is_a_member_of_nothing_and_its_own_team_is_gone(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    let (directory, operator) = (&fresh.directory, Origin::operator());
    let deleted = directory.delete_account("bob", NOW, &operator).await;
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
    let deleted = directory.delete_account("ada", NOW, &operator).await;
    assert!(deleted.unwrap());
    assert!(directory.team("ada").await.unwrap().is_none());
    assert_eq!(teams(&fresh, "cyd").await.len(), 1);
}

async fn a_session_that_is_over_changes_nothing(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    let (directory, origin) = (&fresh.directory, Origin::default());
    let mut over = asks("ada", "ada");
    // A session after its end, and the session of another account.
    let ends = [("ada", NOW.plus(DAY * 31)), ("bob", NOW)];
    for (sid, at) in ends {
        (over.asking.sid, over.asking.at) = (sid, at);
        let invitation = invitation("cyd", grant("g", Resource::Mailbox, READ));
        let more = grant("g", Resource::Mailbox, READ);
        for refused in [
            directory.invite(over, &invitation, &origin).await,
            directory.add_grant(over, "bob", &more, &origin).await,
            directory
                .change_grant(over, "bob-first", READ_AND_WRITE, &origin)
                .await,
            directory.revoke_grant(over, "bob-first", &origin).await,
            directory
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

async fn two_who_manage_each_others_mailboxes_never_wait_for_each_other(fresh: Fresh) {
    four(&fresh).await;
    let directory = &fresh.directory;
    for (owner, guest) in [("ada", "bob"), ("bob", "ada")] {
        let first = grant(owner, Resource::Mailbox, MANAGE_AND_READ);
        let mut invitation = invitation(guest, first);
        let key = format!("key-of-{owner}");
        invitation.key.app_password = new_app_password(&key, AppPasswordKind::TeamKey);
        let origin = origin(owner);
        let invited = directory.invite(asks(owner, owner), &invitation, &origin);
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
            .add_grant(asks(by, mailbox), by, grant, &Origin::default())
            .await
    });
    for added in join_all(added).await {
        added.unwrap();
    }
}

async fn a_key_is_sealed_anew_unless_it_was_replaced(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    let directory = &fresh.directory;
    let keys = async || directory.team_keys().await.unwrap();
    assert_eq!(keys().await, [("ada".into(), b"key-for-bob".to_vec())]);
    for (before, after) in [(b"other".as_slice(), b"x"), (b"key-for-bob", b"y")] {
        directory
            .reseal_team_key("ada", before, after)
            .await
            .unwrap();
    }
    assert_eq!(keys().await, [("ada".into(), b"y".to_vec())]);
}

both!(
    a_guest_is_let_in_with_a_grant_and_a_key_that_acts_for_it,
    teams_are_ones_own_and_those_that_are_shared_by_address,
    of_many_invitations_for_the_last_places_no_more_succeed_than_there_are,
    who_cannot_be_invited_is_told_apart,
    a_grant_is_on_what_the_mailbox_has,
    a_manager_hands_on_what_it_holds_and_learns_of_nothing_else,
    what_was_taken_from_a_manager_it_grants_no_longer,
    a_grant_is_changed_and_revoked_in_its_own_team_only,
    a_member_has_a_hundred_grants_and_no_more,
    members_leave_and_the_last_one_takes_the_key_along,
    a_revoked_key_shuts_all_guests_out_until_the_owner_invites_again,
    a_deleted_account_is_a_member_of_nothing_and_its_own_team_is_gone,
    a_session_that_is_over_changes_nothing,
    two_who_manage_each_others_mailboxes_never_wait_for_each_other,
    a_key_is_sealed_anew_unless_it_was_replaced,
);
