//! A fake host for tests, with all data in memory. Each capability has its own file. Each function
//! of a capability checks the caller's credential, and then uses the caller's account.

mod aliases;
mod changes;
mod compose;
mod credentials;
mod deliveries;
mod domains;
mod drafts;
mod filters;
mod folders;
mod forward_addresses;
mod grants;
mod http_client;
mod listing;
mod mail;
mod mailbox;
mod message_changes;
mod modules;
mod outbox;
mod profile;
mod queries;
mod search;
mod snooze;
mod store;
mod submissions;
mod teams;
mod webhooks;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use latchmail_shape::codes;

pub use deliveries::set_delivery;
pub use filters::{activate_other_script, forget_filters};
pub use forward_addresses::forward_code;
pub use grants::put_grant;
pub use modules::put_module;
pub use outbox::{SentFile, SentMessage};
pub use webhooks::{fail_callbacks, set_webhook_deliveries};

use super::NOW;
use crate::capability::{
    AccountGrant, Alias, Caller, Config, Credential, Delivery, Details, Domain, Error, Expected,
    HttpRequest, HttpResponse, Identity, Kind, Level, Log, OwnerModule, Scope, Sent, TeamMember,
    Timestamp, Token,
};
use crate::scope;

/// The account that is signed in initially.
const ADA: &str = "ada@example.test";

/// A fake host with accounts, settings and a log in memory. The fake host implements every
/// capability and has one caller at a time.
///
/// Initially `ada@example.test` is signed in with a web session. Signing in with an unknown address
/// creates an account with an empty mailbox. Functions that change or return the data of the
/// signed-in account panic if no account is signed in.
#[derive(Debug)]
pub struct FakeHost {
    caller: RefCell<Identity>,
    /// Whether the caller is the caller of a handler.
    is_handler: Cell<bool>,
    accounts: RefCell<BTreeMap<String, Account>>,
    settings: RefCell<BTreeMap<String, String>>,
    lines: RefCell<Vec<(Level, String)>>,
    fault: RefCell<Option<Error>>,
    calls: Cell<usize>,
    now: Cell<Timestamp>,
    /// The number in the last created id of each kind of object, for example `alias` or `grant`.
    numbers: RefCell<BTreeMap<&'static str, u64>>,
    /// The responses of other servers, by method and URL.
    responses: RefCell<BTreeMap<(String, String), Result<HttpResponse, Error>>>,
    requests: RefCell<Vec<HttpRequest>>,
}

/// The data of an account.
#[derive(Debug, Default)]
struct Account {
    address: String,
    password: String,
    /// `None` if the operator created the account.
    profile: Option<Details>,
    mail: mail::Mail,
    sent: Vec<(Rc<SentMessage>, Sent)>,
    sending_fault: Option<Error>,
    /// The deliveries of sent messages.
    deliveries: Vec<Delivery>,
    uploads: Vec<outbox::Upload>,
    later: Vec<outbox::Later>,
    draft_values: Vec<drafts::DraftValues>,
    aliases: Vec<Alias>,
    domains: Vec<Domain>,
    /// The names of domains with a published challenge.
    proved_domains: Vec<String>,
    records: Vec<Expected>,
    tokens: Vec<Token>,
    revoked_tokens: Vec<String>,
    /// The times of the suspensions of API tokens, by the id of the token.
    suspended_tokens: BTreeMap<String, Timestamp>,
    oauth_grants: Vec<AccountGrant>,
    /// All credentials, oldest first.
    credentials: Vec<Credential>,
    values: store::Values,
    filters: filters::StoredFilters,
    webhooks: Vec<webhooks::StoredWebhook>,
    subscriptions: Vec<webhooks::StoredSubscription>,
    modules: Vec<OwnerModule>,
    /// The reason why receivers of subscriptions fail.
    callback_fault: Option<String>,
    /// The members of the mailbox without the owner, sorted by address.
    members: Vec<TeamMember>,
}

impl Account {
    fn new(address: &str, now: Timestamp) -> Self {
        let profile = Details {
            address: address.into(),
            first_name: "Ada".into(),
            last_name: "Lovelace".into(),
            dob: "1990-12-10".into(),
            created_at: now,
        };
        let session = credentials::credential("session", "Web session", Kind::Session, now);
        Self {
            address: address.into(),
            password: "Correct-Horse-7".into(),
            profile: Some(profile),
            credentials: vec![session],
            ..Self::default()
        }
    }
}

/// The required credential of a capability.
#[derive(Clone, Copy)]
enum Need {
    Caller,
    Scope(Scope),
    Session,
}

impl Default for FakeHost {
    fn default() -> Self {
        let host = Self {
            caller: RefCell::new(identity(Kind::Anonymous, "", &[])),
            is_handler: Cell::new(false),
            accounts: RefCell::default(),
            settings: RefCell::default(),
            lines: RefCell::default(),
            fault: RefCell::default(),
            calls: Cell::new(0),
            now: Cell::new(NOW),
            numbers: RefCell::default(),
            responses: RefCell::default(),
            requests: RefCell::default(),
        };
        host.sign_in(ADA);
        host
    }
}

impl FakeHost {
    /// Creates a host in which `ada@example.test` is signed in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a host in which every capability fails with this error. A capability that refuses
    /// the caller's credential still returns its usual error.
    #[must_use]
    pub fn failing(error: Error) -> Self {
        let host = Self::default();
        host.fail(error);
        host
    }

    /// Signs in an account with a web session. Creates the account if it does not exist.
    pub fn sign_in(&self, address: &str) {
        let scopes = scope::ALL.map(|(scope, _)| scope);
        *self.caller.borrow_mut() = identity(Kind::Session, address, &scopes);
        self.is_handler.set(false);
        let now = self.now();
        let mut accounts = self.accounts.borrow_mut();
        accounts
            .entry(address.into())
            .or_insert_with(|| Account::new(address, now));
    }

    /// Changes the credential of the signed-in account to an API token with these scopes.
    #[track_caller]
    pub fn use_token(&self, scopes: &[Scope]) {
        self.use_credential(Kind::ApiToken, scopes);
    }

    /// Changes the credential of the signed-in account to an OAuth access token. The token can read
    /// mail, change mail and read aliases.
    #[track_caller]
    pub fn use_oauth(&self) {
        self.use_credential(
            Kind::Oauth,
            &[Scope::MailRead, Scope::MailWrite, Scope::AliasesRead],
        );
    }

    /// Changes the credential of the signed-in account to an OAuth access token with these scopes.
    /// In the real host, the operator's configuration determines which scopes such a token can
    /// have.
    #[track_caller]
    pub fn use_grant(&self, scopes: &[Scope]) {
        self.use_credential(Kind::Oauth, scopes);
    }

    /// Changes the credential of the signed-in account to an app password, which has the scopes of
    /// mail.
    #[track_caller]
    pub fn use_app_password(&self) {
        let scopes = [Scope::MailRead, Scope::MailSend, Scope::MailWrite];
        self.use_credential(Kind::AppPassword, &scopes);
    }

    #[track_caller]
    fn use_credential(&self, kind: Kind, scopes: &[Scope]) {
        let address = self.signed_in();
        *self.caller.borrow_mut() = identity(kind, &address, scopes);
        self.is_handler.set(false);
    }

    /// Signs out. Requests then have no caller.
    pub fn sign_out(&self) {
        *self.caller.borrow_mut() = identity(Kind::Anonymous, "", &[]);
        self.is_handler.set(false);
    }

    /// Sets whether the signed-in account is an administrator.
    pub fn be_admin(&self, admin: bool) {
        self.caller.borrow_mut().admin = admin;
    }

    /// Calls `act` without a caller, as for a request to a public route.
    pub(super) fn anonymously<T>(&self, act: impl FnOnce() -> T) -> T {
        let caller = self.caller.replace(identity(Kind::Anonymous, "", &[]));
        let done = act();
        self.caller.replace(caller);
        done
    }

    /// Sets a setting of the module. In the real host, the operator writes the setting under
    /// `[modules.<name>.config]`.
    pub fn set(&self, key: &str, value: &str) {
        let mut settings = self.settings.borrow_mut();
        settings.insert(key.into(), value.into());
    }

    /// Makes every capability fail with this error. A capability that refuses the caller's
    /// credential still returns its usual error.
    pub fn fail(&self, error: Error) {
        *self.fault.borrow_mut() = Some(error);
    }

    /// Undoes the effect of [`FakeHost::fail`].
    pub fn recover(&self) {
        *self.fault.borrow_mut() = None;
    }

    /// Returns the number of calls to functions that need a caller. The number includes failed
    /// calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.get()
    }

    /// Returns the lines that the module wrote to the log.
    #[must_use]
    pub fn log(&self) -> Vec<(Level, String)> {
        self.lines.borrow().clone()
    }

    /// Returns the current time of the host.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// Advances the clock of the host. The clock determines the creation times of objects. The
    /// module's own clock does not change.
    pub fn advance(&self, by: std::time::Duration) {
        let by = Timestamp::try_from(by.as_millis()).unwrap_or(Timestamp::MAX);
        self.now.set(self.now().saturating_add(by));
    }

    /// Calls `act` with the signed-in account. Does not check the caller's credential.
    #[track_caller]
    fn with_account<T>(&self, act: impl FnOnce(&mut Account) -> T) -> T {
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
        assert!(!address.is_empty(), "no account is signed in");
        address
    }

    /// Returns the address of the caller's account. Fails if the caller's credential is not
    /// sufficient.
    fn authorize(&self, need: Need) -> Result<String, Error> {
        self.calls.set(self.calls.get() + 1);
        let caller = self.caller.borrow();
        if caller.kind() == Kind::Anonymous {
            return Err(Error::denied(codes::NO_CALLER, "There is no caller"));
        }
        match need {
            Need::Scope(scope) if !caller.holds(scope) => {
                let text = missing(scope::name(scope));
                return Err(Error::denied(codes::MISSING_SCOPE, text));
            }
            Need::Session if caller.kind() != Kind::Session || self.is_handler.get() => {
                return Err(Error::denied(codes::SESSION_REQUIRED, SESSION_ONLY));
            }
            Need::Caller | Need::Scope(_) | Need::Session => {}
        }
        self.check_fault()?;
        Ok(caller.address.clone())
    }

    /// Calls `act` with the caller's account. Fails if the caller's credential is not sufficient.
    fn allow<T>(
        &self,
        need: Need,
        act: impl FnOnce(&mut Account) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.authorize(need)?;
        self.with_account(act)
    }

    /// Returns a new number for the id of an object of this kind.
    fn next_number(&self, kind: &'static str) -> u64 {
        let mut numbers = self.numbers.borrow_mut();
        let last = numbers.entry(kind).or_default();
        *last += 1;
        *last
    }

    /// Returns the error that [`FakeHost::fail`] set, if there is one.
    fn check_fault(&self) -> Result<(), Error> {
        self.fault.borrow().clone().map_or(Ok(()), Err)
    }
}

/// Makes the caller that of a handler, which acts for the signed-in account. `scopes` are the
/// scopes that the operator granted to the module.
#[track_caller]
pub fn use_handler(host: &FakeHost, scopes: &[Scope]) {
    host.use_credential(Kind::Session, scopes);
    host.is_handler.set(true);
}

/// The error message for a request with a token if a web session is required.
pub(super) const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";

/// Returns the error message for a token that lacks a scope.
pub(super) fn missing(scope: &str) -> String {
    format!("This credential is missing the \"{scope}\" scope")
}

fn identity(kind: Kind, address: &str, scopes: &[Scope]) -> Identity {
    // The scopes are in canonical order, even if the test uses another order.
    let all = scope::ALL.iter().map(|(scope, _)| *scope);
    let scopes: Vec<Scope> = all.filter(|scope| scopes.contains(scope)).collect();
    Identity {
        kind: kind.name().into(),
        address: address.into(),
        admin: false,
        scopes: scope::names(&scopes),
    }
}

impl Caller for FakeHost {
    fn current(&self) -> Identity {
        self.caller.borrow().clone()
    }

    fn is_handler(&self) -> bool {
        self.is_handler.get()
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
