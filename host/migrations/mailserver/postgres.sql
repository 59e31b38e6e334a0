-- Who may read what mail servers read, on PostgreSQL. Run at every start, since the role may be made after the tables: it
-- changes nothing where all is as it should be.
--
-- The role `latchmail_mailserver` cannot log in; an operator grants it to the role that Dovecot and Postfix log in as. It is made
-- here where the service's own role may make roles (CREATEROLE), else by the operator: CREATE ROLE latchmail_mailserver NOLOGIN.

DO $$
DECLARE
    contract CONSTANT text[] := ARRAY['mailserver_version', 'mailserver_passwords', 'mailserver_users', 'mailserver_domains',
                                      'mailserver_aliases', 'mailserver_senders', 'mailserver_last_logins'];
    view_name text;
BEGIN
    -- Two services that start at once would otherwise change the same rows of the catalogue. The number is this file's own.
    PERFORM pg_advisory_xact_lock(6016254201);

    -- Up to PostgreSQL 14 everybody may make tables in `public`. Only the schema's owner can change that.
    BEGIN
        IF has_schema_privilege('public', current_schema(), 'CREATE') THEN
            EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema());
        END IF;
    EXCEPTION WHEN insufficient_privilege THEN
        RAISE WARNING 'every role may create tables in the schema %; its owner should REVOKE CREATE FROM PUBLIC', current_schema();
    END;

    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'latchmail_mailserver') THEN
        BEGIN
            CREATE ROLE latchmail_mailserver NOLOGIN;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE WARNING 'the role latchmail_mailserver is missing and this role may not create it: mail servers cannot be given what they read';
                RETURN;
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- made this moment by a service on another database of the server
        END;
    END IF;

    IF NOT has_schema_privilege('latchmail_mailserver', current_schema(), 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO latchmail_mailserver', current_schema());
    END IF;
    FOREACH view_name IN ARRAY contract LOOP
        IF NOT has_table_privilege('latchmail_mailserver', view_name, 'SELECT') THEN
            EXECUTE format('GRANT SELECT ON %I TO latchmail_mailserver', view_name);
        END IF;
    END LOOP;

    -- By column: a right to update the whole table would be a right to lock it against the service's reading (LOCK).
    IF NOT (has_column_privilege('latchmail_mailserver', 'mailserver_last_logins', 'app_password_id', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_last_logins', 'last_login', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_last_logins', 'last_login', 'UPDATE')) THEN
        GRANT INSERT (app_password_id, last_login), UPDATE (last_login) ON mailserver_last_logins TO latchmail_mailserver;
    END IF;
END
$$;
