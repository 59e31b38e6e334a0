-- Keeps the file that mail servers read in sync with the directory. Runs on every connection, after that file was attached as `mailserver`. Temporary triggers
-- can write to attached databases, so every change of the directory changes the projection in the same transaction, whichever query makes the change.
--
-- The due_* views define what the file must contain. They correspond to the views in ../../postgres/0001_initial.sql. A trigger deletes
-- the rows for the old values of a changed row and inserts the rows for its new values. Deletions by foreign key also fire the triggers.

-- FULL, as for the main file: an alias whose creation was confirmed must not bounce after a power failure because a mail server started before the service
-- could repair the file.
PRAGMA mailserver.synchronous = FULL;

CREATE TEMP VIEW due_users AS
    SELECT address, id AS mailbox FROM main.accounts WHERE active;

CREATE TEMP VIEW due_passwords AS
    SELECT p.id AS app_password_id, a.address, p.selector, '{SHA256.HEX}' || p.secret_hash AS password, p.kind, p.expires_at
    FROM main.app_passwords p JOIN main.accounts a ON a.id = p.account_id
    WHERE a.active;

CREATE TEMP VIEW due_domains AS
    SELECT domain FROM main.platform_domains
    UNION
    SELECT domain FROM main.domains WHERE verified_at IS NOT NULL;

CREATE TEMP VIEW due_aliases AS
    SELECT d.address, a.address AS destination
    FROM main.addresses d JOIN main.accounts a ON a.id = d.account_id
    WHERE d.kind = 'alias' AND d.live AND d.active AND a.active AND (
        EXISTS (SELECT 1 FROM main.platform_domains p WHERE p.domain = d.domain)
        OR EXISTS (SELECT 1 FROM main.domains o WHERE o.domain = d.domain AND o.account_id = d.account_id AND o.verified_at IS NOT NULL));

CREATE TEMP VIEW due_senders AS
    SELECT address, address AS login FROM main.accounts WHERE active
    UNION ALL
    SELECT address, destination AS login FROM temp.due_aliases;

-- accounts

CREATE TEMP TRIGGER project_accounts_insert AFTER INSERT ON main.accounts BEGIN
    DELETE FROM mailserver_users WHERE address = NEW.address;
    DELETE FROM projected_log_ins WHERE address = NEW.address;
    DELETE FROM mailserver_aliases WHERE destination = NEW.address;
    DELETE FROM mailserver_senders WHERE login = NEW.address;
    INSERT INTO mailserver_users SELECT * FROM due_users WHERE address = NEW.address;
    INSERT INTO projected_log_ins SELECT * FROM due_passwords WHERE address = NEW.address;
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases WHERE destination = NEW.address;
    INSERT INTO mailserver_senders SELECT * FROM due_senders WHERE login = NEW.address;
END;

CREATE TEMP TRIGGER project_accounts_update AFTER UPDATE OF id, address, active ON main.accounts BEGIN
    DELETE FROM mailserver_users WHERE address = OLD.address;
    DELETE FROM projected_log_ins WHERE address = OLD.address;
    DELETE FROM mailserver_aliases WHERE destination = OLD.address;
    DELETE FROM mailserver_senders WHERE login = OLD.address;
    DELETE FROM mailserver_users WHERE address = NEW.address;
    DELETE FROM projected_log_ins WHERE address = NEW.address;
    DELETE FROM mailserver_aliases WHERE destination = NEW.address;
    DELETE FROM mailserver_senders WHERE login = NEW.address;
    INSERT INTO mailserver_users SELECT * FROM due_users WHERE address = NEW.address;
    INSERT INTO projected_log_ins SELECT * FROM due_passwords WHERE address = NEW.address;
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases WHERE destination = NEW.address;
    INSERT INTO mailserver_senders SELECT * FROM due_senders WHERE login = NEW.address;
END;

CREATE TEMP TRIGGER project_accounts_delete AFTER DELETE ON main.accounts BEGIN
    DELETE FROM mailserver_users WHERE address = OLD.address;
    DELETE FROM projected_log_ins WHERE address = OLD.address;
    DELETE FROM mailserver_aliases WHERE destination = OLD.address;
    DELETE FROM mailserver_senders WHERE login = OLD.address;
END;

-- addresses

CREATE TEMP TRIGGER project_addresses_insert AFTER INSERT ON main.addresses BEGIN
    DELETE FROM mailserver_aliases WHERE address = NEW.address;
    DELETE FROM mailserver_senders WHERE address = NEW.address;
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases WHERE address = NEW.address;
    INSERT INTO mailserver_senders SELECT * FROM due_senders WHERE address = NEW.address;
END;

CREATE TEMP TRIGGER project_addresses_update AFTER UPDATE OF address, kind, account_id, live, active ON main.addresses BEGIN
    DELETE FROM mailserver_aliases WHERE address = OLD.address;
    DELETE FROM mailserver_senders WHERE address = OLD.address;
    DELETE FROM mailserver_aliases WHERE address = NEW.address;
    DELETE FROM mailserver_senders WHERE address = NEW.address;
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases WHERE address = NEW.address;
    INSERT INTO mailserver_senders SELECT * FROM due_senders WHERE address = NEW.address;
END;

CREATE TEMP TRIGGER project_addresses_delete AFTER DELETE ON main.addresses BEGIN
    DELETE FROM mailserver_aliases WHERE address = OLD.address;
    DELETE FROM mailserver_senders WHERE address = OLD.address;
END;

-- app_passwords

CREATE TEMP TRIGGER project_app_passwords_insert AFTER INSERT ON main.app_passwords BEGIN
    DELETE FROM projected_log_ins WHERE app_password_id = NEW.id;
    INSERT INTO projected_log_ins SELECT * FROM due_passwords WHERE app_password_id = NEW.id;
END;

CREATE TEMP TRIGGER project_app_passwords_update AFTER UPDATE OF id, account_id, kind, selector, secret_hash, expires_at ON main.app_passwords BEGIN
    DELETE FROM projected_log_ins WHERE app_password_id = OLD.id;
    DELETE FROM projected_log_ins WHERE app_password_id = NEW.id;
    INSERT INTO projected_log_ins SELECT * FROM due_passwords WHERE app_password_id = NEW.id;
END;

CREATE TEMP TRIGGER project_app_passwords_delete AFTER DELETE ON main.app_passwords BEGIN
    DELETE FROM projected_log_ins WHERE app_password_id = OLD.id;
END;

-- platform_domains, domains: a domain can be in both tables

CREATE TEMP TRIGGER project_platform_domains_insert AFTER INSERT ON main.platform_domains BEGIN
    DELETE FROM mailserver_domains WHERE domain = NEW.domain;
    INSERT INTO mailserver_domains SELECT * FROM due_domains WHERE domain = NEW.domain;
END;

CREATE TEMP TRIGGER project_platform_domains_update AFTER UPDATE OF domain ON main.platform_domains BEGIN
    DELETE FROM mailserver_domains WHERE domain IN (OLD.domain, NEW.domain);
    INSERT INTO mailserver_domains SELECT * FROM due_domains WHERE domain IN (OLD.domain, NEW.domain);
END;

CREATE TEMP TRIGGER project_platform_domains_delete AFTER DELETE ON main.platform_domains BEGIN
    DELETE FROM mailserver_domains WHERE domain = OLD.domain;
    INSERT INTO mailserver_domains SELECT * FROM due_domains WHERE domain = OLD.domain;
END;

CREATE TEMP TRIGGER project_domains_insert AFTER INSERT ON main.domains BEGIN
    DELETE FROM mailserver_domains WHERE domain = NEW.domain;
    INSERT INTO mailserver_domains SELECT * FROM due_domains WHERE domain = NEW.domain;
END;

CREATE TEMP TRIGGER project_domains_update AFTER UPDATE OF domain, verified_at ON main.domains BEGIN
    DELETE FROM mailserver_domains WHERE domain IN (OLD.domain, NEW.domain);
    INSERT INTO mailserver_domains SELECT * FROM due_domains WHERE domain IN (OLD.domain, NEW.domain);
END;

CREATE TEMP TRIGGER project_domains_delete AFTER DELETE ON main.domains BEGIN
    DELETE FROM mailserver_domains WHERE domain = OLD.domain;
    INSERT INTO mailserver_domains SELECT * FROM due_domains WHERE domain = OLD.domain;
END;

-- The aliases on these domains. A pending claim changes nothing.

CREATE TEMP TRIGGER project_platform_domains_aliases_insert AFTER INSERT ON main.platform_domains BEGIN
    DELETE FROM mailserver_aliases WHERE address IN (SELECT address FROM main.addresses WHERE domain = NEW.domain AND kind = 'alias');
    DELETE FROM mailserver_senders WHERE address IN (SELECT address FROM main.addresses WHERE domain = NEW.domain AND kind = 'alias');
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = NEW.domain AND kind = 'alias');
    INSERT INTO mailserver_senders SELECT * FROM due_senders
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = NEW.domain AND kind = 'alias');
END;

CREATE TEMP TRIGGER project_platform_domains_aliases_update AFTER UPDATE OF domain ON main.platform_domains BEGIN
    DELETE FROM mailserver_aliases WHERE address IN (SELECT address FROM main.addresses WHERE domain IN (OLD.domain, NEW.domain) AND kind = 'alias');
    DELETE FROM mailserver_senders WHERE address IN (SELECT address FROM main.addresses WHERE domain IN (OLD.domain, NEW.domain) AND kind = 'alias');
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases
        WHERE address IN (SELECT address FROM main.addresses WHERE domain IN (OLD.domain, NEW.domain) AND kind = 'alias');
    INSERT INTO mailserver_senders SELECT * FROM due_senders
        WHERE address IN (SELECT address FROM main.addresses WHERE domain IN (OLD.domain, NEW.domain) AND kind = 'alias');
END;

CREATE TEMP TRIGGER project_platform_domains_aliases_delete AFTER DELETE ON main.platform_domains BEGIN
    DELETE FROM mailserver_aliases WHERE address IN (SELECT address FROM main.addresses WHERE domain = OLD.domain AND kind = 'alias');
    DELETE FROM mailserver_senders WHERE address IN (SELECT address FROM main.addresses WHERE domain = OLD.domain AND kind = 'alias');
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = OLD.domain AND kind = 'alias');
    INSERT INTO mailserver_senders SELECT * FROM due_senders
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = OLD.domain AND kind = 'alias');
END;

CREATE TEMP TRIGGER project_domains_aliases_insert AFTER INSERT ON main.domains
WHEN NEW.verified_at IS NOT NULL BEGIN
    DELETE FROM mailserver_aliases WHERE address IN (SELECT address FROM main.addresses WHERE domain = NEW.domain AND kind = 'alias');
    DELETE FROM mailserver_senders WHERE address IN (SELECT address FROM main.addresses WHERE domain = NEW.domain AND kind = 'alias');
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = NEW.domain AND kind = 'alias');
    INSERT INTO mailserver_senders SELECT * FROM due_senders
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = NEW.domain AND kind = 'alias');
END;

CREATE TEMP TRIGGER project_domains_aliases_update AFTER UPDATE OF account_id, domain, verified_at ON main.domains
WHEN OLD.verified_at IS NOT NULL OR NEW.verified_at IS NOT NULL BEGIN
    DELETE FROM mailserver_aliases WHERE address IN (SELECT address FROM main.addresses WHERE domain IN (OLD.domain, NEW.domain) AND kind = 'alias');
    DELETE FROM mailserver_senders WHERE address IN (SELECT address FROM main.addresses WHERE domain IN (OLD.domain, NEW.domain) AND kind = 'alias');
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases
        WHERE address IN (SELECT address FROM main.addresses WHERE domain IN (OLD.domain, NEW.domain) AND kind = 'alias');
    INSERT INTO mailserver_senders SELECT * FROM due_senders
        WHERE address IN (SELECT address FROM main.addresses WHERE domain IN (OLD.domain, NEW.domain) AND kind = 'alias');
END;

CREATE TEMP TRIGGER project_domains_aliases_delete AFTER DELETE ON main.domains
WHEN OLD.verified_at IS NOT NULL BEGIN
    DELETE FROM mailserver_aliases WHERE address IN (SELECT address FROM main.addresses WHERE domain = OLD.domain AND kind = 'alias');
    DELETE FROM mailserver_senders WHERE address IN (SELECT address FROM main.addresses WHERE domain = OLD.domain AND kind = 'alias');
    INSERT INTO mailserver_aliases SELECT * FROM due_aliases
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = OLD.domain AND kind = 'alias');
    INSERT INTO mailserver_senders SELECT * FROM due_senders
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = OLD.domain AND kind = 'alias');
END;
