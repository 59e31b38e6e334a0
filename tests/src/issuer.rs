//! An external authorization server with token introspection (RFC 7662). It is a stub, because the
//! tests need a server that hangs, returns wrong data and counts its requests.
//!
//! ```ignore
//! let issuer = Issuer::start().await;
//! let setup = Setup::default().on_sqlite().with_own_mail();
//! let mut service = setup.with(&issuer.settings()).start().await;
//! issuer.configure_dovecot(&mut service, "oauthbearer xoauth2").await;
//! issuer.add_token("a-token", "ada@first.test");
//! ```

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::{Service, TEST_TIMEOUT};

/// The service's secret at this server. It contains characters that a form must escape.
pub const CLIENT_SECRET: &str = "s3cret+/%=:~";
const CLIENT_SECRET_IN_A_FORM: &str = "s3cret%2B%2F%25%3D%3A%7E";
/// Dovecot's secret at this server.
const DOVECOT_SECRET: &str = "d0vecot";

/// The authorization server. It stops when it is dropped.
#[derive(Debug)]
pub struct Issuer {
    /// The address on which it listens.
    pub address: SocketAddr,
    state: Arc<State>,
    secret: NamedTempFile,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    /// The response for each token. Other tokens are not active.
    tokens: Mutex<HashMap<String, Value>>,
    /// If set, the status and body for the service's requests about any token.
    instead: Mutex<Option<(u16, String)>>,
    /// The tokens that the service asked about.
    introspected: watch::Sender<Vec<String>>,
    open: watch::Sender<bool>,
}

impl Issuer {
    /// Starts a server without tokens.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut secret = NamedTempFile::new().unwrap();
        writeln!(secret, "{CLIENT_SECRET}").unwrap();
        let state = Arc::new(State {
            tokens: Mutex::default(),
            instead: Mutex::default(),
            introspected: watch::Sender::default(),
            open: watch::Sender::new(true),
        });
        Self {
            address: listener.local_addr().unwrap(),
            serving: tokio::spawn(accept(listener, Arc::clone(&state))),
            state,
            secret,
        }
    }

    /// Returns the configuration of a service that uses this server.
    pub fn settings(&self) -> String {
        format!(
            "auth_url = 'http://{at}'\n\
             oauth.introspection.url = 'http://{at}/introspect'\n\
             oauth.introspection.client_id = 'latchmail'\n\
             oauth.introspection.client_secret_file = '{secret}'",
            at = self.address,
            secret = self.secret.path().display(),
        )
    }

    /// Makes a service's Dovecot accept the tokens with these mechanisms.
    pub async fn configure_dovecot(&self, service: &mut Service, mechanisms: &str) {
        let folder = service.state.join("mail/dovecot");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        // As in docs/oauth-external.md.
        let main = read("dovecot.conf");
        let introspection_url = format!(
            "http://dovecot:{DOVECOT_SECRET}@{}/introspect",
            self.address
        );
        let plain = "passdb {\n  driver = sql\n";
        let added = if main.contains(plain) {
            let apart = format!("{plain}  mechanisms = plain login\n");
            write("dovecot.conf", &main.replacen(plain, &apart, 1));
            let tokens = format!(
                "introspection_mode = post\n\
                 introspection_url = {introspection_url}\n\
                 username_attribute = username\n\
                 active_attribute = active\n\
                 active_value = true\n"
            );
            write("oauth2.conf.ext", &tokens);
            format!(
                "passdb {{\n  driver = oauth2\n  mechanisms = oauthbearer xoauth2\n  args = {}\n}}\n",
                folder.join("oauth2.conf.ext").display()
            )
        } else {
            // Dovecot 2.4.
            assert!(main.contains("passdb sql {\n"));
            format!(
                "passdb sql {{\n  mechanisms_filter = plain login\n}}\n\
                 passdb oauth2 {{\n  mechanisms_filter = oauthbearer xoauth2\n}}\n\
                 oauth2 {{\n  introspection_mode = post\n  introspection_url = {introspection_url}\n  \
                 username_attribute = username\n  active_attribute = active\n  active_value = true\n}}\n"
            )
        };
        let local = read("local.conf");
        write(
            "local.conf",
            &format!("{local}\nauth_mechanisms = plain login {mechanisms}\n{added}"),
        );
        service.stack().restart_imap().await.unwrap();
        // Each process of Postfix keeps the mechanisms that Dovecot offered when it started.
        let master = service.state.join("mail/queue/pid/master.pid");
        let master: i32 = std::fs::read_to_string(master)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        kill_process(Pid::from_raw(master).unwrap(), Signal::HUP).unwrap();
    }

    /// Makes a token valid for an account of the service.
    pub fn add_token(&self, token: &str, address: &str) {
        let response = json!({
            "active": true, "username": address, "aud": "http://service.test/mcp",
            "token_type": "Bearer", "iss": format!("http://{}", self.address),
        });
        self.set_response(token, response);
    }

    /// Sets the response for a token.
    pub fn set_response(&self, token: &str, response: Value) {
        let mut tokens = self.state.tokens.lock().unwrap();
        tokens.insert(token.to_owned(), response);
    }

    /// Changes one member of the response for a token.
    pub fn change_response(&self, token: &str, member: &str, value: Value) {
        let mut tokens = self.state.tokens.lock().unwrap();
        tokens.get_mut(token).unwrap()[member] = value;
    }

    /// Revokes the token.
    pub fn revoke(&self, token: &str) {
        self.state.tokens.lock().unwrap().remove(token);
    }

    /// Sets the response to the service for all tokens; `None` restores the normal responses.
    pub fn override_responses(&self, instead: Option<(u16, &str)>) {
        let instead = instead.map(|(status, body)| (status, body.to_owned()));
        *self.state.instead.lock().unwrap() = instead;
    }

    /// Returns how often the service asked about a token.
    pub fn introspections(&self, token: &str) -> usize {
        let introspected = self.state.introspected.borrow();
        introspected.iter().filter(|one| *one == token).count()
    }

    /// Holds all responses until [`Issuer::release`].
    pub fn hold(&self) {
        self.state.open.send_replace(false);
    }

    /// Waits until the service has asked about a token.
    pub async fn wait_for_introspection(&self, token: &str) {
        let mut introspected = self.state.introspected.subscribe();
        let is_introspected =
            introspected.wait_for(|introspected| introspected.iter().any(|one| one == token));
        timeout(TEST_TIMEOUT, is_introspected)
            .await
            .unwrap()
            .unwrap();
    }

    /// Sends the held responses, and holds no further ones.
    pub fn release(&self) {
        self.state.open.send_replace(true);
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, Arc::clone(&state)));
    }
}

/// Serves one request, which is the only one of its connection.
async fn serve(mut stream: TcpStream, state: Arc<State>) -> Option<()> {
    let (head, body) = request(&mut stream).await?;
    let (status, response) = respond(&head, &body, &state).await;
    let response = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{response}",
        response.len()
    );
    stream.write_all(response.as_bytes()).await.ok()
}

async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = field(head, "content-length").and_then(|digits| digits.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some((head.to_owned(), body.to_owned()));
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

fn field(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        let is = field.eq_ignore_ascii_case(name);
        is.then(|| value.trim().to_owned())
    })
}

async fn respond(head: &str, body: &str, state: &State) -> (u16, String) {
    let basic = |name: &str, secret: &str| {
        let pair = STANDARD.encode(format!("{name}:{secret}"));
        Some(format!("Basic {pair}"))
    };
    let authorization = field(head, "authorization");
    let service = authorization == basic("latchmail", CLIENT_SECRET_IN_A_FORM);
    let known = service || authorization == basic("dovecot", DOVECOT_SECRET);
    if !known || !head.starts_with("POST /introspect ") {
        return (401, String::new());
    }
    let Some(token) = body
        .split('&')
        .find_map(|pair| pair.strip_prefix("token="))
        .map(decoded)
    else {
        return (400, String::new());
    };
    if service {
        state
            .introspected
            .send_modify(|introspected| introspected.push(token.clone()));
        let mut open = state.open.subscribe();
        open.wait_for(|open| *open).await.unwrap();
        if let Some((status, body)) = state.instead.lock().unwrap().clone() {
            return (status, body);
        }
    }
    let tokens = state.tokens.lock().unwrap();
    let response = tokens.get(&token).cloned();
    let response = response.unwrap_or_else(|| json!({ "active": false }));
    (200, response.to_string())
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = u8::from_str_radix(&part[..2], 16).unwrap();
        decoded.push(char::from(byte));
        decoded.push_str(&part[2..]);
    }
    decoded
}
