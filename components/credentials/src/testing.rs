//! A fake host for unit tests. It returns the configured results and records its calls.

use std::cell::RefCell;

use latchmail_sdk::capability::{
    Caller, Changes, Config, CreatedAppPassword, CreatedToken, Credential, CredentialKind,
    Credentials, Details, Error, Identity, Kind, PasswordChange, Profile, Revocation, Scope, Token,
};
use latchmail_sdk::{Content, Failure, Reply, Request, scope};

/// 2026-11-20T08:00:00Z.
pub(crate) const NOW: i64 = 1_795_161_600_000;

pub(crate) struct FakeHost {
    /// Error of every function that can fail.
    pub(crate) fails: Option<Error>,
    pub(crate) jmap: Option<&'static str>,
    pub(crate) credentials: Vec<Credential>,
    pub(crate) revocation: Revocation,
    pub(crate) change: PasswordChange,
    pub(crate) asked: RefCell<Vec<String>>,
}

impl Default for FakeHost {
    fn default() -> Self {
        Self {
            fails: None,
            jmap: None,
            credentials: Vec::new(),
            revocation: Revocation::Revoked,
            change: PasswordChange::Changed,
            asked: RefCell::default(),
        }
    }
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

impl Config for FakeHost {
    fn get(&self, _: &str) -> Option<String> {
        self.jmap.map(Into::into)
    }
}

impl Profile for FakeHost {
    fn get(&self) -> Result<Details, Error> {
        self.fails.clone().map_or(Ok(()), Err)?;
        Ok(Details {
            address: "ada@example.test".into(),
            first_name: "Ada".into(),
            last_name: "Lovelace".into(),
            dob: "1990-12-10".into(),
            created_at: NOW,
        })
    }

    fn update(&self, changes: &Changes) -> Result<(), Error> {
        let Changes {
            first_name,
            last_name,
            dob,
        } = changes;
        self.ask(format!("update {first_name:?} {last_name:?} {dob:?}"))
    }

    fn change_password(&self, _: &str, _: &str) -> Result<PasswordChange, Error> {
        self.ask("password".into())?;
        Ok(self.change)
    }
}

impl Credentials for FakeHost {
    fn create_token(
        &self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        at_most: u32,
    ) -> Result<CreatedToken, Error> {
        self.ask(format!("create {label} {scopes:?} {days:?} {at_most}"))?;
        let held = scope::ALL.map(|(scope, _)| scope);
        let token = Token {
            label: label.into(),
            scopes: held.into_iter().filter(|s| scopes.contains(s)).collect(),
            ..token()
        };
        Ok(CreatedToken {
            token,
            secret: "lmk_secret".into(),
        })
    }

    fn list_tokens(&self) -> Result<Vec<Token>, Error> {
        Ok(vec![token()])
    }

    fn revoke_token(&self, id: &str) -> Result<(), Error> {
        self.ask(format!("revoke token {id}"))
    }

    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error> {
        self.ask(format!("create {label}"))?;
        Ok(CreatedAppPassword {
            id: "p".into(),
            username: "ada@example.test".into(),
            secret: "secret".into(),
        })
    }

    fn list_credentials(&self) -> Result<Vec<Credential>, Error> {
        self.ask("list".into())?;
        Ok(self.credentials.clone())
    }

    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error> {
        self.ask(format!("revoke {id}"))?;
        Ok(self.revocation.clone())
    }
}

fn token() -> Token {
    Token {
        id: "t".into(),
        label: "CI".into(),
        scopes: vec![Scope::MailRead],
        hint: "cret".into(),
        created_at: NOW,
        last_used_at: None,
        expires_at: Some(NOW),
    }
}

/// Returns a credential. A web session is the current one.
pub(crate) fn credential(id: &str, kind: CredentialKind) -> Credential {
    Credential {
        id: id.into(),
        label: "label".into(),
        current: matches!(kind, CredentialKind::WebSession),
        kind,
        created_at: NOW,
        last_used_at: Some(NOW),
        expires_at: None,
    }
}

pub(crate) fn json(answer: Result<Reply, Failure>) -> serde_json::Value {
    match answer.unwrap().body {
        Content::Bytes(bytes) => serde_json::from_slice(&bytes).unwrap(),
        Content::Blob(_) => panic!("a blob"),
    }
}

/// Creates a request with this id in the path.
pub(crate) fn asked(id: &str) -> Request {
    Request {
        path: vec![("id".into(), id.into())],
        ..Request::default()
    }
}

pub(crate) fn posted(body: &str) -> Request {
    Request {
        body: body.into(),
        ..Request::default()
    }
}
