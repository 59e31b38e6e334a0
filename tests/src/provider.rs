//! A real identity provider in a process of its own, and the browser of a person who signs in
//! there. `scripts/setup --tests` installs the provider.
//!
//! ```ignore
//! let provider = Provider::start().await;
//! let service = Setup::default().with_mail().with(&provider.settings()).start().await;
//! provider.register(&service).await;
//! let back = PersonBrowser::new().sign_in(&provider.start_url(&service), "ada").await;
//! ```

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Mutex;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use url::Url;

use crate::client::{CHALLENGE, REDIRECT_URI, between};
use crate::{Response, Service, TEST_TIMEOUT, tools_folder};

/// The script that runs the provider.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/provider.mjs");

/// The service's client id at the provider.
pub const CLIENT_ID: &str = "latchmail";
/// The service's secret at the provider.
pub const PROVIDER_SECRET: &str = "s3cret-of-the-service-at-the-provider";

/// The path to which the provider redirects browsers.
pub const CALLBACK: &str = "/auth/oidc/callback";

/// The maximum number of redirects of one sign-in.
const MAX_STEPS: usize = 12;

/// The provider. Its process ends when it is dropped, because its input ends. A signal would end
/// only the program that starts Node.js.
#[derive(Debug)]
pub struct Provider {
    /// The issuer identifier.
    pub issuer: String,
    client: reqwest::Client,
    secret: NamedTempFile,
    /// The rest of the output. The process would end if it could not write its messages.
    _output: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    process: Child,
}

/// A browser that keeps cookies. The service and the provider have the same host, so they share the
/// cookies.
#[derive(Debug)]
pub struct PersonBrowser {
    client: reqwest::Client,
    cookies: Mutex<BTreeMap<String, String>>,
}

impl Provider {
    /// Starts a provider without persons.
    pub async fn start() -> Self {
        Self::start_at(0).await
    }

    /// Starts a provider on this port.
    pub async fn start_at(port: u16) -> Self {
        let tools = tools_folder();
        let mut process = Command::new(tools.join("guests/bin/node"))
            .arg(SCRIPT)
            .args([tools.join("oidc").as_os_str(), port.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let started = timeout(TEST_TIMEOUT, async {
            loop {
                let line = output.next_line().await.unwrap();
                let line = line.expect("scripts/setup --tests installs the provider");
                if let Ok(started) = serde_json::from_str::<Value>(&line) {
                    return started["issuer"].as_str().unwrap().to_owned();
                }
            }
        });
        let issuer = started.await.unwrap();
        let mut secret = NamedTempFile::new().unwrap();
        writeln!(secret, "{PROVIDER_SECRET}").unwrap();
        Self {
            issuer,
            client: reqwest::Client::builder()
                .no_proxy()
                // Node closes idle connections after 5 s.
                .pool_max_idle_per_host(0)
                .build()
                .unwrap(),
            secret,
            _output: output,
            input: process.stdin.take().unwrap(),
            process,
        }
    }

    /// Ends the provider.
    pub async fn stop(mut self) {
        drop(self.input);
        self.process.wait().await.unwrap();
    }

    /// Returns the settings of a service whose users sign in at this provider. The URL of the
    /// service is its address.
    pub fn settings(&self) -> String {
        settings(&self.issuer, &self.secret.path().display().to_string())
    }

    /// Registers the service as a client. The URL of the service changes when it is restarted.
    pub async fn register(&self, service: &Service) {
        self.register_with(service, &[]).await;
    }

    /// Registers a service whose pages have these further URLs.
    pub async fn register_with(&self, service: &Service, further: &[&str]) {
        let bases = std::iter::once(service.base.as_str()).chain(further.iter().copied());
        let redirect_uris: Vec<String> = bases.map(|base| format!("{base}{CALLBACK}")).collect();
        let metadata = json!({
            "client_id": CLIENT_ID, "client_secret": PROVIDER_SECRET,
            "redirect_uris": redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "backchannel_logout_uri": format!("{}/auth/oidc/backchannel-logout", service.base),
            "backchannel_logout_session_required": true,
        });
        self.control(json!({ "command": "client", "metadata": metadata }))
            .await;
    }

    /// Adds a person with these claims, or changes the claims of a person.
    pub async fn set_person(&self, sub: &str, claims: Value) {
        self.control(json!({ "command": "person", "sub": sub, "claims": claims }))
            .await;
    }

    /// Adds a person with a verified address.
    pub async fn add_person(&self, sub: &str, email: &str) {
        self.set_person(sub, json!({ "email": email, "email_verified": true }))
            .await;
    }

    /// Re-signs the ID tokens for the service with this fault. Null removes the fault.
    pub async fn set_fault(&self, fault: Value) {
        self.control(json!({ "command": "fault", "client": CLIENT_ID, "fault": fault }))
            .await;
    }

    /// Replaces the provider's key.
    pub async fn rotate_keys(&self) {
        self.control(json!({ "command": "rotate" })).await;
    }

    /// Ends the grants of a person, so that the provider refuses their refresh tokens.
    pub async fn end_grants(&self, sub: &str) {
        self.control(json!({ "command": "endGrants", "sub": sub }))
            .await;
    }

    /// Returns a token with these claims that the provider signed, with this fault.
    pub async fn signed(&self, claims: &Value, fault: Value) -> String {
        let command = json!({ "command": "token", "claims": claims, "fault": fault });
        let signed = self.control(command).await;
        signed["result"].as_str().unwrap().to_owned()
    }

    async fn control(&self, command: Value) -> Value {
        let request = self.client.post(format!("{}/control", self.issuer));
        let response = Response::of_json(request, &command).await;
        assert_eq!(response.status, 200, "{command}: {:?}", response.body);
        response.json
    }
}

/// Returns the settings of a service whose users sign in at the provider with this issuer.
pub fn settings(issuer: &str, secret_file: &str) -> String {
    format!(
        "base_url = ''\n\
         sign_in.source = 'oidc'\n\
         sign_in.oidc.issuer = '{issuer}'\n\
         sign_in.oidc.client_id = '{CLIENT_ID}'\n\
         sign_in.oidc.client_secret_file = '{secret_file}'"
    )
}

/// Returns the URL at which a client starts a sign-in, with the redirect URI and the code challenge
/// of [`crate::Client`].
pub fn start_url(service: &Service) -> String {
    start_url_with(service, &[])
}

/// Returns the URL with these changes to the parameters. An empty value removes a parameter.
pub fn start_url_with(service: &Service, changes: &[(&str, &str)]) -> String {
    let defaults = [
        ("redirect_uri", REDIRECT_URI),
        ("state", "a state & more"),
        ("code_challenge", CHALLENGE),
    ];
    let kept = defaults
        .into_iter()
        .filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
    let parameters = kept.chain(
        changes
            .iter()
            .copied()
            .filter(|(_, value)| !value.is_empty()),
    );
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    format!("{}/auth/oidc/start?{}", service.base, query.finish())
}

/// Returns a query parameter of a URL.
pub fn parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).unwrap();
    let mut pairs = url.query_pairs();
    let found = pairs.find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

impl Default for PersonBrowser {
    fn default() -> Self {
        Self::new()
    }
}

impl PersonBrowser {
    /// Returns a browser without cookies.
    pub fn new() -> Self {
        let redirect = reqwest::redirect::Policy::none();
        let client = reqwest::Client::builder().no_proxy().redirect(redirect);
        Self {
            client: client.build().unwrap(),
            cookies: Mutex::default(),
        }
    }

    /// Loads a URL. Follows no redirect.
    pub async fn get(&self, url: &str) -> Response {
        self.send(self.client.get(url)).await
    }

    /// Submits a form. Follows no redirect.
    pub async fn submit(&self, url: &str, fields: &[(&str, &str)]) -> Response {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let request = self
            .client
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form.finish());
        self.send(request).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Response {
        let cookies: Vec<String> = {
            let cookies = self.cookies.lock().unwrap();
            let pairs = cookies.iter();
            pairs
                .map(|(name, value)| format!("{name}={value}"))
                .collect()
        };
        let response = Response::of(request.header("cookie", cookies.join("; "))).await;
        let mut cookies = self.cookies.lock().unwrap();
        for cookie in response.headers.get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if value.is_empty() {
                cookies.remove(name);
            } else {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }

    /// Deletes all cookies.
    pub fn clear_cookies(&self) {
        self.cookies.lock().unwrap().clear();
    }

    /// Starts a sign-in and signs in at the provider. Returns the URL of the callback, which is not
    /// loaded yet.
    pub async fn to_callback(&self, start: &str, person: &str) -> String {
        let response = self.start(start).await;
        self.from_redirect(response, person).await
    }

    /// Starts a sign-in, and presses the button of the page for applications on the user's device.
    /// Returns the redirect to the provider.
    pub async fn start(&self, start: &str) -> Response {
        let response = self.get(start).await;
        if response.status != 200 {
            return response;
        }
        let page = String::from_utf8(response.body).unwrap();
        let request = between(&page, "name=\"request\" value=\"", "\"");
        let action = start.split('?').next().unwrap();
        self.submit(action, &[("request", &request)]).await
    }

    /// Continues after a redirect to the provider. Returns the URL of the callback, which is not
    /// loaded yet.
    pub async fn from_redirect(&self, mut response: Response, person: &str) -> String {
        let mut at = String::new();
        for _ in 0..MAX_STEPS {
            response = if let Some(location) = response.header("location") {
                at = match Url::parse(&at) {
                    Ok(base) => base.join(location).unwrap().into(),
                    Err(_) => location.to_owned(),
                };
                if at.contains(CALLBACK) {
                    return at;
                }
                self.get(&at).await
            } else {
                let text = String::from_utf8_lossy(&response.body).into_owned();
                assert!(at.contains("/interaction/"), "{}: {text}", response.status);
                let field = if person.is_empty() { "cancel" } else { "login" };
                self.submit(&at, &[(field, person)]).await
            };
        }
        panic!("too many redirects: {at}")
    }

    /// Signs in and returns the response of the callback.
    pub async fn sign_in(&self, start: &str, person: &str) -> Response {
        let callback = self.to_callback(start, person).await;
        self.get(&callback).await
    }

    /// Signs in and returns the code for the client.
    pub async fn code(&self, service: &Service, person: &str) -> String {
        let response = self.sign_in(&start_url(service), person).await;
        let text = String::from_utf8_lossy(&response.body);
        assert_eq!(response.status, 303, "{text}");
        let location = response.header("location").unwrap();
        assert!(location.starts_with(REDIRECT_URI), "{location}");
        assert_eq!(
            parameter(location, "state").as_deref(),
            Some("a state & more")
        );
        parameter(location, "code").unwrap()
    }

    /// Signs out at the provider, which calls the service.
    pub async fn sign_out(&self, provider: &Provider) {
        let page = self.get(&format!("{}/session/end", provider.issuer)).await;
        let text = String::from_utf8(page.body).unwrap();
        let xsrf = between(&text, "name=\"xsrf\" value=\"", "\"");
        let confirm = format!("{}/session/end/confirm", provider.issuer);
        let fields = [("xsrf", xsrf.as_str()), ("logout", "yes")];
        let confirmed = self.submit(&confirm, &fields).await;
        assert_eq!(confirmed.status, 303, "{text}");
    }
}

/// Returns an address on which nothing listens, for a provider that starts later.
pub fn unused_address() -> SocketAddr {
    crate::process::free_address()
}
