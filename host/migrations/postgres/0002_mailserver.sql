-- What mail servers read: the contract `mailserver_*`, version 1.
--
-- Columns are only ever added under one version. The views run with their owner's rights, so that their reader needs none on the
-- tables behind them; `security_barrier` keeps a reader's own functions from seeing rows that a view leaves out. Who may read
-- them is settled at every start by ../mailserver/postgres.sql. SQLite has no role to grant to and keeps the same rows in a file
-- of their own: ../mailserver/sqlite/.

-- The version of this contract: one row.
CREATE VIEW mailserver_version AS
    SELECT 1 AS version;

-- Log-ins. The log-in name is `address`; what a person types as the password begins with `selector`. `password` is the scheme
-- and the digest as Dovecot reads them.
CREATE VIEW mailserver_passwords WITH (security_barrier) AS
    SELECT a.address, p.selector, p.id AS app_password_id, '{SHA256.HEX}' || p.secret_hash AS password
    FROM app_passwords p JOIN accounts a ON a.id = p.account_id
    WHERE a.active AND (p.expires_at IS NULL OR p.expires_at > extract(epoch FROM statement_timestamp()) * 1000);

-- Mailboxes: the address that mail for it carries, and the name of its folder on the mail server.
CREATE VIEW mailserver_users WITH (security_barrier) AS
    SELECT address, id AS mailbox FROM accounts WHERE active;

-- Domains that mail is taken for.
CREATE VIEW mailserver_domains AS
    SELECT domain FROM platform_domains;

-- Further addresses, and where their mail goes.
CREATE VIEW mailserver_aliases WITH (security_barrier) AS
    SELECT d.address, a.address AS destination
    FROM addresses d JOIN accounts a ON a.id = d.account_id
    WHERE d.kind = 'alias' AND d.live AND d.active AND a.active;

-- Which log-in may send from which address.
CREATE VIEW mailserver_senders WITH (security_barrier) AS
    SELECT address, address AS login FROM accounts WHERE active
    UNION ALL
    SELECT address, destination AS login FROM mailserver_aliases;
