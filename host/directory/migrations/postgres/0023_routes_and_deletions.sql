-- The address to which Postfix forwards copies of the account's mail. NULL if mail is not
-- forwarded.
ALTER TABLE accounts ADD COLUMN forward_to TEXT;
-- The time at which the account is deleted. The account is disabled until then. NULL if the account
-- is not to be deleted.
ALTER TABLE accounts ADD COLUMN deletes_at BIGINT;
-- Whether the deletion has begun. The service can then log in to the mailbox, and the account can no
-- longer be enabled.
ALTER TABLE accounts ADD COLUMN removing BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX accounts_by_deletion ON accounts (deletes_at) WHERE deletes_at IS NOT NULL;
-- For lists of the accounts that are not to be deleted, in pages.
CREATE INDEX accounts_to_stay ON accounts (id) WHERE deletes_at IS NULL;
CREATE INDEX accounts_by_forward ON accounts (forward_to) WHERE forward_to IS NOT NULL;

-- How mail is delivered to addresses of a domain that are no account and no alias.
CREATE TABLE domain_settings (
    domain            TEXT PRIMARY KEY, -- in lower case, ASCII (IDNA)
    owner             TEXT REFERENCES accounts (id) ON DELETE CASCADE, -- the account that has verified
                                        -- the domain. NULL for a platform domain. The settings apply
                                        -- only while this is the owner
    catch_all         TEXT,             -- an address of the account that receives mail for unknown
                                        -- addresses. NULL if such mail is refused
    catch_all_account TEXT REFERENCES accounts (id) ON DELETE SET NULL, -- the account with this address
    separator         TEXT              -- the character before the extension of an address. NULL if
                                        -- addresses have no extensions
);
CREATE INDEX domain_settings_by_owner ON domain_settings (owner);
CREATE INDEX domain_settings_by_catch_all ON domain_settings (catch_all_account);

-- The service logs in to the mailbox of an account whose deletion has begun. Such an account has no
-- other app passwords.
CREATE OR REPLACE VIEW mailserver_passwords WITH (security_barrier) AS
    SELECT a.address, p.selector, p.id AS app_password_id, '{SHA256.HEX}' || p.secret_hash AS password, p.kind
    FROM app_passwords p JOIN accounts a ON a.id = p.account_id
    WHERE (a.active OR a.removing) AND p.suspended_at IS NULL
        AND (p.expires_at IS NULL OR p.expires_at > extract(epoch FROM statement_timestamp()) * 1000);

-- Mailboxes that are being deleted: they receive no mail, but the service can log in.
CREATE VIEW mailserver_removals WITH (security_barrier) AS
    SELECT address, id AS mailbox FROM accounts WHERE removing AND NOT active;

-- Every address that an account has or had, and every address that the operator reserves. No
-- catch-all receives mail for these addresses.
CREATE VIEW mailserver_addresses WITH (security_barrier) AS
    SELECT address FROM addresses;

-- The addresses to which copies of the mail of accounts are forwarded.
CREATE VIEW mailserver_forwards WITH (security_barrier) AS
    SELECT address, forward_to AS destination FROM accounts WHERE active AND forward_to IS NOT NULL;

-- The domains whose addresses can have an extension, and the character before the extension.
CREATE VIEW mailserver_separators WITH (security_barrier) AS
    SELECT s.domain, s.separator FROM domain_settings s
    WHERE s.separator IS NOT NULL AND (
        (s.owner IS NULL AND EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = s.domain))
        OR EXISTS (SELECT 1 FROM domains o WHERE o.domain = s.domain AND o.account_id = s.owner AND o.verified_at IS NOT NULL));

-- The accounts that receive mail for unknown addresses of a domain.
CREATE VIEW mailserver_catch_alls WITH (security_barrier) AS
    SELECT s.domain, a.address AS destination
    FROM domain_settings s JOIN accounts a ON a.id = s.catch_all_account
    WHERE a.active AND (
        (s.owner IS NULL AND EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = s.domain))
        OR (s.owner = s.catch_all_account
            AND EXISTS (SELECT 1 FROM domains o WHERE o.domain = s.domain AND o.account_id = s.owner AND o.verified_at IS NOT NULL)));
