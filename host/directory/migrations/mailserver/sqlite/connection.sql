-- Defines which rows the file that mail servers read must contain. Runs on every connection, after that file was attached as `mailserver`. The views correspond
-- to those in ../../postgres/ (0001_initial.sql and 0023_routes_and_deletions.sql). `src/db/sqlite/projection.rs` and repair.sql copy the rows of these views to the file.

-- FULL, as for the main file. Otherwise, a power failure could remove a confirmed alias from this file, and mail to the alias would bounce if the mail server
-- starts before the service has repaired the file.
PRAGMA mailserver.synchronous = FULL;

CREATE TEMP VIEW due_users AS
    SELECT address, id AS mailbox FROM main.accounts WHERE active;

CREATE TEMP VIEW due_login_names AS
    SELECT address, login_name AS login FROM main.accounts WHERE active AND login_name IS NOT NULL;

CREATE TEMP VIEW due_passwords AS
    SELECT p.id AS app_password_id, a.address, p.selector, '{SHA256.HEX}' || p.secret_hash AS password, p.kind, p.expires_at
    FROM main.app_passwords p JOIN main.accounts a ON a.id = p.account_id
    WHERE (a.active OR a.removing) AND p.suspended_at IS NULL;

CREATE TEMP VIEW due_removals AS
    SELECT address, id AS mailbox FROM main.accounts WHERE removing AND NOT active;

CREATE TEMP VIEW due_addresses AS
    SELECT address, domain FROM main.addresses;

CREATE TEMP VIEW due_forwards AS
    SELECT address, forward_to AS destination FROM main.accounts WHERE active AND forward_to IS NOT NULL;

CREATE TEMP VIEW due_separators AS
    SELECT s.domain, s.separator FROM main.domain_settings s
    WHERE s.separator IS NOT NULL AND (
        (s.owner IS NULL AND EXISTS (SELECT 1 FROM main.platform_domains p WHERE p.domain = s.domain))
        OR EXISTS (SELECT 1 FROM main.domains o WHERE o.domain = s.domain AND o.account_id = s.owner AND o.verified_at IS NOT NULL));

CREATE TEMP VIEW due_catch_alls AS
    SELECT s.domain, a.address AS destination
    FROM main.domain_settings s JOIN main.accounts a ON a.id = s.catch_all_account
    WHERE a.active AND (
        (s.owner IS NULL AND EXISTS (SELECT 1 FROM main.platform_domains p WHERE p.domain = s.domain))
        OR (s.owner = s.catch_all_account
            AND EXISTS (SELECT 1 FROM main.domains o WHERE o.domain = s.domain AND o.account_id = s.owner AND o.verified_at IS NOT NULL)));

CREATE TEMP VIEW due_domains AS
    SELECT domain FROM main.platform_domains
    UNION
    SELECT domain FROM main.domains WHERE verified_at IS NOT NULL;

CREATE TEMP VIEW due_custom_domains AS
    SELECT domain FROM main.domains WHERE verified_at IS NOT NULL
    EXCEPT
    SELECT domain FROM main.platform_domains;

CREATE TEMP VIEW due_aliases AS
    SELECT d.address, a.address AS destination, d.expires_at
    FROM main.addresses d JOIN main.accounts a ON a.id = d.account_id
    WHERE d.kind = 'alias' AND d.live AND d.active AND a.active AND (
        EXISTS (SELECT 1 FROM main.platform_domains p WHERE p.domain = d.domain)
        OR EXISTS (SELECT 1 FROM main.domains o WHERE o.domain = d.domain AND o.account_id = d.account_id AND o.verified_at IS NOT NULL));

CREATE TEMP VIEW due_senders AS
    SELECT address, address AS login, NULL AS expires_at FROM main.accounts WHERE active
    UNION ALL
    SELECT address, destination AS login, expires_at FROM temp.due_aliases;

CREATE TEMP VIEW due_quotas AS
    SELECT a.address, q.storage
    FROM main.accounts a JOIN main.plan_quotas q
        ON q.plan = COALESCE((SELECT p.plan FROM main.plan_quotas p WHERE p.plan = a.plan), 'default')
    WHERE a.active AND q.storage IS NOT NULL;

CREATE TEMP VIEW due_results_key AS
    SELECT secret FROM main.results_key;
