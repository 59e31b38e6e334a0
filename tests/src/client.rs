//! An OAuth client and the browser of the user who signs in for it, step by step.

use serde_json::{Value, json};

use crate::{Answer, PASSWORD, Person, Service};

/// The code verifier of every sign-in, and its challenge (RFC 7636, appendix B).
pub const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// The challenge.
pub const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// The redirect URI.
pub const RETURN: &str = "http://127.0.0.1:33418/callback";

/// A client that registered itself, and a browser.
#[derive(Debug)]
pub struct Client<'a> {
    /// The service.
    pub service: &'a Service,
    /// Its id.
    pub client_id: String,
    /// A browser that follows no redirects.
    pub browser: reqwest::Client,
}

/// A page with a form.
#[derive(Clone, Debug)]
pub struct Page {
    /// The response.
    pub answer: Answer,
    /// The body as text.
    pub text: String,
    /// The hidden field of its form.
    pub request: String,
    /// The cookie of the response.
    pub cookie: String,
}

/// The tokens of a successful exchange.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The access token.
    pub access: String,
    /// The refresh token.
    pub refresh: String,
}

impl Page {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let answer = Answer::of(request).await;
        let text = String::from_utf8(answer.body.clone()).unwrap();
        let cookie = answer.header("set-cookie").unwrap_or_default();
        Self {
            request: between(&text, "name=\"request\" value=\"", "\""),
            cookie: cookie.split(';').next().unwrap_or_default().to_owned(),
            text,
            answer,
        }
    }

    /// The query parameters of the redirect.
    pub fn sent_back(&self) -> Vec<(String, String)> {
        let location = self.answer.header("location").unwrap_or_default();
        let (_, query) = location.split_once('?').unwrap_or_default();
        form_urlencoded(query)
    }

    /// One query parameter of the redirect.
    pub fn sent(&self, name: &str) -> Option<String> {
        let mut all = self.sent_back().into_iter();
        all.find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl Granted {
    fn of(answer: &Value) -> Self {
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        Self {
            access: text("access_token"),
            refresh: text("refresh_token"),
        }
    }
}

impl<'a> Client<'a> {
    /// Registers a client.
    pub async fn register(service: &'a Service) -> Self {
        Self::called(service, "Test agent", &[RETURN]).await
    }

    /// Registers a client with this name and these redirect URIs.
    pub async fn called(service: &'a Service, name: &str, returns: &[&str]) -> Self {
        let grants = [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
        ];
        let body = json!({
            "client_name": name, "redirect_uris": returns, "grant_types": grants,
        });
        let registered = service.post("/auth/register", &body).await.succeeds(201);
        Self::known(service, registered["client_id"].as_str().unwrap())
    }

    /// A client with an existing id.
    pub fn known(service: &'a Service, client_id: &str) -> Self {
        let redirect = reqwest::redirect::Policy::none();
        let browser = reqwest::Client::builder().no_proxy().redirect(redirect);
        Self {
            service,
            client_id: client_id.to_owned(),
            browser: browser.build().unwrap(),
        }
    }

    /// The default parameters of an authorization request.
    pub fn usual(&self) -> Vec<(String, String)> {
        [
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", RETURN),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("state", "a state & more"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// The default parameters with these changes. An empty value removes a parameter.
    fn wish(&self, changes: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut wish = self.usual();
        wish.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        let kept = changes.iter().filter(|(_, value)| !value.is_empty());
        wish.extend(kept.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        wish
    }

    /// The sign-in page for these changes.
    pub async fn page_with(&self, changes: &[(&str, &str)]) -> Page {
        self.page("/login", &self.wish(changes)).await
    }

    /// The URL of that page.
    pub fn asking(&self, changes: &[(&str, &str)]) -> String {
        format!(
            "{}/login?{}",
            self.service.base,
            encoded(&self.wish(changes))
        )
    }

    /// Loads a page.
    pub async fn page(&self, path: &str, query: &[(String, String)]) -> Page {
        let url = format!("http://{}{path}?{}", self.address(), encoded(query));
        Page::of(self.browser.get(url)).await
    }

    /// Submits a page's form, and returns the next page.
    pub async fn fill(&self, path: &str, page: &Page, fields: &[(&str, &str)]) -> Page {
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
            .body(encoded(&form));
        let mut next = Page::of(request).await;
        if next.cookie.is_empty() {
            next.cookie.clone_from(&page.cookie);
        }
        next
    }

    /// Signs in on a page.
    pub async fn sign_in(&self, page: &Page, address: &str, password: &str) -> Page {
        let fields = [("email", address), ("password", password)];
        self.fill("/login", page, &fields).await
    }

    /// Signs in, and returns the code.
    pub async fn code(&self, person: &Person<'_>) -> String {
        let page = self.page_with(&[]).await;
        assert_eq!(page.answer.status, 200, "{}", page.text);
        let back = self.sign_in(&page, &person.address, PASSWORD).await;
        assert_eq!(back.answer.status, 303, "{}", back.text);
        back.sent("code").unwrap()
    }

    /// The token endpoint's response.
    pub async fn token(&self, fields: &[(&str, &str)]) -> Answer {
        let form: Vec<_> = fields
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let request = self
            .browser
            .post(format!("http://{}/auth/token", self.address()))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(encoded(&form));
        Answer::of(request).await
    }

    /// Exchanges a code with the default redirect URI.
    pub async fn exchange(&self, code: &str) -> Answer {
        self.exchange_for(code, RETURN).await
    }

    /// Exchanges a code with another redirect URI.
    pub async fn exchange_for(&self, code: &str, back: &str) -> Answer {
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
    pub async fn begin(&self, more: &str) -> Answer {
        let request = self
            .browser
            .post(format!("{}/auth/device", self.service.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("client_id={}{more}", self.client_id));
        Answer::of(request).await
    }

    /// Starts a device grant that succeeds.
    pub async fn device(&self) -> Value {
        self.begin("").await.succeeds(200)
    }

    /// Polls a device grant.
    pub async fn poll(&self, device: &Value) -> Answer {
        self.token(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("client_id", &self.client_id),
            ("device_code", device["device_code"].as_str().unwrap()),
        ])
        .await
    }

    /// Exchanges a refresh token.
    pub async fn refresh(&self, token: &str) -> Answer {
        self.token(&[
            ("grant_type", "refresh_token"),
            ("client_id", &self.client_id),
            ("refresh_token", token),
        ])
        .await
    }

    /// Signs in, and exchanges the code for tokens.
    pub async fn granted(&self, person: &Person<'_>) -> Granted {
        let code = self.code(person).await;
        Granted::of(&self.exchange(&code).await.succeeds(200))
    }

    /// The token response after a sign-in with these parameters instead of the usual ones.
    pub async fn tokens_with(&self, person: &Person<'_>, changes: &[(&str, &str)]) -> Value {
        let page = self.page_with(changes).await;
        let back = self.sign_in(&page, &person.address, PASSWORD).await;
        let code = back.sent("code");
        let code = code.unwrap_or_else(|| panic!("no code: {}", page.text));
        self.exchange(&code).await.succeeds(200)
    }

    /// Refreshes the tokens.
    pub async fn refreshed(&self, granted: &Granted) -> Granted {
        Granted::of(&self.refresh(&granted.refresh).await.succeeds(200))
    }

    fn address(&self) -> &str {
        self.service.base.trim_start_matches("http://")
    }
}

impl Person<'_> {
    /// An OAuth access token for this person's mailbox.
    pub async fn oauth_token(&self) -> String {
        let client = Client::register(self.service).await;
        client.granted(self).await.access
    }
}

/// The text between two texts; empty if they do not occur.
pub fn between(text: &str, before: &str, after: &str) -> String {
    let from = text.split_once(before).map_or("", |(_, rest)| rest);
    from.split_once(after)
        .map_or("", |(found, _)| found)
        .to_owned()
}

fn encoded(pairs: &[(String, String)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    query.finish()
}

fn form_urlencoded(query: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}
