-- The quota of each plan in the configuration, which the service writes at each start. An account whose plan has no row has the quota of the plan `default`.
CREATE TABLE plan_quotas (
    plan    TEXT   PRIMARY KEY,
    storage BIGINT                              -- bytes; NULL if the plan has no limit
);
