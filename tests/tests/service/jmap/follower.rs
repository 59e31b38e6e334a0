//! A client that applies only `/changes` has the mailbox, whoever changes it.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;
use latchmail_tests::{
    Content, Imap, Person, Random, append_message, close_folder, imap, percent_encoded,
    store_flags, stored_messages,
};
use serde_json::{Value, json};

use super::{Jmap, email, service, text};

/// An email of the copy: its mailbox and its keywords.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Email {
    mailbox: String,
    keywords: BTreeSet<String>,
}

/// The copy of a mailbox.
#[derive(Debug, Default)]
struct MailCopy {
    /// The states of mailboxes and emails.
    states: [String; 2],
    /// The properties of mailboxes, by id.
    mailboxes: BTreeMap<String, Value>,
    emails: BTreeMap<String, Email>,
}

impl MailCopy {
    /// Reads the states, and then everything.
    async fn of(client: &Jmap<'_>) -> Self {
        let mut copy = Self::default();
        let none = json!({ "ids": [] });
        for (state, name) in copy.states.iter_mut().zip(["Mailbox/get", "Email/get"]) {
            *state = text(&client.call(name, none.clone()).await["state"]);
        }
        let mailboxes = client.call("Mailbox/get", json!({})).await;
        copy.add_mailboxes(&mailboxes);
        let mut position = 0;
        loop {
            let page = json!({ "position": position, "limit": 100 });
            let ids = client.call("Email/query", page).await["ids"].take();
            if ids == json!([]) {
                return copy;
            }
            copy.get_emails(client, &ids).await;
            position += 100;
        }
    }

    fn add_mailboxes(&mut self, response: &Value) {
        for mailbox in response["list"].as_array().unwrap() {
            self.mailboxes.insert(text(&mailbox["id"]), mailbox.clone());
        }
    }

    async fn get_emails(&mut self, client: &Jmap<'_>, ids: &Value) {
        let args = json!({ "ids": ids, "properties": ["mailboxIds", "keywords"] });
        let response = client.call("Email/get", args).await;
        for one in response["list"].as_array().unwrap() {
            let names = |object: &Value| object.as_object().unwrap().keys().cloned().collect();
            let mailboxes: Vec<String> = names(&one["mailboxIds"]);
            let keywords: Vec<String> = names(&one["keywords"]);
            let email = Email {
                mailbox: mailboxes[0].clone(),
                keywords: keywords.into_iter().collect(),
            };
            self.emails.insert(text(&one["id"]), email);
        }
    }

    /// Applies all changes, in pages of random sizes.
    async fn update(&mut self, client: &Jmap<'_>, random: &mut Random) {
        for (index, kind) in ["Mailbox", "Email"].into_iter().enumerate() {
            loop {
                let max = 2 + random.below(20);
                let args = json!({ "sinceState": self.states[index], "maxChanges": max });
                let changes = client.call(&format!("{kind}/changes"), args).await;
                let list = |name: &str| changes[name].as_array().unwrap().clone();
                let destroyed = list("destroyed");
                let changed: Value = [list("created"), list("updated")].concat().into();
                let count = destroyed.len() + changed.as_array().unwrap().len();
                assert!(count <= max, "{changes}");
                let destroyed = destroyed.iter().filter_map(Value::as_str);
                if kind == "Mailbox" {
                    destroyed.for_each(|id| drop(self.mailboxes.remove(id)));
                    let args = json!({ "ids": changed });
                    let response = client.call("Mailbox/get", args).await;
                    self.add_mailboxes(&response);
                } else {
                    destroyed.for_each(|id| drop(self.emails.remove(id)));
                    self.get_emails(client, &changed).await;
                }
                self.states[index] = text(&changes["newState"]);
                if changes["hasMoreChanges"] == false {
                    break;
                }
            }
        }
    }

    /// Asserts that the copy is the mailbox as JMAP and the REST API show it.
    async fn assert_complete(&self, client: &Jmap<'_>, person: &Person<'_>) {
        let fresh = Self::of(client).await;
        assert_eq!(self.mailboxes, fresh.mailboxes);
        assert_eq!(self.emails, fresh.emails);
        let content = person.content().await;
        let mut shown = Content::new();
        for id in self.mailboxes.keys() {
            shown.insert(self.path(id), BTreeMap::new());
        }
        for (id, email) in &self.emails {
            let flags = email.keywords.iter().map(|keyword| flag(keyword));
            let messages = shown.get_mut(&self.path(&email.mailbox)).unwrap();
            messages.insert(id.parse().unwrap(), flags.collect());
        }
        assert_eq!(shown, without_hidden(content));
    }

    fn path(&self, id: &str) -> String {
        let mailbox = &self.mailboxes[id];
        let name = text(&mailbox["name"]);
        match mailbox["parentId"].as_str() {
            Some(parent) => format!("{}/{name}", self.path(parent)),
            None if name == "Inbox" => "INBOX".into(),
            None => name,
        }
    }
}

fn flag(keyword: &str) -> String {
    match keyword {
        "$seen" => "\\Seen".into(),
        "$flagged" => "\\Flagged".into(),
        "$answered" => "\\Answered".into(),
        "$draft" => "\\Draft".into(),
        other => other.into(),
    }
}

/// Removes the flags that JMAP does not show.
fn without_hidden(mut content: Content) -> Content {
    for flags in content.values_mut().flat_map(BTreeMap::values_mut) {
        flags.remove("\\Deleted");
    }
    content
}

/// A mailbox under random changes by three clients.
struct Changes<'a> {
    person: Person<'a>,
    client: Jmap<'a>,
    imap: Imap,
    random: Random,
    count: usize,
}

impl Changes<'_> {
    /// Returns the ids of emails or mailboxes that are known now.
    async fn ids(&self, name: &str) -> Vec<String> {
        let args = json!({ "limit": 200 });
        let found = self.client.call(name, args).await;
        found["ids"].as_array().unwrap().iter().map(text).collect()
    }

    async fn paths(&self) -> Vec<String> {
        let listed = self.person.send("GET /api/v1/mail/folders").await;
        let listed = listed.succeeds(200);
        let folders = listed["folders"].as_array().unwrap().iter();
        folders.map(|folder| text(&folder["path"])).collect()
    }

    /// Makes a change that can also be refused, for example because a name is in use.
    async fn change(&mut self) {
        self.count += 1;
        match self.random.below(3) {
            0 => self.by_jmap().await,
            1 => self.by_rest().await,
            _ => self.by_imap().await,
        }
    }

    async fn by_jmap(&mut self) {
        let emails = self.ids("Email/query").await;
        let mailboxes = self.ids("Mailbox/query").await;
        let mailbox = self.random.pick(&mailboxes).clone();
        let (method, args) = match self.random.below(8) {
            0..2 => {
                let new = email(&mailbox, &format!("jmap {}", self.count));
                ("Email/set", json!({ "create": { "e": new } }))
            }
            2 if !emails.is_empty() => {
                let id = self.random.pick(&emails);
                ("Email/set", json!({ "destroy": [id] }))
            }
            3..5 if !emails.is_empty() => {
                let id = self.random.pick(&emails).clone();
                let (keyword, on) = (*self.random.pick(&["$seen", "work"]), self.random.one_in(2));
                let value = if on { json!(true) } else { Value::Null };
                let patch = json!({
                    format!("keywords/{keyword}"): value,
                    "mailboxIds": { mailbox: true },
                });
                ("Email/set", json!({ "update": { id: patch } }))
            }
            5 => {
                let name = format!("j{}", self.random.below(20));
                let parent = self.random.one_in(2).then_some(mailbox);
                let new = json!({ "name": name, "parentId": parent });
                ("Mailbox/set", json!({ "create": { "m": new } }))
            }
            6 => {
                let name = format!("j{}", self.random.below(20));
                (
                    "Mailbox/set",
                    json!({ "update": { mailbox: { "name": name } } }),
                )
            }
            _ => {
                let args = json!({ "destroy": [mailbox], "onDestroyRemoveEmails": true });
                ("Mailbox/set", args)
            }
        };
        self.client.call(method, args).await;
    }

    async fn by_rest(&mut self) {
        let emails = self.ids("Email/query").await;
        let paths = self.paths().await;
        let path = self.random.pick(&paths).clone();
        let Some(uid) = (!emails.is_empty()).then(|| self.random.pick(&emails).clone()) else {
            return;
        };
        match self.random.below(4) {
            0 => drop(self.person.move_to(uid.parse().unwrap(), &path).await),
            1 => drop(self.person.delete(uid.parse().unwrap()).await),
            2 => {
                let body = json!({ "flags": ["\\Flagged"], "action": "add" });
                let path = format!("/api/v1/mail/messages/{uid}/flag");
                self.person.post(&path, &body).await;
            }
            _ => {
                let line = format!("PATCH /api/v1/mail/folders/{}", percent_encoded(&path));
                let to = json!({ "path": format!("r{}", self.random.below(20)) });
                self.person.send_json(&line, &to).await;
            }
        }
    }

    async fn by_imap(&mut self) {
        let paths = self.paths().await;
        let path = self.random.pick(&paths).clone();
        let stored = stored_messages(&mut self.imap, &path).await;
        let uid = (!stored.is_empty()).then(|| self.random.pick(&stored).imap_uid);
        match (self.random.below(4), uid) {
            (0, Some(uid)) => store_flags(&mut self.imap, &path, uid, "+FLAGS (work)").await,
            (1, Some(uid)) => {
                store_flags(&mut self.imap, &path, uid, "+FLAGS (\\Deleted)").await;
                let expunged = self.imap.expunge().await.unwrap();
                expunged.try_collect::<Vec<_>>().await.unwrap();
            }
            (2, Some(uid)) => {
                let to = self.random.pick(&paths);
                self.imap.uid_mv(uid.to_string(), to).await.unwrap();
            }
            _ => {
                let subject = format!("imap {}", self.count);
                append_message(&mut self.imap, &path, &subject).await;
            }
        }
        close_folder(&mut self.imap).await;
    }
}

async fn follow(seed: u64, rounds: usize, changes_of_round: usize) {
    let service = service().await;
    let person = service.person("ada").await;
    let client = Jmap::connect(&person).await;
    let imap = imap(&person).await;
    let mut copy = MailCopy::of(&client).await;
    let mut changes = Changes {
        person,
        client,
        imap,
        random: Random::new(seed),
        count: 0,
    };
    for round in 0..rounds {
        if round % 20 == 19 {
            // An access token expires after 15 minutes.
            changes.person = changes.person.refreshed().await;
            changes.client.credential.clone_from(&changes.person.access);
        }
        for _ in 0..changes_of_round {
            changes.change().await;
        }
        let mut random = changes.random.clone();
        copy.update(&changes.client, &mut random).await;
        let (client, person) = (&changes.client, &changes.person);
        copy.assert_complete(client, person).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_applies_changes_has_the_mailbox() {
    follow(5, 6, 20).await;
}

mod long {
    use std::time::Duration;

    use latchmail_tests::PASSWORD;
    use latchmail_tests::process::kill;
    use tokio::time::sleep;

    use super::super::{USING, setup};
    use super::*;

    /// The number of changes between two checkpoints, and of checkpoints.
    const CHANGES: usize = 100;
    const ROUNDS: usize = 100;
    /// The number of rounds between two kills of the service.
    const KILL_EVERY: usize = 10;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn a_client_has_the_mailbox_after_ten_thousand_changes_and_ten_kills() {
        let mut service = setup().start().await;
        let address = service.person("ada").await.address;
        let mut host = service.restart_in_process().await;
        let mut random = Random::new(6);
        let mut copy = None;
        for round in 1..=ROUNDS {
            let person = Person::sign_in(&service, &address, PASSWORD).await;
            let client = Jmap::connect(&person).await;
            let imap = imap(&person).await;
            let mut copied = match copy.take() {
                Some(copied) => copied,
                None => MailCopy::of(&client).await,
            };
            let mut changes = Changes {
                person,
                client,
                imap,
                random: random.clone(),
                count: round * CHANGES,
            };
            for _ in 0..CHANGES {
                changes.change().await;
            }
            copied.update(&changes.client, &mut random).await;
            let (client, person) = (&changes.client, &changes.person);
            copied.assert_complete(client, person).await;
            random = changes.random.clone();
            if round % KILL_EVERY == 0 {
                // The service is killed while it processes a request.
                let mailbox = client.mailbox("inbox").await;
                let args = json!({
                    "accountId": client.account,
                    "create": { "e": email(&mailbox, &format!("killed {round}")) },
                });
                let request = json!({
                    "using": USING,
                    "methodCalls": [["Email/set", args, "c"]],
                });
                let http = service.request("POST /jmap/api");
                let http = http.bearer_auth(&client.credential).json(&request);
                let sending = async { drop(http.send().await) };
                let killing = async {
                    sleep(random.clone().millis(40)).await;
                    kill(host.pid());
                };
                tokio::join!(sending, killing);
                host.start().await;
                sleep(Duration::from_millis(100)).await;
            }
            copy = Some(copied);
        }
    }
}
