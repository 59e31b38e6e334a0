-- The exports of accounts. A row is deleted a week after its end. The archives are files.
CREATE TABLE exports (
    id         TEXT   PRIMARY KEY,   -- opaque; the name of the archive
    account_id TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    state      TEXT   NOT NULL,      -- pending, running, ready or failed
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    messages   BIGINT NOT NULL DEFAULT 0, -- the number of exported messages
    size       BIGINT,               -- of the archive, in bytes
    error      TEXT,                 -- a text for the account
    is_last    BOOLEAN NOT NULL DEFAULT FALSE, -- whether the account is being deleted
    progress   TEXT                  -- JSON: what is written. NULL before the first step
);
CREATE INDEX exports_by_account ON exports (account_id);
CREATE INDEX exports_by_expiry ON exports (expires_at);
