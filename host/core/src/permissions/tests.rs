use super::*;

const READ: Rights = Rights::of(&[Right::MailRead]);
const WRITE: Rights = Rights::of(&[Right::MailWrite]);
const SEND: Rights = Rights::of(&[Right::MailSend]);
const MANAGE: Rights = Rights::of(&[Right::AliasesRead, Right::AliasesWrite]);

fn folder(id: &str) -> Resource {
    Resource::Folder(GrantedFolder {
        id: id.into(),
        uid_validity: 7,
    })
}

fn grants(grants: &[(Resource, Rights)]) -> Grants {
    let granted = |(resource, rights): &(Resource, Rights)| Granted {
        id: String::new(),
        resource: resource.clone(),
        rights: *rights,
    };
    grants.iter().map(granted).collect::<Vec<_>>().into()
}

#[test]
fn rights_are_told_in_canonical_order_and_each_once() {
    let rights = Rights::named(["members:manage", "mail:read", "mail:read"]).unwrap();
    assert_eq!(rights.to_string(), "mail:read members:manage");
    assert_eq!(Rights::named(["mail:read", "profile:read"]), None);
    assert_eq!(Rights::named([]), Some(Rights::NONE));
    assert_eq!(Rights::ALL.iter().collect::<Vec<_>>(), Right::ALL);
}

#[test]
fn what_is_granted_of_the_mailbox_is_granted_of_all_in_it() {
    let member = grants(&[(Resource::Mailbox, READ.and(MANAGE))]);
    assert_eq!(member.over_every_folder(), READ);
    assert_eq!(member.over_alias("a@example.org", false), MANAGE);
    assert_eq!(member.over_new_alias("example.org"), MANAGE);
    assert_eq!(member.over(&folder("f")), READ);
}

#[test]
fn grants_on_one_thing_add_up_and_reach_nothing_else() {
    let member = grants(&[
        (folder("f"), READ),
        (folder("f"), WRITE),
        (folder("g"), READ),
    ]);
    assert_eq!(member.over(&folder("f")), READ.and(WRITE));
    assert_eq!(member.over(&folder("g")), READ);
    assert_eq!(member.over(&folder("h")), Rights::NONE);
    assert_eq!(member.over_some_folder(), READ.and(WRITE));
    assert!(member.over_every_folder().is_none());
    assert!(member.over_some_alias().is_none());
    assert!(!member.apply_to_domain("example.org"));
}

#[test]
fn a_folder_that_was_made_anew_under_the_same_name_is_another() {
    let member = grants(&[(folder("f"), READ)]);
    let recreated = Resource::Folder(GrantedFolder {
        id: "f".into(),
        uid_validity: 8,
    });
    assert!(member.over(&recreated).is_none());
}

#[test]
fn a_set_of_aliases_holds_those_that_it_says() {
    let domain = Resource::AliasSet(AliasSet::Domain("example.org".into()));
    let member = grants(&[
        (domain.clone(), SEND),
        (Resource::AliasSet(AliasSet::Own), MANAGE),
    ]);
    assert_eq!(member.over_alias("a@example.org", false), SEND);
    assert_eq!(member.over_alias("a@sub.example.org", false), Rights::NONE);
    assert_eq!(member.over_alias("a@example.net", true), MANAGE);
    assert_eq!(member.over_new_alias("example.net"), MANAGE);
    assert_eq!(member.over_new_alias("example.org"), MANAGE.and(SEND));
    assert!(member.over_address().is_none());
    assert!(member.apply_to_domain("example.net"));
    assert_eq!(member.over(&domain), SEND);
}

#[test]
fn what_one_guest_made_cannot_be_handed_on_as_what_another_makes() {
    let own = Resource::AliasSet(AliasSet::Own);
    assert!(grants(&[(own.clone(), MANAGE)]).over(&own).is_none());
    let all = grants(&[(Resource::AliasSet(AliasSet::All), MANAGE)]);
    assert_eq!(all.over(&own), MANAGE);
    assert!(all.over(&Resource::Mailbox).is_none());
}

#[test]
fn an_owner_holds_everything() {
    let owner = Grants::owner();
    for resource in [
        Resource::Mailbox,
        folder("f"),
        Resource::Alias("a@example.org".into()),
        Resource::AliasSet(AliasSet::All),
    ] {
        assert_eq!(owner.over(&resource), resource.takes());
    }
}
