//! The functions of the host that a module can call: one trait for each interface of the contract, and [`Host`], which implements them with
//! the real host.
//!
//! A handler names the traits that it needs (`fn list(host: &impl Mailbox, …)`), so a test can implement them instead of the host.

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
    Address, Attachment, AuthenticatedMessage, Authentication, Detail, FlagAction, Folder,
    IdentifiedFolder, Listing, Page, Role, Summary, Verdict,
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

/// Bytes that stay in the host. A module can pass them on as the body of a response or as an attached file.
#[derive(Debug)]
pub enum Blob {
    /// Bytes in the host, referenced by a handle.
    Host(blobs::Blob),
    /// Bytes of a test that replaces the host.
    Bytes(Vec<u8>),
}

/// The caller of the request.
pub trait Caller {
    /// Returns the caller of this request.
    fn current(&self) -> Identity;

    /// Passes the two-factor code of this request to functions that take the account's password. The default implementation does nothing.
    fn present_code(&self, _code: &str) {}
}

/// The caller's mail. Reading needs the scope `mail:read`, changes need `mail:write`.
///
/// Every function can return `CredentialRefused`, `Unavailable`, `Denied` or `Internal`. A function that changes something can also return
/// `Rejected` and `OutcomeUnknown`. Changes skip `uids` that do not exist and return the `uids` of the existing messages.
pub trait Mailbox {
    /// Returns all folders: first those with a role, in the order of [`Role`], then the others by path.
    ///
    /// # Errors
    /// Only the errors that the trait names.
    fn list_folders(&self) -> Result<Vec<Folder>, Error>;

    /// Returns all folders with their ids. An id is opaque and stays the same for the lifetime of the folder, even if the folder is
    /// renamed.
    ///
    /// # Errors
    /// Only the errors that the trait names.
    fn list_identified_folders(&self) -> Result<Vec<IdentifiedFolder>, Error>;

    /// Returns a page of a folder's messages, newest first.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist, and [`Error::Invalid`] if the limit is not 1 to 100.
    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error>;

    /// Returns a message of any folder by its `uid`. `folder` is a hint where to look first.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist.
    fn get_message(&self, uid: u64, folder: Option<&str>) -> Result<Detail, Error>;

    /// Returns the same message, and whether its sender is authenticated. The default implementation knows nothing of the sender.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist.
    fn get_authenticated_message(
        &self,
        uid: u64,
        folder: Option<&str>,
    ) -> Result<AuthenticatedMessage, Error> {
        let authentication = Authentication {
            verdict: Verdict::None,
            domain: None,
        };
        self.get_message(uid, folder)
            .map(|detail| AuthenticatedMessage {
                detail,
                authentication,
            })
    }

    /// Returns an attachment by the message's `uid` and the attachment's index. Returns `None` if the message exists and the attachment
    /// does not.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist, and [`Error::TooLarge`] if the attachment is beyond the part of the
    /// message that the host reads.
    fn get_attachment(
        &self,
        uid: u64,
        index: u32,
        folder: Option<&str>,
    ) -> Result<Option<(Attachment, Blob)>, Error>;

    /// Returns a page of a folder's messages that contain `term` in the subject, sender, recipients or body, newest first. Case is ignored.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist, and [`Error::Invalid`] for a term that cannot be searched for.
    fn search_messages(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error>;

    /// Adds or removes flags.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for a flag that must not be set.
    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error>;

    /// Moves messages to a folder. The messages keep their `uid`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist.
    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error>;

    /// Deletes messages permanently.
    ///
    /// # Errors
    /// Only the errors that the trait names.
    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error>;
}

/// A file that is attached to a message.
#[derive(Debug)]
pub struct File {
    /// File name: any Unicode except control characters.
    pub filename: String,
    /// Media type, `type/subtype`, without parameters.
    pub content_type: String,
    /// Content of the file.
    pub content: Blob,
}

/// A message to send.
#[derive(Debug, Default)]
pub struct Draft {
    /// Address of the sender, without a display name.
    pub from: String,
    /// Recipients in To.
    pub to: Vec<Address>,
    /// Recipients in Cc.
    pub cc: Vec<Address>,
    /// Recipients that no header names.
    pub bcc: Vec<Address>,
    /// Subject, on one line.
    pub subject: String,
    /// Plain text body.
    pub text: Option<String>,
    /// HTML body.
    pub html: Option<String>,
    /// Message-ID of the message that is replied to, with angle brackets.
    pub in_reply_to: Option<String>,
    /// Message-IDs of the conversation, with angle brackets.
    pub references: Vec<String>,
    /// Attached files.
    pub files: Vec<File>,
}

/// Sends mail as the caller. Needs the scope `mail:send`.
pub trait Outbox {
    /// Checks that the caller may send from an address.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller may not, and [`Error::Internal`] if the check fails.
    fn check_sender(&self, address: &str) -> Result<(), Error>;

    /// Sends a message to all recipients or to none, and files a copy. A second call with the same `key` within 24 hours returns the first
    /// result and sends nothing.
    ///
    /// # Errors
    /// Can return any error; see `wit/outbox.wit`.
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error>;
}

/// The profile and the password of the caller's account.
pub trait Profile {
    /// Returns the profile. Needs the scope `profile:read`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account has no profile.
    fn get(&self) -> Result<Details, Error>;

    /// Changes the profile. Creates it if there is none and all fields are given. Needs a web session.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for an invalid value, and [`Error::NotFound`] if there is no profile and a field is missing.
    fn update(&self, changes: &Changes) -> Result<(), Error>;

    /// Changes the password. Needs a web session, which continues. All other credentials of the account end, except app passwords of mail
    /// clients.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for an invalid new password.
    fn change_password(&self, current: &str, new: &str) -> Result<PasswordChange, Error>;
}

/// The credentials of the caller's account. Each function needs a web session.
pub trait Credentials {
    /// Creates an API token that expires after `days` days, or never if `days` is `None`.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if the account has `at_most` tokens or more.
    fn create_token(
        &self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        at_most: u32,
    ) -> Result<CreatedToken, Error>;

    /// Returns the API tokens, newest first. Includes expired tokens and excludes revoked tokens.
    ///
    /// # Errors
    /// Returns [`Error::Internal`].
    fn list_tokens(&self) -> Result<Vec<Token>, Error>;

    /// Revokes an API token. Revoking a token again is not an error.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account never had the token.
    fn revoke_token(&self, id: &str) -> Result<(), Error>;

    /// Creates an app password for a mail client.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if the account has reached the limit.
    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error>;

    /// Returns all credentials of the account, newest first.
    ///
    /// # Errors
    /// Returns [`Error::Internal`].
    fn list_credentials(&self) -> Result<Vec<Credential>, Error>;

    /// Revokes an app password, unless it belongs to an API token.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account has no app password with this id.
    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error>;
}

/// The caller's aliases. Reading needs the scope `aliases:read`, changes need `aliases:write`.
///
/// Every function can return `Denied` and `Internal`. A function that changes something can also return `CredentialRefused`.
pub trait Aliases {
    /// Returns the aliases, sorted by address.
    ///
    /// # Errors
    /// Only the errors that the trait names.
    fn list_aliases(&self) -> Result<Vec<Alias>, Error>;

    /// Returns the domains on which the caller can create aliases: first the platform domains, then the caller's own domains.
    ///
    /// # Errors
    /// Only the errors that the trait names.
    fn alias_domains(&self) -> Result<Vec<String>, Error>;

    /// Creates an alias. `name` is the local part.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for a name that is not allowed on the domain or a domain on which the caller cannot create aliases,
    /// [`Error::Conflict`] if the address is in use or reserved, and [`Error::TooLarge`] if the account has reached its limit.
    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error>;

    /// Checks that an alias could be created now. Does not reserve the address.
    ///
    /// # Errors
    /// Returns the errors of [`Aliases::create_alias`].
    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error>;

    /// Activates or deactivates an alias. Setting the current state is not an error.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller has no alias with this id.
    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error>;

    /// Deletes an alias. Mail that was delivered through it stays.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller has no alias with this id.
    fn delete_alias(&self, id: u64) -> Result<(), Error>;
}

/// The caller's own domains. Each function needs a web session. The host folds domain names to lower case.
pub trait Domains {
    /// Returns the domains, newest first, and the number that the plan allows.
    ///
    /// # Errors
    /// Returns [`Error::Internal`].
    fn list_domains(&self) -> Result<HeldDomains, Error>;

    /// Claims a domain.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the name is not a registrable domain, [`Error::Conflict`] if the domain belongs to another account,
    /// [`Error::Denied`] if the plan allows no domains, and [`Error::TooLarge`] if the account has as many domains as its plan allows.
    fn claim_domain(&self, name: &str) -> Result<Claimed, Error>;

    /// Returns a domain and the state of its DNS records.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account does not have the domain.
    fn inspect_domain(&self, name: &str) -> Result<Inspected, Error>;

    /// Looks up the challenge of a claim in the DNS, and activates the domain if the challenge is found.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account does not have the domain, [`Error::Invalid`] if the domain is now a platform domain, and
    /// [`Error::Unavailable`] if the DNS lookup fails.
    fn verify_domain(&self, name: &str) -> Result<Verification, Error>;

    /// Releases a domain.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account does not have the domain, and [`Error::Conflict`] if it has aliases on the domain.
    fn release_domain(&self, name: &str) -> Result<(), Error>;
}

/// Shared mailboxes, which are called teams: the caller's own and those of other accounts. Each function needs a web session. The host
/// checks who is a member of a team and who may change it.
///
/// A function that changes something can also return [`Refused::Failed`] with `Denied` if the caller may not manage the members, and with
/// `CredentialRefused`.
pub trait Teams {
    /// Returns the caller's teams: first the caller's own mailbox, then the mailboxes that are shared with the caller, sorted by address.
    ///
    /// # Errors
    /// Returns [`Error::Internal`].
    fn list_teams(&self) -> Result<Vec<TeamSummary>, Error>;

    /// Returns a team and its members.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the team does not exist or the caller is not a member.
    fn team(&self, team: &str) -> Result<Team, Error>;

    /// Adds a member with a first grant, without an invitation to accept. `password` is the caller's own.
    ///
    /// # Errors
    /// Returns [`Refused::Missing`] if the team, the user or the target of the grant does not exist. Returns [`Refused::Failed`] with
    /// `Denied` for a wrong password or a right that the caller does not hold, with `Invalid` for an invalid grant, with `Conflict` for an
    /// existing member or if the plan allows no more members, and with `Unavailable` if a key is needed and the mail server is unavailable.
    fn invite_member(
        &self,
        team: &str,
        username: &str,
        password: &str,
        grant: &NewGrant,
    ) -> Result<InvitedMember, Refused>;

    /// Adds a grant to a member and returns the grant's id.
    ///
    /// # Errors
    /// Returns [`Refused::Missing`], and [`Refused::Failed`] with `Denied` for a right that the caller does not hold or with `Invalid`.
    fn add_grant(&self, team: &str, member: &str, grant: &NewGrant) -> Result<String, Refused>;

    /// Replaces the rights of a grant.
    ///
    /// # Errors
    /// Returns the errors of [`Teams::add_grant`].
    fn change_grant(&self, team: &str, grant: &str, rights: &[Right]) -> Result<(), Refused>;

    /// Revokes a grant. The member stays in the team.
    ///
    /// # Errors
    /// Returns [`Refused::Missing`].
    fn revoke_grant(&self, team: &str, grant: &str) -> Result<(), Refused>;

    /// Removes a member. The caller can also remove itself.
    ///
    /// # Errors
    /// Returns [`Refused::Missing`], and [`Refused::Failed`] with `Denied` for the owner.
    fn remove_member(&self, team: &str, member: &str) -> Result<(), Refused>;
}

/// Keys and values that the module stores for the caller's account. A key has 1 to 256 bytes without control characters, a value at most
/// 65,536 bytes.
///
/// Every function can return `Denied` (if there is no caller), `Invalid` (for an invalid key) and `Internal`. A function that changes
/// something can also return `CredentialRefused`.
pub trait Store {
    /// Returns the value of a key, or `None` if the key does not exist.
    ///
    /// # Errors
    /// Only the errors that the trait names.
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Sets the value of a key.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the value is too long or would exceed the module's quota.
    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error>;

    /// Deletes a key. Deleting a key that does not exist is not an error.
    ///
    /// # Errors
    /// Only the errors that the trait names.
    fn delete_value(&self, key: &str) -> Result<(), Error>;

    /// Atomically compares the value of a key with `expected` and, if they are equal, sets the key to `value`. `None` stands for a key that
    /// does not exist, so a `value` of `None` deletes the key. Returns whether the values were equal.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] like [`Store::set_value`].
    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error>;

    /// Returns the keys that start with `prefix` and are greater than `after`, in byte order, at most `limit`.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the limit is not 1 to 1,000.
    fn list_keys(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error>;
}

/// HTTP requests to the hosts that the operator permitted for the module. Redirects are not followed.
pub trait HttpClient {
    /// Sends a request and waits for the whole response, which can have any status.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] for a host that is not permitted or resolves only to blocked addresses, [`Error::Invalid`] for an invalid
    /// request, [`Error::TooLarge`] if the request or its response is larger than 4 MiB, [`Error::Unavailable`] if there is no response and
    /// the request changed nothing, and [`Error::OutcomeUnknown`] if the request was sent and there is no complete response.
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error>;
}

/// The host's log.
pub trait Log {
    /// Writes one line. The message must not contain mail content or secrets.
    fn write(&self, level: Level, message: &str);
}

/// The module's own settings.
pub trait Config {
    /// Returns a setting, or `None` if it is not set.
    fn get(&self, key: &str) -> Option<String>;
}

/// The real host, called through the imports of the component. Outside of a component its functions panic.
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

    fn get_authenticated_message(
        &self,
        uid: u64,
        folder: Option<&str>,
    ) -> Result<AuthenticatedMessage, Error> {
        mailbox::get_authenticated_message(uid, folder)
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
            // The host accepts only its own bytes as files; they come from a request.
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
