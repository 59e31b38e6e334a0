//! JMAP: the optional module as its clients see it. `docs/jmap.md` lists what the service supports.

mod events;
mod follower;
mod hostile;
mod install;
mod mail;
mod scopes;
mod submissions;

use latchmail_tests::{Person, Response, Service, Setup, TEST_TIMEOUT, modules};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const USING: [&str; 5] = [
    "urn:ietf:params:jmap:core",
    "urn:ietf:params:jmap:mail",
    "urn:ietf:params:jmap:submission",
    "urn:ietf:params:jmap:vacationresponse",
    "urn:ietf:params:jmap:quota",
];

/// Returns the setting with the component.
fn source() -> String {
    let file = modules().join("latchmail_jmap.wasm");
    format!("modules.jmap.source = '{}'", file.display())
}

/// Returns a service with the module. The URLs of the session are those of the service.
fn setup() -> Setup {
    Setup::default()
        .with_mail()
        .with("base_url = ''")
        .with(&source())
}

async fn service() -> Service {
    setup().start().await
}

/// A client of JMAP with a credential of a person.
struct Jmap<'a> {
    service: &'a Service,
    credential: String,
    account: String,
}

impl<'a> Jmap<'a> {
    /// Connects with the session of a person, and waits until the search index is complete.
    async fn connect(person: &Person<'a>) -> Self {
        let client = Self::with_credential(person.service, &person.access).await;
        let deadline = Instant::now() + TEST_TIMEOUT;
        while client.try_call("Email/query", json!({})).await.0 == "error" {
            assert!(Instant::now() < deadline, "the index is not built");
            sleep(std::time::Duration::from_millis(20)).await;
        }
        client
    }

    async fn with_credential(service: &'a Service, credential: &str) -> Self {
        let session = service.with_bearer("GET /.well-known/jmap", credential);
        let session = session.await.succeeds(200);
        let accounts = session["accounts"].as_object().unwrap();
        Self {
            service,
            credential: credential.to_owned(),
            account: accounts.keys().next().unwrap().clone(),
        }
    }

    async fn session(&self) -> Value {
        let line = "GET /jmap/session";
        let session = self.service.with_bearer(line, &self.credential).await;
        session.succeeds(200)
    }

    /// Posts a request to the API.
    async fn post(&self, request: &Value) -> Response {
        let http = self.service.request("POST /jmap/api");
        Response::of_json(http.bearer_auth(&self.credential), request).await
    }

    /// Calls methods. Returns their responses.
    async fn calls(&self, calls: Value) -> Vec<Value> {
        let request = json!({ "using": USING, "methodCalls": calls });
        let response = self.post(&request).await.succeeds(200);
        response["methodResponses"].as_array().unwrap().clone()
    }

    /// Calls a method. Returns the name and the arguments of its response.
    async fn try_call(&self, name: &str, mut args: Value) -> (String, Value) {
        args["accountId"] = self.account.as_str().into();
        let mut responses = self.calls(json!([[name, args, "c"]])).await;
        let response = responses.remove(0);
        (text(&response[0]), response[1].clone())
    }

    /// Calls a method that succeeds.
    async fn call(&self, name: &str, args: Value) -> Value {
        let (found, response) = self.try_call(name, args).await;
        assert_eq!(found, name, "{response}");
        response
    }

    /// Calls a method that fails. Returns the type of the error.
    async fn error(&self, name: &str, args: Value) -> String {
        let (found, response) = self.try_call(name, args).await;
        assert_eq!(found, "error", "{name}: {response}");
        text(&response["type"])
    }

    /// Returns the id of the mailbox with a role.
    async fn mailbox(&self, role: &str) -> String {
        let args = json!({ "filter": { "role": role } });
        text(&self.call("Mailbox/query", args).await["ids"][0])
    }

    /// Uploads a file. Returns the id of its blob.
    async fn upload(&self, media: &str, bytes: &[u8]) -> String {
        let line = format!("POST /jmap/upload/{}", self.account);
        let request = self.service.request(&line).bearer_auth(&self.credential);
        let request = request.header("content-type", media).body(bytes.to_vec());
        let stored = Response::of(request).await.succeeds(201);
        assert_eq!(stored["size"], bytes.len());
        text(&stored["blobId"])
    }

    async fn download(&self, blob: &str, name: &str) -> Response {
        let line = format!("GET /jmap/download/{}/{blob}/{name}", self.account);
        self.service.with_bearer(&line, &self.credential).await
    }

    /// Creates an email. Returns its id.
    async fn create(&self, email: &Value) -> String {
        let args = json!({ "create": { "e": email } });
        let response = self.call("Email/set", args).await;
        let id = &response["created"]["e"]["id"];
        assert!(id.is_string(), "{response}");
        text(id)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns an email with a subject.
fn email(mailbox: &str, subject: &str) -> Value {
    json!({
        "mailboxIds": { mailbox: true },
        "from": [{ "name": "Ada", "email": "ada@first.test" }],
        "to": [{ "email": "grace@first.test" }],
        "subject": subject,
        "bodyValues": { "t": { "value": format!("This is {subject}.") } },
        "textBody": [{ "partId": "t", "type": "text/plain" }],
    })
}
