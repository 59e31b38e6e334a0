-- Personal API tokens, second factors, and the record of security events.

-- To the minute. A mail client's last log-in is the mail server's to write and stands elsewhere.
ALTER TABLE app_passwords ADD COLUMN last_used_at BIGINT;

-- A revoked token keeps its row, so that it can be told what became of it; what it could open is gone.
CREATE TABLE api_tokens (
    id              TEXT   PRIMARY KEY,
    account_id      TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    label           TEXT   NOT NULL,
    scopes          TEXT   NOT NULL,            -- in canonical order, a blank between two
    selector        TEXT   NOT NULL UNIQUE,     -- the secret's public beginning
    secret_hash     TEXT   NOT NULL,            -- SHA-256 of the whole secret, lower-case hexadecimal
    hint            TEXT   NOT NULL,            -- the secret's last four characters
    app_password_id TEXT   REFERENCES app_passwords (id) ON DELETE SET NULL,
    sealed_password BLOB,                       -- the app password, sealed under a key derived from the token
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT,
    revoked_at      BIGINT
);
CREATE INDEX api_tokens_by_account ON api_tokens (account_id);
CREATE INDEX api_tokens_by_app_password ON api_tokens (app_password_id);

-- Second factors. An account without a row has none.
CREATE TABLE two_factor (
    account_id    TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    sealed_secret BLOB   NOT NULL,              -- the TOTP secret, sealed under the service's key
    last_step     BIGINT NOT NULL DEFAULT 0,    -- the newest time step whose code was taken: no code is good twice
    created_at    BIGINT NOT NULL
);

CREATE TABLE recovery_codes (
    account_id TEXT NOT NULL REFERENCES two_factor (account_id) ON DELETE CASCADE,
    code_hash  TEXT NOT NULL,                   -- SHA-256, lower-case hexadecimal
    PRIMARY KEY (account_id, code_hash)
);

-- What happened to accounts and what acts for them. Never a secret. It outlives the accounts it tells of.
CREATE TABLE security_events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         BIGINT  NOT NULL,
    kind       TEXT    NOT NULL,
    account_id TEXT,                            -- whose account it was; NULL where there is none
    address    TEXT    NOT NULL,                -- that account's address, or the one that somebody tried
    actor      TEXT    NOT NULL,                -- an address, 'operator', 'service'; empty for a stranger
    credential TEXT,                            -- the id of the credential that the actor came with
    client     TEXT,                            -- the client's IP address
    request_id TEXT,
    subject    TEXT,                            -- the id of what it is about
    detail     TEXT                             -- for a person to read
);
CREATE INDEX security_events_by_time ON security_events (at);
CREATE INDEX security_events_by_account ON security_events (account_id, at);
CREATE INDEX security_events_by_address ON security_events (address, at);
