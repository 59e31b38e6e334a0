//! An authorization server that is not the service's, as far as it is asked about tokens (RFC 7662). A stub: no real one can be told to hang, to lie, or
//! how often it was asked.
//!
//! ```ignore
//! let issuer = Issuer::start().await;
//! let mut service = Setup::default().on_sqlite().with_own_mail().with(&issuer.settings()).start().await;
//! issuer.believed_by(&mut service, "oauthbearer xoauth2").await;
//! issuer.gives("a-token", "ada@first.test");
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

use crate::{EVENTUALLY, Service};

/// The service's secret there, with what a form has to write otherwise.
pub const CLIENT_SECRET: &str = "s3cret+/%=:~";
const CLIENT_SECRET_IN_A_FORM: &str = "s3cret%2B%2F%25%3D%3A%7E";
/// Dovecot's.
const DOVECOT_SECRET: &str = "d0vecot";

/// The server, until it is dropped.
#[derive(Debug)]
pub struct Issuer {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<State>,
    secret: NamedTempFile,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    /// What it says of tokens. Of others it says that they are not active.
    tokens: Mutex<HashMap<String, Value>>,
    /// What it says to the service of every token instead, with the status.
    instead: Mutex<Option<(u16, String)>>,
    /// The tokens that the service asked about.
    asked: watch::Sender<Vec<String>>,
    open: watch::Sender<bool>,
}

impl Issuer {
    /// One that has given out no token.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut secret = NamedTempFile::new().unwrap();
        writeln!(secret, "{CLIENT_SECRET}").unwrap();
        let state = Arc::new(State {
            tokens: Mutex::default(),
            instead: Mutex::default(),
            asked: watch::Sender::default(),
            open: watch::Sender::new(true),
        });
        Self {
            address: listener.local_addr().unwrap(),
            serving: tokio::spawn(accept(listener, Arc::clone(&state))),
            state,
            secret,
        }
    }

    /// The lines with which a service leaves authorization to it.
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

    /// Has a service's Dovecot take its tokens, by these mechanisms.
    pub async fn believed_by(&self, service: &mut Service, mechanisms: &str) {
        let folder = service.state.join("mail/dovecot");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        // As docs/oauth-external.md says it to operators.
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
        // Each process of Postfix remembers what Dovecot offered when it began.
        let master = service.state.join("mail/queue/pid/master.pid");
        let master: i32 = std::fs::read_to_string(master)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        kill_process(Pid::from_raw(master).unwrap(), Signal::HUP).unwrap();
    }

    /// A token that is good for an account of the tests' service.
    pub fn gives(&self, token: &str, address: &str) {
        let answer = json!({
            "active": true, "username": address, "aud": "http://service.test/mcp",
            "token_type": "Bearer", "iss": format!("http://{}", self.address),
        });
        self.says(token, answer);
    }

    /// What it says of a token from now on.
    pub fn says(&self, token: &str, answer: Value) {
        let mut tokens = self.state.tokens.lock().unwrap();
        tokens.insert(token.to_owned(), answer);
    }

    /// The same with one member of the answer that is another.
    pub fn says_otherwise(&self, token: &str, member: &str, value: Value) {
        let mut tokens = self.state.tokens.lock().unwrap();
        tokens.get_mut(token).unwrap()[member] = value;
    }

    /// The token is no longer good.
    pub fn withdraws(&self, token: &str) {
        self.state.tokens.lock().unwrap().remove(token);
    }

    /// What it answers to the service from now on, whatever the token; where it is none, what it should.
    pub fn answers(&self, instead: Option<(u16, &str)>) {
        let instead = instead.map(|(status, body)| (status, body.to_owned()));
        *self.state.instead.lock().unwrap() = instead;
    }

    /// How often the service asked about a token.
    pub fn questions(&self, token: &str) -> usize {
        let asked = self.state.asked.borrow();
        asked.iter().filter(|one| *one == token).count()
    }

    /// Answers nobody until [`Issuer::release`].
    pub fn hold(&self) {
        self.state.open.send_replace(false);
    }

    /// Waits until the service has asked about a token.
    pub async fn is_asked(&self, token: &str) {
        let mut asked = self.state.asked.subscribe();
        let there = asked.wait_for(|asked| asked.iter().any(|one| one == token));
        timeout(EVENTUALLY, there).await.unwrap().unwrap();
    }

    /// Answers whom it kept waiting, and everybody.
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

/// One request, which is all that a connection has.
async fn serve(mut stream: TcpStream, state: Arc<State>) -> Option<()> {
    let (head, body) = request(&mut stream).await?;
    let (status, answer) = answered(&head, &body, &state).await;
    let answer = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
        answer.len()
    );
    stream.write_all(answer.as_bytes()).await.ok()
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

async fn answered(head: &str, body: &str, state: &State) -> (u16, String) {
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
        state.asked.send_modify(|asked| asked.push(token.clone()));
        let mut open = state.open.subscribe();
        open.wait_for(|open| *open).await.unwrap();
        if let Some((status, body)) = state.instead.lock().unwrap().clone() {
            return (status, body);
        }
    }
    let tokens = state.tokens.lock().unwrap();
    let answer = tokens.get(&token).cloned();
    let answer = answer.unwrap_or_else(|| json!({ "active": false }));
    (200, answer.to_string())
}

/// What is written with percent signs.
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
