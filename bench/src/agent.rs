//! Agents: OAuth clients that call tools of the agent endpoint (docs/agents.md).

use anyhow::Context as _;
use reqwest::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::http;
use crate::measure::Call;
use crate::service::{Account, PASSWORD, Service};

const REDIRECT_URI: &str = "http://127.0.0.1:33418/callback";

/// The code verifier and its challenge (RFC 7636, appendix B).
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// A registered OAuth client, which signs in for all accounts.
pub(crate) struct Agents<'a> {
    runtime: &'a Runtime,
    /// Follows no redirects.
    browser: reqwest::Client,
    base: String,
    client_id: String,
}

impl<'a> Agents<'a> {
    /// Registers the client.
    pub(crate) fn register(service: &Service, runtime: &'a Runtime) -> anyhow::Result<Self> {
        let client = json!({ "client_name": "Benchmark", "redirect_uris": [REDIRECT_URI], "grant_types": ["authorization_code"] });
        let response = http::Client::connect(service.address(), "")?
            .post("/auth/register", &client.to_string())?;
        let registered: Value = serde_json::from_slice(&response.body)?;
        let client_id = registered["client_id"].as_str();
        Ok(Self {
            runtime,
            browser: reqwest::Client::builder()
                .no_proxy()
                .redirect(Policy::none())
                .build()?,
            base: format!("http://{}", service.address()),
            client_id: client_id.context("the client was not registered")?.into(),
        })
    }

    /// Returns a call of the tool `list_messages` for the newest 50 messages of the account.
    pub(crate) fn call(
        &self,
        service: &Service,
        account: &Account,
    ) -> anyhow::Result<Call<'static>> {
        let token = self.runtime.block_on(self.sign_in(account))?;
        let mut client = service.http_of(&token)?;
        let request = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "list_messages", "arguments": { "limit": 50 } },
        })
        .to_string();
        Ok(Box::new(move || {
            let response = client.post_ok("/mcp", &request)?;
            let response: Value = serde_json::from_slice(&response)?;
            anyhow::ensure!(
                response["result"]["isError"] == false,
                "the tool failed: {response}"
            );
            Ok(())
        }))
    }

    /// Signs in for an account, and returns an access token.
    async fn sign_in(&self, account: &Account) -> anyhow::Result<String> {
        let query = [
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", REDIRECT_URI),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ];
        let login = format!("{}/login", self.base);
        let page = self
            .browser
            .get(format!("{login}?{}", form(&query)))
            .send()
            .await?;
        let cookie = page.headers().get(SET_COOKIE).context("no cookie")?.clone();
        let cookie = cookie.to_str()?.split(';').next().unwrap_or_default();
        let text = page.text().await?;
        let hidden = text
            .split_once("name=\"request\" value=\"")
            .and_then(|(_, rest)| rest.split('"').next())
            .context("the sign-in page has no form")?;
        let fields = [
            ("request", hidden),
            ("email", &account.address),
            ("password", PASSWORD),
        ];
        let redirect = self.post(&login, &fields).header(COOKIE, cookie);
        let redirect = redirect.send().await?;
        let location = redirect.headers().get(LOCATION);
        let location = Url::parse(location.context("the sign-in failed")?.to_str()?)?;
        let code = location
            .query_pairs()
            .find_map(|(name, value)| (name == "code").then_some(value))
            .context("the sign-in returned no code")?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", &self.client_id),
            ("code", &code),
            ("redirect_uri", REDIRECT_URI),
            ("code_verifier", VERIFIER),
        ];
        let tokens = self.post(&format!("{}/auth/token", self.base), &fields);
        let tokens: Value = tokens.send().await?.json().await?;
        let token = tokens["access_token"].as_str();
        Ok(token.context("the response has no access token")?.into())
    }

    fn post(&self, url: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        self.browser
            .post(url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form(fields))
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(fields).finish()
}
