//! Operator tokens, the admin API and SCIM.

mod access;
mod long;
mod resources;
mod scim;
mod scim_suite;
mod tokens;

use latchmail_tests::{Response, Service, Setup};
use reqwest::RequestBuilder;
use serde_json::Value;

/// All scopes of operator tokens.
const ALL: &str = "accounts:read,accounts:write,domains:read,domains:write,aliases:read,aliases:write,modules:read,modules:write,grants:read,grants:write,scim";

/// The setting that starts the listener of the admin API.
const LISTEN: &str = "admin.listen = '127.0.0.1:0'";

/// Starts a service with the admin API and with mail servers. Sign-ins need them.
async fn service_with_mail() -> Service {
    Service::with_mail_and(LISTEN).await
}

/// Starts a service with the admin API and without mail servers.
async fn service() -> Service {
    Setup::default().with(LISTEN).start().await
}

/// A program of the operator with an operator token.
struct Program {
    client: reqwest::Client,
    base: String,
    token: String,
}

impl Program {
    /// Creates a token with the name `name` and these scopes.
    async fn new(service: &Service, name: &str, scopes: &str) -> Self {
        let verb = format!("operator-token create {name} --scopes {scopes} --json");
        let created = service.operator(&verb, "").await.succeeds();
        let created: Value = serde_json::from_str(&created).unwrap();
        Self {
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            base: service.operator_page(),
            token: created["token"].as_str().unwrap().to_owned(),
        }
    }

    /// Returns a request: `program.request("GET /admin/api/v1/accounts")`.
    fn request(&self, line: &str) -> RequestBuilder {
        let (method, path) = line.split_once(' ').unwrap();
        let url = format!("{}{path}", self.base);
        let request = self.client.request(method.parse().unwrap(), url);
        request.bearer_auth(&self.token)
    }

    async fn send(&self, line: &str) -> Response {
        Response::of(self.request(line)).await
    }

    async fn send_json(&self, line: &str, body: &Value) -> Response {
        Response::of_json(self.request(line), body).await
    }

    /// Returns the JSON of the response to a request, which must succeed.
    async fn get(&self, path: &str) -> Value {
        self.send(&format!("GET {path}")).await.succeeds(200)
    }
}

/// Returns the text of a JSON string.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}
