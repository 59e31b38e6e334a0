-- Corrects the file that mail servers read, so that it matches the directory. Changes only the rows that differ. Runs in a write transaction, at every start
-- and with every sweep. Differences have three causes: a failure during a commit (`src/db/sqlite/projection.rs` describes the guarantee), a file that was lost
-- or restored from a backup, and a write by a mail daemon.

DELETE FROM mailserver.mailserver_users AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_users d WHERE d.address = p.address AND d.mailbox = p.mailbox);
INSERT INTO mailserver.mailserver_users
    SELECT address, mailbox FROM temp.due_users EXCEPT SELECT address, mailbox FROM mailserver.mailserver_users;

DELETE FROM mailserver.mailserver_login_names AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_login_names d WHERE d.address = p.address AND d.login = p.login);
INSERT INTO mailserver.mailserver_login_names
    SELECT address, login FROM temp.due_login_names EXCEPT SELECT address, login FROM mailserver.mailserver_login_names;

DELETE FROM mailserver.projected_log_ins AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_passwords d
    WHERE d.app_password_id = p.app_password_id AND d.address = p.address AND d.selector = p.selector
        AND d.password = p.password AND d.kind = p.kind AND d.expires_at IS p.expires_at);
INSERT INTO mailserver.projected_log_ins
    SELECT app_password_id, address, selector, password, kind, expires_at FROM temp.due_passwords
    EXCEPT SELECT app_password_id, address, selector, password, kind, expires_at FROM mailserver.projected_log_ins;

DELETE FROM mailserver.mailserver_domains AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_domains d WHERE d.domain = p.domain);
INSERT INTO mailserver.mailserver_domains
    SELECT domain FROM temp.due_domains EXCEPT SELECT domain FROM mailserver.mailserver_domains;

DELETE FROM mailserver.mailserver_custom_domains AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_custom_domains d WHERE d.domain = p.domain);
INSERT INTO mailserver.mailserver_custom_domains
    SELECT domain FROM temp.due_custom_domains EXCEPT SELECT domain FROM mailserver.mailserver_custom_domains;

DELETE FROM mailserver.projected_aliases AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_aliases d
    WHERE d.address = p.address AND d.destination = p.destination AND d.expires_at IS p.expires_at);
INSERT INTO mailserver.projected_aliases
    SELECT address, destination, expires_at FROM temp.due_aliases
    EXCEPT SELECT address, destination, expires_at FROM mailserver.projected_aliases;

DELETE FROM mailserver.projected_senders AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_senders d
    WHERE d.address = p.address AND d.login = p.login AND d.expires_at IS p.expires_at);
INSERT INTO mailserver.projected_senders
    SELECT address, login, expires_at FROM temp.due_senders
    EXCEPT SELECT address, login, expires_at FROM mailserver.projected_senders;

DELETE FROM mailserver.mailserver_quotas AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_quotas d WHERE d.address = p.address AND d.storage = p.storage);
INSERT INTO mailserver.mailserver_quotas
    SELECT address, storage FROM temp.due_quotas EXCEPT SELECT address, storage FROM mailserver.mailserver_quotas;

DELETE FROM mailserver.mailserver_results_key AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_results_key d WHERE d.secret = p.secret);
INSERT INTO mailserver.mailserver_results_key
    SELECT secret FROM temp.due_results_key EXCEPT SELECT secret FROM mailserver.mailserver_results_key;

DELETE FROM mailserver.mailserver_removals AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_removals d WHERE d.address = p.address AND d.mailbox = p.mailbox);
INSERT INTO mailserver.mailserver_removals
    SELECT address, mailbox FROM temp.due_removals EXCEPT SELECT address, mailbox FROM mailserver.mailserver_removals;

DELETE FROM mailserver.mailserver_addresses AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_addresses d WHERE d.address = p.address AND d.domain = p.domain);
INSERT INTO mailserver.mailserver_addresses
    SELECT address, domain FROM temp.due_addresses EXCEPT SELECT address, domain FROM mailserver.mailserver_addresses;

DELETE FROM mailserver.mailserver_forwards AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_forwards d WHERE d.address = p.address AND d.destination = p.destination);
INSERT INTO mailserver.mailserver_forwards
    SELECT address, destination FROM temp.due_forwards EXCEPT SELECT address, destination FROM mailserver.mailserver_forwards;

DELETE FROM mailserver.mailserver_separators AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_separators d WHERE d.domain = p.domain AND d.separator = p.separator);
INSERT INTO mailserver.mailserver_separators
    SELECT domain, separator FROM temp.due_separators EXCEPT SELECT domain, separator FROM mailserver.mailserver_separators;

DELETE FROM mailserver.mailserver_catch_alls AS p WHERE NOT EXISTS (
    SELECT 1 FROM temp.due_catch_alls d WHERE d.domain = p.domain AND d.destination = p.destination);
INSERT INTO mailserver.mailserver_catch_alls
    SELECT domain, destination FROM temp.due_catch_alls EXCEPT SELECT domain, destination FROM mailserver.mailserver_catch_alls;
