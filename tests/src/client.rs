//! An OAuth client, and the browser in which a user signs in for it.

use serde_json::{Value, json};

use crate::{PASSWORD, Person, Response, Service};

/// The code verifier of every sign-in (RFC 7636, appendix B).
pub const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// The code challenge of [`VERIFIER`].
pub const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// The redirect URI.
pub const REDIRECT_URI: &str = "http://127.0.0.1:33418/callback";

/// A client that registered itself, and a browser.
#[derive(Debug)]
pub struct Client<'a> {
    /// The service.
    pub service: &'a Service,
    /// The client's id.
    pub client_id: String,
    /// A browser that follows no redirects.
    pub browser: reqwest::Client,
}

/// A page with a form.
#[derive(Clone, Debug)]
pub struct Page {
    /// The response.
    pub response: Response,
    /// The body as text.
    pub text: String,
    /// The hidden field of its form.
    pub request: String,
    /// The cookie of the response.
    pub cookie: String,
}

/// The tokens of a successful exchange.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// The access token.
    pub access: String,
    /// The refresh token.
    pub refresh: String,
}

impl Page {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = Response::of(request).await;
        let text = String::from_utf8(response.body.clone()).unwrap();
        let cookie = response.header("set-cookie").unwrap_or_default();
        Self {
            request: between(&text, "name=\"request\" value=\"", "\""),
            cookie: cookie.split(';').next().unwrap_or_default().to_owned(),
            text,
            response,
        }
    }

    /// Returns the query parameters of the redirect.
    pub fn redirect_parameters(&self) -> Vec<(String, String)> {
        let location = self.response.header("location").unwrap_or_default();
        let (_, query) = location.split_once('?').unwrap_or_default();
        form_decoded(query)
    }

    /// Returns one query parameter of the redirect.
    pub fn redirect_parameter(&self, name: &str) -> Option<String> {
        let mut all = self.redirect_parameters().into_iter();
        all.find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl Tokens {
    fn of(response: &Value) -> Self {
        let text = |name: &str| response[name].as_str().unwrap().to_owned();
        Self {
            access: text("access_token"),
            refresh: text("refresh_token"),
        }
    }
}

impl<'a> Client<'a> {
    /// Registers a client.
    pub async fn register(service: &'a Service) -> Self {
        Self::register_as(service, "Test agent", &[REDIRECT_URI]).await
    }

    /// Registers a client with this name and these redirect URIs.
    pub async fn register_as(service: &'a Service, name: &str, returns: &[&str]) -> Self {
        let grants = [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
        ];
        let body = json!({
            "client_name": name, "redirect_uris": returns, "grant_types": grants,
        });
        let registered = service.post("/auth/register", &body).await.succeeds(201);
        Self::with_id(service, registered["client_id"].as_str().unwrap())
    }

    /// Returns a client with an existing id.
    pub fn with_id(service: &'a Service, client_id: &str) -> Self {
        let redirect = reqwest::redirect::Policy::none();
        let browser = reqwest::Client::builder().no_proxy().redirect(redirect);
        Self {
            service,
            client_id: client_id.to_owned(),
            browser: browser.build().unwrap(),
        }
    }

    /// Returns the default parameters of an authorization request.
    pub fn default_parameters(&self) -> Vec<(String, String)> {
        [
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", REDIRECT_URI),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("state", "a state & more"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// Returns the default parameters with these changes. An empty value removes a parameter.
    fn parameters_with(&self, changes: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut parameters = self.default_parameters();
        parameters.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        let kept = changes.iter().filter(|(_, value)| !value.is_empty());
        parameters.extend(kept.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        parameters
    }

    /// Returns the sign-in page for these changes.
    pub async fn login_page(&self, changes: &[(&str, &str)]) -> Page {
        self.load_page("/login", &self.parameters_with(changes))
            .await
    }

    /// Returns the URL of the sign-in page for these changes.
    pub fn login_url(&self, changes: &[(&str, &str)]) -> String {
        format!(
            "{}/login?{}",
            self.service.base,
            form_encoded(&self.parameters_with(changes))
        )
    }

    /// Loads a page.
    pub async fn load_page(&self, path: &str, query: &[(String, String)]) -> Page {
        let url = format!("http://{}{path}?{}", self.address(), form_encoded(query));
        Page::of(self.browser.get(url)).await
    }

    /// Submits a page's form, and returns the next page.
    pub async fn submit(&self, path: &str, page: &Page, fields: &[(&str, &str)]) -> Page {
        let mut form = vec![("request".to_owned(), page.request.clone())];
        form.extend(
            fields
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
        );
        let request = self
            .browser
            .post(format!("http://{}{path}", self.address()))
            .header("cookie", &page.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form_encoded(&form));
        let mut next = Page::of(request).await;
        if next.cookie.is_empty() {
            next.cookie.clone_from(&page.cookie);
        }
        next
    }

    /// Signs in on a page.
    pub async fn sign_in(&self, page: &Page, address: &str, password: &str) -> Page {
        let fields = [("email", address), ("password", password)];
        self.submit("/login", page, &fields).await
    }

    /// Signs in, and returns the code.
    pub async fn code(&self, person: &Person<'_>) -> String {
        let page = self.login_page(&[]).await;
        assert_eq!(page.response.status, 200, "{}", page.text);
        let back = self.sign_in(&page, &person.address, PASSWORD).await;
        assert_eq!(back.response.status, 303, "{}", back.text);
        back.redirect_parameter("code").unwrap()
    }

    /// Sends a form to the token endpoint, and returns the response.
    pub async fn token(&self, fields: &[(&str, &str)]) -> Response {
        let form: Vec<_> = fields
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let request = self
            .browser
            .post(format!("http://{}/auth/token", self.address()))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form_encoded(&form));
        Response::of(request).await
    }

    /// Exchanges a code with the default redirect URI.
    pub async fn exchange(&self, code: &str) -> Response {
        self.exchange_for(code, REDIRECT_URI).await
    }

    /// Exchanges a code with another redirect URI.
    pub async fn exchange_for(&self, code: &str, back: &str) -> Response {
        self.token(&[
            ("grant_type", "authorization_code"),
            ("client_id", &self.client_id),
            ("code", code),
            ("redirect_uri", back),
            ("code_verifier", VERIFIER),
        ])
        .await
    }

    /// Starts a device grant. `more` is added to the form after the client's id.
    pub async fn start_device_grant(&self, more: &str) -> Response {
        let request = self
            .browser
            .post(format!("{}/auth/device", self.service.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("client_id={}{more}", self.client_id));
        Response::of(request).await
    }

    /// Starts a device grant that succeeds.
    pub async fn device_grant(&self) -> Value {
        self.start_device_grant("").await.succeeds(200)
    }

    /// Polls a device grant.
    pub async fn poll(&self, device: &Value) -> Response {
        self.token(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("client_id", &self.client_id),
            ("device_code", device["device_code"].as_str().unwrap()),
        ])
        .await
    }

    /// Exchanges a refresh token.
    pub async fn refresh(&self, token: &str) -> Response {
        self.token(&[
            ("grant_type", "refresh_token"),
            ("client_id", &self.client_id),
            ("refresh_token", token),
        ])
        .await
    }

    /// Signs in, and exchanges the code for tokens.
    pub async fn tokens(&self, person: &Person<'_>) -> Tokens {
        let code = self.code(person).await;
        Tokens::of(&self.exchange(&code).await.succeeds(200))
    }

    /// Signs in with these changes to the default parameters, and returns the token response.
    pub async fn tokens_with(&self, person: &Person<'_>, changes: &[(&str, &str)]) -> Value {
        let page = self.login_page(changes).await;
        let back = self.sign_in(&page, &person.address, PASSWORD).await;
        let code = back.redirect_parameter("code");
        let code = code.unwrap_or_else(|| panic!("no code: {}", page.text));
        self.exchange(&code).await.succeeds(200)
    }

    /// Refreshes the tokens.
    pub async fn refreshed_tokens(&self, granted: &Tokens) -> Tokens {
        Tokens::of(&self.refresh(&granted.refresh).await.succeeds(200))
    }

    fn address(&self) -> &str {
        self.service.base.trim_start_matches("http://")
    }
}

impl Person<'_> {
    /// Signs in for a new OAuth client, and returns an access token for this person's mailbox.
    pub async fn oauth_token(&self) -> String {
        let client = Client::register(self.service).await;
        client.tokens(self).await.access
    }
}

/// Returns the text between two texts; empty if they do not occur.
pub fn between(text: &str, before: &str, after: &str) -> String {
    let from = text.split_once(before).map_or("", |(_, rest)| rest);
    from.split_once(after)
        .map_or("", |(found, _)| found)
        .to_owned()
}

fn form_encoded(pairs: &[(String, String)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    query.finish()
}

fn form_decoded(query: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}
