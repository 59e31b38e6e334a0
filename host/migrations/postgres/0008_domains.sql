-- Custom domains, and the platform's that an operator added.

-- What an account claims. Claims of several accounts on one domain stand side by side until one of them is verified.
CREATE TABLE domains (
    account_id       TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    domain           TEXT   NOT NULL,           -- lower case, ASCII (IDNA)
    challenge        TEXT   NOT NULL,           -- the token that its owner publishes
    created_at       BIGINT NOT NULL,
    verified_at      BIGINT,                    -- NULL while pending
    dkim_selector    TEXT,                      -- from here on NULL while pending
    dkim_public_key  TEXT,                      -- SubjectPublicKeyInfo, DER, base64: the p= of its record (RFC 6376, section 3.6.1)
    dkim_private_key BYTEA,                     -- PKCS #8, DER, sealed under the service's key
    PRIMARY KEY (account_id, domain),
    CHECK ((verified_at IS NULL) = (dkim_selector IS NULL)
        AND (verified_at IS NULL) = (dkim_public_key IS NULL)
        AND (verified_at IS NULL) = (dkim_private_key IS NULL))
);
-- Of all who claim a domain one has it.
CREATE UNIQUE INDEX domains_active ON domains (domain) WHERE verified_at IS NOT NULL;
CREATE INDEX domains_by_domain ON domains (domain);

-- What there is on a domain is asked when it is claimed, verified and released.
ALTER TABLE addresses ADD COLUMN domain TEXT GENERATED ALWAYS AS (split_part(address, '@', 2)) STORED;
CREATE INDEX addresses_by_domain ON addresses (domain);

-- Those without are the configuration's, written at every start.
ALTER TABLE platform_domains ADD COLUMN added_at BIGINT;  -- by the operator, beside the configuration

-- Domains that mail is taken for: the platform's, and those that an account verified.
CREATE OR REPLACE VIEW mailserver_domains AS
    SELECT domain FROM platform_domains
    UNION
    SELECT domain FROM domains WHERE verified_at IS NOT NULL;
