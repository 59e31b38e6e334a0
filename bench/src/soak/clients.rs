//! The clients of the soak, and their operations.
//!
//! The accounts send mail to each other. The clients delete this mail and the copies in Sent, so
//! that the mailboxes keep their size.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::http;
use crate::mailbox::append;
use crate::messages::{Random, short_message, words};
use crate::service::{Service, Tokens, address_of};

/// Number of accounts, and of clients of each account.
const ACCOUNTS: usize = 8;
const CLIENTS_PER_ACCOUNT: usize = 2;

/// Number of messages in each inbox. The messages that clients send are not included.
const MESSAGES: usize = 1_000;

/// Number of these messages that the clients read and flag.
const READ: usize = 100;

/// The subject of the messages that clients send.
const SUBJECT: &str = "Soak";

/// Size of the text of a sent message in bytes.
const TEXT_LENGTH: usize = 4_000;

/// The time after which a client exchanges its refresh token. An access token is valid for 15
/// minutes.
const REFRESH_INTERVAL: Duration = Duration::from_mins(5);

/// Maximum number of errors that are printed.
const PRINTED: usize = 10;

/// The names of the operations.
pub(super) const OPERATIONS: [&str; 6] = ["list", "read", "search", "flag", "send", "delete"];
const LIST: usize = 0;
const READ_ONE: usize = 1;
const SEARCH: usize = 2;
const FLAG: usize = 3;
const SEND: usize = 4;
const DELETE: usize = 5;

/// The operations of a client, which it repeats.
const CYCLE: [usize; 20] = [
    LIST, READ_ONE, READ_ONE, FLAG, LIST, SEARCH, READ_ONE, LIST, READ_ONE, SEND, LIST, READ_ONE,
    FLAG, READ_ONE, LIST, SEARCH, LIST, READ_ONE, LIST, DELETE,
];

/// A client with a session and a connection of its own.
pub(super) struct Client<'a> {
    service: &'a Service,
    /// The address of the account, and that of the next account, which gets the sent mail.
    addresses: [String; 2],
    /// The `uid` values of the messages that the client reads and flags.
    uids: &'a [u64],
    /// The folder in which the client deletes sent messages.
    cleans: &'static str,
    connection: http::Client,
    tokens: Tokens,
    refreshed: Instant,
    step: usize,
}

/// The finished calls, until they are taken.
#[derive(Default)]
pub(super) struct Recorder {
    calls: Mutex<Vec<(usize, Duration)>>,
    errors: AtomicUsize,
    printed: AtomicUsize,
}

impl Recorder {
    /// Removes and returns the finished calls, each with its operation, and the number of failed
    /// calls.
    pub(super) fn take(&self) -> (Vec<(usize, Duration)>, usize) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        (
            std::mem::take(&mut calls),
            self.errors.swap(0, Ordering::Relaxed),
        )
    }

    fn add(&self, operation: usize, duration: Duration) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((operation, duration));
    }

    /// Counts a failed call. Prints the first errors.
    fn add_error(&self, operation: &str, error: &anyhow::Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        if self.printed.fetch_add(1, Ordering::Relaxed) < PRINTED {
            eprintln!("{operation}: {error:#}");
        }
    }
}

/// Creates and fills the accounts. Returns the `uid` values of messages of each account.
pub(super) fn create_accounts(
    service: &Service,
    runtime: &Runtime,
) -> anyhow::Result<Vec<Vec<u64>>> {
    (0..ACCOUNTS)
        .map(|number| {
            let account = runtime.block_on(service.create_account(&name(number)))?;
            let mut random = Random(7);
            let messages = (1..=MESSAGES).map(|number| short_message("INBOX", number, &mut random));
            append(&mut service.imap_of(&account)?, "INBOX", messages)?;
            let mut client = service.http_of(&account.token)?;
            // The first search builds the index of the account.
            client.get("/api/v1/mail/search?q=sender17&folder=INBOX")?;
            uids(
                &mut client,
                &format!("/api/v1/mail/folders/INBOX/messages?limit={READ}"),
                |_| true,
            )
        })
        .collect()
}

/// Creates the clients. Each signs in.
pub(super) fn create<'a>(
    service: &'a Service,
    accounts: &'a [Vec<u64>],
) -> anyhow::Result<Vec<Client<'a>>> {
    (0..accounts.len() * CLIENTS_PER_ACCOUNT)
        .map(|number| {
            let account = number % accounts.len();
            let tokens = Tokens::sign_in(&mut service.http_of("")?, &name(account))?;
            Ok(Client {
                service,
                addresses: [account, (account + 1) % accounts.len()]
                    .map(|account| address_of(&name(account))),
                uids: &accounts[account],
                cleans: ["INBOX", "Sent"][number / accounts.len() % CLIENTS_PER_ACCOUNT],
                connection: service.http_of(&tokens.access)?,
                tokens,
                refreshed: Instant::now(),
                // The clients start at different operations.
                step: number * 7,
            })
        })
        .collect()
}

fn name(account: usize) -> String {
    format!("soak{account}")
}

/// Lets all clients call the service while `action` runs. With a rate, the clients together start
/// this number of calls per second, even if the service is slower. Without a rate, each client
/// starts a call when its previous call has ended.
pub(super) fn run<T>(
    clients: &mut [Client<'_>],
    rate: Option<f64>,
    recorder: &Recorder,
    action: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let stop = AtomicBool::new(false);
    let interval = rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
    let count = u32::try_from(clients.len())?;
    std::thread::scope(|scope| {
        for (number, client) in (0..count).zip(clients.iter_mut()) {
            let stop = &stop;
            scope.spawn(move || {
                // The starts of the clients are distributed evenly.
                let mut start = Instant::now() + interval.unwrap_or_default() * number;
                while !stop.load(Ordering::Relaxed) {
                    match interval {
                        Some(_) => {
                            std::thread::sleep(start.saturating_duration_since(Instant::now()));
                        }
                        None => start = Instant::now(),
                    }
                    client.call(start, recorder);
                    start += interval.unwrap_or_default() * count;
                }
            });
        }
        let result = action();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

impl Client<'_> {
    /// Calls the next operation, which should have started at `start`.
    fn call(&mut self, start: Instant, recorder: &Recorder) {
        let operation = CYCLE[self.step % CYCLE.len()];
        let called = self.refresh().and_then(|()| self.operation(operation));
        self.step += 1;
        match called {
            Ok(()) => recorder.add(operation, start.elapsed()),
            Err(error) => {
                recorder.add_error(OPERATIONS[operation], &error);
                // The state of the connection is unknown. If the service is down, the next call
                // fails.
                if let Ok(connection) = self.service.http_of(&self.tokens.access) {
                    self.connection = connection;
                }
            }
        }
    }

    fn operation(&mut self, operation: usize) -> anyhow::Result<()> {
        let uid = self.uids[self.step * 13 % self.uids.len()];
        let client = &mut self.connection;
        match operation {
            READ_ONE => client
                .get(&format!("/api/v1/mail/messages/{uid}"))
                .map(drop),
            SEARCH => client
                .get("/api/v1/mail/search?q=sender17&folder=INBOX&limit=20")
                .map(drop),
            FLAG => {
                let action = ["add", "remove"][self.step / CYCLE.len() % 2];
                let body = json!({ "flags": ["\\Flagged"], "action": action }).to_string();
                client
                    .post_ok(&format!("/api/v1/mail/messages/{uid}/flag"), &body)
                    .map(drop)
            }
            SEND => {
                let [from, to] = &self.addresses;
                let text = words(TEXT_LENGTH, &mut Random(8));
                let body = json!({ "from": from, "to": to, "subject": SUBJECT, "text": text });
                client
                    .post_ok("/api/v1/mail/send", &body.to_string())
                    .map(drop)
            }
            DELETE => {
                let path = format!("/api/v1/mail/folders/{}/messages?limit=100", self.cleans);
                let uids = uids(client, &path, |message| message["subject"] == SUBJECT)?;
                if uids.is_empty() {
                    return Ok(());
                }
                client
                    .post_ok(
                        "/api/v1/mail/messages/bulk/delete",
                        &json!({ "uids": uids }).to_string(),
                    )
                    .map(drop)
            }
            _ => client
                .get("/api/v1/mail/folders/INBOX/messages?limit=50")
                .map(drop),
        }
    }

    /// Gets new tokens before the access token expires.
    fn refresh(&mut self) -> anyhow::Result<()> {
        if self.refreshed.elapsed() < REFRESH_INTERVAL {
            return Ok(());
        }
        self.tokens = self.tokens.refresh(&mut self.connection)?;
        self.connection = self.service.http_of(&self.tokens.access)?;
        self.refreshed = Instant::now();
        Ok(())
    }
}

/// Returns the `uid` values of the messages on a page for which `is_included` returns `true`.
fn uids(
    client: &mut http::Client,
    path: &str,
    is_included: impl Fn(&Value) -> bool,
) -> anyhow::Result<Vec<u64>> {
    let listing = client.json(path)?;
    let messages = listing["messages"]
        .as_array()
        .context("the listing has no messages")?;
    Ok(messages
        .iter()
        .filter(|message| is_included(message))
        .filter_map(|message| message["uid"].as_u64())
        .collect())
}
