-- What the mail server tells of log-ins: the one table that its role may write, and the kind by which it knows whose it tells.
--
-- No foreign key: with one, whoever writes here could lock the app password that it points at, and hold up its revocation.

CREATE TABLE mailserver_last_logins (
    app_password_id TEXT   PRIMARY KEY,
    last_login      BIGINT NOT NULL             -- seconds since the epoch, UTC, as Dovecot has them
);

CREATE OR REPLACE VIEW mailserver_passwords WITH (security_barrier) AS
    SELECT a.address, p.selector, p.id AS app_password_id, '{SHA256.HEX}' || p.secret_hash AS password, p.kind
    FROM app_passwords p JOIN accounts a ON a.id = p.account_id
    WHERE a.active AND (p.expires_at IS NULL OR p.expires_at > extract(epoch FROM statement_timestamp()) * 1000);
