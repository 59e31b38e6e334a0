-- The imports of messages with an idempotency key. An entry is deleted after 24 hours.
CREATE TABLE imports (
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    key_hash     TEXT   NOT NULL,               -- SHA-256 of the key, lower-case hexadecimal
    fingerprint  BLOB  NOT NULL,              -- SHA-256 of the request
    process      TEXT   NOT NULL,               -- the process that stores the message
    begun_at     BIGINT NOT NULL,
    uid_validity BIGINT NOT NULL,               -- the state of the folder before the message was stored
    uid_next     BIGINT NOT NULL,
    outcome      TEXT   CHECK (outcome IN ('stored', 'unknown')), -- NULL while the message is being stored
    uid          BIGINT,                        -- the number of the stored message in the API
    PRIMARY KEY (account_id, key_hash)
);
CREATE INDEX imports_by_begin ON imports (begun_at);

-- The messages that clients imported, and copies of these messages. The results of checks in their headers are not trusted.
CREATE TABLE imported_messages (
    account_id  TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    identity    BLOB  NOT NULL,               -- as in messages
    imported_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, identity)
);
