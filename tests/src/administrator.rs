//! An administrator and a browser without scripts on the operator's page.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::header::{COOKIE, SET_COOKIE};
use serde_json::json;
use totp_rs::{Builder, Secret};

use crate::{PASSWORD, Person, Response, Service};

/// An administrator with a second factor.
#[derive(Debug)]
pub struct Administrator<'a> {
    service: &'a Service,
    /// The account's address.
    pub address: String,
    secret: String,
}

/// A browser without scripts. It keeps the cookie of the operator's page and follows no redirects.
#[derive(Debug)]
pub struct FormBrowser {
    client: reqwest::Client,
    /// The URL of the operator's page, without a path.
    pub base: String,
    cookie: Mutex<String>,
}

/// A form of a page.
#[derive(Clone, Debug)]
pub struct PageForm {
    /// The path to which the form is sent.
    pub action: String,
    /// The text of the form's button.
    pub button: String,
    /// The fields with their values.
    pub fields: BTreeMap<String, String>,
}

impl<'a> Administrator<'a> {
    /// Makes an account an administrator, and enables its second factor.
    pub async fn create(service: &'a Service, address: &str) -> Self {
        service.create_account(address).await;
        let verb = format!("account admin {address} on");
        service.operator(&verb, "").await.succeeds();
        let verb = format!("account two-factor {address} on");
        let shown = service.operator(&verb, "").await.succeeds();
        let secret = shown.lines().find_map(|line| line.strip_prefix("secret  "));
        Self {
            service,
            address: address.to_owned(),
            secret: secret.unwrap().to_owned(),
        }
    }

    /// Returns a code that was not used before.
    pub fn code(&self) -> String {
        self.service.clock.advance(Duration::from_mins(1));
        let secret = Secret::try_from_base32(&self.secret).unwrap();
        let totp = Builder::new().with_secret(secret).build().unwrap();
        let now = self.service.clock.now().seconds();
        totp.generate(now.try_into().unwrap()).to_string()
    }

    /// Starts a web session for the API, with the second factor.
    pub async fn sign_in_to_api(&self) -> Person<'a> {
        // The operator's command used the real time, which can be ahead of the service's clock. The
        // session must begin after the account had its second factor.
        self.service.clock.advance(Duration::from_mins(10));
        let code = self.code();
        let body = json!({ "email": self.address, "password": PASSWORD, "code": code });
        let response = self.service.post("/api/v1/auth/login", &body).await;
        Person::from_token_pair(self.service, &response.succeeds(200))
    }

    /// Returns a browser in which the administrator is signed in.
    pub async fn sign_in(&self) -> FormBrowser {
        let browser = FormBrowser::open(&self.service.operator_page());
        let code = self.code();
        let response = browser.sign_in(&self.address, PASSWORD, &code).await;
        assert_eq!(response.status, 303, "{}", text(&response));
        assert_eq!(response.header("location"), Some("/admin/modules"));
        browser
    }
}

impl FormBrowser {
    /// Opens a browser on the operator's page at this URL.
    pub fn open(base: &str) -> Self {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        Self {
            client: client.build().unwrap(),
            base: base.to_owned(),
            cookie: Mutex::default(),
        }
    }

    /// Returns the cookie, in the form `name=value`. It is empty without a cookie.
    pub fn cookie(&self) -> String {
        self.cookie.lock().unwrap().clone()
    }

    /// Replaces the cookie.
    pub fn set_cookie(&self, cookie: &str) {
        cookie.clone_into(&mut self.cookie.lock().unwrap());
    }

    /// Returns a request with the cookie.
    pub fn request(&self, line: &str) -> reqwest::RequestBuilder {
        let (method, path) = line.split_once(' ').unwrap();
        let url = format!("{}{path}", self.base);
        let request = self.client.request(method.parse().unwrap(), url);
        match self.cookie() {
            cookie if cookie.is_empty() => request,
            cookie => request.header(COOKIE, cookie),
        }
    }

    /// Sends a request, and stores the cookie of the response.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Response {
        let response = Response::of(request).await;
        if let Some(cookie) = response.headers.get(SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            self.set_cookie(cookie.split(';').next().unwrap());
        }
        response
    }

    /// Returns the response to `GET`.
    pub async fn get(&self, path: &str) -> Response {
        self.send(self.request(&format!("GET {path}"))).await
    }

    /// Returns the text of a page, which must exist.
    pub async fn page(&self, path: &str) -> String {
        let response = self.get(path).await;
        let page = text(&response);
        assert_eq!(response.status, 200, "{page}");
        page
    }

    /// Sends a form as a browser does.
    pub async fn submit(&self, form: &PageForm) -> Response {
        let request = self.form_request(form).header("Origin", &self.base);
        self.send(request.header("Sec-Fetch-Site", "same-origin"))
            .await
    }

    /// Returns the request of a form, without the headers about its origin.
    pub fn form_request(&self, form: &PageForm) -> reqwest::RequestBuilder {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&form.fields)
            .finish();
        self.request(&format!("POST {}", form.action))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(body)
    }

    /// Fills in the sign-in page and sends it.
    pub async fn sign_in(&self, address: &str, password: &str, code: &str) -> Response {
        let page = self.page("/admin/sign-in").await;
        let mut form = PageForm::named(&page, "Sign in");
        for (name, value) in [("email", address), ("password", password), ("code", code)] {
            form.fields.insert(name.into(), value.into());
        }
        self.submit(&form).await
    }
}

impl PageForm {
    /// Returns all forms of a page.
    pub fn all(page: &str) -> Vec<Self> {
        let forms = page.split("<form").skip(1);
        forms
            .map(|form| {
                let form = form.split("</form>").next().unwrap();
                let inputs = form.split("<input").skip(1).map(|input| {
                    let input = input.split('>').next().unwrap();
                    let value = attribute(input, "value").unwrap_or_default();
                    (attribute(input, "name").unwrap(), value)
                });
                let button = form.split("<button").nth(1).unwrap_or_default();
                let button = button.split_once('>').map_or("", |(_, text)| text);
                Self {
                    action: attribute(form, "action").unwrap(),
                    button: button.split('<').next().unwrap().to_owned(),
                    fields: inputs.collect(),
                }
            })
            .collect()
    }

    /// Returns the only form whose button has this name.
    pub fn named(page: &str, button: &str) -> Self {
        Self::of_action(page, button, "")
    }

    /// Returns the only form whose button has this name and whose action contains `action`.
    pub fn of_action(page: &str, button: &str, action: &str) -> Self {
        let mut forms = Self::all(page);
        forms.retain(|form| form.button == button && form.action.contains(action));
        assert_eq!(forms.len(), 1, "{button} {action}: {page}");
        forms.remove(0)
    }
}

/// Returns the value of an attribute in the text of a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    let value = value.split('"').next().unwrap();
    Some(value.replace("&quot;", "\"").replace("&amp;", "&"))
}

/// Returns the body of a page.
pub fn text(response: &Response) -> String {
    String::from_utf8(response.body.clone()).unwrap()
}
