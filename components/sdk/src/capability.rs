//! What a module may ask of the host: one trait an interface of the contract, and [`Host`], which asks it for real.
//!
//! A handler names the traits it needs (`fn list(host: &impl Mailbox, …)`), so a test can answer in the host's place.

pub use crate::bindings::latchmail::host::aliases::Alias;
pub use crate::bindings::latchmail::host::caller::{Identity, Kind};
pub use crate::bindings::latchmail::host::credentials::{
    CreatedAppPassword, CreatedToken, Credential, Kind as CredentialKind, Revocation, Token,
    TokenReference,
};
pub use crate::bindings::latchmail::host::domains::{
    Challenge, Claimed, Domain, Expected, Held as HeldDomains, Inspected, RecordKind, Verification,
};
pub use crate::bindings::latchmail::host::http_client::{
    Request as HttpRequest, Response as HttpResponse,
};
pub use crate::bindings::latchmail::host::log::Level;
pub use crate::bindings::latchmail::host::mailbox::{
    Address, Attachment, Detail, FlagAction, Folder, IdentifiedFolder, Listing, Page, Role, Summary,
};
pub use crate::bindings::latchmail::host::outbox::Sent;
pub use crate::bindings::latchmail::host::profile::{Changes, Details, PasswordChange};
pub use crate::bindings::latchmail::host::teams::{
    Grant, Invited as InvitedMember, Member as TeamMember, Missing, NewGrant, Refused, Right,
    Role as TeamRole, Summary as TeamSummary, Target, Team,
};
pub use crate::bindings::latchmail::host::types::{Error, Scope, Timestamp};
use crate::bindings::latchmail::host::{
    aliases, blobs, caller, config, credentials, domains, http_client, log, mailbox, outbox,
    profile, store, teams,
};

/// Bytes that stay with the host, to be handed on as the body of an answer.
#[derive(Debug)]
pub enum Blob {
    /// The host's, by its handle.
    Host(blobs::Blob),
    /// Those of a test that answers in the host's place.
    Bytes(Vec<u8>),
}

/// Who is asking.
pub trait Caller {
    /// The caller of this request.
    fn current(&self) -> Identity;

    /// Presents the two-factor code of this request, for functions that take the account's password. Does nothing unless a host overrides it.
    fn present_code(&self, _code: &str) {}
}

/// The caller's mail. Reading needs `mail:read`, changing `mail:write`. Each function may also answer `CredentialRefused`, `Unavailable`, `Denied` or
/// `Internal`; those that change something `Rejected` and `OutcomeUnknown`. A number that names nothing is passed over by a change, which answers those
/// of the messages that there were.
pub trait Mailbox {
    /// All folders: those with a role first, in the order of [`Role`], then the rest by path.
    ///
    /// # Errors
    /// As the trait says.
    fn list_folders(&self) -> Result<Vec<Folder>, Error>;

    /// The same, each with its id: opaque, and the same as long as the folder exists, whatever it is called.
    ///
    /// # Errors
    /// As the trait says.
    fn list_identified_folders(&self) -> Result<Vec<IdentifiedFolder>, Error>;

    /// A stretch of a folder, newest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such folder; [`Error::Invalid`] for a limit that is not 1 to 100.
    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error>;

    /// One message by its number, wherever it is; `folder` is a hint of where to look first.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such message.
    fn get_message(&self, uid: u64, folder: Option<&str>) -> Result<Detail, Error>;

    /// One attachment by its message's number and its own; none where only the attachment is missing.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such message; [`Error::TooLarge`] where the attachment lies beyond what is read of one.
    fn get_attachment(
        &self,
        uid: u64,
        index: u32,
        folder: Option<&str>,
    ) -> Result<Option<(Attachment, Blob)>, Error>;

    /// A stretch of those messages of a folder that have `term` in their subject, sender, recipients or body, whatever its case; newest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such folder; [`Error::Invalid`] for a term that cannot be searched for.
    fn search_messages(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error>;

    /// Sets flags or takes them away.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flag that may not be set.
    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error>;

    /// Moves messages to a folder; they keep their numbers.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such folder.
    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error>;

    /// Removes messages for good.
    ///
    /// # Errors
    /// As the trait says.
    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error>;
}

/// A file that goes along with a message.
#[derive(Debug)]
pub struct File {
    /// Its name: any Unicode but control characters.
    pub filename: String,
    /// Its media type, `type/subtype`, without parameters.
    pub content_type: String,
    /// Its bytes.
    pub content: Blob,
}

/// A message to be sent.
#[derive(Debug, Default)]
pub struct Draft {
    /// The sender, bare.
    pub from: String,
    /// Who is named in To.
    pub to: Vec<Address>,
    /// Who is named in Cc.
    pub cc: Vec<Address>,
    /// Who gets it and is named nowhere.
    pub bcc: Vec<Address>,
    /// The subject, on one line.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML.
    pub html: Option<String>,
    /// The Message-ID replied to, angle brackets included.
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the conversation, angle brackets included.
    pub references: Vec<String>,
    /// The files.
    pub files: Vec<File>,
}

/// Sending as the caller. Needs `mail:send`.
pub trait Outbox {
    /// Whether the caller may send from an address.
    ///
    /// # Errors
    /// [`Error::Denied`] where it may not; [`Error::Internal`] where that cannot be told.
    fn check_sender(&self, address: &str) -> Result<(), Error>;

    /// Sends a message to everybody or to nobody, and files a copy. The same `key` within 24 hours answers what it answered first and sends nothing.
    ///
    /// # Errors
    /// Any: see `wit/outbox.wit`.
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error>;
}

/// What the owner of the caller's account said of themselves, and its password.
pub trait Profile {
    /// The profile. Needs `profile:read`.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the account has none.
    fn get(&self) -> Result<Details, Error>;

    /// Changes the profile, or makes it where there is none and nothing is missing. Needs a web session.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what will not do; [`Error::NotFound`] where there is none and something is missing.
    fn update(&self, changes: &Changes) -> Result<(), Error>;

    /// Changes the password. Needs a web session, which goes on; all else that signed in with it ends, mail clients aside.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a new password that will not do.
    fn change_password(&self, current: &str, new: &str) -> Result<PasswordChange, Error>;
}

/// What acts for the caller's account. Each function needs a web session.
pub trait Credentials {
    /// Makes an API token that works for so many days, or until it is revoked.
    ///
    /// # Errors
    /// [`Error::Conflict`] where the account holds `at_most` tokens or more.
    fn create_token(
        &self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        at_most: u32,
    ) -> Result<CreatedToken, Error>;

    /// The API tokens, newest first: expired ones among them, revoked ones not.
    ///
    /// # Errors
    /// [`Error::Internal`].
    fn list_tokens(&self) -> Result<Vec<Token>, Error>;

    /// Revokes an API token. To revoke it once more is no error.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the account never had it.
    fn revoke_token(&self, id: &str) -> Result<(), Error>;

    /// Makes an app password for a mail client.
    ///
    /// # Errors
    /// [`Error::Conflict`] where the account has too many.
    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error>;

    /// All that can reach the account, newest first.
    ///
    /// # Errors
    /// [`Error::Internal`].
    fn list_credentials(&self) -> Result<Vec<Credential>, Error>;

    /// Revokes an app password that acts for no API token.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the account has none of this id.
    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error>;
}

/// Further addresses of the caller. Reading needs `aliases:read`, changing `aliases:write`. Each function may also answer `Denied` and `Internal`; those
/// that change something `CredentialRefused`.
pub trait Aliases {
    /// The aliases, by address.
    ///
    /// # Errors
    /// As the trait says.
    fn list_aliases(&self) -> Result<Vec<Alias>, Error>;

    /// The domains that the caller may have aliases on: the platform's, then its own.
    ///
    /// # Errors
    /// As the trait says.
    fn alias_domains(&self) -> Result<Vec<String>, Error>;

    /// Makes an alias. `name` is the local part.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that will not do there, or a domain that there may be no aliases on; [`Error::Conflict`]
    /// where the address is, or was, somebody's; [`Error::TooLarge`] where the caller has as many as an account may.
    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error>;

    /// Whether an alias could be made now. Nothing is held.
    ///
    /// # Errors
    /// What making it would answer.
    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error>;

    /// Switches an alias on or off. To switch it to what it is, is no error.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the caller has no alias of this id.
    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error>;

    /// Deletes an alias. What was delivered through it stays.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the caller has no alias of this id.
    fn delete_alias(&self, id: u64) -> Result<(), Error>;
}

/// The caller's own domains. Each function needs a web session. A domain is named in any letters: the host folds it.
pub trait Domains {
    /// The domains, newest first, with what the plan allows.
    ///
    /// # Errors
    /// [`Error::Internal`].
    fn list_domains(&self) -> Result<HeldDomains, Error>;

    /// Claims a domain.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no domain of one's own; [`Error::Conflict`] where it is somebody else's; [`Error::Denied`] where the plan has
    /// none, [`Error::TooLarge`] where all of them are in use.
    fn claim_domain(&self, name: &str) -> Result<Claimed, Error>;

    /// A domain and the state of its records.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the account does not have it.
    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error>;

    /// Looks for the proof of a claim, and makes the domain active where it is found.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the account does not have it; [`Error::Invalid`] where it became the platform's; [`Error::Unavailable`] where the DNS
    /// cannot be read.
    fn verify_domain(&self, name: &str) -> Result<Verification, Error>;

    /// Gives a domain up.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the account does not have it; [`Error::Conflict`] where there are aliases on it.
    fn release_domain(&self, name: &str) -> Result<(), Error>;
}

/// Shared mailboxes: the caller's own and those of others. Each function needs a web session. Who is in a team, and who may do what to it, the host judges.
/// Each that changes something may also answer [`Refused::Failed`] with `Denied` where the caller may not manage the members, and with `CredentialRefused`.
pub trait Teams {
    /// The teams that the caller is in: its own mailbox first, then those that are shared with it, by address.
    ///
    /// # Errors
    /// [`Error::Internal`].
    fn list_teams(&self) -> Result<Vec<TeamSummary>, Error>;

    /// A team and who is in it.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such team, or the caller is not in it.
    fn team(&self, team: &str) -> Result<Team, Error>;

    /// Makes somebody a member at once, with a first grant. `password` is the caller's own.
    ///
    /// # Errors
    /// [`Refused::Missing`]; [`Refused::Failed`] with `Denied` for a wrong password and for a right that the caller does not hold, `Invalid` for what can be
    /// nobody's wish, `Conflict` for a member already and for a plan without a free place, `Unavailable` where a key was needed and there is no mail server.
    fn invite_member(
        &self,
        team: &str,
        username: &str,
        password: &str,
        grant: &NewGrant,
    ) -> Result<InvitedMember, Refused>;

    /// Grants a member something more. Answers the grant's id.
    ///
    /// # Errors
    /// [`Refused::Missing`]; [`Refused::Failed`] with `Denied` for a right that the caller does not hold, and `Invalid`.
    fn add_grant(&self, team: &str, member: &str, grant: &NewGrant) -> Result<String, Refused>;

    /// Gives a grant other rights.
    ///
    /// # Errors
    /// As [`Teams::add_grant`].
    fn change_grant(&self, team: &str, grant: &str, rights: &[Right]) -> Result<(), Refused>;

    /// Takes a grant back. Its holder stays a member.
    ///
    /// # Errors
    /// [`Refused::Missing`].
    fn revoke_grant(&self, team: &str, grant: &str) -> Result<(), Refused>;

    /// Removes a member; the caller itself, too.
    ///
    /// # Errors
    /// [`Refused::Missing`]; [`Refused::Failed`] with `Denied` for the owner.
    fn remove_member(&self, team: &str, member: &str) -> Result<(), Refused>;
}

/// Keys and values that the module keeps for the caller's account. A key is 1 to 256 bytes without control characters, a value at most 65,536 bytes. Each
/// function may also answer `Denied` (where there is no caller), `Invalid` (for another key) and `Internal`; those that change something
/// `CredentialRefused`.
pub trait Store {
    /// The value of a key; none where there is none.
    ///
    /// # Errors
    /// As the trait says.
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Gives a key a value, whatever it had before.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a larger value, and where there is no room for it in the module's quota.
    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error>;

    /// Takes a key away. To take one away that is not there is no error.
    ///
    /// # Errors
    /// As the trait says.
    fn delete_value(&self, key: &str) -> Result<(), Error>;

    /// Gives a key a value, or takes it away where `value` is none, provided that it has the value that was expected; none: that it has no value. Whether
    /// it had, in one step that no other change comes between.
    ///
    /// # Errors
    /// [`Error::TooLarge`] as [`Store::set_value`].
    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error>;

    /// The keys that begin with `prefix`, in the order of their bytes, from the first one beyond `after` on.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that is not 1 to 1,000.
    fn list_keys(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error>;
}

/// HTTP requests to the hosts that the operator listed for the module. Redirects are not followed.
pub trait HttpClient {
    /// Sends a request and waits for the whole of its answer, whatever its status.
    ///
    /// # Errors
    /// [`Error::Denied`] for a host that is not listed, or at an address that may not be reached; [`Error::Invalid`] for what makes no request;
    /// [`Error::TooLarge`] for a request or an answer of more than 4 MiB; [`Error::Unavailable`] where no answer came and nothing was changed by asking;
    /// [`Error::OutcomeUnknown`] where the request was begun and no whole answer came.
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error>;
}

/// The host's log.
pub trait Log {
    /// Writes one line. Never message content or secrets.
    fn write(&self, level: Level, message: &str);
}

/// The module's own settings.
pub trait Config {
    /// One setting; none where it is not set.
    fn get(&self, key: &str) -> Option<String>;
}

/// The real host, asked through the sandbox's imports. Only a component has one: anywhere else its functions panic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Caller for Host {
    fn current(&self) -> Identity {
        caller::current()
    }

    fn present_code(&self, code: &str) {
        caller::present_code(code);
    }
}

impl Mailbox for Host {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        mailbox::list_folders()
    }

    fn list_identified_folders(&self) -> Result<Vec<IdentifiedFolder>, Error> {
        mailbox::list_identified_folders()
    }

    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error> {
        mailbox::list_messages(folder, page)
    }

    fn get_message(&self, uid: u64, folder: Option<&str>) -> Result<Detail, Error> {
        mailbox::get_message(uid, folder)
    }

    fn get_attachment(
        &self,
        uid: u64,
        index: u32,
        folder: Option<&str>,
    ) -> Result<Option<(Attachment, Blob)>, Error> {
        let found = mailbox::get_attachment(uid, index, folder)?;
        Ok(found.map(|found| (found.attachment, Blob::Host(found.content))))
    }

    fn search_messages(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error> {
        mailbox::search_messages(folder, term, page)
    }

    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error> {
        mailbox::set_flags(uids, flags, action)
    }

    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error> {
        mailbox::move_messages(uids, destination)
    }

    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        mailbox::delete_messages(uids)
    }
}

impl Outbox for Host {
    fn check_sender(&self, address: &str) -> Result<(), Error> {
        outbox::check_sender(address)
    }

    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        let file = |file: File| match file.content {
            Blob::Host(content) => Ok(outbox::File {
                filename: file.filename,
                content_type: file.content_type,
                content,
            }),
            // Bytes of a module's own never came from a request.
            Blob::Bytes(_) => Err(Error::Internal),
        };
        let draft = outbox::Draft {
            files: draft
                .files
                .into_iter()
                .map(file)
                .collect::<Result<_, _>>()?,
            from: draft.from,
            to: draft.to,
            cc: draft.cc,
            bcc: draft.bcc,
            subject: draft.subject,
            text: draft.text,
            html: draft.html,
            in_reply_to: draft.in_reply_to,
            references: draft.references,
        };
        outbox::send(draft, key)
    }
}

impl Profile for Host {
    fn get(&self) -> Result<Details, Error> {
        profile::get()
    }

    fn update(&self, changes: &Changes) -> Result<(), Error> {
        profile::update(changes)
    }

    fn change_password(&self, current: &str, new: &str) -> Result<PasswordChange, Error> {
        profile::change_password(current, new)
    }
}

impl Credentials for Host {
    fn create_token(
        &self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        at_most: u32,
    ) -> Result<CreatedToken, Error> {
        credentials::create_token(label, scopes, days, at_most)
    }

    fn list_tokens(&self) -> Result<Vec<Token>, Error> {
        credentials::list_tokens()
    }

    fn revoke_token(&self, id: &str) -> Result<(), Error> {
        credentials::revoke_token(id)
    }

    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error> {
        credentials::create_app_password(label)
    }

    fn list_credentials(&self) -> Result<Vec<Credential>, Error> {
        credentials::list_credentials()
    }

    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error> {
        credentials::revoke_app_password(id)
    }
}

impl Aliases for Host {
    fn list_aliases(&self) -> Result<Vec<Alias>, Error> {
        aliases::list()
    }

    fn alias_domains(&self) -> Result<Vec<String>, Error> {
        aliases::domains()
    }

    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error> {
        aliases::create(name, domain)
    }

    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error> {
        aliases::check(name, domain)
    }

    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error> {
        aliases::set_active(id, active)
    }

    fn delete_alias(&self, id: u64) -> Result<(), Error> {
        aliases::delete(id)
    }
}

impl Domains for Host {
    fn list_domains(&self) -> Result<HeldDomains, Error> {
        domains::list()
    }

    fn claim_domain(&self, name: &str) -> Result<Claimed, Error> {
        domains::claim(name)
    }

    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error> {
        domains::inspect(name)
    }

    fn verify_domain(&self, name: &str) -> Result<Verification, Error> {
        domains::verify(name)
    }

    fn release_domain(&self, name: &str) -> Result<(), Error> {
        domains::release(name)
    }
}

impl Teams for Host {
    fn list_teams(&self) -> Result<Vec<TeamSummary>, Error> {
        teams::list()
    }

    fn team(&self, team: &str) -> Result<Team, Error> {
        teams::members(team)
    }

    fn invite_member(
        &self,
        team: &str,
        username: &str,
        password: &str,
        grant: &NewGrant,
    ) -> Result<InvitedMember, Refused> {
        teams::invite(team, username, password, grant)
    }

    fn add_grant(&self, team: &str, member: &str, grant: &NewGrant) -> Result<String, Refused> {
        teams::add_grant(team, member, grant)
    }

    fn change_grant(&self, team: &str, grant: &str, rights: &[Right]) -> Result<(), Refused> {
        teams::change_grant(team, grant, rights)
    }

    fn revoke_grant(&self, team: &str, grant: &str) -> Result<(), Refused> {
        teams::revoke_grant(team, grant)
    }

    fn remove_member(&self, team: &str, member: &str) -> Result<(), Refused> {
        teams::remove_member(team, member)
    }
}

impl Store for Host {
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        store::get(key)
    }

    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        store::set(key, value)
    }

    fn delete_value(&self, key: &str) -> Result<(), Error> {
        store::delete(key)
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        store::compare_and_set(key, expected, value)
    }

    fn list_keys(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        store::list(prefix, after, limit)
    }
}

impl HttpClient for Host {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        http_client::send(request)
    }
}

impl Log for Host {
    fn write(&self, level: Level, message: &str) {
        log::write(level, message);
    }
}

impl Config for Host {
    fn get(&self, key: &str) -> Option<String> {
        config::get(key)
    }
}
