//! The host that answers in the real one's place.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::NOW;
use super::account::Account;
use super::web::Web;
use crate::capability::{Caller, Config, Error, Identity, Kind, Level, Log, Scope, Timestamp};
use crate::scope;

/// Who is signed in until somebody else is.
const ADA: &str = "ada@example.test";

/// Accounts, settings and a log in memory, and one caller at a time. It implements every capability.
///
/// A new one has `ada@example.test` signed in with a web session. Whoever signs in has an account from then on, with an empty mailbox.
#[derive(Debug)]
pub struct FakeHost {
    caller: RefCell<Identity>,
    accounts: RefCell<BTreeMap<String, Account>>,
    settings: RefCell<BTreeMap<String, String>>,
    lines: RefCell<Vec<(Level, String)>>,
    fault: RefCell<Option<Error>>,
    now: Cell<Timestamp>,
    pub(super) web: RefCell<Web>,
}

/// What a capability asks of the caller's credential.
#[derive(Clone, Copy)]
pub(super) enum Need {
    Caller,
    Scope(Scope),
    Session,
}

impl Default for FakeHost {
    fn default() -> Self {
        let host = Self {
            caller: RefCell::new(identity(Kind::Anonymous, "", &[])),
            accounts: RefCell::default(),
            settings: RefCell::default(),
            lines: RefCell::default(),
            fault: RefCell::default(),
            now: Cell::new(NOW),
            web: RefCell::default(),
        };
        host.sign_in(ADA);
        host
    }
}

impl FakeHost {
    /// One in which `ada@example.test` is signed in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whoever asks from now on is this account, with a web session. It is made where there is none of this address.
    pub fn sign_in(&self, address: &str) {
        let scopes = scope::ALL.map(|(scope, _)| scope);
        *self.caller.borrow_mut() = identity(Kind::Session, address, &scopes);
        let now = self.now();
        let mut accounts = self.accounts.borrow_mut();
        accounts
            .entry(address.into())
            .or_insert_with(|| Account::new(address, now));
    }

    /// The account that asks comes with an API token of these scopes from now on.
    ///
    /// # Panics
    /// Where nobody is signed in.
    #[track_caller]
    pub fn use_token(&self, scopes: &[Scope]) {
        self.use_credential(Kind::ApiToken, scopes);
    }

    /// The account that asks comes with an OAuth access token from now on: it reads and changes mail, and reads aliases.
    ///
    /// # Panics
    /// Where nobody is signed in.
    #[track_caller]
    pub fn use_oauth(&self) {
        self.use_credential(
            Kind::Oauth,
            &[Scope::MailRead, Scope::MailWrite, Scope::AliasesRead],
        );
    }

    /// The account that asks comes with an OAuth access token of these scopes from now on, as at the agent endpoint: there the operator decides what
    /// such a token reaches.
    ///
    /// # Panics
    /// Where nobody is signed in.
    #[track_caller]
    pub fn use_grant(&self, scopes: &[Scope]) {
        self.use_credential(Kind::Oauth, scopes);
    }

    #[track_caller]
    fn use_credential(&self, kind: Kind, scopes: &[Scope]) {
        let address = self.signed_in();
        *self.caller.borrow_mut() = identity(kind, &address, scopes);
    }

    /// Nobody is signed in from now on.
    pub fn sign_out(&self) {
        *self.caller.borrow_mut() = identity(Kind::Anonymous, "", &[]);
    }

    /// The account that asks is an administrator's from now on, or no longer.
    pub fn be_admin(&self, admin: bool) {
        self.caller.borrow_mut().admin = admin;
    }

    /// Does something while nobody is signed in, as on a public route.
    pub(super) fn anonymously<T>(&self, act: impl FnOnce() -> T) -> T {
        let caller = self.caller.replace(identity(Kind::Anonymous, "", &[]));
        let done = act();
        self.caller.replace(caller);
        done
    }

    /// Gives the module a setting, as the operator does under `[modules.<name>.config]`.
    pub fn set(&self, key: &str, value: &str) {
        let mut settings = self.settings.borrow_mut();
        settings.insert(key.into(), value.into());
    }

    /// Every capability fails with this from now on, where it does not refuse the caller first.
    pub fn fail(&self, error: Error) {
        *self.fault.borrow_mut() = Some(error);
    }

    /// Capabilities work again.
    pub fn recover(&self) {
        *self.fault.borrow_mut() = None;
    }

    /// What the module wrote to the log.
    #[must_use]
    pub fn log(&self) -> Vec<(Level, String)> {
        self.lines.borrow().clone()
    }

    /// When it is.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// Time passes. What the module itself takes for the time is the machine's: this is what the host writes on what is made.
    pub fn advance(&self, by: std::time::Duration) {
        let by = Timestamp::try_from(by.as_millis()).unwrap_or(Timestamp::MAX);
        self.now.set(self.now().saturating_add(by));
    }

    /// Does something to the account that is signed in, whatever its credential may.
    #[track_caller]
    pub(super) fn with_account<T>(&self, act: impl FnOnce(&mut Account) -> T) -> T {
        let address = self.signed_in();
        let mut accounts = self.accounts.borrow_mut();
        let Some(account) = accounts.get_mut(&address) else {
            panic!("there is no account {address}")
        };
        act(account)
    }

    #[track_caller]
    fn signed_in(&self) -> String {
        let address = self.caller.borrow().address.clone();
        assert!(!address.is_empty(), "nobody is signed in");
        address
    }

    /// Does what a capability was asked for, where the caller's credential has what it takes.
    pub(super) fn allow<T>(
        &self,
        need: Need,
        act: impl FnOnce(&mut Account) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let caller = self.caller.borrow();
        if caller.kind == Kind::Anonymous {
            return Err(Error::Denied("There is no caller".into()));
        }
        match need {
            Need::Scope(scope) if !caller.scopes.contains(&scope) => {
                return Err(Error::Denied(missing(scope)));
            }
            Need::Session if caller.kind != Kind::Session => {
                return Err(Error::Denied(SESSION_ONLY.into()));
            }
            Need::Caller | Need::Scope(_) | Need::Session => {}
        }
        self.working()?;
        let mut accounts = self.accounts.borrow_mut();
        let account = accounts.get_mut(&caller.address).ok_or(Error::Internal)?;
        act(account)
    }

    /// The fault that a test asked for.
    pub(super) fn working(&self) -> Result<(), Error> {
        self.fault.borrow().clone().map_or(Ok(()), Err)
    }

    /// Does something to any account, where there is one of this address.
    pub(super) fn account_of<T>(
        &self,
        address: &str,
        act: impl FnOnce(&mut Account) -> T,
    ) -> Option<T> {
        self.accounts.borrow_mut().get_mut(address).map(act)
    }

    /// The addresses of all accounts.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.accounts.borrow().keys().cloned().collect()
    }
}

/// What a token is told where only a web session will do.
pub(super) const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";

/// What a token is told that lacks a scope.
pub(super) fn missing(scope: Scope) -> String {
    let name = scope::name(scope);
    format!("This credential is missing the \"{name}\" scope")
}

fn identity(kind: Kind, address: &str, scopes: &[Scope]) -> Identity {
    // In canonical order, whatever the test's.
    let held = scope::ALL.iter().map(|(scope, _)| *scope);
    Identity {
        kind,
        address: address.into(),
        admin: false,
        scopes: held.filter(|scope| scopes.contains(scope)).collect(),
    }
}

impl Caller for FakeHost {
    fn current(&self) -> Identity {
        self.caller.borrow().clone()
    }
}

impl Config for FakeHost {
    fn get(&self, key: &str) -> Option<String> {
        self.settings.borrow().get(key).cloned()
    }
}

impl Log for FakeHost {
    fn write(&self, level: Level, message: &str) {
        self.lines.borrow_mut().push((level, message.into()));
    }
}
