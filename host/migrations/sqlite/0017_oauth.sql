-- The authorization server: its clients, what people agreed to by signing in, and the grants that came of it. Whatever a client holds is kept as a hash.

-- A client that says what it is by an address of its own has no row here.
CREATE TABLE oauth_clients (
    id            TEXT   PRIMARY KEY,           -- opaque
    name          TEXT   NOT NULL,              -- what it calls itself; may be empty
    redirect_uris TEXT   NOT NULL,              -- a line feed between two
    grant_types   TEXT   NOT NULL,              -- what it may be granted by, a blank between two
    secret_hash   TEXT,                         -- SHA-256, lower-case hexadecimal, of one that the operator made; NULL for one that registered itself
    created_at    BIGINT NOT NULL,
    used_at       BIGINT                        -- when somebody last signed in for it
);
CREATE INDEX oauth_clients_unused ON oauth_clients (created_at) WHERE secret_hash IS NULL AND used_at IS NULL;

-- What acts for a client in a mailbox.
CREATE TABLE oauth_grants (
    id              TEXT   PRIMARY KEY,         -- opaque
    account_id      TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    app_password_id TEXT   NOT NULL UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
    client_id       TEXT   NOT NULL,
    resource        TEXT   NOT NULL,            -- what its tokens are for, an address
    created_at      BIGINT NOT NULL
);
CREATE INDEX oauth_grants_by_account ON oauth_grants (account_id);
CREATE INDEX oauth_grants_by_client ON oauth_grants (client_id);

-- The tokens of a grant. A refresh token that was used stays, so that it is known should it come again.
CREATE TABLE oauth_tokens (
    token_hash      TEXT   PRIMARY KEY,         -- SHA-256, lower-case hexadecimal
    grant_id        TEXT   NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    kind            TEXT   NOT NULL CHECK (kind IN ('access', 'refresh')),
    sealed_password BLOB,                       -- the app password, sealed under the token's own key; NULL once it was used
    expires_at      BIGINT NOT NULL,
    CHECK (kind = 'refresh' OR sealed_password IS NOT NULL)
);
CREATE INDEX oauth_tokens_by_grant ON oauth_tokens (grant_id);
CREATE INDEX oauth_tokens_by_end ON oauth_tokens (expires_at);

-- What somebody agreed to by signing in, to be exchanged for tokens within a minute.
CREATE TABLE oauth_codes (
    code_hash    TEXT   PRIMARY KEY,            -- SHA-256, lower-case hexadecimal
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    client_id    TEXT   NOT NULL,
    client_name  TEXT   NOT NULL,
    redirect_uri TEXT   NOT NULL,
    challenge    TEXT   NOT NULL,               -- of the verifier (RFC 7636, S256)
    resource     TEXT   NOT NULL,
    expires_at   BIGINT NOT NULL,
    grant_id     TEXT                           -- what came of it, once it was exchanged
);
CREATE INDEX oauth_codes_by_account ON oauth_codes (account_id);
CREATE INDEX oauth_codes_by_end ON oauth_codes (expires_at);

-- Devices without a browser that wait for somebody to sign in elsewhere.
CREATE TABLE oauth_devices (
    device_hash TEXT   PRIMARY KEY,             -- SHA-256, lower-case hexadecimal
    user_code   TEXT   NOT NULL UNIQUE,         -- eight consonants: what the person types
    client_id   TEXT   NOT NULL,
    client_name TEXT   NOT NULL,
    resource    TEXT   NOT NULL,
    account_id  TEXT   REFERENCES accounts (id) ON DELETE CASCADE, -- who signed in; NULL until then
    denied      BOOLEAN NOT NULL,
    patience    BIGINT NOT NULL,                -- milliseconds that the device has to wait between two questions
    asked_at    BIGINT,                         -- when it asked last
    expires_at  BIGINT NOT NULL
);
CREATE INDEX oauth_devices_by_account ON oauth_devices (account_id);
CREATE INDEX oauth_devices_by_end ON oauth_devices (expires_at);
