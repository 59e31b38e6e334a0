//! The schemas of requests with a grant, for the API description. Each kind of resource has its own
//! schema, because the kind determines the allowed ids and rights.

use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use crate::model::Right;

/// A grant to add. Each kind of resource has its own schema.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum GrantRequest {
    Mailbox(MailboxGrant),
    Folder(FolderGrant),
    Alias(AliasGrant),
    AliasSet(AliasSetGrant),
}

/// A user to add, with a first grant. Each kind of resource has its own schema.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum InvitationRequest {
    Mailbox(MailboxInvitation),
    Folder(FolderInvitation),
    Alias(AliasInvitation),
    AliasSet(AliasSetInvitation),
}

/// A user to add.
#[derive(ToSchema)]
pub(crate) struct Invitee {
    /// Local part of an address on the first registration domain, 3 to 32 characters, or a complete
    /// address.
    #[schema(example = "grace", pattern = r"^(?:[^@]{3,32}|[\s\S]{3,32}@[^@]*)$")]
    username: String,
    /// Password of the caller. Required unless the caller signs in at an identity provider.
    #[schema(value_type = String, format = Password, min_length = 1, required = false)]
    password: Option<String>,
    /// The caller's two-factor code or a recovery code. Required if two-factor sign-in is on.
    code: Option<String>,
}

/// A grant on the whole mailbox.
#[derive(ToSchema)]
pub(crate) struct MailboxGrant {
    resource_kind: MailboxKind,
    #[schema(schema_with = null, required = false)]
    resource_id: (),
    /// Label for the resource, at most 200 characters on one line.
    #[schema(max_length = 200, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    resource_label: Option<String>,
    /// Rights to grant: at least one. The caller must hold each of these rights.
    #[schema(min_items = 1)]
    rights: Vec<Right>,
}

/// A grant on a folder, without its subfolders.
#[derive(ToSchema)]
pub(crate) struct FolderGrant {
    resource_kind: FolderKind,
    /// The folder's `id`.
    resource_id: String,
    /// Label for the resource, at most 200 characters on one line.
    #[schema(max_length = 200, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    resource_label: Option<String>,
    /// Rights to grant: at least one. The caller must hold each of these rights.
    #[schema(min_items = 1)]
    rights: Vec<FolderRight>,
}

/// A grant on an alias.
#[derive(ToSchema)]
pub(crate) struct AliasGrant {
    resource_kind: AliasKind,
    /// The alias's address.
    resource_id: String,
    /// Label for the resource, at most 200 characters on one line.
    #[schema(max_length = 200, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    resource_label: Option<String>,
    /// Rights to grant: at least one. The caller must hold each of these rights.
    #[schema(min_items = 1)]
    rights: Vec<AliasRight>,
}

/// A grant on a set of aliases.
#[derive(ToSchema)]
pub(crate) struct AliasSetGrant {
    resource_kind: AliasSetKind,
    /// `all` (all aliases), `own` (the aliases that the member creates) or `domain:<domain>` (the
    /// aliases on a domain).
    #[schema(pattern = r"^(?:all|own|domain:[\s\S]*)$")]
    resource_id: String,
    /// Label for the resource, at most 200 characters on one line.
    #[schema(max_length = 200, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    resource_label: Option<String>,
    /// Rights to grant: at least one. The caller must hold each of these rights.
    #[schema(min_items = 1)]
    rights: Vec<AliasRight>,
}

/// A user to add, with a grant on the whole mailbox.
#[derive(ToSchema)]
pub(crate) struct MailboxInvitation {
    #[serde(flatten)]
    invitee: Invitee,
    #[serde(flatten)]
    grant: MailboxGrant,
}

/// A user to add, with a grant on a folder.
#[derive(ToSchema)]
pub(crate) struct FolderInvitation {
    #[serde(flatten)]
    invitee: Invitee,
    #[serde(flatten)]
    grant: FolderGrant,
}

/// A user to add, with a grant on an alias.
#[derive(ToSchema)]
pub(crate) struct AliasInvitation {
    #[serde(flatten)]
    invitee: Invitee,
    #[serde(flatten)]
    grant: AliasGrant,
}

/// A user to add, with a grant on a set of aliases.
#[derive(ToSchema)]
pub(crate) struct AliasSetInvitation {
    #[serde(flatten)]
    invitee: Invitee,
    #[serde(flatten)]
    grant: AliasSetGrant,
}

/// The resource kind `mailbox`.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MailboxKind {
    Mailbox,
}

/// The resource kind `folder`.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FolderKind {
    Folder,
}

/// The resource kind `alias`.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AliasKind {
    Alias,
}

/// The resource kind `alias_set`.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AliasSetKind {
    AliasSet,
}

/// A right on a folder.
#[derive(ToSchema)]
pub(crate) enum FolderRight {
    #[serde(rename = "mail:read")]
    MailRead,
    #[serde(rename = "mail:write")]
    MailWrite,
}

/// A right on aliases.
#[derive(ToSchema)]
pub(crate) enum AliasRight {
    #[serde(rename = "mail:send")]
    MailSend,
    #[serde(rename = "aliases:read")]
    AliasesRead,
    #[serde(rename = "aliases:write")]
    AliasesWrite,
}

fn null() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Null)
        .description(Some("`null` or absent."))
        .build()
}
