//! Every kind of resource with each of its rights, on every route of mail and aliases, as owner,
//! member, former member and stranger.

use std::collections::BTreeSet;

use latchmail_tests::{Person, Service};
use serde_json::{Value, json};

use super::rules::{Grant, Target, rights_on, status_for_all, status_for_one};
use super::shared_mailbox::{FOLDERS, SharedMailbox, from};

const NO_MAILBOX: &str = "Mailbox not found";

/// A caller and its grants; none if the mailbox is not shared with it.
struct Case<'c, 'w> {
    shared: &'c SharedMailbox<'w>,
    who: &'c Person<'w>,
    grants: Option<&'c [Grant]>,
    ids: &'c [String; 2],
    aliases: &'c Aliases,
    round: usize,
}

/// The mailbox's aliases, with their ids.
struct Aliases {
    /// Ada's own, on the first and the second domain.
    first: (String, u64),
    second: (String, u64),
    /// Created by Bob.
    made: (String, u64),
}

impl Case<'_, '_> {
    /// Sends a request and compares the status with the rules.
    async fn check_request(&self, line: &str, body: Option<&Value>, expected: u16) -> Value {
        let response = match body {
            Some(body) => self.shared.send_json(self.who, line, body).await,
            None => self.shared.send(self.who, line).await,
        };
        let expected = if self.grants.is_some() { expected } else { 404 };
        assert_eq!(
            response.status, expected,
            "{line} {body:?} by {} with {:?}: {}",
            self.who.address, self.grants, response.json
        );
        if self.grants.is_none() {
            response.fails(404, NO_MAILBOX);
        }
        if response.status < 400 {
            response.json
        } else {
            Value::Null
        }
    }

    fn grants(&self) -> &[Grant] {
        self.grants.unwrap_or_default()
    }

    fn status_in_folder(&self, folder: usize, need: &str) -> u16 {
        let target = Target::Folder(&self.ids[folder]);
        status_for_one(self.grants(), target, need, 200)
    }

    async fn folders(&self) {
        let expected = status_for_all(self.grants(), Target::Folders, "mail:read", 200);
        let listed = self
            .check_request("GET /api/v1/mail/folders", None, expected)
            .await;
        if listed.is_null() {
            return;
        }
        let listed = listed["folders"].as_array().unwrap();
        for (at, folder) in FOLDERS.iter().enumerate() {
            let present = listed.iter().any(|one| one["path"] == *folder);
            assert_eq!(
                present,
                self.status_in_folder(at, "mail:read") == 200,
                "{folder}"
            );
        }
        let of_any_other = rights_on(self.grants(), Target::Folder("another"));
        let inbox = listed.iter().any(|one| one["path"] == "INBOX");
        assert_eq!(inbox, of_any_other.contains("mail:read"));
    }

    /// Sends the requests for messages of a folder: `[read, flag, move, delete]` by their numbers.
    async fn messages(&self, at: usize, numbers: [u64; 6]) {
        let folder = FOLDERS[at];
        let [seen, flagged, moved, moved_too, deleted, deleted_too] = numbers;
        let read = self.status_in_folder(at, "mail:read");
        let write = self.status_in_folder(at, "mail:write");
        for line in [
            format!("GET /api/v1/mail/folders/{folder}/messages"),
            format!("GET /api/v1/mail/search?q=This&folder={folder}"),
            format!("GET /api/v1/mail/messages/{seen}"),
            format!("GET /api/v1/mail/messages/{seen}?folder={folder}"),
            format!("GET /api/v1/mail/messages/{seen}/attachments/0"),
            format!("GET /api/v1/mail/messages/{seen}/raw"),
            format!("GET /api/v1/mail/messages/{seen}?headers=all"),
        ] {
            self.check_request(&line, None, read).await;
        }
        // Messages that cannot be read are missing, like messages that do not exist.
        let line = format!("GET /api/v1/mail/messages?uids={seen},{flagged}&view=detail");
        let found = self.check_request(&line, None, 200).await;
        if !found.is_null() {
            let key = if read == 200 { "messages" } else { "missing" };
            assert_eq!(found[key].as_array().unwrap().len(), 2, "{found}");
        }
        let flag = json!({ "flags": ["\\Flagged"], "action": "add" });
        let line = format!("POST /api/v1/mail/messages/{flagged}/flag");
        self.check_request(&line, Some(&flag), write).await;
        // Messages that cannot be seen are skipped, like messages that do not exist.
        let passed = if write == 404 { 200 } else { write };
        let mut flags = flag.clone();
        flags["uids"] = json!([flagged]);
        let line = "POST /api/v1/mail/messages/bulk/flag";
        self.check_request(line, Some(&flags), passed).await;

        let to = 1 - at;
        let into = self.status_in_folder(to, "mail:write");
        let either = |here: u16| if into == 200 { here } else { into };
        let destination = json!({ "destination": FOLDERS[to] });
        let line = format!("POST /api/v1/mail/messages/{moved}/move");
        let permitted = if self.move_reveals_nothing(at) {
            200
        } else {
            403
        };
        let alone = if write == 200 { permitted } else { write };
        self.check_request(&line, Some(&destination), either(alone))
            .await;
        let many = json!({ "destination": FOLDERS[to], "uids": [moved_too] });
        let line = "POST /api/v1/mail/messages/bulk/move";
        let together = if write == 200 { permitted } else { passed };
        self.check_request(line, Some(&many), either(together))
            .await;

        let line = format!("DELETE /api/v1/mail/messages/{deleted}");
        self.check_request(&line, None, write).await;
        let many = json!({ "uids": [deleted_too] });
        let line = "POST /api/v1/mail/messages/bulk/delete";
        self.check_request(line, Some(&many), passed).await;
    }

    /// Returns whether a move does not let the member read a message that it could not read before.
    fn move_reveals_nothing(&self, at: usize) -> bool {
        self.status_in_folder(at, "mail:read") == 200
            || self.status_in_folder(1 - at, "mail:read") != 200
    }

    /// Returns the expected locations of the messages afterwards: for each folder, whether it
    /// contains each message.
    fn expected(&self, at: usize) -> ([bool; 6], [bool; 6]) {
        let write = self.grants.is_some() && self.status_in_folder(at, "mail:write") == 200;
        let moved = write
            && self.status_in_folder(1 - at, "mail:write") == 200
            && self.move_reveals_nothing(at);
        let here = [true, true, !moved, !moved, !write, !write];
        let present = [false, false, moved, moved, false, false];
        (here, present)
    }

    async fn aliases(&self) {
        let grants = self.grants();
        let Aliases {
            first,
            second,
            made,
        } = self.aliases;
        let all = [(first, false), (second, false), (made, true)];
        let reads = status_for_all(grants, Target::Aliases, "aliases:read", 200);
        let listed = self.check_request("GET /api/v1/aliases", None, reads).await;
        if let Some(listed) = listed["aliases"].as_array() {
            let shown: BTreeSet<&str> = listed
                .iter()
                .map(|alias| alias["address"].as_str().unwrap())
                .collect();
            for ((address, _), by_guest) in all {
                let held = rights_on(grants, Target::Alias(address, by_guest));
                let expected = held.contains("aliases:read");
                assert_eq!(shown.contains(address.as_str()), expected, "{address}");
            }
        }
        let domains = self
            .check_request("GET /api/v1/aliases/domains", None, reads)
            .await;
        if let Some(domains) = domains["domains"].as_array() {
            for domain in ["first.test", "second.test"] {
                let shown = domains.iter().any(|one| one["domain"] == domain);
                let mut target = vec![Target::NewAlias(domain)];
                target.extend(all.iter().filter_map(|((address, _), by_guest)| {
                    let on = address.ends_with(&format!("@{domain}"));
                    on.then_some(Target::Alias(address, *by_guest))
                }));
                let expected = target
                    .into_iter()
                    .any(|target| !rights_on(grants, target).is_empty());
                assert_eq!(shown, expected, "{domain}");
            }
        }
        let line = "GET /api/v1/aliases/check?name=free&domain=first.test";
        self.check_request(line, None, reads).await;

        for ((address, id), by_guest) in all {
            let target = Target::Alias(address, by_guest);
            let write = status_for_one(grants, target, "aliases:write", 200);
            let line = format!("PATCH /api/v1/aliases/{id}");
            self.check_request(&line, Some(&json!({ "active": false })), write)
                .await;
            let listed = self.shared.ada.send("GET /api/v1/aliases").await;
            let listed = listed.succeeds(200);
            let mut listed = listed["aliases"].as_array().unwrap().iter();
            let alias = listed.find(|alias| alias["id"] == *id).unwrap();
            let switched = self.grants.is_some() && write == 200;
            assert_eq!(alias["active"], !switched, "{address} with {grants:?}");
            let on = json!({ "active": true });
            self.shared.ada.send_json(&line, &on).await.succeeds(200);
            let send = status_for_all(grants, target, "mail:send", 200);
            let line = "POST /api/v1/mail/send";
            self.check_request(line, Some(&from(address)), send).await;
        }
        let send = status_for_all(grants, Target::Address, "mail:send", 200);
        let line = "POST /api/v1/mail/send";
        self.check_request(line, Some(&from(&self.shared.ada.address)), send)
            .await;

        for domain in ["first.test", "second.test"] {
            let create = match status_for_all(grants, Target::Aliases, "aliases:write", 201) {
                201 if rights_on(grants, Target::NewAlias(domain)).contains("aliases:write") => 201,
                // The response for a domain of another account.
                201 => 400,
                other => other,
            };
            let name = format!("round-{}-{}", self.round, self.who.address.len());
            let body = json!({ "name": name, "domain": domain });
            let made = self
                .check_request("POST /api/v1/aliases", Some(&body), create)
                .await;
            if let Some(id) = made["id"].as_u64() {
                // This caller created it, so it is one of its own.
                let address = format!("{name}@{domain}");
                let own = self.who.address != self.shared.ada.address;
                let delete =
                    status_for_one(grants, Target::Alias(&address, own), "aliases:write", 200);
                let line = format!("DELETE /api/v1/aliases/{id}");
                self.check_request(&line, None, delete).await;
            }
        }
    }
}

/// Tests all requests of a caller with its grants.
async fn everything(
    shared: &mut SharedMailbox<'_>,
    who: &Person<'_>,
    grants: Option<&[Grant]>,
    ids: &[String; 2],
    aliases: &Aliases,
    round: usize,
) {
    let names = ["read", "flag", "move", "moves", "delete", "deletes"];
    let mut numbers = [[0; 6]; 2];
    for (at, folder) in FOLDERS.iter().enumerate() {
        for (place, name) in names.iter().enumerate() {
            let subject = format!("{name}-{at}-{round}");
            numbers[at][place] = shared.append(folder, &subject).await;
        }
    }
    let case = Case {
        shared,
        who,
        grants,
        ids,
        aliases,
        round,
    };
    case.folders().await;
    for (at, numbers) in numbers.iter().enumerate() {
        case.messages(at, *numbers).await;
    }
    case.aliases().await;
    let mut present = Vec::new();
    for (at, folder) in FOLDERS.iter().enumerate() {
        let listed = shared.ada.messages(folder).await;
        let flagged = listed.iter().find(|one| one["uid"] == numbers[at][1]);
        let flags = flagged.unwrap()["flags"].as_array().unwrap();
        let written = grants.is_some() && case.status_in_folder(at, "mail:write") == 200;
        let flagged = flags.contains(&json!("\\Flagged"));
        assert_eq!(flagged, written, "{folder} with {grants:?}");
        let numbers = listed
            .iter()
            .map(|message| message["uid"].as_u64().unwrap());
        present.push(numbers.collect::<BTreeSet<u64>>());
    }
    for (at, numbers) in numbers.iter().enumerate() {
        let (here, other_session) = case.expected(at);
        for (place, number) in numbers.iter().enumerate() {
            let output = format!("{} of {} with {grants:?}", names[place], FOLDERS[at]);
            assert_eq!(present[at].contains(number), here[place], "{output}");
            assert_eq!(
                present[1 - at].contains(number),
                other_session[place],
                "{output}"
            );
        }
    }
}

/// Returns grants for each kind of resource with each right that it allows, and some combinations.
fn cases(ids: &[String; 2], aliases: &Aliases) -> Vec<Vec<Grant>> {
    let mut cases = Vec::new();
    let all = [
        "mail:read",
        "mail:write",
        "mail:send",
        "aliases:read",
        "aliases:write",
        "members:manage",
    ];
    let mut each = |kind, id: &str, rights: &[&'static str]| {
        for right in rights {
            cases.push(vec![Grant::on(kind, id, &[right])]);
        }
    };
    each("mailbox", "", &all);
    each("folder", &ids[0], &all[..2]);
    each("alias", &aliases.first.0, &all[2..5]);
    for set in ["all", "own", "domain:second.test"] {
        each("alias_set", set, &all[2..5]);
    }
    cases.push(vec![Grant::on("mailbox", "", &all)]);
    cases.push(vec![Grant::on("folder", &ids[0], &all[..2])]);
    cases.push(vec![
        Grant::on("folder", &ids[0], &["mail:read"]),
        Grant::on("folder", &ids[0], &["mail:write"]),
        Grant::on("folder", &ids[1], &["mail:write"]),
    ]);
    cases.push(vec![
        Grant::on("mailbox", "", &["mail:read", "aliases:read"]),
        Grant::on("folder", &ids[1], &["mail:write"]),
        Grant::on("alias_set", "own", &["aliases:write", "mail:send"]),
    ]);
    cases
}

async fn alias(shared: &SharedMailbox<'_>, who: &Person<'_>, address: &str) -> (String, u64) {
    let (name, domain) = address.rsplit_once('@').unwrap();
    let body = json!({ "name": name, "domain": domain });
    let made = shared.send_json(who, "POST /api/v1/aliases", &body).await;
    let made = made.succeeds(201);
    (address.into(), made["id"].as_u64().unwrap())
}

#[tokio::test]
async fn the_rights_of_a_member_follow_from_its_grants() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let (ada, bob) = (shared.ada.clone(), shared.bob.clone());
    let ids = [shared.folder("Alpha").await, shared.folder("Beta").await];
    let first = alias(&shared, &ada, "shop@first.test").await;
    let second = alias(&shared, &ada, "shop@second.test").await;
    let making = Grant::on("alias_set", "own", &["aliases:write"]);
    let invited = shared.invite("bob", &making).await.succeeds(201);
    let aliases = Aliases {
        made: alias(&shared, &bob, "made@first.test").await,
        first,
        second,
    };
    shared.revoke(invited["grantId"].as_str().unwrap()).await;

    let stranger = service.person("carol").await;
    everything(&mut shared, &stranger, None, &ids, &aliases, 0).await;
    // A member without a grant has the rights of a stranger.
    everything(&mut shared, &bob, None, &ids, &aliases, 1).await;
    let owner = [Grant::on(
        "mailbox",
        "",
        &[
            "mail:read",
            "mail:write",
            "mail:send",
            "aliases:read",
            "aliases:write",
        ],
    )];
    everything(&mut shared, &ada, Some(&owner), &ids, &aliases, 2).await;
    let mut round = 3;
    for grants in cases(&ids, &aliases) {
        let mut granted = Vec::new();
        for grant in &grants {
            granted.push(shared.grant(grant).await);
        }
        everything(&mut shared, &bob, Some(&grants), &ids, &aliases, round).await;
        for grant in granted {
            shared.revoke(&grant).await;
        }
        round += 1;
    }
    let member = shared.member(&bob).await;
    let line = format!("DELETE /api/v1/teams/{}/members/{member}", shared.mailbox);
    ada.send(&line).await.succeeds(200);
    everything(&mut shared, &bob, None, &ids, &aliases, round).await;
}

#[tokio::test]
async fn tokens_never_give_access_to_a_shared_mailbox() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    let everything = Grant::on("mailbox", "", &["mail:read", "mail:write", "aliases:read"]);
    shared.invite("bob", &everything).await.succeeds(201);
    let only = "This endpoint is only available to a signed-in session, not to API or OAuth tokens";
    for person in [&shared.bob, &shared.ada] {
        let token = person.token(&["mail:read", "aliases:read"]).await;
        let token = token["token"].as_str().unwrap();
        for path in ["mail/folders", "aliases", "mail/messages/1"] {
            let line = format!("GET /api/v1/{path}?mailbox={}", shared.mailbox);
            service.with_bearer(&line, token).await.fails(403, only);
        }
    }
    // Other routes do not have this parameter.
    let profile = shared
        .send(&shared.bob, "GET /api/v1/profile")
        .await
        .succeeds(200);
    assert_eq!(profile["email"], "bob@first.test");
    let twice = format!(
        "GET /api/v1/mail/folders?mailbox={0}&mailbox={0}",
        shared.mailbox
    );
    shared
        .bob
        .send(&twice)
        .await
        .fails(400, "mailbox must not be repeated");
}
