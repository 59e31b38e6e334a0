//! Long tests of the search index and the change log: consistency, damage, and generated queries.

mod consistency;
mod damage;
mod disk;
mod generated_mail;
mod generated_queries;
mod queries;

use std::time::Duration;

use latchmail_tests::{PASSWORD, Person, Service};
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// The maximum time until an index is complete.
const INDEX_TIMEOUT: Duration = Duration::from_mins(2);

/// The credential of an account that outlives the host.
#[derive(Clone, Debug)]
struct Account {
    address: String,
    /// The access token, which expires after 15 minutes.
    access: String,
    signed_in: Option<Instant>,
}

impl Account {
    fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            access: String::new(),
            signed_in: None,
        }
    }

    /// Signs in again if the access token expires soon. The host must run.
    async fn renew(&mut self, service: &Service) {
        let soon = |at: &Instant| at.elapsed() > Duration::from_mins(10);
        if self.signed_in.as_ref().is_none_or(soon) {
            let person = Person::sign_in(service, &self.address, PASSWORD).await;
            self.access = person.access;
            self.signed_in = Some(Instant::now());
        }
    }

    fn person<'s>(&self, service: &'s Service) -> Person<'s> {
        Person {
            service,
            address: self.address.clone(),
            access: self.access.clone(),
            refresh: String::new(),
        }
    }
}

/// Waits until the index of the mailbox is complete.
async fn wait_for_index(person: &Person<'_>) {
    let deadline = Instant::now() + INDEX_TIMEOUT;
    while !is_ready(person).await {
        assert!(Instant::now() < deadline, "the index is not complete");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Starts the build of the index if it is not complete, and returns whether it is complete.
async fn is_ready(person: &Person<'_>) -> bool {
    let response = person.search("nothing", "&folder=*").await.succeeds(200);
    response["index"] == "ready"
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
