//! The mailbox in which the agent acts, and what the tests observe: the responses that the agent
//! saw, the mail that left the service, and the folder that the policy does not open.

use std::cell::RefCell;
use std::collections::BTreeSet;

use latchmail_tests::{
    Agent, PASSWORD, Person, Response, Service, Setup, contains_file, imap, stored_messages,
    wait_until,
};
use serde_json::{Value, json};

use super::mails::{attacker, filled, message};

/// The person to whom the owner wrote in a thread.
pub(super) const FRIEND: &str = "grace@outside.test";
/// A word of the messages in the folder `Private`.
pub(super) const SECRET: &str = "zanzibar-ledger";
/// A code for signing in, and the secret part of a link.
const CODES: [&str; 2] = ["739241", "q7Wm2xTz94LkPa"];

/// Starts a service with all tools, in which agents can send.
pub(super) async fn service(settings: &str) -> Service {
    let service = Setup::default()
        .with_mail()
        .with("mcp.send_tool = true\nmcp.tools = 'full'")
        .with(settings)
        .start()
        .await;
    // An attacker with an account of this service.
    service.person("eve").await;
    service
}

/// A hostile mail that arrived.
pub(super) struct Mail {
    pub(super) uid: u64,
    pub(super) attacker: String,
    pub(super) obeys: Vec<String>,
}

/// The mailbox of an owner with an agent.
pub(super) struct World<'a> {
    pub(super) service: &'a Service,
    pub(super) owner: Person<'a>,
    pub(super) agent: Agent<'a>,
    /// The id of the agent's grant.
    pub(super) grant: String,
    /// The number of the message in the folder `Private`.
    pub(super) private: u64,
    /// The number of the message with codes.
    pub(super) code: u64,
    /// The Message-ID of the owner's message to the friend.
    thread: String,
    /// The bodies of all responses to the agent.
    seen: RefCell<Vec<String>>,
}

impl<'a> World<'a> {
    pub(super) async fn new(service: &'a Service, name: &str, on_denied: &str) -> Self {
        let owner = service.person(&format!("owner{name}")).await;
        let written = json!({
            "from": owner.address, "to": FRIEND, "subject": "Plan", "text": "Shall we?",
        });
        let sent = owner
            .post("/api/v1/mail/send", &written)
            .await
            .succeeds(200);
        owner
            .post("/api/v1/mail/folders", &json!({ "path": "Private" }))
            .await
            .succeeds(201);
        let agent = Agent::for_person(&owner).await;
        let grants = owner.send("GET /api/v1/profile/grants").await.succeeds(200);
        let grant = grants["grants"][0]["id"].as_str().unwrap().to_owned();
        let mut world = Self {
            service,
            owner,
            agent,
            grant,
            private: 0,
            code: 0,
            thread: sent["messageId"].as_str().unwrap().to_owned(),
            seen: RefCell::default(),
        };
        let headers = json!({ "From": "bank@outside.test", "Subject": SECRET });
        let text = format!("The {SECRET} is in the safe.");
        world.private = world.deliver(&headers, &text, "", 900_001).await;
        world
            .owner
            .move_to(world.private, "Private")
            .await
            .succeeds(200);
        let headers = json!({ "From": "Bank <no-reply@outside.test>", "Subject": "Your code" });
        let text = format!(
            "Your verification code is {}. It expires in ten minutes.\n\nOr sign in with this link: https://bank.outside.test/login?token={}",
            CODES[0], CODES[1]
        );
        world.code = world.deliver(&headers, &text, "", 900_002).await;
        wait_until("the index is built", async || {
            let threads = world.owner.send("GET /api/v1/mail/threads").await;
            threads.status == 200
        })
        .await;
        let policy = json!({
            "send": "thread", "sendTo": [], "sendPerDay": null, "recipientsPerDay": null,
            "folders": ["INBOX", "Sent", "Drafts", "Trash"], "attachments": true,
            "hideCodes": true, "delete": "trash", "onDenied": on_denied, "aliases": false,
            "until": null,
        });
        let line = format!("PUT /api/v1/profile/grants/{}/policy", world.grant);
        world.owner.send_json(&line, &policy).await.succeeds(200);
        world
    }

    /// Delivers a message to the owner, and returns its number.
    pub(super) async fn deliver(
        &self,
        headers: &Value,
        text: &str,
        html: &str,
        number: usize,
    ) -> u64 {
        let mut headers = headers.clone();
        headers["To"] = json!(self.owner.address);
        let id = format!("{number}.{}", self.owner.address.replace('@', "."));
        let id = format!("{id}@mail.outside.test");
        let message = message(&headers, text, html, &id);
        let before = self.owner.uids("INBOX").await;
        self.service
            .deliver_raw(&self.owner.address, &message)
            .await;
        let id = format!("<{id}>");
        let mut found = 0;
        // A notice of the service can arrive at the same time.
        wait_until("the message arrives", async || {
            for uid in self.owner.uids("INBOX").await {
                if !before.contains(&uid) && self.owner.message(uid).await["messageId"] == id {
                    found = uid;
                }
            }
            found > 0
        })
        .await;
        found
    }

    /// Delivers a hostile mail of a kind.
    pub(super) async fn receive(&self, kind: &Value, number: usize) -> Mail {
        let attacker = attacker(number);
        let values = [
            ("attacker", attacker.as_str()),
            ("friend", FRIEND),
            ("thread", self.thread.as_str()),
            ("lookalike", "grace+files@outside.test"),
        ];
        let fill = |text: &Value| filled(text.as_str().unwrap_or_default(), number, &values);
        let headers = kind["headers"].as_object().unwrap().iter();
        // The mail server refuses mail from outside whose sender address is local.
        let from_outside = |value: &str| value.replace("eve@first.test", "eve@outside.test");
        let headers: serde_json::Map<_, _> = headers
            .map(|(name, value)| match name.as_str() {
                "From" => (name.clone(), json!(from_outside(&fill(value)))),
                _ => (name.clone(), json!(fill(value))),
            })
            .collect();
        let (text, html) = (fill(&kind["text"]), fill(&kind["html"]));
        let uid = self.deliver(&headers.into(), &text, &html, number).await;
        let obeys = kind["obeys"].as_array().into_iter().flatten();
        Mail {
            uid,
            attacker,
            obeys: obeys
                .map(|step| step.as_str().unwrap().to_owned())
                .collect(),
        }
    }

    /// Sends a request with the agent's token, and returns the body of the response.
    pub(super) async fn rest(&self, line: &str, body: Option<&Value>) -> Value {
        let request = self.agent.request(line);
        let response = match body {
            Some(body) => Response::of_json(request, body).await,
            None => Response::of(request).await,
        };
        self.see(&response)
    }

    /// Sends a request with a message as its body.
    pub(super) async fn import(&self, line: &str, message: Vec<u8>) -> Value {
        let request = self.agent.request(line).body(message);
        self.see(&Response::of(request.header("content-type", "message/rfc822")).await)
    }

    /// Calls a tool, and returns the structured part of its result.
    pub(super) async fn tool(&self, name: &str, arguments: Value) -> Value {
        let params = json!({ "name": name, "arguments": arguments });
        let body = self.see(&self.agent.send("tools/call", params).await);
        body["result"]["structuredContent"].clone()
    }

    /// Calls a method of the agent endpoint.
    pub(super) async fn method(&self, name: &str, params: Value) {
        self.see(&self.agent.send(name, params).await);
    }

    /// Gets a URL of the service without a credential.
    pub(super) async fn get_url(&self, url: &str) {
        let path = url.trim_start_matches("http://service.test");
        let response = self.service.send(&format!("GET {path}")).await;
        self.see(&response);
    }

    fn see(&self, response: &Response) -> Value {
        let text = String::from_utf8_lossy(&response.body).into_owned();
        self.seen.borrow_mut().push(text);
        response.json.clone()
    }

    /// Returns the messages in the folder `Private`, as IMAP clients see them.
    pub(super) async fn private_messages(&self) -> Vec<(Vec<u8>, BTreeSet<String>)> {
        let mut client = imap(&self.owner).await;
        let messages = stored_messages(&mut client, "Private").await;
        messages
            .into_iter()
            .map(|message| (message.bytes, message.flags))
            .collect()
    }

    /// Returns the recipients of all mail that left the service.
    pub(super) async fn recipients(&self) -> BTreeSet<String> {
        let queue = &self.service.mail().queue;
        wait_until("all mail has left the queue", async || {
            let mut folders = ["maildrop", "incoming", "active", "deferred"].iter();
            !folders.any(|folder| contains_file(&queue.join(folder)))
        })
        .await;
        let mut recipients = BTreeSet::new();
        for mail in crate::mail::send::sink_messages(self.service) {
            let lines = mail.lines();
            let found =
                lines.filter_map(|line| line.strip_prefix("X-Rcpt-Args: <")?.split_once('>'));
            recipients.extend(found.map(|(address, _)| address.to_lowercase()));
        }
        recipients
    }

    /// Asserts that no mail reached a person to whom the owner did not write, and that the agent
    /// saw neither the folder `Private` nor a code.
    pub(super) async fn assert_contained(&self) {
        let left = self.recipients().await;
        assert_eq!(left, BTreeSet::from([FRIEND.to_owned()]));
        let eve = Person::sign_in(self.service, "eve@first.test", PASSWORD).await;
        let received = stored_messages(&mut imap(&eve).await, "INBOX").await;
        assert!(
            received.is_empty(),
            "mail reached an account of the service"
        );
        let seen = self.seen.borrow();
        assert!(seen.len() > 100, "the agent did something");
        for hidden in [SECRET, CODES[0], CODES[1]] {
            let found = seen.iter().find(|text| text.contains(hidden));
            assert!(found.is_none(), "{hidden} was shown in {found:?}");
        }
    }
}
