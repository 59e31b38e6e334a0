//! Tests of teams on both databases: invitations, grants, members and keys.

mod grants;
mod invitations;
mod keys;
mod members;

use crate::caller::Origin;
use crate::clock::Timestamp;
use crate::credentials::AppPasswordKind;
use crate::events::EventFilter;
use crate::permissions::{GrantedFolder, Resource, Right, Rights};
use crate::session_caller::SessionCaller;
use crate::teams::{Grant, Invitation, NewKey, Refusal, Team, TeamCaller};
use crate::testing::{Fresh, NOW, new_app_password};

const READ: Rights = Rights::of(&[Right::MailRead]);
const READ_AND_WRITE: Rights = Rights::of(&[Right::MailRead, Right::MailWrite]);
const MANAGE_AND_READ: Rights = Rights::of(&[Right::MembersManage, Right::MailRead]);

/// Every session has the name of its account.
fn asks<'a>(account: &'a str, mailbox: &'a str) -> TeamCaller<'a> {
    TeamCaller {
        session: SessionCaller {
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
        .teams
        .invite(asks(by, "ada"), &invitation, &origin(by))
        .await
}

async fn remove(fresh: &Fresh, by: &str, member: &str) -> Result<Option<String>, Refusal> {
    let directory = &fresh.directory;
    directory
        .teams
        .remove_member(asks(by, "ada"), member, &origin(by))
        .await
}

async fn team(fresh: &Fresh) -> Team {
    fresh.directory.teams.find("ada").await.unwrap().unwrap()
}

/// Returns the events of `ada`'s team, oldest first: kind, subject, detail and actor.
async fn recorded(fresh: &Fresh) -> Vec<String> {
    let wanted = EventFilter {
        address: "ada@example.org".into(),
        since: Timestamp::from_millis(0),
        until: Timestamp::from_millis(i64::MAX),
        limit: 100,
    };
    let events = fresh.directory.events.list(&wanted).await.unwrap();
    let told = events.into_iter().rev().skip(2).map(|event| {
        let word = |word: Option<String>| word.unwrap_or_default();
        let (subject, detail) = (word(event.subject), word(event.detail));
        format!("{}|{subject}|{detail}|{}", event.kind, event.actor)
    });
    told.collect()
}
