//! A fake host for unit tests. It returns the configured results and records its calls.

use std::cell::RefCell;

use latchmail_sdk::capability::{
    Caller, Challenge, Claimed, Domain, Domains, Error, Expected, HeldDomains, Identity, Inspected,
    Kind, RecordKind, Verification,
};
use latchmail_sdk::{Content, Failure, Reply, Request};

/// 2026-11-20T08:00:00Z.
const NOW: i64 = 1_795_161_600_000;

#[derive(Default)]
pub(crate) struct FakeHost {
    /// Error of every function.
    pub(crate) fails: Option<Error>,
    /// The account's domains. `inspect_domain` returns the first.
    pub(crate) held: Vec<Domain>,
    pub(crate) claimed: Option<Claimed>,
    pub(crate) verification: Option<Verification>,
    pub(crate) asked: RefCell<Vec<String>>,
}

impl FakeHost {
    fn ask(&self, asked: String) -> Result<(), Error> {
        self.asked.borrow_mut().push(asked);
        self.fails.clone().map_or(Ok(()), Err)
    }
}

impl Caller for FakeHost {
    fn current(&self) -> Identity {
        Identity {
            kind: Kind::Session,
            address: "ada@example.test".into(),
            admin: false,
            scopes: Vec::new(),
        }
    }
}

impl Domains for FakeHost {
    fn list_domains(&self) -> Result<HeldDomains, Error> {
        self.ask("list".into())?;
        Ok(HeldDomains {
            domains: self.held.clone(),
            limit: 5,
        })
    }

    fn claim_domain(&self, name: &str) -> Result<Claimed, Error> {
        self.ask(format!("claim {name}"))?;
        Ok(self.claimed.clone().unwrap_or(Claimed::Created(pending())))
    }

    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error> {
        self.ask(format!("inspect {name}"))?;
        Ok(inspected(self.held.first().cloned().unwrap_or(active())))
    }

    fn verify_domain(&self, name: &str) -> Result<Verification, Error> {
        self.ask(format!("verify {name}"))?;
        let active = || Verification::Active(inspected(active()));
        Ok(self.verification.clone().unwrap_or_else(active))
    }

    fn release_domain(&self, name: &str) -> Result<(), Error> {
        self.ask(format!("release {name}"))
    }
}

pub(crate) fn pending() -> Domain {
    Domain {
        name: "ada.example".into(),
        created_at: NOW,
        verified_at: None,
        challenge: Some(Challenge {
            host: "_challenge.ada.example".into(),
            value: "prove=it".into(),
        }),
    }
}

pub(crate) fn active() -> Domain {
    Domain {
        verified_at: Some(NOW + 1000),
        challenge: None,
        ..pending()
    }
}

fn inspected(domain: Domain) -> Inspected {
    let record = |kind, value: &str, ok| Expected {
        kind,
        host: "ada.example".into(),
        value: value.into(),
        ok,
    };
    Inspected {
        domain,
        records: vec![
            record(RecordKind::Mx, "mx", Some(true)),
            record(RecordKind::Spf, "spf", Some(false)),
            record(RecordKind::Dkim, "dkim", None),
            record(RecordKind::Dmarc, "dmarc", Some(true)),
        ],
    }
}

pub(crate) fn json(answer: Result<Reply, Failure>) -> serde_json::Value {
    match answer.unwrap().body {
        Content::Bytes(bytes) => serde_json::from_slice(&bytes).unwrap(),
        Content::Blob(_) => panic!("a blob"),
    }
}

/// Creates a request with this domain in the path.
pub(crate) fn asked(domain: &str) -> Request {
    Request {
        path: vec![("domain".into(), domain.into())],
        ..Request::default()
    }
}

pub(crate) fn posted(body: &str) -> Request {
    Request {
        body: body.into(),
        ..Request::default()
    }
}
