//! The functions of the host that a module can call. Each interface of the contract (`wit/`) has
//! one trait. [`Host`] implements every trait with the real host.
//!
//! A handler declares the needed traits in its signature, for example
//! `fn list(host: &impl Mailbox, …)`. A test can therefore pass another implementation. Each file
//! contains the types, the trait and the [`Host`] implementation of one interface.

mod aliases;
pub(crate) mod blob;
mod caller;
mod compose;
mod config;
mod credentials;
mod deliveries;
mod domains;
mod drafts;
mod events;
mod filters;
mod http_client;
mod log;
mod mailbox;
mod modules;
mod outbox;
mod profile;
mod queries;
mod store;
mod subscriptions;
mod teams;
mod webhooks;

pub use self::aliases::{Alias, AliasChange, Aliases, Expiry};
pub use self::blob::{Blob, Blobs};
pub use self::caller::{Caller, Identity, Kind};
pub use self::compose::Compose;
pub use self::config::Config;
pub use self::credentials::{
    AccountGrant, CreatedAppPassword, CreatedToken, Credential, Credentials, Revocation, Token,
    TokenReference,
};
pub use self::deliveries::{Deliveries, Delivery, DeliveryRecipient};
pub use self::domains::{
    Challenge, Claimed, Domain, Domains, Expected, HeldDomains, Inspected, RecordKind, Verification,
};
pub use self::drafts::{DraftError, DraftPage, Drafts, StoredDraft, Submission};
pub use self::events::{EventFilter, Events, StreamError};
pub use self::filters::{
    FilterError, FilterState, Filters, ForwardAddress, Rule, RuleAction, RuleCondition, Vacation,
};
pub use self::http_client::{HttpClient, HttpRequest, HttpResponse};
pub use self::log::{Level, Log};
pub use self::mailbox::{
    Address, Attachment, AttachmentContent, Authentication, Change, ChangeList, ChangedFolder,
    ChangedMessage, ChangesError, ConditionalError, CopiedMessage, DeletedMessage, Detail,
    DetailWithBlobs, FlagAction, Folder, HeaderField, Hit, Import, ImportedMessage, IndexState,
    Listing, Mailbox, MailingList, Match, MessageDisposal, MessageHeader, MessageQuery,
    MessageVersion, MovedMessage, Page, PageStart, QuerySyntax, Quota, QuotaUsage, RawMessage,
    RenamedFolder, Role, Search, SearchError, SearchResult, Snippet, SortOrder, Spam, Summary,
    Thread, ThreadList, ThreadMessages, ThreadsError, Verdict,
};
pub use self::modules::{HandledEvents, ModuleTimer, OwnerModule, OwnerModules};
pub use self::outbox::{
    Draft, File, FileSource, Header, MessagePart, Original, Outbox, OutboxEntry, SendError,
    SendOptions, Sent, UploadedContent, UploadedFile,
};
pub use self::profile::{Changes, Details, PasswordChange, Profile};
pub use self::queries::{
    Anchor, Condition, CursorFormat, FilterNode, FolderCounts, Located, MessageFacts, NumberPage,
    NumberQuery, Queries, QueryError, QueryStart, SortKey, ThreadNumbers,
};
pub use self::store::Store;
pub use self::subscriptions::{
    ExceededLimit, NewSubscription, SubscribeError, Subscribed, Subscriptions,
};
pub use self::teams::{
    Grant, InvitedMember, Missing, NewGrant, Refused, Right, Target, Team, TeamMember, TeamRole,
    TeamSummary, Teams,
};
pub use self::webhooks::{
    CreatedWebhook, FolderFilter, TypeFilter, Webhook, WebhookChange, WebhookDelivery,
    WebhookSettings, Webhooks,
};
pub use crate::bindings::handles::types::{Error, Problem, Timestamp};
pub use crate::scope::Scope;

/// The real host. Outside a component, the functions of `Host` panic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;
