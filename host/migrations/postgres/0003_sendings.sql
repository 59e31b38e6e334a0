-- Messages sent under a key of their client's. A row is written before anything is sent.
CREATE TABLE sendings (
    account_id  TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    key_hash    TEXT   NOT NULL,                -- SHA-256 of the key, lower-case hexadecimal
    fingerprint BYTEA  NOT NULL,                -- SHA-256 of what was to be sent
    process     TEXT   NOT NULL,                -- which began it
    state       TEXT   NOT NULL CHECK (state IN ('begun', 'sent', 'unknown')),
    begun_at    BIGINT NOT NULL,
    message_id  TEXT   NOT NULL,
    saved_to    TEXT,
    PRIMARY KEY (account_id, key_hash)
);
CREATE INDEX sendings_by_begin ON sendings (begun_at);
