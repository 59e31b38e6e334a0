-- Grants mail servers access to their data, on PostgreSQL. Runs at every start, because the role may be created after the tables. Changes nothing if the role
-- already has all privileges.
--
-- The role `latchmail_mailserver` cannot log in; an operator grants it to the role that Dovecot and Postfix log in as. It is created here if the service's own
-- role may create roles (CREATEROLE), and otherwise by the operator: CREATE ROLE latchmail_mailserver NOLOGIN.

DO $$
DECLARE
    contract CONSTANT text[] := ARRAY['mailserver_version', 'mailserver_passwords', 'mailserver_login_names', 'mailserver_users', 'mailserver_domains',
                                      'mailserver_custom_domains', 'mailserver_aliases', 'mailserver_senders', 'mailserver_last_logins',
                                      'mailserver_results_key', 'mailserver_quotas',
                                      'mailserver_removals', 'mailserver_addresses', 'mailserver_forwards',
                                      'mailserver_separators', 'mailserver_catch_alls',
                                      'mailserver_alias_receipts', 'mailserver_submissions', 'mailserver_delivery_reports',
                                      'mailserver_sent_mail'];
    view_name text;
BEGIN
    -- Without this lock, services that start concurrently would change the same rows of the catalogue. Only this file and milter_postgres.sql use this number.
    PERFORM pg_advisory_xact_lock(6016254201);

    -- Up to PostgreSQL 14, every role may create tables in `public`. Only the schema's owner can change that.
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
                RAISE WARNING 'the role latchmail_mailserver is missing and this role may not create it, so mail servers cannot read their data';
                RETURN;
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- created concurrently by a service on another database of the server
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

    -- The privileges are granted on columns, because the privilege to update the table includes the privilege to lock the table (LOCK) and so to block the
    -- service's reads.
    IF NOT (has_column_privilege('latchmail_mailserver', 'mailserver_last_logins', 'app_password_id', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_last_logins', 'last_login', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_last_logins', 'last_login', 'UPDATE')) THEN
        GRANT INSERT (app_password_id, last_login), UPDATE (last_login) ON mailserver_last_logins TO latchmail_mailserver;
    END IF;
    IF NOT (has_column_privilege('latchmail_mailserver', 'mailserver_alias_receipts', 'address', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_alias_receipts', 'received', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_alias_receipts', 'last_received_at', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_alias_receipts', 'received', 'UPDATE')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_alias_receipts', 'last_received_at', 'UPDATE')) THEN
        GRANT INSERT (address, received, last_received_at), UPDATE (received, last_received_at)
            ON mailserver_alias_receipts TO latchmail_mailserver;
    END IF;
    IF NOT (has_column_privilege('latchmail_mailserver', 'mailserver_submissions', 'id', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_submissions', 'accepted_at', 'INSERT')) THEN
        GRANT INSERT (id, accepted_at) ON mailserver_submissions TO latchmail_mailserver;
    END IF;
    IF NOT (has_column_privilege('latchmail_mailserver', 'mailserver_delivery_reports', 'envelope', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_delivery_reports', 'recipient', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_delivery_reports', 'state', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_delivery_reports', 'detail', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_delivery_reports', 'reported_at', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_delivery_reports', 'state', 'UPDATE')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_delivery_reports', 'detail', 'UPDATE')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_delivery_reports', 'reported_at', 'UPDATE')) THEN
        GRANT INSERT (envelope, recipient, state, detail, reported_at), UPDATE (state, detail, reported_at)
            ON mailserver_delivery_reports TO latchmail_mailserver;
    END IF;
    IF NOT (has_column_privilege('latchmail_mailserver', 'mailserver_sent_mail', 'login', 'INSERT')
            AND has_column_privilege('latchmail_mailserver', 'mailserver_sent_mail', 'sent_at', 'INSERT')) THEN
        GRANT INSERT (login, message_id, in_reply_to, ancestors, people, sent_at)
            ON mailserver_sent_mail TO latchmail_mailserver;
    END IF;
END
$$;
