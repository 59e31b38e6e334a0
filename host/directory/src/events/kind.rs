//! The kinds of security events, and their names in the database.

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal),* $(,)?) => {
        /// The kind of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])* $kind),*
        }

        impl Kind {
            /// Returns the kind's name in the database.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),*
                }
            }
        }
    };
}

kinds! {
    /// A web session was created.
    SignedIn = "signed_in",
    /// A sign-in failed, for example because of a wrong password or code.
    SignInFailed = "sign_in_failed",
    /// The account's owner ended every web session.
    SignedOut = "signed_out",
    /// The identity provider ended web sessions of a person, or the person's mailbox at the
    /// provider changed.
    SignedOutByProvider = "signed_out_by_provider",
    /// A refresh token was used a second time. The session of the token was ended.
    RefreshTokenReused = "refresh_token_reused",
    /// An account was created by its owner or by the operator.
    AccountCreated = "account_created",
    /// An account was disabled. All credentials of the account were ended.
    AccountDisabled = "account_disabled",
    /// A disabled account was enabled.
    AccountEnabled = "account_enabled",
    /// The mail server no longer has the account's user. All credentials of the account were
    /// revoked.
    CredentialsRevoked = "credentials_revoked",
    /// The operator ended every web session, OAuth grant and API token of an account.
    SessionsEnded = "sessions_ended",
    /// The deletion of an account was planned. The account was disabled, and all its credentials
    /// were ended.
    AccountDeletionPlanned = "account_deletion_planned",
    /// A signed-in caller tried to delete the account with a wrong password.
    AccountDeletionFailed = "account_deletion_failed",
    /// The address of an account was changed. The subject is the previous address.
    AccountRenamed = "account_renamed",
    /// An account was deleted.
    AccountDeleted = "account_deleted",
    /// An account's plan, its administrator rights or the forwarding of its mail was changed.
    AccountChanged = "account_changed",
    /// A reserved address was released.
    AddressFreed = "address_freed",
    /// The operator reserved an address. No account can have a reserved address.
    AddressHeld = "address_held",
    /// A domain was claimed.
    DomainClaimed = "domain_claimed",
    /// An account verified a domain. The domain belongs to the account.
    DomainVerified = "domain_verified",
    /// A claim was deleted, because another account verified the domain or because the domain
    /// became a platform domain.
    DomainClaimVoided = "domain_claim_voided",
    /// A domain or a claim was released.
    DomainReleased = "domain_released",
    /// The catch-all or the separator of a domain was changed.
    DomainChanged = "domain_changed",
    /// The operator added a platform domain.
    PlatformDomainAdded = "platform_domain_added",
    /// The operator removed a platform domain.
    PlatformDomainRemoved = "platform_domain_removed",
    /// A profile was created or changed.
    ProfileChanged = "profile_changed",
    /// A password was changed.
    PasswordChanged = "password_changed",
    /// A signed-in caller tried to change the password with a wrong current password.
    PasswordChangeFailed = "password_change_failed",
    /// A second factor was enabled.
    TwoFactorOn = "two_factor_on",
    /// A second factor was disabled.
    TwoFactorOff = "two_factor_off",
    /// A signed-in caller tried to change the second factor with a wrong password or code.
    TwoFactorChangeFailed = "two_factor_change_failed",
    /// New recovery codes were created, and the old recovery codes were deleted.
    RecoveryCodesMade = "recovery_codes_made",
    /// An API token was created.
    TokenCreated = "token_created",
    /// An API token was revoked.
    TokenRevoked = "token_revoked",
    /// An app password for a mail client was created.
    AppPasswordCreated = "app_password_created",
    /// An app password for a mail client was revoked.
    AppPasswordRevoked = "app_password_revoked",
    /// An API token, an OAuth grant or an app password was used for the first time from a network.
    UsedFromNewNetwork = "used_from_new_network",
    /// A single web session was ended.
    SessionRevoked = "session_revoked",
    /// A person approved an OAuth client by signing in.
    ClientAgreedTo = "client_agreed_to",
    /// An OAuth client got its first tokens after a person approved the client.
    OAuthGrantMade = "oauth_grant_made",
    /// The owner, the client or the operator ended an OAuth grant, or the account had too many
    /// grants.
    OAuthGrantEnded = "oauth_grant_ended",
    /// A code or refresh token of an OAuth client was used a second time. The grant was ended.
    OAuthGrantReused = "oauth_grant_reused",
    /// The owner suspended an API token or an OAuth grant.
    GrantSuspended = "grant_suspended",
    /// The owner resumed a suspended API token or OAuth grant.
    GrantResumed = "grant_resumed",
    /// The owner or the operator set the policy of an API token or an OAuth grant.
    GrantPolicySet = "grant_policy_set",
    /// The owner approved a message that the policy of a grant held.
    HoldApproved = "hold_approved",
    /// The owner rejected a message that the policy of a grant held.
    HoldRejected = "hold_rejected",
    /// The owner undid the changes of a grant.
    GrantRewound = "grant_rewound",
    /// The operator created an OAuth client with a secret.
    ClientAdded = "client_added",
    /// The operator removed an OAuth client and ended all grants of the client.
    ClientRemoved = "client_removed",
    /// An alias was created, or a deleted alias was created again.
    AliasCreated = "alias_created",
    /// An alias was enabled.
    AliasEnabled = "alias_enabled",
    /// An alias was disabled.
    AliasDisabled = "alias_disabled",
    /// The note or the expiry of an alias was changed.
    AliasChanged = "alias_changed",
    /// An alias was deleted.
    AliasDeleted = "alias_deleted",
    /// The owner confirmed an address to which rules can forward mail.
    ForwardAddressConfirmed = "forward_address_confirmed",
    /// The owner deleted an address to which rules could forward mail, or its request.
    ForwardAddressDeleted = "forward_address_deleted",
    /// Another account became a member of the account's mailbox. The member got a first grant.
    MemberAdded = "member_added",
    /// A member was removed.
    MemberRemoved = "member_removed",
    /// A member got an additional grant.
    GrantAdded = "grant_added",
    /// The rights of a grant were changed.
    GrantChanged = "grant_changed",
    /// A grant was revoked.
    GrantRevoked = "grant_revoked",
    /// An app password for the members of the account's mailbox was created.
    TeamKeyCreated = "team_key_created",
    /// A signed-in caller tried to invite a member with a wrong password.
    InvitationFailed = "invitation_failed",
    /// A member sent a message from an address of the account.
    SentByGuest = "sent_by_guest",
    /// A webhook or a subscription of an agent was created.
    WebhookCreated = "webhook_created",
    /// A webhook or a subscription of an agent was deleted by a client.
    WebhookDeleted = "webhook_deleted",
    /// The service disabled a webhook, because the receiver failed or refused events.
    WebhookDisabled = "webhook_disabled",
    /// The owner of a mailbox let a module act without a request.
    ModuleHandlersEnabled = "module_handlers_enabled",
    /// The owner of a mailbox no longer lets a module act without a request.
    ModuleHandlersDisabled = "module_handlers_disabled",
    /// The service paused a module for a mailbox, because its calls without a request failed.
    ModuleHandlersPaused = "module_handlers_paused",
    /// The operator resumed a module for a mailbox.
    ModuleHandlersResumed = "module_handlers_resumed",
    /// The operator called a module for past mail of a mailbox, without changes.
    ModuleHandlersPreviewed = "module_handlers_previewed",
    /// The operator created an operator token.
    OperatorTokenCreated = "operator_token_created",
    /// The operator deleted an operator token.
    OperatorTokenDeleted = "operator_token_deleted",
    /// The owner of a mailbox requested an archive with all data of the account.
    ExportRequested = "export_requested",
    /// The operator restored the database from a backup.
    BackupRestored = "backup_restored",
    /// A version of a module was installed and activated.
    ModuleInstalled = "module_installed",
    /// An earlier version of a module was activated.
    ModuleRolledBack = "module_rolled_back",
    /// A module was enabled.
    ModuleEnabled = "module_enabled",
    /// A module was disabled.
    ModuleDisabled = "module_disabled",
    /// The operator compared a version of a module with the active version.
    ModuleCompared = "module_compared",
    /// A module was removed together with all its versions.
    ModuleRemoved = "module_removed",
}
