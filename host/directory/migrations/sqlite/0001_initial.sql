-- The directory: accounts, their credentials, and everything else that the service stores. Timestamps are milliseconds since the Unix epoch.
--
-- ../postgres/0001_initial.sql has the same tables for PostgreSQL. The data for mail servers is in separate files: ../mailserver/sqlite/.

CREATE TABLE accounts (
    id            TEXT    PRIMARY KEY,          -- opaque; also the name of the mailbox's directory on the mail server
    address       TEXT    NOT NULL UNIQUE,      -- in lower case
    password_hash TEXT    NOT NULL,             -- argon2id, in PHC format; empty or a fingerprint if the mail server stores the password
    login_name    TEXT,                         -- the mail server's own name of the user; NULL if it is the address
    admin         BOOLEAN NOT NULL DEFAULT FALSE,
    active        BOOLEAN NOT NULL DEFAULT TRUE,
    plan          TEXT    NOT NULL DEFAULT 'default',
    created_at    BIGINT  NOT NULL
);

-- The namespace of all addresses. A row is kept after its account or alias was deleted, so that no other account gets the address.
CREATE TABLE addresses (
    address    TEXT    PRIMARY KEY,             -- in lower case
    kind       TEXT    NOT NULL CHECK (kind IN ('account', 'alias', 'held')),
    account_id TEXT,                            -- the current or former owner; NULL if the operator reserves the address
    live       BOOLEAN NOT NULL DEFAULT TRUE,   -- false if the address does not exist any longer and is only reserved
    active     BOOLEAN NOT NULL DEFAULT TRUE,   -- whether the address receives mail and the owner may send from it
    created_at BIGINT,                          -- NULL if another program created the address
    changed_at BIGINT,
    made_by    TEXT,                            -- the account of the team member that created an alias; NULL if the owner created it
    domain     TEXT GENERATED ALWAYS AS (substr(address, instr(address, '@') + 1)) VIRTUAL
);
CREATE INDEX addresses_by_account ON addresses (account_id);
CREATE INDEX addresses_by_domain ON addresses (domain);

CREATE TABLE profiles (
    account_id TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    first_name TEXT   NOT NULL,
    last_name  TEXT   NOT NULL,
    dob        TEXT   NOT NULL,                 -- YYYY-MM-DD
    created_at BIGINT NOT NULL
);

-- The platform's domains. The rows without `added_at` come from `registration.domains` in the configuration. They are written at every start.
CREATE TABLE platform_domains (
    domain   TEXT PRIMARY KEY,
    added_at BIGINT                             -- when an operator added the domain at the command line
);

-- Custom domains. Several accounts can claim the same domain until one of the claims is verified.
CREATE TABLE domains (
    account_id       TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    domain           TEXT   NOT NULL,           -- in lower case, ASCII (IDNA)
    challenge        TEXT   NOT NULL,           -- the token that the owner publishes in the DNS
    created_at       BIGINT NOT NULL,
    verified_at      BIGINT,                    -- NULL while the claim is pending, like the next three columns
    dkim_selector    TEXT,
    dkim_public_key  TEXT,                      -- SubjectPublicKeyInfo, DER, base64: `p=` of the DNS record (RFC 6376, section 3.6.1)
    dkim_private_key BLOB,                      -- PKCS #8, DER, sealed with the service's key
    PRIMARY KEY (account_id, domain),
    CHECK ((verified_at IS NULL) = (dkim_selector IS NULL)
        AND (verified_at IS NULL) = (dkim_public_key IS NULL)
        AND (verified_at IS NULL) = (dkim_private_key IS NULL))
);
-- Only one account can have a verified domain.
CREATE UNIQUE INDEX domains_active ON domains (domain) WHERE verified_at IS NOT NULL;
CREATE INDEX domains_by_domain ON domains (domain);

-- The passwords that the mail server accepts. Every credential of an account has an app password of its own.
CREATE TABLE app_passwords (
    id           TEXT   PRIMARY KEY,
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    kind         TEXT   NOT NULL CHECK (kind IN ('web_session', 'api_token', 'app_password', 'oauth_grant', 'team_key', 'index')),
    label        TEXT   NOT NULL,
    selector     TEXT   NOT NULL UNIQUE,        -- the public first half of the secret
    secret_hash  TEXT   NOT NULL,               -- SHA-256 of the whole secret, lower-case hexadecimal
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    last_used_at BIGINT                         -- accurate to the minute; the mail server records the log-ins of mail clients elsewhere
);
CREATE INDEX app_passwords_by_account ON app_passwords (account_id);

-- App passwords that were deleted. A row is kept until the mail server has ended the connections that were opened with the app password. A trigger inserts the
-- row in the transaction that deletes the app password. A migration that recreates app_passwords must recreate the trigger.
CREATE TABLE ended_app_passwords (
    app_password_id TEXT   PRIMARY KEY,
    ended_at        BIGINT NOT NULL             -- by the database's clock
);
CREATE INDEX ended_app_passwords_by_end ON ended_app_passwords (ended_at);

CREATE TRIGGER remember_ended_app_password AFTER DELETE ON app_passwords BEGIN
    INSERT OR IGNORE INTO ended_app_passwords VALUES (OLD.id, CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;

-- The persons at the identity provider, each with the account of the mailbox that the last sign-in opened.
CREATE TABLE identities (
    id         TEXT   PRIMARY KEY,              -- opaque
    issuer     TEXT   NOT NULL,                 -- the provider's issuer identifier
    subject    TEXT   NOT NULL,                 -- the provider's id of the person
    account_id TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    UNIQUE (issuer, subject)
);
CREATE INDEX identities_by_account ON identities (account_id);

-- Sign-ins that continue at the identity provider. A row is deleted when the browser returns from the provider.
CREATE TABLE provider_sign_ins (
    state_hash TEXT   PRIMARY KEY,              -- SHA-256 of the parameter `state`, lower-case hexadecimal
    sealed     TEXT   NOT NULL,                 -- the request, sealed with the service's key for one browser
    expires_at BIGINT NOT NULL
);
CREATE INDEX provider_sign_ins_by_end ON provider_sign_ins (expires_at);

-- The codes of completed sign-ins at the identity provider. A client exchanges a code for the tokens of a session within a minute.
CREATE TABLE sign_in_codes (
    code_hash    TEXT   PRIMARY KEY,            -- SHA-256, lower-case hexadecimal
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    identity_id  TEXT   NOT NULL REFERENCES identities (id) ON DELETE CASCADE,
    provider_sid TEXT,
    challenge    TEXT   NOT NULL,               -- the code challenge (RFC 7636, method S256)
    expires_at   BIGINT NOT NULL
);
CREATE INDEX sign_in_codes_by_account ON sign_in_codes (account_id);
CREATE INDEX sign_in_codes_by_identity ON sign_in_codes (identity_id);
CREATE INDEX sign_in_codes_by_end ON sign_in_codes (expires_at);

-- The accepted logout tokens of the identity provider. Each token is accepted once.
CREATE TABLE logout_tokens (
    token_hash TEXT   PRIMARY KEY,              -- SHA-256 of the issuer and the token's id (`jti`), lower-case hexadecimal
    expires_at BIGINT NOT NULL
);
CREATE INDEX logout_tokens_by_end ON logout_tokens (expires_at);

CREATE TABLE sessions (
    sid             TEXT   PRIMARY KEY,
    account_id      TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    app_password_id TEXT   NOT NULL REFERENCES app_passwords (id) ON DELETE CASCADE,
    sealed_password BLOB   NOT NULL,            -- the app password, sealed with the service's key
    identity_id     TEXT   REFERENCES identities (id) ON DELETE CASCADE, -- the person at the identity provider; NULL if the session began with a password
    provider_sid    TEXT,                       -- the provider's id of the person's session at the provider
    created_at      BIGINT NOT NULL,            -- the time of the sign-in; a refresh does not change it
    expires_at      BIGINT NOT NULL
);
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE INDEX sessions_by_app_password ON sessions (app_password_id);
CREATE INDEX sessions_by_identity ON sessions (identity_id);

-- The refresh tokens of web sessions. A used token is kept until it expires or its session ends. A second use of the token can show that the token was stolen.
CREATE TABLE refresh_tokens (
    hash       TEXT   PRIMARY KEY,              -- SHA-256, lower-case hexadecimal
    sid        TEXT   NOT NULL REFERENCES sessions (sid) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,                 -- the time at which the session ends if the token is not used
    used_at    BIGINT
);
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (sid);
CREATE INDEX refresh_tokens_by_end ON refresh_tokens (expires_at);

-- Personal API tokens. The row of a revoked token is kept without its app password, so that a client that presents the token learns that it was revoked.
CREATE TABLE api_tokens (
    id              TEXT   PRIMARY KEY,
    account_id      TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    label           TEXT   NOT NULL,
    scopes          TEXT   NOT NULL,            -- in canonical order, separated by spaces
    selector        TEXT   NOT NULL UNIQUE,     -- the public beginning of the secret
    secret_hash     TEXT   NOT NULL,            -- SHA-256 of the whole secret, lower-case hexadecimal
    hint            TEXT   NOT NULL,            -- the last four characters of the secret
    app_password_id TEXT   REFERENCES app_passwords (id) ON DELETE SET NULL,
    sealed_password BLOB,                       -- the app password, sealed with a key that is derived from the token
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT,
    revoked_at      BIGINT
);
CREATE INDEX api_tokens_by_account ON api_tokens (account_id);
CREATE INDEX api_tokens_by_app_password ON api_tokens (app_password_id);

-- The second factors of accounts. An account without a row has no second factor.
CREATE TABLE two_factor (
    account_id    TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    sealed_secret BLOB   NOT NULL,              -- the TOTP secret, sealed with the service's key
    last_step     BIGINT NOT NULL DEFAULT 0,    -- the latest time step whose code was accepted: each code is accepted once
    wrong_codes   BIGINT NOT NULL DEFAULT 0,    -- the number of consecutive wrong codes
    refused_until BIGINT NOT NULL DEFAULT 0,    -- until this time, only recovery codes are accepted
    created_at    BIGINT NOT NULL
);

CREATE TABLE recovery_codes (
    account_id TEXT NOT NULL REFERENCES two_factor (account_id) ON DELETE CASCADE,
    code_hash  TEXT NOT NULL,                   -- SHA-256, lower-case hexadecimal
    PRIMARY KEY (account_id, code_hash)
);

-- The record of security events. It contains no secrets. The events of an account are kept after the account was deleted.
CREATE TABLE security_events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         BIGINT  NOT NULL,
    kind       TEXT    NOT NULL,
    account_id TEXT,                            -- NULL if the event concerns no account
    address    TEXT    NOT NULL,                -- the account's address, or the address of a failed sign-in
    actor      TEXT    NOT NULL,                -- an address, 'operator' or 'service'; empty for an unauthenticated client
    credential TEXT,                            -- the id of the actor's credential
    client     TEXT,                            -- the client's IP address
    network    TEXT    NOT NULL DEFAULT '',     -- the client's IPv4 address or IPv6 /64 network; empty if unknown
    request_id TEXT,
    subject    TEXT,                            -- the id of the object that was changed
    detail     TEXT,                            -- details for people
    unlisted   BIGINT  NOT NULL DEFAULT 0       -- the number of failures of this kind on this day that have no row of their own
);
CREATE INDEX security_events_by_time ON security_events (at);
CREATE INDEX security_events_by_account ON security_events (account_id, at);
CREATE INDEX security_events_by_address ON security_events (address, at);
-- For failed sign-ins to addresses that no account has. Their rows are counted and overwritten by client network.
CREATE INDEX security_events_of_strangers ON security_events (network, at) WHERE account_id IS NULL AND kind = 'sign_in_failed';
CREATE INDEX security_events_of_all_strangers ON security_events (at) WHERE account_id IS NULL AND kind = 'sign_in_failed';

-- The clients of the authorization server. A client whose id is the URL of its description (client ID metadata document) has no row.
CREATE TABLE oauth_clients (
    id            TEXT   PRIMARY KEY,           -- opaque
    name          TEXT   NOT NULL,              -- the name that the client gave itself; may be empty
    redirect_uris TEXT   NOT NULL,              -- separated by line feeds
    grant_types   TEXT   NOT NULL,              -- separated by spaces
    secret_hash   TEXT,                         -- SHA-256, lower-case hexadecimal; NULL if the client registered itself
    created_at    BIGINT NOT NULL,
    used_at       BIGINT,                       -- the last sign-in for this client
    network       TEXT   NOT NULL DEFAULT '',   -- the network that registered the client: an IPv4 address or IPv6 /64
    region        TEXT   NOT NULL DEFAULT ''    -- the surrounding network: IPv4 /16 or IPv6 /32
);
CREATE INDEX oauth_clients_unused ON oauth_clients (created_at) WHERE secret_hash IS NULL AND used_at IS NULL;

-- Grants. Each grant gives a client access to a mailbox.
CREATE TABLE oauth_grants (
    id              TEXT   PRIMARY KEY,         -- opaque
    account_id      TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    app_password_id TEXT   NOT NULL UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
    client_id       TEXT   NOT NULL,
    resource        TEXT   NOT NULL,            -- the audience of the tokens, a URL
    scope           TEXT   NOT NULL,            -- separated by spaces
    created_at      BIGINT NOT NULL
);
CREATE INDEX oauth_grants_by_account ON oauth_grants (account_id);
CREATE INDEX oauth_grants_by_client ON oauth_grants (client_id);

-- The tokens of a grant. A used refresh token keeps its row, so that a second use is detected.
CREATE TABLE oauth_tokens (
    token_hash      TEXT   PRIMARY KEY,         -- SHA-256, lower-case hexadecimal
    grant_id        TEXT   NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    kind            TEXT   NOT NULL CHECK (kind IN ('access', 'refresh')),
    sealed_password BLOB,                       -- the app password, sealed with a key that is derived from the token; NULL after use
    scope           TEXT,                       -- the scopes, if a refresh narrowed them for this access token (RFC 6749, section 6); NULL: the grant's scopes
    expires_at      BIGINT NOT NULL,
    CHECK (kind = 'refresh' OR sealed_password IS NOT NULL)
);
CREATE INDEX oauth_tokens_by_grant ON oauth_tokens (grant_id);
CREATE INDEX oauth_tokens_by_end ON oauth_tokens (expires_at);

-- Authorization codes. A client exchanges a code for tokens within a minute.
CREATE TABLE oauth_codes (
    code_hash    TEXT   PRIMARY KEY,            -- SHA-256, lower-case hexadecimal
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    client_id    TEXT   NOT NULL,
    client_name  TEXT   NOT NULL,
    redirect_uri TEXT   NOT NULL,
    challenge    TEXT   NOT NULL,               -- the code challenge (RFC 7636, method S256)
    resource     TEXT   NOT NULL,
    scope        TEXT   NOT NULL,               -- separated by spaces
    expires_at   BIGINT NOT NULL,
    grant_id     TEXT                           -- the grant that the code was exchanged for; NULL before the exchange
);
CREATE INDEX oauth_codes_by_account ON oauth_codes (account_id);
CREATE INDEX oauth_codes_by_end ON oauth_codes (expires_at);

-- Device authorization requests (RFC 8628).
CREATE TABLE oauth_devices (
    device_hash TEXT   PRIMARY KEY,             -- SHA-256 of the device code, lower-case hexadecimal
    user_code   TEXT   NOT NULL UNIQUE,         -- eight consonants, which the user enters
    client_id   TEXT   NOT NULL,
    client_name TEXT   NOT NULL,
    resource    TEXT   NOT NULL,
    scope       TEXT   NOT NULL,                -- separated by spaces
    account_id  TEXT   REFERENCES accounts (id) ON DELETE CASCADE, -- the account that approved the request; NULL before the approval
    denied      BOOLEAN NOT NULL,
    patience    BIGINT NOT NULL,                -- the required interval between two polls, in milliseconds
    asked_at    BIGINT,                         -- the time of the last poll
    expires_at  BIGINT NOT NULL
);
CREATE INDEX oauth_devices_by_account ON oauth_devices (account_id);
CREATE INDEX oauth_devices_by_end ON oauth_devices (expires_at);

-- The next message number of each mailbox, and the state of its change log. The API identifies messages by these numbers.
CREATE TABLE mailboxes (
    account_id     TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    next_uid       BIGINT NOT NULL DEFAULT 1,
    version        BIGINT,                      -- the version of the last change in the log; NULL if the mailbox has no log, because it was never synced
    pruned_version BIGINT NOT NULL DEFAULT 0    -- the version of the last change that was deleted from the log
);

CREATE TABLE folders (
    id             TEXT   PRIMARY KEY,
    account_id     TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    path           TEXT   NOT NULL,             -- as in the API, in Unicode
    listed_path    TEXT,                        -- the path in the change log; NULL if the log contains the deletion of the folder
    object_id      TEXT,                        -- the mail server's id of the folder (X-GUID, or MAILBOXID of RFC 8474); NULL if it has none
    uid_validity   BIGINT NOT NULL,             -- the last known value
    uid_next       BIGINT NOT NULL,             -- the lowest IMAP UID that has not been reconciled with the index yet
    highest_modseq BIGINT,                      -- the HIGHESTMODSEQ of the last sync; 0 if the server has no QRESYNC; NULL if the folder was never synced
    UNIQUE (account_id, path)
);

CREATE TABLE messages (
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    uid          BIGINT NOT NULL,               -- the number in the API
    folder_id    TEXT   NOT NULL REFERENCES folders (id) ON DELETE CASCADE,
    uid_validity BIGINT NOT NULL,
    imap_uid     BIGINT NOT NULL,
    identity     BLOB   NOT NULL,               -- 16 bytes of a hash of the message's id on the mail server, or of fields that do not change in a move
    copied       BOOLEAN NOT NULL DEFAULT FALSE, -- whether another message has or had the same identity
    flags        TEXT,                          -- sorted, separated by spaces, without \Recent; NULL if the message was never synced and is not in the change log
    PRIMARY KEY (account_id, uid),
    UNIQUE (folder_id, uid_validity, imap_uid)
);
CREATE INDEX messages_by_identity ON messages (account_id, identity);
CREATE INDEX messages_copied ON messages (folder_id) WHERE copied;

-- The threads of messages that were merged with other threads. The thread of any other message follows from its own header.
CREATE TABLE merged_threads (
    account_id TEXT   NOT NULL,
    uid        BIGINT NOT NULL,
    thread     BIGINT NOT NULL,                 -- the bits of an unsigned number
    PRIMARY KEY (account_id, uid),
    FOREIGN KEY (account_id, uid) REFERENCES messages (account_id, uid) ON DELETE CASCADE
);

-- The change log of mailboxes. A row contains the state of a message or folder before a change. The state after the change is in the next row of the same
-- message or folder, or, if there is no such row, in `messages` and `folders`. The versions of a mailbox are consecutive.
CREATE TABLE mailbox_changes (
    account_id TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    version    BIGINT NOT NULL,
    uid        BIGINT NOT NULL,                 -- the number of the message; 0 if a folder was changed
    folder_id  TEXT,                            -- the folder that was changed, or the folder of the message; NULL if the message did not exist
    flags      TEXT,                            -- the flags of the message; NULL if the message did not exist, and for folders
    path       TEXT,                            -- the path of the folder; NULL if the folder did not exist, and for messages
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, version)
);
CREATE INDEX mailbox_changes_by_message ON mailbox_changes (account_id, uid, version);

-- Messages that are sent with an idempotency key. The row is inserted before anything is sent.
CREATE TABLE sendings (
    account_id  TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    key_hash    TEXT   NOT NULL,                -- SHA-256 of the key, lower-case hexadecimal
    fingerprint BLOB   NOT NULL,                -- SHA-256 of the request
    process     TEXT   NOT NULL,                -- the process that sends the message
    state       TEXT   NOT NULL CHECK (state IN ('begun', 'sent', 'unknown')),
    begun_at    BIGINT NOT NULL,
    message_id  TEXT   NOT NULL,
    saved_to    TEXT,
    PRIMARY KEY (account_id, key_hash)
);
CREATE INDEX sendings_by_begin ON sendings (begun_at);

-- The members of shared mailboxes. A mailbox belongs to an account, and this account is not a member.
CREATE TABLE team_members (
    id         TEXT   PRIMARY KEY,              -- opaque
    mailbox    TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    member     TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    joined_at  BIGINT NOT NULL,
    UNIQUE (mailbox, member),
    CHECK (mailbox <> member)
);
CREATE INDEX team_members_by_member ON team_members (member);

-- A member has the union of the rights of all its grants.
CREATE TABLE team_grants (
    id             TEXT   PRIMARY KEY,          -- opaque
    membership     TEXT   NOT NULL REFERENCES team_members (id) ON DELETE CASCADE,
    resource_kind  TEXT   NOT NULL CHECK (resource_kind IN ('mailbox', 'folder', 'alias', 'alias_set')),
    resource_id    TEXT,                        -- the id of a folder; an address; 'all', 'own' or 'domain:' and a domain; NULL for the mailbox
    uid_validity   BIGINT,                      -- the folder's UIDVALIDITY when the grant was made: a new folder with the same name has another value
    resource_label TEXT,
    rights         TEXT   NOT NULL,             -- in canonical order, separated by spaces
    created_at     BIGINT NOT NULL,
    CHECK ((resource_kind = 'mailbox') = (resource_id IS NULL)),
    CHECK ((resource_kind = 'folder') = (uid_validity IS NOT NULL))
);
CREATE INDEX team_grants_by_membership ON team_grants (membership);

-- The keys of shared mailboxes. A key is the app password with which all members access the mailbox. A mailbox without members has no key.
CREATE TABLE team_keys (
    mailbox         TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    app_password_id TEXT   NOT NULL UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
    sealed_password BLOB   NOT NULL             -- the app password, sealed with the service's key
);

-- The credentials with which the service reads mailboxes for the search index, without a request of the account. An account that was not indexed has none.
CREATE TABLE index_keys (
    account_id      TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    app_password_id TEXT   NOT NULL UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
    sealed_password BLOB   NOT NULL             -- the app password, sealed with the service's key
);

-- The stored versions of modules.
CREATE TABLE module_versions (
    module       TEXT    NOT NULL,
    digest       TEXT    NOT NULL,              -- SHA-256 of the component, hexadecimal
    version      TEXT    NOT NULL,              -- from the module's manifest
    size         BIGINT  NOT NULL,              -- in bytes
    rank         BIGINT  NOT NULL,              -- the order of installation
    served       BIGINT,                        -- the order of activation; NULL if a rollback replaced the version
    installed_at BIGINT  NOT NULL,
    PRIMARY KEY (module, digest),
    UNIQUE (module, rank)
);

-- The bytes of each version. They are in a separate table, because SQLite reads a row from its beginning: a list of versions would otherwise read every
-- component.
CREATE TABLE module_components (
    module    TEXT  NOT NULL,
    digest    TEXT  NOT NULL,
    component BLOB  NOT NULL,
    PRIMARY KEY (module, digest),
    FOREIGN KEY (module, digest) REFERENCES module_versions (module, digest) ON DELETE CASCADE
);

CREATE TABLE modules (
    module        TEXT    NOT NULL PRIMARY KEY,
    digest        TEXT    NOT NULL,             -- the current version
    enabled       BOOLEAN NOT NULL,
    source_digest TEXT,                         -- the digest of the configured file when it was last read
    changed_at    BIGINT  NOT NULL,
    FOREIGN KEY (module, digest) REFERENCES module_versions (module, digest)
);

-- The key-value stores of modules: one for each module and account that has stored a value.
CREATE TABLE stores (
    account_id TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    module     TEXT   NOT NULL,
    used       BIGINT NOT NULL,                 -- the bytes of all entries, as the quota counts them
    PRIMARY KEY (account_id, module)
);
CREATE INDEX stores_by_module ON stores (module);

CREATE TABLE store_entries (
    account_id TEXT   NOT NULL,
    module     TEXT   NOT NULL,
    key        TEXT   NOT NULL,
    value      BLOB   NOT NULL,
    PRIMARY KEY (account_id, module, key),
    FOREIGN KEY (account_id, module) REFERENCES stores (account_id, module) ON DELETE CASCADE
);
