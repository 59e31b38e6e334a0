//! A fake host for unit tests. It returns the configured results and records its calls.

use std::cell::RefCell;

use latchmail_sdk::capability::{Alias, Aliases, Caller, Error, Identity, Kind};
use latchmail_sdk::{Content, Failure, Reply, Request};

/// 2026-11-20T08:00:00Z.
pub(crate) const NOW: i64 = 1_795_161_600_000;

#[derive(Default)]
pub(crate) struct FakeHost {
    /// Error of every function that changes or checks an alias.
    pub(crate) fails: Option<Error>,
    pub(crate) aliases: Vec<Alias>,
    pub(crate) domains: Vec<String>,
    pub(crate) asked: RefCell<Vec<String>>,
}

impl FakeHost {
    pub(crate) fn failing(error: Error) -> Self {
        Self {
            fails: Some(error),
            ..Self::default()
        }
    }

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

impl Aliases for FakeHost {
    fn list_aliases(&self) -> Result<Vec<Alias>, Error> {
        Ok(self.aliases.clone())
    }

    fn alias_domains(&self) -> Result<Vec<String>, Error> {
        Ok(self.domains.clone())
    }

    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error> {
        self.ask(format!("create {name} {domain}"))?;
        Ok(alias(7, &format!("{name}@{domain}")))
    }

    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error> {
        self.ask(format!("check {name} {domain}"))
    }

    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error> {
        self.ask(format!("set {id} {active}"))
    }

    fn delete_alias(&self, id: u64) -> Result<(), Error> {
        self.ask(format!("delete {id}"))
    }
}

pub(crate) fn alias(id: u64, address: &str) -> Alias {
    Alias {
        id,
        address: address.into(),
        active: true,
        created_at: None,
        modified_at: None,
    }
}

pub(crate) fn json(answer: Result<Reply, Failure>) -> serde_json::Value {
    match answer.unwrap().body {
        Content::Bytes(bytes) => serde_json::from_slice(&bytes).unwrap(),
        Content::Blob(_) => panic!("a blob"),
    }
}

pub(crate) fn posted(body: &str) -> Request {
    Request {
        body: body.into(),
        ..Request::default()
    }
}
