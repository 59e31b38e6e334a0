-- The directory: accounts and what acts for them. Instants are milliseconds since the epoch, UTC.
-- The twin under ../sqlite says the same; what differs is only how a type is spelt.

CREATE TABLE accounts (
    id            TEXT    PRIMARY KEY,          -- opaque; also the name of the mailbox's folder on the mail server
    address       TEXT    NOT NULL UNIQUE,      -- lower case
    password_hash TEXT    NOT NULL,             -- argon2id, PHC string
    admin         BOOLEAN NOT NULL DEFAULT FALSE,
    active        BOOLEAN NOT NULL DEFAULT TRUE,
    plan          TEXT    NOT NULL DEFAULT 'default',
    created_at    BIGINT  NOT NULL
);

-- The one namespace of addresses. A row outlives what it names, so that an address is never given to another person.
CREATE TABLE addresses (
    address    TEXT    PRIMARY KEY,             -- lower case
    kind       TEXT    NOT NULL CHECK (kind IN ('account', 'alias', 'held')),
    account_id TEXT,                            -- whose it is or was; NULL for one that the operator holds
    live       BOOLEAN NOT NULL DEFAULT TRUE,   -- exists now, as against being kept from others
    active     BOOLEAN NOT NULL DEFAULT TRUE,   -- delivers and may be sent from
    created_at BIGINT,                          -- NULL for what the service never saw being made
    changed_at BIGINT
);
CREATE INDEX addresses_by_account ON addresses (account_id);

CREATE TABLE profiles (
    account_id TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    first_name TEXT   NOT NULL,
    last_name  TEXT   NOT NULL,
    dob        TEXT   NOT NULL,                 -- YYYY-MM-DD
    created_at BIGINT NOT NULL
);

-- The domains of the configuration's [registration], written at every start for the mail server to read.
CREATE TABLE platform_domains (
    domain TEXT PRIMARY KEY
);

-- What the mail server accepts. Whatever acts for a user holds one of these of its own.
CREATE TABLE app_passwords (
    id          TEXT   PRIMARY KEY,
    account_id  TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    kind        TEXT   NOT NULL CHECK (kind IN ('web_session', 'api_token', 'app_password', 'oauth_grant', 'team_key')),
    label       TEXT   NOT NULL,
    selector    TEXT   NOT NULL UNIQUE,         -- the secret's public first half
    secret_hash TEXT   NOT NULL,                -- SHA-256 of the whole secret, lower-case hexadecimal
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT
);
CREATE INDEX app_passwords_by_account ON app_passwords (account_id);

CREATE TABLE sessions (
    sid             TEXT   PRIMARY KEY,
    account_id      TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    app_password_id TEXT   NOT NULL REFERENCES app_passwords (id) ON DELETE CASCADE,
    sealed_password BYTEA  NOT NULL,            -- the app password, sealed under the service's key
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL
);
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE INDEX sessions_by_app_password ON sessions (app_password_id);

-- Used tokens stay as long as they would have been good, or until their session ends: that is how a stolen one is told.
CREATE TABLE refresh_tokens (
    hash       TEXT   PRIMARY KEY,              -- SHA-256, lower-case hexadecimal
    sid        TEXT   NOT NULL REFERENCES sessions (sid) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,                 -- the session's end as it stood when the token was made
    used_at    BIGINT
);
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (sid);
CREATE INDEX refresh_tokens_by_end ON refresh_tokens (expires_at);

-- The service's own numbers for messages.
CREATE TABLE mailboxes (
    account_id TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    next_uid   BIGINT NOT NULL DEFAULT 1
);

CREATE TABLE folders (
    id           TEXT   PRIMARY KEY,
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    path         TEXT   NOT NULL,               -- as the client sees it, Unicode
    uid_validity BIGINT NOT NULL,               -- as last seen
    uid_next     BIGINT NOT NULL,               -- as first seen under this uid_validity: what arrived since lies at or above it
    UNIQUE (account_id, path)
);

CREATE TABLE messages (
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    uid          BIGINT NOT NULL,               -- the service's number
    folder_id    TEXT   NOT NULL REFERENCES folders (id) ON DELETE CASCADE,
    uid_validity BIGINT NOT NULL,
    imap_uid     BIGINT NOT NULL,
    identity     BYTEA  NOT NULL,               -- a digest of the mail server's id, or of what every server keeps through a move: 16 bytes
    copied       BOOLEAN NOT NULL DEFAULT FALSE, -- has, or had, the identity of another
    PRIMARY KEY (account_id, uid),
    UNIQUE (folder_id, uid_validity, imap_uid)
);
CREATE INDEX messages_by_identity ON messages (account_id, identity);
CREATE INDEX messages_copied ON messages (folder_id) WHERE copied;
