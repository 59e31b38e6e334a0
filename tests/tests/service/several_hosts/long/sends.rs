//! A host is killed while clients send messages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::process::kill;
use latchmail_tests::{
    Person, Random, Response, SeveralHosts, contains_file, imap, subjects, wait_until,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

const MESSAGES: usize = 1_000;
const CLIENTS: usize = 8;
const KILLS: usize = 3;
/// The maximum time until a client knows the outcome of a message.
const MAX_WAIT: Duration = Duration::from_secs(30);
const RETRY_DELAY: Duration = Duration::from_millis(200);
const UNKNOWN: &str =
    "The message may have been sent; check the Sent folder before you send it again";

/// The final responses of all sends.
#[derive(Default)]
struct Outcomes {
    sent: Vec<String>,
    unknown: Vec<String>,
    retries: BTreeMap<String, usize>,
    longest: Duration,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long; ./just test-all runs it"]
async fn no_message_is_lost_or_sent_twice_if_a_host_is_killed() {
    let mut all = SeveralHosts::start().await;
    let service = &all.service;
    let (mut ada, bob) = (service.person("ada").await, service.person("bob").await);
    // A token does not expire during the test.
    ada.access = ada.token(&["mail:send"]).await["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let (next, in_flight) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let clients = join_all((0..CLIENTS).map(|_| client(&ada, &next, &in_flight)));
    let kills = async {
        let mut possible = 0;
        let mut random = Random::new(std::process::id().into());
        for number in 0..KILLS {
            // A kill at a random time in each third of the messages.
            let third = MESSAGES / KILLS;
            let at = number * third + random.below(third / 2);
            while next.load(Ordering::Relaxed) < at {
                sleep(Duration::from_millis(5)).await;
            }
            let host = &mut all.hosts[number % 2];
            let before = in_flight.load(Ordering::Relaxed);
            kill(host.process.pid());
            possible += before;
            println!("killed a host at message {at}, with {before} requests in flight");
            sleep(Duration::from_secs(1)).await;
            host.process.start().await;
        }
        possible
    };
    let begun = Instant::now();
    let (outcomes, possible) = tokio::join!(clients, kills);
    let outcomes = outcomes
        .into_iter()
        .fold(Outcomes::default(), Outcomes::with);
    println!(
        "{} sent, {} unknown of {possible} in flight, in {:?}; longest wait {:?}; retries: {:?}",
        outcomes.sent.len(),
        outcomes.unknown.len(),
        begun.elapsed(),
        outcomes.longest,
        outcomes.retries
    );
    assert_eq!(outcomes.sent.len() + outcomes.unknown.len(), MESSAGES);
    assert!(outcomes.unknown.len() <= possible, "{:?}", outcomes.unknown);
    assert!(outcomes.longest < MAX_WAIT, "{:?}", outcomes.longest);

    let queue = &service.mail().queue;
    wait_until("all mail is delivered", async || {
        !["maildrop", "incoming", "active", "deferred"]
            .iter()
            .any(|name| contains_file(&queue.join(name)))
    })
    .await;
    let mut arrived: BTreeMap<String, usize> = BTreeMap::new();
    for subject in subjects(&mut imap(&bob).await, "INBOX").await {
        *arrived.entry(subject).or_default() += 1;
    }
    let twice: Vec<_> = arrived.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let lost: Vec<_> = outcomes
        .sent
        .iter()
        .filter(|subject| !arrived.contains_key(*subject))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    let delivered = outcomes
        .unknown
        .iter()
        .filter(|subject| arrived.contains_key(*subject))
        .count();
    println!(
        "{delivered} of the {} unknown messages arrived",
        outcomes.unknown.len()
    );
}

/// Sends messages until all have been sent.
async fn client(person: &Person<'_>, next: &AtomicUsize, in_flight: &AtomicUsize) -> Outcomes {
    let mut outcomes = Outcomes::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= MESSAGES {
            return outcomes;
        }
        let subject = format!("message {number}");
        let begun = Instant::now();
        loop {
            in_flight.fetch_add(1, Ordering::Relaxed);
            let response = send(person, &subject).await;
            in_flight.fetch_sub(1, Ordering::Relaxed);
            match response {
                Ok(response) if response.status == 200 => outcomes.sent.push(subject),
                Ok(response) if response.status == 500 => {
                    response.fails(500, UNKNOWN);
                    outcomes.unknown.push(subject);
                }
                Ok(response) => {
                    let allowed = matches!(response.status, 409 | 502 | 503);
                    assert!(allowed, "{subject}: {} {}", response.status, response.json);
                    let what = format!("{} {}", response.status, response.json);
                    *outcomes.retries.entry(what).or_default() += 1;
                    sleep(RETRY_DELAY).await;
                    continue;
                }
                Err(error) => {
                    *outcomes.retries.entry(error.to_string()).or_default() += 1;
                    sleep(RETRY_DELAY).await;
                    continue;
                }
            }
            outcomes.longest = outcomes.longest.max(begun.elapsed());
            break;
        }
    }
}

/// Sends a message with its subject as the key.
async fn send(person: &Person<'_>, subject: &str) -> reqwest::Result<Response> {
    let body = json!({ "from": person.address, "to": "bob@first.test", "subject": subject, "text": "Hello." });
    let request = person.service.request("POST /api/v1/mail/send");
    let request = request
        .bearer_auth(&person.access)
        .header("idempotency-key", subject.replace(' ', "-"));
    Response::try_of_json(request, &body).await
}

impl Outcomes {
    fn with(mut self, other: Self) -> Self {
        self.sent.extend(other.sent);
        self.unknown.extend(other.unknown);
        for (what, times) in other.retries {
            *self.retries.entry(what).or_default() += times;
        }
        self.longest = self.longest.max(other.longest);
        self
    }
}
