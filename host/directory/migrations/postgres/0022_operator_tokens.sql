-- The tokens with which programs of the operator use the admin API and SCIM.
CREATE TABLE operator_tokens (
    id           TEXT   PRIMARY KEY,
    name         TEXT   NOT NULL UNIQUE,
    scopes       TEXT   NOT NULL,        -- separated by spaces
    secret_hash  TEXT   NOT NULL UNIQUE, -- SHA-256 of the whole token, hexadecimal
    hint         TEXT   NOT NULL,        -- the last four characters of the token
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,                 -- NULL if the token does not expire
    last_used_at BIGINT                  -- to the minute
);

-- The idempotency keys of requests that created something. A row is valid for a day.
CREATE TABLE operator_requests (
    token_id    TEXT   NOT NULL REFERENCES operator_tokens (id) ON DELETE CASCADE,
    key_hash    TEXT   NOT NULL,         -- SHA-256 of the key, hexadecimal
    fingerprint TEXT   NOT NULL,         -- SHA-256 of the request without passwords, hexadecimal
    resource    TEXT   NOT NULL,         -- the id of what the request created
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (token_id, key_hash)
);
CREATE INDEX operator_requests_by_time ON operator_requests (created_at);

-- What programs of the operator store about accounts. A name and a date of birth are here only if
-- the account has no profile, because a profile needs all three.
CREATE TABLE account_names (
    account_id   TEXT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    external_id  TEXT UNIQUE,            -- the id of the account at the identity provider
    user_name    TEXT,                   -- the address as the identity provider writes it
    display_name TEXT,
    first_name   TEXT,
    last_name    TEXT,
    dob          TEXT
);

-- For lists of disabled accounts, in pages.
CREATE INDEX accounts_by_state ON accounts (active, id);

-- For lists of the aliases of all accounts, in pages.
CREATE INDEX aliases_by_address ON addresses (address) WHERE kind = 'alias' AND live;
