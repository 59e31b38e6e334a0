-- The quota of each plan in the configuration, which the service writes at each start. An account whose plan has no row has the quota of the plan `default`.
CREATE TABLE plan_quotas (
    plan    TEXT   PRIMARY KEY,
    storage BIGINT                              -- bytes; NULL if the plan has no limit
);

-- The quotas of mailboxes, in bytes. An account without a limit has no row.
CREATE VIEW mailserver_quotas WITH (security_barrier) AS
    SELECT a.address, q.storage
    FROM accounts a JOIN plan_quotas q
        ON q.plan = COALESCE((SELECT p.plan FROM plan_quotas p WHERE p.plan = a.plan), 'default')
    WHERE a.active AND q.storage IS NOT NULL;
