//! A steady load of about 20 requests each second through the balancer. It records each response,
//! and everything that the service has confirmed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::{PASSWORD, Person, Response, SeveralHosts, contains_file, imap, subjects};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// The accounts that create aliases, because an account can create 50 in a day.
const MAKERS: usize = 8;
/// The time without a failure after which the service has recovered.
const QUIET: Duration = Duration::from_secs(3);

/// An operation, and the number of requests in ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    List,
    Search,
    Send,
    CreateAlias,
    SignIn,
}

const RATES: [(Operation, u32); 5] = [
    (Operation::List, 70),
    (Operation::Search, 60),
    (Operation::Send, 40),
    (Operation::CreateAlias, 10),
    (Operation::SignIn, 20),
];

/// A response, or a failure of the connection with the status 0.
#[derive(Clone, Debug)]
struct Record {
    operation: Operation,
    begun: Instant,
    ended: Instant,
    status: u16,
    text: String,
}

/// The confirmed changes.
#[derive(Debug, Default)]
struct Confirmed {
    sent: Vec<String>,
    /// Messages for which the service did not return that they were not sent.
    unknown: Vec<String>,
    aliases: BTreeMap<usize, Vec<String>>,
    sessions: Vec<String>,
}

/// What the requests need, without a borrow of the hosts.
#[derive(Debug)]
struct Shared {
    base: String,
    client: reqwest::Client,
    /// The API token of the account that sends.
    sender: String,
    /// The API token of the account that reads. It is another account, because an account has a
    /// limit of concurrent requests.
    reader: String,
    /// The API tokens of the accounts that create aliases.
    makers: Vec<String>,
    records: Mutex<Vec<Record>>,
    confirmed: Mutex<Confirmed>,
}

/// The running load. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Load {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Record {
    fn failed(&self) -> bool {
        !matches!(self.status, 200 | 201)
    }
}

impl Load {
    /// Creates the accounts and starts the load.
    pub(super) async fn start(all: &SeveralHosts) -> Self {
        let service = &all.service;
        let ada = service.person("ada").await;
        let bob = service.person("bob").await;
        let token = async |person: &Person<'_>, scopes: &[&str]| {
            person.token(scopes).await["token"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let makers = join_all((0..MAKERS).map(async |number| {
            let maker = service.person(&maker(number)).await;
            token(&maker, &["aliases:write", "aliases:read"]).await
        }));
        let shared = Arc::new(Shared {
            base: service.base.clone(),
            client: reqwest::Client::builder()
                .no_proxy()
                .timeout(Duration::from_mins(1))
                .build()
                .unwrap(),
            sender: token(&ada, &["mail:send"]).await,
            reader: token(&bob, &["mail:read"]).await,
            makers: makers.await,
            records: Mutex::default(),
            confirmed: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for (operation, rate) in RATES {
            tasks.spawn(repeat(
                shared.clone(),
                operation,
                Duration::from_secs(10) / rate,
            ));
        }
        Self { shared, tasks }
    }

    /// Returns the number of responses for each operation and status since `begun`, with one text
    /// of each.
    pub(super) fn summary(&self, begun: Instant) -> String {
        let mut counts: BTreeMap<(Operation, u16), (usize, String)> = BTreeMap::new();
        for record in self.since(begun) {
            let entry = counts.entry((record.operation, record.status)).or_default();
            entry.0 += 1;
            entry.1 = if record.failed() {
                record.text
            } else {
                String::new()
            };
        }
        let lines = counts.iter().map(|((operation, status), (count, text))| {
            format!("    {operation:?} {status}: {count} {text}\n")
        });
        let longest = self
            .since(begun)
            .into_iter()
            .map(|record| record.ended - record.begun)
            .max();
        lines.collect::<String>()
            + &format!("    longest request {:?}", longest.unwrap_or_default())
    }

    /// Asserts that all failures since `begun` are of these statuses.
    pub(super) fn assert_statuses(&self, begun: Instant, allowed: &[u16]) {
        let wrong: Vec<_> = self
            .since(begun)
            .into_iter()
            .filter(|record| record.failed() && !allowed.contains(&record.status))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    /// Waits until no request has failed for some time. Returns the time from `ended` to the end of
    /// the last failed request.
    pub(super) async fn recovered(
        &self,
        begun: Instant,
        ended: Instant,
        max: Duration,
    ) -> Duration {
        loop {
            sleep(Duration::from_millis(100)).await;
            let records = self.since(begun);
            let failed = records.iter().filter(|record| record.failed());
            let last = failed
                .clone()
                .map(|record| record.ended)
                .max()
                .unwrap_or(begun)
                .max(ended);
            let served = |operation| {
                records.iter().any(|record| {
                    record.operation == operation && record.begun > last && !record.failed()
                })
            };
            if last.elapsed() > QUIET && RATES.iter().all(|(operation, _)| served(*operation)) {
                return last - ended;
            }
            if ended.elapsed() > max + QUIET {
                let last: Vec<_> = failed
                    .filter(|record| record.begun > ended + max / 2)
                    .take(10)
                    .collect();
                panic!(
                    "the service did not recover in {max:?}: {last:?}\n{}",
                    self.summary(begun)
                );
            }
        }
    }

    fn since(&self, begun: Instant) -> Vec<Record> {
        let records = self.shared.records.lock().unwrap();
        records
            .iter()
            .filter(|record| record.ended >= begun)
            .cloned()
            .collect()
    }

    /// Ends the load and checks that everything that was confirmed exists on both hosts, and that
    /// no message arrived twice.
    pub(super) async fn end(mut self, all: &SeveralHosts, max_delivery: Duration) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
        let shared = &self.shared;
        // The requests in progress run in tasks of their own, which also own the state.
        while Arc::strong_count(shared) > 1 {
            sleep(Duration::from_millis(20)).await;
        }
        let confirmed = std::mem::take(&mut *shared.confirmed.lock().unwrap());
        println!(
            "confirmed: {} messages and {} unknown, {} aliases, {} sessions",
            confirmed.sent.len(),
            confirmed.unknown.len(),
            confirmed.aliases.values().map(Vec::len).sum::<usize>(),
            confirmed.sessions.len()
        );
        for host in &all.hosts {
            for (number, aliases) in &confirmed.aliases {
                let listed = host
                    .service
                    .with_bearer("GET /api/v1/aliases", &shared.makers[*number])
                    .await
                    .succeeds(200);
                let listed = listed["aliases"].as_array().unwrap();
                let missing: Vec<_> = aliases
                    .iter()
                    .filter(|alias| !listed.iter().any(|one| one["address"] == **alias))
                    .collect();
                assert!(missing.is_empty(), "{missing:?}");
            }
            for session in confirmed.sessions.iter().rev().take(20) {
                host.service
                    .with_bearer("GET /api/v1/profile", session)
                    .await
                    .succeeds(200);
            }
        }
        let queue = &all.service.mail().queue;
        let since = Instant::now();
        while ["maildrop", "incoming", "active", "deferred"]
            .iter()
            .any(|name| contains_file(&queue.join(name)))
        {
            assert!(since.elapsed() < max_delivery, "mail is still in the queue");
            sleep(Duration::from_millis(100)).await;
        }
        println!("the queue was empty {:?} after the load", since.elapsed());
        let bob = Person::sign_in(&all.service, "bob@first.test", PASSWORD).await;
        let mut arrived: BTreeMap<String, usize> = BTreeMap::new();
        for subject in subjects(&mut imap(&bob).await, "INBOX").await {
            *arrived.entry(subject).or_default() += 1;
        }
        let twice: Vec<_> = arrived.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        let lost: Vec<_> = confirmed
            .sent
            .iter()
            .filter(|subject| !arrived.contains_key(*subject))
            .collect();
        assert!(lost.is_empty(), "{lost:?}");
        let known: Vec<_> = confirmed.sent.iter().chain(&confirmed.unknown).collect();
        let refused: Vec<_> = arrived
            .keys()
            .filter(|subject| !known.contains(subject))
            .collect();
        assert!(
            refused.is_empty(),
            "the service said that it did not send {refused:?}"
        );
    }
}

fn maker(number: usize) -> String {
    format!("maker{number}")
}

/// Starts a request at each interval, regardless of the duration of the earlier requests.
async fn repeat(shared: Arc<Shared>, operation: Operation, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for number in 0.. {
        ticks.tick().await;
        tokio::spawn(one(shared.clone(), operation, number));
    }
}

async fn one(shared: Arc<Shared>, operation: Operation, number: usize) {
    let begun = Instant::now();
    let request = |method: &str, path: &str| {
        let method = method.parse().unwrap();
        shared
            .client
            .request(method, format!("{}{path}", shared.base))
    };
    let subject = format!("load-{number}");
    let maker = number % MAKERS;
    let none = json!(null);
    let (request, body): (_, Value) = match operation {
        Operation::List => (
            request("GET", "/api/v1/mail/folders/INBOX/messages").bearer_auth(&shared.reader),
            none,
        ),
        Operation::Search => (
            request("GET", "/api/v1/mail/search?q=load").bearer_auth(&shared.reader),
            none,
        ),
        Operation::Send => (
            request("POST", "/api/v1/mail/send")
                .bearer_auth(&shared.sender)
                .header("idempotency-key", &subject),
            json!({ "from": "ada@first.test", "to": "bob@first.test", "subject": subject, "text": "load" }),
        ),
        Operation::CreateAlias => (
            request("POST", "/api/v1/aliases").bearer_auth(&shared.makers[maker]),
            json!({ "name": format!("load-{number}"), "domain": "second.test" }),
        ),
        Operation::SignIn => (
            request("POST", "/api/v1/auth/login"),
            json!({ "email": "ada@first.test", "password": PASSWORD }),
        ),
    };
    let response = if body.is_null() {
        Response::try_of(request).await
    } else {
        Response::try_of_json(request, &body).await
    };
    let (status, text) = match &response {
        Ok(response) => (
            response.status,
            response.json["error"]
                .as_str()
                .unwrap_or("(no JSON)")
                .to_owned(),
        ),
        Err(error) => (0, format!("{error:?}")),
    };
    let mut confirmed = shared.confirmed.lock().unwrap();
    match (operation, status, response) {
        (Operation::Send, 200, _) => confirmed.sent.push(subject),
        // The balancer returns 502 and 504 if the host has received the request.
        (Operation::Send, 0 | 500 | 502 | 504, _) => confirmed.unknown.push(subject),
        (Operation::CreateAlias, 201, Ok(made)) => {
            let alias = made.json["alias"].as_str().unwrap().to_owned();
            confirmed.aliases.entry(maker).or_default().push(alias);
        }
        (Operation::SignIn, 200, Ok(pair)) => confirmed
            .sessions
            .push(pair.json["accessToken"].as_str().unwrap().to_owned()),
        _ => (),
    }
    drop(confirmed);
    let record = Record {
        operation,
        begun,
        ended: Instant::now(),
        status,
        text,
    };
    shared.records.lock().unwrap().push(record);
}
